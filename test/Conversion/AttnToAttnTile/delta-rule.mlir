// RUN: attn-opt %s --convert-attn-to-attn-tile=target=sm_90a --split-input-file | FileCheck %s

// Scores of queries and keys, and the inverse of the triangular matrix, do not depend on states: work items split chunks.

// CHECK-LABEL: attn_tile.kernel @delta_linear_pairs(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: memref<1x4x?x32xbf16>, %[[K:[a-z0-9]+]]: memref<1x2x?x32xbf16>, %[[BETA:[a-z0-9]+]]: memref<1x4x?xf32>
// CHECK-SAME:  %[[P:[a-z0-9]+]]: memref<?x4x?x64xbf16>, %[[M:[a-z0-9]+]]: memref<?x4x?x64xbf16>, %[[COUNT:[a-z0-9]+]]: index
// CHECK-SAME: stages = 1, warps = 4
// CHECK: scf.forall (%[[B:.*]], %[[H:.*]], %{{.*}}, %{{.*}}) in (%{{.*}}, 4, %[[COUNT]], 1)
// CHECK: %[[KH:.*]] = arith.divui %[[H]], %c2
// CHECK: %[[QT:.*]] = attn_tile.load %[[Q]][%[[B]], %[[H]],
// CHECK: %[[KT:.*]] = attn_tile.load %[[K]][%[[B]], %[[KH]],
// CHECK: %[[QK:.*]] = vector.contract {{.*}} %[[QT]], %[[KT]], %{{.*}} into vector<64x64xf32>
// CHECK: attn_tile.map %[[QK]]
// CHECK: arith.cmpi sge
// CHECK: attn_tile.store %{{.*}}, %[[P]]
// CHECK: %[[KK:.*]] = vector.contract {{.*}} %[[KT]], %[[KT]], %{{.*}} into vector<64x64xf32>
// CHECK: attn_tile.map %[[KK]]
// CHECK: arith.cmpi sgt
// CHECK: %[[BT:.*]] = attn_tile.load %[[BETA]]{{.*}} -> vector<64xf32>
// CHECK: %[[A:.*]] = arith.mulf
// CHECK: %[[INVERSE:.*]] = attn_tile.invert_triangular %[[A]] : vector<64x64xf32>
// CHECK: %[[ROUNDED:.*]] = arith.truncf %[[INVERSE]]
// CHECK: attn_tile.store %[[ROUNDED]], %[[M]]

// Few heads have narrow tiles. The update takes the place of the values.

// CHECK-LABEL: attn_tile.kernel @delta_linear_attention_narrow(
// CHECK-SAME: value_tile = 16, stages = 2
// CHECK: scf.forall (%{{.*}}, %{{.*}}, %{{.*}}) in (%{{.*}}, 4, 2)
// CHECK-LABEL: attn_tile.kernel @delta_linear_attention(
// CHECK-SAME: value_tile = 32, stages = 1
// CHECK: scf.forall (%{{.*}}, %{{.*}}, %{{.*}}) in (%{{.*}}, 4, 1)
// CHECK: scf.for {{.*}} iter_args(%[[S:.*]] = %{{.*}}) -> (vector<64x32xf32>)
// CHECK: %[[KT:.*]] = attn_tile.load {{.*}} -> vector<64x64xbf16>
// CHECK: %[[VT:.*]] = attn_tile.load {{.*}} -> vector<64x32xbf16>
// CHECK: %[[QT:.*]] = attn_tile.load {{.*}} -> vector<64x64xbf16>
// CHECK: %[[PT:.*]] = attn_tile.load {{.*}} : memref<?x4x?x64xbf16> -> vector<64x64xbf16>
// CHECK: %[[MT:.*]] = attn_tile.load {{.*}} : memref<?x4x?x64xbf16> -> vector<64x64xbf16>
// CHECK: %[[BT:.*]] = attn_tile.load {{.*}} -> vector<64xf32>
// CHECK: %[[ST:.*]] = arith.truncf %[[S]]
// CHECK: %[[KNOWN:.*]] = vector.contract {{.*}} %[[KT]], %[[ST]], %{{.*}} into vector<64x32xf32>
// CHECK: %[[V:.*]] = arith.extf %[[VT]]
// CHECK: %[[R:.*]] = arith.subf %[[V]], %[[KNOWN]]
// CHECK: %[[SCALED:.*]] = arith.mulf %[[R]]
// CHECK: %[[RT:.*]] = arith.truncf %[[SCALED]]
// CHECK: %[[U:.*]] = vector.contract {{.*}} %[[MT]], %[[RT]], %{{.*}} into vector<64x32xf32>
// CHECK: %[[OS:.*]] = vector.contract {{.*}} %[[QT]], %[[ST]]
// CHECK: %[[UT:.*]] = arith.truncf %[[U]]
// CHECK: vector.contract {{.*}} %[[PT]], %[[UT]], %[[OS]]
// CHECK: attn_tile.store
// CHECK: %[[NEXT:.*]] = vector.contract {{.*}} %[[KT]], %[[UT]], %[[S]]
// CHECK: scf.yield %[[NEXT]]

