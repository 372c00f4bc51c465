//===- ShardAttention.cpp - Functions of one rank -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds the tensors that are distributed, checks that nothing else uses them,
// and rewrites functions into functions of one rank.
//
//===----------------------------------------------------------------------===//

#include "ShardEmitter.h"
#include "attn/Dialect/Attn/IR/AttnCommOps.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Distributed/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

#include <numeric>

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNSHARDATTENTIONPASS
#include "attn/Distributed/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

/// The most ranks of a group.
static constexpr int64_t maxRanks = 1024;

//===----------------------------------------------------------------------===//
// Conditions
//===----------------------------------------------------------------------===//

namespace {
/// An operand of attention that has a chunk for each rank.
struct ShardedOperand {
  StringRef name;
  OpOperand *operand;
};
} // namespace

static SmallVector<ShardedOperand> getShardedOperands(AttentionOp op) {
  SmallVector<ShardedOperand> operands = {{"query", &op.getQueryMutable()},
                                          {"key", &op.getKeyMutable()},
                                          {"value", &op.getValueMutable()},
                                          {"out", &op.getOutMutable()}};
  for (OpOperand &lse : op.getLseMutable())
    operands.push_back({"lse", &lse});
  return operands;
}

/// Checks that `op` has no clause whose positions or tensors would have to be
/// distributed, too.
static LogicalResult verifyClauses(AttentionOp op) {
  auto isPresent = [](Region &region) { return !region.empty(); };
  for (auto [clause, isUsed] : {
           std::pair<StringRef, bool>{"sequences",
                                      op.getQuerySequences() != nullptr},
           {"key_lengths", op.getKeyLengths() != nullptr},
           {"positions", op.getPositions() != nullptr},
           {"reads", !op.getMaskReads().empty()},
           {"block_mask", op.getBlockMask() != nullptr},
           {"identity", op.getIdentity() != nullptr},
           {"dropout_mask", op.getDropoutMask() != nullptr},
           {"query", isPresent(op.getQueryRegion())},
           {"epilogue", isPresent(op.getEpilogue())},
       })
    if (isUsed)
      return op.emitOpError("cannot be distributed over ranks with '")
             << clause << "'";
  return success();
}

/// Checks that chunks are equal, and that words of keep masks begin in them.
static LogicalResult verifyLengths(AttentionOp op, ChunkPlacement placement) {
  int64_t chunks = placement.getNumChunks();
  for (auto [name, operand] : getShardedOperands(op)) {
    int64_t length = getDimSize(operand->get(), sequenceDim);
    if (ShapedType::isDynamic(length)) {
      if (placement.chunksPerRank == 1)
        continue;
      return op.emitOpError("dimension 2 of '")
             << name << "' must be static with " << placement.chunksPerRank
             << " chunks for each rank (was dynamic)";
    }
    if (length % chunks != 0)
      return op.emitOpError("dimension 2 of '")
             << name << "' must be a multiple of " << chunks << ", "
             << placement.chunksPerRank << " for each of " << placement.ranks
             << " ranks (was " << length << ")";
    int64_t words = DropoutAttr::keysOfWord * chunks;
    if (op.getDropoutAttr() && chunks > 1 && length % words != 0)
      return op.emitOpError("with dropout, dimension 2 of '")
             << name << "' must be a multiple of " << words << ", "
             << DropoutAttr::keysOfWord << " for each of " << chunks
             << " chunks (was " << length << ")";
  }
  return success();
}

/// Checks that each rank can have a chunk of an operand of `op`, which is in
/// the first block of a function.
static LogicalResult verifySource(AttentionOp op, ShardedOperand sharded) {
  Value value = sharded.operand->get();
  if (isa<MemRefType>(value.getType()))
    return op.emitOpError("must be on tensors to be distributed over ranks");
  if (isa<BlockArgument>(value))
    return success();
  Operation *source = value.getDefiningOp();
  if (isa<AttentionOp>(source) ||
      (isa<tensor::EmptyOp>(source) && op.isDpsInit(sharded.operand)))
    return success();
  return op.emitOpError("'")
         << sharded.name
         << "' must be an argument of the function or a result of "
            "'attn.attention' to be distributed over ranks (was a result of '"
         << source->getName() << "')";
}

namespace {
/// Rewrites one function.
class FunctionSharder {
public:
  FunctionSharder(func::FuncOp func, ShardMethod method, int64_t ranks)
      : func(func), method(method), builder(func.getContext()) {
    placement.ranks = ranks;
    placement.chunksPerRank = method == ShardMethod::Zigzag ? 2 : 1;
  }

