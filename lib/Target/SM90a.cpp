//===- SM90a.cpp - Hopper: TMA, mbarrier, wgmma ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes kernels in the instructions of sm_90a.
//
// A staged tile is cut into blocks of 128 bytes of columns, 64 of 16-bit
// values or 128 of 8-bit ones. A block is rows x 128 bytes with the 128-byte
// swizzle that TMA writes and wgmma reads; blocks follow one another. Columns
// beyond the tile's are zero. Matrix descriptors: PTX ISA, section on
// asynchronous warpgroup-level matrix instructions.
//
//===----------------------------------------------------------------------===//

#include "PTX.h"
#include "StagingTarget.h"
#include "Targets.h"
#include "attn/Dialect/AttnTile/IR/WarpgroupShapes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::attn;
using attn_tile::BufferType;
using attn_tile::warpgroupRows;
using attn_tile::warpgroupThreads;

/// Columns of 16-bit values of a row of one swizzled block.
static constexpr int64_t blockColumns = blockRowBytes / 2;

/// Named barrier on which warpgroup 0 of the consumers waits for its own
/// threads. Lower ones serve the whole CTA, ping-pong, and local stores.
static constexpr int64_t firstClearBarrier = 12;

namespace {
class SM90aTarget : public StagingTarget,
                    public ClusterTarget,
                    public BulkReductionTarget,
                    public SemaphoreTarget,
                    public OrderedAccumulationTarget,
                    public TileConversionTarget {
public:
  StringRef getName() const override { return "sm_90a"; }
  StringRef getDefaultDevice() const override { return "h200"; }
  StringRef describeElementTypes() const override {
    return "bf16, f16, f32, f8E4M3FN or f8E5M2";
  }
  KernelScheduleKind getKernelScheduleKind() const override {
    return KernelScheduleKind::WarpSpecialized;
  }
  KernelScheduleKind getKernelScheduleKindFor(Type type) const override {
    return type.isF32() ? KernelScheduleKind::Multistage
                        : getKernelScheduleKind();
  }
  Attribute getMma(Type type, bool isHighest) const override;
  const TargetInfo &getKernelInfo(attn_tile::KernelOp kernel) const override;
  int64_t getMinPTXVersion() const override { return 80; }
  bool hasEarlyLaunches() const override { return true; }
  const ClusterTarget *getClusters() const override { return this; }
  const BulkReductionTarget *getBulkReductions() const override { return this; }
  const SemaphoreTarget *getSemaphores() const override { return this; }
  const OrderedAccumulationTarget *getOrderedAccumulation() const override {
    return this;
  }
  const TileConversionTarget *getConversions() const override { return this; }
  int64_t getSharedMemoryBytes() const override { return 227 * 1024; }

  LogicalResult
  verifyStagedTile(BufferType type,
                   function_ref<InFlightDiagnostic()> emitError) const override;
  int64_t getStageBytes(BufferType type) const override;
  bool isProducerSingleThread() const override { return true; }

  void emitInitBarriers(OpBuilder &builder, Location loc,
                        const StagedTile &stage, const StageThreads &threads,
                        bool byThreads, int64_t cluster) const override;
  void emitInitDone(OpBuilder &builder, Location loc,
                    int64_t cluster) const override;
  void emitClusterDone(OpBuilder &builder, Location loc) const override;
  void emitAcquire(OpBuilder &builder, Location loc, const StagedTile &stage,
                   Value parity, BufferType type) const override;
  LogicalResult emitCopy(OpBuilder &builder, attn_tile::CopyOp op,
                         ValueRange source, ValueRange indices,
                         const CopiedRows &stored, const StagedTile &stage,
                         const ThreadPosition &position) const override;
  void emitCommit(OpBuilder &, Location, const StagedTile &) const override {
    // The bulk copies signal the barrier themselves.
  }
  void emitClear(OpBuilder &builder, Location loc, const StagedTile &stage,
                 BufferType type, Value firstRow,
                 const ThreadPosition &position) const override;
  FailureOr<SmallVector<Value>>
  emitRead(OpBuilder &builder, attn_tile::ReadOp op, const StagedTile &stage,
           const ThreadPosition &position) const override;
  void emitRelease(OpBuilder &builder, Location loc, const StagedTile &stage,
                   bool byThreads, ValueRange after, int64_t cluster,
                   const ThreadPosition &position) const override;
  LogicalResult emitLocalStore(OpBuilder &builder, attn_tile::LocalStoreOp op,
                               ValueRange tile, const StagedTile &stage,
                               const ThreadPosition &position) const override;
  LogicalResult emitStoreThrough(OpBuilder &builder,
                                 attn_tile::StoreThroughOp op,
                                 ValueRange values, ValueRange dest,
                                 ValueRange indices, Value stages,
                                 const ThreadPosition &position) const override;
  void emitAtomicAdd(OpBuilder &builder, Location loc, Value address,
                     ValueRange values) const override;
  void emitStageFragments(OpBuilder &builder, Location loc, Value stage,
                          Value lane, ValueRange values,
                          const OrderedStage *ordered) const override;
  void emitInitOrderedStages(OpBuilder &builder, Location loc, Value barriers,
                             int64_t warps) const override;
  void emitCommitFragments(OpBuilder &builder, Location loc,
                           const OrderedStage &stage,
                           Value lane) const override;
  void emitOrderedReduceAdd(OpBuilder &builder, Location loc,
                            const OrderedStage &stage, Value address,
                            Value semaphore, Value number, int64_t firstWarp,
                            int64_t bytes) const override;
  void emitBulkAdd(OpBuilder &builder, Location loc, Value address, Value stage,
                   Value lane, int64_t registers) const override;
  void emitBulkDone(OpBuilder &builder, Location loc) const override;
  void emitSemaphoreAdd(OpBuilder &builder, Location loc, Value address,
                        Value lane, int64_t amount,
                        bool hasAdded) const override;
  void emitInitCompleted(OpBuilder &builder, Location loc, Value numbers,
                         int64_t warps) const override;
  void emitSemaphoreRelease(OpBuilder &builder, Location loc, Value numbers,
                            Value warp, Value lane) const override;
  void emitSemaphoreAddReleased(OpBuilder &builder, Location loc, Value address,
                                Value lane, int64_t amount, Value numbers,
                                Value position, int64_t warps) const override;
  void emitSemaphoreWait(OpBuilder &builder, Location loc, Value address,
                         Value number, Value lane) const override;
  void emitStartDqCopy(OpBuilder &builder, Location loc, Value stage,
                       Value address, int64_t count,
                       int64_t distance) const override;
  void emitAwaitDqCopies(OpBuilder &builder, Location loc) const override;
  SmallVector<Value> emitReadAndClearDq(OpBuilder &builder, Location loc,
                                        Value stage,
                                        Value address) const override;
  void emitInitConverted(OpBuilder &builder, Location loc,
                         const StagedTile &stage, int64_t warps,
                         int64_t consumers) const override;
  LogicalResult emitConvert(OpBuilder &builder, attn_tile::ConvertOp op,
                            const StagedTile &source, const StagedTile &result,
                            Value parity, Value numRows,
                            const ThreadPosition &position) const override;
  int64_t getMmaRegisters(attn_tile::MmaStartOp op) const override;
  FailureOr<SmallVector<Value>>
  emitMmaStart(OpBuilder &builder, attn_tile::MmaStartOp op, ValueRange lhs,
               const StagedTile &rhs, ValueRange acc,
               const ThreadPosition &position) const override;
  SmallVector<Value> emitMmaWait(OpBuilder &builder, Location loc,
                                 ValueRange pending,
                                 int64_t newer) const override;
  void emitSetRegisters(OpBuilder &builder, Location loc, int64_t registers,
                        int64_t before) const override;

private:
  void emitRoleBarrier(OpBuilder &builder, Location loc,
                       const ThreadPosition &position) const override;
  void emitFenceBeforeMmas(OpBuilder &builder, Location loc) const override;
  std::array<Value, 2> emitExtendFloat8(OpBuilder &builder, Location loc,
                                        Value word, Type from,
                                        Type to) const override;
  StringRef getWaitInstruction() const override {
    return "mbarrier.try_wait.parity.shared::cta.b64";
  }

  std::unique_ptr<const TargetInfo> multistage = createMultistageTarget(*this);
};
} // namespace

Attribute SM90aTarget::getMma(Type type, bool isHighest) const {
  if (isa<BFloat16Type, Float16Type>(type) || isFloat8(type))
    return attn_tile::WgmmaAttr::get(type.getContext(), type);
  // wgmma reads tf32 operands only if their contracted dimension is contiguous,
  // which the keys of values are not.
  return multistage->getMma(type, isHighest);
}

