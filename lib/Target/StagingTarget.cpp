//===- StagingTarget.cpp - Stages behind mbarriers ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Waits for the barriers of stages, and converts staged tiles.
//
//===----------------------------------------------------------------------===//

#include "StagingTarget.h"
#include "PTX.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace mlir::attn;

void StagingTarget::emitBarrierWait(OpBuilder &builder, Location loc,
                                    Value barrier, Value parity) const {
  std::string code = "{\n"
                     ".reg .pred done;\n"
                     "wait_${:uid}:\n" +
                     getWaitInstruction().str() +
                     " done, [$0], $1;\n"
                     "@!done bra wait_${:uid};\n"
                     "}";
  ptx::emit(builder, loc, code, "r,r,~{memory}", {barrier, parity});
}

void StagingTarget::emitAcquire(OpBuilder &builder, Location loc,
                                const StagedTile &stage, Value parity,
                                attn_tile::BufferType) const {
  // A fresh barrier is in phase 0, so waiting for the phase before it, of
  // parity 1, passes: the stage is empty at its first use.
  Value opposite = arith::XOrIOp::create(builder, loc, parity,
                                         ptx::constant(builder, loc, 1));
  emitBarrierWait(builder, loc, stage.empty, opposite);
}

void StagingTarget::emitWait(OpBuilder &builder, Location loc,
                             const StagedTile &stage, Value parity) const {
  emitBarrierWait(builder, loc, stage.full, parity);
}

//===----------------------------------------------------------------------===//
// Conversion of staged tiles
//===----------------------------------------------------------------------===//

/// Bytes that a thread loads or stores at a time, which the swizzle moves by
/// the row, and how many of them a row of a block has.
static constexpr int64_t chunkBytes = 16;
static constexpr int64_t blockChunks = blockRowBytes / chunkBytes;
/// Rows after which the swizzle repeats. As many neighbouring threads have one
/// chunk each of that many rows, which are in different banks.
static constexpr int64_t swizzleRows = 8;

namespace {
using BufferType = attn_tile::BufferType;

/// Converts a thread's chunks of a staged tile of 8-bit floats. Groups of eight
/// threads are numbered by chunks of a row first.
class StageConverter {
public:
  /// A word of four 8-bit floats as two words.
  using ExtendWord = function_ref<std::array<Value, 2>(Value)>;

  StageConverter(OpBuilder &builder, Location loc, BufferType source,
                 BufferType result, const ThreadPosition &position);

  /// Calls `beforeStores` between the first loads and the first stores. Rows
  /// from `numRows` on, if given, become zero. A thread has `loadsInFlight`
  /// loads in flight.
  void emit(Value source, Value result, Value numRows, int64_t loadsInFlight,
            ExtendWord extend, function_ref<void()> beforeStores);

private:
  /// The thread's places of one column of chunks, at its first row.
  struct Places {
    Value source, result;
  };
  Places emitPlaces(Value source, Value result, int64_t number);
  SmallVector<Value> emitLoad(Value address, int64_t rowStep);
  void emitStores(Value address, int64_t rowStep, ValueRange words,
                  ExtendWord extend);
  /// Clears what the thread has stored of rows from `numRows` on.
  void emitClear(Value address, Value numRows);
  /// Whether the thread has a row in step `rowStep`; null if all have one.
  Value emitExists(int64_t rowStep);
  int64_t getNumRowSteps() const {
    return llvm::divideCeil(rowGroups, groupsOfColumn);
  }
  /// Rows, and bytes, from the thread's first row to its row in a step.
  int64_t getRow(int64_t rowStep) const {
    return rowStep * groupsOfColumn * swizzleRows;
  }
  int64_t getOffset(int64_t rowStep) const {
    return getRow(rowStep) * blockRowBytes;
  }

  Value constant(int64_t value) { return ptx::constant(builder, loc, value); }
  template <typename OpTy>
  Value emit(Value lhs, int64_t rhs) {
    return OpTy::create(builder, loc, lhs, constant(rhs));
  }
  Value add(Value lhs, Value rhs) {
    return arith::AddIOp::create(builder, loc, lhs, rhs);
  }

