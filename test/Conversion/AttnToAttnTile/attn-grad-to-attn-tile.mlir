// RUN: attn-opt %s --convert-attn-to-attn-tile --split-input-file | FileCheck %s
// RUN: attn-opt %s --convert-attn-to-attn-tile --split-input-file | attn-opt --split-input-file --verify-roundtrip -o /dev/null

// One kernel for rows, one for keys and values, one for queries. Heads that
// share keys are visited by one work item.

// CHECK-LABEL: attn_tile.kernel @grouped_grad_preprocess_kernel(
// CHECK-SAME:    %[[O:[a-zA-Z0-9_]+]]: memref<?x4x?x64xbf16>, %[[DO:[a-zA-Z0-9_]+]]: memref<?x4x?x64xbf16>, %[[LSE:[a-zA-Z0-9_]+]]: memref<?x4x?xf32>,
// CHECK-SAME:    %[[DLSE:[a-zA-Z0-9_]+]]: memref<?x4x?xf32>,
// CHECK-SAME:    %[[EXPONENT:[a-zA-Z0-9_]+]]: memref<?x4x?xf32>, %[[DELTA:[a-zA-Z0-9_]+]]: memref<?x4x?xf32>)
// CHECK:         attn_tile.load %[[LSE]]
// CHECK:         attn_tile.load %[[DLSE]]
// CHECK:         attn_tile.load %[[O]]{{.*}} any_order
// CHECK:         attn_tile.load %[[DO]]{{.*}} any_order
// CHECK:         %[[SUM:[a-zA-Z0-9_]+]] = vector.multi_reduction <add>
// CHECK:         %[[D:[a-zA-Z0-9_]+]] = arith.subf %[[SUM]]
// CHECK:         vector.create_mask
// CHECK:         attn_tile.store %{{.*}}, %[[EXPONENT]]
// CHECK:         attn_tile.store %{{.*}}, %[[DELTA]]

// CHECK-LABEL: attn_tile.kernel @grouped_grad_dkdv_kernel(
// CHECK-SAME:    %[[Q:[a-zA-Z0-9_]+]]: memref<?x4x?x128xbf16>, %[[K:[a-zA-Z0-9_]+]]: memref<?x2x?x128xbf16>, %[[V:[a-zA-Z0-9_]+]]: memref<?x2x?x64xbf16>,
// CHECK-SAME:    %[[DO:[a-zA-Z0-9_]+]]: memref<?x4x?x64xbf16>,
// CHECK:         scf.forall (%[[B:[a-zA-Z0-9_]+]], %[[H:[a-zA-Z0-9_]+]], %{{.*}}) in
// CHECK:           %[[KT:[a-zA-Z0-9_]+]] = attn_tile.load %[[K]]{{.*}} stream(%c0{{.*}} of %c1{{.*}}) : {{.*}} -> vector<64x128xbf16>
// CHECK:           %[[VT:[a-zA-Z0-9_]+]] = attn_tile.load %[[V]]{{.*}} -> vector<64x64xbf16>
// CHECK:           %[[TOTAL:[a-zA-Z0-9_]+]] = arith.muli %{{.*}}, %c2
// CHECK:           scf.for %[[T:[a-zA-Z0-9_]+]] = %c0{{.*}} to %[[TOTAL]]
// CHECK:             attn_tile.load {{.*}} in_bounds : {{.*}} -> vector<1x32xf32>
// CHECK:             %[[QT:[a-zA-Z0-9_]+]] = attn_tile.load %[[Q]]{{.*}} stream(%[[T]] of %[[TOTAL]]) : {{.*}} -> vector<32x128xbf16>
// CHECK:             %[[S:[a-zA-Z0-9_]+]] = vector.contract {{.*}} %[[KT]], %[[QT]]
// CHECK:             %[[DOT:[a-zA-Z0-9_]+]] = attn_tile.load %[[DO]]{{.*}} stream(%[[T]] of %[[TOTAL]])
// CHECK:             %[[DP:[a-zA-Z0-9_]+]] = vector.contract {{.*}} %[[VT]], %[[DOT]]
// CHECK:             %[[MASKED:[a-zA-Z0-9_]+]] = scf.if
// CHECK:               attn_tile.mask %[[S]] {{.*}} by(#attn.causal) transposed : vector<64x32xf32>
// CHECK:             } else {
// CHECK:               scf.yield %[[S]]
// CHECK:             %[[P:[a-zA-Z0-9_]+]] = math.exp2
// CHECK:             arith.truncf %[[P]]
// CHECK:             vector.contract {{.*}} vector<64x32xbf16>, vector<32x64xbf16> into vector<64x64xf32>
// CHECK:             %[[CENTRED:[a-zA-Z0-9_]+]] = arith.subf %[[DP]]
// CHECK:             arith.mulf %[[P]], %[[CENTRED]]
// CHECK:             vector.contract {{.*}} vector<64x32xbf16>, vector<32x128xbf16> into vector<64x128xf32>

