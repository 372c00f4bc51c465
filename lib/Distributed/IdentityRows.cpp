//===- IdentityRows.cpp - Identity of attention as rows -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// With `u = identity[h]`, the output is `(1 - u) * out + u * value`. The
// gradient is the one of attention without identity for the gradient
// `(1 - u) * dout` of the output, where `dlse` has
// `u * dot(dout, value - out)` more, and `dvalue` `u * dout`.
//
//===----------------------------------------------------------------------===//

#include "IdentityRows.h"
#include "RankTensors.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::attn;
using utils::IteratorType;

static Value getIdentity(AttentionOpInterface op) {
  if (auto attention = dyn_cast<AttentionOp>(op.getOperation()))
    return attention.getIdentity();
  if (auto grad = dyn_cast<AttentionGradOp>(op.getOperation()))
    return grad.getIdentity();
  return nullptr;
}

bool attn::hasIdentityOfRows(AttentionOpInterface op) {
  int64_t queries = getDimSize(op.getQuery(), sequenceDim);
  return getIdentity(op) && isa<RankedTensorType>(op.getQuery().getType()) &&
         !op.hasSequences() && !op.getHeadMap() &&
         !ShapedType::isDynamic(queries) &&
         queries == getDimSize(op.getKey(), sequenceDim);
}

std::string attn::whyNotIdentity(AttentionOpInterface op,
                                 ChunkPlacement placement) {
  bool isPossible = hasIdentityOfRows(op) && !placement.allHaveQueries;
  if (!getIdentity(op) || isPossible)
    return "";
  return "with 'identity' can be distributed over ranks only with as many "
         "queries as keys, of static lengths, without 'sequences' and 'heads', "
         "and not by 'distattention'";
}

namespace {
/// Emits operations on rows `(b, h, i, d)`.
class RowWriter {
public:
  RowWriter(ImplicitLocOpBuilder &b, AttentionOpInterface op)
      : b(b), groupSize(op.getNumQueryHeads() / op.getNumValueHeads()) {}

  AffineMap getRows() { return b.getMultiDimIdentityMap(4); }
  /// Of a tensor with a value for each row.
  AffineMap getRowNumbers() { return getRows().dropResult(3); }
  AffineMap getHeads() {
    return AffineMap::get(4, 0, b.getAffineDimExpr(headsDim));
  }
  /// Of the values of query heads.
  AffineMap getValues() {
    AffineExpr head = b.getAffineDimExpr(headsDim).floorDiv(groupSize);
    return getRows().insertResult(head, headsDim).dropResult(headsDim + 1);
  }
  int64_t getGroupSize() const { return groupSize; }

  /// Emits rows `compute(f32 inputs..., old)` in `destination`, of `maps`; they
  /// are added up over the last loop if the last map has less dimensions.
  Value emit(ValueRange inputs, ArrayRef<AffineMap> maps, Value destination,
             function_ref<Value(ImplicitLocOpBuilder &, ValueRange)> compute);

private:
  ImplicitLocOpBuilder &b;
  int64_t groupSize;
};
} // namespace

static Value toF32(ImplicitLocOpBuilder &b, Value value) {
  return value.getType().isF32()
             ? value
             : arith::ExtFOp::create(b, b.getF32Type(), value).getResult();
}

Value RowWriter::emit(
    ValueRange inputs, ArrayRef<AffineMap> maps, Value destination,
    function_ref<Value(ImplicitLocOpBuilder &, ValueRange)> compute) {
  RankedTensorType type = getTensorType(destination);
  SmallVector<IteratorType> loops(4, IteratorType::parallel);
  if (maps.back().getNumResults() < loops.size())
    loops.back() = IteratorType::reduction;
  auto rows = linalg::GenericOp::create(
      b, type, inputs, destination, maps, loops,
      [&](OpBuilder &builder, Location loc, ValueRange arguments) {
        ImplicitLocOpBuilder body(loc, builder);
        SmallVector<Value> values;
        for (Value argument : arguments)
          values.push_back(toF32(body, argument));
        Value result = compute(body, values);
        if (!type.getElementType().isF32())
          result = arith::TruncFOp::create(body, type.getElementType(), result);
        linalg::YieldOp::create(body, result);
      });
  return rows.getResult(0);
}

/// Emits `1 - identity`.
static Value emitRest(ImplicitLocOpBuilder &b, Value identity) {
  Value one = arith::ConstantOp::create(b, b.getF32FloatAttr(1));
  return arith::SubFOp::create(b, one, identity);
}

static Value emitProduct(ImplicitLocOpBuilder &b, Value lhs, Value rhs) {
  return arith::MulFOp::create(b, lhs, rhs);
}

/// A new destination in f32 instead of `destination`.
static Value emitF32(ImplicitLocOpBuilder &b, Value destination) {
  return emitEmpty(b, getTensorType(destination).clone(b.getF32Type()),
                   destination);
}

/// Emits the rows of `emit` in `destination`. Operations whose destination is
/// not read may get another one, so that they have a new one here.
static Value emitInDestination(ImplicitLocOpBuilder &b, Value destination,
                               function_ref<Value(Value)> emit) {
  if (destination.getDefiningOp<tensor::EmptyOp>())
    return emit(destination);
  RankedTensorType type = getTensorType(destination);
  Value rows = emit(emitEmpty(b, type, destination));
  return bufferization::MaterializeInDestinationOp::create(b, type, rows,
                                                           destination)
      .getResult();
}

