//===- ThreadGroup.h - Sums over neighbouring threads ----------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sums and scans of f32 values that threads of a warp have, by exchanges of
// registers. They are for regions that all threads of a warp run at once.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_THREADGROUP_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_THREADGROUP_H

#include "ScalarKernelBuilder.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace mlir::attn {

/// Groups of `size` neighbouring threads, a power of two, of which `thread` is
/// one.
class ThreadGroup {
public:
  ThreadGroup(ScalarKernelBuilder &builder, Value thread, int64_t size)
      : b(builder), thread(thread), size(size) {}

  /// The sum of the values of all threads of the group.
  Value sum(Value value) { return sum(value, size); }

  /// The sum of the values of the threads of the group before this one. A
  /// binary digit of this thread's number that is 1 stands for the threads
  /// whose higher digits are the same, and whose own one is 0.
  Value sumBefore(Value value) { return sumOfHalves(value, /*ofUpper=*/false); }

  /// The sum of the values of the threads of the group after this one.
  Value sumAfter(Value value) { return sumOfHalves(value, /*ofUpper=*/true); }

private:
  Value sum(Value value, int64_t threads) {
    if (threads == 1)
      return value;
    return gpu::SubgroupReduceOp::create(
        b, value, gpu::AllReduceOperation::ADD, /*uniform=*/false,
        static_cast<uint32_t>(threads), /*cluster_stride=*/1U);
  }
  Value sumOfHalves(Value value, bool ofUpper) {
    Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
    Value total = zero;
    for (int64_t half = 1; half < size; half *= 2) {
      Value digit = arith::AndIOp::create(b, thread, b.constant(half));
      Value isUpper = b.compare(arith::CmpIPredicate::ne, digit, b.constant(0));
      Value isOther = ofUpper ? b.invert(isUpper) : isUpper;
      Value ofHalf = sum(b.select(isOther, zero, value), 2 * half);
      total = arith::AddFOp::create(b, total, b.select(isOther, ofHalf, zero));
    }
    return total;
  }

  ScalarKernelBuilder &b;
  Value thread;
  int64_t size;
};

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_THREADGROUP_H
