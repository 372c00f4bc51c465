//===- SM80.cpp - Ampere: cp.async, mbarrier, mma.sync --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes kernels in the instructions of sm_80.
//
// A staged tile is cut into blocks of 128 bytes of columns: 64 of 16-bit
// values, 32 of f32. A block is rows x 128 bytes; blocks follow one another. In
// row r, chunk c of 16 bytes is at place c ^ (r % 8), so that the eight rows
// that ldmatrix reads of a column are in different banks. Columns beyond the
// tile's, up to a multiple of 16, are zero. All threads of a CTA copy and
// compute; MMAs are synchronous.
//
// ldmatrix transposes only 16-bit values. f32 values whose contracted dimension
// is not contiguous are therefore read word by word: lane 4 * g + t reads
// column g of rows 2 * t and 2 * t + 1 of eight, in banks that no other lane
// reads.
//
//===----------------------------------------------------------------------===//

#include "PTX.h"
#include "StagingTarget.h"
#include "Targets.h"
#include "attn/Dialect/AttnTile/IR/WarpgroupShapes.h"
#include "attn/Target/LoweredMemRef.h"
#include "attn/Target/MmaSync.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::attn;
using attn_tile::BufferType;

/// Bytes of a chunk of a row of one swizzled block.
static constexpr int64_t chunkBytes = 16;
static constexpr int64_t blockChunks = blockRowBytes / chunkBytes;
/// Chunks that a step of the contracted dimension has.
static constexpr int64_t stepChunks = 2;
/// Values of a chunk of a row of f32.
static constexpr int64_t rowChunkColumns = chunkBytes / 4;
/// Rows and columns of the result of an MMA. ldmatrix reads four matrices of 8
/// rows and a chunk of columns: the left-hand side of one MMA or the right-hand
/// sides of two.
static constexpr int64_t mmaRows = 16;
static constexpr int64_t mmaColumns = 8;
/// Rows and columns of tiles are padded to a multiple of this number.
static constexpr int64_t tileUnit = 16;

namespace {
/// Kernels in which all threads copy and compute. They also run on later
/// architectures, for elements that the instructions of these do not multiply.
class MultistageTarget : public StagingTarget {
public:
  KernelScheduleKind getKernelScheduleKind() const override {
    return KernelScheduleKind::Multistage;
  }
  Attribute getMma(Type type, bool isHighest) const override;

  LogicalResult
  verifyStagedTile(BufferType type,
                   function_ref<InFlightDiagnostic()> emitError) const override;
  int64_t getStageBytes(BufferType type) const override;
  bool isProducerSingleThread() const override { return false; }

  void emitInitBarriers(OpBuilder &builder, Location loc,
                        const StagedTile &stage, const StageThreads &threads,
                        bool byThreads, int64_t cluster) const override;
  void emitInitDone(OpBuilder &builder, Location loc,
                    int64_t cluster) const override;
  LogicalResult emitCopy(OpBuilder &builder, attn_tile::CopyOp op,
                         ValueRange source, ValueRange indices,
                         const CopiedRows &stored, const StagedTile &stage,
                         const ThreadPosition &position) const override;
  void emitCommit(OpBuilder &builder, Location loc,
                  const StagedTile &stage) const override;
  void emitClear(OpBuilder &builder, Location loc, const StagedTile &stage,
                 BufferType type, Value firstRow,
                 const ThreadPosition &position) const override;
  void emitRelease(OpBuilder &builder, Location loc, const StagedTile &stage,
                   bool byThreads, ValueRange after, int64_t cluster,
                   const ThreadPosition &position) const override;
  FailureOr<SmallVector<Value>>
  emitRead(OpBuilder &builder, attn_tile::ReadOp op, const StagedTile &stage,
           const ThreadPosition &position) const override;
  LogicalResult emitLocalStore(OpBuilder &builder, attn_tile::LocalStoreOp op,
                               ValueRange tile, const StagedTile &stage,
                               const ThreadPosition &position) const override;
  FailureOr<SmallVector<Value>>
  emitMmaStart(OpBuilder &builder, attn_tile::MmaStartOp op, ValueRange lhs,
               const StagedTile &rhs, ValueRange acc,
               const ThreadPosition &position) const override;
  SmallVector<Value> emitMmaWait(OpBuilder &, Location, ValueRange pending,
                                 int64_t) const override {
    return SmallVector<Value>(pending);
  }
  void emitSetRegisters(OpBuilder &, Location, int64_t,
                        int64_t) const override {
    // All threads keep the registers of their launch.
  }

private:
  StringRef getWaitInstruction() const override {
    return "mbarrier.test_wait.parity.shared.b64";
  }
  void emitRoleBarrier(OpBuilder &builder, Location loc,
                       const ThreadPosition &) const override {
    NVVM::Barrier0Op::create(builder, loc);
  }
};

class SM80Target : public MultistageTarget {
public:
  StringRef getName() const override { return "sm_80"; }
  StringRef getDefaultDevice() const override { return "a100"; }
  int64_t getMinPTXVersion() const override { return 70; }
  bool isForwardCompatible() const override { return true; }
  int64_t getSharedMemoryBytes() const override { return 163 * 1024; }
};

/// The multistage kernels of a later architecture.
class LaterMultistageTarget : public MultistageTarget {
public:
  explicit LaterMultistageTarget(const TargetInfo &architecture)
      : architecture(architecture) {}

  StringRef getName() const override { return architecture.getName(); }
  StringRef getDefaultDevice() const override {
    return architecture.getDefaultDevice();
  }
  int64_t getMinPTXVersion() const override {
    return architecture.getMinPTXVersion();
  }
  bool hasEarlyLaunches() const override {
    return architecture.hasEarlyLaunches();
  }
  int64_t getSharedMemoryBytes() const override {
    return architecture.getSharedMemoryBytes();
  }

private:
  const TargetInfo &architecture;
};
} // namespace

std::unique_ptr<const TargetInfo>
attn::createMultistageTarget(const TargetInfo &architecture) {
  return std::make_unique<LaterMultistageTarget>(architecture);
}

Attribute MultistageTarget::getMma(Type type, bool isHighest) const {
  if (type.isBF16() || type.isF16())
    return attn_tile::MmaSyncAttr::get(type.getContext(), type, /*terms=*/1);
  if (type.isF32())
    return attn_tile::MmaSyncAttr::get(type.getContext(),
                                       FloatTF32Type::get(type.getContext()),
                                       /*terms=*/isHighest ? 3 : 1);
  return {};
}

/// Bytes of a value.
static int64_t getValueBytes(BufferType type) {
  return type.getElementType().getIntOrFloatBitWidth() / 8;
}

/// Columns of a chunk.
static int64_t getChunkColumns(BufferType type) {
  return chunkBytes / getValueBytes(type);
}

//===----------------------------------------------------------------------===//
// Arithmetic on `i32`
//===----------------------------------------------------------------------===//

static Value emitAdd(OpBuilder &builder, Location loc, Value lhs, int64_t rhs) {
  if (rhs == 0)
    return lhs;
  return arith::AddIOp::create(builder, loc, lhs,
                               ptx::constant(builder, loc, rhs));
}

