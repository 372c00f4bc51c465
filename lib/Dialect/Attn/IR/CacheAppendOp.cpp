//===- CacheAppendOp.cpp - Keys and values for KV caches ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verifier and effects of attn.cache_append.
//
//===----------------------------------------------------------------------===//

#include "Destinations.h"
#include "OperandVerifiers.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/IR/TypeUtilities.h"

#include <numeric>

using namespace mlir;
using namespace mlir::attn;

MutableOperandRange CacheAppendOp::getDpsInitsMutable() {
  unsigned count = 2 + bool(getRotatedQuery()) + bool(getNewLengths());
  return MutableOperandRange(*this, getKeyCacheMutable().getOperandNumber(),
                             count);
}

KVAddressingAttrInterface CacheAppendOp::getAddressing() {
  if (getPageTable())
    return PagedKVAttr::get(getContext(), getDimSize(getKeyCache(), 2),
                            /*packed_queries=*/false);
  return PaddedKVAttr::get(getContext(), /*queries=*/false,
                           /*packed_queries=*/false);
}

static int64_t getElementBytes(Value value) {
  return getElementTypeOrSelf(value).getIntOrFloatBitWidth() / 8;
}

int64_t CacheAppendOp::getAccessWidth() {
  int64_t width = maxAccessBytes / getElementBytes(getKey());
  for (int64_t size : {getDimSize(getKey(), 3), getDimSize(getValue(), 3),
                       getNumRotated() / 2})
    width = std::gcd(width, size);
  return width;
}

bool CacheAppendOp::hasAlignedTables() {
  return getCos() &&
         getDimSize(getCos(), 1) * getElementBytes(getCos()) % maxAccessBytes ==
             0;
}

void CacheAppendOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  if (!isBufferized())
    return;
  for (OpOperand &operand : getOperation()->getOpOperands()) {
    // Caches keep the rows that are not written.
    if (!isDpsInit(&operand) || operand == getKeyCacheMutable() ||
        operand == getValueCacheMutable())
      effects.emplace_back(MemoryEffects::Read::get(), &operand,
                           SideEffects::DefaultResource::get());
    if (isDpsInit(&operand))
      effects.emplace_back(MemoryEffects::Write::get(), &operand,
                           SideEffects::DefaultResource::get());
  }
}

Speculation::Speculatability CacheAppendOp::getSpeculatability() {
  return isBufferized() ? Speculation::NotSpeculatable
                        : Speculation::Speculatable;
}

LogicalResult
CacheAppendOp::reifyResultShapes(OpBuilder &builder,
                                 ReifiedRankedShapedTypeDims &shapes) {
  return reifyDestinationShapes(builder, *this, shapes);
}

//===----------------------------------------------------------------------===//
// Verifier
//===----------------------------------------------------------------------===//

namespace {
/// Two dimensions of equal size.
struct EqualDims {
  NamedOperand operand;
  unsigned dim;
  NamedOperand expected;
  unsigned expectedDim;
};
} // namespace

/// The operands with heads.
static SmallVector<NamedOperand> getHeadOperands(CacheAppendOp op) {
  SmallVector<NamedOperand> operands = {{"key", op.getKey()},
                                        {"value", op.getValue()},
                                        {"key_cache", op.getKeyCache()},
                                        {"value_cache", op.getValueCache()}};
  if (op.getQuery())
    operands.append(
        {{"query", op.getQuery()}, {"rotated_query", op.getRotatedQuery()}});
  return operands;
}

/// Checks that operands that need each other are both given.
static LogicalResult verifyPresence(CacheAppendOp op) {
  if (bool(op.getCos()) != bool(op.getSin()))
    return op.emitOpError("needs both or none of 'cos' and 'sin'");
  if (bool(op.getQuery()) != bool(op.getRotatedQuery()))
    return op.emitOpError("needs both or none of 'query' and 'rotated_query'");
  if (op.getQuery() && !op.getCos())
    return op.emitOpError("'query' needs 'rotary'");
  if (op.getInterleaved() && !op.getCos())
    return op.emitOpError("'interleaved' needs 'rotary'");
  if (op.getSamePosition() && !op.getQuery())
    return op.emitOpError("'same_position' needs 'query'");
  if (bool(op.getKeyScale()) != bool(op.getValueScale()))
    return op.emitOpError("needs both or none of 'key_scale' and "
                          "'value_scale'");
  return success();
}

/// Checks the element type of the cache, and that it has the scales that are
/// given.
static LogicalResult verifyCacheTypes(CacheAppendOp op) {
  Type key = getElementTypeOrSelf(op.getKey());
  Type expected = getElementTypeOrSelf(op.getKeyCache());
  if (expected != key && !isFloat8(expected))
    return op.emitOpError("element type of 'key_cache' must be that of 'key', ")
           << key << ", or f8E4M3FN or f8E5M2 (was " << expected << ")";
  Type element = getElementTypeOrSelf(op.getValueCache());
  if (element != expected)
    return op.emitOpError("element type of 'value_cache' must be that of "
                          "'key_cache', ")
           << expected << " (was " << element << ")";
  if (op.getKeyScale() && !isFloat8(expected))
    return op.emitOpError("'scales' are for a cache of f8E4M3FN or f8E5M2 "
                          "(element type of 'key_cache' was ")
           << expected << ")";
  return success();
}