const TargetInfo &SM90aTarget::getKernelInfo(attn_tile::KernelOp kernel) const {
  if (auto schedule = kernel.getScheduleAttr();
      schedule && schedule.multipliesByWarps())
    return *multistage;
  WalkResult walk = kernel.walk([](attn_tile::MmaStartOp op) {
    return op.getRhs().getType().getElementType().isF32()
               ? WalkResult::interrupt()
               : WalkResult::advance();
  });
  return walk.wasInterrupted() ? *multistage : *this;
}

/// Threads of which one releases a stage. All threads of a warpgroup wait for
/// its MMAs; reads by threads are ordered only within the warp.
static int64_t getReleasingThreads(bool byThreads) {
  return byThreads ? 32 : warpgroupThreads;
}

/// A matrix descriptor without its address: 128-byte swizzle, 1024 bytes
/// between groups of eight rows, and the given leading byte offset.
static uint64_t getDescriptorBits(int64_t leadingBytes) {
  return (uint64_t(1) << 62) | (uint64_t(1024 >> 4) << 32) |
         (uint64_t(leadingBytes >> 4) << 16);
}

/// The address part of a matrix descriptor, an `i64`.
static Value emitDescriptorAddress(OpBuilder &builder, Location loc,
                                   Value address) {
  Value shifted = arith::ShRUIOp::create(builder, loc, address,
                                         ptx::constant(builder, loc, 4));
  Value masked = arith::AndIOp::create(builder, loc, shifted,
                                       ptx::constant(builder, loc, 0x3fff));
  return arith::ExtUIOp::create(builder, loc, builder.getI64Type(), masked);
}

LogicalResult SM90aTarget::verifyStagedTile(
    BufferType type, function_ref<InFlightDiagnostic()> emitError) const {
  if (isRow(type) && type.getShape()[1] % 8 == 0 && type.getShape()[1] <= 256)
    return success();
  if (!supportsElementType(type.getElementType()))
    return emitError() << "sm_90a stages tiles of " << describeElementTypes()
                       << " values (was " << type.getElementType() << ")";
  // A box of a bulk copy has at most 256 rows. Columns are copied in blocks.
  constexpr int64_t maxRows = 256;
  if (type.getShape()[0] % 8 != 0 || type.getShape()[0] > maxRows ||
      type.getShape()[1] % 8 != 0 || type.getShape()[1] > getMaxHeadDim())
    return emitError() << "sm_90a stages tiles whose rows and columns are "
                          "multiples of 8, with at most "
                       << maxRows << " rows and " << getMaxHeadDim()
                       << " columns (was " << type << ")";
  if (type.getShape()[0] % (8 * type.getCluster()) != 0)
    return emitError() << "sm_90a stages tiles of which each CTA of a cluster "
                          "copies a multiple of 8 rows (was "
                       << type << ")";
  return success();
}

/// Bytes that copies bring to a stage.
static int64_t getCopiedBytes(BufferType type) {
  return isRow(type) ? type.getShape()[1] * 4
                     : getNumBlocks(type) * getBlockBytes(type);
}

int64_t SM90aTarget::getStageBytes(BufferType type) const {
  // The swizzle of tiles repeats every 1024 bytes; rows have none.
  constexpr int64_t rowAlignment = 128;
  return llvm::alignTo(getCopiedBytes(type),
                       isRow(type) ? rowAlignment : getStageAlignment());
}

void SM90aTarget::emitInitBarriers(OpBuilder &builder, Location loc,
                                   const StagedTile &stage,
                                   const StageThreads &threads, bool byThreads,
                                   int64_t cluster) const {
  StringRef code = "mbarrier.init.shared::cta.b64 [$0], $1;";
  ptx::emit(builder, loc, code, "r,r",
            {stage.full, ptx::constant(builder, loc, 1)});
  // In each CTA, one thread of each warpgroup, or of each warp, releases.
  int64_t releases =
      cluster * threads.consumers / getReleasingThreads(byThreads);
  ptx::emit(builder, loc, code, "r,r",
            {stage.empty, ptx::constant(builder, loc, releases)});
}

void SM90aTarget::emitInitDone(OpBuilder &builder, Location loc,
                               int64_t cluster) const {
  NVVM::FenceMbarrierInitOp::create(builder, loc);
  if (cluster == 1) {
    NVVM::Barrier0Op::create(builder, loc);
    return;
  }
  UnitAttr aligned = builder.getUnitAttr();
  NVVM::ClusterArriveOp::create(builder, loc, aligned);
  NVVM::ClusterWaitOp::create(builder, loc, aligned);
}

void SM90aTarget::emitClusterDone(OpBuilder &builder, Location loc) const {
  // Warps come from warp roles, where their threads need not be converged.
  NVVM::ClusterArriveOp::create(builder, loc, /*aligned=*/UnitAttr());
  NVVM::ClusterWaitOp::create(builder, loc, /*aligned=*/UnitAttr());
}

void SM90aTarget::emitAcquire(OpBuilder &builder, Location loc,
                              const StagedTile &stage, Value parity,
                              BufferType type) const {
  StagingTarget::emitAcquire(builder, loc, stage, parity, type);
  // Boxes count in full, even where they reach beyond the array's edge.
  int64_t bytes = getCopiedBytes(type);
  ptx::emit(builder, loc,
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;",
            "r,r,~{memory}", {stage.full, ptx::constant(builder, loc, bytes)});
}

/// Page table entries that are read before the first one is waited for. The
/// producer has registers for no more.
static constexpr int64_t maxPageLookups = 4;

/// The corners of the boxes that a copy at `indices` of rows that are not at
/// their index takes, from row `first` of the tile on, at most
/// `maxPageLookups`.
static SmallVector<SmallVector<Value>>
emitBoxCorners(OpBuilder &builder, attn_tile::CopyOp op, ValueRange indices,
               const CopiedRows &stored, int64_t first) {
  Location loc = op.getLoc();
  int64_t boxRows = op.getContiguousRows();
  int64_t end = std::min(op.getBuffer().getType().getShape()[0],
                         first + maxPageLookups * boxRows);
  unsigned rowDim = indices.size() - 2;
  SmallVector<Value> positions;
  for (int64_t row = first; row < end; row += boxRows)
    positions.push_back(arith::AddIOp::create(
        builder, loc, indices[rowDim], ptx::constant(builder, loc, row)));
  // A box of page -1, or of another one that does not exist, is zero.
  SmallVector<SmallVector<Value>> corners;
  for (const ptx::RowPlace &place : ptx::emitRowPlaces(
           builder, op, stored, /*entry=*/indices.front(), positions)) {
    SmallVector<Value> &corner = corners.emplace_back(indices);
    corner.front() = place.entry;
    corner[rowDim] = place.row;
  }
  return corners;
}

LogicalResult SM90aTarget::emitCopy(OpBuilder &builder, attn_tile::CopyOp op,
                                    ValueRange source, ValueRange indices,
                                    const CopiedRows &stored,
                                    const StagedTile &stage,
                                    const ThreadPosition &) const {
  Location loc = op.getLoc();
  BufferType type = op.getBuffer().getType();
  auto map = dyn_cast<attn_tile::TensorMapType>(op.getSource().getType());
  if (!map)
    return op.emitOpError("must copy through a tensor map on sm_90a");
  int64_t boxColumns = isRow(type) ? type.getShape()[1] : getBlockColumns(type);
  int64_t cluster = type.getCluster();
  int64_t boxRows = op.getContiguousRows();
  if (map.getBox() != ArrayRef<int64_t>{boxRows, boxColumns})
    return op.emitOpError("tensor map must have the box ")
           << boxRows << "x" << boxColumns << " on sm_90a";

  unsigned rank = indices.size();
  std::string coordinates;
  for (unsigned i = 0; i < rank; ++i)
    coordinates += (i ? ", $" : "$") + std::to_string(3 + i);
  std::string code = "cp.async.bulk.tensor." + std::to_string(rank) +
                     "d.shared::cluster.global.mbarrier::complete_tx::bytes";
  if (cluster == 1) {
    code += " [$0], [$1, {" + coordinates + "}], [$2];";
  } else {
    // Each CTA copies some of the rows to the same places in all CTAs of the
    // cluster. The barrier of each CTA counts them all. The first row is
    // computed here, so that it takes no registers in between.
    std::string box = coordinates;
    box.replace(box.find("$4"), 2, "row");
    code = "{\n"
           ".reg .b32 row, stage;\n"
           "mov.u32 row, %cluster_ctarank;\n"
           "mad.lo.u32 stage, row, " +
           std::to_string(boxRows * blockRowBytes) +
           ", $0;\n"
           "mad.lo.u32 row, row, " +
           std::to_string(boxRows) + ", $4;\n" + code +
           ".multicast::cluster [stage], [$1, {" + box + "}], [$2], " +
           std::to_string((1 << cluster) - 1) + ";\n}";
  }
  std::string constraints = "r,l,r," + ptx::repeat("r", rank) + ",~{memory}";
  auto emitBox = [&](ArrayRef<Value> corner, int64_t firstRow) {
    for (int64_t block = 0, e = isRow(type) ? 1 : getNumBlocks(type); block < e;
         ++block) {
      int64_t offset = block * getBlockBytes(type) + firstRow * blockRowBytes;
      Value address = arith::AddIOp::create(
          builder, loc, stage.address, ptx::constant(builder, loc, offset));
      Value column = arith::AddIOp::create(
          builder, loc, corner.back(),
          ptx::constant(builder, loc, block * boxColumns));
      SmallVector<Value> operands = {address, source.front(), stage.full,
                                     column};
      llvm::append_range(operands, llvm::reverse(corner.drop_back()));
      ptx::emit(builder, loc, code, constraints, operands);
    }
  };
  if (!op.getPageTable() && !op.getAddressing()) {
    emitBox(SmallVector<Value>(indices), /*firstRow=*/0);
    return success();
  }
  for (int64_t row = 0; row < type.getShape()[0];)
    for (ArrayRef<Value> corner :
         emitBoxCorners(builder, op, indices, stored, row)) {
      emitBox(corner, row);
      row += boxRows;
    }
  return success();
}

