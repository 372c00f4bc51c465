// RUN: attn-opt %s --attn-expand-positions --convert-attn-to-attn-tile --split-input-file | FileCheck %s

// The iterator over key tiles and the mask share code that reads the offsets in the kernel.

// CHECK-LABEL: attn_tile.kernel @causal_kernel
// CHECK-SAME:    %[[P:[a-z0-9]+]]: memref<6xi32>)
// CHECK:         attn_tile.kv_tile_iterator
// CHECK:           memref.load %[[P]]
// CHECK:         attn_tile.mask
// CHECK:           memref.load %[[P]]
// CHECK-NOT:     attn_tile.kernel
func.func @causal(%q: memref<1x8x?x64xf32>, %k: memref<1x2x?x64xf32>, %p: memref<6xi32>) {
  attn.attention ins(%q, %k, %k : memref<1x8x?x64xf32>, memref<1x2x?x64xf32>, memref<1x2x?x64xf32>)
      outs(%q : memref<1x8x?x64xf32>) positions(%p : memref<6xi32>) mask(#attn.causal)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>)
  return
}

// -----

// Counters of random numbers are global: of the batch entry and the head for the stream, of queries and keys for the
// words. Another kernel checks before that words begin where the shard does.

// CHECK-LABEL: attn_tile.kernel @dropout_check_positions
// CHECK-SAME:    (%[[P:[a-z0-9]+]]: memref<6xi32>, %[[FLAG:[a-z0-9]+]]: memref<1xi32>)
// CHECK-DAG:     %[[Q0:.*]] = memref.load %[[P]][%c0{{.*}}]
// CHECK-DAG:     %[[K0:.*]] = memref.load %[[P]][%c1{{.*}}]
// CHECK:         %[[BITS:.*]] = arith.ori %[[Q0]], %[[K0]]
// CHECK:         arith.andi %[[BITS]], %c15
// CHECK:         memref.store %c16_i32{{.*}}, %[[FLAG]]

// CHECK-LABEL: attn_tile.kernel @dropout_kernel
// CHECK-SAME:    %[[P:[a-z0-9]+]]: memref<6xi32>)
// CHECK:         scf.forall (%[[B:[a-z0-9]+]], %[[H:[a-z0-9]+]],
// CHECK:           arith.addi %[[B]], %{{.*}} : index
// CHECK:           arith.addi %[[H]], %{{.*}} : index
// CHECK:           scf.for
// CHECK:             %[[QUERY:.*]] = arith.addi %{{.*}}, %{{.*}} : index
// CHECK-NEXT:        %[[KEY:.*]] = arith.addi %{{.*}}, %{{.*}} : index
// CHECK-NEXT:        attn_tile.generate_keep_mask at(%[[QUERY]], %[[KEY]])

// CHECK-LABEL: func.func @dropout(
// CHECK:         attn_tile.launch @dropout_check_positions
// CHECK:         attn_tile.launch @dropout_kernel
func.func @dropout(%q: memref<1x8x?x64xf32>, %k: memref<1x2x?x64xf32>, %p: memref<6xi32>, %seed: i64) {
  attn.attention ins(%q, %k, %k : memref<1x8x?x64xf32>, memref<1x2x?x64xf32>, memref<1x2x?x64xf32>)
      outs(%q : memref<1x8x?x64xf32>) positions(%p : memref<6xi32>)
      dropout(#attn.dropout<p = 0.125, rng = #attn.philox>, %seed, %seed : i64, i64)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>)
  return
}

// -----

// Words have pairs of queries and 16 keys.

// CHECK-LABEL: attn_tile.kernel @mask_dropout_mask
// CHECK:         arith.divui %{{.*}}, %c2
// CHECK:         arith.divui %{{.*}}, %c16
// CHECK-LABEL: func.func @mask(
// CHECK:         attn_tile.launch @mask_check_positions
// CHECK:         attn_tile.launch @mask_dropout_mask
func.func @mask(%bits: memref<1x8x?x?xi32>, %p: memref<6xi32>, %seed: i64) {
  attn.dropout_mask rows by(#attn.dropout<p = 0.125, rng = #attn.philox>, %seed, %seed : i64, i64)
      outs(%bits : memref<1x8x?x?xi32>) positions(%p : memref<6xi32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>)
  return
}
