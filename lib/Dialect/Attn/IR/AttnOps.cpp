//===- AttnOps.cpp - Operations of the attn dialect -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Effects and shapes of the operations. AttnVerifiers.cpp has the verifiers of
// attention.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "Destinations.h"
#include "MatmulPrecision.h"
#include "attn/Dialect/Attn/IR/ClosedRegion.h"
#include "attn/Dialect/Attn/IR/KeepMaskLayout.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

#include <cmath>

using namespace mlir;
using namespace mlir::attn;

#include "attn/Dialect/Attn/IR/AttnOpInterfaces.cpp.inc"

#define GET_OP_CLASSES
#include "attn/Dialect/Attn/IR/AttnOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Effects
//===----------------------------------------------------------------------===//

static Speculation::Speculatability
getAttentionSpeculatability(AttentionOpInterface op) {
  return op.isBufferized() ? Speculation::NotSpeculatable
                           : Speculation::RecursivelySpeculatable;
}

/// Names the arguments of a region: first `names`, then the numbered
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
      {"query", "q", getQuery(), true, HeadDimKind::Query},
      {"key", "k", getKey(), false, HeadDimKind::Query},
      {"value", "v", getValue(), false, HeadDimKind::Value},
      {"out", "out", getOut(), true, HeadDimKind::Value}};
  if (Value lse = getLse())
    operands.push_back({"lse", "lse", lse, true, HeadDimKind::None});
  if (Value out = getStateOut())
    operands.push_back(
        {"state_out", "state_out", out, true, HeadDimKind::Value});
  if (Value lse = getStateLse())
    operands.push_back(
        {"state_lse", "state_lse", lse, true, HeadDimKind::None});
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
  return 2 * (getQKHeadDim() + getVHeadDim());
}

