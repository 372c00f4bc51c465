//===- AttnGradToAttnTile.cpp - Gradients to tiled programs ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Creates the kernels of an attention gradient, the workspace between them, and
// their launches.
//
//===----------------------------------------------------------------------===//

#include "ClassifyTiles.h"
#include "CreateKernel.h"
#include "GradKernelWriter.h"
#include "KernelDropout.h"
#include "WorkItemList.h"
#include "attn/Conversion/AttnToAttnTile/AttnToAttnTile.h"
#include "attn/Dialect/AttnTile/IR/TileProgramBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
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
/// Creates the kernels of one gradient and their launches.
class GradLowering {
public:
  GradLowering(RewriterBase &rewriter, attn_tile::StreamingGradOpInterface law,
               const DeviceFigures &device, SymbolTable &symbols)
      : rewriter(rewriter), law(law),
        op(cast<AttentionOpInterface>(law.getOperation())),
        tensors(law.getGradOperands()), device(device), symbols(symbols),
        addressing(op.getAddressing()) {}

  LogicalResult lower();

private:
  using KernelBody =
      function_ref<void(GradKernelWriter &, attn_tile::KernelOp)>;

  /// Checks the operation, and takes its schedules.
  LogicalResult verify();
  /// Checks that the consumers of each kernel can have columns of their own.
  LogicalResult checkConsumerColumns();
  /// Checks that the dkdv kernel can accumulate dQ in order.
  LogicalResult checkOrder();
  /// Finds what regions and dropout read.
  LogicalResult collectCaptures(const KernelDropout &dropout);
  /// Finds the padding of the workspace from the query tiles of all kernels.
  void findRows();
  /// To what the dkdv kernel adds the values of rows.
  attn_tile::RowAdditions chooseRowAdditions();
  /// Allocates the workspace.
  void makeWorkspace(const KernelDropout &dropout);
  /// Writes a kernel with the schedule `part`, and its launch. `reads` are
  /// further values that its regions read. `firstColumn` is the first column of
  /// its result.
  void writeKernel(Attribute part, StringRef name, ArrayRef<Value> operands,
                   ArrayRef<Value> reads, KernelBody writeBody,
                   int64_t firstColumn = 0);
  /// Writes a kernel with the schedule `part` for each tile of the columns of
  /// its result, of which there are `headDim`, and their launches.
  void writeKernels(Attribute part, StringRef name, int64_t headDim,
                    ArrayRef<Value> operands, KernelBody writeBody);
  void writePreprocess();
  void writeDkdv(Attribute part, StringRef name, const Gradients &results);
  void writeDq();
  void writeDqConvert();
  /// Allocates an array for the gradients `ofHeads` of keys or of values that
  /// each GQA group has, if a head belongs to several groups; else returns
  /// `ofHeads`.
  Value makeOfGroups(Value ofHeads);
  /// Writes the kernel that adds up the gradients `ofGroups` to `ofHeads`,
  /// unless these are the same.
  void writeGroupSums(StringRef name, Value ofGroups, Value ofHeads);
  /// Classifies the tiles of a kernel, if the mask needs that.
  ClassifiedTiles classify(Attribute part, StringRef name, MaskDim rows);
  void freeBuffers();
  /// Allocates an array of f32, or of `element`, padded to whole tiles. Each
  /// query has a row of `headDim` elements, or one element if that is 0.
  Value makeRows(int64_t headDim = 0, Type element = Type());
  /// Allocates the dQ ring buffer and its semaphores. It has slots for the GQA
  /// groups that `dqRingDepth` kv tiles cover, and two more, at most one for
  /// each group.
  void makeDqRing(int64_t headDim, int64_t keyTile);
  /// Allocates an array for the Philox streams of all sequences and heads.
  Value makeStreams();
  /// Emits the number of packed sequences.
  Value emitNumSequences(TileProgramBuilder &b);
  /// The work-item list of a kernel, or null if there are no sequences.
  Value getWorkItemList(MaskDim rows, int64_t size, int64_t extra = 0);

