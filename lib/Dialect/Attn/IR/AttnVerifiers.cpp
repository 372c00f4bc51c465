//===- AttnVerifiers.cpp - Verification of attention ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The verifiers of attention, of its gradient, of keep masks of dropout, and of
// the regions of attn operations.
//
//===----------------------------------------------------------------------===//

#include "OperandVerifiers.h"
#include "RegionVerifier.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"

#include <cmath>

using namespace mlir;
using namespace mlir::attn;

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

/// Checks that `dim`, a number of heads or a head dim, is static and positive.
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

/// Checks that `operand` has the element type of the query, or f32 if
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

/// Checks the element types of keys and values: 8 bits where queries have 8
/// bits, and otherwise one type, which is the query's or has 8 bits.
static LogicalResult verifyKVElementTypes(AttentionOpInterface op) {
  Type query = getElementTypeOrSelf(op.getQuery());
  Type key = getElementTypeOrSelf(op.getKey());
  Type value = getElementTypeOrSelf(op.getValue());
  if (isFloat8(query)) {
    for (auto [name, element] : {std::pair("key", key), {"value", value}})
      if (!isFloat8(element))
        return op->emitOpError()
               << "element type of '" << name
               << "' must be f8E4M3FN or f8E5M2, as 'query' has " << query
               << " (was " << element << ")";
    return success();
  }
  if (!isFloat8(key))
    return success(
        succeeded(verifyElementType(op, "key", op.getKey(), false)) &&
        succeeded(verifyElementType(op, "value", op.getValue(), false)));
  if (value == key)
    return success();
  return op->emitOpError() << "element type of 'value' must be that of 'key', "
                           << key << " (was " << value << ")";
}

/// Checks the element type of the output of attention.
static LogicalResult verifyOutElementType(AttentionOpInterface op, Value out) {
  Type expected = getElementTypeOrSelf(op.getQuery());
  Type element = getElementTypeOrSelf(out);
  // The operands of gradients have no 8 bits there.
  if (isFloat8(expected) || isFloat8(element))
    return success();
  if (isa<AttentionGradOp>(op.getOperation()) || element == expected ||
      element.isF32())
    return verifyElementType(op, "out", out, true);
  return op->emitOpError() << "element type of 'out' must be that of 'query', "
                           << expected << ", or f32, f8E4M3FN or f8E5M2 (was "
                           << element << ")";
}

LogicalResult DenseKVAttr::verifyOperands(Operation *op) const {
  return success();
}

/// Checks the boundaries or lengths of the queries and keys of sequences.
static LogicalResult verifySequences(AttentionOpInterface op) {
  Value queries = op.getQuerySequences(), keys = op.getKeySequences();
  OperandDim queryDim{"query_sequences", queries, 0};
  OperandDim keyDim{"key_sequences", keys, 0};
  if (failed(verifySameContainer(
          op, {{queryDim.operand, queries}, {keyDim.operand, keys}})))
    return failure();
  return verifySameSize(op, queryDim, keyDim);
}

/// Checks that packed queries are in one batch entry and have boundaries.
static LogicalResult verifyOneBatchEntry(AttentionOpInterface op) {
  if (int64_t batch = getDimSize(op.getQuery(), 0); batch != 1)
    return op->emitOpError("dimension 0 of 'query' must be 1 where sequences "
                           "are packed (was ")
           << (ShapedType::isDynamic(batch) ? "?" : Twine(batch).str()) << ")";
  if (getDimSize(op.getQuerySequences(), 0) == 0)
    return op->emitOpError("'query_sequences' must have at least one entry "
                           "where sequences are packed");
  return success();
}

LogicalResult PackedKVAttr::verifyOperands(Operation *op) const {
  auto attention = cast<AttentionOpInterface>(op);
  if (failed(verifySequences(attention)))
    return failure();
  return verifyOneBatchEntry(attention);
}

