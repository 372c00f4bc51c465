//===- LinalgToAttnTile.cpp - Linalg to kernels of scalars ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes a kernel for each linalg operation around attention. A work item is a
// piece of a row of the result, and each thread of a warp computes some of its
// elements. For f32 additions and maxima a work item is one element, which the
// threads reduce together.
//
//===----------------------------------------------------------------------===//

#include "CarriedLoop.h"
#include "CreateKernel.h"
#include "ScalarKernelBuilder.h"
#include "attn/Conversion/Passes.h"
#include "attn/Dialect/AttnTile/IR/AttnTileAttrs.h"
#include "attn/Interfaces/StreamableOpInterface.h"
#include "mlir/Dialect/Affine/Utils.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Utils/Utils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::attn {
#define GEN_PASS_DEF_CONVERTLINALGTOATTNTILEPASS
#include "attn/Conversion/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

/// Elements of a row that one work item computes.
static constexpr int64_t rowPiece = 1024;

namespace {
/// Writes the kernel of one operation.
class LinalgKernelWriter {
public:
  LinalgKernelWriter(RewriterBase &rewriter, linalg::LinalgOp op)
      : b(op.getLoc(), rewriter), op(op) {}

  /// Chooses how to write the kernel; fails if there is no way.
  LogicalResult analyze();
  ArrayRef<Value> getOperands() const { return operands.getArrayRef(); }
  void write(attn_tile::KernelOp kernel);

private:
  Value lookup(Value value) { return captured.lookupOrDefault(value); }
  Value getLoopSize(unsigned loop);
  SmallVector<Value> emitIndices(OpOperand &operand, ValueRange point);
  Value emitLoad(OpOperand &operand, ValueRange point);
  /// Emits the body for a point; `results` are the values of results so far.
  SmallVector<Value> emitBody(ValueRange point, ValueRange results);
  /// Emits loops over the reduced dimensions from `number` on.
  SmallVector<Value> emitReduction(unsigned number, SmallVector<Value> point,
                                   ValueRange results);
  void collectOperands();
  void findReductions();
  void emitElement(SmallVector<Value> point);
  void writeReductions();
  void writeElements();
  SmallVector<Value> loadResults(ValueRange point);
  void storeResults(ValueRange point, ValueRange values);

  ScalarKernelBuilder b;
  linalg::LinalgOp op;
  llvm::SetVector<Value> operands;
  IRMapping captured;
  SmallVector<unsigned> parallel, reduced;
  /// The operand and dimension from which each loop gets its size. One exists,
  /// since indexing maps are invertible.
  SmallVector<std::pair<Value, int64_t>> sizes;
  /// If all results are f32 additions, or all maxima: their kind, and the value
  /// that each step adds to each, or compares with each.
  vector::CombiningKind kind = vector::CombiningKind::ADD;
  SmallVector<Value> terms;
};
} // namespace

LogicalResult LinalgKernelWriter::analyze() {
  if (!op.hasPureBufferSemantics())
    return op.emitOpError("must be bufferised");
  op.getParallelDims(parallel);
  op.getReductionDims(reduced);
  for (auto [number, map] : llvm::enumerate(op.getIndexingMapsArray()))
    for (unsigned loop : reduced)
      if (int64_t(number) >= op.getNumDpsInputs() && map.isFunctionOfDim(loop))
        return op.emitOpError("has no kernel, as its output #")
               << number - op.getNumDpsInputs()
               << " has elements for single steps of a reduction";
  for (OpOperand &result : op.getDpsInitsMutable()) {
    Type element = getElementTypeOrSelf(result.get());
    if (!element.isSignlessIntOrFloat() || element.isInteger(1))
      return op.emitOpError("cannot write elements of type ")
             << element << " on a GPU";
  }
  collectOperands();
  findReductions();
  return success();
}

/// Collects the operands of the kernel, and the sizes of loops.
void LinalgKernelWriter::collectOperands() {
  sizes.resize(op.getNumLoops());
  for (OpOperand &operand : op->getOpOperands()) {
    if (!matchPattern(operand.get(), m_Constant()))
      operands.insert(operand.get());
    for (auto [dim, expr] :
         llvm::enumerate(op.getMatchingIndexingMap(&operand).getResults()))
      if (auto loop = dyn_cast<AffineDimExpr>(expr))
        sizes[loop.getPosition()] = {operand.get(), dim};
  }
  visitUsedValuesDefinedAbove(op->getRegions(), [&](OpOperand *use) {
    if (!matchPattern(use->get(), m_Constant()))
      operands.insert(use->get());
  });
}

