// RUN: attn-opt %s -attn-tile-allocate-pipes=target=sm_90a -convert-attn-tile-to-nvvm=target=sm_90a -split-input-file | FileCheck %s

// Parameters: a memref is a pointer, its sizes and its strides; an index is
// i64. Launches refer to the function.

// CHECK-LABEL: func.func @launch
// CHECK:         attn_tile.launch @parameters_module::@parameters grid
func.func @launch(%m: memref<?x?xf32>, %n: index) {
  attn_tile.launch @parameters grid(%n, %n, %n) args(%m, %n : memref<?x?xf32>, index)
  return
}

// CHECK:       gpu.module @parameters_module
// CHECK:         llvm.mlir.global external @attn_shared_memory() {addr_space = 3 : i32, alignment = 1024 : i64} : !llvm.array<0 x i8>
// CHECK:         llvm.func @parameters(%{{.*}}: !llvm.ptr, %[[S0:[a-z0-9]+]]: i64, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: i64, %[[N:[a-z0-9]+]]: i64)
// CHECK-SAME:      attn_tile.block_size = 128 : i32
// CHECK-SAME:      attn_tile.shared_bytes = 0 : i32
// CHECK-SAME:      nvvm.kernel
// CHECK-SAME:      nvvm.reqntid = array<i32: 128>
// CHECK-NOT:   attn_tile.kernel
attn_tile.kernel @parameters(%m: memref<?x?xf32>, %n: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  // CHECK-DAG:   %[[WORD:.*]] = arith.trunci %[[N]] : i64 to i32
  // CHECK-DAG:   %[[SIZE:.*]] = arith.trunci %[[S0]] : i64 to i32
  // CHECK-DAG:   %[[X:.*]] = nvvm.read.ptx.sreg.ctaid.x : i32
  // CHECK-DAG:   %[[Y:.*]] = nvvm.read.ptx.sreg.ctaid.y : i32
  // CHECK-DAG:   %[[NZ:.*]] = nvvm.read.ptx.sreg.nctaid.z : i32
  // CHECK:       scf.for %{{.*}} = %[[X]] to %[[WORD]] step %[[NZ]]  : i32
  // CHECK-NEXT:    scf.for %{{.*}} = %[[Y]] to %[[SIZE]] step %[[NZ]]  : i32
  // CHECK:       llvm.return
  %c0 = arith.constant 0 : index
  %x = attn_tile.program_id 0
  %y = attn_tile.program_id 1
  %nz = attn_tile.num_programs 2
  %size = memref.dim %m, %c0 : memref<?x?xf32>
  scf.for %i = %x to %n step %nz {
    scf.for %j = %y to %size step %nz {
      %f = arith.constant dense<0.0> : vector<64x8xf32>
      attn_tile.store %f, %m[%i, %j] : vector<64x8xf32>, memref<?x?xf32>
    }
  }
  attn_tile.return
}

// -----

// A thread holds 2 rows and, of 16 columns, 4: loops carry 8 values.

// CHECK-LABEL: llvm.func @elementwise
attn_tile.kernel @elementwise(%out: memref<64x16xf32>, %n: index, %s: f32)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  // CHECK-DAG:  %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
  // CHECK:      scf.for {{.*}} -> (f32, f32, f32, f32, f32, f32, f32, f32)
  // CHECK-COUNT-8: arith.mulf %{{.*}}, %{{.*}} : f32
  // CHECK-NOT:  arith.mulf
  // CHECK-COUNT-8: nvvm.ex2.approx
  // CHECK-NOT:  nvvm.ex2.approx
  // CHECK-NOT:  vector<64x16xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %one = arith.constant dense<1.0> : vector<64x16xf32>
  %b = vector.broadcast %s : f32 to vector<64x16xf32>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %one) -> vector<64x16xf32> {
    %p = arith.mulf %a, %b : vector<64x16xf32>
    %e = math.exp2 %p : vector<64x16xf32>
    scf.yield %e : vector<64x16xf32>
  }
  attn_tile.store %r, %out[%c0, %c0] : vector<64x16xf32>, memref<64x16xf32>
  attn_tile.return
}

// -----

// A row reduction: within the thread, then over the four threads of the row,
// then with the value there was. Row values are broadcast without exchanges.

// CHECK-LABEL: llvm.func @reduction
// CHECK-SAME:    %[[X:[a-z0-9]+]]: f32, %[[X1:[a-z0-9]+]]: f32, %[[X2:[a-z0-9]+]]: f32, %[[X3:[a-z0-9]+]]: f32
attn_tile.kernel @reduction(%x: vector<64x16xf32>, %acc: vector<64xf32>, %out: memref<64x16xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  // CHECK:         %[[C0:.*]] = arith.maxnumf %[[X]], %[[X2]]
  // CHECK-NEXT:    %[[C1:.*]] = arith.maxnumf %[[X1]], %[[X3]]
  // CHECK-NEXT:    %[[V:.*]] = arith.maxnumf %[[C0]], %[[C1]]
  // CHECK:         %[[S0:.*]] = nvvm.shfl.sync bfly %{{.*}}, %[[V]], %{{.*}}, %{{.*}} : f32 -> f32
  // CHECK-NEXT:    %[[V1:.*]] = arith.maxnumf %[[V]], %[[S0]] : f32
  // CHECK:         %[[S1:.*]] = nvvm.shfl.sync bfly %{{.*}}, %[[V1]]
  // CHECK-NEXT:    %[[V2:.*]] = arith.maxnumf %[[V1]], %[[S1]] : f32
  // CHECK-NEXT:    %[[R0:.*]] = arith.maxnumf %[[V2]], %[[ACC:.*]] : f32
  // CHECK-COUNT-2: nvvm.shfl.sync bfly
  // CHECK-NOT:     nvvm.shfl.sync
  // CHECK:         arith.subf %{{.*}}, %[[R0]] : f32
  // CHECK-NEXT:    arith.subf %{{.*}}, %[[R0]] : f32
  // CHECK-NEXT:    arith.subf %{{.*}}, %[[R0]] : f32
  // CHECK-NEXT:    arith.subf %{{.*}}, %[[R0]] : f32
  // CHECK-NEXT:    arith.subf
  // CHECK-NOT:     nvvm.shfl.sync
  %c0 = arith.constant 0 : index
  %m = vector.multi_reduction <maxnumf>, %x, %acc [1] : vector<64x16xf32> to vector<64xf32>
  %column = vector.shape_cast %m : vector<64xf32> to vector<64x1xf32>
  %wide = vector.broadcast %column : vector<64x1xf32> to vector<64x16xf32>
  %d = arith.subf %x, %wide : vector<64x16xf32>
  attn_tile.store %d, %out[%c0, %c0] : vector<64x16xf32>, memref<64x16xf32>
  attn_tile.return
}

// -----

// 16 columns are 4 registers of a row, 8 are 2: each sum takes two of them.

// CHECK-LABEL: llvm.func @partial_sum
attn_tile.kernel @partial_sum(%out: memref<64xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  // CHECK-COUNT-8: arith.addf
  // CHECK-NOT:     arith.addf
  // CHECK:         nvvm.shfl.sync
  %c0 = arith.constant 0 : index
  %x = arith.constant dense<1.0> : vector<64x16xf32>
  %l = arith.constant dense<0.0> : vector<64x8xf32>
  %acc = arith.constant dense<0.0> : vector<64xf32>
  %p = attn_tile.partial_sum %x into %l : vector<64x16xf32> into vector<64x8xf32>
  %s = vector.multi_reduction <maxnumf>, %p, %acc [1] : vector<64x8xf32> to vector<64xf32>
  %log = math.log %s : vector<64xf32>
  // CHECK-COUNT-2: nvvm.lg2.approx
  attn_tile.store %log, %out[%c0] : vector<64xf32>, memref<64xf32>
  attn_tile.return
}

// -----

// What depends on the column alone is done once for both rows of a thread.

// CHECK-LABEL: llvm.func @map
attn_tile.kernel @map(%bias: memref<?xf32>, %out: memref<64x8xf32>, %first: index, %n: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  // CHECK:         %[[ZEROS:.*]] = llvm.addrspacecast %{{.*}} : !llvm.ptr<1> to !llvm.ptr
  // CHECK:         %[[P:.*]] = llvm.select %{{.*}}, %[[ZEROS]], %{{.*}} : i1, !llvm.ptr
  // CHECK-COUNT-2: llvm.load %{{.*}} : !llvm.ptr<1> -> f32
  // CHECK-NOT:     llvm.load
  // CHECK-COUNT-4: arith.addf %{{.*}}, %{{.*}} fastmath<contract> : f32
  %c0 = arith.constant 0 : index
  %x = arith.constant dense<1.0> : vector<64x8xf32>
  %r = attn_tile.map %x at(%c0, %c0, %first, %first) lengths(%n, %n) : vector<64x8xf32> {
  ^bb0(%e: f32, %b: index, %h: index, %q: index, %k: index):
    %v = memref.load %bias[%k] : memref<?xf32>
    %y = arith.addf %e, %v : f32
    attn_tile.yield %y : f32
  }
  attn_tile.store %r, %out[%c0, %c0] : vector<64x8xf32>, memref<64x8xf32>
  attn_tile.return
}

// -----

// A distance is one subtraction and one conversion; registers differ by the
// constants of fused multiplications: columns 0 and 1, and rows 0 and 8.

