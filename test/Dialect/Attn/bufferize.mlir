// RUN: attn-opt %s --one-shot-bufferize=bufferize-function-boundaries --canonicalize --split-input-file | FileCheck %s
// RUN: attn-opt %s --one-shot-bufferize=bufferize-function-boundaries \
// RUN:   --buffer-results-to-out-params="hoist-static-allocs hoist-dynamic-allocs modify-public-functions" \
// RUN:   --canonicalize --split-input-file | FileCheck %s --check-prefix=PARAMS

// A result in a fresh tensor becomes an argument; nothing is copied.
// CHECK-LABEL: func @dynamic
// CHECK-SAME: (%[[Q:[a-z0-9]+]]: memref<?x8x?x64xbf16, strided<[?, ?, ?, ?], offset: ?>>,
// CHECK-SAME: %[[K:[a-z0-9]+]]: memref<?x2x?x64xbf16, strided<[?, ?, ?, ?], offset: ?>>)
// CHECK-NOT: memref.copy
// CHECK-DAG: %[[OUT:.*]] = memref.alloc(%{{.*}}) {{.*}} : memref<?x8x?x64xbf16>
// CHECK-DAG: %[[LSE:.*]] = memref.alloc(%{{.*}}) {{.*}} : memref<?x8x?xf32>
// CHECK: attn.attention ins(%[[Q]], %[[K]], %[[K]] : {{.*}}) outs(%[[OUT]], %[[LSE]] : memref<?x8x?x64xbf16>, memref<?x8x?xf32>) scale(2.000000e+00)
// CHECK-SAME:     {{^}} mask(#attn.causal) attributes {note = "kept"}
// CHECK-NOT: memref.copy
// CHECK: return %[[OUT]], %[[LSE]]

// PARAMS-LABEL: func @dynamic
// PARAMS-SAME: (%[[Q:[a-z0-9]+]]: memref<?x8x?x64xbf16, strided<[?, ?, ?, ?], offset: ?>>,
// PARAMS-SAME: %[[K:[a-z0-9]+]]: memref<?x2x?x64xbf16, strided<[?, ?, ?, ?], offset: ?>>, %[[OUT:[a-z0-9]+]]: memref<?x8x?x64xbf16>,
// PARAMS-SAME: %[[LSE:[a-z0-9]+]]: memref<?x8x?xf32>) {
// PARAMS-NEXT: attn.attention ins(%[[Q]], %[[K]], %[[K]] : {{.*}}) outs(%[[OUT]], %[[LSE]] :
// PARAMS-NEXT: return
func.func @dynamic(%q: tensor<?x8x?x64xbf16>, %k: tensor<?x2x?x64xbf16>)
    -> (tensor<?x8x?x64xbf16>, tensor<?x8x?xf32>) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %batch = tensor.dim %q, %c0 : tensor<?x8x?x64xbf16>
  %length = tensor.dim %q, %c2 : tensor<?x8x?x64xbf16>
  %out = tensor.empty(%batch, %length) : tensor<?x8x?x64xbf16>
  %lse = tensor.empty(%batch, %length) : tensor<?x8x?xf32>
  %0:2 = attn.attention
      ins(%q, %k, %k : tensor<?x8x?x64xbf16>, tensor<?x2x?x64xbf16>,
          tensor<?x2x?x64xbf16>)
      outs(%out, %lse : tensor<?x8x?x64xbf16>, tensor<?x8x?xf32>)
      scale(2.0) mask(#attn.causal) attributes {note = "kept"}
      -> tensor<?x8x?x64xbf16>, tensor<?x8x?xf32>
  return %0#0, %0#1 : tensor<?x8x?x64xbf16>, tensor<?x8x?xf32>
}

// -----

// PARAMS-LABEL: func @static
// PARAMS-SAME: (%[[Q:[a-z0-9]+]]: memref<2x8x8x64xf16, strided<[?, ?, ?, ?], offset: ?>>, %[[OUT:[a-z0-9]+]]: memref<2x8x8x64xf16>) {
// PARAMS-NEXT: attn.attention ins(%[[Q]], %[[Q]], %[[Q]] : {{.*}}) outs(%[[OUT]] : memref<2x8x8x64xf16>)
// PARAMS-NEXT: return
func.func @static(%q: tensor<2x8x8x64xf16>) -> tensor<2x8x8x64xf16> {
  %out = tensor.empty() : tensor<2x8x8x64xf16>
  %0 = attn.attention
      ins(%q, %q, %q : tensor<2x8x8x64xf16>, tensor<2x8x8x64xf16>,
          tensor<2x8x8x64xf16>)
      outs(%out : tensor<2x8x8x64xf16>) -> tensor<2x8x8x64xf16>
  return %0 : tensor<2x8x8x64xf16>
}

