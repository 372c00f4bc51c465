//===- SplitRoles.cpp - Split a kernel into producer and consumers --------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Moves the operations that fill pipes to a warpgroup of their own, with the
// control flow and index arithmetic that they need.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/IR/WarpgroupShapes.h"
#include "attn/Dialect/AttnTile/Transforms/KernelPhase.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Iterators.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/BitVector.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILESPLITROLESPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

using namespace mlir;
using namespace mlir::attn_tile;

/// Warps of a warpgroup, the unit in which roles are handed out.
static constexpr int64_t warpsPerWarpgroup = 4;

namespace {
/// The part of a kernel that a role runs: its root operations, the operations
/// that they need, and the loops and conditionals around them.
class RoleSlice {
public:
  RoleSlice(KernelOp kernel, const DenseSet<Operation *> &shared)
      : kernel(kernel), shared(shared) {}
  virtual ~RoleSlice() = default;

  /// Finds the operations of the kernel that the role needs.
  LogicalResult analyze();

  /// Copies the needed operations of `block` to the builder's insertion point.
  void clone(OpBuilder &builder, Block *block, IRMapping &map);

  /// Whether `op` is needed.
  bool needs(Operation *op) const { return needed.contains(op); }
  bool empty() const { return needed.empty(); }

protected:
  /// Whether `op` is a root of the role.
  virtual bool hasRoot(Operation *op) const = 0;
  /// The values that a root needs.
  virtual SmallVector<Value> getNeeded(Operation *root) const {
    return root->getOperands();
  }
  virtual void cloneRoot(OpBuilder &builder, Operation *root, IRMapping &map) {
    builder.clone(*root, map);
  }
  /// The purpose of the role, for diagnostics.
  virtual StringRef getPurpose() const = 0;

private:
  LogicalResult need(Operation *op);
  LogicalResult needControl(Operation *op);
  LogicalResult needResult(Operation *control, unsigned number);
  LogicalResult need(Value value);
  Operation *cloneControl(OpBuilder &builder, Operation *op, IRMapping &map);
  void cloneYield(OpBuilder &builder, Operation *control, Block *block,
                  IRMapping &map);

  KernelOp kernel;
  const DenseSet<Operation *> &shared;
  DenseSet<Operation *> needed;
  /// The needed results of loops and conditionals.
  DenseMap<Operation *, llvm::BitVector> neededResults;
};

/// Fills pipes.
class Producer : public RoleSlice {
public:
  using RoleSlice::RoleSlice;

  static bool isRoot(Operation *op) {
    return isa<AcquireOp, SemaphoreWaitOp, CopyOp, CommitOp>(op);
  }

private:
  bool hasRoot(Operation *op) const override { return isRoot(op); }
  StringRef getPurpose() const override { return "fill pipes"; }
};

/// Adds tiles in fragment order by ordered accumulation.
class Adder : public RoleSlice {
public:
  using RoleSlice::RoleSlice;

  /// The addition that `op` is, if it is ordered.
  static BulkReduceAddOp getAddition(Operation *op) {
    auto add = dyn_cast<BulkReduceAddOp>(op);
    return add && add.getOrdinal() ? add : BulkReduceAddOp();
  }
  /// The operation that has staged the tile of an addition.
  static StageFragmentsOp getStaged(BulkReduceAddOp add) {
    return add.getValue().getDefiningOp<StageFragmentsOp>();
  }

private:
  bool hasRoot(Operation *op) const override { return bool(getAddition(op)); }
  SmallVector<Value> getNeeded(Operation *root) const override {
    BulkReduceAddOp add = getAddition(root);
    StageFragmentsOp staged = getStaged(add);
    SmallVector<Value> values = {staged.getPipe(), staged.getPosition()};
    llvm::append_range(values, llvm::drop_begin(add->getOperands()));
    return values;
  }
  void cloneRoot(OpBuilder &builder, Operation *root, IRMapping &map) override {
    BulkReduceAddOp add = getAddition(root);
    StageFragmentsOp staged = getStaged(add);
    auto lookup = [&](ValueRange values) {
      return llvm::map_to_vector(
          values, [&](Value value) { return map.lookupOrDefault(value); });
    };
    auto one = [&](Value value) { return map.lookupOrDefault(value); };
    OrderedReduceAddOp::create(
        builder, add.getLoc(), one(staged.getPipe()), one(staged.getPosition()),
        one(add.getDest()), lookup(add.getIndices()), one(add.getOrdinal()),
        one(add.getSemaphores()), lookup(add.getSemaphoreIndices()));
  }
  StringRef getPurpose() const override { return "accumulate in order"; }
};

/// Counts work items whose additions are complete.
class Counter : public RoleSlice {
public:
  using RoleSlice::RoleSlice;

