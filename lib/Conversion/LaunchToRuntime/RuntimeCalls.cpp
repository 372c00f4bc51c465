//===- RuntimeCalls.cpp - Calls of the runtime library --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Builds declarations, calls and constants that match attn_runtime.h.
//
//===----------------------------------------------------------------------===//

#include "attn/Conversion/LaunchToRuntime/RuntimeCalls.h"
#include "attn-runtime/attn_runtime.h"

using namespace mlir;

std::optional<int32_t> attn::getRuntimeDType(Type type) {
  if (type.isBF16())
    return ATTN_BF16;
  if (type.isF16())
    return ATTN_F16;
  if (type.isF32())
    return ATTN_F32;
  if (type.isF64())
    return ATTN_F64;
  if (type.isSignlessInteger(32))
    return ATTN_I32;
  if (type.isSignlessInteger(64))
    return ATTN_I64;
  if (type.isSignlessInteger(8))
    return ATTN_I8;
  if (type.isSignlessInteger(1))
    return ATTN_I1;
  if (isa<Float8E4M3FNType>(type))
    return ATTN_F8E4M3FN;
  if (isa<Float8E5M2Type>(type))
    return ATTN_F8E5M2;
  return std::nullopt;
}

Value attn::emitRuntimeCall(OpBuilder &builder, Location loc, ModuleOp module,
                            StringRef name, ValueRange arguments) {
  auto callee = module.lookupSymbol<LLVM::LLVMFuncOp>(name);
  if (!callee) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(module.getBody());
    auto type = LLVM::LLVMFunctionType::get(
        builder.getI32Type(), llvm::to_vector(arguments.getTypes()));
    callee = LLVM::LLVMFuncOp::create(builder, module.getLoc(), name, type);
    callee.setPrivate();
  }
  return LLVM::CallOp::create(builder, loc, callee, arguments).getResult();
}

Value attn::emitMemRef(OpBuilder &builder, Location loc, MemRefType type,
                       Value data, ArrayRef<Value> sizes) {
  Type i64 = builder.getI64Type();
  auto rank = int64_t(sizes.size());
  auto array = LLVM::LLVMArrayType::get(i64, rank);
  SmallVector<Type> fields = {data.getType(), data.getType(), i64};
  if (rank > 0)
    fields.append({array, array});
  Value descriptor = LLVM::PoisonOp::create(
      builder, loc,
      LLVM::LLVMStructType::getLiteral(builder.getContext(), fields));
  auto insert = [&](Value value, ArrayRef<int64_t> position) {
    descriptor =
        LLVM::InsertValueOp::create(builder, loc, descriptor, value, position);
  };
  insert(data, 0);
  insert(data, 1);
  insert(emitIntConstant(builder, loc, i64, 0), 2);
  Value stride = emitIntConstant(builder, loc, i64, 1);
  for (int64_t dim = rank; dim-- > 0;) {
    insert(sizes[dim], {3, dim});
    insert(stride, {4, dim});
    if (dim > 0)
      stride = LLVM::MulOp::create(builder, loc, stride, sizes[dim]);
  }
  return UnrealizedConversionCastOp::create(builder, loc, type, descriptor)
      .getResult(0);
}

attn::RuntimeMemRef attn::emitErrorFlag(OpBuilder &builder, Location loc,
                                        ModuleOp module, MemRefType type,
                                        int32_t deviceKind, Block *entry) {
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  Type i32 = builder.getI32Type(), i64 = builder.getI64Type();
  Value slot;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(entry);
    slot = LLVM::AllocaOp::create(builder, loc, pointer, pointer,
                                  emitIntConstant(builder, loc, i32, 1));
  }
  Value status =
      emitRuntimeCall(builder, loc, module, "attnrtGetErrorFlag",
                      {emitIntConstant(builder, loc, i32, deviceKind), slot});
  Value data = LLVM::LoadOp::create(builder, loc, pointer, slot);
  Value size = emitIntConstant(builder, loc, i64, type.getDimSize(0));
  return {status, emitMemRef(builder, loc, type, data, size)};
}

LLVM::GlobalOp attn::createStringConstant(OpBuilder &builder, Location loc,
                                          StringRef name, StringRef text) {
  std::string value = text.str();
  value.push_back('\0');
  auto type = LLVM::LLVMArrayType::get(builder.getI8Type(), value.size());
  return LLVM::GlobalOp::create(builder, loc, type, /*isConstant=*/true,
                                LLVM::Linkage::Private, name,
                                builder.getStringAttr(value));
}

LLVM::GlobalOp attn::createStructGlobal(
    OpBuilder &builder, Location loc, StringRef name, LLVM::LLVMStructType type,
    bool isConstant, LLVM::Linkage linkage,
    function_ref<SmallVector<Value>(OpBuilder &, Location)> emitFields) {
  auto global = LLVM::GlobalOp::create(builder, loc, type, isConstant, linkage,
                                       name, Attribute());
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&global.getInitializerRegion());
  Value value = LLVM::UndefOp::create(builder, loc, type);
  for (auto [index, field] : llvm::enumerate(emitFields(builder, loc)))
    value = LLVM::InsertValueOp::create(builder, loc, value, field, index);
  LLVM::ReturnOp::create(builder, loc, value);
  return global;
}

Value attn::emitIntConstant(OpBuilder &builder, Location loc, Type type,
                            int64_t value) {
  return LLVM::ConstantOp::create(builder, loc, type,
                                  builder.getIntegerAttr(type, value));
}
