// RUN: attn-opt %s -attn-tile-allocate-pipes=target=sm_80 -convert-attn-tile-to-nvvm=target=sm_80 -canonicalize -cse -split-input-file | FileCheck %s
// RUN: attn-opt %s -attn-tile-allocate-pipes=target=sm_90a -convert-attn-tile-to-nvvm=target=sm_90a -canonicalize -cse -split-input-file | FileCheck %s

// The contracted dimension of both operands is contiguous: ldmatrix reads four
// matrices of 8 rows and 4 columns of each. All values are rounded.

// CHECK-LABEL: llvm.func @scores
// CHECK-DAG:     %[[ROUND:.*]] = arith.constant 1.00032556 : f32
// CHECK-NOT:     llvm.load
// CHECK:         nvvm.ldmatrix %{{.*}} {eltType = #nvvm.ld_st_matrix_elt_type<b16>, layout = #nvvm.mma_layout<row>, num = 4
// CHECK-COUNT-4: arith.mulf %{{.*}}, %[[ROUND]] : f32
// CHECK:         nvvm.ldmatrix %{{.*}} {eltType = #nvvm.ld_st_matrix_elt_type<b16>, layout = #nvvm.mma_layout<row>, num = 4
// CHECK-COUNT-4: arith.mulf %{{.*}}, %[[ROUND]] : f32
// CHECK-NOT:     arith.mulf
// CHECK-COUNT-2: nvvm.mma.sync {{.*}}multiplicandAPtxType = #nvvm.mma_type<tf32>, {{.*}}BPtxType = #nvvm.mma_type<tf32>, {{.*}}<m = 16, n = 8, k = 8>
// CHECK-NOT:     nvvm.mma.sync
attn_tile.kernel @scores(%out: memref<16x16xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 1>, precision = #attn<matmul_precision high>} {
  %c0 = arith.constant 0 : index
  %p = attn_tile.create_pipe : !attn_tile.pipe<16x8xf32, stages = 1>
  %q = attn_tile.wait %p[%c0] : !attn_tile.pipe<16x8xf32, stages = 1>
  %s = attn_tile.mma_start %q, %q transpose_rhs : !attn_tile.buffer<16x8xf32>, !attn_tile.buffer<16x8xf32> -> !attn_tile.pending<vector<16x16xf32>>
  %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<16x16xf32>>
  attn_tile.release %q : !attn_tile.buffer<16x8xf32>
  attn_tile.store %r, %out[%c0, %c0] : vector<16x16xf32>, memref<16x16xf32>
  attn_tile.return
}

// -----

// The accumulator is the left-hand side of the next MMA. The right-hand side is
// read word by word, in the order of the accumulator: each lane reads rows 2t
// and 2t + 1 of eight, so that the addresses of the second ones have another
// chunk (16 bytes) and row (128 bytes).

// CHECK-LABEL: llvm.func @values
// CHECK-NOT:     nvvm.ldmatrix
// CHECK-DAG:     %[[CHUNK:.*]] = llvm.mlir.constant(16 : i32)
// CHECK-DAG:     %[[ROW:.*]] = llvm.mlir.constant(128 : i32)
// CHECK:         %[[OTHER:.*]] = arith.xori %{{.*}}, %[[CHUNK]] : i32
// CHECK-NEXT:    arith.addi %[[OTHER]], %[[ROW]] : i32
// CHECK:         llvm.load %{{.*}} : !llvm.ptr<3> -> i32
// CHECK:         llvm.load %{{.*}} : !llvm.ptr<3> -> i32
// CHECK:         nvvm.mma.sync {{.*}}k = 8>
// CHECK:         llvm.load %{{.*}} : !llvm.ptr<3> -> i32
// CHECK:         llvm.load %{{.*}} : !llvm.ptr<3> -> i32
// CHECK:         nvvm.mma.sync {{.*}}k = 8>
// CHECK-NOT:     nvvm.mma.sync
attn_tile.kernel @values(%in: memref<16x16xf32>, %out: memref<16x8xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 1>, precision = #attn<matmul_precision high>} {
  %c0 = arith.constant 0 : index
  %p = attn_tile.create_pipe : !attn_tile.pipe<16x8xf32, stages = 1>
  %probabilities = attn_tile.load %in[%c0, %c0] : memref<16x16xf32> -> vector<16x16xf32>
  %v = attn_tile.wait %p[%c0] : !attn_tile.pipe<16x8xf32, stages = 1>
  %s = attn_tile.mma_start %probabilities, %v : vector<16x16xf32>, !attn_tile.buffer<16x8xf32> -> !attn_tile.pending<vector<16x8xf32>>
  %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<16x8xf32>>
  attn_tile.release %v : !attn_tile.buffer<16x8xf32>
  attn_tile.store %r, %out[%c0, %c0] : vector<16x8xf32>, memref<16x8xf32>
  attn_tile.return
}

