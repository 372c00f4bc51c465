//===- AttnTileToNVVM.cpp - Kernels to NVVM -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lowers kernels on tiles to what each thread of a GPU does. What depends on the
// architecture is asked of the target; how tiles are spread over threads is asked
// of the kernel's layout.
//
//===----------------------------------------------------------------------===//

#include "attn/Conversion/AttnTileToNVVM/AttnTileToNVVM.h"
#include "attn/Conversion/Passes.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Target/TargetInfo.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Transforms/Patterns.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/DialectConversion.h"

namespace mlir::attn {
#define GEN_PASS_DEF_CONVERTATTNTILETONVVMPASS
#include "attn/Conversion/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;
using namespace mlir::attn_tile;

static constexpr int64_t warpgroupSize = 128;

//===----------------------------------------------------------------------===//
// Context of one kernel
//===----------------------------------------------------------------------===//

namespace {
/// What the patterns need to know of the kernel they are in.
struct KernelContext {
  KernelContext(const TargetInfo &target, ThreadLayoutAttrInterface layout)
      : target(target), layout(layout) {}

  const TargetInfo &target;
  ThreadLayoutAttrInterface layout;
  /// Threads of the group.
  int64_t numThreads = 0;
  /// Warpgroups that release stages.
  int64_t numConsumers = 0;
  /// Index of the thread and of its warpgroup in the group, `i32`; the latter
  /// is the same in all threads of a warp.
  Value thread;
  Value warpgroup;
  /// First byte of shared memory, `i32`.
  Value shared;
  /// First warpgroup of each role.
  DenseMap<Operation *, int64_t> firstWarpgroup;
  /// Products started after the one that is waited for.
  DenseMap<Operation *, int64_t> newerProducts;

  bool isPacked(VectorType type) const {
    return type.getRank() == 2 && type.getDimSize(1) > 1 &&
           type.getElementType().isIntOrFloat() &&
           isa<BFloat16Type, Float16Type>(type.getElementType());
  }

  int64_t getRows(VectorType type) const {
    return layout.getRowRegisters(type.getDimSize(0));
  }
  int64_t getColumns(VectorType type) const {
    return type.getRank() == 1 ? 1
                               : layout.getColumnRegisters(type.getDimSize(1));
  }

  /// Index of the thread within the role that `op` is in.
  ThreadPosition getPosition(OpBuilder &builder, Operation *op) const {
    auto role = op->getParentOfType<RoleOp>();
    int64_t first = role ? firstWarpgroup.lookup(role) : 0;
    if (first == 0)
      return {thread, warpgroup};
    Location loc = op->getLoc();
    auto subtract = [&](Value value, int64_t amount) -> Value {
      Value constant =
          arith::ConstantIntOp::create(builder, loc, amount, 32);
      return arith::SubIOp::create(builder, loc, value, constant);
    };
    return {subtract(thread, first * warpgroupSize),
            subtract(warpgroup, first)};
  }
};

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
    addConversion([&context](PendingType type, SmallVectorImpl<Type> &types)
                      -> std::optional<LogicalResult> {
      return convertTile(context, type.getValueType(), types);
    });
    addConversion([](BufferType type, SmallVectorImpl<Type> &types)
                      -> std::optional<LogicalResult> {
      types.append(3, IntegerType::get(type.getContext(), 32));
      return success();
    });
    // Address of the first stage and of its barriers.
    addConversion([](PipeType type, SmallVectorImpl<Type> &types)
                      -> std::optional<LogicalResult> {
      types.append(2, IntegerType::get(type.getContext(), 32));
      return success();
    });
    addConversion([](TensorMapType type) -> Type {
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
      types.append(count / 2, VectorType::get(2, type.getElementType()));
    else
      types.append(count, type.getElementType());
    return success();
  }
};

/// A memref after conversion.
struct LoweredMemRef {
  LoweredMemRef(MemRefType type, ValueRange values)
      : type(type), values(values) {}

  Value getPointer() const { return values.front(); }

  Value getSize(OpBuilder &builder, Location loc, int64_t dim) const {
    if (type.isDynamicDim(dim))
      return values[1 + dim];
    return arith::ConstantIntOp::create(builder, loc, type.getDimSize(dim), 64);
  }

  /// The last stride, when dynamic, is 1: callers of kernels check that.
  Value getStride(OpBuilder &builder, Location loc, int64_t dim) const {
    SmallVector<int64_t> strides;
    int64_t offset;
    bool known = succeeded(type.getStridesAndOffset(strides, offset));
    int64_t stride = known ? strides[dim] : ShapedType::kDynamic;
    if (dim == type.getRank() - 1 && ShapedType::isDynamic(stride))
      stride = 1;
    if (ShapedType::isDynamic(stride))
      return values[1 + type.getRank() + dim];
    return arith::ConstantIntOp::create(builder, loc, stride, 64);
  }

  /// Pointer in global memory to the element at `indices` (`i32`).
  Value emitAddress(OpBuilder &builder, Location loc,
                    ValueRange indices) const {
    Type i64 = builder.getI64Type();
    Value offset;
    for (auto [dim, index] : llvm::enumerate(indices)) {
      Value wide = arith::ExtSIOp::create(builder, loc, i64, index);
      Value stride = getStride(builder, loc, dim);
      Value term = arith::MulIOp::create(builder, loc, wide, stride);
      offset = offset ? arith::AddIOp::create(builder, loc, offset, term)
                            .getResult()
                      : term;
    }
    auto global = LLVM::LLVMPointerType::get(builder.getContext(),
                                             static_cast<unsigned>(NVVM::NVVMMemorySpace::Global));
    Value base =
        LLVM::AddrSpaceCastOp::create(builder, loc, global, getPointer());
    if (!offset)
      return base;
    return LLVM::GEPOp::create(builder, loc, global, type.getElementType(),
                               base, offset);
  }

  MemRefType type;
  ValueRange values;
};

//===----------------------------------------------------------------------===//
// Patterns on scalars and tiles
//===----------------------------------------------------------------------===//

/// Base of patterns that need the kernel's context.
template <typename OpTy>
struct KernelPattern : public OpConversionPattern<OpTy> {
  KernelPattern(const TypeConverter &converter, MLIRContext *mlirContext,
                const KernelContext &context, PatternBenefit benefit = 1)
      : OpConversionPattern<OpTy>(converter, mlirContext, benefit),
        context(context) {}

  using OneToNOpAdaptor =
      typename OpConversionPattern<OpTy>::OneToNOpAdaptor;

  const KernelContext &context;
};

/// Whether `type` is a tile, whose conversion is a list of registers.
static bool isTile(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  return vector && vector.getRank() <= 2;
}

static Value createI32(OpBuilder &builder, Location loc, int64_t value) {
  return arith::ConstantIntOp::create(builder, loc, value, 32);
}

/// Creates `op` again with other operands and result types.
static Operation *recreate(OpBuilder &builder, Operation *op,
                           ValueRange operands, TypeRange types) {
  OperationState state(op->getLoc(), op->getName());
  state.addOperands(operands);
  state.addTypes(types);
  state.addAttributes(op->getAttrs());
  return builder.create(state);
}

/// An elementwise operation on tiles is one operation for each register; one
/// on scalars is itself, with converted types.
struct ElementwiseLowering : public ConversionPattern {
  ElementwiseLowering(const TypeConverter &converter, MLIRContext *mlirContext,
                      const KernelContext &context)
      : ConversionPattern(converter, MatchAnyOpTypeTag(), /*benefit=*/1,
                          mlirContext),
        context(context) {}

