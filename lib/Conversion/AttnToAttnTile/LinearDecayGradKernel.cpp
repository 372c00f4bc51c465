//===- LinearDecayGradKernel.cpp - Gradient of log-decays -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Adds up the terms that other kernels leave. Each thread has some tokens of a
// chunk, and adds up the terms of all of the chunk; with a decay of each key
// element, a column of a chunk. If heads have a log-decay, another kernel adds
// up the gradients of work items.
//
//===----------------------------------------------------------------------===//

#include "LinearDecayGradKernel.h"
#include "CarriedLoop.h"
#include "CreateKernel.h"
#include "ScalarKernelBuilder.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::attn;
using arith::CmpIPredicate;

/// Tokens of a thread, which are in one chunk, and of the threads of a warp.
static constexpr int64_t tokensOfThread = 8, tokensOfItem = 32 * tokensOfThread;

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
  int64_t tiles = getDimSize(dots, 0);
  if (tiles != ShapedType::kDynamic) {
    Value sum = load(b.constant(0));
    for (int64_t tile = 1; tile < tiles; ++tile)
      sum = add(sum, load(b.constant(tile)));
    return sum;
  }
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
        dest(entry->getArgument(5)), stateRows(workspace.stateRows) {}

  void write(bool isSum);

private:
  /// Terms of a token if it is the later one of a pair, or in the chunk, and if
  /// it is the earlier one of a pair whose query comes after the chunk.
  struct Terms {
    Value ofLater, ofState;
  };
  struct Place {
    Value batch, head;
    /// The first token of a thread, and the terms of its chunk.
    Value first, ofChunk;
  };

  Value add(Value lhs, Value rhs) { return arith::AddFOp::create(b, lhs, rhs); }
  Value f32(double value) {
    return arith::ConstantOp::create(b, b.getF32FloatAttr(float(value)));
  }
  Value emitChunkTerms(Value batch, Value head, Value number);
  SmallVector<Terms> loadTerms(const Place &at, Value first);
  Terms addUp(ArrayRef<Terms> terms);
  SmallVector<Value> emitTokens(const Place &at);
  Place getPlace(ValueRange ids, ValueRange ofChunks, Value thread);

  ScalarKernelBuilder b;
  int64_t chunk;
  Block *entry;
  Value queryDots, keyDots, stateDots, chunkTerms, length, dest;
  int64_t stateRows;
};
} // namespace

/// The terms of keys before and queries after a chunk.
Value DecayGradWriter::emitChunkTerms(Value batch, Value head, Value number) {
  Value rows = b.constant(stateRows), first = b.mul(number, rows);
  return emitSum(b, b.constant(stateRows), [&](Value row) {
    return loadTerm(b, chunkTerms, batch, head, b.add(first, row));
  });
}

/// Loads the terms of as many tokens as a thread has. Tokens after the last one
/// have terms of zero.
SmallVector<DecayGradWriter::Terms> DecayGradWriter::loadTerms(const Place &at,
                                                               Value first) {
  SmallVector<Terms> terms;
  for (int64_t i = 0; i < tokensOfThread; ++i) {
    Value token = b.add(first, b.constant(i));
    auto load = [&](Value dots) {
      return loadTerm(b, dots, at.batch, at.head, token);
    };
    Value ofState = load(stateDots);
    Value inChunk = arith::SubFOp::create(b, load(keyDots), ofState);
    Value ofLater = arith::SubFOp::create(b, load(queryDots), inChunk);
    terms.push_back({ofLater, ofState});
  }
  return terms;
}

DecayGradWriter::Terms DecayGradWriter::addUp(ArrayRef<Terms> terms) {
  Terms sum = terms.front();
  for (const Terms &term : terms.drop_front())
    sum = {add(sum.ofLater, term.ofLater), add(sum.ofState, term.ofState)};
  return sum;
}

