// RUN: attn-opt %s --attn-differentiate=mode=combined --split-input-file | FileCheck %s

// Gradients of tensors of 8 bits are f32; scales in score_mod are part of them.
// CHECK-LABEL: func @attention_grad(
// CHECK-SAME: -> (tensor<?x4x?x64xbf16>, tensor<?x4x?x64xf32>, tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>, tensor<4xf32>)
// CHECK: attn.attention_grad ins({{.*}} : tensor<?x4x?x64xf8E4M3FN>, tensor<?x2x?x64xf8E4M3FN>, tensor<?x2x?x64xf8E4M3FN>,
// CHECK-SAME: tensor<?x4x?x64xbf16>, tensor<?x4x?xf32>, tensor<?x4x?x64xbf16>)
// CHECK-SAME: outs({{.*}} : tensor<?x4x?x64xf32>, tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>, tensor<4xf32>)
// CHECK: score_mod_grad {
// CHECK: attn.accumulate
func.func @attention(%q: tensor<?x4x?x64xf8E4M3FN>, %k: tensor<?x2x?x64xf8E4M3FN>, %v: tensor<?x2x?x64xf8E4M3FN>,
    %scale: tensor<4xf32>) -> tensor<?x4x?x64xbf16> {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %b = tensor.dim %q, %c0 : tensor<?x4x?x64xf8E4M3FN>
  %n = tensor.dim %q, %c2 : tensor<?x4x?x64xf8E4M3FN>
  %init = tensor.empty(%b, %n) : tensor<?x4x?x64xbf16>
  %0 = attn.attention
      ins(%q, %k, %v : tensor<?x4x?x64xf8E4M3FN>, tensor<?x2x?x64xf8E4M3FN>, tensor<?x2x?x64xf8E4M3FN>)
      outs(%init : tensor<?x4x?x64xbf16>)
      score_mod {
      ^bb0(%s: f32, %bi: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %scale[%h] : tensor<4xf32>
        %t = arith.mulf %s, %x : f32
        attn.yield %t : f32
      } -> tensor<?x4x?x64xbf16>
  return %0 : tensor<?x4x?x64xbf16>
}

// -----

// Conversions, slices, paddings and reshapes of 8 bits have gradients of f32, too.
#map = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-LABEL: func @moves_grad(
// CHECK-SAME: -> (tensor<8x8xf32>, tensor<32xf32>)
// CHECK: %[[G:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<8x8xf8E5M2>, tensor<8x8xf32>) outs(%{{.*}} : tensor<8x8xf32>)
// CHECK: %[[PAD:.*]] = tensor.extract_slice %[[G]][6, 0] [2, 8] [1, 1] : tensor<8x8xf32> to tensor<2x8xf32>
// CHECK: %[[ZEROS:.*]] = linalg.fill {{.*}} -> tensor<4x8xf32>
// CHECK: %[[SLICE:.*]] = tensor.insert_slice %[[PAD]] into %[[ZEROS]][0, 0] [2, 8] [1, 1] : tensor<2x8xf32> into tensor<4x8xf32>
// CHECK: %[[X:.*]] = tensor.collapse_shape %[[SLICE]] {{.*}} : tensor<4x8xf32> into tensor<32xf32>
// CHECK: return %{{.*}}, %[[X]]
func.func @moves(%x: tensor<32xf8E5M2>) -> tensor<8x8xf32> {
  %zero = arith.constant 0.0 : f8E5M2
  %init = tensor.empty() : tensor<8x8xf32>
  %0 = tensor.expand_shape %x [[0, 1]] output_shape [4, 8] : tensor<32xf8E5M2> into tensor<4x8xf8E5M2>
  %1 = tensor.extract_slice %0[0, 0] [2, 8] [1, 1] : tensor<4x8xf8E5M2> to tensor<2x8xf8E5M2>
  %2 = tensor.pad %1 low[6, 0] high[0, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f8E5M2
  } : tensor<2x8xf8E5M2> to tensor<8x8xf8E5M2>
  %3 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]}
      ins(%2 : tensor<8x8xf8E5M2>) outs(%init : tensor<8x8xf32>) {
  ^bb0(%e: f8E5M2, %old: f32):
    %w = arith.extf %e : f8E5M2 to f32
    %y = arith.mulf %w, %w : f32
    linalg.yield %y : f32
  } -> tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}

// -----

// Gradients of inserted and joined tensors.
// CHECK-LABEL: func @joined_grad(
// CHECK-SAME: -> (tensor<8xf32>, tensor<2xf32>, tensor<4xf32>, tensor<2xf32>)
// CHECK-DAG: tensor.extract_slice %{{.*}}[0] [4] [1] : tensor<8xf32> to tensor<4xf32>
// CHECK-DAG: tensor.insert_slice %{{.*}} into %{{.*}}[1] [2] [1] : tensor<2xf32> into tensor<4xf32>
#id = affine_map<(d0) -> (d0)>
func.func @joined(%a: tensor<2xf8E4M3FN>, %b: tensor<4xf8E4M3FN>, %c: tensor<2xf8E4M3FN>) -> tensor<8xf32> {
  %init = tensor.empty() : tensor<8xf32>
  %0 = tensor.insert_slice %a into %b[1] [2] [1] : tensor<2xf8E4M3FN> into tensor<4xf8E4M3FN>
  %1 = tensor.concat dim(0) %0, %a, %c : (tensor<4xf8E4M3FN>, tensor<2xf8E4M3FN>, tensor<2xf8E4M3FN>) -> tensor<8xf8E4M3FN>
  %2 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%1 : tensor<8xf8E4M3FN>) outs(%init : tensor<8xf32>) {
  ^bb0(%e: f8E4M3FN, %old: f32):
    %w = arith.extf %e : f8E4M3FN to f32
    linalg.yield %w : f32
  } -> tensor<8xf32>
  return %2 : tensor<8xf32>
}

