// RUN: attn-opt %s --split-input-file --verify-diagnostics

func.func @rank(%a: tensor<4xbf16>, %b: tensor<8x4xbf16>, %c: tensor<4x4xbf16>) {
  // expected-error @below {{'attn.matmul' op operand #0 must be 2-D or 3-D tensor or memref of bf16, f16, f32, f8E4M3FN or f8E5M2 values, but got 'tensor<4xbf16>'}}
  %r = attn.matmul ins(%a, %b : tensor<4xbf16>, tensor<8x4xbf16>) outs(%c : tensor<4x4xbf16>) -> tensor<4x4xbf16>
  return
}

// -----

func.func @element(%a: tensor<4x8xf64>, %b: tensor<8x4xf64>, %c: tensor<4x4xf64>) {
  // expected-error @below {{'attn.matmul' op operand #0 must be 2-D or 3-D tensor or memref of bf16, f16, f32, f8E4M3FN or f8E5M2 values, but got 'tensor<4x8xf64>'}}
  %r = attn.matmul ins(%a, %b : tensor<4x8xf64>, tensor<8x4xf64>) outs(%c : tensor<4x4xf64>) -> tensor<4x4xf64>
  return
}

// -----

func.func @container(%a: tensor<4x8xbf16>, %b: memref<8x4xbf16>, %c: tensor<4x4xbf16>) {
  // expected-error @below {{'attn.matmul' op operands must be all tensors or all memrefs, but 'out' is 'tensor<4x4xbf16>' and 'rhs' is 'memref<8x4xbf16>'}}
  %r = attn.matmul ins(%a, %b : tensor<4x8xbf16>, memref<8x4xbf16>) outs(%c : tensor<4x4xbf16>) -> tensor<4x4xbf16>
  return
}

// -----

func.func @rhs_element(%a: tensor<4x8xbf16>, %b: tensor<8x4xf16>, %c: tensor<4x4xbf16>) {
  // expected-error @below {{'attn.matmul' op element type of 'rhs' must be that of 'lhs', 'bf16' (was 'f16')}}
  %r = attn.matmul ins(%a, %b : tensor<4x8xbf16>, tensor<8x4xf16>) outs(%c : tensor<4x4xbf16>) -> tensor<4x4xbf16>
  return
}

// -----

func.func @out_element(%a: tensor<4x8xbf16>, %b: tensor<8x4xbf16>, %c: tensor<4x4xf16>) {
  // expected-error @below {{'attn.matmul' op element type of 'out' must be that of 'lhs', 'bf16', or f32 (was 'f16')}}
  %r = attn.matmul ins(%a, %b : tensor<4x8xbf16>, tensor<8x4xbf16>) outs(%c : tensor<4x4xf16>) -> tensor<4x4xf16>
  return
}

// -----

func.func @rhs_element_of_8_bits(%a: tensor<4x8xf8E4M3FN>, %b: tensor<8x4xbf16>, %c: tensor<4x4xbf16>) {
  // expected-error @below {{'attn.matmul' op element type of 'rhs' must be f8E4M3FN or f8E5M2, as 'lhs' has 'f8E4M3FN' (was 'bf16')}}
  %r = attn.matmul ins(%a, %b : tensor<4x8xf8E4M3FN>, tensor<8x4xbf16>) outs(%c : tensor<4x4xbf16>) -> tensor<4x4xbf16>
  return
}

// -----

func.func @rhs_alone_of_8_bits(%a: tensor<4x8xbf16>, %b: tensor<8x4xf8E4M3FN>, %c: tensor<4x4xbf16>) {
  // expected-error @below {{'attn.matmul' op element type of 'rhs' must be that of 'lhs', 'bf16' (was 'f8E4M3FN')}}
  %r = attn.matmul ins(%a, %b : tensor<4x8xbf16>, tensor<8x4xf8E4M3FN>) outs(%c : tensor<4x4xbf16>) -> tensor<4x4xbf16>
  return
}

// -----

