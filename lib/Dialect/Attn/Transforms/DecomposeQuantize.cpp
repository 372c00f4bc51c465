//===- DecomposeQuantize.cpp - Quantization as other operations -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes the quantization of tensors to 8 bits as operations of linalg and
// tensor, and the rotation of rows before it as a matmul. They run on hosts and
// GPUs.
//
//===----------------------------------------------------------------------===//

#include "FunctionArguments.h"
#include "attn/Dialect/Attn/IR/AttnQuantizeOp.h"
#include "attn/Dialect/Attn/IR/Float8.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "attn/Support/DeadOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <limits>

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNDECOMPOSEQUANTIZEPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;
using arith::CmpFPredicate;
using arith::CmpIPredicate;
using utils::IteratorType;

/// Elements whose largest absolute value one thread block of a GPU computes,
/// where no block of rows has a scale of its own, if they are enough rows: each
/// lane of its warp reads 256 of them.
static constexpr int64_t elementsOfChunk = 8192;
/// The most rows among them.
static constexpr int64_t maxRowsOfChunk = 64;

using Sizes = SmallVector<OpFoldResult>;

namespace {
/// Writes one quantization as other operations.
class Decomposition {
public:
  Decomposition(RewriterBase &rewriter, QuantizeOp op)
      : rewriter(rewriter), b(op.getLoc(), rewriter), op(op),
        rank(cast<ShapedType>(op.getIn().getType()).getRank()) {}

  void run();

private:
  using Body = function_ref<Value(ImplicitLocOpBuilder &, ValueRange)>;

  void noteArguments();
  Value toTensor(Value value);

  // Loops.
  Value emitLoops(ArrayRef<IteratorType> loops, ValueRange inputs,
                  ArrayRef<AffineMap> maps, Value init, Body body);
  Value emitElements(ValueRange inputs, ArrayRef<AffineMap> maps, Value init,
                     Body body);
  Value constant(double number) {
    return arith::ConstantOp::create(b, b.getF32FloatAttr(float(number)));
  }
  Value emitEmpty(ArrayRef<OpFoldResult> sizes, Type element) {
    return tensor::EmptyOp::create(b, sizes, element);
  }
  Value emitZeros(Value init) {
    return linalg::FillOp::create(b, constant(0), init).getResult(0);
  }

  // The largest absolute values.
  int64_t getChunkRows();
  OpFoldResult divideCeil(OpFoldResult size, int64_t divisor);
  Value emitChunkMaxima(int64_t rows, Value init);
  Value emitMaxima(Value values, int64_t numReduced, Value init);
  Value emitAmax(Value init);

  // Rotation.
  Value emitRotation(Value signs, Type element);
  Value rotate();

  Value emitScale(Value amax, Value init);
  Value emitScaleOfBlock(ImplicitLocOpBuilder &b, Value scale, Value lastBlock);
  Value emitQuotients(Value scale, Value init);

  RewriterBase &rewriter;
  ImplicitLocOpBuilder b;
  QuantizeOp op;
  int64_t rank;
  /// The elements to be rounded, perhaps rotated, and their sizes.
  Value source;
  Sizes sizes;
};
} // namespace

