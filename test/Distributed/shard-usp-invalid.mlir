// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=usp ranks=8 ulysses-degree=4" --verify-diagnostics

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

!t = tensor<1x8x64x16xf32>
func.func @head_map(%q: !t, %k: !t, %v: !t, %out: !t, %heads: tensor<8xi32>) -> !t {
  // expected-error @below {{'attn.attention' op heads cannot be divided with 'head_map'}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) heads(%heads : tensor<8xi32>) -> !t
  return %0 : !t
}

// -----

// Each rank has two of the chunks, of which each group has a run from either end.
!t = tensor<1x4x72x16xf32>
func.func @length(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  // expected-error @below {{'attn.attention' op dimension 2 of 'query' must be a multiple of 16, 2 for each of 8 ranks (was 72)}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x4x?x16xf32>
func.func @dynamic(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  // expected-error @below {{'attn.attention' op dimension 2 of 'query' must be static with 2 chunks for each rank (was dynamic)}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) -> !t
  return %0 : !t
}

// -----

// Words of a keep mask begin in the chunks of groups, of which there are four.
!t = tensor<1x4x96x16xf32>
func.func @words(%q: !t, %k: !t, %v: !t, %out: !t, %seed: i64) -> !t {
  // expected-error @below {{'attn.attention' op with dropout, dimension 2 of 'query' must be a multiple of 64, 16 for each of 4 chunks (was 96)}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t)
      dropout(#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>>, %seed, %seed : i64, i64) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x4x64x16xf32>
func.func @words_fit(%q: !t, %k: !t, %v: !t, %out: !t, %seed: i64) -> !t {
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t)
      dropout(#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>>, %seed, %seed : i64, i64) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x4x64x16xf32>
func.func @linear(%q: !t, %k: !t, %v: !t, %e: !t) -> !t {
  // expected-error @below {{'attn.linear_attention' op cannot be distributed over ranks by 'usp', but by 'allgather' or 'auto'}}
  %0 = attn.linear_attention ins(%q, %k, %v : !t, !t, !t) outs(%e : !t) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x4x64x16xf32>
func.func @padded(%q: !t, %k: !t, %v: !t, %out: !t, %n: tensor<1xi32>) -> !t {
  // expected-error @below {{'attn.attention' op with 'sequences padded' can be distributed over ranks only by 'ulysses'}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t)
      sequences padded(%n, %n : tensor<1xi32>, tensor<1xi32>) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x4x64x16xf32>
func.func @dropout_of_sequences(%q: !t, %k: !t, %v: !t, %out: !t, %cu: tensor<3xi32>, %seed: i64) -> !t {
  // expected-error @below {{'attn.attention' op with 'sequences packed' and 'dropout' can be distributed over ranks only by 'ulysses': the rows of a rank begin anywhere in a sequence, and words of keep masks at multiples of 16 positions in it}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t)
      sequences packed(%cu, %cu : tensor<3xi32>, tensor<3xi32>)
      dropout(#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>>, %seed, %seed : i64, i64) -> !t
  return %0 : !t
}
