// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=sm_90a}))' | FileCheck %s
// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=sm_90a}))' \
// RUN:   --remarks-filter='.*' --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// What is chosen for one producer and two or three consumer warpgroups.

// CHECK-LABEL: @d64(
// CHECK: #attn_tile.warp_specialized<query_tile = 192, key_tile = 128, stages = 2, consumers = 3, ping_pong = true, conditional_rescale = true,
// CHECK-SAME:     {{^}} deferred_rescale = true, query_stages = 2>
// REMARK: key tile 128 of 16 schedules that fit, estimated {{[0-9]+}} us for 16384 queries
func.func @d64(%q: memref<?x16x?x64xbf16>, %k: memref<?x16x?x64xbf16>, %v: memref<?x16x?x64xbf16>, %o: memref<?x16x?x64xbf16>) {
  attn.attention ins(%q, %k, %v : memref<?x16x?x64xbf16>, memref<?x16x?x64xbf16>, memref<?x16x?x64xbf16>)
      outs(%o : memref<?x16x?x64xbf16>)
  return
}

// CHECK-LABEL: @d64_causal(
// CHECK: #attn.by_query_length<bound = 1536, below = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2,
// CHECK-SAME: from = #attn_tile.warp_specialized<query_tile = 192, key_tile = 128, stages = 2, consumers = 3,
// REMARK: for 1024 queries; from 1536 queries on key tile 128 of 16 schedules that fit
func.func @d64_causal(%q: memref<?x16x?x64xbf16>, %k: memref<?x16x?x64xbf16>, %v: memref<?x16x?x64xbf16>, %o: memref<?x16x?x64xbf16>) {
  attn.attention ins(%q, %k, %v : memref<?x16x?x64xbf16>, memref<?x16x?x64xbf16>, memref<?x16x?x64xbf16>)
      outs(%o : memref<?x16x?x64xbf16>) mask(#attn.causal)
  return
}

// A static length needs no choice at run time.
// CHECK-LABEL: @d64_causal_static(
// CHECK: schedule(#attn_tile.warp_specialized<query_tile = 192
func.func @d64_causal_static(%q: memref<8x16x4096x64xbf16>, %k: memref<8x16x?x64xbf16>, %v: memref<8x16x?x64xbf16>, %o: memref<8x16x4096x64xbf16>) {
  attn.attention ins(%q, %k, %v : memref<8x16x4096x64xbf16>, memref<8x16x?x64xbf16>, memref<8x16x?x64xbf16>)
      outs(%o : memref<8x16x4096x64xbf16>) mask(#attn.causal)
  return
}

// CHECK-LABEL: @d128(
// CHECK: schedule(#attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2, ping_pong = true, conditional_rescale = true,
// CHECK-SAME:     {{^}} deferred_rescale = true, query_stages = 2>
// REMARK: key tile 128 of 10 schedules that fit
func.func @d128(%q: memref<?x16x?x128xf16>, %k: memref<?x16x?x128xf16>, %v: memref<?x16x?x128xf16>, %o: memref<?x16x?x128xf16>) {
  attn.attention ins(%q, %k, %v : memref<?x16x?x128xf16>, memref<?x16x?x128xf16>, memref<?x16x?x128xf16>)
      outs(%o : memref<?x16x?x128xf16>)
  return
}

// CHECK-LABEL: @d128_causal(
// CHECK: #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2, ping_pong = true, traversal = paired,
// CHECK-SAME:     {{^}} conditional_rescale = true, deferred_rescale = true, query_stages = 2>
func.func @d128_causal(%q: memref<?x16x?x128xbf16>, %k: memref<?x16x?x128xbf16>, %v: memref<?x16x?x128xbf16>, %o: memref<?x16x?x128xbf16>) {
  attn.attention ins(%q, %k, %v : memref<?x16x?x128xbf16>, memref<?x16x?x128xbf16>, memref<?x16x?x128xbf16>)
      outs(%o : memref<?x16x?x128xbf16>) mask(#attn.causal)
  return
}

// CHECK-LABEL: @d256(
// CHECK: #attn_tile.warp_specialized<query_tile = 128, key_tile = 80, stages = 2, consumers = 2, ping_pong = true, conditional_rescale = true>
// REMARK: key tile 80 of 2 schedules that fit
func.func @d256(%q: memref<?x16x?x256xbf16>, %k: memref<?x16x?x256xbf16>, %v: memref<?x16x?x256xbf16>, %o: memref<?x16x?x256xbf16>) {
  attn.attention ins(%q, %k, %v : memref<?x16x?x256xbf16>, memref<?x16x?x256xbf16>, memref<?x16x?x256xbf16>)
      outs(%o : memref<?x16x?x256xbf16>)
  return
}

// CHECK-LABEL: @d192_128(
// CHECK: #attn_tile.warp_specialized<query_tile = 128, key_tile = 
func.func @d192_128(%q: memref<?x16x?x192xbf16>, %k: memref<?x16x?x192xbf16>, %v: memref<?x16x?x128xbf16>, %o: memref<?x16x?x128xbf16>) {
  attn.attention ins(%q, %k, %v : memref<?x16x?x192xbf16>, memref<?x16x?x192xbf16>, memref<?x16x?x128xbf16>)
      outs(%o : memref<?x16x?x128xbf16>)
  return
}

// Three consumers with smaller key tiles than two could have.
// CHECK-LABEL: @d96(
// CHECK: from = #attn_tile.warp_specialized<query_tile = 192, key_tile = 112, stages = 2, consumers = 3, ping_pong = true
func.func @d96(%q: memref<?x16x?x96xbf16>, %k: memref<?x16x?x96xbf16>, %v: memref<?x16x?x96xbf16>, %o: memref<?x16x?x96xbf16>) {
  attn.attention ins(%q, %k, %v : memref<?x16x?x96xbf16>, memref<?x16x?x96xbf16>, memref<?x16x?x96xbf16>)
      outs(%o : memref<?x16x?x96xbf16>)
  return
}

// Dropout takes its time while MMAs run, whatever the tile.
// CHECK-LABEL: @d64_dropout(
// CHECK: #attn_tile.warp_specialized<query_tile = 192, key_tile = 128, stages = 2, consumers = 3, ping_pong = true, conditional_rescale = true,
// CHECK-SAME:     {{^}} deferred_rescale = true, query_stages = 2>
// REMARK: key tile 128 of {{[0-9]+}} schedules that fit, estimated
func.func @d64_dropout(%q: memref<?x16x?x64xbf16>, %o: memref<?x16x?x64xbf16>, %seed: i64, %offset: i64) {
  attn.attention ins(%q, %q, %q : memref<?x16x?x64xbf16>, memref<?x16x?x64xbf16>, memref<?x16x?x64xbf16>)
      outs(%o : memref<?x16x?x64xbf16>) dropout(#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>, bits = 4>, %seed, %offset : i64, i64)
  return
}

// Of one query for each head, keys are what there is many of.
// CHECK-LABEL: @one_query(
// CHECK: #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, traversal = grid, split_kv_work_items = 132,
// CHECK-SAME:     {{^}} l2_promotion = 128, ctas_per_sm = 2>
func.func @one_query(%q: memref<?x16x1x128xbf16>, %k: memref<?x16x?x128xbf16>, %o: memref<?x16x1x128xbf16>) {
  attn.attention ins(%q, %k, %k : memref<?x16x1x128xbf16>, memref<?x16x?x128xbf16>, memref<?x16x?x128xbf16>)
      outs(%o : memref<?x16x1x128xbf16>)
  return
}

// A schedule that is there stays.

// CHECK-LABEL: @given(
// CHECK: #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 3, consumers = 1>
func.func @given(%q: memref<?x16x?x64xbf16>, %k: memref<?x16x?x64xbf16>, %v: memref<?x16x?x64xbf16>, %o: memref<?x16x?x64xbf16>) {
  attn.attention ins(%q, %k, %v : memref<?x16x?x64xbf16>, memref<?x16x?x64xbf16>, memref<?x16x?x64xbf16>)
      outs(%o : memref<?x16x?x64xbf16>) schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 3, consumers = 1>)
  return
}

// Sequences are walked in the order of their plan, all heads together.

// CHECK-LABEL: @packed(
// CHECK: #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2, ping_pong = true, traversal = paired, interleave = 0,
// CHECK-SAME:     {{^}} conditional_rescale = true, deferred_rescale = true, query_stages = 2>
func.func @packed(%q: memref<1x8x?x128xbf16>, %k: memref<1x2x?x128xbf16>, %cu: memref<?xi32>, %o: memref<1x8x?x128xbf16>) {
  attn.attention ins(%q, %k, %k : memref<1x8x?x128xbf16>, memref<1x2x?x128xbf16>, memref<1x2x?x128xbf16>)
      outs(%o : memref<1x8x?x128xbf16>) sequences packed(%cu, %cu : memref<?xi32>, memref<?xi32>) mask(#attn.causal)
  return
}

// Work items that are alike but for a few are traversed over several key heads, with
// all query heads of each: items of windows, also with global tokens, and
// items that lists are sorted by.
// CHECK-LABEL: @window(
// CHECK: #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2, ping_pong = true, interleave = 32,
// CHECK-SAME:     {{^}} conditional_rescale = true, deferred_rescale = true, query_stages = 2>
func.func @window(%q: memref<1x32x?x128xbf16>, %k: memref<1x8x?x128xbf16>, %o: memref<1x32x?x128xbf16>) {
  attn.attention ins(%q, %k, %k : memref<1x32x?x128xbf16>, memref<1x8x?x128xbf16>, memref<1x8x?x128xbf16>)
      outs(%o : memref<1x32x?x128xbf16>) mask(#attn.sliding_window<left = 1024, right = 0>)
  return
}

// CHECK-LABEL: @global_window(
// CHECK: ping_pong = true, interleave = 32, conditional_rescale = true, deferred_rescale = true, query_stages = 2>
func.func @global_window(%q: memref<1x32x?x128xbf16>, %k: memref<1x8x?x128xbf16>, %o: memref<1x32x?x128xbf16>) {
  attn.attention ins(%q, %k, %k : memref<1x32x?x128xbf16>, memref<1x8x?x128xbf16>, memref<1x8x?x128xbf16>)
      outs(%o : memref<1x32x?x128xbf16>) mask(#attn.or<#attn.global_tokens<count = 256>, #attn.sliding_window<left = 1024, right = 1024>>)
  return
}

// CHECK-LABEL: @listed(
// CHECK: ping_pong = true, interleave = 32, conditional_rescale = true, deferred_rescale = true, query_stages = 2>
func.func @listed(%q: memref<1x32x?x128xbf16>, %k: memref<1x8x?x128xbf16>, %ids: memref<?xi32>, %o: memref<1x32x?x128xbf16>) {
  attn.attention ins(%q, %k, %k : memref<1x32x?x128xbf16>, memref<1x8x?x128xbf16>, memref<1x8x?x128xbf16>)
      outs(%o : memref<1x32x?x128xbf16>) mask(#attn.causal)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %x = memref.load %ids[%i] : memref<?xi32>
        %y = memref.load %ids[%j] : memref<?xi32>
        %r = arith.cmpi eq, %x, %y : i32
        attn.yield %r : i1
      }
  return
}

// Two tensors have addresses of their own, which head dim 128 leaves registers for.

// CHECK-LABEL: @listed_by_two(
// CHECK: key_tile = 128, {{.*}}interleave = 32
func.func @listed_by_two(%q: tensor<1x32x?x128xbf16>, %k: tensor<1x8x?x128xbf16>, %x: tensor<?xi32>, %y: tensor<?xi32>)
    -> tensor<1x32x?x128xbf16> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x32x?x128xbf16>, tensor<1x8x?x128xbf16>, tensor<1x8x?x128xbf16>)
      outs(%q : tensor<1x32x?x128xbf16>)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %m = tensor.extract %x[%i] : tensor<?xi32>
        %n = tensor.extract %y[%j] : tensor<?xi32>
        %r = arith.cmpi eq, %m, %n : i32
        attn.yield %r : i1
      } -> tensor<1x32x?x128xbf16>
  return %0 : tensor<1x32x?x128xbf16>
}

// Head dim 256 does not, with key tile 64, but where mask bits are made before.

// CHECK-LABEL: @listed_by_two_256(
// CHECK: below = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, {{.*}}interleave = 32, {{.*}}mask_bits = true>,
// CHECK-SAME:     {{^}} from = #attn_tile.warp_specialized<query_tile = 128, key_tile = 32, {{.*}}interleave = 32
func.func @listed_by_two_256(%q: tensor<1x32x?x256xbf16>, %k: tensor<1x8x?x256xbf16>, %x: tensor<?xi32>, %y: tensor<?xi32>)
    -> tensor<1x32x?x256xbf16> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x32x?x256xbf16>, tensor<1x8x?x256xbf16>, tensor<1x8x?x256xbf16>)
      outs(%q : tensor<1x32x?x256xbf16>)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %m = tensor.extract %x[%i] : tensor<?xi32>
        %n = tensor.extract %y[%j] : tensor<?xi32>
        %r = arith.cmpi eq, %m, %n : i32
        attn.yield %r : i1
      } -> tensor<1x32x?x256xbf16>
  return %0 : tensor<1x32x?x256xbf16>
}

