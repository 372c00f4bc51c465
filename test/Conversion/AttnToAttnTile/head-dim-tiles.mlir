// RUN: attn-opt %s --convert-attn-to-attn-tile --split-input-file | FileCheck %s

// Each head has two work items for a tile of queries. Both compute its scores, and each its columns of the output.

// CHECK-LABEL: attn_tile.kernel @wide_kernel(
// CHECK-SAME:    %[[Q:.*]]: memref<1x4x?x512xbf16>, %[[K:.*]]: memref<1x2x?x512xbf16>, %[[V:.*]]: memref<1x2x?x320xbf16>,
// CHECK-SAME:  %[[O:.*]]: memref<1x4x?x320xbf16>, %[[LSE:.*]]: memref<1x4x?xf32>
// CHECK:         %[[HEADS:.*]] = arith.constant 8 : index
// CHECK:         scf.forall (%[[B:.*]], %[[ITEM:.*]], %{{.*}}) in (%{{.*}}, %[[HEADS]], %{{.*}})
// CHECK:           %[[TWO:.*]] = arith.constant 2 : index
// CHECK:           %[[TILE:.*]] = arith.remui %[[ITEM]], %[[TWO]]
// CHECK:           %[[COLUMNS:.*]] = arith.constant 160 : index
// CHECK:           %[[COLUMN:.*]] = arith.muli %[[TILE]], %[[COLUMNS]]
// CHECK:           %[[H:.*]] = arith.divui %[[ITEM]], %[[TWO]]
// CHECK:           %[[KH:.*]] = arith.divui %[[H]], %{{.*}}
// CHECK:           attn_tile.load %[[Q]][%[[B]], %[[H]], %[[ROW:.*]], %{{.*}}] stream({{.*}} -> vector<128x512xbf16>
// CHECK:           scf.for
// CHECK:             attn_tile.load %[[K]][%[[B]], %[[KH]], %[[KEY:.*]], %{{.*}}] stream({{.*}} -> vector<32x512xbf16>
// CHECK:             vector.contract {{.*}} into vector<128x32xf32>
// CHECK:             attn_tile.load %[[V]][%[[B]], %[[KH]], %[[KEY]], %[[COLUMN]]] stream({{.*}} -> vector<32x160xbf16>
// CHECK:             vector.contract {{.*}} into vector<128x160xf32>
// The epilogue sees the elements of the head.
// CHECK:           attn_tile.map %{{.*}} at(%[[B]], %[[H]], %[[ROW]], %[[COLUMN]])
// CHECK:           attn_tile.store %{{.*}}, %[[O]][%[[B]], %[[H]], %[[ROW]], %[[COLUMN]]]
// CHECK:           attn_tile.store %{{.*}}, %[[LSE]][%[[B]], %[[H]], %[[ROW]]]
func.func @wide(%q: memref<1x4x?x512xbf16>, %k: memref<1x2x?x512xbf16>, %v: memref<1x2x?x320xbf16>, %o: memref<1x4x?x320xbf16>, %lse: memref<1x4x?xf32>) {
  attn.attention ins(%q, %k, %v : memref<1x4x?x512xbf16>, memref<1x2x?x512xbf16>, memref<1x2x?x320xbf16>)
      outs(%o, %lse : memref<1x4x?x320xbf16>, memref<1x4x?xf32>)
      schedule(#attn_tile.warp_specialized<query_tile = 128, key_tile = 32, stages = 2, consumers = 2, head_dim_tile = 160>)
      epilogue {
      ^bb0(%x: f32, %b: index, %h: index, %i: index, %d: index):
        %n = arith.index_cast %d : index to i32
        %f = arith.sitofp %n : i32 to f32
        %y = arith.addf %x, %f : f32
        attn.yield %y : f32
      }
  return
}

// -----

// A tile of all columns is one work item.

// CHECK-LABEL: attn_tile.kernel @whole_kernel(
// CHECK:         %[[HEADS:.*]] = arith.constant 4 : index
// CHECK:         scf.forall (%{{.*}}, %{{.*}}, %{{.*}}) in (%{{.*}}, %[[HEADS]], %{{.*}})
// CHECK-NOT:       arith.remui
// CHECK:           vector.contract {{.*}} into vector<128x80xf32>
func.func @whole(%q: memref<1x4x?x80xbf16>, %o: memref<1x4x?x80xbf16>) {
  attn.attention ins(%q, %q, %q : memref<1x4x?x80xbf16>, memref<1x4x?x80xbf16>, memref<1x4x?x80xbf16>)
      outs(%o : memref<1x4x?x80xbf16>)
      schedule(#attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2, head_dim_tile = 96>)
  return
}

// -----

// Splits of the keys divide each of these work items: 16 are wanted, and there are four.

// CHECK-LABEL: attn_tile.kernel @split_kernel(
// CHECK-SAME:    memref<4x2x16x128xf32
// CHECK:         split(%{{.*}} of %{{.*}})
func.func @split(%q: memref<1x2x16x128xf32>, %k: memref<1x2x256x128xf32>, %o: memref<1x2x16x128xf32>) {
  attn.attention ins(%q, %k, %k : memref<1x2x16x128xf32>, memref<1x2x256x128xf32>, memref<1x2x256x128xf32>)
      outs(%o : memref<1x2x16x128xf32>)
      schedule(#attn_tile.multistage<query_tile = 64, key_tile = 64, stages = 2, warps = 4, split_kv_work_items = 16, head_dim_tile = 64>)
  return
}

// -----

// Kernels of a gradient compute tiles of its columns: of dV from columns of dO, of dK
// and dQ from columns of a tile of which all columns are in scores.

// CHECK-LABEL: attn_tile.kernel @gradient_grad_dv_0_kernel(
// CHECK:           attn_tile.load %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, %c0{{.*}}] stream({{.*}} -> vector<64x192xbf16>
// CHECK:           vector.contract {{.*}} into vector<64x192xf32>
// CHECK:         attn_tile.store %{{.*}} : vector<64x192xbf16>
// CHECK-LABEL: attn_tile.kernel @gradient_grad_dv_1_kernel(
// CHECK:           attn_tile.load %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, %c192{{.*}}] stream({{.*}} -> vector<64x128xbf16>
// CHECK:           vector.contract {{.*}} into vector<64x128xf32>
// CHECK-LABEL: attn_tile.kernel @gradient_grad_dkdv_0_kernel(
// CHECK:           vector.extract_strided_slice %{{.*}} {offsets = [0, 0], sizes = [48, 192], strides = [1, 1]}
// CHECK:         attn_tile.store %{{.*}} : vector<64x192xbf16>
// CHECK-LABEL: attn_tile.kernel @gradient_grad_dkdv_1_kernel(
// CHECK:           vector.extract_strided_slice %{{.*}} {offsets = [0, 192], sizes = [48, 128], strides = [1, 1]}
// CHECK-NEXT:      vector.contract {{.*}} into vector<64x128xf32>
// CHECK:         attn_tile.store %{{.*}} : vector<64x128xbf16>
// CHECK-LABEL: attn_tile.kernel @gradient_grad_dq_0_kernel(
// CHECK:           vector.extract_strided_slice %{{.*}} {offsets = [0, 0], sizes = [48, 192], strides = [1, 1]}
// CHECK-LABEL: attn_tile.kernel @gradient_grad_dq_1_kernel(
// CHECK:           vector.extract_strided_slice %{{.*}} {offsets = [0, 192], sizes = [48, 128], strides = [1, 1]}
// CHECK-LABEL: func.func @gradient(
// CHECK:         attn_tile.launch @gradient_grad_preprocess_kernel
// CHECK-NEXT:    attn_tile.launch @gradient_grad_dv_0_kernel
// CHECK-NEXT:    attn_tile.launch @gradient_grad_dv_1_kernel
// CHECK-NEXT:    attn_tile.launch @gradient_grad_dkdv_0_kernel
// CHECK-NEXT:    attn_tile.launch @gradient_grad_dkdv_1_kernel
// CHECK-NEXT:    attn_tile.launch @gradient_grad_dq_0_kernel
// CHECK-NEXT:    attn_tile.launch @gradient_grad_dq_1_kernel
func.func @gradient(%q: memref<1x4x?x320xbf16>, %lse: memref<1x4x?xf32>, %dq: memref<1x4x?x320xbf16>,
    %dk: memref<1x4x?x320xbf16>, %dv: memref<1x4x?x320xbf16>) {
  attn.attention_grad ins(%q, %q, %q, %q, %lse, %q : memref<1x4x?x320xbf16>, memref<1x4x?x320xbf16>,
          memref<1x4x?x320xbf16>, memref<1x4x?x320xbf16>, memref<1x4x?xf32>, memref<1x4x?x320xbf16>)
      outs(%dq, %dk, %dv : memref<1x4x?x320xbf16>, memref<1x4x?x320xbf16>, memref<1x4x?x320xbf16>)
      schedule(#attn_tile.gradient<preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
          dkdv = #attn_tile.key_stationary<query_tile = 48, key_tile = 64, stages = 1, consumers = 1, head_dim_tile = 192>,
          dq = #attn_tile.warp_specialized<query_tile = 64, key_tile = 48, stages = 1, consumers = 1, head_dim_tile = 192>,
          dv = #attn_tile.key_stationary<query_tile = 64, key_tile = 64, stages = 1, consumers = 1, head_dim_tile = 192>>)
  return
}

// -----

// Consumers with columns of their own. Values that are the first elements of
// keys are columns of the tile of keys; rows of these after the last key must
// be zero then.

// CHECK-LABEL: attn_tile.kernel @latent_kernel(
// CHECK:         %[[CONSUMER:.*]] = attn_tile.consumer_id
// CHECK-NEXT:    %[[TILE:.*]] = arith.constant 256 : index
// CHECK-NEXT:    %[[COLUMN:.*]] = arith.muli %[[CONSUMER]], %[[TILE]]
// CHECK:         scf.for
// CHECK:           %[[KEYS:.*]] = attn_tile.load {{.*}} within(%{{.*}} of %{{.*}}) {{.*}} -> vector<64x576xbf16>
// CHECK-NOT:       attn_tile.load
// CHECK:           vector.contract {{.*}}, %[[KEYS]], {{.*}} into vector<64x64xf32>
// CHECK:           %[[VALUES:.*]] = attn_tile.consumer_columns %[[KEYS]] : vector<64x576xbf16> -> vector<64x256xbf16>
// CHECK:           vector.contract {{.*}}, %[[VALUES]], {{.*}} into vector<64x256xf32>
// CHECK:         attn_tile.store %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, %[[COLUMN]]]
func.func @latent(%q: memref<2x4x?x576xbf16>, %k: memref<2x1x?x576xbf16>, %n: index, %lengths: memref<2xi32>,
    %o: memref<2x4x?x512xbf16>) {
  %v = memref.subview %k[0, 0, 0, 0] [2, 1, %n, 512] [1, 1, 1, 1]
      : memref<2x1x?x576xbf16> to memref<2x1x?x512xbf16, strided<[?, ?, 576, 1]>>
  attn.attention ins(%q, %k, %v : memref<2x4x?x576xbf16>, memref<2x1x?x576xbf16>, memref<2x1x?x512xbf16, strided<[?, ?, 576, 1]>>)
      outs(%o : memref<2x4x?x512xbf16>) key_lengths(%lengths : memref<2xi32>)
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 2, head_dim_tile = 256,
          consumer_columns = true>)
  return
}

// -----

// Other values are loaded whole, once for all consumers.

// CHECK-LABEL: attn_tile.kernel @apart_kernel(
// CHECK-SAME:    memref<2x4x?x128xbf16>, %[[V:[a-z0-9]*]]: memref<2x4x?x128xbf16>, %{{[a-z0-9]*}}: memref<2x4x?x128xbf16>)
// CHECK:           %[[VALUES:.*]] = attn_tile.load %[[V]]{{.*}} -> vector<32x128xbf16>
// CHECK-NEXT:      %[[COLUMNS:.*]] = attn_tile.consumer_columns %[[VALUES]] : vector<32x128xbf16> -> vector<32x64xbf16>
// CHECK:           vector.contract {{.*}}, %[[COLUMNS]], {{.*}} into vector<64x64xf32>
func.func @apart(%q: memref<2x4x?x128xbf16>, %k: memref<2x4x?x128xbf16>, %v: memref<2x4x?x128xbf16>, %o: memref<2x4x?x128xbf16>) {
  attn.attention ins(%q, %k, %v : memref<2x4x?x128xbf16>, memref<2x4x?x128xbf16>, memref<2x4x?x128xbf16>)
      outs(%o : memref<2x4x?x128xbf16>)
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 32, stages = 2, consumers = 2, head_dim_tile = 64,
          consumer_columns = true>)
  return
}
