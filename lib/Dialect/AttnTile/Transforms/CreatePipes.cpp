//===- CreatePipes.cpp - Stage the operands of MMAs through pipes ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns loads of tiles that matmuls read into stages of pipes, and the matmuls
// into asynchronous MMAs.
//
//===----------------------------------------------------------------------===//

#include "Arrivals.h"
#include "ClusterDependence.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/KernelPhase.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILECREATEPIPESPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

using namespace mlir;
using namespace mlir::attn_tile;

namespace {
/// Loads that share a pipe.
struct Stream {
  Value source;
  Type tile;
  bool isLhs;
  SmallVector<LoadOp> loads;
};

/// The operands that an MMA reads transposed.
struct MmaForm {
  bool transposeLhs;
  bool transposeRhs;
};
} // namespace

/// The form of the operands of `matmul`, if it contracts two matrices with f32
/// accumulation.
static std::optional<MmaForm> getForm(vector::ContractionOp matmul) {
  MLIRContext *context = matmul.getContext();
  AffineExpr m, n, k;
  bindDims(context, m, n, k);
  auto map = [&](AffineExpr row, AffineExpr column) {
    return AffineMap::get(3, 0, {row, column}, context);
  };
  auto result = dyn_cast<VectorType>(matmul.getResultType());
  if (!result || result.getRank() != 2 || !result.getElementType().isF32() ||
      matmul.getKind() != vector::CombiningKind::ADD ||
      matmul.getLhsType().getElementType() !=
          matmul.getRhsType().getElementType())
    return std::nullopt;
  SmallVector<AffineMap> maps = matmul.getIndexingMapsArray();
  bool transposeLhs = maps[0] == map(k, m), transposeRhs = maps[1] == map(n, k);
  if ((maps[0] != map(m, k) && !transposeLhs) ||
      (maps[1] != map(k, n) && !transposeRhs) || maps[2] != map(m, n))
    return std::nullopt;
  return MmaForm{transposeLhs, transposeRhs};
}

namespace {
/// A tile, and the first of its columns that an operand takes.
struct TileColumns {
  Value tile;
  int64_t first;
};
} // namespace

/// The tile of 8 bits that `operand` extends to f32; null if it is none.
static Value getFloat8Source(Value operand) {
  auto extension = operand.getDefiningOp<arith::ExtFOp>();
  if (!extension || !getElementTypeOrSelf(operand).isF32() ||
      !attn::isFloat8(getElementTypeOrSelf(extension.getIn())))
    return nullptr;
  return extension.getIn();
}

/// Whether `op` extends a tile of 8 bits for matmuls by another 8-bit format
/// alone. `vector.contract` has one type of multiplicands, and MMAs have two.
static bool isFormatExtension(Operation *op) {
  return isa<arith::ExtFOp>(op) && getFloat8Source(op->getResult(0)) &&
         llvm::all_of(op->getUsers(), [](Operation *user) {
           auto matmul = dyn_cast<vector::ContractionOp>(user);
           return matmul && getFloat8Source(matmul.getLhs()) &&
                  getFloat8Source(matmul.getRhs());
         });
}

/// The tile that an MMA multiplies as `operand` of a matmul.
static Value getMultiplicand(Value operand) {
  Operation *def = operand.getDefiningOp();
  return def && isFormatExtension(def) ? getFloat8Source(operand) : operand;
}

/// The tile whose columns, some or all, are the operand of a matmul.
static TileColumns getColumns(Value operand) {
  operand = getMultiplicand(operand);
  if (auto columns = operand.getDefiningOp<ConsumerColumnsOp>())
    return {columns.getTile(), 0};
  auto slice = operand.getDefiningOp<vector::ExtractStridedSliceOp>();
  if (!slice)
    return {operand, 0};
  auto offsets =
      llvm::map_to_vector(slice.getOffsets().getAsRange<IntegerAttr>(),
                          [](IntegerAttr offset) { return offset.getInt(); });
  VectorType tile = slice.getSourceVectorType();
  if (offsets.size() != 2 || offsets[0] != 0 ||
      slice.getType().getDimSize(0) != tile.getDimSize(0))
    return {operand, 0};
  return {slice.getSource(), offsets[1]};
}

/// The load of the tile whose columns are the operand of a matmul.
static LoadOp getLoad(Value operand) {
  return getColumns(operand).tile.getDefiningOp<LoadOp>();
}

/// The operands of `matmul` that are computed but must be in shared memory: a
/// right-hand side, or a transposed left-hand side.
static SmallVector<OpOperand *, 2>
getSharedOperands(vector::ContractionOp matmul) {
  std::optional<MmaForm> form = getForm(matmul);
  if (!form)
    return {};
  SmallVector<OpOperand *, 2> shared;
  OpOperand &lhs = matmul->getOpOperand(0), &rhs = matmul->getOpOperand(1);
  if (form->transposeLhs && !getLoad(lhs.get()))
    shared.push_back(&lhs);
  LoadOp load = getLoad(rhs.get());
  bool isWhole =
      load && load == getMultiplicand(rhs.get()).getDefiningOp<LoadOp>();
  bool isStaged = load && (isWhole || !form->transposeRhs);
  if (!isStaged)
    shared.push_back(&rhs);
  return shared;
}

/// The load of a right-hand side of 8 bits that is converted to the type of the
/// left-hand side.
static LoadOp getConvertedLoad(Value operand) {
  auto widened = operand.getDefiningOp<arith::ExtFOp>();
  if (!widened || !attn::isFloat8(getElementTypeOrSelf(widened.getIn())) ||
      isFormatExtension(widened))
    return {};
  return widened.getIn().getDefiningOp<LoadOp>();
}

/// Whether matmuls read the tile of `load` after a conversion.
static bool isConverted(LoadOp load) {
  return llvm::all_of(load.getResult().getUsers(), [&](Operation *user) {
    return isa<arith::ExtFOp>(user) &&
           getConvertedLoad(user->getResult(0)) == load;
  });
}

