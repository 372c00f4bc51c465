// RUN: attn-opt %s -attn-tile-allocate-pipes=target=sm_90a -convert-attn-tile-to-nvvm=target=sm_90a -split-input-file -verify-diagnostics

// expected-error @below {{pass 'convert-attn-tile-to-nvvm' expects a kernel in phase 'specialized' to 'final' (was 'plain')}}
attn_tile.kernel @plain() {
  attn_tile.return
}

// -----

// expected-error @below {{'attn_tile.kernel' op needs a 'layout' to be lowered for a GPU}}
attn_tile.kernel @no_layout() {
  attn_tile.role producer warpgroups(1) registers(24) {
  }
  attn_tile.return
}

// -----

attn_tile.kernel @tile_too_small()
    attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  // expected-error @below {{'arith.constant' op has a tile 'vector<64x8xf32>' that cannot be spread over threads by #attn_tile.row_blocks<warps = 8>}}
  %x = arith.constant dense<0.0> : vector<64x8xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @remaining_forall(%n: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  // expected-error @below {{'scf.forall' op must be replaced by a traversal before the kernel is lowered for a GPU}}
  scf.forall (%i) in (%n) {
  }
  attn_tile.return
}

// -----

attn_tile.kernel @auxiliary_without_producer()
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  // expected-error @below {{'attn_tile.auxiliary_warps' op needs a producer whose warps but the first one are idle}}
  attn_tile.auxiliary_warps {
  }
  attn_tile.role consumer warpgroups(1) registers(240) {
  }
  attn_tile.return
}

// -----

// expected-error @below {{'attn_tile.kernel' op has an argument of type 'vector<16x8xf32>' that cannot be passed to a GPU}}
attn_tile.kernel @argument(%x: vector<16x8xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  attn_tile.return
}

// -----

// expected-error @below {{'attn_tile.kernel' op needs 263168 bytes of shared memory, but sm_90a has 232448 (30720 too many)}}
attn_tile.kernel @shared_memory()
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  // expected-note @below {{'!attn_tile.pipe<128x128xbf16, stages = 8>' takes 262144 bytes}}
  %p = attn_tile.create_pipe : !attn_tile.pipe<128x128xbf16, stages = 8>
  attn_tile.return
}

// -----

// A device may have less than its architecture.

module attributes {attn.device = #attn.device<"h200", shared_bytes = 100000>} {
// expected-error @below {{'attn_tile.kernel' op needs 132096 bytes of shared memory, but h200 has 100000 (32096 too many)}}
attn_tile.kernel @device()
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  // expected-note @below {{'!attn_tile.pipe<128x128xbf16, stages = 4>' takes 131072 bytes}}
  %p = attn_tile.create_pipe : !attn_tile.pipe<128x128xbf16, stages = 4>
  attn_tile.return
}
}

// -----

attn_tile.kernel @copy_from_memref(%m: memref<?x64xbf16>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 1>
  %b = attn_tile.acquire %p[%c0] : !attn_tile.pipe<64x64xbf16, stages = 1>
  // expected-error @below {{'attn_tile.copy' op must copy through a tensor map on sm_90a}}
  // expected-error @below {{failed to legalize}}
  attn_tile.copy %m[%c0, %c0] to %b : memref<?x64xbf16> to !attn_tile.buffer<64x64xbf16>
  attn_tile.commit %b : !attn_tile.buffer<64x64xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @box(%m: !attn_tile.tensor_map<2, 32x64xbf16>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 1>
  %b = attn_tile.acquire %p[%c0] : !attn_tile.pipe<64x64xbf16, stages = 1>
  // expected-error @below {{'attn_tile.copy' op tensor map must have the box 64x64 on sm_90a}}
  // expected-error @below {{failed to legalize}}
  attn_tile.copy %m[%c0, %c0] to %b : !attn_tile.tensor_map<2, 32x64xbf16> to !attn_tile.buffer<64x64xbf16>
  attn_tile.commit %b : !attn_tile.buffer<64x64xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @reduce_of_four_warps(%n: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  // expected-error @below {{'attn_tile.reduce' op must be run by CTAs of one warp on a GPU}}
  // expected-error @below {{failed to legalize operation 'attn_tile.reduce'}}
  %s = attn_tile.reduce to(%n) by [#vector.kind<add>] : index {
  ^bb0(%i: index):
    attn_tile.yield %i : index
  }
  attn_tile.return
}

// -----

attn_tile.kernel @compact_by_four_warps(%n: index, %c: i1)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  // expected-error @below {{'attn_tile.warp_compact' op must be run by CTAs of one warp on a GPU}}
  // expected-error @below {{failed to legalize operation 'attn_tile.warp_compact'}}
  %m = attn_tile.warp_compact to(%n) where {
  ^bb0(%i: index):
    attn_tile.yield %c : i1
  } do {
  ^bb0(%i: index, %rank: index):
    attn_tile.yield
  }
  attn_tile.return
}

// -----

attn_tile.kernel @local_store_f32() attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %y = arith.constant dense<0.0> : vector<64x32xf32>
  %sp = attn_tile.create_pipe : !attn_tile.pipe<64x32xf32, stages = 2>
  // expected-error @below {{'attn_tile.local_store' op tile must have 16-bit values to be stored to shared memory on sm_90a, whose MMAs read no other ones from there (was 'vector<64x32xf32>')}}
  // expected-error @below {{failed to legalize operation 'attn_tile.local_store'}}
  %b = attn_tile.local_store %y in %sp[%c0] : vector<64x32xf32>, !attn_tile.pipe<64x32xf32, stages = 2>
  attn_tile.return
}

