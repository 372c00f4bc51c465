//===- DecomposeLinearAttention.cpp - Parts around the recurrence ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes the feature map, the normalizer and the masks of linear attention as
// operations of linalg and tensor around plain linear attention. All of them
// can be differentiated, and run on hosts and GPUs.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/Transforms/DecomposeLinearAttention.h"
#include "FunctionArguments.h"
#include "attn/Analysis/SortedSearch.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "attn/Interfaces/DifferentiableOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/ValueBoundsOpInterface.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNDECOMPOSELINEARATTENTIONPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;
using arith::CmpFPredicate;
using arith::CmpIPredicate;
using utils::IteratorType;

/// Dimensions of heads, and of rows, which have the first three.
static constexpr int64_t batchDim = 0, headDim = 1, tokenDim = 2,
                         numRowDims = 3;

/// Columns of the values of a normalizer, which are all ones: head dims of
/// kernels are multiples of 8.
static constexpr int64_t normalizerColumns = 8;

/// The log-decay that ends a state: kernels compute `exp` of it as 0, and count
/// log-decays below it as this one.
static constexpr float endOfState = -126;

using Sizes = SmallVector<OpFoldResult>;

namespace {
/// Writes one linear attention as plain ones and operations around them.
class Decomposition {
public:
  Decomposition(RewriterBase &rewriter, LinearAttentionOp op,
                bool resetLocalBlocks)
      : rewriter(rewriter), b(op.getLoc(), rewriter), op(op),
        query(op.getQuery()), key(op.getKey()), value(op.getValue()),
        logDecay(op.getLogDecay()), beta(op.getBeta()),
        splitsBlocks(op.getLocalBlockSize() &&
                     !(resetLocalBlocks && op.getCausal())) {}

  LogicalResult run();
  LogicalResult hoistFeature();

private:
  using Body = function_ref<Value(ImplicitLocOpBuilder &, ValueRange)>;

  // Loops.
  Value emitElements(ArrayRef<OpFoldResult> sizes, Type element,
                     ValueRange inputs, ArrayRef<AffineMap> maps, Body body,
                     Value init = Value());
  AffineMap getMap(int64_t rank, ArrayRef<unsigned> dims) {
    return AffineMap::getMultiDimMapWithTargets(rank, dims, b.getContext());
  }
  Sizes getSizes(Value tensor) {
    return tensor::getMixedSizes(b, b.getLoc(), tensor);
  }
  Value constant(Type element, double number) {
    return arith::ConstantOp::create(b, b.getFloatAttr(element, number));
  }
  Value emitEmpty(ArrayRef<OpFoldResult> sizes, Type element) {
    return tensor::EmptyOp::create(b, sizes, element);
  }
  Value emitTokenDecays(Body body, Value further, AffineMap mapOfFurther);

  // Feature maps.
  LogicalResult emitFeatures();
  FailureOr<Value> applyFeature(Value rows);
  LogicalResult verifyRows(Value features, Value rows);

  // Masks.
  Value emitUnmasked(Value tensor);
  void maskKeys();
  void maskTokens();
  Value emitEndsOfBlocks();
  Value readBoundary(ImplicitLocOpBuilder &c, Value number);
  Value emitIsWrong(ImplicitLocOpBuilder &b, Value token, Value count,
                    Value length);
  Value emitEndsOfStates();
  void endStates();
  void splitBlocks();
  Value splitIntoBlocks(Value tensor);
  Value joinBlocks(Value rows);

  // The recurrence.
  LinearAttentionOp emitPlain(Value values, Value initialState, Value out,
                              Value finalState, Attribute schedule);
  Value emitNormalizerState();
  Value divide(Value numerator, Value denominator, Value out);
  SmallVector<Value> emitNormalized(Value out);
  SmallVector<Value> emitStates(Value out);

