// RUN: attn-opt %s --attn-shard-attention="method=ring ranks=2" --canonicalize --cse | FileCheck %s --check-prefix=RING
// RUN: attn-opt %s --attn-shard-attention="method=allgather ranks=2" --canonicalize --cse | FileCheck %s --check-prefix=GATHER
// RUN: attn-opt %s --attn-shard-attention="method=ulysses ranks=2" --canonicalize --cse | FileCheck %s --check-prefix=HEADS
// RUN: attn-opt %s --attn-shard-attention="method=distattention ranks=2" --canonicalize --cse | FileCheck %s --check-prefix=SEGMENTS

!t = tensor<1x2x128x16xf32>
!w = tensor<1x2x8x64xi32>

// All ranks have the whole mask, and read the words of their chunks: 8 for 16 queries, and 1 for 16 keys.
// RING-LABEL: func @columns(
// RING-SAME: %[[MASK:[^:]*]]: tensor<1x2x8x64xi32>
// RING-DAG: %[[LENGTH:.*]] = arith.constant 64 : index
// RING-DAG: %[[TWO:.*]] = arith.constant 2 : index
// RING-DAG: %[[SIXTEEN:.*]] = arith.constant 16 : index
// RING: %[[RANK:.*]] = attn.comm.rank ranks(2)
// RING: %[[FIRST:.*]] = arith.muli %[[RANK]], %[[LENGTH]] : index
// RING-DAG: %[[QUERY:.*]] = arith.divui %[[FIRST]], %[[TWO]] : index
// RING-DAG: %[[KEY:.*]] = arith.divui %[[FIRST]], %[[SIXTEEN]] : index
// RING: %[[PART:.*]] = tensor.extract_slice %[[MASK]][0, 0, %[[KEY]], %[[QUERY]]] [1, 2, 4, 32] [1, 1, 1, 1]
// RING: attn.attention {{.*}} dropout_mask columns(%[[PART]] : tensor<1x2x4x32xi32>)
// RING: tensor.extract_slice %[[MASK]]
// RING: attn.attention
// GATHER-LABEL: func @columns(
// GATHER: %[[PART:.*]] = tensor.extract_slice %{{.*}}[0, 0, 0, %{{.*}}] [1, 2, 8, 32] [1, 1, 1, 1]
// GATHER: attn.attention {{.*}} dropout_mask columns(%[[PART]] : tensor<1x2x8x32xi32>)
// HEADS-LABEL: func @columns(
// HEADS: %[[RANK:.*]] = attn.comm.rank ranks(2)
// HEADS: %[[PART:.*]] = tensor.extract_slice %{{.*}}[0, %[[RANK]], 0, 0] [1, 1, 8, 64] [1, 1, 1, 1]
// HEADS: attn.attention
// HEADS-NOT: positions
// HEADS-SAME: dropout_mask columns(%[[PART]] : tensor<1x1x8x64xi32>)
// SEGMENTS-LABEL: func @columns(
// SEGMENTS: %[[PART:.*]] = tensor.extract_slice %{{.*}}[0, 0, %{{.*}}, 0] [1, 2, 4, 64] [1, 1, 1, 1]
// SEGMENTS: attn.attention {{.*}} dropout_mask columns(%[[PART]] : tensor<1x2x4x64xi32>)
func.func @columns(%q: !t, %k: !t, %v: !t, %out: !t, %mask: !w) -> !t {
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) mask(#attn.causal)
      dropout_mask columns(%mask : !w) p(0.25) -> !t
  return %0 : !t
}