// -----

attn_tile.kernel @share_columns()
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %y = arith.constant dense<0.0> : vector<64x8xbf16>
  %sp = attn_tile.create_pipe : !attn_tile.pipe<64x8xbf16, stages = 2>
  // expected-error @below {{'attn_tile.local_store' op columns must be a multiple of 16 to be stored to shared memory on sm_90a (was 8 from column 0)}}
  // expected-error @below {{failed to legalize operation 'attn_tile.local_store'}}
  %b = attn_tile.local_store %y in %sp[%c0] : vector<64x8xbf16>, !attn_tile.pipe<64x8xbf16, stages = 2>
  attn_tile.return
}

// -----

attn_tile.kernel @load_within(%m: memref<?x8xf32>, %i: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  // expected-error @below {{'attn_tile.load' op within a sequence, of unaligned rows, must be staged for a GPU}}
  // expected-error @below {{failed to legalize operation 'attn_tile.load'}}
  %0 = attn_tile.load %m[%i, %i] within(%i of %i) unaligned : memref<?x8xf32> -> vector<64x8xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @store_to_memref(%m: memref<?x64xbf16>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 1>
  %t = arith.constant dense<1.0> : vector<64x64xbf16>
  // expected-error @below {{'attn_tile.store_through' op must store through a tensor map on sm_90a}}
  // expected-error @below {{failed to legalize}}
  attn_tile.store_through %p, %t to %m[%c0, %c0] : !attn_tile.pipe<64x64xbf16, stages = 1>, vector<64x64xbf16> to memref<?x64xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @store_of_wrong_blocks(%m: !attn_tile.tensor_map<2, 64x64xbf16>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x32xbf16, stages = 1>
  %t = arith.constant dense<1.0> : vector<64x64xbf16>
  // expected-error @below {{must have a tile of 64 rows for each warpgroup, as many stages for each, and stages and boxes of 64x64 on sm_90a}}
  // expected-error @below {{failed to legalize}}
  attn_tile.store_through %p, %t to %m[%c0, %c0] : !attn_tile.pipe<64x32xbf16, stages = 1>, vector<64x64xbf16> to !attn_tile.tensor_map<2, 64x64xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @read_of_wrong_columns() attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %p = attn_tile.create_pipe : !attn_tile.pipe<128x24xbf16, stages = 1>
  %b = attn_tile.wait %p[%c0] : !attn_tile.pipe<128x24xbf16, stages = 1>
  // expected-error @below {{tile must have a multiple of 64 rows for each warpgroup, and of 16 columns, to be read on sm_90a (was 'vector<128x24xbf16>')}}
  // expected-error @below {{failed to legalize}}
  %r = attn_tile.read %b : !attn_tile.buffer<128x24xbf16> -> vector<128x24xbf16>
  attn_tile.release %b : !attn_tile.buffer<128x24xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @other_instruction(%x: memref<64x16xbf16>) attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x16xbf16, stages = 1>
  %a = attn_tile.wait %p[%c0] : !attn_tile.pipe<64x16xbf16, stages = 1>
  // expected-error @below {{'attn_tile.mma_start' op cannot be '#attn_tile.mma_sync<multiplicand = bf16>' on sm_90a, which has '#attn_tile.wgmma<multiplicand = bf16>' for 'bf16'}}
  %s = attn_tile.mma_start %a, %a transpose_rhs mma(#attn_tile.mma_sync<multiplicand = bf16>)
      : !attn_tile.buffer<64x16xbf16>, !attn_tile.buffer<64x16xbf16> -> !attn_tile.pending<vector<64x64xf32>>
  %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<64x64xf32>>
  attn_tile.release %a : !attn_tile.buffer<64x16xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @parts_of_swizzled_rows()
    attributes {layout = #attn_tile.row_blocks<warps = 4>, cluster = 4 : i64} {
  // expected-error @below {{sm_90a stages tiles of which each CTA of a cluster copies a multiple of 8 rows (was '!attn_tile.buffer<16x64xbf16, cluster = 4>')}}
  %p = attn_tile.create_pipe : !attn_tile.pipe<16x64xbf16, stages = 1, cluster = 4>
  attn_tile.return
}

// -----

attn_tile.kernel @box_of_cluster(%m: !attn_tile.tensor_map<2, 64x64xbf16>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>, cluster = 2 : i64} {
  %c0 = arith.constant 0 : index
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 1, cluster = 2>
  %b = attn_tile.acquire %p[%c0] : !attn_tile.pipe<64x64xbf16, stages = 1, cluster = 2>
  // expected-error @below {{'attn_tile.copy' op tensor map must have the box 32x64 on sm_90a}}
  // expected-error @below {{failed to legalize}}
  attn_tile.copy %m[%c0, %c0] to %b : !attn_tile.tensor_map<2, 64x64xbf16> to !attn_tile.buffer<64x64xbf16, cluster = 2>
  attn_tile.commit %b : !attn_tile.buffer<64x64xbf16, cluster = 2>
  attn_tile.return
}

// -----

// 512 for a thread of each role, where 384 threads are launched with 168 each.

// expected-error @below {{'attn_tile.kernel' op roles take more registers than a CTA is launched with (65536 instead of at most 64512)}}
attn_tile.kernel @registers_of_roles() attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  attn_tile.role producer warpgroups(1) registers(32) {
  }
  attn_tile.role consumer warpgroups(2) registers(240) {
  }
  attn_tile.return
}

// -----

attn_tile.kernel @rounded_by_all(%m: memref<?x64xf32>, %d: memref<?x64xbf16>, %i: index)
    attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  // expected-error @below {{'attn_tile.convert_dq' op must be inside of 'attn_tile.auxiliary_warps' on a GPU}}
  // expected-error @below {{failed to legalize}}
  attn_tile.convert_dq %m[%i, %i] to %d[%i, %i] part(%i of 1) times 1.0
      : vector<128x64xf32> in memref<?x64xf32> to memref<?x64xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @rounded_parts(%m: memref<?x64xf32>, %d: memref<?x64xbf16>, %i: index)
    attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  attn_tile.auxiliary_warps {
    // expected-error @below {{'attn_tile.convert_dq' op cannot divide 'vector<128x64xf32>' by 3 as #attn_tile.row_blocks<warps = 8> does}}
    // expected-error @below {{failed to legalize}}
    attn_tile.convert_dq %m[%i, %i] to %d[%i, %i] part(%i of 3) times 1.0
        : vector<128x64xf32> in memref<?x64xf32> to memref<?x64xbf16>
  }
  attn_tile.role producer warpgroups(1) registers(40) {
  }
  attn_tile.return
}

// -----

attn_tile.kernel @rounded_columns(%m: memref<?x48xf32>, %d: memref<?x48xbf16>, %i: index)
    attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  attn_tile.auxiliary_warps {
    // expected-error @below {{'attn_tile.convert_dq' op cannot store 16 bytes at once of 'vector<128x48xf32>' to 'memref<?x48xbf16>'}}
    // expected-error @below {{failed to legalize}}
    attn_tile.convert_dq %m[%i, %i] to %d[%i, %i] part(%i of 4) times 1.0
        : vector<128x48xf32> in memref<?x48xf32> to memref<?x48xbf16>
  }
  attn_tile.role producer warpgroups(1) registers(40) {
  }
  attn_tile.return
}

// -----

attn_tile.kernel @order_without_roles(%v: vector<64x16xf32>, %m: memref<?x16xf32>, %c: memref<?xi32>, %i: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  // expected-error @below {{'attn_tile.bulk_reduce_add' op with an order needs roles, of which attn-tile-split-roles makes idle warps add}}
  // expected-error @below {{failed to legalize}}
  attn_tile.bulk_reduce_add %v to %m[%i, %i] ordered(%i of %c[%i]) : vector<64x16xf32> to memref<?x16xf32>, memref<?xi32>
  attn_tile.return
}

// -----

attn_tile.kernel @auxiliary_without_warps() attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  attn_tile.auxiliary_warps warps(3) {
  }
  // expected-error @below {{'attn_tile.auxiliary_warps' op has no idle warps: others have all of them}}
  attn_tile.auxiliary_warps {
  }
  attn_tile.role producer warpgroups(1) registers(24) {
  }
  attn_tile.return
}

