// Dropout with Threefry and 16-bit random numbers.
// attn-compile: --target=sm_90a
// attn-compile: --target=host

!q = tensor<?x8x?x256xf16>
!k = tensor<?x2x?x256xf16>
!v = tensor<?x2x?x256xf16>
!o = tensor<?x8x?x256xf16>
func.func @attention(%query: !q, %key: !k, %value: !v, %out: !o, %seed: tensor<i64>, %offset: tensor<i64>) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o)
      dropout(#attn.dropout<p = 0.3, rng = #attn.threefry<rounds = 12>, bits = 16>, %seed, %offset : tensor<i64>, tensor<i64>)
      -> !o
  return %0 : !o
}
