//===- Tiles.cpp - Elementwise work and reductions ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lowers operations on register tiles to operations on each thread's registers.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::attn;
using namespace mlir::attn_tile;

/// Creates `op` again with other operands and result types.
static Operation *recreate(OpBuilder &builder, Operation *op,
                           ValueRange operands, TypeRange types) {
  OperationState state(op->getLoc(), op->getName());
  state.addOperands(operands);
  state.addTypes(types);
  state.addAttributes(op->getAttrs());
  return builder.create(state);
}

namespace {
/// An elementwise operation on tiles becomes one operation for each register;
/// on scalars it stays, with converted types.
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
      results.push_back(recreate(rewriter, op, scalars, type)->getResult(0));
    }
    rewriter.replaceOpWithMultiple(op,
                                   SmallVector<SmallVector<Value>>{results});
    return success();
  }

  const KernelContext &context;
};
} // namespace

/// Reports an operation that uses a constant beyond 32 bits. Constants have
/// moved, and have no location.
static void emitTooLarge(arith::ConstantOp op, int64_t value) {
  auto uses = op->getUses();
  auto use = llvm::find_if(uses, [](OpOperand &use) {
    return !isa<UnknownLoc>(use.getOwner()->getLoc());
  });
  if (use == uses.end())
    return;
  use->getOwner()->emitOpError("has ")
      << value << " as its operand #" << use->getOperandNumber()
      << ", but GPUs compute with indices of 32 bits: integers beyond them "
         "must be i64";
}

namespace {
struct ConstantLowering : public KernelPattern<arith::ConstantOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(arith::ConstantOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    if (op.getType().isIndex()) {
      int64_t value = cast<IntegerAttr>(op.getValue()).getInt();
      if (!llvm::isInt<32>(value)) {
        emitTooLarge(op, value);
        return rewriter.notifyMatchFailure(op, "index beyond 32 bits");
      }
      rewriter.replaceOp(op, createI32(rewriter, loc, value));
      return success();
    }
    auto dense = dyn_cast<DenseElementsAttr>(op.getValue());
    if (!dense || !dense.isSplat())
      return rewriter.notifyMatchFailure(op, "tile constant is not a splat");
    SmallVector<Type> types;
    if (failed(typeConverter->convertType(op.getType(), types)))
      return rewriter.notifyMatchFailure(op, "tile does not fit the layout");
    auto value = dense.getSplatValue<TypedAttr>();
    if (context.isPacked(cast<VectorType>(op.getType()))) {
      APInt half = cast<FloatAttr>(value).getValue().bitcastToAPInt();
      APInt pair = half.zext(32);
      value = rewriter.getI32IntegerAttr(
          static_cast<int32_t>((pair << 16 | pair).getZExtValue()));
    }
    Value constant = arith::ConstantOp::create(rewriter, loc, value);
    SmallVector<Value> results(types.size(), constant);
    rewriter.replaceOpWithMultiple(op,
                                   SmallVector<SmallVector<Value>>{results});
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
    ValueRange in = adaptor.getIn();
    SmallVector<Value> pairs;
    for (unsigned i = 0; i < in.size(); i += 2)
      pairs.push_back(
          roundPair(rewriter, op.getLoc(), element, in[i], in[i + 1]));
    rewriter.replaceOpWithMultiple(op, SmallVector<SmallVector<Value>>{pairs});
    return success();
  }
};

/// f32 to 8 bits, rounded to nearest even and at most the largest number.
/// A register holds two pairs of neighbours of a row, of neighbouring groups of
/// eight columns: the order of the left-hand side of `#attn_tile.wgmma`.
struct TruncFloat8Lowering : public KernelPattern<arith::TruncFOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(arith::TruncFOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto type = dyn_cast<VectorType>(op.getType());
    if (!type || !isTile(type) || !isFloat8(type.getElementType()) ||
        !cast<VectorType>(op.getIn().getType()).getElementType().isF32())
      return rewriter.notifyMatchFailure(op, "not f32 to a tile of 8 bits");
    Location loc = op.getLoc();
    // The first operand is the upper byte.
    auto roundPair = [&](ValueRange pair) -> Value {
      return NVVM::ConvertF32x2ToF8x2Op::create(
          rewriter, loc, rewriter.getI16Type(), pair[1], pair[0],
          NVVM::FPRoundingMode::RN, NVVM::SaturationMode::SATFINITE,
          /*relu=*/false, type.getElementType());
    };
    auto pairs = VectorType::get(2, rewriter.getI16Type());
    constexpr size_t ofPair = 2;
    SmallVector<Value> words;
    for (ValueRange in = adaptor.getIn(); !in.empty();) {
      Value word = LLVM::PoisonOp::create(rewriter, loc, pairs);
      for (int64_t half : {0, 1}) {
        word = LLVM::InsertElementOp::create(rewriter, loc, word,
                                             roundPair(in.take_front(ofPair)),
                                             createI32(rewriter, loc, half));
        in = in.drop_front(ofPair);
      }
      words.push_back(
          LLVM::BitcastOp::create(rewriter, loc, rewriter.getI32Type(), word));
    }
    rewriter.replaceOpWithMultiple(op, SmallVector<SmallVector<Value>>{words});
    return success();
  }
};

