// RUN: attn-opt %s --split-input-file --verify-diagnostics

func.func @nothing(%o: memref<1x2x9x8xf32>, %l: memref<1x2x9xf32>) {
  // expected-error @below {{'attn.merge' op needs at least one partial result}}
  "attn.merge"(%o, %l) <{operandSegmentSizes = array<i32: 0, 0, 1, 1>}>
      : (memref<1x2x9x8xf32>, memref<1x2x9xf32>) -> ()
  return
}

// -----

func.func @counts(%o: memref<1x2x9x8xf32>, %l: memref<1x2x9xf32>) {
  // expected-error @below {{'attn.merge' op needs as many 'partial_lses' as 'partial_outs', 2 (was 1)}}
  attn.merge ins(%o, %o : memref<1x2x9x8xf32>, memref<1x2x9x8xf32>) lses(%l : memref<1x2x9xf32>)
      outs(%o, %l : memref<1x2x9x8xf32>, memref<1x2x9xf32>)
  return
}

// -----

func.func @types(%o: memref<1x2x9x8xf32>, %l: memref<1x2x9xf32>, %t: tensor<1x2x9x8xf32>) {
  // expected-error @below {{'attn.merge' op operands must be all tensors or all memrefs, but 'partial_outs[0]' is 'memref<1x2x9x8xf32>' and 'out' is 'tensor<1x2x9x8xf32>'}}
  %r = attn.merge ins(%o : memref<1x2x9x8xf32>) lses(%l : memref<1x2x9xf32>) outs(%t : tensor<1x2x9x8xf32>)
      -> tensor<1x2x9x8xf32>
  return
}

// -----

func.func @dynamic_heads(%o: memref<1x?x9x8xf32>, %l: memref<1x2x9xf32>) {
  // expected-error @below {{'attn.merge' op dimension 1 of 'partial_outs[0]' must be static}}
  attn.merge ins(%o : memref<1x?x9x8xf32>) lses(%l : memref<1x2x9xf32>) outs(%o : memref<1x?x9x8xf32>)
  return
}

// -----

func.func @no_head_dim(%o: memref<1x2x9x0xf32>, %l: memref<1x2x9xf32>) {
  // expected-error @below {{'attn.merge' op dimension 3 of 'partial_outs[0]' must be at least 1 (was 0)}}
  attn.merge ins(%o : memref<1x2x9x0xf32>) lses(%l : memref<1x2x9xf32>) outs(%o : memref<1x2x9x0xf32>)
  return
}

// -----

func.func @sizes(%o: memref<1x2x9x8xf32>, %l: memref<1x2x9xf32>, %m: memref<1x2x7xf32>) {
  // expected-error @below {{'attn.merge' op dimension 2 of 'partial_lses[1]' must be that of 'partial_outs[0]', 9 (was 7)}}
  attn.merge ins(%o, %o : memref<1x2x9x8xf32>, memref<1x2x9x8xf32>) lses(%l, %m : memref<1x2x9xf32>, memref<1x2x7xf32>)
      outs(%o : memref<1x2x9x8xf32>)
  return
}

// -----

func.func @element_type(%o: memref<1x2x9x8xf64>, %l: memref<1x2x9xf32>) {
  // expected-error @below {{'attn.merge' op operand #0 must be variadic of 4-D tensor or memref of bf16, f16 or f32 values, but got 'memref<1x2x9x8xf64>'}}
  attn.merge ins(%o : memref<1x2x9x8xf64>) lses(%l : memref<1x2x9xf32>) outs(%o : memref<1x2x9x8xf64>)
  return
}

// -----

func.func @no_gradient(%o: memref<1x2x9x8xf32>) {
  // expected-error @below {{'attn.merge_grad' op needs at least one partial result}}
  "attn.merge_grad"(%o) <{operandSegmentSizes = array<i32: 0, 0, 1, 0, 0, 0>}> : (memref<1x2x9x8xf32>) -> ()
  return
}

// -----

func.func @gradient_counts(%o: memref<1x2x9x8xf32>, %l: memref<1x2x9xf32>) {
  // expected-error @below {{'attn.merge_grad' op needs as many 'dpartial_outs' as 'partial_outs', 1 (was 2)}}
  attn.merge_grad ins(%o : memref<1x2x9x8xf32>) lses(%l : memref<1x2x9xf32>) dout(%o : memref<1x2x9x8xf32>)
      outs(%o, %o : memref<1x2x9x8xf32>, memref<1x2x9x8xf32>) dlses(%l : memref<1x2x9xf32>)
  return
}

// -----

func.func @gradient_sizes(%o: memref<1x2x9x8xf32>, %d: memref<1x2x9x4xf32>, %l: memref<1x2x9xf32>) {
  // expected-error @below {{'attn.merge_grad' op dimension 3 of 'dout' must be that of 'partial_outs[0]', 8 (was 4)}}
  attn.merge_grad ins(%o : memref<1x2x9x8xf32>) lses(%l : memref<1x2x9xf32>) dout(%d : memref<1x2x9x4xf32>)
      outs(%o : memref<1x2x9x8xf32>) dlses(%l : memref<1x2x9xf32>)
  return
}
