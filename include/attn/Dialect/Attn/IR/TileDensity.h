//===- TileDensity.h - What masks leave that depend on data -*- C++ -*-----===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An assumption of the cost model about data.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_TILEDENSITY_H
#define ATTN_DIALECT_ATTN_IR_TILEDENSITY_H

#include "attn/Dialect/Attn/IR/AttnInterfaces.h"

#include <optional>

namespace mlir::attn {

/// An attribute of attention whose mask depends on data: the tiles that are
/// visited, and those of them that the mask cuts, as parts of all tiles, as in
/// `attn.tile_density = array<f64: 0.12, 0.03>`. The cost model goes by it.
inline constexpr StringLiteral tileDensityAttrName = "attn.tile_density";

struct TileDensity {
  double visited = 1, cut = 1;
};

/// What `op` has, if it has it.
std::optional<TileDensity> getTileDensity(AttentionOpInterface op);

} // namespace mlir::attn

#endif // ATTN_DIALECT_ATTN_IR_TILEDENSITY_H
