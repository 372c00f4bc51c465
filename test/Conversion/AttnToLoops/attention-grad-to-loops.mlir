// RUN: attn-opt %s --convert-attn-to-loops --canonicalize --split-input-file --verify-diagnostics | FileCheck %s

// One loop over the rows of queries and one over those of keys, which adds up
// the heads of its group.
// CHECK-LABEL: func @grouped
// CHECK-SAME: %[[Q:[a-z0-9]+]]: memref<?x8x?x64xbf16>, %[[K:[a-z0-9]+]]: memref<?x2x?x64xbf16>, %[[V:[a-z0-9]+]]: memref<?x2x?x32xbf16>,
// CHECK-SAME: %[[OUT:[a-z0-9]+]]: memref<?x8x?x32xbf16>, %[[LSE:[a-z0-9]+]]: memref<?x8x?xf32>, %[[DOUT:[a-z0-9]+]]: memref<?x8x?x32xbf16>,
// CHECK-SAME: %[[DQ:[a-z0-9]+]]: memref<?x8x?x64xbf16>, %[[DK:[a-z0-9]+]]: memref<?x2x?x64xf32>, %[[DV:[a-z0-9]+]]: memref<?x2x?x32xbf16>)
// CHECK-DAG: %[[C4:.*]] = arith.constant 4 : index
// CHECK-DAG: %[[SCALE:.*]] = arith.constant 1.250000e-01 : f64
// CHECK-DAG: %[[MINUS_INF:.*]] = arith.constant 0xFFF0000000000000 : f64
// CHECK: scf.parallel (%[[B:.*]], %[[H:.*]], %[[I:.*]]) =
// CHECK:   %[[HK:.*]] = arith.divui %[[H]], %[[C4]]
// CHECK:   %[[DELTA:.*]] = scf.for %[[D:[a-z0-9]+]] =
// CHECK:     memref.load %[[OUT]][%[[B]], %[[H]], %[[I]], %[[D]]]
// CHECK:     memref.load %[[DOUT]][%[[B]], %[[H]], %[[I]], %[[D]]]
// CHECK:   scf.for %[[J:[a-z0-9]+]] =
// CHECK:     %[[DOT:.*]] = scf.for
// CHECK:     %[[S:.*]] = arith.mulf %[[DOT]], %[[SCALE]] : f64
// CHECK:     %[[FINITE:.*]] = arith.cmpf une, %[[S]], %[[MINUS_INF]] : f64
// CHECK:     scf.if %[[FINITE]] {
// CHECK:       %[[L:.*]] = memref.load %[[LSE]][%[[B]], %[[H]], %[[I]]]
// CHECK:       %[[L64:.*]] = arith.extf %[[L]]
// CHECK:       %[[X:.*]] = arith.subf %[[S]], %[[L64]] : f64
// CHECK:       %[[P:.*]] = math.exp %[[X]] : f64
// CHECK:       %[[DP:.*]] = scf.for
// CHECK:       %[[DIFFERENCE:.*]] = arith.subf %[[DP]], %[[DELTA]] : f64
// CHECK:       %[[DS:.*]] = arith.mulf %[[P]], %[[DIFFERENCE]] : f64
// CHECK:       arith.mulf %[[DS]], %[[SCALE]] : f64
// CHECK:       memref.load %[[K]][%[[B]], %[[HK]], %[[J]], %{{.*}}]
// CHECK:   memref.store %{{.*}}, %[[DQ]][%[[B]], %[[H]], %[[I]], %{{.*}}]
// CHECK:   memref.dealloc
// CHECK: scf.parallel (%[[B:.*]], %[[HK:.*]], %[[J:.*]]) =
// CHECK:   %[[FIRST:.*]] = arith.muli %[[HK]], %[[C4]]
// CHECK:   scf.for %[[G:[a-z0-9]+]] = %{{.*}} to %[[C4]]
// CHECK:     %[[H:.*]] = arith.addi %[[FIRST]], %[[G]]
// CHECK:     scf.for %[[I:[a-z0-9]+]] =
// CHECK:       memref.load %[[Q]][%[[B]], %[[H]], %[[I]], %{{.*}}]
// CHECK:   memref.store %{{.*}}, %[[DK]][%[[B]], %[[HK]], %[[J]], %{{.*}}] : memref<?x2x?x64xf32>
// CHECK:   memref.store %{{.*}}, %[[DV]][%[[B]], %[[HK]], %[[J]], %{{.*}}]
// CHECK-COUNT-2: memref.dealloc
// CHECK-NOT: attn.attention_grad
func.func @grouped(%q: memref<?x8x?x64xbf16>, %k: memref<?x2x?x64xbf16>,
                   %v: memref<?x2x?x32xbf16>, %out: memref<?x8x?x32xbf16>,
                   %lse: memref<?x8x?xf32>, %dout: memref<?x8x?x32xbf16>,
                   %dq: memref<?x8x?x64xbf16>, %dk: memref<?x2x?x64xf32>,
                   %dv: memref<?x2x?x32xbf16>) {
  attn.attention_grad
      ins(%q, %k, %v, %out, %lse, %dout : memref<?x8x?x64xbf16>,
          memref<?x2x?x64xbf16>, memref<?x2x?x32xbf16>, memref<?x8x?x32xbf16>,
          memref<?x8x?xf32>, memref<?x8x?x32xbf16>)
      outs(%dq, %dk, %dv : memref<?x8x?x64xbf16>, memref<?x2x?x64xf32>,
           memref<?x2x?x32xbf16>)
  return
}