static Value toF32(ImplicitLocOpBuilder &b, Value value) {
  if (value.getType().isF32())
    return value;
  return arith::ExtFOp::create(b, b.getF32Type(), value);
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// Notes the names and the equal sizes of operands that are arguments of the
/// function.
void Decomposition::noteArguments() {
  auto func = op->getParentOfType<FunctionOpInterface>();
  auto find = [&](Value operand) {
    return operand ? getFunctionArgument(func, operand) : BlockArgument();
  };
  std::pair<Value, StringRef> named[] = {
      {op.getIn(), "x"},        {op.getGivenScale(), "scale"},
      {op.getSigns(), "signs"}, {op.getOut(), "out"},
      {op.getScale(), "scale"}, {op.getAmax(), "amax"}};
  for (auto [operand, name] : named)
    if (BlockArgument argument = find(operand))
      nameArgument(rewriter, func, argument, name);
  BlockArgument in = find(op.getIn());
  if (!in)
    return;
  for (Value operand :
       {op.getOut(), op.getGivenScale(), op.getScale(), op.getAmax()}) {
    BlockArgument argument = find(operand);
    if (!argument || argument == in)
      continue;
    // Only `out` has more dimensions of `in` than the first two.
    int64_t shared = cast<ShapedType>(operand.getType()).getRank();
    if (operand != op.getOut())
      shared = std::min<int64_t>(shared, 2);
    for (int64_t dim : llvm::seq(shared))
      noteEqualSizes(rewriter, func, argument, dim, in, dim);
  }
}

/// The elements of an operand as a tensor.
Value Decomposition::toTensor(Value value) {
  auto type = dyn_cast<MemRefType>(value.getType());
  if (!type)
    return value;
  return bufferization::ToTensorOp::create(
      b, memref::getTensorTypeFromMemRefType(type), value, /*restrict=*/true,
      /*writable=*/false);
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

/// Emits loops that write `init`. The body sees elements of `inputs` and of
/// `init`.
Value Decomposition::emitLoops(ArrayRef<IteratorType> loops, ValueRange inputs,
                               ArrayRef<AffineMap> maps, Value init,
                               Body body) {
  auto generic = linalg::GenericOp::create(
      b, init.getType(), inputs, init, maps, loops,
      [&](OpBuilder &builder, Location loc, ValueRange arguments) {
        ImplicitLocOpBuilder inner(loc, builder);
        linalg::YieldOp::create(inner, body(inner, arguments));
      });
  return generic.getResult(0);
}

/// Emits loops over the elements of `init`.
Value Decomposition::emitElements(ValueRange inputs, ArrayRef<AffineMap> maps,
                                  Value init, Body body) {
  int64_t numLoops = cast<RankedTensorType>(init.getType()).getRank();
  SmallVector<AffineMap> allMaps(maps);
  allMaps.push_back(b.getMultiDimIdentityMap(numLoops));
  SmallVector<IteratorType> loops(numLoops, IteratorType::parallel);
  return emitLoops(loops, inputs, allMaps, init, body);
}

//===----------------------------------------------------------------------===//
// The largest absolute values
//===----------------------------------------------------------------------===//

/// Rows whose largest absolute value is computed together.
int64_t Decomposition::getChunkRows() {
  if (std::optional<int64_t> blockSize = op.getBlockSize())
    return *blockSize;
  std::optional<int64_t> columns = getConstantIntValue(sizes.back());
  if (!columns || *columns == 0)
    return 1;
  return std::clamp<int64_t>(elementsOfChunk / *columns, 1, maxRowsOfChunk);
}

/// Emits the largest finite absolute value of each chunk of `rows` rows, into
/// `init`.
Value Decomposition::emitChunkMaxima(int64_t rows, Value init) {
  MLIRContext *context = b.getContext();
  unsigned numLoops = rank + 1, row = rank - 1, column = rank;
  SmallVector<IteratorType> loops(numLoops, IteratorType::parallel);
  loops[row] = loops[column] = IteratorType::reduction;
  // No element of this tensor is read: the loops have its sizes.
  Value chunk = emitEmpty({b.getIndexAttr(rows), sizes.back()}, b.getF32Type());
  AffineMap ofChunk =
      AffineMap::getMultiDimMapWithTargets(numLoops, {row, column}, context);
  AffineMap ofInit = AffineMap::get(
      numLoops, 0, b.getMultiDimIdentityMap(row).getResults(), context);
  Value numRows =
      getValueOrCreateConstantIndexOp(b, b.getLoc(), sizes[rank - 2]);
  Value one = arith::ConstantIndexOp::create(b, 1);
  Value last = arith::SubIOp::create(b, numRows, one);
  Value perChunk = arith::ConstantIndexOp::create(b, rows);
  auto body = [&](ImplicitLocOpBuilder &b, ValueRange arguments) -> Value {
    SmallVector<Value> indices;
    for (int64_t loop : llvm::seq(rank - 1))
      indices.push_back(linalg::IndexOp::create(b, loop));
    Value first = arith::MulIOp::create(b, indices.back(), perChunk);
    Value position =
        arith::AddIOp::create(b, first, linalg::IndexOp::create(b, row));
    // Rows after the last one count as the last one, once more.
    indices.back() = arith::MinSIOp::create(b, position, last);
    indices.push_back(linalg::IndexOp::create(b, column));
    Value x = toF32(b, tensor::ExtractOp::create(b, source, indices));
    Value size = math::AbsFOp::create(b, x);
    auto f32 = [&](float number) -> Value {
      return arith::ConstantOp::create(b, b.getF32FloatAttr(number));
    };
    Value isFinite =
        arith::CmpFOp::create(b, CmpFPredicate::OLT, size,
                              f32(std::numeric_limits<float>::infinity()));
    Value counted = arith::SelectOp::create(b, isFinite, size, f32(0));
    return arith::MaxNumFOp::create(b, arguments.back(), counted);
  };
  return emitLoops(loops, chunk, {ofChunk, ofInit}, emitZeros(init), body);
}

/// Emits the maxima of `values` over the last `numReduced` dimensions, into
/// `init`.
Value Decomposition::emitMaxima(Value values, int64_t numReduced, Value init) {
  int64_t numLoops = cast<RankedTensorType>(values.getType()).getRank();
  int64_t numKept = numLoops - numReduced;
  SmallVector<IteratorType> loops(numKept, IteratorType::parallel);
  loops.append(numReduced, IteratorType::reduction);
  AffineMap ofInit = AffineMap::get(
      numLoops, 0, b.getMultiDimIdentityMap(numKept).getResults(),
      b.getContext());
  return emitLoops(loops, values, {b.getMultiDimIdentityMap(numLoops), ofInit},
                   emitZeros(init),
                   [](ImplicitLocOpBuilder &b, ValueRange arguments) -> Value {
                     return arith::MaxNumFOp::create(b, arguments.back(),
                                                     arguments.front());
                   });
}

OpFoldResult Decomposition::divideCeil(OpFoldResult size, int64_t divisor) {
  if (std::optional<int64_t> known = getConstantIntValue(size))
    return b.getIndexAttr(llvm::divideCeil(*known, divisor));
  return arith::CeilDivUIOp::create(b, cast<Value>(size),
                                    arith::ConstantIndexOp::create(b, divisor))
      .getResult();
}

/// Emits the largest finite absolute values, into `init`: of chunks of rows
/// first, so that GPUs compute them in parallel.
Value Decomposition::emitAmax(Value init) {
  int64_t rows = getChunkRows();
  if (op.getBlockSize())
    return emitChunkMaxima(rows, init);
  Sizes partial(sizes);
  partial.pop_back();
  partial.back() = divideCeil(partial.back(), rows);
  Value maxima = emitChunkMaxima(rows, emitEmpty(partial, b.getF32Type()));
  partial.pop_back();
  bool isOfHead = cast<ShapedType>(init.getType()).getRank() != 0;
  if (isOfHead || partial.empty())
    return emitMaxima(maxima, /*numReduced=*/1, init);
  maxima =
      emitMaxima(maxima, /*numReduced=*/1, emitEmpty(partial, b.getF32Type()));
  return emitMaxima(maxima, int64_t(partial.size()), init);
}

//===----------------------------------------------------------------------===//
// Rotation
//===----------------------------------------------------------------------===//

/// Emits the Hadamard matrix, whose row `j` is multiplied by `signs[j]`.
Value Decomposition::emitRotation(Value signs, Type element) {
  AffineMap ofSigns =
      AffineMap::getMultiDimMapWithTargets(2, {0}, b.getContext());
  Value init = emitEmpty({sizes.back(), sizes.back()}, element);
  auto body = [&](ImplicitLocOpBuilder &b, ValueRange arguments) -> Value {
    Type i32 = b.getI32Type();
    auto index = [&](int64_t loop) -> Value {
      return arith::IndexCastOp::create(b, i32,
                                        linalg::IndexOp::create(b, loop));
    };
    Value both = arith::AndIOp::create(b, index(0), index(1));
    Value count = math::CtPopOp::create(b, both);
    Value one = arith::ConstantIntOp::create(b, 1, 32);
    Value isOdd = arith::CmpIOp::create(
        b, CmpIPredicate::eq, arith::AndIOp::create(b, count, one), one);
    Value sign = arguments.front();
    Value factor =
        arith::SelectOp::create(b, isOdd, arith::NegFOp::create(b, sign), sign);
    if (element.isF32())
      return factor;
    return arith::TruncFOp::create(b, element, factor);
  };
  return emitElements(signs, ofSigns, init, body);
}

/// Emits the rotated elements as f32: a matmul of all rows.
Value Decomposition::rotate() {
  Type element = getElementTypeOrSelf(source), f32 = b.getF32Type();
  Value matrix = emitRotation(toTensor(op.getSigns()), element);
  SmallVector<ReassociationIndices> groups;
  if (rank == 4)
    groups = {{0, 1}, {2}, {3}};
  Value rows = source;
  if (!groups.empty())
    rows = tensor::CollapseShapeOp::create(b, rows, groups);
  Value init = emitEmpty(tensor::getMixedSizes(b, b.getLoc(), rows), f32);
  auto matmul = MatmulOp::create(b, init.getType(), rows, matrix, init,
                                 /*transpose_lhs=*/false,
                                 /*transpose_rhs=*/false, /*precision=*/nullptr,
                                 /*schedule=*/nullptr);
  {
    OpBuilder::InsertionGuard guard(b);
    Type index = b.getIndexType();
    Block *body =
        b.createBlock(&matmul.getEpilogue(), {}, {f32, index, index, index},
                      SmallVector<Location>(4, b.getLoc()));
    double size = double(*getConstantIntValue(sizes.back()));
    YieldOp::create(b, arith::MulFOp::create(b, body->getArgument(0),
                                             constant(1 / std::sqrt(size))));
  }
  if (groups.empty())
    return matmul.getResult();
  auto type = cast<RankedTensorType>(source.getType()).clone(f32);
  return tensor::ExpandShapeOp::create(b, type, matmul.getResult(), groups,
                                       sizes);
}

//===----------------------------------------------------------------------===//
// Scales and quotients
//===----------------------------------------------------------------------===//

Value Decomposition::emitScale(Value amax, Value init) {
  auto type = cast<FloatType>(getElementTypeOrSelf(op.getOut()));
  AffineMap map =
      b.getMultiDimIdentityMap(cast<ShapedType>(amax.getType()).getRank());
  Value largest = constant(getLargestFloat8(type));
  Value smallest = constant(std::numeric_limits<float>::min());
  Value one = constant(1), zero = constant(0);
  return emitElements(
      amax, map, init, [&](ImplicitLocOpBuilder &b, ValueRange arguments) {
        Value scale = arith::MaxNumFOp::create(
            b, arith::DivFOp::create(b, arguments[0], largest), smallest);
        Value isZero =
            arith::CmpFOp::create(b, CmpFPredicate::OEQ, arguments[0], zero);
        return arith::SelectOp::create(b, isZero, one, scale).getResult();
      });
}

/// Emits the scale of the element of a loop over elements, from the scales of
/// blocks of rows. The last one is for all rows beyond, so that nothing
/// outside of `scale` is read.
Value Decomposition::emitScaleOfBlock(ImplicitLocOpBuilder &b, Value scale,
                                      Value lastBlock) {
  SmallVector<Value> indices;
  for (int64_t dim : llvm::seq<int64_t>(3))
    indices.push_back(linalg::IndexOp::create(b, dim));
  Value size = arith::ConstantIndexOp::create(b, int64_t(*op.getBlockSize()));
  Value block = arith::DivUIOp::create(b, indices[2], size);
  indices[2] = arith::MinUIOp::create(b, block, lastBlock);
  return tensor::ExtractOp::create(b, scale, indices);
}

/// Emits the quotients of elements and their scales, rounded to 8 bits.
Value Decomposition::emitQuotients(Value scale, Value init) {
  auto type = cast<FloatType>(getElementTypeOrSelf(init));
  int64_t scaleRank = cast<ShapedType>(scale.getType()).getRank();
  SmallVector<Value> inputs = {source};
  SmallVector<AffineMap> maps = {b.getMultiDimIdentityMap(rank)};
  Value lastBlock;
  if (op.getBlockSize()) {
    Value blocks = tensor::DimOp::create(b, scale, 2);
    Value one = arith::ConstantIndexOp::create(b, 1);
    Value atLeastOne = arith::MaxUIOp::create(b, blocks, one);
    lastBlock = arith::SubIOp::create(b, atLeastOne, one);
  } else {
    inputs.push_back(scale);
    ArrayRef<AffineExpr> dims = maps[0].getResults();
    maps.push_back(
        AffineMap::get(rank, 0, dims.take_front(scaleRank), b.getContext()));
  }
  return emitElements(
      inputs, maps, init, [&](ImplicitLocOpBuilder &b, ValueRange arguments) {
        Value divisor =
            lastBlock ? emitScaleOfBlock(b, scale, lastBlock) : arguments[1];
        Value quotient =
            arith::DivFOp::create(b, toF32(b, arguments[0]), divisor);
        if (op.getSaturate())
          quotient = emitSaturated(b, b.getLoc(), quotient, type);
        return arith::TruncFOp::create(b, type, quotient).getResult();
      });
}

void Decomposition::run() {
  noteArguments();
  b.setInsertionPoint(op);
  source = toTensor(op.getIn());
  sizes = tensor::getMixedSizes(b, b.getLoc(), source);
  if (op.getSigns())
    source = rotate();
  // Results on memrefs are written into them at the end.
  auto getInit = [&](Value destination) -> Value {
    auto type = dyn_cast<MemRefType>(destination.getType());
    if (!type)
      return destination;
    return emitEmpty(memref::getMixedSizes(b, b.getLoc(), destination),
                     type.getElementType());
  };
  Value scale, amax, out;
  if (op.getGivenScale()) {
    scale = toTensor(op.getGivenScale());
    out = emitQuotients(scale, getInit(op.getOut()));
  }
  if (op.getAmax() || !scale) {
    Value destination = op.getAmax() ? op.getAmax() : op.getScale();
    Value init = op.getAmax()
                     ? getInit(destination)
                     : emitEmpty(tensor::getMixedSizes(b, b.getLoc(),
                                                       getInit(destination)),
                                 b.getF32Type());
    amax = emitAmax(init);
  }
  if (!scale) {
    scale = emitScale(amax, getInit(op.getScale()));
    out = emitQuotients(scale, getInit(op.getOut()));
  }
  SmallVector<Value> results = {out};
  if (op.getScale())
    results.push_back(scale);
  if (op.getAmax())
    results.push_back(amax);
  if (!op.isBufferized())
    return rewriter.replaceOp(op, results);
  for (auto [init, result] : llvm::zip_equal(op.getDpsInits(), results)) {
    auto write = bufferization::MaterializeInDestinationOp::create(
        b, b.getLoc(), result, init);
    write.setWritable(true);
    write.setRestrict(true);
  }
  rewriter.eraseOp(op);
}

namespace {
struct AttnDecomposeQuantizePass
    : public attn::impl::AttnDecomposeQuantizePassBase<
          AttnDecomposeQuantizePass> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<QuantizeOp> ops;
    getOperation()->walk([&](QuantizeOp op) { ops.push_back(op); });
    IRRewriter rewriter(&getContext());
    llvm::SmallSetVector<Block *, 4> blocks;
    for (QuantizeOp op : ops) {
      blocks.insert(op->getBlock());
      Decomposition(rewriter, op).run();
    }
    // Unused sizes would be further uses of a tensor, which nothing fuses with.
    for (Block *block : blocks)
      eraseDeadOps(*block);
    numDecomposed += int64_t(ops.size());
  }
};
} // namespace