static Value emitAnd(OpBuilder &builder, Location loc, Value lhs, int64_t rhs) {
  return arith::AndIOp::create(builder, loc, lhs,
                               ptx::constant(builder, loc, rhs));
}

static Value emitShiftRight(OpBuilder &builder, Location loc, Value lhs,
                            int64_t bits) {
  return arith::ShRUIOp::create(builder, loc, lhs,
                                ptx::constant(builder, loc, bits));
}

static Value emitMul(OpBuilder &builder, Location loc, Value lhs, int64_t rhs) {
  return arith::MulIOp::create(builder, loc, lhs,
                               ptx::constant(builder, loc, rhs));
}

static Value emitLess(OpBuilder &builder, Location loc, Value lhs, Value rhs) {
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, lhs,
                               rhs);
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

/// Address in the first block of a stage of chunk `chunk` (below 8) of row
/// `row`.
static Value emitChunkAddress(OpBuilder &builder, Location loc, Value stage,
                              Value row, Value chunk) {
  Value place =
      arith::XOrIOp::create(builder, loc, chunk, emitAnd(builder, loc, row, 7));
  Value address = arith::AddIOp::create(
      builder, loc, stage, emitMul(builder, loc, row, blockRowBytes));
  return arith::AddIOp::create(builder, loc, address,
                               emitMul(builder, loc, place, chunkBytes));
}

LogicalResult MultistageTarget::verifyStagedTile(
    BufferType type, function_ref<InFlightDiagnostic()> emitError) const {
  if (isRow(type) && type.getShape()[1] % rowChunkColumns == 0)
    return success();
  if (!getMma(type.getElementType(), /*isHighest=*/true) &&
      !isFloat8(type.getElementType()))
    return emitError()
           << "sm_80 stages tiles of bf16, f16 or f32 values, or of "
              "8-bit floats to convert (was "
           << type.getElementType() << ")";
  int64_t chunkColumns = getChunkColumns(type);
  if (type.getShape()[0] % tileUnit != 0 ||
      type.getShape()[1] % chunkColumns != 0)
    return emitError() << "sm_80 stages tiles whose rows are a multiple of "
                       << tileUnit << " and whose columns are one of "
                       << chunkColumns << " (was " << type << ")";
  return success();
}

int64_t MultistageTarget::getStageBytes(BufferType type) const {
  if (isRow(type))
    return llvm::alignTo(type.getShape()[1] / rowChunkColumns * chunkBytes,
                         blockRowBytes);
  return getNumBlocks(type) * getBlockBytes(type);
}

void MultistageTarget::emitInitBarriers(OpBuilder &builder, Location loc,
                                        const StagedTile &stage,
                                        const StageThreads &threads, bool,
                                        int64_t) const {
  // Each producer arrives for its copies, each consumer when it has read.
  StringRef code = "mbarrier.init.shared.b64 [$0], $1;";
  ptx::emit(builder, loc, code, "r,r",
            {stage.full, ptx::constant(builder, loc, threads.producers)});
  ptx::emit(builder, loc, code, "r,r",
            {stage.empty, ptx::constant(builder, loc, threads.consumers)});
}

void MultistageTarget::emitInitDone(OpBuilder &builder, Location loc,
                                    int64_t) const {
  NVVM::Barrier0Op::create(builder, loc);
}

namespace {
/// A thread's copy of one row of one block: a chunk, or nothing in threads for
/// which `predicate`, if there is one, is false. The rest of the chunk from
/// byte `bytes` on is filled with zeros.
struct ChunkCopy {
  Value dest;
  int64_t destOffset;
  Value source;
  int64_t sourceOffset;
  Value bytes;
  Value predicate;
};
} // namespace

static void emitChunkCopy(OpBuilder &builder, Location loc,
                          const ChunkCopy &copy) {
  std::string code = "cp.async.cg.shared.global [$0 + " +
                     std::to_string(copy.destOffset) + "], [$1 + " +
                     std::to_string(copy.sourceOffset) + "], " +
                     std::to_string(chunkBytes) + ", $2;";
  if (!copy.predicate)
    return ptx::emit(builder, loc, code, "r,l,r,~{memory}",
                     {copy.dest, copy.source, copy.bytes});
  ptx::emit(builder, loc, "@$3 " + code, "r,l,r,b,~{memory}",
            {copy.dest, copy.source, copy.bytes, copy.predicate});
}

/// The conjunction of two conditions, either of which may be absent.
static Value emitBoth(OpBuilder &builder, Location loc, Value lhs, Value rhs) {
  if (!lhs || !rhs)
    return lhs ? lhs : rhs;
  return arith::AndIOp::create(builder, loc, lhs, rhs);
}

/// The number of bytes of the chunk at column `column` of block `block` that
/// are within the tile and the source, `i32`.
static Value emitBytesInside(OpBuilder &builder, attn_tile::CopyOp op,
                             const LoweredMemRef &source, Value firstColumn,
                             Value column, int64_t block) {
  Location loc = op.getLoc();
  int64_t dim = source.type.getRank() - 1;
  BufferType type = op.getBuffer().getType();
  int64_t tileColumns = type.getShape()[1];
  int64_t blockColumns = getBlockColumns(type);
  int64_t end = (block + 1) * blockColumns;
  Value all = ptx::constant(builder, loc, chunkBytes);
  APInt first;
  if (end <= tileColumns && !source.type.isDynamicDim(dim) &&
      matchPattern(op.getIndices().back(), m_ConstantInt(&first)) &&
      first.getSExtValue() + end <= source.type.getDimSize(dim))
    return all;
  Value limit = arith::MinSIOp::create(
      builder, loc, emitAdd(builder, loc, firstColumn, tileColumns),
      arith::TruncIOp::create(builder, loc, builder.getI32Type(),
                              source.getSize(builder, loc, dim)));
  Value columns = arith::SubIOp::create(
      builder, loc, limit, emitAdd(builder, loc, column, block * blockColumns));
  Value bytes = arith::MaxSIOp::create(
      builder, loc, emitMul(builder, loc, columns, getValueBytes(type)),
      ptx::constant(builder, loc, 0));
  return arith::MinSIOp::create(builder, loc, bytes, all);
}

/// Copies a row of f32, which is within the source.
static void emitCopyRow(OpBuilder &builder, Location loc, BufferType type,
                        const LoweredMemRef &source, ValueRange indices,
                        const StagedTile &stage,
                        const ThreadPosition &position) {
  int64_t chunks = type.getShape()[1] / rowChunkColumns;
  for (int64_t first = 0; first < chunks; first += position.numThreads) {
    Value chunk = emitAdd(builder, loc, position.thread, first);
    SmallVector<Value> start(indices);
    start.back() =
        arith::AddIOp::create(builder, loc, start.back(),
                              emitMul(builder, loc, chunk, rowChunkColumns));
    ChunkCopy copy;
    copy.dest = arith::AddIOp::create(builder, loc, stage.address,
                                      emitMul(builder, loc, chunk, chunkBytes));
    copy.destOffset = copy.sourceOffset = 0;
    copy.source = source.emitAddress(builder, loc, start);
    copy.bytes = ptx::constant(builder, loc, chunkBytes);
    if (chunks - first < position.numThreads)
      copy.predicate =
          emitLess(builder, loc, chunk, ptx::constant(builder, loc, chunks));
    emitChunkCopy(builder, loc, copy);
  }
}

