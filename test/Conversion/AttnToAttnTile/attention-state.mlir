// RUN: attn-opt %s --convert-attn-to-attn-tile=target=sm_90a --cse --split-input-file | FileCheck %s

// The state is a result of keys before the first step: the maximum is the log-sum-exp before scaling, the row sum 1, in
// parts, and the accumulator the output. A row without keys counts as nothing, whatever its output is.
// CHECK-LABEL: attn_tile.kernel @state_kernel(
// CHECK-SAME:    %[[STATE_OUT:[a-z0-9_]+]]: memref<2x4x8x16xbf16>, %[[STATE_LSE:[a-z0-9_]+]]: memref<2x4x8xf32>)
// CHECK:         scf.forall (%[[B:.*]], %[[H:.*]], %{{.*}}) in
// CHECK:           %[[LSE:.*]] = attn_tile.load %[[STATE_LSE]][%[[B]], %[[H]], %[[ROW:.*]]] : memref<2x4x8xf32> -> vector<64xf32>
// CHECK:           %[[EXISTS:.*]] = arith.cmpf une, %[[LSE]], %{{.*}} : vector<64xf32>
// CHECK:           %[[NARROW:.*]] = attn_tile.load %[[STATE_OUT]][%[[B]], %[[H]], %[[ROW]], %{{.*}}] : memref<2x4x8x16xbf16> -> vector<64x16xbf16>
// CHECK:           %[[OUT:.*]] = arith.extf %[[NARROW]]
// CHECK:           %[[INVERSE:.*]] = arith.constant dense<5.000000e-01> : vector<64xf32>
// CHECK:           %[[MAX:.*]] = arith.mulf %[[LSE]], %[[INVERSE]]
// CHECK:           %[[IS_HELD:.*]] = arith.cmpf une, %{{.*}}, %{{.*}} : vector<64x16xf32>
// CHECK:           %[[WEIGHTED:.*]] = arith.mulf %[[OUT]], %{{.*}} : vector<64x16xf32>
// CHECK:           %[[ACC:.*]] = arith.select %[[IS_HELD]], %[[WEIGHTED]], %{{.*}}
// CHECK:           %[[PART:.*]] = arith.select %[[EXISTS]], %{{.*}}, %{{.*}} : vector<64xi1>, vector<64xf32>
// CHECK:           %[[SUMS:.*]] = vector.broadcast %{{.*}} : vector<64x1xf32> to vector<64x8xf32>
// CHECK:           scf.for {{.*}} iter_args(%{{.*}} = %[[MAX]], %{{.*}} = %[[SUMS]], %{{.*}} = %[[ACC]])
func.func @state(%q: memref<2x4x8x16xbf16>, %o: memref<2x4x8x16xbf16>, %so: memref<2x4x8x16xbf16>, %sl: memref<2x4x8xf32>) {
  attn.attention ins(%q, %q, %q : memref<2x4x8x16xbf16>, memref<2x4x8x16xbf16>, memref<2x4x8x16xbf16>)
      outs(%o : memref<2x4x8x16xbf16>) state(%so, %sl : memref<2x4x8x16xbf16>, memref<2x4x8xf32>) scale(2.0)
      schedule(#attn_tile.sequential<query_tile = 64, key_tile = 32>)
  return
}

// -----

// A sink and the state are relative to the larger one.
// CHECK-LABEL: attn_tile.kernel @sinks_kernel(
// CHECK:           %[[SINK:.*]] = vector.broadcast %{{.*}} : f32 to vector<64xf32>
// CHECK:           %[[LSE:.*]] = attn_tile.load %{{.*}} -> vector<64xf32>
// CHECK:           %[[STATE:.*]] = arith.mulf %[[LSE]]
// CHECK:           %[[MAX:.*]] = arith.maxnumf %[[STATE]], %[[SINK]]
// CHECK:           math.exp2
// CHECK:           math.exp2
// CHECK:           %[[SUMS:.*]] = arith.addf %{{.*}}, %{{.*}} : vector<64x8xf32>
// CHECK:           scf.for {{.*}} iter_args(%{{.*}} = %[[MAX]], %{{.*}} = %[[SUMS]],
func.func @sinks(%q: memref<2x4x8x16xf32>, %o: memref<2x4x8x16xf32>, %l: memref<2x4x8xf32>, %sinks: memref<4xf32>) {
  attn.attention ins(%q, %q, %q : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>, memref<2x4x8x16xf32>)
      outs(%o : memref<2x4x8x16xf32>) state(%q, %l : memref<2x4x8x16xf32>, memref<2x4x8xf32>) sinks(%sinks : memref<4xf32>)
      schedule(#attn_tile.sequential<query_tile = 64, key_tile = 32>)
  return
}

// -----

// Splits begin without the state; the kernel that combines them begins with it.
// CHECK-LABEL: attn_tile.kernel @split_kernel(
// CHECK-NOT:     attn_tile.load {{.*}}memref<1x2x16xf32>
// CHECK-LABEL: attn_tile.kernel @split_combine(
// CHECK-SAME:    %[[STATE_OUT:[a-z0-9_]+]]: memref<1x2x16x64xf16>, %[[STATE_LSE:[a-z0-9_]+]]: memref<1x2x16xf32>
// CHECK:         %[[LSE:.*]] = memref.load %[[STATE_LSE]]
// CHECK:         %[[NARROW:.*]] = memref.load %[[STATE_OUT]]
// CHECK:         %[[OUT:.*]] = arith.extf %[[NARROW]]
// CHECK:         %[[EMPTY:.*]] = arith.cmpf oeq, %[[LSE]]
// CHECK:         %[[SUM:.*]] = arith.select %[[EMPTY]]
// CHECK:         %[[ACC:.*]] = arith.select %[[EMPTY]], %{{.*}}, %[[OUT]]
func.func @split(%q: memref<1x2x16x64xf32>, %k: memref<1x2x256x64xf32>, %o: memref<1x2x16x64xf32>, %so: memref<1x2x16x64xf16>, %sl: memref<1x2x16xf32>) {
  attn.attention ins(%q, %k, %k : memref<1x2x16x64xf32>, memref<1x2x256x64xf32>, memref<1x2x256x64xf32>)
      outs(%o : memref<1x2x16x64xf32>) state(%so, %sl : memref<1x2x16x64xf16>, memref<1x2x16xf32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64, split_kv_work_items = 8>)
  return
}

// -----

// A listed split begins with the state if it is the only one of its tile; other ones read rows behind the last one. Query
// heads of a group are rows.
// CHECK-LABEL: attn_tile.kernel @listed_kernel(
// CHECK:         %[[PACKED_OUT:.*]] = attn_tile.pack_gqa %{{.*}} : memref<1x6x?x64xf16>
// CHECK:         %[[STATE_OUT:.*]] = attn_tile.pack_gqa %{{.*}} : memref<1x6x?x64xf32>
// CHECK:         %[[STATE_LSE:.*]] = attn_tile.pack_gqa %{{.*}} : memref<1x6x?xf32>
// CHECK:         %[[IS_ONLY:.*]] = arith.cmpi eq, %{{.*}}, %{{.*}} : index
// CHECK:         %[[BEHIND:.*]] = memref.dim %[[STATE_LSE]]
// CHECK:         %[[ROW:.*]] = arith.select %[[IS_ONLY]], %{{.*}}, %[[BEHIND]]
// CHECK:         %[[LSE:.*]] = attn_tile.load %[[STATE_LSE]][%{{.*}}, %{{.*}}, %[[ROW]]]
// CHECK:         arith.select %[[IS_ONLY]], %[[LSE]], %{{.*}}
// CHECK:         attn_tile.load %[[STATE_OUT]]
// CHECK:         scf.if %[[IS_ONLY]]
// CHECK-LABEL: attn_tile.kernel @listed_combine(
// CHECK:         memref.load %{{.*}} : memref<1x6x?xf32>
// CHECK:         memref.load %{{.*}} : memref<1x6x?x64xf32>
func.func @listed(%q: memref<1x6x?x64xf16>, %k: memref<?x2x?x64xf16>, %o: memref<1x6x?x64xf16>, %so: memref<1x6x?x64xf32>,
                  %sl: memref<1x6x?xf32>, %c: memref<?xi32>, %n: memref<?xi32>) {
  attn.attention ins(%q, %k, %k : memref<1x6x?x64xf16>, memref<?x2x?x64xf16>, memref<?x2x?x64xf16>)
      outs(%o : memref<1x6x?x64xf16>) state(%so, %sl : memref<1x6x?x64xf32>, memref<1x6x?xf32>)
      sequences packed_queries(%c, %n : memref<?xi32>, memref<?xi32>)
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, traversal = grid,
          split_kv_work_items = 132, pack_gqa = true, balance_splits = true>)
  return
}
