// Features of a softmax, without a causal mask, with a normalizer.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host
// attn-run: --shape=tokens=150

!q = tensor<?x4x?x64xbf16>
!k = tensor<?x2x?x64xbf16>
func.func @attention(%query: !q, %key: !k, %value: !k) -> !q {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %batch = tensor.dim %query, %c0 : !q
  %tokens = tensor.dim %query, %c2 : !q
  %init = tensor.empty(%batch, %tokens) : !q
  %0 = attn.linear_attention ins(%query, %key, %value : !q, !k, !k) outs(%init : !q) normalizer(eps = 1.0e-3)
      feature {
  ^bb0(%x: tensor<?x?x?x64xbf16>):
    %i0 = arith.constant 0 : index
    %i1 = arith.constant 1 : index
    %i2 = arith.constant 2 : index
    %s0 = tensor.dim %x, %i0 : tensor<?x?x?x64xbf16>
    %s1 = tensor.dim %x, %i1 : tensor<?x?x?x64xbf16>
    %s2 = tensor.dim %x, %i2 : tensor<?x?x?x64xbf16>
    %feature_init = tensor.empty(%s0, %s1, %s2) : tensor<?x?x?x64xbf16>
    %y = linalg.softmax dimension(3) ins(%x : tensor<?x?x?x64xbf16>)
        outs(%feature_init : tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16>
    attn.linear_yield %y : tensor<?x?x?x64xbf16>
  } -> !q
  return %0 : !q
}
