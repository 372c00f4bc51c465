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

// -----

#all = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
!t = tensor<1x2x64x16xf32>
func.func @position(%q: !t, %k: !t, %v: !t, %out: !t, %e: !t) -> (!t, !t) {
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) -> !t
  // expected-error @below {{'linalg.generic' op must not read its position, which is distributed over ranks in several chunks}}
  %1 = linalg.generic {indexing_maps = [#all, #all],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%0 : !t) outs(%e : !t) {
  ^bb0(%x: f32, %old: f32):
    %i = linalg.index 2 : index
    %n = arith.index_cast %i : index to i32
    %f = arith.sitofp %n : i32 to f32
    %y = arith.mulf %x, %f : f32
    linalg.yield %y : f32
  } -> !t
  return %0, %1 : !t, !t
}
