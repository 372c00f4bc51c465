//===- LinearAttentionOps.cpp - Linear attention --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verifiers and effects of linear attention and its gradient.
//
//===----------------------------------------------------------------------===//

#include "Destinations.h"
#include "MatmulPrecision.h"
#include "OperandVerifiers.h"
#include "attn/Dialect/Attn/IR/AttnLinearOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mlir::attn;

#define GET_OP_CLASSES
#include "attn/Dialect/Attn/IR/AttnLinearOps.cpp.inc"

bool attn::mayHaveAlignedRows(Value state) {
  constexpr int64_t alignment = 16;
  while (auto type = dyn_cast<MemRefType>(state.getType())) {
    int64_t row = type.getShape().back() * type.getElementTypeBitWidth() / 8;
    if (!type.isDynamicDim(type.getRank() - 1) && row % alignment != 0)
      return false;
    auto view = state.getDefiningOp<ViewLikeOpInterface>();
    if (!view)
      return true;
    state = view.getViewSource();
  }
  return true;
}

/// Sizes of chunks: rows of matmuls, and no more than fit on a stack.
static constexpr int64_t minChunk = 8, maxChunk = 256;

//===----------------------------------------------------------------------===//
// Common parts
//===----------------------------------------------------------------------===//

namespace {
/// An operand and the sizes it must have. Sizes are dynamic where they are not
/// known.
struct ExpectedShape {
  NamedOperand operand;
  SmallVector<int64_t> sizes;
};
} // namespace

template <typename OpTy>
static double computeScale(OpTy op) {
  if (std::optional<APFloat> scale = op.getScale())
    return scale->convertToDouble();
  return 1 / std::sqrt(double(op.getKeyHeadDim()));
}

/// Checks that all operands are tensors or all are memrefs, and the element
/// types and static sizes of `heads`.
template <typename OpTy>
static LogicalResult verifyTypes(OpTy op, ArrayRef<NamedOperand> heads) {
  if (failed(verifyContainers(op, {"query", op.getQuery()})))
    return failure();
  Type expected = getElementTypeOrSelf(op.getQuery());
  for (NamedOperand operand : heads) {
    Type element = getElementTypeOrSelf(operand.value);
    bool mayBeF32 = operand.name.starts_with("d") && operand.name != "dout";
    if (element != expected && !(mayBeF32 && element.isF32()))
      return op.emitOpError("element type of '")
             << operand.name << "' must be that of 'query', " << expected
             << (mayBeF32 ? ", or 'f32'" : "") << " (was " << element << ")";
    if (failed(verifyHeadSizes(op, operand)))
      return failure();
  }
  return success();
}

static LogicalResult verifyShapes(Operation *op,
                                  ArrayRef<ExpectedShape> shapes) {
  for (const ExpectedShape &shape : shapes) {
    auto type = cast<ShapedType>(shape.operand.value.getType());
    for (auto [dim, expected, actual] :
         llvm::enumerate(shape.sizes, type.getShape()))
      if (!ShapedType::isDynamic(expected) && !ShapedType::isDynamic(actual) &&
          expected != actual)
        return op->emitOpError("dimension ")
               << dim << " of '" << shape.operand.name << "' must be "
               << expected << " (was " << actual << ")";
  }
  return success();
}

/// The sizes of tensors that belong to the tokens, heads and states of an
/// operation.
namespace {
struct Sizes {
  int64_t batch, heads, length, keyDim, valueDim;
  /// The number of states, and the head dims of keys and values in them.
  int64_t states, stateKeyDim, stateValueDim;

  template <typename OpTy>
  explicit Sizes(OpTy op)
      : batch(getDimSize(op.getQuery(), 0)), heads(op.getNumHeads()),
        length(getDimSize(op.getQuery(), 2)), keyDim(op.getKeyHeadDim()),
        valueDim(op.getValueHeadDim()), states(batch), stateKeyDim(keyDim),
        stateValueDim(valueDim) {
    if (Value sequences = op.getSequences()) {
      int64_t boundaries = getDimSize(sequences, 0);
      states = ShapedType::isDynamic(boundaries) ? boundaries : boundaries - 1;
    }
    if constexpr (std::is_same_v<OpTy, LinearAttentionOp>) {
      stateKeyDim = op.getFeatureDim();
      stateValueDim += bool(op.getNormalizerEps());
    }
  }

  SmallVector<int64_t> ofRows() const { return {batch, heads, length}; }
  SmallVector<int64_t> ofState() const {
    return {states, heads, stateKeyDim, stateValueDim};
  }
  SmallVector<int64_t> ofHeads(int64_t number, int64_t headDim) const {
    return {batch, number, length, headDim};
  }
  SmallVector<int64_t> ofDecay(Value decay) const {
    if (cast<ShapedType>(decay.getType()).getRank() == 1)
      return {heads};
    SmallVector<int64_t> sizes = ofRows();
    if (cast<ShapedType>(decay.getType()).getRank() == 4)
      sizes.push_back(stateKeyDim);
    return sizes;
  }
};
} // namespace

