// RUN: attn-opt %s -attn-tile-allocate-pipes=target=sm_90a -convert-attn-tile-to-nvvm=target=sm_90a -split-input-file | FileCheck %s

// Where tiles are spread over one warpgroup, each consumer holds all rows of
// them: the left-hand side has no offset, and the right-hand side the offset of
// the columns of the consumer: a block of 64 columns and 16 rows has 2048 bytes.

// CHECK-LABEL: llvm.func @columns
// CHECK:         %[[INDEX:.*]] = nvvm.shfl.sync
// CHECK:         %[[WARPGROUP:.*]] = arith.shrui %[[INDEX]], %{{.*}} : i32
// CHECK:         nvvm.setmaxregister  increase 240
// CHECK:         %[[CONSUMER:.*]] = arith.subi %[[WARPGROUP]], %{{.*}} : i32
// CHECK-NOT:     arith.muli %[[CONSUMER]]
// CHECK:         %[[BYTES:.*]] = llvm.mlir.constant(2048 : i32) : i32
// CHECK-NEXT:    %[[OFFSET:.*]] = arith.muli %[[CONSUMER]], %[[BYTES]] : i32
// CHECK-NEXT:    arith.addi %{{.*}}, %[[OFFSET]] : i32
// CHECK:         wgmma.mma_async.sync.aligned.m64n64k16
attn_tile.kernel @columns(%p: memref<64x16xf16>, %k: memref<?x128xf16>, %out: memref<64x128xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %lhs = attn_tile.create_pipe : !attn_tile.pipe<64x16xf16, stages = 1>
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<16x128xf16, stages = 1>
  attn_tile.role producer warpgroups(1) registers(24) {
  }
  attn_tile.role consumer warpgroups(2) registers(240) {
    %a = attn_tile.wait %lhs[%c0] : !attn_tile.pipe<64x16xf16, stages = 1>
    %b = attn_tile.wait %pipe[%c0] : !attn_tile.pipe<16x128xf16, stages = 1>
    %s = attn_tile.mma_start %a, %b consumer_columns : !attn_tile.buffer<64x16xf16>, !attn_tile.buffer<16x128xf16>
        -> !attn_tile.pending<vector<64x64xf32>>
    %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<64x64xf32>>
    attn_tile.release %a : !attn_tile.buffer<64x16xf16>
    attn_tile.release %b : !attn_tile.buffer<16x128xf16>
    %consumer = attn_tile.consumer_id
    %column = arith.muli %consumer, %c64 : index
    attn_tile.store %r, %out[%c0, %column] : vector<64x64xf32>, memref<64x128xf32>
  }
  attn_tile.return
}
