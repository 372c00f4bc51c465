// RUN: attn-opt %s --verify-roundtrip | FileCheck %s
// RUN: attn-opt %s --mlir-print-op-generic | attn-opt | FileCheck %s

// CHECK-LABEL: func @tensors
// CHECK: %{{.*}} = attn.attention ins(%{{.*}}, %{{.*}}, %{{.*}} : tensor<?x8x?x64xbf16>, tensor<?x2x?x64xbf16>, tensor<?x2x?x64xbf16>) outs(%{{.*}} : tensor<?x8x?x64xbf16>) -> tensor<?x8x?x64xbf16>
func.func @tensors(%q: tensor<?x8x?x64xbf16>, %k: tensor<?x2x?x64xbf16>,
                   %v: tensor<?x2x?x64xbf16>,
                   %out: tensor<?x8x?x64xbf16>) -> tensor<?x8x?x64xbf16> {
  %0 = attn.attention
      ins(%q, %k, %v : tensor<?x8x?x64xbf16>, tensor<?x2x?x64xbf16>,
          tensor<?x2x?x64xbf16>)
      outs(%out : tensor<?x8x?x64xbf16>) -> tensor<?x8x?x64xbf16>
  return %0 : tensor<?x8x?x64xbf16>
}
