// RUN: attn-opt %s --attn-hoist-rng="alternative=sequential" | FileCheck %s --check-prefix=ANY
// RUN: attn-opt %s --attn-hoist-rng="alternative=sequential memory-budget=1000000000" \
// RUN:   --remarks-filter=attn-hoist-rng --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t

// A budget is held whatever the lengths are.

// ANY:        attn.dropout_mask
// CHECK-NOT:  attn.dropout_mask
// CHECK:      dropout(<p = 5.000000e-01
// REMARK:     makes random numbers in the kernel: how many bytes a mask takes is not known, and 1000000000 may be used
func.func @dynamic(%q: tensor<1x2x?x32xf32>, %o: tensor<1x2x?x32xf32>, %seed: i64) -> tensor<1x2x?x32xf32> {
  %r = attn.attention ins(%q, %q, %q : tensor<1x2x?x32xf32>, tensor<1x2x?x32xf32>, tensor<1x2x?x32xf32>)
      outs(%o : tensor<1x2x?x32xf32>)
      dropout(#attn.dropout<p = 0.5, rng = #attn.philox>, %seed, %seed : i64, i64) -> tensor<1x2x?x32xf32>
  return %r : tensor<1x2x?x32xf32>
}
