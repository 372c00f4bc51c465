//===- AttnDropout.cpp - Dropout and its random numbers -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The RNGs, and the function from positions to keep masks of dropout that
// docs/rng.md defines: once as emitted code and once computed.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/AttnAttrs.h"
#include "attn/Dialect/Attn/IR/CounterRng.h"
#include "attn/Dialect/Attn/IR/KeepMaskLayout.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <optional>

using namespace mlir;
using namespace mlir::attn;

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

namespace {
/// Emits arithmetic on `i32` values or vectors of them.
struct ValueOps {
  OpBuilder &builder;
  Location loc;

  /// A number as a word like `like`.
  Value constant(Value like, uint32_t number) {
    IntegerAttr attr = builder.getI32IntegerAttr(number);
    if (auto vector = dyn_cast<VectorType>(like.getType()))
      return arith::ConstantOp::create(builder, loc,
                                       DenseElementsAttr::get(vector, attr));
    return arith::ConstantOp::create(builder, loc, attr);
  }
  Value add(Value a, Value b) {
    return arith::AddIOp::create(builder, loc, a, b);
  }
  Value add(Value a, uint32_t b) { return b == 0 ? a : add(a, constant(a, b)); }
  Value bitXor(Value a, Value b) {
    return arith::XOrIOp::create(builder, loc, a, b);
  }
  Value bitXor(Value a, uint32_t b) { return bitXor(a, constant(a, b)); }
  Value bitAnd(Value a, Value b) {
    return arith::AndIOp::create(builder, loc, a, b);
  }
  Value bitOr(Value a, Value b) {
    return arith::OrIOp::create(builder, loc, a, b);
  }
  Value shiftLeft(Value a, unsigned n) {
    return arith::ShLIOp::create(builder, loc, a, constant(a, n));
  }
  Value shiftRight(Value a, unsigned n) {
    return arith::ShRUIOp::create(builder, loc, a, constant(a, n));
  }
  Value rotateLeft(Value a, unsigned n) {
    return bitOr(shiftLeft(a, n), shiftRight(a, 32 - n));
  }
  std::pair<Value, Value> multiply(Value a, uint32_t b) {
    auto product =
        arith::MulUIExtendedOp::create(builder, loc, a, constant(a, b));
    return {product.getLow(), product.getHigh()};
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Generators
//===----------------------------------------------------------------------===//

/// A counter whose first word alone differs from one block to the next.
static constexpr RngKey<CountedWord> countedKey = {};
static constexpr RngBlock<CountedWord> countedCounter = {};

static LogicalResult verifyRounds(function_ref<InFlightDiagnostic()> emitError,
                                  StringRef name, int64_t rounds,
                                  int64_t least) {
  constexpr int64_t most = 64;
  if (rounds >= least && rounds <= most)
    return success();
  return emitError() << name << " 'rounds' must lie in [" << least << ", "
                     << most << "] (was " << rounds << ")";
}

LogicalResult PhiloxAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 int64_t rounds) {
  return verifyRounds(emitError, "philox", rounds, 7);
}

RngBlock<Value> PhiloxAttr::emitBlock(OpBuilder &builder, Location loc,
                                      RngKey<Value> key,
                                      RngBlock<Value> counter) const {
  return philox4x32(ValueOps{builder, loc}, key, counter, getRounds());
}

RngBlock<uint32_t> PhiloxAttr::computeBlock(RngKey<uint32_t> key,
                                            RngBlock<uint32_t> counter) const {
  return philox4x32(NumberOps(), key, counter, getRounds());
}

RngWork PhiloxAttr::countBlock() const {
  RngWork work;
  philox4x32(CountOps{work.integer, work.wideMultiply}, countedKey,
             countedCounter, getRounds());
  return work;
}

LogicalResult ThreefryAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   int64_t rounds) {
  return verifyRounds(emitError, "threefry", rounds, 12);
}

RngBlock<Value> ThreefryAttr::emitBlock(OpBuilder &builder, Location loc,
                                        RngKey<Value> key,
                                        RngBlock<Value> counter) const {
  ValueOps ops{builder, loc};
  Value zero = ops.constant(key[0], 0);
  return threefry4x32(ops, RngBlock<Value>{key[0], key[1], zero, zero}, counter,
                      getRounds());
}

RngBlock<uint32_t>
ThreefryAttr::computeBlock(RngKey<uint32_t> key,
                           RngBlock<uint32_t> counter) const {
  return threefry4x32(NumberOps(), RngBlock<uint32_t>{key[0], key[1], 0, 0},
                      counter, getRounds());
}

RngWork ThreefryAttr::countBlock() const {
  RngWork work;
  threefry4x32(CountOps{work.integer, work.wideMultiply},
               RngBlock<CountedWord>(), countedCounter, getRounds());
  return work;
}

LogicalResult ArxAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                              int64_t rounds) {
  return verifyRounds(emitError, "arx", rounds, 5);
}

