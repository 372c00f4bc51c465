//===- Elementwise.cpp - Elementwise operations on the host ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Elementwise operations, score_mod and mask_mod regions, dropout, and
// reductions of tiles.
//
//===----------------------------------------------------------------------===//

#include "TileEmitter.h"
#include "attn/Analysis/BoundedReads.h"
#include "attn/Dialect/Attn/IR/KeepMaskLayout.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <functional>
#include <limits>
#include <utility>

using namespace mlir;
using namespace mlir::attn_tile;

/// A region with more operations is emitted once, not for each piece of a row.
/// A piece then takes about 16 times as long as its load and store.
static constexpr size_t maxRepeatedOperations = 64;

static bool isLong(Block &block) {
  return block.getOperations().size() > maxRepeatedOperations;
}

//===----------------------------------------------------------------------===//
// Elementwise operations
//===----------------------------------------------------------------------===//

LogicalResult TileEmitter::emitElementwise(Operation &op) {
  if (op.getNumResults() != 1 || !getTileType(op.getResult(0)))
    return op.emitOpError("has no form for the host");
  setTile(op.getResult(0),
          {[this, &op](Value row, Value column, int64_t lanes) {
             IRMapping operands;
             for (Value operand : op.getOperands()) {
               if (operands.contains(operand))
                 continue;
               operands.map(operand, getTileType(operand)
                                         ? tiles.lookup(operand).emitPiece(
                                               row, column, lanes)
                                         : lookup(operand));
             }
             Operation *piece = b.cloneWithoutRegions(op, operands);
             VectorType type = getTileType(op.getResult(0));
             piece->getResult(0).setType(
                 VectorType::get(lanes, type.getElementType()));
             return piece->getResult(0);
           },
           Value(), Value()});
  return success();
}

LogicalResult TileEmitter::emitConstant(arith::ConstantOp op) {
  auto elements = dyn_cast<SplatElementsAttr>(op.getValue());
  if (!elements)
    return op.emitOpError("must be a splat for the host");
  auto value = elements.getSplatValue<Attribute>();
  Type element = elements.getElementType();
  setTile(op->getResult(0),
          {[this, value, element](Value, Value, int64_t lanes) -> Value {
             auto type = VectorType::get(lanes, element);
             return arith::ConstantOp::create(
                 b, DenseElementsAttr::get(type, value));
           },
           Value(), Value()});
  return success();
}

LogicalResult TileEmitter::emitShapeCast(vector::ShapeCastOp op) {
  auto source = dyn_cast<VectorType>(op.getSource().getType());
  auto result = cast<VectorType>(op.getResult().getType());
  if (getTileType(op.getSource()) && source.getDimSize(1) == 1 &&
      result.getRank() == 1) {
    Tile tile = tiles.lookup(op.getSource());
    Value buffer = makeBuffer(result.getShape(), result.getElementType());
    loop(result.getDimSize(0), 1, [&](Value row) {
      Value piece = tile.emitPiece(row, index(0), 1);
      vector::StoreOp::create(b, piece, buffer, row);
    });
    mapping.map(op.getResult(),
                vector::LoadOp::create(b, result, buffer, index(0)));
    return success();
  }
  bool isColumn = source.getRank() == 1 && result.getRank() == 2 &&
                  result.getDimSize(1) == 1;
  if (!isColumn)
    return op.emitOpError("must make a column of a row vector or the reverse "
                          "for the host");
  Value rows = getRows(op.getSource());
  tiles[op.getResult()] = {
      [this, rows](Value row, Value, int64_t lanes) {
        Type element = cast<MemRefType>(rows.getType()).getElementType();
        Value value = memref::LoadOp::create(b, rows, row);
        return vector::BroadcastOp::create(b, VectorType::get(lanes, element),
                                           value)
            .getResult();
      },
      Value(), rows};
  return success();
}