// CHECK-LABEL: attn_tile.kernel @grouped_grad_dq_kernel(
// CHECK:         attn_tile.kv_tile_iterator
// CHECK:         scf.for
// CHECK-COUNT-3:   vector.contract

// CHECK-LABEL: func.func @grouped
// CHECK-COUNT-2: memref.alloc(%{{.*}}, %{{.*}}) : memref<?x4x?xf32>
// CHECK:         attn_tile.launch @grouped_grad_preprocess_kernel
// CHECK:         attn_tile.launch @grouped_grad_dkdv_kernel
// CHECK:         attn_tile.launch @grouped_grad_dq_kernel
// CHECK-COUNT-2: memref.dealloc
func.func @grouped(%q: memref<?x4x?x128xbf16>, %k: memref<?x2x?x128xbf16>, %v: memref<?x2x?x64xbf16>,
                   %o: memref<?x4x?x64xbf16>, %do: memref<?x4x?x64xbf16>,
                   %lse: memref<?x4x?xf32>, %dlse: memref<?x4x?xf32>) {
  attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do, %dlse : memref<?x4x?x128xbf16>, memref<?x2x?x128xbf16>, memref<?x2x?x64xbf16>,
          memref<?x4x?x64xbf16>, memref<?x4x?xf32>, memref<?x4x?x64xbf16>, memref<?x4x?xf32>)
      outs(%q, %k, %v : memref<?x4x?x128xbf16>, memref<?x2x?x128xbf16>, memref<?x2x?x64xbf16>)
      mask(#attn.causal) schedule(#attn_tile.sequential<query_tile = 32, key_tile = 64>)
  return
}

// -----

// Without a kernel for queries, their gradients are added up: one row for each
// column of the head dim, or for each query if a tile has as many as there are keys.

// CHECK-LABEL: attn_tile.kernel @sums_grad_preprocess_kernel(
// CHECK:         attn_tile.store_fragments %{{.*}} : vector<16x64xf32> to memref<1x1x128x64xf32>
// CHECK-LABEL: attn_tile.kernel @sums_grad_dkdv_kernel(
// CHECK:         %[[SUM:[a-zA-Z0-9_]+]] = vector.contract {{.*}} vector<64x64xf32>, vector<64x16xf32> into vector<64x16xf32>
// CHECK:         attn_tile.bulk_reduce_add %[[SUM]] to %{{.*}} : vector<64x16xf32> to memref<1x1x128x64xf32>
// CHECK-LABEL: attn_tile.kernel @sums_grad_dq_convert_kernel(
// CHECK:         %[[LOADED:[a-zA-Z0-9_]+]] = attn_tile.load_fragments %{{.*}} : memref<1x1x128x64xf32> to vector<64x16xf32>
// CHECK:         %[[SCALED:[a-zA-Z0-9_]+]] = arith.mulf %[[LOADED]]
// CHECK:         attn_tile.store %[[SCALED]], %{{.*}} transposed : vector<64x16xf32>, memref<1x1x128x40xf32>
func.func @sums(%q: memref<1x1x128x40xf32>, %lse: memref<1x1x128xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x1x128x40xf32>, memref<1x1x128x40xf32>, memref<1x1x128x40xf32>,
          memref<1x1x128x40xf32>, memref<1x1x128xf32>, memref<1x1x128x40xf32>)
      outs(%q, %q, %q : memref<1x1x128x40xf32>, memref<1x1x128x40xf32>, memref<1x1x128x40xf32>)
      schedule(#attn_tile.gradient<preprocess = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
                                   dkdv = #attn_tile.sequential<query_tile = 16, key_tile = 64>>)
  return
}

