//===- CUDAToolkit.h - Finding NVIDIA's tools -------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where the assembler and the device library are on this machine.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TARGET_CUDATOOLKIT_H
#define ATTN_TARGET_CUDATOOLKIT_H

#include "llvm/ADT/StringRef.h"

#include <string>

namespace mlir::attn {

/// Path of `ptxas`, empty if there is none. Looks in `toolkit` if that is not
/// empty, and else in $CUDA_ROOT, $CUDA_HOME, $CUDA_PATH, $PATH, the package
/// nvidia-cuda-nvcc next to Attn's package for Python and of the virtual
/// environment $VIRTUAL_ENV, the folder found when the project was configured,
/// and /usr/local/cuda.
std::string findPtxas(llvm::StringRef toolkit = {});

/// Path of `libdevice.10.bc`, empty if there is none. Looks in the same places
/// but $PATH.
std::string findLibdevice(llvm::StringRef toolkit = {});

/// The places where the functions above look, in their order, for messages.
std::string describeToolkits(llvm::StringRef toolkit = {});

} // namespace mlir::attn

#endif // ATTN_TARGET_CUDATOOLKIT_H
