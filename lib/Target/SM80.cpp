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
// A staged tile is cut into blocks of 64 columns of 16-bit values. A block is
// rows x 128 bytes; blocks follow one another. In row r, chunk c of 16 bytes is
// at place c ^ (r % 8), so that the eight rows that ldmatrix reads of a column
// are in different banks. Columns beyond the tile's, up to a multiple of 16,
// are zero. All threads of a CTA copy and compute; MMAs are synchronous.
//
//===----------------------------------------------------------------------===//

#include "PTX.h"
#include "Targets.h"
#include "attn/Target/LoweredMemRef.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::attn;
using attn_tile::BufferType;

/// Bytes of a chunk, of a value, and of a row of one swizzled block.
static constexpr int64_t chunkBytes = 16;
static constexpr int64_t valueBytes = 2;
static constexpr int64_t blockRowBytes = 128;
/// The same, in values and chunks.
static constexpr int64_t chunkColumns = chunkBytes / valueBytes;
static constexpr int64_t blockColumns = blockRowBytes / valueBytes;
static constexpr int64_t blockChunks = blockRowBytes / chunkBytes;
/// Values of a chunk of a row of f32.
static constexpr int64_t rowChunkColumns = chunkBytes / 4;
/// Shape of mma.m16n8k16. ldmatrix reads four 8x8 matrices: the left-hand side
/// of one MMA or the right-hand sides of two.
static constexpr int64_t mmaRows = 16;
static constexpr int64_t mmaColumns = 8;
static constexpr int64_t mmaStep = 16;
static constexpr int64_t threadsPerWarp = 32;

namespace {
class SM80Target : public TargetInfo {
public:
  StringRef getName() const override { return "sm_80"; }
  StringRef getDefaultDevice() const override { return "a100"; }
  KernelScheduleKind getKernelScheduleKind() const override {
    return KernelScheduleKind::Multistage;
  }
  int64_t getMinPTXVersion() const override { return 70; }
  bool isForwardCompatible() const override { return true; }
  int64_t getSharedMemoryBytes() const override { return 163 * 1024; }

  LogicalResult
  verifyStagedTile(BufferType type,
                   function_ref<InFlightDiagnostic()> emitError) const override;
  int64_t getStageBytes(BufferType type) const override;
  int64_t getStageAlignment() const override { return 1024; }
  int64_t getBarrierBytes() const override { return 16; }
  bool isProducerSingleThread() const override { return false; }

