// RUN: attn-opt %s --attn-decompose-quantize --attn-fuse=target=sm_90a --canonicalize --split-input-file \
// RUN: | FileCheck %s
// RUN: attn-opt %s --attn-decompose-quantize --attn-fuse=target=sm_90a --split-input-file \
// RUN:   --remarks-filter=attn-fuse --remark-format=emitRemark 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: attn-opt %s --attn-decompose-quantize --attn-fuse=target=sm_80 --split-input-file \
// RUN: | FileCheck %s --check-prefix=SM80
// RUN: attn-opt %s --attn-decompose-quantize --attn-fuse=target=host --split-input-file \
// RUN: | FileCheck %s --check-prefix=HOST

// A scale that is known before is a part of the epilogue, after the scale of values. Attention saturates itself.

// CHECK-LABEL: func.func @by_head(
// CHECK-SAME:    %[[OF_V:[a-z0-9]+]]: tensor<1x8xf32> {attn.name = "v_scale"{{.*}}}, %[[SCALE:[a-z0-9]+]]: tensor<1x8xf32>
// CHECK:         %[[INIT:.*]] = tensor.empty() : tensor<1x8x512x64xf8E4M3FN>
// CHECK:         %[[OUT:.*]] = attn.attention {{.*}} outs(%[[INIT]] : tensor<1x8x512x64xf8E4M3FN>) epilogue {
// CHECK-NEXT:    ^bb0(%[[X:.*]]: f32, %[[B:.*]]: index, %[[H:.*]]: index, %{{.*}}: index, %{{.*}}: index):
// CHECK-NEXT:      %[[V:.*]] = tensor.extract %[[OF_V]][%[[B]], %[[H]]]
// CHECK-NEXT:      %[[SCALED:.*]] = arith.mulf %[[X]], %[[V]] : f32
// CHECK-NEXT:      %[[S:.*]] = tensor.extract %[[SCALE]][%[[B]], %[[H]]]
// CHECK-NEXT:      %[[Y:.*]] = arith.divf %[[SCALED]], %[[S]] : f32
// CHECK-NEXT:      attn.yield %[[Y]] : f32
// CHECK:         return %[[OUT]]
// REMARK: 'linalg.generic' became part of the epilogue, saves {{.*}} us
// GPUs before Hopper do not round to 8 bits in kernels of attention.
// SM80-LABEL:  func.func @by_head(
// SM80:          attn.attention {{.*}} outs(%{{.*}} : tensor<1x8x512x64xbf16>) epilogue
// SM80:          linalg.generic
// HOST-LABEL:  func.func @by_head(
// HOST:          attn.attention {{.*}} outs(%{{.*}} : tensor<1x8x512x64xf8E4M3FN>) epilogue
func.func @by_head(%q: tensor<1x8x512x64xbf16>, %v_scale: tensor<1x8xf32> {attn.name = "v_scale"},
                   %scale: tensor<1x8xf32>) -> tensor<1x8x512x64xf8E4M3FN> {
  %e = tensor.empty() : tensor<1x8x512x64xbf16>
  %f = tensor.empty() : tensor<1x8x512x64xf8E4M3FN>
  %a = attn.attention ins(%q, %q, %q : tensor<1x8x512x64xbf16>, tensor<1x8x512x64xbf16>, tensor<1x8x512x64xbf16>)
      outs(%e : tensor<1x8x512x64xbf16>) epilogue {
      ^bb0(%x: f32, %b: index, %h: index, %i: index, %d: index):
        %s = tensor.extract %v_scale[%b, %h] : tensor<1x8xf32>
        %y = arith.mulf %x, %s : f32
        attn.yield %y : f32
      } -> tensor<1x8x512x64xbf16>
  %r = attn.quantize ins(%a : tensor<1x8x512x64xbf16>) given_scale(%scale : tensor<1x8xf32>)
      outs(%f : tensor<1x8x512x64xf8E4M3FN>) saturate -> tensor<1x8x512x64xf8E4M3FN>
  return %r : tensor<1x8x512x64xf8E4M3FN>
}

// -----

// One scale for the tensor, in E5M2, of an output of 8-bit inputs.

