//===- CacheAppendToAttnTile.cpp - New keys and values for KV caches ------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One kernel moves all new rows of a batch entry: keys and queries, whose first
// elements it rotates, and values. The rows are cut into chunks, and a thread
// moves one chunk. Each work item has chunks of one kind, so that its threads
// do the same. Work item 0 of an entry checks the entry and writes its length.
//
// On GPUs, elements of a chunk are accessed by aligned loads and stores of
// neighbours, which LLVM joins. All loads of a chunk come before its stores.
//
//===----------------------------------------------------------------------===//

#include "CreateKernel.h"
#include "ScalarKernelBuilder.h"
#include "attn/Conversion/AttnToAttnTile/AttnToAttnTile.h"
#include "attn/Dialect/Attn/IR/Float8.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/Sequence.h"

#include <optional>

using namespace mlir;
using namespace mlir::attn;
using arith::CmpIPredicate;

namespace {
/// Chunks of all rows of a tensor: of the elements that are rotated, or of the
/// elements that are only copied.
struct Part {
  Value source, destination;
  /// Whether the destination is a cache, and its rows follow the keys that it
  /// has.
  bool isCache;
  /// The table of scales by which the elements are divided, if there is one.
  Value scales;
  bool isRotated;
  bool hasSamePosition;
  /// The first element of the first chunk of a row, and the number of chunks.
  int64_t firstElement, chunksOfRow;
};

/// An element of a destination that is yet to be stored: an f32, or a value of
/// its type.
struct Element {
  Value value;
  Value place;
  /// Its number among neighbours.
  int64_t number;
};

/// Writes the kernel of one operation.
class CacheAppendWriter {
public:
  CacheAppendWriter(OpBuilder &builder, CacheAppendOp op,
                    attn_tile::KernelOp kernel, const RowDivision &division);

  void write();

private:
  void addParts(Value source, Value destination, bool isCache, Value scales,
                bool isRotated, bool hasSamePosition);
  Value countChunks(const Part &part);
  Value checkEntry(Value batch, Value isReporter);
  void writePart(const Part &part, Value first, Value count);
  SmallVector<Value> loadNeighbours(Value source, SmallVector<Value> indices);
  SmallVector<Element> rotate(const Part &part, ArrayRef<Value> row,
                              Value chunk);
  SmallVector<Element> copy(const Part &part, ArrayRef<Value> row, Value chunk);
  Value quantize(Value value, FloatType type, Value scale);
  void move(const Part &part, ArrayRef<Value> row, Value chunk);
  void storeAt(const Part &part, SmallVector<Value> indices,
               ArrayRef<Element> elements);
  Value toF32(Value value);
  std::optional<int64_t> getAlignment(Value memref, int64_t number) const;

  ScalarKernelBuilder b;
  KVAddressingAttrInterface addressing;
  RowDivision division;
  bool isInterleaved;
  int64_t numRotated;
  /// Neighbours that a thread accesses at a time.
  int64_t width;
  bool hasAlignedTables;
  Block *entry;
  Value key, lengths, table, cos, sin, query, keyCache, newLengths, fault;
  SmallVector<Part> parts;
  /// Of the current batch entry.
  Value batch, length;
};
} // namespace

CacheAppendWriter::CacheAppendWriter(OpBuilder &builder, CacheAppendOp op,
                                     attn_tile::KernelOp kernel,
                                     const RowDivision &division)
    : b(op.getLoc(), builder), addressing(op.getAddressing()),
      division(division), isInterleaved(op.getInterleaved()),
      numRotated(op.getNumRotated()), width(op.getAccessWidth()),
      hasAlignedTables(op.hasAlignedTables()),
      entry(&kernel.getBody().front()) {
  IRMapping arguments;
  arguments.map(op->getOperands(), entry->getArguments().drop_back());
  fault = entry->getArguments().back();
  auto get = [&](Value operand) {
    return operand ? arguments.lookup(operand) : Value();
  };
  key = get(op.getKey());
  lengths = get(op.getKeyLengths());
  table = get(op.getPageTable());
  cos = get(op.getCos());
  sin = get(op.getSin());
  query = get(op.getQuery());
  keyCache = get(op.getKeyCache());
  newLengths = get(op.getNewLengths());
  addParts(key, keyCache, /*isCache=*/true, get(op.getKeyScale()),
           /*isRotated=*/true, /*hasSamePosition=*/false);
  addParts(get(op.getValue()), get(op.getValueCache()), /*isCache=*/true,
           get(op.getValueScale()), /*isRotated=*/false,
           /*hasSamePosition=*/false);
  if (query)
    addParts(query, get(op.getRotatedQuery()), /*isCache=*/false,
             /*scales=*/nullptr, /*isRotated=*/true, op.getSamePosition());
}

