//===- RecordingCommunicator.cpp - Counted calls, and faults --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Forwards the calls of one rank to another communicator. Counts the bytes that
// go to and come from other ranks, and delays or fails calls, for tests.
//
//===----------------------------------------------------------------------===//

#include "attn-runtime/attn_comm.h"

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <new>
#include <thread>

namespace {

constexpr int32_t numKinds = ATTN_COMM_REDUCE_SCATTER + 1;

struct Recording : attn_comm {
  /// The functions below, for the memory of `inner`.
  attn_comm_functions table;
  attn_comm *inner;
  attn_comm_faults faults;
  attn_comm_traffic traffic[numKinds];
  int64_t numCalls;
  uint64_t random;

  /// Delays or fails a call, as the faults say; the status of a failure.
  int32_t injectFaults();
  /// Whether a call has stopped the rank.
  bool hasStopped() const {
    return faults.stop_at >= 0 && numCalls > faults.stop_at;
  }
  /// Counts a call of `kind` that returned `status`, which it returns.
  int32_t count(int32_t status, int32_t kind, int64_t sent, int64_t received);
};

} // namespace

/// The next number of a sequence (SplitMix64, Steele et al. 2014).
static uint64_t nextRandom(uint64_t &state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

int32_t Recording::injectFaults() {
  int64_t call = numCalls++;
  if (faults.max_delay_us > 0)
    std::this_thread::sleep_for(std::chrono::microseconds(
        nextRandom(random) % (uint64_t(faults.max_delay_us) + 1)));
  char text[96];
  snprintf(text, sizeof(text), "call %" PRId64 " fails as it should", call);
  if (call == faults.stop_at)
    return attnrtSetError(faults.fail_status, "rank %d: %s", rank, text);
  if (call == faults.fail_at)
    return inner->functions->abort(inner, faults.fail_status, text);
  return ATTN_OK;
}

int32_t Recording::count(int32_t status, int32_t kind, int64_t sent,
                         int64_t received) {
  if (status == ATTN_OK) {
    ++traffic[kind].calls;
    traffic[kind].bytes_sent += sent;
    traffic[kind].bytes_received += received;
  }
  return status;
}

static Recording *getRecording(attn_comm *comm) {
  return static_cast<Recording *>(comm);
}

static int32_t sendReceive(attn_comm *comm, const void *send, int64_t sendBytes,
                           int32_t to, void *receive, int64_t receiveBytes,
                           int32_t from, void *stream) {
  Recording *self = getRecording(comm);
  if (int32_t status = self->injectFaults())
    return status;
  int32_t status = self->inner->functions->send_recv(
      self->inner, send, sendBytes, to, receive, receiveBytes, from, stream);
  auto isOther = [&](int32_t peer) {
    return peer != ATTN_COMM_NO_PEER && peer != comm->rank;
  };
  return self->count(status, ATTN_COMM_SEND_RECV, isOther(to) ? sendBytes : 0,
                     isOther(from) ? receiveBytes : 0);
}

static int32_t allGather(attn_comm *comm, const void *send, void *receive,
                         int64_t bytes, void *stream) {
  Recording *self = getRecording(comm);
  if (int32_t status = self->injectFaults())
    return status;
  int64_t ofOthers = bytes * (comm->size - 1);
  return self->count(self->inner->functions->all_gather(self->inner, send,
                                                        receive, bytes, stream),
                     ATTN_COMM_ALL_GATHER, ofOthers, ofOthers);
}

static int32_t allToAll(attn_comm *comm, const void *send, void *receive,
                        int64_t bytes, void *stream) {
  Recording *self = getRecording(comm);
  if (int32_t status = self->injectFaults())
    return status;
  int64_t ofOthers = bytes * (comm->size - 1);
  return self->count(self->inner->functions->all_to_all(self->inner, send,
                                                        receive, bytes, stream),
                     ATTN_COMM_ALL_TO_ALL, ofOthers, ofOthers);
}

static int32_t reduceScatter(attn_comm *comm, const void *send, void *receive,
                             int64_t count, int32_t dtype, void *stream) {
  Recording *self = getRecording(comm);
  if (int32_t status = self->injectFaults())
    return status;
  int64_t ofOthers = count * attnDTypeSize(dtype) * (comm->size - 1);
  return self->count(self->inner->functions->reduce_scatter(
                         self->inner, send, receive, count, dtype, stream),
                     ATTN_COMM_REDUCE_SCATTER, ofOthers, ofOthers);
}

static int32_t abortInner(attn_comm *comm, int32_t status, const char *text) {
  Recording *self = getRecording(comm);
  // A rank that has stopped tells nobody.
  if (self->hasStopped())
    return attnrtSetError(status, "rank %d: %s", self->rank, text);
  return self->inner->functions->abort(self->inner, status, text);
}

static void destroy(attn_comm *comm) {
  Recording *self = getRecording(comm);
  self->inner->functions->destroy(self->inner);
  delete self;
}

static const attn_comm_functions recordingFunctions = {
    ATTN_COMM_ABI_VERSION, 0,          sendReceive, allGather, allToAll,
    reduceScatter,         abortInner, destroy};

static bool isRecording(const attn_comm *comm) {
  return comm && comm->functions && comm->functions->destroy == destroy;
}

int32_t attn_comm_create_recording(attn_comm *inner,
                                   const attn_comm_faults *faults,
                                   attn_comm **comm) {
  if (!inner || !inner->functions || !comm)
    return attnrtSetError(ATTN_INVALID_ARGUMENT, "'%s' is null",
                          comm ? "inner" : "comm");
  bool fails = faults && (faults->fail_at >= 0 || faults->stop_at >= 0);
  if (fails && faults->fail_status == ATTN_OK)
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "'fail_status' of a call that fails must not be "
                          "ATTN_OK");
  auto *recording = new (std::nothrow) Recording();
  if (!recording)
    return attnrtSetError(ATTN_OUT_OF_MEMORY,
                          "no memory for a recording communicator");
  recording->table = recordingFunctions;
  recording->table.memory = inner->functions->memory;
  recording->functions = &recording->table;
  recording->rank = inner->rank;
  recording->size = inner->size;
  recording->inner = inner;
  if (faults)
    recording->faults = *faults;
  else
    recording->faults.fail_at = recording->faults.stop_at = -1;
  recording->random = recording->faults.seed;
  *comm = recording;
  return ATTN_OK;
}

int32_t attn_comm_get_traffic(const attn_comm *comm, int32_t kind,
                              attn_comm_traffic *traffic) {
  if (!isRecording(comm))
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "the communicator does not record its traffic");
  if (kind < 0 || kind >= numKinds)
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "'kind' must be from 0 to %d (was %d)", numKinds - 1,
                          kind);
  if (!traffic)
    return attnrtSetError(ATTN_INVALID_ARGUMENT, "'traffic' is null");
  *traffic = static_cast<const Recording *>(comm)->traffic[kind];
  return ATTN_OK;
}
