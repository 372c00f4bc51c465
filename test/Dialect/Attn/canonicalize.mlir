// RUN: attn-opt %s --canonicalize --split-input-file | FileCheck %s
// RUN: attn-opt %s --resolve-ranked-shaped-type-result-dims --split-input-file | FileCheck %s --check-prefix=RESOLVE

// CHECK-LABEL: func @default_scale
// CHECK: attn.attention
// CHECK-NOT: scale
// CHECK: return
func.func @default_scale(%q: tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32> {
  %0 = attn.attention
      ins(%q, %q, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
          tensor<2x4x8x16xf32>)
      outs(%q : tensor<2x4x8x16xf32>) scale(0.25) -> tensor<2x4x8x16xf32>
  return %0 : tensor<2x4x8x16xf32>
}

// CHECK-LABEL: func @other_scale
// CHECK: attn.attention {{.*}} scale(1.250000e-01)
func.func @other_scale(%q: tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32> {
  %0 = attn.attention
      ins(%q, %q, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
          tensor<2x4x8x16xf32>)
      outs(%q : tensor<2x4x8x16xf32>) scale(0.125) -> tensor<2x4x8x16xf32>
  return %0 : tensor<2x4x8x16xf32>
}

// -----

// Regions that change nothing are dropped, with what only they use.
// CHECK-LABEL: func @trivial_regions
// CHECK-NEXT: attn.attention
// CHECK-NOT: score_mod
// CHECK-NOT: mask_mod
// CHECK: return
func.func @trivial_regions(%q: memref<2x4x8x16xf32>, %out: memref<2x4x8x16xf32>,
                           %bias: memref<8xf32>) {
  %true = arith.constant true
  attn.attention
      ins(%q, %q, %q : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>,
          memref<2x4x8x16xf32>)
      outs(%out : memref<2x4x8x16xf32>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = memref.load %bias[%j] : memref<8xf32>
        attn.yield %s : f32
      } mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        attn.yield %true : i1
      }
  return
}

// -----

// CHECK-LABEL: func @regions_with_effect
// CHECK: attn.attention {{.*}} score_mod {
// CHECK: arith.negf
// CHECK: mask_mod {
// CHECK: attn.yield %{{.*}} : i1
func.func @regions_with_effect(%q: tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32> {
  %false = arith.constant false
  %0 = attn.attention
      ins(%q, %q, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
          tensor<2x4x8x16xf32>)
      outs(%q : tensor<2x4x8x16xf32>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %t = arith.negf %s : f32
        attn.yield %t : f32
      } mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        attn.yield %false : i1
      } -> tensor<2x4x8x16xf32>
  return %0 : tensor<2x4x8x16xf32>
}

// -----

// A constant factor goes into the scale: 0.25 * 0.5, and from either side.
// CHECK-LABEL: func @constant_factor
// CHECK: attn.attention {{.*}} scale(1.250000e-01) -> tensor<2x4x8x16xf32>
// CHECK: attn.attention {{.*}} scale(-2.000000e+00) -> tensor<2x4x8x16xf32>
func.func @constant_factor(%q: tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32> {
  %0 = attn.attention
      ins(%q, %q, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
          tensor<2x4x8x16xf32>)
      outs(%q : tensor<2x4x8x16xf32>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %half = arith.constant 0.5 : f32
        %t = arith.mulf %s, %half : f32
        attn.yield %t : f32
      } -> tensor<2x4x8x16xf32>
  %1 = attn.attention
      ins(%q, %q, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
          tensor<2x4x8x16xf32>)
      outs(%0 : tensor<2x4x8x16xf32>) scale(4.0)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %half = arith.constant -0.5 : f32
        %t = arith.mulf %half, %s : f32
        attn.yield %t : f32
      } -> tensor<2x4x8x16xf32>
  return %1 : tensor<2x4x8x16xf32>
}

// The square of the score is no constant factor, and the scale stays finite.
// CHECK-LABEL: func @no_constant_factor
// CHECK: attn.attention {{.*}} score_mod {
// CHECK: arith.mulf
// CHECK: attn.attention {{.*}} scale(9.99999968E+37) score_mod {
// CHECK: arith.mulf
func.func @no_constant_factor(%q: tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32> {
  %big = arith.constant 1.0e38 : f32
  %0 = attn.attention
      ins(%q, %q, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
          tensor<2x4x8x16xf32>)
      outs(%q : tensor<2x4x8x16xf32>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %t = arith.mulf %s, %s : f32
        attn.yield %t : f32
      } -> tensor<2x4x8x16xf32>
  %1 = attn.attention
      ins(%q, %q, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
          tensor<2x4x8x16xf32>)
      outs(%0 : tensor<2x4x8x16xf32>) scale(1.0e38)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %t = arith.mulf %s, %big : f32
        attn.yield %t : f32
      } -> tensor<2x4x8x16xf32>
  return %1 : tensor<2x4x8x16xf32>
}

// -----

// One query at the bottom of the score matrix attends to all keys.
// CHECK-LABEL: func @decode
// CHECK: attn.attention
// CHECK-NOT: mask
// CHECK: return
func.func @decode(%q: tensor<2x4x1x16xf32>, %k: tensor<2x4x8x16xf32>) -> tensor<2x4x1x16xf32> {
  %0 = attn.attention
      ins(%q, %k, %k : tensor<2x4x1x16xf32>, tensor<2x4x8x16xf32>,
          tensor<2x4x8x16xf32>)
      outs(%q : tensor<2x4x1x16xf32>) mask(#attn.causal)
      -> tensor<2x4x1x16xf32>
  return %0 : tensor<2x4x1x16xf32>
}

// CHECK-LABEL: func @masked
// CHECK: attn.attention {{.*}} mask(#attn.causal<alignment = top_left>)
// CHECK: attn.attention {{.*}} mask(#attn.causal)
func.func @masked(%q: tensor<2x4x1x16xf32>, %k: tensor<2x4x8x16xf32>,
                  %d: tensor<2x4x?x16xf32>)
    -> (tensor<2x4x1x16xf32>, tensor<2x4x1x16xf32>) {
  %0 = attn.attention
      ins(%q, %k, %k : tensor<2x4x1x16xf32>, tensor<2x4x8x16xf32>,
          tensor<2x4x8x16xf32>)
      outs(%q : tensor<2x4x1x16xf32>) mask(#attn.causal<alignment = top_left>)
      -> tensor<2x4x1x16xf32>
  %1 = attn.attention
      ins(%q, %d, %d : tensor<2x4x1x16xf32>, tensor<2x4x?x16xf32>,
          tensor<2x4x?x16xf32>)
      outs(%q : tensor<2x4x1x16xf32>) mask(#attn.causal)
      -> tensor<2x4x1x16xf32>
  return %0, %1 : tensor<2x4x1x16xf32>, tensor<2x4x1x16xf32>
}

// -----

// CHECK-LABEL: func @casts
// CHECK-SAME: (%[[Q:.*]]: tensor<2x4x8x16xf32>)
// CHECK: %[[R:.*]] = attn.attention ins(%[[Q]], %[[Q]], %[[Q]] : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
// CHECK-SAME:     {{^}} outs(%[[Q]] : tensor<2x4x8x16xf32>) score_mod {
// CHECK: -> tensor<2x4x8x16xf32>
// CHECK: tensor.cast %[[R]]
func.func @casts(%q: tensor<2x4x8x16xf32>) -> tensor<?x4x?x16xf32> {
  %c = tensor.cast %q : tensor<2x4x8x16xf32> to tensor<?x4x?x16xf32>
  %0 = attn.attention
      ins(%c, %c, %c : tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>,
          tensor<?x4x?x16xf32>)
      outs(%c : tensor<?x4x?x16xf32>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %t = arith.negf %s : f32
        attn.yield %t : f32
      } -> tensor<?x4x?x16xf32>
  return %0 : tensor<?x4x?x16xf32>
}

// CHECK-LABEL: func @matmul_casts
// CHECK-SAME: (%[[A:.*]]: tensor<32x16xf32>, %[[B:.*]]: tensor<16x8xf32>, %[[C:.*]]: tensor<32x8xf32>)
// CHECK: %[[R:.*]] = attn.matmul ins(%[[A]], %[[B]] : tensor<32x16xf32>, tensor<16x8xf32>) outs(%[[C]] : tensor<32x8xf32>)
// CHECK: tensor.cast %[[R]] : tensor<32x8xf32> to tensor<?x8xf32>
func.func @matmul_casts(%a: tensor<32x16xf32>, %b: tensor<16x8xf32>, %c: tensor<32x8xf32>) -> tensor<?x8xf32> {
  %rows = tensor.cast %a : tensor<32x16xf32> to tensor<?x16xf32>
  %out = tensor.cast %c : tensor<32x8xf32> to tensor<?x8xf32>
  %r = attn.matmul ins(%rows, %b : tensor<?x16xf32>, tensor<16x8xf32>) outs(%out : tensor<?x8xf32>) -> tensor<?x8xf32>
  return %r : tensor<?x8xf32>
}

// -----

// The sizes of a result are those of its init.
// CHECK-LABEL: func @size_of_result
// CHECK-SAME: (%[[Q:.*]]: tensor<?x4x?x16xf32>, %[[O:.*]]: tensor<?x4x?x16xf32>)
// CHECK-NOT: attn.attention
// CHECK: %[[D:.*]] = tensor.dim %[[O]]
// CHECK: return %[[D]]
// RESOLVE-LABEL: func @size_of_result
// RESOLVE-SAME: (%{{.*}}: tensor<?x4x?x16xf32>, %[[O:.*]]: tensor<?x4x?x16xf32>)
// RESOLVE: %[[D:.*]] = tensor.dim %[[O]]
// RESOLVE: return %[[D]]
func.func @size_of_result(%q: tensor<?x4x?x16xf32>, %o: tensor<?x4x?x16xf32>) -> index {
  %c2 = arith.constant 2 : index
  %0 = attn.attention
      ins(%q, %q, %q : tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>,
          tensor<?x4x?x16xf32>)
      outs(%o : tensor<?x4x?x16xf32>) -> tensor<?x4x?x16xf32>
  %d = tensor.dim %0, %c2 : tensor<?x4x?x16xf32>
  return %d : index
}

// -----

// The lengths of sequences are not those of the tensors.
// CHECK-LABEL: func @mask_of_sequences
// CHECK: mask(#attn.causal)
func.func @mask_of_sequences(%q: memref<1x4x1x16xf32>, %k: memref<1x4x8x16xf32>,
                             %cu: memref<?xi32>, %o: memref<1x4x1x16xf32>) {
  attn.attention ins(%q, %k, %k : memref<1x4x1x16xf32>, memref<1x4x8x16xf32>, memref<1x4x8x16xf32>)
      outs(%o : memref<1x4x1x16xf32>) sequences packed(%cu, %cu : memref<?xi32>, memref<?xi32>)
      mask(#attn.causal)
  return
}

// -----

// A dropout that drops nothing goes, with its operands.
// CHECK-LABEL: func @empty_dropout
// CHECK:         attn.attention
// CHECK-NOT:     dropout
// CHECK:         return
func.func @empty_dropout(%q: tensor<?x4x?x16xf32>, %seed: tensor<i64>) -> tensor<?x4x?x16xf32> {
  %0 = attn.attention
      ins(%q, %q, %q : tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>)
      outs(%q : tensor<?x4x?x16xf32>)
      dropout(#attn.dropout<p = 0.0, rng = #attn.arx>, %seed, %seed : tensor<i64>, tensor<i64>)
      -> tensor<?x4x?x16xf32>
  return %0 : tensor<?x4x?x16xf32>
}

// -----

// CHECK-LABEL: func @some_dropout
// CHECK:         dropout(<p = 6.250000e-02, rng = #attn.arx, bits = 4>, %{{.*}}, %{{.*}} : i64, i64)
func.func @some_dropout(%q: tensor<?x4x?x16xf32>, %seed: i64) -> tensor<?x4x?x16xf32> {
  %0 = attn.attention
      ins(%q, %q, %q : tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>)
      outs(%q : tensor<?x4x?x16xf32>)
      dropout(#attn.dropout<p = 0.0625, rng = #attn.arx, bits = 4>, %seed, %seed : i64, i64)
      -> tensor<?x4x?x16xf32>
  return %0 : tensor<?x4x?x16xf32>
}

// -----

// CHECK-LABEL: func @permute
// CHECK-SAME: (%[[X:.*]]: tensor<?x3x4xf32>)
// CHECK: %[[R:.*]] = attn.permute %[[X]] [2, 0, 1] : tensor<?x3x4xf32> -> tensor<4x?x3xf32>
// CHECK: return %[[X]], %[[R]]
// RESOLVE-LABEL: func @permute
func.func @permute(%x: tensor<?x3x4xf32>) -> (tensor<?x3x4xf32>, tensor<4x?x3xf32>) {
  %0 = attn.permute %x [1, 2, 0] : tensor<?x3x4xf32> -> tensor<3x4x?xf32>
  %1 = attn.permute %0 [2, 0, 1] : tensor<3x4x?xf32> -> tensor<?x3x4xf32>
  %2 = attn.permute %0 [1, 2, 0] : tensor<3x4x?xf32> -> tensor<4x?x3xf32>
  return %1, %2 : tensor<?x3x4xf32>, tensor<4x?x3xf32>
}

// -----

// CHECK-LABEL: func @permuted_size
// RESOLVE-LABEL: func @permuted_size
// RESOLVE-SAME: (%[[X:.*]]: tensor<?x3x4xf32>)
// RESOLVE: %[[D:.*]] = tensor.dim %[[X]], %c0
// RESOLVE: return %[[D]]
func.func @permuted_size(%x: tensor<?x3x4xf32>) -> index {
  %c2 = arith.constant 2 : index
  %0 = attn.permute %x [1, 2, 0] : tensor<?x3x4xf32> -> tensor<3x4x?xf32>
  %1 = tensor.dim %0, %c2 : tensor<3x4x?xf32>
  return %1 : index
}

// -----

// Weights that are not mixed with the identity.
// CHECK-LABEL: func @identity_of_zero
// CHECK: attn.attention
// CHECK-NOT: identity
// CHECK: return
func.func @identity_of_zero(%q: tensor<2x4x8x16xf32>, %o: tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32> {
  %u = arith.constant dense<0.0> : tensor<4xbf16>
  %0 = attn.attention ins(%q, %q, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
      outs(%o : tensor<2x4x8x16xf32>) identity(%u : tensor<4xbf16>) mask(#attn.causal) -> tensor<2x4x8x16xf32>
  return %0 : tensor<2x4x8x16xf32>
}

// -----

// The identity alone gives the values.
// CHECK-LABEL: func @identity_of_one
// CHECK-SAME: %[[V:[a-z0-9]+]]: tensor<2x4x8x16xf32>
// CHECK-NOT: attn.attention
// CHECK: return %[[V]]
func.func @identity_of_one(%v: tensor<2x4x8x16xf32>, %q: tensor<2x4x8x32xf32>, %o: tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32> {
  %u = arith.constant dense<1.0> : tensor<4xf32>
  %0 = attn.attention ins(%q, %q, %v : tensor<2x4x8x32xf32>, tensor<2x4x8x32xf32>, tensor<2x4x8x16xf32>)
      outs(%o : tensor<2x4x8x16xf32>) identity(%u : tensor<4xf32>) mask(#attn.causal) -> tensor<2x4x8x16xf32>
  return %0 : tensor<2x4x8x16xf32>
}

// -----

// It makes what scores depend on irrelevant where heads share values, too.
// CHECK-LABEL: func @grouped_identity_of_one
// CHECK: attn.attention
// CHECK-NOT: sinks
// CHECK-SAME: identity
// CHECK-NOT: mask
// CHECK-NOT: mask_mod
// CHECK: return
func.func @grouped_identity_of_one(%q: tensor<2x4x8x16xf32>, %v: tensor<2x2x8x16xf32>, %s: tensor<4xf32>, %o: tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32> {
  %u = arith.constant dense<1.0> : tensor<4xf32>
  %0 = attn.attention ins(%q, %v, %v : tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>)
      outs(%o : tensor<2x4x8x16xf32>) sinks(%s : tensor<4xf32>) identity(%u : tensor<4xf32>) mask(#attn.causal) mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %k = arith.cmpi slt, %h, %j : index
        attn.yield %k : i1
      } -> tensor<2x4x8x16xf32>
  return %0 : tensor<2x4x8x16xf32>
}

// -----

// The log-sum-exp is that of the scores.
// CHECK-LABEL: func @identity_of_one_with_lse
// CHECK: attn.attention {{.*}} identity({{.*}}) mask(#attn.causal)
func.func @identity_of_one_with_lse(%q: tensor<2x4x8x16xf32>, %o: tensor<2x4x8x16xf32>, %l: tensor<2x4x8xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>) {
  %u = arith.constant dense<1.0> : tensor<4xf32>
  %0:2 = attn.attention ins(%q, %q, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
      outs(%o, %l : tensor<2x4x8x16xf32>, tensor<2x4x8xf32>) identity(%u : tensor<4xf32>) mask(#attn.causal) -> tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  return %0#0, %0#1 : tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
}

// -----

// A state without keys.
// CHECK-LABEL: func @empty_state
// CHECK-COUNT-2: attn.attention
// CHECK-NOT: state
// CHECK: return
func.func @empty_state(%q: tensor<2x4x8x16xf32>, %o: tensor<2x4x8x16xf32>, %s: tensor<2x4x8x16xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>) {
  %l = arith.constant dense<0xFF800000> : tensor<2x4x8xf32>
  %0 = attn.attention ins(%q, %q, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
      outs(%o : tensor<2x4x8x16xf32>) state(%s, %l : tensor<2x4x8x16xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8x16xf32>
  %lowest = arith.constant 0xFF800000 : f32
  %splat = tensor.splat %lowest : tensor<2x4x8xf32>
  %1 = attn.attention ins(%0, %q, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
      outs(%o : tensor<2x4x8x16xf32>) state(%s, %splat : tensor<2x4x8x16xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8x16xf32>
  return %0, %1 : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
}

// -----

// A log-sum-exp of inf is none of a state without keys.
// CHECK-LABEL: func @other_state
// CHECK: attn.attention {{.*}} state(
// CHECK: attn.attention {{.*}} state(
func.func @other_state(%q: tensor<2x4x8x16xf32>, %o: tensor<2x4x8x16xf32>, %s: tensor<2x4x8x16xf32>, %x: f32) -> (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>) {
  %l = arith.constant dense<0x7F800000> : tensor<2x4x8xf32>
  %0 = attn.attention ins(%q, %q, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
      outs(%o : tensor<2x4x8x16xf32>) state(%s, %l : tensor<2x4x8x16xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8x16xf32>
  %splat = tensor.splat %x : tensor<2x4x8xf32>
  %1 = attn.attention ins(%0, %q, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
      outs(%o : tensor<2x4x8x16xf32>) state(%s, %splat : tensor<2x4x8x16xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8x16xf32>
  return %0, %1 : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
}

// A head map of equal groups in order says what holds without one.

// CHECK-LABEL: func @grouped_head_map
// CHECK:         attn.attention
// CHECK-NOT:     heads
// CHECK:         return
func.func @grouped_head_map(%q: tensor<1x6x8x16xf32>, %k: tensor<1x3x8x16xf32>) -> tensor<1x6x8x16xf32> {
  %map = arith.constant dense<[0, 0, 1, 1, 2, 2]> : tensor<6xi32>
  %0 = attn.attention ins(%q, %k, %k : tensor<1x6x8x16xf32>, tensor<1x3x8x16xf32>, tensor<1x3x8x16xf32>)
      outs(%q : tensor<1x6x8x16xf32>) heads(%map : tensor<6xi32>) -> tensor<1x6x8x16xf32>
  return %0 : tensor<1x6x8x16xf32>
}

// CHECK-LABEL: func @mixed_head_map
// CHECK:         attn.attention {{.*}} heads(
func.func @mixed_head_map(%q: tensor<1x6x8x16xf32>, %k: tensor<1x3x8x16xf32>) -> tensor<1x6x8x16xf32> {
  %map = arith.constant dense<[0, 1, 0, 1, 2, 2]> : tensor<6xi32>
  %0 = attn.attention ins(%q, %k, %k : tensor<1x6x8x16xf32>, tensor<1x3x8x16xf32>, tensor<1x3x8x16xf32>)
      outs(%q : tensor<1x6x8x16xf32>) heads(%map : tensor<6xi32>) -> tensor<1x6x8x16xf32>
  return %0 : tensor<1x6x8x16xf32>
}

// CHECK-LABEL: func @unequal_groups
// CHECK:         attn.attention {{.*}} heads(
func.func @unequal_groups(%q: tensor<1x5x8x16xf32>, %k: tensor<1x3x8x16xf32>) -> tensor<1x5x8x16xf32> {
  %map = arith.constant dense<[0, 0, 1, 1, 2]> : tensor<5xi32>
  %0 = attn.attention ins(%q, %k, %k : tensor<1x5x8x16xf32>, tensor<1x3x8x16xf32>, tensor<1x3x8x16xf32>)
      outs(%q : tensor<1x5x8x16xf32>) heads(%map : tensor<5xi32>) -> tensor<1x5x8x16xf32>
  return %0 : tensor<1x5x8x16xf32>
}

// CHECK-LABEL: func @unknown_head_map
// CHECK:         attn.attention {{.*}} heads(
func.func @unknown_head_map(%q: tensor<1x6x8x16xf32>, %k: tensor<1x3x8x16xf32>, %map: tensor<6xi32>) -> tensor<1x6x8x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x6x8x16xf32>, tensor<1x3x8x16xf32>, tensor<1x3x8x16xf32>)
      outs(%q : tensor<1x6x8x16xf32>) heads(%map : tensor<6xi32>) -> tensor<1x6x8x16xf32>
  return %0 : tensor<1x6x8x16xf32>
}
