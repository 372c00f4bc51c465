// The gradients of Kimi delta attention of f32, with one tf32 MMA for each matmul.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-run: --fill=decay=uniform:-2:0

!q = tensor<?x2x?x64xf32>
!elements = tensor<?x2x?x64xf32>
!rows = tensor<?x2x?xf32>
func.func @attention(%query: !q, %key: !q, %value: !q, %dout: !q, %decay: !elements, %beta: !rows, %dq: !q, %dk: !q,
                     %dv: !q, %ddecay: !elements, %dbeta: !rows) -> (!q, !q, !q, !elements, !rows) {
  %0:5 = attn.linear_attention_grad ins(%query, %key, %value, %dout : !q, !q, !q, !q) outs(%dq, %dk, %dv : !q, !q, !q)
      log_decay(%decay : !elements) beta(%beta : !rows) dlog_decay(%ddecay : !elements) dbeta(%dbeta : !rows) causal
      precision(high) -> !q, !q, !q, !elements, !rows
  return %0#0, %0#1, %0#2, %0#3, %0#4 : !q, !q, !q, !elements, !rows
}
