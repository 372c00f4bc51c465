// RUN: attn-opt %s --split-input-file --verify-diagnostics

func.func @rank_of_q(%q: tensor<2xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op operand #0 must be 4-D tensor or memref of bf16, f16, f32, f8E4M3FN or f8E5M2 values, but got 'tensor<2xf32>'}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @rank_of_k(%q: tensor<2x4x8x16xf32>, %k: tensor<2xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op operand #1 must be 4-D tensor or memref of bf16, f16, f32, f8E4M3FN or f8E5M2 values, but got 'tensor<2xf32>'}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>, tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @rank_of_v(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op operand #2 must be 4-D tensor or memref of bf16, f16, f32, f8E4M3FN or f8E5M2 values, but got 'tensor<2xf32>'}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>, tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @rank_of_o(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op operand #3 must be 4-D tensor or memref of bf16, f16 or f32 values, but got 'tensor<2xf32>'}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @rank_of_lse(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf16>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op operand #4 must be 3-D tensor or memref of f32 values, but got 'tensor<2x4x8xf16>'}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf16>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @type_of_dout(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xi8>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op operand #5 must be 4-D tensor or memref of bf16, f16, f32, f8E4M3FN or f8E5M2 values, but got 'tensor<2x4x8x64xi8>'}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xi8>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @type_of_dlse(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dlse: tensor<2x4xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op operand #6 must be 3-D tensor or memref of f32 values, but got 'tensor<2x4xf32>'}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do, %dlse : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>, tensor<2x4xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @rank_of_dq(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op operand #6 must be 4-D tensor or memref of bf16, f16 or f32 values, but got 'tensor<2xf32>'}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @rank_of_dk(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op operand #7 must be 4-D tensor or memref of bf16, f16 or f32 values, but got 'tensor<2xf32>'}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @rank_of_dv(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2xf32>) {
  // expected-error @below {{'attn.attention_grad' op operand #8 must be 4-D tensor or memref of bf16, f16 or f32 values, but got 'tensor<2xf32>'}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2xf32>
  return
}

// -----

func.func @type_of_capture(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>, %c: tensor<8xbf16>) {
  // expected-error @below {{'attn.attention_grad' op operand #9 must be variadic of ranked tensor or memref of f32 values, but got 'tensor<8xbf16>'}}
  %r:4 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv, %c : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<8xbf16>)
      score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index, %g: tensor<8xbf16>):
        
        attn.yield %ds : f32
      } -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<8xbf16>
  return
}

// -----

