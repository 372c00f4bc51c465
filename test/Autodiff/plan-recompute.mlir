// RUN: attn-opt %s --attn-plan-recompute --canonicalize --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-plan-recompute=budget=2000000 --canonicalize --split-input-file | FileCheck %s --check-prefix=SMALL
// RUN: attn-opt %s --attn-plan-recompute=budget=8500000 --canonicalize --split-input-file | FileCheck %s --check-prefix=WITHIN
// RUN: attn-opt %s --attn-plan-recompute=budget=8500000 --remarks-filter=attn-plan-recompute --remark-format=emitRemark --split-input-file -o /dev/null \
// RUN:   2>&1 | FileCheck %s --check-prefix=REMARKS

// The square costs less to save than to compute again. With no budget for it, it is
// computed from the arguments right before its use.
// CHECK-LABEL: func.func @cheap_fwd
// CHECK: %[[X2:.*]] = linalg.square
// CHECK: %[[Y:.*]] = linalg.exp ins(%[[X2]]
// CHECK: return %[[Y]], %[[X2]]
// CHECK-LABEL: func.func @cheap_bwd(
// CHECK-SAME: %{{[a-z0-9]+}}: tensor<2048x2048xf32> {attn.unused}, %{{[a-z0-9]+}}: tensor<2048x2048xf32> {attn.unused},
// CHECK-SAME: %[[X2:[a-z0-9]+]]: tensor<2048x2048xf32>, %[[DY:[a-z0-9]+]]: tensor<2048x2048xf32>)
// CHECK-SAME: attn.forward = @cheap_fwd, attn.num_saved = 1 : i64
// CHECK-NOT: linalg.square
// CHECK: linalg.mul ins(%[[X2]], %[[DY]]

// SMALL-LABEL: func.func @cheap_fwd
// SMALL: %[[Y:.*]] = linalg.exp
// SMALL: return %[[Y]] :
// SMALL-LABEL: func.func @cheap_bwd(
// SMALL-SAME: %[[X:[a-z0-9]+]]: tensor<2048x2048xf32>, %[[Y:[a-z0-9]+]]: tensor<2048x2048xf32> {attn.unused}, %[[DY:[a-z0-9]+]]: tensor<2048x2048xf32>)
// SMALL-SAME: attn.num_saved = 0 : i64
// SMALL: %[[X2:.*]] = linalg.square ins(%[[X]]
// SMALL: linalg.mul ins(%[[X2]], %[[DY]]

