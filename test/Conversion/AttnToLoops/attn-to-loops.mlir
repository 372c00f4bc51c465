// RUN: attn-opt %s --convert-attn-to-loops --canonicalize --split-input-file --verify-diagnostics | FileCheck %s

// CHECK-LABEL: func @grouped
// CHECK-SAME: (%[[Q:.*]]: memref<?x8x?x64xbf16, strided<[?, ?, ?, ?], offset: ?>>, %[[K:.*]]: memref<?x2x?x64xbf16>, %[[V:.*]]: memref<?x2x?x32xbf16>,
// CHECK-SAME: %[[OUT:.*]]: memref<?x8x?x32xbf16>)
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG: %[[C1:.*]] = arith.constant 1 : index
// CHECK-DAG: %[[C2:.*]] = arith.constant 2 : index
// CHECK-DAG: %[[C4:.*]] = arith.constant 4 : index
// CHECK-DAG: %[[C8:.*]] = arith.constant 8 : index
// CHECK-DAG: %[[C32:.*]] = arith.constant 32 : index
// CHECK-DAG: %[[C64:.*]] = arith.constant 64 : index
// CHECK-DAG: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f64
// CHECK-DAG: %[[MINUS_INF:.*]] = arith.constant 0xFFF0000000000000 : f64
// CHECK-DAG: %[[SCALE:.*]] = arith.constant 1.250000e-01 : f64
// CHECK-DAG: %[[BATCH:.*]] = memref.dim %[[Q]], %[[C0]]
// CHECK-DAG: %[[SQ:.*]] = memref.dim %[[Q]], %[[C2]]
// CHECK-DAG: %[[SKV:.*]] = memref.dim %[[K]], %[[C2]]
// CHECK: scf.parallel (%[[B:.*]], %[[H:.*]], %[[I:.*]]) = (%[[C0]], %[[C0]], %[[C0]]) to (%[[BATCH]], %[[C8]], %[[SQ]]) step (%[[C1]], %[[C1]], %[[C1]]) {
// CHECK:   %[[HK:.*]] = arith.divui %[[H]], %[[C4]]
// CHECK-DAG: %[[ROW:.*]] = memref.alloc() : memref<64xf64>
// CHECK-DAG: %[[SCORES:.*]] = memref.alloc(%[[SKV]]) : memref<?xf64>
// CHECK-DAG: %[[ACC:.*]] = memref.alloc() : memref<32xf64>
// CHECK:   scf.for %[[D:.*]] = %[[C0]] to %[[C64]]
// CHECK:     memref.load %[[Q]][%[[B]], %[[H]], %[[I]], %[[D]]]
// CHECK:     arith.extf {{.*}} : bf16 to f64
// CHECK:     memref.store %{{.*}}[%[[D]]]
// CHECK:   %[[MAX:.*]] = scf.for %[[J:.*]] = %[[C0]] to %[[SKV]] step %[[C1]] iter_args(%[[M:.*]] = %[[MINUS_INF]]) -> (f64) {
// CHECK:     %[[DOT:.*]] = scf.for %[[D:.*]] = %[[C0]] to %[[C64]] step %[[C1]] iter_args(%{{.*}} = %[[ZERO]]) -> (f64) {
// CHECK:       memref.load %[[K]][%[[B]], %[[HK]], %[[J]], %[[D]]]
// CHECK:     %[[S:.*]] = arith.mulf %[[DOT]], %[[SCALE]] : f64
// CHECK:     memref.store %[[S]], %{{.*}}[%[[J]]]
// CHECK:     arith.maximumf %[[M]], %[[S]] : f64
// CHECK:   %[[SUM:.*]] = scf.for %[[J:.*]] = %[[C0]] to %[[SKV]] step %[[C1]] iter_args(%[[L:.*]] = %[[ZERO]]) -> (f64) {
// CHECK:     %[[S:.*]] = memref.load
// CHECK:     %[[ATTENDED:.*]] = arith.cmpf une, %[[S]], %[[MINUS_INF]] : f64
// CHECK:     scf.if %[[ATTENDED]] -> (f64) {
// CHECK:       %[[X:.*]] = arith.subf %[[S]], %[[MAX]] : f64
// CHECK:       %[[P:.*]] = math.exp %[[X]] : f64
// CHECK:       scf.for %[[D:.*]] = %[[C0]] to %[[C32]]
// CHECK:         memref.load %[[V]][%[[B]], %[[HK]], %[[J]], %[[D]]]
// CHECK:       arith.addf %[[L]], %[[P]] : f64
// CHECK:   %[[EMPTY:.*]] = arith.cmpf oeq, %[[SUM]], %[[ZERO]] : f64
// CHECK:   scf.for %[[D:.*]] = %[[C0]] to %[[C32]]
// CHECK:     %[[QUOTIENT:.*]] = arith.divf %{{.*}}, %[[SUM]] : f64
// CHECK:     %[[RESULT:.*]] = arith.select %[[EMPTY]], %[[ZERO]], %[[QUOTIENT]] : f64
// CHECK:     %[[ROUNDED:.*]] = arith.truncf %[[RESULT]] : f64 to bf16
// CHECK:     memref.store %[[ROUNDED]], %[[OUT]][%[[B]], %[[H]], %[[I]], %[[D]]]
// CHECK-COUNT-3: memref.dealloc
// CHECK-NOT: attn.attention
func.func @grouped(%q: memref<?x8x?x64xbf16, strided<[?, ?, ?, ?], offset: ?>>,
                   %k: memref<?x2x?x64xbf16>, %v: memref<?x2x?x32xbf16>,
                   %out: memref<?x8x?x32xbf16>) {
  attn.attention
      ins(%q, %k, %v : memref<?x8x?x64xbf16, strided<[?, ?, ?, ?], offset: ?>>,
          memref<?x2x?x64xbf16>, memref<?x2x?x32xbf16>)
      outs(%out : memref<?x8x?x32xbf16>)
  return
}

