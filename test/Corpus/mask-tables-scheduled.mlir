// Mask tables with schedules.
// attn-compile: --target=sm_90a
// attn-run: --values=offsets=1x8x5:0,1,2,3,4 --values=indices=1x8x4:0,1,2,3 --fill=parents=const:-1

!a = tensor<1x?xi32>
!b = tensor<1x?x?xi32>
!c = tensor<1x8x?xi32>
!d = tensor<1x8x?x?xi32>
func.func @tables(%bounds: !a, %parents: !a, %offsets: !c, %indices: !c, %x: !a, %y: !b, %z: !d)
    -> (!a, !b, !d) {
  %n = arith.constant 64 : index
  %0 = attn.sequence_ids ins(%bounds : !a) outs(%x : !a) otherwise(-1) schedule(#attn_tile.scalar) -> !a
  %1 = attn.ancestor_map ins(%parents : !a) outs(%y : !b) schedule(#attn_tile.scalar) -> !b
  %2 = attn.block_sparse_map ins(%offsets, %indices : !c, !c) columns(%n) outs(%z : !d) schedule(#attn_tile.scalar) -> !d
  return %0, %1, %2 : !a, !b, !d
}
