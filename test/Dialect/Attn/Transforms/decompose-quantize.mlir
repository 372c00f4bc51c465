// RUN: attn-opt %s --attn-decompose-quantize --split-input-file | FileCheck %s

// The largest absolute values of chunks of 64 rows, then of the heads, and their scales.
// CHECK-LABEL: func @heads
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<?x4x?x128xbf16> {attn.name = "x"}
// CHECK-SAME: %[[OUT:[a-z0-9]+]]: tensor<?x4x?x128xf8E4M3FN> {attn.equal_sizes = array<i64: 0, 0, 0, 1, 0, 1, 2, 0, 2, 3, 0, 3>, attn.name = "out"}
// CHECK-SAME: %[[S:[a-z0-9]+]]: tensor<?x4xf32> {attn.equal_sizes = array<i64: 0, 0, 0, 1, 0, 1>, attn.name = "scale"}
// CHECK: %[[CHUNK:.*]] = tensor.empty() : tensor<64x128xf32>
// CHECK: %[[MAXIMA:.*]] = linalg.generic {{.*}}"reduction", "reduction"]} ins(%[[CHUNK]] : tensor<64x128xf32>) outs({{.*}} : tensor<?x4x?xf32>)
// CHECK: %[[ROW:.*]] = arith.minsi
// CHECK: %[[E:.*]] = tensor.extract %[[X]][%{{.*}}, %{{.*}}, %[[ROW]], %{{.*}}]
// CHECK: %[[W:.*]] = arith.extf %[[E]] : bf16 to f32
// CHECK: %[[A:.*]] = math.absf %[[W]]
// CHECK: %[[F:.*]] = arith.cmpf olt, %[[A]], %{{.*}}
// CHECK: %[[C:.*]] = arith.select %[[F]], %[[A]], %{{.*}}
// CHECK: arith.maxnumf %{{.*}}, %[[C]]
// CHECK: %[[AMAX:.*]] = linalg.generic {{.*}} ins(%[[MAXIMA]] : tensor<?x4x?xf32>) outs({{.*}} : tensor<?x4xf32>)
// CHECK: arith.maxnumf
// CHECK: %[[LARGEST:.*]] = arith.constant 4.480000e+02 : f32
// CHECK: %[[SMALLEST:.*]] = arith.constant 1.17549435E-38 : f32
// CHECK: %[[SCALE:.*]] = linalg.generic {{.*}} ins(%[[AMAX]] : tensor<?x4xf32>) outs(%[[S]] : tensor<?x4xf32>)
// CHECK: %[[Q:.*]] = arith.divf %{{.*}}, %[[LARGEST]]
// CHECK: %[[M:.*]] = arith.maxnumf %[[Q]], %[[SMALLEST]]
// CHECK: arith.select %{{.*}}, %{{.*}}, %[[M]]
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[SCALE]] : tensor<?x4x?x128xbf16>, tensor<?x4xf32>) outs(%[[OUT]] : tensor<?x4x?x128xf8E4M3FN>)
// CHECK: %[[X:.*]] = arith.divf
// CHECK-NEXT: %[[MOST:.*]] = arith.constant 4.480000e+02 : f32
// CHECK-NEXT: %[[BELOW:.*]] = arith.minimumf %[[X]], %[[MOST]]
// CHECK-NEXT: %[[LEAST:.*]] = arith.constant -4.480000e+02 : f32
// CHECK-NEXT: %[[KEPT:.*]] = arith.maximumf %[[BELOW]], %[[LEAST]]
// CHECK-NEXT: arith.truncf %[[KEPT]] : f32 to f8E4M3FN
// CHECK: return %[[R]], %[[SCALE]]
func.func @heads(%x: tensor<?x4x?x128xbf16>, %out: tensor<?x4x?x128xf8E4M3FN>, %scale: tensor<?x4xf32>)
    -> (tensor<?x4x?x128xf8E4M3FN>, tensor<?x4xf32>) {
  %0:2 = attn.quantize ins(%x : tensor<?x4x?x128xbf16>) outs(%out : tensor<?x4x?x128xf8E4M3FN>)
      scale(%scale : tensor<?x4xf32>) saturate -> tensor<?x4x?x128xf8E4M3FN>, tensor<?x4xf32>
  return %0#0, %0#1 : tensor<?x4x?x128xf8E4M3FN>, tensor<?x4xf32>
}

// -----

// A given scale needs no pass before the rounding. Rows of 512 elements would be in chunks of 16.
// CHECK-LABEL: func @given_scale
// CHECK-NOT: "reduction"
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<?x512xf32>, tensor<f32>)
// CHECK: arith.divf
// CHECK-NEXT: arith.truncf %{{.*}} : f32 to f8E5M2
// CHECK-NOT: linalg.generic
func.func @given_scale(%x: tensor<?x512xf32>, %scale: tensor<f32>, %out: tensor<?x512xf8E5M2>)
    -> tensor<?x512xf8E5M2> {
  %0 = attn.quantize ins(%x : tensor<?x512xf32>) given_scale(%scale : tensor<f32>) outs(%out : tensor<?x512xf8E5M2>)
      -> tensor<?x512xf8E5M2>
  return %0 : tensor<?x512xf8E5M2>
}

