//===- Communicator.cpp - Calls of communicators --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks the arguments of calls, and forwards them to the functions of the
// communicator. An argument that is not valid ends the call on all ranks.
//
//===----------------------------------------------------------------------===//

#include "attn-runtime/attn_comm.h"

#include <cinttypes>
#include <cstddef>
#include <cstdio>

static_assert(sizeof(attn_comm) == 16 && offsetof(attn_comm, size) == 12,
              "layout of attn_comm");
static_assert(sizeof(attn_comm_functions) == 56 &&
                  offsetof(attn_comm_functions, destroy) == 48,
              "layout of attn_comm_functions");
static_assert(sizeof(attn_comm_faults) == 48 &&
                  offsetof(attn_comm_faults, stop_at) == 32,
              "layout of attn_comm_faults");
static_assert(sizeof(attn_comm_traffic) == 24, "layout of attn_comm_traffic");

/// The largest number of bytes of a call, so that totals do not overflow.
static constexpr int64_t maxBytes = int64_t(1) << 48;

namespace {
/// Checks one call of a rank.
class CallCheck {
public:
  CallCheck(attn_comm *comm, const char *call) : comm(comm), call(call) {}

  /// Whether there is a communicator of this version; if not, there are no
  /// ranks to tell.
  bool hasFunctions();
  /// Whether the communicator exchanges memory that `stream` orders.
  bool isForMemoryOf(const void *stream);
  bool isBuffer(const char *name, const void *buffer, int64_t bytes);
  bool isPeer(const char *name, int32_t peer);
  bool isElementType(int32_t dtype);

  int32_t status = ATTN_OK;

private:
  bool fail(int32_t code, const char *text) {
    char message[256];
    snprintf(message, sizeof(message), "%s: %s", call, text);
    status = comm->functions->abort(comm, code, message);
    return false;
  }

  attn_comm *comm;
  const char *call;
};
} // namespace

bool CallCheck::hasFunctions() {
  if (!comm || !comm->functions)
    status = attnrtSetError(ATTN_INVALID_ARGUMENT,
                            "%s: the communicator is null", call);
  else if (comm->functions->abi_version != ATTN_COMM_ABI_VERSION)
    status = attnrtSetError(
        ATTN_VERSION_MISMATCH,
        "%s: the communicator has ABI version %u, expected %u", call,
        comm->functions->abi_version, ATTN_COMM_ABI_VERSION);
  else if (comm->size < 1 || comm->rank < 0 || comm->rank >= comm->size)
    status = attnrtSetError(ATTN_INVALID_ARGUMENT,
                            "%s: the communicator has rank %d of %d", call,
                            comm->rank, comm->size);
  return status == ATTN_OK;
}

bool CallCheck::isForMemoryOf(const void *stream) {
  if (comm->functions->memory & (stream ? ATTN_COMM_DEVICE : ATTN_COMM_HOST))
    return true;
  return fail(ATTN_UNSUPPORTED,
              stream ? "the group does not exchange memory of devices"
                     : "the group does not exchange memory of the host");
}

bool CallCheck::isBuffer(const char *name, const void *buffer, int64_t bytes) {
  char text[160];
  if (bytes >= 0 && bytes <= maxBytes / comm->size && (buffer || bytes == 0))
    return true;
  if (bytes < 0 || bytes > maxBytes / comm->size)
    snprintf(text, sizeof(text),
             "the size of '%s' is %" PRId64 " bytes; it must be from 0 to "
             "%" PRId64,
             name, bytes, maxBytes / comm->size);
  else
    snprintf(text, sizeof(text), "'%s' is null, but has %" PRId64 " bytes",
             name, bytes);
  return fail(ATTN_INVALID_ARGUMENT, text);
}

bool CallCheck::isPeer(const char *name, int32_t peer) {
  if (peer == ATTN_COMM_NO_PEER || (peer >= 0 && peer < comm->size))
    return true;
  char text[160];
  snprintf(text, sizeof(text),
           "'%s' is rank %d; it must be from 0 to %d, or ATTN_COMM_NO_PEER",
           name, peer, comm->size - 1);
  return fail(ATTN_INVALID_ARGUMENT, text);
}

bool CallCheck::isElementType(int32_t dtype) {
  if (dtype == ATTN_F32 || dtype == ATTN_F64)
    return true;
  char text[160];
  snprintf(text, sizeof(text),
           "cannot add up elements of %s; expected f32 or "
           "f64",
           attnDTypeName(dtype));
  return fail(ATTN_UNSUPPORTED, text);
}

int32_t attn_comm_send_recv(attn_comm *comm, const void *send,
                            int64_t send_bytes, int32_t to, void *receive,
                            int64_t receive_bytes, int32_t from, void *stream) {
  CallCheck check(comm, "send_recv");
  if (!check.hasFunctions() || !check.isForMemoryOf(stream) ||
      !check.isPeer("to", to) || !check.isPeer("from", from) ||
      (to >= 0 && !check.isBuffer("send", send, send_bytes)) ||
      (from >= 0 && !check.isBuffer("receive", receive, receive_bytes)))
    return check.status;
  return comm->functions->send_recv(comm, send, send_bytes, to, receive,
                                    receive_bytes, from, stream);
}

int32_t attn_comm_all_gather(attn_comm *comm, const void *send, void *receive,
                             int64_t bytes, void *stream) {
  CallCheck check(comm, "all_gather");
  if (!check.hasFunctions() || !check.isForMemoryOf(stream) ||
      !check.isBuffer("send", send, bytes) ||
      !check.isBuffer("receive", receive, bytes))
    return check.status;
  return comm->functions->all_gather(comm, send, receive, bytes, stream);
}

int32_t attn_comm_all_to_all(attn_comm *comm, const void *send, void *receive,
                             int64_t bytes, void *stream) {
  CallCheck check(comm, "all_to_all");
  if (!check.hasFunctions() || !check.isForMemoryOf(stream) ||
      !check.isBuffer("send", send, bytes) ||
      !check.isBuffer("receive", receive, bytes))
    return check.status;
  return comm->functions->all_to_all(comm, send, receive, bytes, stream);
}

int32_t attn_comm_reduce_scatter(attn_comm *comm, const void *send,
                                 void *receive, int64_t count, int32_t dtype,
                                 void *stream) {
  CallCheck check(comm, "reduce_scatter");
  if (!check.hasFunctions() || !check.isForMemoryOf(stream) ||
      !check.isElementType(dtype))
    return check.status;
  // A count that is too large stays too large.
  int64_t bytes = count > maxBytes ? count : count * attnDTypeSize(dtype);
  if (!check.isBuffer("send", send, bytes) ||
      !check.isBuffer("receive", receive, bytes))
    return check.status;
  return comm->functions->reduce_scatter(comm, send, receive, count, dtype,
                                         stream);
}

int32_t attn_comm_abort(attn_comm *comm, int32_t status, const char *text) {
  CallCheck check(comm, "abort");
  if (!check.hasFunctions())
    return check.status;
  if (status == ATTN_OK)
    status = ATTN_INTERNAL;
  return comm->functions->abort(comm, status, text ? text : "");
}

void attn_comm_destroy(attn_comm *comm) {
  if (comm && comm->functions)
    comm->functions->destroy(comm);
}
