// RUN: attn-opt %s --attn-fuse=target=sm_90a --canonicalize --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-fuse=target=sm_90a --split-input-file \
// RUN:   --remarks-filter=attn-fuse --remark-format=emitRemark 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: not attn-opt %s --attn-fuse=target=sm_70 --split-input-file 2>&1 | FileCheck %s --check-prefix=TARGET

// TARGET: error: unknown target 'sm_70' (expected host, sm_80 or sm_90a)

// Heads are split from the hidden dimension and merged again.

// CHECK-LABEL: func.func @heads(
// CHECK-SAME:    %[[Q:.*]]: tensor<?x512x768xbf16>, %[[K:[^:]*]]: tensor<?x8x512x96xbf16>
// CHECK:         %[[Q1:.*]] = tensor.expand_shape %[[Q]]
// CHECK:         %[[Q2:.*]] = attn.permute %[[Q1]] [0, 2, 1, 3] : tensor<?x512x8x96xbf16> -> tensor<?x8x512x96xbf16>
// CHECK:         %[[E:.*]] = tensor.empty(%{{.*}}) : tensor<?x512x8x96xbf16>
// CHECK:         %[[O:.*]] = attn.permute %[[E]] [0, 2, 1, 3] : tensor<?x512x8x96xbf16> -> tensor<?x8x512x96xbf16>
// CHECK:         %[[A:.*]] = attn.attention ins(%[[Q2]], %[[K]], %[[K]] : {{.*}}) outs(%[[O]] :
// CHECK:         %[[R:.*]] = attn.permute %[[A]] [0, 2, 1, 3]
// CHECK:         tensor.collapse_shape %[[R]] {{\[}}[0], [1], [2, 3]]
// CHECK-NOT:     linalg.transpose

// REMARK: 'linalg.transpose' became the layout of an operand, saves {{[1-9][0-9.]*}} us
// REMARK: 'linalg.transpose' became the layout of the result, saves {{[1-9][0-9.]*}} us
func.func @heads(%q: tensor<?x512x768xbf16>, %k: tensor<?x8x512x96xbf16>) -> tensor<?x512x768xbf16> {
  %c0 = arith.constant 0 : index
  %b = tensor.dim %q, %c0 : tensor<?x512x768xbf16>
  %q1 = tensor.expand_shape %q [[0], [1], [2, 3]] output_shape [%b, 512, 8, 96] : tensor<?x512x768xbf16> into tensor<?x512x8x96xbf16>
  %e = tensor.empty(%b) : tensor<?x8x512x96xbf16>
  %qt = linalg.transpose ins(%q1 : tensor<?x512x8x96xbf16>) outs(%e : tensor<?x8x512x96xbf16>) permutation = [0, 2, 1, 3]
  %a = attn.attention ins(%qt, %k, %k : tensor<?x8x512x96xbf16>, tensor<?x8x512x96xbf16>, tensor<?x8x512x96xbf16>)
      outs(%e : tensor<?x8x512x96xbf16>) -> tensor<?x8x512x96xbf16>
  %f = tensor.empty(%b) : tensor<?x512x8x96xbf16>
  %o = linalg.transpose ins(%a : tensor<?x8x512x96xbf16>) outs(%f : tensor<?x512x8x96xbf16>) permutation = [0, 2, 1, 3]
  %r = tensor.collapse_shape %o [[0], [1], [2, 3]] : tensor<?x512x8x96xbf16> into tensor<?x512x768xbf16>
  return %r : tensor<?x512x768xbf16>
}

// -----

// A result without the batch, transposed after it is reshaped, by an operation
// without a name.

#in = affine_map<(i, h, d) -> (h, i, d)>
#out = affine_map<(i, h, d) -> (i, h, d)>

