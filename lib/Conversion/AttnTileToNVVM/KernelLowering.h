//===- KernelLowering.h - Lowering of one kernel ---------------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Shared parts of the patterns that lower a kernel to a GPU.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTILETONVVM_KERNELLOWERING_H
#define ATTN_LIB_CONVERSION_ATTNTILETONVVM_KERNELLOWERING_H

#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/IR/WarpgroupShapes.h"
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
constexpr int64_t warpsPerWarpgroup = warpgroupSize / attn_tile::warpThreads;

/// Warps of a CTA that run an `attn_tile.auxiliary_warps`.
struct IdleWarps {
  int64_t first = 0, count = 0;
};

/// The warps of each `attn_tile.auxiliary_warps` of a kernel. Operations with a
/// `warps` attribute get theirs first; the others get the remaining idle warps,
/// if any.
DenseMap<Operation *, IdleWarps> getIdleWarps(attn_tile::KernelOp kernel);

/// Whether only tiles in fragment order go through a pipe: the target's MMAs
/// and copies do not determine their layout.
bool holdsFragments(attn_tile::CreatePipeOp pipe);

inline Value createI32(OpBuilder &builder, Location loc, int64_t value) {
  return arith::ConstantIntOp::create(builder, loc, value, 32);
}

/// What the patterns need to know about the kernel they lower.
struct KernelContext {
  KernelContext(const TargetInfo &target,
                attn_tile::ThreadLayoutAttrInterface layout)
      : target(target), layout(layout) {}

  const TargetInfo &target;
  attn_tile::ThreadLayoutAttrInterface layout;
  /// Threads of the CTA.
  int64_t numThreads = 0;
  /// CTAs whose registers fit on an SM.
  int64_t ctasPerSm = 1;
  /// CTAs of a cluster.
  int64_t cluster = 1;
  /// Threads that fill and read stages.
  StageThreads stageThreads = {0, 0};
  /// Index of the thread, its warpgroup and its warp in the CTA, `i32`; the
  /// latter two are uniform across a warp.
  Value thread;
  Value warpgroup;
  Value warp;
  /// First byte of shared memory, `i32`.
  Value shared;
  /// Pointer to 16 bytes of zeros in global memory, for masked-out reads.
  Value zeros;
  /// First warpgroup of each role.
  DenseMap<Operation *, int64_t> firstWarpgroup;
  /// The warps that run each `attn_tile.auxiliary_warps`.
  DenseMap<Operation *, IdleWarps> idleWarps;
  /// Bytes of shared memory, whose end belongs to the idle warps.
  int64_t sharedBytes = 0;
  /// Offset of the counter of `attn_tile.fetch_work_item` in shared memory.
  int64_t ticketOffset = 0;
  /// Whether tiles are added to or stored in global memory through stages.
  bool copiesFromStages = false;
  /// MMAs started after the one that is waited for.
  DenseMap<Operation *, int64_t> newerMmas;
  /// Pipes whose tiles threads read by `attn_tile.read`, and so also release.
  DenseSet<Operation *> readByThreads;
  /// The number of warps that convert the tiles of a pipe, or that fill a pipe
  /// with converted tiles.
  DenseMap<Operation *, int64_t> convertingWarps, fillingWarps;
  /// Pipes of tiles in fragment order that auxiliary warps accumulate in order,
  /// and pipes whose additions an auxiliary warp counts.
  DenseSet<Operation *> addedInOrder, counted;

  /// Whether a register holds two neighbours of a row, as an `i32` whose lower
  /// half is the first one.
  bool isPacked(VectorType type) const {
    return type.getRank() == 2 && type.getDimSize(1) > 1 &&
           type.getElementType().isIntOrFloat() &&
           isa<BFloat16Type, Float16Type>(type.getElementType());
  }

  /// The warps that run the `attn_tile.auxiliary_warps` that `op` is in.
  IdleWarps getIdleWarps(Operation *op) const {
    return idleWarps.lookup(op->getParentOfType<attn_tile::AuxiliaryWarpsOp>());
  }

  /// The warps that run a conversion.
  int64_t countWarps(attn_tile::ConvertOp op) const {
    if (op->getParentOfType<attn_tile::AuxiliaryWarpsOp>())
      return getIdleWarps(op).count;
    auto role = op->getParentOfType<attn_tile::RoleOp>();
    int64_t warps = role ? role.getWarpgroups() * warpsPerWarpgroup
                         : numThreads / attn_tile::warpThreads;
    return warps - static_cast<int64_t>(op.getFirstWarp().value_or(0));
  }
  /// Index of the thread among the threads of all warps that run a conversion.
  ThreadPosition getPosition(OpBuilder &builder,
                             attn_tile::ConvertOp op) const {
    Location loc = op.getLoc();
    auto subtract = [&](Value value, int64_t amount) -> Value {
      Value constant = arith::ConstantIntOp::create(builder, loc, amount, 32);
      return arith::SubIOp::create(builder, loc, value, constant);
    };
    bool isIdle = bool(op->getParentOfType<attn_tile::AuxiliaryWarpsOp>());
    ThreadPosition position{thread, warpgroup, warp, numThreads};
    if (!isIdle)
      position = getPosition(builder, op.getOperation());
    int64_t first = isIdle
                        ? getIdleWarps(op).first
                        : static_cast<int64_t>(op.getFirstWarp().value_or(0));
    return {subtract(position.thread, first * attn_tile::warpThreads),
            position.warpgroup, subtract(position.warp, first),
            countWarps(op) * attn_tile::warpThreads};
  }