// -----

// The score_mod region runs in f32; the mask and the mask_mod region are both asked.
// CHECK-LABEL: func @regions
// CHECK-SAME: %[[BIAS:[a-z0-9]+]]: memref<?x?xf32>, %[[LENGTHS:[a-z0-9]+]]: memref<2xi32>)
// CHECK: scf.parallel (%[[B:.*]], %[[H:.*]], %[[I:.*]]) =
// CHECK-NOT: arith.divui
// CHECK: scf.for %[[J:.*]] = %{{.*}} iter_args
// CHECK:   %[[CAUSAL:.*]] = arith.cmpi sle, %[[J]], %{{.*}} : index
// CHECK:   %[[ENTRY:.*]] = arith.minui %[[B]], %c1
// CHECK:   %[[LENGTH:.*]] = memref.load %[[LENGTHS]][%[[ENTRY]]]
// CHECK:   %[[SHORT:.*]] = arith.cmpi slt, %[[J]], %{{.*}} : index
// CHECK:   %[[KEEP:.*]] = arith.andi %[[CAUSAL]], %[[SHORT]] : i1
// CHECK:   scf.if %[[KEEP]] -> (f64) {
// CHECK:     %[[S32:.*]] = arith.truncf %{{.*}} : f64 to f32
// CHECK:     %[[ROW:.*]] = arith.minui %[[I]], %{{.*}}
// CHECK:     %[[COLUMN:.*]] = arith.minui %[[J]], %{{.*}}
// CHECK:     %[[X:.*]] = scf.if
// CHECK:       memref.load %[[BIAS]][%[[ROW]], %[[COLUMN]]]
// CHECK:     else
// CHECK:       scf.yield %{{.*}} : f32
// CHECK:     %[[T:.*]] = arith.addf %[[S32]], %[[X]] : f32
// CHECK:     %[[S64:.*]] = arith.extf %[[T]] : f32 to f64
// CHECK:     scf.yield %[[S64]] : f64
// CHECK:   } else {
// CHECK:     scf.yield %{{.*}} : f64
// CHECK: math.log
// CHECK: memref.store %{{.*}}, %{{.*}}[%[[B]], %[[H]], %[[I]]] : memref<2x4x8xf32>
func.func @regions(%q: memref<2x4x8x16xf32>, %out: memref<2x4x8x16xf32>,
                   %lse: memref<2x4x8xf32>, %bias: memref<?x?xf32>,
                   %lengths: memref<2xi32>) {
  attn.attention
      ins(%q, %q, %q : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>,
          memref<2x4x8x16xf32>)
      outs(%out, %lse : memref<2x4x8x16xf32>, memref<2x4x8xf32>)
      mask(#attn.causal<alignment = top_left>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = memref.load %bias[%i, %j] : memref<?x?xf32>
        %t = arith.addf %s, %x : f32
        attn.yield %t : f32
      } mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %length = memref.load %lengths[%b] : memref<2xi32>
        %l = arith.index_cast %length : i32 to index
        %c = arith.cmpi slt, %j, %l : index
        attn.yield %c : i1
      }
  return
}

// -----

