// RUN: attn-opt %s --attn-dispatch-schedules --convert-attn-to-attn-tile --split-input-file | FileCheck %s

// A plan is two views of one array: the order of rows, and the lists.

#schedule = #attn_tile.sequential<query_tile = 16, key_tile = 32>
// CHECK-LABEL: attn_tile.kernel @f_kernel(
// CHECK-SAME:    memref<?x1x?x?xi32, strided<[?, ?, ?, 1], offset: ?>>, %{{.*}}: memref<?x1x?x1xi32, strided<[?, ?, ?, 1]>>
// CHECK:         attn_tile.kv_tile_iterator {{.*}} listed(%{{.*}}[%{{.*}}] : memref<?x1x?x?xi32, strided<[?, ?, ?, 1], offset: ?>>)
// CHECK-LABEL: func @f(
// CHECK-SAME:    %[[PLAN:[a-z0-9]+]]: memref<1x1x?x?xi32>
// CHECK-NOT:     _classes
// CHECK:         %[[ORDER:.*]] = memref.subview %[[PLAN]][0, 0, 0, 0] [%{{.*}}, 1, %{{.*}}, 1] [1, 1, 1, 1]
// CHECK:         %[[LISTS:.*]] = memref.subview %[[PLAN]][0, 0, 0, %{{.*}}]
// CHECK-NOT:     memref.dealloc
// CHECK:         attn_tile.launch @f_kernel{{.*}}%[[LISTS]], %[[ORDER]]
func.func @f(%q: memref<1x2x?x16xf32>, %ids: memref<?xi32>, %block_mask: memref<1x1x?x?xi32>) {
  attn.attention ins(%q, %q, %q : memref<1x2x?x16xf32>, memref<1x2x?x16xf32>, memref<1x2x?x16xf32>)
      outs(%q : memref<1x2x?x16xf32>) block_mask(%block_mask : memref<1x1x?x?xi32>) schedule(#schedule)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %x = memref.load %ids[%i] : memref<?xi32>
        %y = memref.load %ids[%j] : memref<?xi32>
        %same = arith.cmpi eq, %x, %y : i32
        attn.yield %same : i1
      }
  return
}

// -----

// It is made by the kernels that attention has alone, of the schedule that the length chooses.

#choice = #attn.by_query_length<bound = 64, below = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
                                from = #attn_tile.sequential<query_tile = 32, key_tile = 32>>
// CHECK-LABEL: func @make(
// CHECK-SAME:    %[[BATCH:[a-z0-9]+]]: index, %[[N:[a-z0-9]+]]: index, %[[PLAN:[a-z0-9]+]]: memref<?x4x?x?xi32>
// CHECK:         %[[SHORT:.*]] = arith.cmpi ult, %[[N]], %c64
// CHECK:         scf.if %[[SHORT]] {
// CHECK:           %[[LISTS:.*]] = memref.subview %[[PLAN]][0, 0, 0, %{{.*}}]
// CHECK:           %[[CLASSES:.*]] = memref.alloc(%[[BATCH]], %{{.*}}, %{{.*}}) : memref<?x4x?x?xi32>
// CHECK:           attn_tile.launch @make_classes args(%[[CLASSES]], %[[N]], %[[N]]
// CHECK:           attn_tile.launch @make_lists args(%[[CLASSES]], %[[LISTS]] :
// CHECK:           attn_tile.launch @make_order args(%[[LISTS]]
// CHECK:           memref.dealloc %[[CLASSES]]
// CHECK:         } else {
// CHECK:           attn_tile.launch @make_classes_{{[0-9]+}}
// CHECK:           attn_tile.launch @make_lists_{{[0-9]+}}
// CHECK:           attn_tile.launch @make_order_{{[0-9]+}}
func.func @make(%batch: index, %n: index, %block_mask: memref<?x4x?x?xi32>, %keeps: memref<4x?xi1>) {
  attn.create_block_mask sizes(%batch, %n, %n) outs(%block_mask : memref<?x4x?x?xi32>) schedule(#choice) mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %x = memref.load %keeps[%h, %j] : memref<4x?xi1>
    attn.yield %x : i1
  }
  return
}

// -----

// Of a length that is known, one of the two is left.

#choice = #attn.by_query_length<bound = 64, below = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
                                from = #attn_tile.sequential<query_tile = 32, key_tile = 32>>
// CHECK-LABEL: func @known(
// CHECK-NOT:     scf.if
// CHECK:         return
func.func @known(%block_mask: memref<1x1x7x8xi32>, %keeps: memref<100xi1>) {
  %one = arith.constant 1 : index
  %n = arith.constant 100 : index
  attn.create_block_mask sizes(%one, %n, %n) outs(%block_mask : memref<1x1x7x8xi32>) schedule(#choice) mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %x = memref.load %keeps[%j] : memref<100xi1>
    attn.yield %x : i1
  }
  return
}
