// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=sm_90a}))' --split-input-file --verify-diagnostics

func.func @element(%q: memref<1x8x?x64xf32>, %lse: memref<1x8x?xf32>) {
  // expected-error @below {{'attn.attention_grad' op element type on sm_90a must be bf16 or f16 (was 'f32')}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x8x?x64xf32>, memref<1x8x?x64xf32>, memref<1x8x?x64xf32>,
          memref<1x8x?x64xf32>, memref<1x8x?xf32>, memref<1x8x?x64xf32>)
      outs(%q, %q, %q : memref<1x8x?x64xf32>, memref<1x8x?x64xf32>, memref<1x8x?x64xf32>)
  return
}

// -----

func.func @output(%q: memref<1x8x?x64xf16>, %o: memref<1x8x?x64xf32>, %lse: memref<1x8x?xf32>) {
  // expected-error @below {{'attn.attention_grad' op gradient of the output on sm_90a must have the element type of the query (expected 'f16', found 'f32')}}
  attn.attention_grad
      ins(%q, %q, %q, %o, %lse, %o : memref<1x8x?x64xf16>, memref<1x8x?x64xf16>, memref<1x8x?x64xf16>,
          memref<1x8x?x64xf32>, memref<1x8x?xf32>, memref<1x8x?x64xf32>)
      outs(%q, %q, %q : memref<1x8x?x64xf16>, memref<1x8x?x64xf16>, memref<1x8x?x64xf16>)
  return
}

// -----

func.func @captures(%q: tensor<1x2x?x256xbf16>, %lse: tensor<1x2x?xf32>, %bias: tensor<2xf32>)
    -> (tensor<1x2x?x256xbf16>, tensor<1x2x?x256xbf16>, tensor<1x2x?x256xbf16>, tensor<2xf32>) {
  // expected-error @below {{'attn.attention_grad' op with gradients of captured arrays on sm_90a must have head dimensions of at most 192 (was 256)}}
  %r:4 = attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : tensor<1x2x?x256xbf16>, tensor<1x2x?x256xbf16>, tensor<1x2x?x256xbf16>,
          tensor<1x2x?x256xbf16>, tensor<1x2x?xf32>, tensor<1x2x?x256xbf16>)
      outs(%q, %q, %q, %bias : tensor<1x2x?x256xbf16>, tensor<1x2x?x256xbf16>, tensor<1x2x?x256xbf16>, tensor<2xf32>)
      score {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %bias[%h] : tensor<2xf32>
        %t = arith.addf %s, %x : f32
        attn.yield %t : f32
      } score_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index, %sum: tensor<2xf32>):
        attn.accumulate %ds into %sum[%h] : tensor<2xf32>
        attn.yield %ds : f32
      } -> tensor<1x2x?x256xbf16>, tensor<1x2x?x256xbf16>, tensor<1x2x?x256xbf16>, tensor<2xf32>
  return %r#0, %r#1, %r#2, %r#3 : tensor<1x2x?x256xbf16>, tensor<1x2x?x256xbf16>, tensor<1x2x?x256xbf16>, tensor<2xf32>
}
