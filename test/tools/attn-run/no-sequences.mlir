// A batch without entries has no work items.

// REQUIRES: host-cc
// RUN: attn-run %s --target=host --check --shape=query=0x2x40x16 --shape=key=0x2x50x16 | FileCheck %s
// CHECK:      check against the f64 reference
// CHECK:      out {{.*}} ok

func.func @f(%query: tensor<?x2x?x16xf32>, %key: tensor<?x2x?x16xf32>, %value: tensor<?x2x?x16xf32>,
             %out: tensor<?x2x?x16xf32>, %lengths: tensor<?xi32>, %key_lengths: tensor<?xi32>)
    -> tensor<?x2x?x16xf32> {
  %0 = attn.attention
      ins(%query, %key, %value : tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>)
      outs(%out : tensor<?x2x?x16xf32>) sequences padded(%lengths, %key_lengths : tensor<?xi32>, tensor<?xi32>)
      mask(#attn.causal) -> tensor<?x2x?x16xf32>
  return %0 : tensor<?x2x?x16xf32>
}
