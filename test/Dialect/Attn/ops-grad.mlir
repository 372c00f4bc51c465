// RUN: attn-opt %s --verify-roundtrip | FileCheck %s
// RUN: attn-opt %s --mlir-print-op-generic | attn-opt | FileCheck %s

// CHECK-LABEL: func @minimal
// CHECK: %{{.*}}:3 = attn.attention_grad ins(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} : tensor<2x4x8x16xf32>,
// CHECK-SAME:     tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>, tensor<2x4x8x64xf32>)
// CHECK-SAME: outs(%{{.*}}, %{{.*}}, %{{.*}} : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>) -> tensor<2x4x8x16xf32>,
// CHECK-SAME: tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
func.func @minimal(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x32x16xf32>,
                   %v: tensor<2x2x32x64xf32>, %o: tensor<2x4x8x64xf32>,
                   %lse: tensor<2x4x8xf32>) -> tensor<2x4x8x16xf32> {
  %0:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %o : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>,
          tensor<2x2x32x64xf32>, tensor<2x4x8x64xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x64xf32>)
      outs(%q, %k, %v : tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>,
           tensor<2x2x32x64xf32>)
      -> tensor<2x4x8x16xf32>, tensor<2x2x32x16xf32>, tensor<2x2x32x64xf32>
  return %0#0 : tensor<2x4x8x16xf32>
}

// Dynamic sizes, f32 outputs and gradients of bf16, everything that is optional.
// CHECK-LABEL: func @all
// CHECK: attn.attention_grad ins(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : tensor<?x4x?x16xbf16>, {{.*}}, tensor<?x4x?xf32>,
// CHECK-SAME:     tensor<?x4x?x16xf32>, tensor<?x4x?xf32>)
// CHECK-SAME: outs(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : tensor<?x4x?x16xf32>, tensor<?x4x?x16xbf16>, tensor<?x4x?x16xf32>, tensor<4x?xf32>,
// CHECK-SAME: tensor<f32>)
// CHECK-SAME: scale(5.000000e-01) mask(#attn.causal) schedule(#attn_tile.sequential<{{.*}}>) deterministic attributes {note = "kept"} score_mod {
// CHECK-NEXT: ^bb0(%{{.*}}: f32, %{{.*}}: index, %[[H:.*]]: index, %{{.*}}: index, %[[J:.*]]: index):
// CHECK: attn.yield
// CHECK-NEXT: } mask_mod {
// CHECK: attn.yield
// CHECK-NEXT: } score_mod_grad {
// CHECK-NEXT: ^bb0(%{{.*}}: f32, %[[DS:.*]]: f32, %{{.*}}: index, %[[H:.*]]: index, %{{.*}}: index, %[[J:.*]]: index, %[[G0:.*]]: tensor<4x?xf32>,
// CHECK-SAME:     %[[G1:.*]]: tensor<f32>):
// CHECK-NEXT: attn.accumulate %[[DS]] into %[[G0]][%[[H]], %[[J]]] : tensor<4x?xf32>
// CHECK-NEXT: attn.accumulate %[[DS]] into %[[G1]][] : tensor<f32>
// CHECK-NEXT: attn.yield %[[DS]] : f32
// CHECK-NEXT: } -> tensor<?x4x?x16xf32>, tensor<?x4x?x16xbf16>, tensor<?x4x?x16xf32>, tensor<4x?xf32>, tensor<f32>
func.func @all(%q: tensor<?x4x?x16xbf16>, %o: tensor<?x4x?x16xf32>,
               %lse: tensor<?x4x?xf32>, %dq: tensor<?x4x?x16xf32>,
               %bias: tensor<4x?xf32>, %shift: f32, %dbias: tensor<4x?xf32>,
               %dshift: tensor<f32>) -> (tensor<4x?xf32>, tensor<f32>) {
  %0:5 = attn.attention_grad
      ins(%q, %q, %q, %o, %lse, %o, %lse : tensor<?x4x?x16xbf16>,
          tensor<?x4x?x16xbf16>, tensor<?x4x?x16xbf16>, tensor<?x4x?x16xf32>,
          tensor<?x4x?xf32>, tensor<?x4x?x16xf32>, tensor<?x4x?xf32>)
      outs(%dq, %q, %dq, %dbias, %dshift : tensor<?x4x?x16xf32>,
           tensor<?x4x?x16xbf16>, tensor<?x4x?x16xf32>, tensor<4x?xf32>,
           tensor<f32>)
      scale(0.5) mask(#attn.causal)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>)
      deterministic attributes {note = "kept"}
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %bias[%h, %j] : tensor<4x?xf32>
        %t = arith.addf %s, %x : f32
        %u = arith.addf %t, %shift : f32
        attn.yield %u : f32
      } mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %c = arith.cmpi sle, %j, %i : index
        attn.yield %c : i1
      } score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index,
           %g0: tensor<4x?xf32>, %g1: tensor<f32>):
        attn.accumulate %ds into %g0[%h, %j] : tensor<4x?xf32>
        attn.accumulate %ds into %g1[] : tensor<f32>
        attn.yield %ds : f32
      } -> tensor<?x4x?x16xf32>, tensor<?x4x?x16xbf16>, tensor<?x4x?x16xf32>,
           tensor<4x?xf32>, tensor<f32>
  return %0#3, %0#4 : tensor<4x?xf32>, tensor<f32>
}

