// The report has the schedule of linear attention and the time of its kernels.

// RUN: attn-opt %s --attn-choose-schedule=target=sm_90a --attn-explain="dynamic-size=8192 dynamic-batch=4" -o /dev/null 2>&1 | FileCheck %s
// RUN: attn-opt %s --attn-choose-schedule=target=sm_90a --attn-explain="dynamic-size=1 dynamic-batch=64" -o /dev/null \
// RUN:   2>&1 | FileCheck %s --check-prefix=FEW
// RUN: attn-opt %s --attn-choose-schedule=target=sm_90a -o /dev/null \
// RUN:   --attn-explain="format=json dynamic-size=8192 dynamic-batch=1" 2>&1 | FileCheck %s --check-prefix=JSON

// CHECK-LABEL: @linear
// CHECK: attn.linear_attention
// CHECK-NEXT: schedule #attn_tile.by_work_items<{{.*}}, estimated {{[0-9]+}} us
// FEW-LABEL: @linear
// FEW: schedule #attn_tile.linear_recurrent<value_tile = 32>, estimated {{[0-9]+}} us
// JSON: "name": "linear"
// JSON: "name": "states"
// JSON: "name": "starts"
// JSON: "name": "outputs"
func.func @linear(%q: tensor<?x16x?x128xbf16>) -> tensor<?x16x?x128xbf16> {
  %0 = attn.linear_attention
      ins(%q, %q, %q : tensor<?x16x?x128xbf16>, tensor<?x16x?x128xbf16>, tensor<?x16x?x128xbf16>)
      outs(%q : tensor<?x16x?x128xbf16>) causal -> tensor<?x16x?x128xbf16>
  return %0 : tensor<?x16x?x128xbf16>
}

// CHECK-LABEL: @gradient
// CHECK: attn.linear_attention_grad
// CHECK-NEXT: schedule #attn_tile.linear_pairs<{{.*}}, estimated {{[0-9]+}} us
// JSON: "name": "gradient"
// JSON: "name": "log-decays"
// JSON: "name": "pairs"
// JSON: "name": "transitions"
// JSON: "name": "kept states"
// JSON: "name": "gradients of states"
// JSON: "name": "gradients"
func.func @gradient(%q: tensor<?x16x?x64xbf16>, %g: tensor<?x16x?xf32>, %b: tensor<?x16x?xf32>)
    -> (tensor<?x16x?x64xbf16>, tensor<?x16x?x64xbf16>, tensor<?x16x?x64xbf16>) {
  %0:3 = attn.linear_attention_grad
      ins(%q, %q, %q, %q : tensor<?x16x?x64xbf16>, tensor<?x16x?x64xbf16>, tensor<?x16x?x64xbf16>, tensor<?x16x?x64xbf16>)
      outs(%q, %q, %q : tensor<?x16x?x64xbf16>, tensor<?x16x?x64xbf16>, tensor<?x16x?x64xbf16>)
      log_decay(%g : tensor<?x16x?xf32>) beta(%b : tensor<?x16x?xf32>) causal
      -> tensor<?x16x?x64xbf16>, tensor<?x16x?x64xbf16>, tensor<?x16x?x64xbf16>
  return %0#0, %0#1, %0#2 : tensor<?x16x?x64xbf16>, tensor<?x16x?x64xbf16>, tensor<?x16x?x64xbf16>
}
