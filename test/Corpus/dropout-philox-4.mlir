// Dropout with 4-bit random numbers.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80

!q = tensor<?x8x?x96xf16>
!k = tensor<?x2x?x96xf16>
!v = tensor<?x2x?x96xf16>
!o = tensor<?x8x?x96xf16>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o, %seed: tensor<i64>, %offset: tensor<i64>) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o)
      mask(#attn.sliding_window<left = 128, right = 0>)
      dropout(#attn.dropout<p = 0.5, rng = #attn.philox, bits = 4>, %seed, %offset : tensor<i64>, tensor<i64>)
      -> !o
  return %0 : !o
}
