//===- DropoutUsers.cpp - Attentions with the same keep mask --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compares the inputs of keep masks, and finds matmuls that run before.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/DropoutUsers.h"
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
          op.getPositions(),
          {getDimSize(query, 0), getDimSize(query, 1), getDimSize(query, 2),
           getDimSize(key, 2)},
          query,
          key,
          {op}};
}

/// Whether both have the same keep mask. Unknown sizes are equal if they are
/// sizes of the same value.
static bool makeSameKeepMask(const DropoutUsers &a, const DropoutUsers &b) {
  bool isDynamic = ShapedType::isDynamicShape(a.sizes);
  return a.dropout == b.dropout && a.seed == b.seed && a.offset == b.offset &&
         a.positions == b.positions && a.sizes == b.sizes &&
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
      return makeSameKeepMask(other, user);
    });
    if (group == groups.end())
      groups.push_back(std::move(user));
    else
      group->ops.push_back(op);
  });
  return groups;
}

/// Whether `op` may write memory, or has unknown effects.
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

/// Whether `value` and the values it is computed from are available at `point`.
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

SmallVector<MatmulOp> attn::findMatmulsBefore(const DropoutUsers &users,
                                              ArrayRef<Value> needed,
                                              std::string &reason) {
  AttentionOpInterface first = users.ops.front();
  DominanceInfo dominance(first->getParentOp());
  SmallVector<MatmulOp> matmuls;
  reason = "no matmul runs before in the same block";
  for (Operation *op = first->getPrevNode(); op; op = op->getPrevNode()) {
    if (auto matmul = dyn_cast<MatmulOp>(op);
        matmul && matmul->getNumResults() == 1) {
      if (llvm::all_of(needed, [&](Value value) {
            return canComputeBefore(value, op, dominance);
          }))
        matmuls.push_back(matmul);
      else if (matmuls.empty())
        reason = "seed, offset or sizes are not known before the matmul";
    }
    if (isa<OverlapOp>(op) && matmuls.empty())
      reason = "the matmul before already runs concurrently with other work";
    if (mayWrite(op)) {
      if (matmuls.empty())
        reason = ("'" + op->getName().getStringRef() +
                  "' may write memory between matmul and attention")
                     .str();
      break;
    }
  }
  return matmuls;
}
