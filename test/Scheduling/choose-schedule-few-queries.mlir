// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=sm_90a}))' | FileCheck %s
// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=sm_90a}))' \
// RUN:   --remarks-filter='.*' --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// One query for each head of a group: keys are split, and heads are rows of a tile.
// CHECK-LABEL: @decode(
// CHECK: #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, traversal = grid, split_kv_work_items = 132, pack_gqa = true,
// CHECK-SAME:     {{^}} l2_promotion = 128, ctas_per_sm = 2>
// REMARK: split_kv_work_items = 132, pack_gqa = true, l2_promotion = 128, ctas_per_sm = 2>: key tile 64 of {{[0-9]+}} schedules that fit,
// REMARK-SAME:     estimated 6{{[0-9]}} us for 1 queries
func.func @decode(%q: memref<1x32x1x128xbf16>, %k: memref<1x8x65536x128xbf16>, %o: memref<1x32x1x128xbf16>) {
  attn.attention ins(%q, %k, %k : memref<1x32x1x128xbf16>, memref<1x8x65536x128xbf16>, memref<1x8x65536x128xbf16>)
      outs(%o : memref<1x32x1x128xbf16>)
  return
}

// Sinks of the heads are rows of the tile, too.
// CHECK-LABEL: @decode_sinks(
// CHECK: split_kv_work_items = 132, pack_gqa = true, l2_promotion = 128, ctas_per_sm = 2>
func.func @decode_sinks(%q: memref<1x32x1x128xbf16>, %k: memref<1x8x65536x128xbf16>, %o: memref<1x32x1x128xbf16>, %sinks: memref<32xf32>) {
  attn.attention ins(%q, %k, %k : memref<1x32x1x128xbf16>, memref<1x8x65536x128xbf16>, memref<1x8x65536x128xbf16>)
      outs(%o : memref<1x32x1x128xbf16>) sinks(%sinks : memref<32xf32>)
  return
}

