// RUN: attn-opt %s -attn-tile-allocate-pipes=target=sm_80 -convert-attn-tile-to-nvvm=target=sm_80 -split-input-file -verify-diagnostics

attn_tile.kernel @copy_from_tensor_map(%m: !attn_tile.tensor_map<2, 64x64xbf16>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 1>
  %b = attn_tile.acquire %p[%c0] : !attn_tile.pipe<64x64xbf16, stages = 1>
  // expected-error @below {{'attn_tile.copy' op must copy from a memref on sm_80}}
  // expected-error @below {{failed to legalize}}
  attn_tile.copy %m[%c0, %c0] to %b : !attn_tile.tensor_map<2, 64x64xbf16> to !attn_tile.buffer<64x64xbf16>
  attn_tile.commit %b : !attn_tile.buffer<64x64xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @columns_apart(%m: memref<?x64xbf16, strided<[1, 64]>>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 1>
  %b = attn_tile.acquire %p[%c0] : !attn_tile.pipe<64x64xbf16, stages = 1>
  // expected-error @below {{'attn_tile.copy' op columns of 'memref<?x64xbf16, strided<[1, 64]>>' must be contiguous on sm_80}}
  // expected-error @below {{failed to legalize}}
  attn_tile.copy %m[%c0, %c0] to %b : memref<?x64xbf16, strided<[1, 64]>> to !attn_tile.buffer<64x64xbf16>
  attn_tile.commit %b : !attn_tile.buffer<64x64xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @contracts_8(%p: vector<64x8xbf16>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<64x8xbf16, stages = 1>
  %b = attn_tile.wait %pipe[%c0] : !attn_tile.pipe<64x8xbf16, stages = 1>
  // expected-error @below {{'attn_tile.mma_start' op lhs in registers must contract a multiple of 16 on sm_80}}
  // expected-error @below {{failed to legalize}}
  %s = attn_tile.mma_start %p, %b transpose_rhs
      : vector<64x8xbf16>, !attn_tile.buffer<64x8xbf16> -> !attn_tile.pending<vector<64x64xf32>>
  %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<64x64xf32>>
  attn_tile.release %b : !attn_tile.buffer<64x8xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @packed_in_bulk(%m: memref<?x64xf32>, %i: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %p = attn_tile.create_pipe at(1024) barriers(0) : !attn_tile.pipe<64x16xf32, stages = 1>
  %x = attn_tile.load_fragments %m[%i, %c0] : memref<?x64xf32> to vector<64x16xf32>
  // expected-error @below {{'attn_tile.stage_fragments' op needs bulk reductions, which sm_80 does not have}}
  // expected-error @below {{failed to legalize operation 'attn_tile.stage_fragments'}}
  %b = attn_tile.stage_fragments %x in %p : vector<64x16xf32>, !attn_tile.pipe<64x16xf32, stages = 1>
  attn_tile.bulk_reduce_add %b to %m[%i, %c0] : !attn_tile.buffer<64x16xf32> to memref<?x64xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @share()
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %y = arith.constant dense<0.0> : vector<64x16xbf16>
  %p = attn_tile.create_pipe at(1024) barriers(0) : !attn_tile.pipe<64x64xbf16, stages = 2>
  // expected-error @below {{'attn_tile.local_store' op tile must have 16-bit or f32 values, a multiple of 64 rows and a multiple of 16 columns to be stored to shared memory on sm_80 (was 'vector<64x16xbf16>' from column 8)}}
  // expected-error @below {{failed to legalize operation 'attn_tile.local_store'}}
  %b = attn_tile.local_store %y in %p[%c0] from(8) : vector<64x16xbf16>, !attn_tile.pipe<64x64xbf16, stages = 2>
  attn_tile.return
}

// -----

attn_tile.kernel @store_through(%m: memref<?x64xbf16>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 1>
  %t = arith.constant dense<1.0> : vector<64x64xbf16>
  // expected-error @below {{'attn_tile.store_through' op cannot store through shared memory on sm_80}}
  // expected-error @below {{failed to legalize}}
  attn_tile.store_through %p, %t to %m[%c0, %c0] : !attn_tile.pipe<64x64xbf16, stages = 1>, vector<64x64xbf16> to memref<?x64xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @read_of_rows() attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x8xf32, stages = 1>
  %b = attn_tile.wait %p[%c0] : !attn_tile.pipe<64x8xf32, stages = 1>
  // expected-error @below {{'attn_tile.read' op tile must have 16-bit or f32 values, a multiple of 64 rows and a multiple of 16 columns to be read from shared memory on sm_80 (was 'vector<64x8xf32>' from column 0)}}
  // expected-error @below {{failed to legalize}}
  %r = attn_tile.read %b : !attn_tile.buffer<64x8xf32> -> vector<64x8xf32>
  attn_tile.release %b : !attn_tile.buffer<64x8xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @early() attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  // expected-error @below {{'attn_tile.allow_launches' op cannot be on sm_80}}
  // expected-error @below {{failed to legalize}}
  attn_tile.allow_launches
  attn_tile.return
}

// -----

attn_tile.kernel @late() attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  // expected-error @below {{'attn_tile.await_launches' op cannot be on sm_80}}
  // expected-error @below {{failed to legalize}}
  attn_tile.await_launches
  attn_tile.return
}

// -----

// expected-error @below {{'attn_tile.kernel' op needs clusters, which sm_80 does not have}}
attn_tile.kernel @clusters() attributes {layout = #attn_tile.row_blocks<warps = 4>, cluster = 2 : i64} {
  attn_tile.return
}

// -----

attn_tile.kernel @counted(%c: memref<?xi32>, %i: index) attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  // expected-error @below {{'attn_tile.semaphore_add' op needs semaphores, which sm_80 does not have}}
  // expected-error @below {{failed to legalize}}
  attn_tile.semaphore_add %c[%i] : memref<?xi32>
  attn_tile.return
}

// -----

attn_tile.kernel @awaited(%c: memref<?xi32>, %i: index) attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  // expected-error @below {{'attn_tile.semaphore_wait' op needs semaphores, which sm_80 does not have}}
  // expected-error @below {{failed to legalize}}
  attn_tile.semaphore_wait %c[%i] to(%i) : memref<?xi32>
  attn_tile.return
}

