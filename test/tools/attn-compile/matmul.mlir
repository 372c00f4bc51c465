// A function of matmuls and attention compiles by itself.
//
// RUN: attn-compile %s --target=sm_90a --stop-after=kernel | FileCheck %s
// RUN: attn-compile %s --target=host --stop-after=tile | FileCheck %s --check-prefix=HOST
// RUN: attn-compile %s --target=sm_90a --stop-after=bufferize | FileCheck %s --check-prefix=ARGUMENTS
// RUN: attn-compile %s --target=sm_80 --stop-after=kernel | FileCheck %s --check-prefix=SM80

// Rows of what is copied in blocks are aligned.
// ARGUMENTS: func.func @project_and_attend(%{{[a-z0-9]+}}: memref<?x256xbf16, {{[^{]*}}> {attn.alignment = 16 : i32
// ARGUMENTS-SAME: memref<4x64xf32, {{[^{]*}}> {attn.alignment = 4 : i32

// CHECK-COUNT-3: attn_tile.launch @project_and_attend_matmul_kernel{{.*}} ctas_per_sm(1)
// CHECK: attn_tile.launch @project_and_attend_kernel
// CHECK: attn_tile.kernel @project_and_attend_matmul_kernel
// CHECK: attn_tile.role producer
// CHECK: attn_tile.role consumer
// CHECK: attn_tile.mma_wait_before
// CHECK: attn_tile.store_through

// HOST-COUNT-3: attn_tile.launch @project_and_attend_matmul_kernel
// HOST: attn_tile.launch @project_and_attend_kernel

// SM80-COUNT-3: attn_tile.launch @project_and_attend_matmul_kernel
// SM80: attn_tile.launch @project_and_attend_kernel
// SM80: attn_tile.kernel @project_and_attend_matmul_kernel
// SM80-NOT: attn_tile.role
#x = affine_map<(h, m, n, k) -> (m, k)>
#w = affine_map<(h, m, n, k) -> (h, n, k)>
#y = affine_map<(h, m, n, k) -> (h, m, n)>
#all = affine_map<(h, m, n) -> (h, m, n)>
#bias = affine_map<(h, m, n) -> (h, n)>
func.func @project_and_attend(%x: tensor<?x256xbf16>, %wq: tensor<4x64x256xbf16>, %wk: tensor<4x64x256xbf16>,
                              %wv: tensor<4x64x256xbf16>, %bias: tensor<4x64xf32>) -> tensor<1x4x?x64xbf16> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?x256xbf16>
  %empty = tensor.empty(%n) : tensor<4x?x64xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x?x64xf32>) -> tensor<4x?x64xf32>
  %e = tensor.empty(%n) : tensor<4x?x64xbf16>
  %q32 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %wq : tensor<?x256xbf16>, tensor<4x64x256xbf16>) outs(%zeros : tensor<4x?x64xf32>) {
  ^bb0(%a: bf16, %b: bf16, %s: f32):
    %0 = arith.extf %a : bf16 to f32
    %1 = arith.extf %b : bf16 to f32
    %2 = arith.mulf %0, %1 : f32
    %3 = arith.addf %s, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<4x?x64xf32>
  %q = linalg.generic {indexing_maps = [#all, #bias, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%q32, %bias : tensor<4x?x64xf32>, tensor<4x64xf32>) outs(%e : tensor<4x?x64xbf16>) {
  ^bb0(%a: f32, %b: f32, %o: bf16):
    %0 = arith.addf %a, %b : f32
    %1 = arith.truncf %0 : f32 to bf16
    linalg.yield %1 : bf16
  } -> tensor<4x?x64xbf16>
  %qh = tensor.expand_shape %q [[0, 1], [2], [3]] output_shape [1, 4, %n, 64] : tensor<4x?x64xbf16> into tensor<1x4x?x64xbf16>
  %k32 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %wk : tensor<?x256xbf16>, tensor<4x64x256xbf16>) outs(%zeros : tensor<4x?x64xf32>) {
  ^bb0(%a: bf16, %b: bf16, %s: f32):
    %0 = arith.extf %a : bf16 to f32
    %1 = arith.extf %b : bf16 to f32
    %2 = arith.mulf %0, %1 : f32
    %3 = arith.addf %s, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<4x?x64xf32>
  %k = linalg.generic {indexing_maps = [#all, #bias, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%k32, %bias : tensor<4x?x64xf32>, tensor<4x64xf32>) outs(%e : tensor<4x?x64xbf16>) {
  ^bb0(%a: f32, %b: f32, %o: bf16):
    %0 = arith.addf %a, %b : f32
    %1 = arith.truncf %0 : f32 to bf16
    linalg.yield %1 : bf16
  } -> tensor<4x?x64xbf16>
  %kh = tensor.expand_shape %k [[0, 1], [2], [3]] output_shape [1, 4, %n, 64] : tensor<4x?x64xbf16> into tensor<1x4x?x64xbf16>
  %v32 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %wv : tensor<?x256xbf16>, tensor<4x64x256xbf16>) outs(%zeros : tensor<4x?x64xf32>) {
  ^bb0(%a: bf16, %b: bf16, %s: f32):
    %0 = arith.extf %a : bf16 to f32
    %1 = arith.extf %b : bf16 to f32
    %2 = arith.mulf %0, %1 : f32
    %3 = arith.addf %s, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<4x?x64xf32>
  %v = linalg.generic {indexing_maps = [#all, #bias, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%v32, %bias : tensor<4x?x64xf32>, tensor<4x64xf32>) outs(%e : tensor<4x?x64xbf16>) {
  ^bb0(%a: f32, %b: f32, %o: bf16):
    %0 = arith.addf %a, %b : f32
    %1 = arith.truncf %0 : f32 to bf16
    linalg.yield %1 : bf16
  } -> tensor<4x?x64xbf16>
  %vh = tensor.expand_shape %v [[0, 1], [2], [3]] output_shape [1, 4, %n, 64] : tensor<4x?x64xbf16> into tensor<1x4x?x64xbf16>
  %o = tensor.empty(%n) : tensor<1x4x?x64xbf16>
  %r = attn.attention ins(%qh, %kh, %vh : tensor<1x4x?x64xbf16>, tensor<1x4x?x64xbf16>, tensor<1x4x?x64xbf16>)
      outs(%o : tensor<1x4x?x64xbf16>) mask(#attn.causal) -> tensor<1x4x?x64xbf16>
  return %r : tensor<1x4x?x64xbf16>
}
