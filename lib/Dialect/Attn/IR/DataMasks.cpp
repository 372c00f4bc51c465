//===- DataMasks.cpp - Masks that read operands ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Named masks that depend on data, and the operations that compute the tables
// they read.
//
//===----------------------------------------------------------------------===//

#include "Destinations.h"
#include "attn/Dialect/Attn/IR/AttnAttrs.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::attn;

/// Bits of a word of a bitmap.
static constexpr int64_t wordBits = 32;
/// Sizes of blocks are multiples of this.
static constexpr int64_t blockSizeUnit = 16;
/// Document numbers of positions in no document. They differ, so that such
/// queries and keys do not match.
static constexpr int32_t noQueryDocument = -1;
static constexpr int32_t noKeyDocument = -2;

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

namespace {
/// Emits reads of tensors and memrefs, and their indices.
struct TableBuilder : ImplicitLocOpBuilder {
  using ImplicitLocOpBuilder::ImplicitLocOpBuilder;

  Value constant(int64_t value) {
    return arith::ConstantIndexOp::create(*this, value);
  }
  Value divide(Value lhs, int64_t rhs) {
    return arith::DivUIOp::create(*this, lhs, constant(rhs));
  }
  Value ceilDivide(Value lhs, int64_t rhs) {
    Value rounded = arith::AddIOp::create(*this, lhs, constant(rhs - 1));
    return divide(rounded, rhs);
  }
  Value size(Value source, int64_t dim) {
    if (isa<MemRefType>(source.getType()))
      return createOrFold<memref::DimOp>(source, dim);
    return createOrFold<tensor::DimOp>(source, dim);
  }
  Value read(Value source, ValueRange indices) {
    if (isa<MemRefType>(source.getType()))
      return memref::LoadOp::create(*this, source, indices);
    return tensor::ExtractOp::create(*this, source, indices);
  }
  /// `index`, or 0 in a dimension of size one, which all share.
  Value select(Value source, int64_t dim, Value index) {
    return getDimSize(source, dim) == 1 ? constant(0) : index;
  }
  /// Whether bit `number` of the words `source[leading..., number / 32]` is
  /// set.
  Value readBit(Value source, SmallVector<Value> leading, Value number) {
    leading.push_back(divide(number, wordBits));
    Value word = read(source, leading);
    Value rest = arith::RemUIOp::create(*this, number, constant(wordBits));
    Value shift = arith::IndexCastOp::create(*this, getI32Type(), rest);
    Value shifted = arith::ShRUIOp::create(*this, word, shift);
    return arith::TruncIOp::create(*this, getI1Type(), shifted);
  }
  /// An array for a table, with the first `leading` dimensions of `like`,
  /// followed by `sizes`.
  Value makeTable(Value like, int64_t leading, ValueRange sizes) {
    auto type = cast<ShapedType>(like.getType());
    SmallVector<int64_t> shape(type.getShape().take_front(leading));
    SmallVector<Value> dynamic;
    for (int64_t dim = 0; dim < leading; ++dim)
      if (type.isDynamicDim(dim))
        dynamic.push_back(size(like, dim));
    shape.append(sizes.size(), ShapedType::kDynamic);
    llvm::append_range(dynamic, sizes);
    if (isa<MemRefType>(type))
      return memref::AllocOp::create(
          *this, MemRefType::get(shape, getI32Type()), dynamic);
    return tensor::EmptyOp::create(*this, shape, getI32Type(), dynamic);
  }
};
} // namespace

/// The results of an operation on `table`.
static SmallVector<Type> getTableTypes(Value table) {
  if (isa<MemRefType>(table.getType()))
    return {};
  return {table.getType()};
}

/// The table that `op` wrote to `table`.
static Value getWritten(Operation *op, Value table) {
  return op->getNumResults() == 0 ? table : Value(op->getResult(0));
}

static ScheduleAttrInterface getTableSchedule(const MaskReads &reads) {
  return cast_if_present<ScheduleAttrInterface>(reads.schedule);
}