  OpBuilder &builder;
  Location loc;
  BufferType sourceType, resultType;
  /// Chunks of a row that groups of threads have at the same time, and the
  /// groups of threads that share a column of chunks.
  int64_t chunksAtOnce, groupsOfColumn;
  /// Groups of rows of the tile.
  int64_t rowGroups;
  Value rowInGroup, firstRowGroup, firstRow, firstChunk;
};
} // namespace

StageConverter::StageConverter(OpBuilder &builder, Location loc,
                               BufferType source, BufferType result,
                               const ThreadPosition &position)
    : builder(builder), loc(loc), sourceType(source), resultType(result),
      rowGroups(source.getShape()[0] / swizzleRows) {
  int64_t groups = position.numThreads / swizzleRows;
  int64_t chunks = llvm::divideCeil(source.getShape()[1], chunkBytes);
  chunksAtOnce = std::gcd(chunks, groups);
  groupsOfColumn = groups / chunksAtOnce;
  rowInGroup = emit<arith::AndIOp>(position.thread, swizzleRows - 1);
  Value group =
      emit<arith::ShRUIOp>(position.thread, llvm::Log2_64(swizzleRows));
  firstChunk = emit<arith::RemUIOp>(group, chunksAtOnce);
  firstRowGroup = emit<arith::DivUIOp>(group, chunksAtOnce);
  firstRow = add(emit<arith::MulIOp>(firstRowGroup, swizzleRows), rowInGroup);
}

StageConverter::Places StageConverter::emitPlaces(Value source, Value result,
                                                  int64_t number) {
  Value chunk = emit<arith::AddIOp>(firstChunk, number * chunksAtOnce);
  Value ofRow = emit<arith::MulIOp>(firstRow, blockRowBytes);
  auto place = [&](Value stage, BufferType type, Value chunkOfRow) -> Value {
    Value block = emit<arith::ShRUIOp>(chunkOfRow, llvm::Log2_64(blockChunks));
    Value inRow = arith::XOrIOp::create(
        builder, loc, emit<arith::AndIOp>(chunkOfRow, blockChunks - 1),
        rowInGroup);
    return add(add(stage, ofRow),
               add(emit<arith::MulIOp>(block, getBlockBytes(type)),
                   emit<arith::MulIOp>(inRow, chunkBytes)));
  };
  // Elements become twice as long.
  return {place(source, sourceType, chunk),
          place(result, resultType, emit<arith::MulIOp>(chunk, 2))};
}

Value StageConverter::emitExists(int64_t rowStep) {
  int64_t first = rowStep * groupsOfColumn;
  if (first + groupsOfColumn <= rowGroups)
    return nullptr;
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt,
                               firstRowGroup, constant(rowGroups - first));
}

SmallVector<Value> StageConverter::emitLoad(Value address, int64_t rowStep) {
  SmallVector<Type> types(4, builder.getI32Type());
  std::string code = "ld.shared.v4.b32 {$0, $1, $2, $3}, [$4 + " +
                     std::to_string(getOffset(rowStep)) + "];";
  Value exists = emitExists(rowStep);
  if (!exists)
    return ptx::emitWithResults(builder, loc, types, code,
                                "=r,=r,=r,=r,r,~{memory}", address);
  return ptx::emitWithResults(builder, loc, types, "@$5 " + code,
                              "=r,=r,=r,=r,r,b,~{memory}", {address, exists});
}

void StageConverter::emitStores(Value address, int64_t rowStep,
                                ValueRange words, ExtendWord extend) {
  Value exists = emitExists(rowStep);
  // Stages begin at multiples of the swizzle, so that the second chunk of a
  // pair is chosen by one bit.
  std::array<Value, 2> halves = {address,
                                 emit<arith::XOrIOp>(address, chunkBytes)};
  for (auto [half, at] : llvm::enumerate(halves)) {
    SmallVector<Value> operands = {at};
    for (Value word : words.slice(2 * half, 2))
      llvm::append_range(operands, extend(word));
    std::string code = "st.shared.v4.b32 [$0 + " +
                       std::to_string(getOffset(rowStep)) +
                       "], {$1, $2, $3, $4};";
    std::string constraints = "r,r,r,r,r,";
    if (exists) {
      operands.push_back(exists);
      code.insert(0, "@$5 ");
      constraints += "b,";
    }
    ptx::emit(builder, loc, code, constraints + "~{memory}", operands);
  }
}