// CHECK-LABEL: func @memrefs
// CHECK: attn.attention_grad {{.*}} score_mod_grad {
// CHECK: scf.if
// CHECK: attn.accumulate %{{.*}} into %{{.*}}[%{{.*}}] : memref<?xf32, strided<[?]>>
func.func @memrefs(%q: memref<?x4x?x16xf16, strided<[?, ?, ?, ?], offset: ?>>,
                   %o: memref<?x4x?x16xf16>, %lse: memref<?x4x?xf32>,
                   %bias: memref<?xf32>, %dbias: memref<?xf32, strided<[?]>>) {
  attn.attention_grad
      ins(%q, %q, %q, %o, %lse, %o : memref<?x4x?x16xf16, strided<[?, ?, ?, ?], offset: ?>>,
          memref<?x4x?x16xf16, strided<[?, ?, ?, ?], offset: ?>>,
          memref<?x4x?x16xf16, strided<[?, ?, ?, ?], offset: ?>>,
          memref<?x4x?x16xf16>, memref<?x4x?xf32>, memref<?x4x?x16xf16>)
      outs(%o, %o, %o, %dbias : memref<?x4x?x16xf16>, memref<?x4x?x16xf16>,
           memref<?x4x?x16xf16>, memref<?xf32, strided<[?]>>)
      score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index,
           %g: memref<?xf32, strided<[?]>>):
        %c = arith.cmpi sle, %j, %i : index
        scf.if %c {
          attn.accumulate %ds into %g[%j] : memref<?xf32, strided<[?]>>
        }
        attn.yield %ds : f32
      }
  return
}

// CHECK-LABEL: func @sequences
// CHECK: attn.attention_grad {{.*}} outs({{.*}}) sequences packed(%{{.*}}, %{{.*}} : memref<?xi32>, memref<?xi32>) mask(#attn.causal)
func.func @sequences(%q: memref<1x4x?x16xf32>, %lse: memref<1x4x?xf32>,
                     %dq: memref<1x4x?x16xf32>, %bounds: memref<?xi32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x4x?x16xf32>, memref<1x4x?x16xf32>,
          memref<1x4x?x16xf32>, memref<1x4x?x16xf32>, memref<1x4x?xf32>,
          memref<1x4x?x16xf32>)
      outs(%dq, %dq, %dq : memref<1x4x?x16xf32>, memref<1x4x?x16xf32>,
           memref<1x4x?x16xf32>)
      sequences packed(%bounds, %bounds : memref<?xi32>, memref<?xi32>)
      mask(#attn.causal)
  return
}

// CHECK-LABEL: func @mask_that_reads
// CHECK: attn.attention_grad ins({{.*}}) outs({{.*}}) mask(#attn.tree<parents = 0>) reads(%{{.*}} : memref<1x?xi32>)
func.func @mask_that_reads(%q: memref<?x8x?x64xbf16>, %lse: memref<?x8x?xf32>, %x: memref<1x?xi32>) {
  attn.attention_grad ins(%q, %q, %q, %q, %lse, %q : memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>,
          memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>, memref<?x8x?xf32>, memref<?x8x?x64xbf16>)
      outs(%q, %q, %q : memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>)
      mask(#attn.tree<parents = 0>) reads(%x : memref<1x?xi32>)
  return
}

// CHECK-LABEL: func @precision
// CHECK: attn.attention_grad ins({{.*}}) outs({{.*}}) mask(#attn.causal) precision(high)
func.func @precision(%q: memref<?x8x?x64xf32>, %lse: memref<?x8x?xf32>) {
  attn.attention_grad ins(%q, %q, %q, %q, %lse, %q : memref<?x8x?x64xf32>, memref<?x8x?x64xf32>,
          memref<?x8x?x64xf32>, memref<?x8x?x64xf32>, memref<?x8x?xf32>, memref<?x8x?x64xf32>)
      outs(%q, %q, %q : memref<?x8x?x64xf32>, memref<?x8x?x64xf32>, memref<?x8x?x64xf32>)
      mask(#attn.causal) precision(high)
  return
}
