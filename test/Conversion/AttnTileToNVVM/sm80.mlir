// RUN: attn-opt %s -attn-tile-allocate-pipes=target=sm_80 -convert-attn-tile-to-nvvm=target=sm_80 -split-input-file | FileCheck %s

// All 64 threads fill a stage and release it.

// CHECK-LABEL: llvm.func @barriers
// CHECK-SAME:    attn_tile.block_size = 64 : i32
// CHECK-SAME:    attn_tile.shared_bytes = 17408 : i32
attn_tile.kernel @barriers(%n: index)
    attributes {layout = #attn_tile.row_blocks<warps = 2>} {
  // CHECK:      scf.if
  // CHECK:        %[[ALL:.*]] = llvm.mlir.constant(64 : i32) : i32
  // CHECK:        "mbarrier.init.shared.b64 [$0], $1;", "r,r" %{{.*}}, %[[ALL]]
  // CHECK:        %[[ALL:.*]] = llvm.mlir.constant(64 : i32) : i32
  // CHECK:        "mbarrier.init.shared.b64 [$0], $1;", "r,r" %{{.*}}, %[[ALL]]
  // CHECK-COUNT-2: mbarrier.init
  // CHECK-NOT:  mbarrier.init
  // CHECK:      nvvm.barrier
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x64xf16, stages = 2>
  // CHECK:      "{\0A.reg .pred done;\0Await_${:uid}:\0Ambarrier.test_wait.parity.shared.b64 done, [$0], $1;\0A@!done bra wait_${:uid};\0A}"
  // CHECK:      "cp.async.mbarrier.arrive.noinc.shared.b64 [$0];"
  %a = attn_tile.acquire %p[%n] : !attn_tile.pipe<64x64xf16, stages = 2>
  attn_tile.commit %a : !attn_tile.buffer<64x64xf16>
  // CHECK:      mbarrier.test_wait.parity.shared.b64
  // CHECK-NOT:  bar.warp
  // CHECK:      "{\0A.reg .b64 state;\0Ambarrier.arrive.shared.b64 state, [$0];\0A}", "r,~{memory}"
  %b = attn_tile.wait %p[%n] : !attn_tile.pipe<64x64xf16, stages = 2>
  attn_tile.release %b : !attn_tile.buffer<64x64xf16>
  attn_tile.return
}

// -----

// Eight threads copy a row of 128 bytes, 64 threads eight rows at a time: the
// swizzle is the same in all steps. Rows beyond the source are read as zeros.

// CHECK-LABEL: llvm.func @copy
// CHECK-SAME:    %[[PTR:[a-z0-9]+]]: !llvm.ptr, %[[ROWS:[a-z0-9]+]]: i64, %[[COLS:[a-z0-9]+]]: i64, %[[STRIDE:[a-z0-9]+]]: i64
attn_tile.kernel @copy(%m: memref<?x64xbf16, strided<[?, 1]>>, %row: index)
    attributes {layout = #attn_tile.row_blocks<warps = 2>} {
  %c0 = arith.constant 0 : index
  %p = attn_tile.create_pipe : !attn_tile.pipe<16x64xbf16, stages = 1>
  %a = attn_tile.acquire %p[%c0] : !attn_tile.pipe<16x64xbf16, stages = 1>
  // CHECK:      test_wait
  // CHECK:      %[[START:.*]] = llvm.getelementptr %{{.*}}[%{{.*}}] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
  // CHECK:      %[[STEP:.*]] = arith.muli %[[STRIDE]], %{{.*}} : i64
  // CHECK:      %[[LIMIT:.*]] = arith.trunci %[[ROWS]] : i64 to i32
  // CHECK:      %[[ALL:.*]] = llvm.mlir.constant(16 : i32) : i32
  // CHECK:      arith.xori
  // CHECK:      %[[INSIDE:.*]] = arith.cmpi slt, %{{.*}}, %[[LIMIT]]
  // CHECK:      %[[BYTES:.*]] = arith.select %[[INSIDE]], %[[ALL]], %{{.*}} : i32
  // CHECK:      "cp.async.cg.shared.global [$0 + 0], [$1 + 0], 16, $2;", "r,l,r,~{memory}" %[[DEST:.*]], %[[START]], %[[BYTES]]
  // CHECK:      %[[NEXT:.*]] = llvm.getelementptr %[[START]][%[[STEP]]] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i8
  // CHECK:      "cp.async.cg.shared.global [$0 + 1024], [$1 + 0], 16, $2;", "r,l,r,~{memory}" %[[DEST]], %[[NEXT]]
  // CHECK-NOT:  cp.async.cg
  // CHECK:      cp.async.mbarrier.arrive
  attn_tile.copy %m[%row, %c0] to %a : memref<?x64xbf16, strided<[?, 1]>> to !attn_tile.buffer<16x64xbf16>
  attn_tile.commit %a : !attn_tile.buffer<16x64xbf16>
  attn_tile.return
}

