// REQUIRES: ptxas
// RUN: attn-test-opt %s -attn-to-kernel-pipeline=target=sm_80 '-attn-nvvm-pipeline=target=sm_80 fail-on-spills=1' \
// RUN:   | FileCheck %s
// RUN: sed -e 's/multistage<\(.*\), warps = 4/warp_specialized<\1, consumers = 1/' \
// RUN:   -e 's/ring_buffer_kv<1>/ring_buffer_kv<16>/' %s \
// RUN:   | attn-test-opt -attn-to-kernel-pipeline=target=sm_90a '-attn-nvvm-pipeline=target=sm_90a fail-on-spills=1' \
// RUN:   | FileCheck %s

// ptxas assembles the kernels of `test_attn.linear_scores`: with chosen schedules, of which some have the KV addressings
// of test/lib and one divides wide heads among work items, and one with KV splits and the kernel that combines them.

// CHECK: gpu.binary @whole_kernel_module
// CHECK: gpu.binary @left_padded_kernel_module
// CHECK: gpu.binary @ring_buffer_kernel_module
// CHECK: gpu.binary @ring_buffer_of_pages_kernel_module
// CHECK: gpu.binary @wide_kernel_module
// CHECK: gpu.binary @splits_kernel_module
// CHECK: gpu.binary @splits_combine_module

func.func @whole(%q: memref<?x4x?x64xbf16>, %k: memref<?x2x?x64xbf16>, %v: memref<?x2x?x64xbf16>,
                 %o: memref<?x4x?x64xbf16>) {
  test_attn.linear_scores ins(%q, %k, %v : memref<?x4x?x64xbf16>, memref<?x2x?x64xbf16>, memref<?x2x?x64xbf16>)
      outs(%o : memref<?x4x?x64xbf16>) mask(#attn.causal)
  return
}

func.func @left_padded(%q: memref<?x4x?x64xbf16>, %k: memref<?x2x?x64xbf16>, %o: memref<?x4x?x64xbf16>,
                       %lengths: memref<?xi32>) {
  test_attn.linear_scores ins(%q, %k, %k : memref<?x4x?x64xbf16>, memref<?x2x?x64xbf16>, memref<?x2x?x64xbf16>)
      outs(%o : memref<?x4x?x64xbf16>) key_lengths(%lengths : memref<?xi32>) mask(#attn.causal)
      addressing(#test_attn.left_padded_kv)
  return
}

func.func @ring_buffer(%q: memref<?x4x?x64xbf16>, %k: memref<?x2x?x64xbf16>, %o: memref<?x4x?x64xbf16>,
                       %lengths: memref<?xi32>) {
  test_attn.linear_scores ins(%q, %k, %k : memref<?x4x?x64xbf16>, memref<?x2x?x64xbf16>, memref<?x2x?x64xbf16>)
      outs(%o : memref<?x4x?x64xbf16>) key_lengths(%lengths : memref<?xi32>) mask(#attn.causal)
      addressing(#test_attn.ring_buffer_kv<1>)
  return
}

func.func @ring_buffer_of_pages(%q: memref<?x4x?x64xbf16>, %k: memref<?x2x?x64xbf16>, %o: memref<?x4x?x64xbf16>,
                                %lengths: memref<?xi32>) {
  test_attn.linear_scores ins(%q, %k, %k : memref<?x4x?x64xbf16>, memref<?x2x?x64xbf16>, memref<?x2x?x64xbf16>)
      outs(%o : memref<?x4x?x64xbf16>) key_lengths(%lengths : memref<?xi32>)
      addressing(#test_attn.ring_buffer_kv<16>)
  return
}

func.func @wide(%q: memref<?x2x?x288xbf16>, %v: memref<?x2x?x512xbf16>, %o: memref<?x2x?x512xbf16>) {
  test_attn.linear_scores ins(%q, %q, %v : memref<?x2x?x288xbf16>, memref<?x2x?x288xbf16>, memref<?x2x?x512xbf16>)
      outs(%o : memref<?x2x?x512xbf16>) mask(#attn.causal)
  return
}

func.func @splits(%q: memref<1x4x16x64xbf16>, %k: memref<1x2x?x64xbf16>, %o: memref<1x4x16x64xbf16>) {
  test_attn.linear_scores ins(%q, %k, %k : memref<1x4x16x64xbf16>, memref<1x2x?x64xbf16>, memref<1x2x?x64xbf16>)
      outs(%o : memref<1x4x16x64xbf16>)
      schedule(#attn_tile.multistage<query_tile = 64, key_tile = 64, stages = 2, warps = 4, split_kv_work_items = 64>)
  return
}