// -----

// Tensors that regions capture are read where they are.
// CHECK-LABEL: func @captures
// CHECK-SAME: %[[BIAS:[a-z0-9]+]]: memref<?x?xf32, strided<[?, ?], offset: ?>>, %[[LENGTHS:[a-z0-9]+]]: memref<2xindex, strided<[?], offset: ?>>)
// CHECK-NOT: memref.copy
// CHECK: attn.attention {{.*}} score_mod {
// CHECK-NEXT: ^bb0(%{{.*}}: f32, %{{.*}}: index, %{{.*}}: index, %[[I:.*]]: index, %[[J:.*]]: index):
// CHECK-NEXT: memref.load %[[BIAS]][%[[I]], %[[J]]]
// CHECK: mask_mod {
// CHECK-NEXT: ^bb0(%[[B:.*]]: index, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index):
// CHECK-NEXT: memref.load %[[LENGTHS]][%[[B]]]
func.func @captures(%q: tensor<2x8x8x64xf16>, %bias: tensor<?x?xf32>,
                    %lengths: tensor<2xindex>) -> tensor<2x8x8x64xf16> {
  %out = tensor.empty() : tensor<2x8x8x64xf16>
  %0 = attn.attention
      ins(%q, %q, %q : tensor<2x8x8x64xf16>, tensor<2x8x8x64xf16>,
          tensor<2x8x8x64xf16>)
      outs(%out : tensor<2x8x8x64xf16>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %bias[%i, %j] : tensor<?x?xf32>
        %t = arith.addf %s, %x : f32
        attn.yield %t : f32
      } mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %length = tensor.extract %lengths[%b] : tensor<2xindex>
        %c = arith.cmpi slt, %j, %length : index
        attn.yield %c : i1
      } -> tensor<2x8x8x64xf16>
  return %0 : tensor<2x8x8x64xf16>
}

// -----

// The query is still read when the first rows of the result are written: the
// result needs a buffer of its own, whose old contents nobody reads.
// CHECK-LABEL: func @init_is_query
// CHECK-SAME: (%[[Q:[a-z0-9]+]]: memref<2x8x8x64xf16
// CHECK-NOT: memref.copy
// CHECK: %[[OUT:.*]] = memref.alloc()
// CHECK-NOT: memref.copy
// CHECK: attn.attention ins(%[[Q]], %[[Q]], %[[Q]] : {{.*}}) outs(%[[OUT]] :
// CHECK: return %[[OUT]]
func.func @init_is_query(%q: tensor<2x8x8x64xf16> {bufferization.writable = true})
    -> tensor<2x8x8x64xf16> {
  %0 = attn.attention
      ins(%q, %q, %q : tensor<2x8x8x64xf16>, tensor<2x8x8x64xf16>,
          tensor<2x8x8x64xf16>)
      outs(%q : tensor<2x8x8x64xf16>) -> tensor<2x8x8x64xf16>
  return %0 : tensor<2x8x8x64xf16>
}

// -----

// The same holds for a region that reads the init.
// CHECK-LABEL: func @region_reads_init
// CHECK-SAME: (%{{.*}}: memref<{{.*}}>, %[[INIT:[a-z0-9]+]]: memref<2x8x8x64xf32
// CHECK: %[[OUT:.*]] = memref.alloc()
// CHECK: attn.attention {{.*}} outs(%[[OUT]] :
// CHECK: memref.load %[[INIT]]
func.func @region_reads_init(%q: tensor<2x8x8x64xf32>, %init: tensor<2x8x8x64xf32>)
    -> tensor<2x8x8x64xf32> {
  %c0 = arith.constant 0 : index
  %0 = attn.attention
      ins(%q, %q, %q : tensor<2x8x8x64xf32>, tensor<2x8x8x64xf32>,
          tensor<2x8x8x64xf32>)
      outs(%init : tensor<2x8x8x64xf32>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %init[%b, %h, %i, %c0] : tensor<2x8x8x64xf32>
        %t = arith.addf %s, %x : f32
        attn.yield %t : f32
      } -> tensor<2x8x8x64xf32>
  return %0 : tensor<2x8x8x64xf32>
}

// -----

