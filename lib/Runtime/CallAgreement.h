//===- CallAgreement.h - Whether ranks make the same call -------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compares the calls of two ranks, with the same texts for all communicators.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_RUNTIME_CALLAGREEMENT_H
#define ATTN_LIB_RUNTIME_CALLAGREEMENT_H

#include "attn-runtime/attn_runtime.h"

#include <cstddef>
#include <cstdint>

namespace attnrt {

/// A call of all ranks, as one of them makes it.
struct RankCall {
  const char *name = nullptr;
  /// The bytes of a part.
  int64_t bytes = 0;
  int32_t dtype = 0;
};

/// Compares the call of rank `rank` with the call of rank 0. If they do not
/// match, returns a status and writes a text.
int32_t compareCalls(int32_t rank, const RankCall &call, const RankCall &first,
                     char *text, size_t size);

/// The text for a message whose size the receiver does not expect.
void describeWrongMessage(int32_t from, int64_t sent, int32_t rank,
                          int64_t expected, char *text, size_t size);

/// Checks the time limit of a new group.
int32_t checkTimeLimit(int64_t timeLimitMs);

} // namespace attnrt

#endif // ATTN_LIB_RUNTIME_CALLAGREEMENT_H
