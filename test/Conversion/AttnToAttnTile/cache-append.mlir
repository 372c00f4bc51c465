// RUN: attn-opt %s --convert-attn-to-attn-tile=target=sm_90a --canonicalize --split-input-file | FileCheck %s
// RUN: sed 's/move_rows<[^>]*>/move_rows<chunks = 1024, threads = 1>/' %s \
// RUN:   | attn-opt --convert-attn-to-attn-tile=target=host --canonicalize --split-input-file \
// RUN:   | FileCheck %s --check-prefix=HOST

// Work item 0 of an entry checks it; then there are work items for keys and for values. Keys are rotated as f32 and
// rounded once. On GPUs loads come before the page is known, and neighbours are aligned. On the host, loads and stores
// of a chunk are in one block.

// CHECK-LABEL: attn_tile.kernel @paged_cache_append
// CHECK-SAME: (%[[K:[a-z0-9_]+]]: memref<2x2x1x16xbf16>, %[[V:[a-z0-9_]+]]: memref<2x2x1x8xbf16>,
// CHECK-SAME:  %[[N:[a-z0-9_]+]]: memref<2xi32>,
// CHECK-SAME:  %[[T:[a-z0-9_]+]]: memref<2x?xi32>, %[[COS:[a-z0-9_]+]]: memref<99x4xf32>,
// CHECK-SAME:  %[[SIN:[a-z0-9_]+]]: memref<99x4xf32>,
// CHECK-SAME:  %[[KC:[a-z0-9_]+]]: memref<?x2x16x16xbf16>, %[[VC:[a-z0-9_]+]]: memref<?x2x16x8xbf16>,
// CHECK-SAME:  %[[NEXT:[a-z0-9_]+]]: memref<2xi32>,
// CHECK-SAME:  %[[FAULT:[a-z0-9_]+]]: memref<1xi32>)
// CHECK-DAG: %[[LENGTHS:[a-z0-9_]+]] = arith.constant 12 : i32
// CHECK-DAG: %[[PAGES:[a-z0-9_]+]] = arith.constant 13 : i32
// CHECK-DAG: %[[POSITIONS:[a-z0-9_]+]] = arith.constant 14 : i32
// CHECK: scf.forall (%[[B:[a-z0-9_]+]], %[[ITEM:[a-z0-9_]+]]) in (2, 4)
// CHECK: %[[LENGTH:[a-z0-9_]+]] = memref.load %[[N]][%[[B]]]
// CHECK: attn_tile.thread_for
// CHECK: memref.store %[[LENGTHS]], %[[FAULT]]
// CHECK: attn_tile.thread_for
// CHECK: memref.store %[[POSITIONS]], %[[FAULT]]
// CHECK: memref.store %{{.*}}, %[[NEXT]][%[[B]]]
// Rotated elements of keys:
// CHECK: attn_tile.thread_for to(%{{.*}}) together(2)
// CHECK: %[[PAGE32:[a-z0-9_]+]] = memref.load %[[T]][%[[B]], %{{.*}}] {attn_tile.in_bounds}
// CHECK: %[[PAGE:[a-z0-9_]+]] = arith.index_cast %[[PAGE32]]
// CHECK: memref.load %[[K]]{{.*}} {alignment = 8 : i64, attn_tile.in_bounds}
// CHECK: memref.load %[[COS]]{{.*}} {alignment = 16 : i64, attn_tile.in_bounds}
// CHECK: memref.load %[[SIN]]{{.*}} {alignment = 16 : i64, attn_tile.in_bounds}
// CHECK: arith.subf
// CHECK: arith.addf
// CHECK: %[[DIM:[a-z0-9_]+]] = memref.dim %[[KC]]
// CHECK: %[[EXISTS:[a-z0-9_]+]] = arith.cmpi ult, %{{.*}}, %[[DIM]]
// CHECK: scf.if %[[EXISTS]] {
// CHECK: arith.truncf
// CHECK-NOT: memref.load
// CHECK: memref.store %{{.*}}, %[[KC]][%[[PAGE]],{{.*}} {alignment = 8 : i64}
// CHECK: } else {
// CHECK-NEXT: memref.store %[[PAGES]], %[[FAULT]]
// Other elements of keys, and values, are copied as they are:
// CHECK: attn_tile.thread_for
// CHECK-NOT: arith.extf
// CHECK: memref.store %{{.*}}, %[[KC]]
// CHECK: attn_tile.thread_for
// CHECK-NOT: arith.extf
// CHECK: memref.store %{{.*}}, %[[VC]]
// CHECK: func.func @paged
// CHECK: %[[FLAG:.*]] = attn_tile.error_flag : memref<1xi32>
// CHECK-NEXT: attn_tile.launch @paged_cache_append args({{.*}}, %[[FLAG]] :

