// Rotary embedding and RMS norm of queries and keys, fused into attention.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host

!q = tensor<?x8x?x128xbf16>
!k = tensor<?x2x?x128xbf16>
!t = tensor<4096x64xf32>
!w = tensor<128xbf16>
func.func @attention(%query: !q, %key: !k, %value: !k, %cos: !t, %sin: !t, %weight: !w, %out: !q) -> !q {
  %start = arith.constant 7 : index
  %qn = attn.rms_norm %query weight(%weight : !w) epsilon(1.0e-06) : !q
  %kn = attn.rms_norm %key epsilon(1.0e-06) : !k
  %qr = attn.rope %qn, %cos, %sin at(%start) : !q, !t, !t
  %kr = attn.rope %kn, %cos, %sin : !k, !t, !t
  %0 = attn.attention ins(%qr, %kr, %value : !q, !k, !k) outs(%out : !q) mask(#attn.causal) -> !q
  return %0 : !q
}