func.func @out_of_8_bits(%a: tensor<4x8xf8E4M3FN>, %b: tensor<8x4xf8E4M3FN>, %c: tensor<4x4xf8E4M3FN>) {
  // expected-error @below {{'attn.matmul' op operand #2 must be 2-D or 3-D tensor or memref of bf16, f16 or f32 values, but got 'tensor<4x4xf8E4M3FN>'}}
  %r = attn.matmul ins(%a, %b : tensor<4x8xf8E4M3FN>, tensor<8x4xf8E4M3FN>) outs(%c : tensor<4x4xf8E4M3FN>)
      -> tensor<4x4xf8E4M3FN>
  return
}

// -----

func.func @batch_of_out(%a: tensor<2x4x8xbf16>, %b: tensor<8x4xbf16>, %c: tensor<4x4xbf16>) {
  // expected-error @below {{'attn.matmul' op 'out' must have 3 dimensions, as its inputs demand (was 'tensor<4x4xbf16>')}}
  %r = attn.matmul ins(%a, %b : tensor<2x4x8xbf16>, tensor<8x4xbf16>) outs(%c : tensor<4x4xbf16>) -> tensor<4x4xbf16>
  return
}

// -----

func.func @no_batch(%a: tensor<4x8xbf16>, %b: tensor<8x4xbf16>, %c: tensor<2x4x4xbf16>) {
  // expected-error @below {{'attn.matmul' op 'out' must have 2 dimensions, as its inputs demand (was 'tensor<2x4x4xbf16>')}}
  %r = attn.matmul ins(%a, %b : tensor<4x8xbf16>, tensor<8x4xbf16>) outs(%c : tensor<2x4x4xbf16>) -> tensor<2x4x4xbf16>
  return
}

// -----

func.func @depth(%a: tensor<4x8xbf16>, %b: tensor<9x4xbf16>, %c: tensor<4x4xbf16>) {
  // expected-error @below {{'attn.matmul' op dimension 0 of 'rhs' must match dimension 1 of 'lhs', 8 (was 9)}}
  %r = attn.matmul ins(%a, %b : tensor<4x8xbf16>, tensor<9x4xbf16>) outs(%c : tensor<4x4xbf16>) -> tensor<4x4xbf16>
  return
}

// -----

func.func @rows(%a: tensor<8x4xbf16>, %b: tensor<8x4xbf16>, %c: tensor<5x4xbf16>) {
  // expected-error @below {{'attn.matmul' op dimension 0 of 'out' must match dimension 1 of 'lhs', 4 (was 5)}}
  %r = attn.matmul ins(%a, %b : tensor<8x4xbf16>, tensor<8x4xbf16>) outs(%c : tensor<5x4xbf16>) transpose_lhs -> tensor<5x4xbf16>
  return
}

// -----

func.func @columns(%a: tensor<4x8xbf16>, %b: tensor<6x8xbf16>, %c: tensor<4x4xbf16>) {
  // expected-error @below {{'attn.matmul' op dimension 1 of 'out' must match dimension 0 of 'rhs', 6 (was 4)}}
  %r = attn.matmul ins(%a, %b : tensor<4x8xbf16>, tensor<6x8xbf16>) outs(%c : tensor<4x4xbf16>) transpose_rhs -> tensor<4x4xbf16>
  return
}

// -----

func.func @batch(%a: tensor<4x8xbf16>, %b: tensor<3x8x4xbf16>, %c: tensor<2x4x4xbf16>) {
  // expected-error @below {{'attn.matmul' op dimension 0 of 'rhs' must match dimension 0 of 'out', 2 (was 3)}}
  %r = attn.matmul ins(%a, %b : tensor<4x8xbf16>, tensor<3x8x4xbf16>) outs(%c : tensor<2x4x4xbf16>) -> tensor<2x4x4xbf16>
  return
}

// -----

