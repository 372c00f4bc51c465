// RUN: attn-opt %s -attn-tile-allocate-pipes=target=sm_90a -convert-attn-tile-to-nvvm=target=sm_90a -canonicalize -cse \
// RUN:   -split-input-file | FileCheck %s

// What a region reads for rows and columns is read before the scores are waited
// for: two rows and four columns for each thread. Length and attribute are one
// comparison for each element, the region another one, and their conjunction one
// predicate.

// CHECK-LABEL: llvm.func @reads_columns
// CHECK:         wgmma.commit_group.sync.aligned
// CHECK-COUNT-6: llvm.load %{{.*}} : !llvm.ptr<1> -> i32
// CHECK-NOT:     llvm.load
// CHECK:         wgmma.wait_group.sync.aligned
// CHECK-COUNT-8: arith.cmpi eq
// CHECK-COUNT-8: arith.cmpi sgt
// CHECK-NOT:     arith.cmpi
// CHECK-COUNT-8: arith.andi %{{.*}} : i1
// CHECK:         %[[KEEP:.*]] = llvm.inline_asm asm_dialect = att "mov.pred $0, $1;", "=b,b"
// CHECK-NEXT:    arith.select %[[KEEP]]
attn_tile.kernel @reads_columns(%q: vector<64x16xf16>, %ids: memref<?xi32>, %n: index, %row: index, %column: index,
                                %out: memref<64x16xf32>) attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %kp = attn_tile.create_pipe : !attn_tile.pipe<16x16xf16, stages = 1>
  %c0 = arith.constant 0 : index
  attn_tile.role consumer warpgroups(1) registers(240) {
    %k = attn_tile.wait %kp[%c0] : !attn_tile.pipe<16x16xf16, stages = 1>
    %p = attn_tile.mma_start %q, %k transpose_rhs : vector<64x16xf16>, !attn_tile.buffer<16x16xf16>
        -> !attn_tile.pending<vector<64x16xf32>>
    %s = attn_tile.mma_wait %p : !attn_tile.pending<vector<64x16xf32>>
    attn_tile.release %k : !attn_tile.buffer<16x16xf16>
    %m = attn_tile.mask %s at(%c0, %c0, %row, %column) lengths(%n, %n) by(#attn.causal) : vector<64x16xf32> mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %x = memref.load %ids[%i] : memref<?xi32>
      %y = memref.load %ids[%j] : memref<?xi32>
      %same = arith.cmpi eq, %x, %y : i32
      attn_tile.yield %same : i1
    }
    attn_tile.store %m, %out[%c0, %c0] : vector<64x16xf32>, memref<64x16xf32>
  }
  attn_tile.return
}

// -----

// Several reads for each column would take a register each until they are used:
// each column is read when its elements are masked.

// CHECK-LABEL: llvm.func @reads_columns_often
// CHECK:         wgmma.commit_group.sync.aligned
// CHECK-NOT:     llvm.load
// CHECK:         wgmma.wait_group.sync.aligned
// CHECK-COUNT-3: llvm.load
// CHECK-NOT:     llvm.load
// CHECK:         arith.cmpi eq
// CHECK:         llvm.load
attn_tile.kernel @reads_columns_often(%q: vector<64x16xf16>, %ids: memref<?xi32>, %parts: memref<?xi32>, %more: memref<?xi32>,
                                      %n: index,                                      %row: index, %column: index, %out: memref<64x16xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %kp = attn_tile.create_pipe : !attn_tile.pipe<16x16xf16, stages = 1>
  %c0 = arith.constant 0 : index
  attn_tile.role consumer warpgroups(1) registers(240) {
    %k = attn_tile.wait %kp[%c0] : !attn_tile.pipe<16x16xf16, stages = 1>
    %p = attn_tile.mma_start %q, %k transpose_rhs : vector<64x16xf16>, !attn_tile.buffer<16x16xf16>
        -> !attn_tile.pending<vector<64x16xf32>>
    %s = attn_tile.mma_wait %p : !attn_tile.pending<vector<64x16xf32>>
    attn_tile.release %k : !attn_tile.buffer<16x16xf16>
    %m = attn_tile.mask %s at(%c0, %c0, %row, %column) lengths(%n, %n) : vector<64x16xf32> mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %c7 = arith.constant 7 : i32
      %x = memref.load %ids[%j] : memref<?xi32>
      %y = memref.load %parts[%j] : memref<?xi32>
      %z = memref.load %more[%j] : memref<?xi32>
      %sum = arith.addi %y, %z : i32
      %same = arith.cmpi eq, %x, %sum : i32
      %position = arith.index_cast %i : index to i32
      %late = arith.cmpi ugt, %position, %c7 : i32
      %keep = arith.ori %same, %late : i1
      attn_tile.yield %keep : i1
    }
    attn_tile.store %m, %out[%c0, %c0] : vector<64x16xf32>, memref<64x16xf32>
  }
  attn_tile.return
}