  LogicalResult
  matchAndRewrite(Operation *op, ArrayRef<ValueRange> operands,
                  ConversionPatternRewriter &rewriter) const override {
    if (!op->hasTrait<OpTrait::Elementwise>() || op->getNumResults() != 1)
      return rewriter.notifyMatchFailure(op, "not elementwise");
    for (Type type : llvm::concat<Type>(llvm::to_vector(op->getOperandTypes()),
                                        llvm::to_vector(op->getResultTypes())))
      if (isTile(type) && context.isPacked(cast<VectorType>(type)))
        return rewriter.notifyMatchFailure(
            op, "elementwise work on tiles of 16-bit values is not lowered");
    SmallVector<Type> types;
    if (failed(typeConverter->convertType(op->getResult(0).getType(), types)))
      return rewriter.notifyMatchFailure(op, "tile does not fit the layout");
    SmallVector<Value> results;
    for (auto [i, type] : llvm::enumerate(types)) {
      SmallVector<Value> scalars;
      for (ValueRange operand : operands)
        scalars.push_back(operand.size() == 1 ? operand[0] : operand[i]);
      results.push_back(
          recreate(rewriter, op, scalars, type)->getResult(0));
    }
    rewriter.replaceOpWithMultiple(op, SmallVector<SmallVector<Value>>{results});
    return success();
  }

  const KernelContext &context;
};

struct ConstantLowering : public KernelPattern<arith::ConstantOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(arith::ConstantOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    if (op.getType().isIndex()) {
      int64_t value = cast<IntegerAttr>(op.getValue()).getInt();
      if (!llvm::isInt<32>(value))
        return rewriter.notifyMatchFailure(op, "index beyond 32 bits");
      rewriter.replaceOp(op, createI32(rewriter, loc, value));
      return success();
    }
    auto dense = dyn_cast<DenseElementsAttr>(op.getValue());
    if (!dense || !dense.isSplat())
      return rewriter.notifyMatchFailure(op, "tile constant is not a splat");
    SmallVector<Type> types;
    if (failed(typeConverter->convertType(op.getType(), types)))
      return rewriter.notifyMatchFailure(op, "tile does not fit the layout");
    TypedAttr value = dense.getSplatValue<TypedAttr>();
    if (auto pair = dyn_cast<VectorType>(types.front()))
      value = DenseElementsAttr::get(pair, Attribute(value));
    Value constant = arith::ConstantOp::create(rewriter, loc, value);
    SmallVector<Value> results(types.size(), constant);
    rewriter.replaceOpWithMultiple(op, SmallVector<SmallVector<Value>>{results});
    return success();
  }
};

/// Index is `i32`.
template <typename CastOp, typename ExtendOp>
struct IndexCastLowering : public OpConversionPattern<CastOp> {
  using OpConversionPattern<CastOp>::OpConversionPattern;

  LogicalResult
  matchAndRewrite(CastOp op, typename CastOp::Adaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Type type = this->getTypeConverter()->convertType(op.getType());
    unsigned from = adaptor.getIn().getType().getIntOrFloatBitWidth();
    unsigned to = type.getIntOrFloatBitWidth();
    if (from == to)
      rewriter.replaceOp(op, adaptor.getIn());
    else if (from < to)
      rewriter.replaceOpWithNewOp<ExtendOp>(op, type, adaptor.getIn());
    else
      rewriter.replaceOpWithNewOp<arith::TruncIOp>(op, type, adaptor.getIn());
    return success();
  }
};

/// f32 to pairs of 16-bit values, rounded to nearest even.
struct TruncTileLowering : public KernelPattern<arith::TruncFOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(arith::TruncFOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto type = dyn_cast<VectorType>(op.getType());
    if (!type || !isTile(type) || !context.isPacked(type) ||
        !cast<VectorType>(op.getIn().getType()).getElementType().isF32())
      return rewriter.notifyMatchFailure(op, "not f32 to a 16-bit tile");
    Type element = type.getElementType();
    StringRef intrinsic = isa<BFloat16Type>(element)
                              ? "llvm.nvvm.ff2bf16x2.rn"
                              : "llvm.nvvm.ff2f16x2.rn";
    ValueRange in = adaptor.getIn();
    SmallVector<Value> pairs;
    // The first operand of the intrinsic is the upper half.
    for (unsigned i = 0; i < in.size(); i += 2)
      pairs.push_back(LLVM::CallIntrinsicOp::create(
                          rewriter, op.getLoc(), VectorType::get(2, element),
                          rewriter.getStringAttr(intrinsic),
                          ValueRange{in[i + 1], in[i]})
                          .getResults());
    rewriter.replaceOpWithMultiple(op, SmallVector<SmallVector<Value>>{pairs});
    return success();
  }
};

struct ExtendTileLowering : public KernelPattern<arith::ExtFOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(arith::ExtFOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto type = dyn_cast<VectorType>(op.getIn().getType());
    if (!type || !isTile(type) || !context.isPacked(type))
      return rewriter.notifyMatchFailure(op, "not a 16-bit tile");
    Type element = cast<VectorType>(op.getType()).getElementType();
    Location loc = op.getLoc();
    SmallVector<Value> results;
    for (Value pair : adaptor.getIn())
      for (int64_t half : {0, 1}) {
        Value value = LLVM::ExtractElementOp::create(
            rewriter, loc, pair, createI32(rewriter, loc, half));
        results.push_back(arith::ExtFOp::create(rewriter, loc, element, value));
      }
    rewriter.replaceOpWithMultiple(op, SmallVector<SmallVector<Value>>{results});
    return success();
  }
};

/// exp2 of f32 is one instruction, with a relative error below 2^-22.
struct Exp2Lowering : public KernelPattern<math::Exp2Op> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(math::Exp2Op op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!getElementTypeOrSelf(op.getType()).isF32())
      return rewriter.notifyMatchFailure(op, "not f32");
    SmallVector<Value> results;
    for (Value value : adaptor.getOperand())
      results.push_back(
          LLVM::CallIntrinsicOp::create(
              rewriter, op.getLoc(), value.getType(),
              rewriter.getStringAttr("llvm.nvvm.ex2.approx.ftz.f"), value)
              .getResults());
    rewriter.replaceOpWithMultiple(op, SmallVector<SmallVector<Value>>{results});
    return success();
  }
};

/// A butterfly exchange of an f32 between threads of a warp.
static Value emitShuffle(OpBuilder &builder, Location loc, Value value,
                         int64_t laneMask) {
  return NVVM::ShflOp::create(builder, loc, value.getType(),
                              createI32(builder, loc, -1), value,
                              createI32(builder, loc, laneMask),
                              createI32(builder, loc, 31),
                              NVVM::ShflKind::bfly, UnitAttr());
}

