//===- ShardAttention.cpp - Functions of one rank -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds the tensors that are distributed, checks that all operations that use
// them can be, and rewrites functions into functions of one rank.
//
//===----------------------------------------------------------------------===//

#include "ChooseMethod.h"
#include "LinearShard.h"
#include "MethodTime.h"
#include "RankTensors.h"
#include "ShardEmitter.h"
#include "ShardedRows.h"
#include "attn/Dialect/Attn/IR/AttnCommOps.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/AttnTile/IR/AttnTileDialect.h"
#include "attn/Distributed/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

#include <numeric>

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNSHARDATTENTIONPASS
#include "attn/Distributed/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

//===----------------------------------------------------------------------===//
// Conditions of operations
//===----------------------------------------------------------------------===//

/// The operands of attention, linear attention or a gradient that have a chunk
/// for each rank.
static SmallVector<ShardedOperand> getShardedOperands(Operation *operation,
                                                      ShardMethod method) {
  auto op = dyn_cast<AttentionOpInterface>(operation);
  if (!op)
    return getTokenOperands(operation);
  SmallVector<ShardedOperand> operands;
  MutableArrayRef<OpOperand> rest = op->getOpOperands();
  for (const AttentionOperand &shaped : op.getShapedOperands()) {
    while (rest.front().get() != shaped.value)
      rest = rest.drop_front();
    if (!shaped.isQuerySide || method != ShardMethod::DistAttention)
      operands.push_back({shaped.name, &rest.front()});
    rest = rest.drop_front();
  }
  return operands;
}

static LogicalResult verifyClauses(AttentionOpInterface op,
                                   ShardMethod method) {
  bool takesKeyLengths = method == ShardMethod::DistAttention;
  if (std::optional<StringRef> clause = findOtherClause(op, takesKeyLengths))
    return op.emitOpError("cannot be distributed over ranks with '")
           << *clause << "'";
  return success();
}

/// Checks that each rank can have a chunk of `value`.
static LogicalResult verifyLength(Operation *op, StringRef name, Value value,
                                  ChunkPlacement placement) {
  std::string reason = whyNotCut(op, name, value, placement);
  if (reason.empty())
    return success();
  return op->emitOpError(reason);
}

/// Whether `result`, of attention, linear attention, a gradient or linalg, may
/// have a chunk for each rank.
static bool mayBeChunked(OpResult result) {
  Operation *op = result.getOwner();
  if (!isLinearAttention(op))
    return isa<AttentionOp, AttentionGradOp, linalg::LinalgOp>(op);
  OpOperand *init =
      cast<DestinationStyleOpInterface>(op).getTiedOpOperand(result);
  return llvm::any_of(getTokenOperands(op), [&](const ShardedOperand &other) {
    return other.operand == init;
  });
}

/// Checks that each rank can have a chunk of operand `name` of `op`, which is
/// in the first block of a function.
static LogicalResult verifySource(DestinationStyleOpInterface op,
                                  StringRef name, OpOperand &operand) {
  Value value = operand.get();
  if (isa<MemRefType>(value.getType()))
    return op.emitOpError("must be on tensors to be distributed over ranks");
  if (isa<BlockArgument>(value))
    return success();
  Operation *source = value.getDefiningOp();
  if (mayBeChunked(cast<OpResult>(value)) ||
      (isa<tensor::EmptyOp>(source) && op.isDpsInit(&operand)))
    return success();
  return op.emitOpError("'")
         << name
         << "' must be an argument of the function or a result of attention, "
            "its gradient or linalg to be distributed over ranks (was a result "
            "of '"
         << source->getName() << "')";
}

static StringRef getName(ShardMethod method) {
  switch (method) {
  case ShardMethod::AllGather:
    return "allgather";
  case ShardMethod::Ring:
    return "ring";
  case ShardMethod::Zigzag:
    return "zigzag";
  case ShardMethod::DistAttention:
    return "distattention";
  case ShardMethod::Ulysses:
    return "ulysses";
  case ShardMethod::Auto:
    return "auto";
  }
  llvm_unreachable("unknown method");
}