LogicalResult TileEmitter::emitBroadcast(vector::BroadcastOp op) {
  if (VectorType source = getTileType(op.getSource())) {
    if (source.getDimSize(0) == 1) {
      setTile(op->getResult(0),
              {[this, op](Value, Value column, int64_t lanes) mutable {
                 return tiles.lookup(op.getSource())
                     .emitPiece(index(0), column, lanes);
               },
               Value(), Value()});
      return success();
    }
    if (source.getDimSize(1) != 1 || !tiles.lookup(op.getSource()).rows)
      return op.emitOpError("must repeat a row or a column for the host");
    tiles[op.getResult()] = tiles.lookup(op.getSource());
    return success();
  }
  // A tile of one row has one value for all of its columns.
  auto source = dyn_cast<VectorType>(op.getSource().getType());
  if (source && source.getNumElements() != 1)
    return op.emitOpError(
        "must repeat a row, a column or a scalar for the host");
  setTile(op->getResult(0),
          {[this, op](Value, Value, int64_t lanes) mutable -> Value {
             Value scalar = lookup(op.getSource());
             return vector::BroadcastOp::create(
                 b,
                 VectorType::get(lanes, getElementTypeOrSelf(scalar.getType())),
                 scalar);
           },
           Value(), Value()});
  return success();
}

template <typename OpTy>
RowPiece TileEmitter::getRowPiece(OpTy op, Value row, Value column,
                                  int64_t lanes) {
  RowPiece piece;
  piece.batch = lookup(op.getBatch());
  piece.head = lookup(op.getHead());
  piece.transposed = op.getTransposed();
  piece.query = lookup(op.getFirstQuery());
  piece.key = lookup(op.getFirstKey());
  piece.laneLength = lookup(op.getKeyLength());
  piece.lanes = lanes;
  Value *rowPosition = &piece.query, *columnPosition = &piece.key;
  Value rowLength = lookup(op.getQueryLength());
  if (piece.transposed) {
    std::swap(rowPosition, columnPosition);
    std::swap(rowLength, piece.laneLength);
  }
  *columnPosition = arith::AddIOp::create(b, *columnPosition, column);
  // Rows beyond the length repeat the last one; their values are unused.
  Value last = arith::SubIOp::create(b, rowLength, index(1));
  *rowPosition = arith::MinSIOp::create(
      b, arith::AddIOp::create(b, *rowPosition, row).getResult(), last);
  return piece;
}

LogicalResult TileEmitter::emitMap(MapOp op) {
  SmallVector<Value> rows;
  for (Value other : op.getOthers()) {
    if (cast<VectorType>(other.getType()).getRank() != 1)
      return op.emitOpError("must map one tile alone for the host (also has ")
             << other.getType() << ")";
    rows.push_back(getRows(other));
  }
  Tile tile = {
      [this, op, rows](Value row, Value column, int64_t lanes) mutable {
        Block &body = op.getBody().front();
        for (auto [argument, buffer] :
             llvm::zip_equal(body.getArguments().take_back(rows.size()), rows))
          mapping.map(argument,
                      memref::LoadOp::create(b, buffer, row).getResult());
        SmallVector<Value> elements;
        for (Value source : op.getSources())
          elements.push_back(
              tiles.lookup(source).emitPiece(row, column, lanes));
        RowPiece at = getRowPiece(op, row, column, lanes);
        auto make = [&](Type type) { return makeBuffer(lanes, type); };
        at.makeBuffer = make;
        return vectorizeRegion(b, body, elements, at, mapping);
      },
      Value(), Value()};
  if (isLong(op.getBody().front()) &&
      !getTileType(op->getResult(0)).getElementType().isInteger(1))
    setLongTile(op->getResult(0), tile);
  else
    setTile(op->getResult(0), tile);
  return success();
}

/// Writes the predicate of `mask` as a block with the arguments of a mask_mod
/// region. The lengths are captured.
static void buildPredicate(ImplicitLocOpBuilder &b,
                           attn::MaskAttrInterface mask, Value queryLength,
                           Value keyLength, Block &block) {
  OpBuilder::InsertionGuard guard(b);
  for (unsigned i = 0; i < 4; ++i)
    block.addArgument(b.getIndexType(), b.getLoc());
  b.setInsertionPointToStart(&block);
  ValueRange position = block.getArguments();
  Value keep = mask.emitPredicate(b, b.getLoc(),
                                  {position[0], position[1], position[2],
                                   position[3], queryLength, keyLength});
  YieldOp::create(b, keep);
}

