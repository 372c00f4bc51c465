// RUN: attn-opt %s -attn-tile-overlap-work-items | FileCheck %s

// The first MMA of a work item needs positions in pipes alone; what the mask
// and the loop need is computed while it is in flight.

// CHECK-LABEL: attn_tile.kernel @items
attn_tile.kernel @items(%n: index, %heads: index, %p: vector<128x16xf16>, %out: memref<?x128x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %qs = attn_tile.create_pipe : !attn_tile.pipe<128x64xf16, stages = 2>
  %ks = attn_tile.create_pipe : !attn_tile.pipe<64x64xf16, stages = 2>
  // The producer stays as it is.
  // CHECK:      attn_tile.role producer
  // CHECK-NEXT:   scf.for
  // CHECK-NEXT:     arith.remui
  attn_tile.role producer warpgroups(1) registers(24) {
    scf.for %item = %c0 to %n step %c1 {
      %h = arith.remui %item, %heads : index
      %q = attn_tile.acquire %qs[%h] : !attn_tile.pipe<128x64xf16, stages = 2>
      attn_tile.commit %q : !attn_tile.buffer<128x64xf16>
    }
  }
  // CHECK:      attn_tile.role consumer
  // CHECK-NEXT:   scf.for %[[WORK_ITEM:.*]] = %{{.*}} iter_args(%[[AT:.*]] = %{{.*}})
  // CHECK-NEXT:     %[[NEXT:.*]] = arith.addi %[[AT]]
  // CHECK-NEXT:     %[[Q:.*]] = attn_tile.wait %{{.*}}[%[[WORK_ITEM]]]
  // CHECK-NEXT:     %[[K:.*]] = attn_tile.wait %{{.*}}[%[[NEXT]]]
  // CHECK-NEXT:     attn_tile.clear %[[K]]
  // CHECK-NEXT:     attn_tile.mma_start %[[Q]], %[[K]]
  // CHECK-NEXT:     %[[H:.*]] = arith.remui
  // CHECK-NEXT:     arith.addi %[[H]]
  // CHECK-NEXT:     attn_tile.mma_wait
  attn_tile.role consumer warpgroups(2) registers(240) {
    scf.for %item = %c0 to %n step %c1 iter_args(%at = %c0) -> index {
      %h = arith.remui %item, %heads : index
      %row = arith.addi %h, %c1 : index
      %next = arith.addi %at, %c1 : index
      %q = attn_tile.wait %qs[%item] : !attn_tile.pipe<128x64xf16, stages = 2>
      %k = attn_tile.wait %ks[%next] : !attn_tile.pipe<64x64xf16, stages = 2>
      attn_tile.clear %k within(%at of %n) : !attn_tile.buffer<64x64xf16>
      %s = attn_tile.mma_start %q, %k transpose_rhs : !attn_tile.buffer<128x64xf16>, !attn_tile.buffer<64x64xf16>
          -> !attn_tile.pending<vector<128x64xf32>>
      %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<128x64xf32>>
      attn_tile.release %k : !attn_tile.buffer<64x64xf16>
      attn_tile.release %q : !attn_tile.buffer<128x64xf16>
      attn_tile.store %r, %out[%row, %c0, %c0] : vector<128x64xf32>, memref<?x128x64xf32>
      scf.yield %next : index
    }
  }
  attn_tile.return
}

// A position that must be read from memory takes longer than what would be
// moved behind the MMA.

// CHECK-LABEL: attn_tile.kernel @position_in_memory
// CHECK:         attn_tile.role consumer
// CHECK-NEXT:      scf.for
// CHECK-NEXT:        arith.remui
attn_tile.kernel @position_in_memory(%n: index, %positions: memref<?xindex>, %p: vector<128x16xf16>,
                                     %out: memref<?x128x16xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ks = attn_tile.create_pipe : !attn_tile.pipe<16x16xf16, stages = 2>
  attn_tile.role consumer warpgroups(2) registers(240) {
    scf.for %item = %c0 to %n step %c1 {
      %h = arith.remui %item, %n : index
      %at = memref.load %positions[%item] : memref<?xindex>
      %k = attn_tile.wait %ks[%at] : !attn_tile.pipe<16x16xf16, stages = 2>
      %s = attn_tile.mma_start %p, %k : vector<128x16xf16>, !attn_tile.buffer<16x16xf16>
          -> !attn_tile.pending<vector<128x16xf32>>
      %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<128x16xf32>>
      attn_tile.release %k : !attn_tile.buffer<16x16xf16>
      attn_tile.store %r, %out[%h, %c0, %c0] : vector<128x16xf32>, memref<?x128x16xf32>
    }
  }
  attn_tile.return
}