// -----

// The gradient of the log-sum-exp, a mask, and additions to a destination,
// which the loop over queries makes.
// CHECK-LABEL: func @regions
// CHECK-SAME: %[[DLSE:[a-z0-9]+]]: memref<2x4x8xf32>, %{{[a-z0-9]+}}: memref<2x4x8x16xf32>, %[[DBIAS:[a-z0-9]+]]: memref<8xf32>)
// CHECK: scf.parallel
// CHECK:   %[[LOADED:.*]] = memref.load %[[DLSE]]
// CHECK:   %[[D64:.*]] = arith.extf %[[LOADED]]
// CHECK:   arith.subf %{{.*}}, %[[D64]] : f64
// CHECK:   scf.for %[[D:[a-z0-9]+]] =
// CHECK:   scf.for %[[J:[a-z0-9]+]] =
// CHECK:     %[[KEEP:.*]] = arith.cmpi sle, %[[J]],
// CHECK:     scf.if %[[KEEP]] {
// CHECK:       math.tanh %{{.*}} : f32
// CHECK:       %[[P:.*]] = math.exp %{{.*}} : f64
// CHECK:       %[[DS:.*]] = arith.mulf %[[P]], %{{[^ ]*}} : f64
// CHECK-NEXT:  %[[DS32:.*]] = arith.truncf %[[DS]] : f64 to f32
// CHECK-NEXT:  %[[BOUNDED:.*]] = arith.minui %[[J]], %c7
// CHECK-NEXT:  memref.atomic_rmw addf %[[DS32]], %[[DBIAS]][%[[BOUNDED]]] : (f32, memref<8xf32>) -> f32
// CHECK-NEXT:  %[[NEGATED:.*]] = arith.negf %[[DS32]] : f32
// CHECK-NEXT:  arith.extf %[[NEGATED]] : f32 to f64
// CHECK: scf.parallel
// CHECK-NOT: memref.atomic_rmw
// CHECK: return
func.func @regions(%q: memref<2x4x8x16xf32>, %lse: memref<2x4x8xf32>,
                   %dlse: memref<2x4x8xf32>, %dq: memref<2x4x8x16xf32>,
                   %dbias: memref<8xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q, %dlse : memref<2x4x8x16xf32>,
          memref<2x4x8x16xf32>, memref<2x4x8x16xf32>, memref<2x4x8x16xf32>,
          memref<2x4x8xf32>, memref<2x4x8x16xf32>, memref<2x4x8xf32>)
      outs(%dq, %dq, %dq, %dbias : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>,
           memref<2x4x8x16xf32>, memref<8xf32>)
      mask(#attn.causal<alignment = top_left>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %t = math.tanh %s : f32
        attn.yield %t : f32
      } score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index,
           %g: memref<8xf32>):
        attn.accumulate %ds into %g[%j] : memref<8xf32>
        %n = arith.negf %ds : f32
        attn.yield %n : f32
      }
  return
}

// -----

func.func @tensors(%q: tensor<2x4x8x16xf32>, %lse: tensor<2x4x8xf32>) {
  // expected-error @below {{'attn.attention_grad' op must be bufferised before it is converted to loops}}
  %0:3 = attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
          tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x16xf32>)
      outs(%q, %q, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
           tensor<2x4x8x16xf32>)
      -> tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
  return
}

// -----

// Rows of both sides look for the packed sequence that holds them.
// CHECK-LABEL: func @packed
// CHECK-SAME: %[[CUQ:[a-z0-9]+]]: memref<?xi32>, %[[CUK:[a-z0-9]+]]: memref<?xi32>)
// CHECK: scf.parallel (%[[H:[a-z0-9]+]], %[[ROW:[a-z0-9]+]]) =
// CHECK:   %[[S:.*]] = scf.for
// CHECK:     memref.load %[[CUQ]]
// CHECK:     memref.load %[[CUQ]]
// CHECK:   scf.if
// CHECK:     arith.subi %[[ROW]],
// CHECK: scf.parallel (%[[H:[a-z0-9]+]], %[[ROW:[a-z0-9]+]]) =
// CHECK:   %[[S:.*]] = scf.for
// CHECK:     memref.load %[[CUK]]
// CHECK:     memref.load %[[CUK]]
// CHECK:   scf.if
// CHECK:     arith.subi %[[ROW]],
func.func @packed(%q: memref<1x2x?x8xf32>, %k: memref<1x2x?x8xf32>,
                  %lse: memref<1x2x?xf32>, %cu_q: memref<?xi32>,
                  %cu_k: memref<?xi32>) {
  attn.attention_grad
      ins(%q, %k, %k, %q, %lse, %q : memref<1x2x?x8xf32>, memref<1x2x?x8xf32>,
          memref<1x2x?x8xf32>, memref<1x2x?x8xf32>, memref<1x2x?xf32>,
          memref<1x2x?x8xf32>)
      outs(%q, %k, %k : memref<1x2x?x8xf32>, memref<1x2x?x8xf32>,
           memref<1x2x?x8xf32>)
      sequences packed(%cu_q, %cu_k : memref<?xi32>, memref<?xi32>)
      mask(#attn.causal)
  return
}
