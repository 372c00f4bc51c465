//===- AttnOps.cpp - Operations of the attn dialect
//-------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verifiers and effects of the operations.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "RegionVerifier.h"
#include "attn/Dialect/Attn/IR/ClosedRegion.h"
#include "attn/Dialect/Attn/IR/ShareKeys.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"

#include <cmath>

using namespace mlir;
using namespace mlir::attn;

#include "attn/Dialect/Attn/IR/AttnOpInterfaces.cpp.inc"

#define GET_OP_CLASSES
#include "attn/Dialect/Attn/IR/AttnOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Verification of operands
//===----------------------------------------------------------------------===//

namespace {
/// A dimension of an operand, for diagnostics.
struct OperandDim {
  StringRef operand;
  Value value;
  unsigned dim;
};
} // namespace

/// Checks that `dim` is as large as `reference`, as far as both are static.
static LogicalResult verifySameSize(Operation *op, OperandDim reference,
                                    OperandDim dim) {
  int64_t expected = getDimSize(reference.value, reference.dim);
  int64_t actual = getDimSize(dim.value, dim.dim);
  if (ShapedType::isDynamic(expected) || ShapedType::isDynamic(actual) ||
      expected == actual)
    return success();
  return op->emitOpError() << "dimension " << dim.dim << " of '" << dim.operand
                           << "' must match dimension " << reference.dim
                           << " of '" << reference.operand << "', " << expected
                           << " (was " << actual << ")";
}

/// Checks that `dim`, a number of heads or channels, is static and positive.
static LogicalResult verifyStaticSize(Operation *op, OperandDim dim) {
  int64_t actual = getDimSize(dim.value, dim.dim);
  if (ShapedType::isDynamic(actual))
    return op->emitOpError() << "dimension " << dim.dim << " of '"
                             << dim.operand << "' must be static";
  if (actual < 1)
    return op->emitOpError()
           << "dimension " << dim.dim << " of '" << dim.operand
           << "' must be at least 1 (was " << actual << ")";
  return success();
}

/// Checks that all operands are tensors or all are memrefs.
static LogicalResult
verifySameContainer(AttentionOpInterface op,
                    ArrayRef<std::pair<StringRef, Value>> operands) {
  for (auto [name, operand] : operands)
    if (isa<MemRefType>(operand.getType()) != op.isBufferized())
      return op->emitOpError() << "operands must be all tensors or all "
                                  "memrefs, but 'query' is "
                               << op.getQuery().getType() << " and '" << name
                               << "' is " << operand.getType();
  return success();
}

/// Checks that the element type of `operand` is that of the query, or f32 if
/// `mayBeF32`.
static LogicalResult verifyElementType(AttentionOpInterface op, StringRef name,
                                       Value operand, bool mayBeF32) {
  Type expected = getElementTypeOrSelf(op.getQuery());
  Type element = getElementTypeOrSelf(operand);
  if (element == expected || (mayBeF32 && element.isF32()))
    return success();
  return op->emitOpError() << "element type of '" << name
                           << "' must be that of 'query', " << expected
                           << (mayBeF32 ? ", or f32" : "") << " (was "
                           << element << ")";
}

/// Checks the operands that give the lengths of sequences.
static LogicalResult verifySequences(AttentionOpInterface op) {
  Value queries = op.getQuerySequences(), keys = op.getKeySequences();
  if (op.hasSequences() != bool(queries) || bool(queries) != bool(keys))
    return op->emitOpError("needs all or none of 'sequence_layout', "
                           "'query_sequences' and 'key_sequences'");
  if (!queries)
    return success();
  OperandDim queryDim{"query_sequences", queries, 0};
  OperandDim keyDim{"key_sequences", keys, 0};
  if (failed(verifySameContainer(
          op, {{queryDim.operand, queries}, {keyDim.operand, keys}})) ||
      failed(verifySameSize(op, queryDim, keyDim)))
    return failure();
  if (op.getSequenceLayout() == SequenceLayout::Padded)
    return verifySameSize(op, {"query", op.getQuery(), 0}, queryDim);
  if (int64_t batch = getDimSize(op.getQuery(), 0); batch != 1)
    return op->emitOpError("dimension 0 of 'query' must be 1 where sequences "
                           "are packed (was ")
           << (ShapedType::isDynamic(batch) ? "?" : Twine(batch).str()) << ")";
  if (getDimSize(queries, 0) == 0)
    return op->emitOpError("'query_sequences' must have at least one entry "
                           "where sequences are packed");
  return success();
}

/// Checks that operands with an entry for each query head have as many.
static LogicalResult verifyHeadOperands(AttentionOpInterface op) {
  for (const HeadOperand &operand : op.getHeadOperands()) {
    OperandDim dim{operand.name, operand.value, 0};
    if (failed(verifySameContainer(op, {{operand.name, operand.value}})) ||
        failed(verifyStaticSize(op, dim)) ||
        failed(verifySameSize(op, {"query", op.getQuery(), 1}, dim)))
      return failure();
  }
  return success();
}