// HOST-LABEL: attn_tile.kernel @paged_cache_append
// HOST-NOT: alignment
// HOST: scf.if
// HOST-NEXT: memref.load
// HOST: memref.store
func.func @paged(%k: memref<2x2x1x16xbf16>, %v: memref<2x2x1x8xbf16>, %kc: memref<?x2x16x16xbf16>,
                 %vc: memref<?x2x16x8xbf16>, %n: memref<2xi32>, %t: memref<2x?xi32>, %cos: memref<99x4xf32>,
                 %sin: memref<99x4xf32>, %next: memref<2xi32>) {
  attn.cache_append ins(%k, %v : memref<2x2x1x16xbf16>, memref<2x2x1x8xbf16>)
      outs(%kc, %vc : memref<?x2x16x16xbf16>, memref<?x2x16x8xbf16>)
      key_lengths(%n : memref<2xi32>) new_lengths(%next : memref<2xi32>) page_table(%t : memref<2x?xi32>)
      rotary(%cos, %sin : memref<99x4xf32>, memref<99x4xf32>)
          schedule(#attn_tile.move_rows<chunks = 64, threads = 32, together = 2, aligned = true, loads_early = true>)
  return
}

// -----

// Interleaved pairs are neighbours, and all queries have one position. Columns of 6 bytes have no alignment.

// CHECK-LABEL: attn_tile.kernel @contiguous_cache_append
// CHECK-SAME: %[[COS:[a-z0-9_]+]]: memref<?x3xf16>, %[[SIN:[a-z0-9_]+]]: memref<?x3xf16>,
// CHECK-SAME: %[[Q:[a-z0-9_]+]]: memref<?x4x?x8xf32>
// CHECK-SAME: %[[R:[a-z0-9_]+]]: memref<?x4x?x8xf32>, %[[FAULT:[a-z0-9_]+]]: memref<1xi32>)
// CHECK: scf.forall
// CHECK: %[[LENGTH:.*]] = arith.index_cast
// CHECK: %[[X:[0-9]+]] = memref.load %[[Q]][{{.*}}] {attn_tile.in_bounds}
// CHECK-NEXT: %[[Y:[0-9]+]] = memref.load %[[Q]][{{.*}}] {attn_tile.in_bounds}
// CHECK-NEXT: %[[C16:[0-9]+]] = memref.load %[[COS]][%[[LENGTH]], %{{.*}}] {attn_tile.in_bounds}
// CHECK-NEXT: memref.load %[[SIN]][%[[LENGTH]], %{{.*}}] {attn_tile.in_bounds}
// CHECK-NEXT: %[[C:[0-9]+]] = arith.extf %[[C16]]
// CHECK: arith.mulf %[[X]], %[[C]]
// CHECK: arith.mulf %[[Y]], %[[C]]
// CHECK-NOT: scf.if
// CHECK: memref.store %{{.*}}, %[[R]]
func.func @contiguous(%k: memref<?x2x?x8xf32>, %kc: memref<?x2x?x8xf32>, %vc: memref<?x2x?x8xf32>, %n: memref<?xi32>,
                      %cos: memref<?x3xf16>, %sin: memref<?x3xf16>, %q: memref<?x4x?x8xf32>,
                      %r: memref<?x4x?x8xf32>) {
  attn.cache_append ins(%k, %k : memref<?x2x?x8xf32>, memref<?x2x?x8xf32>)
      outs(%kc, %vc : memref<?x2x?x8xf32>, memref<?x2x?x8xf32>) key_lengths(%n : memref<?xi32>)
      rotary(%cos, %sin : memref<?x3xf16>, memref<?x3xf16>) interleaved
      query(%q into %r : memref<?x4x?x8xf32>, memref<?x4x?x8xf32>) same_position
          schedule(#attn_tile.move_rows<chunks = 64, threads = 32, together = 2, aligned = true, loads_early = true>)
  return
}

// -----

// Elements of 8 bits are divided by the scale of their batch entry and head, and are at most the largest number.

// CHECK-LABEL: attn_tile.kernel @eight_bits_cache_append
// CHECK-SAME:    memref<2xi32>, %[[KS:[a-z0-9_]+]]: memref<2x2xf32>, %[[VS:[a-z0-9_]+]]: memref<2x2xf32>,
// CHECK-SAME:    %[[KC:[a-z0-9_]+]]: memref<2x2x32x16xf8E4M3FN>
// CHECK-DAG:     %[[MOST:.*]] = arith.constant 4.480000e+02 : f32
// CHECK-DAG:     %[[LEAST:.*]] = arith.constant -4.480000e+02 : f32
// CHECK:         %[[SCALE:.*]] = memref.load %[[KS]][%{{.*}}, %{{.*}}]
// CHECK:         %[[X:.*]] = arith.divf %{{.*}}, %[[SCALE]] : f32
// CHECK:         %[[Y:.*]] = arith.minimumf %[[X]], %[[MOST]]
// CHECK:         %[[Z:.*]] = arith.maximumf %[[Y]], %[[LEAST]]
// CHECK:         arith.truncf %[[Z]] : f32 to f8E4M3FN
// CHECK:         memref.store %{{.*}}, %[[KC]]
// CHECK:         memref.load %[[VS]]

// HOST-LABEL: attn_tile.kernel @eight_bits_cache_append
func.func @eight_bits(%k: memref<2x2x1x16xbf16>, %kc: memref<2x2x32x16xf8E4M3FN>, %vc: memref<2x2x32x16xf8E4M3FN>,
    %n: memref<2xi32>, %ks: memref<2x2xf32>, %vs: memref<2x2xf32>) {
  attn.cache_append ins(%k, %k : memref<2x2x1x16xbf16>, memref<2x2x1x16xbf16>)
      outs(%kc, %vc : memref<2x2x32x16xf8E4M3FN>, memref<2x2x32x16xf8E4M3FN>) key_lengths(%n : memref<2xi32>)
      scales(%ks, %vs : memref<2x2xf32>, memref<2x2xf32>) schedule(#attn_tile.move_rows<chunks = 256, threads = 32>)
  return
}
