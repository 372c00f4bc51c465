// RUN: attn-opt %s -attn-tile-allocate-pipes=target=sm_90a -convert-attn-tile-to-nvvm=target=sm_90a -canonicalize -split-input-file | FileCheck %s

// The one thread of the producer waits by itself; each warp of the consumers
// counts its part; and a warp that is idle is a group.

// CHECK-LABEL: llvm.func @roles(
// CHECK-DAG:     %[[UNIT:.*]] = arith.constant 240 : i32
// CHECK:         %[[NUMBER:.*]] = arith.muli %{{.*}}, %[[UNIT]] : i32
// CHECK:         llvm.inline_asm has_side_effects {{.*}}setp.le.s32 skip, $1, 0;{{.*}}ld.acquire.gpu.global.s32 found, [$0];
// CHECK-SAME:        nanosleep{{.*}}fence.proxy.async;{{.*}} %{{.*}}, %[[NUMBER]] : (!llvm.ptr<1>, i32) -> ()
// CHECK:         arith.muli %{{.*}}, %[[UNIT]] : i32
// CHECK:         llvm.inline_asm has_side_effects {{.*}}setp.ne.or.s32 skip, $2, 0, skip;{{.*}}ld.acquire.gpu.global.s32 found, [$0];
// CHECK-SAME:        reached_${:uid}:\0Abar.warp.sync 0xffffffff;\0A}
// CHECK:         llvm.inline_asm has_side_effects {{.*}}.reg .pred first;\0Afence.proxy.async;{{.*}}red.release.gpu.global.add.s32 [$0], 240;
// CHECK:         llvm.inline_asm has_side_effects {{.*}}.reg .pred first;\0Afence.proxy.async;{{.*}}red.release.gpu.global.add.s32 [$0], 30;
attn_tile.kernel @roles(%c: memref<?xi32>, %n: index) attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  attn_tile.auxiliary_warps {
    attn_tile.semaphore_wait %c[%n] to(%n) : memref<?xi32>
    attn_tile.semaphore_add %c[%n] : memref<?xi32>
  }
  attn_tile.role producer warpgroups(1) registers(40) {
    attn_tile.semaphore_wait %c[%n] to(%n) : memref<?xi32>
  }
  attn_tile.role consumer warpgroups(2) registers(232) {
    attn_tile.semaphore_add %c[%n] : memref<?xi32>
  }
  attn_tile.return
}

// -----

// What has been added through shared memory is waited for.

// CHECK-LABEL: llvm.func @added(
// CHECK:         cp.reduce.async.bulk
// CHECK:         llvm.inline_asm has_side_effects {{.*}}cp.async.bulk.wait_group 0;\0Abar.warp.sync 0xffffffff;{{.*}}red.release.gpu.global.add.s32 [$0], 60;
attn_tile.kernel @added(%c: memref<?xi32>, %v: vector<64x16xf32>, %m: memref<?x64xf32>, %i: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x16xf32, stages = 1>
  %b = attn_tile.stage_fragments %v in %p : vector<64x16xf32>, !attn_tile.pipe<64x16xf32, stages = 1>
  attn_tile.bulk_reduce_add %b to %m[%i, %i] : !attn_tile.buffer<64x16xf32> to memref<?x64xf32>
  attn_tile.semaphore_add %c[%i] : memref<?xi32>
  attn_tile.return
}

// -----

// A part is two warps' of the CTA that has added: 16 times 16 bytes for each
// thread, which it copies to the end of the shared memory, 3 times 8 KB. 8x8
// blocks of it are transposed to be stored.

