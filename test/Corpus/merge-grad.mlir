// The gradient of a merge of three partial results.
// attn-opt: --attn-differentiate="function=merge mode=combined"
// attn-opt: --symbol-privatize=exclude=merge_grad
// attn-opt: --symbol-dce
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host

!out = tensor<?x8x?x128xbf16>
!lse = tensor<?x8x?xf32>
func.func @merge(%a: !out, %la: !lse, %b: !out, %lb: !lse, %c: !out, %lc: !lse, %out: !out, %lse: !lse)
    -> (!out, !lse) {
  %0:2 = attn.merge ins(%a, %b, %c : !out, !out, !out) lses(%la, %lb, %lc : !lse, !lse, !lse)
      outs(%out, %lse : !out, !lse) -> !out, !lse
  return %0#0, %0#1 : !out, !lse
}
