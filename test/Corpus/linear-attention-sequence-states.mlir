// Packed sequences of the delta rule with decays and a state for each.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host
// attn-run: --shape=size0=150 --shape=states=4 --fill=log_decay=uniform:-2:0
// attn-run: --fill=beta=uniform:0:1 --values=sequences=5:0,20,20,70,150

!q = tensor<1x4x?x64xbf16>
!k = tensor<1x2x?x64xbf16>
!rows = tensor<1x4x?xf32>
!state = tensor<?x4x64x64xf32>
func.func @attention(%query: !q, %key: !k, %value: !k, %log_decay: !rows, %beta: !rows, %initial_state: !state,
                     %sequences: tensor<?xi32>) -> (!q, !state) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %tokens = tensor.dim %query, %c2 : !q
  %number = tensor.dim %initial_state, %c0 : !state
  %init = tensor.empty(%tokens) : !q
  %last = tensor.empty(%number) : !state
  %0:2 = attn.linear_attention ins(%query, %key, %value : !q, !k, !k) outs(%init, %last : !q, !state)
      log_decay(%log_decay : !rows) beta(%beta : !rows) initial_state(%initial_state : !state)
      sequences(%sequences : tensor<?xi32>) causal -> !q, !state
  return %0#0, %0#1 : !q, !state
}