void AttentionOp::getAsmBlockArgumentNames(Region &region,
                                           OpAsmSetValueNameFn setName) {
  ArrayRef<StringLiteral> names = scoreArguments;
  if (&region == &getMaskMod())
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

//===----------------------------------------------------------------------===//
// AttentionGradOp
//===----------------------------------------------------------------------===//

MutableOperandRange AttentionGradOp::getDpsInitsMutable() {
  return MutableOperandRange(*this, getDqueryMutable().getOperandNumber(),
                             3 + getDcaptures().size());
}

bool AttentionGradOp::canOrderDq() {
  bool isPlain = !getMaskAttr() || isa<CausalAttr>(getMaskAttr());
  return isPlain && getMaskMod().empty() && getGroupSize() == 1 &&
         !hasSequences() && getDcaptures().empty();
}

bool AttentionGradOp::statesScoreGrad() { return !getScoreModGrad().empty(); }

SmallVector<AttentionOperand> AttentionGradOp::getShapedOperands() {
  SmallVector<AttentionOperand> operands = {
      {"query", "q", getQuery(), true, HeadDimKind::Query},
      {"key", "k", getKey(), false, HeadDimKind::Query},
      {"value", "v", getValue(), false, HeadDimKind::Value},
      {"out", "out", getOut(), true, HeadDimKind::Value},
      {"lse", "lse", getLse(), true, HeadDimKind::None},
      {"dout", "dout", getDout(), true, HeadDimKind::Value}};
  if (Value dlse = getDlse())
    operands.push_back({"dlse", "dlse", dlse, true, HeadDimKind::None});
  operands.append({{"dquery", "dq", getDquery(), true, HeadDimKind::Query},
                   {"dkey", "dk", getDkey(), false, HeadDimKind::Query},
                   {"dvalue", "dv", getDvalue(), false, HeadDimKind::Value}});
  return operands;
}

SmallVector<HeadOperand> AttentionGradOp::getHeadOperands() {
  if (Value identity = getIdentity())
    return {{"identity", "identity", identity}};
  return {};
}

SmallVector<RegionDestination> AttentionGradOp::getRegionDestinations() {
  SmallVector<RegionDestination> destinations;
  if (getScoreModGrad().empty())
    return destinations;
  unsigned numScalars = std::size(scoreGradArguments);
  for (auto [destination, argument] :
       llvm::zip_equal(llvm::make_pointer_range(getDcapturesMutable()),
                       getScoreModGrad().getArguments().drop_front(numScalars)))
    destinations.push_back({destination, argument});
  return destinations;
}

/// The scores and four gradients, two of which have the head dim of V.
int64_t AttentionGradOp::getFlopsPerPair() {
  return 2 * (3 * getQKHeadDim() + 2 * getVHeadDim());
}

void AttentionGradOp::getAsmBlockArgumentNames(Region &region,
                                               OpAsmSetValueNameFn setName) {
  ArrayRef<StringLiteral> names = scoreArguments;
  if (&region == &getMaskMod())
    names = names.drop_front();
  else if (&region == &getScoreModGrad())
    names = scoreGradArguments;
  setArgumentNames(region, names, setName);
}

void AttentionGradOp::getEffects(EffectList &effects) {
  addOperandEffects(*this, effects);
  if (isBufferized())
    for (OpOperand &operand : getDcapturesMutable())
      effects.emplace_back(MemoryEffects::Read::get(), &operand,
                           SideEffects::DefaultResource::get());
  // Reads of the regions. `attn.accumulate` writes destinations, which are
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

SmallVector<OpFoldResult>
attn::emitKeepMaskSizes(OpBuilder &builder, Location loc, OpFoldResult batch,
                        OpFoldResult heads, OpFoldResult queries,
                        OpFoldResult keys) {
  constexpr int64_t block = DropoutMaskOp::blockSize;
  auto emitWords = [&](OpFoldResult positions,
                       int64_t (*count)(int64_t)) -> OpFoldResult {
    if (std::optional<int64_t> size = getConstantIntValue(positions))
      return builder.getIndexAttr(count(*size));
    Value blocks = arith::CeilDivUIOp::create(
        builder, loc, cast<Value>(positions),
        arith::ConstantIndexOp::create(builder, loc, block));
    Value unit = arith::ConstantIndexOp::create(builder, loc, count(block));
    return arith::MulIOp::create(builder, loc, blocks, unit).getResult();
  };
  return {batch, heads, emitWords(queries, DropoutMaskOp::countQueryWords),
          emitWords(keys, DropoutMaskOp::countKeyWords)};
}

void DropoutMaskOp::getEffects(EffectList &effects) {
  addOperandEffects(*this, effects);
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

/// On a tensor, the effect is on the destination of the parent operation.
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
                            "score_mod_grad region";
  return success();
}

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

std::optional<std::string> attn::whyNotPackGqa(AttentionOp attention) {
  constexpr int64_t maxQueries = 64;
  int64_t queries = getDimSize(attention.getQuery(), 2);
  // Packed queries of sequences may be few for each, however many are stored.
  if (attention.hasSequences() && !attention.hasPackedQueries())
    return "sequences have lengths of their own, and are not packed queries of "
           "a KV cache";
  if (!attention.hasSequences() &&
      (ShapedType::isDynamic(queries) || queries < 1 || queries > maxQueries))
    return "it needs 1 to " + std::to_string(maxQueries) +
           " queries for each head (has " +
           (ShapedType::isDynamic(queries) ? std::string("any number")
                                           : std::to_string(queries)) +
           ")";
  if (attention.getBlockMask())
    return "its block mask is for tiles of queries of one head";
  if (attention.getHeadMap())
    return "a head map gives each query head a key head of its own";
  if (attention.hasDropout())
    return "dropout depends on the query head";
  if (attention.getIdentity())
    return "the weight of the identity depends on the query head";
  if (!attention.getQueryRegion().empty())
    return "its query region depends on the query head";
  return std::nullopt;
}

std::optional<std::string> attn::whyNotReshapeGqa(AttentionOp attention) {
  if (std::optional<std::string> reason = whyNotPackGqa(attention))
    return reason;
  if (int64_t queries = getDimSize(attention.getQuery(), 2); queries != 1)
    return "kernels of the host need one query for each head (has " +
           std::to_string(queries) + ")";
  if (attention.hasSequences())
    return "sequences have lengths of their own";
  if (attention.getSinks())
    return "kernels of the host have one sink for a tile";
  return std::nullopt;
}

std::optional<std::string> attn::whyNotFloat8(AttentionOp attention) {
  if (attention.hasSequences())
    return "sequences may begin at any row";
  if (attention.getKeyLengths())
    return "a KV cache is read in place, and values would be transposed";
  if (attention.getIdentity())
    return "the identity is mixed with values in registers";
  if (!attention.getQueryRegion().empty())
    return "its query region computes queries in registers";
  return std::nullopt;
}

std::optional<std::string> attn::whyNotSplitKV(AttentionOp attention) {
  if (attention.getIdentity())
    return "the identity is mixed with the attention probabilities of all keys";
  return std::nullopt;
}

std::optional<std::string> attn::whyNotCluster(AttentionOp attention) {
  if (attention.hasSequences())
    return "tiles of queries that are neighbours may be of different sequences";
  if (attention.getPageTable())
    return "a tile of keys is copied from several pages";
  if (needsClassification(attention))
    return "kernels classify the tiles of its mask, so that each tile of "
           "queries has a list of key tiles of its own";
  return std::nullopt;
}

bool attn::hasValuesInKeys(AttentionOpInterface attention) {
  auto slice =
      attention.getValue().getDefiningOp<OffsetSizeAndStrideOpInterface>();
  if (!slice || slice->getOperand(0) != attention.getKey() ||
      cast<ShapedType>(attention.getValue().getType()).getRank() !=
          cast<ShapedType>(attention.getKey().getType()).getRank() ||
      attention.getNumValueHeads() != attention.getNumKeyHeads())
    return false;
  // Values have as many rows as keys in any case.
  auto areAll = [](ArrayRef<OpFoldResult> numbers, int64_t number) {
    return llvm::all_of(numbers, [&](OpFoldResult found) {
      return isConstantIntValue(found, number);
    });
  };
  return areAll(slice.getMixedOffsets(), 0) &&
         areAll(slice.getMixedStrides(), 1);
}

bool attn::needsClassification(AttentionOpInterface attention) {
  Region &maskMod = attention.getMaskMod();
  return !attention.readsKeyLengths() && !maskMod.empty() &&
         (attention->hasAttr(AttnDialect::getClassifiedTilesAttrName()) ||
          readsByPosition(maskMod));
}

bool attn::readsByPosition(Region &maskMod) {
  if (maskMod.empty())
    return false;
  // The arguments are batch, head, query and key.
  DenseSet<Value> dependent = {maskMod.getArgument(2), maskMod.getArgument(3)};
  return maskMod
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
        // Values that a nested region yields are results of its parent
        // operation.
        if (op->hasTrait<OpTrait::IsTerminator>())
          dependent.insert_range(op->getParentOp()->getResults());
        for (Region &region : op->getRegions())
          dependent.insert_range(region.getArguments());
        return WalkResult::advance();
      })
      .wasInterrupted();
}
