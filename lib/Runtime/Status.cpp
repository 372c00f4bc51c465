//===- Status.cpp - Status codes, error text and dtypes -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Names of statuses and dtypes, and the error text of each thread.
//
//===----------------------------------------------------------------------===//

#include "attn-runtime/attn_runtime.h"

#include <cstdarg>
#include <cstddef>
#include <cstdio>

// The structures are written by a compiler as constant data, so that their
// layout must not depend on how this file happens to be compiled.
static_assert(sizeof(void *) == 8, "the runtime's ABI is that of LP64");
static_assert(sizeof(attn_tensor) == 40 && offsetof(attn_tensor, device) == 32,
              "layout of attn_tensor");
static_assert(sizeof(attn_tensor_spec) == 32 &&
                  offsetof(attn_tensor_spec, dims) == 16 &&
                  offsetof(attn_tensor_spec, access) == 28,
              "layout of attn_tensor_spec");
static_assert(sizeof(attn_function) == 56 &&
                  offsetof(attn_function, args) == 16 &&
                  offsetof(attn_function, reference) == 48,
              "layout of attn_function");
static_assert(sizeof(struct attn_artifact) == 40 &&
                  offsetof(struct attn_artifact, functions) == 24,
              "layout of attn_artifact");
static_assert(sizeof(attnrt_kernel) == 56 &&
                  offsetof(attnrt_kernel, block_size) == 24 &&
                  offsetof(attnrt_kernel, cache) == 48,
              "layout of attnrt_kernel");

// A fixed buffer: reporting that memory is exhausted must not need memory.
static thread_local char lastError[2048];

uint32_t attnrtAbiVersion(void) { return ATTN_RUNTIME_ABI_VERSION; }

const char *attnStatusName(int32_t status) {
  switch (status) {
  case ATTN_OK:
    return "ok";
  case ATTN_INVALID_ARGUMENT:
    return "invalid_argument";
  case ATTN_SHAPE_MISMATCH:
    return "shape_mismatch";
  case ATTN_DTYPE_MISMATCH:
    return "dtype_mismatch";
  case ATTN_MISALIGNED:
    return "misaligned";
  case ATTN_BAD_STRIDES:
    return "bad_strides";
  case ATTN_WRONG_DEVICE:
    return "wrong_device";
  case ATTN_NO_DEVICE:
    return "no_device";
  case ATTN_WRONG_ARCH:
    return "wrong_arch";
  case ATTN_OUT_OF_MEMORY:
    return "out_of_memory";
  case ATTN_DRIVER_ERROR:
    return "driver_error";
  case ATTN_IO_ERROR:
    return "io_error";
  case ATTN_VERSION_MISMATCH:
    return "version_mismatch";
  case ATTN_UNSUPPORTED:
    return "unsupported";
  case ATTN_INTERNAL:
    return "internal";
  }
  return "unknown status";
}

const char *attnGetLastError(void) { return lastError; }

int32_t attnrtSetError(int32_t status, const char *format, ...) {
  // The arguments may hold the present text, so that the new one is built
  // aside.
  char text[sizeof(lastError)];
  va_list values;
  va_start(values, format);
  int length = vsnprintf(text, sizeof(text), format, values);
  va_end(values);
  if (length < 0)
    text[0] = 0;
  snprintf(lastError, sizeof(lastError), "%s", text);
  return status;
}

const char *attnDTypeName(int32_t dtype) {
  switch (dtype) {
  case ATTN_BF16:
    return "bf16";
  case ATTN_F16:
    return "f16";
  case ATTN_F32:
    return "f32";
  case ATTN_F64:
    return "f64";
  case ATTN_I32:
    return "i32";
  case ATTN_I64:
    return "i64";
  case ATTN_I8:
    return "i8";
  case ATTN_I1:
    return "i1";
  case ATTN_F8E4M3FN:
    return "f8E4M3FN";
  case ATTN_F8E5M2:
    return "f8E5M2";
  }
  return "unknown dtype";
}

int32_t attnDTypeSize(int32_t dtype) {
  switch (dtype) {
  case ATTN_BF16:
  case ATTN_F16:
    return 2;
  case ATTN_F32:
  case ATTN_I32:
    return 4;
  case ATTN_F64:
  case ATTN_I64:
    return 8;
  case ATTN_I8:
  case ATTN_I1:
  case ATTN_F8E4M3FN:
  case ATTN_F8E5M2:
    return 1;
  }
  return 0;
}
