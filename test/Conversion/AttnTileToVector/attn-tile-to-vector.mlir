// RUN: attn-opt %s --convert-attn-tile-to-vector='vector-bits=256 num-registers=16' --canonicalize --split-input-file | FileCheck %s

// A matmul: a block of accumulators in registers, a loop over the depth.

// CHECK-LABEL: func.func private @product(
// CHECK-SAME:    %[[A:[a-z0-9]+]]: memref<?x8xf32>, %[[B:[a-z0-9]+]]: memref<?x16xf32>, %[[C:[a-z0-9]+]]: memref<?x16xf32>)
// CHECK-NOT:     attn_tile
// CHECK-DAG:     %[[ABUF:.*]] = memref.alloca() {{.*}} : memref<8x8xf32>
// CHECK-DAG:     %[[BBUF:.*]] = memref.alloca() {{.*}} : memref<8x16xf32>
// CHECK-DAG:     %[[CBUF:.*]] = memref.alloca() {{.*}} : memref<8x16xf32>
// Rows that exist are copied, others are zero.
// CHECK:         %[[DIM:.*]] = memref.dim %[[A]], %c0
// CHECK:         %[[LEFT:.*]] = arith.maxsi %[[DIM]], %c0
// CHECK:         %[[ROWS:.*]] = arith.minsi %[[LEFT]], %c8
// CHECK:         scf.for %[[R:.*]] = %c0 to %[[ROWS]] step %c1
// CHECK:           vector.transfer_read %[[A]][%[[R]], %c0], %{{.*}} {in_bounds = [true]} : memref<?x8xf32>, vector<8xf32>
// CHECK:         scf.for %{{.*}} = %[[ROWS]] to %c8 step %c1
// CHECK:           vector.store %{{.*}} : memref<8x8xf32>, vector<8xf32>
// CHECK:         scf.for %[[I:.*]] = %c0 to %c8 step %c4
// CHECK:           scf.for %[[K:.*]] = %c0 to %c8 step %c1 iter_args({{.*}}) -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>,
// CHECK-SAME:          vector<8xf32>, vector<8xf32>, vector<8xf32>)
// CHECK:             vector.load %{{.*}}[%[[K]], %c0] : memref<8x16xf32>, vector<8xf32>
// CHECK:             vector.load %{{.*}}[%[[K]], %c8] : memref<8x16xf32>, vector<8xf32>
// CHECK:             memref.load %{{.*}}[%[[I]], %[[K]]] : memref<8x8xf32>
// CHECK-COUNT-8:     vector.fma
// CHECK:             scf.yield
// CHECK-COUNT-8:   vector.store
// CHECK:         vector.transfer_write %{{.*}}, %[[C]]
// CHECK:         return
attn_tile.kernel @product(%a: memref<?x8xf32>, %b: memref<?x16xf32>, %c: memref<?x16xf32>) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : vector<8x16xf32>
  %at = attn_tile.load %a[%c0, %c0] : memref<?x8xf32> -> vector<8x8xf32>
  %bt = attn_tile.load %b[%c0, %c0] : memref<?x16xf32> -> vector<8x16xf32>
  %ct = vector.contract {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]}
      %at, %bt, %zero : vector<8x8xf32>, vector<8x16xf32> into vector<8x16xf32>
  attn_tile.store %ct, %c[%c0, %c0] : vector<8x16xf32>, memref<?x16xf32>
  attn_tile.return
}

// CHECK-LABEL: func.func @launch
// CHECK-NEXT:    call @product(%arg0, %arg1, %arg1)
func.func @launch(%a: memref<?x8xf32>, %b: memref<?x16xf32>) {
  attn_tile.launch @product args(%a, %b, %b : memref<?x8xf32>, memref<?x16xf32>, memref<?x16xf32>)
  return
}

// -----

// A chain of elementwise operations is evaluated where it is needed, piece by
// piece. The mask's predicate is vectorised; the last columns may not exist.

