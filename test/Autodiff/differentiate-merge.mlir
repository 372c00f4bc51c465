// RUN: attn-opt %s --attn-differentiate=mode=combined --split-input-file | FileCheck %s

!out = tensor<1x2x9x16xbf16>
!lse = tensor<1x2x9xf32>

// CHECK-LABEL: func @both_grad
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<1x2x9x16xbf16>, %[[LA:[a-z0-9]+]]: tensor<1x2x9xf32>,
// CHECK-SAME:  %[[B:[a-z0-9]+]]: tensor<1x2x9x16xbf16>, %[[LB:[a-z0-9]+]]: tensor<1x2x9xf32>,
// CHECK-SAME:  %[[DOUT:[a-z0-9]+]]: tensor<1x2x9x16xbf16>, %[[DLSE:[a-z0-9]+]]: tensor<1x2x9xf32>)
// CHECK: %[[R:.*]]:4 = attn.merge_grad ins(%[[A]], %[[B]] :
// CHECK-SAME: lses(%[[LA]], %[[LB]] : tensor<1x2x9xf32>, tensor<1x2x9xf32>)
// CHECK-SAME: dout(%[[DOUT]] : tensor<1x2x9x16xbf16>) dlse(%[[DLSE]] : tensor<1x2x9xf32>)
// CHECK: return {{.*}}%[[R]]#0, %[[R]]#2, %[[R]]#1, %[[R]]#3
func.func @both(%a: !out, %la: !lse, %b: !out, %lb: !lse) -> (!out, !lse) {
  %o = tensor.empty() : !out
  %l = tensor.empty() : !lse
  %r:2 = attn.merge ins(%a, %b : !out, !out) lses(%la, %lb : !lse, !lse) outs(%o, %l : !out, !lse) -> !out, !lse
  return %r#0, %r#1 : !out, !lse
}

// -----

!out = tensor<1x2x9x16xbf16>
!lse = tensor<1x2x9xf32>

// Without a gradient of the output, it is zero; without one of the log-sum-exp, there is no operand.
// CHECK-LABEL: func @lse_alone_grad
// CHECK: %[[ZERO:.*]] = linalg.fill
// CHECK: attn.merge_grad {{.*}} dout(%[[ZERO]] : tensor<1x2x9x16xbf16>) dlse(
func.func @lse_alone(%a: !out, %la: !lse) -> !lse {
  %r:2 = attn.merge ins(%a, %a : !out, !out) lses(%la, %la : !lse, !lse) outs(%a, %la : !out, !lse) -> !out, !lse
  return %r#1 : !lse
}

// CHECK-LABEL: func @out_alone_grad
// CHECK: attn.merge_grad {{.*}} dout(%{{[a-z0-9]+}} : tensor<1x2x9x16xbf16>) outs(
func.func @out_alone(%a: !out, %la: !lse) -> !out {
  %r = attn.merge ins(%a, %a : !out, !out) lses(%la, %la : !lse, !lse) outs(%a : !out) -> !out
  return %r : !out
}
