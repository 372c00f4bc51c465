// The gradient of a layer, in one function with the layer.
// attn-opt: --attn-differentiate="function=layer mode=combined arguments=0,1,2,5"
// attn-opt: --symbol-privatize=exclude=layer_grad
// attn-opt: --symbol-dce
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host

!q = tensor<1x8x?x64xbf16>
!t = tensor<2048x32xf32>
!w = tensor<64xbf16>
func.func @layer(%query: !q, %key: !q, %value: !q, %cos: !t, %sin: !t, %weight: !w) -> !q {
  %c2 = arith.constant 2 : index
  %n = tensor.dim %query, %c2 : !q
  %qn = attn.rms_norm %query weight(%weight : !w) epsilon(1.0e-06) : !q
  %qr = attn.rope %qn, %cos, %sin : !q, !t, !t
  %kr = attn.rope %key, %cos, %sin : !q, !t, !t
  %init = tensor.empty(%n) : !q
  %out = attn.attention ins(%qr, %kr, %value : !q, !q, !q) outs(%init : !q) mask(#attn.causal) -> !q
  return %out : !q
}