/// Checks that `actual`, if it and `length` are static, is the number of words
/// of `length` positions.
static LogicalResult verifyWords(Operation *op, OperandDim dim,
                                 StringRef lengthOf, int64_t length,
                                 int64_t (*count)(int64_t)) {
  int64_t actual = getDimSize(dim.value, dim.dim);
  if (ShapedType::isDynamic(actual) || ShapedType::isDynamic(length) ||
      actual == count(length))
    return success();
  return op->emitOpError() << "dimension " << dim.dim << " of '" << dim.operand
                           << "' must have the words of " << length << " "
                           << lengthOf << ", " << count(length) << " (was "
                           << actual << ")";
}

/// Checks the operand that holds decisions of dropout.
static LogicalResult verifyDropoutMask(AttentionOpInterface op) {
  Value mask = op.getDropoutMask();
  if (bool(mask) != op.getMaskLayout().has_value() ||
      bool(mask) != op.getDropProbability().has_value())
    return op->emitOpError("needs all or none of 'dropout_mask', 'mask_layout' "
                           "and 'drop_probability'");
  if (!mask)
    return success();
  if (op.getDropoutAttr())
    return op->emitOpError(
        "takes a 'dropout_mask' or makes random numbers, not both");
  float p = op.getDropProbability()->convertToFloat();
  if (std::isnan(p) || p < 0 || p >= 1)
    return op->emitOpError("'drop_probability' must lie in [0, 1) (was ")
           << p << ")";
  StringRef name = "dropout_mask";
  if (failed(verifySameContainer(op, {{name, mask}})) ||
      failed(verifyStaticSize(op, {name, mask, 1})) ||
      failed(verifySameSize(op, {"query", op.getQuery(), 1}, {name, mask, 1})))
    return failure();
  if (op.getSequenceLayout() == SequenceLayout::Packed)
    return success();
  bool isByRows = op.getMaskLayout() == MaskLayout::Rows;
  if (failed(
          verifySameSize(op, {"query", op.getQuery(), 0}, {name, mask, 0})) ||
      failed(verifyWords(op, {name, mask, isByRows ? 2u : 3u}, "queries",
                         getDimSize(op.getQuery(), 2),
                         DropoutMaskOp::countQueryWords)))
    return failure();
  return verifyWords(op, {name, mask, isByRows ? 3u : 2u}, "keys",
                     getDimSize(op.getKey(), 2), DropoutMaskOp::countKeyWords);
}

/// Checks the operands of dropout.
static LogicalResult verifyDropout(AttentionOpInterface op) {
  Value seed = op.getSeed(), offset = op.getOffset();
  if (bool(op.getDropoutAttr()) != bool(seed) || bool(seed) != bool(offset))
    return op->emitOpError(
        "needs all or none of 'dropout', 'seed' and 'offset'");
  for (auto [name, value] :
       {std::pair("seed", seed), std::pair("offset", offset)})
    if (value && isa<ShapedType>(value.getType()) &&
        failed(verifySameContainer(op, {{name, value}})))
      return failure();
  return verifyDropoutMask(op);
}

/// Checks the operands that the named mask reads.
static LogicalResult verifyMaskReads(AttentionOpInterface op) {
  OperandRange operands = op.getMaskReads();
  MaskAttrInterface mask = op.getMaskAttr();
  SmallVector<int64_t> reads = mask ? mask.getReads() : SmallVector<int64_t>();
  int64_t count = operands.size();
  for (int64_t read : reads)
    if (read < 0 || read >= count)
      return op->emitOpError() << "mask reads operand " << read << ", but has "
                               << count << " of 'reads'";
  for (int64_t i = 0; i < count; ++i) {
    if (!llvm::is_contained(reads, i))
      return op->emitOpError()
             << "operand " << i << " of 'reads' is not read by the mask";
    if (failed(verifySameContainer(op, {{"reads", operands[i]}})))
      return failure();
  }
  if (count == 0)
    return success();
  if (op.hasSequences())
    return op->emitOpError("mask must not read operands beside 'sequences'");
  MaskReads scope{operands, op.getQuery(), op.getKey(), {}, {}, {}};
  return mask.verifyReads([&] { return op->emitOpError("mask "); }, scope);
}

