//===- RandomTensors.h - Arguments of functions -----------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Random sizes and values that a function with one operation accepts.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_FUZZ_RANDOMTENSORS_H
#define ATTN_TEST_FUZZ_RANDOMTENSORS_H

#include "GuardedTensor.h"
#include "mlir/IR/Operation.h"

#include <memory>
#include <utility>
#include <vector>

namespace mlir::attn::fuzz {

/// The arguments of a function, in order.
using ArgumentTensors =
    std::vector<std::pair<Value, std::unique_ptr<GuardedTensor>>>;

/// Tensors for the function around `op`, which was compiled to `function`.
/// Outputs hold NaN. Sizes that are not known are `largestSize` at most.
ArgumentTensors makeTensors(Operation *op, const attn_function &function,
                            RandomChoices &random, int64_t largestSize = 40);

} // namespace mlir::attn::fuzz

#endif // ATTN_TEST_FUZZ_RANDOMTENSORS_H
