//===- AttnGradToAttnTile.cpp - Gradients to tiled programs ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Makes the kernels of a gradient of attention, the arrays between them, and
// their launches.
//
//===----------------------------------------------------------------------===//

#include "ClassifyTiles.h"
#include "CreateKernel.h"
#include "GradKernelWriter.h"
#include "KernelDropout.h"
#include "PlanSequences.h"
#include "TileProgramBuilder.h"
#include "attn/Conversion/AttnToAttnTile/AttnToAttnTile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <numeric>

using namespace mlir;
using namespace mlir::attn;

namespace {
/// Makes the kernels of one gradient and their launches.
class GradLowering {
public:
  GradLowering(RewriterBase &rewriter, AttentionGradOp op,
               const DeviceFigures &device, SymbolTable &symbols)
      : rewriter(rewriter), op(op), device(device), symbols(symbols),
        isPacked(op.getSequenceLayout() == SequenceLayout::Packed) {}

  LogicalResult lower();

private:
  /// Checks that the kernel of the keys can add in turns.
  LogicalResult checkTurns(const GradSchedules &parts);
  /// Finds the rows of tiles of queries of all kernels of `parts`.
  void findRows(const GradSchedules &parts);
  /// Makes an array of f32, or of `element`, with a row of `channels` values
  /// for each query (of one value for none), and rows for whole tiles.
  Value makeRows(int64_t channels = 0, Type element = Type());
  /// Makes a ring of sums with as many places as have `items` tiles of keys,
  /// and two more, if there are so many key heads; and its counters.
  void makeRing(GradWorkspace &workspace, int64_t channels, int64_t items,
                int64_t keyTile);
  /// Makes an array for the random streams of all sequences and heads.
  Value makeStreams();
  /// Emits the number of packed sequences.
  Value emitNumSequences(TileProgramBuilder &b);
  /// The list of the tiles of a kernel, or null if there are no sequences.
  Value getPlan(MaskDim rows, int64_t size, int64_t extra = 0);

  RewriterBase &rewriter;
  AttentionGradOp op;
  const DeviceFigures &device;
  SymbolTable &symbols;
  bool isPacked;
  /// What the tiles of all kernels divide, and how many rows behind those of a
  /// sequence the tiles of the kernel of the rows must reach for others, and
  /// how many they may.
  int64_t multiple = 1, extraRows = 0, padding = 0;
  llvm::MapVector<std::pair<MaskDim, std::pair<int64_t, int64_t>>, Value> plans;
};
} // namespace

void GradLowering::findRows(const GradSchedules &parts) {
  int64_t largest = 1;
  for (Attribute part : {parts.rows, parts.keys, parts.values, parts.queries})
    if (part) {
      int64_t tile = cast<ScheduleAttrInterface>(part).getQueryTile();
      multiple = std::lcm(multiple, tile);
      largest = std::max(largest, tile);
    }
  int64_t ofRows = cast<ScheduleAttrInterface>(parts.rows).getQueryTile();
  if (multiple != ofRows)
    extraRows = largest - 1;
  constexpr int64_t unit = GradWorkspace::sequenceAlignment;
  padding = llvm::alignTo(ofRows + extraRows, unit) + unit;
}

Value GradLowering::emitNumSequences(TileProgramBuilder &b) {
  // One boundary more than sequences; without any, one does not matter.
  Value one = b.index(1);
  Value entries =
      arith::MaxUIOp::create(b, b.size(op.getQuerySequences(), 0), one);
  return arith::SubIOp::create(b, entries, one);
}

Value GradLowering::makeRows(int64_t channels, Type element) {
  TileProgramBuilder b(op.getLoc(), rewriter);
  auto query = cast<MemRefType>(op.getQuery().getType());
  SmallVector<int64_t> shape(query.getShape().take_front(3));
  SmallVector<Value> sizes;
  if (query.isDynamicDim(0))
    sizes.push_back(b.size(op.getQuery(), 0));
  if (op.hasSequences()) {
    constexpr int64_t unit = GradWorkspace::sequenceAlignment;
    Value blocks = b.countTiles(b.size(op.getQuery(), 2), unit);
    Value added = b.index(padding);
    if (isPacked)
      added = arith::MulIOp::create(b, emitNumSequences(b), added);
    sizes.push_back(arith::AddIOp::create(
        b, arith::MulIOp::create(b, blocks, b.index(unit)).getResult(), added));
    shape[2] = ShapedType::kDynamic;
  } else if (query.isDynamicDim(2)) {
    Value tiles = b.countTiles(b.size(op.getQuery(), 2), multiple);
    sizes.push_back(arith::MulIOp::create(b, tiles, b.index(multiple)));
  } else {
    shape[2] = llvm::alignTo(shape[2], multiple);
  }
  if (channels)
    shape.push_back(channels);
  if (!element)
    element = b.getF32Type();
  return memref::AllocOp::create(b, MemRefType::get(shape, element), sizes);
}

