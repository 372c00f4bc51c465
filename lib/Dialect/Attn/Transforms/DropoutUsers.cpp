//===- DropoutUsers.cpp - Attentions that drop the same weights -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compares what decisions depend on, and looks for products that run before.
//
//===----------------------------------------------------------------------===//

#include "DropoutUsers.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::attn;

MaskLayout DropoutUsers::getLayout() const {
  return llvm::any_of(ops, llvm::IsaPred<AttentionGradOp>) ? MaskLayout::Columns
                                                           : MaskLayout::Rows;
}

static DropoutUsers getUser(AttentionOpInterface op) {
  Value query = op.getQuery(), key = op.getKey();
  return {op.getDropoutAttr(),
          op.getSeed(),
          op.getOffset(),
          {getDimSize(query, 0), getDimSize(query, 1), getDimSize(query, 2),
           getDimSize(key, 2)},
          query,
          key,
          {op}};
}

/// Whether both make the same decisions. Sizes that are not known are equal if
/// they are those of one value.
static bool makeSameDecisions(const DropoutUsers &a, const DropoutUsers &b) {
  bool isDynamic = ShapedType::isDynamicShape(a.sizes);
  return a.dropout == b.dropout && a.seed == b.seed && a.offset == b.offset &&
         a.sizes == b.sizes &&
         a.ops.front()->getBlock() == b.ops.front()->getBlock() &&
         (!isDynamic || (a.query == b.query && a.key == b.key));
}

SmallVector<DropoutUsers> attn::collectDropoutUsers(Operation *root) {
  SmallVector<DropoutUsers> groups;
  root->walk([&](AttentionOpInterface op) {
    if (!op.getDropoutAttr() || op->getNumResults() == 0)
      return;
    DropoutUsers user = getUser(op);
    auto *group = llvm::find_if(groups, [&](const DropoutUsers &other) {
      return makeSameDecisions(other, user);
    });
    if (group == groups.end())
      groups.push_back(std::move(user));
    else
      group->ops.push_back(op);
  });
  return groups;
}

/// Whether `op` may write memory, or do what is not known.
static bool mayWrite(Operation *op) {
  std::optional<SmallVector<MemoryEffects::EffectInstance>> effects =
      getEffectsRecursively(op);
  if (!effects)
    return true;
  return llvm::any_of(*effects,
                      [](const MemoryEffects::EffectInstance &effect) {
                        return isa<MemoryEffects::Write, MemoryEffects::Free>(
                            effect.getEffect());
                      });
}

/// Whether `value`, with what it is computed from, can be had at `point`.
static bool canComputeBefore(Value value, Operation *point,
                             DominanceInfo &dominance) {
  if (dominance.properlyDominates(value, point))
    return true;
  Operation *op = value.getDefiningOp();
  return op && op->getBlock() == point->getBlock() && isMemoryEffectFree(op) &&
         op->getNumRegions() == 0 &&
         llvm::all_of(op->getOperands(), [&](Value operand) {
           return canComputeBefore(operand, point, dominance);
         });
}

SmallVector<MatmulOp> attn::findProductsBefore(const DropoutUsers &users,
                                               ArrayRef<Value> needed,
                                               std::string &reason) {
  AttentionOpInterface first = users.ops.front();
  DominanceInfo dominance(first->getParentOp());
  SmallVector<MatmulOp> products;
  reason = "no product runs before in the same block";
  for (Operation *op = first->getPrevNode(); op; op = op->getPrevNode()) {
    if (auto product = dyn_cast<MatmulOp>(op);
        product && product->getNumResults() == 1) {
      if (llvm::all_of(needed, [&](Value value) {
            return canComputeBefore(value, op, dominance);
          }))
        products.push_back(product);
      else if (products.empty())
        reason = "seed, offset or sizes are not known before the product";
    }
    if (isa<OverlapOp>(op) && products.empty())
      reason = "the product before has other work beside it";
    if (mayWrite(op)) {
      if (products.empty())
        reason = ("'" + op->getName().getStringRef() +
                  "' may write memory between product and attention")
                     .str();
      break;
    }
  }
  return products;
}
