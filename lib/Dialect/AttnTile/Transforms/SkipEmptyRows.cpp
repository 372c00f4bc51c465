//===- SkipEmptyRows.cpp - Leave out work on rows beyond the last one -----===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lets the warps of a consumer that have no rows of the output skip the work of
// a step between its MMAs. They convert values of 8 bits meanwhile.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/IR/WarpgroupShapes.h"
#include "attn/Dialect/AttnTile/Transforms/KernelPhase.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILESKIPEMPTYROWSPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

using namespace mlir;
using namespace mlir::attn_tile;

/// The store of the output: of the first tile of 64 rows.
static StoreOp findStore(KernelOp kernel) {
  StoreOp found;
  kernel.walk([&](StoreOp store) {
    auto tile = cast<VectorType>(store.getValue().getType());
    if (tile.getRank() != 2 || tile.getDimSize(0) != warpgroupRows ||
        store.getTransposed())
      return WalkResult::advance();
    found = store;
    return WalkResult::interrupt();
  });
  return found;
}

/// The number of rows that `store` writes, if it is the same for all work
/// items.
static std::optional<int64_t> getStaticRows(StoreOp store) {
  if (store.getExtent())
    return std::nullopt;
  ArrayRef<int64_t> shape =
      cast<MemRefType>(store.getDest().getType()).getShape();
  int64_t rows = shape[shape.size() - 2];
  std::optional<int64_t> first =
      getConstantIntValue(store.getIndices().drop_back().back());
  if (ShapedType::isDynamic(rows) || !first)
    return std::nullopt;
  return rows - *first;
}

/// The values from which `createNumRows` computes.
static SmallVector<Value> getRowOperands(StoreOp store) {
  if (store.getExtent())
    return {store.getFirst(), store.getExtent()};
  return {store.getDest(), store.getIndices().drop_back().back()};
}

/// The number of rows of its tile that `store` writes.
static Value createNumRows(OpBuilder &builder, StoreOp store) {
  Location loc = store.getLoc();
  SmallVector<Value> operands = getRowOperands(store);
  if (store.getExtent())
    return arith::SubIOp::create(builder, loc, operands[1], operands[0]);
  int64_t rank = cast<MemRefType>(store.getDest().getType()).getRank();
  Value rows = memref::DimOp::create(builder, loc, operands[0], rank - 2);
  return arith::SubIOp::create(builder, loc, rows, operands[1]);
}

static bool isScalar(Operation *op) {
  return op->getNumResults() != 0 &&
         llvm::none_of(op->getResultTypes(), llvm::IsaPred<VectorType>);
}

/// Whether `op` computes tiles or rows and does nothing else. Constants take
/// no instructions.
static bool isRowWork(Operation *op) {
  return op->getNumResults() != 0 &&
         llvm::all_of(op->getResultTypes(), llvm::IsaPred<VectorType>) &&
         (isMemoryEffectFree(op) || hasSingleEffect<MemoryEffects::Read>(op)) &&
         !isa<ReadOp, MmaWaitOp>(op) && !matchPattern(op, m_Constant());
}

namespace {
/// Operations on rows that follow one another in a block.
class Run {
public:
  void add(Operation *op) { ops.push_back(op); }
  bool empty() const { return ops.empty(); }
  /// Leaves out broadcasts that no operation of the run uses.
  void dropBroadcasts();
  /// Whether the work is on a tile of 64 rows that an MMA has computed.
  bool isOnMma() const;
  Operation *getFirst() const { return ops.front(); }
  /// Moves the operations to a conditional.
  void guard(OpBuilder &builder, Value condition);

private:
  bool contains(Operation *op) const { return llvm::is_contained(ops, op); }
  SmallVector<Value> getResults() const;
  Value getOtherwise(OpBuilder &builder, Value result) const;

  SmallVector<Operation *> ops;
};
} // namespace

void Run::dropBroadcasts() {
  while (!ops.empty() &&
         isa<vector::BroadcastOp, vector::ShapeCastOp>(ops.back()))
    ops.pop_back();
}