/// The gradients of the tokens of a thread: the terms of the chunk's tokens
/// from each one on as the later one of a pair, of earlier ones with queries
/// after the chunk, and of the chunk.
SmallVector<Value> DecayGradWriter::emitTokens(const Place &at) {
  Value inChunk = arith::RemUIOp::create(b, at.first, b.constant(chunk));
  Value ofChunk = b.sub(at.first, inChunk);
  auto loop =
      scf::ForOp::create(b, b.constant(0), b.constant(chunk),
                         b.constant(tokensOfThread), ValueRange{at.ofChunk});
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value position = loop.getInductionVar();
    Terms sum = addUp(loadTerms(at, b.add(ofChunk, position)));
    Value isEarlier = b.compare(CmpIPredicate::ult, position, inChunk);
    Value isOwn = b.compare(CmpIPredicate::eq, position, inChunk);
    Value other = b.select(isEarlier, sum.ofState, sum.ofLater);
    scf::YieldOp::create(b, ValueRange{add(loop.getRegionIterArg(0),
                                           b.select(isOwn, f32(0), other))});
  }
  SmallVector<Terms> own = loadTerms(at, at.first);
  SmallVector<Value> gradients(own.size());
  Value later = loop.getResult(0);
  for (size_t i = own.size(); i-- > 0;)
    gradients[i] = later = add(later, own[i].ofLater);
  Value earlier = f32(0);
  for (auto [gradient, terms] : llvm::zip_equal(gradients, own)) {
    gradient = add(gradient, earlier);
    earlier = add(earlier, terms.ofState);
  }
  return gradients;
}

/// The tokens of thread `thread`. `ofChunks` are terms of the work item's
/// chunks.
DecayGradWriter::Place
DecayGradWriter::getPlace(ValueRange ids, ValueRange ofChunks, Value thread) {
  Place at;
  at.batch = ids[0];
  at.head = ids[1];
  Value first = b.mul(ids[2], b.constant(tokensOfItem));
  at.first = b.add(first, b.mul(thread, b.constant(tokensOfThread)));
  Value number =
      arith::DivUIOp::create(b, thread, b.constant(chunk / tokensOfThread));
  at.ofChunk = ofChunks.front();
  for (auto [i, terms] : llvm::enumerate(ofChunks.drop_front())) {
    Value isOf = b.compare(CmpIPredicate::ugt, number, b.constant(int64_t(i)));
    at.ofChunk = b.select(isOf, terms, at.ofChunk);
  }
  return at;
}