/// Checks that ranks can have segments of the keys of `op`.
static LogicalResult verifySegments(AttentionOpInterface op) {
  if (!isa<AttentionOp>(op.getOperation()))
    return op.emitOpError("cannot be distributed over ranks by "
                          "'distattention', which is for attention alone");
  if (op.getKeyLengths() && needsPositions(op))
    return op.emitOpError(
        "with 'key_lengths' can be distributed over ranks by 'distattention' "
        "only if no mask, region or dropout depends on positions");
  return success();
}

namespace {
/// Rewrites one function.
class FunctionSharder {
public:
  FunctionSharder(func::FuncOp func, ShardMethod method, int64_t ranks)
      : func(func), method(method), builder(func.getContext()) {
    placement.ranks = ranks;
    placement.chunksPerRank = method == ShardMethod::Zigzag ? 2 : 1;
    placement.allHaveQueries = method == ShardMethod::DistAttention;
    placement.allHaveKeys = method == ShardMethod::Ulysses;
  }

  /// Fails if the function cannot be distributed; it has not been changed then.
  LogicalResult verify();
  /// Returns the number of attentions and gradients that were distributed.
  int64_t rewrite();

private:
  LogicalResult addAttention(AttentionOpInterface op);
  LogicalResult addLinear(DestinationStyleOpInterface op);
  LogicalResult addOperation(DestinationStyleOpInterface op);
  LogicalResult addRows(linalg::LinalgOp op, OpOperand &chunked);
  LogicalResult addRowsOf(Value value);
  LogicalResult addChunked(DestinationStyleOpInterface op, StringRef name,
                           OpOperand &operand);
  LogicalResult verifyUse(OpOperand &use);
  LogicalResult verifyNewSizes();
  LogicalResult verifyCalls();
  bool isRing() const {
    return method == ShardMethod::Ring || method == ShardMethod::Zigzag;
  }
  bool isChunked(OpOperand &operand);
  bool isSizeOfDestinations(tensor::DimOp op);
  void nameArguments();
  void rewriteTypes();
  SmallVector<Value> emitShard(AttentionOpInterface op,
                               const ReachableChunks &reachable);
  SmallVector<Value> emitLinear(Operation *op);
  void replace(DestinationStyleOpInterface op, ValueRange results);
  void report(AttentionOpInterface op, ArrayRef<RingStep> steps);

  func::FuncOp func;
  ShardMethod method;
  ChunkPlacement placement;
  OpBuilder builder;
  Value rank;
  /// Attention, linear attention and their gradients.
  SmallVector<Operation *> attentions;
  /// Operations of linalg on chunks.
  llvm::MapVector<Operation *, ShardedRows> rows;
  /// Tensors of which each rank has a chunk; destinations without contents are
  /// not among them.
  llvm::SetVector<Value> sharded;
  /// Chunks, and the tensors of all ranks that they are parts of.
  DenseMap<Value, Value> gathered;
  /// The effect of each rank on states of linear attention.
  StateMapsOfKeys stateMaps;
};
} // namespace

//===----------------------------------------------------------------------===//
// Conditions of functions
//===----------------------------------------------------------------------===//

/// Whether each rank has a chunk of `operand` of an operation that is
/// distributed.
bool FunctionSharder::isChunked(OpOperand &operand) {
  Operation *owner = operand.getOwner();
  if (auto *found = rows.find(owner); found != rows.end())
    return found->second.isChunked(operand);
  return llvm::is_contained(attentions, owner) &&
         llvm::any_of(getShardedOperands(owner, method),
                      [&](const ShardedOperand &other) {
                        return other.operand == &operand;
                      });
}

/// Whether `op` gives a size of new destinations of chunks, which are replaced.
bool FunctionSharder::isSizeOfDestinations(tensor::DimOp op) {
  return llvm::all_of(op->getUsers(), [&](Operation *user) {
    return isa<tensor::EmptyOp>(user) &&
           llvm::all_of(user->getUses(), [&](OpOperand &use) {
             auto owner = dyn_cast<DestinationStyleOpInterface>(use.getOwner());
             return owner && owner.isDpsInit(&use) && isChunked(use);
           });
  });
}