// -----

// Accumulators with a larger head dim than a tile has keys are made in parts, of as many each:
// tiles in fragment order of their own, one after the other.

// CHECK-LABEL: attn_tile.kernel @wide_grad_dkdv_kernel(
// CHECK:         scf.for
// CHECK:           %[[KEYS0:[a-zA-Z0-9_]+]] = vector.extract_strided_slice %[[KEYS:[a-zA-Z0-9_]+]] {offsets = [0, 0], sizes = [64, 64], strides = [1, 1]}
// CHECK-SAME:          {{^}} : vector<64x128xbf16> to vector<64x64xbf16>
// CHECK:           %[[SUM0:[a-zA-Z0-9_]+]] = vector.contract {{.*}} %[[KEYS0]], %[[GRAD:[a-zA-Z0-9_]+]], %{{.*}} into vector<64x16xf32>
// CHECK:           attn_tile.bulk_reduce_add %[[SUM0]] to %[[SUMS:[a-zA-Z0-9_]+]][%[[B:[a-zA-Z0-9_]+]], %[[H:[a-zA-Z0-9_]+]], %[[ROW:[a-zA-Z0-9_]+]],
// CHECK-SAME:          %[[C0:[a-zA-Z0-9_]+]]] : vector<64x16xf32> to memref<1x1x128x128xf32>
// CHECK:           %[[C8:[a-zA-Z0-9_]+]] = arith.constant 8 : index
// CHECK:           %[[ROW1:[a-zA-Z0-9_]+]] = arith.addi %[[ROW]], %[[C8]] : index
// CHECK:           %[[KEYS1:[a-zA-Z0-9_]+]] = vector.extract_strided_slice %[[KEYS]] {offsets = [0, 64], sizes = [64, 64], strides = [1, 1]}
// CHECK:           %[[SUM1:[a-zA-Z0-9_]+]] = vector.contract {{.*}} %[[KEYS1]], %[[GRAD]], %{{.*}} into vector<64x16xf32>
// CHECK:           attn_tile.bulk_reduce_add %[[SUM1]] to %[[SUMS]][%[[B]], %[[H]], %[[ROW1]], %[[C0]]]
// CHECK-LABEL: attn_tile.kernel @wide_grad_dq_convert_kernel(
// CHECK:         %[[LOADED0:[a-zA-Z0-9_]+]] = attn_tile.load_fragments %{{.*}} : memref<1x1x128x128xf32> to vector<64x16xf32>
// CHECK:         attn_tile.store %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, %c0{{.*}}] transposed : vector<64x16xbf16>
// CHECK:         %[[LOADED1:[a-zA-Z0-9_]+]] = attn_tile.load_fragments %{{.*}} : memref<1x1x128x128xf32> to vector<64x16xf32>
// CHECK:         attn_tile.store %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, %c64{{.*}}] transposed : vector<64x16xbf16>
func.func @wide(%q: memref<1x1x100x128xbf16>, %lse: memref<1x1x100xf32>) {
  attn.attention_grad ins(%q, %q, %q, %q, %lse, %q : memref<1x1x100x128xbf16>, memref<1x1x100x128xbf16>,
          memref<1x1x100x128xbf16>, memref<1x1x100x128xbf16>, memref<1x1x100xf32>, memref<1x1x100x128xbf16>)
      outs(%q, %q, %q : memref<1x1x100x128xbf16>, memref<1x1x100x128xbf16>, memref<1x1x100x128xbf16>)
      schedule(#attn_tile.gradient<
        preprocess = #attn_tile.multistage<query_tile = 64, key_tile = 16, stages = 2, warps = 4>,
        dkdv = #attn_tile.key_stationary<query_tile = 16, key_tile = 64, stages = 2, consumers = 1>>)
  return
}

// -----

// A tile of queries in two parts, which are loaded, multiplied and masked one
// after the other; one matmul adds up the gradients of both.

// CHECK-LABEL: attn_tile.kernel @parts_grad_dkdv_kernel(
// CHECK:         %[[LENGTH:[a-zA-Z0-9_]+]] = arith.muli %[[COUNT:[a-zA-Z0-9_]+]], %c2{{.*}} : index
// CHECK:         scf.for %[[T:[a-zA-Z0-9_]+]] = %c0{{.*}} to %[[COUNT]]
// CHECK:           attn_tile.load {{.*}} stream(%[[FIRST:[a-zA-Z0-9_]+]] of %[[LENGTH]]) in_bounds : {{.*}} -> vector<1x64xf32>
// CHECK:           attn_tile.load {{.*}} stream(%[[FIRST]] of %[[LENGTH]]) : {{.*}} -> vector<64x64xbf16>
// CHECK-COUNT-4:   vector.contract
// CHECK:           attn_tile.load {{.*}} stream(%[[SECOND:[a-zA-Z0-9_]+]] of %[[LENGTH]]) in_bounds : {{.*}} -> vector<1x64xf32>
// CHECK-COUNT-4:   vector.contract
// CHECK:           %[[LEFT:[a-zA-Z0-9_]+]] = vector.insert_strided_slice {{.*}}offsets = [0, 0]
// CHECK:           %[[BOTH:[a-zA-Z0-9_]+]] = vector.insert_strided_slice %{{.*}}, %[[LEFT]] {offsets = [0, 64]{{.*}} into vector<128x128xbf16>
// CHECK:           %[[SUM:[a-zA-Z0-9_]+]] = vector.contract {{.*}} %[[BOTH]], {{.*}} into vector<128x64xf32>
// CHECK:           attn_tile.bulk_reduce_add %[[SUM]]
func.func @parts(%q: memref<1x1x?x64xbf16>, %lse: memref<1x1x?xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x1x?x64xbf16>, memref<1x1x?x64xbf16>, memref<1x1x?x64xbf16>,
          memref<1x1x?x64xbf16>, memref<1x1x?xf32>, memref<1x1x?x64xbf16>)
      outs(%q, %q, %q : memref<1x1x?x64xbf16>, memref<1x1x?x64xbf16>, memref<1x1x?x64xbf16>)
      schedule(#attn_tile.gradient<preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
                                   dkdv = #attn_tile.key_stationary<query_tile = 128, key_tile = 128, stages = 4,
                                                                    consumers = 2, query_parts = 2>>)
  return
}