  /// The semaphore add that `op` is, if it comes after additions.
  static SemaphoreAddOp getCount(Operation *op) {
    auto count = dyn_cast<SemaphoreAddOp>(op);
    return count && count.getPipe() ? count : SemaphoreAddOp();
  }

private:
  bool hasRoot(Operation *op) const override { return bool(getCount(op)); }
  StringRef getPurpose() const override { return "count additions"; }
};
} // namespace

LogicalResult RoleSlice::analyze() {
  WalkResult walk =
      kernel.walk<WalkOrder::PreOrder>([&](Operation *op) -> WalkResult {
        if (isa<AuxiliaryWarpsOp>(op))
          return WalkResult::skip();
        return hasRoot(op) ? need(op) : success();
      });
  return failure(walk.wasInterrupted());
}

LogicalResult RoleSlice::need(Operation *op) {
  if (shared.contains(op) || !needed.insert(op).second)
    return success();
  if (hasRoot(op)) {
    for (Value value : getNeeded(op))
      if (failed(need(value)))
        return failure();
    return needControl(op->getParentOp());
  }
  auto isTile = [](Type type) {
    return isa<VectorType, PendingType, BufferType>(type);
  };
  if (llvm::any_of(op->getResultTypes(), isTile) ||
      (!isMemoryEffectFree(op) && !hasSingleEffect<MemoryEffects::Read>(op)))
    return op->emitOpError("is needed to ")
           << getPurpose()
           << ", but a role that does can neither compute on tiles nor write";
  WalkResult walk = op->walk([&](Operation *nested) -> WalkResult {
    for (Value operand : nested->getOperands())
      if (!op->isAncestor(operand.getParentBlock()->getParentOp()) &&
          failed(need(operand)))
        return failure();
    return success();
  });
  return failure(walk.wasInterrupted() ||
                 failed(needControl(op->getParentOp())));
}

/// Keeps the control flow `op` around a needed operation.
LogicalResult RoleSlice::needControl(Operation *op) {
  if (op == kernel || !needed.insert(op).second)
    return success();
  neededResults[op].resize(op->getNumResults());
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    for (Value bound :
         {loop.getLowerBound(), loop.getUpperBound(), loop.getStep()})
      if (failed(need(bound)))
        return failure();
  } else if (auto conditional = dyn_cast<scf::IfOp>(op)) {
    if (failed(need(conditional.getCondition())))
      return failure();
  } else {
    return op->emitOpError("holds what is needed to ")
           << getPurpose() << ", but is neither a loop nor a conditional";
  }
  return needControl(op->getParentOp());
}

/// Keeps a result of a loop or conditional.
LogicalResult RoleSlice::needResult(Operation *control, unsigned number) {
  if (failed(needControl(control)))
    return failure();
  llvm::BitVector &results = neededResults[control];
  if (results.test(number))
    return success();
  results.set(number);
  if (auto loop = dyn_cast<scf::ForOp>(control))
    if (failed(need(loop.getInitArgs()[number])))
      return failure();
  for (Region &region : control->getRegions())
    if (failed(need(region.front().getTerminator()->getOperand(number))))
      return failure();
  return success();
}

LogicalResult RoleSlice::need(Value value) {
  if (auto result = dyn_cast<OpResult>(value)) {
    if (isa<scf::ForOp, scf::IfOp>(result.getOwner()))
      return needResult(result.getOwner(), result.getResultNumber());
    return need(result.getOwner());
  }
  auto argument = cast<BlockArgument>(value);
  auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
  if (!loop)
    return success();
  if (argument == loop.getInductionVar())
    return needControl(loop);
  return needResult(loop, argument.getArgNumber() - 1);
}

