// Partial results of attention to two sets of keys.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host

!out = tensor<?x8x?x128xbf16>
!lse = tensor<?x8x?xf32>
func.func @merge(%a: !out, %la: !lse, %b: !out, %lb: !lse, %out: !out, %lse: !lse) -> (!out, !lse) {
  %0:2 = attn.merge ins(%a, %b : !out, !out) lses(%la, %lb : !lse, !lse) outs(%out, %lse : !out, !lse) -> !out, !lse
  return %0#0, %0#1 : !out, !lse
}