LogicalResult FunctionSharder::verifyUse(OpOperand &use) {
  Operation *user = use.getOwner();
  if (isa<func::ReturnOp>(user) || isChunked(use))
    return success();
  if (auto dim = dyn_cast<tensor::DimOp>(user)) {
    std::optional<int64_t> index = dim.getConstantIndex();
    if ((index && *index != sequenceDim) || isSizeOfDestinations(dim))
      return success();
  }
  InFlightDiagnostic diagnostic = user->emitOpError(
      "uses a tensor that is distributed over ranks, which only attention, its "
      "gradient and linalg on rows can");
  diagnostic.attachNote(use.get().getLoc()) << "the tensor is defined here";
  return diagnostic;
}

LogicalResult FunctionSharder::addChunked(DestinationStyleOpInterface op,
                                          StringRef name, OpOperand &operand) {
  if (failed(verifySource(op, name, operand)) ||
      failed(verifyLength(op, name, operand.get(), placement)))
    return failure();
  if (!operand.get().getDefiningOp<tensor::EmptyOp>())
    sharded.insert(operand.get());
  return success();
}

LogicalResult FunctionSharder::addAttention(AttentionOpInterface op) {
  if (!isa<AttentionOp, AttentionGradOp>(op.getOperation()))
    return op.emitOpError("cannot be distributed over ranks: only "
                          "'attn.attention', 'attn.linear_attention' and "
                          "their gradients can");
  if (failed(verifyClauses(op, method)))
    return failure();
  if (method == ShardMethod::DistAttention && failed(verifySegments(op)))
    return failure();
  if (method == ShardMethod::Ulysses)
    if (std::string reason = whyNotDivideHeads(op, placement.ranks);
        !reason.empty())
      return op.emitOpError(reason);
  return addOperation(op);
}

LogicalResult FunctionSharder::addLinear(DestinationStyleOpInterface op) {
  if (method != ShardMethod::AllGather)
    return op.emitOpError("cannot be distributed over ranks by '")
           << getName(method) << "', but by 'allgather' or 'auto'";
  if (auto attention = dyn_cast<LinearAttentionOp>(op.getOperation());
      attention && !attention.isPlain())
    return op.emitOpError("cannot be distributed over ranks with a feature "
                          "map, a normalizer or a mask");
  return addOperation(op);
}

/// Adds attention, linear attention or a gradient.
LogicalResult FunctionSharder::addOperation(DestinationStyleOpInterface op) {
  if (op->getBlock() != &func.getBody().front())
    return op.emitOpError("must be in the first block of a function to be "
                          "distributed over ranks");
  attentions.push_back(op);
  for (auto [name, operand] : getShardedOperands(op, method)) {
    if (failed(addChunked(op, name, *operand)))
      return failure();
    if (method != ShardMethod::DistAttention && op.isDpsInit(operand))
      sharded.insert(op.getTiedOpResult(operand));
  }
  return success();
}

/// Adds `op`, which has chunks of `chunked`.
LogicalResult FunctionSharder::addRows(linalg::LinalgOp op,
                                       OpOperand &chunked) {
  if (rows.contains(op) || op->getBlock() != &func.getBody().front())
    return success();
  FailureOr<ShardedRows> found = ShardedRows::get(op, chunked);
  if (failed(found))
    return failure();
  rows.insert({op, *found});
  for (OpOperand &operand : op->getOpOperands()) {
    if (!found->isChunked(operand))
      continue;
    std::string name = ("operand #" + Twine(operand.getOperandNumber())).str();
    if (failed(addChunked(op, name, operand)))
      return failure();
    if (op.isDpsInit(&operand))
      sharded.insert(op.getTiedOpResult(&operand));
  }
  return success();
}

/// Adds the operations of linalg that use chunks of `value` or compute them.
LogicalResult FunctionSharder::addRowsOf(Value value) {
  for (OpOperand &use : value.getUses())
    if (auto user = dyn_cast<linalg::LinalgOp>(use.getOwner()))
      if (failed(addRows(user, use)))
        return failure();
  auto source = value.getDefiningOp<linalg::LinalgOp>();
  if (!source)
    return success();
  unsigned number = cast<OpResult>(value).getResultNumber();
  return addRows(source, *source.getDpsInitOperand(number));
}

