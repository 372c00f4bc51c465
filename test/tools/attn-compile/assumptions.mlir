// RUN: attn-compile %s --stop-after=raise -o - | FileCheck %s --check-prefixes=CHECK,NONE
// RUN: attn-compile %s --stop-after=raise --assume-dropout-masks -o - | FileCheck %s --check-prefixes=CHECK,DROPOUT
// RUN: attn-compile %s --stop-after=raise --assume-kept-rows -o - | FileCheck %s --check-prefixes=CHECK,KEPT
// RUN: attn-compile %s --assume-kept-rows --assume-dropout-masks -o %t.o && test -s %t.o
// RUN: attn-opt %s --attn-raising-pipeline="assume-dropout-masks assume-kept-rows" | FileCheck %s --check-prefixes=CHECK,KEPT,DROPOUT

// Assumptions about linalg: that probabilities are multiplied by keep masks,
// and that rows keep a pair, so that large negative numbers mask.

#all = affine_map<(b, i, j) -> (b, i, j)>

// CHECK-LABEL: func.func @dropped(
// NONE:          linalg.softmax
// DROPOUT:       attn.attention
// DROPOUT-SAME:      dropout_mask rows(
// CHECK:         return
func.func @dropped(%q: tensor<3x16x8xf16>, %k: tensor<3x8x16xf16>, %v: tensor<3x16x8xf16>, %mask: tensor<3x16x16xf16>) -> tensor<3x16x8xf16> {
  %zero = arith.constant 0.0 : f16
  %keep = arith.constant 0.8 : f32
  %e = tensor.empty() : tensor<3x16x16xf16>
  %s0 = linalg.fill ins(%zero : f16) outs(%e : tensor<3x16x16xf16>) -> tensor<3x16x16xf16>
  %s = linalg.batch_matmul ins(%q, %k : tensor<3x16x8xf16>, tensor<3x8x16xf16>) outs(%s0 : tensor<3x16x16xf16>) -> tensor<3x16x16xf16>
  %w = linalg.softmax dimension(2) ins(%s : tensor<3x16x16xf16>) outs(%e : tensor<3x16x16xf16>) -> tensor<3x16x16xf16>
  %d = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%w, %mask : tensor<3x16x16xf16>, tensor<3x16x16xf16>) outs(%e : tensor<3x16x16xf16>) {
  ^bb0(%a: f16, %m: f16, %out: f16):
    %0 = arith.extf %m : f16 to f32
    %1 = arith.extf %a : f16 to f32
    %2 = arith.divf %0, %keep : f32
    %3 = arith.mulf %2, %1 : f32
    %4 = arith.truncf %3 : f32 to f16
    linalg.yield %4 : f16
  } -> tensor<3x16x16xf16>
  %o0 = tensor.empty() : tensor<3x16x8xf16>
  %o1 = linalg.fill ins(%zero : f16) outs(%o0 : tensor<3x16x8xf16>) -> tensor<3x16x8xf16>
  %o = linalg.batch_matmul ins(%d, %v : tensor<3x16x16xf16>, tensor<3x16x8xf16>) outs(%o1 : tensor<3x16x8xf16>) -> tensor<3x16x8xf16>
  return %o : tensor<3x16x8xf16>
}

// CHECK-LABEL: func.func @masked(
// CHECK:         attn.attention
// NONE-SAME:         score_mod {
// KEPT-SAME:         mask_mod {
// CHECK:         return
func.func @masked(%q: tensor<3x16x8xf32>, %k: tensor<3x8x16xf32>, %v: tensor<3x16x8xf32>, %mask: tensor<3x16x16xi1>) -> tensor<3x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant -1.0e+9 : f32
  %e = tensor.empty() : tensor<3x16x16xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<3x16x16xf32>) -> tensor<3x16x16xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<3x16x8xf32>, tensor<3x8x16xf32>) outs(%s0 : tensor<3x16x16xf32>) -> tensor<3x16x16xf32>
  %m = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s, %mask : tensor<3x16x16xf32>, tensor<3x16x16xi1>) outs(%e : tensor<3x16x16xf32>) {
  ^bb0(%a: f32, %keep: i1, %out: f32):
    %0 = arith.select %keep, %a, %low : f32
    linalg.yield %0 : f32
  } -> tensor<3x16x16xf32>
  %w = linalg.softmax dimension(2) ins(%m : tensor<3x16x16xf32>) outs(%e : tensor<3x16x16xf32>) -> tensor<3x16x16xf32>
  %o0 = tensor.empty() : tensor<3x16x8xf32>
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<3x16x8xf32>) -> tensor<3x16x8xf32>
  %o = linalg.batch_matmul ins(%w, %v : tensor<3x16x16xf32>, tensor<3x16x8xf32>) outs(%o1 : tensor<3x16x8xf32>) -> tensor<3x16x8xf32>
  return %o : tensor<3x16x8xf32>
}
