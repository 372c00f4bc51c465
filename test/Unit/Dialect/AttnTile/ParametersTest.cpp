//===- ParametersTest.cpp - Structs of parameters -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Structs of parameters have the defaults of the custom form, and make the
// attribute that they are made from.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/IR/AttnTileDialect.h"
#include "attn/Dialect/AttnTile/IR/AttnTileParameters.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::attn_tile;

namespace {
class ParametersTest : public ::testing::Test {
protected:
  ParametersTest() { context.loadDialect<AttnTileDialect>(); }

  MLIRContext context;
};
} // namespace

TEST_F(ParametersTest, hasTheDefaultsOfTheCustomForm) {
  WarpSpecializedParameters parameters;
  parameters.queryTile = 128;
  parameters.keyTile = 64;
  parameters.stages = 2;
  parameters.consumers = 2;
  EXPECT_EQ(parameters.get(&context),
            parseAttribute("#attn_tile.warp_specialized<query_tile = 128, "
                           "key_tile = 64, stages = 2, consumers = 2>",
                           &context));
  parameters.traversal = TraversalKind::Grid;
  parameters.l2Promotion = 128;
  EXPECT_EQ(parameters.get(&context),
            parseAttribute("#attn_tile.warp_specialized<query_tile = 128, "
                           "key_tile = 64, stages = 2, consumers = 2, "
                           "traversal = grid, l2_promotion = 128>",
                           &context));
}

TEST_F(ParametersTest, makesTheAttributeThatItIsMadeFrom) {
  auto attribute = dyn_cast_if_present<KeyStationaryAttr>(parseAttribute(
      "#attn_tile.key_stationary<query_tile = 128, key_tile = 128, stages = 4, "
      "consumers = 2, traversal = paired, pipelined = true, query_parts = 2, "
      "lhs_registers = true, key_stages = 2>",
      &context));
  ASSERT_TRUE(attribute);
  KeyStationaryParameters parameters(attribute);
  EXPECT_EQ(parameters.queryParts, 2);
  EXPECT_TRUE(parameters.lhsRegisters);
  EXPECT_EQ(parameters.get(&context), attribute);
}
