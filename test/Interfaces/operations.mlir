// RUN: attn-test-opt %s -attn-explain -split-input-file -o /dev/null 2>&1 | FileCheck %s --check-prefix=EXPLAIN
// RUN: attn-test-opt %s -attn-differentiate=mode=backward -canonicalize -split-input-file \
// RUN:   | FileCheck %s --check-prefix=GRAD
// RUN: attn-test-opt %s -attn-fuse=target=sm_90a -canonicalize -split-input-file | FileCheck %s --check-prefix=FUSE

// `test_attn.square` of test/lib implements the interfaces of operations. Passes know nothing else of it.

// 32768 elements: a multiplication and four bytes each.
// EXPLAIN:      @attention
// EXPLAIN:      test_attn.square {{ *}}0.000 {{ *}}0.131 {{ *}}0.2

// GRAD-LABEL:   func.func @attention_bwd(
// GRAD-SAME:      %[[Q:[a-z0-9]+]]: tensor<1x2x256x64xf16>
// GRAD:         %[[D:.*]]:3 = attn.attention_grad
// GRAD:         linalg.generic {{.*}} ins(%[[Q]], %[[D]]#0 :
// GRAD-NEXT:    ^bb0(%[[X:.*]]: f16, %[[DY:.*]]: f16, %{{.*}}: f16):
// GRAD-NEXT:      %[[TWICE:.*]] = arith.addf %[[X]], %[[X]] : f16
// GRAD-NEXT:      %[[DX:.*]] = arith.mulf %[[TWICE]], %[[DY]] : f16
// GRAD-NEXT:      linalg.yield %[[DX]] : f16

// FUSE-LABEL:   func.func @attention(
// FUSE-SAME:      %[[Q:[a-z0-9]+]]: tensor<1x2x256x64xf16>
// FUSE-NOT:     test_attn.square
// FUSE:         attn.attention ins(%[[Q]], {{.*}} query {
// FUSE-NEXT:    ^bb0(%[[X:[a-z]+]]: f32, {{.*}}):
// FUSE-NEXT:      %[[Y:.*]] = arith.mulf %[[X]], %[[X]] : f32
// FUSE-NEXT:      attn.yield %[[Y]] : f32

func.func @attention(%q: tensor<1x2x256x64xf16>, %k: tensor<1x2x256x64xf16>, %init: tensor<1x2x256x64xf16>)
    -> tensor<1x2x256x64xf16> {
  %empty = tensor.empty() : tensor<1x2x256x64xf16>
  %q2 = test_attn.square ins(%q) outs(%empty) : tensor<1x2x256x64xf16>
  %out = attn.attention ins(%q2, %k, %k : tensor<1x2x256x64xf16>, tensor<1x2x256x64xf16>, tensor<1x2x256x64xf16>)
      outs(%init : tensor<1x2x256x64xf16>) -> tensor<1x2x256x64xf16>
  return %out : tensor<1x2x256x64xf16>
}

// -----

// Its axes tie those of two matmuls together: 128 columns of the first one are contracted in the second one.

// EXPLAIN:      @chain
// EXPLAIN:      derivation of linalg.matmul to linalg.matmul, 3 operations
// EXPLAIN-NEXT:   d0 {{ *}}256 distribute by 256
// EXPLAIN-NEXT:   d1 {{ *}}128 stream by 64: arith.addf
// EXPLAIN-NEXT:   d2 {{ *}}64 whole: could be streamed by arith.addf
// EXPLAIN-NEXT:   d3 {{ *}}64 whole: linalg.matmul would be repeated by each CTA

// GRAD-LABEL:   func.func @chain_bwd(
// FUSE-LABEL:   func.func @chain(
// FUSE:           test_attn.square

func.func @chain(%a: tensor<256x64xf16>, %b: tensor<64x128xf16>, %c: tensor<128x64xf16>) -> tensor<256x64xf16> {
  %zero = arith.constant 0.0 : f16
  %e0 = tensor.empty() : tensor<256x128xf16>
  %i0 = linalg.fill ins(%zero : f16) outs(%e0 : tensor<256x128xf16>) -> tensor<256x128xf16>
  %ab = linalg.matmul ins(%a, %b : tensor<256x64xf16>, tensor<64x128xf16>)
      outs(%i0 : tensor<256x128xf16>) -> tensor<256x128xf16>
  %square = test_attn.square ins(%ab) outs(%e0) : tensor<256x128xf16>
  %e1 = tensor.empty() : tensor<256x64xf16>
  %i1 = linalg.fill ins(%zero : f16) outs(%e1 : tensor<256x64xf16>) -> tensor<256x64xf16>
  %out = linalg.matmul ins(%square, %c : tensor<256x128xf16>, tensor<128x64xf16>)
      outs(%i1 : tensor<256x64xf16>) -> tensor<256x64xf16>
  return %out : tensor<256x64xf16>
}
