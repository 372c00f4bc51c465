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
  // expected-note @below {{'func.call' cannot run again}}
  %y = func.call @g(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
// expected-error @below {{'func.func' op cannot be computed if at most 0 bytes are saved: at least 16 bytes must be}}
func.func @f_bwd(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32>
    attributes {attn.forward = @f_fwd, attn.num_saved = 1 : i64} {
  return %y : tensor<4xf32>
}

// -----

// Callers of the functions, and other backward functions of the same forward
// function, would see other types.
func.func @f_fwd(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = math.exp %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
// expected-error @below {{'func.func' op cannot be planned: 'f_fwd' would change its type, but 'user' uses it}}
func.func @f_bwd(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32>
    attributes {attn.forward = @f_fwd, attn.num_saved = 1 : i64} {
  return %y : tensor<4xf32>
}
func.func @user(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-note @below {{used here}}
  %y = func.call @f_fwd(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %z = func.call @f_bwd(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %z : tensor<4xf32>
}

// -----

func.func @f_fwd(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = math.exp %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
// expected-error @below {{'func.func' op cannot be planned: 'f_bwd' would change its type, but 'user' uses it}}
func.func @f_bwd(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32>
    attributes {attn.forward = @f_fwd, attn.num_saved = 1 : i64} {
  return %y : tensor<4xf32>
}
func.func @user(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-note @below {{used here}}
  %z = func.call @f_bwd(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %z : tensor<4xf32>
}

// -----

func.func @f_fwd(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = math.exp %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
// expected-error @below {{'func.func' op cannot be planned: 'f_fwd' would change its type, but 'g_bwd' uses it}}
func.func @f_bwd(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32>
    attributes {attn.forward = @f_fwd, attn.num_saved = 1 : i64} {
  return %y : tensor<4xf32>
}
// expected-note @below {{used here}}
func.func @g_bwd(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32>
    attributes {attn.forward = @f_fwd, attn.num_saved = 1 : i64} {
  return %y : tensor<4xf32>
}

// -----

// expected-error @below {{'func.func' op must have one block, 'attn.num_saved' and a forward function of one block in 'attn.forward'}}
func.func @itself() attributes {attn.forward = @itself, attn.num_saved = 0 : i64} {
  return
}
