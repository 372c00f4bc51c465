//===- DecayedRows.cpp - Rows times decays of key elements ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A work item has a chunk of a head, and each of its threads neighbouring
// columns. It adds up their log-decays twice: first those of the whole chunk,
// then up to each token.
//
//===----------------------------------------------------------------------===//

#include "DecayedRows.h"
#include "CarriedLoop.h"
#include "ChunkTable.h"
#include "CreateKernel.h"
#include "LogDecaySums.h"
#include "ScalarKernelBuilder.h"
#include "attn/Dialect/AttnTile/IR/TileProgramBuilder.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::attn;
using arith::CmpIPredicate;

/// Columns that a thread has. Head dims are multiples of it.
static constexpr int64_t columnsOfThread = 2;

namespace {
/// The operands of the kernel; in the kernel, its arguments.
struct Operands {
  Value query, key, logDecay, length, fault, chunkTable;
  DecayedRows rows;

  SmallVector<Value *> getAll() {
    SmallVector<Value *> all = {&query,  &key,   &logDecay,
                                &length, &fault, &chunkTable};
    llvm::append_range(all, rows.getBuffers());
    return all;
  }
  SmallVector<Value> getPresent() {
    SmallVector<Value> present;
    for (Value *operand : getAll())
      if (*operand)
        present.push_back(*operand);
    return present;
  }
};

/// Writes the kernel of decayed rows.
class DecayedRowWriter {
public:
  DecayedRowWriter(OpBuilder &builder, Location loc, attn_tile::KernelOp kernel,
                   const Operands &given, int64_t chunk)
      : b(loc, builder), chunk(chunk), entry(&kernel.getBody().front()),
        args(given) {
    unsigned number = 0;
    for (Value *operand : args.getAll())
      if (*operand)
        *operand = entry->getArgument(number++);
    headDim = getDimSize(args.query, 3);
    group = getDimSize(args.query, 1) / getDimSize(args.key, 1);
  }

  void write();

private:
  using Columns = std::array<Value, columnsOfThread>;
  /// The parts of a sum of log-decays in each column, see LogDecaySums.h.
  using Sums = std::array<std::array<Value, NumSumParts>, columnsOfThread>;
  struct Place {
    Value batch, head, keyHead, chunk, firstColumn;
    /// The first row of the chunk in the buffers, and its tokens.
    Value firstRow;
    RowTokens tokens;
  };

  Value f32(double value) {
    return arith::ConstantOp::create(b, b.getF32FloatAttr(float(value)));
  }
  SmallVector<Value> getIndices(const Place &at, Value head, Value token,
                                int64_t column) {
    return {at.batch, head, token, b.add(at.firstColumn, b.constant(column))};
  }
  Columns load(Value source, const Place &at, Value head, Value number);
  void store(const Columns &values, Value dest, const Place &at, Value row);
  Columns loadLogDecays(const Place &at, Value number);
  SmallVector<Value> forTokens(
      const Place &at, int64_t unrolled, ValueRange inits,
      function_ref<void(ArrayRef<Value> tokens, MutableArrayRef<Value>)> body);
  Sums emitTotal(const Place &at, Value &largest);
  Value emitLeastSum(const Place &at);
  void writeToken(const Place &at, Value token, const Sums &sums,
                  const Sums &total, const Columns &query, const Columns &key);
  void writeColumns(const Place &at);
  void writeLeast(const Place &at);

  ScalarKernelBuilder b;
  int64_t chunk, headDim, group;
  Block *entry;
  Operands args;
};
} // namespace

/// Loads the columns of token `number` of a chunk, f32. Tokens after the last
/// one have zeros.
DecayedRowWriter::Columns DecayedRowWriter::load(Value source, const Place &at,
                                                 Value head, Value number) {
  Value last = b.sub(args.length, b.constant(1));
  Value isToken = b.compare(CmpIPredicate::slt, number, at.tokens.count);
  Value row = arith::MinUIOp::create(b, b.add(at.tokens.first, number), last);
  Columns values;
  for (auto [i, value] : llvm::enumerate(values)) {
    memref::LoadOp element =
        b.loadExisting(source, getIndices(at, head, row, int64_t(i)));
    if (auto alignment =
            getAlignmentOfNeighbour(source, int64_t(i), columnsOfThread))
      element.setAlignment(*alignment);
    value = element;
  }
  for (Value &value : values) {
    if (!value.getType().isF32())
      value = arith::ExtFOp::create(b, b.getF32Type(), value);
    value = b.select(isToken, value, f32(0));
  }
  return values;
}