// CHECK-LABEL: func @delta(
// CHECK: attn_tile.launch @delta_linear_pairs
// CHECK: %[[FEW:.*]] = arith.cmpi ule, %{{.*}}, %c132
// CHECK: scf.if %[[FEW]] {
// CHECK-NEXT: attn_tile.launch @delta_linear_attention_narrow
// CHECK-NEXT: } else {
// CHECK-NEXT: attn_tile.launch @delta_linear_attention args
// CHECK-COUNT-2: memref.dealloc
func.func @delta(%q: memref<1x4x?x32xbf16>, %k: memref<1x2x?x32xbf16>, %v: memref<1x4x?x32xbf16>, %b: memref<1x4x?xf32>,
                 %o: memref<1x4x?x32xbf16>) {
  attn.linear_attention ins(%q, %k, %v : memref<1x4x?x32xbf16>, memref<1x2x?x32xbf16>, memref<1x4x?x32xbf16>)
      outs(%o : memref<1x4x?x32xbf16>) beta(%b : memref<1x4x?xf32>) causal
      schedule(#attn_tile.linear_pairs<pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 32, stages = 1, warps = 4, split_work_items = 264>,
          chunks = #attn_tile.linear_multistage<chunk = 64, value_tile = 32, stages = 1, warps = 4>,
          narrow = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 2, warps = 4>, narrow_work_items = 132>)
  return
}

// -----

// Without narrow tiles there is one kernel. Decays are those of rows of known values, of pairs, and of the update.

// CHECK-LABEL: attn_tile.kernel @decay_linear_pairs(
// CHECK-COUNT-2: math.exp2 {{.*}} : vector<64x64xf32>
// CHECK-LABEL: attn_tile.kernel @decay_linear_attention(
// CHECK: %[[FROM:.*]] = math.exp2 {{.*}} : vector<64xf32>
// CHECK: %[[KNOWN:.*]] = vector.contract
// CHECK: vector.broadcast
// CHECK: arith.mulf %[[KNOWN]]
// CHECK: math.exp2 {{.*}} : vector<64xf32>
// CHECK: math.exp2 {{.*}} : f32
// CHECK-LABEL: func @decay(
// CHECK-NOT: scf.if
// CHECK: attn_tile.launch @decay_linear_attention args
func.func @decay(%q: memref<1x2x?x16xbf16>, %g: memref<1x2x?xf32>, %b: memref<1x2x?xf32>, %o: memref<1x2x?x16xbf16>) {
  attn.linear_attention ins(%q, %q, %q : memref<1x2x?x16xbf16>, memref<1x2x?x16xbf16>, memref<1x2x?x16xbf16>)
      outs(%o : memref<1x2x?x16xbf16>) log_decay(%g : memref<1x2x?xf32>) beta(%b : memref<1x2x?xf32>) causal
      schedule(#attn_tile.linear_pairs<
          pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 2, warps = 4>,
          chunks = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 2, warps = 4>>)
  return
}

// -----

// The gradient keeps states, updates and residuals; then goes through the chunks last to first, multiplies by transposed matrices, and keeps gradients of
// states. The last kernel has tiles of columns of the keys.

