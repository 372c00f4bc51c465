// RUN: attn-compile %s --target=sm_90a --embed-ptx -o %t.o
// RUN: llvm-strings %t.o | FileCheck %s
// RUN: attn-compile %s --target=sm_90a --emit=mlir --stop-after=kernel -o - | FileCheck %s --check-prefix=KERNEL
// RUN: not attn-compile %s --target=sm_80 -o %t.so 2>&1 | FileCheck %s --check-prefix=SM80

// SM80: element type on sm_80 must be bf16, f16 or f32 (was 'f8E5M2')

// The loop of keys is software-pipelined, and carries probabilities of 8 bits.
// KERNEL-LABEL: attn_tile.kernel @attention_kernel(
// KERNEL:         scf.for {{.*}} -> ({{.*}}, vector<192x160xf8E4M3FN>
// KERNEL:           attn_tile.mma_start %{{.*}}, %{{.*}} transpose_rhs : !attn_tile.buffer<192x64xf8E5M2>, <160x64xf8E4M3FN>
// KERNEL:           attn_tile.mma_start %{{.*}}, %{{.*}} transpose_rhs acc %{{.*}} : vector<192x160xf8E4M3FN>, <64x160xf8E5M2>
// KERNEL-LABEL: attn_tile.kernel @matmul_matmul_kernel(
// KERNEL:         attn_tile.mma_start %{{.*}}, %{{.*}} transpose_rhs : !attn_tile.buffer<128x128xf8E5M2>, <256x128xf8E4M3FN>

// CHECK-LABEL: .entry attention_kernel(
// CHECK: wgmma.mma_async.sync.aligned.m64n{{[0-9]+}}k32.f32.e5m2.e4m3
// CHECK: cvt.rn.satfinite.e4m3x2.f32
// CHECK: wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e5m2
func.func @attention(%q: tensor<?x8x?x64xf8E5M2>, %k: tensor<?x4x?x64xf8E4M3FN>, %v: tensor<?x4x?x64xf8E5M2>,
                     %init: tensor<?x8x?x64xbf16>) -> tensor<?x8x?x64xbf16> {
  %0 = attn.attention
      ins(%q, %k, %v : tensor<?x8x?x64xf8E5M2>, tensor<?x4x?x64xf8E4M3FN>, tensor<?x4x?x64xf8E5M2>)
      outs(%init : tensor<?x8x?x64xbf16>) mask(#attn.causal) -> tensor<?x8x?x64xbf16>
  return %0 : tensor<?x8x?x64xbf16>
}

// CHECK-LABEL: .entry matmul_matmul_kernel(
// CHECK: wgmma.mma_async.sync.aligned.m64n{{[0-9]+}}k32.f32.e5m2.e4m3
func.func @matmul(%a: tensor<?x?xf8E5M2>, %b: tensor<?x?xf8E4M3FN>, %c: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %0 = attn.matmul ins(%a, %b : tensor<?x?xf8E5M2>, tensor<?x?xf8E4M3FN>) outs(%c : tensor<?x?xf32>) transpose_rhs
      -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}

// CHECK-LABEL: .entry same_matmul_kernel(
// CHECK: wgmma.mma_async.sync.aligned.m64n{{[0-9]+}}k32.f32.e5m2.e5m2
func.func @same(%a: tensor<?x?xf8E5M2>, %c: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %0 = attn.matmul ins(%a, %a : tensor<?x?xf8E5M2>, tensor<?x?xf8E5M2>) outs(%c : tensor<?x?xf32>) transpose_rhs
      -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}
