// RUN: attn-opt %s --attn-expand-positions --split-input-file | FileCheck %s

// Offsets are added to the arguments that are used. Entries are limited, so that the analysis may rely on them.

// CHECK-LABEL: func @causal
// CHECK-SAME:    %[[P:[a-z0-9]+]]: tensor<6xi32> {attn.name = "positions"})
// CHECK:         attn.attention
// CHECK-NOT:     positions
// CHECK-NOT:     mask(
// CHECK:         mask_mod {
// CHECK-NEXT:    ^bb0(%{{.*}}: index, %{{.*}}: index, %[[I:.*]]: index, %[[J:.*]]: index):
// CHECK:           %[[FIRST_QUERY:.*]] = tensor.extract %[[P]][%c0{{.*}}]
// CHECK-NEXT:      %[[LARGEST:.*]] = arith.constant 268435455 : i32
// CHECK-NEXT:      %[[LIMITED:.*]] = arith.minui %[[FIRST_QUERY]], %[[LARGEST]]
// CHECK-NEXT:      %[[Q0:.*]] = arith.index_castui %[[LIMITED]] : i32 to index
// CHECK-NEXT:      %[[QUERY:.*]] = arith.addi %[[I]], %[[Q0]]
// CHECK:           tensor.extract %[[P]][%c1{{.*}}]
// CHECK:           %[[K0:.*]] = arith.index_castui
// CHECK-NEXT:      %[[KEY:.*]] = arith.addi %[[J]], %[[K0]]
// CHECK-NOT:       tensor.extract %[[P]][%c{{[23]}}
// CHECK:           tensor.extract %[[P]][%c4{{.*}}]
// CHECK:           %[[QUERIES:.*]] = arith.index_castui
// CHECK:           tensor.extract %[[P]][%c5{{.*}}]
// CHECK:           %[[KEYS:.*]] = arith.index_castui
// CHECK:           %[[SHIFT:.*]] = arith.subi %[[KEYS]], %[[QUERIES]]
// CHECK:           %[[LAST:.*]] = arith.addi %[[QUERY]], %[[SHIFT]]
// CHECK:           %[[KEPT:.*]] = arith.cmpi sle, %[[KEY]], %[[LAST]]
// CHECK:           attn.yield %[[KEPT]]
func.func @causal(%q: tensor<?x8x?x64xbf16>, %p: tensor<6xi32>) -> tensor<?x8x?x64xbf16> {
  %0 = attn.attention ins(%q, %q, %q : tensor<?x8x?x64xbf16>, tensor<?x8x?x64xbf16>, tensor<?x8x?x64xbf16>)
      outs(%q : tensor<?x8x?x64xbf16>) positions(%p : tensor<6xi32>) mask(#attn.causal) -> tensor<?x8x?x64xbf16>
  return %0 : tensor<?x8x?x64xbf16>
}

// -----

// Regions see global coordinates, and the random numbers keep the positions. Positions with a name keep it.

// CHECK-LABEL: func @regions
// CHECK-SAME:    %[[P:[a-z0-9]+]]: memref<6xi32> {attn.name = "where"}
// CHECK:         attn.attention
// CHECK-SAME:    positions(%[[P]] : memref<6xi32>) dropout_only
// CHECK-NOT:     mask(
// CHECK:         score_mod {
// CHECK:         ^bb0(%[[S:.*]]: f32, %{{.*}}: index, %[[H:.*]]: index, %{{.*}}: index, %{{.*}}: index):
// CHECK:           memref.load %[[P]][%c3
// CHECK:           %[[H0:.*]] = arith.index_castui
// CHECK-NEXT:      %[[HEAD:.*]] = arith.addi %[[H]], %[[H0]]
// CHECK-NEXT:      memref.load %{{.*}}[%[[HEAD]]] : memref<32xf32>
// CHECK:         mask_mod {
// CHECK:           %[[BATCH:.*]] = arith.addi
// CHECK:           %[[QUERY:.*]] = arith.addi
// CHECK:           %[[KEY:.*]] = arith.addi
// CHECK:           %[[SAME:.*]] = arith.cmpi eq, %[[BATCH]], %[[QUERY]]
// CHECK:           %[[LOWER:.*]] = arith.cmpi sle, %[[KEY]], %[[QUERY]]
// CHECK:           %[[BOTH:.*]] = arith.andi %[[SAME]], %[[LOWER]]
// CHECK:           attn.yield %[[BOTH]]
func.func @regions(%q: memref<?x8x?x64xbf16>, %p: memref<6xi32> {attn.name = "where"}, %slopes: memref<32xf32>,
                   %seed: i64) {
  attn.attention ins(%q, %q, %q : memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>)
      outs(%q : memref<?x8x?x64xbf16>) positions(%p : memref<6xi32>) mask(#attn.causal<alignment = top_left>)
      dropout(#attn.dropout<p = 0.125, rng = #attn.philox>, %seed, %seed : i64, i64)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = memref.load %slopes[%h] : memref<32xf32>
        %y = arith.mulf %s, %x : f32
        attn.yield %y : f32
      } mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %same = arith.cmpi eq, %b, %i : index
        attn.yield %same : i1
      }
  return
}

// -----

// The gradient of the score_mod sees them, too. Each argument gets a name of its own.

// CHECK-LABEL: func @gradient
// CHECK-SAME:    %{{.*}}: memref<6xi32> {attn.name = "positions"}, %[[P:[a-z0-9]+]]: memref<6xi32> {attn.name = "positions1"}
// CHECK:         attn.attention_grad
// CHECK:         score_mod_grad {
// CHECK:           memref.load %[[P]][%c1
// CHECK:           %[[K0:.*]] = arith.index_castui
// CHECK-NEXT:      %[[KEY:.*]] = arith.addi %{{.*}}, %[[K0]]
// CHECK-NEXT:      attn.accumulate %{{.*}} into %{{.*}}[%[[KEY]]]
func.func @gradient(%q: memref<?x8x?x64xf32>, %l: memref<?x8x?xf32>, %other: memref<6xi32> {attn.name = "positions"},
                    %p: memref<6xi32>, %bias: memref<?xf32>, %dbias: memref<?xf32>) {
  attn.attention_grad ins(%q, %q, %q, %q, %l, %q : memref<?x8x?x64xf32>, memref<?x8x?x64xf32>, memref<?x8x?x64xf32>,
          memref<?x8x?x64xf32>, memref<?x8x?xf32>, memref<?x8x?x64xf32>)
      outs(%q, %q, %q, %dbias : memref<?x8x?x64xf32>, memref<?x8x?x64xf32>, memref<?x8x?x64xf32>, memref<?xf32>)
      positions(%p : memref<6xi32>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = memref.load %bias[%j] : memref<?xf32>
        %y = arith.addf %s, %x : f32
        attn.yield %y : f32
      } score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index, %db: memref<?xf32>):
        attn.accumulate %ds into %db[%j] : memref<?xf32>
        attn.yield %ds : f32
      }
  return
}

// -----

// Nothing is left to do where positions are for random numbers alone.

// CHECK-LABEL: func @dropout_only
// CHECK:         positions(%{{.*}} : memref<6xi32>) dropout_only mask(#attn.causal)
func.func @dropout_only(%q: memref<?x8x?x64xbf16>, %p: memref<6xi32>, %seed: i64) {
  attn.attention ins(%q, %q, %q : memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>)
      outs(%q : memref<?x8x?x64xbf16>) positions(%p : memref<6xi32>) dropout_only mask(#attn.causal)
      dropout(#attn.dropout<p = 0.125, rng = #attn.philox>, %seed, %seed : i64, i64)
  return
}