/// The load of the right-hand side of `matmul`, whether it is converted or not.
static LoadOp getRhsLoad(vector::ContractionOp matmul) {
  if (LoadOp converted = getConvertedLoad(matmul.getRhs()))
    return converted;
  return getLoad(matmul.getRhs());
}

/// Whether a thread reads a staged tile for `user`: to extend elements of 16
/// bits, or to compute with elements of f32.
static bool readsOperand(Operation *user) {
  if (isa<arith::ExtFOp>(user))
    return !getConvertedLoad(user->getResult(0)) && !isFormatExtension(user);
  return user->hasTrait<OpTrait::Elementwise>();
}

/// Whether `slice`, columns of a staged tile, may be multiplied: as the rows of
/// a transposed left-hand side, or as the columns of a right-hand side that is
/// not transposed, of matmuls that `isStaged` accepts.
static bool isStagedSlice(Operation *slice,
                          function_ref<bool(OpOperand &)> isStaged) {
  bool mayBeRows = isa<vector::ExtractStridedSliceOp>(slice);
  return llvm::all_of(slice->getUses(), [&](OpOperand &use) {
    if (!isStaged(use))
      return false;
    std::optional<MmaForm> form =
        getForm(cast<vector::ContractionOp>(use.getOwner()));
    return use.getOperandNumber() == 0 ? form->transposeLhs && mayBeRows
                                       : !form->transposeRhs;
  });
}

/// The loads that can be staged: streams of matrices that only matmuls read, if
/// these matmuls also have a staged right-hand side. With `readOperands`,
/// threads may read these tiles, too, or alone.
static SetVector<LoadOp> collectLoads(KernelOp kernel, bool readOperands) {
  SetVector<LoadOp> loads;
  kernel.walk([&](LoadOp load) {
    auto tile = cast<VectorType>(load.getResult().getType());
    if (load.getPosition() && tile.getRank() == 2 &&
        !load.getResult().use_empty())
      loads.insert(load);
  });
  auto isStaged = [&](OpOperand &use) {
    auto matmul = dyn_cast<vector::ContractionOp>(use.getOwner());
    if (!matmul || use.getOperandNumber() > 1 || !getForm(matmul))
      return false;
    LoadOp rhs = getRhsLoad(matmul);
    return rhs ? loads.contains(rhs) : use.getOperandNumber() == 0;
  };
  auto isConvertedStage = [&](OpOperand &use) {
    Operation *user = use.getOwner();
    return isa<arith::ExtFOp>(user) && getConvertedLoad(user->getResult(0)) &&
           llvm::all_of(user->getUses(), [&](OpOperand &useOfResult) {
             return useOfResult.getOperandNumber() == 1 &&
                    isStaged(useOfResult);
           });
  };
  auto isRead = [&](OpOperand &use) {
    return readOperands && readsOperand(use.getOwner());
  };
  auto canStage = [&](LoadOp load) {
    return llvm::all_of(load.getResult().getUses(), [&](OpOperand &use) {
      if (isFormatExtension(use.getOwner()))
        return llvm::all_of(use.getOwner()->getUses(), isStaged);
      if (isRead(use) || isConvertedStage(use))
        return true;
      Operation *slice = use.getOwner();
      if (!isa<vector::ExtractStridedSliceOp, ConsumerColumnsOp>(slice))
        return isStaged(use);
      return getLoad(slice->getResult(0)) == load &&
             isStagedSlice(slice, isStaged);
    });
  };
  // Dropping a load may leave other loads without staged matmuls.
  while (loads.remove_if([&](LoadOp load) { return !canStage(load); }))
    ;
  return loads;
}

/// Loads of streamed rows in the same blocks as `loads`. All threads read these
/// rows.
static SmallVector<LoadOp> collectRows(const SetVector<LoadOp> &loads) {
  SetVector<Block *> blocks;
  for (LoadOp load : loads)
    blocks.insert(load->getBlock());
  SmallVector<LoadOp> rows;
  for (Block *block : blocks)
    for (auto load : block->getOps<LoadOp>()) {
      auto tile = cast<VectorType>(load.getResult().getType());
      if (load.getPosition() && tile.getRank() == 2 &&
          tile.getDimSize(0) == 1 && !load.getResult().use_empty())
        rows.push_back(load);
    }
  return rows;
}

/// Streamed tiles that only maps read, in the block of the load.
static SmallVector<LoadOp> collectMapped(KernelOp kernel) {
  SmallVector<LoadOp> tiles;
  kernel.walk([&](LoadOp load) {
    auto tile = cast<VectorType>(load.getResult().getType());
    bool isMapped =
        !load.getResult().use_empty() &&
        llvm::all_of(load.getResult().getUsers(), [&](Operation *user) {
          return isa<MapOp>(user) && user->getBlock() == load->getBlock();
        });
    if (load.getPosition() && tile.getRank() == 2 && tile.getDimSize(0) != 1 &&
        isMapped)
      tiles.push_back(load);
  });
  return tiles;
}

/// The operation of `block` that is or contains the first of `ops`, or the
/// last.
static Operation *getFirstIn(Block *block, ArrayRef<Operation *> ops) {
  Operation *first = nullptr;
  for (Operation *op : ops) {
    Operation *ancestor = block->findAncestorOpInBlock(*op);
    if (!first || ancestor->isBeforeInBlock(first))
      first = ancestor;
  }
  return first;
}

static Operation *getLastIn(Block *block, ArrayRef<Operation *> ops) {
  Operation *last = nullptr;
  for (Operation *op : ops) {
    Operation *ancestor = block->findAncestorOpInBlock(*op);
    if (!last || last->isBeforeInBlock(ancestor))
      last = ancestor;
  }
  return last;
}

