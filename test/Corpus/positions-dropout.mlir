// A shard of causal attention with dropout.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host
// attn-run: --values=positions=6:64,128,1,8,300,400

!q = tensor<?x8x?x64xbf16>
!k = tensor<?x2x?x64xbf16>
!v = tensor<?x2x?x64xbf16>
!o = tensor<?x8x?x64xbf16>
!l = tensor<?x8x?xf32>
!p = tensor<6xi32>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o, %positions: !p, %seed: tensor<i64>,
                     %offset: tensor<i64>) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o)
      positions(%positions : !p) mask(#attn.causal)
      dropout(#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>>, %seed, %offset : tensor<i64>, tensor<i64>)
      -> !o
  return %0 : !o
}
