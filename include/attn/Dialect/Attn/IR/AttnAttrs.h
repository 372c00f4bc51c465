//===- AttnAttrs.h - Attributes of the attn dialect ----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attributes of the attn dialect.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTNATTRS_H
#define ATTN_DIALECT_ATTN_IR_ATTNATTRS_H

#include "attn/Dialect/Attn/IR/AttnDialect.h"
#include "attn/Dialect/Attn/IR/AttnInterfaces.h"

#include <optional>

namespace mlir::attn {

/// Whether MMAs of f32 values must be as accurate as f32 arithmetic, which is
/// the default.
inline bool isHighest(std::optional<MatmulPrecision> precision) {
  return precision.value_or(MatmulPrecision::Highest) ==
         MatmulPrecision::Highest;
}

} // namespace mlir::attn

#endif // ATTN_DIALECT_ATTN_IR_ATTNATTRS_H
