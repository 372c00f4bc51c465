// RUN: attn-opt %s -attn-tile-set-traversal='cluster=2' | FileCheck %s --check-prefixes=CHECK,GRID
// RUN: attn-opt %s -attn-tile-set-traversal='kind=persistent cluster=2' | FileCheck %s --check-prefixes=CHECK,WALK
// RUN: attn-opt %s -attn-tile-set-traversal='kind=paired cluster=2' | FileCheck %s --check-prefixes=CHECK,WALK

// Clusters iterate over the work items; CTAs of a cluster differ in the last index alone.

// CHECK-LABEL: attn_tile.kernel @items
// CHECK-SAME:    %[[A:[a-z0-9]+]]: memref<?x?x8xf16>, %[[N:[a-z0-9]+]]: index) attributes {cluster = 2 : i64} {
// CHECK-NOT:     attn_tile.program_id
// GRID:          %[[RANK:.*]] = attn_tile.cluster_rank
// GRID:          %[[WORK_ITEM:.*]] = attn_tile.cluster_id
// GRID:          %[[TILE:.*]] = arith.remui %[[WORK_ITEM]], %[[N]]
// GRID:          %[[OUTER:.*]] = arith.divui %[[WORK_ITEM]], %[[N]]
// GRID:          %[[I:.*]] = arith.subi %{{.*}}, %[[TILE]]
// GRID:          %[[ROW:.*]] = arith.addi %[[I]], %[[RANK]]
// GRID:          attn_tile.load %[[A]][%[[OUTER]], %[[ROW]], %{{.*}}]
// WALK:          %[[RANK:.*]] = attn_tile.cluster_rank
// WALK:          attn_tile.cluster_id
// WALK:          %[[CLUSTERS:.*]] = attn_tile.num_clusters
// WALK:          arith.divui %{{.*}}, %[[CLUSTERS]]
// WALK:          scf.for
// WALK:            %[[ROW:.*]] = arith.addi %{{.*}}, %[[RANK]]
// WALK:            attn_tile.load %[[A]][%{{.*}}, %[[ROW]], %{{.*}}]
// CHECK-NOT:     attn_tile.program_id
// CHECK-LABEL: func.func @launch
attn_tile.kernel @items(%a: memref<?x?x8xf16>, %n: index) {
  %c0 = arith.constant 0 : index
  %size = memref.dim %a, %c0 : memref<?x?x8xf16>
  scf.forall (%h, %i, %r) in (%size, %n, 2) {
    %row = arith.addi %i, %r : index
    %t = attn_tile.load %a[%h, %row, %c0] : memref<?x?x8xf16> -> vector<16x8xf16>
    attn_tile.store %t, %a[%h, %row, %c0] : vector<16x8xf16>, memref<?x?x8xf16>
  }
  attn_tile.return
}

// A CTA for each work item, as many as are in all clusters.

// CHECK-SAME:    %[[A:[a-z0-9]+]]: memref<?x?x8xf16>, %[[N:[a-z0-9]+]]: index
// CHECK:         %[[SIZE:.*]] = memref.dim %[[A]]
// CHECK:         %[[CLUSTERS:.*]] = arith.muli %[[SIZE]], %[[N]]
// CHECK:         %[[TWO:.*]] = arith.constant 2 : index
// CHECK:         %[[GROUPS:.*]] = arith.muli %[[CLUSTERS]], %[[TWO]]
// CHECK:         attn_tile.launch @items grid(%[[GROUPS]],
func.func @launch(%a: memref<?x?x8xf16>, %n: index) {
  attn_tile.launch @items args(%a, %n : memref<?x?x8xf16>, index)
  return
}
