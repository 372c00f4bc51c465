// RUN: attn-opt %s --attn-widen-float8-gradients --split-input-file | FileCheck %s --check-prefixes=CHECK,HOST
// RUN: attn-opt %s --attn-widen-float8-gradients=target=sm_90a --split-input-file | FileCheck %s --check-prefixes=CHECK,GPU
// RUN: attn-opt %s --attn-widen-float8-gradients=target=sm_80 --split-input-file | FileCheck %s --check-prefixes=CHECK,GPU

// Scales in regions, and results of f32, stay as they are.
// CHECK-LABEL: func @scaled
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<?x4x?x64xf8E4M3FN>, %[[K:[a-z0-9]+]]: tensor<?x2x?x64xf8E4M3FN>, %[[V:[a-z0-9]+]]: tensor<?x2x?x64xf8E5M2>
// CHECK-SAME: %[[O:[a-z0-9]+]]: tensor<?x4x?x64xbf16>, %[[L:[a-z0-9]+]]: tensor<?x4x?xf32>, %[[DO:[a-z0-9]+]]: tensor<?x4x?x64xf8E5M2>
// CHECK-SAME: %[[DQ:[a-z0-9]+]]: tensor<?x4x?x64xf32>, %[[DKV:[a-z0-9]+]]: tensor<?x2x?x64xf32>
// CHECK: %[[WQ:.*]] = linalg.generic {{.*}} ins(%[[Q]] : tensor<?x4x?x64xf8E4M3FN>)
// GPU: arith.extf %{{.*}} : f8E4M3FN to bf16
// HOST: arith.extf %{{.*}} : f8E4M3FN to f32
// CHECK: %[[WK:.*]] = linalg.generic {{.*}} ins(%[[K]] : tensor<?x2x?x64xf8E4M3FN>)
// CHECK: %[[WV:.*]] = linalg.generic {{.*}} ins(%[[V]] : tensor<?x2x?x64xf8E5M2>)
// HOST: %[[WO:.*]] = linalg.generic {{.*}} ins(%[[O]] : tensor<?x4x?x64xbf16>)
// CHECK: %[[WDO:.*]] = linalg.generic {{.*}} ins(%[[DO]] : tensor<?x4x?x64xf8E5M2>)
// CHECK: %[[R:.*]]:3 = attn.attention_grad
// GPU-SAME: ins(%[[WQ]], %[[WK]], %[[WV]], %[[O]], %[[L]], %[[WDO]] :
// GPU-SAME: tensor<?x4x?x64xbf16>, tensor<?x2x?x64xbf16>, tensor<?x2x?x64xbf16>, tensor<?x4x?x64xbf16>, tensor<?x4x?xf32>, tensor<?x4x?x64xbf16>)
// HOST-SAME: ins(%[[WQ]], %[[WK]], %[[WV]], %[[WO]], %[[L]], %[[WDO]] :
// HOST-SAME: tensor<?x4x?x64xf32>, tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>, tensor<?x4x?x64xf32>, tensor<?x4x?xf32>, tensor<?x4x?x64xf32>)
// CHECK-SAME: outs(%[[DQ]], %[[DKV]], %[[DKV]] : tensor<?x4x?x64xf32>, tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>)
// CHECK: arith.mulf
// CHECK: return %[[R]]#0, %[[R]]#1, %[[R]]#2
func.func @scaled(%q: tensor<?x4x?x64xf8E4M3FN>, %k: tensor<?x2x?x64xf8E4M3FN>, %v: tensor<?x2x?x64xf8E5M2>,
    %o: tensor<?x4x?x64xbf16>, %lse: tensor<?x4x?xf32>, %do: tensor<?x4x?x64xf8E5M2>, %dq: tensor<?x4x?x64xf32>,
    %dkv: tensor<?x2x?x64xf32>, %scale: tensor<4xf32>)
    -> (tensor<?x4x?x64xf32>, tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>) {
  %r:3 = attn.attention_grad
      ins(%q, %k, %v, %o, %lse, %do : tensor<?x4x?x64xf8E4M3FN>, tensor<?x2x?x64xf8E4M3FN>, tensor<?x2x?x64xf8E5M2>,
          tensor<?x4x?x64xbf16>, tensor<?x4x?xf32>, tensor<?x4x?x64xf8E5M2>)
      outs(%dq, %dkv, %dkv : tensor<?x4x?x64xf32>, tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %scale[%h] : tensor<4xf32>
        %t = arith.mulf %s, %x : f32
        attn.yield %t : f32
      } -> tensor<?x4x?x64xf32>, tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>
  return %r#0, %r#1, %r#2 : tensor<?x4x?x64xf32>, tensor<?x2x?x64xf32>, tensor<?x2x?x64xf32>
}

