// A matmul that moves past attention.
// attn-opt: --attn-reassociate=target=sm_90a
// attn-compile: --target=sm_90a

!q = tensor<2x4x64x64xbf16>
!k = tensor<2x4x8192x64xbf16>
!x = tensor<8x8192x128xbf16>
!y = tensor<8x8192x64xbf16>
!w = tensor<128x64xbf16>
func.func @attention(%query: !q, %key: !k, %x: !x, %weight: !w) -> !q {
  %0 = tensor.empty() : !y
  %1 = attn.matmul ins(%x, %weight : !x, !w) outs(%0 : !y) -> !y
  %value = tensor.expand_shape %1 [[0, 1], [2], [3]] output_shape [2, 4, 8192, 64] : !y into !k
  %init = tensor.empty() : !q
  %out = attn.attention ins(%query, %key, %value : !q, !k, !k) outs(%init : !q) mask(#attn.causal) -> !q
  return %out : !q
}
