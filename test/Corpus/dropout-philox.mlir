// Dropout with Philox.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host

!q = tensor<?x8x?x64xbf16>
!k = tensor<?x2x?x64xbf16>
!v = tensor<?x2x?x64xbf16>
!o = tensor<?x8x?x64xbf16>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o, %seed: tensor<i64>, %offset: tensor<i64>) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o)
      dropout(#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>>, %seed, %offset : tensor<i64>, tensor<i64>)
      -> !o
  return %0 : !o
}
