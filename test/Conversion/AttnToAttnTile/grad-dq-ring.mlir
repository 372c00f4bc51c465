// RUN: attn-opt %s --convert-attn-to-attn-tile | FileCheck %s
// RUN: attn-opt %s --convert-attn-to-attn-tile | attn-opt --verify-roundtrip -o /dev/null

// The dQ accumulator is a ring buffer: places of key heads, which have
// 264 tiles of keys and two more, instead of batch entries and heads.

// Only the accumulators in the ring buffer are cleared.
// CHECK-LABEL: attn_tile.kernel @dq_ring_grad_preprocess_kernel(
// CHECK-SAME:    %[[SUMS:[a-zA-Z0-9_]+]]: memref<?x2x?x128xf32>, %[[COUNTERS:[a-zA-Z0-9_]+]]: memref<?x2xi32>)
// CHECK:         scf.forall (%[[B:.*]], %[[H:.*]], %[[T:.*]]) in
// CHECK:           %[[ROW:.*]] = arith.muli %[[T]]
// CHECK:           %[[KH:.*]] = arith.divui %[[H]], %[[GROUP:.*]] : index
// CHECK:           %[[MEMBER:.*]] = arith.remui %[[H]], %[[GROUP]] : index
// CHECK:           %[[BEFORE:.*]] = arith.muli %[[B]]
// CHECK:           %[[NUMBER:.*]] = arith.addi %[[BEFORE]], %[[KH]] : index
// CHECK:           %[[SLOTS:.*]] = memref.dim %[[SUMS]]
// CHECK:           %[[INRING:.*]] = arith.cmpi ult, %[[NUMBER]], %[[SLOTS]] : index
// CHECK:           scf.if %[[INRING]] {
// CHECK:             attn_tile.store_fragments %{{.*}} to %[[SUMS]][%[[NUMBER]], %[[MEMBER]], %[[ROW]], %{{.*}}]
// CHECK:             attn_tile.thread_for to(
// CHECK:               memref.store %{{.*}}, %[[COUNTERS]][%[[NUMBER]], %{{.*}}]

// Idle warps take half of a tile each, when all tiles of keys of the head
// have been added; but for the last heads.
// CHECK-LABEL: attn_tile.kernel @dq_ring_grad_dkdv_kernel(
// CHECK-SAME:    %[[SUMS:[a-zA-Z0-9_]+]]: memref<?x2x?x128xf32>, %[[COUNTERS:[a-zA-Z0-9_]+]]: memref<?x2xi32>, %[[DQ:[a-zA-Z0-9_]+]]: memref<?x4x?x128xbf16>
// CHECK:         attn_tile.auxiliary_warps registers(24) {
// CHECK:           %[[PLACES:.*]] = memref.dim %[[SUMS]]
// CHECK:           %[[HALF:.*]] = arith.divui %[[PLACES]], %{{.*}} : index
// CHECK:           %[[WORKING:.*]] = arith.addi %[[HALF]]
// CHECK:           %[[LATE:.*]] = arith.minui %[[WORKING]], %[[HEADS:.*]] : index
// CHECK:           %[[EARLY:.*]] = arith.subi %[[HEADS]], %[[LATE]] : index
// CHECK:           scf.forall (%[[NUMBER:.*]], %[[SHARE:.*]]) in (%[[EARLY]], %{{.*}}) {
// CHECK:             %[[SLOT:.*]] = arith.remui %[[NUMBER]], %[[SLOTS:.*]] : index
// CHECK:             %[[ORDINAL:.*]] = arith.divui %[[NUMBER]], %[[SLOTS]] : index
// CHECK:             %[[NEXT:.*]] = arith.addi %[[ORDINAL]], %{{.*}} : index
// CHECK:             %[[ALL:.*]] = arith.muli %[[NEXT]], %{{.*}} : index
// CHECK:             attn_tile.semaphore_wait %[[COUNTERS]][%[[SLOT]], %[[ADDED:.*]]] to(%[[ALL]])
// CHECK:             %[[PART:.*]] = arith.remui %[[SHARE]]
// CHECK:             %[[B:.*]] = arith.divui %[[NUMBER]]
// CHECK:             %[[MEMBER:.*]] = arith.divui
// CHECK:             %[[H:.*]] = arith.addi %{{.*}}, %[[MEMBER]] : index
// CHECK:             attn_tile.convert_dq %[[SUMS]][%[[SLOT]], %[[MEMBER]], %[[ROW:.*]], %{{.*}}] to %[[DQ]][%[[B]], %[[H]], %[[ROW]], %{{[^,]*}}]
// CHECK-SAME:            part(%[[PART]] of 2) times {{.*}} transposed : vector<128x64xf32>
// CHECK:             attn_tile.semaphore_add %[[COUNTERS]][%[[SLOT]], %{{.*}}]