void TileEmitter::emitMask(MaskOp op) {
  Region predicate;
  if (attn::MaskAttrInterface mask = op.getMaskAttr())
    buildPredicate(b, mask, op.getQueryLength(), op.getKeyLength(),
                   predicate.emplaceBlock());
  bool isLongMask =
      (!predicate.empty() && isLong(predicate.front())) ||
      (!op.getMaskMod().empty() && isLong(op.getMaskMod().front()));
  Tile tile = {
      [this, op](Value row, Value column, int64_t lanes) mutable -> Value {
        Value scores =
            tiles.lookup(op.getSource()).emitPiece(row, column, lanes);
        RowPiece at = getRowPiece(op, row, column, lanes);
        auto make = [&](Type type) { return makeBuffer(lanes, type); };
        at.makeBuffer = make;

        auto maskType = VectorType::get(lanes, b.getI1Type());
        Value keep;
        if (op.getTransposed()) {
          Value key = arith::AddIOp::create(b, lookup(op.getFirstKey()), row);
          Value exists = arith::CmpIOp::create(b, arith::CmpIPredicate::slt,
                                               key, lookup(op.getKeyLength()));
          keep = vector::BroadcastOp::create(b, maskType, exists);
        } else {
          Value left = arith::SubIOp::create(b, at.laneLength, at.key);
          keep = vector::CreateMaskOp::create(b, maskType, left);
        }
        if (attn::MaskAttrInterface mask = op.getMaskAttr()) {
          Region region;
          Block &block = region.emplaceBlock();
          buildPredicate(b, mask, op.getQueryLength(), op.getKeyLength(),
                         block);
          Value kept = vectorizeRegion(b, block, {}, at, mapping);
          keep = arith::AndIOp::create(b, keep, kept);
        }
        if (!op.getMaskMod().empty()) {
          Value kept =
              vectorizeRegion(b, op.getMaskMod().front(), {}, at, mapping);
          keep = arith::AndIOp::create(b, keep, kept);
        }
        auto type = cast<VectorType>(scores.getType());
        Value lowest = arith::ConstantOp::create(
            b,
            DenseElementsAttr::get(
                type, b.getFloatAttr(type.getElementType(),
                                     -std::numeric_limits<double>::infinity())
                          .getValue()));
        return arith::SelectOp::create(b, keep, scores, lowest);
      },
      Value(), Value()};
  if (isLongMask)
    setLongTile(op->getResult(0), tile);
  else
    setTile(op->getResult(0), tile);
}

void TileEmitter::emitScatterAdd(ScatterAddOp op) {
  VectorType type = getTileType(op.getTile());
  Value buffer = getBuffer(op.getTile()), dest = lookup(op.getDest());
  Value first[] = {lookup(op.getFirstQuery()), lookup(op.getFirstKey())};
  Value length[] = {lookup(op.getQueryLength()), lookup(op.getKeyLength())};
  bool transposed = op.getTransposed();
  // Of rows and columns.
  auto countOf = [&](int64_t dim) -> Value {
    int64_t axis = transposed ? 1 - dim : dim;
    Value left = arith::SubIOp::create(b, length[axis], first[axis]);
    return arith::MinSIOp::create(b, left, index(type.getDimSize(dim)));
  };
  Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
  Value rows = countOf(0), columns = countOf(1);
  Value hasElements = attn::emitHasElements(b, b.getLoc(), dest);
  auto addElement = [&](Value row, Value column) {
    Value value = memref::LoadOp::create(b, buffer, ValueRange{row, column});
    Value adds =
        arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, value, zero);
    if (hasElements)
      adds = arith::AndIOp::create(b, adds, hasElements);
    auto ifOp = scf::IfOp::create(b, adds, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(ifOp.thenBlock());
    Block &body = op.getBody().front();
    if (transposed)
      std::swap(row, column);
    Value position[] = {lookup(op.getBatch()), lookup(op.getHead()),
                        add(first[0], row), add(first[1], column)};
    IRMapping inner(mapping);
    inner.map(body.getArguments(), ValueRange(position));
    for (Operation &nested : body.without_terminator())
      attn::cloneBounded(b, nested, inner);
    SmallVector<Value> indices;
    for (auto [dim, operand] :
         llvm::enumerate(body.getTerminator()->getOperands())) {
      Value wanted = inner.lookupOrDefault(operand);
      indices.push_back(attn::boundIndex(b, b.getLoc(), wanted, dest, dim));
    }
    memref::AtomicRMWOp::create(b, arith::AtomicRMWKind::addf, value, dest,
                                indices);
  };
  loop(index(0), rows, 1, [&](Value row) {
    loop(index(0), columns, 1, [&](Value column) { addElement(row, column); });
  });
}