/// Groups loads by the pipe they share.
static FailureOr<SmallVector<Stream>> collectStreams(ArrayRef<LoadOp> loads) {
  SmallVector<Stream> streams;
  for (LoadOp load : loads) {
    Type tile = load.getResult().getType();
    Operation *user = *load.getResult().user_begin();
    Value multiplied = isFormatExtension(user) ? Value(user->getResult(0))
                                               : Value(load.getResult());
    OpOperand &use = *multiplied.use_begin();
    bool isLhs = isa<vector::ContractionOp>(use.getOwner()) &&
                 use.getOperandNumber() == 0;
    auto *stream = llvm::find_if(streams, [&](const Stream &other) {
      return other.source == load.getSource() && other.tile == tile &&
             other.isLhs == isLhs;
    });
    if (stream == streams.end()) {
      streams.push_back({load.getSource(), tile, isLhs, {load}});
      continue;
    }
    // Such loads would fill one stage at a time, and wait for its first fill.
    auto *same = llvm::find_if(stream->loads, [&](LoadOp other) {
      return other->getBlock() == load->getBlock() &&
             other.getPosition() == load.getPosition();
    });
    if (same != stream->loads.end()) {
      load.emitOpError("position of the stream must not be that of another "
                       "load from its source")
              .attachNote(same->getLoc())
          << "see the other load here";
      return failure();
    }
    LoadOp first = stream->loads.front();
    if (!isEqualConstantIntOrValue(first.getLength(), load.getLength())) {
      load.emitOpError("length of the stream must be that of the other loads "
                       "from its source")
              .attachNote(first.getLoc())
          << "see another load here";
      return failure();
    }
    stream->loads.push_back(load);
  }
  return streams;
}

/// Whether a single matmul reads each tile of `stream`.
static bool isReadOnce(const Stream &stream) {
  return llvm::all_of(stream.loads,
                      [](LoadOp load) { return load.getResult().hasOneUse(); });
}

/// Whether `op` converts, scales or drops elements of registers that a loop
/// carries, and reads nothing else.
static bool isWorkOnCarried(Operation *op) {
  return isa<arith::TruncFOp, arith::MulFOp, vector::ShapeCastOp,
             vector::BroadcastOp, DropoutOp>(op) &&
         llvm::all_of(op->getOperands(), [&](Value operand) {
           if (Operation *def = operand.getDefiningOp())
             return def->getBlock() == op->getBlock() && isWorkOnCarried(def);
           return isa<scf::ForOp>(op->getParentOp());
         });
}

/// Where to wait for a stage whose first user is `user`: before the work on
/// loop-carried registers that directly precedes `user`. Assemblers do not move
/// that work across the wait, so it stays behind the start of the MMAs that are
/// in flight by then.
static Operation *getWaitPoint(Operation *user) {
  while (user->getPrevNode() && isWorkOnCarried(user->getPrevNode()))
    user = user->getPrevNode();
  return user;
}

/// Where to wait for a stage whose first user is the map `user`: before the
/// wait for the MMA whose result the map changes, so that the stage is read
/// while the MMA is in flight.
static Operation *getWaitPoint(MapOp user) {
  Operation *point = user;
  for (Value source : user.getSources())
    if (auto wait = source.getDefiningOp<MmaWaitOp>();
        wait && wait->getBlock() == user->getBlock() &&
        wait->isBeforeInBlock(point))
      point = wait;
  return point;
}

/// Replaces `load` by its stage in `pipe`.
static WaitOp stageLoad(LoadOp load, Value pipe) {
  OpBuilder builder(load);
  Location loc = load.getLoc();
  Value position = load.getPosition();
  auto type = cast<PipeType>(pipe.getType());
  Value target =
      AcquireOp::create(builder, loc, type.getBufferType(), pipe, position);
  int64_t pageSize = 0;
  if (load.getPageTable())
    pageSize = *std::next(
        cast<MemRefType>(load.getSource().getType()).getShape().rbegin());
  CopyOp::create(builder, loc, load.getSource(), load.getIndices(), target,
                 load.getPageTable(), load.getNumKeys(), load.getNumPages(),
                 load.getFault(), pageSize, load.getAddressingAttr(),
                 load.getFirstStored(), load.getNumStored());
  CommitOp::create(builder, loc, target);
  Operation *user =
      getFirstIn(load->getBlock(), to_vector(load.getResult().getUsers()));
  auto map = dyn_cast<MapOp>(user);
  builder.setInsertionPoint(map ? getWaitPoint(map) : getWaitPoint(user));
  auto stage =
      WaitOp::create(builder, loc, type.getBufferType(), pipe, position);
  // Conversions clear their results.
  if (load.getExtent() && !isConverted(load))
    ClearOp::create(builder, loc, stage.getBuffer(), load.getFirst(),
                    load.getExtent());
  return stage;
}

/// Starts `matmul` on the stages of its operands.
static MmaStartOp startMma(vector::ContractionOp matmul,
                           const DenseMap<Value, Value> &stages,
                           const DenseMap<Value, Value> &shared) {
  OpBuilder builder(matmul);
  SmallVector<OpOperand *, 2> sharedOperands = getSharedOperands(matmul);
  auto lookup = [&](unsigned number) -> Value {
    OpOperand &operand = matmul->getOpOperand(number);
    // A tile that other matmuls read from shared memory may stay in registers
    // here.
    Value stage = llvm::is_contained(sharedOperands, &operand)
                      ? shared.lookup(operand.get())
                      : stages.lookup(getColumns(operand.get()).tile);
    return stage ? stage : getMultiplicand(operand.get());
  };
  // The first of the columns of a staged tile that `operand` takes.
  auto getFirst = [&](Value operand) -> IntegerAttr {
    TileColumns columns = getColumns(operand);
    if (!stages.contains(columns.tile) ||
        !operand.getDefiningOp<vector::ExtractStridedSliceOp>())
      return nullptr;
    return builder.getI64IntegerAttr(columns.first);
  };
  Value acc = matmul.getAcc();
  if (matchPattern(acc, m_AnyZeroFloat()))
    acc = nullptr;
  auto pending = PendingType::get(matmul.getContext(),
                                  cast<VectorType>(matmul.getResultType()));
  std::optional<MmaForm> form = getForm(matmul);
  return MmaStartOp::create(
      builder, matmul.getLoc(), pending, lookup(0), lookup(1), acc,
      form->transposeLhs, form->transposeRhs, getFirst(matmul.getLhs()),
      getFirst(matmul.getRhs()),
      bool(matmul.getRhs().getDefiningOp<ConsumerColumnsOp>()),
      /*mma=*/nullptr);
}

