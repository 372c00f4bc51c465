//===- SplitAttention.cpp - Attention goes to Attn ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Net.h"
#include "attn/Dialect/Attn/IR/AttnAttrs.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

/// A function that computes `op`, as Attn's compiler takes it: from tensors to
/// a tensor.
static func::FuncOp makeKernel(OpBuilder &builder, net::SelfAttentionOp op,
                               StringRef name) {
  Location loc = op.getLoc();
  auto type = cast<RankedTensorType>(op.getType());
  auto kernel = func::FuncOp::create(
      builder, loc, name, builder.getFunctionType({type, type, type}, type));
  OpBuilder body = OpBuilder::atBlockBegin(kernel.addEntryBlock());
  Value out = tensor::EmptyOp::create(body, loc, type.getShape(),
                                      type.getElementType());
  auto attention = attn::AttentionOp::create(
      body, loc, kernel.getArgument(0), kernel.getArgument(1),
      kernel.getArgument(2), out, /*scale=*/{},
      attn::CausalAttr::get(op.getContext(), attn::MaskAlignment::TopLeft));
  func::ReturnOp::create(body, loc, attention->getResults());
  return kernel;
}

OwningOpRef<ModuleOp> net::splitAttention(ModuleOp module) {
  OwningOpRef<ModuleOp> kernels = ModuleOp::create(module.getLoc());
  OpBuilder kernelBuilder = OpBuilder::atBlockEnd(kernels->getBody());
  unsigned number = 0;
  module.walk([&](SelfAttentionOp op) {
    std::string name = "attention" + std::to_string(number++);
    makeKernel(kernelBuilder, op, name);
    OpBuilder builder(op);
    auto call =
        CallKernelOp::create(builder, op.getLoc(), op.getType(),
                             builder.getStringAttr(name), op->getOperands());
    op.replaceAllUsesWith(call.getResult());
    op.erase();
  });
  return kernels;
}