// -----

// In the highest precision, which is the default, a value is the sum of its
// upper 19 bits and of a rest, which is rounded. Three MMAs add to the same
// accumulator, the largest terms last. MMAs of other accumulators are between.

// CHECK-LABEL: llvm.func @highest
// CHECK:         %[[MASK:.*]] = llvm.mlir.constant(-8192 : i32)
// CHECK:         %[[HIGH:.*]] = arith.andi %[[WORD:.*]], %[[MASK]] : i32
// CHECK-DAG:     %[[VALUE:.*]] = llvm.bitcast %[[WORD]] : i32 to f32
// CHECK-DAG:     %[[UPPER:.*]] = llvm.bitcast %[[HIGH]] : i32 to f32
// CHECK:         %[[REST:.*]] = arith.subf %[[VALUE]], %[[UPPER]] : f32
// CHECK:         %[[ROUNDED:.*]] = arith.mulf %[[REST]], %{{.*}} : f32
// CHECK:         %[[LOW:.*]] = llvm.bitcast %[[ROUNDED]] : f32 to i32
// CHECK:         nvvm.mma.sync A[%[[LOW]], %{{[^]]*}}] B[%[[BH:[0-9]+]],
// CHECK:         nvvm.mma.sync A[%[[LOW]],
// CHECK:         nvvm.mma.sync A[%[[HIGH]], %{{[^]]*}}] B[
// CHECK:         nvvm.mma.sync A[%[[HIGH]],
// CHECK:         nvvm.mma.sync A[%[[HIGH]], %{{[^]]*}}] B[%[[BH]],
// CHECK:         nvvm.mma.sync A[%[[HIGH]],
// CHECK-NOT:     nvvm.mma.sync
attn_tile.kernel @highest(%out: memref<16x16xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 1>} {
  %c0 = arith.constant 0 : index
  %p = attn_tile.create_pipe : !attn_tile.pipe<16x8xf32, stages = 1>
  %q = attn_tile.wait %p[%c0] : !attn_tile.pipe<16x8xf32, stages = 1>
  %s = attn_tile.mma_start %q, %q transpose_rhs : !attn_tile.buffer<16x8xf32>, !attn_tile.buffer<16x8xf32> -> !attn_tile.pending<vector<16x16xf32>>
  %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<16x16xf32>>
  attn_tile.release %q : !attn_tile.buffer<16x8xf32>
  attn_tile.store %r, %out[%c0, %c0] : vector<16x16xf32>, memref<16x16xf32>
  attn_tile.return
}

// -----

// An MMA that adds to the result of another one starts from 0, the difference
// of the accumulator and itself, which saturation makes 0 for infinities, too,
// and f32 additions, which round, follow.

// CHECK-LABEL: llvm.func @rounded
// CHECK-COUNT-8: llvm.inline_asm asm_dialect = att "sub.sat.f32 $0, $1, $1;", "=f,f" %{{.*}} : (f32) -> f32
// CHECK-NOT:     arith.addf
// CHECK-COUNT-6: nvvm.mma.sync
// CHECK-NOT:     nvvm.mma.sync
// CHECK-COUNT-8: arith.addf {{.*}} : f32
attn_tile.kernel @rounded(%in: memref<16x16xf32>, %out: memref<16x16xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 1>} {
  %c0 = arith.constant 0 : index
  %p = attn_tile.create_pipe : !attn_tile.pipe<16x8xf32, stages = 1>
  %acc = attn_tile.load %in[%c0, %c0] : memref<16x16xf32> -> vector<16x16xf32>
  %q = attn_tile.wait %p[%c0] : !attn_tile.pipe<16x8xf32, stages = 1>
  %s = attn_tile.mma_start %q, %q transpose_rhs acc %acc : !attn_tile.buffer<16x8xf32>, !attn_tile.buffer<16x8xf32> -> !attn_tile.pending<vector<16x16xf32>>
  %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<16x16xf32>>
  attn_tile.release %q : !attn_tile.buffer<16x8xf32>
  attn_tile.store %r, %out[%c0, %c0] : vector<16x16xf32>, memref<16x16xf32>
  attn_tile.return
}