// An argument that nobody else reads is overwritten in place.
// CHECK-LABEL: func @in_place
// CHECK-SAME: (%[[Q:[a-z0-9]+]]: memref<{{.*}}>, %[[INIT:[a-z0-9]+]]: memref<2x8x8x64xf16
// CHECK-NOT: memref.alloc
// CHECK-NOT: memref.copy
// CHECK: attn.attention {{.*}} outs(%[[INIT]] :
func.func @in_place(%q: tensor<2x8x8x64xf16>, %init: tensor<2x8x8x64xf16>)
    -> tensor<2x8x8x64xf16> {
  %0 = attn.attention
      ins(%q, %q, %q : tensor<2x8x8x64xf16>, tensor<2x8x8x64xf16>,
          tensor<2x8x8x64xf16>)
      outs(%init : tensor<2x8x8x64xf16>) -> tensor<2x8x8x64xf16>
  return %0 : tensor<2x8x8x64xf16>
}

// -----

// Rows that belong to no sequence keep what the destination held, so it is
// copied where it is read later.
// CHECK-LABEL: func @sequences
// CHECK-SAME: (%[[Q:[a-z0-9]+]]: memref<{{.*}}>, %[[CU:[a-z0-9]+]]: memref<?xi32, {{.*}}>, %[[INIT:[a-z0-9]+]]: memref<1x8x8x64xf16
// CHECK: %[[COPY:.*]] = memref.alloc
// CHECK: memref.copy %[[INIT]], %[[COPY]]
// CHECK: attn.attention {{.*}} outs(%[[COPY]] : {{.*}}) sequences packed(%[[CU]], %[[CU]] :
func.func @sequences(%q: tensor<1x8x8x64xf16>, %cu: tensor<?xi32>,
                     %init: tensor<1x8x8x64xf16>)
    -> (tensor<1x8x8x64xf16>, tensor<1x8x8x64xf16>) {
  %0 = attn.attention
      ins(%q, %q, %q : tensor<1x8x8x64xf16>, tensor<1x8x8x64xf16>,
          tensor<1x8x8x64xf16>)
      outs(%init : tensor<1x8x8x64xf16>)
      sequences packed(%cu, %cu : tensor<?xi32>, tensor<?xi32>)
      -> tensor<1x8x8x64xf16>
  return %0, %init : tensor<1x8x8x64xf16>, tensor<1x8x8x64xf16>
}

// -----

