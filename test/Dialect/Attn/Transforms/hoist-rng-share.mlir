// RUN: attn-opt %s --attn-hoist-rng="alternative=fused max-matmuls=2" | FileCheck %s

// Two matmuls share the keep mask of eight heads. The second one takes three
// times as long.

// CHECK-LABEL: func.func @share(
// CHECK:         %[[MASK:.*]] = tensor.empty() : tensor<1x8x1024x128xi32>
// CHECK:         %[[FIRST:.*]] = tensor.extract_slice %[[MASK]][0, 0, 0, 0] [1, 2, 1024, 128] [1, 1, 1, 1]
// CHECK-NEXT:    %[[A:.*]]:2 = attn.overlap by fused {
// CHECK:           attn.dropout_mask rows {{.*}} outs(%[[FIRST]] : tensor<1x2x1024x128xi32>) ->
// CHECK:         %[[HALF:.*]] = tensor.insert_slice %[[A]]#1 into %[[MASK]][0, 0, 0, 0] [1, 2, 1024, 128] [1, 1, 1, 1]
// CHECK:         %[[SECOND:.*]] = tensor.extract_slice %[[HALF]][0, 2, 0, 0] [1, 6, 1024, 128] [1, 1, 1, 1]
// CHECK-NEXT:    %[[B:.*]]:2 = attn.overlap by fused {
// CHECK:           attn.dropout_mask rows {{.*}} outs(%[[SECOND]] : tensor<1x6x1024x128xi32>) from_head(2) ->
// CHECK:         %[[WHOLE:.*]] = tensor.insert_slice %[[B]]#1 into %[[HALF]][0, 2, 0, 0] [1, 6, 1024, 128] [1, 1, 1, 1]
// CHECK:         attn.attention {{.*}} dropout_mask rows(%[[WHOLE]] : tensor<1x8x1024x128xi32>)
func.func @share(%x: tensor<8192x8192xbf16>, %w: tensor<8192x8192xbf16>, %v: tensor<8192x24576xbf16>,
                 %q: tensor<1x8x2048x128xbf16>, %seed: i64) -> (tensor<8192x24576xbf16>, tensor<1x8x2048x128xbf16>) {
  %e = tensor.empty() : tensor<8192x8192xbf16>
  %0 = attn.matmul ins(%x, %w : tensor<8192x8192xbf16>, tensor<8192x8192xbf16>)
      outs(%e : tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16>
  %f = tensor.empty() : tensor<8192x24576xbf16>
  %1 = attn.matmul ins(%0, %v : tensor<8192x8192xbf16>, tensor<8192x24576xbf16>)
      outs(%f : tensor<8192x24576xbf16>) -> tensor<8192x24576xbf16>
  %o = tensor.empty() : tensor<1x8x2048x128xbf16>
  %r = attn.attention
      ins(%q, %q, %q : tensor<1x8x2048x128xbf16>, tensor<1x8x2048x128xbf16>, tensor<1x8x2048x128xbf16>)
      outs(%o : tensor<1x8x2048x128xbf16>)
      dropout(#attn.dropout<p = 0.125, rng = #attn.arx>, %seed, %seed : i64, i64) -> tensor<1x8x2048x128xbf16>
  return %1, %r : tensor<8192x24576xbf16>, tensor<1x8x2048x128xbf16>
}
