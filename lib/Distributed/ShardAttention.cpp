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
#include "IdentityRows.h"
#include "LightSeqShard.h"
#include "LinearShard.h"
#include "MethodTime.h"
#include "RankTensors.h"
#include "RingReport.h"
#include "SequenceShard.h"
#include "ShardEmitter.h"
#include "ShardedMoves.h"
#include "ShardedRows.h"
#include "StripedShard.h"
#include "attn/Dialect/Attn/IR/AttnCommOps.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/Attn/Transforms/DecomposeLinearAttention.h"
#include "attn/Dialect/AttnTile/IR/AttnTileDialect.h"
#include "attn/Distributed/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/Transforms/Transforms.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

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
                                   ChunkPlacement placement) {
  bool takesKeyLengths = placement.allHaveQueries;
  if (std::optional<StringRef> clause = findOtherClause(op, takesKeyLengths))
    return op.emitOpError("cannot be distributed over ranks with '")
           << *clause << "'";
  for (const std::string &reason :
       {whyNotShardSequences(op, placement), whyNotStripe(op, placement),
        whyNotCapture(op, placement), whyNotIdentity(op, placement)})
    if (!reason.empty())
      return op.emitOpError(reason);
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

/// Whether `result`, of attention, linear attention, a gradient, linalg or a
/// move of rows, may have a chunk for each rank.
static bool mayBeChunked(OpResult result) {
  Operation *op = result.getOwner();
  if (!isLinearAttention(op))
    return isa<AttentionOp, AttentionGradOp, linalg::LinalgOp>(op) ||
           ShardedMove::isKnown(op);
  OpOperand *init =
      cast<DestinationStyleOpInterface>(op).getTiedOpOperand(result);
  return llvm::any_of(getTokenOperands(op), [&](const ShardedOperand &other) {
    return other.operand == init;
  });
}

/// Checks that each rank can have a chunk of operand `name` of `op`, which is
/// in the first block of a function.
static LogicalResult verifySource(Operation *op, StringRef name,
                                  OpOperand &operand) {
  Value value = operand.get();
  if (isa<MemRefType>(value.getType()))
    return op->emitOpError("must be on tensors to be distributed over ranks");
  if (isa<BlockArgument>(value))
    return success();
  Operation *source = value.getDefiningOp();
  if (mayBeChunked(cast<OpResult>(value)) ||
      (isa<tensor::EmptyOp>(source) && ShardedMove::isDestination(operand)))
    return success();
  return op->emitOpError("'")
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
  case ShardMethod::Striped:
    return "striped";
  case ShardMethod::LightSeq:
    return "lightseq";
  case ShardMethod::DistAttention:
    return "distattention";
  case ShardMethod::Ulysses:
    return "ulysses";
  case ShardMethod::Usp:
    return "usp";
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
/// What ranks need of the keys of others in a ring.
struct RingNeeds {
  ReachableChunks reachable;
  /// The rows of chunks that are sent, if these are not all.
  std::optional<ChunkRows> sent;
};

/// Rewrites one function.
class FunctionSharder {
public:
  FunctionSharder(func::FuncOp func, const ChosenMethod &chosen, int64_t ranks)
      : func(func), method(chosen.method), builder(func.getContext()) {
    placement.ranks = ranks;
    placement.chunksPerRank = method == ShardMethod::Zigzag ? 2 : 1;
    placement.allHaveQueries = method == ShardMethod::DistAttention;
    placement.isBalanced = method == ShardMethod::LightSeq;
    placement.isStriped = method == ShardMethod::Striped && ranks > 1;
    if (method == ShardMethod::Ulysses || method == ShardMethod::Usp)
      placement = ChunkPlacement::ofGroups(ranks, chosen.ulyssesDegree);
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
  LogicalResult addMove(Operation *op);
  LogicalResult addRowsOf(Value value);
  LogicalResult addOperand(Operation *op, OpOperand &operand);
  LogicalResult addChunked(Operation *op, StringRef name, OpOperand &operand);
  LogicalResult verifyUse(OpOperand &use);
  LogicalResult verifyNewSize(OpOperand &destination);
  LogicalResult verifySizesOfRows();
  LogicalResult verifySizesOfMoves();
  LogicalResult verifyCalls();
  /// Whether ranks exchange heads for positions.
  bool hasHeads() const {
    return method == ShardMethod::Ulysses || placement.ulyssesDegree > 1;
  }
  /// Whether ranks, or groups of them, are the members of a ring.
  bool isRing() const {
    return method == ShardMethod::Ring || method == ShardMethod::Zigzag ||
           method == ShardMethod::Striped ||
           (method == ShardMethod::Usp &&
            (placement.getRing().ranks > 1 || !hasHeads()));
  }
  bool isChunked(OpOperand &operand);
  bool isLength(Value size);
  bool isKnownLength(tensor::DimOp dim);
  bool isLengthOfChunk(OpOperand &use);
  bool isLengthOfWhole(OpOperand &use);
  void nameArguments();
  void rewriteTypes();
  RingNeeds findNeeds(AttentionOpInterface op);
  SmallVector<Value> emitShard(AttentionOpInterface op, const RingNeeds &needs);
  SmallVector<Value> emitLinear(Operation *op);
  void replace(Operation *op, ValueRange results);
  void replaceLengths(tensor::DimOp op);

  func::FuncOp func;
  ShardMethod method;
  ChunkPlacement placement;
  OpBuilder builder;
  Value rank;
  /// Attention, linear attention and their gradients.
  SmallVector<Operation *> attentions;
  /// Operations of linalg on chunks.
  llvm::MapVector<Operation *, ShardedRows> rows;
  /// Operations that move rows of chunks.
  llvm::MapVector<Operation *, ShardedMove> moves;
  /// Tensors of which each rank has a chunk; destinations without contents are
  /// not among them.
  llvm::SetVector<Value> sharded;
  /// Chunks, and the tensors of all ranks that they are parts of.
  DenseMap<Value, Value> gathered;
  /// The effect of each rank on states of linear attention.
  KnownStateMaps stateMaps;
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
  if (moves.contains(owner))
    return ShardedMove::isChunked(operand);
  return llvm::is_contained(attentions, owner) &&
         llvm::any_of(getShardedOperands(owner, method),
                      [&](const ShardedOperand &other) {
                        return other.operand == &operand;
                      });
}

/// Whether `size` is the length of a tensor that is distributed over ranks.
bool FunctionSharder::isLength(Value size) {
  auto dim = size.getDefiningOp<tensor::DimOp>();
  return dim && sharded.contains(dim.getSource()) &&
         dim.getConstantIndex() ==
             getPositionDim(cast<ShapedType>(dim.getSource().getType()));
}

/// Whether it is known of each use of `dim`, the length of a tensor that is
/// distributed over ranks, if it is of a chunk or of the whole.
bool FunctionSharder::isKnownLength(tensor::DimOp dim) {
  return dim->getBlock() == &func.getBody().front() &&
         llvm::all_of(dim->getUses(), [&](OpOperand &use) {
           return isLengthOfChunk(use) || isLengthOfWhole(use);
         });
}

/// Whether `use` is the length of a new tensor.
static bool isLengthOfEmpty(OpOperand &use) {
  auto empty = dyn_cast<tensor::EmptyOp>(use.getOwner());
  if (!empty || empty.getType().getRank() == 0)
    return false;
  int64_t dim = getPositionDim(empty.getType());
  return empty.getType().isDynamicDim(dim) &&
         use.getOperandNumber() == empty.getType().getDynamicDimIndex(dim);
}

/// Whether `use`, of the length of a tensor that is distributed over ranks, is
/// the length of chunks: of new destinations alone, or of a slice of rows.
bool FunctionSharder::isLengthOfChunk(OpOperand &use) {
  Operation *user = use.getOwner();
  if (auto *found = moves.find(user); found != moves.end())
    return found->second.getLength() == use.get() &&
           llvm::count(user->getOperands(), use.get()) == 1;
  auto empty = dyn_cast<tensor::EmptyOp>(user);
  return empty && isLengthOfEmpty(use) &&
         llvm::all_of(empty->getUses(), [&](OpOperand &use) {
           return ShardedMove::isDestination(use) && isChunked(use);
         });
}

/// Whether `use`, of the same, is the length of the whole.
bool FunctionSharder::isLengthOfWhole(OpOperand &use) {
  if (isLengthOfChunk(use))
    return false;
  Operation *user = use.getOwner();
  return !isLengthOfEmpty(use) ||
         llvm::none_of(user->getUses(),
                       [&](OpOperand &use) { return isChunked(use); });
}

LogicalResult FunctionSharder::verifyUse(OpOperand &use) {
  Operation *user = use.getOwner();
  if (isa<func::ReturnOp>(user) || isChunked(use))
    return success();
  if (auto dim = dyn_cast<tensor::DimOp>(user);
      dim && dim.getConstantIndex() && (!isLength(dim) || isKnownLength(dim)))
    return success();
  InFlightDiagnostic diagnostic = user->emitOpError(
      "uses a tensor that is distributed over ranks, which only attention, its "
      "gradient and linalg on rows can");
  diagnostic.attachNote(use.get().getLoc()) << "the tensor is defined here";
  return diagnostic;
}

LogicalResult FunctionSharder::addChunked(Operation *op, StringRef name,
                                          OpOperand &operand) {
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
  if (failed(verifyClauses(op, placement)))
    return failure();
  if (method == ShardMethod::DistAttention && failed(verifySegments(op)))
    return failure();
  if (hasHeads())
    if (std::string reason = whyNotDivideHeads(op, placement.ulyssesDegree);
        !reason.empty())
      return op.emitOpError(reason);
  return addOperation(op);
}

LogicalResult FunctionSharder::addLinear(DestinationStyleOpInterface op) {
  if (method != ShardMethod::AllGather)
    return op.emitOpError("cannot be distributed over ranks by '")
           << getName(method) << "', but by 'allgather' or 'auto'";
  auto attention = dyn_cast<LinearAttentionOp>(op.getOperation());
  auto gradient = dyn_cast<LinearAttentionGradOp>(op.getOperation());
  bool hasSequenceStates =
      attention ? attention.hasSequenceStates() : gradient.hasSequenceStates();
  if (hasSequenceStates && placement.ranks > 1)
    return op.emitOpError("with 'sequences' that have states cannot be "
                          "distributed over ranks");
  if (!attention || attention.isPlain() || placement.ranks == 1 ||
      hasWholeBlocks(attention, placement.ranks))
    return addOperation(op);
  int64_t length = getDimSize(attention.getQuery(), sequenceDim);
  return op.emitOpError("with 'local_blocks' and without 'causal' can be "
                        "distributed over ranks only if each rank has whole "
                        "blocks: dimension 2 of 'query' must be static and a "
                        "multiple of ")
         << placement.ranks << " * " << *attention.getLocalBlockSize()
         << " (was "
         << (ShapedType::isDynamic(length) ? "dynamic" : std::to_string(length))
         << ")";
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

/// Adds an operand of an operation on rows.
LogicalResult FunctionSharder::addOperand(Operation *op, OpOperand &operand) {
  std::string name = ("operand #" + Twine(operand.getOperandNumber())).str();
  return addChunked(op, name, operand);
}

/// Adds `op`, which has chunks of `chunked`.
LogicalResult FunctionSharder::addRows(linalg::LinalgOp op,
                                       OpOperand &chunked) {
  if (rows.contains(op) || op->getBlock() != &func.getBody().front())
    return success();
  FailureOr<ShardedRows> found = ShardedRows::get(op, chunked, placement);
  if (failed(found))
    return failure();
  rows.insert({op, *found});
  for (OpOperand &operand : op->getOpOperands()) {
    if (!found->isChunked(operand))
      continue;
    if (failed(addOperand(op, operand)))
      return failure();
    if (op.isDpsInit(&operand))
      sharded.insert(op.getTiedOpResult(&operand));
  }
  return success();
}

/// Adds `op`, which moves rows of chunks.
LogicalResult FunctionSharder::addMove(Operation *op) {
  if (moves.contains(op) || op->getBlock() != &func.getBody().front())
    return success();
  FailureOr<ShardedMove> found = ShardedMove::get(op);
  if (failed(found))
    return failure();
  moves.insert({op, *found});
  for (OpOperand &operand : op->getOpOperands())
    if (ShardedMove::isChunked(operand) && failed(addOperand(op, operand)))
      return failure();
  sharded.insert(op->getResult(0));
  return verifyLength(op, "result", op->getResult(0), placement);
}

/// Adds the operations of linalg and moves that use chunks of `value` or
/// compute them.
LogicalResult FunctionSharder::addRowsOf(Value value) {
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (auto linalgOp = dyn_cast<linalg::LinalgOp>(user)) {
      if (failed(addRows(linalgOp, use)))
        return failure();
    } else if (ShardedMove::isKnown(user) && failed(addMove(user))) {
      return failure();
    }
  }
  if (Operation *move = value.getDefiningOp();
      move && ShardedMove::isKnown(move))
    return addMove(move);
  auto source = value.getDefiningOp<linalg::LinalgOp>();
  if (!source)
    return success();
  unsigned number = cast<OpResult>(value).getResultNumber();
  return addRows(source, *source.getDpsInitOperand(number));
}

/// Checks that a destination takes its length, if it is new, from a tensor that
/// becomes a chunk.
LogicalResult FunctionSharder::verifyNewSize(OpOperand &destination) {
  auto empty = destination.get().getDefiningOp<tensor::EmptyOp>();
  if (!empty)
    return success();
  int64_t dim = getPositionDim(empty.getType());
  if (!empty.getType().isDynamicDim(dim) || isLength(empty.getDynamicSize(dim)))
    return success();
  std::optional<int64_t> length =
      getConstantIntValue(empty.getDynamicSize(dim));
  if (length && *length % placement.getNumChunks() == 0)
    return success();
  return destination.getOwner()->emitOpError("size of dimension ")
         << dim << " of operand #" << destination.getOperandNumber()
         << " must be the length of a tensor that is distributed over ranks";
}

LogicalResult FunctionSharder::verifySizesOfRows() {
  for (auto &[op, ofRows] : rows)
    for (OpOperand &init : cast<linalg::LinalgOp>(op).getDpsInitsMutable())
      if (ofRows.isChunked(init) && failed(verifyNewSize(init)))
        return failure();
  return success();
}

/// Checks that slices of rows are of all positions.
LogicalResult FunctionSharder::verifySizesOfMoves() {
  for (auto &[op, move] : moves) {
    for (OpOperand &operand : op->getOpOperands())
      if (ShardedMove::isDestination(operand) && failed(verifyNewSize(operand)))
        return failure();
    if (Value length = move.getLength(); length && !isLength(length))
      return op->emitOpError("must have a slice with the length of a tensor "
                             "that is distributed over ranks");
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
  if (failed(verifySizesOfRows()) || failed(verifySizesOfMoves()))
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

/// What ranks need, by the mask of the whole.
RingNeeds FunctionSharder::findNeeds(AttentionOpInterface op) {
  RingNeeds needs;
  if (!isRing() && method != ShardMethod::LightSeq)
    return needs;
  int64_t chunks = placement.getRing().getNumChunks();
  needs.reachable = placement.isStriped ? findReachableStripes(op, chunks)
                                        : findReachableChunks(op, chunks);
  if (method == ShardMethod::Ring)
    needs.sent = findHaloRows(op, needs.reachable, chunks);
  return needs;
}

SmallVector<Value> FunctionSharder::emitShard(AttentionOpInterface op,
                                              const RingNeeds &needs) {
  std::unique_ptr<ShardEmitter> emitter =
      createShardEmitter(builder, op, placement, rank);
  if (method == ShardMethod::DistAttention)
    return emitter->emitSegments();
  if (method == ShardMethod::LightSeq) {
    SmallVector<LightSeqStep> steps = scheduleLightSeq(needs.reachable);
    reportLightSeq(op, steps);
    return emitLightSeq(*emitter, steps);
  }
  SmallVector<RingStep> steps;
  if (isRing()) {
    steps = scheduleRing(needs.reachable, placement.getRing());
    reportRing(op, steps, placement, needs.sent);
  }
  if (hasHeads())
    return emitter->emitHeads(steps);
  if (isRing())
    return emitter->emitRing(steps, needs.sent);
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
  RankOfGroup group{placement.ranks, rank};
  if (auto attention = dyn_cast<LinearAttentionOp>(op);
      attention && !attention.isPlain())
    return {emitWholeBlocks(builder, attention, group)};
  return createLinearShard(builder, op, group, stateMaps)->emit();
}

void FunctionSharder::replace(Operation *op, ValueRange results) {
  // Results may have the same new destination.
  llvm::SetVector<Value> inits;
  for (OpOperand &operand : op->getOpOperands())
    if (ShardedMove::isDestination(operand))
      inits.insert(operand.get());
  op->replaceAllUsesWith(results);
  op->erase();
  for (Value init : inits)
    if (auto empty = init.getDefiningOp<tensor::EmptyOp>();
        empty && empty->use_empty())
      empty.erase();
}

/// Replaces the length of a chunk by the length of the whole where that is
/// meant.
void FunctionSharder::replaceLengths(tensor::DimOp op) {
  builder.setInsertionPointAfter(op);
  SmallVector<OpOperand *> ofWhole;
  for (OpOperand &use : op->getUses())
    if (isLengthOfWhole(use))
      ofWhole.push_back(&use);
  if (ofWhole.empty())
    return;
  Value ranks =
      arith::ConstantIndexOp::create(builder, op.getLoc(), placement.ranks);
  Value length = arith::MulIOp::create(builder, op.getLoc(), op, ranks);
  for (OpOperand *use : ofWhole)
    use->set(length);
}

int64_t FunctionSharder::rewrite() {
  if (attentions.empty())
    return 0;
  // Masks belong to the whole: the lengths must be its lengths.
  llvm::MapVector<Operation *, RingNeeds> needs;
  for (Operation *op : attentions)
    if (auto attention = dyn_cast<AttentionOpInterface>(op))
      needs[op] = findNeeds(attention);
  nameArguments();
  rewriteTypes();
  Block &body = func.getBody().front();
  builder.setInsertionPointToStart(&body);
  rank = CommRankOp::create(builder, func.getLoc(), placement.ranks);
  for (auto op : llvm::to_vector(body.getOps<tensor::DimOp>()))
    if (isLength(op))
      replaceLengths(op);
  for (Operation &op : llvm::make_early_inc_range(body)) {
    if (auto *found = rows.find(&op); found != rows.end())
      replace(&op, found->second.emit(builder, {placement.ranks, rank}));
    else if (auto *move = moves.find(&op); move != moves.end())
      replace(&op, move->second.emit(builder, placement.ranks));
    else if (auto *found = needs.find(&op); found != needs.end())
      replace(&op, emitShard(cast<AttentionOpInterface>(op), found->second));
    else if (isLinearAttention(&op))
      replace(&op, emitLinear(&op));
  }
  return attentions.size();
}

/// Replaces sizes of results by sizes of operands: new destinations then have
/// no other uses.
static LogicalResult resolveSizes(Operation *function) {
  MLIRContext *context = function->getContext();
  RewritePatternSet patterns(context);
  memref::populateResolveRankedShapedTypeResultDimsPatterns(patterns);
  tensor::DimOp::getCanonicalizationPatterns(patterns, context);
  return applyPatternsGreedily(function, std::move(patterns));
}

namespace {
struct AttnShardAttentionPass
    : attn::impl::AttnShardAttentionPassBase<AttnShardAttentionPass> {
  using Base::Base;

  /// Writes linear attention that needs states of other ranks as plain linear
  /// attention and operations on rows, and the feature maps of other linear
  /// attention as such operations: they may depend on positions.
  LogicalResult decompose() {
    SmallVector<LinearAttentionOp> ops;
    for (auto func : getOperation().getOps<func::FuncOp>())
      func.walk([&](LinearAttentionOp op) {
        if (!op.isPlain())
          ops.push_back(op);
      });
    IRRewriter rewriter(&getContext());
    llvm::SetVector<Operation *> functions;
    for (LinearAttentionOp op : ops) {
      bool isReset = !op.getLocalBlockSize() || op.getCausal();
      bool keepsBlocks = hasWholeBlocks(op, ranks) || !isReset;
      if (keepsBlocks && op.getFeature().empty())
        continue;
      functions.insert(op->getParentOfType<func::FuncOp>());
      LogicalResult written =
          keepsBlocks ? hoistFeature(rewriter, op)
                      : decomposeLinearAttention(rewriter, op,
                                                 /*resetLocalBlocks=*/true);
      if (failed(written))
        return failure();
    }
    for (Operation *function : functions)
      if (failed(resolveSizes(function)))
        return failure();
    return success();
  }

  /// Writes the identity of attention as operations on rows, where these are on
  /// one rank.
  void decomposeIdentities() {
    SmallVector<AttentionOpInterface> ops;
    for (auto func : getOperation().getOps<func::FuncOp>())
      func.walk([&](AttentionOpInterface op) {
        if (hasIdentityOfRows(op))
          ops.push_back(op);
      });
    IRRewriter rewriter(&getContext());
    for (AttentionOpInterface op : ops)
      decomposeIdentity(rewriter, op);
  }

  LogicalResult verifyDegree() {
    ModuleOp module = getOperation();
    if (ulyssesDegree == 0)
      return success();
    if (method != ShardMethod::Usp)
      return module.emitError("'ulysses-degree' is for the method 'usp' (was '")
             << ::getName(method) << "')";
    if (ulyssesDegree > 0 && ranks % ulyssesDegree == 0)
      return success();
    return module.emitError("'ulysses-degree' must divide 'ranks', ")
           << ranks.getValue() << " (was " << ulyssesDegree.getValue() << ")";
  }

  FailureOr<ChosenMethod> choose() {
    if (method == ShardMethod::Auto)
      return chooseMethod(getOperation(), target, ranks);
    if (method == ShardMethod::Usp && ulyssesDegree == 0)
      return chooseUspDegree(getOperation(), target, ranks);
    return ChosenMethod{method,
                        method == ShardMethod::Usp ? ulyssesDegree : ranks};
  }

  void runOnOperation() override {
    if (ranks < 1 || ranks > maxRanks) {
      getOperation().emitError("'ranks' must be from 1 to ")
          << maxRanks << " (was " << ranks.getValue() << ")";
      return signalPassFailure();
    }
    if (failed(verifyDegree()))
      return signalPassFailure();
    if (method != ShardMethod::DistAttention)
      decomposeIdentities();
    FailureOr<ChosenMethod> chosen = choose();
    if (failed(chosen))
      return signalPassFailure();
    if (chosen->method == ShardMethod::AllGather && ranks > 1 &&
        failed(decompose()))
      return signalPassFailure();
    SmallVector<FunctionSharder, 0> sharders;
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (func.isExternal())
        continue;
      sharders.emplace_back(func, *chosen, ranks);
      if (failed(sharders.back().verify()))
        return signalPassFailure();
    }
    for (FunctionSharder &sharder : sharders)
      numSharded += sharder.rewrite();
  }
};
} // namespace
