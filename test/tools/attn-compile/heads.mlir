// RUN: attn-compile %s --target=sm_90a --emit=mlir --stop-after=bufferize -o - | FileCheck %s
// RUN: attn-compile %s --target=sm_90a --emit=mlir --stop-after=kernel -o - | FileCheck %s --check-prefix=KERNEL
// RUN: attn-compile %s --target=sm_80 --emit=obj -o %t.o --ptx-version=80 --embed-ptx
// RUN: attn-compile %s --emit=obj -o %t.o

// Heads are read from and written to where they lie within the rows of
// the arguments: nothing is copied.

// CHECK-LABEL: func.func @attention(
// CHECK-SAME:    %[[Q:.*]]: memref<?x?x512xbf16, {{.*}}> {attn.alignment = 16 : i32, attn.dims = array<i64: -1, -2, 512>, attn.name = "q"
// CHECK-SAME:    memref<?x?x512xbf16, {{.*}}> {attn.alignment = 16 : i32, attn.dims = array<i64: -1, -3, 512>
// CHECK-SAME:    %[[O:[^:]*]]: memref<?x?x512xbf16, {{.*}}> {attn.alignment = 16 : i32, attn.dims = array<i64: -1, -2, 512>, attn.name = "out", attn.output
// CHECK-NOT:     memref.alloc
// CHECK-NOT:     linalg.
// CHECK:         attn.attention
// CHECK-NOT:     linalg.
// CHECK:         return
// KERNEL-NOT:    memref.alloc
// KERNEL:        attn_tile.launch
func.func @attention(%q: tensor<?x?x512xbf16>, %k: tensor<?x?x512xbf16>, %v: tensor<?x?x512xbf16>) -> tensor<?x?x512xbf16> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %q, %c0 : tensor<?x?x512xbf16>
  %n = tensor.dim %q, %c1 : tensor<?x?x512xbf16>
  %m = tensor.dim %k, %c1 : tensor<?x?x512xbf16>
  %q1 = tensor.expand_shape %q [[0], [1], [2, 3]] output_shape [%b, %n, 4, 128] : tensor<?x?x512xbf16> into tensor<?x?x4x128xbf16>
  %k1 = tensor.expand_shape %k [[0], [1], [2, 3]] output_shape [%b, %m, 4, 128] : tensor<?x?x512xbf16> into tensor<?x?x4x128xbf16>
  %v1 = tensor.expand_shape %v [[0], [1], [2, 3]] output_shape [%b, %m, 4, 128] : tensor<?x?x512xbf16> into tensor<?x?x4x128xbf16>
  %qe = tensor.empty(%b, %n) : tensor<?x4x?x128xbf16>
  %ke = tensor.empty(%b, %m) : tensor<?x4x?x128xbf16>
  %qt = linalg.transpose ins(%q1 : tensor<?x?x4x128xbf16>) outs(%qe : tensor<?x4x?x128xbf16>) permutation = [0, 2, 1, 3]
  %kt = linalg.transpose ins(%k1 : tensor<?x?x4x128xbf16>) outs(%ke : tensor<?x4x?x128xbf16>) permutation = [0, 2, 1, 3]
  %vt = linalg.transpose ins(%v1 : tensor<?x?x4x128xbf16>) outs(%ke : tensor<?x4x?x128xbf16>) permutation = [0, 2, 1, 3]
  %a = attn.attention ins(%qt, %kt, %vt : tensor<?x4x?x128xbf16>, tensor<?x4x?x128xbf16>, tensor<?x4x?x128xbf16>)
      outs(%qe : tensor<?x4x?x128xbf16>) mask(#attn.causal) -> tensor<?x4x?x128xbf16>
  %oe = tensor.empty(%b, %n) : tensor<?x?x4x128xbf16>
  %o = linalg.transpose ins(%a : tensor<?x4x?x128xbf16>) outs(%oe : tensor<?x?x4x128xbf16>) permutation = [0, 2, 1, 3]
  %r = tensor.collapse_shape %o [[0], [1], [2, 3]] : tensor<?x?x4x128xbf16> into tensor<?x?x512xbf16>
  return %r : tensor<?x?x512xbf16>
}