// CHECK-LABEL: llvm.func @transposed(
// CHECK-SAME:    attn_tile.shared_bytes = 24576 : i32
// CHECK-DAG:     %[[WARPBYTES:.*]] = arith.constant 8192 : i32
// CHECK:         arith.muli %{{.*}}, %[[WARPBYTES]] : i32
// CHECK:         llvm.inline_asm has_side_effects {{.*}}cp.async.cg.shared.global [$0 + 0], [$1 + 0], 16;{{.*}}[$0 + 7680], [$1 + 7680], 16;
// CHECK:         cp.async.wait_all;
// CHECK:         scf.for
// CHECK-COUNT-2:   ld.shared.v4.f32 {$0, $1, $2, $3}, [$4];\0Ast.global.v4.f32 [$5]
// CHECK-COUNT-4:   llvm.nvvm.ff2bf16x2.rn
// CHECK-COUNT-4:   movmatrix
// CHECK:           nvvm.shfl.sync
// CHECK:           scf.if
// CHECK:             llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>
// CHECK-COUNT-2:   ld.shared
// CHECK-COUNT-4:   movmatrix
// CHECK:             llvm.store
// CHECK-COUNT-4:   ld.shared
// CHECK:             llvm.store
// CHECK-NOT:         llvm.store
// CHECK:         llvm.return
attn_tile.kernel @transposed(%m: memref<?x128xf32>, %d: memref<?x128xbf16>, %i: index, %p: index)
    attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  %c0 = arith.constant 0 : index
  attn_tile.auxiliary_warps {
    attn_tile.convert_dq %m[%i, %c0] to %d[%i, %c0] part(%p of 4) times 0.125 transposed
        : vector<128x64xf32> in memref<?x128xf32> to memref<?x128xbf16>
  }
  attn_tile.role producer warpgroups(1) registers(40) {
  }
  attn_tile.role consumer warpgroups(2) registers(232) {
  }
  attn_tile.return
}

// -----

// Eight columns of a row are stored at once; those that the destination does not
// have are not.

// CHECK-LABEL: llvm.func @rows(
// CHECK-SAME:    attn_tile.shared_bytes = 98304 : i32
// CHECK:         cp.async.cg.shared.global
// CHECK-COUNT-2:   ld.shared.v4.f32
// CHECK-COUNT-4:   llvm.nvvm.ff2f16x2.rn
// CHECK-NOT:       movmatrix
// CHECK:           %[[ROW:.*]] = arith.cmpi slt
// CHECK:           %[[COLUMN:.*]] = arith.cmpi slt, %{{.*}}, %{{.*}} : i32
// CHECK:           arith.andi %[[ROW]], %[[COLUMN]] : i1
// CHECK:             llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>
attn_tile.kernel @rows(%m: memref<?x64xf32>, %d: memref<?x40xf16>, %i: index, %p: index)
    attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  %c0 = arith.constant 0 : index
  attn_tile.auxiliary_warps {
    attn_tile.convert_dq %m[%i, %c0] to %d[%i, %c0] part(%p of 1) times 1.0
        : vector<128x64xf32> in memref<?x64xf32> to memref<?x40xf16>
  }
  attn_tile.role producer warpgroups(1) registers(40) {
  }
  attn_tile.role consumer warpgroups(2) registers(232) {
  }
  attn_tile.return
}

// -----

// Where an idle warp counts, warps of consumers wait for their additions alone,
// and say so by a number each in shared memory, which begins at zero; lanes of
// the idle warp wait until all eight have for this work item and the ones before.

// CHECK-LABEL: llvm.func @complete(
// CHECK-SAME:    attn_tile.shared_bytes = 9216 : i32
// CHECK:         llvm.inline_asm has_side_effects {{.*}}st.shared.u32 [$0 + 0], 0;{{.*}}st.shared.u32 [$0 + 28], 0;\0A"
// CHECK:         llvm.inline_asm has_side_effects {{.*}}add.s32 expected, $3, 1;\0Asetp.lt.s32 waits, $1, 8;\0Amad.lo.u32 number, $1, 4, $2;
// CHECK-SAME:        @waits ld.acquire.cta.shared::cta.s32 found, [number];{{.*}}vote.sync.all.pred done, done, 0xffffffff;
// CHECK-SAME:        bar.warp.sync 0xffffffff;{{.*}}red.release.gpu.global.add.s32 [$0], 240;
// CHECK:         llvm.inline_asm has_side_effects
// CHECK-SAME: mad.lo.u32 number, $1, 4, $0;\0Asetp.eq.s32 first, $2, 0;\0Acp.async.bulk.wait_group 0;\0A@first red.release.cta.shared::cta.add.u32 [number], 1;
// CHECK-NOT:     red.release.gpu
// CHECK:         llvm.return
attn_tile.kernel @complete(%c: memref<?xi32>, %i: index) attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  %p = attn_tile.create_pipe : !attn_tile.pipe<128x16xf32, stages = 1>
  attn_tile.auxiliary_warps warps(1) {
    attn_tile.semaphore_add %c[%i] of additions after(%p[%i]) : memref<?xi32>, !attn_tile.pipe<128x16xf32, stages = 1>
  }
  attn_tile.role producer warpgroups(1) registers(24) {
  }
  attn_tile.role consumer warpgroups(2) registers(240) {
    attn_tile.semaphore_release %p : !attn_tile.pipe<128x16xf32, stages = 1>
  }
  attn_tile.return
}
