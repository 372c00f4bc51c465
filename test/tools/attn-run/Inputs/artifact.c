//===- artifact.c - An artifact written by hand ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a compiler would make of four small functions. Compiled as it is, it is
// for the host; with CUDA defined, for a GPU whose kernels are host functions
// of the fake driver. ABI and TARGET can be defined to make an artifact that
// does not fit.
//
//===----------------------------------------------------------------------===//

#include "attn-runtime/attn_runtime.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#ifndef ABI
#define ABI ATTN_RUNTIME_ABI_VERSION
#endif

static float load_bf16(const void *data, int64_t offset) {
  uint32_t bits = (uint32_t)((const uint16_t *)data)[offset] << 16;
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

static uint16_t to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  bits += 0x7fff + ((bits >> 16) & 1);
  return (uint16_t)(bits >> 16);
}

static int64_t offset_of(const attn_tensor *tensor, int64_t b, int64_t h,
                         int64_t s, int64_t d) {
  return b * tensor->strides[0] + h * tensor->strides[1] +
         s * tensor->strides[2] + d * tensor->strides[3];
}

/* scale: out = 2 x, sum = the sum of each row of out. */

static void scale_row(const attn_tensor *const *args, int64_t row) {
  const attn_tensor *x = args[0], *out = args[1], *sum = args[2];
  int64_t s = row % x->shape[2];
  int64_t h = row / x->shape[2] % x->shape[1];
  int64_t b = row / x->shape[2] / x->shape[1];
  float total = 0;
  for (int64_t d = 0; d < x->shape[3]; ++d) {
    float value = 2 * load_bf16(x->data, offset_of(x, b, h, s, d));
    ((uint16_t *)out->data)[offset_of(out, b, h, s, d)] = to_bf16(value);
    total += value;
  }
  ((float *)sum->data)[b * sum->strides[0] + h * sum->strides[1] +
                       s * sum->strides[2]] = total;
}

static int64_t num_rows(const attn_tensor *const *args) {
  const int64_t *shape = args[0]->shape;
  return shape[0] * shape[1] * shape[2];
}

static const int64_t x_dims[] = {-1, 2, -2, 8};
static const int64_t sum_dims[] = {-1, 2, -2};
static const attn_tensor_spec scale_specs[] = {
    {"x", ATTN_BF16, 4, x_dims, 16, ATTN_ACCESS_READ},
    {"out", ATTN_BF16, 4, x_dims, 16, ATTN_ACCESS_WRITE},
    {"sum", ATTN_F32, 3, sum_dims, 4, ATTN_ACCESS_WRITE}};

#ifdef CUDA

#include "FakeCuda.h"

static void scale_kernel(void **params, unsigned gx, unsigned gy, unsigned gz) {
  (void)gy, (void)gz;
  for (unsigned row = 0; row < gx; ++row)
    scale_row((const attn_tensor *const *)params, row);
}

static const struct fake_image image = {
    {'F', 'A', 'K', 'E', 'C', 'U', 'D', 'A'}, 1, {{"scale", scale_kernel}}};
static attnrt_kernel kernel = {&image, sizeof(image), "scale", 128, 0, 9, 0, 1,
                               0,      NULL};

static int32_t scale(const attn_tensor *const *args, int32_t num_args,
                     void *stream) {
  int32_t status = attnrtCheckTensors(scale_specs, 3, args, num_args,
                                      ATTNRT_KIND_CUDA, "scale");
  if (status)
    return status;
  return attnrtLaunchKernel(&kernel, num_rows(args), 1, 1, 0, (void **)args,
                            stream);
}

#ifndef TARGET
#define TARGET "sm_90a"
#endif

#else

static void scale_rows(int64_t begin, int64_t end, void *context) {
  for (int64_t row = begin; row < end; ++row)
    scale_row((const attn_tensor *const *)context, row);
}