/// Adds the rotated elements of the rows of `source`, if there are any, and the
/// others.
void CacheAppendWriter::addParts(Value source, Value destination, bool isCache,
                                 Value scales, bool isRotated,
                                 bool hasSamePosition) {
  int64_t rotated = isRotated ? numRotated : 0;
  Part part{source,
            destination,
            isCache,
            scales,
            /*isRotated=*/true,
            hasSamePosition,
            /*firstElement=*/0,
            /*chunksOfRow=*/rotated / (2 * width)};
  if (rotated)
    parts.push_back(part);
  part.isRotated = false;
  part.firstElement = rotated;
  part.chunksOfRow = (getDimSize(source, 3) - rotated) / width;
  if (part.chunksOfRow)
    parts.push_back(part);
}

/// The number of chunks of `part` in a batch entry.
Value CacheAppendWriter::countChunks(const Part &part) {
  int64_t ofPosition = part.chunksOfRow * getDimSize(part.source, 1);
  return b.mul(b.size(part.source, 2), b.constant(ofPosition));
}

void CacheAppendWriter::write() {
  b.setInsertionPointToEnd(entry);
  SmallVector<Value> counts;
  Value total = b.constant(1);
  for (const Part &part : parts) {
    counts.push_back(b.tiles(countChunks(part), division.chunks));
    total = b.add(total, counts.back());
  }
  auto forall = scf::ForallOp::create(
      b, ArrayRef<OpFoldResult>{b.size(lengths, 0), total}, ValueRange(),
      std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  batch = forall.getInductionVar(0);
  Value item = forall.getInductionVar(1);
  length = b.loadIndex(lengths, batch);
  Value isValid =
      checkEntry(batch, b.compare(CmpIPredicate::eq, item, b.constant(0)));
  Value number = b.sub(item, b.constant(1));
  for (auto [part, count] : llvm::zip_equal(parts, counts)) {
    // The unsigned comparison also catches the work items before.
    Value isOwn = b.both(isValid, b.compare(CmpIPredicate::ult, number, count));
    Value size = b.constant(division.chunks);
    Value first = b.mul(number, size);
    Value rest = b.sub(countChunks(part), first);
    Value chunks = arith::MinSIOp::create(b, rest, size);
    writePart(part, first, b.select(isOwn, chunks, b.constant(0)));
    number = b.sub(number, count);
  }
}

/// Emits whether the entry is valid. If `isReporter` holds, it is reported if
/// it is not, and its new length is stored.
Value CacheAppendWriter::checkEntry(Value batch, Value isReporter) {
  Value zero = b.constant(0);
  Value positions = b.size(key, 2);
  Value room =
      b.sub(addressing.emitMaxKeys(b, b.getLoc(), keyCache, table), positions);
  Value isValid = b.both(b.compare(CmpIPredicate::sge, length, zero),
                         b.compare(CmpIPredicate::sle, length, room));
  b.report(b.both(isReporter, b.invert(isValid)), ATTNRT_FAULT_KEY_LENGTHS,
           fault);
  if (cos) {
    Value longest = positions;
    if (query)
      longest = arith::MaxSIOp::create(b, longest, b.size(query, 2));
    Value hasRows =
        b.compare(CmpIPredicate::sle, length, b.sub(b.size(cos, 0), longest));
    b.report(b.both(isReporter, b.both(isValid, b.invert(hasRows))),
             ATTNRT_FAULT_POSITIONS, fault);
    isValid = b.both(isValid, hasRows);
  }
  if (newLengths)
    b.each(b.toIndex(isReporter), [&](Value) {
      b.storeIndex(b.select(isValid, b.add(length, positions), zero),
                   newLengths, batch);
    });
  return isValid;
}

/// Moves `count` chunks of `part`, from chunk `first` of the batch entry on.
void CacheAppendWriter::writePart(const Part &part, Value first, Value count) {
  auto loop = attn_tile::ThreadForOp::create(
      b, count, static_cast<uint64_t>(division.together));
  OpBuilder::InsertionGuard guard(b);
  Block *block =
      b.createBlock(&loop.getBody(), {}, b.getIndexType(), b.getLoc());
  Value number = b.add(first, block->getArgument(0));
  Value chunks = b.constant(part.chunksOfRow);
  Value heads = b.constant(getDimSize(part.source, 1));
  Value row = arith::DivUIOp::create(b, number, chunks);
  Value chunk = arith::RemUIOp::create(b, number, chunks);
  Value head = arith::RemUIOp::create(b, row, heads);
  Value position = arith::DivUIOp::create(b, row, heads);
  move(part, {batch, head, position}, chunk);
  b.setInsertionPointToEnd(block);
  attn_tile::YieldOp::create(b, ValueRange());
}

/// The alignment of element `number` of `width` neighbours, if it is more than
/// that of any element.
std::optional<int64_t> CacheAppendWriter::getAlignment(Value memref,
                                                       int64_t number) const {
  bool isTable = memref == cos || memref == sin;
  if (!division.isAligned || (isTable && !hasAlignedTables))
    return std::nullopt;
  return getAlignmentOfNeighbour(memref, number, width);
}

/// Loads the elements from `indices` on.
SmallVector<Value>
CacheAppendWriter::loadNeighbours(Value source, SmallVector<Value> indices) {
  Value first = indices.back();
  SmallVector<Value> values;
  for (int64_t i : llvm::seq(width)) {
    indices.back() = b.add(first, b.constant(i));
    memref::LoadOp load = b.loadExisting(source, indices);
    if (std::optional<int64_t> alignment = getAlignment(source, i))
      load.setAlignment(*alignment);
    values.push_back(load);
  }
  return values;
}

Value CacheAppendWriter::toF32(Value value) {
  return value.getType().isF32()
             ? value
             : arith::ExtFOp::create(b, b.getF32Type(), value).getResult();
}

SmallVector<Element>
CacheAppendWriter::rotate(const Part &part, ArrayRef<Value> row, Value chunk) {
  Value column = b.mul(chunk, b.constant(width));
  // Where the two accesses begin.
  Value begin = isInterleaved ? b.mul(column, b.constant(2)) : column;
  Value second =
      b.add(begin, b.constant(isInterleaved ? width : numRotated / 2));
  SmallVector<Value> values;
  SmallVector<Element> elements;
  for (Value first : {begin, second}) {
    SmallVector<Value> indices(row);
    indices.push_back(first);
    for (auto [i, value] :
         llvm::enumerate(loadNeighbours(part.source, indices))) {
      values.push_back(toF32(value));
      elements.push_back(
          {Value(), b.add(first, b.constant(int64_t(i))), int64_t(i)});
    }
  }
  Value angle = part.hasSamePosition ? length : b.add(length, row.back());
  SmallVector<Value> cosines = loadNeighbours(cos, {angle, column});
  SmallVector<Value> sines = loadNeighbours(sin, {angle, column});
  auto flags = arith::FastMathFlagsAttr::get(b.getContext(),
                                             arith::FastMathFlags::contract);
  auto mul = [&](Value lhs, Value rhs) -> Value {
    return arith::MulFOp::create(b, lhs, rhs, flags);
  };
  for (int64_t i : llvm::seq(width)) {
    int64_t x = isInterleaved ? 2 * i : i;
    int64_t y = isInterleaved ? 2 * i + 1 : i + width;
    Value cosine = toF32(cosines[i]), sine = toF32(sines[i]);
    elements[x].value = arith::SubFOp::create(b, mul(values[x], cosine),
                                              mul(values[y], sine), flags);
    elements[y].value = arith::AddFOp::create(b, mul(values[y], cosine),
                                              mul(values[x], sine), flags);
  }
  return elements;
}

SmallVector<Element> CacheAppendWriter::copy(const Part &part,
                                             ArrayRef<Value> row, Value chunk) {
  Value first =
      b.add(b.mul(chunk, b.constant(width)), b.constant(part.firstElement));
  SmallVector<Value> indices(row);
  indices.push_back(first);
  SmallVector<Element> elements;
  for (auto [i, value] : llvm::enumerate(loadNeighbours(part.source, indices)))
    elements.push_back(
        {value, b.add(first, b.constant(int64_t(i))), int64_t(i)});
  return elements;
}

/// Divides `value` by `scale`, if there is one, and rounds it to the 8-bit
/// `type`. Numbers beyond the largest one become that one.
Value CacheAppendWriter::quantize(Value value, FloatType type, Value scale) {
  value = toF32(value);
  if (scale)
    value = arith::DivFOp::create(b, value, scale);
  return arith::TruncFOp::create(b, type,
                                 emitSaturated(b, b.getLoc(), value, type));
}

/// Moves one chunk of row `row` of the source of `part`.
void CacheAppendWriter::move(const Part &part, ArrayRef<Value> row,
                             Value chunk) {
  auto type = cast<FloatType>(getElementTypeOrSelf(part.destination));
  auto load = [&] {
    SmallVector<Element> elements =
        part.isRotated ? rotate(part, row, chunk) : copy(part, row, chunk);
    Value scale;
    if (part.scales)
      scale = b.loadExisting(part.scales, {row[0], row[1]});
    if (isFloat8(type))
      for (Element &element : elements)
        element.value = quantize(element.value, type, scale);
    return elements;
  };
  SmallVector<Value> indices(row);
  if (!part.isCache)
    return storeAt(part, indices, load());
  Value position = b.add(length, indices[2]);
  indices[2] = position;
  int64_t pageSize = addressing.getPageSize();
  if (pageSize == 0)
    return storeAt(part, indices, load());
  Value size = b.constant(pageSize);
  Value place = arith::DivUIOp::create(b, position, size);
  indices[0] = arith::IndexCastOp::create(
      b, b.getIndexType(), b.loadExisting(table, {batch, place}));
  indices[2] = arith::RemUIOp::create(b, position, size);
  SmallVector<Element> elements;
  if (division.loadsEarly)
    elements = load();
  // The unsigned comparison also catches negative pages.
  Value isPage =
      b.compare(CmpIPredicate::ult, indices[0], b.size(part.destination, 0));
  auto ifOp = scf::IfOp::create(b, isPage, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.thenBlock());
  if (!division.loadsEarly)
    elements = load();
  storeAt(part, indices, elements);
  b.setInsertionPointToStart(ifOp.elseBlock());
  Value code = arith::ConstantIntOp::create(b, ATTNRT_FAULT_PAGES, 32);
  memref::StoreOp::create(b, code, fault, b.constant(0));
}

void CacheAppendWriter::storeAt(const Part &part, SmallVector<Value> indices,
                                ArrayRef<Element> elements) {
  Type type = getElementTypeOrSelf(part.destination);
  auto values = llvm::map_to_vector(elements, [&](const Element &element) {
    return element.value.getType() == type
               ? element.value
               : arith::TruncFOp::create(b, type, element.value).getResult();
  });
  indices.push_back(Value());
  // Stores follow one another, so that LLVM can join them.
  for (auto [element, value] : llvm::zip_equal(elements, values)) {
    indices.back() = element.place;
    auto store = memref::StoreOp::create(b, value, part.destination, indices);
    if (std::optional<int64_t> alignment =
            getAlignment(part.destination, element.number))
      store.setAlignment(*alignment);
  }
}

LogicalResult attn::lowerCacheAppendToKernel(RewriterBase &rewriter,
                                             CacheAppendOp op,
                                             SymbolTable &symbols) {
  FailureOr<attn_tile::KernelOp> kernel = createKernelOfOperands(
      rewriter, op, symbols, "_cache_append", /*faultWords=*/1);
  if (failed(kernel))
    return failure();
  OpBuilder::InsertionGuard guard(rewriter);
  CacheAppendWriter(rewriter, op, *kernel,
                    op.getScheduleAttr().getRowDivision())
      .write();
  rewriter.eraseOp(op);
  return success();
}
