// RUN: attn-test-opt %s -attn-to-kernel-pipeline=target=host | FileCheck %s --check-prefixes=CHECK,HOST
// RUN: attn-test-opt %s -attn-to-kernel-pipeline=target=sm_80 | FileCheck %s --check-prefixes=CHECK,SM80
// RUN: attn-test-opt %s -attn-to-kernel-pipeline=target=sm_90a | FileCheck %s --check-prefixes=CHECK,SM90

// `test_attn.linear_scores` of test/lib gets kernels by StreamingOpInterface and AttentionOpInterface. It has no
// softmax: the scores are the factors of the values, and the state is one accumulator.
// test/Integration/host/linear_scores.py checks the results of host kernels, streaming-assembly.mlir assembles the
// kernels of GPUs.

// CHECK-LABEL: func.func @linear(
// CHECK:         attn_tile.launch @linear_kernel

// CHECK-LABEL: attn_tile.kernel @linear_kernel(
// HOST-SAME:     schedule = #attn_tile.sequential<
// HOST:          %[[LOOP:.*]] = scf.for {{.*}} iter_args(%[[ACC:.*]] = %{{.*}}) -> (vector<256x64xf32>)
// HOST:            %[[MASKED:.*]] = arith.cmpf oeq, %[[SCORES:.*]], %{{.*}} : vector<256x[[KEYS:[0-9]+]]xf32>
// HOST:            %[[KEPT:.*]] = arith.select %[[MASKED]], %{{.*}}, %[[SCORES]]
// HOST:            %[[ROUNDED:.*]] = arith.truncf %[[KEPT]] : vector<256x[[KEYS]]xf32> to vector<256x[[KEYS]]xbf16>
// HOST:            vector.contract {{.*}} %[[ROUNDED]], %{{.*}}, %[[ACC]]
// SM80-SAME:     schedule = #attn_tile.multistage<
// SM80:          attn_tile.mma_start
// SM80:          arith.cmpf oeq
// SM80:          attn_tile.mma_start
// SM90-SAME:     schedule = #attn_tile.warp_specialized<
// SM90:          attn_tile.role consumer warpgroups(2)
// SM90:            attn_tile.mma_start
// SM90:            arith.cmpf oeq
// SM90:            attn_tile.mma_start
// CHECK-NOT:     math.exp2

func.func @linear(%q: memref<?x4x?x64xbf16>, %k: memref<?x2x?x64xbf16>, %v: memref<?x2x?x64xbf16>,
                  %o: memref<?x4x?x64xbf16>) {
  test_attn.linear_scores ins(%q, %k, %v : memref<?x4x?x64xbf16>, memref<?x2x?x64xbf16>, memref<?x2x?x64xbf16>)
      outs(%o : memref<?x4x?x64xbf16>) mask(#attn.causal)
  return
}

// A KV addressing of test/lib, whose sequences end at the end of their batch entry: the first row is that of the length
// from the end, and each tile of keys and values is loaded relative to it.

// CHECK-LABEL: attn_tile.kernel @left_padded_kernel(
// CHECK:         %[[LENGTH:.*]] = arith.index_cast %{{.*}} : i32 to index
// CHECK-NEXT:    %[[FIRST:.*]] = arith.subi %[[STORED:.*]], %[[LENGTH]]
// CHECK-NEXT:    %[[VALID:.*]] = arith.cmpi ule, %[[LENGTH]], %[[STORED]]
// CHECK:         %[[ROW:.*]] = arith.select %[[VALID]], %[[FIRST]], %{{.*}}
// CHECK:         arith.addi %[[ROW]],

func.func @left_padded(%q: memref<?x4x?x64xbf16>, %k: memref<?x2x?x64xbf16>, %o: memref<?x4x?x64xbf16>,
                       %lengths: memref<?xi32>) {
  test_attn.linear_scores ins(%q, %k, %k : memref<?x4x?x64xbf16>, memref<?x2x?x64xbf16>, memref<?x2x?x64xbf16>)
      outs(%o : memref<?x4x?x64xbf16>) key_lengths(%lengths : memref<?xi32>) addressing(#test_attn.left_padded_kv)
  return
}

// A ring buffer of test/lib: loads hold the key, and the addressing gives the row of each key where they are copied.

// CHECK-LABEL: attn_tile.kernel @ring_buffer_kernel(
// HOST:          attn_tile.load {{.*}} stored(#test_attn.ring_buffer_kv<1> from %{{.*}} of %{{.*}}) stream(
// HOST:          attn_tile.load {{.*}} stored(#test_attn.ring_buffer_kv<1> from %{{.*}} of %{{.*}}) within(
// SM80:          attn_tile.copy {{.*}} stored(#test_attn.ring_buffer_kv<1> from %{{.*}} of %{{.*}}) to
// SM90:          attn_tile.copy {{.*}} stored(#test_attn.ring_buffer_kv<1> from %{{.*}} of %{{.*}}) to

func.func @ring_buffer(%q: memref<?x4x?x64xbf16>, %k: memref<?x2x?x64xbf16>, %o: memref<?x4x?x64xbf16>,
                       %lengths: memref<?xi32>) {
  test_attn.linear_scores ins(%q, %k, %k : memref<?x4x?x64xbf16>, memref<?x2x?x64xbf16>, memref<?x2x?x64xbf16>)
      outs(%o : memref<?x4x?x64xbf16>) key_lengths(%lengths : memref<?xi32>) addressing(#test_attn.ring_buffer_kv<1>)
  return
}
