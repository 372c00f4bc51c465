//===- MergeToAttnTile.cpp - Merges of partial results --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows are cut into chunks of neighbours, which a thread accesses together. In
// the kernel of a merge, a work item has chunks of some rows of a head, and a
// thread merges one chunk. In the kernel of the gradient, a work item has some
// rows, each of which is divided among all threads: they first compute
// dot(dout, partial output) of each partial result and row.
//
// A partial result counts as a part of the keys with the row maximum `lse` and
// the row sum 2^-k, for at most 2^k parts: the accumulator does not exceed the
// largest output, so that it does not overflow.
//
//===----------------------------------------------------------------------===//

#include "attn/Conversion/AttnToAttnTile/MergeToAttnTile.h"
#include "CombinedSoftmax.h"
#include "CreateKernel.h"
#include "ScalarKernelBuilder.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::attn;

namespace {
/// Accesses to chunks of rows.
class MergeKernelBuilder {
protected:
  template <typename OpTy>
  MergeKernelBuilder(OpBuilder &builder, OpTy op, attn_tile::KernelOp kernel,
                     int64_t width)
      : b(op.getLoc(), builder),
        division(op.getScheduleAttr().getRowDivision()), width(width),
        chunksOfRow(op.getHeadDim() / width),
        countScale(double(int64_t(1)
                          << llvm::Log2_64_Ceil(op.getPartialOuts().size()))),
        entry(&kernel.getBody().front()) {
    arguments.map(op->getOperands(), entry->getArguments());
    partialOuts = get(op.getPartialOuts());
    partialLses = get(op.getPartialLses());
    b.setInsertionPointToEnd(entry);
  }

  Value get(Value operand) {
    return operand ? arguments.lookup(operand) : Value();
  }
  SmallVector<Value> get(ValueRange operands) {
    return llvm::map_to_vector(operands, [&](Value v) { return get(v); });
  }
  Value f32(double value) {
    return arith::ConstantOp::create(b, b.getF32FloatAttr(value));
  }
  /// The elements of chunk `chunk` of a row, as f32.
  SmallVector<Value> loadChunk(Value memref, ArrayRef<Value> row, Value chunk);
  void storeChunk(ArrayRef<Value> values, Value memref, ArrayRef<Value> row,
                  Value chunk);

  ScalarKernelBuilder b;
  RowDivision division;
  int64_t width, chunksOfRow;
  /// 2^k for at most 2^k partial results.
  double countScale;
  Block *entry;
  IRMapping arguments;
  SmallVector<Value> partialOuts, partialLses;

private:
  /// The indices of element `number` of a chunk, and its alignment if it is
  /// more than the size of an element.
  SmallVector<Value> getIndices(ArrayRef<Value> row, Value chunk,
                                int64_t number);
  std::optional<int64_t> getAlignment(Value memref, int64_t number) const;
};

/// One element of all partial results.
class PartialElement : public attn_tile::CombinedElement {
public:
  PartialElement(ImplicitLocOpBuilder &b, ArrayRef<Value> lses,
                 ArrayRef<Value> outputs, Value rowSum)
      : CombinedElement(b), lses(lses), outputs(outputs), rowSum(rowSum) {}

  Value loadStatistic(int64_t split, unsigned index) override {
    return index == SplitMax ? lses[split] : rowSum;
  }
  Value loadOutput(int64_t split) override { return outputs[split]; }
  Value emitExists(int64_t) override { return {}; }
  Value loadOperand(Value) override { return {}; }
  // The kernels store whole chunks.
  void storeOutput(Value) override {}
  void storeRow(unsigned, function_ref<Value()>) override {}

private:
  ArrayRef<Value> lses, outputs;
  Value rowSum;
};

/// Writes the kernel of a merge.
class MergeWriter : MergeKernelBuilder {
public:
  MergeWriter(OpBuilder &builder, MergeOp op, attn_tile::KernelOp kernel)
      : MergeKernelBuilder(builder, op, kernel, op.getAccessWidth()),
        out(get(op.getOut())), lse(get(op.getLse())),
        isNarrow(llvm::none_of(partialOuts, [](Value partialOut) {
          return getElementTypeOrSelf(partialOut).isF32();
        })) {}

  void write();

private:
  void writeChunk(ArrayRef<Value> row, Value chunk);

