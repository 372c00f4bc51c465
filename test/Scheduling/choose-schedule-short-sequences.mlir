// RUN: attn-opt %s --attn-choose-schedule=target=sm_90a --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-choose-schedule=target=sm_80 --split-input-file | FileCheck %s --check-prefix=SM80

// Packed queries with keys in a KV cache: most sequences of a batch may have one query. Then the query heads of a key head
// are rows of tiles, and splits of the keys are listed.

// CHECK-LABEL: func.func @chunks
// CHECK: schedule(#attn.by_query_length<bound = 16,
// CHECK-SAME: below = #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, traversal = grid, interleave = 0,
// CHECK-SAME:     split_kv_work_items = 132, pack_gqa = true, l2_promotion = 128, ctas_per_sm = 2>,
// CHECK-SAME: from = #attn.by_query_length<bound = 128,
// CHECK-SAME:     below = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2,
// CHECK-SAME:         traversal = grid, interleave = 0, {{.*}}split_kv_work_items = 66, pack_gqa = true>,
// CHECK-SAME:     from = #attn_tile.warp_specialized<query_tile = 128, {{.*}}traversal = paired
// CHECK-NOT:  pack_gqa
// SM80-LABEL: func.func @chunks
// SM80: schedule(#attn.by_query_length<bound = 64, below = #attn_tile.multistage<query_tile = 64, {{.*}}split_kv_work_items = 216, pack_gqa = true>,
// SM80-SAME: from = #attn_tile.multistage<
func.func @chunks(%q: tensor<1x32x?x128xbf16>, %k: tensor<?x8x64x128xbf16>, %o: tensor<1x32x?x128xbf16>,
                  %cu: tensor<?xi32>, %n: tensor<?xi32>, %t: tensor<?x?xi32>) -> tensor<1x32x?x128xbf16> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x32x?x128xbf16>, tensor<?x8x64x128xbf16>, tensor<?x8x64x128xbf16>)
      outs(%o : tensor<1x32x?x128xbf16>) sequences packed_queries(%cu, %n : tensor<?xi32>, tensor<?xi32>)
      page_table(%t : tensor<?x?xi32>) mask(#attn.causal) -> tensor<1x32x?x128xbf16>
  return %0 : tensor<1x32x?x128xbf16>
}

// -----

// Without groups of heads, only splits.

// CHECK-LABEL: func.func @heads
// CHECK: schedule(#attn.by_query_length<bound = 16, below = #attn_tile.warp_specialized<query_tile = 64, {{.*}}split_kv_work_items = 132,
// CHECK-NOT:  pack_gqa
// CHECK-SAME: from = #attn.by_query_length<bound = 128, {{.*}}split_kv_work_items = 66>, from = #attn.by_query_length<bound = 3072,
// CHECK-NOT:  pack_gqa
// SM80-LABEL: func.func @heads
// SM80: schedule(#attn.by_query_length<bound = 64, below = #attn_tile.multistage<query_tile = 64, {{.*}}split_kv_work_items = 216>,
func.func @heads(%q: tensor<1x8x?x64xf16>, %k: tensor<?x8x64x64xf16>, %o: tensor<1x8x?x64xf16>,
                 %cu: tensor<?xi32>, %n: tensor<?xi32>, %t: tensor<?x?xi32>) -> tensor<1x8x?x64xf16> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x8x?x64xf16>, tensor<?x8x64x64xf16>, tensor<?x8x64x64xf16>)
      outs(%o : tensor<1x8x?x64xf16>) sequences packed_queries(%cu, %n : tensor<?xi32>, tensor<?xi32>)
      page_table(%t : tensor<?x?xi32>) mask(#attn.causal) -> tensor<1x8x?x64xf16>
  return %0 : tensor<1x8x?x64xf16>
}

// -----

// Packed queries stay in registers, which leave too few for tiles of keys at a head dim of 256.

// CHECK-LABEL: func.func @wide
// CHECK-NOT: by_query_length
// CHECK: schedule(#attn_tile.warp_specialized<query_tile = 128
func.func @wide(%q: tensor<1x8x?x256xf16>, %k: tensor<?x2x?x256xf16>, %o: tensor<1x8x?x256xf16>,
                %cu: tensor<?xi32>, %n: tensor<?xi32>) -> tensor<1x8x?x256xf16> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x8x?x256xf16>, tensor<?x2x?x256xf16>, tensor<?x2x?x256xf16>)
      outs(%o : tensor<1x8x?x256xf16>) sequences packed_queries(%cu, %n : tensor<?xi32>, tensor<?xi32>)
      -> tensor<1x8x?x256xf16>
  return %0 : tensor<1x8x?x256xf16>
}

// -----

// Sequences whose keys are packed, too, as in training, have one schedule for all lengths.

// CHECK-LABEL: func.func @training
// CHECK-NOT: pack_gqa
// CHECK-NOT: split_kv_work_items
// CHECK: return
func.func @training(%q: tensor<1x8x?x128xbf16>, %k: tensor<1x2x?x128xbf16>, %o: tensor<1x8x?x128xbf16>, %cu: tensor<?xi32>) -> tensor<1x8x?x128xbf16> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x8x?x128xbf16>, tensor<1x2x?x128xbf16>, tensor<1x2x?x128xbf16>)
      outs(%o : tensor<1x8x?x128xbf16>) sequences packed(%cu, %cu : tensor<?xi32>, tensor<?xi32>) mask(#attn.causal)
      -> tensor<1x8x?x128xbf16>
  return %0 : tensor<1x8x?x128xbf16>
}

// -----

// Query heads with a key head of their own cannot share tiles.

// CHECK-LABEL: func.func @head_map
// CHECK-NOT: pack_gqa
// CHECK: return
func.func @head_map(%q: tensor<1x8x?x128xbf16>, %k: tensor<?x2x64x128xbf16>, %o: tensor<1x8x?x128xbf16>, %cu: tensor<?xi32>,
                    %n: tensor<?xi32>, %t: tensor<?x?xi32>, %m: tensor<8xi32>) -> tensor<1x8x?x128xbf16> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x8x?x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>)
      outs(%o : tensor<1x8x?x128xbf16>) heads(%m : tensor<8xi32>)
      sequences packed_queries(%cu, %n : tensor<?xi32>, tensor<?xi32>) page_table(%t : tensor<?x?xi32>) -> tensor<1x8x?x128xbf16>
  return %0 : tensor<1x8x?x128xbf16>
}
