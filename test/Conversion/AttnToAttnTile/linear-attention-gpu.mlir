// RUN: attn-opt %s --convert-attn-to-attn-tile=target=sm_90a --split-input-file | FileCheck %s

// A work item has some columns of the values. Its state is rounded for the matmul with the queries alone.

// CHECK-LABEL: attn_tile.kernel @plain_linear_attention(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: memref<2x4x?x32xbf16>, %[[K:[a-z0-9]+]]: memref<2x2x?x32xbf16>,
// CHECK-SAME:  %[[V:[a-z0-9]+]]: memref<2x1x?x48xbf16>, %[[O:[a-z0-9]+]]: memref<2x4x?x48xbf16>)
// CHECK: scf.forall (%[[B:.*]], %[[H:.*]], %[[TILE:.*]]) in (%{{.*}}, 4, 2)
// CHECK: %[[KH:.*]] = arith.divui %[[H]], %c2
// CHECK: %[[VH:.*]] = arith.divui %[[H]], %c4
// CHECK: %[[COLUMN:.*]] = arith.muli %[[TILE]], %c32
// CHECK: scf.for %[[N:.*]] = {{.*}} iter_args(%[[S:.*]] = %{{.*}}) -> (vector<64x32xf32>)
// CHECK: %[[T:.*]] = arith.muli %[[N]], %{{.*}} : index
// CHECK: %[[QT:.*]] = attn_tile.load %[[Q]][%[[B]], %[[H]], %[[T]], %{{.*}}] stream(%[[N]] of %{{.*}}) {{.*}} -> vector<64x64xbf16>
// CHECK: %[[KT:.*]] = attn_tile.load %[[K]][%[[B]], %[[KH]], %[[T]], %{{.*}}] stream(%[[N]] of %{{.*}}) {{.*}} -> vector<64x64xbf16>
// CHECK: %[[VT:.*]] = attn_tile.load %[[V]][%[[B]], %[[VH]], %[[T]], %[[COLUMN]]] stream(%[[N]] of %{{.*}}) {{.*}} -> vector<64x32xbf16>
// CHECK: %[[SCORES:.*]] = vector.contract {{.*}} %[[QT]], %[[KT]], %{{.*}} into vector<64x64xf32>
// CHECK: attn_tile.map %[[SCORES]]
// CHECK: arith.cmpi sge
// CHECK: %[[P:.*]] = arith.truncf {{.*}} to vector<64x64xbf16>
// CHECK: %[[R:.*]] = arith.truncf %[[S]] : vector<64x32xf32> to vector<64x32xbf16>
// CHECK: %[[OS:.*]] = vector.contract {{.*}} %[[QT]], %[[R]], %{{.*}} into vector<64x32xf32>
// CHECK: vector.contract {{.*}} %[[P]], %[[VT]], %[[OS]] : {{.*}} into vector<64x32xf32>
// CHECK: attn_tile.store %{{.*}}, %[[O]][%[[B]], %[[H]], %[[T]], %[[COLUMN]]]
// CHECK: %[[NEXT:.*]] = vector.contract {{.*}} %[[KT]], %[[VT]], %[[S]] : {{.*}} into vector<64x32xf32>
// CHECK: scf.yield %[[NEXT]]
func.func @plain(%q: memref<2x4x?x32xbf16>, %k: memref<2x2x?x32xbf16>, %v: memref<2x1x?x48xbf16>,
                 %o: memref<2x4x?x48xbf16>) {
  attn.linear_attention ins(%q, %k, %v : memref<2x4x?x32xbf16>, memref<2x2x?x32xbf16>, memref<2x1x?x48xbf16>)
      outs(%o : memref<2x4x?x48xbf16>) causal
      schedule(#attn_tile.linear_multistage<chunk = 64, value_tile = 32, stages = 2, warps = 4>)
  return
}

// -----

// Cumulative log-decays have two parts. A thread adds up eight of them, gets the sums of the threads before it in
// the chunk, and checks its own. All threads of the warp exchange sums; the ones after the last chunk store nothing.

// CHECK-LABEL: attn_tile.kernel @decay_log_decays(
// CHECK: scf.forall (%{{.*}}, %{{.*}}, %[[GROUP:.*]]) in
// CHECK: arith.muli %[[GROUP]], %c32
// CHECK: attn_tile.thread_for to(%c32
// CHECK: ^bb0(%[[THREAD:.*]]: index):
// CHECK-COUNT-8: memref.load
// CHECK: arith.minimumf
// CHECK: arith.maximumf
// CHECK: %[[FLOOR:.*]] = math.floor
// CHECK: arith.addf %{{.*}}, %[[FLOOR]]
// CHECK: arith.subf %{{.*}}, %[[FLOOR]]
// CHECK: arith.andi %[[THREAD]], %c1
// CHECK: gpu.subgroup_reduce{{ +}}add %{{.*}} cluster(size = 2)
// CHECK: arith.andi %[[THREAD]], %c2
// CHECK: gpu.subgroup_reduce{{ +}}add %{{.*}} cluster(size = 4)
// CHECK: arith.andi %[[THREAD]], %c4
// CHECK: %[[UPPER:.*]] = arith.cmpi ne
// CHECK: arith.select %[[UPPER]], %{{.*}}, %[[SUM:.*]] : f32
// CHECK: %[[LOWER:.*]] = gpu.subgroup_reduce{{ +}}add %{{.*}} cluster(size = 8)
// CHECK: arith.select %[[UPPER]], %[[LOWER]], %{{.*}} : f32
// CHECK-NOT: memref.store
// CHECK: arith.cmpf ugt
// CHECK: %[[EXISTS:.*]] = arith.cmpi ult, %{{.*}}, %{{.*}}
// CHECK-NEXT: scf.if %[[EXISTS]]
// CHECK-COUNT-16: memref.store {{.*}} : memref<2x?x2x?xf32>
// CHECK: scf.if
// CHECK: memref.store %c15_i32

// If no chunk of a work item forgets much, decayed values serve scores and the state, and no score is decayed.

// CHECK-LABEL: attn_tile.kernel @decay_linear_attention_factored(
// CHECK: %[[LEAST:.*]] = scf.for {{.*}} step %c16
// CHECK-COUNT-16: memref.load
// CHECK-COUNT-16: arith.minnumf
// CHECK: %[[IS:.*]] = arith.cmpf oge, %[[LEAST]]
// CHECK: %[[N:.*]] = arith.select %[[IS]], %{{.*}}, %c0
// CHECK: %[[LAST:.*]] = scf.for %{{.*}} = %c0{{.*}} to %[[N]] {{.*}} iter_args(%[[S:.*]] = %{{.*}})
// CHECK-NOT: math.exp2 {{.*}} : vector<64x64xf32>
// CHECK: %[[DECAYED:.*]] = arith.mulf %[[S]], %{{.*}} : vector<64x16xf32>
// CHECK: %[[ROUNDED:.*]] = arith.truncf %[[DECAYED]]
// CHECK: %[[OS:.*]] = vector.contract {{.*}} %[[ROUNDED]]
// CHECK: %[[VALUES:.*]] = arith.truncf {{.*}} to vector<64x16xbf16>
// CHECK: %[[O:.*]] = vector.contract {{.*}} %[[VALUES]], %[[OS]]
// CHECK: arith.mulf %[[O]]
// CHECK: attn_tile.store
// CHECK: vector.contract {{.*}} %[[VALUES]], %[[DECAYED]]
// CHECK: scf.if %[[IS]]
// CHECK: attn_tile.store %[[LAST]]
// CHECK-LABEL: attn_tile.kernel @decay_linear_attention(
// CHECK: arith.cmpf olt
// CHECK: %[[FIRST:.*]] = attn_tile.load {{.*}} unaligned : {{.*}} -> vector<64x16xf32>
// CHECK: %[[LAST:.*]] = scf.for {{.*}} iter_args(%[[S:.*]] = %[[FIRST]])
// CHECK-COUNT-2: attn_tile.load {{.*}} in_bounds : {{.*}} -> vector<64xf32>
// CHECK-COUNT-2: attn_tile.load {{.*}} stream({{.*}}) in_bounds : {{.*}} -> vector<1x64xf32>
// CHECK: vector.contract
// CHECK-COUNT-2: arith.subf {{.*}} : vector<64x64xf32>
// CHECK: math.exp2 {{.*}} : vector<64x64xf32>
// CHECK: vector.contract
// CHECK: math.exp2 {{.*}} : vector<64xf32>
// CHECK: vector.contract
// CHECK: attn_tile.store
// CHECK: math.exp2 {{.*}} : vector<64xf32>
// CHECK: arith.extf {{.*}} : vector<64x16xbf16>
// CHECK: math.exp2 {{.*}} : f32
// CHECK: %[[DECAYED:.*]] = arith.mulf %[[S]], %{{.*}} : vector<64x16xf32>
// CHECK: vector.contract {{.*}}, %[[DECAYED]]
// CHECK: attn_tile.store %[[LAST]]
func.func @decay(%q: memref<1x2x?x16xbf16>, %g: memref<1x2x?xf32>, %s: memref<1x2x16x16xf32>,
                 %o: memref<1x2x?x16xbf16>, %f: memref<1x2x16x16xf32>) {
  attn.linear_attention ins(%q, %q, %q : memref<1x2x?x16xbf16>, memref<1x2x?x16xbf16>, memref<1x2x?x16xbf16>)
      outs(%o, %f : memref<1x2x?x16xbf16>, memref<1x2x16x16xf32>) log_decay(%g : memref<1x2x?xf32>)
      initial_state(%s : memref<1x2x16x16xf32>) causal
      schedule(#attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 2, warps = 4>)
  return
}

// -----

// Splits: the kernels of their states and of the states that they begin with, which do nothing for a single split.

// CHECK-LABEL: attn_tile.kernel @split_linear_attention_states(
// CHECK: %[[NUMBER:.*]] = arith.subi %{{.*}}, %c1
// CHECK: scf.forall ({{.*}}) in (%{{.*}}, 2, %[[NUMBER]], 1)
// CHECK: scf.for
// CHECK-LABEL: attn_tile.kernel @split_linear_attention_starts(
// CHECK: scf.forall
// CHECK: attn_tile.thread_for
// CHECK: scf.for {{.*}} step %c8
// CHECK-COUNT-8: memref.load
// CHECK-COUNT-8: memref.store
// CHECK-LABEL: attn_tile.kernel @split_linear_attention(
// CHECK: scf.forall (%{{.*}}, %{{.*}}, %[[SPLIT:.*]], %{{.*}}) in (%{{.*}}, 2, %[[COUNT:.*]], 1)
// CHECK: %[[IS:.*]] = arith.cmpi ugt, %[[COUNT]], %c1
// CHECK: scf.if %[[IS]] -> (vector<64x16xf32>)
// CHECK: scf.for
// CHECK-LABEL: func @split
// CHECK: arith.divui %c264{{.*}}
// CHECK: %[[A:.*]] = memref.alloc
// CHECK: %[[S:.*]] = memref.alloc
// CHECK: attn_tile.launch @split_linear_attention_states
// CHECK: attn_tile.launch @split_linear_attention_starts args(%[[A]], %[[S]]
// CHECK: attn_tile.launch @split_linear_attention args(
// CHECK: memref.dealloc %[[A]]
// CHECK: memref.dealloc %[[S]]
func.func @split(%q: memref<1x2x?x16xbf16>, %o: memref<1x2x?x16xbf16>) {
  attn.linear_attention ins(%q, %q, %q : memref<1x2x?x16xbf16>, memref<1x2x?x16xbf16>, memref<1x2x?x16xbf16>)
      outs(%o : memref<1x2x?x16xbf16>) causal
      schedule(#attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 2, warps = 4, split_work_items = 264>)
  return
}

// -----

// Gradients are linear attention with other operands. Those of keys and values begin with the last chunk.

// CHECK-LABEL: attn_tile.kernel @gradient_linear_dq(
// CHECK: arith.cmpi sge
// CHECK-LABEL: attn_tile.kernel @gradient_linear_dv(
// CHECK: scf.for %[[N:.*]] = {{.*}} iter_args
// CHECK: arith.subi %{{.*}}, %[[N]]
// CHECK: arith.cmpi sle
// CHECK-LABEL: attn_tile.kernel @gradient_linear_dk(
// CHECK: scf.for %[[N:.*]] = {{.*}} iter_args
// CHECK: arith.subi %{{.*}}, %[[N]]
// CHECK: arith.cmpi sle
// CHECK-LABEL: func @gradient(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: memref<1x2x?x16xbf16>, %[[K:[a-z0-9]+]]: memref<1x2x?x16xbf16>,
// CHECK-SAME:  %[[V:[a-z0-9]+]]: memref<1x2x?x32xbf16>, %[[DO:[a-z0-9]+]]: memref<1x2x?x32xbf16>,
// CHECK-SAME:  %[[DQ:[a-z0-9]+]]: memref<1x2x?x16xbf16>, %[[DK:[a-z0-9]+]]: memref<1x2x?x16xbf16>,
// CHECK-SAME:  %[[DV:[a-z0-9]+]]: memref<1x2x?x32xbf16>
// CHECK: attn_tile.launch @gradient_linear_dq args(%[[DO]], %[[V]], %[[K]], %[[DQ]] :
// CHECK: attn_tile.launch @gradient_linear_dv args(%[[K]], %[[Q]], %[[DO]], %[[DV]] :
// CHECK: attn_tile.launch @gradient_linear_dk args(%[[V]], %[[DO]], %[[Q]], %[[DK]] :
func.func @gradient(%q: memref<1x2x?x16xbf16>, %k: memref<1x2x?x16xbf16>, %v: memref<1x2x?x32xbf16>,
                    %do: memref<1x2x?x32xbf16>, %dq: memref<1x2x?x16xbf16>, %dk: memref<1x2x?x16xbf16>,
                    %dv: memref<1x2x?x32xbf16>) {
  attn.linear_attention_grad ins(%q, %k, %v, %do : memref<1x2x?x16xbf16>, memref<1x2x?x16xbf16>, memref<1x2x?x32xbf16>, memref<1x2x?x32xbf16>)
      outs(%dq, %dk, %dv : memref<1x2x?x16xbf16>, memref<1x2x?x16xbf16>, memref<1x2x?x32xbf16>) causal
      schedule(#attn_tile.linear_multistage<chunk = 64, value_tile = 32, stages = 2, warps = 4>)
  return
}

// -----

// The states that splits begin with are computed once for gradients of values and of keys, which have them with their
// dimensions exchanged, if there are as many columns of both.

// CHECK-LABEL: attn_tile.kernel @split_gradient_linear_dk(
// CHECK: attn_tile.map
// CHECK: %[[START:.*]] = memref.load %{{.*}} : memref<?x?x2x16x16xf32>
// CHECK: arith.select %{{.*}}, %[[START]]
// CHECK-LABEL: func @split_gradient(
// CHECK: attn_tile.launch @split_gradient_linear_dq_states
// CHECK: attn_tile.launch @split_gradient_linear_dq_starts
// CHECK: attn_tile.launch @split_gradient_linear_dq args
// CHECK: attn_tile.launch @split_gradient_linear_dv_states
// CHECK: attn_tile.launch @split_gradient_linear_dv_starts args(%{{.*}}, %[[STARTS:[a-z0-9_]+]]
// CHECK: attn_tile.launch @split_gradient_linear_dv args({{.*}}%[[STARTS]]
// CHECK-NOT: attn_tile.launch
// CHECK: attn_tile.launch @split_gradient_linear_dk args({{.*}}%[[STARTS]]
func.func @split_gradient(%q: memref<1x2x?x16xbf16>, %dq: memref<1x2x?x16xbf16>, %dk: memref<1x2x?x16xbf16>,
                          %dv: memref<1x2x?x16xbf16>) {
  attn.linear_attention_grad ins(%q, %q, %q, %q : memref<1x2x?x16xbf16>, memref<1x2x?x16xbf16>, memref<1x2x?x16xbf16>, memref<1x2x?x16xbf16>)
      outs(%dq, %dk, %dv : memref<1x2x?x16xbf16>, memref<1x2x?x16xbf16>, memref<1x2x?x16xbf16>) causal
      schedule(#attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 2, warps = 4, split_work_items = 264>)
  return
}

// -----

// The gradient of log-decays: terms of queries, of keys and of states, which the last kernels add up.

// CHECK-LABEL: attn_tile.kernel @decay_gradient_linear_dq(
// CHECK: %[[OUT:.*]] = vector.contract {{.*}} into vector<64x16xf32>
// CHECK: %[[DOTS:.*]] = vector.multi_reduction <add>, %{{.*}} : vector<64x16xf32> to vector<64xf32>
// CHECK: attn_tile.store %[[DOTS]]
// CHECK: attn_tile.store %{{.*}} : vector<64x16xbf16>, memref<?x?x2x16x16xbf16>
// CHECK-LABEL: attn_tile.kernel @decay_gradient_linear_dv(
// CHECK-NOT: vector.multi_reduction
// CHECK-LABEL: attn_tile.kernel @decay_gradient_linear_dk(
// CHECK-COUNT-2: vector.multi_reduction <add>, %{{.*}} : vector<64x16xf32> to vector<64xf32>
// CHECK: attn_tile.load {{.*}} : memref<?x?x2x16x16xbf16> -> vector<64x16xbf16>
// CHECK: %[[TERMS:.*]] = vector.multi_reduction <add>
// CHECK: attn_tile.store %[[TERMS]]
// CHECK-LABEL: attn_tile.kernel @decay_gradient_linear_dlog_decay(
// CHECK: attn_tile.thread_for to(%c32
// CHECK-COUNT-24: memref.load %{{.*}} : memref<1x?x2x?xf32>
// CHECK: scf.for
// CHECK-COUNT-8: memref.load %{{.*}} : memref<?x?x2x?xf32>
// CHECK: gpu.subgroup_reduce{{ +}}add %{{.*}} cluster(size = 8)
// CHECK-COUNT-6: gpu.subgroup_reduce
// CHECK: %[[SUM:.*]] = gpu.subgroup_reduce{{ +}}add %{{.*}} cluster(size = 32)
// CHECK: scf.if
// CHECK: memref.store %[[SUM]]
// CHECK-LABEL: attn_tile.kernel @decay_gradient_linear_dlog_decay_sums(
// CHECK: attn_tile.reduce
// CHECK-LABEL: func @decay_gradient(
// CHECK: attn_tile.launch @decay_gradient_linear_dlog_decay args
// CHECK: attn_tile.launch @decay_gradient_linear_dlog_decay_sums args
func.func @decay_gradient(%q: memref<1x2x?x16xbf16>, %g: memref<2xf32>, %dq: memref<1x2x?x16xbf16>,
                          %dk: memref<1x2x?x16xbf16>, %dv: memref<1x2x?x16xbf16>, %dg: memref<1x2xf32>) {
  attn.linear_attention_grad ins(%q, %q, %q, %q : memref<1x2x?x16xbf16>, memref<1x2x?x16xbf16>, memref<1x2x?x16xbf16>, memref<1x2x?x16xbf16>)
      outs(%dq, %dk, %dv : memref<1x2x?x16xbf16>, memref<1x2x?x16xbf16>, memref<1x2x?x16xbf16>)
      log_decay(%g : memref<2xf32>) dlog_decay(%dg : memref<1x2xf32>) causal
      schedule(#attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 2, warps = 4>)
  return
}

// -----

// A producer copies the rows and states of these terms; above, where all warps copy, they are loaded to registers.

// CHECK-LABEL: attn_tile.kernel @streamed_terms_linear_dq(
// CHECK-COUNT-2: attn_tile.load {{.*}} stream({{.*}} -> vector<64x16xbf16>
// CHECK-LABEL: attn_tile.kernel @streamed_terms_linear_dk(
// CHECK: attn_tile.load {{.*}} stream({{.*}} : memref<?x?x2x16x16xbf16> -> vector<64x16xbf16>
func.func @streamed_terms(%q: memref<1x2x?x16xbf16>, %g: memref<2xf32>, %dq: memref<1x2x?x16xbf16>,
                          %dk: memref<1x2x?x16xbf16>, %dv: memref<1x2x?x16xbf16>, %dg: memref<1x2xf32>) {
  attn.linear_attention_grad ins(%q, %q, %q, %q : memref<1x2x?x16xbf16>, memref<1x2x?x16xbf16>, memref<1x2x?x16xbf16>, memref<1x2x?x16xbf16>)
      outs(%dq, %dk, %dv : memref<1x2x?x16xbf16>, memref<1x2x?x16xbf16>, memref<1x2x?x16xbf16>)
      log_decay(%g : memref<2xf32>) dlog_decay(%dg : memref<1x2xf32>) causal
      schedule(#attn_tile.linear_warp_specialized<chunk = 64, value_tile = 16, stages = 2>)
  return
}

// -----

// Where matmuls run while others are prepared, the one of queries and the state begins before scores are masked, and the
// one of the next state before outputs are stored.

// CHECK-LABEL: attn_tile.kernel @async_linear_attention(
// CHECK: scf.for {{.*}} iter_args(%[[S:.*]] = %{{.*}}) -> (vector<64x64xf32>)
// CHECK: %[[SCORES:.*]] = vector.contract {{.*}} into vector<64x64xf32>
// CHECK: %[[R:.*]] = arith.truncf %[[S]]
// CHECK: %[[OS:.*]] = vector.contract {{.*}} %[[R]], %{{.*}} into vector<64x64xf32>
// CHECK: attn_tile.map %[[SCORES]]
// CHECK: %[[O:.*]] = vector.contract {{.*}}, %[[OS]] : {{.*}} into vector<64x64xf32>
// CHECK: %[[NEXT:.*]] = vector.contract {{.*}}, %[[S]] : {{.*}} into vector<64x64xf32>
// CHECK: arith.mulf %[[O]]
// CHECK: attn_tile.store
// CHECK: scf.yield %[[NEXT]]
func.func @async(%q: memref<1x2x?x64xbf16>, %o: memref<1x2x?x64xbf16>) {
  attn.linear_attention ins(%q, %q, %q : memref<1x2x?x64xbf16>, memref<1x2x?x64xbf16>, memref<1x2x?x64xbf16>)
      outs(%o : memref<1x2x?x64xbf16>) causal
      schedule(#attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2>)
  return
}
