// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=ulysses ranks=4" --verify-diagnostics

!t = tensor<1x6x64x16xf32>
func.func @query_heads(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  // expected-error @below {{'attn.attention' op number of heads of 'query' must be a multiple of 4, the ranks that divide them (was 6)}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x12x64x16xf32>
!k = tensor<1x3x64x16xf32>
func.func @key_heads(%q: !t, %k: !k, %v: !k, %out: !t) -> !t {
  // expected-error @below {{'attn.attention' op number of heads of 'key' must be a multiple or a divisor of 4, the ranks that divide them (was 3)}}
  %0 = attn.attention ins(%q, %k, %v : !t, !k, !k) outs(%out : !t) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x12x64x16xf32>
!k = tensor<1x4x64x16xf32>
!v = tensor<1x6x64x16xf32>
func.func @value_heads(%q: !t, %k: !k, %v: !v, %out: !t) -> !t {
  // expected-error @below {{'attn.attention' op number of heads of 'value' must be a multiple or a divisor of 4, the ranks that divide them (was 6)}}
  %0 = attn.attention ins(%q, %k, %v : !t, !k, !v) outs(%out : !t) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x8x64x16xf32>
!k = tensor<1x4x64x16xf32>
func.func @head_map(%q: !t, %k: !k, %v: !k, %out: !t, %heads: tensor<8xi32>) -> !t {
  // expected-error @below {{'attn.attention' op heads cannot be divided with 'head_map'}}
  %0 = attn.attention ins(%q, %k, %v : !t, !k, !k) outs(%out : !t) heads(%heads : tensor<8xi32>) -> !t
  return %0 : !t
}

// -----

// Keys are not cut, so that no word of a keep mask need begin in a chunk.
!t = tensor<1x4x96x16xf32>
func.func @words(%q: !t, %k: !t, %v: !t, %out: !t, %seed: i64) -> !t {
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t)
      dropout(#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>>, %seed, %seed : i64, i64) -> !t
  return %0 : !t
}
