// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=zigzag ranks=4" --verify-diagnostics

!t = tensor<1x2x60x16xf32>
func.func @lengths(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  // expected-error @below {{'attn.attention' op dimension 2 of 'query' must be a multiple of 8, 2 for each of 4 ranks (was 60)}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
func.func @words(%q: !t, %k: !t, %v: !t, %out: !t, %seed: i64) -> !t {
  // expected-error @below {{'attn.attention' op with dropout, dimension 2 of 'query' must be a multiple of 128, 16 for each of 8 chunks (was 64)}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t)
      dropout(#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>>, %seed, %seed : i64, i64) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
!k = tensor<1x2x?x16xf32>
func.func @dynamic(%q: !t, %k: !k, %v: !k, %out: !t) -> !t {
  // expected-error @below {{'attn.attention' op dimension 2 of 'key' must be static with 2 chunks for each rank (was dynamic)}}
  %0 = attn.attention ins(%q, %k, %v : !t, !k, !k) outs(%out : !t) -> !t
  return %0 : !t
}
