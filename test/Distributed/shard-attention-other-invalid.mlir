// RUN: attn-test-opt %s --attn-shard-attention="ranks=4" --verify-diagnostics

!m = memref<1x2x64x16xf32>
func.func @other(%q: !m, %k: !m, %v: !m, %out: !m) {
  // expected-error @below {{'test_attn.linear_scores' op cannot be distributed over ranks: only 'attn.attention', 'attn.linear_attention' and their gradients can}}
  test_attn.linear_scores ins(%q, %k, %v : !m, !m, !m) outs(%out : !m)
  return
}