void StageConverter::emitClear(Value address, Value numRows) {
  std::string rows = std::to_string(rowGroups * swizzleRows);
  std::string code = "{\n"
                     ".reg .pred clears;\n"
                     ".reg .b32 row, second, zero;\n"
                     "setp.ge.s32 clears, $2, " +
                     rows +
                     ";\n"
                     "@clears bra done_${:uid};\n"
                     "mov.b32 zero, 0;\n"
                     "xor.b32 second, $0, " +
                     std::to_string(chunkBytes) + ";\n";
  for (int64_t step = 0, e = getNumRowSteps(); step < e; ++step) {
    code += "add.s32 row, $1, " + std::to_string(getRow(step)) +
            ";\n"
            "setp.ge.s32 clears, row, $2;\n"
            "setp.lt.and.s32 clears, row, " +
            rows + ", clears;\n";
    for (const char *at : {"$0", "second"})
      code += std::string("@clears st.shared.v4.b32 [") + at + " + " +
              std::to_string(getOffset(step)) +
              "], {zero, zero, zero, zero};\n";
  }
  ptx::emit(builder, loc, code + "done_${:uid}:\n}", "r,r,r,~{memory}",
            {address, firstRow, numRows});
}

void StageConverter::emit(Value source, Value result, Value numRows,
                          int64_t loadsInFlight, ExtendWord extend,
                          function_ref<void()> beforeStores) {
  // Loads that follow one another.
  constexpr int64_t loadsAtOnce = 4;
  int64_t chunks = llvm::divideCeil(sourceType.getShape()[1], chunkBytes);
  int64_t rowSteps = getNumRowSteps();
  SmallVector<Places> places;
  for (int64_t number = 0; number < chunks / chunksAtOnce; ++number)
    places.push_back(emitPlaces(source, result, number));
  int64_t count = static_cast<int64_t>(places.size()) * rowSteps;
  SmallVector<SmallVector<Value>> loaded;
  auto loadUntil = [&](int64_t end) {
    for (auto number = static_cast<int64_t>(loaded.size());
         number < std::min(end, count); ++number)
      loaded.push_back(
          emitLoad(places[number / rowSteps].source, number % rowSteps));
  };
  loadUntil(loadsInFlight);
  beforeStores();
  for (int64_t number = 0; number < count; ++number) {
    if (number % loadsAtOnce == 0)
      loadUntil(number + loadsInFlight);
    Value place = places[number / rowSteps].result;
    emitStores(place, number % rowSteps, loaded[number], extend);
    if (numRows && (number + 1) % rowSteps == 0)
      emitClear(place, numRows);
  }
}

void StagingTarget::emitConversion(OpBuilder &builder, Location loc,
                                   BufferType from, BufferType to, Value source,
                                   Value result, Value numRows,
                                   int64_t loadsInFlight,
                                   const ThreadPosition &position,
                                   function_ref<void()> beforeStores) const {
  StageConverter(builder, loc, from, to, position)
      .emit(
          source, result, numRows, loadsInFlight,
          [&](Value word) {
            return emitExtendFloat8(builder, loc, word, from.getElementType(),
                                    to.getElementType());
          },
          beforeStores);
}

LogicalResult StagingTarget::emitLocalConvert(
    OpBuilder &builder, attn_tile::LocalConvertOp op, const StagedTile &source,
    const StagedTile &result, Value numRows,
    const ThreadPosition &position) const {
  // Consumers have tiles in their registers.
  constexpr int64_t loadsInFlight = 4;
  Location loc = op.getLoc();
  emitConversion(builder, loc, op.getBuffer().getType(),
                 op.getResult().getType(), source.address, result.address,
                 numRows, loadsInFlight, position, [&] {
                   // With several stages, other threads still read another one.
                   if (op.getPipe().getType().getStages() == 1)
                     emitRoleBarrier(builder, loc, position);
                 });
  emitFenceBeforeMmas(builder, loc);
  emitRoleBarrier(builder, loc, position);
  return success();
}

