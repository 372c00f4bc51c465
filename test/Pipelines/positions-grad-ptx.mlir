// REQUIRES: ptxas
// RUN: attn-compile %s --target=sm_90a --emit=mlir --stop-after=tile -o - | FileCheck %s --check-prefixes=CHECK,SM90A
// RUN: attn-compile %s --target=sm_80 --emit=mlir --stop-after=tile -o - | FileCheck %s --check-prefixes=CHECK,SM80
// RUN: attn-compile %s --target=sm_90a --fail-on-spills -o %t.90a.o
// RUN: attn-compile %s --target=sm_80 --fail-on-spills -o %t.80.o

// All kernels of the gradient of a shard with dropout.

// CHECK: attn_tile.kernel @gradient_check_positions
// CHECK: attn_tile.kernel @gradient_grad_preprocess_kernel
// CHECK: attn_tile.kernel @gradient_grad_dkdv_kernel
// SM90A: attn_tile.kernel @gradient_grad_dq_convert_kernel
// SM80:  attn_tile.kernel @gradient_grad_dq_kernel
func.func @gradient(%q: tensor<?x8x?x64xbf16>, %l: tensor<?x8x?xf32>, %dq: tensor<?x8x?x64xbf16>,
                    %dk: tensor<?x8x?x64xbf16>, %dv: tensor<?x8x?x64xbf16>, %p: tensor<6xi32>, %seed: tensor<i64>)
    -> (tensor<?x8x?x64xbf16>, tensor<?x8x?x64xbf16>, tensor<?x8x?x64xbf16>) {
  %0:3 = attn.attention_grad ins(%q, %q, %q, %q, %l, %q : tensor<?x8x?x64xbf16>, tensor<?x8x?x64xbf16>,
          tensor<?x8x?x64xbf16>, tensor<?x8x?x64xbf16>, tensor<?x8x?xf32>, tensor<?x8x?x64xbf16>)
      outs(%dq, %dk, %dv : tensor<?x8x?x64xbf16>, tensor<?x8x?x64xbf16>, tensor<?x8x?x64xbf16>)
      positions(%p : tensor<6xi32>) mask(#attn.sliding_window<left = 100, right = 0>)
      dropout(#attn.dropout<p = 0.125, rng = #attn.philox>, %seed, %seed : tensor<i64>, tensor<i64>)
      -> tensor<?x8x?x64xbf16>, tensor<?x8x?x64xbf16>, tensor<?x8x?x64xbf16>
  return %0#0, %0#1, %0#2 : tensor<?x8x?x64xbf16>, tensor<?x8x?x64xbf16>, tensor<?x8x?x64xbf16>
}
