//===- KernelLowering.h - Lowering of one kernel ------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the patterns that lower a kernel to a GPU share.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTILETONVVM_KERNELLOWERING_H
#define ATTN_LIB_CONVERSION_ATTNTILETONVVM_KERNELLOWERING_H

#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Target/LoweredMemRef.h"
#include "attn/Target/TargetInfo.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/DialectConversion.h"

namespace mlir::attn {

constexpr int64_t warpgroupSize = 128;
constexpr int64_t warpsPerWarpgroup = warpgroupSize / 32;

/// Warps of a group that run `attn_tile.beside`.
struct IdleWarps {
  int64_t first = 0, count = 0;
};

/// The warps of each `attn_tile.beside` of a kernel: first those of the ones
/// that say how many they have. The others have what is left, which may be
/// none.
DenseMap<Operation *, IdleWarps> getIdleWarps(attn_tile::KernelOp kernel);

/// Whether only packed tiles go through a pipe: their order is no matter of the
/// target's products and copies.
bool holdsPackedTiles(attn_tile::CreatePipeOp pipe);

/// What the patterns need to know of the kernel they are in.
struct KernelContext {
  KernelContext(const TargetInfo &target,
                attn_tile::ThreadLayoutAttrInterface layout)
      : target(target), layout(layout) {}

  const TargetInfo &target;
  attn_tile::ThreadLayoutAttrInterface layout;
  /// Threads of the group.
  int64_t numThreads = 0;
  /// Groups whose registers a multiprocessor has room for.
  int64_t groups = 1;
  /// Groups of a cluster.
  int64_t cluster = 1;
  /// Threads that fill and read stages.
  StageThreads stageThreads = {0, 0};
  /// Index of the thread, its warpgroup and its warp in the group, `i32`; the
  /// latter two are the same in all threads of a warp.
  Value thread;
  Value warpgroup;
  Value warp;
  /// First byte of shared memory, `i32`.
  Value shared;
  /// Pointer to zeros in global memory, for reads that must not be done.
  Value zeros;
  /// First warpgroup of each role.
  DenseMap<Operation *, int64_t> firstWarpgroup;
  /// The warps that run each `attn_tile.beside`.
  DenseMap<Operation *, IdleWarps> idleWarps;
  /// Bytes of shared memory, whose end belongs to the idle warps.
  int64_t sharedBytes = 0;
  /// Where the counter of `attn_tile.take_number` is in shared memory.
  int64_t numberOffset = 0;
  /// Whether tiles are added to or stored in global memory through stages.
  bool copiesFromStages = false;
  /// Products started after the one that is waited for.
  DenseMap<Operation *, int64_t> newerProducts;
  /// Pipes whose tiles threads read themselves, by `attn_tile.read`, and where
  /// their stages are released.
  DenseSet<Operation *> readByThreads;
  /// Pipes of packed tiles that idle warps add in turns, and of those whose
  /// additions an idle warp counts.
  DenseSet<Operation *> addedInTurn, counted;

  /// Whether a register holds two neighbours of a row: an `i32` whose lower
  /// half is the first of them.
  bool isPacked(VectorType type) const {
    return type.getRank() == 2 && type.getDimSize(1) > 1 &&
           type.getElementType().isIntOrFloat() &&
           isa<BFloat16Type, Float16Type>(type.getElementType());
  }

  /// The warps that run the `attn_tile.beside` that `op` is in.
  IdleWarps getIdleWarps(Operation *op) const {
    return idleWarps.lookup(op->getParentOfType<attn_tile::BesideOp>());
  }

  int64_t getRows(VectorType type) const {
    return layout.getRowRegisters(type.getDimSize(0));
  }
  int64_t getColumns(VectorType type) const {
    return type.getRank() == 1 ? 1
                               : layout.getColumnRegisters(type.getDimSize(1));
  }

