// An output of 8 bits with a scale of each head that is known before, of 8-bit queries, keys and values. GPUs before
// Hopper have no such kernels.
// attn-compile: --target=sm_90a
// attn-compile: --target=host
// attn-run: --tolerance=5e-2 --fill=scale=uniform:0.01:0.05

!x = tensor<?x8x?x64xf8E4M3FN>
!wide = tensor<?x8x?x64xf32>
func.func @attention(%query: !x, %key: !x, %value: !x, %scale: tensor<?x8xf32>) -> !x {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %b = tensor.dim %query, %c0 : !x
  %n = tensor.dim %query, %c2 : !x
  %init = tensor.empty(%b, %n) : !wide
  %narrow = tensor.empty(%b, %n) : !x
  %o = attn.attention ins(%query, %key, %value : !x, !x, !x) outs(%init : !wide) mask(#attn.causal) -> !wide
  %r = attn.quantize ins(%o : !wide) given_scale(%scale : tensor<?x8xf32>) outs(%narrow : !x) saturate -> !x
  return %r : !x
}
