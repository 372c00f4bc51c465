// RUN: attn-opt %s --convert-attn-to-attn-tile=target=sm_90a --split-input-file | FileCheck %s

// With a decay of each key element, a kernel multiplies queries and keys by decays. Scores of chunks that forget little
// are dot products of such rows; those of others are added up level by level, in columns, by decays from 0/1 matrices
// times log-decays in two parts. The state has a decay for each row.

// CHECK-LABEL: attn_tile.kernel @gated_decayed_rows(
// CHECK-SAME: schedule = #attn_tile.scalar
// CHECK: attn_tile.reduce to(%{{.*}}) by [#vector.kind<minsi>] : index
// CHECK: attn_tile.thread_for

// CHECK-LABEL: attn_tile.kernel @gated_linear_pairs_factored(
// CHECK-SAME: %[[QG:[a-z0-9]+]]: memref<?x2x?x16xbf16>, %{{[a-z0-9]+}}: memref<1x2x?x16xbf16>, %[[P:[a-z0-9]+]]: memref<?x2x?x64xbf16>
// CHECK-SAME: %{{[a-z0-9]+}}: memref<?x2x?xf32>, %[[KI:[a-z0-9]+]]: memref<?x2x?x16xbf16>
// CHECK: arith.cmpf oge
// CHECK: %[[Q:.*]] = attn_tile.load %[[QG]]{{.*}} -> vector<64x64xbf16>
// CHECK: %[[K:.*]] = attn_tile.load %[[KI]]{{.*}} -> vector<64x64xbf16>
// CHECK: vector.contract {{.*}} %[[Q]], %[[K]], %{{.*}} into vector<64x64xf32>
// CHECK: arith.cmpi sge
// CHECK: attn_tile.store {{.*}}, %[[P]]

// CHECK-LABEL: attn_tile.kernel @gated_linear_pairs(
// CHECK-SAME: value_tile = 16, stages = 1
// CHECK: arith.cmpf olt
// CHECK: %[[G:.*]] = attn_tile.load {{.*}} : memref<1x2x?x16xf32> -> vector<64x16xf32>
// CHECK: %[[HIGH:.*]] = arith.truncf {{.*}} : vector<64x16xf32> to vector<64x16xbf16>
// CHECK: %[[LOW:.*]] = arith.truncf {{.*}} : vector<64x16xf32> to vector<64x16xbf16>
// CHECK: vector.contract {{.*}} into vector<64x64xf32>
// CHECK: arith.cmpi eq
// CHECK: scf.for {{.*}} to %c6{{.*}} iter_args(%{{.*}}) -> (vector<64x64xf32>)
// CHECK: %[[ONES:.*]] = attn_tile.map {{.*}} : vector<64x64xbf16>
// CHECK: %[[SUM:.*]] = vector.contract {{.*}} %[[ONES]], %[[LOW]], %{{.*}} into vector<64x16xf32>
// CHECK: %[[SUMS:.*]] = vector.contract {{.*}} %[[ONES]], %[[HIGH]], %[[SUM]]
// CHECK: math.exp2 %[[SUMS]]
// CHECK: vector.contract {{.*}} into vector<64x64xf32>

// CHECK-LABEL: attn_tile.kernel @gated_linear_attention(
// CHECK: scf.for {{.*}} iter_args(%[[S:.*]] = %{{.*}}) -> (vector<64x16xf32>)
// CHECK: attn_tile.load {{.*}} : memref<?x2x?x16xf32> -> vector<64xf32>
// CHECK: %[[KT:.*]] = attn_tile.load {{.*}} -> vector<64x64xbf16>
// CHECK: %[[V:.*]] = attn_tile.load {{.*}} -> vector<64x16xbf16>
// CHECK: %[[DECAYED:.*]] = arith.mulf %[[S]]
// CHECK-COUNT-2: vector.contract {{.*}} into vector<64x16xf32>
// CHECK: vector.contract {{.*}} %[[KT]], %[[V]], %[[DECAYED]]

// CHECK-LABEL: func.func @gated(
// CHECK: attn_tile.launch @gated_decayed_rows
// CHECK: attn_tile.launch @gated_linear_pairs_factored
// CHECK: attn_tile.launch @gated_linear_pairs
// CHECK: attn_tile.launch @gated_linear_attention
// CHECK-COUNT-6: memref.dealloc
func.func @gated(%q: memref<1x2x?x16xbf16>, %g: memref<1x2x?x16xf32>, %o: memref<1x2x?x16xbf16>) {
  attn.linear_attention ins(%q, %q, %q : memref<1x2x?x16xbf16>, memref<1x2x?x16xbf16>, memref<1x2x?x16xbf16>)
      outs(%o : memref<1x2x?x16xbf16>) log_decay(%g : memref<1x2x?x16xf32>) causal
      schedule(#attn_tile.linear_pairs<
          pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 2, warps = 4>,
          levels = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 1, warps = 4>,
          chunks = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 2, warps = 4>>)
  return
}

// -----