// -----

// 72 columns are a block of 64 and two chunks, the second of them zeros. The
// CTA copies 16 rows at a time, more than the last 16 of 24 are.

// CHECK-LABEL: llvm.func @copy_edges
attn_tile.kernel @copy_edges(%m: memref<?x72xbf16>, %row: index)
    attributes {layout = #attn_tile.row_blocks<warps = 8>} {
  %c0 = arith.constant 0 : index
  %p = attn_tile.create_pipe : !attn_tile.pipe<48x72xbf16, stages = 1>
  %a = attn_tile.acquire %p[%c0] : !attn_tile.pipe<48x72xbf16, stages = 1>
  // CHECK:      test_wait
  // CHECK:      arith.minsi
  // CHECK:      arith.maxsi
  // CHECK:      %[[BYTES:.*]] = arith.minsi
  // CHECK:      %[[USED:.*]] = arith.cmpi slt
  // CHECK:      "cp.async.cg.shared.global [$0 + 0], [$1 + 0], 16, $2;", "r,l,r,~{memory}"
  // CHECK:      %[[PART:.*]] = arith.select %{{.*}}, %[[BYTES]], %{{.*}} : i32
  // CHECK:      "@$3 cp.async.cg.shared.global [$0 + 6144], [$1 + 128], 16, $2;", "r,l,r,b,~{memory}" %{{.*}}, %{{.*}}, %[[PART]], %[[USED]]
  // CHECK:      %[[INSIDE:.*]] = arith.cmpi slt
  // CHECK:      %[[INTILE:.*]] = arith.cmpi slt
  // CHECK:      arith.select %[[INSIDE]]
  // CHECK:      "@$3 cp.async.cg.shared.global [$0 + 4096], [$1 + 0], 16, $2;", "r,l,r,b,~{memory}" %{{.*}}, %{{.*}}, %{{.*}}, %[[INTILE]]
  // CHECK:      %[[BOTH:.*]] = arith.andi %[[INTILE]], %[[USED]]
  // CHECK:      "@$3 cp.async.cg.shared.global [$0 + 10240], [$1 + 128], 16, $2;", "r,l,r,b,~{memory}" %{{.*}}, %{{.*}}, %{{.*}}, %[[BOTH]]
  // CHECK-NOT:  cp.async.cg
  attn_tile.copy %m[%row, %c0] to %a : memref<?x72xbf16> to !attn_tile.buffer<48x72xbf16>
  attn_tile.commit %a : !attn_tile.buffer<48x72xbf16>
  attn_tile.return
}

// -----

// With a single warp two steps make up the eight rows of the swizzle.

