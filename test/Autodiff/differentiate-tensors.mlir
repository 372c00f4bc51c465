// RUN: attn-opt %s --attn-differentiate=mode=combined --canonicalize --split-input-file | FileCheck %s

// Each operand of a concatenation has its slice.

// CHECK-LABEL: func.func @concat_grad(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<?x4xf32>, %[[Y:[a-z0-9]+]]: tensor<3x4xf32>, %[[D:[a-z0-9]+]]: tensor<?x4xf32>)
// CHECK-DAG:     %[[N:.*]] = tensor.dim %[[X]]
// CHECK-DAG:     %[[DX:.*]] = tensor.extract_slice %[[D]][0, 0] [%[[N]], 4] [1, 1]
// CHECK-DAG:     %[[DY:.*]] = tensor.extract_slice %[[D]][%[[N]], 0] [3, 4] [1, 1]
// CHECK:         %[[N3:.*]] = arith.addi %[[N]], %c3
// CHECK:         %[[DX2:.*]] = tensor.extract_slice %[[D]][%[[N3]], 0] [%{{.*}}, 4] [1, 1]
// CHECK:         linalg.add ins(%[[DX]], %[[DX2]] :
func.func @concat(%x: tensor<?x4xf32>, %y: tensor<3x4xf32>) -> tensor<?x4xf32> {
  %r = tensor.concat dim(0) %x, %y, %x : (tensor<?x4xf32>, tensor<3x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  return %r : tensor<?x4xf32>
}

// -----

// CHECK-LABEL: func.func @pad_grad(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<?xf32>, %[[L:[a-z0-9]+]]: index, %[[D:[a-z0-9]+]]: tensor<?xf32>)
// CHECK:         %[[DX:.*]] = tensor.extract_slice %[[D]][%[[L]]] [%{{.*}}] [1] : tensor<?xf32> to tensor<?xf32>
// CHECK:         return %{{.*}}, %[[DX]]
func.func @pad(%x: tensor<?xf32>, %l: index) -> tensor<?xf32> {
  %z = arith.constant 0.5 : f32
  %r = tensor.pad %x low[%l] high[2] {
  ^bb0(%i: index):
    tensor.yield %z : f32
  } : tensor<?xf32> to tensor<?xf32>
  return %r : tensor<?xf32>
}

// -----

// What an element replaces has no gradient.

// CHECK-LABEL: func.func @elements_grad(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<2xf32>, %[[D:[a-z0-9]+]]: tensor<2xf32>)
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK:         %[[A:.*]] = tensor.extract %[[D]][%c1]
// CHECK:         %[[REST:.*]] = tensor.insert %[[ZERO]] into %[[D]][%c1]
// CHECK:         %[[B:.*]] = tensor.extract %[[REST]][%c0]
// CHECK:         arith.addf %[[B]], %[[ZERO]]
func.func @elements(%x: tensor<2xf32>) -> tensor<2xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a = tensor.extract %x[%c0] : tensor<2xf32>
  %b = tensor.extract %x[%c1] : tensor<2xf32>
  %t = tensor.from_elements %b, %b : tensor<2xf32>
  %r = tensor.insert %a into %t[%c1] : tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

// Sums of the products of a row; those of bf16 are f32.

// CHECK-DAG:   #[[ALL:.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG:   #[[COLUMN:.*]] = affine_map<(d0, d1) -> (d1)>
// CHECK-LABEL: func.func @softmax_grad(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<?x4xbf16>, %[[D:[a-z0-9]+]]: tensor<?x4xbf16>)
// CHECK:         %[[Y:.*]] = linalg.softmax dimension(0) ins(%[[X]]
// CHECK:         %[[S:.*]] = linalg.generic {indexing_maps = [#[[ALL]], #[[ALL]], #[[COLUMN]]], iterator_types = ["reduction", "parallel"]}
// CHECK-SAME:        {{^}} ins(%[[Y]], %[[D]] : {{.*}} outs(%{{.*}} : tensor<4xf32>)
// CHECK:         %[[DX:.*]] = linalg.generic {{.*}} ins(%[[Y]], %[[D]], %[[S]] :
// CHECK:           arith.subf
// CHECK:           arith.mulf
// CHECK:           arith.truncf
// CHECK:         return %[[Y]], %[[DX]]
func.func @softmax(%x: tensor<?x4xbf16>) -> tensor<?x4xbf16> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x4xbf16>
  %e = tensor.empty(%n) : tensor<?x4xbf16>
  %r = linalg.softmax dimension(0) ins(%x : tensor<?x4xbf16>) outs(%e : tensor<?x4xbf16>) -> tensor<?x4xbf16>
  return %r : tensor<?x4xbf16>
}