// CHECK-LABEL: func.func @by_tensor(
// CHECK-SAME:    %[[SCALE:[a-z0-9]+]]: tensor<f32>
// CHECK:         attn.attention {{.*}} outs(%{{.*}} : tensor<1x8x512x64xf8E5M2>) epilogue {
// CHECK-NEXT:    ^bb0(%[[X:.*]]: f32,
// CHECK-NEXT:      %[[S:.*]] = tensor.extract %[[SCALE]][] : tensor<f32>
// CHECK-NEXT:      %[[Y:.*]] = arith.divf %[[X]], %[[S]] : f32
// CHECK-NEXT:      attn.yield %[[Y]] : f32
// CHECK-NOT:     linalg.generic
func.func @by_tensor(%q: tensor<1x8x512x64xf8E4M3FN>, %scale: tensor<f32>) -> tensor<1x8x512x64xf8E5M2> {
  %e = tensor.empty() : tensor<1x8x512x64xf32>
  %f = tensor.empty() : tensor<1x8x512x64xf8E5M2>
  %a = attn.attention
      ins(%q, %q, %q : tensor<1x8x512x64xf8E4M3FN>, tensor<1x8x512x64xf8E4M3FN>, tensor<1x8x512x64xf8E4M3FN>)
      outs(%e : tensor<1x8x512x64xf32>) -> tensor<1x8x512x64xf32>
  %r = attn.quantize ins(%a : tensor<1x8x512x64xf32>) given_scale(%scale : tensor<f32>)
      outs(%f : tensor<1x8x512x64xf8E5M2>) saturate -> tensor<1x8x512x64xf8E5M2>
  return %r : tensor<1x8x512x64xf8E5M2>
}

// -----

// Without saturation, infinities and NaN would have to be written.

// CHECK-LABEL: func.func @not_saturated(
// CHECK:         attn.attention {{.*}} outs(%{{.*}} : tensor<1x8x512x64xbf16>) -> tensor<1x8x512x64xbf16>
// CHECK:         linalg.generic
// REMARK: 'linalg.generic' stays: attention writes the largest number in the place of larger ones
func.func @not_saturated(%q: tensor<1x8x512x64xbf16>, %scale: tensor<f32>) -> tensor<1x8x512x64xf8E5M2> {
  %e = tensor.empty() : tensor<1x8x512x64xbf16>
  %f = tensor.empty() : tensor<1x8x512x64xf8E5M2>
  %a = attn.attention ins(%q, %q, %q : tensor<1x8x512x64xbf16>, tensor<1x8x512x64xbf16>, tensor<1x8x512x64xbf16>)
      outs(%e : tensor<1x8x512x64xbf16>) -> tensor<1x8x512x64xbf16>
  %r = attn.quantize ins(%a : tensor<1x8x512x64xbf16>) given_scale(%scale : tensor<f32>)
      outs(%f : tensor<1x8x512x64xf8E5M2>) -> tensor<1x8x512x64xf8E5M2>
  return %r : tensor<1x8x512x64xf8E5M2>
}

// -----

// The epilogue before stays as it was where the rounding is not fused.

// CHECK-LABEL: func.func @epilogue_before(
// CHECK:         attn.attention {{.*}} outs(%{{.*}} : tensor<1x8x512x64xbf16>) epilogue {
// CHECK-NEXT:    ^bb0(%[[X:.*]]: f32,
// CHECK-NEXT:      %[[Y:.*]] = arith.negf %[[X]] : f32
// CHECK-NEXT:      attn.yield %[[Y]] : f32
// CHECK:         linalg.generic
func.func @epilogue_before(%q: tensor<1x8x512x64xbf16>, %scale: tensor<f32>) -> tensor<1x8x512x64xf8E4M3FN> {
  %e = tensor.empty() : tensor<1x8x512x64xbf16>
  %f = tensor.empty() : tensor<1x8x512x64xf8E4M3FN>
  %a = attn.attention ins(%q, %q, %q : tensor<1x8x512x64xbf16>, tensor<1x8x512x64xbf16>, tensor<1x8x512x64xbf16>)
      outs(%e : tensor<1x8x512x64xbf16>) epilogue {
      ^bb0(%x: f32, %b: index, %h: index, %i: index, %d: index):
        %y = arith.negf %x : f32
        attn.yield %y : f32
      } -> tensor<1x8x512x64xbf16>
  %r = attn.quantize ins(%a : tensor<1x8x512x64xbf16>) given_scale(%scale : tensor<f32>)
      outs(%f : tensor<1x8x512x64xf8E4M3FN>) -> tensor<1x8x512x64xf8E4M3FN>
  return %r : tensor<1x8x512x64xf8E4M3FN>
}

// -----

// The amax is of the output before it is rounded, which is stored for it.

