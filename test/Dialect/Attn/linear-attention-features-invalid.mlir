// RUN: attn-opt %s -split-input-file -verify-diagnostics

!q = tensor<1x2x9x8xf32>
!x = tensor<?x?x?x8xf32>
func.func @argument(%q: !q) -> !q {
  // expected-error @below {{'attn.linear_attention' op feature region must have the argument 'tensor<?x?x?x8xf32>' (was 'tensor<?x?x?x16xf32>')}}
  %r = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) feature {
    ^bb0(%x: tensor<?x?x?x16xf32>):
      attn.linear_yield %x : tensor<?x?x?x16xf32>
    } -> !q
  return %r : !q
}

// -----

!q = tensor<1x2x9x8xf32>
!x = tensor<?x?x?x8xf32>
func.func @terminator(%q: !q) -> !q {
  // expected-error @below {{'attn.linear_attention' op feature region must end with 'attn.linear_yield'}}
  %r = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) feature {
    ^bb0(%x: !x):
      llvm.unreachable
    } -> !q
  return %r : !q
}

// -----

!q = tensor<1x2x9x8xf32>
!x = tensor<?x?x?x8xf32>
func.func @rank(%q: !q) -> !q {
  // expected-error @below {{'attn.linear_attention' op feature region must yield a tensor of 'f32' with four dimensions, of which only the last one is static (was 'tensor<?x?x8xf32>')}}
  %r = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) feature {
    ^bb0(%x: !x):
      %y = tensor.collapse_shape %x [[0, 1], [2], [3]] : !x into tensor<?x?x8xf32>
      attn.linear_yield %y : tensor<?x?x8xf32>
    } -> !q
  return %r : !q
}

// -----

!q = tensor<1x2x9x8xbf16>
!x = tensor<?x?x?x8xbf16>
func.func @element_type(%q: !q, %y: tensor<?x?x?x8xf32>) -> !q {
  // expected-error @below {{feature region must yield a tensor of 'bf16' with four dimensions, of which only the last one is static (was 'tensor<?x?x?x8xf32>')}}
  %r = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) feature {
    ^bb0(%x: !x):
      attn.linear_yield %y : tensor<?x?x?x8xf32>
    } -> !q
  return %r : !q
}

// -----

!q = tensor<1x2x9x8xf32>
!x = tensor<?x?x?x8xf32>
func.func @effects(%q: !q, %m: memref<f32>, %one: f32) -> !q {
  // expected-error @below {{'attn.linear_attention' op feature region must have no side effects}}
  %r = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) feature {
    ^bb0(%x: !x):
      // expected-note @below {{'memref.store' has some}}
      memref.store %one, %m[] : memref<f32>
      attn.linear_yield %x : !x
    } -> !q
  return %r : !q
}

// -----

!q = tensor<1x2x9x8xf32>
!x = tensor<?x?x?x8xf32>
!y = tensor<?x?x?x16xf32>
func.func @state(%q: !q, %s: tensor<1x2x8x8xf32>) -> !q {
  // expected-error @below {{'attn.linear_attention' op dimension 2 of 'initial_state' must be 16 (was 8)}}
  %r = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) initial_state(%s : tensor<1x2x8x8xf32>) feature {
    ^bb0(%x: !x):
      %y = tensor.concat dim(3) %x, %x : (!x, !x) -> !y
      attn.linear_yield %y : !y
    } -> !q
  return %r : !q
}

// -----

!q = tensor<1x2x9x8xf32>
func.func @state_of_normalizer(%q: !q, %s: tensor<1x2x8x8xf32>) -> !q {
  // expected-error @below {{'attn.linear_attention' op dimension 3 of 'initial_state' must be 9 (was 8)}}
  %r = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) initial_state(%s : tensor<1x2x8x8xf32>)
      normalizer(eps = 1.0) -> !q
  return %r : !q
}

// -----

!q = tensor<1x2x9x8xf32>
func.func @eps(%q: !q) -> !q {
  // expected-error @below {{'attn.linear_attention' op 'eps' of 'normalizer' must be finite and at least 0 (was -1)}}
  %r = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) normalizer(eps = -1.0) -> !q
  return %r : !q
}

// -----

!q = tensor<1x2x9x8xf32>
func.func @infinite_eps(%q: !q) -> !q {
  // expected-error @below {{'attn.linear_attention' op 'eps' of 'normalizer' must be finite and at least 0 (was +Inf)}}
  %r = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) normalizer(eps = 0x7F800000) -> !q
  return %r : !q
}

// -----

