// RUN: attn-opt %s --attn-choose-schedule=target=host --attn-explain="target=host dynamic-size=1024 format=json output=-" -o /dev/null | FileCheck %s

// Kernels of the host have a model of their time, in cycles of one core: a step
// takes all that it does one after the other.

module attributes {attn.device = #attn.device<"host", sms = 1, clock_mhz = 3650, registers = 512, l2_bytes = 1048576>} {
  // CHECK-LABEL: "name": "attention"
  // CHECK:      "kernels": [
  // CHECK-NEXT: {
  // CHECK-NEXT:   "name": "attention",
  // CHECK-NEXT:   "consumers": 0,
  // CHECK-NEXT:   "mma": 38300.67
  // CHECK-NEXT:   "chain": 44942.59
  // CHECK-NEXT:   "exponentials": 4230.{{(39|4)}}
  // CHECK-NEXT:   "step": 44942.59
  // CHECK-NEXT:   "mask": 972.{{(79|8)}}
  // CHECK-NEXT:   "work_item": 1315.8
  // CHECK-NEXT:   "launch": 0
  // CHECK-NEXT:   "steps": 544
  // CHECK-NEXT:   "masked_steps": 64
  // CHECK-NEXT:   "work_items": 64
  // CHECK-NEXT:   "memory": 0
  // CHECK-NEXT:   "combine": 0
  // CHECK-NEXT:   "cycles_per_second": 3650000000
  func.func @attention(%q: tensor<1x4x1024x64xf32>, %o: tensor<1x4x1024x64xf32>) -> tensor<1x4x1024x64xf32> {
    %0 = attn.attention ins(%q, %q, %q : tensor<1x4x1024x64xf32>, tensor<1x4x1024x64xf32>, tensor<1x4x1024x64xf32>)
        outs(%o : tensor<1x4x1024x64xf32>) mask(#attn.causal)
        schedule(#attn_tile.sequential<query_tile = 64, key_tile = 64>) -> tensor<1x4x1024x64xf32>
    return %0 : tensor<1x4x1024x64xf32>
  }

  // Three kernels of a gradient.
  // CHECK-LABEL: "name": "gradient"
  // CHECK: "name": "preprocess",
  // CHECK: "name": "dkdv",
  // CHECK: "name": "dq",
  func.func @gradient(%q: tensor<1x4x512x64xf32>, %l: tensor<1x4x512xf32>)
      -> (tensor<1x4x512x64xf32>, tensor<1x4x512x64xf32>, tensor<1x4x512x64xf32>) {
    %0:3 = attn.attention_grad ins(%q, %q, %q, %q, %l, %q : tensor<1x4x512x64xf32>, tensor<1x4x512x64xf32>, tensor<1x4x512x64xf32>,
                                   tensor<1x4x512x64xf32>, tensor<1x4x512xf32>, tensor<1x4x512x64xf32>)
        outs(%q, %q, %q : tensor<1x4x512x64xf32>, tensor<1x4x512x64xf32>, tensor<1x4x512x64xf32>)
        -> tensor<1x4x512x64xf32>, tensor<1x4x512x64xf32>, tensor<1x4x512x64xf32>
    return %0#0, %0#1, %0#2 : tensor<1x4x512x64xf32>, tensor<1x4x512x64xf32>, tensor<1x4x512x64xf32>
  }
}