// -----

// f16 represents all numbers of 8 bits, too. On hosts results are rounded afterwards.
// CHECK-LABEL: func @f16
// GPU-COUNT-3: arith.extf %{{.*}} : f8E5M2 to f16
// HOST-COUNT-3: arith.extf %{{.*}} : f8E5M2 to f32
// HOST-COUNT-2: arith.extf %{{.*}} : f16 to f32
// HOST-COUNT-3: tensor.empty() : tensor<1x4x8x64xf32>
// CHECK: %[[R:.*]]:3 = attn.attention_grad
// GPU-NOT: arith.truncf
// GPU: return %[[R]]#0, %[[R]]#1, %[[R]]#2
// HOST-COUNT-3: arith.truncf %{{.*}} : f32 to f16
func.func @f16(%q: tensor<1x4x8x64xf8E5M2>, %o: tensor<1x4x8x64xf16>, %lse: tensor<1x4x8xf32>)
    -> (tensor<1x4x8x64xf16>, tensor<1x4x8x64xf16>, tensor<1x4x8x64xf16>) {
  %r:3 = attn.attention_grad
      ins(%q, %q, %q, %o, %lse, %o : tensor<1x4x8x64xf8E5M2>, tensor<1x4x8x64xf8E5M2>, tensor<1x4x8x64xf8E5M2>,
          tensor<1x4x8x64xf16>, tensor<1x4x8xf32>, tensor<1x4x8x64xf16>)
      outs(%o, %o, %o : tensor<1x4x8x64xf16>, tensor<1x4x8x64xf16>, tensor<1x4x8x64xf16>)
      -> tensor<1x4x8x64xf16>, tensor<1x4x8x64xf16>, tensor<1x4x8x64xf16>
  return %r#0, %r#1, %r#2 : tensor<1x4x8x64xf16>, tensor<1x4x8x64xf16>, tensor<1x4x8x64xf16>
}

// -----

// Keys and values get the type of wider queries.
// CHECK-LABEL: func @keys
// CHECK-COUNT-2: arith.extf %{{.*}} : f8E4M3FN to bf16
// CHECK-NOT: arith.extf
// CHECK: attn.attention_grad ins({{.*}} : tensor<1x4x8x64xbf16>, tensor<1x4x8x64xbf16>, tensor<1x4x8x64xbf16>, tensor<1x4x8x64xbf16>,
// CHECK-NOT: arith.truncf
func.func @keys(%q: tensor<1x4x8x64xbf16>, %k: tensor<1x4x8x64xf8E4M3FN>, %lse: tensor<1x4x8xf32>,
    %dk: tensor<1x4x8x64xf32>) -> (tensor<1x4x8x64xbf16>, tensor<1x4x8x64xf32>, tensor<1x4x8x64xf32>) {
  %r:3 = attn.attention_grad
      ins(%q, %k, %k, %q, %lse, %q : tensor<1x4x8x64xbf16>, tensor<1x4x8x64xf8E4M3FN>, tensor<1x4x8x64xf8E4M3FN>,
          tensor<1x4x8x64xbf16>, tensor<1x4x8xf32>, tensor<1x4x8x64xbf16>)
      outs(%q, %dk, %dk : tensor<1x4x8x64xbf16>, tensor<1x4x8x64xf32>, tensor<1x4x8x64xf32>)
      -> tensor<1x4x8x64xbf16>, tensor<1x4x8x64xf32>, tensor<1x4x8x64xf32>
  return %r#0, %r#1, %r#2 : tensor<1x4x8x64xbf16>, tensor<1x4x8x64xf32>, tensor<1x4x8x64xf32>
}

