// RUN: attn-opt %s -attn-tile-set-traversal=kind=persistent -canonicalize -split-input-file \
// RUN:   | FileCheck %s
// RUN: attn-opt %s -attn-tile-set-traversal=kind=persistent -canonicalize -attn-tile-split-roles -split-input-file \
// RUN:   | FileCheck %s --check-prefix=ROLES
// RUN: attn-opt %s -attn-tile-set-traversal=kind=persistent -canonicalize -attn-tile-split-roles=consumers=1 \
// RUN:   -split-input-file | FileCheck %s --check-prefix=ONE

// What runs beside walks over its own items, in steps of its own number of
// groups, whatever the rest of the kernel does.

// CHECK-LABEL: attn_tile.kernel @walks(
// CHECK-SAME:    %{{.*}}: index, %[[BESIDE:[a-z0-9]+]]: index
// CHECK:         attn_tile.beside {
// CHECK:           %[[P:.*]] = attn_tile.program_id 0
// CHECK:           %[[N:.*]] = attn_tile.num_programs 0
// CHECK:           scf.for %[[ITEM:.*]] = %[[P]] to %{{.*}} step %[[N]]
// CHECK:             arith.remui %[[ITEM]], %{{.*}} : index
// CHECK:             attn_tile.each to(%[[BESIDE]])
// CHECK:         }
// CHECK:         attn_tile.program_id 0
// CHECK:         scf.for
// CHECK:           attn_tile.copy

// The kernel has as many groups as either loop has items.
// CHECK-LABEL: func.func @launch(
// CHECK-SAME:    %[[MAIN:.*]]: index, %[[BESIDE:.*]]: index
// CHECK:         %[[ITEMS:.*]] = arith.muli %[[BESIDE]], %{{.*}} : index
// CHECK:         %[[MOST:.*]] = arith.maxui %[[MAIN]], %[[ITEMS]] : index
// CHECK:         attn_tile.launch @walks grid(%[[MOST]], %{{.*}}, %{{.*}}) groups_per_multiprocessor(1)

// It is no part of a role. The producer, whose idle warps run it, has registers
// for it.
// ROLES-LABEL: attn_tile.kernel @walks(
// ROLES:         attn_tile.beside {
// ROLES:           attn_tile.each
// ROLES:         attn_tile.role producer warpgroups(1) registers(64) {
// ROLES-NOT:       attn_tile.each
// ROLES:         attn_tile.role consumer warpgroups(2) registers(216) {
// ROLES-NOT:       attn_tile.each
// ROLES:         attn_tile.return
// ONE-LABEL:   attn_tile.kernel @walks(
// ONE:           attn_tile.beside {
// ONE:           attn_tile.role producer warpgroups(1) registers(64) {
// ONE:           attn_tile.role consumer warpgroups(1) registers(240) {
attn_tile.kernel @walks(%items: index, %n: index, %list: memref<?xindex>, %k: memref<?x16xf16>,
                        %p: vector<128x16xf16>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<16x16xf16, stages = 2>
  attn_tile.beside {
    scf.forall (%i, %j) in (%n, 3) {
      attn_tile.each to(%n) {
      ^bb0(%e: index):
        memref.store %j, %list[%i] : memref<?xindex>
        attn_tile.yield
      }
    }
  }
  scf.forall (%i) in (%items) {
    %a = attn_tile.acquire %pipe[%i] : !attn_tile.pipe<16x16xf16, stages = 2>
    attn_tile.copy %k[%i, %c0] to %a : memref<?x16xf16> to !attn_tile.buffer<16x16xf16>
    attn_tile.commit %a : !attn_tile.buffer<16x16xf16>
    %b = attn_tile.wait %pipe[%i] : !attn_tile.pipe<16x16xf16, stages = 2>
    %s = attn_tile.mma_start %p, %b : vector<128x16xf16>, !attn_tile.buffer<16x16xf16>
        -> !attn_tile.pending<vector<128x16xf32>>
    %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<128x16xf32>>
    attn_tile.release %b : !attn_tile.buffer<16x16xf16>
  }
  attn_tile.return
}

func.func @launch(%items: index, %n: index, %list: memref<?xindex>, %k: memref<?x16xf16>, %p: vector<128x16xf16>) {
  attn_tile.launch @walks args(%items, %n, %list, %k, %p
      : index, index, memref<?xindex>, memref<?x16xf16>, vector<128x16xf16>)
  return
}