func.func @tensors(%q: tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32> {
  // expected-error @below {{'attn.attention' op must be bufferised before it is converted to loops}}
  %0 = attn.attention
      ins(%q, %q, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
          tensor<2x4x8x16xf32>)
      outs(%q : tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32>
  return %0 : tensor<2x4x8x16xf32>
}

// -----

// Each stored row looks for the packed sequence that holds it.

// CHECK-LABEL: func.func @packed(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: memref<1x2x?x8xf32>, %[[K:[a-z0-9]+]]: memref<1x1x?x8xf32>, %[[CUQ:[a-z0-9]+]]: memref<?xi32>,
// CHECK-SAME: %[[CUK:[a-z0-9]+]]: memref<?xi32>
// CHECK: scf.parallel (%[[H:.*]], %[[ROW:.*]]) =
// CHECK: %[[S:.*]] = scf.for %[[I:.*]] = %{{.*}} to %[[N:.*]] step %{{.*}} iter_args(%[[FOUND:.*]] = %[[N]])
// CHECK: scf.yield
// CHECK: %[[EXISTS:.*]] = arith.cmpi slt, %[[S]], %[[N]]
// CHECK: scf.if %[[EXISTS]] {
// CHECK: memref.load %[[CUQ]][%[[S]]]
// CHECK: memref.load %[[CUK]][%[[S]]]
// CHECK: %[[QUERY:.*]] = arith.subi %[[ROW]], %[[BEGIN:.*]] :
// CHECK: memref.load %[[Q]][%{{.*}}, %[[H]], %[[ROW]],
// CHECK: scf.for %[[J:[a-z0-9]+]] = %{{.*}} iter_args
// CHECK: arith.cmpi sle, %[[J]],
func.func @packed(%q: memref<1x2x?x8xf32>, %k: memref<1x1x?x8xf32>,
                  %cu_q: memref<?xi32>, %cu_k: memref<?xi32>, %o: memref<1x2x?x8xf32>) {
  attn.attention
      ins(%q, %k, %k : memref<1x2x?x8xf32>, memref<1x1x?x8xf32>, memref<1x1x?x8xf32>)
      outs(%o : memref<1x2x?x8xf32>)
      sequences packed(%cu_q, %cu_k : memref<?xi32>, memref<?xi32>)
      mask(#attn.causal)
  return
}

// -----

// CHECK-LABEL: func.func @padded(
// CHECK: scf.parallel (%[[B:.*]], %{{.*}}, %[[ROW:.*]]) =
// CHECK: %[[L:.*]] = memref.load %{{.*}}[%[[B]]] : memref<?xi32>
// CHECK: %[[LENGTH:.*]] = arith.index_cast %[[L]]
// CHECK: %[[EXISTS:.*]] = arith.cmpi slt, %[[ROW]], %[[LENGTH]]
// CHECK: scf.if %[[EXISTS]] {
func.func @padded(%q: memref<?x2x?x8xf32>, %len_q: memref<?xi32>, %len_k: memref<?xi32>,
                  %o: memref<?x2x?x8xf32>) {
  attn.attention
      ins(%q, %q, %q : memref<?x2x?x8xf32>, memref<?x2x?x8xf32>, memref<?x2x?x8xf32>)
      outs(%o : memref<?x2x?x8xf32>)
      sequences padded(%len_q, %len_k : memref<?xi32>, memref<?xi32>)
  return
}

// -----

// The normaliser is the sum of all exponentials; the output has the kept ones.
// CHECK-LABEL: func @dropout
// CHECK-SAME:    %[[SEED:[a-z0-9]+]]: memref<i64>
// CHECK-DAG:     %[[FACTOR:.*]] = arith.constant 2.000000e+00 : f64
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant 0.000000e+00 : f64
// CHECK:         memref.load %[[SEED]][]
// CHECK:         %[[P:.*]] = math.exp %{{.*}} : f64
// CHECK:         %[[KEPT:.*]] = arith.trunci %{{.*}} : i32 to i1
// CHECK:         %[[SCALED:.*]] = arith.mulf %[[P]], %[[FACTOR]] : f64
// CHECK:         %[[WEIGHT:.*]] = arith.select %[[KEPT]], %[[SCALED]], %[[ZERO]] : f64
// CHECK:         arith.mulf %[[WEIGHT]], %{{.*}} : f64
// CHECK:         arith.addf %{{.*}}, %[[P]] : f64
func.func @dropout(%q: memref<1x1x?x16xf32>, %out: memref<1x1x?x16xf32>, %seed: memref<i64>) {
  attn.attention
      ins(%q, %q, %q : memref<1x1x?x16xf32>, memref<1x1x?x16xf32>, memref<1x1x?x16xf32>)
      outs(%out : memref<1x1x?x16xf32>)
      dropout(#attn.dropout<p = 0.5, rng = #attn.arx>, %seed, %seed : memref<i64>, memref<i64>)
  return
}