// -----

// The amax of a tensor: of chunks, of batch entries, and of all of them. The rounding does not wait for it.
// CHECK-LABEL: func @amax
// CHECK: linalg.generic {{.*}}["parallel", "parallel", "parallel"]{{.*}} outs(%{{.*}} : tensor<3x100x512xf8E5M2>)
// CHECK: tensor.empty() : tensor<16x512xf32>
// CHECK: linalg.generic {{.*}}["parallel", "parallel", "reduction", "reduction"]{{.*}} outs(%{{.*}} : tensor<3x7xf32>)
// CHECK: linalg.generic {{.*}}["parallel", "reduction"]{{.*}} outs(%{{.*}} : tensor<3xf32>)
// CHECK: linalg.generic {{.*}}["reduction"]{{.*}} outs(%{{.*}} : tensor<f32>)
// CHECK-NOT: linalg.generic
func.func @amax(%x: tensor<3x100x512xf32>, %scale: tensor<f32>, %out: tensor<3x100x512xf8E5M2>, %amax: tensor<f32>)
    -> (tensor<3x100x512xf8E5M2>, tensor<f32>) {
  %0:2 = attn.quantize ins(%x : tensor<3x100x512xf32>) given_scale(%scale : tensor<f32>)
      outs(%out : tensor<3x100x512xf8E5M2>) amax(%amax : tensor<f32>) -> tensor<3x100x512xf8E5M2>, tensor<f32>
  return %0#0, %0#1 : tensor<3x100x512xf8E5M2>, tensor<f32>
}

// -----

// A rotation is a matmul whose result is f32. Scales of blocks are found by the row, and are never read beyond the last.
// CHECK-LABEL: func @rotated_blocks
// CHECK: %[[H:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<16xf32>) outs(%{{.*}} : tensor<16x16xf16>)
// CHECK: math.ctpop
// CHECK: arith.negf
// CHECK: %[[ROWS:.*]] = tensor.collapse_shape %{{.*}} {{\[\[}}0, 1], [2], [3]]
// CHECK: %[[P:.*]] = attn.matmul ins(%[[ROWS]], %[[H]] : tensor<?x?x16xf16>, tensor<16x16xf16>) outs(%{{.*}} : tensor<?x?x16xf32>) epilogue
// CHECK: %[[F:.*]] = arith.constant 2.500000e-01 : f32
// CHECK: arith.mulf %{{.*}}, %[[F]]
// CHECK: %[[R:.*]] = tensor.expand_shape %[[P]]
// CHECK: tensor.extract %[[R]]
// CHECK: %[[SCALE:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<?x2x?xf32>)
// CHECK: %[[BLOCKS:.*]] = tensor.dim %[[SCALE]]
// CHECK: %[[LEAST:.*]] = arith.maxui %[[BLOCKS]]
// CHECK: %[[LAST:.*]] = arith.subi %[[LEAST]]
// CHECK: linalg.generic {{.*}} ins(%[[R]] : tensor<?x2x?x16xf32>)
// CHECK: %[[ROW:.*]] = linalg.index 2
// CHECK: %[[BLOCK:.*]] = arith.divui %[[ROW]]
// CHECK: %[[AT:.*]] = arith.minui %[[BLOCK]], %[[LAST]]
// CHECK: tensor.extract %[[SCALE]][%{{.*}}, %{{.*}}, %[[AT]]]
func.func @rotated_blocks(%x: tensor<?x2x?x16xf16>, %signs: tensor<16xf32>, %out: tensor<?x2x?x16xf8E4M3FN>,
                          %scale: tensor<?x2x?xf32>) -> (tensor<?x2x?x16xf8E4M3FN>, tensor<?x2x?xf32>) {
  %0:2 = attn.quantize ins(%x : tensor<?x2x?x16xf16>) rotate(%signs : tensor<16xf32>)
      outs(%out : tensor<?x2x?x16xf8E4M3FN>) scale(%scale : tensor<?x2x?xf32>) block_size(128)
      -> tensor<?x2x?x16xf8E4M3FN>, tensor<?x2x?xf32>
  return %0#0, %0#1 : tensor<?x2x?x16xf8E4M3FN>, tensor<?x2x?xf32>
}

// -----

// CHECK-LABEL: func @memrefs
// CHECK-SAME: %[[X:[a-z0-9]+]]: memref<4x16xf32> {{.*}}, %[[Q:[a-z0-9]+]]: memref<4x16xf8E5M2> {{.*}}, %[[S:[a-z0-9]+]]: memref<f32>
// CHECK: bufferization.to_tensor %[[X]] restrict
// CHECK: bufferization.materialize_in_destination %{{.*}} in restrict writable %[[Q]]
// CHECK: bufferization.materialize_in_destination %{{.*}} in restrict writable %[[S]]
func.func @memrefs(%x: memref<4x16xf32>, %q: memref<4x16xf8E5M2>, %s: memref<f32>) {
  attn.quantize ins(%x : memref<4x16xf32>) outs(%q : memref<4x16xf8E5M2>) scale(%s : memref<f32>)
  return
}
