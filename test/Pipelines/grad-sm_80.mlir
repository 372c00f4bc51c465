// RUN: attn-compile %s -o - --emit=mlir --stop-after=kernel --target=sm_80 | FileCheck %s

// The dkdv kernel iterates over the queries of both heads that share them,
// whose tiles are copied one step ahead, and so are the rows of what there is
// once for each query. The keys and values stay in shared memory; probabilities and
// gradients of scores are left-hand sides in registers.

// CHECK-LABEL: attn_tile.kernel @grouped_grad_dkdv_kernel(
// CHECK-DAG:     %[[LSE:.*]] = attn_tile.create_pipe : <1x48xf32, stages = 2>
// CHECK-DAG:     attn_tile.create_pipe : <48x128xbf16, stages = 2>
// CHECK-DAG:     attn_tile.create_pipe : <64x128xbf16, stages = 1>
// CHECK:         scf.if
// CHECK-COUNT-4:   attn_tile.commit
// CHECK:         %[[K:.*]] = attn_tile.wait {{.*}} : <64x128xbf16, stages = 1>
// CHECK:         %[[V:.*]] = attn_tile.wait {{.*}} : <64x128xbf16, stages = 1>
// CHECK:         scf.for {{.*}} -> (vector<64x128xf32>, vector<64x128xf32>) {
// CHECK:           scf.if
// CHECK:           %[[Q:.*]] = attn_tile.wait {{.*}} : <48x128xbf16, stages = 2>
// CHECK:           attn_tile.mma_start %[[K]], %[[Q]] transpose_rhs
// CHECK:           scf.if
// CHECK:           %[[DO:.*]] = attn_tile.wait {{.*}} : <48x128xbf16, stages = 2>
// CHECK:           attn_tile.mma_start %[[V]], %[[DO]] transpose_rhs
// CHECK:           attn_tile.mask {{.*}} transposed
// CHECK:           attn_tile.read {{.*}} : <1x48xf32>
// CHECK:           attn_tile.mma_start %{{.*}}, %[[DO]] acc {{.*}} : vector<64x48xbf16>
// CHECK:           attn_tile.read {{.*}} : <1x48xf32>
// CHECK:           attn_tile.mma_start %{{.*}}, %[[Q]] acc {{.*}} : vector<64x48xbf16>
// CHECK:         attn_tile.store
// CHECK:         attn_tile.store

// CHECK-LABEL: attn_tile.kernel @grouped_grad_dq_kernel(
// CHECK:         scf.for {{.*}} -> (vector<[[ROWS:[0-9]+]]x128xf32>) {
// CHECK:           %[[K:.*]] = attn_tile.wait
// CHECK:           attn_tile.mma_start %[[Q:.*]], %[[K]] transpose_rhs
// CHECK:           %[[V:.*]] = attn_tile.wait
// CHECK:           attn_tile.mma_start %[[DO:.*]], %[[V]] transpose_rhs
// CHECK:           attn_tile.mask
// CHECK:           attn_tile.mma_start %{{.*}}, %[[K]] acc
// CHECK:         scf.for
// CHECK-NOT:       attn_tile.mask
// CHECK:           attn_tile.mma_start %[[Q]]
// CHECK:           attn_tile.mma_start %[[DO]]
// CHECK:         attn_tile.store

func.func @grouped(%q: tensor<?x4x?x128xbf16>, %k: tensor<?x2x?x128xbf16>, %v: tensor<?x2x?x128xbf16>, %o: tensor<?x4x?x128xbf16>,
                   %lse: tensor<?x4x?xf32>, %do: tensor<?x4x?x128xbf16>, %dq: tensor<?x4x?x128xbf16>, %dk: tensor<?x2x?x128xbf16>,
                   %dv: tensor<?x2x?x128xbf16>) -> (tensor<?x4x?x128xbf16>, tensor<?x2x?x128xbf16>, tensor<?x2x?x128xbf16>) {
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<?x4x?x128xbf16>, tensor<?x2x?x128xbf16>, tensor<?x2x?x128xbf16>,
          tensor<?x4x?x128xbf16>, tensor<?x4x?xf32>, tensor<?x4x?x128xbf16>)
      outs(%dq, %dk, %dv : tensor<?x4x?x128xbf16>, tensor<?x2x?x128xbf16>, tensor<?x2x?x128xbf16>)
      mask(#attn.causal)
      -> tensor<?x4x?x128xbf16>, tensor<?x2x?x128xbf16>, tensor<?x2x?x128xbf16>
  return %r#0, %r#1, %r#2 : tensor<?x4x?x128xbf16>, tensor<?x2x?x128xbf16>, tensor<?x2x?x128xbf16>
}
