// RUN: attn-opt %s --split-input-file --verify-diagnostics

func.func @no_ranks() {
  // expected-error @below {{'attn.comm.rank' op attribute 'ranks' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
  %0 = attn.comm.rank ranks(0)
  return
}

// -----

func.func @bits(%a: tensor<4xi1>, %i: index) {
  // expected-error @below {{'attn.comm.send_recv' op operand #0 must be ranked tensor or memref of elements of whole bytes, but got 'tensor<4xi1>'}}
  %0 = attn.comm.send_recv ins(%a : tensor<4xi1>) to(%i) from(%i) outs(%a : tensor<4xi1>) -> tensor<4xi1>
  return
}

// -----

func.func @indices(%a: tensor<4xindex>, %b: tensor<2x4xindex>) {
  // expected-error @below {{'attn.comm.all_gather' op operand #0 must be ranked tensor or memref of elements of whole bytes, but got 'tensor<4xindex>'}}
  %0 = attn.comm.all_gather ins(%a : tensor<4xindex>) outs(%b : tensor<2x4xindex>) -> tensor<2x4xindex>
  return
}

// -----

func.func @mixed(%a: memref<4xf32>, %b: tensor<4xf32>, %i: index) {
  // expected-error @below {{'attn.comm.send_recv' op operands must be both tensors or both memrefs, but 'sent' is 'memref<4xf32>' and 'received' is 'tensor<4xf32>'}}
  %0 = attn.comm.send_recv ins(%a : memref<4xf32>) to(%i) from(%i) outs(%b : tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @element_types(%a: memref<4xf32>, %b: memref<4xi32>, %i: index) {
  // expected-error @below {{'attn.comm.send_recv' op 'received' must have the element type of 'sent', 'f32' (was 'i32')}}
  attn.comm.send_recv ins(%a : memref<4xf32>) to(%i) from(%i) outs(%b : memref<4xi32>)
  return
}

// -----

func.func @sent_strides(%a: memref<4xf32, strided<[2]>>, %b: memref<4xf32>, %i: index) {
  // expected-error @below {{'attn.comm.send_recv' op 'sent' must have the identity layout (was 'memref<4xf32, strided<[2]>>')}}
  attn.comm.send_recv ins(%a : memref<4xf32, strided<[2]>>) to(%i) from(%i) outs(%b : memref<4xf32>)
  return
}

// -----

func.func @received_offset(%a: memref<4xf32>, %b: memref<3x4xf32, strided<[4, 1], offset: ?>>) {
  // expected-error @below {{'attn.comm.all_gather' op 'received' must have the identity layout (was 'memref<3x4xf32, strided<[4, 1], offset: ?>>')}}
  attn.comm.all_gather ins(%a : memref<4xf32>) outs(%b : memref<3x4xf32, strided<[4, 1], offset: ?>>)
  return
}

// -----

func.func @no_dimension_of_ranks(%a: memref<4xf32>, %b: memref<4xf32>) {
  // expected-error @below {{'attn.comm.all_gather' op 'received' must have the dimensions of 'sent' and one more, 2 (was 1)}}
  attn.comm.all_gather ins(%a : memref<4xf32>) outs(%b : memref<4xf32>)
  return
}

// -----

func.func @gathered_size(%a: memref<?x4xf32>, %b: memref<3x2x5xf32>) {
  // expected-error @below {{'attn.comm.all_gather' op dimension 2 of 'received' must be dimension 1 of 'sent', 4 (was 5)}}
  attn.comm.all_gather ins(%a : memref<?x4xf32>) outs(%b : memref<3x2x5xf32>)
  return
}

// -----

func.func @scalar(%a: memref<f32>) {
  // expected-error @below {{'attn.comm.all_to_all' op 'sent' needs a dimension of ranks}}
  attn.comm.all_to_all ins(%a : memref<f32>) outs(%a : memref<f32>)
  return
}

// -----

func.func @number_of_dimensions(%a: memref<2x3xf32>, %b: memref<2xf32>) {
  // expected-error @below {{'attn.comm.all_to_all' op 'received' must have as many dimensions as 'sent', 2 (was 1)}}
  attn.comm.all_to_all ins(%a : memref<2x3xf32>) outs(%b : memref<2xf32>)
  return
}

// -----

func.func @parts(%a: memref<2x3xf32>, %b: memref<3x3xf32>) {
  // expected-error @below {{'attn.comm.all_to_all' op dimension 0 of 'received' must be dimension 0 of 'sent', 2 (was 3)}}
  attn.comm.all_to_all ins(%a : memref<2x3xf32>) outs(%b : memref<3x3xf32>)
  return
}

// -----

func.func @element_types_of_all(%a: memref<2x3xf32>, %b: memref<2x3xf16>) {
  // expected-error @below {{'attn.comm.all_to_all' op 'received' must have the element type of 'sent', 'f32' (was 'f16')}}
  attn.comm.all_to_all ins(%a : memref<2x3xf32>) outs(%b : memref<2x3xf16>)
  return
}
