// RUN: attn-opt %s --attn-pad-sequences --split-input-file --verify-diagnostics

// Nothing checks that the boundaries of a caller are multiples of the chunk.
!q = tensor<1x4x64x16xf32>
!s = tensor<2x4x16x16xf32>
func.func @attention(%q: !q, %c: tensor<3xi32>, %s: !s) -> !q {
  // expected-error @+1 {{'whole_chunks' must come from attn-pad-sequences; leave it out}}
  %r = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) initial_state(%s : !s)
      sequences(%c : tensor<3xi32>) whole_chunks causal -> !q
  return %r : !q
}

// -----

!q = tensor<1x4x64x16xf32>
!s = tensor<2x4x16x16xf32>
func.func @gradient(%q: !q, %c: tensor<3xi32>, %s: !s) -> !q {
  // expected-error @+1 {{'whole_chunks' must come from attn-pad-sequences; leave it out}}
  %r:3 = attn.linear_attention_grad ins(%q, %q, %q, %q : !q, !q, !q, !q) outs(%q, %q, %q : !q, !q, !q)
      initial_state(%s : !s) sequences(%c : tensor<3xi32>) whole_chunks causal -> !q, !q, !q
  return %r#0 : !q
}
