//===- CreateBlockMaskOp.cpp - Block masks of masks that read tensors -----===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The operation `attn.create_block_mask`.
//
//===----------------------------------------------------------------------===//

#include "RegionVerifier.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir;
using namespace mlir::attn;

std::pair<int64_t, int64_t> CreateBlockMaskOp::getTiles(Attribute schedule) {
  if (auto choice = dyn_cast<ByQueryLengthAttr>(schedule)) {
    auto [belowQueries, belowKeys] = getTiles(choice.getBelow());
    auto [fromQueries, fromKeys] = getTiles(choice.getFrom());
    return {std::min(belowQueries, fromQueries), std::min(belowKeys, fromKeys)};
  }
  auto one = cast<ScheduleAttrInterface>(schedule);
  return {one.getQueryTile(), one.getKeyTile()};
}

LogicalResult attn::verifyBlockMaskSizes(Operation *op, Value blockMask,
                                         Attribute schedule, int64_t queries,
                                         int64_t keys) {
  if (!schedule)
    return success();
  auto [queryTile, keyTile] = CreateBlockMaskOp::getTiles(schedule);
  struct {
    int64_t dim, length, tile, extra;
    StringRef name;
  } checks[] = {{2, queries, queryTile, 0, "queries"},
                {3, keys, keyTile, CreateBlockMaskOp::extraEntries, "keys"}};
  for (const auto &check : checks) {
    int64_t actual = getDimSize(blockMask, check.dim);
    if (ShapedType::isDynamic(actual) || ShapedType::isDynamic(check.length))
      continue;
    int64_t expected = llvm::divideCeil(check.length, check.tile) + check.extra;
    // With a choice of schedules, it has room for the smallest tiles.
    if (actual < expected)
      return op->emitOpError()
             << "dimension " << check.dim
             << " of the block mask must be at least " << expected << ", for "
             << check.length << " " << check.name << " in tiles of "
             << check.tile << " (was " << actual << ")";
  }
  return success();
}

void CreateBlockMaskOp::getAsmBlockArgumentNames(Region &region,
                                                 OpAsmSetValueNameFn setName) {
  constexpr StringLiteral names[] = {"b", "h", "i", "j"};
  for (auto [argument, name] : llvm::zip(region.getArguments(), names))
    setName(argument, name);
}

void CreateBlockMaskOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  if (isBufferized())
    effects.emplace_back(MemoryEffects::Write::get(), &getOutMutable(),
                         SideEffects::DefaultResource::get());
}

Speculation::Speculatability CreateBlockMaskOp::getSpeculatability() {
  return isBufferized() ? Speculation::NotSpeculatable
                        : Speculation::RecursivelySpeculatable;
}

LogicalResult
CreateBlockMaskOp::reifyResultShapes(OpBuilder &builder,
                                     ReifiedRankedShapedTypeDims &shapes) {
  if (!getResult())
    return failure();
  shapes.push_back(tensor::getMixedSizes(builder, getLoc(), getOut()));
  return success();
}

LogicalResult CreateBlockMaskOp::verify() {
  if (isBufferized() == static_cast<bool>(getResult()))
    return emitOpError() << "must have " << (isBufferized() ? "no" : "one")
                         << " result";
  if (MaskAttrInterface mask = getMaskAttr(); mask && !mask.getReads().empty())
    return emitOpError("mask must not read operands; attn-expand-masks makes "
                       "regions of such masks");
  int64_t heads = getDimSize(getOut(), 1);
  if (ShapedType::isDynamic(heads) || heads < 1)
    return emitOpError(
        "dimension 1 of the block mask must be static, the number of "
        "heads or 1");
  auto getLength = [](Value length) {
    return getConstantIntValue(length).value_or(ShapedType::kDynamic);
  };
  int64_t batch = getLength(getBatch());
  int64_t entries = getDimSize(getOut(), 0);
  if (ShapedType::isStatic(batch) && ShapedType::isStatic(entries) &&
      entries < batch)
    return emitOpError("dimension 0 of the block mask must be at least ")
           << batch << ", the batch (was " << entries << ")";
  return verifyBlockMaskSizes(*this, getOut(), getScheduleAttr(),
                              getLength(getQueries()), getLength(getKeys()));
}

LogicalResult CreateBlockMaskOp::verifyRegions() {
  Builder builder(getContext());
  SmallVector<Type> types(4, builder.getIndexType());
  return verifyRegion(cast<DestinationStyleOpInterface>(getOperation()),
                      "mask_mod", getMaskMod(), types, builder.getI1Type(),
                      [] { return SmallVector<RegionDestination>(); });
}