/// An unknown predicate that depends on the pair.
static Value emitUnknown(OpBuilder &builder, Location loc,
                         const MaskPosition &at) {
  return UnrealizedConversionCastOp::create(
             builder, loc, TypeRange(builder.getI1Type()),
             ValueRange{at.batch, at.head, at.query, at.key})
      .getResult(0);
}

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

/// Checks that operand `number` has `rank` dimensions, of which the first
/// `shared` have the query's size or 1.
static LogicalResult verifyRead(function_ref<InFlightDiagnostic()> emitError,
                                const MaskReads &reads, StringRef name,
                                int64_t number, int64_t rank, int64_t shared) {
  auto type = cast<ShapedType>(reads.operands[number].getType());
  if (type.getRank() != rank)
    return emitError() << "operand " << number << " of 'reads', '" << name
                       << "', must have " << rank << " dimensions (was "
                       << type.getRank() << ")";
  for (int64_t dim = 0; dim < shared; ++dim) {
    int64_t size = type.getDimSize(dim),
            expected = getDimSize(reads.query, dim);
    if (size == 1 || size == expected || ShapedType::isDynamic(size) ||
        ShapedType::isDynamic(expected))
      continue;
    return emitError()
           << "dimension " << dim << " of operand " << number
           << " of 'reads', '" << name << "', must be 1"
           << (expected == 1 ? Twine() : " or " + Twine(expected)).str()
           << " (was " << size << ")";
  }
  return success();
}

/// Checks that the last dimension of operand `number` is `expected`, as far as
/// both are static.
static LogicalResult
verifyLastSize(function_ref<InFlightDiagnostic()> emitError,
               const MaskReads &reads, StringRef name, int64_t number,
               int64_t expected) {
  auto type = cast<ShapedType>(reads.operands[number].getType());
  int64_t size = type.getShape().back();
  if (size == expected || ShapedType::isDynamic(size) ||
      ShapedType::isDynamic(expected))
    return success();
  return emitError() << "dimension " << type.getRank() - 1 << " of operand "
                     << number << " of 'reads', '" << name << "', must be "
                     << expected << " (was " << size << ")";
}

/// Checks that queries are rows of the operands that `mask` reads.
static LogicalResult
verifyUnpacked(function_ref<InFlightDiagnostic()> emitError,
               const MaskReads &reads, Attribute mask) {
  if (!reads.areQueriesPacked)
    return success();
  return emitError() << mask
                     << " must not read operands together with 'sequences'";
}

/// Adds that the first `shared` dimensions of operand `number` have the sizes
/// of the query, unless they are of size one. Its last dimension has the size
/// of dimension `otherDim` of `other`, if that is given.
static void addEqualSizes(SmallVectorImpl<EqualSizes> &sizes,
                          const MaskReads &reads, int64_t number,
                          int64_t shared, Value other = {},
                          int64_t otherDim = 2) {
  Value operand = reads.operands[number];
  for (int64_t dim = 0; dim < shared; ++dim)
    if (getDimSize(operand, dim) != 1)
      sizes.push_back({operand, dim, reads.query, dim});
  if (other)
    sizes.push_back({operand, shared, other, otherDim});
}

//===----------------------------------------------------------------------===//
// DocumentsAttr
//===----------------------------------------------------------------------===//

SmallVector<int64_t> DocumentsAttr::getReads() const {
  return {getQueries(), getKeys()};
}

LogicalResult
DocumentsAttr::verifyReads(function_ref<InFlightDiagnostic()> emitError,
                           const MaskReads &reads) const {
  if (failed(verifyUnpacked(emitError, reads, *this)))
    return failure();
  if (!reads.key)
    return emitError() << *this
                       << " must not be used together with 'page_table', which "
                          "does not say how many keys have an id";
  for (auto [name, number, sized] :
       {std::tuple("queries", getQueries(), reads.query),
        std::tuple("keys", getKeys(), reads.key)})
    if (failed(verifyRead(emitError, reads, name, number, 2, 1)) ||
        failed(verifyLastSize(emitError, reads, name, number,
                              getDimSize(sized, 2))))
      return failure();
  return success();
}