// -----

// The gradient of the score_mod region is applied to scores and their gradients;
// pairs without weight have none.

// CHECK-LABEL: attn_tile.kernel @region_grad_dv_kernel(
// CHECK-COUNT-2: vector.contract
// CHECK-NOT:     vector.contract
// CHECK-LABEL: attn_tile.kernel @region_grad_dkdv_kernel(
// CHECK:         %[[RAW:[a-zA-Z0-9_]+]] = arith.mulf
// CHECK:         attn_tile.map %[[RAW]] at
// CHECK:         %[[W:[a-zA-Z0-9_]+]] = math.exp2
// CHECK:         %[[GRAD:[a-zA-Z0-9_]+]] = arith.mulf %[[W]]
// CHECK:         %[[COUNTS:[a-zA-Z0-9_]+]] = arith.cmpf une, %[[W]]
// CHECK:         %[[MAPPED:[a-zA-Z0-9_]+]] = attn_tile.map %[[RAW]], %[[GRAD]] at{{.*}} transposed
// CHECK:         arith.select %[[COUNTS]], %[[MAPPED]]
func.func @region(%q: memref<1x1x128x32xf32>, %lse: memref<1x1x128xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x1x128x32xf32>, memref<1x1x128x32xf32>, memref<1x1x128x32xf32>,
          memref<1x1x128x32xf32>, memref<1x1x128xf32>, memref<1x1x128x32xf32>)
      outs(%q, %q, %q : memref<1x1x128x32xf32>, memref<1x1x128x32xf32>, memref<1x1x128x32xf32>)
      schedule(#attn_tile.gradient<preprocess = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
                                   dkdv = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
                                   dq = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
                                   dv = #attn_tile.sequential<query_tile = 32, key_tile = 64>>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %t = math.tanh %s : f32
        attn.yield %t : f32
      } score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index):
        %r = arith.mulf %s, %ds : f32
        attn.yield %r : f32
      }
  return
}