// CHECK-LABEL: func.func private @mask(
// CHECK-SAME:    %[[SRC:[a-z0-9]+]]: memref<?x12xbf16>, %{{.*}}: memref<?x12xf32>, %[[ROW:[a-z0-9]+]]: index, %[[SQ:[a-z0-9]+]]: index,
// CHECK-SAME:    %[[SKV:[a-z0-9]+]]: index)
// CHECK:         vector.transfer_read %[[SRC]]{{.*}} {in_bounds = [true]} : memref<?x12xbf16>, vector<8xbf16>
// CHECK:         vector.transfer_read %[[SRC]]{{.*}} : memref<?x12xbf16>, vector<8xbf16>
// CHECK-NOT:     memref.alloca
// CHECK:         scf.for
// CHECK:           %[[BF:.*]] = arith.truncf %{{.*}} : vector<8xf32> to vector<8xbf16>
// CHECK:           %[[X:.*]] = arith.extf %[[BF]] : vector<8xbf16> to vector<8xf32>
// CHECK:           %[[VALID:.*]] = vector.create_mask %[[SKV]] : vector<8xi1>
// CHECK:           %[[CAUSAL:.*]] = arith.cmpi sle, %{{.*}} : vector<8xindex>
// CHECK:           %[[KEEP:.*]] = arith.andi %[[VALID]], %[[CAUSAL]]
// CHECK:           arith.select %[[KEEP]], %[[X]], %{{.*}} : vector<8xi1>, vector<8xf32>
// CHECK:           vector.transfer_write
attn_tile.kernel @mask(%src: memref<?x12xbf16>, %dst: memref<?x12xf32>, %row: index, %sq: index, %skv: index) {
  %c0 = arith.constant 0 : index
  %t = attn_tile.load %src[%c0, %c0] : memref<?x12xbf16> -> vector<8x16xbf16>
  %x = arith.extf %t : vector<8x16xbf16> to vector<8x16xf32>
  %m = attn_tile.mask %x at(%c0, %c0, %row, %c0) lengths(%sq, %skv) by(#attn.causal) : vector<8x16xf32>
  attn_tile.store %m, %dst[%c0, %c0] : vector<8x16xf32>, memref<?x12xf32>
  attn_tile.return
}

// -----

// Regions: what does not depend on the key stays scalar, consecutive elements
// are read at once if they exist, others are gathered for keys that exist.

// CHECK-LABEL: func.func private @regions(
// CHECK-SAME:    %[[SRC:[a-z0-9]+]]: memref<?x8xf32>, %[[BIAS:[a-z0-9]+]]: memref<?x?xf32>, %[[SLOPES:[a-z0-9]+]]: memref<?xf32>,
// CHECK-SAME:    %[[TABLE:[a-z0-9]+]]: memref<?xf32>, %[[H:[a-z0-9]+]]: index
// CHECK:         %[[SIZE:.*]] = memref.dim %[[SLOPES]], %c0
// CHECK:         %[[NOT_EMPTY:.*]] = arith.maxui %[[SIZE]], %c1
// CHECK:         %[[LAST:.*]] = arith.subi %[[NOT_EMPTY]], %c1
// CHECK:         %[[BOUNDED:.*]] = arith.minui %[[H]], %[[LAST]]
// CHECK:         %[[HAS:.*]] = arith.cmpi ne, %{{.*}}, %c0
// CHECK:         %[[SLOPE:.*]] = scf.if %[[HAS]] -> (f32) {
// CHECK:           memref.load %[[SLOPES]][%[[BOUNDED]]]
// CHECK:         } else {
// CHECK:           scf.yield %cst{{.*}} : f32
// CHECK:         %[[FITS:.*]] = arith.cmpi sge, %{{.*}}, %c8
// CHECK:         %[[INSIDE:.*]] = arith.andi %[[FITS]], %{{.*}}
// CHECK:         %[[B:.*]] = scf.if %[[INSIDE]] -> (vector<8xf32>) {
// CHECK:           vector.load %[[BIAS]]{{.*}} : memref<?x?xf32>, vector<8xf32>
// CHECK:         } else {
// CHECK:           vector.gather %[[BIAS]]{{.*}} : memref<?x?xf32>
// CHECK:         %[[WIDE:.*]] = vector.broadcast %[[SLOPE]] : f32 to vector<8xf32>
// CHECK:         arith.mulf %[[B]], %[[WIDE]]
// CHECK:         %[[REM:.*]] = arith.remsi {{.*}} : vector<8xindex>
// CHECK:         %[[ENTRY:.*]] = arith.minui %[[REM]], %{{.*}} : vector<8xindex>
// CHECK:         vector.gather %[[TABLE]][%c0] [%[[ENTRY]]], %{{.*}}
// CHECK:         math.tanh %{{.*}} : vector<8xf32>
attn_tile.kernel @regions(%src: memref<?x8xf32>, %bias: memref<?x?xf32>, %slopes: memref<?xf32>, %table: memref<?xf32>, %h: index, %sq: index, %skv: index) {
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  %t = attn_tile.load %src[%c0, %c0] : memref<?x8xf32> -> vector<8x8xf32>
  %m = attn_tile.map %t at(%c0, %h, %c0, %c0) lengths(%sq, %skv) : vector<8x8xf32> {
  ^bb0(%x: f32, %bb: index, %hh: index, %i: index, %j: index):
    %slope = memref.load %slopes[%hh] : memref<?xf32>
    %b = memref.load %bias[%i, %j] : memref<?x?xf32>
    %y = arith.mulf %b, %slope : f32
    %z = arith.addf %x, %y : f32
    %r = arith.remsi %j, %c3 : index
    %g = memref.load %table[%r] : memref<?xf32>
    %w = arith.addf %z, %g : f32
    %u = math.tanh %w : f32
    attn_tile.yield %u : f32
  }
  attn_tile.store %m, %src[%c0, %c0] : vector<8x8xf32>, memref<?x8xf32>
  attn_tile.return
}

// -----

// Elements that begin before the memref, or end after it, where a key has an
// offset, are gathered.

// CHECK-LABEL: func.func private @distance(
// CHECK-SAME:    %{{.*}}: memref<?x8xf32>, %[[TABLE:[a-z0-9]+]]: memref<64xf32>
// CHECK:         %[[ENDS:.*]] = arith.cmpi sle, %{{.*}}, %c64
// CHECK:         %[[BEGINS:.*]] = arith.cmpi sge, %[[FIRST:.*]], %c0
// CHECK:         %[[INSIDE:.*]] = arith.andi %[[ENDS]], %[[BEGINS]]
// CHECK:         scf.if %[[INSIDE]] -> (vector<8xf32>) {
// CHECK:           vector.load %[[TABLE]][%[[FIRST]]]
// CHECK:         } else {
// CHECK:           %[[BOUNDED:.*]] = arith.minui %{{.*}}, %{{.*}} : vector<8xindex>
// CHECK:           vector.gather %[[TABLE]][%c0] [%[[BOUNDED]]]
attn_tile.kernel @distance(%src: memref<?x8xf32>, %table: memref<64xf32>, %h: index, %sq: index, %skv: index) {
  %c0 = arith.constant 0 : index
  %t = attn_tile.load %src[%c0, %c0] : memref<?x8xf32> -> vector<8x8xf32>
  %m = attn_tile.map %t at(%c0, %h, %c0, %c0) lengths(%sq, %skv) : vector<8x8xf32> {
  ^bb0(%x: f32, %bb: index, %hh: index, %i: index, %j: index):
    %d = arith.subi %j, %i : index
    %y = memref.load %table[%d] : memref<64xf32>
    %z = arith.addf %x, %y : f32
    attn_tile.yield %z : f32
  }
  attn_tile.store %m, %src[%c0, %c0] : vector<8x8xf32>, memref<?x8xf32>
  attn_tile.return
}

// -----

// A region with control flow runs once for each key that exists.

// CHECK-LABEL: func.func private @control_flow(
// CHECK:         vector.store %{{.*}} : memref<8xf32>, vector<8xf32>
// CHECK:         %[[END:.*]] = arith.minsi
// CHECK:         scf.for %{{.*}} = %c0 to %[[END]] step %c1
// CHECK:           memref.load %{{.*}} : memref<8xf32>
// CHECK:           arith.select
// CHECK:           memref.store %{{.*}} : memref<8xf32>
// CHECK:         vector.load %{{.*}} : memref<8xf32>, vector<8xf32>
attn_tile.kernel @control_flow(%src: memref<?x8xf32>, %h: index, %sq: index, %skv: index) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %t = attn_tile.load %src[%c0, %c0] : memref<?x8xf32> -> vector<8x8xf32>
  %m = attn_tile.map %t at(%c0, %h, %c0, %c0) lengths(%sq, %skv) : vector<8x8xf32> {
  ^bb0(%x: f32, %bb: index, %hh: index, %i: index, %j: index):
    %odd = arith.cmpi ult, %j, %i : index
    %u = scf.if %odd -> f32 {
      scf.yield %x : f32
    } else {
      scf.yield %zero : f32
    }
    attn_tile.yield %u : f32
  }
  attn_tile.store %m, %src[%c0, %c0] : vector<8x8xf32>, memref<?x8xf32>
  attn_tile.return
}

