//===- PTX.cpp - Pieces of inline PTX ---------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Builds inline assembly operations.
//
//===----------------------------------------------------------------------===//

#include "PTX.h"
#include "attn-runtime/attn_runtime.h"
#include "attn/Target/LoweredMemRef.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::attn;

static LLVM::InlineAsmOp createAsm(OpBuilder &builder, Location loc,
                                   TypeRange results, StringRef code,
                                   StringRef constraints, ValueRange operands,
                                   bool hasSideEffects = true) {
  return LLVM::InlineAsmOp::create(
      builder, loc, results, operands, code, constraints, hasSideEffects,
      /*is_align_stack=*/false, LLVM::tailcallkind::TailCallKind::None,
      LLVM::AsmDialectAttr::get(builder.getContext(), LLVM::AsmDialect::AD_ATT),
      /*operand_attrs=*/ArrayAttr());
}

void ptx::emit(OpBuilder &builder, Location loc, StringRef code,
               StringRef constraints, ValueRange operands) {
  createAsm(builder, loc, {}, code, constraints, operands);
}

SmallVector<Value> ptx::emitWithResults(OpBuilder &builder, Location loc,
                                        TypeRange types, StringRef code,
                                        StringRef constraints,
                                        ValueRange operands) {
  Type resultType = types.front();
  if (types.size() > 1)
    resultType = LLVM::LLVMStructType::getLiteral(builder.getContext(),
                                                  llvm::to_vector(types));
  Value result =
      createAsm(builder, loc, resultType, code, constraints, operands).getRes();
  if (types.size() == 1)
    return {result};
  SmallVector<Value> values;
  for (int64_t i = 0, e = types.size(); i < e; ++i)
    values.push_back(LLVM::ExtractValueOp::create(builder, loc, result, i));
  return values;
}

Value ptx::emitPure(OpBuilder &builder, Location loc, Type type, StringRef code,
                    StringRef constraints, ValueRange operands) {
  return createAsm(builder, loc, type, code, constraints, operands,
                   /*hasSideEffects=*/false)
      .getRes();
}

std::string ptx::registerList(unsigned first, unsigned count) {
  std::string text = "{";
  for (unsigned i = 0; i < count; ++i)
    text += (i ? ",$" : "$") + std::to_string(first + i);
  return text + "}";
}

std::string ptx::repeat(StringRef constraint, unsigned count) {
  std::string text;
  for (unsigned i = 0; i < count; ++i)
    text += (i ? "," : "") + constraint.str();
  return text;
}

std::string ptx::tied(unsigned count) {
  std::string text;
  for (unsigned i = 0; i < count; ++i)
    text += (i ? "," : "") + std::to_string(i);
  return text;
}

void ptx::emitClear(OpBuilder &builder, Location loc, Value begin, Value end,
                    Value thread, int64_t numThreads) {
  constexpr int64_t bytes = 16;
  std::string code = "{\n"
                     ".reg .pred done;\n"
                     ".reg .b32 at, zero;\n"
                     "mov.b32 zero, 0;\n"
                     "mad.lo.u32 at, $2, " +
                     std::to_string(bytes) +
                     ", $0;\n"
                     "clear_${:uid}:\n"
                     "setp.ge.u32 done, at, $1;\n"
                     "@done bra cleared_${:uid};\n"
                     "st.shared.v4.b32 [at], {zero, zero, zero, zero};\n"
                     "add.u32 at, at, " +
                     std::to_string(numThreads * bytes) +
                     ";\n"
                     "bra clear_${:uid};\n"
                     "cleared_${:uid}:\n"
                     "}";
  emit(builder, loc, code, "r,r,r,~{memory}", {begin, end, thread});
}

/// Emits the pages of keys `positions` of row `row` of a page table, and
/// reports the ones that are no pages.
static SmallVector<Value> emitPageLookups(OpBuilder &builder,
                                          attn_tile::CopyOp op,
                                          const CopiedRows &pages, Value row,
                                          ValueRange positions) {
  Location loc = op.getLoc();
  LoweredMemRef table(cast<MemRefType>(op.getPageTable().getType()),
                      pages.table);
  LoweredMemRef fault(cast<MemRefType>(op.getFault().getType()), pages.fault);
  Value shift =
      ptx::constant(builder, loc, int32_t(llvm::Log2_64(op.getPageSize())));
  Type i32 = builder.getI32Type();
  // All entries are read before the first one is waited for.
  SmallVector<Value> found;
  for (Value position : positions) {
    Value number = arith::ShRUIOp::create(builder, loc, position, shift);
    Value address = table.emitAddress(builder, loc, {row, number});
    llvm::append_range(
        found,
        ptx::emitWithResults(builder, loc, i32,
                             "{\n"
                             ".reg .pred exists;\n"
                             "setp.lt.s32 exists, $1, $2;\n"
                             "mov.b32 $0, -1;\n"
                             "@exists ld.global.nc.b32 $0, [$3];\n"
                             "}",
                             "=&r,r,r,l", {position, pages.numKeys, address}));
  }
  Value word =
      fault.emitAddress(builder, loc, {ptx::constant(builder, loc, 0)});
  for (auto [page, position] : llvm::zip_equal(found, positions))
    ptx::emit(builder, loc,
              "{\n"
              ".reg .pred wrong;\n"
              "setp.lt.s32 wrong, $0, $1;\n"
              "setp.ge.and.u32 wrong, $2, $3, wrong;\n"
              "@wrong st.global.b32 [$4], $5;\n"
              "}",
              "r,r,r,r,l,r,~{memory}",
              {position, pages.numKeys, page, pages.numPages, word,
               ptx::constant(builder, loc, ATTNRT_FAULT_PAGES)});
  return found;
}

SmallVector<ptx::RowPlace>
ptx::emitRowPlaces(OpBuilder &builder, attn_tile::CopyOp op,
                   const CopiedRows &rows, Value entry, ValueRange positions) {
  Location loc = op.getLoc();
  SmallVector<RowPlace> places;
  if (attn::KVAddressingAttrInterface addressing = op.getAddressingAttr()) {
    for (Value position : positions)
      places.push_back(
          {entry, addressing.emitStoredRow(builder, loc, rows.first, position,
                                           rows.count)});
    return places;
  }
  Value inPage = constant(builder, loc, int32_t(op.getPageSize()) - 1);
  for (auto [page, position] : llvm::zip_equal(
           emitPageLookups(builder, op, rows, entry, positions), positions))
    places.push_back(
        {page, arith::AndIOp::create(builder, loc, position, inPage)});
  return places;
}

Value ptx::constant(OpBuilder &builder, Location loc, int32_t value) {
  return LLVM::ConstantOp::create(builder, loc, builder.getI32Type(),
                                  builder.getI32IntegerAttr(value));
}
