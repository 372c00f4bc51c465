//===- UseTensorMaps.cpp - Copy through tensor maps ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Makes copies between global memory and stages go through a tensor map, which
// the host creates just before the launch.
//
//===----------------------------------------------------------------------===//

#include "Launches.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/KernelPhase.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/Support/DebugLog.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILEUSETENSORMAPSPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

#define DEBUG_TYPE "attn-tile-use-tensor-maps"

using namespace mlir;
using namespace mlir::attn_tile;

/// Width of the box of a tensor map: the span of the swizzle in which stages
/// are laid out. Wider stages are filled by several copies of one box each.
/// CUDA Driver API, "Tensor Map Object Management".
static constexpr int64_t boxBytes = 128;

/// Most elements of a box in one dimension.
static constexpr int64_t maxBoxSize = 256;

/// The tensor map for copies of `rows` rows each between `memory` and `buffer`.
static TensorMapType getMapType(MemRefType memory, BufferType buffer,
                                int64_t rows) {
  Type element = buffer.getElementType();
  int64_t columns = buffer.getShape()[1];
  // A tile of one row lies in memory as it is.
  if (buffer.getShape()[0] != 1)
    columns = boxBytes * 8 / element.getIntOrFloatBitWidth();
  return TensorMapType::get(memory.getContext(), memory.getRank(),
                            {rows, columns}, element);
}

namespace {
/// Copies between global memory and stages.
struct Transfer {
  Operation *op;
  /// The operand in global memory, and its name in diagnostics.
  OpOperand *memory;
  StringRef role;
  BufferType buffer;
  /// Rows that are copied at once.
  int64_t rows;
};
} // namespace

/// The transfer that `op` makes, if it is from or to a memref.
static std::optional<Transfer> getTransfer(Operation *op) {
  std::optional<Transfer> transfer;
  if (auto copy = dyn_cast<CopyOp>(op)) {
    transfer = Transfer{op, &copy.getSourceMutable(), "source",
                        copy.getBuffer().getType(), copy.getContiguousRows()};
  } else if (auto store = dyn_cast<StoreThroughOp>(op)) {
    BufferType buffer = store.getPipe().getType().getBufferType();
    transfer = Transfer{op, &store.getDestMutable(), "destination", buffer,
                        buffer.getShape()[0] / buffer.getCluster()};
  }
  if (!transfer || !isa<MemRefType>(transfer->memory->get().getType()))
    return std::nullopt;
  return transfer;
}

/// Checks the static strides of `memory`.
static LogicalResult checkStrides(const Transfer &transfer, MemRefType memory) {
  constexpr int64_t strideBytes = 16;
  SmallVector<int64_t> strides;
  int64_t offset;
  if (failed(memory.getStridesAndOffset(strides, offset)))
    return success();
  int64_t bytes = memory.getElementTypeBitWidth() / 8;
  for (int64_t dim = 0, e = memory.getRank() - 1; dim < e; ++dim)
    if (!ShapedType::isDynamic(strides[dim]) && memory.getDimSize(dim) != 1 &&
        strides[dim] * bytes % strideBytes != 0)
      return transfer.op->emitOpError()
             << transfer.role << " must have strides of multiples of "
             << strideBytes << " bytes to be copied through a tensor map (that "
             << "of dimension " << dim << " is " << strides[dim] * bytes << ")";
  return success();
}

static LogicalResult checkTransfer(const Transfer &transfer, KernelOp kernel) {
  Value memory = transfer.memory->get();
  BufferType buffer = transfer.buffer;
  auto type = cast<MemRefType>(memory.getType());
  auto emitError = [&] { return transfer.op->emitOpError(); };
  auto argument = dyn_cast<BlockArgument>(memory);
  if (!argument || argument.getOwner() != &kernel.getBody().front())
    return emitError() << transfer.role
                       << " must be an argument of the kernel to be copied "
                          "through a tensor map";
  if (type.getRank() < 2 || type.getRank() > 5)
    return emitError() << transfer.role
                       << " must have 2 to 5 dimensions to be copied through "
                          "a tensor map (has "
                       << type.getRank() << ")";
  unsigned width = buffer.getElementType().getIntOrFloatBitWidth();
  if (width % 8 != 0 || width > 64)
    return emitError() << "elements must have 8 to 64 bits to be copied "
                          "through a tensor map (were "
                       << buffer.getElementType() << ")";
  if (buffer.getShape()[0] > maxBoxSize)
    return emitError() << "buffer must have at most " << maxBoxSize
                       << " rows to be copied through a tensor map (has "
                       << buffer.getShape()[0] << ")";
  if (buffer.getShape()[0] == 1 && buffer.getShape()[1] > maxBoxSize)
    return emitError() << "a row must have at most " << maxBoxSize
                       << " elements to be copied through a tensor map (has "
                       << buffer.getShape()[1] << ")";
  return checkStrides(transfer, type);
}