// CHECK-LABEL: func.func @reshaped_result(
// CHECK:         %[[E:.*]] = tensor.empty() : tensor<16x4x32xf32>
// CHECK:         %[[O:.*]] = attn.permute %[[E]] [1, 0, 2] : tensor<16x4x32xf32> -> tensor<4x16x32xf32>
// CHECK:         %[[X:.*]] = tensor.expand_shape %[[O]] {{\[}}[0, 1], [2], [3]]
// CHECK:         %[[A:.*]] = attn.attention {{.*}} outs(%[[X]] :
// CHECK:         %[[C:.*]] = tensor.collapse_shape %[[A]]
// CHECK:         %[[R:.*]] = attn.permute %[[C]] [1, 0, 2]
// CHECK:         return %[[R]]
// REMARK: 'linalg.generic' became the layout of the result
func.func @reshaped_result(%q: tensor<1x4x16x32xf32>) -> tensor<16x4x32xf32> {
  %e = tensor.empty() : tensor<1x4x16x32xf32>
  %a = attn.attention ins(%q, %q, %q : tensor<1x4x16x32xf32>, tensor<1x4x16x32xf32>, tensor<1x4x16x32xf32>)
      outs(%e : tensor<1x4x16x32xf32>) -> tensor<1x4x16x32xf32>
  %c = tensor.collapse_shape %a [[0, 1], [2], [3]] : tensor<1x4x16x32xf32> into tensor<4x16x32xf32>
  %f = tensor.empty() : tensor<16x4x32xf32>
  %r = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%c : tensor<4x16x32xf32>) outs(%f : tensor<16x4x32xf32>) {
  ^bb0(%x: f32, %y: f32):
    linalg.yield %x : f32
  } -> tensor<16x4x32xf32>
  return %r : tensor<16x4x32xf32>
}

// -----

// Queries and keys are scaled, operands extended, the result truncated.

#id = affine_map<(b, h, i, d) -> (b, h, i, d)>

// CHECK-LABEL: func.func @scale_and_types(
// CHECK-SAME:    %[[Q:.*]]: tensor<1x2x16x64xf16>, %[[K:.*]]: tensor<1x2x16x64xf16>, %[[V:.*]]: tensor<1x2x16x64xf16>
// CHECK-NEXT:    %[[E:.*]] = tensor.empty() : tensor<1x2x16x64xf16>
// CHECK-NEXT:    %[[A:.*]] = attn.attention ins(%[[Q]], %[[K]], %[[V]] : {{.*}}) outs(%[[E]] : tensor<1x2x16x64xf16>) scale(6.250000e-02)
// CHECK-NEXT:    return %[[A]]
// REMARK: 'linalg.generic' became part of the scale
// REMARK: 'arith.divf' became part of the scale
// REMARK-COUNT-3: 'arith.extf' became a part of reading the operand
// REMARK: 'linalg.generic' became a part of writing the result
func.func @scale_and_types(%q: tensor<1x2x16x64xf16>, %k: tensor<1x2x16x64xf16>, %v: tensor<1x2x16x64xf16>) -> tensor<1x2x16x64xf16> {
  %two = arith.constant dense<2.0> : tensor<1x2x16x64xf32>
  %e = tensor.empty() : tensor<1x2x16x64xf32>
  %q1 = arith.extf %q : tensor<1x2x16x64xf16> to tensor<1x2x16x64xf32>
  %k1 = arith.extf %k : tensor<1x2x16x64xf16> to tensor<1x2x16x64xf32>
  %v1 = arith.extf %v : tensor<1x2x16x64xf16> to tensor<1x2x16x64xf32>
  %q2 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%q1 : tensor<1x2x16x64xf32>) outs(%e : tensor<1x2x16x64xf32>) {
  ^bb0(%x: f32, %y: f32):
    %c = arith.constant 2.0 : f32
    %h = arith.constant 0.25 : f32
    %2 = arith.mulf %x, %h : f32
    %3 = arith.mulf %c, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<1x2x16x64xf32>
  %k2 = arith.divf %k1, %two : tensor<1x2x16x64xf32>
  %a = attn.attention ins(%q2, %k2, %v1 : tensor<1x2x16x64xf32>, tensor<1x2x16x64xf32>, tensor<1x2x16x64xf32>)
      outs(%e : tensor<1x2x16x64xf32>) scale(0.25) -> tensor<1x2x16x64xf32>
  %f = tensor.empty() : tensor<1x2x16x64xf16>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%a : tensor<1x2x16x64xf32>) outs(%f : tensor<1x2x16x64xf16>) {
  ^bb0(%x: f32, %y: f16):
    %0 = arith.truncf %x : f32 to f16
    linalg.yield %0 : f16
  } -> tensor<1x2x16x64xf16>
  return %r : tensor<1x2x16x64xf16>
}

