// RUN: attn-opt %s --canonicalize --split-input-file | FileCheck %s

!out = tensor<?x4x?x32xbf16>
!wide = tensor<?x4x?x32xf32>
!lse = tensor<?x4x?xf32>

// The merge of one partial result is that result.
// CHECK-LABEL: func @one
// CHECK-SAME: %[[O:[a-z0-9]+]]: tensor<?x4x?x32xbf16>, %[[L:[a-z0-9]+]]: tensor<?x4x?xf32>
// CHECK-NEXT: return %[[O]], %[[L]]
func.func @one(%o: !out, %l: !lse, %init: !out, %lse_init: !lse) -> (!out, !lse) {
  %r:2 = attn.merge ins(%o : !out) lses(%l : !lse) outs(%init, %lse_init : !out, !lse) -> !out, !lse
  return %r#0, %r#1 : !out, !lse
}

// It is not if the type differs.
// CHECK-LABEL: func @one_of_another_type
// CHECK: attn.merge
func.func @one_of_another_type(%o: !out, %l: !lse, %init: !wide) -> !wide {
  %r = attn.merge ins(%o : !out) lses(%l : !lse) outs(%init : !wide) -> !wide
  return %r : !wide
}

// CHECK-LABEL: func @nested
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<?x4x?x32xbf16>, %[[B:[a-z0-9]+]]: tensor<?x4x?x32xbf16>, %[[C:[a-z0-9]+]]: tensor<?x4x?x32xbf16>,
// CHECK-SAME: %[[LA:[a-z0-9]+]]: tensor<?x4x?xf32>, %[[LB:[a-z0-9]+]]: tensor<?x4x?xf32>, %[[LC:[a-z0-9]+]]: tensor<?x4x?xf32>
// CHECK-NEXT: %[[R:.*]]:2 = attn.merge ins(%[[A]], %[[B]], %[[C]] :
// CHECK-SAME: lses(%[[LA]], %[[LB]], %[[LC]] :
// CHECK-NEXT: return %[[R]]#0, %[[R]]#1
func.func @nested(%a: !out, %b: !out, %c: !out, %la: !lse, %lb: !lse, %lc: !lse) -> (!out, !lse) {
  %0:2 = attn.merge ins(%b, %c : !out, !out) lses(%lb, %lc : !lse, !lse) outs(%a, %la : !out, !lse) -> !out, !lse
  %r:2 = attn.merge ins(%a, %0#0 : !out, !out) lses(%la, %0#1 : !lse, !lse) outs(%a, %la : !out, !lse) -> !out, !lse
  return %r#0, %r#1 : !out, !lse
}

// A merge whose result something else reads stays, since the work would be done twice.
// CHECK-LABEL: func @used_twice
// CHECK-COUNT-2: attn.merge
func.func @used_twice(%a: !out, %la: !lse) -> (!out, !out) {
  %0:2 = attn.merge ins(%a, %a : !out, !out) lses(%la, %la : !lse, !lse) outs(%a, %la : !out, !lse) -> !out, !lse
  %r = attn.merge ins(%a, %0#0 : !out, !out) lses(%la, %0#1 : !lse, !lse) outs(%a : !out) -> !out
  return %r, %0#0 : !out, !out
}

// So does one whose output and log-sum-exp belong to different partial results.
// CHECK-LABEL: func @mixed
// CHECK-COUNT-2: attn.merge
func.func @mixed(%a: !out, %la: !lse) -> !out {
  %0:2 = attn.merge ins(%a, %a : !out, !out) lses(%la, %la : !lse, !lse) outs(%a, %la : !out, !lse) -> !out, !lse
  %r = attn.merge ins(%a, %0#0 : !out, !out) lses(%0#1, %la : !lse, !lse) outs(%a : !out) -> !out
  return %r : !out
}
