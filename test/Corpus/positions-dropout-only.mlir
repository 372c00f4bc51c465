// A shard whose random numbers alone see its positions, and its gradient.
// attn-compile: --target=sm_90a
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
      positions(%positions : !p) dropout_only mask(#attn.causal)
      dropout(#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>>, %seed, %offset : tensor<i64>, tensor<i64>)
      -> !o
  return %0 : !o
}

func.func @gradient(%query: !q, %key: !k, %value: !v, %out: !o, %lse: !l, %dout: !o, %dquery: !q, %dkey: !k,
                    %dvalue: !v, %positions: !p, %seed: tensor<i64>,
                    %offset: tensor<i64>) -> (!q, !k, !v) {
  %0:3 = attn.attention_grad ins(%query, %key, %value, %out, %lse, %dout : !q, !k, !v, !o, !l, !o)
      outs(%dquery, %dkey, %dvalue : !q, !k, !v) positions(%positions : !p) dropout_only mask(#attn.causal)
      dropout(#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>>, %seed, %offset : tensor<i64>, tensor<i64>)
      -> !q, !k, !v
  return %0#0, %0#1, %0#2 : !q, !k, !v
}
