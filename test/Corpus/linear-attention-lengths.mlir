// Numbers of keys, with decays of key elements.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host
// attn-run: --shape=tokens=150 --fill=log_decay=uniform:-2:0 --values=key_lengths=2:70,150

!q = tensor<?x4x?x64xbf16>
!k = tensor<?x2x?x64xbf16>
!rows = tensor<?x4x?x64xf32>
func.func @attention(%query: !q, %key: !k, %value: !k, %log_decay: !rows, %key_lengths: tensor<?xi32>) -> !q {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %batch = tensor.dim %query, %c0 : !q
  %tokens = tensor.dim %query, %c2 : !q
  %init = tensor.empty(%batch, %tokens) : !q
  %0 = attn.linear_attention ins(%query, %key, %value : !q, !k, !k) outs(%init : !q) log_decay(%log_decay : !rows)
      key_lengths(%key_lengths : tensor<?xi32>) causal -> !q
  return %0 : !q
}