/// Reduces rows: within each thread, then between the threads of a row.
struct ReductionLowering : public KernelPattern<vector::MultiDimReductionOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(vector::MultiDimReductionOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    VectorType type = op.getSourceVectorType();
    if (!isTile(type) || type.getRank() != 2 ||
        op.getReductionDims() != ArrayRef<int64_t>{1} ||
        !type.getElementType().isF32())
      return rewriter.notifyMatchFailure(op, "not a row reduction of f32");
    int64_t columns = context.getColumns(type);
    ValueRange source = adaptor.getSource();
    auto combine = [&](Value lhs, Value rhs) {
      return vector::makeArithReduction(rewriter, loc, op.getKind(), lhs, rhs);
    };
    SmallVector<Value> results;
    for (int64_t row = 0, e = context.getRows(type); row < e; ++row) {
      // Two chains of half the length.
      SmallVector<Value, 2> chains;
      for (int64_t i = 0; i < columns; ++i) {
        Value value = source[row * columns + i];
        if (i < 2)
          chains.push_back(value);
        else
          chains[i % 2] = combine(chains[i % 2], value);
      }
      Value result =
          chains.size() == 2 ? combine(chains[0], chains[1]) : chains[0];
      for (int64_t mask : context.layout.getRowShuffles())
        result = combine(result, emitShuffle(rewriter, loc, result, mask));
      results.push_back(combine(result, adaptor.getAcc()[row]));
    }
    rewriter.replaceOpWithMultiple(op, SmallVector<SmallVector<Value>>{results});
    return success();
  }
};

/// A vector of rows and a tile of one column are the same registers.
struct ShapeCastLowering : public KernelPattern<vector::ShapeCastOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(vector::ShapeCastOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto isRows = [](VectorType type) {
      return type.getRank() == 1 ||
             (type.getRank() == 2 && type.getDimSize(1) == 1);
    };
    if (!isRows(op.getSourceVectorType()) || !isRows(op.getResultVectorType()))
      return rewriter.notifyMatchFailure(op, "not a change of a row vector");
    rewriter.replaceOpWithMultiple(op, {adaptor.getSource()});
    return success();
  }
};

struct BroadcastLowering : public KernelPattern<vector::BroadcastOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(vector::BroadcastOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    VectorType type = op.getResultVectorType();
    auto sourceType = dyn_cast<VectorType>(op.getSourceType());
    if (!isTile(type) || context.isPacked(type))
      return rewriter.notifyMatchFailure(op, "not a tile of 32-bit values");
    int64_t rows = context.getRows(type), columns = context.getColumns(type);
    ValueRange source = adaptor.getSource();
    SmallVector<Value> results;
    if (!sourceType) {
      results.assign(rows * columns, source.front());
    } else if (sourceType.getRank() == 2 && sourceType.getDimSize(1) == 1) {
      for (int64_t row = 0; row < rows; ++row)
        results.append(columns, source[row]);
    } else {
      return rewriter.notifyMatchFailure(op, "not a broadcast along columns");
    }
    rewriter.replaceOpWithMultiple(op, SmallVector<SmallVector<Value>>{results});
    return success();
  }
};

struct PartialSumLowering : public KernelPattern<PartialSumOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(PartialSumOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto sourceType = cast<VectorType>(op.getSource().getType());
    auto accType = cast<VectorType>(op.getAcc().getType());
    int64_t columns = context.getColumns(sourceType);
    int64_t partials = context.getColumns(accType);
    // A thread's columns must repeat with the period of the accumulator.
    for (int64_t i = 0; i < columns; ++i)
      if (context.layout.getColumnOffset(i) % accType.getDimSize(1) !=
          context.layout.getColumnOffset(i % partials))
        return rewriter.notifyMatchFailure(
            op, "partial sums are spread over threads");
    SmallVector<Value> results(adaptor.getAcc());
    for (int64_t row = 0, e = context.getRows(sourceType); row < e; ++row)
      for (int64_t i = 0; i < columns; ++i) {
        Value &sum = results[row * partials + i % partials];
        sum = arith::AddFOp::create(rewriter, op.getLoc(), sum,
                                    adaptor.getSource()[row * columns + i]);
      }
    rewriter.replaceOpWithMultiple(op, SmallVector<SmallVector<Value>>{results});
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Scores by position
//===----------------------------------------------------------------------===//

/// Positions of the elements of a tile, as values of type `index`: operations
/// on them are lowered like all others.
struct TilePositions {
  template <typename OpTy>
  TilePositions(OpBuilder &builder, OpTy op, const KernelContext &context)
      : builder(builder), loc(op.getLoc()), context(context) {
    Value thread = context.getPosition(builder, op).thread;
    baseRow = emitBase(op.getFirstQuery(),
                       context.layout.emitBaseRow(builder, loc, thread));
    baseColumn = emitBase(op.getFirstKey(),
                          context.layout.emitBaseColumn(builder, loc, thread));
  }

  Value getRow(int64_t r) {
    return emitOffset(baseRow, context.layout.getRowOffset(r));
  }
  Value getColumn(int64_t c) {
    return emitOffset(baseColumn, context.layout.getColumnOffset(c));
  }

private:
  Value emitBase(Value first, Value base) {
    Value index = arith::IndexCastOp::create(builder, loc,
                                             builder.getIndexType(), base);
    return arith::AddIOp::create(builder, loc, first, index);
  }
  Value emitOffset(Value base, int64_t offset) {
    if (offset == 0)
      return base;
    Value constant = arith::ConstantIndexOp::create(builder, loc, offset);
    return arith::AddIOp::create(builder, loc, base, constant);
  }

  OpBuilder &builder;
  Location loc;
  const KernelContext &context;
  Value baseRow;
  Value baseColumn;
};

/// Clones the body of a scalar region; returns what it yields.
static Value inlineScalarRegion(OpBuilder &builder, Region &region,
                                ValueRange arguments) {
  IRMapping mapping;
  mapping.map(region.getArguments(), arguments);
  for (Operation &op : region.front().without_terminator())
    builder.clone(op, mapping);
  auto yield = cast<attn_tile::YieldOp>(region.front().getTerminator());
  return mapping.lookupOrDefault(yield.getValue());
}

/// Positions beyond the lengths must not be read from captured arrays; they
/// stand for the last valid position instead, whose element is not used.
static Value clampPosition(OpBuilder &builder, Location loc, Region &region,
                           Value position, Value length) {
  bool reads = region.walk([](memref::LoadOp) {
                       return WalkResult::interrupt();
                     }).wasInterrupted();
  if (!reads)
    return position;
  Value one = arith::ConstantIndexOp::create(builder, loc, 1);
  Value last = arith::SubIOp::create(builder, loc, length, one);
  return arith::MinSIOp::create(builder, loc, position, last);
}

struct MapLowering : public KernelPattern<MapOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(MapOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto type = cast<VectorType>(op.getSource().getType());
    Location loc = op.getLoc();
    TilePositions positions(rewriter, op, context);
    SmallVector<Value> results;
    int64_t columns = context.getColumns(type);
    for (int64_t r = 0, e = context.getRows(type); r < e; ++r) {
      Value query = clampPosition(rewriter, loc, op.getBody(),
                                  positions.getRow(r), op.getQueryLength());
      for (int64_t c = 0; c < columns; ++c) {
        Value key = clampPosition(rewriter, loc, op.getBody(),
                                  positions.getColumn(c), op.getKeyLength());
        results.push_back(inlineScalarRegion(
            rewriter, op.getBody(),
            {adaptor.getSource()[r * columns + c], op.getBatch(), op.getHead(),
             query, key}));
      }
    }
    rewriter.replaceOpWithMultiple(op, SmallVector<SmallVector<Value>>{results});
    return success();
  }
};

