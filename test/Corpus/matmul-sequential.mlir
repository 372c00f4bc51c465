// A matmul with a schedule of the host.
// attn-compile: --target=host

!a = tensor<?x96xf32>
!b = tensor<96x64xf32>
!c = tensor<?x64xf32>
func.func @matmul(%x: !a, %y: !b, %out: !c) -> !c {
  %0 = attn.matmul ins(%x, %y : !a, !b) outs(%out : !c)
      schedule(#attn_tile.matmul_sequential<row_tile = 16, column_tile = 32, depth_tile = 64>) -> !c
  return %0 : !c
}
