// RUN: attn-opt %s --convert-attn-to-attn-tile --split-input-file | FileCheck %s
// RUN: attn-opt %s --convert-attn-to-attn-tile --split-input-file | attn-opt --split-input-file --verify-roundtrip -o /dev/null

// CHECK: #[[LHS:.*]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK: #[[RHST:.*]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK: #[[OUT:.*]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK: #[[RHS:.*]] = affine_map<(d0, d1, d2) -> (d2, d1)>

// CHECK-LABEL: attn_tile.kernel @causal_kernel(
// CHECK-SAME:    %[[Q:.*]]: memref<?x8x?x128xbf16>, %[[K:.*]]: memref<?x2x?x128xbf16>, %[[V:.*]]: memref<?x2x?x64xbf16>,
// CHECK-SAME:    %[[O:.*]]: memref<?x8x?x64xbf16>, %[[LSE:.*]]: memref<?x8x?xf32>)
// CHECK-SAME:    schedule = #attn_tile.sequential<query_tile = 32, key_tile = 64>
// CHECK:         %[[B:.*]] = memref.dim %[[Q]], %c0
// CHECK:         %[[SQ:.*]] = memref.dim %[[Q]], %c2
// CHECK:         %[[SKV:.*]] = memref.dim %[[K]], %c2
// CHECK:         %[[ROUNDED:.*]] = arith.addi %[[SQ]], %c31
// CHECK:         %[[TILES:.*]] = arith.divui %[[ROUNDED]], %c32
// CHECK:         scf.forall (%[[b:.*]], %[[h:.*]], %[[i:.*]]) in (%[[B]], %c8, %[[TILES]]) {
// CHECK:           %[[ROW:.*]] = arith.muli %[[i]], %c32
// CHECK:           %[[HK:.*]] = arith.divui %[[h]], %c4
// CHECK:           %[[QT:.*]] = attn_tile.load %[[Q]][%[[b]], %[[h]], %[[ROW]], %c0{{.*}}] stream(%c0{{.*}} of %c1{{.*}}) : {{.*}} -> vector<32x128xbf16>
// CHECK:           %[[TILES:.*]], %{{.*}}, %[[COUNT:.*]] = attn_tile.kv_tile_iterator at(%[[b]], %[[h]]) queries(%[[ROW]], 32) keys(64)
// CHECK-SAME:          {{^}} lengths(%[[SQ]], %[[SKV]]) by(#attn.causal)
// CHECK:           %[[LOOP:.*]]:3 = scf.for %[[T:.*]] = %c0{{.*}} to %[[COUNT]] step %c1
// CHECK-SAME:          iter_args(%[[M:.*]] = %{{.*}}, %[[L:.*]] = %{{.*}}, %[[ACC:.*]] = %{{.*}})
// CHECK:             %[[TILE:.*]] = attn_tile.kv_tile_at %[[TILES]][%[[T]]]
// CHECK:             %[[COL:.*]] = arith.muli %[[TILE]], %c64
// CHECK:             %[[KT:.*]] = attn_tile.load %[[K]][%[[b]], %[[HK]], %[[COL]], %c0{{.*}}] stream(%[[T]] of %[[COUNT]])
// CHECK:             %[[S:.*]] = vector.contract {indexing_maps = [#[[LHS]], #[[RHST]], #[[OUT]]]{{.*}}} %[[QT]], %[[KT]], %{{.*}} : vector<32x128xbf16>,
// CHECK-SAME:            vector<64x128xbf16> into vector<32x64xf32>
// CHECK-NOT:         attn_tile.map
// CHECK:             %[[S2:.*]] = attn_tile.mask %[[S]] at(%[[b]], %[[h]], %[[ROW]], %[[COL]]) lengths(%[[SQ]], %[[SKV]]) by(#attn.causal) : vector<32x64xf32>
// CHECK:             %[[M1:.*]] = vector.multi_reduction <maxnumf>, %[[S2]], %[[M]] [1]
// CHECK:             %[[EMPTY:.*]] = arith.cmpf oeq, %[[M1]], %{{.*}}
// CHECK:             %[[FINITE:.*]] = arith.select %[[EMPTY]], %{{.*}}, %[[M1]]
// The factor is 1/sqrt(128) * log2(e).
// CHECK:             %[[C:.*]] = arith.constant dense<0.1275174{{.*}}> : vector<32xf32>
// CHECK:             %[[MS:.*]] = arith.mulf %[[FINITE]], %[[C]]
// CHECK:             %[[MOLD:.*]] = arith.mulf %[[M]], %[[C]]
// CHECK:             %[[DIFF:.*]] = arith.subf %[[MOLD]], %[[MS]]
// CHECK:             %[[ALPHA:.*]] = math.exp2 %[[DIFF]]
// CHECK:             %[[NEG:.*]] = arith.negf %[[MS]]
// CHECK:             %[[COLUMN:.*]] = vector.shape_cast %[[NEG]] : vector<32xf32> to vector<32x1xf32>
// CHECK:             %[[WIDE:.*]] = vector.broadcast %[[COLUMN]] : vector<32x1xf32> to vector<32x64xf32>
// CHECK:             %[[X:.*]] = math.fma %[[S2]], %{{.*}}, %[[WIDE]]
// CHECK:             %[[P:.*]] = math.exp2 %[[X]]
// CHECK:             %[[LA:.*]] = arith.mulf %[[L]], %{{.*}}
// CHECK:             %[[L1:.*]] = attn_tile.partial_sum %[[P]] into %[[LA]] : vector<32x64xf32> into vector<32x8xf32>
// CHECK:             %[[ACC1:.*]] = arith.mulf %[[ACC]], %{{.*}}
// CHECK:             %[[VT:.*]] = attn_tile.load %[[V]][%[[b]], %[[HK]], %[[COL]], %c0{{.*}}] stream(%[[T]] of %[[COUNT]])
// CHECK:             %[[P16:.*]] = arith.truncf %[[P]] : vector<32x64xf32> to vector<32x64xbf16>
// CHECK:             %[[ACC2:.*]] = vector.contract {indexing_maps = [#[[LHS]], #[[RHS]], #[[OUT]]]{{.*}}} %[[P16]], %[[VT]], %[[ACC1]]
// CHECK:             scf.yield %[[M1]], %[[L1]], %[[ACC2]]
// CHECK:           %[[SUM:.*]] = vector.multi_reduction <add>, %[[LOOP]]#1, %{{.*}} [1]
// CHECK:           %[[NOTHING:.*]] = arith.cmpf oeq, %[[SUM]]
// CHECK:           %[[INV:.*]] = arith.divf %{{.*}}, %[[SUM]]
// CHECK:           %[[SAFE:.*]] = arith.select %[[NOTHING]], %{{.*}}, %[[INV]]
// CHECK:           %[[RES:.*]] = arith.mulf %[[LOOP]]#2
// CHECK:           %[[RES16:.*]] = arith.truncf %[[RES]]
// CHECK:           attn_tile.store %[[RES16]], %[[O]][%[[b]], %[[h]], %[[ROW]], %c0{{.*}}]
// CHECK:           %[[MN:.*]] = arith.mulf %[[LOOP]]#0
// CHECK:           %[[LOG:.*]] = math.log %[[SUM]]
// CHECK:           %[[LSEV:.*]] = arith.addf %[[MN]], %[[LOG]]
// CHECK:           attn_tile.store %[[LSEV]], %[[LSE]][%[[b]], %[[h]], %[[ROW]]]
// CHECK:         attn_tile.return