struct MaskLowering : public KernelPattern<MaskOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(MaskOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto type = cast<VectorType>(op.getSource().getType());
    Location loc = op.getLoc();
    TilePositions positions(rewriter, op, context);
    auto floatType = cast<FloatType>(type.getElementType());
    Value masked = arith::ConstantFloatOp::create(
        rewriter, loc, floatType,
        APFloat::getInf(floatType.getFloatSemantics(), /*Negative=*/true));
    SmallVector<Value> results;
    int64_t columns = context.getColumns(type);
    for (int64_t r = 0, e = context.getRows(type); r < e; ++r) {
      Value query = positions.getRow(r);
      for (int64_t c = 0; c < columns; ++c) {
        Value key = positions.getColumn(c);
        Value keep =
            arith::CmpIOp::create(rewriter, loc, arith::CmpIPredicate::slt,
                                  key, op.getKeyLength());
        auto restrict = [&](Value condition) {
          keep = arith::AndIOp::create(rewriter, loc, keep, condition);
        };
        if (MaskAttrInterface mask = op.getMaskAttr())
          restrict(mask.emitPredicate(rewriter, loc,
                                      {op.getBatch(), op.getHead(), query, key,
                                       op.getQueryLength(),
                                       op.getKeyLength()}));
        if (!op.getKeep().empty())
          restrict(inlineScalarRegion(
              rewriter, op.getKeep(),
              {op.getBatch(), op.getHead(),
               clampPosition(rewriter, loc, op.getKeep(), query,
                             op.getQueryLength()),
               clampPosition(rewriter, loc, op.getKeep(), key,
                             op.getKeyLength())}));
        results.push_back(arith::SelectOp::create(
            rewriter, loc, keep, adaptor.getSource()[r * columns + c], masked));
      }
    }
    rewriter.replaceOpWithMultiple(op, SmallVector<SmallVector<Value>>{results});
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

struct DimLowering : public KernelPattern<memref::DimOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(memref::DimOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto type = dyn_cast<MemRefType>(op.getSource().getType());
    std::optional<int64_t> dim = op.getConstantIndex();
    if (!type || !dim || *dim >= type.getRank())
      return rewriter.notifyMatchFailure(op, "not a known dimension");
    LoweredMemRef memref(type, adaptor.getSource());
    Value size = memref.getSize(rewriter, op.getLoc(), *dim);
    rewriter.replaceOpWithNewOp<arith::TruncIOp>(op, rewriter.getI32Type(),
                                                 size);
    return success();
  }
};

struct ElementLoadLowering : public KernelPattern<memref::LoadOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(memref::LoadOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    SmallVector<Value> indices;
    for (ValueRange index : adaptor.getIndices())
      indices.push_back(index.front());
    LoweredMemRef memref(op.getMemRefType(), adaptor.getMemref());
    Value address = memref.emitAddress(rewriter, op.getLoc(), indices);
    // Booleans and indices are stored as bytes and 64-bit words.
    Type type = op.getType();
    Type stored = type;
    if (type.isInteger(1))
      stored = rewriter.getI8Type();
    else if (type.isIndex())
      stored = rewriter.getI64Type();
    Value value =
        LLVM::LoadOp::create(rewriter, op.getLoc(), stored, address);
    Type converted = typeConverter->convertType(type);
    if (stored != converted)
      value =
          arith::TruncIOp::create(rewriter, op.getLoc(), converted, value);
    rewriter.replaceOp(op, value);
    return success();
  }
};

/// Emits `i32` indices whose last two are the position of an element of a tile
/// (the last one, of an element of a row vector).
static SmallVector<Value> getElementIndices(ValueRange first, unsigned tileRank,
                                            Value row, Value column) {
  SmallVector<Value> indices(first);
  indices[indices.size() - tileRank] = row;
  if (tileRank == 2)
    indices.back() = column;
  return indices;
}

/// First of each operand's values.
static SmallVector<Value> getSingleValues(ArrayRef<ValueRange> operands) {
  return llvm::map_to_vector(operands,
                             [](ValueRange range) { return range.front(); });
}

static Value emitAdd(OpBuilder &builder, Location loc, Value lhs, int64_t rhs) {
  if (rhs == 0)
    return lhs;
  return arith::AddIOp::create(builder, loc, lhs,
                               createI32(builder, loc, rhs));
}

static Value emitLess(OpBuilder &builder, Location loc, Value lhs, Value rhs) {
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, lhs,
                               rhs);
}

