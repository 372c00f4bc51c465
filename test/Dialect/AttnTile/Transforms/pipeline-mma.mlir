// RUN: attn-opt %s -attn-tile-pipeline-mma -split-input-file | FileCheck %s
// RUN: attn-opt %s -attn-tile-pipeline-mma -split-input-file \
// RUN:   --remarks-filter='attn-tile.*' --remark-format=emitRemark 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

// The first MMA has nothing to be added to; the stages of an MMA are
// released when the next one has been started.
// CHECK-LABEL: attn_tile.kernel @chained
// CHECK: %[[P:.*]] = attn_tile.create_pipe : <128x64xbf16
// CHECK: %[[Q:.*]] = attn_tile.create_pipe : <64x256xbf16
// CHECK: %[[A0:.*]] = attn_tile.wait %[[P]][%c0{{.*}}]
// CHECK: %[[B0:.*]] = attn_tile.wait %[[Q]][%c0{{.*}}]
// CHECK: %[[S0:.*]] = attn_tile.mma_start %[[A0]], %[[B0]] : !attn_tile.buffer<128x64xbf16>, <64x256xbf16> -> !attn_tile.pending<vector<128x256xf32>>{{$}}
// CHECK: %[[R:.*]]:3 = scf.for %[[T:.*]] = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%[[S1:.*]] = %[[S0]], %[[B1:.*]] = %[[B0]], %[[A1:.*]] = %[[A0]])
// CHECK-NEXT: %[[A2:.*]] = attn_tile.wait %[[P]][%[[T]]]
// CHECK-NEXT: %[[B2:.*]] = attn_tile.wait %[[Q]][%[[T]]]
// CHECK-NEXT: %[[S2:.*]] = attn_tile.mma_start %[[A2]], %[[B2]] acc %[[S1]] : {{.*}} -> !attn_tile.pending<vector<128x256xf32>> in_flight
// CHECK-NEXT: attn_tile.mma_wait_before %[[S2]]
// CHECK-NEXT: attn_tile.release %[[B1]]
// CHECK-NEXT: attn_tile.release %[[A1]]
// CHECK-NEXT: scf.yield %[[S2]], %[[B2]], %[[A2]]
// CHECK: %[[SUM:.*]] = attn_tile.mma_wait %[[R]]#0
// CHECK-NEXT: attn_tile.release %[[R]]#1
// CHECK-NEXT: attn_tile.release %[[R]]#2
// CHECK-NEXT: attn_tile.store %[[SUM]]
// REMARK: remark: [Passed] PipelineMma | Category:attn-tile-pipeline-mma | Function=chained | Remark="pipelined the MMAs of a loop"
attn_tile.kernel @chained(%n: index, %out: memref<128x256xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : vector<128x256xf32>
  %p = attn_tile.create_pipe : !attn_tile.pipe<128x64xbf16, stages = 4>
  %q = attn_tile.create_pipe : !attn_tile.pipe<64x256xbf16, stages = 4>
  %count = arith.maxui %n, %c1 : index
  %r = scf.for %t = %c0 to %count step %c1 iter_args(%acc = %zero) -> (vector<128x256xf32>) {
    %a = attn_tile.wait %p[%t] : !attn_tile.pipe<128x64xbf16, stages = 4>
    %b = attn_tile.wait %q[%t] : !attn_tile.pipe<64x256xbf16, stages = 4>
    %s = attn_tile.mma_start %a, %b acc %acc
        : !attn_tile.buffer<128x64xbf16>, !attn_tile.buffer<64x256xbf16> -> !attn_tile.pending<vector<128x256xf32>>
    %v = attn_tile.mma_wait %s : !attn_tile.pending<vector<128x256xf32>>
    attn_tile.release %b : !attn_tile.buffer<64x256xbf16>
    attn_tile.release %a : !attn_tile.buffer<128x64xbf16>
    scf.yield %v : vector<128x256xf32>
  }
  attn_tile.store %r, %out[%c0, %c0] : vector<128x256xf32>, memref<128x256xf32>
  attn_tile.return
}

// -----

// CHECK-LABEL: attn_tile.kernel @no_step
// CHECK: scf.for
// CHECK: attn_tile.mma_wait %
// REMARK: remark: [Missed] PipelineMma | {{.*}} | Function=no_step | Remark="the loop may have no step"
attn_tile.kernel @no_step(%n: index, %out: memref<64x64xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : vector<64x64xf32>
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 4>
  %r = scf.for %t = %c0 to %n step %c1 iter_args(%acc = %zero) -> (vector<64x64xf32>) {
    %a = attn_tile.wait %p[%t] : !attn_tile.pipe<64x64xbf16, stages = 4>
    %s = attn_tile.mma_start %a, %a acc %acc
        : !attn_tile.buffer<64x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<64x64xf32>>
    %v = attn_tile.mma_wait %s : !attn_tile.pending<vector<64x64xf32>>
    attn_tile.release %a : !attn_tile.buffer<64x64xbf16>
    scf.yield %v : vector<64x64xf32>
  }
  attn_tile.store %r, %out[%c0, %c0] : vector<64x64xf32>, memref<64x64xf32>
  attn_tile.return
}

// -----

// An MMA whose accumulator is changed in between.
// CHECK-LABEL: attn_tile.kernel @changed
// CHECK: attn_tile.mma_wait %
// REMARK: remark: [Missed] PipelineMma | {{.*}} | Function=changed | Remark="a step is more than one MMA that adds to the result of the last one"
attn_tile.kernel @changed(%out: memref<64x64xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %zero = arith.constant dense<0.0> : vector<64x64xf32>
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 4>
  %r = scf.for %t = %c0 to %c8 step %c1 iter_args(%acc = %zero) -> (vector<64x64xf32>) {
    %a = attn_tile.wait %p[%t] : !attn_tile.pipe<64x64xbf16, stages = 4>
    %twice = arith.addf %acc, %acc : vector<64x64xf32>
    %s = attn_tile.mma_start %a, %a acc %twice
        : !attn_tile.buffer<64x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<64x64xf32>>
    %v = attn_tile.mma_wait %s : !attn_tile.pending<vector<64x64xf32>>
    attn_tile.release %a : !attn_tile.buffer<64x64xbf16>
    scf.yield %v : vector<64x64xf32>
  }
  attn_tile.store %r, %out[%c0, %c0] : vector<64x64xf32>, memref<64x64xf32>
  attn_tile.return
}
