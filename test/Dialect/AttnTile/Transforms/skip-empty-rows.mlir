// RUN: attn-opt %s -attn-tile-skip-empty-rows -split-input-file | FileCheck %s
// RUN: attn-opt %s -attn-tile-skip-empty-rows -split-input-file --remarks-filter-missed='.*' --remark-format=emitRemark \
// RUN:     2>&1 | FileCheck %s --check-prefix=REMARK

// What a step computes from the result of an MMA is skipped by warps without rows. They convert the values. Scalars and
// copies stay.

// CHECK-LABEL: attn_tile.kernel @step(
// CHECK-SAME:    %{{.*}}: memref<?x64xf8E4M3FN>, %[[OUT:.*]]: memref<8x4x64xf32>, %[[Q:.*]]: vector<64x64xf16>, %[[B:.*]]: index,
// CHECK:         scf.for {{.*}} iter_args(%[[MAX:.*]] = %{{.*}}, %[[ACC:.*]] = %{{.*}})
// CHECK:           %[[S:.*]] = attn_tile.mma_wait
// CHECK-NOT:       math.exp2
// CHECK:           arith.addi
// CHECK:           %[[HAS:.*]] = attn_tile.has_rows below
// CHECK:           %[[R:.*]]:2 = scf.if %[[HAS]] -> (vector<64xf32>, vector<64x64xf16>) {
// CHECK-NEXT:        %[[NEW:.*]] = vector.multi_reduction <maxnumf>, %[[S]], %[[MAX]]
// CHECK-NEXT:        %[[E:.*]] = math.exp2 %[[S]]
// CHECK-NEXT:        %[[P:.*]] = arith.truncf %[[E]]
// CHECK-NEXT:        scf.yield %[[NEW]], %[[P]]
// CHECK-NEXT:      } else {
// CHECK:             scf.yield %[[MAX]], %{{.*}}
// CHECK:           attn_tile.copy
// CHECK:           %[[HAS2:.*]] = attn_tile.has_rows below
// CHECK:           scf.if %[[HAS2]] {
// CHECK-NEXT:      } else {
// CHECK-NEXT:        %[[V:.*]] = attn_tile.wait
// CHECK-NEXT:        attn_tile.convert %[[V]] to %[[V16:.*]][%{{.*}}] from warp 1
// CHECK-NEXT:        attn_tile.release %[[V]]
// CHECK-NEXT:      }
// CHECK:           %[[VC:.*]] = attn_tile.wait %[[V16]]
// CHECK:           attn_tile.mma_start %[[R]]#1, %[[VC]] acc %[[ACC]]
attn_tile.kernel @step(%value: memref<?x64xf8E4M3FN>, %out: memref<8x4x64xf32>, %q: vector<64x64xf16>, %b: index,
    %n: index) {
  %kp = attn_tile.create_pipe : !attn_tile.pipe<64x64xf16, stages = 1>
  %vp = attn_tile.create_pipe : !attn_tile.pipe<64x64xf8E4M3FN, stages = 2>
  %v16 = attn_tile.create_pipe : !attn_tile.pipe<64x64xf16, stages = 1>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : vector<64x64xf32>
  %low = arith.constant dense<0xFF800000> : vector<64xf32>
  %r:2 = scf.for %t = %c0 to %n step %c1 iter_args(%m = %low, %acc = %zero) -> (vector<64xf32>, vector<64x64xf32>) {
    %k = attn_tile.wait %kp[%t] : !attn_tile.pipe<64x64xf16, stages = 1>
    %x = attn_tile.mma_start %q, %k transpose_rhs : vector<64x64xf16>, !attn_tile.buffer<64x64xf16>
        -> !attn_tile.pending<vector<64x64xf32>>
    %s = attn_tile.mma_wait %x : !attn_tile.pending<vector<64x64xf32>>
    attn_tile.release %k : !attn_tile.buffer<64x64xf16>
    %new = vector.multi_reduction <maxnumf>, %s, %m [1] : vector<64x64xf32> to vector<64xf32>
    %e = math.exp2 %s : vector<64x64xf32>
    %i = arith.addi %t, %n : index
    %p = arith.truncf %e : vector<64x64xf32> to vector<64x64xf16>
    %a = attn_tile.acquire %vp[%t] : !attn_tile.pipe<64x64xf8E4M3FN, stages = 2>
    attn_tile.copy %value[%i, %c0] to %a : memref<?x64xf8E4M3FN> to !attn_tile.buffer<64x64xf8E4M3FN>
    attn_tile.commit %a : !attn_tile.buffer<64x64xf8E4M3FN>
    %v = attn_tile.wait %vp[%t] : !attn_tile.pipe<64x64xf8E4M3FN, stages = 2>
    attn_tile.convert %v to %v16[%t] : !attn_tile.buffer<64x64xf8E4M3FN>, !attn_tile.pipe<64x64xf16, stages = 1>
    attn_tile.release %v : !attn_tile.buffer<64x64xf8E4M3FN>
    %vc = attn_tile.wait %v16[%t] : !attn_tile.pipe<64x64xf16, stages = 1>
    %y = attn_tile.mma_start %p, %vc acc %acc : vector<64x64xf16>, !attn_tile.buffer<64x64xf16>
        -> !attn_tile.pending<vector<64x64xf32>>
    %o = attn_tile.mma_wait %y : !attn_tile.pending<vector<64x64xf32>>
    attn_tile.release %vc : !attn_tile.buffer<64x64xf16>
    scf.yield %new, %o : vector<64xf32>, vector<64x64xf32>
  }
  attn_tile.store %r#1, %out[%b, %c0, %c0] : vector<64x64xf32>, memref<8x4x64xf32>
  attn_tile.return
}

