// RUN: attn-opt %s --split-input-file --verify-diagnostics

func.func @containers(%x: tensor<1x2x9x16xf32>, %q: memref<1x2x9x16xf8E5M2>, %s: tensor<f32>) {
  // expected-error @below {{'attn.quantize' op operands must be all tensors or all memrefs, but 'in' is 'tensor<1x2x9x16xf32>' and operand #2 is 'memref<1x2x9x16xf8E5M2>'}}
  attn.quantize ins(%x : tensor<1x2x9x16xf32>) given_scale(%s : tensor<f32>) outs(%q : memref<1x2x9x16xf8E5M2>)
  return
}

// -----

func.func @no_scale(%x: memref<9x16xf32>, %q: memref<9x16xf8E5M2>) {
  // expected-error @below {{'attn.quantize' op needs either 'given_scale' or 'scale' (has none)}}
  attn.quantize ins(%x : memref<9x16xf32>) outs(%q : memref<9x16xf8E5M2>)
  return
}

// -----

func.func @two_scales(%x: memref<9x16xf32>, %q: memref<9x16xf8E5M2>, %s: memref<f32>) {
  // expected-error @below {{'attn.quantize' op needs either 'given_scale' or 'scale' (has both)}}
  attn.quantize ins(%x : memref<9x16xf32>) given_scale(%s : memref<f32>) outs(%q : memref<9x16xf8E5M2>)
      scale(%s : memref<f32>)
  return
}

// -----

func.func @results(%x: tensor<9x16xf32>, %q: tensor<9x16xf8E5M2>, %s: tensor<f32>) -> tensor<9x16xf8E5M2> {
  // expected-error @below {{'attn.quantize' op must have 2 results (has 1)}}
  %r = attn.quantize ins(%x : tensor<9x16xf32>) outs(%q : tensor<9x16xf8E5M2>) scale(%s : tensor<f32>)
      -> tensor<9x16xf8E5M2>
  return %r : tensor<9x16xf8E5M2>
}

// -----

func.func @results_of_memrefs(%x: memref<9x16xf32>, %q: memref<9x16xf8E5M2>, %s: memref<f32>) {
  // expected-error @below {{'attn.quantize' op must have 0 results (has 1)}}
  %r = attn.quantize ins(%x : memref<9x16xf32>) outs(%q : memref<9x16xf8E5M2>) scale(%s : memref<f32>)
      -> tensor<9x16xf8E5M2>
  return
}

// -----

func.func @out_dimensions(%x: memref<9x16xf32>, %q: memref<1x9x16xf8E5M2>, %s: memref<f32>) {
  // expected-error @below {{'attn.quantize' op 'out' must have as many dimensions as 'in', 2 (has 3)}}
  attn.quantize ins(%x : memref<9x16xf32>) outs(%q : memref<1x9x16xf8E5M2>) scale(%s : memref<f32>)
  return
}

// -----

func.func @out_sizes(%x: memref<9x16xf32>, %q: memref<9x32xf8E5M2>, %s: memref<f32>) {
  // expected-error @below {{'attn.quantize' op dimension 1 of 'out' must be that of 'in', 16 (was 32)}}
  attn.quantize ins(%x : memref<9x16xf32>) outs(%q : memref<9x32xf8E5M2>) scale(%s : memref<f32>)
  return
}

// -----

func.func @matrix_with_heads(%x: memref<9x16xf32>, %q: memref<9x16xf8E5M2>, %s: memref<9x16xf32>) {
  // expected-error @below {{'attn.quantize' op 'scale' must have no dimensions, as 'in' has 2 and not 4 (has 2)}}
  attn.quantize ins(%x : memref<9x16xf32>) outs(%q : memref<9x16xf8E5M2>) scale(%s : memref<9x16xf32>)
  return
}

// -----

func.func @one_dimension(%x: memref<1x2x9x16xf32>, %q: memref<1x2x9x16xf8E5M2>, %s: memref<1xf32>) {
  // expected-error @below {{'attn.quantize' op 'given_scale' must have 0, 2 or 3 dimensions (has 1)}}
  attn.quantize ins(%x : memref<1x2x9x16xf32>) given_scale(%s : memref<1xf32>) outs(%q : memref<1x2x9x16xf8E5M2>)
  return
}

