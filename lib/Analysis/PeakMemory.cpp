//===- PeakMemory.cpp - Memory of the tensors of a block ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Follows memory from the operation that computes a tensor to the last use of
// its views.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/PeakMemory.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir;
using namespace mlir::attn;

int64_t attn::getValueBytes(Type type, const CostAssumptions &assumptions) {
  if (type.isIntOrFloat())
    return int64_t(llvm::divideCeil(type.getIntOrFloatBitWidth(), 8));
  return type.isIndex() ? 8 : int64_t(getShapedBytes(type, assumptions));
}

/// Whether `op` costs nothing.
static bool makesNoData(Operation *op, const CostAssumptions &assumptions) {
  std::optional<OpCost> cost = getOpCost(op, assumptions);
  return cost && cost->launches == 0 && cost->getFlops() == 0 &&
         cost->bytes(MemoryLevel::Memory) == 0;
}

namespace {
/// The memory of the tensors of a block.
class TensorMemories {
public:
  /// The memory of a tensor, with the operations that compute it and that use
  /// it last.
  struct Memory {
    int64_t bytes;
    Operation *first, *last;
    bool isKept = false;
  };

  explicit TensorMemories(const CostAssumptions &assumptions)
      : assumptions(assumptions) {}

  void visit(Operation &op);
  /// Keeps the memory of a returned value. Returns the bytes of a copy, if one
  /// is needed.
  int64_t keep(Value returned);
  ArrayRef<Memory> get() const { return memories; }

private:
  const CostAssumptions &assumptions;
  SmallVector<Memory> memories;
  llvm::DenseMap<Value, SmallVector<unsigned, 1>> memoriesOf;
};
} // namespace

void TensorMemories::visit(Operation &op) {
  op.walk([&](Operation *nested) {
    for (Value operand : nested->getOperands())
      for (unsigned number : memoriesOf.lookup(operand))
        memories[number].last = &op;
  });
  if (op.hasTrait<OpTrait::ConstantLike>())
    return;
  bool isView = makesNoData(&op, assumptions);
  for (Value result : op.getResults()) {
    if (!isa<TensorType>(result.getType()))
      continue;
    SmallVector<unsigned, 1> numbers;
    if (isView) {
      for (Value operand : op.getOperands())
        llvm::append_range(numbers, memoriesOf.lookup(operand));
    } else {
      numbers.push_back(memories.size());
      memories.push_back(
          {getValueBytes(result.getType(), assumptions), &op, &op});
    }
    memoriesOf[result] = numbers;
  }
}

int64_t TensorMemories::keep(Value returned) {
  SmallVector<unsigned, 1> numbers = memoriesOf.lookup(returned);
  bool isCopied = numbers.empty() || memories[numbers.front()].isKept;
  for (unsigned number : numbers)
    memories[number].isKept = true;
  return isCopied ? getValueBytes(returned.getType(), assumptions) : 0;
}

BlockMemory attn::getBlockMemory(Block &block,
                                 const CostAssumptions &assumptions) {
  TensorMemories memories(assumptions);
  for (Operation &op : block.without_terminator())
    memories.visit(op);
  int64_t copied = 0;
  for (Value returned : block.getTerminator()->getOperands())
    copied += memories.keep(returned);

  llvm::DenseMap<Operation *, int64_t> made, freed;
  for (const TensorMemories::Memory &memory : memories.get()) {
    made[memory.first] += memory.bytes;
    if (!memory.isKept)
      freed[memory.last] += memory.bytes;
  }
  BlockMemory result;
  int64_t live = 0;
  for (Operation &op : block.without_terminator()) {
    live += made.lookup(&op);
    result.peak = std::max(result.peak, live);
    live -= freed.lookup(&op);
  }
  result.kept = live + copied;
  result.peak = std::max(result.peak, result.kept);
  return result;
}
