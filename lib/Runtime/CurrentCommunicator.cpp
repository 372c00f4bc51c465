//===- CurrentCommunicator.cpp - Communication of compiled code -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The communicator of a thread, and the functions by which compiled code uses
// it.
//
//===----------------------------------------------------------------------===//

#include "attn-runtime/attn_comm.h"

#include <cinttypes>
#include <cstdint>
#include <cstdio>

static thread_local attn_comm *current = nullptr;

void attn_comm_set_current(attn_comm *comm) { current = comm; }

attn_comm *attn_comm_get_current(void) { return current; }

/// Fails unless the thread has a communicator.
static int32_t checkCurrent(const char *call) {
  if (current)
    return ATTN_OK;
  return attnrtSetError(ATTN_INVALID_ARGUMENT,
                        "%s: the thread has no communicator; expected "
                        "attn_comm_set_current before the call",
                        call);
}

/// Fails unless the thread has a communicator of a group of `ranks` ranks.
static int32_t checkGroup(const char *call, int64_t ranks) {
  if (int32_t status = checkCurrent(call))
    return status;
  if (current->size == ranks)
    return ATTN_OK;
  return attnrtSetError(ATTN_INVALID_ARGUMENT,
                        "%s: the group of rank %d has %d ranks, expected "
                        "%" PRId64,
                        call, current->rank, current->size, ranks);
}

/// A rank of compiled code as one of the interface. Numbers that are too large
/// stay so.
static int32_t narrowPeer(int64_t peer) {
  if (peer > INT32_MAX)
    return INT32_MAX;
  return peer < INT32_MIN ? INT32_MIN : static_cast<int32_t>(peer);
}

int32_t attnrtCommRank(int64_t ranks, int64_t *rank) {
  if (int32_t status = checkGroup("rank", ranks))
    return status;
  *rank = current->rank;
  return ATTN_OK;
}

int32_t attnrtCommSendRecv(const void *send, int64_t send_bytes, int64_t to,
                           void *receive, int64_t receive_bytes, int64_t from,
                           void *stream) {
  if (int32_t status = checkCurrent("send_recv"))
    return status;
  return attn_comm_send_recv(current, send, send_bytes, narrowPeer(to), receive,
                             receive_bytes, narrowPeer(from), stream);
}

int32_t attnrtCommAllGather(const void *send, void *receive, int64_t ranks,
                            int64_t bytes, void *stream) {
  if (int32_t status = checkGroup("all_gather", ranks))
    return status;
  return attn_comm_all_gather(current, send, receive, bytes, stream);
}

int32_t attnrtCommAllToAll(const void *send, void *receive, int64_t ranks,
                           int64_t bytes, void *stream) {
  if (int32_t status = checkGroup("all_to_all", ranks))
    return status;
  return attn_comm_all_to_all(current, send, receive, bytes, stream);
}

int32_t attnrtCommFinish(int32_t status) {
  if (status == ATTN_OK || !current)
    return status;
  // The group may have failed by another error; this one's text stays.
  char text[512];
  snprintf(text, sizeof(text), "%s", attnGetLastError());
  attn_comm_abort(current, status, text);
  return attnrtSetError(status, "%s", text);
}
