//===- MatmulPrecision.h - Syntax of precisions -----------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The custom directive `Precision` of assembly formats.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_IR_MATMULPRECISION_H
#define ATTN_LIB_DIALECT_ATTN_IR_MATMULPRECISION_H

#include "attn/Dialect/Attn/IR/AttnAttrs.h"
#include "mlir/IR/OpImplementation.h"

namespace mlir::attn {

/// Parses the keyword of a precision.
ParseResult parsePrecision(OpAsmParser &parser, MatmulPrecisionAttr &precision);
void printPrecision(OpAsmPrinter &printer, Operation *op,
                    MatmulPrecisionAttr precision);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_IR_MATMULPRECISION_H
