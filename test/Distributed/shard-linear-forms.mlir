// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=allgather ranks=4" --canonicalize --cse | FileCheck %s

!t = tensor<2x2x64x16xf32>
!x = tensor<?x?x?x16xf32>
!l = tensor<2xi32>

// Features are rows of chunks, and key lengths are compared with positions in the whole. Ranks gather the states of
// values and of the normalizer.
// CHECK-LABEL: func @features(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<2x2x16x16xf32> {attn.name = "q"}, %[[K:[^:]*]]: tensor<2x2x16x16xf32>
// CHECK-DAG: %[[C16:.*]] = arith.constant 16 : index
// CHECK-DAG: %[[RANK:.*]] = attn.comm.rank ranks(4)
// CHECK-DAG: %[[FIRST:.*]] = arith.muli %[[RANK]], %[[C16]] : index
// CHECK-DAG: %[[QF:.*]] = linalg.exp ins(%[[Q]] : tensor<2x2x16x16xf32>)
// CHECK: linalg.generic {{.*}} ins(%[[K]], %{{.*}} : tensor<2x2x16x16xf32>, tensor<2xi32>)
// CHECK:   %[[I:.*]] = linalg.index 2 : index
// CHECK:   %[[POSITION:.*]] = arith.addi %[[I]], %[[FIRST]] : index
// CHECK:   arith.cmpi slt, %[[POSITION]],
// CHECK: %[[VALUES:.*]]:2 = attn.linear_attention ins(%[[QF]],
// CHECK: attn.comm.all_gather ins(%[[VALUES]]#1 : tensor<2x2x16x16xf32>)
// CHECK: %[[NUMERATORS:.*]] = attn.linear_attention ins(%[[QF]],
// CHECK: %[[ONES:.*]] = linalg.fill {{.*}} -> tensor<2x1x16x8xf32>
// CHECK: %[[SUMS:.*]]:2 = attn.linear_attention ins(%[[QF]], %{{.*}}, %[[ONES]] :
// CHECK: attn.comm.all_gather ins(%[[SUMS]]#1 : tensor<2x2x16x8xf32>)
// CHECK: %[[DENOMINATORS:.*]] = attn.linear_attention ins(%[[QF]],
// CHECK: %[[COLUMN:.*]] = tensor.extract_slice %[[DENOMINATORS]][0, 0, 0, 0] [2, 2, 16, 1]
// CHECK: linalg.generic {{.*}} ins(%[[NUMERATORS]], %[[COLUMN]] :
// CHECK:   arith.divf
func.func @features(%q: !t, %k: !t, %v: !t, %lengths: !l, %out: !t) -> !t {
  %0 = attn.linear_attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) key_lengths(%lengths : !l) causal
      normalizer(eps = 1.0e-3) feature {
  ^bb0(%x: !x):
    %y = linalg.exp ins(%x : !x) outs(%x : !x) -> !x
    attn.linear_yield %y : !x
  } -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x?x16xf32>

// Boundaries are within the whole. Log-decays end states, also of other ranks: ranks gather the sums of their
// log-decays.
// CHECK-LABEL: func @sequences(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<1x2x?x16xf32>
// CHECK-DAG: %[[C2:.*]] = arith.constant 2 : index
// CHECK-DAG: %[[C4:.*]] = arith.constant 4 : index
// CHECK-DAG: %[[RANK:.*]] = attn.comm.rank ranks(4)
// CHECK-DAG: %[[N:.*]] = tensor.dim %[[Q]], %[[C2]]
// CHECK-DAG: %[[WHOLE:.*]] = arith.muli %[[N]], %[[C4]] : index
// CHECK: %[[ENDS:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<?xf32>) {
// CHECK:   arith.cmpi ugt, %{{.*}}, %[[WHOLE]] : index
// CHECK: %[[DECAYS:.*]] = linalg.generic {{.*}} ins(%[[ENDS]] : tensor<?xf32>) outs(%{{.*}} : tensor<1x2x?xf32>)
// CHECK: attn.linear_attention {{.*}} log_decay(%[[DECAYS]] : tensor<1x2x?xf32>) causal
// CHECK: attn.comm.all_gather ins(%{{.*}} : tensor<1x2x16x16xf32>)
// CHECK: attn.comm.all_gather ins(%{{.*}} : tensor<1x2xf32>)
func.func @sequences(%q: !t, %k: !t, %v: !t, %bounds: tensor<?xi32>, %out: !t) -> !t {
  %0 = attn.linear_attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) sequences(%bounds : tensor<?xi32>) causal -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>