  /// Index of the thread within the role that `op` is in; within its warp if
  /// that is a group of its own.
  ThreadPosition getPosition(OpBuilder &builder, Operation *op) const {
    if (op->getParentOfType<attn_tile::BesideOp>()) {
      Location loc = op->getLoc();
      constexpr int64_t warpSize = 32;
      auto constant = [&](int64_t value) -> Value {
        return arith::ConstantIntOp::create(builder, loc, value, 32);
      };
      Value lane =
          arith::AndIOp::create(builder, loc, thread, constant(warpSize - 1));
      return {lane, constant(0), constant(0), warpSize};
    }
    auto role = op->getParentOfType<attn_tile::RoleOp>();
    int64_t first = role ? firstWarpgroup.lookup(role) : 0;
    int64_t count = role ? role.getWarpgroups() * warpgroupSize : numThreads;
    if (first == 0)
      return {thread, warpgroup, warp, count};
    Location loc = op->getLoc();
    auto subtract = [&](Value value, int64_t amount) -> Value {
      Value constant = arith::ConstantIntOp::create(builder, loc, amount, 32);
      return arith::SubIOp::create(builder, loc, value, constant);
    };
    return {subtract(thread, first * warpgroupSize), subtract(warpgroup, first),
            subtract(warp, first * warpsPerWarpgroup), count};
  }
};

/// Types of the words of decisions that one thread holds.
std::optional<LogicalResult> convertDecisions(const KernelContext &context,
                                              attn_tile::DecisionsType type,
                                              SmallVectorImpl<Type> &types);

/// Types of the words of bits that one thread holds.
std::optional<LogicalResult> convertPairBits(const KernelContext &context,
                                             attn_tile::PairBitsType type,
                                             SmallVectorImpl<Type> &types);

/// Types of what one thread holds.
class TileTypeConverter : public TypeConverter {
public:
  explicit TileTypeConverter(const KernelContext &context) {
    addConversion([](Type type) { return type; });
    addConversion([](IndexType type) -> Type {
      return IntegerType::get(type.getContext(), 32);
    });
    addConversion([&context](VectorType type, SmallVectorImpl<Type> &types)
                      -> std::optional<LogicalResult> {
      return convertTile(context, type, types);
    });
    addConversion(
        [&context](attn_tile::PendingType type, SmallVectorImpl<Type> &types)
            -> std::optional<LogicalResult> {
          return convertTile(context, type.getValueType(), types);
        });
    addConversion(
        [&context](attn_tile::DecisionsType type, SmallVectorImpl<Type> &types)
            -> std::optional<LogicalResult> {
          return convertDecisions(context, type, types);
        });
    addConversion(
        [&context](attn_tile::PairBitsType type, SmallVectorImpl<Type> &types)
            -> std::optional<LogicalResult> {
          return convertPairBits(context, type, types);
        });
    addConversion(
        [](attn_tile::BufferType type,
           SmallVectorImpl<Type> &types) -> std::optional<LogicalResult> {
          types.append(3, IntegerType::get(type.getContext(), 32));
          return success();
        });
    // Address of the first stage and of its barriers.
    addConversion(
        [](attn_tile::PipeType type,
           SmallVectorImpl<Type> &types) -> std::optional<LogicalResult> {
          types.append(2, IntegerType::get(type.getContext(), 32));
          return success();
        });
    addConversion([](attn_tile::TensorMapType type) -> Type {
      return LLVM::LLVMPointerType::get(type.getContext());
    });
    // Pointer, sizes and strides.
    addConversion([](MemRefType type, SmallVectorImpl<Type> &types)
                      -> std::optional<LogicalResult> {
      types.push_back(LLVM::LLVMPointerType::get(type.getContext()));
      types.append(2 * type.getRank(), IntegerType::get(type.getContext(), 64));
      return success();
    });
  }

private:
  static std::optional<LogicalResult>
  convertTile(const KernelContext &context, VectorType type,
              SmallVectorImpl<Type> &types) {
    if (!context.layout || !context.layout.supports(type.getShape()))
      return failure();
    int64_t count = context.getRows(type) * context.getColumns(type);
    if (context.isPacked(type))
      types.append(count / 2, IntegerType::get(type.getContext(), 32));
    else
      types.append(count, type.getElementType());
    return success();
  }
};

/// Base of patterns that need the kernel's context.
template <typename OpTy>
struct KernelPattern : public OpConversionPattern<OpTy> {
  KernelPattern(const TypeConverter &converter, MLIRContext *mlirContext,
                const KernelContext &context, PatternBenefit benefit = 1)
      : OpConversionPattern<OpTy>(converter, mlirContext, benefit),
        context(context) {}