/// Checks the operand that says which tiles the mask keeps.
static LogicalResult verifyPlan(AttentionOp op) {
  Value plan = op.getPlan();
  if (!plan)
    return success();
  if (op.hasSequences())
    return op->emitOpError("'plan' must not be used beside 'sequences'");
  StringRef name = "plan";
  if (failed(verifySameContainer(op, {{name, plan}})) ||
      failed(verifyStaticSize(op, {name, plan, 1})) ||
      failed(verifySameSize(op, {"query", op.getQuery(), 0}, {name, plan, 0})))
    return failure();
  if (getDimSize(plan, 1) != 1 &&
      failed(verifySameSize(op, {"query", op.getQuery(), 1}, {name, plan, 1})))
    return failure();
  Attribute schedule = op.getScheduleAttr();
  auto [queries, keys] = op.getStaticLengths();
  if (failed(verifyPlanSizes(op, plan, schedule, queries, keys)))
    return failure();
  auto made = plan.getDefiningOp<PlanMaskOp>();
  if (!made || !schedule || !made.getScheduleAttr() ||
      made.getScheduleAttr() == schedule)
    return success();
  auto [queryTile, keyTile] = PlanMaskOp::getTiles(schedule);
  auto [queryTileMade, keyTileMade] =
      PlanMaskOp::getTiles(made.getScheduleAttr());
  bool isChoice = isa<ByQueryLengthAttr>(schedule) ||
                  isa<ByQueryLengthAttr>(made.getScheduleAttr());
  if (!isChoice && queryTile == queryTileMade && keyTile == keyTileMade)
    return success();
  InFlightDiagnostic diag = op->emitOpError()
                            << "plan must be made for the same schedule";
  diag.attachNote(made.getLoc()) << "it is for " << made.getScheduleAttr();
  return diag;
}

