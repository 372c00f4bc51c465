// RUN: attn-opt %s --convert-attn-to-attn-tile --split-input-file \
// RUN:   --remarks-filter=convert-attn-to-attn-tile --remark-format=emitRemark 2>&1 | FileCheck %s

// The random numbers of a work item are those of its batch entry and head. Sums
// are of all weights; what is kept is scaled with the rows.

// CHECK:       remark: {{.*}}drops weights with probability 26/256, for p = 0.10000000
// CHECK-LABEL: attn_tile.kernel @forward_kernel(
// CHECK-SAME:    %[[SEED:[a-z0-9]+]]: memref<i64>)
// CHECK:         scf.forall (%[[B:.*]], %[[H:.*]], %{{.*}}) in
// CHECK-DAG:       memref.load %[[SEED]][] : memref<i64>
// CHECK-DAG:       arith.constant 8 : i64
// CHECK-DAG:       arith.index_cast %[[B]] : index to i32
// CHECK-DAG:       arith.index_cast %[[H]] : index to i32
// CHECK:           scf.for
// CHECK:             %[[P:.*]] = math.exp2 %{{.*}} : vector<32x64xf32>
// CHECK:             attn_tile.partial_sum %[[P]] into
// CHECK:             %[[NARROW:.*]] = arith.truncf %[[P]] : vector<32x64xf32> to vector<32x64xbf16>
// CHECK:             %[[KEPT:.*]] = attn_tile.dropout %[[NARROW]] at(%{{.*}}, %{{.*}}) stream(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) by(<p = 1.000000e-01, rng = #attn.philox<rounds = 7>>) : vector<32x64xbf16>
// CHECK:             vector.contract {{.*}} %[[KEPT]]
// CHECK:           %[[KEEP:.*]] = arith.constant dense<1.11304343> : vector<32xf32>
// CHECK:           arith.divf %[[KEEP]], %{{.*}} : vector<32xf32>
func.func @forward(%q: memref<?x4x?x64xbf16>, %o: memref<?x4x?x64xbf16>, %seed: memref<i64>) {
  %offset = arith.constant 8 : i64
  attn.attention ins(%q, %q, %q : memref<?x4x?x64xbf16>, memref<?x4x?x64xbf16>, memref<?x4x?x64xbf16>)
      outs(%o : memref<?x4x?x64xbf16>)
      dropout(#attn.dropout<p = 0.1, rng = #attn.philox<rounds = 7>>, %seed, %offset : memref<i64>, i64)
      schedule(#attn_tile.sequential<query_tile = 32, key_tile = 64>)
  return
}

// -----

// Where heads share keys, the head follows from the step.

// CHECK-LABEL: attn_tile.kernel @backward_grad_keys_kernel(
// CHECK:         scf.for
// CHECK:           %[[WEIGHTS:.*]] = math.exp2
// CHECK:           %[[KEPT:.*]] = attn_tile.dropout %[[WEIGHTS]] {{.*}} transposed : vector<64x32xf32>
// CHECK:           %[[NARROW:.*]] = arith.truncf %[[KEPT]] : vector<64x32xf32> to vector<64x32xbf16>
// CHECK-DAG:       vector.contract {{.*}} %[[NARROW]]
// CHECK-DAG:       %[[SHARED:.*]] = arith.mulf %[[WEIGHTS]], %{{.*}}
// CHECK-DAG:       %[[NEGATED:.*]] = arith.negf %[[SHARED]]
// CHECK:           math.fma %[[KEPT]], %{{.*}}, %[[NEGATED]]
// CHECK-LABEL: attn_tile.kernel @backward_grad_queries_kernel(
// CHECK:           attn_tile.dropout %{{.*}} at({{.*}}) stream({{.*}}) by(<p = 1.250000e-01, rng = #attn.arx>) : vector<32x64xf32>
func.func @backward(%q: memref<?x4x?x64xbf16>, %k: memref<?x2x?x64xbf16>, %lse: memref<?x4x?xf32>, %seed: i64) {
  attn.attention_grad
      ins(%q, %k, %k, %q, %lse, %q : memref<?x4x?x64xbf16>, memref<?x2x?x64xbf16>, memref<?x2x?x64xbf16>,
          memref<?x4x?x64xbf16>, memref<?x4x?xf32>, memref<?x4x?x64xbf16>)
      outs(%q, %k, %k : memref<?x4x?x64xbf16>, memref<?x2x?x64xbf16>, memref<?x2x?x64xbf16>)
      dropout(#attn.dropout<p = 0.125, rng = #attn.arx>, %seed, %seed : i64, i64)
      schedule(#attn_tile.sequential<query_tile = 32, key_tile = 64>)
  return
}
