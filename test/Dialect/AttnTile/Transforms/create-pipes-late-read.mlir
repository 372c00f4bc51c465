// RUN: attn-opt %s -attn-tile-create-pipes='read-operands local-stages=1' | FileCheck %s

#rows = affine_map<(m, n, k) -> (m, k)>
#values = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>

// A tile that a matmul reads in shared memory comes to registers where they are used, and its stage is released after.

// CHECK-LABEL: attn_tile.kernel @late
// CHECK: scf.for
// CHECK: attn_tile.wait
// CHECK: %[[Y:.*]] = attn_tile.wait
// CHECK: %[[PENDING:.*]] = attn_tile.mma_start %{{.*}}, %[[Y]]
// CHECK: %[[READ:.*]] = attn_tile.read %[[Y]]
// CHECK-NEXT: %[[WIDE:.*]] = arith.extf %[[READ]]
// CHECK: %[[PRODUCT:.*]] = attn_tile.mma_wait %[[PENDING]]
// CHECK: %[[PRODUCTS:.*]] = arith.mulf %[[PRODUCT]], %[[WIDE]]
// CHECK-NEXT: vector.multi_reduction <add>, %[[PRODUCTS]]
// CHECK-NEXT: attn_tile.release %[[Y]]
attn_tile.kernel @late(%q: memref<?x16xf16>, %k: memref<?x16xf16>, %acc: vector<16x16xf32>, %out: memref<?xf32>,
                       %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : vector<16xf32>
  scf.for %i = %c0 to %n step %c1 {
    %x = attn_tile.load %q[%i, %c0] stream(%i of %n) : memref<?x16xf16> -> vector<16x16xf16>
    %y = attn_tile.load %k[%i, %c0] stream(%i of %n) : memref<?x16xf16> -> vector<16x16xf16>
    %product = vector.contract {indexing_maps = [#rows, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %x, %y, %acc : vector<16x16xf16>, vector<16x16xf16> into vector<16x16xf32>
    %wide = arith.extf %y : vector<16x16xf16> to vector<16x16xf32>
    %products = arith.mulf %product, %wide : vector<16x16xf32>
    %sums = vector.multi_reduction <add>, %products, %zero [1] : vector<16x16xf32> to vector<16xf32>
    attn_tile.store %sums, %out[%i] : vector<16xf32>, memref<?xf32>
  }
  attn_tile.return
}

// Elements of f32 need no conversion.

// CHECK-LABEL: attn_tile.kernel @late_f32
// CHECK: %[[PENDING:.*]] = attn_tile.mma_start
// CHECK: %[[READ:.*]] = attn_tile.read
// CHECK: %[[MATMUL:.*]] = attn_tile.mma_wait %[[PENDING]]
// CHECK: arith.mulf %[[MATMUL]], %[[READ]]
attn_tile.kernel @late_f32(%q: memref<?x16xf32>, %k: memref<?x16xf32>, %acc: vector<16x16xf32>, %out: memref<?xf32>,
                           %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : vector<16xf32>
  scf.for %i = %c0 to %n step %c1 {
    %x = attn_tile.load %q[%i, %c0] stream(%i of %n) : memref<?x16xf32> -> vector<16x16xf32>
    %y = attn_tile.load %k[%i, %c0] stream(%i of %n) : memref<?x16xf32> -> vector<16x16xf32>
    %matmul = vector.contract {indexing_maps = [#rows, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %x, %y, %acc : vector<16x16xf32>, vector<16x16xf32> into vector<16x16xf32>
    %scaled = arith.mulf %matmul, %y : vector<16x16xf32>
    %sums = vector.multi_reduction <add>, %scaled, %zero [1] : vector<16x16xf32> to vector<16xf32>
    attn_tile.store %sums, %out[%i] : vector<16xf32>, memref<?xf32>
  }
  attn_tile.return
}
