// RUN: attn-opt %s -convert-attn-tile-to-nvvm | FileCheck %s

// A warp votes, and multiplies only if one of its rows has another factor.
// CHECK-LABEL: llvm.func @rescale
// CHECK:         %[[A:.*]] = arith.cmpf une
// CHECK:         %[[B:.*]] = arith.cmpf une
// CHECK:         %[[ANY:.*]] = arith.ori %[[A]], %[[B]]
// CHECK:         %[[VOTE:.*]] = nvvm.vote.sync any %{{.*}}, %[[ANY]]
// CHECK:         scf.if %[[VOTE]] -> (f32, f32, f32, f32)
// CHECK-COUNT-4:   arith.mulf
// CHECK:         } else {
// CHECK-NEXT:      scf.yield
attn_tile.kernel @rescale(%in: memref<64xf32>, %out: memref<64x8xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %ones = arith.constant dense<3.0> : vector<64x8xf32>
  %two = arith.constant dense<2.0> : vector<64xf32>
  %factor = math.exp2 %two : vector<64xf32>
  %r = attn_tile.rescale %ones by %factor : vector<64x8xf32>, vector<64xf32>
  attn_tile.store %r, %out[%c0, %c0] : vector<64x8xf32>, memref<64x8xf32>
  attn_tile.return
}
