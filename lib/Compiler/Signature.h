//===- Signature.h - Described functions and the C ABI ----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The attributes that hold the requirements of functions on their arguments,
// and names and offsets of the runtime's C ABI.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_COMPILER_SIGNATURE_H
#define ATTN_LIB_COMPILER_SIGNATURE_H

#include "attn-runtime/attn_runtime.h"
#include "attn/Dialect/Attn/IR/AttnInterfaces.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringRef.h"

#include <cstddef>

namespace mlir::attn {

/// Attributes of arguments in addition to `argNameAttrName`; see the pass
/// attn-describe-arguments.
inline constexpr llvm::StringLiteral argDimsAttrName = "attn.dims";
inline constexpr llvm::StringLiteral argAlignmentAttrName = "attn.alignment";
inline constexpr llvm::StringLiteral argOutputAttrName = "attn.output";
inline constexpr llvm::StringLiteral argReadAttrName = "attn.read";
inline constexpr llvm::StringLiteral argTileCountsAttrName = "attn.tile_counts";
/// Numbers in an `attn.tile_counts` for each size.
inline constexpr size_t tileCountFields = 6;
inline constexpr llvm::StringLiteral argMultiplesAttrName = "attn.multiples";
/// Numbers in an `attn.multiples` for each size.
inline constexpr size_t multipleFields = 4;
/// Attribute of functions.
inline constexpr llvm::StringLiteral symbolsAttrName = "attn.symbols";

/// How `func` uses the elements of its argument number `index`.
attn_access getAccess(func::FuncOp func, unsigned index);

namespace abi {
inline constexpr llvm::StringLiteral callPrefix = "attn_call_";
inline constexpr llvm::StringLiteral flopsPrefix = "attn_flops_";
inline constexpr llvm::StringLiteral referencePrefix = "attn_reference_";
inline constexpr llvm::StringLiteral referenceSuffix = ".reference";

/// Offsets in attn_tensor.
inline constexpr int32_t tensorDataOffset = offsetof(attn_tensor, data);
inline constexpr int32_t tensorShapeOffset = offsetof(attn_tensor, shape);
inline constexpr int32_t tensorStridesOffset = offsetof(attn_tensor, strides);
} // namespace abi

} // namespace mlir::attn

#endif // ATTN_LIB_COMPILER_SIGNATURE_H