namespace {
/// The chunks of a row in one block: the number of bytes inside of the source,
/// and whether a thread has a chunk, null if all threads have one.
struct BlockOfRow {
  Value bytes, predicate;
};
} // namespace

/// The blocks of the rows that `op` copies. The thread's chunk, with number
/// `chunk`, begins at `column`.
static SmallVector<BlockOfRow> emitBlocksOfRow(OpBuilder &builder,
                                               attn_tile::CopyOp op,
                                               const LoweredMemRef &memref,
                                               Value firstColumn, Value column,
                                               Value chunk) {
  Location loc = op.getLoc();
  BufferType type = op.getBuffer().getType();
  SmallVector<BlockOfRow> blocks;
  int64_t usedChunks =
      llvm::alignTo(type.getShape()[1], tileUnit) / getChunkColumns(type);
  for (int64_t first = 0; first < usedChunks; first += blockChunks) {
    BlockOfRow block;
    block.bytes = emitBytesInside(builder, op, memref, firstColumn, column,
                                  blocks.size());
    if (usedChunks - first < blockChunks)
      block.predicate = emitLess(
          builder, loc, chunk, ptx::constant(builder, loc, usedChunks - first));
    blocks.push_back(block);
  }
  return blocks;
}

/// The rows that the `steps` of a copy read, `rowStep` apart, if they are not
/// at their index.
static SmallVector<ptx::RowPlace>
emitPlacesOfSteps(OpBuilder &builder, attn_tile::CopyOp op,
                  const CopiedRows &stored, ValueRange indices, Value firstRow,
                  int64_t steps, int64_t rowStep) {
  if (!op.getPageTable() && !op.getAddressing())
    return {};
  SmallVector<Value> positions;
  for (int64_t i = 0; i < steps; ++i)
    positions.push_back(emitAdd(builder, op.getLoc(), firstRow, i * rowStep));
  return ptx::emitRowPlaces(builder, op, stored, /*entry=*/indices.front(),
                            positions);
}

/// Whether a row at `place` exists.
static Value emitExists(OpBuilder &builder, attn_tile::CopyOp op,
                        const CopiedRows &stored, const ptx::RowPlace &place,
                        Value numRows) {
  bool isPaged = bool(op.getPageTable());
  return arith::CmpIOp::create(builder, op.getLoc(), arith::CmpIPredicate::ult,
                               isPaged ? place.entry : place.row,
                               isPaged ? stored.numPages : numRows);
}

/// The type of the source of `op`, whose columns must be contiguous.
static FailureOr<MemRefType> getCopiedType(attn_tile::CopyOp op) {
  auto type = dyn_cast<MemRefType>(op.getSource().getType());
  if (!type)
    return op.emitOpError("must copy from a memref on sm_80");
  SmallVector<int64_t> strides;
  int64_t offset;
  if (failed(type.getStridesAndOffset(strides, offset)) ||
      (strides.back() != 1 && !ShapedType::isDynamic(strides.back())))
    return op.emitOpError("columns of ")
           << type << " must be contiguous on sm_80";
  return type;
}

/// Copies the chunks of `blocks` of one row, from `first`, the chunk of a block
/// at the first column. Bytes that are not `inside` of the source are zero.
static void emitBlockCopies(OpBuilder &builder, Location loc,
                            ArrayRef<BlockOfRow> blocks, int64_t blockBytes,
                            const ChunkCopy &first, Value inside) {
  Value none = ptx::constant(builder, loc, 0);
  for (auto [number, block] : llvm::enumerate(blocks)) {
    ChunkCopy copy = first;
    copy.destOffset += number * blockBytes;
    copy.sourceOffset += number * blockRowBytes;
    copy.bytes =
        arith::SelectOp::create(builder, loc, inside, block.bytes, none);
    copy.predicate = emitBoth(builder, loc, first.predicate, block.predicate);
    emitChunkCopy(builder, loc, copy);
  }
}

LogicalResult MultistageTarget::emitCopy(OpBuilder &builder,
                                         attn_tile::CopyOp op,
                                         ValueRange source, ValueRange indices,
                                         const CopiedRows &stored,
                                         const StagedTile &stage,
                                         const ThreadPosition &position) const {
  Location loc = op.getLoc();
  BufferType type = op.getBuffer().getType();
  FailureOr<MemRefType> memrefType = getCopiedType(op);
  if (failed(memrefType))
    return failure();
  LoweredMemRef memref(*memrefType, source);
  if (isRow(type)) {
    emitCopyRow(builder, loc, type, memref, indices, stage, position);
    return success();
  }

  // Eight threads copy one row of a block; the CTA copies `rowStep` rows at a
  // time.
  unsigned rowDim = indices.size() - 2;
  int64_t rows = type.getShape()[0];
  int64_t rowStep = position.numThreads / blockChunks;
  Value chunk = emitAnd(builder, loc, position.thread, blockChunks - 1);
  Value tileRow = emitShiftRight(builder, loc, position.thread, 3);
  SmallVector<Value> start(indices);
  start[rowDim] = arith::AddIOp::create(builder, loc, start[rowDim], tileRow);
  start.back() = arith::AddIOp::create(
      builder, loc, start.back(),
      emitMul(builder, loc, chunk, getChunkColumns(type)));
  int64_t steps = llvm::divideCeil(rows, rowStep);
  SmallVector<ptx::RowPlace> places = emitPlacesOfSteps(
      builder, op, stored, indices, start[rowDim], steps, rowStep);
  Value pointer;
  if (places.empty())
    pointer = memref.emitAddress(builder, loc, start);
  Value rowStride = arith::MulIOp::create(
      builder, loc, memref.getStride(builder, loc, rowDim),
      arith::ConstantIntOp::create(builder, loc, rowStep * getValueBytes(type),
                                   64));
  Value numRows = arith::TruncIOp::create(builder, loc, builder.getI32Type(),
                                          memref.getSize(builder, loc, rowDim));

  SmallVector<BlockOfRow> blocks =
      emitBlocksOfRow(builder, op, memref, indices.back(), start.back(), chunk);

  // The swizzle repeats every eight rows, that is every `period` steps.
  int64_t period = llvm::divideCeil(8, rowStep);
  SmallVector<Value> dests;
  for (int64_t i = 0; i < period; ++i)
    dests.push_back(
        emitChunkAddress(builder, loc, stage.address,
                         emitAdd(builder, loc, tileRow, i * rowStep), chunk));
  for (int64_t i = 0; i < steps; ++i) {
    Value inside;
    if (places.empty()) {
      inside =
          emitLess(builder, loc,
                   emitAdd(builder, loc, start[rowDim], i * rowStep), numRows);
    } else {
      inside = emitExists(builder, op, stored, places[i], numRows);
      SmallVector<Value> at(start);
      at[rowDim] = places[i].row;
      at.front() = places[i].entry;
      pointer = memref.emitAddress(builder, loc, at);
    }
    Value inTile;
    if ((i + 1) * rowStep > rows)
      inTile = emitLess(builder, loc, tileRow,
                        ptx::constant(builder, loc, rows - i * rowStep));
    ChunkCopy first{dests[i % period],
                    i / period * period * rowStep * blockRowBytes,
                    pointer,
                    /*sourceOffset=*/0,
                    /*bytes=*/Value(),
                    inTile};
    emitBlockCopies(builder, loc, blocks, getBlockBytes(type), first, inside);
    if (i + 1 < steps && places.empty())
      pointer = LLVM::GEPOp::create(builder, loc, pointer.getType(),
                                    builder.getI8Type(), pointer, rowStride);
  }
  return success();
}