  Value out, lse;
  /// Whether partial outputs have 16 bits. The product with the reciprocal of
  /// the row sum, which may round upwards, then is finite.
  bool isNarrow;
};

/// Writes the kernel of the gradient of a merge.
class MergeGradWriter : MergeKernelBuilder {
public:
  MergeGradWriter(OpBuilder &builder, MergeGradOp op,
                  attn_tile::KernelOp kernel)
      : MergeKernelBuilder(builder, op, kernel, getWidth(op)),
        dout(get(op.getDout())), dlse(get(op.getDlse())),
        dpartialOuts(get(op.getDpartialOuts())),
        dpartialLses(get(op.getDpartialLses())) {}

  void write();

private:
  /// A row of a work item, and the gradients of its partial results.
  struct Row {
    SmallVector<Value> indices;
    /// Whether the row exists; null for the first one.
    Value exists;
    SmallVector<Value> lses, products, weights, gradients;
    Value ofLse;
  };

  static int64_t getWidth(MergeGradOp op);
  SmallVector<Row, 0> loadRows(scf::ForallOp forall);
  void emitProducts(MutableArrayRef<Row> rows);
  void emitWeights(Row &row);
  void storeRow(const Row &row);
  void ifExists(const Row &row, function_ref<void()> body);

  Value dout, dlse;
  SmallVector<Value> dpartialOuts, dpartialLses;
};
} // namespace

//===----------------------------------------------------------------------===//
// Accesses
//===----------------------------------------------------------------------===//

SmallVector<Value> MergeKernelBuilder::getIndices(ArrayRef<Value> row,
                                                  Value chunk, int64_t number) {
  SmallVector<Value> indices(row);
  indices.push_back(b.add(b.mul(chunk, b.constant(width)), b.constant(number)));
  return indices;
}

std::optional<int64_t> MergeKernelBuilder::getAlignment(Value memref,
                                                        int64_t number) const {
  return division.isAligned ? getAlignmentOfNeighbour(memref, number, width)
                            : std::nullopt;
}

SmallVector<Value>
MergeKernelBuilder::loadChunk(Value memref, ArrayRef<Value> row, Value chunk) {
  SmallVector<Value> values;
  for (int64_t i : llvm::seq(width)) {
    memref::LoadOp element = b.loadExisting(memref, getIndices(row, chunk, i));
    if (std::optional<int64_t> alignment = getAlignment(memref, i))
      element.setAlignment(*alignment);
    values.push_back(element);
  }
  for (Value &value : values)
    if (!value.getType().isF32())
      value = arith::ExtFOp::create(b, b.getF32Type(), value);
  return values;
}

void MergeKernelBuilder::storeChunk(ArrayRef<Value> values, Value memref,
                                    ArrayRef<Value> row, Value chunk) {
  Type type = getElementTypeOrSelf(memref);
  SmallVector<Value> rounded(values);
  SmallVector<SmallVector<Value>> indices;
  for (auto [i, value] : llvm::enumerate(rounded)) {
    indices.push_back(getIndices(row, chunk, int64_t(i)));
    if (!type.isF32())
      value = arith::TruncFOp::create(b, type, value);
  }
  // Stores follow one another, so that LLVM can join them.
  for (auto [i, value] : llvm::enumerate(rounded)) {
    auto store = memref::StoreOp::create(b, value, memref, indices[i]);
    if (std::optional<int64_t> alignment = getAlignment(memref, int64_t(i)))
      store.setAlignment(*alignment);
  }
}

//===----------------------------------------------------------------------===//
// Merge
//===----------------------------------------------------------------------===//