void SM90aTarget::emitClear(OpBuilder &builder, Location loc,
                            const StagedTile &stage, BufferType type,
                            Value firstRow,
                            const ThreadPosition &position) const {
  // Each warpgroup clears the rows itself: they are then zero when it reads
  // them, whether another warpgroup has cleared them or not. Swizzling moves
  // bytes only within rows.
  Value thread =
      arith::AndIOp::create(builder, loc, position.thread,
                            ptx::constant(builder, loc, warpgroupThreads - 1));
  Value offset = arith::MulIOp::create(
      builder, loc, firstRow, ptx::constant(builder, loc, blockRowBytes));
  for (int64_t block = 0, e = getNumBlocks(type); block < e; ++block) {
    auto at = [&](int64_t bytes) -> Value {
      return arith::AddIOp::create(builder, loc, stage.address,
                                   ptx::constant(builder, loc, bytes));
    };
    Value begin = arith::AddIOp::create(
        builder, loc, at(block * getBlockBytes(type)), offset);
    ptx::emitClear(builder, loc, begin, at((block + 1) * getBlockBytes(type)),
                   thread, warpgroupThreads);
  }
  // MMAs read through the asynchronous proxy.
  ptx::emit(builder, loc, "fence.proxy.async.shared::cta;", "~{memory}");
  Value barrier =
      arith::AddIOp::create(builder, loc, position.warpgroup,
                            ptx::constant(builder, loc, firstClearBarrier));
  NVVM::BarrierOp::create(builder, loc, TypeRange{}, barrier,
                          ptx::constant(builder, loc, warpgroupThreads),
                          /*reductionOp=*/nullptr,
                          /*reductionPredicate=*/nullptr);
}

void SM90aTarget::emitRelease(OpBuilder &builder, Location loc,
                              const StagedTile &stage, bool byThreads,
                              ValueRange after, int64_t cluster,
                              const ThreadPosition &position) const {
  int64_t threads = getReleasingThreads(byThreads);
  if (byThreads)
    ptx::emit(builder, loc, "bar.warp.sync 0xffffffff;", "~{memory}");
  Value number = arith::AndIOp::create(
      builder, loc, position.thread, ptx::constant(builder, loc, threads - 1));
  // One thread arrives, or one for each CTA of a cluster, whose producers copy
  // to this CTA, too. The assembler moves arrivals before arithmetic, also
  // before exchanges between threads, but not before comparisons with a NaN
  // that no instruction makes.
  bool isShared = cluster > 1;
  std::string code = "{\n"
                     ".reg .pred first;\n";
  code += isShared ? ".reg .b32 empty;\nsetp.lt.u32 first, $1, " +
                         std::to_string(cluster) + ";\n"
                   : "setp.eq.s32 first, $1, 0;\n";
  std::string constraints = "r,r,";
  for (size_t i = 0; i < after.size(); ++i) {
    code += "setp.ne.and.b32 first, $" + std::to_string(2 + i) +
            ", 0x7fffabcd, first;\n";
    constraints += "f,";
  }
  SmallVector<Value> operands = {stage.empty, number};
  llvm::append_range(operands, after);
  if (isShared) {
    // MMAs have been waited for, so that their reads need no fence. Producers
    // do not read what consumers write.
    code += "@first mapa.shared::cluster.u32 empty, $0, $1;\n"
            "@first mbarrier.arrive";
    code += byThreads ? ".release.cluster" : "";
    code += ".shared::cluster.b64 _, [empty];\n";
  } else {
    code += "@first mbarrier.arrive.shared::cta.b64 _, [$0];\n";
  }
  ptx::emit(builder, loc, code + "}", constraints + "~{memory}", operands);
}

/// Named barrier of the threads of a local store, after the ping-pong barriers.
static constexpr int64_t localStoreBarrier = 8;

/// Named barrier of warpgroup 0 of the warpgroups that store through stages. No
/// kernel also has local stores.
static constexpr int64_t firstStoreBarrier = 8;

namespace {
/// Addresses that the lanes of a warp pass to `stmatrix` and `ldmatrix` for
/// four 8x8 matrices of a stage; eight lanes each address the rows of one
/// matrix. The matrices are both halves of 16 rows, number `warp` of the stage,
/// in two groups of 8 columns.
class MatrixAddresses {
public:
  MatrixAddresses(OpBuilder &builder, Location loc, Value stage,
                  int64_t blockBytes, Value thread, Value warp)
      : builder(builder), loc(loc), blockBytes(blockBytes) {
    Value lane = arith::AndIOp::create(builder, loc, thread, constant(31));
    Value row = arith::AddIOp::create(
        builder, loc,
        arith::ShLIOp::create(builder, loc, warp, constant(4)).getResult(),
        arith::AndIOp::create(builder, loc, lane, constant(15)).getResult());
    group = arith::ShRUIOp::create(builder, loc, lane, constant(4));
    group = arith::XOrIOp::create(
        builder, loc, group,
        arith::AndIOp::create(builder, loc, lane, constant(7)).getResult());
    group = arith::ShLIOp::create(builder, loc, group, constant(4));
    rowAddress = arith::AddIOp::create(
        builder, loc, stage,
        arith::MulIOp::create(builder, loc, row, constant(blockRowBytes))
            .getResult());
  }

  /// For the matrices from `column` of the stage on. A group of columns is 16
  /// bytes, which the swizzle moves by the row.
  Value get(int64_t column) {
    Value inBlock = arith::XOrIOp::create(builder, loc, group,
                                          constant(column % blockColumns * 2));
    return arith::AddIOp::create(
        builder, loc, rowAddress,
        arith::AddIOp::create(builder, loc, inBlock,
                              constant(column / blockColumns * blockBytes))
            .getResult());
  }

private:
  Value constant(int64_t value) { return ptx::constant(builder, loc, value); }

  OpBuilder &builder;
  Location loc;
  int64_t blockBytes;
  Value group, rowAddress;
};
} // namespace

/// Stores `columns` columns of a tile of 16-bit values, from `tileColumn` on,
/// to a stage from `stageColumn` on. The 16 rows of each warp go to the 16 rows
/// number `warp` of the stage.
static void emitStoreMatrices(OpBuilder &builder, Location loc, ValueRange tile,
                              int64_t tileColumn, int64_t columns, Value stage,
                              int64_t stageColumn, int64_t blockBytes,
                              Value thread, Value warp) {
  MatrixAddresses addresses(builder, loc, stage, blockBytes, thread, warp);
  int64_t pairs = tile.size() / 2, first = tileColumn / 8;
  for (int64_t i = 0; i < columns / 8; i += 2) {
    Value address = addresses.get(stageColumn + i * 8);
    ptx::emit(builder, loc,
              "stmatrix.sync.aligned.m8n8.x4.shared.b16 [$0], "
              "{$1, $2, $3, $4};",
              "r,r,r,r,r,~{memory}",
              {address, tile[first + i], tile[pairs + first + i],
               tile[first + i + 1], tile[pairs + first + i + 1]});
  }
}