/// Whether `load` loads one tile for each work item, so that its positions
/// count work items.
static bool isLoadedOnce(LoadOp load) {
  return isConstantIntValue(load.getLength(), 1);
}

/// The stream position of a load whose stage is waited for in `block`. Only
/// loads for which `fits` returns true count.
static Value getPositionIn(
    Block *block, const DenseMap<Value, WaitOp> &waits,
    function_ref<bool(LoadOp)> fits = [](LoadOp) { return true; }) {
  for (auto wait : block->getOps<WaitOp>())
    for (auto [load, other] : waits)
      if (other == wait && fits(load.getDefiningOp<LoadOp>()))
        return wait.getPosition();
  return nullptr;
}

/// The number of parts in which a step of `kernel` stages and multiplies its
/// tile of queries.
static int64_t getQueryParts(KernelOp kernel) {
  auto schedule = dyn_cast_if_present<attn::ScheduleAttrInterface>(
      Attribute(kernel.getScheduleAttr()));
  return schedule ? schedule.getQueryParts() : 1;
}

/// Waits for the MMAs of one block, each as late as possible: before the first
/// use of its result, before the wait for a later MMA, and before code that
/// starts MMAs of its own.
static SmallVector<MmaWaitOp>
waitForMmas(ArrayRef<vector::ContractionOp> matmuls,
            ArrayRef<MmaStartOp> starts) {
  Block *block = starts.front()->getBlock();
  SmallVector<Operation *> points(starts.size());
  Operation *limit = block->getTerminator();
  for (size_t i = starts.size(); i-- > 0;) {
    for (Operation *op = starts[i]->getNextNode(); op != limit;
         op = op->getNextNode()) {
      bool startsMmas = false;
      for (Region &region : op->getRegions())
        region.walk([&](MmaStartOp) { startsMmas = true; });
      if (startsMmas) {
        limit = op;
        break;
      }
    }
    if (!matmuls[i]->use_empty()) {
      Operation *use = getFirstIn(block, to_vector(matmuls[i]->getUsers()));
      if (use->isBeforeInBlock(limit))
        limit = use;
    }
    points[i] = limit;
  }
  SmallVector<MmaWaitOp> waits;
  for (auto [i, point] : llvm::enumerate(points)) {
    OpBuilder builder(point);
    MmaStartOp start = starts[i];
    waits.push_back(
        MmaWaitOp::create(builder, start.getLoc(), start.getResult()));
  }
  return waits;
}

/// An MMA in flight still reads its operand registers. Where a loop carries
/// them, their next value overwrites the value that is read. So the operation
/// that computes the next value moves down to after the wait.
static void keepRegistersInFlight(ArrayRef<MmaWaitOp> waits) {
  for (MmaWaitOp wait : waits) {
    auto start = wait.getPending().getDefiningOp<MmaStartOp>();
    auto carried = dyn_cast<BlockArgument>(start.getLhs());
    auto loop = dyn_cast<scf::ForOp>(wait->getParentOp());
    if (!carried || !loop || carried.getOwner() != loop.getBody() ||
        carried.getArgNumber() < loop.getNumInductionVars())
      continue;
    Value next = loop.getTiedLoopYieldedValue(carried)->get();
    Operation *maker = next.getDefiningOp();
    if (!maker || maker->getBlock() != loop.getBody() || !isPure(maker) ||
        !next.hasOneUse() || !maker->isBeforeInBlock(wait))
      continue;
    maker->moveAfter(wait);
  }
}

namespace {
/// Pipes that several blocks of a kernel share, since the blocks run one after
/// the other.
class SharedPipes {
public:
  explicit SharedPipes(KernelOp kernel) : kernel(kernel) {}

  /// The pipe of `type` for the next operation of `block`. The first operations
  /// of all blocks share a pipe, the second operations share another one, and
  /// so on; operations of an inner block come after the outer ones,
  /// which the caller has given pipes before. If `source` or `position` is
  /// given, only operations on the same source, or at the same position of a
  /// stream, are counted together.
  Value getNext(Block *block, Location loc, PipeType type,
                Value source = Value(), Value position = Value()) {
    unsigned number = numUsed[{{block, position}, {type, source}}]++;
    // What is computed stays while inner blocks run.
    for (Operation *op = block->getParentOp(); !source && op != kernel;
         op = op->getParentOp())
      number += numUsed.lookup({{op->getBlock(), position}, {type, source}});
    SmallVector<Value> &pipes = ofType[{type, source}];
    if (number == pipes.size()) {
      auto builder = OpBuilder::atBlockBegin(&kernel.getBody().front());
      pipes.push_back(CreatePipeOp::create(builder, loc, type,
                                           /*offset=*/IntegerAttr(),
                                           /*barriers=*/IntegerAttr()));
      ++numPipes;
    }
    return pipes[number];
  }

  unsigned getNumPipes() const { return numPipes; }

private:
  KernelOp kernel;
  DenseMap<std::pair<Type, Value>, SmallVector<Value>> ofType;
  DenseMap<std::pair<std::pair<Block *, Value>, std::pair<Type, Value>>,
           unsigned>
      numUsed;
  unsigned numPipes = 0;
};
} // namespace

/// The pipe of the right-hand side of `matmul`, which is converted from `load`.
static Value getConvertedPipe(vector::ContractionOp matmul, LoadOp load,
                              SharedPipes &pipes) {
  // One stage leaves more room for the tiles that are copied meanwhile.
  constexpr int64_t stages = 1;
  auto tile = cast<VectorType>(matmul.getRhs().getType());
  auto type = PipeType::get(matmul.getContext(), tile.getShape(),
                            tile.getElementType(), stages);
  return pipes.getNext(matmul->getBlock(), matmul.getLoc(), type,
                       load.getSource());
}

/// Converts the right-hand side of `matmul`, a staged tile of 8 bits, to its
/// stage of a pipe.
static Value convertLocally(vector::ContractionOp matmul, WaitOp wait,
                            LoadOp load, Value pipe) {
  OpBuilder builder(matmul.getRhs().getDefiningOp());
  return LocalConvertOp::create(builder, matmul.getLoc(),
                                cast<PipeType>(pipe.getType()).getBufferType(),
                                wait.getBuffer(), pipe, wait.getPosition(),
                                load.getFirst(), load.getExtent());
}

