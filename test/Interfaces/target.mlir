// RUN: attn-test-opt %s -attn-tile-allocate-pipes=target=test_gpu -convert-attn-tile-to-nvvm=target=test_gpu \
// RUN:   | FileCheck %s
// RUN: not attn-test-opt %s -attn-tile-allocate-pipes=target=sm_89 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// The target of test/lib writes the name of each of its methods. A layout of test/lib gives whole rows to threads, so
// that reductions of rows need no exchange.

// UNKNOWN: error: unknown GPU architecture 'sm_89' (expected sm_80, sm_90a or test_gpu)

// CHECK:       llvm.mlir.global external @attn_shared_memory() {addr_space = 3 : i32, alignment = 64 : i64}
// CHECK-LABEL: llvm.func @pipes(
// CHECK-SAME:    attn_tile.block_size = 32 : i32
// Two stages of 64x16 elements of two bytes, behind two pairs of barriers.
// CHECK-SAME:    attn_tile.shared_bytes = 4160 : i32
// CHECK:         %[[THREAD:.*]] = nvvm.read.ptx.sreg.tid.x
// CHECK:         scf.if
// CHECK-COUNT-2:   "test.init_barriers"
// CHECK:         "test.init_done"
// CHECK:         "test.acquire", "r,r,~{memory}"
// CHECK-NEXT:    "test.copy", "r,r,r,~{memory}" %{{.*}}, %{{.*}}, %[[THREAD]]
// CHECK-NEXT:    "test.commit", "r,~{memory}"
// CHECK:         "test.wait", "r,r,~{memory}"
// CHECK:         "test.clear", "r,r,~{memory}"
// CHECK:         "test.mma_start", "r,r,~{memory}"
// CHECK:         "test.mma_wait"
// CHECK-NOT:     nvvm.shfl
// CHECK:         "test.release"
// CHECK-NOT:     nvvm.shfl
// CHECK-COUNT-32: llvm.store
// CHECK-NOT:     llvm.store
attn_tile.kernel @pipes(%m: memref<?x16xbf16>, %row: index, %out: memref<64x16xf32>)
    attributes {layout = #test_attn.whole_rows<32>} {
  %c0 = arith.constant 0 : index
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x16xbf16, stages = 2>
  %a = attn_tile.acquire %p[%c0] : !attn_tile.pipe<64x16xbf16, stages = 2>
  attn_tile.copy %m[%row, %c0] to %a : memref<?x16xbf16> to !attn_tile.buffer<64x16xbf16>
  attn_tile.commit %a : !attn_tile.buffer<64x16xbf16>
  %b = attn_tile.wait %p[%c0] : !attn_tile.pipe<64x16xbf16, stages = 2>
  attn_tile.clear %b within(%row of %row) : !attn_tile.buffer<64x16xbf16>
  %s = attn_tile.mma_start %b, %b transpose_rhs : !attn_tile.buffer<64x16xbf16>, !attn_tile.buffer<64x16xbf16>
      -> !attn_tile.pending<vector<64x64xf32>>
  %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<64x64xf32>>
  %least = arith.constant dense<0xFF800000> : vector<64xf32>
  %max = vector.multi_reduction <maxnumf>, %r, %least [1] : vector<64x64xf32> to vector<64xf32>
  attn_tile.release %b : !attn_tile.buffer<64x16xbf16>
  %x = vector.shape_cast %max : vector<64xf32> to vector<64x1xf32>
  %y = vector.broadcast %x : vector<64x1xf32> to vector<64x16xf32>
  attn_tile.store %y, %out[%c0, %c0] : vector<64x16xf32>, memref<64x16xf32>
  attn_tile.return
}