/// Checks that all operands are tensors or all are memrefs, the element types
/// of operands with heads, and their static sizes.
static LogicalResult verifyOperandTypes(CacheAppendOp op) {
  if (failed(verifyContainers(op, {"key", op.getKey()})))
    return failure();
  Type expected = getElementTypeOrSelf(op.getKey());
  for (NamedOperand operand : getHeadOperands(op)) {
    Type element = getElementTypeOrSelf(operand.value);
    bool isCache = operand.value == op.getKeyCache() ||
                   operand.value == op.getValueCache();
    if (!isCache && element != expected)
      return op.emitOpError("element type of '")
             << operand.name << "' must be that of 'key', " << expected
             << " (was " << element << ")";
    if (failed(verifyHeadSizes(op, operand)))
      return failure();
  }
  return verifyCacheTypes(op);
}

/// The pairs of sizes that must be equal.
static SmallVector<EqualDims> getEqualDims(CacheAppendOp op) {
  NamedOperand key{"key", op.getKey()}, value{"value", op.getValue()};
  NamedOperand keyCache{"key_cache", op.getKeyCache()};
  NamedOperand valueCache{"value_cache", op.getValueCache()};
  SmallVector<EqualDims> dims;
  for (unsigned dim : {0, 2}) {
    dims.push_back({value, dim, key, dim});
    dims.push_back({valueCache, dim, keyCache, dim});
  }
  for (unsigned dim : {1, 3}) {
    dims.push_back({keyCache, dim, key, dim});
    dims.push_back({valueCache, dim, value, dim});
  }
  SmallVector<NamedOperand> entries = {{"key_lengths", op.getKeyLengths()}};
  if (op.getPageTable())
    entries.push_back({"page_table", op.getPageTable()});
  else
    entries.push_back(keyCache);
  if (op.getNewLengths())
    entries.push_back({"new_lengths", op.getNewLengths()});
  if (op.getQuery()) {
    NamedOperand query{"query", op.getQuery()};
    entries.push_back(query);
    dims.push_back({query, 3, key, 3});
    for (unsigned dim : {0, 1, 2, 3})
      dims.push_back(
          {{"rotated_query", op.getRotatedQuery()}, dim, query, dim});
  }
  if (op.getKeyScale())
    for (auto [scale, scaled] :
         {std::pair(NamedOperand{"key_scale", op.getKeyScale()}, key),
          std::pair(NamedOperand{"value_scale", op.getValueScale()}, value)}) {
      entries.push_back(scale);
      dims.push_back({scale, 1, scaled, 1});
    }
  for (NamedOperand operand : entries)
    dims.push_back({operand, 0, key, 0});
  return dims;
}

static LogicalResult verifySizes(CacheAppendOp op) {
  for (const EqualDims &dims : getEqualDims(op)) {
    int64_t expected = getDimSize(dims.expected.value, dims.expectedDim);
    int64_t actual = getDimSize(dims.operand.value, dims.dim);
    if (!ShapedType::isDynamic(expected) && !ShapedType::isDynamic(actual) &&
        expected != actual)
      return op.emitOpError("dimension ")
             << dims.dim << " of '" << dims.operand.name
             << "' must match dimension " << dims.expectedDim << " of '"
             << dims.expected.name << "', " << expected << " (was " << actual
             << ")";
  }
  if (!op.getPageTable())
    return success();
  int64_t pageSize = getDimSize(op.getKeyCache(), 2);
  if (ShapedType::isDynamic(pageSize))
    return op.emitOpError(
        "dimension 2 of 'key_cache', the page size, must be static");
  auto emitError = [&] {
    return op.emitOpError("dimension 2 of 'key_cache' is not valid: ");
  };
  return PagedKVAttr::verifyPageSize(emitError, pageSize);
}

static LogicalResult verifyRotary(CacheAppendOp op) {
  if (!op.getCos())
    return success();
  auto cos = cast<ShapedType>(op.getCos().getType());
  auto sin = cast<ShapedType>(op.getSin().getType());
  if (cos.getElementType() != sin.getElementType() ||
      failed(verifyCompatibleShape(cos, sin)))
    return op.emitOpError("'sin' must have the shape and the element type of "
                          "'cos', ")
           << cos << " (was " << sin << ")";
  if (cos.isDynamicDim(1) || sin.isDynamicDim(1))
    return op.emitOpError("dimension 1 of 'cos' and 'sin' must be static");
  int64_t most = getDimSize(op.getKey(), 3) / 2;
  if (cos.getDimSize(1) < 1 || cos.getDimSize(1) > most)
    return op.emitOpError("dimension 1 of 'cos' must be at least 1 and at most "
                          "half the head dim of 'key', ")
           << most << " (was " << cos.getDimSize(1) << ")";
  return success();
}

LogicalResult CacheAppendOp::verify() {
  if (failed(verifyPresence(*this)) || failed(verifyOperandTypes(*this)) ||
      failed(verifySizes(*this)))
    return failure();
  return verifyRotary(*this);
}