// -----

// The position of the tile is not known before the wait.

// CHECK-LABEL: llvm.func @late_position
// CHECK:         wgmma.wait_group.sync.aligned
// CHECK-COUNT-6: llvm.load %{{.*}} : !llvm.ptr<1> -> i32
attn_tile.kernel @late_position(%q: vector<64x16xf16>, %ids: memref<?xi32>, %n: index, %row: index,
                                %out: memref<64x16xf32>) attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %kp = attn_tile.create_pipe : !attn_tile.pipe<16x16xf16, stages = 1>
  %c0 = arith.constant 0 : index
  attn_tile.role consumer warpgroups(1) registers(240) {
    %k = attn_tile.wait %kp[%c0] : !attn_tile.pipe<16x16xf16, stages = 1>
    %p = attn_tile.mma_start %q, %k transpose_rhs : vector<64x16xf16>, !attn_tile.buffer<16x16xf16>
        -> !attn_tile.pending<vector<64x16xf32>>
    %s = attn_tile.mma_wait %p : !attn_tile.pending<vector<64x16xf32>>
    attn_tile.release %k : !attn_tile.buffer<16x16xf16>
    %column = arith.muli %row, %n : index
    %m = attn_tile.mask %s at(%c0, %c0, %row, %column) lengths(%n, %n) : vector<64x16xf32> mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %x = memref.load %ids[%i] : memref<?xi32>
      %y = memref.load %ids[%j] : memref<?xi32>
      %same = arith.cmpi eq, %x, %y : i32
      attn_tile.yield %same : i1
    }
    attn_tile.store %m, %out[%c0, %c0] : vector<64x16xf32>, memref<64x16xf32>
  }
  attn_tile.return
}

// -----

// Few steps are masked. Where rows are keys, the queries of a key begin somewhere
// and need no end: one comparison for each element, as those beyond the length may
// attend anything. A region between an MMA and the wait for it does not keep
// later MMAs from staying in flight.