void MergeWriter::write() {
  Value chunks = b.mul(b.size(out, 2), b.constant(chunksOfRow));
  Value size = b.constant(division.chunks);
  SmallVector<OpFoldResult> bounds = {b.size(out, 0), b.size(out, 1),
                                      b.tiles(chunks, division.chunks)};
  auto forall = scf::ForallOp::create(b, bounds, ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  Value first = b.mul(forall.getInductionVar(2), size);
  Value count = arith::MinSIOp::create(b, b.sub(chunks, first), size);
  auto loop = attn_tile::ThreadForOp::create(
      b, count, static_cast<uint64_t>(division.together));
  Block *block =
      b.createBlock(&loop.getBody(), {}, b.getIndexType(), b.getLoc());
  Value number = b.add(first, block->getArgument(0));
  Value ofRow = b.constant(chunksOfRow);
  Value position = arith::DivUIOp::create(b, number, ofRow);
  Value chunk = arith::RemUIOp::create(b, number, ofRow);
  writeChunk({forall.getInductionVar(0), forall.getInductionVar(1), position},
             chunk);
  b.setInsertionPointToEnd(block);
  attn_tile::YieldOp::create(b, ValueRange());
}

void MergeWriter::writeChunk(ArrayRef<Value> row, Value chunk) {
  SmallVector<Value> lses;
  SmallVector<SmallVector<Value>> chunks;
  for (auto [partialOut, partialLse] :
       llvm::zip_equal(partialOuts, partialLses)) {
    lses.push_back(b.loadExisting(partialLse, row));
    chunks.push_back(loadChunk(partialOut, row, chunk));
  }
  Value rowSum = f32(1 / countScale), reciprocal;
  auto numParts = int64_t(lses.size());
  SmallVector<Value> results;
  Value merged;
  for (int64_t i : llvm::seq(width)) {
    SmallVector<Value> outputs = llvm::map_to_vector(
        chunks, [&](ArrayRef<Value> values) { return values[i]; });
    PartialElement element(b, lses, outputs, rowSum);
    CombinedSoftmax softmax(element);
    CombinedSoftmax::State state =
        softmax.emitCombine(softmax.emitInit(), numParts);
    if (isNarrow && i == 0) {
      CombinedSoftmax::State one = {state.reference, state.rowSum, f32(1)};
      reciprocal = softmax.emitOutput(one);
    }
    results.push_back(isNarrow ? arith::MulFOp::create(b, state.acc, reciprocal)
                               : softmax.emitOutput(state));
    if (i != 0 || !lse)
      continue;
    state.rowSum = arith::MulFOp::create(b, state.rowSum, f32(countScale));
    merged = softmax.emitLogSumExp(state);
  }
  storeChunk(results, out, row, chunk);
  if (!lse)
    return;
  Value isFirst = b.compare(arith::CmpIPredicate::eq, chunk, b.constant(0));
  auto ifOp = scf::IfOp::create(b, isFirst, /*withElseRegion=*/false);
  b.setInsertionPointToStart(ifOp.thenBlock());
  memref::StoreOp::create(b, merged, lse, row);
}

//===----------------------------------------------------------------------===//
// Gradient
//===----------------------------------------------------------------------===//

/// Elements of a chunk: so many that all threads have one, if that is possible.
int64_t MergeGradWriter::getWidth(MergeGradOp op) {
  int64_t threads = op.getScheduleAttr().getRowDivision().threads;
  int64_t width = op.getAccessWidth();
  while (width % 2 == 0 && op.getHeadDim() / width < threads)
    width /= 2;
  return width;
}

void MergeGradWriter::write() {
  SmallVector<OpFoldResult> bounds = {
      b.size(dout, 0), b.size(dout, 1),
      b.tiles(b.size(dout, 2), division.together)};
  auto forall = scf::ForallOp::create(b, bounds, ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  SmallVector<Row, 0> rows = loadRows(forall);
  emitProducts(rows);
  for (Row &row : rows)
    emitWeights(row);
  for (const Row &row : rows)
    storeRow(row);
}

/// The rows of a work item with their statistics. A row that does not exist has
/// the indices of the last one.
SmallVector<MergeGradWriter::Row, 0>
MergeGradWriter::loadRows(scf::ForallOp forall) {
  Value count = b.size(dout, 2), last = b.sub(count, b.constant(1));
  Value first = b.mul(forall.getInductionVar(2), b.constant(division.together));
  SmallVector<Row, 0> rows(division.together);
  for (auto [number, row] : llvm::enumerate(rows)) {
    Value position = b.add(first, b.constant(int64_t(number)));
    if (number != 0) {
      row.exists = b.compare(arith::CmpIPredicate::slt, position, count);
      position = arith::MinSIOp::create(b, position, last);
    }
    row.indices = {forall.getInductionVar(0), forall.getInductionVar(1),
                   position};
    for (Value partialLse : partialLses)
      row.lses.push_back(b.loadExisting(partialLse, row.indices));
    if (dlse)
      row.ofLse = b.loadExisting(dlse, row.indices);
  }
  return rows;
}

/// Emits dot(dout, partial output) of each partial result and row.
void MergeGradWriter::emitProducts(MutableArrayRef<Row> rows) {
  unsigned numParts = partialOuts.size();
  SmallVector<Type> types(numParts * rows.size(), b.getF32Type());
  SmallVector<vector::CombiningKind> kinds(types.size(),
                                           vector::CombiningKind::ADD);
  auto reduce =
      attn_tile::ReduceOp::create(b, types, b.constant(chunksOfRow), kinds);
  OpBuilder::InsertionGuard guard(b);
  Block *block =
      b.createBlock(&reduce.getBody(), {}, b.getIndexType(), b.getLoc());
  Value chunk = block->getArgument(0);
  // The loads of all rows are in flight at once.
  SmallVector<SmallVector<Value>> gradients, outputs;
  for (const Row &row : rows) {
    gradients.push_back(loadChunk(dout, row.indices, chunk));
    for (Value partialOut : partialOuts)
      outputs.push_back(loadChunk(partialOut, row.indices, chunk));
  }
  SmallVector<Value> sums;
  for (auto [number, output] : llvm::enumerate(outputs)) {
    Value sum = f32(0);
    for (auto [lhs, rhs] :
         llvm::zip_equal(gradients[number / numParts], output))
      sum = math::FmaOp::create(b, lhs, rhs, sum);
    sums.push_back(sum);
  }
  attn_tile::YieldOp::create(b, sums);
  for (auto [number, row] : llvm::enumerate(rows))
    llvm::append_range(row.products,
                       reduce.getResults().slice(number * numParts, numParts));
}

/// Emits the factors of the partial outputs, and the gradients of the partial
/// log-sum-exps.
void MergeGradWriter::emitWeights(Row &row) {
  Value zero = f32(0), rowSum = f32(1 / countScale);
  // The merge of these numbers is dot(dout, merged output).
  PartialElement element(b, row.lses, row.products, rowSum);
  CombinedSoftmax softmax(element);
  CombinedSoftmax::State state =
      softmax.emitCombine(softmax.emitInit(), int64_t(row.lses.size()));
  Value mean = softmax.emitOutput(state);
  for (auto [partialLse, product] : llvm::zip_equal(row.lses, row.products)) {
    Value isEmpty = softmax.isLowest(partialLse);
    Value share = arith::DivFOp::create(
        b, softmax.emitWeight(state, partialLse, rowSum), state.rowSum);
    Value weight = b.select(isEmpty, zero, share);
    Value slope = arith::SubFOp::create(b, product, mean);
    if (row.ofLse)
      slope = arith::AddFOp::create(b, slope, row.ofLse);
    Value scaled = arith::MulFOp::create(b, weight, slope);
    row.weights.push_back(weight);
    row.gradients.push_back(b.select(isEmpty, zero, scaled));
  }
}

void MergeGradWriter::ifExists(const Row &row, function_ref<void()> body) {
  OpBuilder::InsertionGuard guard(b);
  if (row.exists) {
    auto ifOp = scf::IfOp::create(b, row.exists, /*withElseRegion=*/false);
    b.setInsertionPointToStart(ifOp.thenBlock());
  }
  body();
}

void MergeGradWriter::storeRow(const Row &row) {
  b.each(b.constant(1), [&](Value) {
    ifExists(row, [&] {
      for (auto [gradient, memref] :
           llvm::zip_equal(row.gradients, dpartialLses))
        memref::StoreOp::create(b, gradient, memref, row.indices);
    });
  });
  b.each(b.constant(chunksOfRow), [&](Value chunk) {
    SmallVector<Value> gradient = loadChunk(dout, row.indices, chunk);
    ifExists(row, [&] {
      for (auto [weight, memref] : llvm::zip_equal(row.weights, dpartialOuts)) {
        SmallVector<Value> scaled =
            llvm::map_to_vector(gradient, [&, weight = weight](Value value) {
              return arith::MulFOp::create(b, weight, value).getResult();
            });
        storeChunk(scaled, memref, row.indices, chunk);
      }
    });
  });
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

template <typename Writer, typename OpTy>
static LogicalResult lower(RewriterBase &rewriter, OpTy op,
                           SymbolTable &symbols, StringRef suffix) {
  FailureOr<attn_tile::KernelOp> kernel =
      createKernelOfOperands(rewriter, op, symbols, suffix);
  if (failed(kernel))
    return failure();
  OpBuilder::InsertionGuard guard(rewriter);
  Writer(rewriter, op, *kernel).write();
  rewriter.eraseOp(op);
  return success();
}

LogicalResult attn::lowerMergeToKernel(RewriterBase &rewriter, MergeOp op,
                                       SymbolTable &symbols) {
  return lower<MergeWriter>(rewriter, op, symbols, "_merge");
}

LogicalResult attn::lowerMergeGradToKernel(RewriterBase &rewriter,
                                           MergeGradOp op,
                                           SymbolTable &symbols) {
  return lower<MergeGradWriter>(rewriter, op, symbols, "_merge_grad");
}
