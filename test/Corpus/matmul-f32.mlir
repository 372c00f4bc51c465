// Matmuls of f32 matrices, in both precisions and orders of the operands.
// attn-compile: --target=sm_80
// attn-compile: --target=sm_90a
// attn-run: --tolerance=2e-3

!a = tensor<?x256xf32>
!b = tensor<512x256xf32>
!t = tensor<256x512xf32>
!c = tensor<?x512xf32>
func.func @rows(%x: !a, %y: !b, %out: !c) -> !c {
  %0 = attn.matmul ins(%x, %y : !a, !b) outs(%out : !c) transpose_rhs precision(high) -> !c
  return %0 : !c
}
func.func @columns(%x: !a, %y: !t, %out: !c) -> !c {
  %0 = attn.matmul ins(%x, %y : !a, !t) outs(%out : !c) precision(highest) -> !c
  return %0 : !c
}