// -----

func.func @block_size_of_heads(%x: memref<1x2x9x16xf32>, %q: memref<1x2x9x16xf8E5M2>, %s: memref<1x2xf32>) {
  // expected-error @below {{'attn.quantize' op 'block_size' needs scales of 3 dimensions, but 'scale' has 2}}
  attn.quantize ins(%x : memref<1x2x9x16xf32>) outs(%q : memref<1x2x9x16xf8E5M2>) scale(%s : memref<1x2xf32>)
      block_size(64)
  return
}

// -----

func.func @no_block_size(%x: memref<1x2x9x16xf32>, %q: memref<1x2x9x16xf8E5M2>, %s: memref<1x2x1xf32>) {
  // expected-error @below {{'attn.quantize' op scales of 3 dimensions, such as 'scale', need 'block_size'}}
  attn.quantize ins(%x : memref<1x2x9x16xf32>) outs(%q : memref<1x2x9x16xf8E5M2>) scale(%s : memref<1x2x1xf32>)
  return
}

// -----

func.func @block_size(%x: memref<1x2x9x16xf32>, %q: memref<1x2x9x16xf8E5M2>, %s: memref<1x2x1xf32>) {
  // expected-error @below {{'attn.quantize' op 'block_size' must be 64 or 128 (was 32)}}
  attn.quantize ins(%x : memref<1x2x9x16xf32>) outs(%q : memref<1x2x9x16xf8E5M2>) scale(%s : memref<1x2x1xf32>)
      block_size(32)
  return
}

// -----

func.func @heads(%x: memref<1x2x9x16xf32>, %q: memref<1x2x9x16xf8E5M2>, %s: memref<1x3xf32>) {
  // expected-error @below {{'attn.quantize' op dimension 1 of 'scale' must be that of 'in', 2 (was 3)}}
  attn.quantize ins(%x : memref<1x2x9x16xf32>) outs(%q : memref<1x2x9x16xf8E5M2>) scale(%s : memref<1x3xf32>)
  return
}

// -----

func.func @blocks(%x: memref<1x2x129x16xf32>, %q: memref<1x2x129x16xf8E5M2>, %s: memref<1x2x2xf32>) {
  // expected-error @below {{'attn.quantize' op dimension 2 of 'scale' must be the number of blocks, 3 (was 2)}}
  attn.quantize ins(%x : memref<1x2x129x16xf32>) outs(%q : memref<1x2x129x16xf8E5M2>) scale(%s : memref<1x2x2xf32>)
      block_size(64)
  return
}

// -----

func.func @amax_dimensions(%x: memref<1x2x9x16xf32>, %q: memref<1x2x9x16xf8E5M2>, %s: memref<1x2xf32>,
                           %m: memref<f32>) {
  // expected-error @below {{'attn.quantize' op 'amax' must have as many dimensions as 'scale', 2 (has 0)}}
  attn.quantize ins(%x : memref<1x2x9x16xf32>) outs(%q : memref<1x2x9x16xf8E5M2>) scale(%s : memref<1x2xf32>)
      amax(%m : memref<f32>)
  return
}

// -----

func.func @amax_sizes(%x: memref<1x2x9x16xf32>, %q: memref<1x2x9x16xf8E5M2>, %s: memref<1x2xf32>,
                      %m: memref<2x2xf32>) {
  // expected-error @below {{'attn.quantize' op dimension 0 of 'amax' must be that of 'in', 1 (was 2)}}
  attn.quantize ins(%x : memref<1x2x9x16xf32>) given_scale(%s : memref<1x2xf32>) outs(%q : memref<1x2x9x16xf8E5M2>)
      amax(%m : memref<2x2xf32>)
  return
}

// -----

func.func @rotated_size(%x: memref<9x48xf32>, %q: memref<9x48xf8E5M2>, %s: memref<f32>, %signs: memref<48xf32>) {
  // expected-error @below {{'attn.quantize' op rotates a last dimension of a power of two from 16 to 1024 (type of 'in' was 'memref<9x48xf32>')}}
  attn.quantize ins(%x : memref<9x48xf32>) rotate(%signs : memref<48xf32>) outs(%q : memref<9x48xf8E5M2>)
      scale(%s : memref<f32>)
  return
}

