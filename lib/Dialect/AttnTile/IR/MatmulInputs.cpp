//===- MatmulInputs.cpp - Matrices that targets multiply ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Asks the MMA instructions of a target for the matrices that they multiply.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/IR/MatmulInputs.h"
#include "attn/Dialect/AttnTile/IR/AttnTileAttrs.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::attn_tile;

std::optional<std::string> attn_tile::whyNotMatmul(const MatmulInputs &inputs,
                                                   const attn::Target &target) {
  std::string reason;
  llvm::raw_string_ostream os(reason);
  for (Type element : {inputs.lhs, inputs.rhs}) {
    if (target.supportsElementType(element))
      continue;
    os << "element type on " << target.getName() << " must be "
       << target.describeElementTypes() << " (was '" << element << "')";
    return reason;
  }
  auto mma = cast_if_present<MmaAttrInterface>(
      target.getMma(inputs.lhs, /*isHighest=*/true));
  if (!mma || mma.supportsMNMajor() ||
      (inputs.transposeRhs && !inputs.transposeLhs))
    return std::nullopt;
  os << "inputs of '" << inputs.lhs << "' on " << target.getName()
     << " must be contiguous along the contracted dimension: '"
     << (inputs.transposeLhs ? "lhs' must be [M, K], without 'transpose_lhs'"
                             : "rhs' must be [N, K], with 'transpose_rhs'");
  return reason;
}