  RewriterBase &rewriter;
  ImplicitLocOpBuilder b;
  LinearAttentionOp op;
  /// The operands of the plain operations.
  Value query, key, value, logDecay, beta;
  /// Whether local blocks become batch entries.
  bool splitsBlocks;
  /// The number of local blocks, and their tokens.
  OpFoldResult numBlocks, paddedLength;
};
} // namespace

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

/// The body that copies elements.
static Value getFirst(ImplicitLocOpBuilder &, ValueRange arguments) {
  return arguments.front();
}

/// Emits a tensor whose elements `body` computes from elements of `inputs`,
/// into `init` if it is given.
Value Decomposition::emitElements(ArrayRef<OpFoldResult> sizes, Type element,
                                  ValueRange inputs, ArrayRef<AffineMap> maps,
                                  Body body, Value init) {
  if (!init)
    init = emitEmpty(sizes, element);
  int64_t rank = cast<RankedTensorType>(init.getType()).getRank();
  SmallVector<AffineMap> allMaps(maps);
  allMaps.push_back(b.getMultiDimIdentityMap(rank));
  SmallVector<IteratorType> loops(rank, IteratorType::parallel);
  auto generic = linalg::GenericOp::create(
      b, init.getType(), inputs, init, allMaps, loops,
      [&](OpBuilder &builder, Location loc, ValueRange arguments) {
        ImplicitLocOpBuilder inner(loc, builder);
        linalg::YieldOp::create(inner, body(inner, arguments.drop_back()));
      });
  return generic.getResult(0);
}

/// Emits a log-decay for each token, or for each key element if there is one
/// for each. `body` sees an element of `further` and, if there is one, the
/// given log-decay.
Value Decomposition::emitTokenDecays(Body body, Value further,
                                     AffineMap mapOfFurther) {
  int64_t rank =
      logDecay ? cast<RankedTensorType>(logDecay.getType()).getRank() : 0;
  Sizes sizes = getSizes(rank > 1 ? logDecay : query);
  if (rank <= 1)
    sizes.resize(numRowDims);
  SmallVector<Value> inputs = {further};
  int64_t loops = sizes.size();
  SmallVector<AffineMap> maps = {
      AffineMap::get(loops, 0, mapOfFurther.getResults(), b.getContext())};
  if (logDecay) {
    inputs.push_back(logDecay);
    maps.push_back(rank == 1 ? getMap(loops, headDim)
                             : b.getMultiDimIdentityMap(loops));
  }
  return emitElements(sizes, b.getF32Type(), inputs, maps, body);
}

//===----------------------------------------------------------------------===//
// Feature maps
//===----------------------------------------------------------------------===//

/// Checks that `features` has as many rows as `rows`.
LogicalResult Decomposition::verifyRows(Value features, Value rows) {
  using Bounds = ValueBoundsConstraintSet;
  // Bounds do not cover operations that only know how to compute their sizes.
  ReifiedRankedShapedTypeDims sizes;
  auto result = dyn_cast<OpResult>(features);
  if (result && failed(reifyResultShapes(b, result.getOwner(), sizes)))
    sizes.clear();
  for (int64_t dim = 0; dim < numRowDims; ++dim) {
    auto isEqual = [&](const Bounds::Variable &size) {
      FailureOr<bool> equal = Bounds::areEqual(size, {rows, dim});
      return succeeded(equal) && *equal;
    };
    if (!isEqual({features, dim}) &&
        (sizes.empty() || !isEqual(sizes[result.getResultNumber()][dim])))
      return op.emitOpError("feature region must yield as many rows as its "
                            "argument has, which dimension ")
             << dim << " does not show";
  }
  return success();
}

