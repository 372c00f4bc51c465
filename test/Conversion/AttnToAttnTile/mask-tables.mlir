// RUN: attn-opt %s --convert-attn-to-attn-tile --canonicalize --cse --split-input-file | FileCheck %s

// CHECK-LABEL: attn_tile.kernel @ids_sequence_ids
// CHECK-SAME:    (%[[BOUNDS:.*]]: memref<1x?xi32>, %[[TABLE:.*]]: memref<1x?xi32>, %[[FAULT:.*]]: memref<24xi32>)
// CHECK-SAME:    schedule = #attn_tile.scalar
// CHECK:         scf.forall
// CHECK:           %[[BAD:.*]] = attn_tile.reduce
// CHECK:           attn_tile.thread_for
// CHECK:             scf.for
// CHECK:             memref.store %{{.*}}, %[[TABLE]]
// CHECK:           attn_tile.thread_for
// CHECK:             %[[BOUNDARY:.*]] = memref.load %[[BOUNDS]]
// CHECK:             %[[SMALLER:.*]] = arith.cmpi slt,
// CHECK:             scf.if %[[SMALLER]]
// CHECK:               memref.store %{{.*}}, %[[FAULT]][%c8]
// CHECK:               memref.store %{{.*}}, %[[FAULT]][%c9]
// CHECK:               memref.store %c4_i32, %[[FAULT]][%c0]
// CHECK:             scf.if %{{.*}} {
// CHECK:               memref.store %{{.*}}, %[[FAULT]][%c6]
// CHECK:               memref.store %{{.*}}, %[[FAULT]][%c7]
// CHECK:               memref.store %c3_i32, %[[FAULT]][%c0]
// CHECK-LABEL: func @ids
// CHECK:         %[[WORD:.*]] = attn_tile.error_flag
// CHECK:         attn_tile.launch @ids_sequence_ids args(%{{.*}}, %{{.*}}, %[[WORD]] :
func.func @ids(%x: memref<1x?xi32>, %t: memref<1x?xi32>) {
  attn.sequence_ids ins(%x : memref<1x?xi32>) outs(%t : memref<1x?xi32>) otherwise(-1) schedule(#attn_tile.scalar)
  return
}

// -----

// A word is made by one thread, and written once.

// CHECK-LABEL: attn_tile.kernel @map_block_sparse_map
// CHECK-SAME:    (%[[OFFSETS:.*]]: memref<1x8x?xi32>, %[[INDICES:.*]]: memref<1x8x?xi32>, %[[COLUMNS:.*]]: index, %[[TABLE:.*]]: memref<1x8x?x?xi32>,
// CHECK-SAME:    %[[FAULT:.*]]: memref<24xi32>)
// CHECK:         scf.forall
// CHECK:           attn_tile.reduce
// CHECK:             memref.load %[[OFFSETS]]
// CHECK:           attn_tile.thread_for
// CHECK:             memref.store %{{.*}}, %[[FAULT]]
// CHECK:           attn_tile.thread_for
// CHECK:             %[[WORD:.*]]:5 = scf.for
// CHECK:               memref.load %[[INDICES]]
// CHECK:               arith.cmpi ult, %{{.*}}, %[[COLUMNS]]
// CHECK:             memref.store %[[WORD]]#0, %[[TABLE]]
// CHECK:             scf.if %[[WORD]]#3
// CHECK:               arith.index_cast %[[WORD]]#4
// CHECK:               memref.store %c11_i32, %[[FAULT]][%c0]
// CHECK:             scf.if %[[WORD]]#1
// CHECK:               arith.index_cast %[[WORD]]#2
// CHECK:               memref.store %c10_i32, %[[FAULT]][%c0]
func.func @map(%x: memref<1x8x?xi32>, %n: index, %t: memref<1x8x?x?xi32>) {
  attn.block_sparse_map ins(%x, %x : memref<1x8x?xi32>, memref<1x8x?xi32>) columns(%n) outs(%t : memref<1x8x?x?xi32>)
      schedule(#attn_tile.scalar)
  return
}

// -----

// CHECK-LABEL: attn_tile.kernel @tree_ancestor_map
// CHECK:         scf.forall
// CHECK:           attn_tile.thread_for
// CHECK:           attn_tile.thread_for
// CHECK:             scf.if
// CHECK:           attn_tile.thread_for
// CHECK:             scf.for
func.func @tree(%x: memref<1x?xi32>, %t: memref<1x?x?xi32>) {
  attn.ancestor_map ins(%x : memref<1x?xi32>) outs(%t : memref<1x?x?xi32>) schedule(#attn_tile.scalar)
  return
}

// -----

// What is read for blocks of positions is evaluated for blocks, eight times two of them in a tile, by one thread, and no
// pair is counted. Indices are bounded.

// CHECK-LABEL: attn_tile.kernel @blocks_classes
// CHECK-SAME:    %[[MAP:[a-z0-9]+]]: memref<?x?xi8>)
// CHECK:         scf.forall
// CHECK-NOT:     attn_tile.reduce
// CHECK:         attn_tile.thread_for
// CHECK:           %{{.*}}:2 = scf.for
// CHECK:             arith.minui
// CHECK:             arith.minui
// CHECK:             memref.load %[[MAP]]
// CHECK:             arith.minsi
// CHECK:             arith.maxsi
// CHECK-NOT:       scf.for
// CHECK:           memref.store
func.func @blocks(%q: memref<1x8x?x64xf32>, %map: memref<?x?xi8>) {
  attn.attention ins(%q, %q, %q : memref<1x8x?x64xf32>, memref<1x8x?x64xf32>, memref<1x8x?x64xf32>)
      outs(%q : memref<1x8x?x64xf32>) mask(#attn.causal)
      schedule(#attn_tile.sequential<query_tile = 128, key_tile = 128>)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %c16 = arith.constant 16 : index
        %c64 = arith.constant 64 : index
        %zero = arith.constant 0 : i8
        %x = arith.divui %i, %c16 : index
        %y = arith.divui %j, %c64 : index
        %block = memref.load %map[%x, %y] : memref<?x?xi8>
        %keep = arith.cmpi ne, %block, %zero : i8
        attn.yield %keep : i1
      }
  return
}

// -----

// Beside what rows and columns of a tile are evaluated for, threads share the blocks of a tile, too.

// CHECK-LABEL: attn_tile.kernel @blocks_of_documents_classes
// CHECK:         scf.forall
// CHECK-NOT:     scf.for
// CHECK:         attn_tile.reduce to(%{{.*}}) by [#vector.kind<minsi>, #vector.kind<maxsi>] : index, index
// CHECK:         attn_tile.reduce to(%{{.*}}) by [#vector.kind<minsi>, #vector.kind<maxsi>] : index, index
// CHECK:         attn_tile.reduce to(%{{.*}}) by [#vector.kind<minsi>, #vector.kind<maxsi>] : index, index
// CHECK-NOT:     attn_tile.reduce
// CHECK:         attn_tile.thread_for
func.func @blocks_of_documents(%q: memref<1x8x?x64xf32>, %map: memref<?x?xi8>, %ids: memref<?xi32>) {
  attn.attention ins(%q, %q, %q : memref<1x8x?x64xf32>, memref<1x8x?x64xf32>, memref<1x8x?x64xf32>)
      outs(%q : memref<1x8x?x64xf32>)
      schedule(#attn_tile.sequential<query_tile = 128, key_tile = 128>)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %c16 = arith.constant 16 : index
        %zero = arith.constant 0 : i8
        %x = arith.divui %i, %c16 : index
        %y = arith.divui %j, %c16 : index
        %block = memref.load %map[%x, %y] : memref<?x?xi8>
        %kept = arith.cmpi ne, %block, %zero : i8
        %m = memref.load %ids[%i] : memref<?xi32>
        %n = memref.load %ids[%j] : memref<?xi32>
        %same = arith.cmpi eq, %m, %n : i32
        %keep = arith.andi %kept, %same : i1
        attn.yield %keep : i1
      }
  return
}