  RewriterBase &rewriter;
  attn_tile::StreamingGradOpInterface law;
  AttentionOpInterface op;
  attn_tile::GradOperands tensors;
  const DeviceFigures &device;
  SymbolTable &symbols;
  KVAddressingAttrInterface addressing;
  ScheduleAttrInterface schedule;
  GradSchedules parts;
  GradWorkspace workspace;
  /// The values that regions, and that dropout alone, read.
  SmallVector<Value> captures;
  SetVector<Value> states;
  /// Lists of classified tiles.
  SmallVector<Value> lists;
  /// Gradients of GQA groups.
  SmallVector<Value> ofGroups;
  /// A common multiple of the query tiles of all kernels. Then the rows past a
  /// sequence that the preprocess kernel must cover for the tiles of other
  /// kernels, and the rows that it may cover.
  int64_t multiple = 1, extraRows = 0, padding = 0;
  llvm::MapVector<std::pair<MaskDim, std::pair<int64_t, int64_t>>, Value>
      workItemLists;
};
} // namespace

void GradLowering::findRows() {
  int64_t largest = 1;
  for (Attribute part : {parts.preprocess, parts.dkdv, parts.dv, parts.dq})
    if (part) {
      int64_t tile = cast<ScheduleAttrInterface>(part).getQueryTile();
      multiple = std::lcm(multiple, tile);
      largest = std::max(largest, tile);
    }
  int64_t ofRows = cast<ScheduleAttrInterface>(parts.preprocess).getQueryTile();
  if (multiple != ofRows)
    extraRows = largest - 1;
  constexpr int64_t unit = GradWorkspace::sequenceAlignment;
  padding = llvm::alignTo(ofRows + extraRows, unit) + unit;
}

Value GradLowering::emitNumSequences(TileProgramBuilder &b) {
  // There is one boundary more than sequences. Without boundaries there are no
  // sequences either.
  Value one = b.index(1);
  Value entries =
      arith::MaxUIOp::create(b, b.size(op.getQuerySequences(), 0), one);
  return arith::SubIOp::create(b, entries, one);
}

