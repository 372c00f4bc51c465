//===- device.c - An artifact with a kernel in PTX ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Doubles a matrix on a real device of compute capability 9.0, with what
// compiled kernels use of the runtime: a tensor map, dynamic shared memory
// beyond 48 KiB, and clusters. Tiles of 8 x 32 come in through a tensor copy
// and go out by plain stores.
//
//===----------------------------------------------------------------------===//

#include "attn-runtime/attn_runtime.h"

#include <stddef.h>

static const char ptx[] =
    ".version 8.0\n"
    ".target sm_90\n"
    ".address_size 64\n"
    ".extern .shared .align 128 .b8 tile[];\n"
    ".visible .entry twice(\n"
    "  .param .align 64 .b8 map[128],\n"
    "  .param .u64 out, .param .u32 rows, .param .u32 cols,\n"
    "  .param .u64 stride)\n"
    "{\n"
    "  .reg .pred %p<4>;\n"
    "  .reg .b32 %r<16>;\n"
    "  .reg .b64 %rd<12>;\n"
    "  .reg .f32 %f<3>;\n"
    "  .shared .align 8 .b64 bar;\n"
    "  mov.u32 %r1, %tid.x;\n"
    "  mov.u32 %r2, %ctaid.x;\n"
    "  mov.u32 %r3, %ctaid.y;\n"
    "  shl.b32 %r4, %r2, 5;\n"
    "  shl.b32 %r5, %r3, 3;\n"
    "  mov.u32 %r6, tile;\n"
    "  mov.u32 %r7, bar;\n"
    "  setp.ne.u32 %p1, %r1, 0;\n"
    "  @%p1 bra JOIN;\n"
    "  mbarrier.init.shared.b64 [%r7], 1;\n"
    "  fence.proxy.async;\n"
    "  mov.b64 %rd1, map;\n"
    "  cvta.param.u64 %rd2, %rd1;\n"
    "  mbarrier.arrive.expect_tx.shared.b64 %rd3, [%r7], 1024;\n"
    "  cp.async.bulk.tensor.2d.shared::cluster.global.tile"
    ".mbarrier::complete_tx::bytes [%r6], [%rd2, {%r4, %r5}], [%r7];\n"
    "JOIN:\n"
    "  bar.sync 0;\n"
    "WAIT:\n"
    "  mbarrier.try_wait.parity.shared.b64 %p2, [%r7], 0;\n"
    "  @!%p2 bra WAIT;\n"
    "  shl.b32 %r8, %r1, 2;\n"
    "  add.u32 %r8, %r8, %r6;\n"
    "  ld.shared.f32 %f1, [%r8];\n"
    "  add.f32 %f2, %f1, %f1;\n"
    "  shr.u32 %r9, %r1, 5;\n"
    "  and.b32 %r10, %r1, 31;\n"
    "  add.u32 %r9, %r9, %r5;\n"
    "  add.u32 %r10, %r10, %r4;\n"
    "  ld.param.u32 %r11, [rows];\n"
    "  ld.param.u32 %r12, [cols];\n"
    "  setp.ge.u32 %p3, %r9, %r11;\n"
    "  @%p3 ret;\n"
    "  setp.ge.u32 %p3, %r10, %r12;\n"
    "  @%p3 ret;\n"
    "  ld.param.u64 %rd4, [out];\n"
    "  ld.param.u64 %rd5, [stride];\n"
    "  cvt.u64.u32 %rd6, %r9;\n"
    "  cvt.u64.u32 %rd7, %r10;\n"
    "  mad.lo.u64 %rd8, %rd6, %rd5, %rd7;\n"
    "  shl.b64 %rd9, %rd8, 2;\n"
    "  add.u64 %rd10, %rd4, %rd9;\n"
    "  cvta.to.global.u64 %rd11, %rd10;\n"
    "  st.global.f32 [%rd11], %f2;\n"
    "  ret;\n"
    "}\n";

static attnrt_kernel kernel = {ptx, sizeof(ptx), "twice", 256, 65536,
                               9,   0,           0,       2,   NULL};

static const int64_t dims[] = {-1, -2};
static const attn_tensor_spec specs[] = {
    {"x", ATTN_F32, 2, dims, 16, ATTN_ACCESS_READ},
    {"out", ATTN_F32, 2, dims, 16, ATTN_ACCESS_WRITE}};

static int32_t twice(const attn_tensor *const *args, int32_t num_args,
                     void *stream) {
  int32_t status =
      attnrtCheckTensors(specs, 2, args, num_args, ATTNRT_KIND_CUDA, "twice");
  if (status)
    return status;
  const attn_tensor *x = args[0], *out = args[1];
  _Alignas(64) unsigned char map[128];
  const int32_t box[] = {8, 32};
  status = attnrtEncodeTensorMap(map, x->data, ATTN_F32, 2, x->shape,
                                 x->strides, box, 0, 128);
  if (status)
    return status;
  uint32_t rows = (uint32_t)x->shape[0], cols = (uint32_t)x->shape[1];
  uint64_t data = (uint64_t)(uintptr_t)out->data;
  uint64_t stride = (uint64_t)out->strides[0];
  void *params[] = {map, &data, &rows, &cols, &stride};
  int64_t tiles = (x->shape[1] + 31) / 32;
  return attnrtLaunchKernel(&kernel, (tiles + 1) / 2 * 2, (x->shape[0] + 7) / 8,
                            1, 0, params, stream);
}

static int32_t twice_reference(const attn_tensor *const *args, int32_t num_args,
                               int64_t row_step) {
  (void)num_args;
  const attn_tensor *x = args[0], *out = args[1];
  for (int64_t i = 0; i < x->shape[0]; i += row_step)
    for (int64_t j = 0; j < x->shape[1]; ++j)
      ((double *)out->data)[i * out->strides[0] + j] =
          2.0 * ((const float *)x->data)[i * x->strides[0] + j];
  return ATTN_OK;
}

static const char *const symbols[] = {"M", "N"};
static const attn_function functions[] = {
    {"twice", 2, 2, specs, symbols, twice, NULL, twice_reference}};

__attribute__((visibility("default")))
const struct attn_artifact attn_artifact = {
    ATTN_RUNTIME_ABI_VERSION, 1, "sm_90", "a test", functions, NULL};