// -----

// Channels do not stay in place; rows are not aligned; another operation needs
// the transposed tensor, too.

// CHECK-LABEL: func.func @near_misses(
// CHECK-COUNT-3: linalg.transpose
// CHECK:         attn.attention
// CHECK-NOT:     attn.permute
// REMARK: 'linalg.transpose' stays: elements of the head dim would not be contiguous
// REMARK: 'linalg.transpose' stays: its result is used elsewhere, too
// REMARK: 'linalg.transpose' stays: rows would not be aligned to 16 bytes
func.func @near_misses(%q: tensor<1x2x12x16xf16>, %k: tensor<1x16x2x12xf16>, %v: tensor<1x16x2x12xf16>)
    -> (tensor<1x2x16x12xf16>, tensor<1x2x16x12xf16>) {
  %e = tensor.empty() : tensor<1x2x16x12xf16>
  %q1 = linalg.transpose ins(%q : tensor<1x2x12x16xf16>) outs(%e : tensor<1x2x16x12xf16>) permutation = [0, 1, 3, 2]
  %k1 = linalg.transpose ins(%k : tensor<1x16x2x12xf16>) outs(%e : tensor<1x2x16x12xf16>) permutation = [0, 2, 1, 3]
  %v1 = linalg.transpose ins(%v : tensor<1x16x2x12xf16>) outs(%e : tensor<1x2x16x12xf16>) permutation = [0, 2, 1, 3]
  %a = attn.attention ins(%q1, %k1, %v1 : tensor<1x2x16x12xf16>, tensor<1x2x16x12xf16>, tensor<1x2x16x12xf16>)
      outs(%e : tensor<1x2x16x12xf16>) -> tensor<1x2x16x12xf16>
  return %a, %k1 : tensor<1x2x16x12xf16>, tensor<1x2x16x12xf16>
}

// -----

// A factor that would make the scale infinite, and conversions of two operands
// out of three, stay what they are: functions of elements.

// CHECK-LABEL: func.func @other_near_misses(
// CHECK-COUNT-2: attn.map_heads
// CHECK:         attn.attention {{.*}} scale(1.000000e+30) query {
// CHECK:           arith.mulf
// REMARK: 'arith.mulf' stays: the scale would not be a finite number other than zero
func.func @other_near_misses(%q: tensor<1x2x16x64xf32>, %k: tensor<1x2x16x64xf16>) -> tensor<1x2x16x64xf32> {
  %c = arith.constant dense<1.0e+30> : tensor<1x2x16x64xf32>
  %e = tensor.empty() : tensor<1x2x16x64xf32>
  %q1 = arith.mulf %q, %c : tensor<1x2x16x64xf32>
  %k1 = arith.extf %k : tensor<1x2x16x64xf16> to tensor<1x2x16x64xf32>
  %v1 = arith.extf %k : tensor<1x2x16x64xf16> to tensor<1x2x16x64xf32>
  %a = attn.attention ins(%q1, %k1, %v1 : tensor<1x2x16x64xf32>, tensor<1x2x16x64xf32>, tensor<1x2x16x64xf32>)
      outs(%e : tensor<1x2x16x64xf32>) scale(1.0e+30) -> tensor<1x2x16x64xf32>
  return %a : tensor<1x2x16x64xf32>
}
