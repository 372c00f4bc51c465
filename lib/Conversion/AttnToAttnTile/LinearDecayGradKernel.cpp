//===- LinearDecayGradKernel.cpp - Gradient of log-decays -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Adds up the terms that other kernels leave. Each thread has some tokens of a
// chunk, and the threads of a chunk exchange sums of their terms; with a decay
// of each key element, a thread has a column of a chunk. If heads have a
// log-decay, another kernel adds up the gradients of work items.
//
//===----------------------------------------------------------------------===//

#include "LinearDecayGradKernel.h"
#include "CarriedLoop.h"
#include "ChunkTable.h"
#include "CreateKernel.h"
#include "ScalarKernelBuilder.h"
#include "ThreadGroup.h"
#include "attn/Dialect/AttnTile/IR/WarpgroupShapes.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::attn;
using arith::CmpIPredicate;

/// Tokens of a thread, which are in one chunk, and of the threads of a warp.
static constexpr int64_t tokensOfThread = 8,
                         tokensOfItem = attn_tile::warpThreads * tokensOfThread;

/// Adds up what `body` computes for the numbers below `count`.
static Value emitSum(ScalarKernelBuilder &b, Value count,
                     function_ref<Value(Value)> body) {
  auto op = attn_tile::ReduceOp::create(b, TypeRange{b.getF32Type()}, count,
                                        vector::CombiningKind::ADD);
  OpBuilder::InsertionGuard guard(b);
  Block *block = b.createBlock(&op.getBody(), {}, b.getIndexType(), b.getLoc());
  attn_tile::YieldOp::create(b, body(block->getArgument(0)));
  return op.getResult(0);
}

/// Loads a term, added up over all tiles of columns.
static Value loadTerm(ScalarKernelBuilder &b, Value dots, Value batch,
                      Value head, Value token) {
  auto add = [&](Value lhs, Value rhs) -> Value {
    return arith::AddFOp::create(b, lhs, rhs);
  };
  auto load = [&](Value tile) -> Value {
    return b.loadExisting(dots, {tile, batch, head, token});
  };
  Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
  auto addTile = [&](Value tile, ValueRange sum) -> SmallVector<Value> {
    return {add(sum.front(), load(tile))};
  };
  return emitCarriedLoop(b, b.size(dots, 0), zero, addTile).front();
}

namespace {
/// Writes the kernel of the gradient of each token or, for log-decays of heads,
/// of the tokens of each work item. A work item has the tokens of a warp's
/// threads.
class DecayGradWriter {
public:
  DecayGradWriter(RewriterBase &rewriter, LinearAttentionGradOp op,
                  attn_tile::KernelOp kernel,
                  const DecayGradWorkspace &workspace)
      : b(op.getLoc(), rewriter), chunk(op.getScheduleAttr().getQueryTile()),
        entry(&kernel.getBody().front()), queryDots(entry->getArgument(0)),
        keyDots(entry->getArgument(1)), stateDots(entry->getArgument(2)),
        chunkTerms(entry->getArgument(3)), length(entry->getArgument(4)),
        dest(entry->getArgument(5)), stateRows(workspace.stateRows) {
    if (entry->getNumArguments() > 6)
      chunkTable = entry->getArgument(6);
  }

  void write(bool isSum);

private:
  /// Terms of a token if it is the later one of a pair, or in the chunk, and if
  /// it is the earlier one of a pair whose query comes after the chunk.
  struct Terms {
    SmallVector<Value> ofLater, ofState;
  };
  struct Place {
    Value batch, head, thread;
    /// The first row of the thread, and of the ones that it loads: threads
    /// after the last chunk load the terms of others.
    Value first, loaded;
    RowTokens tokens;
  };

