// A matmul with a multistage schedule.
// attn-compile: --target=sm_80

!a = tensor<?x1024xf16>
!b = tensor<512x1024xf16>
!c = tensor<?x512xf16>
func.func @matmul(%x: !a, %y: !b, %out: !c) -> !c {
  %0 = attn.matmul ins(%x, %y : !a, !b) outs(%out : !c) transpose_rhs
      schedule(#attn_tile.matmul_multistage<row_tile = 128, column_tile = 128, depth_tile = 64, stages = 2, warps = 4>)
      -> !c
  return %0 : !c
}