// CHECK-LABEL: llvm.func @map_distance
// CHECK-SAME:    %[[SLOPE:[a-z0-9]+]]: f32
attn_tile.kernel @map_distance(%slope: f32, %out: memref<64x8xf32>, %first: index, %n: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  // CHECK-NOT:  arith.sitofp
  // CHECK:      arith.sitofp
  // CHECK:      math.fma %[[SLOPE]], %[[R8:.*]], %[[BASE:.*]] : f32
  // CHECK:      math.fma %[[SLOPE]], %{{.*}}, %[[BASE]] : f32
  // CHECK:      math.fma %[[SLOPE]], %{{.*}}, %[[BASE]] : f32
  // CHECK-NOT:  math.fma
  // CHECK:      llvm.return
  %c0 = arith.constant 0 : index
  %x = arith.constant dense<1.0> : vector<64x8xf32>
  %r = attn_tile.map %x at(%c0, %c0, %first, %first) lengths(%n, %n) : vector<64x8xf32> {
  ^bb0(%e: f32, %b: index, %h: index, %q: index, %k: index):
    %d = arith.subi %k, %q : index
    %i = arith.index_cast %d : index to i32
    %f = arith.sitofp %i : i32 to f32
    %m = arith.mulf %f, %slope : f32
    %y = arith.addf %e, %m : f32
    attn_tile.yield %y : f32
  }
  attn_tile.store %r, %out[%c0, %c0] : vector<64x8xf32>, memref<64x8xf32>
  attn_tile.return
}

// -----

// 32-bit arithmetic of the user's may wrap around: the sum is converted for each
// register.

// CHECK-LABEL: llvm.func @map_wraps
// CHECK-COUNT-4: arith.sitofp
attn_tile.kernel @map_wraps(%start: i32, %out: memref<64x8xf32>, %first: index, %n: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %x = arith.constant dense<1.0> : vector<64x8xf32>
  %r = attn_tile.map %x at(%c0, %c0, %first, %first) lengths(%n, %n) : vector<64x8xf32> {
  ^bb0(%e: f32, %b: index, %h: index, %q: index, %k: index):
    %d = arith.subi %k, %q : index
    %i = arith.index_cast %d : index to i32
    %j = arith.addi %i, %start : i32
    %f = arith.sitofp %j : i32 to f32
    %y = arith.addf %e, %f : f32
    attn_tile.yield %y : f32
  }
  attn_tile.store %r, %out[%c0, %c0] : vector<64x8xf32>, memref<64x8xf32>
  attn_tile.return
}

// -----

// Functions that are approximated; one that the library computes.

// CHECK-LABEL: llvm.func @map_functions
// CHECK:         llvm.intr.tanh(%{{.*}}) {fastmathFlags = #llvm.fastmath<afn>}
// CHECK:         nvvm.ex2.approx
// CHECK:         nvvm.lg2.approx
// CHECK:         math.sin
attn_tile.kernel @map_functions(%out: memref<64x8xf32>, %n: index, %v: f32)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %x = vector.broadcast %v : f32 to vector<64x8xf32>
  %r = attn_tile.map %x at(%c0, %c0, %c0, %c0) lengths(%n, %n) : vector<64x8xf32> {
  ^bb0(%e: f32, %b: index, %h: index, %q: index, %k: index):
    %0 = math.tanh %e : f32
    %1 = math.exp %0 : f32
    %2 = math.log %1 : f32
    %3 = math.sin %2 : f32
    attn_tile.yield %3 : f32
  }
  attn_tile.store %r, %out[%c0, %c0] : vector<64x8xf32>, memref<64x8xf32>
  attn_tile.return
}

// -----

// A tile in registers: pairs at once where it is whole and aligned, else each
// element by itself if it is inside. Rows are loaded one by one.

// CHECK-LABEL: llvm.func @load
attn_tile.kernel @load(%bias: memref<4x?x?xbf16>, %rows: memref<?xf32>, %out: memref<64x8xf32>, %b: index, %i: index, %j: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  // CHECK:         %[[PAIRS:.*]]:2 = scf.if %{{.*}} -> (i32, i32) {
  // CHECK-COUNT-2:   llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr<1> -> i32
  // CHECK:         } else {
  // CHECK-COUNT-4:   llvm.load %{{.*}} {alignment = 2 : i64} : !llvm.ptr<1> -> bf16
  // CHECK:         }
  // CHECK:         scf.if %{{.*}} -> (f32) {
  // CHECK:           llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr<1> -> f32
  // CHECK:         scf.if %{{.*}} -> (f32) {
  // The bits of a bf16 are the upper half of those of the f32.
  // CHECK:         %[[FIRST:.*]] = arith.shli %[[PAIRS]]#0, %{{.*}} : i32
  // CHECK-NEXT:    arith.bitcast %[[FIRST]] : i32 to f32
  // CHECK:         %[[SECOND:.*]] = arith.andi %[[PAIRS]]#0, %{{.*}} : i32
  // CHECK-NEXT:    arith.bitcast %[[SECOND]] : i32 to f32
  // CHECK-NOT:     arith.extf
  %c0 = arith.constant 0 : index
  %x = arith.constant dense<1.0> : vector<64x8xf32>
  %t = attn_tile.load %bias[%b, %i, %j] unaligned : memref<4x?x?xbf16> -> vector<64x8xbf16>
  %u = attn_tile.load %rows[%i] unaligned : memref<?xf32> -> vector<64xf32>
  %r = attn_tile.map %x at(%c0, %c0, %i, %j) lengths(%i, %i) with(%t, %u : vector<64x8xbf16>, vector<64xf32>) : vector<64x8xf32> {
  ^bb0(%e: f32, %bb: index, %h: index, %q: index, %k: index, %y: bf16, %z: f32):
    %0 = arith.extf %y : bf16 to f32
    %1 = arith.addf %0, %z : f32
    attn_tile.yield %1 : f32
  }
  attn_tile.store %r, %out[%c0, %c0] : vector<64x8xf32>, memref<64x8xf32>
  attn_tile.return
}

// -----

// Registers of 16-bit tiles have two elements each.

// CHECK-LABEL: llvm.func @map_pairs
attn_tile.kernel @map_pairs(%in: memref<?x8xbf16>, %out: memref<?x8xbf16>, %i: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  // CHECK:         llvm.bitcast %{{.*}} : i32 to vector<2xbf16>
  // CHECK-COUNT-4: arith.select %{{.*}}, %{{.*}}, %{{.*}} : bf16
  // CHECK-NOT:     arith.select {{.*}} : bf16
  // CHECK-COUNT-2: llvm.insertelement %{{.*}} : vector<2xbf16>
  // CHECK-NEXT:    llvm.bitcast %{{.*}} : vector<2xbf16> to i32
  %c0 = arith.constant 0 : index
  %none = arith.constant 0.0 : bf16
  %t = attn_tile.load %in[%i, %c0] unaligned : memref<?x8xbf16> -> vector<64x8xbf16>
  %r = attn_tile.map %t at(%c0, %c0, %i, %c0) lengths(%i, %i) : vector<64x8xbf16> {
  ^bb0(%e: bf16, %b: index, %h: index, %q: index, %k: index):
    %kept = arith.cmpi sge, %q, %k : index
    %x = arith.select %kept, %e, %none : bf16
    attn_tile.yield %x : bf16
  }
  attn_tile.store %r, %out[%i, %c0] : vector<64x8xbf16>, memref<?x8xbf16>
  attn_tile.return
}

// -----