/// Fills a stage of `pipe` with the right-hand side of `matmul`, a staged tile
/// of 8 bits, and waits for it.
static Value convertThroughPipe(vector::ContractionOp matmul, WaitOp wait,
                                LoadOp load, Value pipe) {
  OpBuilder builder(wait->getContext());
  builder.setInsertionPointAfter(wait);
  Location loc = matmul.getLoc();
  ConvertOp::create(builder, loc, wait.getBuffer(), pipe, wait.getPosition(),
                    load.getFirst(), load.getExtent(),
                    /*first_warp=*/IntegerAttr());
  return WaitOp::create(builder, loc,
                        cast<PipeType>(pipe.getType()).getBufferType(), pipe,
                        wait.getPosition());
}

/// Stores a computed operand of `matmul` to a pipe of one or two stages. With
/// two, a tile stays until the MMAs that read it have been waited for. With
/// one, warpgroups wait for each other once more.
static LogicalResult
storeOperandLocally(vector::ContractionOp matmul, OpOperand *operand,
                    int64_t sharedStages, const DenseMap<Value, WaitOp> &waits,
                    bool idleWarpsConvert, SharedPipes &pipes,
                    DenseMap<Value, Value> &shared) {
  if (shared.contains(operand->get()))
    return success();
  if (LoadOp load = getConvertedLoad(operand->get())) {
    WaitOp wait = waits.lookup(load.getResult());
    Value pipe = getConvertedPipe(matmul, load, pipes);
    shared[operand->get()] = idleWarpsConvert
                                 ? convertThroughPipe(matmul, wait, load, pipe)
                                 : convertLocally(matmul, wait, load, pipe);
    return success();
  }
  Value position = getPositionIn(matmul->getBlock(), waits);
  // All steps of an inner loop have the only stage.
  if (sharedStages == 1)
    for (Operation *op = matmul->getParentOp(); !position && !isa<KernelOp>(op);
         op = op->getParentOp())
      position = getPositionIn(op->getBlock(), waits);
  if (!position)
    return matmul.emitOpError(
        "needs an operand in shared memory, but no stream "
        "of tiles in its block counts its steps");
  auto tile = cast<VectorType>(operand->get().getType());
  auto type = PipeType::get(matmul.getContext(), tile.getShape(),
                            tile.getElementType(), sharedStages);
  Value pipe = pipes.getNext(matmul->getBlock(), matmul.getLoc(), type);
  // A tile that is assembled from columns of other tiles is stored part by
  // part.
  SmallVector<std::pair<Value, int64_t>> columns;
  for (Value whole = operand->get(); whole;) {
    auto insert = whole.getDefiningOp<vector::InsertStridedSliceOp>();
    if (!insert) {
      if (columns.empty())
        columns.push_back({whole, 0});
      break;
    }
    auto offsets = insert.getOffsets().getAsValueRange<IntegerAttr>();
    columns.push_back({insert.getValueToStore(),
                       (*std::next(offsets.begin())).getSExtValue()});
    whole = insert.getDest();
  }
  OpBuilder builder(matmul);
  if (columns.size() > 1) {
    // Positions count the tiles of queries from which the operand is assembled.
    Value parts = arith::ConstantIndexOp::create(builder, matmul.getLoc(),
                                                 columns.size());
    position =
        arith::DivUIOp::create(builder, matmul.getLoc(), position, parts);
  }
  for (auto [part, first] : llvm::reverse(columns))
    shared[operand->get()] =
        LocalStoreOp::create(builder, matmul.getLoc(), type.getBufferType(),
                             part, pipe, position, first);
  return success();
}

/// Releases the buffer of `read` where the whole tile has arrived in registers.
/// It may arrive long after the read, for example behind atomic additions to
/// memory.
static void releaseRead(OpBuilder &builder, ReadOp read) {
  if (Operation *arrival = getArrival(read)) {
    builder.setInsertionPointAfter(arrival);
    auto reduction = dyn_cast<vector::MultiDimReductionOp>(arrival);
    ReleaseOp::create(builder, read.getLoc(), read.getBuffer(),
                      reduction ? reduction.getResult() : Value());
    return;
  }
  // A loop may wait for the same stage, so the release comes before it.
  Operation *point = read->getNextNode();
  while (!isa<LoopLikeOpInterface>(point) &&
         !point->hasTrait<OpTrait::IsTerminator>())
    point = point->getNextNode();
  builder.setInsertionPoint(point);
  ReleaseOp::create(builder, read.getLoc(), read.getBuffer());
}

/// Whether all users of `load` are matmuls that take the whole tile as a
/// left-hand side that is not transposed.
static bool isPlainLhs(LoadOp load) {
  auto isPlain = [](OpOperand &use) {
    auto matmul = dyn_cast<vector::ContractionOp>(use.getOwner());
    return matmul && use.getOperandNumber() == 0 &&
           !getForm(matmul)->transposeLhs;
  };
  return llvm::all_of(load.getResult().getUses(), [&](OpOperand &use) {
    return isFormatExtension(use.getOwner())
               ? llvm::all_of(use.getOwner()->getUses(), isPlain)
               : isPlain(use);
  });
}

/// Reads the whole stage of `wait`, with its cleared rows, to registers.
static Value readStage(WaitOp wait) {
  Operation *ready = wait;
  while (isa<ClearOp>(ready->getNextNode()))
    ready = ready->getNextNode();
  OpBuilder builder(wait->getContext());
  builder.setInsertionPointAfter(ready);
  BufferType type = wait.getBuffer().getType();
  return ReadOp::create(builder, wait.getLoc(),
                        VectorType::get(type.getShape(), type.getElementType()),
                        wait.getBuffer());
}

