// RUN: attn-opt %s -attn-tile-use-tensor-maps | FileCheck %s
// RUN: attn-opt %s -attn-tile-use-tensor-maps=l2-promotion=128 | FileCheck %s --check-prefix=PROMOTION

// PROMOTION-LABEL: func.func @launch
// PROMOTION:         attn_tile.make_tensor_map %{{.*}} {l2_promotion = 128 : i64} : memref<?x32xf32> -> <2, 16x32xf32>

// `k` is still passed, since its size is read; `q` is not. `k` is copied to
// buffers of two heights, so it has two maps.

// CHECK-LABEL: attn_tile.kernel @copies
// CHECK-SAME:    (%[[K:[a-z0-9]+]]: memref<?x?x128xf16> {x.y}, %[[N:[a-z0-9]+]]: index,
// CHECK-SAME:     %[[QMAP:[a-z0-9]+]]: !attn_tile.tensor_map<2, 16x32xf32>,
// CHECK-SAME:     %[[KMAP:[a-z0-9]+]]: !attn_tile.tensor_map<3, 16x64xf16>,
// CHECK-SAME:     %[[KMAP32:[a-z0-9]+]]: !attn_tile.tensor_map<3, 32x64xf16>)
attn_tile.kernel @copies(%q: memref<?x32xf32>, %k: memref<?x?x128xf16> {x.y}, %n: index) {
  %c0 = arith.constant 0 : index
  %qpipe = attn_tile.create_pipe : !attn_tile.pipe<16x32xf32, stages = 1>
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<16x128xf16, stages = 2>
  %pipe32 = attn_tile.create_pipe : !attn_tile.pipe<32x128xf16, stages = 2>
  // CHECK:         memref.dim %[[K]]
  %size = memref.dim %k, %c0 : memref<?x?x128xf16>
  // CHECK:         attn_tile.copy %[[QMAP]][%[[N]], %{{.*}}] to %{{.*}} : !attn_tile.tensor_map<2, 16x32xf32> to <16x32xf32>
  %a = attn_tile.acquire %qpipe[%c0] : !attn_tile.pipe<16x32xf32, stages = 1>
  attn_tile.copy %q[%n, %c0] to %a : memref<?x32xf32> to !attn_tile.buffer<16x32xf32>
  attn_tile.commit %a : !attn_tile.buffer<16x32xf32>
  // CHECK:         attn_tile.copy %[[KMAP]][
  %b = attn_tile.acquire %pipe[%c0] : !attn_tile.pipe<16x128xf16, stages = 2>
  attn_tile.copy %k[%size, %n, %c0] to %b : memref<?x?x128xf16> to !attn_tile.buffer<16x128xf16>
  attn_tile.commit %b : !attn_tile.buffer<16x128xf16>
  // CHECK:         attn_tile.copy %[[KMAP32]][
  %c = attn_tile.acquire %pipe32[%c0] : !attn_tile.pipe<32x128xf16, stages = 2>
  attn_tile.copy %k[%size, %n, %c0] to %c : memref<?x?x128xf16> to !attn_tile.buffer<32x128xf16>
  attn_tile.commit %c : !attn_tile.buffer<32x128xf16>
  attn_tile.return
}

// CHECK-LABEL: func.func @launch
// CHECK-SAME:    %[[Q:.*]]: memref<?x32xf32>, %[[K:.*]]: memref<?x?x128xf16>, %[[N:.*]]: index
// CHECK:         %[[QMAP:.*]] = attn_tile.make_tensor_map %[[Q]] : memref<?x32xf32> -> <2, 16x32xf32>
// CHECK:         %[[KMAP:.*]] = attn_tile.make_tensor_map %[[K]] : memref<?x?x128xf16> -> <3, 16x64xf16>
// CHECK:         %[[KMAP32:.*]] = attn_tile.make_tensor_map %[[K]] : memref<?x?x128xf16> -> <3, 32x64xf16>
// CHECK:         attn_tile.launch @copies grid({{.*}}) args(%[[K]], %[[N]], %[[QMAP]], %[[KMAP]], %[[KMAP32]] :
func.func @launch(%q: memref<?x32xf32>, %k: memref<?x?x128xf16>, %n: index) {
  attn_tile.launch @copies grid(%n, %n, %n) args(%q, %k, %n : memref<?x32xf32>, memref<?x?x128xf16>, index)
  return
}

// A single row is copied as a whole.

// CHECK-LABEL: attn_tile.kernel @row(
// CHECK-SAME:    !attn_tile.tensor_map<2, 1x64xf32>)
attn_tile.kernel @row(%r: memref<?x?xf32>) {
  %c0 = arith.constant 0 : index
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<1x64xf32, stages = 2>
  %a = attn_tile.acquire %pipe[%c0] : !attn_tile.pipe<1x64xf32, stages = 2>
  attn_tile.copy %r[%c0, %c0] to %a : memref<?x?xf32> to !attn_tile.buffer<1x64xf32>
  attn_tile.commit %a : !attn_tile.buffer<1x64xf32>
  attn_tile.return
}

// A second run finds nothing to do.

// CHECK-LABEL: attn_tile.kernel @no_copies
// CHECK-SAME:    (%{{.*}}: memref<?xf32>)
attn_tile.kernel @no_copies(%a: memref<?xf32>) attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  attn_tile.return
}

// Of a stage of a cluster, each CTA copies a part.

// CHECK-LABEL: attn_tile.kernel @cluster(
// CHECK-SAME:    !attn_tile.tensor_map<2, 88x64xbf16>)
attn_tile.kernel @cluster(%k: memref<?x128xbf16>) attributes {cluster = 2 : i64} {
  %c0 = arith.constant 0 : index
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<176x128xbf16, stages = 2, cluster = 2>
  %a = attn_tile.acquire %pipe[%c0] : !attn_tile.pipe<176x128xbf16, stages = 2, cluster = 2>
  // CHECK: attn_tile.copy %{{.*}} : !attn_tile.tensor_map<2, 88x64xbf16> to <176x128xbf16, cluster = 2>
  attn_tile.copy %k[%c0, %c0] to %a : memref<?x128xbf16> to !attn_tile.buffer<176x128xbf16, cluster = 2>
  attn_tile.commit %a : !attn_tile.buffer<176x128xbf16, cluster = 2>
  attn_tile.return
}