// CHECK-LABEL: func.func @causal
// CHECK-NEXT:    attn_tile.launch @causal_kernel args(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} :
// CHECK-NEXT:    return
func.func @causal(%q: memref<?x8x?x128xbf16>, %k: memref<?x2x?x128xbf16>,
                  %v: memref<?x2x?x64xbf16>, %o: memref<?x8x?x64xbf16>,
                  %lse: memref<?x8x?xf32>) {
  attn.attention
      ins(%q, %k, %v : memref<?x8x?x128xbf16>, memref<?x2x?x128xbf16>, memref<?x2x?x64xbf16>)
      outs(%o, %lse : memref<?x8x?x64xbf16>, memref<?x8x?xf32>)
      mask(#attn.causal) schedule(#attn_tile.sequential<query_tile = 32, key_tile = 64>)
  return
}

// -----

// Regions: captures become arguments, constants are cloned. A last factor of the
// score is left to the exponent. Padded head dimensions. No group, no truncation for f32.

// CHECK-LABEL: attn_tile.kernel @regions_kernel(
// CHECK-SAME:    %[[Q:.*]]: memref<2x8x?x72xf32>, %{{.*}}: memref<2x8x?x72xf32>, %{{.*}}: memref<2x8x?x72xf32>, %{{.*}}: memref<2x8x?x72xf32>,
// CHECK-SAME:    %[[BIAS:.*]]: memref<?x?xf32>, %[[N:.*]]: index)
// CHECK:         scf.forall (%[[B:.*]], %[[H:.*]], %{{.*}}) in (%c2, %c8, %{{.*}})
// CHECK-NOT:     arith.divui
// CHECK:         attn_tile.load %[[Q]]{{.*}} -> vector<16x80xf32>
// CHECK:         attn_tile.kv_tile_iterator {{.*}} lengths(%{{.*}}, %{{.*}}) mask_mod
// CHECK:         %[[S:.*]] = vector.contract
// CHECK:         %[[S1:.*]] = attn_tile.map %[[S]] at(%[[B]], %[[H]], {{.*}} {
// CHECK-NEXT:    ^bb0(%[[X:.*]]: f32, %{{.*}}: index, %{{.*}}: index, %[[I:.*]]: index, %[[J:.*]]: index):
// CHECK-NEXT:      %[[SCALE:.*]] = arith.constant 5.000000e-01 : f32
// CHECK-NEXT:      %[[SCALED:.*]] = arith.mulf %[[X]], %[[SCALE]]
// CHECK-NEXT:      %[[BV:.*]] = memref.load %[[BIAS]][%[[I]], %[[J]]]
// CHECK-NEXT:      %[[SUM:.*]] = arith.addf %[[SCALED]], %[[BV]]
// CHECK:           attn_tile.yield %[[SUM]]
// CHECK:         attn_tile.mask %[[S1]] {{.*}} mask_mod {
// CHECK-NEXT:    ^bb0(%{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %[[J:.*]]: index):
// CHECK-NEXT:      %[[KEEP:.*]] = arith.cmpi ult, %[[J]], %[[N]]
// CHECK-NEXT:      attn_tile.yield %[[KEEP]]
// CHECK:         dense<2.885390{{.*}}> : vector<16xf32>
// CHECK-NOT:     arith.truncf
// CHECK-LABEL: func.func @regions
// CHECK:         attn_tile.launch @regions_kernel
func.func @regions(%q: memref<2x8x?x72xf32>, %k: memref<2x8x?x72xf32>,
                   %v: memref<2x8x?x72xf32>, %o: memref<2x8x?x72xf32>,
                   %bias: memref<?x?xf32>, %n: index) {
  %two = arith.constant 2.0 : f32
  attn.attention
      ins(%q, %k, %v : memref<2x8x?x72xf32>, memref<2x8x?x72xf32>, memref<2x8x?x72xf32>)
      outs(%o : memref<2x8x?x72xf32>) scale(0.5)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = memref.load %bias[%i, %j] : memref<?x?xf32>
        %y = arith.addf %s, %x : f32
        %z = arith.mulf %y, %two : f32
        attn.yield %z : f32
      } mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %x = arith.cmpi ult, %j, %n : index
        attn.yield %x : i1
      }
  return
}

