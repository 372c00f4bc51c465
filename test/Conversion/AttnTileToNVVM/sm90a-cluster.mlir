// RUN: attn-opt %s -attn-tile-allocate-pipes=target=sm_90a -convert-attn-tile-to-nvvm=target=sm_90a | FileCheck %s

// Two CTAs of a cluster: each copies half of the rows to both, waits until the
// consumers of both have released a stage, and has barriers that nobody uses
// before they are there or after they are gone.

// CHECK-LABEL: llvm.func @cluster
// CHECK-SAME:    %[[MAP:[a-z0-9]+]]: !llvm.ptr {{.*}}, %[[Q:[a-z0-9]+]]: !llvm.ptr
// CHECK-SAME:    attn_tile.cluster_size = 2 : i32
// CHECK-SAME:    nvvm.cluster_dim = array<i32: 2>
// A producer and one thread of each of two consumers, of both CTAs.
// CHECK:         %[[RELEASES:.*]] = llvm.mlir.constant(4 : i32) : i32
// CHECK-NEXT:    "mbarrier.init.shared::cta.b64 [$0], $1;", "r,r" %{{.*}}, %[[RELEASES]]
// CHECK:         %[[RELEASES:.*]] = llvm.mlir.constant(2 : i32) : i32
// CHECK-NEXT:    "mbarrier.init.shared::cta.b64 [$0], $1;", "r,r" %{{.*}}, %[[RELEASES]]
// CHECK:         nvvm.fence.mbarrier.init
// CHECK-NEXT:    nvvm.cluster.arrive {aligned}
// CHECK-NEXT:    nvvm.cluster.wait {aligned}
// CHECK-NOT:     nvvm.barrier
attn_tile.kernel @cluster(%map: !attn_tile.tensor_map<3, 32x64xbf16>, %q: !attn_tile.tensor_map<3, 128x64xbf16>,
                          %out: memref<128x64xf32>, %b: index, %n: index)
    attributes {layout = #attn_tile.row_blocks<warps = 8>, cluster = 2 : i64} {
  %kp = attn_tile.create_pipe : !attn_tile.pipe<64x128xbf16, stages = 1, cluster = 2>
  %qp = attn_tile.create_pipe : !attn_tile.pipe<128x128xbf16, stages = 1>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // CHECK-DAG:     %[[RANK:.*]] = nvvm.read.ptx.sreg.cluster.ctaid.x : i32
  // CHECK-DAG:     %[[ID:.*]] = nvvm.read.ptx.sreg.clusterid.x : i32
  // CHECK-DAG:     %[[COUNT:.*]] = nvvm.read.ptx.sreg.nclusterid.x : i32
  %rank = attn_tile.cluster_rank
  %id = attn_tile.cluster_id
  %count = attn_tile.num_clusters
  // CHECK:         mbarrier.try_wait.parity.shared::cta.b64
  // CHECK:         cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1, {$3, $4, $5}], [$2];
  // CHECK:         scf.for %[[T:.*]] = %[[ID]] to %{{.*}} step %[[COUNT]]
  // CHECK:           mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1;
  // CHECK:           %[[BYTES:.*]] = llvm.mlir.constant(16384 : i32) : i32
  // CHECK-NEXT:      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", {{.*}} %{{.*}}, %[[BYTES]]
  // CHECK:           mov.u32 row, %cluster_ctarank;
  // CHECK-SAME:      mad.lo.u32 stage, row, 4096, $0;
  // CHECK-SAME:      mad.lo.u32 row, row, 32, $4;
  // CHECK-SAME:      cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [stage], [$1, {$3, row, $5}], [$2], 3;
  // CHECK-SAME:      %{{.*}}, %[[MAP]], %{{.*}}, %{{.*}}, %[[T]],
  // CHECK:           cp.async.bulk.tensor.3d{{.*}}multicast::cluster
  attn_tile.role producer warpgroups(1) registers(24) {
    %s = attn_tile.acquire %qp[%c0] : !attn_tile.pipe<128x128xbf16, stages = 1>
    attn_tile.copy %q[%b, %rank, %c0] to %s : !attn_tile.tensor_map<3, 128x64xbf16> to !attn_tile.buffer<128x128xbf16>
    attn_tile.commit %s : !attn_tile.buffer<128x128xbf16>
    scf.for %t = %id to %n step %count {
      %k = attn_tile.acquire %kp[%t] : !attn_tile.pipe<64x128xbf16, stages = 1, cluster = 2>
      attn_tile.copy %map[%b, %t, %c0] to %k : !attn_tile.tensor_map<3, 32x64xbf16> to !attn_tile.buffer<64x128xbf16, cluster = 2>
      attn_tile.commit %k : !attn_tile.buffer<64x128xbf16, cluster = 2>
    }
  }
  // CHECK:         scf.for
  // CHECK:           mbarrier.try_wait.parity.shared::cta.b64
  // CHECK:           setp.lt.u32 first, $1, 2;
  // CHECK-SAME:      @first mapa.shared::cluster.u32 empty, $0, $1;
  // CHECK-SAME:      @first mbarrier.arrive.shared::cluster.b64 _, [empty];
  // CHECK:         mbarrier.arrive.shared::cta.b64 _, [$0];
  attn_tile.role consumer warpgroups(2) registers(240) {
    %x = arith.constant dense<0.0> : vector<128x64xf32>
    %s = attn_tile.wait %qp[%c0] : !attn_tile.pipe<128x128xbf16, stages = 1>
    %r = scf.for %t = %id to %n step %count iter_args(%a = %x) -> vector<128x64xf32> {
      %k = attn_tile.wait %kp[%t] : !attn_tile.pipe<64x128xbf16, stages = 1, cluster = 2>
      %p = attn_tile.mma_start %s, %k transpose_rhs acc %a
          : !attn_tile.buffer<128x128xbf16>, !attn_tile.buffer<64x128xbf16, cluster = 2>
          -> !attn_tile.pending<vector<128x64xf32>>
      %v = attn_tile.mma_wait %p : !attn_tile.pending<vector<128x64xf32>>
      attn_tile.release %k : !attn_tile.buffer<64x128xbf16, cluster = 2>
      scf.yield %v : vector<128x64xf32>
    }
    attn_tile.release %s : !attn_tile.buffer<128x128xbf16>
    attn_tile.store %r, %out[%c0, %c0] : vector<128x64xf32>, memref<128x64xf32>
  }
  // CHECK:         llvm.store
  // CHECK:         }
  // CHECK:         nvvm.cluster.arrive
  // CHECK-NOT:     aligned
  // CHECK:         nvvm.cluster.wait
  // CHECK-NOT:     aligned
  // CHECK:         llvm.return
  attn_tile.return
}
