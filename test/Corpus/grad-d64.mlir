// Head dimension 64, f16, with a gradient of the log-sum-exp.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host
// attn-run: --fill=lse=const:20

!q = tensor<?x4x?x64xf16>
!k = tensor<?x4x?x64xf16>
!v = tensor<?x4x?x64xf16>
!o = tensor<?x4x?x64xf16>
!l = tensor<?x4x?xf32>
func.func @gradient(%query: !q, %key: !k, %value: !v, %out: !o, %lse: !l, %dout: !o, %dlse: !l, %dquery: !q, %dkey: !k,
    %dvalue: !v) -> (!q, !k, !v) {
  %0:3 = attn.attention_grad ins(%query, %key, %value, %out, %lse, %dout, %dlse : !q, !k, !v, !o, !l, !o, !l)
      outs(%dquery, %dkey, %dvalue : !q, !k, !v) scale(5.0e-01) -> !q, !k, !v
  return %0#0, %0#1, %0#2 : !q, !k, !v
}
