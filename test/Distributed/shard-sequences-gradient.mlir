// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=zigzag ranks=2" --canonicalize --cse \
// RUN:   | FileCheck %s --check-prefix=ZIGZAG
// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=allgather ranks=2" --canonicalize --cse \
// RUN:   | FileCheck %s --check-prefix=GATHER

!t = tensor<1x2x64x16xbf16>
!l = tensor<1x2x64xf32>
!cu = tensor<?xi32>

// Each of the chunks of a rank has boundaries of its own. Gradients of rows of no sequence are 0 until they are rounded
// into the destination, whose contents they keep: of queries and of keys by the boundaries of these.
// ZIGZAG-LABEL: func @gradient(
// ZIGZAG-SAME: %[[DQ:[^:]*]]: tensor<1x2x32x16xbf16> {attn.name = "dq"}, %[[DK:[^:]*]]: tensor<1x2x32x16xbf16>
// ZIGZAG-SAME: %[[CU_Q:[^:]*]]: tensor<?xi32> {attn.name = "q_sequences"}, %[[CU_K:[^:]*]]: tensor<?xi32>
// ZIGZAG: linalg.generic {{.*}} ins(%[[CU_Q]] : tensor<?xi32>)
// ZIGZAG: linalg.generic {{.*}} ins(%[[CU_K]] : tensor<?xi32>)
// ZIGZAG: %[[ALLOCATED:.*]] = bufferization.alloc_tensor() : tensor<1x2x16x16xf32>
// ZIGZAG: %[[CLEARED:.*]] = linalg.fill {{.*}} outs(%[[ALLOCATED]]
// ZIGZAG: attn.attention_grad {{.*}} outs(%[[CLEARED]],
// ZIGZAG: tensor.extract_slice %[[CU_Q]][0] [1] [1]
// ZIGZAG: %[[ROWS:.*]] = linalg.generic {{.*}} tensor<i32>, tensor<i32>) outs(%{{.*}} : tensor<1x2x16x16xbf16>)
// ZIGZAG: tensor.insert_slice %[[ROWS]] into %[[DQ]]
// ZIGZAG: tensor.extract_slice %[[CU_K]][0] [1] [1]
// ZIGZAG: tensor.insert_slice %{{.*}} into %[[DK]]

// GATHER-LABEL: func @gradient(
// GATHER-SAME: %[[DQ:[^:]*]]: tensor<1x2x32x16xbf16> {attn.name = "dq"}, %[[DK:[^:]*]]: tensor<1x2x32x16xbf16>
// GATHER: %[[ALLOCATED:.*]] = bufferization.alloc_tensor() : tensor<1x2x64x16xf32>
// GATHER: %[[CLEARED:.*]] = linalg.fill {{.*}} outs(%[[ALLOCATED]]
// GATHER: attn.attention_grad {{.*}} outs(%[[DQ]], %[[CLEARED]], {{.*}} sequences packed(
// GATHER-SAME: mask_mod {
// GATHER: attn.comm.all_to_all
// GATHER: linalg.generic {{.*}} tensor<i32>, tensor<i32>) outs(%[[DK]]
// GATHER: arith.truncf
// GATHER: arith.select
func.func @gradient(%q: !t, %k: !t, %v: !t, %out: !t, %lse: !l, %dout: !t, %dq: !t, %dk: !t, %dv: !t, %cu_q: !cu,
                    %cu_k: !cu) -> (!t, !t, !t) {
  %0:3 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %dout : !t, !t, !t, !t, !l, !t)
      outs(%dq, %dk, %dv : !t, !t, !t) sequences packed(%cu_q, %cu_k : !cu, !cu) mask(#attn.causal) -> !t, !t, !t
  return %0#0, %0#1, %0#2 : !t, !t, !t
}
