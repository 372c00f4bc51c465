//===- RegionRequirements.cpp - Requirements of regions -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Counts the reads of score_mod and mask_mod regions, and finds the positions
// on which they depend: reads take registers and bandwidth of the kernel.
//
//===----------------------------------------------------------------------===//

#include "RegionRequirements.h"
#include "attn/Analysis/ScoreFactor.h"
#include "attn/Dialect/AttnTile/IR/WarpgroupShapes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/CastInterfaces.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace mlir::attn;
using attn_tile::headDimStep;

void attn::forEachPairRead(AttentionOpInterface op,
                           function_ref<void(tensor::ExtractOp)> fn) {
  if (op.getScoreMod().empty())
    return;
  ValueRange position = op.getScoreMod().getArguments().take_back(2);
  op.getScoreMod().walk([&](tensor::ExtractOp extract) {
    if (extract.getIndices().size() >= 2 &&
        extract.getIndices().take_back(2) == position &&
        extract.getType().isIntOrFloat())
      fn(extract);
  });
}

int64_t attn::getElementBytes(tensor::ExtractOp extract) {
  return llvm::divideCeil(extract.getType().getIntOrFloatBitWidth(), 8);
}

int64_t attn::getScoreBytes(AttentionOpInterface op) {
  int64_t bytes = 0;
  forEachPairRead(op, [&](tensor::ExtractOp extract) {
    bytes += getElementBytes(extract);
  });
  return bytes;
}

bool attn::canStageScores(AttentionOp op) {
  Region &region = op.getScoreMod();
  constexpr int64_t maxRank = 5;
  llvm::SmallDenseSet<Value> tensors;
  bool canStage = true;
  forEachPairRead(op, [&](tensor::ExtractOp extract) {
    Type type = extract.getType();
    canStage &= type.isBF16() || type.isF16() || type.isF32();
    canStage &= extract.getTensor().getType().getRank() <= maxRank &&
                tensors.insert(extract.getTensor()).second;
    for (Value index : extract.getIndices().drop_back(2))
      canStage &= index == region.getArgument(1) ||
                  index == region.getArgument(2) ||
                  matchPattern(index, m_Constant());
  });
  return canStage && !tensors.empty();
}

bool attn::readsElements(AttentionOp op) {
  Region &region = op.getScoreMod();
  // Reads of factors of all scores happen once for each work item.
  if (!changesSingleScores(op))
    return false;
  auto isShared = [&](Value index) {
    if (index.getParentRegion() != &region)
      return true;
    auto argument = dyn_cast<BlockArgument>(index);
    return argument ? argument.getArgNumber() < 3
                    : matchPattern(index, m_Constant());
  };
  return region
      .walk([&](tensor::ExtractOp extract) {
        return llvm::all_of(extract.getIndices(), isShared)
                   ? WalkResult::advance()
                   : WalkResult::interrupt();
      })
      .wasInterrupted();
}