static int32_t scale(const attn_tensor *const *args, int32_t num_args,
                     void *stream) {
  (void)stream;
  int32_t status = attnrtCheckTensors(scale_specs, 3, args, num_args,
                                      ATTNRT_KIND_HOST, "scale");
  if (status)
    return status;
  return attnrtParallelFor(num_rows(args), scale_rows, (void *)args);
}

#ifndef TARGET
#define TARGET "host"
#endif

#endif

static int64_t scale_flops(const attn_tensor *const *args) {
  return 16 * num_rows(args);
}

static int32_t scale_reference(const attn_tensor *const *args, int32_t num_args,
                               int64_t row_step) {
  const attn_tensor *x = args[0], *out = args[1], *sum = args[2];
  (void)num_args;
  for (int64_t b = 0; b < x->shape[0]; ++b)
    for (int64_t h = 0; h < x->shape[1]; ++h)
      for (int64_t s = 0; s < x->shape[2]; s += row_step) {
        double total = 0;
        for (int64_t d = 0; d < x->shape[3]; ++d) {
          double value = 2.0 * load_bf16(x->data, offset_of(x, b, h, s, d));
          ((double *)out->data)[offset_of(out, b, h, s, d)] = value;
          total += value;
        }
        ((double *)sum->data)[b * sum->strides[0] + h * sum->strides[1] +
                              s * sum->strides[2]] = total;
      }
  return ATTN_OK;
}

/* forgetful: leaves out all rows but the first. */

static int32_t forgetful(const attn_tensor *const *args, int32_t num_args,
                         void *stream) {
  (void)num_args, (void)stream;
  scale_row(args, 0);
  return ATTN_OK;
}

/* negate: out = -x for integers, and a copy of a scalar. */

static const int64_t n_dims[] = {-1};
static const attn_tensor_spec negate_specs[] = {
    {"n", ATTN_I32, 1, n_dims, 4, ATTN_ACCESS_READ},
    {"scalar", ATTN_F32, 0, NULL, 4, ATTN_ACCESS_READ},
    {"negated", ATTN_I32, 1, n_dims, 4, ATTN_ACCESS_WRITE},
    {"copy", ATTN_F32, 0, NULL, 4, ATTN_ACCESS_WRITE}};
static const char *const negate_symbols[] = {"N"};

static int32_t negate(const attn_tensor *const *args, int32_t num_args,
                      void *stream) {
  (void)num_args, (void)stream;
  for (int64_t i = 0; i < args[0]->shape[0]; ++i)
    ((int32_t *)args[2]->data)[i] = -((const int32_t *)args[0]->data)[i];
  *(float *)args[3]->data = *(const float *)args[1]->data;
  return ATTN_OK;
}

static int32_t negate_reference(const attn_tensor *const *args,
                                int32_t num_args, int64_t row_step) {
  (void)num_args;
  for (int64_t i = 0; i < args[0]->shape[0]; i += row_step)
    ((int32_t *)args[2]->data)[i] = -((const int32_t *)args[0]->data)[i];
  *(double *)args[3]->data = *(const float *)args[1]->data;
  return ATTN_OK;
}

/* failing: reports an error of its own. */

static int32_t failing(const attn_tensor *const *args, int32_t num_args,
                       void *stream) {
  (void)args, (void)num_args, (void)stream;
  return attnrtSetError(ATTN_INTERNAL, "failing: as its name says");
}

static const char *const scale_symbols[] = {"B", "S"};
static const attn_function functions[] = {
    {"scale", 3, 2, scale_specs, scale_symbols, scale, scale_flops,
     scale_reference},
    {"forgetful", 3, 2, scale_specs, NULL, forgetful, NULL, scale_reference},
    {"negate", 4, 1, negate_specs, negate_symbols, negate, NULL,
     negate_reference},
    {"failing", 1, 2, scale_specs, scale_symbols, failing, NULL, NULL}};

__attribute__((visibility("default")))
const struct attn_artifact attn_artifact = {ABI,      4,         TARGET,
                                            "a test", functions, NULL};