  /// Fails if the function cannot be distributed; it has not been changed then.
  LogicalResult verify();
  /// Returns the number of attentions that were distributed.
  int64_t rewrite();

private:
  LogicalResult verifyUse(OpOperand &use);
  bool isSizeOfDestinations(tensor::DimOp op);
  void nameArguments();
  void rewriteTypes();
  SmallVector<Value> emitShard(AttentionOp op, ReachableChunks reachable);
  void report(AttentionOp op, ArrayRef<RingStep> steps);

  func::FuncOp func;
  ShardMethod method;
  ChunkPlacement placement;
  OpBuilder builder;
  Value rank;
  SmallVector<AttentionOp> attentions;
  /// Tensors of which each rank has a chunk; destinations without contents are
  /// not among them.
  llvm::SetVector<Value> sharded;
  /// Chunks, and the tensors of all ranks that they are parts of.
  DenseMap<Value, Value> gathered;
};
} // namespace

/// Whether `op` gives a size of new destinations of attention, which are
/// replaced.
bool FunctionSharder::isSizeOfDestinations(tensor::DimOp op) {
  return llvm::all_of(op->getUsers(), [](Operation *user) {
    return isa<tensor::EmptyOp>(user) &&
           llvm::all_of(user->getUses(), [](OpOperand &use) {
             auto attention = dyn_cast<AttentionOp>(use.getOwner());
             return attention && attention.isDpsInit(&use);
           });
  });
}

LogicalResult FunctionSharder::verifyUse(OpOperand &use) {
  Operation *user = use.getOwner();
  if (auto attention = dyn_cast<AttentionOp>(user))
    if (llvm::any_of(getShardedOperands(attention), [&](ShardedOperand other) {
          return other.operand == &use;
        }))
      return success();
  if (isa<func::ReturnOp>(user))
    return success();
  if (auto dim = dyn_cast<tensor::DimOp>(user)) {
    std::optional<int64_t> index = dim.getConstantIndex();
    if ((index && *index != sequenceDim) || isSizeOfDestinations(dim))
      return success();
  }
  InFlightDiagnostic diagnostic = user->emitOpError(
      "uses a tensor that is distributed over ranks, which only "
      "'query', 'key', 'value' and destinations of 'attn.attention' can");
  diagnostic.attachNote(use.get().getLoc()) << "the tensor is defined here";
  return diagnostic;
}

LogicalResult FunctionSharder::verify() {
  WalkResult walk = func.walk([&](AttentionOpInterface op) -> WalkResult {
    auto attention = dyn_cast<AttentionOp>(op.getOperation());
    if (!attention)
      return op->emitOpError("cannot be distributed over ranks: only "
                             "'attn.attention' can");
    if (attention->getBlock() != &func.getBody().front())
      return attention.emitOpError("must be in the first block of a function "
                                   "to be distributed over ranks");
    attentions.push_back(attention);
    if (failed(verifyClauses(attention)) ||
        failed(verifyLengths(attention, placement)))
      return WalkResult::interrupt();
    for (ShardedOperand operand : getShardedOperands(attention)) {
      if (failed(verifySource(attention, operand)))
        return WalkResult::interrupt();
      if (!operand.operand->get().getDefiningOp<tensor::EmptyOp>())
        sharded.insert(operand.operand->get());
    }
    sharded.insert(attention->result_begin(), attention->result_end());
    return WalkResult::advance();
  });
  if (walk.wasInterrupted())
    return failure();
  for (Value value : sharded)
    for (OpOperand &use : value.getUses())
      if (failed(verifyUse(use)))
        return failure();
  if (!attentions.empty() &&
      !SymbolTable::symbolKnownUseEmpty(func, func->getParentOp()))
    return func.emitOpError("must not be called in the module, since its "
                            "tensors are distributed over ranks");
  return success();
}

/// Names arguments after operands of attention: in the function of one rank,
/// some of them are operands of communication alone.
void FunctionSharder::nameArguments() {
  llvm::StringSet<> used;
  for (unsigned i = 0, e = func.getNumArguments(); i < e; ++i)
    if (auto name = func.getArgAttrOfType<StringAttr>(i, argNameAttrName))
      used.insert(name.getValue());
  for (AttentionOp op : attentions)
    for (const auto &[value, name] : op.getNamedOperands()) {
      auto argument = dyn_cast_if_present<BlockArgument>(value);
      if (!argument || argument.getOwner() != &func.getBody().front() ||
          func.getArgAttr(argument.getArgNumber(), argNameAttrName))
        continue;
      std::string unique = Twine(name).str();
      for (unsigned i = 1; !used.insert(unique).second; ++i)
        unique = (name + Twine(i)).str();
      func.setArgAttr(argument.getArgNumber(), argNameAttrName,
                      builder.getStringAttr(unique));
    }
}

