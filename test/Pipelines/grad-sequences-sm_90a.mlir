// RUN: attn-opt %s --attn-differentiate=function=packed | attn-compile - -o - --emit=mlir --stop-after=kernel --target=sm_90a | FileCheck %s

// Attention of packed sequences and its gradient, which iterate over lists that
// kernels make. A CTA of the dkdv kernel has one work item, if there is one
// for it; consumers clear what lies behind the end of its sequence, the tiles of
// the next step included, and add the gradients of queries to the dQ accumulator.

// CHECK-LABEL: attn_tile.kernel @packed_bwd_grad_dkdv_kernel(
// CHECK:         attn_tile.role producer
// CHECK:           attn_tile.assume_upper_bound
// CHECK:           scf.if
// CHECK-NOT:       attn_tile.clear
// CHECK:         attn_tile.role consumer
// CHECK:           scf.if
// CHECK-COUNT-2:     attn_tile.clear
// CHECK:             scf.if
// CHECK-COUNT-2:       attn_tile.clear
// CHECK:               scf.for
// CHECK-COUNT-2:         attn_tile.clear
// CHECK:                 attn_tile.bulk_reduce_add
// CHECK-NOT:           attn_tile.clear
// CHECK:             attn_tile.store {{.*}} within(
// CHECK:             attn_tile.store {{.*}} within(

func.func @packed(%q: tensor<1x4x?x128xbf16>, %k: tensor<1x2x?x128xbf16>, %v: tensor<1x2x?x128xbf16>,
                  %cq: tensor<?xi32>, %ck: tensor<?xi32>) -> tensor<1x4x?x128xbf16> {
  %c2 = arith.constant 2 : index
  %n = tensor.dim %q, %c2 : tensor<1x4x?x128xbf16>
  %zero = arith.constant 0.0 : bf16
  %e = tensor.empty(%n) : tensor<1x4x?x128xbf16>
  %o = linalg.fill ins(%zero : bf16) outs(%e : tensor<1x4x?x128xbf16>) -> tensor<1x4x?x128xbf16>
  %l = tensor.empty(%n) : tensor<1x4x?xf32>
  %r:2 = attn.attention ins(%q, %k, %v : tensor<1x4x?x128xbf16>, tensor<1x2x?x128xbf16>, tensor<1x2x?x128xbf16>)
      outs(%o, %l : tensor<1x4x?x128xbf16>, tensor<1x4x?xf32>)
      sequences packed(%cq, %ck : tensor<?xi32>, tensor<?xi32>) mask(#attn.causal) -> tensor<1x4x?x128xbf16>, tensor<1x4x?xf32>
  return %r#0 : tensor<1x4x?x128xbf16>
}