  Value add(Value lhs, Value rhs) { return arith::AddFOp::create(b, lhs, rhs); }
  Value sub(Value lhs, Value rhs) { return arith::SubFOp::create(b, lhs, rhs); }
  Value f32(double value) {
    return arith::ConstantOp::create(b, b.getF32FloatAttr(float(value)));
  }
  Value addUp(ValueRange values);
  int64_t getThreadsOfChunk() const { return chunk / tokensOfThread; }
  SmallVector<Value> loadDots(const Place &at, Value dots);
  Terms loadTerms(const Place &at);
  Value loadChunkTerms(const Place &at);
  SmallVector<Value> emitTokens(const Place &at);
  Place getPlace(ValueRange ids, Value thread);
  void storeTokens(const Place &at, ValueRange gradients);
  void storeSum(const Place &at, ValueRange gradients, Value item);

  ScalarKernelBuilder b;
  int64_t chunk;
  Block *entry;
  Value queryDots, keyDots, stateDots, chunkTerms, length, dest, chunkTable;
  int64_t stateRows;
};
} // namespace

Value DecayGradWriter::addUp(ValueRange values) {
  Value sum = values.front();
  for (Value value : values.drop_front())
    sum = add(sum, value);
  return sum;
}

/// Loads a term of each token of a thread, added up over all tiles of columns.
SmallVector<Value> DecayGradWriter::loadDots(const Place &at, Value dots) {
  SmallVector<Value> sums;
  for (int64_t tile = 0; tile < getDimSize(dots, 0); ++tile) {
    SmallVector<Value> ofTile = b.loadNeighbours(
        dots, {b.constant(tile), at.batch, at.head, at.loaded}, tokensOfThread);
    if (sums.empty())
      sums = ofTile;
    else
      for (auto [sum, term] : llvm::zip_equal(sums, ofTile))
        sum = add(sum, term);
  }
  return sums;
}

DecayGradWriter::Terms DecayGradWriter::loadTerms(const Place &at) {
  Terms terms;
  terms.ofState = loadDots(at, stateDots);
  for (auto [ofQuery, ofKey, ofState] : llvm::zip_equal(
           loadDots(at, queryDots), loadDots(at, keyDots), terms.ofState))
    terms.ofLater.push_back(sub(ofQuery, sub(ofKey, ofState)));
  return terms;
}

/// Loads the terms of keys before and queries after the chunk of a thread that
/// it has a part of, and adds them up.
Value DecayGradWriter::loadChunkTerms(const Place &at) {
  int64_t threads = getThreadsOfChunk(), rows = stateRows / threads;
  constexpr int64_t mostTogether = 8;
  int64_t together = std::gcd(rows, mostTogether);
  Value number = arith::DivUIOp::create(b, at.loaded, b.constant(chunk));
  Value inChunk = arith::RemUIOp::create(b, at.thread, b.constant(threads));
  Value first = b.add(b.mul(number, b.constant(stateRows)), inChunk);
  auto addRows = [&](Value tile, Value row, Value sum) {
    SmallVector<Value> terms = {sum};
    for (int64_t i = 0; i < together; ++i) {
      Value further = b.mul(b.add(row, b.constant(i)), b.constant(threads));
      terms.push_back(b.loadExisting(
          chunkTerms, {tile, at.batch, at.head, b.add(first, further)}));
    }
    return addUp(terms);
  };
  auto addTile = [&](Value tile, ValueRange sum) {
    auto addNext = [&](Value row, ValueRange sum) -> SmallVector<Value> {
      return {addRows(tile, row, sum.front())};
    };
    return emitCarriedLoop(b, b.constant(rows), sum, addNext, together);
  };
  return emitCarriedLoop(b, b.size(chunkTerms, 0), f32(0), addTile).front();
}

/// The gradients of the tokens of a thread: the terms of the chunk's tokens
/// from each one on as the later one of a pair, of earlier ones with queries
/// after the chunk, and of the chunk.
SmallVector<Value> DecayGradWriter::emitTokens(const Place &at) {
  Terms own = loadTerms(at);
  ThreadGroup ofChunk(b, at.thread, getThreadsOfChunk());
  Value later = add(ofChunk.sum(loadChunkTerms(at)),
                    add(ofChunk.sumAfter(addUp(own.ofLater)),
                        ofChunk.sumBefore(addUp(own.ofState))));
  SmallVector<Value> gradients(own.ofLater.size());
  for (size_t i = gradients.size(); i-- > 0;)
    gradients[i] = later = add(later, own.ofLater[i]);
  Value earlier = f32(0);
  for (auto [gradient, ofState] : llvm::zip_equal(gradients, own.ofState)) {
    gradient = add(gradient, earlier);
    earlier = add(earlier, ofState);
  }
  return gradients;
}

