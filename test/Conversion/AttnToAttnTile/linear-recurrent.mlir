// RUN: attn-opt %s --convert-attn-to-attn-tile=target=sm_90a --split-input-file | FileCheck %s

// A warp has 32 columns: eight threads four of them each in a row, and four threads parts of the rows. Columns that do not
// exist are not stored; their threads load those of another one. Sums over rows are sums of threads.

// CHECK-LABEL: attn_tile.kernel @gated_linear_attention(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: memref<2x4x3x8xbf16>, %[[K:[a-z0-9]+]]: memref<2x2x3x8xbf16>,
// CHECK-SAME: %[[V:[a-z0-9]+]]: memref<2x1x3x40xbf16>, %[[G:[a-z0-9]+]]: memref<2x4x3xf32>,
// CHECK-SAME: %[[BETA:[a-z0-9]+]]: memref<2x4x3xf32>, %{{.*}}: memref<2x4x8x40xf32>, %[[O:[a-z0-9]+]]: memref<2x4x3x40xbf16>,
// CHECK-SAME: %[[S:[a-z0-9]+]]: memref<2x4x8x40xf32>, %[[FAULT:[a-z0-9]+]]: memref<1xi32>)
// CHECK: scf.forall (%[[B:.*]], %[[H:.*]], %[[TILE:.*]]) in (%c2{{.*}}, %c4{{.*}}, %c2{{.*}}) {
// CHECK: attn_tile.thread_for to(%c32{{.*}}) {
// CHECK: %[[KH:.*]] = arith.divui %[[H]], %c2
// CHECK: %[[VH:.*]] = arith.divui %[[H]], %c4
// CHECK: %[[GROUP:.*]] = arith.divui %i, %c8
// CHECK: %[[OF_TILE:.*]] = arith.muli %[[TILE]], %c32
// CHECK: %[[ROW:.*]] = arith.muli %[[GROUP]], %c2
// CHECK: %[[COLUMN:.*]] = arith.addi %[[OF_TILE]]
// CHECK: %[[IS_FIRST:.*]] = arith.cmpi eq, %[[GROUP]], %c0
// CHECK: %[[EXISTS:.*]] = arith.cmpi ult, %[[COLUMN]], %c40
// CHECK: %[[IS_WRITER:.*]] = arith.andi %[[IS_FIRST]], %[[EXISTS]]
// CHECK: %[[SAFE:.*]] = arith.select %[[EXISTS]], %[[COLUMN]], %[[OF_TILE]]
// CHECK: %[[S0:.*]] = memref.load %[[S]][%[[B]], %[[H]], %{{.*}}, %{{.*}}] {alignment = 16 : i64, attn_tile.in_bounds}
// CHECK-COUNT-7: memref.load %[[S]]
// CHECK: %[[LAST:.*]]:9 = scf.for %[[T:.*]] = %c0{{.*}} to %c3{{.*}} step %c1{{.*}} iter_args(%[[STATE:[a-z0-9]+]] = %[[S0]],
// CHECK: memref.load %[[Q]][%[[B]], %[[H]], %[[T]],
// CHECK: memref.load %[[K]][%[[B]], %[[KH]], %[[T]],
// CHECK: memref.load %[[V]][%[[B]], %[[VH]], %[[T]],
// CHECK: %[[LOG:.*]] = memref.load %[[G]][%[[B]], %[[H]], %[[T]]]
// CHECK: %[[LARGEST:.*]] = arith.maximumf %{{.*}}, %[[LOG]]
// CHECK: %[[DECAY:.*]] = math.exp2
// CHECK: %[[R:.*]] = arith.mulf %[[STATE]], %[[DECAY]]
// CHECK: %[[FACTOR:.*]] = memref.load %[[BETA]][%[[B]], %[[H]], %[[T]]]
// CHECK: %[[KNOWN:.*]] = gpu.subgroup_reduce{{ +}}add %{{.*}} cluster(size = 4, stride = 8)
// CHECK: %[[NEW:.*]] = arith.subf %{{.*}}, %[[KNOWN]]
// CHECK: %[[U:.*]] = arith.mulf %[[FACTOR]], %[[NEW]]
// CHECK: %[[NEXT:.*]] = math.fma %{{.*}}, %[[U]], %[[R]]
// CHECK: gpu.subgroup_reduce{{ +}}add %{{.*}} cluster(size = 4, stride = 8)
// CHECK: scf.if %[[IS_WRITER]] {
// CHECK-COUNT-4: memref.store %{{.*}}, %[[O]][%[[B]], %[[H]], %[[T]],
// CHECK: scf.yield %[[NEXT]], {{.*}}, %[[LARGEST]] :
// CHECK: scf.if %[[EXISTS]] {
// CHECK: memref.store %[[LAST]]#0, %[[S]][%[[B]], %[[H]], %{{.*}}, %{{.*}}] {alignment = 16 : i64}
// CHECK: %[[IS_WRONG:.*]] = arith.cmpf ugt, %[[LAST]]#8,
// CHECK: scf.if %[[IS_WRONG]] {
// CHECK: memref.store %{{.*}}, %[[FAULT]]
func.func @gated(%q: memref<2x4x3x8xbf16>, %k: memref<2x2x3x8xbf16>, %v: memref<2x1x3x40xbf16>, %g: memref<2x4x3xf32>,
                 %b: memref<2x4x3xf32>, %s: memref<2x4x8x40xf32>, %o: memref<2x4x3x40xbf16>) {
  attn.linear_attention ins(%q, %k, %v : memref<2x4x3x8xbf16>, memref<2x2x3x8xbf16>, memref<2x1x3x40xbf16>)
      outs(%o, %s : memref<2x4x3x40xbf16>, memref<2x4x8x40xf32>) log_decay(%g : memref<2x4x3xf32>)
      beta(%b : memref<2x4x3xf32>) initial_state(%s : memref<2x4x8x40xf32>) causal
      schedule(#attn_tile.linear_recurrent<value_tile = 32>)
  return
}

// -----

// A single token has no loop, and the decay of a head is loaded once. Without an initial state there are no loads of it.

// CHECK-LABEL: attn_tile.kernel @head_linear_attention(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: memref<?x4x1x16xf16>, %{{.*}}: memref<4xf32>, %{{.*}}: memref<?x4x1x16xf16>, %{{.*}}: memref<1xi32>)
// CHECK: memref.load %{{.*}}[%{{.*}}] {attn_tile.in_bounds} : memref<4xf32>
// CHECK-NOT: scf.for %
// CHECK-NOT: scf.if
// CHECK: gpu.subgroup_reduce{{ +}}add %{{.*}} cluster(size = 16, stride = 2)
func.func @head(%q: memref<?x4x1x16xf16>, %g: memref<4xf32>) {
  attn.linear_attention ins(%q, %q, %q : memref<?x4x1x16xf16>, memref<?x4x1x16xf16>, memref<?x4x1x16xf16>)
      outs(%q : memref<?x4x1x16xf16>) log_decay(%g : memref<4xf32>) causal
      schedule(#attn_tile.linear_recurrent<value_tile = 8>)
  return
}

// -----

// Without a mask, all tokens see the last state: a second loop writes the output.

// CHECK-LABEL: attn_tile.kernel @full_linear_attention(
// CHECK: %[[LAST:.*]]:{{[0-9]+}} = scf.for
// CHECK-NOT: gpu.subgroup_reduce
// CHECK: scf.yield
// CHECK: scf.for %[[T:.*]] = %c0
// CHECK-NOT: iter_args
// CHECK: arith.mulf %{{.*}}, %[[LAST]]#0
// CHECK: gpu.subgroup_reduce{{ +}}add
func.func @full(%q: memref<?x4x?x16xf16>) {
  attn.linear_attention ins(%q, %q, %q : memref<?x4x?x16xf16>, memref<?x4x?x16xf16>, memref<?x4x?x16xf16>)
      outs(%q : memref<?x4x?x16xf16>) schedule(#attn_tile.linear_recurrent<value_tile = 16>)
  return
}

// -----

// Rows whose distance is known, and not their length, have one kernel.

// CHECK: attn_tile.kernel @padded_linear_attention(
// CHECK-LABEL: func @padded(
// CHECK-NOT: scf.if
// CHECK: attn_tile.launch @padded_linear_attention
// CHECK-NOT: attn_tile.launch
func.func @padded(%q: memref<?x4x1x16xf16>, %s: memref<?x4x16x16xf32, strided<[?, 512, 32, 1]>>) {
  attn.linear_attention ins(%q, %q, %q : memref<?x4x1x16xf16>, memref<?x4x1x16xf16>, memref<?x4x1x16xf16>)
      outs(%q, %s : memref<?x4x1x16xf16>, memref<?x4x16x16xf32, strided<[?, 512, 32, 1]>>)
      initial_state(%s : memref<?x4x16x16xf32, strided<[?, 512, 32, 1]>>) causal
      schedule(#attn_tile.linear_recurrent<value_tile = 16>)
  return
}

// -----

// Addresses of such rows take the registers of half of the columns, if twice as many parts of the rows have the same size:
// 128 rows have sixteen parts, and 136 rows eight.

// CHECK-LABEL: attn_tile.kernel @padded_128_linear_attention(
// CHECK: gpu.subgroup_reduce{{ +}}add %{{.*}} cluster(size = 16, stride = 2)
func.func @padded_128(%q: memref<?x4x1x128xbf16>, %s: memref<?x4x128x128xf32, strided<[?, 32768, 256, 1]>>) {
  attn.linear_attention ins(%q, %q, %q : memref<?x4x1x128xbf16>, memref<?x4x1x128xbf16>, memref<?x4x1x128xbf16>)
      outs(%q, %s : memref<?x4x1x128xbf16>, memref<?x4x128x128xf32, strided<[?, 32768, 256, 1]>>)
      initial_state(%s : memref<?x4x128x128xf32, strided<[?, 32768, 256, 1]>>) causal
      schedule(#attn_tile.linear_recurrent<value_tile = 16>)
  return
}

// -----

// CHECK-LABEL: attn_tile.kernel @padded_136_linear_attention(
// CHECK: gpu.subgroup_reduce{{ +}}add %{{.*}} cluster(size = 8, stride = 4)
func.func @padded_136(%q: memref<?x4x1x136xbf16>, %s: memref<?x4x136x136xf32, strided<[?, 34816, 256, 1]>>) {
  attn.linear_attention ins(%q, %q, %q : memref<?x4x1x136xbf16>, memref<?x4x1x136xbf16>, memref<?x4x1x136xbf16>)
      outs(%q, %s : memref<?x4x1x136xbf16>, memref<?x4x136x136xf32, strided<[?, 34816, 256, 1]>>)
      initial_state(%s : memref<?x4x136x136xf32, strided<[?, 34816, 256, 1]>>) causal
      schedule(#attn_tile.linear_recurrent<value_tile = 16>)
  return
}

// -----

// Rows of a normalizer's state are 65 elements apart: its elements are accessed one by one.

// CHECK-LABEL: attn_tile.kernel @unaligned_linear_attention(
// CHECK-NOT: alignment = 16 {{.*}} memref<?x4x64x64xf32
// CHECK: memref.load %{{.*}} {attn_tile.in_bounds} : memref<?x4x64x64xf32, strided<[16640, 4160, 65, 1]>>
// CHECK-NOT: alignment = {{[0-9]+}} {{.*}} memref<?x4x64x64xf32
// CHECK: memref.store %{{[^ ]*}}, %{{[^ ]*}}[%{{[^{]*}}] : memref<?x4x64x64xf32, strided<[16640, 4160, 65, 1]>>
// CHECK-NOT: alignment = {{[0-9]+}} {{.*}} memref<?x4x64x64xf32
// CHECK-LABEL: func @unaligned(
func.func @unaligned(%q: memref<?x4x1x64xbf16>, %s: memref<?x4x64x65xf32>, %n: index) {
  %view = memref.subview %s[0, 0, 0, 0] [%n, 4, 64, 64] [1, 1, 1, 1]
      : memref<?x4x64x65xf32> to memref<?x4x64x64xf32, strided<[16640, 4160, 65, 1]>>
  attn.linear_attention ins(%q, %q, %q : memref<?x4x1x64xbf16>, memref<?x4x1x64xbf16>, memref<?x4x1x64xbf16>)
      outs(%q, %view : memref<?x4x1x64xbf16>, memref<?x4x64x64xf32, strided<[16640, 4160, 65, 1]>>)
      initial_state(%view : memref<?x4x64x64xf32, strided<[16640, 4160, 65, 1]>>) causal
      schedule(#attn_tile.linear_recurrent<value_tile = 16>)
  return
}

// -----

// A work item of a packed sequence goes through its tokens, between boundaries that are limited to the tokens there are.
// There is a work item without any state, which reports that numbers are inconsistent.

// CHECK-LABEL: attn_tile.kernel @sequences_linear_attention(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: memref<1x4x?x16xf16>, %[[K:[a-z0-9]+]]: memref<1x4x?x16xf16>, %{{[a-z0-9]+}}: memref<1x4x?x16xf16>,
// CHECK-SAME: %[[S:[a-z0-9]+]]: memref<?x4x16x16xf32>, %[[C:[a-z0-9]+]]: memref<?xi32>, %[[O:[a-z0-9]+]]: memref<1x4x?x16xf16>,
// CHECK-SAME: %[[LAST:[a-z0-9]+]]: memref<?x4x16x16xf32>, %[[FAULT:[a-z0-9]+]]: memref<1xi32>)
// CHECK: %[[NUM:.*]] = memref.dim %[[C]],
// CHECK: %[[SOME:.*]] = arith.maxui %[[NUM]], %c1
// CHECK: %[[COUNT:.*]] = arith.subi %[[SOME]], %c1
// CHECK: %[[HAS_SEQUENCE:.*]] = arith.cmpi ne, %[[COUNT]], %c0
// CHECK: %[[LENGTH:.*]] = memref.dim %[[Q]],
// CHECK: %[[HAS_NO_TOKEN:.*]] = arith.cmpi eq, %[[LENGTH]], %c0
// CHECK: arith.ori %[[HAS_SEQUENCE]], %[[HAS_NO_TOKEN]]
// CHECK: memref.dim %[[S]],
// CHECK: %[[STATES:.*]] = memref.dim %[[LAST]],
// CHECK: %[[GIVEN:.*]] = arith.minui %{{.*}}, %[[STATES]]
// CHECK: %[[ARE_EQUAL:.*]] = arith.cmpi eq, %[[STATES]], %[[COUNT]]
// CHECK: %[[CONSISTENT:.*]] = arith.andi %{{.*}}, %[[ARE_EQUAL]]
// CHECK: %[[ITEMS:.*]] = arith.maxui %[[GIVEN]], %c1
// CHECK: scf.forall (%[[N:.*]], %[[H:.*]], %{{.*}}) in (%[[ITEMS]], %c4{{.*}}, %c1{{.*}}) {
// CHECK: %[[HAS_STATES:.*]] = arith.cmpi ult, %[[N]], %[[GIVEN]]
// CHECK: %[[WRONG:.*]] = scf.if %[[HAS_STATES]] -> (i1) {
// CHECK: memref.load %[[S]][%[[N]], %[[H]],
// CHECK: %[[BEGIN:.*]] = memref.load %[[C]][%[[N]]] {attn_tile.in_bounds}
// CHECK: %[[GIVEN_BEGIN:.*]] = arith.index_cast %[[BEGIN]]
// CHECK: %[[END:.*]] = memref.load %[[C]][%{{.*}}] {attn_tile.in_bounds}
// CHECK: %[[GIVEN_END:.*]] = arith.index_cast %[[END]]
// CHECK-DAG: %[[POSITIVE:.*]] = arith.maxsi %[[GIVEN_BEGIN]], %c0
// CHECK-DAG: %[[FIRST:.*]] = arith.minsi %[[POSITIVE]], %{{.*}}
// CHECK: %[[LATER:.*]] = arith.maxsi %[[FIRST]], %{{.*}}
// CHECK: %[[TOKENS:.*]] = arith.subi %[[LATER]], %[[FIRST]]
// CHECK: %[[UNSORTED:.*]] = arith.cmpi sgt, %[[GIVEN_BEGIN]], %[[GIVEN_END]]
// CHECK: %[[BEGINS_ELSEWHERE:.*]] = arith.cmpi ne, %[[GIVEN_BEGIN]],
// CHECK: arith.ori %[[UNSORTED]], %[[BEGINS_ELSEWHERE]]
// CHECK: %[[ENDS_ELSEWHERE:.*]] = arith.cmpi ne, %[[GIVEN_END]],
// CHECK: %[[IS_WRONG:.*]] = arith.ori %{{.*}}, %[[ENDS_ELSEWHERE]]
// CHECK: scf.for %[[T:.*]] = %c0{{.*}} to %[[TOKENS]] step
// CHECK: %[[TOKEN:.*]] = arith.addi %[[FIRST]], %[[T]]
// CHECK: memref.load %[[Q]][%c0{{.*}}, %[[H]], %[[TOKEN]],
// CHECK: memref.load %[[K]][%c0{{.*}}, %[[H]], %[[TOKEN]],
// CHECK: memref.store %{{.*}}, %[[O]][%c0{{.*}}, %[[H]], %[[TOKEN]],
// CHECK: memref.store %{{.*}}, %[[LAST]][%[[N]], %[[H]],
// CHECK: scf.yield %[[IS_WRONG]] : i1
// CHECK: } else {
// CHECK: scf.yield %false{{.*}} : i1
// CHECK: %[[INCONSISTENT:.*]] = arith.xori %[[CONSISTENT]], %true
// CHECK: %[[REPORTED:.*]] = arith.ori %[[WRONG]], %[[INCONSISTENT]]
// CHECK: scf.if %[[REPORTED]] {
// CHECK: memref.store %{{.*}}, %[[FAULT]]
func.func @sequences(%q: memref<1x4x?x16xf16>, %k: memref<1x4x?x16xf16>, %v: memref<1x4x?x16xf16>, %s: memref<?x4x16x16xf32>,
                     %c: memref<?xi32>, %o: memref<1x4x?x16xf16>, %last: memref<?x4x16x16xf32>) {
  attn.linear_attention ins(%q, %k, %v : memref<1x4x?x16xf16>, memref<1x4x?x16xf16>, memref<1x4x?x16xf16>)
      outs(%o, %last : memref<1x4x?x16xf16>, memref<?x4x16x16xf32>) initial_state(%s : memref<?x4x16x16xf32>)
      sequences(%c : memref<?xi32>) causal schedule(#attn_tile.linear_recurrent<value_tile = 16>)
  return
}