// What is computed for each key takes a register, for which a smaller tile leaves room.

// CHECK-LABEL: @computed_by_two(
// CHECK: below = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, {{.*}}mask_bits = true>,
// CHECK-SAME:     {{^}} from = #attn_tile.warp_specialized<query_tile = 128, key_tile = 96, {{.*}}interleave = 32
func.func @computed_by_two(%q: tensor<1x32x?x128xbf16>, %k: tensor<1x8x?x128xbf16>, %x: tensor<?xi32>, %y: tensor<?xi32>)
    -> tensor<1x32x?x128xbf16> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x32x?x128xbf16>, tensor<1x8x?x128xbf16>, tensor<1x8x?x128xbf16>)
      outs(%q : tensor<1x32x?x128xbf16>)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %m = tensor.extract %x[%j] : tensor<?xi32>
        %n = tensor.extract %y[%j] : tensor<?xi32>
        %s = arith.index_cast %n : i32 to index
        %d = arith.subi %j, %s : index
        %c = arith.index_cast %m : i32 to index
        %r = arith.cmpi uge, %c, %d : index
        attn.yield %r : i1
      } -> tensor<1x32x?x128xbf16>
  return %0 : tensor<1x32x?x128xbf16>
}

// A mask that computes from what it reads for each pair leaves no registers for
// factors of the step before, unless its bits are made before.
// CHECK-LABEL: @computed_by_pair(
// CHECK: #attn.by_query_length<bound = 65536, below = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2,
// CHECK-SAME:     {{^}} ping_pong = true, interleave = 32, conditional_rescale = true, deferred_rescale = true, query_stages = 2, mask_bits = true>, from =
// CHECK-NOT: deferred_rescale
// CHECK: interleave = 32, query_stages = 2>>
func.func @computed_by_pair(%q: tensor<1x32x?x128xbf16>, %k: tensor<1x8x?x128xbf16>, %x: tensor<?x?xi32>)
    -> tensor<1x32x?x128xbf16> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x32x?x128xbf16>, tensor<1x8x?x128xbf16>, tensor<1x8x?x128xbf16>)
      outs(%q : tensor<1x32x?x128xbf16>)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %bits = arith.constant 32 : index
        %place = arith.divui %j, %bits : index
        %word = tensor.extract %x[%i, %place] : tensor<?x?xi32>
        %bit = arith.remui %j, %bits : index
        %shift = arith.index_cast %bit : index to i32
        %shifted = arith.shrui %word, %shift : i32
        %r = arith.trunci %shifted : i32 to i1
        attn.yield %r : i1
      } -> tensor<1x32x?x128xbf16>
  return %0 : tensor<1x32x?x128xbf16>
}

