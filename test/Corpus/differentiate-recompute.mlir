// A forward and a backward function, with a budget for activations.
// attn-opt: --attn-differentiate="function=layer arguments=0,1,2,5"
// attn-opt: --attn-plan-recompute=budget=3000000
// attn-compile: --target=sm_90a

!q = tensor<1x8x2048x64xbf16>
!t = tensor<2048x32xf32>
!w = tensor<64xbf16>
func.func @layer(%query: !q, %key: !q, %value: !q, %cos: !t, %sin: !t, %weight: !w) -> !q {
  %qn = attn.rms_norm %query weight(%weight : !w) epsilon(1.0e-06) : !q
  %qr = attn.rope %qn, %cos, %sin : !q, !t, !t
  %kr = attn.rope %key, %cos, %sin : !q, !t, !t
  %init = tensor.empty() : !q
  %out = attn.attention ins(%qr, %kr, %value : !q, !q, !q) outs(%init : !q) mask(#attn.causal) -> !q
  return %out : !q
}