// -----

// The number of rows is only known when the kernel runs: work is skipped, and conversions stay with the idle warps.

// CHECK-LABEL: attn_tile.kernel @dynamic(
// CHECK-SAME:    %{{.*}}: vector<64x64xf16>, %[[N:[a-z0-9]+]]: index)
// CHECK:         %[[S:.*]] = attn_tile.mma_wait
// CHECK:         %[[DIM:.*]] = memref.dim %{{.*}}, %{{.*}} : memref<?x64xf32>
// CHECK:         %[[ROWS:.*]] = arith.subi %[[DIM]], %[[N]]
// CHECK:         %[[HAS:.*]] = attn_tile.has_rows below(%[[ROWS]])
// CHECK:         scf.if %[[HAS]]
attn_tile.kernel @dynamic(%out: memref<?x64xf32>, %q: vector<64x64xf16>, %n: index) {
  %kp = attn_tile.create_pipe : !attn_tile.pipe<64x64xf16, stages = 1>
  %c0 = arith.constant 0 : index
  %k = attn_tile.wait %kp[%c0] : !attn_tile.pipe<64x64xf16, stages = 1>
  %x = attn_tile.mma_start %q, %k transpose_rhs : vector<64x64xf16>, !attn_tile.buffer<64x64xf16>
      -> !attn_tile.pending<vector<64x64xf32>>
  %s = attn_tile.mma_wait %x : !attn_tile.pending<vector<64x64xf32>>
  attn_tile.release %k : !attn_tile.buffer<64x64xf16>
  %e = math.exp2 %s : vector<64x64xf32>
  attn_tile.store %e, %out[%n, %c0] : vector<64x64xf32>, memref<?x64xf32>
  attn_tile.return
}

// -----

// CHECK-LABEL: attn_tile.kernel @full(
// CHECK-NOT:     scf.if
// REMARK:        all warps have rows
attn_tile.kernel @full(%out: memref<50x64xf32>, %q: vector<64x64xf16>, %k: !attn_tile.buffer<64x64xf16>) {
  %c0 = arith.constant 0 : index
  %x = attn_tile.mma_start %q, %k transpose_rhs : vector<64x64xf16>, !attn_tile.buffer<64x64xf16>
      -> !attn_tile.pending<vector<64x64xf32>>
  %s = attn_tile.mma_wait %x : !attn_tile.pending<vector<64x64xf32>>
  %e = math.exp2 %s : vector<64x64xf32>
  attn_tile.store %e, %out[%c0, %c0] : vector<64x64xf32>, memref<50x64xf32>
  attn_tile.return
}

// -----

// CHECK-LABEL: attn_tile.kernel @late(
// CHECK-NOT:     scf.if
// REMARK:        the rows of a work item are not known where it begins
attn_tile.kernel @late(%out: memref<?x64xf32>, %q: vector<64x64xf16>, %k: !attn_tile.buffer<64x64xf16>, %n: memref<index>) {
  %c0 = arith.constant 0 : index
  %x = attn_tile.mma_start %q, %k transpose_rhs : vector<64x64xf16>, !attn_tile.buffer<64x64xf16>
      -> !attn_tile.pending<vector<64x64xf32>>
  %s = attn_tile.mma_wait %x : !attn_tile.pending<vector<64x64xf32>>
  %e = math.exp2 %s : vector<64x64xf32>
  %first = memref.load %n[] : memref<index>
  attn_tile.store %e, %out[%first, %c0] : vector<64x64xf32>, memref<?x64xf32>
  attn_tile.return
}

// -----

// CHECK-LABEL: attn_tile.kernel @no_output(
// REMARK:        no tile of the output tells how many rows there are
attn_tile.kernel @no_output() {
  attn_tile.return
}