// -----

// The accumulator that a loop carries is updated in place: one buffer. A tile is
// accumulated from 0, and then added to the accumulator.

// CHECK-LABEL: func.func private @in_place(
// CHECK-DAG:     memref.alloca() {{.*}} : memref<8x8xf32>
// CHECK-DAG:     memref.alloca() {{.*}} : memref<8x16xf32>
// CHECK-DAG:     memref.alloca() {{.*}} : memref<8x16xf32>
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : vector<8xf32>
// CHECK-NOT:     memref.alloca()
// CHECK:         scf.for %{{.*}} = %c0 to %{{.*}} step %c1
// CHECK:           %[[TILE:.*]]:8 = scf.for {{.*}} iter_args(%{{[a-z0-9]*}} = %[[ZERO]], %{{[a-z0-9]*}} = %[[ZERO]],
// CHECK:             vector.fma
// CHECK:           %[[SCALED:.*]] = arith.mulf
// CHECK:           %[[SUM:.*]] = arith.addf %[[SCALED]], %[[TILE]]#0
// CHECK:           vector.store %[[SUM]]
// CHECK-NOT:     memref.alloca()
// CHECK:         return
attn_tile.kernel @in_place(%a: memref<?x8xf32>, %b: memref<?x16xf32>, %c: memref<?x16xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : vector<8x16xf32>
  %two = arith.constant dense<2.0> : vector<8x16xf32>
  %at = attn_tile.load %a[%c0, %c0] : memref<?x8xf32> -> vector<8x8xf32>
  %bt = attn_tile.load %b[%c0, %c0] : memref<?x16xf32> -> vector<8x16xf32>
  %r = scf.for %t = %c0 to %n step %c1 iter_args(%acc = %zero) -> vector<8x16xf32> {
    %scaled = arith.mulf %acc, %two : vector<8x16xf32>
    %ct = vector.contract {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
        iterator_types = ["parallel", "parallel", "reduction"]}
        %at, %bt, %scaled : vector<8x8xf32>, vector<8x16xf32> into vector<8x16xf32>
    scf.yield %ct : vector<8x16xf32>
  }
  attn_tile.store %r, %c[%c0, %c0] : vector<8x16xf32>, memref<?x16xf32>
  attn_tile.return
}

