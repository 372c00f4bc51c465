//===- Reference.h - Attention by its definition ----------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Computes attention, its gradients and matmuls as the descriptions of the
// operations define them, in f64, with bounds of the error that a kernel in f32
// may make. It uses no code of the compiler.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_FUZZ_REFERENCE_H
#define ATTN_TEST_FUZZ_REFERENCE_H

#include "RegionInterpreter.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"

#include <vector>

namespace mlir::attn::fuzz {

/// The element of an output: an interval, or nothing where the output keeps its
/// contents.
struct ExpectedElement {
  Interval value;
  bool isWritten = false;
};
using ExpectedMap = llvm::DenseMap<Value, std::vector<ExpectedElement>>;

/// The expected contents of the outputs of the function around `op`, an
/// attention, a gradient or a matmul. `tensors` are the function's arguments.
ExpectedMap computeReference(Operation *op, const TensorMap &tensors,
                             const Accuracy &accuracy = Accuracy::ofHost());

/// The results of the attention that `op` is the gradient of, in the order of
/// the elements of `out` and `lse`.
struct ForwardResults {
  std::vector<Interval> out, lse;
};
ForwardResults computeForwardResults(AttentionGradOp op,
                                     const TensorMap &tensors,
                                     const Accuracy &accuracy);

/// Whether a dropout keep mask word of `layout` keeps a pair.
bool isKeptByWords(const DenseElements &words, MaskLayout layout, int64_t batch,
                   int64_t head, int64_t query, int64_t key);

/// The lengths that a named mask sees, and a pair of positions.
struct MaskPair {
  int64_t batch, head, query, key, numQueries, numKeys;
};

/// Whether a named mask keeps a pair. `reads` are the tensors that it reads.
bool isKeptByMask(Attribute mask, const MaskPair &pair,
                  ArrayRef<const DenseElements *> reads);

/// Whether dropout keeps a pair (docs/rng.md).
bool isKeptByDropout(DropoutAttr dropout, uint64_t seed, uint64_t offset,
                     const MaskPair &pair);

} // namespace mlir::attn::fuzz

#endif // ATTN_TEST_FUZZ_REFERENCE_H
