// RUN: attn-opt %s --verify-roundtrip | FileCheck %s
// RUN: attn-opt %s --mlir-print-op-generic | attn-opt | FileCheck %s

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

// CHECK-LABEL: attn_tile.kernel @empty() {
// CHECK-NEXT:    attn_tile.return
attn_tile.kernel @empty() {
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel private @attributes(
// CHECK-SAME:    %{{.*}}: memref<?xf32> {attn.name = "q"}, %{{.*}}: index)
// CHECK-SAME:    attributes {layout = #attn_tile.row_blocks<warps = 8>, schedule = #attn_tile.sequential<query_tile = 16, key_tile = 64>}
attn_tile.kernel private @attributes(%q: memref<?xf32> {attn.name = "q"}, %n: index)
    attributes {layout = #attn_tile.row_blocks<warps = 8>,
                schedule = #attn_tile.sequential<query_tile = 16, key_tile = 64>} {
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @blocks(
// CHECK:         cf.cond_br
// CHECK-COUNT-2: attn_tile.return
attn_tile.kernel @blocks(%b: i1) {
  cf.cond_br %b, ^one, ^two
^one:
  attn_tile.return
^two:
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @two_arguments(
attn_tile.kernel @two_arguments(%a: memref<?xf32>, %n: index) {
  attn_tile.return
}

// CHECK-LABEL: func @launch(
// CHECK-SAME:    %[[A:.*]]: memref<?xf32>, %[[N:.*]]: index)
// CHECK-NEXT:    attn_tile.launch @empty args(){{$}}
// CHECK-NEXT:    attn_tile.launch @two_arguments args(%[[A]], %[[N]] : memref<?xf32>, index){{$}}
// CHECK-NEXT:    attn_tile.launch @two_arguments grid(%[[N]], %[[N]], %[[N]]) args(%[[A]], %[[N]] : memref<?xf32>, index){{$}}
// CHECK-NEXT:    attn_tile.launch @empty grid(%[[N]], %[[N]], %[[N]]) ctas_per_sm(2) args(){{$}}
// CHECK-NEXT:    attn_tile.launch @empty early grid(%[[N]], %[[N]], %[[N]]) args(){{$}}
func.func @launch(%a: memref<?xf32>, %n: index) {
  attn_tile.launch @empty args()
  attn_tile.launch @two_arguments args(%a, %n : memref<?xf32>, index)
  attn_tile.launch @two_arguments grid(%n, %n, %n) args(%a, %n : memref<?xf32>, index)
  attn_tile.launch @empty grid(%n, %n, %n) ctas_per_sm(2) args()
  attn_tile.launch @empty early grid(%n, %n, %n) args()
  return
}

// What a kernel becomes is launched as well: a function, whose arguments are
// the target's, and then an entry of a binary.
llvm.func @function(%a: !llvm.ptr) {
  llvm.return
}
gpu.module @kernel_module {
  llvm.func @entry(%a: !llvm.ptr) {
    llvm.return
  }
}
gpu.binary @binary [#gpu.object<#nvvm.target, "">]

// CHECK-LABEL: func @launch_lowered(
// CHECK-SAME:    %[[N:.*]]: index)
// CHECK-NEXT:    attn_tile.launch @function args(%[[N]] : index)
// CHECK-NEXT:    attn_tile.launch @kernel_module::@entry args(%[[N]] : index)
// CHECK-NEXT:    attn_tile.launch @binary::@entry args(%[[N]] : index)
func.func @launch_lowered(%n: index) {
  attn_tile.launch @function args(%n : index)
  attn_tile.launch @kernel_module::@entry args(%n : index)
  attn_tile.launch @binary::@entry args(%n : index)
  return
}

// The names of results are part of what is printed.
// CHECK-LABEL: attn_tile.kernel @programs() {
// CHECK-NEXT:    %program_x = attn_tile.program_id 0
// CHECK-NEXT:    %program_y = attn_tile.program_id 1
// CHECK-NEXT:    %program_z = attn_tile.program_id 2
// CHECK-NEXT:    %programs_x = attn_tile.num_programs 0
// CHECK-NEXT:    %programs_y = attn_tile.num_programs 1
// CHECK-NEXT:    %programs_z = attn_tile.num_programs 2
attn_tile.kernel @programs() {
  %0 = attn_tile.program_id 0
  %1 = attn_tile.program_id 1
  %2 = attn_tile.program_id 2
  %3 = attn_tile.num_programs 0
  %4 = attn_tile.num_programs 1
  %5 = attn_tile.num_programs 2
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @clusters() attributes {cluster = 2 : i64} {
// CHECK-NEXT:    %cluster = attn_tile.cluster_id
// CHECK-NEXT:    %clusters = attn_tile.num_clusters
// CHECK-NEXT:    %rank = attn_tile.cluster_rank
// CHECK-NEXT:    attn_tile.create_pipe : <64x64xbf16, stages = 2, cluster = 2>
// CHECK-NEXT:    attn_tile.create_pipe : <64x64xbf16, stages = 2>
attn_tile.kernel @clusters() attributes {cluster = 2} {
  %0 = attn_tile.cluster_id
  %1 = attn_tile.num_clusters
  %2 = attn_tile.cluster_rank
  %3 = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 2, cluster = 2>
  %4 = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 2>
  attn_tile.return
}

//===----------------------------------------------------------------------===//
// Tiles and memory
//===----------------------------------------------------------------------===//

// CHECK-LABEL: attn_tile.kernel @load(
// CHECK-SAME:    %[[K:.*]]: memref<?x8x?x128xbf16>, %[[R:.*]]: memref<?xf32, strided<[?]>>, %[[I:.*]]: index, %[[T:.*]]: index, %[[N:.*]]: index)
// CHECK-NEXT:    attn_tile.load %[[K]][%[[I]], %[[I]], %[[T]], %[[I]]] : memref<?x8x?x128xbf16> -> vector<64x128xbf16>
// CHECK-NEXT:    attn_tile.load %[[K]][%[[I]], %[[I]], %[[T]], %[[I]]] stream(%[[T]] of %[[N]]) : memref<?x8x?x128xbf16> -> vector<64x128xbf16>
// CHECK-NEXT:    attn_tile.load %[[R]][%[[I]]] : memref<?xf32, strided<[?]>> -> vector<64xf32>
// CHECK-NEXT:    attn_tile.load %[[R]][%[[I]]] in_bounds : memref<?xf32, strided<[?]>> -> vector<64xf32>
// CHECK-NEXT:    attn_tile.load %[[K]][%[[I]], %[[I]], %[[T]], %[[I]]] any_order : memref<?x8x?x128xbf16> -> vector<64x128xbf16>
attn_tile.kernel @load(%k: memref<?x8x?x128xbf16>, %r: memref<?xf32, strided<[?]>>,
                       %i: index, %t: index, %n: index) {
  %0 = attn_tile.load %k[%i, %i, %t, %i]
      : memref<?x8x?x128xbf16> -> vector<64x128xbf16>
  %1 = attn_tile.load %k[%i, %i, %t, %i] stream(%t of %n)
      : memref<?x8x?x128xbf16> -> vector<64x128xbf16>
  %2 = attn_tile.load %r[%i] : memref<?xf32, strided<[?]>> -> vector<64xf32>
  %3 = attn_tile.load %r[%i] in_bounds : memref<?xf32, strided<[?]>> -> vector<64xf32>
  %4 = attn_tile.load %k[%i, %i, %t, %i] any_order
      : memref<?x8x?x128xbf16> -> vector<64x128xbf16>
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @store(
// CHECK-SAME:    %[[V:.*]]: vector<64x128xbf16>, %[[R:.*]]: vector<64xf32>, %[[O:.*]]: memref<?x32x?x128xbf16>, %[[L:.*]]: memref<?xf32>, %[[I:.*]]: index)
// CHECK-NEXT:    attn_tile.store %[[V]], %[[O]][%[[I]], %[[I]], %[[I]], %[[I]]] : vector<64x128xbf16>, memref<?x32x?x128xbf16>
// CHECK-NEXT:    attn_tile.store %[[V]], %[[O]][%[[I]], %[[I]], %[[I]], %[[I]]] transposed : vector<64x128xbf16>, memref<?x32x?x128xbf16>
// CHECK-NEXT:    attn_tile.store %[[R]], %[[L]][%[[I]]] : vector<64xf32>, memref<?xf32>
attn_tile.kernel @store(%v: vector<64x128xbf16>, %r: vector<64xf32>,
                        %out: memref<?x32x?x128xbf16>, %lse: memref<?xf32>, %i: index) {
  attn_tile.store %v, %out[%i, %i, %i, %i]
      : vector<64x128xbf16>, memref<?x32x?x128xbf16>
  attn_tile.store %v, %out[%i, %i, %i, %i] transposed
      : vector<64x128xbf16>, memref<?x32x?x128xbf16>
  attn_tile.store %r, %lse[%i] : vector<64xf32>, memref<?xf32>
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @packed(
// CHECK-SAME:    %[[V:.*]]: vector<64x16xf32>, %[[M:.*]]: memref<?x?x64xf32>, %[[I:.*]]: index)
// CHECK-NEXT:    attn_tile.bulk_reduce_add %[[V]] to %[[M]][%[[I]], %[[I]], %[[I]]] : vector<64x16xf32> to memref<?x?x64xf32>
// CHECK-NEXT:    %[[P:.*]] = attn_tile.create_pipe
// CHECK-NEXT:    %[[B:.*]] = attn_tile.stage_fragments %[[V]] in %[[P]] : vector<64x16xf32>, <64x16xf32, stages = 1>
// CHECK-NEXT:    attn_tile.bulk_reduce_add %[[B]] to %[[M]][%[[I]], %[[I]], %[[I]]] : !attn_tile.buffer<64x16xf32> to memref<?x?x64xf32>
// CHECK-NEXT:    attn_tile.store_fragments %[[V]] to %[[M]][%[[I]], %[[I]], %[[I]]] : vector<64x16xf32> to memref<?x?x64xf32>
// CHECK-NEXT:    attn_tile.load_fragments %[[M]][%[[I]], %[[I]], %[[I]]] : memref<?x?x64xf32> to vector<64x16xf32>
attn_tile.kernel @packed(%v: vector<64x16xf32>, %m: memref<?x?x64xf32>, %i: index) {
  attn_tile.bulk_reduce_add %v to %m[%i, %i, %i] : vector<64x16xf32> to memref<?x?x64xf32>
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x16xf32, stages = 1>
  %b = attn_tile.stage_fragments %v in %p : vector<64x16xf32>, !attn_tile.pipe<64x16xf32, stages = 1>
  attn_tile.bulk_reduce_add %b to %m[%i, %i, %i] : !attn_tile.buffer<64x16xf32> to memref<?x?x64xf32>
  attn_tile.store_fragments %v to %m[%i, %i, %i] : vector<64x16xf32> to memref<?x?x64xf32>
  %0 = attn_tile.load_fragments %m[%i, %i, %i] : memref<?x?x64xf32> to vector<64x16xf32>
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @turns(
// CHECK-SAME:    %[[V:.*]]: vector<64x16xf32>, %[[M:.*]]: memref<?x?x64xf32>, %[[C:.*]]: memref<?x?xi32>, %[[I:.*]]: index)
// CHECK-NEXT:    attn_tile.bulk_reduce_add %[[V]] to %[[M]][%[[I]], %[[I]], %[[I]]] ordered(%[[I]] of %[[C]][%[[I]], %[[I]]])
// CHECK-SAME:        {{^}} : vector<64x16xf32> to memref<?x?x64xf32>, memref<?x?xi32>
// CHECK-NEXT:    %[[P:.*]] = attn_tile.create_pipe
// CHECK-NEXT:    %[[B:.*]] = attn_tile.stage_fragments %[[V]] in %[[P]][%[[I]]] : vector<64x16xf32>, <64x16xf32, stages = 1>
// CHECK-NEXT:    attn_tile.commit_fragments %[[B]] in %[[P]][%[[I]]] : <64x16xf32, stages = 1>
// CHECK-NEXT:    attn_tile.auxiliary_warps {
// CHECK-NEXT:      attn_tile.ordered_reduce_add %[[P]][%[[I]]] to %[[M]][%[[I]], %[[I]], %[[I]]] ordered(%[[I]] of %[[C]][%[[I]], %[[I]]])
// CHECK-SAME:          {{^}} : <64x16xf32, stages = 1> to memref<?x?x64xf32>, memref<?x?xi32>
attn_tile.kernel @turns(%v: vector<64x16xf32>, %m: memref<?x?x64xf32>, %c: memref<?x?xi32>, %i: index) {
  attn_tile.bulk_reduce_add %v to %m[%i, %i, %i] ordered(%i of %c[%i, %i]) : vector<64x16xf32> to memref<?x?x64xf32>, memref<?x?xi32>
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x16xf32, stages = 1>
  %b = attn_tile.stage_fragments %v in %p[%i] : vector<64x16xf32>, !attn_tile.pipe<64x16xf32, stages = 1>
  attn_tile.commit_fragments %b in %p[%i] : !attn_tile.pipe<64x16xf32, stages = 1>
  attn_tile.auxiliary_warps {
    attn_tile.ordered_reduce_add %p[%i] to %m[%i, %i, %i] ordered(%i of %c[%i, %i])
        : !attn_tile.pipe<64x16xf32, stages = 1> to memref<?x?x64xf32>, memref<?x?xi32>
  }
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @counters(
// CHECK-SAME:    %[[M:.*]]: memref<?x?x64xf32>, %[[D:.*]]: memref<?x64xbf16>, %[[C:.*]]: memref<?x2xi32>, %[[I:.*]]: index)
// CHECK-NEXT:    attn_tile.auxiliary_warps registers(40) {
// CHECK-NEXT:      attn_tile.semaphore_wait %[[C]][%[[I]], %[[I]]] to(%[[I]]) : memref<?x2xi32>
// CHECK-NEXT:      attn_tile.convert_dq %[[M]][%[[I]], %[[I]], %[[I]]] to %[[D]][%[[I]], %[[I]]] part(%[[I]] of 4) times 1.250000e-01 transposed
// CHECK-SAME:          {{^}} : vector<64x16xf32> in memref<?x?x64xf32> to memref<?x64xbf16>
// CHECK-NEXT:      attn_tile.convert_dq {{.*}} part(%[[I]] of 1) times 2.000000e+00 : vector<16x64xf32>
// CHECK-NEXT:      attn_tile.semaphore_add %[[C]][%[[I]], %[[I]]] : memref<?x2xi32>
// CHECK-NEXT:    }
attn_tile.kernel @counters(%m: memref<?x?x64xf32>, %d: memref<?x64xbf16>, %c: memref<?x2xi32>, %i: index) {
  attn_tile.auxiliary_warps registers(40) {
    attn_tile.semaphore_wait %c[%i, %i] to(%i) : memref<?x2xi32>
    attn_tile.convert_dq %m[%i, %i, %i] to %d[%i, %i] part(%i of 4) times 0.125 transposed
        : vector<64x16xf32> in memref<?x?x64xf32> to memref<?x64xbf16>
    attn_tile.convert_dq %m[%i, %i, %i] to %d[%i, %i] part(%i of 1) times 2.0
        : vector<16x64xf32> in memref<?x?x64xf32> to memref<?x64xbf16>
    attn_tile.semaphore_add %c[%i, %i] : memref<?x2xi32>
  }
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @complete(
// CHECK-SAME:    %[[C:.*]]: memref<?x2xi32>, %[[I:.*]]: index)
// CHECK-NEXT:    %[[P:.*]] = attn_tile.create_pipe
// CHECK-NEXT:    attn_tile.auxiliary_warps registers(40) {
// CHECK-NEXT:    }
// CHECK-NEXT:    attn_tile.auxiliary_warps warps(1) registers(40) {
// CHECK-NEXT:      attn_tile.semaphore_add %[[C]][%[[I]], %[[I]]] of additions after(%[[P]][%[[I]]]) : memref<?x2xi32>, !attn_tile.pipe<64x16xf32, stages = 1>
// CHECK-NEXT:    }
// CHECK-NEXT:    attn_tile.role consumer
// CHECK-NEXT:      attn_tile.semaphore_release %[[P]] : <64x16xf32, stages = 1>
attn_tile.kernel @complete(%c: memref<?x2xi32>, %i: index) {
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x16xf32, stages = 1>
  attn_tile.auxiliary_warps registers(40) {
  }
  attn_tile.auxiliary_warps warps(1) registers(40) {
    attn_tile.semaphore_add %c[%i, %i] of additions after(%p[%i]) : memref<?x2xi32>, !attn_tile.pipe<64x16xf32, stages = 1>
  }
  attn_tile.role consumer warpgroups(1) registers(240) {
    attn_tile.semaphore_release %p : !attn_tile.pipe<64x16xf32, stages = 1>
  }
  attn_tile.return
}

// CHECK-LABEL: func.func @together(
// CHECK:         attn_tile.launch @counters together grid(
func.func @together(%m: memref<?x?x64xf32>, %d: memref<?x64xbf16>, %c: memref<?x2xi32>, %i: index) {
  attn_tile.launch @counters together grid(%i, %i, %i) ctas_per_sm(1) args(%m, %d, %c, %i
      : memref<?x?x64xf32>, memref<?x64xbf16>, memref<?x2xi32>, index)
  return
}

// CHECK-LABEL: attn_tile.kernel @convert_through_pipe(
// CHECK-SAME:    %[[I:.*]]: index, %[[N:.*]]: index)
// CHECK:         attn_tile.auxiliary_warps
// CHECK:           %[[B:.*]] = attn_tile.wait
// CHECK-NEXT:      attn_tile.convert %[[B]] to %[[P:.*]][%[[I]]] : <64x32xf8E4M3FN>, <64x32xbf16, stages = 1>
// CHECK:         attn_tile.role  consumer
// CHECK:           %[[ROWS:.*]] = attn_tile.has_rows below(%[[N]])
// CHECK:           scf.if %[[ROWS]]
// CHECK:             attn_tile.convert %{{.*}} to %{{.*}}[%[[I]]] within(%[[I]] of %[[N]]) from warp 1 : <64x32xf8E4M3FN>, <64x32xbf16, stages = 1>
attn_tile.kernel @convert_through_pipe(%i: index, %n: index) {
  %k = attn_tile.create_pipe : !attn_tile.pipe<64x32xf8E4M3FN, stages = 2>
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x32xbf16, stages = 1>
  %x = attn_tile.create_pipe : !attn_tile.pipe<64x32xbf16, stages = 1>
  attn_tile.auxiliary_warps {
    %b = attn_tile.wait %k[%i] : !attn_tile.pipe<64x32xf8E4M3FN, stages = 2>
    attn_tile.convert %b to %p[%i] : !attn_tile.buffer<64x32xf8E4M3FN>, !attn_tile.pipe<64x32xbf16, stages = 1>
    attn_tile.release %b : !attn_tile.buffer<64x32xf8E4M3FN>
  }
  attn_tile.role consumer warpgroups(1) registers(168) {
    %b = attn_tile.wait %k[%i] : !attn_tile.pipe<64x32xf8E4M3FN, stages = 2>
    %h = attn_tile.has_rows below(%n)
    scf.if %h {
      attn_tile.convert %b to %x[%i] within(%i of %n) from warp 1
          : !attn_tile.buffer<64x32xf8E4M3FN>, !attn_tile.pipe<64x32xbf16, stages = 1>
    }
    attn_tile.release %b : !attn_tile.buffer<64x32xf8E4M3FN>
  }
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @convert(
// CHECK-SAME:    %[[I:.*]]: index, %[[N:.*]]: index)
// CHECK:         %[[B:.*]] = attn_tile.wait
// CHECK:         %[[C:.*]] = attn_tile.local_convert %[[B]] in %[[P:.*]][%[[I]]] : <64x32xf8E4M3FN>, <64x32xbf16, stages = 1>
// CHECK:         attn_tile.local_convert %[[B]] in %[[P]][%[[I]]] within(%[[I]] of %[[N]]) : <64x32xf8E4M3FN>, <64x32xbf16, stages = 1>
// CHECK:         attn_tile.mma_start %[[C]], %[[C]] transpose_rhs
attn_tile.kernel @convert(%i: index, %n: index) {
  %k = attn_tile.create_pipe : !attn_tile.pipe<64x32xf8E4M3FN, stages = 2>
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x32xbf16, stages = 1>
  %b = attn_tile.wait %k[%i] : !attn_tile.pipe<64x32xf8E4M3FN, stages = 2>
  %c = attn_tile.local_convert %b in %p[%i] : !attn_tile.buffer<64x32xf8E4M3FN>, !attn_tile.pipe<64x32xbf16, stages = 1>
  %d = attn_tile.local_convert %b in %p[%i] within(%i of %n)
      : !attn_tile.buffer<64x32xf8E4M3FN>, !attn_tile.pipe<64x32xbf16, stages = 1>
  %s = attn_tile.mma_start %c, %c transpose_rhs
      : !attn_tile.buffer<64x32xbf16>, !attn_tile.buffer<64x32xbf16>
      -> !attn_tile.pending<vector<64x64xf32>>
  %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<64x64xf32>>
  attn_tile.release %b : !attn_tile.buffer<64x32xf8E4M3FN>
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @share(
// CHECK-SAME:    %[[V:.*]]: vector<64x16xbf16>, %[[I:.*]]: index)
// CHECK:         %[[B:.*]] = attn_tile.local_store %[[V]] in %{{.*}}[%[[I]]] : vector<64x16xbf16>, <64x16xbf16, stages = 2>
// CHECK:         attn_tile.local_store %[[V]] in %{{.*}}[%[[I]]] from(16) : vector<64x16xbf16>, <64x32xbf16, stages = 2>
// CHECK-NEXT:    attn_tile.mma_start %[[B]], %[[B]] transpose_lhs : !attn_tile.buffer<64x16xbf16>, <64x16xbf16> -> !attn_tile.pending<vector<16x16xf32>>
// CHECK:         attn_tile.mma_start %[[B]], %[[B]] transpose_lhs first_row(8) : !attn_tile.buffer<64x16xbf16>, <64x16xbf16>
// CHECK-SAME:        {{^}} -> !attn_tile.pending<vector<8x16xf32>>
// CHECK:         attn_tile.mma_start %[[B]], %[[B]] transpose_lhs first_column(8) : !attn_tile.buffer<64x16xbf16>, <64x16xbf16>
// CHECK-SAME:        {{^}} -> !attn_tile.pending<vector<16x8xf32>>
// CHECK:         attn_tile.mma_start %[[B]], %[[B]] transpose_lhs consumer_columns : !attn_tile.buffer<64x16xbf16>, <64x16xbf16>
// CHECK-SAME:        {{^}} -> !attn_tile.pending<vector<16x8xf32>>
attn_tile.kernel @share(%v: vector<64x16xbf16>, %i: index) {
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x16xbf16, stages = 2>
  %b = attn_tile.local_store %v in %p[%i] : vector<64x16xbf16>, !attn_tile.pipe<64x16xbf16, stages = 2>
  %w = attn_tile.create_pipe : !attn_tile.pipe<64x32xbf16, stages = 2>
  %c = attn_tile.local_store %v in %w[%i] from(16) : vector<64x16xbf16>, !attn_tile.pipe<64x32xbf16, stages = 2>
  %s = attn_tile.mma_start %b, %b transpose_lhs
      : !attn_tile.buffer<64x16xbf16>, !attn_tile.buffer<64x16xbf16>
      -> !attn_tile.pending<vector<16x16xf32>>
  %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<16x16xf32>>
  %s1 = attn_tile.mma_start %b, %b transpose_lhs first_row(8)
      : !attn_tile.buffer<64x16xbf16>, !attn_tile.buffer<64x16xbf16>
      -> !attn_tile.pending<vector<8x16xf32>>
  %r1 = attn_tile.mma_wait %s1 : !attn_tile.pending<vector<8x16xf32>>
  %s2 = attn_tile.mma_start %b, %b transpose_lhs first_column(8)
      : !attn_tile.buffer<64x16xbf16>, !attn_tile.buffer<64x16xbf16>
      -> !attn_tile.pending<vector<16x8xf32>>
  %r2 = attn_tile.mma_wait %s2 : !attn_tile.pending<vector<16x8xf32>>
  %s3 = attn_tile.mma_start %b, %b transpose_lhs consumer_columns
      : !attn_tile.buffer<64x16xbf16>, !attn_tile.buffer<64x16xbf16>
      -> !attn_tile.pending<vector<16x8xf32>>
  %r3 = attn_tile.mma_wait %s3 : !attn_tile.pending<vector<16x8xf32>>
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @consumers(
// CHECK-SAME:    %[[V:.*]]: vector<64x16xbf16>)
// CHECK-NEXT:    %consumer = attn_tile.consumer_id{{$}}
// CHECK-NEXT:    attn_tile.consumer_columns %[[V]] : vector<64x16xbf16> -> vector<64x8xbf16>
attn_tile.kernel @consumers(%v: vector<64x16xbf16>) {
  %w = attn_tile.consumer_id
  %c = attn_tile.consumer_columns %v : vector<64x16xbf16> -> vector<64x8xbf16>
  attn_tile.return
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

// CHECK-LABEL: attn_tile.kernel @key_tiles(
// CHECK-SAME:    %[[B:.*]]: index, %[[H:.*]]: index, %[[I:.*]]: index, %[[SQ:.*]]: index, %[[SKV:.*]]: index)
// CHECK-NEXT:    %[[TILES:.*]], %masked, %count = attn_tile.kv_tile_iterator at(%[[B]], %[[H]]) queries(%[[I]], 128) keys(176) lengths(%[[SQ]], %[[SKV]]){{$}}
// CHECK-NEXT:    %tile = attn_tile.kv_tile_at %[[TILES]][%masked]
// CHECK-NEXT:    attn_tile.kv_tile_iterator at(%[[B]], %[[H]]) queries(%[[I]], 128) keys(176) lengths(%[[SQ]], %[[SKV]]) by(#attn.causal){{$}}
// CHECK-NEXT:    attn_tile.kv_tile_iterator at(%[[B]], %[[H]]) queries(%[[I]], 128) keys(176) lengths(%[[SQ]], %[[SKV]]) mask_mod {
// CHECK-NEXT:    ^bb0(%b: index, %h: index, %i: index, %j: index):
// CHECK-NEXT:      arith.cmpi
// CHECK-NEXT:      attn_tile.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    attn_tile.kv_tile_iterator at(%[[B]], %[[H]]) queries(%[[I]], 128) keys(176) lengths(%[[SQ]], %[[SKV]])
// CHECK-SAME:        {{^}} by(#attn.sliding_window<left = 64>) mask_mod {
attn_tile.kernel @key_tiles(%batch: index, %head: index, %first: index, %sq: index, %skv: index) {
  %0:3 = attn_tile.kv_tile_iterator at(%batch, %head) queries(%first, 128) keys(176) lengths(%sq, %skv)
  %tile = attn_tile.kv_tile_at %0#0[%0#1]
  %1:3 = attn_tile.kv_tile_iterator at(%batch, %head) queries(%first, 128) keys(176) lengths(%sq, %skv)
      by(#attn.causal)
  %2:3 = attn_tile.kv_tile_iterator at(%batch, %head) queries(%first, 128) keys(176) lengths(%sq, %skv) mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %keep = arith.cmpi ne, %i, %j : index
    attn_tile.yield %keep : i1
  }
  %3:3 = attn_tile.kv_tile_iterator at(%batch, %head) queries(%first, 128) keys(176) lengths(%sq, %skv)
      by(#attn.sliding_window<left = 64>) mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %keep = arith.cmpi ne, %h, %j : index
    attn_tile.yield %keep : i1
  }
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @map(
// CHECK-SAME:    %[[S:.*]]: vector<64x48xf32>, %[[B:.*]]: index, %[[H:.*]]: index, %[[I:.*]]: index, %[[J:.*]]: index, %[[SQ:.*]]: index, %[[SKV:.*]]: index)
// CHECK-NEXT:    attn_tile.map %[[S]] at(%[[B]], %[[H]], %[[I]], %[[J]]) lengths(%[[SQ]], %[[SKV]]) : vector<64x48xf32> {
// CHECK-NEXT:    ^bb0(%[[X:x.*]]: f32, %{{b.*}}: index, %{{h.*}}: index, %{{i.*}}: index, %{{j.*}}: index):
// CHECK-NEXT:      %[[Y:.*]] = math.tanh %[[X]] : f32
// CHECK-NEXT:      attn_tile.yield %[[Y]] : f32
// CHECK-NEXT:    }
attn_tile.kernel @map(%s: vector<64x48xf32>, %b0: index, %h0: index, %i0: index,
                      %j0: index, %sq: index, %skv: index) {
  %r = attn_tile.map %s at(%b0, %h0, %i0, %j0) lengths(%sq, %skv) : vector<64x48xf32> {
  ^bb0(%e: f32, %batch: index, %head: index, %query: index, %key: index):
    %y = math.tanh %e : f32
    attn_tile.yield %y : f32
  }
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @map_two(
// CHECK-SAME:    %[[S:.*]]: vector<64x48xf32>, %[[T:.*]]: vector<64x48xf32>, %[[C:.*]]: index)
// CHECK-NEXT:    attn_tile.map %[[S]], %[[T]] at(%[[C]], %[[C]], %[[C]], %[[C]]) lengths(%[[C]], %[[C]]) transposed : vector<64x48xf32> {
// CHECK-NEXT:    ^bb0(%[[X:x.*]]: f32, %[[Y:x.*]]: f32, %{{b.*}}: index, %{{h.*}}: index, %{{i.*}}: index, %{{j.*}}: index):
attn_tile.kernel @map_two(%s: vector<64x48xf32>, %t: vector<64x48xf32>, %c: index) {
  %r = attn_tile.map %s, %t at(%c, %c, %c, %c) lengths(%c, %c) transposed : vector<64x48xf32> {
  ^bb0(%e: f32, %f: f32, %batch: index, %head: index, %query: index, %key: index):
    %y = arith.mulf %e, %f : f32
    attn_tile.yield %y : f32
  }
  %m = attn_tile.mask %r at(%c, %c, %c, %c) lengths(%c, %c) by(#attn.causal) transposed : vector<64x48xf32>
  // CHECK: attn_tile.mask %{{.*}} lengths(%[[C]], %[[C]]) by(#attn.causal) transposed : vector<64x48xf32>
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @map_with(
// CHECK-SAME:    %[[S:.*]]: vector<64x48xf32>, %[[T:.*]]: vector<64x48xbf16>, %[[R:.*]]: vector<64xf32>, %[[I:.*]]: index)
// CHECK-NEXT:    attn_tile.map %[[S]] at(%[[I]], %[[I]], %[[I]], %[[I]]) lengths(%[[I]], %[[I]]) with(%[[T]], %[[R]] : vector<64x48xbf16>, vector<64xf32>)
// CHECK-SAME:        {{^}} : vector<64x48xf32> {
// CHECK-NEXT:    ^bb0(%x: f32, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %[[Y:.*]]: bf16, %[[Z:.*]]: f32):
// CHECK-NEXT:      attn_tile.yield %[[Z]] : f32
attn_tile.kernel @map_with(%s: vector<64x48xf32>, %t: vector<64x48xbf16>, %rows: vector<64xf32>, %c: index) {
  %r = attn_tile.map %s at(%c, %c, %c, %c) lengths(%c, %c) with(%t, %rows : vector<64x48xbf16>, vector<64xf32>) : vector<64x48xf32> {
  ^bb0(%e: f32, %batch: index, %head: index, %query: index, %key: index, %y: bf16, %z: f32):
    attn_tile.yield %z : f32
  }
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @mask(
// CHECK-SAME:    %[[S:.*]]: vector<64x48xf32>, %[[C:.*]]: index, %[[SQ:.*]]: index, %[[SKV:.*]]: index)
// CHECK-NEXT:    %{{.*}} = attn_tile.mask %[[S]] at(%[[C]], %[[C]], %[[C]], %[[C]]) lengths(%[[SQ]], %[[SKV]]) : vector<64x48xf32>{{$}}
// CHECK-NEXT:    %{{.*}} = attn_tile.mask %[[S]] at(%[[C]], %[[C]], %[[C]], %[[C]]) lengths(%[[SQ]], %[[SKV]]) by(#attn.causal) : vector<64x48xf32>{{$}}
// CHECK-NEXT:    %{{.*}} = attn_tile.mask %[[S]] at(%[[C]], %[[C]], %[[C]], %[[C]]) lengths(%[[SQ]], %[[SKV]]) : vector<64x48xf32> mask_mod {
// CHECK-NEXT:    ^bb0(%{{b.*}}: index, %{{h.*}}: index, %[[I:i.*]]: index, %[[J:j.*]]: index):
// CHECK-NEXT:      %[[KEEP:.*]] = arith.cmpi sge, %[[I]], %[[J]] : index
// CHECK-NEXT:      attn_tile.yield %[[KEEP]] : i1
// CHECK-NEXT:    }
// CHECK-NEXT:    %{{.*}} = attn_tile.mask %[[S]] at(%[[C]], %[[C]], %[[C]], %[[C]]) lengths(%[[SQ]], %[[SKV]]) by(#attn.sliding_window<left = 64>)
// CHECK-SAME:        {{^}} : vector<64x48xf32> mask_mod {
attn_tile.kernel @mask(%s: vector<64x48xf32>, %c: index, %sq: index, %skv: index) {
  %0 = attn_tile.mask %s at(%c, %c, %c, %c) lengths(%sq, %skv) : vector<64x48xf32>
  %1 = attn_tile.mask %s at(%c, %c, %c, %c) lengths(%sq, %skv)
      by(#attn.causal) : vector<64x48xf32>
  %2 = attn_tile.mask %s at(%c, %c, %c, %c) lengths(%sq, %skv) : vector<64x48xf32> mask_mod {
  ^bb0(%batch: index, %head: index, %query: index, %key: index):
    %keep = arith.cmpi sge, %query, %key : index
    attn_tile.yield %keep : i1
  }
  %3 = attn_tile.mask %s at(%c, %c, %c, %c) lengths(%sq, %skv)
      by(#attn.sliding_window<left = 64>) : vector<64x48xf32> mask_mod {
  ^bb0(%batch: index, %head: index, %query: index, %key: index):
    %keep = arith.constant true
    attn_tile.yield %keep : i1
  }
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @rescale(
// CHECK-SAME:    %[[ACC:.*]]: vector<64x128xf32>, %[[F:.*]]: vector<64xf32>)
// CHECK-NEXT:    %{{.*}} = attn_tile.rescale %[[ACC]] by %[[F]] : vector<64x128xf32>, vector<64xf32>
attn_tile.kernel @rescale(%acc: vector<64x128xf32>, %alpha: vector<64xf32>) {
  %0 = attn_tile.rescale %acc by %alpha : vector<64x128xf32>, vector<64xf32>
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @invert_triangular(
// CHECK-SAME:    %[[A:.*]]: vector<64x64xf32>)
// CHECK-NEXT:    %{{.*}} = attn_tile.invert_triangular %[[A]] : vector<64x64xf32>
// CHECK-NEXT:    %[[P:.*]] = attn_tile.create_pipe : <64x64xf32, stages = 1>
// CHECK-NEXT:    %{{.*}} = attn_tile.invert_triangular %[[A]] in %[[P]] : vector<64x64xf32>, !attn_tile.pipe<64x64xf32, stages = 1>
attn_tile.kernel @invert_triangular(%a: vector<64x64xf32>) {
  %0 = attn_tile.invert_triangular %a : vector<64x64xf32>
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x64xf32, stages = 1>
  %1 = attn_tile.invert_triangular %a in %p : vector<64x64xf32>, !attn_tile.pipe<64x64xf32, stages = 1>
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @subtract_rows(
// CHECK-SAME:    %[[S:.*]]: vector<64x128xf32>, %[[M:.*]]: vector<64xf32>)
// CHECK-NEXT:    %{{.*}} = attn_tile.subtract_rows %[[M]] from %[[S]] : vector<64xf32>, vector<64x128xf32>
attn_tile.kernel @subtract_rows(%s: vector<64x128xf32>, %shift: vector<64xf32>) {
  %0 = attn_tile.subtract_rows %shift from %s : vector<64xf32>, vector<64x128xf32>
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @emulate_exp2(
// CHECK-SAME:    %[[S:.*]]: vector<64x128xf32>)
// CHECK-NEXT:    %{{.*}} = attn_tile.emulate_exp2 %[[S]] polynomials 4 : vector<64x128xf32>
attn_tile.kernel @emulate_exp2(%s: vector<64x128xf32>) {
  %0 = attn_tile.emulate_exp2 %s polynomials 4 : vector<64x128xf32>
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @partial_sum(
// CHECK-SAME:    %[[P:.*]]: vector<64x48xf32>, %[[L:.*]]: vector<64x8xf32>)
// CHECK-NEXT:    %{{.*}} = attn_tile.partial_sum %[[P]] into %[[L]] : vector<64x48xf32> into vector<64x8xf32>
attn_tile.kernel @partial_sum(%p: vector<64x48xf32>, %l: vector<64x8xf32>) {
  %0 = attn_tile.partial_sum %p into %l : vector<64x48xf32> into vector<64x8xf32>
  attn_tile.return
}

//===----------------------------------------------------------------------===//
// Pipes
//===----------------------------------------------------------------------===//

// CHECK-LABEL: attn_tile.kernel @create_pipe() {
// CHECK-NEXT:    attn_tile.create_pipe : <64x128xbf16, stages = 2>
// CHECK-NEXT:    attn_tile.create_pipe at(1024) : <64x128xbf16, stages = 2>
// CHECK-NEXT:    attn_tile.create_pipe barriers(0) : <64x128xbf16, stages = 2>
// CHECK-NEXT:    attn_tile.create_pipe at(1024) barriers(0) : <64x128xbf16, stages = 2>
attn_tile.kernel @create_pipe() {
  %0 = attn_tile.create_pipe : !attn_tile.pipe<64x128xbf16, stages = 2>
  %1 = attn_tile.create_pipe at(1024) : !attn_tile.pipe<64x128xbf16, stages = 2>
  %2 = attn_tile.create_pipe barriers(0) : !attn_tile.pipe<64x128xbf16, stages = 2>
  %3 = attn_tile.create_pipe at(1024) barriers(0)
      : !attn_tile.pipe<64x128xbf16, stages = 2>
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @fill(
// CHECK-SAME:    %[[K:.*]]: memref<?x8x?x128xbf16>, %[[M:.*]]: !attn_tile.tensor_map<4, 64x64xbf16>, %[[T:.*]]: index)
// CHECK-NEXT:    %[[PIPE:.*]] = attn_tile.create_pipe
// CHECK-NEXT:    %[[A:.*]] = attn_tile.acquire %[[PIPE]][%[[T]]] : <64x128xbf16, stages = 2>
// CHECK-NEXT:    attn_tile.copy %[[K]][%[[T]], %[[T]], %[[T]], %[[T]]] to %[[A]] : memref<?x8x?x128xbf16> to <64x128xbf16>
// CHECK-NEXT:    attn_tile.copy %[[M]][%[[T]], %[[T]], %[[T]], %[[T]]] to %[[A]] : !attn_tile.tensor_map<4, 64x64xbf16> to <64x128xbf16>
// CHECK-NEXT:    attn_tile.commit %[[A]] : <64x128xbf16>
// CHECK-NEXT:    %[[B:.*]] = attn_tile.wait %[[PIPE]][%[[T]]] : <64x128xbf16, stages = 2>
// CHECK-NEXT:    attn_tile.release %[[B]] : <64x128xbf16>
attn_tile.kernel @fill(%k: memref<?x8x?x128xbf16>,
                       %m: !attn_tile.tensor_map<4, 64x64xbf16>, %t: index) {
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<64x128xbf16, stages = 2>
  %a = attn_tile.acquire %pipe[%t] : !attn_tile.pipe<64x128xbf16, stages = 2>
  attn_tile.copy %k[%t, %t, %t, %t] to %a
      : memref<?x8x?x128xbf16> to !attn_tile.buffer<64x128xbf16>
  attn_tile.copy %m[%t, %t, %t, %t] to %a
      : !attn_tile.tensor_map<4, 64x64xbf16> to !attn_tile.buffer<64x128xbf16>
  attn_tile.commit %a : !attn_tile.buffer<64x128xbf16>
  %b = attn_tile.wait %pipe[%t] : !attn_tile.pipe<64x128xbf16, stages = 2>
  attn_tile.release %b : !attn_tile.buffer<64x128xbf16>
  attn_tile.return
}

// A buffer may be used in regions between where it is taken and given up.
// CHECK-LABEL: attn_tile.kernel @nested_use(
// CHECK:         %[[A:.*]] = attn_tile.acquire
// CHECK-NEXT:    scf.if
// CHECK-NEXT:      attn_tile.copy %{{.*}} to %[[A]]
// CHECK-NEXT:    }
// CHECK-NEXT:    attn_tile.commit %[[A]]
attn_tile.kernel @nested_use(%k: memref<?x128xbf16>, %t: index, %b: i1) {
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<64x128xbf16, stages = 2>
  %a = attn_tile.acquire %pipe[%t] : !attn_tile.pipe<64x128xbf16, stages = 2>
  scf.if %b {
    attn_tile.copy %k[%t, %t] to %a
        : memref<?x128xbf16> to !attn_tile.buffer<64x128xbf16>
  }
  attn_tile.commit %a : !attn_tile.buffer<64x128xbf16>
  attn_tile.return
}

// CHECK-LABEL: func @make_tensor_map(
// CHECK-SAME:    %[[K:.*]]: memref<?x8x?x128xbf16>)
// CHECK-NEXT:    %{{.*}} = attn_tile.make_tensor_map %[[K]] : memref<?x8x?x128xbf16> -> <4, 176x64xbf16>
func.func @make_tensor_map(%k: memref<?x8x?x128xbf16>) {
  %m = attn_tile.make_tensor_map %k
      : memref<?x8x?x128xbf16> -> !attn_tile.tensor_map<4, 176x64xbf16>
  return
}

//===----------------------------------------------------------------------===//
// Matmuls
//===----------------------------------------------------------------------===//

// CHECK-LABEL: attn_tile.kernel @products(
// CHECK-SAME:    %[[P:.*]]: vector<64x176xbf16>, %[[O:.*]]: vector<64x128xf32>, %[[ACC:.*]]: vector<64x176xf32>, %[[T:.*]]: index)
// CHECK:         %[[Q:.*]] = attn_tile.wait %{{.*}} : <64x128xbf16, stages = 1>
// CHECK-NEXT:    %[[K:.*]] = attn_tile.wait
// Both operands staged.
// CHECK-NEXT:    %[[R0:.*]] = attn_tile.mma_start %[[Q]], %[[K]] transpose_rhs : !attn_tile.buffer<64x128xbf16>, <176x128xbf16>
// CHECK-SAME:        {{^}} -> !attn_tile.pending<vector<64x176xf32>>
// CHECK-NEXT:    %[[R1:.*]] = attn_tile.mma_start %[[Q]], %[[K]] transpose_rhs acc %[[ACC]] : !attn_tile.buffer<64x128xbf16>, <176x128xbf16>
// CHECK-SAME:        {{^}} -> !attn_tile.pending<vector<64x176xf32>>
// The left-hand side in registers.
// CHECK-NEXT:    %[[R2:.*]] = attn_tile.mma_start %[[P]], %[[K]] : vector<64x176xbf16>, <176x128xbf16> -> !attn_tile.pending<vector<64x128xf32>>
// CHECK-NEXT:    %[[R3:.*]] = attn_tile.mma_start %[[P]], %[[K]] acc %[[O]] : vector<64x176xbf16>, <176x128xbf16> -> !attn_tile.pending<vector<64x128xf32>>
// CHECK-NEXT:    %{{.*}} = attn_tile.mma_wait %[[R0]] : <vector<64x176xf32>>
// CHECK-NEXT:    %{{.*}} = attn_tile.mma_wait %[[R1]] : <vector<64x176xf32>>
// CHECK-NEXT:    %{{.*}} = attn_tile.mma_wait %[[R2]] : <vector<64x128xf32>>
// CHECK-NEXT:    %{{.*}} = attn_tile.mma_wait %[[R3]] : <vector<64x128xf32>>
attn_tile.kernel @products(%p: vector<64x176xbf16>, %o: vector<64x128xf32>,
                           %acc: vector<64x176xf32>, %t: index) {
  %queries = attn_tile.create_pipe : !attn_tile.pipe<64x128xbf16, stages = 1>
  %keys = attn_tile.create_pipe : !attn_tile.pipe<176x128xbf16, stages = 2>
  %q = attn_tile.wait %queries[%t] : !attn_tile.pipe<64x128xbf16, stages = 1>
  %k = attn_tile.wait %keys[%t] : !attn_tile.pipe<176x128xbf16, stages = 2>
  %0 = attn_tile.mma_start %q, %k transpose_rhs
      : !attn_tile.buffer<64x128xbf16>, !attn_tile.buffer<176x128xbf16>
      -> !attn_tile.pending<vector<64x176xf32>>
  %1 = attn_tile.mma_start %q, %k transpose_rhs acc %acc
      : !attn_tile.buffer<64x128xbf16>, !attn_tile.buffer<176x128xbf16>
      -> !attn_tile.pending<vector<64x176xf32>>
  %2 = attn_tile.mma_start %p, %k
      : vector<64x176xbf16>, !attn_tile.buffer<176x128xbf16>
      -> !attn_tile.pending<vector<64x128xf32>>
  %3 = attn_tile.mma_start %p, %k acc %o
      : vector<64x176xbf16>, !attn_tile.buffer<176x128xbf16>
      -> !attn_tile.pending<vector<64x128xf32>>
  %4 = attn_tile.mma_wait %0 : !attn_tile.pending<vector<64x176xf32>>
  %5 = attn_tile.mma_wait %1 : !attn_tile.pending<vector<64x176xf32>>
  %6 = attn_tile.mma_wait %2 : !attn_tile.pending<vector<64x128xf32>>
  %7 = attn_tile.mma_wait %3 : !attn_tile.pending<vector<64x128xf32>>
  attn_tile.release %k : !attn_tile.buffer<176x128xbf16>
  attn_tile.release %q : !attn_tile.buffer<64x128xbf16>
  attn_tile.return
}

// An MMA in flight may be carried to where it is waited for.
// CHECK-LABEL: attn_tile.kernel @carried(
// CHECK:       ^[[NEXT:.*]](%[[S:.*]]: !attn_tile.pending<vector<64x128xf32>>):
// CHECK-NEXT:    attn_tile.mma_wait %[[S]] : <vector<64x128xf32>>
attn_tile.kernel @carried(%p: vector<64x176xbf16>, %b: !attn_tile.buffer<176x128xbf16>) {
  %0 = attn_tile.mma_start %p, %b
      : vector<64x176xbf16>, !attn_tile.buffer<176x128xbf16>
      -> !attn_tile.pending<vector<64x128xf32>>
  cf.br ^next(%0 : !attn_tile.pending<vector<64x128xf32>>)
^next(%s: !attn_tile.pending<vector<64x128xf32>>):
  %1 = attn_tile.mma_wait %s : !attn_tile.pending<vector<64x128xf32>>
  attn_tile.return
}

//===----------------------------------------------------------------------===//
// Roles
//===----------------------------------------------------------------------===//

// CHECK-LABEL: attn_tile.kernel @roles() {
// CHECK-NEXT:    attn_tile.role producer warpgroups(1) registers(24) {
// CHECK-NEXT:    }
// CHECK-NEXT:    attn_tile.role consumer warpgroups(2) registers(256) attributes {attn.note} {
// CHECK-NEXT:      attn_tile.pingpong_wait
// CHECK-NEXT:      attn_tile.pingpong_arrive
// CHECK-NEXT:    }
attn_tile.kernel @roles() {
  attn_tile.role producer warpgroups(1) registers(24) {
  }
  attn_tile.role consumer warpgroups(2) registers(256) attributes {attn.note} {
    attn_tile.pingpong_wait
    attn_tile.pingpong_arrive
  }
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @beside(
// CHECK-NEXT:    attn_tile.auxiliary_warps attributes {attn.note} {
// CHECK-NEXT:      %[[P:.*]] = attn_tile.program_id 0
// CHECK-NEXT:      attn_tile.thread_for to(%[[P]]) {
// CHECK:         attn_tile.return
attn_tile.kernel @beside(%list: memref<?xindex>) {
  attn_tile.auxiliary_warps attributes {attn.note} {
    %p = attn_tile.program_id 0
    attn_tile.thread_for to(%p) {
    ^bb0(%i: index):
      memref.store %i, %list[%i] : memref<?xindex>
      attn_tile.yield
    }
  }
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @joined(
// CHECK-NEXT:    attn_tile.auxiliary_warps registers(72) joined {
// CHECK-NEXT:      %[[N:.*]] = attn_tile.fetch_work_item
// CHECK-NEXT:      attn_tile.throughput_hint %[[N]] of %[[N]]
// CHECK-NEXT:      %{{.*}} = attn_tile.is_active_warp %[[N]]
// CHECK-NEXT:      attn_tile.thread_for to(%[[N]]) together(4) {
attn_tile.kernel @joined(%list: memref<?xindex>) {
  attn_tile.auxiliary_warps registers(72) joined {
    %n = attn_tile.fetch_work_item
    attn_tile.throughput_hint %n of %n
    %b = attn_tile.is_active_warp %n
    attn_tile.thread_for to(%n) together(4) {
    ^bb0(%i: index):
      memref.store %i, %list[%i] : memref<?xindex>
      attn_tile.yield
    }
  }
  attn_tile.return
}

// Turns may be taken in any part of a role.
// CHECK-LABEL: attn_tile.kernel @nested_order(
// CHECK:         attn_tile.role consumer
// CHECK-NEXT:      scf.if
// CHECK-NEXT:        attn_tile.pingpong_wait
// CHECK-NEXT:        attn_tile.pingpong_arrive
attn_tile.kernel @nested_order(%b: i1) {
  attn_tile.role consumer warpgroups(2) registers(240) {
    scf.if %b {
      attn_tile.pingpong_wait
      attn_tile.pingpong_arrive
    }
  }
  attn_tile.return
}

//===----------------------------------------------------------------------===//
// Scalars that threads share
//===----------------------------------------------------------------------===//

// CHECK-LABEL: attn_tile.kernel @scalars(
// CHECK-SAME:    %[[L:.*]]: memref<?xi32>, %[[N:.*]]: index)
// CHECK-NEXT:    %[[S:.*]]:2 = attn_tile.reduce to(%[[N]]) by [#vector.kind<add>, #vector.kind<maxsi>] : index, index {
// CHECK-NEXT:    ^bb0(%i: index):
// CHECK-NEXT:      attn_tile.yield %i, %[[N]] : index, index
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[M:.*]] = attn_tile.assume_upper_bound %[[S]]#0, %[[N]]
// CHECK-NEXT:    attn_tile.thread_for to(%[[M]]) {
// CHECK-NEXT:    ^bb0(%i: index):
// CHECK-NEXT:      %{{.*}} = memref.load %[[L]][%i] : memref<?xi32>
// CHECK-NEXT:      attn_tile.yield
// CHECK-NEXT:    }
attn_tile.kernel @scalars(%l: memref<?xi32>, %n: index) {
  %s:2 = attn_tile.reduce to(%n) by [#vector.kind<add>, #vector.kind<maxsi>] : index, index {
  ^bb0(%i: index):
    attn_tile.yield %i, %n : index, index
  }
  %m = attn_tile.assume_upper_bound %s#0, %n
  attn_tile.thread_for to(%m) {
  ^bb0(%i: index):
    %x = memref.load %l[%i] : memref<?xi32>
    attn_tile.yield
  }
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @compact(
// CHECK-SAME:    %[[L:.*]]: memref<?xindex>, %[[N:.*]]: index)
// CHECK-NEXT:    %{{.*}} = attn_tile.warp_compact to(%[[N]]) where {
// CHECK-NEXT:    ^bb0(%i: index):
// CHECK-NEXT:      %[[C:.*]] = arith.cmpi eq, %i, %[[N]] : index
// CHECK-NEXT:      attn_tile.yield %[[C]] : i1
// CHECK-NEXT:    } do {
// CHECK-NEXT:    ^bb0(%i: index, %rank: index):
// CHECK-NEXT:      memref.store %i, %[[L]][%rank] : memref<?xindex>
// CHECK-NEXT:      attn_tile.yield
// CHECK-NEXT:    }
attn_tile.kernel @compact(%l: memref<?xindex>, %n: index) {
  %m = attn_tile.warp_compact to(%n) where {
  ^bb0(%i: index):
    %c = arith.cmpi eq, %i, %n : index
    attn_tile.yield %c : i1
  } do {
  ^bb0(%i: index, %rank: index):
    memref.store %i, %l[%rank] : memref<?xindex>
    attn_tile.yield
  }
  attn_tile.return
}

// CHECK-LABEL: func @error_flag(
// CHECK-NEXT:    %{{.*}} = attn_tile.error_flag : memref<1xi32>
func.func @error_flag() {
  %0 = attn_tile.error_flag : memref<1xi32>
  return
}

// Rows of sequences.
// CHECK-LABEL: attn_tile.kernel @sequences(
// CHECK-SAME:    %[[A:.*]]: memref<?x16xf16>, %[[I:.*]]: index, %[[N:.*]]: index)
// CHECK-NEXT:    %[[V:.*]] = attn_tile.load %[[A]][%[[I]], %[[I]]] within(%[[I]] of %[[N]]) stream(%[[I]] of %[[N]]) : memref<?x16xf16> -> vector<8x16xf16>
// CHECK-NEXT:    attn_tile.store %[[V]], %[[A]][%[[I]], %[[I]]] within(%[[I]] of %[[N]]) : vector<8x16xf16>, memref<?x16xf16>
// CHECK-NEXT:    attn_tile.store %[[V]], %[[A]][%[[I]], %[[I]]] within(%[[I]] of %[[N]]) transposed : vector<8x16xf16>, memref<?x16xf16>
// CHECK-NEXT:    %[[P:.*]] = attn_tile.create_pipe
// CHECK-NEXT:    %[[B:.*]] = attn_tile.wait %[[P]][%[[I]]]
// CHECK-NEXT:    attn_tile.clear %[[B]] within(%[[I]] of %[[N]]) : <8x16xf16>
attn_tile.kernel @sequences(%a: memref<?x16xf16>, %i: index, %n: index) {
  %v = attn_tile.load %a[%i, %i] within(%i of %n) stream(%i of %n) : memref<?x16xf16> -> vector<8x16xf16>
  attn_tile.store %v, %a[%i, %i] within(%i of %n) : vector<8x16xf16>, memref<?x16xf16>
  attn_tile.store %v, %a[%i, %i] within(%i of %n) transposed : vector<8x16xf16>, memref<?x16xf16>
  %p = attn_tile.create_pipe : !attn_tile.pipe<8x16xf16, stages = 1>
  %b = attn_tile.wait %p[%i] : !attn_tile.pipe<8x16xf16, stages = 1>
  attn_tile.clear %b within(%i of %n) : !attn_tile.buffer<8x16xf16>
  attn_tile.release %b : !attn_tile.buffer<8x16xf16>
  attn_tile.return
}

// What all that was read has a part in orders the release.
// CHECK-LABEL: attn_tile.kernel @release_after(
// CHECK:         %[[B:.*]] = attn_tile.wait
// CHECK-NEXT:    %[[T:.*]] = attn_tile.read %[[B]]
// CHECK-NEXT:    %[[M:.*]] = vector.multi_reduction <maxnumf>, %[[T]]
// CHECK-NEXT:    attn_tile.release %[[B]] after(%[[M]] : vector<64xf32>) : <64x32xf32>
attn_tile.kernel @release_after(%i: index, %least: vector<64xf32>) {
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x32xf32, stages = 1>
  %b = attn_tile.wait %p[%i] : !attn_tile.pipe<64x32xf32, stages = 1>
  %t = attn_tile.read %b : !attn_tile.buffer<64x32xf32> -> vector<64x32xf32>
  %m = vector.multi_reduction <maxnumf>, %t, %least [1] : vector<64x32xf32> to vector<64xf32>
  attn_tile.release %b after(%m : vector<64xf32>) : !attn_tile.buffer<64x32xf32>
  attn_tile.return
}

// CHECK-LABEL: func @listed_tiles(
// CHECK: attn_tile.kv_tile_iterator at(%[[I:.*]], %[[I]]) queries(%[[I]], 64) keys(64) lengths(%[[I]], %[[I]])
// CHECK-SAME:     {{^}} listed(%{{.*}}[%[[I]], %[[I]], %[[I]]] : memref<?x1x?x?xi32>)
func.func @listed_tiles(%i: index, %list: memref<?x1x?x?xi32>) {
  %0:3 = attn_tile.kv_tile_iterator at(%i, %i) queries(%i, 64) keys(64) lengths(%i, %i)
      listed(%list[%i, %i, %i] : memref<?x1x?x?xi32>)
  return
}

// CHECK-LABEL: func @shared_tiles(
// CHECK-SAME: %[[I:.*]]: index, %[[P:.*]]: index, %[[N:.*]]: index)
// CHECK: %[[TILES:.*]], %masked, %count = attn_tile.kv_tile_iterator at(%[[I]], %[[I]]) queries(%[[I]], 64) keys(64) lengths(%[[I]], %[[I]])
// CHECK-SAME:     {{^}} split(%[[P]] of %[[N]])
// CHECK: attn_tile.is_split_empty %[[TILES]]
func.func @shared_tiles(%i: index, %p: index, %n: index) -> i1 {
  %0:3 = attn_tile.kv_tile_iterator at(%i, %i) queries(%i, 64) keys(64) lengths(%i, %i) split(%p of %n)
  %1 = attn_tile.is_split_empty %0#0
  return %1 : i1
}

// CHECK-LABEL: func @dropout(
// CHECK-SAME: %[[P:.*]]: vector<16x32xbf16>, %[[M:.*]]: memref<?x4x?x?xi32>, %[[I:.*]]: index, %[[W:.*]]: i32)
// CHECK: %[[D:.*]] = attn_tile.generate_keep_mask at(%[[I]], %[[I]]) stream(%[[W]], %[[W]], %[[W]], %[[W]]) by(<p = 5.000000e-01, rng = #attn.arx>) : <16x32>
// CHECK: %[[K:.*]] = attn_tile.dropout %[[P]] by %[[D]] below_two : vector<16x32xbf16>, <16x32>
// CHECK: %[[L:.*]] = attn_tile.load_keep_mask %[[M]][%[[I]], %[[I]]] columns at(%[[I]], %[[I]]) : memref<?x4x?x?xi32> -> <16x32, transposed>
// CHECK: %[[DROPPED:.*]] = attn_tile.dropout %[[K]] by %[[L]] : vector<16x32xbf16>, <16x32, transposed>
// CHECK: %[[A:.*]] = attn_tile.load_keep_mask %[[M]][%[[I]], %[[I]]] rows at(%[[I]], %[[I]]) : memref<?x4x?x?xi32> -> <16x32, whole>
// CHECK: attn_tile.dropout %[[DROPPED]] by %[[A]] : vector<16x32xbf16>, <16x32, whole>
func.func @dropout(%p: vector<16x32xbf16>, %m: memref<?x4x?x?xi32>, %i: index, %w: i32) -> vector<16x32xbf16> {
  %d = attn_tile.generate_keep_mask at(%i, %i) stream(%w, %w, %w, %w)
      by(#attn.dropout<p = 0.5, rng = #attn.arx>) : !attn_tile.keep_mask<16x32>
  %0 = attn_tile.dropout %p by %d below_two : vector<16x32xbf16>, !attn_tile.keep_mask<16x32>
  %l = attn_tile.load_keep_mask %m[%i, %i] columns at(%i, %i)
      : memref<?x4x?x?xi32> -> !attn_tile.keep_mask<16x32, transposed>
  %1 = attn_tile.dropout %0 by %l : vector<16x32xbf16>, !attn_tile.keep_mask<16x32, transposed>
  %a = attn_tile.load_keep_mask %m[%i, %i] rows at(%i, %i)
      : memref<?x4x?x?xi32> -> !attn_tile.keep_mask<16x32, whole>
  %2 = attn_tile.dropout %1 by %a : vector<16x32xbf16>, !attn_tile.keep_mask<16x32, whole>
  return %2 : vector<16x32xbf16>
}

// CHECK-LABEL: func @mask_bits(
// CHECK-SAME: %[[S:.*]]: vector<32x128xf32>, %[[M:.*]]: memref<?x1x?x?x128xi32>, %[[I:.*]]: index)
// CHECK: %[[B:.*]] = attn_tile.load_mask_bits %[[M]][%[[I]], %[[I]], %[[I]], %[[I]]] : memref<?x1x?x?x128xi32> -> <32x128>
// CHECK: attn_tile.apply_mask_bits %[[S]] by %[[B]] : vector<32x128xf32>, <32x128>
func.func @mask_bits(%s: vector<32x128xf32>, %m: memref<?x1x?x?x128xi32>, %i: index) -> vector<32x128xf32> {
  %b = attn_tile.load_mask_bits %m[%i, %i, %i, %i]
      : memref<?x1x?x?x128xi32> -> !attn_tile.mask_bits<32x128>
  %0 = attn_tile.apply_mask_bits %s by %b : vector<32x128xf32>, !attn_tile.mask_bits<32x128>
  return %0 : vector<32x128xf32>
}

//===----------------------------------------------------------------------===//
// Sums in flight, and stores through shared memory

// CHECK-LABEL: attn_tile.kernel @in_flight
// CHECK:         %[[S:.*]] = attn_tile.mma_start %{{.*}}, %{{.*}} acc %[[P:.*]] : !attn_tile.buffer<64x64xbf16>, <64x64xbf16>
// CHECK-SAME:        {{^}} -> !attn_tile.pending<vector<64x64xf32>> in_flight
// CHECK-NEXT:    attn_tile.mma_wait_before %[[S]] : <vector<64x64xf32>>
// CHECK:         attn_tile.store_through %{{.*}}, %{{.*}} to %{{.*}}[%{{.*}}, %{{.*}}] : <64x64xbf16, stages = 2>, vector<64x128xbf16> to memref<?x?xbf16>
// CHECK-NEXT:    attn_tile.store_through %{{.*}}, %{{.*}} to %{{.*}}[%{{.*}}, %{{.*}}] : <64x64xbf16, stages = 2>,
// CHECK-SAME:        vector<64x128xbf16> to !attn_tile.tensor_map<2, 64x64xbf16>
attn_tile.kernel @in_flight(%out: memref<?x?xbf16>, %map: !attn_tile.tensor_map<2, 64x64xbf16>) {
  %c0 = arith.constant 0 : index
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 1>
  %b = attn_tile.wait %p[%c0] : !attn_tile.pipe<64x64xbf16, stages = 1>
  %q = attn_tile.mma_start %b, %b : !attn_tile.buffer<64x64xbf16>, !attn_tile.buffer<64x64xbf16>
      -> !attn_tile.pending<vector<64x64xf32>>
  %s = attn_tile.mma_start %b, %b acc %q : !attn_tile.buffer<64x64xbf16>, !attn_tile.buffer<64x64xbf16>
      -> !attn_tile.pending<vector<64x64xf32>> in_flight
  attn_tile.mma_wait_before %s : !attn_tile.pending<vector<64x64xf32>>
  attn_tile.release %b : !attn_tile.buffer<64x64xbf16>
  %stages = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 2>
  %t = arith.constant dense<1.0> : vector<64x128xbf16>
  attn_tile.store_through %stages, %t to %out[%c0, %c0]
      : !attn_tile.pipe<64x64xbf16, stages = 2>, vector<64x128xbf16> to memref<?x?xbf16>
  attn_tile.store_through %stages, %t to %map[%c0, %c0]
      : !attn_tile.pipe<64x64xbf16, stages = 2>, vector<64x128xbf16> to !attn_tile.tensor_map<2, 64x64xbf16>
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @scatter_add(
// CHECK-SAME:    %[[T:.*]]: vector<64x32xf32>, %[[D:.*]]: memref<4x?xf32>, %[[S:.*]]: memref<f32>, %[[N:.*]]: index)
// CHECK-NEXT:    attn_tile.scatter_add %[[T]] into %[[D]] at(%[[N]], %[[N]], %[[N]], %[[N]]) lengths(%[[N]], %[[N]]) transposed
// CHECK-SAME:        {{^}} : vector<64x32xf32> into memref<4x?xf32> {
// CHECK-NEXT:    ^bb0(%b: index, %h: index, %i: index, %j: index):
// CHECK-NEXT:      attn_tile.yield %h, %j : index, index
// CHECK-NEXT:    }
// CHECK-NEXT:    attn_tile.scatter_add %[[T]] into %[[S]] at
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      attn_tile.yield
attn_tile.kernel @scatter_add(%t: vector<64x32xf32>, %d: memref<4x?xf32>, %s: memref<f32>, %n: index) {
  attn_tile.scatter_add %t into %d at(%n, %n, %n, %n) lengths(%n, %n) transposed
      : vector<64x32xf32> into memref<4x?xf32> {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    attn_tile.yield %h, %j : index, index
  }
  attn_tile.scatter_add %t into %s at(%n, %n, %n, %n) lengths(%n, %n) : vector<64x32xf32> into memref<f32> {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    attn_tile.yield
  }
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @reduce_f32(
// CHECK:         attn_tile.reduce to(%{{.*}}) by [#vector.kind<add>, #vector.kind<maxnumf>] : f32, f32 {
attn_tile.kernel @reduce_f32(%n: index, %x: f32, %out: memref<1xf32>) {
  %s:2 = attn_tile.reduce to(%n) by [#vector.kind<add>, #vector.kind<maxnumf>] : f32, f32 {
  ^bb0(%i: index):
    attn_tile.yield %x, %x : f32, f32
  }
  %c0 = arith.constant 0 : index
  memref.store %s#0, %out[%c0] : memref<1xf32>
  memref.store %s#1, %out[%c0] : memref<1xf32>
  attn_tile.return
}

// -----

// CHECK-LABEL: attn_tile.kernel @order(
// CHECK-NEXT:    attn_tile.await_launches
// CHECK-NEXT:    attn_tile.allow_launches
attn_tile.kernel @order() {
  attn_tile.await_launches
  attn_tile.allow_launches
  attn_tile.return
}

// -----

// CHECK-LABEL: @pack_gqa(
// CHECK: attn_tile.pack_gqa %{{.*}} : memref<?x32x16x128xbf16> to memref<?x8x64x128xbf16, #attn_tile.packed_gqa<rank = 4, rows = 2, group_size = 4>>
// CHECK: attn_tile.pack_gqa %{{.*}} : memref<32xf32> to memref<8x64xf32, #attn_tile.packed_gqa<rank = 2, rows = 1, group_size = 4>>
// CHECK: attn_tile.pack_gqa %{{.*}} : memref<1x32x?x128xbf16> to memref<1x8x?x128xbf16, #attn_tile.packed_gqa<rank = 4, rows = 2, group_size = 4>>
func.func @pack_gqa(%q: memref<?x32x16x128xbf16>, %s: memref<32xf32>, %p: memref<1x32x?x128xbf16>) {
  %0 = attn_tile.pack_gqa %q : memref<?x32x16x128xbf16>
      to memref<?x8x64x128xbf16, #attn_tile.packed_gqa<rank = 4, rows = 2, group_size = 4>>
  %1 = attn_tile.pack_gqa %s : memref<32xf32>
      to memref<8x64xf32, #attn_tile.packed_gqa<rank = 2, rows = 1, group_size = 4>>
  %2 = attn_tile.pack_gqa %p : memref<1x32x?x128xbf16>
      to memref<1x8x?x128xbf16, #attn_tile.packed_gqa<rank = 4, rows = 2, group_size = 4>>
  return
}

// -----

// CHECK-LABEL: attn_tile.kernel @instruction(
// CHECK-SAME:    attributes {precision = #attn<matmul_precision high>}
// CHECK:         attn_tile.mma_start %{{.*}}, %{{.*}} transpose_rhs mma(#attn_tile.mma_sync<multiplicand = tf32>) : !attn_tile.buffer<64x32xf32>, <64x32xf32>
attn_tile.kernel @instruction(%t: index) attributes {precision = #attn<matmul_precision high>} {
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x32xf32, stages = 2>
  %b = attn_tile.wait %p[%t] : !attn_tile.pipe<64x32xf32, stages = 2>
  %s = attn_tile.mma_start %b, %b transpose_rhs mma(#attn_tile.mma_sync<multiplicand = tf32>)
      : !attn_tile.buffer<64x32xf32>, !attn_tile.buffer<64x32xf32> -> !attn_tile.pending<vector<64x64xf32>>
  %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<64x64xf32>>
  attn_tile.release %b : !attn_tile.buffer<64x32xf32>
  attn_tile.return
}