// -----

// A scale that is not positive is applied to the scores; f32 results of bf16
// operands are stored as they are.

// CHECK-LABEL: attn_tile.kernel @negative_scale_kernel
// CHECK:         attn_tile.map
// CHECK:           arith.constant -1.000000e+00 : f32
// CHECK:           arith.mulf
// CHECK-NEXT:      attn_tile.yield
// CHECK:         dense<1.442695{{.*}}> : vector<16xf32>
// CHECK:         attn_tile.store %{{.*}} : vector<16x64xf32>, memref<1x1x?x64xf32>
func.func @negative_scale(%q: memref<1x1x?x64xbf16>, %o: memref<1x1x?x64xf32>) {
  attn.attention
      ins(%q, %q, %q : memref<1x1x?x64xbf16>, memref<1x1x?x64xbf16>, memref<1x1x?x64xbf16>)
      outs(%o : memref<1x1x?x64xf32>) scale(-1.0)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>)
  return
}

// -----

// Two attentions of one function give two kernels.

// CHECK: attn_tile.kernel @twice_kernel(
// CHECK: attn_tile.kernel @[[SECOND:twice_kernel_[0-9]+]](
// CHECK-LABEL: func.func @twice(
// CHECK:   attn_tile.launch @twice_kernel args
// CHECK:   attn_tile.launch @[[SECOND]] args
func.func @twice(%q: memref<1x1x?x64xf32>, %o: memref<1x1x?x64xf32>) {
  attn.attention
      ins(%q, %q, %q : memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<1x1x?x64xf32>)
      outs(%o : memref<1x1x?x64xf32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>)
  attn.attention
      ins(%q, %q, %q : memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<1x1x?x64xf32>)
      outs(%o : memref<1x1x?x64xf32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>)
  return
}

