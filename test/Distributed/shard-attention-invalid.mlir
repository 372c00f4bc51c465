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
func.func @padded(%q: !t, %k: !t, %v: !t, %out: !t, %s: tensor<1xi32>) -> !t {
  // expected-error @below {{'attn.attention' op with 'sequences padded' can be distributed over ranks only by 'ulysses'}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t)
      sequences padded(%s, %s : tensor<1xi32>, tensor<1xi32>) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
func.func @packed_queries(%q: !t, %k: !t, %v: !t, %out: !t, %cu: tensor<2xi32>, %s: tensor<1xi32>) -> !t {
  // expected-error @below {{'attn.attention' op cannot be distributed over ranks with 'sequences packed_queries'}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t)
      sequences packed_queries(%cu, %s : tensor<2xi32>, tensor<1xi32>) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
func.func @dropout_of_sequences(%q: !t, %k: !t, %v: !t, %out: !t, %s: tensor<?xi32>, %seed: i64) -> !t {
  // expected-error @below {{'attn.attention' op with 'sequences packed' and 'dropout' can be distributed over ranks only by 'ulysses': the rows of a rank begin anywhere in a sequence, and words of keep masks at multiples of 16 positions in it}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t)
      sequences packed(%s, %s : tensor<?xi32>, tensor<?xi32>)
      dropout(#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>>, %seed, %seed : i64, i64) -> !t
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
!l = tensor<1x2x64xf32>
func.func @state(%q: !t, %k: !t, %v: !t, %out: !t, %l: !l) -> !t {
  // expected-error @below {{'attn.attention' op cannot be distributed over ranks with 'state'}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) state(%q, %l : !t, !l) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
!k = tensor<1x2x128x16xf32>
func.func @identity(%q: !t, %k: !k, %v: !k, %out: !t, %u: tensor<2xf32>) -> !t {
  // expected-error @below {{'attn.attention' op with 'identity' can be distributed over ranks only with as many queries as keys, of static lengths, without 'sequences' and 'heads', and not by 'distattention'}}
  %0 = attn.attention ins(%q, %k, %v : !t, !k, !k) outs(%out : !t) identity(%u : tensor<2xf32>) -> !t
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
!o = tensor<1x2x64x16xf8E5M2>
func.func @out_of_8_bits(%q: !t, %k: !t, %v: !t, %out: !o) -> !o {
  // expected-error @below {{'attn.attention' op cannot be distributed over ranks with 'out of 8 bits'}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !o) -> !o
  return %0 : !o
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
  %c0 = arith.constant 0 : index
  %x = arith.constant 1.0 : f32
  %other = tensor.insert %x into %k[%c0, %c0, %c0, %c0] : !t
  // expected-error @below {{'attn.attention' op 'key' must be an argument of the function or a result of attention, its gradient or linalg to be distributed over ranks (was a result of 'tensor.insert')}}
  %0 = attn.attention ins(%q, %other, %v : !t, !t, !t) outs(%out : !t) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
func.func @nothing(%k: !t, %v: !t, %out: !t) -> !t {
  %q = tensor.empty() : !t
  // expected-error @below {{'attn.attention' op 'query' must be an argument of the function or a result of attention, its gradient or linalg to be distributed over ranks (was a result of 'tensor.empty')}}
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
func.func @other_use(%q: !t, %k: !t, %v: !t, %out: !t) -> (!t, f32) {
  // expected-note @above {{the tensor is defined here}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) -> !t
  %c0 = arith.constant 0 : index
  // expected-error @below {{'tensor.extract' op uses a tensor that is distributed over ranks, which only attention, its gradient and linalg on rows can}}
  %1 = tensor.extract %q[%c0, %c0, %c0, %c0] : !t
  return %0, %1 : !t, f32
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
func.func @length(%q: !t, %k: !t, %v: !t) -> (!t, !t) {
  // expected-note @above {{the tensor is defined here}}
  %c2 = arith.constant 2 : index
  // expected-error @below {{'tensor.dim' op uses a tensor that is distributed over ranks}}
  %n = tensor.dim %q, %c2 : !t
  // Of chunks, and of the whole.
  %e = tensor.empty(%n) : !t
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%e : !t) -> !t
  return %0, %e : !t, !t
}

// -----

!t = tensor<1x2x66x16xf32>
!l = tensor<1x2x66xf32>
func.func @lengths_of_gradient(%q: !t, %k: !t, %v: !t, %out: !t, %lse: !l) -> (!t, !t, !t) {
  // expected-error @below {{'attn.attention_grad' op dimension 2 of 'query' must be a multiple of 4, 1 for each of 4 ranks (was 66)}}
  %0:3 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %out : !t, !t, !t, !t, !l, !t)
      outs(%q, %k, %v : !t, !t, !t) -> !t, !t, !t
  return %0#0, %0#1, %0#2 : !t, !t, !t
}

// -----

!t = tensor<1x2x96x16xf32>
!l = tensor<1x2x96xf32>
func.func @words_of_gradient(%q: !t, %k: !t, %v: !t, %out: !t, %lse: !l, %seed: i64) -> (!t, !t, !t) {
  // expected-error @below {{'attn.attention_grad' op with dropout, dimension 2 of 'query' must be a multiple of 64, 16 for each of 4 chunks (was 96)}}
  %0:3 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %out : !t, !t, !t, !t, !l, !t)
      outs(%q, %k, %v : !t, !t, !t)
      dropout(#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>>, %seed, %seed : i64, i64) -> !t, !t, !t
  return %0#0, %0#1, %0#2 : !t, !t, !t
}

// -----

!t = tensor<1x2x64x16xf32>
!l = tensor<1x2x64xf32>
func.func @source_of_gradient(%q: !t, %k: !t, %v: !t, %out: !t, %lse: !l) -> (!t, !t, !t) {
  %e = tensor.empty() : !l
  // expected-error @below {{'attn.attention_grad' op 'dlse' must be an argument of the function or a result of attention, its gradient or linalg to be distributed over ranks (was a result of 'tensor.empty')}}
  %0:3 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %out, %e : !t, !t, !t, !t, !l, !t, !l)
      outs(%q, %k, %v : !t, !t, !t) -> !t, !t, !t
  return %0#0, %0#1, %0#2 : !t, !t, !t
}

// -----

!t = tensor<1x2x64x16xf32>
!l = tensor<1x2x64xf32>
func.func @sequences_of_gradient(%q: !t, %k: !t, %v: !t, %out: !t, %lse: !l, %s: tensor<1xi32>) -> (!t, !t, !t) {
  // expected-error @below {{'attn.attention_grad' op with 'sequences padded' can be distributed over ranks only by 'ulysses'}}
  %0:3 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %out : !t, !t, !t, !t, !l, !t)
      outs(%q, %k, %v : !t, !t, !t) sequences padded(%s, %s : tensor<1xi32>, tensor<1xi32>) -> !t, !t, !t
  return %0#0, %0#1, %0#2 : !t, !t, !t
}

// -----

!t = tensor<1x2x64x16xf32>
!l = tensor<1x2x64xf32>
!d = tensor<1x2x?x16xf32>
func.func @identity_of_gradient(%q: !t, %k: !d, %v: !d, %out: !t, %lse: !l, %u: tensor<2xf32>) -> (!t, !d, !d) {
  // expected-error @below {{'attn.attention_grad' op with 'identity' can be distributed over ranks only with as many queries as keys, of static lengths, without 'sequences' and 'heads', and not by 'distattention'}}
  %0:3 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %out : !t, !d, !d, !t, !l, !t)
      outs(%q, %k, %v : !t, !d, !d) identity(%u : tensor<2xf32>) -> !t, !d, !d
  return %0#0, %0#1, %0#2 : !t, !d, !d
}

// -----

!t = tensor<1x2x64x16xf32>
!l = tensor<1x2x64xf32>
func.func @nested_gradient(%q: !t, %k: !t, %v: !t, %out: !t, %lse: !l, %c: i1) -> !t {
  %0 = scf.if %c -> !t {
    // expected-error @below {{'attn.attention_grad' op must be in the first block of a function to be distributed over ranks}}
    %1:3 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %out : !t, !t, !t, !t, !l, !t)
        outs(%q, %k, %v : !t, !t, !t) -> !t, !t, !t
    scf.yield %1#0 : !t
  } else {
    scf.yield %out : !t
  }
  return %0 : !t
}

// -----

// A sum over positions in bf16 would be rounded for each rank.
!t = tensor<1x2x64x16xbf16>
!s = tensor<1x2x16xbf16>
func.func @sum_of_bf16(%q: !t, %k: !t, %v: !t, %out: !t) -> (!t, !s) {
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) -> !t
  %zero = arith.constant 0.0 : bf16
  %e = tensor.empty() : !s
  %zeros = linalg.fill ins(%zero : bf16) outs(%e : !s) -> !s
  // expected-error @below {{'linalg.reduce' op result #0 must be a sum in f32 that starts from 0, since it reduces positions, which are distributed over ranks}}
  %sum = linalg.reduce { arith.addf } ins(%0 : !t) outs(%zeros : !s) dimensions = [2]
  return %0, %sum : !t, !s
}

// -----

// Each rank would add the start.
!t = tensor<1x2x64x16xf32>
!s = tensor<1x2x16xf32>
func.func @sum_from_one(%q: !t, %k: !t, %v: !t, %out: !t) -> (!t, !s) {
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) -> !t
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : !s
  %ones = linalg.fill ins(%one : f32) outs(%e : !s) -> !s
  // expected-error @below {{'linalg.reduce' op result #0 must be a sum in f32 that starts from 0, since it reduces positions, which are distributed over ranks}}
  %sum = linalg.reduce { arith.addf } ins(%0 : !t) outs(%ones : !s) dimensions = [2]
  return %0, %sum : !t, !s
}

// -----

!t = tensor<1x2x64x16xf32>
!s = tensor<1x2x16xf32>
func.func @maximum(%q: !t, %k: !t, %v: !t, %out: !t) -> (!t, !s) {
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) -> !t
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : !s
  %zeros = linalg.fill ins(%zero : f32) outs(%e : !s) -> !s
  // expected-error @below {{'linalg.reduce' op result #0 must be a sum in f32 that starts from 0, since it reduces positions, which are distributed over ranks}}
  %largest = linalg.reduce { arith.maximumf } ins(%0 : !t) outs(%zeros : !s) dimensions = [2]
  return %0, %largest : !t, !s
}

