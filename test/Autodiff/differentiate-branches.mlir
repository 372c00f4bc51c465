// RUN: attn-opt %s --attn-differentiate=mode=combined --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-differentiate --split-input-file | FileCheck %s --check-prefix=PAIR

// The branch that was taken is computed again, with its gradients: those of
// tensors from outside are yielded.

// CHECK-LABEL: func.func @tensors_grad(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<?xf32>, %[[Y:[a-z0-9]+]]: tensor<?xf32>, %[[C:[a-z0-9]+]]: i1, %[[D:[a-z0-9]+]]: tensor<?xf32>)
// CHECK:         %[[R:.*]] = scf.if %[[C]]
// CHECK:         %[[G:.*]]:2 = scf.if %[[C]] -> (tensor<?xf32>, tensor<?xf32>) {
// CHECK:           %[[DX:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[D]] :
// CHECK:           %[[ZERO:.*]] = linalg.fill
// CHECK:           scf.yield %[[DX]], %[[ZERO]]
// CHECK:         } else {
// CHECK:           %[[ZERO:.*]] = linalg.fill
// CHECK:           scf.yield %[[ZERO]], %[[D]]
// CHECK:         return %[[R]], %[[G]]#0, %[[G]]#1
// PAIR-LABEL: func.func @tensors_bwd(
// PAIR:         scf.if
func.func @tensors(%x: tensor<?xf32>, %y: tensor<?xf32>, %c: i1) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %r = scf.if %c -> tensor<?xf32> {
    %e = tensor.empty(%n) : tensor<?xf32>
    %z = linalg.exp ins(%x : tensor<?xf32>) outs(%e : tensor<?xf32>) -> tensor<?xf32>
    scf.yield %z : tensor<?xf32>
  } else {
    scf.yield %y : tensor<?xf32>
  }
  return %r : tensor<?xf32>
}

// -----

// Attention of a branch yields its log-sum-exp where it runs again.

// CHECK-LABEL: func.func @attention_grad(
// CHECK:         scf.if
// CHECK:           attn.attention ins
// CHECK:         scf.if
// CHECK:           %[[A:.*]]:2 = attn.attention ins
// CHECK:           attn.attention_grad ins(%{{.*}}, %{{.*}}, %{{.*}}, %[[A]]#0, %[[A]]#1, %{{.*}} :
// CHECK:         } else {
// CHECK-NOT:       attn
// CHECK:         return
func.func @attention(%q: tensor<1x2x8x16xf32>, %c: i1) -> tensor<1x2x8x16xf32> {
  %e = tensor.empty() : tensor<1x2x8x16xf32>
  %r = scf.if %c -> tensor<1x2x8x16xf32> {
    %o = attn.attention ins(%q, %q, %q : tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>)
        outs(%e : tensor<1x2x8x16xf32>) -> tensor<1x2x8x16xf32>
    scf.yield %o : tensor<1x2x8x16xf32>
  } else {
    scf.yield %q : tensor<1x2x8x16xf32>
  }
  return %r : tensor<1x2x8x16xf32>
}

// -----

// Branches in branches of score_mod regions. Elements of captured tensors are added
// where they are read.

// CHECK-LABEL: func.func @nested_grad(
// CHECK:         } score_mod_grad {
// CHECK-NEXT:    ^bb0(%[[S:.*]]: f32, %[[DS:.*]]: f32, %{{.*}}: index, %[[H:.*]]: index, %[[I:.*]]: index, %[[J:.*]]: index, %[[T:.*]]: tensor<8xf32>):
// CHECK:           %[[G:.*]] = scf.if %{{.*}} -> (f32) {
// CHECK:             %[[EXP:.*]] = math.exp
// CHECK-NEXT:        %[[DEXP:.*]] = arith.mulf %[[DS]], %[[EXP]]
// CHECK-NEXT:        %[[INNER:.*]] = scf.if %{{.*}} -> (f32) {
// CHECK:               attn.accumulate %{{.*}} into %[[T]][%[[J]]]
// CHECK:               scf.yield
// CHECK-NEXT:        } else {
// CHECK-NEXT:          scf.yield %[[DEXP]]
// CHECK:             scf.yield %[[INNER]]
// CHECK-NEXT:      } else {
// CHECK-NEXT:        scf.yield %[[DS]]
// CHECK:           attn.yield %[[G]]
func.func @nested(%q: tensor<1x2x8x16xf32>, %t: tensor<8xf32>) -> tensor<1x2x8x16xf32> {
  %e = tensor.empty() : tensor<1x2x8x16xf32>
  %r = attn.attention ins(%q, %q, %q : tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>)
      outs(%e : tensor<1x2x8x16xf32>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %c = arith.cmpi ult, %i, %j : index
        %d = arith.cmpi ult, %h, %j : index
        %y = scf.if %c -> f32 {
          %m = scf.if %d -> f32 {
            %x = tensor.extract %t[%j] : tensor<8xf32>
            %u = arith.mulf %s, %x : f32
            %v = math.tanh %u : f32
            scf.yield %v : f32
          } else {
            scf.yield %s : f32
          }
          %w = math.exp %m : f32
          scf.yield %w : f32
        } else {
          scf.yield %s : f32
        }
        attn.yield %y : f32
      } -> tensor<1x2x8x16xf32>
  return %r : tensor<1x2x8x16xf32>
}

// -----

// Constants of tensors of dynamic shape are filled.

// CHECK-LABEL: func.func @dynamic_grad(
// CHECK:         %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK:         %[[Y:.*]] = math.tanh
// CHECK:         %[[ONES:.*]] = linalg.fill ins(%[[ONE]] : f32) outs(%{{.*}} : tensor<?x4xf32>)
// CHECK:         %[[Y2:.*]] = arith.mulf %[[Y]], %[[Y]]
// CHECK:         arith.subf %[[ONES]], %[[Y2]]
func.func @dynamic(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %y = math.tanh %x : tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}

// -----

// Of two results the one that has a gradient is a sum; the other is not read.

// CHECK-LABEL: func.func @sum_beside_maximum_grad(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<3x4xf32>, %{{.*}}: tensor<3xf32>, %{{.*}}: tensor<3xf32>, %[[D:[a-z0-9]+]]: tensor<3xf32>)
// CHECK:         linalg.generic
// CHECK:         linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]} ins(%[[D]] : tensor<3xf32>)
// CHECK:         return {{.*}}, %[[D]] :
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @sum_beside_maximum(%x: tensor<3x4xf32>, %a: tensor<3xf32>, %b: tensor<3xf32>) -> tensor<3xf32> {
  %r:2 = linalg.generic {indexing_maps = [#id, #row, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<3x4xf32>) outs(%a, %b : tensor<3xf32>, tensor<3xf32>) {
  ^bb0(%v: f32, %p: f32, %q: f32):
    %m = arith.maximumf %p, %v : f32
    %u = arith.addf %q, %v : f32
    linalg.yield %m, %u : f32, f32
  } -> (tensor<3xf32>, tensor<3xf32>)
  return %r#1 : tensor<3xf32>
}