Value GradLowering::makeRows(int64_t headDim, Type element) {
  TileProgramBuilder b(op.getLoc(), rewriter);
  auto query = cast<MemRefType>(op.getQuery().getType());
  SmallVector<int64_t> shape(query.getShape().take_front(3));
  SmallVector<Value> sizes;
  if (query.isDynamicDim(0))
    sizes.push_back(b.size(op.getQuery(), 0));
  if (addressing.isListed()) {
    constexpr int64_t unit = GradWorkspace::sequenceAlignment;
    Value blocks = b.countTiles(b.size(op.getQuery(), 2), unit);
    Value added = b.index(padding);
    if (!addressing.hasEntries())
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
  if (headDim)
    shape.push_back(headDim);
  if (!element)
    element = b.getF32Type();
  return memref::AllocOp::create(b, MemRefType::get(shape, element), sizes);
}

void GradLowering::makeDqRing(int64_t headDim, int64_t keyTile) {
  TileProgramBuilder b(op.getLoc(), rewriter);
  Value key = op.getKey();
  Value one = b.index(1);
  Value tiles =
      arith::MaxUIOp::create(b, b.countTiles(b.size(key, 2), keyTile), one);
  Value last = arith::SubIOp::create(b, tiles, one);
  Value wanted = arith::DivUIOp::create(
      b, arith::AddIOp::create(b, b.index(parts.dqRingDepth), last).getResult(),
      tiles);
  Value heads =
      arith::MulIOp::create(b, b.size(key, 0), b.index(op.getNumGroups()))
          .getResult();
  Value slots = arith::MinUIOp::create(
      b, arith::AddIOp::create(b, wanted, b.index(2)).getResult(), heads);
  Value rows = arith::MulIOp::create(
      b, b.countTiles(b.size(op.getQuery(), 2), multiple), b.index(multiple));
  constexpr int64_t dynamic = ShapedType::kDynamic;
  workspace.dqAccumulator = memref::AllocOp::create(
      b,
      MemRefType::get({dynamic, op.getGroupSize(), dynamic, headDim},
                      b.getF32Type()),
      ValueRange{slots, rows});
  workspace.dqRingSemaphores = memref::AllocOp::create(
      b, MemRefType::get({dynamic, 2}, b.getI32Type()), ValueRange{slots});
}

Value GradLowering::makeStreams() {
  TileProgramBuilder b(op.getLoc(), rewriter);
  auto query = cast<MemRefType>(op.getQuery().getType());
  constexpr int64_t words = std::tuple_size_v<RngBlock<Value>>;
  SmallVector<int64_t> shape(query.getShape().take_front(2));
  shape.push_back(words);
  SmallVector<Value> sizes;
  if (!addressing.hasEntries()) {
    shape[0] = ShapedType::kDynamic;
    sizes.push_back(emitNumSequences(b));
  } else if (query.isDynamicDim(0)) {
    sizes.push_back(b.size(op.getQuery(), 0));
  }
  return memref::AllocOp::create(b, MemRefType::get(shape, b.getI32Type()),
                                 sizes);
}

Value GradLowering::getWorkItemList(MaskDim rows, int64_t size, int64_t extra) {
  if (!addressing.isListed())
    return Value();
  Value &workItemList = workItemLists[{rows, {size, extra}}];
  if (!workItemList)
    workItemList = listSequences(rewriter, op,
                                 {rows, size, extra,
                                  op.getChosenSchedule().getPreparation(),
                                  rows == MaskDim::Key ? "_grad_work_items_keys"
                                                       : "_grad_work_items"},
                                 symbols)
                       .workItems;
  return workItemList;
}

LogicalResult GradLowering::checkOrder() {
  if (!tensors.canOrderDq)
    return op.emitOpError(
        "cannot accumulate dQ in order: "
        "that takes a head of keys for each head of queries, "
        "no mask or '#attn.causal' alone, no sequences and no "
        "gradients of captured tensors");
  // CTAs that visit tiles in another order would deadlock.
  bool isMasked = bool(op.getMaskAttr());
  if (parts.inPairs != isMasked)
    return op.emitOpError("accumulates dQ in order, which ")
           << (isMasked ? "takes 'traversal = paired' under a mask"
                        : "takes 'traversal = persistent' without a mask");
  auto keys = cast<ScheduleAttrInterface>(parts.dkdv);
  if (isMasked && keys.getKeyTile() % keys.getQueryTile() != 0)
    return op.emitOpError("accumulates dQ in order, which "
                          "under a mask takes a 'query_tile' that divides "
                          "'key_tile' (")
           << keys.getKeyTile() << ", was " << keys.getQueryTile() << ")";
  return success();
}

LogicalResult GradLowering::checkConsumerColumns() {
  auto check = [&](Attribute part, StringRef name, int64_t headDim,
                   bool addsCaptures) -> LogicalResult {
    auto partSchedule = dyn_cast_if_present<ScheduleAttrInterface>(part);
    if (!partSchedule || partSchedule.getColumnConsumers() == 1)
      return success();
    int64_t columns =
        partSchedule.getColumnConsumers() * partSchedule.getHeadDimTile();
    if (columns != headDim)
      return op.emitOpError("has '")
             << name << "' = '" << part << "', whose consumers compute "
             << columns << " columns together (expected " << headDim << ")";
    if (!addsCaptures || tensors.captureGrads.empty())
      return success();
    return op.emitOpError("has '")
           << name << "' = '" << part
           << "', whose consumers would all add to gradients of captured "
              "tensors";
  };
  return failure(failed(check(parts.dkdv, "dkdv", op.getQKHeadDim(), true)) ||
                 failed(check(parts.dv, "dv", op.getVHeadDim(), false)) ||
                 failed(check(parts.dq, "dq", op.getQKHeadDim(), false)));
}

LogicalResult GradLowering::verify() {
  if (!op.getScheduleAttr())
    return op.emitOpError("needs a schedule");
  schedule = op.getChosenSchedule();
  if (!schedule)
    return op.emitOpError("has a choice of schedules, which "
                          "attn-dispatch-schedules must resolve");
  if (!op.getMaskReads().empty())
    return op.emitOpError("has a mask that reads operands, which "
                          "attn-expand-masks must expand");
  if (op.isShard())
    return op.emitOpError("has the positions of a shard, which "
                          "attn-expand-positions must expand");
  parts = schedule.getGradSchedules();
  if (failed(checkConsumerColumns()))
    return failure();
  if (tensors.isDeterministic && !parts.dq && !parts.orderedDq)
    return op.emitOpError(
        "must be deterministic, but its schedule accumulates dQ in any order");
  if (tensors.identity && tensors.rowResultGrad)
    return op.emitOpError(
        "with 'identity' and 'dlse' has no tiled program yet");
  if (!op.getScoreMod().empty() && !tensors.scoreModGrad)
    return op.emitOpError(
        "needs the 'score_mod_grad' region that belongs to its "
        "'score_mod' region");
  if (parts.orderedDq && failed(checkOrder()))
    return failure();
  // CTAs that visit heads in another order would deadlock.
  if (parts.dqRingDepth > 0 && needsClassification(op) && !isMaskedByHead(op))
    return op.emitOpError("accumulates dQ in a ring buffer ('dq_ring_depth'), "
                          "for which CTAs must iterate over one head after the "
                          "other, not in the order of the lists of its mask");
  return success();
}

LogicalResult GradLowering::collectCaptures(const KernelDropout &dropout) {
  SetVector<Value> used;
  getUsedValuesDefinedAbove(op->getRegions(), used);
  dropout.addOperands(states);
  used.insert_range(states);
  FailureOr<SmallVector<Value>> found = getCaptures(op, used.getArrayRef());
  if (failed(found))
    return failure();
  captures = std::move(*found);
  return success();
}

attn_tile::RowAdditions GradLowering::chooseRowAdditions() {
  auto keys = dyn_cast<attn_tile::KeyStationaryAttr>(parts.dkdv);
  if (!keys || !keys.getPipelined() || parts.dv || parts.dq || parts.orderedDq)
    return {};
  // Reciprocals of these scales, times a log-sum-exp, are normal f32.
  constexpr double minScale = 0x1p-64, maxScale = 0x1p64;
  double scale = op.getScaleOrDefault();
  bool isInRange = scale >= minScale && scale <= maxScale;
  if (!tensors.canAddRows || !isInRange)
    return {};
  // A score_mod needs the scores themselves.
  if (!op.getScoreMod().empty())
    return {};
  // With several query tiles in a step, the wait for delta keeps exponentials
  // ahead of it.
  if (keys.getQueryParts() > 1)
    return {/*scores=*/true, /*factorGrads=*/false};
  // Masks and lists take registers that steps of one query tile then lack.
  if (!op.getMaskMod().empty() || needsClassification(op) ||
      addressing.isListed())
    return {};
  return {/*scores=*/true, /*factorGrads=*/true};
}

void GradLowering::makeWorkspace(const KernelDropout &dropout) {
  workspace = {padding, makeRows(), makeRows(), Value(),
               Value(), Value(),    Value(),    chooseRowAdditions()};
  if (dropout.isMade())
    workspace.streams = makeStreams();
  if (parts.dq)
    return;
  auto keys = cast<ScheduleAttrInterface>(parts.dkdv);
  int64_t qkHeadDim = llvm::alignTo(op.getQKHeadDim(), headDimMultiple);
  // The transposed dQ accumulator is tiled by rows of a kv tile.
  if (keys.getQueryTile() % keys.getKeyTile() != 0)
    qkHeadDim = llvm::alignTo(qkHeadDim, keys.getKeyTile());
  if (parts.dqRingDepth > 0)
    makeDqRing(qkHeadDim, keys.getKeyTile());
  else
    workspace.dqAccumulator = makeRows(qkHeadDim);
  if (parts.orderedDq)
    workspace.semaphores = makeRows(/*headDim=*/0, rewriter.getI32Type());
}

void GradLowering::writeKernel(Attribute part, StringRef name,
                               ArrayRef<Value> operands, ArrayRef<Value> reads,
                               KernelBody writeBody, int64_t firstColumn) {
  auto partSchedule = cast<ScheduleAttrInterface>(part);
  GradKernelWriter writer(rewriter, law, partSchedule, firstColumn);
  for (Value operand : operands)
    writer.addOperand(operand);
  writer.addCaptures(reads);
  writeBody(writer, createKernel(rewriter, op, partSchedule, symbols,
                                 ("_grad_" + name + "_kernel").str(),
                                 writer.getOperands()));
}

void GradLowering::writeKernels(Attribute part, StringRef name, int64_t headDim,
                                ArrayRef<Value> operands,
                                KernelBody writeBody) {
  auto partSchedule = cast<ScheduleAttrInterface>(part);
  int64_t tile = partSchedule.getHeadDimTile();
  int64_t count = countHeadDimTiles(headDim, partSchedule);
  for (int64_t i = 0; i < count; ++i) {
    std::string kernel = name.str();
    if (count > 1)
      kernel += "_" + std::to_string(i);
    writeKernel(part, kernel, operands, captures, writeBody,
                /*firstColumn=*/i * tile);
  }
}

void GradLowering::writePreprocess() {
  int64_t rowTile =
      cast<ScheduleAttrInterface>(parts.preprocess).getQueryTile();
  Value workItemList = getWorkItemList(MaskDim::Query, rowTile, extraRows);
  writeKernel(parts.preprocess, "preprocess",
              {tensors.output, tensors.outputGrad, tensors.rowResult,
               tensors.rowResultGrad, tensors.identity,
               tensors.identity ? op.getValue() : Value(), workspace.exponent,
               workspace.delta, workspace.dqAccumulator,
               workspace.dqRingSemaphores, workspace.semaphores,
               workspace.streams, workItemList},
              workspace.streams ? states.getArrayRef() : ArrayRef<Value>(),
              [&](GradKernelWriter &writer, attn_tile::KernelOp kernel) {
                writer.writePreprocess(kernel, workspace, workItemList);
              });
}

ClassifiedTiles GradLowering::classify(Attribute part, StringRef name,
                                       MaskDim rows) {
  if (!needsClassification(op))
    return ClassifiedTiles();
  auto partSchedule = cast<ScheduleAttrInterface>(part);
  ClassifiedTiles listed =
      classifyTiles(rewriter, op,
                    {partSchedule.getQueryTile(), partSchedule.getKeyTile(),
                     schedule.getPreparation(), rows, ("_" + name).str(),
                     std::max<int64_t>(device.sms, 1)},
                    symbols);
  lists.append({listed.lists, listed.order});
  return listed;
}

void GradLowering::writeDkdv(Attribute part, StringRef name,
                             const Gradients &results) {
  ClassifiedTiles listed = classify(part, name, MaskDim::Key);
  Value workItemList = getWorkItemList(
      MaskDim::Key, cast<ScheduleAttrInterface>(part).getKeyTile());
  SmallVector<Value> operands = {
      op.getQuery(),
      op.getKey(),
      results.key ? op.getValue() : Value(),
      tensors.outputGrad,
      workspace.exponent,
      results.key ? workspace.delta : Value(),
      results.key,
      results.value,
      results.key ? workspace.dqAccumulator : Value(),
      results.key ? workspace.dqRingSemaphores : Value(),
      results.key ? workspace.semaphores : Value(),
      results.key ? results.query : Value(),
      workspace.streams,
      results.value ? tensors.identity : Value(),
      listed.lists,
      listed.order,
      workItemList};
  if (results.key)
    llvm::append_range(operands, tensors.captureGrads);
  writeKernels(
      part, name, results.key ? op.getQKHeadDim() : op.getVHeadDim(), operands,
      [&](GradKernelWriter &writer, attn_tile::KernelOp kernel) {
        if (results.query)
          writer.writeDqConversion(kernel, workspace, results.query);
        writer.writeDkdv(kernel, workspace, results, listed, workItemList);
      });
}

void GradLowering::writeDq() {
  ClassifiedTiles listed = classify(parts.dq, "dq", MaskDim::Query);
  Value workItemList = getWorkItemList(
      MaskDim::Query, cast<ScheduleAttrInterface>(parts.dq).getQueryTile());
  writeKernels(parts.dq, "dq", op.getQKHeadDim(),
               {op.getQuery(), op.getKey(), op.getValue(), tensors.outputGrad,
                workspace.exponent, workspace.delta, tensors.queryGrad,
                listed.lists, listed.order, workItemList},
               [&](GradKernelWriter &writer, attn_tile::KernelOp kernel) {
                 writer.writeDq(kernel, workspace, tensors.queryGrad, listed,
                                workItemList);
               });
}

void GradLowering::writeDqConvert() {
  auto keys = cast<ScheduleAttrInterface>(parts.dkdv);
  Value workItemList = getWorkItemList(MaskDim::Query, keys.getQueryTile());
  writeKernel(parts.preprocess, "dq_convert",
              {tensors.queryGrad, workspace.dqAccumulator, workItemList}, {},
              [&](GradKernelWriter &writer, attn_tile::KernelOp kernel) {
                writer.writeDqConvert(kernel, workspace, tensors.queryGrad,
                                      keys, workItemList);
              });
}

Value GradLowering::makeOfGroups(Value ofHeads) {
  auto type = cast<MemRefType>(ofHeads.getType());
  if (type.getDimSize(1) == op.getNumGroups())
    return ofHeads;
  TileProgramBuilder b(op.getLoc(), rewriter);
  SmallVector<int64_t> shape(type.getShape());
  shape[1] = op.getNumGroups();
  SmallVector<Value> sizes;
  for (unsigned dim : {0, 2})
    if (type.isDynamicDim(dim))
      sizes.push_back(b.size(ofHeads, dim));
  ofGroups.push_back(memref::AllocOp::create(
      b, MemRefType::get(shape, b.getF32Type()), sizes));
  return ofGroups.back();
}

void GradLowering::writeGroupSums(StringRef name, Value ofGroups,
                                  Value ofHeads) {
  if (ofGroups == ofHeads)
    return;
  Value workItemList = getWorkItemList(
      MaskDim::Key,
      cast<ScheduleAttrInterface>(parts.preprocess).getQueryTile());
  writeKernel(parts.preprocess, name, {ofGroups, ofHeads, workItemList}, {},
              [&](GradKernelWriter &writer, attn_tile::KernelOp kernel) {
                writer.writeGroupSums(kernel, workspace, ofGroups, ofHeads,
                                      workItemList);
              });
}

void GradLowering::freeBuffers() {
  SmallVector<Value> buffers(lists);
  llvm::append_range(buffers, ofGroups);
  buffers.append({workspace.exponent, workspace.delta, workspace.dqAccumulator,
                  workspace.dqRingSemaphores, workspace.semaphores,
                  workspace.streams});
  for (auto &[tiles, workItemList] : workItemLists)
    buffers.push_back(workItemList);
  for (Value buffer : buffers)
    if (buffer)
      memref::DeallocOp::create(rewriter, op.getLoc(), buffer);
}

LogicalResult GradLowering::lower() {
  if (failed(verify()) || failed(prepareCaptureGrads(op, tensors)))
    return failure();
  KernelDropout dropout(op);
  for (Attribute part : {parts.dkdv, parts.dv, parts.dq})
    if (part && failed(dropout.check(cast<ScheduleAttrInterface>(part))))
      return failure();
  dropout.report();
  dropout.checkPositions(rewriter, schedule.getPreparation(), symbols);
  if (failed(collectCaptures(dropout)))
    return failure();
  findRows();
  rewriter.setInsertionPoint(op);
  makeWorkspace(dropout);
  writePreprocess();
  Gradients results{tensors.queryGrad, makeOfGroups(tensors.keyGrad),
                    makeOfGroups(tensors.valueGrad)};
  if (parts.dv)
    writeDkdv(parts.dv, "dv", {Value(), Value(), results.value});
  writeDkdv(parts.dkdv, "dkdv",
            {workspace.dqRingSemaphores ? results.query : Value(), results.key,
             parts.dv ? Value() : results.value});
  writeGroupSums("dk_sum", results.key, tensors.keyGrad);
  writeGroupSums("dv_sum", results.value, tensors.valueGrad);
  if (parts.dq)
    writeDq();
  else
    writeDqConvert();
  freeBuffers();
  rewriter.eraseOp(op);
  return success();
}

/// Whether static sizes leave `op` no pairs of a query and a key.
static bool hasNoPairs(AttentionOpInterface op) {
  auto query = cast<ShapedType>(op.getQuery().getType());
  auto key = cast<ShapedType>(op.getKey().getType());
  return query.getDimSize(0) == 0 || query.getDimSize(2) == 0 ||
         key.getDimSize(2) == 0;
}

/// Replaces `op`, which has no pairs, by zeros for its gradients. Captures get
/// no contributions.
static void fillGradients(RewriterBase &rewriter,
                          attn_tile::StreamingGradOpInterface op) {
  attn_tile::GradOperands tensors = op.getGradOperands();
  rewriter.setInsertionPoint(op);
  for (Value gradient :
       {tensors.queryGrad, tensors.keyGrad, tensors.valueGrad}) {
    auto type = cast<ShapedType>(gradient.getType());
    if (llvm::is_contained(type.getShape(), 0))
      continue;
    Value zero = arith::ConstantOp::create(
        rewriter, op.getLoc(), rewriter.getZeroAttr(type.getElementType()));
    linalg::FillOp::create(rewriter, op.getLoc(), zero, gradient);
  }
  rewriter.eraseOp(op);
}

LogicalResult mlir::attn::lowerAttentionGradToKernels(
    RewriterBase &rewriter, attn_tile::StreamingGradOpInterface op,
    const DeviceFigures &device, SymbolTable &symbols) {
  OpBuilder::InsertionGuard guard(rewriter);
  auto attention = cast<AttentionOpInterface>(op.getOperation());
  if (!attention.isBufferized())
    return op.emitOpError("must be bufferised");
  if (hasNoPairs(attention)) {
    fillGradients(rewriter, op);
    return success();
  }
  return GradLowering(rewriter, op, device, symbols).lower();
}
