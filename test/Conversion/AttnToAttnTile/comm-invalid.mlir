// RUN: attn-opt %s --convert-attn-to-attn-tile=target=sm_90a --verify-diagnostics
// RUN: attn-opt %s --convert-attn-to-attn-tile=target=host | FileCheck %s

// CHECK: attn.comm.all_gather
func.func @on_a_device(%a: memref<6xf32>, %b: memref<3x6xf32>) {
  // expected-error @below {{'attn.comm.all_gather' op needs the target 'host' (was 'sm_90a')}}
  attn.comm.all_gather ins(%a : memref<6xf32>) outs(%b : memref<3x6xf32>)
  return
}
