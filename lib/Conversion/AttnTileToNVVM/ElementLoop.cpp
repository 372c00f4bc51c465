//===- ElementLoop.cpp - Long regions in a loop ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Registers have no addresses: a loop keeps bits in words, and other values in
// local memory of the thread.
//
//===----------------------------------------------------------------------===//

#include "ElementLoop.h"
#include "KernelLowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::attn;

/// Operations for all registers of a thread that are emitted without a loop.
/// The assembler takes a second for about as many.
static constexpr int64_t maxUnrolledOperations = 8192;

/// Whether each bit of a register's number adds to its offset.
static bool isSumOfBits(ArrayRef<int64_t> offsets) {
  for (auto [number, offset] : llvm::enumerate(offsets)) {
    int64_t sum = 0;
    for (size_t bit = 1; bit <= number; bit *= 2)
      if (number & bit)
        sum += offsets[bit];
    if (sum != offset)
      return false;
  }
  return true;
}

bool ElementLoop::isWorthwhile(int64_t numOperations) const {
  return numOperations * getNumRegisters() > maxUnrolledOperations &&
         isSumOfBits(rowOffsets) && isSumOfBits(columnOffsets);
}

Value ElementLoop::emitOffset(Value number, ArrayRef<int64_t> offsets) {
  Value sum = createI32(builder, loc, 0);
  for (size_t bit = 1; bit < offsets.size(); bit *= 2) {
    Value isSet = arith::AndIOp::create(builder, loc, number,
                                        createI32(builder, loc, bit));
    // Offsets are multiples of the bit, or parts of it.
    Value part =
        offsets[bit] % int64_t(bit) == 0
            ? arith::MulIOp::create(
                  builder, loc, isSet,
                  createI32(builder, loc, offsets[bit] / int64_t(bit)))
                  .getResult()
            : arith::SelectOp::create(
                  builder, loc,
                  arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne,
                                        isSet, createI32(builder, loc, 0)),
                  createI32(builder, loc, offsets[bit]),
                  createI32(builder, loc, 0))
                  .getResult();
    sum = arith::AddIOp::create(builder, loc, sum, part);
  }
  return sum;
}

ElementLoop::Element ElementLoop::emitElement(Value number) {
  Value columns = createI32(builder, loc, columnOffsets.size());
  Value row = arith::DivUIOp::create(builder, loc, number, columns);
  Value column = arith::RemUIOp::create(builder, loc, number, columns);
  return {number, row, emitOffset(row, rowOffsets),
          emitOffset(column, columnOffsets)};
}

SmallVector<Value>
ElementLoop::emitBits(function_ref<Value(const Element &)> emit) {
  constexpr int64_t bits = 32;
  Type i32 = builder.getI32Type();
  SmallVector<Value> words(llvm::divideCeil(getNumRegisters(), bits),
                           createI32(builder, loc, 0));
  auto loop = scf::ForOp::create(builder, loc, createI32(builder, loc, 0),
                                 createI32(builder, loc, getNumRegisters()),
                                 createI32(builder, loc, 1), words);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    Value number = loop.getInductionVar();
    Value bit =
        arith::ExtUIOp::create(builder, loc, i32, emit(emitElement(number)));
    Value place = arith::AndIOp::create(builder, loc, number,
                                        createI32(builder, loc, bits - 1));
    bit = arith::ShLIOp::create(builder, loc, bit, place);
    Value current = arith::DivUIOp::create(builder, loc, number,
                                           createI32(builder, loc, bits));
    SmallVector<Value> next;
    for (auto [index, word] : llvm::enumerate(loop.getRegionIterArgs())) {
      Value isIn =
          arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, current,
                                createI32(builder, loc, index));
      Value set = arith::SelectOp::create(builder, loc, isIn, bit,
                                          createI32(builder, loc, 0));
      next.push_back(arith::OrIOp::create(builder, loc, word, set));
    }
    scf::YieldOp::create(builder, loc, next);
  }
  SmallVector<Value> results;
  for (int64_t i = 0, e = getNumRegisters(); i < e; ++i) {
    Value bit = arith::ShRUIOp::create(builder, loc, loop.getResult(i / bits),
                                       createI32(builder, loc, i % bits));
    results.push_back(
        arith::TruncIOp::create(builder, loc, builder.getI1Type(), bit));
  }
  return results;
}

Value ElementLoop::createMemory(Type type, int64_t size) {
  // Memory that is allocated in a loop would be new in each iteration.
  OpBuilder::InsertionGuard guard(builder);
  Operation *function = builder.getInsertionBlock()->getParentOp();
  while (!isa<LLVM::LLVMFuncOp>(function))
    function = function->getParentOp();
  builder.setInsertionPointToStart(&function->getRegion(0).front());
  return LLVM::AllocaOp::create(
      builder, loc, LLVM::LLVMPointerType::get(builder.getContext()), type,
      createI32(builder, loc, size));
}

Value ElementLoop::store(ValueRange registers) {
  Type type = registers.front().getType();
  Value memory = createMemory(type, registers.size());
  for (auto [i, value] : llvm::enumerate(registers))
    LLVM::StoreOp::create(
        builder, loc, value,
        LLVM::GEPOp::create(builder, loc, memory.getType(), type, memory,
                            ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)}));
  return memory;
}

Value ElementLoop::load(Type type, Value memory, Value number) {
  return LLVM::LoadOp::create(
      builder, loc, type,
      LLVM::GEPOp::create(builder, loc, memory.getType(), type, memory,
                          ArrayRef<LLVM::GEPArg>{number}));
}

SmallVector<Value>
ElementLoop::emitValues(Type type, function_ref<Value(const Element &)> emit) {
  Value memory = createMemory(type, getNumRegisters());
  auto loop = scf::ForOp::create(builder, loc, createI32(builder, loc, 0),
                                 createI32(builder, loc, getNumRegisters()),
                                 createI32(builder, loc, 1));
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    Value number = loop.getInductionVar();
    Value value = emit(emitElement(number));
    LLVM::StoreOp::create(builder, loc, value,
                          LLVM::GEPOp::create(builder, loc, memory.getType(),
                                              type, memory,
                                              ArrayRef<LLVM::GEPArg>{number}));
  }
  SmallVector<Value> results;
  for (int64_t i = 0, e = getNumRegisters(); i < e; ++i)
    results.push_back(LLVM::LoadOp::create(
        builder, loc, type,
        LLVM::GEPOp::create(builder, loc, memory.getType(), type, memory,
                            ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)})));
  return results;
}