namespace {
struct AttnTileUseTensorMapsPass
    : public attn_tile::impl::AttnTileUseTensorMapsPassBase<
          AttnTileUseTensorMapsPass> {
  using Base::Base;

  static constexpr PhaseContract phases{
      KernelPhase::Staged, KernelPhase::Specialized, KernelPhase::Final};

  void runOnOperation() override;
};

/// A tensor map that a kernel gets as an argument.
struct MapArgument {
  unsigned memory;
  TensorMapType type;
  SmallVector<OpOperand *> uses;
};
} // namespace

/// The tensor maps that `kernel` needs, in order of first use.
static FailureOr<SmallVector<MapArgument>> collectMaps(KernelOp kernel) {
  SmallVector<MapArgument> maps;
  WalkResult walk = kernel.walk([&](Operation *op) -> WalkResult {
    std::optional<Transfer> transfer = getTransfer(op);
    if (!transfer)
      return success();
    if (failed(checkTransfer(*transfer, kernel)))
      return failure();
    Value memory = transfer->memory->get();
    unsigned number = cast<BlockArgument>(memory).getArgNumber();
    TensorMapType type = getMapType(cast<MemRefType>(memory.getType()),
                                    transfer->buffer, transfer->rows);
    auto *map = llvm::find_if(maps, [&](const MapArgument &other) {
      return other.memory == number && other.type == type;
    });
    if (map == maps.end())
      map = maps.insert(maps.end(), MapArgument{number, type, {}});
    map->uses.push_back(transfer->memory);
    return success();
  });
  if (walk.wasInterrupted())
    return failure();
  return maps;
}

/// Adds `maps` to the arguments of `kernel` and of its launches; memrefs that
/// are then unused are dropped.
static LogicalResult addMaps(KernelOp kernel, ArrayRef<LaunchOp> launches,
                             ArrayRef<MapArgument> maps, int64_t l2Promotion) {
  for (const MapArgument &map : maps) {
    unsigned number = kernel.getNumArguments();
    Location loc = kernel.getArgument(map.memory).getLoc();
    if (failed(kernel.insertArgument(number, map.type, /*argAttrs=*/{}, loc)))
      return failure();
    for (OpOperand *use : map.uses)
      use->set(kernel.getArgument(number));
    for (LaunchOp launch : launches) {
      OpBuilder builder(launch);
      Value source = launch.getKernelOperands()[map.memory];
      launch.getKernelOperandsMutable().append(
          MakeTensorMapOp::create(builder, launch.getLoc(), map.type, source,
                                  l2Promotion)
              .getResult());
    }
  }

  llvm::BitVector unused(kernel.getNumArguments());
  for (const MapArgument &map : maps)
    if (kernel.getArgument(map.memory).use_empty())
      unused.set(map.memory);
  for (LaunchOp launch : launches) {
    MutableOperandRange operands = launch.getKernelOperandsMutable();
    for (unsigned number = unused.size(); number-- > 0;)
      if (unused.test(number))
        operands.erase(number);
  }
  return kernel.eraseArguments(unused);
}

void AttnTileUseTensorMapsPass::runOnOperation() {
  if (!isL2Promotion(l2Promotion)) {
    getOperation().emitError("'l2-promotion' must be 0, 64, 128 or 256 (was ")
        << l2Promotion.getValue() << ")";
    return signalPassFailure();
  }
  for (auto &[op, users] : collectLaunches(getOperation())) {
    auto kernel = cast<KernelOp>(op);
    if (failed(verifyExpectedPhase(kernel, getArgument(), phases)))
      return signalPassFailure();
    KernelPhase before = getKernelPhase(kernel);
    FailureOr<SmallVector<MapArgument>> maps = collectMaps(kernel);
    if (failed(maps) || failed(addMaps(kernel, users, *maps, l2Promotion)) ||
        failed(verifyLeftPhase(kernel, getArgument(), phases, before)))
      return signalPassFailure();
    LDBG() << maps->size() << " tensor maps in kernel " << kernel.getName();
    numMaps += maps->size();
  }
}