void GradLowering::makeRing(GradWorkspace &workspace, int64_t channels,
                            int64_t items, int64_t keyTile) {
  TileProgramBuilder b(op.getLoc(), rewriter);
  Value key = op.getKey();
  Value one = b.index(1);
  Value tiles =
      arith::MaxUIOp::create(b, b.countTiles(b.size(key, 2), keyTile), one);
  Value last = arith::SubIOp::create(b, tiles, one);
  Value wanted = arith::DivUIOp::create(
      b, arith::AddIOp::create(b, b.index(items), last).getResult(), tiles);
  Value heads =
      arith::MulIOp::create(b, b.size(key, 0), b.size(key, 1)).getResult();
  Value places = arith::MinUIOp::create(
      b, arith::AddIOp::create(b, wanted, b.index(2)).getResult(), heads);
  Value rows = arith::MulIOp::create(
      b, b.countTiles(b.size(op.getQuery(), 2), multiple), b.index(multiple));
  constexpr int64_t dynamic = ShapedType::kDynamic;
  workspace.sums = memref::AllocOp::create(
      b,
      MemRefType::get({dynamic, op.getGroupSize(), dynamic, channels},
                      b.getF32Type()),
      ValueRange{places, rows});
  workspace.counters = memref::AllocOp::create(
      b, MemRefType::get({dynamic, 2}, b.getI32Type()), ValueRange{places});
}

Value GradLowering::makeStreams() {
  TileProgramBuilder b(op.getLoc(), rewriter);
  auto query = cast<MemRefType>(op.getQuery().getType());
  constexpr int64_t words = std::tuple_size_v<RngBlock<Value>>;
  SmallVector<int64_t> shape(query.getShape().take_front(2));
  shape.push_back(words);
  SmallVector<Value> sizes;
  if (isPacked) {
    shape[0] = ShapedType::kDynamic;
    sizes.push_back(emitNumSequences(b));
  } else if (query.isDynamicDim(0)) {
    sizes.push_back(b.size(op.getQuery(), 0));
  }
  return memref::AllocOp::create(b, MemRefType::get(shape, b.getI32Type()),
                                 sizes);
}

Value GradLowering::getPlan(MaskDim rows, int64_t size, int64_t extra) {
  if (!op.hasSequences())
    return Value();
  Value &plan = plans[{rows, {size, extra}}];
  if (!plan)
    plan = planSequences(
        rewriter, op,
        {rows, size, extra, op.getChosenSchedule().getPreparation(),
         rows == MaskDim::Key ? "_grad_plan_keys" : "_grad_plan"},
        symbols);
  return plan;
}

LogicalResult GradLowering::checkTurns(const GradSchedules &parts) {
  if (!op.canAddInTurn())
    return op.emitOpError(
        "cannot add up the gradients of queries in turns: "
        "that takes a head of keys for each head of queries, "
        "no mask or '#attn.causal' alone, no sequences and no "
        "gradients of captured tensors");
  // Groups that walked in another order would wait for ever.
  bool isMasked = bool(op.getMaskAttr());
  if (parts.inPairs != isMasked)
    return op.emitOpError("adds up the gradients of queries in turns, which ")
           << (isMasked ? "takes 'traversal = paired' under a mask"
                        : "takes 'traversal = persistent' without a mask");
  auto keys = cast<ScheduleAttrInterface>(parts.keys);
  if (isMasked && keys.getKeyTile() % keys.getQueryTile() != 0)
    return op.emitOpError("adds up the gradients of queries in turns, which "
                          "under a mask takes a 'query_tile' that divides "
                          "'key_tile' (")
           << keys.getKeyTile() << ", was " << keys.getQueryTile() << ")";
  return success();
}