// A bias goes through a pipe where bulk copies can bring it, if its place is the
// same for all pairs of a tile, and it is read once.
// CHECK-LABEL: @bias(
// CHECK: #attn_tile.by_alignment<aligned = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2, ping_pong = true,
// CHECK-SAME:     {{^}} score_stages = 2>,
// CHECK-SAME: {{^}} otherwise = #attn_tile.warp_specialized<query_tile = 128, key_tile = 112, stages = 2, consumers = 2, ping_pong = true,
// CHECK-SAME: {{^}} conditional_rescale = true, deferred_rescale = true, query_stages = 2>>
// REMARK: key tile 128 is bounded by instruction shape
func.func @bias(%q: tensor<?x16x?x128xbf16>, %bias: tensor<16x1x?x?xbf16>) -> tensor<?x16x?x128xbf16> {
  %o = attn.attention ins(%q, %q, %q : tensor<?x16x?x128xbf16>, tensor<?x16x?x128xbf16>, tensor<?x16x?x128xbf16>)
      outs(%q : tensor<?x16x?x128xbf16>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %zero = arith.constant 0 : index
        %x = tensor.extract %bias[%h, %zero, %i, %j] : tensor<16x1x?x?xbf16>
        %y = arith.extf %x : bf16 to f32
        %r = arith.addf %s, %y : f32
        attn.yield %r : f32
      } -> tensor<?x16x?x128xbf16>
  return %o : tensor<?x16x?x128xbf16>
}

