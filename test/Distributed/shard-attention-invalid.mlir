// RUN: attn-opt %s --split-input-file --attn-shard-attention="ranks=4" --verify-diagnostics

!t = tensor<1x2x66x16xf32>
func.func @lengths(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  // expected-error @below {{'attn.attention' op dimension 2 of 'query' must be a multiple of 4, 1 for each of 4 ranks (was 66)}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
!k = tensor<1x2x50x16xf32>
func.func @key_lengths(%q: !t, %k: !k, %v: !k, %out: !t) -> !t {
  // expected-error @below {{'attn.attention' op dimension 2 of 'key' must be a multiple of 4, 1 for each of 4 ranks (was 50)}}
  %0 = attn.attention ins(%q, %k, %v : !t, !k, !k) outs(%out : !t) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x96x16xf32>
func.func @words(%q: !t, %k: !t, %v: !t, %out: !t, %seed: i64) -> !t {
  // expected-error @below {{'attn.attention' op with dropout, dimension 2 of 'query' must be a multiple of 64, 16 for each of 4 chunks (was 96)}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t)
      dropout(#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>>, %seed, %seed : i64, i64) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
func.func @sequences(%q: !t, %k: !t, %v: !t, %out: !t, %s: tensor<?xi32>) -> !t {
  // expected-error @below {{'attn.attention' op cannot be distributed over ranks with 'sequences'}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t)
      sequences packed(%s, %s : tensor<?xi32>, tensor<?xi32>) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
func.func @lengths_of_keys(%q: !t, %k: !t, %v: !t, %out: !t, %s: tensor<1xi32>) -> !t {
  // expected-error @below {{'attn.attention' op cannot be distributed over ranks with 'key_lengths'}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) key_lengths(%s : tensor<1xi32>) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
func.func @positions(%q: !t, %k: !t, %v: !t, %out: !t, %p: tensor<6xi32>) -> !t {
  // expected-error @below {{'attn.attention' op cannot be distributed over ranks with 'positions'}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) positions(%p : tensor<6xi32>) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
func.func @reads(%q: !t, %k: !t, %v: !t, %out: !t, %ids: tensor<1x64xi32>) -> !t {
  // expected-error @below {{'attn.attention' op cannot be distributed over ranks with 'reads'}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) mask(#attn.documents<queries = 0, keys = 0>)
      reads(%ids : tensor<1x64xi32>) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
func.func @block_mask(%q: !t, %k: !t, %v: !t, %out: !t, %m: tensor<1x1x4x8xi32>) -> !t {
  // expected-error @below {{'attn.attention' op cannot be distributed over ranks with 'block_mask'}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) mask(#attn.causal)
      block_mask(%m : tensor<1x1x4x8xi32>) schedule(#attn_tile.sequential<query_tile = 16, key_tile = 16>) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
func.func @identity(%q: !t, %k: !t, %v: !t, %out: !t, %u: tensor<2xf32>) -> !t {
  // expected-error @below {{'attn.attention' op cannot be distributed over ranks with 'identity'}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) identity(%u : tensor<2xf32>) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
func.func @dropout_mask(%q: !t, %k: !t, %v: !t, %out: !t, %bits: tensor<1x2x32x4xi32>) -> !t {
  // expected-error @below {{'attn.attention' op cannot be distributed over ranks with 'dropout_mask'}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t)
      dropout_mask rows(%bits : tensor<1x2x32x4xi32>) p(0.125) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
func.func @epilogue(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  // expected-error @below {{'attn.attention' op cannot be distributed over ranks with 'epilogue'}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t)
    epilogue {
    ^bb0(%x: f32, %b: index, %h: index, %i: index, %d: index):
      attn.yield %x : f32
    } -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
func.func @query(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  // expected-error @below {{'attn.attention' op cannot be distributed over ranks with 'query'}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t)
    query {
    ^bb0(%x: f32, %square: f32, %b: index, %h: index, %i: index, %d: index):
      attn.yield %x : f32
    } -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
func.func @source(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  %sum = linalg.add ins(%k, %k : !t, !t) outs(%out : !t) -> !t
  // expected-error @below {{'attn.attention' op 'key' must be an argument of the function or a result of 'attn.attention' to be distributed over ranks (was a result of 'linalg.add')}}
  %0 = attn.attention ins(%q, %sum, %v : !t, !t, !t) outs(%out : !t) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
func.func @nothing(%k: !t, %v: !t, %out: !t) -> !t {
  %q = tensor.empty() : !t
  // expected-error @below {{'attn.attention' op 'query' must be an argument of the function or a result of 'attn.attention' to be distributed over ranks (was a result of 'tensor.empty')}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) -> !t
  return %0 : !t
}

// -----

!m = memref<1x2x64x16xf32>
func.func @memrefs(%q: !m, %k: !m, %v: !m, %out: !m) {
  // expected-error @below {{'attn.attention' op must be on tensors to be distributed over ranks}}
  attn.attention ins(%q, %k, %v : !m, !m, !m) outs(%out : !m)
  return
}

// -----

!t = tensor<1x2x64x16xf32>
func.func @other_use(%q: !t, %k: !t, %v: !t, %out: !t, %e: !t) -> (!t, !t) {
  // expected-note @above {{the tensor is defined here}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) -> !t
  // expected-error @below {{'linalg.add' op uses a tensor that is distributed over ranks, which only 'query', 'key', 'value' and destinations of 'attn.attention' can}}
  %1 = linalg.add ins(%q, %q : !t, !t) outs(%e : !t) -> !t
  return %0, %1 : !t, !t
}

// -----

!t = tensor<1x2x64x16xf32>
func.func @captured(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  // expected-note @above {{the tensor is defined here}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t)
    score_mod {
    ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
      // expected-error @below {{'tensor.extract' op uses a tensor that is distributed over ranks}}
      %x = tensor.extract %k[%b, %h, %j, %b] : !t
      %r = arith.addf %s, %x : f32
      attn.yield %r : f32
    } -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x?x16xf32>
func.func @length(%q: !t, %k: !t, %v: !t, %out: !t) -> (!t, tensor<?xf32>) {
  // expected-note @above {{the tensor is defined here}}
  %c2 = arith.constant 2 : index
  // expected-error @below {{'tensor.dim' op uses a tensor that is distributed over ranks}}
  %n = tensor.dim %q, %c2 : !t
  %e = tensor.empty(%n) : tensor<?xf32>
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) -> !t
  return %0, %e : !t, tensor<?xf32>
}

// -----

!t = tensor<1x2x64x16xf32>
!l = tensor<1x2x64xf32>
func.func @gradient(%q: !t, %k: !t, %v: !t, %out: !t, %lse: !l) -> (!t, !t, !t) {
  // expected-error @below {{'attn.attention_grad' op cannot be distributed over ranks: only 'attn.attention' can}}
  %0:3 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %out : !t, !t, !t, !t, !l, !t)
      outs(%q, %k, %v : !t, !t, !t) -> !t, !t, !t
  return %0#0, %0#1, %0#2 : !t, !t, !t
}

// -----

!t = tensor<1x2x64x16xf32>
func.func @nested(%q: !t, %k: !t, %v: !t, %out: !t, %c: i1) -> !t {
  %0 = scf.if %c -> !t {
    // expected-error @below {{'attn.attention' op must be in the first block of a function to be distributed over ranks}}
    %1 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) -> !t
    scf.yield %1 : !t
  } else {
    scf.yield %out : !t
  }
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
// expected-error @below {{'func.func' op must not be called in the module, since its tensors are distributed over ranks}}
func.func private @callee(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) -> !t
  return %0 : !t
}
func.func @caller(%q: !t) -> !t {
  %0 = call @callee(%q, %q, %q, %q) : (!t, !t, !t, !t) -> !t
  return %0 : !t
}