/// Adds the expected shapes of optional operands that both operations have.
template <typename OpTy>
static void addSharedShapes(OpTy op, const Sizes &sizes,
                            SmallVectorImpl<ExpectedShape> &shapes) {
  if (Value decay = op.getLogDecay())
    shapes.push_back({{"log_decay", decay}, sizes.ofDecay(decay)});
  if (Value beta = op.getBeta())
    shapes.push_back({{"beta", beta}, sizes.ofRows()});
  if (Value state = op.getInitialState())
    shapes.push_back({{"initial_state", state}, sizes.ofState()});
}

/// Checks packed sequences, which are in one batch entry.
template <typename OpTy>
static LogicalResult verifySequences(OpTy op, const Sizes &sizes) {
  Value sequences = op.getSequences();
  if (op.getWholeChunks() && !op.hasSequenceStates())
    return op.emitOpError("'whole_chunks' needs 'sequences' with states");
  if (!sequences)
    return success();
  if (!op.getCausal())
    return op.emitOpError("'sequences' needs 'causal'");
  int64_t boundaries = getDimSize(sequences, 0);
  if (!ShapedType::isDynamic(boundaries) && boundaries < 2)
    return op.emitOpError("dimension 0 of 'sequences' must be at least 2 "
                          "(was ")
           << boundaries << ")";
  if (!ShapedType::isDynamic(sizes.batch) && sizes.batch != 1)
    return op.emitOpError("dimension 0 of 'query' must be 1 with 'sequences' "
                          "(was ")
           << sizes.batch << ")";
  return success();
}

template <typename OpTy>
static LogicalResult verifyAttributes(OpTy op) {
  if (!op.getCausal() && op.getLogDecay())
    return op.emitOpError("'log_decay' needs 'causal'");
  if (!op.getCausal() && op.getBeta())
    return op.emitOpError("'beta' needs 'causal'");
  if (op.getScale() && !op.getScale()->isFinite())
    return op.emitOpError("'scale' must be finite");
  int64_t chunk = op.getChunkOrDefault();
  if (chunk < minChunk || chunk > maxChunk || !llvm::isPowerOf2_64(chunk))
    return op.emitOpError("'chunk' must be a power of two from ")
           << minChunk << " to " << maxChunk << " (was " << chunk << ")";
  return success();
}

//===----------------------------------------------------------------------===//
// LinearAttentionOp
//===----------------------------------------------------------------------===//

double LinearAttentionOp::getScaleOrDefault() { return computeScale(*this); }

MutableOperandRange LinearAttentionOp::getDpsInitsMutable() {
  return MutableOperandRange(*this, getOutMutable().getOperandNumber(),
                             1 + bool(getFinalState()));
}

void LinearAttentionOp::getEffects(EffectList &effects) {
  addOperandEffects(*this, effects);
}

Speculation::Speculatability LinearAttentionOp::getSpeculatability() {
  return isBufferized() ? Speculation::NotSpeculatable
                        : Speculation::Speculatable;
}

LogicalResult
LinearAttentionOp::reifyResultShapes(OpBuilder &builder,
                                     ReifiedRankedShapedTypeDims &shapes) {
  return reifyDestinationShapes(builder, *this, shapes);
}

bool LinearAttentionOp::isPlain() {
  return getFeature().empty() && !getNormalizerEps() && !getKeyLengths() &&
         (!getSequences() || hasSequenceStates()) && !getLocalBlockSize();
}

bool LinearAttentionOp::hasSequenceStates() {
  return getSequences() && (getInitialState() || getFinalState());
}

void LinearAttentionOp::build(OpBuilder &builder, OperationState &state,
                              TypeRange results, Value query, Value key,
                              Value value, Value logDecay, Value beta,
                              Value initialState, Value out, Value finalState,
                              UnitAttr causal, FloatAttr scale,
                              IntegerAttr chunk, MatmulPrecisionAttr precision,
                              ScheduleAttrInterface schedule) {
  build(builder, state, results, query, key, value, logDecay, beta,
        initialState, /*key_lengths=*/Value(), /*sequences=*/Value(), out,
        finalState, /*whole_chunks=*/UnitAttr(), causal, scale,
        /*local_block_size=*/IntegerAttr(), /*normalizer_eps=*/FloatAttr(),
        chunk, precision, schedule);
}