// CHECK-LABEL: func.func @amax(
// CHECK:         attn.attention {{.*}} outs(%{{.*}} : tensor<1x8x512x64xbf16>) -> tensor<1x8x512x64xbf16>
// CHECK:         linalg.generic
func.func @amax(%q: tensor<1x8x512x64xbf16>, %scale: tensor<1x8xf32>, %amax: tensor<1x8xf32>)
    -> (tensor<1x8x512x64xf8E4M3FN>, tensor<1x8xf32>) {
  %e = tensor.empty() : tensor<1x8x512x64xbf16>
  %f = tensor.empty() : tensor<1x8x512x64xf8E4M3FN>
  %a = attn.attention ins(%q, %q, %q : tensor<1x8x512x64xbf16>, tensor<1x8x512x64xbf16>, tensor<1x8x512x64xbf16>)
      outs(%e : tensor<1x8x512x64xbf16>) -> tensor<1x8x512x64xbf16>
  %r:2 = attn.quantize ins(%a : tensor<1x8x512x64xbf16>) given_scale(%scale : tensor<1x8xf32>)
      outs(%f : tensor<1x8x512x64xf8E4M3FN>) amax(%amax : tensor<1x8xf32>) saturate
      -> tensor<1x8x512x64xf8E4M3FN>, tensor<1x8xf32>
  return %r#0, %r#1 : tensor<1x8x512x64xf8E4M3FN>, tensor<1x8xf32>
}

// -----

// Operations that follow read numbers that are rounded.

// CHECK-LABEL: func.func @extended(
// CHECK:         attn.attention {{.*}} outs(%{{.*}} : tensor<1x8x512x64xf8E4M3FN>) epilogue
// CHECK:         arith.extf %{{.*}} : tensor<1x8x512x64xf8E4M3FN> to tensor<1x8x512x64xbf16>
// REMARK: 'arith.extf' stays: it reads numbers rounded to 8 bits
func.func @extended(%q: tensor<1x8x512x64xbf16>, %scale: tensor<f32>) -> tensor<1x8x512x64xbf16> {
  %e = tensor.empty() : tensor<1x8x512x64xbf16>
  %f = tensor.empty() : tensor<1x8x512x64xf8E4M3FN>
  %a = attn.attention ins(%q, %q, %q : tensor<1x8x512x64xbf16>, tensor<1x8x512x64xbf16>, tensor<1x8x512x64xbf16>)
      outs(%e : tensor<1x8x512x64xbf16>) -> tensor<1x8x512x64xbf16>
  %r = attn.quantize ins(%a : tensor<1x8x512x64xbf16>) given_scale(%scale : tensor<f32>)
      outs(%f : tensor<1x8x512x64xf8E4M3FN>) saturate -> tensor<1x8x512x64xf8E4M3FN>
  %w = arith.extf %r : tensor<1x8x512x64xf8E4M3FN> to tensor<1x8x512x64xbf16>
  return %w : tensor<1x8x512x64xbf16>
}

// -----

// Rows of 72 bytes are not of whole 16 bytes.

// CHECK-LABEL: func.func @head_dim(
// CHECK:         attn.attention {{.*}} outs(%{{.*}} : tensor<1x8x512x72xbf16>) -> tensor<1x8x512x72xbf16>
// CHECK:         linalg.generic
// REMARK: 'linalg.generic' stays: attention cannot write its type
// HOST-LABEL:  func.func @head_dim(
// HOST:          attn.attention {{.*}} outs(%{{.*}} : tensor<1x8x512x72xf8E4M3FN>) epilogue
func.func @head_dim(%q: tensor<1x8x512x72xbf16>, %scale: tensor<f32>) -> tensor<1x8x512x72xf8E4M3FN> {
  %e = tensor.empty() : tensor<1x8x512x72xbf16>
  %f = tensor.empty() : tensor<1x8x512x72xf8E4M3FN>
  %a = attn.attention ins(%q, %q, %q : tensor<1x8x512x72xbf16>, tensor<1x8x512x72xbf16>, tensor<1x8x512x72xbf16>)
      outs(%e : tensor<1x8x512x72xbf16>) -> tensor<1x8x512x72xbf16>
  %r = attn.quantize ins(%a : tensor<1x8x512x72xbf16>) given_scale(%scale : tensor<f32>)
      outs(%f : tensor<1x8x512x72xf8E4M3FN>) saturate -> tensor<1x8x512x72xf8E4M3FN>
  return %r : tensor<1x8x512x72xf8E4M3FN>
}

// -----

// Sizes that vary are no obstacle.

