//===- TestAttn.h - A dialect that implements interfaces -------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The dialect, the target and the passes that tests use.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_LIB_TESTATTN_H
#define ATTN_TEST_LIB_TESTATTN_H

#include "attn/Dialect/Attn/IR/AttnAttrs.h"
#include "attn/Dialect/Attn/IR/AttnInterfaces.h"
#include "attn/Dialect/AttnTile/IR/AttnTileAttrs.h"
#include "attn/Dialect/AttnTile/IR/StreamingOpInterface.h"
#include "attn/Interfaces/CostOpInterface.h"
#include "attn/Interfaces/DescribableOpInterface.h"
#include "attn/Interfaces/DifferentiableOpInterface.h"
#include "attn/Interfaces/FusibleOpInterface.h"
#include "attn/Interfaces/StreamableOpInterface.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "TestAttnDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "TestAttnAttrs.h.inc"

#define GET_OP_CLASSES
#include "TestAttnOps.h.inc"

namespace test_attn {
/// Registers the target `test_gpu`.
void registerTestTarget();
/// Registers the passes `test-attn-*`.
void registerTestPasses();
} // namespace test_attn

#endif // ATTN_TEST_LIB_TESTATTN_H
