//===- CallAgreement.cpp - Whether ranks make the same call ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Texts that communicators share.
//
//===----------------------------------------------------------------------===//

#include "CallAgreement.h"

#include <cinttypes>
#include <cstdio>
#include <cstring>

using namespace attnrt;

int32_t attnrt::compareCalls(int32_t rank, const RankCall &call,
                             const RankCall &first, char *text, size_t size) {
  if (strcmp(call.name, first.name) != 0) {
    snprintf(text, size, "rank %d calls %s, expected %s as rank 0 does", rank,
             call.name, first.name);
    return ATTN_INVALID_ARGUMENT;
  }
  if (call.dtype != first.dtype) {
    snprintf(
        text, size, "%s: rank %d has elements of %s, expected %s as rank 0 has",
        call.name, rank, attnDTypeName(call.dtype), attnDTypeName(first.dtype));
    return ATTN_DTYPE_MISMATCH;
  }
  if (call.bytes != first.bytes) {
    snprintf(text, size,
             "%s: rank %d has parts of %" PRId64 " bytes, expected %" PRId64
             " as rank 0 has",
             call.name, rank, call.bytes, first.bytes);
    return ATTN_SHAPE_MISMATCH;
  }
  return ATTN_OK;
}

void attnrt::describeWrongMessage(int32_t from, int64_t sent, int32_t rank,
                                  int64_t expected, char *text, size_t size) {
  snprintf(text, size,
           "send_recv: rank %d sends %" PRId64 " bytes to rank %d, which "
           "expects %" PRId64,
           from, sent, rank, expected);
}

int32_t attnrt::checkTimeLimit(int64_t timeLimitMs) {
  constexpr int64_t maxTimeLimitMs = int64_t(1000) * 3600 * 24;
  if (timeLimitMs >= 1 && timeLimitMs <= maxTimeLimitMs)
    return ATTN_OK;
  return attnrtSetError(ATTN_INVALID_ARGUMENT,
                        "the time limit must be 1 to %" PRId64 " ms (was "
                        "%" PRId64 ")",
                        maxTimeLimitMs, timeLimitMs);
}
