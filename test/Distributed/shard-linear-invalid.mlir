// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=allgather ranks=4" --verify-diagnostics

!t = tensor<1x2x66x16xf32>
func.func @lengths(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  // expected-error @below {{'attn.linear_attention' op dimension 2 of 'query' must be a multiple of 4, 1 for each of 4 ranks (was 66)}}
  %0 = attn.linear_attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) causal -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x?x16xf32>
!g = tensor<1x2x66xf32>
func.func @lengths_of_decays(%q: !t, %k: !t, %v: !t, %g: !g, %out: !t) -> !t {
  // expected-error @below {{'attn.linear_attention' op dimension 2 of 'log_decay' must be a multiple of 4, 1 for each of 4 ranks (was 66)}}
  %0 = attn.linear_attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) log_decay(%g : !g) causal -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x?x16xf32>
!b = tensor<1x2x66xf32>
func.func @lengths_of_gradient(%q: !t, %k: !t, %v: !t, %dout: !t, %b: !b, %db: !b) -> (!t, !t, !t, !b) {
  // expected-error @below {{'attn.linear_attention_grad' op dimension 2 of 'beta' must be a multiple of 4, 1 for each of 4 ranks (was 66)}}
  %0:4 = attn.linear_attention_grad ins(%q, %k, %v, %dout : !t, !t, !t, !t) outs(%q, %k, %v : !t, !t, !t)
      beta(%b : !b) dbeta(%db : !b) causal -> !t, !t, !t, !b
  return %0#0, %0#1, %0#2, %0#3 : !t, !t, !t, !b
}

// -----

!m = memref<1x2x64x16xf32>
func.func @memrefs(%q: !m, %k: !m, %v: !m, %out: !m) {
  // expected-error @below {{'attn.linear_attention' op must be on tensors to be distributed over ranks}}
  attn.linear_attention ins(%q, %k, %v : !m, !m, !m) outs(%out : !m) causal
  return
}

// -----

!t = tensor<1x2x64x16xf32>
!g = tensor<1x2x64xf32>
func.func @source(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  %g = arith.constant dense<-0.1> : !g
  // expected-error @below {{'attn.linear_attention' op 'log_decay' must be an argument of the function or a result of attention, its gradient or linalg to be distributed over ranks (was a result of 'arith.constant')}}
  %0 = attn.linear_attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) log_decay(%g : !g) causal -> !t
  return %0 : !t
}

// -----

