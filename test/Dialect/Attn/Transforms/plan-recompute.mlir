// RUN: attn-opt %s --attn-plan-recompute --canonicalize --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-plan-recompute=budget=0 --canonicalize --split-input-file | FileCheck %s --check-prefix=NOTHING
// RUN: attn-opt %s --attn-plan-recompute=budget=9000000 --remarks-filter=attn-plan-recompute --remark-format=emitRemark --split-input-file -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARKS

// The square costs less to save than to compute again. With no budget for it, it is
// computed from the arguments right before its use.
// CHECK-LABEL: func.func @cheap_fwd
// CHECK: %[[X2:.*]] = linalg.square
// CHECK: %[[Y:.*]] = linalg.exp ins(%[[X2]]
// CHECK: return %[[Y]], %[[X2]]
// CHECK-LABEL: func.func @cheap_bwd(
// CHECK-SAME: %{{[a-z0-9]+}}: tensor<2048x2048xf32> {attn.unused}, %{{[a-z0-9]+}}: tensor<2048x2048xf32> {attn.unused}, %[[X2:[a-z0-9]+]]: tensor<2048x2048xf32>, %[[DY:[a-z0-9]+]]: tensor<2048x2048xf32>)
// CHECK-SAME: attn.forward = @cheap_fwd, attn.num_saved = 1 : i64
// CHECK-NOT: linalg.square
// CHECK: linalg.mul ins(%[[X2]], %[[DY]]

// NOTHING-LABEL: func.func @cheap_fwd
// NOTHING: %[[Y:.*]] = linalg.exp
// NOTHING: return %[[Y]] :
// NOTHING-LABEL: func.func @cheap_bwd(
// NOTHING-SAME: %[[X:[a-z0-9]+]]: tensor<2048x2048xf32>, %[[Y:[a-z0-9]+]]: tensor<2048x2048xf32> {attn.unused}, %[[DY:[a-z0-9]+]]: tensor<2048x2048xf32>)
// NOTHING-SAME: attn.num_saved = 0 : i64
// NOTHING: %[[X2:.*]] = linalg.square ins(%[[X]]
// NOTHING: linalg.mul ins(%[[X2]], %[[DY]]

// REMARKS: recompute{{.*}}recomputed result of 'linalg.square', 16777216 bytes: 8.4 us to move, 11.4 us to run the operation again
// REMARKS: memory{{.*}}saves 0 of 16777216 bytes and computes again for 11.4 us; peak memory {{[0-9]+}} bytes, before {{[0-9]+}}
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
// the length of the sequence twice is computed again.
// CHECK-LABEL: func.func @attention_fwd
// CHECK: %[[A:.*]]:2 = attn.attention
// CHECK: return %{{.*}}, %[[A]]#0, %[[A]]#1 : tensor<512x512xf32>, tensor<1x8x512x64xbf16>, tensor<1x8x512xf32>
// CHECK-LABEL: func.func @attention_bwd(
// CHECK-SAME: %{{[a-z0-9]+}}: tensor<1x8x512x64xbf16> {attn.unused}, %{{[a-z0-9]+}}: tensor<512x512xf32> {attn.unused}, %[[OUT:[a-z0-9]+]]: tensor<1x8x512x64xbf16>, %[[LSE:[a-z0-9]+]]: tensor<1x8x512xf32>)
// CHECK-NOT: attn.attention
// CHECK: %[[SCORES:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<1x8x512x512xf32>)
// CHECK-NOT: attn.attention
// CHECK: return %[[OUT]], %[[LSE]], %[[SCORES]]

// REMARKS: recompute{{.*}}recomputed result of 'linalg.generic', 8388608 bytes: 4.2 us to move, {{.*}} us to run the operation again; it grows with the square of the length
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
