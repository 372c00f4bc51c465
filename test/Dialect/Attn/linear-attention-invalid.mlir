// RUN: attn-opt %s --split-input-file --verify-diagnostics

func.func @mixed(%q: tensor<1x2x9x8xf32>, %k: memref<1x2x9x8xf32>, %v: tensor<1x2x9x8xf32>, %o: tensor<1x2x9x8xf32>) {
  // expected-error @below {{'attn.linear_attention' op operands must be all tensors or all memrefs, but 'query' is 'tensor<1x2x9x8xf32>' and operand #1 is 'memref<1x2x9x8xf32>'}}
  %r = attn.linear_attention ins(%q, %k, %v : tensor<1x2x9x8xf32>, memref<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%o : tensor<1x2x9x8xf32>) -> tensor<1x2x9x8xf32>
  return
}

// -----

func.func @key_type(%q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xbf16>, %v: tensor<1x2x9x8xf32>, %o: tensor<1x2x9x8xf32>) {
  // expected-error @below {{'attn.linear_attention' op element type of 'key' must be that of 'query', 'f32' (was 'bf16')}}
  %r = attn.linear_attention ins(%q, %k, %v : tensor<1x2x9x8xf32>, tensor<1x2x9x8xbf16>, tensor<1x2x9x8xf32>)
      outs(%o : tensor<1x2x9x8xf32>) -> tensor<1x2x9x8xf32>
  return
}

// -----

func.func @out_type(%q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xf32>, %v: tensor<1x2x9x8xf32>, %o: tensor<1x2x9x8xbf16>) {
  // expected-error @below {{'attn.linear_attention' op element type of 'out' must be that of 'query', 'f32' (was 'bf16')}}
  %r = attn.linear_attention ins(%q, %k, %v : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%o : tensor<1x2x9x8xbf16>) -> tensor<1x2x9x8xbf16>
  return
}

// -----

func.func @dynamic_heads(%q: tensor<1x?x9x8xf32>, %k: tensor<1x2x9x8xf32>, %v: tensor<1x2x9x8xf32>, %o: tensor<1x2x9x8xf32>) {
  // expected-error @below {{'attn.linear_attention' op dimension 1 of 'query' must be static}}
  %r = attn.linear_attention ins(%q, %k, %v : tensor<1x?x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%o : tensor<1x2x9x8xf32>) -> tensor<1x2x9x8xf32>
  return
}

// -----

func.func @no_head_dim(%q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xf32>, %v: tensor<1x2x9x0xf32>, %o: tensor<1x2x9x8xf32>) {
  // expected-error @below {{'attn.linear_attention' op dimension 3 of 'value' must be at least 1 (was 0)}}
  %r = attn.linear_attention ins(%q, %k, %v : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x0xf32>)
      outs(%o : tensor<1x2x9x8xf32>) -> tensor<1x2x9x8xf32>
  return
}

// -----

func.func @key_heads(%q: tensor<1x2x9x8xf32>, %k: tensor<1x3x9x8xf32>, %v: tensor<1x2x9x8xf32>, %o: tensor<1x2x9x8xf32>) {
  // expected-error @below {{'attn.linear_attention' op dimension 1 of 'key' must divide that of 'query', 2 (was 3)}}
  %r = attn.linear_attention ins(%q, %k, %v : tensor<1x2x9x8xf32>, tensor<1x3x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%o : tensor<1x2x9x8xf32>) -> tensor<1x2x9x8xf32>
  return
}

// -----

func.func @value_heads(%q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xf32>, %v: tensor<1x4x9x8xf32>, %o: tensor<1x2x9x8xf32>) {
  // expected-error @below {{'attn.linear_attention' op dimension 1 of 'value' must divide that of 'query', 2 (was 4)}}
  %r = attn.linear_attention ins(%q, %k, %v : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x4x9x8xf32>)
      outs(%o : tensor<1x2x9x8xf32>) -> tensor<1x2x9x8xf32>
  return
}

// -----

func.func @batch(%q: tensor<1x2x9x8xf32>, %k: tensor<3x2x9x8xf32>, %v: tensor<1x2x9x8xf32>, %o: tensor<1x2x9x8xf32>) {
  // expected-error @below {{'attn.linear_attention' op dimension 0 of 'key' must be 1 (was 3)}}
  %r = attn.linear_attention ins(%q, %k, %v : tensor<1x2x9x8xf32>, tensor<3x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%o : tensor<1x2x9x8xf32>) -> tensor<1x2x9x8xf32>
  return
}

