//===- MaskTest.cpp - Tests of the mask interface -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks what masks promise through MaskAttrInterface.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/AttnAttrs.h"
#include "mlir/IR/MLIRContext.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::attn;

TEST(MaskTest, CausalConstantValue) {
  MLIRContext context;
  context.loadDialect<AttnDialect>();
  auto causal = CausalAttr::get(&context, MaskAlignment::TopLeft);
  EXPECT_EQ(causal.getConstantValue(1, 1), std::optional<bool>(true));
  EXPECT_EQ(causal.getConstantValue(2, 2), std::nullopt);
}