/// The type of the rows that the feature region yields; null if it does not end
/// with a tensor of four dimensions, which the verifier reports.
static RankedTensorType getFeatureType(LinearAttentionOp op) {
  Region &feature = op.getFeature();
  if (feature.empty() || feature.front().empty())
    return {};
  auto yield = dyn_cast<LinearYieldOp>(feature.front().back());
  RankedTensorType type =
      yield ? yield.getFeatures().getType() : RankedTensorType();
  return type && type.getRank() == 4 ? type : RankedTensorType();
}

int64_t LinearAttentionOp::getFeatureDim() {
  RankedTensorType type = getFeatureType(*this);
  return type ? type.getDimSize(3) : getKeyHeadDim();
}

/// Checks that parts of the operation that exclude each other are not given
/// together, and that parts that need others have them.
static LogicalResult verifyCombination(LinearAttentionOp op) {
  struct Part {
    StringRef name;
    bool isGiven;
  };
  Part keyLengths{"key_lengths", bool(op.getKeyLengths())};
  Part sequences{"sequences", bool(op.getSequences())};
  Part localBlocks{"local_blocks", op.getLocalBlockSize().has_value()};
  Part normalizer{"normalizer", op.getNormalizerEps().has_value()};
  Part feature{"feature", !op.getFeature().empty()};
  Part beta{"beta", bool(op.getBeta())};
  Part initialState{"initial_state", bool(op.getInitialState())};
  Part finalState{"final_state", bool(op.getFinalState())};
  Part stateless{"sequences", sequences.isGiven && !op.hasSequenceStates()};
  for (const Part &part :
       {feature, normalizer, keyLengths, stateless, localBlocks})
    if (part.isGiven && op.isBufferized())
      return op.emitOpError("'") << part.name << "' needs tensors (was "
                                 << op.getQuery().getType() << ")";
  for (const auto &[part, other] :
       {std::pair(normalizer, beta), std::pair(sequences, keyLengths),
        std::pair(sequences, localBlocks), std::pair(localBlocks, initialState),
        std::pair(localBlocks, finalState)})
    if (part.isGiven && other.isGiven)
      return op.emitOpError("'")
             << part.name << "' must not be used together with '" << other.name
             << "'";
  return success();
}

/// Checks the normalizer and local blocks.
static LogicalResult verifyMasks(LinearAttentionOp op) {
  if (std::optional<APFloat> eps = op.getNormalizerEps();
      eps && (!eps->isFinite() || eps->isNegative())) {
    SmallString<16> text;
    eps->toString(text);
    return op.emitOpError(
               "'eps' of 'normalizer' must be finite and at least 0 (was ")
           << text << ")";
  }
  if (std::optional<int64_t> block = op.getLocalBlockSize();
      block && (*block < 1 || *block > INT32_MAX))
    return op.emitOpError("'local_blocks' must be from 1 to ")
           << INT32_MAX << " (was " << *block << ")";
  return success();
}