/// Moves `read` to its first user, so that its registers are taken late, if the
/// stage is kept until it has arrived.
static void sinkRead(ReadOp read) {
  if (!getArrival(read))
    return;
  Operation *first = nullptr;
  for (Operation *user : read->getUsers()) {
    Operation *inBlock = read->getBlock()->findAncestorOpInBlock(*user);
    if (!first || inBlock->isBeforeInBlock(first))
      first = inBlock;
  }
  if (first)
    read->moveBefore(first);
}

/// Stages `load`, of a tile that threads read, through `pipe`.
static void stageRead(LoadOp load, Value pipe) {
  Location loc = load.getLoc();
  WaitOp stage = stageLoad(load, pipe);
  OpBuilder builder(stage->getContext());
  builder.setInsertionPointAfter(stage);
  auto read = ReadOp::create(builder, loc, load.getResult().getType(),
                             stage.getBuffer());
  load.getResult().replaceAllUsesWith(read.getTile());
  load.erase();
  releaseRead(builder, read);
}

/// Stages `loads`, of tiles that threads read, through a pipe of their own.
static void stageReads(ArrayRef<LoadOp> loads, int64_t stages) {
  LoadOp first = loads.front();
  auto tile = cast<VectorType>(first.getResult().getType());
  auto kernel = first->getParentOfType<KernelOp>();
  auto builder = OpBuilder::atBlockBegin(&kernel.getBody().front());
  auto type = PipeType::get(first.getContext(), tile.getShape(),
                            tile.getElementType(), stages);
  Value pipe = CreatePipeOp::create(builder, first.getLoc(), type,
                                    /*offset=*/IntegerAttr(),
                                    /*barriers=*/IntegerAttr());
  for (LoadOp load : loads)
    stageRead(load, pipe);
}

/// Stages `load`, of a row, through a pipe that no other load of its block
/// uses. If `shared`, loads at other positions may use the same pipe.
static void stageRow(LoadOp load, int64_t stages, bool shared,
                     SharedPipes &pipes) {
  auto row = cast<VectorType>(load.getResult().getType());
  auto type = PipeType::get(load.getContext(), row.getShape(),
                            row.getElementType(), stages);
  Value position = shared ? load.getPosition() : Value();
  stageRead(load, pipes.getNext(load->getBlock(), load.getLoc(), type,
                                load.getSource(), position));
}

