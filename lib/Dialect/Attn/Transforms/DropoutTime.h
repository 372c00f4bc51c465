//===- DropoutTime.h - Estimates of the time of dropout ---------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What dropout takes made in the kernels of attention, made before them, and
// made beside matrix products. docs/cost-model.md has the formulas.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_DROPOUTTIME_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_DROPOUTTIME_H

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Interfaces/CostOpInterface.h"

#include <optional>
#include <string>

namespace mlir::attn {

/// Seconds that attentions with the same decisions, and the products before
/// them, take together.
struct DropoutTimes {
  double inKernel = 0;
  /// A kernel makes the decisions before; absent if they cannot be read.
  std::optional<double> sequential;
  /// One kernel for the nearest product and the decisions; absent without
  /// products and on targets without such kernels.
  std::optional<double> fused;
  double maskBytes = 0;

  /// As text, in microseconds.
  std::string describe() const;
};

/// A product alone.
double estimateProduct(MatmulOp op, const DeviceFigures &device,
                       const CostAssumptions &assumptions);

/// Estimates for `ops`, which have the same dropout and sizes, and `products`,
/// which run before them, nearest first.
DropoutTimes estimateDropout(ArrayRef<AttentionOpInterface> ops,
                             ArrayRef<MatmulOp> products, StringRef target,
                             const DeviceFigures &device,
                             const CostAssumptions &assumptions);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_DROPOUTTIME_H
