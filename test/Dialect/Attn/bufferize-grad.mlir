// RUN: attn-opt %s --one-shot-bufferize=bufferize-function-boundaries --canonicalize --split-input-file | FileCheck %s

// Gradients that are overwritten need no copies, those that are added to keep
// what they hold.
// CHECK-LABEL: func @captures
// CHECK-SAME: %[[BIAS:[a-z0-9]+]]: memref<4x?xf32, strided<[?, ?], offset: ?>>, %[[DBIAS:[a-z0-9]+]]: memref<4x?xf32, strided<[?, ?], offset: ?>>)
// CHECK-NOT: memref.copy
// CHECK: %[[DQ:.*]] = memref.alloc() {{.*}} : memref<2x4x8x16xf16>
// CHECK-NOT: memref.copy
// CHECK: attn.attention_grad {{.*}} outs(%[[DQ]], %{{.*}}, %{{.*}}, %[[DBIAS]] : {{.*}}, memref<4x?xf32, strided<[?, ?], offset: ?>>) scale(2.000000e+00)
// CHECK-SAME:     {{^}} deterministic attributes {note = "kept"} score_mod {
// CHECK: memref.load %[[BIAS]]
// CHECK: score_mod_grad {
// CHECK-NEXT: ^bb0(%{{.*}}: f32, %[[DS:.*]]: f32, %{{.*}}: index, %[[H:.*]]: index, %[[I:.*]]: index, %[[J:.*]]: index,
// CHECK-SAME:     %[[G:.*]]: memref<4x?xf32, strided<[?, ?], offset: ?>>):
// CHECK-NEXT: attn.accumulate %[[DS]] into %[[G]][%[[H]], %[[J]]] : memref<4x?xf32, strided<[?, ?], offset: ?>>
// CHECK: scf.if
// CHECK-NEXT: attn.accumulate %{{.*}} into %[[G]][%[[H]], %[[I]]]
// CHECK-NOT: memref.copy
// CHECK: return %[[DQ]], %[[DBIAS]]
func.func @captures(%q: tensor<2x4x8x16xf16>, %lse: tensor<2x4x8xf32>,
                    %bias: tensor<4x?xf32>, %dbias: tensor<4x?xf32>)
    -> (tensor<2x4x8x16xf16>, tensor<4x?xf32>) {
  %dq = tensor.empty() : tensor<2x4x8x16xf16>
  %0:4 = attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : tensor<2x4x8x16xf16>, tensor<2x4x8x16xf16>,
          tensor<2x4x8x16xf16>, tensor<2x4x8x16xf16>, tensor<2x4x8xf32>,
          tensor<2x4x8x16xf16>)
      outs(%dq, %dq, %dq, %dbias : tensor<2x4x8x16xf16>, tensor<2x4x8x16xf16>,
           tensor<2x4x8x16xf16>, tensor<4x?xf32>)
      scale(2.0) deterministic attributes {note = "kept"}
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %bias[%h, %j] : tensor<4x?xf32>
        %t = arith.addf %s, %x : f32
        attn.yield %t : f32
      } score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index,
           %g: tensor<4x?xf32>):
        attn.accumulate %ds into %g[%h, %j] : tensor<4x?xf32>
        %c = arith.cmpi slt, %i, %j : index
        scf.if %c {
          attn.accumulate %s into %g[%h, %i] : tensor<4x?xf32>
        }
        attn.yield %ds : f32
      } -> tensor<2x4x8x16xf16>, tensor<2x4x8x16xf16>, tensor<2x4x8x16xf16>,
           tensor<4x?xf32>
  return %0#0, %0#3 : tensor<2x4x8x16xf16>, tensor<4x?xf32>
}

// -----

// A destination that is read afterwards is copied.
// CHECK-LABEL: func @old_gradient_is_read
// CHECK-SAME: %[[DBIAS:[a-z0-9]+]]: memref<8xf32, strided<[?], offset: ?>>)
// CHECK: %[[COPY:.*]] = memref.alloc() {{.*}} : memref<8xf32>
// CHECK: memref.copy %[[DBIAS]], %[[COPY]]
// CHECK: attn.attention_grad {{.*}} outs(%{{.*}}, %{{.*}}, %{{.*}}, %[[COPY]] :
// CHECK: ^bb0({{.*}}, %[[G:[a-z0-9]+]]: memref<8xf32>):
// CHECK: attn.accumulate %{{.*}} into %[[G]]
// CHECK: return %[[COPY]], %[[DBIAS]]
func.func @old_gradient_is_read(%q: tensor<2x4x8x16xf16>, %lse: tensor<2x4x8xf32>,
                                %dbias: tensor<8xf32>)
    -> (tensor<8xf32>, tensor<8xf32>) {
  %dq = tensor.empty() : tensor<2x4x8x16xf16>
  %0:4 = attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : tensor<2x4x8x16xf16>, tensor<2x4x8x16xf16>,
          tensor<2x4x8x16xf16>, tensor<2x4x8x16xf16>, tensor<2x4x8xf32>,
          tensor<2x4x8x16xf16>)
      outs(%dq, %dq, %dq, %dbias : tensor<2x4x8x16xf16>, tensor<2x4x8x16xf16>,
           tensor<2x4x8x16xf16>, tensor<8xf32>)
      score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index,
           %g: tensor<8xf32>):
        attn.accumulate %ds into %g[%j] : tensor<8xf32>
        attn.yield %ds : f32
      } -> tensor<2x4x8x16xf16>, tensor<2x4x8x16xf16>, tensor<2x4x8x16xf16>,
           tensor<8xf32>
  return %0#3, %dbias : tensor<8xf32>, tensor<8xf32>
}