/// Makes arguments and results of the function chunks.
void FunctionSharder::rewriteTypes() {
  auto getChunkType = [&](Type type) {
    auto tensor = cast<RankedTensorType>(type);
    SmallVector<int64_t> shape(tensor.getShape());
    if (!ShapedType::isDynamic(shape[sequenceDim]))
      shape[sequenceDim] /= placement.ranks;
    return tensor.clone(shape);
  };
  SmallVector<Type> results(func.getResultTypes());
  func.walk([&](func::ReturnOp op) {
    for (auto [index, value] : llvm::enumerate(op.getOperands()))
      if (sharded.contains(value))
        results[index] = getChunkType(func.getResultTypes()[index]);
  });
  for (Value value : sharded)
    if (isa<BlockArgument>(value))
      value.setType(getChunkType(value.getType()));
  func.setType(FunctionType::get(
      func.getContext(), func.getBody().front().getArgumentTypes(), results));
}

/// Reports the work and the communication of all ranks.
void FunctionSharder::report(AttentionOp op, ArrayRef<RingStep> steps) {
  int64_t ranks = placement.ranks, chunks = placement.getNumChunks();
  int64_t numSent = 0;
  SmallVector<int64_t> numAttended(ranks);
  for (const RingStep &step : steps) {
    numSent += step.receivers.count();
    for (const llvm::BitVector &attending : step.attending)
      for (unsigned rank : attending.set_bits())
        ++numAttended[rank];
  }
  std::string text;
  llvm::raw_string_ostream(text)
      << "ring of " << ranks << " ranks: " << steps.size() << " of " << ranks
      << " steps; of " << chunks * chunks
      << " pairs of chunks, ranks attend to "
      << std::accumulate(numAttended.begin(), numAttended.end(), int64_t(0))
      << ", one of them to " << *llvm::max_element(numAttended)
      << ", and send their keys " << numSent << " times";
  auto options =
      remark::RemarkOpts::name("shard").category("attn-shard-attention");
  remark::passed(op.getLoc(), options) << text;
  if (ShapedType::isDynamic(getDimSize(op.getQuery(), sequenceDim)) ||
      ShapedType::isDynamic(getDimSize(op.getKey(), sequenceDim)))
    remark::missed(op.getLoc(), options)
        << "no step is left out, since lengths are dynamic";
}

SmallVector<Value> FunctionSharder::emitShard(AttentionOp op,
                                              ReachableChunks reachable) {
  std::unique_ptr<ShardEmitter> emitter =
      createShardEmitter(builder, op, placement, rank);
  if (method != ShardMethod::AllGather) {
    SmallVector<RingStep> steps = scheduleRing(reachable, placement);
    report(op, steps);
    return emitter->emitRing(steps);
  }
  auto gather = [&](Value chunk) {
    Value &whole = gathered[chunk];
    if (!whole)
      whole = emitter->emitAllGather(chunk);
    return whole;
  };
  Value key = gather(op.getKey());
  return emitter->emitWhole(key, gather(op.getValue()));
}

int64_t FunctionSharder::rewrite() {
  if (attentions.empty())
    return 0;
  // Masks belong to the whole: the lengths must be its lengths.
  SmallVector<ReachableChunks> reachable;
  for (AttentionOp op : attentions)
    reachable.push_back(
        method == ShardMethod::AllGather
            ? ReachableChunks()
            : findReachableChunks(op, placement.getNumChunks()));
  nameArguments();
  rewriteTypes();
  builder.setInsertionPointToStart(&func.getBody().front());
  rank = CommRankOp::create(builder, func.getLoc(), placement.ranks);
  for (auto [op, chunks] : llvm::zip_equal(attentions, reachable)) {
    SmallVector<Value> results = emitShard(op, chunks);
    SmallVector<Value> inits(op.getDpsInits());
    op->replaceAllUsesWith(results);
    op->erase();
    for (Value init : inits)
      if (auto empty = init.getDefiningOp<tensor::EmptyOp>();
          empty && empty->use_empty())
        empty.erase();
  }
  return attentions.size();
}

namespace {
struct AttnShardAttentionPass
    : attn::impl::AttnShardAttentionPassBase<AttnShardAttentionPass> {
  using Base::Base;

  void runOnOperation() override {
    if (ranks < 1 || ranks > maxRanks) {
      getOperation().emitError("'ranks' must be from 1 to ")
          << maxRanks << " (was " << ranks.getValue() << ")";
      return signalPassFailure();
    }
    SmallVector<FunctionSharder> sharders;
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (func.isExternal())
        continue;
      sharders.emplace_back(func, method, ranks);
      if (failed(sharders.back().verify()))
        return signalPassFailure();
    }
    for (FunctionSharder &sharder : sharders)
      numSharded += sharder.rewrite();
  }
};
} // namespace