  using OneToNOpAdaptor = typename OpConversionPattern<OpTy>::OneToNOpAdaptor;

  const KernelContext &context;
};

//===----------------------------------------------------------------------===//
// Small pieces of code
//===----------------------------------------------------------------------===//

/// Whether `type` is a tile, whose conversion is a list of registers.
inline bool isTile(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  return vector && vector.getRank() <= 2;
}

inline Value createI32(OpBuilder &builder, Location loc, int64_t value) {
  return arith::ConstantIntOp::create(builder, loc, value, 32);
}

inline Value emitAdd(OpBuilder &builder, Location loc, Value lhs, int64_t rhs) {
  if (rhs == 0)
    return lhs;
  return arith::AddIOp::create(builder, loc, lhs, createI32(builder, loc, rhs));
}

inline Value emitLess(OpBuilder &builder, Location loc, Value lhs, Value rhs) {
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, lhs,
                               rhs);
}

/// Emits the body of `if (condition)`.
inline void emitIf(OpBuilder &builder, Location loc, Value condition,
                   function_ref<void(OpBuilder &)> emitBody) {
  auto ifOp = scf::IfOp::create(builder, loc, condition, /*withElse=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(ifOp.thenYield());
  emitBody(builder);
}

/// The values of pairs of 16-bit values.
inline SmallVector<Value> unpackPairs(OpBuilder &builder, Location loc,
                                      Type element, ValueRange words) {
  SmallVector<Value> results;
  auto halves = VectorType::get(2, element);
  for (Value word : words) {
    Value pair = LLVM::BitcastOp::create(builder, loc, halves, word);
    for (int64_t half : {0, 1})
      results.push_back(LLVM::ExtractElementOp::create(
          builder, loc, pair, createI32(builder, loc, half)));
  }
  return results;
}

/// Two f32 values, rounded, as a word whose lower half is the first of them.
inline Value roundPair(OpBuilder &builder, Location loc, Type element,
                       Value first, Value second) {
  StringRef intrinsic = isa<BFloat16Type>(element) ? "llvm.nvvm.ff2bf16x2.rn"
                                                   : "llvm.nvvm.ff2f16x2.rn";
  // The first operand of the intrinsic is the upper half.
  Value pair = LLVM::CallIntrinsicOp::create(
                   builder, loc, VectorType::get(2, element),
                   builder.getStringAttr(intrinsic), ValueRange{second, first})
                   .getResults();
  return LLVM::BitcastOp::create(builder, loc, builder.getI32Type(), pair);
}

/// A butterfly exchange of an f32 between threads of a warp.
inline Value emitShuffle(OpBuilder &builder, Location loc, Value value,
                         int64_t laneMask) {
  return NVVM::ShflOp::create(
      builder, loc, value.getType(), createI32(builder, loc, -1), value,
      createI32(builder, loc, laneMask), createI32(builder, loc, 31),
      NVVM::ShflKind::bfly, UnitAttr());
}

/// Transposes the 4x4 words of a quad of threads: thread `q` gives word `k` to
/// thread `k`, as its word `q`.
inline void emitQuadTranspose(OpBuilder &builder, Location loc, Value thread,
                              MutableArrayRef<Value> words) {
  for (int64_t bit : {2, 1}) {
    Value mask = createI32(builder, loc, bit);
    Value high =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne,
                              arith::AndIOp::create(builder, loc, thread, mask),
                              createI32(builder, loc, 0));
    for (int64_t low = 0; low < 4; ++low) {
      if (low & bit)
        continue;
      Value &lower = words[low], &upper = words[low | bit];
      Value sent = arith::SelectOp::create(builder, loc, high, lower, upper);
      Value kept = arith::SelectOp::create(builder, loc, high, upper, lower);
      Value received = emitShuffle(builder, loc, sent, bit);
      lower = arith::SelectOp::create(builder, loc, high, received, kept);
      upper = arith::SelectOp::create(builder, loc, high, kept, received);
    }
  }
}

/// The first column of the group of eight that a thread holds after, or before,
/// its quad exchanges four of them: four times that of a pair.
inline Value emitGroup(OpBuilder &builder, Location loc, Value baseColumn) {
  return arith::ShLIOp::create(builder, loc, baseColumn,
                               createI32(builder, loc, 2));
}

/// A vector of values of one type.
inline Value joinWords(OpBuilder &builder, Location loc, ValueRange words) {
  auto type = VectorType::get(static_cast<int64_t>(words.size()),
                              words.front().getType());
  Value vector = LLVM::PoisonOp::create(builder, loc, type);
  for (auto [k, word] : llvm::enumerate(words))
    vector = LLVM::InsertElementOp::create(builder, loc, vector, word,
                                           createI32(builder, loc, k));
  return vector;
}

/// Whether a tile, whose columns begin at `firstColumn`, never hangs over the
/// right edge of the memref.
inline bool isWithinColumns(VectorType tile, MemRefType memref,
                            Value firstColumn) {
  APInt column;
  return !memref.isDynamicDim(memref.getRank() - 1) &&
         matchPattern(firstColumn, m_ConstantInt(&column)) &&
         column.getSExtValue() + tile.getDimSize(1) <= memref.getShape().back();
}

/// First of each operand's values.
inline SmallVector<Value> getSingleValues(ArrayRef<ValueRange> operands) {
  return llvm::map_to_vector(operands,
                             [](ValueRange range) { return range.front(); });
}

inline StagedTile getStagedTile(ValueRange buffer) {
  return {buffer[0], buffer[1], buffer[2]};
}

//===----------------------------------------------------------------------===//
// Patterns and steps, each in the file of its name
//===----------------------------------------------------------------------===//

/// Elementwise work, reductions and changes of shape.
void populateTilePatterns(RewritePatternSet &patterns,
                          const TypeConverter &converter,
                          const KernelContext &context);

/// Maps and masks by position.
void populateScorePatterns(RewritePatternSet &patterns,
                           const TypeConverter &converter,
                           const KernelContext &context);

/// Dropped weights.
void populateDropoutPatterns(RewritePatternSet &patterns,
                             const TypeConverter &converter,
                             const KernelContext &context);

/// Masks as bits.
void populatePairBitsPatterns(RewritePatternSet &patterns,
                              const TypeConverter &converter,
                              const KernelContext &context);

/// Loads of global memory, and packed tiles.
void populateMemoryPatterns(RewritePatternSet &patterns,
                            const TypeConverter &converter,
                            const KernelContext &context);

/// Stores of tiles to global memory.
void populateStorePatterns(RewritePatternSet &patterns,
                           const TypeConverter &converter,
                           const KernelContext &context);

/// Pipes and the matrix products that read them.
void populatePipePatterns(RewritePatternSet &patterns,
                          const TypeConverter &converter,
                          const KernelContext &context);

/// Counters, and what groups of one warp do with packed tiles meanwhile.
void populateCounterPatterns(RewritePatternSet &patterns,
                             const TypeConverter &converter,
                             const KernelContext &context);

/// Scalar regions over ranges of numbers.
void populateThreadPatterns(RewritePatternSet &patterns,
                            const TypeConverter &converter,
                            const KernelContext &context);

/// Turns of warpgroups.
void populateRolePatterns(RewritePatternSet &patterns,
                          const TypeConverter &converter,
                          const KernelContext &context);

/// Whether warps of the group take numbers in turn.
bool takesNumbers(attn_tile::KernelOp kernel);
/// Where what they are counted by is in `sharedBytes` bytes of shared memory:
/// before what belongs to idle warps.
int64_t getNumberOffset(attn_tile::KernelOp kernel, int64_t sharedBytes);

/// Where the next of these numbers is, at the end of shared memory.
Value emitNumberAddress(OpBuilder &builder, Location loc,
                        const KernelContext &context);

/// Where steps are masked under a condition, tells LLVM that few are, so that
/// what masks stands in nobody's way.
void expectFewMasks(attn_tile::KernelOp kernel);

/// Products started between the start of the one `wait` waits for and `wait`,
/// as far as they are known: they may still be in flight after it.
int64_t countNewerProducts(Operation *wait, Value pending);

/// Replaces the roles of a function by a chain of conditions on the warpgroup.
/// Roles in `takingTurns` have waited for turns.
void lowerRoles(LLVM::LLVMFuncOp function, const KernelContext &context,
                const DenseSet<Operation *> &takingTurns);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTILETONVVM_KERNELLOWERING_H
