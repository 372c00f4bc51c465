// RUN: attn-opt %s --attn-differentiate=mode=combined --canonicalize --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-differentiate="mode=combined arguments=1" --split-input-file | FileCheck %s --check-prefix=SECOND

// Gradients of the inputs of matmuls are matmuls of the inputs' type. The
// weight, which is the same for the whole batch, has one matmul over all rows.

// CHECK-LABEL: func.func @linear_grad(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<2x8x16xbf16>, %[[W:[a-z0-9]+]]: tensor<4x16xbf16>, %[[D:[a-z0-9]+]]: tensor<2x8x4xf32>)
// CHECK:         %[[Y:.*]] = attn.matmul
// CHECK:         %[[G:.*]] = linalg.generic {{.*}} ins(%[[D]] :
// CHECK:           arith.truncf %{{.*}} : f32 to bf16
// CHECK:         %[[DX:.*]] = attn.matmul ins(%[[G]], %[[W]] : tensor<2x8x4xbf16>, tensor<4x16xbf16>) outs(%{{.*}} : tensor<2x8x16xbf16>)
// CHECK-SAME:        {{^}} -> tensor<2x8x16xbf16>
// CHECK:         %[[G2:.*]] = tensor.collapse_shape %[[G]] {{\[\[}}0, 1], [2]]
// CHECK:         %[[X2:.*]] = tensor.collapse_shape %[[X]] {{\[\[}}0, 1], [2]]
// CHECK:         %[[DW:.*]] = attn.matmul ins(%[[G2]], %[[X2]] : tensor<16x4xbf16>, tensor<16x16xbf16>) outs(%{{.*}} : tensor<4x16xbf16>) transpose_lhs
// CHECK-SAME:        {{^}} -> tensor<4x16xbf16>
// CHECK:         return %[[Y]], %[[DX]], %[[DW]]

// Only what is wanted.
// SECOND-LABEL: func.func @linear_grad(
// SECOND-COUNT-2: attn.matmul
// SECOND-NOT:   attn.matmul
// SECOND:       return
func.func @linear(%x: tensor<2x8x16xbf16>, %w: tensor<4x16xbf16>) -> tensor<2x8x4xf32> {
  %e = tensor.empty() : tensor<2x8x4xf32>
  %r = attn.matmul ins(%x, %w : tensor<2x8x16xbf16>, tensor<4x16xbf16>)
      outs(%e : tensor<2x8x4xf32>) transpose_rhs -> tensor<2x8x4xf32>
  return %r : tensor<2x8x4xf32>
}

// -----

// Products of each member of the batch that cannot be one are summed up in f32.

// CHECK-LABEL: func.func @same_lhs_grad(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<8x16xbf16>, %[[W:[a-z0-9]+]]: tensor<?x16x4xbf16>, %[[D:[a-z0-9]+]]: tensor<?x8x4xbf16>)
// CHECK:         %[[DX:.*]] = attn.matmul ins(%[[D]], %[[W]] : {{.*}}) outs(%{{.*}} : tensor<?x8x16xf32>) transpose_rhs
// CHECK:         linalg.reduce ins(%[[DX]] : tensor<?x8x16xf32>) outs(%{{.*}} : tensor<8x16xf32>) dimensions = [0]
// CHECK:         attn.matmul ins(%[[X]], %[[D]] : {{.*}}) outs(%{{.*}} : tensor<?x16x4xbf16>) transpose_lhs
func.func @same_lhs(%x: tensor<8x16xbf16>, %w: tensor<?x16x4xbf16>) -> tensor<?x8x4xbf16> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %w, %c0 : tensor<?x16x4xbf16>
  %e = tensor.empty(%n) : tensor<?x8x4xbf16>
  %r = attn.matmul ins(%x, %w : tensor<8x16xbf16>, tensor<?x16x4xbf16>)
      outs(%e : tensor<?x8x4xbf16>) -> tensor<?x8x4xbf16>
  return %r : tensor<?x8x4xbf16>
}

// -----

// The gradient of an epilogue is a linalg operation over the accumulators, which are
// computed again; what the epilogue reads at its position is summed up over the
// other dimensions. What has no gradient is read as it was.

