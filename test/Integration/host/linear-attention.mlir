// Linear attention and its gradient, compared with the f64 reference that the compiler makes of the same operations.

// REQUIRES: host-cc
// RUN: attn-compile %s --target=host --with-reference -o %t.so
// RUN: attn-run %t.so --function=gated --shape=batch=2 --shape=tokens=150 --fill=g=const:-0.1 --fill=b=const:0.04 --check | FileCheck %s --check-prefix=GATED
// RUN: attn-run %t.so --function=element --shape=batch=1 --shape=tokens=70 --fill=g=const:-0.3 --check | FileCheck %s --check-prefix=ELEMENT
// RUN: attn-run %t.so --function=full --shape=batch=1 --shape=tokens=70 --check | FileCheck %s --check-prefix=FULL
// RUN: attn-run %t.so --function=gradient --shape=batch=2 --shape=tokens=100 --fill=g=const:-0.1 --fill=b=const:0.04 --check \
// RUN:   | FileCheck %s --check-prefix=GRADIENT
// RUN: attn-run %t.so --function=head_gradient --shape=batch=2 --shape=tokens=100 --fill=g=const:-0.1 --check | FileCheck %s --check-prefix=HEAD
// RUN: attn-run %t.so --function=full_gradient --shape=batch=2 --shape=tokens=100 --check | FileCheck %s --check-prefix=FULL-GRADIENT
// RUN: attn-run %t.so --function=few_tokens_gradient --check | FileCheck %s --check-prefix=FEW

!q = tensor<?x4x?x16xbf16>
!k = tensor<?x2x?x16xbf16>
!v = tensor<?x4x?x24xbf16>
!rows = tensor<?x4x?xf32>
!state = tensor<?x4x16x24xf32>
!h = tensor<?x2x?x16xf32>
!r = tensor<?x2x?xf32>
!s = tensor<?x2x16x16xf32>

// GATED: check
// GATED: {{^}}  o  {{.*}} ok
// GATED: {{^}}  f  {{.*}} ok
func.func @gated(%q: !q, %k: !k, %v: !v, %g: !rows, %b: !rows, %s: !state, %o: !v, %f: !state) -> (!v, !state) {
  %0:2 = attn.linear_attention ins(%q, %k, %v : !q, !k, !v) outs(%o, %f : !v, !state) log_decay(%g : !rows)
      beta(%b : !rows) initial_state(%s : !state) causal chunk(32) -> !v, !state
  return %0#0, %0#1 : !v, !state
}

// ELEMENT: {{^}}  o  {{.*}} ok
func.func @element(%q: !h, %k: !h, %v: !h, %g: !h, %o: !h) -> !h {
  %0 = attn.linear_attention ins(%q, %k, %v : !h, !h, !h) outs(%o : !h) log_decay(%g : !h) causal -> !h
  return %0 : !h
}

// FULL: {{^}}  o  {{.*}} ok
func.func @full(%q: !h, %k: !h, %v: !h, %o: !h) -> !h {
  %0 = attn.linear_attention ins(%q, %k, %v : !h, !h, !h) outs(%o : !h) -> !h
  return %0 : !h
}

// GRADIENT: dq {{.*}} ok
// GRADIENT: dk {{.*}} ok
// GRADIENT: dv {{.*}} ok
// GRADIENT: dg {{.*}} ok
// GRADIENT: db {{.*}} ok
// GRADIENT: di {{.*}} ok
func.func @gradient(%q: !h, %k: !h, %v: !h, %do: !h, %g: !r, %b: !r, %s: !s, %ds: !s, %dq: !h, %dk: !h, %dv: !h,
                    %dg: !r, %db: !r, %di: !s) -> (!h, !h, !h, !r, !r, !s) {
  %0:6 = attn.linear_attention_grad ins(%q, %k, %v, %do : !h, !h, !h, !h) outs(%dq, %dk, %dv : !h, !h, !h)
      log_decay(%g : !r) beta(%b : !r) initial_state(%s : !s) dfinal_state(%ds : !s) dlog_decay(%dg : !r)
      dbeta(%db : !r) dinitial_state(%di : !s) causal -> !h, !h, !h, !r, !r, !s
  return %0#0, %0#1, %0#2, %0#3, %0#4, %0#5 : !h, !h, !h, !r, !r, !s
}

// HEAD: dg {{.*}} ok
func.func @head_gradient(%q: !h, %k: !h, %v: !h, %do: !h, %g: tensor<2xf32>, %dq: !h, %dk: !h, %dv: !h,
                         %dg: tensor<?x2xf32>) -> (!h, !h, !h, tensor<?x2xf32>) {
  %0:4 = attn.linear_attention_grad ins(%q, %k, %v, %do : !h, !h, !h, !h) outs(%dq, %dk, %dv : !h, !h, !h)
      log_decay(%g : tensor<2xf32>) dlog_decay(%dg : tensor<?x2xf32>) causal -> !h, !h, !h, tensor<?x2xf32>
  return %0#0, %0#1, %0#2, %0#3 : !h, !h, !h, tensor<?x2xf32>
}

// FULL-GRADIENT: dq {{.*}} ok
// FULL-GRADIENT: dk {{.*}} ok
// FULL-GRADIENT: dv {{.*}} ok
func.func @full_gradient(%q: !h, %k: !h, %v: !h, %do: !h, %dq: !h, %dk: !h, %dv: !h) -> (!h, !h, !h) {
  %0:3 = attn.linear_attention_grad ins(%q, %k, %v, %do : !h, !h, !h, !h) outs(%dq, %dk, %dv : !h, !h, !h)
      -> !h, !h, !h
  return %0#0, %0#1, %0#2 : !h, !h, !h
}

// A chunk with all tokens, whose state before it and sums have one shape.
// FEW: {{^}}  dq  {{.*}} ok
// FEW: {{^}}  dk  {{.*}} ok
// FEW: {{^}}  dv  {{.*}} ok
!few = tensor<2x2x5x16xf32>
func.func @few_tokens_gradient(%q: !few, %k: !few, %v: !few, %d: !few, %dq: !few, %dk: !few, %dv: !few) -> (!few, !few, !few) {
  %0:3 = attn.linear_attention_grad ins(%q, %k, %v, %d : !few, !few, !few, !few) outs(%dq, %dk, %dv : !few, !few, !few)
      causal chunk(16) -> !few, !few, !few
  return %0#0, %0#1, %0#2 : !few, !few, !few
}
