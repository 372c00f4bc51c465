// RUN: attn-opt %s -attn-tile-allocate-pipes=target=sm_90a -convert-attn-tile-to-nvvm=target=sm_90a -split-input-file | FileCheck %s

// An MMA goes on with the registers of one in flight; the wait for those
// before it touches none.
// CHECK-LABEL: llvm.func @in_flight
// CHECK: %[[P:.*]] = llvm.inline_asm has_side_effects {{.*}} "{{.*}}setp.ne.b32 first, 0, 0;{{.*}}wgmma.mma_async{{.*}}wgmma.commit_group
// CHECK: %[[P0:.*]] = llvm.extractvalue %[[P]][0]
// CHECK: llvm.inline_asm has_side_effects {{.*}} "{{.*}}setp.ne.b32 first, 1, 0;{{.*}}wgmma.mma_async{{.*}}wgmma.commit_group{{.*}} %[[P0]],
// CHECK: llvm.inline_asm has_side_effects asm_dialect = att "wgmma.wait_group.sync.aligned 1;", "~{memory}"
// CHECK: "wgmma.wait_group.sync.aligned 0;"
attn_tile.kernel @in_flight(%out: memref<64x64xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 1>
  %b = attn_tile.wait %p[%c0] : !attn_tile.pipe<64x64xbf16, stages = 1>
  %q = attn_tile.mma_start %b, %b : !attn_tile.buffer<64x64xbf16>, !attn_tile.buffer<64x64xbf16>
      -> !attn_tile.pending<vector<64x64xf32>>
  %s = attn_tile.mma_start %b, %b acc %q : !attn_tile.buffer<64x64xbf16>, !attn_tile.buffer<64x64xbf16>
      -> !attn_tile.pending<vector<64x64xf32>> in_flight
  attn_tile.mma_wait_before %s : !attn_tile.pending<vector<64x64xf32>>
  %t = attn_tile.mma_wait %s : !attn_tile.pending<vector<64x64xf32>>
  attn_tile.release %b : !attn_tile.buffer<64x64xbf16>
  attn_tile.store %t, %out[%c0, %c0] : vector<64x64xf32>, memref<64x64xf32>
  attn_tile.return
}

// -----

// Two stages for each of two warpgroups: a block is written when all copies but
// that of the other stage have read theirs; one thread copies it.
// CHECK-LABEL: llvm.func @store
// CHECK: cp.async.bulk.wait_group.read 1;\0Abar.sync $1, 128
// CHECK-COUNT-4: stmatrix.sync
// CHECK: fence.proxy.async.shared::cta;\0Abar.sync $5, 128;
// CHECK-SAME:     @first cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [$0, {$3, $4}], [$1];\0A@first cp.async.bulk.commit_group
// CHECK-COUNT-3: cp.async.bulk.tensor.2d.global
// CHECK: "cp.async.bulk.wait_group 0;"
// CHECK-NEXT: llvm.return
attn_tile.kernel @store(%map: !attn_tile.tensor_map<2, 64x64xbf16>)
    attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  %c0 = arith.constant 0 : index
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 4>
  %t = arith.constant dense<1.0> : vector<128x256xbf16>
  attn_tile.store_through %p, %t to %map[%c0, %c0] : !attn_tile.pipe<64x64xbf16, stages = 4>, vector<128x256xbf16>
      to !attn_tile.tensor_map<2, 64x64xbf16>
  attn_tile.return
}
