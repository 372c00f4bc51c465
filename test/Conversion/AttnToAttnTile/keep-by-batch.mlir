// RUN: attn-opt %s -convert-attn-to-attn-tile -attn-tile-expand-kv-tile-iterators | FileCheck %s

// What a region reads for each batch bounds the key tiles: it is read once,
// before them, at an index that exists, and clamped to positions.

// CHECK-LABEL: attn_tile.kernel @lengths_kernel
// CHECK:         scf.forall (%[[B:.*]], %{{.*}}, %{{.*}}) in
// CHECK:           %[[ENTRY:.*]] = arith.minui %[[B]], %{{.*}} : index
// CHECK:           %[[LENGTH:.*]] = memref.load %{{.*}}[%[[ENTRY]]] : memref<?xi32>
// CHECK:           %[[BELOW:.*]] = arith.minsi %[[LENGTH]], %{{.*}} : i32
// CHECK:           %[[POSITION:.*]] = arith.maxsi %[[BELOW]], %{{.*}} : i32
// CHECK:           arith.index_cast %[[POSITION]]
// CHECK:           scf.for
func.func @lengths(%q: memref<?x2x?x64xf32>, %x: memref<?xi32>, %out: memref<?x2x?x64xf32>) {
  attn.attention
      ins(%q, %q, %q : memref<?x2x?x64xf32>, memref<?x2x?x64xf32>, memref<?x2x?x64xf32>)
      outs(%out : memref<?x2x?x64xf32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %n = memref.load %x[%b] : memref<?xi32>
        %length = arith.index_cast %n : i32 to index
        %k = arith.cmpi slt, %j, %length : index
        attn.yield %k : i1
      }
  return
}