bool Run::isOnMma() const {
  return llvm::any_of(ops, [](Operation *op) {
    return llvm::any_of(op->getOperands(), [](Value operand) {
      auto wait = operand.getDefiningOp<MmaWaitOp>();
      return wait &&
             cast<VectorType>(operand.getType()).getDimSize(0) == warpgroupRows;
    });
  });
}

/// The results that other operations use.
SmallVector<Value> Run::getResults() const {
  SmallVector<Value> results;
  Block *block = getFirst()->getBlock();
  for (Operation *op : ops)
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(), [&](Operation *user) {
            return !contains(block->findAncestorOpInBlock(*user));
          }))
        results.push_back(result);
  return results;
}

/// The value of `result` in warps without rows, of which nothing is stored: a
/// value that a loop carries, or zero.
Value Run::getOtherwise(OpBuilder &builder, Value result) const {
  for (Operation *op : ops)
    for (Value operand : op->getOperands()) {
      if (operand.getType() == result.getType() && isa<BlockArgument>(operand))
        return operand;
    }
  return arith::ConstantOp::create(
      builder, result.getLoc(),
      builder.getZeroAttr(cast<VectorType>(result.getType())));
}

void Run::guard(OpBuilder &builder, Value condition) {
  Location loc = getFirst()->getLoc();
  SmallVector<Value> results = getResults();
  SmallVector<Value> otherwise;
  for (Value result : results)
    otherwise.push_back(getOtherwise(builder, result));
  auto ifOp = scf::IfOp::create(builder, loc, TypeRange(ValueRange(results)),
                                condition, /*withElseRegion=*/true);
  for (Operation *op : ops)
    op->moveBefore(ifOp.thenBlock(), ifOp.thenBlock()->end());
  for (auto [result, guarded] : llvm::zip_equal(results, ifOp.getResults()))
    result.replaceUsesWithIf(guarded, [&](OpOperand &use) {
      return !ifOp->isAncestor(use.getOwner());
    });
  auto thenBuilder = OpBuilder::atBlockEnd(ifOp.thenBlock());
  scf::YieldOp::create(thenBuilder, loc, results);
  auto elseBuilder = OpBuilder::atBlockEnd(ifOp.elseBlock());
  scf::YieldOp::create(elseBuilder, loc, otherwise);
}

/// The runs of `block`. Scalars in between move to before their run.
static SmallVector<Run> collectRuns(Block *block) {
  SmallVector<Run> runs;
  Run run;
  auto finish = [&] {
    run.dropBroadcasts();
    if (!run.empty() && run.isOnMma())
      runs.push_back(run);
    run = Run();
  };
  for (Operation &op : llvm::make_early_inc_range(*block)) {
    if (isRowWork(&op))
      run.add(&op);
    else if (isScalar(&op) && isMemoryEffectFree(&op) &&
             op.getNumRegions() == 0 && !run.empty())
      op.moveBefore(run.getFirst());
    else if (!matchPattern(&op, m_Constant()))
      finish();
  }
  finish();
  return runs;
}

/// The wait for the stage that `convert` fills.
static WaitOp getConvertedWait(ConvertOp convert) {
  for (Operation *op = convert->getNextNode(); op; op = op->getNextNode())
    if (auto wait = dyn_cast<WaitOp>(op);
        wait && wait.getPipe() == convert.getPipe())
      return wait;
  return nullptr;
}

/// Whether `convert` converts values: an MMA multiplies registers by them.
static bool convertsValues(ConvertOp convert) {
  WaitOp wait = getConvertedWait(convert);
  return wait && llvm::any_of(wait->getUsers(), [](Operation *user) {
           auto start = dyn_cast<MmaStartOp>(user);
           return start && isa<VectorType>(start.getLhs().getType());
         });
}