/// Checks that an operation with the operand `name` for a KV cache has no
/// operands that need other lengths.
static LogicalResult verifyCacheOperands(AttentionOpInterface op,
                                         StringRef name) {
  if (isa<AttentionGradOp>(op.getOperation()))
    return op->emitOpError() << "must not have '" << name
                             << "': gradients of a KV cache are not supported";
  auto attention = dyn_cast<AttentionOp>(op.getOperation());
  for (auto [other, isUsed] :
       {std::pair("identity", attention && attention.getIdentity()),
        std::pair("block_mask", attention && attention.getBlockMask()),
        std::pair("dropout_mask", bool(op.getDropoutMask()))})
    if (isUsed)
      return op->emitOpError()
             << "'" << name << "' must not be used together with '" << other
             << "'";
  return success();
}

/// Checks the number of keys of each batch entry of a KV cache.
static LogicalResult verifyKeyLengths(AttentionOpInterface op) {
  StringRef name = "key_lengths";
  Value lengths = op.getKeyLengths();
  if (failed(verifySameContainer(op, {{name, lengths}})) ||
      failed(
          verifySameSize(op, {"query", op.getQuery(), 0}, {name, lengths, 0})))
    return failure();
  return verifyCacheOperands(op, name);
}

/// Checks the boundaries of packed queries, and the number of keys that each of
/// their sequences has in a KV cache.
static LogicalResult verifyPackedQueries(AttentionOpInterface op) {
  Value queries = op.getQuerySequences(), keys = op.getKeySequences();
  if (failed(verifySameContainer(
          op, {{"query_sequences", queries}, {"key_sequences", keys}})) ||
      failed(verifyOneBatchEntry(op)) ||
      failed(verifyCacheOperands(op, "packed_queries")))
    return failure();
  int64_t boundaries = getDimSize(queries, 0), sequences = getDimSize(keys, 0);
  if (ShapedType::isDynamic(boundaries) || ShapedType::isDynamic(sequences) ||
      boundaries == sequences + 1)
    return success();
  return op->emitOpError()
         << "dimension 0 of 'query_sequences' must be one more than dimension "
            "0 of 'key_sequences', "
         << sequences + 1 << " (was " << boundaries << ")";
}

LogicalResult PaddedKVAttr::verifyOperands(Operation *op) const {
  auto attention = cast<AttentionOpInterface>(op);
  if (!getQueries())
    return verifyKeyLengths(attention);
  if (getPackedQueries()) {
    if (failed(verifyPackedQueries(attention)))
      return failure();
    return verifySameSize(attention, {"key", attention.getKey(), 0},
                          {"key_sequences", attention.getKeySequences(), 0});
  }
  if (failed(verifySequences(attention)))
    return failure();
  return verifySameSize(attention, {"query", attention.getQuery(), 0},
                        {"query_sequences", attention.getQuerySequences(), 0});
}

LogicalResult PagedKVAttr::verifyOperands(Operation *op) const {
  auto attention = cast<AttentionOpInterface>(op);
  StringRef name = "page_table";
  Value table = attention.getPageTable();
  if (failed(getPackedQueries() ? verifyPackedQueries(attention)
                                : verifyKeyLengths(attention)) ||
      failed(verifySameContainer(attention, {{name, table}})))
    return failure();
  OperandDim entries{"query", attention.getQuery(), 0};
  if (getPackedQueries())
    entries = {"key_sequences", attention.getKeySequences(), 0};
  return verifySameSize(attention, entries, {name, table, 0});
}

/// Checks the operands that give the lengths of sequences and the places of
/// keys.
static LogicalResult verifyKVAddressing(AttentionOpInterface op) {
  Value queries = op.getQuerySequences(), keys = op.getKeySequences();
  if (op.hasSequences() != bool(queries) || bool(queries) != bool(keys))
    return op->emitOpError("needs all or none of 'sequence_layout', "
                           "'query_sequences' and 'key_sequences'");
  if (queries && op.getKeyLengths())
    return op->emitOpError(
        "'key_lengths' must not be used together with 'sequences'");
  if (op.getPageTable()) {
    if (!op.getKeyLengths() && !op.hasPackedQueries())
      return op->emitOpError("'page_table' needs 'key_lengths', or 'sequences' "
                             "whose queries alone are packed");
    int64_t pageSize = getDimSize(op.getKey(), 2);
    if (ShapedType::isDynamic(pageSize))
      return op->emitOpError(
          "dimension 2 of 'key', the page size, must be static");
    auto emitError = [&] {
      return op->emitOpError("dimension 2 of 'key' is not valid: ");
    };
    if (failed(PagedKVAttr::verifyPageSize(emitError, pageSize)))
      return failure();
  }
  return op.getAddressing().verifyOperands(op);
}