// CHECK-DAG:   #[[ALL:.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG:   #[[COLUMN:.*]] = affine_map<(d0, d1) -> (d1)>
// CHECK-LABEL: func.func @epilogue_grad(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<8x16xf32>, %[[W:[a-z0-9]+]]: tensor<16x4xf32>, %[[B:[a-z0-9]+]]: tensor<4xbf16>, %[[T:[a-z0-9]+]]: tensor<3xi32>,
// CHECK-SAME:    %[[D:[a-z0-9]+]]: tensor<8x4xf32>)
// CHECK:         attn.matmul {{.*}} epilogue
// CHECK:         %[[S:.*]] = attn.matmul ins(%[[X]], %[[W]] : {{.*}}) outs(%{{.*}} : tensor<8x4xf32>) -> tensor<8x4xf32>
// CHECK:         %[[G:.*]] = linalg.generic {indexing_maps = [#[[ALL]], #[[COLUMN]], #[[ALL]], #[[ALL]]], iterator_types = ["parallel", "parallel"]}
// CHECK-SAME:        {{^}} ins(%[[S]], %[[B]], %[[D]] :
// CHECK:           linalg.index 0
// CHECK:           tensor.extract %[[T]]
// CHECK:           math.tanh
// CHECK:         %[[SUM:.*]] = linalg.generic {indexing_maps = [#[[ALL]], #[[COLUMN]], #[[ALL]], #[[COLUMN]]], iterator_types = ["reduction", "parallel"]}
// CHECK-SAME:        {{^}} ins(%[[S]], %[[B]], %[[D]] : {{.*}} outs(%{{.*}} : tensor<4xf32>)
// CHECK:         %[[DB:.*]] = linalg.generic {{.*}} ins(%[[SUM]] : tensor<4xf32>)
// CHECK:           arith.truncf
// CHECK:         %[[DX:.*]] = attn.matmul ins(%[[G]], %[[W]] : {{.*}} transpose_rhs
// CHECK:         %[[DW:.*]] = attn.matmul ins(%[[X]], %[[G]] : {{.*}} transpose_lhs
// CHECK:         return %{{.*}}, %[[DX]], %[[DW]], %[[DB]]
func.func @epilogue(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>, %bias: tensor<4xbf16>, %t: tensor<3xi32>) -> tensor<8x4xf32> {
  %e = tensor.empty() : tensor<8x4xf32>
  %r = attn.matmul ins(%x, %w : tensor<8x16xf32>, tensor<16x4xf32>) outs(%e : tensor<8x4xf32>)
      epilogue {
      ^bb0(%sum: f32, %b: index, %i: index, %j: index):
        %three = arith.constant 3 : index
        %n = arith.remui %i, %three : index
        %k = tensor.extract %t[%n] : tensor<3xi32>
        %kf = arith.sitofp %k : i32 to f32
        %a = tensor.extract %bias[%j] : tensor<4xbf16>
        %af = arith.extf %a : bf16 to f32
        %s = arith.addf %sum, %af : f32
        %u = math.tanh %s : f32
        %v = arith.mulf %u, %kf : f32
        attn.yield %v : f32
      } -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// -----

// The elements of heads and the mean square of their rows, in f32.

// CHECK-DAG:   #[[ALL:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
// CHECK-DAG:   #[[ROW:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
// CHECK-LABEL: func.func @heads_grad(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<1x2x?x16xbf16>, %{{.*}}: tensor<4xf32>, %[[D:[a-z0-9]+]]: tensor<1x2x?x16xbf16>)
// CHECK:         attn.map_heads
// CHECK:         %[[WIDE:.*]] = linalg.generic {{.*}} ins(%[[X]] : tensor<1x2x?x16xbf16>) outs(%{{.*}} : tensor<1x2x?x16xf32>)
// CHECK:         %[[M:.*]] = linalg.generic {indexing_maps = [#[[ALL]], #[[ROW]]], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
// CHECK-SAME:        {{^}} ins(%[[WIDE]]
// CHECK:         %[[G:.*]] = linalg.generic {{.*}} ins(%[[M]], %[[D]] : tensor<1x2x?xf32>, tensor<1x2x?x16xbf16>)
// CHECK:         %[[GM:.*]] = linalg.generic {indexing_maps = [#[[ALL]], #[[ROW]], #[[ALL]], #[[ROW]]], iterator_types = ["parallel", "parallel", "parallel",
// CHECK-SAME:        {{^}} "reduction"]} ins(%[[WIDE]], %[[M]], %[[D]]
// CHECK:         %[[GS:.*]] = linalg.generic {{.*}} ins(%[[WIDE]], %[[GM]]
// CHECK:         %[[SUM:.*]] = linalg.add ins(%[[G]], %[[GS]] : tensor<1x2x?x16xf32>
// CHECK:         %[[DX:.*]] = linalg.generic {{.*}} ins(%[[SUM]]
// CHECK:           arith.truncf
// CHECK:         return %{{.*}}, %[[DX]]
func.func @heads(%x: tensor<1x2x?x16xbf16>, %unused: tensor<4xf32>) -> tensor<1x2x?x16xbf16> {
  %c2 = arith.constant 2 : index
  %n = tensor.dim %x, %c2 : tensor<1x2x?x16xbf16>
  %e = tensor.empty(%n) : tensor<1x2x?x16xbf16>
  %r = attn.map_heads ins(%x : tensor<1x2x?x16xbf16>) outs(%e : tensor<1x2x?x16xbf16>) {
      ^bb0(%v: f32, %square: f32, %b: index, %h: index, %i: index, %d: index):
        %q = math.rsqrt %square : f32
        %z = arith.mulf %v, %q : f32
        attn.yield %z : f32
      } -> tensor<1x2x?x16xbf16>
  return %r : tensor<1x2x?x16xbf16>
}