// -----

func.func @tokens(%q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xf32>, %v: tensor<1x2x7x8xf32>, %o: tensor<1x2x9x8xf32>) {
  // expected-error @below {{'attn.linear_attention' op dimension 2 of 'value' must be 9 (was 7)}}
  %r = attn.linear_attention ins(%q, %k, %v : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x7x8xf32>)
      outs(%o : tensor<1x2x9x8xf32>) -> tensor<1x2x9x8xf32>
  return
}

// -----

func.func @key_head_dim(%q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x16xf32>, %v: tensor<1x2x9x8xf32>, %o: tensor<1x2x9x8xf32>) {
  // expected-error @below {{'attn.linear_attention' op dimension 3 of 'key' must be 8 (was 16)}}
  %r = attn.linear_attention ins(%q, %k, %v : tensor<1x2x9x8xf32>, tensor<1x2x9x16xf32>, tensor<1x2x9x8xf32>)
      outs(%o : tensor<1x2x9x8xf32>) -> tensor<1x2x9x8xf32>
  return
}

// -----

func.func @out_head_dim(%q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xf32>, %v: tensor<1x2x9x8xf32>, %o: tensor<1x2x9x16xf32>) {
  // expected-error @below {{'attn.linear_attention' op dimension 3 of 'out' must be 8 (was 16)}}
  %r = attn.linear_attention ins(%q, %k, %v : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%o : tensor<1x2x9x16xf32>) -> tensor<1x2x9x16xf32>
  return
}

// -----

func.func @decay_heads(%q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xf32>, %v: tensor<1x2x9x8xf32>, %o: tensor<1x2x9x8xf32>, %g: tensor<4xf32>) {
  // expected-error @below {{'attn.linear_attention' op dimension 0 of 'log_decay' must be 2 (was 4)}}
  %r = attn.linear_attention ins(%q, %k, %v : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%o : tensor<1x2x9x8xf32>) log_decay(%g : tensor<4xf32>) causal -> tensor<1x2x9x8xf32>
  return
}

// -----

func.func @decay_tokens(%q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xf32>, %v: tensor<1x2x9x8xf32>, %o: tensor<1x2x9x8xf32>, %g: tensor<1x2x4xf32>) {
  // expected-error @below {{'attn.linear_attention' op dimension 2 of 'log_decay' must be 9 (was 4)}}
  %r = attn.linear_attention ins(%q, %k, %v : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%o : tensor<1x2x9x8xf32>) log_decay(%g : tensor<1x2x4xf32>) causal -> tensor<1x2x9x8xf32>
  return
}

// -----

func.func @decay_elements(%q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xf32>, %v: tensor<1x2x9x8xf32>, %o: tensor<1x2x9x8xf32>, %g: tensor<1x2x9x4xf32>) {
  // expected-error @below {{'attn.linear_attention' op dimension 3 of 'log_decay' must be 8 (was 4)}}
  %r = attn.linear_attention ins(%q, %k, %v : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%o : tensor<1x2x9x8xf32>) log_decay(%g : tensor<1x2x9x4xf32>) causal -> tensor<1x2x9x8xf32>
  return
}

// -----

func.func @decay_type(%q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xf32>, %v: tensor<1x2x9x8xf32>, %o: tensor<1x2x9x8xf32>, %g: tensor<2xbf16>) {
  // expected-error @below {{'attn.linear_attention' op operand #3 must be 1-D, 3-D or 4-D tensor or memref of f32 values, but got 'tensor<2xbf16>'}}
  %r = attn.linear_attention ins(%q, %k, %v : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%o : tensor<1x2x9x8xf32>) log_decay(%g : tensor<2xbf16>) causal -> tensor<1x2x9x8xf32>
  return
}

// -----

func.func @decay_rank(%q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xf32>, %v: tensor<1x2x9x8xf32>, %o: tensor<1x2x9x8xf32>, %g: tensor<1x2xf32>) {
  // expected-error @below {{'attn.linear_attention' op operand #3 must be 1-D, 3-D or 4-D tensor or memref of f32 values, but got 'tensor<1x2xf32>'}}
  %r = attn.linear_attention ins(%q, %k, %v : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%o : tensor<1x2x9x8xf32>) log_decay(%g : tensor<1x2xf32>) causal -> tensor<1x2x9x8xf32>
  return
}

// -----

