// Packed sequences of the delta rule with decays.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host
// attn-run: --shape=tokens=150 --fill=log_decay=uniform:-2:0
// attn-run: --fill=beta=uniform:0:1 --values=sequences=5:0,20,20,70,150

!q = tensor<1x4x?x64xbf16>
!k = tensor<1x2x?x64xbf16>
!rows = tensor<1x4x?xf32>
func.func @attention(%query: !q, %key: !k, %value: !k, %log_decay: !rows, %beta: !rows,
                     %sequences: tensor<?xi32>) -> !q {
  %c2 = arith.constant 2 : index
  %tokens = tensor.dim %query, %c2 : !q
  %init = tensor.empty(%tokens) : !q
  %0 = attn.linear_attention ins(%query, %key, %value : !q, !k, !k) outs(%init : !q) log_decay(%log_decay : !rows)
      beta(%beta : !rows) sequences(%sequences : tensor<?xi32>) causal -> !q
  return %0 : !q
}
