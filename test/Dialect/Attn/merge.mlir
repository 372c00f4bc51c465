// RUN: attn-opt %s --verify-roundtrip | FileCheck %s
// RUN: attn-opt %s --mlir-print-op-generic | attn-opt | FileCheck %s

!out = tensor<?x4x?x32xbf16>
!wide = tensor<?x4x?x32xf32>
!lse = tensor<?x4x?xf32>

// CHECK-LABEL: func @two
// CHECK: %{{[0-9a-z]+}}:2 = attn.merge ins(%{{[0-9a-z]+}}, %{{[0-9a-z]+}} : tensor<?x4x?x32xbf16>, tensor<?x4x?x32xf32>)
// CHECK-SAME: lses(%{{[0-9a-z]+}}, %{{[0-9a-z]+}} : tensor<?x4x?xf32>, tensor<?x4x?xf32>)
// CHECK-SAME: outs(%{{[0-9a-z]+}}, %{{[0-9a-z]+}} : tensor<?x4x?x32xbf16>, tensor<?x4x?xf32>)
// CHECK-SAME: -> tensor<?x4x?x32xbf16>, tensor<?x4x?xf32>
func.func @two(%o: !out, %p: !wide, %l: !lse) -> (!out, !lse) {
  %r:2 = attn.merge ins(%o, %p : !out, !wide) lses(%l, %l : !lse, !lse) outs(%o, %l : !out, !lse) -> !out, !lse
  return %r#0, %r#1 : !out, !lse
}

// CHECK-LABEL: func @without_lse
// CHECK: outs(%{{[0-9a-z]+}} : tensor<?x4x?x32xf32>) -> tensor<?x4x?x32xf32>
func.func @without_lse(%o: !out, %p: !wide, %l: !lse) -> !wide {
  %r = attn.merge ins(%o : !out) lses(%l : !lse) outs(%p : !wide) -> !wide
  return %r : !wide
}

// CHECK-LABEL: func @on_memrefs
// CHECK: attn.merge
// CHECK-SAME: schedule(#attn_tile.move_rows<chunks = 1024, threads = 1>)
// CHECK-NOT: ->
func.func @on_memrefs(%o: memref<1x2x9x8xf16>, %l: memref<1x2x9xf32>) {
  attn.merge ins(%o, %o : memref<1x2x9x8xf16>, memref<1x2x9x8xf16>) lses(%l, %l : memref<1x2x9xf32>, memref<1x2x9xf32>)
      outs(%o, %l : memref<1x2x9x8xf16>, memref<1x2x9xf32>)
      schedule(#attn_tile.move_rows<chunks = 1024, threads = 1>)
  return
}

// CHECK-LABEL: func @gradient
// CHECK: %{{[0-9a-z]+}}:4 = attn.merge_grad ins(%{{[0-9a-z]+}}, %{{[0-9a-z]+}} : tensor<?x4x?x32xbf16>, tensor<?x4x?x32xbf16>)
// CHECK-SAME: lses(%{{[0-9a-z]+}}, %{{[0-9a-z]+}} : tensor<?x4x?xf32>, tensor<?x4x?xf32>)
// CHECK-SAME: dout(%{{[0-9a-z]+}} : tensor<?x4x?x32xbf16>) dlse(%{{[0-9a-z]+}} : tensor<?x4x?xf32>)
// CHECK-SAME: outs(%{{[0-9a-z]+}}, %{{[0-9a-z]+}} : tensor<?x4x?x32xbf16>, tensor<?x4x?x32xf32>)
// CHECK-SAME: dlses(%{{[0-9a-z]+}}, %{{[0-9a-z]+}} : tensor<?x4x?xf32>, tensor<?x4x?xf32>)
func.func @gradient(%o: !out, %p: !wide, %l: !lse) -> (!out, !lse) {
  %r:4 = attn.merge_grad ins(%o, %o : !out, !out) lses(%l, %l : !lse, !lse) dout(%o : !out) dlse(%l : !lse)
      outs(%o, %p : !out, !wide) dlses(%l, %l : !lse, !lse) -> !out, !wide, !lse, !lse
  return %r#0, %r#3 : !out, !lse
}

// CHECK-LABEL: func @gradient_of_out
// CHECK: dout(%{{[0-9a-z]+}} : tensor<?x4x?x32xbf16>) outs(
func.func @gradient_of_out(%o: !out, %l: !lse) -> !out {
  %r:2 = attn.merge_grad ins(%o : !out) lses(%l : !lse) dout(%o : !out) outs(%o : !out) dlses(%l : !lse) -> !out, !lse
  return %r#0 : !out
}
