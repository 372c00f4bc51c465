// RUN: attn-opt %s -attn-tile-software-pipeline-kv-loop | FileCheck %s

#lhs = affine_map<(m, n, k) -> (m, k)>
#keys = affine_map<(m, n, k) -> (n, k)>
#result = affine_map<(m, n, k) -> (m, n)>

// A step hands probabilities to the next one in 8 bits, and extends them where the last MMA is.

// CHECK-LABEL: attn_tile.kernel @extended
// CHECK:         %[[P0:.*]] = arith.truncf %{{.*}} : vector<16x8xf32> to vector<16x8xf8E4M3FN>
// CHECK-NOT:     arith.extf %[[P0]]
// CHECK:         %[[DONE:.*]]:2 = scf.for {{.*}} iter_args(%[[ACC:.*]] = %{{.*}}, %[[P:.*]] = %[[P0]])
// CHECK-SAME:      -> (vector<16x16xf32>, vector<16x8xf8E4M3FN>)
// CHECK:           %[[W:.*]] = arith.extf %[[P]] : vector<16x8xf8E4M3FN> to vector<16x8xf32>
// CHECK-NEXT:      vector.contract {{.*}} %[[W]], %{{.*}}, %[[ACC]]
// CHECK:           %[[NEXT:.*]] = arith.truncf
// CHECK-NEXT:      scf.yield %{{.*}}, %[[NEXT]]
// CHECK:         %[[LAST:.*]] = arith.extf %[[DONE]]#1 : vector<16x8xf8E4M3FN> to vector<16x8xf32>
// CHECK-NEXT:    vector.contract {{.*}} %[[LAST]], %{{.*}}, %[[DONE]]#0
attn_tile.kernel @extended(%k: memref<?x16xf16>, %v: memref<16x?xf8E5M2>, %q: vector<16x16xf16>,
                           %out: memref<?x16xf32>, %count: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %zero = arith.constant dense<0.0> : vector<16x8xf32>
  %acc0 = arith.constant dense<0.0> : vector<16x16xf32>
  %0 = scf.for %t = %c0 to %count step %c1 iter_args(%acc = %acc0) -> vector<16x16xf32> {
    %row = arith.muli %t, %c8 : index
    %kt = attn_tile.load %k[%row, %c0] stream(%t of %count) : memref<?x16xf16> -> vector<8x16xf16>
    %s = vector.contract {indexing_maps = [#lhs, #keys, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %q, %kt, %zero : vector<16x16xf16>, vector<8x16xf16> into vector<16x8xf32>
    %e = math.exp2 %s : vector<16x8xf32>
    %p = arith.truncf %e : vector<16x8xf32> to vector<16x8xf8E4M3FN>
    %pw = arith.extf %p : vector<16x8xf8E4M3FN> to vector<16x8xf32>
    %vt = attn_tile.load %v[%c0, %row] stream(%t of %count) : memref<16x?xf8E5M2> -> vector<16x8xf8E5M2>
    %vw = arith.extf %vt : vector<16x8xf8E5M2> to vector<16x8xf32>
    %o = vector.contract {indexing_maps = [#lhs, #keys, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %pw, %vw, %acc : vector<16x8xf32>, vector<16x8xf32> into vector<16x16xf32>
    scf.yield %o : vector<16x16xf32>
  }
  attn_tile.store %0, %out[%c0, %c0] : vector<16x16xf32>, memref<?x16xf32>
  attn_tile.return
}