/// Checks that new destinations of operations on rows take their length from
/// tensors that become chunks.
LogicalResult FunctionSharder::verifyNewSizes() {
  for (auto &[op, ofRows] : rows)
    for (OpOperand &init : cast<linalg::LinalgOp>(op).getDpsInitsMutable()) {
      auto empty = init.get().getDefiningOp<tensor::EmptyOp>();
      if (!empty || !ofRows.isChunked(init) ||
          !empty.getType().isDynamicDim(sequenceDim))
        continue;
      auto dim =
          empty.getDynamicSize(sequenceDim).getDefiningOp<tensor::DimOp>();
      if (!dim || dim.getConstantIndex() != sequenceDim ||
          !sharded.contains(dim.getSource()))
        return op->emitOpError("size of dimension 2 of operand #")
               << init.getOperandNumber()
               << " must be the length of a tensor that is distributed over "
                  "ranks";
    }
  return success();
}

/// Checks that nothing but attributes of other functions names the function.
LogicalResult FunctionSharder::verifyCalls() {
  std::optional<SymbolTable::UseRange> uses =
      SymbolTable::getSymbolUses(func, func->getParentOp());
  auto isAttribute = [](const SymbolTable::SymbolUse &use) {
    return isa<func::FuncOp>(use.getUser());
  };
  if (uses && llvm::all_of(*uses, isAttribute))
    return success();
  return func.emitOpError("must not be called in the module, since its "
                          "tensors are distributed over ranks");
}

LogicalResult FunctionSharder::verify() {
  WalkResult walk = func.walk([&](Operation *op) -> WalkResult {
    if (auto attention = dyn_cast<AttentionOpInterface>(op))
      return addAttention(attention);
    if (isLinearAttention(op))
      return addLinear(cast<DestinationStyleOpInterface>(op));
    return success();
  });
  if (walk.wasInterrupted())
    return failure();
  if (attentions.empty())
    return success();
  // Operations on rows add values, whose uses are looked at later.
  for (size_t i = 0; i < sharded.size(); ++i)
    if (failed(addRowsOf(sharded[i])))
      return failure();
  for (Value value : sharded)
    for (OpOperand &use : value.getUses())
      if (failed(verifyUse(use)))
        return failure();
  if (failed(verifyNewSizes()))
    return failure();
  return verifyCalls();
}

//===----------------------------------------------------------------------===//
// Functions of one rank
//===----------------------------------------------------------------------===//

