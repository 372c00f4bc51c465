//===- CostOpInterface.cpp - Work of operations ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Counts of scalar operations and of tensors that are moved.
//
//===----------------------------------------------------------------------===//

#include "attn/Interfaces/CostOpInterface.h"
#include "attn/Interfaces/ScalarCost.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "llvm/ADT/TypeSwitch.h"

#include <limits>

using namespace mlir;
using namespace mlir::attn;

#include "attn/Interfaces/CostOpInterface.cpp.inc"

StringRef attn::stringifyExecutionUnit(ExecutionUnit unit) {
  switch (unit) {
  case ExecutionUnit::Mma32b:
    return "mma_32b";
  case ExecutionUnit::Mma16b:
    return "mma_16b";
  case ExecutionUnit::Mma8b:
    return "mma_8b";
  case ExecutionUnit::Fma:
    return "fma";
  case ExecutionUnit::Special:
    return "special";
  case ExecutionUnit::Integer:
    return "integer";
  case ExecutionUnit::WideMultiply:
    return "wide_multiply";
  }
  llvm_unreachable("unknown unit");
}

StringRef attn::stringifyMemoryLevel(MemoryLevel level) {
  switch (level) {
  case MemoryLevel::Memory:
    return "memory";
  case MemoryLevel::L2:
    return "l2";
  case MemoryLevel::Shared:
    return "shared";
  }
  llvm_unreachable("unknown level");
}

double OpCost::getFlops() const {
  double flops = 0;
  for (ExecutionUnit unit :
       {ExecutionUnit::Mma32b, ExecutionUnit::Mma16b, ExecutionUnit::Mma8b,
        ExecutionUnit::Fma, ExecutionUnit::Special})
    flops += operations(unit);
  return flops;
}

double OpCost::getIntensity() const {
  double moved = bytes(MemoryLevel::Memory);
  return moved == 0 ? std::numeric_limits<double>::infinity()
                    : getFlops() / moved;
}

OpCost &OpCost::operator+=(const OpCost &other) {
  for (unsigned i = 0; i < numExecutionUnits; ++i)
    counts[i] += other.counts[i];
  for (unsigned i = 0; i < numMemoryLevels; ++i)
    traffic[i] += other.traffic[i];
  launches += other.launches;
  steps += other.steps;
  return *this;
}

double attn::getShapedBytes(Type type, const CostAssumptions &assumptions) {
  auto shaped = dyn_cast<ShapedType>(type);
  if (!shaped || !shaped.hasRank())
    return 0;
  Type element = shaped.getElementType();
  double bytes = 8;
  if (element.isIntOrFloat())
    bytes = llvm::divideCeil(element.getIntOrFloatBitWidth(), 8);
  else if (!element.isIndex())
    return 0;
  for (auto [dim, size] : llvm::enumerate(shaped.getShape()))
    bytes *= static_cast<double>(dim == 0 && shaped.getRank() >= 3
                                     ? assumptions.getBatch(size)
                                     : assumptions.getSize(size));
  return bytes;
}

double attn::getOperandBytes(Operation *op,
                             const CostAssumptions &assumptions) {
  double bytes = 0;
  for (Value operand : op->getOperands())
    if (!operand.getDefiningOp<tensor::EmptyOp>())
      bytes += getShapedBytes(operand.getType(), assumptions);
  for (Type type : op->getResultTypes())
    bytes += getShapedBytes(type, assumptions);
  auto destination = dyn_cast<DestinationStyleOpInterface>(op);
  if (!destination)
    return bytes;
  // On tensors, the results are the written values, which have been counted.
  for (Value init : destination.getDpsInits())
    if (isa<RankedTensorType>(init.getType()) &&
        !init.getDefiningOp<tensor::EmptyOp>())
      bytes -= getShapedBytes(init.getType(), assumptions);
  return bytes;
}

void attn::addScalarOpCost(Operation &op, double times, OpCost &cost) {
  auto add = [&](ExecutionUnit unit, double count) {
    cost.operations(unit) += count * times;
  };
  llvm::TypeSwitch<Operation *>(&op)
      // Reciprocals, roots and powers of two with a factor before or after.
      .Case<arith::DivFOp, math::ExpOp, math::LogOp, math::Log10Op,
            math::Log1pOp, math::SqrtOp, math::TanhOp>([&](Operation *) {
        add(ExecutionUnit::Special, 1);
        add(ExecutionUnit::Fma, 1);
      })
      .Case<math::Exp2Op, math::Log2Op, math::RsqrtOp, math::SinOp,
            math::CosOp>([&](Operation *) { add(ExecutionUnit::Special, 1); })
      .Case<math::PowFOp>([&](Operation *) {
        add(ExecutionUnit::Special, 2);
        add(ExecutionUnit::Fma, 1);
      })
      // A polynomial of about this length.
      .Case<math::ErfOp, math::ErfcOp>([&](Operation *) {
        add(ExecutionUnit::Special, 1);
        add(ExecutionUnit::Fma, 12);
      })
      .Case<arith::MulSIExtendedOp, arith::MulUIExtendedOp>(
          [&](Operation *) { add(ExecutionUnit::WideMultiply, 1); })
      .Case<arith::ConstantOp, tensor::ExtractOp>([](Operation *) {})
      .Default([&](Operation *op) {
        if (op->getNumResults() == 0)
          return;
        auto isFloat = [](Type type) { return isa<FloatType>(type); };
        bool floats = llvm::any_of(op->getOperandTypes(), isFloat) ||
                      llvm::any_of(op->getResultTypes(), isFloat);
        add(floats ? ExecutionUnit::Fma : ExecutionUnit::Integer, 1);
      });
}

void attn::addScalarCost(Block &block, double times, OpCost &cost) {
  // A multiplication and an addition are one operation.
  for (Operation &op : block.without_terminator()) {
    if (isa<arith::AddFOp>(op) &&
        llvm::any_of(op.getOperands(), [](Value operand) {
          auto product = operand.getDefiningOp<arith::MulFOp>();
          return product && product->hasOneUse();
        }))
      continue;
    addScalarOpCost(op, times, cost);
  }
}

std::optional<OpCost> attn::getOpCost(Operation *op,
                                      const CostAssumptions &assumptions) {
  if (auto interface = dyn_cast<CostOpInterface>(op))
    return interface.getCost(assumptions);
  if (op->getNumRegions() > 0 ||
      llvm::none_of(op->getResultTypes(), llvm::IsaPred<RankedTensorType>))
    return std::nullopt;
  OpCost cost;
  cost.bytes(MemoryLevel::Memory) = getOperandBytes(op, assumptions);
  cost.launches = 1;
  return cost;
}
