// The strategy of the gradient of a merge.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80

!out = tensor<?x8x?x64xbf16>
!lse = tensor<?x8x?xf32>
func.func @gradient(%a: !out, %la: !lse, %b: !out, %lb: !lse, %dout: !out, %dlse: !lse, %da: !out, %db: !out,
                    %dla: !lse, %dlb: !lse) -> (!out, !out, !lse, !lse) {
  %0:4 = attn.merge_grad ins(%a, %b : !out, !out) lses(%la, %lb : !lse, !lse) dout(%dout : !out) dlse(%dlse : !lse)
      outs(%da, %db : !out, !out) dlses(%dla, %dlb : !lse, !lse)
      schedule(#attn_tile.move_rows<chunks = 64, threads = 32, together = 2, aligned = true>) -> !out, !out, !lse, !lse
  return %0#0, %0#1, %0#2, %0#3 : !out, !out, !lse, !lse
}
