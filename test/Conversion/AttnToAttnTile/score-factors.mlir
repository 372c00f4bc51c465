// RUN: attn-opt %s --convert-attn-to-attn-tile --split-input-file | FileCheck %s

// A temperature for each head: the exponent's factor is temperature * scale * log2(e), read once for each work item.
// Elements are multiplied by it instead if it is no factor that kernels take: negative, close to zero, large or NaN.
// CHECK-LABEL: attn_tile.kernel @temperature_kernel(
// CHECK-SAME:    %[[T:[^:]*]]: memref<4xf32>)
// CHECK:         scf.forall (%{{.*}}, %[[H:.*]], %{{.*}}) in
// CHECK:           %[[LAST:.*]] = arith.constant 3 : index
// CHECK:           %[[AT:.*]] = arith.minui %[[H]], %[[LAST]]
// CHECK:           %[[F:.*]] = memref.load %[[T]][%[[AT]]]
// CHECK:           %[[ABOVE:.*]] = arith.cmpf oge, %[[F]], %{{.*}} : f32
// CHECK:           %[[MOST:.*]] = arith.constant 4.000000e+00 : f32
// CHECK:           %[[BELOW:.*]] = arith.cmpf ole, %[[F]], %[[MOST]] : f32
// CHECK:           %[[REGULAR:.*]] = arith.andi %[[ABOVE]], %[[BELOW]]
// CHECK:           %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK:           %[[SCALE:.*]] = arith.constant 1.250000e-01 : f32
// CHECK:           %[[SCALED:.*]] = arith.mulf %[[F]], %[[SCALE]] : f32
// CHECK:           %[[LOG2E:.*]] = arith.constant 1.44269{{.*}} : f32
// CHECK:           %[[C:.*]] = arith.mulf %[[SCALED]], %[[LOG2E]] : f32
// CHECK:           %[[LN2:.*]] = arith.constant 0.693147{{.*}} : f32
// CHECK:           %[[SCORE:.*]] = arith.select %[[REGULAR]], %[[SCALED]], %[[LN2]] : f32
// CHECK:           %[[UNIT:.*]] = arith.constant 1.000000e+00 : f32
// CHECK:           %[[EXPONENT:.*]] = arith.select %[[REGULAR]], %[[C]], %[[UNIT]] : f32
// CHECK:           %[[ELEMENT:.*]] = arith.select %[[REGULAR]], %[[ONE]], %[[C]] : f32
// CHECK:           scf.for
// CHECK:             %[[RAW:.*]] = vector.contract
// CHECK-NOT:         attn_tile.map
// CHECK:             %[[FACTORS:.*]] = vector.broadcast %[[ELEMENT]] : f32 to vector<32xf32>
// CHECK:             %[[S:.*]] = attn_tile.rescale %[[RAW]] by %[[FACTORS]]
// CHECK:             %[[MASKED:.*]] = attn_tile.mask %[[S]]
// CHECK-NOT:         attn_tile.subtract_rows
// CHECK:             %[[CS:.*]] = vector.broadcast %[[EXPONENT]] : f32 to vector<32x64xf32>
// CHECK:             math.fma %[[MASKED]], %[[CS]]
// CHECK:           %[[SCORES:.*]] = vector.broadcast %[[SCORE]] : f32 to vector<32xf32>
// CHECK:           %[[MAX:.*]] = arith.mulf %{{.*}}, %[[SCORES]]
// CHECK:           %[[LOG:.*]] = math.log
// CHECK:           arith.addf %[[MAX]], %[[LOG]]
func.func @temperature(%q: memref<1x4x64x64xbf16>, %o: memref<1x4x64x64xbf16>, %l: memref<1x4x64xf32>,
                       %t: memref<4xf32>) {
  attn.attention ins(%q, %q, %q : memref<1x4x64x64xbf16>, memref<1x4x64x64xbf16>, memref<1x4x64x64xbf16>)
      outs(%o, %l : memref<1x4x64x64xbf16>, memref<1x4x64xf32>)
      schedule(#attn_tile.sequential<query_tile = 32, key_tile = 64>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %f = memref.load %t[%h] : memref<4xf32>
        %r = arith.mulf %f, %s : f32
        attn.yield %r : f32
      }
  return
}