// CHECK-LABEL: llvm.func @mask
attn_tile.kernel @mask(%out: memref<64x8xf32>, %row: index, %n: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  // CHECK-DAG:     %[[INF:.*]] = arith.constant 0xFF800000 : f32
  // CHECK-COUNT-4: arith.select %{{.*}}, %{{.*}}, %[[INF]] : f32
  // CHECK-NOT:     arith.select %{{.*}}, %{{.*}}, %[[INF]] : f32
  %c0 = arith.constant 0 : index
  %x = arith.constant dense<1.0> : vector<64x8xf32>
  %r = attn_tile.mask %x at(%c0, %c0, %row, %c0) lengths(%n, %n) by(#attn.causal) : vector<64x8xf32>
  attn_tile.store %r, %out[%c0, %c0] : vector<64x8xf32>, memref<64x8xf32>
  attn_tile.return
}

// -----

// 16-bit tiles: threads of a quad exchange pairs so that each one stores 16
// bytes; rows beyond the destination are dropped.

// CHECK-LABEL: llvm.func @store
// CHECK-SAME:    %{{.*}}: !llvm.ptr, %[[ROWS:[a-z0-9]+]]: i64, %{{.*}}: i64
attn_tile.kernel @store(%out: memref<?x32xbf16>, %row: index, %x: vector<64x32xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  // CHECK-COUNT-8:  nvvm.ff2bf16x2.rn
  // CHECK:          %[[LIMIT:.*]] = arith.trunci %[[ROWS]] : i64 to i32
  // CHECK:          %[[INSIDE:.*]] = arith.cmpi slt, %{{.*}}, %[[LIMIT]]
  // CHECK-COUNT-4:  nvvm.shfl.sync bfly
  // CHECK:          scf.if %[[INSIDE]]
  // CHECK:            llvm.store %{{.*}}, %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
  // CHECK-COUNT-4:  nvvm.shfl.sync bfly
  // CHECK:          scf.if
  // CHECK-NEXT:       arith.addi
  // CHECK:            llvm.store %{{.*}}, %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
  // CHECK-NOT:      llvm.store
  %c0 = arith.constant 0 : index
  %t = arith.truncf %x : vector<64x32xf32> to vector<64x32xbf16>
  attn_tile.store %t, %out[%row, %c0] : vector<64x32xbf16>, memref<?x32xbf16>
  attn_tile.return
}

// -----

// Columns that may hang over the destination are checked, too.

// CHECK-LABEL: llvm.func @store_columns
attn_tile.kernel @store_columns(%out: memref<?x?xf32>, %row: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  // CHECK:      scf.if
  // CHECK:        arith.cmpi slt
  // CHECK-NEXT:   scf.if
  // CHECK:          llvm.store %{{.*}}, %{{.*}} {alignment = 4 : i64} : f32, !llvm.ptr<1>
  %c0 = arith.constant 0 : index
  %x = arith.constant dense<1.0> : vector<64x8xf32>
  attn_tile.store %x, %out[%row, %c0] : vector<64x8xf32>, memref<?x?xf32>
  attn_tile.return
}

// -----

// Barriers come first, then the stages. One thread prepares a full barrier
// (one arrival and the bytes of the copies) and an empty one (an arrival of
// each of the two consumers) for each stage.

// CHECK-LABEL: llvm.func @roles
// CHECK-SAME:    %[[MAP:[a-z0-9]+]]: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant}
// CHECK-SAME:    attn_tile.block_size = 384 : i32
// CHECK-SAME:    attn_tile.shared_bytes = 66560 : i32
attn_tile.kernel @roles(%map: !attn_tile.tensor_map<3, 64x64xbf16>, %q: !attn_tile.tensor_map<3, 128x64xbf16>,
                        %out: memref<128x64xf32>, %b: index, %n: index)
    attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  // CHECK:      %[[TID:.*]] = nvvm.read.ptx.sreg.tid.x : i32
  // CHECK:      %[[WARP:.*]] = nvvm.shfl.sync idx
  // CHECK:      %[[WG:.*]] = arith.shrui %[[WARP]]
  // CHECK:      %[[FIRST:.*]] = arith.cmpi eq, %[[TID]], %{{.*}}
  // CHECK:      scf.if %[[FIRST]] {
  // CHECK-COUNT-4: "mbarrier.init.shared::cta.b64 [$0], $1;"
  // CHECK-NOT:    mbarrier.init
  // CHECK:      }
  // CHECK:      scf.if
  // CHECK-COUNT-2: "mbarrier.init.shared::cta.b64 [$0], $1;"
  // CHECK:      nvvm.fence.mbarrier.init
  // CHECK-NEXT: nvvm.barrier
  %kp = attn_tile.create_pipe : !attn_tile.pipe<64x128xbf16, stages = 2>
  %qp = attn_tile.create_pipe : !attn_tile.pipe<128x128xbf16, stages = 1>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // The first warpgroup is the producer, of which one thread works.
  // CHECK:      %[[ISPRODUCER:.*]] = arith.cmpi slt, %[[WG]], %{{.*}}
  // CHECK:      scf.if %[[ISPRODUCER]] {
  // CHECK:        nvvm.setmaxregister decrease 24
  // CHECK:        scf.if
  // CHECK:          wait_${:uid}:\0Ambarrier.try_wait.parity.shared::cta.b64 done, [$0], $1;
  // CHECK:          "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;"
  // CHECK-COUNT-2:  cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1, {$3, $4, $5}], [$2];", "r,l,r,r,r,r,~{memory}"
  // CHECK:          scf.for
  // CHECK:            try_wait
  // CHECK:            expect_tx
  // CHECK:            cp.async.bulk.tensor.3d{{.*}} %{{.*}}, %[[MAP]]
  // CHECK:            cp.async.bulk.tensor.3d{{.*}} %{{.*}}, %[[MAP]]
  // CHECK:      } else {
  attn_tile.role producer warpgroups(1) registers(24) {
    %s = attn_tile.acquire %qp[%c0] : !attn_tile.pipe<128x128xbf16, stages = 1>
    attn_tile.copy %q[%b, %c0, %c0] to %s : !attn_tile.tensor_map<3, 128x64xbf16> to !attn_tile.buffer<128x128xbf16>
    attn_tile.commit %s : !attn_tile.buffer<128x128xbf16>
    scf.for %t = %c0 to %n step %c1 {
      %k = attn_tile.acquire %kp[%t] : !attn_tile.pipe<64x128xbf16, stages = 2>
      attn_tile.copy %map[%b, %t, %c0] to %k : !attn_tile.tensor_map<3, 64x64xbf16> to !attn_tile.buffer<64x128xbf16>
      attn_tile.commit %k : !attn_tile.buffer<64x128xbf16>
    }
  }
  // CHECK:        nvvm.setmaxregister increase 240
  // The last consumer gives the first its turn.
  // CHECK:        arith.cmpi eq, %[[WG]]
  // CHECK:        scf.if
  // CHECK-NEXT:     arith.constant
  // CHECK:          nvvm.barrier.arrive
  // CHECK:        try_wait
  // CHECK:        scf.for
  // CHECK:          try_wait
  // CHECK:          nvvm.barrier id =
  // CHECK:          wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
  // CHECK-SAME:     wgmma.commit_group.sync.aligned
  // CHECK:          nvvm.barrier.arrive
  // CHECK:          "wgmma.wait_group.sync.aligned 0;"
  // CHECK:          mbarrier.arrive.shared::cta.b64 _, [$0];
  // CHECK:        llvm.store
  // The first consumer takes the turn that is passed last.
  // CHECK:        scf.if
  // CHECK:          nvvm.barrier id =
  attn_tile.role consumer warpgroups(2) registers(240) {
    %x = arith.constant dense<0.0> : vector<128x64xf32>
    %s = attn_tile.wait %qp[%c0] : !attn_tile.pipe<128x128xbf16, stages = 1>
    %r = scf.for %t = %c0 to %n step %c1 iter_args(%a = %x) -> vector<128x64xf32> {
      %k = attn_tile.wait %kp[%t] : !attn_tile.pipe<64x128xbf16, stages = 2>
      attn_tile.pingpong_wait
      %p = attn_tile.mma_start %s, %k transpose_rhs acc %a
          : !attn_tile.buffer<128x128xbf16>, !attn_tile.buffer<64x128xbf16>
          -> !attn_tile.pending<vector<128x64xf32>>
      attn_tile.pingpong_arrive
      %v = attn_tile.mma_wait %p : !attn_tile.pending<vector<128x64xf32>>
      attn_tile.release %k : !attn_tile.buffer<64x128xbf16>
      scf.yield %v : vector<128x64xf32>
    }
    attn_tile.release %s : !attn_tile.buffer<128x128xbf16>
    attn_tile.store %r, %out[%c0, %c0] : vector<128x64xf32>, memref<128x64xf32>
  }
  attn_tile.return
}

// -----

// An MMA leaves in flight the MMAs that were started after it. Without an
// accumulator the first instruction overwrites the result.

// CHECK-LABEL: llvm.func @products
attn_tile.kernel @products(%p: vector<64x16xf16>, %out: memref<64x64xf32>, %out2: memref<64x16xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %qp = attn_tile.create_pipe at(1024) barriers(0) : !attn_tile.pipe<64x64xf16, stages = 1>
  %kp = attn_tile.create_pipe at(9216) barriers(16) : !attn_tile.pipe<16x64xf16, stages = 1>
  %vp = attn_tile.create_pipe at(11264) barriers(32) : !attn_tile.pipe<16x64xf16, stages = 1>
  %c0 = arith.constant 0 : index
  %o = arith.constant dense<2.0> : vector<64x64xf32>
  %q = attn_tile.wait %qp[%c0] : !attn_tile.pipe<64x64xf16, stages = 1>
  %k = attn_tile.wait %kp[%c0] : !attn_tile.pipe<16x64xf16, stages = 1>
  %v = attn_tile.wait %vp[%c0] : !attn_tile.pipe<16x64xf16, stages = 1>
  // Four steps, each 32 bytes further; both operands are read from memory, with
  // contiguous contracted columns.
  // CHECK:      setp.ne.b32 first, 0, 0;
  // CHECK-SAME: add.s64 a, $8, 4611686293305294848;\0Aadd.s64 b, $9, 4611686293305294848;\0A
  // CHECK-SAME: wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {$0,$1,$2,$3,$4,$5,$6,$7}, a, b, first, 1, 1, 0, 0;
  // CHECK-SAME: add.s64 a, $8, 4611686293305294854;\0Aadd.s64 b, $9, 4611686293305294854;\0A
  // CHECK-SAME: a, b, rest, 1, 1, 0, 0;
  // CHECK-SAME: "=f,=f,=f,=f,=f,=f,=f,=f,l,l,~{memory}"
  %s0 = attn_tile.mma_start %q, %k transpose_rhs
      : !attn_tile.buffer<64x64xf16>, !attn_tile.buffer<16x64xf16>
      -> !attn_tile.pending<vector<64x16xf32>>
  // The left-hand side is four words; the accumulators are tied to the results.
  // CHECK:      setp.ne.b32 first, 1, 0;
  // CHECK-SAME: wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16
  // CHECK-SAME: {$64,$66,$65,$67}, b, first, 1, 1, 1;
  // CHECK-SAME: ,30,31,r,r,r,r,l,~{memory}"
  %s1 = attn_tile.mma_start %p, %v acc %o
      : vector<64x16xf16>, !attn_tile.buffer<16x64xf16>
      -> !attn_tile.pending<vector<64x64xf32>>
  // CHECK:      "wgmma.wait_group.sync.aligned 1;", "=f,=f,=f,=f,=f,=f,=f,=f,0,1,2,3,4,5,6,7,~{memory}"
  // CHECK:      "wgmma.wait_group.sync.aligned 0;"
  %r0 = attn_tile.mma_wait %s0 : !attn_tile.pending<vector<64x16xf32>>
  %r1 = attn_tile.mma_wait %s1 : !attn_tile.pending<vector<64x64xf32>>
  attn_tile.release %q : !attn_tile.buffer<64x64xf16>
  attn_tile.release %k : !attn_tile.buffer<16x64xf16>
  attn_tile.release %v : !attn_tile.buffer<16x64xf16>
  attn_tile.store %r0, %out2[%c0, %c0] : vector<64x16xf32>, memref<64x16xf32>
  attn_tile.store %r1, %out[%c0, %c0] : vector<64x64xf32>, memref<64x64xf32>
  attn_tile.return
}