// CHECK-LABEL: llvm.func @guarded_keys
// CHECK-COUNT-2: wgmma.commit_group.sync.aligned
// CHECK:         "wgmma.wait_group.sync.aligned 1;"
// CHECK:         %[[FEW:.*]] = llvm.intr.expect %{{.*}}, %{{.*}} : i1
// CHECK:         scf.if %[[FEW]]
// CHECK:           arith.cmpi slt
// CHECK-COUNT-4:   arith.cmpi sle
// CHECK-NOT:       arith.cmpi sgt
// CHECK:           arith.cmpi slt
// CHECK-COUNT-4:   arith.cmpi sle
// CHECK-NOT:       arith.cmpi
// CHECK-COUNT-8:   arith.select
// CHECK:         wgmma.commit_group.sync.aligned
// CHECK:         "wgmma.wait_group.sync.aligned 1;"
// CHECK:         "wgmma.wait_group.sync.aligned 0;"
attn_tile.kernel @guarded_keys(%k: vector<64x16xf16>, %n: index, %row: index, %column: index, %any: i1,
                               %out: memref<64x16xf32>) attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %qp = attn_tile.create_pipe : !attn_tile.pipe<16x16xf16, stages = 1>
  %c0 = arith.constant 0 : index
  attn_tile.role consumer warpgroups(1) registers(240) {
    %q = attn_tile.wait %qp[%c0] : !attn_tile.pipe<16x16xf16, stages = 1>
    %p0 = attn_tile.mma_start %k, %q transpose_rhs : vector<64x16xf16>, !attn_tile.buffer<16x16xf16>
        -> !attn_tile.pending<vector<64x16xf32>>
    %p1 = attn_tile.mma_start %k, %q : vector<64x16xf16>, !attn_tile.buffer<16x16xf16>
        -> !attn_tile.pending<vector<64x16xf32>>
    %s = attn_tile.mma_wait %p0 : !attn_tile.pending<vector<64x16xf32>>
    %m = scf.if %any -> vector<64x16xf32> {
      %0 = attn_tile.mask %s at(%c0, %c0, %row, %column) lengths(%n, %n) by(#attn.causal) transposed : vector<64x16xf32>
      scf.yield %0 : vector<64x16xf32>
    } else {
      scf.yield %s : vector<64x16xf32>
    }
    %h = arith.truncf %m : vector<64x16xf32> to vector<64x16xf16>
    %p2 = attn_tile.mma_start %h, %q : vector<64x16xf16>, !attn_tile.buffer<16x16xf16>
        -> !attn_tile.pending<vector<64x16xf32>>
    %d = attn_tile.mma_wait %p1 : !attn_tile.pending<vector<64x16xf32>>
    %e = attn_tile.mma_wait %p2 : !attn_tile.pending<vector<64x16xf32>>
    attn_tile.release %q : !attn_tile.buffer<16x16xf16>
    %r = arith.addf %d, %e : vector<64x16xf32>
    attn_tile.store %r, %out[%c0, %c0] : vector<64x16xf32>, memref<64x16xf32>
  }
  attn_tile.return
}

// -----

// Under a window the queries of a key end as well.

// CHECK-LABEL: llvm.func @window_of_keys
// CHECK:         "wgmma.wait_group.sync.aligned 0;"
// CHECK-COUNT-8: arith.cmpi sgt
attn_tile.kernel @window_of_keys(%k: vector<64x16xf16>, %n: index, %row: index, %column: index,
                                 %out: memref<64x16xf32>) attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %qp = attn_tile.create_pipe : !attn_tile.pipe<16x16xf16, stages = 1>
  %c0 = arith.constant 0 : index
  attn_tile.role consumer warpgroups(1) registers(240) {
    %q = attn_tile.wait %qp[%c0] : !attn_tile.pipe<16x16xf16, stages = 1>
    %p = attn_tile.mma_start %k, %q transpose_rhs : vector<64x16xf16>, !attn_tile.buffer<16x16xf16>
        -> !attn_tile.pending<vector<64x16xf32>>
    %s = attn_tile.mma_wait %p : !attn_tile.pending<vector<64x16xf32>>
    attn_tile.release %q : !attn_tile.buffer<16x16xf16>
    %m = attn_tile.mask %s at(%c0, %c0, %row, %column) lengths(%n, %n) by(#attn.sliding_window<left = 8, right = 0>)
        transposed : vector<64x16xf32>
    attn_tile.store %m, %out[%c0, %c0] : vector<64x16xf32>, memref<64x16xf32>
  }
  attn_tile.return
}

// -----

// A read that is the same for all pairs is done once, also where no pass has
// hoisted it. The only element of a table needs no index.