static void decompose(ImplicitLocOpBuilder &b, AttentionOp op) {
  RowWriter rows(b, op);
  Value out = emitF32(b, op.getOut());
  auto plain = cast<AttentionOp>(b.clone(*op));
  plain.getIdentityMutable().clear();
  plain.getOutMutable().assign(out);
  plain->getResult(0).setType(out.getType());
  auto mix = [](ImplicitLocOpBuilder &body, ValueRange values) -> Value {
    Value rest = emitProduct(body, emitRest(body, values[1]), values[0]);
    return arith::AddFOp::create(body, rest,
                                 emitProduct(body, values[1], values[2]));
  };
  Value mixed = emitInDestination(b, op.getOut(), [&](Value destination) {
    return rows.emit(
        {plain->getResult(0), op.getIdentity(), op.getValue()},
        {rows.getRows(), rows.getHeads(), rows.getValues(), rows.getRows()},
        destination, mix);
  });
  SmallVector<Value> results(plain->getResults());
  results.front() = mixed;
  op->replaceAllUsesWith(results);
}

/// Emits `dlse` with `identity * dot(dout, value - out)`.
static Value emitRowGrads(ImplicitLocOpBuilder &b, RowWriter &rows,
                          AttentionGradOp op) {
  RankedTensorType type = getTensorType(op.getLse());
  Value sum = op.getDlse();
  if (!sum)
    sum = emitZeros(b, emitEmpty(b, type, op.getLse()));
  return rows.emit(
      {op.getDout(), op.getOut(), op.getIdentity(), op.getValue()},
      {rows.getRows(), rows.getRows(), rows.getHeads(), rows.getValues(),
       rows.getRowNumbers()},
      sum, [](ImplicitLocOpBuilder &body, ValueRange values) -> Value {
        Value difference = arith::SubFOp::create(body, values[3], values[1]);
        Value term = emitProduct(body, emitProduct(body, values[0], difference),
                                 values[2]);
        return arith::AddFOp::create(body, values[4], term);
      });
}

/// Emits `dvalue`, in `destination`, with `identity * dout` of each query head
/// of a value head.
static Value emitValueGrads(ImplicitLocOpBuilder &b, RowWriter &rows,
                            AttentionGradOp op, Value dvalue) {
  SmallVector<Value> inputs = {dvalue};
  SmallVector<AffineMap> maps = {rows.getRows()};
  int64_t heads = op.getNumValueHeads();
  auto getSlice = [&](Value tensor, unsigned dim, int64_t first) -> Value {
    SmallVector<OpFoldResult> sizes =
        tensor::getMixedSizes(b, b.getLoc(), tensor);
    SmallVector<OpFoldResult> offsets(sizes.size(), b.getIndexAttr(0));
    SmallVector<OpFoldResult> strides(sizes.size(), b.getIndexAttr(1));
    offsets[dim] = b.getIndexAttr(first);
    sizes[dim] = b.getIndexAttr(heads);
    strides[dim] = b.getIndexAttr(rows.getGroupSize());
    return tensor::ExtractSliceOp::create(b, tensor, offsets, sizes, strides);
  };
  for (int64_t number = 0; number < rows.getGroupSize(); ++number) {
    inputs.push_back(getSlice(op.getDout(), headsDim, number));
    inputs.push_back(getSlice(op.getIdentity(), /*dim=*/0, number));
    maps.append({rows.getRows(), rows.getHeads()});
  }
  maps.push_back(rows.getRows());
  auto add = [](ImplicitLocOpBuilder &body, ValueRange values) {
    Value sum = values.front();
    ValueRange terms = values.drop_front().drop_back();
    for (; !terms.empty(); terms = terms.drop_front(2))
      sum = arith::AddFOp::create(body, sum,
                                  emitProduct(body, terms[0], terms[1]));
    return sum;
  };
  return emitInDestination(b, op.getDvalue(), [&](Value destination) {
    return rows.emit(inputs, maps, destination, add);
  });
}

static void decompose(ImplicitLocOpBuilder &b, AttentionGradOp op) {
  RowWriter rows(b, op);
  Value dout = rows.emit(
      {op.getDout(), op.getIdentity()},
      {rows.getRows(), rows.getHeads(), rows.getRows()},
      emitEmpty(b, getTensorType(op.getDout()), op.getDout()),
      [](ImplicitLocOpBuilder &body, ValueRange values) {
        return emitProduct(body, emitRest(body, values[1]), values[0]);
      });
  Value dlse = emitRowGrads(b, rows, op);
  Value dvalue = emitF32(b, op.getDvalue());
  auto plain = cast<AttentionGradOp>(b.clone(*op));
  plain.getIdentityMutable().clear();
  plain.getDoutMutable().assign(dout);
  plain.getDlseMutable().assign(dlse);
  plain.getDvalueMutable().assign(dvalue);
  plain->getResult(2).setType(dvalue.getType());
  SmallVector<Value> results(plain->getResults());
  results[2] = emitValueGrads(b, rows, op, results[2]);
  op->replaceAllUsesWith(results);
}

void attn::decomposeIdentity(RewriterBase &rewriter, AttentionOpInterface op) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  ImplicitLocOpBuilder b(op.getLoc(), rewriter);
  if (auto attention = dyn_cast<AttentionOp>(op.getOperation()))
    decompose(b, attention);
  else
    decompose(b, cast<AttentionGradOp>(op.getOperation()));
  rewriter.eraseOp(op);
}