!q = tensor<1x2x9x8xf32>
func.func @normalizer_of_delta_rule(%q: !q, %b: tensor<1x2x9xf32>) -> !q {
  // expected-error @below {{'attn.linear_attention' op 'normalizer' must not be used together with 'beta'}}
  %r = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) beta(%b : tensor<1x2x9xf32>) causal
      normalizer(eps = 1.0) -> !q
  return %r : !q
}

// -----

!q = tensor<1x2x9x8xf32>
func.func @sequences_without_causal(%q: !q, %c: tensor<?xi32>) -> !q {
  // expected-error @below {{'attn.linear_attention' op 'sequences' needs 'causal'}}
  %r = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) sequences(%c : tensor<?xi32>) -> !q
  return %r : !q
}

// -----

!q = tensor<2x2x9x8xf32>
func.func @sequences_of_batch(%q: !q, %c: tensor<?xi32>) -> !q {
  // expected-error @below {{'attn.linear_attention' op dimension 0 of 'query' must be 1 with 'sequences' (was 2)}}
  %r = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) sequences(%c : tensor<?xi32>) causal -> !q
  return %r : !q
}

// -----

!q = tensor<1x2x9x8xf32>
func.func @no_sequences(%q: !q, %c: tensor<1xi32>) -> !q {
  // expected-error @below {{'attn.linear_attention' op dimension 0 of 'sequences' must be at least 2 (was 1)}}
  %r = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) sequences(%c : tensor<1xi32>) causal -> !q
  return %r : !q
}

// -----

!q = tensor<1x2x9x8xf32>
func.func @sequences_and_lengths(%q: !q, %c: tensor<?xi32>) -> !q {
  // expected-error @below {{'attn.linear_attention' op 'sequences' must not be used together with 'key_lengths'}}
  %r = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) key_lengths(%c : tensor<?xi32>)
      sequences(%c : tensor<?xi32>) causal -> !q
  return %r : !q
}

// -----

!q = tensor<1x2x9x8xf32>
func.func @sequences_and_blocks(%q: !q, %c: tensor<?xi32>) -> !q {
  // expected-error @below {{'attn.linear_attention' op 'sequences' must not be used together with 'local_blocks'}}
  %r = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) sequences(%c : tensor<?xi32>) causal
      local_blocks(4) -> !q
  return %r : !q
}

// -----

!q = tensor<1x2x9x8xf32>
!s = tensor<1x2x8x8xf32>
func.func @initial_states_of_sequences(%q: !q, %c: tensor<3xi32>, %s: !s) -> !q {
  // expected-error @below {{'attn.linear_attention' op dimension 0 of 'initial_state' must be 2 (was 1)}}
  %r = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) initial_state(%s : !s)
      sequences(%c : tensor<3xi32>) causal -> !q
  return %r : !q
}

// -----

!q = tensor<1x2x9x8xf32>
!s = tensor<3x2x8x8xf32>
func.func @final_states_of_sequences(%q: !q, %c: tensor<3xi32>, %s: !s) -> !q {
  // expected-error @below {{'attn.linear_attention' op dimension 0 of 'final_state' must be 2 (was 3)}}
  %r:2 = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q, %s : !q, !s) sequences(%c : tensor<3xi32>) causal
      -> !q, !s
  return %r#0 : !q
}

// -----

!q = tensor<1x2x9x8xf32>
!s = tensor<2x2x8x8xf32>
func.func @states_of_sequences_without_causal(%q: !q, %c: tensor<3xi32>, %s: !s) -> !q {
  // expected-error @below {{'attn.linear_attention' op 'sequences' needs 'causal'}}
  %r = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) initial_state(%s : !s)
      sequences(%c : tensor<3xi32>) -> !q
  return %r : !q
}

// -----

!q = tensor<1x2x9x8xf32>
func.func @whole_chunks_without_states(%q: !q, %c: tensor<3xi32>) -> !q {
  // expected-error @below {{'attn.linear_attention' op 'whole_chunks' needs 'sequences' with states}}
  %r = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) sequences(%c : tensor<3xi32>) whole_chunks
      causal -> !q
  return %r : !q
}

// -----

!m = memref<1x2x9x8xf32>
func.func @sequences_of_memrefs(%q: !m, %c: memref<3xi32>) {
  // expected-error @below {{'attn.linear_attention' op 'sequences' needs tensors (was 'memref<1x2x9x8xf32>')}}
  attn.linear_attention ins(%q, %q, %q : !m, !m, !m) outs(%q : !m) sequences(%c : memref<3xi32>) causal
  return
}

