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
#include "TileProgramBuilder.h"
#include "attn/Conversion/AttnToAttnTile/AttnToAttnTile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace mlir::attn;

namespace {
/// Makes the kernels of one gradient and their launches.
class GradLowering {
public:
  GradLowering(RewriterBase &rewriter, AttentionGradOp op, SymbolTable &symbols)
      : rewriter(rewriter), op(op), symbols(symbols) {}

  LogicalResult lower();

private:
  /// Makes an array of f32 with a row of `channels` values for each query (of
  /// one value for none), and rows up to a multiple.
  Value makeRows(int64_t multiple, int64_t channels = 0);
  /// Makes an array for the random streams of all batch entries and heads.
  Value makeStreams();

  RewriterBase &rewriter;
  AttentionGradOp op;
  SymbolTable &symbols;
};
} // namespace

Value GradLowering::makeRows(int64_t multiple, int64_t channels) {
  TileProgramBuilder b(op.getLoc(), rewriter);
  auto query = cast<MemRefType>(op.getQuery().getType());
  SmallVector<int64_t> shape(query.getShape().take_front(3));
  SmallVector<Value> sizes;
  if (query.isDynamicDim(0))
    sizes.push_back(b.size(op.getQuery(), 0));
  if (query.isDynamicDim(2)) {
    Value tiles = b.countTiles(b.size(op.getQuery(), 2), multiple);
    sizes.push_back(arith::MulIOp::create(b, tiles, b.index(multiple)));
  } else {
    shape[2] = llvm::alignTo(shape[2], multiple);
  }
  if (channels)
    shape.push_back(channels);
  return memref::AllocOp::create(b, MemRefType::get(shape, b.getF32Type()),
                                 sizes);
}

Value GradLowering::makeStreams() {
  TileProgramBuilder b(op.getLoc(), rewriter);
  auto query = cast<MemRefType>(op.getQuery().getType());
  constexpr int64_t words = std::tuple_size_v<RngBlock<Value>>;
  SmallVector<int64_t> shape(query.getShape().take_front(2));
  shape.push_back(words);
  SmallVector<Value> sizes;
  if (query.isDynamicDim(0))
    sizes.push_back(b.size(op.getQuery(), 0));
  return memref::AllocOp::create(b, MemRefType::get(shape, b.getI32Type()),
                                 sizes);
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
  if (op.hasSequences())
    return op.emitOpError("with sequences has no tiled program yet");
  GradSchedules parts = schedule.getGradSchedules();
  if (op.getDeterministic() && !parts.queries)
    return op.emitOpError("must be deterministic, but its schedule adds up the "
                          "gradients of queries in any order");
  if (op.getIdentity() && op.getDlse())
    return op.emitOpError(
        "with 'identity' and 'dlse' has no tiled program yet");
  if (!op.getScoreRegion().empty() && op.getScoreGradRegion().empty())
    return op.emitOpError("needs the 'score_grad' region that belongs to its "
                          "'score' region");
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

  int64_t multiple = 1;
  for (Attribute part : {parts.rows, parts.keys, parts.values, parts.queries})
    if (part)
      multiple =
          std::lcm(multiple, cast<ScheduleAttrInterface>(part).getQueryTile());
  rewriter.setInsertionPoint(op);
  GradWorkspace workspace{makeRows(multiple), makeRows(multiple), Value(),
                          Value()};
  if (dropout.isMade())
    workspace.streams = makeStreams();
  if (!parts.queries) {
    auto keys = cast<ScheduleAttrInterface>(parts.keys);
    int64_t channels = llvm::alignTo(op.getQueryHeadDim(), headDimMultiple);
    // A sum with a row for each channel has as many as a tile of keys.
    if (keys.getQueryTile() % keys.getKeyTile() != 0)
      channels = llvm::alignTo(channels, keys.getKeyTile());
    workspace.sums = makeRows(multiple, channels);
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
  write(parts.rows, "rows",
        {op.getOut(), op.getDout(), op.getLse(), op.getDlse(), op.getIdentity(),
         op.getIdentity() ? op.getValue() : Value(), workspace.exponent,
         workspace.delta, workspace.sums, workspace.streams},
        [&](GradKernelWriter &writer, attn_tile::KernelOp kernel) {
          writer.writeRows(kernel, workspace);
        });
  SmallVector<Value> buffers;
  auto classify = [&](Attribute attribute, StringRef name, MaskDim rows) {
    if (!needsClassification(op))
      return ClassifiedTiles();
    auto part = cast<ScheduleAttrInterface>(attribute);
    ClassifiedTiles listed =
        classifyTiles(rewriter, op,
                      {part.getQueryTile(), part.getKeyTile(),
                       schedule.getPreparation(), rows, ("_" + name).str()},
                      symbols);
    buffers.append({listed.lists, listed.order});
    return listed;
  };
  auto writeKeys = [&](Attribute part, StringRef name,
                       const Gradients &results) {
    ClassifiedTiles listed = classify(part, name, MaskDim::Key);
    SmallVector<Value> operands = {op.getQuery(),
                                   op.getKey(),
                                   results.key ? op.getValue() : Value(),
                                   op.getDout(),
                                   workspace.exponent,
                                   results.key ? workspace.delta : Value(),
                                   results.key,
                                   results.value,
                                   results.key ? workspace.sums : Value(),
                                   workspace.streams,
                                   results.value ? op.getIdentity() : Value(),
                                   listed.lists,
                                   listed.order};
    if (results.key)
      llvm::append_range(operands, op.getDcaptures());
    write(part, name, operands,
          [&](GradKernelWriter &writer, attn_tile::KernelOp kernel) {
            writer.writeKeys(kernel, workspace, results, listed);
          });
  };
  Gradients results{op.getDquery(), op.getDkey(), op.getDvalue()};
  if (parts.values)
    writeKeys(parts.values, "values", {Value(), Value(), results.value});
  writeKeys(parts.keys, "keys",
            {Value(), results.key, parts.values ? Value() : results.value});
  if (parts.queries) {
    ClassifiedTiles listed = classify(parts.queries, "queries", MaskDim::Query);
    write(parts.queries, "queries",
          {op.getQuery(), op.getKey(), op.getValue(), op.getDout(),
           workspace.exponent, workspace.delta, results.query, listed.lists,
           listed.order},
          [&](GradKernelWriter &writer, attn_tile::KernelOp kernel) {
            writer.writeQueries(kernel, workspace, results.query, listed);
          });
  } else {
    write(parts.rows, "sums", {results.query, workspace.sums},
          [&](GradKernelWriter &writer, attn_tile::KernelOp kernel) {
            writer.writeSums(kernel, workspace, results.query,
                             cast<ScheduleAttrInterface>(parts.keys));
          });
  }

  buffers.append(
      {workspace.exponent, workspace.delta, workspace.sums, workspace.streams});
  for (Value buffer : buffers)
    if (buffer)
      memref::DeallocOp::create(rewriter, op.getLoc(), buffer);
  rewriter.eraseOp(op);
  return success();
}

LogicalResult mlir::attn::lowerAttentionGradToKernels(RewriterBase &rewriter,
                                                      AttentionGradOp op,
                                                      SymbolTable &symbols) {
  OpBuilder::InsertionGuard guard(rewriter);
  return GradLowering(rewriter, op, symbols).lower();
}