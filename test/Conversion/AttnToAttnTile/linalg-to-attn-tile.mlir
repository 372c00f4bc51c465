// RUN: attn-opt %s --convert-linalg-to-attn-tile --split-input-file | FileCheck %s

// A thread for each element: rows in pieces of 1024.

// CHECK-LABEL: attn_tile.kernel @fill_fill_kernel(
// CHECK-SAME:    %[[OUT:[a-z0-9]+]]: memref<?x100xf32>)
// CHECK-SAME:    schedule = #attn_tile.scalar
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant 0.0
// CHECK:         %[[ROWS:.*]] = memref.dim %[[OUT]], %c0
// CHECK:         scf.forall (%[[I:.*]], %[[T:.*]]) in (%[[ROWS]], %{{.*}}) {
// CHECK:           %[[FIRST:.*]] = arith.muli %[[T]], %c1024
// CHECK:           attn_tile.thread_for
// CHECK-NEXT:      ^bb0(%[[N:.*]]: index):
// CHECK:             %[[J:.*]] = arith.addi %[[FIRST]], %[[N]]
// CHECK:             memref.store %[[ZERO]], %[[OUT]][%[[I]], %[[J]]]
// CHECK-LABEL: func.func @fill
// CHECK:         attn_tile.launch @fill_fill_kernel
// CHECK-NOT:     linalg
func.func @fill(%out: memref<?x100xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%out : memref<?x100xf32>)
  return
}

// -----

// A warp for each sum.

// CHECK-LABEL: attn_tile.kernel @sum_generic_kernel(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: memref<?x4x?xbf16>, %[[OUT:[a-z0-9]+]]: memref<4xf32>)
// CHECK:         scf.forall (%[[H:.*]]) in (%c4)
// CHECK:           %[[SUM:.*]] = attn_tile.reduce to(%{{.*}}) by [#vector.kind<add>] : f32 {
// CHECK-NEXT:      ^bb0(%[[N:.*]]: index):
// CHECK:             %[[J:.*]] = arith.remui %[[N]], %[[S:.*]]
// CHECK:             %[[B:.*]] = arith.divui %[[N]], %[[S]]
// CHECK:             %[[E:.*]] = memref.load %[[X]][%[[B]], %[[H]], %[[J]]]
// CHECK:             %[[W:.*]] = arith.extf %[[E]]
// CHECK:             attn_tile.yield %[[W]] : f32
// CHECK:           attn_tile.thread_for
// CHECK:             %[[OLD:.*]] = memref.load %[[OUT]][%[[H]]]
// CHECK:             %[[NEW:.*]] = arith.addf %[[OLD]], %[[SUM]]
// CHECK:             memref.store %[[NEW]], %[[OUT]][%[[H]]]
func.func @sum(%x: memref<?x4x?xbf16>, %out: memref<4xf32>) {
  linalg.generic {indexing_maps = [affine_map<(h, b, s) -> (b, h, s)>, affine_map<(h, b, s) -> (h)>],
                  iterator_types = ["parallel", "reduction", "reduction"]}
      ins(%x : memref<?x4x?xbf16>) outs(%out : memref<4xf32>) {
  ^bb0(%e: bf16, %s: f32):
    %w = arith.extf %e : bf16 to f32
    %r = arith.addf %s, %w : f32
    linalg.yield %r : f32
  }
  return
}

// -----

// A warp for each maximum.

// CHECK-LABEL: attn_tile.kernel @largest_generic_kernel(
// CHECK:         scf.forall (%[[H:.*]]) in (%c4)
// CHECK:           %[[MAX:.*]] = attn_tile.reduce to(%{{.*}}) by [#vector.kind<maxnumf>] : f32 {
// CHECK:             %[[A:.*]] = math.absf
// CHECK-NEXT:        attn_tile.yield %[[A]] : f32
// CHECK:           attn_tile.thread_for
// CHECK:             %[[OLD:.*]] = memref.load %{{.*}}[%[[H]]]
// CHECK:             %[[NEW:.*]] = arith.maxnumf %[[OLD]], %[[MAX]]
// CHECK:             memref.store %[[NEW]], %{{.*}}[%[[H]]]
func.func @largest(%x: memref<4x?xf32>, %out: memref<4xf32>) {
  linalg.generic {indexing_maps = [affine_map<(h, s) -> (h, s)>, affine_map<(h, s) -> (h)>],
                  iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<4x?xf32>) outs(%out : memref<4xf32>) {
  ^bb0(%e: f32, %m: f32):
    %a = math.absf %e : f32
    %r = arith.maxnumf %m, %a : f32
    linalg.yield %r : f32
  }
  return
}

// -----

// Results of different kinds are accumulated by one thread.

// CHECK-LABEL: attn_tile.kernel @kinds_generic_kernel(
// CHECK-NOT:     attn_tile.reduce
func.func @kinds(%x: memref<4x?xf32>, %sum: memref<4xf32>, %max: memref<4xf32>) {
  linalg.generic {indexing_maps = [affine_map<(h, s) -> (h, s)>, affine_map<(h, s) -> (h)>, affine_map<(h, s) -> (h)>],
                  iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<4x?xf32>) outs(%sum, %max : memref<4xf32>, memref<4xf32>) {
  ^bb0(%e: f32, %s: f32, %m: f32):
    %t = arith.addf %s, %e : f32
    %r = arith.maxnumf %m, %e : f32
    linalg.yield %t, %r : f32, f32
  }
  return
}

// -----

// A thread for each other reduction.

// CHECK-LABEL: attn_tile.kernel @largest_generic_kernel(
// CHECK:         attn_tile.thread_for
// CHECK:           %[[M:.*]] = scf.for {{.*}} iter_args
// CHECK:             arith.maximumf
// CHECK:           memref.store %[[M]]
func.func @largest(%x: memref<?x?xf32>, %out: memref<?xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
                  iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<?x?xf32>) outs(%out : memref<?xf32>) {
  ^bb0(%e: f32, %s: f32):
    %r = arith.maximumf %s, %e : f32
    linalg.yield %r : f32
  }
  return
}

// -----

// A reduction that never reads its result keeps it where there are no steps.

// CHECK-LABEL: attn_tile.kernel @last_generic_kernel(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: memref<?x?xf32>, %[[OUT:[a-z0-9]+]]: memref<?xf32>)
// CHECK:         attn_tile.thread_for
// CHECK:           %[[OLD:.*]] = memref.load %[[OUT]]
// CHECK:           %[[LAST:.*]] = scf.for {{.*}} iter_args(%{{.*}} = %[[OLD]])
// CHECK:             %[[E:.*]] = memref.load %[[X]]
// CHECK:             scf.yield %[[E]]
// CHECK:           memref.store %[[LAST]], %[[OUT]]
func.func @last(%x: memref<?x?xf32>, %out: memref<?xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
                  iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<?x?xf32>) outs(%out : memref<?xf32>) {
  ^bb0(%e: f32, %s: f32):
    linalg.yield %e : f32
  }
  return
}