// -----

attn_tile.kernel @auxiliary_with_too_many() attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  // expected-error @below {{'attn_tile.auxiliary_warps' op needs 4 idle warps, but there are only 3 for it}}
  attn_tile.auxiliary_warps warps(4) {
  }
  attn_tile.role producer warpgroups(1) registers(24) {
  }
  attn_tile.return
}

// -----

attn_tile.kernel @rounded_twice(%m: memref<?x64xf32>, %d: memref<?x64xbf16>, %i: index)
    attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  attn_tile.auxiliary_warps warps(1) {
    attn_tile.convert_dq %m[%i, %i] to %d[%i, %i] part(%i of 4) times 1.0
        : vector<128x64xf32> in memref<?x64xf32> to memref<?x64xbf16>
  }
  // expected-error @below {{'attn_tile.auxiliary_warps' op cannot have 'attn_tile.convert_dq', which another 'attn_tile.auxiliary_warps' has}}
  attn_tile.auxiliary_warps {
    attn_tile.convert_dq %m[%i, %i] to %d[%i, %i] part(%i of 4) times 1.0
        : vector<128x64xf32> in memref<?x64xf32> to memref<?x64xbf16>
  }
  attn_tile.role producer warpgroups(1) registers(40) {
  }
  attn_tile.return
}

