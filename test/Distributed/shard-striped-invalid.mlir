// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=striped ranks=4" --verify-diagnostics
// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=striped ranks=1" -o /dev/null

!t = tensor<1x2x64x16xf32>
func.func @dropout(%q: !t, %k: !t, %v: !t, %out: !t, %seed: i64) -> !t {
  // expected-error @below {{'attn.attention' op with 'dropout' cannot be distributed over ranks by 'striped', but by 'ring', 'zigzag', 'allgather', 'lightseq', 'ulysses' or 'usp': a word of a keep mask is of neighboring keys, and a rank has none}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t)
      dropout(#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>>, %seed, %seed : i64, i64) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
func.func @sequences(%q: !t, %k: !t, %v: !t, %out: !t, %lengths: tensor<1xi32>) -> !t {
  // expected-error @below {{'attn.attention' op with 'sequences padded' can be distributed over ranks only by 'ulysses'}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t)
      sequences padded(%lengths, %lengths : tensor<1xi32>, tensor<1xi32>) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
!l = tensor<1x2x64xf32>
func.func @gradient(%q: !t, %k: !t, %v: !t, %o: !t, %lse: !l, %seed: i64) -> !t {
  // expected-error @below {{'attn.attention_grad' op with 'dropout' cannot be distributed over ranks by 'striped', but by 'ring', 'zigzag', 'allgather', 'lightseq', 'ulysses' or 'usp': a word of a keep mask is of neighboring keys, and a rank has none}}
  %0:3 = attn.attention_grad ins(%q, %k, %v, %o, %lse, %o : !t, !t, !t, !t, !l, !t) outs(%q, %k, %v : !t, !t, !t)
      dropout(#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>>, %seed, %seed : i64, i64) -> !t, !t, !t
  return %0#0 : !t
}
