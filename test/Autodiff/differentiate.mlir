// RUN: attn-opt %s --attn-differentiate --canonicalize --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-differentiate=mode=forward --split-input-file | FileCheck %s --check-prefix=FORWARD --implicit-check-not=_bwd
// RUN: attn-opt %s --attn-differentiate=mode=backward --split-input-file | FileCheck %s --check-prefix=BACKWARD --implicit-check-not=_fwd
// RUN: attn-opt %s --attn-differentiate=mode=combined --canonicalize --split-input-file | FileCheck %s --check-prefix=COMBINED
// RUN: attn-opt %s --attn-differentiate="mode=combined arguments=1" --canonicalize --split-input-file | FileCheck %s --check-prefix=KEYS
// RUN: attn-opt %s --attn-differentiate=deterministic --split-input-file | FileCheck %s --check-prefix=DETERMINISTIC

// The pair saves the log-sum-exp with the output; sizes are computed again.
// CHECK-LABEL: func.func @attention(
// CHECK-LABEL: func.func @attention_fwd(
// CHECK: %[[A:.*]]:2 = attn.attention {{.*}} mask(#attn.causal)
// CHECK: return %[[A]]#0, %[[A]]#1 : tensor<2x4x?x16xf32>, tensor<2x4x?xf32>
// CHECK-LABEL: func.func @attention_bwd(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<2x4x?x16xf32>, %[[K:[a-z0-9]+]]: tensor<2x2x?x16xf32>, %[[BIAS:[a-z0-9]+]]: tensor<4x?xbf16>,
// CHECK-SAME: %[[OUT:[a-z0-9]+]]: tensor<2x4x?x16xf32>, %[[LSE:[a-z0-9]+]]: tensor<2x4x?xf32>, %[[DOUT:[a-z0-9]+]]: tensor<2x4x?x16xf32>)
// CHECK-SAME: -> (tensor<2x4x?x16xf32>, tensor<2x2x?x16xf32>, tensor<4x?xbf16>) attributes {attn.forward = @attention_fwd, attn.num_saved = 1 : i64}
// CHECK: %[[DBIAS:.*]] = linalg.fill {{.*}} -> tensor<4x?xf32>
// CHECK: %[[G:.*]]:4 = attn.attention_grad ins(%[[Q]], %[[K]], %[[K]], %[[OUT]], %[[LSE]], %[[DOUT]] :
// CHECK-SAME: outs(%{{.*}}, %{{.*}}, %{{.*}}, %[[DBIAS]] : {{.*}}) mask(#attn.causal) score_mod {
// CHECK: } score_mod_grad {
// CHECK-NEXT: ^bb0(%[[S:.*]]: f32, %[[DS:.*]]: f32, %{{.*}}: index, %[[H:.*]]: index, %{{.*}}: index, %[[J:.*]]: index, %[[D:.*]]: tensor<4x?xf32>):
// CHECK-NEXT: attn.accumulate %[[DS]] into %[[D]][%[[H]], %[[J]]]
// CHECK-NEXT: attn.yield %[[DS]]
// The key is the value as well.
// CHECK: %[[DK:.*]] = linalg.add ins(%[[G]]#1, %[[G]]#2 :
// CHECK: %[[DBF16:.*]] = linalg.generic {{.*}} ins(%[[G]]#3 :
// CHECK: arith.truncf
// CHECK: return %[[G]]#0, %[[DK]], %[[DBF16]]

// One function of the pair refers to nothing of the other one.
// FORWARD-LABEL: func.func @attention_fwd(
// FORWARD-SAME: -> (tensor<2x4x?x16xf32>, tensor<2x4x?xf32>) {
// BACKWARD-LABEL: func.func @attention_bwd(
// BACKWARD-SAME: -> (tensor<2x4x?x16xf32>, tensor<2x2x?x16xf32>, tensor<4x?xbf16>) {
// BACKWARD: attn.attention_grad

// Sums in a fixed order have to be asked for.
// DETERMINISTIC-LABEL: func.func @attention_bwd(
// DETERMINISTIC: attn.attention_grad {{.*}} mask(#attn.causal) deterministic score_mod {

// COMBINED-LABEL: func.func @attention(
// COMBINED-LABEL: func.func @attention_grad(
// COMBINED-SAME: %[[DOUT:[a-z0-9]+]]: tensor<2x4x?x16xf32>) -> (tensor<2x4x?x16xf32>, tensor<2x4x?x16xf32>, tensor<2x2x?x16xf32>, tensor<4x?xbf16>)
// COMBINED: %[[A:.*]]:2 = attn.attention
// COMBINED: attn.attention_grad ins(%{{.*}}, %{{.*}}, %{{.*}}, %[[A]]#0, %[[A]]#1, %[[DOUT]] :
// COMBINED: return %[[A]]#0,