/// Stores columns of row `row`, rounded; nothing without `dest`.
void DecayedRowWriter::store(const Columns &values, Value dest, const Place &at,
                             Value row) {
  if (!dest)
    return;
  Type type = getElementTypeOrSelf(dest);
  Columns rounded = values;
  std::array<SmallVector<Value>, columnsOfThread> indices;
  for (auto [i, value] : llvm::enumerate(rounded)) {
    indices[i] = getIndices(at, at.head, row, int64_t(i));
    if (!type.isF32())
      value = arith::TruncFOp::create(b, type, value);
  }
  // Stores follow one another, so that LLVM can join them.
  for (auto [i, value] : llvm::enumerate(rounded)) {
    auto element = memref::StoreOp::create(b, value, dest, indices[i]);
    if (auto alignment =
            getAlignmentOfNeighbour(dest, int64_t(i), columnsOfThread))
      element.setAlignment(*alignment);
  }
}

DecayedRowWriter::Columns DecayedRowWriter::loadLogDecays(const Place &at,
                                                          Value number) {
  return load(args.logDecay, at, at.head, number);
}

/// Writes a loop over the tokens of the chunk, `unrolled` at a time, that
/// carries values, which `body` replaces.
SmallVector<Value> DecayedRowWriter::forTokens(
    const Place &at, int64_t unrolled, ValueRange inits,
    function_ref<void(ArrayRef<Value> tokens, MutableArrayRef<Value>)> body) {
  auto emitBody = [&](Value position, ValueRange args) {
    SmallVector<Value> tokens, carried(args);
    for (int64_t i = 0; i < unrolled; ++i)
      tokens.push_back(b.add(position, b.constant(i)));
    body(tokens, carried);
    return carried;
  };
  return emitCarriedLoop(b, b.constant(chunk), inits, emitBody, unrolled);
}

/// The sums of all log-decays of the chunk, and the largest log-decay.
DecayedRowWriter::Sums DecayedRowWriter::emitTotal(const Place &at,
                                                   Value &largest) {
  constexpr int64_t unrolled = 16;
  constexpr unsigned numParts = columnsOfThread * NumSumParts;
  SmallVector<Value> inits(numParts + 1, f32(0));
  SmallVector<Value> last = forTokens(
      at, unrolled, inits,
      [&](ArrayRef<Value> tokens, MutableArrayRef<Value> carried) {
        SmallVector<Columns> decays;
        for (Value token : tokens)
          decays.push_back(loadLogDecays(at, token));
        for (const Columns &ofToken : decays)
          for (auto [i, decay] : llvm::enumerate(ofToken)) {
            addLogDecay(b, carried.slice(NumSumParts * i, NumSumParts), decay);
            carried.back() =
                arith::MaximumFOp::create(b, carried.back(), decay);
          }
      });
  Sums sums;
  for (unsigned i = 0; i < columnsOfThread; ++i)
    for (unsigned part = 0; part < NumSumParts; ++part)
      sums[i][part] = last[NumSumParts * i + part];
  largest = last.back();
  return sums;
}

/// Stores the rows of a token, from the sums of log-decays up to it and of the
/// chunk.
void DecayedRowWriter::writeToken(const Place &at, Value token,
                                  const Sums &sums, const Sums &total,
                                  const Columns &query, const Columns &key) {
  Columns decayed, fromStart, toEnd, overStart, logs;
  auto times = [&](Value value, Value log) -> Value {
    return arith::MulFOp::create(b, value, math::Exp2Op::create(b, log));
  };
  for (unsigned i = 0; i < columnsOfThread; ++i) {
    auto getRest = [&](SumPart part) -> Value {
      return arith::SubFOp::create(b, total[i][part], sums[i][part]);
    };
    logs[i] = arith::AddFOp::create(b, sums[i][WholePart], sums[i][RestPart]);
    Value rest =
        arith::AddFOp::create(b, getRest(WholePart), getRest(RestPart));
    decayed[i] = times(query[i], logs[i]);
    if (args.rows.keyFromStart)
      fromStart[i] = times(key[i], logs[i]);
    toEnd[i] = times(key[i], rest);
    if (args.rows.keyOverStart)
      overStart[i] = times(key[i], arith::NegFOp::create(b, logs[i]));
  }
  Value row = b.add(at.firstRow, token);
  store(decayed, args.rows.query, at, row);
  store(fromStart, args.rows.keyFromStart, at, row);
  store(toEnd, args.rows.keyToEnd, at, row);
  store(overStart, args.rows.keyOverStart, at, row);
  store(logs, args.rows.sums, at, row);
}