// -----

attn_tile.kernel @count_after_nothing(%c: memref<?xi32>, %i: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x16xf32, stages = 1>
  // expected-error @below {{after additions needs one 'attn_tile.semaphore_release' of its pipe, and no other 'attn_tile.semaphore_add'}}
  attn_tile.semaphore_add %c[%i] of additions after(%p[%i]) : memref<?xi32>, !attn_tile.pipe<64x16xf32, stages = 1>
  attn_tile.return
}

// -----

attn_tile.kernel @count_after_staged_tiles(%c: memref<?xi32>, %i: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x16xf32, stages = 1>
  attn_tile.auxiliary_warps warps(1) {
    // expected-error @below {{'attn_tile.semaphore_add' op pipe must be created in the kernel, for tiles that consumers stage and add}}
    attn_tile.semaphore_add %c[%i] of additions after(%p[%i]) : memref<?xi32>, !attn_tile.pipe<64x16xf32, stages = 1>
  }
  attn_tile.role producer warpgroups(1) registers(24) {
    %b = attn_tile.acquire %p[%i] : !attn_tile.pipe<64x16xf32, stages = 1>
    attn_tile.commit %b : !attn_tile.buffer<64x16xf32>
  }
  attn_tile.role consumer warpgroups(1) registers(240) {
    attn_tile.semaphore_release %p : !attn_tile.pipe<64x16xf32, stages = 1>
  }
  attn_tile.return
}

// -----

attn_tile.kernel @count_after_by_many(%c: memref<?xi32>, %i: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x16xf32, stages = 1>
  attn_tile.auxiliary_warps {
    // expected-error @below {{'attn_tile.semaphore_add' op after additions must be run by one idle warp, as attn-tile-split-roles makes it}}
    // expected-error @below {{failed to legalize}}
    attn_tile.semaphore_add %c[%i] of additions after(%p[%i]) : memref<?xi32>, !attn_tile.pipe<64x16xf32, stages = 1>
  }
  attn_tile.role producer warpgroups(1) registers(24) {
  }
  attn_tile.role consumer warpgroups(1) registers(240) {
    attn_tile.semaphore_release %p : !attn_tile.pipe<64x16xf32, stages = 1>
  }
  attn_tile.return
}

// -----

attn_tile.kernel @complete_uncounted() attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x16xf32, stages = 1>
  attn_tile.role producer warpgroups(1) registers(24) {
  }
  attn_tile.role consumer warpgroups(1) registers(240) {
    // expected-error @below {{'attn_tile.semaphore_release' op needs an 'attn_tile.semaphore_add' after the additions through its pipe}}
    // expected-error @below {{failed to legalize}}
    attn_tile.semaphore_release %p : !attn_tile.pipe<64x16xf32, stages = 1>
  }
  attn_tile.return
}

// -----

// A position that leaves the 32 bits of an index.
attn_tile.kernel @large_index(%s: vector<64x16xf32>, %n: index, %row: index, %column: index, %out: memref<64x16xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  // expected-error @below {{failed to legalize operation 'arith.constant'}}
  %large = arith.constant 2147483648 : index
  %m = attn_tile.mask %s at(%c0, %c0, %row, %column) lengths(%n, %n) : vector<64x16xf32> mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    // expected-error @below {{'arith.muli' op has 2147483648 as its operand #1, but GPUs compute with indices of 32 bits: integers beyond them must be i64}}
    %x = arith.muli %i, %large : index
    %keep = arith.cmpi slt, %j, %x : index
    attn_tile.yield %keep : i1
  }
  attn_tile.store %m, %out[%c0, %c0] : vector<64x16xf32>, memref<64x16xf32>
  attn_tile.return
}
