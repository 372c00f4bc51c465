//===- DeviceFigures.cpp - Rates of devices -------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Roofline estimates of operations on tensors.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/DeviceFigures.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mlir::attn;

std::optional<DeviceFigures> attn::getDeviceFigures(StringRef target) {
  // Rates that large kernels reach, not those of data sheets.
  return llvm::StringSwitch<std::optional<DeviceFigures>>(target)
      .Case("host", DeviceFigures{2e10, 1e11, 2e10, 0})
      .Case("sm_80", DeviceFigures{1.7e12, 2.5e14, 1.5e13, 3e-6})
      .Case("sm_90a", DeviceFigures{4e12, 7e14, 5e13, 3e-6})
      .Default(std::nullopt);
}

static int64_t getSize(int64_t size, int64_t dynamicSize) {
  return ShapedType::isDynamic(size) ? dynamicSize : size;
}

int64_t attn::getTensorBytes(Type type, int64_t dynamicSize) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.getElementType().isIntOrIndexOrFloat())
    return 0;
  int64_t bits =
      tensor.getElementType().isIndex() ? 64 : tensor.getElementTypeBitWidth();
  int64_t elements = 1;
  for (int64_t size : tensor.getShape())
    elements *= getSize(size, dynamicSize);
  return elements * llvm::divideCeil(bits, 8);
}

/// Time of the arithmetic of `op` alone.
static double estimateArithmetic(Operation *op, const DeviceFigures &figures,
                                 int64_t dynamicSize) {
  if (auto attention = dyn_cast<AttentionOpInterface>(op)) {
    double pairs = 1;
    for (auto [value, dim] :
         {std::pair(attention.getQuery(), 0),
          std::pair(attention.getQuery(), 1),
          std::pair(attention.getQuery(), 2), std::pair(attention.getKey(), 2)})
      pairs *= getSize(getDimSize(value, dim), dynamicSize);
    // Named masks are taken to leave half of the pairs.
    if (attention.getMaskAttr())
      pairs /= 2;
    return pairs * attention.getFlopsPerPair() / figures.productFlops;
  }
  auto linalgOp = dyn_cast<linalg::LinalgOp>(op);
  if (!linalgOp)
    return 0;
  double iterations = 1;
  for (int64_t size : linalgOp.getStaticLoopRanges())
    iterations *= getSize(size, dynamicSize);
  if (linalg::isaContractionOpInterface(linalgOp))
    return 2 * iterations / figures.productFlops;
  auto ops = linalgOp.getBlock()->without_terminator();
  return iterations * std::distance(ops.begin(), ops.end()) /
         figures.otherFlops;
}

double attn::estimateSeconds(Operation *op, const DeviceFigures &figures,
                             int64_t dynamicSize) {
  // Views move nothing.
  if (isa<tensor::CastOp, tensor::CollapseShapeOp, tensor::ExpandShapeOp>(op))
    return 0;
  double bytes = 0;
  for (Value operand : op->getOperands())
    if (!operand.getDefiningOp<tensor::EmptyOp>())
      bytes += getTensorBytes(operand.getType(), dynamicSize);
  for (Type type : op->getResultTypes())
    bytes += getTensorBytes(type, dynamicSize);
  return figures.launchSeconds +
         std::max(bytes / figures.bytesPerSecond,
                  estimateArithmetic(op, figures, dynamicSize));
}