/// The needed ones of `values`, which match the results of a loop or
/// conditional.
static SmallVector<Value> lookupNeeded(const llvm::BitVector &results,
                                       ValueRange values, IRMapping &map) {
  SmallVector<Value> kept;
  for (unsigned number : results.set_bits())
    kept.push_back(map.lookupOrDefault(values[number]));
  return kept;
}

void RoleSlice::cloneYield(OpBuilder &builder, Operation *control, Block *block,
                           IRMapping &map) {
  Operation *yield = block->getTerminator();
  scf::YieldOp::create(
      builder, yield->getLoc(),
      lookupNeeded(neededResults[control], yield->getOperands(), map));
}

Operation *RoleSlice::cloneControl(OpBuilder &builder, Operation *op,
                                   IRMapping &map) {
  const llvm::BitVector &results = neededResults[op];
  OpBuilder::InsertionGuard guard(builder);
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    auto copy = scf::ForOp::create(
        builder, loop.getLoc(), map.lookupOrDefault(loop.getLowerBound()),
        map.lookupOrDefault(loop.getUpperBound()),
        map.lookupOrDefault(loop.getStep()),
        lookupNeeded(results, loop.getInitArgs(), map),
        [&](OpBuilder &body, Location, Value iv, ValueRange carried) {
          map.map(loop.getInductionVar(), iv);
          for (auto [number, value] : llvm::zip(results.set_bits(), carried))
            map.map(loop.getRegionIterArg(number), value);
          clone(body, loop.getBody(), map);
          cloneYield(body, op, loop.getBody(), map);
        });
    copy->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    return copy;
  }
  auto conditional = cast<scf::IfOp>(op);
  auto cloneBranch = [&](Block *branch) {
    return [&, branch](OpBuilder &body, Location) {
      clone(body, branch, map);
      cloneYield(body, op, branch, map);
    };
  };
  Value condition = map.lookupOrDefault(conditional.getCondition());
  if (!conditional.elseBlock())
    return scf::IfOp::create(builder, op->getLoc(), condition,
                             cloneBranch(conditional.thenBlock()));
  return scf::IfOp::create(builder, op->getLoc(), condition,
                           cloneBranch(conditional.thenBlock()),
                           cloneBranch(conditional.elseBlock()));
}

void RoleSlice::clone(OpBuilder &builder, Block *block, IRMapping &map) {
  for (Operation &op : *block) {
    if (!needed.contains(&op))
      continue;
    if (hasRoot(&op)) {
      cloneRoot(builder, &op, map);
      continue;
    }
    if (!neededResults.contains(&op)) {
      builder.clone(op, map);
      continue;
    }
    Operation *copy = cloneControl(builder, &op, map);
    for (auto [number, result] :
         llvm::zip(neededResults[&op].set_bits(), copy->getResults()))
      map.map(op.getResult(number), result);
  }
}

namespace {
/// Converts staged tiles of 8 bits, and fills pipes with the results.
class Converter : public RoleSlice {
public:
  using RoleSlice::RoleSlice;

  /// Whether `op` converts a stage, or waits for or releases one that is
  /// converted, and is not left to the consumer.
  static bool isRoot(Operation *op) {
    if (auto wait = dyn_cast<WaitOp>(op))
      return isConverted(wait.getBuffer());
    if (auto release = dyn_cast<ReleaseOp>(op))
      return isConverted(release.getBuffer());
    auto convert = dyn_cast<ConvertOp>(op);
    return convert && !convert.getFirstWarp();
  }
  /// Whether a stage is one that idle warps convert.
  static bool isConverted(Value buffer) {
    return llvm::any_of(buffer.getUsers(), [](Operation *user) {
      return isa<ConvertOp>(user) && isRoot(user);
    });
  }

private:
  bool hasRoot(Operation *op) const override { return isRoot(op); }
  StringRef getPurpose() const override { return "convert tiles"; }
};
} // namespace