/// Transposes the 4x4 words of a quad of threads: thread `q` gives word `k` to
/// thread `k`, as its word `q`.
static void emitQuadTranspose(OpBuilder &builder, Location loc, Value thread,
                              MutableArrayRef<Value> words) {
  for (int64_t bit : {2, 1}) {
    Value mask = createI32(builder, loc, bit);
    Value high = arith::CmpIOp::create(
        builder, loc, arith::CmpIPredicate::ne,
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

/// Emits the body of `if (condition)`.
static void emitIf(OpBuilder &builder, Location loc, Value condition,
                   function_ref<void(OpBuilder &)> emitBody) {
  auto ifOp = scf::IfOp::create(builder, loc, condition, /*withElse=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(ifOp.thenYield());
  emitBody(builder);
}

struct StoreLowering : public KernelPattern<StoreOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(StoreOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    auto type = cast<VectorType>(op.getValue().getType());
    auto memrefType = cast<MemRefType>(op.getDest().getType());
    LoweredMemRef memref(memrefType, adaptor.getDest());
    SmallVector<Value> first = getSingleValues(adaptor.getIndices());
    Value thread = context.getPosition(rewriter, op).thread;
    Value baseRow = arith::AddIOp::create(
        rewriter, loc, first[first.size() - type.getRank()],
        context.layout.emitBaseRow(rewriter, loc, thread));
    Value baseColumn =
        context.layout.emitBaseColumn(rewriter, loc, thread);
    Type i32 = rewriter.getI32Type();
    Value numRows = arith::TruncIOp::create(
        rewriter, loc, i32,
        memref.getSize(rewriter, loc, memrefType.getRank() - type.getRank()));

    for (int64_t r = 0, e = context.getRows(type); r < e; ++r) {
      Value row =
          emitAdd(rewriter, loc, baseRow, context.layout.getRowOffset(r));
      Value inside = emitLess(rewriter, loc, row, numRows);
      if (type.getRank() == 1) {
        // All threads of the row have the value; the first one stores it.
        Value isFirst = arith::CmpIOp::create(
            rewriter, loc, arith::CmpIPredicate::eq, baseColumn,
            createI32(rewriter, loc, 0));
        inside = arith::AndIOp::create(rewriter, loc, inside, isFirst);
      }
      int64_t perRow = adaptor.getValue().size() / e;
      ValueRange values = adaptor.getValue().slice(r * perRow, perRow);
      // Exchanges need all threads, so they stand outside of the condition.
      SmallVector<Chunk> chunks =
          getChunks(rewriter, loc, type, values, thread, baseColumn);
      emitIf(rewriter, loc, inside, [&](OpBuilder &builder) {
        for (const Chunk &chunk : chunks) {
          Value column = chunk.column;
          if (type.getRank() == 2)
            column =
                arith::AddIOp::create(builder, loc, first.back(), column);
          SmallVector<Value> indices =
              getElementIndices(first, type.getRank(), row, column);
          auto store = [&](OpBuilder &builder) {
            Value address = memref.emitAddress(builder, loc, indices);
            LLVM::StoreOp::create(builder, loc, chunk.value, address,
                                  chunk.alignment);
          };
          if (type.getRank() == 2 && !isWithinColumns(op, type, memrefType)) {
            Value numColumns = arith::TruncIOp::create(
                builder, loc, i32,
                memref.getSize(builder, loc, memrefType.getRank() - 1));
            emitIf(builder, loc, emitLess(builder, loc, column, numColumns),
                   store);
          } else {
            store(builder);
          }
        }
      });
    }
    rewriter.eraseOp(op);
    return success();
  }

private:
  /// Consecutive values of a row that a thread stores at once.
  struct Chunk {
    Value column;
    Value value;
    unsigned alignment;
  };

  /// Whether the tile never hangs over the right edge of the destination.
  static bool isWithinColumns(StoreOp op, VectorType type, MemRefType memref) {
    APInt column;
    return !memref.isDynamicDim(memref.getRank() - 1) &&
           matchPattern(op.getIndices().back(), m_ConstantInt(&column)) &&
           column.getSExtValue() + type.getDimSize(1) <=
               memref.getShape().back();
  }

  /// What this thread stores of one row.
  SmallVector<Chunk> getChunks(OpBuilder &builder, Location loc,
                               VectorType type, ValueRange values,
                               Value thread, Value baseColumn) const {
    SmallVector<Chunk> chunks;
    unsigned bytes = type.getElementTypeBitWidth() / 8;
    auto getColumn = [&](int64_t c) {
      return emitAdd(builder, loc, baseColumn,
                     context.layout.getColumnOffset(c));
    };
    if (!context.isPacked(type)) {
      for (auto [c, value] : llvm::enumerate(values))
        chunks.push_back({getColumn(c), value, bytes});
      return chunks;
    }
    // Four threads hold pairs of eight consecutive columns. Where there are
    // four such groups they exchange pairs, so that each one stores a group.
    Type i32 = builder.getI32Type();
    unsigned i = 0;
    for (; i + 4 <= values.size(); i += 4) {
      SmallVector<Value, 4> words;
      for (Value pair : values.slice(i, 4))
        words.push_back(LLVM::BitcastOp::create(builder, loc, i32, pair));
      emitQuadTranspose(builder, loc, thread, words);
      auto wordsType = VectorType::get(4, i32);
      Value vector = LLVM::PoisonOp::create(builder, loc, wordsType);
      for (auto [k, word] : llvm::enumerate(words))
        vector = LLVM::InsertElementOp::create(
            builder, loc, vector, word, createI32(builder, loc, k));
      // Thread q of the quad holds group q: column 8 * q of the four groups,
      // four times its base column.
      Value group = arith::ShLIOp::create(builder, loc, baseColumn,
                                          createI32(builder, loc, 2));
      int64_t offset = context.layout.getColumnOffset(2 * i);
      chunks.push_back({emitAdd(builder, loc, group, offset), vector, 16});
    }
    for (; i < values.size(); ++i)
      chunks.push_back({getColumn(2 * i), values[i], 2 * bytes});
    return chunks;
  }
};

//===----------------------------------------------------------------------===//
// Pipes
//===----------------------------------------------------------------------===//

static StagedTile getStagedTile(ValueRange buffer) {
  return {buffer[0], buffer[1], buffer[2]};
}

struct CreatePipeLowering : public KernelPattern<CreatePipeOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(CreatePipeOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    PipeType type = op.getPipe().getType();
    if (!op.getOffset() || !op.getBarriers())
      return rewriter.notifyMatchFailure(op, "pipe has no place");
    Value stage = emitAdd(rewriter, loc, context.shared, *op.getOffset());
    Value barriers = emitAdd(rewriter, loc, context.shared, *op.getBarriers());
    Value isFirst =
        arith::CmpIOp::create(rewriter, loc, arith::CmpIPredicate::eq,
                              context.thread, createI32(rewriter, loc, 0));
    int64_t bytes = context.target.getBarrierBytes();
    emitIf(rewriter, loc, isFirst, [&](OpBuilder &builder) {
      for (int64_t i = 0; i < type.getStages(); ++i) {
        Value full = emitAdd(builder, loc, barriers, i * bytes);
        Value empty = emitAdd(builder, loc, barriers, i * bytes + bytes / 2);
        context.target.emitInitBarriers(builder, loc, {stage, full, empty},
                                        context.numConsumers);
      }
    });
    rewriter.replaceOpWithMultiple(
        op, SmallVector<SmallVector<Value>>{{stage, barriers}});
    return success();
  }
};

/// Stage and parity of a position in a pipe.
static std::pair<Value, Value> emitStageAndParity(OpBuilder &builder,
                                                  Location loc, Value position,
                                                  int64_t stages) {
  Value stagesValue = createI32(builder, loc, stages);
  Value stage = createI32(builder, loc, 0);
  Value round = position;
  if (stages > 1) {
    round = arith::DivUIOp::create(builder, loc, position, stagesValue);
    stage = arith::RemUIOp::create(builder, loc, position, stagesValue);
  }
  Value parity =
      arith::AndIOp::create(builder, loc, round, createI32(builder, loc, 1));
  return {stage, parity};
}

/// Address of element `i` of an array.
static Value emitElement(OpBuilder &builder, Location loc, Value base, Value i,
                         int64_t stride) {
  Value offset = arith::MulIOp::create(builder, loc, i,
                                       createI32(builder, loc, stride));
  return arith::AddIOp::create(builder, loc, base, offset);
}

/// `acquire` and `wait`: find the stage, and wait for its barrier.
template <typename OpTy>
struct PipeAccessLowering : public KernelPattern<OpTy> {
  using KernelPattern<OpTy>::KernelPattern;
  using OneToNOpAdaptor = typename KernelPattern<OpTy>::OneToNOpAdaptor;

  LogicalResult
  matchAndRewrite(OpTy op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    const TargetInfo &target = this->context.target;
    PipeType type = op.getPipe().getType();
    auto [stage, parity] = emitStageAndParity(
        rewriter, loc, adaptor.getPosition().front(), type.getStages());
    Value address = emitElement(rewriter, loc, adaptor.getPipe()[0], stage,
                                target.getStageBytes(type.getBufferType()));
    Value full = emitElement(rewriter, loc, adaptor.getPipe()[1], stage,
                             target.getBarrierBytes());
    Value empty = emitAdd(rewriter, loc, full, target.getBarrierBytes() / 2);
    if (isa<AcquireOp>(op))
      target.emitAcquire(rewriter, loc, {address, full, empty}, parity,
                         type.getBufferType());
    else
      target.emitWait(rewriter, loc, {address, full, empty}, parity);
    rewriter.replaceOpWithMultiple(
        op, SmallVector<SmallVector<Value>>{{address, full, empty}});
    return success();
  }
};

struct CopyLowering : public KernelPattern<CopyOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(CopyOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (failed(context.target.emitCopy(
            rewriter, op, adaptor.getSource(),
            getSingleValues(adaptor.getIndices()),
            getStagedTile(adaptor.getBuffer()),
            context.getPosition(rewriter, op))))
      return failure();
    rewriter.eraseOp(op);
    return success();
  }
};

struct CommitLowering : public KernelPattern<CommitOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(CommitOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    context.target.emitCommit(rewriter, op.getLoc(),
                              getStagedTile(adaptor.getBuffer()));
    rewriter.eraseOp(op);
    return success();
  }
};

struct ReleaseLowering : public KernelPattern<ReleaseOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(ReleaseOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    context.target.emitRelease(rewriter, op.getLoc(),
                               getStagedTile(adaptor.getBuffer()),
                               context.getPosition(rewriter, op));
    rewriter.eraseOp(op);
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Matrix products
//===----------------------------------------------------------------------===//

struct MmaStartLowering : public KernelPattern<MmaStartOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(MmaStartOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    FailureOr<SmallVector<Value>> results = context.target.emitMmaStart(
        rewriter, op, adaptor.getLhs(), getStagedTile(adaptor.getRhs()),
        adaptor.getAcc(), context.getPosition(rewriter, op));
    if (failed(results))
      return failure();
    rewriter.replaceOpWithMultiple(
        op, SmallVector<SmallVector<Value>>{std::move(*results)});
    return success();
  }
};

struct MmaWaitLowering : public KernelPattern<MmaWaitOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(MmaWaitOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    SmallVector<Value> results = context.target.emitMmaWait(
        rewriter, op.getLoc(), adaptor.getPending(),
        context.newerProducts.lookup(op));
    rewriter.replaceOpWithMultiple(
        op, SmallVector<SmallVector<Value>>{std::move(results)});
    return success();
  }
};

/// Products started between the start of the one `wait` waits for and `wait`,
/// as far as they are known: they may still be in flight after it.
static int64_t countNewerProducts(MmaWaitOp wait) {
  Operation *start = wait.getPending().getDefiningOp();
  if (!start || start->getBlock() != wait->getBlock())
    return 0;
  int64_t newer = 0;
  for (Operation *op = start->getNextNode(); op != wait;
       op = op->getNextNode()) {
    if (isa<MmaStartOp>(op))
      ++newer;
    else if (op->getNumRegions() != 0)
      return 0;
  }
  return newer;
}

//===----------------------------------------------------------------------===//
// Turns
//===----------------------------------------------------------------------===//

/// Named barrier of the turn of warpgroup 0 of the consumers; barrier 0 is that
/// of the whole group.
static constexpr int64_t firstTurnBarrier = 1;

/// `bar.sync` or `bar.arrive` on the barrier of a warpgroup's turn, which the
/// warpgroup and its predecessor share.
static void emitTurnBarrier(OpBuilder &builder, Location loc, Value warpgroup,
                            bool arrive) {
  Value id = emitAdd(builder, loc, warpgroup, firstTurnBarrier);
  Value count = createI32(builder, loc, 2 * warpgroupSize);
  if (arrive)
    NVVM::BarrierArriveOp::create(builder, loc, id, count);
  else
    NVVM::BarrierOp::create(builder, loc, TypeRange{}, id, count,
                            /*reductionOp=*/nullptr,
                            /*reductionPredicate=*/nullptr);
}

struct AwaitTurnLowering : public KernelPattern<AwaitTurnOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(AwaitTurnOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    emitTurnBarrier(rewriter, op.getLoc(),
                    context.getPosition(rewriter, op).warpgroup,
                    /*arrive=*/false);
    rewriter.eraseOp(op);
    return success();
  }
};

/// The warpgroup after `warpgroup`, of `count`.
static Value emitNextWarpgroup(OpBuilder &builder, Location loc,
                               Value warpgroup, int64_t count) {
  Value next = emitAdd(builder, loc, warpgroup, 1);
  Value isLast = arith::CmpIOp::create(
      builder, loc, arith::CmpIPredicate::eq, next,
      createI32(builder, loc, count));
  return arith::SelectOp::create(builder, loc, isLast,
                                 createI32(builder, loc, 0), next);
}

struct PassTurnLowering : public KernelPattern<PassTurnOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(PassTurnOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto role = op->getParentOfType<RoleOp>();
    if (!role)
      return rewriter.notifyMatchFailure(op, "not in a role");
    Location loc = op.getLoc();
    Value warpgroup = context.getPosition(rewriter, op).warpgroup;
    emitTurnBarrier(
        rewriter, loc,
        emitNextWarpgroup(rewriter, loc, warpgroup, role.getWarpgroups()),
        /*arrive=*/true);
    rewriter.eraseOp(op);
    return success();
  }
};

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

template <typename OpTy, typename XOp, typename YOp, typename ZOp>
struct ProgramLowering : public OpConversionPattern<OpTy> {
  using OpConversionPattern<OpTy>::OpConversionPattern;

  LogicalResult
  matchAndRewrite(OpTy op, typename OpTy::Adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Type i32 = rewriter.getI32Type();
    switch (op.getDim()) {
    case 0:
      rewriter.replaceOpWithNewOp<XOp>(op, i32);
      return success();
    case 1:
      rewriter.replaceOpWithNewOp<YOp>(op, i32);
      return success();
    default:
      rewriter.replaceOpWithNewOp<ZOp>(op, i32);
      return success();
    }
  }
};

struct ReturnLowering : public OpConversionPattern<attn_tile::ReturnOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(attn_tile::ReturnOp op, OpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<LLVM::ReturnOp>(op, ValueRange{});
    return success();
  }
};
} // namespace

