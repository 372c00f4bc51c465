//===- AttnTileToVector.h - Tiled programs on the host ------------*- C++
//-*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The pipelines that take kernels to the LLVM dialect for the host.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_CONVERSION_ATTNTILETOVECTOR_ATTNTILETOVECTOR_H
#define ATTN_CONVERSION_ATTNTILETOVECTOR_ATTNTILETOVECTOR_H

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"

namespace mlir {
class RewritePatternSet;
} // namespace mlir

namespace mlir::attn {

/// Properties of the processor for the lowering to vectors.
struct HostLoweringOptions : PassPipelineOptions<HostLoweringOptions> {
  Option<int64_t> vectorBits{*this, "vector-bits",
                             llvm::cl::desc("Width of a vector register"),
                             llvm::cl::init(512)};
  Option<int64_t> numRegisters{*this, "num-registers",
                               llvm::cl::desc("Number of vector registers"),
                               llvm::cl::init(32)};
  Option<bool> parallel{
      *this, "parallel",
      llvm::cl::desc("Run work items through the runtime library's threads"),
      llvm::cl::init(true)};
};

/// Appends the passes that turn kernels and launches into functions and calls
/// on upstream dialects, vectorised and outlined for the runtime library. The
/// pass manager is anchored on `builtin.module`.
void buildHostKernelPipeline(OpPassManager &pm,
                             const HostLoweringOptions &options);

/// Appends the upstream passes that lower the results of
/// `buildHostKernelPipeline`, and functions on memrefs around them, to the LLVM
/// dialect.
void buildHostToLLVMPipeline(OpPassManager &pm);

/// Both of the above, one after the other.
void buildHostLoweringPipeline(OpPassManager &pm,
                               const HostLoweringOptions &options);

/// Registers `attn-host-lowering-pipeline`.
void registerHostLoweringPipeline();

/// Expands `math.exp2` on f32 and vectors of f32.
void populateExpandExp2Patterns(RewritePatternSet &patterns);

} // namespace mlir::attn

#endif // ATTN_CONVERSION_ATTNTILETOVECTOR_ATTNTILETOVECTOR_H
