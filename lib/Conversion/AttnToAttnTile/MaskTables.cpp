//===- MaskTables.cpp - Kernels that make tables of masks -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One thread computes each word of a bitmap, from all entries of its row. This
// needs no atomics, and the threads read the same entries at the same time.
// Invalid inputs are reported; no entry causes an access outside of the table
// or the inputs.
//
//===----------------------------------------------------------------------===//

#include "MaskTables.h"
#include "CarriedLoop.h"
#include "CreateKernel.h"
#include "ScalarKernelBuilder.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::attn;
using arith::CmpIPredicate;

/// Bits of a word of a bitmap.
static constexpr int64_t wordBits = 32;
/// Positions of one work item.
static constexpr int64_t positionsOfWorkItem = 128;

/// The bit of the word for `number`, an `i32`.
static Value emitBit(ScalarKernelBuilder &b, Value number) {
  Value rest = arith::RemUIOp::create(b, number, b.constant(wordBits));
  Value shift = arith::IndexCastOp::create(b, b.getI32Type(), rest);
  Value one = arith::ConstantIntOp::create(b, 1, 32);
  return arith::ShLIOp::create(b, one, shift);
}

/// Whether `number` has its bit in word `word`.
static Value emitIsIn(ScalarKernelBuilder &b, Value number, Value word) {
  Value place = arith::DivUIOp::create(b, number, b.constant(wordBits));
  return b.compare(CmpIPredicate::eq, place, word);
}

/// Reports a fault, from within a region that one thread runs: the invalid
/// value and its bound.
static void reportHere(ScalarKernelBuilder &b, Value condition,
                       attnrt_fault code, Value found, Value bound,
                       Value fault) {
  auto ifOp = scf::IfOp::create(b, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.thenBlock());
  b.storeIndex(found, fault, b.constant(2 * code));
  b.storeIndex(bound, fault, b.constant(2 * code + 1));
  Value word = arith::ConstantIntOp::create(b, code, 32);
  memref::StoreOp::create(b, word, fault, b.constant(0));
}

/// The same, from code that all threads of the work item run.
static void report(ScalarKernelBuilder &b, Value condition, attnrt_fault code,
                   Value found, Value bound, Value fault) {
  b.each(b.constant(1),
         [&](Value) { reportHere(b, condition, code, found, bound, fault); });
}

