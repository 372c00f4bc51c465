//===- Fault.cpp - Faults that kernels report -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One word for each context, in host memory that the device can write: reading
// it costs nothing and waits for nothing.
//
//===----------------------------------------------------------------------===//

#include "CudaDriver.h"

#include <mutex>

using namespace attnrt;

static thread_local int32_t hostFault = ATTNRT_FAULT_NONE;

static int32_t setFaultError(int32_t fault) {
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
  if (fault == ATTNRT_FAULT_MASKS)
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "a call was given a mask that is not valid: block "
                          "lists that name a column twice or one that does "
                          "not exist, offsets or boundaries that are not "
                          "sorted or not within their tensors, or parents "
                          "that do not come before their children");
  return attnrtSetError(ATTN_INTERNAL, "a kernel reported the unknown fault %d",
                        fault);
}

int32_t attnrt::takeFault(const ContextInfo &context) {
  int32_t *word = context.fault.load(std::memory_order_acquire);
  if (!word || __atomic_load_n(word, __ATOMIC_RELAXED) == ATTNRT_FAULT_NONE)
    return ATTN_OK;
  return setFaultError(__atomic_exchange_n(
      word, static_cast<int32_t>(ATTNRT_FAULT_NONE), __ATOMIC_ACQ_REL));
}

static int32_t getCudaFaultWord(int32_t **word) {
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
          &memory, sizeof(int32_t), HostAllocPortable | HostAllocDeviceMap))
    return setCudaError(*driver, failed,
                        "cannot allocate memory of the host for faults");
  *word = static_cast<int32_t *>(memory);
  **word = ATTNRT_FAULT_NONE;
  context->fault.store(*word, std::memory_order_release);
  return ATTN_OK;
}

static int32_t checkKind(int32_t kind) {
  if (kind == ATTNRT_KIND_HOST || kind == ATTNRT_KIND_CUDA)
    return ATTN_OK;
  return attnrtSetError(ATTN_INVALID_ARGUMENT, "unknown kind of device %d",
                        kind);
}

int32_t attnrtGetFaultWord(int32_t device_kind, void **word) {
  if (int32_t status = checkKind(device_kind))
    return status;
  if (device_kind == ATTNRT_KIND_HOST) {
    *word = &hostFault;
    return ATTN_OK;
  }
  int32_t *cudaWord = nullptr;
  int32_t status = getCudaFaultWord(&cudaWord);
  *word = cudaWord;
  return status;
}

int32_t attnrtTakeFault(int32_t device_kind) {
  if (int32_t status = checkKind(device_kind))
    return status;
  if (device_kind == ATTNRT_KIND_HOST) {
    int32_t fault = hostFault;
    hostFault = ATTNRT_FAULT_NONE;
    return setFaultError(fault);
  }
  const CudaDriver *driver;
  const ContextInfo *context;
  if (int32_t status = getDriverAndContext(&driver, &context))
    return status;
  return takeFault(*context);
}
