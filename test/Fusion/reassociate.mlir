// RUN: attn-opt %s --attn-reassociate=target=sm_90a --canonicalize --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-reassociate=target=sm_90a --split-input-file \
// RUN:   --remarks-filter=attn-reassociate --remark-format=emitRemark 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: not attn-opt %s --attn-reassociate=target=sm_70 --split-input-file 2>&1 | FileCheck %s --check-prefix=TARGET

// TARGET: error: unknown target 'sm_70' (expected host, sm_80 or sm_90a)

// Few queries of many keys: the projection moves behind attention.

// CHECK-LABEL: func.func @few_queries(
// CHECK-SAME:    %[[Q:[^:]*]]: tensor<2x4x64x64xbf16>, %[[K:[^:]*]]: tensor<2x4x8192x64xbf16>, %[[X:[^:]*]]: tensor<8x8192x128xbf16>,
// CHECK-SAME:    %[[W:.*]]: tensor<128x64xbf16>)
// CHECK:         %[[V:.*]] = tensor.expand_shape %[[X]] {{\[}}[0, 1], [2], [3]] output_shape [2, 4, 8192, 128]
// CHECK:         %[[A:.*]] = attn.attention ins(%[[Q]], %[[K]], %[[V]] : {{.*}}) outs(%{{.*}} : tensor<2x4x64x128xbf16>) mask(#attn.causal)
// CHECK:         %[[R:.*]] = tensor.collapse_shape %[[A]] {{\[}}[0, 1], [2], [3]]
// CHECK:         %[[M:.*]] = attn.matmul ins(%[[R]], %[[W]] : tensor<8x64x128xbf16>, tensor<128x64xbf16>) outs(%{{.*}} : tensor<8x64x64xbf16>)
// CHECK:         %[[O:.*]] = tensor.expand_shape %[[M]] {{\[}}[0, 1], [2], [3]]
// CHECK:         return %[[O]]
// REMARK: the matmul moved after attention: it takes {{.*}} us with attention, and {{.*}} us after it
func.func @few_queries(%q: tensor<2x4x64x64xbf16>, %k: tensor<2x4x8192x64xbf16>, %x: tensor<8x8192x128xbf16>, %w: tensor<128x64xbf16>)
    -> tensor<2x4x64x64xbf16> {
  %e = tensor.empty() : tensor<8x8192x64xbf16>
  %f = tensor.empty() : tensor<2x4x64x64xbf16>
  %xw = attn.matmul ins(%x, %w : tensor<8x8192x128xbf16>, tensor<128x64xbf16>) outs(%e : tensor<8x8192x64xbf16>) -> tensor<8x8192x64xbf16>
  %v = tensor.expand_shape %xw [[0, 1], [2], [3]] output_shape [2, 4, 8192, 64] : tensor<8x8192x64xbf16> into tensor<2x4x8192x64xbf16>
  %a = attn.attention ins(%q, %k, %v : tensor<2x4x64x64xbf16>, tensor<2x4x8192x64xbf16>, tensor<2x4x8192x64xbf16>)
      outs(%f : tensor<2x4x64x64xbf16>) mask(#attn.causal) -> tensor<2x4x64x64xbf16>
  return %a : tensor<2x4x64x64xbf16>
}

// -----

// Many queries, of values with a smaller head dim: the matmul stays.

// CHECK-LABEL: func.func @many_queries(
// CHECK:         %[[P:.*]] = attn.matmul
// CHECK:         %[[V:.*]] = tensor.expand_shape %[[P]]
// CHECK:         %[[A:.*]] = attn.attention ins(%{{.*}}, %{{.*}}, %[[V]] : {{.*}}
// CHECK:         return %[[A]]
// REMARK: the matmul stays before attention: it takes {{.*}} us with attention, and {{.*}} us after it
func.func @many_queries(%q: tensor<2x4x8192x64xbf16>, %k: tensor<2x4x8192x64xbf16>, %x: tensor<8x8192x256xbf16>, %w: tensor<8x256x64xbf16>)
    -> tensor<2x4x8192x64xbf16> {
  %e = tensor.empty() : tensor<8x8192x64xbf16>
  %f = tensor.empty() : tensor<2x4x8192x64xbf16>
  %xw = attn.matmul ins(%x, %w : tensor<8x8192x256xbf16>, tensor<8x256x64xbf16>) outs(%e : tensor<8x8192x64xbf16>) -> tensor<8x8192x64xbf16>
  %v = tensor.expand_shape %xw [[0, 1], [2], [3]] output_shape [2, 4, 8192, 64] : tensor<8x8192x64xbf16> into tensor<2x4x8192x64xbf16>
  %a = attn.attention ins(%q, %k, %v : tensor<2x4x8192x64xbf16>, tensor<2x4x8192x64xbf16>, tensor<2x4x8192x64xbf16>)
      outs(%f : tensor<2x4x8192x64xbf16>) -> tensor<2x4x8192x64xbf16>
  return %a : tensor<2x4x8192x64xbf16>
}

// -----

// Values that others need, too; weight matrices of each head, which query heads share;
// a larger head dim than kernels have.

// CHECK-LABEL: func.func @near_misses(
// CHECK-COUNT-3: attn.matmul
// CHECK-COUNT-3: attn.attention
// CHECK-NOT:     attn.matmul
// REMARK: the matmul stays before attention: its result is used elsewhere, too
// REMARK: the matmul stays before attention: query heads share values, whose weights differ
// REMARK: the matmul stays before attention: its input has too many columns
func.func @near_misses(%q: tensor<1x8x16x64xbf16>, %k: tensor<1x4x8192x64xbf16>, %x: tensor<4x8192x64xbf16>, %w: tensor<64x64xbf16>,
    %ws: tensor<4x64x64xbf16>, %y: tensor<4x8192x1024xbf16>, %z: tensor<1024x64xbf16>)
    -> (tensor<1x8x16x64xbf16>, tensor<1x8x16x64xbf16>, tensor<1x8x16x64xbf16>, tensor<1x4x8192x64xbf16>) {
  %e = tensor.empty() : tensor<4x8192x64xbf16>
  %f = tensor.empty() : tensor<1x8x16x64xbf16>
  %0 = attn.matmul ins(%x, %w : tensor<4x8192x64xbf16>, tensor<64x64xbf16>) outs(%e : tensor<4x8192x64xbf16>) -> tensor<4x8192x64xbf16>
  %v0 = tensor.expand_shape %0 [[0, 1], [2], [3]] output_shape [1, 4, 8192, 64] : tensor<4x8192x64xbf16> into tensor<1x4x8192x64xbf16>
  %1 = attn.matmul ins(%x, %ws : tensor<4x8192x64xbf16>, tensor<4x64x64xbf16>) outs(%e : tensor<4x8192x64xbf16>) -> tensor<4x8192x64xbf16>
  %v1 = tensor.expand_shape %1 [[0, 1], [2], [3]] output_shape [1, 4, 8192, 64] : tensor<4x8192x64xbf16> into tensor<1x4x8192x64xbf16>
  %2 = attn.matmul ins(%y, %z : tensor<4x8192x1024xbf16>, tensor<1024x64xbf16>) outs(%e : tensor<4x8192x64xbf16>) -> tensor<4x8192x64xbf16>
  %v2 = tensor.expand_shape %2 [[0, 1], [2], [3]] output_shape [1, 4, 8192, 64] : tensor<4x8192x64xbf16> into tensor<1x4x8192x64xbf16>
  %a = attn.attention ins(%q, %k, %v0 : tensor<1x8x16x64xbf16>, tensor<1x4x8192x64xbf16>, tensor<1x4x8192x64xbf16>)
      outs(%f : tensor<1x8x16x64xbf16>) -> tensor<1x8x16x64xbf16>
  %b = attn.attention ins(%q, %k, %v1 : tensor<1x8x16x64xbf16>, tensor<1x4x8192x64xbf16>, tensor<1x4x8192x64xbf16>)
      outs(%f : tensor<1x8x16x64xbf16>) -> tensor<1x8x16x64xbf16>
  %c = attn.attention ins(%q, %k, %v2 : tensor<1x8x16x64xbf16>, tensor<1x4x8192x64xbf16>, tensor<1x4x8192x64xbf16>)
      outs(%f : tensor<1x8x16x64xbf16>) -> tensor<1x8x16x64xbf16>
  return %a, %b, %c, %v0 : tensor<1x8x16x64xbf16>, tensor<1x8x16x64xbf16>, tensor<1x8x16x64xbf16>, tensor<1x4x8192x64xbf16>
}

// -----

// CHECK-LABEL: func.func @out_of_8_bits(
// CHECK:         %[[P:.*]] = attn.matmul
// CHECK:         %[[V:.*]] = tensor.expand_shape %[[P]]
// CHECK:         attn.attention ins(%{{.*}}, %{{.*}}, %[[V]] : {{.*}}) outs(%{{.*}} : tensor<2x4x64x64xf8E4M3FN>)
// REMARK: the matmul stays before attention: attention rounds its output to 8 bits
func.func @out_of_8_bits(%q: tensor<2x4x64x64xbf16>, %k: tensor<2x4x8192x64xbf16>, %x: tensor<8x8192x128xbf16>,
    %w: tensor<128x64xbf16>) -> tensor<2x4x64x64xf8E4M3FN> {
  %e = tensor.empty() : tensor<8x8192x64xbf16>
  %f = tensor.empty() : tensor<2x4x64x64xf8E4M3FN>
  %xw = attn.matmul ins(%x, %w : tensor<8x8192x128xbf16>, tensor<128x64xbf16>) outs(%e : tensor<8x8192x64xbf16>) -> tensor<8x8192x64xbf16>
  %v = tensor.expand_shape %xw [[0, 1], [2], [3]] output_shape [2, 4, 8192, 64] : tensor<8x8192x64xbf16> into tensor<2x4x8192x64xbf16>
  %a = attn.attention ins(%q, %k, %v : tensor<2x4x64x64xbf16>, tensor<2x4x8192x64xbf16>, tensor<2x4x8192x64xbf16>)
      outs(%f : tensor<2x4x64x64xf8E4M3FN>) -> tensor<2x4x64x64xf8E4M3FN>
  return %a : tensor<2x4x64x64xf8E4M3FN>
}

// -----

// The output of a state has the head dim of the values: the matmul stays.

// CHECK-LABEL: func.func @state(
// CHECK:         %[[P:.*]] = attn.matmul
// CHECK:         %[[V:.*]] = tensor.expand_shape %[[P]]
// CHECK:         attn.attention ins(%{{.*}}, %{{.*}}, %[[V]] : {{.*}}) outs({{.*}}) state(
// REMARK: the matmul stays before attention: attention goes on from a state, which has the head dim of values
func.func @state(%q: tensor<2x4x64x64xbf16>, %k: tensor<2x4x8192x64xbf16>, %x: tensor<8x8192x128xbf16>, %w: tensor<128x64xbf16>,
    %l: tensor<2x4x64xf32>) -> tensor<2x4x64x64xbf16> {
  %e = tensor.empty() : tensor<8x8192x64xbf16>
  %f = tensor.empty() : tensor<2x4x64x64xbf16>
  %xw = attn.matmul ins(%x, %w : tensor<8x8192x128xbf16>, tensor<128x64xbf16>) outs(%e : tensor<8x8192x64xbf16>) -> tensor<8x8192x64xbf16>
  %v = tensor.expand_shape %xw [[0, 1], [2], [3]] output_shape [2, 4, 8192, 64] : tensor<8x8192x64xbf16> into tensor<2x4x8192x64xbf16>
  %a = attn.attention ins(%q, %k, %v : tensor<2x4x64x64xbf16>, tensor<2x4x8192x64xbf16>, tensor<2x4x8192x64xbf16>)
      outs(%f : tensor<2x4x64x64xbf16>) state(%q, %l : tensor<2x4x64x64xbf16>, tensor<2x4x64xf32>) -> tensor<2x4x64x64xbf16>
  return %a : tensor<2x4x64x64xbf16>
}
