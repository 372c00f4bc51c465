// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=sm_90a}))' | FileCheck %s --check-prefix=GPU
// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=sm_80}))' | FileCheck %s --check-prefix=GPU
// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=host}))' | FileCheck %s --check-prefix=HOST

// GPU:  attn.ancestor_map {{.*}} schedule(#attn_tile.scalar)
// HOST: attn.ancestor_map {{.*}} schedule(#attn_tile.sequential<query_tile = 1, key_tile = 8>)
func.func @tree(%x: memref<1x?xi32>, %t: memref<1x?x?xi32>) {
  attn.ancestor_map ins(%x : memref<1x?xi32>) outs(%t : memref<1x?x?xi32>)
  return
}
