// A partial result for values that are the first elements of keys: consumers have columns of their own.
// attn-compile: --target=sm_90a

!q = tensor<?x16x?x576xbf16>
!k = tensor<?x1x?x576xbf16>
!v = tensor<?x1x?x512xbf16>
!o = tensor<?x16x?x512xbf16>
!l = tensor<?x16x?xf32>
func.func @attention(%query: !q, %key: !k, %state_out: !o, %state_lse: !l, %out: !o, %lse: !l) -> (!o, !l) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %b = tensor.dim %key, %c0 : !k
  %n = tensor.dim %key, %c2 : !k
  %value = tensor.extract_slice %key[0, 0, 0, 0] [%b, 1, %n, 512] [1, 1, 1, 1] : !k to !v
  %0:2 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out, %lse : !o, !l)
      state(%state_out, %state_lse : !o, !l) -> !o, !l
  return %0#0, %0#1 : !o, !l
}
