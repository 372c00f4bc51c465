// Softmax attention in linalg, which the compiler recognises.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host

!q = tensor<8x512x64xf16>
!t = tensor<8x64x256xf16>
!v = tensor<8x256x64xf16>
!s = tensor<8x512x256xf16>
func.func @attention(%query: !q, %key: !t, %value: !v) -> !q {
  %zero = arith.constant 0.0 : f16
  %0 = tensor.empty() : !s
  %1 = linalg.fill ins(%zero : f16) outs(%0 : !s) -> !s
  %scores = linalg.batch_matmul ins(%query, %key : !q, !t) outs(%1 : !s) -> !s
  %p = linalg.softmax dimension(2) ins(%scores : !s) outs(%0 : !s) -> !s
  %2 = tensor.empty() : !q
  %3 = linalg.fill ins(%zero : f16) outs(%2 : !q) -> !q
  %out = linalg.batch_matmul ins(%p, %value : !s, !v) outs(%3 : !q) -> !q
  return %out : !q
}