/// Reads 16-bit values of a stage: the 16 rows of each warp.
static SmallVector<Value> emitLoadMatrices(OpBuilder &builder, Location loc,
                                           BufferType type, Value stage,
                                           Value thread, Value warp) {
  MatrixAddresses addresses(builder, loc, stage, getBlockBytes(type), thread,
                            warp);
  int64_t pairs = type.getShape()[1] / 8;
  SmallVector<Value> registers(2 * pairs);
  SmallVector<Type> types(4, builder.getI32Type());
  for (int64_t i = 0; i < pairs; i += 2) {
    SmallVector<Value> words = ptx::emitWithResults(
        builder, loc, types,
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {$0, $1, $2, $3}, [$4];",
        "=r,=r,=r,=r,r,~{memory}", addresses.get(i * 8));
    registers[i] = words[0];
    registers[pairs + i] = words[1];
    registers[i + 1] = words[2];
    registers[pairs + i + 1] = words[3];
  }
  return registers;
}

/// Reads f32 values of a stage, pairs of neighbours of two rows of a warp. The
/// swizzle permutes chunks of 16 bytes by the row.
static SmallVector<Value> emitLoadPairs(OpBuilder &builder, Location loc,
                                        BufferType type, Value stage,
                                        Value thread, Value warp) {
  constexpr int64_t rows = 2, rowDistance = 8;
  auto constant = [&](int64_t value) {
    return ptx::constant(builder, loc, value);
  };
  auto bitsOf = [&](Value value, int64_t mask) -> Value {
    return arith::AndIOp::create(builder, loc, value, constant(mask));
  };
  Value lane = bitsOf(thread, 31);
  Value rowOfWarp = arith::ShRUIOp::create(builder, loc, lane, constant(2));
  Value row = arith::AddIOp::create(
      builder, loc,
      arith::ShLIOp::create(builder, loc, warp, constant(4)).getResult(),
      rowOfWarp);
  Value rowAddress = arith::AddIOp::create(
      builder, loc, stage,
      arith::MulIOp::create(builder, loc, row, constant(blockRowBytes))
          .getResult());
  Value inRow = arith::XOrIOp::create(
      builder, loc,
      arith::ShLIOp::create(builder, loc, bitsOf(lane, 3), constant(3))
          .getResult(),
      arith::ShLIOp::create(builder, loc, rowOfWarp, constant(4)).getResult());
  int64_t columns = type.getShape()[1], perThread = columns / 4;
  SmallVector<Value> registers(rows * perThread);
  SmallVector<Type> types(2, builder.getF32Type());
  for (int64_t group = 0; group < columns / 8; ++group) {
    int64_t byte = group * 32;
    Value address = arith::AddIOp::create(
        builder, loc, rowAddress,
        arith::XOrIOp::create(builder, loc, inRow,
                              constant(byte % blockRowBytes))
            .getResult());
    for (int64_t r = 0; r < rows; ++r) {
      int64_t offset = byte / blockRowBytes * getBlockBytes(type) +
                       r * rowDistance * blockRowBytes;
      SmallVector<Value> pair = ptx::emitWithResults(
          builder, loc, types,
          "ld.shared.v2.f32 {$0, $1}, [$2 + " + std::to_string(offset) + "];",
          "=f,=f,r,~{memory}", address);
      llvm::copy(pair, &registers[r * perThread + 2 * group]);
    }
  }
  return registers;
}

/// Consecutive rows of a tile that the warpgroups access together. They have
/// more than one such step in higher tiles.
static int64_t getRowsOfStep(const ThreadPosition &position) {
  return position.numThreads / warpgroupThreads * warpgroupRows;
}

FailureOr<SmallVector<Value>>
SM90aTarget::emitRead(OpBuilder &builder, attn_tile::ReadOp op,
                      const StagedTile &stage,
                      const ThreadPosition &position) const {
  Location loc = op.getLoc();
  BufferType type = op.getBuffer().getType();
  int64_t rowsOfStep = getRowsOfStep(position);
  if (type.getShape()[0] % rowsOfStep != 0 || type.getShape()[1] % 16 != 0)
    return op.emitOpError("tile must have a multiple of 64 rows for each "
                          "warpgroup, and of 16 columns, to be read on sm_90a "
                          "(was ")
           << op.getTile().getType() << ")";
  Value warp = arith::ShRUIOp::create(builder, loc, position.thread,
                                      ptx::constant(builder, loc, 5));
  auto emitLoads =
      type.getElementType().isF32() ? emitLoadPairs : emitLoadMatrices;
  SmallVector<Value> registers;
  for (int64_t row = 0; row < type.getShape()[0]; row += rowsOfStep) {
    Value address =
        arith::AddIOp::create(builder, loc, stage.address,
                              ptx::constant(builder, loc, row * blockRowBytes));
    llvm::append_range(registers, emitLoads(builder, loc, type, address,
                                            position.thread, warp));
  }
  return registers;
}

LogicalResult
SM90aTarget::emitLocalStore(OpBuilder &builder, attn_tile::LocalStoreOp op,
                            ValueRange tile, const StagedTile &stage,
                            const ThreadPosition &position) const {
  Location loc = op.getLoc();
  BufferType type = op.getBuffer().getType();
  int64_t firstColumn = op.getFirstColumn();
  int64_t columns = cast<VectorType>(op.getTile().getType()).getDimSize(1);
  int64_t rowsOfStep = getRowsOfStep(position);
  if (type.getElementType().isF32())
    return op.emitOpError("tile must have 16-bit values to be stored to shared "
                          "memory on sm_90a, whose MMAs read no other ones "
                          "from there (was ")
           << op.getTile().getType() << ")";
  if (type.getShape()[0] % rowsOfStep != 0)
    return op.emitOpError("tile must have a multiple of 64 rows for each "
                          "warpgroup to be stored to shared memory on sm_90a "
                          "(was ")
           << op.getTile().getType() << ")";
  if (columns % 16 != 0 || firstColumn % 16 != 0)
    return op.emitOpError("columns must be a multiple of 16 to be stored to "
                          "shared memory on sm_90a (was ")
           << columns << " from column " << firstColumn << ")";
  auto constant = [&](int64_t value) {
    return ptx::constant(builder, loc, value);
  };
  if (op.getPipe().getType().getStages() == 1 && firstColumn == 0)
    emitRoleBarrier(builder, loc, position);

  Value warp =
      arith::ShRUIOp::create(builder, loc, position.thread, constant(5));
  int64_t steps = type.getShape()[0] / rowsOfStep;
  size_t registers = tile.size() / steps;
  for (int64_t step = 0; step < steps; ++step) {
    Value address =
        arith::AddIOp::create(builder, loc, stage.address,
                              constant(step * rowsOfStep * blockRowBytes));
    emitStoreMatrices(builder, loc, tile.slice(step * registers, registers),
                      /*tileColumn=*/0, columns, address, firstColumn,
                      getBlockBytes(type), position.thread, warp);
  }
  if (firstColumn + columns < type.getShape()[1])
    return success();
  emitFenceBeforeMmas(builder, loc);
  emitRoleBarrier(builder, loc, position);
  return success();
}

void SM90aTarget::emitRoleBarrier(OpBuilder &builder, Location loc,
                                  const ThreadPosition &position) const {
  ptx::emit(builder, loc, "bar.sync $0, $1;", "r,r,~{memory}",
            {ptx::constant(builder, loc, localStoreBarrier),
             ptx::constant(builder, loc, position.numThreads)});
}

void SM90aTarget::emitFenceBeforeMmas(OpBuilder &builder, Location loc) const {
  // MMAs read through the asynchronous proxy.
  ptx::emit(builder, loc, "fence.proxy.async.shared::cta;", "~{memory}");
}

std::array<Value, 2> SM90aTarget::emitExtendFloat8(OpBuilder &builder,
                                                   Location loc, Value word,
                                                   Type from, Type to) const {
  bool isE4M3 = isa<Float8E4M3FNType>(from);
  if (!isE4M3 && to.isF16())
    return StagingTarget::emitExtendFloat8(builder, loc, word, from, to);
  // E5M2 is the upper half of f16. From f16 to bf16, f32 is between.
  constexpr std::array<StringRef, 2> halves = {"low", "high"};
  std::string code = "{\n"
                     ".reg .b16 low, high, first, second;\n"
                     ".reg .b32 pair;\n"
                     ".reg .f32 x, y;\n"
                     "mov.b32 {low, high}, $2;\n";
  for (unsigned i : {0, 1}) {
    std::string result = "$" + std::to_string(i);
    std::string pair = to.isF16() ? result : "pair";
    code +=
        isE4M3 ? "cvt.rn.f16x2.e4m3x2 " + pair + ", " + halves[i].str() + ";\n"
               : "prmt.b32 pair, $2, 0, " + upperByteSelectors[i].str() + ";\n";
    if (to.isBF16())
      code += "mov.b32 {first, second}, pair;\n"
              "cvt.f32.f16 x, first;\n"
              "cvt.f32.f16 y, second;\n"
              "cvt.rn.bf16x2.f32 " +
              result + ", y, x;\n";
  }
  SmallVector<Type> types(2, builder.getI32Type());
  SmallVector<Value> words =
      ptx::emitWithResults(builder, loc, types, code + "}", "=r,=r,r", word);
  return {words[0], words[1]};
}

