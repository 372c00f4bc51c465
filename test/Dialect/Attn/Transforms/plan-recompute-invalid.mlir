// RUN: attn-opt %s --attn-plan-recompute=budget=0 --split-input-file --verify-diagnostics

// expected-error @below {{'func.func' op must have one block, 'attn.num_saved' and a forward function of one block in 'attn.forward'}}
func.func @f_bwd() attributes {attn.forward = @f_fwd, attn.num_saved = 0 : i64} {
  return
}

// -----

func.func @f_fwd(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
// expected-error @below {{'func.func' op must take the arguments and the results of its forward function first}}
func.func @f_bwd(%x: tensor<4xf32>) attributes {attn.forward = @f_fwd, attn.num_saved = 1 : i64} {
  return
}

// -----

// What has effects does not run again.
func.func private @g(tensor<4xf32>) -> tensor<4xf32>
func.func @f_fwd(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @g(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
// expected-error @below {{'func.func' op cannot be computed if at most 0 bytes are saved}}
func.func @f_bwd(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32>
    attributes {attn.forward = @f_fwd, attn.num_saved = 1 : i64} {
  return %y : tensor<4xf32>
}
