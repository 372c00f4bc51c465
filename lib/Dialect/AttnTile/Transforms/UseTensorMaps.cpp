//===- UseTensorMaps.cpp - Copy through tensor maps ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Makes copies to stages read their source through a tensor map, which the host
// makes beside the launch.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILEUSETENSORMAPSPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

using namespace mlir;
using namespace mlir::attn_tile;

/// Width of the box of a tensor map: the span of the swizzle in which stages
/// are laid out. Wider stages are filled by several copies of one box each.
/// CUDA Driver API, "Tensor Map Object Management".
static constexpr int64_t boxBytes = 128;

/// Most elements of a box in one dimension.
static constexpr int64_t maxBoxSize = 256;

/// The tensor map for copies from `source` to `buffer`.
static TensorMapType getMapType(MemRefType source, BufferType buffer) {
  Type element = buffer.getElementType();
  int64_t rows = buffer.getShape()[0], columns = buffer.getShape()[1];
  // A single row lies in memory as it is.
  if (rows != 1)
    columns = boxBytes * 8 / element.getIntOrFloatBitWidth();
  return TensorMapType::get(source.getContext(), source.getRank(),
                            {rows, columns}, element);
}

static LogicalResult checkCopy(CopyOp copy, KernelOp kernel) {
  auto source = cast<MemRefType>(copy.getSource().getType());
  BufferType buffer = copy.getBuffer().getType();
  auto argument = dyn_cast<BlockArgument>(copy.getSource());
  if (!argument || argument.getOwner() != &kernel.getBody().front())
    return copy.emitOpError("source must be an argument of the kernel to be "
                            "copied through a tensor map");
  if (source.getRank() < 2 || source.getRank() > 5)
    return copy.emitOpError("source must have 2 to 5 dimensions to be copied "
                            "through a tensor map (has ")
           << source.getRank() << ")";
  unsigned width = buffer.getElementType().getIntOrFloatBitWidth();
  if (width % 8 != 0 || width > 64)
    return copy.emitOpError("elements must have 8 to 64 bits to be copied "
                            "through a tensor map (were ")
           << buffer.getElementType() << ")";
  if (buffer.getShape()[0] > maxBoxSize)
    return copy.emitOpError("buffer must have at most ")
           << maxBoxSize << " rows to be copied through a tensor map (has "
           << buffer.getShape()[0] << ")";
  if (buffer.getShape()[0] == 1 && buffer.getShape()[1] > maxBoxSize)
    return copy.emitOpError("a row must have at most ")
           << maxBoxSize << " elements to be copied through a tensor map (has "
           << buffer.getShape()[1] << ")";
  return success();
}

namespace {
struct AttnTileUseTensorMapsPass
    : public attn_tile::impl::AttnTileUseTensorMapsPassBase<
          AttnTileUseTensorMapsPass> {
  using Base::Base;

  void runOnOperation() override;
};

/// A tensor map that a kernel gets as an argument.
struct MapArgument {
  unsigned source;
  TensorMapType type;
  SmallVector<CopyOp> copies;
};
} // namespace

/// The tensor maps that the copies of `kernel` need, in order of first use.
static FailureOr<SmallVector<MapArgument>> collectMaps(KernelOp kernel) {
  SmallVector<MapArgument> maps;
  WalkResult walk = kernel.walk([&](CopyOp copy) -> WalkResult {
    auto source = dyn_cast<MemRefType>(copy.getSource().getType());
    if (!source)
      return success();
    if (failed(checkCopy(copy, kernel)))
      return failure();
    unsigned number = cast<BlockArgument>(copy.getSource()).getArgNumber();
    TensorMapType type = getMapType(source, copy.getBuffer().getType());
    auto *map = llvm::find_if(maps, [&](const MapArgument &other) {
      return other.source == number && other.type == type;
    });
    if (map == maps.end())
      map = maps.insert(maps.end(), MapArgument{number, type, {}});
    map->copies.push_back(copy);
    return success();
  });
  if (walk.wasInterrupted())
    return failure();
  return maps;
}

/// Adds `maps` to the arguments of `kernel` and of its launches; memrefs that
/// are then unused are dropped.
static LogicalResult addMaps(KernelOp kernel, ArrayRef<LaunchOp> launches,
                             ArrayRef<MapArgument> maps) {
  for (const MapArgument &map : maps) {
    unsigned number = kernel.getNumArguments();
    Location loc = kernel.getArgument(map.source).getLoc();
    if (failed(kernel.insertArgument(number, map.type, /*argAttrs=*/{}, loc)))
      return failure();
    for (CopyOp copy : map.copies)
      copy.getSourceMutable().assign(kernel.getArgument(number));
    for (LaunchOp launch : launches) {
      OpBuilder builder(launch);
      Value source = launch.getKernelOperands()[map.source];
      launch.getKernelOperandsMutable().append(
          MakeTensorMapOp::create(builder, launch.getLoc(), map.type, source)
              .getResult());
    }
  }

  llvm::BitVector unused(kernel.getNumArguments());
  for (const MapArgument &map : maps)
    if (kernel.getArgument(map.source).use_empty())
      unused.set(map.source);
  for (LaunchOp launch : launches) {
    MutableOperandRange operands = launch.getKernelOperandsMutable();
    for (unsigned number = unused.size(); number-- > 0;)
      if (unused.test(number))
        operands.erase(number);
  }
  return kernel.eraseArguments(unused);
}

void AttnTileUseTensorMapsPass::runOnOperation() {
  SymbolTableCollection symbols;
  llvm::MapVector<Operation *, SmallVector<LaunchOp>> launches;
  getOperation().walk([&](KernelOp kernel) { launches[kernel]; });
  getOperation().walk([&](LaunchOp launch) {
    Operation *kernel =
        symbols.lookupNearestSymbolFrom(launch, launch.getKernelAttr());
    if (isa_and_nonnull<KernelOp>(kernel))
      launches[kernel].push_back(launch);
  });
  for (auto &[op, users] : launches) {
    auto kernel = cast<KernelOp>(op);
    FailureOr<SmallVector<MapArgument>> maps = collectMaps(kernel);
    if (failed(maps) || failed(addMaps(kernel, users, *maps)))
      return signalPassFailure();
    numMaps += maps->size();
  }
}