/// Moves the body of `kernel` to a new function in `gpuModule`, whose
/// parameters are those of the kernel after conversion.
static LLVM::LLVMFuncOp createFunction(RewriterBase &rewriter, KernelOp kernel,
                                       gpu::GPUModuleOp gpuModule,
                                       const TypeConverter &converter) {
  Location loc = kernel.getLoc();
  MLIRContext *context = kernel.getContext();
  Type i64 = rewriter.getI64Type();
  SmallVector<Type> parameters;
  SmallVector<DictionaryAttr> attributes;
  for (Type type : kernel.getArgumentTypes()) {
    SmallVector<Type> types;
    if (type.isIndex())
      types = {i64};
    else
      (void)converter.convertType(type, types);
    NamedAttrList attrs;
    if (isa<TensorMapType>(type)) {
      auto bytes = LLVM::LLVMArrayType::get(rewriter.getI8Type(), 128);
      attrs.set(LLVM::LLVMDialect::getByValAttrName(), TypeAttr::get(bytes));
      attrs.set(LLVM::LLVMDialect::getAlignAttrName(),
                rewriter.getI64IntegerAttr(64));
      attrs.set(NVVM::NVVMDialect::getGridConstantAttrName(),
                rewriter.getUnitAttr());
    }
    parameters.append(types);
    attributes.append(types.size(), attrs.getDictionary(context));
  }

  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPointToEnd(gpuModule.getBody());
  auto function = LLVM::LLVMFuncOp::create(
      rewriter, loc, kernel.getName(),
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), parameters));
  for (auto [i, dictionary] : llvm::enumerate(attributes))
    function.setArgAttrs(i, dictionary);
  function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(),
                    rewriter.getUnitAttr());
  return function;
}

