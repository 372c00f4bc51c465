// RUN: sed -e s/SCHEDULE/host/ %s | attn-test-opt -attn-to-kernel-pipeline=target=host \
// RUN:   | FileCheck %s --check-prefixes=CHECK,HOST
// RUN: sed -e s/SCHEDULE/sm_80/ %s | attn-test-opt -attn-to-kernel-pipeline=target=sm_80 \
// RUN:   | FileCheck %s --check-prefixes=CHECK,GPU
// RUN: sed -e s/SCHEDULE/sm_90a/ %s | attn-test-opt -attn-to-kernel-pipeline=target=sm_90a \
// RUN:   | FileCheck %s --check-prefixes=CHECK,GPU,SM90

// `test_attn.relu_scores_grad` of test/lib gets the kernels of a gradient by StreamingGradOpInterface and
// AttentionOpInterface. It has no softmax: rectified scores are the factors of the values, and rows have no result.
// test/Integration/host/relu_scores_grad.py checks the results of host kernels, streaming-grad-assembly.mlir assembles
// the kernels of GPUs.

#host = #attn_tile.sequential<query_tile = 16, key_tile = 16>
#sm_80 = #attn_tile.gradient<
  preprocess = #attn_tile.multistage<query_tile = 64, key_tile = 64, stages = 2, warps = 4>,
  dkdv = #attn_tile.key_multistage<query_tile = 32, key_tile = 64, stages = 2, warps = 4>,
  dq = #attn_tile.multistage<query_tile = 64, key_tile = 32, stages = 2, warps = 4>>
#sm_90a = #attn_tile.gradient<
  preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
  dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>>

// CHECK-LABEL: func.func @relu(
// CHECK:         attn_tile.launch @relu_grad_preprocess_kernel
// CHECK:         attn_tile.launch @relu_grad_dkdv_kernel
// HOST:          attn_tile.launch @relu_grad_dq_kernel
// SM90:          attn_tile.launch @relu_grad_dq_convert_kernel

// CHECK-LABEL: attn_tile.kernel @relu_grad_dkdv_kernel(
// SM90:          attn_tile.role consumer warpgroups(2)
// GPU:           attn_tile.mma_start
// CHECK:         arith.cmpf ogt
// CHECK-NOT:     math.exp2
func.func @relu(%q: memref<?x4x?x64xbf16>, %k: memref<?x2x?x64xbf16>, %dq: memref<?x4x?x64xbf16>,
                %dk: memref<?x2x?x64xbf16>, %dv: memref<?x2x?x64xbf16>) {
  test_attn.relu_scores_grad
      ins(%q, %k, %k, %q, %q : memref<?x4x?x64xbf16>, memref<?x2x?x64xbf16>, memref<?x2x?x64xbf16>,
          memref<?x4x?x64xbf16>, memref<?x4x?x64xbf16>)
      outs(%dq, %dk, %dv : memref<?x4x?x64xbf16>, memref<?x2x?x64xbf16>, memref<?x2x?x64xbf16>)
      mask(#attn.causal) schedule(#SCHEDULE)
  return
}