  int64_t getRows(VectorType type) const {
    return layout.getRowRegisters(type.getDimSize(0));
  }
  int64_t getColumns(VectorType type) const {
    return type.getRank() == 1 ? 1
                               : layout.getColumnRegisters(type.getDimSize(1));
  }

  /// Index of the thread within the role of `op`; within its warp in
  /// `attn_tile.auxiliary_warps`, where each warp acts as a CTA.
  ThreadPosition getPosition(OpBuilder &builder, Operation *op) const {
    if (op->getParentOfType<attn_tile::AuxiliaryWarpsOp>()) {
      Location loc = op->getLoc();
      auto constant = [&](int64_t value) -> Value {
        return arith::ConstantIntOp::create(builder, loc, value, 32);
      };
      Value lane = arith::AndIOp::create(builder, loc, thread,
                                         constant(attn_tile::warpThreads - 1));
      return {lane, constant(0), constant(0), attn_tile::warpThreads};
    }
    auto role = op->getParentOfType<attn_tile::RoleOp>();
    int64_t first = role ? firstWarpgroup.lookup(role) : 0;
    int64_t count = role ? role.getWarpgroups() * warpgroupSize : numThreads;
    Location loc = op->getLoc();
    // Where one warpgroup holds tiles, each one of a role holds them.
    if (role && role.getWarpgroups() > 1 &&
        layout.getNumThreads() == warpgroupSize) {
      auto modulo = [&](Value value, int64_t number) -> Value {
        return arith::AndIOp::create(builder, loc, value,
                                     createI32(builder, loc, number - 1));
      };
      Value inRole = warpgroup;
      if (first != 0)
        inRole = arith::SubIOp::create(builder, loc, warpgroup,
                                       createI32(builder, loc, first));
      return {modulo(thread, warpgroupSize), inRole,
              modulo(warp, warpsPerWarpgroup), warpgroupSize};
    }
    if (first == 0)
      return {thread, warpgroup, warp, count};
    auto subtract = [&](Value value, int64_t amount) -> Value {
      return arith::SubIOp::create(builder, loc, value,
                                   createI32(builder, loc, amount));
    };
    return {subtract(thread, first * warpgroupSize), subtract(warpgroup, first),
            subtract(warp, first * warpsPerWarpgroup), count};
  }
};

/// Converts a keep mask to the words that one thread holds.
std::optional<LogicalResult> convertKeepMask(const KernelContext &context,
                                             attn_tile::KeepMaskType type,
                                             SmallVectorImpl<Type> &types);

/// Converts mask bits to the words that one thread holds.
std::optional<LogicalResult> convertMaskBits(const KernelContext &context,
                                             attn_tile::MaskBitsType type,
                                             SmallVectorImpl<Type> &types);

