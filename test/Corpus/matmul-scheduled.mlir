// A matmul with a schedule.
// attn-compile: --target=sm_90a

!a = tensor<?x1024xf16>
!b = tensor<1024x512xf16>
!c = tensor<?x512xf16>
func.func @matmul(%x: !a, %y: !b, %out: !c) -> !c {
  %0 = attn.matmul ins(%x, %y : !a, !b) outs(%out : !c)
      schedule(#attn_tile.matmul_warp_specialized<row_tile = 128, column_tile = 128, depth_tile = 64, stages = 4,
          consumers = 2, interleave = 8>) -> !c
  return %0 : !c
}
