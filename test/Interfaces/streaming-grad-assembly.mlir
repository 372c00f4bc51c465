// REQUIRES: ptxas
// RUN: sed -e s/SCHEDULE/sm_80/ %S/streaming-grad.mlir | attn-test-opt -attn-to-kernel-pipeline=target=sm_80 \
// RUN:   '-attn-nvvm-pipeline=target=sm_80 fail-on-spills=1' | FileCheck %s
// RUN: sed -e s/SCHEDULE/sm_90a/ %S/streaming-grad.mlir | attn-test-opt -attn-to-kernel-pipeline=target=sm_90a \
// RUN:   '-attn-nvvm-pipeline=target=sm_90a fail-on-spills=1' | FileCheck %s
// RUN: sed -e 's/ schedule(#SCHEDULE)//' %S/streaming-grad.mlir | attn-test-opt -attn-to-kernel-pipeline=target=sm_80 \
// RUN:   '-attn-nvvm-pipeline=target=sm_80 fail-on-spills=1' | FileCheck %s
// RUN: sed -e 's/ schedule(#SCHEDULE)//' %S/streaming-grad.mlir | attn-test-opt -attn-to-kernel-pipeline=target=sm_90a \
// RUN:   '-attn-nvvm-pipeline=target=sm_90a fail-on-spills=1' | FileCheck %s

// ptxas assembles the kernels of `test_attn.relu_scores_grad`, with the schedules given and with those that are chosen.

// CHECK-DAG: gpu.binary @relu_grad_preprocess_kernel_module
// CHECK-DAG: gpu.binary @relu_grad_dkdv_kernel_module
// CHECK-DAG: gpu.binary @relu_grad_dq{{.*}}_kernel_module