// -----

// Lanes take numbers round-robin; sums are exchanged in the warp.

// CHECK-LABEL: llvm.func @scalars
attn_tile.kernel @scalars(%list: memref<?xi32>, %n: index)
    attributes {layout = #attn_tile.row_blocks<warps = 1>} {
  // CHECK-DAG:   %[[STEP:.*]] = arith.constant 32 : i32
  // CHECK-DAG:   %[[THREAD:.*]] = nvvm.read.ptx.sreg.tid.x
  // CHECK:       %[[SUM:.*]] = scf.for %{{.*}} = %[[THREAD]] to %{{.*}} step %{{.*}} iter_args
  // CHECK:         llvm.load
  // CHECK:         scf.yield
  // CHECK-COUNT-5: nvvm.shfl.sync bfly
  // CHECK:       arith.minsi
  // CHECK:       scf.for %{{.*}} = %[[THREAD]] to
  // CHECK:         llvm.store
  %s = attn_tile.reduce to(%n) by [#vector.kind<add>] : index {
  ^bb0(%i: index):
    %x = memref.load %list[%i] : memref<?xi32>
    %y = arith.index_cast %x : i32 to index
    attn_tile.yield %y : index
  }
  %m = attn_tile.assume_upper_bound %s, %n
  attn_tile.thread_for to(%m) {
  ^bb0(%i: index):
    %x = arith.index_cast %i : index to i32
    memref.store %x, %list[%i] : memref<?xi32>
    attn_tile.yield
  }
  attn_tile.return
}

// -----

// Bounds begin with the largest and the smallest number.

// CHECK-LABEL: llvm.func @bounds
attn_tile.kernel @bounds(%list: memref<?xi32>, %n: index)
    attributes {layout = #attn_tile.row_blocks<warps = 1>} {
  // CHECK-DAG:   %[[MOST:.*]] = arith.constant 2147483647 : i32
  // CHECK-DAG:   %[[LEAST:.*]] = arith.constant -2147483648 : i32
  // CHECK:       scf.for {{.*}} iter_args(%{{.*}} = %[[MOST]], %{{.*}} = %[[LEAST]])
  // CHECK:         arith.minsi
  // CHECK:         arith.maxsi
  // CHECK:       nvvm.shfl.sync bfly
  // CHECK-NEXT:  arith.minsi
  // CHECK:       nvvm.shfl.sync bfly
  // CHECK:       arith.maxsi
  %s:2 = attn_tile.reduce to(%n) by [#vector.kind<minsi>, #vector.kind<maxsi>] : index, index {
  ^bb0(%i: index):
    %x = memref.load %list[%i] : memref<?xi32>
    %y = arith.index_cast %x : i32 to index
    attn_tile.yield %y, %y : index, index
  }
  attn_tile.thread_for to(%s#0) {
  ^bb0(%i: index):
    %x = arith.index_cast %s#1 : index to i32
    memref.store %x, %list[%i] : memref<?xi32>
    attn_tile.yield
  }
  attn_tile.return
}

// -----

// A maximum of floats begins with NaN, which does not count.

// CHECK-LABEL: llvm.func @largest
attn_tile.kernel @largest(%list: memref<?xf32>, %n: index)
    attributes {layout = #attn_tile.row_blocks<warps = 1>} {
  // CHECK-DAG:   %[[LEAST:.*]] = arith.constant 0x7FC00000 : f32
  // CHECK:       scf.for {{.*}} iter_args(%{{.*}} = %[[LEAST]])
  // CHECK:         arith.maxnumf
  // CHECK:       nvvm.shfl.sync bfly
  // CHECK-NEXT:  arith.maxnumf
  %s = attn_tile.reduce to(%n) by [#vector.kind<maxnumf>] : f32 {
  ^bb0(%i: index):
    %x = memref.load %list[%i] : memref<?xf32>
    attn_tile.yield %x : f32
  }
  attn_tile.thread_for to(%n) {
  ^bb0(%i: index):
    memref.store %s, %list[%i] : memref<?xf32>
    attn_tile.yield
  }
  attn_tile.return
}

// -----

// The rank of a number is the count of those that were chosen before, and of
// those that lower lanes choose in the same step.

// CHECK-LABEL: llvm.func @compact
attn_tile.kernel @compact(%list: memref<?xi32>, %n: index)
    attributes {layout = #attn_tile.row_blocks<warps = 1>} {
  // CHECK:       %[[LANE:.*]] = nvvm.read.ptx.sreg.tid.x
  // CHECK:       %[[BIT:.*]] = arith.shli %{{.*}}, %[[LANE]]
  // CHECK:       %[[LOWER:.*]] = arith.subi %[[BIT]]
  // CHECK:       %[[TOTAL:.*]] = scf.for %[[FIRST:.*]] = {{.*}} iter_args(%[[BEFORE:.*]] = %{{.*}})
  // CHECK:         %[[I:.*]] = arith.addi %[[FIRST]], %[[LANE]]
  // CHECK:         arith.cmpi slt, %[[I]]
  // CHECK:         %[[CHOSEN:.*]] = scf.if {{.*}} -> (i1)
  // CHECK:         %[[VOTES:.*]] = nvvm.vote.sync ballot %{{.*}}, %[[CHOSEN]] -> i32
  // CHECK:         %[[MINE:.*]] = arith.andi %[[VOTES]], %[[LOWER]]
  // CHECK:         %[[COUNT:.*]] = llvm.intr.ctpop(%[[MINE]])
  // CHECK:         arith.addi %[[BEFORE]], %[[COUNT]]
  // CHECK:         scf.if %[[CHOSEN]]
  // CHECK:           llvm.store
  // CHECK:         %[[ALL:.*]] = llvm.intr.ctpop(%[[VOTES]])
  // CHECK:         arith.addi %[[BEFORE]], %[[ALL]]
  %m = attn_tile.warp_compact to(%n) where {
  ^bb0(%i: index):
    %c = arith.cmpi ne, %i, %n : index
    attn_tile.yield %c : i1
  } do {
  ^bb0(%i: index, %rank: index):
    %x = arith.index_cast %i : index to i32
    memref.store %x, %list[%rank] : memref<?xi32>
    attn_tile.yield
  }
  attn_tile.return
}

// -----

// Each warpgroup clears for itself the rows that are not of the sequence, where
// there are any, before its MMAs read them.

// CHECK-LABEL: llvm.func @clear
attn_tile.kernel @clear(%i: index, %n: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  // CHECK:       %[[ROWS:.*]] = arith.subi
  // CHECK:       %[[CUT:.*]] = arith.cmpi slt, %[[ROWS]], %{{.*}}
  // CHECK:       scf.if %[[CUT]] {
  // CHECK-COUNT-2: llvm.inline_asm has_side_effects {{.*}}st.shared.v4.b32
  // CHECK:         fence.proxy.async.shared::cta
  // CHECK:         nvvm.barrier id
  %p = attn_tile.create_pipe at(1024) barriers(0) : !attn_tile.pipe<64x128xbf16, stages = 1>
  %b = attn_tile.wait %p[%i] : !attn_tile.pipe<64x128xbf16, stages = 1>
  attn_tile.clear %b within(%i of %n) : !attn_tile.buffer<64x128xbf16>
  attn_tile.release %b : !attn_tile.buffer<64x128xbf16>
  attn_tile.return
}

// -----

// A shared tile is stored by matrices of 8x8 elements, of which four lie in one
// instruction, behind the swizzle; all threads of the CTA wait for each other.

// CHECK-LABEL: llvm.func @share
attn_tile.kernel @share(%x: vector<64x16xf32>, %out: memref<64x16xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %kp = attn_tile.create_pipe at(1024) barriers(0) : !attn_tile.pipe<64x64xbf16, stages = 1>
  %sp = attn_tile.create_pipe at(9216) barriers(16) : !attn_tile.pipe<64x16xbf16, stages = 2>
  %c0 = arith.constant 0 : index
  %k = attn_tile.wait %kp[%c0] : !attn_tile.pipe<64x64xbf16, stages = 1>
  %t = arith.truncf %x : vector<64x16xf32> to vector<64x16xbf16>
  // CHECK-NOT:  bar.sync
  // CHECK:      "stmatrix.sync.aligned.m8n8.x4.shared.b16 [$0], {$1, $2, $3, $4};", "r,r,r,r,r,~{memory}" %{{.*}}, %[[A:.*]], %[[B:.*]], %[[C:.*]], %[[D:.*]] :
  // CHECK-NEXT: "fence.proxy.async.shared::cta;"
  // CHECK:      "bar.sync $0, $1;"
  %b = attn_tile.local_store %t in %sp[%c0] : vector<64x16xbf16>, !attn_tile.pipe<64x16xbf16, stages = 2>
  // Both operands have contiguous rows and columns instead of the contracted
  // dimension: 16 rows of 128 bytes further for each step.
  // CHECK:      add.s64 a, $8, 4611686293305294848;
  // CHECK-SAME: wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {$0,$1,$2,$3,$4,$5,$6,$7}, a, b, first, 1, 1, 1, 1;
  // CHECK-SAME: add.s64 a, $8, 4611686293305294976;
  %s = attn_tile.mma_start %k, %b transpose_lhs
      : !attn_tile.buffer<64x64xbf16>, !attn_tile.buffer<64x16xbf16>
      -> !attn_tile.pending<vector<64x16xf32>>
  %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<64x16xf32>>
  attn_tile.release %k : !attn_tile.buffer<64x64xbf16>
  attn_tile.store %r, %out[%c0, %c0] : vector<64x16xf32>, memref<64x16xf32>
  attn_tile.return
}