// A seed that is a number stays one; an offset that is stored becomes a memref.
// CHECK-LABEL: func.func @dropout(
// CHECK-SAME:    %[[SEED:[a-z0-9]+]]: i64, %[[OFFSET:[a-z0-9]+]]: memref<i64
// CHECK:         attn.attention {{.*}} dropout(<p = 5.000000e-01, rng = #attn.arx>, %[[SEED]], %[[OFFSET]] : i64, memref<i64
func.func @dropout(%q: tensor<?x4x?x16xf32>, %seed: i64, %offset: tensor<i64>) -> tensor<?x4x?x16xf32> {
  %0 = attn.attention
      ins(%q, %q, %q : tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>)
      outs(%q : tensor<?x4x?x16xf32>)
      dropout(#attn.dropout<p = 0.5, rng = #attn.arx>, %seed, %offset : i64, tensor<i64>)
      -> tensor<?x4x?x16xf32>
  return %0 : tensor<?x4x?x16xf32>
}

// -----

// The buffers of what an overlap yields are those that its regions write.
// CHECK-LABEL: func.func @overlap(
// CHECK-DAG:     %[[A:.*]] = memref.alloc() {{.*}} : memref<1x4x64x16xf32>
// CHECK-DAG:     %[[B:.*]] = memref.alloc() {{.*}} : memref<1x4x32x4xi32>
// CHECK:         attn.overlap {
// CHECK:           attn.attention {{.*}} outs(%[[A]] :
// CHECK:         } and {
// CHECK:           attn.dropout_mask {{.*}} outs(%[[B]] : memref<1x4x32x4xi32>)
// CHECK:         attn.attention {{.*}} dropout_mask rows(%[[B]] : memref<1x4x32x4xi32>) p(5.000000e-01)
func.func @overlap(%q: tensor<1x4x64x16xf32>, %seed: i64) -> tensor<1x4x64x16xf32> {
  %a = tensor.empty() : tensor<1x4x64x16xf32>
  %b = tensor.empty() : tensor<1x4x32x4xi32>
  %c = tensor.empty() : tensor<1x4x64x16xf32>
  %0:2 = attn.overlap {
    %1 = attn.attention
        ins(%q, %q, %q : tensor<1x4x64x16xf32>, tensor<1x4x64x16xf32>, tensor<1x4x64x16xf32>)
        outs(%a : tensor<1x4x64x16xf32>) -> tensor<1x4x64x16xf32>
    attn.overlap_yield %1 : tensor<1x4x64x16xf32>
  } and {
    %1 = attn.dropout_mask rows by(#attn.dropout<p = 0.5, rng = #attn.arx>, %seed, %seed : i64, i64)
      outs(%b : tensor<1x4x32x4xi32>) -> tensor<1x4x32x4xi32>
    attn.overlap_yield %1 : tensor<1x4x32x4xi32>
  } -> (tensor<1x4x64x16xf32>, tensor<1x4x32x4xi32>)
  %2 = attn.attention
      ins(%0#0, %q, %q : tensor<1x4x64x16xf32>, tensor<1x4x64x16xf32>, tensor<1x4x64x16xf32>)
      outs(%c : tensor<1x4x64x16xf32>)
      dropout_mask rows(%0#1 : tensor<1x4x32x4xi32>) p(0.5)
      -> tensor<1x4x64x16xf32>
  return %2 : tensor<1x4x64x16xf32>
}

// -----

// CHECK-LABEL: func @table
// CHECK: %[[TABLE:.*]] = memref.alloc({{.*}}) {{.*}} : memref<1x?xi32>
// CHECK: attn.sequence_ids ins(%{{.*}} : memref<1x?xi32, {{.*}}>) outs(%[[TABLE]] : memref<1x?xi32>) otherwise(-1) schedule(#attn_tile.scalar){{$}}
// CHECK-NOT: memref.copy
// CHECK: return %[[TABLE]]
func.func @table(%x: tensor<1x?xi32>, %n: index) -> tensor<1x?xi32> {
  %init = tensor.empty(%n) : tensor<1x?xi32>
  %0 = attn.sequence_ids ins(%x : tensor<1x?xi32>) outs(%init : tensor<1x?xi32>) otherwise(-1)
      schedule(#attn_tile.scalar) -> tensor<1x?xi32>
  return %0 : tensor<1x?xi32>
}

// -----

// A view, of which a write is one of what it is a view of.

// CHECK-LABEL: func @permute
// CHECK-SAME: (%[[Q:.*]]: memref<1x16x4x32xf32, {{.*}}>, %[[O:.*]]: memref<1x16x4x32xf32, {{.*}}>)
// CHECK-DAG: %[[QT:.*]] = memref.transpose %[[Q]] (d0, d1, d2, d3) -> (d0, d2, d1, d3)
// CHECK-DAG: %[[OT:.*]] = memref.transpose %[[O]] (d0, d1, d2, d3) -> (d0, d2, d1, d3)
// CHECK: attn.attention ins(%[[QT]], %[[QT]], %[[QT]] :
// CHECK-SAME: outs(%[[OT]] :
// CHECK-NOT: memref.copy
func.func @permute(%q: tensor<1x16x4x32xf32>, %o: tensor<1x16x4x32xf32>) -> tensor<1x16x4x32xf32> {
  %qt = attn.permute %q [0, 2, 1, 3] : tensor<1x16x4x32xf32> -> tensor<1x4x16x32xf32>
  %ot = attn.permute %o [0, 2, 1, 3] : tensor<1x16x4x32xf32> -> tensor<1x4x16x32xf32>
  %0 = attn.attention
      ins(%qt, %qt, %qt : tensor<1x4x16x32xf32>, tensor<1x4x16x32xf32>, tensor<1x4x16x32xf32>)
      outs(%ot : tensor<1x4x16x32xf32>) -> tensor<1x4x16x32xf32>
  %1 = attn.permute %0 [0, 2, 1, 3] : tensor<1x4x16x32xf32> -> tensor<1x16x4x32xf32>
  return %1 : tensor<1x16x4x32xf32>
}

// -----

// CHECK-LABEL: func @quantize
// CHECK-DAG: %[[Q:.*]] = memref.alloc() {{.*}} : memref<4x16xf8E4M3FN>
// CHECK-DAG: %[[S:.*]] = memref.alloc() {{.*}} : memref<f32>
// CHECK: attn.quantize ins(%{{.*}} : memref<4x16xf32, {{.*}}>) outs(%[[Q]] : memref<4x16xf8E4M3FN>) scale(%[[S]] : memref<f32>) saturate{{$}}
// CHECK-NOT: memref.copy
// CHECK: return %[[Q]], %[[S]]
func.func @quantize(%x: tensor<4x16xf32>) -> (tensor<4x16xf8E4M3FN>, tensor<f32>) {
  %q = tensor.empty() : tensor<4x16xf8E4M3FN>
  %s = tensor.empty() : tensor<f32>
  %0:2 = attn.quantize ins(%x : tensor<4x16xf32>) outs(%q : tensor<4x16xf8E4M3FN>) scale(%s : tensor<f32>) saturate
      -> tensor<4x16xf8E4M3FN>, tensor<f32>
  return %0#0, %0#1 : tensor<4x16xf8E4M3FN>, tensor<f32>
}
