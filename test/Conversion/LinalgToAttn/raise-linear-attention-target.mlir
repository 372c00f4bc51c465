// RUN: attn-opt %s --attn-raise-linalg=target=sm_90a --split-input-file --verify-diagnostics \
// RUN:   --remarks-filter=attn-raise-linalg --remark-format=emitRemark
// RUN: attn-opt %s --attn-raise-linalg=target=host --split-input-file | FileCheck %s
// RUN: not attn-opt %s --attn-raise-linalg=target=sm_12 --split-input-file 2>&1 \
// RUN:   | FileCheck %s --check-prefix=UNKNOWN

// Linear attention is found where the target has kernels for it.

// CHECK-COUNT-4: attn.linear_attention
// UNKNOWN: error: {{.*}}sm_12

#all = affine_map<(h, i, j) -> (h, i, j)>

func.func @on_gpus(%q: tensor<2x32x8xf32>, %k: tensor<2x8x32xf32>, %v: tensor<2x32x8xf32>) -> tensor<2x32x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x32x32xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x32x8xf32>, tensor<2x8x32xf32>)
      outs(%s0 : tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
  %w = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s : tensor<2x32x32xf32>) outs(%e : tensor<2x32x32xf32>) {
  ^bb0(%a: f32, %out: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = arith.cmpi ule, %j, %i : index
    %0 = arith.select %c, %a, %zero : f32
    linalg.yield %0 : f32
  } -> tensor<2x32x32xf32>
  %oe = tensor.empty() : tensor<2x32x8xf32>
  %z = arith.constant 0.0 : f32
  %o0 = linalg.fill ins(%z : f32) outs(%oe : tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  // expected-remark @below {{raised causal linear attention of 2 query heads}}
  %o = linalg.batch_matmul ins(%w, %v : tensor<2x32x32xf32>, tensor<2x32x8xf32>)
      outs(%o0 : tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  return %o : tensor<2x32x8xf32>
}

// -----

#all = affine_map<(h, i, j) -> (h, i, j)>

func.func @wide_heads_in_f32(%q: tensor<2x256x200xf32>, %k: tensor<2x200x256xf32>, %v: tensor<2x256x200xf32>) -> tensor<2x256x200xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x256x256xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x256x256xf32>) -> tensor<2x256x256xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x256x200xf32>, tensor<2x200x256xf32>)
      outs(%s0 : tensor<2x256x256xf32>) -> tensor<2x256x256xf32>
  %w = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s : tensor<2x256x256xf32>) outs(%e : tensor<2x256x256xf32>) {
  ^bb0(%a: f32, %out: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = arith.cmpi ule, %j, %i : index
    %0 = arith.select %c, %a, %zero : f32
    linalg.yield %0 : f32
  } -> tensor<2x256x256xf32>
  %oe = tensor.empty() : tensor<2x256x200xf32>
  %z = arith.constant 0.0 : f32
  %o0 = linalg.fill ins(%z : f32) outs(%oe : tensor<2x256x200xf32>) -> tensor<2x256x200xf32>
  // expected-remark @below {{no linear attention: kernels of linear attention on sm_90a do not have the head dim 200 in f32}}
  %o = linalg.batch_matmul ins(%w, %v : tensor<2x256x256xf32>, tensor<2x256x200xf32>)
      outs(%o0 : tensor<2x256x200xf32>) -> tensor<2x256x200xf32>
  return %o : tensor<2x256x200xf32>
}

// -----

#all = affine_map<(h, i, j) -> (h, i, j)>

func.func @used_as_f32(%q: tensor<2x32x8xbf16>, %k: tensor<2x8x32xbf16>, %v: tensor<2x32x8xbf16>)
    -> tensor<2x32x8xf32> {
  %zero = arith.constant 0.0 : bf16
  %e = tensor.empty() : tensor<2x32x32xbf16>
  %s0 = linalg.fill ins(%zero : bf16) outs(%e : tensor<2x32x32xbf16>) -> tensor<2x32x32xbf16>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x32x8xbf16>, tensor<2x8x32xbf16>)
      outs(%s0 : tensor<2x32x32xbf16>) -> tensor<2x32x32xbf16>
  %w = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s : tensor<2x32x32xbf16>) outs(%e : tensor<2x32x32xbf16>) {
  ^bb0(%a: bf16, %out: bf16):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = arith.cmpi ule, %j, %i : index
    %0 = arith.select %c, %a, %zero : bf16
    linalg.yield %0 : bf16
  } -> tensor<2x32x32xbf16>
  %oe = tensor.empty() : tensor<2x32x8xf32>
  %z = arith.constant 0.0 : f32
  %o0 = linalg.fill ins(%z : f32) outs(%oe : tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  // expected-remark @below {{no linear attention: kernels of linear attention on sm_90a round their result to bf16, and it is used as f32}}
  %o = linalg.batch_matmul ins(%w, %v : tensor<2x32x32xbf16>, tensor<2x32x8xbf16>)
      outs(%o0 : tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  return %o : tensor<2x32x8xf32>
}

// -----

#all = affine_map<(h, i, j) -> (h, i, j)>

func.func @head_dim(%q: tensor<2x32x12xbf16>, %k: tensor<2x12x32xbf16>, %v: tensor<2x32x12xbf16>)
    -> tensor<2x32x12xbf16> {
  %zero = arith.constant 0.0 : bf16
  %e = tensor.empty() : tensor<2x32x32xbf16>
  %s0 = linalg.fill ins(%zero : bf16) outs(%e : tensor<2x32x32xbf16>) -> tensor<2x32x32xbf16>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x32x12xbf16>, tensor<2x12x32xbf16>)
      outs(%s0 : tensor<2x32x32xbf16>) -> tensor<2x32x32xbf16>
  %w = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s : tensor<2x32x32xbf16>) outs(%e : tensor<2x32x32xbf16>) {
  ^bb0(%a: bf16, %out: bf16):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = arith.cmpi ule, %j, %i : index
    %0 = arith.select %c, %a, %zero : bf16
    linalg.yield %0 : bf16
  } -> tensor<2x32x32xbf16>
  %oe = tensor.empty() : tensor<2x32x12xbf16>
  %z = arith.constant 0.0 : bf16
  %o0 = linalg.fill ins(%z : bf16) outs(%oe : tensor<2x32x12xbf16>) -> tensor<2x32x12xbf16>
  // expected-remark @below {{no linear attention: kernels of linear attention on sm_90a do not have the head dim 12 in bf16}}
  %o = linalg.batch_matmul ins(%w, %v : tensor<2x32x32xbf16>, tensor<2x32x12xbf16>)
      outs(%o0 : tensor<2x32x12xbf16>) -> tensor<2x32x12xbf16>
  return %o : tensor<2x32x12xbf16>
}