RngBlock<Value> ArxAttr::emitBlock(OpBuilder &builder, Location loc,
                                   RngKey<Value> key,
                                   RngBlock<Value> counter) const {
  return arx4x32(ValueOps{builder, loc}, key, counter, getRounds());
}

RngBlock<uint32_t> ArxAttr::computeBlock(RngKey<uint32_t> key,
                                         RngBlock<uint32_t> counter) const {
  return arx4x32(NumberOps(), key, counter, getRounds());
}

RngWork ArxAttr::countBlock() const {
  RngWork work;
  arx4x32(CountOps{work.integer, work.wideMultiply}, countedKey, countedCounter,
          getRounds());
  return work;
}

//===----------------------------------------------------------------------===//
// Dropout
//===----------------------------------------------------------------------===//

/// How much the effective p may differ from p, relative to p.
static constexpr double tolerance = 0.05;

static double getThreshold(double p, int64_t bits) {
  return std::round(std::ldexp(p, bits));
}

LogicalResult DropoutAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                  APFloat p, RngAttrInterface rng,
                                  int64_t bits) {
  if (bits != 4 && bits != 8 && bits != 16)
    return emitError() << "dropout 'bits' must be 4, 8 or 16 (was " << bits
                       << ")";
  double asked = p.convertToDouble();
  if (std::isnan(asked) || asked < 0 || asked >= 1)
    return emitError() << "dropout 'p' must lie in [0, 1) (was " << asked
                       << ")";
  double effective = std::ldexp(::getThreshold(asked, bits), -bits);
  if (effective >= 1 || std::abs(effective - asked) > tolerance * asked)
    return emitError() << "dropout 'p' must be at most 5 % from a multiple of "
                          "2^-"
                       << bits << " less than 1 (was " << asked
                       << ", nearest is " << effective << ")";
  return success();
}

int64_t DropoutAttr::getThreshold() const {
  return static_cast<int64_t>(
      ::getThreshold(getP().convertToDouble(), getBits()));
}

double DropoutAttr::getDropProbability() const {
  return std::ldexp(static_cast<double>(getThreshold()), -getBits());
}

double DropoutAttr::getKeepProbability() const {
  return 1 - getDropProbability();
}

