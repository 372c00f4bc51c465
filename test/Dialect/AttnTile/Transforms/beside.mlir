// RUN: attn-opt %s -attn-tile-set-traversal=kind=persistent -canonicalize -split-input-file \
// RUN:   | FileCheck %s
// RUN: attn-opt %s -attn-tile-set-traversal=kind=persistent -canonicalize -attn-tile-split-roles -split-input-file \
// RUN:   | FileCheck %s --check-prefix=ROLES
// RUN: attn-opt %s -attn-tile-set-traversal=kind=persistent -canonicalize -attn-tile-split-roles=consumers=1 \
// RUN:   -split-input-file | FileCheck %s --check-prefix=ONE

// Concurrent work iterates over its own work items, in steps of its own number of
// CTAs, whatever the rest of the kernel does.

// CHECK-LABEL: attn_tile.kernel @walks(
// CHECK-SAME:    %{{.*}}: index, %[[AUXILIARY:[a-z0-9]+]]: index
// CHECK:         attn_tile.auxiliary_warps {
// CHECK:           %[[P:.*]] = attn_tile.program_id 0
// CHECK:           %[[N:.*]] = attn_tile.num_programs 0
// CHECK:           scf.for %[[WORK_ITEM:.*]] = %[[P]] to %{{.*}} step %[[N]]
// CHECK:             arith.remui %[[WORK_ITEM]], %{{.*}} : index
// CHECK:             attn_tile.thread_for to(%[[AUXILIARY]])
// CHECK:         }
// CHECK:         attn_tile.program_id 0
// CHECK:         scf.for
// CHECK:           attn_tile.copy

// The kernel has as many CTAs as either loop has work items.
// CHECK-LABEL: func.func @launch(
// CHECK-SAME:    %[[MAIN:.*]]: index, %[[AUXILIARY:.*]]: index
// CHECK:         %[[WORK_ITEMS:.*]] = arith.muli %[[AUXILIARY]], %{{.*}} : index
// CHECK:         %[[MOST:.*]] = arith.maxui %[[MAIN]], %[[WORK_ITEMS]] : index
// CHECK:         attn_tile.launch @walks grid(%[[MOST]], %{{.*}}, %{{.*}}) ctas_per_sm(1)

// It is no part of a role. The producer, whose idle warps run it, has registers
// for it.
// ROLES-LABEL: attn_tile.kernel @walks(
// ROLES:         attn_tile.auxiliary_warps {
// ROLES:           attn_tile.thread_for
// ROLES:         attn_tile.role producer warpgroups(1) registers(64) {
// ROLES-NOT:       attn_tile.thread_for
// ROLES:         attn_tile.role consumer warpgroups(2) registers(216) {
// ROLES-NOT:       attn_tile.thread_for
// ROLES:         attn_tile.return
// ONE-LABEL:   attn_tile.kernel @walks(
// ONE:           attn_tile.auxiliary_warps {
// ONE:           attn_tile.role producer warpgroups(1) registers(64) {
// ONE:           attn_tile.role consumer warpgroups(1) registers(240) {
attn_tile.kernel @walks(%items: index, %n: index, %list: memref<?xindex>, %k: memref<?x16xf16>,
                        %p: vector<128x16xf16>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<16x16xf16, stages = 2>
  attn_tile.auxiliary_warps {
    scf.forall (%i, %j) in (%n, 3) {
      attn_tile.thread_for to(%n) {
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

// -----

// Warps of joined work take the work items of their CTA one by one. As few idle
// warps take part as make all work items of the CTA, of 32 each, while it makes its
// other work items, if a warp makes 24 during one of these.

// CHECK-LABEL: attn_tile.kernel @joined(
// CHECK-SAME:    %[[MAIN:[a-z0-9]+]]: index, %[[AUXILIARY:[a-z0-9]+]]: index
// CHECK-DAG:     %[[C1:.*]] = arith.constant 1 : index
// CHECK-DAG:     %[[PART:.*]] = arith.constant 24 : index
// CHECK-DAG:     %[[WHOLE:.*]] = arith.constant 32 : index
// CHECK:         attn_tile.auxiliary_warps registers(72) joined {
// CHECK:           %[[GROUP:.*]] = attn_tile.program_id 0
// CHECK:           %[[GROUPS:.*]] = attn_tile.num_programs 0
// CHECK:           %[[COUNT:.*]] = arith.divui %{{.*}}, %[[GROUPS]]
// CHECK:           %[[OTHERS:.*]] = arith.divui %{{.*}}, %[[GROUPS]]
// CHECK:           %[[WORK:.*]] = arith.muli %[[COUNT]], %[[WHOLE]]
// CHECK:           %[[MADE:.*]] = arith.muli %[[OTHERS]], %[[PART]]
// CHECK:           %[[OFWARP:.*]] = arith.maxui %[[MADE]], %[[C1]]
// CHECK:           %[[WARPS:.*]] = arith.ceildivui %[[WORK]], %[[OFWARP]]
// CHECK:           %[[TAKES:.*]] = attn_tile.is_active_warp %[[WARPS]]
// CHECK:           scf.if %[[TAKES]] {
// CHECK:             scf.while : () -> index {
// CHECK:               %[[K:.*]] = attn_tile.fetch_work_item
// CHECK:               %[[EXISTS:.*]] = arith.cmpi ult, %[[K]], %[[COUNT]]
// CHECK:               scf.condition(%[[EXISTS]]) %[[K]]
// CHECK:             } do {
// CHECK:             ^bb0(%[[NUMBER:.*]]: index):
// CHECK:               %[[FAR:.*]] = arith.muli %[[NUMBER]], %[[GROUPS]]
// CHECK:               %[[WORK_ITEM:.*]] = arith.addi %[[GROUP]], %[[FAR]]
// CHECK:               %[[REVERSED:.*]] = arith.subi %{{.*}}, %[[WORK_ITEM]]
// CHECK:               memref.store %[[REVERSED]], %{{.*}}[%[[REVERSED]]]
// CHECK-NOT:       attn_tile.throughput_hint
// CHECK-LABEL: func.func @launch_joined(
// ROLES-LABEL: attn_tile.kernel @joined(
// ROLES:         attn_tile.role producer warpgroups(1) registers(72) {
// ROLES:         attn_tile.role consumer warpgroups(2) registers(216) {
attn_tile.kernel @joined(%items: index, %n: index, %list: memref<?xindex>, %k: memref<?x16xf16>,
                         %p: vector<128x16xf16>) {
  %c0 = arith.constant 0 : index
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<16x16xf16, stages = 2>
  attn_tile.auxiliary_warps registers(72) joined {
    %part = arith.constant 24 : index
    %whole = arith.constant 32 : index
    attn_tile.throughput_hint %part of %whole
    scf.forall (%i) in (%n) {
      memref.store %i, %list[%i] : memref<?xindex>
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

func.func @launch_joined(%items: index, %n: index, %list: memref<?xindex>, %k: memref<?x16xf16>,
                         %p: vector<128x16xf16>) {
  attn_tile.launch @joined args(%items, %n, %list, %k, %p
      : index, index, memref<?xindex>, memref<?x16xf16>, vector<128x16xf16>)
  return
}
