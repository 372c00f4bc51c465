// RUN: attn-opt %s --split-input-file --convert-comm-to-runtime --verify-diagnostics

func.func @tensors(%a: tensor<6xf32>, %b: tensor<3x6xf32>) -> tensor<3x6xf32> {
  // expected-error @below {{'attn.comm.all_gather' op must be bufferised}}
  %0 = attn.comm.all_gather ins(%a : tensor<6xf32>) outs(%b : tensor<3x6xf32>) -> tensor<3x6xf32>
  return %0 : tensor<3x6xf32>
}

// -----

llvm.func @no_function() {
  // expected-error @below {{'attn.comm.rank' op must be in a function}}
  %0 = attn.comm.rank ranks(2)
  llvm.return
}
