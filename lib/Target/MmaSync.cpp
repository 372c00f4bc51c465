//===- MmaSync.cpp - The MMA instructions of a warp -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Target/MmaSync.h"

#include "PTX.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlir::attn;

MmaFragment attn::makeMmaFragment(OpBuilder &builder, Location loc,
                                  attn_tile::MmaAttrInterface mma,
                                  ValueRange values, TF32Split split) {
  MmaFragment fragment;
  if (!mma.getElementType().isF32()) {
    fragment.high.assign(values.begin(), values.end());
    return fragment;
  }
  Type f32 = builder.getF32Type(), i32 = builder.getI32Type();
  auto cast = [&](Type type, Value value) -> Value {
    if (value.getType() == type)
      return value;
    return LLVM::BitcastOp::create(builder, loc, type, value);
  };
  // MMAs ignore the lower 13 bits. A third to two thirds of the upper part's
  // last bit are added before, which rounds with an error of at most two thirds
  // of that bit, keeps tf32 values, infinities and NaN, and is one instruction;
  // cvt.rna.tf32 is two.
  constexpr float roundingFactor = 1.0f + 0x1.5555p-12f;
  auto round = [&](Value value) -> Value {
    Value factor = arith::ConstantFloatOp::create(
        builder, loc, builder.getF32Type(), APFloat(roundingFactor));
    return cast(i32,
                arith::MulFOp::create(builder, loc, cast(f32, value), factor));
  };
  for (Value value : values) {
    if (mma.getNumTerms() == 1) {
      fragment.high.push_back(round(value));
      continue;
    }
    // The bits of a tf32 value, to which adding half of the last one rounds.
    // The rest is exact. MMAs ignore at most one of its bits if the value was
    // rounded; otherwise it is rounded, too.
    constexpr int32_t tf32Bits = ~0x1fff, halfOfLastBit = 0x1000;
    Value bits = cast(i32, value);
    if (split == TF32Split::Rounded)
      bits = arith::AddIOp::create(builder, loc, bits,
                                   ptx::constant(builder, loc, halfOfLastBit));
    Value high = arith::AndIOp::create(builder, loc, bits,
                                       ptx::constant(builder, loc, tf32Bits));
    Value low =
        arith::SubFOp::create(builder, loc, cast(f32, value), cast(f32, high));
    fragment.high.push_back(high);
    fragment.low.push_back(split == TF32Split::Rounded ? cast(i32, low)
                                                       : round(low));
  }
  return fragment;
}

void attn::emitMmaSync(OpBuilder &builder, Location loc,
                       attn_tile::MmaAttrInterface mma, ValueRange lhs,
                       ValueRange rhs, MmaBlock &block) {
  // Pairs of bf16 and tf32 values are passed as words, pairs of f16 as vectors.
  Type multiplicand = mma.getMultiplicandType();
  Type wordType = builder.getI32Type();
  if (multiplicand.isF16())
    wordType = VectorType::get(2, multiplicand);
  auto cast = [&](ValueRange words) {
    return llvm::map_to_vector<4>(words, [&](Value word) -> Value {
      if (word.getType() == wordType)
        return word;
      return LLVM::BitcastOp::create(builder, loc, wordType, word);
    });
  };
  Type f32 = builder.getF32Type();
  auto type = LLVM::LLVMStructType::getLiteral(builder.getContext(),
                                               {f32, f32, f32, f32});
  NVVM::MMATypes kind = multiplicand.isBF16()  ? NVVM::MMATypes::bf16
                        : multiplicand.isF16() ? NVVM::MMATypes::f16
                                               : NVVM::MMATypes::tf32;
  Value result = NVVM::MmaOp::create(
      builder, loc, type, cast(lhs), cast(rhs), ValueRange(block),
      ArrayRef<int64_t>{mma.getRows(), mma.getMaxColumns(), mma.getDepth()},
      /*b1Op=*/std::nullopt, /*intOverflow=*/std::nullopt,
      std::array<NVVM::MMATypes, 2>{kind, kind},
      std::array<NVVM::MMALayout, 2>{NVVM::MMALayout::row,
                                     NVVM::MMALayout::col});
  for (auto [i, value] : llvm::enumerate(block))
    value = LLVM::ExtractValueOp::create(builder, loc, result, i);
}

SmallVector<std::pair<ValueRange, ValueRange>, 3>
attn::getMmaTerms(const MmaFragment &lhs, const MmaFragment &rhs) {
  SmallVector<std::pair<ValueRange, ValueRange>, 3> terms;
  if (!lhs.low.empty()) {
    terms.emplace_back(lhs.low, rhs.high);
    terms.emplace_back(lhs.high, rhs.low);
  }
  terms.emplace_back(lhs.high, rhs.high);
  return terms;
}