namespace {
struct ConvertAttnTileToNVVMPass
    : public attn::impl::ConvertAttnTileToNVVMPassBase<
          ConvertAttnTileToNVVMPass> {
  using Base::Base;

  void runOnOperation() override {
    std::unique_ptr<TargetInfo> target = createTargetInfo(targetName);
    if (!target) {
      getOperation().emitError("unknown GPU architecture '")
          << targetName << "'";
      return signalPassFailure();
    }
    SmallVector<KernelOp> kernels(getOperation().getOps<KernelOp>());
    for (KernelOp kernel : kernels)
      if (failed(lowerKernel(kernel, *target)))
        return signalPassFailure();
  }

private:
  LogicalResult lowerKernel(KernelOp kernel, const TargetInfo &target);
};
} // namespace

/// Checks what the patterns rely on, with messages that name it.
static LogicalResult verifyKernel(KernelOp kernel) {
  ThreadLayoutAttrInterface layout = kernel.getLayoutAttr();
  if (!layout)
    return kernel.emitOpError("needs a 'layout' to be lowered for a GPU");
  if (!kernel.getBody().hasOneBlock())
    return kernel.emitOpError("must have one block");
  WalkResult result = kernel.walk([&](Operation *op) -> WalkResult {
    if (auto loop = dyn_cast<scf::ForallOp>(op))
      return loop.emitOpError("must be replaced by a traversal before the "
                              "kernel is lowered for a GPU");
    for (Type type : op->getResultTypes()) {
      auto tile = dyn_cast<VectorType>(type);
      if (tile && !layout.supports(tile.getShape()))
        return op->emitOpError("has a tile ")
               << tile << " that cannot be spread over threads by " << layout;
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

/// Puts the code of a role that takes turns between what gives the first turn
/// to its first warpgroup and what takes up the turn that is passed last.
static void emitTurnFrame(OpBuilder &builder, Location loc, Value warpgroup,
                          int64_t first, int64_t count, bool atStart) {
  int64_t actor = atStart ? first + count - 1 : first;
  Value isActor =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, warpgroup,
                            createI32(builder, loc, actor));
  emitIf(builder, loc, isActor, [&](OpBuilder &inner) {
    emitTurnBarrier(inner, loc, createI32(inner, loc, 0), /*arrive=*/atStart);
  });
}

/// Replaces the roles of a function by a chain of conditions on the warpgroup.
static void lowerRoles(LLVM::LLVMFuncOp function, const KernelContext &context,
                       const DenseSet<Operation *> &takingTurns) {
  SmallVector<RoleOp> roles(function.getOps<RoleOp>());
  if (roles.empty())
    return;
  OpBuilder builder(roles.front());
  // The register file is handed out in units of eight registers a thread.
  int64_t before =
      llvm::alignDown(context.target.getRegisters() / context.numThreads, 8);
  for (RoleOp role : roles) {
    Location loc = role.getLoc();
    int64_t first = context.firstWarpgroup.lookup(role);
    int64_t count = role.getWarpgroups();
    if (role != roles.back()) {
      Value inRole = emitLess(builder, loc, context.warpgroup,
                              createI32(builder, loc, first + count));
      auto ifOp = scf::IfOp::create(builder, loc, inRole, /*withElse=*/true);
      builder.setInsertionPoint(ifOp.thenYield());
    }
    scf::IfOp branch = role == roles.back()
                           ? nullptr
                           : cast<scf::IfOp>(builder.getBlock()->getParentOp());

    context.target.emitSetRegisters(builder, loc, role.getRegisters(), before);
    bool takesTurns = takingTurns.contains(role);
    if (takesTurns)
      emitTurnFrame(builder, loc, context.warpgroup, first, count,
                    /*atStart=*/true);
    auto moveBody = [&](OpBuilder &inner) {
      inner.getInsertionBlock()->getOperations().splice(
          inner.getInsertionPoint(), role.getBody().front().getOperations());
    };
    if (role.getKind() == RoleKind::Producer &&
        context.target.isProducerSingleThread()) {
      Value isFirst = arith::CmpIOp::create(
          builder, loc, arith::CmpIPredicate::eq, context.thread,
          createI32(builder, loc, first * warpgroupSize));
      emitIf(builder, loc, isFirst, moveBody);
    } else {
      moveBody(builder);
    }
    if (takesTurns)
      emitTurnFrame(builder, loc, context.warpgroup, first, count,
                    /*atStart=*/false);
    if (branch)
      builder.setInsertionPoint(branch.elseYield());
    role.erase();
  }
}

/// Emits, at the entry of `kernel`, what all of its code refers to.
static void emitEntryValues(KernelOp kernel, KernelContext &context,
                            LLVM::GlobalOp shared) {
  Location loc = kernel.getLoc();
  OpBuilder builder = OpBuilder::atBlockBegin(&kernel.getBody().front());
  Type i32 = builder.getI32Type();
  context.thread = NVVM::ThreadIdXOp::create(builder, loc, i32);
  Value warpgroup = arith::ShRUIOp::create(builder, loc, context.thread,
                                           createI32(builder, loc, 7));
  // Read from one lane, the index is known to be the same in the whole warp.
  context.warpgroup = NVVM::ShflOp::create(
      builder, loc, i32, createI32(builder, loc, -1), warpgroup,
      createI32(builder, loc, 0), createI32(builder, loc, 31),
      NVVM::ShflKind::idx, UnitAttr());
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext(),
                                            static_cast<unsigned>(NVVM::NVVMMemorySpace::Shared));
  Value base = LLVM::AddressOfOp::create(builder, loc, pointer,
                                         shared.getSymName());
  context.shared = LLVM::PtrToIntOp::create(builder, loc, i32, base);

  SmallVector<CreatePipeOp> pipes(kernel.getOps<CreatePipeOp>());
  if (pipes.empty())
    return;
  builder.setInsertionPointAfter(pipes.back());
  context.target.emitInitDone(builder, loc);
}

/// Declares the dynamic shared memory of a kernel.
static LLVM::GlobalOp declareSharedMemory(OpBuilder &builder,
                                          gpu::GPUModuleOp gpuModule,
                                          const TargetInfo &target) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(gpuModule.getBody());
  auto type = LLVM::LLVMArrayType::get(builder.getI8Type(), 0);
  return LLVM::GlobalOp::create(
      builder, gpuModule.getLoc(), type, /*isConstant=*/false,
      LLVM::Linkage::External, "attn_shared_memory", /*value=*/Attribute(),
      /*alignment=*/target.getStageAlignment(), static_cast<unsigned>(NVVM::NVVMMemorySpace::Shared));
}

static void populatePatterns(RewritePatternSet &patterns,
                             const TypeConverter &converter,
                             const KernelContext &context) {
  MLIRContext *mlirContext = patterns.getContext();
  patterns.add<ConstantLowering, TruncTileLowering, ExtendTileLowering,
               Exp2Lowering>(converter, mlirContext, context,
                             PatternBenefit(2));
  patterns.add<ElementwiseLowering, ReductionLowering, ShapeCastLowering,
               BroadcastLowering, PartialSumLowering, MapLowering, MaskLowering,
               DimLowering, ElementLoadLowering, StoreLowering,
               CreatePipeLowering, PipeAccessLowering<AcquireOp>,
               PipeAccessLowering<WaitOp>, CopyLowering, CommitLowering,
               ReleaseLowering, MmaStartLowering, MmaWaitLowering,
               AwaitTurnLowering, PassTurnLowering>(converter, mlirContext,
                                                    context);
  patterns.add<IndexCastLowering<arith::IndexCastOp, arith::ExtSIOp>,
               IndexCastLowering<arith::IndexCastUIOp, arith::ExtUIOp>>(
      converter, mlirContext, PatternBenefit(2));
  patterns.add<ReturnLowering,
               ProgramLowering<ProgramIdOp, NVVM::BlockIdXOp, NVVM::BlockIdYOp,
                               NVVM::BlockIdZOp>,
               ProgramLowering<NumProgramsOp, NVVM::GridDimXOp,
                               NVVM::GridDimYOp, NVVM::GridDimZOp>>(
      converter, mlirContext);
}

LogicalResult ConvertAttnTileToNVVMPass::lowerKernel(KernelOp kernel,
                                                     const TargetInfo &target) {
  if (failed(verifyKernel(kernel)))
    return failure();
  FailureOr<int64_t> sharedBytes = allocatePipes(kernel, target);
  if (failed(sharedBytes))
    return failure();

  KernelContext context(target, kernel.getLayoutAttr());
  DenseSet<Operation *> takingTurns;
  int64_t warpgroups = 0;
  for (RoleOp role : kernel.getOps<RoleOp>()) {
    context.firstWarpgroup[role] = warpgroups;
    warpgroups += role.getWarpgroups();
    if (role.getKind() == RoleKind::Consumer)
      context.numConsumers += role.getWarpgroups();
    role.walk([&](AwaitTurnOp) { takingTurns.insert(role); });
  }
  context.numThreads = warpgroups ? warpgroups * warpgroupSize
                                  : context.layout.getNumThreads();
  kernel.walk([&](MmaWaitOp wait) {
    context.newerProducts[wait] = countNewerProducts(wait);
  });

  // The function goes to a module of its own, to which launches refer.
  IRRewriter rewriter(&getContext());
  rewriter.setInsertionPoint(kernel);
  std::string moduleName = (kernel.getName() + "_module").str();
  auto gpuModule =
      gpu::GPUModuleOp::create(rewriter, kernel.getLoc(), moduleName);
  LLVM::GlobalOp shared = declareSharedMemory(rewriter, gpuModule, target);
  emitEntryValues(kernel, context, shared);

  TileTypeConverter converter(context);
  LLVM::LLVMFuncOp function =
      createFunction(rewriter, kernel, gpuModule, converter);
  function->setAttr(kBlockSizeAttrName,
                    rewriter.getI32IntegerAttr(context.numThreads));
  function->setAttr(kSharedBytesAttrName,
                    rewriter.getI32IntegerAttr(*sharedBytes));
  function->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                    rewriter.getDenseI32ArrayAttr(
                        {static_cast<int32_t>(context.numThreads)}));
  function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                    rewriter.getI32IntegerAttr(1));

  // The kernel's arguments are casts of the function's parameters, which the
  // conversion takes apart.
  Block *body = &kernel.getBody().front();
  Block *entry = function.addEntryBlock(rewriter);
  rewriter.setInsertionPointToStart(entry);
  ValueRange parameters = entry->getArguments();
  SmallVector<Value> arguments;
  for (BlockArgument argument : body->getArguments()) {
    Location loc = argument.getLoc();
    SmallVector<Type> types;
    if (failed(converter.convertType(argument.getType(), types)))
      return kernel.emitOpError("has an argument of type ")
             << argument.getType() << " that cannot be passed to a GPU";
    SmallVector<Value> values(parameters.take_front(types.size()));
    parameters = parameters.drop_front(types.size());
    if (argument.getType().isIndex())
      values.front() = arith::TruncIOp::create(
          rewriter, loc, rewriter.getI32Type(), values.front());
    if (types.size() == 1 && values.front().getType() == argument.getType()) {
      arguments.push_back(values.front());
      continue;
    }
    arguments.push_back(UnrealizedConversionCastOp::create(
                            rewriter, loc, argument.getType(), values)
                            .getResult(0));
  }
  rewriter.mergeBlocks(body, entry, arguments);

  RewritePatternSet patterns(&getContext());
  ConversionTarget conversionTarget(getContext());
  populatePatterns(patterns, converter, context);
  scf::populateSCFStructuralTypeConversionsAndLegality(converter, patterns,
                                                       conversionTarget);
  // Loops without results have bounds to convert, too.
  conversionTarget.addDynamicallyLegalOp<scf::ForOp>([&](scf::ForOp op) {
    return converter.isLegal(op) && converter.isLegal(&op.getRegion());
  });
  conversionTarget.addIllegalDialect<AttnTileDialect, vector::VectorDialect,
                                     memref::MemRefDialect>();
  conversionTarget.addLegalOp<RoleOp>();
  conversionTarget.addLegalDialect<LLVM::LLVMDialect, NVVM::NVVMDialect>();
  conversionTarget
      .addDynamicallyLegalDialect<arith::ArithDialect, math::MathDialect>(
          [&](Operation *op) -> std::optional<bool> {
            return converter.isLegal(op) && !isa<math::Exp2Op>(op);
          });
  conversionTarget.addLegalOp<UnrealizedConversionCastOp>();
  if (failed(applyPartialConversion(function, conversionTarget,
                                    std::move(patterns))))
    return failure();
  lowerRoles(function, context, takingTurns);

  // Launches refer to the function.
  auto symbol = SymbolRefAttr::get(
      &getContext(), moduleName,
      {FlatSymbolRefAttr::get(&getContext(), function.getSymName())});
  StringAttr kernelName = kernel.getSymNameAttr();
  getOperation().walk([&](LaunchOp launch) {
    if (launch.getKernelAttr().getRootReference() == kernelName)
      launch.setKernelAttr(symbol);
  });
  kernel.erase();
  return success();
}