// -----

// Branches of 8 bits have gradients of f32, of scalars and tensors.
#id = affine_map<(d0) -> (d0)>
// CHECK-LABEL: func @branches_grad(
// CHECK-SAME: -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
// CHECK: %{{.*}}:3 = scf.if %{{.*}} -> (
// CHECK-DAG: scf.yield %{{.*}}, %{{.*}}, %{{.*}} : {{.*}}f32{{.*}}, {{.*}}f32{{.*}}, {{.*}}f32
// CHECK-NOT: arith.truncf
// CHECK: return
func.func @branches(%a: tensor<4xf8E4M3FN>, %b: tensor<4xf8E4M3FN>, %c: i1) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %first = tensor.extract %a[%c0] : tensor<4xf8E4M3FN>
  %init = tensor.empty() : tensor<4xf32>
  %0 = scf.if %c -> tensor<4xf8E4M3FN> {
    %1 = tensor.insert %first into %b[%c0] : tensor<4xf8E4M3FN>
    scf.yield %1 : tensor<4xf8E4M3FN>
  } else {
    scf.yield %a : tensor<4xf8E4M3FN>
  }
  %2 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%0 : tensor<4xf8E4M3FN>) outs(%init : tensor<4xf32>) {
  ^bb0(%e: f8E4M3FN, %old: f32):
    %w = arith.extf %e : f8E4M3FN to f32
    linalg.yield %w : f32
  } -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

// So have inserted scalars, ...
#id = affine_map<(d0) -> (d0)>
// CHECK-LABEL: func @inserted_grad(
// CHECK-SAME: -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
// CHECK-DAG: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: tensor.insert %[[ZERO]] into %{{.*}} : tensor<4xf32>
func.func @inserted(%a: tensor<4xf8E5M2>, %b: tensor<4xf8E5M2>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %init = tensor.empty() : tensor<4xf32>
  %0 = tensor.extract %b[%c2] : tensor<4xf8E5M2>
  %1 = tensor.insert %0 into %a[%c0] : tensor<4xf8E5M2>
  %2 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%1 : tensor<4xf8E5M2>) outs(%init : tensor<4xf32>) {
  ^bb0(%e: f8E5M2, %old: f32):
    %w = arith.extf %e : f8E5M2 to f32
    linalg.yield %w : f32
  } -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

// ... and results.
#id = affine_map<(d0) -> (d0)>
// CHECK-LABEL: func @rounded_grad(
// CHECK-SAME: %{{.*}}: tensor<4xf32>, %{{.*}}: tensor<4xf32>) -> (tensor<4xf8E4M3FN>, tensor<4xf32>)
func.func @rounded(%x: tensor<4xf32>) -> tensor<4xf8E4M3FN> {
  %init = tensor.empty() : tensor<4xf8E4M3FN>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%init : tensor<4xf8E4M3FN>) {
  ^bb0(%e: f32, %old: f8E4M3FN):
    %y = arith.mulf %e, %e : f32
    %w = arith.truncf %y : f32 to f8E4M3FN
    linalg.yield %w : f8E4M3FN
  } -> tensor<4xf8E4M3FN>
  return %0 : tensor<4xf8E4M3FN>
}

// -----

// Matmuls of 8 bits have gradients that are matmuls of the type of the output.
// CHECK-LABEL: func @matmul_grad(
// CHECK-SAME: %[[LHS:[a-z0-9]+]]: tensor<16x64xf8E4M3FN>, %[[RHS:[a-z0-9]+]]: tensor<2x32x64xf8E5M2>, %[[DOUT:[a-z0-9]+]]: tensor<2x16x32xbf16>)
// CHECK-SAME: -> (tensor<2x16x32xbf16>, tensor<16x64xf32>, tensor<2x32x64xf32>)
// CHECK: %[[WIDE:.*]] = linalg.generic {{.*}} ins(%[[RHS]] : tensor<2x32x64xf8E5M2>) outs(%{{.*}} : tensor<2x32x64xbf16>)
// CHECK: attn.matmul ins(%[[DOUT]], %[[WIDE]] : tensor<2x16x32xbf16>, tensor<2x32x64xbf16>) outs(%{{.*}} : tensor<2x16x64xf32>)
// CHECK: %[[WIDE:.*]] = linalg.generic {{.*}} ins(%[[LHS]] : tensor<16x64xf8E4M3FN>) outs(%{{.*}} : tensor<16x64xbf16>)
// CHECK: attn.matmul ins(%[[DOUT]], %[[WIDE]] : tensor<2x16x32xbf16>, tensor<16x64xbf16>) outs(%{{.*}} : tensor<2x32x64xf32>) transpose_lhs
func.func @matmul(%a: tensor<16x64xf8E4M3FN>, %b: tensor<2x32x64xf8E5M2>) -> tensor<2x16x32xbf16> {
  %init = tensor.empty() : tensor<2x16x32xbf16>
  %0 = attn.matmul ins(%a, %b : tensor<16x64xf8E4M3FN>, tensor<2x32x64xf8E5M2>)
      outs(%init : tensor<2x16x32xbf16>) transpose_rhs -> tensor<2x16x32xbf16>
  return %0 : tensor<2x16x32xbf16>
}
