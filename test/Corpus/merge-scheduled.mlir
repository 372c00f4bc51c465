// The strategy of a merge of three partial results of different types, without a log-sum-exp.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80

!wide = tensor<?x4x?x64xf32>
!out = tensor<?x4x?x64xf16>
!lse = tensor<?x4x?xf32>
func.func @merge(%a: !wide, %la: !lse, %b: !out, %lb: !lse, %c: !wide, %lc: !lse, %out: !out) -> !out {
  %0 = attn.merge ins(%a, %b, %c : !wide, !out, !wide) lses(%la, %lb, %lc : !lse, !lse, !lse) outs(%out : !out)
      schedule(#attn_tile.move_rows<chunks = 32, threads = 32, together = 1, aligned = true>) -> !out
  return %0 : !out
}
