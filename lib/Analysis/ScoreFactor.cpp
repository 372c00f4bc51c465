//===- ScoreFactor.cpp - Factors of scores --------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds the factors of a score_mod that are the same for all queries and keys.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/ScoreFactor.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::attn;

/// The values of `region` that differ between scores, or might.
static llvm::DenseSet<Value> findVarying(Region &region) {
  llvm::DenseSet<Value> varying;
  for (unsigned argument : {0, 3, 4})
    varying.insert(region.getArgument(argument));
  for (Operation &op : region.front().without_terminator()) {
    bool isRead = isa<memref::LoadOp, tensor::ExtractOp>(op);
    auto varies = [&](Value value) { return varying.contains(value); };
    if (op.getNumRegions() != 0 || (!isRead && !isPure(&op)) ||
        llvm::any_of(op.getOperands(), varies))
      varying.insert_range(op.getResults());
  }
  return varying;
}

SmallVector<Value> attn::getScoreFactors(Region &scoreMod) {
  if (scoreMod.empty())
    return {};
  llvm::DenseSet<Value> varying = findVarying(scoreMod);
  SmallVector<Value> factors;
  Value score = scoreMod.getArgument(0);
  Value value = cast<YieldOp>(scoreMod.front().getTerminator()).getValue();
  while (value != score) {
    auto product = value.getDefiningOp<arith::MulFOp>();
    if (!product || !varying.contains(value) ||
        varying.contains(product.getLhs()) ==
            varying.contains(product.getRhs()))
      return {};
    bool isFirst = varying.contains(product.getLhs());
    factors.push_back(isFirst ? product.getRhs() : product.getLhs());
    value = isFirst ? product.getLhs() : product.getRhs();
  }
  // Constants become part of the constant scale.
  auto isConstant = [](Value factor) {
    return matchPattern(factor, m_Constant());
  };
  if (llvm::all_of(factors, isConstant))
    return {};
  return factors;
}

bool attn::changesSingleScores(AttentionOpInterface op) {
  Region &scoreMod = op.getScoreMod();
  return !scoreMod.empty() && (op.getScaleOrDefault() < minTileScale ||
                               getScoreFactors(scoreMod).empty());
}