/// Moves a conversion, with the wait for and the release of its source, to the
/// end of `block`.
static void moveConversion(ConvertOp convert, Block *block, int64_t firstWarp) {
  convert.setFirstWarp(firstWarp);
  Value buffer = convert.getBuffer();
  SmallVector<Operation *> ops = {buffer.getDefiningOp(), convert};
  for (Operation *user : buffer.getUsers())
    if (isa<ReleaseOp>(user))
      ops.push_back(user);
  for (Operation *op : ops)
    op->moveBefore(block->getTerminator());
}

namespace {
struct AttnTileSkipEmptyRowsPass
    : KernelPass<AttnTileSkipEmptyRowsPass,
                 attn_tile::impl::AttnTileSkipEmptyRowsPassBase> {
  using Base::Base;

  static constexpr PhaseContract phases{KernelPhase::Plain,
                                        KernelPhase::Staged};

  void runOnKernel();

private:
  bool areRowsKnown(StoreOp store, Operation *op);
  void guardRows(StoreOp store);
  /// Leaves the conversions of values to warps without rows, of which there are
  /// as many for all work items: all of them or none, since conversions to one
  /// pipe must be by the same warps.
  void moveConversions(StoreOp store, int64_t numRows);
  void emitMissed(StringRef reason);
};
} // namespace

void AttnTileSkipEmptyRowsPass::emitMissed(StringRef reason) {
  KernelOp kernel = getOperation();
  remark::missed(kernel.getLoc(), remark::RemarkOpts::name("SkipEmptyRows")
                                      .category(getArgument())
                                      .function(kernel.getName()))
      << reason;
}

/// Whether the number of rows that `store` writes is known before `op`.
bool AttnTileSkipEmptyRowsPass::areRowsKnown(StoreOp store, Operation *op) {
  DominanceInfo dominance(getOperation());
  if (llvm::all_of(getRowOperands(store), [&](Value operand) {
        return dominance.properlyDominates(operand, op);
      }))
    return true;
  emitMissed("the rows of a work item are not known where it begins");
  return false;
}

/// Whether a warp has rows that `store` writes.
static Value createCondition(OpBuilder &builder, StoreOp store) {
  Value rows = createNumRows(builder, store);
  return HasRowsOp::create(builder, store.getLoc(), rows);
}

void AttnTileSkipEmptyRowsPass::guardRows(StoreOp store) {
  SmallVector<Run> runs;
  getOperation().walk([&](Block *block) { runs.append(collectRuns(block)); });
  for (Run &run : runs) {
    if (!areRowsKnown(store, run.getFirst()))
      continue;
    OpBuilder builder(run.getFirst());
    run.guard(builder, createCondition(builder, store));
    ++numGuards;
  }
}

void AttnTileSkipEmptyRowsPass::moveConversions(StoreOp store,
                                                int64_t numRows) {
  SmallVector<ConvertOp> conversions;
  getOperation().walk([&](ConvertOp convert) {
    if (convertsValues(convert))
      conversions.push_back(convert);
  });
  if (!llvm::all_of(conversions, [&](ConvertOp convert) {
        return areRowsKnown(store, convert.getBuffer().getDefiningOp());
      }))
    return;
  for (ConvertOp convert : conversions) {
    ImplicitLocOpBuilder builder(convert.getLoc(),
                                 convert.getBuffer().getDefiningOp());
    auto ifOp =
        scf::IfOp::create(builder, TypeRange(), createCondition(builder, store),
                          /*withElseRegion=*/true);
    moveConversion(convert, ifOp.elseBlock(),
                   llvm::divideCeil(numRows, warpRows));
    ++numMoved;
  }
}

void AttnTileSkipEmptyRowsPass::runOnKernel() {
  StoreOp store = findStore(getOperation());
  if (!store)
    return emitMissed("no tile of the output tells how many rows there are");
  std::optional<int64_t> rows = getStaticRows(store);
  if (rows && *rows > warpgroupRows - warpRows)
    return emitMissed("all warps have rows");
  guardRows(store);
  // All warps must know which of them convert.
  if (rows)
    moveConversions(store, *rows);
}
