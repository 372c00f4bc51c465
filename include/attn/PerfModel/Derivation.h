//===- Derivation.h - Distributed and streamed axes -------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The ways in which one kernel of several operations can cut their axes, and
// the tiles that capacities allow (FlashAttention on a Napkin, Abbott and
// Zardini 2025).
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PERFMODEL_DERIVATION_H
#define ATTN_PERFMODEL_DERIVATION_H

#include "attn/Interfaces/StreamableOpInterface.h"
#include "attn/PerfModel/Capacity.h"
#include "attn/PerfModel/Roofline.h"

#include <utility>
#include <vector>

namespace mlir::attn {

/// The first operation of a chain that prevents a cut of an axis.
struct AxisObstacle {
  Operation *op = nullptr;
  /// The reason, with the operation as subject: "accumulates ...".
  std::string reason;
};

/// An axis of a chain: axes of its operations that the tensors between them
/// identify with one another.
struct ChainAxis {
  std::string name;
  /// May be dynamic.
  int64_t size = 0;
  /// Whether it is the first axis of a tensor of three or more dimensions.
  bool isBatch = false;
  /// The axes of operations, each with the number of its operation.
  std::vector<std::pair<unsigned, OpAxis>> uses;
};

/// A tensor or buffer that operations of a chain read or write.
struct ChainTensor {
  DimAxes axes;
  /// May be dynamic.
  SmallVector<int64_t> sizes;
  int64_t elementBytes = 0;
  /// The operation of the chain that computes it, if any, and the operations
  /// that read it, with the axes that they iterate over.
  std::optional<unsigned> producer;
  SmallVector<std::pair<unsigned, DimAxes>> users;

  bool has(unsigned axis) const {
    return llvm::is_contained(axes, std::optional(axis));
  }
  bool isReadBy(unsigned op) const {
    return llvm::is_contained(llvm::make_first_range(users), op);
  }
  /// Whether each iteration of `op` reads all pieces along `axis`.
  bool isReadWholeBy(unsigned op, unsigned axis) const;
  /// Whether it is used outside of the chain.
  bool isStored = false;
};

/// Operations that one kernel would compute, each of `StreamableOpInterface`,
/// in the order of their block. Results flow between them directly, not through
/// other operations.
class OpChain {
public:
  explicit OpChain(ArrayRef<Operation *> ops);

  ArrayRef<Operation *> getOps() const { return ops; }
  const std::vector<ChainAxis> &getAxes() const { return axes; }
  const std::vector<ChainTensor> &getTensors() const { return tensors; }
  /// Tiles, other than tensors, that operations hold, with the number of the
  /// operation. They have axes of the chain.
  ArrayRef<std::pair<unsigned, HeldTile>> getHeldTiles() const { return held; }

  /// Why pieces of an axis cannot be distributed among CTAs, or would repeat
  /// work; `std::nullopt` if they can.
  std::optional<AxisObstacle> whyNotDistribute(unsigned axis) const;
  /// Why pieces of an axis cannot be streamed, one after another;
  /// `std::nullopt` if they can.
  std::optional<AxisObstacle> whyNotStream(unsigned axis) const;
  /// How states merge where `axis` is streamed.
  StringRef getMerge(unsigned axis) const;
  /// Whether pieces of `axis` share an input.
  bool isReused(unsigned axis) const;

private:
  class Builder;

  const OpAxis *find(const ChainAxis &axis, unsigned op) const;
  /// The obstacle to both distribution and streaming of an axis, if any.
  std::optional<AxisObstacle> whyNotCut(const ChainAxis &axis) const;

  SmallVector<Operation *> ops;
  std::vector<ChainAxis> axes;
  std::vector<ChainTensor> tensors;
  SmallVector<std::pair<unsigned, HeldTile>> held;
};

/// The chains of matmuls in `region`, each from its first matmuls to its last
/// one, with the operations between them. An operation that holds tiles is a
/// chain of its own.
std::vector<OpChain> findChains(Region &region);

/// The capacities of one CTA, and the units of tile sizes.
struct TileCapacities {
  int64_t registerBytes = 0;
  int64_t sharedBytes = 0;
  /// Threads that share the registers.
  int64_t threads = 256;
  /// Units of the tiles of distributed and streamed axes, and the largest tile,
  /// by the shapes of MMA instructions.
  int64_t distributedUnit = 64;
  int64_t streamUnit = 16;
  int64_t maxTile = 256;

  /// What tiles need that take these bytes of registers and of shared memory,
  /// and what they can have.
  CapacityNeed getNeed(double registers, double shared) const {
    CapacityNeed need;
    need.registers = registers / double(registerBytesOfThreads());
    need.sharedBytes = shared;
    return need;
  }
  Capacity getCapacity() const {
    Capacity capacity;
    capacity.registers =
        double(registerBytes) / double(registerBytesOfThreads());
    capacity.sharedBytes = double(sharedBytes);
    return capacity;
  }

private:
  int64_t registerBytesOfThreads() const {
    return attn::registerBytes * threads;
  }
};

/// How a kernel cuts the axes of a chain.
struct Derivation {
  /// The axis that is streamed, if any.
  std::optional<unsigned> streamed;
  /// The tile size of each axis: 1 for a distributed axis without reuse of
  /// inputs, the whole axis if it is not cut.
  SmallVector<int64_t> tiles;
  /// Bytes that one CTA needs, and whether it has room for them.
  double registerBytes = 0;
  double sharedBytes = 0;
  bool fits = false;
  /// Arithmetic, L2 traffic, compulsory memory traffic and steps of all CTAs;
  /// and the time that they take.
  OpCost cost;
  RooflineEstimate time;
  /// The resource that bounds the streamed tile.
  StringRef limit;
};

/// The fastest tiles that fit. Times that differ little count as equal, and
/// then the tiles with the fewest steps win. If none fits, the tiles that
/// exceed the capacities least.
Derivation derive(const OpChain &chain, const CostAssumptions &assumptions,
                  const TileCapacities &capacities,
                  const DeviceFigures &device);

} // namespace mlir::attn

#endif // ATTN_PERFMODEL_DERIVATION_H
