//===- Derivation.h - Axes of kernels, grouped and streamed --*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What one kernel of several operations can do with their axes, and the tiles
// that capacities allow (FlashAttention on a Napkin, Abbott and Zardini 2025).
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_DERIVATION_H
#define ATTN_ANALYSIS_DERIVATION_H

#include "attn/Analysis/Roofline.h"
#include "attn/Interfaces/StreamableOpInterface.h"

#include <utility>
#include <vector>

namespace mlir::attn {

/// The first operation of a chain that is in the way of something.
struct AxisObstacle {
  Operation *op = nullptr;
  /// What the operation does: "accumulates ...".
  std::string reason;
};

/// An axis of the operations of a chain, which tensors between these tie
/// together.
struct ChainAxis {
  std::string name;
  /// May be dynamic.
  int64_t size = 0;
  /// Whether it is the first one of a tensor of three or more dimensions.
  bool isBatch = false;
  /// By number of the operation.
  std::vector<std::pair<unsigned, OpAxis>> uses;
};

/// A tensor or buffer that operations of a chain read or make.
struct ChainTensor {
  DimAxes axes;
  /// May be dynamic.
  SmallVector<int64_t> sizes;
  int64_t elementBytes = 0;
  /// The operation of the chain that makes it, if one does, and those that read
  /// it, with the axes that they walk along.
  std::optional<unsigned> producer;
  SmallVector<std::pair<unsigned, DimAxes>> users;

  bool has(unsigned axis) const {
    return llvm::is_contained(axes, std::optional(axis));
  }
  bool isReadBy(unsigned op) const {
    return llvm::is_contained(llvm::make_first_range(users), op);
  }
  /// Whether `op` reads, wherever it is, all pieces along `axis`.
  bool isReadWholeBy(unsigned op, unsigned axis) const;
  /// Whether it is used beyond the chain.
  bool isStored = false;
};

/// Operations that one kernel would compute, each of `StreamableOpInterface`,
/// in the order of their block. No other operation takes part in making what
/// one of them reads of another.
class OpChain {
public:
  explicit OpChain(ArrayRef<Operation *> ops);

  ArrayRef<Operation *> getOps() const { return ops; }
  const std::vector<ChainAxis> &getAxes() const { return axes; }
  const std::vector<ChainTensor> &getTensors() const { return tensors; }
  /// What operations hold beside tensors, by number of the operation; axes are
  /// those of the chain.
  ArrayRef<std::pair<unsigned, HeldTile>> getHeldTiles() const { return held; }

  /// Why pieces of an axis cannot be dealt out to groups, or would repeat work;
  /// `std::nullopt` if they can.
  std::optional<AxisObstacle> whyNotGroup(unsigned axis) const;
  /// Why pieces of an axis cannot pass by one after another; `std::nullopt` if
  /// they can.
  std::optional<AxisObstacle> whyNotStream(unsigned axis) const;
  /// How states merge where `axis` is streamed.
  StringRef getMerge(unsigned axis) const;
  /// Whether there is an input that pieces of `axis` share.
  bool isReused(unsigned axis) const;

private:
  const OpAxis *find(const ChainAxis &axis, unsigned op) const;
  /// What all uses of an axis are in the way of.
  std::optional<AxisObstacle> whyNotCut(const ChainAxis &axis) const;

  SmallVector<Operation *> ops;
  std::vector<ChainAxis> axes;
  std::vector<ChainTensor> tensors;
  SmallVector<std::pair<unsigned, HeldTile>> held;
};

/// The chains of products in `region`, each from its first products to the last
/// one, with the operations between them; what holds tiles of its own is a
/// chain alone.
std::vector<OpChain> findChains(Region &region);

/// What one group of threads has room for, and units of tiles.
struct TileCapacities {
  int64_t registerBytes = 0;
  int64_t sharedBytes = 0;
  /// Steps of the tiles of axes that are grouped and streamed, and the most of
  /// either: shapes of matrix instructions.
  int64_t groupUnit = 64;
  int64_t streamUnit = 16;
  int64_t maxTile = 256;
};

/// How a kernel cuts the axes of a chain.
struct Derivation {
  /// The axis that is streamed, if any.
  std::optional<unsigned> streamed;
  /// The piece of each axis: one for groups that share nothing, all of it where
  /// an axis is not cut.
  SmallVector<int64_t> tiles;
  /// What one group holds, and whether it has room for it.
  double registerBytes = 0;
  double sharedBytes = 0;
  bool fits = false;
  /// Arithmetic, what passes through the second cache, what must come from
  /// memory, and steps of all groups; the time that this takes.
  OpCost cost;
  RooflineEstimate time;
  /// What stops the streamed tile from being larger.
  StringRef limit;
};

/// The tiles of least time, as far as that is told apart, and of these those of
/// the fewest steps; if none fits, those that lack least room.
Derivation derive(const OpChain &chain, const CostAssumptions &assumptions,
                  const TileCapacities &capacities,
                  const DeviceFigures &device);

} // namespace mlir::attn

#endif // ATTN_ANALYSIS_DERIVATION_H