/// Casts between an 8-bit float and its bits, which are one type on GPUs.
struct BitcastFloat8Lowering : public OpConversionPattern<arith::BitcastOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(arith::BitcastOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (getTypeConverter()->convertType(op.getType()) !=
        adaptor.getIn().getType())
      return rewriter.notifyMatchFailure(op, "not one type on GPUs");
    rewriter.replaceOp(op, adaptor.getIn());
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
    for (Value value :
         unpackPairs(rewriter, loc, type.getElementType(), adaptor.getIn()))
      results.push_back(arith::ExtFOp::create(rewriter, loc, element, value));
    rewriter.replaceOpWithMultiple(op,
                                   SmallVector<SmallVector<Value>>{results});
    return success();
  }
};
} // namespace

/// Calls an intrinsic of one f32 operand.
static Value emitUnary(OpBuilder &builder, Location loc, StringRef intrinsic,
                       Value value) {
  return LLVM::CallIntrinsicOp::create(builder, loc, value.getType(),
                                       builder.getStringAttr(intrinsic), value)
      .getResults();
}

/// exp2 of f32 is one instruction, with a relative error below 2^-22.
static Value emitExp2(OpBuilder &builder, Location loc, Value value) {
  return emitUnary(builder, loc, "llvm.nvvm.ex2.approx.ftz.f", value);
}

/// exp(x) is exp2(x * log2(e)): the relative error is below
/// 2^-22 + |x| * 2^-23.
static Value emitExp(OpBuilder &builder, Location loc, Value value) {
  Value log2e = arith::ConstantFloatOp::create(
      builder, loc, builder.getF32Type(), APFloat(1.44269504f));
  return emitExp2(builder, loc,
                  arith::MulFOp::create(builder, loc, value, log2e));
}

/// tanh of f32 is one instruction, with a relative error below 2^-10.9, like
/// one rounding to 16 bits.
static Value emitTanh(OpBuilder &builder, Location loc, Value value) {
  return LLVM::TanhOp::create(builder, loc, value, LLVM::FastmathFlags::afn);
}

/// The logarithm of f32 through the binary logarithm, whose absolute error is
/// below 2^-22.
static Value emitLog(OpBuilder &builder, Location loc, Value value) {
  Value ln2 = arith::ConstantFloatOp::create(builder, loc, builder.getF32Type(),
                                             APFloat(0.69314718f));
  Value log2 = emitUnary(builder, loc, "llvm.nvvm.lg2.approx.f", value);
  return arith::MulFOp::create(builder, loc, log2, ln2);
}

namespace {
/// A function of each f32 of a tile.
template <typename OpTy, Value (*emit)(OpBuilder &, Location, Value)>
struct FunctionLowering : public KernelPattern<OpTy> {
  using Base = KernelPattern<OpTy>;
  using Base::Base;

  LogicalResult
  matchAndRewrite(OpTy op, typename Base::OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!getElementTypeOrSelf(op.getType()).isF32())
      return rewriter.notifyMatchFailure(op, "not f32");
    SmallVector<Value> results;
    for (Value value : adaptor.getOperand())
      results.push_back(emit(rewriter, op.getLoc(), value));
    rewriter.replaceOpWithMultiple(op,
                                   SmallVector<SmallVector<Value>>{results});
    return success();
  }
};
} // namespace