// Blocks that ranks divide end states by log-decays.
// CHECK-LABEL: func @blocks(
// CHECK: linalg.generic
// CHECK:   linalg.index 0
// CHECK:   arith.remui
// CHECK: attn.linear_attention {{.*}} log_decay(
// CHECK: attn.comm.all_gather
// CHECK: attn.linear_attention {{.*}} log_decay(
func.func @blocks(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  %0 = attn.linear_attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) causal local_blocks(24) -> !t
  return %0 : !t
}

// -----

!t = tensor<2x2x64x16xf32>
!l = tensor<2xi32>

// Ranks with whole blocks do not communicate. Key lengths begin at the first token of a rank.
// CHECK-LABEL: func @whole_blocks(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<2x2x16x16xf32>{{.*}}, %[[L:[^:]*]]: tensor<2xi32>
// CHECK-NOT: attn.comm.all_gather
// CHECK: %[[OWN:.*]] = linalg.generic {{.*}} ins(%[[L]] : tensor<2xi32>)
// CHECK:   %[[LENGTH:.*]] = arith.maxsi
// CHECK:   arith.subi %[[LENGTH]],
// CHECK: attn.linear_attention ins(%[[Q]], {{.*}} key_lengths(%[[OWN]] : tensor<2xi32>) local_blocks(8) -> tensor<2x2x16x16xf32>
// CHECK-NOT: attn.comm.all_gather
// CHECK: return
func.func @whole_blocks(%q: !t, %k: !t, %v: !t, %lengths: !l, %out: !t) -> !t {
  %0 = attn.linear_attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) key_lengths(%lengths : !l)
      local_blocks(8) -> !t
  return %0 : !t
}

// -----

!t = tensor<2x2x64x16xf32>
!x = tensor<?x?x?x16xf32>

// Features may depend on positions in the whole.
// CHECK-LABEL: func @whole_blocks_of_features(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<2x2x16x16xf32>
// CHECK-DAG: %[[C16:.*]] = arith.constant 16 : index
// CHECK-DAG: %[[RANK:.*]] = attn.comm.rank ranks(4)
// CHECK-DAG: %[[FIRST:.*]] = arith.muli %[[RANK]], %[[C16]] : index
// CHECK: %[[QF:.*]] = linalg.generic {{.*}} outs(%[[Q]] : tensor<2x2x16x16xf32>)
// CHECK:   %[[I:.*]] = linalg.index 2 : index
// CHECK:   arith.addi %[[I]], %[[FIRST]] : index
// CHECK-NOT: attn.comm.all_gather
// CHECK: attn.linear_attention ins(%[[QF]], {{.*}} causal scale(2.500000e-01) local_blocks(8) -> tensor<2x2x16x16xf32>
// CHECK-NEXT: return
func.func @whole_blocks_of_features(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  %0 = attn.linear_attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) causal local_blocks(8) feature {
  ^bb0(%x: !x):
    %y = linalg.generic {indexing_maps = [affine_map<(b, h, s, d) -> (b, h, s, d)>],
        iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%x : !x) {
    ^bb1(%e: f32):
      %i = linalg.index 2 : index
      %j = arith.index_cast %i : index to i32
      %f = arith.sitofp %j : i32 to f32
      %r = arith.mulf %e, %f : f32
      linalg.yield %r : f32
    } -> !x
    attn.linear_yield %y : !x
  } -> !t
  return %0 : !t
}
