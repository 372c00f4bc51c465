//===- CheckSource.h - Input that no parser survives ------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every program that reads modules from outside calls this check before MLIR's
// parser sees them.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_SUPPORT_CHECKSOURCE_H
#define ATTN_SUPPORT_CHECKSOURCE_H

#include "mlir/Support/LLVM.h"
#include "llvm/Support/MemoryBufferRef.h"

#include <optional>
#include <string>

namespace mlir {
class MLIRContext;

namespace attn {

/// Where and why MLIR's parser cannot read a text. Lines and columns begin with
/// 1.
struct SourceExcess {
  size_t line, column;
  std::string message;
};

/// The first place at which `text` is nested so deeply that parsers and passes
/// overflow the stack of a thread.
std::optional<SourceExcess> findSourceExcess(StringRef text);

/// Checks that MLIR's parser can read `buffer`, and reports to `context` why it
/// cannot. Text must not be nested so deeply that parsers and passes overflow
/// the stack of a thread. Bytecode is accepted only if that is allowed: damaged
/// bytecode can crash MLIR's reader.
LogicalResult checkSource(llvm::MemoryBufferRef buffer, MLIRContext *context,
                          bool allowBytecode = false);

} // namespace attn
} // namespace mlir

#endif // ATTN_SUPPORT_CHECKSOURCE_H