/// Checks that operands with an entry for each query head have that size.
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

/// Checks that keep masks of packed sequences have an entry of whole blocks for
/// each sequence.
static LogicalResult verifyMaskOfSequences(AttentionOpInterface op) {
  StringRef name = "dropout_mask";
  Value mask = op.getDropoutMask();
  int64_t boundaries = getDimSize(op.getQuerySequences(), 0);
  int64_t entries = getDimSize(mask, 0);
  if (!ShapedType::isDynamic(boundaries) && !ShapedType::isDynamic(entries) &&
      entries != boundaries - 1)
    return op->emitOpError()
           << "dimension 0 of '" << name << "' must count the sequences, "
           << boundaries - 1 << " (was " << entries << ")";
  bool isByRows = op.getMaskLayout() == MaskLayout::Rows;
  constexpr int64_t block = DropoutMaskOp::blockSize;
  for (auto [dim, words] :
       {std::pair(isByRows ? 2u : 3u, DropoutMaskOp::countQueryWords(block)),
        std::pair(isByRows ? 3u : 2u, DropoutMaskOp::countKeyWords(block))}) {
    int64_t size = getDimSize(mask, dim);
    if (!ShapedType::isDynamic(size) && (size == 0 || size % words != 0))
      return op->emitOpError() << "dimension " << dim << " of '" << name
                               << "' must be a multiple of " << words
                               << " above 0 (was " << size << ")";
  }
  return success();
}

/// Checks the operand that holds keep masks of dropout.
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
    return verifyMaskOfSequences(op);
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

/// Checks the positions of a shard.
static LogicalResult verifyPositions(AttentionOpInterface op) {
  Value positions = op.getPositions();
  if (op.getDropoutOnly() && !(positions && op.getDropoutAttr()))
    return op->emitOpError("'dropout_only' needs 'positions' and 'dropout'");
  if (!positions)
    return success();
  if (failed(verifySameContainer(op, {{"positions", positions}})))
    return failure();
  auto attention = dyn_cast<AttentionOp>(op.getOperation());
  SmallVector<std::pair<StringRef, bool>> others = {
      {"sequences", op.hasSequences() && op.isShard()},
      {"key_lengths", bool(op.getKeyLengths())}};
  // Code of masks, which block masks belong to, may include the offsets.
  if (op.isShard()) {
    bool hasIdentity =
        llvm::any_of(op.getHeadOperands(), [](const HeadOperand &operand) {
          return operand.name == "identity";
        });
    others.append({{"identity", hasIdentity},
                   {"reads", !op.getMaskReads().empty()},
                   {"block_mask", attention && attention.getBlockMask()}});
  }
  for (auto [other, isUsed] : others)
    if (isUsed)
      return op->emitOpError()
             << "'positions' must not be used together with '" << other << "'";
  return success();
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
  if (op.hasSequences() && !op.hasPackedQueries())
    return op->emitOpError(
        "mask must not read operands together with 'sequences'");
  Value keys = op.getPageTable() ? Value() : op.getKey();
  MaskReads scope{operands, op.getQuery(),        keys, {}, {},
                  {},       op.hasPackedQueries()};
  return mask.verifyReads([&] { return op->emitOpError("mask "); }, scope);
}