LogicalResult
SM90aTarget::emitStoreThrough(OpBuilder &builder, attn_tile::StoreThroughOp op,
                              ValueRange values, ValueRange dest,
                              ValueRange indices, Value stages,
                              const ThreadPosition &position) const {
  Location loc = op.getLoc();
  auto map = dyn_cast<attn_tile::TensorMapType>(op.getDest().getType());
  if (!map)
    return op.emitOpError("must store through a tensor map on sm_90a");
  attn_tile::PipeType pipe = op.getPipe().getType();
  VectorType tile = op.getTile().getType();
  int64_t warpgroups = position.numThreads / warpgroupThreads;
  if (pipe.getShape() != ArrayRef<int64_t>{warpgroupRows, blockColumns} ||
      map.getBox() != pipe.getShape() ||
      tile.getDimSize(0) != warpgroups * warpgroupRows ||
      pipe.getStages() % warpgroups != 0)
    return op.emitOpError("must have a tile of 64 rows for each warpgroup, as "
                          "many stages for each, and stages and boxes of ")
           << warpgroupRows << "x" << blockColumns << " on sm_90a";
  auto constant = [&](int64_t value) {
    return ptx::constant(builder, loc, value);
  };
  // Each warpgroup has its own stages: one may store while another multiplies.
  int64_t ring = pipe.getStages() / warpgroups;
  int64_t stageBytes = getStageBytes(pipe.getBufferType());
  Value first = arith::AddIOp::create(
      builder, loc, stages,
      arith::MulIOp::create(builder, loc, position.warpgroup,
                            constant(ring * stageBytes))
          .getResult());
  Value number = arith::AndIOp::create(builder, loc, position.thread,
                                       constant(warpgroupThreads - 1));
  Value warp = arith::ShRUIOp::create(builder, loc, number, constant(5));
  Value barrier = arith::AddIOp::create(builder, loc, position.warpgroup,
                                        constant(firstStoreBarrier));
  unsigned rank = indices.size();
  SmallVector<Value> coordinates(llvm::reverse(indices));
  coordinates[1] = arith::AddIOp::create(
      builder, loc, coordinates[1],
      arith::MulIOp::create(builder, loc, position.warpgroup,
                            constant(warpgroupRows))
          .getResult());
  std::string box;
  for (unsigned i = 0; i < rank; ++i)
    box += (i ? ", $" : "$") + std::to_string(3 + i);
  std::string store =
      "{\n"
      ".reg .pred first;\n"
      "fence.proxy.async.shared::cta;\n"
      "bar.sync $" +
      std::to_string(3 + rank) + ", " + std::to_string(warpgroupThreads) +
      ";\n"
      "setp.eq.s32 first, $2, 0;\n"
      "@first cp.async.bulk.tensor." +
      std::to_string(rank) + "d.global.shared::cta.bulk_group [$0, {" + box +
      "}], [$1];\n"
      "@first cp.async.bulk.commit_group;\n"
      "}";

  int64_t blocks = tile.getDimSize(1) / blockColumns;
  for (int64_t block = 0; block < blocks; ++block) {
    // All copies must have read their stages, but the copies of the other
    // stages of the ring. A tile whose blocks do not fill the ring begins after
    // all copies of the last tile.
    int64_t reading = block == 0 && blocks % ring != 0 ? 0 : ring - 1;
    ptx::emit(builder, loc,
              "{\n"
              ".reg .pred first;\n"
              "setp.eq.s32 first, $0, 0;\n"
              "@first cp.async.bulk.wait_group.read " +
                  std::to_string(reading) +
                  ";\n"
                  "bar.sync $1, " +
                  std::to_string(warpgroupThreads) + ";\n}",
              "r,r,~{memory}", {number, barrier});
    Value stage = arith::AddIOp::create(builder, loc, first,
                                        constant(block % ring * stageBytes));
    int64_t column = block * blockColumns;
    emitStoreMatrices(builder, loc, values, column, blockColumns, stage,
                      /*stageColumn=*/0, stageBytes, number, warp);
    SmallVector<Value> operands = {dest.front(), stage, number};
    operands.push_back(
        arith::AddIOp::create(builder, loc, coordinates[0], constant(column)));
    llvm::append_range(operands, ArrayRef(coordinates).drop_front());
    operands.push_back(barrier);
    ptx::emit(builder, loc, store,
              "l,r,r," + ptx::repeat("r", rank) + ",r,~{memory}", operands);
  }
  return success();
}

void SM90aTarget::emitAtomicAdd(OpBuilder &builder, Location loc, Value address,
                                ValueRange values) const {
  SmallVector<Value> operands = {address};
  llvm::append_range(operands, values);
  ptx::emit(builder, loc, "red.global.add.v4.f32 [$0], {$1, $2, $3, $4};",
            "l,f,f,f,f,~{memory}", operands);
}

/// The barrier of a full stage; the barrier of the empty stage follows it.
static Value emitOrderedStageBarrier(OpBuilder &builder, Location loc,
                                     const OrderedStage &stage,
                                     Value position) {
  static_assert(OrderedStage::numThreads == 2, "threads alternate");
  Value thread = arith::AndIOp::create(builder, loc, position,
                                       ptx::constant(builder, loc, 1));
  Value offset = arith::ShLIOp::create(builder, loc, thread,
                                       ptx::constant(builder, loc, 4));
  return arith::AddIOp::create(builder, loc, stage.barriers, offset);
}

void SM90aTarget::emitStageFragments(OpBuilder &builder, Location loc,
                                     Value stage, Value lane, ValueRange values,
                                     const OrderedStage *ordered) const {
  if (ordered) {
    // The position of the tile before. Before the first tile, waiting for the
    // phase before a fresh barrier's first one passes.
    Value before = arith::SubIOp::create(builder, loc, ordered->position,
                                         ptx::constant(builder, loc, 1));
    Value empty = arith::AddIOp::create(
        builder, loc, emitOrderedStageBarrier(builder, loc, *ordered, before),
        ptx::constant(builder, loc, getBarrierBytes() / 2));
    Value round = arith::ShRUIOp::create(builder, loc, before,
                                         ptx::constant(builder, loc, 1));
    emitBarrierWait(builder, loc, empty,
                    arith::AndIOp::create(builder, loc, round,
                                          ptx::constant(builder, loc, 1)));
  } else {
    ptx::emit(builder, loc,
              "cp.async.bulk.wait_group.read 0;\nbar.warp.sync 0xffffffff;",
              "~{memory}");
  }
  Value mine = arith::AddIOp::create(
      builder, loc, stage,
      arith::ShLIOp::create(builder, loc, lane, ptx::constant(builder, loc, 4))
          .getResult());
  for (int64_t i = 0, e = values.size(); i < e; i += 4) {
    SmallVector<Value> operands = {mine};
    llvm::append_range(operands, values.slice(i, 4));
    // 32 lanes with 16 bytes each.
    ptx::emit(builder, loc,
              "st.shared.v4.f32 [$0 + " + std::to_string(i / 4 * 512) +
                  "], {$1, $2, $3, $4};",
              "r,f,f,f,f,~{memory}", operands);
  }
}

void SM90aTarget::emitBulkAdd(OpBuilder &builder, Location loc, Value address,
                              Value stage, Value lane,
                              int64_t registers) const {
  int64_t bytes = registers * 32 * 4;
  ptx::emit(builder, loc,
            "{\n"
            ".reg .pred first;\n"
            "fence.proxy.async.shared::cta;\n"
            "bar.warp.sync 0xffffffff;\n"
            "setp.eq.s32 first, $2, 0;\n"
            "@first cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 "
            "[$0], [$1], " +
                std::to_string(bytes) +
                ";\n"
                "@first cp.async.bulk.commit_group;\n"
                "}",
            "l,r,r,~{memory}", {address, stage, lane});
}

