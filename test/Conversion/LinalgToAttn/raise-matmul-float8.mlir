// RUN: attn-opt %s --attn-raise-matmul --canonicalize | FileCheck %s --check-prefixes=CHECK,HOST
// RUN: attn-opt %s --attn-raise-matmul=target=sm_90a --canonicalize | FileCheck %s --check-prefixes=CHECK,SM90
// RUN: attn-opt %s --attn-raise-matmul=target=sm_80 --canonicalize | FileCheck %s --check-prefixes=CHECK,SM80
// RUN: not attn-opt %s --attn-raise-matmul=target=sm_00 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// UNKNOWN: sm_00

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

// The epilogue multiplies by scales, and the result is rounded to bf16.
// CHECK-LABEL: func @scaled
// HOST: attn.matmul ins(%{{.*}}, %{{.*}} : tensor<4x16xf8E4M3FN>, tensor<8x16xf8E4M3FN>) outs(%{{.*}} : tensor<4x8xbf16>) transpose_rhs epilogue
// SM90: attn.matmul ins(%{{.*}}, %{{.*}} : tensor<4x16xf8E4M3FN>, tensor<8x16xf8E4M3FN>) outs(%{{.*}} : tensor<4x8xbf16>) transpose_rhs epilogue
// SM80-NOT: attn.matmul
func.func @scaled(%a: tensor<4x16xf8E4M3FN>, %b: tensor<8x16xf8E4M3FN>, %scale: tensor<f32>, %c: tensor<4x8xf32>,
                  %out: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%c : tensor<4x8xf32>) -> tensor<4x8xf32>
  %s = linalg.matmul indexing_maps = [#mk, #nk, #mn]
      ins(%a, %b : tensor<4x16xf8E4M3FN>, tensor<8x16xf8E4M3FN>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> ()>,
                                        affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%s, %scale : tensor<4x8xf32>, tensor<f32>) outs(%out : tensor<4x8xbf16>) {
  ^bb0(%x: f32, %y: f32, %o: bf16):
    %p = arith.mulf %x, %y : f32
    %t = arith.truncf %p : f32 to bf16
    linalg.yield %t : bf16
  } -> tensor<4x8xbf16>
  return %r : tensor<4x8xbf16>
}

// Matmuls of a right-hand side that is not contiguous along the contracted dimension have kernels of scalars on GPUs.
// sm_90a multiplies both formats.
// CHECK-LABEL: func @others
// HOST: attn.matmul
// HOST: attn.matmul
// SM90: linalg.matmul
// SM90: attn.matmul ins(%{{.*}}, %{{.*}} : tensor<4x16xf8E4M3FN>, tensor<8x16xf8E5M2>)
// SM80-NOT: attn.matmul
func.func @others(%a: tensor<4x16xf8E4M3FN>, %b: tensor<16x8xf8E4M3FN>, %e: tensor<8x16xf8E5M2>, %c: tensor<4x8xf32>)
    -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = linalg.matmul ins(%a, %b : tensor<4x16xf8E4M3FN>, tensor<16x8xf8E4M3FN>) outs(%c : tensor<4x8xf32>)
      -> tensor<4x8xf32>
  %1 = linalg.matmul indexing_maps = [#mk, #nk, #mn]
      ins(%a, %e : tensor<4x16xf8E4M3FN>, tensor<8x16xf8E5M2>) outs(%c : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}

// Rows of 20 bytes cannot be aligned as kernels on GPUs demand.
// CHECK-LABEL: func @unaligned
// HOST: attn.matmul
// SM90-NOT: attn.matmul
// SM80-NOT: attn.matmul
func.func @unaligned(%a: tensor<4x20xf8E4M3FN>, %b: tensor<8x20xf8E4M3FN>, %c: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = linalg.matmul indexing_maps = [#mk, #nk, #mn]
      ins(%a, %b : tensor<4x20xf8E4M3FN>, tensor<8x20xf8E4M3FN>) outs(%c : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// attn.matmul has no outputs of 8 bits.
// CHECK-LABEL: func @out_of_8_bits
// CHECK-NOT: attn.matmul
func.func @out_of_8_bits(%a: tensor<4x16xf8E4M3FN>, %b: tensor<16x8xf8E4M3FN>, %c: tensor<4x8xf8E4M3FN>)
    -> tensor<4x8xf8E4M3FN> {
  %0 = linalg.matmul ins(%a, %b : tensor<4x16xf8E4M3FN>, tensor<16x8xf8E4M3FN>) outs(%c : tensor<4x8xf8E4M3FN>)
      -> tensor<4x8xf8E4M3FN>
  return %0 : tensor<4x8xf8E4M3FN>
}
