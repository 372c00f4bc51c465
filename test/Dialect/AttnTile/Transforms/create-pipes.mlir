// RUN: attn-opt %s -attn-tile-create-pipes -split-input-file | FileCheck %s
// RUN: attn-opt %s -attn-tile-create-pipes='stages=3 query-stages=2' -split-input-file \
// RUN:   | FileCheck %s --check-prefix=STAGES
// RUN: attn-opt %s -attn-tile-create-pipes='local-stages=1' -split-input-file \
// RUN:   | FileCheck %s --check-prefix=LOCAL
// RUN: attn-opt %s -attn-tile-create-pipes='read-once-stages=1 max-fragment-bytes=16383' -split-input-file \
// RUN:   | FileCheck %s --check-prefix=SCARCE
// RUN: attn-opt %s -attn-tile-create-pipes='score-stages=1' -split-input-file \
// RUN:   | FileCheck %s --check-prefix=SCORES
// RUN: attn-opt %s -attn-tile-create-pipes='share-rows' -split-input-file \
// RUN:   | FileCheck %s --check-prefix=ROWS-SHARED
// RUN: attn-opt %s -attn-tile-create-pipes='lhs-registers' -split-input-file \
// RUN:   | FileCheck %s --check-prefix=HELD
// RUN: attn-opt %s -attn-tile-create-pipes='read-operands' -split-input-file \
// RUN:   | FileCheck %s --check-prefix=READ
// RUN: attn-opt %s -attn-tile-create-pipes -split-input-file \
// RUN:   --remarks-filter='attn-tile.*' --remark-format=emitRemark 2>&1 >/dev/null \
// RUN:   | FileCheck %s --check-prefix=REMARK

#lhs = affine_map<(m, n, k) -> (m, k)>
#keys = affine_map<(m, n, k) -> (n, k)>
#values = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>

// One pipe for each source: the loads of keys before and in the loop share one.

