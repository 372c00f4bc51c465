// RUN: attn-opt %s -attn-tile-split-roles -split-input-file -verify-diagnostics

// Where the copies go depends on the result of an MMA.
attn_tile.kernel @data_dependent(%k: memref<?x16xf16>, %p: vector<16xindex>) {
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<16x16xf16, stages = 2>
  %c0 = arith.constant 0 : index
  // expected-error @below {{'arith.addi' op is needed to fill pipes, but a role that does can neither compute on tiles nor write}}
  %q = arith.addi %p, %p : vector<16xindex>
  %row = vector.extract %q[0] : index from vector<16xindex>
  %b = attn_tile.acquire %pipe[%c0] : !attn_tile.pipe<16x16xf16, stages = 2>
  attn_tile.copy %k[%row, %c0] to %b : memref<?x16xf16> to !attn_tile.buffer<16x16xf16>
  attn_tile.commit %b : !attn_tile.buffer<16x16xf16>
  attn_tile.return
}

// -----

attn_tile.kernel @while(%k: memref<?x16xf16>, %flag: i1) {
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<16x16xf16, stages = 2>
  %c0 = arith.constant 0 : index
  // expected-error @below {{'scf.while' op holds what is needed to fill pipes, but is neither a loop nor a conditional}}
  scf.while : () -> () {
    scf.condition(%flag)
  } do {
    %b = attn_tile.acquire %pipe[%c0] : !attn_tile.pipe<16x16xf16, stages = 2>
    attn_tile.copy %k[%c0, %c0] to %b : memref<?x16xf16> to !attn_tile.buffer<16x16xf16>
    attn_tile.commit %b : !attn_tile.buffer<16x16xf16>
    scf.yield
  }
  attn_tile.return
}

// -----

attn_tile.kernel @rows(%p: vector<64x16xf16>) {
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<16x16xf16, stages = 2>
  %c0 = arith.constant 0 : index
  %b = attn_tile.wait %pipe[%c0] : !attn_tile.pipe<16x16xf16, stages = 2>
  // expected-error @below {{'attn_tile.mma_start' op result 'vector<64x16xf32>' cannot be spread over 2 consumer warpgroups}}
  %s = attn_tile.mma_start %p, %b : vector<64x16xf16>, !attn_tile.buffer<16x16xf16>
      -> !attn_tile.pending<vector<64x16xf32>>
  %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<64x16xf32>>
  attn_tile.release %b : !attn_tile.buffer<16x16xf16>
  attn_tile.return
}

// -----

// Idle warps read what is in shared memory, at a position.
attn_tile.kernel @order_of_registers(%t: vector<64x16xf32>, %sums: memref<?x16xf32>, %semaphores: memref<?xi32>, %i: index) {
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x16xf32, stages = 1>
  // expected-error @below {{'attn_tile.bulk_reduce_add' op with an order must be of a tile that 'attn_tile.stage_fragments' has put at a position}}
  attn_tile.bulk_reduce_add %t to %sums[%i, %i] ordered(%i of %semaphores[%i]) : vector<64x16xf32> to memref<?x16xf32>, memref<?xi32>
  attn_tile.return
}

// -----

attn_tile.kernel @order_without_position(%t: vector<64x16xf32>, %sums: memref<?x16xf32>, %semaphores: memref<?xi32>, %i: index) {
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x16xf32, stages = 1>
  %b = attn_tile.stage_fragments %t in %p : vector<64x16xf32>, !attn_tile.pipe<64x16xf32, stages = 1>
  // expected-error @below {{'attn_tile.bulk_reduce_add' op with an order must be of a tile that 'attn_tile.stage_fragments' has put at a position}}
  attn_tile.bulk_reduce_add %b to %sums[%i, %i] ordered(%i of %semaphores[%i]) : !attn_tile.buffer<64x16xf32> to memref<?x16xf32>, memref<?xi32>
  attn_tile.return
}

// -----

attn_tile.kernel @order_auxiliary(%t: vector<64x16xf32>, %sums: memref<?x16xf32>, %semaphores: memref<?xi32>, %i: index) {
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x16xf32, stages = 1>
  // expected-note @below {{this}}
  attn_tile.auxiliary_warps {
  }
  %b = attn_tile.stage_fragments %t in %p[%i] : vector<64x16xf32>, !attn_tile.pipe<64x16xf32, stages = 1>
  // expected-error @below {{'attn_tile.bulk_reduce_add' op with an order needs the idle warps, which run something else}}
  attn_tile.bulk_reduce_add %b to %sums[%i, %i] ordered(%i of %semaphores[%i]) : !attn_tile.buffer<64x16xf32> to memref<?x16xf32>, memref<?xi32>
  attn_tile.return
}

// -----

// Whose turn it is depends on the result of an MMA.
attn_tile.kernel @order_of_tile(%t: vector<64x16xf32>, %v: vector<16xindex>, %sums: memref<?x16xf32>, %semaphores: memref<?xi32>, %i: index) {
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x16xf32, stages = 1>
  %b = attn_tile.stage_fragments %t in %p[%i] : vector<64x16xf32>, !attn_tile.pipe<64x16xf32, stages = 1>
  // expected-error @below {{'arith.addi' op is needed to accumulate in order, but a role that does can neither compute on tiles nor write}}
  %w = arith.addi %v, %v : vector<16xindex>
  %n = vector.extract %w[0] : index from vector<16xindex>
  attn_tile.bulk_reduce_add %b to %sums[%i, %i] ordered(%n of %semaphores[%i]) : !attn_tile.buffer<64x16xf32> to memref<?x16xf32>, memref<?xi32>
  attn_tile.return
}

// -----

// Idle warps have one task.
attn_tile.kernel @convert_beside_others(%i: index) {
  %kp = attn_tile.create_pipe : !attn_tile.pipe<64x64xf8E4M3FN, stages = 1>
  %k16 = attn_tile.create_pipe : !attn_tile.pipe<64x64xf16, stages = 1>
  // expected-error @below {{'attn_tile.auxiliary_warps' op needs the idle warps, which convert tiles}}
  attn_tile.auxiliary_warps {
  }
  %k = attn_tile.wait %kp[%i] : !attn_tile.pipe<64x64xf8E4M3FN, stages = 1>
  attn_tile.convert %k to %k16[%i] : !attn_tile.buffer<64x64xf8E4M3FN>, !attn_tile.pipe<64x64xf16, stages = 1>
  attn_tile.release %k : !attn_tile.buffer<64x64xf8E4M3FN>
  attn_tile.return
}
