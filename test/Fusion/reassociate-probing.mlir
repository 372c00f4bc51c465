// RUN: attn-opt %s --attn-reassociate=target=sm_90a --canonicalize --cse --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-reassociate=target=sm_90a --split-input-file \
// RUN:   --remarks-filter=attn-reassociate --remark-format=emitRemark 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: attn-opt %s --attn-reassociate=target=host --canonicalize --cse --split-input-file | FileCheck %s --check-prefix=HOST

// Attentive probing: learned queries attend to rows that are keys, and whose matmul has the values of all heads.

// CHECK-LABEL: func.func @probing(
// CHECK-SAME:    %[[Q:[^:]*]]: tensor<256x32x1x384xbf16>, %[[X:[^:]*]]: tensor<256x196x384xbf16>, %[[W:.*]]: tensor<384x384xbf16>)
// CHECK:         %[[K:.*]] = tensor.expand_shape %[[X]] {{\[}}[0, 1], [2], [3]] output_shape [256, 1, 196, 384]
// CHECK:         %[[A:.*]] = attn.attention ins(%[[Q]], %[[K]], %[[K]] : tensor<256x32x1x384xbf16>, tensor<256x1x196x384xbf16>, tensor<256x1x196x384xbf16>)
// CHECK-SAME:        outs(%{{.*}} : tensor<256x32x1x384xbf16>)
// CHECK:         %[[WH:.*]] = tensor.expand_shape %[[W]] {{\[}}[0, 1], [2]] output_shape [32, 12, 384]
// CHECK:         %[[R:.*]] = linalg.transpose ins(%[[A]] : {{.*}}) outs(%{{.*}} : tensor<32x256x1x384xbf16>) permutation = [1, 0, 2, 3]
// CHECK:         %[[F:.*]] = tensor.collapse_shape %[[R]]
// CHECK:         attn.matmul ins(%[[F]], %[[WH]] : tensor<32x256x384xbf16>, tensor<32x12x384xbf16>) outs(%{{.*}}) transpose_rhs -> tensor<32x256x12xbf16>
// CHECK-NOT:     attn.matmul
// REMARK: attention is to the rows that values are a matmul of: it takes {{.*}} us with it, and {{.*}} us with a matmul of results
// HOST-LABEL: func.func @probing(
// HOST:         attn.attention ins({{.*}} : tensor<256x32x1x384xbf16>, tensor<256x1x196x384xbf16>, tensor<256x1x196x384xbf16>)
func.func @probing(%q: tensor<256x32x1x384xbf16>, %x: tensor<256x196x384xbf16>, %w: tensor<384x384xbf16>) -> tensor<256x32x1x12xbf16> {
  %e = tensor.empty() : tensor<256x196x384xbf16>
  %f = tensor.empty() : tensor<256x32x196x12xbf16>
  %out = tensor.empty() : tensor<256x32x1x12xbf16>
  %0 = attn.matmul ins(%x, %w : tensor<256x196x384xbf16>, tensor<384x384xbf16>) outs(%e : tensor<256x196x384xbf16>) transpose_rhs -> tensor<256x196x384xbf16>
  %1 = tensor.expand_shape %0 [[0], [1], [2, 3]] output_shape [256, 196, 32, 12] : tensor<256x196x384xbf16> into tensor<256x196x32x12xbf16>
  %v = linalg.transpose ins(%1 : tensor<256x196x32x12xbf16>) outs(%f : tensor<256x32x196x12xbf16>) permutation = [0, 2, 1, 3]
  %k = tensor.expand_shape %x [[0, 1], [2], [3]] output_shape [256, 1, 196, 384] : tensor<256x196x384xbf16> into tensor<256x1x196x384xbf16>
  %a = attn.attention ins(%q, %k, %v : tensor<256x32x1x384xbf16>, tensor<256x1x196x384xbf16>, tensor<256x32x196x12xbf16>)
      outs(%out : tensor<256x32x1x12xbf16>) -> tensor<256x32x1x12xbf16>
  return %a : tensor<256x32x1x12xbf16>
}

// -----

// Keys that are broadcast to all heads are keys of one head afterwards. They may be a matmul, too, and other rows than
// those of the values.