// -----

// CHECK-LABEL: func.func @permute_grad(
// CHECK-SAME:    %[[D:[a-z0-9]+]]: tensor<4x2x3xf32>)
// CHECK:         %[[DX:.*]] = attn.permute %[[D]] [1, 2, 0] : tensor<4x2x3xf32> -> tensor<2x3x4xf32>
// CHECK:         return %{{.*}}, %[[DX]]
func.func @permute(%x: tensor<2x3x4xf32>) -> tensor<4x2x3xf32> {
  %r = attn.permute %x [2, 0, 1] : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
  return %r : tensor<4x2x3xf32>
}

// -----

// Dimensions of one element are not loops of the gradient.

// CHECK-DAG:   #[[ALL:.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG:   #[[COLUMN:.*]] = affine_map<(d0, d1) -> (d1)>
// CHECK-LABEL: func.func @unit_dim_grad(
// CHECK-SAME:    %[[D:[a-z0-9]+]]: tensor<3x?xf32>)
// CHECK:         %[[S:.*]] = linalg.generic {indexing_maps = [#[[ALL]], #[[COLUMN]]], iterator_types = ["reduction", "parallel"]}
// CHECK-SAME:        {{^}} ins(%[[D]] : {{.*}} outs(%{{.*}} : tensor<?xf32>)
// CHECK:         %[[DX:.*]] = tensor.expand_shape %[[S]] {{\[\[}}0, 1, 2]] output_shape [1, %{{.*}}, 1] : tensor<?xf32> into tensor<1x?x1xf32>
// CHECK:         return %{{.*}}, %[[DX]]
func.func @unit_dim(%x: tensor<1x?x1xf32>) -> tensor<3x?xf32> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<1x?x1xf32>
  %e = tensor.empty(%n) : tensor<3x?xf32>
  %r = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (0, j, 0)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<1x?x1xf32>) outs(%e : tensor<3x?xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<3x?xf32>
  return %r : tensor<3x?xf32>
}

// -----

// A sum of bf16 that is added to in f32, whose gradients are computed in f32.

// CHECK-LABEL: func.func @narrow_sum_grad(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<3x4xbf16>, %[[A:[a-z0-9]+]]: tensor<3xbf16>, %[[D:[a-z0-9]+]]: tensor<3xbf16>)
// CHECK:         %[[Y:.*]] = linalg.generic
// CHECK:         %[[DX:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]} ins(%[[X]], %[[D]] :
// CHECK-NEXT:    ^bb0(%[[V:.*]]: bf16, %[[G:.*]]: bf16, %{{.*}}: bf16):
// CHECK-DAG:       %[[W:.*]] = arith.extf %[[V]] : bf16 to f32
// CHECK-DAG:       %[[H:.*]] = arith.extf %[[G]] : bf16 to f32
// CHECK:           arith.mulf %[[H]], %[[W]] : f32
// CHECK:           %[[T:.*]] = arith.truncf %{{.*}} : f32 to bf16
// CHECK-NEXT:      linalg.yield %[[T]]
// CHECK:         return %[[Y]], %[[DX]], %[[D]]
func.func @narrow_sum(%x: tensor<3x4xbf16>, %a: tensor<3xbf16>) -> tensor<3xbf16> {
  %r = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]} ins(%x : tensor<3x4xbf16>) outs(%a : tensor<3xbf16>) {
  ^bb0(%v: bf16, %sum: bf16):
    %w = arith.extf %v : bf16 to f32
    %s = arith.extf %sum : bf16 to f32
    %p = arith.mulf %w, %w : f32
    %t = arith.addf %s, %p : f32
    %u = arith.truncf %t : f32 to bf16
    linalg.yield %u : bf16
  } -> tensor<3xbf16>
  return %r : tensor<3xbf16>
}

// Each element is written once where a dimension has one element.

// CHECK-LABEL: func.func @column_grad(
// CHECK:         linalg.generic {{.*}} iterator_types = ["parallel"]
// CHECK:           math.exp
// CHECK:         linalg.generic {{.*}} iterator_types = ["parallel"]
// CHECK:           arith.mulf
func.func @column(%x: tensor<4xf32>) -> tensor<4x1xf32> {
  %e = tensor.empty() : tensor<4x1xf32>
  %r = linalg.generic {
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i, 0)>],
      iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4x1xf32>) {
  ^bb0(%a: f32, %o: f32):
    %b = math.exp %a : f32
    linalg.yield %b : f32
  } -> tensor<4x1xf32>
  return %r : tensor<4x1xf32>
}
