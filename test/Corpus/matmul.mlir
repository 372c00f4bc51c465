// Matmuls with transposed inputs, a batch and an epilogue.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host
// attn-run: --shape=rows=152 --shape=depth=136 --shape=columns=200 --shape=bias=200

!a = tensor<?x?xbf16>
!b = tensor<?x?x?xbf16>
!c = tensor<?x?xf32>
func.func @plain(%x: !a, %y: !a, %out: !a) -> !a {
  %0 = attn.matmul ins(%x, %y : !a, !a) outs(%out : !a) -> !a
  return %0 : !a
}
func.func @transposed(%x: !a, %y: !a, %out: !c) -> !c {
  %0 = attn.matmul ins(%x, %y : !a, !a) outs(%out : !c) transpose_lhs transpose_rhs -> !c
  return %0 : !c
}
func.func @batched(%x: !b, %y: !a, %bias: tensor<?xbf16>, %out: !b) -> !b {
  %0 = attn.matmul ins(%x, %y : !b, !a) outs(%out : !b) transpose_rhs epilogue {
  ^bb0(%sum: f32, %b: index, %i: index, %j: index):
    %1 = tensor.extract %bias[%j] : tensor<?xbf16>
    %2 = arith.extf %1 : bf16 to f32
    %3 = arith.addf %sum, %2 : f32
    attn.yield %3 : f32
  } -> !b
  return %0 : !b
}