// CHECK-LABEL: llvm.func @copy_one_warp
attn_tile.kernel @copy_one_warp(%m: memref<?x64xf16>, %row: index)
    attributes {layout = #attn_tile.row_blocks<warps = 1>} {
  %c0 = arith.constant 0 : index
  %p = attn_tile.create_pipe : !attn_tile.pipe<16x64xf16, stages = 1>
  %a = attn_tile.acquire %p[%c0] : !attn_tile.pipe<16x64xf16, stages = 1>
  // CHECK:      "cp.async.cg.shared.global [$0 + 0], {{.*}}" %[[D0:[a-z0-9]+]],
  // CHECK:      "cp.async.cg.shared.global [$0 + 0], {{.*}}" %[[D1:[a-z0-9]+]],
  // CHECK:      "cp.async.cg.shared.global [$0 + 1024], {{.*}}" %[[D0]],
  // CHECK:      "cp.async.cg.shared.global [$0 + 1024], {{.*}}" %[[D1]],
  attn_tile.copy %m[%row, %c0] to %a : memref<?x64xf16> to !attn_tile.buffer<16x64xf16>
  attn_tile.commit %a : !attn_tile.buffer<16x64xf16>
  attn_tile.return
}

// -----

// Both operands staged: for each 16 contracted columns one ldmatrix for the 16
// rows of the warp, one for 16 rows of the transposed right-hand side.

// CHECK-LABEL: llvm.func @transposed
attn_tile.kernel @transposed(%out: memref<32x16xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 2>} {
  %c0 = arith.constant 0 : index
  %qp = attn_tile.create_pipe : !attn_tile.pipe<32x32xbf16, stages = 1>
  %kp = attn_tile.create_pipe : !attn_tile.pipe<16x32xbf16, stages = 1>
  %q = attn_tile.wait %qp[%c0] : !attn_tile.pipe<32x32xbf16, stages = 1>
  %k = attn_tile.wait %kp[%c0] : !attn_tile.pipe<16x32xbf16, stages = 1>
  // CHECK-DAG:  %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
  // CHECK:      %[[Q0:.*]] = llvm.inttoptr
  // CHECK:      %[[Q1:.*]] = llvm.inttoptr
  // CHECK:      %[[K0:.*]] = llvm.inttoptr
  // CHECK:      %[[K1:.*]] = llvm.inttoptr
  // CHECK:      %[[QP0:.*]] = llvm.getelementptr %[[Q0]][0]
  // CHECK-NEXT: %[[QM:.*]] = nvvm.ldmatrix %[[QP0]] {{{.*}}layout = #nvvm.mma_layout<row>, num = 4 : i32{{.*}}}
  // CHECK:      %[[A0:.*]] = llvm.extractvalue %[[QM]][0]
  // CHECK:      %[[KP0:.*]] = llvm.getelementptr %[[K0]][0]
  // CHECK-NEXT: %[[KM:.*]] = nvvm.ldmatrix %[[KP0]] {{{.*}}layout = #nvvm.mma_layout<row>, num = 4 : i32{{.*}}}
  // CHECK:      %[[B0:.*]] = llvm.extractvalue %[[KM]][0]
  // CHECK-NEXT: %[[B1:.*]] = llvm.extractvalue %[[KM]][1]
  // CHECK-NEXT: %[[B2:.*]] = llvm.extractvalue %[[KM]][2]
  // CHECK-NEXT: %[[B3:.*]] = llvm.extractvalue %[[KM]][3]
  // CHECK:      %[[D0:.*]] = nvvm.mma.sync A[%[[A0]], {{.*}}] B[%[[B0]], %[[B1]]] C[%[[ZERO]], %[[ZERO]], %[[ZERO]], %[[ZERO]]] {{{.*}}bf16
  // CHECK-SAME:     shape = #nvvm.shape<m = 16, n = 8, k = 16>}
  // CHECK:      %[[S0:.*]] = llvm.extractvalue %[[D0]][0]
  // CHECK:      nvvm.mma.sync A[%[[A0]], {{.*}}] B[%[[B2]], %[[B3]]]
  // CHECK:      %[[QP1:.*]] = llvm.getelementptr %[[Q1]][0]
  // CHECK:      nvvm.ldmatrix %[[QP1]]
  // CHECK:      %[[KP1:.*]] = llvm.getelementptr %[[K1]][0]
  // CHECK:      nvvm.ldmatrix %[[KP1]]
  // CHECK:      nvvm.mma.sync {{.*}} C[%[[S0]],
  // CHECK:      nvvm.mma.sync
  // CHECK-NOT:  nvvm.mma.sync
  %s = attn_tile.mma_start %q, %k transpose_rhs
      : !attn_tile.buffer<32x32xbf16>, !attn_tile.buffer<16x32xbf16>
      -> !attn_tile.pending<vector<32x16xf32>>
  %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<32x16xf32>>
  attn_tile.release %q : !attn_tile.buffer<32x32xbf16>
  attn_tile.release %k : !attn_tile.buffer<16x32xbf16>
  attn_tile.store %r, %out[%c0, %c0] : vector<32x16xf32>, memref<32x16xf32>
  attn_tile.return
}