// All ranks have the whole final state.
!t = tensor<1x2x16x16xf32>
func.func @final_state(%q: !t, %k: !t, %v: !t, %out: !t, %state: !t) -> !t {
  %0:2 = attn.linear_attention ins(%q, %k, %v : !t, !t, !t) outs(%out, %state : !t, !t) causal -> !t, !t
  // expected-error @below {{'attn.linear_attention' op 'key' must be an argument of the function or a result of attention, its gradient or linalg to be distributed over ranks (was a result of 'attn.linear_attention')}}
  %1 = attn.linear_attention ins(%q, %0#1, %v : !t, !t, !t) outs(%out : !t) causal -> !t
  return %1 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
func.func @other_use(%q: !t, %k: !t, %v: !t, %out: !t) -> f32 {
  %c0 = arith.constant 0 : index
  // expected-note @below {{the tensor is defined here}}
  %0 = attn.linear_attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) causal -> !t
  // expected-error @below {{'tensor.extract' op uses a tensor that is distributed over ranks, which only attention, its gradient and linalg on rows can}}
  %1 = tensor.extract %0[%c0, %c0, %c0, %c0] : !t
  return %1 : f32
}

// -----

// A tensor is a state of all ranks, or has tokens.
!t = tensor<1x2x16x16xf32>
func.func @state_with_tokens(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  // expected-note @above {{the tensor is defined here}}
  // expected-error @below {{'attn.linear_attention' op uses a tensor that is distributed over ranks}}
  %0 = attn.linear_attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) initial_state(%k : !t) causal -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
func.func @nested(%q: !t, %k: !t, %v: !t, %out: !t, %c: i1) -> !t {
  %0 = scf.if %c -> !t {
    // expected-error @below {{'attn.linear_attention' op must be in the first block of a function to be distributed over ranks}}
    %1 = attn.linear_attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) causal -> !t
    scf.yield %1 : !t
  } else {
    scf.yield %out : !t
  }
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
func.func private @callee(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  %0 = attn.linear_attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) causal -> !t
  return %0 : !t
}
// expected-error @-4 {{'func.func' op must not be called in the module, since its tensors are distributed over ranks}}
func.func @caller(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  %0 = call @callee(%q, %k, %v, %out) : (!t, !t, !t, !t) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
func.func @full_blocks(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  // expected-error @below {{'attn.linear_attention' op with 'local_blocks' and without 'causal' can be distributed over ranks only if each rank has whole blocks: dimension 2 of 'query' must be static and a multiple of 4 * 12 (was 64)}}
  %0 = attn.linear_attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) local_blocks(12) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x?x16xf32>
func.func @full_dynamic_blocks(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  // expected-error @below {{'attn.linear_attention' op with 'local_blocks' and without 'causal' can be distributed over ranks only if each rank has whole blocks: dimension 2 of 'query' must be static and a multiple of 4 * 16 (was dynamic)}}
  %0 = attn.linear_attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) local_blocks(16) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
!h = tensor<1x2x32x16xf32>
func.func @joined_positions(%q: !h, %k: !t, %v: !t, %out: !t) -> !t {
  // expected-error @below {{'tensor.concat' op must leave positions, which are distributed over ranks, as they are in dimension 2}}
  %both = tensor.concat dim(2) %q, %q : (!h, !h) -> !t
  %0 = attn.linear_attention ins(%both, %k, %v : !t, !t, !t) outs(%out : !t) causal -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
func.func @softmax_of_positions(%q: !t, %k: !t, %v: !t, %out: !t, %e: !t) -> !t {
  // expected-error @below {{'linalg.softmax' op must leave positions, which are distributed over ranks, as they are in dimension 2}}
  %softmax = linalg.softmax dimension(2) ins(%q : !t) outs(%e : !t) -> !t
  %0 = attn.linear_attention ins(%softmax, %k, %v : !t, !t, !t) outs(%out : !t) causal -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
!h = tensor<1x2x32x16xf32>
func.func @some_positions(%q: !t, %k: !t, %v: !t, %out: !t) -> (!t, !h) {
  %0 = attn.linear_attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) causal -> !t
  // expected-error @below {{'tensor.extract_slice' op must leave positions, which are distributed over ranks, as they are in dimension 2}}
  %1 = tensor.extract_slice %0[0, 0, 0, 0] [1, 2, 32, 16] [1, 1, 1, 1] : !t to !h
  return %0, %1 : !t, !h
}

// -----

!t = tensor<1x2x?x16xf32>
func.func @some_dynamic_positions(%q: !t, %k: !t, %v: !t, %out: !t, %n: index) -> (!t, !t) {
  %0 = attn.linear_attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) causal -> !t
  // expected-error @below {{'tensor.extract_slice' op must have a slice with the length of a tensor that is distributed over ranks}}
  %1 = tensor.extract_slice %0[0, 0, 0, 0] [1, 2, %n, 16] [1, 1, 1, 1] : !t to !t
  return %0, %1 : !t, !t
}

// -----

!t = tensor<1x2x64x16xf32>
!d = tensor<1x2x?x16xf32>
func.func @shape(%q: !t, %k: !t, %v: !t, %out: !t) -> tensor<2x64x16xf32> {
  // expected-note @below {{the tensor is defined here}}
  %0 = attn.linear_attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) causal -> !t
  // expected-error @below {{'tensor.collapse_shape' op uses a tensor that is distributed over ranks, which only attention, its gradient and linalg on rows can}}
  %1 = tensor.collapse_shape %0 [[0, 1], [2], [3]] : !t into tensor<2x64x16xf32>
  return %1 : tensor<2x64x16xf32>
}

// -----

!t = tensor<1x2x64x16xf32>
!x = tensor<?x?x?x16xf32>
func.func @features_of_whole_blocks(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  %0 = attn.linear_attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) causal local_blocks(8) feature {
  ^bb0(%x: !x):
    // expected-error @below {{'linalg.softmax' op must leave positions, which are distributed over ranks, as they are in dimension 2}}
    %y = linalg.softmax dimension(2) ins(%x : !x) outs(%x : !x) -> !x
    attn.linear_yield %y : !x
  } -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
!s = tensor<2x2x16x16xf32>
func.func @states_of_sequences(%q: !t, %c: tensor<3xi32>, %s: !s) -> !t {
  // expected-error @below {{'attn.linear_attention' op with 'sequences' that have states cannot be distributed over ranks}}
  %0 = attn.linear_attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t) initial_state(%s : !s)
      sequences(%c : tensor<3xi32>) causal -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>
func.func @gradients_of_sequences(%q: !t, %c: tensor<3xi32>) -> (!t, !t, !t) {
  // expected-error @below {{'attn.linear_attention_grad' op with 'sequences' that have states cannot be distributed over ranks}}
  %0:3 = attn.linear_attention_grad ins(%q, %q, %q, %q : !t, !t, !t, !t) outs(%q, %q, %q : !t, !t, !t)
      sequences(%c : tensor<3xi32>) causal -> !t, !t, !t
  return %0#0, %0#1, %0#2 : !t, !t, !t
}