/// The operations whose results both roles may use: pipes, and scalars that are
/// computed from the arguments of the kernel before anything else happens.
static DenseSet<Operation *> collectShared(Block *body) {
  DenseSet<Operation *> shared;
  for (Operation &op : body->without_terminator()) {
    // Rows belong to warps of the consumer.
    bool isScalar =
        !isa<HasRowsOp, ConsumerIdOp>(op) && isMemoryEffectFree(&op) &&
        op.getNumRegions() == 0 &&
        llvm::all_of(op.getResultTypes(), [](Type type) {
          return type.isIntOrIndexOrFloat() || isa<MemRefType>(type);
        });
    if (isa<CreatePipeOp>(op) ||
        (isScalar && llvm::all_of(op.getOperands(), [&](Value operand) {
           Operation *def = operand.getDefiningOp();
           return !def || shared.contains(def);
         })))
      shared.insert(&op);
  }
  return shared;
}

namespace {
struct AttnTileSplitRolesPass
    : KernelPass<AttnTileSplitRolesPass,
                 attn_tile::impl::AttnTileSplitRolesPassBase> {
  using Base::Base;

  static constexpr PhaseContract phases{KernelPhase::Plain, KernelPhase::Staged,
                                        KernelPhase::Specialized};

  void runOnKernel();

private:
  LogicalResult checkOptions();
  LogicalResult checkTiles(RowBlockLayoutAttr layout);
  LogicalResult checkAdditions();
  LogicalResult checkConversions(const Converter &converter);
  /// Registers of each producer thread, which auxiliary warps share.
  int64_t getProducerRegisters(const Producer &producer,
                               const Converter &converter);
};
} // namespace

/// Checks that all tiles in registers can be spread over the consumers.
LogicalResult AttnTileSplitRolesPass::checkTiles(RowBlockLayoutAttr layout) {
  WalkResult walk = getOperation().walk([&](MmaStartOp start) -> WalkResult {
    VectorType tile = start.getResult().getType().getValueType();
    if (layout.supports(tile.getShape()))
      return success();
    return start.emitOpError("result ")
           << tile << " cannot be spread over " << consumers.getValue()
           << " consumer warpgroups";
  });
  return failure(walk.wasInterrupted());
}