void MultistageTarget::emitCommit(OpBuilder &builder, Location loc,
                                  const StagedTile &stage) const {
  ptx::emit(builder, loc, "cp.async.mbarrier.arrive.noinc.shared.b64 [$0];",
            "r,~{memory}", {stage.full});
}

void MultistageTarget::emitClear(OpBuilder &builder, Location loc,
                                 const StagedTile &stage, BufferType type,
                                 Value firstRow,
                                 const ThreadPosition &position) const {
  Value offset = emitMul(builder, loc, firstRow, blockRowBytes);
  int64_t blockColumns = getBlockColumns(type);
  for (int64_t block = 0; block * blockColumns < type.getShape()[1]; ++block) {
    Value begin = arith::AddIOp::create(
        builder, loc,
        emitAdd(builder, loc, stage.address, block * getBlockBytes(type)),
        offset);
    Value end =
        emitAdd(builder, loc, stage.address, (block + 1) * getBlockBytes(type));
    ptx::emitClear(builder, loc, begin, end, position.thread,
                   position.numThreads);
  }
  NVVM::Barrier0Op::create(builder, loc);
}

void MultistageTarget::emitRelease(OpBuilder &builder, Location loc,
                                   const StagedTile &stage, bool, ValueRange,
                                   int64_t, const ThreadPosition &) const {
  // One arrival for each warp, behind a barrier of the warp, would do and is
  // not faster; racecheck does not see that it orders the reads of the other
  // threads.
  ptx::emit(builder, loc,
            "{\n"
            ".reg .b64 state;\n"
            "mbarrier.arrive.shared.b64 state, [$0];\n"
            "}",
            "r,~{memory}", {stage.empty});
}

//===----------------------------------------------------------------------===//
// Matmuls
//===----------------------------------------------------------------------===//

namespace {
/// How the four matrices that one ldmatrix reads are numbered: by rows, then
/// columns, or by columns, then rows.
enum class MatrixOrder { RowsFirst, ColumnsFirst };

/// Reads a staged tile by 16 rows and two chunks of columns, with each lane's
/// addresses computed once.
class FragmentReader {
public:
  /// `row` is the first row to read, if not the tile's first; `column`
  /// likewise, in units of two chunks. Reads then begin at columns that are
  /// multiples of a block.
  FragmentReader(OpBuilder &builder, Location loc, Value stage, BufferType type,
                 Value thread, MatrixOrder order, Value row = nullptr,
                 Value column = nullptr)
      : loc(loc), blockBytes(getBlockBytes(type)),
        blockColumns(getBlockColumns(type)),
        pairColumns(stepChunks * getChunkColumns(type)) {
    // Lanes 8i to 8i + 7 give the addresses of the rows of matrix i.
    Value lane = emitAnd(builder, loc, thread, attn_tile::warpThreads - 1);
    Value rowInMatrix = emitAnd(builder, loc, lane, 7);
    Value low = emitAnd(builder, loc, emitShiftRight(builder, loc, lane, 3), 1);
    Value high = emitShiftRight(builder, loc, lane, 4);
    if (order == MatrixOrder::ColumnsFirst)
      std::swap(low, high);
    Value laneRow = arith::AddIOp::create(builder, loc, rowInMatrix,
                                          emitMul(builder, loc, low, 8));
    if (row)
      laneRow = arith::AddIOp::create(builder, loc, laneRow, row);
    // Stages start at multiples of 128 bytes, so that the pair of chunks can be
    // chosen by bits 5 and 6 of the address.
    Value first = emitChunkAddress(builder, loc, stage, laneRow, high);
    constexpr int64_t blockPairs = blockChunks / stepChunks;
    int64_t pairs = std::min<int64_t>(
        llvm::divideCeil(type.getShape()[1], pairColumns), blockPairs);
    if (column) {
      Value pair = emitAnd(builder, loc, column, blockPairs - 1);
      first = arith::XOrIOp::create(
          builder, loc, first, emitMul(builder, loc, pair, 2 * chunkBytes));
      Value block =
          emitShiftRight(builder, loc, column, llvm::Log2_64(blockPairs));
      first = arith::AddIOp::create(builder, loc, first,
                                    emitMul(builder, loc, block, blockBytes));
      pairs = 1;
    }
    auto pointer = LLVM::LLVMPointerType::get(
        builder.getContext(),
        static_cast<unsigned>(NVVM::NVVMMemorySpace::Shared));
    for (int64_t pair = 0; pair < pairs; ++pair) {
      Value address = arith::XOrIOp::create(
          builder, loc, first,
          ptx::constant(builder, loc, pair * 2 * chunkBytes));
      pointers.push_back(
          LLVM::IntToPtrOp::create(builder, loc, pointer, address));
    }
  }

  /// The four registers of the values at `row`, a multiple of 16, and `column`,
  /// a multiple of two chunks.
  SmallVector<Value, 4> read(OpBuilder &builder, int64_t row, int64_t column,
                             bool transpose) const {
    int64_t offset = column / blockColumns * blockBytes + row * blockRowBytes;
    Value base = pointers[column % blockColumns / pairColumns];
    Value pointer = LLVM::GEPOp::create(
        builder, loc, base.getType(), builder.getI8Type(), base,
        ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(offset)});
    Type i32 = builder.getI32Type();
    auto type = LLVM::LLVMStructType::getLiteral(builder.getContext(),
                                                 {i32, i32, i32, i32});
    Value matrices = NVVM::LdMatrixOp::create(
        builder, loc, type, pointer, /*num=*/4,
        transpose ? NVVM::MMALayout::col : NVVM::MMALayout::row,
        NVVM::LdStMatrixShapeAttr::get(builder.getContext(), 8, 8),
        NVVM::LdStMatrixEltType::B16);
    SmallVector<Value, 4> registers;
    for (int64_t i = 0; i < 4; ++i)
      registers.push_back(
          LLVM::ExtractValueOp::create(builder, loc, matrices, i));
    return registers;
  }

private:
  Location loc;
  int64_t blockBytes, blockColumns, pairColumns;
  /// For each pair of chunks of the first block, the lane's pointer.
  SmallVector<Value, 4> pointers;
};

} // namespace

/// The first row of a thread in the layout of accumulators: lane `4 * g + t`
/// has row `g` of its warp.
static Value emitAccumulatorRow(OpBuilder &builder, Location loc, Value thread,
                                Value lane) {
  Value warp = emitShiftRight(builder, loc, thread, 5);
  return arith::AddIOp::create(builder, loc,
                               emitMul(builder, loc, warp, mmaRows),
                               emitShiftRight(builder, loc, lane, 2));
}