// -----

// The left-hand side in registers, two blocks of 16 rows for the warp. 72
// columns are four times 16 and, in the second block of 64, 8.

// CHECK-LABEL: llvm.func @registers
attn_tile.kernel @registers(%p: vector<32x16xf16>, %acc: vector<32x72xf32>, %out: memref<32x72xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 1>} {
  %c0 = arith.constant 0 : index
  %vp = attn_tile.create_pipe : !attn_tile.pipe<16x72xf16, stages = 1>
  %v = attn_tile.wait %vp[%c0] : !attn_tile.pipe<16x72xf16, stages = 1>
  // CHECK:          nvvm.ldmatrix %{{.*}} {{{.*}}layout = #nvvm.mma_layout<col>, num = 4 : i32
  // CHECK-COUNT-4:  nvvm.mma.sync {{.*}} : (vector<2xf16>, vector<2xf16>, f32)
  // CHECK:          nvvm.ldmatrix
  // CHECK-COUNT-4:  nvvm.mma.sync
  // CHECK:          nvvm.ldmatrix
  // CHECK-COUNT-4:  nvvm.mma.sync
  // CHECK:          nvvm.ldmatrix
  // CHECK-COUNT-4:  nvvm.mma.sync
  // CHECK:          llvm.getelementptr %{{.*}}[2048]
  // CHECK-NEXT:     nvvm.ldmatrix
  // CHECK-COUNT-2:  nvvm.mma.sync
  // CHECK-NOT:      nvvm.mma.sync
  // CHECK-NOT:      nvvm.ldmatrix
  %s = attn_tile.mma_start %p, %v acc %acc
      : vector<32x16xf16>, !attn_tile.buffer<16x72xf16>
      -> !attn_tile.pending<vector<32x72xf32>>
  %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<32x72xf32>>
  attn_tile.release %v : !attn_tile.buffer<16x72xf16>
  attn_tile.store %r, %out[%c0, %c0] : vector<32x72xf32>, memref<32x72xf32>
  attn_tile.return
}

// -----

// All threads clear the rows that are not of the sequence, then wait for each
// other.

// CHECK-LABEL: llvm.func @clear
attn_tile.kernel @clear(%i: index, %n: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  // CHECK:       scf.if
  // CHECK-COUNT-2: llvm.inline_asm has_side_effects {{.*}}st.shared.v4.b32
  // CHECK:         nvvm.barrier
  %p = attn_tile.create_pipe at(1024) barriers(0) : !attn_tile.pipe<64x128xbf16, stages = 1>
  %b = attn_tile.wait %p[%i] : !attn_tile.pipe<64x128xbf16, stages = 1>
  attn_tile.clear %b within(%i of %n) : !attn_tile.buffer<64x128xbf16>
  attn_tile.release %b : !attn_tile.buffer<64x128xbf16>
  attn_tile.return
}

// -----

// Of a row, the first 24 of 64 threads copy a chunk each, as it is.