/// Checks that ordered additions can be left to auxiliary warps.
LogicalResult AttnTileSplitRolesPass::checkAdditions() {
  WalkResult walk = getOperation().walk([&](BulkReduceAddOp op) -> WalkResult {
    BulkReduceAddOp add = Adder::getAddition(op);
    if (!add)
      return WalkResult::advance();
    StageFragmentsOp staged = Adder::getStaged(add);
    if (!staged || !staged.getPosition())
      return add.emitOpError(
          "with an order must be of a tile that "
          "'attn_tile.stage_fragments' has put at a position");
    for (auto auxiliary : getOperation().getBody().getOps<AuxiliaryWarpsOp>()) {
      auto diagnostic = add.emitOpError(
          "with an order needs the idle warps, which run something else");
      diagnostic.attachNote(auxiliary.getLoc()) << "this";
      return diagnostic;
    }
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

/// Checks that conversions can be left to auxiliary warps.
LogicalResult
AttnTileSplitRolesPass::checkConversions(const Converter &converter) {
  WalkResult walk = getOperation().walk([&](Operation *op) -> WalkResult {
    if (converter.empty() ||
        !(isa<AuxiliaryWarpsOp>(op) || Adder::getAddition(op)))
      return WalkResult::advance();
    return op->emitOpError("needs the idle warps, which convert tiles");
  });
  return failure(walk.wasInterrupted());
}

/// Whether filling pipes takes many registers: a loop fills more stages in a
/// step, a nested loop looks tiles up in memory instead of computing them, or a
/// tile comes from many pages or is copied in many boxes.
static bool needsManyRegisters(KernelOp kernel, const Producer &producer) {
  constexpr int64_t maxTiles = 4, maxPages = 2, maxColumns = 256;
  auto isNested = [](scf::ForOp loop) {
    return loop && loop->getParentOfType<scf::ForOp>();
  };
  WalkResult walk = kernel.walk([&](Operation *op) {
    auto loop = op->getParentOfType<scf::ForOp>();
    if (auto inner = dyn_cast<scf::ForOp>(op)) {
      auto tiles = inner.getBody()->getOps<AcquireOp>();
      if (llvm::range_size(tiles) > maxTiles)
        return WalkResult::interrupt();
    } else if (auto copy = dyn_cast<CopyOp>(op)) {
      ArrayRef<int64_t> tile = copy.getBuffer().getType().getShape();
      bool hasManyPages = (copy.getPageTable() || copy.getAddressing()) &&
                          tile[0] > maxPages * copy.getContiguousRows();
      if (hasManyPages || tile[1] > maxColumns)
        return WalkResult::interrupt();
    } else if (isa<memref::LoadOp>(op) && producer.needs(op) &&
               isNested(loop) && !loop.getBody()->getOps<AcquireOp>().empty()) {
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return walk.wasInterrupted();
}

/// Registers of each consumer thread: the registers of the CTA that the
/// producer leaves. At launch, all threads of the `ctasPerSm` CTAs on an SM get
/// the same number of its 64k registers, a multiple of 8. A consumer that asks
/// for more than that would wait for ever.
static int64_t getConsumerRegisters(int64_t producer, int64_t consumers,
                                    int64_t ctasPerSm) {
  constexpr int64_t perWarpgroup = smRegisters / warpgroupThreads;
  constexpr int64_t most = 240, unit = 8;
  int64_t warpgroups = consumers + 1;
  int64_t launched = perWarpgroup / ctasPerSm / warpgroups / unit * unit;
  int64_t left = (launched * warpgroups - producer) / consumers;
  return std::min(most, left / unit * unit);
}

LogicalResult AttnTileSplitRolesPass::checkOptions() {
  KernelOp kernel = getOperation();
  if (consumers < 1 || consumers > 3)
    return kernel.emitError("there can be 1 to 3 consumers (asked for ")
           << consumers.getValue() << ")";
  if (ctasPerSm < 1 || ctasPerSm > 2)
    return kernel.emitError("1 or 2 CTAs can share an SM (asked for ")
           << ctasPerSm.getValue() << ")";
  return success();
}

int64_t
AttnTileSplitRolesPass::getProducerRegisters(const Producer &producer,
                                             const Converter &converter) {
  // Indexed by the number of consumers. With too few registers the producer
  // spills, which the tests assembly-*.test of test/Integration/gpu show. One
  // consumer leaves more registers than it can use, which the producer gets.
  constexpr int64_t producerBudgets[] = {56, 24, 24};
  constexpr int64_t largeProducerBudgets[] = {56, 40, 32};
  constexpr int64_t converterBudget = 72;
  // A CTA of a cluster needs registers for the place of the part that it
  // copies.
  KernelOp kernel = getOperation();
  bool isLarge =
      kernel.getClusterSize() > 1 || needsManyRegisters(kernel, producer);
  int64_t registers =
      (isLarge ? largeProducerBudgets : producerBudgets)[consumers - 1];
  if (!converter.empty())
    registers = std::max(registers, converterBudget);
  for (auto auxiliary : kernel.getBody().getOps<AuxiliaryWarpsOp>())
    registers =
        std::max(registers, static_cast<int64_t>(auxiliary.getRegisters()));
  return registers;
}

/// Clones the operations of `slice` into an operation of their own, if there
/// are any.
static void createAuxiliaryWarps(OpBuilder &builder, Block *body,
                                 RoleSlice &slice, int64_t registers,
                                 IntegerAttr warps) {
  if (slice.empty())
    return;
  auto auxiliary =
      AuxiliaryWarpsOp::create(builder, body->getParentOp()->getLoc(),
                               registers, /*joined=*/false, warps);
  IRMapping map;
  auto auxiliaryBuilder =
      OpBuilder::atBlockBegin(&auxiliary.getBody().emplaceBlock());
  slice.clone(auxiliaryBuilder, body, map);
}

static RoleOp createRole(OpBuilder &builder, Location loc, RoleKind kind,
                         int64_t warpgroups, int64_t registers) {
  auto role = RoleOp::create(builder, loc, kind, warpgroups, registers);
  role.getBody().emplaceBlock();
  return role;
}

/// Leaves conversions to the auxiliary warps.
static void dropConversions(RoleOp consumer) {
  SmallVector<WaitOp> converted;
  consumer.walk([&](WaitOp wait) {
    if (Converter::isConverted(wait.getBuffer()))
      converted.push_back(wait);
  });
  for (WaitOp wait : converted) {
    for (Operation *user : llvm::make_early_inc_range(wait->getUsers()))
      user->erase();
    wait.erase();
  }
}

/// Leaves to the consumer what it does itself: it hands additions and counts to
/// the auxiliary warps, and fills no pipes.
static void dropOtherRoles(RoleOp consumer) {
  consumer.walk([](BulkReduceAddOp op) {
    if (!Adder::getAddition(op))
      return;
    OpBuilder atAddition(op);
    StageFragmentsOp staged = Adder::getStaged(op);
    CommitFragmentsOp::create(atAddition, op.getLoc(), staged.getBuffer(),
                              staged.getPipe(), staged.getPosition());
    op.erase();
  });
  consumer.walk([](SemaphoreAddOp op) {
    if (!Counter::getCount(op))
      return;
    OpBuilder atCount(op);
    SemaphoreReleaseOp::create(atCount, op.getLoc(), op.getPipe());
    op.erase();
  });
  dropConversions(consumer);
  consumer.walk<WalkOrder::PostOrder, ReverseIterator>([](Operation *op) {
    if (Producer::isRoot(op) || isOpTriviallyDead(op))
      op->erase();
  });
}

void AttnTileSplitRolesPass::runOnKernel() {
  KernelOp kernel = getOperation();
  Block *body = &kernel.getBody().front();
  if (failed(checkOptions()))
    return signalPassFailure();
  auto layout = RowBlockLayoutAttr::get(
      &getContext(), warpsPerWarpgroup * (consumerColumns ? 1 : consumers));
  if (!llvm::hasSingleElement(kernel.getBody()) ||
      body->getOps<CreatePipeOp>().empty()) {
    remark::missed(kernel.getLoc(), remark::RemarkOpts::name("SplitRoles")
                                        .category(getArgument())
                                        .function(kernel.getName()))
        << "there is no pipe to fill";
    kernel.setLayoutAttr(layout);
    return;
  }
  DenseSet<Operation *> shared = collectShared(body);
  Producer producer(kernel, shared);
  Adder adder(kernel, shared);
  Counter counter(kernel, shared);
  Converter converter(kernel, shared);
  if (failed(checkTiles(layout)) || failed(checkAdditions()) ||
      failed(producer.analyze()) || failed(adder.analyze()) ||
      failed(counter.analyze()) || failed(converter.analyze()) ||
      failed(checkConversions(converter)))
    return signalPassFailure();

  int64_t producerRegisters = getProducerRegisters(producer, converter);
  OpBuilder builder(body->getTerminator());
  createAuxiliaryWarps(builder, body, adder, producerRegisters,
                       /*warps=*/IntegerAttr());
  createAuxiliaryWarps(builder, body, counter, producerRegisters,
                       builder.getI64IntegerAttr(1));
  createAuxiliaryWarps(builder, body, converter, producerRegisters,
                       /*warps=*/IntegerAttr());
  RoleOp producerRole = createRole(builder, kernel.getLoc(), RoleKind::Producer,
                                   1, producerRegisters);
  RoleOp consumerRole =
      createRole(builder, kernel.getLoc(), RoleKind::Consumer, consumers,
                 getConsumerRegisters(producerRegisters, consumers, ctasPerSm));

  IRMapping map;
  auto producerBuilder =
      OpBuilder::atBlockBegin(&producerRole.getBody().front());
  producer.clone(producerBuilder, body, map);
  Block *consumerBody = &consumerRole.getBody().front();
  for (Operation &op : llvm::make_early_inc_range(*body)) {
    if (&op == producerRole)
      break;
    if (!shared.contains(&op) && !isa<AuxiliaryWarpsOp>(op))
      op.moveBefore(consumerBody, consumerBody->end());
  }
  dropOtherRoles(consumerRole);
  kernel.setLayoutAttr(layout);
}
