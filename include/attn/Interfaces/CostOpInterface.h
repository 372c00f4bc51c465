//===- CostOpInterface.h - Work of operations ------------------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The arithmetic and the data movement of an operation as counts, independent
// of the device that runs it.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_INTERFACES_COSTOPINTERFACE_H
#define ATTN_INTERFACES_COSTOPINTERFACE_H

#include "mlir/IR/OpDefinition.h"

#include <array>
#include <optional>

namespace mlir::attn {

/// The execution unit of an operation.
enum class ExecutionUnit {
  /// MMAs by the width of an element, counted as floating point operations: a
  /// multiplication and an addition are two.
  Mma32b,
  Mma16b,
  Mma8b,
  /// f32 multiplication and addition, comparison, selection and conversion.
  Fma,
  /// exp2, log2, reciprocals, tanh and the like.
  Special,
  /// 32-bit integer addition and logic.
  Integer,
  /// Multiplications of 32 bits with 64-bit results.
  WideMultiply,
};
inline constexpr unsigned numExecutionUnits = 7;

/// A level of the memory hierarchy.
enum class MemoryLevel {
  /// The device's memory.
  Memory,
  /// The cache that all SMs share.
  L2,
  /// Shared memory of an SM.
  Shared,
};
inline constexpr unsigned numMemoryLevels = 3;

StringRef stringifyExecutionUnit(ExecutionUnit unit);
StringRef stringifyMemoryLevel(MemoryLevel level);

/// Counts of one execution of an operation as kernels of its own.
struct OpCost {
  double &operations(ExecutionUnit unit) {
    return counts[static_cast<unsigned>(unit)];
  }
  double operations(ExecutionUnit unit) const {
    return counts[static_cast<unsigned>(unit)];
  }
  /// Bytes read from and written to a level.
  double &bytes(MemoryLevel level) {
    return traffic[static_cast<unsigned>(level)];
  }
  double bytes(MemoryLevel level) const {
    return traffic[static_cast<unsigned>(level)];
  }

  /// Floating point operations: FLOPs of MMAs, and one for each operation of
  /// other units on floats.
  double getFlops() const;
  /// Floating point operations per byte of the device's memory; infinite if
  /// nothing is moved.
  double getIntensity() const;

  OpCost &operator+=(const OpCost &other);

  std::array<double, numExecutionUnits> counts = {};
  std::array<double, numMemoryLevels> traffic = {};
  /// Kernel launches.
  double launches = 0;
  /// Iterations of the innermost loops over tiles, in all CTAs; 0 if it is not
  /// known how the operation is tiled.
  double steps = 0;
};

/// Sizes that costs are counted with where they are dynamic.
struct CostAssumptions {
  /// Size of dynamic dimensions.
  int64_t dynamicSize = 4096;
  /// Size of the first dimension of tensors of three or more, if it is dynamic:
  /// the batch.
  int64_t dynamicBatch = 1;

  int64_t getSize(int64_t size) const {
    return ShapedType::isDynamic(size) ? dynamicSize : size;
  }
  int64_t getBatch(int64_t size) const {
    return ShapedType::isDynamic(size) ? dynamicBatch : size;
  }
};

/// Bytes of a tensor or buffer; 0 for other types.
double getShapedBytes(Type type, const CostAssumptions &assumptions);

/// Bytes of the tensors and buffers that `op` reads or writes, each operand and
/// result counted once. Destinations are written, but not read.
double getOperandBytes(Operation *op, const CostAssumptions &assumptions);

/// Adds `times` executions of the scalar operations of `block`, except its
/// terminator.
void addScalarCost(Block &block, double times, OpCost &cost);

/// The cost of `op` by `CostOpInterface`. Without the interface, the cost of
/// moving its operands and results if they are tensors, else `std::nullopt`.
std::optional<OpCost> getOpCost(Operation *op,
                                const CostAssumptions &assumptions);

} // namespace mlir::attn

#include "attn/Interfaces/CostOpInterface.h.inc"

#endif // ATTN_INTERFACES_COSTOPINTERFACE_H