bool attn::hasFunction(AttentionOp op) {
  return op.getScoreMod()
      .walk([](Operation *nested) {
        return isa<math::MathDialect>(nested->getDialect())
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

bool attn::cutsMiddleKeys(MaskAttrInterface mask) {
  constexpr int64_t length = 1 << 20;
  return mask && !mask.isAttended(length - 1, length / 2, length, length);
}

/// The number of consecutive positions with the same `value`, which depends on
/// `position`; 0 if it does not.
static int64_t getRunLength(Value value, BlockArgument position) {
  if (value == position)
    return 1;
  Operation *op = value.getDefiningOp();
  if (!op || !position.getOwner()->findAncestorOpInBlock(*op))
    return 0;
  int64_t length = 0;
  for (Value operand : op->getOperands())
    if (int64_t run = getRunLength(operand, position))
      length = length ? std::min(length, run) : run;
  IntegerAttr divisor;
  if (length == 1 &&
      isa<arith::DivUIOp, arith::DivSIOp, arith::FloorDivSIOp>(op) &&
      op->getOperand(0) == position &&
      matchPattern(op->getOperand(1), m_Constant(&divisor)))
    return std::max<int64_t>(divisor.getInt(), 1);
  return length;
}

BlockSize attn::getReadBlock(Region &maskMod) {
  BlockSize block;
  if (maskMod.empty())
    return block;
  auto narrow = [](int64_t &size, int64_t run) {
    if (run)
      size = size ? std::min(size, run) : run;
  };
  maskMod.walk([&](Operation *op) {
    if (!llvm::any_of(op->getOperandTypes(),
                      llvm::IsaPred<TensorType, BaseMemRefType>))
      return;
    for (Value operand : op->getOperands()) {
      narrow(block.rows, getRunLength(operand, maskMod.getArgument(2)));
      narrow(block.columns, getRunLength(operand, maskMod.getArgument(3)));
    }
  });
  return block;
}

int64_t attn::getQueryRegisters(AttentionOp op) {
  if (op.getQueryRegion().empty())
    return 0;
  return llvm::alignTo(op.getQKHeadDim(), headDimStep) / 4;
}

int64_t attn::getPackedQueryRegisters(AttentionOp op) {
  // The operands of a single query are reshaped.
  if (!op.getAddressing().isListed() && getDimSize(op.getQuery(), 2) == 1)
    return 0;
  return llvm::alignTo(op.getQKHeadDim(), headDimStep) / 4;
}

bool attn::convertsKeys(AttentionOpInterface op) {
  return isFloat8(getElementTypeOrSelf(op.getKey())) &&
         !isFloat8(getElementTypeOrSelf(op.getQuery()));
}

std::optional<std::string> attn::whyNotWriteFloat8(AttentionOp attention,
                                                   const Target &target) {
  if (target.isHost())
    return std::nullopt;
  if (!target.supportsElementType(
          Float8E4M3FNType::get(attention.getContext())))
    return "it has no instructions that round to 8 bits";
  // Threads of a quad store 16 bytes of a row at once.
  constexpr int64_t unit = 16;
  if (int64_t headDim = attention.getVHeadDim(); headDim % unit != 0)
    return ("the value head dim must be a multiple of " + Twine(unit) +
            " (was " + Twine(headDim) + ")")
        .str();
  return std::nullopt;
}

int64_t attn::getConversionRegisters(AttentionOpInterface op) {
  if (!convertsKeys(op))
    return 0;
  // A thread converts 16 elements at a time. It holds addresses for each column
  // of them that it visits; a warpgroup visits 16 columns at once if their
  // number allows it.
  constexpr int64_t elements = 16, columnsAtOnce = 16, ofColumn = 4;
  int64_t registers = 0;
  for (int64_t headDim : {op.getQKHeadDim(), op.getVHeadDim()}) {
    int64_t columns = llvm::divideCeil(headDim, elements);
    registers += ofColumn * columns / std::gcd(columns, columnsAtOnce);
  }
  return registers;
}

bool attn::paysToPackGqa(AttentionOp op, int64_t queries, int64_t queryTile) {
  return llvm::divideCeil(queries * op.getGroupSize(), queryTile) <
         op.getGroupSize() * llvm::divideCeil(queries, queryTile);
}

bool attn::hasWideHeads(AttentionOp op) {
  return std::max(op.getQKHeadDim(), op.getVHeadDim()) >
         attn_tile::maxMmaColumns;
}

int64_t attn::getMinHeadDimTiles(AttentionOpInterface op) {
  return llvm::divideCeil(op.getVHeadDim(), attn_tile::maxMmaColumns);
}

bool attn::canDivideHeadDim(AttentionOp op, int64_t numHeadDimTiles) {
  constexpr int64_t minHeadDimTile = 64;
  return numHeadDimTiles == getMinHeadDimTiles(op) ||
         op.getVHeadDim() >= numHeadDimTiles * minHeadDimTile;
}

KeyTileBounds attn::withShapes(KeyTileBounds bounds, AttentionOpInterface op,
                               int64_t numHeadDimTiles) {
  bounds.qkHeadDim = op.getQKHeadDim();
  bounds.vHeadDim = op.getVHeadDim();
  if (numHeadDimTiles > 1)
    bounds.vHeadDim = bounds.headDimTile = int64_t(llvm::alignTo(
        llvm::divideCeil(op.getVHeadDim(), numHeadDimTiles), headDimStep));
  bounds.elementBytes = getElementBytes(op.getQuery());
  if (convertsKeys(op))
    bounds.convertedBytes = getElementBytes(op.getKey());
  bounds.transposesValues = isFloat8(getElementTypeOrSelf(op.getQuery()));
  bounds.scoreBytes = getScoreBytes(op);
  return bounds;
}

unsigned attn::countPositionTables(Region &maskMod) {
  ValueRange positions = maskMod.getArguments().take_back(2);
  llvm::SmallDenseSet<Value> tensors;
  maskMod.walk([&](tensor::ExtractOp extract) {
    for (Value index : extract.getIndices())
      if (llvm::is_contained(positions, index))
        tensors.insert(extract.getTensor());
  });
  return tensors.size();
}

/// Whether `mask_mod` computes numbers from the results of the reads in
/// `isMeant`, beyond comparing them.
static bool computesFromReads(Region &maskMod,
                              function_ref<bool(tensor::ExtractOp)> isMeant) {
  DenseSet<Value> read;
  return maskMod
      .walk([&](Operation *op) {
        if (auto extract = dyn_cast<tensor::ExtractOp>(op)) {
          if (isMeant(extract))
            read.insert(extract.getResult());
          return WalkResult::advance();
        }
        auto isRead = [&](Value value) { return read.contains(value); };
        auto isNumber = [](Type type) { return !type.isInteger(1); };
        if (llvm::none_of(op->getOperands(), isRead) ||
            llvm::none_of(op->getResultTypes(), isNumber))
          return WalkResult::advance();
        if (!isa<CastOpInterface>(op))
          return WalkResult::interrupt();
        read.insert_range(op->getResults());
        return WalkResult::advance();
      })
      .wasInterrupted();
}

bool attn::computesFromKeyReads(Region &maskMod) {
  return computesFromReads(maskMod, [&](tensor::ExtractOp extract) {
    return llvm::is_contained(extract.getIndices(), maskMod.getArgument(3));
  });
}

bool attn::computesFromPairReads(Region &maskMod) {
  return computesFromReads(maskMod, [&](tensor::ExtractOp extract) {
    return llvm::all_of(
        maskMod.getArguments().take_back(2), [&](BlockArgument position) {
          return llvm::any_of(extract.getIndices(), [&](Value index) {
            return getRunLength(index, position) != 0;
          });
        });
  });
}

bool attn::canReadMaskBits(AttentionOpInterface attention) {
  Region &maskMod = attention.getMaskMod();
  int64_t queries = getDimSize(attention.getQuery(), 2);
  return needsClassification(attention) && maskMod.getArgument(1).use_empty() &&
         (ShapedType::isDynamic(queries) || queries < maxMaskBitQueries);
}
