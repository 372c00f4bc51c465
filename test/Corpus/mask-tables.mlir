// Tables that masks compute from their operands.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host
// attn-run: --values=offsets=1x8x5:0,1,2,3,4 --values=indices=1x8x4:0,1,2,3 --fill=parents=const:-1

!a = tensor<1x?xi32>
!b = tensor<1x?x?xi32>
!c = tensor<1x8x?xi32>
!d = tensor<1x8x?x?xi32>
func.func @ids(%bounds: !a, %out: !a) -> !a {
  %0 = attn.sequence_ids ins(%bounds : !a) outs(%out : !a) otherwise(-1) -> !a
  return %0 : !a
}
func.func @ancestors(%parents: !a, %out: !b) -> !b {
  %0 = attn.ancestor_map ins(%parents : !a) outs(%out : !b) -> !b
  return %0 : !b
}
func.func @blocks(%offsets: !c, %indices: !c, %out: !d) -> !d {
  %n = arith.constant 64 : index
  %0 = attn.block_sparse_map ins(%offsets, %indices : !c, !c) columns(%n) outs(%out : !d) -> !d
  return %0 : !d
}