/// Detects results that only add up values, or are the largest ones.
void LinalgKernelWriter::findReductions() {
  auto streamable = dyn_cast<StreamableOpInterface>(op.getOperation());
  if (!streamable || reduced.empty())
    return;
  SmallVector<OpAxis> axes = streamable.getAxes();
  auto areAll = [&](StringRef operation) {
    return llvm::all_of(reduced, [&](unsigned loop) {
      return axes[loop].law == AxisLaw::Merge && axes[loop].text == operation;
    });
  };
  if (areAll(arith::MaxNumFOp::getOperationName()))
    kind = vector::CombiningKind::MAXNUMF;
  else if (!areAll(arith::AddFOp::getOperationName()))
    return;
  unsigned numInputs = op.getNumDpsInputs();
  for (auto [number, yielded] :
       llvm::enumerate(op.getBlock()->getTerminator()->getOperands())) {
    if (!yielded.getType().isF32())
      return terms.clear();
    Operation *combiner = yielded.getDefiningOp();
    Value result = op.getBlock()->getArgument(numInputs + number);
    bool isFirst = combiner->getOperand(0) == result;
    terms.push_back(combiner->getOperand(isFirst ? 1 : 0));
  }
}

Value LinalgKernelWriter::getLoopSize(unsigned loop) {
  auto [value, dim] = sizes[loop];
  return b.size(lookup(value), dim);
}

SmallVector<Value> LinalgKernelWriter::emitIndices(OpOperand &operand,
                                                   ValueRange point) {
  AffineMap map = op.getMatchingIndexingMap(&operand);
  return llvm::map_to_vector(map.getResults(), [&](AffineExpr expr) {
    return affine::expandAffineExpr(b, b.getLoc(), expr, point, {});
  });
}

Value LinalgKernelWriter::emitLoad(OpOperand &operand, ValueRange point) {
  Value value = lookup(operand.get());
  if (!isa<MemRefType>(value.getType()))
    return value;
  return memref::LoadOp::create(b, value, emitIndices(operand, point));
}

SmallVector<Value> LinalgKernelWriter::loadResults(ValueRange point) {
  SmallVector<Value> values;
  // Loops over reduced dimensions carry results, so their initial values are
  // loaded even if no step reads them.
  for (OpOperand &result : op.getDpsInitsMutable()) {
    bool isRead = !op.getMatchingBlockArgument(&result).use_empty();
    values.push_back(!reduced.empty() || isRead ? emitLoad(result, point)
                                                : Value());
  }
  return values;
}

void LinalgKernelWriter::storeResults(ValueRange point, ValueRange values) {
  for (auto [result, value] : llvm::zip_equal(op.getDpsInitsMutable(), values))
    memref::StoreOp::create(b, value, lookup(result.get()),
                            emitIndices(result, point));
}

SmallVector<Value> LinalgKernelWriter::emitBody(ValueRange point,
                                                ValueRange results) {
  Block *body = op.getBlock();
  IRMapping mapping(captured);
  for (OpOperand *input : op.getDpsInputOperands())
    if (op.payloadUsesValueFromOperand(input))
      mapping.map(op.getMatchingBlockArgument(input), emitLoad(*input, point));
  for (auto [operand, value] :
       llvm::zip_equal(op.getDpsInitsMutable(), results))
    if (value)
      mapping.map(op.getMatchingBlockArgument(&operand), value);
  DenseSet<Value> sums;
  if (!terms.empty())
    for (Value yielded : body->getTerminator()->getOperands())
      sums.insert(yielded);
  for (Operation &nested : body->without_terminator()) {
    if (auto index = dyn_cast<linalg::IndexOp>(nested))
      mapping.map(index.getResult(), point[index.getDim()]);
    else if (nested.getNumResults() != 1 || !sums.contains(nested.getResult(0)))
      b.clone(nested, mapping);
  }
  ValueRange wanted = terms.empty()
                          ? ValueRange(body->getTerminator()->getOperands())
                          : ValueRange(terms);
  return llvm::map_to_vector(
      wanted, [&](Value value) { return mapping.lookupOrDefault(value); });
}

SmallVector<Value> LinalgKernelWriter::emitReduction(unsigned number,
                                                     SmallVector<Value> point,
                                                     ValueRange results) {
  if (number == reduced.size())
    return emitBody(point, results);
  return emitCarriedLoop(b, getLoopSize(reduced[number]), results,
                         [&](Value index, ValueRange carried) {
                           point[reduced[number]] = index;
                           return emitReduction(number + 1, point, carried);
                         });
}

void LinalgKernelWriter::emitElement(SmallVector<Value> point) {
  SmallVector<Value> results = loadResults(point);
  storeResults(point, emitReduction(0, point, results));
}