// Only what is asked for.
// KEYS-LABEL: func.func @attention_grad(
// KEYS-SAME: -> (tensor<2x4x?x16xf32>, tensor<2x2x?x16xf32>)
// KEYS: %[[G:.*]]:3 = attn.attention_grad
// KEYS-NOT: attn.accumulate
// KEYS: %[[DK:.*]] = linalg.add ins(%[[G]]#1, %[[G]]#2 :
// KEYS: return %{{.*}}, %[[DK]]
func.func @attention(%q: tensor<2x4x?x16xf32>, %k: tensor<2x2x?x16xf32>,
                     %bias: tensor<4x?xbf16>) -> tensor<2x4x?x16xf32> {
  %c2 = arith.constant 2 : index
  %n = tensor.dim %q, %c2 : tensor<2x4x?x16xf32>
  %init = tensor.empty(%n) : tensor<2x4x?x16xf32>
  %0 = attn.attention
      ins(%q, %k, %k : tensor<2x4x?x16xf32>, tensor<2x2x?x16xf32>,
          tensor<2x2x?x16xf32>)
      outs(%init : tensor<2x4x?x16xf32>) mask(#attn.causal)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %bias[%h, %j] : tensor<4x?xbf16>
        %xf = arith.extf %x : bf16 to f32
        %t = arith.addf %s, %xf : f32
        attn.yield %t : f32
      } -> tensor<2x4x?x16xf32>
  return %0 : tensor<2x4x?x16xf32>
}

// -----

// Products of narrow elements are summed up in f32; what a result does not
// depend on has no gradient, and arguments that are not needed are marked.
// CHECK-LABEL: func.func @matmul_bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<8x4xbf16>, %[[W:[a-z0-9]+]]: tensor<4x2xbf16>, %{{[a-z0-9]+}}: tensor<3xf32> {attn.unused},
// CHECK-SAME: %{{[a-z0-9]+}}: tensor<8x2xf32> {attn.unused}, %[[DY:[a-z0-9]+]]: tensor<8x2xf32>)
// CHECK: %[[ZERO_X:.*]] = linalg.fill {{.*}} -> tensor<8x4xf32>
// CHECK: %[[DX:.*]] = linalg.generic {indexing_maps = [#{{.*}}, #{{.*}}, #{{.*}}], iterator_types = ["parallel", "reduction", "parallel"]}
// CHECK-SAME:     {{^}} ins(%[[W]], %[[DY]] : tensor<4x2xbf16>, tensor<8x2xf32>) outs(%[[ZERO_X]] : tensor<8x4xf32>)
// CHECK: arith.truncf %{{.*}} : f32 to bf16
// CHECK: %[[ZERO_W:.*]] = linalg.fill {{.*}} -> tensor<4x2xf32>
// CHECK: %[[DW:.*]] = linalg.generic {indexing_maps = [#{{.*}}, #{{.*}}, #{{.*}}], iterator_types = ["reduction", "parallel", "parallel"]}
// CHECK-SAME:     {{^}} ins(%[[X]], %[[DY]] : tensor<8x4xbf16>, tensor<8x2xf32>) outs(%[[ZERO_W]] : tensor<4x2xf32>)
// CHECK: arith.truncf %{{.*}} : f32 to bf16
// CHECK: %[[NONE:.*]] = linalg.fill {{.*}} -> tensor<3xf32>
// CHECK: return %{{.*}}, %{{.*}}, %[[NONE]]
func.func @matmul(%x: tensor<8x4xbf16>, %w: tensor<4x2xbf16>, %other: tensor<3xf32>)
    -> tensor<8x2xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x2xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x2xf32>) -> tensor<8x2xf32>
  %y = linalg.matmul ins(%x, %w : tensor<8x4xbf16>, tensor<4x2xbf16>)
      outs(%f : tensor<8x2xf32>) -> tensor<8x2xf32>
  return %y : tensor<8x2xf32>
}

// -----

// An element of a tensor that a score_mod region uses as a scalar.
// CHECK-LABEL: func.func @scalar_bwd(
// CHECK: %[[G:.*]]:4 = attn.attention_grad
// CHECK: attn.accumulate %{{.*}} into %{{.*}}[] : tensor<f32>
// CHECK: %[[SUM:.*]] = tensor.extract %[[G]]#3[] : tensor<f32>
// CHECK: %[[DT:.*]] = tensor.insert %[[SUM]] into %{{.*}}[%{{.*}}] : tensor<3xf32>
// CHECK: return %{{.*}}, %[[DT]]
func.func @scalar(%x: tensor<2x4x8x16xf32>, %t: tensor<3xf32>)
    -> tensor<2x4x8x16xf32> {
  %c1 = arith.constant 1 : index
  %a = tensor.extract %t[%c1] : tensor<3xf32>
  %0 = attn.attention
      ins(%x, %x, %x : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
          tensor<2x4x8x16xf32>)
      outs(%x : tensor<2x4x8x16xf32>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %u = arith.mulf %s, %a : f32
        attn.yield %u : f32
      } -> tensor<2x4x8x16xf32>
  return %0 : tensor<2x4x8x16xf32>
}