void SM90aTarget::emitInitOrderedStages(OpBuilder &builder, Location loc,
                                        Value barriers, int64_t warps) const {
  StringRef code = "mbarrier.init.shared::cta.b64 [$0], $1;\n"
                   "mbarrier.init.shared::cta.b64 [$0 + 8], 1;\n"
                   "mbarrier.init.shared::cta.b64 [$0 + 16], $1;\n"
                   "mbarrier.init.shared::cta.b64 [$0 + 24], 1;";
  ptx::emit(builder, loc, code, "r,r",
            {barriers, ptx::constant(builder, loc, warps)});
}

void SM90aTarget::emitCommitFragments(OpBuilder &builder, Location loc,
                                      const OrderedStage &stage,
                                      Value lane) const {
  ptx::emit(
      builder, loc,
      "{\n"
      ".reg .pred first;\n"
      "fence.proxy.async.shared::cta;\n"
      "bar.warp.sync 0xffffffff;\n"
      "setp.eq.s32 first, $1, 0;\n"
      "@first mbarrier.arrive.shared::cta.b64 _, [$0];\n"
      "}",
      "r,r,~{memory}",
      {emitOrderedStageBarrier(builder, loc, stage, stage.position), lane});
}

void SM90aTarget::emitOrderedReduceAdd(OpBuilder &builder, Location loc,
                                       const OrderedStage &stage, Value address,
                                       Value semaphore, Value number,
                                       int64_t firstWarp, int64_t bytes) const {
  // Registers are scarce: values that depend on the thread are computed here
  // each time. The semaphore is awaited first, so that the reduction begins as
  // soon as the tile is there. Reductions of a stage use another proxy than the
  // semaphore; they are complete before the semaphore advances.
  std::string code =
      "{\n"
      ".reg .pred skips, done;\n"
      ".reg .b32 warp, barrier, found;\n"
      "mov.u32 warp, %tid.x;\n"
      "and.b32 found, warp, 31;\n"
      "shr.u32 warp, warp, 5;\n"
      "sub.u32 warp, warp, " +
      std::to_string(firstWarp) +
      ";\n"
      "and.b32 barrier, $3, 1;\n"
      "setp.ne.u32 skips, warp, barrier;\n"
      "setp.ne.or.u32 skips, found, 0, skips;\n"
      "@skips bra skip_${:uid};\n"
      "again_${:uid}:\n"
      "ld.acquire.gpu.global.s32 found, [$4];\n"
      "setp.eq.s32 done, found, $5;\n"
      "@done bra due_${:uid};\n"
      "nanosleep.u32 20;\n"
      "bra again_${:uid};\n"
      "due_${:uid}:\n"
      "fence.proxy.async;\n"
      "mad.lo.u32 barrier, warp, 16, $2;\n"
      "bfe.u32 found, $3, 1, 1;\n"
      "full_${:uid}:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [barrier], found;\n"
      "@!done bra full_${:uid};\n"
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [$0], "
      "[$1], " +
      std::to_string(bytes) +
      ";\n"
      "cp.async.bulk.commit_group;\n"
      "cp.async.bulk.wait_group.read 0;\n"
      "mbarrier.arrive.shared::cta.b64 _, [barrier + 8];\n"
      "cp.async.bulk.wait_group 0;\n"
      "red.release.gpu.global.add.s32 [$4], 1;\n"
      "skip_${:uid}:\n"
      "}";
  ptx::emit(builder, loc, code, "l,r,r,r,l,r,~{memory}",
            {address, stage.address, stage.barriers, stage.position, semaphore,
             number});
}

void SM90aTarget::emitBulkDone(OpBuilder &builder, Location loc) const {
  ptx::emit(builder, loc, "cp.async.bulk.wait_group 0;", "~{memory}");
}

void SM90aTarget::emitSemaphoreAdd(OpBuilder &builder, Location loc,
                                   Value address, Value lane, int64_t amount,
                                   bool hasAdded) const {
  // Bulk reductions use another proxy than the stores of threads. This warp's
  // reductions must be complete, or its stores come before the reductions of
  // other warps.
  StringRef order =
      hasAdded ? "cp.async.bulk.wait_group 0;\n" : "fence.proxy.async;\n";
  ptx::emit(builder, loc,
            ("{\n"
             ".reg .pred first;\n" +
             order +
             "bar.warp.sync 0xffffffff;\n"
             "setp.eq.s32 first, $1, 0;\n"
             "@first red.release.gpu.global.add.s32 [$0], " +
             Twine(amount) + ";\n}")
                .str(),
            "l,r,~{memory}", {address, lane});
}

void SM90aTarget::emitInitCompleted(OpBuilder &builder, Location loc,
                                    Value numbers, int64_t warps) const {
  std::string code;
  for (int64_t i = 0; i < warps; ++i)
    code +=
        "st.shared.u32 [$0 + " + std::to_string(i * numberBytes) + "], 0;\n";
  ptx::emit(builder, loc, code, "r,~{memory}", {numbers});
}

void SM90aTarget::emitSemaphoreRelease(OpBuilder &builder, Location loc,
                                       Value numbers, Value warp,
                                       Value lane) const {
  // Each warp has a number of its own, which only grows. So the warp need not
  // know the round, nor what other warps, or the counting one, have seen.
  std::string code = "{\n"
                     ".reg .pred first;\n"
                     ".reg .b32 number;\n"
                     "mad.lo.u32 number, $1, " +
                     std::to_string(numberBytes) +
                     ", $0;\n"
                     "setp.eq.s32 first, $2, 0;\n"
                     "cp.async.bulk.wait_group 0;\n"
                     "@first red.release.cta.shared::cta.add.u32 [number], 1;\n"
                     "}";
  ptx::emit(builder, loc, code, "r,r,r,~{memory}", {numbers, warp, lane});
}

void SM90aTarget::emitSemaphoreAddReleased(OpBuilder &builder, Location loc,
                                           Value address, Value lane,
                                           int64_t amount, Value numbers,
                                           Value position,
                                           int64_t warps) const {
  // Each of the first lanes waits for one warp. Numbers may overflow; their
  // differences do not.
  constexpr int64_t napNs = 100;
  std::string code = "{\n"
                     ".reg .pred first, waits, done;\n"
                     ".reg .s32 found, expected;\n"
                     ".reg .b32 number;\n"
                     "add.s32 expected, $3, 1;\n"
                     "setp.lt.s32 waits, $1, " +
                     std::to_string(warps) +
                     ";\n"
                     "mad.lo.u32 number, $1, " +
                     std::to_string(numberBytes) +
                     ", $2;\n"
                     "again_${:uid}:\n"
                     "mov.s32 found, expected;\n"
                     "@waits ld.acquire.cta.shared::cta.s32 found, [number];\n"
                     "sub.s32 found, found, expected;\n"
                     "setp.ge.s32 done, found, 0;\n"
                     "vote.sync.all.pred done, done, 0xffffffff;\n"
                     "@done bra complete_${:uid};\n"
                     "nanosleep.u32 " +
                     std::to_string(napNs) +
                     ";\n"
                     "bra again_${:uid};\n"
                     "complete_${:uid}:\n"
                     "bar.warp.sync 0xffffffff;\n"
                     "setp.eq.s32 first, $1, 0;\n"
                     "@first red.release.gpu.global.add.s32 [$0], " +
                     std::to_string(amount) + ";\n}";
  ptx::emit(builder, loc, code, "l,r,r,r,~{memory}",
            {address, lane, numbers, position});
}

void SM90aTarget::emitSemaphoreWait(OpBuilder &builder, Location loc,
                                    Value address, Value number,
                                    Value lane) const {
  // Many warps that poll one word would hold up all others whose words are in
  // the same part of L2.
  constexpr int64_t soonNs = 200, laterNs = 5000;
  std::string spin = "@skip bra reached_${:uid};\n"
                     "again_${:uid}:\n"
                     "ld.acquire.gpu.global.s32 found, [$0];\n"
                     "setp.ge.s32 done, found, $1;\n"
                     "@done bra reached_${:uid};\n"
                     "nanosleep.u32 " +
                     std::to_string(lane ? laterNs : soonNs) +
                     ";\n"
                     "bra again_${:uid};\n"
                     "reached_${:uid}:\n";
  std::string registers = "{\n"
                          ".reg .pred done, skip;\n"
                          ".reg .s32 found;\n"
                          "setp.le.s32 skip, $1, 0;\n";
  SmallVector<Value> operands = {address, number};
  // A single thread waits before the bulk copies and reductions that follow.
  if (!lane)
    return ptx::emit(builder, loc, registers + spin + "fence.proxy.async;\n}",
                     "l,r,~{memory}", operands);
  operands.push_back(lane);
  ptx::emit(builder, loc,
            registers + "setp.ne.or.s32 skip, $2, 0, skip;\n" + spin +
                "bar.warp.sync 0xffffffff;\n}",
            "l,r,r,~{memory}", operands);
}

