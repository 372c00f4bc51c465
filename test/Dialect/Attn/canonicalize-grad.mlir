// RUN: attn-opt %s --canonicalize --split-input-file | FileCheck %s

// What holds for attention holds for its gradient: a default scale, a mask and
// a mask_mod region that are always true, and scores that stay are dropped.
// CHECK-LABEL: func @like_attention
// CHECK: attn.attention_grad
// CHECK-NOT: scale
// CHECK-NOT: mask
// CHECK-NOT: score_mod
// CHECK-NOT: mask_mod
// CHECK: return
func.func @like_attention(%q: tensor<2x4x1x16xf32>, %k: tensor<2x4x8x16xf32>,
                          %lse: tensor<2x4x1xf32>) -> tensor<2x4x1x16xf32> {
  %0:3 = attn.attention_grad
      ins(%q, %k, %k, %q, %lse, %q : tensor<2x4x1x16xf32>, tensor<2x4x8x16xf32>,
          tensor<2x4x8x16xf32>, tensor<2x4x1x16xf32>, tensor<2x4x1xf32>,
          tensor<2x4x1x16xf32>)
      outs(%q, %k, %k : tensor<2x4x1x16xf32>, tensor<2x4x8x16xf32>,
           tensor<2x4x8x16xf32>)
      scale(0.25) mask(#attn.causal)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        attn.yield %s : f32
      } mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %c = arith.constant true
        attn.yield %c : i1
      } score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index):
        attn.yield %ds : f32
      } -> tensor<2x4x1x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
  return %0#0 : tensor<2x4x1x16xf32>
}

// -----

// A multiplication becomes a part of the scale unless its gradient is stated.
// CHECK-LABEL: func @product
// CHECK: attn.attention_grad {{.*}} scale(1.000000e+00) deterministic ->
// CHECK: attn.attention_grad {{.*}} scale(2.000000e+00) score_mod {
// CHECK: score_mod_grad {
func.func @product(%q: tensor<2x4x8x16xf32>, %lse: tensor<2x4x8xf32>)
    -> (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>) {
  %0:3 = attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
          tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x16xf32>)
      outs(%q, %q, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
           tensor<2x4x8x16xf32>)
      scale(2.0) deterministic
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %c = arith.constant 0.5 : f32
        %t = arith.mulf %s, %c : f32
        attn.yield %t : f32
      } -> tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
  %1:3 = attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
          tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x16xf32>)
      outs(%q, %q, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
           tensor<2x4x8x16xf32>)
      scale(2.0)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %c = arith.constant 0.5 : f32
        %t = arith.mulf %s, %c : f32
        attn.yield %t : f32
      } score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index):
        attn.yield %ds : f32
      } -> tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
  return %0#0, %1#0 : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
}

// -----

// A destination that nothing is added to is passed on.
// CHECK-LABEL: func @unused_capture
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<8xf32>, %[[B:[a-z0-9]+]]: tensor<f32>)
// CHECK: %[[R:.*]]:4 = attn.attention_grad {{.*}} outs({{.*}}, %[[B]] : {{.*}}, tensor<f32>) attributes {note = "kept"} score_mod_grad {
// CHECK-NEXT: ^bb0(%{{.*}}: f32, %[[DS:.*]]: f32, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %[[G:.*]]: tensor<f32>):
// CHECK-NEXT: attn.accumulate %[[DS]] into %[[G]][]
// CHECK: return %[[R]]#0, %[[A]], %[[R]]#3
func.func @unused_capture(%q: tensor<2x4x8x16xf32>, %lse: tensor<2x4x8xf32>,
                          %a: tensor<8xf32>, %b: tensor<f32>)
    -> (tensor<2x4x8x16xf32>, tensor<8xf32>, tensor<f32>) {
  %0:5 = attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
          tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x16xf32>)
      outs(%q, %q, %q, %a, %b : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
           tensor<2x4x8x16xf32>, tensor<8xf32>, tensor<f32>)
      attributes {note = "kept"}
      score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b0: index, %h: index, %i: index, %j: index,
           %g0: tensor<8xf32>, %g1: tensor<f32>):
        attn.accumulate %ds into %g1[] : tensor<f32>
        attn.yield %ds : f32
      } -> tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
           tensor<8xf32>, tensor<f32>
  return %0#0, %0#3, %0#4 : tensor<2x4x8x16xf32>, tensor<8xf32>, tensor<f32>
}

// -----

// Destinations of a region follow their operands. A gradient that nobody uses
// goes away, also if its regions add to destinations.
// CHECK-LABEL: func @casts
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<8xf32>)
// CHECK-NOT: attn.attention_grad
// CHECK: attn.attention_grad {{.*}} outs({{.*}}, %[[A]] : {{.*}}, tensor<8xf32>) score_mod_grad {
// CHECK: ^bb0({{.*}}, %[[G:[a-z0-9]+]]: tensor<8xf32>):
// CHECK: attn.accumulate %{{.*}} into %[[G]][%{{.*}}] : tensor<8xf32>
// CHECK-NOT: attn.attention_grad
// CHECK: return
func.func @casts(%q: tensor<2x4x8x16xf32>, %lse: tensor<2x4x8xf32>,
                 %a: tensor<8xf32>) -> tensor<?xf32> {
  %c = tensor.cast %a : tensor<8xf32> to tensor<?xf32>
  %0:4 = attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
          tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x16xf32>)
      outs(%q, %q, %q, %c : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
           tensor<2x4x8x16xf32>, tensor<?xf32>)
      score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b0: index, %h: index, %i: index, %j: index,
           %g: tensor<?xf32>):
        attn.accumulate %ds into %g[%j] : tensor<?xf32>
        attn.yield %ds : f32
      } -> tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
           tensor<?xf32>
  %1:4 = attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
          tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x16xf32>)
      outs(%q, %q, %q, %c : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
           tensor<2x4x8x16xf32>, tensor<?xf32>)
      score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b0: index, %h: index, %i: index, %j: index,
           %g: tensor<?xf32>):
        attn.accumulate %ds into %g[%j] : tensor<?xf32>
        attn.yield %ds : f32
      } -> tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
           tensor<?xf32>
  return %0#3 : tensor<?xf32>
}