func.func @beta_shape(%q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xf32>, %v: tensor<1x2x9x8xf32>, %o: tensor<1x2x9x8xf32>, %g: tensor<1x4x9xf32>) {
  // expected-error @below {{'attn.linear_attention' op dimension 1 of 'beta' must be 2 (was 4)}}
  %r = attn.linear_attention ins(%q, %k, %v : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%o : tensor<1x2x9x8xf32>) beta(%g : tensor<1x4x9xf32>) causal -> tensor<1x2x9x8xf32>
  return
}

// -----

func.func @initial_state(%q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xf32>, %v: tensor<1x2x9x8xf32>, %o: tensor<1x2x9x8xf32>, %g: tensor<1x2x9x8xf32>) {
  // expected-error @below {{'attn.linear_attention' op dimension 2 of 'initial_state' must be 8 (was 9)}}
  %r = attn.linear_attention ins(%q, %k, %v : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%o : tensor<1x2x9x8xf32>) initial_state(%g : tensor<1x2x9x8xf32>) -> tensor<1x2x9x8xf32>
  return
}

// -----

func.func @final_state(%q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xf32>, %v: tensor<1x2x9x8xf32>, %o: tensor<1x2x9x8xf32>, %f: tensor<1x2x8x9xf32>) {
  // expected-error @below {{'attn.linear_attention' op dimension 3 of 'final_state' must be 8 (was 9)}}
  %r:2 = attn.linear_attention ins(%q, %k, %v : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%o, %f : tensor<1x2x9x8xf32>, tensor<1x2x8x9xf32>) -> tensor<1x2x9x8xf32>, tensor<1x2x8x9xf32>
  return
}

// -----

func.func @decay_of_all(%q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xf32>, %v: tensor<1x2x9x8xf32>, %o: tensor<1x2x9x8xf32>, %g: tensor<2xf32>) {
  // expected-error @below {{'attn.linear_attention' op 'log_decay' needs 'causal'}}
  %r = attn.linear_attention ins(%q, %k, %v : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%o : tensor<1x2x9x8xf32>) log_decay(%g : tensor<2xf32>) -> tensor<1x2x9x8xf32>
  return
}

// -----

func.func @beta_of_all(%q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xf32>, %v: tensor<1x2x9x8xf32>, %o: tensor<1x2x9x8xf32>, %g: tensor<1x2x9xf32>) {
  // expected-error @below {{'attn.linear_attention' op 'beta' needs 'causal'}}
  %r = attn.linear_attention ins(%q, %k, %v : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%o : tensor<1x2x9x8xf32>) beta(%g : tensor<1x2x9xf32>) -> tensor<1x2x9x8xf32>
  return
}

// -----

func.func @infinite_scale(%q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xf32>, %v: tensor<1x2x9x8xf32>, %o: tensor<1x2x9x8xf32>) {
  // expected-error @below {{'attn.linear_attention' op 'scale' must be finite}}
  %r = attn.linear_attention ins(%q, %k, %v : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%o : tensor<1x2x9x8xf32>) causal scale(0x7F800000) -> tensor<1x2x9x8xf32>
  return
}

// -----

func.func @small_chunk(%q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xf32>, %v: tensor<1x2x9x8xf32>, %o: tensor<1x2x9x8xf32>) {
  // expected-error @below {{'attn.linear_attention' op 'chunk' must be a power of two from 8 to 256 (was 4)}}
  %r = attn.linear_attention ins(%q, %k, %v : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%o : tensor<1x2x9x8xf32>) causal chunk(4) -> tensor<1x2x9x8xf32>
  return
}

// -----

func.func @large_chunk(%q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xf32>, %v: tensor<1x2x9x8xf32>, %o: tensor<1x2x9x8xf32>) {
  // expected-error @below {{'attn.linear_attention' op 'chunk' must be a power of two from 8 to 256 (was 512)}}
  %r = attn.linear_attention ins(%q, %k, %v : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%o : tensor<1x2x9x8xf32>) causal chunk(512) -> tensor<1x2x9x8xf32>
  return
}

// -----

func.func @odd_chunk(%q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xf32>, %v: tensor<1x2x9x8xf32>, %o: tensor<1x2x9x8xf32>) {
  // expected-error @below {{'attn.linear_attention' op 'chunk' must be a power of two from 8 to 256 (was 48)}}
  %r = attn.linear_attention ins(%q, %k, %v : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%o : tensor<1x2x9x8xf32>) causal chunk(48) -> tensor<1x2x9x8xf32>
  return
}

// -----