void DecayedRowWriter::writeColumns(const Place &at) {
  constexpr int64_t unrolled = 4;
  Value largest;
  Sums total = emitTotal(at, largest);
  Columns ofChunk;
  for (auto [i, parts] : llvm::enumerate(total))
    ofChunk[i] = math::Exp2Op::create(
        b, arith::AddFOp::create(b, parts[WholePart], parts[RestPart]));
  store(ofChunk, args.rows.ofChunks, at, at.chunk);
  Value isWrong =
      arith::CmpFOp::create(b, arith::CmpFPredicate::UGT, largest, f32(0));
  scf::IfOp::create(b, isWrong, [&](OpBuilder &inner, Location loc) {
    ScalarKernelBuilder c(loc, inner);
    Value code = arith::ConstantIntOp::create(c, ATTNRT_FAULT_LOG_DECAYS, 32);
    memref::StoreOp::create(c, code, args.fault, c.constant(0));
    scf::YieldOp::create(c);
  });
  SmallVector<Value> inits(columnsOfThread * NumSumParts, f32(0));
  forTokens(at, unrolled, inits,
            [&](ArrayRef<Value> tokens, MutableArrayRef<Value> carried) {
              SmallVector<std::array<Columns, 3>> loaded;
              for (Value token : tokens)
                loaded.push_back({loadLogDecays(at, token),
                                  load(args.query, at, at.head, token),
                                  load(args.key, at, at.keyHead, token)});
              for (auto [token, columns] : llvm::zip_equal(tokens, loaded)) {
                Sums sums;
                for (auto [i, decay] : llvm::enumerate(columns[0])) {
                  auto parts = carried.slice(NumSumParts * i, NumSumParts);
                  addLogDecay(b, parts, decay);
                  llvm::copy(parts, sums[i].begin());
                }
                writeToken(at, token, sums, total, columns[1], columns[2]);
              }
            });
}

/// The sum of some columns' log-decays, the least one, for a comparison.
Value DecayedRowWriter::emitLeastSum(const Place &at) {
  constexpr int64_t unrolled = 16;
  auto clamp = [&](Value decay) -> Value {
    decay = arith::MinNumFOp::create(b, decay, f32(0));
    return arith::MaxNumFOp::create(b, decay, f32(minLogDecay));
  };
  SmallVector<Value> inits(columnsOfThread, f32(0));
  SmallVector<Value> sums =
      forTokens(at, unrolled, inits,
                [&](ArrayRef<Value> tokens, MutableArrayRef<Value> carried) {
                  SmallVector<Columns> decays;
                  for (Value token : tokens)
                    decays.push_back(loadLogDecays(at, token));
                  for (const Columns &ofToken : decays)
                    for (auto [sum, decay] : llvm::zip_equal(carried, ofToken))
                      sum = arith::AddFOp::create(b, sum, clamp(decay));
                });
  Value least = sums.front();
  for (Value sum : ArrayRef(sums).drop_front())
    least = arith::MinNumFOp::create(b, least, sum);
  return arith::MulFOp::create(b, least, f32(log2e));
}

/// Stores the least sum of the columns of the chunk.
void DecayedRowWriter::writeLeast(const Place &at) {
  auto reduce = attn_tile::ReduceOp::create(
      b, b.constant(headDim / columnsOfThread), vector::CombiningKind::MINSI);
  {
    OpBuilder::InsertionGuard guard(b);
    Block *block =
        b.createBlock(&reduce.getBody(), {}, b.getIndexType(), b.getLoc());
    Place columns = at;
    columns.firstColumn =
        b.mul(block->getArgument(0), b.constant(columnsOfThread));
    Value least = math::FloorOp::create(b, emitLeastSum(columns));
    Value integer = arith::FPToSIOp::create(b, b.getI32Type(), least);
    attn_tile::YieldOp::create(
        b, ValueRange{arith::IndexCastOp::create(b, b.getIndexType(), integer)
                          .getResult()});
  }
  b.each(b.constant(1), [&](Value) {
    Value integer =
        arith::IndexCastOp::create(b, b.getI32Type(), reduce.getResult(0));
    Value least = arith::SIToFPOp::create(b, b.getF32Type(), integer);
    memref::StoreOp::create(b, least, args.rows.leastSums,
                            ValueRange{at.batch, at.head, at.chunk});
  });
}

