//===- Float8.h - Numbers of 8 bits -----------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The range of the 8-bit floats E4M3 and E5M2, and its saturation: numbers
// beyond the largest one, infinities included, become the largest one, and NaN
// stays NaN.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_FLOAT8_H
#define ATTN_DIALECT_ATTN_IR_FLOAT8_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

namespace mlir::attn {

/// The largest number of the 8-bit type `type`.
float getLargestFloat8(FloatType type);

/// Emits `value`, a wider float or a vector of such, within the range of the
/// 8-bit type `type`.
Value emitSaturated(OpBuilder &builder, Location loc, Value value,
                    FloatType type);

/// The operand of a saturation of an f32 to `type` that `emitSaturated` emits
/// and whose result is `value`; null if there is none.
Value getBeforeSaturation(Value value, FloatType type);

} // namespace mlir::attn

#endif // ATTN_DIALECT_ATTN_IR_FLOAT8_H
