// RUN: attn-opt %s --attn-results-to-arguments --split-input-file --verify-diagnostics

// expected-error @below {{'func.func' op result #1 of a public function must be a ranked tensor (was 'f32')}}
func.func @scalar(%a: tensor<4xf32>, %s: f32) -> (tensor<4xf32>, f32) {
  return %a, %s : tensor<4xf32>, f32
}

// -----

// expected-error @below {{'func.func' op is public and must not be called in its module}}
func.func @callee(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
func.func private @caller(%a: tensor<4xf32>) -> tensor<4xf32> {
  %r = func.call @callee(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
