// RUN: attn-opt %s --convert-attn-to-attn-tile --split-input-file \
// RUN:   --remarks-filter=convert-attn-to-attn-tile --remark-format=emitRemark 2>&1 | FileCheck %s

// The random numbers of a work item are those of its batch entry and head. Sums
// are of all probabilities; kept ones are scaled with the rows.

// CHECK:       remark: {{.*}}drops attention probabilities with probability 26/256, for p = 0.10000000
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
// CHECK:             %[[D:.*]] = attn_tile.generate_keep_mask at(%{{.*}}, %{{.*}}) stream(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}})
// CHECK-SAME:            by(<p = 1.000000e-01, rng = #attn.philox<rounds = 7>>) : <32x64>
// CHECK:             %[[KEPT:.*]] = attn_tile.dropout %[[NARROW]] by %[[D]] below_two : vector<32x64xbf16>
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

// Where heads share keys, the head follows from the step. Steps read the stream
// of their head, which the first kernel has stored. Gradients of scores
// have a factor of 0.875, which delta has already and stored gradients lose. The
// gradients of probabilities are not cleared: they meet kept probabilities.

// CHECK-LABEL: attn_tile.kernel @backward_grad_preprocess_kernel(
// CHECK:         scf.forall (%[[B:.*]], %[[H:.*]], %[[T:.*]]) in
// CHECK:           arith.constant dense<8.750000e-01> : vector<32xf32>
// CHECK:           %[[FIRST:.*]] = arith.cmpi eq, %[[T]], %{{.*}} : index
// CHECK:           scf.if %[[FIRST]] {
// CHECK:             %[[ONE:.*]] = arith.constant 1 : index
// CHECK:             attn_tile.thread_for to(%[[ONE]])
// CHECK-COUNT-4:       memref.store %{{.*}}, %{{.*}}[%[[B]], %[[H]], %{{.*}}] : memref<?x4x4xi32>
// CHECK-LABEL: attn_tile.kernel @backward_grad_dkdv_kernel(
// CHECK:         scf.for
// CHECK:           vector.contract {{.*}} : vector<64x64xbf16>, vector<32x64xbf16> into vector<64x32xf32>
// CHECK:           %[[GRAD:.*]] = vector.contract {{.*}} : vector<64x64xbf16>, vector<32x64xbf16> into vector<64x32xf32>
// CHECK-COUNT-4:   memref.load {{.*}} : memref<?x4x4xi32>
// CHECK:           %[[D:.*]] = attn_tile.generate_keep_mask {{.*}} : <64x32, transposed>
// CHECK:           %[[WEIGHTS:.*]] = math.exp2
// CHECK:           %[[NARROW:.*]] = arith.truncf %[[WEIGHTS]] : vector<64x32xf32> to vector<64x32xbf16>
// CHECK:           %[[KEPT:.*]] = attn_tile.dropout %[[NARROW]] by %[[D]] below_two
// CHECK:           vector.contract {{.*}} %[[KEPT]]
// CHECK:           %[[COMMON:.*]] = arith.mulf %[[WEIGHTS]], %{{.*}} : vector<64x32xf32>
// CHECK:           %[[WIDE:.*]] = arith.extf %[[KEPT]] : vector<64x32xbf16> to vector<64x32xf32>
// CHECK:           %[[NEGATED:.*]] = arith.negf %[[COMMON]]
// CHECK:           math.fma %[[WIDE]], %[[GRAD]], %[[NEGATED]]
// CHECK:         arith.constant dense<0.142857149> : vector<64x64xf32>
// CHECK-LABEL: attn_tile.kernel @backward_grad_dq_kernel(
// CHECK:           attn_tile.generate_keep_mask {{.*}} by(<p = 1.250000e-01, rng = #attn.arx>) : <32x64>
func.func @backward(%q: memref<?x4x?x64xbf16>, %k: memref<?x2x?x64xbf16>, %lse: memref<?x4x?xf32>, %seed: i64) {
  attn.attention_grad
      ins(%q, %k, %k, %q, %lse, %q : memref<?x4x?x64xbf16>, memref<?x2x?x64xbf16>, memref<?x2x?x64xbf16>,
          memref<?x4x?x64xbf16>, memref<?x4x?xf32>, memref<?x4x?x64xbf16>)
      outs(%q, %k, %k : memref<?x4x?x64xbf16>, memref<?x2x?x64xbf16>, memref<?x2x?x64xbf16>)
      dropout(#attn.dropout<p = 0.125, rng = #attn.arx>, %seed, %seed : i64, i64)
      schedule(#attn_tile.sequential<query_tile = 32, key_tile = 64>)
  return
}

// -----

// Keep masks that are given are read while the softmax is computed.

// CHECK-LABEL: attn_tile.kernel @given_kernel(
// CHECK-SAME:    %[[MASK:[a-z0-9]+]]: memref<?x4x?x?xi32>)
// CHECK:         scf.forall (%[[B:.*]], %[[H:.*]], %{{.*}}) in
// CHECK:           scf.for
// CHECK:             vector.contract
// CHECK-NEXT:        %[[D:.*]] = attn_tile.load_keep_mask %[[MASK]][%[[B]], %[[H]]] rows at(%{{.*}}, %{{.*}}) : memref<?x4x?x?xi32> -> <32x64, whole>
// CHECK:             math.exp2
// CHECK:             attn_tile.dropout %{{.*}} by %[[D]] below_two : vector<32x64xbf16>
func.func @given(%q: memref<?x4x?x64xbf16>, %o: memref<?x4x?x64xbf16>, %m: memref<?x4x?x?xi32>) {
  attn.attention ins(%q, %q, %q : memref<?x4x?x64xbf16>, memref<?x4x?x64xbf16>, memref<?x4x?x64xbf16>)
      outs(%o : memref<?x4x?x64xbf16>)
      dropout_mask rows(%m : memref<?x4x?x?xi32>) p(0.25)
      schedule(#attn_tile.sequential<query_tile = 32, key_tile = 64>)
  return
}

// -----

// Rows of a part of a tensor may begin anywhere.

// CHECK-LABEL: attn_tile.kernel @part_of_a_mask_kernel(
// CHECK:         attn_tile.load_keep_mask %{{.*}} rows at(%{{.*}}, %{{.*}}) : memref<?x4x?x?xi32, strided<[?, ?, ?, 1], offset: ?>> -> <32x64>
// CHECK-LABEL: attn_tile.kernel @buffer_of_a_mask_kernel(
// CHECK:         attn_tile.load_keep_mask %{{.*}} rows at(%{{.*}}, %{{.*}}) : memref<?x4x?x?xi32> -> <32x64, whole>
func.func @part_of_a_mask(%q: memref<?x4x?x64xbf16>, %o: memref<?x4x?x64xbf16>, %m: memref<?x4x?x?xi32>, %n: index) {
  %part = memref.subview %m[0, 0, 0, %n] [%n, 4, %n, %n] [1, 1, 1, 1]
      : memref<?x4x?x?xi32> to memref<?x4x?x?xi32, strided<[?, ?, ?, 1], offset: ?>>
  attn.attention ins(%q, %q, %q : memref<?x4x?x64xbf16>, memref<?x4x?x64xbf16>, memref<?x4x?x64xbf16>)
      outs(%o : memref<?x4x?x64xbf16>)
      dropout_mask rows(%part : memref<?x4x?x?xi32, strided<[?, ?, ?, 1], offset: ?>>) p(0.25)
      schedule(#attn_tile.sequential<query_tile = 32, key_tile = 64>)
  return
}
func.func @buffer_of_a_mask(%q: memref<?x4x?x64xbf16>, %o: memref<?x4x?x64xbf16>, %n: index) {
  %m = memref.alloc(%n, %n, %n) : memref<?x4x?x?xi32>
  attn.attention ins(%q, %q, %q : memref<?x4x?x64xbf16>, memref<?x4x?x64xbf16>, memref<?x4x?x64xbf16>)
      outs(%o : memref<?x4x?x64xbf16>)
      dropout_mask rows(%m : memref<?x4x?x?xi32>) p(0.25)
      schedule(#attn_tile.sequential<query_tile = 32, key_tile = 64>)
  return
}

// -----

// A mask has a kernel of its own. A work item is 16 rows of words; a thread
// makes four words of a row together.

// CHECK-LABEL: attn_tile.kernel @mask_dropout_mask(
// CHECK-SAME:    %[[MASK:[a-z0-9]+]]: memref<?x4x?x?xi32>, %[[SEED:[a-z0-9]+]]: memref<i64>)
// CHECK-SAME:    schedule = #attn_tile.scalar
// CHECK:         memref.load %[[SEED]][]
// CHECK:         arith.constant 4 : i64
// CHECK:         scf.forall (%[[B:.*]], %[[H:.*]], %[[G:.*]]) in
// CHECK:           arith.muli %[[G]], %{{.*}} : index
// CHECK:           %[[ROWS:.*]] = arith.constant 16 : index
// CHECK:           scf.for %[[R:.*]] = %{{.*}} to %[[ROWS]] step
// CHECK:             %[[ROW:.*]] = arith.addi %{{.*}}, %[[R]] : index
// CHECK:             attn_tile.thread_for to(%{{.*}}) together(4) {
// CHECK:               ^bb0(%[[I:.*]]: index)
// CHECK:               memref.store %{{.*}}, %[[MASK]][%[[B]], %[[H]], %[[ROW]], %[[I]]]
// CHECK-NOT:           memref.store
// CHECK-LABEL: func.func @mask
// CHECK:         attn_tile.launch @mask_dropout_mask args(
func.func @mask(%m: memref<?x4x?x?xi32>, %seed: memref<i64>) {
  %offset = arith.constant 4 : i64
  attn.dropout_mask rows by(#attn.dropout<p = 0.125, rng = #attn.arx>, %seed, %offset : memref<i64>, i64)
      outs(%m : memref<?x4x?x?xi32>) schedule(#attn_tile.scalar)
  return
}
