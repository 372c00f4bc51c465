// RUN: attn-opt %s --pass-pipeline='builtin.module(attn_tile.kernel(attn-tile-expand-kv-tile-iterators,canonicalize))' | FileCheck %s

// The number of masked steps and of all that each named mask gives queries 1024 to 1151 of 4096, in tiles of 64 of 8192
// keys. Lengths and positions are constants here, so that the closed forms of the bounds fold.

// CHECK-LABEL: attn_tile.kernel @causal(
// CHECK-DAG:     memref.store %c2, %{{.*}}[%c0]
// CHECK-DAG:     memref.store %c82, %{{.*}}[%c1]
attn_tile.kernel @causal(%steps: memref<2xindex>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %first = arith.constant 1024 : index
  %queries = arith.constant 4096 : index
  %keys = arith.constant 8192 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%c0, %c0) queries(%first, 128) keys(64) lengths(%queries, %keys)
      by(#attn.causal)
  memref.store %masked, %steps[%c0] : memref<2xindex>
  memref.store %count, %steps[%c1] : memref<2xindex>
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @causal_top_left(
// CHECK-DAG:     memref.store %c2, %{{.*}}[%c0]
// CHECK-DAG:     memref.store %c18, %{{.*}}[%c1]
attn_tile.kernel @causal_top_left(%steps: memref<2xindex>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %first = arith.constant 1024 : index
  %queries = arith.constant 4096 : index
  %keys = arith.constant 8192 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%c0, %c0) queries(%first, 128) keys(64) lengths(%queries, %keys)
      by(#attn.causal<alignment = top_left>)
  memref.store %masked, %steps[%c0] : memref<2xindex>
  memref.store %count, %steps[%c1] : memref<2xindex>
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @window(
// CHECK-DAG:     memref.store %c6, %{{.*}}[%c0]
// CHECK-DAG:     memref.store %c7, %{{.*}}[%c1]
attn_tile.kernel @window(%steps: memref<2xindex>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %first = arith.constant 1024 : index
  %queries = arith.constant 4096 : index
  %keys = arith.constant 8192 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%c0, %c0) queries(%first, 128) keys(64) lengths(%queries, %keys)
      by(#attn.sliding_window<left = 200, right = 20, alignment = top_left>)
  memref.store %masked, %steps[%c0] : memref<2xindex>
  memref.store %count, %steps[%c1] : memref<2xindex>
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @window_left(
// CHECK-DAG:     memref.store %c3, %{{.*}}[%c0]
// CHECK-DAG:     memref.store %c116, %{{.*}}[%c1]
attn_tile.kernel @window_left(%steps: memref<2xindex>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %first = arith.constant 1024 : index
  %queries = arith.constant 4096 : index
  %keys = arith.constant 8192 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%c0, %c0) queries(%first, 128) keys(64) lengths(%queries, %keys)
      by(#attn.sliding_window<left = 200, alignment = top_left>)
  memref.store %masked, %steps[%c0] : memref<2xindex>
  memref.store %count, %steps[%c1] : memref<2xindex>
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @window_right(
// CHECK-DAG:     memref.store %c3, %{{.*}}[%c0]
// CHECK-DAG:     memref.store %c20, %{{.*}}[%c1]
attn_tile.kernel @window_right(%steps: memref<2xindex>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %first = arith.constant 1024 : index
  %queries = arith.constant 4096 : index
  %keys = arith.constant 8192 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%c0, %c0) queries(%first, 128) keys(64) lengths(%queries, %keys)
      by(#attn.sliding_window<right = 100, alignment = top_left>)
  memref.store %masked, %steps[%c0] : memref<2xindex>
  memref.store %count, %steps[%c1] : memref<2xindex>
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @window_of_nothing(
// CHECK-DAG:     memref.store %c2, %{{.*}}[%c0]
// CHECK-DAG:     memref.store %c2, %{{.*}}[%c1]
attn_tile.kernel @window_of_nothing(%steps: memref<2xindex>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %first = arith.constant 1024 : index
  %queries = arith.constant 4096 : index
  %keys = arith.constant 8192 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%c0, %c0) queries(%first, 128) keys(64) lengths(%queries, %keys)
      by(#attn.sliding_window<left = 0, right = 0, alignment = top_left>)
  memref.store %masked, %steps[%c0] : memref<2xindex>
  memref.store %count, %steps[%c1] : memref<2xindex>
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @prefix_lm(
// CHECK-DAG:     memref.store %c1, %{{.*}}[%c0]
// CHECK-DAG:     memref.store %c32, %{{.*}}[%c1]
attn_tile.kernel @prefix_lm(%steps: memref<2xindex>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %first = arith.constant 1024 : index
  %queries = arith.constant 4096 : index
  %keys = arith.constant 8192 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%c0, %c0) queries(%first, 128) keys(64) lengths(%queries, %keys)
      by(#attn.prefix_lm<length = 2000, alignment = top_left>)
  memref.store %masked, %steps[%c0] : memref<2xindex>
  memref.store %count, %steps[%c1] : memref<2xindex>
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @dilated(
// CHECK-DAG:     memref.store %c6, %{{.*}}[%c0]
// CHECK-DAG:     memref.store %c6, %{{.*}}[%c1]
attn_tile.kernel @dilated(%steps: memref<2xindex>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %first = arith.constant 1024 : index
  %queries = arith.constant 4096 : index
  %keys = arith.constant 8192 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%c0, %c0) queries(%first, 128) keys(64) lengths(%queries, %keys)
      by(#attn.dilated_window<left = 200, right = 0, dilation = 4, alignment = top_left>)
  memref.store %masked, %steps[%c0] : memref<2xindex>
  memref.store %count, %steps[%c1] : memref<2xindex>
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @block_diagonal(
// CHECK-DAG:     memref.store %c1, %{{.*}}[%c0]
// CHECK-DAG:     memref.store %c4, %{{.*}}[%c1]
attn_tile.kernel @block_diagonal(%steps: memref<2xindex>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %first = arith.constant 1024 : index
  %queries = arith.constant 4096 : index
  %keys = arith.constant 8192 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%c0, %c0) queries(%first, 128) keys(64) lengths(%queries, %keys)
      by(#attn.local_blocks<size = 256, before = 0, after = 0, alignment = top_left>)
  memref.store %masked, %steps[%c0] : memref<2xindex>
  memref.store %count, %steps[%c1] : memref<2xindex>
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @block_causal(
// CHECK-DAG:     memref.store %c1, %{{.*}}[%c0]
// CHECK-DAG:     memref.store %c20, %{{.*}}[%c1]
attn_tile.kernel @block_causal(%steps: memref<2xindex>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %first = arith.constant 1024 : index
  %queries = arith.constant 4096 : index
  %keys = arith.constant 8192 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%c0, %c0) queries(%first, 128) keys(64) lengths(%queries, %keys)
      by(#attn.local_blocks<size = 256, after = 0, alignment = top_left>)
  memref.store %masked, %steps[%c0] : memref<2xindex>
  memref.store %count, %steps[%c1] : memref<2xindex>
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @local_blocks(
// CHECK-DAG:     memref.store %c1, %{{.*}}[%c0]
// CHECK-DAG:     memref.store %c12, %{{.*}}[%c1]
attn_tile.kernel @local_blocks(%steps: memref<2xindex>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %first = arith.constant 1024 : index
  %queries = arith.constant 4096 : index
  %keys = arith.constant 8192 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%c0, %c0) queries(%first, 128) keys(64) lengths(%queries, %keys)
      by(#attn.local_blocks<size = 256, before = 1, after = 1, alignment = top_left>)
  memref.store %masked, %steps[%c0] : memref<2xindex>
  memref.store %count, %steps[%c1] : memref<2xindex>
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @chunked(
// CHECK-DAG:     memref.store %c2, %{{.*}}[%c0]
// CHECK-DAG:     memref.store %c2, %{{.*}}[%c1]
attn_tile.kernel @chunked(%steps: memref<2xindex>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %first = arith.constant 1024 : index
  %queries = arith.constant 4096 : index
  %keys = arith.constant 8192 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%c0, %c0) queries(%first, 128) keys(64) lengths(%queries, %keys)
      by(#attn.and<#attn.causal<alignment = top_left>, #attn.local_blocks<size = 512, before = 0, after = 0, alignment = top_left>>)
  memref.store %masked, %steps[%c0] : memref<2xindex>
  memref.store %count, %steps[%c1] : memref<2xindex>
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @global_tokens(
// CHECK-DAG:     memref.store %c1, %{{.*}}[%c0]
// CHECK-DAG:     memref.store %c2, %{{.*}}[%c1]
attn_tile.kernel @global_tokens(%steps: memref<2xindex>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %first = arith.constant 1024 : index
  %queries = arith.constant 4096 : index
  %keys = arith.constant 8192 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%c0, %c0) queries(%first, 128) keys(64) lengths(%queries, %keys)
      by(#attn.global_tokens<count = 100>)
  memref.store %masked, %steps[%c0] : memref<2xindex>
  memref.store %count, %steps[%c1] : memref<2xindex>
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @global_window(
// CHECK-DAG:     memref.store %c5, %{{.*}}[%c0]
// CHECK-DAG:     memref.store %c7, %{{.*}}[%c1]
attn_tile.kernel @global_window(%steps: memref<2xindex>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %first = arith.constant 1024 : index
  %queries = arith.constant 4096 : index
  %keys = arith.constant 8192 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%c0, %c0) queries(%first, 128) keys(64) lengths(%queries, %keys)
      by(#attn.or<#attn.global_tokens<count = 64>, #attn.sliding_window<left = 200, right = 0, alignment = top_left>>)
  memref.store %masked, %steps[%c0] : memref<2xindex>
  memref.store %count, %steps[%c1] : memref<2xindex>
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @complement(
// CHECK-DAG:     memref.store %c5, %{{.*}}[%c0]
// CHECK-DAG:     memref.store %c127, %{{.*}}[%c1]
attn_tile.kernel @complement(%steps: memref<2xindex>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %first = arith.constant 1024 : index
  %queries = arith.constant 4096 : index
  %keys = arith.constant 8192 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%c0, %c0) queries(%first, 128) keys(64) lengths(%queries, %keys)
      by(#attn.not<#attn.sliding_window<left = 200, right = 0, alignment = top_left>>)
  memref.store %masked, %steps[%c0] : memref<2xindex>
  memref.store %count, %steps[%c1] : memref<2xindex>
  attn_tile.return
}

// CHECK-LABEL: attn_tile.kernel @nothing(
// CHECK-DAG:     memref.store %c1, %{{.*}}[%c0]
// CHECK-DAG:     memref.store %c1, %{{.*}}[%c1]
attn_tile.kernel @nothing(%steps: memref<2xindex>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %first = arith.constant 1024 : index
  %queries = arith.constant 4096 : index
  %keys = arith.constant 8192 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%c0, %c0) queries(%first, 128) keys(64) lengths(%queries, %keys)
      by(#attn.none)
  memref.store %masked, %steps[%c0] : memref<2xindex>
  memref.store %count, %steps[%c1] : memref<2xindex>
  attn_tile.return
}

// What nobody uses takes the one step that there always is.
// CHECK-LABEL: attn_tile.kernel @not_needed(
// CHECK-SAME:    %[[STEPS:[a-z0-9]+]]: memref<2xindex>, %[[NEEDED:[a-z0-9]+]]: i1
// CHECK-DAG:     %[[COUNT:.*]] = arith.select %[[NEEDED]], %c82, %c1
// CHECK-DAG:     %[[MASKED:.*]] = arith.select %[[NEEDED]], %c2, %c1
// CHECK-DAG:     memref.store %[[MASKED]], %[[STEPS]][%c0]
// CHECK-DAG:     memref.store %[[COUNT]], %[[STEPS]][%c1]
attn_tile.kernel @not_needed(%steps: memref<2xindex>, %needed: i1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %first = arith.constant 1024 : index
  %queries = arith.constant 4096 : index
  %keys = arith.constant 8192 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%c0, %c0) queries(%first, 128) keys(64) lengths(%queries, %keys)
      by(#attn.causal) if(%needed)
  memref.store %masked, %steps[%c0] : memref<2xindex>
  memref.store %count, %steps[%c1] : memref<2xindex>
  attn_tile.return
}

// The sides of a window may be values of the kernel.
// CHECK-LABEL: attn_tile.kernel @window_of_values(
// CHECK-SAME:    %[[STEPS:[a-z0-9]+]]: memref<2xindex>, %[[LEFT:[a-z0-9]+]]: index
// CHECK-NOT:     attn_tile.kv_tile_iterator
// CHECK:         %[[FIRST:.*]] = arith.subi %c1024, %[[LEFT]]
// CHECK:         %[[KEY:.*]] = arith.maxsi %[[FIRST]], %c0
// CHECK:         %[[BEGIN:.*]] = arith.minsi %[[KEY]]
// CHECK:         arith.divui %[[BEGIN]], %c64
// CHECK:         memref.store %{{[^c].*}}, %[[STEPS]][%c1]
attn_tile.kernel @window_of_values(%steps: memref<2xindex>, %left: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %first = arith.constant 1024 : index
  %queries = arith.constant 4096 : index
  %keys = arith.constant 8192 : index
  %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%c0, %c0) queries(%first, 128) keys(64) lengths(%queries, %keys) mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %begin = arith.subi %i, %left : index
    %after = arith.cmpi sge, %j, %begin : index
    %before = arith.cmpi sle, %j, %i : index
    %both = arith.andi %after, %before : i1
    attn_tile.yield %both : i1
  }
  memref.store %masked, %steps[%c0] : memref<2xindex>
  memref.store %count, %steps[%c1] : memref<2xindex>
  attn_tile.return
}
