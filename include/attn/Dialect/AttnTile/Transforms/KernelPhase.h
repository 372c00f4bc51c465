//===- KernelPhase.h - Order of the passes on kernels ----------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each pass on a kernel states the phases that it expects and the one that it
// leaves. A kernel in another phase is an error, so that a pass in the wrong
// place of a pipeline never silently finds nothing to change.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNTILE_TRANSFORMS_KERNELPHASE_H
#define ATTN_DIALECT_ATTNTILE_TRANSFORMS_KERNELPHASE_H

#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"

#include <optional>

namespace mlir::attn_tile {

/// Phases of a kernel in the order in which passes lead through them. The
/// operations of the kernel say its phase.
enum class KernelPhase {
  /// Tiles are loaded and stored where they are used.
  Plain,
  /// Tiles are staged in pipes.
  Staged,
  /// The kernel has a layout of threads, and roles if its warps have any.
  Specialized,
  /// Copies go through tensor maps.
  Final,
};

StringRef stringifyKernelPhase(KernelPhase phase);

KernelPhase getKernelPhase(KernelOp kernel);

/// The phases of kernels before and after a pass.
struct PhaseContract {
  KernelPhase earliest;
  KernelPhase latest;
  /// The phase of a kernel after the pass, unless there was nothing to change.
  /// Without one, the pass never changes the phase.
  std::optional<KernelPhase> leaves = std::nullopt;
};

/// Reports if `pass` does not expect the phase of `kernel`.
LogicalResult verifyExpectedPhase(KernelOp kernel, StringRef pass,
                                  const PhaseContract &contract);

/// Reports if `kernel`, which was in the phase `before`, is now in one that
/// `pass` does not leave.
LogicalResult verifyLeftPhase(KernelOp kernel, StringRef pass,
                              const PhaseContract &contract,
                              KernelPhase before);

/// The base of passes on kernels. `Derived` has the contract `phases` and the
/// method `runOnKernel`.
template <typename Derived, template <typename> class PassBase>
struct KernelPass : PassBase<Derived> {
  using Base = KernelPass;
  using PassBase<Derived>::PassBase;

  void runOnOperation() final {
    KernelOp kernel = this->getOperation();
    StringRef pass = this->getArgument();
    if (failed(verifyExpectedPhase(kernel, pass, Derived::phases)))
      return this->signalPassFailure();
    KernelPhase before = getKernelPhase(kernel);
    static_cast<Derived *>(this)->runOnKernel();
    if (failed(verifyLeftPhase(kernel, pass, Derived::phases, before)))
      this->signalPassFailure();
  }
};

} // namespace mlir::attn_tile

#endif // ATTN_DIALECT_ATTNTILE_TRANSFORMS_KERNELPHASE_H
