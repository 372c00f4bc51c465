// RUN: attn-opt %s --verify-roundtrip | FileCheck %s
// RUN: attn-opt %s --mlir-print-op-generic | attn-opt | FileCheck %s

// CHECK-LABEL: func @tensors
// CHECK-SAME: (%[[Q:.*]]: tensor<{{.*}}>, %[[K:.*]]: tensor<{{.*}}>, %[[V:.*]]: tensor<{{.*}}>, %[[O:.*]]: tensor<{{.*}}>)
// CHECK: %[[R:.*]] = attn.attention ins(%[[Q]], %[[K]], %[[V]] : tensor<?x8x?x64xbf16>, tensor<?x2x?x64xbf16>, tensor<?x2x?x32xbf16>)
// CHECK-SAME:     {{^}} outs(%[[O]] : tensor<?x8x?x32xbf16>) -> tensor<?x8x?x32xbf16>
// CHECK: return %[[R]]
func.func @tensors(%q: tensor<?x8x?x64xbf16>, %k: tensor<?x2x?x64xbf16>,
                   %v: tensor<?x2x?x32xbf16>,
                   %out: tensor<?x8x?x32xbf16>) -> tensor<?x8x?x32xbf16> {
  %0 = attn.attention
      ins(%q, %k, %v : tensor<?x8x?x64xbf16>, tensor<?x2x?x64xbf16>,
          tensor<?x2x?x32xbf16>)
      outs(%out : tensor<?x8x?x32xbf16>) -> tensor<?x8x?x32xbf16>
  return %0 : tensor<?x8x?x32xbf16>
}

// CHECK-LABEL: func @float8
// CHECK: attn.attention ins({{.*}} : tensor<2x4x8x16xf8E4M3FN>, tensor<2x2x8x16xf8E4M3FN>, tensor<2x2x8x16xf8E4M3FN>)
// CHECK-SAME: outs(%{{.*}} : tensor<2x4x8x16xbf16>)
// CHECK: attn.attention ins({{.*}} : tensor<2x4x8x16xbf16>, tensor<2x2x8x16xf8E5M2>, tensor<2x2x8x16xf8E5M2>)
func.func @float8(%q: tensor<2x4x8x16xf8E4M3FN>, %k: tensor<2x2x8x16xf8E4M3FN>,
                  %k_e5m2: tensor<2x2x8x16xf8E5M2>, %out: tensor<2x4x8x16xbf16>)
    -> tensor<2x4x8x16xbf16> {
  %0 = attn.attention
      ins(%q, %k, %k : tensor<2x4x8x16xf8E4M3FN>, tensor<2x2x8x16xf8E4M3FN>,
          tensor<2x2x8x16xf8E4M3FN>)
      outs(%out : tensor<2x4x8x16xbf16>) -> tensor<2x4x8x16xbf16>
  %1 = attn.attention
      ins(%0, %k_e5m2, %k_e5m2 : tensor<2x4x8x16xbf16>, tensor<2x2x8x16xf8E5M2>,
          tensor<2x2x8x16xf8E5M2>)
      outs(%out : tensor<2x4x8x16xbf16>) -> tensor<2x4x8x16xbf16>
  return %1 : tensor<2x4x8x16xbf16>
}

// CHECK-LABEL: func @out_of_8_bits
// CHECK: attn.attention ins({{.*}}) outs(%{{.*}} : tensor<2x4x8x16xf8E4M3FN>) epilogue {
// CHECK: attn.attention ins({{.*}}) outs(%{{.*}} : memref<2x4x8x16xf8E5M2>)
func.func @out_of_8_bits(%q: tensor<2x4x8x16xbf16>, %scale: tensor<f32>, %out: tensor<2x4x8x16xf8E4M3FN>,
                         %m: memref<2x4x8x16xf8E4M3FN>, %n: memref<2x4x8x16xf8E5M2>) -> tensor<2x4x8x16xf8E4M3FN> {
  %0 = attn.attention
      ins(%q, %q, %q : tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>)
      outs(%out : tensor<2x4x8x16xf8E4M3FN>)
      epilogue {
      ^bb0(%x: f32, %b: index, %h: index, %i: index, %d: index):
        %s = tensor.extract %scale[] : tensor<f32>
        %y = arith.divf %x, %s : f32
        attn.yield %y : f32
      } -> tensor<2x4x8x16xf8E4M3FN>
  attn.attention ins(%m, %m, %m : memref<2x4x8x16xf8E4M3FN>, memref<2x4x8x16xf8E4M3FN>, memref<2x4x8x16xf8E4M3FN>)
      outs(%n : memref<2x4x8x16xf8E5M2>)
  return %0 : tensor<2x4x8x16xf8E4M3FN>
}

