// RUN: attn-opt %s --convert-attn-to-attn-tile --split-input-file | FileCheck %s

// A score_mod that replaces scores by a large number: row maxima beyond 2^14 / factor are subtracted before
// the multiplication by the factor, log2(e), which is part of a fused operation otherwise.
// CHECK-LABEL: attn_tile.kernel @large_kernel(
// CHECK:         scf.for {{.*}} iter_args(%[[OLD:.*]] = %{{.*}}, %{{.*}} = %{{.*}}, %{{.*}} = %{{.*}})
// CHECK:           %[[S:.*]] = attn_tile.mask
// CHECK:           %[[M:.*]] = vector.multi_reduction <maxnumf>, %[[S]], %[[OLD]] [1]
// CHECK:           %[[FINITE:.*]] = arith.select %{{.*}}, %{{.*}}, %[[M]]
// CHECK:           %[[C:.*]] = arith.constant dense<1.442695{{.*}}> : vector<32xf32>
// CHECK:           %[[LIMIT:.*]] = arith.constant dense<11356.5{{.*}}> : vector<32xf32>
// CHECK:           %[[ABS:.*]] = math.absf %[[FINITE]]
// CHECK:           %[[LARGE:.*]] = arith.cmpf ogt, %[[ABS]], %[[LIMIT]]
// CHECK:           %[[SUBTRAHEND:.*]] = arith.select %[[LARGE]], %[[FINITE]], %[[ZERO:.*]] :
// CHECK:           %[[SHIFTED:.*]] = attn_tile.subtract_rows %[[SUBTRAHEND]] from %[[S]]
// CHECK:           %[[FUSED:.*]] = arith.select %[[LARGE]], %[[ZERO]], %[[FINITE]]
// CHECK:           %[[GROWTH:.*]] = arith.subf %[[OLD]], %[[FINITE]]
// CHECK:           %[[SCALED:.*]] = arith.mulf %[[FUSED]], %[[C]]
// CHECK:           arith.negf %[[SCALED]]
// CHECK:           %[[X:.*]] = math.fma %[[SHIFTED]]
// CHECK:           %[[ALPHA:.*]] = arith.mulf %[[GROWTH]], %[[C]]
// CHECK:           math.exp2 %[[ALPHA]]
// CHECK:           math.exp2 %[[X]]
func.func @large(%q: memref<1x2x128x64xf32>, %o: memref<1x2x128x64xf32>) {
  attn.attention ins(%q, %q, %q : memref<1x2x128x64xf32>, memref<1x2x128x64xf32>, memref<1x2x128x64xf32>)
      outs(%o : memref<1x2x128x64xf32>)
      schedule(#attn_tile.sequential<query_tile = 32, key_tile = 64>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %least = arith.constant -1.0e10 : f32
        %keep = arith.cmpi sge, %i, %j : index
        %r = arith.select %keep, %s, %least : f32
        attn.yield %r : f32
      }
  return
}

// -----

// Scores that stay small need no such care.
// CHECK-LABEL: attn_tile.kernel @soft_cap_kernel(
// CHECK-NOT:     attn_tile.subtract_rows
// CHECK:         attn_tile.return
func.func @soft_cap(%q: memref<1x2x128x64xbf16>, %o: memref<1x2x128x64xbf16>) {
  attn.attention ins(%q, %q, %q : memref<1x2x128x64xbf16>, memref<1x2x128x64xbf16>, memref<1x2x128x64xbf16>)
      outs(%o : memref<1x2x128x64xbf16>)
      schedule(#attn_tile.sequential<query_tile = 32, key_tile = 64>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %cap = arith.constant 5.0e+01 : f32
        %x = arith.divf %s, %cap : f32
        %t = math.tanh %x : f32
        %r = arith.mulf %t, %cap : f32
        attn.yield %r : f32
      }
  return
}