/// The sequence id of a position counts the boundaries at or before it.
static void write(ScalarKernelBuilder &b, SequenceIdsOp op,
                  ValueRange arguments) {
  Value boundaries = arguments[0], table = arguments[1], fault = arguments[2];
  Value length = b.size(table, 1), entries = b.size(boundaries, 1);
  auto forall = scf::ForallOp::create(
      b,
      ArrayRef<OpFoldResult>{b.size(table, 0),
                             b.tiles(length, positionsOfWorkItem)},
      ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  Value batch = forall.getInductionVar(0), item = forall.getInductionVar(1);
  Value zero = b.constant(0), one = b.constant(1);
  auto read = [&](Value number) {
    return b.loadIndex(boundaries, {batch, number});
  };
  struct Boundary {
    Value value, before, isOutside, isSmaller;
  };
  auto check = [&](Value number) -> Boundary {
    Value boundary = read(number);
    Value before =
        read(arith::MaxSIOp::create(b, b.sub(number, one), zero).getResult());
    // The unsigned comparison also catches negative boundaries.
    return {boundary, before, b.compare(CmpIPredicate::ugt, boundary, length),
            b.compare(CmpIPredicate::slt, boundary, before)};
  };
  Value bad = b.sum(entries, 1, [&](Value number) -> SmallVector<Value> {
    Boundary boundary = check(number);
    return {b.toIndex(b.either(boundary.isOutside, boundary.isSmaller))};
  })[0];
  Value isBad = b.compare(CmpIPredicate::ne, bad, zero);
  Value first = b.mul(item, b.constant(positionsOfWorkItem));
  Value count = arith::MinSIOp::create(b, b.sub(length, first),
                                       b.constant(positionsOfWorkItem));
  Value otherwise = b.constant(static_cast<int32_t>(op.getOtherwise()));
  b.each(count, [&](Value number) {
    Value position = b.add(first, number);
    Value begun =
        emitCarriedLoop(b, entries, zero, [&](Value entry, ValueRange carried) {
          Value isBegun = b.compare(CmpIPredicate::sle, read(entry), position);
          return SmallVector<Value>{b.add(carried[0], b.toIndex(isBegun))};
        })[0];
    Value isInside = b.both(b.compare(CmpIPredicate::sge, begun, one),
                            b.compare(CmpIPredicate::slt, begun, entries));
    Value isKnown = b.both(isInside, b.invert(isBad));
    b.storeIndex(b.select(isKnown, b.sub(begun, one), otherwise), table,
                 {batch, position});
  });
  Value reports = b.both(isBad, b.compare(CmpIPredicate::eq, item, zero));
  b.each(b.select(reports, entries, zero), [&](Value number) {
    Boundary boundary = check(number);
    reportHere(b, boundary.isSmaller, ATTNRT_FAULT_BOUNDARY_ORDER,
               boundary.value, boundary.before, fault);
    reportHere(b, boundary.isOutside, ATTNRT_FAULT_BOUNDARY, boundary.value,
               length, fault);
  });
}

/// Goes from the node itself to the root: the parent of a node has a smaller
/// number.
static void write(ScalarKernelBuilder &b, AncestorMapOp, ValueRange arguments) {
  Value parents = arguments[0], table = arguments[1], fault = arguments[2];
  scf::ForallOp forall = b.forall(table, 2);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  Value batch = forall.getInductionVar(0), node = forall.getInductionVar(1);
  Value zero = b.constant(0), one = b.constant(1), none = b.constant(-1);
  Value isSized =
      b.compare(CmpIPredicate::eq, b.size(parents, 1), b.size(table, 1));
  Value isFirst = b.compare(CmpIPredicate::eq, node, zero);
  report(b, b.both(isFirst, b.invert(isSized)), ATTNRT_FAULT_PARENTS,
         b.size(parents, 1), b.size(table, 1), fault);
  b.each(b.toIndex(isSized), [&](Value) {
    Value parent = b.loadIndex(parents, {batch, node});
    Value isGood = b.both(b.compare(CmpIPredicate::sle, none, parent),
                          b.compare(CmpIPredicate::slt, parent, node));
    reportHere(b, b.invert(isGood), ATTNRT_FAULT_PARENT, parent, node, fault);
  });
  Value count = b.select(isSized, b.add(node, one), zero);
  b.each(b.size(table, 2), [&](Value word) {
    Value empty = arith::ConstantIntOp::create(b, 0, 32);
    SmallVector<Value> bits = emitCarriedLoop(
        b, count, {empty, node}, [&](Value step, ValueRange carried) {
          Value candidate = b.sub(node, step);
          Value isAbove = b.compare(CmpIPredicate::eq, candidate, carried[1]);
          Value isSet = b.both(isAbove, emitIsIn(b, candidate, word));
          Value set = b.either(carried[0], emitBit(b, candidate));
          Value parent = b.loadIndex(parents, {batch, candidate});
          return SmallVector<Value>{b.select(isSet, set, carried[0]),
                                    b.select(isAbove, parent, carried[1])};
        });
    memref::StoreOp::create(b, bits[0], table, ValueRange{batch, node, word});
  });
}

static void write(ScalarKernelBuilder &b, BlockSparseMapOp,
                  ValueRange arguments) {
  Value offsets = arguments[0], indices = arguments[1];
  Value columns = arguments[2], table = arguments[3], fault = arguments[4];
  scf::ForallOp forall = b.forall(table, 3);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  SmallVector<Value> ids(forall.getInductionVars());
  Value zero = b.constant(0), one = b.constant(1);
  Value listed = b.size(indices, 2);
  Value numOffsets = b.add(b.size(table, 2), one);
  Value isSized = b.compare(CmpIPredicate::eq, b.size(offsets, 2), numOffsets);
  // If the number of offsets is wrong, none is read.
  SmallVector<Value> ends =
      b.sum(b.toIndex(isSized), 2, [&](Value) -> SmallVector<Value> {
        return {b.loadIndex(offsets, ids),
                b.loadIndex(offsets, {ids[0], ids[1], b.add(ids[2], one)})};
      });
  // The unsigned comparison also catches negative offsets.
  Value isFirstOutside = b.compare(CmpIPredicate::ugt, ends[0], listed);
  Value isOutside =
      b.either(isFirstOutside, b.compare(CmpIPredicate::ugt, ends[1], listed));
  Value isSmaller = b.compare(CmpIPredicate::slt, ends[1], ends[0]);
  Value isGood = b.both(isSized, b.invert(b.either(isOutside, isSmaller)));
  report(b, b.invert(isSized), ATTNRT_FAULT_OFFSETS, b.size(offsets, 2),
         numOffsets, fault);
  report(b, isSmaller, ATTNRT_FAULT_OFFSET_ORDER, ends[1], ends[0], fault);
  report(b, isOutside, ATTNRT_FAULT_OFFSET,
         b.select(isFirstOutside, ends[0], ends[1]), listed, fault);
  Value count = b.select(isGood, b.sub(ends[1], ends[0]), zero);
  b.each(b.size(table, 3), [&](Value word) {
    Value empty = arith::ConstantIntOp::create(b, 0, 32);
    Value never = arith::ConstantIntOp::create(b, 0, 1);
    SmallVector<Value> bits = emitCarriedLoop(
        b, count, {empty, never, zero, never, zero},
        [&](Value number, ValueRange carried) {
          Value entry = memref::LoadOp::create(
              b, indices, ValueRange{ids[0], ids[1], b.add(ends[0], number)});
          // The unsigned comparison also catches negative columns.
          Value column =
              arith::IndexCastUIOp::create(b, b.getIndexType(), entry);
          Value exists = b.compare(CmpIPredicate::ult, column, columns);
          Value isIn = b.both(exists, emitIsIn(b, column, word));
          Value bit = emitBit(b, column);
          Value known = arith::AndIOp::create(b, carried[0], bit);
          Value isTwice =
              b.both(isIn, b.compare(CmpIPredicate::ne, known, empty));
          Value found = arith::IndexCastOp::create(b, b.getIndexType(), entry);
          Value isMissing = b.invert(exists);
          return SmallVector<Value>{
              b.select(isIn, b.either(carried[0], bit), carried[0]),
              b.either(carried[1], isMissing),
              b.select(isMissing, found, carried[2]),
              b.either(carried[3], isTwice),
              b.select(isTwice, found, carried[4])};
        });
    memref::StoreOp::create(b, bits[0], table,
                            ValueRange{ids[0], ids[1], ids[2], word});
    reportHere(b, bits[3], ATTNRT_FAULT_COLUMN_TWICE, bits[4], ids[2], fault);
    reportHere(b, bits[1], ATTNRT_FAULT_COLUMN, bits[2], b.sub(columns, one),
               fault);
  });
}

LogicalResult attn::lowerMaskTableToKernel(RewriterBase &rewriter,
                                           MaskTableOpInterface op,
                                           SymbolTable &symbols) {
  std::string suffix = ("_" + op->getName().stripDialect()).str();
  FailureOr<attn_tile::KernelOp> kernel = createKernelOfOperands(
      rewriter, op, symbols, suffix, ATTNRT_ERROR_FLAG_WORDS);
  if (failed(kernel))
    return failure();
  OpBuilder::InsertionGuard guard(rewriter);
  ScalarKernelBuilder b(op.getLoc(), rewriter);
  Block *entry = &kernel->getBody().front();
  b.setInsertionPointToEnd(entry);
  llvm::TypeSwitch<Operation *>(op)
      .Case<SequenceIdsOp, AncestorMapOp, BlockSparseMapOp>(
          [&](auto table) { write(b, table, entry->getArguments()); });
  rewriter.eraseOp(op);
  return success();
}