/// Computes a word of the keep mask from random words. Bits at the same place
/// in words 0, 1, .. are the bits of one random number, from the highest one
/// on. It is compared with the threshold from the lowest bit on, 32 numbers at
/// a time. Zeros at the end of the threshold do not matter, and words for them
/// are not generated.
template <typename Word, typename Ops>
static Word makeKeepWord(
    DropoutAttr dropout, Ops ops, RngBlock<Word> stream, Word queryWord,
    Word keyWord,
    function_ref<RngBlock<Word>(RngKey<Word>, RngBlock<Word>)> makeBlock) {
  uint32_t threshold = dropout.getThreshold();
  if (threshold == 0)
    return ops.constant(keyWord, ~0u);
  // Four words of a block for each key word, and at most four blocks.
  Word firstBlock = ops.shiftLeft(keyWord, 2);
  std::optional<RngBlock<Word>> block;
  std::optional<Word> keep;
  unsigned highest = dropout.getBits() - 1;
  for (unsigned bit = llvm::countr_zero(threshold); bit <= highest; ++bit) {
    unsigned number = highest - bit;
    if (!keep || number % 4 == 3)
      block =
          makeBlock({stream[0], stream[1]}, {ops.add(firstBlock, number / 4),
                                             queryWord, stream[2], stream[3]});
    Word random = (*block)[number % 4];
    if (!keep)
      keep = random;
    else if (threshold >> bit & 1)
      keep = ops.bitAnd(*keep, random);
    else
      keep = ops.bitOr(*keep, random);
  }
  return *keep;
}

RngBlock<Value> DropoutAttr::emitStream(OpBuilder &builder, Location loc,
                                        Value seed, Value offset, Value batch,
                                        Value head) const {
  Type i32 = builder.getI32Type();
  auto split = [&](Value value) -> RngKey<Value> {
    Value shift =
        arith::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(32));
    Value high = arith::ShRUIOp::create(builder, loc, value, shift);
    return {arith::TruncIOp::create(builder, loc, i32, value),
            arith::TruncIOp::create(builder, loc, i32, high)};
  };
  auto toWord = [&](Value index) -> Value {
    return arith::IndexCastOp::create(builder, loc, i32, index);
  };
  RngKey<Value> offsets = split(offset);
  return getRng().emitBlock(
      builder, loc, split(seed),
      {offsets[0], offsets[1], toWord(batch), toWord(head)});
}

RngBlock<uint32_t> DropoutAttr::computeStream(uint64_t seed, uint64_t offset,
                                              uint32_t batch,
                                              uint32_t head) const {
  auto split = [](uint64_t value) -> RngKey<uint32_t> {
    return {static_cast<uint32_t>(value), static_cast<uint32_t>(value >> 32)};
  };
  RngKey<uint32_t> offsets = split(offset);
  return getRng().computeBlock(split(seed),
                               {offsets[0], offsets[1], batch, head});
}

Value DropoutAttr::emitKeepWord(OpBuilder &builder, Location loc,
                                RngBlock<Value> stream, Value queryWord,
                                Value keyWord) const {
  return makeKeepWord<Value>(
      *this, ValueOps{builder, loc}, stream, queryWord, keyWord,
      [&](RngKey<Value> key, RngBlock<Value> counter) {
        return getRng().emitBlock(builder, loc, key, counter);
      });
}

uint32_t DropoutAttr::computeKeepWord(RngBlock<uint32_t> stream,
                                      uint32_t queryWord,
                                      uint32_t keyWord) const {
  return makeKeepWord<uint32_t>(
      *this, NumberOps(), stream, queryWord, keyWord,
      [&](RngKey<uint32_t> key, RngBlock<uint32_t> counter) {
        return getRng().computeBlock(key, counter);
      });
}

/// The word of the keep mask for a pair, and the bit in the word.
namespace {
template <typename Word>
struct BitPlace {
  Word queryWord, keyWord, bit;
};
} // namespace

template <typename Word, typename Ops>
static BitPlace<Word> findKeepBit(Ops ops, Word query, Word key) {
  constexpr unsigned keyBits = llvm::ConstantLog2<DropoutAttr::keysOfWord>();
  constexpr unsigned queryBits =
      llvm::ConstantLog2<DropoutAttr::queryDistance>();
  auto lowBits = [&](Word word, unsigned count) {
    return ops.bitAnd(word, ops.constant(word, (1u << count) - 1));
  };
  // The bit above the query number in a block of words selects one of the two
  // queries of a word; keys are numbered by the bits 0, 2 1, 3 of the key.
  Word block = ops.shiftRight(query, queryBits + 1);
  Word bit = lowBits(ops.shiftRight(query, queryBits), 1);
  Word upper = lowBits(ops.shiftRight(key, 3), 1);
  Word middle = lowBits(ops.shiftRight(key, 1), 2);
  bit = ops.add(bit, ops.shiftLeft(upper, 1));
  bit = ops.add(bit, ops.shiftLeft(middle, 2));
  bit = ops.add(bit, ops.shiftLeft(lowBits(key, 1), 4));
  return {ops.add(ops.shiftLeft(block, queryBits), lowBits(query, queryBits)),
          ops.shiftRight(key, keyBits), bit};
}

