//===- KVAddressing.cpp - Where keys and values are stored ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rows of sequences in the tensors of keys and values, for each KV
// addressing, and the heads that query heads share. AttnVerifiers.cpp checks
// their operands.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::attn;

KVAddressingAttrInterface attn::getOperandAddressing(AttentionOpInterface op) {
  MLIRContext *context = op.getContext();
  bool packsQueries = op.hasPackedQueries();
  if (op.getSequenceLayout() == SequenceLayout::Packed)
    return PackedKVAttr::get(context);
  if (op.getPageTable())
    return PagedKVAttr::get(context, getDimSize(op.getKey(), 2), packsQueries);
  if (op.hasSequences())
    return PaddedKVAttr::get(context, /*queries=*/true, packsQueries);
  if (op.getKeyLengths())
    return PaddedKVAttr::get(context, /*queries=*/false,
                             /*packed_queries=*/false);
  return DenseKVAttr::get(context);
}

/// The key or value head, of `numShared`, that head `head` of `numHeads` reads.
static Value emitSharedHead(OpBuilder &builder, Location loc, Value head,
                            int64_t numHeads, int64_t numShared) {
  if (numHeads == numShared)
    return head;
  Value size =
      arith::ConstantIndexOp::create(builder, loc, numHeads / numShared);
  return arith::DivUIOp::create(builder, loc, head, size);
}

KeyValueHeads attn::emitSharedHeads(OpBuilder &builder, Location loc,
                                    Value head, int64_t numHeads,
                                    int64_t keyHeads, int64_t valueHeads) {
  Value keyHead = emitSharedHead(builder, loc, head, numHeads, keyHeads);
  if (keyHeads == valueHeads)
    return {keyHead, keyHead};
  return {keyHead, emitSharedHead(builder, loc, head, numHeads, valueHeads)};
}

Value attn::emitContiguousRow(OpBuilder &builder, Location loc, Value first,
                              Value key) {
  return arith::AddIOp::create(builder, loc, first, key);
}

static Value emitSize(OpBuilder &builder, Location loc, Value operand,
                      int64_t dim) {
  if (isa<TensorType>(operand.getType()))
    return builder.createOrFold<tensor::DimOp>(loc, operand, dim);
  return builder.createOrFold<memref::DimOp>(loc, operand, dim);
}

static Value loadIndex(OpBuilder &builder, Location loc, Value operand,
                       Value index) {
  Value element;
  if (isa<TensorType>(operand.getType()))
    element = tensor::ExtractOp::create(builder, loc, operand, index);
  else
    element = memref::LoadOp::create(builder, loc, operand, index);
  return arith::IndexCastOp::create(builder, loc, builder.getIndexType(),
                                    element);
}

static Value emitAtMost(OpBuilder &builder, Location loc, Value lhs,
                        Value rhs) {
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle, lhs,
                               rhs);
}

/// The rows from 0 on, as many as entry `sequence` of `lengths` says.
static SequenceRows emitFirstRows(OpBuilder &builder, Location loc,
                                  Value lengths, Value stored, Value sequence) {
  Value zero = arith::ConstantIndexOp::create(builder, loc, 0);
  Value length = loadIndex(builder, loc, lengths, sequence);
  Value isValid = arith::AndIOp::create(
      builder, loc, emitAtMost(builder, loc, zero, length),
      emitAtMost(builder, loc, length, stored));
  return {zero, length, isValid};
}

/// The rows between boundaries `sequence` and `sequence + 1`.
static SequenceRows emitPackedRows(OpBuilder &builder, Location loc,
                                   Value boundaries, Value stored,
                                   Value sequence) {
  Value zero = arith::ConstantIndexOp::create(builder, loc, 0);
  Value begin = loadIndex(builder, loc, boundaries, sequence);
  Value one = arith::ConstantIndexOp::create(builder, loc, 1);
  Value next = arith::AddIOp::create(builder, loc, sequence, one);
  Value end = loadIndex(builder, loc, boundaries, next);
  Value isFirst = emitAtMost(builder, loc, zero, begin);
  Value isSorted = emitAtMost(builder, loc, begin, end);
  Value isLast = emitAtMost(builder, loc, end, stored);
  Value isInOrder = arith::AndIOp::create(builder, loc, isSorted, isLast);
  Value isValid = arith::AndIOp::create(builder, loc, isFirst, isInOrder);
  Value length = arith::SubIOp::create(builder, loc, end, begin);
  return {begin, length, isValid};
}

SequenceRows attn::emitQueryRows(OpBuilder &builder, Location loc,
                                 KVAddressingAttrInterface addressing,
                                 Value lengths, Value stored, Value sequence) {
  if (addressing.packsQueries())
    return emitPackedRows(builder, loc, lengths, stored, sequence);
  return emitFirstRows(builder, loc, lengths, stored, sequence);
}