// -----

// Columns lie in the block they belong to; all threads wait for each other once
// the last ones are there.

// CHECK-LABEL: llvm.func @share_columns
// CHECK-COUNT-4: stmatrix
// CHECK-NOT:     bar.sync
// CHECK:         %[[BLOCK:.*]] = llvm.mlir.constant(8192 : i32) : i32
// CHECK:         %[[OFFSET:.*]] = arith.addi %{{.*}}, %[[BLOCK]] : i32
// CHECK:         %[[AT:.*]] = arith.addi %{{.*}}, %[[OFFSET]] : i32
// CHECK-NEXT:    stmatrix{{.*}} %[[AT]],
// CHECK-COUNT-3: stmatrix
// CHECK:         "fence.proxy.async.shared::cta;"
// CHECK:         "bar.sync $0, $1;"
attn_tile.kernel @share_columns(%x: vector<64x64xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %sp = attn_tile.create_pipe at(1024) barriers(0) : !attn_tile.pipe<64x128xbf16, stages = 2>
  %c0 = arith.constant 0 : index
  %t = arith.truncf %x : vector<64x64xf32> to vector<64x64xbf16>
  %a = attn_tile.local_store %t in %sp[%c0] : vector<64x64xbf16>, !attn_tile.pipe<64x128xbf16, stages = 2>
  %b = attn_tile.local_store %t in %sp[%c0] from(64) : vector<64x64xbf16>, !attn_tile.pipe<64x128xbf16, stages = 2>
  attn_tile.return
}

// -----

// A row is copied by one instruction, read by all threads, and released by one
// thread of each warp of the consumers.

// CHECK-LABEL: llvm.func @row
// CHECK:         "mbarrier.init.shared::cta.b64 [$0], $1;"
// CHECK:         %[[WARPS:.*]] = llvm.mlir.constant(8 : i32) : i32
// CHECK-NEXT:    "mbarrier.init.shared::cta.b64 [$0], $1;", "r,r" %{{.*}}, %[[WARPS]]
// CHECK:         %[[BYTES:.*]] = llvm.mlir.constant(128 : i32) : i32
// CHECK-NEXT:    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", {{.*}} %{{.*}}, %[[BYTES]]
// CHECK:         cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
// CHECK-NOT:     cp.async.bulk.tensor
// CHECK-COUNT-4: llvm.load %{{.*}} {alignment = 8 : i64} : !llvm.ptr<3> -> vector<2xf32>
// CHECK:         "bar.warp.sync 0xffffffff;"
// CHECK:         mbarrier.arrive.shared::cta.b64
attn_tile.kernel @row(%map: !attn_tile.tensor_map<2, 1x32xf32>, %out: memref<128x32xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  %p = attn_tile.create_pipe at(1024) barriers(0) : !attn_tile.pipe<1x32xf32, stages = 2>
  %c0 = arith.constant 0 : index
  attn_tile.role producer warpgroups(1) registers(24) {
    %a = attn_tile.acquire %p[%c0] : !attn_tile.pipe<1x32xf32, stages = 2>
    attn_tile.copy %map[%c0, %c0] to %a : !attn_tile.tensor_map<2, 1x32xf32> to !attn_tile.buffer<1x32xf32>
    attn_tile.commit %a : !attn_tile.buffer<1x32xf32>
  }
  attn_tile.role consumer warpgroups(2) registers(240) {
    %b = attn_tile.wait %p[%c0] : !attn_tile.pipe<1x32xf32, stages = 2>
    %r = attn_tile.read %b : !attn_tile.buffer<1x32xf32> -> vector<1x32xf32>
    attn_tile.release %b : !attn_tile.buffer<1x32xf32>
    %x = vector.broadcast %r : vector<1x32xf32> to vector<128x32xf32>
    attn_tile.store %x, %out[%c0, %c0] : vector<128x32xf32>, memref<128x32xf32>
  }
  attn_tile.return
}

// -----

// So it is where a loop carries the stage to the step that releases it.

// CHECK-LABEL: llvm.func @carried_row
// CHECK:         %[[WARPS:.*]] = llvm.mlir.constant(8 : i32) : i32
// CHECK-NEXT:    "mbarrier.init.shared::cta.b64 [$0], $1;", "r,r" %{{.*}}, %[[WARPS]]
// CHECK:         llvm.load %{{.*}} {alignment = 8 : i64} : !llvm.ptr<3> -> vector<2xf32>
// CHECK:         llvm.load %{{.*}} {alignment = 8 : i64} : !llvm.ptr<3> -> vector<2xf32>
// CHECK:         "bar.warp.sync 0xffffffff;"
// CHECK:         %[[LANE:.*]] = llvm.mlir.constant(31 : i32) : i32
// CHECK:         mbarrier.arrive.shared::cta.b64
// CHECK:         "bar.warp.sync 0xffffffff;"
// CHECK:         mbarrier.arrive.shared::cta.b64
// CHECK-NOT:     mbarrier.arrive
// CHECK:         llvm.return
attn_tile.kernel @carried_row(%n: index, %out: memref<?x32xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  %p = attn_tile.create_pipe at(1024) barriers(0) : !attn_tile.pipe<1x32xf32, stages = 2>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  attn_tile.role consumer warpgroups(2) registers(240) {
    %b0 = attn_tile.wait %p[%c0] : !attn_tile.pipe<1x32xf32, stages = 2>
    %r0 = attn_tile.read %b0 : !attn_tile.buffer<1x32xf32> -> vector<1x32xf32>
    %last:2 = scf.for %t = %c1 to %n step %c1 iter_args(%before = %b0, %r = %r0)
        -> (!attn_tile.buffer<1x32xf32>, vector<1x32xf32>) {
      %b = attn_tile.wait %p[%t] : !attn_tile.pipe<1x32xf32, stages = 2>
      %next = attn_tile.read %b : !attn_tile.buffer<1x32xf32> -> vector<1x32xf32>
      %x = vector.broadcast %r : vector<1x32xf32> to vector<128x32xf32>
      attn_tile.store %x, %out[%t, %c0] : vector<128x32xf32>, memref<?x32xf32>
      attn_tile.release %before : !attn_tile.buffer<1x32xf32>
      scf.yield %b, %next : !attn_tile.buffer<1x32xf32>, vector<1x32xf32>
    }
    attn_tile.release %last#0 : !attn_tile.buffer<1x32xf32>
  }
  attn_tile.return
}

// -----

// Tiles that threads read: four matrices of 16-bit values at once, whose rows the
// swizzle moves, or pairs of f32 values of two rows. Blocks of f32 values have 32
// columns. The arrival depends on the values it comes after, two rows of each thread.

