// REQUIRES: ptxas
// RUN: timeout 40 attn-compile %s --target=sm_90a -o %t.so --fail-on-spills

// Thousands of additions take LLVM's straight-line strength reduction minutes: these
// rounds took 112 seconds with it and take one without.

!q = tensor<2x4x1024x64xbf16>
func.func @rounds(%q: !q, %k: !q, %v: !q, %seed: tensor<i64>, %offset: tensor<i64>) -> !q {
  %init = tensor.empty() : !q
  %out = attn.attention ins(%q, %k, %v : !q, !q, !q) outs(%init : !q)
      mask(#attn.causal)
      dropout(#attn.dropout<p = 0.3, rng = #attn.threefry<rounds = 64>, bits = 16>, %seed, %offset : tensor<i64>, tensor<i64>) -> !q
  return %out : !q
}
