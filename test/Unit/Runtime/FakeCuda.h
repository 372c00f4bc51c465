//===- FakeCuda.h - A CUDA driver for tests ----------------------*- C -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Requests of a test to the fake driver. The driver's own functions have the
// names and signatures of the real one; the functions here are additional.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_UNIT_RUNTIME_FAKECUDA_H
#define ATTN_TEST_UNIT_RUNTIME_FAKECUDA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The "cubin" of the fake driver: host functions by name. */
struct fake_kernel {
  const char *name;
  void (*run)(void **params, unsigned gx, unsigned gy, unsigned gz);
};
struct fake_image {
  char magic[8]; /* "FAKECUDA" */
  int num_kernels;
  struct fake_kernel kernels[4];
};

struct fake_launch {
  unsigned grid[3];
  unsigned block;
  unsigned shared;
  unsigned cluster;  /* 0 if launched without */
  unsigned early;    /* programmatic stream serialization */
  unsigned together; /* cooperative */
  void *stream;
};

struct fake_tensor_map {
  int dtype;
  uint32_t rank;
  void *address;
  uint64_t sizes[5];
  uint64_t strides[4];
  uint32_t box[5];
  uint32_t element_strides[5];
  int interleave, swizzle, l2_promotion, out_of_bounds_fill;
};

/* Forgets calls and failures. */
void fakeCudaReset(void);

/* Calls of a function ("cuModuleLoadDataEx") since the reset. */
int fakeCudaCount(const char *function);

/* Makes a function return `result` from now on; 0 lets it work again. */
void fakeCudaFail(const char *function, int result);

struct fake_launch fakeCudaLastLaunch(void);
struct fake_tensor_map fakeCudaLastTensorMap(void);

/* Puts a stream of the driver's into a graph, or with 0 out of any. */
void fakeCudaCapture(void *stream, int graph);

/* The bytes that the pool of scratch memory keeps when nothing is in use. */
unsigned long long fakeCudaKept(void);

/* The dynamic shared memory last allowed to a function. */
int fakeCudaLastShared(void);

#ifdef __cplusplus
}
#endif

#endif /* ATTN_TEST_UNIT_RUNTIME_FAKECUDA_H */