// CHECK-LABEL: llvm.func @row
// CHECK-SAME:    attn_tile.shared_bytes = 1024 : i32
attn_tile.kernel @row(%m: memref<2x?xf32>, %h: index, %i: index, %out: memref<?x96xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 2>} {
  %p = attn_tile.create_pipe : !attn_tile.pipe<1x96xf32, stages = 2>
  // CHECK:      %[[INSIDE:.*]] = arith.cmpi slt
  // CHECK:      "@$3 cp.async.cg.shared.global [$0 + 0], [$1 + 0], 16, $2;", "r,l,r,b,~{memory}" %{{.*}}, %{{.*}}, %{{.*}}, %[[INSIDE]]
  // CHECK-NOT:  cp.async.cg
  // CHECK:      cp.async.mbarrier.arrive
  %a = attn_tile.acquire %p[%i] : !attn_tile.pipe<1x96xf32, stages = 2>
  attn_tile.copy %m[%h, %i] to %a : memref<2x?xf32> to !attn_tile.buffer<1x96xf32>
  attn_tile.commit %a : !attn_tile.buffer<1x96xf32>
  // CHECK:      test_wait
  // CHECK-COUNT-12: llvm.load {{.*}} : !llvm.ptr<3> -> vector<2xf32>
  // CHECK-NOT:  llvm.load
  // CHECK:      mbarrier.arrive.shared.b64
  %f = attn_tile.wait %p[%i] : !attn_tile.pipe<1x96xf32, stages = 2>
  %t = attn_tile.read %f : !attn_tile.buffer<1x96xf32> -> vector<1x96xf32>
  attn_tile.release %f : !attn_tile.buffer<1x96xf32>
  %c0 = arith.constant 0 : index
  %b = vector.broadcast %t : vector<1x96xf32> to vector<32x96xf32>
  attn_tile.store %b, %out[%c0, %c0] : vector<32x96xf32>, memref<?x96xf32>
  attn_tile.return
}

// -----

// A thread stores the words of two rows of each block of 16 rows of its warp, and a barrier follows. Chunks are chosen
// by bits of the address. One more barrier comes before if there is a single stage.

// CHECK-LABEL: llvm.func @local_store
// CHECK:         nvvm.barrier
// CHECK-NOT:     nvvm.barrier
// CHECK-COUNT-8: llvm.inttoptr
// CHECK-COUNT-32: llvm.store {{.*}} : i32, !llvm.ptr<3>
// CHECK-NOT:     llvm.store
// CHECK:         nvvm.barrier
// CHECK:         nvvm.barrier
// CHECK-COUNT-4: llvm.store {{.*}} : i32, !llvm.ptr<3>
// CHECK-NOT:     llvm.store
// CHECK:         nvvm.barrier
attn_tile.kernel @local_store(%n: index) attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %y = arith.constant dense<0.0> : vector<128x64xbf16>
  %z = arith.constant dense<0.0> : vector<64x16xf16>
  %p = attn_tile.create_pipe : !attn_tile.pipe<128x64xbf16, stages = 2>
  %q = attn_tile.create_pipe : !attn_tile.pipe<64x16xf16, stages = 1>
  %a = attn_tile.local_store %y in %p[%n] : vector<128x64xbf16>, !attn_tile.pipe<128x64xbf16, stages = 2>
  %b = attn_tile.local_store %z in %q[%n] : vector<64x16xf16>, !attn_tile.pipe<64x16xf16, stages = 1>
  attn_tile.return
}

// -----

// Of f32, a thread has a pair of each eight columns. The eight columns of a block of 32 are chosen by bits 5 and 6 of the
// address; the blocks of 64 rows follow one another.

