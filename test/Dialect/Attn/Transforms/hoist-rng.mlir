// RUN: attn-opt %s --attn-hoist-rng=alternative=streams --split-input-file | FileCheck %s --check-prefixes=CHECK,BESIDE
// RUN: attn-opt %s --attn-hoist-rng=alternative=sequential --split-input-file | FileCheck %s --check-prefixes=CHECK,BEFORE
// RUN: attn-opt %s --attn-hoist-rng=alternative=in-kernel --split-input-file | FileCheck %s --check-prefix=KERNEL
// RUN: attn-opt %s --attn-hoist-rng="alternative=streams memory-budget=1000" --split-input-file | FileCheck %s --check-prefix=KERNEL

// The projection of the queries runs before the attention: the keep mask is
// generated concurrently. The computation of the offset moves up.

#dropout = #attn.dropout<p = 0.125, rng = #attn.arx>

// CHECK-LABEL:  func.func @projection(
// CHECK-SAME:       %[[X:.*]]: tensor<128x256xbf16>, %[[W:.*]]: tensor<256x256xbf16>, %[[K:.*]]: tensor<1x4x192x64xbf16>, %[[SEED:.*]]: i64, %[[CALL:.*]]: i64)
// BESIDE:         %[[OFFSET:.*]] = arith.addi %[[CALL]], %{{.*}}
// BESIDE-NEXT:    %[[MASK:.*]] = tensor.empty() : tensor<1x4x64x12xi32>
// BESIDE-NEXT:    %[[R:.*]]:2 = attn.overlap by streams {
// BESIDE-NEXT:      %[[P:.*]] = attn.matmul ins(%[[X]], %[[W]]
// BESIDE-NEXT:      attn.overlap_yield %[[P]] : tensor<128x256xbf16>
// BESIDE-NEXT:    } and {
// BESIDE-NEXT:      %[[B:.*]] = attn.dropout_mask rows by(<p = 1.250000e-01, rng = #attn.arx>, %[[SEED]], %[[OFFSET]] : i64, i64)
// BESIDE-SAME:          {{^}} outs(%[[MASK]] : tensor<1x4x64x12xi32>) -> tensor<1x4x64x12xi32>
// BESIDE-NEXT:      attn.overlap_yield %[[B]] : tensor<1x4x64x12xi32>
// BESIDE-NEXT:    } -> (tensor<128x256xbf16>, tensor<1x4x64x12xi32>)
// BESIDE-NEXT:    tensor.expand_shape %[[R]]#0
// BESIDE:         attn.attention {{.*}} dropout_mask rows(%[[R]]#1 : tensor<1x4x64x12xi32>) p(1.250000e-01)

// BEFORE:         attn.permute
// BEFORE:         %[[MASK:.*]] = tensor.empty() : tensor<1x4x64x12xi32>
// BEFORE-NEXT:    %[[B:.*]] = attn.dropout_mask rows {{.*}} outs(%[[MASK]]
// BEFORE-NEXT:    attn.attention {{.*}} dropout_mask rows(%[[B]] : tensor<1x4x64x12xi32>) p(1.250000e-01)

