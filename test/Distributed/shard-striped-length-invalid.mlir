// RUN: attn-opt %s --attn-shard-attention="method=striped ranks=4" --verify-diagnostics

!t = tensor<1x2x62x16xf32>
func.func @lengths(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  // expected-error @below {{'attn.attention' op dimension 2 of 'query' must be a multiple of 4, 1 for each of 4 ranks (was 62)}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) -> !t
  return %0 : !t
}
