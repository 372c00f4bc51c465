// RUN: attn-opt %s --split-input-file --verify-diagnostics

func.func @rank_of_query(%q: tensor<2x4x8xf32>,
                         %k: tensor<2x2x32x16xf32>,
                         %v: tensor<2x2x32x64xf32>,
                         %o: tensor<2x4x8x64xf32>) {
  // expected-error @below {{'attn.attention' op operand #0 must be 4-D tensor or memref of bf16, f16, f32, f8E4M3FN or f8E5M2 values, but got 'tensor<2x4x8xf32>'}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      outs(%o : tensor<2x4x8x64xf32>) -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @element_type_of_query(%q: tensor<2x4x8x16xi8>,
                                 %k: tensor<2x2x32x16xf32>,
                                 %v: tensor<2x2x32x64xf32>,
                                 %o: tensor<2x4x8x64xf32>) {
  // expected-error @below {{'attn.attention' op operand #0 must be 4-D tensor or memref of bf16, f16, f32, f8E4M3FN or f8E5M2 values, but got 'tensor<2x4x8x16xi8>'}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xi8>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      outs(%o : tensor<2x4x8x64xf32>) -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @unranked_key(%q: tensor<2x4x8x16xf32>,
                        %k: tensor<*xf32>,
                        %v: tensor<2x2x32x64xf32>,
                        %o: tensor<2x4x8x64xf32>) {
  // expected-error @below {{'attn.attention' op operand #1 must be 4-D tensor or memref of bf16, f16, f32, f8E4M3FN or f8E5M2 values, but got 'tensor<*xf32>'}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<*xf32>, tensor<2x2x32x64xf32>)
      outs(%o : tensor<2x4x8x64xf32>) -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @rank_of_lse(%q: tensor<2x4x8x16xf32>,
                       %k: tensor<2x2x32x16xf32>,
                       %v: tensor<2x2x32x64xf32>,
                       %o: tensor<2x4x8x64xf32>,
                       %l: tensor<2x4x8x1xf32>) {
  // expected-error @below {{'attn.attention' op operand #4 must be 3-D tensor or memref of f32 values, but got 'tensor<2x4x8x1xf32>'}}
  %r:2 = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      outs(%o, %l : tensor<2x4x8x64xf32>, tensor<2x4x8x1xf32>) -> tensor<2x4x8x64xf32>, tensor<2x4x8x1xf32>
  return
}

// -----

func.func @element_type_of_lse(%q: tensor<2x4x8x16xf32>,
                               %k: tensor<2x2x32x16xf32>,
                               %v: tensor<2x2x32x64xf32>,
                               %o: tensor<2x4x8x64xf32>,
                               %l: tensor<2x4x8xf16>) {
  // expected-error @below {{'attn.attention' op operand #4 must be 3-D tensor or memref of f32 values, but got 'tensor<2x4x8xf16>'}}
  %r:2 = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      outs(%o, %l : tensor<2x4x8x64xf32>, tensor<2x4x8xf16>) -> tensor<2x4x8x64xf32>, tensor<2x4x8xf16>
  return
}

// -----

func.func @memref_key(%q: tensor<2x4x8x16xf32>,
                      %k: memref<2x2x32x16xf32>,
                      %v: tensor<2x2x32x64xf32>,
                      %o: tensor<2x4x8x64xf32>) {
  // expected-error @below {{operands must be all tensors or all memrefs, but 'query' is 'tensor<2x4x8x16xf32>' and 'key' is 'memref<2x2x32x16xf32>'}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, memref<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      outs(%o : tensor<2x4x8x64xf32>) -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @tensor_out(%q: memref<2x4x8x16xf32>,
                      %k: memref<2x2x32x16xf32>,
                      %v: memref<2x2x32x64xf32>,
                      %o: tensor<2x4x8x64xf32>) {
  // expected-error @below {{operands must be all tensors or all memrefs, but 'query' is 'memref<2x4x8x16xf32>' and 'out' is 'tensor<2x4x8x64xf32>'}}
  %r = attn.attention ins(%q, %k, %v : memref<2x4x8x16xf32>, memref<2x2x32x16xf32>, memref<2x2x32x64xf32>)
      outs(%o : tensor<2x4x8x64xf32>) -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @element_type_of_key(%q: tensor<2x4x8x16xf32>,
                               %k: tensor<2x2x32x16xf16>,
                               %v: tensor<2x2x32x64xf32>,
                               %o: tensor<2x4x8x64xf32>) {
  // expected-error @below {{'attn.attention' op element type of 'key' must be that of 'query', 'f32' (was 'f16')}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf16>, tensor<2x2x32x64xf32>)
      outs(%o : tensor<2x4x8x64xf32>) -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @element_type_of_value(%q: tensor<2x4x8x16xf32>,
                                 %k: tensor<2x2x32x16xf32>,
                                 %v: tensor<2x2x32x64xbf16>,
                                 %o: tensor<2x4x8x64xf32>) {
  // expected-error @below {{'attn.attention' op element type of 'value' must be that of 'query', 'f32' (was 'bf16')}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xbf16>)
      outs(%o : tensor<2x4x8x64xf32>) -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @wide_value(%q: tensor<2x4x8x16xf8E4M3FN>,
                      %k: tensor<2x4x8x16xf8E5M2>,
                      %v: tensor<2x4x8x16xf16>,
                      %o: tensor<2x4x8x16xf32>) {
  // expected-error @below {{'attn.attention' op element type of 'value' must be f8E4M3FN or f8E5M2, as 'query' has 'f8E4M3FN' (was 'f16')}}
  %0 = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf8E4M3FN>, tensor<2x4x8x16xf8E5M2>, tensor<2x4x8x16xf16>)
      outs(%o : tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @wide_key(%q: tensor<2x4x8x16xf8E4M3FN>,
                    %k: tensor<2x4x8x16xbf16>,
                    %o: tensor<2x4x8x16xf32>) {
  // expected-error @below {{'attn.attention' op element type of 'key' must be f8E4M3FN or f8E5M2, as 'query' has 'f8E4M3FN' (was 'bf16')}}
  %0 = attn.attention ins(%q, %k, %k : tensor<2x4x8x16xf8E4M3FN>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>)
      outs(%o : tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @value_of_the_other_8_bits(%q: tensor<2x4x8x16xbf16>,
                                     %k: tensor<2x4x8x16xf8E4M3FN>,
                                     %v: tensor<2x4x8x16xf8E5M2>,
                                     %o: tensor<2x4x8x16xf32>) {
  // expected-error @below {{'attn.attention' op element type of 'value' must be that of 'key', 'f8E4M3FN' (was 'f8E5M2')}}
  %0 = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xbf16>, tensor<2x4x8x16xf8E4M3FN>, tensor<2x4x8x16xf8E5M2>)
      outs(%o : tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @value_of_8_bits(%q: tensor<2x4x8x16xbf16>,
                           %k: tensor<2x4x8x16xf8E4M3FN>,
                           %v: tensor<2x4x8x16xbf16>,
                           %o: tensor<2x4x8x16xf32>) {
  // expected-error @below {{'attn.attention' op element type of 'value' must be that of 'key', 'f8E4M3FN' (was 'bf16')}}
  %0 = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xbf16>, tensor<2x4x8x16xf8E4M3FN>, tensor<2x4x8x16xbf16>)
      outs(%o : tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @integer_out(%q: tensor<2x4x8x16xbf16>, %o: tensor<2x4x8x16xi8>) {
  // expected-error @below {{'attn.attention' op operand #3 must be 4-D tensor or memref of bf16, f16, f32, f8E4M3FN or f8E5M2 values, but got 'tensor<2x4x8x16xi8>'}}
  %0 = attn.attention ins(%q, %q, %q : tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>)
      outs(%o : tensor<2x4x8x16xi8>) -> tensor<2x4x8x16xi8>
  return
}

// -----

func.func @state_of_8_bits(%q: tensor<2x4x8x16xbf16>, %o: tensor<2x4x8x16xf8E4M3FN>, %lse: tensor<2x4x8xf32>) {
  // expected-error @below {{'attn.attention' op operand #4 must be 4-D tensor or memref of bf16, f16 or f32 values, but got 'tensor<2x4x8x16xf8E4M3FN>'}}
  %0 = attn.attention ins(%q, %q, %q : tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>)
      outs(%o : tensor<2x4x8x16xf8E4M3FN>) state(%o, %lse : tensor<2x4x8x16xf8E4M3FN>, tensor<2x4x8xf32>)
      -> tensor<2x4x8x16xf8E4M3FN>
  return
}

// -----

func.func @element_type_of_out(%q: tensor<2x4x8x16xbf16>,
                               %k: tensor<2x2x32x16xbf16>,
                               %v: tensor<2x2x32x64xbf16>,
                               %o: tensor<2x4x8x64xf16>) {
  // expected-error @below {{'attn.attention' op element type of 'out' must be that of 'query', 'bf16', or f32, f8E4M3FN or f8E5M2 (was 'f16')}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xbf16>, tensor<2x2x32x16xbf16>, tensor<2x2x32x64xbf16>)
      outs(%o : tensor<2x4x8x64xf16>) -> tensor<2x4x8x64xf16>
  return
}

// -----

func.func @dynamic_query_heads(%q: tensor<2x?x8x16xf32>,
                               %k: tensor<2x2x32x16xf32>,
                               %v: tensor<2x2x32x64xf32>,
                               %o: tensor<2x4x8x64xf32>) {
  // expected-error @below {{'attn.attention' op dimension 1 of 'query' must be static}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x?x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      outs(%o : tensor<2x4x8x64xf32>) -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @dynamic_channels_of_value(%q: tensor<2x4x8x16xf32>,
                                     %k: tensor<2x2x32x16xf32>,
                                     %v: tensor<2x2x32x?xf32>,
                                     %o: tensor<2x4x8x64xf32>) {
  // expected-error @below {{'attn.attention' op dimension 3 of 'value' must be static}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x?xf32>)
      outs(%o : tensor<2x4x8x64xf32>) -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @dynamic_heads_of_lse(%q: tensor<2x4x8x16xf32>,
                                %k: tensor<2x2x32x16xf32>,
                                %v: tensor<2x2x32x64xf32>,
                                %o: tensor<2x4x8x64xf32>,
                                %l: tensor<2x?x8xf32>) {
  // expected-error @below {{'attn.attention' op dimension 1 of 'lse' must be static}}
  %r:2 = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      outs(%o, %l : tensor<2x4x8x64xf32>, tensor<2x?x8xf32>) -> tensor<2x4x8x64xf32>, tensor<2x?x8xf32>
  return
}

// -----

func.func @no_key_heads(%q: tensor<2x4x8x16xf32>,
                        %k: tensor<2x0x32x16xf32>,
                        %v: tensor<2x2x32x64xf32>,
                        %o: tensor<2x4x8x64xf32>) {
  // expected-error @below {{'attn.attention' op dimension 1 of 'key' must be at least 1 (was 0)}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x0x32x16xf32>, tensor<2x2x32x64xf32>)
      outs(%o : tensor<2x4x8x64xf32>) -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @no_channels(%q: tensor<2x4x8x0xf32>,
                       %k: tensor<2x2x32x0xf32>,
                       %v: tensor<2x2x32x64xf32>,
                       %o: tensor<2x4x8x64xf32>) {
  // expected-error @below {{'attn.attention' op dimension 3 of 'query' must be at least 1 (was 0)}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x0xf32>, tensor<2x2x32x0xf32>, tensor<2x2x32x64xf32>)
      outs(%o : tensor<2x4x8x64xf32>) -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @batch_of_key(%q: tensor<2x4x8x16xf32>,
                        %k: tensor<3x2x32x16xf32>,
                        %v: tensor<2x2x32x64xf32>,
                        %o: tensor<2x4x8x64xf32>) {
  // expected-error @below {{'attn.attention' op dimension 0 of 'key' must match dimension 0 of 'query', 2 (was 3)}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<3x2x32x16xf32>, tensor<2x2x32x64xf32>)
      outs(%o : tensor<2x4x8x64xf32>) -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @batch_of_value(%q: tensor<2x4x8x16xf32>,
                          %k: tensor<2x2x32x16xf32>,
                          %v: tensor<3x2x32x64xf32>,
                          %o: tensor<2x4x8x64xf32>) {
  // expected-error @below {{'attn.attention' op dimension 0 of 'value' must match dimension 0 of 'query', 2 (was 3)}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<3x2x32x64xf32>)
      outs(%o : tensor<2x4x8x64xf32>) -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @batch_of_out(%q: tensor<2x4x8x16xf32>,
                        %k: tensor<2x2x32x16xf32>,
                        %v: tensor<2x2x32x64xf32>,
                        %o: tensor<3x4x8x64xf32>) {
  // expected-error @below {{'attn.attention' op dimension 0 of 'out' must match dimension 0 of 'query', 2 (was 3)}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      outs(%o : tensor<3x4x8x64xf32>) -> tensor<3x4x8x64xf32>
  return
}

// -----

func.func @batch_of_lse(%q: tensor<2x4x8x16xf32>,
                        %k: tensor<2x2x32x16xf32>,
                        %v: tensor<2x2x32x64xf32>,
                        %o: tensor<2x4x8x64xf32>,
                        %l: tensor<3x4x8xf32>) {
  // expected-error @below {{'attn.attention' op dimension 0 of 'lse' must match dimension 0 of 'query', 2 (was 3)}}
  %r:2 = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      outs(%o, %l : tensor<2x4x8x64xf32>, tensor<3x4x8xf32>) -> tensor<2x4x8x64xf32>, tensor<3x4x8xf32>
  return
}

// -----

func.func @heads_of_value(%q: tensor<2x4x8x16xf32>,
                          %k: tensor<2x2x32x16xf32>,
                          %v: tensor<2x3x32x64xf32>,
                          %o: tensor<2x4x8x64xf32>) {
  // expected-error @below {{'attn.attention' op number of heads of 'query' must be a multiple of that of 'value', 3 (was 4)}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x3x32x64xf32>)
      outs(%o : tensor<2x4x8x64xf32>) -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @heads_of_value_with_map(%q: tensor<2x4x8x16xf32>,
                                   %k: tensor<2x2x32x16xf32>,
                                   %v: tensor<2x4x32x64xf32>,
                                   %m: tensor<4xi32>,
                                   %o: tensor<2x4x8x64xf32>) {
  // expected-error @below {{'attn.attention' op with 'head_map' must have as many heads of 'value' as of 'key', 2 (was 4)}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x4x32x64xf32>)
      outs(%o : tensor<2x4x8x64xf32>) heads(%m : tensor<4xi32>) -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @length_of_value(%q: tensor<2x4x8x16xf32>,
                           %k: tensor<2x2x32x16xf32>,
                           %v: tensor<2x2x31x64xf32>,
                           %o: tensor<2x4x8x64xf32>) {
  // expected-error @below {{'attn.attention' op dimension 2 of 'value' must match dimension 2 of 'key', 32 (was 31)}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x31x64xf32>)
      outs(%o : tensor<2x4x8x64xf32>) -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @channels_of_key(%q: tensor<2x4x8x16xf32>,
                           %k: tensor<2x2x32x64xf32>,
                           %v: tensor<2x2x32x64xf32>,
                           %o: tensor<2x4x8x64xf32>) {
  // expected-error @below {{'attn.attention' op dimension 3 of 'key' must match dimension 3 of 'query', 16 (was 64)}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x64xf32>, tensor<2x2x32x64xf32>)
      outs(%o : tensor<2x4x8x64xf32>) -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @channels_of_out(%q: tensor<2x4x8x16xf32>,
                           %k: tensor<2x2x32x16xf32>,
                           %v: tensor<2x2x32x64xf32>,
                           %o: tensor<2x4x8x16xf32>) {
  // expected-error @below {{'attn.attention' op dimension 3 of 'out' must match dimension 3 of 'value', 64 (was 16)}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      outs(%o : tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @heads_of_out(%q: tensor<2x4x8x16xf32>,
                        %k: tensor<2x2x32x16xf32>,
                        %v: tensor<2x2x32x64xf32>,
                        %o: tensor<2x2x8x64xf32>) {
  // expected-error @below {{'attn.attention' op dimension 1 of 'out' must match dimension 1 of 'query', 4 (was 2)}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      outs(%o : tensor<2x2x8x64xf32>) -> tensor<2x2x8x64xf32>
  return
}

// -----

func.func @length_of_out(%q: tensor<2x4x8x16xf32>,
                         %k: tensor<2x2x32x16xf32>,
                         %v: tensor<2x2x32x64xf32>,
                         %o: tensor<2x4x32x64xf32>) {
  // expected-error @below {{'attn.attention' op dimension 2 of 'out' must match dimension 2 of 'query', 8 (was 32)}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      outs(%o : tensor<2x4x32x64xf32>) -> tensor<2x4x32x64xf32>
  return
}

// -----

func.func @heads_of_lse(%q: tensor<2x4x8x16xf32>,
                        %k: tensor<2x2x32x16xf32>,
                        %v: tensor<2x2x32x64xf32>,
                        %o: tensor<2x4x8x64xf32>,
                        %l: tensor<2x2x8xf32>) {
  // expected-error @below {{'attn.attention' op dimension 1 of 'lse' must match dimension 1 of 'query', 4 (was 2)}}
  %r:2 = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      outs(%o, %l : tensor<2x4x8x64xf32>, tensor<2x2x8xf32>) -> tensor<2x4x8x64xf32>, tensor<2x2x8xf32>
  return
}

// -----

func.func @length_of_lse(%q: tensor<2x4x8x16xf32>,
                         %k: tensor<2x2x32x16xf32>,
                         %v: tensor<2x2x32x64xf32>,
                         %o: tensor<2x4x8x64xf32>,
                         %l: tensor<2x4x32xf32>) {
  // expected-error @below {{'attn.attention' op dimension 2 of 'lse' must match dimension 2 of 'query', 8 (was 32)}}
  %r:2 = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      outs(%o, %l : tensor<2x4x8x64xf32>, tensor<2x4x32xf32>) -> tensor<2x4x8x64xf32>, tensor<2x4x32xf32>
  return
}

// -----

func.func @head_groups(%q: tensor<2x4x8x16xf32>,
                       %k: tensor<2x3x32x16xf32>,
                       %v: tensor<2x3x32x64xf32>,
                       %o: tensor<2x4x8x64xf32>) {
  // expected-error @below {{'attn.attention' op number of heads of 'query' must be a multiple of that of 'key', 3 (was 4)}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x3x32x16xf32>, tensor<2x3x32x64xf32>)
      outs(%o : tensor<2x4x8x64xf32>) -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @infinite_scale(%q: tensor<2x4x8x16xf32>,
                          %k: tensor<2x2x32x16xf32>,
                          %v: tensor<2x2x32x64xf32>,
                          %o: tensor<2x4x8x64xf32>) {
  // expected-error @below {{'attn.attention' op scale must be finite (was +Inf)}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      outs(%o : tensor<2x4x8x64xf32>) scale(0x7F800000) -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @no_result(%q: tensor<2x4x8x16xf32>,
                     %k: tensor<2x2x32x16xf32>,
                     %v: tensor<2x2x32x64xf32>,
                     %o: tensor<2x4x8x64xf32>) {
  // expected-error @below {{'attn.attention' op expected the number of tensor results (0) to be equal to the number of output tensors (1)}}
  attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      outs(%o : tensor<2x4x8x64xf32>)
  return
}

// -----

func.func @result_of_lse(%q: tensor<2x4x8x16xf32>,
                         %k: tensor<2x2x32x16xf32>,
                         %v: tensor<2x2x32x64xf32>,
                         %o: tensor<2x4x8x64xf32>,
                         %l: tensor<2x4x8xf32>) {
  // expected-error @below {{'attn.attention' op expected the number of tensor results (1) to be equal to the number of output tensors (2)}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      outs(%o, %l : tensor<2x4x8x64xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @result_type(%q: tensor<2x4x8x16xf32>,
                       %k: tensor<2x2x32x16xf32>,
                       %v: tensor<2x2x32x64xf32>,
                       %o: tensor<2x4x8x64xf32>) {
  // expected-error @below {{expected type of operand #3 ('tensor<2x4x8x64xf32>') to match type of corresponding result ('tensor<?x4x8x64xf32>')}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      outs(%o : tensor<2x4x8x64xf32>) -> tensor<?x4x8x64xf32>
  return
}

// -----

func.func @result_of_memrefs(%q: memref<2x4x8x16xf32>,
                             %k: memref<2x2x32x16xf32>,
                             %v: memref<2x2x32x64xf32>,
                             %o: memref<2x4x8x64xf32>) {
  // expected-error @below {{'attn.attention' op expected the number of tensor results (1) to be equal to the number of output tensors (0)}}
  %r = attn.attention ins(%q, %k, %v : memref<2x4x8x16xf32>, memref<2x2x32x16xf32>, memref<2x2x32x64xf32>)
      outs(%o : memref<2x4x8x64xf32>) -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @mask_without_interface(%q: tensor<2x4x8x16xf32>,
                                  %k: tensor<2x2x32x16xf32>,
                                  %v: tensor<2x2x32x64xf32>,
                                  %o: tensor<2x4x8x64xf32>) {
  // expected-error @+2 {{custom op 'attn.attention' invalid kind of attribute specified}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      outs(%o : tensor<2x4x8x64xf32>) mask(42 : i32) -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @schedule_without_interface(%q: tensor<2x4x8x16xf32>,
                                      %k: tensor<2x2x32x16xf32>,
                                      %v: tensor<2x2x32x64xf32>,
                                      %o: tensor<2x4x8x64xf32>) {
  // expected-error @+1 {{op attribute 'schedule' failed to satisfy constraint: a schedule, or a choice of schedules}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      outs(%o : tensor<2x4x8x64xf32>) schedule(unit) -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @score_arguments(%q: tensor<2x4x8x16xf32>,
                           %k: tensor<2x2x32x16xf32>,
                           %v: tensor<2x2x32x64xf32>,
                           %o: tensor<2x4x8x64xf32>) {
  // expected-error @below {{'attn.attention' op score_mod region must have arguments 'f32', 'index', 'index', 'index', 'index' (was 'f32', 'index')}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      outs(%o : tensor<2x4x8x64xf32>) score_mod {
      ^bb0(%s: f32, %b: index):
        attn.yield %s : f32
      } -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @score_argument_type(%q: tensor<2x4x8x16xf32>,
                               %k: tensor<2x2x32x16xf32>,
                               %v: tensor<2x2x32x64xf32>,
                               %o: tensor<2x4x8x64xf32>) {
  // expected-error @below {{score_mod region must have arguments 'f32', 'index', 'index', 'index', 'index' (was 'f16', 'index', 'index', 'index', 'index')}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      outs(%o : tensor<2x4x8x64xf32>) score_mod {
      ^bb0(%s: f16, %b: index, %h: index, %i: index, %j: index):
        %e = arith.extf %s : f16 to f32
        attn.yield %e : f32
      } -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @score_yield(%q: tensor<2x4x8x16xf32>,
                       %k: tensor<2x2x32x16xf32>,
                       %v: tensor<2x2x32x64xf32>,
                       %o: tensor<2x4x8x64xf32>) {
  // expected-error @below {{'attn.attention' op score_mod region must yield 'f32' (was 'index')}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      outs(%o : tensor<2x4x8x64xf32>) score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        attn.yield %i : index
      } -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @score_terminator(%q: tensor<2x4x8x16xf32>,
                            %k: tensor<2x2x32x16xf32>,
                            %v: tensor<2x2x32x64xf32>,
                            %o: tensor<2x4x8x64xf32>) {
  // expected-error @below {{'attn.attention' op score_mod region must end with 'attn.yield' (was 'llvm.unreachable')}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      outs(%o : tensor<2x4x8x64xf32>) score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        llvm.unreachable
      } -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @keep_arguments(%q: tensor<2x4x8x16xf32>,
                          %k: tensor<2x2x32x16xf32>,
                          %v: tensor<2x2x32x64xf32>,
                          %o: tensor<2x4x8x64xf32>) {
  // expected-error @below {{mask_mod region must have arguments 'index', 'index', 'index', 'index' (was 'f32', 'index', 'index', 'index', 'index')}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      outs(%o : tensor<2x4x8x64xf32>) mask_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %t = arith.constant true
        attn.yield %t : i1
      } -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @keep_yield(%q: tensor<2x4x8x16xf32>,
                      %k: tensor<2x2x32x16xf32>,
                      %v: tensor<2x2x32x64xf32>,
                      %o: tensor<2x4x8x64xf32>) {
  // expected-error @below {{'attn.attention' op mask_mod region must yield 'i1' (was 'index')}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      outs(%o : tensor<2x4x8x64xf32>) mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        attn.yield %i : index
      } -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @store(%q: tensor<2x4x8x16xf32>,
                 %k: tensor<2x2x32x16xf32>,
                 %v: tensor<2x2x32x64xf32>,
                 %o: tensor<2x4x8x64xf32>,
                 %m: memref<?xf32>) {
  // expected-error @below {{'attn.attention' op score_mod region must only compute and read}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      outs(%o : tensor<2x4x8x64xf32>) score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        // expected-note @below {{'memref.store' has side effects}}
        memref.store %s, %m[%j] : memref<?xf32>
        attn.yield %s : f32
      } -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @allocation(%q: tensor<2x4x8x16xf32>,
                      %k: tensor<2x2x32x16xf32>,
                      %v: tensor<2x2x32x64xf32>,
                      %o: tensor<2x4x8x64xf32>) {
  // expected-error @below {{'attn.attention' op mask_mod region must only compute and read}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      outs(%o : tensor<2x4x8x64xf32>) mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        // expected-note @below {{'memref.alloc' has side effects}}
        %a = memref.alloc() : memref<i1>
        %t = memref.load %a[] : memref<i1>
        attn.yield %t : i1
      } -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func private @f(f32) -> f32

func.func @call(%q: tensor<2x4x8x16xf32>,
                %k: tensor<2x2x32x16xf32>,
                %v: tensor<2x2x32x64xf32>,
                %o: tensor<2x4x8x64xf32>) {
  // expected-error @below {{'attn.attention' op score_mod region must only compute and read}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      outs(%o : tensor<2x4x8x64xf32>) score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        // expected-note @below {{'func.call' has unknown side effects}}
        %t = func.call @f(%s) : (f32) -> f32
        attn.yield %t : f32
      } -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @nested_store(%q: tensor<2x4x8x16xf32>,
                        %k: tensor<2x2x32x16xf32>,
                        %v: tensor<2x2x32x64xf32>,
                        %o: tensor<2x4x8x64xf32>,
                        %m: memref<?xf32>) {
  // expected-error @below {{'attn.attention' op score_mod region must only compute and read}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      outs(%o : tensor<2x4x8x64xf32>) score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %t = arith.cmpi sle, %j, %i : index
        scf.if %t {
        // expected-note @below {{'memref.store' has side effects}}
          memref.store %s, %m[%j] : memref<?xf32>
        }
        attn.yield %s : f32
      } -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @nested_attention(%q: tensor<2x4x8x16xf32>,
                            %k: tensor<2x2x32x16xf32>,
                            %v: tensor<2x2x32x64xf32>,
                            %o: tensor<2x4x8x64xf32>) {
  // expected-error @below {{'attn.attention' op score_mod region must only compute and read}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
      outs(%o : tensor<2x4x8x64xf32>) score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        // expected-note @below {{'attn.attention' is not allowed in a region of attention or of a matmul}}
        %n = attn.attention ins(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>)
            outs(%o : tensor<2x4x8x64xf32>) -> tensor<2x4x8x64xf32>
        attn.yield %s : f32
      } -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @read_of_out(%q: memref<2x4x8x16xf32>,
                       %k: memref<2x2x32x16xf32>,
                       %v: memref<2x2x32x64xf32>,
                       %o: memref<2x4x8x64xf32>) {
  // expected-error @below {{'attn.attention' op score_mod region must only compute and read}}
  attn.attention ins(%q, %k, %v : memref<2x4x8x16xf32>, memref<2x2x32x16xf32>, memref<2x2x32x64xf32>)
      outs(%o : memref<2x4x8x64xf32>) score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        // expected-note @below {{'memref.load' reads a buffer that the operation writes}}
        %t = memref.load %o[%b, %h, %i, %j] : memref<2x4x8x64xf32>
        attn.yield %t : f32
      }
  return
}

// -----

func.func @yield_outside() {
  %c = arith.constant true
  // expected-error @below {{expects parent op to be one of 'attn.attention, attn.attention_grad, attn.map_heads, attn.matmul, attn.create_block_mask'}}
  attn.yield %c : i1
}

// -----

func.func @empty_block(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>,
                       %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>) {
  // expected-error @below {{'attn.attention' op expects a non-empty block}}
  %r = "attn.attention"(%q, %k, %v, %o) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>}> ({
  ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
  }, {
  }, {
  }, {
  }) : (tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>) -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @two_blocks(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>,
                      %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>) {
  // expected-error @below {{'attn.attention' op expects region #0 to have 0 or 1 blocks}}
  %r = "attn.attention"(%q, %k, %v, %o) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>}> ({
  ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
    cf.br ^bb1
  ^bb1:
    attn.yield %s : f32
  }, {
  }, {
  }, {
  }) : (tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>) -> tensor<2x4x8x64xf32>
  return
}

// -----

func.func @sequences_without_layout(%q: memref<1x4x8x16xf32>, %cu: memref<?xi32>) {
  // expected-error @below {{'attn.attention' op needs all or none of 'sequence_layout', 'query_sequences' and 'key_sequences'}}
  "attn.attention"(%q, %q, %q, %q, %cu, %cu) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0>}> ({}, {}, {}, {})
      : (memref<1x4x8x16xf32>, memref<1x4x8x16xf32>, memref<1x4x8x16xf32>, memref<1x4x8x16xf32>, memref<?xi32>, memref<?xi32>) -> ()
  return
}

// -----

func.func @sequences_of_one_side(%q: memref<1x4x8x16xf32>, %cu: memref<?xi32>) {
  // expected-error @below {{'attn.attention' op needs all or none of 'sequence_layout', 'query_sequences' and 'key_sequences'}}
  "attn.attention"(%q, %q, %q, %q,
      %cu) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>,
             sequence_layout = #attn<sequence_layout packed>}> ({}, {}, {}, {})
      : (memref<1x4x8x16xf32>, memref<1x4x8x16xf32>, memref<1x4x8x16xf32>, memref<1x4x8x16xf32>, memref<?xi32>) -> ()
  return
}

// -----

func.func @sequences_mixed(%q: memref<1x4x8x16xf32>, %o: memref<1x4x8x16xf32>, %cu: tensor<?xi32>) {
  // expected-error @below {{operands must be all tensors or all memrefs, but 'query' is 'memref<1x4x8x16xf32>' and 'query_sequences' is 'tensor<?xi32>'}}
  attn.attention ins(%q, %q, %q : memref<1x4x8x16xf32>, memref<1x4x8x16xf32>, memref<1x4x8x16xf32>)
      outs(%o : memref<1x4x8x16xf32>) sequences packed(%cu, %cu : tensor<?xi32>, tensor<?xi32>)
  return
}

// -----

func.func @sequences_type(%q: memref<1x4x8x16xf32>, %o: memref<1x4x8x16xf32>, %cu: memref<?xi64>) {
  // expected-error @below {{'attn.attention' op operand #4 must be 1-D tensor or memref of i32 values, but got 'memref<?xi64>'}}
  attn.attention ins(%q, %q, %q : memref<1x4x8x16xf32>, memref<1x4x8x16xf32>, memref<1x4x8x16xf32>)
      outs(%o : memref<1x4x8x16xf32>) sequences packed(%cu, %cu : memref<?xi64>, memref<?xi64>)
  return
}

// -----

func.func @sequences_count(%q: memref<1x4x8x16xf32>, %o: memref<1x4x8x16xf32>, %cu: memref<5xi32>, %ck: memref<6xi32>) {
  // expected-error @below {{'attn.attention' op dimension 0 of 'key_sequences' must match dimension 0 of 'query_sequences', 5 (was 6)}}
  attn.attention ins(%q, %q, %q : memref<1x4x8x16xf32>, memref<1x4x8x16xf32>, memref<1x4x8x16xf32>)
      outs(%o : memref<1x4x8x16xf32>) sequences packed(%cu, %ck : memref<5xi32>, memref<6xi32>)
  return
}

// -----

func.func @sequences_padded(%q: memref<3x4x8x16xf32>, %o: memref<3x4x8x16xf32>, %len: memref<4xi32>) {
  // expected-error @below {{'attn.attention' op dimension 0 of 'query_sequences' must match dimension 0 of 'query', 3 (was 4)}}
  attn.attention ins(%q, %q, %q : memref<3x4x8x16xf32>, memref<3x4x8x16xf32>, memref<3x4x8x16xf32>)
      outs(%o : memref<3x4x8x16xf32>) sequences padded(%len, %len : memref<4xi32>, memref<4xi32>)
  return
}

// -----

func.func @sequences_packed_batch(%q: memref<3x4x8x16xf32>, %o: memref<3x4x8x16xf32>, %cu: memref<4xi32>) {
  // expected-error @below {{'attn.attention' op dimension 0 of 'query' must be 1 where sequences are packed (was 3)}}
  attn.attention ins(%q, %q, %q : memref<3x4x8x16xf32>, memref<3x4x8x16xf32>, memref<3x4x8x16xf32>)
      outs(%o : memref<3x4x8x16xf32>) sequences packed(%cu, %cu : memref<4xi32>, memref<4xi32>)
  return
}

// -----

func.func @sequences_packed_dynamic_batch(%q: memref<?x4x8x16xf32>, %o: memref<?x4x8x16xf32>, %cu: memref<4xi32>) {
  // expected-error @below {{'attn.attention' op dimension 0 of 'query' must be 1 where sequences are packed (was ?)}}
  attn.attention ins(%q, %q, %q : memref<?x4x8x16xf32>, memref<?x4x8x16xf32>, memref<?x4x8x16xf32>)
      outs(%o : memref<?x4x8x16xf32>) sequences packed(%cu, %cu : memref<4xi32>, memref<4xi32>)
  return
}

// -----

func.func @sequences_packed_none(%q: memref<1x4x8x16xf32>, %o: memref<1x4x8x16xf32>, %cu: memref<0xi32>) {
  // expected-error @below {{'attn.attention' op 'query_sequences' must have at least one entry where sequences are packed}}
  attn.attention ins(%q, %q, %q : memref<1x4x8x16xf32>, memref<1x4x8x16xf32>, memref<1x4x8x16xf32>)
      outs(%o : memref<1x4x8x16xf32>) sequences packed(%cu, %cu : memref<0xi32>, memref<0xi32>)
  return
}

// -----

func.func @type_of_sinks(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>,
                 %o: tensor<2x4x8x16xf32>, %x: tensor<4xi32>) {
  // expected-error @below {{'attn.attention' op operand #4 must be 1-D tensor or memref of bf16, f16 or f32 values, but got 'tensor<4xi32>'}}
  %r = attn.attention ins(%q, %k, %k : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x16xf32>)
      outs(%o : tensor<2x4x8x16xf32>) sinks(%x : tensor<4xi32>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @container_of_sinks(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>,
                 %o: tensor<2x4x8x16xf32>, %x: memref<4xf32>) {
  // expected-error @below {{operands must be all tensors or all memrefs, but 'query' is 'tensor<2x4x8x16xf32>' and 'sinks' is 'memref<4xf32>'}}
  %r = attn.attention ins(%q, %k, %k : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x16xf32>)
      outs(%o : tensor<2x4x8x16xf32>) sinks(%x : memref<4xf32>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @number_of_sinks(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>,
                 %o: tensor<2x4x8x16xf32>, %x: tensor<2xf32>) {
  // expected-error @below {{'attn.attention' op dimension 0 of 'sinks' must match dimension 1 of 'query', 4 (was 2)}}
  %r = attn.attention ins(%q, %k, %k : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x16xf32>)
      outs(%o : tensor<2x4x8x16xf32>) sinks(%x : tensor<2xf32>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @dynamic_sinks(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>,
                 %o: tensor<2x4x8x16xf32>, %x: tensor<?xf32>) {
  // expected-error @below {{'attn.attention' op dimension 0 of 'sinks' must be static}}
  %r = attn.attention ins(%q, %k, %k : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x16xf32>)
      outs(%o : tensor<2x4x8x16xf32>) sinks(%x : tensor<?xf32>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @dropout_without_offset(%q: tensor<1x4x8x16xf32>, %seed: i64) {
  // expected-error @below {{'attn.attention' op needs all or none of 'dropout', 'seed' and 'offset'}}
  %0 = "attn.attention"(%q, %q, %q, %q, %seed) <{
    dropout = #attn.dropout<p = 0.5, rng = #attn.arx>,
    operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0>}> ({}, {}, {}, {})
    : (tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, i64) -> tensor<1x4x8x16xf32>
  return
}

// -----

func.func @seed_without_dropout(%q: tensor<1x4x8x16xf32>, %seed: i64) {
  // expected-error @below {{'attn.attention' op needs all or none of 'dropout', 'seed' and 'offset'}}
  %0 = "attn.attention"(%q, %q, %q, %q, %seed, %seed) <{
    operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0>}> ({}, {}, {}, {})
    : (tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, i64, i64) -> tensor<1x4x8x16xf32>
  return
}

// -----

func.func @seed_of_wrong_type(%q: tensor<1x4x8x16xf32>, %seed: tensor<1xi64>) {
  // expected-error @below {{'attn.attention' op operand #4 must be i64, or 0-D tensor or memref of i64, but got 'tensor<1xi64>'}}
  %0 = attn.attention ins(%q, %q, %q : tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>)
      outs(%q : tensor<1x4x8x16xf32>)
      dropout(#attn.dropout<p = 0.5, rng = #attn.arx>, %seed, %seed : tensor<1xi64>, tensor<1xi64>)
      -> tensor<1x4x8x16xf32>
  return
}

// -----

func.func @offset_in_memref(%q: tensor<1x4x8x16xf32>, %seed: i64, %offset: memref<i64>) {
  // expected-error @below {{operands must be all tensors or all memrefs, but 'query' is 'tensor<1x4x8x16xf32>' and 'offset' is 'memref<i64>'}}
  %0 = attn.attention ins(%q, %q, %q : tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>)
      outs(%q : tensor<1x4x8x16xf32>)
      dropout(#attn.dropout<p = 0.5, rng = #attn.arx>, %seed, %offset : i64, memref<i64>)
      -> tensor<1x4x8x16xf32>
  return
}

// -----

func.func @type_of_head_map(%q: tensor<2x4x8x16xf32>, %k: tensor<2x3x32x16xf32>,
                 %o: tensor<2x4x8x16xf32>, %x: tensor<4xi64>) {
  // expected-error @below {{'attn.attention' op operand #4 must be 1-D tensor or memref of i32 values, but got 'tensor<4xi64>'}}
  %r = attn.attention ins(%q, %k, %k : tensor<2x4x8x16xf32>, tensor<2x3x32x16xf32>, tensor<2x3x32x16xf32>)
      outs(%o : tensor<2x4x8x16xf32>) heads(%x : tensor<4xi64>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @container_of_head_map(%q: tensor<2x4x8x16xf32>, %k: tensor<2x3x32x16xf32>,
                 %o: tensor<2x4x8x16xf32>, %x: memref<4xi32>) {
  // expected-error @below {{operands must be all tensors or all memrefs, but 'query' is 'tensor<2x4x8x16xf32>' and 'head_map' is 'memref<4xi32>'}}
  %r = attn.attention ins(%q, %k, %k : tensor<2x4x8x16xf32>, tensor<2x3x32x16xf32>, tensor<2x3x32x16xf32>)
      outs(%o : tensor<2x4x8x16xf32>) heads(%x : memref<4xi32>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @length_of_head_map(%q: tensor<2x4x8x16xf32>, %k: tensor<2x3x32x16xf32>,
                 %o: tensor<2x4x8x16xf32>, %x: tensor<3xi32>) {
  // expected-error @below {{'attn.attention' op dimension 0 of 'head_map' must match dimension 1 of 'query', 4 (was 3)}}
  %r = attn.attention ins(%q, %k, %k : tensor<2x4x8x16xf32>, tensor<2x3x32x16xf32>, tensor<2x3x32x16xf32>)
      outs(%o : tensor<2x4x8x16xf32>) heads(%x : tensor<3xi32>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @dynamic_head_map(%q: tensor<2x4x8x16xf32>, %k: tensor<2x3x32x16xf32>,
                 %o: tensor<2x4x8x16xf32>, %x: tensor<?xi32>) {
  // expected-error @below {{'attn.attention' op dimension 0 of 'head_map' must be static}}
  %r = attn.attention ins(%q, %k, %k : tensor<2x4x8x16xf32>, tensor<2x3x32x16xf32>, tensor<2x3x32x16xf32>)
      outs(%o : tensor<2x4x8x16xf32>) heads(%x : tensor<?xi32>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @dropout_mask_without_layout(%q: tensor<1x4x8x16xf32>, %m: tensor<1x4x32x4xi32>) {
  // expected-error @below {{'attn.attention' op needs all or none of 'dropout_mask', 'mask_layout' and 'drop_probability'}}
  %0 = "attn.attention"(%q, %q, %q, %q, %m) <{drop_probability = 0.5 : f32,
    operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0>}> ({}, {}, {}, {})
    : (tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x32x4xi32>) -> tensor<1x4x8x16xf32>
  return
}

// -----

func.func @dropout_probability_without_mask(%q: tensor<1x4x8x16xf32>) {
  // expected-error @below {{'attn.attention' op needs all or none of 'dropout_mask', 'mask_layout' and 'drop_probability'}}
  %0 = "attn.attention"(%q, %q, %q, %q) <{drop_probability = 0.5 : f32,
    operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>}> ({}, {}, {}, {})
    : (tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>) -> tensor<1x4x8x16xf32>
  return
}

// -----

func.func @dropout_mask_and_seed(%q: tensor<1x4x8x16xf32>, %m: tensor<1x4x32x4xi32>, %seed: i64) {
  // expected-error @below {{'attn.attention' op takes a 'dropout_mask' or makes random numbers, not both}}
  %0 = attn.attention ins(%q, %q, %q : tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>)
      outs(%q : tensor<1x4x8x16xf32>)
      dropout(#attn.dropout<p = 0.5, rng = #attn.arx>, %seed, %seed : i64, i64)
      dropout_mask rows(%m : tensor<1x4x32x4xi32>) p(0.5)
      -> tensor<1x4x8x16xf32>
  return
}

// -----

func.func @dropout_mask_probability(%q: tensor<1x4x8x16xf32>, %m: tensor<1x4x32x4xi32>) {
  // expected-error @below {{'attn.attention' op 'drop_probability' must lie in [0, 1) (was 1.000000e+00)}}
  %0 = attn.attention ins(%q, %q, %q : tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>)
      outs(%q : tensor<1x4x8x16xf32>)
      dropout_mask rows(%m : tensor<1x4x32x4xi32>) p(1.0)
      -> tensor<1x4x8x16xf32>
  return
}

// -----

func.func @dropout_mask_type(%q: tensor<1x4x8x16xf32>, %m: tensor<1x4x8x8xi1>) {
  // expected-error @below {{'attn.attention' op operand #4 must be 4-D tensor or memref of i32 values, but got 'tensor<1x4x8x8xi1>'}}
  %0 = attn.attention ins(%q, %q, %q : tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>)
      outs(%q : tensor<1x4x8x16xf32>)
      dropout_mask rows(%m : tensor<1x4x8x8xi1>) p(0.5)
      -> tensor<1x4x8x16xf32>
  return
}

// -----

func.func @dropout_mask_in_memref(%q: tensor<1x4x8x16xf32>, %m: memref<1x4x32x4xi32>) {
  // expected-error @below {{operands must be all tensors or all memrefs, but 'query' is 'tensor<1x4x8x16xf32>' and 'dropout_mask' is 'memref<1x4x32x4xi32>'}}
  %0 = attn.attention ins(%q, %q, %q : tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>)
      outs(%q : tensor<1x4x8x16xf32>)
      dropout_mask rows(%m : memref<1x4x32x4xi32>) p(0.5)
      -> tensor<1x4x8x16xf32>
  return
}

// -----

func.func @dropout_mask_dynamic_heads(%q: tensor<1x4x8x16xf32>, %m: tensor<1x?x32x4xi32>) {
  // expected-error @below {{'attn.attention' op dimension 1 of 'dropout_mask' must be static}}
  %0 = attn.attention ins(%q, %q, %q : tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>)
      outs(%q : tensor<1x4x8x16xf32>)
      dropout_mask rows(%m : tensor<1x?x32x4xi32>) p(0.5)
      -> tensor<1x4x8x16xf32>
  return
}

// -----

func.func @dropout_mask_heads(%q: tensor<1x4x8x16xf32>, %m: tensor<1x2x32x4xi32>) {
  // expected-error @below {{'attn.attention' op dimension 1 of 'dropout_mask' must match dimension 1 of 'query', 4 (was 2)}}
  %0 = attn.attention ins(%q, %q, %q : tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>)
      outs(%q : tensor<1x4x8x16xf32>)
      dropout_mask rows(%m : tensor<1x2x32x4xi32>) p(0.5)
      -> tensor<1x4x8x16xf32>
  return
}

// -----

func.func @dropout_mask_batch(%q: tensor<1x4x8x16xf32>, %m: tensor<2x4x32x4xi32>) {
  // expected-error @below {{'attn.attention' op dimension 0 of 'dropout_mask' must match dimension 0 of 'query', 1 (was 2)}}
  %0 = attn.attention ins(%q, %q, %q : tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>)
      outs(%q : tensor<1x4x8x16xf32>)
      dropout_mask rows(%m : tensor<2x4x32x4xi32>) p(0.5)
      -> tensor<1x4x8x16xf32>
  return
}

// -----

func.func @dropout_mask_layout(%q: tensor<1x4x8x16xf32>, %m: tensor<1x4x32x4xi32>) {
  // expected-error @below {{'attn.attention' op dimension 3 of 'dropout_mask' must have the words of 8 queries, 32 (was 4)}}
  %0 = attn.attention ins(%q, %q, %q : tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>)
      outs(%q : tensor<1x4x8x16xf32>)
      dropout_mask columns(%m : tensor<1x4x32x4xi32>) p(0.5)
      -> tensor<1x4x8x16xf32>
  return
}

// -----

func.func @dropout_mask_keys(%q: tensor<1x4x8x16xf32>, %m: tensor<1x4x32x1xi32>) {
  // expected-error @below {{'attn.attention' op dimension 3 of 'dropout_mask' must have the words of 8 keys, 4 (was 1)}}
  %0 = attn.attention ins(%q, %q, %q : tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>)
      outs(%q : tensor<1x4x8x16xf32>)
      dropout_mask rows(%m : tensor<1x4x32x1xi32>) p(0.5)
      -> tensor<1x4x8x16xf32>
  return
}

// -----

func.func @dropout_mask_of_sequences(%q: tensor<1x4x8x16xf32>, %b: tensor<4xi32>, %m: tensor<4x4x32x4xi32>) {
  // expected-error @below {{'attn.attention' op dimension 0 of 'dropout_mask' must count the sequences, 3 (was 4)}}
  %0 = attn.attention ins(%q, %q, %q : tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>)
      outs(%q : tensor<1x4x8x16xf32>) sequences packed(%b, %b : tensor<4xi32>, tensor<4xi32>)
      dropout_mask rows(%m : tensor<4x4x32x4xi32>) p(0.5)
      -> tensor<1x4x8x16xf32>
  return
}

// -----

func.func @dropout_mask_of_blocks(%q: tensor<1x4x8x16xf32>, %b: tensor<4xi32>, %m: tensor<3x4x32x6xi32>) {
  // expected-error @below {{'attn.attention' op dimension 3 of 'dropout_mask' must be a multiple of 4 above 0 (was 6)}}
  %0 = attn.attention ins(%q, %q, %q : tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>, tensor<1x4x8x16xf32>)
      outs(%q : tensor<1x4x8x16xf32>) sequences packed(%b, %b : tensor<4xi32>, tensor<4xi32>)
      dropout_mask rows(%m : tensor<3x4x32x6xi32>) p(0.5)
      -> tensor<1x4x8x16xf32>
  return
}

// -----

func.func @mask_op_mixed(%seed: memref<i64>, %m: tensor<1x4x32x4xi32>) {
  // expected-error @below {{operands must be all tensors or all memrefs, but 'out' is 'tensor<1x4x32x4xi32>' and 'seed' is 'memref<i64>'}}
  %0 = attn.dropout_mask rows by(#attn.dropout<p = 0.5, rng = #attn.arx>, %seed, %seed : memref<i64>, memref<i64>)
      outs(%m : tensor<1x4x32x4xi32>) -> tensor<1x4x32x4xi32>
  return
}

// -----

func.func @mask_op_heads(%seed: i64, %m: tensor<1x?x32x4xi32>) {
  // expected-error @below {{'attn.dropout_mask' op dimension 1 of 'out' must be static}}
  %0 = attn.dropout_mask rows by(#attn.dropout<p = 0.5, rng = #attn.arx>, %seed, %seed : i64, i64)
      outs(%m : tensor<1x?x32x4xi32>) -> tensor<1x?x32x4xi32>
  return
}

// -----

func.func @mask_op_query_words(%seed: i64, %m: tensor<1x4x4x48xi32>) {
  // expected-error @below {{'attn.dropout_mask' op dimension 3 of 'out' must be a multiple of 32 (was 48)}}
  %0 = attn.dropout_mask columns by(#attn.dropout<p = 0.5, rng = #attn.arx>, %seed, %seed : i64, i64)
      outs(%m : tensor<1x4x4x48xi32>) -> tensor<1x4x4x48xi32>
  return
}

// -----

func.func @mask_op_key_words(%seed: i64, %m: tensor<1x4x32x6xi32>) {
  // expected-error @below {{'attn.dropout_mask' op dimension 3 of 'out' must be a multiple of 4 (was 6)}}
  %0 = attn.dropout_mask rows by(#attn.dropout<p = 0.5, rng = #attn.arx>, %seed, %seed : i64, i64)
      outs(%m : tensor<1x4x32x6xi32>) -> tensor<1x4x32x6xi32>
  return
}

// -----

func.func @overlap_of_one() {
  // expected-error @below {{'attn.overlap' op must have at least two regions (has 1)}}
  attn.overlap {
    attn.overlap_yield
  }
  return
}

// -----

func.func @overlap_terminator() {
  // expected-error @below {{'attn.overlap' op region #1 must end with 'attn.overlap_yield' (was 'llvm.unreachable')}}
  "attn.overlap"() ({
    attn.overlap_yield
  }, {
    llvm.unreachable
  }) : () -> ()
  return
}

// -----

func.func @overlap_results(%x: f32) {
  // expected-error @below {{'attn.overlap' op results must be what the regions yield, 'f32' (was )}}
  attn.overlap {
    attn.overlap_yield %x : f32
  } and {
    attn.overlap_yield
  }
  return
}

// -----

func.func @overlap_conflict(%m: memref<4xf32>, %x: f32, %i: index) {
  // expected-error @below {{'attn.overlap' op region #0 writes memory that region #1 reads or writes}}
  attn.overlap {
    memref.store %x, %m[%i] : memref<4xf32>
    attn.overlap_yield
  } and {
    %y = memref.load %m[%i] : memref<4xf32>
    attn.overlap_yield
  }
  return
}

// -----

func.func @read_of_no_operand(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x32x16xf32>, %x: tensor<2x8xi32>) {
  // expected-error @below {{'attn.attention' op mask reads operand 1, but has 1 of 'reads'}}
  %r = attn.attention ins(%q, %k, %k : tensor<2x4x8x16xf32>, tensor<2x4x32x16xf32>, tensor<2x4x32x16xf32>)
      outs(%q : tensor<2x4x8x16xf32>)  mask(#attn.documents<queries = 0, keys = 1>) reads(%x : tensor<2x8xi32>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @read_of_negative_operand(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x32x16xf32>, %x: tensor<2x8xi32>) {
  // expected-error @below {{'attn.attention' op mask reads operand -1, but has 1 of 'reads'}}
  %r = attn.attention ins(%q, %k, %k : tensor<2x4x8x16xf32>, tensor<2x4x32x16xf32>, tensor<2x4x32x16xf32>)
      outs(%q : tensor<2x4x8x16xf32>)  mask(#attn.not<#attn.tree<parents = -1>>) reads(%x : tensor<2x8xi32>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @unread_operand(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x32x16xf32>, %x: tensor<2x8xi32>) {
  // expected-error @below {{'attn.attention' op operand 0 of 'reads' is not read by the mask}}
  %r = attn.attention ins(%q, %k, %k : tensor<2x4x8x16xf32>, tensor<2x4x32x16xf32>, tensor<2x4x32x16xf32>)
      outs(%q : tensor<2x4x8x16xf32>)  mask(#attn.or<#attn.causal, #attn.tree<parents = 1>>) reads(%x, %x : tensor<2x8xi32>, tensor<2x8xi32>)
      -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @reads_without_mask(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x32x16xf32>, %x: tensor<2x8xi32>) {
  // expected-error @below {{'attn.attention' op operand 0 of 'reads' is not read by the mask}}
  %r = attn.attention ins(%q, %k, %k : tensor<2x4x8x16xf32>, tensor<2x4x32x16xf32>, tensor<2x4x32x16xf32>)
      outs(%q : tensor<2x4x8x16xf32>)   reads(%x : tensor<2x8xi32>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @type_of_read(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x32x16xf32>, %x: tensor<2x8xi64>) {
  // expected-error @below {{'attn.attention' op operand #4 must be variadic of ranked tensor or memref of i32 values, but got 'tensor<2x8xi64>'}}
  %r = attn.attention ins(%q, %k, %k : tensor<2x4x8x16xf32>, tensor<2x4x32x16xf32>, tensor<2x4x32x16xf32>)
      outs(%q : tensor<2x4x8x16xf32>)  mask(#attn.tree<parents = 0>) reads(%x : tensor<2x8xi64>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @container_of_read(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x32x16xf32>, %x: memref<2x8xi32>) {
  // expected-error @below {{operands must be all tensors or all memrefs, but 'query' is 'tensor<2x4x8x16xf32>' and 'reads' is 'memref<2x8xi32>'}}
  %r = attn.attention ins(%q, %k, %k : tensor<2x4x8x16xf32>, tensor<2x4x32x16xf32>, tensor<2x4x32x16xf32>)
      outs(%q : tensor<2x4x8x16xf32>)  mask(#attn.tree<parents = 0>) reads(%x : memref<2x8xi32>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @reads_beside_sequences(%q: tensor<2x4x8x16xf32>, %n: tensor<2xi32>, %x: tensor<2x8xi32>) {
  // expected-error @below {{'attn.attention' op mask must not read operands together with 'sequences'}}
  %r = attn.attention ins(%q, %q, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
      outs(%q : tensor<2x4x8x16xf32>) sequences padded(%n, %n : tensor<2xi32>, tensor<2xi32>)
      mask(#attn.tree<parents = 0>) reads(%x : tensor<2x8xi32>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @rank_of_read(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x32x16xf32>, %x: tensor<8xi32>) {
  // expected-error @below {{'attn.attention' op mask operand 0 of 'reads', 'parents', must have 2 dimensions (was 1)}}
  %r = attn.attention ins(%q, %k, %k : tensor<2x4x8x16xf32>, tensor<2x4x32x16xf32>, tensor<2x4x32x16xf32>)
      outs(%q : tensor<2x4x8x16xf32>)  mask(#attn.and<#attn.causal, #attn.tree<parents = 0>>) reads(%x : tensor<8xi32>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @batch_of_read(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x32x16xf32>, %x: tensor<3x8xi32>, %y: tensor<2x32xi32>) {
  // expected-error @below {{'attn.attention' op mask dimension 0 of operand 0 of 'reads', 'queries', must be 1 or 2 (was 3)}}
  %r = attn.attention ins(%q, %k, %k : tensor<2x4x8x16xf32>, tensor<2x4x32x16xf32>, tensor<2x4x32x16xf32>)
      outs(%q : tensor<2x4x8x16xf32>)  mask(#attn.documents<queries = 0, keys = 1>) reads(%x, %y : tensor<3x8xi32>, tensor<2x32xi32>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @documents_of_keys(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x32x16xf32>, %x: tensor<2x8xi32>, %y: tensor<2x8xi32>) {
  // expected-error @below {{'attn.attention' op mask dimension 1 of operand 1 of 'reads', 'keys', must be 32 (was 8)}}
  %r = attn.attention ins(%q, %k, %k : tensor<2x4x8x16xf32>, tensor<2x4x32x16xf32>, tensor<2x4x32x16xf32>)
      outs(%q : tensor<2x4x8x16xf32>)  mask(#attn.documents<queries = 0, keys = 1>) reads(%x, %y : tensor<2x8xi32>, tensor<2x8xi32>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @number_of_boundaries(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x32x16xf32>, %x: tensor<2x3xi32>, %y: tensor<1x4xi32>) {
  // expected-error @below {{'attn.attention' op mask dimension 1 of operand 1 of 'reads', 'keys', must be 3 (was 4)}}
  %r = attn.attention ins(%q, %k, %k : tensor<2x4x8x16xf32>, tensor<2x4x32x16xf32>, tensor<2x4x32x16xf32>)
      outs(%q : tensor<2x4x8x16xf32>)  mask(#attn.packed_documents<queries = 0, keys = 1>) reads(%x, %y : tensor<2x3xi32>, tensor<1x4xi32>)
      -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @no_boundaries(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x32x16xf32>, %x: tensor<2x0xi32>) {
  // expected-error @below {{'attn.attention' op mask operand 0 of 'reads', 'queries', must have a boundary}}
  %r = attn.attention ins(%q, %k, %k : tensor<2x4x8x16xf32>, tensor<2x4x32x16xf32>, tensor<2x4x32x16xf32>)
      outs(%q : tensor<2x4x8x16xf32>)  mask(#attn.packed_documents<queries = 0, keys = 0>) reads(%x : tensor<2x0xi32>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @number_of_parents(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x32x16xf32>, %x: tensor<1x7xi32>) {
  // expected-error @below {{'attn.attention' op mask dimension 1 of operand 0 of 'reads', 'parents', must be 8 (was 7)}}
  %r = attn.attention ins(%q, %k, %k : tensor<2x4x8x16xf32>, tensor<2x4x32x16xf32>, tensor<2x4x32x16xf32>)
      outs(%q : tensor<2x4x8x16xf32>)  mask(#attn.not<#attn.tree<parents = 0>>) reads(%x : tensor<1x7xi32>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @heads_of_blocks(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x32x16xf32>, %x: tensor<2x2x2xi32>, %y: tensor<2x4x9xi32>) {
  // expected-error @below {{'attn.attention' op mask dimension 1 of operand 0 of 'reads', 'offsets', must be 1 or 4 (was 2)}}
  %r = attn.attention ins(%q, %k, %k : tensor<2x4x8x16xf32>, tensor<2x4x32x16xf32>, tensor<2x4x32x16xf32>)
      outs(%q : tensor<2x4x8x16xf32>)  mask(#attn.block_sparse<rows = 16, columns = 32, offsets = 0, indices = 1>)
      reads(%x, %y : tensor<2x2x2xi32>, tensor<2x4x9xi32>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @lists_of_blocks(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x32x16xf32>, %x: tensor<2x1x2xi32>, %y: tensor<2x4x9xi32>) {
  // expected-error @below {{'attn.attention' op mask 'offsets' and 'indices' must agree in dimension 1 (was 'tensor<2x1x2xi32>' and 'tensor<2x4x9xi32>')}}
  %r = attn.attention ins(%q, %k, %k : tensor<2x4x8x16xf32>, tensor<2x4x32x16xf32>, tensor<2x4x32x16xf32>)
      outs(%q : tensor<2x4x8x16xf32>)  mask(#attn.block_sparse<rows = 16, columns = 32, offsets = 0, indices = 1>)
      reads(%x, %y : tensor<2x1x2xi32>, tensor<2x4x9xi32>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @rows_of_blocks(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x32x16xf32>, %x: tensor<2x4x3xi32>, %y: tensor<2x4x9xi32>) {
  // expected-error @below {{'attn.attention' op mask dimension 2 of operand 0 of 'reads', 'offsets', must be 2 (was 3)}}
  %r = attn.attention ins(%q, %k, %k : tensor<2x4x8x16xf32>, tensor<2x4x32x16xf32>, tensor<2x4x32x16xf32>)
      outs(%q : tensor<2x4x8x16xf32>)  mask(#attn.block_sparse<rows = 16, columns = 32, offsets = 0, indices = 1>)
      reads(%x, %y : tensor<2x4x3xi32>, tensor<2x4x9xi32>) -> tensor<2x4x8x16xf32>
  return
}

// -----

func.func @container_of_table(%x: tensor<1x8xi32>, %t: memref<1x8xi32>) {
  // expected-error @below {{operands must be all tensors or all memrefs, but 'table' is 'memref<1x8xi32>' and 'boundaries' is 'tensor<1x8xi32>'}}
  attn.sequence_ids ins(%x : tensor<1x8xi32>) outs(%t : memref<1x8xi32>) otherwise(-1)
  return
}

// -----

func.func @size_of_table(%x: memref<1x8xi32>, %t: memref<1x9x1xi32>) {
  // expected-error @below {{'attn.ancestor_map' op dimension 1 of 'table' must match dimension 1 of 'parents', 8 (was 9)}}
  attn.ancestor_map ins(%x : memref<1x8xi32>) outs(%t : memref<1x9x1xi32>)
  return
}

// -----

func.func @heads_of_table(%x: memref<1x2x8xi32>, %y: memref<1x4x8xi32>, %n: index, %t: memref<1x2x7x?xi32>) {
  // expected-error @below {{'attn.block_sparse_map' op dimension 1 of 'table' must match dimension 1 of 'indices', 4 (was 2)}}
  attn.block_sparse_map ins(%x, %y : memref<1x2x8xi32>, memref<1x4x8xi32>) columns(%n) outs(%t : memref<1x2x7x?xi32>)
  return
}

// -----

func.func @permute_twice(%x: tensor<2x3x4xf32>) {
  // expected-error @below {{'attn.permute' op 'permutation' must be one of the 3 dimensions of 'source' (was [0, 2, 2])}}
  %0 = "attn.permute"(%x) <{permutation = array<i64: 0, 2, 2>}> : (tensor<2x3x4xf32>) -> tensor<2x4x4xf32>
  return
}

// -----

func.func @permute_rank(%x: tensor<2x3x4xf32>) {
  // expected-error @below {{'attn.permute' op 'permutation' must be one of the 3 dimensions of 'source' (was [1, 0])}}
  %0 = "attn.permute"(%x) <{permutation = array<i64: 1, 0>}> : (tensor<2x3x4xf32>) -> tensor<3x2xf32>
  return
}

// -----

func.func @permute_type(%x: tensor<2x3x4xf32>) {
  // expected-error @below {{'attn.permute' op type of the result must be 'tensor<3x2x4xf32>' (was 'tensor<2x3x4xf32>')}}
  %0 = "attn.permute"(%x) <{permutation = array<i64: 1, 0, 2>}> : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return
}

// -----

func.func @number_of_identity(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>,
                              %o: tensor<2x4x8x16xf32>, %x: tensor<2xf32>) -> tensor<2x4x8x16xf32> {
  // expected-error @below {{'attn.attention' op dimension 0 of 'identity' must match dimension 1 of 'query', 4 (was 2)}}
  %0 = attn.attention ins(%q, %k, %k : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x16xf32>)
      outs(%o : tensor<2x4x8x16xf32>) identity(%x : tensor<2xf32>) -> tensor<2x4x8x16xf32>
  return %0 : tensor<2x4x8x16xf32>
}

// -----

func.func @number_of_identity_of_gradient(%q: memref<2x4x8x16xf32>, %lse: memref<2x4x8xf32>, %x: memref<1xf32>) {
  // expected-error @below {{'attn.attention_grad' op dimension 0 of 'identity' must match dimension 1 of 'query', 4 (was 1)}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>, memref<2x4x8x16xf32>,
          memref<2x4x8x16xf32>, memref<2x4x8xf32>, memref<2x4x8x16xf32>)
      outs(%q, %q, %q : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>, memref<2x4x8x16xf32>)
      identity(%x : memref<1xf32>)
  return
}

// -----

func.func @overlap_kind() {
  // expected-error @below {{unknown kind of overlap 'magic' (expected sequential, streams or fused)}}
  attn.overlap by magic {
    attn.overlap_yield
  } and {
    attn.overlap_yield
  }
  return
}