// -----

!t = tensor<1x2x64x16xf32>
!r = tensor<1x64x2x16xf32>
func.func @transposed(%q: !t, %k: !t, %v: !t, %out: !t, %e: !r) -> (!t, !r) {
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) -> !t
  // expected-error @below {{'linalg.transpose' op must use positions, which are distributed over ranks, in dimension 2 of operand #1 alone (its indexing map is affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>)}}
  %1 = linalg.transpose ins(%0 : !t) outs(%e : !r) permutation = [0, 2, 1, 3]
  return %0, %1 : !t, !r
}

// -----

#all = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#shifted = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2 + 1, d3)>
!t = tensor<1x2x64x16xf32>
!o = tensor<1x2x60x16xf32>
func.func @shifted(%q: !t, %k: !t, %v: !t, %out: !t, %e: !o) -> (!t, !o) {
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) -> !t
  // expected-error @below {{'linalg.generic' op must have a loop over dimension 2 of operand #0, which is distributed over ranks (its indexing map is affine_map<(d0, d1, d2, d3) -> (d0, d1, d2 + 1, d3)>)}}
  %1 = linalg.generic {indexing_maps = [#shifted, #all],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%0 : !t) outs(%e : !o) {
  ^bb0(%x: f32, %old: f32):
    linalg.yield %x : f32
  } -> !o
  return %0, %1 : !t, !o
}