// -----

// A small kernel lists the query tiles that sequences have; the list is the work
// of the kernel. Positions count from the beginning of the sequence.

// CHECK-LABEL: attn_tile.kernel @packed_work_items(
// CHECK-SAME:    %[[CUQ:[a-z0-9]+]]: memref<?xi32>, %[[CUK:[a-z0-9]+]]: memref<?xi32>, %[[PLAN:[a-z0-9]+]]: memref<?x8xi32>,
// CHECK-SAME:    %[[FAULT:[a-z0-9]+]]: memref<1xi32>, %[[SQ:[a-z0-9]+]]: index, %[[SKV:[a-z0-9]+]]: index)
// CHECK-SAME:    schedule = #attn_tile.sequential
// CHECK:         scf.forall (%[[S:.*]]) in
// CHECK:           attn_tile.reduce
// CHECK:           attn_tile.reduce
// CHECK:           attn_tile.thread_for
// CHECK:             memref.store %{{.*}}, %[[PLAN]]
// CHECK:           attn_tile.thread_for
// CHECK:             memref.store %{{.*}}, %[[FAULT]]

// CHECK-LABEL: attn_tile.kernel @packed_kernel(
// CHECK-SAME:    %[[Q:[a-z0-9]+]]: memref<1x8x?x64xf32>, %[[K:[a-z0-9]+]]: memref<1x2x?x64xf32>, %[[V:[a-z0-9]+]]: memref<1x2x?x64xf32>,
// CHECK-SAME:    %[[OUT:[a-z0-9]+]]: memref<1x8x?x64xf32>, %[[LSE:[a-z0-9]+]]: memref<1x8x?xf32>, %[[PLAN:[a-z0-9]+]]: memref<?x8xi32>)
// CHECK:         %[[N:.*]] = attn_tile.assume_upper_bound
// CHECK:         scf.forall (%[[H:.*]], %[[E:.*]]) in (%{{.*}}, %[[N]])
// CHECK:           %[[QTILE:.*]] = attn_tile.load %[[Q]][%{{.*}}, %[[H]], %[[QROW:.*]], %{{.*}}] stream
// CHECK:           attn_tile.kv_tile_iterator at(%[[SEQ:.*]], %[[H]]) queries(%[[FIRST:.*]], 16) keys(64) lengths(%[[QLEN:.*]], %[[KLEN:.*]]) by(#attn.causal)
// CHECK:           scf.for
// CHECK:             attn_tile.load %[[K]][%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}] stream
// CHECK:             attn_tile.mask {{.*}} at(%[[SEQ]], %[[H]], %[[FIRST]], %[[KEY:.*]]) lengths(%[[QLEN]], %[[KLEN]])
// CHECK:             %[[KROW:.*]] = arith.addi %{{.*}}, %[[KEY]]
// CHECK:             attn_tile.load %[[V]][%{{.*}}, %{{.*}}, %[[KROW]], %{{.*}}] within(%[[KEY]] of %[[KLEN]]) stream
// CHECK:           attn_tile.store %{{.*}}, %[[OUT]][%{{.*}}, %[[H]], %[[QROW]], %{{.*}}] within(%[[FIRST]] of %[[QLEN]])
// CHECK:           attn_tile.store %{{.*}}, %[[LSE]][%{{.*}}, %[[H]], %[[QROW]]] within(%[[FIRST]] of %[[QLEN]])