// KERNEL-LABEL: func.func @projection(
// KERNEL-NOT:     attn.dropout_mask
// KERNEL:         attn.attention {{.*}} dropout(<p = 1.250000e-01
func.func @projection(%x: tensor<128x256xbf16>, %w: tensor<256x256xbf16>,
                      %k: tensor<1x4x192x64xbf16>, %seed: i64, %call: i64) -> tensor<1x4x128x64xbf16> {
  %c4 = arith.constant 4 : i64
  %e = tensor.empty() : tensor<128x256xbf16>
  %p = attn.matmul ins(%x, %w : tensor<128x256xbf16>, tensor<256x256xbf16>)
      outs(%e : tensor<128x256xbf16>) -> tensor<128x256xbf16>
  %h = tensor.expand_shape %p [[0, 1], [2, 3]] output_shape [1, 128, 4, 64]
      : tensor<128x256xbf16> into tensor<1x128x4x64xbf16>
  %q = attn.permute %h [0, 2, 1, 3] : tensor<1x128x4x64xbf16> -> tensor<1x4x128x64xbf16>
  %offset = arith.addi %call, %c4 : i64
  %o = tensor.empty() : tensor<1x4x128x64xbf16>
  %r = attn.attention
      ins(%q, %k, %k : tensor<1x4x128x64xbf16>, tensor<1x4x192x64xbf16>, tensor<1x4x192x64xbf16>)
      outs(%o : tensor<1x4x128x64xbf16>)
      dropout(#dropout, %seed, %offset : i64, i64) -> tensor<1x4x128x64xbf16>
  return %r : tensor<1x4x128x64xbf16>
}

// -----

// An attention and its gradient that drop the same probabilities share a keep mask, in the
// layout from which the gradient gains.

#dropout = #attn.dropout<p = 0.5, rng = #attn.philox>
!t = tensor<1x2x64x32xf32>

// CHECK-LABEL: func.func @both(
// CHECK:         %[[B:.*]] = attn.dropout_mask columns
// CHECK-NOT:     attn.dropout_mask
// CHECK:         attn.attention {{.*}} dropout_mask columns(%[[M:.*]] : tensor<1x2x4x32xi32>) p(5.000000e-01)
// CHECK:         attn.attention_grad {{.*}} dropout_mask columns(%[[M]] : tensor<1x2x4x32xi32>) p(5.000000e-01)
// KERNEL-LABEL: func.func @both(
// KERNEL-NOT:     attn.dropout_mask
func.func @both(%x: tensor<2x64x32xf32>, %k: !t, %dout: !t, %seed: tensor<i64>, %offset: tensor<i64>) -> (!t, !t, !t, !t) {
  %e = tensor.empty() : tensor<2x64x32xf32>
  %w = arith.constant dense<1.0> : tensor<32x32xf32>
  %p = attn.matmul ins(%x, %w : tensor<2x64x32xf32>, tensor<32x32xf32>)
      outs(%e : tensor<2x64x32xf32>) -> tensor<2x64x32xf32>
  %q = tensor.expand_shape %p [[0, 1], [2], [3]] output_shape [1, 2, 64, 32] : tensor<2x64x32xf32> into !t
  %i = tensor.empty() : !t
  %l = tensor.empty() : tensor<1x2x64xf32>
  %out, %lse = attn.attention ins(%q, %k, %k : !t, !t, !t) outs(%i, %l : !t, tensor<1x2x64xf32>)
      dropout(#dropout, %seed, %offset : tensor<i64>, tensor<i64>) -> !t, tensor<1x2x64xf32>
  %dq, %dk, %dv = attn.attention_grad
      ins(%q, %k, %k, %out, %lse, %dout : !t, !t, !t, !t, tensor<1x2x64xf32>, !t)
      outs(%i, %i, %i : !t, !t, !t)
      dropout(#dropout, %seed, %offset : tensor<i64>, tensor<i64>) -> !t, !t, !t
  return %out, %dq, %dk, %dv : !t, !t, !t, !t
}

// -----

// A gradient alone reads words of the same keys side by side.

#dropout = #attn.dropout<p = 0.5, rng = #attn.philox>
!t = tensor<1x2x64x32xf32>

// BEFORE-LABEL: func.func @gradient(
// BEFORE:         attn.dropout_mask columns {{.*}} -> tensor<1x2x4x32xi32>
// BEFORE:         attn.attention_grad {{.*}} dropout_mask columns(%{{.*}} : tensor<1x2x4x32xi32>) p(5.000000e-01)
func.func @gradient(%q: !t, %dout: !t, %lse: tensor<1x2x64xf32>, %seed: i64) -> (!t, !t, !t) {
  %i = tensor.empty() : !t
  %dq, %dk, %dv = attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %dout : !t, !t, !t, !t, tensor<1x2x64xf32>, !t)
      outs(%i, %i, %i : !t, !t, !t)
      dropout(#dropout, %seed, %seed : i64, i64) -> !t, !t, !t
  return %dq, %dk, %dv : !t, !t, !t
}

// -----

// Sizes that the matmul does not determine.

#dropout = #attn.dropout<p = 0.5, rng = #attn.philox>
!t = tensor<?x2x?x32xf32>

// BESIDE-LABEL: func.func @dynamic(
// BESIDE:         %[[D:.*]] = tensor.dim %arg0
// BESIDE:         %[[MASK:.*]] = tensor.empty(%{{.*}}) : tensor<?x2x?x?xi32>
// BESIDE-NEXT:    attn.overlap by streams {
// BESIDE:         attn.attention {{.*}} dropout_mask rows(
func.func @dynamic(%q: !t, %x: tensor<64x64xf32>, %seed: i64) -> (!t, tensor<64x64xf32>) {
  %e = tensor.empty() : tensor<64x64xf32>
  %p = attn.matmul ins(%x, %x : tensor<64x64xf32>, tensor<64x64xf32>)
      outs(%e : tensor<64x64xf32>) -> tensor<64x64xf32>
  %r = attn.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t)
      dropout(#dropout, %seed, %seed : i64, i64) -> !t
  return %r, %p : !t, tensor<64x64xf32>
}

// -----

// The length is one of a tensor that the matmul makes, and known before.

#dropout = #attn.dropout<p = 0.5, rng = #attn.philox>
!t = tensor<1x2x?x32xf32>

// BESIDE-LABEL: func.func @resolved(
// BESIDE-SAME:      %[[X:.*]]: tensor<?x64xf32>
// BESIDE:         tensor.dim %[[X]]
// BESIDE-NOT:     attn.matmul
// BESIDE:         tensor.empty(%{{.*}}) : tensor<1x2x?x?xi32>
// BESIDE-NEXT:    attn.overlap by streams {
func.func @resolved(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>, %seed: i64) -> !t {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x64xf32>
  %e = tensor.empty(%n) : tensor<?x64xf32>
  %p = attn.matmul ins(%x, %w : tensor<?x64xf32>, tensor<64x64xf32>)
      outs(%e : tensor<?x64xf32>) -> tensor<?x64xf32>
  %h = tensor.expand_shape %p [[0, 1], [2, 3]] output_shape [1, %n, 2, 32]
      : tensor<?x64xf32> into tensor<1x?x2x32xf32>
  %q = attn.permute %h [0, 2, 1, 3] : tensor<1x?x2x32xf32> -> !t
  %r = attn.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t)
      dropout(#dropout, %seed, %seed : i64, i64) -> !t
  return %r : !t
}

// -----

// Padded sequences lie within the lengths of their batch.

// CHECK-LABEL: func.func @padded(
// CHECK:         attn.dropout_mask rows by{{.*}} -> tensor<2x4x32x4xi32>
// CHECK:         attn.attention {{.*}} sequences padded({{.*}} dropout_mask rows({{.*}} : tensor<2x4x32x4xi32>) p(1.250000e-01)
// KERNEL-LABEL: func.func @padded(
// KERNEL-NOT:     attn.dropout_mask
func.func @padded(%x: tensor<64x64xbf16>, %q: tensor<2x4x64x64xbf16>, %lengths: tensor<2xi32>, %seed: i64)
    -> (tensor<2x4x64x64xbf16>, tensor<64x64xbf16>) {
  %p = attn.matmul ins(%x, %x : tensor<64x64xbf16>, tensor<64x64xbf16>) outs(%x : tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %o = tensor.empty() : tensor<2x4x64x64xbf16>
  %r = attn.attention ins(%q, %q, %q : tensor<2x4x64x64xbf16>, tensor<2x4x64x64xbf16>, tensor<2x4x64x64xbf16>)
      outs(%o : tensor<2x4x64x64xbf16>) sequences padded(%lengths, %lengths : tensor<2xi32>, tensor<2xi32>)
      dropout(#attn.dropout<p = 0.125, rng = #attn.arx>, %seed, %seed : i64, i64) -> tensor<2x4x64x64xbf16>
  return %r, %p : tensor<2x4x64x64xbf16>, tensor<64x64xbf16>
}
