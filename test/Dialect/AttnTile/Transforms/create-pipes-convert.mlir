// RUN: attn-opt %s -attn-tile-create-pipes | FileCheck %s
// RUN: attn-opt %s -attn-tile-create-pipes=idle-warps-convert | FileCheck %s --check-prefix=IDLE

#plain = affine_map<(m, n, k) -> (m, k)>
#values = affine_map<(m, n, k) -> (k, n)>
#keys = affine_map<(m, n, k) -> (n, k)>
#result = affine_map<(m, n, k) -> (m, n)>

// Tiles of 8 bits are staged as they are and converted in shared memory. The
// stage is released after the conversion, and the conversion clears rows after
// the sequence.

// CHECK-LABEL: attn_tile.kernel @converted(
// CHECK-SAME:    %[[KEY:.*]]: memref<?x64xf8E4M3FN>, %[[VALUE:.*]]: memref<?x32xf8E4M3FN>, %{{.*}}: memref<?x32xf32>, %[[N:.*]]: index)
// CHECK-DAG:     %[[K:.*]] = attn_tile.create_pipe : <64x64xf8E4M3FN, stages = 2>
// CHECK-DAG:     %[[V:.*]] = attn_tile.create_pipe : <64x32xf8E4M3FN, stages = 2>
// CHECK-DAG:     %[[K16:.*]] = attn_tile.create_pipe : <64x64xbf16, stages = 1>
// CHECK-DAG:     %[[V16:.*]] = attn_tile.create_pipe : <64x32xbf16, stages = 1>
// CHECK:         scf.for %[[T:.*]] = %{{.*}} to %[[N]]
// CHECK:           attn_tile.copy %[[KEY]]
// CHECK:           %[[KT:.*]] = attn_tile.wait %[[K]][%[[T]]]
// CHECK-NEXT:      %[[KC:.*]] = attn_tile.local_convert %[[KT]] in %[[K16]][%[[T]]] : <64x64xf8E4M3FN>, <64x64xbf16, stages = 1>
// CHECK-NEXT:      attn_tile.release %[[KT]]
// CHECK:           attn_tile.copy %[[VALUE]]
// CHECK:           %[[VT:.*]] = attn_tile.wait %[[V]][%[[T]]]
// CHECK-NOT:       attn_tile.clear
// CHECK:           %[[VC:.*]] = attn_tile.local_convert %[[VT]] in %[[V16]][%[[T]]] within(%[[I:.*]] of %[[N]])
// CHECK-NEXT:      attn_tile.release %[[VT]]
// CHECK:           attn_tile.mma_start %{{.*}}, %[[KC]] transpose_rhs
// CHECK:           attn_tile.mma_start %{{.*}}, %[[VC]] acc
// CHECK-NOT:       arith.extf

// With idle warps, conversions fill pipes, whose stages MMAs release.

// IDLE-LABEL: attn_tile.kernel @converted(
// IDLE-SAME:    %{{.*}}: memref<?x64xf8E4M3FN>, %{{.*}}: memref<?x32xf8E4M3FN>, %{{.*}}: memref<?x32xf32>, %[[N:.*]]: index)
// IDLE-DAG:     %[[K:.*]] = attn_tile.create_pipe : <64x64xf8E4M3FN, stages = 2>
// IDLE-DAG:     %[[V:.*]] = attn_tile.create_pipe : <64x32xf8E4M3FN, stages = 2>
// IDLE-DAG:     %[[K16:.*]] = attn_tile.create_pipe : <64x64xbf16, stages = 1>
// IDLE-DAG:     %[[V16:.*]] = attn_tile.create_pipe : <64x32xbf16, stages = 1>
// IDLE:         scf.for %[[T:.*]] = %{{.*}} to %[[N]]
// IDLE:           %[[KT:.*]] = attn_tile.wait %[[K]][%[[T]]]
// IDLE-NEXT:      attn_tile.convert %[[KT]] to %[[K16]][%[[T]]] : <64x64xf8E4M3FN>, <64x64xbf16, stages = 1>
// IDLE-NEXT:      attn_tile.release %[[KT]]
// IDLE-NEXT:      %[[KC:.*]] = attn_tile.wait %[[K16]][%[[T]]]
// IDLE:           %[[VT:.*]] = attn_tile.wait %[[V]][%[[T]]]
// IDLE-NEXT:      attn_tile.convert %[[VT]] to %[[V16]][%[[T]]] within(%{{.*}} of %[[N]])
// IDLE-NEXT:      attn_tile.release %[[VT]]
// IDLE-NEXT:      %[[VC:.*]] = attn_tile.wait %[[V16]][%[[T]]]
// IDLE:           attn_tile.mma_start %{{.*}}, %[[KC]] transpose_rhs
// IDLE:           attn_tile.mma_wait
// IDLE-NEXT:      attn_tile.release %[[KC]]
// IDLE:           attn_tile.mma_start %{{.*}}, %[[VC]] acc
// IDLE:           attn_tile.mma_wait
// IDLE-NEXT:      attn_tile.release %[[VC]]
attn_tile.kernel @converted(%key: memref<?x64xf8E4M3FN>, %value: memref<?x32xf8E4M3FN>, %out: memref<?x32xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : vector<64x32xf32>
  %none = arith.constant dense<0.0> : vector<64x64xf32>
  %ones = arith.constant dense<1.0> : vector<64x64xbf16>
  %r = scf.for %t = %c0 to %n step %c1 iter_args(%a = %zero) -> (vector<64x32xf32>) {
    %i = arith.muli %t, %c64 : index
    %k = attn_tile.load %key[%i, %c0] stream(%t of %n) : memref<?x64xf8E4M3FN> -> vector<64x64xf8E4M3FN>
    %kw = arith.extf %k : vector<64x64xf8E4M3FN> to vector<64x64xbf16>
    %v = attn_tile.load %value[%i, %c0] within(%i of %n) stream(%t of %n) : memref<?x32xf8E4M3FN> -> vector<64x32xf8E4M3FN>
    %vw = arith.extf %v : vector<64x32xf8E4M3FN> to vector<64x32xbf16>
    %s = vector.contract {indexing_maps = [#plain, #keys, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %ones, %kw, %none : vector<64x64xbf16>, vector<64x64xbf16> into vector<64x64xf32>
    %p = arith.truncf %s : vector<64x64xf32> to vector<64x64xbf16>
    %x = vector.contract {indexing_maps = [#plain, #values, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %p, %vw, %a : vector<64x64xbf16>, vector<64x32xbf16> into vector<64x32xf32>
    scf.yield %x : vector<64x32xf32>
  }
  attn_tile.store %r, %out[%c0, %c0] : vector<64x32xf32>, memref<?x32xf32>
  attn_tile.return
}
