// RUN: attn-opt %s --convert-attn-to-attn-tile --split-input-file | FileCheck %s

// Two tiles of 128 queries iterate over the tiles of keys that any of them needs.
// Each loads, masks and stores its own.

// CHECK-LABEL: attn_tile.kernel @causal_kernel(
// CHECK-DAG:     %[[QUERIES:.*]] = arith.constant 256 : index
// CHECK:         scf.forall (%[[B:.*]], %[[H:.*]], %[[I:.*]], %[[R:.*]]) in (%{{.*}}, %{{.*}}, %{{.*}}, 2)
// CHECK:           %[[FIRST:.*]] = arith.muli %[[I]], %{{.*}}
// CHECK:           %[[OFFSET:.*]] = arith.muli %[[R]], %{{.*}}
// CHECK:           %[[ROW:.*]] = arith.addi %[[FIRST]], %[[OFFSET]]
// CHECK:           attn_tile.load %{{.*}}[%[[B]], %[[H]], %[[ROW]], %{{.*}}] stream
// CHECK:           attn_tile.kv_tile_iterator at(%[[B]], %[[H]]) queries(%[[FIRST]], 256) keys(64)
// CHECK:           attn_tile.mask %{{.*}} at(%[[B]], %[[H]], %[[ROW]], %{{.*}})
// CHECK:           attn_tile.store %{{.*}}, %{{.*}}[%[[B]], %[[H]], %[[ROW]], %{{.*}}]
func.func @causal(%q: memref<1x2x?x64xbf16>, %k: memref<1x2x?x64xbf16>, %o: memref<1x2x?x64xbf16>) {
  attn.attention ins(%q, %k, %k : memref<1x2x?x64xbf16>, memref<1x2x?x64xbf16>, memref<1x2x?x64xbf16>)
      outs(%o : memref<1x2x?x64xbf16>) mask(#attn.causal)
      schedule(#attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2, cluster = 2>)
  return
}