func.func @memref_k(%q: tensor<2x4x8x16xf32>, %k: memref<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{operands must be all tensors or all memrefs, but 'query' is 'tensor<2x4x8x16xf32>' and 'key' is 'memref<2x2x32x16xf32>'}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, memref<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @memref_o(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: memref<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{operands must be all tensors or all memrefs, but 'query' is 'tensor<2x4x8x16xf32>' and 'out' is 'memref<2x4x8x64xf32>'}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, memref<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @memref_lse(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: memref<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{operands must be all tensors or all memrefs, but 'query' is 'tensor<2x4x8x16xf32>' and 'lse' is 'memref<2x4x8xf32>'}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, memref<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @memref_do(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: memref<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{operands must be all tensors or all memrefs, but 'query' is 'tensor<2x4x8x16xf32>' and 'dout' is 'memref<2x4x8x64xf32>'}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          memref<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @memref_dlse(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dlse: memref<2x4x8xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{operands must be all tensors or all memrefs, but 'query' is 'tensor<2x4x8x16xf32>' and 'dlse' is 'memref<2x4x8xf32>'}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do, %dlse : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>, memref<2x4x8xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @element_of_k(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf16>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op element type of 'key' must be that of 'query', 'f32' (was 'f16')}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf16>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @element_of_v(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf16>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op element type of 'value' must be that of 'query', 'f32' (was 'f16')}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf16>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @element_of_o(%q: tensor<2x4x8x16xbf16>, %k: tensor<2x2x32x16xbf16>, %v: tensor<2x2x32x64xbf16>, %o: tensor<2x4x8x64xf16>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xbf16>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op element type of 'out' must be that of 'query', 'bf16', or f32 (was 'f16')}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xbf16>, tensor<2x2x32x16xbf16>, tensor<2x2x32x64xbf16>, tensor<2x4x8x64xf16>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xbf16>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @element_of_dq(%q: tensor<2x4x8x16xbf16>, %k: tensor<2x2x32x16xbf16>, %v: tensor<2x2x32x64xbf16>, %o: tensor<2x4x8x64xbf16>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xbf16>, %dq: tensor<2x4x8x16xf16>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op element type of 'dquery' must be that of 'query', 'bf16', or f32 (was 'f16')}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xbf16>, tensor<2x2x32x16xbf16>, tensor<2x2x32x64xbf16>, tensor<2x4x8x64xbf16>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xbf16>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf16>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf16>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @element_of_dk(%q: tensor<2x4x8x16xbf16>, %k: tensor<2x2x32x16xbf16>, %v: tensor<2x2x32x64xbf16>, %o: tensor<2x4x8x64xbf16>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xbf16>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf16>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op element type of 'dkey' must be that of 'query', 'bf16', or f32 (was 'f16')}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xbf16>, tensor<2x2x32x16xbf16>, tensor<2x2x32x64xbf16>, tensor<2x4x8x64xbf16>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xbf16>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf16>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf16>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @element_of_dv(%q: tensor<2x4x8x16xbf16>, %k: tensor<2x2x32x16xbf16>, %v: tensor<2x2x32x64xbf16>, %o: tensor<2x4x8x64xbf16>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xbf16>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf16>) {
  // expected-error @below {{'attn.attention_grad' op element type of 'dvalue' must be that of 'query', 'bf16', or f32 (was 'f16')}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xbf16>, tensor<2x2x32x16xbf16>, tensor<2x2x32x64xbf16>, tensor<2x4x8x64xbf16>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xbf16>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf16>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf16>
  return
}

// -----

func.func @element_of_dout(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf16>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op element type of 'dout' must be that of 'out', 'f32' (was 'f16')}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf16>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @dim0_of_k_is_query(%q: tensor<2x4x8x16xf32>, %k: tensor<4x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 0 of 'key' must match dimension 0 of 'query', 2 (was 4)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<4x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @dim3_of_k_is_query(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x18xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 3 of 'key' must match dimension 3 of 'query', 16 (was 18)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x18xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @dim0_of_v_is_query(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<4x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 0 of 'value' must match dimension 0 of 'query', 2 (was 4)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<4x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @heads_of_v(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x3x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x3x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op number of heads of 'query' must be a multiple of that of 'value', 3 (was 4)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x3x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x3x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x3x32x64xf32>
  return
}

// -----

func.func @dim2_of_v_is_key(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x34x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 2 of 'value' must match dimension 2 of 'key', 32 (was 34)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x34x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @dim0_of_o_is_query(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<4x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 0 of 'out' must match dimension 0 of 'query', 2 (was 4)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<4x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @dim1_of_o_is_query(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x6x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 1 of 'out' must match dimension 1 of 'query', 4 (was 6)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x6x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @dim2_of_o_is_query(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x10x64xf32>,
    %lse: tensor<2x4x8xf32>, %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 2 of 'out' must match dimension 2 of 'query', 8 (was 10)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x10x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @dim3_of_o_is_value(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x66xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 3 of 'out' must match dimension 3 of 'value', 64 (was 66)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x66xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @dim0_of_lse_is_query(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>,
    %lse: tensor<4x4x8xf32>, %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 0 of 'lse' must match dimension 0 of 'query', 2 (was 4)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<4x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @dim1_of_lse_is_query(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>,
    %lse: tensor<2x6x8xf32>, %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 1 of 'lse' must match dimension 1 of 'query', 4 (was 6)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x6x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @dim2_of_lse_is_query(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>,
    %lse: tensor<2x4x10xf32>, %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 2 of 'lse' must match dimension 2 of 'query', 8 (was 10)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x10xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @dim0_of_do_is_query(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>,
    %lse: tensor<2x4x8xf32>, %do: tensor<4x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 0 of 'dout' must match dimension 0 of 'query', 2 (was 4)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<4x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @dim1_of_do_is_query(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>,
    %lse: tensor<2x4x8xf32>, %do: tensor<2x6x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 1 of 'dout' must match dimension 1 of 'query', 4 (was 6)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x6x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @dim2_of_do_is_query(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>,
    %lse: tensor<2x4x8xf32>, %do: tensor<2x4x10x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 2 of 'dout' must match dimension 2 of 'query', 8 (was 10)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x10x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @dim3_of_do_is_value(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>,
    %lse: tensor<2x4x8xf32>, %do: tensor<2x4x8x66xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 3 of 'dout' must match dimension 3 of 'value', 64 (was 66)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x66xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @dim0_of_dq_is_query(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>,
    %lse: tensor<2x4x8xf32>, %do: tensor<2x4x8x64xf32>, %dq: tensor<4x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 0 of 'dquery' must match dimension 0 of 'query', 2 (was 4)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<4x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<4x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @dim1_of_dq_is_query(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>,
    %lse: tensor<2x4x8xf32>, %do: tensor<2x4x8x64xf32>, %dq: tensor<2x6x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 1 of 'dquery' must match dimension 1 of 'query', 4 (was 6)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x6x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x6x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @dim2_of_dq_is_query(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>,
    %lse: tensor<2x4x8xf32>, %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x10x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 2 of 'dquery' must match dimension 2 of 'query', 8 (was 10)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x10x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x10x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @dim3_of_dq_is_query(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>,
    %lse: tensor<2x4x8xf32>, %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x18xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 3 of 'dquery' must match dimension 3 of 'query', 16 (was 18)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x18xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x18xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @dim0_of_dk_is_query(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>,
    %lse: tensor<2x4x8xf32>, %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<4x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 0 of 'dkey' must match dimension 0 of 'query', 2 (was 4)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<4x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<4x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @dim3_of_dk_is_query(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>,
    %lse: tensor<2x4x8xf32>, %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x18xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 3 of 'dkey' must match dimension 3 of 'query', 16 (was 18)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x18xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x18xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @dim1_of_dk_is_key(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x4x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 1 of 'dkey' must match dimension 1 of 'key', 2 (was 4)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x4x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x4x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @dim2_of_dk_is_key(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x34x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 2 of 'dkey' must match dimension 2 of 'key', 32 (was 34)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x34x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x34x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @dim0_of_dv_is_query(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>,
    %lse: tensor<2x4x8xf32>, %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<4x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 0 of 'dvalue' must match dimension 0 of 'query', 2 (was 4)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<4x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<4x2x32x64xf32>
  return
}

// -----

func.func @dim1_of_dv_is_v(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x4x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 1 of 'dvalue' must match dimension 1 of 'value', 2 (was 4)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x4x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x4x32x64xf32>
  return
}

// -----

func.func @dim2_of_dv_is_key(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x34x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 2 of 'dvalue' must match dimension 2 of 'key', 32 (was 34)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x34x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x34x64xf32>
  return
}

// -----

func.func @dim3_of_dv_is_value(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>,
    %lse: tensor<2x4x8xf32>, %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x66xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 3 of 'dvalue' must match dimension 3 of 'value', 64 (was 66)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x66xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x66xf32>
  return
}

// -----

func.func @dim0_of_dlse(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dlse: tensor<5x4x8xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 0 of 'dlse' must match dimension 0 of 'query', 2 (was 5)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do, %dlse : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>, tensor<5x4x8xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @dim1_of_dlse(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dlse: tensor<2x5x8xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 1 of 'dlse' must match dimension 1 of 'query', 4 (was 5)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do, %dlse : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>, tensor<2x5x8xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @dim2_of_dlse(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dlse: tensor<2x4x5xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 2 of 'dlse' must match dimension 2 of 'query', 8 (was 5)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do, %dlse : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>, tensor<2x4x5xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @static_heads(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x?x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 1 of 'dout' must be static}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x?x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @static_channels(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x?xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 3 of 'dkey' must be static}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x?xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x?xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @no_channels(%q: tensor<2x4x8x0xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x0xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 3 of 'query' must be at least 1 (was 0)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x0xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x0xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x0xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @heads(%q: tensor<2x3x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x3x8x64xf32>, %lse: tensor<2x3x8xf32>,
    %do: tensor<2x3x8x64xf32>, %dq: tensor<2x3x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op number of heads of 'query' must be a multiple of that of 'key', 2 (was 3)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x3x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x3x8x64xf32>, tensor<2x3x8xf32>,
          tensor<2x3x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x3x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x3x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @scale(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op scale must be finite (was +Inf)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      scale(0x7F800000) -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @no_score_grad(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>, %c: tensor<8xf32>) {
  // expected-error @below {{'attn.attention_grad' op with 'dcaptures' must have a score_mod_grad region}}
  %r:4 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv, %c : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<8xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<8xf32>
  return
}

// -----

func.func @too_few_results(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op expected the number of tensor results (2) to be equal to the number of output tensors (3)}}
  %r:2 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>
  return
}

// -----

func.func @score_grad_arguments(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>,
    %lse: tensor<2x4x8xf32>, %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>, %c: tensor<8xf32>) {
  // expected-error-re @below {{score_mod_grad region must have arguments {{.*}} 'tensor<8xf32>' (was 'f32', 'f32', 'index', 'index', 'index', 'index')}}
  %r:4 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv, %c : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<8xf32>)
      score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index):
        
        attn.yield %ds : f32
      } -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<8xf32>
  return
}

// -----

func.func @score_grad_capture_type(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>,
    %lse: tensor<2x4x8xf32>, %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>, %c: tensor<8xf32>) {
  // expected-error-re @below {{region must have arguments {{.*}} 'tensor<8xf32>' (was 'f32', 'f32', 'index', 'index', 'index', 'index', 'tensor<?xf32>')}}
  %r:4 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv, %c : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<8xf32>)
      score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index, %g: tensor<?xf32>):
        
        attn.yield %ds : f32
      } -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<8xf32>
  return
}

// -----

func.func @score_grad_yield(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>, %c: tensor<8xf32>) {
  // expected-error @below {{'attn.attention_grad' op score_mod_grad region must yield 'f32' (was 'index')}}
  %r:4 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv, %c : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<8xf32>)
      score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index, %g: tensor<8xf32>):
        
        attn.yield %i : index
      } -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<8xf32>
  return
}

// -----

func.func @score_grad_store(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>, %c: tensor<8xf32>, %m: memref<?xf32>) {
  // expected-error @below {{'attn.attention_grad' op score_mod_grad region must only compute and read}}
  %r:4 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv, %c : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<8xf32>)
      score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index, %g: tensor<8xf32>):
        // expected-note @below {{'memref.store' has side effects}}
        memref.store %ds, %m[%j] : memref<?xf32>
        attn.yield %ds : f32
      } -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<8xf32>
  return
}

// -----

func.func @destination_read(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>, %c: tensor<8xf32>) {
  // expected-error @below {{'attn.attention_grad' op score_mod_grad region must only compute and read}}
  %r:4 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv, %c : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<8xf32>)
      score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index, %g: tensor<8xf32>):
        // expected-note @below {{'tensor.extract' uses a destination, which only 'attn.accumulate' may}}
        %x = tensor.extract %g[%j] : tensor<8xf32>
        attn.yield %ds : f32
      } -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<8xf32>
  return
}

// -----

func.func @accumulate_elsewhere(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>,
    %lse: tensor<2x4x8xf32>, %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>, %c: tensor<8xf32>,
    %m: memref<?xf32>) {
  // expected-error @below {{'attn.attention_grad' op score_mod_grad region must only compute and read}}
  %r:4 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv, %c : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<8xf32>)
      score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index, %g: tensor<8xf32>):
        // expected-note @below {{'attn.accumulate' must add to a destination that is an argument of its score_mod_grad region}}
        attn.accumulate %ds into %m[%j] : memref<?xf32>
        attn.yield %ds : f32
      } -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<8xf32>
  return
}

// -----

func.func @accumulate_rank(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>, %c: tensor<8xf32>) {
  %r:4 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv, %c : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<8xf32>)
      score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index, %g: tensor<8xf32>):
        // expected-error @below {{'attn.accumulate' op must have as many indices as 'destination' has dimensions, 1 (was 2)}}
        attn.accumulate %ds into %g[%i, %j] : tensor<8xf32>
        attn.yield %ds : f32
      } -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<8xf32>
  return
}

// -----

func.func @accumulate_into_value(%t: tensor<8xf32>, %x: f32, %i: index) {
  // expected-error @below {{'attn.accumulate' op destination must be a memref or an argument of a score_mod_grad region}}
  attn.accumulate %x into %t[%i] : tensor<8xf32>
  return
}

// -----

func.func @score_yield(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>, %c: i1, %x: f32) {
  // expected-error @below {{'attn.attention_grad' op score_mod region must yield 'f32' (was 'i1')}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        attn.yield %c : i1
      } -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @keep_yield(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>, %c: i1, %x: f32) {
  // expected-error @below {{'attn.attention_grad' op mask_mod region must yield 'i1' (was 'f32')}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        attn.yield %x : f32
      } -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @nested(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op score_mod region must only compute and read}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        // expected-note @below {{'attn.attention' is not allowed in a region of attention or of a matmul}}
        %n = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
            outs(%o : tensor<2x4x8x64xf32>) -> tensor<2x4x8x64xf32>
        attn.yield %s : f32
      } -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @sequences_type(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>, %n: tensor<?xi64>) {
  // expected-error @below {{'attn.attention_grad' op operand #9 must be 1-D tensor or memref of i32 values, but got 'tensor<?xi64>'}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      sequences padded(%n, %n : tensor<?xi64>, tensor<?xi64>) -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @sequences_container(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>,
    %lse: tensor<2x4x8xf32>, %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>, %n: memref<2xi32>) {
  // expected-error @below {{operands must be all tensors or all memrefs, but 'query' is 'tensor<2x4x8x16xf32>' and 'query_sequences' is 'memref<2xi32>'}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      sequences padded(%n, %n : memref<2xi32>, memref<2xi32>) -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @sequences_padded(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>, %n: tensor<3xi32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 0 of 'query_sequences' must match dimension 0 of 'query', 2 (was 3)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      sequences padded(%n, %n : tensor<3xi32>, tensor<3xi32>) -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @sequences_packed(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>, %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>, %lse: tensor<2x4x8xf32>,
    %do: tensor<2x4x8x64xf32>, %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x2x32x16xf32>, %dv: tensor<2x2x32x64xf32>, %n: tensor<3xi32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 0 of 'query' must be 1 where sequences are packed (was 2)}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      sequences packed(%n, %n : tensor<3xi32>, tensor<3xi32>) -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return
}

// -----

func.func @wide_key_of_8_bits(%q: tensor<2x4x8x16xf8E4M3FN>, %k: tensor<2x4x8x16xbf16>, %v: tensor<2x4x8x16xf8E4M3FN>,
    %o: tensor<2x4x8x16xbf16>, %lse: tensor<2x4x8xf32>, %do: tensor<2x4x8x16xbf16>,
    %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x4x8x16xf32>, %dv: tensor<2x4x8x16xf32>) {
  // expected-error @below {{'attn.attention_grad' op element type of 'key' must be f8E4M3FN or f8E5M2, as 'query' has 'f8E4M3FN' (was 'bf16')}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf8E4M3FN>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xf8E4M3FN>, tensor<2x4x8x16xbf16>, tensor<2x4x8xf32>,
          tensor<2x4x8x16xbf16>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
  return
}

// -----

func.func @other_value_of_wide_query(%q: tensor<2x4x8x16xbf16>, %k: tensor<2x4x8x16xf8E4M3FN>, %v: tensor<2x4x8x16xf8E5M2>,
    %o: tensor<2x4x8x16xbf16>, %lse: tensor<2x4x8xf32>, %do: tensor<2x4x8x16xbf16>,
    %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x4x8x16xf32>, %dv: tensor<2x4x8x16xf32>) {
  // expected-error @below {{'attn.attention_grad' op element type of 'value' must be that of 'key', 'f8E4M3FN' (was 'f8E5M2')}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xbf16>, tensor<2x4x8x16xf8E4M3FN>, tensor<2x4x8x16xf8E5M2>, tensor<2x4x8x16xbf16>, tensor<2x4x8xf32>,
          tensor<2x4x8x16xbf16>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
  return
}

// -----

func.func @dquery_of_8_bits(%q: tensor<2x4x8x16xf8E4M3FN>, %k: tensor<2x4x8x16xf8E4M3FN>, %v: tensor<2x4x8x16xf8E4M3FN>,
    %o: tensor<2x4x8x16xbf16>, %lse: tensor<2x4x8xf32>, %do: tensor<2x4x8x16xbf16>,
    %dq: tensor<2x4x8x16xf16>, %dk: tensor<2x4x8x16xf32>, %dv: tensor<2x4x8x16xf32>) {
  // expected-error @below {{'attn.attention_grad' op element type of 'dquery' must be that of 'out', 'bf16', or f32 (was 'f16')}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf8E4M3FN>, tensor<2x4x8x16xf8E4M3FN>, tensor<2x4x8x16xf8E4M3FN>, tensor<2x4x8x16xbf16>, tensor<2x4x8xf32>,
          tensor<2x4x8x16xbf16>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf16>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
       -> tensor<2x4x8x16xf16>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
  return
}

// -----

func.func @dkey_of_8_bits(%q: tensor<2x4x8x16xf8E4M3FN>, %k: tensor<2x4x8x16xf8E4M3FN>, %v: tensor<2x4x8x16xf8E4M3FN>,
    %o: tensor<2x4x8x16xbf16>, %lse: tensor<2x4x8xf32>, %do: tensor<2x4x8x16xbf16>,
    %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x4x8x16xf16>, %dv: tensor<2x4x8x16xf32>) {
  // expected-error @below {{'attn.attention_grad' op element type of 'dkey' must be that of 'out', 'bf16', or f32 (was 'f16')}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf8E4M3FN>, tensor<2x4x8x16xf8E4M3FN>, tensor<2x4x8x16xf8E4M3FN>, tensor<2x4x8x16xbf16>, tensor<2x4x8xf32>,
          tensor<2x4x8x16xbf16>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf16>, tensor<2x4x8x16xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x4x8x16xf16>, tensor<2x4x8x16xf32>
  return
}

// -----

func.func @dvalue_of_8_bits(%q: tensor<2x4x8x16xf8E4M3FN>, %k: tensor<2x4x8x16xf8E4M3FN>, %v: tensor<2x4x8x16xf8E4M3FN>,
    %o: tensor<2x4x8x16xf16>, %lse: tensor<2x4x8xf32>, %do: tensor<2x4x8x16xf16>,
    %dq: tensor<2x4x8x16xf16>, %dk: tensor<2x4x8x16xf32>, %dv: tensor<2x4x8x16xbf16>) {
  // expected-error @below {{'attn.attention_grad' op element type of 'dvalue' must be that of 'out', 'f16', or f32 (was 'bf16')}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf8E4M3FN>, tensor<2x4x8x16xf8E4M3FN>, tensor<2x4x8x16xf8E4M3FN>, tensor<2x4x8x16xf16>, tensor<2x4x8xf32>,
          tensor<2x4x8x16xf16>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf16>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xbf16>)
       -> tensor<2x4x8x16xf16>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xbf16>
  return
}

// -----

func.func @dvalue_of_wide_query(%q: tensor<2x4x8x16xf16>, %k: tensor<2x4x8x16xf8E4M3FN>, %v: tensor<2x4x8x16xf8E4M3FN>,
    %o: tensor<2x4x8x16xf16>, %lse: tensor<2x4x8xf32>, %do: tensor<2x4x8x16xf16>,
    %dq: tensor<2x4x8x16xf16>, %dk: tensor<2x4x8x16xf32>, %dv: tensor<2x4x8x16xbf16>) {
  // expected-error @below {{'attn.attention_grad' op element type of 'dvalue' must be that of 'query', 'f16', or f32 (was 'bf16')}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf16>, tensor<2x4x8x16xf8E4M3FN>, tensor<2x4x8x16xf8E4M3FN>, tensor<2x4x8x16xf16>, tensor<2x4x8xf32>,
          tensor<2x4x8x16xf16>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf16>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xbf16>)
       -> tensor<2x4x8x16xf16>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xbf16>
  return
}

// -----

func.func @dout_of_8_bits(%q: tensor<2x4x8x16xf8E4M3FN>, %k: tensor<2x4x8x16xf8E4M3FN>, %v: tensor<2x4x8x16xf8E4M3FN>,
    %o: tensor<2x4x8x16xbf16>, %lse: tensor<2x4x8xf32>, %do: tensor<2x4x8x16xf32>,
    %dq: tensor<2x4x8x16xf32>, %dk: tensor<2x4x8x16xf32>, %dv: tensor<2x4x8x16xf32>) {
  // expected-error @below {{'attn.attention_grad' op element type of 'dout' must be that of 'out', 'bf16', or f8E4M3FN or f8E5M2 (was 'f32')}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xf8E4M3FN>, tensor<2x4x8x16xf8E4M3FN>, tensor<2x4x8x16xf8E4M3FN>, tensor<2x4x8x16xbf16>, tensor<2x4x8xf32>,
          tensor<2x4x8x16xf32>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
       -> tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
  return
}

// -----

func.func @dout_of_8_bits_alone(%q: tensor<2x4x8x16xbf16>, %k: tensor<2x4x8x16xbf16>, %v: tensor<2x4x8x16xbf16>,
    %o: tensor<2x4x8x16xbf16>, %lse: tensor<2x4x8xf32>, %do: tensor<2x4x8x16xf8E5M2>,
    %dq: tensor<2x4x8x16xbf16>, %dk: tensor<2x4x8x16xbf16>, %dv: tensor<2x4x8x16xbf16>) {
  // expected-error @below {{'attn.attention_grad' op element type of 'dout' must be that of 'out', 'bf16' (was 'f8E5M2')}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8xf32>,
          tensor<2x4x8x16xf8E5M2>)
      outs(%dq, %dk, %dv : tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>)
       -> tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>
  return
}