void SM90aTarget::emitStartDqCopy(OpBuilder &builder, Location loc, Value stage,
                                  Value address, int64_t count,
                                  int64_t distance) const {
  // L1 is bypassed: it may hold stale values.
  std::string copies;
  for (int64_t i = 0; i < count; ++i) {
    std::string offset = std::to_string(i * distance);
    copies += "cp.async.cg.shared.global [$0 + " + offset + "], [$1 + " +
              offset + "], 16;\n";
  }
  ptx::emit(builder, loc, copies, "r,l,~{memory}", {stage, address});
}

void SM90aTarget::emitAwaitDqCopies(OpBuilder &builder, Location loc) const {
  ptx::emit(builder, loc, "cp.async.wait_all;", "~{memory}");
}

SmallVector<Value> SM90aTarget::emitReadAndClearDq(OpBuilder &builder,
                                                   Location loc, Value stage,
                                                   Value address) const {
  SmallVector<Type> types(4, builder.getF32Type());
  return ptx::emitWithResults(
      builder, loc, types,
      "ld.shared.v4.f32 {$0, $1, $2, $3}, [$4];\n"
      "st.global.v4.f32 [$5], {0f00000000, 0f00000000, 0f00000000, "
      "0f00000000};",
      "=f,=f,=f,=f,r,l,~{memory}", {stage, address});
}

/// The place in the instruction's register list of each register of the layout.
/// The instruction counts by pair of columns, then row, then column; the layout
/// by row, then column. Blocks of rows have an instruction each.
static SmallVector<unsigned> getInstructionOrder(unsigned numRegisters,
                                                 unsigned numBlocks) {
  SmallVector<unsigned> order;
  unsigned perBlock = numRegisters / numBlocks;
  for (unsigned block = 0; block < numBlocks; ++block)
    for (unsigned row = 0; row < 2; ++row)
      for (unsigned column = 0, e = perBlock / 2; column < e; ++column)
        order.push_back(block * perBlock + column / 2 * 4 + row * 2 +
                        column % 2);
  return order;
}

//===----------------------------------------------------------------------===//
// Conversions by idle warps
//===----------------------------------------------------------------------===//

void SM90aTarget::emitInitConverted(OpBuilder &builder, Location loc,
                                    const StagedTile &stage, int64_t warps,
                                    int64_t consumers) const {
  auto init = [&](Value barrier, int64_t arrivals) {
    ptx::emit(builder, loc, "mbarrier.init.shared::cta.b64 [$0], $1;", "r,r",
              {barrier, ptx::constant(builder, loc, arrivals)});
  };
  init(stage.full, warps);
  init(stage.empty, consumers / getReleasingThreads(/*byThreads=*/false));
}

LogicalResult SM90aTarget::emitConvert(OpBuilder &builder,
                                       attn_tile::ConvertOp op,
                                       const StagedTile &source,
                                       const StagedTile &result, Value parity,
                                       Value numRows,
                                       const ThreadPosition &position) const {
  constexpr int64_t loadsInFlight = 8;
  Location loc = op.getLoc();
  BufferType to = op.getPipe().getType().getBufferType();
  emitConversion(builder, loc, op.getBuffer().getType(), to, source.address,
                 result.address, numRows, loadsInFlight, position, [&] {
                   StagingTarget::emitAcquire(builder, loc, result, parity, to);
                 });
  emitFenceBeforeMmas(builder, loc);
  Value lane = arith::AndIOp::create(
      builder, loc, position.thread,
      ptx::constant(builder, loc, attn_tile::warpThreads - 1));
  ptx::emit(builder, loc,
            "{\n"
            ".reg .pred first;\n"
            "bar.warp.sync 0xffffffff;\n"
            "setp.eq.s32 first, $1, 0;\n"
            "@first mbarrier.arrive.shared::cta.b64 _, [$0];\n"
            "}",
            "r,r,~{memory}", {result.full, lane});
  return success();
}

int64_t SM90aTarget::getMmaRegisters(attn_tile::MmaStartOp op) const {
  return attn_tile::getMmaRegisters(
      op.getResult().getType().getValueType().getDimSize(1),
      !isa<BufferType>(op.getLhs().getType()));
}

namespace {
/// Emits the wgmma instructions of one MMA, as one piece of assembly.
class WgmmaEmitter {
public:
  WgmmaEmitter(OpBuilder &builder, attn_tile::MmaStartOp op,
               attn_tile::MmaAttrInterface mma, const ThreadPosition &position)
      : builder(builder), op(op), mma(mma), position(position),
        resultType(op.getResult().getType().getValueType()),
        rhsType(op.getRhs().getType()),
        lhsBuffer(dyn_cast<BufferType>(op.getLhs().getType())),
        columns(resultType.getDimSize(1)),
        steps(llvm::divideCeil(rhsType.getShape()[op.getTransposeRhs() ? 1 : 0],
                               mma.getDepth())),
        warpgroups(position.numThreads / warpgroupThreads),
        blocks(resultType.getDimSize(0) / (warpgroups * warpgroupRows)),
        firstRow(static_cast<int64_t>(op.getFirstRow().value_or(0))),
        firstColumn(static_cast<int64_t>(op.getFirstColumn().value_or(0))) {}

  LogicalResult verify(ValueRange lhs);
  SmallVector<Value> emit(ValueRange lhs, const StagedTile &rhs,
                          ValueRange acc);

private:
  unsigned addOperand(Value value) {
    operands.push_back(value);
    return operands.size() - 1;
  }
  /// The part of the tile at `address` that belongs to the thread's warpgroup,
  /// if each of them has `bytes`.
  Value emitOfWarpgroup(Value address, int64_t bytes);
  void addLhs(ValueRange lhs);
  int64_t advanceKMajor(BufferType type, int64_t step);
  void describe(char name, unsigned address, int64_t leading, int64_t advance);
  void describeLhs(int64_t block, int64_t step);
  void writeInstruction(int64_t block, int64_t step);

  /// Registers of a thread for the results of one instruction.
  unsigned getBlockResults() const {
    return warpgroupRows * columns / warpgroupThreads;
  }
  /// Bytes from the rows of one warpgroup to those of the next one: they are
  /// rows of the tile or, transposed, one of its blocks of 64 columns.
  int64_t getWarpgroupBytes() {
    static_assert(warpgroupRows == blockColumns);
    return op.getTransposeLhs() ? getBlockBytes(lhsBuffer)
                                : warpgroupRows * blockRowBytes;
  }

  OpBuilder &builder;
  attn_tile::MmaStartOp op;
  attn_tile::MmaAttrInterface mma;
  const ThreadPosition &position;
  VectorType resultType;
  BufferType rhsType;
  /// Null for a left-hand side in registers.
  BufferType lhsBuffer;
  /// Columns of the result, and steps of the contracted dimension.
  int64_t columns, steps;
  /// Rows of the result are distributed over the warpgroups in blocks.
  int64_t warpgroups, blocks;
  /// The first row of a staged left-hand side, and the first column of a
  /// right-hand side that is not transposed.
  int64_t firstRow, firstColumn;

  /// Operands of the assembly behind its results: tied accumulators, then
  /// descriptors and registers, whose numbers count the results, too.
  SmallVector<Value> operands;
  unsigned numResults = 0, lhsFirst = 0, rhsOperand = 0, lhsSize = 0;
  std::string lhsConstraints, code;
  llvm::raw_string_ostream os{code};
};
} // namespace

LogicalResult WgmmaEmitter::verify(ValueRange lhs) {
  if (columns % 8 != 0 || columns > mma.getMaxColumns())
    return op.emitOpError("result columns must be a multiple of 8 and at most ")
           << mma.getMaxColumns() << " on sm_90a (was " << columns << ")";
  if (resultType.getDimSize(0) != blocks * warpgroups * warpgroupRows ||
      (blocks != 1 && !lhsBuffer))
    return op.emitOpError("result must have 64 rows for each warpgroup, or a "
                          "multiple if the lhs is staged, on sm_90a (was ")
           << resultType << ")";
  if (firstRow % warpgroupRows != 0)
    return op.emitOpError("first row must be a multiple of 64 on sm_90a (was ")
           << firstRow << ")";
  if (firstColumn % getBlockColumns(rhsType) != 0)
    return op.emitOpError("first column must be a multiple of ")
           << getBlockColumns(rhsType) << " on sm_90a (was " << firstColumn
           << ")";
  if (op.getConsumerColumns() && columns % getBlockColumns(rhsType) != 0)
    return op.emitOpError("columns of a consumer must be a multiple of ")
           << getBlockColumns(rhsType) << " on sm_90a (was " << columns << ")";
  if (!lhsBuffer && static_cast<int64_t>(lhs.size()) != steps * 4)
    return op.emitOpError("lhs in registers must have 64 rows for each "
                          "warpgroup and contract a multiple of ")
           << mma.getDepth() << " on sm_90a";
  if (!mma.supportsMNMajor() && (op.getTransposeLhs() || !op.getTransposeRhs()))
    return op.emitOpError("contracted elements of ")
           << mma.getElementType() << " must be contiguous on sm_90a";
  return success();
}