// -----

// A score_mod that divides may yield infinity or NaN for queries after the last
// one. Their probabilities are zero, like those of rows that attend to nothing.

// CHECK-LABEL: attn_tile.kernel @padding_grad_dkdv_kernel(
// CHECK:         %[[EXPONENTS:.+]] = vector.broadcast %{{.+}} to vector<64x16xf32>
// CHECK:         %[[SUM:.+]] = math.fma %{{.+}}, %{{.+}}, %[[EXPONENTS]]
// CHECK:         %[[P:.+]] = math.exp2 %[[SUM]]
// CHECK:         %[[NONE:.+]] = arith.constant dense<0xFF800000>
// CHECK:         %[[PADDING:.+]] = arith.cmpf oeq, %[[EXPONENTS]], %[[NONE]]
// CHECK:         %[[ZERO:.+]] = arith.constant dense<0.000000e+00>
// CHECK:         %[[KEPT:.+]] = arith.select %[[PADDING]], %[[ZERO]], %[[P]]
// CHECK:         vector.contract {{.*}} %[[KEPT]],
// CHECK-LABEL: attn_tile.kernel @padding_grad_dq_kernel(
// CHECK-NOT:     arith.cmpf oeq
// CHECK-LABEL: attn_tile.kernel @no_padding_grad_dkdv_kernel(
// CHECK-NOT:     arith.cmpf oeq
func.func @padding(%q: memref<1x1x?x32xf32>, %lse: memref<1x1x?xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x1x?x32xf32>, memref<1x1x?x32xf32>, memref<1x1x?x32xf32>,
          memref<1x1x?x32xf32>, memref<1x1x?xf32>, memref<1x1x?x32xf32>)
      outs(%q, %q, %q : memref<1x1x?x32xf32>, memref<1x1x?x32xf32>, memref<1x1x?x32xf32>)
      schedule(#attn_tile.gradient<preprocess = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
                                   dkdv = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
                                   dq = #attn_tile.sequential<query_tile = 16, key_tile = 64>>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %n = arith.index_cast %i : index to i32
        %x = arith.sitofp %n : i32 to f32
        %r = arith.divf %s, %x : f32
        attn.yield %r : f32
      } score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index):
        attn.yield %ds : f32
      }
  return
}
func.func @no_padding(%q: memref<1x1x32x32xf32>, %lse: memref<1x1x32xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x1x32x32xf32>, memref<1x1x32x32xf32>, memref<1x1x32x32xf32>,
          memref<1x1x32x32xf32>, memref<1x1x32xf32>, memref<1x1x32x32xf32>)
      outs(%q, %q, %q : memref<1x1x32x32xf32>, memref<1x1x32x32xf32>, memref<1x1x32x32xf32>)
      schedule(#attn_tile.gradient<preprocess = #attn_tile.sequential<query_tile = 16, key_tile = 32>,
                                   dkdv = #attn_tile.sequential<query_tile = 16, key_tile = 32>,
                                   dq = #attn_tile.sequential<query_tile = 16, key_tile = 32>>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %n = arith.index_cast %i : index to i32
        %x = arith.sitofp %n : i32 to f32
        %r = arith.divf %s, %x : f32
        attn.yield %r : f32
      } score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index):
        attn.yield %ds : f32
      }
  return
}