// -----

// Rows that belong to no sequence keep their contents.
// CHECK-LABEL: func @sequences
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<1x4x8x64xf8E4M3FN>, %[[O:[a-z0-9]+]]: tensor<1x4x8x64xbf16>
// GPU: attn.attention_grad {{.*}} outs(%[[O]], %[[O]], %[[O]] :
// HOST-COUNT-3: linalg.generic {{.*}} ins(%[[Q]] :
// HOST-COUNT-5: linalg.generic {{.*}} ins(%[[O]] : tensor<1x4x8x64xbf16>)
// HOST-COUNT-3: arith.truncf %{{.*}} : f32 to bf16
func.func @sequences(%q: tensor<1x4x8x64xf8E4M3FN>, %o: tensor<1x4x8x64xbf16>, %lse: tensor<1x4x8xf32>, %cu: tensor<3xi32>)
    -> (tensor<1x4x8x64xbf16>, tensor<1x4x8x64xbf16>, tensor<1x4x8x64xbf16>) {
  %r:3 = attn.attention_grad
      ins(%q, %q, %q, %o, %lse, %o : tensor<1x4x8x64xf8E4M3FN>, tensor<1x4x8x64xf8E4M3FN>, tensor<1x4x8x64xf8E4M3FN>,
          tensor<1x4x8x64xbf16>, tensor<1x4x8xf32>, tensor<1x4x8x64xbf16>)
      outs(%o, %o, %o : tensor<1x4x8x64xbf16>, tensor<1x4x8x64xbf16>, tensor<1x4x8x64xbf16>)
      sequences packed(%cu, %cu : tensor<3xi32>, tensor<3xi32>)
      -> tensor<1x4x8x64xbf16>, tensor<1x4x8x64xbf16>, tensor<1x4x8x64xbf16>
  return %r#0, %r#1, %r#2 : tensor<1x4x8x64xbf16>, tensor<1x4x8x64xbf16>, tensor<1x4x8x64xbf16>
}

// -----

// Other gradients are left alone.
// CHECK-LABEL: func @wide
// CHECK-NEXT: attn.attention_grad
func.func @wide(%q: tensor<1x4x8x64xbf16>, %lse: tensor<1x4x8xf32>)
    -> (tensor<1x4x8x64xbf16>, tensor<1x4x8x64xbf16>, tensor<1x4x8x64xbf16>) {
  %r:3 = attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : tensor<1x4x8x64xbf16>, tensor<1x4x8x64xbf16>, tensor<1x4x8x64xbf16>,
          tensor<1x4x8x64xbf16>, tensor<1x4x8xf32>, tensor<1x4x8x64xbf16>)
      outs(%q, %q, %q : tensor<1x4x8x64xbf16>, tensor<1x4x8x64xbf16>, tensor<1x4x8x64xbf16>)
      -> tensor<1x4x8x64xbf16>, tensor<1x4x8x64xbf16>, tensor<1x4x8x64xbf16>
  return %r#0, %r#1, %r#2 : tensor<1x4x8x64xbf16>, tensor<1x4x8x64xbf16>, tensor<1x4x8x64xbf16>
}

// -----

