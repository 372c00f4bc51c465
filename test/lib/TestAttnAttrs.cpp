//===- TestAttnAttrs.cpp - Attributes that implement interfaces -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The dialect, and a mask, a random number generator, a schedule, a layout and
// an MMA of its own.
//
//===----------------------------------------------------------------------===//

#include "TestAttn.h"
#include "attn/Interfaces/Target.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/TypeSwitch.h"

#include "TestAttnDialect.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "TestAttnAttrs.cpp.inc"

using namespace mlir;
using namespace test_attn;

void TestAttnDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "TestAttnAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "TestAttnOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// CheckerboardAttr
//===----------------------------------------------------------------------===//

Value CheckerboardAttr::emitPredicate(OpBuilder &builder, Location loc,
                                      const attn::MaskPosition &at) const {
  Value size = arith::ConstantIndexOp::create(builder, loc, getSize());
  Value two = arith::ConstantIndexOp::create(builder, loc, 2);
  Value zero = arith::ConstantIndexOp::create(builder, loc, 0);
  Value query = arith::DivUIOp::create(builder, loc, at.query, size);
  Value key = arith::DivUIOp::create(builder, loc, at.key, size);
  Value sum = arith::AddIOp::create(builder, loc, query, key);
  Value parity = arith::RemUIOp::create(builder, loc, sum, two);
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, parity,
                               zero);
}

bool CheckerboardAttr::isAttended(int64_t query, int64_t key, int64_t,
                                  int64_t) const {
  return (query / getSize() + key / getSize()) % 2 == 0;
}

std::optional<bool>
CheckerboardAttr::getConstantValue(int64_t queryLength,
                                   int64_t keyLength) const {
  if (!ShapedType::isDynamic(queryLength) &&
      !ShapedType::isDynamic(keyLength) && queryLength <= getSize() &&
      keyLength <= getSize())
    return true;
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// RotationsAttr
//===----------------------------------------------------------------------===//

/// Each round adds the next word and a word of the key to each word, and
/// rotates it. `ops` computes with words.
template <typename Word, typename OpsT>
static attn::RngBlock<Word> rotate(OpsT ops, attn::RngKey<Word> key,
                                   attn::RngBlock<Word> block,
                                   unsigned rounds) {
  for (unsigned round = 0; round < rounds; ++round)
    for (unsigned i = 0; i < 4; ++i) {
      Word sum = ops.add(block[i], ops.add(block[(i + 1) % 4], key[i % 2]));
      block[i] = ops.rotateLeft(sum, 7 + 3 * i);
    }
  return block;
}

namespace {
struct Numbers {
  uint32_t add(uint32_t a, uint32_t b) { return a + b; }
  uint32_t rotateLeft(uint32_t a, unsigned n) { return a << n | a >> (32 - n); }
};

struct Code {
  Value constant(Type type, int64_t value) {
    TypedAttr attribute = builder.getI32IntegerAttr(int32_t(value));
    if (auto vector = dyn_cast<VectorType>(type))
      attribute = DenseElementsAttr::get(vector, attribute);
    return arith::ConstantOp::create(builder, loc, attribute);
  }
  Value add(Value a, Value b) {
    return arith::AddIOp::create(builder, loc, a, b);
  }
  Value rotateLeft(Value a, unsigned n) {
    Value left =
        arith::ShLIOp::create(builder, loc, a, constant(a.getType(), n));
    Value right =
        arith::ShRUIOp::create(builder, loc, a, constant(a.getType(), 32 - n));
    return arith::OrIOp::create(builder, loc, left, right);
  }

  OpBuilder &builder;
  Location loc;
};
} // namespace

attn::RngBlock<Value>
RotationsAttr::emitBlock(OpBuilder &builder, Location loc,
                         attn::RngKey<Value> key,
                         attn::RngBlock<Value> counter) const {
  return rotate(Code{builder, loc}, key, counter, getRounds());
}

attn::RngBlock<uint32_t>
RotationsAttr::computeBlock(attn::RngKey<uint32_t> key,
                            attn::RngBlock<uint32_t> counter) const {
  return rotate(Numbers(), key, counter, getRounds());
}

attn::RngWork RotationsAttr::countBlock() const {
  attn::RngWork work;
  work.integer = 3 * 4 * int64_t(getRounds());
  return work;
}

//===----------------------------------------------------------------------===//
// OneRowTilesAttr
//===----------------------------------------------------------------------===//

int64_t OneRowTilesAttr::getQueryTile() const { return 1; }

attn::ScheduleAttrInterface OneRowTilesAttr::getPreparation() const {
  return cast<attn::ScheduleAttrInterface>(
      Attribute(attn_tile::ScalarAttr::get(getContext(), /*warps=*/1)));
}

LogicalResult OneRowTilesAttr::verifyUse(Operation *op,
                                         const attn::Target &target) const {
  if (target.isHost())
    return success();
  return op->emitOpError("cannot have schedule '")
         << *this << "' on target " << target.getName();
}

void OneRowTilesAttr::buildKernelPipeline(OpPassManager &) const {}

//===----------------------------------------------------------------------===//
// WholeRowsAttr
//===----------------------------------------------------------------------===//

int64_t WholeRowsAttr::getNumThreads() const { return getThreads(); }

bool WholeRowsAttr::supports(ArrayRef<int64_t> shape) const {
  return shape.front() == 1 || shape.front() % getThreads() == 0;
}

int64_t WholeRowsAttr::getRowRegisters(int64_t rows) const {
  return rows == 1 ? 1 : rows / getThreads();
}

int64_t WholeRowsAttr::getColumnRegisters(int64_t columns) const {
  return columns;
}

Value WholeRowsAttr::emitBaseRow(OpBuilder &, Location, Value thread) const {
  return thread;
}

int64_t WholeRowsAttr::getRowOffset(int64_t r) const {
  return r * getThreads();
}

Value WholeRowsAttr::emitBaseColumn(OpBuilder &builder, Location loc,
                                    Value) const {
  return arith::ConstantIntOp::create(builder, loc, 0, 32);
}

int64_t WholeRowsAttr::getColumnOffset(int64_t c) const { return c; }

SmallVector<int64_t> WholeRowsAttr::getRowShuffles() const { return {}; }

SmallVector<int64_t> WholeRowsAttr::getColumnShuffles() const {
  return {16, 8, 4, 2, 1};
}

//===----------------------------------------------------------------------===//
// DotAttr
//===----------------------------------------------------------------------===//

Type DotAttr::getElementType() const { return BFloat16Type::get(getContext()); }
Type DotAttr::getMultiplicandType() const { return getElementType(); }
Type DotAttr::getAccumulatorType() const {
  return Float32Type::get(getContext());
}
int64_t DotAttr::getRows() const { return 8; }
int64_t DotAttr::getMaxColumns() const { return 8; }
int64_t DotAttr::getDepth() const { return 8; }
int64_t DotAttr::getNumThreads() const { return 32; }
bool DotAttr::readsSharedMemory() const { return true; }
bool DotAttr::supportsMNMajor() const { return false; }
SmallVector<int64_t> DotAttr::getFragmentIndices(int64_t lane) const {
  return {2 * lane, 2 * lane + 1};
}
int64_t DotAttr::getNumTerms() const { return 1; }
double DotAttr::getFlopsPerCycle(const attn::DeviceFigures &) const {
  return 256;
}