namespace {
/// A thread's pointers to parts of `bytes` bytes of a row of a stage, each of
/// one or more chunks. Bits 4 to 6 of an address choose the chunk.
class RowPointers {
public:
  /// `first` is the thread's address in the first part of its first row.
  RowPointers(OpBuilder &builder, Location loc, BufferType type, Value first,
              int64_t bytes)
      : loc(loc), blockBytes(getBlockBytes(type)) {
    auto pointer = LLVM::LLVMPointerType::get(
        builder.getContext(),
        static_cast<unsigned>(NVVM::NVVMMemorySpace::Shared));
    for (int64_t offset = 0; offset < blockRowBytes; offset += bytes) {
      Value address = arith::XOrIOp::create(
          builder, loc, first, ptx::constant(builder, loc, offset));
      pointers.push_back(
          LLVM::IntToPtrOp::create(builder, loc, pointer, address));
    }
  }

  /// The pointer to part `part` of row `row`, which counts from the thread's
  /// first one.
  Value get(OpBuilder &builder, int64_t row, int64_t part) const {
    int64_t parts = pointers.size();
    int64_t offset = part / parts * blockBytes + row * blockRowBytes;
    Value base = pointers[part % parts];
    return LLVM::GEPOp::create(
        builder, loc, base.getType(), builder.getI8Type(), base,
        ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(offset)});
  }

private:
  Location loc;
  int64_t blockBytes;
  /// For each part of the first block.
  SmallVector<Value, blockChunks> pointers;
};

/// Stores a thread's words of a tile of 16-bit values in the layout of
/// accumulators. Lane `4 * g + t` holds word `t` of a chunk of rows `g` and
/// `g + 8`: the words that a warp stores at once are in different banks.
class FragmentWriter {
public:
  FragmentWriter(OpBuilder &builder, Location loc, Value stage, BufferType type,
                 Value thread)
      : loc(loc), pointers(builder, loc, type,
                           emitFirst(builder, loc, stage, thread), chunkBytes) {
  }

  /// Stores the word of row `row`, which counts from the thread's first one,
  /// and of chunk `chunk` of the row.
  void store(OpBuilder &builder, Value word, int64_t row, int64_t chunk) const {
    LLVM::StoreOp::create(builder, loc, word,
                          pointers.get(builder, row, chunk));
  }

private:
  static Value emitFirst(OpBuilder &builder, Location loc, Value stage,
                         Value thread) {
    Value lane = emitAnd(builder, loc, thread, attn_tile::warpThreads - 1);
    Value row = emitAccumulatorRow(builder, loc, thread, lane);
    Value word = emitMul(builder, loc, emitAnd(builder, loc, lane, 3), 4);
    return arith::AddIOp::create(
        builder, loc,
        emitChunkAddress(builder, loc, stage, row,
                         ptx::constant(builder, loc, 0)),
        word);
  }

  Location loc;
  RowPointers pointers;
};

/// A thread's pairs of columns of a staged tile of f32 values, in the layout of
/// accumulators: lane `4 * g + t` holds columns `2 * t` and `2 * t + 1` of each
/// eight, of rows `g` and `g + 8` of its warp.
class ColumnPairs {
public:
  ColumnPairs(OpBuilder &builder, Location loc, Value stage, BufferType type,
              Value thread)
      : loc(loc),
        pointers(builder, loc, type, emitFirst(builder, loc, stage, thread),
                 2 * chunkBytes) {}

  /// Stores the pair of row `row`, which counts from the thread's first one,
  /// and of the `eight`-th eight columns.
  void store(OpBuilder &builder, Value left, Value right, int64_t row,
             int64_t eight) const {
    Value pair = LLVM::PoisonOp::create(builder, loc, getPairType(builder));
    Value elements[] = {left, right};
    for (auto [number, element] : llvm::enumerate(elements))
      pair = LLVM::InsertElementOp::create(
          builder, loc, pair, element,
          ptx::constant(builder, loc, int64_t(number)));
    LLVM::StoreOp::create(builder, loc, pair, pointers.get(builder, row, eight),
                          /*alignment=*/8);
  }

  /// Loads such a pair.
  std::array<Value, 2> load(OpBuilder &builder, int64_t row,
                            int64_t eight) const {
    Value pair = LLVM::LoadOp::create(builder, loc, getPairType(builder),
                                      pointers.get(builder, row, eight),
                                      /*alignment=*/8);
    auto extract = [&](int64_t number) -> Value {
      return LLVM::ExtractElementOp::create(
          builder, loc, pair, ptx::constant(builder, loc, number));
    };
    return {extract(0), extract(1)};
  }

private:
  static Value emitFirst(OpBuilder &builder, Location loc, Value stage,
                         Value thread) {
    Value lane = emitAnd(builder, loc, thread, attn_tile::warpThreads - 1);
    Value row = emitAccumulatorRow(builder, loc, thread, lane);
    // Eight columns are two chunks, each of two pairs.
    Value pair = emitAnd(builder, loc, lane, 3);
    return arith::AddIOp::create(
        builder, loc,
        emitChunkAddress(builder, loc, stage, row,
                         emitShiftRight(builder, loc, pair, 1)),
        emitMul(builder, loc, emitAnd(builder, loc, pair, 1), 8));
  }

  static VectorType getPairType(OpBuilder &builder) {
    return VectorType::get(2, builder.getF32Type());
  }

  Location loc;
  RowPointers pointers;
};

/// Reads f32 values of a staged tile word by word, for MMAs whose contracted
/// elements are in the order of the accumulator.
class WordReader {
public:
  /// `isTransposed` says that the columns of the tile are contracted. `across`
  /// is the first index of the other dimension, a multiple of 16, if not 0;
  /// reads then begin at multiples of a block in that dimension.
  WordReader(OpBuilder &builder, Location loc, Value stage, BufferType type,
             Value thread, bool isTransposed, Value across = nullptr)
      : loc(loc), isTransposed(isTransposed), blockBytes(getBlockBytes(type)),
        blockColumns(getBlockColumns(type)) {
    Value lane = emitAnd(builder, loc, thread, attn_tile::warpThreads - 1);
    Value quad = emitShiftRight(builder, loc, lane, 2);
    Value along = emitMul(builder, loc, emitAnd(builder, loc, lane, 3), 2);
    Value row = isTransposed ? quad : along,
          column = isTransposed ? along : quad;
    if (across && isTransposed)
      row = arith::AddIOp::create(builder, loc, row, across);
    // The chunk of a column of eight is 0 or 1; the other columns of a block
    // are bits 5 and 6 of the address, as stages start at multiples of 128
    // bytes.
    Value first = emitChunkAddress(builder, loc, stage, row,
                                   emitShiftRight(builder, loc, column, 2));
    first = arith::AddIOp::create(
        builder, loc, first,
        emitMul(builder, loc, emitAnd(builder, loc, column, 3), 4));
    if (across && !isTransposed) {
      // Half a block is 16 columns, four chunks.
      Value half = emitShiftRight(builder, loc, across, 4);
      first = arith::XOrIOp::create(builder, loc, first,
                                    emitMul(builder, loc,
                                            emitAnd(builder, loc, half, 1),
                                            4 * chunkBytes));
      first = arith::AddIOp::create(
          builder, loc, first,
          emitMul(builder, loc, emitShiftRight(builder, loc, half, 1),
                  blockBytes));
    }
    // The second element of a lane is in the next row, whose chunks are swapped
    // in pairs, or in the next column.
    Value second = isTransposed
                       ? emitAdd(builder, loc, first, 4)
                       : emitAdd(builder, loc,
                                 arith::XOrIOp::create(
                                     builder, loc, first,
                                     ptx::constant(builder, loc, chunkBytes)),
                                 blockRowBytes);
    auto pointer = LLVM::LLVMPointerType::get(
        builder.getContext(),
        static_cast<unsigned>(NVVM::NVVMMemorySpace::Shared));
    constexpr int64_t blockPairs = blockChunks / stepChunks;
    Value lanes[] = {first, second};
    for (auto [number, address] : llvm::enumerate(lanes))
      for (int64_t pair = 0; pair < blockPairs; ++pair) {
        Value ofPair = arith::XOrIOp::create(
            builder, loc, address,
            ptx::constant(builder, loc, pair * 2 * chunkBytes));
        pointers[number].push_back(
            LLVM::IntToPtrOp::create(builder, loc, pointer, ofPair));
      }
  }

