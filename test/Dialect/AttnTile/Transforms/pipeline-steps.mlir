// RUN: attn-opt %s -attn-tile-pipeline-steps -canonicalize -cse --split-input-file | FileCheck %s
// RUN: attn-opt %s -attn-tile-pipeline-steps --split-input-file \
// RUN:   --remarks-filter='attn-tile.*' --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK

// A step of the gradients of keys and values: scores and gradients of probabilities,
// the MMA of the probabilities, the gradients of the scores, which are shared, and
// their MMAs.

// REMARK:        Function=step | Remark="begins the next step early"

// CHECK-LABEL: attn_tile.kernel @step(
// CHECK-SAME:    %[[N:.*]]: index, %[[K:.*]]: !attn_tile.buffer
// CHECK:         %[[ANY:.*]] = arith.cmpi sgt, %[[N]], %{{.*}}
// CHECK:         %[[ALL:.*]]:2 = scf.if %[[ANY]]
//
// The part of the first step that can run alone.
// CHECK:           %[[Q0:.*]] = attn_tile.wait %[[QP:.*]][
// CHECK-NEXT:      %[[S0:.*]] = attn_tile.mma_start %[[K]], %[[Q0]] transpose_rhs
// CHECK-NEXT:      %[[O0:.*]] = attn_tile.wait
// CHECK-NEXT:      %[[DP0:.*]] = attn_tile.mma_start %[[K]], %[[O0]] transpose_rhs
// CHECK-NEXT:      %[[R0:.*]] = attn_tile.mma_wait %[[S0]]
// CHECK:           attn_tile.read
// CHECK:           %[[P0:.*]] = math.exp2
// CHECK-NOT:       attn_tile.release
// CHECK:           %[[LOOP:.*]]:{{.*}} = scf.for {{.*}}iter_args(%[[DK:[^ ]+]] = %{{[^ ]+}}, %[[DV:[^ ]+]] = %{{[^ ]+}}, {{.*}}%[[P:[^ ]+]] = %[[P0]],
//
// The MMAs of this step and, between them, those of the next one.
// CHECK:             %[[G:.*]] = attn_tile.mma_wait
// CHECK:             %[[PT:.*]] = arith.truncf %[[P]]
// CHECK-NEXT:        %[[DV1:.*]] = attn_tile.mma_start %[[PT]], %{{.*}} acc %[[DV]]
// CHECK-NEXT:        %[[DS:.*]] = arith.mulf %[[P]], %[[G]]
// CHECK-NEXT:        %[[DST:.*]] = arith.truncf %[[DS]]
// CHECK-NEXT:        %[[SHARED:.*]] = attn_tile.local_store %[[DST]]
// CHECK-NEXT:        %[[DVR:.*]] = attn_tile.mma_wait %[[DV1]]
// CHECK-NEXT:        attn_tile.release %{{.*}} : <1x64xf32>
// CHECK-NEXT:        attn_tile.release %{{.*}} : <64x64xbf16>
// CHECK-NEXT:        %[[DQ:.*]] = attn_tile.mma_start %[[K]], %[[SHARED]] transpose_lhs
// CHECK:             %[[Q1:.*]] = attn_tile.wait %[[QP]]
// CHECK-NEXT:        %[[S1:.*]] = attn_tile.mma_start %[[K]], %[[Q1]] transpose_rhs
// CHECK-NEXT:        %[[DK1:.*]] = attn_tile.mma_start %[[DST]], %{{.*}} acc %[[DK]]
// CHECK-NEXT:        %[[DQR:.*]] = attn_tile.mma_wait %[[DQ]]
// CHECK-NEXT:        %[[PACKED:.*]] = attn_tile.stage_fragments %[[DQR]]
// CHECK-NEXT:        %[[O1:.*]] = attn_tile.wait
// CHECK-NEXT:        %[[DP1:.*]] = attn_tile.mma_start %[[K]], %[[O1]] transpose_rhs
// CHECK-NEXT:        %[[R1:.*]] = attn_tile.mma_wait %[[S1]]
// CHECK:             attn_tile.read
// CHECK:             %[[P1:.*]] = math.exp2
// CHECK-NEXT:        %[[DKR:.*]] = attn_tile.mma_wait %[[DK1]]
// CHECK-NEXT:        attn_tile.release
// CHECK:             attn_tile.bulk_reduce_add %[[PACKED]]
// CHECK:             scf.yield %[[DKR]], %[[DVR]], {{.*}}%[[P1]]
//
// The rest of the last step. There was one, so nothing is selected.
// CHECK:           attn_tile.mma_wait
// CHECK:           attn_tile.mma_start %{{.*}} acc %[[LOOP]]#1
// CHECK:           attn_tile.local_store
// CHECK:           attn_tile.mma_start %{{.*}} acc %[[LOOP]]#0
// CHECK-NOT:       arith.select
// CHECK-NOT:       math.exp2
// CHECK:           scf.yield
// CHECK:         } else {
// CHECK-NEXT:      scf.yield
attn_tile.kernel @step(%n: index, %k: !attn_tile.buffer<128x64xbf16>, %sums: memref<?x64xf32>, %c: vector<128x64xf32>,
                       %out: memref<128x64xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : vector<128x64xf32>
  %qp = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 2>
  %op = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 2>
  %ep = attn_tile.create_pipe : !attn_tile.pipe<1x64xf32, stages = 2>
  %dsp = attn_tile.create_pipe : !attn_tile.pipe<128x64xbf16, stages = 2>
  %sp = attn_tile.create_pipe : !attn_tile.pipe<64x64xf32, stages = 1>
  %r:2 = scf.for %t = %c0 to %n step %c1 iter_args(%dk = %zero, %dv = %zero)
      -> (vector<128x64xf32>, vector<128x64xf32>) {
    %row = arith.muli %t, %c64 : index
    %q = attn_tile.wait %qp[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
    %s0 = attn_tile.mma_start %k, %q transpose_rhs
        : !attn_tile.buffer<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %o = attn_tile.wait %op[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
    %dp0 = attn_tile.mma_start %k, %o transpose_rhs
        : !attn_tile.buffer<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %s = attn_tile.mma_wait %s0 : !attn_tile.pending<vector<128x64xf32>>
    %eb = attn_tile.wait %ep[%t] : !attn_tile.pipe<1x64xf32, stages = 2>
    %e = attn_tile.read %eb : !attn_tile.buffer<1x64xf32> -> vector<1x64xf32>
    attn_tile.release %eb : !attn_tile.buffer<1x64xf32>
    %e1 = vector.broadcast %e : vector<1x64xf32> to vector<128x64xf32>
    %x = math.fma %s, %c, %e1 : vector<128x64xf32>
    %p = math.exp2 %x : vector<128x64xf32>
    %pt = arith.truncf %p : vector<128x64xf32> to vector<128x64xbf16>
    %dv0 = attn_tile.mma_start %pt, %o acc %dv
        : vector<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %dp = attn_tile.mma_wait %dp0 : !attn_tile.pending<vector<128x64xf32>>
    %ds = arith.mulf %p, %dp : vector<128x64xf32>
    %dst = arith.truncf %ds : vector<128x64xf32> to vector<128x64xbf16>
    %dk0 = attn_tile.mma_start %dst, %q acc %dk
        : vector<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %shared = attn_tile.local_store %dst in %dsp[%t] : vector<128x64xbf16>, !attn_tile.pipe<128x64xbf16, stages = 2>
    %dq0 = attn_tile.mma_start %k, %shared transpose_lhs
        : !attn_tile.buffer<128x64xbf16>, !attn_tile.buffer<128x64xbf16> -> !attn_tile.pending<vector<64x64xf32>>
    %dv1 = attn_tile.mma_wait %dv0 : !attn_tile.pending<vector<128x64xf32>>
    attn_tile.release %o : !attn_tile.buffer<64x64xbf16>
    %dk1 = attn_tile.mma_wait %dk0 : !attn_tile.pending<vector<128x64xf32>>
    attn_tile.release %q : !attn_tile.buffer<64x64xbf16>
    %dq = attn_tile.mma_wait %dq0 : !attn_tile.pending<vector<64x64xf32>>
    %packed = attn_tile.stage_fragments %dq in %sp : vector<64x64xf32>, !attn_tile.pipe<64x64xf32, stages = 1>
    attn_tile.bulk_reduce_add %packed to %sums[%row, %c0] : !attn_tile.buffer<64x64xf32> to memref<?x64xf32>
    scf.yield %dk1, %dv1 : vector<128x64xf32>, vector<128x64xf32>
  }
  attn_tile.store %r#0, %out[%c0, %c0] : vector<128x64xf32>, memref<128x64xf32>
  attn_tile.store %r#1, %out[%c0, %c0] : vector<128x64xf32>, memref<128x64xf32>
  attn_tile.return
}

// -----

// Without gradients of values, the stage that only the first MMA of a step reads is
// given back at once. Behind each part of accumulators that are added from registers there
// are MMAs in flight: the others of the step, and those that begin the next.

// REMARK:        Function=registers | Remark="begins the next step early"

// CHECK-LABEL: attn_tile.kernel @registers(
// CHECK:           scf.for
// CHECK:             attn_tile.mma_wait
// CHECK-NEXT:        attn_tile.release
// CHECK:             %[[SHARED:.*]] = attn_tile.local_store
// CHECK-NEXT:        %[[DQ0:.*]] = attn_tile.mma_start %{{.*}}, %[[SHARED]] transpose_lhs first_row(0)
// CHECK-NEXT:        %[[DK:.*]] = attn_tile.mma_start %{{.*}} acc
// CHECK-NEXT:        %[[DQ1:.*]] = attn_tile.mma_start %{{.*}}, %[[SHARED]] transpose_lhs first_row(32)
// CHECK-NEXT:        %[[DQR0:.*]] = attn_tile.mma_wait %[[DQ0]]
// CHECK:             attn_tile.bulk_reduce_add %[[DQR0]] to
// CHECK-NEXT:        %[[DQR1:.*]] = attn_tile.mma_wait %[[DQ1]]
// CHECK-NEXT:        attn_tile.mma_wait %[[DK]]
// CHECK-NEXT:        attn_tile.release
// CHECK:             %[[S:.*]] = attn_tile.mma_start {{.*}} transpose_rhs
// CHECK:             attn_tile.mma_start {{.*}} transpose_rhs
// CHECK:             attn_tile.bulk_reduce_add %[[DQR1]] to
// CHECK-NEXT:        attn_tile.mma_wait %[[S]]
// CHECK:             math.exp2
// CHECK-NEXT:        scf.yield
attn_tile.kernel @registers(%n: index, %k: !attn_tile.buffer<128x64xbf16>, %sums: memref<?x64xf32>, %c: vector<128x64xf32>,
                            %out: memref<128x64xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : vector<128x64xf32>
  %qp = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 2>
  %op = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 1>
  %dsp = attn_tile.create_pipe : !attn_tile.pipe<128x64xbf16, stages = 1>
  %r = scf.for %t = %c0 to %n step %c1 iter_args(%dk = %zero) -> (vector<128x64xf32>) {
    %row = arith.muli %t, %c64 : index
    %q = attn_tile.wait %qp[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
    %s0 = attn_tile.mma_start %k, %q transpose_rhs
        : !attn_tile.buffer<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %o = attn_tile.wait %op[%t] : !attn_tile.pipe<64x64xbf16, stages = 1>
    %dp0 = attn_tile.mma_start %k, %o transpose_rhs
        : !attn_tile.buffer<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %s = attn_tile.mma_wait %s0 : !attn_tile.pending<vector<128x64xf32>>
    %x = arith.mulf %s, %c : vector<128x64xf32>
    %p = math.exp2 %x : vector<128x64xf32>
    %dp = attn_tile.mma_wait %dp0 : !attn_tile.pending<vector<128x64xf32>>
    attn_tile.release %o : !attn_tile.buffer<64x64xbf16>
    %ds = arith.mulf %p, %dp : vector<128x64xf32>
    %dst = arith.truncf %ds : vector<128x64xf32> to vector<128x64xbf16>
    %dk0 = attn_tile.mma_start %dst, %q acc %dk
        : vector<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %shared = attn_tile.local_store %dst in %dsp[%t] : vector<128x64xbf16>, !attn_tile.pipe<128x64xbf16, stages = 1>
    %dq0 = attn_tile.mma_start %k, %shared transpose_lhs first_row(0)
        : !attn_tile.buffer<128x64xbf16>, !attn_tile.buffer<128x64xbf16> -> !attn_tile.pending<vector<32x64xf32>>
    %dq1 = attn_tile.mma_start %k, %shared transpose_lhs first_row(32)
        : !attn_tile.buffer<128x64xbf16>, !attn_tile.buffer<128x64xbf16> -> !attn_tile.pending<vector<32x64xf32>>
    %dk1 = attn_tile.mma_wait %dk0 : !attn_tile.pending<vector<128x64xf32>>
    attn_tile.release %q : !attn_tile.buffer<64x64xbf16>
    %dq2 = attn_tile.mma_wait %dq0 : !attn_tile.pending<vector<32x64xf32>>
    attn_tile.bulk_reduce_add %dq2 to %sums[%row, %c0] : vector<32x64xf32> to memref<?x64xf32>
    %row1 = arith.addi %row, %c32 : index
    %dq3 = attn_tile.mma_wait %dq1 : !attn_tile.pending<vector<32x64xf32>>
    attn_tile.bulk_reduce_add %dq3 to %sums[%row1, %c0] : vector<32x64xf32> to memref<?x64xf32>
    scf.yield %dk1 : vector<128x64xf32>
  }
  attn_tile.store %r, %out[%c0, %c0] : vector<128x64xf32>, memref<128x64xf32>
  attn_tile.return
}

// -----

// The wait for a row that only gradients of scores read follows the one for the
// own MMA, where the left-hand side of the gradients of probabilities is in memory.

// REMARK:        Function=row | Remark="begins the next step early"

// CHECK-LABEL: attn_tile.kernel @row(
// CHECK:         attn_tile.create_pipe : <1x64xf32, stages = 2>
// CHECK-NEXT:    %[[DP:.*]] = attn_tile.create_pipe : <1x64xf32, stages = 2>
// CHECK:         math.exp2
// CHECK-NOT:     attn_tile.wait
// CHECK:         scf.for
// CHECK-NEXT:      attn_tile.mma_wait
// CHECK:           attn_tile.wait %[[DP]]
// CHECK:           %[[DK:.*]] = attn_tile.mma_start %{{.*}} acc
// CHECK:           math.exp2
// CHECK-NEXT:      attn_tile.mma_wait %[[DK]]
// CHECK-NOT:       attn_tile.wait
// CHECK:           scf.yield
attn_tile.kernel @row(%n: index, %k: !attn_tile.buffer<128x64xbf16>, %v: !attn_tile.buffer<128x64xbf16>, %c: vector<128x64xf32>,
                       %out: memref<128x64xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : vector<128x64xf32>
  %qp = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 2>
  %op = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 2>
  %ep = attn_tile.create_pipe : !attn_tile.pipe<1x64xf32, stages = 2>
  %dp = attn_tile.create_pipe : !attn_tile.pipe<1x64xf32, stages = 2>
  %r:2 = scf.for %t = %c0 to %n step %c1 iter_args(%dk = %zero, %dv = %zero)
      -> (vector<128x64xf32>, vector<128x64xf32>) {
    %q = attn_tile.wait %qp[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
    %s0 = attn_tile.mma_start %k, %q transpose_rhs
        : !attn_tile.buffer<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %o = attn_tile.wait %op[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
    %g0 = attn_tile.mma_start %v, %o transpose_rhs
        : !attn_tile.buffer<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %s = attn_tile.mma_wait %s0 : !attn_tile.pending<vector<128x64xf32>>
    %eb = attn_tile.wait %ep[%t] : !attn_tile.pipe<1x64xf32, stages = 2>
    %e = attn_tile.read %eb : !attn_tile.buffer<1x64xf32> -> vector<1x64xf32>
    %e1 = vector.broadcast %e : vector<1x64xf32> to vector<128x64xf32>
    %x = math.fma %s, %c, %e1 : vector<128x64xf32>
    %p = math.exp2 %x : vector<128x64xf32>
    %pt = arith.truncf %p : vector<128x64xf32> to vector<128x64xbf16>
    %dv0 = attn_tile.mma_start %pt, %o acc %dv
        : vector<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    attn_tile.release %eb : !attn_tile.buffer<1x64xf32>
    %g = attn_tile.mma_wait %g0 : !attn_tile.pending<vector<128x64xf32>>
    %db = attn_tile.wait %dp[%t] : !attn_tile.pipe<1x64xf32, stages = 2>
    %d = attn_tile.read %db : !attn_tile.buffer<1x64xf32> -> vector<1x64xf32>
    %d1 = vector.broadcast %d : vector<1x64xf32> to vector<128x64xf32>
    %moved = arith.subf %g, %d1 : vector<128x64xf32>
    %ds = arith.mulf %p, %moved : vector<128x64xf32>
    %dst = arith.truncf %ds : vector<128x64xf32> to vector<128x64xbf16>
    %dk0 = attn_tile.mma_start %dst, %q acc %dk
        : vector<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    attn_tile.release %db : !attn_tile.buffer<1x64xf32>
    %dv1 = attn_tile.mma_wait %dv0 : !attn_tile.pending<vector<128x64xf32>>
    attn_tile.release %o : !attn_tile.buffer<64x64xbf16>
    %dk1 = attn_tile.mma_wait %dk0 : !attn_tile.pending<vector<128x64xf32>>
    attn_tile.release %q : !attn_tile.buffer<64x64xbf16>
    scf.yield %dk1, %dv1 : vector<128x64xf32>, vector<128x64xf32>
  }
  attn_tile.store %r#0, %out[%c0, %c0] : vector<128x64xf32>, memref<128x64xf32>
  attn_tile.store %r#1, %out[%c0, %c0] : vector<128x64xf32>, memref<128x64xf32>
  attn_tile.return
}

// -----

// It precedes that wait where the left-hand side is in registers, so that the next
// exponentials are computed while the own MMA is in flight. The first row is
// waited for before the steps; each of them reads the one that it was given.

// REMARK:        Function=row_held | Remark="begins the next step early"

// CHECK-LABEL: attn_tile.kernel @row_held(
// CHECK-SAME:    %[[V:[a-z0-9]+]]: vector<128x64xbf16>
// CHECK:         attn_tile.create_pipe : <1x64xf32, stages = 2>
// CHECK-NEXT:    %[[DP:.*]] = attn_tile.create_pipe : <1x64xf32, stages = 2>
// CHECK:         attn_tile.mma_start %[[V]], %{{.*}} transpose_rhs
// CHECK:         math.exp2
// CHECK:         %[[FIRST:.*]] = attn_tile.wait %[[DP]]
// CHECK:         scf.for {{.*}} %[[ROW:[^ ]+]] = %[[FIRST]]
// CHECK-NEXT:      attn_tile.mma_wait
// CHECK-NOT:       attn_tile.wait
// CHECK:           attn_tile.read %[[ROW]]
// CHECK:           %[[DK:.*]] = attn_tile.mma_start %{{.*}} acc
// CHECK:           attn_tile.mma_start %[[V]], %{{.*}} transpose_rhs
// CHECK:           math.exp2
// CHECK-NEXT:      %[[NEXT:.*]] = attn_tile.wait %[[DP]]
// CHECK-NEXT:      attn_tile.mma_wait %[[DK]]
// CHECK:           scf.yield {{.*}}%[[NEXT]]
// CHECK-NOT:     attn_tile.wait
// CHECK:         attn_tile.read
attn_tile.kernel @row_held(%n: index, %k: !attn_tile.buffer<128x64xbf16>, %v: vector<128x64xbf16>, %c: vector<128x64xf32>,
                       %out: memref<128x64xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : vector<128x64xf32>
  %qp = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 2>
  %op = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 2>
  %ep = attn_tile.create_pipe : !attn_tile.pipe<1x64xf32, stages = 2>
  %dp = attn_tile.create_pipe : !attn_tile.pipe<1x64xf32, stages = 2>
  %r:2 = scf.for %t = %c0 to %n step %c1 iter_args(%dk = %zero, %dv = %zero)
      -> (vector<128x64xf32>, vector<128x64xf32>) {
    %q = attn_tile.wait %qp[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
    %s0 = attn_tile.mma_start %k, %q transpose_rhs
        : !attn_tile.buffer<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %o = attn_tile.wait %op[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
    %g0 = attn_tile.mma_start %v, %o transpose_rhs
        : vector<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %s = attn_tile.mma_wait %s0 : !attn_tile.pending<vector<128x64xf32>>
    %eb = attn_tile.wait %ep[%t] : !attn_tile.pipe<1x64xf32, stages = 2>
    %e = attn_tile.read %eb : !attn_tile.buffer<1x64xf32> -> vector<1x64xf32>
    %e1 = vector.broadcast %e : vector<1x64xf32> to vector<128x64xf32>
    %x = math.fma %s, %c, %e1 : vector<128x64xf32>
    %p = math.exp2 %x : vector<128x64xf32>
    %pt = arith.truncf %p : vector<128x64xf32> to vector<128x64xbf16>
    %dv0 = attn_tile.mma_start %pt, %o acc %dv
        : vector<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    attn_tile.release %eb : !attn_tile.buffer<1x64xf32>
    %g = attn_tile.mma_wait %g0 : !attn_tile.pending<vector<128x64xf32>>
    %db = attn_tile.wait %dp[%t] : !attn_tile.pipe<1x64xf32, stages = 2>
    %d = attn_tile.read %db : !attn_tile.buffer<1x64xf32> -> vector<1x64xf32>
    %d1 = vector.broadcast %d : vector<1x64xf32> to vector<128x64xf32>
    %moved = arith.subf %g, %d1 : vector<128x64xf32>
    %ds = arith.mulf %p, %moved : vector<128x64xf32>
    %dst = arith.truncf %ds : vector<128x64xf32> to vector<128x64xbf16>
    %dk0 = attn_tile.mma_start %dst, %q acc %dk
        : vector<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    attn_tile.release %db : !attn_tile.buffer<1x64xf32>
    %dv1 = attn_tile.mma_wait %dv0 : !attn_tile.pending<vector<128x64xf32>>
    attn_tile.release %o : !attn_tile.buffer<64x64xbf16>
    %dk1 = attn_tile.mma_wait %dk0 : !attn_tile.pending<vector<128x64xf32>>
    attn_tile.release %q : !attn_tile.buffer<64x64xbf16>
    scf.yield %dk1, %dv1 : vector<128x64xf32>, vector<128x64xf32>
  }
  attn_tile.store %r#0, %out[%c0, %c0] : vector<128x64xf32>, memref<128x64xf32>
  attn_tile.store %r#1, %out[%c0, %c0] : vector<128x64xf32>, memref<128x64xf32>
  attn_tile.return
}

// -----

// With dropout, probabilities are dropped before their gradients are waited for.
// The next keep masks are made between the next MMAs, when accumulators have left
// their registers.

// REMARK:        Function=dropped | Remark="begins the next step early"

// CHECK-LABEL: attn_tile.kernel @dropped(
// CHECK:           memref.load
// CHECK:           scf.for {{.*}}iter_args(%{{[^,]+}}, %{{[^,]+}}, %[[P:[^ ]+]] = %{{[^,]+}}, %[[D:[^ ]+]] = %{{[^,]+}}, %[[DP:[^ ]+]] =
// CHECK-NEXT:        %[[PT:.*]] = arith.truncf %[[P]]
// CHECK-NEXT:        %[[KEPT:.*]] = attn_tile.dropout %[[PT]] by %[[D]] below_two
// CHECK-NEXT:        %[[COMMON:.*]] = arith.mulf %[[P]], %{{.*}}
// CHECK-NEXT:        %[[G:.*]] = attn_tile.mma_wait %[[DP]]
// CHECK-NEXT:        attn_tile.mma_start %[[KEPT]], %{{.*}} acc
// CHECK-NEXT:        %[[WIDE:.*]] = arith.extf %[[KEPT]]
// CHECK-NEXT:        %[[NEGATED:.*]] = arith.negf %[[COMMON]]
// CHECK-NEXT:        math.fma %[[WIDE]], %[[G]], %[[NEGATED]]
// CHECK:             attn_tile.mma_start %{{.*}} transpose_lhs
// CHECK:             attn_tile.mma_start %{{.*}} transpose_rhs
// CHECK:             attn_tile.mma_start %{{.*}} acc
// CHECK:             attn_tile.stage_fragments
// CHECK:             %[[Y:.*]] = memref.load
// CHECK-NEXT:        attn_tile.generate_keep_mask {{.*}} stream(%[[Y]], %[[Y]], %[[Y]], %[[Y]])
// CHECK:             attn_tile.mma_start %{{.*}} transpose_rhs
// CHECK:             math.exp2
// CHECK:             scf.yield
attn_tile.kernel @dropped(%n: index, %k: !attn_tile.buffer<128x64xbf16>, %sums: memref<?x64xf32>, %c: vector<128x64xf32>,
                          %streams: memref<?xi32>, %out: memref<128x64xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : vector<128x64xf32>
  %qp = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 2>
  %op = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 2>
  %dsp = attn_tile.create_pipe : !attn_tile.pipe<128x64xbf16, stages = 2>
  %sp = attn_tile.create_pipe : !attn_tile.pipe<64x64xf32, stages = 1>
  %r:2 = scf.for %t = %c0 to %n step %c1 iter_args(%dk = %zero, %dv = %zero)
      -> (vector<128x64xf32>, vector<128x64xf32>) {
    %row = arith.muli %t, %c64 : index
    %y = memref.load %streams[%t] : memref<?xi32>
    %q = attn_tile.wait %qp[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
    %s0 = attn_tile.mma_start %k, %q transpose_rhs
        : !attn_tile.buffer<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %o = attn_tile.wait %op[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
    %dp0 = attn_tile.mma_start %k, %o transpose_rhs
        : !attn_tile.buffer<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %d = attn_tile.generate_keep_mask at(%row, %c0) stream(%y, %y, %y, %y) by(<p = 1.250000e-01, rng = #attn.arx>)
        : <128x64, transposed>
    %s = attn_tile.mma_wait %s0 : !attn_tile.pending<vector<128x64xf32>>
    %p = math.exp2 %s : vector<128x64xf32>
    %pt = arith.truncf %p : vector<128x64xf32> to vector<128x64xbf16>
    %kept = attn_tile.dropout %pt by %d below_two : vector<128x64xbf16>, !attn_tile.keep_mask<128x64, transposed>
    %dv0 = attn_tile.mma_start %kept, %o acc %dv
        : vector<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %common = arith.mulf %p, %c : vector<128x64xf32>
    %negated = arith.negf %common : vector<128x64xf32>
    %wide = arith.extf %kept : vector<128x64xbf16> to vector<128x64xf32>
    %dp = attn_tile.mma_wait %dp0 : !attn_tile.pending<vector<128x64xf32>>
    %ds = math.fma %wide, %dp, %negated : vector<128x64xf32>
    %dst = arith.truncf %ds : vector<128x64xf32> to vector<128x64xbf16>
    %dk0 = attn_tile.mma_start %dst, %q acc %dk
        : vector<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %shared = attn_tile.local_store %dst in %dsp[%t] : vector<128x64xbf16>, !attn_tile.pipe<128x64xbf16, stages = 2>
    %dq0 = attn_tile.mma_start %k, %shared transpose_lhs
        : !attn_tile.buffer<128x64xbf16>, !attn_tile.buffer<128x64xbf16> -> !attn_tile.pending<vector<64x64xf32>>
    %dv1 = attn_tile.mma_wait %dv0 : !attn_tile.pending<vector<128x64xf32>>
    attn_tile.release %o : !attn_tile.buffer<64x64xbf16>
    %dk1 = attn_tile.mma_wait %dk0 : !attn_tile.pending<vector<128x64xf32>>
    attn_tile.release %q : !attn_tile.buffer<64x64xbf16>
    %dq = attn_tile.mma_wait %dq0 : !attn_tile.pending<vector<64x64xf32>>
    %packed = attn_tile.stage_fragments %dq in %sp : vector<64x64xf32>, !attn_tile.pipe<64x64xf32, stages = 1>
    attn_tile.bulk_reduce_add %packed to %sums[%row, %c0] : !attn_tile.buffer<64x64xf32> to memref<?x64xf32>
    scf.yield %dk1, %dv1 : vector<128x64xf32>, vector<128x64xf32>
  }
  attn_tile.store %r#0, %out[%c0, %c0] : vector<128x64xf32>, memref<128x64xf32>
  attn_tile.store %r#1, %out[%c0, %c0] : vector<128x64xf32>, memref<128x64xf32>
  attn_tile.return
}

// -----

// Keep masks that a step loads for the next one are loaded when accumulators have left
// their registers, a step before probabilities are dropped by them.

// REMARK:        Function=dropped_ahead | Remark="begins the next step early"

// CHECK-LABEL: attn_tile.kernel @dropped_ahead(
// CHECK:           attn_tile.load_keep_mask
// CHECK:           scf.for {{.*}}iter_args(%{{[^,]+}}, %{{[^,]+}}, %[[D:[^ ]+]] = %{{[^,]+}}, %[[P:[^ ]+]] =
// CHECK-NEXT:        %[[PT:.*]] = arith.truncf %[[P]]
// CHECK-NEXT:        attn_tile.dropout %[[PT]] by %[[D]] below_two
// CHECK:             attn_tile.stage_fragments
// CHECK:             %[[D1:.*]] = attn_tile.load_keep_mask
// CHECK-NEXT:        attn_tile.wait
// CHECK-NEXT:        attn_tile.mma_start %{{.*}} transpose_rhs
// CHECK:             math.exp2
// CHECK:             scf.yield %{{[^,]+}}, %{{[^,]+}}, %[[D1]],
// CHECK-NOT:       attn_tile.load_keep_mask
attn_tile.kernel @dropped_ahead(%n: index, %k: !attn_tile.buffer<128x64xbf16>, %sums: memref<?x64xf32>, %c: vector<128x64xf32>,
                          %mask: memref<1x1x?x?xi32>, %out: memref<128x64xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : vector<128x64xf32>
  %qp = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 2>
  %op = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 2>
  %dsp = attn_tile.create_pipe : !attn_tile.pipe<128x64xbf16, stages = 2>
  %sp = attn_tile.create_pipe : !attn_tile.pipe<64x64xf32, stages = 1>
  %first = attn_tile.load_keep_mask %mask[%c0, %c0] rows at(%c0, %c0)
      : memref<1x1x?x?xi32> -> !attn_tile.keep_mask<128x64, transposed>
  %r:3 = scf.for %t = %c0 to %n step %c1 iter_args(%dk = %zero, %dv = %zero, %d = %first)
      -> (vector<128x64xf32>, vector<128x64xf32>, !attn_tile.keep_mask<128x64, transposed>) {
    %row = arith.muli %t, %c64 : index
    %q = attn_tile.wait %qp[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
    %s0 = attn_tile.mma_start %k, %q transpose_rhs
        : !attn_tile.buffer<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %o = attn_tile.wait %op[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
    %dp0 = attn_tile.mma_start %k, %o transpose_rhs
        : !attn_tile.buffer<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %s = attn_tile.mma_wait %s0 : !attn_tile.pending<vector<128x64xf32>>
    %p = math.exp2 %s : vector<128x64xf32>
    %pt = arith.truncf %p : vector<128x64xf32> to vector<128x64xbf16>
    %kept = attn_tile.dropout %pt by %d below_two : vector<128x64xbf16>, !attn_tile.keep_mask<128x64, transposed>
    %dv0 = attn_tile.mma_start %kept, %o acc %dv
        : vector<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %common = arith.mulf %p, %c : vector<128x64xf32>
    %negated = arith.negf %common : vector<128x64xf32>
    %wide = arith.extf %kept : vector<128x64xbf16> to vector<128x64xf32>
    %dp = attn_tile.mma_wait %dp0 : !attn_tile.pending<vector<128x64xf32>>
    %ds = math.fma %wide, %dp, %negated : vector<128x64xf32>
    %dst = arith.truncf %ds : vector<128x64xf32> to vector<128x64xbf16>
    %dk0 = attn_tile.mma_start %dst, %q acc %dk
        : vector<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %shared = attn_tile.local_store %dst in %dsp[%t] : vector<128x64xbf16>, !attn_tile.pipe<128x64xbf16, stages = 2>
    %dq0 = attn_tile.mma_start %k, %shared transpose_lhs
        : !attn_tile.buffer<128x64xbf16>, !attn_tile.buffer<128x64xbf16> -> !attn_tile.pending<vector<64x64xf32>>
    %d1 = attn_tile.load_keep_mask %mask[%c0, %c0] rows at(%row, %c0)
        : memref<1x1x?x?xi32> -> !attn_tile.keep_mask<128x64, transposed>
    %dv1 = attn_tile.mma_wait %dv0 : !attn_tile.pending<vector<128x64xf32>>
    attn_tile.release %o : !attn_tile.buffer<64x64xbf16>
    %dk1 = attn_tile.mma_wait %dk0 : !attn_tile.pending<vector<128x64xf32>>
    attn_tile.release %q : !attn_tile.buffer<64x64xbf16>
    %dq = attn_tile.mma_wait %dq0 : !attn_tile.pending<vector<64x64xf32>>
    %packed = attn_tile.stage_fragments %dq in %sp : vector<64x64xf32>, !attn_tile.pipe<64x64xf32, stages = 1>
    attn_tile.bulk_reduce_add %packed to %sums[%row, %c0] : !attn_tile.buffer<64x64xf32> to memref<?x64xf32>
    scf.yield %dk1, %dv1, %d1 : vector<128x64xf32>, vector<128x64xf32>, !attn_tile.keep_mask<128x64, transposed>
  }
  attn_tile.store %r#0, %out[%c0, %c0] : vector<128x64xf32>, memref<128x64xf32>
  attn_tile.store %r#1, %out[%c0, %c0] : vector<128x64xf32>, memref<128x64xf32>
  attn_tile.return
}

// -----

// A single MMA has no second one to begin with.

// REMARK: Function=one_mma | Remark="a step does not begin with pairs of MMAs"

// CHECK-LABEL: attn_tile.kernel @one_mma(
// CHECK-NOT:     scf.if
attn_tile.kernel @one_mma(%n: index, %k: !attn_tile.buffer<128x64xbf16>, %out: memref<128x64xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %qp = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 2>
  scf.for %t = %c0 to %n step %c1 {
    %q = attn_tile.wait %qp[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
    %s0 = attn_tile.mma_start %k, %q transpose_rhs
        : !attn_tile.buffer<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %s = attn_tile.mma_wait %s0 : !attn_tile.pending<vector<128x64xf32>>
    attn_tile.release %q : !attn_tile.buffer<64x64xbf16>
    attn_tile.store %s, %out[%c0, %c0] : vector<128x64xf32>, memref<128x64xf32>
  }
  attn_tile.return
}

// -----

// REMARK: Function=no_exponentials | Remark="a step has no exponentials of its first MMA"

// CHECK-LABEL: attn_tile.kernel @no_exponentials(
// CHECK-NOT:     scf.if
attn_tile.kernel @no_exponentials(%n: index, %k: !attn_tile.buffer<128x64xbf16>, %out: memref<128x64xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %qp = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 2>
  scf.for %t = %c0 to %n step %c1 {
    %q = attn_tile.wait %qp[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
    %s0 = attn_tile.mma_start %k, %q transpose_rhs
        : !attn_tile.buffer<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %d0 = attn_tile.mma_start %k, %q transpose_rhs
        : !attn_tile.buffer<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %s = attn_tile.mma_wait %s0 : !attn_tile.pending<vector<128x64xf32>>
    %d = attn_tile.mma_wait %d0 : !attn_tile.pending<vector<128x64xf32>>
    attn_tile.release %q : !attn_tile.buffer<64x64xbf16>
    %x = arith.mulf %s, %d : vector<128x64xf32>
    attn_tile.store %x, %out[%c0, %c0] : vector<128x64xf32>, memref<128x64xf32>
  }
  attn_tile.return
}

// -----

// REMARK: Function=carried | Remark="an MMA is not waited for in its step"

// CHECK-LABEL: attn_tile.kernel @carried(
// CHECK-NOT:     scf.if
attn_tile.kernel @carried(%n: index, %k: !attn_tile.buffer<128x64xbf16>, %q: !attn_tile.buffer<64x64xbf16>,
                          %out: memref<128x64xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %first = attn_tile.mma_start %k, %q transpose_rhs
      : !attn_tile.buffer<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
  %last = scf.for %t = %c0 to %n step %c1 iter_args(%s0 = %first) -> !attn_tile.pending<vector<128x64xf32>> {
    %s = attn_tile.mma_wait %s0 : !attn_tile.pending<vector<128x64xf32>>
    attn_tile.store %s, %out[%c0, %c0] : vector<128x64xf32>, memref<128x64xf32>
    %s1 = attn_tile.mma_start %k, %q transpose_rhs
        : !attn_tile.buffer<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    scf.yield %s1 : !attn_tile.pending<vector<128x64xf32>>
  }
  %s = attn_tile.mma_wait %last : !attn_tile.pending<vector<128x64xf32>>
  attn_tile.store %s, %out[%c0, %c0] : vector<128x64xf32>, memref<128x64xf32>
  attn_tile.return
}

// -----

// Stages are cleared where they are waited for, in the next step, too.

// CHECK-LABEL: attn_tile.kernel @clear(
// CHECK-SAME:    %[[N:.*]]: index, %[[LENGTH:.*]]: index,
// CHECK:           %[[Q0:.*]] = attn_tile.wait %[[QP:.*]][
// CHECK-NEXT:      attn_tile.clear %[[Q0]] within(%{{.*}} of %[[LENGTH]])
// CHECK-NEXT:      attn_tile.mma_start %{{.*}}, %[[Q0]] transpose_rhs
// CHECK-NEXT:      %[[O0:.*]] = attn_tile.wait %[[OP:.*]][
// CHECK-NEXT:      attn_tile.clear %[[O0]] within(%{{.*}} of %[[LENGTH]])
// CHECK-NEXT:      attn_tile.mma_start %{{.*}}, %[[O0]] transpose_rhs
// CHECK:           scf.for
// CHECK:             %[[Q1:.*]] = attn_tile.wait %[[QP]]
// CHECK:             attn_tile.clear %[[Q1]] within(%{{.*}} of %[[LENGTH]])
// CHECK-NEXT:        attn_tile.mma_start %{{.*}}, %[[Q1]] transpose_rhs
// CHECK:             %[[O1:.*]] = attn_tile.wait %[[OP]]
// CHECK:             attn_tile.clear %[[O1]] within(%{{.*}} of %[[LENGTH]])
// CHECK-NEXT:        attn_tile.mma_start %{{.*}}, %[[O1]] transpose_rhs
// CHECK-NOT:         attn_tile.clear
attn_tile.kernel @clear(%n: index, %length: index, %k: !attn_tile.buffer<128x64xbf16>, %c: vector<128x64xf32>,
                        %out: memref<128x64xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : vector<128x64xf32>
  %qp = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 2>
  %op = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 2>
  %r:2 = scf.for %t = %c0 to %n step %c1 iter_args(%dk = %zero, %dv = %zero)
      -> (vector<128x64xf32>, vector<128x64xf32>) {
    %row = arith.muli %t, %c64 : index
    %q = attn_tile.wait %qp[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
    attn_tile.clear %q within(%row of %length) : !attn_tile.buffer<64x64xbf16>
    %s0 = attn_tile.mma_start %k, %q transpose_rhs
        : !attn_tile.buffer<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %o = attn_tile.wait %op[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
    attn_tile.clear %o within(%row of %length) : !attn_tile.buffer<64x64xbf16>
    %dp0 = attn_tile.mma_start %k, %o transpose_rhs
        : !attn_tile.buffer<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %s = attn_tile.mma_wait %s0 : !attn_tile.pending<vector<128x64xf32>>
    %x = arith.mulf %s, %c : vector<128x64xf32>
    %p = math.exp2 %x : vector<128x64xf32>
    %pt = arith.truncf %p : vector<128x64xf32> to vector<128x64xbf16>
    %dv0 = attn_tile.mma_start %pt, %o acc %dv
        : vector<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %dp = attn_tile.mma_wait %dp0 : !attn_tile.pending<vector<128x64xf32>>
    %ds = arith.mulf %p, %dp : vector<128x64xf32>
    %dst = arith.truncf %ds : vector<128x64xf32> to vector<128x64xbf16>
    %dk0 = attn_tile.mma_start %dst, %q acc %dk
        : vector<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %dv1 = attn_tile.mma_wait %dv0 : !attn_tile.pending<vector<128x64xf32>>
    attn_tile.release %o : !attn_tile.buffer<64x64xbf16>
    %dk1 = attn_tile.mma_wait %dk0 : !attn_tile.pending<vector<128x64xf32>>
    attn_tile.release %q : !attn_tile.buffer<64x64xbf16>
    scf.yield %dk1, %dv1 : vector<128x64xf32>, vector<128x64xf32>
  }
  attn_tile.store %r#0, %out[%c0, %c0] : vector<128x64xf32>, memref<128x64xf32>
  attn_tile.store %r#1, %out[%c0, %c0] : vector<128x64xf32>, memref<128x64xf32>
  attn_tile.return
}

// -----

// The MMA of the scores adds to a row, and only that one: the row is read before dS is shared, and dQ is stored before
// the MMA that holds up its warp.

// REMARK:        Function=row_of_scores | Remark="begins the next step early"

// CHECK-LABEL: attn_tile.kernel @row_of_scores(
// CHECK:         scf.for
// CHECK:           %[[DST:.*]] = arith.truncf
// CHECK:           %[[ROW:.*]] = attn_tile.read
// CHECK-NEXT:      %[[ROWS:.*]] = vector.broadcast %[[ROW]]
// CHECK-NEXT:      %[[SHARED:.*]] = attn_tile.local_store
// CHECK:           %[[DQ:.*]] = attn_tile.mma_start %{{.*}}, %[[SHARED]] transpose_lhs
// CHECK:           attn_tile.mma_start %{{.*}} transpose_rhs acc %[[ROWS]]
// CHECK:           %[[DQR:.*]] = attn_tile.mma_wait %[[DQ]]
// CHECK:           %[[PACKED:.*]] = attn_tile.stage_fragments %[[DQR]]
// CHECK-NEXT:      %[[DK:.*]] = attn_tile.mma_start
// CHECK:           attn_tile.mma_start %{{.*}} transpose_rhs :
// CHECK:           math.exp2
// CHECK:           attn_tile.mma_wait %[[DK]]
// CHECK:           attn_tile.bulk_reduce_add %[[PACKED]]
// CHECK:           scf.yield
attn_tile.kernel @row_of_scores(%n: index, %k: !attn_tile.buffer<128x64xbf16>, %sums: memref<?x64xf32>, %c: vector<128x64xf32>,
                         %out: memref<128x64xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : vector<128x64xf32>
  %qp = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 2>
  %op = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 2>
  %ep = attn_tile.create_pipe : !attn_tile.pipe<1x64xf32, stages = 2>
  %gp = attn_tile.create_pipe : !attn_tile.pipe<1x64xf32, stages = 2>
  %dsp = attn_tile.create_pipe : !attn_tile.pipe<128x64xbf16, stages = 2>
  %sp = attn_tile.create_pipe : !attn_tile.pipe<64x64xf32, stages = 1>
  %r:2 = scf.for %t = %c0 to %n step %c1 iter_args(%dk = %zero, %dv = %zero)
      -> (vector<128x64xf32>, vector<128x64xf32>) {
    %row = arith.muli %t, %c64 : index
    %q = attn_tile.wait %qp[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
    %eb = attn_tile.wait %ep[%t] : !attn_tile.pipe<1x64xf32, stages = 2>
    %e = attn_tile.read %eb : !attn_tile.buffer<1x64xf32> -> vector<1x64xf32>
    attn_tile.release %eb : !attn_tile.buffer<1x64xf32>
    %e1 = vector.broadcast %e : vector<1x64xf32> to vector<128x64xf32>
    %s0 = attn_tile.mma_start %k, %q transpose_rhs acc %e1
        : !attn_tile.buffer<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %o = attn_tile.wait %op[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
    %dp0 = attn_tile.mma_start %k, %o transpose_rhs
        : !attn_tile.buffer<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %s = attn_tile.mma_wait %s0 : !attn_tile.pending<vector<128x64xf32>>
    %x = arith.mulf %s, %c : vector<128x64xf32>
    %p = math.exp2 %x : vector<128x64xf32>
    %pt = arith.truncf %p : vector<128x64xf32> to vector<128x64xbf16>
    %dv0 = attn_tile.mma_start %pt, %o acc %dv
        : vector<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %dp = attn_tile.mma_wait %dp0 : !attn_tile.pending<vector<128x64xf32>>
    %ds = arith.mulf %p, %dp : vector<128x64xf32>
    %dst = arith.truncf %ds : vector<128x64xf32> to vector<128x64xbf16>
    %dk0 = attn_tile.mma_start %dst, %q acc %dk
        : vector<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %shared = attn_tile.local_store %dst in %dsp[%t] : vector<128x64xbf16>, !attn_tile.pipe<128x64xbf16, stages = 2>
    %dq0 = attn_tile.mma_start %k, %shared transpose_lhs
        : !attn_tile.buffer<128x64xbf16>, !attn_tile.buffer<128x64xbf16> -> !attn_tile.pending<vector<64x64xf32>>
    %dv1 = attn_tile.mma_wait %dv0 : !attn_tile.pending<vector<128x64xf32>>
    attn_tile.release %o : !attn_tile.buffer<64x64xbf16>
    %dk1 = attn_tile.mma_wait %dk0 : !attn_tile.pending<vector<128x64xf32>>
    attn_tile.release %q : !attn_tile.buffer<64x64xbf16>
    %dq = attn_tile.mma_wait %dq0 : !attn_tile.pending<vector<64x64xf32>>
    %packed = attn_tile.stage_fragments %dq in %sp : vector<64x64xf32>, !attn_tile.pipe<64x64xf32, stages = 1>
    attn_tile.bulk_reduce_add %packed to %sums[%row, %c0] : !attn_tile.buffer<64x64xf32> to memref<?x64xf32>
    scf.yield %dk1, %dv1 : vector<128x64xf32>, vector<128x64xf32>
  }
  attn_tile.store %r#0, %out[%c0, %c0] : vector<128x64xf32>, memref<128x64xf32>
  attn_tile.store %r#1, %out[%c0, %c0] : vector<128x64xf32>, memref<128x64xf32>
  attn_tile.return
}

// -----

// Both MMAs add to rows: additions to dQ start behind its stores.

// REMARK:        Function=rows | Remark="begins the next step early"

// CHECK-LABEL: attn_tile.kernel @rows(
// CHECK:         scf.for
// CHECK:           attn_tile.read
// CHECK-NEXT:      vector.broadcast
// CHECK-NEXT:      %[[SHARED:.*]] = attn_tile.local_store
// CHECK:           %[[DQ:.*]] = attn_tile.mma_start %{{.*}}, %[[SHARED]] transpose_lhs
// CHECK:           %[[DK:.*]] = attn_tile.mma_start %{{.*}} acc %arg
// CHECK:           %[[DQR:.*]] = attn_tile.mma_wait %[[DQ]]
// CHECK:           %[[PACKED:.*]] = attn_tile.stage_fragments %[[DQR]]
// CHECK:           attn_tile.bulk_reduce_add %[[PACKED]]
// CHECK:           %[[ROW:.*]] = attn_tile.read
// CHECK-NEXT:      %[[ROWS:.*]] = vector.broadcast %[[ROW]]
// CHECK-NEXT:      attn_tile.mma_start %{{.*}} transpose_rhs acc %[[ROWS]]
// CHECK:           math.exp2
// CHECK:           attn_tile.mma_wait %[[DK]]
// CHECK:           scf.yield
attn_tile.kernel @rows(%n: index, %k: !attn_tile.buffer<128x64xbf16>, %sums: memref<?x64xf32>, %c: vector<128x64xf32>,
                         %out: memref<128x64xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : vector<128x64xf32>
  %qp = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 2>
  %op = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 2>
  %ep = attn_tile.create_pipe : !attn_tile.pipe<1x64xf32, stages = 2>
  %gp = attn_tile.create_pipe : !attn_tile.pipe<1x64xf32, stages = 2>
  %dsp = attn_tile.create_pipe : !attn_tile.pipe<128x64xbf16, stages = 2>
  %sp = attn_tile.create_pipe : !attn_tile.pipe<64x64xf32, stages = 1>
  %r:2 = scf.for %t = %c0 to %n step %c1 iter_args(%dk = %zero, %dv = %zero)
      -> (vector<128x64xf32>, vector<128x64xf32>) {
    %row = arith.muli %t, %c64 : index
    %q = attn_tile.wait %qp[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
    %eb = attn_tile.wait %ep[%t] : !attn_tile.pipe<1x64xf32, stages = 2>
    %e = attn_tile.read %eb : !attn_tile.buffer<1x64xf32> -> vector<1x64xf32>
    attn_tile.release %eb : !attn_tile.buffer<1x64xf32>
    %e1 = vector.broadcast %e : vector<1x64xf32> to vector<128x64xf32>
    %s0 = attn_tile.mma_start %k, %q transpose_rhs acc %e1
        : !attn_tile.buffer<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %o = attn_tile.wait %op[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
    %gb = attn_tile.wait %gp[%t] : !attn_tile.pipe<1x64xf32, stages = 2>
    %g = attn_tile.read %gb : !attn_tile.buffer<1x64xf32> -> vector<1x64xf32>
    attn_tile.release %gb : !attn_tile.buffer<1x64xf32>
    %g1 = vector.broadcast %g : vector<1x64xf32> to vector<128x64xf32>
    %dp0 = attn_tile.mma_start %k, %o transpose_rhs acc %g1
        : !attn_tile.buffer<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %s = attn_tile.mma_wait %s0 : !attn_tile.pending<vector<128x64xf32>>
    %x = arith.mulf %s, %c : vector<128x64xf32>
    %p = math.exp2 %x : vector<128x64xf32>
    %pt = arith.truncf %p : vector<128x64xf32> to vector<128x64xbf16>
    %dv0 = attn_tile.mma_start %pt, %o acc %dv
        : vector<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %dp = attn_tile.mma_wait %dp0 : !attn_tile.pending<vector<128x64xf32>>
    %ds = arith.mulf %p, %dp : vector<128x64xf32>
    %dst = arith.truncf %ds : vector<128x64xf32> to vector<128x64xbf16>
    %dk0 = attn_tile.mma_start %dst, %q acc %dk
        : vector<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<128x64xf32>>
    %shared = attn_tile.local_store %dst in %dsp[%t] : vector<128x64xbf16>, !attn_tile.pipe<128x64xbf16, stages = 2>
    %dq0 = attn_tile.mma_start %k, %shared transpose_lhs
        : !attn_tile.buffer<128x64xbf16>, !attn_tile.buffer<128x64xbf16> -> !attn_tile.pending<vector<64x64xf32>>
    %dv1 = attn_tile.mma_wait %dv0 : !attn_tile.pending<vector<128x64xf32>>
    attn_tile.release %o : !attn_tile.buffer<64x64xbf16>
    %dk1 = attn_tile.mma_wait %dk0 : !attn_tile.pending<vector<128x64xf32>>
    attn_tile.release %q : !attn_tile.buffer<64x64xbf16>
    %dq = attn_tile.mma_wait %dq0 : !attn_tile.pending<vector<64x64xf32>>
    %packed = attn_tile.stage_fragments %dq in %sp : vector<64x64xf32>, !attn_tile.pipe<64x64xf32, stages = 1>
    attn_tile.bulk_reduce_add %packed to %sums[%row, %c0] : !attn_tile.buffer<64x64xf32> to memref<?x64xf32>
    scf.yield %dk1, %dv1 : vector<128x64xf32>, vector<128x64xf32>
  }
  attn_tile.store %r#0, %out[%c0, %c0] : vector<128x64xf32>, memref<128x64xf32>
  attn_tile.store %r#1, %out[%c0, %c0] : vector<128x64xf32>, memref<128x64xf32>
  attn_tile.return
}