/// 2^x of f32 by multiplications and additions, for x below 128: 2^n times a
/// polynomial in f, where n is the integer next to x and f = x - n. The
/// polynomial is the minimax one of degree three on [-1/2, 1/2] that is 1 at 0,
/// with a relative error of 1.02e-4. NaN stays NaN; -inf gives 0.
static Value emitExp2Polynomial(OpBuilder &builder, Location loc, Value value) {
  constexpr float coefficients[] = {0.055008933f, 0.24221097f, 0.6932829f,
                                    1.0f};
  // Adding it rounds to an integer, which is then in the low bits.
  constexpr float roundingBias = 12582912.0f;
  constexpr float leastExponent = -127.0f;
  constexpr int32_t mantissaBits = 23, exponentOfOne = 0x3f800000;
  auto floatType = builder.getF32Type();
  auto constant = [&](float number) -> Value {
    return arith::ConstantFloatOp::create(builder, loc, floatType,
                                          APFloat(number));
  };
  Value clamped =
      arith::MaximumFOp::create(builder, loc, value, constant(leastExponent));
  Value bias = constant(roundingBias);
  Value biased = arith::AddFOp::create(builder, loc, clamped, bias);
  Value integer = arith::SubFOp::create(builder, loc, biased, bias);
  Value rest = arith::SubFOp::create(builder, loc, clamped, integer);
  Value polynomial = constant(coefficients[0]);
  for (float coefficient : ArrayRef(coefficients).drop_front())
    polynomial = math::FmaOp::create(builder, loc, polynomial, rest,
                                     constant(coefficient));
  // The shift drops the bits of the bias. An exponent of -127 gives 0.
  Value bits =
      arith::BitcastOp::create(builder, loc, builder.getI32Type(), biased);
  Value exponent = arith::ShLIOp::create(builder, loc, bits,
                                         createI32(builder, loc, mantissaBits));
  Value powerBits = arith::AddIOp::create(
      builder, loc, exponent, createI32(builder, loc, exponentOfOne));
  Value power = arith::BitcastOp::create(builder, loc, floatType, powerBits);
  return arith::MulFOp::create(builder, loc, polynomial, power);
}

namespace {
/// Emulated elements are spread evenly over the elements of a thread.
struct EmulateExp2Lowering : public KernelPattern<EmulateExp2Op> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(EmulateExp2Op op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    constexpr int64_t parts = 16;
    auto sixteenths = int64_t(op.getSixteenths());
    SmallVector<Value> results;
    for (auto [number, value] : llvm::enumerate(adaptor.getSource())) {
      int64_t position = int64_t(number) % parts * sixteenths % parts;
      results.push_back(position + sixteenths >= parts
                            ? emitExp2Polynomial(rewriter, op.getLoc(), value)
                            : emitExp2(rewriter, op.getLoc(), value));
    }
    rewriter.replaceOpWithMultiple(op,
                                   SmallVector<SmallVector<Value>>{results});
    return success();
  }
};

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
    rewriter.replaceOpWithMultiple(op,
                                   SmallVector<SmallVector<Value>>{results});
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

/// Masks of the first elements of a row vector, as many as `getCount` says.
template <typename Op>
struct RowMaskLowering : public KernelPattern<Op> {
  using Pattern = KernelPattern<Op>;
  using Pattern::Pattern;

  LogicalResult
  matchAndRewrite(Op op, typename Pattern::OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    VectorType type = op.getType();
    if (type.getRank() != 1)
      return rewriter.notifyMatchFailure(op, "not a mask of a row vector");
    Location loc = op.getLoc();
    const KernelContext &context = this->context;
    Value thread = context.getPosition(rewriter, op).thread;
    Value baseRow = context.layout.emitBaseRow(rewriter, loc, thread);
    Value count = getCount(rewriter, op, adaptor);
    SmallVector<Value> results;
    for (int64_t r = 0, e = context.getRows(type); r < e; ++r)
      results.push_back(emitLess(
          rewriter, loc,
          emitAdd(rewriter, loc, baseRow, context.layout.getRowOffset(r)),
          count));
    rewriter.replaceOpWithMultiple(op,
                                   SmallVector<SmallVector<Value>>{results});
    return success();
  }

private:
  static Value
  getCount(OpBuilder &, vector::CreateMaskOp,
           KernelPattern<vector::CreateMaskOp>::OneToNOpAdaptor adaptor) {
    return adaptor.getOperands().front().front();
  }
  static Value
  getCount(OpBuilder &builder, vector::ConstantMaskOp op,
           KernelPattern<vector::ConstantMaskOp>::OneToNOpAdaptor) {
    return createI32(builder, op.getLoc(), op.getMaskDimSizes().front());
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
    } else if (sourceType.getRank() == 2 && sourceType.getDimSize(0) == 1) {
      for (int64_t row = 0; row < rows; ++row)
        llvm::append_range(results, source);
    } else {
      return rewriter.notifyMatchFailure(op,
                                         "not a broadcast of a row or column");
    }
    rewriter.replaceOpWithMultiple(op,
                                   SmallVector<SmallVector<Value>>{results});
    return success();
  }
};

} // namespace