// GPUs have no f32 output beside bf16 queries.
// CHECK-LABEL: func @wide_output
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<1x4x8x64xf8E4M3FN>, %[[O:[a-z0-9]+]]: tensor<1x4x8x64xf32>
// GPU: %[[WO:.*]] = linalg.generic {{.*}} ins(%[[O]] : tensor<1x4x8x64xf32>) outs(%{{.*}} : tensor<1x4x8x64xbf16>)
// GPU: attn.attention_grad ins({{.*}}, %[[WO]], %{{[a-z0-9]+}}, %{{[a-z0-9]+}} :
// GPU-SAME: {{.*}}, tensor<1x4x8x64xbf16>, tensor<1x4x8xf32>, tensor<1x4x8x64xbf16>) outs
// HOST: attn.attention_grad ins({{.*}}, %[[O]], %{{[a-z0-9]+}}, %[[O]] :
func.func @wide_output(%q: tensor<1x4x8x64xf8E4M3FN>, %o: tensor<1x4x8x64xf32>, %lse: tensor<1x4x8xf32>)
    -> (tensor<1x4x8x64xf32>, tensor<1x4x8x64xf32>, tensor<1x4x8x64xf32>) {
  %e = tensor.empty() : tensor<1x4x8x64xf32>
  %r:3 = attn.attention_grad
      ins(%q, %q, %q, %o, %lse, %o : tensor<1x4x8x64xf8E4M3FN>, tensor<1x4x8x64xf8E4M3FN>, tensor<1x4x8x64xf8E4M3FN>,
          tensor<1x4x8x64xf32>, tensor<1x4x8xf32>, tensor<1x4x8x64xf32>)
      outs(%e, %e, %e : tensor<1x4x8x64xf32>, tensor<1x4x8x64xf32>, tensor<1x4x8x64xf32>)
      -> tensor<1x4x8x64xf32>, tensor<1x4x8x64xf32>, tensor<1x4x8x64xf32>
  return %r#0, %r#1, %r#2 : tensor<1x4x8x64xf32>, tensor<1x4x8x64xf32>, tensor<1x4x8x64xf32>
}

// -----

// So it is for gradients of the output alone.
// CHECK-LABEL: func @narrow_dout
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<1x4x8x64xf16>, %[[K:[a-z0-9]+]]: tensor<1x4x8x64xf8E4M3FN>, %[[O:[a-z0-9]+]]: tensor<1x4x8x64xf32>
// GPU: %[[WO:.*]] = linalg.generic {{.*}} ins(%[[O]] : tensor<1x4x8x64xf32>) outs(%{{.*}} : tensor<1x4x8x64xf16>)
// GPU: attn.attention_grad ins(%[[Q]], {{.*}}, %[[WO]], %{{[a-z0-9]+}}, %{{[a-z0-9]+}} :
// GPU-SAME: {{.*}}, tensor<1x4x8x64xf16>, tensor<1x4x8xf32>, tensor<1x4x8x64xf16>) outs
// HOST: attn.attention_grad ins(%[[Q]], {{.*}}, %[[O]], %{{[a-z0-9]+}}, %{{[a-z0-9]+}} :
// HOST-SAME: {{.*}}, tensor<1x4x8x64xf32>, tensor<1x4x8xf32>, tensor<1x4x8x64xf32>) outs
func.func @narrow_dout(%q: tensor<1x4x8x64xf16>, %k: tensor<1x4x8x64xf8E4M3FN>, %o: tensor<1x4x8x64xf32>,
    %lse: tensor<1x4x8xf32>) -> (tensor<1x4x8x64xf16>, tensor<1x4x8x64xf16>, tensor<1x4x8x64xf16>) {
  %r:3 = attn.attention_grad
      ins(%q, %k, %k, %o, %lse, %k : tensor<1x4x8x64xf16>, tensor<1x4x8x64xf8E4M3FN>, tensor<1x4x8x64xf8E4M3FN>,
          tensor<1x4x8x64xf32>, tensor<1x4x8xf32>, tensor<1x4x8x64xf8E4M3FN>)
      outs(%q, %q, %q : tensor<1x4x8x64xf16>, tensor<1x4x8x64xf16>, tensor<1x4x8x64xf16>)
      -> tensor<1x4x8x64xf16>, tensor<1x4x8x64xf16>, tensor<1x4x8x64xf16>
  return %r#0, %r#1, %r#2 : tensor<1x4x8x64xf16>, tensor<1x4x8x64xf16>, tensor<1x4x8x64xf16>
}
