// RUN: attn-opt %s --convert-attn-to-attn-tile --split-input-file | FileCheck %s

#tiles = #attn_tile.matmul_sequential<row_tile = 16, column_tile = 64, depth_tile = 32>

// CHECK-LABEL: attn_tile.kernel @linear_matmul_kernel
// CHECK-SAME: (%[[X:.*]]: memref<?x?xbf16>, %[[W:.*]]: memref<96x?xbf16>, %[[Y:.*]]: memref<?x96xbf16>, %[[BIAS:.*]]: memref<96xf32>)
// CHECK: %[[M:.*]] = memref.dim %[[Y]], %c0
// CHECK: scf.forall (%[[TI:.*]], %[[TJ:.*]]) in (%{{.*}}, %{{.*}}) {
// CHECK-DAG: %[[I:.*]] = arith.muli %[[TI]], %c16
// CHECK-DAG: %[[J:.*]] = arith.muli %[[TJ]], %c64
// A matmul without depth has one step.
// CHECK: %[[N:.*]] = arith.maxui %{{.*}}, %c1
// CHECK: %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : vector<16x64xf32>
// CHECK: %[[SUM:.*]] = scf.for %[[T:.*]] = %c0{{.*}} to %[[N]] step %c1{{.*}} iter_args(%[[ACC:.*]] = %[[ZERO]])
// CHECK:   %[[K:.*]] = arith.muli %[[T]], %c32
// CHECK:   %[[A:.*]] = attn_tile.load %[[X]][%[[I]], %[[K]]] stream(%[[T]] of %[[N]]) : memref<?x?xbf16> -> vector<16x32xbf16>
// CHECK:   %[[B:.*]] = attn_tile.load %[[W]][%[[J]], %[[K]]] stream(%[[T]] of %[[N]]) : memref<96x?xbf16> -> vector<64x32xbf16>
// CHECK:   %[[P:.*]] = vector.contract {{.*}} %[[A]], %[[B]], %[[ACC]] : vector<16x32xbf16>, vector<64x32xbf16> into vector<16x64xf32>
// CHECK:   scf.yield %[[P]]
// CHECK: %[[MAPPED:.*]] = attn_tile.map %[[SUM]] at(%{{.*}}, %{{.*}}, %[[I]], %[[J]]) lengths(%[[M]], %{{.*}}) : vector<16x64xf32> {
// CHECK: ^bb0(%[[S:.*]]: f32, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %[[COLUMN:.*]]: index):
// CHECK:   %[[E:.*]] = memref.load %[[BIAS]][%[[COLUMN]]]
// CHECK:   %[[R:.*]] = arith.addf %[[S]], %[[E]]
// CHECK:   attn_tile.yield %[[R]]
// CHECK: %[[OUT:.*]] = arith.truncf %[[MAPPED]] : vector<16x64xf32> to vector<16x64xbf16>
// CHECK: attn_tile.store %[[OUT]], %[[Y]][%[[I]], %[[J]]]
// CHECK-LABEL: func.func @linear
// CHECK: attn_tile.launch @linear_matmul_kernel args(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : memref<?x?xbf16>, memref<96x?xbf16>, memref<?x96xbf16>,
// CHECK-SAME:     memref<96xf32>)
func.func @linear(%x: memref<?x?xbf16>, %w: memref<96x?xbf16>, %bias: memref<96xf32>, %y: memref<?x96xbf16>) {
  attn.matmul ins(%x, %w : memref<?x?xbf16>, memref<96x?xbf16>) outs(%y : memref<?x96xbf16>) transpose_rhs
      schedule(#tiles) epilogue {
  ^bb0(%sum: f32, %b: index, %i: index, %j: index):
    %e = memref.load %bias[%j] : memref<96xf32>
    %r = arith.addf %sum, %e : f32
    attn.yield %r : f32
  }
  return
}

// -----

// A batch, of which one input has no part, and an output that is accumulated.
// CHECK-LABEL: attn_tile.kernel @batch_matmul_kernel
// CHECK-SAME: (%[[X:.*]]: memref<?x?x8xf16>, %[[W:.*]]: memref<?x8xf16>, %[[Y:.*]]: memref<?x8x8xf32>)
// CHECK: scf.forall (%[[B:.*]], %{{.*}}, %{{.*}}) in
// CHECK: attn_tile.load %[[X]][%[[B]], %[[K:.*]], %[[I:.*]]] stream({{.*}}) : memref<?x?x8xf16> -> vector<32x16xf16>
// CHECK: attn_tile.load %[[W]][%[[K]], %[[J:.*]]] stream({{.*}}) : memref<?x8xf16> -> vector<32x64xf16>
// CHECK-NOT: attn_tile.map
// CHECK: attn_tile.store %{{.*}}, %[[Y]][%[[B]], %[[I]], %[[J]]] : vector<16x64xf32>
func.func @batch(%x: memref<?x?x8xf16>, %w: memref<?x8xf16>, %y: memref<?x8x8xf32>) {
  attn.matmul ins(%x, %w : memref<?x?x8xf16>, memref<?x8xf16>) outs(%y : memref<?x8x8xf32>) transpose_lhs
      schedule(#attn_tile.matmul_sequential<row_tile = 16, column_tile = 64, depth_tile = 32>)
  return
}
