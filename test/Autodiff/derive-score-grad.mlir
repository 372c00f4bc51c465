// RUN: attn-opt %s --attn-derive-score-grad --split-input-file --verify-diagnostics | FileCheck %s

// CHECK-LABEL: func @tanh
// CHECK: } score_mod_grad {
// CHECK-NEXT: ^bb0(%[[S:.*]]: f32, %[[DS:.*]]: f32, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index):
// CHECK-NEXT: %[[T:.*]] = math.tanh %[[S]] : f32
// CHECK-NEXT: %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK-NEXT: %[[T2:.*]] = arith.mulf %[[T]], %[[T]] : f32
// CHECK-NEXT: %[[SLOPE:.*]] = arith.subf %[[ONE]], %[[T2]] : f32
// CHECK-NEXT: %[[DX:.*]] = arith.mulf %[[DS]], %[[SLOPE]] : f32
// CHECK-NEXT: attn.yield %[[DX]] : f32
func.func @tanh(%q: memref<2x4x8x16xf32>, %lse: memref<2x4x8xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>,
          memref<2x4x8x16xf32>, memref<2x4x8x16xf32>, memref<2x4x8xf32>,
          memref<2x4x8x16xf32>)
      outs(%q, %q, %q : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>,
           memref<2x4x8x16xf32>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %t = math.tanh %s : f32
        attn.yield %t : f32
      }
  return
}

// -----

// A branch is taken again; what it reads but does not need is not.
// CHECK-LABEL: func @branch
// CHECK: } score_mod_grad {
// CHECK-NEXT: ^bb0(%[[S:.*]]: f32, %[[DS:.*]]: f32,
// CHECK: %[[C:.*]] = arith.cmpi
// CHECK-NEXT: %[[DX:.*]] = scf.if %[[C]] -> (f32) {
// CHECK-NEXT:   %[[N:.*]] = arith.negf %[[DS]] : f32
// CHECK-NEXT:   scf.yield %[[N]] : f32
// CHECK-NEXT: } else {
// CHECK-NEXT:   scf.yield %[[DS]] : f32
// CHECK-NEXT: }
// CHECK-NEXT: attn.yield %[[DX]] : f32
func.func @branch(%q: memref<2x4x8x16xf32>, %lse: memref<2x4x8xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>,
          memref<2x4x8x16xf32>, memref<2x4x8x16xf32>, memref<2x4x8xf32>,
          memref<2x4x8x16xf32>)
      outs(%q, %q, %q : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>,
           memref<2x4x8x16xf32>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %c = arith.cmpi slt, %i, %j : index
        %t = scf.if %c -> f32 {
          %n = arith.negf %s : f32
          scf.yield %n : f32
        } else {
          scf.yield %s : f32
        }
        attn.yield %t : f32
      }
  return
}

// -----

// The user's own stays.
// CHECK-LABEL: func @given
// CHECK: } score_mod_grad {
// CHECK-NEXT: ^bb0(%[[S:.*]]: f32, %{{.*}}: f32,
// CHECK-NEXT: attn.yield %[[S]] : f32
func.func @given(%q: memref<2x4x8x16xf32>, %lse: memref<2x4x8xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>,
          memref<2x4x8x16xf32>, memref<2x4x8x16xf32>, memref<2x4x8xf32>,
          memref<2x4x8x16xf32>)
      outs(%q, %q, %q : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>,
           memref<2x4x8x16xf32>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %two = arith.constant 2 : i32
        %t = math.fpowi %s, %two : f32, i32
        attn.yield %t : f32
      } score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index):
        attn.yield %s : f32
      }
  return
}

// -----

func.func @not_differentiable(%q: memref<2x4x8x16xf32>, %lse: memref<2x4x8xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>,
          memref<2x4x8x16xf32>, memref<2x4x8x16xf32>, memref<2x4x8xf32>,
          memref<2x4x8x16xf32>)
      outs(%q, %q, %q : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>,
           memref<2x4x8x16xf32>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %two = arith.constant 2.0 : f32
        // expected-error @below {{cannot differentiate 'math.clampf': it does not implement DifferentiableOpInterface}}
        %t = math.clampf %s to [%two, %two] : f32
        attn.yield %t : f32
      }
  return
}
