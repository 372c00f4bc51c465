//===- MatmulInputs.h - Matrices that targets multiply ----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The element types and the storage of matrices that kernels multiply.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNTILE_IR_MATMULINPUTS_H
#define ATTN_DIALECT_ATTNTILE_IR_MATMULINPUTS_H

#include "attn/Interfaces/Target.h"

#include <optional>
#include <string>

namespace mlir::attn_tile {

/// The inputs of a matmul: their element types, and whether they are stored
/// transposed, as [K, M] and [N, K].
struct MatmulInputs {
  Type lhs, rhs;
  bool transposeLhs, transposeRhs;
};

/// Why kernels on `target` do not multiply `inputs`; none if they do.
std::optional<std::string> whyNotMatmul(const MatmulInputs &inputs,
                                        const attn::Target &target);

} // namespace mlir::attn_tile

#endif // ATTN_DIALECT_ATTNTILE_IR_MATMULINPUTS_H
