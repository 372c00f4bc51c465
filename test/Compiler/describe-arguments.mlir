// RUN: attn-opt %s --attn-describe-arguments=staged-alignment=16 | FileCheck %s

// Sizes that attention needs to be equal have one number; a bias has numbers of
// its own. Blocks of query, key, value and out are copied, rows of lse are not.

// CHECK-LABEL: func.func @symbols(
// CHECK-SAME:    {attn.alignment = 16 : i32, attn.dims = array<i64: -1, 4, -2, 64>, attn.name = "q"}
// CHECK-SAME:    {attn.alignment = 16 : i32, attn.dims = array<i64: -1, 2, -3, 64>, attn.name = "k"}
// CHECK-SAME:    {attn.alignment = 16 : i32, attn.dims = array<i64: -1, 2, -3, 64>, attn.name = "v"}
// CHECK-SAME:    {attn.alignment = 4 : i32, attn.dims = array<i64: -4, 16>, attn.name = "slopes"}
// CHECK-SAME:    {attn.alignment = 16 : i32, attn.dims = array<i64: -1, 4, -2, 64>, attn.name = "out", attn.output}
// CHECK-SAME:    {attn.alignment = 4 : i32, attn.dims = array<i64: -1, 4, -2>, attn.name = "lse", attn.output}
// CHECK-SAME:    attributes {attn.symbols = ["batch", "queries", "keys", "size3"]}
func.func @symbols(%q: memref<?x4x?x64xf16>, %k: memref<?x2x?x64xf16>, %v: memref<?x2x?x64xf16>,
                   %s: memref<?x16xf32> {attn.name = "slopes"}, %o: memref<?x4x?x64xf16>,
                   %l: memref<?x4x?xf32>) {
  attn.attention ins(%q, %k, %v : memref<?x4x?x64xf16>, memref<?x2x?x64xf16>, memref<?x2x?x64xf16>)
      outs(%o, %l : memref<?x4x?x64xf16>, memref<?x4x?xf32>)
  return
}

// A size that must equal a static one is static.

// CHECK-LABEL: func.func @static(
// CHECK-SAME:    attn.dims = array<i64: 2, 4, -1, 64>
// CHECK-SAME:    attn.dims = array<i64: 2, 4, -2, 64>
// CHECK-SAME:    attn.dims = array<i64: 2, 4, -2, 64>
// CHECK-SAME:    attn.dims = array<i64: 2, 4, -1, 64>
func.func @static(%q: memref<2x4x?x64xf16>, %k: memref<?x4x?x64xf16>, %v: memref<?x4x?x64xf16>,
                  %o: memref<2x4x?x64xf16>) {
  attn.attention ins(%q, %k, %v : memref<2x4x?x64xf16>, memref<?x4x?x64xf16>, memref<?x4x?x64xf16>)
      outs(%o : memref<2x4x?x64xf16>)
  return
}

// The count of operations: 2 * 4 * (64 + 64) for each attended pair and batch;
// under a mask pairs are counted row by row.

// CHECK-LABEL: llvm.func @attn_flops_causal(
// CHECK:         scf.for
// CHECK:         %[[PER_PAIR:.*]] = arith.constant 1024 : index
// CHECK:         arith.muli %{{.*}}, %[[PER_PAIR]]
func.func @causal(%q: memref<2x4x?x64xf16>, %k: memref<2x4x?x64xf16>, %v: memref<2x4x?x64xf16>,
                  %o: memref<2x4x?x64xf16>) {
  attn.attention ins(%q, %k, %v : memref<2x4x?x64xf16>, memref<2x4x?x64xf16>, memref<2x4x?x64xf16>)
      outs(%o : memref<2x4x?x64xf16>) mask(#attn.causal)
  return
}

// Other functions that write an argument.

// CHECK-LABEL: func.func @copy(
// CHECK-SAME:    attn.name = "arg0"},
// CHECK-SAME:    attn.name = "arg1", attn.output}
// CHECK-NOT:   attn_flops_copy
func.func @copy(%a: memref<?xi32>, %b: memref<?xi32>) {
  memref.copy %a, %b : memref<?xi32> to memref<?xi32>
  return
}
