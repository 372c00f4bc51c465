// RUN: attn-opt %s -attn-tile-ping-pong | FileCheck %s
// RUN: attn-opt %s -attn-tile-ping-pong -attn-tile-ping-pong \
// RUN:   --remarks-filter='attn-tile.*' --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=AGAIN

// AGAIN:         Function=turns | Remark="no consumer role has several warpgroups without ping-pong"
// AGAIN-LABEL:   attn_tile.kernel @turns
// AGAIN-COUNT-2: attn_tile.pingpong_wait
// AGAIN-NOT:     attn_tile.pingpong_wait

// One turn for the two MMAs that are in flight together, in the loop; the
// MMA after it has its own.

// CHECK-LABEL: attn_tile.kernel @turns
attn_tile.kernel @turns(%p: vector<128x16xf16>, %n: index) {
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<16x16xf16, stages = 2>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  attn_tile.role consumer warpgroups(2) registers(240) {
    // CHECK:      scf.for
    // CHECK-NEXT:   attn_tile.wait
    // CHECK-NEXT:   attn_tile.pingpong_wait
    // CHECK-NEXT:   %[[S0:.*]] = attn_tile.mma_start
    // CHECK-NEXT:   attn_tile.wait
    // CHECK-NEXT:   %[[S1:.*]] = attn_tile.mma_start
    // CHECK-NEXT:   attn_tile.pingpong_arrive
    // CHECK-NEXT:   attn_tile.mma_wait %[[S0]]
    // CHECK:        attn_tile.mma_wait %[[S1]]
    scf.for %t = %c0 to %n step %c1 {
      %a = attn_tile.wait %pipe[%t] : !attn_tile.pipe<16x16xf16, stages = 2>
      %s0 = attn_tile.mma_start %p, %a : vector<128x16xf16>, !attn_tile.buffer<16x16xf16>
          -> !attn_tile.pending<vector<128x16xf32>>
      %b = attn_tile.wait %pipe[%t] : !attn_tile.pipe<16x16xf16, stages = 2>
      %s1 = attn_tile.mma_start %p, %b : vector<128x16xf16>, !attn_tile.buffer<16x16xf16>
          -> !attn_tile.pending<vector<128x16xf32>>
      %r0 = attn_tile.mma_wait %s0 : !attn_tile.pending<vector<128x16xf32>>
      attn_tile.release %a : !attn_tile.buffer<16x16xf16>
      %r1 = attn_tile.mma_wait %s1 : !attn_tile.pending<vector<128x16xf32>>
      attn_tile.release %b : !attn_tile.buffer<16x16xf16>
    }
    // CHECK:      attn_tile.wait
    // CHECK-NEXT: attn_tile.pingpong_wait
    // CHECK-NEXT: attn_tile.mma_start
    // CHECK-NEXT: attn_tile.pingpong_arrive
    // CHECK-NEXT: attn_tile.mma_wait
    %a = attn_tile.wait %pipe[%n] : !attn_tile.pipe<16x16xf16, stages = 2>
    %s = attn_tile.mma_start %p, %a : vector<128x16xf16>, !attn_tile.buffer<16x16xf16>
        -> !attn_tile.pending<vector<128x16xf32>>
    %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<128x16xf32>>
    attn_tile.release %a : !attn_tile.buffer<16x16xf16>
  }
  attn_tile.return
}

// No other warpgroup to alternate with.

// CHECK-LABEL: attn_tile.kernel @alone
// CHECK-NOT:     attn_tile.pingpong_wait
attn_tile.kernel @alone(%p: vector<64x16xf16>) {
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<16x16xf16, stages = 2>
  %c0 = arith.constant 0 : index
  attn_tile.role consumer warpgroups(1) registers(240) {
    %a = attn_tile.wait %pipe[%c0] : !attn_tile.pipe<16x16xf16, stages = 2>
    %s = attn_tile.mma_start %p, %a : vector<64x16xf16>, !attn_tile.buffer<16x16xf16>
        -> !attn_tile.pending<vector<64x16xf32>>
    %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<64x16xf32>>
    attn_tile.release %a : !attn_tile.buffer<16x16xf16>
  }
  attn_tile.return
}