Value WgmmaEmitter::emitOfWarpgroup(Value address, int64_t bytes) {
  Location loc = op.getLoc();
  Value offset = arith::MulIOp::create(builder, loc, position.warpgroup,
                                       ptx::constant(builder, loc, bytes));
  return arith::AddIOp::create(builder, loc, address, offset);
}

/// Adds the descriptor or the registers of the left-hand side.
void WgmmaEmitter::addLhs(ValueRange lhs) {
  lhsFirst = numResults + operands.size();
  lhsSize = lhs.size();
  if (!lhsBuffer) {
    for (Value pair : lhs)
      addOperand(pair);
    lhsConstraints = ptx::repeat("r", lhs.size());
    return;
  }
  // Where tiles are spread over a single warpgroup, each warpgroup has all
  // rows.
  Value address =
      warpgroups == 1 ? lhs[0] : emitOfWarpgroup(lhs[0], getWarpgroupBytes());
  addOperand(emitDescriptorAddress(builder, op.getLoc(), address));
  lhsConstraints = "l";
}

/// Units of 16 bytes from the first step to `step` of a tile whose contracted
/// dimension is contiguous.
int64_t WgmmaEmitter::advanceKMajor(BufferType type, int64_t step) {
  int64_t column = step * mma.getDepth(),
          columnsOfBlock = getBlockColumns(type);
  return (column / columnsOfBlock * getBlockBytes(type) +
          column % columnsOfBlock * mma.getElementBytes()) >>
         4;
}

/// Writes the descriptor `name`. Constants are added to the whole descriptor:
/// adding an address never carries.
void WgmmaEmitter::describe(char name, unsigned address, int64_t leading,
                            int64_t advance) {
  os << "add.s64 " << name << ", $" << address << ", "
     << getDescriptorBits(leading) + advance << ";\n";
}

void WgmmaEmitter::describeLhs(int64_t block, int64_t step) {
  int64_t firstBlock = firstRow / warpgroupRows + block * warpgroups;
  int64_t advance = op.getTransposeLhs()
                        ? (step * mma.getDepth() * blockRowBytes) >> 4
                        : advanceKMajor(lhsBuffer, step);
  describe('a', lhsFirst, /*leading=*/0,
           ((firstBlock * getWarpgroupBytes()) >> 4) + advance);
}

/// The name of a type of multiplicands in PTX.
static StringRef getTypeName(Type type) {
  if (isa<Float8E4M3FNType>(type))
    return "e4m3";
  if (isa<Float8E5M2Type>(type))
    return "e5m2";
  return type.isBF16() ? "bf16" : "f16";
}

void WgmmaEmitter::writeInstruction(int64_t block, int64_t step) {
  int64_t depth = mma.getDepth();
  bool transposeRhs = op.getTransposeRhs();
  if (lhsBuffer)
    describeLhs(block, step);
  // A transposed right-hand side is K-major. Otherwise columns are contiguous,
  // and the leading offset goes to the next 64 of them.
  describe('b', rhsOperand,
           /*leading=*/transposeRhs ? 0 : getBlockBytes(rhsType),
           transposeRhs ? advanceKMajor(rhsType, step)
                        : (firstColumn / getBlockColumns(rhsType) *
                               getBlockBytes(rhsType) +
                           step * depth * blockRowBytes) >>
                              4);
  StringRef lhs = getTypeName(mma.getMultiplicandType());
  StringRef rhs = getTypeName(rhsType.getElementType());
  os << "wgmma.mma_async.sync.aligned.m64n" << columns << "k" << depth
     << ".f32." << lhs << "." << rhs << " "
     << ptx::registerList(block * getBlockResults(), getBlockResults()) << ", ";
  if (lhsBuffer) {
    os << "a";
  } else {
    // Registers are (row, columns of 32 bits); the instruction takes two of
    // these, and both rows of each.
    unsigned pairs = lhsSize / 2;
    unsigned first = lhsFirst + step * 2;
    os << "{$" << first << ",$" << first + pairs << ",$" << first + 1 << ",$"
       << first + pairs + 1 << "}";
  }
  os << ", b, " << (step == 0 ? "first" : "rest") << ", 1, 1";
  if (mma.supportsMNMajor()) {
    if (lhsBuffer)
      os << (op.getTransposeLhs() ? ", 1" : ", 0");
    os << (transposeRhs ? ", 0" : ", 1");
  }
  os << ";\n";
}

SmallVector<Value> WgmmaEmitter::emit(ValueRange lhs, const StagedTile &rhs,
                                      ValueRange acc) {
  numResults = blocks * getBlockResults();
  SmallVector<unsigned> order = getInstructionOrder(numResults, blocks);
  operands.resize(acc.size());
  for (auto [place, value] : llvm::zip(order, acc))
    operands[place] = value;
  addLhs(lhs);
  Value rhsAddress = rhs.address;
  if (op.getConsumerColumns())
    rhsAddress =
        emitOfWarpgroup(rhsAddress, columns / getBlockColumns(rhsType) *
                                        getBlockBytes(rhsType));
  // Steps advance the descriptors, which count 16-byte units.
  rhsOperand =
      numResults +
      addOperand(emitDescriptorAddress(builder, op.getLoc(), rhsAddress));

  os << "{\n.reg .pred first, rest;\n.reg .b64 a, b;\n"
     << "setp.ne.b32 first, " << (acc.empty() ? 0 : 1) << ", 0;\n"
     << "setp.ne.b32 rest, 1, 0;\n"
     << "wgmma.fence.sync.aligned;\n";
  for (int64_t block = 0; block < blocks; ++block)
    for (int64_t step = 0; step < steps; ++step)
      writeInstruction(block, step);
  os << "wgmma.commit_group.sync.aligned;\n}";

  std::string constraints = ptx::repeat("=f", numResults);
  if (!acc.empty())
    constraints += "," + ptx::tied(numResults);
  constraints += "," + lhsConstraints + ",l,~{memory}";
  SmallVector<Type> types(numResults, builder.getF32Type());
  SmallVector<Value> registers = ptx::emitWithResults(
      builder, op.getLoc(), types, code, constraints, operands);
  return llvm::map_to_vector(order,
                             [&](unsigned place) { return registers[place]; });
}

FailureOr<SmallVector<Value>>
SM90aTarget::emitMmaStart(OpBuilder &builder, attn_tile::MmaStartOp op,
                          ValueRange lhs, const StagedTile &rhs, ValueRange acc,
                          const ThreadPosition &position) const {
  FailureOr<attn_tile::MmaAttrInterface> mma = getMmaOf(op);
  if (failed(mma))
    return failure();
  WgmmaEmitter emitter(builder, op, *mma, position);
  if (failed(emitter.verify(lhs)))
    return failure();
  return emitter.emit(lhs, rhs, acc);
}

SmallVector<Value> SM90aTarget::emitMmaWait(OpBuilder &builder, Location loc,
                                            ValueRange pending,
                                            int64_t newer) const {
  std::string code =
      "wgmma.wait_group.sync.aligned " + std::to_string(newer) + ";";
  if (pending.empty()) {
    ptx::emit(builder, loc, code, "~{memory}");
    return {};
  }
  // The registers pass through the wait, so that no use moves above it.
  std::string constraints = ptx::repeat("=f", pending.size()) + "," +
                            ptx::tied(pending.size()) + ",~{memory}";
  return ptx::emitWithResults(builder, loc, pending.getTypes(), code,
                              constraints, pending);
}

void SM90aTarget::emitSetRegisters(OpBuilder &builder, Location loc,
                                   int64_t registers, int64_t before) const {
  auto action = registers > before ? NVVM::SetMaxRegisterAction::increase
                                   : NVVM::SetMaxRegisterAction::decrease;
  NVVM::SetMaxRegisterOp::create(builder, loc, registers, action);
}

void attn::registerSM90aTarget() {
  registerTarget(std::make_unique<SM90aTarget>(),
                 TargetGPUs{{9, 0}, /*andLater=*/false});
}