/// Checks the block mask.
static LogicalResult verifyBlockMask(AttentionOp op) {
  Value blockMask = op.getBlockMask();
  if (!blockMask)
    return success();
  if (op.hasSequences())
    return op->emitOpError(
        "'block_mask' must not be used together with 'sequences'");
  StringRef name = "block_mask";
  if (failed(verifySameContainer(op, {{name, blockMask}})) ||
      failed(verifyStaticSize(op, {name, blockMask, 1})) ||
      failed(verifySameSize(op, {"query", op.getQuery(), 0},
                            {name, blockMask, 0})))
    return failure();
  if (getDimSize(blockMask, 1) != 1 &&
      failed(verifySameSize(op, {"query", op.getQuery(), 1},
                            {name, blockMask, 1})))
    return failure();
  Attribute schedule = op.getScheduleAttr();
  auto [queries, keys] = op.getStaticLengths();
  if (failed(verifyBlockMaskSizes(op, blockMask, schedule, queries, keys)))
    return failure();
  auto made = blockMask.getDefiningOp<CreateBlockMaskOp>();
  if (!made || !schedule || !made.getScheduleAttr() ||
      made.getScheduleAttr() == schedule)
    return success();
  auto [queryTile, keyTile] = CreateBlockMaskOp::getTiles(schedule);
  auto [queryTileMade, keyTileMade] =
      CreateBlockMaskOp::getTiles(made.getScheduleAttr());
  bool isChoice = isa<ByQueryLengthAttr>(schedule) ||
                  isa<ByQueryLengthAttr>(made.getScheduleAttr());
  if (!isChoice && queryTile == queryTileMade && keyTile == keyTileMade)
    return success();
  InFlightDiagnostic diag =
      op->emitOpError() << "block mask must be created for the same schedule";
  diag.attachNote(made.getLoc()) << "it is for " << made.getScheduleAttr();
  return diag;
}

/// Checks the sizes of an operand against those of queries, keys and values.
static LogicalResult verifyOperandSizes(AttentionOpInterface op,
                                        const AttentionOperand &operand) {
  auto match = [&](StringRef name, Value reference, unsigned dim) {
    return verifySameSize(op, {name, reference, dim},
                          {operand.name, operand.value, dim});
  };
  StringRef side = operand.isQuerySide ? "query" : "key";
  Value sideValue = operand.isQuerySide ? op.getQuery() : op.getKey();
  // Values may have other heads than keys.
  StringRef heads = operand.hasValueHeads() ? "value" : side;
  Value headsValue = operand.hasValueHeads() ? op.getValue() : sideValue;
  // Pages of keys belong to no batch entry of the queries, and neither do the
  // keys of packed queries.
  bool isInCache =
      (op.getPageTable() || op.hasPackedQueries()) && !operand.isQuerySide;
  if (failed(match(isInCache ? "key" : "query",
                   isInCache ? op.getKey() : op.getQuery(), 0)) ||
      failed(match(heads, headsValue, 1)) || failed(match(side, sideValue, 2)))
    return failure();
  if (operand.headDim == HeadDimKind::Query)
    return match("query", op.getQuery(), 3);
  if (operand.headDim == HeadDimKind::Value)
    return match("value", op.getValue(), 3);
  return success();
}

/// Checks that query heads share key heads, and value heads, in groups of equal
/// size, or as a map says.
static LogicalResult verifyHeadCounts(AttentionOpInterface op) {
  int64_t queryHeads = op.getNumQueryHeads();
  int64_t keyHeads = op.getNumKeyHeads(), valueHeads = op.getNumValueHeads();
  if (op.getHeadMap()) {
    if (keyHeads == valueHeads)
      return success();
    return op->emitOpError() << "with 'head_map' must have as many heads of "
                                "'value' as of 'key', "
                             << keyHeads << " (was " << valueHeads << ")";
  }
  for (auto [name, heads] :
       {std::pair("key", keyHeads), std::pair("value", valueHeads)})
    if (queryHeads % heads != 0)
      return op->emitOpError()
             << "number of heads of 'query' must be a multiple of that of '"
             << name << "', " << heads << " (was " << queryHeads << ")";
  return success();
}