// So are several queries of each head.
// CHECK-LABEL: @speculative(
// CHECK: split_kv_work_items = 132, pack_gqa = true, l2_promotion = 128, ctas_per_sm = 2>
// REMARK: pack_gqa = true, {{.*}} estimated 7{{[0-9]}} us for 16 queries
func.func @speculative(%q: memref<1x32x16x128xbf16>, %k: memref<1x8x65536x128xbf16>, %o: memref<1x32x16x128xbf16>) {
  attn.attention ins(%q, %k, %k : memref<1x32x16x128xbf16>, memref<1x8x65536x128xbf16>, memref<1x8x65536x128xbf16>)
      outs(%o : memref<1x32x16x128xbf16>) mask(#attn.causal)
  return
}

// With 64 queries each head has a tile of its own.
// CHECK-LABEL: @whole_tiles(
// CHECK-NOT: pack_gqa
// CHECK: return
func.func @whole_tiles(%q: memref<1x32x64x128xbf16>, %k: memref<1x8x65536x128xbf16>, %o: memref<1x32x64x128xbf16>) {
  attn.attention ins(%q, %k, %k : memref<1x32x64x128xbf16>, memref<1x8x65536x128xbf16>, memref<1x8x65536x128xbf16>)
      outs(%o : memref<1x32x64x128xbf16>)
  return
}

// The number of splits is computed when it runs.
// CHECK-LABEL: @decode_dynamic(
// CHECK: split_kv_work_items = 132, pack_gqa = true, l2_promotion = 128, ctas_per_sm = 2>
func.func @decode_dynamic(%q: memref<?x32x1x128xbf16>, %k: memref<?x8x?x128xbf16>, %o: memref<?x32x1x128xbf16>) {
  attn.attention ins(%q, %k, %k : memref<?x32x1x128xbf16>, memref<?x8x?x128xbf16>, memref<?x8x?x128xbf16>)
      outs(%o : memref<?x32x1x128xbf16>) mask(#attn.causal)
  return
}

// Head dim 64 has larger tiles, head dim 256 one CTA on an SM.
// CHECK-LABEL: @decode_d64(
// CHECK: key_tile = 128, {{.*}}, pack_gqa = true, l2_promotion = 128, ctas_per_sm = 2>
func.func @decode_d64(%q: memref<1x32x1x64xbf16>, %k: memref<1x8x65536x64xbf16>, %o: memref<1x32x1x64xbf16>) {
  attn.attention ins(%q, %k, %k : memref<1x32x1x64xbf16>, memref<1x8x65536x64xbf16>, memref<1x8x65536x64xbf16>)
      outs(%o : memref<1x32x1x64xbf16>)
  return
}

// CHECK-LABEL: @decode_d256(
// CHECK: key_tile = 64, {{.*}}, pack_gqa = true, l2_promotion = 128>
func.func @decode_d256(%q: memref<1x32x1x256xbf16>, %k: memref<1x8x65536x256xbf16>, %o: memref<1x32x1x256xbf16>) {
  attn.attention ins(%q, %k, %k : memref<1x32x1x256xbf16>, memref<1x8x65536x256xbf16>, memref<1x8x65536x256xbf16>)
      outs(%o : memref<1x32x1x256xbf16>)
  return
}

// The work of a score_mod is small compared with the reads.
// CHECK-LABEL: @decode_slopes(
// CHECK: key_tile = 64, {{.*}}, split_kv_work_items = 132, pack_gqa = true, l2_promotion = 128, ctas_per_sm = 2>
func.func @decode_slopes(%q: memref<1x32x1x128xbf16>, %k: memref<1x8x65536x128xbf16>, %o: memref<1x32x1x128xbf16>, %slopes: memref<32xf32>) {
  attn.attention ins(%q, %k, %k : memref<1x32x1x128xbf16>, memref<1x8x65536x128xbf16>, memref<1x8x65536x128xbf16>)
      outs(%o : memref<1x32x1x128xbf16>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %slope = memref.load %slopes[%h] : memref<32xf32>
        %r = arith.mulf %s, %slope : f32
        attn.yield %r : f32
      }
  return
}

// An epilogue forbids neither: the kernel that combines the splits applies it.
// CHECK-LABEL: @decode_epilogue(
// CHECK: #attn_tile.warp_specialized<query_tile = 64, {{.*}}consumers = 1{{.*}}split_kv_work_items = {{[1-9][0-9]*}}, pack_gqa = true
func.func @decode_epilogue(%q: memref<1x32x1x128xbf16>, %k: memref<1x8x65536x128xbf16>, %o: memref<1x32x1x128xbf16>) {
  attn.attention ins(%q, %k, %k : memref<1x32x1x128xbf16>, memref<1x8x65536x128xbf16>, memref<1x8x65536x128xbf16>)
      outs(%o : memref<1x32x1x128xbf16>)
      epilogue {
      ^bb0(%x: f32, %b: index, %h: index, %i: index, %d: index):
        %y = arith.negf %x : f32
        attn.yield %y : f32
      }
  return
}

// A short sequence has smaller tiles of queries; sharing its keys would take longer.
// CHECK-LABEL: @short(
// CHECK: #attn_tile.warp_specialized<query_tile = 64, {{.*}}consumers = 1
// CHECK-NOT: split_kv_work_items
func.func @short(%q: memref<1x8x1024x128xbf16>, %o: memref<1x8x1024x128xbf16>) {
  attn.attention ins(%q, %q, %q : memref<1x8x1024x128xbf16>, memref<1x8x1024x128xbf16>, memref<1x8x1024x128xbf16>)
      outs(%o : memref<1x8x1024x128xbf16>)
  return
}

// With many keys sharing them is worth the merge.
// CHECK-LABEL: @many_keys(
// CHECK: split_kv_work_items = 132
func.func @many_keys(%q: memref<1x8x256x128xbf16>, %k: memref<1x8x16384x128xbf16>, %o: memref<1x8x256x128xbf16>) {
  attn.attention ins(%q, %k, %k : memref<1x8x256x128xbf16>, memref<1x8x16384x128xbf16>, memref<1x8x16384x128xbf16>)
      outs(%o : memref<1x8x256x128xbf16>)
  return
}

// Few tiles of queries with a bias that pipes may bring: candidates with shared
// keys have both forms, too.
// CHECK-LABEL: @few_tiles_bias(
// CHECK: schedule(#attn_tile.by_alignment<aligned = #attn_tile.warp_specialized<query_tile = {{[0-9]+}}, key_tile = 128, stages = 2, consumers = 1,
// CHECK-SAME:     score_stages = 2>, otherwise =
func.func @few_tiles_bias(%q: tensor<1x8x512x64xbf16>, %bias: tensor<512x512xbf16>, %o: tensor<1x8x512x64xbf16>)
    -> tensor<1x8x512x64xbf16> {
  %0 = attn.attention ins(%q, %q, %q : tensor<1x8x512x64xbf16>, tensor<1x8x512x64xbf16>, tensor<1x8x512x64xbf16>)
      outs(%o : tensor<1x8x512x64xbf16>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %bias[%i, %j] : tensor<512x512xbf16>
        %y = arith.extf %x : bf16 to f32
        %z = arith.addf %s, %y : f32
        attn.yield %z : f32
      } -> tensor<1x8x512x64xbf16>
  return %0 : tensor<1x8x512x64xbf16>
}

// Nodes of a tree, the last keys of a KV cache, read a table of their ancestors: the kernel masks the last tiles by it.
// CHECK-LABEL: @cached_tree(
// CHECK: split_kv_work_items = 132, pack_gqa = true, balance_splits = true, l2_promotion = 128, ctas_per_sm = 2>
func.func @cached_tree(%q: memref<?x32x8x128xbf16>, %k: memref<?x8x64x128xbf16>, %o: memref<?x32x8x128xbf16>,
                       %lengths: memref<?xi32>, %table: memref<?x?xi32>, %above: memref<?x8x1xi32>) {
  %queries = arith.constant 8 : index
  %c0 = arith.constant 0 : index
  attn.attention ins(%q, %k, %k : memref<?x32x8x128xbf16>, memref<?x8x64x128xbf16>, memref<?x8x64x128xbf16>)
      outs(%o : memref<?x32x8x128xbf16>) key_lengths(%lengths : memref<?xi32>) page_table(%table : memref<?x?xi32>)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %length = memref.load %lengths[%b] : memref<?xi32>
        %keys = arith.index_cast %length : i32 to index
        %prefix = arith.subi %keys, %queries : index
        %before = arith.cmpi slt, %j, %prefix : index
        %node = arith.subi %j, %prefix : index
        %bit = arith.index_cast %node : index to i32
        %word = memref.load %above[%b, %i, %c0] : memref<?x8x1xi32>
        %shifted = arith.shrui %word, %bit : i32
        %above_bit = arith.trunci %shifted : i32 to i1
        %keep = arith.ori %before, %above_bit : i1
        attn.yield %keep : i1
      }
  return
}

// Without lengths, kernels list the tiles of the packed rows.
// CHECK-LABEL: @tree(
// CHECK: split_kv_work_items = 132, pack_gqa = true, l2_promotion = 128, ctas_per_sm = 2>
func.func @tree(%q: memref<1x32x8x128xbf16>, %k: memref<1x8x65536x128xbf16>, %o: memref<1x32x8x128xbf16>, %above: memref<8x8xi1>) {
  %prefix = arith.constant 65528 : index
  attn.attention ins(%q, %k, %k : memref<1x32x8x128xbf16>, memref<1x8x65536x128xbf16>, memref<1x8x65536x128xbf16>)
      outs(%o : memref<1x32x8x128xbf16>)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %before = arith.cmpi slt, %j, %prefix : index
        %node = arith.subi %j, %prefix : index
        %bit = memref.load %above[%i, %node] : memref<8x8xi1>
        %keep = arith.ori %before, %bit : i1
        attn.yield %keep : i1
      }
  return
}