// -----

func.func @dynamic_rotation(%x: memref<9x?xf32>, %q: memref<9x?xf8E5M2>, %s: memref<f32>, %signs: memref<16xf32>) {
  // expected-error @below {{'attn.quantize' op rotates a last dimension of a power of two from 16 to 1024 (type of 'in' was 'memref<9x?xf32>')}}
  attn.quantize ins(%x : memref<9x?xf32>) rotate(%signs : memref<16xf32>) outs(%q : memref<9x?xf8E5M2>)
      scale(%s : memref<f32>)
  return
}

// -----

func.func @signs_dimensions(%x: memref<9x16xf32>, %q: memref<9x16xf8E5M2>, %s: memref<f32>, %signs: memref<1x16xf32>) {
  // expected-error @below {{'attn.quantize' op 'signs' must have 1 dimension (has 2)}}
  attn.quantize ins(%x : memref<9x16xf32>) rotate(%signs : memref<1x16xf32>) outs(%q : memref<9x16xf8E5M2>)
      scale(%s : memref<f32>)
  return
}

// -----

func.func @signs_size(%x: memref<9x16xf32>, %q: memref<9x16xf8E5M2>, %s: memref<f32>, %signs: memref<32xf32>) {
  // expected-error @below {{'attn.quantize' op dimension 0 of 'signs' must be the last dimension of 'in', 16 (was 32)}}
  attn.quantize ins(%x : memref<9x16xf32>) rotate(%signs : memref<32xf32>) outs(%q : memref<9x16xf8E5M2>)
      scale(%s : memref<f32>)
  return
}

// -----

func.func @dynamic_signs(%x: memref<9x16xf32>, %q: memref<9x16xf8E5M2>, %s: memref<f32>, %signs: memref<?xf32>) {
  // expected-error @below {{'attn.quantize' op dimension 0 of 'signs' must be static, 16}}
  attn.quantize ins(%x : memref<9x16xf32>) rotate(%signs : memref<?xf32>) outs(%q : memref<9x16xf8E5M2>)
      scale(%s : memref<f32>)
  return
}

// -----

func.func @amax_of_given_scale(%x: memref<9x16xf32>, %q: memref<9x16xf8E5M2>, %s: memref<f32>) {
  // expected-error @below {{'attn.quantize' op 'amax' must not be the memref of 'given_scale'}}
  attn.quantize ins(%x : memref<9x16xf32>) given_scale(%s : memref<f32>) outs(%q : memref<9x16xf8E5M2>)
      amax(%s : memref<f32>)
  return
}

// -----

func.func @amax_of_scale(%x: memref<9x16xf32>, %q: memref<9x16xf8E5M2>, %s: memref<f32>) {
  // expected-error @below {{'attn.quantize' op 'amax' must not be the memref of 'scale'}}
  attn.quantize ins(%x : memref<9x16xf32>) outs(%q : memref<9x16xf8E5M2>) scale(%s : memref<f32>)
      amax(%s : memref<f32>)
  return
}

// -----

func.func @element_types(%x: memref<9x16xf32>, %q: memref<9x16xf8E4M3FNUZ>, %s: memref<f32>) {
  // expected-error @below {{'attn.quantize' op operand #1 must be ranked tensor or memref of f8E4M3FN or f8E5M2 values, but got 'memref<9x16xf8E4M3FNUZ>'}}
  attn.quantize ins(%x : memref<9x16xf32>) outs(%q : memref<9x16xf8E4M3FNUZ>) scale(%s : memref<f32>)
  return
}

// -----

func.func @source(%x: memref<9xf32>, %q: memref<9xf8E5M2>, %s: memref<f32>) {
  // expected-error @below {{'attn.quantize' op operand #0 must be 2-D, 3-D or 4-D tensor or memref of bf16, f16 or f32 values, but got 'memref<9xf32>'}}
  attn.quantize ins(%x : memref<9xf32>) outs(%q : memref<9xf8E5M2>) scale(%s : memref<f32>)
  return
}