void LinalgKernelWriter::writeElements() {
  SmallVector<OpFoldResult> bounds;
  for (unsigned loop : ArrayRef(parallel).drop_back(!parallel.empty()))
    bounds.push_back(getLoopSize(loop));
  Value last = parallel.empty() ? b.constant(1) : getLoopSize(parallel.back());
  bounds.push_back(b.tiles(last, rowPiece));
  auto forall = scf::ForallOp::create(b, bounds, ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  SmallVector<Value> point(op.getNumLoops());
  for (auto [loop, id] : llvm::zip(parallel, forall.getInductionVars()))
    point[loop] = id;
  Value first = b.mul(forall.getInductionVars().back(), b.constant(rowPiece));
  Value count =
      arith::MinSIOp::create(b, b.sub(last, first), b.constant(rowPiece));
  b.each(count, [&](Value i) {
    if (!parallel.empty())
      point[parallel.back()] = b.add(first, i);
    emitElement(point);
  });
}

void LinalgKernelWriter::writeReductions() {
  SmallVector<OpFoldResult> bounds;
  for (unsigned loop : parallel)
    bounds.push_back(getLoopSize(loop));
  if (parallel.empty())
    bounds.push_back(b.constant(1));
  auto forall = scf::ForallOp::create(b, bounds, ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  SmallVector<Value> point(op.getNumLoops());
  for (auto [loop, id] : llvm::zip(parallel, forall.getInductionVars()))
    point[loop] = id;

  Value count = b.constant(1);
  for (unsigned loop : reduced)
    count = b.mul(count, getLoopSize(loop));
  SmallVector<Type> types(terms.size(), b.getF32Type());
  SmallVector<vector::CombiningKind> kinds(terms.size(), kind);
  auto reduce = attn_tile::ReduceOp::create(b, types, count, kinds);
  {
    OpBuilder::InsertionGuard guard(b);
    Block *block =
        b.createBlock(&reduce.getBody(), {}, b.getIndexType(), b.getLoc());
    Value rest = block->getArgument(0);
    for (unsigned loop : llvm::reverse(ArrayRef(reduced).drop_front())) {
      Value size = getLoopSize(loop);
      point[loop] = arith::RemUIOp::create(b, rest, size);
      rest = arith::DivUIOp::create(b, rest, size);
    }
    point[reduced.front()] = rest;
    SmallVector<Value> none(terms.size());
    attn_tile::YieldOp::create(b, emitBody(point, none));
  }
  b.each(b.constant(1), [&](Value) {
    SmallVector<Value> values = loadResults(point);
    for (auto [value, result] : llvm::zip_equal(values, reduce.getResults()))
      value = vector::makeArithReduction(b, b.getLoc(), kind, value, result);
    storeResults(point, values);
  });
}

void LinalgKernelWriter::write(attn_tile::KernelOp kernel) {
  Block &entry = kernel.getBody().front();
  captured.map(operands.getArrayRef(), entry.getArguments());
  b.setInsertionPointToEnd(&entry);
  // Constants are cloned; all else is an argument.
  auto cloneConstant = [&](Value value) {
    if (!captured.contains(value))
      b.clone(*value.getDefiningOp(), captured);
  };
  llvm::for_each(op->getOperands(), cloneConstant);
  visitUsedValuesDefinedAbove(
      op->getRegions(), [&](OpOperand *use) { cloneConstant(use->get()); });
  if (terms.empty())
    writeElements();
  else
    writeReductions();
}

namespace {
struct ConvertLinalgToAttnTile
    : attn::impl::ConvertLinalgToAttnTilePassBase<ConvertLinalgToAttnTile> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<linalg::LinalgOp> ops;
    getOperation().walk([&](linalg::LinalgOp op) { ops.push_back(op); });
    SymbolTableCollection symbolTables;
    IRRewriter rewriter(&getContext());
    auto schedule = cast<ScheduleAttrInterface>(
        Attribute(attn_tile::ScalarAttr::get(&getContext(), /*warps=*/1)));
    for (linalg::LinalgOp op : ops) {
      LinalgKernelWriter writer(rewriter, op);
      if (failed(writer.analyze()))
        return signalPassFailure();
      SymbolTable &symbols =
          symbolTables.getSymbolTable(SymbolTable::getNearestSymbolTable(op));
      std::string suffix =
          ("_" + op->getName().stripDialect() + "_kernel").str();
      attn_tile::KernelOp kernel = createKernel(rewriter, op, schedule, symbols,
                                                suffix, writer.getOperands());
      writer.write(kernel);
      rewriter.eraseOp(op);
    }
  }
};
} // namespace