// CHECK-LABEL: llvm.func @reads_one_element
// CHECK-SAME:    %arg3: i32, %[[TABLE:arg4]]: !llvm.ptr
// CHECK:         "wgmma.wait_group.sync.aligned 0;"
// CHECK:         %[[GLOBAL:.*]] = llvm.addrspacecast %[[TABLE]]
// CHECK:         %[[X:.*]] = llvm.load %[[GLOBAL]] : !llvm.ptr<1> -> i8
// CHECK:         arith.cmpi ne, %[[X]], %{{.*}} : i8
// CHECK-COUNT-4: arith.cmpi sgt
// CHECK-NOT:     llvm.load
// CHECK-COUNT-8: arith.select
attn_tile.kernel @reads_one_element(%q: vector<64x16xf16>, %table: memref<1x1xi8>, %n: index, %row: index, %column: index,
                                    %out: memref<64x16xf32>) attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %kp = attn_tile.create_pipe : !attn_tile.pipe<16x16xf16, stages = 1>
  %c0 = arith.constant 0 : index
  %none = arith.constant 0 : i8
  attn_tile.role consumer warpgroups(1) registers(240) {
    %k = attn_tile.wait %kp[%c0] : !attn_tile.pipe<16x16xf16, stages = 1>
    %p = attn_tile.mma_start %q, %k transpose_rhs : vector<64x16xf16>, !attn_tile.buffer<16x16xf16>
        -> !attn_tile.pending<vector<64x16xf32>>
    %s = attn_tile.mma_wait %p : !attn_tile.pending<vector<64x16xf32>>
    attn_tile.release %k : !attn_tile.buffer<16x16xf16>
    %m = attn_tile.mask %s at(%c0, %c0, %row, %column) lengths(%n, %n) : vector<64x16xf32> mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %x = memref.load %table[%c0, %c0] : memref<1x1xi8>
      %keep = arith.cmpi ne, %x, %none : i8
      attn_tile.yield %keep : i1
    }
    attn_tile.store %m, %out[%c0, %c0] : vector<64x16xf32>, memref<64x16xf32>
  }
  attn_tile.return
}

// -----

// The index of such a read is bounded, as the read need not be of a pair that exists.

// CHECK-LABEL: llvm.func @reads_head
// CHECK-SAME:    %arg4: !llvm.ptr, %[[NUM_HEADS:arg5]]: i64, %arg6: i64, %[[HEAD:arg7]]: i64
// CHECK-DAG:     %[[H:.*]] = arith.trunci %[[HEAD]] : i64 to i32
// CHECK:         "wgmma.wait_group.sync.aligned 0;"
// CHECK:         %[[SIZE:.*]] = arith.trunci %[[NUM_HEADS]] : i64 to i32
// CHECK:         %[[AT_LEAST_ONE:.*]] = arith.maxui %[[SIZE]], %{{.*}} : i32
// CHECK:         %[[LAST:.*]] = arith.subi %[[AT_LEAST_ONE]], %{{.*}} : i32
// CHECK:         %[[BOUNDED:.*]] = arith.minui %[[H]], %[[LAST]] : i32
// CHECK:         %[[INDEX:.*]] = arith.extsi %[[BOUNDED]] : i32 to i64
// CHECK:         %[[ADDRESS:.*]] = llvm.getelementptr %{{.*}}[%[[INDEX]]]
// CHECK:         llvm.load %[[ADDRESS]] : !llvm.ptr<1> -> i32
// CHECK-NOT:     llvm.load
// CHECK-COUNT-4: arith.cmpi sgt
attn_tile.kernel @reads_head(%q: vector<64x16xf16>, %table: memref<?xi32>, %head: index, %n: index, %row: index,
                             %column: index, %out: memref<64x16xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %kp = attn_tile.create_pipe : !attn_tile.pipe<16x16xf16, stages = 1>
  %c0 = arith.constant 0 : index
  attn_tile.role consumer warpgroups(1) registers(240) {
    %k = attn_tile.wait %kp[%c0] : !attn_tile.pipe<16x16xf16, stages = 1>
    %p = attn_tile.mma_start %q, %k transpose_rhs : vector<64x16xf16>, !attn_tile.buffer<16x16xf16>
        -> !attn_tile.pending<vector<64x16xf32>>
    %s = attn_tile.mma_wait %p : !attn_tile.pending<vector<64x16xf32>>
    attn_tile.release %k : !attn_tile.buffer<16x16xf16>
    %m = attn_tile.mask %s at(%c0, %head, %row, %column) lengths(%n, %n) : vector<64x16xf32> mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %x = memref.load %table[%h] : memref<?xi32>
      %key = arith.index_cast %j : index to i32
      %keep = arith.cmpi slt, %key, %x : i32
      attn_tile.yield %keep : i1
    }
    attn_tile.store %m, %out[%c0, %c0] : vector<64x16xf32>, memref<64x16xf32>
  }
  attn_tile.return
}