// CHECK-LABEL: func @value_heads
// CHECK: attn.attention ins({{.*}} : memref<?x12x?x128xbf16>, memref<?x1x?x128xbf16>, memref<?x12x?x128xbf16>)
// CHECK: attn.attention ins({{.*}} : memref<?x12x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x6x?x64xbf16>)
func.func @value_heads(%q: memref<?x12x?x128xbf16>, %k: memref<?x1x?x128xbf16>, %v: memref<?x12x?x128xbf16>,
                       %k4: memref<?x4x?x128xbf16>, %v6: memref<?x6x?x64xbf16>,
                       %out: memref<?x12x?x128xbf16>, %out64: memref<?x12x?x64xbf16>) {
  attn.attention
      ins(%q, %k, %v : memref<?x12x?x128xbf16>, memref<?x1x?x128xbf16>,
          memref<?x12x?x128xbf16>)
      outs(%out : memref<?x12x?x128xbf16>) mask(#attn.causal)
  attn.attention
      ins(%q, %k4, %v6 : memref<?x12x?x128xbf16>, memref<?x4x?x128xbf16>,
          memref<?x6x?x64xbf16>)
      outs(%out64 : memref<?x12x?x64xbf16>)
  return
}

// CHECK-LABEL: func @f32_out_and_lse
// CHECK: %{{.*}}:2 = attn.attention ins({{.*}}) outs(%{{.*}}, %{{.*}} : tensor<2x4x8x16xf32>, tensor<2x4x8xf32>) scale(2.500000e-01) -> tensor<2x4x8x16xf32>,
// CHECK-SAME:     tensor<2x4x8xf32>
func.func @f32_out_and_lse(%q: tensor<2x4x8x16xf16>, %k: tensor<2x4x8x16xf16>,
                           %out: tensor<2x4x8x16xf32>, %lse: tensor<2x4x8xf32>)
    -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>) {
  %0:2 = attn.attention
      ins(%q, %k, %k : tensor<2x4x8x16xf16>, tensor<2x4x8x16xf16>,
          tensor<2x4x8x16xf16>)
      outs(%out, %lse : tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
      scale(0.25) -> tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  return %0#0, %0#1 : tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
}

// Sizes need only agree as far as they are static.
// CHECK-LABEL: func @static_and_dynamic
// CHECK: attn.attention
func.func @static_and_dynamic(%q: tensor<2x4x?x16xf32>, %k: tensor<?x4x9x16xf32>,
                              %v: tensor<2x4x?x16xf32>,
                              %out: tensor<?x4x8x16xf32>) -> tensor<?x4x8x16xf32> {
  %0 = attn.attention
      ins(%q, %k, %v : tensor<2x4x?x16xf32>, tensor<?x4x9x16xf32>,
          tensor<2x4x?x16xf32>)
      outs(%out : tensor<?x4x8x16xf32>) -> tensor<?x4x8x16xf32>
  return %0 : tensor<?x4x8x16xf32>
}

// CHECK-LABEL: func @masks
// CHECK: attn.attention {{.*}} mask(#attn.causal) ->
// CHECK: attn.attention {{.*}} scale(-1.000000e+00) mask(#attn.sliding_window<left = 4, right = 0, alignment = top_left>) attributes {note = "kept"} ->
func.func @masks(%q: tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32> {
  %0 = attn.attention
      ins(%q, %q, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
          tensor<2x4x8x16xf32>)
      outs(%q : tensor<2x4x8x16xf32>) mask(#attn.causal)
      -> tensor<2x4x8x16xf32>
  %1 = attn.attention
      ins(%q, %q, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
          tensor<2x4x8x16xf32>)
      outs(%0 : tensor<2x4x8x16xf32>) scale(-1.0)
      mask(#attn.sliding_window<left = 4, right = 0, alignment = top_left>)
      attributes {note = "kept"}
      -> tensor<2x4x8x16xf32>
  return %1 : tensor<2x4x8x16xf32>
}

// CHECK-LABEL: func @regions
// CHECK: attn.attention {{.*}} score_mod {
// CHECK-NEXT: ^bb0(%[[S:.*]]: f32, %{{.*}}: index, %[[H:.*]]: index, %{{.*}}: index, %{{.*}}: index):
// CHECK-NEXT:   %[[SLOPE:.*]] = tensor.extract %{{.*}}[%[[H]]] : tensor<4xf32>
// CHECK-NEXT:   %[[T:.*]] = arith.addf %[[S]], %[[SLOPE]] : f32
// CHECK-NEXT:   attn.yield %[[T]] : f32
// CHECK-NEXT: } mask_mod {
// CHECK-NEXT: ^bb0(%[[B:.*]]: index, %{{.*}}: index, %{{.*}}: index, %[[J:.*]]: index):
// CHECK-NEXT:   %[[LENGTH:.*]] = tensor.extract %{{.*}}[%[[B]]] : tensor<2xindex>
// CHECK-NEXT:   %[[C:.*]] = arith.cmpi slt, %[[J]], %[[LENGTH]] : index
// CHECK-NEXT:   attn.yield %[[C]] : i1
// CHECK-NEXT: } -> tensor<2x4x8x16xf32>
func.func @regions(%q: tensor<2x4x8x16xf32>, %slopes: tensor<4xf32>,
                   %lengths: tensor<2xindex>) -> tensor<2x4x8x16xf32> {
  %0 = attn.attention
      ins(%q, %q, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
          tensor<2x4x8x16xf32>)
      outs(%q : tensor<2x4x8x16xf32>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %slope = tensor.extract %slopes[%h] : tensor<4xf32>
        %t = arith.addf %s, %slope : f32
        attn.yield %t : f32
      }
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %length = tensor.extract %lengths[%b] : tensor<2xindex>
        %c = arith.cmpi slt, %j, %length : index
        attn.yield %c : i1
      } -> tensor<2x4x8x16xf32>
  return %0 : tensor<2x4x8x16xf32>
}

// Memrefs of any strides; regions may read memory, also in control flow.
// CHECK-LABEL: func @memrefs
// CHECK: attn.attention ins({{.*}} : memref<?x4x?x16xf32, strided<[?, ?, ?, ?], offset: ?>>, {{[^)]*}})
// CHECK-SAME:     outs(%{{.*}}, %{{.*}} : memref<?x4x?x16xf32>, memref<?x4x?xf32>) score_mod {
// CHECK: scf.if
// CHECK: memref.load
func.func @memrefs(%q: memref<?x4x?x16xf32, strided<[?, ?, ?, ?], offset: ?>>,
                   %k: memref<?x4x?x16xf32>, %bias: memref<?xf32>,
                   %out: memref<?x4x?x16xf32>, %lse: memref<?x4x?xf32>) {
  attn.attention
      ins(%q, %k, %k : memref<?x4x?x16xf32, strided<[?, ?, ?, ?], offset: ?>>,
          memref<?x4x?x16xf32>, memref<?x4x?x16xf32>)
      outs(%out, %lse : memref<?x4x?x16xf32>, memref<?x4x?xf32>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %c = arith.cmpi sle, %j, %i : index
        %t = scf.if %c -> f32 {
          %x = memref.load %bias[%j] : memref<?xf32>
          %y = arith.addf %s, %x : f32
          scf.yield %y : f32
        } else {
          scf.yield %s : f32
        }
        attn.yield %t : f32
      }
  return
}

// Sequences of different lengths, one after another or each in a batch entry.
// CHECK-LABEL: func @sequences
// CHECK: attn.attention {{.*}} outs(%{{.*}}, %{{.*}} : memref<1x4x?x16xf32>, memref<1x4x?xf32>) sequences packed(%[[CU:.*]], %[[CU]] : memref<?xi32>,
// CHECK-SAME:     memref<?xi32>) scale(2.000000e+00) mask(#attn.causal)
// CHECK: attn.attention {{.*}} outs(%{{.*}} : memref<1x4x?x16xf32>) sequences padded(%{{.*}}, %{{.*}} : memref<1xi32>, memref<?xi32>)
func.func @sequences(%q: memref<1x4x?x16xf32>, %cu: memref<?xi32>,
                     %len: memref<1xi32>, %out: memref<1x4x?x16xf32>,
                     %lse: memref<1x4x?xf32>) {
  attn.attention
      ins(%q, %q, %q : memref<1x4x?x16xf32>, memref<1x4x?x16xf32>,
          memref<1x4x?x16xf32>)
      outs(%out, %lse : memref<1x4x?x16xf32>, memref<1x4x?xf32>)
      sequences packed(%cu, %cu : memref<?xi32>, memref<?xi32>)
      scale(2.0) mask(#attn.causal)
  attn.attention
      ins(%q, %q, %q : memref<1x4x?x16xf32>, memref<1x4x?x16xf32>,
          memref<1x4x?x16xf32>)
      outs(%out : memref<1x4x?x16xf32>)
      sequences padded(%len, %cu : memref<1xi32>, memref<?xi32>)
  return
}

// A logit for each head that takes part in the softmax.
// CHECK-LABEL: func @sinks
// CHECK: attn.attention {{.*}} outs(%{{.*}} : memref<1x4x?x16xf32>) sinks(%{{.*}} : memref<4xbf16>) mask(#attn.causal)
// CHECK: attn.attention {{.*}} outs(%{{.*}}, %{{.*}} : memref<1x4x?x16xf32>, memref<1x4x?xf32>) sinks(%{{.*}} : memref<4xf32>) sequences packed
func.func @sinks(%q: memref<1x4x?x16xf32>, %cu: memref<?xi32>,
                 %sinks16: memref<4xbf16>, %sinks: memref<4xf32>,
                 %out: memref<1x4x?x16xf32>, %lse: memref<1x4x?xf32>) {
  attn.attention
      ins(%q, %q, %q : memref<1x4x?x16xf32>, memref<1x4x?x16xf32>,
          memref<1x4x?x16xf32>)
      outs(%out : memref<1x4x?x16xf32>)
      sinks(%sinks16 : memref<4xbf16>) mask(#attn.causal)
  attn.attention
      ins(%q, %q, %q : memref<1x4x?x16xf32>, memref<1x4x?x16xf32>,
          memref<1x4x?x16xf32>)
      outs(%out, %lse : memref<1x4x?x16xf32>, memref<1x4x?xf32>)
      sinks(%sinks : memref<4xf32>)
      sequences packed(%cu, %cu : memref<?xi32>, memref<?xi32>)
  return
}

// Seed and offset of dropout are numbers, or stored.
// CHECK-LABEL: func @dropout
// CHECK-SAME: %[[SEED:[a-z0-9]+]]: i64, %[[OFFSET:[a-z0-9]+]]: tensor<i64>
// CHECK: attn.attention {{.*}} mask(#attn.causal) dropout(<p = 1.250000e-01, rng = #attn.philox<rounds = 7>>, %[[SEED]], %[[OFFSET]] : i64, tensor<i64>)
// CHECK-SAME:     {{^}} -> tensor<?x4x?x16xf32>
func.func @dropout(%q: tensor<?x4x?x16xf32>, %seed: i64, %offset: tensor<i64>) -> tensor<?x4x?x16xf32> {
  %0 = attn.attention
      ins(%q, %q, %q : tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>,
          tensor<?x4x?x16xf32>)
      outs(%q : tensor<?x4x?x16xf32>) mask(#attn.causal)
      dropout(#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>>,
          %seed, %offset : i64, tensor<i64>)
      -> tensor<?x4x?x16xf32>
  return %0 : tensor<?x4x?x16xf32>
}

// CHECK-LABEL: func @dropout_mask
// CHECK: %[[BITS:.*]] = attn.dropout_mask columns by(<p = 1.250000e-01, rng = #attn.arx>, %{{.*}}, %{{.*}} : i64, tensor<i64>)
// CHECK-SAME:     {{^}} outs(%{{.*}} : tensor<?x4x?x?xi32>) -> tensor<?x4x?x?xi32>
// CHECK: attn.attention {{.*}} dropout_mask columns(%[[BITS]] : tensor<?x4x?x?xi32>) p(1.250000e-01) -> tensor<?x4x?x16xf32>
func.func @dropout_mask(%q: tensor<?x4x?x16xf32>, %m: tensor<?x4x?x?xi32>, %seed: i64, %offset: tensor<i64>) -> tensor<?x4x?x16xf32> {
  %bits = attn.dropout_mask columns by(#attn.dropout<p = 0.125, rng = #attn.arx>, %seed, %offset : i64, tensor<i64>)
      outs(%m : tensor<?x4x?x?xi32>) -> tensor<?x4x?x?xi32>
  %0 = attn.attention
      ins(%q, %q, %q : tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>,
          tensor<?x4x?x16xf32>)
      outs(%q : tensor<?x4x?x16xf32>)
      dropout_mask columns(%bits : tensor<?x4x?x?xi32>) p(0.125)
      -> tensor<?x4x?x16xf32>
  return %0 : tensor<?x4x?x16xf32>
}

// The words of 4000 queries and 1000 keys are those of 4032 and 1024.
// CHECK-LABEL: func @dropout_mask_sizes
// CHECK: dropout_mask rows(%{{.*}} : tensor<1x4x2016x64xi32>)
func.func @dropout_mask_sizes(%q: tensor<1x4x4000x16xf32>, %k: tensor<1x4x1000x16xf32>, %m: tensor<1x4x2016x64xi32>) -> tensor<1x4x4000x16xf32> {
  %0 = attn.attention
      ins(%q, %k, %k : tensor<1x4x4000x16xf32>, tensor<1x4x1000x16xf32>, tensor<1x4x1000x16xf32>)
      outs(%q : tensor<1x4x4000x16xf32>)
      dropout_mask rows(%m : tensor<1x4x2016x64xi32>) p(0.5)
      -> tensor<1x4x4000x16xf32>
  return %0 : tensor<1x4x4000x16xf32>
}

// CHECK-LABEL: func @overlap
// CHECK:      %[[R:.*]]:3 = attn.overlap {
// CHECK:        attn.overlap_yield %{{.*}} : f32
// CHECK-NEXT: } and {
// CHECK:        attn.overlap_yield %{{.*}}, %{{.*}} : f32, i32
// CHECK-NEXT: } attributes {name = "x"} -> (f32, f32, i32)
// CHECK:      return %[[R]]#0, %[[R]]#2
func.func @overlap(%x: f32, %n: i32) -> (f32, i32) {
  %r:3 = attn.overlap {
    %0 = arith.addf %x, %x : f32
    attn.overlap_yield %0 : f32
  } and {
    %0 = arith.mulf %x, %x : f32
    %1 = arith.addi %n, %n : i32
    attn.overlap_yield %0, %1 : f32, i32
  } attributes {name = "x"} -> (f32, f32, i32)
  return %r#0, %r#2 : f32, i32
}

// CHECK-LABEL: func @overlap_kinds
// CHECK:      attn.overlap by streams {
// CHECK:      attn.overlap by fused {
func.func @overlap_kinds() {
  attn.overlap by streams {
    attn.overlap_yield
  } and {
    attn.overlap_yield
  }
  attn.overlap by fused {
    attn.overlap_yield
  } and {
    attn.overlap_yield
  }
  return
}

// CHECK-LABEL: func @dropout_mask_of_heads
// CHECK:      attn.dropout_mask rows {{.*}} outs(%{{.*}} : memref<1x4x32x4xi32>) from_head(12)
func.func @dropout_mask_of_heads(%m: memref<1x4x32x4xi32>, %seed: i64) {
  attn.dropout_mask rows by(#attn.dropout<p = 0.5, rng = #attn.arx>, %seed, %seed : i64, i64)
      outs(%m : memref<1x4x32x4xi32>) from_head(12)
  return
}

// Groups of query heads of any size.
// CHECK-LABEL: func @head_map
// CHECK: attn.attention {{.*}} sinks(%{{.*}} : memref<4xf32>) heads(%{{.*}} : memref<4xi32>) mask(#attn.causal)
func.func @head_map(%q: memref<1x4x?x16xf32>, %k: memref<1x3x?x16xf32>,
                    %sinks: memref<4xf32>, %map: memref<4xi32>,
                    %out: memref<1x4x?x16xf32>) {
  attn.attention
      ins(%q, %k, %k : memref<1x4x?x16xf32>, memref<1x3x?x16xf32>,
          memref<1x3x?x16xf32>)
      outs(%out : memref<1x4x?x16xf32>) sinks(%sinks : memref<4xf32>)
      heads(%map : memref<4xi32>) mask(#attn.causal)
  return
}

// CHECK-LABEL: func @mask_that_reads
// CHECK: attn.attention ins({{.*}}) outs({{.*}}) mask(#attn.documents<queries = 0, keys = 1>) reads(%{{.*}}, %{{.*}} : memref<?x?xi32>, memref<1x?xi32>)
func.func @mask_that_reads(%q: memref<?x8x?x64xbf16>, %x: memref<?x?xi32>, %y: memref<1x?xi32>) {
  attn.attention ins(%q, %q, %q : memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>)
      outs(%q : memref<?x8x?x64xbf16>)
      mask(#attn.documents<queries = 0, keys = 1>) reads(%x, %y : memref<?x?xi32>, memref<1x?xi32>)
  return
}

// CHECK-LABEL: func @tables
// CHECK: attn.sequence_ids ins(%{{.*}} : memref<?x?xi32>) outs(%{{.*}} : memref<?x?xi32>) otherwise(-1)
// CHECK: attn.ancestor_map ins(%{{.*}} : memref<?x?xi32>) outs(%{{.*}} : memref<?x?x?xi32>) schedule(#attn_tile.scalar)
// CHECK: %{{.*}} = attn.block_sparse_map ins(%{{.*}}, %{{.*}} : tensor<1x8x?xi32>, tensor<1x8x?xi32>) columns(%{{.*}}) outs(%{{.*}} : tensor<1x8x?x?xi32>)
// CHECK-SAME:     {{^}} -> tensor<1x8x?x?xi32>
func.func @tables(%x: memref<?x?xi32>, %y: memref<?x?x?xi32>, %z: tensor<1x8x?xi32>, %n: index,
                  %t: tensor<1x8x?x?xi32>) -> tensor<1x8x?x?xi32> {
  attn.sequence_ids ins(%x : memref<?x?xi32>) outs(%x : memref<?x?xi32>) otherwise(-1)
  attn.ancestor_map ins(%x : memref<?x?xi32>) outs(%y : memref<?x?x?xi32>) schedule(#attn_tile.scalar)
  %0 = attn.block_sparse_map ins(%z, %z : tensor<1x8x?xi32>, tensor<1x8x?xi32>) columns(%n)
      outs(%t : tensor<1x8x?x?xi32>) -> tensor<1x8x?x?xi32>
  return %0 : tensor<1x8x?x?xi32>
}

// CHECK-LABEL: func.func @permute(
func.func @permute(%x: tensor<?x16x8x64xbf16>) -> tensor<?x8x16x64xbf16> {
  // CHECK: attn.permute %{{.*}} [0, 2, 1, 3] : tensor<?x16x8x64xbf16> -> tensor<?x8x16x64xbf16>
  %0 = attn.permute %x [0, 2, 1, 3] : tensor<?x16x8x64xbf16> -> tensor<?x8x16x64xbf16>
  return %0 : tensor<?x8x16x64xbf16>
}

// CHECK-LABEL: func @identity
// CHECK: attn.attention {{.*}} heads(%{{.*}} : memref<4xi32>) identity(%{{.*}} : memref<4xf32>) mask(#attn.causal)
// CHECK: attn.attention_grad {{.*}} outs(%{{.*}}, %{{.*}}, %{{.*}} : {{.*}}) identity(%{{.*}} : memref<4xf32>) scale(5.000000e-01)
func.func @identity(%q: memref<1x4x?x16xf32>, %map: memref<4xi32>,
                    %u: memref<4xf32>, %lse: memref<1x4x?xf32>,
                    %out: memref<1x4x?x16xf32>) {
  attn.attention
      ins(%q, %q, %q : memref<1x4x?x16xf32>, memref<1x4x?x16xf32>, memref<1x4x?x16xf32>)
      outs(%out : memref<1x4x?x16xf32>) heads(%map : memref<4xi32>)
      identity(%u : memref<4xf32>) mask(#attn.causal)
  attn.attention_grad
      ins(%q, %q, %q, %out, %lse, %out : memref<1x4x?x16xf32>, memref<1x4x?x16xf32>,
          memref<1x4x?x16xf32>, memref<1x4x?x16xf32>, memref<1x4x?xf32>, memref<1x4x?x16xf32>)
      outs(%out, %out, %out : memref<1x4x?x16xf32>, memref<1x4x?x16xf32>, memref<1x4x?x16xf32>)
      identity(%u : memref<4xf32>) scale(0.5)
  return
}

// CHECK-LABEL: func @precision
// CHECK: attn.attention ins({{.*}}) outs({{.*}}) mask(#attn.causal) precision(high)
// CHECK: attn.attention ins({{.*}}) outs({{.*}}) precision(highest) schedule(
func.func @precision(%q: memref<?x8x?x64xf32>) {
  attn.attention ins(%q, %q, %q : memref<?x8x?x64xf32>, memref<?x8x?x64xf32>, memref<?x8x?x64xf32>)
      outs(%q : memref<?x8x?x64xf32>) mask(#attn.causal) precision(high)
  attn.attention ins(%q, %q, %q : memref<?x8x?x64xf32>, memref<?x8x?x64xf32>, memref<?x8x?x64xf32>)
      outs(%q : memref<?x8x?x64xf32>) precision(highest)
      schedule(#attn_tile.sequential<query_tile = 64, key_tile = 64>)
  return
}
