// RUN: attn-compile %s --target=sm_90a --emit=ptx -o - | FileCheck %s
// RUN: attn-compile %s --target=sm_80 --emit=ptx -o - | FileCheck %s

// Each thread loads 16 bytes of both partial outputs before it stores. The factors of a chunk are computed once: two
// exponentials, and one of the state before. One reciprocal of the row sum serves all elements.

// CHECK: .entry merge_merge(
// CHECK-NOT: {{(ld|st).global.*b16}}
// CHECK-COUNT-2: ld.global.v4.b32
// CHECK-NOT: {{(ld|st).global.*b16}}
// CHECK-NOT: {{div|rcp}}{{.*}}f32
// CHECK: rcp.rn.f32
// CHECK-NOT: {{div|rcp}}{{.*}}f32
// CHECK: st.global.v4.b32
// CHECK-NOT: {{(ld|st).global.*b16}}
func.func @merge(%a: tensor<?x32x?x128xbf16>, %b: tensor<?x32x?x128xbf16>, %la: tensor<?x32x?xf32>,
                 %lb: tensor<?x32x?xf32>, %o: tensor<?x32x?x128xbf16>, %l: tensor<?x32x?xf32>)
    -> (tensor<?x32x?x128xbf16>, tensor<?x32x?xf32>) {
  %r:2 = attn.merge ins(%a, %b : tensor<?x32x?x128xbf16>, tensor<?x32x?x128xbf16>)
      lses(%la, %lb : tensor<?x32x?xf32>, tensor<?x32x?xf32>)
      outs(%o, %l : tensor<?x32x?x128xbf16>, tensor<?x32x?xf32>) -> tensor<?x32x?x128xbf16>, tensor<?x32x?xf32>
  return %r#0, %r#1 : tensor<?x32x?x128xbf16>, tensor<?x32x?xf32>
}