// -----

// A factor of each query is no factor of the scale, and neither is one that is added.
// CHECK-LABEL: attn_tile.kernel @of_query_kernel(
// CHECK:         attn_tile.map
// CHECK-NOT:     attn_tile.rescale
// CHECK:         attn_tile.return
func.func @of_query(%q: memref<1x4x64x64xbf16>, %o: memref<1x4x64x64xbf16>, %t: memref<64xf32>) {
  attn.attention ins(%q, %q, %q : memref<1x4x64x64xbf16>, memref<1x4x64x64xbf16>, memref<1x4x64x64xbf16>)
      outs(%o : memref<1x4x64x64xbf16>)
      schedule(#attn_tile.sequential<query_tile = 32, key_tile = 64>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %f = memref.load %t[%i] : memref<64xf32>
        %r = arith.mulf %s, %f : f32
        attn.yield %r : f32
      }
  return
}

// -----

// CHECK-LABEL: attn_tile.kernel @added_kernel(
// CHECK:         attn_tile.map
// CHECK-NOT:     attn_tile.rescale
// CHECK:         attn_tile.return
func.func @added(%q: memref<1x4x64x64xbf16>, %o: memref<1x4x64x64xbf16>, %t: memref<4xf32>) {
  attn.attention ins(%q, %q, %q : memref<1x4x64x64xbf16>, memref<1x4x64x64xbf16>, memref<1x4x64x64xbf16>)
      outs(%o : memref<1x4x64x64xbf16>)
      schedule(#attn_tile.sequential<query_tile = 32, key_tile = 64>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %f = memref.load %t[%h] : memref<4xf32>
        %p = arith.mulf %s, %f : f32
        %r = arith.addf %p, %f : f32
        attn.yield %r : f32
      }
  return
}

// -----

// The square of the score has a factor that varies.
// CHECK-LABEL: attn_tile.kernel @square_kernel(
// CHECK:         attn_tile.map
// CHECK-NOT:     attn_tile.rescale
// CHECK:         attn_tile.return
func.func @square(%q: memref<1x4x64x64xbf16>, %o: memref<1x4x64x64xbf16>) {
  attn.attention ins(%q, %q, %q : memref<1x4x64x64xbf16>, memref<1x4x64x64xbf16>, memref<1x4x64x64xbf16>)
      outs(%o : memref<1x4x64x64xbf16>)
      schedule(#attn_tile.sequential<query_tile = 32, key_tile = 64>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %r = arith.mulf %s, %s : f32
        attn.yield %r : f32
      }
  return
}

// -----

// Packed query heads share the scales of their key head: the number of the group takes the place of the quotient.
// CHECK-LABEL: attn_tile.kernel @packed_kernel(
// CHECK-SAME:    %[[T:[^:]*]]: memref<2xf32>)
// CHECK:         scf.forall (%{{.*}}, %[[GROUP:.*]], %{{.*}}) in
// CHECK:           %[[SIZE:.*]] = arith.constant 1 : index
// CHECK:           %[[SHARED:.*]] = arith.divui %[[GROUP]], %[[SIZE]]
// CHECK:           %[[AT:.*]] = arith.minui %[[SHARED]]
// CHECK:           memref.load %[[T]][%[[AT]]]
// CHECK-NOT:     attn_tile.map
// CHECK:         attn_tile.rescale
func.func @packed(%q: memref<1x8x1x64xbf16>, %k: memref<1x2x256x64xbf16>, %o: memref<1x8x1x64xbf16>,
                  %t: memref<2xf32>) {
  %size = arith.constant 4 : index
  attn.attention ins(%q, %k, %k : memref<1x8x1x64xbf16>, memref<1x2x256x64xbf16>, memref<1x2x256x64xbf16>)
      outs(%o : memref<1x8x1x64xbf16>)
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1,
                                           pack_gqa = true>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %shared = arith.floordivsi %h, %size : index
        %f = memref.load %t[%shared] : memref<2xf32>
        %r = arith.mulf %s, %f : f32
        attn.yield %r : f32
      }
  return
}
