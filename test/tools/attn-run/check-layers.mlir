// References of modules with matmuls, linalg and concatenation around attention.

// REQUIRES: host-cc
// RUN: attn-run %s --target=host --check | FileCheck %s
// CHECK: {{^  out .* ok$}}
// CHECK: {{^  norms .* ok$}}

// An operation without a reference is named.
// RUN: not attn-run %S/Inputs/no-reference.mlir --target=host --check 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: remark: no reference for 'attn.dropout_mask'
// NONE: error: {{.*}}function 'mask' has no reference; the compiler makes one with --with-reference, unless it remarks on an operation that has none

func.func private @project(%x: tensor<96x64xf32>, %w: tensor<64x64xf32>) -> tensor<1x2x96x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<96x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<96x64xf32>) -> tensor<96x64xf32>
  %y = linalg.matmul ins(%x, %w : tensor<96x64xf32>, tensor<64x64xf32>)
      outs(%f : tensor<96x64xf32>) -> tensor<96x64xf32>
  %s = tensor.expand_shape %y [[0, 1], [2, 3]] output_shape [1, 96, 2, 32]
      : tensor<96x64xf32> into tensor<1x96x2x32xf32>
  %t = tensor.empty() : tensor<1x2x96x32xf32>
  %h = linalg.transpose ins(%s : tensor<1x96x2x32xf32>)
      outs(%t : tensor<1x2x96x32xf32>) permutation = [0, 2, 1, 3]
  return %h : tensor<1x2x96x32xf32>
}

func.func @layer(%x: tensor<96x64xf32> {attn.name = "x"}, %w: tensor<64x64xf32> {attn.name = "w"})
    -> (tensor<1x4x96x32xf32> {attn.name = "out"}, tensor<96xf32> {attn.name = "norms"}) {
  %q = func.call @project(%x, %w) : (tensor<96x64xf32>, tensor<64x64xf32>) -> tensor<1x2x96x32xf32>
  %e = tensor.empty() : tensor<1x2x96x32xf32>
  %a = attn.attention
      ins(%q, %q, %q : tensor<1x2x96x32xf32>, tensor<1x2x96x32xf32>, tensor<1x2x96x32xf32>)
      outs(%e : tensor<1x2x96x32xf32>) mask(#attn.causal) -> tensor<1x2x96x32xf32>
  %both = tensor.concat dim(1) %a, %q
      : (tensor<1x2x96x32xf32>, tensor<1x2x96x32xf32>) -> tensor<1x4x96x32xf32>
  %zero = arith.constant 0.0 : f32
  %n = tensor.empty() : tensor<96xf32>
  %f = linalg.fill ins(%zero : f32) outs(%n : tensor<96xf32>) -> tensor<96xf32>
  %norms = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<96x64xf32>) outs(%f : tensor<96xf32>) {
  ^bb0(%v: f32, %acc: f32):
    %s = arith.mulf %v, %v : f32
    %r = arith.addf %acc, %s : f32
    linalg.yield %r : f32
  } -> tensor<96xf32>
  return %both, %norms : tensor<1x4x96x32xf32>, tensor<96xf32>
}