/// Emits a branch that a warp takes if one of `rows` differs from `neutral`. In
/// it, `fn` computes each element from its element of `source` and its row
/// value; a thread has `columns` columns. Otherwise the result is `source`.
static SmallVector<Value>
emitUnlessNeutral(OpBuilder &builder, Location loc, ValueRange rows,
                  float neutral, ValueRange source, int64_t columns,
                  function_ref<Value(Value element, Value row)> fn) {
  Value constant = arith::ConstantFloatOp::create(
      builder, loc, builder.getF32Type(), APFloat(neutral));
  Value differs;
  for (Value row : rows) {
    Value isOther = arith::CmpFOp::create(
        builder, loc, arith::CmpFPredicate::UNE, row, constant);
    differs =
        differs
            ? arith::OrIOp::create(builder, loc, differs, isOther).getResult()
            : isOther;
  }
  Value any = NVVM::VoteSyncOp::create(builder, loc, builder.getI1Type(),
                                       createI32(builder, loc, -1), differs,
                                       NVVM::VoteSyncKind::any);
  auto ifOp = scf::IfOp::create(builder, loc, source.getTypes(), any,
                                /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(ifOp.thenBlock());
  SmallVector<Value> results;
  for (auto [i, element] : llvm::enumerate(source))
    results.push_back(fn(element, rows[i / columns]));
  scf::YieldOp::create(builder, loc, results);
  builder.setInsertionPointToStart(ifOp.elseBlock());
  scf::YieldOp::create(builder, loc, source);
  return llvm::to_vector_of<Value>(ifOp.getResults());
}

namespace {
/// A warp whose rows all have a factor of one skips the multiplications.
struct RescaleLowering : public KernelPattern<RescaleOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(RescaleOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    int64_t columns =
        context.getColumns(cast<VectorType>(op.getSource().getType()));
    SmallVector<Value> results = emitUnlessNeutral(
        rewriter, loc, adaptor.getFactor(), /*neutral=*/1, adaptor.getSource(),
        columns, [&](Value element, Value factor) {
          return arith::MulFOp::create(rewriter, loc, element, factor);
        });
    rewriter.replaceOpWithMultiple(op,
                                   SmallVector<SmallVector<Value>>{results});
    return success();
  }
};

/// A warp whose rows all have a subtrahend of zero skips the subtractions.
struct SubtractRowsLowering : public KernelPattern<SubtractRowsOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(SubtractRowsOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    int64_t columns =
        context.getColumns(cast<VectorType>(op.getSource().getType()));
    SmallVector<Value> results = emitUnlessNeutral(
        rewriter, loc, adaptor.getSubtrahend(), /*neutral=*/0,
        adaptor.getSource(), columns, [&](Value element, Value subtrahend) {
          return arith::SubFOp::create(rewriter, loc, element, subtrahend);
        });
    rewriter.replaceOpWithMultiple(op,
                                   SmallVector<SmallVector<Value>>{results});
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
    rewriter.replaceOpWithMultiple(op,
                                   SmallVector<SmallVector<Value>>{results});
    return success();
  }
};
} // namespace

void attn::populateTilePatterns(RewritePatternSet &patterns,
                                const TypeConverter &converter,
                                const KernelContext &context) {
  MLIRContext *mlirContext = patterns.getContext();
  patterns.add<ConstantLowering, TruncTileLowering, TruncFloat8Lowering,
               ExtendTileLowering, EmulateExp2Lowering,
               FunctionLowering<math::Exp2Op, emitExp2>,
               FunctionLowering<math::ExpOp, emitExp>,
               FunctionLowering<math::TanhOp, emitTanh>,
               FunctionLowering<math::LogOp, emitLog>>(
      converter, mlirContext, context, PatternBenefit(2));
  patterns.add<ElementwiseLowering, ReductionLowering, ShapeCastLowering,
               BroadcastLowering, RowMaskLowering<vector::CreateMaskOp>,
               RowMaskLowering<vector::ConstantMaskOp>, PartialSumLowering,
               RescaleLowering, SubtractRowsLowering>(converter, mlirContext,
                                                      context);
  patterns.add<IndexCastLowering<arith::IndexCastOp, arith::ExtSIOp>,
               IndexCastLowering<arith::IndexCastUIOp, arith::ExtUIOp>,
               BitcastFloat8Lowering>(converter, mlirContext,
                                      PatternBenefit(2));
}