  /// A lane's two elements of the eight contracted ones from `along` on, at its
  /// index of the eight ones of the other dimension from `across` on.
  SmallVector<Value, 2> read(OpBuilder &builder, int64_t along,
                             int64_t across) const {
    int64_t row = isTransposed ? across : along;
    int64_t column = isTransposed ? along : across;
    int64_t offset = column / blockColumns * blockBytes + row * blockRowBytes;
    SmallVector<Value, 2> words;
    for (const SmallVector<Value, 4> &bases : pointers) {
      Value base = bases[column % blockColumns / mmaColumns];
      Value pointer = LLVM::GEPOp::create(
          builder, loc, base.getType(), builder.getI8Type(), base,
          ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(offset)});
      words.push_back(
          LLVM::LoadOp::create(builder, loc, builder.getI32Type(), pointer));
    }
    return words;
  }

private:
  Location loc;
  bool isTransposed;
  int64_t blockBytes, blockColumns;
  /// The lane's pointers to its first and to its second element, for each eight
  /// columns of the first block.
  std::array<SmallVector<Value, 4>, 2> pointers;
};

/// The registers of a tile of f32 in the layout of accumulators, by 16x8 block.
struct Accumulator {
  MutableArrayRef<Value> registers;
  int64_t columns;

  /// The instruction counts by row, then column. The layout does, too, over all
  /// the columns that the thread holds.
  Value &get(int64_t rowBlock, int64_t columnBlock, int64_t i) const {
    int64_t row = rowBlock * 2 + i / 2;
    return registers[row * columns / 4 + columnBlock * 2 + i % 2];
  }
};
} // namespace

namespace {
/// The operands of an MMA, read in its steps.
class Operands {
public:
  Operands(OpBuilder &builder, attn_tile::MmaStartOp op,
           attn_tile::MmaAttrInterface mma, ValueRange lhs,
           const StagedTile &rhs, const ThreadPosition &position);

  int64_t getRowBlocks() const { return rowBlocks; }
  int64_t getColumnBlocks() const { return columnBlocks; }
  int64_t getSteps() const { return steps; }

  /// Why the left-hand side cannot be read, if it cannot.
  LogicalResult verifyLhs(attn_tile::MmaStartOp op) const;

  /// The left-hand side of rows `16 * warps * rowBlock` and of a step.
  MmaFragment getLhs(OpBuilder &builder, int64_t rowBlock, int64_t step) const;
  /// The right-hand sides of a step for column blocks `column` and `column +
  /// 1`.
  std::array<MmaFragment, 2> getRhs(OpBuilder &builder, int64_t column,
                                    int64_t step) const;

private:
  /// Whether f32 elements of an operand are read word by word. ldmatrix reads
  /// others, which must then be of an operand whose contracted dimension is
  /// contiguous, as the words of a lane are not neighbours.
  bool readsWords() const { return isF32 && isAccumulatorOrder; }

  Location loc;
  attn_tile::MmaAttrInterface mma;
  ValueRange lhs;
  bool lhsTransposed, rhsTransposed, isF32, isAccumulatorOrder;
  int64_t warps, rowBlocks, columnBlocks, steps, firstColumn;
  std::optional<FragmentReader> lhsReader, rhsReader;
  std::optional<WordReader> lhsWords, rhsWords;
};
} // namespace

Operands::Operands(OpBuilder &builder, attn_tile::MmaStartOp op,
                   attn_tile::MmaAttrInterface mma, ValueRange lhs,
                   const StagedTile &rhs, const ThreadPosition &position)
    : loc(op.getLoc()), mma(mma), lhs(lhs), lhsTransposed(op.getTransposeLhs()),
      rhsTransposed(op.getTransposeRhs()), isF32(mma.getElementType().isF32()),
      warps(position.numThreads / attn_tile::warpThreads) {
  VectorType resultType = op.getResult().getType().getValueType();
  BufferType rhsType = op.getRhs().getType();
  columnBlocks = resultType.getDimSize(1) / mmaColumns;
  firstColumn = static_cast<int64_t>(op.getFirstColumn().value_or(0));
  rowBlocks = resultType.getDimSize(0) / (mmaRows * warps);
  steps = llvm::divideCeil(rhsType.getShape()[rhsTransposed ? 1 : 0],
                           mma.getDepth());
  auto lhsType = dyn_cast<BufferType>(op.getLhs().getType());
  isAccumulatorOrder = !lhsType || lhsTransposed || !rhsTransposed;
  if (lhsType) {
    Value warp = emitShiftRight(builder, loc, position.thread, 5);
    Value row = emitMul(builder, loc, warp, mmaRows);
    if (readsWords())
      lhsWords.emplace(builder, loc, this->lhs[0], lhsType, position.thread,
                       /*isTransposed=*/!lhsTransposed, row);
    else if (lhsTransposed)
      lhsReader.emplace(builder, loc, this->lhs[0], lhsType, position.thread,
                        MatrixOrder::ColumnsFirst, /*row=*/nullptr, warp);
    else
      lhsReader.emplace(builder, loc, this->lhs[0], lhsType, position.thread,
                        MatrixOrder::RowsFirst, row);
  }
  if (readsWords())
    rhsWords.emplace(builder, loc, rhs.address, rhsType, position.thread,
                     rhsTransposed);
  else
    rhsReader.emplace(builder, loc, rhs.address, rhsType, position.thread,
                      rhsTransposed ? MatrixOrder::ColumnsFirst
                                    : MatrixOrder::RowsFirst);
}