// -----

// Sinks have a weight and no value. Rows of no sequence do not count.
// CHECK-LABEL: func.func @sinks_bwd(
// CHECK-SAME: %[[SINKS:[a-z0-9]+]]: tensor<4xbf16>
// CHECK: attn.attention_grad
// CHECK-NOT: sinks
// CHECK: %[[DELTA:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel", "reduction"]
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "reduction", "reduction"]
// CHECK-SAME:     ins(%[[SINKS]], %{{.*}}, %[[DELTA]] : tensor<4xbf16>, tensor<2x4x8xf32>, tensor<2x4x8xf32>) outs(%{{.*}} : tensor<4xf32>)
// CHECK: math.exp
// CHECK: tensor.extract %{{.*}} : tensor<2xi32>
// CHECK: arith.subf
// CHECK: linalg.yield
// CHECK: %[[D:.*]] = linalg.generic {{.*}} ins(%[[SUM]] : tensor<4xf32>)
// CHECK: arith.truncf
// CHECK: return %{{.*}}, %[[D]]
func.func @sinks(%x: tensor<2x4x8x16xf32>, %sinks: tensor<4xbf16>,
                 %lengths: tensor<2xi32>) -> tensor<2x4x8x16xf32> {
  %0 = attn.attention
      ins(%x, %x, %x : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
          tensor<2x4x8x16xf32>)
      outs(%x : tensor<2x4x8x16xf32>) sinks(%sinks : tensor<4xbf16>)
      sequences padded(%lengths, %lengths : tensor<2xi32>, tensor<2xi32>)
      -> tensor<2x4x8x16xf32>
  return %0 : tensor<2x4x8x16xf32>
}

// -----

// The state has the weight exp(state_lse - lse) in each row. The gradient of attention knows of it by the results alone.
// CHECK-LABEL: func.func @state_bwd(
// CHECK-SAME: %[[SO:[a-z0-9]+]]: tensor<2x4x8x16xbf16>, %[[SL:[a-z0-9]+]]: tensor<2x4x8xf32>
// CHECK: attn.attention_grad
// CHECK-NOT: state(
// CHECK: %[[DSO:.*]] = linalg.generic {{.*}} ins(%[[DO:[^,]*]], %[[SL]], %[[LSE:[^ ]*]] :
// CHECK-SAME: outs(%{{.*}} : tensor<2x4x8x16xbf16>)
// CHECK: %[[DIFFERENCE:.*]] = arith.subf
// CHECK: %[[BOUNDED:.*]] = arith.minnumf %[[DIFFERENCE]]
// CHECK: math.exp %[[BOUNDED]]
// CHECK: arith.select
// CHECK: arith.truncf
// CHECK: %[[DELTA:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel", "reduction"]
// CHECK-SAME: ins(%[[DO]], %[[SO]], %{{.*}} :
// CHECK: %[[DSL:.*]] = linalg.generic {{.*}} ins(%[[SL]], %[[LSE]], %[[DELTA]] :
// CHECK: math.exp
// CHECK: return %{{.*}}, %[[DSO]], %[[DSL]]
func.func @state(%x: tensor<2x4x8x16xf32>, %so: tensor<2x4x8x16xbf16>, %sl: tensor<2x4x8xf32>) -> tensor<2x4x8x16xf32> {
  %0 = attn.attention
      ins(%x, %x, %x : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
          tensor<2x4x8x16xf32>)
      outs(%x : tensor<2x4x8x16xf32>) state(%so, %sl : tensor<2x4x8x16xbf16>, tensor<2x4x8xf32>)
      -> tensor<2x4x8x16xf32>
  return %0 : tensor<2x4x8x16xf32>
}

// -----

// The gradient of attention knows of the identity; that of its weights compares
// the values with the output without it, which is computed again.
// CHECK-LABEL: func.func @identity_bwd(
// CHECK-SAME: %[[U:[a-z0-9]+]]: tensor<4xf32>
// CHECK: attn.attention_grad {{.*}} identity(%[[U]] : tensor<4xf32>)
// CHECK: %[[PLAIN:.*]]:2 = attn.attention
// CHECK-NOT: identity
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction", "parallel", "reduction", "reduction"]{{.*}} ins(%{{.*}}, %[[PLAIN]]#0 :
// CHECK: scf.if
// CHECK: tensor.extract
func.func @identity(%x: tensor<2x4x8x16xf32>, %u: tensor<4xf32>) -> tensor<2x4x8x16xf32> {
  %0 = attn.attention
      ins(%x, %x, %x : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
          tensor<2x4x8x16xf32>)
      outs(%x : tensor<2x4x8x16xf32>) identity(%u : tensor<4xf32>)
      -> tensor<2x4x8x16xf32>
  return %0 : tensor<2x4x8x16xf32>
}