// -----

// CHECK-LABEL: func.func private @scalars(
// CHECK-SAME:    %[[L:[a-z0-9]+]]: memref<?xi32>, %[[N:[a-z0-9]+]]: index)
// CHECK:         %[[SUM:.*]] = scf.for %{{.*}} = %{{.*}} to %[[N]] step %{{.*}} iter_args
// CHECK:           %[[SIZE:.*]] = memref.dim %[[L]]
// CHECK:           %[[HAS:.*]] = arith.cmpi ne, %[[SIZE]], %{{.*}}
// CHECK:           scf.if %[[HAS]]
// CHECK-NEXT:        memref.load %[[L]]
// CHECK:         %[[M:.*]] = arith.minsi %[[SUM]], %[[N]]
// CHECK:         scf.for %[[I:.*]] = %{{.*}} to %[[M]]
// CHECK:           memref.store %{{.*}}, %[[L]][%[[I]]]
attn_tile.kernel @scalars(%list: memref<?xi32>, %n: index) {
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

// A maximum of floats begins with NaN, which does not count.

// CHECK-LABEL: func.func private @largest(
// CHECK-DAG:     %[[LEAST:.*]] = arith.constant 0x7FC00000 : f32
// CHECK:         scf.for {{.*}} iter_args(%[[SO_FAR:.*]] = %[[LEAST]])
// CHECK:           arith.maxnumf %[[SO_FAR]], %{{.*}} : f32
attn_tile.kernel @largest(%list: memref<?xf32>, %n: index, %out: memref<f32>) {
  %s = attn_tile.reduce to(%n) by [#vector.kind<maxnumf>] : f32 {
  ^bb0(%i: index):
    %x = memref.load %list[%i] : memref<?xf32>
    attn_tile.yield %x : f32
  }
  memref.store %s, %out[] : memref<f32>
  attn_tile.return
}

// -----

// The rank of a number is carried along.

// CHECK-LABEL: func.func private @compact(
// CHECK-SAME:    %[[L:[a-z0-9]+]]: memref<?xindex>, %[[N:[a-z0-9]+]]: index)
// CHECK:         scf.for %[[I:.*]] = %{{.*}} to %[[N]] step %{{.*}} iter_args(%[[RANK:.*]] = %{{.*}})
// CHECK:           %[[C:.*]] = arith.cmpi ne, %[[I]], %[[N]]
// CHECK:           scf.if %[[C]] -> (index)
// CHECK:             memref.store %[[I]], %[[L]][%[[RANK]]]
// CHECK:             %[[NEXT:.*]] = arith.addi %[[RANK]]
// CHECK:             scf.yield %[[NEXT]]
// CHECK:           else
// CHECK:             scf.yield %[[RANK]]
attn_tile.kernel @compact(%l: memref<?xindex>, %n: index) {
  %m = attn_tile.warp_compact to(%n) where {
  ^bb0(%i: index):
    %c = arith.cmpi ne, %i, %n : index
    attn_tile.yield %c : i1
  } do {
  ^bb0(%i: index, %rank: index):
    memref.store %i, %l[%rank] : memref<?xindex>
    attn_tile.yield
  }
  attn_tile.return
}

// -----

// Rows of row vectors and of tiles that are not of a sequence.

// CHECK-LABEL: func.func private @sequence(
// CHECK-SAME:    %[[A:[a-z0-9]+]]: memref<?xf32>, %[[I:[a-z0-9]+]]: index, %[[N:[a-z0-9]+]]: index)
// CHECK:         %[[LEFT:.*]] = arith.subi %[[N]], %[[I]]
// CHECK:         %[[ROWS:.*]] = arith.maxsi %[[LEFT]]
// CHECK:         %[[MASK:.*]] = vector.create_mask %[[ROWS]] : vector<8xi1>
// CHECK:         vector.transfer_read %[[A]][%[[I]]], %{{.*}}, %[[MASK]]
// CHECK:         vector.transfer_write %{{.*}}, %[[A]][%[[I]]], %{{.*}} : vector<8xf32>
attn_tile.kernel @sequence(%a: memref<?xf32>, %i: index, %n: index) {
  %v = attn_tile.load %a[%i] within(%i of %n) : memref<?xf32> -> vector<8xf32>
  attn_tile.store %v, %a[%i] within(%i of %n) : vector<8xf32>, memref<?xf32>
  attn_tile.return
}

// -----

// CHECK-LABEL: func.func @error_flag(
// CHECK:         %[[SLOT:.*]] = llvm.alloca
// CHECK:         llvm.call @attnrtGetErrorFlag(%{{.*}}, %[[SLOT]])
// CHECK:         %[[WORD:.*]] = llvm.load %[[SLOT]]
// CHECK:         builtin.unrealized_conversion_cast %{{.*}} to memref<1xi32>
func.func @error_flag() -> i32 {
  %c0 = arith.constant 0 : index
  %word = attn_tile.error_flag : memref<1xi32>
  %0 = memref.load %word[%c0] : memref<1xi32>
  return %0 : i32
}

// -----

// Values of bf16 pass between blocks as bits: LLVM would round subnormal ones to
// zero.

// CHECK-LABEL: func.func private @bits(
// CHECK:         %[[BITS:.*]] = scf.if %{{.*}} -> (i16) {
// CHECK:           %[[X:.*]] = memref.load
// CHECK:           %[[B:.*]] = arith.bitcast %[[X]] : bf16 to i16
// CHECK:           scf.yield %[[B]] : i16
// CHECK:         arith.bitcast %[[BITS]] : i16 to bf16
attn_tile.kernel @bits(%x: memref<?xbf16>, %n: index) {
  %c0 = arith.constant 0 : index
  %s = memref.load %x[%c0] : memref<?xbf16>
  memref.store %s, %x[%n] : memref<?xbf16>
  attn_tile.return
}

// -----

// Each row is multiplied by its factor, also where that is one.

// CHECK-LABEL: func.func private @rescale(
// CHECK:         %[[F:.*]] = memref.load %{{.*}}[%[[I:.*]]] : memref<8xf32>
// CHECK:         %[[FS:.*]] = vector.broadcast %[[F]] : f32 to vector<8xf32>
// CHECK:         arith.mulf %{{.*}}, %[[FS]] : vector<8xf32>
attn_tile.kernel @rescale(%a: memref<8x16xf32>, %f: memref<8xf32>, %c: memref<8x16xf32>)
    attributes {schedule = #attn_tile.sequential<query_tile = 8, key_tile = 8>} {
  %c0 = arith.constant 0 : index
  %one = arith.constant 1 : index
  scf.forall (%x) in (%one) {
    %ta = attn_tile.load %a[%c0, %c0] stream(%c0 of %one) : memref<8x16xf32> -> vector<8x16xf32>
    %tf = attn_tile.load %f[%c0] stream(%c0 of %one) : memref<8xf32> -> vector<8xf32>
    %r = attn_tile.rescale %ta by %tf : vector<8x16xf32>, vector<8xf32>
    attn_tile.store %r, %c[%c0, %c0] : vector<8x16xf32>, memref<8x16xf32>
  }
  attn_tile.return
}