// CHECK-LABEL: func.func @packed
// CHECK:         %[[LIST:.*]] = memref.alloc
// CHECK:         %[[WORD:.*]] = attn_tile.error_flag
// CHECK:         attn_tile.launch @packed_work_items args(%{{.*}}, %{{.*}}, %[[LIST]], %[[WORD]],
// CHECK-NEXT:    attn_tile.launch @packed_kernel args({{.*}}, %[[LIST]] :
// CHECK-NEXT:    memref.dealloc %[[LIST]]
func.func @packed(%q: memref<1x8x?x64xf32>, %k: memref<1x2x?x64xf32>, %v: memref<1x2x?x64xf32>,
                  %cu_q: memref<?xi32>, %cu_k: memref<?xi32>, %out: memref<1x8x?x64xf32>,
                  %lse: memref<1x8x?xf32>) {
  attn.attention
      ins(%q, %k, %v : memref<1x8x?x64xf32>, memref<1x2x?x64xf32>, memref<1x2x?x64xf32>)
      outs(%out, %lse : memref<1x8x?x64xf32>, memref<1x8x?xf32>)
      sequences packed(%cu_q, %cu_k : memref<?xi32>, memref<?xi32>)
      mask(#attn.causal)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>)
  return
}

// -----

// The batch entry of a padded sequence is its number.

// CHECK-LABEL: attn_tile.kernel @padded_kernel(
// CHECK:           attn_tile.load %{{.*}}[%[[SEQ:.*]], %{{.*}}, %{{.*}}, %{{.*}}] stream
// CHECK:           attn_tile.kv_tile_iterator at(%[[SEQ]], %{{.*}})
func.func @padded(%q: memref<?x2x?x64xf32>, %len: memref<?xi32>, %out: memref<?x2x?x64xf32>) {
  attn.attention
      ins(%q, %q, %q : memref<?x2x?x64xf32>, memref<?x2x?x64xf32>, memref<?x2x?x64xf32>)
      outs(%out : memref<?x2x?x64xf32>)
      sequences padded(%len, %len : memref<?xi32>, memref<?xi32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>)
  return
}

// -----

// Tiles of a mask that reads tensors are classified before: by bounds of values
// read for each query and for each key, and by counting pairs where these do
// not say. Heads share the lists if the mask does not depend on them.

// CHECK-LABEL: attn_tile.kernel @documents_classes(
// CHECK-SAME:    %[[CLASSES:[a-z0-9]+]]: memref<?x1x?x?xi32>, %[[SQ:[a-z0-9]+]]: index, %[[SKV:[a-z0-9]+]]: index, %[[IDS:[a-z0-9]+]]: memref<?x?xi32>)
// CHECK:         scf.forall
// CHECK:           %[[Q:.*]]:2 = attn_tile.reduce to(%{{.*}}) by [#vector.kind<minsi>, #vector.kind<maxsi>]
// CHECK:             memref.load %[[IDS]]
// CHECK:           %[[K:.*]]:2 = attn_tile.reduce to(%{{.*}}) by [#vector.kind<minsi>, #vector.kind<maxsi>]
// CHECK:             memref.load %[[IDS]]
// CHECK:           scf.for
// CHECK:             scf.if
// CHECK:               attn_tile.reduce to(%{{.*}}) by [#vector.kind<add>]
// CHECK:                 memref.load %[[IDS]]
// CHECK:                 scf.for
// CHECK:                   memref.load %[[IDS]]
// CHECK:                   arith.cmpi eq
// CHECK:           attn_tile.thread_for
// CHECK:             memref.store %{{.*}}, %[[CLASSES]]

// CHECK-LABEL: attn_tile.kernel @documents_lists(
// CHECK-SAME:    %[[CLASSES:[a-z0-9]+]]: memref<?x1x?x?xi32>, %[[LISTS:[a-z0-9]+]]: memref<?x1x?x?xi32>)
// CHECK-COUNT-2: attn_tile.warp_compact
// CHECK:           memref.load %[[CLASSES]]
// CHECK:           memref.store %{{.*}}, %[[LISTS]]

// The place of a row is the number of rows with shorter lists, or with equal ones
// and before it.
// CHECK-LABEL: attn_tile.kernel @documents_order(
// CHECK-SAME:    %[[LISTS:[a-z0-9]+]]: memref<?x1x?x?xi32>, %[[ORDER:[a-z0-9]+]]: memref<?x1x?xi32>)
// CHECK:         scf.forall (%{{.*}}, %{{.*}}, %[[I:.*]]) in
// CHECK:           %[[PLACE:.*]] = attn_tile.reduce to(%{{.*}}) by [#vector.kind<add>]
// CHECK:             memref.load %[[LISTS]]
// CHECK:           attn_tile.thread_for
// CHECK:             memref.store %{{.*}}, %[[ORDER]][%{{.*}}, %{{.*}}, %[[PLACE]]]

// CHECK-LABEL: attn_tile.kernel @documents_kernel(
// CHECK:         scf.forall (%[[B:.*]], %[[H:.*]], %[[PLACE:.*]]) in
// CHECK:           %[[ORDERED:.*]] = memref.load %{{.*}}[%[[B]], %{{.*}}, %[[PLACE]]] : memref<?x1x?xi32>
// CHECK:           %[[I:.*]] = arith.index_cast %[[ORDERED]]
// CHECK:           attn_tile.kv_tile_iterator at(%[[B]], %[[H]]) {{.*}} listed(%{{.*}}[%[[B]], %{{.*}}, %[[I]]] : memref<?x1x?x?xi32>)

// CHECK-LABEL: func.func @documents
// CHECK:         attn_tile.launch @documents_classes
// CHECK:         attn_tile.launch @documents_lists
// CHECK:         attn_tile.launch @documents_order
// CHECK:         attn_tile.launch @documents_kernel
// CHECK:         memref.dealloc

// CHECK-LABEL: attn_tile.kernel @by_head_classes(
// CHECK-SAME:    memref<?x2x?x?xi32>
func.func @documents(%q: memref<?x2x?x64xf32>, %ids: memref<?x?xi32>, %out: memref<?x2x?x64xf32>) {
  attn.attention
      ins(%q, %q, %q : memref<?x2x?x64xf32>, memref<?x2x?x64xf32>, memref<?x2x?x64xf32>)
      outs(%out : memref<?x2x?x64xf32>) mask(#attn.causal)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %x = memref.load %ids[%b, %i] : memref<?x?xi32>
        %y = memref.load %ids[%b, %j] : memref<?x?xi32>
        %r = arith.cmpi eq, %x, %y : i32
        attn.yield %r : i1
      }
  return
}

func.func @by_head(%q: memref<?x2x?x64xf32>, %ids: memref<?x?xi32>, %out: memref<?x2x?x64xf32>) {
  attn.attention
      ins(%q, %q, %q : memref<?x2x?x64xf32>, memref<?x2x?x64xf32>, memref<?x2x?x64xf32>)
      outs(%out : memref<?x2x?x64xf32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %x = memref.load %ids[%h, %i] : memref<?x?xi32>
        %y = memref.load %ids[%h, %j] : memref<?x?xi32>
        %r = arith.cmpi eq, %x, %y : i32
        attn.yield %r : i1
      }
  return
}

// -----

// A sink is in the state before the first step: a score of weight one, shared
// out to the partial sums. Scores are kept before scaling.
// CHECK-LABEL: attn_tile.kernel @sinks_kernel(
// CHECK-SAME: %[[SINKS:[a-z0-9]+]]: memref<4xbf16>)
// CHECK: scf.forall (%{{.*}}, %[[H:.*]], %{{.*}}) in
// CHECK: %[[NARROW:.*]] = memref.load %[[SINKS]][%[[H]]] : memref<4xbf16>
// CHECK: %[[SINK:.*]] = arith.extf %[[NARROW]] : bf16 to f32
// CHECK: %[[LOWEST:.*]] = arith.constant 0xFF800000 : f32
// CHECK: %[[EXISTS:.*]] = arith.cmpf une, %[[SINK]], %[[LOWEST]] : f32
// CHECK: %[[PART:.*]] = arith.constant 1.250000e-01 : f32
// CHECK: %[[WEIGHT:.*]] = arith.select %[[EXISTS]], %[[PART]], %{{.*}} : f32
// CHECK: %[[INVERSE:.*]] = arith.constant 5.000000e-01 : f32
// CHECK: %[[SCORE:.*]] = arith.mulf %[[SINK]], %[[INVERSE]] : f32
// CHECK: %[[MAX:.*]] = vector.broadcast %[[SCORE]] : f32 to vector<64xf32>
// CHECK: %[[SUMS:.*]] = vector.broadcast %[[WEIGHT]] : f32 to vector<64x8xf32>
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %[[MAX]], %{{.*}} = %[[SUMS]], %{{.*}} = %{{.*}})
func.func @sinks(%q: memref<2x4x8x16xf32>, %o: memref<2x4x8x16xf32>,
                 %sinks: memref<4xbf16>) {
  attn.attention
      ins(%q, %q, %q : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>, memref<2x4x8x16xf32>)
      outs(%o : memref<2x4x8x16xf32>) sinks(%sinks : memref<4xbf16>) scale(2.0)
      schedule(#attn_tile.sequential<query_tile = 64, key_tile = 32>)
  return
}

// -----

// A bias of scores of 16-bit inputs is what their matmuls are added
// to, so that the scale stays with the exponent.
// CHECK-LABEL: attn_tile.kernel @bias_kernel(
// CHECK-SAME: %[[SLOPES:[a-z0-9]+]]: memref<4xf32>)
// CHECK: scf.for
// CHECK: %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : vector<64x32xf32>
// CHECK: %[[BIAS:.*]] = attn_tile.map %[[ZERO]] at(
// CHECK-NEXT: ^bb0(%{{.*}}: f32, %{{.*}}: index, %[[H:.*]]: index, %[[I:.*]]: index, %[[J:.*]]: index):
// CHECK-NEXT: %[[SLOPE:.*]] = memref.load %[[SLOPES]][%[[H]]]
// CHECK-NEXT: %[[D:.*]] = arith.subi %[[J]], %[[I]]
// CHECK-NEXT: %[[D32:.*]] = arith.index_cast %[[D]]
// CHECK-NEXT: %[[F:.*]] = arith.sitofp %[[D32]]
// CHECK-NEXT: %[[A:.*]] = arith.mulf %[[F]], %[[SLOPE]]
// CHECK-NEXT: %[[INVERSE:.*]] = arith.constant 5.000000e-01 : f32
// CHECK-NEXT: %[[R:.*]] = arith.mulf %[[A]], %[[INVERSE]]
// CHECK-NEXT: attn_tile.yield %[[R]]
// CHECK: %[[S:.*]] = vector.contract {{.*}} %{{.*}}, %{{.*}}, %[[BIAS]] :
// CHECK-NEXT: attn_tile.mask %[[S]]
// CHECK: arith.constant dense<2.885390e+00> : vector<64xf32>
func.func @bias(%q: memref<2x4x8x16xbf16>, %o: memref<2x4x8x16xbf16>,
                %slopes: memref<4xf32>) {
  attn.attention
      ins(%q, %q, %q : memref<2x4x8x16xbf16>, memref<2x4x8x16xbf16>, memref<2x4x8x16xbf16>)
      outs(%o : memref<2x4x8x16xbf16>) scale(2.0)
      schedule(#attn_tile.sequential<query_tile = 64, key_tile = 32>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %slope = memref.load %slopes[%h] : memref<4xf32>
        %d = arith.subi %j, %i : index
        %d32 = arith.index_cast %d : index to i32
        %f = arith.sitofp %d32 : i32 to f32
        %a = arith.mulf %f, %slope : f32
        %r = arith.addf %s, %a : f32
        attn.yield %r : f32
      }
  return
}

// -----

// A score that f32 inputs make, and one that reads a tile, is changed after.
// CHECK-LABEL: attn_tile.kernel @late_kernel(
// CHECK: %[[S:.*]] = vector.contract
// CHECK: attn_tile.map %[[S]]
// CHECK-LABEL: attn_tile.kernel @late_kernel_0(
// CHECK: %[[S:.*]] = vector.contract
// CHECK: attn_tile.map %[[S]]
func.func @late(%q: memref<2x4x8x16xf32>, %q16: memref<2x4x8x16xbf16>,
                %o: memref<2x4x8x16xf32>, %bias: memref<8x8xf32>) {
  attn.attention
      ins(%q, %q, %q : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>, memref<2x4x8x16xf32>)
      outs(%o : memref<2x4x8x16xf32>)
      schedule(#attn_tile.sequential<query_tile = 64, key_tile = 32>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = memref.load %bias[%h, %j] : memref<8x8xf32>
        %r = arith.addf %s, %x : f32
        attn.yield %r : f32
      }
  attn.attention
      ins(%q16, %q16, %q16 : memref<2x4x8x16xbf16>, memref<2x4x8x16xbf16>, memref<2x4x8x16xbf16>)
      outs(%o : memref<2x4x8x16xf32>)
      schedule(#attn_tile.sequential<query_tile = 64, key_tile = 32>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = memref.load %bias[%i, %j] : memref<8x8xf32>
        %r = arith.addf %s, %x : f32
        attn.yield %r : f32
      }
  return
}

// -----

// The first work item of a head reports an entry of the map of heads that is no
// key head; whatever it is, no read leaves the keys.
// CHECK-LABEL: attn_tile.kernel @head_map_kernel(
// CHECK-SAME: %[[K:[a-z0-9]+]]: memref<2x3x8x16xf32>, %{{.*}}: memref<2x3x8x16xf32>, %{{.*}}: memref<2x4x8x16xf32>,
// CHECK-SAME: %[[MAP:[a-z0-9]+]]: memref<4xi32>, %[[FAULT:[a-z0-9]+]]: memref<1xi32>)
// CHECK: scf.forall (%[[B:.*]], %[[H:.*]], %{{.*}}) in
// CHECK: %[[ENTRY:.*]] = memref.load %[[MAP]][%[[H]]]
// CHECK: %[[HEAD:.*]] = arith.index_cast %[[ENTRY]] : i32 to index
// CHECK: %[[LAST:.*]] = arith.constant 2 : index
// CHECK: %[[KH:.*]] = arith.minui %[[HEAD]], %[[LAST]] : index
// CHECK: attn_tile.load %[[K]][%[[B]], %[[KH]],
// CHECK: attn_tile.store
// CHECK: %[[FIRST:.*]] = arith.cmpi eq, %{{.*}}, %{{.*}} : index
// CHECK: scf.if %[[FIRST]]
// CHECK: %[[AGAIN:.*]] = memref.load %[[MAP]][%[[H]]]
// CHECK: %[[COUNT:.*]] = arith.constant 3 : i32
// CHECK: %[[WRONG:.*]] = arith.cmpi uge, %[[AGAIN]], %[[COUNT]] : i32
// CHECK: scf.if %[[WRONG]]
// CHECK: %[[CODE:.*]] = arith.constant 2 : i32
// CHECK: memref.store %[[CODE]], %[[FAULT]]
// CHECK-LABEL: func.func @head_map(
// CHECK: %[[WORD:.*]] = attn_tile.error_flag : memref<1xi32>
// CHECK: attn_tile.launch @head_map_kernel{{.*}}%[[WORD]]
func.func @head_map(%q: memref<2x4x8x16xf32>, %k: memref<2x3x8x16xf32>, %o: memref<2x4x8x16xf32>,
                    %map: memref<4xi32>) {
  attn.attention
      ins(%q, %k, %k : memref<2x4x8x16xf32>, memref<2x3x8x16xf32>, memref<2x3x8x16xf32>)
      outs(%o : memref<2x4x8x16xf32>) heads(%map : memref<4xi32>)
      schedule(#attn_tile.sequential<query_tile = 64, key_tile = 32>)
  return
}

// -----

// The identity is mixed in where results are written; a head that is the
// identity alone takes the one step that there always is.
// CHECK-LABEL: attn_tile.kernel @identity_kernel(
// CHECK-SAME: %[[V:[a-z0-9]+]]: memref<2x2x12x16xbf16>, %{{[a-z0-9]+}}: memref<2x4x8x16xbf16>, %[[U:[a-z0-9]+]]: memref<4xf32>)
// CHECK: scf.forall (%[[B:.*]], %[[H:.*]], %{{.*}}) in
// CHECK: %[[HK:.*]] = arith.divui %[[H]]
// CHECK: %[[WEIGHT:.*]] = memref.load %[[U]][%[[H]]] : memref<4xf32>
// CHECK: %[[NEEDED:.*]] = arith.cmpf une, %[[WEIGHT]], %{{.*}} : f32
// CHECK: attn_tile.kv_tile_iterator {{.*}} if(%[[NEEDED]])
// CHECK: scf.for
// CHECK: %[[REST:.*]] = arith.subf %{{.*}}, %[[WEIGHT]] : f32
// CHECK: vector.broadcast %[[REST]]
// CHECK: %[[SHIFT:.*]] = arith.subi %{{.*}}, %{{.*}} : index
// CHECK: attn_tile.map {{.*}} {
// CHECK: ^bb0(%[[X:[^:]*]]: f32, %{{[^:]*}}: index, %{{[^:]*}}: index, %[[I:[^:]*]]: index, %[[D:[^:]*]]: index):
// CHECK: %[[J:.*]] = arith.addi %[[I]], %[[SHIFT]]
// CHECK: %[[EXISTS:.*]] = arith.cmpi ult, %[[J]]
// CHECK: %[[OWN:.*]] = memref.load %[[V]][%[[B]], %[[HK]], %[[J]], %[[D]]]
// CHECK: %[[WIDE:.*]] = arith.extf %[[OWN]]
// CHECK: %[[CHOSEN:.*]] = arith.select %[[EXISTS]], %[[WIDE]]
// CHECK: math.fma %[[WEIGHT]], %[[CHOSEN]], %[[X]]
func.func @identity(%q: memref<2x4x8x16xbf16>, %k: memref<2x2x12x16xbf16>,
                    %o: memref<2x4x8x16xbf16>, %u: memref<4xf32>) {
  attn.attention
      ins(%q, %k, %k : memref<2x4x8x16xbf16>, memref<2x2x12x16xbf16>, memref<2x2x12x16xbf16>)
      outs(%o : memref<2x4x8x16xbf16>) identity(%u : memref<4xf32>)
      schedule(#attn_tile.sequential<query_tile = 8, key_tile = 16>)
  return
}