LogicalResult Operands::verifyLhs(attn_tile::MmaStartOp op) const {
  auto lhsType = dyn_cast<BufferType>(op.getLhs().getType());
  if (!lhsType && static_cast<int64_t>(lhs.size()) != rowBlocks * steps * 4)
    return op.emitOpError("lhs in registers must contract a multiple of ")
           << mma.getDepth() << " on sm_80";
  if (!lhsType || !lhsTransposed)
    return success();
  // All warps together compute `mmaRows * warps` rows of the result.
  int64_t blockColumns = getBlockColumns(lhsType);
  if (rowBlocks > 1 && mmaRows * warps % blockColumns != 0)
    return op.emitOpError("transposed lhs needs a multiple of ")
           << blockColumns / mmaRows << " warps on sm_80 (was " << warps << ")";
  return success();
}

MmaFragment Operands::getLhs(OpBuilder &builder, int64_t rowBlock,
                             int64_t step) const {
  int64_t row = rowBlock * mmaRows * warps, along = step * mma.getDepth();
  SmallVector<Value, 4> words;
  if (lhsWords) {
    // The instruction counts by element, then row.
    SmallVector<Value, 2> upper = lhsWords->read(builder, along, row);
    SmallVector<Value, 2> lower =
        lhsWords->read(builder, along, row + mmaRows / 2);
    words = {upper[0], lower[0], upper[1], lower[1]};
  } else if (lhsReader) {
    words = lhsTransposed
                ? lhsReader->read(builder, along, row, /*transpose=*/true)
                : lhsReader->read(builder, row, along, /*transpose=*/false);
  } else {
    // Four registers: by register of a row, then row, where the tile's are by
    // row first.
    int64_t perRow = steps * 2;
    int64_t first = rowBlock * 2 * perRow + step * 2;
    words = {lhs[first], lhs[first + perRow], lhs[first + 1],
             lhs[first + perRow + 1]};
  }
  return makeMmaFragment(builder, loc, mma, words);
}

std::array<MmaFragment, 2> Operands::getRhs(OpBuilder &builder, int64_t column,
                                            int64_t step) const {
  int64_t along = step * mma.getDepth();
  int64_t across = firstColumn + column * mmaColumns;
  std::array<SmallVector<Value, 4>, 2> words;
  if (rhsWords) {
    for (int64_t i = 0; i < std::min<int64_t>(2, columnBlocks - column); ++i)
      words[i] = rhsWords->read(builder, along, across + i * mmaColumns);
  } else {
    SmallVector<Value, 4> two =
        rhsTransposed
            ? rhsReader->read(builder, across, along, /*transpose=*/false)
            : rhsReader->read(builder, along, across, /*transpose=*/true);
    words = {SmallVector<Value, 4>{two[0], two[1]},
             SmallVector<Value, 4>{two[2], two[3]}};
  }
  return {makeMmaFragment(builder, loc, mma, words[0]),
          makeMmaFragment(builder, loc, mma, words[1])};
}

/// The MMAs of a step on the blocks of `accumulator` in the rows of `rows` and
/// in the columns of `columns`, of which `column` is the first. `rounds` says
/// that the result of the step is rounded to f32 when it is accumulated.
static void emitStep(OpBuilder &builder, Location loc,
                     attn_tile::MmaAttrInterface mma,
                     ArrayRef<MmaFragment> rows, ArrayRef<MmaFragment> columns,
                     const Accumulator &accumulator, int64_t column,
                     bool rounds) {
  // Tensor cores truncate when they accumulate. To round, a step starts from 0,
  // and f32 additions follow (Ootomo and Yokota, "Recovering single precision
  // accuracy from Tensor Cores while surpassing the FP32 theoretical peak
  // performance", 2022). The 0 depends on the accumulator: ptxas would begin
  // independent steps early, and run out of registers. Saturation makes it 0
  // for infinities, too, such as the scores of masked pairs.
  auto getStart = [&](Value accumulated) -> Value {
    if (!rounds)
      return accumulated;
    return ptx::emitPure(builder, loc, accumulated.getType(),
                         "sub.sat.f32 $0, $1, $1;", "=f,f", accumulated);
  };
  // MMAs that follow one another have different accumulators.
  SmallVector<MmaBlock> blocks;
  for (int64_t r = 0, e = rows.size(); r < e; ++r)
    for (int64_t c = 0, f = columns.size(); c < f; ++c) {
      MmaBlock &block = blocks.emplace_back();
      for (int64_t i = 0; i < 4; ++i)
        block[i] = getStart(accumulator.get(r, column + c, i));
    }
  for (int64_t term = 0; term < mma.getNumTerms(); ++term)
    for (auto [number, block] : llvm::enumerate(blocks)) {
      auto [left, right] = getMmaTerms(rows[number / columns.size()],
                                       columns[number % columns.size()])[term];
      emitMmaSync(builder, loc, mma, left, right, block);
    }
  for (auto [number, block] : llvm::enumerate(blocks))
    for (int64_t i = 0; i < 4; ++i) {
      Value &sum = accumulator.get(number / columns.size(),
                                   column + number % columns.size(), i);
      if (rounds)
        block[i] = arith::AddFOp::create(builder, loc, sum, block[i]);
      sum = block[i];
    }
}

/// Checks a tile that threads read from a stage or store to it, as `what` says,
/// from column `firstColumn` on.
static LogicalResult verifyFragments(Operation *op, VectorType tile,
                                     int64_t firstColumn, int64_t warps,
                                     StringRef what) {
  int64_t rows = mmaRows * warps;
  unsigned bits = tile.getElementTypeBitWidth();
  if ((bits == 16 || bits == 32) && tile.getDimSize(0) % rows == 0 &&
      tile.getDimSize(1) % tileUnit == 0 && firstColumn % tileUnit == 0)
    return success();
  return op->emitOpError("tile must have 16-bit or f32 values, a multiple of ")
         << rows << " rows and a multiple of " << tileUnit << " columns to be "
         << what << " shared memory on sm_80 (was " << tile << " from column "
         << firstColumn << ")";
}

/// The row of a thread's `number`-th row, which counts from its first one. A
/// thread has two rows of its warp in each block of rows of all warps.
static int64_t getRowOfThread(int64_t number, int64_t warps) {
  return number / 2 * mmaRows * warps + number % 2 * (mmaRows / 2);
}

/// Reads the thread's values of a tile of 16 bits, as words.
static SmallVector<Value> emitReadFragments(OpBuilder &builder,
                                            attn_tile::ReadOp op,
                                            const StagedTile &stage,
                                            const ThreadPosition &position) {
  Location loc = op.getLoc();
  auto tile = cast<VectorType>(op.getTile().getType());
  int64_t warps = position.numThreads / attn_tile::warpThreads;
  Value warp = emitShiftRight(builder, loc, position.thread, 5);
  FragmentReader reader(builder, loc, stage.address, op.getBuffer().getType(),
                        position.thread, MatrixOrder::RowsFirst,
                        emitMul(builder, loc, warp, mmaRows));
  int64_t perRow = tile.getDimSize(1) / mmaColumns;
  int64_t rowBlocks = tile.getDimSize(0) / (mmaRows * warps);
  SmallVector<Value> registers(2 * rowBlocks * perRow);
  for (int64_t rowBlock = 0; rowBlock < rowBlocks; ++rowBlock)
    for (int64_t pair = 0; pair < perRow; pair += 2) {
      SmallVector<Value, 4> words =
          reader.read(builder, rowBlock * mmaRows * warps, pair * mmaColumns,
                      /*transpose=*/false);
      // The words are numbered by rows, then columns.
      for (int64_t i = 0; i < 4; ++i)
        registers[(2 * rowBlock + i % 2) * perRow + pair + i / 2] = words[i];
    }
  return registers;
}

