//===- RegisterBlocks.cpp - Register blocks of matmuls on vectors ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A step of a block loads a vector for each piece and a value for each row, and
// multiplies each value with each vector (Goto and van de Geijn 2008).
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/IR/RegisterBlocks.h"

#include <algorithm>

using namespace mlir;
using namespace mlir::attn_tile;

Registers attn_tile::getVectorRegisters(int64_t lanes) {
  constexpr int64_t leastRegisters = 16, mostLanes = 16;
  int64_t ofOne = std::clamp<int64_t>(lanes / leastRegisters, 1, mostLanes);
  return {ofOne, lanes / ofOne};
}

RegisterBlock attn_tile::getRegisterBlock(Registers registers, int64_t rows,
                                          int64_t columns) {
  int64_t lanes = registers.lanes;
  while (columns % lanes != 0)
    lanes /= 2;
  int64_t pieces = columns / lanes;
  // One register is needed for the row's value and one for each piece; two are
  // left to the compiler.
  RegisterBlock best = {1, 1, lanes};
  double bestRatio = 0;
  for (int64_t p = 1; p <= pieces; ++p) {
    for (int64_t r = 1; r <= rows; ++r) {
      if (pieces % p != 0 || rows % r != 0 ||
          r * p + p + 1 > registers.count - 2)
        continue;
      double ratio = static_cast<double>(r * p) / static_cast<double>(r + p);
      if (ratio > bestRatio) {
        bestRatio = ratio;
        best = {r, p, lanes};
      }
    }
  }
  return best;
}
