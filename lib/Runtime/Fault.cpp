//===- Fault.cpp - Faults that kernels report -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A few words for each context, in host memory that the device can write:
// reading them costs nothing and waits for nothing.
//
//===----------------------------------------------------------------------===//

#include "CudaDriver.h"

#include <algorithm>
#include <cstdio>
#include <mutex>

using namespace attnrt;

static thread_local int32_t hostFault[ATTNRT_ERROR_FLAG_WORDS] = {};

/// The error text for a fault in the operands of a mask; null if `fault` is
/// another one. The text takes both numbers.
static const char *getMaskText(int32_t fault) {
  switch (fault) {
  case ATTNRT_FAULT_BOUNDARY:
    return "boundaries of documents hold %d, expected 0 to %d";
  case ATTNRT_FAULT_BOUNDARY_ORDER:
    return "boundaries of documents hold %d after %d, expected no smaller one";
  case ATTNRT_FAULT_PARENTS:
    return "'parents' has %d entries, expected %d, one for each node";
  case ATTNRT_FAULT_PARENT:
    return "'parents' holds %d for node %d, expected -1 or a smaller number "
           "than the node's";
  case ATTNRT_FAULT_OFFSETS:
    return "'offsets' has %d entries, expected %d, one more than there are "
           "rows of blocks";
  case ATTNRT_FAULT_OFFSET:
    return "'offsets' holds %d, expected 0 to %d, the size of 'indices'";
  case ATTNRT_FAULT_OFFSET_ORDER:
    return "'offsets' holds %d after %d, expected no smaller one";
  case ATTNRT_FAULT_COLUMN:
    return "'indices' holds %d, expected 0 to %d";
  case ATTNRT_FAULT_COLUMN_TWICE:
    return "'indices' holds %d twice in row %d of blocks, expected it once";
  default:
    return nullptr;
  }
}

/// Sets the error of a fault, whose numbers are in `words`.
static int32_t setFaultError(int32_t fault, const int32_t *words) {
  if (fault == ATTNRT_FAULT_NONE)
    return ATTN_OK;
  if (fault == ATTNRT_FAULT_SEQUENCES)
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "a call was given lengths or boundaries of sequences "
                          "that are not sorted or not within its tensors; it "
                          "computed nothing");
  if (fault == ATTNRT_FAULT_HEADS)
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "a call was given a map of heads with an entry that "
                          "is no key head");
  if (fault == ATTNRT_FAULT_KEY_LENGTHS)
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "a call was given a number of keys that is negative "
                          "or more than its cache has room for");
  if (fault == ATTNRT_FAULT_PAGES)
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "a call was given a page table with an entry that is "
                          "no page of its cache");
  if (fault == ATTNRT_FAULT_POSITIONS)
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "a call was given new keys or queries at positions "
                          "for which its tables of the rotary embedding have "
                          "no row");
  if (fault == ATTNRT_FAULT_SHARD)
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "a call with dropout was given a shard whose first "
                          "query or first key is not at a multiple of 16");
  if (fault == ATTNRT_FAULT_LOG_DECAYS)
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "a call was given a log-decay that is more than 0 or "
                          "no number, or boundaries of sequences of linear "
                          "attention that are not sorted or not within its "
                          "tensors, or that do not go from 0 to the number of "
                          "tokens or have another number of states");
  if (const char *text = getMaskText(fault)) {
    char message[128];
    snprintf(message, sizeof(message), text, words[2 * fault],
             words[2 * fault + 1]);
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "a call was given a mask that is not valid: %s",
                          message);
  }
  return attnrtSetError(ATTN_INTERNAL, "a kernel reported the unknown fault %d",
                        fault);
}

int32_t attnrt::takeFault(const ContextInfo &context) {
  int32_t *word = context.fault.load(std::memory_order_acquire);
  if (!word || __atomic_load_n(word, __ATOMIC_RELAXED) == ATTNRT_FAULT_NONE)
    return ATTN_OK;
  int32_t fault = __atomic_exchange_n(
      word, static_cast<int32_t>(ATTNRT_FAULT_NONE), __ATOMIC_ACQ_REL);
  return setFaultError(fault, word);
}

static int32_t getCudaErrorFlag(int32_t **word) {
  const CudaDriver *driver;
  const ContextInfo *context;
  if (int32_t status = getDriverAndContext(&driver, &context))
    return status;
  *word = context->fault.load(std::memory_order_acquire);
  if (*word)
    return ATTN_OK;
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  *word = context->fault.load(std::memory_order_acquire);
  if (*word)
    return ATTN_OK;
  if (!driver->memHostAlloc)
    return attnrtSetError(ATTN_UNSUPPORTED,
                          "the CUDA driver cannot allocate memory of the host");
  // All addresses are unified: the device uses the host's.
  void *memory = nullptr;
  if (CUresult failed = driver->memHostAlloc(
          &memory, ATTNRT_ERROR_FLAG_WORDS * sizeof(int32_t),
          HostAllocPortable | HostAllocDeviceMap))
    return setCudaError(*driver, failed,
                        "cannot allocate memory of the host for faults");
  *word = static_cast<int32_t *>(memory);
  std::fill_n(*word, ATTNRT_ERROR_FLAG_WORDS, 0);
  context->fault.store(*word, std::memory_order_release);
  return ATTN_OK;
}

static int32_t checkKind(int32_t kind) {
  if (kind == ATTNRT_KIND_HOST || kind == ATTNRT_KIND_CUDA)
    return ATTN_OK;
  return attnrtSetError(ATTN_INVALID_ARGUMENT, "unknown kind of device %d",
                        kind);
}

int32_t attnrtGetErrorFlag(int32_t device_kind, void **word) {
  if (int32_t status = checkKind(device_kind))
    return status;
  if (device_kind == ATTNRT_KIND_HOST) {
    *word = hostFault;
    return ATTN_OK;
  }
  int32_t *cudaWord = nullptr;
  int32_t status = getCudaErrorFlag(&cudaWord);
  *word = cudaWord;
  return status;
}

int32_t attnrtTakeFault(int32_t device_kind) {
  if (int32_t status = checkKind(device_kind))
    return status;
  if (device_kind == ATTNRT_KIND_HOST) {
    int32_t fault = hostFault[0];
    hostFault[0] = ATTNRT_FAULT_NONE;
    return setFaultError(fault, hostFault);
  }
  const CudaDriver *driver;
  const ContextInfo *context;
  if (int32_t status = getDriverAndContext(&driver, &context))
    return status;
  return takeFault(*context);
}