// CHECK-LABEL: llvm.func @tiles
// CHECK:         %[[WARPS:.*]] = llvm.mlir.constant(8 : i32) : i32
// CHECK-NEXT:    "mbarrier.init.shared::cta.b64 [$0], $1;", "r,r" %{{.*}}, %[[WARPS]]
// CHECK:         llvm.mlir.constant(32768 : i32) : i32
// CHECK-NEXT:    "mbarrier.arrive.expect_tx.shared::cta.b64
// CHECK-COUNT-2: cp.async.bulk.tensor.2d
// CHECK:         llvm.mlir.constant(32768 : i32) : i32
// CHECK-NEXT:    "mbarrier.arrive.expect_tx.shared::cta.b64
// CHECK-COUNT-2: cp.async.bulk.tensor.2d
// CHECK-NOT:     cp.async.bulk.tensor
// CHECK-COUNT-5: "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {$0, $1, $2, $3}, [$4];", "=r,=r,=r,=r,r,~{memory}"
// CHECK-NOT:     ldmatrix
// CHECK:         "bar.warp.sync 0xffffffff;"
// CHECK:         "ld.shared.v2.f32 {$0, $1}, [$2 + 0];", "=f,=f,r,~{memory}"
// CHECK:         "ld.shared.v2.f32 {$0, $1}, [$2 + 1024];"
// CHECK-COUNT-6: "ld.shared.v2.f32 {$0, $1}, [$2 + {{0|1024}}];"
// CHECK:         "ld.shared.v2.f32 {$0, $1}, [$2 + 16384];"
// CHECK:         "ld.shared.v2.f32 {$0, $1}, [$2 + 17408];"
// CHECK-COUNT-2: "ld.shared.v2.f32
// CHECK-NOT:     "ld.shared.v2.f32
// CHECK-COUNT-4: nvvm.shfl.sync bfly
// CHECK:         "bar.warp.sync 0xffffffff;"
// CHECK:         setp.eq.s32 first, $1, 0;\0Asetp.ne.and.b32 first, $2, 0x7fffabcd, first;\0Asetp.ne.and.b32 first, $3, 0x7fffabcd, first;
// CHECK-SAME:        {{^}}\0A@first mbarrier.arrive.shared::cta.b64 _, [$0];{{.*}}"r,r,f,f,~{memory}"
attn_tile.kernel @tiles(%map0: !attn_tile.tensor_map<2, 128x64xbf16>, %map1: !attn_tile.tensor_map<2, 128x32xf32>,
                        %out0: memref<128x80xbf16>, %out1: memref<128x48xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  %p0 = attn_tile.create_pipe : !attn_tile.pipe<128x80xbf16, stages = 2>
  %p1 = attn_tile.create_pipe : !attn_tile.pipe<128x48xf32, stages = 1>
  %c0 = arith.constant 0 : index
  attn_tile.role producer warpgroups(1) registers(24) {
    %a0 = attn_tile.acquire %p0[%c0] : !attn_tile.pipe<128x80xbf16, stages = 2>
    attn_tile.copy %map0[%c0, %c0] to %a0 : !attn_tile.tensor_map<2, 128x64xbf16> to !attn_tile.buffer<128x80xbf16>
    attn_tile.commit %a0 : !attn_tile.buffer<128x80xbf16>
    %a1 = attn_tile.acquire %p1[%c0] : !attn_tile.pipe<128x48xf32, stages = 1>
    attn_tile.copy %map1[%c0, %c0] to %a1 : !attn_tile.tensor_map<2, 128x32xf32> to !attn_tile.buffer<128x48xf32>
    attn_tile.commit %a1 : !attn_tile.buffer<128x48xf32>
  }
  attn_tile.role consumer warpgroups(2) registers(240) {
    %b0 = attn_tile.wait %p0[%c0] : !attn_tile.pipe<128x80xbf16, stages = 2>
    %r0 = attn_tile.read %b0 : !attn_tile.buffer<128x80xbf16> -> vector<128x80xbf16>
    attn_tile.release %b0 : !attn_tile.buffer<128x80xbf16>
    attn_tile.store %r0, %out0[%c0, %c0] : vector<128x80xbf16>, memref<128x80xbf16>
    %b1 = attn_tile.wait %p1[%c0] : !attn_tile.pipe<128x48xf32, stages = 1>
    %r1 = attn_tile.read %b1 : !attn_tile.buffer<128x48xf32> -> vector<128x48xf32>
    %least = arith.constant dense<0xFF800000> : vector<128xf32>
    %max = vector.multi_reduction <maxnumf>, %r1, %least [1] : vector<128x48xf32> to vector<128xf32>
    attn_tile.release %b1 after(%max : vector<128xf32>) : !attn_tile.buffer<128x48xf32>
    attn_tile.store %r1, %out1[%c0, %c0] : vector<128x48xf32>, memref<128x48xf32>
  }
  attn_tile.return
}

// -----

// With one stage, the tile before must have been read.

// CHECK-LABEL: llvm.func @share_one_stage
// CHECK:         bar.sync
// CHECK:         stmatrix
// CHECK:         bar.sync
attn_tile.kernel @share_one_stage(%x: vector<64x16xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %sp = attn_tile.create_pipe at(1024) barriers(0) : !attn_tile.pipe<64x16xbf16, stages = 1>
  %c0 = arith.constant 0 : index
  %t = arith.truncf %x : vector<64x16xf32> to vector<64x16xbf16>
  %b = attn_tile.local_store %t in %sp[%c0] : vector<64x16xbf16>, !attn_tile.pipe<64x16xbf16, stages = 1>
  attn_tile.return
}

// -----

// A thread's registers of a tile in fragment order lie in groups of four, those of all
// threads after one another.

// CHECK-LABEL: llvm.func @packed
// CHECK-COUNT-2: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK-COUNT-2: "red.global.add.v4.f32 [$0], {$1, $2, $3, $4};", "l,f,f,f,f,~{memory}"
attn_tile.kernel @packed(%m: memref<?x64xf32>, %i: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %x = attn_tile.load_fragments %m[%i, %c0] : memref<?x64xf32> to vector<64x16xf32>
  attn_tile.bulk_reduce_add %x to %m[%i, %c0] : vector<64x16xf32> to memref<?x64xf32>
  attn_tile.return
}

// -----

// Elements that may not exist are read at the last place there is. A tile of one
// row has its columns in each thread that holds an element of the column.

// CHECK-LABEL: llvm.func @load
// CHECK:         %[[IN:.*]] = arith.cmpi slt, %[[ROW:.*]], %[[SIZE:.*]] : i32
// CHECK:         arith.select %[[IN]], %[[ROW]], %{{.*}} : i32
// CHECK:         llvm.load %{{.*}} : !llvm.ptr<1> -> f32
// CHECK:         llvm.load %{{.*}} {alignment = 8 : i64} : !llvm.ptr<1> -> vector<2xf32>
// CHECK-COUNT-4: arith.addf
// CHECK-COUNT-2: llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr<1> -> i32
// CHECK-COUNT-4: llvm.store %{{.*}} {alignment = 4 : i64} : f32, !llvm.ptr<1>
attn_tile.kernel @load(%m: memref<?xf32>, %q: memref<?x?xf32>, %h: memref<?x8xbf16>, %out: memref<64x8xf32>, %n: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %r = attn_tile.load %m[%n] : memref<?xf32> -> vector<64xf32>
  %mask = vector.create_mask %n : vector<64xi1>
  %zero = arith.constant dense<0.0> : vector<64xf32>
  %kept = arith.select %mask, %r, %zero : vector<64xi1>, vector<64xf32>
  %k1 = vector.shape_cast %kept : vector<64xf32> to vector<64x1xf32>
  %k2 = vector.broadcast %k1 : vector<64x1xf32> to vector<64x8xf32>
  %c = attn_tile.load %q[%c0, %n] in_bounds : memref<?x?xf32> -> vector<1x8xf32>
  %c1 = vector.broadcast %c : vector<1x8xf32> to vector<64x8xf32>
  %s = arith.addf %k2, %c1 : vector<64x8xf32>
  %b = attn_tile.load %h[%n, %c0] : memref<?x8xbf16> -> vector<64x8xbf16>
  %w = arith.extf %b : vector<64x8xbf16> to vector<64x8xf32>
  %t = arith.mulf %s, %w : vector<64x8xf32>
  attn_tile.store %t, %out[%c0, %c0] transposed : vector<64x8xf32>, memref<64x8xf32>
  attn_tile.return
}

// A number of rows may be known.

// CHECK-LABEL: llvm.func @known_rows
// CHECK:         %[[COUNT:.*]] = arith.constant 21 : i32
// CHECK:         arith.cmpi slt, %{{.*}}, %[[COUNT]] : i32
attn_tile.kernel @known_rows(%m: memref<64xf32>) attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %r = attn_tile.load %m[%c0] : memref<64xf32> -> vector<64xf32>
  %mask = vector.constant_mask [21] : vector<64xi1>
  %zero = arith.constant dense<0.0> : vector<64xf32>
  %kept = arith.select %mask, %r, %zero : vector<64xi1>, vector<64xf32>
  attn_tile.store %kept, %m[%c0] : vector<64xf32>, memref<64xf32>
  attn_tile.return
}

// -----

// A tile in fragment order is stored as it is loaded, four values of a thread at once.

// CHECK-LABEL: llvm.func @store_fragments
// CHECK-COUNT-2: llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
// CHECK-NOT:     llvm.store
attn_tile.kernel @store_fragments(%m: memref<?x64xf32>, %i: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %x = arith.constant dense<0.0> : vector<64x16xf32>
  attn_tile.store_fragments %x to %m[%i, %c0] : vector<64x16xf32> to memref<?x64xf32>
  attn_tile.return
}

// -----

// Where all columns exist, each thread of a quad loads 16 bytes of a row, and
// then has four words of each. What is transposed is stored in the same way, two
// times two 8x8 blocks at once, in rows of eight; what would be a part of such a
// row is stored by elements.

// CHECK-LABEL: llvm.func @groups
// CHECK-COUNT-2: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK-COUNT-4: nvvm.shfl.sync bfly
// CHECK-COUNT-4: "movmatrix.sync.aligned.m8n8.trans.b16 $0, $1;"
// CHECK:         llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK-COUNT-4: "movmatrix.sync.aligned.m8n8.trans.b16 $0, $1;"
// CHECK:         llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK-COUNT-4: llvm.store %{{.*}} {alignment = 2 : i64} : bf16, !llvm.ptr<1>
// CHECK-NOT:     llvm.store
attn_tile.kernel @groups(%m: memref<?x32xbf16>, %n: memref<?x8xbf16>, %out: memref<?x64xbf16>, %narrow: memref<?x60xbf16>, %i: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %x = attn_tile.load %m[%i, %c0] : memref<?x32xbf16> -> vector<64x32xbf16>
  attn_tile.store %x, %out[%i, %c0] transposed : vector<64x32xbf16>, memref<?x64xbf16>
  %y = attn_tile.load %n[%i, %c0] : memref<?x8xbf16> -> vector<64x8xbf16>
  attn_tile.store %y, %narrow[%i, %c0] transposed : vector<64x8xbf16>, memref<?x60xbf16>
  attn_tile.return
}

// -----

// Where the order does not matter, a thread keeps what it has loaded: what is left
// are the exchanges of the sum.

// CHECK-LABEL: llvm.func @any_order
// CHECK-COUNT-4: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK-COUNT-4: nvvm.shfl.sync bfly
// CHECK-NOT:     nvvm.shfl.sync
attn_tile.kernel @any_order(%m: memref<?x32xbf16>, %n: memref<?x32xbf16>, %out: memref<?xf32>, %i: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %acc = arith.constant dense<0.0> : vector<64xf32>
  %x = attn_tile.load %m[%i, %c0] any_order : memref<?x32xbf16> -> vector<64x32xbf16>
  %y = attn_tile.load %n[%i, %c0] any_order : memref<?x32xbf16> -> vector<64x32xbf16>
  %wx = arith.extf %x : vector<64x32xbf16> to vector<64x32xf32>
  %wy = arith.extf %y : vector<64x32xbf16> to vector<64x32xf32>
  %products = arith.mulf %wx, %wy : vector<64x32xf32>
  %sum = vector.multi_reduction <add>, %products, %acc [1] : vector<64x32xf32> to vector<64xf32>
  attn_tile.store %sum, %out[%i] : vector<64xf32>, memref<?xf32>
  attn_tile.return
}