/// Makes the semaphore add that counts additions wait for the additions through
/// the pipe of `addition`. That needs a staged tile in its block that counts
/// work items. A kernel has at most one such semaphore add.
static LogicalResult countAfterAdditions(KernelOp kernel,
                                         BulkReduceAddOp addition,
                                         const DenseMap<Value, WaitOp> &waits) {
  SemaphoreAddOp first;
  WalkResult walk = kernel.walk([&](SemaphoreAddOp op) -> WalkResult {
    if (!op.getAdditions() || op->getParentOfType<AuxiliaryWarpsOp>())
      return WalkResult::advance();
    if (first) {
      InFlightDiagnostic diagnostic =
          op.emitOpError("is a second one of additions in the kernel");
      diagnostic.attachNote(first.getLoc()) << "see the first one here";
      return diagnostic;
    }
    first = op;
    if (addition.getOrdinal())
      return op.emitOpError("cannot be of ordered additions, which "
                            "idle warps make");
    if (Value position = getPositionIn(op->getBlock(), waits, isLoadedOnce)) {
      auto staged = addition.getValue().getDefiningOp<StageFragmentsOp>();
      op.getPipeMutable().assign(staged.getPipe());
      op.getPositionMutable().assign(position);
    }
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

namespace {
/// What a kernel stages.
struct StagedKernel {
  SetVector<LoadOp> loads;
  /// The streams of `loads`, and the streams that only maps read.
  SmallVector<Stream> streams, mapped;
  /// The matmuls, by block and in order.
  llvm::MapVector<Block *, SmallVector<vector::ContractionOp>> matmuls;
  /// Additions of tiles in fragment order that go through shared memory.
  SmallVector<BulkReduceAddOp> additions;
  /// The waits for loads, and the buffers, or values in registers, that MMAs
  /// read instead of their results.
  DenseMap<Value, WaitOp> waits;
  DenseMap<Value, Value> buffers;
  /// Buffers of computed operands.
  DenseMap<Value, Value> shared;
  /// Reads of tiles that MMAs read, too.
  DenseMap<Value, ReadOp> reads;
};

struct AttnTileCreatePipesPass
    : KernelPass<AttnTileCreatePipesPass,
                 attn_tile::impl::AttnTileCreatePipesPassBase> {
  using Base::Base;

  static constexpr PhaseContract phases{KernelPhase::Plain, KernelPhase::Plain,
                                        KernelPhase::Staged};

  void runOnKernel();

private:
  LogicalResult verifyOptions();
  LogicalResult collect(StagedKernel &staged);
  int64_t getStages(const Stream &stream);
  void stageLoads(StagedKernel &staged);
  FailureOr<int64_t> collectAdditions(StagedKernel &staged);
  LogicalResult stageAdditions(StagedKernel &staged, SharedPipes &pipes);
  void stageInversions();
  void startMmas(StagedKernel &staged);
};
} // namespace

LogicalResult AttnTileCreatePipesPass::verifyOptions() {
  auto verifyStages = [&](int64_t count, int64_t least) -> LogicalResult {
    if (count >= least && count <= PipeType::maxStages)
      return success();
    return getOperation().emitError("pipes can have 1 to ")
           << PipeType::maxStages << " stages (asked for " << count << ")";
  };
  auto verifyLocalStages = [&]() -> LogicalResult {
    constexpr int64_t most = 2;
    if (localStages >= 1 && localStages <= most)
      return success();
    return getOperation().emitError("computed operands can have 1 to ")
           << most << " stages (asked for " << localStages.getValue() << ")";
  };
  // Pipes of read-once tiles and of score tiles may have no stages.
  return failure(
      failed(verifyStages(stages, 1)) || failed(verifyStages(queryStages, 1)) ||
      failed(verifyLocalStages()) || failed(verifyStages(readOnceStages, 0)) ||
      failed(verifyStages(scoreStages, 0)));
}

/// Finds the streams and matmuls of a kernel, which has `staged.loads`.
LogicalResult AttnTileCreatePipesPass::collect(StagedKernel &staged) {
  KernelOp kernel = getOperation();
  WalkResult walk = kernel.walk([](scf::ForallOp forall) {
    forall.emitOpError("must be replaced by a traversal of work items before "
                       "pipes are created");
    return WalkResult::interrupt();
  });
  if (walk.wasInterrupted())
    return failure();
  FailureOr<SmallVector<Stream>> streams =
      collectStreams(staged.loads.getArrayRef());
  FailureOr<SmallVector<Stream>> mapped = collectStreams(
      scoreStages != 0 ? collectMapped(kernel) : SmallVector<LoadOp>());
  if (failed(streams) || failed(mapped))
    return failure();
  staged.streams = std::move(*streams);
  staged.mapped = std::move(*mapped);
  auto readsLoad = [&](vector::ContractionOp matmul) {
    LoadOp lhs = getLoad(matmul.getLhs());
    LoadOp rhs = getRhsLoad(matmul);
    return (lhs && staged.loads.contains(lhs)) ||
           (rhs && staged.loads.contains(rhs));
  };
  // A matmul of two computed operands may read one that another matmul needs in
  // shared memory. Where threads read operands, it needs no other one.
  DenseSet<Value> computed;
  kernel.walk([&](vector::ContractionOp matmul) {
    if (readsLoad(matmul) || readOperands)
      for (OpOperand *operand : getSharedOperands(matmul))
        computed.insert(operand->get());
  });
  kernel.walk([&](vector::ContractionOp matmul) {
    auto isComputed = [&](OpOperand *operand) {
      return computed.contains(operand->get());
    };
    if (readsLoad(matmul) ||
        llvm::any_of(getSharedOperands(matmul), isComputed))
      staged.matmuls[matmul->getBlock()].push_back(matmul);
  });
  return success();
}

/// The number of stages of the pipe of a stream.
int64_t AttnTileCreatePipesPass::getStages(const Stream &stream) {
  if (isLoadedOnce(stream.loads.front()))
    return lhsRegisters && llvm::all_of(stream.loads, isPlainLhs)
               ? int64_t(1)
               : queryStages.getValue();
  if (readOnceStages != 0 && isReadOnce(stream))
    return readOnceStages;
  return stages;
}

/// Creates the pipes of the streams, and stages their loads.
void AttnTileCreatePipesPass::stageLoads(StagedKernel &staged) {
  KernelOp kernel = getOperation();
  int64_t clusterSize = kernel.getClusterSize();
  std::optional<ClusterDependence> dependence;
  if (clusterSize > 1)
    dependence.emplace(kernel);
  auto getCluster = [&](const Stream &stream) -> int64_t {
    bool isShared =
        dependence &&
        cast<VectorType>(stream.tile).getDimSize(0) % clusterSize == 0 &&
        llvm::all_of(stream.loads, [&](LoadOp load) {
          return !load.getPageTable() && !load.getAddressing() &&
                 dependence->isShared(load);
        });
    return isShared ? clusterSize : 1;
  };
  DenseMap<Value, Value> pipes;
  auto builder = OpBuilder::atBlockBegin(&kernel.getBody().front());
  for (Stream &stream : staged.streams) {
    auto tile = cast<VectorType>(stream.tile);
    auto type =
        PipeType::get(&getContext(), tile.getShape(), tile.getElementType(),
                      getStages(stream), getCluster(stream));
    Value pipe =
        CreatePipeOp::create(builder, stream.loads.front().getLoc(), type,
                             /*offset=*/IntegerAttr(),
                             /*barriers=*/IntegerAttr());
    for (LoadOp load : stream.loads)
      pipes[load.getResult()] = pipe;
    ++numPipes;
  }
  for (LoadOp load : staged.loads) {
    WaitOp wait = stageLoad(load, pipes[load.getResult()]);
    staged.waits[load.getResult()] = wait;
    staged.buffers[load.getResult()] = wait.getBuffer();
    if (lhsRegisters && isLoadedOnce(load) && isPlainLhs(load))
      staged.buffers[load.getResult()] = readStage(wait);
    if (llvm::any_of(load.getResult().getUsers(), readsOperand)) {
      auto read = readStage(wait).getDefiningOp<ReadOp>();
      load.getResult().replaceUsesWithIf(read.getTile(), [](OpOperand &use) {
        return readsOperand(use.getOwner());
      });
      sinkRead(read);
      staged.reads[load.getResult()] = read;
    }
  }
}

/// Finds the additions that go through shared memory. Returns the stages of
/// computed operands: if the dQ tiles of a step are too large for shared
/// memory, there is no room for two stages of these either.
FailureOr<int64_t>
AttnTileCreatePipesPass::collectAdditions(StagedKernel &staged) {
  DenseMap<Block *, int64_t> bytesOfDqTiles;
  getOperation().walk([&](BulkReduceAddOp op) {
    auto tile = cast<VectorType>(op.getValue().getType());
    bytesOfDqTiles[op->getBlock()] +=
        tile.getNumElements() * tile.getElementTypeBitWidth() / /*bits=*/8;
    staged.additions.push_back(op);
  });
  if (llvm::none_of(bytesOfDqTiles,
                    [&](const std::pair<Block *, int64_t> &sums) {
                      return sums.second > maxFragmentBytes;
                    }))
    return localStages.getValue();
  for (BulkReduceAddOp op : staged.additions)
    if (op.getOrdinal())
      return op.emitOpError("with an order must go through shared memory, "
                            "which has no room for ")
             << bytesOfDqTiles[op->getBlock()] << " bytes in a step (at most "
             << maxFragmentBytes.getValue() << ")";
  staged.additions.clear();
  return 1;
}

/// Lets the additions read tiles in shared memory.
LogicalResult AttnTileCreatePipesPass::stageAdditions(StagedKernel &staged,
                                                      SharedPipes &pipes) {
  KernelOp kernel = getOperation();
  for (BulkReduceAddOp op : staged.additions) {
    auto tile = cast<VectorType>(op.getValue().getType());
    auto type = PipeType::get(&getContext(), tile.getShape(),
                              tile.getElementType(), /*stages=*/1);
    Value pipe = pipes.getNext(op->getBlock(), op.getLoc(), type);
    OpBuilder beforeOp(op);
    // Ordered accumulation finds its tile by a position that counts steps.
    Value position;
    if (op.getOrdinal()) {
      position = getPositionIn(op->getBlock(), staged.waits);
      if (!position)
        return op.emitOpError("with an order needs a stream of tiles in its "
                              "block, which counts its steps");
      if (int64_t parts = getQueryParts(kernel); parts != 1)
        position = arith::DivUIOp::create(
            beforeOp, op.getLoc(), position,
            arith::ConstantIndexOp::create(beforeOp, op.getLoc(), parts));
    }
    op.getValueMutable().assign(StageFragmentsOp::create(
        beforeOp, op.getLoc(), op.getValue(), pipe, position));
  }
  if (staged.additions.empty())
    return success();
  return countAfterAdditions(kernel, staged.additions.front(), staged.waits);
}

/// Gives inversions of triangular tiles a stage.
void AttnTileCreatePipesPass::stageInversions() {
  KernelOp kernel = getOperation();
  auto builder = OpBuilder::atBlockBegin(&kernel.getBody().front());
  kernel.walk([&](InvertTriangularOp op) {
    auto tile = cast<VectorType>(op.getTile().getType());
    auto type = PipeType::get(&getContext(), tile.getShape(),
                              tile.getElementType(), /*stages=*/1);
    op.getPipeMutable().assign(
        CreatePipeOp::create(builder, op.getLoc(), type,
                             /*offset=*/IntegerAttr(),
                             /*barriers=*/IntegerAttr()));
    ++numPipes;
  });
}

/// Replaces the matmuls by MMAs, and releases the stages that they read.
void AttnTileCreatePipesPass::startMmas(StagedKernel &staged) {
  SmallVector<SmallVector<MmaStartOp>> starts;
  for (auto &[block, contractions] : staged.matmuls) {
    SmallVector<MmaStartOp> &started = starts.emplace_back();
    for (vector::ContractionOp matmul : contractions)
      started.push_back(startMma(matmul, staged.buffers, staged.shared));
  }
  DenseMap<Value, SmallVector<Operation *>> readers;
  for (auto [entry, started] : llvm::zip(staged.matmuls, starts)) {
    SmallVector<MmaWaitOp> waits = waitForMmas(entry.second, started);
    for (auto [matmul, wait] : llvm::zip(entry.second, waits)) {
      for (Value operand : {matmul.getLhs(), matmul.getRhs()})
        readers[getColumns(operand).tile].push_back(wait);
      matmul->replaceAllUsesWith(ValueRange(wait.getResult()));
      ++numMmas;
    }
    keepRegistersInFlight(waits);
  }
  OpBuilder builder(&getContext());
  for (auto [load, read] : staged.reads)
    if (Operation *arrival = getArrival(read))
      readers[load].push_back(arrival);
  for (auto [operand, buffer] : staged.shared) {
    LoadOp load = getConvertedLoad(operand);
    if (!load)
      continue;
    if (auto stage = buffer.getDefiningOp<WaitOp>()) {
      readers[load.getResult()] = {stage->getPrevNode()};
      builder.setInsertionPointAfter(
          getLastIn(stage->getBlock(), readers[operand]));
      ReleaseOp::create(builder, stage.getLoc(), buffer);
    } else {
      readers[load.getResult()] = {buffer.getDefiningOp()};
    }
  }
  for (LoadOp load : staged.loads) {
    WaitOp stage = staged.waits[load.getResult()];
    builder.setInsertionPointAfter(
        getLastIn(stage->getBlock(), readers[load.getResult()]));
    ReleaseOp::create(builder, load.getLoc(), stage.getBuffer());
  }
}

/// Erases what pipes have replaced.
static void eraseStaged(KernelOp kernel, StagedKernel &staged) {
  for (auto &[block, contractions] : staged.matmuls)
    for (vector::ContractionOp matmul : contractions)
      matmul.erase();
  kernel.walk([](Operation *op) {
    if (isa<vector::ExtractStridedSliceOp, ConsumerColumnsOp, arith::ExtFOp>(
            op) &&
        op->use_empty())
      op->erase();
  });
  for (LoadOp load : staged.loads)
    load.erase();
}

void AttnTileCreatePipesPass::runOnKernel() {
  KernelOp kernel = getOperation();
  if (failed(verifyOptions()))
    return signalPassFailure();
  stageInversions();
  StagedKernel staged;
  staged.loads = collectLoads(kernel, readOperands);
  if (staged.loads.empty()) {
    remark::missed(kernel.getLoc(), remark::RemarkOpts::name("CreatePipes")
                                        .category(getArgument())
                                        .function(kernel.getName()))
        << "no stream of tiles feeds MMAs alone";
    return;
  }
  if (failed(collect(staged)))
    return signalPassFailure();
  SmallVector<LoadOp> rows = collectRows(staged.loads);
  stageLoads(staged);
  FailureOr<int64_t> sharedStages = collectAdditions(staged);
  if (failed(sharedStages))
    return signalPassFailure();
  SharedPipes ofOperands(kernel), ofDqTiles(kernel), ofRows(kernel);
  for (auto &[block, contractions] : staged.matmuls)
    for (vector::ContractionOp matmul : contractions)
      for (OpOperand *operand : getSharedOperands(matmul))
        if (failed(storeOperandLocally(matmul, operand, *sharedStages,
                                       staged.waits, idleWarpsConvert,
                                       ofOperands, staged.shared)))
          return signalPassFailure();
  if (failed(stageAdditions(staged, ofDqTiles)))
    return signalPassFailure();
  startMmas(staged);
  eraseStaged(kernel, staged);
  for (LoadOp row : rows)
    stageRow(row, stages, shareRows, ofRows);
  for (const Stream &stream : staged.mapped)
    stageReads(stream.loads, scoreStages);
  numPipes +=
      ofDqTiles.getNumPipes() + ofRows.getNumPipes() + staged.mapped.size();
}
