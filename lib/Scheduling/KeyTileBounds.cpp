//===- KeyTileBounds.cpp - Capacities of GPU kernels ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds the largest key tile whose scores fit registers and whose stages fit
// shared memory.
//
//===----------------------------------------------------------------------===//

#include "ScheduleCandidates.h"
#include "attn/Dialect/AttnTile/IR/RegisterBlocks.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::attn;
using attn_tile::columnBlockBytes;
using attn_tile::headDimStep;
using attn_tile::warpgroupThreads;

double KeyTileBounds::getRegisters(int64_t keyTile) const {
  double scores = double(queryTile * keyTile) / double(threads);
  // f32 probabilities take the registers of the scores, apart from the
  // operands that are being rounded. So do half of the 8-bit ones: kernels
  // with head dim 256 and key tile 128 do not spill.
  constexpr double bytesBeingRounded = 0.6, bytesOfFloat8 = 0.5;
  double probabilityBytes = elementBytes == registerBytes ? bytesBeingRounded
                            : elementBytes == 1 ? bytesOfFloat8
                                                : double(elementBytes);
  double held =
      double(scoreBytes) + (sharesProbabilities ? 0 : probabilityBytes);
  // Tiles have whole steps of the contracted dimension.
  double output = double(queryTile * llvm::alignTo(vHeadDim, headDimStep)) /
                  double(threads);
  return scores * (1 + held / registerBytes) + output;
}

int64_t KeyTileBounds::getMmaRegisters(int64_t keyTile) const {
  return std::max(
      attn_tile::getMmaRegisters(keyTile, /*hasLhsInRegisters=*/false),
      attn_tile::getMmaRegisters(llvm::alignTo(vHeadDim, headDimStep),
                                 !sharesProbabilities));
}

int64_t KeyTileBounds::getKeyTileUnit() const {
  constexpr int64_t stepBytes = 32;
  return std::max(keyTileUnit, stepBytes / elementBytes);
}

int64_t KeyTileBounds::getSharedBytes(int64_t keyTile) const {
  auto getRowBytes = [&](int64_t headDim, int64_t bytes) {
    return int64_t(llvm::alignTo(bytes * headDim, columnBlockBytes));
  };
  int64_t queryBytes = getRowBytes(qkHeadDim, elementBytes);
  int64_t probabilities =
      sharesProbabilities ? elementBytes * queryTile * keyTile : 0;
  int64_t scoreRow = 0;
  for (int64_t bytes : stagedScoreBytes)
    scoreRow += llvm::alignTo(bytes * keyTile, columnBlockBytes);
  int64_t valueBytes = transposesValues
                           ? llvm::alignTo(vHeadDim, headDimStep) *
                                 getRowBytes(keyTile, getKeyBytes())
                           : keyTile * getRowBytes(vHeadDim, getKeyBytes());
  if (stagesKeysAlone)
    valueBytes = 0;
  int64_t stageBytes =
      keyTile * getRowBytes(qkHeadDim, getKeyBytes()) + valueBytes;
  int64_t converted =
      convertedBytes
          ? keyTile * (queryBytes + getRowBytes(vHeadDim, elementBytes))
          : 0;
  return queryStages * queryTile * queryBytes + stages * stageBytes +
         converted + scoreStages * queryTile * scoreRow + probabilities;
}

LargestTile attn::getLargestKeyTile(const KeyTileBounds &bounds) {
  Capacity capacity;
  capacity.registers = double(bounds.registers);
  if (bounds.launchedRegisters)
    capacity.launchedRegisters = *bounds.launchedRegisters;
  capacity.sharedBytes = double(bounds.sharedBytes);
  auto getNeed = [&](int64_t keyTile) {
    CapacityNeed need;
    need.registers = bounds.getRegisters(keyTile);
    if (bounds.launchedRegisters)
      need.mmaRegisters = bounds.getMmaRegisters(keyTile);
    need.sharedBytes = double(bounds.getSharedBytes(keyTile));
    return need;
  };
  return findLargestTile(capacity, bounds.getKeyTileUnit(), bounds.maxKeyTile,
                         getNeed);
}

KeyTileBounds attn::getConsumerBounds(int64_t consumers,
                                      const DeviceFigures &device) {
  KeyTileBounds bounds;
  bounds.queryTile = consumers * warpgroupRows;
  bounds.threads = consumers * warpgroupThreads;
  bounds.registers =
      consumers == 3 ? tileRegistersThreeConsumers : tileRegistersTwoConsumers;
  // The producer is launched with as many registers per thread.
  bounds.launchedRegisters = attn_tile::getLaunchedRegisters(
      bounds.threads + warpgroupThreads, /*ctasPerSm=*/1);
  bounds.sharedBytes = getTileBytes(device);
  return bounds;
}