// Tiles of columns have positions of their own: they go through one pipe.
// CHECK-LABEL: attn_tile.kernel @two_tiles_linear_pairs(
// CHECK: arith.cmpf olt
// CHECK: scf.for %[[I:.*]] = %{{.*}} to %[[CHUNKS:.*]] step
// CHECK: %[[LENGTH:.*]] = arith.muli %[[CHUNKS]], %c2{{.*}} : index
// CHECK: %[[FIRST:.*]] = arith.muli %[[I]], %c2{{.*}} : index
// CHECK-COUNT-2: attn_tile.load {{.*}} stream(%[[FIRST]] of %[[LENGTH]]) : memref<1x2x?x32xbf16> -> vector<64x16xbf16>
// CHECK: %[[SECOND:.*]] = arith.addi %[[FIRST]], %c1{{.*}} : index
// CHECK-COUNT-2: attn_tile.load {{.*}} stream(%[[SECOND]] of %[[LENGTH]]) : memref<1x2x?x32xbf16> -> vector<64x16xbf16>
func.func @two_tiles(%q: memref<1x2x?x32xbf16>, %v: memref<1x2x?x16xbf16>, %g: memref<1x2x?x32xf32>, %o: memref<1x2x?x16xbf16>) {
  attn.linear_attention ins(%q, %q, %v : memref<1x2x?x32xbf16>, memref<1x2x?x32xbf16>, memref<1x2x?x16xbf16>)
      outs(%o : memref<1x2x?x16xbf16>) log_decay(%g : memref<1x2x?x32xf32>) causal
      schedule(#attn_tile.linear_pairs<
          pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 2, warps = 4>,
          levels = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 1, warps = 4>,
          chunks = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 2, warps = 4>>)
  return
}

// -----

// f16 has too small a range for keys over decays: all chunks have levels. The delta rule has keys times decays from the
// beginning, whose values are known, and keys times decays to the end.

// CHECK-NOT: @kimi_linear_pairs_factored
// CHECK-LABEL: attn_tile.kernel @kimi_linear_pairs(
// CHECK: scf.for {{.*}} to %c6{{.*}} -> (vector<64x64xf32>, vector<64x64xf32>)
// CHECK: attn_tile.invert_triangular
// CHECK-LABEL: attn_tile.kernel @kimi_linear_attention(
// CHECK: %[[KT:.*]] = attn_tile.load {{.*}} -> vector<64x64xf16>
// CHECK: %[[KG:.*]] = attn_tile.load {{.*}} : memref<?x2x?x16xf16> -> vector<64x64xf16>
// CHECK: vector.contract {{.*}} %[[KG]]
// CHECK: vector.contract {{.*}} %[[KT]]
func.func @kimi(%q: memref<1x2x?x16xf16>, %g: memref<1x2x?x16xf32>, %b: memref<1x2x?xf32>, %o: memref<1x2x?x16xf16>) {
  attn.linear_attention ins(%q, %q, %q : memref<1x2x?x16xf16>, memref<1x2x?x16xf16>, memref<1x2x?x16xf16>)
      outs(%o : memref<1x2x?x16xf16>) log_decay(%g : memref<1x2x?x16xf32>) beta(%b : memref<1x2x?xf32>) causal
      schedule(#attn_tile.linear_pairs<
          pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 2, warps = 4>,
          levels = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 1, warps = 4>,
          chunks = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 2, warps = 4>>)
  return
}

// -----

// Without the delta rule the gradient keeps states alone. The gradient of log-decays has a thread for each column of a
// chunk, which adds up terms of pairs and of states.

// CHECK-LABEL: attn_tile.kernel @grad_linear_states(
// CHECK-LABEL: attn_tile.kernel @grad_linear_dstates(
// CHECK-LABEL: attn_tile.kernel @grad_linear_pair_grad_factored(
// CHECK: attn_tile.store {{.*}} : vector<64x16xbf16>, memref<1x2x?x16xbf16>
// CHECK: attn_tile.store {{.*}} : vector<64x16xbf16>, memref<1x2x?x16xbf16>
// CHECK-COUNT-2: attn_tile.store {{.*}} : vector<64x16xf32>, memref<?x2x?x16xf32>
// CHECK-LABEL: attn_tile.kernel @grad_linear_pair_grad(
// CHECK: scf.for {{.*}} to %c6{{.*}} -> (vector<64x16xf32>, vector<64x16xf32>, vector<64x16xf32>)
// CHECK-LABEL: attn_tile.kernel @grad_linear_dlog_decay(
// CHECK-LABEL: func.func @grad(
func.func @grad(%q: memref<1x2x?x16xbf16>, %g: memref<1x2x?x16xf32>, %dq: memref<1x2x?x16xbf16>, %dg: memref<1x2x?x16xf32>) {
  attn.linear_attention_grad ins(%q, %q, %q, %q : memref<1x2x?x16xbf16>, memref<1x2x?x16xbf16>, memref<1x2x?x16xbf16>, memref<1x2x?x16xbf16>)
      outs(%dq, %dq, %dq : memref<1x2x?x16xbf16>, memref<1x2x?x16xbf16>, memref<1x2x?x16xbf16>)
      log_decay(%g : memref<1x2x?x16xf32>) dlog_decay(%dg : memref<1x2x?x16xf32>) causal
      schedule(#attn_tile.linear_pairs<
          pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 1, warps = 4>,
          levels = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 1, warps = 4>,
          chunks = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 1, warps = 4>>)
  return
}
