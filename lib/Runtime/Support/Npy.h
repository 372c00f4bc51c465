//===- Npy.h - NumPy's .npy files -------------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads and writes tensors as .npy files. Versions 1, 2 and 3 of the format are
// read, version 1 is written.
//
// bf16 is not a dtype of NumPy. The common package for it, ml_dtypes, writes it
// as two raw bytes ('<V2'). Files are written likewise, and 'bfloat16' is
// understood, too. In NumPy: `a.view(ml_dtypes.bfloat16)`.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_RUNTIME_SUPPORT_NPY_H
#define ATTN_LIB_RUNTIME_SUPPORT_NPY_H

#include "HostTensor.h"

namespace attnrt {

/// Reads a file into a row-major tensor of the file's dtype.
int32_t readNpy(const std::string &path, HostTensor &tensor);

/// Writes a tensor in row-major order. The file appears under its name only
/// when it is complete.
int32_t writeNpy(const std::string &path, const HostTensor &tensor);

} // namespace attnrt

#endif // ATTN_LIB_RUNTIME_SUPPORT_NPY_H