DecayGradWriter::Place DecayGradWriter::getPlace(ValueRange ids, Value thread) {
  Place at;
  at.batch = ids[0];
  at.head = ids[1];
  at.thread = thread;
  at.first = b.add(b.mul(ids[2], b.constant(tokensOfItem)),
                   b.mul(thread, b.constant(tokensOfThread)));
  Value last = b.sub(b.size(queryDots, 3), b.constant(tokensOfThread));
  at.loaded = arith::MinUIOp::create(b, at.first, last);
  at.tokens = findTokens(b, chunkTable, length, at.first, chunk);
  return at;
}

/// Stores the gradients of the tokens that exist.
void DecayGradWriter::storeTokens(const Place &at, ValueRange gradients) {
  for (size_t i = 0; i < gradients.size(); ++i) {
    Value number = b.constant(int64_t(i));
    Value token = b.add(at.tokens.first, number);
    Value exists = b.compare(CmpIPredicate::slt, number, at.tokens.count);
    scf::IfOp::create(b, exists, [&](OpBuilder &inner, Location loc) {
      memref::StoreOp::create(inner, loc, gradients[i], dest,
                              ValueRange{at.batch, at.head, token});
      scf::YieldOp::create(inner, loc);
    });
  }
}

/// Stores the sum of the gradients of work item `item` of a head.
void DecayGradWriter::storeSum(const Place &at, ValueRange gradients,
                               Value item) {
  Value sum = f32(0);
  for (auto [i, gradient] : llvm::enumerate(gradients)) {
    Value exists =
        b.compare(CmpIPredicate::slt, b.constant(int64_t(i)), at.tokens.count);
    sum = add(sum, b.select(exists, gradient, f32(0)));
  }
  sum = ThreadGroup(b, at.thread, attn_tile::warpThreads).sum(sum);
  Value isFirst = b.compare(CmpIPredicate::eq, at.thread, b.constant(0));
  scf::IfOp::create(b, isFirst, [&](OpBuilder &inner, Location loc) {
    memref::StoreOp::create(inner, loc, sum, dest,
                            ValueRange{at.batch, at.head, item});
    scf::YieldOp::create(inner, loc);
  });
}