void DecayGradWriter::write(bool isSum) {
  b.setInsertionPointToEnd(entry);
  SmallVector<OpFoldResult> bounds = {b.size(queryDots, 1),
                                      b.size(queryDots, 2),
                                      b.tiles(length, tokensOfItem)};
  auto forall = scf::ForallOp::create(b, bounds, ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  SmallVector<Value> ids = forall.getInductionVars(), ofChunks;
  Value last = b.sub(b.tiles(length, chunk), b.constant(1));
  int64_t chunks = tokensOfItem / chunk;
  for (int64_t i = 0; i < chunks; ++i) {
    Value number = b.add(b.mul(ids[2], b.constant(chunks)), b.constant(i));
    number = arith::MinUIOp::create(b, number, last);
    ofChunks.push_back(emitChunkTerms(ids[0], ids[1], number));
  }
  // Threads of chunks that exist.
  Value first = b.mul(ids[2], b.constant(tokensOfItem));
  Value tokens = b.mul(b.tiles(b.sub(length, first), chunk), b.constant(chunk));
  Value threads =
      b.tiles(arith::MinUIOp::create(b, tokens, b.constant(tokensOfItem)),
              tokensOfThread);
  auto emitEach = [&](Value thread,
                      function_ref<void(Value token, Value gradient)> body) {
    Place at = getPlace(ids, ofChunks, thread);
    for (auto [i, gradient] : llvm::enumerate(emitTokens(at)))
      body(b.add(at.first, b.constant(int64_t(i))), gradient);
  };
  if (!isSum)
    return b.each(threads, [&](Value thread) {
      emitEach(thread, [&](Value token, Value gradient) {
        Value exists = b.compare(CmpIPredicate::ult, token, length);
        scf::IfOp::create(b, exists, [&](OpBuilder &inner, Location loc) {
          memref::StoreOp::create(inner, loc, gradient, dest,
                                  ValueRange{ids[0], ids[1], token});
          scf::YieldOp::create(inner, loc);
        });
      });
    });
  Value sum = emitSum(b, threads, [&](Value thread) {
    Value ofThread = f32(0);
    emitEach(thread, [&](Value token, Value gradient) {
      Value exists = b.compare(CmpIPredicate::ult, token, length);
      ofThread = add(ofThread, b.select(exists, gradient, f32(0)));
    });
    return ofThread;
  });
  b.each(b.constant(1), [&](Value) {
    memref::StoreOp::create(b, sum, dest, ValueRange(ids));
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
        stateRows(workspace.stateRows) {}

  void write();

private:
  void writeColumn(Value batch, Value head, Value number, Value column);
  SmallVector<Value> forTokens(
      ValueRange inits,
      function_ref<void(ArrayRef<Value> tokens, MutableArrayRef<Value>)> body);
  void storeIfToken(Value gradient, ValueRange indices);

  ScalarKernelBuilder b;
  int64_t chunk;
  Block *entry;
  Value rowTerms, stateTerms, chunkTerms, length, dest;
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
  forTokens(sum, [&](ArrayRef<Value> tokens, MutableArrayRef<Value> carried) {
    SmallVector<Value> ofRows = load(rowTerms, tokens);
    SmallVector<Value> ofStates = load(stateTerms, tokens);
    for (auto [token, ofRow, ofState] :
         llvm::zip_equal(tokens, ofRows, ofStates)) {
      storeIfToken(carried[0], getIndices(token));
      carried[0] = add(arith::SubFOp::create(b, carried[0], ofRow), ofState);
    }
  });
}

/// Stores the gradient of a token that exists.
void ElementGradWriter::storeIfToken(Value gradient, ValueRange indices) {
  Value exists = b.compare(CmpIPredicate::ult, indices[2], length);
  scf::IfOp::create(b, exists, [&](OpBuilder &inner, Location loc) {
    memref::StoreOp::create(inner, loc, gradient, dest, indices);
    scf::YieldOp::create(inner, loc);
  });
}

void ElementGradWriter::write() {
  b.setInsertionPointToEnd(entry);
  SmallVector<OpFoldResult> bounds = {b.size(rowTerms, 0), b.size(rowTerms, 1),
                                      b.tiles(length, chunk)};
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

DecayGradWorkspace DecayGradWorkspace::allocateTerms(OpBuilder &builder,
                                                     LinearAttentionGradOp op,
                                                     int64_t numRows,
                                                     Value numTiles) {
  ScalarKernelBuilder b(op.getLoc(), builder);
  ScheduleAttrInterface schedule = op.getScheduleAttr();
  int64_t chunk = schedule.getQueryTile();
  Value batch = b.size(op.getQuery(), 0);
  Value chunks = b.tiles(b.size(op.getQuery(), 2), chunk);
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
                                                LinearAttentionGradOp op) {
  ScalarKernelBuilder b(op.getLoc(), builder);
  Value tiles = b.constant(llvm::divideCeil(
      op.getKeyHeadDim(), op.getScheduleAttr().getHeadDimTile()));
  DecayGradWorkspace workspace =
      allocateTerms(builder, op,
                    int64_t(llvm::alignTo(op.getValueHeadDim(),
                                          op.getScheduleAttr().getQueryTile())),
                    tiles);
  constexpr int64_t dynamic = ShapedType::kDynamic;
  auto ofStates = MemRefType::get({dynamic, dynamic, op.getNumHeads(),
                                   op.getValueHeadDim(), op.getKeyHeadDim()},
                                  getElementTypeOrSelf(op.getQuery()));
  Value chunks =
      b.tiles(b.size(op.getQuery(), 2), op.getScheduleAttr().getQueryTile());
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
                                    SymbolTable &symbols) {
  ScalarKernelBuilder b(op.getLoc(), rewriter);
  attn_tile::KernelOp kernel = createKernel(
      rewriter, op, op.getScheduleAttr().getPreparation(), symbols,
      "_linear_dlog_decay",
      {workspace.rowTerms, workspace.stateTerms, workspace.chunkTerms,
       b.size(op.getQuery(), 2), op.getDlogDecay()});
  ElementGradWriter(rewriter, op, kernel, workspace).write();
  rewriter.setInsertionPoint(op);
}

void attn::createDecayGradKernels(RewriterBase &rewriter,
                                  LinearAttentionGradOp op,
                                  const DecayGradWorkspace &workspace,
                                  SymbolTable &symbols) {
  if (op.hasElementDecay()) {
    createElementGradKernel(rewriter, op, workspace, symbols);
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
        ValueRange{b.size(op.getQuery(), 0), b.tiles(length, tokensOfItem)});
  }
  attn_tile::KernelOp kernel =
      createKernel(rewriter, op, schedule, symbols, "_linear_dlog_decay",
                   {workspace.queryDots, workspace.keyDots, workspace.stateDots,
                    workspace.chunkTerms, length, isOfHeads ? chunks : dest});
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