/// Checks the sizes of all operands, and the scale.
static LogicalResult verifySizes(AttentionOpInterface op) {
  SmallVector<AttentionOperand> operands = op.getShapedOperands();
  for (const AttentionOperand &operand : operands) {
    if (failed(verifyStaticSize(op, {operand.name, operand.value, 1})))
      return failure();
    if (operand.channels != ChannelKind::None &&
        failed(verifyStaticSize(op, {operand.name, operand.value, 3})))
      return failure();
  }
  for (const AttentionOperand &operand : operands) {
    auto match = [&](StringRef name, Value reference, unsigned dim) {
      return verifySameSize(op, {name, reference, dim},
                            {operand.name, operand.value, dim});
    };
    StringRef side = operand.isQuerySide ? "query" : "key";
    Value sideValue = operand.isQuerySide ? op.getQuery() : op.getKey();
    if (failed(match("query", op.getQuery(), 0)) ||
        failed(match(side, sideValue, 1)) || failed(match(side, sideValue, 2)))
      return failure();
    if ((operand.channels == ChannelKind::Query &&
         failed(match("query", op.getQuery(), 3))) ||
        (operand.channels == ChannelKind::Value &&
         failed(match("value", op.getValue(), 3))))
      return failure();
  }

  if (failed(verifyHeadOperands(op)))
    return failure();
  if (!op.getHeadMap() && op.getNumQueryHeads() % op.getNumKeyHeads() != 0)
    return op->emitOpError()
           << "number of heads of 'query' must be a multiple of that of "
              "'key', "
           << op.getNumKeyHeads() << " (was " << op.getNumQueryHeads() << ")";
  if (std::optional<APFloat> scale = op.getScale();
      scale && !scale->isFinite()) {
    SmallString<16> text;
    scale->toString(text);
    return op->emitOpError() << "scale must be finite (was " << text << ")";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Verification of regions
//===----------------------------------------------------------------------===//

/// Checks that the operations in `region` do nothing but compute, read and
/// add to `destinations`.
static LogicalResult
verifyRegionEffects(DestinationStyleOpInterface op, StringRef name,
                    Region &region, ArrayRef<RegionDestination> destinations) {
  auto isDestination = [&](Value value) {
    return llvm::any_of(destinations, [&](const RegionDestination &entry) {
      return entry.argument == value &&
             entry.argument.getOwner()->getParent() == &region;
    });
  };
  WalkResult result = region.walk([&](Operation *nested) -> WalkResult {
    auto fail = [&](StringRef what) {
      InFlightDiagnostic diag = op->emitOpError()
                                << name << " region must only compute and read";
      diag.attachNote(nested->getLoc())
          << "'" << nested->getName() << "' " << what;
      return WalkResult::interrupt();
    };
    if (isa<AttentionOpInterface, MapHeadsOp, MatmulOp, PlanMaskOp>(nested))
      return fail("is not allowed in a region of attention or of a product");
    if (auto accumulate = dyn_cast<AccumulateOp>(nested)) {
      if (!isDestination(accumulate.getDestination()))
        return fail("must add to a destination that is an argument of its "
                    "score_grad region");
      return WalkResult::advance();
    }
    for (Value operand : nested->getOperands())
      if (isDestination(operand))
        return fail("uses a destination, which only 'attn.accumulate' may");
    auto interface = dyn_cast<MemoryEffectOpInterface>(nested);
    if (!interface) {
      if (nested->hasTrait<OpTrait::HasRecursiveMemoryEffects>())
        return WalkResult::advance();
      return fail("has unknown side effects");
    }
    SmallVector<MemoryEffects::EffectInstance> effects;
    interface.getEffects(effects);
    for (const MemoryEffects::EffectInstance &effect : effects) {
      if (!isa<MemoryEffects::Read>(effect.getEffect()))
        return fail("has side effects");
      if (effect.getValue() &&
          llvm::is_contained(op.getDpsInits(), effect.getValue()))
        return fail("reads a buffer that the operation writes");
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

LogicalResult attn::verifyRegion(
    DestinationStyleOpInterface op, StringRef name, Region &region,
    TypeRange argumentTypes, Type yieldType,
    function_ref<SmallVector<RegionDestination>()> destinations) {
  if (region.empty())
    return success();
  Block &block = region.front();
  if (block.getArgumentTypes() != argumentTypes)
    return op->emitOpError()
           << name << " region must have arguments " << argumentTypes
           << " (was " << TypeRange(block.getArgumentTypes()) << ")";
  auto yield = dyn_cast<YieldOp>(block.back());
  if (!yield)
    return op->emitOpError()
           << name << " region must end with 'attn.yield' (was '"
           << block.back().getName() << "')";
  if (yield.getValue().getType() != yieldType)
    return op->emitOpError() << name << " region must yield " << yieldType
                             << " (was " << yield.getValue().getType() << ")";
  return verifyRegionEffects(op, name, region, destinations());
}

/// Checks a region of attention.
static LogicalResult verifyAttentionRegion(AttentionOpInterface op,
                                           StringRef name, Region &region,
                                           TypeRange argumentTypes,
                                           Type yieldType) {
  return verifyRegion(cast<DestinationStyleOpInterface>(op.getOperation()),
                      name, region, argumentTypes, yieldType,
                      [&] { return op.getRegionDestinations(); });
}

/// Checks the score and the keep region.
static LogicalResult verifyScoreAndKeep(AttentionOpInterface op) {
  Builder builder(op.getContext());
  Type f32 = builder.getF32Type();
  Type index = builder.getIndexType();
  SmallVector<Type> types = {f32, index, index, index, index};
  if (failed(
          verifyAttentionRegion(op, "score", op.getScoreRegion(), types, f32)))
    return failure();
  return verifyAttentionRegion(op, "keep", op.getKeepRegion(),
                               ArrayRef<Type>(types).drop_front(),
                               builder.getI1Type());
}

//===----------------------------------------------------------------------===//
// Effects
//===----------------------------------------------------------------------===//

using EffectList =
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>;

/// Adds the effects on operands: inputs are read and destinations written.
static void addOperandEffects(AttentionOpInterface op, EffectList &effects) {
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<MemRefType>(operand.get().getType()))
      continue;
    if (op.isDpsInit(&operand))
      effects.emplace_back(MemoryEffects::Write::get(), &operand,
                           SideEffects::DefaultResource::get());
    else
      effects.emplace_back(MemoryEffects::Read::get(), &operand,
                           SideEffects::DefaultResource::get());
  }
}

static Speculation::Speculatability
getAttentionSpeculatability(AttentionOpInterface op) {
  return op.isBufferized() ? Speculation::NotSpeculatable
                           : Speculation::RecursivelySpeculatable;
}

static LogicalResult
reifyDestinationShapes(OpBuilder &builder, AttentionOpInterface op,
                       ReifiedRankedShapedTypeDims &shapes) {
  if (op->getNumResults() == 0)
    return failure();
  for (Value init : op.getDpsInits())
    shapes.push_back(tensor::getMixedSizes(builder, op.getLoc(), init));
  return success();
}

/// Names the arguments of a region: those in `names` and then, numbered, the
/// destinations.
static void setArgumentNames(Region &region, ArrayRef<StringLiteral> names,
                             OpAsmSetValueNameFn setName) {
  for (BlockArgument argument : region.getArguments())
    setName(argument, argument.getArgNumber() < names.size()
                          ? StringRef(names[argument.getArgNumber()])
                          : "grad");
}

static constexpr StringLiteral scoreArguments[] = {"score", "b", "h", "i", "j"};
static constexpr StringLiteral queryArguments[] = {"x", "square", "b",
                                                   "h", "i",      "d"};
static constexpr StringLiteral epilogueArguments[] = {"x", "b", "h", "i", "d"};
static constexpr StringLiteral scoreGradArguments[] = {"score", "dscore", "b",
                                                       "h",     "i",      "j"};

//===----------------------------------------------------------------------===//
// AttentionOp
//===----------------------------------------------------------------------===//

MutableOperandRange AttentionOp::getDpsInitsMutable() {
  return MutableOperandRange(*this, getOutMutable().getOperandNumber(),
                             getLse() ? 2 : 1);
}

bool AttentionOp::statesScoreGrad() { return false; }

SmallVector<AttentionOperand> AttentionOp::getShapedOperands() {
  SmallVector<AttentionOperand> operands = {
      {"query", "q", getQuery(), true, ChannelKind::Query},
      {"key", "k", getKey(), false, ChannelKind::Query},
      {"value", "v", getValue(), false, ChannelKind::Value},
      {"out", "out", getOut(), true, ChannelKind::Value}};
  if (Value lse = getLse())
    operands.push_back({"lse", "lse", lse, true, ChannelKind::None});
  return operands;
}

SmallVector<HeadOperand> AttentionOp::getHeadOperands() {
  SmallVector<HeadOperand> operands;
  if (Value sinks = getSinks())
    operands.push_back({"sinks", "sinks", sinks});
  if (Value map = getHeadMap())
    operands.push_back({"head_map", "head_map", map});
  if (Value identity = getIdentity())
    operands.push_back({"identity", "identity", identity});
  return operands;
}

SmallVector<RegionDestination> AttentionOp::getRegionDestinations() {
  return {};
}

int64_t AttentionOp::getFlopsPerPair() {
  return 2 * (getQueryHeadDim() + getValueHeadDim());
}

void AttentionOp::getAsmBlockArgumentNames(Region &region,
                                           OpAsmSetValueNameFn setName) {
  ArrayRef<StringLiteral> names = scoreArguments;
  if (&region == &getKeepRegion())
    names = names.drop_front();
  if (&region == &getQueryRegion())
    names = queryArguments;
  if (&region == &getEpilogue())
    names = epilogueArguments;
  setArgumentNames(region, names, setName);
}

void AttentionOp::getEffects(EffectList &effects) {
  addOperandEffects(*this, effects);
}

Speculation::Speculatability AttentionOp::getSpeculatability() {
  return getAttentionSpeculatability(*this);
}

LogicalResult
AttentionOp::reifyResultShapes(OpBuilder &builder,
                               ReifiedRankedShapedTypeDims &shapes) {
  return reifyDestinationShapes(builder, *this, shapes);
}

LogicalResult AttentionOp::verify() {
  SmallVector<std::pair<StringRef, Value>> operands;
  for (const AttentionOperand &operand : getShapedOperands())
    operands.emplace_back(operand.name, operand.value);
  if (failed(verifySequences(*this)) || failed(verifyDropout(*this)) ||
      failed(verifyMaskReads(*this)) ||
      failed(verifySameContainer(*this, operands)) ||
      failed(verifyElementType(*this, "key", getKey(), false)) ||
      failed(verifyElementType(*this, "value", getValue(), false)) ||
      failed(verifyElementType(*this, "out", getOut(), true)) ||
      failed(verifySizes(*this)))
    return failure();
  return verifyPlan(*this);
}

LogicalResult AttentionOp::verifyRegions() {
  Builder builder(getContext());
  Type f32 = builder.getF32Type(), index = builder.getIndexType();
  if (failed(verifyScoreAndKeep(*this)) ||
      failed(verifyAttentionRegion(*this, "query", getQueryRegion(),
                                   {f32, f32, index, index, index, index},
                                   f32)) ||
      failed(verifyAttentionRegion(*this, "epilogue", getEpilogue(),
                                   {f32, index, index, index, index}, f32)))
    return failure();
  for (auto [name, region] : {std::pair("query", &getQueryRegion()),
                              std::pair("epilogue", &getEpilogue())})
    if (hasSequences() && !region->empty())
      return emitOpError() << name
                           << " region must not be used beside 'sequences'";
  return success();
}

//===----------------------------------------------------------------------===//
// AttentionGradOp
//===----------------------------------------------------------------------===//

MutableOperandRange AttentionGradOp::getDpsInitsMutable() {
  return MutableOperandRange(*this, getDqueryMutable().getOperandNumber(),
                             3 + getDcaptures().size());
}

bool AttentionGradOp::statesScoreGrad() {
  return !getScoreGradRegion().empty();
}

SmallVector<AttentionOperand> AttentionGradOp::getShapedOperands() {
  SmallVector<AttentionOperand> operands = {
      {"query", "q", getQuery(), true, ChannelKind::Query},
      {"key", "k", getKey(), false, ChannelKind::Query},
      {"value", "v", getValue(), false, ChannelKind::Value},
      {"out", "out", getOut(), true, ChannelKind::Value},
      {"lse", "lse", getLse(), true, ChannelKind::None},
      {"dout", "dout", getDout(), true, ChannelKind::Value}};
  if (Value dlse = getDlse())
    operands.push_back({"dlse", "dlse", dlse, true, ChannelKind::None});
  operands.append({{"dquery", "dq", getDquery(), true, ChannelKind::Query},
                   {"dkey", "dk", getDkey(), false, ChannelKind::Query},
                   {"dvalue", "dv", getDvalue(), false, ChannelKind::Value}});
  return operands;
}

SmallVector<HeadOperand> AttentionGradOp::getHeadOperands() {
  if (Value identity = getIdentity())
    return {{"identity", "identity", identity}};
  return {};
}

SmallVector<RegionDestination> AttentionGradOp::getRegionDestinations() {
  SmallVector<RegionDestination> destinations;
  if (getScoreGradRegion().empty())
    return destinations;
  unsigned numScalars = std::size(scoreGradArguments);
  for (auto [destination, argument] : llvm::zip_equal(
           llvm::make_pointer_range(getDcapturesMutable()),
           getScoreGradRegion().getArguments().drop_front(numScalars)))
    destinations.push_back({destination, argument});
  return destinations;
}

/// The scores and four gradients, two of which have the value's channels.
int64_t AttentionGradOp::getFlopsPerPair() {
  return 2 * (3 * getQueryHeadDim() + 2 * getValueHeadDim());
}

void AttentionGradOp::getAsmBlockArgumentNames(Region &region,
                                               OpAsmSetValueNameFn setName) {
  ArrayRef<StringLiteral> names = scoreArguments;
  if (&region == &getKeepRegion())
    names = names.drop_front();
  else if (&region == &getScoreGradRegion())
    names = scoreGradArguments;
  setArgumentNames(region, names, setName);
}

void AttentionGradOp::getEffects(EffectList &effects) {
  addOperandEffects(*this, effects);
  if (isBufferized())
    for (OpOperand &operand : getDcapturesMutable())
      effects.emplace_back(MemoryEffects::Read::get(), &operand,
                           SideEffects::DefaultResource::get());
  // What the regions read. `attn.accumulate` writes destinations, which are
  // effects of their operands above: on tensors there are none.
  getOperation()->walk([&](Operation *nested) {
    auto interface = dyn_cast<MemoryEffectOpInterface>(nested);
    if (nested == getOperation() || isa<AccumulateOp>(nested) || !interface)
      return;
    interface.getEffects(effects);
  });
}

Speculation::Speculatability AttentionGradOp::getSpeculatability() {
  return getAttentionSpeculatability(*this);
}

LogicalResult
AttentionGradOp::reifyResultShapes(OpBuilder &builder,
                                   ReifiedRankedShapedTypeDims &shapes) {
  return reifyDestinationShapes(builder, *this, shapes);
}

LogicalResult AttentionGradOp::verify() {
  SmallVector<std::pair<StringRef, Value>> operands;
  for (const AttentionOperand &operand : getShapedOperands())
    operands.emplace_back(operand.name, operand.value);
  for (Value capture : getDcaptures())
    operands.emplace_back("dcaptures", capture);
  if (failed(verifySequences(*this)) || failed(verifyDropout(*this)) ||
      failed(verifyMaskReads(*this)) ||
      failed(verifySameContainer(*this, operands)) ||
      failed(verifyElementType(*this, "key", getKey(), false)) ||
      failed(verifyElementType(*this, "value", getValue(), false)) ||
      failed(verifyElementType(*this, "out", getOut(), true)) ||
      failed(verifyElementType(*this, "dquery", getDquery(), true)) ||
      failed(verifyElementType(*this, "dkey", getDkey(), true)) ||
      failed(verifyElementType(*this, "dvalue", getDvalue(), true)))
    return failure();
  Type outElement = getElementTypeOrSelf(getOut());
  Type doutElement = getElementTypeOrSelf(getDout());
  if (outElement != doutElement)
    return emitOpError() << "element type of 'dout' must be that of 'out', "
                         << outElement << " (was " << doutElement << ")";
  if (!getDcaptures().empty() && getScoreGradRegion().empty())
    return emitOpError() << "with 'dcaptures' must have a score_grad region";
  return verifySizes(*this);
}

LogicalResult AttentionGradOp::verifyRegions() {
  // The arguments come first: `getRegionDestinations` relies on them.
  Builder builder(getContext());
  Type f32 = builder.getF32Type();
  SmallVector<Type> types = {f32, f32};
  types.append(4, builder.getIndexType());
  llvm::append_range(types, getDcaptures().getTypes());
  if (failed(verifyAttentionRegion(*this, "score_grad", getScoreGradRegion(),
                                   types, f32)))
    return failure();
  return verifyScoreAndKeep(*this);
}

//===----------------------------------------------------------------------===//
// DropoutMaskOp
//===----------------------------------------------------------------------===//

int64_t DropoutMaskOp::countQueryWords(int64_t queries) {
  return llvm::divideCeil(queries, blockSize) * (blockSize / 2);
}

int64_t DropoutMaskOp::countKeyWords(int64_t keys) {
  return llvm::divideCeil(keys, blockSize) *
         (blockSize / DropoutAttr::keysOfWord);
}

void DropoutMaskOp::getEffects(EffectList &effects) {
  for (OpOperand &operand : getOperation()->getOpOperands()) {
    if (!isa<MemRefType>(operand.get().getType()))
      continue;
    if (isDpsInit(&operand))
      effects.emplace_back(MemoryEffects::Write::get(), &operand,
                           SideEffects::DefaultResource::get());
    else
      effects.emplace_back(MemoryEffects::Read::get(), &operand,
                           SideEffects::DefaultResource::get());
  }
}

Speculation::Speculatability DropoutMaskOp::getSpeculatability() {
  return isa<MemRefType>(getOut().getType()) ? Speculation::NotSpeculatable
                                             : Speculation::Speculatable;
}

LogicalResult
DropoutMaskOp::reifyResultShapes(OpBuilder &builder,
                                 ReifiedRankedShapedTypeDims &shapes) {
  if (!getResult())
    return failure();
  shapes.push_back(tensor::getMixedSizes(builder, getLoc(), getOut()));
  return success();
}

LogicalResult DropoutMaskOp::verify() {
  bool isBuffer = isa<MemRefType>(getOut().getType());
  for (auto [name, state] :
       {std::pair("seed", getSeed()), std::pair("offset", getOffset())})
    if (isa<ShapedType>(state.getType()) &&
        isa<MemRefType>(state.getType()) != isBuffer)
      return emitOpError()
             << "operands must be all tensors or all memrefs, but "
                "'out' is "
             << getOut().getType() << " and '" << name << "' is "
             << state.getType();
  if (failed(verifyStaticSize(*this, {"out", getOut(), 1})))
    return failure();
  bool isByRows = getLayout() == MaskLayout::Rows;
  unsigned queryDim = isByRows ? 2 : 3, keyDim = isByRows ? 3 : 2;
  for (auto [dim, multiple] : {std::pair(queryDim, countQueryWords(blockSize)),
                               std::pair(keyDim, countKeyWords(blockSize))}) {
    int64_t size = getDimSize(getOut(), dim);
    if (!ShapedType::isDynamic(size) && size % multiple != 0)
      return emitOpError() << "dimension " << dim
                           << " of 'out' must be a multiple of " << multiple
                           << " (was " << size << ")";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// OverlapOp
//===----------------------------------------------------------------------===//

ParseResult OverlapOp::parse(OpAsmParser &parser, OperationState &result) {
  if (succeeded(parser.parseOptionalKeyword("by"))) {
    StringRef keyword;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&keyword))
      return failure();
    std::optional<OverlapKind> kind = symbolizeOverlapKind(keyword);
    if (!kind)
      return parser.emitError(loc)
             << "unknown kind of overlap '" << keyword
             << "' (expected sequential, streams or fused)";
    result.getOrAddProperties<Properties>().kind =
        OverlapKindAttr::get(parser.getContext(), *kind);
  }
  do {
    if (parser.parseRegion(*result.addRegion(), /*arguments=*/{}))
      return failure();
  } while (succeeded(parser.parseOptionalKeyword("and")));
  return failure(parser.parseOptionalAttrDictWithKeyword(result.attributes) ||
                 parser.parseOptionalArrowTypeList(result.types));
}

void OverlapOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  if (std::optional<OverlapKind> kind = getKind())
    printer << "by " << stringifyOverlapKind(*kind) << ' ';
  llvm::interleave(
      getBodies(), [&](Region &body) { printer.printRegion(body); },
      [&] { printer << " and "; });
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(),
                                           {getKindAttrName()});
  printer.printOptionalArrowTypeList(getResultTypes());
}

OperandRange OverlapOp::getYielded(unsigned number) {
  return getBodies()[number].front().getTerminator()->getOperands();
}

unsigned OverlapOp::getFirstResult(unsigned number) {
  unsigned first = 0;
  for (unsigned i = 0; i < number; ++i)
    first += getYielded(i).size();
  return first;
}

/// Adds the memory that `region` writes, or only touches, to the lists.
static void collectTouched(Region &region, llvm::SmallDenseSet<Value> &written,
                           llvm::SmallDenseSet<Value> &touched) {
  region.walk([&](MemoryEffectOpInterface op) {
    SmallVector<MemoryEffects::EffectInstance> effects;
    op.getEffects(effects);
    for (const MemoryEffects::EffectInstance &effect : effects) {
      if (!effect.getValue() ||
          !isa<MemoryEffects::Read, MemoryEffects::Write>(effect.getEffect()))
        continue;
      touched.insert(effect.getValue());
      if (isa<MemoryEffects::Write>(effect.getEffect()))
        written.insert(effect.getValue());
    }
  });
}

LogicalResult OverlapOp::verifyRegions() {
  if (getBodies().size() < 2)
    return emitOpError("must have at least two regions (has ")
           << getBodies().size() << ")";
  SmallVector<Type> yielded;
  for (auto [number, body] : llvm::enumerate(getBodies())) {
    if (!isa<OverlapYieldOp>(body.front().back()))
      return emitOpError("region #")
             << number << " must end with 'attn.overlap_yield' (was '"
             << body.front().back().getName() << "')";
    llvm::append_range(yielded, getYielded(number).getTypes());
  }
  if (TypeRange(yielded) != getResultTypes())
    return emitOpError("results must be what the regions yield, ")
           << TypeRange(yielded) << " (was " << getResultTypes() << ")";
  for (auto [number, body] : llvm::enumerate(getBodies())) {
    llvm::SmallDenseSet<Value> written, ignored;
    collectTouched(body, written, ignored);
    for (auto [other, otherBody] : llvm::enumerate(getBodies())) {
      llvm::SmallDenseSet<Value> touched;
      collectTouched(otherBody, ignored, touched);
      if (other != number && llvm::any_of(written, [&](Value value) {
            return touched.contains(value);
          }))
        return emitOpError("region #")
               << number << " writes memory that region #" << other
               << " reads or writes";
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// AccumulateOp
//===----------------------------------------------------------------------===//

/// On a tensor, the effect is on the destination of the operation around.
void AccumulateOp::getEffects(EffectList &effects) {
  effects.emplace_back(MemoryEffects::Read::get(), &getDestinationMutable(),
                       SideEffects::DefaultResource::get());
  effects.emplace_back(MemoryEffects::Write::get(), &getDestinationMutable(),
                       SideEffects::DefaultResource::get());
}

LogicalResult AccumulateOp::verify() {
  auto type = cast<ShapedType>(getDestination().getType());
  if (static_cast<int64_t>(getIndices().size()) != type.getRank())
    return emitOpError() << "must have as many indices as 'destination' has "
                            "dimensions, "
                         << type.getRank() << " (was " << getIndices().size()
                         << ")";
  if (!isa<TensorType>(type))
    return success();
  auto argument = dyn_cast<BlockArgument>(getDestination());
  if (!argument || !isa_and_present<AttentionOpInterface>(
                       argument.getOwner()->getParentOp()))
    return emitOpError() << "destination must be a memref or an argument of a "
                            "score_grad region";
  return success();
}

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

std::optional<std::string> attn::whyNotPackHeads(AttentionOp attention) {
  int64_t queries = getDimSize(attention.getQuery(), 2);
  if (queries != 1)
    return "it needs one query for each head (has " +
           (ShapedType::isDynamic(queries) ? std::string("any number")
                                           : std::to_string(queries)) +
           ")";
  if (attention.getPlan())
    return "its plan is for tiles of queries of one head";
  if (attention.getHeadMap())
    return "a head map gives each query head a key head of its own";
  if (attention.hasSequences())
    return "sequences have lengths of their own";
  if (attention.hasDropout())
    return "dropout depends on the query head";
  if (attention.getIdentity())
    return "the weight of the identity depends on the query head";
  if (attention.getSinks())
    return "sinks depend on the query head";
  if (!attention.getQueryRegion().empty() || !attention.getEpilogue().empty())
    return "its query or epilogue region depends on the query head";
  return std::nullopt;
}

std::optional<std::string> attn::whyNotShareKeys(AttentionOp attention) {
  if (attention.getIdentity())
    return "the identity is mixed with the weights of all keys";
  if (!attention.getEpilogue().empty())
    return "its epilogue region is for the output of all keys";
  return std::nullopt;
}

bool attn::readsByPosition(Region &keep) {
  if (keep.empty())
    return false;
  // The arguments are batch, head, query and key.
  DenseSet<Value> dependent = {keep.getArgument(2), keep.getArgument(3)};
  return keep
      .walk<WalkOrder::PreOrder>([&](Operation *op) {
        auto isDependent = [&](Value operand) {
          return dependent.contains(operand);
        };
        if (llvm::none_of(op->getOperands(), isDependent))
          return WalkResult::advance();
        if (llvm::any_of(op->getOperandTypes(),
                         llvm::IsaPred<TensorType, BaseMemRefType>))
          return WalkResult::interrupt();
        dependent.insert_range(op->getResults());
        // What a nested region yields are results of the operation around it.
        if (op->hasTrait<OpTrait::IsTerminator>())
          dependent.insert_range(op->getParentOp()->getResults());
        for (Region &region : op->getRegions())
          dependent.insert_range(region.getArguments());
        return WalkResult::advance();
      })
      .wasInterrupted();
}