// HOST-LABEL:  func.func @dynamic(
// HOST:          attn.attention {{.*}} outs(%{{.*}} : tensor<?x8x?x64xf8E4M3FN>) epilogue
// HOST-NOT:      linalg.generic
// HOST:          return
func.func @dynamic(%q: tensor<?x8x?x64xbf16>, %scale: tensor<f32>) -> tensor<?x8x?x64xf8E4M3FN> {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %b = tensor.dim %q, %c0 : tensor<?x8x?x64xbf16>
  %n = tensor.dim %q, %c2 : tensor<?x8x?x64xbf16>
  %e = tensor.empty(%b, %n) : tensor<?x8x?x64xf32>
  %f = tensor.empty(%b, %n) : tensor<?x8x?x64xf8E4M3FN>
  %a = attn.attention ins(%q, %q, %q : tensor<?x8x?x64xbf16>, tensor<?x8x?x64xbf16>, tensor<?x8x?x64xbf16>)
      outs(%e : tensor<?x8x?x64xf32>) -> tensor<?x8x?x64xf32>
  %r = attn.quantize ins(%a : tensor<?x8x?x64xf32>) given_scale(%scale : tensor<f32>)
      outs(%f : tensor<?x8x?x64xf8E4M3FN>) saturate -> tensor<?x8x?x64xf8E4M3FN>
  return %r : tensor<?x8x?x64xf8E4M3FN>
}

// -----

// Code that computes with numbers that it rounds to 8 bits is no part of the epilogue, which would not round them.

#all = affine_map<(b, h, i, d) -> (b, h, i, d)>

// HOST-LABEL:  func.func @rounds_within(
// HOST:          attn.attention {{.*}} outs(%{{.*}} : tensor<1x8x512x64xf32>) ->
// HOST:          linalg.generic
// HOST:            arith.truncf %{{.*}} : f32 to f8E4M3FN
func.func @rounds_within(%q: tensor<1x8x512x64xbf16>) -> tensor<1x8x512x64xf32> {
  %e = tensor.empty() : tensor<1x8x512x64xf32>
  %a = attn.attention ins(%q, %q, %q : tensor<1x8x512x64xbf16>, tensor<1x8x512x64xbf16>, tensor<1x8x512x64xbf16>)
      outs(%e : tensor<1x8x512x64xf32>) -> tensor<1x8x512x64xf32>
  %r = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%a : tensor<1x8x512x64xf32>) outs(%e : tensor<1x8x512x64xf32>) {
  ^bb0(%x: f32, %o: f32):
    %narrow = arith.truncf %x : f32 to f8E4M3FN
    %wide = arith.extf %narrow : f8E4M3FN to f32
    linalg.yield %wide : f32
  } -> tensor<1x8x512x64xf32>
  return %r : tensor<1x8x512x64xf32>
}

// -----

// Nor is a rounding whose result further code reads.

#all = affine_map<(b, h, i, d) -> (b, h, i, d)>

// HOST-LABEL:  func.func @read_again(
// HOST:          linalg.generic
// HOST:            arith.truncf %{{.*}} : f32 to f8E4M3FN
// HOST:          attn.attention
// HOST-NOT:      query {
func.func @read_again(%q: tensor<1x8x512x64xf32>) -> tensor<1x8x512x64xf32> {
  %e = tensor.empty() : tensor<1x8x512x64xf32>
  %f = tensor.empty() : tensor<1x8x512x64xf8E4M3FN>
  %narrow = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%q : tensor<1x8x512x64xf32>) outs(%f : tensor<1x8x512x64xf8E4M3FN>) {
  ^bb0(%x: f32, %o: f8E4M3FN):
    %y = arith.truncf %x : f32 to f8E4M3FN
    linalg.yield %y : f8E4M3FN
  } -> tensor<1x8x512x64xf8E4M3FN>
  %wide = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%narrow : tensor<1x8x512x64xf8E4M3FN>) outs(%e : tensor<1x8x512x64xf32>) {
  ^bb0(%x: f8E4M3FN, %o: f32):
    %y = arith.extf %x : f8E4M3FN to f32
    linalg.yield %y : f32
  } -> tensor<1x8x512x64xf32>
  %a = attn.attention ins(%wide, %q, %q : tensor<1x8x512x64xf32>, tensor<1x8x512x64xf32>, tensor<1x8x512x64xf32>)
      outs(%e : tensor<1x8x512x64xf32>) -> tensor<1x8x512x64xf32>
  return %a : tensor<1x8x512x64xf32>
}
