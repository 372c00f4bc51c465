// The gradient of local blocks with decays of heads.
// attn-opt: --attn-differentiate="function=attention mode=combined arguments=0,1,2,3"
// attn-opt: --symbol-privatize=exclude=attention_grad
// attn-opt: --symbol-dce
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host
// attn-run: --shape=tokens=150 --fill=log_decay=uniform:-1:0

!q = tensor<?x4x?x64xbf16>
!k = tensor<?x2x?x64xbf16>
func.func @attention(%query: !q, %key: !k, %value: !k, %log_decay: tensor<4xf32>) -> !q {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %batch = tensor.dim %query, %c0 : !q
  %tokens = tensor.dim %query, %c2 : !q
  %init = tensor.empty(%batch, %tokens) : !q
  %0 = attn.linear_attention ins(%query, %key, %value : !q, !k, !k) outs(%init : !q)
      log_decay(%log_decay : tensor<4xf32>) causal local_blocks(40) -> !q
  return %0 : !q
}
