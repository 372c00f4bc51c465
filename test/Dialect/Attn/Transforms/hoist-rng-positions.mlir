// RUN: attn-opt %s --attn-hoist-rng=alternative=sequential --split-input-file | FileCheck %s

#dropout = #attn.dropout<p = 0.125, rng = #attn.arx>

// The keep mask of a shard belongs to its positions, so that attention needs none.

// CHECK-LABEL: func.func @shard(
// CHECK-SAME:    %[[P:[a-z0-9]+]]: tensor<6xi32>
// CHECK:         %[[BITS:.*]] = attn.dropout_mask rows
// CHECK-SAME:    positions(%[[P]] : tensor<6xi32>)
// CHECK:         attn.attention
// CHECK-NOT:     positions
// CHECK-NOT:     dropout_only
// CHECK-SAME:    dropout_mask rows(%[[BITS]]
func.func @shard(%q: tensor<1x4x128x64xbf16>, %seed: i64, %p: tensor<6xi32>) -> tensor<1x4x128x64xbf16> {
  %0 = attn.attention ins(%q, %q, %q : tensor<1x4x128x64xbf16>, tensor<1x4x128x64xbf16>, tensor<1x4x128x64xbf16>)
      outs(%q : tensor<1x4x128x64xbf16>) positions(%p : tensor<6xi32>) dropout_only
      dropout(#dropout, %seed, %seed : i64, i64) -> tensor<1x4x128x64xbf16>
  return %0 : tensor<1x4x128x64xbf16>
}

// -----

#dropout = #attn.dropout<p = 0.125, rng = #attn.arx>

// Shards at different positions have different keep masks. Masks and regions still see the positions.

// CHECK-LABEL: func.func @two(
// CHECK-SAME:    %[[P:[a-z0-9]+]]: tensor<6xi32>, %[[R:[a-z0-9]+]]: tensor<6xi32>
// CHECK:         attn.dropout_mask {{.*}} positions(%[[P]] : tensor<6xi32>)
// CHECK:         attn.attention {{.*}} positions(%[[P]] : tensor<6xi32>) mask(#attn.causal) dropout_mask rows(
// CHECK:         attn.dropout_mask {{.*}} positions(%[[R]] : tensor<6xi32>)
// CHECK:         attn.attention {{.*}} positions(%[[R]] : tensor<6xi32>) mask(#attn.causal) dropout_mask rows(
func.func @two(%q: tensor<1x4x128x64xbf16>, %seed: i64, %p: tensor<6xi32>, %r: tensor<6xi32>)
    -> (tensor<1x4x128x64xbf16>, tensor<1x4x128x64xbf16>) {
  %0 = attn.attention ins(%q, %q, %q : tensor<1x4x128x64xbf16>, tensor<1x4x128x64xbf16>, tensor<1x4x128x64xbf16>)
      outs(%q : tensor<1x4x128x64xbf16>) positions(%p : tensor<6xi32>) mask(#attn.causal)
      dropout(#dropout, %seed, %seed : i64, i64) -> tensor<1x4x128x64xbf16>
  %1 = attn.attention ins(%q, %q, %q : tensor<1x4x128x64xbf16>, tensor<1x4x128x64xbf16>, tensor<1x4x128x64xbf16>)
      outs(%q : tensor<1x4x128x64xbf16>) positions(%r : tensor<6xi32>) mask(#attn.causal)
      dropout(#dropout, %seed, %seed : i64, i64) -> tensor<1x4x128x64xbf16>
  return %0, %1 : tensor<1x4x128x64xbf16>, tensor<1x4x128x64xbf16>
}
