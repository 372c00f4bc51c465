//===- LedgerPictures.h - Pictures of work and its bounds ----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The ledger of a program, and how it is drawn.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_LEDGERPICTURES_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_LEDGERPICTURES_H

#include "DropoutTime.h"
#include "attn/Analysis/Derivation.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

namespace mlir::attn {

/// One operation of a ledger.
struct LedgerEntry {
  std::string name;
  OpCost cost;
  RooflineEstimate time;
  /// Of attention, or of its gradient, whose schedule has a model.
  SmallVector<KernelTime> kernels;
};

/// What the dropout of attentions takes wherever its decisions are made, with
/// the attentions and the products before them.
struct LedgerDropout {
  size_t attentions;
  size_t products;
  DropoutTimes times;
};

/// What one kernel could do with the axes of operations, and with which tiles
/// where these are bounded.
struct LedgerDerivation {
  OpChain chain;
  std::optional<Derivation> tiles;
};

/// The operations of a function, in order, and their sums.
struct LedgerFunction {
  std::string name;
  std::vector<LedgerEntry> entries;
  std::vector<LedgerDropout> dropouts;
  std::vector<LedgerDerivation> derivations;
  OpCost total;
  double seconds = 0;
};

/// Draws, as SVG, the roofs of the device's memory and of products of 16-bit
/// elements, and each operation at its intensity and estimated speed.
void drawRoofline(raw_ostream &os, DeviceAttr device,
                  ArrayRef<LedgerFunction> functions);

/// Draws, as SVG, the bytes that each operation moves, by level.
void drawFlow(raw_ostream &os, ArrayRef<LedgerFunction> functions);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_LEDGERPICTURES_H