SmallVector<EqualSizes>
DocumentsAttr::getEqualSizes(const MaskReads &reads) const {
  SmallVector<EqualSizes> sizes;
  addEqualSizes(sizes, reads, getQueries(), 1, reads.query);
  addEqualSizes(sizes, reads, getKeys(), 1, reads.key);
  return sizes;
}

SmallVector<Value> DocumentsAttr::emitTables(OpBuilder &, Location,
                                             const MaskReads &reads) const {
  return {reads.operands[getQueries()], reads.operands[getKeys()]};
}

/// Emits whether a query and a key have the same document in `tables`.
static Value emitSameDocument(OpBuilder &builder, Location loc,
                              const MaskPosition &at, ValueRange tables) {
  TableBuilder b(loc, builder);
  Value query = b.read(tables[0], {b.select(tables[0], 0, at.batch), at.query});
  Value key = b.read(tables[1], {b.select(tables[1], 0, at.batch), at.key});
  return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, query, key);
}

Value DocumentsAttr::emitPredicate(OpBuilder &builder, Location loc,
                                   const MaskPosition &at) const {
  if (!at.getTables)
    return emitUnknown(builder, loc, at);
  return emitSameDocument(builder, loc, at, at.getTables(*this));
}

bool DocumentsAttr::isAttended(int64_t, int64_t, int64_t, int64_t) const {
  return true;
}

//===----------------------------------------------------------------------===//
// PackedDocumentsAttr
//===----------------------------------------------------------------------===//

SmallVector<int64_t> PackedDocumentsAttr::getReads() const {
  return {getQueries(), getKeys()};
}

LogicalResult
PackedDocumentsAttr::verifyReads(function_ref<InFlightDiagnostic()> emitError,
                                 const MaskReads &reads) const {
  if (failed(verifyUnpacked(emitError, reads, *this)) ||
      failed(verifyRead(emitError, reads, "queries", getQueries(), 2, 1)) ||
      failed(verifyRead(emitError, reads, "keys", getKeys(), 2, 1)))
    return failure();
  int64_t queries =
      cast<ShapedType>(reads.operands[getQueries()].getType()).getDimSize(1);
  if (queries == 0)
    return emitError() << "operand " << getQueries()
                       << " of 'reads', 'queries', must have a boundary";
  return verifyLastSize(emitError, reads, "keys", getKeys(), queries);
}

SmallVector<EqualSizes>
PackedDocumentsAttr::getEqualSizes(const MaskReads &reads) const {
  SmallVector<EqualSizes> sizes;
  addEqualSizes(sizes, reads, getQueries(), 1);
  // As many documents of keys as of queries.
  addEqualSizes(sizes, reads, getKeys(), 1, reads.operands[getQueries()], 1);
  return sizes;
}

SmallVector<Value>
PackedDocumentsAttr::emitTables(OpBuilder &builder, Location loc,
                                const MaskReads &reads) const {
  TableBuilder b(loc, builder);
  auto emitIds = [&](int64_t number, Value length, int32_t otherwise) -> Value {
    Value boundaries = reads.operands[number];
    Value table = b.makeTable(boundaries, 1, length);
    auto ids = SequenceIdsOp::create(b, getTableTypes(table), boundaries, table,
                                     otherwise, getTableSchedule(reads));
    return getWritten(ids, table);
  };
  return {emitIds(getQueries(), reads.queryLength, noQueryDocument),
          emitIds(getKeys(), reads.keyLength, noKeyDocument)};
}

Value PackedDocumentsAttr::emitPredicate(OpBuilder &builder, Location loc,
                                         const MaskPosition &at) const {
  if (!at.getTables)
    return emitUnknown(builder, loc, at);
  return emitSameDocument(builder, loc, at, at.getTables(*this));
}