TileEmitter::PieceFn TileEmitter::emitKeepMask(KeepMaskType type,
                                               Value firstQuery, Value firstKey,
                                               IsKeptFn isKept) {
  bool transposed = type.getTransposed();
  Value first = lookup(firstQuery), second = lookup(firstKey);
  if (transposed)
    std::swap(first, second);
  return [=](Value row, Value column, int64_t lanes) -> Value {
    auto wordType = VectorType::get(lanes, b.getI32Type());
    auto getPosition = [&](Value first, Value offset) -> Value {
      return vector::BroadcastOp::create(
          b, wordType,
          arith::IndexCastOp::create(b, b.getI32Type(), add(first, offset)));
    };
    Value query = getPosition(first, row);
    Value key = getPosition(second, column);
    SmallVector<Attribute> numbers;
    for (int64_t lane = 0; lane < lanes; ++lane)
      numbers.push_back(b.getI32IntegerAttr(lane));
    Value laneNumbers =
        arith::ConstantOp::create(b, DenseElementsAttr::get(wordType, numbers));
    key = arith::AddIOp::create(b, key, laneNumbers);
    if (transposed)
      std::swap(query, key);
    return isKept(query, key);
  };
}

void TileEmitter::emitGenerateKeepMask(GenerateKeepMaskOp op) {
  keepMasks[op.getResult()] = emitKeepMask(
      op.getResult().getType(), op.getFirstQuery(), op.getFirstKey(),
      [this, op](Value query, Value key) mutable {
        attn::RngBlock<Value> stream;
        llvm::transform(op.getStream(), stream.begin(), [&](Value word) {
          return vector::BroadcastOp::create(b, query.getType(), lookup(word));
        });
        return op.getDropout().emitIsKept(b, b.getLoc(), stream, query, key);
      });
}

Value TileEmitter::emitUnlessEmpty(Value source,
                                   function_ref<Value()> emitValue,
                                   Value otherwise) {
  auto type = cast<MemRefType>(source.getType());
  Value isEmpty;
  for (auto [dim, size] : llvm::enumerate(type.getShape())) {
    if (!ShapedType::isDynamic(size) && size != 0)
      continue;
    Value isZero = arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                         memref::DimOp::create(b, source, dim),
                                         arith::ConstantIndexOp::create(b, 0));
    isEmpty = isEmpty ? arith::OrIOp::create(b, isEmpty, isZero) : isZero;
  }
  if (!isEmpty)
    return emitValue();
  auto choice = scf::IfOp::create(b, otherwise.getType(), isEmpty,
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(choice.thenBlock());
  scf::YieldOp::create(b, otherwise);
  b.setInsertionPointToStart(choice.elseBlock());
  scf::YieldOp::create(b, emitValue());
  return choice.getResult(0);
}

void TileEmitter::emitLoadKeepMask(LoadKeepMaskOp op) {
  Value source = lookup(op.getSource());
  Value batch = lookup(op.getBatch()), head = lookup(op.getHead());
  bool isByRows = op.getLayout() == attn::MaskLayout::Rows;
  auto load = [=](Value queryWord, Value keyWord) -> Value {
    // Past the mask any word is good enough.
    auto bound = [&](Value word, int64_t dim) -> Value {
      Value last = add(memref::DimOp::create(b, source, dim), -1);
      Value at = arith::IndexCastUIOp::create(b, b.getIndexType(), word);
      return arith::MinUIOp::create(b, at, last);
    };
    SmallVector<Value> indices = {batch, head,
                                  bound(queryWord, isByRows ? 2 : 3),
                                  bound(keyWord, isByRows ? 3 : 2)};
    if (!isByRows)
      std::swap(indices[2], indices[3]);
    return memref::LoadOp::create(b, source, indices);
  };
  keepMasks[op.getResult()] = emitKeepMask(
      op.getResult().getType(), op.getFirstQuery(), op.getFirstKey(),
      [this, load, source](Value query, Value key) {
        attn::KeepBitPlace at =
            attn::emitKeepBitPlace(b, b.getLoc(), query, key);
        auto type = cast<VectorType>(query.getType());
        auto loadAll = [&]() -> Value {
          SmallVector<Value> words;
          for (int64_t lane = 0; lane < type.getNumElements(); ++lane) {
            auto extract = [&](Value value) -> Value {
              return vector::ExtractOp::create(b, value, lane);
            };
            words.push_back(load(extract(at.queryWord), extract(at.keyWord)));
          }
          return vector::FromElementsOp::create(b, type, words);
        };
        // Without keys there is no word to load, but a tile to compute.
        Value word = emitUnlessEmpty(source, loadAll, zeroOf(type));
        return attn::emitKeepBit(b, b.getLoc(), word, at.bit);
      });
}

