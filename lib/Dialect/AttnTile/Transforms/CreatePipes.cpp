//===- CreatePipes.cpp - Stage operands of products through pipes --------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns loads of tiles that matrix products read into stages of pipes, and the
// products into asynchronous ones.
//
//===----------------------------------------------------------------------===//

#include "Arrivals.h"
#include "ClusterDependence.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
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

/// How a product reads its operands.
struct ProductForm {
  bool transposeLhs;
  bool transposeRhs;
};
} // namespace

/// How `product` reads its operands, if it is a product of two matrices with
/// f32 accumulation.
static std::optional<ProductForm> getForm(vector::ContractionOp product) {
  MLIRContext *context = product.getContext();
  AffineExpr m, n, k;
  bindDims(context, m, n, k);
  auto map = [&](AffineExpr row, AffineExpr column) {
    return AffineMap::get(3, 0, {row, column}, context);
  };
  auto result = dyn_cast<VectorType>(product.getResultType());
  if (!result || result.getRank() != 2 || !result.getElementType().isF32() ||
      product.getKind() != vector::CombiningKind::ADD ||
      product.getLhsType().getElementType() !=
          product.getRhsType().getElementType())
    return std::nullopt;
  SmallVector<AffineMap> maps = product.getIndexingMapsArray();
  bool transposeLhs = maps[0] == map(k, m), transposeRhs = maps[1] == map(n, k);
  if ((maps[0] != map(m, k) && !transposeLhs) ||
      (maps[1] != map(k, n) && !transposeRhs) || maps[2] != map(m, n))
    return std::nullopt;
  return ProductForm{transposeLhs, transposeRhs};
}

namespace {
/// A tile, and from which of its columns on.
struct TileColumns {
  Value tile;
  int64_t first;
};
} // namespace