func.func @no_result(%a: tensor<4x8xbf16>, %b: tensor<8x4xbf16>, %c: tensor<4x4xbf16>) {
  // expected-error @below {{'attn.matmul' op must have one result}}
  attn.matmul ins(%a, %b : tensor<4x8xbf16>, tensor<8x4xbf16>) outs(%c : tensor<4x4xbf16>)
  return
}

// -----

func.func @result_of_memrefs(%a: memref<4x8xbf16>, %b: memref<8x4xbf16>, %c: memref<4x4xbf16>) {
  // expected-error @below {{'attn.matmul' op must have no result}}
  %r = attn.matmul ins(%a, %b : memref<4x8xbf16>, memref<8x4xbf16>) outs(%c : memref<4x4xbf16>) -> tensor<4x4xbf16>
  return
}

// -----

func.func @epilogue_arguments(%a: memref<4x8xbf16>, %b: memref<8x4xbf16>, %c: memref<4x4xbf16>) {
  // expected-error @below {{'attn.matmul' op epilogue region must have arguments 'f32', 'index', 'index', 'index' (was 'f32', 'index')}}
  attn.matmul ins(%a, %b : memref<4x8xbf16>, memref<8x4xbf16>) outs(%c : memref<4x4xbf16>) epilogue {
  ^bb0(%s: f32, %i: index):
    attn.yield %s : f32
  }
  return
}

// -----

func.func @epilogue_result(%a: memref<4x8xbf16>, %b: memref<8x4xbf16>, %c: memref<4x4xbf16>) {
  // expected-error @below {{'attn.matmul' op epilogue region must yield 'f32' (was 'bf16')}}
  attn.matmul ins(%a, %b : memref<4x8xbf16>, memref<8x4xbf16>) outs(%c : memref<4x4xbf16>) epilogue {
  ^bb0(%s: f32, %bb: index, %i: index, %j: index):
    %x = arith.truncf %s : f32 to bf16
    attn.yield %x : bf16
  }
  return
}

// -----

func.func @epilogue_writes(%a: memref<4x8xbf16>, %b: memref<8x4xbf16>, %c: memref<4x4xbf16>) {
  // expected-error @below {{'attn.matmul' op epilogue region must only compute and read}}
  attn.matmul ins(%a, %b : memref<4x8xbf16>, memref<8x4xbf16>) outs(%c : memref<4x4xbf16>) epilogue {
  ^bb0(%s: f32, %bb: index, %i: index, %j: index):
    %x = arith.truncf %s : f32 to bf16
    // expected-note @below {{'memref.store' has side effects}}
    memref.store %x, %c[%i, %j] : memref<4x4xbf16>
    attn.yield %s : f32
  }
  return
}

// -----

func.func @epilogue_reads_out(%a: memref<4x8xbf16>, %b: memref<8x4xbf16>, %c: memref<4x4xbf16>) {
  // expected-error @below {{'attn.matmul' op epilogue region must only compute and read}}
  attn.matmul ins(%a, %b : memref<4x8xbf16>, memref<8x4xbf16>) outs(%c : memref<4x4xbf16>) epilogue {
  ^bb0(%s: f32, %bb: index, %i: index, %j: index):
    // expected-note @below {{'memref.load' reads a buffer that the operation writes}}
    %x = memref.load %c[%i, %j] : memref<4x4xbf16>
    attn.yield %s : f32
  }
  return
}

// -----

func.func @nested(%a: memref<4x8xbf16>, %b: memref<8x4xbf16>, %c: memref<4x4xbf16>) {
  // expected-error @below {{'attn.matmul' op epilogue region must only compute and read}}
  attn.matmul ins(%a, %b : memref<4x8xbf16>, memref<8x4xbf16>) outs(%c : memref<4x4xbf16>) epilogue {
  ^bb0(%s: f32, %bb: index, %i: index, %j: index):
    // expected-note @below {{'attn.matmul' is not allowed in a region of attention or of a matmul}}
    attn.matmul ins(%a, %b : memref<4x8xbf16>, memref<8x4xbf16>) outs(%c : memref<4x4xbf16>)
    attn.yield %s : f32
  }
  return
}
