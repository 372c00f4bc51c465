// Interleaved rotary embedding and its inverse, without attention.
// attn-compile: --target=sm_90a
// attn-compile: --target=host

!q = tensor<?x4x?x64xf16>
!t = tensor<?x512x16xf32>
func.func @rotate(%x: !q, %cos: !t, %sin: !t) -> (!q, !q) {
  %0 = attn.rope %x, %cos, %sin interleaved : !q, !t, !t
  %1 = attn.rope %x, %cos, %sin interleaved inverse : !q, !t, !t
  return %0, %1 : !q, !q
}
