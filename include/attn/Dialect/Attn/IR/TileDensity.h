//===- TileDensity.h - What masks leave that depend on data -*- C++ -*-----===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The density of data-dependent masks that the cost model assumes.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_TILEDENSITY_H
#define ATTN_DIALECT_ATTN_IR_TILEDENSITY_H

#include "attn/Dialect/Attn/IR/AttnInterfaces.h"

#include <optional>

namespace mlir::attn {

/// An attribute of attention whose mask depends on data: the fraction of all
/// tiles that are visited, and the fraction that are visited and masked, as in
/// `attn.tile_density = array<f64: 0.12, 0.03>`. The cost model uses it.
inline constexpr StringLiteral tileDensityAttrName = "attn.tile_density";

struct TileDensity {
  double visited = 1, cut = 1;
};

/// The tile density of `op`, if it has one.
std::optional<TileDensity> getTileDensity(AttentionOpInterface op);

} // namespace mlir::attn

#endif // ATTN_DIALECT_ATTN_IR_TILEDENSITY_H
