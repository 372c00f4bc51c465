//===- MathToLibdevice.cpp - Call libdevice for math functions
//--------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lowers the remaining math operations in kernels for NVIDIA GPUs.
//
//===----------------------------------------------------------------------===//

#include "attn/Conversion/Passes.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Transforms/DialectConversion.h"

namespace mlir::attn {
#define GEN_PASS_DEF_CONVERTMATHTOLIBDEVICEPASS
#include "attn/Conversion/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

/// The most calls of libdevice in a module that are inlined. A copy of a
/// function that has branches, such as the one of erf, takes LLVM and the
/// assembler up to 60 ms. A function in each of the three loops of a kernel,
/// for 64 elements of a thread, is called 192 times.
static constexpr size_t maxInlinedCalls = 192;

/// Keeps calls of libdevice if there are very many.
static void limitInlining(gpu::GPUModuleOp module) {
  SmallVector<LLVM::CallOp> calls;
  module.walk([&](LLVM::CallOp call) {
    if (call.getCallee().value_or("").starts_with("__nv_"))
      calls.push_back(call);
  });
  if (calls.size() <= maxInlinedCalls)
    return;
  remark::missed(module.getLoc(), remark::RemarkOpts::name("outlined-math")
                                      .category("convert-math-to-libdevice"))
      << ("functions of libdevice are called, not inlined: there are " +
          Twine(calls.size()) + " calls, more than " + Twine(maxInlinedCalls))
             .str();
  for (LLVM::CallOp call : calls)
    call.setNoInline(true);
}

namespace {
struct ConvertMathToLibdevicePass
    : public attn::impl::ConvertMathToLibdevicePassBase<
          ConvertMathToLibdevicePass> {
  using Base::Base;

  void runOnOperation() override {
    LLVMTypeConverter converter(&getContext());
    RewritePatternSet patterns(&getContext());
    // Libdevice comes first where both have a pattern.
    populateLibDeviceConversionPatterns(converter, patterns, PatternBenefit(2));
    populateMathToLLVMConversionPatterns(converter, patterns);
    ConversionTarget target(getContext());
    // The patterns would also convert arithmetic that has instructions.
    target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
    target.addIllegalDialect<math::MathDialect>();
    // The back end has instructions for these.
    target.addLegalOp<math::AbsFOp, math::AbsIOp, math::CeilOp,
                      math::CopySignOp, math::CountLeadingZerosOp,
                      math::CountTrailingZerosOp, math::CtPopOp, math::Exp2Op,
                      math::FloorOp, math::FmaOp, math::RoundEvenOp,
                      math::RsqrtOp, math::SqrtOp, math::TruncOp>();
    if (failed(applyPartialConversion(getOperation(), target,
                                      std::move(patterns))))
      return signalPassFailure();
    limitInlining(getOperation());
  }
};
} // namespace
