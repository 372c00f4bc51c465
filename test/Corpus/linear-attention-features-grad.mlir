// The gradient of features elu(x) + 1 with a normalizer, decays and states, whose queries share key heads.
// attn-opt: --attn-differentiate="function=attention mode=combined arguments=0,1,2,3,4"
// attn-opt: --symbol-privatize=exclude=attention_grad
// attn-opt: --symbol-dce
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host
// attn-run: --shape=tokens=150 --fill=log_decay=uniform:-2:0 --fill=initial_state=uniform:0:1

#all = affine_map<(b, h, s, d) -> (b, h, s, d)>
!q = tensor<?x4x?x64xbf16>
!k = tensor<?x2x?x64xbf16>
!rows = tensor<?x4x?xf32>
!state = tensor<?x4x64x65xf32>
func.func @attention(%query: !q, %key: !k, %value: !k, %log_decay: !rows, %initial_state: !state) -> (!q, !state) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %batch = tensor.dim %query, %c0 : !q
  %tokens = tensor.dim %query, %c2 : !q
  %init = tensor.empty(%batch, %tokens) : !q
  %state_init = tensor.empty(%batch) : !state
  %0:2 = attn.linear_attention ins(%query, %key, %value : !q, !k, !k) outs(%init, %state_init : !q, !state)
      log_decay(%log_decay : !rows) initial_state(%initial_state : !state) causal normalizer(eps = 1.0e-3)
      feature {
  ^bb0(%x: tensor<?x?x?x64xbf16>):
    %i0 = arith.constant 0 : index
    %i1 = arith.constant 1 : index
    %i2 = arith.constant 2 : index
    %s0 = tensor.dim %x, %i0 : tensor<?x?x?x64xbf16>
    %s1 = tensor.dim %x, %i1 : tensor<?x?x?x64xbf16>
    %s2 = tensor.dim %x, %i2 : tensor<?x?x?x64xbf16>
    %feature_init = tensor.empty(%s0, %s1, %s2) : tensor<?x?x?x64xbf16>
    %y = linalg.generic {indexing_maps = [#all, #all],
                         iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
        ins(%x : tensor<?x?x?x64xbf16>) outs(%feature_init : tensor<?x?x?x64xbf16>) {
    ^bb1(%given: bf16, %old: bf16):
      %zero = arith.constant 0.0 : f32
      %one = arith.constant 1.0 : f32
      %e = arith.extf %given : bf16 to f32
      %negative = arith.minimumf %e, %zero : f32
      %exp = math.exp %negative : f32
      %sum = arith.addf %e, %one : f32
      %is_positive = arith.cmpf ogt, %e, %zero : f32
      %r = arith.select %is_positive, %sum, %exp : f32
      %rounded = arith.truncf %r : f32 to bf16
      linalg.yield %rounded : bf16
    } -> tensor<?x?x?x64xbf16>
    attn.linear_yield %y : tensor<?x?x?x64xbf16>
  } -> !q, !state
  return %0#0, %0#1 : !q, !state
}