bool PackedDocumentsAttr::isAttended(int64_t, int64_t, int64_t, int64_t) const {
  return true;
}

//===----------------------------------------------------------------------===//
// TreeAttr
//===----------------------------------------------------------------------===//

SmallVector<int64_t> TreeAttr::getReads() const { return {getParents()}; }

LogicalResult
TreeAttr::verifyReads(function_ref<InFlightDiagnostic()> emitError,
                      const MaskReads &reads) const {
  if (failed(verifyRead(emitError, reads, "parents", getParents(), 2, 1)))
    return failure();
  return verifyLastSize(emitError, reads, "parents", getParents(),
                        getDimSize(reads.query, 2));
}

SmallVector<EqualSizes> TreeAttr::getEqualSizes(const MaskReads &reads) const {
  SmallVector<EqualSizes> sizes;
  addEqualSizes(sizes, reads, getParents(), 1, reads.query);
  return sizes;
}

SmallVector<Value> TreeAttr::emitTables(OpBuilder &builder, Location loc,
                                        const MaskReads &reads) const {
  TableBuilder b(loc, builder);
  Value parents = reads.operands[getParents()];
  Value table = b.makeTable(
      parents, 1,
      {reads.queryLength, b.ceilDivide(reads.queryLength, wordBits)});
  auto map = AncestorMapOp::create(b, getTableTypes(table), parents, table,
                                   getTableSchedule(reads));
  return {getWritten(map, table)};
}

Value TreeAttr::emitPredicate(OpBuilder &builder, Location loc,
                              const MaskPosition &at) const {
  if (!at.getTables)
    return emitUnknown(builder, loc, at);
  TableBuilder b(loc, builder);
  Value table = at.getTables(*this)[0];
  Value prefix = arith::SubIOp::create(b, at.keyLength, at.queryLength);
  Value isBefore =
      arith::CmpIOp::create(b, arith::CmpIPredicate::slt, at.key, prefix);
  Value node = arith::MaxSIOp::create(
      b, arith::SubIOp::create(b, at.key, prefix).getResult(), b.constant(0));
  Value row = at.query, batch = at.batch;
  // All sequences have rows of one table.
  if (Value first = at.firstQueryRow) {
    row = arith::AddIOp::create(b, first, row);
    node = arith::AddIOp::create(b, first, node);
    batch = b.constant(0);
  }
  Value isAbove = b.readBit(table, {b.select(table, 0, batch), row}, node);
  return arith::OrIOp::create(b, isBefore, isAbove);
}

bool TreeAttr::isAttended(int64_t query, int64_t key, int64_t queryLength,
                          int64_t keyLength) const {
  return key - (keyLength - queryLength) <= query;
}

//===----------------------------------------------------------------------===//
// BlockSparseAttr
//===----------------------------------------------------------------------===//

LogicalResult
BlockSparseAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                        int64_t rows, int64_t columns, int64_t, int64_t) {
  for (auto [name, size] :
       {std::pair("rows", rows), std::pair("columns", columns)})
    if (size < blockSizeUnit || size % blockSizeUnit != 0)
      return emitError() << "block mask needs " << name
                         << " that are a positive multiple of " << blockSizeUnit
                         << " (was " << size << ")";
  return success();
}

SmallVector<int64_t> BlockSparseAttr::getReads() const {
  return {getOffsets(), getIndices()};
}

LogicalResult
BlockSparseAttr::verifyReads(function_ref<InFlightDiagnostic()> emitError,
                             const MaskReads &reads) const {
  if (failed(verifyUnpacked(emitError, reads, *this)) ||
      failed(verifyRead(emitError, reads, "offsets", getOffsets(), 3, 2)) ||
      failed(verifyRead(emitError, reads, "indices", getIndices(), 3, 2)))
    return failure();
  auto offsets = cast<ShapedType>(reads.operands[getOffsets()].getType());
  auto indices = cast<ShapedType>(reads.operands[getIndices()].getType());
  for (int64_t dim = 0; dim < 2; ++dim)
    if ((offsets.getDimSize(dim) == 1) != (indices.getDimSize(dim) == 1))
      return emitError() << "'offsets' and 'indices' must agree in dimension "
                         << dim << " (was " << offsets << " and " << indices
                         << ")";
  int64_t length = getDimSize(reads.query, 2);
  return verifyLastSize(emitError, reads, "offsets", getOffsets(),
                        ShapedType::isDynamic(length)
                            ? length
                            : llvm::divideCeil(length, getRows()) + 1);
}

