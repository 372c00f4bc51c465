// RUN: attn-opt %s -convert-attn-tile-to-nvvm | FileCheck %s

// A warp votes, and subtracts only if one of its rows has a subtrahend other
// than zero.
// CHECK-LABEL: llvm.func @subtract_rows
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK:         %[[A:.*]] = arith.cmpf une, %[[FIRST:.*]], %[[ZERO]]
// CHECK:         %[[B:.*]] = arith.cmpf une, %[[SECOND:.*]], %[[ZERO]]
// CHECK:         %[[ANY:.*]] = arith.ori %[[A]], %[[B]]
// CHECK:         %[[VOTE:.*]] = nvvm.vote.sync any %{{.*}}, %[[ANY]]
// CHECK:         scf.if %[[VOTE]] -> (f32, f32, f32, f32)
// CHECK-COUNT-2:   arith.subf %{{.*}}, %[[FIRST]]
// CHECK-COUNT-2:   arith.subf %{{.*}}, %[[SECOND]]
// CHECK:         } else {
// CHECK-NEXT:      scf.yield
attn_tile.kernel @subtract_rows(%in: memref<64xf32>, %out: memref<64x8xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %threes = arith.constant dense<3.0> : vector<64x8xf32>
  %two = arith.constant dense<2.0> : vector<64xf32>
  %max = math.exp2 %two : vector<64xf32>
  %r = attn_tile.subtract_rows %max from %threes : vector<64xf32>, vector<64x8xf32>
  attn_tile.store %r, %out[%c0, %c0] : vector<64x8xf32>, memref<64x8xf32>
  attn_tile.return
}