/// The tile of which an operand of a product is some columns, or all.
static TileColumns getColumns(Value operand) {
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

/// The load of the tile of which an operand of a product is columns.
static LoadOp getLoad(Value operand) {
  return getColumns(operand).tile.getDefiningOp<LoadOp>();
}

/// The operand of `product` that is computed but must be in workgroup memory: a
/// right-hand side, or a left-hand side that is transposed.
static OpOperand *getSharedOperand(vector::ContractionOp product) {
  std::optional<ProductForm> form = getForm(product);
  if (!form)
    return nullptr;
  OpOperand &lhs = product->getOpOperand(0), &rhs = product->getOpOperand(1);
  if (form->transposeLhs && !getLoad(lhs.get()))
    return &lhs;
  return rhs.get().getDefiningOp<LoadOp>() ? nullptr : &rhs;
}

/// The loads that can be staged: those of streams of matrices that are read
/// by products alone, which themselves have a staged right-hand side.
static SetVector<LoadOp> collectLoads(KernelOp kernel) {
  SetVector<LoadOp> loads;
  kernel.walk([&](LoadOp load) {
    auto tile = cast<VectorType>(load.getResult().getType());
    if (load.getPosition() && tile.getRank() == 2 &&
        !load.getResult().use_empty())
      loads.insert(load);
  });
  auto isStaged = [&](OpOperand &use) {
    auto product = dyn_cast<vector::ContractionOp>(use.getOwner());
    if (!product || use.getOperandNumber() > 1 || !getForm(product))
      return false;
    auto rhs = product.getRhs().getDefiningOp<LoadOp>();
    return rhs ? loads.contains(rhs) : use.getOperandNumber() == 0;
  };
  auto canStage = [&](LoadOp load) {
    return llvm::all_of(load.getResult().getUses(), [&](OpOperand &use) {
      auto slice = dyn_cast<vector::ExtractStridedSliceOp>(use.getOwner());
      if (!slice)
        return isStaged(use);
      // Columns are rows of left-hand sides that are transposed.
      return getLoad(slice) == load &&
             llvm::all_of(slice->getUses(), [&](OpOperand &useOfSlice) {
               return isStaged(useOfSlice) &&
                      getForm(
                          cast<vector::ContractionOp>(useOfSlice.getOwner()))
                          ->transposeLhs;
             });
    });
  };
  // Each load that is dropped may take products from others.
  while (loads.remove_if([&](LoadOp load) { return !canStage(load); }))
    ;
  return loads;
}

/// Rows beside the tiles of `loads` that all threads read.
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

/// Tiles of streams that maps alone read, in the block of the load.
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

/// The operation of `block` that is or holds the first of `ops`, or the last.
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
    bool isLhs = load.getResult().use_begin()->getOperandNumber() == 0;
    auto *stream = llvm::find_if(streams, [&](const Stream &other) {
      return other.source == load.getSource() && other.tile == tile &&
             other.isLhs == isLhs;
    });
    if (stream == streams.end()) {
      streams.push_back({load.getSource(), tile, isLhs, {load}});
      continue;
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

/// Whether one product alone reads each tile of `stream`.
static bool isReadOnce(const Stream &stream) {
  return llvm::all_of(stream.loads,
                      [](LoadOp load) { return load.getResult().hasOneUse(); });
}

/// Whether `op` computes registers from those that a loop carries.
static bool isWorkOnCarried(Operation *op) {
  return isa<arith::TruncFOp, arith::MulFOp, vector::ShapeCastOp,
             vector::BroadcastOp, DropoutOp>(op) &&
         llvm::all_of(op->getOperands(), [&](Value operand) {
           if (Operation *def = operand.getDefiningOp())
             return def->getBlock() == op->getBlock() && isWorkOnCarried(def);
           return isa<scf::ForOp>(op->getParentOp());
         });
}

/// Where to wait for a stage that `user` is the first one to use: before work
/// on carried registers that stands directly before it. Assemblers do not move
/// that work across the wait, so that it stays behind the products that are in
/// flight by then.
static Operation *getWaitPoint(Operation *user) {
  while (user->getPrevNode() && isWorkOnCarried(user->getPrevNode()))
    user = user->getPrevNode();
  return user;
}

/// Where to wait for a stage that is first used by `user`, a map: before the
/// wait for the product that it changes, so that the stage is read meanwhile.
static Operation *getWaitPoint(MapOp user) {
  Operation *point = user;
  for (Value source : user.getSources())
    if (auto wait = source.getDefiningOp<MmaWaitOp>();
        wait && wait->getBlock() == user->getBlock() &&
        wait->isBeforeInBlock(point))
      point = wait;
  return point;
}

/// Replaces `load` by the stage that `pipe` has for it.
static WaitOp stageLoad(LoadOp load, Value pipe) {
  OpBuilder builder(load);
  Location loc = load.getLoc();
  Value position = load.getPosition();
  auto type = cast<PipeType>(pipe.getType());
  Value target =
      AcquireOp::create(builder, loc, type.getBufferType(), pipe, position);
  CopyOp::create(builder, loc, load.getSource(), load.getIndices(), target);
  CommitOp::create(builder, loc, target);
  Operation *user =
      getFirstIn(load->getBlock(), to_vector(load.getResult().getUsers()));
  auto map = dyn_cast<MapOp>(user);
  builder.setInsertionPoint(map ? getWaitPoint(map) : getWaitPoint(user));
  auto stage =
      WaitOp::create(builder, loc, type.getBufferType(), pipe, position);
  if (load.getExtent())
    ClearOp::create(builder, loc, stage.getBuffer(), load.getFirst(),
                    load.getExtent());
  return stage;
}

/// Starts the product `product` on the stages of its operands.
static MmaStartOp startProduct(vector::ContractionOp product,
                               const DenseMap<Value, Value> &stages,
                               const DenseMap<Value, Value> &shared) {
  OpBuilder builder(product);
  OpOperand *sharedOperand = getSharedOperand(product);
  auto lookup = [&](unsigned number) -> Value {
    OpOperand &operand = product->getOpOperand(number);
    // A tile that others read from memory may stay in registers here.
    Value stage = &operand == sharedOperand
                      ? shared.lookup(operand.get())
                      : stages.lookup(getColumns(operand.get()).tile);
    return stage ? stage : operand.get();
  };
  IntegerAttr firstRow;
  if (stages.contains(getColumns(product.getLhs()).tile) &&
      product.getLhs().getDefiningOp<vector::ExtractStridedSliceOp>())
    firstRow = OpBuilder(product).getI64IntegerAttr(
        getColumns(product.getLhs()).first);
  Value acc = product.getAcc();
  if (matchPattern(acc, m_AnyZeroFloat()))
    acc = nullptr;
  auto pending = PendingType::get(product.getContext(),
                                  cast<VectorType>(product.getResultType()));
  std::optional<ProductForm> form = getForm(product);
  return MmaStartOp::create(builder, product.getLoc(), pending, lookup(0),
                            lookup(1), acc, form->transposeLhs,
                            form->transposeRhs, firstRow);
}

/// Whether `load` has one tile for each work item, so that its positions count
/// the items.
static bool isLoadedOnce(LoadOp load) {
  return isConstantIntValue(load.getLength(), 1);
}

/// The position in its stream of a load whose stage is waited for in `block`,
/// of those that `fits` is true of.
static Value getPositionIn(
    Block *block, const DenseMap<Value, WaitOp> &waits,
    function_ref<bool(LoadOp)> fits = [](LoadOp) { return true; }) {
  for (auto wait : block->getOps<WaitOp>())
    for (auto [load, other] : waits)
      if (other == wait && fits(load.getDefiningOp<LoadOp>()))
        return wait.getPosition();
  return nullptr;
}

/// Parts in which a step of `kernel` stages and multiplies its tile of queries.
static int64_t getQueryParts(KernelOp kernel) {
  auto schedule = dyn_cast_if_present<attn::ScheduleAttrInterface>(
      Attribute(kernel.getScheduleAttr()));
  return schedule ? schedule.getQueryParts() : 1;
}

/// Waits for the products of one block, each as late as possible: not after the
/// first use of its result, nor after a wait for a later product, nor after
/// code that starts products of its own.
static SmallVector<MmaWaitOp>
waitForProducts(ArrayRef<vector::ContractionOp> products,
                ArrayRef<MmaStartOp> starts) {
  Block *block = starts.front()->getBlock();
  SmallVector<Operation *> points(starts.size());
  Operation *limit = block->getTerminator();
  for (size_t i = starts.size(); i-- > 0;) {
    for (Operation *op = starts[i]->getNextNode(); op != limit;
         op = op->getNextNode()) {
      bool startsProducts = false;
      for (Region &region : op->getRegions())
        region.walk([&](MmaStartOp) { startsProducts = true; });
      if (startsProducts) {
        limit = op;
        break;
      }
    }
    if (!products[i]->use_empty()) {
      Operation *use = getFirstIn(block, to_vector(products[i]->getUsers()));
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

/// A product in flight still reads its registers. Where a loop carries them,
/// their next value takes the place of the one that is read, so the operation
/// that makes it moves down to after the wait.
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
/// Pipes that the blocks of a kernel, which run one after the other, use in
/// turn.
class SharedPipes {
public:
  explicit SharedPipes(KernelOp kernel) : kernel(kernel) {}

  /// The pipe of `type` that the next operation of `block` with what is in
  /// `source`, if anything, uses: the first one gets that of the first one of
  /// other blocks, and so on. Those at different positions of a stream, if that
  /// is given, do not count as other ones.
  Value getNext(Block *block, Location loc, PipeType type,
                Value source = Value(), Value position = Value()) {
    unsigned number = numUsed[{{block, position}, {type, source}}]++;
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

/// Puts the computed operand of `product`, if it has one that must be there,
/// into workgroup memory: into one of two stages in turn, so that a tile stays
/// until the products that read it have been waited for, or into a single one,
/// for which warpgroups wait for each other once more.
static LogicalResult shareOperand(vector::ContractionOp product,
                                  int64_t sharedStages,
                                  const DenseMap<Value, WaitOp> &waits,
                                  SharedPipes &pipes,
                                  DenseMap<Value, Value> &shared) {
  OpOperand *operand = getSharedOperand(product);
  if (!operand || shared.contains(operand->get()))
    return success();
  Value position = getPositionIn(product->getBlock(), waits);
  if (!position)
    return product.emitOpError("needs an operand in workgroup memory, but no "
                               "stream of tiles beside it counts its steps");
  auto tile = cast<VectorType>(operand->get().getType());
  auto type = PipeType::get(product.getContext(), tile.getShape(),
                            tile.getElementType(), sharedStages);
  Value pipe = pipes.getNext(product->getBlock(), product.getLoc(), type);
  // A tile that is put together of columns of others is shared as these.
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
  OpBuilder builder(product);
  if (columns.size() > 1) {
    // Positions count the tiles of queries that it is made of.
    Value parts = arith::ConstantIndexOp::create(builder, product.getLoc(),
                                                 columns.size());
    position =
        arith::DivUIOp::create(builder, product.getLoc(), position, parts);
  }
  for (auto [part, first] : llvm::reverse(columns))
    shared[operand->get()] =
        ShareOp::create(builder, product.getLoc(), type.getBufferType(), part,
                        pipe, position, first);
  return success();
}

/// Releases what `read` reads where all of it has come to registers. It may be
/// on its way long after the read, behind additions in memory for one.
static void releaseRead(OpBuilder &builder, ReadOp read) {
  if (Operation *arrival = getArrival(read)) {
    builder.setInsertionPointAfter(arrival);
    auto reduction = dyn_cast<vector::MultiDimReductionOp>(arrival);
    ReleaseOp::create(builder, read.getLoc(), read.getBuffer(),
                      reduction ? reduction.getResult() : Value());
    return;
  }
  // Loops may wait for the same stage.
  Operation *point = read->getNextNode();
  while (!isa<LoopLikeOpInterface>(point) &&
         !point->hasTrait<OpTrait::IsTerminator>())
    point = point->getNextNode();
  builder.setInsertionPoint(point);
  ReleaseOp::create(builder, read.getLoc(), read.getBuffer());
}

/// Whether all that read the tile of `load` are products whose left-hand side
/// it is as it is, neither transposed nor in parts.
static bool isPlainLhs(LoadOp load) {
  return llvm::all_of(load.getResult().getUses(), [](OpOperand &use) {
    auto product = dyn_cast<vector::ContractionOp>(use.getOwner());
    return product && use.getOperandNumber() == 0 &&
           !getForm(product)->transposeLhs;
  });
}

/// Reads the whole stage of `wait`, as it is for products, to registers.
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

/// Puts `load`, of a tile that threads read, through `pipe`.
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

/// Puts `loads`, of tiles that threads read, through a pipe of their own.
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

/// Puts `load`, of a row, through a pipe that no other load of its block uses,
/// or none at the same position if it is `shared`.
static void stageRow(LoadOp load, int64_t stages, bool shared,
                     SharedPipes &pipes) {
  auto row = cast<VectorType>(load.getResult().getType());
  auto type = PipeType::get(load.getContext(), row.getShape(),
                            row.getElementType(), stages);
  Value position = shared ? load.getPosition() : Value();
  stageRead(load, pipes.getNext(load->getBlock(), load.getLoc(), type,
                                load.getSource(), position));
}

/// Lets the count of additions, of which there can be one, wait for those
/// through the pipe of `addition`, where something staged beside it counts the
/// work items.
static LogicalResult countAfterAdditions(KernelOp kernel, AddPackedOp addition,
                                         const DenseMap<Value, WaitOp> &waits) {
  CountOp first;
  WalkResult walk = kernel.walk([&](CountOp op) -> WalkResult {
    if (!op.getAdditions() || op->getParentOfType<BesideOp>())
      return WalkResult::advance();
    if (first) {
      InFlightDiagnostic diagnostic =
          op.emitOpError("is a second one of additions in the kernel");
      diagnostic.attachNote(first.getLoc()) << "see the first one here";
      return diagnostic;
    }
    first = op;
    if (addition.getTurn())
      return op.emitOpError("cannot be of additions that have turns, which "
                            "idle warps make");
    if (Value position = getPositionIn(op->getBlock(), waits, isLoadedOnce)) {
      auto pack = addition.getValue().getDefiningOp<PackOp>();
      op.getPipeMutable().assign(pack.getPipe());
      op.getPositionMutable().assign(position);
    }
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

namespace {
struct AttnTileCreatePipesPass
    : public attn_tile::impl::AttnTileCreatePipesPassBase<
          AttnTileCreatePipesPass> {
  using Base::Base;

  void runOnOperation() override;
};
} // namespace

void AttnTileCreatePipesPass::runOnOperation() {
  KernelOp kernel = getOperation();
  auto verifyStages = [&](int64_t count, int64_t least) -> LogicalResult {
    if (count >= least && count <= PipeType::maxStages)
      return success();
    return kernel.emitError("pipes can have 1 to ")
           << PipeType::maxStages << " stages (asked for " << count << ")";
  };
  // Those of one kind may have none.
  if (failed(verifyStages(stages, 1)) || failed(verifyStages(queryStages, 1)) ||
      failed(verifyStages(readOnceStages, 0)) ||
      failed(verifyStages(scoreStages, 0)))
    return signalPassFailure();
  SetVector<LoadOp> loads = collectLoads(kernel);
  if (loads.empty()) {
    remark::missed(kernel.getLoc(), remark::RemarkOpts::name("CreatePipes")
                                        .category(getArgument())
                                        .function(kernel.getName()))
        << "no stream of tiles feeds products alone";
    return;
  }
  WalkResult walk = kernel.walk([](scf::ForallOp forall) {
    forall.emitOpError("must be replaced by a walk over work items before "
                       "pipes are created");
    return WalkResult::interrupt();
  });
  if (walk.wasInterrupted())
    return signalPassFailure();
  FailureOr<SmallVector<Stream>> streams = collectStreams(loads.getArrayRef());
  FailureOr<SmallVector<Stream>> mapped = collectStreams(
      scoreStages != 0 ? collectMapped(kernel) : SmallVector<LoadOp>());
  if (failed(streams) || failed(mapped))
    return signalPassFailure();

  // The products, by block and in order.
  llvm::MapVector<Block *, SmallVector<vector::ContractionOp>> products;
  kernel.walk([&](vector::ContractionOp product) {
    LoadOp lhs = getLoad(product.getLhs());
    auto rhs = product.getRhs().getDefiningOp<LoadOp>();
    if ((lhs && loads.contains(lhs)) || (rhs && loads.contains(rhs)))
      products[product->getBlock()].push_back(product);
  });

  int64_t clusterSize = kernel.getClusterSize();
  std::optional<ClusterDependence> dependence;
  if (clusterSize > 1)
    dependence.emplace(kernel);
  auto getCluster = [&](const Stream &stream) -> int64_t {
    bool isShared =
        dependence &&
        cast<VectorType>(stream.tile).getDimSize(0) % clusterSize == 0 &&
        llvm::all_of(stream.loads,
                     [&](LoadOp load) { return dependence->isShared(load); });
    return isShared ? clusterSize : 1;
  };

  SmallVector<LoadOp> rows = collectRows(loads);
  DenseMap<Value, Value> pipes;
  auto builder = OpBuilder::atBlockBegin(&kernel.getBody().front());
  for (Stream &stream : *streams) {
    LoadOp first = stream.loads.front();
    auto tile = cast<VectorType>(stream.tile);
    int64_t count = stages;
    if (isLoadedOnce(first))
      count = lhsRegisters && llvm::all_of(stream.loads, isPlainLhs)
                  ? int64_t(1)
                  : queryStages.getValue();
    else if (readOnceStages != 0 && isReadOnce(stream))
      count = readOnceStages;
    auto type = PipeType::get(&getContext(), tile.getShape(),
                              tile.getElementType(), count, getCluster(stream));
    Value pipe = CreatePipeOp::create(builder, first.getLoc(), type,
                                      /*offset=*/IntegerAttr(),
                                      /*barriers=*/IntegerAttr());
    for (LoadOp load : stream.loads)
      pipes[load.getResult()] = pipe;
    ++numPipes;
  }
  DenseMap<Value, WaitOp> waitsOfLoads;
  DenseMap<Value, Value> buffers;
  for (LoadOp load : loads) {
    WaitOp wait = stageLoad(load, pipes[load.getResult()]);
    waitsOfLoads[load.getResult()] = wait;
    buffers[load.getResult()] = wait.getBuffer();
    if (lhsRegisters && isLoadedOnce(load) && isPlainLhs(load))
      buffers[load.getResult()] = readStage(wait);
  }
  // Where the sums of a step are too large for workgroup memory, it has no room
  // for two stages of what is shared either.
  SmallVector<AddPackedOp> additions;
  DenseMap<Block *, int64_t> bytesOfSums;
  kernel.walk([&](AddPackedOp op) {
    auto tile = cast<VectorType>(op.getValue().getType());
    bytesOfSums[op->getBlock()] +=
        tile.getNumElements() * tile.getElementTypeBitWidth() / /*bits=*/8;
    additions.push_back(op);
  });
  bool hasLargeSums =
      llvm::any_of(bytesOfSums, [&](const std::pair<Block *, int64_t> &sums) {
        return sums.second > maxPackedBytes;
      });
  if (hasLargeSums) {
    for (AddPackedOp op : additions) {
      if (!op.getTurn())
        continue;
      op.emitOpError("with a turn must go through workgroup memory, which has "
                     "no room for ")
          << bytesOfSums[op->getBlock()] << " bytes in a step (at most "
          << maxPackedBytes.getValue() << ")";
      return signalPassFailure();
    }
    additions.clear();
  }
  int64_t sharedStages = hasLargeSums ? 1 : 2;
  DenseMap<Value, Value> shared;
  SharedPipes ofOperands(kernel), ofSums(kernel), ofRows(kernel);
  for (auto &[block, contractions] : products)
    for (vector::ContractionOp product : contractions)
      if (failed(shareOperand(product, sharedStages, waitsOfLoads, ofOperands,
                              shared)))
        return signalPassFailure();

  for (AddPackedOp op : additions) {
    auto tile = cast<VectorType>(op.getValue().getType());
    auto type = PipeType::get(&getContext(), tile.getShape(),
                              tile.getElementType(), /*stages=*/1);
    Value pipe = ofSums.getNext(op->getBlock(), op.getLoc(), type);
    OpBuilder beforeOp(op);
    // Who adds in turn is told by the steps which tile there is.
    Value position;
    if (op.getTurn()) {
      position = getPositionIn(op->getBlock(), waitsOfLoads);
      if (!position) {
        op.emitOpError("with a turn needs a stream of tiles beside it, which "
                       "counts its steps");
        return signalPassFailure();
      }
      if (int64_t parts = getQueryParts(kernel); parts != 1)
        position = arith::DivUIOp::create(
            beforeOp, op.getLoc(), position,
            arith::ConstantIndexOp::create(beforeOp, op.getLoc(), parts));
    }
    op.getValueMutable().assign(
        PackOp::create(beforeOp, op.getLoc(), op.getValue(), pipe, position));
  }
  if (!additions.empty() &&
      failed(countAfterAdditions(kernel, additions.front(), waitsOfLoads)))
    return signalPassFailure();

  DenseMap<Value, SmallVector<Operation *>> readers;
  SmallVector<SmallVector<MmaStartOp>> starts;
  for (auto &[block, contractions] : products) {
    SmallVector<MmaStartOp> &started = starts.emplace_back();
    for (vector::ContractionOp product : contractions)
      started.push_back(startProduct(product, buffers, shared));
  }
  for (auto [entry, started] : llvm::zip(products, starts)) {
    SmallVector<MmaWaitOp> waits = waitForProducts(entry.second, started);
    for (auto [product, wait] : llvm::zip(entry.second, waits)) {
      for (Value operand : {product.getLhs(), product.getRhs()})
        readers[getColumns(operand).tile].push_back(wait);
      product->replaceAllUsesWith(ValueRange(wait.getResult()));
      ++numProducts;
    }
    keepRegistersInFlight(waits);
  }
  for (LoadOp load : loads) {
    WaitOp stage = waitsOfLoads[load.getResult()];
    builder.setInsertionPointAfter(
        getLastIn(stage->getBlock(), readers[load.getResult()]));
    ReleaseOp::create(builder, load.getLoc(), stage.getBuffer());
  }
  for (auto &[block, contractions] : products)
    for (vector::ContractionOp product : contractions)
      product.erase();
  kernel.walk([](vector::ExtractStridedSliceOp slice) {
    if (slice->use_empty())
      slice.erase();
  });
  for (LoadOp load : loads)
    load.erase();
  for (LoadOp row : rows)
    stageRow(row, stages, shareRows, ofRows);
  for (const Stream &stream : *mapped)
    stageReads(stream.loads, scoreStages);
  numPipes += ofSums.getNumPipes() + ofRows.getNumPipes() + mapped->size();
}
