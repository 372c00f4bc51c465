//===- MatmulPrecision.cpp - Syntax of precisions -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MatmulPrecision.h"

using namespace mlir;
using namespace mlir::attn;

ParseResult attn::parsePrecision(OpAsmParser &parser,
                                 MatmulPrecisionAttr &precision) {
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  if (failed(parser.parseKeyword(&keyword)))
    return failure();
  std::optional<MatmulPrecision> value = symbolizeMatmulPrecision(keyword);
  if (!value)
    return parser.emitError(loc)
           << "precision must be highest or high (was " << keyword << ")";
  precision = MatmulPrecisionAttr::get(parser.getContext(), *value);
  return success();
}

void attn::printPrecision(OpAsmPrinter &printer, Operation *,
                          MatmulPrecisionAttr precision) {
  printer << stringifyMatmulPrecision(precision.getValue());
}