/// Converts types to the registers that one thread holds.
class TileTypeConverter : public TypeConverter {
public:
  explicit TileTypeConverter(const KernelContext &context) {
    addConversion([](Type type) { return type; });
    // LLVM has no 8-bit floats.
    addConversion([](FloatType type) -> Type {
      return attn::isFloat8(type) ? Type(IntegerType::get(type.getContext(), 8))
                                  : type;
    });
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
        [&context](attn_tile::KeepMaskType type, SmallVectorImpl<Type> &types)
            -> std::optional<LogicalResult> {
          return convertKeepMask(context, type, types);
        });
    addConversion(
        [&context](attn_tile::MaskBitsType type, SmallVectorImpl<Type> &types)
            -> std::optional<LogicalResult> {
          return convertMaskBits(context, type, types);
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
    constexpr int64_t registerBits = 32, float8sOfRegister = 4;
    bool isFloat8 = attn::isFloat8(type.getElementType());
    if (isFloat8 && context.getColumns(type) % float8sOfRegister != 0)
      return failure();
    if (context.isPacked(type) || isFloat8)
      types.append(count * type.getElementTypeBitWidth() / registerBits,
                   IntegerType::get(type.getContext(), registerBits));
    else
      types.append(count, type.getElementType());
    return success();
  }
};

/// Reports that `op` needs a capability that `target` lacks.
inline LogicalResult emitMissing(Operation *op, StringRef capability,
                                 const TargetInfo &target) {
  return op->emitOpError("needs ")
         << capability << ", which " << target.getName() << " does not have";
}

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

/// The words of pairs of 16-bit values.
inline SmallVector<Value> packPairs(OpBuilder &builder, Location loc,
                                    Type element, ValueRange values) {
  SmallVector<Value> words;
  auto halves = VectorType::get(2, element);
  for (size_t first = 0; first < values.size(); first += 2) {
    Value pair = LLVM::PoisonOp::create(builder, loc, halves);
    for (int half : {0, 1})
      pair = LLVM::InsertElementOp::create(builder, loc, pair,
                                           values[first + half],
                                           createI32(builder, loc, half));
    words.push_back(
        LLVM::BitcastOp::create(builder, loc, builder.getI32Type(), pair));
  }
  return words;
}

/// Rounds two f32 values to a word whose lower half is the first one.
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

/// Transposes the 4x4 words of a quad of threads: word `k` of thread `q`
/// becomes word `q` of thread `k`.
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

/// The first column of the group of eight columns that a thread holds after, or
/// before, a quad transpose of pairs: four times the base column of a pair.
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

/// Emits whether a memref has no elements, and its pointer may therefore be
/// invalid; null if its type has no dynamic sizes.
inline Value emitIsEmpty(OpBuilder &builder, Location loc,
                         const LoweredMemRef &memref) {
  Value isEmpty;
  for (int64_t dim = 0, e = memref.type.getRank(); dim < e; ++dim) {
    if (!memref.type.isDynamicDim(dim))
      continue;
    Value size = memref.getSize(builder, loc, dim);
    Value zero = arith::ConstantIntOp::create(builder, loc, 0, 64);
    Value none = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                       size, zero);
    isEmpty =
        isEmpty ? arith::OrIOp::create(builder, loc, isEmpty, none).getResult()
                : none;
  }
  return isEmpty;
}

/// Whether a tile, whose columns begin at `firstColumn`, never exceeds the
/// columns of the memref.
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

/// Inversion of triangular tiles.
void populateInversePatterns(RewritePatternSet &patterns,
                             const TypeConverter &converter,
                             const KernelContext &context);

/// Dropout of attention probabilities.
void populateDropoutPatterns(RewritePatternSet &patterns,
                             const TypeConverter &converter,
                             const KernelContext &context);

/// Masks as bits.
void populateMaskBitsPatterns(RewritePatternSet &patterns,
                              const TypeConverter &converter,
                              const KernelContext &context);

/// Loads of global memory, and tiles in fragment order.
void populateMemoryPatterns(RewritePatternSet &patterns,
                            const TypeConverter &converter,
                            const KernelContext &context);

/// Stores of tiles to global memory.
void populateStorePatterns(RewritePatternSet &patterns,
                           const TypeConverter &converter,
                           const KernelContext &context);

/// Pipes and the matmuls that read them.
void populatePipePatterns(RewritePatternSet &patterns,
                          const TypeConverter &converter,
                          const KernelContext &context);

/// Semaphores, and the work of auxiliary warps on tiles in fragment order.
void populateSemaphorePatterns(RewritePatternSet &patterns,
                               const TypeConverter &converter,
                               const KernelContext &context);

/// Scalar regions over ranges of numbers.
void populateThreadPatterns(RewritePatternSet &patterns,
                            const TypeConverter &converter,
                            const KernelContext &context);

/// Ping-pong between warpgroups.
void populateRolePatterns(RewritePatternSet &patterns,
                          const TypeConverter &converter,
                          const KernelContext &context);

/// Whether warps of the kernel fetch work items by an atomic ticket.
bool fetchesWorkItems(attn_tile::KernelOp kernel);
/// The offset of the ticket counter in `sharedBytes` bytes of shared memory:
/// before the part of the idle warps.
int64_t getTicketOffset(attn_tile::KernelOp kernel, int64_t sharedBytes);

/// The address of the ticket counter in shared memory.
Value emitTicketAddress(OpBuilder &builder, Location loc,
                        const KernelContext &context);

/// Tells LLVM that conditional masking is rare, so that it moves the masking
/// code out of the way.
void expectFewMasks(attn_tile::KernelOp kernel);

/// Counts MMAs started between the MMA that `wait` waits for and `wait`, as far
/// as they are known: they may still be in flight after it.
int64_t countNewerMmas(Operation *wait, Value pending);

/// Replaces the roles of a function by a chain of conditions on the warpgroup.
/// Roles in `pingpongRoles` take part in ping-pong.
void lowerRoles(LLVM::LLVMFuncOp function, const KernelContext &context,
                const DenseSet<Operation *> &pingpongRoles);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTILETONVVM_KERNELLOWERING_H
