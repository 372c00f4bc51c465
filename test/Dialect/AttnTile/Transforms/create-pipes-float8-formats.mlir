// RUN: attn-opt %s -attn-tile-create-pipes | FileCheck %s
// RUN: attn-opt %s -attn-tile-create-pipes=lhs-registers | FileCheck %s --check-prefix=REGISTERS

#plain = affine_map<(m, n, k) -> (m, k)>
#keys = affine_map<(m, n, k) -> (n, k)>
#result = affine_map<(m, n, k) -> (m, n)>

// MMAs multiply tiles of different 8-bit formats, which `vector.contract` has as f32.

// CHECK-LABEL: attn_tile.kernel @formats(
// CHECK-DAG:     %[[QP:.*]] = attn_tile.create_pipe : <64x64xf8E5M2, stages = 1>
// CHECK-DAG:     %[[KP:.*]] = attn_tile.create_pipe : <32x64xf8E4M3FN, stages = 2>
// CHECK-DAG:     %[[VP:.*]] = attn_tile.create_pipe : <64x32xf8E5M2, stages = 2>
// CHECK:         %[[Q:.*]] = attn_tile.wait %[[QP]]
// CHECK:         scf.for
// CHECK:           %[[K:.*]] = attn_tile.wait %[[KP]]
// CHECK-NOT:       arith.extf
// CHECK:           attn_tile.mma_start %[[Q]], %[[K]] transpose_rhs : !attn_tile.buffer<64x64xf8E5M2>, <32x64xf8E4M3FN>
// CHECK:           %[[P:.*]] = arith.truncf {{.*}} : vector<64x32xf32> to vector<64x32xf8E4M3FN>
// CHECK:           %[[V:.*]] = attn_tile.wait %[[VP]]
// CHECK-NOT:       arith.extf
// CHECK:           attn_tile.mma_start %[[P]], %[[V]] transpose_rhs acc %{{.*}} : vector<64x32xf8E4M3FN>, <64x32xf8E5M2>

// REGISTERS-LABEL: attn_tile.kernel @formats(
// REGISTERS:         %[[Q:.*]] = attn_tile.read
// REGISTERS-SAME:      vector<64x64xf8E5M2>
// REGISTERS:         attn_tile.mma_start %[[Q]], %{{.*}} transpose_rhs : vector<64x64xf8E5M2>, <32x64xf8E4M3FN>
attn_tile.kernel @formats(%query: memref<?x64xf8E5M2>, %key: memref<?x64xf8E4M3FN>, %value: memref<64x?xf8E5M2>,
                          %out: memref<?x64xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %zero = arith.constant dense<0.0> : vector<64x64xf32>
  %none = arith.constant dense<0.0> : vector<64x32xf32>
  %q = attn_tile.load %query[%c0, %c0] stream(%c0 of %c1) : memref<?x64xf8E5M2> -> vector<64x64xf8E5M2>
  %qw = arith.extf %q : vector<64x64xf8E5M2> to vector<64x64xf32>
  %r = scf.for %t = %c0 to %n step %c1 iter_args(%a = %zero) -> (vector<64x64xf32>) {
    %i = arith.muli %t, %c32 : index
    %k = attn_tile.load %key[%i, %c0] stream(%t of %n) : memref<?x64xf8E4M3FN> -> vector<32x64xf8E4M3FN>
    %kw = arith.extf %k : vector<32x64xf8E4M3FN> to vector<32x64xf32>
    %s = vector.contract {indexing_maps = [#plain, #keys, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %qw, %kw, %none : vector<64x64xf32>, vector<32x64xf32> into vector<64x32xf32>
    %p = arith.truncf %s : vector<64x32xf32> to vector<64x32xf8E4M3FN>
    %pw = arith.extf %p : vector<64x32xf8E4M3FN> to vector<64x32xf32>
    %v = attn_tile.load %value[%c0, %i] stream(%t of %n) : memref<64x?xf8E5M2> -> vector<64x32xf8E5M2>
    %vw = arith.extf %v : vector<64x32xf8E5M2> to vector<64x32xf32>
    %x = vector.contract {indexing_maps = [#plain, #keys, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %pw, %vw, %a : vector<64x32xf32>, vector<64x32xf32> into vector<64x64xf32>
    scf.yield %x : vector<64x64xf32>
  }
  attn_tile.store %r, %out[%c0, %c0] : vector<64x64xf32>, memref<?x64xf32>
  attn_tile.return
}