// CHECK-LABEL: func.func @broadcast(
// CHECK-SAME:    %[[Q:[^:]*]]: tensor<8x16x1x64xf16>, %[[Y:[^:]*]]: tensor<8x4096x32xf16>, %[[WY:[^:]*]]: tensor<32x64xf16>,
// CHECK-SAME:    %[[X:[^:]*]]: tensor<8x4096x128xf16>,
// CHECK:         %[[KY:.*]] = attn.matmul ins(%[[Y]], %[[WY]] :
// CHECK:         %[[V:.*]] = tensor.expand_shape %[[X]] {{\[}}[0, 1], [2], [3]] output_shape [8, 1, 4096, 128]
// CHECK:         %[[K:.*]] = tensor.expand_shape %[[KY]] {{\[}}[0, 1], [2], [3]] output_shape [8, 1, 4096, 64]
// CHECK:         attn.attention ins(%[[Q]], %[[K]], %[[V]] : tensor<8x16x1x64xf16>, tensor<8x1x4096x64xf16>, tensor<8x1x4096x128xf16>)
// CHECK:         attn.matmul ins(%{{.*}} : tensor<16x8x128xf16>, tensor<16x128x64xf16>)
// REMARK: attention is to the rows that values are a matmul of: it takes {{.*}}
#shared = affine_map<(b, h, s, c) -> (b, s, c)>
#all = affine_map<(b, h, s, c) -> (b, h, s, c)>
func.func @broadcast(%q: tensor<8x16x1x64xf16>, %y: tensor<8x4096x32xf16>, %wy: tensor<32x64xf16>, %x: tensor<8x4096x128xf16>, %w: tensor<128x1024xf16>)
    -> tensor<8x16x1x64xf16> {
  %e = tensor.empty() : tensor<8x4096x64xf16>
  %f = tensor.empty() : tensor<8x4096x1024xf16>
  %g = tensor.empty() : tensor<8x16x4096x64xf16>
  %out = tensor.empty() : tensor<8x16x1x64xf16>
  %ky = attn.matmul ins(%y, %wy : tensor<8x4096x32xf16>, tensor<32x64xf16>) outs(%e : tensor<8x4096x64xf16>) -> tensor<8x4096x64xf16>
  %k = linalg.generic {indexing_maps = [#shared, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%ky : tensor<8x4096x64xf16>) outs(%g : tensor<8x16x4096x64xf16>) {
  ^bb0(%element: f16, %old: f16):
    linalg.yield %element : f16
  } -> tensor<8x16x4096x64xf16>
  %0 = attn.matmul ins(%x, %w : tensor<8x4096x128xf16>, tensor<128x1024xf16>) outs(%f : tensor<8x4096x1024xf16>) -> tensor<8x4096x1024xf16>
  %1 = tensor.expand_shape %0 [[0], [1], [2, 3]] output_shape [8, 4096, 16, 64] : tensor<8x4096x1024xf16> into tensor<8x4096x16x64xf16>
  %v = linalg.transpose ins(%1 : tensor<8x4096x16x64xf16>) outs(%g : tensor<8x16x4096x64xf16>) permutation = [0, 2, 1, 3]
  %a = attn.attention ins(%q, %k, %v : tensor<8x16x1x64xf16>, tensor<8x16x4096x64xf16>, tensor<8x16x4096x64xf16>)
      outs(%out : tensor<8x16x1x64xf16>) -> tensor<8x16x1x64xf16>
  return %a : tensor<8x16x1x64xf16>
}

// -----

// The matmul stays: rows are wider than head dims of GPUs; few rows, whose matmul takes less time.

// CHECK-LABEL: func.func @wide(
// CHECK:         attn.attention ins({{.*}} : tensor<256x32x1x768xbf16>, tensor<256x1x196x768xbf16>, tensor<256x32x196x24xbf16>)
// CHECK-LABEL: func.func @small(
// CHECK:         attn.attention ins({{.*}} : tensor<1x32x1x384xbf16>, tensor<1x1x196x384xbf16>, tensor<1x32x196x16xbf16>)
// REMARK: the matmul of values stays: a latent has too many columns
// REMARK: the matmul of values stays: it takes {{.*}} us with it, and {{.*}} us with a matmul of results
// HOST-LABEL: func.func @wide(
// HOST:         attn.attention ins({{.*}} : tensor<256x32x1x768xbf16>, tensor<256x1x196x768xbf16>, tensor<256x1x196x768xbf16>)
func.func @wide(%q: tensor<256x32x1x768xbf16>, %x: tensor<256x196x768xbf16>, %w: tensor<768x768xbf16>) -> tensor<256x32x1x24xbf16> {
  %e = tensor.empty() : tensor<256x196x768xbf16>
  %f = tensor.empty() : tensor<256x32x196x24xbf16>
  %out = tensor.empty() : tensor<256x32x1x24xbf16>
  %0 = attn.matmul ins(%x, %w : tensor<256x196x768xbf16>, tensor<768x768xbf16>) outs(%e : tensor<256x196x768xbf16>) -> tensor<256x196x768xbf16>
  %1 = tensor.expand_shape %0 [[0], [1], [2, 3]] output_shape [256, 196, 32, 24] : tensor<256x196x768xbf16> into tensor<256x196x32x24xbf16>
  %v = linalg.transpose ins(%1 : tensor<256x196x32x24xbf16>) outs(%f : tensor<256x32x196x24xbf16>) permutation = [0, 2, 1, 3]
  %k = tensor.expand_shape %x [[0, 1], [2], [3]] output_shape [256, 1, 196, 768] : tensor<256x196x768xbf16> into tensor<256x1x196x768xbf16>
  %a = attn.attention ins(%q, %k, %v : tensor<256x32x1x768xbf16>, tensor<256x1x196x768xbf16>, tensor<256x32x196x24xbf16>)
      outs(%out : tensor<256x32x1x24xbf16>) -> tensor<256x32x1x24xbf16>
  return %a : tensor<256x32x1x24xbf16>
}

func.func @small(%q: tensor<1x32x1x384xbf16>, %x: tensor<1x196x384xbf16>, %w: tensor<384x512xbf16>) -> tensor<1x32x1x16xbf16> {
  %e = tensor.empty() : tensor<1x196x512xbf16>
  %f = tensor.empty() : tensor<1x32x196x16xbf16>
  %out = tensor.empty() : tensor<1x32x1x16xbf16>
  %0 = attn.matmul ins(%x, %w : tensor<1x196x384xbf16>, tensor<384x512xbf16>) outs(%e : tensor<1x196x512xbf16>) -> tensor<1x196x512xbf16>
  %1 = tensor.expand_shape %0 [[0], [1], [2, 3]] output_shape [1, 196, 32, 16] : tensor<1x196x512xbf16> into tensor<1x196x32x16xbf16>
  %v = linalg.transpose ins(%1 : tensor<1x196x32x16xbf16>) outs(%f : tensor<1x32x196x16xbf16>) permutation = [0, 2, 1, 3]
  %k = tensor.expand_shape %x [[0, 1], [2], [3]] output_shape [1, 1, 196, 384] : tensor<1x196x384xbf16> into tensor<1x1x196x384xbf16>
  %a = attn.attention ins(%q, %k, %v : tensor<1x32x1x384xbf16>, tensor<1x1x196x384xbf16>, tensor<1x32x196x16xbf16>)
      outs(%out : tensor<1x32x1x16xbf16>) -> tensor<1x32x1x16xbf16>
  return %a : tensor<1x32x1x16xbf16>
}

// -----

// The matmul is used elsewhere, too; query heads share values, whose matrices differ.

// CHECK-LABEL: func.func @near_misses(
// CHECK:         attn.attention ins({{.*}} : tensor<8x16x1x128xbf16>, tensor<8x1x4096x128xbf16>, tensor<8x16x4096x64xbf16>)
// CHECK:         attn.attention ins({{.*}} : tensor<8x32x1x128xbf16>, tensor<8x1x4096x128xbf16>, tensor<8x16x4096x64xbf16>)
// REMARK: the matmul of values stays: its result is used elsewhere, too
// REMARK: the matmul of values stays: query heads share values, whose weights differ
func.func @near_misses(%q: tensor<8x16x1x128xbf16>, %r: tensor<8x32x1x128xbf16>, %x: tensor<8x4096x128xbf16>,
                       %w: tensor<128x1024xbf16>, %u: tensor<128x1024xbf16>)
    -> (tensor<8x16x1x64xbf16>, tensor<8x32x1x64xbf16>, tensor<8x4096x1024xbf16>) {
  %f = tensor.empty() : tensor<8x4096x1024xbf16>
  %g = tensor.empty() : tensor<8x16x4096x64xbf16>
  %out = tensor.empty() : tensor<8x16x1x64xbf16>
  %other = tensor.empty() : tensor<8x32x1x64xbf16>
  %k = tensor.expand_shape %x [[0, 1], [2], [3]] output_shape [8, 1, 4096, 128] : tensor<8x4096x128xbf16> into tensor<8x1x4096x128xbf16>
  %0 = attn.matmul ins(%x, %w : tensor<8x4096x128xbf16>, tensor<128x1024xbf16>) outs(%f : tensor<8x4096x1024xbf16>) -> tensor<8x4096x1024xbf16>
  %1 = tensor.expand_shape %0 [[0], [1], [2, 3]] output_shape [8, 4096, 16, 64] : tensor<8x4096x1024xbf16> into tensor<8x4096x16x64xbf16>
  %v = linalg.transpose ins(%1 : tensor<8x4096x16x64xbf16>) outs(%g : tensor<8x16x4096x64xbf16>) permutation = [0, 2, 1, 3]
  %2 = attn.matmul ins(%x, %u : tensor<8x4096x128xbf16>, tensor<128x1024xbf16>) outs(%f : tensor<8x4096x1024xbf16>) -> tensor<8x4096x1024xbf16>
  %3 = tensor.expand_shape %2 [[0], [1], [2, 3]] output_shape [8, 4096, 16, 64] : tensor<8x4096x1024xbf16> into tensor<8x4096x16x64xbf16>
  %vs = linalg.transpose ins(%3 : tensor<8x4096x16x64xbf16>) outs(%g : tensor<8x16x4096x64xbf16>) permutation = [0, 2, 1, 3]
  %a = attn.attention ins(%q, %k, %v : tensor<8x16x1x128xbf16>, tensor<8x1x4096x128xbf16>, tensor<8x16x4096x64xbf16>)
      outs(%out : tensor<8x16x1x64xbf16>) -> tensor<8x16x1x64xbf16>
  %b = attn.attention ins(%r, %k, %vs : tensor<8x32x1x128xbf16>, tensor<8x1x4096x128xbf16>, tensor<8x16x4096x64xbf16>)
      outs(%other : tensor<8x32x1x64xbf16>) -> tensor<8x32x1x64xbf16>
  return %a, %b, %0 : tensor<8x16x1x64xbf16>, tensor<8x32x1x64xbf16>, tensor<8x4096x1024xbf16>
}