// f32 takes twice the room.
// CHECK-LABEL: @wide_bias(
// CHECK: aligned = #attn_tile.warp_specialized<query_tile = 128, key_tile = 96, stages = 2, consumers = 2, ping_pong = true, score_stages = 2>
func.func @wide_bias(%q: tensor<?x16x?x128xbf16>, %bias: tensor<?x?xf32>) -> tensor<?x16x?x128xbf16> {
  %o = attn.attention ins(%q, %q, %q : tensor<?x16x?x128xbf16>, tensor<?x16x?x128xbf16>, tensor<?x16x?x128xbf16>)
      outs(%q : tensor<?x16x?x128xbf16>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %bias[%i, %j] : tensor<?x?xf32>
        %r = arith.addf %s, %x : f32
        attn.yield %r : f32
      } -> tensor<?x16x?x128xbf16>
  return %o : tensor<?x16x?x128xbf16>
}

// CHECK-LABEL: @twice(
// CHECK-NOT: by_alignment
// CHECK: schedule(#attn_tile.warp_specialized<
func.func @twice(%q: tensor<?x16x?x128xbf16>, %bias: tensor<16x?x?xbf16>) -> tensor<?x16x?x128xbf16> {
  %o = attn.attention ins(%q, %q, %q : tensor<?x16x?x128xbf16>, tensor<?x16x?x128xbf16>, tensor<?x16x?x128xbf16>)
      outs(%q : tensor<?x16x?x128xbf16>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %bias[%h, %i, %j] : tensor<16x?x?xbf16>
        %y = tensor.extract %bias[%b, %i, %j] : tensor<16x?x?xbf16>
        %z = arith.mulf %x, %y : bf16
        %w = arith.extf %z : bf16 to f32
        %r = arith.addf %s, %w : f32
        attn.yield %r : f32
      } -> tensor<?x16x?x128xbf16>
  return %o : tensor<?x16x?x128xbf16>
}

// CHECK-LABEL: @computed_place(
// CHECK-NOT: by_alignment
// CHECK: #attn_tile.warp_specialized<
func.func @computed_place(%q: tensor<?x16x?x128xbf16>, %bias: tensor<?x?x?xbf16>) -> tensor<?x16x?x128xbf16> {
  %o = attn.attention ins(%q, %q, %q : tensor<?x16x?x128xbf16>, tensor<?x16x?x128xbf16>, tensor<?x16x?x128xbf16>)
      outs(%q : tensor<?x16x?x128xbf16>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %d = arith.addi %b, %h : index
        %x = tensor.extract %bias[%d, %i, %j] : tensor<?x?x?xbf16>
        %w = arith.extf %x : bf16 to f32
        %r = arith.addf %s, %w : f32
        attn.yield %r : f32
      } -> tensor<?x16x?x128xbf16>
  return %o : tensor<?x16x?x128xbf16>
}
