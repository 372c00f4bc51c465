// Merges and their gradients, compared with the f64 reference that the compiler makes of the same operations.

// REQUIRES: host-cc
// RUN: attn-compile %s --target=host --with-reference -o %t.so
// RUN: attn-run %t.so --function=merge --shape=batch=2 --shape=queries=37 --check | FileCheck %s --check-prefix=MERGE
// RUN: attn-run %t.so --function=gradient --shape=batch=2 --shape=queries=37 --check | FileCheck %s --check-prefix=GRADIENT

!out = tensor<?x3x?x40xbf16>
!wide = tensor<?x3x?x40xf32>
!lse = tensor<?x3x?xf32>

// MERGE: check
// MERGE: {{^}}  o  {{.*}} ok
// MERGE: {{^}}  l  {{.*}} ok
func.func @merge(%a: !out, %la: !lse, %b: !wide, %lb: !lse, %c: !out, %lc: !lse, %o: !out, %l: !lse) -> (!out, !lse) {
  %0:2 = attn.merge ins(%a, %b, %c : !out, !wide, !out) lses(%la, %lb, %lc : !lse, !lse, !lse)
      outs(%o, %l : !out, !lse) -> !out, !lse
  return %0#0, %0#1 : !out, !lse
}

// GRADIENT: {{^}}  da  {{.*}} ok
// GRADIENT: {{^}}  db  {{.*}} ok
// GRADIENT: {{^}}  dla {{.*}} ok
// GRADIENT: {{^}}  dlb {{.*}} ok
func.func @gradient(%a: !wide, %la: !lse, %b: !wide, %lb: !lse, %do: !wide, %dl: !lse, %da: !wide, %db: !wide,
                    %dla: !lse, %dlb: !lse) -> (!wide, !wide, !lse, !lse) {
  %0:4 = attn.merge_grad ins(%a, %b : !wide, !wide) lses(%la, %lb : !lse, !lse) dout(%do : !wide) dlse(%dl : !lse)
      outs(%da, %db : !wide, !wide) dlses(%dla, %dlb : !lse, !lse) -> !wide, !wide, !lse, !lse
  return %0#0, %0#1, %0#2, %0#3 : !wide, !wide, !lse, !lse
}
