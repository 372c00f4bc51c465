// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=distattention ranks=4" --verify-diagnostics

!t = tensor<1x2x64x16xf32>
!l = tensor<1x2x64xf32>
func.func @gradient(%q: !t, %k: !t, %v: !t, %out: !t, %lse: !l, %dout: !t, %dq: !t, %dk: !t, %dv: !t) -> !t {
  // expected-error @below {{'attn.attention_grad' op cannot be distributed over ranks by 'distattention', which is for attention alone}}
  %0:3 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %dout : !t, !t, !t, !t, !l, !t)
      outs(%dq, %dk, %dv : !t, !t, !t) -> !t, !t, !t
  return %0#0 : !t
}

// -----

!q = tensor<1x2x2x16xf32>
!k = tensor<1x2x64x16xf32>
func.func @causal_queries(%q: !q, %k: !k, %v: !k, %out: !q, %lengths: tensor<1xi32>) -> !q {
  // expected-error @below {{'attn.attention' op with 'key_lengths' can be distributed over ranks by 'distattention' only if no mask, region or dropout depends on positions}}
  %0 = attn.attention ins(%q, %k, %v : !q, !k, !k) outs(%out : !q)
      key_lengths(%lengths : tensor<1xi32>) mask(#attn.causal) -> !q
  return %0 : !q
}

// -----

!q = tensor<1x2x1x16xf32>
!k = tensor<8x2x16x16xf32>
func.func @pages(%q: !q, %k: !k, %v: !k, %out: !q, %lengths: tensor<1xi32>, %table: tensor<1x8xi32>) -> !q {
  // expected-error @below {{'attn.attention' op cannot be distributed over ranks with 'page_table'}}
  %0 = attn.attention ins(%q, %k, %v : !q, !k, !k) outs(%out : !q)
      key_lengths(%lengths : tensor<1xi32>) page_table(%table : tensor<1x8xi32>) -> !q
  return %0 : !q
}

// -----

// The queries and the results are whole: their length need not be a multiple.
!q = tensor<1x2x1x16xf32>
!k = tensor<1x2x66x16xf32>
func.func @keys(%q: !q, %k: !k, %v: !k, %out: !q) -> !q {
  // expected-error @below {{'attn.attention' op dimension 2 of 'key' must be a multiple of 4, 1 for each of 4 ranks (was 66)}}
  %0 = attn.attention ins(%q, %k, %v : !q, !k, !k) outs(%out : !q) -> !q
  return %0 : !q
}

// -----

!t = tensor<1x2x64x16xf32>
func.func @identity(%q: !t, %k: !t, %v: !t, %out: !t, %u: tensor<2xf32>) -> !t {
  // expected-error @below {{'attn.attention' op with 'identity' can be distributed over ranks only with as many queries as keys, of static lengths, without 'sequences' and 'heads', and not by 'distattention'}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) identity(%u : tensor<2xf32>) -> !t
  return %0 : !t
}