// -----

!q = tensor<1x2x9x8xf32>
!s = tensor<3x2x8x8xf32>
func.func @gradients_of_states_of_sequences(%q: !q, %c: tensor<3xi32>, %s: !s) -> !q {
  // expected-error @below {{'attn.linear_attention_grad' op dimension 0 of 'dfinal_state' must be 2 (was 3)}}
  %r:3 = attn.linear_attention_grad ins(%q, %q, %q, %q : !q, !q, !q, !q) outs(%q, %q, %q : !q, !q, !q)
      dfinal_state(%s : !s) sequences(%c : tensor<3xi32>) causal -> !q, !q, !q
  return %r#0 : !q
}

// -----

!q = tensor<1x2x9x8xf32>
func.func @gradients_of_sequences_without_causal(%q: !q, %c: tensor<3xi32>) -> !q {
  // expected-error @below {{'attn.linear_attention_grad' op 'sequences' needs 'causal'}}
  %r:3 = attn.linear_attention_grad ins(%q, %q, %q, %q : !q, !q, !q, !q) outs(%q, %q, %q : !q, !q, !q)
      sequences(%c : tensor<3xi32>) -> !q, !q, !q
  return %r#0 : !q
}

// -----

!q = tensor<1x2x9x8xf32>
!g = tensor<1x2xf32>
func.func @gradients_of_heads_with_whole_chunks(%q: !q, %c: tensor<3xi32>, %g: tensor<2xf32>, %dg: !g) -> !g {
  // expected-error @below {{'attn.linear_attention_grad' op 'dlog_decay' with 'whole_chunks' must not belong to one log-decay a head}}
  %r:4 = attn.linear_attention_grad ins(%q, %q, %q, %q : !q, !q, !q, !q) outs(%q, %q, %q : !q, !q, !q)
      log_decay(%g : tensor<2xf32>) sequences(%c : tensor<3xi32>) whole_chunks dlog_decay(%dg : !g) causal
      -> !q, !q, !q, !g
  return %r#3 : !g
}

// -----

!q = tensor<1x2x9x8xf32>
!s = tensor<1x2x8x8xf32>
func.func @blocks_and_initial_state(%q: !q, %s: !s) -> !q {
  // expected-error @below {{'attn.linear_attention' op 'local_blocks' must not be used together with 'initial_state'}}
  %r = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) initial_state(%s : !s) local_blocks(4) -> !q
  return %r : !q
}

// -----

!q = tensor<1x2x9x8xf32>
!s = tensor<1x2x8x8xf32>
func.func @blocks_and_final_state(%q: !q, %s: !s) -> !q {
  // expected-error @below {{'attn.linear_attention' op 'local_blocks' must not be used together with 'final_state'}}
  %r:2 = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q, %s : !q, !s) local_blocks(4) -> !q, !s
  return %r#0 : !q
}

// -----

!q = tensor<1x2x9x8xf32>
func.func @empty_blocks(%q: !q) -> !q {
  // expected-error @below {{'attn.linear_attention' op 'local_blocks' must be from 1 to 2147483647 (was 0)}}
  %r = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) local_blocks(0) -> !q
  return %r : !q
}

// -----

!q = tensor<1x2x9x8xf32>
func.func @lengths(%q: !q, %l: tensor<2xi32>) -> !q {
  // expected-error @below {{'attn.linear_attention' op dimension 0 of 'key_lengths' must be 1 (was 2)}}
  %r = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) key_lengths(%l : tensor<2xi32>) -> !q
  return %r : !q
}

// -----

!m = memref<1x2x9x8xf32>
func.func @memrefs(%q: !m) {
  // expected-error @below {{'attn.linear_attention' op 'local_blocks' needs tensors (was 'memref<1x2x9x8xf32>')}}
  attn.linear_attention ins(%q, %q, %q : !m, !m, !m) outs(%q : !m) local_blocks(4)
  return
}

// -----

!m = memref<1x2x9x8xf32>
func.func @normalizer_of_memrefs(%q: !m) {
  // expected-error @below {{'attn.linear_attention' op 'normalizer' needs tensors (was 'memref<1x2x9x8xf32>')}}
  attn.linear_attention ins(%q, %q, %q : !m, !m, !m) outs(%q : !m) normalizer(eps = 1.0)
  return
}

// -----

func.func @parent(%x: tensor<?x?x?x8xf32>) {
  // expected-error @below {{'attn.linear_yield' op expects parent op 'attn.linear_attention'}}
  attn.linear_yield %x : tensor<?x?x?x8xf32>
}