// A place is waited for before anything is loaded, and counted at the end.
// CHECK:         scf.forall
// CHECK:           %[[SLOT:.*]] = arith.remui
// CHECK:           attn_tile.semaphore_wait %[[COUNTERS]][%[[SLOT]], %{{.*}}] to(
// CHECK:           attn_tile.load
// CHECK:           scf.for
// CHECK:             %[[MEMBER:.*]] = arith.divui
// CHECK:             attn_tile.bulk_reduce_add %{{.*}} to %[[SUMS]][%[[SLOT]], %[[MEMBER]], %{{.*}}, %{{.*}}]
// CHECK-COUNT-2:   attn_tile.store
// CHECK-NEXT:      arith.constant
// CHECK-NEXT:      attn_tile.semaphore_add %[[COUNTERS]][%[[SLOT]], %{{.*}}] of additions

// The dQ accumulators of the last heads are left for a kernel.
// CHECK-LABEL: attn_tile.kernel @dq_ring_grad_dq_convert_kernel(
// CHECK:         scf.forall (%[[ID:.*]], %[[MEMBER:.*]], %{{.*}}) in
// CHECK:           %[[NUMBER:.*]] = arith.addi %{{.*}}, %[[ID]] : index
// CHECK:           arith.remui %[[NUMBER]], %{{.*}} : index
// CHECK:           %[[SLOT:.*]] = arith.remui %[[NUMBER]], %{{.*}} : index
// CHECK:           attn_tile.load_fragments %{{.*}}[%[[SLOT]], %[[MEMBER]], %{{.*}}, %{{.*}}]
// CHECK:           attn_tile.store {{.*}} transposed

// CHECK-LABEL: func.func @dq_ring(
// CHECK:         %[[TILES:.*]] = arith.maxui
// CHECK:         %[[WANTED:.*]] = arith.divui %{{.*}}, %[[TILES]] : index
// CHECK:         %[[MORE:.*]] = arith.addi %[[WANTED]], %{{.*}} : index
// CHECK:         %[[PLACES:.*]] = arith.minui %[[MORE]], %{{.*}} : index
// CHECK:         memref.alloc(%[[PLACES]], %{{.*}}) : memref<?x2x?x128xf32>
// CHECK:         memref.alloc(%[[PLACES]]) : memref<?x2xi32>
// CHECK:         attn_tile.launch @dq_ring_grad_preprocess_kernel
// CHECK:         attn_tile.launch @dq_ring_grad_dkdv_kernel
// CHECK:         attn_tile.launch @dq_ring_grad_dq_convert_kernel
// CHECK-COUNT-4: memref.dealloc
func.func @dq_ring(%q: memref<?x4x?x128xbf16>, %k: memref<?x2x?x128xbf16>, %lse: memref<?x4x?xf32>,
                %dq: memref<?x4x?x128xbf16>, %dk: memref<?x2x?x128xbf16>, %dv: memref<?x2x?x128xbf16>) {
  attn.attention_grad
      ins(%q, %k, %k, %q, %lse, %q : memref<?x4x?x128xbf16>, memref<?x2x?x128xbf16>, memref<?x2x?x128xbf16>,
          memref<?x4x?x128xbf16>, memref<?x4x?xf32>, memref<?x4x?x128xbf16>)
      outs(%dq, %dk, %dv : memref<?x4x?x128xbf16>, memref<?x2x?x128xbf16>, memref<?x2x?x128xbf16>)
      mask(#attn.causal)
      schedule(#attn_tile.gradient<
          preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
          dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, traversal = paired,
                                           dq_ring_depth = 264>>)
  return
}
