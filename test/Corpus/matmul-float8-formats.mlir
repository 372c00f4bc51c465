// Matmuls of both 8-bit formats. GPUs before Hopper have no such kernels.
// attn-compile: --target=sm_90a
// attn-compile: --target=host

!a = tensor<?x1024xf8E5M2>
!b = tensor<512x1024xf8E4M3FN>
!d = tensor<?x1024xf8E4M3FN>
!e = tensor<?x1024xf8E5M2>
!c = tensor<?x512xbf16>
func.func @e5m2_and_e4m3(%x: !a, %y: !b, %out: !c) -> !c {
  %0 = attn.matmul ins(%x, %y : !a, !b) outs(%out : !c) transpose_rhs -> !c
  return %0 : !c
}
func.func @e4m3_and_e5m2(%x: !d, %y: !e, %out: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %0 = attn.matmul ins(%x, %y : !d, !e) outs(%out : tensor<?x?xf32>) transpose_rhs -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}
func.func @e5m2_twice(%x: !e, %y: !e, %out: tensor<?x?xf16>) -> tensor<?x?xf16> {
  %0 = attn.matmul ins(%x, %y : !e, !e) outs(%out : tensor<?x?xf16>) transpose_rhs -> tensor<?x?xf16>
  return %0 : tensor<?x?xf16>
}