// REMARKS: recompute{{.*}}recomputed result of 'linalg.square', 16777216 bytes: 8.4 us to move, 11.4 us to run the operation again;
// REMARKS-SAME:     without the budget it would be saved
// The square, computed again, next to y, dy and dx.
// REMARKS: memory{{.*}}saves 0 of 16777216 bytes and computes again for 11.4 us; peak memory 67108864 bytes, before 67108864"
func.func @cheap_fwd(%x: tensor<2048x2048xf32>)
    -> (tensor<2048x2048xf32>, tensor<2048x2048xf32>) {
  %e = tensor.empty() : tensor<2048x2048xf32>
  %x2 = linalg.square ins(%x : tensor<2048x2048xf32>) outs(%e : tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  %y = linalg.exp ins(%x2 : tensor<2048x2048xf32>) outs(%e : tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  return %y, %x2 : tensor<2048x2048xf32>, tensor<2048x2048xf32>
}
func.func @cheap_bwd(%x: tensor<2048x2048xf32>, %y: tensor<2048x2048xf32>,
                     %x2: tensor<2048x2048xf32>, %dy: tensor<2048x2048xf32>)
    -> tensor<2048x2048xf32>
    attributes {attn.forward = @cheap_fwd, attn.num_saved = 1 : i64} {
  %e = tensor.empty() : tensor<2048x2048xf32>
  %dx = linalg.mul ins(%x2, %dy : tensor<2048x2048xf32>, tensor<2048x2048xf32>) outs(%e : tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  return %dx : tensor<2048x2048xf32>
}

// -----

// The results of attention are saved, and it does not run again. A tensor that has
// the length of the sequence twice is a value like any other, and too large for the
// budget.
// CHECK-LABEL: func.func @attention_fwd
// CHECK: %[[A:.*]]:2 = attn.attention
// CHECK: %[[SCORES:.*]] = linalg.generic
// CHECK: return %{{.*}}, %[[A]]#0, %[[A]]#1, %[[SCORES]] : tensor<512x512xf32>, tensor<1x8x512x64xbf16>, tensor<1x8x512xf32>, tensor<1x8x512x512xf32>
// CHECK-LABEL: func.func @attention_bwd(
// CHECK-NOT: linalg.generic
// CHECK: return

// WITHIN-LABEL: func.func @attention_fwd
// WITHIN: %[[A:.*]]:2 = attn.attention
// WITHIN: return %{{.*}}, %[[A]]#0, %[[A]]#1 : tensor<512x512xf32>, tensor<1x8x512x64xbf16>, tensor<1x8x512xf32>
// WITHIN-LABEL: func.func @attention_bwd(
// WITHIN-SAME: %{{[a-z0-9]+}}: tensor<1x8x512x64xbf16> {attn.unused}, %{{[a-z0-9]+}}: tensor<512x512xf32> {attn.unused},
// WITHIN-SAME: %[[OUT:[a-z0-9]+]]: tensor<1x8x512x64xbf16>, %[[LSE:[a-z0-9]+]]: tensor<1x8x512xf32>)
// WITHIN-NOT: attn.attention
// WITHIN: %[[SCORES:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<1x8x512x512xf32>)
// WITHIN-NOT: attn.attention
// WITHIN: return %[[OUT]], %[[LSE]], %[[SCORES]]

// REMARKS: recompute{{.*}}recomputed result of 'linalg.generic', 8388608 bytes: 4.2 us to move, 5.1 us to run the operation again;
// REMARKS-SAME:     without the budget it would be saved
// REMARKS: memory{{.*}}saves 540672 of 8929280 bytes
func.func @attention_fwd(%q: tensor<1x8x512x64xbf16>)
    -> (tensor<512x512xf32>, tensor<1x8x512x64xbf16>, tensor<1x8x512xf32>, tensor<1x8x512x512xf32>) {
  %cst = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x8x512x64xbf16>
  %l = tensor.empty() : tensor<1x8x512xf32>
  %a:2 = attn.attention
      ins(%q, %q, %q : tensor<1x8x512x64xbf16>, tensor<1x8x512x64xbf16>, tensor<1x8x512x64xbf16>)
      outs(%e, %l : tensor<1x8x512x64xbf16>, tensor<1x8x512xf32>)
      -> tensor<1x8x512x64xbf16>, tensor<1x8x512xf32>
  %se = tensor.empty() : tensor<1x8x512x512xf32>
  %s = linalg.generic {
      indexing_maps = [affine_map<(b, h, i, j) -> (b, h, i)>, affine_map<(b, h, i, j) -> (b, h, i, j)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%a#1 : tensor<1x8x512xf32>) outs(%se : tensor<1x8x512x512xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = math.exp %x : f32
    linalg.yield %y : f32
  } -> tensor<1x8x512x512xf32>
  %ye = tensor.empty() : tensor<512x512xf32>
  %yf = linalg.fill ins(%cst : f32) outs(%ye : tensor<512x512xf32>) -> tensor<512x512xf32>
  return %yf, %a#0, %a#1, %s : tensor<512x512xf32>, tensor<1x8x512x64xbf16>, tensor<1x8x512xf32>, tensor<1x8x512x512xf32>
}
func.func @attention_bwd(%q: tensor<1x8x512x64xbf16>, %y: tensor<512x512xf32>,
                         %o: tensor<1x8x512x64xbf16>, %l: tensor<1x8x512xf32>,
                         %s: tensor<1x8x512x512xf32>)
    -> (tensor<1x8x512x64xbf16>, tensor<1x8x512xf32>, tensor<1x8x512x512xf32>)
    attributes {attn.forward = @attention_fwd, attn.num_saved = 3 : i64} {
  return %o, %l, %s : tensor<1x8x512x64xbf16>, tensor<1x8x512xf32>, tensor<1x8x512x512xf32>
}

// -----

// A width that equals the length, and a head dimension that equals it, say nothing.
// CHECK-LABEL: func.func @equal_sizes_fwd
// CHECK: %[[A:.*]] = attn.attention
// CHECK: %[[R:.*]] = linalg.exp ins(%[[A]]
// CHECK: return %[[R]], %[[A]]
func.func @equal_sizes_fwd(%q: tensor<8x16x128x128xf32>) -> (tensor<8x16x128x128xf32>, tensor<8x16x128x128xf32>) {
  %e = tensor.empty() : tensor<8x16x128x128xf32>
  %a = attn.attention ins(%q, %q, %q : tensor<8x16x128x128xf32>, tensor<8x16x128x128xf32>, tensor<8x16x128x128xf32>)
      outs(%e : tensor<8x16x128x128xf32>) -> tensor<8x16x128x128xf32>
  %r = linalg.exp ins(%a : tensor<8x16x128x128xf32>) outs(%e : tensor<8x16x128x128xf32>) -> tensor<8x16x128x128xf32>
  return %r, %a : tensor<8x16x128x128xf32>, tensor<8x16x128x128xf32>
}
func.func @equal_sizes_bwd(%q: tensor<8x16x128x128xf32>, %r: tensor<8x16x128x128xf32>, %a: tensor<8x16x128x128xf32>)
    -> tensor<8x16x128x128xf32> attributes {attn.forward = @equal_sizes_fwd, attn.num_saved = 1 : i64} {
  return %a : tensor<8x16x128x128xf32>
}

// -----

// What cannot run again is saved, whatever its size; numbers are saved as well.
// CHECK-LABEL: func.func @effects_fwd
// CHECK: %[[S:.*]]:2 = call @make
// CHECK: return %{{.*}}, %[[S]]#0, %[[S]]#1 : tensor<4xf32>, tensor<512x512xf32>, f32
// REMARKS: save{{.*}}saved result of 'func.call', 1048576 bytes: 0.5 us to move, the operation cannot run again"
// REMARKS: save{{.*}}saved result of 'func.call', 4 bytes: 0.0 us to move, the operation cannot run again"
func.func private @make() -> (tensor<512x512xf32>, f32)
func.func @effects_fwd(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<512x512xf32>, f32) {
  %s:2 = func.call @make() : () -> (tensor<512x512xf32>, f32)
  %y = math.exp %x : tensor<4xf32>
  return %y, %s#0, %s#1 : tensor<4xf32>, tensor<512x512xf32>, f32
}
func.func @effects_bwd(%x: tensor<4xf32>, %y: tensor<4xf32>, %s: tensor<512x512xf32>, %n: f32)
    -> (tensor<512x512xf32>, f32) attributes {attn.forward = @effects_fwd, attn.num_saved = 2 : i64} {
  return %s, %n : tensor<512x512xf32>, f32
}

// -----

// A saved view is memory: 262144 bytes of it next to 4096 of the result and of its
// gradient, 262144 of %g and its view, and the same of %dx.
// REMARKS: save{{.*}}saved result of 'tensor.expand_shape', 262144 bytes
// REMARKS: memory{{.*}}saves 262144 of 262144 bytes and computes again for 0.0 us; peak memory 794624 bytes, before 794624"
func.func @view_fwd(%x: tensor<64x1024xf32>) -> (tensor<64x16xf32>, tensor<64x64x16xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x1024xf32>
  %y = linalg.exp ins(%x : tensor<64x1024xf32>) outs(%e : tensor<64x1024xf32>) -> tensor<64x1024xf32>
  %v = tensor.expand_shape %y [[0], [1, 2]] output_shape [64, 64, 16] : tensor<64x1024xf32> into tensor<64x64x16xf32>
  %e2 = tensor.empty() : tensor<64x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e2 : tensor<64x16xf32>) -> tensor<64x16xf32>
  %s = linalg.reduce { arith.addf } ins(%v : tensor<64x64x16xf32>) outs(%f : tensor<64x16xf32>) dimensions = [1]
  return %s, %v : tensor<64x16xf32>, tensor<64x64x16xf32>
}
func.func @view_bwd(%x: tensor<64x1024xf32>, %s: tensor<64x16xf32>, %v: tensor<64x64x16xf32>, %ds: tensor<64x16xf32>)
    -> tensor<64x1024xf32> attributes {attn.forward = @view_fwd, attn.num_saved = 1 : i64} {
  %e = tensor.empty() : tensor<64x64x16xf32>
  %g = linalg.square ins(%v : tensor<64x64x16xf32>) outs(%e : tensor<64x64x16xf32>) -> tensor<64x64x16xf32>
  %c = tensor.collapse_shape %g [[0], [1, 2]] : tensor<64x64x16xf32> into tensor<64x1024xf32>
  %d = tensor.empty() : tensor<64x1024xf32>
  %dx = linalg.exp ins(%c : tensor<64x1024xf32>) outs(%d : tensor<64x1024xf32>) -> tensor<64x1024xf32>
  return %dx : tensor<64x1024xf32>
}