/// The inverse of `findKeepBit`.
template <typename Word, typename Ops>
static std::pair<Word, Word> findPair(Ops ops, BitPlace<Word> at) {
  constexpr unsigned keyBits = llvm::ConstantLog2<DropoutAttr::keysOfWord>();
  constexpr unsigned queryBits =
      llvm::ConstantLog2<DropoutAttr::queryDistance>();
  auto bits = [&](Word word, unsigned first, unsigned count) {
    return ops.bitAnd(ops.shiftRight(word, first),
                      ops.constant(word, (1u << count) - 1));
  };
  Word query = ops.add(
      ops.shiftLeft(ops.shiftRight(at.queryWord, queryBits), queryBits + 1),
      bits(at.queryWord, 0, queryBits));
  query = ops.add(query, ops.shiftLeft(bits(at.bit, 0, 1), queryBits));
  Word key = ops.shiftLeft(at.keyWord, keyBits);
  key = ops.add(key, ops.shiftLeft(bits(at.bit, 1, 1), 3));
  key = ops.add(key, ops.shiftLeft(bits(at.bit, 2, 2), 1));
  return {query, ops.add(key, ops.shiftRight(at.bit, 4))};
}

KeepBitPlace attn::emitKeepBitPlace(OpBuilder &builder, Location loc,
                                    Value query, Value key) {
  BitPlace<Value> at = findKeepBit(ValueOps{builder, loc}, query, key);
  return {at.queryWord, at.keyWord, at.bit};
}

KeepBitPair attn::emitKeepBitPair(OpBuilder &builder, Location loc,
                                  KeepBitPlace place) {
  auto [query, key] =
      findPair(ValueOps{builder, loc},
               BitPlace<Value>{place.queryWord, place.keyWord, place.bit});
  return {query, key};
}

Value attn::emitKeepBit(OpBuilder &builder, Location loc, Value word,
                        Value bit) {
  Value shifted = arith::ShRUIOp::create(builder, loc, word, bit);
  Type type = builder.getI1Type();
  if (auto vector = dyn_cast<VectorType>(word.getType()))
    type = vector.clone(type);
  return arith::TruncIOp::create(builder, loc, type, shifted);
}

Value DropoutAttr::emitIsKept(OpBuilder &builder, Location loc,
                              RngBlock<Value> stream, Value query,
                              Value key) const {
  KeepBitPlace at = emitKeepBitPlace(builder, loc, query, key);
  Value word = emitKeepWord(builder, loc, stream, at.queryWord, at.keyWord);
  return emitKeepBit(builder, loc, word, at.bit);
}

bool DropoutAttr::isKept(RngBlock<uint32_t> stream, int64_t query,
                         int64_t key) const {
  auto at = findKeepBit<uint32_t>(NumberOps(), query, key);
  return computeKeepWord(stream, at.queryWord, at.keyWord) >> at.bit & 1;
}

RngWork DropoutAttr::countKeepWord() const {
  RngWork work;
  makeKeepWord<CountedWord>(*this, CountOps{work.integer, work.wideMultiply},
                            RngBlock<CountedWord>(), CountedWord(),
                            CountedWord(),
                            [&](RngKey<CountedWord>, RngBlock<CountedWord>) {
                              work += getRng().countBlock();
                              return RngBlock<CountedWord>();
                            });
  return work;
}