// -----

!t = tensor<1x2x?x16xf32>
func.func @new_size(%q: !t, %k: !t, %v: !t, %out: !t, %n: index) -> (!t, !t) {
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) -> !t
  %e = tensor.empty(%n) : !t
  // expected-error @below {{'linalg.exp' op size of dimension 2 of operand #1 must be the length of a tensor that is distributed over ranks}}
  %1 = linalg.exp ins(%0 : !t) outs(%e : !t) -> !t
  return %0, %1 : !t, !t
}

// -----

!t = tensor<1x2x64x16xf32>
func.func @source_of_rows(%q: !t, %k: !t, %v: !t, %out: !t, %e: !t) -> (!t, !t) {
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) -> !t
  %c0 = arith.constant 0 : index
  %x = arith.constant 1.0 : f32
  %other = tensor.insert %x into %e[%c0, %c0, %c0, %c0] : !t
  // expected-error @below {{'linalg.add' op 'operand #1' must be an argument of the function or a result of attention, its gradient or linalg to be distributed over ranks (was a result of 'tensor.insert')}}
  %1 = linalg.add ins(%0, %other : !t, !t) outs(%e : !t) -> !t
  return %0, %1 : !t, !t
}

// -----

!t = tensor<1x2x64x16xf32>
func.func @nested_rows(%q: !t, %k: !t, %v: !t, %out: !t, %c: i1) -> (!t, !t) {
  // expected-note @below {{the tensor is defined here}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) -> !t
  %1 = scf.if %c -> !t {
    %e = tensor.empty() : !t
    // expected-error @below {{'linalg.exp' op uses a tensor that is distributed over ranks, which only attention, its gradient and linalg on rows can}}
    %2 = linalg.exp ins(%0 : !t) outs(%e : !t) -> !t
    scf.yield %2 : !t
  } else {
    %e = tensor.empty() : !t
    scf.yield %e : !t
  }
  return %0, %1 : !t, !t
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
