// Gradients whose scores do not matter: nothing is attended, or the scale is zero.
// RUN: attn-compile %s -o %t.mlir --stop-after=device --target=sm_90a --verbose 2>&1 | FileCheck %s
// RUN: attn-compile %s -o %t.mlir --stop-after=device --target=sm_80 2>&1 | count 0
// RUN: FileCheck %s --check-prefix=KERNELS < %t.mlir

// CHECK-NOT: error
// The exponentials do not depend on the first MMA.
// CHECK: operations of the next step need results of this one
// CHECK-NOT: error


// KERNELS: attn_tile.launch @no_pairs_grad_dkdv_kernel_module
func.func @no_pairs(%q: tensor<1x1x64x64xf16>, %k: tensor<1x1x64x64xf16>, %v: tensor<1x1x64x64xf16>,
    %out: tensor<1x1x64x64xf16>, %lse: tensor<1x1x64xf32>, %dout: tensor<1x1x64x64xf16>,
    %dq: tensor<1x1x64x64xf16>, %dk: tensor<1x1x64x64xf16>, %dv: tensor<1x1x64x64xf16>)
    -> (tensor<1x1x64x64xf16>, tensor<1x1x64x64xf16>, tensor<1x1x64x64xf16>) {
  %z:3 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %dout
      : tensor<1x1x64x64xf16>, tensor<1x1x64x64xf16>, tensor<1x1x64x64xf16>,
        tensor<1x1x64x64xf16>, tensor<1x1x64xf32>, tensor<1x1x64x64xf16>)
    outs(%dq, %dk, %dv : tensor<1x1x64x64xf16>, tensor<1x1x64x64xf16>, tensor<1x1x64x64xf16>) mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %never = arith.constant false
    attn.yield %never : i1
  } -> tensor<1x1x64x64xf16>, tensor<1x1x64x64xf16>, tensor<1x1x64x64xf16>
  return %z#0, %z#1, %z#2 : tensor<1x1x64x64xf16>, tensor<1x1x64x64xf16>, tensor<1x1x64x64xf16>
}

// KERNELS: attn_tile.launch @zero_scale_grad_dkdv_kernel_module
func.func @zero_scale(%q: tensor<2x2x8x8xf16>, %k: tensor<2x2x?x8xf16>, %v: tensor<2x2x?x8xf16>,
    %out: tensor<2x2x8x8xf16>, %lse: tensor<2x2x8xf32>, %dout: tensor<2x2x8x8xf16>,
    %dq: tensor<2x2x8x8xf16>, %dk: tensor<2x2x?x8xf16>, %dv: tensor<2x2x?x8xf16>)
    -> (tensor<2x2x8x8xf16>, tensor<2x2x?x8xf16>, tensor<2x2x?x8xf16>) {
  %z:3 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %dout
      : tensor<2x2x8x8xf16>, tensor<2x2x?x8xf16>, tensor<2x2x?x8xf16>,
        tensor<2x2x8x8xf16>, tensor<2x2x8xf32>, tensor<2x2x8x8xf16>)
    outs(%dq, %dk, %dv : tensor<2x2x8x8xf16>, tensor<2x2x?x8xf16>, tensor<2x2x?x8xf16>) scale(0.0)
    -> tensor<2x2x8x8xf16>, tensor<2x2x?x8xf16>, tensor<2x2x?x8xf16>
  return %z#0, %z#1, %z#2 : tensor<2x2x8x8xf16>, tensor<2x2x?x8xf16>, tensor<2x2x?x8xf16>
}