func.func @grad_of_no_decay(%q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xf32>, %v: tensor<1x2x9x8xf32>,
    %dout: tensor<1x2x9x8xf32>, %dq: tensor<1x2x9x8xf32>, %dk: tensor<1x2x9x8xf32>, %dv: tensor<1x2x9x8xf32>,
    %g: tensor<1x2xf32>) {
  // expected-error @below {{'attn.linear_attention_grad' op 'dlog_decay' needs 'log_decay'}}
  %r:4 = attn.linear_attention_grad
      ins(%q, %k, %v, %dout : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%dq, %dk, %dv : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      dlog_decay(%g : tensor<1x2xf32>) causal -> tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2xf32>
  return
}

// -----

func.func @grad_of_no_beta(%q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xf32>, %v: tensor<1x2x9x8xf32>,
    %dout: tensor<1x2x9x8xf32>, %dq: tensor<1x2x9x8xf32>, %dk: tensor<1x2x9x8xf32>, %dv: tensor<1x2x9x8xf32>,
    %g: tensor<1x2x9xf32>) {
  // expected-error @below {{'attn.linear_attention_grad' op 'dbeta' needs 'beta'}}
  %r:4 = attn.linear_attention_grad
      ins(%q, %k, %v, %dout : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%dq, %dk, %dv : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      dbeta(%g : tensor<1x2x9xf32>) causal -> tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9xf32>
  return
}

// -----

func.func @grad_of_no_state(%q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xf32>, %v: tensor<1x2x9x8xf32>,
    %dout: tensor<1x2x9x8xf32>, %dq: tensor<1x2x9x8xf32>, %dk: tensor<1x2x9x8xf32>, %dv: tensor<1x2x9x8xf32>,
    %g: tensor<1x2x8x8xf32>) {
  // expected-error @below {{'attn.linear_attention_grad' op 'dinitial_state' needs 'initial_state'}}
  %r:4 = attn.linear_attention_grad
      ins(%q, %k, %v, %dout : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%dq, %dk, %dv : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      dinitial_state(%g : tensor<1x2x8x8xf32>) causal -> tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x8x8xf32>
  return
}

// -----

func.func @grad_type(%q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xf32>, %v: tensor<1x2x9x8xf32>,
    %dout: tensor<1x2x9x8xf32>, %dq: tensor<1x2x9x8xf32>, %dk: tensor<1x2x9x8xbf16>, %dv: tensor<1x2x9x8xf32>) {
  // expected-error @below {{'attn.linear_attention_grad' op element type of 'dkey' must be that of 'query', 'f32', or 'f32' (was 'bf16')}}
  %r:3 = attn.linear_attention_grad
      ins(%q, %k, %v, %dout : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%dq, %dk, %dv : tensor<1x2x9x8xf32>, tensor<1x2x9x8xbf16>, tensor<1x2x9x8xf32>)
      causal -> tensor<1x2x9x8xf32>, tensor<1x2x9x8xbf16>, tensor<1x2x9x8xf32>
  return
}

// -----

func.func @dout_type(%q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xf32>, %v: tensor<1x2x9x8xf32>,
    %dout: tensor<1x2x9x8xbf16>, %dq: tensor<1x2x9x8xf32>, %dk: tensor<1x2x9x8xf32>, %dv: tensor<1x2x9x8xf32>) {
  // expected-error @below {{'attn.linear_attention_grad' op element type of 'dout' must be that of 'query', 'f32' (was 'bf16')}}
  %r:3 = attn.linear_attention_grad
      ins(%q, %k, %v, %dout : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xbf16>)
      outs(%dq, %dk, %dv : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      causal -> tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>
  return
}

// -----

func.func @grad_heads(%q: tensor<1x2x9x8xf32>, %k: tensor<1x1x9x8xf32>, %v: tensor<1x2x9x8xf32>,
    %dout: tensor<1x2x9x8xf32>, %dq: tensor<1x2x9x8xf32>, %dk: tensor<1x2x9x8xf32>, %dv: tensor<1x2x9x8xf32>) {
  // expected-error @below {{'attn.linear_attention_grad' op dimension 1 of 'key' must be 2 (was 1)}}
  %r:3 = attn.linear_attention_grad
      ins(%q, %k, %v, %dout : tensor<1x2x9x8xf32>, tensor<1x1x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%dq, %dk, %dv : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      causal -> tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>
  return
}

// -----

func.func @grad_head_dim(%q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xf32>, %v: tensor<1x2x9x8xf32>,
    %dout: tensor<1x2x9x16xf32>, %dq: tensor<1x2x9x8xf32>, %dk: tensor<1x2x9x8xf32>, %dv: tensor<1x2x9x8xf32>) {
  // expected-error @below {{'attn.linear_attention_grad' op dimension 3 of 'dout' must be 8 (was 16)}}
  %r:3 = attn.linear_attention_grad
      ins(%q, %k, %v, %dout : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x16xf32>)
      outs(%dq, %dk, %dv : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      causal -> tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>
  return
}

// -----

func.func @grad_decay_rank(%q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xf32>, %v: tensor<1x2x9x8xf32>,
    %dout: tensor<1x2x9x8xf32>, %dq: tensor<1x2x9x8xf32>, %dk: tensor<1x2x9x8xf32>, %dv: tensor<1x2x9x8xf32>,
    %g: tensor<2xf32>, %d: tensor<1x2x9xf32>) {
  // expected-error @below {{'attn.linear_attention_grad' op 'dlog_decay' must have 2 dimensions (was 3)}}
  %r:4 = attn.linear_attention_grad
      ins(%q, %k, %v, %dout : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%dq, %dk, %dv : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      log_decay(%g : tensor<2xf32>) dlog_decay(%d : tensor<1x2x9xf32>) causal -> tensor<1x2x9x8xf32>,
          tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9xf32>
  return
}

// -----

func.func @grad_decay_shape(%q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xf32>, %v: tensor<1x2x9x8xf32>,
    %dout: tensor<1x2x9x8xf32>, %dq: tensor<1x2x9x8xf32>, %dk: tensor<1x2x9x8xf32>, %dv: tensor<1x2x9x8xf32>,
    %g: tensor<2xf32>, %d: tensor<1x4xf32>) {
  // expected-error @below {{'attn.linear_attention_grad' op dimension 1 of 'dlog_decay' must be 2 (was 4)}}
  %r:4 = attn.linear_attention_grad
      ins(%q, %k, %v, %dout : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%dq, %dk, %dv : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      log_decay(%g : tensor<2xf32>) dlog_decay(%d : tensor<1x4xf32>) causal -> tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x4xf32>
  return
}

// -----

func.func @grad_beta_shape(%q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xf32>, %v: tensor<1x2x9x8xf32>,
    %dout: tensor<1x2x9x8xf32>, %dq: tensor<1x2x9x8xf32>, %dk: tensor<1x2x9x8xf32>, %dv: tensor<1x2x9x8xf32>,
    %g: tensor<1x2x9xf32>, %d: tensor<1x2x4xf32>) {
  // expected-error @below {{'attn.linear_attention_grad' op dimension 2 of 'dbeta' must be 9 (was 4)}}
  %r:4 = attn.linear_attention_grad
      ins(%q, %k, %v, %dout : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%dq, %dk, %dv : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      beta(%g : tensor<1x2x9xf32>) dbeta(%d : tensor<1x2x4xf32>) causal -> tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x4xf32>
  return
}

// -----

func.func @grad_final_state(%q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xf32>, %v: tensor<1x2x9x8xf32>,
    %dout: tensor<1x2x9x8xf32>, %dq: tensor<1x2x9x8xf32>, %dk: tensor<1x2x9x8xf32>, %dv: tensor<1x2x9x8xf32>,
    %g: tensor<1x2x8x4xf32>) {
  // expected-error @below {{'attn.linear_attention_grad' op dimension 3 of 'dfinal_state' must be 8 (was 4)}}
  %r:3 = attn.linear_attention_grad
      ins(%q, %k, %v, %dout : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%dq, %dk, %dv : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      dfinal_state(%g : tensor<1x2x8x4xf32>) causal -> tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>
  return
}

// -----

func.func @grad_initial_state(%q: tensor<1x2x9x8xf32>, %k: tensor<1x2x9x8xf32>, %v: tensor<1x2x9x8xf32>,
    %dout: tensor<1x2x9x8xf32>, %dq: tensor<1x2x9x8xf32>, %dk: tensor<1x2x9x8xf32>, %dv: tensor<1x2x9x8xf32>,
    %g: tensor<1x2x8x8xf32>, %d: tensor<1x2x8x4xf32>) {
  // expected-error @below {{'attn.linear_attention_grad' op dimension 3 of 'dinitial_state' must be 8 (was 4)}}
  %r:4 = attn.linear_attention_grad
      ins(%q, %k, %v, %dout : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%dq, %dk, %dv : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      initial_state(%g : tensor<1x2x8x8xf32>) dinitial_state(%d : tensor<1x2x8x4xf32>) causal -> tensor<1x2x9x8xf32>,
          tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x8x4xf32>
  return
}