LogicalResult GradLowering::lower() {
  if (!op.isBufferized())
    return op.emitOpError("must be bufferised");
  if (!op.getScheduleAttr())
    return op.emitOpError("needs a schedule");
  ScheduleAttrInterface schedule = op.getChosenSchedule();
  if (!schedule)
    return op.emitOpError("has a choice of schedules, which "
                          "attn-dispatch-schedules must resolve");
  if (!op.getMaskReads().empty())
    return op.emitOpError("has a mask that reads operands, which "
                          "attn-expand-masks must expand");
  GradSchedules parts = schedule.getGradSchedules();
  if (op.getDeterministic() && !parts.queries && !parts.inTurn)
    return op.emitOpError("must be deterministic, but its schedule adds up the "
                          "gradients of queries in any order");
  if (op.getIdentity() && op.getDlse())
    return op.emitOpError(
        "with 'identity' and 'dlse' has no tiled program yet");
  if (!op.getScoreRegion().empty() && op.getScoreGradRegion().empty())
    return op.emitOpError("needs the 'score_grad' region that belongs to its "
                          "'score' region");
  if (parts.inTurn && failed(checkTurns(parts)))
    return failure();
  // Groups that walked in another order would wait for ever.
  if (parts.ringItems > 0 && needsClassification(op) && !isMaskedByHead(op))
    return op.emitOpError(
        "sends the gradients of queries through a ring of sums "
        "('ring_items'), for which groups must walk over one head after the "
        "other, not in the order of the lists of its mask");
  if (failed(prepareCaptureGrads(op)))
    return failure();
  KernelDropout dropout(op);
  for (Attribute part : {parts.keys, parts.values, parts.queries})
    if (part && failed(dropout.check(cast<ScheduleAttrInterface>(part))))
      return failure();
  dropout.report();
  SetVector<Value> used;
  getUsedValuesDefinedAbove(op->getRegions(), used);
  SetVector<Value> states;
  dropout.addOperands(states);
  used.insert_range(states);
  FailureOr<SmallVector<Value>> captures = getCaptures(op, used.getArrayRef());
  if (failed(captures))
    return failure();

  findRows(parts);
  rewriter.setInsertionPoint(op);
  GradWorkspace workspace{padding, makeRows(), makeRows(), Value(),
                          Value(), Value(),    Value()};
  if (dropout.isMade())
    workspace.streams = makeStreams();
  if (!parts.queries) {
    auto keys = cast<ScheduleAttrInterface>(parts.keys);
    int64_t channels = llvm::alignTo(op.getQueryHeadDim(), headDimMultiple);
    // A sum with a row for each channel has as many as a tile of keys.
    if (keys.getQueryTile() % keys.getKeyTile() != 0)
      channels = llvm::alignTo(channels, keys.getKeyTile());
    if (parts.ringItems > 0)
      makeRing(workspace, channels, parts.ringItems, keys.getKeyTile());
    else
      workspace.sums = makeRows(channels);
    if (parts.inTurn)
      workspace.turns = makeRows(/*channels=*/0, rewriter.getI32Type());
  }

  auto write = [&](Attribute attribute, StringRef name,
                   ArrayRef<Value> operands, auto writeKernel) {
    auto part = cast<ScheduleAttrInterface>(attribute);
    GradKernelWriter writer(rewriter, op, part);
    for (Value operand : operands)
      writer.addOperand(operand);
    if (name != "rows" && name != "sums")
      writer.addCaptures(*captures);
    else if (name == "rows" && workspace.streams)
      writer.addCaptures(states.getArrayRef());
    writeKernel(writer, createKernel(rewriter, op, part, symbols,
                                     ("_grad_" + name + "_kernel").str(),
                                     writer.getOperands()));
  };
  int64_t rowTile = cast<ScheduleAttrInterface>(parts.rows).getQueryTile();
  Value rowPlan = getPlan(MaskDim::Query, rowTile, extraRows);
  write(parts.rows, "rows",
        {op.getOut(), op.getDout(), op.getLse(), op.getDlse(), op.getIdentity(),
         op.getIdentity() ? op.getValue() : Value(), workspace.exponent,
         workspace.delta, workspace.sums, workspace.counters, workspace.turns,
         workspace.streams, rowPlan},
        [&](GradKernelWriter &writer, attn_tile::KernelOp kernel) {
          writer.writeRows(kernel, workspace, rowPlan);
        });
  SmallVector<Value> buffers;
  auto classify = [&](Attribute attribute, StringRef name, MaskDim rows) {
    if (!needsClassification(op))
      return ClassifiedTiles();
    auto part = cast<ScheduleAttrInterface>(attribute);
    ClassifiedTiles listed =
        classifyTiles(rewriter, op,
                      {part.getQueryTile(), part.getKeyTile(),
                       schedule.getPreparation(), rows, ("_" + name).str(),
                       std::max<int64_t>(device.multiprocessors, 1)},
                      symbols);
    buffers.append({listed.lists, listed.order});
    return listed;
  };
  auto writeKeys = [&](Attribute part, StringRef name,
                       const Gradients &results) {
    ClassifiedTiles listed = classify(part, name, MaskDim::Key);
    Value plan =
        getPlan(MaskDim::Key, cast<ScheduleAttrInterface>(part).getKeyTile());
    SmallVector<Value> operands = {op.getQuery(),
                                   op.getKey(),
                                   results.key ? op.getValue() : Value(),
                                   op.getDout(),
                                   workspace.exponent,
                                   results.key ? workspace.delta : Value(),
                                   results.key,
                                   results.value,
                                   results.key ? workspace.sums : Value(),
                                   results.key ? workspace.counters : Value(),
                                   results.key ? workspace.turns : Value(),
                                   results.key ? results.query : Value(),
                                   workspace.streams,
                                   results.value ? op.getIdentity() : Value(),
                                   listed.lists,
                                   listed.order,
                                   plan};
    if (results.key)
      llvm::append_range(operands, op.getDcaptures());
    write(part, name, operands,
          [&](GradKernelWriter &writer, attn_tile::KernelOp kernel) {
            if (results.query)
              writer.writeRounding(kernel, workspace, results.query);
            writer.writeKeys(kernel, workspace, results, listed, plan);
          });
  };
  Gradients results{op.getDquery(), op.getDkey(), op.getDvalue()};
  if (parts.values)
    writeKeys(parts.values, "values", {Value(), Value(), results.value});
  writeKeys(parts.keys, "keys",
            {workspace.counters ? results.query : Value(), results.key,
             parts.values ? Value() : results.value});
  if (parts.queries) {
    ClassifiedTiles listed = classify(parts.queries, "queries", MaskDim::Query);
    Value plan =
        getPlan(MaskDim::Query,
                cast<ScheduleAttrInterface>(parts.queries).getQueryTile());
    write(parts.queries, "queries",
          {op.getQuery(), op.getKey(), op.getValue(), op.getDout(),
           workspace.exponent, workspace.delta, results.query, listed.lists,
           listed.order, plan},
          [&](GradKernelWriter &writer, attn_tile::KernelOp kernel) {
            writer.writeQueries(kernel, workspace, results.query, listed, plan);
          });
  } else {
    auto keys = cast<ScheduleAttrInterface>(parts.keys);
    Value plan = getPlan(MaskDim::Query, keys.getQueryTile());
    write(parts.rows, "sums", {results.query, workspace.sums, plan},
          [&](GradKernelWriter &writer, attn_tile::KernelOp kernel) {
            writer.writeSums(kernel, workspace, results.query, keys, plan);
          });
  }

  buffers.append({workspace.exponent, workspace.delta, workspace.sums,
                  workspace.counters, workspace.turns, workspace.streams});
  for (auto &[tiles, plan] : plans)
    buffers.push_back(plan);
  for (Value buffer : buffers)
    if (buffer)
      memref::DeallocOp::create(rewriter, op.getLoc(), buffer);
  rewriter.eraseOp(op);
  return success();
}

LogicalResult mlir::attn::lowerAttentionGradToKernels(
    RewriterBase &rewriter, AttentionGradOp op, const DeviceFigures &device,
    SymbolTable &symbols) {
  OpBuilder::InsertionGuard guard(rewriter);
  return GradLowering(rewriter, op, device, symbols).lower();
}