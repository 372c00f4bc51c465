//===- Toy.cpp - A mask and a schedule of another dialect -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Toy.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "attn/Interfaces/Target.h"
#include "attn/PerfModel/ScheduleTime.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/TypeSwitch.h"

#include "ToyDialect.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "ToyAttrs.cpp.inc"

using namespace mlir;
using namespace toy;

void ToyDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "ToyAttrs.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// StreamingAttr
//===----------------------------------------------------------------------===//

LogicalResult
StreamingAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                      int64_t first, int64_t window) {
  if (first < 0)
    return emitError() << "first must be at least 0 (was " << first << ")";
  if (window < 1)
    return emitError() << "window must be at least 1 (was " << window << ")";
  return success();
}

Value StreamingAttr::emitPredicate(OpBuilder &builder, Location loc,
                                   const attn::MaskPosition &at) const {
  using arith::CmpIPredicate;
  auto compare = [&](CmpIPredicate predicate, Value lhs, Value rhs) -> Value {
    return arith::CmpIOp::create(builder, loc, predicate, lhs, rhs);
  };
  // The last query has the position of the last key.
  Value offset =
      arith::SubIOp::create(builder, loc, at.keyLength, at.queryLength);
  Value position = arith::AddIOp::create(builder, loc, at.query, offset);
  Value distance = arith::SubIOp::create(builder, loc, position, at.key);
  Value zero = arith::ConstantIndexOp::create(builder, loc, 0);
  Value first = arith::ConstantIndexOp::create(builder, loc, getFirst());
  Value window = arith::ConstantIndexOp::create(builder, loc, getWindow());
  Value isCausal = compare(CmpIPredicate::sge, distance, zero);
  Value isFirst = compare(CmpIPredicate::slt, at.key, first);
  Value isNear = compare(CmpIPredicate::slt, distance, window);
  Value isKept = arith::OrIOp::create(builder, loc, isFirst, isNear);
  return arith::AndIOp::create(builder, loc, isCausal, isKept);
}

bool StreamingAttr::isAttended(int64_t query, int64_t key, int64_t queryLength,
                               int64_t keyLength) const {
  int64_t distance = query + keyLength - queryLength - key;
  return distance >= 0 && (key < getFirst() || distance < getWindow());
}

std::optional<bool> StreamingAttr::getConstantValue(int64_t queryLength,
                                                    int64_t keyLength) const {
  // One query, the last one, attends to all keys of a window or less.
  if (queryLength == 1 && keyLength <= getWindow())
    return true;
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// SingleStageAttr
//===----------------------------------------------------------------------===//

LogicalResult
SingleStageAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                        int64_t keyTile, int64_t warps) {
  if (keyTile < 16 || keyTile % 16 != 0)
    return emitError() << "key_tile must be a multiple of 16 (was " << keyTile
                       << ")";
  if (warps != 4 && warps != 8)
    return emitError() << "warps must be 4 or 8 (was " << warps << ")";
  return success();
}

// A warp has 16 rows: the M of mma.sync.m16n8k16. The accessor of the parameter
// `key_tile` is the method `getKeyTile` of the interface.
int64_t SingleStageAttr::getQueryTile() const { return 16 * getWarps(); }

attn::ScheduleAttrInterface SingleStageAttr::getPreparation() const {
  return cast<attn::ScheduleAttrInterface>(
      Attribute(attn_tile::ScalarAttr::get(getContext(), /*warps=*/1)));
}

LogicalResult SingleStageAttr::verifyUse(Operation *op,
                                         const attn::Target &target) const {
  if (!isa<attn::AttentionOp>(op))
    return op->emitOpError("cannot have schedule '")
           << *this << "', it is for attention";
  // All of its warps copy and compute.
  constexpr auto kind = attn::KernelScheduleKind::Multistage;
  if (target.getKernelScheduleKind() != kind)
    return op->emitOpError("cannot have schedule '")
           << *this << "' on target " << target.getName() << ", it is for "
           << attn::describeTargets(kind);
  return success();
}

void SingleStageAttr::buildKernelPipeline(OpPassManager &pm) const {
  pm.addNestedPass<attn_tile::KernelOp>(
      attn_tile::createAttnTilePeelMasksPass());
  pm.addNestedPass<attn_tile::KernelOp>(
      attn_tile::createAttnTileSplitRegionsPass());
  pm.addPass(attn_tile::createAttnTileSetTraversalPass());
  attn_tile::AttnTileCreatePipesPassOptions pipes;
  pipes.stages = 1;
  pm.addNestedPass<attn_tile::KernelOp>(
      attn_tile::createAttnTileCreatePipesPass(pipes));
  pm.addNestedPass<attn_tile::KernelOp>(createCanonicalizerPass());
  pm.addNestedPass<attn_tile::KernelOp>(createCSEPass());
  attn_tile::AttnTileSetLayoutPassOptions layout;
  layout.warps = getWarps();
  pm.addNestedPass<attn_tile::KernelOp>(
      attn_tile::createAttnTileSetLayoutPass(layout));
}