void DecayedRowWriter::write() {
  b.setInsertionPointToEnd(entry);
  scf::ForallOp forall = b.forall(args.rows.leastSums, 3);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  SmallVector<Value> ids = forall.getInductionVars();
  Place at;
  at.batch = ids[0];
  at.head = ids[1];
  at.keyHead = group == 1
                   ? at.head
                   : arith::DivUIOp::create(b, at.head, b.constant(group));
  at.chunk = ids[2];
  at.firstRow = b.mul(at.chunk, b.constant(chunk));
  at.tokens = findTokens(b, args.chunkTable, args.length, at.firstRow, chunk);
  writeLeast(at);
  b.each(b.constant(headDim / columnsOfThread), [&](Value number) {
    Place columns = at;
    columns.firstColumn = b.mul(number, b.constant(columnsOfThread));
    writeColumns(columns);
  });
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

template <typename OpTy>
static DecayedRows createRows(RewriterBase &rewriter, OpTy op, Value chunkTable,
                              bool isOfGradient, SymbolTable &symbols) {
  if (!op.hasElementDecay())
    return {};
  ScalarKernelBuilder b(op.getLoc(), rewriter);
  ScheduleAttrInterface schedule = op.getChosenSchedule();
  int64_t chunk = schedule.getQueryTile(), heads = op.getNumHeads();
  Value batch = b.size(op.getQuery(), 0), length = b.size(op.getQuery(), 2);
  Value chunks = chunkTable ? b.size(chunkTable, 1) : b.tiles(length, chunk);
  Value tokens = b.mul(chunks, b.constant(chunk));
  constexpr int64_t dynamic = ShapedType::kDynamic;
  auto allocate = [&](Type element, Value rows) -> Value {
    auto type =
        MemRefType::get({dynamic, heads, dynamic, op.getKeyHeadDim()}, element);
    return memref::AllocOp::create(b, type, ValueRange{batch, rows});
  };
  Type element = getElementTypeOrSelf(op.getQuery());
  Operands operands;
  operands.query = op.getQuery();
  operands.key = op.getKey();
  operands.logDecay = op.getLogDecay();
  operands.length = length;
  operands.chunkTable = chunkTable;
  operands.fault =
      attn_tile::ErrorFlagOp::create(b, MemRefType::get({1}, b.getI32Type()));
  DecayedRows &rows = operands.rows;
  rows.query = allocate(element, tokens);
  if (op.getBeta())
    rows.keyFromStart = allocate(element, tokens);
  rows.keyToEnd = allocate(element, tokens);
  if (!element.isF16())
    rows.keyOverStart = allocate(element, tokens);
  rows.ofChunks = allocate(b.getF32Type(), chunks);
  rows.leastSums = memref::AllocOp::create(
      b, MemRefType::get({dynamic, heads, dynamic}, b.getF32Type()),
      ValueRange{batch, chunks});
  if (isOfGradient)
    rows.sums = allocate(b.getF32Type(), tokens);
  attn_tile::KernelOp kernel =
      createKernel(rewriter, op, schedule.getPreparation(), symbols,
                   "_decayed_rows", operands.getPresent());
  DecayedRowWriter(rewriter, op.getLoc(), kernel, operands, chunk).write();
  rewriter.setInsertionPoint(op);
  return rows;
}

DecayedRows attn::createDecayedRows(RewriterBase &rewriter,
                                    LinearAttentionOp op, Value chunkTable,
                                    SymbolTable &symbols) {
  return createRows(rewriter, op, chunkTable, /*isOfGradient=*/false, symbols);
}

DecayedRows attn::createDecayedRows(RewriterBase &rewriter,
                                    LinearAttentionGradOp op, Value chunkTable,
                                    SymbolTable &symbols) {
  return createRows(rewriter, op, chunkTable, /*isOfGradient=*/true, symbols);
}