SmallVector<EqualSizes>
BlockSparseAttr::getEqualSizes(const MaskReads &reads) const {
  SmallVector<EqualSizes> sizes;
  addEqualSizes(sizes, reads, getOffsets(), 2);
  addEqualSizes(sizes, reads, getIndices(), 2);
  return sizes;
}

SmallVector<Value> BlockSparseAttr::emitTables(OpBuilder &builder, Location loc,
                                               const MaskReads &reads) const {
  TableBuilder b(loc, builder);
  Value offsets = reads.operands[getOffsets()];
  Value columns = b.ceilDivide(reads.keyLength, getColumns());
  Value table = b.makeTable(offsets, 2,
                            {b.ceilDivide(reads.queryLength, getRows()),
                             b.ceilDivide(columns, wordBits)});
  auto map = BlockSparseMapOp::create(b, getTableTypes(table), offsets,
                                      reads.operands[getIndices()], columns,
                                      table, getTableSchedule(reads));
  return {getWritten(map, table)};
}

Value BlockSparseAttr::emitPredicate(OpBuilder &builder, Location loc,
                                     const MaskPosition &at) const {
  if (!at.getTables)
    return emitUnknown(builder, loc, at);
  TableBuilder b(loc, builder);
  Value table = at.getTables(*this)[0];
  return b.readBit(table,
                   {b.select(table, 0, at.batch), b.select(table, 1, at.head),
                    b.divide(at.query, getRows())},
                   b.divide(at.key, getColumns()));
}

bool BlockSparseAttr::isAttended(int64_t, int64_t, int64_t, int64_t) const {
  return true;
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

/// Checks that `inputs` and the table are all tensors or all memrefs, and have
/// the same first `shared` dimensions.
static LogicalResult verifyTable(MaskTableOpInterface op, int64_t shared,
                                 ArrayRef<std::pair<StringRef, Value>> inputs) {
  Value table = op.getTable();
  for (auto [name, input] : inputs) {
    if (isa<MemRefType>(input.getType()) != isa<MemRefType>(table.getType()))
      return op->emitOpError() << "operands must be all tensors or all "
                                  "memrefs, but 'table' is "
                               << table.getType() << " and '" << name << "' is "
                               << input.getType();
    for (int64_t dim = 0; dim < shared; ++dim) {
      int64_t expected = getDimSize(input, dim);
      int64_t actual = getDimSize(table, dim);
      if (expected != actual && ShapedType::isStatic(expected) &&
          ShapedType::isStatic(actual))
        return op->emitOpError()
               << "dimension " << dim << " of 'table' must match dimension "
               << dim << " of '" << name << "', " << expected << " (was "
               << actual << ")";
    }
  }
  return success();
}

void SequenceIdsOp::getEffects(EffectList &effects) {
  addOperandEffects(*this, effects);
}

LogicalResult SequenceIdsOp::verify() {
  return verifyTable(*this, 1, {{"boundaries", getBoundaries()}});
}

void AncestorMapOp::getEffects(EffectList &effects) {
  addOperandEffects(*this, effects);
}

LogicalResult AncestorMapOp::verify() {
  return verifyTable(*this, 2, {{"parents", getParents()}});
}

void BlockSparseMapOp::getEffects(EffectList &effects) {
  addOperandEffects(*this, effects);
}

LogicalResult BlockSparseMapOp::verify() {
  return verifyTable(*this, 2,
                     {{"offsets", getOffsets()}, {"indices", getIndices()}});
}