void DecayGradWriter::write(bool isSum) {
  b.setInsertionPointToEnd(entry);
  SmallVector<OpFoldResult> bounds = {
      b.size(queryDots, 1), b.size(queryDots, 2),
      b.tiles(b.size(queryDots, 3), tokensOfItem)};
  auto forall = scf::ForallOp::create(b, bounds, ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  SmallVector<Value> ids = forall.getInductionVars();
  // All threads exchange sums, also ones after the last token.
  b.each(b.constant(attn_tile::warpThreads), [&](Value thread) {
    Place at = getPlace(ids, thread);
    SmallVector<Value> gradients = emitTokens(at);
    if (isSum)
      storeSum(at, gradients, ids[2]);
    else
      storeTokens(at, gradients);
  });
}

namespace {
/// Writes the kernel of the gradient with a decay of each key element. A work
/// item has a chunk, and each of its threads a column.
class ElementGradWriter {
public:
  ElementGradWriter(RewriterBase &rewriter, LinearAttentionGradOp op,
                    attn_tile::KernelOp kernel,
                    const DecayGradWorkspace &workspace)
      : b(op.getLoc(), rewriter), chunk(op.getScheduleAttr().getQueryTile()),
        entry(&kernel.getBody().front()), rowTerms(entry->getArgument(0)),
        stateTerms(entry->getArgument(1)), chunkTerms(entry->getArgument(2)),
        length(entry->getArgument(3)), dest(entry->getArgument(4)),
        stateRows(workspace.stateRows) {
    if (entry->getNumArguments() > 5)
      chunkTable = entry->getArgument(5);
  }

  void write();

private:
  void writeColumn(Value batch, Value head, Value number, Value column);
  SmallVector<Value> forTokens(
      ValueRange inits,
      function_ref<void(ArrayRef<Value> tokens, MutableArrayRef<Value>)> body);
  void storeIfToken(Value exists, Value gradient, ValueRange indices);

  ScalarKernelBuilder b;
  int64_t chunk;
  Block *entry;
  Value rowTerms, stateTerms, chunkTerms, length, dest, chunkTable;
  int64_t stateRows;
};
} // namespace

/// Writes a loop over the tokens of a chunk, some at a time, that carries
/// values, which `body` replaces.
SmallVector<Value> ElementGradWriter::forTokens(
    ValueRange inits,
    function_ref<void(ArrayRef<Value> tokens, MutableArrayRef<Value>)> body) {
  constexpr int64_t unrolled = 8;
  auto emitBody = [&](Value first, ValueRange args) {
    SmallVector<Value> tokens, carried(args);
    for (int64_t i = 0; i < unrolled; ++i)
      tokens.push_back(b.add(first, b.constant(i)));
    body(tokens, carried);
    return carried;
  };
  return emitCarriedLoop(b, b.constant(chunk), inits, emitBody, unrolled);
}

/// A token has the row terms from it on, the terms of states before it, and
/// the terms of the chunk: all row terms of the chunk less the earlier ones.
void ElementGradWriter::writeColumn(Value batch, Value head, Value number,
                                    Value column) {
  Value first = b.mul(number, b.constant(chunk));
  auto getIndices = [&](Value token) -> SmallVector<Value> {
    return {batch, head, b.add(first, token), column};
  };
  auto load = [&](Value terms, ArrayRef<Value> tokens) {
    return llvm::map_to_vector(tokens, [&](Value token) -> Value {
      return b.loadExisting(terms, getIndices(token));
    });
  };
  auto add = [&](Value lhs, Value rhs) -> Value {
    return arith::AddFOp::create(b, lhs, rhs);
  };
  Value row = b.add(b.mul(number, b.constant(stateRows)), column);
  Value sum =
      forTokens(loadTerm(b, chunkTerms, batch, head, row),
                [&](ArrayRef<Value> tokens, MutableArrayRef<Value> carried) {
                  for (Value term : load(rowTerms, tokens))
                    carried[0] = add(carried[0], term);
                })[0];
  RowTokens ofChunk = findTokens(b, chunkTable, length, first, chunk);
  forTokens(sum, [&](ArrayRef<Value> tokens, MutableArrayRef<Value> carried) {
    SmallVector<Value> ofRows = load(rowTerms, tokens);
    SmallVector<Value> ofStates = load(stateTerms, tokens);
    for (auto [token, ofRow, ofState] :
         llvm::zip_equal(tokens, ofRows, ofStates)) {
      storeIfToken(b.compare(CmpIPredicate::slt, token, ofChunk.count),
                   carried[0],
                   {batch, head, b.add(ofChunk.first, token), column});
      carried[0] = add(arith::SubFOp::create(b, carried[0], ofRow), ofState);
    }
  });
}

/// Stores the gradient of a token, if it exists.
void ElementGradWriter::storeIfToken(Value exists, Value gradient,
                                     ValueRange indices) {
  scf::IfOp::create(b, exists, [&](OpBuilder &inner, Location loc) {
    memref::StoreOp::create(inner, loc, gradient, dest, indices);
    scf::YieldOp::create(inner, loc);
  });
}

void ElementGradWriter::write() {
  b.setInsertionPointToEnd(entry);
  SmallVector<OpFoldResult> bounds = {b.size(rowTerms, 0), b.size(rowTerms, 1),
                                      b.tiles(b.size(rowTerms, 2), chunk)};
  auto forall = scf::ForallOp::create(b, bounds, ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  SmallVector<Value> ids = forall.getInductionVars();
  b.each(b.constant(getDimSize(rowTerms, 3)),
         [&](Value column) { writeColumn(ids[0], ids[1], ids[2], column); });
}

/// Writes the kernel that adds up the chunks of each head.
static void writeSumsOfHeads(RewriterBase &rewriter, Location loc,
                             attn_tile::KernelOp kernel) {
  ScalarKernelBuilder b(loc, rewriter);
  Block *entry = &kernel.getBody().front();
  Value chunks = entry->getArgument(0), dest = entry->getArgument(1);
  b.setInsertionPointToEnd(entry);
  scf::ForallOp forall = b.forall(dest, 2);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  SmallVector<Value> ids = forall.getInductionVars();
  Value sum = emitSum(b, b.size(chunks, 2), [&](Value number) -> Value {
    return b.loadExisting(chunks, {ids[0], ids[1], number});
  });
  b.each(b.constant(1), [&](Value) {
    memref::StoreOp::create(b, sum, dest, ValueRange(ids));
  });
}

/// The number of chunks of a batch entry.
static Value emitNumChunks(ScalarKernelBuilder &b, LinearAttentionGradOp op,
                           Value chunkTable) {
  return chunkTable ? b.size(chunkTable, 1)
                    : b.tiles(b.size(op.getQuery(), 2),
                              op.getScheduleAttr().getQueryTile());
}

DecayGradWorkspace DecayGradWorkspace::allocateTerms(OpBuilder &builder,
                                                     LinearAttentionGradOp op,
                                                     Value chunkTable,
                                                     int64_t numRows,
                                                     Value numTiles) {
  ScalarKernelBuilder b(op.getLoc(), builder);
  ScheduleAttrInterface schedule = op.getScheduleAttr();
  int64_t chunk = schedule.getQueryTile();
  Value batch = b.size(op.getQuery(), 0);
  Value chunks = emitNumChunks(b, op, chunkTable);
  constexpr int64_t dynamic = ShapedType::kDynamic;
  int64_t tilesOfKeys =
      llvm::divideCeil(op.getKeyHeadDim(), schedule.getHeadDimTile());
  auto getType = [&](int64_t tiles) {
    return MemRefType::get({tiles, dynamic, op.getNumHeads(), dynamic},
                           b.getF32Type());
  };
  auto allocateTokens = [&]() -> Value {
    return memref::AllocOp::create(
        b, getType(tilesOfKeys),
        ValueRange{batch, b.mul(chunks, b.constant(chunk))});
  };
  DecayGradWorkspace workspace;
  workspace.query = op.getQuery();
  workspace.key = op.getKey();
  if (op.hasElementDecay()) {
    auto allocateElements = [&]() -> Value {
      auto type = MemRefType::get(
          {dynamic, op.getNumHeads(), dynamic, op.getKeyHeadDim()},
          b.getF32Type());
      return memref::AllocOp::create(
          b, type, ValueRange{batch, b.mul(chunks, b.constant(chunk))});
    };
    workspace.rowTerms = allocateElements();
    workspace.stateTerms = allocateElements();
  } else {
    workspace.queryDots = allocateTokens();
    workspace.keyDots = allocateTokens();
    workspace.stateDots = allocateTokens();
  }
  workspace.stateRows = numRows;
  Value rows = b.mul(chunks, b.constant(workspace.stateRows));
  workspace.chunkTerms = memref::AllocOp::create(
      b, getType(dynamic), ValueRange{numTiles, batch, rows});
  return workspace;
}

DecayGradWorkspace DecayGradWorkspace::allocate(OpBuilder &builder,
                                                LinearAttentionGradOp op,
                                                Value chunkTable) {
  ScalarKernelBuilder b(op.getLoc(), builder);
  Value tiles = b.constant(llvm::divideCeil(
      op.getKeyHeadDim(), op.getScheduleAttr().getHeadDimTile()));
  DecayGradWorkspace workspace =
      allocateTerms(builder, op, chunkTable,
                    int64_t(llvm::alignTo(op.getValueHeadDim(),
                                          op.getScheduleAttr().getQueryTile())),
                    tiles);
  constexpr int64_t dynamic = ShapedType::kDynamic;
  auto ofStates = MemRefType::get({dynamic, dynamic, op.getNumHeads(),
                                   op.getValueHeadDim(), op.getKeyHeadDim()},
                                  getElementTypeOrSelf(op.getQuery()));
  Value chunks = emitNumChunks(b, op, chunkTable);
  workspace.states = memref::AllocOp::create(
      b, ofStates, ValueRange{chunks, b.size(op.getQuery(), 0)});
  return workspace;
}

void DecayGradWorkspace::deallocate(OpBuilder &builder, Location loc) const {
  for (Value buffer : {queryDots, keyDots, stateDots, rowTerms, stateTerms,
                       states, chunkTerms})
    if (buffer)
      memref::DeallocOp::create(builder, loc, buffer);
}

/// Launches the kernel with a decay of each key element.
static void createElementGradKernel(RewriterBase &rewriter,
                                    LinearAttentionGradOp op,
                                    const DecayGradWorkspace &workspace,
                                    Value chunkTable, SymbolTable &symbols) {
  ScalarKernelBuilder b(op.getLoc(), rewriter);
  SmallVector<Value> operands = {workspace.rowTerms, workspace.stateTerms,
                                 workspace.chunkTerms, b.size(op.getQuery(), 2),
                                 op.getDlogDecay()};
  if (chunkTable)
    operands.push_back(chunkTable);
  attn_tile::KernelOp kernel =
      createKernel(rewriter, op, op.getScheduleAttr().getPreparation(), symbols,
                   "_linear_dlog_decay", operands);
  ElementGradWriter(rewriter, op, kernel, workspace).write();
  rewriter.setInsertionPoint(op);
}

void attn::createDecayGradKernels(RewriterBase &rewriter,
                                  LinearAttentionGradOp op,
                                  const DecayGradWorkspace &workspace,
                                  Value chunkTable, SymbolTable &symbols) {
  if (op.hasElementDecay()) {
    createElementGradKernel(rewriter, op, workspace, chunkTable, symbols);
    return workspace.deallocate(rewriter, op.getLoc());
  }
  ScalarKernelBuilder b(op.getLoc(), rewriter);
  ScheduleAttrInterface schedule = op.getScheduleAttr().getPreparation();
  Value length = b.size(op.getQuery(), 2), dest = op.getDlogDecay(), chunks;
  bool isOfHeads = cast<MemRefType>(dest.getType()).getRank() == 2;
  if (isOfHeads) {
    constexpr int64_t dynamic = ShapedType::kDynamic;
    auto type =
        MemRefType::get({dynamic, op.getNumHeads(), dynamic}, b.getF32Type());
    chunks = memref::AllocOp::create(
        b, type,
        ValueRange{b.size(op.getQuery(), 0),
                   b.tiles(b.size(workspace.queryDots, 3), tokensOfItem)});
  }
  SmallVector<Value> operands = {workspace.queryDots,
                                 workspace.keyDots,
                                 workspace.stateDots,
                                 workspace.chunkTerms,
                                 length,
                                 isOfHeads ? chunks : dest};
  if (chunkTable)
    operands.push_back(chunkTable);
  attn_tile::KernelOp kernel = createKernel(rewriter, op, schedule, symbols,
                                            "_linear_dlog_decay", operands);
  DecayGradWriter(rewriter, op, kernel, workspace).write(isOfHeads);
  rewriter.setInsertionPoint(op);
  if (isOfHeads) {
    attn_tile::KernelOp sums =
        createKernel(rewriter, op, schedule, symbols, "_linear_dlog_decay_sums",
                     {chunks, dest});
    writeSumsOfHeads(rewriter, op.getLoc(), sums);
    rewriter.setInsertionPoint(op);
    memref::DeallocOp::create(rewriter, op.getLoc(), chunks);
  }
  workspace.deallocate(rewriter, op.getLoc());
}