// -----

// Work items of sequences are listed: tiles of queries, and tiles of keys, of
// which an additional one has no rows. What there is for each query has rows of
// its own for whole tiles of each sequence; rows that MMAs read are cleared behind
// the end of the sequence, and stores leave out what lies there.

// CHECK-LABEL: attn_tile.kernel @packed_grad_work_items(
// CHECK:         attn_tile.thread_for
// CHECK:         attn_tile.thread_for
// CHECK:           arith.divui
// CHECK-LABEL: attn_tile.kernel @packed_grad_preprocess_kernel(
// CHECK:         %[[N:.*]] = attn_tile.assume_upper_bound
// CHECK:         scf.forall (%[[H:.*]], %{{.*}}) in (%{{.*}}, %[[N]]) {
// CHECK:           %[[SEQUENCE:.*]] = arith.index_cast
// CHECK:           %[[FIRST:.*]] = arith.index_cast
// CHECK:           %[[ROW:.*]] = arith.subi %{{.*}}, %[[FIRST]]
// CHECK:           %[[ALIGNED:.*]] = arith.muli
// CHECK:           %[[BEFORE:.*]] = arith.muli %[[SEQUENCE]], %c80
// CHECK:           %[[WORK:.*]] = arith.addi %[[ALIGNED]], %[[BEFORE]]
// CHECK:           %[[OUTROW:.*]] = arith.addi %[[ROW]], %[[FIRST]]
// CHECK:           %[[WORKROW:.*]] = arith.addi %[[WORK]], %[[FIRST]]
// CHECK:           attn_tile.load %{{.*}}[%{{.*}}, %[[H]], %[[OUTROW]], %{{.*}}] any_order :
// CHECK:           attn_tile.store %{{.*}}, %{{.*}}[%{{.*}}, %[[H]], %[[WORKROW]]] :
// CHECK:           attn_tile.store_fragments %{{.*}} to %{{.*}}[%{{.*}}, %[[H]], %[[WORKROW]],
// CHECK-LABEL: attn_tile.kernel @packed_grad_work_items_keys(
// CHECK:         attn_tile.thread_for
// CHECK-NEXT:    ^bb0(%[[TILE:.*]]: index):
// CHECK-NEXT:      %[[BEHIND:.*]] = arith.subi %{{.*}}, %[[TILE]]
// CHECK-NEXT:      arith.addi %{{.*}}, %[[BEHIND]]
// CHECK:         attn_tile.thread_for
// CHECK-NOT:       arith.divui
// CHECK:           attn_tile.yield
// CHECK-LABEL: attn_tile.kernel @packed_grad_dkdv_kernel(
// CHECK-SAME:    %[[Q:[a-zA-Z0-9_]+]]: memref<1x4x?x64xbf16>, %[[K:[a-zA-Z0-9_]+]]: memref<1x2x?x64xbf16>,
// CHECK:           attn_tile.load %[[K]]{{.*}} within(%[[FIRST2:.*]] of %[[SKV2:.*]]) stream(
// CHECK:           attn_tile.load %[[K]]{{.*}} within(%[[FIRST2]] of %[[SKV2]]) stream(
// CHECK:           %[[NONE:.*]] = arith.cmpi eq, %[[SQ2:.*]], %c0
// CHECK:           arith.select %[[NONE]], %c0
// CHECK:           scf.for
// CHECK:             attn_tile.load %[[Q]]{{.*}} within(%[[QROW:.*]] of %[[SQ2]]) stream(
// CHECK:             attn_tile.load %[[Q]]{{.*}} within(%[[QROW]] of %[[SQ2]]) stream(
// CHECK:             attn_tile.bulk_reduce_add
// CHECK:           attn_tile.store %{{.*}}, %[[K]]{{.*}} within(%[[FIRST2]] of %[[SKV2]]) :
// CHECK:           attn_tile.store %{{.*}}, %[[K]]{{.*}} within(%[[FIRST2]] of %[[SKV2]]) :
// CHECK-LABEL: attn_tile.kernel @packed_grad_dq_convert_kernel(
// CHECK:         attn_tile.load_fragments
// CHECK:         attn_tile.store {{.*}} within({{.*}}) transposed :
// CHECK-LABEL: func.func @packed(
// CHECK:         attn_tile.launch @packed_grad_work_items args
// CHECK:         attn_tile.launch @packed_grad_preprocess_kernel
// CHECK:         attn_tile.launch @packed_grad_work_items_keys args
// CHECK:         attn_tile.launch @packed_grad_dkdv_kernel
// CHECK:         attn_tile.launch @packed_grad_work_items_0 args
// CHECK:         attn_tile.launch @packed_grad_dq_convert_kernel
// CHECK-COUNT-6: memref.dealloc
func.func @packed(%q: memref<1x4x?x64xbf16>, %k: memref<1x2x?x64xbf16>, %lse: memref<1x4x?xf32>, %cq: memref<?xi32>, %ck: memref<?xi32>) {
  attn.attention_grad
      ins(%q, %k, %k, %q, %lse, %q : memref<1x4x?x64xbf16>, memref<1x2x?x64xbf16>, memref<1x2x?x64xbf16>,
          memref<1x4x?x64xbf16>, memref<1x4x?xf32>, memref<1x4x?x64xbf16>)
      outs(%q, %k, %k : memref<1x4x?x64xbf16>, memref<1x2x?x64xbf16>, memref<1x2x?x64xbf16>)
      sequences packed(%cq, %ck : memref<?xi32>, memref<?xi32>) mask(#attn.causal)
      schedule(#attn_tile.gradient<preprocess = #attn_tile.sequential<query_tile = 64, key_tile = 64>,
          dkdv = #attn_tile.sequential<query_tile = 32, key_tile = 64>>)
  return
}

// -----

// Of padded sequences rows are positions; tiles of the rows reach as far behind
// a sequence as those of any other kernel.

// CHECK-LABEL: attn_tile.kernel @padded_grad_work_items(
// CHECK:         %[[EXTRA:.*]] = arith.addi %{{.*}}, %c31
// CHECK:         arith.select %{{.*}}, %c0
// CHECK-LABEL: attn_tile.kernel @padded_grad_preprocess_kernel(
// CHECK-LABEL: attn_tile.kernel @padded_grad_work_items_keys(
// CHECK-LABEL: attn_tile.kernel @padded_grad_dkdv_kernel(
// CHECK-LABEL: attn_tile.kernel @padded_grad_work_items_0(
// CHECK-LABEL: attn_tile.kernel @padded_grad_dq_kernel(
// CHECK:         attn_tile.kv_tile_iterator
// CHECK-COUNT-2: attn_tile.load %{{.*}} within(
// CHECK:         attn_tile.store {{.*}} within(
// CHECK-LABEL: func.func @padded(
func.func @padded(%q: memref<?x1x?x64xf32>, %lse: memref<?x1x?xf32>, %l: memref<?xi32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<?x1x?x64xf32>, memref<?x1x?x64xf32>, memref<?x1x?x64xf32>,
          memref<?x1x?x64xf32>, memref<?x1x?xf32>, memref<?x1x?x64xf32>)
      outs(%q, %q, %q : memref<?x1x?x64xf32>, memref<?x1x?x64xf32>, memref<?x1x?x64xf32>)
      sequences padded(%l, %l : memref<?xi32>, memref<?xi32>)
      schedule(#attn_tile.gradient<preprocess = #attn_tile.sequential<query_tile = 32, key_tile = 64>,
          dkdv = #attn_tile.sequential<query_tile = 24, key_tile = 64>,
                                   dq = #attn_tile.sequential<query_tile = 32, key_tile = 64>>)
  return
}
