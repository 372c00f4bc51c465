// The layout [batch, sequence, head, head dim], as permuted views.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host

!x = tensor<?x?x8x128xbf16>
!y = tensor<?x?x2x128xbf16>
!q = tensor<?x8x?x128xbf16>
!k = tensor<?x2x?x128xbf16>
func.func @attention(%query: !x, %key: !y, %value: !y, %out: !x) -> !x {
  %q = attn.permute %query [0, 2, 1, 3] : !x -> !q
  %k = attn.permute %key [0, 2, 1, 3] : !y -> !k
  %v = attn.permute %value [0, 2, 1, 3] : !y -> !k
  %o = attn.permute %out [0, 2, 1, 3] : !x -> !q
  %0 = attn.attention ins(%q, %k, %v : !q, !k, !k) outs(%o : !q) mask(#attn.causal) -> !q
  %1 = attn.permute %0 [0, 2, 1, 3] : !q -> !x
  return %1 : !x
}