/// Checks the sizes of all operands, and the scale.
static LogicalResult verifySizes(AttentionOpInterface op) {
  SmallVector<AttentionOperand> operands = op.getShapedOperands();
  for (const AttentionOperand &operand : operands) {
    if (failed(verifyStaticSize(op, {operand.name, operand.value, 1})))
      return failure();
    if (operand.headDim != HeadDimKind::None &&
        failed(verifyStaticSize(op, {operand.name, operand.value, 3})))
      return failure();
  }
  for (const AttentionOperand &operand : operands)
    if (failed(verifyOperandSizes(op, operand)))
      return failure();

  if (failed(verifyHeadOperands(op)) || failed(verifyHeadCounts(op)))
    return failure();
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

/// The reason why an operation is not allowed in a region of `op`; empty if it
/// is.
static StringRef getObjection(DestinationStyleOpInterface op, Operation *nested,
                              function_ref<bool(Value)> isDestination) {
  if (isa<AttentionOpInterface, MapHeadsOp, MatmulOp, CreateBlockMaskOp>(
          nested))
    return "is not allowed in a region of attention or of a matmul";
  if (auto accumulate = dyn_cast<AccumulateOp>(nested))
    return isDestination(accumulate.getDestination())
               ? ""
               : "must add to a destination that is an argument of its "
                 "score_mod_grad region";
  if (llvm::any_of(nested->getOperands(), isDestination))
    return "uses a destination, which only 'attn.accumulate' may";
  auto interface = dyn_cast<MemoryEffectOpInterface>(nested);
  if (!interface)
    return nested->hasTrait<OpTrait::HasRecursiveMemoryEffects>()
               ? ""
               : "has unknown side effects";
  SmallVector<MemoryEffects::EffectInstance> effects;
  interface.getEffects(effects);
  for (const MemoryEffects::EffectInstance &effect : effects) {
    if (!isa<MemoryEffects::Read>(effect.getEffect()))
      return "has side effects";
    if (effect.getValue() &&
        llvm::is_contained(op.getDpsInits(), effect.getValue()))
      return "reads a buffer that the operation writes";
  }
  return "";
}

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
    StringRef objection = getObjection(op, nested, isDestination);
    if (objection.empty())
      return WalkResult::advance();
    InFlightDiagnostic diag = op->emitOpError()
                              << name << " region must only compute and read";
    diag.attachNote(nested->getLoc())
        << "'" << nested->getName() << "' " << objection;
    return WalkResult::interrupt();
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

/// Checks the score_mod and the mask_mod region.
static LogicalResult verifyScoreAndMaskMod(AttentionOpInterface op) {
  Builder builder(op.getContext());
  Type f32 = builder.getF32Type();
  Type index = builder.getIndexType();
  SmallVector<Type> types = {f32, index, index, index, index};
  if (failed(
          verifyAttentionRegion(op, "score_mod", op.getScoreMod(), types, f32)))
    return failure();
  return verifyAttentionRegion(op, "mask_mod", op.getMaskMod(),
                               ArrayRef<Type>(types).drop_front(),
                               builder.getI1Type());
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

/// Checks the operands that attention and its gradient have in common, except
/// for sizes; `captureGradients` are further operands to check.
static LogicalResult verifyOperands(AttentionOpInterface op, Value out,
                                    ValueRange captureGradients = {}) {
  SmallVector<std::pair<StringRef, Value>> operands;
  for (const AttentionOperand &operand : op.getShapedOperands())
    operands.emplace_back(operand.name, operand.value);
  for (Value gradient : captureGradients)
    operands.emplace_back("dcaptures", gradient);
  if (failed(verifyKVAddressing(op)) || failed(verifyDropout(op)) ||
      failed(verifyPositions(op)) || failed(verifyMaskReads(op)) ||
      failed(verifySameContainer(op, operands)) ||
      failed(verifyKVElementTypes(op)))
    return failure();
  return verifyOutElementType(op, out);
}

/// Checks the operands of the state from which attention goes on, except for
/// sizes.
static LogicalResult verifyState(AttentionOp op) {
  if (bool(op.getStateOut()) != bool(op.getStateLse()))
    return op.emitOpError("needs both or none of 'state_out' and 'state_lse'");
  if (op.getStateOut() && op.getIdentity())
    return op.emitOpError("'state' must not be used together with 'identity'");
  if (!op.getStateOut() || !op.isBufferized())
    return success();
  // Work items read the state after others may have written results.
  NamedOperand held[] = {{"state_out", op.getStateOut()},
                         {"state_lse", op.getStateLse()}};
  for (const NamedOperand &operand : held)
    if (llvm::is_contained(op.getDpsInits(), operand.value))
      return op.emitOpError("'")
             << operand.name
             << "' must not be a memref that the operation writes";
  return success();
}

LogicalResult AttentionOp::verify() {
  if (failed(verifyState(*this)) || failed(verifyOperands(*this, getOut())) ||
      failed(verifySizes(*this)))
    return failure();
  return verifyBlockMask(*this);
}

LogicalResult AttentionOp::verifyRegions() {
  Builder builder(getContext());
  Type f32 = builder.getF32Type(), index = builder.getIndexType();
  if (failed(verifyScoreAndMaskMod(*this)) ||
      failed(verifyAttentionRegion(*this, "query", getQueryRegion(),
                                   {f32, f32, index, index, index, index},
                                   f32)) ||
      failed(verifyAttentionRegion(*this, "epilogue", getEpilogue(),
                                   {f32, index, index, index, index}, f32)))
    return failure();
  if (readsKeyLengths() && !getQueryRegion().empty())
    return emitOpError() << "query region must not be used together with '"
                         << (hasSequences() ? "sequences" : "key_lengths")
                         << "'";
  if (hasSequences() && !getEpilogue().empty())
    return emitOpError(
        "epilogue region must not be used together with 'sequences'");
  return success();
}

/// Checks the element type of a gradient of queries, keys or values.
static LogicalResult verifyGradientType(AttentionGradOp op, StringRef name,
                                        Value gradient) {
  Type element = getElementTypeOrSelf(gradient);
  Type out = getElementTypeOrSelf(op.getOut());
  if (!isFloat8(getElementTypeOrSelf(op.getQuery())))
    return verifyElementType(op, name, gradient, true);
  if (element == out || element.isF32())
    return success();
  return op.emitOpError() << "element type of '" << name
                          << "' must be that of 'out', " << out
                          << ", or f32 (was " << element << ")";
}

LogicalResult AttentionGradOp::verify() {
  if (failed(verifyOperands(*this, getOut(), getDcaptures())) ||
      failed(verifyGradientType(*this, "dquery", getDquery())) ||
      failed(verifyGradientType(*this, "dkey", getDkey())) ||
      failed(verifyGradientType(*this, "dvalue", getDvalue())))
    return failure();
  Type outElement = getElementTypeOrSelf(getOut());
  Type doutElement = getElementTypeOrSelf(getDout());
  bool mayBeFloat8 = isFloat8(getElementTypeOrSelf(getKey()));
  if (outElement != doutElement && !(mayBeFloat8 && isFloat8(doutElement)))
    return emitOpError() << "element type of 'dout' must be that of 'out', "
                         << outElement
                         << (mayBeFloat8 ? ", or f8E4M3FN or f8E5M2" : "")
                         << " (was " << doutElement << ")";
  if (!getDcaptures().empty() && getScoreModGrad().empty())
    return emitOpError()
           << "with 'dcaptures' must have a score_mod_grad region";
  return verifySizes(*this);
}

LogicalResult AttentionGradOp::verifyRegions() {
  // The arguments come first: `getRegionDestinations` relies on them.
  Builder builder(getContext());
  Type f32 = builder.getF32Type();
  SmallVector<Type> types = {f32, f32};
  types.append(4, builder.getIndexType());
  llvm::append_range(types, getDcaptures().getTypes());
  if (failed(verifyAttentionRegion(*this, "score_mod_grad", getScoreModGrad(),
                                   types, f32)))
    return failure();
  return verifyScoreAndMaskMod(*this);
}

LogicalResult DropoutMaskOp::verify() {
  bool isBuffer = isa<MemRefType>(getOut().getType());
  for (auto [name, state] : {std::pair("seed", Value(getSeed())),
                             std::pair("offset", Value(getOffset())),
                             std::pair("positions", Value(getPositions()))})
    if (state && isa<ShapedType>(state.getType()) &&
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