// CHECK-LABEL: llvm.func @pairs_of_f32
// CHECK:         %[[PAIR1:.+]] = llvm.mlir.constant(32 : i32) : i32
// CHECK-NEXT:    arith.xori %[[ADDRESS:.+]], %[[PAIR1]] : i32
// CHECK:         %[[PAIR2:.+]] = llvm.mlir.constant(64 : i32) : i32
// CHECK-NEXT:    arith.xori %[[ADDRESS]], %[[PAIR2]] : i32
// CHECK:         %[[PAIR3:.+]] = llvm.mlir.constant(96 : i32) : i32
// CHECK-NEXT:    arith.xori %[[ADDRESS]], %[[PAIR3]] : i32
// CHECK-COUNT-16: llvm.load {{.*}} {alignment = 8 : i64} : !llvm.ptr<3> -> vector<2xf32>
// CHECK-NOT:     llvm.load
// CHECK:         llvm.getelementptr %{{.+}}[8192]
// CHECK:         llvm.store {{.*}} {alignment = 8 : i64} : vector<2xf32>, !llvm.ptr<3>
// CHECK:         llvm.getelementptr %{{.+}}[9216]
// CHECK:         llvm.store {{.*}} {alignment = 8 : i64} : vector<2xf32>, !llvm.ptr<3>
// CHECK:         nvvm.barrier
// CHECK-COUNT-16: llvm.store {{.*}} {alignment = 8 : i64} : vector<2xf32>, !llvm.ptr<3>
// CHECK-NOT:     llvm.store
// CHECK:         nvvm.barrier
attn_tile.kernel @pairs_of_f32(%n: index) attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x64xf32, stages = 2>
  %q = attn_tile.create_pipe : !attn_tile.pipe<64x64xf32, stages = 2>
  %b = attn_tile.wait %p[%n] : !attn_tile.pipe<64x64xf32, stages = 2>
  %r = attn_tile.read %b : !attn_tile.buffer<64x64xf32> -> vector<64x64xf32>
  %z = arith.constant dense<0.0> : vector<64x32xf32>
  %c = attn_tile.local_store %z in %q[%n] from(32) : vector<64x32xf32>, !attn_tile.pipe<64x64xf32, stages = 2>
  %d = attn_tile.local_store %r in %q[%n] : vector<64x64xf32>, !attn_tile.pipe<64x64xf32, stages = 2>
  attn_tile.release %b : !attn_tile.buffer<64x64xf32>
  attn_tile.return
}

// -----

// A warp reads 16 rows and 16 columns by each ldmatrix.

// CHECK-LABEL: llvm.func @read
// CHECK-COUNT-4: nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<row>
// CHECK-NOT:     nvvm.ldmatrix
attn_tile.kernel @read(%n: index) attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %p = attn_tile.create_pipe : !attn_tile.pipe<128x32xbf16, stages = 2>
  %q = attn_tile.create_pipe : !attn_tile.pipe<128x32xbf16, stages = 2>
  %b = attn_tile.wait %p[%n] : !attn_tile.pipe<128x32xbf16, stages = 2>
  %r = attn_tile.read %b : !attn_tile.buffer<128x32xbf16> -> vector<128x32xbf16>
  %c = attn_tile.local_store %r in %q[%n] : vector<128x32xbf16>, !attn_tile.pipe<128x32xbf16, stages = 2>
  attn_tile.release %b : !attn_tile.buffer<128x32xbf16>
  attn_tile.return
}

// -----

// Before sm_89 there is no instruction: a multiplication changes the bias of the
// exponent, and infinities and NaNs get the largest exponent.

// CHECK-LABEL: llvm.func @convert
// CHECK:         "ld.shared.v4.b32 {$0, $1, $2, $3}, [$4 + 0];"
// CHECK:         nvvm.barrier
// CHECK:         add.u32 beyond, beyond, 16843009;
// CHECK-SAME:    fma.rn.bf16x2 $0, rest, sign, minus;
// CHECK-SAME:    mul.lo.u32 rest, rest, 32640;
// CHECK:         "st.shared.v4.b32 [$0 + 0], {$1, $2, $3, $4};"
// CHECK:         nvvm.barrier
attn_tile.kernel @convert(%i: index)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %kp = attn_tile.create_pipe at(1024) barriers(0) : !attn_tile.pipe<64x128xf8E4M3FN, stages = 1>
  %sp = attn_tile.create_pipe at(9216) barriers(16) : !attn_tile.pipe<64x128xbf16, stages = 1>
  %k = attn_tile.wait %kp[%i] : !attn_tile.pipe<64x128xf8E4M3FN, stages = 1>
  %c = attn_tile.local_convert %k in %sp[%i]
      : !attn_tile.buffer<64x128xf8E4M3FN>, !attn_tile.pipe<64x128xbf16, stages = 1>
  attn_tile.release %k : !attn_tile.buffer<64x128xf8E4M3FN>
  attn_tile.return
}