/// Emits the features of `rows`.
FailureOr<Value> Decomposition::applyFeature(Value rows) {
  Region &feature = op.getFeature();
  if (feature.empty())
    return rows;
  Block &block = feature.front();
  BlockArgument argument = block.getArgument(0);
  IRMapping mapping;
  mapping.map(argument,
              b.createOrFold<tensor::CastOp>(argument.getType(), rows));
  for (Operation &nested : block.without_terminator())
    b.clone(nested, mapping);
  Value features = mapping.lookupOrDefault(
      cast<LinearYieldOp>(block.getTerminator()).getFeatures());
  if (failed(verifyRows(features, rows)))
    return failure();
  auto type = cast<RankedTensorType>(rows.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape.back() = op.getFeatureDim();
  return Value(b.createOrFold<tensor::CastOp>(type.clone(shape), features));
}

/// Replaces queries and keys by their features.
LogicalResult Decomposition::emitFeatures() {
  FailureOr<Value> features = applyFeature(query);
  if (failed(features))
    return failure();
  query = *features;
  // Keys from `key_lengths` on have no gradient, and their features are no
  // keys.
  maskKeys();
  features = applyFeature(key);
  if (failed(features))
    return failure();
  key = *features;
  return success();
}

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

/// Whether the token of a loop over rows is one of the first `length`.
static Value emitIsKept(ImplicitLocOpBuilder &b, Value length) {
  Value token = linalg::IndexOp::create(b, tokenDim);
  length = arith::IndexCastOp::create(b, b.getIndexType(), length);
  return arith::CmpIOp::create(b, CmpIPredicate::slt, token, length);
}

/// Emits `tensor`, `[B, H, S]` or `[B, H, S, D]`, with zeros for tokens from
/// `key_lengths` on.
Value Decomposition::emitUnmasked(Value tensor) {
  Sizes sizes = getSizes(tensor);
  int64_t rank = sizes.size();
  Type element = getElementTypeOrSelf(tensor);
  return emitElements(
      sizes, element, {tensor, op.getKeyLengths()},
      {b.getMultiDimIdentityMap(rank), getMap(rank, batchDim)},
      [&](ImplicitLocOpBuilder &c, ValueRange arguments) -> Value {
        Value zero = arith::ConstantOp::create(c, c.getFloatAttr(element, 0));
        return arith::SelectOp::create(c, emitIsKept(c, arguments[1]),
                                       arguments[0], zero);
      });
}

/// Makes keys zero from `key_lengths` on.
void Decomposition::maskKeys() {
  if (op.getKeyLengths())
    key = emitUnmasked(key);
}

/// Makes values, `beta` and log-decays zero from `key_lengths` on.
void Decomposition::maskTokens() {
  if (!op.getKeyLengths())
    return;
  value = emitUnmasked(value);
  if (beta)
    beta = emitUnmasked(beta);
  if (!logDecay)
    return;
  logDecay = emitTokenDecays(
      [&](ImplicitLocOpBuilder &c, ValueRange arguments) -> Value {
        Value zero = arith::ConstantOp::create(c, c.getF32FloatAttr(0));
        return arith::SelectOp::create(c, emitIsKept(c, arguments[0]),
                                       arguments[1], zero);
      },
      op.getKeyLengths(), getMap(numRowDims, batchDim));
}

/// Emits `endOfState` for the first token of each local block, and 0 for
/// others.
Value Decomposition::emitEndsOfBlocks() {
  Sizes length = {getSizes(query)[tokenDim]};
  return emitElements(
      length, b.getF32Type(), ValueRange(), {},
      [&](ImplicitLocOpBuilder &c, ValueRange) -> Value {
        Value token = linalg::IndexOp::create(c, 0);
        Value block =
            arith::ConstantIndexOp::create(c, *op.getLocalBlockSize());
        Value zero = arith::ConstantIndexOp::create(c, 0);
        Value isFirst = arith::CmpIOp::create(
            c, CmpIPredicate::eq, arith::RemUIOp::create(c, token, block),
            zero);
        return arith::SelectOp::create(
            c, isFirst,
            arith::ConstantOp::create(c, c.getF32FloatAttr(endOfState)),
            arith::ConstantOp::create(c, c.getF32FloatAttr(0)));
      });
}

Value Decomposition::readBoundary(ImplicitLocOpBuilder &c, Value number) {
  Value boundary = tensor::ExtractOp::create(c, op.getSequences(), number);
  return arith::IndexCastOp::create(c, c.getIndexType(), boundary);
}

/// Emits whether boundaries are wrong that the loop over tokens checks for
/// `token`: each boundary is checked for one of the tokens.
Value Decomposition::emitIsWrong(ImplicitLocOpBuilder &b, Value token,
                                 Value count, Value length) {
  Value isWrong = arith::ConstantIntOp::create(b, 0, 1);
  auto loop = scf::ForOp::create(
      b, token, count, length, isWrong,
      [&](OpBuilder &body, Location loc, Value number, ValueRange carried) {
        ImplicitLocOpBuilder c(loc, body);
        Value one = arith::ConstantIndexOp::create(c, 1);
        Value last = arith::SubIOp::create(c, count, one);
        Value next = arith::MinUIOp::create(
            c, arith::AddIOp::create(c, number, one), last);
        Value boundary = readBoundary(c, number);
        Value isOutside =
            arith::CmpIOp::create(c, CmpIPredicate::ugt, boundary, length);
        Value isUnsorted = arith::CmpIOp::create(
            c, CmpIPredicate::sgt, boundary, readBoundary(c, next));
        Value either = arith::OrIOp::create(c, isOutside, isUnsorted);
        either = arith::OrIOp::create(c, carried.front(), either);
        scf::YieldOp::create(c, either);
      });
  return loop.getResult(0);
}

/// Emits `endOfState` for the first token of each sequence and for the token
/// after the last one, 0 for others, and NaN for tokens that find boundaries to
/// be wrong.
Value Decomposition::emitEndsOfStates() {
  OpFoldResult tokens = getSizes(query)[tokenDim];
  Value length = getValueOrCreateConstantIndexOp(b, b.getLoc(), tokens);
  Value count = b.createOrFold<tensor::DimOp>(op.getSequences(), 0);
  auto number = [](ImplicitLocOpBuilder &c, float value) -> Value {
    return arith::ConstantOp::create(c, c.getF32FloatAttr(value));
  };
  auto emitEnd = [&](ImplicitLocOpBuilder &c, Value token) -> Value {
    Value found =
        emitLastAtMost(c, count, token, [&](ImplicitLocOpBuilder &d, Value at) {
          return readBoundary(d, at);
        });
    Value last = readBoundary(c, found);
    Value isFirst = arith::CmpIOp::create(c, CmpIPredicate::eq, last, token);
    Value end = arith::SelectOp::create(c, isFirst, number(c, endOfState),
                                        number(c, 0));
    return arith::SelectOp::create(
        c, emitIsWrong(c, token, count, length),
        number(c, std::numeric_limits<float>::quiet_NaN()), end);
  };
  return emitElements({tokens}, b.getF32Type(), ValueRange(), {},
                      [&](ImplicitLocOpBuilder &c, ValueRange) -> Value {
                        Value token = linalg::IndexOp::create(c, 0);
                        // A function may be called with no boundaries at all.
                        Value hasBoundary = arith::CmpIOp::create(
                            c, CmpIPredicate::ne, count,
                            arith::ConstantIndexOp::create(c, 0));
                        auto branch = scf::IfOp::create(
                            c, hasBoundary,
                            [&](OpBuilder &then, Location loc) {
                              ImplicitLocOpBuilder d(loc, then);
                              scf::YieldOp::create(d, emitEnd(d, token));
                            },
                            [&](OpBuilder &other, Location loc) {
                              ImplicitLocOpBuilder d(loc, other);
                              scf::YieldOp::create(d, number(d, 0));
                            });
                        return branch.getResult(0);
                      });
}

/// Lets log-decays end the state of a sequence before the next one, and of a
/// local block that is no batch entry.
void Decomposition::endStates() {
  bool endsSequences = op.getSequences() && !op.hasSequenceStates();
  if (!endsSequences && (!op.getLocalBlockSize() || splitsBlocks))
    return;
  Value ends = endsSequences ? emitEndsOfStates() : emitEndsOfBlocks();
  logDecay = emitTokenDecays(
      [&](ImplicitLocOpBuilder &c, ValueRange arguments) -> Value {
        Value end = arguments[0];
        if (!logDecay)
          return end;
        // Log-decays that are wrong are kept, so that kernels report them.
        Value given = arguments[1];
        Value zero = arith::ConstantOp::create(c, c.getF32FloatAttr(0));
        Value isValid =
            arith::CmpFOp::create(c, CmpFPredicate::OLE, given, zero);
        Value isInside =
            arith::CmpFOp::create(c, CmpFPredicate::OEQ, end, zero);
        Value next = arith::SelectOp::create(c, isValid, end, given);
        return arith::SelectOp::create(c, isInside, given, next);
      },
      ends, getMap(numRowDims, tokenDim));
}

/// Emits blocks of `tensor`, `[B, H, S]` or `[B, H, S, D]`, as batch entries:
/// `[B * N, H, block, ...]`.
Value Decomposition::splitIntoBlocks(Value tensor) {
  Sizes sizes = getSizes(tensor);
  int64_t rank = sizes.size();
  auto type = cast<RankedTensorType>(tensor.getType());
  if (!isEqualConstantIntOrValue(sizes[tokenDim], paddedLength)) {
    Sizes low(rank, b.getIndexAttr(0)), high = low;
    std::optional<int64_t> from = getConstantIntValue(sizes[tokenDim]),
                           to = getConstantIntValue(paddedLength);
    if (from && to)
      high[tokenDim] = b.getIndexAttr(*to - *from);
    else
      high[tokenDim] =
          arith::SubIOp::create(
              b, getValueOrCreateConstantIndexOp(b, b.getLoc(), paddedLength),
              getValueOrCreateConstantIndexOp(b, b.getLoc(), sizes[tokenDim]))
              .getResult();
    SmallVector<int64_t> shape(type.getShape());
    shape[tokenDim] = to.value_or(ShapedType::kDynamic);
    type = type.clone(shape);
    tensor = tensor::PadOp::create(b, type, tensor, low, high,
                                   constant(type.getElementType(), 0));
  }
  int64_t block = *op.getLocalBlockSize();
  sizes[tokenDim] = numBlocks;
  sizes.insert(sizes.begin() + tokenDim + 1, b.getIndexAttr(block));
  SmallVector<ReassociationIndices> split, joined;
  for (int64_t dim = 0; dim < rank; ++dim) {
    split.push_back({dim + (dim > tokenDim)});
    joined.push_back({dim + 1});
  }
  split[tokenDim] = {tokenDim, tokenDim + 1};
  joined[batchDim] = {0, 1};
  SmallVector<int64_t> shape(type.getShape());
  shape[tokenDim] =
      getConstantIntValue(numBlocks).value_or(ShapedType::kDynamic);
  shape.insert(shape.begin() + tokenDim + 1, block);
  Value blocks =
      tensor::ExpandShapeOp::create(b, type.clone(shape), tensor, split, sizes);
  // [B, H, N, block, ...] to [B, N, H, block, ...].
  std::swap(sizes[headDim], sizes[tokenDim]);
  SmallVector<unsigned> dims =
      llvm::to_vector(llvm::seq<unsigned>(0, rank + 1));
  std::swap(dims[headDim], dims[tokenDim]);
  blocks = emitElements(sizes, type.getElementType(), blocks,
                        getMap(rank + 1, dims), getFirst);
  return tensor::CollapseShapeOp::create(b, blocks, joined);
}

/// Makes local blocks batch entries.
void Decomposition::splitBlocks() {
  if (!splitsBlocks)
    return;
  int64_t block = *op.getLocalBlockSize();
  OpFoldResult length = getSizes(query)[tokenDim];
  if (std::optional<int64_t> tokens = getConstantIntValue(length)) {
    int64_t number = llvm::divideCeil(*tokens, block);
    numBlocks = b.getIndexAttr(number);
    paddedLength = b.getIndexAttr(number * block);
  } else {
    Value size = arith::ConstantIndexOp::create(b, block);
    Value less = arith::ConstantIndexOp::create(b, block - 1);
    Value number = arith::AddIOp::create(b, cast<Value>(length), less);
    number = arith::DivUIOp::create(b, number, size);
    numBlocks = number;
    paddedLength = arith::MulIOp::create(b, number, size).getResult();
  }
  for (Value *tensor : {&query, &key, &value, &beta})
    if (*tensor)
      *tensor = splitIntoBlocks(*tensor);
  if (logDecay && cast<RankedTensorType>(logDecay.getType()).getRank() > 1)
    logDecay = splitIntoBlocks(logDecay);
}

/// The inverse of `splitIntoBlocks`, of outputs.
Value Decomposition::joinBlocks(Value rows) {
  Sizes sizes = getSizes(op.getOut());
  auto type = cast<RankedTensorType>(rows.getType());
  int64_t block = *op.getLocalBlockSize();
  Sizes expanded = {sizes[batchDim], numBlocks, sizes[headDim],
                    b.getIndexAttr(block), sizes.back()};
  SmallVector<int64_t> shape;
  for (OpFoldResult size : expanded)
    shape.push_back(getConstantIntValue(size).value_or(ShapedType::kDynamic));
  SmallVector<ReassociationIndices> split = {{0, 1}, {2}, {3}, {4}};
  Value blocks = tensor::ExpandShapeOp::create(b, type.clone(shape), rows,
                                               split, expanded);
  std::swap(expanded[headDim], expanded[tokenDim]);
  blocks = emitElements(expanded, type.getElementType(), blocks,
                        getMap(5, {0, 2, 1, 3, 4}), getFirst);
  SmallVector<ReassociationIndices> joined = {{0}, {1}, {2, 3}, {4}};
  Value padded = tensor::CollapseShapeOp::create(b, blocks, joined);
  // There are no slices of tensors without rows.
  auto result = cast<RankedTensorType>(op.getOut().getType());
  if (result.hasStaticShape() && padded.getType() == result)
    return padded;
  return tensor::ExtractSliceOp::create(b, padded, Sizes(4, b.getIndexAttr(0)),
                                        sizes, Sizes(4, b.getIndexAttr(1)));
}

//===----------------------------------------------------------------------===//
// The recurrence
//===----------------------------------------------------------------------===//

/// Emits linear attention of the queries, the keys and `values`.
LinearAttentionOp Decomposition::emitPlain(Value values, Value initialState,
                                           Value out, Value finalState,
                                           Attribute schedule) {
  SmallVector<Type> types = {out.getType()};
  if (finalState)
    types.push_back(finalState.getType());
  // The default depends on the head dim before the feature map.
  FloatAttr scale = b.getF32FloatAttr(float(op.getScaleOrDefault()));
  auto plain = LinearAttentionOp::create(
      b, types, query, key, values, logDecay, beta, initialState, out,
      finalState, op.getCausalAttr(), scale, op.getChunkAttr(),
      op.getPrecisionAttr(), /*schedule=*/ScheduleAttrInterface());
  if (schedule)
    plain.setScheduleAttr(schedule);
  if (op.hasSequenceStates()) {
    plain.getSequencesMutable().assign(op.getSequences());
    plain.setWholeChunks(op.getWholeChunks());
  }
  return plain;
}

/// The sizes of the columns `[first, first + number)` of a state.
static Value sliceState(ImplicitLocOpBuilder &b, Value state, int64_t first,
                        int64_t number) {
  Sizes offsets(4, b.getIndexAttr(0)), strides(4, b.getIndexAttr(1));
  Sizes sizes = tensor::getMixedSizes(b, b.getLoc(), state);
  offsets.back() = b.getIndexAttr(first);
  sizes.back() = b.getIndexAttr(number);
  return tensor::ExtractSliceOp::create(b, state, offsets, sizes, strides);
}

static Value insertState(ImplicitLocOpBuilder &b, Value columns, Value state,
                         int64_t first) {
  Sizes offsets(4, b.getIndexAttr(0)), strides(4, b.getIndexAttr(1));
  Sizes sizes = tensor::getMixedSizes(b, b.getLoc(), columns);
  offsets.back() = b.getIndexAttr(first);
  return tensor::InsertSliceOp::create(b, columns, state, offsets, sizes,
                                       strides);
}

/// The first column of `tensor`, without the dimension of columns.
static Value sliceFirstColumn(ImplicitLocOpBuilder &b, Value tensor,
                              int64_t column) {
  auto type = cast<RankedTensorType>(tensor.getType());
  Sizes offsets(4, b.getIndexAttr(0)), strides(4, b.getIndexAttr(1));
  Sizes sizes = tensor::getMixedSizes(b, b.getLoc(), tensor);
  offsets.back() = b.getIndexAttr(column);
  sizes.back() = b.getIndexAttr(1);
  return tensor::ExtractSliceOp::create(b,
                                        type.clone(type.getShape().drop_back()),
                                        tensor, offsets, sizes, strides);
}

/// Emits the initial state of the normalizer, in all of its columns.
Value Decomposition::emitNormalizerState() {
  Value state = op.getInitialState();
  if (!state)
    return {};
  Value sums = sliceFirstColumn(b, state, op.getValueHeadDim());
  Sizes sizes = getSizes(state);
  sizes.back() = b.getIndexAttr(normalizerColumns);
  return emitElements(sizes, b.getF32Type(), sums, getMap(4, {0, 1, 2}),
                      getFirst);
}

/// Emits the outputs, into `out`.
Value Decomposition::divide(Value numerator, Value denominator, Value out) {
  Type element = getElementTypeOrSelf(out), f32 = b.getF32Type();
  double eps = op.getNormalizerEps()->convertToDouble();
  return emitElements(
      {}, element, {numerator, sliceFirstColumn(b, denominator, 0)},
      {b.getMultiDimIdentityMap(4), getMap(4, {0, 1, 2})},
      [&](ImplicitLocOpBuilder &c, ValueRange arguments) {
        Value dividend = convertFloat(c, c.getLoc(), arguments[0], f32);
        Value divisor = convertFloat(c, c.getLoc(), arguments[1], f32);
        divisor = arith::AddFOp::create(
            c, divisor,
            arith::ConstantOp::create(c, c.getF32FloatAttr(float(eps))));
        Value quotient = arith::DivFOp::create(c, dividend, divisor);
        return convertFloat(c, c.getLoc(), quotient, element);
      },
      out);
}

/// Emits the output into `out`, and the final state: numerators and
/// denominators are outputs of operations with the same queries and keys.
SmallVector<Value> Decomposition::emitNormalized(Value out) {
  Type element = getElementTypeOrSelf(query);
  int64_t columns = op.getValueHeadDim();
  Value initialState = op.getInitialState(), finalState = op.getFinalState();
  Sizes sizes = getSizes(out);
  Value finalOfValues, finalOfOnes;
  if (finalState) {
    Sizes ofState = getSizes(finalState);
    ofState.back() = b.getIndexAttr(columns);
    finalOfValues = emitEmpty(ofState, b.getF32Type());
    ofState.back() = b.getIndexAttr(normalizerColumns);
    finalOfOnes = emitEmpty(ofState, b.getF32Type());
  }
  LinearAttentionOp numerators = emitPlain(
      value, initialState ? sliceState(b, initialState, 0, columns) : Value(),
      emitEmpty(sizes, element), finalOfValues, op.getScheduleAttr());

  Sizes ofOnes = getSizes(value);
  ofOnes[headDim] = b.getIndexAttr(1);
  ofOnes.back() = b.getIndexAttr(normalizerColumns);
  Value ones = linalg::FillOp::create(b, constant(element, 1),
                                      emitEmpty(ofOnes, element))
                   .getResult(0);
  Sizes ofSums = sizes;
  ofSums.back() = b.getIndexAttr(normalizerColumns);
  LinearAttentionOp denominators =
      emitPlain(ones, emitNormalizerState(), emitEmpty(ofSums, element),
                finalOfOnes, /*schedule=*/Attribute());
  SmallVector<Value> results = {
      divide(numerators->getResult(0), denominators->getResult(0), out)};
  if (!finalState)
    return results;
  Value state = insertState(b, numerators->getResult(1), finalState, 0);
  Value sums = sliceState(b, denominators->getResult(1), 0, 1);
  results.push_back(insertState(b, sums, state, columns));
  return results;
}

/// Emits the output into `out`, and the final state.
SmallVector<Value> Decomposition::emitStates(Value out) {
  if (op.getNormalizerEps())
    return emitNormalized(out);
  LinearAttentionOp plain = emitPlain(value, op.getInitialState(), out,
                                      op.getFinalState(), op.getScheduleAttr());
  return SmallVector<Value>(plain->getResults());
}

LogicalResult Decomposition::run() {
  noteArguments(rewriter, op);
  if (failed(emitFeatures()))
    return failure();
  if (!op.getFeature().empty())
    maskKeys();
  maskTokens();
  endStates();
  splitBlocks();
  Value out = op.getOut();
  if (splitsBlocks) {
    Sizes sizes = getSizes(query);
    sizes.back() = b.getIndexAttr(op.getValueHeadDim());
    out = emitEmpty(sizes, getElementTypeOrSelf(out));
  }
  SmallVector<Value> results = emitStates(out);
  if (splitsBlocks)
    results.front() = joinBlocks(results.front());
  rewriter.replaceOp(op, results);
  return success();
}

LogicalResult Decomposition::hoistFeature() {
  noteArguments(rewriter, op);
  if (failed(emitFeatures()))
    return failure();
  rewriter.modifyOpInPlace(op, [&] {
    // The default depends on the head dim before the feature map.
    op.setScaleAttr(b.getF32FloatAttr(float(op.getScaleOrDefault())));
    op.getQueryMutable().assign(query);
    op.getKeyMutable().assign(key);
    op.getFeature().getBlocks().clear();
  });
  return success();
}

LogicalResult attn::hoistFeature(RewriterBase &rewriter, LinearAttentionOp op) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  return Decomposition(rewriter, op, /*resetLocalBlocks=*/false).hoistFeature();
}

LogicalResult attn::decomposeLinearAttention(RewriterBase &rewriter,
                                             LinearAttentionOp op,
                                             bool resetLocalBlocks) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  return Decomposition(rewriter, op, resetLocalBlocks).run();
}

FailureOr<int64_t> attn::decomposeAllLinearAttention(RewriterBase &rewriter,
                                                     Operation *root,
                                                     bool resetLocalBlocks) {
  SmallVector<LinearAttentionOp> ops;
  root->walk([&](LinearAttentionOp op) {
    if (!op.isPlain())
      ops.push_back(op);
  });
  for (LinearAttentionOp op : ops)
    if (failed(decomposeLinearAttention(rewriter, op, resetLocalBlocks)))
      return failure();
  return int64_t(ops.size());
}

namespace {
struct AttnDecomposeLinearAttentionPass
    : attn::impl::AttnDecomposeLinearAttentionPassBase<
          AttnDecomposeLinearAttentionPass> {
  using Base::Base;

  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    FailureOr<int64_t> number =
        decomposeAllLinearAttention(rewriter, getOperation(), resetLocalBlocks);
    if (failed(number))
      return signalPassFailure();
    numDecomposed += *number;
  }
};
} // namespace