// CHECK-LABEL: attn_tile.kernel @grad_linear_pairs(
// CHECK-COUNT-2: attn_tile.store {{.*}} : vector<64x64xbf16>, memref<?x2x?x64xbf16>
// CHECK: attn_tile.invert_triangular
// CHECK: attn_tile.store {{.*}} : vector<64x64xbf16>, memref<?x2x?x64xbf16>
// CHECK-LABEL: attn_tile.kernel @grad_linear_states(
// CHECK: attn_tile.store {{.*}} : vector<64x32xbf16>, memref<?x?x2x16x32xbf16>
// CHECK-COUNT-2: attn_tile.store {{.*}} : vector<64x32xbf16>, memref<?x2x?x32xbf16>
// CHECK-LABEL: attn_tile.kernel @grad_linear_dstates(
// CHECK: scf.for %[[N:.*]] = {{.*}} iter_args
// CHECK: arith.subi %{{.*}}, %[[N]]
// CHECK: %[[P:.*]] = attn_tile.load {{.*}} : memref<?x2x?x64xbf16> -> vector<64x64xbf16>
// CHECK: %[[M:.*]] = attn_tile.load {{.*}} : memref<?x2x?x64xbf16> -> vector<64x64xbf16>
// CHECK: attn_tile.store {{.*}} : vector<64x32xbf16>, memref<?x?x2x16x32xbf16>
// CHECK: vector.contract {{.*}} %[[P]]
// CHECK: vector.contract
// CHECK: %[[V:.*]] = vector.contract {{.*}} %[[M]]
// CHECK: %[[NEXT:.*]] = vector.contract
// CHECK: %[[TERMS:.*]] = vector.multi_reduction <add>
// CHECK: attn_tile.store %[[TERMS]]
// CHECK: scf.yield %[[NEXT]]
// CHECK-LABEL: attn_tile.kernel @grad_linear_pair_grad(
// CHECK-COUNT-2: vector.contract {{.*}} into vector<64x64xf32>
// CHECK: scf.if
// CHECK: attn_tile.store {{.*}} : vector<64xf32>
// CHECK-COUNT-7: vector.contract {{.*}} into vector<64x32xf32>
// CHECK-LABEL: func @grad(
// CHECK: attn_tile.launch @grad_linear_pairs
// CHECK: attn_tile.launch @grad_linear_states
// CHECK: attn_tile.launch @grad_linear_dstates
// CHECK: attn_tile.launch @grad_linear_pair_grad
// CHECK-COUNT-9: memref.dealloc
func.func @grad(%q: memref<1x2x?x16xbf16>, %v: memref<1x2x?x32xbf16>, %b: memref<1x2x?xf32>, %dq: memref<1x2x?x16xbf16>, %dk: memref<1x2x?x16xbf16>,
                %dv: memref<1x2x?x32xbf16>, %db: memref<1x2x?xf32>) {
  attn.linear_attention_grad ins(%q, %q, %v, %v : memref<1x2x?x16xbf16>, memref<1x2x?x16xbf16>, memref<1x2x?x32xbf16>, memref<1x2x?x32xbf16>)
      outs(%dq, %dk, %dv : memref<1x2x?x16xbf16>, memref<1x2x?x16xbf16>, memref<1x2x?x32xbf16>) beta(%b : memref<1x2x?xf32>)
      dbeta(%db : memref<1x2x?xf32>) causal
      schedule(#attn_tile.linear_pairs<
          pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 32, stages = 1, warps = 4, split_work_items = 264>,
          chunks = #attn_tile.linear_multistage<chunk = 64, value_tile = 32, stages = 1, warps = 4>>)
  return
}

// -----

// Where matmuls run while others are prepared, the one of queries and the state begins behind the one of known values,
// and the one of the next state before outputs are stored.

// CHECK-LABEL: attn_tile.kernel @async_linear_attention(
// CHECK: scf.for {{.*}} iter_args(%[[S:.*]] = %{{.*}}) -> (vector<64x64xf32>)
// CHECK: %[[ST:.*]] = arith.truncf %[[S]]
// CHECK: %[[KNOWN:.*]] = vector.contract {{.*}} %[[ST]], %{{.*}} into vector<64x64xf32>
// CHECK: %[[OS:.*]] = vector.contract {{.*}} %[[ST]], %{{.*}} into vector<64x64xf32>
// CHECK: arith.subf %{{.*}}, %[[KNOWN]]
// CHECK: %[[U:.*]] = vector.contract
// CHECK: %[[O:.*]] = vector.contract {{.*}}, %[[OS]] :
// CHECK: %[[NEXT:.*]] = vector.contract {{.*}}, %[[S]] :
// CHECK: arith.mulf %[[O]]
// CHECK: attn_tile.store
// CHECK: scf.yield %[[NEXT]]
func.func @async(%q: memref<1x2x?x64xbf16>, %b: memref<1x2x?xf32>, %o: memref<1x2x?x64xbf16>) {
  attn.linear_attention ins(%q, %q, %q : memref<1x2x?x64xbf16>, memref<1x2x?x64xbf16>, memref<1x2x?x64xbf16>)
      outs(%o : memref<1x2x?x64xbf16>) beta(%b : memref<1x2x?xf32>) causal
      schedule(#attn_tile.linear_pairs<pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 1, warps = 4>,
          chunks = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2>>)
  return
}
