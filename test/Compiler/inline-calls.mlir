// Calls are inlined before attention is found and schedules are chosen, on all
// targets; functions that are not called from outside leave nothing behind.

// RUN: attn-opt %s --attn-raising-pipeline | FileCheck %s
// RUN: attn-opt %s --attn-schedule-pipeline=target=host | FileCheck %s
// RUN: attn-compile %s --target=host -o %t.host.o
// RUN: attn-compile %s --target=sm_90a -o %t.sm_90a.o --embed-ptx
// RUN: attn-compile %s --target=sm_80 -o %t.sm_80.o --embed-ptx

// CHECK-NOT: func.func private
// CHECK-LABEL: func.func @layers(
// CHECK-NOT: call
// CHECK-COUNT-2: attn.attention
// CHECK-NOT: call
// CHECK: return
func.func private @heads(%x: tensor<1x4x?x64xbf16>) -> tensor<1x4x?x64xbf16> {
  %two = arith.constant 2 : index
  %n = tensor.dim %x, %two : tensor<1x4x?x64xbf16>
  %e = tensor.empty(%n) : tensor<1x4x?x64xbf16>
  %a = attn.attention
      ins(%x, %x, %x : tensor<1x4x?x64xbf16>, tensor<1x4x?x64xbf16>, tensor<1x4x?x64xbf16>)
      outs(%e : tensor<1x4x?x64xbf16>) mask(#attn.causal) -> tensor<1x4x?x64xbf16>
  return %a : tensor<1x4x?x64xbf16>
}
func.func private @layer(%x: tensor<1x4x?x64xbf16>) -> tensor<1x4x?x64xbf16> {
  %r = func.call @heads(%x) : (tensor<1x4x?x64xbf16>) -> tensor<1x4x?x64xbf16>
  return %r : tensor<1x4x?x64xbf16>
}
func.func private @unused(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.exp ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
func.func @layers(%x: tensor<1x4x?x64xbf16>) -> tensor<1x4x?x64xbf16> {
  %a = func.call @layer(%x) : (tensor<1x4x?x64xbf16>) -> tensor<1x4x?x64xbf16>
  %b = func.call @layer(%a) : (tensor<1x4x?x64xbf16>) -> tensor<1x4x?x64xbf16>
  return %b : tensor<1x4x?x64xbf16>
}
