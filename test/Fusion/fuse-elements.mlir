// RUN: attn-opt %s --attn-fuse=target=sm_90a --canonicalize --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-fuse=target=sm_90a --split-input-file \
// RUN:   --remarks-filter=attn-fuse --remark-format=emitRemark 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

// Queries are rotated and normalised where they are read, by the elements of
// their tensor; keys before, in one kernel.

// CHECK-LABEL: func.func @rope_and_norm(
// CHECK-SAME:    %[[Q:[^:]*]]: tensor<1x16x512x64xbf16>, %[[K:[^:]*]]: tensor<1x16x512x64xbf16>
// CHECK-NOT:     attn.rope
// CHECK-NOT:     attn.rms_norm
// CHECK:         %[[MAP:.*]] = attn.map_heads ins(%[[K]] : {{.*}}) outs(%{{.*}} : tensor<1x16x512x64xbf16>) {
// CHECK:           math.rsqrt
// CHECK:           tensor.extract %[[K]]
// CHECK:         attn.attention ins(%[[Q]], %[[MAP]],
// CHECK-SAME:        mask(#attn.causal) query {
// CHECK-NEXT:    ^bb0(%[[X:.*]]: f32, %[[S:.*]]: f32, %[[B:.*]]: index, %[[H:.*]]: index, %[[I:.*]]: index, %[[D:.*]]: index):
// CHECK-DAG:       %[[PAIR:.*]] = arith.remui %[[D]], %{{.*}} : index
// CHECK-DAG:       arith.addf %[[S]], %{{.*}} : f32
// CHECK:           %[[OTHER:.*]] = tensor.extract %[[Q]][%[[B]], %[[H]], %[[I]], %{{.*}}]
// CHECK:           tensor.extract %{{.*}}[%[[I]], %[[PAIR]]] : tensor<4096x32xf32>
// CHECK:           attn.yield
// REMARK: 'attn.rope' became part of reading the queries, saves {{[1-9][0-9.]*}} us
// REMARK: 'attn.rope' stays: each element is read 8 times, to compute it as often would take {{.*}} us, and by itself it takes {{.*}} us
func.func @rope_and_norm(%q: tensor<1x16x512x64xbf16>, %k: tensor<1x16x512x64xbf16>, %v: tensor<1x16x512x64xbf16>,
    %cos: tensor<4096x32xf32>, %sin: tensor<4096x32xf32>, %w: tensor<64xf32>) -> tensor<1x16x512x64xbf16> {
  %e = tensor.empty() : tensor<1x16x512x64xbf16>
  %qn = attn.rms_norm %q weight(%w : tensor<64xf32>) epsilon(1.0e-06) : tensor<1x16x512x64xbf16>
  %qr = attn.rope %qn, %cos, %sin : tensor<1x16x512x64xbf16>, tensor<4096x32xf32>, tensor<4096x32xf32>
  %kn = attn.rms_norm %k weight(%w : tensor<64xf32>) epsilon(1.0e-06) : tensor<1x16x512x64xbf16>
  %kr = attn.rope %kn, %cos, %sin : tensor<1x16x512x64xbf16>, tensor<4096x32xf32>, tensor<4096x32xf32>
  %a = attn.attention ins(%qr, %kr, %v : tensor<1x16x512x64xbf16>, tensor<1x16x512x64xbf16>, tensor<1x16x512x64xbf16>)
      outs(%e : tensor<1x16x512x64xbf16>) mask(#attn.causal) -> tensor<1x16x512x64xbf16>
  return %a : tensor<1x16x512x64xbf16>
}

// -----

// A pass over many queries takes less time than their arithmetic in attention.

// CHECK-LABEL: func.func @many_queries(
// CHECK:         attn.map_heads
// CHECK:         attn.attention
// CHECK-NOT:     query {
// REMARK: 'attn.rope' stays: with the queries it would take {{.*}} us, and by itself {{.*}} us
func.func @many_queries(%q: tensor<8x16x1024x64xbf16>, %k: tensor<8x16x1024x64xbf16>,
    %cos: tensor<4096x32xf32>, %sin: tensor<4096x32xf32>) -> tensor<8x16x1024x64xbf16> {
  %e = tensor.empty() : tensor<8x16x1024x64xbf16>
  %r = attn.rope %q, %cos, %sin : tensor<8x16x1024x64xbf16>, tensor<4096x32xf32>, tensor<4096x32xf32>
  %a = attn.attention ins(%r, %k, %k : tensor<8x16x1024x64xbf16>, tensor<8x16x1024x64xbf16>, tensor<8x16x1024x64xbf16>)
      outs(%e : tensor<8x16x1024x64xbf16>) -> tensor<8x16x1024x64xbf16>
  return %a : tensor<8x16x1024x64xbf16>
}

// -----

// A rotation with heads next to the head dim: the order of the tensor it reads is a
// view. Others use the rotated keys, too.

// CHECK-LABEL: func.func @layouts(
// CHECK-SAME:    %[[Q:[^:]*]]: tensor<1x512x8x64xf16>
// CHECK:         %[[P:.*]] = attn.permute %[[Q]] [0, 2, 1, 3]
// CHECK:         attn.attention ins(%[[P]],
// CHECK-SAME:        query {
// CHECK-NEXT:    ^bb0(%[[X:.*]]: f32, %{{.*}}: f32, %[[B:.*]]: index, %[[H:.*]]: index, %[[I:.*]]: index, %[[D:.*]]: index):
// CHECK:           tensor.extract %[[Q]][%[[B]], %[[I]], %[[H]], %{{.*}}] : tensor<1x512x8x64xf16>
// CHECK:           arith.select
func.func @layouts(%q: tensor<1x512x8x64xf16>, %k: tensor<1x8x512x64xf16>, %cos: tensor<512x64xf16>, %sin: tensor<512x64xf16>)
    -> (tensor<1x8x512x64xf16>, tensor<1x8x512x64xf16>) {
  %e = tensor.empty() : tensor<1x8x512x64xf16>
  %f = tensor.empty() : tensor<1x512x8x64xf16>
  %a = tensor.extract_slice %q[0, 0, 0, 0] [1, 512, 8, 32] [1, 1, 1, 1] : tensor<1x512x8x64xf16> to tensor<1x512x8x32xf16>
  %b = tensor.extract_slice %q[0, 0, 0, 32] [1, 512, 8, 32] [1, 1, 1, 1] : tensor<1x512x8x64xf16> to tensor<1x512x8x32xf16>
  %n = arith.negf %b : tensor<1x512x8x32xf16>
  %c0 = tensor.insert_slice %n into %f[0, 0, 0, 0] [1, 512, 8, 32] [1, 1, 1, 1] : tensor<1x512x8x32xf16> into tensor<1x512x8x64xf16>
  %c = tensor.insert_slice %a into %c0[0, 0, 0, 32] [1, 512, 8, 32] [1, 1, 1, 1] : tensor<1x512x8x32xf16> into tensor<1x512x8x64xf16>
  %r = linalg.generic {indexing_maps = [affine_map<(b, i, h, d) -> (b, i, h, d)>, affine_map<(b, i, h, d) -> (b, i, h, d)>,
        affine_map<(b, i, h, d) -> (i, d)>, affine_map<(b, i, h, d) -> (i, d)>, affine_map<(b, i, h, d) -> (b, i, h, d)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%q, %c, %cos, %sin : tensor<1x512x8x64xf16>, tensor<1x512x8x64xf16>, tensor<512x64xf16>, tensor<512x64xf16>)
      outs(%f : tensor<1x512x8x64xf16>) {
  ^bb0(%x: f16, %y: f16, %co: f16, %si: f16, %o: f16):
    %0 = arith.mulf %x, %co : f16
    %1 = arith.mulf %y, %si : f16
    %2 = arith.addf %0, %1 : f16
    linalg.yield %2 : f16
  } -> tensor<1x512x8x64xf16>
  %t = linalg.transpose ins(%r : tensor<1x512x8x64xf16>) outs(%e : tensor<1x8x512x64xf16>) permutation = [0, 2, 1, 3]
  %att = attn.attention ins(%t, %k, %k : tensor<1x8x512x64xf16>, tensor<1x8x512x64xf16>, tensor<1x8x512x64xf16>)
      outs(%e : tensor<1x8x512x64xf16>) -> tensor<1x8x512x64xf16>
  return %att, %k : tensor<1x8x512x64xf16>, tensor<1x8x512x64xf16>
}

// -----

// What is used elsewhere, and what is computed from another type, stays.

// CHECK-LABEL: func.func @near_misses(
// CHECK-COUNT-2: attn.map_heads
// CHECK:         attn.attention
// CHECK-NOT:     query {
// REMARK: 'attn.rms_norm' stays: its result is used elsewhere, too
// REMARK: 'arith.truncf' stays: it is computed from another type than keys have
func.func @near_misses(%q: tensor<1x8x512x64xf16>, %w: tensor<1x8x512x64xf32>, %u: tensor<1x8x512x64xf32>, %k: tensor<1x8x512x64xf16>)
    -> (tensor<1x8x512x64xf16>, tensor<1x8x512x64xf16>, tensor<1x8x512x64xf16>) {
  %e = tensor.empty() : tensor<1x8x512x64xf16>
  %n = attn.rms_norm %q epsilon(1.0e-06) : tensor<1x8x512x64xf16>
  %a = attn.attention ins(%n, %k, %k : tensor<1x8x512x64xf16>, tensor<1x8x512x64xf16>, tensor<1x8x512x64xf16>)
      outs(%e : tensor<1x8x512x64xf16>) -> tensor<1x8x512x64xf16>
  %m = arith.mulf %w, %u : tensor<1x8x512x64xf32>
  %t = arith.truncf %m : tensor<1x8x512x64xf32> to tensor<1x8x512x64xf16>
  %c = attn.attention ins(%t, %k, %k : tensor<1x8x512x64xf16>, tensor<1x8x512x64xf16>, tensor<1x8x512x64xf16>)
      outs(%e : tensor<1x8x512x64xf16>) -> tensor<1x8x512x64xf16>
  return %a, %n, %c : tensor<1x8x512x64xf16>, tensor<1x8x512x64xf16>, tensor<1x8x512x64xf16>
}

// -----

// A gate of merged heads, then a conversion, become the epilogue; the
// operations that make the gate come before attention.

#i3 = affine_map<(b, i, c) -> (b, i, c)>

// CHECK-LABEL: func.func @gate(
// CHECK-SAME:    %[[Q:[^:]*]]: tensor<2x4x512x64xbf16>, %[[G:.*]]: tensor<2x512x256xbf16>)
// CHECK:         attn.attention
// CHECK-SAME:        epilogue {
// CHECK-NEXT:    ^bb0(%[[X:.*]]: f32, %[[B:.*]]: index, %[[H:.*]]: index, %[[I:.*]]: index, %[[D:.*]]: index):
// CHECK:           %[[HC:.*]] = arith.muli %[[H]], %{{.*}} : index
// CHECK:           %[[C:.*]] = arith.addi %[[HC]], %[[D]] : index
// CHECK:           tensor.extract %[[G]][%[[B]], %[[I]], %[[C]]]
// CHECK:           math.exp
// CHECK:           attn.yield
// CHECK:         %[[P:.*]] = attn.permute
// CHECK:         %[[R:.*]] = tensor.collapse_shape %[[P]]
// CHECK-NEXT:    return %[[R]]
// REMARK: 'linalg.generic' became part of the epilogue, saves {{[1-9][0-9.]*}} us
func.func @gate(%q: tensor<2x4x512x64xbf16>, %g: tensor<2x512x256xbf16>) -> tensor<2x512x256xbf16> {
  %e = tensor.empty() : tensor<2x4x512x64xbf16>
  %a = attn.attention ins(%q, %q, %q : tensor<2x4x512x64xbf16>, tensor<2x4x512x64xbf16>, tensor<2x4x512x64xbf16>)
      outs(%e : tensor<2x4x512x64xbf16>) -> tensor<2x4x512x64xbf16>
  %f = tensor.empty() : tensor<2x512x4x64xbf16>
  %t = linalg.transpose ins(%a : tensor<2x4x512x64xbf16>) outs(%f : tensor<2x512x4x64xbf16>) permutation = [0, 2, 1, 3]
  %m = tensor.collapse_shape %t [[0], [1], [2, 3]] : tensor<2x512x4x64xbf16> into tensor<2x512x256xbf16>
  %o = tensor.empty() : tensor<2x512x256xbf16>
  %r = linalg.generic {indexing_maps = [#i3, #i3, #i3], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%m, %g : tensor<2x512x256xbf16>, tensor<2x512x256xbf16>) outs(%o : tensor<2x512x256xbf16>) {
  ^bb0(%x0: bf16, %y0: bf16, %z: bf16):
    %one = arith.constant 1.0 : f32
    %x = arith.extf %x0 : bf16 to f32
    %y = arith.extf %y0 : bf16 to f32
    %n = arith.negf %y : f32
    %p = math.exp %n : f32
    %s = arith.addf %p, %one : f32
    %w = arith.divf %x, %s : f32
    %b = arith.truncf %w : f32 to bf16
    linalg.yield %b : bf16
  } -> tensor<2x512x256xbf16>
  return %r : tensor<2x512x256xbf16>
}

// -----

// Of f32, which is rounded by what follows; an element that needs another one
// of the result stays.

// CHECK-LABEL: func.func @epilogue_types(
// CHECK:         attn.attention ins({{.*}}) outs(%{{.*}} : tensor<1x4x512x64xf16>) epilogue {
// CHECK-NOT:     linalg
// CHECK:         attn.attention
// CHECK-NOT:     epilogue
// CHECK:         linalg.generic
// REMARK: 'linalg.generic' became part of the epilogue
// REMARK: 'linalg.generic' stays: an element of it needs others than its own
func.func @epilogue_types(%q: tensor<1x4x512x64xf16>, %s: f32) -> (tensor<1x4x512x64xf16>, tensor<1x4x512x64xf16>) {
  %e = tensor.empty() : tensor<1x4x512x64xf32>
  %h = tensor.empty() : tensor<1x4x512x64xf16>
  %a = attn.attention ins(%q, %q, %q : tensor<1x4x512x64xf16>, tensor<1x4x512x64xf16>, tensor<1x4x512x64xf16>)
      outs(%e : tensor<1x4x512x64xf32>) -> tensor<1x4x512x64xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(b, h, i, d) -> (b, h, i, d)>, affine_map<(b, h, i, d) -> ()>, affine_map<(b, h, i, d) -> (b, h, i, d)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%a, %s : tensor<1x4x512x64xf32>, f32) outs(%h : tensor<1x4x512x64xf16>) {
  ^bb0(%x: f32, %y: f32, %z: f16):
    %0 = arith.mulf %x, %y : f32
    %1 = arith.truncf %0 : f32 to f16
    linalg.yield %1 : f16
  } -> tensor<1x4x512x64xf16>
  %b = attn.attention ins(%q, %q, %q : tensor<1x4x512x64xf16>, tensor<1x4x512x64xf16>, tensor<1x4x512x64xf16>)
      outs(%h : tensor<1x4x512x64xf16>) -> tensor<1x4x512x64xf16>
  %t = linalg.generic {indexing_maps = [affine_map<(b, h, i, d) -> (b, h, i, 0)>, affine_map<(b, h, i, d) -> (b, h, i, d)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%b : tensor<1x4x512x64xf16>) outs(%h : tensor<1x4x512x64xf16>) {
  ^bb0(%x: f16, %z: f16):
    %0 = arith.negf %x : f16
    linalg.yield %0 : f16
  } -> tensor<1x4x512x64xf16>
  return %r, %t : tensor<1x4x512x64xf16>, tensor<1x4x512x64xf16>
}

// -----

// Rotations that belong to no attention.

// CHECK-LABEL: func.func @alone(
// CHECK:         attn.map_heads
// CHECK-NOT:     attn.rope
func.func @alone(%q: tensor<?x8x?x64xf16>, %t: tensor<512x16xf16>, %n: index) -> tensor<?x8x?x64xf16> {
  %0 = attn.rope %q, %t, %t at(%n) interleaved : tensor<?x8x?x64xf16>, tensor<512x16xf16>, tensor<512x16xf16>
  return %0 : tensor<?x8x?x64xf16>
}

// -----

// A slice of dynamic size is not taken for the whole, whose type is the same.

// CHECK-LABEL: func.func @part_of_queries(
// CHECK:         %[[PART:.*]] = tensor.extract_slice %arg0
// CHECK:         attn.attention ins(%[[PART]], %arg1, %arg2
// CHECK-NOT:     query {
func.func @part_of_queries(%q: tensor<1x2x?x16xf16>, %k: tensor<1x2x?x16xf16>,
                           %v: tensor<1x2x?x16xf16>) -> tensor<1x2x?x16xf16> {
  %c2 = arith.constant 2 : index
  %dim = tensor.dim %q, %c2 : tensor<1x2x?x16xf16>
  %n = arith.divui %dim, %c2 : index
  %part = tensor.extract_slice %q[0, 0, 0, 0] [1, 2, %n, 16] [1, 1, 1, 1]
      : tensor<1x2x?x16xf16> to tensor<1x2x?x16xf16>
  %e = tensor.empty(%n) : tensor<1x2x?x16xf16>
  %o = attn.attention
      ins(%part, %k, %v : tensor<1x2x?x16xf16>, tensor<1x2x?x16xf16>, tensor<1x2x?x16xf16>)
      outs(%e : tensor<1x2x?x16xf16>) -> tensor<1x2x?x16xf16>
  return %o : tensor<1x2x?x16xf16>
}

// -----

// Nor is a tensor with a part written over it taken for that part.

// CHECK-LABEL: func.func @part_of_keys(
// CHECK:         %[[KEYS:.*]] = tensor.insert_slice %arg1 into %arg3
// CHECK:         attn.attention ins(%arg0, %[[KEYS]], %arg2
func.func @part_of_keys(%q: tensor<1x2x?x16xf16>, %new: tensor<1x2x?x16xf16>, %v: tensor<1x2x?x16xf16>,
                        %old: tensor<1x2x?x16xf16>) -> tensor<1x2x?x16xf16> {
  %c2 = arith.constant 2 : index
  %n = tensor.dim %new, %c2 : tensor<1x2x?x16xf16>
  %k = tensor.insert_slice %new into %old[0, 0, 0, 0] [1, 2, %n, 16] [1, 1, 1, 1]
      : tensor<1x2x?x16xf16> into tensor<1x2x?x16xf16>
  %s = tensor.dim %q, %c2 : tensor<1x2x?x16xf16>
  %e = tensor.empty(%s) : tensor<1x2x?x16xf16>
  %o = attn.attention
      ins(%q, %k, %v : tensor<1x2x?x16xf16>, tensor<1x2x?x16xf16>, tensor<1x2x?x16xf16>)
      outs(%e : tensor<1x2x?x16xf16>) -> tensor<1x2x?x16xf16>
  return %o : tensor<1x2x?x16xf16>
}

// -----

// Nor is a part of the result taken for the whole, which would not fit where the part is written.

// CHECK-LABEL: func.func @part_of_result(
// CHECK:         %[[OUT:.*]] = attn.attention
// CHECK-NOT:     epilogue {
// CHECK:         %[[PART:.*]] = tensor.extract_slice %[[OUT]]
// CHECK:         tensor.insert_slice %[[PART]] into %arg3
func.func @part_of_result(%q: tensor<1x2x?x16xf16>, %k: tensor<1x2x?x16xf16>, %v: tensor<1x2x?x16xf16>,
                          %all: tensor<1x4x?x16xf16>) -> tensor<1x4x?x16xf16> {
  %c2 = arith.constant 2 : index
  %n = tensor.dim %q, %c2 : tensor<1x2x?x16xf16>
  %e = tensor.empty(%n) : tensor<1x2x?x16xf16>
  %o = attn.attention
      ins(%q, %k, %v : tensor<1x2x?x16xf16>, tensor<1x2x?x16xf16>, tensor<1x2x?x16xf16>)
      outs(%e : tensor<1x2x?x16xf16>) -> tensor<1x2x?x16xf16>
  %half = arith.divui %n, %c2 : index
  %part = tensor.extract_slice %o[0, 0, 0, 0] [1, 2, %half, 16] [1, 1, 1, 1]
      : tensor<1x2x?x16xf16> to tensor<1x2x?x16xf16>
  %z = tensor.insert_slice %part into %all[0, 0, 0, 0] [1, 2, %half, 16] [1, 1, 1, 1]
      : tensor<1x2x?x16xf16> into tensor<1x4x?x16xf16>
  return %z : tensor<1x4x?x16xf16>
}

// -----

// Given schedules stay possible: with packed heads there is no query region, and no schedule forbids epilogues.

// CHECK-LABEL: func.func @given_schedules(
// CHECK:         %[[PACKED:.*]] = attn.attention ins(%{{.*}}, %arg1, %arg2
// CHECK-SAME:      pack_gqa = true
// CHECK-NOT:     query {
// CHECK-SAME:    epilogue {
// CHECK:           math.absf
// CHECK:         %[[SPLIT:.*]] = attn.attention
// CHECK-SAME:      split_kv_work_items = 4
// CHECK-SAME:      epilogue {
// CHECK:           math.absf
func.func @given_schedules(%q: tensor<1x4x1x16xf16>, %k: tensor<1x2x64x16xf16>, %v: tensor<1x2x64x16xf16>)
    -> (tensor<1x4x1x16xf16>, tensor<1x4x1x16xf16>) {
  %e = tensor.empty() : tensor<1x4x1x16xf16>
  %m = linalg.map { math.tanh } ins(%q : tensor<1x4x1x16xf16>) outs(%e : tensor<1x4x1x16xf16>)
  %a = attn.attention ins(%m, %k, %v : tensor<1x4x1x16xf16>, tensor<1x2x64x16xf16>, tensor<1x2x64x16xf16>)
      outs(%e : tensor<1x4x1x16xf16>)
      schedule(#attn_tile.sequential<query_tile = 4, key_tile = 8, pack_gqa = true>) -> tensor<1x4x1x16xf16>
  %x = linalg.map { math.absf } ins(%a : tensor<1x4x1x16xf16>) outs(%e : tensor<1x4x1x16xf16>)
  %b = attn.attention ins(%q, %k, %v : tensor<1x4x1x16xf16>, tensor<1x2x64x16xf16>, tensor<1x2x64x16xf16>)
      outs(%e : tensor<1x4x1x16xf16>)
      schedule(#attn_tile.sequential<query_tile = 4, key_tile = 8, split_kv_work_items = 4>) -> tensor<1x4x1x16xf16>
  %y = linalg.map { math.absf } ins(%b : tensor<1x4x1x16xf16>) outs(%e : tensor<1x4x1x16xf16>)
  return %x, %y : tensor<1x4x1x16xf16>, tensor<1x4x1x16xf16>
}

// -----

// Nor is a tensor taken for one with the same type whose batch entries are its queries.

// CHECK-LABEL: func.func @permuted_sizes(
// CHECK:         %[[QUERIES:.*]] = linalg.generic
// CHECK-SAME:      ins(%arg0 :
// CHECK:         attn.attention ins(%[[QUERIES]], %arg1, %arg2
// CHECK-NOT:     query {
func.func @permuted_sizes(%t: tensor<?x2x?x16xf16>, %k: tensor<?x2x?x16xf16>,
                          %v: tensor<?x2x?x16xf16>) -> tensor<?x2x?x16xf16> {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %queries = tensor.dim %t, %c0 : tensor<?x2x?x16xf16>
  %batch = tensor.dim %t, %c2 : tensor<?x2x?x16xf16>
  %e = tensor.empty(%batch, %queries) : tensor<?x2x?x16xf16>
  %q = linalg.generic {indexing_maps = [affine_map<(b, h, i, d) -> (i, h, b, d)>, affine_map<(b, h, i, d) -> (b, h, i, d)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%t : tensor<?x2x?x16xf16>) outs(%e : tensor<?x2x?x16xf16>) {
  ^bb0(%x: f16, %z: f16):
    %0 = math.absf %x : f16
    linalg.yield %0 : f16
  } -> tensor<?x2x?x16xf16>
  %o = attn.attention ins(%q, %k, %v : tensor<?x2x?x16xf16>, tensor<?x2x?x16xf16>, tensor<?x2x?x16xf16>)
      outs(%e : tensor<?x2x?x16xf16>) -> tensor<?x2x?x16xf16>
  return %o : tensor<?x2x?x16xf16>
}

// -----

// Conversions to 8 bits stay operations of linalg: neither regions nor maps compute 8 bits.
// CHECK-LABEL: func @to_8_bits
// CHECK-NOT: attn.map_heads
// CHECK: %[[Q:.*]] = linalg.generic
// CHECK: attn.attention ins(%[[Q]], %{{.*}}, %{{.*}} : tensor<1x4x32x64xf8E4M3FN>,
// CHECK-NOT: query_region
func.func @to_8_bits(%x: tensor<1x4x32x64xbf16>, %k: tensor<1x4x32x64xf8E4M3FN>) -> tensor<1x4x32x64xbf16> {
  %e = tensor.empty() : tensor<1x4x32x64xf8E4M3FN>
  %q = linalg.generic {indexing_maps = [affine_map<(b, h, i, d) -> (b, h, i, d)>, affine_map<(b, h, i, d) -> (b, h, i, d)>],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x : tensor<1x4x32x64xbf16>) outs(%e : tensor<1x4x32x64xf8E4M3FN>) {
  ^bb0(%a: bf16, %o: f8E4M3FN):
    %b = arith.negf %a : bf16
    %c = arith.truncf %b : bf16 to f8E4M3FN
    linalg.yield %c : f8E4M3FN
  } -> tensor<1x4x32x64xf8E4M3FN>
  %init = tensor.empty() : tensor<1x4x32x64xbf16>
  %r = attn.attention ins(%q, %k, %k : tensor<1x4x32x64xf8E4M3FN>, tensor<1x4x32x64xf8E4M3FN>, tensor<1x4x32x64xf8E4M3FN>)
      outs(%init : tensor<1x4x32x64xbf16>) -> tensor<1x4x32x64xbf16>
  return %r : tensor<1x4x32x64xbf16>
}
