// RUN: attn-opt %s --attn-choose-schedule=target=sm_90a | FileCheck %s --check-prefix=GPU
// RUN: attn-opt %s --attn-choose-schedule=target=host | FileCheck %s

// CHECK: schedule(#attn.by_query_length<bound = {{[0-9]+}}, below = #attn_tile.sequential<
// GPU:   schedule(#attn_tile.gradient<
// GPU-SAME: dkdv = #attn_tile.key_stationary<query_tile = 80, key_tile = 128, stages = 2, consumers = 2>
func.func @bias(%q: tensor<1x2x?x64xbf16>, %lse: tensor<1x2x?xf32>, %bias: tensor<2xf32>)
    -> (tensor<1x2x?x64xbf16>, tensor<1x2x?x64xbf16>, tensor<1x2x?x64xbf16>, tensor<2xf32>) {
  %r:4 = attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : tensor<1x2x?x64xbf16>, tensor<1x2x?x64xbf16>, tensor<1x2x?x64xbf16>,
          tensor<1x2x?x64xbf16>, tensor<1x2x?xf32>, tensor<1x2x?x64xbf16>)
      outs(%q, %q, %q, %bias : tensor<1x2x?x64xbf16>, tensor<1x2x?x64xbf16>, tensor<1x2x?x64xbf16>, tensor<2xf32>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %bias[%h] : tensor<2xf32>
        %t = arith.addf %s, %x : f32
        attn.yield %t : f32
      } score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index, %sum: tensor<2xf32>):
        attn.accumulate %ds into %sum[%h] : tensor<2xf32>
        attn.yield %ds : f32
      } -> tensor<1x2x?x64xbf16>, tensor<1x2x?x64xbf16>, tensor<1x2x?x64xbf16>, tensor<2xf32>
  return %r#0, %r#1, %r#2, %r#3 : tensor<1x2x?x64xbf16>, tensor<1x2x?x64xbf16>, tensor<1x2x?x64xbf16>, tensor<2xf32>
}

// Additions need registers: tiles are smaller than without them.
// GPU-LABEL: @wide
// GPU:       dkdv = #attn_tile.key_stationary<query_tile = 48, key_tile = 128, stages = 2, consumers = 2>
func.func @wide(%q: tensor<1x2x?x128xbf16>, %lse: tensor<1x2x?xf32>, %bias: tensor<2xf32>)
    -> (tensor<1x2x?x128xbf16>, tensor<1x2x?x128xbf16>, tensor<1x2x?x128xbf16>, tensor<2xf32>) {
  %r:4 = attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : tensor<1x2x?x128xbf16>, tensor<1x2x?x128xbf16>, tensor<1x2x?x128xbf16>,
          tensor<1x2x?x128xbf16>, tensor<1x2x?xf32>, tensor<1x2x?x128xbf16>)
      outs(%q, %q, %q, %bias : tensor<1x2x?x128xbf16>, tensor<1x2x?x128xbf16>, tensor<1x2x?x128xbf16>, tensor<2xf32>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %bias[%h] : tensor<2xf32>
        %t = arith.addf %s, %x : f32
        attn.yield %t : f32
      } score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index, %sum: tensor<2xf32>):
        attn.accumulate %ds into %sum[%h] : tensor<2xf32>
        attn.yield %ds : f32
      } -> tensor<1x2x?x128xbf16>, tensor<1x2x?x128xbf16>, tensor<1x2x?x128xbf16>, tensor<2xf32>
  return %r#0, %r#1, %r#2, %r#3 : tensor<1x2x?x128xbf16>, tensor<1x2x?x128xbf16>, tensor<1x2x?x128xbf16>, tensor<2xf32>
}

// With keep masks of dropout, there are none left for an iteration over work items.
// GPU-LABEL: @wide_dropped
// GPU:       dkdv = #attn_tile.key_stationary<query_tile = 48, key_tile = 128, stages = 2, consumers = 2, traversal = grid>
func.func @wide_dropped(%q: tensor<1x2x?x128xbf16>, %lse: tensor<1x2x?xf32>, %bias: tensor<2xf32>, %seed: i64)
    -> (tensor<1x2x?x128xbf16>, tensor<1x2x?x128xbf16>, tensor<1x2x?x128xbf16>, tensor<2xf32>) {
  %r:4 = attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : tensor<1x2x?x128xbf16>, tensor<1x2x?x128xbf16>, tensor<1x2x?x128xbf16>,
          tensor<1x2x?x128xbf16>, tensor<1x2x?xf32>, tensor<1x2x?x128xbf16>)
      outs(%q, %q, %q, %bias : tensor<1x2x?x128xbf16>, tensor<1x2x?x128xbf16>, tensor<1x2x?x128xbf16>, tensor<2xf32>)
      dropout(#attn.dropout<p = 0.125, rng = #attn.arx>, %seed, %seed : i64, i64)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %bias[%h] : tensor<2xf32>
        %t = arith.addf %s, %x : f32
        attn.yield %t : f32
      } score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index, %sum: tensor<2xf32>):
        attn.accumulate %ds into %sum[%h] : tensor<2xf32>
        attn.yield %ds : f32
      } -> tensor<1x2x?x128xbf16>, tensor<1x2x?x128xbf16>, tensor<1x2x?x128xbf16>, tensor<2xf32>
  return %r#0, %r#1, %r#2, %r#3 : tensor<1x2x?x128xbf16>, tensor<1x2x?x128xbf16>, tensor<1x2x?x128xbf16>, tensor<2xf32>
}

// Gradients of keys and of values are added up in kernels of their own.
// GPU-LABEL: @widest
// GPU:       dkdv = #attn_tile.key_stationary<query_tile = 48, key_tile = 128, stages = 2, consumers = 2>, dq =
// GPU-SAME:      dv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>
func.func @widest(%q: tensor<1x2x?x256xbf16>, %lse: tensor<1x2x?xf32>, %bias: tensor<2xf32>)
    -> (tensor<1x2x?x256xbf16>, tensor<1x2x?x256xbf16>, tensor<1x2x?x256xbf16>, tensor<2xf32>) {
  %r:4 = attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : tensor<1x2x?x256xbf16>, tensor<1x2x?x256xbf16>, tensor<1x2x?x256xbf16>,
          tensor<1x2x?x256xbf16>, tensor<1x2x?xf32>, tensor<1x2x?x256xbf16>)
      outs(%q, %q, %q, %bias : tensor<1x2x?x256xbf16>, tensor<1x2x?x256xbf16>, tensor<1x2x?x256xbf16>, tensor<2xf32>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %bias[%h] : tensor<2xf32>
        %t = arith.addf %s, %x : f32
        attn.yield %t : f32
      } score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index, %sum: tensor<2xf32>):
        attn.accumulate %ds into %sum[%h] : tensor<2xf32>
        attn.yield %ds : f32
      } -> tensor<1x2x?x256xbf16>, tensor<1x2x?x256xbf16>, tensor<1x2x?x256xbf16>, tensor<2xf32>
  return %r#0, %r#1, %r#2, %r#3 : tensor<1x2x?x256xbf16>, tensor<1x2x?x256xbf16>, tensor<1x2x?x256xbf16>, tensor<2xf32>
}
