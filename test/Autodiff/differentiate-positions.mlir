// RUN: attn-opt %s --attn-differentiate=function=shard | FileCheck %s

// The gradient of a shard is at the same positions.
// CHECK-LABEL: func.func {{.*}}@shard_bwd(
// CHECK-SAME:    %[[P:[a-z0-9]+]]: tensor<6xi32>
// CHECK:         attn.attention_grad
// CHECK-SAME:    positions(%[[P]] : tensor<6xi32>) mask(#attn.causal)
func.func @shard(%q: tensor<?x4x?x16xf32>, %p: tensor<6xi32>) -> tensor<?x4x?x16xf32> {
  %0 = attn.attention
      ins(%q, %q, %q : tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>)
      outs(%q : tensor<?x4x?x16xf32>) positions(%p : tensor<6xi32>) mask(#attn.causal)
      -> tensor<?x4x?x16xf32>
  return %0 : tensor<?x4x?x16xf32>
}
