// RUN: attn-compile %s --target=sm_90a -o %t.o --embed-ptx
// RUN: attn-compile %s --target=sm_90a -o - --emit=llvm --embed-ptx | FileCheck %s
// RUN: not attn-compile %s --target=sm_90a -o %t.ptx 2>&1 | FileCheck %s --check-prefix=PTX

// The driver that tests use cannot load these kernels, so that the first launch
// fails: the temporary must be freed all the same.

// RUN: %if host-cc %{ attn-compile %s --target=sm_90a -o %t.so --embed-ptx %}
// RUN: %if host-cc %{ %host_cc -std=gnu11 -O1 -shared -fPIC %S/../../Unit/Runtime/FakeCuda.c -o %t.cuda.so %}
// RUN: %if host-cc %{ not env ATTN_CUDA_DRIVER=%t.cuda.so FAKE_CUDA_REPORT=1 attn-run %t.so --shape=q=1x4x8x64 --shape=k=1x2x8x64 \
// RUN:   2>&1 | FileCheck %s --check-prefix=FAIL %}

// FAIL: error: cannot load the module of kernel
// FAIL: fake CUDA: 0 bytes not freed, after 0 launches

// Two kernels with schedules of their own, and a temporary between them.

// CHECK:     call i32 @attnrtMallocAsync(
// CHECK:     call i32 @attnrtLaunchKernel(
// CHECK:     call i32 @attnrtLaunchKernel(
// CHECK:     call i32 @attnrtFreeAsync(

// PTX: error: PTX and cubin files hold one kernel, and the module has 2; write an object file or a shared library instead
func.func @two(%q: tensor<1x4x?x64xf16>, %k: tensor<1x2x?x64xf16>, %v: tensor<1x2x?x64xf16>)
    -> tensor<1x4x?x64xf16> {
  %c2 = arith.constant 2 : index
  %s = tensor.dim %q, %c2 : tensor<1x4x?x64xf16>
  %init = tensor.empty(%s) : tensor<1x4x?x64xf16>
  %x = attn.attention
      ins(%q, %k, %v : tensor<1x4x?x64xf16>, tensor<1x2x?x64xf16>, tensor<1x2x?x64xf16>)
      outs(%init : tensor<1x4x?x64xf16>)
      schedule(#attn_tile.warp_specialized<query_tile = 192, key_tile = 128, stages = 2, consumers = 3>)
      -> tensor<1x4x?x64xf16>
  %y = attn.attention
      ins(%x, %k, %v : tensor<1x4x?x64xf16>, tensor<1x2x?x64xf16>, tensor<1x2x?x64xf16>)
      outs(%init : tensor<1x4x?x64xf16>)
      schedule(#attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>)
      -> tensor<1x4x?x64xf16>
  return %y : tensor<1x4x?x64xf16>
}