  void emitInitBarriers(OpBuilder &builder, Location loc,
                        const StagedTile &stage, const StageThreads &threads,
                        bool byThreads, int64_t cluster) const override;
  void emitInitDone(OpBuilder &builder, Location loc,
                    int64_t cluster) const override;
  void emitAcquire(OpBuilder &builder, Location loc, const StagedTile &stage,
                   Value parity, BufferType type) const override;
  LogicalResult emitCopy(OpBuilder &builder, attn_tile::CopyOp op,
                         ValueRange source, ValueRange indices,
                         const StagedTile &stage,
                         const ThreadPosition &position) const override;
  void emitCommit(OpBuilder &builder, Location loc,
                  const StagedTile &stage) const override;
  void emitWait(OpBuilder &builder, Location loc, const StagedTile &stage,
                Value parity) const override;
  void emitClear(OpBuilder &builder, Location loc, const StagedTile &stage,
                 BufferType type, Value firstRow,
                 const ThreadPosition &position) const override;
  void emitRelease(OpBuilder &builder, Location loc, const StagedTile &stage,
                   bool byThreads, ValueRange after, int64_t cluster,
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
};
} // namespace

/// Whether a stage holds a row, which threads read and MMAs do not. A row has
/// no swizzle.
static bool isRow(BufferType type) {
  return type.getShape()[0] == 1 && type.getElementType().isF32();
}

/// Bytes of one block.
static int64_t getBlockBytes(BufferType type) {
  return type.getShape()[0] * blockRowBytes;
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

/// Spins until the phase of the given parity of a barrier has completed.
static void emitBarrierWait(OpBuilder &builder, Location loc, Value barrier,
                            Value parity) {
  ptx::emit(builder, loc,
            "{\n"
            ".reg .pred done;\n"
            "wait_${:uid}:\n"
            "mbarrier.test_wait.parity.shared.b64 done, [$0], $1;\n"
            "@!done bra wait_${:uid};\n"
            "}",
            "r,r,~{memory}", {barrier, parity});
}

LogicalResult SM80Target::verifyStagedTile(
    BufferType type, function_ref<InFlightDiagnostic()> emitError) const {
  if (isRow(type) && type.getShape()[1] % rowChunkColumns == 0)
    return success();
  if (!isa<BFloat16Type, Float16Type>(type.getElementType()))
    return emitError() << "sm_80 stages tiles of bf16 or f16 values (was "
                       << type.getElementType() << ")";
  if (type.getShape()[0] % mmaStep != 0 ||
      type.getShape()[1] % chunkColumns != 0)
    return emitError() << "sm_80 stages tiles whose rows are a multiple of "
                       << mmaStep << " and whose columns are one of "
                       << chunkColumns << " (was " << type << ")";
  return success();
}

int64_t SM80Target::getStageBytes(BufferType type) const {
  if (isRow(type))
    return llvm::alignTo(type.getShape()[1] / rowChunkColumns * chunkBytes,
                         blockRowBytes);
  return llvm::divideCeil(type.getShape()[1], blockColumns) *
         getBlockBytes(type);
}

void SM80Target::emitInitBarriers(OpBuilder &builder, Location loc,
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

void SM80Target::emitInitDone(OpBuilder &builder, Location loc, int64_t) const {
  NVVM::Barrier0Op::create(builder, loc);
}

void SM80Target::emitAcquire(OpBuilder &builder, Location loc,
                             const StagedTile &stage, Value parity,
                             BufferType) const {
  // A fresh barrier is in phase 0, so waiting for the phase before it, of
  // parity 1, passes: the stage is empty at its first use.
  Value opposite = arith::XOrIOp::create(builder, loc, parity,
                                         ptx::constant(builder, loc, 1));
  emitBarrierWait(builder, loc, stage.empty, opposite);
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
  int64_t tileColumns = op.getBuffer().getType().getShape()[1];
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
      builder, loc, emitMul(builder, loc, columns, valueBytes),
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

LogicalResult SM80Target::emitCopy(OpBuilder &builder, attn_tile::CopyOp op,
                                   ValueRange source, ValueRange indices,
                                   const StagedTile &stage,
                                   const ThreadPosition &position) const {
  Location loc = op.getLoc();
  BufferType type = op.getBuffer().getType();
  auto memrefType = dyn_cast<MemRefType>(op.getSource().getType());
  if (!memrefType)
    return op.emitOpError("must copy from a memref on sm_80");
  SmallVector<int64_t> strides;
  int64_t offset;
  if (failed(memrefType.getStridesAndOffset(strides, offset)) ||
      (strides.back() != 1 && !ShapedType::isDynamic(strides.back())))
    return op.emitOpError("columns of ")
           << memrefType << " must be contiguous on sm_80";
  LoweredMemRef memref(memrefType, source);
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
      builder, loc, start.back(), emitMul(builder, loc, chunk, chunkColumns));
  Value pointer = memref.emitAddress(builder, loc, start);
  Value rowStride = arith::MulIOp::create(
      builder, loc, memref.getStride(builder, loc, rowDim),
      arith::ConstantIntOp::create(builder, loc, rowStep * valueBytes, 64));
  Value numRows = arith::TruncIOp::create(builder, loc, builder.getI32Type(),
                                          memref.getSize(builder, loc, rowDim));

  // The chunks of each block: the number of bytes inside, and which threads
  // have a chunk if the last block is not full.
  struct Block {
    Value bytes;
    Value predicate;
  };
  SmallVector<Block> blocks;
  int64_t usedChunks =
      llvm::alignTo(type.getShape()[1], mmaStep) / chunkColumns;
  for (int64_t first = 0; first < usedChunks; first += blockChunks) {
    Block block;
    block.bytes = emitBytesInside(builder, op, memref, indices.back(),
                                  start.back(), blocks.size());
    if (usedChunks - first < blockChunks)
      block.predicate = emitLess(
          builder, loc, chunk, ptx::constant(builder, loc, usedChunks - first));
    blocks.push_back(block);
  }

  // The swizzle repeats every eight rows, that is every `period` steps.
  int64_t period = llvm::divideCeil(8, rowStep);
  SmallVector<Value> dests;
  for (int64_t i = 0; i < period; ++i)
    dests.push_back(
        emitChunkAddress(builder, loc, stage.address,
                         emitAdd(builder, loc, tileRow, i * rowStep), chunk));
  Value none = ptx::constant(builder, loc, 0);
  for (int64_t i = 0, e = llvm::divideCeil(rows, rowStep); i < e; ++i) {
    Value inside =
        emitLess(builder, loc,
                 emitAdd(builder, loc, start[rowDim], i * rowStep), numRows);
    Value inTile;
    if ((i + 1) * rowStep > rows)
      inTile = emitLess(builder, loc, tileRow,
                        ptx::constant(builder, loc, rows - i * rowStep));
    for (auto [number, block] : llvm::enumerate(blocks)) {
      ChunkCopy copy;
      copy.dest = dests[i % period];
      copy.destOffset = number * getBlockBytes(type) +
                        i / period * period * rowStep * blockRowBytes;
      copy.source = pointer;
      copy.sourceOffset = number * blockRowBytes;
      copy.bytes =
          arith::SelectOp::create(builder, loc, inside, block.bytes, none);
      copy.predicate = emitBoth(builder, loc, inTile, block.predicate);
      emitChunkCopy(builder, loc, copy);
    }
    if (i + 1 < e)
      pointer = LLVM::GEPOp::create(builder, loc, pointer.getType(),
                                    builder.getI8Type(), pointer, rowStride);
  }
  return success();
}

void SM80Target::emitCommit(OpBuilder &builder, Location loc,
                            const StagedTile &stage) const {
  ptx::emit(builder, loc, "cp.async.mbarrier.arrive.noinc.shared.b64 [$0];",
            "r,~{memory}", {stage.full});
}

void SM80Target::emitWait(OpBuilder &builder, Location loc,
                          const StagedTile &stage, Value parity) const {
  emitBarrierWait(builder, loc, stage.full, parity);
}

void SM80Target::emitClear(OpBuilder &builder, Location loc,
                           const StagedTile &stage, BufferType type,
                           Value firstRow,
                           const ThreadPosition &position) const {
  Value offset = emitMul(builder, loc, firstRow, blockRowBytes);
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

void SM80Target::emitRelease(OpBuilder &builder, Location loc,
                             const StagedTile &stage, bool, ValueRange, int64_t,
                             const ThreadPosition &) const {
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
/// How the 16x16 values that one ldmatrix reads are cut into its four matrices:
/// by rows, then columns, or by columns, then rows.
enum class MatrixOrder { RowsFirst, ColumnsFirst };

/// Reads a staged tile by 16x16 values, with each lane's addresses computed
/// once.
class FragmentReader {
public:
  /// `row` is the first row to read, if not the tile's first; `column`
  /// likewise, in units of 16. Reads then begin at columns that are multiples
  /// of a block.
  FragmentReader(OpBuilder &builder, Location loc, Value stage, BufferType type,
                 Value thread, MatrixOrder order, Value row = nullptr,
                 Value column = nullptr)
      : loc(loc), blockBytes(getBlockBytes(type)) {
    // Lanes 8i to 8i + 7 give the addresses of the rows of matrix i.
    Value lane = emitAnd(builder, loc, thread, threadsPerWarp - 1);
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
    constexpr int64_t blockPairs = blockColumns / mmaStep;
    int64_t pairs = std::min<int64_t>(
        llvm::divideCeil(type.getShape()[1], mmaStep), blockPairs);
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

  /// The four registers of the values at `row` and `column`, multiples of 16.
  SmallVector<Value, 4> read(OpBuilder &builder, int64_t row, int64_t column,
                             bool transpose) const {
    int64_t offset = column / blockColumns * blockBytes + row * blockRowBytes;
    Value base = pointers[column % blockColumns / mmaStep];
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
  int64_t blockBytes;
  /// For each pair of chunks of the first block, the lane's pointer.
  SmallVector<Value, 4> pointers;
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

/// mma.m16n8k16 on one block of `acc`.
static void emitMma(OpBuilder &builder, Location loc, Type element,
                    ValueRange lhs, ValueRange rhs, const Accumulator &acc,
                    int64_t rowBlock, int64_t columnBlock) {
  // Pairs of bf16 are passed as words, pairs of f16 as vectors.
  bool isBF16 = isa<BFloat16Type>(element);
  Type pair = builder.getI32Type();
  if (!isBF16)
    pair = VectorType::get(2, element);
  auto cast = [&](ValueRange words) {
    return llvm::map_to_vector<4>(words, [&](Value word) -> Value {
      if (word.getType() == pair)
        return word;
      return LLVM::BitcastOp::create(builder, loc, pair, word);
    });
  };
  Type f32 = builder.getF32Type();
  auto type = LLVM::LLVMStructType::getLiteral(builder.getContext(),
                                               {f32, f32, f32, f32});
  SmallVector<Value, 4> sums;
  for (int64_t i = 0; i < 4; ++i)
    sums.push_back(acc.get(rowBlock, columnBlock, i));
  NVVM::MMATypes kind = isBF16 ? NVVM::MMATypes::bf16 : NVVM::MMATypes::f16;
  Value result =
      NVVM::MmaOp::create(builder, loc, type, cast(lhs), cast(rhs), sums,
                          ArrayRef<int64_t>{mmaRows, mmaColumns, mmaStep},
                          /*b1Op=*/std::nullopt, /*intOverflow=*/std::nullopt,
                          std::array<NVVM::MMATypes, 2>{kind, kind},
                          std::array<NVVM::MMALayout, 2>{NVVM::MMALayout::row,
                                                         NVVM::MMALayout::col});
  for (int64_t i = 0; i < 4; ++i)
    acc.get(rowBlock, columnBlock, i) =
        LLVM::ExtractValueOp::create(builder, loc, result, i);
}

FailureOr<SmallVector<Value>>
SM80Target::emitMmaStart(OpBuilder &builder, attn_tile::MmaStartOp op,
                         ValueRange lhs, const StagedTile &rhs, ValueRange acc,
                         const ThreadPosition &position) const {
  Location loc = op.getLoc();
  VectorType resultType = op.getResult().getType().getValueType();
  BufferType rhsType = op.getRhs().getType();
  Type element = rhsType.getElementType();
  if (op.getFirstRow())
    return op.emitOpError("must be of all rows of lhs on sm_80");
  bool transposed = op.getTransposeRhs();
  int64_t columnBlocks = resultType.getDimSize(1) / mmaColumns;
  int64_t steps =
      llvm::divideCeil(rhsType.getShape()[transposed ? 1 : 0], mmaStep);
  int64_t warps = position.numThreads / threadsPerWarp;
  int64_t rowBlocks = resultType.getDimSize(0) / (mmaRows * warps);

  SmallVector<Value> registers(acc);
  if (acc.empty())
    registers.assign(rowBlocks * columnBlocks * 4,
                     arith::ConstantFloatOp::create(
                         builder, loc, builder.getF32Type(), APFloat(0.0f)));
  Accumulator accumulator{registers, resultType.getDimSize(1)};

  std::optional<FragmentReader> lhsReader;
  bool lhsTransposed = op.getTransposeLhs();
  if (auto lhsType = dyn_cast<BufferType>(op.getLhs().getType())) {
    Value warp = emitShiftRight(builder, loc, position.thread, 5);
    // All warps together compute `mmaRows * warps` rows of the result.
    if (lhsTransposed && rowBlocks > 1 && mmaRows * warps % blockColumns != 0)
      return op.emitOpError("transposed lhs needs a multiple of ")
             << blockColumns / mmaRows << " warps on sm_80 (was " << warps
             << ")";
    if (lhsTransposed)
      lhsReader.emplace(builder, loc, lhs[0], lhsType, position.thread,
                        MatrixOrder::ColumnsFirst, /*row=*/nullptr, warp);
    else
      lhsReader.emplace(builder, loc, lhs[0], lhsType, position.thread,
                        MatrixOrder::RowsFirst,
                        emitMul(builder, loc, warp, mmaRows));
  } else if (static_cast<int64_t>(lhs.size()) != rowBlocks * steps * 4) {
    return op.emitOpError("lhs in registers must contract a multiple of ")
           << mmaStep << " on sm_80";
  }
  // Four registers of rows `16 * warps * rowBlock` and columns `16 * step`: by
  // column pair, then row, where the tile's registers are by row, then pair.
  auto getLhs = [&](int64_t rowBlock, int64_t step) -> SmallVector<Value, 4> {
    int64_t row = rowBlock * mmaRows * warps, along = step * mmaStep;
    if (lhsReader)
      return lhsTransposed
                 ? lhsReader->read(builder, along, row, /*transpose=*/true)
                 : lhsReader->read(builder, row, along, /*transpose=*/false);
    int64_t pairs = steps * 2;
    int64_t first = rowBlock * 2 * pairs + step * 2;
    return {lhs[first], lhs[first + pairs], lhs[first + 1],
            lhs[first + pairs + 1]};
  };

  FragmentReader rhsReader(builder, loc, rhs.address, rhsType, position.thread,
                           transposed ? MatrixOrder::ColumnsFirst
                                      : MatrixOrder::RowsFirst);
  auto multiply = [&](int64_t step) {
    SmallVector<SmallVector<Value, 4>> lhsRegisters;
    for (int64_t rowBlock = 0; rowBlock < rowBlocks; ++rowBlock)
      lhsRegisters.push_back(getLhs(rowBlock, step));
    for (int64_t column = 0; column < columnBlocks; column += 2) {
      int64_t along = step * mmaStep, across = column * mmaColumns;
      SmallVector<Value, 4> two =
          transposed
              ? rhsReader.read(builder, across, along, /*transpose=*/false)
              : rhsReader.read(builder, along, across, /*transpose=*/true);
      for (int64_t rowBlock = 0; rowBlock < rowBlocks; ++rowBlock)
        for (int64_t i = 0; i < std::min<int64_t>(2, columnBlocks - column);
             ++i)
          emitMma(builder, loc, element, lhsRegisters[rowBlock],
                  ValueRange(two).slice(2 * i, 2), accumulator, rowBlock,
                  column + i);
    }
  };
  // Steps that read the same chunks of different blocks follow one another, so
  // that few addresses are live.
  constexpr int64_t blockSteps = blockColumns / mmaStep;
  for (int64_t first = 0; first < blockSteps; ++first)
    for (int64_t step = first; step < steps; step += blockSteps)
      multiply(step);
  return registers;
}

void attn::registerSM80Target() {
  registerTarget(std::make_unique<SM80Target>());
}