// -----

attn_tile.kernel @rounded(%m: memref<?x64xf32>, %d: memref<?x64xbf16>, %i: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  // expected-error @below {{'attn_tile.convert_dq' op needs semaphores, which sm_80 does not have}}
  // expected-error @below {{failed to legalize}}
  attn_tile.convert_dq %m[%i, %i] to %d[%i, %i] part(%i of 1) times 1.0
      : vector<64x64xf32> in memref<?x64xf32> to memref<?x64xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @mma_of_rows(%out: memref<64x64xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<128x64xbf16, stages = 1>
  %other = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 1>
  %a = attn_tile.wait %pipe[%c0] : !attn_tile.pipe<128x64xbf16, stages = 1>
  %b = attn_tile.wait %other[%c0] : !attn_tile.pipe<64x64xbf16, stages = 1>
  // expected-error @below {{'attn_tile.mma_start' op must be of all rows of lhs on sm_80}}
  // expected-error @below {{failed to legalize}}
  %s = attn_tile.mma_start %a, %b transpose_rhs first_row(64)
      : !attn_tile.buffer<128x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<64x64xf32>>
  %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<64x64xf32>>
  attn_tile.release %a : !attn_tile.buffer<128x64xbf16>
  attn_tile.release %b : !attn_tile.buffer<64x64xbf16>
  attn_tile.store %r, %out[%c0, %c0] : vector<64x64xf32>, memref<64x64xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @mma_of_columns(%out: memref<64x16xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 1>
  %a = attn_tile.wait %pipe[%c0] : !attn_tile.pipe<64x64xbf16, stages = 1>
  // expected-error @below {{'attn_tile.mma_start' op first column must be a multiple of 16 on sm_80 (was 24)}}
  // expected-error @below {{failed to legalize}}
  %s = attn_tile.mma_start %a, %a first_column(24)
      : !attn_tile.buffer<64x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<64x16xf32>>
  %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<64x16xf32>>
  attn_tile.release %a : !attn_tile.buffer<64x64xbf16>
  attn_tile.store %r, %out[%c0, %c0] : vector<64x16xf32>, memref<64x16xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @mma_of_consumers(%out: memref<64x32xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 1>
  %a = attn_tile.wait %pipe[%c0] : !attn_tile.pipe<64x64xbf16, stages = 1>
  // expected-error @below {{'attn_tile.mma_start' op has no columns for consumers on sm_80, where all warps have one role}}
  // expected-error @below {{failed to legalize}}
  %s = attn_tile.mma_start %a, %a consumer_columns
      : !attn_tile.buffer<64x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<64x32xf32>>
  %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<64x32xf32>>
  attn_tile.release %a : !attn_tile.buffer<64x64xbf16>
  attn_tile.store %r, %out[%c0, %c0] : vector<64x32xf32>, memref<64x32xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @completed() attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x16xf32, stages = 1>
  attn_tile.role consumer warpgroups(1) registers(128) {
    // expected-error @below {{'attn_tile.semaphore_release' op needs semaphores, which sm_80 does not have}}
    // expected-error @below {{failed to legalize}}
    attn_tile.semaphore_release %p : !attn_tile.pipe<64x16xf32, stages = 1>
  }
  attn_tile.return
}

// -----

attn_tile.kernel @large_tile(%a: memref<?x?xf32>) attributes {layout = #attn_tile.row_blocks<warps = 1>} {
  %c0 = arith.constant 0 : index
  // expected-error @below {{'attn_tile.load' op makes a tile 'vector<800x800xf32>' of 20000 registers in each of the 32 threads of a CTA (at most 1024)}}
  %t = attn_tile.load %a[%c0, %c0] : memref<?x?xf32> -> vector<800x800xf32>
  attn_tile.store %t, %a[%c0, %c0] : vector<800x800xf32>, memref<?x?xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @convert(%i: index) attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  // expected-error @below {{'attn_tile.create_pipe' op needs conversions by idle warps, which sm_80 does not have}}
  // expected-error @below {{failed to legalize}}
  %p = attn_tile.create_pipe at(9216) barriers(16) : !attn_tile.pipe<64x128xbf16, stages = 1>
  %k = attn_tile.create_pipe at(1024) barriers(0) : !attn_tile.pipe<64x128xf8E4M3FN, stages = 1>
  %b = attn_tile.wait %k[%i] : !attn_tile.pipe<64x128xf8E4M3FN, stages = 1>
  attn_tile.convert %b to %p[%i] : !attn_tile.buffer<64x128xf8E4M3FN>, !attn_tile.pipe<64x128xbf16, stages = 1>
  attn_tile.release %b : !attn_tile.buffer<64x128xf8E4M3FN>
  attn_tile.return
}

// -----

attn_tile.kernel @inverse_without_pipe(%in: memref<64x64xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %a = attn_tile.load %in[%c0, %c0] : memref<64x64xf32> -> vector<64x64xf32>
  // expected-error @below {{'attn_tile.invert_triangular' op has no pipe; attn-tile-create-pipes gives it one}}
  // expected-error @below {{failed to legalize}}
  %t = attn_tile.invert_triangular %a : vector<64x64xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @inverse_of_few_warps(%in: memref<64x64xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 2>} {
  %c0 = arith.constant 0 : index
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x64xf32, stages = 1>
  %a = attn_tile.load %in[%c0, %c0] : memref<64x64xf32> -> vector<64x64xf32>
  // expected-error @below {{'attn_tile.invert_triangular' op must be of all warps of a kernel without roles, 16 rows for each (was 64 rows for 2 warps)}}
  // expected-error @below {{failed to legalize}}
  %t = attn_tile.invert_triangular %a in %p : vector<64x64xf32>, !attn_tile.pipe<64x64xf32, stages = 1>
  attn_tile.return
}
