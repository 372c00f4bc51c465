// RUN: attn-compile %s -o - --emit=mlir --target=sm_90a | FileCheck %s
// RUN: attn-compile %s -o - --emit=mlir --target=sm_80 | FileCheck %s

// Lengths below that of a tile are known: of one query, how many rows exist.

// CHECK-LABEL: llvm.func @attn_call_grad(
func.func @grad(%q: tensor<2x4x1x64xbf16>, %k: tensor<2x2x128x64xbf16>, %out: tensor<2x4x1x64xbf16>, %lse: tensor<2x4x1xf32>,
                %dout: tensor<2x4x1x64xbf16>) -> (tensor<2x4x1x64xbf16>, tensor<2x2x128x64xbf16>, tensor<2x2x128x64xbf16>) {
  %dq = tensor.empty() : tensor<2x4x1x64xbf16>
  %dk = tensor.empty() : tensor<2x2x128x64xbf16>
  %dv = tensor.empty() : tensor<2x2x128x64xbf16>
  %r:3 = attn.attention_grad ins(%q, %k, %k, %out, %lse, %dout : tensor<2x4x1x64xbf16>, tensor<2x2x128x64xbf16>,
          tensor<2x2x128x64xbf16>, tensor<2x4x1x64xbf16>, tensor<2x4x1xf32>, tensor<2x4x1x64xbf16>)
      outs(%dq, %dk, %dv : tensor<2x4x1x64xbf16>, tensor<2x2x128x64xbf16>, tensor<2x2x128x64xbf16>)
      -> tensor<2x4x1x64xbf16>, tensor<2x2x128x64xbf16>, tensor<2x2x128x64xbf16>
  return %r#0, %r#1, %r#2 : tensor<2x4x1x64xbf16>, tensor<2x2x128x64xbf16>, tensor<2x2x128x64xbf16>
}