FailureOr<SmallVector<Value>>
MultistageTarget::emitRead(OpBuilder &builder, attn_tile::ReadOp op,
                           const StagedTile &stage,
                           const ThreadPosition &position) const {
  auto tile = cast<VectorType>(op.getTile().getType());
  int64_t warps = position.numThreads / attn_tile::warpThreads;
  if (failed(verifyFragments(op, tile, /*firstColumn=*/0, warps, "read from")))
    return failure();
  if (!tile.getElementType().isF32())
    return emitReadFragments(builder, op, stage, position);
  ColumnPairs pairs(builder, op.getLoc(), stage.address,
                    op.getBuffer().getType(), position.thread);
  SmallVector<Value> registers;
  for (int64_t row = 0, e = tile.getDimSize(0) / (mmaRows / 2 * warps); row < e;
       ++row)
    for (int64_t eight = 0; eight < tile.getDimSize(1) / mmaColumns; ++eight)
      llvm::append_range(
          registers, pairs.load(builder, getRowOfThread(row, warps), eight));
  return registers;
}

/// Stores the thread's values of a tile.
static void emitStoreFragments(OpBuilder &builder, attn_tile::LocalStoreOp op,
                               ValueRange tile, const StagedTile &stage,
                               const ThreadPosition &position) {
  Location loc = op.getLoc();
  BufferType type = op.getBuffer().getType();
  int64_t warps = position.numThreads / attn_tile::warpThreads;
  int64_t first = op.getFirstColumn() / mmaColumns;
  int64_t perRow =
      cast<VectorType>(op.getTile().getType()).getDimSize(1) / mmaColumns;
  if (type.getElementType().isF32()) {
    ColumnPairs pairs(builder, loc, stage.address, type, position.thread);
    for (int64_t i = 0, e = tile.size() / (2 * perRow); i < e; ++i)
      for (int64_t column = 0; column < perRow; ++column) {
        int64_t left = 2 * (i * perRow + column);
        pairs.store(builder, tile[left], tile[left + 1],
                    getRowOfThread(i, warps), first + column);
      }
    return;
  }
  FragmentWriter writer(builder, loc, stage.address, type, position.thread);
  for (int64_t i = 0, e = tile.size() / perRow; i < e; ++i)
    for (int64_t column = 0; column < perRow; ++column)
      writer.store(builder, tile[i * perRow + column], getRowOfThread(i, warps),
                   first + column);
}

LogicalResult
MultistageTarget::emitLocalStore(OpBuilder &builder, attn_tile::LocalStoreOp op,
                                 ValueRange tile, const StagedTile &stage,
                                 const ThreadPosition &position) const {
  Location loc = op.getLoc();
  BufferType type = op.getBuffer().getType();
  auto tileType = cast<VectorType>(op.getTile().getType());
  int64_t firstColumn = op.getFirstColumn();
  int64_t warps = position.numThreads / attn_tile::warpThreads;
  if (failed(verifyFragments(op, tileType, firstColumn, warps, "stored to")))
    return failure();
  if (op.getPipe().getType().getStages() == 1 && firstColumn == 0)
    NVVM::Barrier0Op::create(builder, loc);
  int64_t columns = tileType.getDimSize(1);
  emitStoreFragments(builder, op, tile, stage, position);
  if (firstColumn + columns == type.getShape()[1])
    NVVM::Barrier0Op::create(builder, loc);
  return success();
}

/// Checks that warps can multiply the parts of its operands that `op` takes.
static LogicalResult verifyParts(attn_tile::MmaStartOp op) {
  if (op.getFirstRow())
    return op.emitOpError("must be of all rows of lhs on sm_80");
  if (op.getConsumerColumns())
    return op.emitOpError("has no columns for consumers on sm_80, where all "
                          "warps have one role");
  auto first = static_cast<int64_t>(op.getFirstColumn().value_or(0));
  if (first % tileUnit == 0)
    return success();
  return op.emitOpError("first column must be a multiple of ")
         << tileUnit << " on sm_80 (was " << first << ")";
}

FailureOr<SmallVector<Value>>
MultistageTarget::emitMmaStart(OpBuilder &builder, attn_tile::MmaStartOp op,
                               ValueRange lhs, const StagedTile &rhs,
                               ValueRange acc,
                               const ThreadPosition &position) const {
  Location loc = op.getLoc();
  VectorType resultType = op.getResult().getType().getValueType();
  FailureOr<attn_tile::MmaAttrInterface> mma = getMmaOf(op);
  if (failed(verifyParts(op)) || failed(mma))
    return failure();
  int64_t warps = position.numThreads / attn_tile::warpThreads;
  int64_t numRegisters =
      resultType.getNumElements() / (warps * attn_tile::warpThreads);
  SmallVector<Value> registers(acc);
  if (acc.empty())
    registers.assign(numRegisters,
                     arith::ConstantFloatOp::create(
                         builder, loc, builder.getF32Type(), APFloat(0.0f)));
  Accumulator accumulator{registers, resultType.getDimSize(1)};
  Operands operands(builder, op, *mma, lhs, rhs, position);
  if (failed(operands.verifyLhs(op)))
    return failure();

  int64_t rowBlocks = operands.getRowBlocks();
  int64_t columnBlocks = operands.getColumnBlocks();
  // Other MMAs accumulate few steps: the head dim's.
  bool rounds = mma->getNumTerms() > 1 && op.getAcc();
  // Four blocks of an accumulator hide the latency of an MMA that another one
  // with the same block waits for.
  int64_t group = rowBlocks == 1 && mma->getNumTerms() > 1 ? 4 : 2;
  auto multiply = [&](int64_t step) {
    SmallVector<MmaFragment> rows;
    for (int64_t rowBlock = 0; rowBlock < rowBlocks; ++rowBlock)
      rows.push_back(operands.getLhs(builder, rowBlock, step));
    for (int64_t column = 0; column < columnBlocks; column += group) {
      int64_t end = std::min(column + group, columnBlocks);
      SmallVector<MmaFragment> columns;
      for (int64_t pair = column; pair < end; pair += 2)
        llvm::append_range(columns, operands.getRhs(builder, pair, step));
      columns.resize(end - column);
      emitStep(builder, loc, *mma, rows, columns, accumulator, column, rounds);
    }
  };
  // Steps that read the same chunks of different blocks follow one another, so
  // that few addresses are live.
  constexpr int64_t blockSteps = blockChunks / stepChunks;
  for (int64_t first = 0; first < blockSteps; ++first)
    for (int64_t step = first; step < operands.getSteps(); step += blockSteps)
      multiply(step);
  return registers;
}

void attn::registerSM80Target() {
  registerTarget(std::make_unique<SM80Target>(),
                 TargetGPUs{{8, 0}, /*andLater=*/true});
}