MaskPosition attn::emitMaskPosition(OpBuilder &builder, Location loc,
                                    AttentionOpInterface op, ValueRange at,
                                    Value storedQueries, Value storedKeys) {
  MaskPosition position{at[0], at[1], at[2], at[3], storedQueries, storedKeys};
  KVAddressingAttrInterface addressing = op.getAddressing();
  if (Value sequences = op.getQuerySequences()) {
    SequenceRows rows = emitQueryRows(builder, loc, addressing, sequences,
                                      storedQueries, at[0]);
    position.queryLength = rows.length;
    if (addressing.packsQueries())
      position.firstQueryRow = rows.first;
  }
  Value sequences = op.getKeySequences();
  if (Value lengths = sequences ? sequences : op.getKeyLengths())
    position.keyLength =
        addressing.emitRows(builder, loc, lengths, storedKeys, at[0]).length;
  return position;
}

//===----------------------------------------------------------------------===//
// DenseKVAttr
//===----------------------------------------------------------------------===//

Value DenseKVAttr::emitMaxKeys(OpBuilder &builder, Location loc, Value key,
                               Value) const {
  return emitSize(builder, loc, key, 2);
}

SequenceRows DenseKVAttr::emitRows(OpBuilder &builder, Location loc, Value,
                                   Value stored, Value) const {
  return {arith::ConstantIndexOp::create(builder, loc, 0), stored,
          arith::ConstantIntOp::create(builder, loc, 1, 1)};
}

//===----------------------------------------------------------------------===//
// PackedKVAttr
//===----------------------------------------------------------------------===//

bool PackedKVAttr::isListed() const { return true; }

bool PackedKVAttr::packsQueries() const { return true; }

bool PackedKVAttr::hasEntries() const { return false; }

Value PackedKVAttr::emitMaxKeys(OpBuilder &builder, Location loc, Value key,
                                Value) const {
  return emitSize(builder, loc, key, 2);
}

SequenceRows PackedKVAttr::emitRows(OpBuilder &builder, Location loc,
                                    Value lengths, Value stored,
                                    Value sequence) const {
  return emitPackedRows(builder, loc, lengths, stored, sequence);
}

//===----------------------------------------------------------------------===//
// PaddedKVAttr
//===----------------------------------------------------------------------===//

bool PaddedKVAttr::isListed() const { return getQueries(); }

bool PaddedKVAttr::packsQueries() const { return getPackedQueries(); }

Value PaddedKVAttr::emitMaxKeys(OpBuilder &builder, Location loc, Value key,
                                Value) const {
  return emitSize(builder, loc, key, 2);
}

SequenceRows PaddedKVAttr::emitRows(OpBuilder &builder, Location loc,
                                    Value lengths, Value stored,
                                    Value sequence) const {
  return emitFirstRows(builder, loc, lengths, stored, sequence);
}

//===----------------------------------------------------------------------===//
// PagedKVAttr
//===----------------------------------------------------------------------===//

LogicalResult
PagedKVAttr::verifyPageSize(function_ref<InFlightDiagnostic()> emitError,
                            int64_t pageSize) {
  if (pageSize >= minPageSize && pageSize <= maxPageSize &&
      llvm::isPowerOf2_64(uint64_t(pageSize)))
    return success();
  return emitError() << "page size must be a power of two from " << minPageSize
                     << " to " << maxPageSize << " (was " << pageSize << ")";
}

LogicalResult PagedKVAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                  int64_t pageSize, bool) {
  return verifyPageSize(emitError, pageSize);
}

bool PagedKVAttr::isListed() const { return getPackedQueries(); }

bool PagedKVAttr::packsQueries() const { return getPackedQueries(); }

int64_t PagedKVAttr::getMaxKeys(Value, Value pageTable) const {
  int64_t pages = getDimSize(pageTable, 1);
  return ShapedType::isDynamic(pages) ? pages : pages * getPageSize();
}

Value PagedKVAttr::emitMaxKeys(OpBuilder &builder, Location loc, Value,
                               Value pageTable) const {
  Value pages = emitSize(builder, loc, pageTable, 1);
  Value pageSize = arith::ConstantIndexOp::create(builder, loc, getPageSize());
  return builder.createOrFold<arith::MulIOp>(loc, pages, pageSize);
}

SequenceRows PagedKVAttr::emitRows(OpBuilder &builder, Location loc,
                                   Value lengths, Value stored,
                                   Value sequence) const {
  return emitFirstRows(builder, loc, lengths, stored, sequence);
}