/// Names arguments after operands of attention: in the function of one rank,
/// some of them are operands of communication alone.
void FunctionSharder::nameArguments() {
  llvm::StringSet<> used;
  for (unsigned i = 0, e = func.getNumArguments(); i < e; ++i)
    if (auto name = func.getArgAttrOfType<StringAttr>(i, argNameAttrName))
      used.insert(name.getValue());
  for (Operation *op : attentions)
    for (const auto &[value, name] :
         cast<DescribableOpInterface>(op).getNamedOperands()) {
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
  auto getType = [&](Type type) {
    return getChunkType(cast<RankedTensorType>(type), placement.ranks);
  };
  SmallVector<Type> results(func.getResultTypes());
  func.walk([&](func::ReturnOp op) {
    for (auto [index, value] : llvm::enumerate(op.getOperands()))
      if (sharded.contains(value))
        results[index] = getType(func.getResultTypes()[index]);
  });
  for (Value value : sharded)
    if (isa<BlockArgument>(value))
      value.setType(getType(value.getType()));
  func.setType(FunctionType::get(
      func.getContext(), func.getBody().front().getArgumentTypes(), results));
}

/// Reports the work and the communication of all ranks.
void FunctionSharder::report(AttentionOpInterface op,
                             ArrayRef<RingStep> steps) {
  int64_t ranks = placement.ranks, chunks = placement.getNumChunks();
  int64_t numSent = 0, numReturned = 0;
  SmallVector<int64_t> numAttended(ranks);
  for (const RingStep &step : steps) {
    numSent += step.receivers.count();
    numReturned += step.hasReturn() ? step.lastHolders.count() : 0;
    for (const llvm::BitVector &attending : step.attending)
      for (unsigned rank : attending.set_bits())
        ++numAttended[rank];
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << "ring of " << ranks << " ranks: " << steps.size() << " of " << ranks
         << " steps; of " << chunks * chunks
         << " pairs of chunks, ranks attend to "
         << std::accumulate(numAttended.begin(), numAttended.end(), int64_t(0))
         << ", one of them to " << *llvm::max_element(numAttended)
         << ", and send their keys " << numSent << " times";
  if (isa<AttentionGradOp>(op.getOperation()))
    stream << ", gradients of keys " << numSent + numReturned << " times";
  auto options =
      remark::RemarkOpts::name("shard").category("attn-shard-attention");
  remark::passed(op.getLoc(), options) << text;
  if (ShapedType::isDynamic(getDimSize(op.getQuery(), sequenceDim)) ||
      ShapedType::isDynamic(getDimSize(op.getKey(), sequenceDim)))
    remark::missed(op.getLoc(), options)
        << "no step is left out, since lengths are dynamic";
}

SmallVector<Value>
FunctionSharder::emitShard(AttentionOpInterface op,
                           const ReachableChunks &reachable) {
  std::unique_ptr<ShardEmitter> emitter =
      createShardEmitter(builder, op, placement, rank);
  if (method == ShardMethod::Ulysses)
    return emitter->emitHeads();
  if (method == ShardMethod::DistAttention)
    return emitter->emitSegments();
  if (isRing()) {
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

SmallVector<Value> FunctionSharder::emitLinear(Operation *op) {
  if (placement.ranks == 1) {
    builder.setInsertionPoint(op);
    return builder.clone(*op)->getResults();
  }
  return createLinearShard(builder, op, {placement.ranks, rank}, stateMaps)
      ->emit();
}

void FunctionSharder::replace(DestinationStyleOpInterface op,
                              ValueRange results) {
  // Results may have the same new destination.
  llvm::SetVector<Value> inits(llvm::from_range, op.getDpsInits());
  op->replaceAllUsesWith(results);
  op->erase();
  for (Value init : inits)
    if (auto empty = init.getDefiningOp<tensor::EmptyOp>();
        empty && empty->use_empty())
      empty.erase();
}

int64_t FunctionSharder::rewrite() {
  if (attentions.empty())
    return 0;
  // Masks belong to the whole: the lengths must be its lengths.
  llvm::MapVector<Operation *, ReachableChunks> reachable;
  for (Operation *op : attentions)
    if (auto attention = dyn_cast<AttentionOpInterface>(op))
      reachable[op] =
          isRing() ? findReachableChunks(attention, placement.getNumChunks())
                   : ReachableChunks();
  nameArguments();
  rewriteTypes();
  Block &body = func.getBody().front();
  builder.setInsertionPointToStart(&body);
  rank = CommRankOp::create(builder, func.getLoc(), placement.ranks);
  for (Operation &op : llvm::make_early_inc_range(body)) {
    if (auto *found = rows.find(&op); found != rows.end())
      replace(cast<DestinationStyleOpInterface>(op),
              found->second.emit(builder, placement.ranks));
    else if (auto *chunks = reachable.find(&op); chunks != reachable.end())
      replace(cast<DestinationStyleOpInterface>(op),
              emitShard(cast<AttentionOpInterface>(op), chunks->second));
    else if (isLinearAttention(&op))
      replace(cast<DestinationStyleOpInterface>(op), emitLinear(&op));
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
    ShardMethod chosen = method;
    if (method == ShardMethod::Auto) {
      FailureOr<ShardMethod> best = chooseMethod(getOperation(), target, ranks);
      if (failed(best))
        return signalPassFailure();
      chosen = *best;
    }
    SmallVector<FunctionSharder, 0> sharders;
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (func.isExternal())
        continue;
      sharders.emplace_back(func, chosen, ranks);
      if (failed(sharders.back().verify()))
        return signalPassFailure();
    }
    for (FunctionSharder &sharder : sharders)
      numSharded += sharder.rewrite();
  }
};
} // namespace