void TileEmitter::emitDropout(DropoutOp op) {
  setTile(op->getResult(0),
          {[this, op](Value row, Value column, int64_t lanes) mutable -> Value {
             Value probabilities =
                 tiles.lookup(op.getSource()).emitPiece(row, column, lanes);
             Value isKept =
                 keepMasks.lookup(op.getKeepMask())(row, column, lanes);
             return arith::SelectOp::create(
                 b, isKept, probabilities,
                 zeroOf(cast<VectorType>(probabilities.getType())));
           },
           Value(), Value()});
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

LogicalResult TileEmitter::emitReduction(vector::MultiDimReductionOp op) {
  VectorType type = getTileType(op.getSource());
  if (!type || op.getReductionDims() != ArrayRef<int64_t>{1})
    return op.emitOpError("must reduce along the rows of a tile for the host");
  Tile tile = tiles.lookup(op.getSource());
  auto resultType = cast<VectorType>(op.getResult().getType());
  Value buffer = makeBuffer(resultType.getShape(), type.getElementType());
  loop(type.getDimSize(0), 1, [&](Value row) {
    // Pieces of full width are combined first, then the lanes.
    Value partial, rest;
    forEachPiece(type.getDimSize(1), [&](int64_t column, int64_t lanes) {
      Value piece = tile.emitPiece(row, index(column), lanes);
      if (partial && piece.getType() != partial.getType())
        rest = piece;
      else
        partial = partial ? vector::makeArithReduction(
                                b, b.getLoc(), op.getKind(), partial, piece)
                          : piece;
    });
    Value result = vector::ReductionOp::create(b, op.getKind(), partial);
    if (rest)
      result = vector::ReductionOp::create(b, op.getKind(), rest, result);
    memref::StoreOp::create(b, result, buffer, row);
  });
  Value rows = vector::LoadOp::create(b, resultType, buffer, index(0));
  mapping.map(op.getResult(),
              vector::makeArithReduction(b, b.getLoc(), op.getKind(), rows,
                                         lookup(op.getAcc())));
  return success();
}

void TileEmitter::emitWithRows(Value source, Value rows, OpResult result,
                               std::function<Value(Value, Value)> fn) {
  Value buffer = getRows(rows);
  setTile(result,
          {[this, source, buffer, fn = std::move(fn)](Value row, Value column,
                                                      int64_t lanes) mutable {
             Value piece = tiles.lookup(source).emitPiece(row, column, lanes);
             Value entry = memref::LoadOp::create(b, buffer, row);
             return fn(piece,
                       vector::BroadcastOp::create(b, piece.getType(), entry));
           },
           Value(), Value()});
}

void TileEmitter::emitSubtractRows(SubtractRowsOp op) {
  emitWithRows(op.getSource(), op.getSubtrahend(), op->getResult(0),
               [this](Value piece, Value subtrahend) {
                 return arith::SubFOp::create(b, piece, subtrahend);
               });
}

void TileEmitter::emitRescale(RescaleOp op) {
  emitWithRows(op.getSource(), op.getFactor(), op->getResult(0),
               [this](Value piece, Value factor) {
                 return arith::MulFOp::create(b, piece, factor);
               });
}

LogicalResult TileEmitter::emitPartialSum(PartialSumOp op) {
  VectorType source = getTileType(op.getSource());
  VectorType type = getTileType(op.getResult());
  Value buffer = makeBuffer(type.getShape(), type.getElementType());
  int64_t partials = type.getDimSize(1);
  loop(type.getDimSize(0), 1, [&](Value row) {
    Value sum = tiles.lookup(op.getAcc()).emitPiece(row, index(0), partials);
    for (int64_t column = 0; column < source.getDimSize(1); column += partials)
      sum = arith::AddFOp::create(
          b, sum,
          tiles.lookup(op.getSource()).emitPiece(row, index(column), partials));
    vector::StoreOp::create(b, sum, buffer, ValueRange{row, index(0)});
  });
  setBuffer(op.getResult(), buffer);
  return success();
}