// CHECK-LABEL: attn_tile.kernel @rotated
// CHECK-SAME:    %[[Q:[a-z0-9]+]]: memref<?x16xf16>, %[[K:[a-z0-9]+]]: memref<?x16xf16>, %[[V:[a-z0-9]+]]: memref<?x16xf16>
// CHECK-NEXT:    %[[QPIPE:.*]] = attn_tile.create_pipe : <16x16xf16, stages = 1>
// CHECK-NEXT:    %[[KPIPE:.*]] = attn_tile.create_pipe : <8x16xf16, stages = 2>
// CHECK-NEXT:    %[[VPIPE:.*]] = attn_tile.create_pipe : <8x16xf16, stages = 2>
// CHECK-NOT:     attn_tile.create_pipe
// STAGES:        attn_tile.create_pipe : <16x16xf16, stages = 2>
// STAGES-NEXT:   attn_tile.create_pipe : <8x16xf16, stages = 3>
// STAGES-NEXT:   attn_tile.create_pipe : <8x16xf16, stages = 3>
attn_tile.kernel @rotated(%q: memref<?x16xf16>, %k: memref<?x16xf16>, %v: memref<?x16xf16>,
                          %out: memref<?x16xf32>, %count: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : vector<16x8xf32>
  %acc0 = arith.constant dense<1.0> : vector<16x16xf32>
  // CHECK-DAG:  %[[C0:.*]] = arith.constant 0 : index
  // CHECK-DAG:  %[[ACC0:.*]] = arith.constant dense<1.000000e+00>
  // CHECK:      %[[QA:.*]] = attn_tile.acquire %[[QPIPE]][%[[C0]]]
  // CHECK-NEXT: attn_tile.copy %[[Q]][%[[C0]], %[[C0]]] to %[[QA]]
  // CHECK-NEXT: attn_tile.commit %[[QA]]
  // CHECK-NEXT: %[[KA:.*]] = attn_tile.acquire %[[KPIPE]][%[[C0]]]
  // CHECK-NEXT: attn_tile.copy %[[K]][%[[C0]], %[[C0]]] to %[[KA]]
  // CHECK-NEXT: attn_tile.commit %[[KA]]
  // CHECK-NEXT: %[[QT:.*]] = attn_tile.wait %[[QPIPE]][%[[C0]]]
  // CHECK-NEXT: %[[KT:.*]] = attn_tile.wait %[[KPIPE]][%[[C0]]]
  // CHECK-NEXT: %[[START:.*]] = attn_tile.mma_start %[[QT]], %[[KT]] transpose_rhs :
  // CHECK-NEXT: %[[S:.*]] = attn_tile.mma_wait %[[START]]
  // CHECK-NEXT: attn_tile.release %[[KT]]
  // CHECK-NEXT: %[[P0:.*]] = arith.truncf %[[S]]
  %qt = attn_tile.load %q[%c0, %c0] stream(%c0 of %c1) : memref<?x16xf16> -> vector<16x16xf16>
  %kt0 = attn_tile.load %k[%c0, %c0] stream(%c0 of %count) : memref<?x16xf16> -> vector<8x16xf16>
  %s0 = vector.contract {indexing_maps = [#lhs, #keys, #result],
      iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
      %qt, %kt0, %zero : vector<16x16xf16>, vector<8x16xf16> into vector<16x8xf32>
  %p0 = arith.truncf %s0 : vector<16x8xf32> to vector<16x8xf16>
  // CHECK-NEXT: %[[LOOP:.*]]:2 = scf.for %[[T:.*]] = %[[C1:.*]] to {{.*}} iter_args(%[[P:.*]] = %[[P0]], %[[ACC:.*]] = %[[ACC0]])
  %done:2 = scf.for %t = %c1 to %count step %c1 iter_args(%p = %p0, %acc = %acc0)
      -> (vector<16x8xf16>, vector<16x16xf32>) {
    // Both MMAs are in flight, and each is waited for when it is used.
    // CHECK:        %[[KT:.*]] = attn_tile.wait %[[KPIPE]][%[[T]]]
    // CHECK-NEXT:   %[[SSTART:.*]] = attn_tile.mma_start %[[QT]], %[[KT]] transpose_rhs :
    // CHECK-NEXT:   %[[PREVIOUS:.*]] = arith.subi %[[T]]
    // CHECK-NEXT:   attn_tile.acquire %[[VPIPE]][%[[PREVIOUS]]]
    // CHECK-NEXT:   attn_tile.copy
    // CHECK-NEXT:   attn_tile.commit
    // CHECK-NEXT:   %[[VT:.*]] = attn_tile.wait %[[VPIPE]][%[[PREVIOUS]]]
    // CHECK-NEXT:   %[[OSTART:.*]] = attn_tile.mma_start %[[P]], %[[VT]] acc %[[ACC]] :
    // CHECK-NEXT:   %[[S:.*]] = attn_tile.mma_wait %[[SSTART]]
    // CHECK-NEXT:   attn_tile.release %[[KT]]
    // CHECK-NEXT:   math.exp2 %[[S]]
    // CHECK-NEXT:   %[[O:.*]] = attn_tile.mma_wait %[[OSTART]]
    // CHECK-NEXT:   attn_tile.release %[[VT]]
    // The MMA reads the registers of %p until here.
    // CHECK-NEXT:   arith.truncf
    // CHECK-NEXT:   arith.negf %[[O]]
    %kt = attn_tile.load %k[%t, %c0] stream(%t of %count) : memref<?x16xf16> -> vector<8x16xf16>
    %s = vector.contract {indexing_maps = [#lhs, #keys, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %qt, %kt, %zero : vector<16x16xf16>, vector<8x16xf16> into vector<16x8xf32>
    %previous = arith.subi %t, %c1 : index
    %vt = attn_tile.load %v[%previous, %c0] stream(%previous of %count) : memref<?x16xf16> -> vector<8x16xf16>
    %o = vector.contract {indexing_maps = [#lhs, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %p, %vt, %acc : vector<16x8xf16>, vector<8x16xf16> into vector<16x16xf32>
    %e = math.exp2 %s : vector<16x8xf32>
    %p1 = arith.truncf %e : vector<16x8xf32> to vector<16x8xf16>
    %scaled = arith.negf %o : vector<16x16xf32>
    scf.yield %p1, %scaled : vector<16x8xf16>, vector<16x16xf32>
  }
  // CHECK:      attn_tile.release %[[QT]]
  // CHECK:      %[[VT:.*]] = attn_tile.wait %[[VPIPE]]
  // CHECK-NEXT: %[[START:.*]] = attn_tile.mma_start %[[LOOP]]#0, %[[VT]] acc %[[LOOP]]#1
  // CHECK-NEXT: %[[O:.*]] = attn_tile.mma_wait %[[START]]
  // CHECK-NEXT: attn_tile.release %[[VT]]
  // CHECK-NEXT: attn_tile.store %[[O]]
  %last = arith.subi %count, %c1 : index
  %vt = attn_tile.load %v[%last, %c0] stream(%last of %count) : memref<?x16xf16> -> vector<8x16xf16>
  %o = vector.contract {indexing_maps = [#lhs, #values, #result],
      iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
      %done#0, %vt, %done#1 : vector<16x8xf16>, vector<8x16xf16> into vector<16x16xf32>
  attn_tile.store %o, %out[%c0, %c0] : vector<16x16xf32>, memref<?x16xf32>
  attn_tile.return
}

// -----

#lhs = affine_map<(m, n, k) -> (m, k)>
#values = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>

// Left alone: the right-hand side is needed in registers, so the left-hand side
// of the same MMA cannot be staged either.

// REMARK: Remark="no stream of tiles feeds MMAs alone"

// CHECK-LABEL: attn_tile.kernel @registers
// CHECK-NOT:     attn_tile.create_pipe
// CHECK:         attn_tile.load
// CHECK:         attn_tile.load
// CHECK:         vector.contract
attn_tile.kernel @registers(%a: memref<?x16xf16>, %out: memref<?x16xf32>, %other: memref<?x16xf16>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : vector<16x16xf32>
  %x = attn_tile.load %a[%c0, %c0] stream(%c0 of %c1) : memref<?x16xf16> -> vector<16x16xf16>
  %y = attn_tile.load %other[%c0, %c0] stream(%c0 of %c1) : memref<?x16xf16> -> vector<16x16xf16>
  %o = vector.contract {indexing_maps = [#lhs, #values, #result],
      iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
      %x, %y, %zero : vector<16x16xf16>, vector<16x16xf16> into vector<16x16xf32>
  attn_tile.store %o, %out[%c0, %c0] : vector<16x16xf32>, memref<?x16xf32>
  attn_tile.store %y, %other[%c0, %c0] : vector<16x16xf16>, memref<?x16xf16>
  attn_tile.return
}

// -----

#lhs = affine_map<(m, n, k) -> (m, k)>
#values = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>

// Rows that are not of the sequence are cleared where the stage is read.

// CHECK-LABEL: attn_tile.kernel @sequence
// CHECK-SAME:    %[[I:[a-z0-9]+]]: index, %[[N:[a-z0-9]+]]: index
// CHECK:         attn_tile.copy
// CHECK-NOT:     attn_tile.clear
// CHECK:         attn_tile.copy
// CHECK:         attn_tile.wait
// CHECK:         %[[V:.*]] = attn_tile.wait
// CHECK-NEXT:    attn_tile.clear %[[V]] within(%[[I]] of %[[N]])
// CHECK-NEXT:    attn_tile.mma_start %{{.*}}, %[[V]]
// CHECK-NOT:     attn_tile.clear
attn_tile.kernel @sequence(%q: memref<?x16xf16>, %v: memref<?x16xf16>, %out: memref<?x16xf32>,
                           %i: index, %n: index) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %zero = arith.constant dense<0.0> : vector<16x16xf32>
  %a = attn_tile.load %q[%c0, %c0] stream(%c0 of %c2) : memref<?x16xf16> -> vector<16x16xf16>
  %b = attn_tile.load %v[%c0, %c0] within(%i of %n) stream(%c0 of %c2)
      : memref<?x16xf16> -> vector<16x16xf16>
  %p = vector.contract {indexing_maps = [#lhs, #values, #result],
                        iterator_types = ["parallel", "parallel", "reduction"],
                        kind = #vector.kind<add>} %a, %b, %zero
      : vector<16x16xf16>, vector<16x16xf16> into vector<16x16xf32>
  attn_tile.store %p, %out[%c0, %c0] : vector<16x16xf32>, memref<?x16xf32>
  attn_tile.return
}

// -----

#rows = affine_map<(m, n, k) -> (m, k)>
#columns = affine_map<(m, n, k) -> (k, m)>
#values = affine_map<(m, n, k) -> (k, n)>
#keys = affine_map<(m, n, k) -> (n, k)>
#result = affine_map<(m, n, k) -> (m, n)>

// A computed tile that is a right-hand side is put into shared memory; it
// takes the position of the tile that is loaded with it.

// LOCAL-LABEL: attn_tile.kernel @share
// LOCAL:         attn_tile.create_pipe : <64x16xf16, stages = 1>

// CHECK-LABEL: attn_tile.kernel @share
// CHECK:         %[[SHARED:.*]] = attn_tile.create_pipe : <64x16xf16, stages = 2>
// CHECK:         %[[KEYS:.*]] = attn_tile.wait
// CHECK:         scf.for %[[T:.*]] =
// CHECK:           %[[Q:.*]] = attn_tile.wait %{{.*}}[%[[T]]]
// CHECK:           %[[S:.*]] = attn_tile.mma_start %[[KEYS]], %[[Q]] transpose_rhs
// CHECK:           attn_tile.mma_wait %[[S]]
// CHECK:           %[[P:.*]] = arith.truncf
// CHECK:           %[[B:.*]] = attn_tile.local_store %[[P]] in %[[SHARED]][%[[T]]]
// CHECK:           attn_tile.mma_start %[[KEYS]], %[[B]] transpose_lhs
// CHECK-SAME:        -> !attn_tile.pending<vector<128x16xf32>>
attn_tile.kernel @share(%key: memref<?x128xf16>, %query: memref<?x128xf16>, %out: memref<?x16xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : vector<64x16xf32>
  %zero1 = arith.constant dense<0.0> : vector<128x16xf32>
  %k = attn_tile.load %key[%c0, %c0] stream(%c0 of %c1) : memref<?x128xf16> -> vector<64x128xf16>
  scf.for %t = %c0 to %n step %c1 {
    %q = attn_tile.load %query[%t, %c0] stream(%t of %n) : memref<?x128xf16> -> vector<16x128xf16>
    %s = vector.contract {indexing_maps = [#rows, #keys, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %k, %q, %zero : vector<64x128xf16>, vector<16x128xf16> into vector<64x16xf32>
    %p = arith.truncf %s : vector<64x16xf32> to vector<64x16xf16>
    %o = vector.contract {indexing_maps = [#columns, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %k, %p, %zero1 : vector<64x128xf16>, vector<64x16xf16> into vector<128x16xf32>
    attn_tile.store %o, %out[%t, %c0] : vector<128x16xf32>, memref<?x16xf32>
  }
  attn_tile.return
}

// Columns of a staged tile are columns of a right-hand side that is not
// transposed, while another matmul reads the whole tile.

// CHECK-LABEL: attn_tile.kernel @rhs_columns
// CHECK-COUNT-2: attn_tile.create_pipe
// CHECK-NOT:     attn_tile.create_pipe
// CHECK:         scf.for
// CHECK:           %[[Q:.*]] = attn_tile.wait
// CHECK-NEXT:      attn_tile.mma_start %{{.*}}, %[[Q]] transpose_rhs : !attn_tile.buffer<64x128xf16>, <16x128xf16>
// CHECK:           %[[O:.*]] = attn_tile.mma_start %{{.*}}, %[[Q]] first_column(64) acc %{{.*}} : vector<64x16xf16>, <16x128xf16>
// CHECK-SAME:          {{^}} -> !attn_tile.pending<vector<64x64xf32>>
// CHECK-NEXT:      attn_tile.mma_wait %[[O]]
// CHECK-NEXT:      attn_tile.release %[[Q]]
// CHECK-NOT:     vector.extract_strided_slice
attn_tile.kernel @rhs_columns(%key: memref<?x128xf16>, %query: memref<?x128xf16>, %out: memref<?x64xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : vector<64x16xf32>
  %zero1 = arith.constant dense<0.0> : vector<64x64xf32>
  %k = attn_tile.load %key[%c0, %c0] stream(%c0 of %c1) : memref<?x128xf16> -> vector<64x128xf16>
  %sum = scf.for %t = %c0 to %n step %c1 iter_args(%acc = %zero1) -> (vector<64x64xf32>) {
    %q = attn_tile.load %query[%t, %c0] stream(%t of %n) : memref<?x128xf16> -> vector<16x128xf16>
    %s = vector.contract {indexing_maps = [#rows, #keys, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %k, %q, %zero : vector<64x128xf16>, vector<16x128xf16> into vector<64x16xf32>
    %p = arith.truncf %s : vector<64x16xf32> to vector<64x16xf16>
    %part = vector.extract_strided_slice %q {offsets = [0, 64], sizes = [16, 64], strides = [1, 1]}
        : vector<16x128xf16> to vector<16x64xf16>
    %o = vector.contract {indexing_maps = [#rows, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %p, %part, %acc : vector<64x16xf16>, vector<16x64xf16> into vector<64x64xf32>
    scf.yield %o : vector<64x64xf32>
  }
  attn_tile.store %sum, %out[%c0, %c0] : vector<64x64xf32>, memref<?x64xf32>
  attn_tile.return
}

// The columns of a consumer are known to the MMA alone.

// CHECK-LABEL: attn_tile.kernel @consumer_columns
// CHECK:         attn_tile.mma_start %{{.*}}, %{{.*}} consumer_columns acc %{{.*}} : vector<64x16xf16>, <16x128xf16>
// CHECK-SAME:        {{^}} -> !attn_tile.pending<vector<64x64xf32>>
// CHECK-NOT:     attn_tile.consumer_columns
attn_tile.kernel @consumer_columns(%key: memref<?x128xf16>, %query: memref<?x128xf16>, %out: memref<?x128xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : vector<64x16xf32>
  %zero1 = arith.constant dense<0.0> : vector<64x64xf32>
  %k = attn_tile.load %key[%c0, %c0] stream(%c0 of %c1) : memref<?x128xf16> -> vector<64x128xf16>
  %sum = scf.for %t = %c0 to %n step %c1 iter_args(%acc = %zero1) -> (vector<64x64xf32>) {
    %q = attn_tile.load %query[%t, %c0] stream(%t of %n) : memref<?x128xf16> -> vector<16x128xf16>
    %s = vector.contract {indexing_maps = [#rows, #keys, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %k, %q, %zero : vector<64x128xf16>, vector<16x128xf16> into vector<64x16xf32>
    %p = arith.truncf %s : vector<64x16xf32> to vector<64x16xf16>
    %part = attn_tile.consumer_columns %q : vector<16x128xf16> -> vector<16x64xf16>
    %o = vector.contract {indexing_maps = [#rows, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %p, %part, %acc : vector<64x16xf16>, vector<16x64xf16> into vector<64x64xf32>
    scf.yield %o : vector<64x64xf32>
  }
  %w = attn_tile.consumer_id
  %column = arith.muli %w, %c64 : index
  attn_tile.store %sum, %out[%c0, %column] : vector<64x64xf32>, memref<?x128xf32>
  attn_tile.return
}

// Columns of a staged tile are rows of a left-hand side that is transposed. Where
// the accumulators of a step are too large together, they are added from registers, and
// the stored tile has one stage.

// CHECK-LABEL: attn_tile.kernel @columns
// CHECK:         %[[SHARED:.*]] = attn_tile.create_pipe : <64x80xf16, stages = 1>
// CHECK:         %[[KEYS:.*]] = attn_tile.wait
// CHECK:         scf.for
// CHECK:           %[[B:.*]] = attn_tile.local_store %{{.*}} in %[[SHARED]]
// CHECK-NEXT:      %[[O0:.*]] = attn_tile.mma_start %[[KEYS]], %[[B]] transpose_lhs first_row(0) : !attn_tile.buffer<64x128xf16>, <64x80xf16>
// CHECK-SAME:          {{^}} -> !attn_tile.pending<vector<64x80xf32>>
// CHECK-NEXT:      %[[W0:.*]] = attn_tile.mma_wait %[[O0]]
// CHECK-NEXT:      attn_tile.bulk_reduce_add %[[W0]]
// CHECK:           %[[O1:.*]] = attn_tile.mma_start %[[KEYS]], %[[B]] transpose_lhs first_row(64) :
// CHECK-NEXT:      %[[W1:.*]] = attn_tile.mma_wait %[[O1]]
// CHECK:           attn_tile.bulk_reduce_add %[[W1]]
// CHECK:         attn_tile.release %[[KEYS]]
// CHECK-NOT:     vector.extract_strided_slice
attn_tile.kernel @columns(%query: memref<?x128xf16>, %key: memref<?x128xf16>, %sums: memref<?x80xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : vector<64x80xf32>
  %k = attn_tile.load %key[%c0, %c0] stream(%c0 of %c1) : memref<?x128xf16> -> vector<64x128xf16>
  scf.for %t = %c0 to %n step %c1 {
    %q = attn_tile.load %query[%t, %c0] stream(%t of %n) : memref<?x128xf16> -> vector<80x128xf16>
    %s = vector.contract {indexing_maps = [#rows, #keys, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %k, %q, %zero : vector<64x128xf16>, vector<80x128xf16> into vector<64x80xf32>
    %p = arith.truncf %s : vector<64x80xf32> to vector<64x80xf16>
    %k0 = vector.extract_strided_slice %k {offsets = [0, 0], sizes = [64, 64], strides = [1, 1]}
        : vector<64x128xf16> to vector<64x64xf16>
    %o0 = vector.contract {indexing_maps = [#columns, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %k0, %p, %zero : vector<64x64xf16>, vector<64x80xf16> into vector<64x80xf32>
    attn_tile.bulk_reduce_add %o0 to %sums[%t, %c0] : vector<64x80xf32> to memref<?x80xf32>
    %t1 = arith.addi %t, %c64 : index
    %k1 = vector.extract_strided_slice %k {offsets = [0, 64], sizes = [64, 64], strides = [1, 1]}
        : vector<64x128xf16> to vector<64x64xf16>
    %o1 = vector.contract {indexing_maps = [#columns, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %k1, %p, %zero : vector<64x64xf16>, vector<64x80xf16> into vector<64x80xf32>
    attn_tile.bulk_reduce_add %o1 to %sums[%t1, %c0] : vector<64x80xf32> to memref<?x80xf32>
  }
  attn_tile.return
}

// A row next to the tiles is staged, too, and read where it is used; its stage is
// released when what is computed of all of it has been shared. A shared tile that is
// made of columns of others is shared as these, in one stage.

// CHECK-LABEL: attn_tile.kernel @rows_and_columns
// CHECK:         %[[ROWS:.*]] = attn_tile.create_pipe : <1x16xf32, stages = 2>
// CHECK:         %[[SHARED:.*]] = attn_tile.create_pipe : <64x32xf16, stages = 2>
// CHECK:         scf.for %[[T:.*]] =
// CHECK:           attn_tile.acquire %[[ROWS]][%[[T]]]
// CHECK:           %[[R:.*]] = attn_tile.wait %[[ROWS]][%[[T]]]
// CHECK-NEXT:      attn_tile.read %[[R]] : <1x16xf32> -> vector<1x16xf32>
// CHECK-NOT:       attn_tile.release %[[R]]
// CHECK:           %[[HALF:.*]] = arith.divui %[[T]], %{{.*}} : index
// CHECK-NEXT:      attn_tile.local_store %[[P:.*]] in %[[SHARED]][%[[HALF]]] : vector<64x16xf16>
// CHECK-NEXT:      attn_tile.release %[[R]]
// CHECK-NEXT:      %[[B:.*]] = attn_tile.local_store %[[P]] in %[[SHARED]][%[[HALF]]] from(16) : vector<64x16xf16>
// CHECK-NEXT:      attn_tile.mma_start %{{.*}}, %[[B]] transpose_lhs
attn_tile.kernel @rows_and_columns(%key: memref<?x128xf16>, %query: memref<?x128xf16>, %row: memref<?x?xf32>,
                                   %out: memref<?x32xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : vector<64x16xf32>
  %none = arith.constant dense<0.0> : vector<64x32xf16>
  %zero1 = arith.constant dense<0.0> : vector<128x32xf32>
  %k = attn_tile.load %key[%c0, %c0] stream(%c0 of %c1) : memref<?x128xf16> -> vector<64x128xf16>
  scf.for %t = %c0 to %n step %c1 {
    %q = attn_tile.load %query[%t, %c0] stream(%t of %n) : memref<?x128xf16> -> vector<16x128xf16>
    %r = attn_tile.load %row[%c0, %t] stream(%t of %n) in_bounds : memref<?x?xf32> -> vector<1x16xf32>
    %s = vector.contract {indexing_maps = [#rows, #keys, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %k, %q, %zero : vector<64x128xf16>, vector<16x128xf16> into vector<64x16xf32>
    %r1 = vector.broadcast %r : vector<1x16xf32> to vector<64x16xf32>
    %x = arith.mulf %s, %r1 : vector<64x16xf32>
    %p = arith.truncf %x : vector<64x16xf32> to vector<64x16xf16>
    %p0 = vector.insert_strided_slice %p, %none {offsets = [0, 0], strides = [1, 1]}
        : vector<64x16xf16> into vector<64x32xf16>
    %p1 = vector.insert_strided_slice %p, %p0 {offsets = [0, 16], strides = [1, 1]}
        : vector<64x16xf16> into vector<64x32xf16>
    %o = vector.contract {indexing_maps = [#columns, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %k, %p1, %zero1 : vector<64x128xf16>, vector<64x32xf16> into vector<128x32xf32>
    attn_tile.store %o, %out[%t, %c0] : vector<128x32xf32>, memref<?x32xf32>
  }
  attn_tile.return
}

// Loads of the row may wait behind additions to arrays in memory.

// CHECK-LABEL: attn_tile.kernel @rows_behind_additions
// CHECK:         %[[ROWS:.*]] = attn_tile.create_pipe : <1x16xf32, stages = 2>
// CHECK:         scf.for
// CHECK:           %[[R:.*]] = attn_tile.wait %[[ROWS]]
// CHECK-NEXT:      attn_tile.read %[[R]]
// CHECK-NOT:       attn_tile.release %[[R]]
// CHECK:           attn_tile.scatter_add
// CHECK:           %[[B:.*]] = attn_tile.local_store
// CHECK-NEXT:      attn_tile.release %[[R]]
// CHECK-NEXT:      attn_tile.mma_start %{{.*}}, %[[B]] transpose_lhs
attn_tile.kernel @rows_behind_additions(%key: memref<?x128xf16>, %query: memref<?x128xf16>, %row: memref<?x?xf32>,
                                        %sums: memref<f32>, %out: memref<?x16xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : vector<64x16xf32>
  %zero1 = arith.constant dense<0.0> : vector<128x16xf32>
  %k = attn_tile.load %key[%c0, %c0] stream(%c0 of %c1) : memref<?x128xf16> -> vector<64x128xf16>
  scf.for %t = %c0 to %n step %c1 {
    %q = attn_tile.load %query[%t, %c0] stream(%t of %n) : memref<?x128xf16> -> vector<16x128xf16>
    %r = attn_tile.load %row[%c0, %t] stream(%t of %n) in_bounds : memref<?x?xf32> -> vector<1x16xf32>
    %s = vector.contract {indexing_maps = [#rows, #keys, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %k, %q, %zero : vector<64x128xf16>, vector<16x128xf16> into vector<64x16xf32>
    %r1 = vector.broadcast %r : vector<1x16xf32> to vector<64x16xf32>
    %x = arith.mulf %s, %r1 : vector<64x16xf32>
    attn_tile.scatter_add %x into %sums at(%c0, %c0, %t, %c0) lengths(%n, %n) transposed
        : vector<64x16xf32> into memref<f32> {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      attn_tile.yield
    }
    %p = arith.truncf %x : vector<64x16xf32> to vector<64x16xf16>
    %o = vector.contract {indexing_maps = [#columns, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %k, %p, %zero1 : vector<64x128xf16>, vector<64x16xf16> into vector<128x16xf32>
    attn_tile.store %o, %out[%t, %c0] : vector<128x16xf32>, memref<?x16xf32>
  }
  attn_tile.return
}

// Rows at different positions of a stream have pipes of their own, or share one.
// Another row of the same memory at one of them does not share it.

// CHECK-LABEL: attn_tile.kernel @rows_of_parts
// CHECK-COUNT-3: attn_tile.create_pipe : <1x16xf32, stages = 2>
// ROWS-SHARED-LABEL: attn_tile.kernel @rows_of_parts
// ROWS-SHARED:         %[[OTHERS:.*]] = attn_tile.create_pipe : <1x16xf32, stages = 2>
// ROWS-SHARED-NEXT:    %[[ROWS:.*]] = attn_tile.create_pipe : <1x16xf32, stages = 2>
// ROWS-SHARED-NOT:     <1x16xf32
// ROWS-SHARED:         scf.for %[[T:.*]] =
// ROWS-SHARED:           attn_tile.acquire %[[ROWS]][%[[T]]]
// ROWS-SHARED:           attn_tile.acquire %[[OTHERS]][%[[T]]]
// ROWS-SHARED:           %[[NEXT:.*]] = arith.addi %[[T]]
// ROWS-SHARED:           attn_tile.acquire %[[ROWS]][%[[NEXT]]]
attn_tile.kernel @rows_of_parts(%key: memref<?x128xf16>, %query: memref<?x128xf16>, %row: memref<?x?xf32>,
                                %out: memref<?x16xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %zero = arith.constant dense<0.0> : vector<64x16xf32>
  %k = attn_tile.load %key[%c0, %c0] stream(%c0 of %c1) : memref<?x128xf16> -> vector<64x128xf16>
  scf.for %t = %c0 to %n step %c2 {
    %q = attn_tile.load %query[%t, %c0] stream(%t of %n) : memref<?x128xf16> -> vector<16x128xf16>
    %r = attn_tile.load %row[%c0, %t] stream(%t of %n) in_bounds : memref<?x?xf32> -> vector<1x16xf32>
    %o = attn_tile.load %row[%c1, %t] stream(%t of %n) in_bounds : memref<?x?xf32> -> vector<1x16xf32>
    %s = vector.contract {indexing_maps = [#rows, #keys, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %k, %q, %zero : vector<64x128xf16>, vector<16x128xf16> into vector<64x16xf32>
    %r1 = vector.broadcast %r : vector<1x16xf32> to vector<64x16xf32>
    %o1 = vector.broadcast %o : vector<1x16xf32> to vector<64x16xf32>
    %x = arith.mulf %s, %r1 : vector<64x16xf32>
    %y = arith.addf %x, %o1 : vector<64x16xf32>
    attn_tile.store %y, %out[%t, %c0] : vector<64x16xf32>, memref<?x16xf32>
    %u = arith.addi %t, %c1 : index
    %q2 = attn_tile.load %query[%u, %c0] stream(%u of %n) : memref<?x128xf16> -> vector<16x128xf16>
    %r2 = attn_tile.load %row[%c0, %u] stream(%u of %n) in_bounds : memref<?x?xf32> -> vector<1x16xf32>
    %s2 = vector.contract {indexing_maps = [#rows, #keys, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %k, %q2, %zero : vector<64x128xf16>, vector<16x128xf16> into vector<64x16xf32>
    %r3 = vector.broadcast %r2 : vector<1x16xf32> to vector<64x16xf32>
    %z = arith.mulf %s2, %r3 : vector<64x16xf32>
    attn_tile.store %z, %out[%u, %c0] : vector<64x16xf32>, memref<?x16xf32>
  }
  attn_tile.return
}

// -----

// Each tile of %once is read by one MMA, each of %twice by two. What is added
// goes through a stage of its size, or straight from registers if that is too
// large.

#rows = affine_map<(m, n, k) -> (m, k)>
#keys = affine_map<(m, n, k) -> (n, k)>
#values = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>

// CHECK-LABEL: attn_tile.kernel @scarce
// CHECK-DAG:     attn_tile.create_pipe : <16x64xf16, stages = 2>
// CHECK-DAG:     attn_tile.create_pipe : <16x128xf16, stages = 2>
// CHECK-DAG:     %[[SUMS:.*]] = attn_tile.create_pipe : <64x64xf32, stages = 1>
// CHECK:         %[[PACKED:.*]] = attn_tile.stage_fragments %{{.*}} in %[[SUMS]]
// CHECK-NEXT:    attn_tile.bulk_reduce_add %[[PACKED]] to
// SCARCE-LABEL: attn_tile.kernel @scarce
// SCARCE-NOT:    xf32, stages
// SCARCE-DAG:    attn_tile.create_pipe : <16x64xf16, stages = 2>
// SCARCE-DAG:    attn_tile.create_pipe : <16x128xf16, stages = 1>
// SCARCE:        attn_tile.bulk_reduce_add %{{.*}} : vector<64x64xf32> to memref<?x64xf32>
attn_tile.kernel @scarce(%a: memref<?x128xf16>, %b: memref<?x64xf16>, %once: memref<?x128xf16>,
                         %twice: memref<?x64xf16>, %sums: memref<?x64xf32>, %out: memref<?x16xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : vector<64x16xf32>
  %zero1 = arith.constant dense<0.0> : vector<64x64xf32>
  %x = attn_tile.load %a[%c0, %c0] stream(%c0 of %c1) : memref<?x128xf16> -> vector<64x128xf16>
  %y = attn_tile.load %b[%c0, %c0] stream(%c0 of %c1) : memref<?x64xf16> -> vector<64x64xf16>
  scf.for %t = %c0 to %n step %c1 {
    %u = attn_tile.load %once[%t, %c0] stream(%t of %n) : memref<?x128xf16> -> vector<16x128xf16>
    %v = attn_tile.load %twice[%t, %c0] stream(%t of %n) : memref<?x64xf16> -> vector<16x64xf16>
    %s = vector.contract {indexing_maps = [#rows, #keys, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %x, %u, %zero : vector<64x128xf16>, vector<16x128xf16> into vector<64x16xf32>
    %r = vector.contract {indexing_maps = [#rows, #keys, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %y, %v, %s : vector<64x64xf16>, vector<16x64xf16> into vector<64x16xf32>
    %p = arith.truncf %r : vector<64x16xf32> to vector<64x16xf16>
    %o = vector.contract {indexing_maps = [#rows, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %p, %v, %zero1 : vector<64x16xf16>, vector<16x64xf16> into vector<64x64xf32>
    attn_tile.bulk_reduce_add %o to %sums[%t, %c0] : vector<64x64xf32> to memref<?x64xf32>
  }
  attn_tile.return
}

// -----

#rows = affine_map<(m, n, k) -> (m, k)>
#keys = affine_map<(m, n, k) -> (n, k)>
#result = affine_map<(m, n, k) -> (m, n)>

// Tiles that maps read share a pipe, too, and are read before the wait for the
// MMA that is changed; without stages for them they are loaded as they were. Their
// stages are released behind a reduction of the result, or before a loop that may wait
// for them.

// CHECK-LABEL:  attn_tile.kernel @mapped
// CHECK-COUNT-2:  attn_tile.load
// SCORES-LABEL: attn_tile.kernel @mapped
// SCORES:         %[[PIPE:.*]] = attn_tile.create_pipe : <64x16xbf16, stages = 1>
// SCORES-NOT:     attn_tile.create_pipe : <64x16xbf16
// SCORES:         attn_tile.acquire %[[PIPE]]
// SCORES:         %[[B0:.*]] = attn_tile.wait %[[PIPE]]
// SCORES:         attn_tile.map
// SCORES:         attn_tile.release %[[B0]]
// SCORES-NEXT:    scf.for %[[T:.*]] =
// SCORES:           %[[START:.*]] = attn_tile.mma_start
// SCORES:           %[[A:.*]] = attn_tile.acquire %[[PIPE]][%[[T]]]
// SCORES-NEXT:      attn_tile.copy %{{.*}} to %[[A]]
// SCORES-NEXT:      attn_tile.commit %[[A]]
// SCORES-NEXT:      %[[B:.*]] = attn_tile.wait %[[PIPE]][%[[T]]]
// SCORES-NEXT:      %[[TILE:.*]] = attn_tile.read %[[B]] : <64x16xbf16> -> vector<64x16xbf16>
// SCORES-NEXT:      %[[S:.*]] = attn_tile.mma_wait %[[START]]
// SCORES:           attn_tile.map %[[S]] at({{.*}} with(%[[TILE]] :
// SCORES:           attn_tile.mask
// SCORES-NEXT:      %[[MAX:.*]] = vector.multi_reduction
// SCORES-NEXT:      attn_tile.release %[[B]] after(%[[MAX]] : vector<64xf32>)
attn_tile.kernel @mapped(%q: vector<64x32xbf16>, %key: memref<?x32xbf16>, %bias: memref<?x?xbf16>, %n: index,
                         %maxima: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %least = arith.constant dense<0xFF800000> : vector<64xf32>
  %zeros = arith.constant dense<0.0> : vector<64x16xf32>
  %k0 = attn_tile.load %key[%c0, %c0] stream(%c0 of %n) : memref<?x32xbf16> -> vector<16x32xbf16>
  %s0 = vector.contract {indexing_maps = [#rows, #keys, #result],
      iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
      %q, %k0, %zeros : vector<64x32xbf16>, vector<16x32xbf16> into vector<64x16xf32>
  %b0 = attn_tile.load %bias[%c0, %c0] stream(%c0 of %n) : memref<?x?xbf16> -> vector<64x16xbf16>
  %r0 = attn_tile.map %s0 at(%c0, %c0, %c0, %c0) lengths(%n, %n) with(%b0 : vector<64x16xbf16>) : vector<64x16xf32> {
  ^bb0(%x: f32, %b: index, %h: index, %i: index, %j: index, %y: bf16):
    %z = arith.extf %y : bf16 to f32
    attn_tile.yield %z : f32
  }
  scf.for %t = %c1 to %n step %c1 {
    %kt = attn_tile.load %key[%t, %c0] stream(%t of %n) : memref<?x32xbf16> -> vector<16x32xbf16>
    %s = vector.contract {indexing_maps = [#rows, #keys, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %q, %kt, %zeros : vector<64x32xbf16>, vector<16x32xbf16> into vector<64x16xf32>
    %bt = attn_tile.load %bias[%c0, %t] stream(%t of %n) : memref<?x?xbf16> -> vector<64x16xbf16>
    %r = attn_tile.map %s at(%c0, %c0, %c0, %t) lengths(%n, %n) with(%bt : vector<64x16xbf16>) : vector<64x16xf32> {
    ^bb0(%x: f32, %b: index, %h: index, %i: index, %j: index, %y: bf16):
      %z = arith.extf %y : bf16 to f32
      attn_tile.yield %z : f32
    }
    %m = attn_tile.mask %r at(%c0, %c0, %c0, %t) lengths(%n, %n) : vector<64x16xf32>
    %max = vector.multi_reduction <maxnumf>, %m, %least [1] : vector<64x16xf32> to vector<64xf32>
    attn_tile.store %max, %maxima[%t] : vector<64xf32>, memref<?xf32>
  }
  attn_tile.return
}

// -----

#rows = affine_map<(m, n, k) -> (m, k)>
#columns = affine_map<(m, n, k) -> (k, m)>
#values = affine_map<(m, n, k) -> (k, n)>
#keys = affine_map<(m, n, k) -> (n, k)>
#result = affine_map<(m, n, k) -> (m, n)>

// A left-hand side that stays for all steps may be read to registers once, when
// rows that are not of the sequence have been cleared. It may not where an MMA
// has it transposed, nor is one of a step, which would be read in each.

// CHECK-LABEL: attn_tile.kernel @held
// CHECK-NOT:     attn_tile.read
// HELD-LABEL:  attn_tile.kernel @held
// HELD-SAME:     %[[I:[a-z0-9]+]]: index, %[[N:[a-z0-9]+]]: index
// HELD:          %[[KP:.*]] = attn_tile.create_pipe : <64x128xf16, stages = 1>
// HELD:          %[[VP:.*]] = attn_tile.create_pipe : <64x128xf16, stages = 1>
// HELD-NOT:      attn_tile.read
// HELD:          %[[K:.*]] = attn_tile.wait %[[KP]]
// HELD-NEXT:     %[[V:.*]] = attn_tile.wait %[[VP]]
// HELD-NEXT:     attn_tile.clear %[[V]] within(%[[I]] of %[[N]])
// HELD-NEXT:     %[[TILE:.*]] = attn_tile.read %[[V]] : <64x128xf16> -> vector<64x128xf16>
// HELD-NEXT:     scf.for
// HELD:            %[[Q:.*]] = attn_tile.wait
// HELD-NEXT:       attn_tile.mma_start %[[K]], %[[Q]] transpose_rhs : !attn_tile.buffer<64x128xf16>
// HELD-NEXT:       attn_tile.mma_start %[[TILE]], %[[Q]] transpose_rhs : vector<64x128xf16>
// HELD-NOT:        attn_tile.read
// HELD:            attn_tile.mma_start %[[K]], %{{.*}} transpose_lhs : !attn_tile.buffer<64x128xf16>
// HELD:            attn_tile.mma_start %{{.*}}, %[[Q]] transpose_rhs : !attn_tile.buffer<64x128xf16>
// HELD:          }
// HELD-NEXT:     attn_tile.release %[[V]]
// HELD-NEXT:     attn_tile.release %[[K]]
// HELD-NOT:      attn_tile.read
// HELD:          attn_tile.return
attn_tile.kernel @held(%key: memref<?x128xf16>, %value: memref<?x128xf16>, %query: memref<?x128xf16>,
                       %step: memref<?x128xf16>, %out: memref<?x16xf32>, %i: index, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : vector<64x16xf32>
  %zero1 = arith.constant dense<0.0> : vector<128x16xf32>
  %k = attn_tile.load %key[%c0, %c0] stream(%c0 of %c1) : memref<?x128xf16> -> vector<64x128xf16>
  %v = attn_tile.load %value[%c0, %c0] within(%i of %n) stream(%c0 of %c1) : memref<?x128xf16> -> vector<64x128xf16>
  scf.for %t = %c0 to %n step %c1 {
    %q = attn_tile.load %query[%t, %c0] stream(%t of %n) : memref<?x128xf16> -> vector<16x128xf16>
    %x = attn_tile.load %step[%t, %c0] stream(%t of %n) : memref<?x128xf16> -> vector<64x128xf16>
    %s = vector.contract {indexing_maps = [#rows, #keys, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %k, %q, %zero : vector<64x128xf16>, vector<16x128xf16> into vector<64x16xf32>
    %d = vector.contract {indexing_maps = [#rows, #keys, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %v, %q, %zero : vector<64x128xf16>, vector<16x128xf16> into vector<64x16xf32>
    %y = arith.mulf %s, %d : vector<64x16xf32>
    %p = arith.truncf %y : vector<64x16xf32> to vector<64x16xf16>
    %o = vector.contract {indexing_maps = [#columns, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %k, %p, %zero1 : vector<64x128xf16>, vector<64x16xf16> into vector<128x16xf32>
    attn_tile.store %o, %out[%t, %c0] : vector<128x16xf32>, memref<?x16xf32>
    %z = vector.contract {indexing_maps = [#rows, #keys, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %x, %q, %zero : vector<64x128xf16>, vector<16x128xf16> into vector<64x16xf32>
    attn_tile.store %z, %out[%t, %c0] : vector<64x16xf32>, memref<?x16xf32>
  }
  attn_tile.return
}

// -----

// With an option, threads read a tile that matmuls read, too, from the same stage. It is released behind the store that
// waits for the read, and behind the last MMA.

#rows = affine_map<(m, n, k) -> (k, m)>
#values = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>

// CHECK-LABEL: attn_tile.kernel @read_operand
// CHECK-NOT:     attn_tile.read
// READ-LABEL:  attn_tile.kernel @read_operand
// READ:          scf.for %[[T:[a-z0-9]+]] =
// READ:            %[[K:.*]] = attn_tile.wait %{{.*}}[%[[T]]] : <64x64xbf16, stages = 2>
// READ:            %[[V:.*]] = attn_tile.wait %[[PIPE:.*]][%[[T]]] : <64x32xbf16, stages = 2>
// READ-NEXT:       %[[TILE:.*]] = attn_tile.read %[[V]] : <64x32xbf16> -> vector<64x32xbf16>
// READ:            %[[F:.*]] = attn_tile.mma_start %[[K]], %[[V]] transpose_lhs
// READ:            arith.extf %[[TILE]]
// READ:            %[[B:.*]] = attn_tile.local_store
// READ-NEXT:       %[[S:.*]] = attn_tile.mma_start %[[K]], %[[B]] transpose_lhs
// READ-NEXT:       attn_tile.mma_wait %[[F]]
// READ-NEXT:       attn_tile.release %[[V]]
// READ-NEXT:       attn_tile.mma_wait %[[S]]
// READ-NEXT:       attn_tile.release %[[K]]
attn_tile.kernel @read_operand(%key: memref<?x64xbf16>, %value: memref<?x32xbf16>, %sums: memref<?x32xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : vector<64x32xf32>
  %two = arith.constant dense<2.0> : vector<64x32xf32>
  %r:2 = scf.for %t = %c0 to %n step %c1 iter_args(%a = %zero, %b = %zero) -> (vector<64x32xf32>, vector<64x32xf32>) {
    %i = arith.muli %t, %c64 : index
    %k = attn_tile.load %key[%i, %c0] stream(%t of %n) : memref<?x64xbf16> -> vector<64x64xbf16>
    %v = attn_tile.load %value[%i, %c0] stream(%t of %n) : memref<?x32xbf16> -> vector<64x32xbf16>
    %x = vector.contract {indexing_maps = [#rows, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %k, %v, %a : vector<64x64xbf16>, vector<64x32xbf16> into vector<64x32xf32>
    %e = arith.extf %v : vector<64x32xbf16> to vector<64x32xf32>
    %m = arith.mulf %e, %two : vector<64x32xf32>
    %w = arith.truncf %m : vector<64x32xf32> to vector<64x32xbf16>
    %y = vector.contract {indexing_maps = [#rows, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %k, %w, %b : vector<64x64xbf16>, vector<64x32xbf16> into vector<64x32xf32>
    scf.yield %x, %y : vector<64x32xf32>, vector<64x32xf32>
  }
  attn_tile.store %r#0, %sums[%c0, %c0] : vector<64x32xf32>, memref<?x32xf32>
  attn_tile.store %r#1, %sums[%c64, %c0] : vector<64x32xf32>, memref<?x32xf32>
  attn_tile.return
}

// -----

#rows = affine_map<(m, n, k) -> (k, m)>
#plain = affine_map<(m, n, k) -> (m, k)>
#values = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>

// Threads alone read the values. Two matmuls read what they compute from one stage, also one without a load.

// READ-LABEL:  attn_tile.kernel @read_alone
// READ:          scf.for %[[T:[a-z0-9]+]] =
// READ:            %[[V:.*]] = attn_tile.wait %{{.*}}[%[[T]]] : <64x32xbf16, stages = 2>
// READ:            %[[TILE:.*]] = attn_tile.read %[[V]] : <64x32xbf16> -> vector<64x32xbf16>
// READ:            arith.extf %[[TILE]]
// READ:            %[[B:.*]] = attn_tile.local_store
// READ-NOT:        attn_tile.local_store
// READ:            attn_tile.mma_start %{{.*}}, %[[B]]
// READ:            attn_tile.mma_start %{{.*}}, %[[B]] transpose_lhs
attn_tile.kernel @read_alone(%key: memref<?x64xbf16>, %value: memref<?x32xbf16>, %sums: memref<?x32xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : vector<64x32xf32>
  %two = arith.constant dense<2.0> : vector<64x32xf32>
  %ones = arith.constant dense<1.0> : vector<64x64xf32>
  %r:2 = scf.for %t = %c0 to %n step %c1 iter_args(%a = %zero, %b = %zero) -> (vector<64x32xf32>, vector<64x32xf32>) {
    %i = arith.muli %t, %c64 : index
    %k = attn_tile.load %key[%i, %c0] stream(%t of %n) : memref<?x64xbf16> -> vector<64x64xbf16>
    %v = attn_tile.load %value[%i, %c0] stream(%t of %n) : memref<?x32xbf16> -> vector<64x32xbf16>
    %e = arith.extf %v : vector<64x32xbf16> to vector<64x32xf32>
    %m = arith.mulf %e, %two : vector<64x32xf32>
    %w = arith.truncf %m : vector<64x32xf32> to vector<64x32xbf16>
    %p = arith.truncf %ones : vector<64x64xf32> to vector<64x64xbf16>
    %x = vector.contract {indexing_maps = [#plain, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %p, %w, %a : vector<64x64xbf16>, vector<64x32xbf16> into vector<64x32xf32>
    %y = vector.contract {indexing_maps = [#rows, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %k, %w, %b : vector<64x64xbf16>, vector<64x32xbf16> into vector<64x32xf32>
    scf.yield %x, %y : vector<64x32xf32>, vector<64x32xf32>
  }
  attn_tile.store %r#0, %sums[%c0, %c0] : vector<64x32xf32>, memref<?x32xf32>
  attn_tile.store %r#1, %sums[%c64, %c0] : vector<64x32xf32>, memref<?x32xf32>
  attn_tile.return
}

// -----

// An inversion exchanges its tile through a stage of its own.

// CHECK-LABEL: attn_tile.kernel @inverse(
// CHECK-NEXT:    %[[P:.*]] = attn_tile.create_pipe : <64x64xf32, stages = 1>
// CHECK:         attn_tile.invert_triangular %{{.*}} in %[[P]] : vector<64x64xf32>, !attn_tile.pipe<64x64xf32, stages = 1>
attn_tile.kernel @inverse(%in: memref<64x64xf32>, %out: memref<64x64xf32>) {
  %c0 = arith.constant 0 : index
  %a = attn_tile.load %in[%c0, %c0] : memref<64x64xf32> -> vector<64x64xf32>
  %t = attn_tile.invert_triangular %a : vector<64x64xf32>
  attn_tile.store %t, %out[%c0, %c0] : vector<64x64xf32>, memref<64x64xf32>
  attn_tile.return
}