// -----

// Rows of the destination that are not of the sequence are no rows of it, also
// where they are columns of the tile.

// CHECK-LABEL: llvm.func @transposed_within
// CHECK:         %[[LEFT:.*]] = arith.subi
// CHECK:         %[[END:.*]] = arith.addi %{{.*}}, %[[LEFT]]
// CHECK:         %[[ROWS:.*]] = arith.minsi %{{.*}}, %[[END]]
// CHECK:         arith.cmpi slt, %{{.*}}, %[[ROWS]]
// CHECK:         llvm.store
attn_tile.kernel @transposed_within(%m: memref<?x64xbf16>, %x: vector<64x32xbf16>, %i: index, %n: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  attn_tile.store %x, %m[%i, %c0] within(%i of %n) transposed : vector<64x32xbf16>, memref<?x64xbf16>
  attn_tile.return
}

// -----

// Through shared memory, a warp's part is added by one bulk operation, which
// must have read it before the next one and before the kernel ends.

// CHECK-LABEL: llvm.func @packed_in_bulk
// CHECK:         "cp.async.bulk.wait_group.read 0;
// CHECK-COUNT-2: "st.shared.v4.f32
// CHECK:         fence.proxy.async.shared::cta;
// CHECK-SAME:    cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [$0], [$1], 1024;
// CHECK:         "cp.async.bulk.wait_group 0;"
// CHECK-NEXT:    llvm.return
attn_tile.kernel @packed_in_bulk(%m: memref<?x64xf32>, %i: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %p = attn_tile.create_pipe at(1024) barriers(0) : !attn_tile.pipe<64x16xf32, stages = 1>
  %x = attn_tile.load_fragments %m[%i, %c0] : memref<?x64xf32> to vector<64x16xf32>
  %b = attn_tile.stage_fragments %x in %p : vector<64x16xf32>, !attn_tile.pipe<64x16xf32, stages = 1>
  attn_tile.bulk_reduce_add %b to %m[%i, %c0] : !attn_tile.buffer<64x16xf32> to memref<?x64xf32>
  attn_tile.return
}

// -----

// More rows than warpgroups have are multiplied in blocks, one after the other,
// that start at different blocks of columns of the transposed operand.

// CHECK-LABEL: llvm.func @mma_in_blocks
// CHECK:         wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {$0,$1,$2,$3,$4,$5,$6,$7}, a, b, first, 1, 1, 1, 1;
// CHECK-SAME:    {$0,$1,$2,$3,$4,$5,$6,$7}, a, b, rest
// CHECK-SAME:    wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {$8,$9,$10,$11,$12,$13,$14,$15}, a, b, first, 1, 1, 1, 1;
// CHECK-SAME:    {$8,$9,$10,$11,$12,$13,$14,$15}, a, b, rest
// CHECK-SAME:    wgmma.commit_group.sync.aligned;
attn_tile.kernel @mma_in_blocks(%out: memref<128x16xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %kp = attn_tile.create_pipe at(1024) barriers(0) : !attn_tile.pipe<64x128xbf16, stages = 1>
  %sp = attn_tile.create_pipe at(17408) barriers(16) : !attn_tile.pipe<64x16xbf16, stages = 1>
  %k = attn_tile.wait %kp[%c0] : !attn_tile.pipe<64x128xbf16, stages = 1>
  %b = attn_tile.wait %sp[%c0] : !attn_tile.pipe<64x16xbf16, stages = 1>
  %s = attn_tile.mma_start %k, %b transpose_lhs
      : !attn_tile.buffer<64x128xbf16>, !attn_tile.buffer<64x16xbf16>
      -> !attn_tile.pending<vector<128x16xf32>>
  %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<128x16xf32>>
  attn_tile.release %k : !attn_tile.buffer<64x128xbf16>
  attn_tile.release %b : !attn_tile.buffer<64x16xbf16>
  attn_tile.store %r, %out[%c0, %c0] : vector<128x16xf32>, memref<128x16xf32>
  attn_tile.return
}

// -----

// Of some rows, those of the warpgroups begin at the block of columns that the
// first one is in.

// CHECK-LABEL: llvm.func @mma_of_rows
// CHECK:         add.s64 a, $8, 4611686293305295360;
// CHECK-SAME:    wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {$0,$1,$2,$3,$4,$5,$6,$7}, a, b, first, 1, 1, 1, 1;
// CHECK-SAME:    add.s64 a, $8, 4611686293305295488;
attn_tile.kernel @mma_of_rows(%out: memref<64x16xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %kp = attn_tile.create_pipe at(1024) barriers(0) : !attn_tile.pipe<64x128xbf16, stages = 1>
  %sp = attn_tile.create_pipe at(17408) barriers(16) : !attn_tile.pipe<64x16xbf16, stages = 1>
  %k = attn_tile.wait %kp[%c0] : !attn_tile.pipe<64x128xbf16, stages = 1>
  %b = attn_tile.wait %sp[%c0] : !attn_tile.pipe<64x16xbf16, stages = 1>
  %s = attn_tile.mma_start %k, %b transpose_lhs first_row(64)
      : !attn_tile.buffer<64x128xbf16>, !attn_tile.buffer<64x16xbf16>
      -> !attn_tile.pending<vector<64x16xf32>>
  %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<64x16xf32>>
  attn_tile.release %k : !attn_tile.buffer<64x128xbf16>
  attn_tile.release %b : !attn_tile.buffer<64x16xbf16>
  attn_tile.store %r, %out[%c0, %c0] : vector<64x16xf32>, memref<64x16xf32>
  attn_tile.return
}

// -----

// Of some columns of a right-hand side, the first ones are in a later block.

// CHECK-LABEL: llvm.func @mma_of_columns
// CHECK:         add.s64 b, ${{[0-9]+}}, 4611686293338849792;
// CHECK-SAME:    wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16
attn_tile.kernel @mma_of_columns(%out: memref<64x16xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %kp = attn_tile.create_pipe at(1024) barriers(0) : !attn_tile.pipe<64x128xbf16, stages = 1>
  %sp = attn_tile.create_pipe at(17408) barriers(16) : !attn_tile.pipe<64x64xbf16, stages = 1>
  %k = attn_tile.wait %kp[%c0] : !attn_tile.pipe<64x128xbf16, stages = 1>
  %b = attn_tile.wait %sp[%c0] : !attn_tile.pipe<64x64xbf16, stages = 1>
  %s = attn_tile.mma_start %b, %k first_column(64)
      : !attn_tile.buffer<64x64xbf16>, !attn_tile.buffer<64x128xbf16>
      -> !attn_tile.pending<vector<64x16xf32>>
  %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<64x16xf32>>
  attn_tile.release %k : !attn_tile.buffer<64x128xbf16>
  attn_tile.release %b : !attn_tile.buffer<64x64xbf16>
  attn_tile.store %r, %out[%c0, %c0] : vector<64x16xf32>, memref<64x16xf32>
  attn_tile.return
}

// -----

// What does not depend on the query is summed up by the thread and by the
// threads of its warp that have the same keys, rows here, one of which adds it.

// CHECK-LABEL: llvm.func @scatter_rows
// CHECK-COUNT-6:  arith.addf
// CHECK:          nvvm.shfl.sync bfly
// CHECK-COUNT-2:  llvm.inline_asm has_side_effects {{.*}}"@$0 red.global.add.f32 [$1{{.*}}], $2;"
// CHECK-NOT:      red.global
// CHECK:          llvm.return
attn_tile.kernel @scatter_rows(%t: memref<64x16xf32>, %dest: memref<?xf32>, %n: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %x = attn_tile.load %t[%c0, %c0] unaligned : memref<64x16xf32> -> vector<64x16xf32>
  attn_tile.scatter_add %x into %dest at(%c0, %c0, %c0, %c0) lengths(%n, %n) transposed
      : vector<64x16xf32> into memref<?xf32> {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    attn_tile.yield %j : index
  }
  attn_tile.return
}

// -----

// CHECK-LABEL: llvm.func @scatter_elements
// CHECK-NOT:      nvvm.shfl.sync bfly
// CHECK-COUNT-8:  llvm.inline_asm has_side_effects {{.*}}"@$0 red.global.add.f32 [$1{{.*}}], $2;"
// CHECK-NOT:      red.global
// CHECK:          llvm.return
attn_tile.kernel @scatter_elements(%t: memref<64x16xf32>, %dest: memref<?x?xf32>, %n: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %x = attn_tile.load %t[%c0, %c0] unaligned : memref<64x16xf32> -> vector<64x16xf32>
  attn_tile.scatter_add %x into %dest at(%c0, %c0, %c0, %c0) lengths(%n, %n) : vector<64x16xf32> into memref<?x?xf32> {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    attn_tile.yield %i, %j : index, index
  }
  attn_tile.return
}

// -----

// At a distance there are as many partial sums as registers, wherever they go.