LogicalResult LinearAttentionOp::verifyRegions() {
  if (getFeature().empty())
    return success();
  Type element = getElementTypeOrSelf(getQuery());
  SmallVector<int64_t> rows(3, ShapedType::kDynamic);
  rows.push_back(getKeyHeadDim());
  Type expected = RankedTensorType::get(rows, element);
  Block &block = getFeature().front();
  if (block.getArgumentTypes() != ArrayRef<Type>(expected))
    return emitOpError("feature region must have the argument ")
           << expected << " (was " << TypeRange(block.getArgumentTypes())
           << ")";
  if (block.empty() || !isa<LinearYieldOp>(block.back()))
    return emitOpError("feature region must end with 'attn.linear_yield'");
  RankedTensorType type = getFeatureType(*this);
  if (!type || type.getElementType() != element || type.isDynamicDim(3) ||
      type.getDimSize(3) == 0 || type.getNumDynamicDims() != 3)
    return emitOpError("feature region must yield a tensor of ")
           << element
           << " with four dimensions, of which only the last one is static "
              "(was "
           << cast<LinearYieldOp>(block.back()).getFeatures().getType() << ")";
  WalkResult result = getFeature().walk([&](Operation *nested) -> WalkResult {
    if (isMemoryEffectFree(nested))
      return WalkResult::advance();
    InFlightDiagnostic diag =
        emitOpError("feature region must have no side effects");
    diag.attachNote(nested->getLoc())
        << "'" << nested->getName() << "' has some";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

LogicalResult LinearAttentionOp::verify() {
  NamedOperand query{"query", getQuery()}, key{"key", getKey()};
  NamedOperand value{"value", getValue()}, out{"out", getOut()};
  if (failed(verifyTypes(*this, {query, key, value, out})) ||
      failed(verifyCombination(*this)))
    return failure();
  Sizes sizes(*this);
  SmallVector<ExpectedShape> shapes;
  for (auto [operand, headDim] :
       {std::pair(key, sizes.keyDim), std::pair(value, sizes.valueDim)}) {
    int64_t heads = getDimSize(operand.value, 1);
    if (sizes.heads % heads != 0)
      return emitOpError("dimension 1 of '")
             << operand.name << "' must divide that of 'query', " << sizes.heads
             << " (was " << heads << ")";
    shapes.push_back({operand, sizes.ofHeads(heads, headDim)});
  }
  addSharedShapes(*this, sizes, shapes);
  shapes.push_back({out, sizes.ofHeads(sizes.heads, sizes.valueDim)});
  if (Value state = getFinalState())
    shapes.push_back({{"final_state", state}, sizes.ofState()});
  if (Value lengths = getKeyLengths())
    shapes.push_back({{"key_lengths", lengths}, {sizes.batch}});
  if (failed(verifySequences(*this, sizes)) ||
      failed(verifyShapes(*this, shapes)) || failed(verifyMasks(*this)))
    return failure();
  return verifyAttributes(*this);
}

//===----------------------------------------------------------------------===//
// LinearAttentionGradOp
//===----------------------------------------------------------------------===//

double LinearAttentionGradOp::getScaleOrDefault() {
  return computeScale(*this);
}

bool LinearAttentionGradOp::hasSequenceStates() { return bool(getSequences()); }

MutableOperandRange LinearAttentionGradOp::getDpsInitsMutable() {
  return MutableOperandRange(*this, getDqueryMutable().getOperandNumber(),
                             3 + bool(getDlogDecay()) + bool(getDbeta()) +
                                 bool(getDinitialState()));
}

void LinearAttentionGradOp::getEffects(EffectList &effects) {
  addOperandEffects(*this, effects);
}

Speculation::Speculatability LinearAttentionGradOp::getSpeculatability() {
  return isBufferized() ? Speculation::NotSpeculatable
                        : Speculation::Speculatable;
}

LogicalResult
LinearAttentionGradOp::reifyResultShapes(OpBuilder &builder,
                                         ReifiedRankedShapedTypeDims &shapes) {
  return reifyDestinationShapes(builder, *this, shapes);
}

/// Checks that gradients of optional operands have these operands.
static LogicalResult verifyPresence(LinearAttentionGradOp op) {
  if (op.getDlogDecay() && !op.getLogDecay())
    return op.emitOpError("'dlog_decay' needs 'log_decay'");
  if (op.getDbeta() && !op.getBeta())
    return op.emitOpError("'dbeta' needs 'beta'");
  if (op.getDinitialState() && !op.getInitialState())
    return op.emitOpError("'dinitial_state' needs 'initial_state'");
  if (op.getWholeChunks() && op.getDlogDecay() &&
      cast<ShapedType>(op.getDlogDecay().getType()).getRank() == 2)
    return op.emitOpError("'dlog_decay' with 'whole_chunks' must not belong to "
                          "one log-decay a head");
  return success();
}

LogicalResult LinearAttentionGradOp::verify() {
  NamedOperand heads[] = {{"query", getQuery()},   {"key", getKey()},
                          {"value", getValue()},   {"dout", getDout()},
                          {"dquery", getDquery()}, {"dkey", getDkey()},
                          {"dvalue", getDvalue()}};
  if (failed(verifyPresence(*this)) || failed(verifyTypes(*this, heads)))
    return failure();
  Sizes sizes(*this);
  SmallVector<ExpectedShape> shapes;
  for (NamedOperand operand : heads) {
    bool isOfKey =
        operand.name.ends_with("query") || operand.name.ends_with("key");
    int64_t headDim = isOfKey ? sizes.keyDim : sizes.valueDim;
    shapes.push_back({operand, sizes.ofHeads(sizes.heads, headDim)});
  }
  addSharedShapes(*this, sizes, shapes);
  if (Value state = getDfinalState())
    shapes.push_back({{"dfinal_state", state}, sizes.ofState()});
  if (Value gradient = getDlogDecay()) {
    auto type = cast<ShapedType>(getLogDecay().getType());
    int64_t rank = type.getRank() == 1 ? 2 : type.getRank();
    int64_t actual = cast<ShapedType>(gradient.getType()).getRank();
    if (actual != rank)
      return emitOpError("'dlog_decay' must have ")
             << rank << " dimensions (was " << actual << ")";
    SmallVector<int64_t> expected = {sizes.batch, sizes.heads};
    if (rank != 2)
      expected = sizes.ofDecay(getLogDecay());
    shapes.push_back({{"dlog_decay", gradient}, expected});
  }
  if (Value gradient = getDbeta())
    shapes.push_back({{"dbeta", gradient}, sizes.ofRows()});
  if (Value gradient = getDinitialState())
    shapes.push_back({{"dinitial_state", gradient}, sizes.ofState()});
  if (failed(verifySequences(*this, sizes)) ||
      failed(verifyShapes(*this, shapes)))
    return failure();
  return verifyAttributes(*this);
}
