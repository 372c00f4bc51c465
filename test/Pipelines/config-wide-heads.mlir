// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=sm_90a}))' | FileCheck %s --check-prefixes=CHECK,SM90
// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=sm_80}))' | FileCheck %s --check-prefixes=CHECK,SM80
// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=host}))' | FileCheck %s --check-prefixes=CHECK,HOST

// Head dims beyond 256: work items multiply a part of the value head dim.

// CHECK-LABEL: @d512(
// SM90: #attn_tile.warp_specialized<query_tile = 128, key_tile = 32, stages = 2, consumers = 2, {{.*}}head_dim_tile = 256>
// SM80: #attn_tile.multistage<query_tile = 64, key_tile = {{.*}}, head_dim_tile = 256>
// HOST: #attn_tile.sequential<
func.func @d512(%q: memref<?x16x?x512xbf16>, %o: memref<?x16x?x512xbf16>) {
  attn.attention ins(%q, %q, %q : memref<?x16x?x512xbf16>, memref<?x16x?x512xbf16>, memref<?x16x?x512xbf16>)
      outs(%o : memref<?x16x?x512xbf16>)
  return
}

// Kernels of their gradients compute tiles of columns.

// CHECK-LABEL: @gradient_d512(
// SM90: dkdv = #attn_tile.key_stationary<query_tile = 48, key_tile = 64, stages = 1, consumers = 2, head_dim_tile = 256, consumer_columns = true>
// SM90-SAME: dq = #attn_tile.warp_specialized<query_tile = 64, key_tile = 48, stages = 1, consumers = 2, ping_pong = true,
// SM90-SAME:   head_dim_tile = 256, consumer_columns = true>
// SM90-SAME: dv = #attn_tile.key_stationary<{{.*}}, head_dim_tile = 256>
// SM80: dkdv = #attn_tile.key_multistage<query_tile = 16, key_tile = 32, stages = 2, warps = 2, head_dim_tile = 256>
// SM80-SAME: dq = #attn_tile.multistage<query_tile = 32, key_tile = 16, stages = 2, warps = 2, head_dim_tile = 256>
// SM80-SAME: dv = #attn_tile.key_multistage<{{.*}}, head_dim_tile = 256>
// HOST: #attn_tile.sequential<
func.func @gradient_d512(%q: memref<?x16x?x512xbf16>, %lse: memref<?x16x?xf32>) {
  attn.attention_grad ins(%q, %q, %q, %q, %lse, %q : memref<?x16x?x512xbf16>, memref<?x16x?x512xbf16>,
          memref<?x16x?x512xbf16>, memref<?x16x?x512xbf16>, memref<?x16x?xf32>, memref<?x16x?x512xbf16>)
      outs(%q, %q, %q : memref<?x16x?x512xbf16>, memref<?x16x?x512xbf16>, memref<?x16x?x512xbf16>)
  return
}

// Values that are the first elements of keys: consumers of one work item compute
// columns of the output.

// CHECK-LABEL: @latent_decoding(
// SM90: query_tile = 64, key_tile = 64, stages = 2, consumers = 2, {{.*}}pack_gqa = true, {{.*}}head_dim_tile = 256, consumer_columns = true>
// SM80: #attn_tile.multistage<
// SM80-NOT: consumer_columns
// HOST: #attn_tile.sequential<
func.func @latent_decoding(%q: tensor<4x16x1x576xbf16>, %k: tensor<4x1x8192x576xbf16>, %o: tensor<4x16x1x512xbf16>)
    -> tensor<4x16x1x512xbf16> {
  %v = tensor.extract_slice %k[0, 0, 0, 0] [4, 1, 8192, 512] [1, 1, 1, 1] : tensor<4x1x8192x576xbf16> to tensor<4x1x8192x512xbf16>
  %r = attn.attention ins(%q, %k, %v : tensor<4x16x1x576xbf16>, tensor<4x1x8192x576xbf16>, tensor<4x1x8192x512xbf16>)
      outs(%o : tensor<4x16x1x512xbf16>) -> tensor<4x16x1x512xbf16>
  return %r : tensor<4x16x1x512xbf16>
}

// Values that begin at another element are not.

// CHECK-LABEL: @other_elements(
// CHECK-NOT: consumer_columns
// CHECK: return
func.func @other_elements(%q: tensor<4x16x1x576xbf16>, %k: tensor<4x1x8192x576xbf16>, %o: tensor<4x16x1x512xbf16>)
    -> tensor<4x16x1x512xbf16> {
  %v = tensor.extract_slice %k[0, 0, 0, 64] [4, 1, 8192, 512] [1, 1, 1, 1] : tensor<4x1x8192x576xbf16> to tensor<4x1x8192x512xbf16>
  %r = attn.attention ins(%q, %k, %v : tensor<4x16x1x576xbf16>, tensor<4x1x8192x576xbf16>, tensor<4x1x8192x512xbf16>)
      outs(%o : tensor<4x16x1x512xbf16>) -> tensor<4x16x1x512xbf16>
  return %r : tensor<4x16x1x512xbf16>
}