// CHECK-LABEL: llvm.func @scatter_table
// CHECK-NOT:      nvvm.shfl.sync bfly
// CHECK-COUNT-8:  llvm.inline_asm has_side_effects {{.*}}"@$0 red.global.add.f32 [$1{{.*}}], $2;"
// CHECK-NOT:      red.global
// CHECK:          llvm.return
attn_tile.kernel @scatter_table(%t: memref<64x16xf32>, %dest: memref<?xf32>, %n: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %x = attn_tile.load %t[%c0, %c0] unaligned : memref<64x16xf32> -> vector<64x16xf32>
  attn_tile.scatter_add %x into %dest at(%c0, %c0, %c0, %c0) lengths(%n, %n) : vector<64x16xf32> into memref<?xf32> {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %d = arith.subi %i, %j : index
    attn_tile.yield %d : index
  }
  attn_tile.return
}

// -----

// CHECK-LABEL: llvm.func @order()
// CHECK:         nvvm.griddepcontrol wait
// CHECK:         nvvm.griddepcontrol launch_dependents
attn_tile.kernel @order() attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  attn_tile.await_launches
  attn_tile.allow_launches
  attn_tile.return
}

// -----

// Two CTAs have the registers of these roles, but are launched with 80 of
// them for each thread, fewer than the consumers ask for and the producer gives
// back: there is one.

// CHECK-LABEL: llvm.func @one_group() attributes {{{.*}} nvvm.minctasm = 1 : i32
// CHECK:         nvvm.setmaxregister decrease 24
// CHECK:         nvvm.setmaxregister decrease 112
// CHECK-LABEL: llvm.func @two_groups() attributes {{{.*}} nvvm.minctasm = 2 : i32
// CHECK:         nvvm.setmaxregister decrease 24
// CHECK:         nvvm.setmaxregister increase 104
attn_tile.kernel @one_group() attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  attn_tile.role producer warpgroups(1) registers(24) {
  }
  attn_tile.role consumer warpgroups(2) registers(112) {
  }
  attn_tile.return
}

attn_tile.kernel @two_groups() attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  attn_tile.role producer warpgroups(1) registers(24) {
  }
  attn_tile.role consumer warpgroups(2) registers(104) {
  }
  attn_tile.return
}

// -----

// A thread loads 16 elements of 8 bits at a time. Rows after the sequence become
// zero where the thread has stored them.

// CHECK-LABEL: llvm.func @convert
// CHECK:         "ld.shared.v4.b32 {$0, $1, $2, $3}, [$4 + 0];"
// CHECK:         "bar.sync $0, $1;"
// CHECK:         cvt.rn.f16x2.e4m3x2 pair, low;
// CHECK-SAME:    cvt.rn.bf16x2.f32 $0, y, x;
// CHECK-COUNT-2: "st.shared.v4.b32 [$0 + 0], {$1, $2, $3, $4};"
// CHECK:         @clears st.shared.v4.b32
// CHECK:         "fence.proxy.async.shared::cta;"
// CHECK-NEXT:    llvm.mlir.constant(8 : i32)
// CHECK:         "bar.sync $0, $1;"
// CHECK:         mbarrier.arrive
attn_tile.kernel @convert(%i: index, %n: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %kp = attn_tile.create_pipe at(1024) barriers(0) : !attn_tile.pipe<64x128xf8E4M3FN, stages = 1>
  %sp = attn_tile.create_pipe at(9216) barriers(16) : !attn_tile.pipe<64x128xbf16, stages = 1>
  %c0 = arith.constant 0 : index
  %k = attn_tile.wait %kp[%c0] : !attn_tile.pipe<64x128xf8E4M3FN, stages = 1>
  %c = attn_tile.local_convert %k in %sp[%c0] within(%i of %n)
      : !attn_tile.buffer<64x128xf8E4M3FN>, !attn_tile.pipe<64x128xbf16, stages = 1>
  attn_tile.release %k : !attn_tile.buffer<64x128xf8E4M3FN>
  attn_tile.return
}

// -----

// E5M2 is the upper half of f16.

// CHECK-LABEL: llvm.func @convert_to_f16
// CHECK:         "prmt.b32 $0, $2, 0, 0x1404;\0Aprmt.b32 $1, $2, 0, 0x3424;"
// CHECK-NOT:     fma.rn
attn_tile.kernel @convert_to_f16(%i: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %kp = attn_tile.create_pipe at(1024) barriers(0) : !attn_tile.pipe<64x128xf8E5M2, stages = 1>
  %sp = attn_tile.create_pipe at(9216) barriers(16) : !attn_tile.pipe<64x128xf16, stages = 1>
  %k = attn_tile.wait %kp[%i] : !attn_tile.pipe<64x128xf8E5M2, stages = 1>
  %c = attn_tile.local_convert %k in %sp[%i]
      : !attn_tile.buffer<64x128xf8E5M2>, !attn_tile.pipe<64x128xf16, stages = 1>
  attn_tile.release %k : !attn_tile.buffer<64x128xf8E5M2>
  attn_tile.return
}

// -----

// Three idle warps, from warp 1 on, convert a tile while others multiply: they wait until the stage is empty, make their
// stores visible to MMAs, and each of them arrives. Each of them releases its source.

// CHECK-LABEL: llvm.func @convert_through_pipe
// CHECK:         %[[THREE:.*]] = llvm.mlir.constant(3 : i32)
// CHECK:         "ld.shared.v4.b32
// CHECK:         mbarrier.try_wait.parity
// CHECK:         "st.shared.v4.b32
// CHECK:         "fence.proxy.async.shared::cta;"
// CHECK:         bar.warp.sync 0xffffffff;
// CHECK-SAME:    @first mbarrier.arrive.shared::cta.b64
// CHECK:         "bar.warp.sync 0xffffffff;"
// CHECK:         mbarrier.arrive.shared::cta.b64
attn_tile.kernel @convert_through_pipe(%i: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %kp = attn_tile.create_pipe at(1024) barriers(0) : !attn_tile.pipe<64x128xf8E4M3FN, stages = 1>
  %sp = attn_tile.create_pipe at(9216) barriers(16) : !attn_tile.pipe<64x128xbf16, stages = 1>
  attn_tile.auxiliary_warps registers(72) {
    %k = attn_tile.wait %kp[%i] : !attn_tile.pipe<64x128xf8E4M3FN, stages = 1>
    attn_tile.convert %k to %sp[%i] : !attn_tile.buffer<64x128xf8E4M3FN>, !attn_tile.pipe<64x128xbf16, stages = 1>
    attn_tile.release %k : !attn_tile.buffer<64x128xf8E4M3FN>
  }
  attn_tile.role producer warpgroups(1) registers(72) {
  }
  attn_tile.role consumer warpgroups(1) registers(168) {
    %s = attn_tile.wait %sp[%i] : !attn_tile.pipe<64x128xbf16, stages = 1>
    attn_tile.release %s : !attn_tile.buffer<64x128xbf16>
  }
  attn_tile.return
}

// -----

// Warp w has rows from row 16 w on. The warps of the consumer are counted from its first one.

// CHECK-LABEL: llvm.func @has_rows
// CHECK:         %[[N:.*]] = arith.trunci %arg0 : i64 to i32
// CHECK:         %[[WARP:.*]] = arith.subi %{{.*}}, %c4_i32{{.*}} : i32
// CHECK:         %[[FIRST:.*]] = arith.muli %[[WARP]], %c16_i32{{.*}} : i32
// CHECK-NEXT:    arith.cmpi slt, %[[FIRST]], %[[N]]
attn_tile.kernel @has_rows(%n: index, %x: i32, %m: memref<4xi32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  attn_tile.role producer warpgroups(1) registers(24) {
  }
  attn_tile.role consumer warpgroups(1) registers(168) {
    %c0 = arith.constant 0 : index
    %h = attn_tile.has_rows below(%n)
    scf.if %h {
      memref.store %x, %m[%c0] : memref<4xi32>
    }
  }
  attn_tile.return
}

// -----

// A warpgroup stores and reads a tile of 128 rows in two steps of 64, one behind the other in each block of columns.

// CHECK-LABEL: llvm.func @two_steps_of_rows
// CHECK-COUNT-4: stmatrix
// CHECK: %[[STEP:.*]] = llvm.mlir.constant(8192 : i32)
// CHECK-NEXT: arith.addi %{{.*}}, %[[STEP]]
// CHECK-COUNT-4: stmatrix
// CHECK-NOT: stmatrix
// CHECK: fence.proxy.async
// CHECK: bar.sync
// CHECK-COUNT-4: ldmatrix
// CHECK: %[[NEXT:.*]] = llvm.mlir.constant(8192 : i32)
// CHECK-NEXT: arith.addi %{{.*}}, %[[NEXT]]
// CHECK-COUNT-4: ldmatrix
// CHECK-NOT: ldmatrix
attn_tile.kernel @two_steps_of_rows(%n: index, %out: memref<?x64xbf16>) attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %y = arith.constant dense<0.0> : vector<128x64xbf16>
  %p = attn_tile.create_pipe : !attn_tile.pipe<128x64xbf16, stages = 2>
  %q = attn_tile.create_pipe : !attn_tile.pipe<128x64xbf16, stages = 2>
  %a = attn_tile.local_store %y in %p[%n] : vector<128x64xbf16>, !attn_tile.pipe<128x64xbf16, stages = 2>
  %b = attn_tile.wait %q[%n] : !attn_tile.pipe<128x64xbf16, stages = 2>
  %r = attn_tile.read %b : !attn_tile.buffer<128x64xbf16> -> vector<128x64xbf16>
  attn_tile.release %b : !attn_tile.buffer<128x64xbf16>
  attn_tile.store %r, %out[%c0, %c0] : vector<128x64xbf16>, memref<?x64xbf16>
  attn_tile.return
}