namespace {
/// How bits of an 8-bit float become bits of a 16-bit one, up to a power of
/// two.
struct Float8Bits {
  /// How far the exponent and the mantissa of a byte in the upper half move
  /// down, and the bits where they are then, of both halves of a word.
  int64_t shift, mask;
  /// The power of two, in both halves, by which the result is multiplied.
  int64_t factor;
  /// What carries into the sign of a byte from the first infinity or NaN on, of
  /// four bytes, and the exponent of infinities and NaNs of 16 bits.
  int64_t carry, exponent;
};
} // namespace

static Float8Bits getFloat8Bits(Type from, Type to) {
  bool isE4M3 = isa<Float8E4M3FNType>(from);
  int64_t carry = isE4M3 ? 0x01010101 : 0x04040404;
  if (to.isBF16())
    return isE4M3 ? Float8Bits{4, 0x07f007f0, 0x7b807b80, carry, 0x7f80}
                  : Float8Bits{3, 0x0fe00fe0, 0x77807780, carry, 0x7f80};
  assert(isE4M3 && "E5M2 is the upper half of f16");
  return {1, 0x3f803f80, 0x5c005c00, carry, 0x7c00};
}

std::array<Value, 2> StagingTarget::emitExtendFloat8(OpBuilder &builder,
                                                     Location loc, Value word,
                                                     Type from, Type to) const {
  SmallVector<Type> types(2, builder.getI32Type());
  auto emit = [&](const std::string &code) -> std::array<Value, 2> {
    SmallVector<Value> words =
        ptx::emitWithResults(builder, loc, types, code, "=r,=r,r", word);
    return {words[0], words[1]};
  };
  if (isa<Float8E5M2Type>(from) && to.isF16())
    return emit(("prmt.b32 $0, $2, 0, " + upperByteSelectors[0] +
                 ";\nprmt.b32 $1, $2, 0, " + upperByteSelectors[1] + ";")
                    .str());
  // The exponent of 16 bits has another bias, which a multiplication adds; it
  // makes subnormal numbers normal. Infinities and NaNs get all bits of the
  // exponent and keep their mantissa.
  Float8Bits bits = getFloat8Bits(from, to);
  auto text = [](int64_t value) { return std::to_string(value); };
  std::string code = "{\n"
                     ".reg .b32 beyond, sign, rest, minus;\n"
                     "and.b32 beyond, $2, 0x7f7f7f7f;\n"
                     "add.u32 beyond, beyond, " +
                     text(bits.carry) +
                     ";\n"
                     "and.b32 beyond, beyond, 0x80808080;\n"
                     "mov.b32 minus, 0x80008000;\n";
  for (auto [number, bytes] : llvm::enumerate(upperByteSelectors)) {
    std::string result = "$" + std::to_string(number);
    code += ("prmt.b32 " + result + ", $2, 0, " + bytes + ";\n").str();
    code += "and.b32 sign, " + result + ", 0x80008000;\n";
    code += "shr.u32 rest, " + result + ", " + text(bits.shift) + ";\n";
    code += "and.b32 rest, rest, " + text(bits.mask) + ";\n";
    code += "or.b32 rest, rest, sign;\n";
    code += std::string("mov.b32 sign, ") + text(bits.factor) + ";\n";
    // The addend -0 keeps the sign of zeros.
    code += std::string("fma.rn.") + (to.isBF16() ? "bf16x2 " : "f16x2 ") +
            result + ", rest, sign, minus;\n";
    code += ("prmt.b32 rest, beyond, 0, " + bytes + ";\n").str();
    code += "shr.u32 rest, rest, 15;\n";
    code += "mul.lo.u32 rest, rest, " + text(bits.exponent) + ";\n";
    code += "or.b32 " + result + ", " + result + ", rest;\n";
  }
  return emit(code + "}");
}
