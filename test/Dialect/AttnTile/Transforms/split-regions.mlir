// RUN: attn-opt %s --pass-pipeline='builtin.module(attn_tile.kernel(attn-tile-split-regions))' --split-input-file | FileCheck %s
// RUN: attn-opt %s --pass-pipeline='builtin.module(attn_tile.kernel(attn-tile-split-regions{stream-tiles}))' --split-input-file \
// RUN:   | FileCheck %s --check-prefix=STREAM

// A read at (query, key) is a tile before the map, a read at the query a vector
// of rows before the loop; so is what it is indexed by.

// CHECK-LABEL: attn_tile.kernel @tiles(
// CHECK-SAME:    %[[S:.*]]: vector<64x48xf32>, %[[BIAS:.*]]: memref<?x8x?x?xbf16>, %[[ROWS:.*]]: memref<?x?xf32>, %[[B:[^:,]*]]: index, %[[H:[^:,]*]]: index,
// CHECK-SAME:    %[[I:.*]]: index, %[[N:.*]]: index)
// CHECK:         %[[R:.*]] = attn_tile.load %[[ROWS]][%[[B]], %[[I]]] unaligned : memref<?x?xf32> -> vector<64xf32>
// CHECK:         scf.for %[[J:.*]] =
// CHECK-NEXT:      %[[T:.*]] = attn_tile.load %[[BIAS]][%{{.*}}, %[[H]], %[[I]], %[[J]]] unaligned : memref<?x8x?x?xbf16> -> vector<64x48xbf16>
// CHECK-NEXT:      attn_tile.map %[[S]] at(%[[B]], %[[H]], %[[I]], %[[J]]) lengths(%[[N]], %[[N]]) with(%[[T]], %[[R]] : vector<64x48xbf16>, vector<64xf32>)
// CHECK-SAME:          {{^}} : vector<64x48xf32> {
// CHECK-NEXT:      ^bb0(%[[X:.*]]: f32, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %[[Y:.*]]: bf16, %[[Z:.*]]: f32):
// CHECK-NEXT:        %[[W:.*]] = arith.extf %[[Y]] : bf16 to f32
// CHECK-NEXT:        %[[U:.*]] = arith.addf %[[X]], %[[W]] : f32
// CHECK-NEXT:        %[[V:.*]] = arith.mulf %[[U]], %[[Z]] : f32
// CHECK-NEXT:        attn_tile.yield %[[V]] : f32
attn_tile.kernel @tiles(%s: vector<64x48xf32>, %bias: memref<?x8x?x?xbf16>, %rows: memref<?x?xf32>, %b0: index, %h0: index, %i0: index, %n: index) {
  %c0 = arith.constant 0 : index
  %c48 = arith.constant 48 : index
  scf.for %j0 = %c0 to %n step %c48 {
    %r = attn_tile.map %s at(%b0, %h0, %i0, %j0) lengths(%n, %n) : vector<64x48xf32> {
    ^bb0(%x: f32, %b: index, %h: index, %q: index, %k: index):
      %zero = arith.constant 0 : index
      %y = memref.load %bias[%zero, %h, %q, %k] : memref<?x8x?x?xbf16>
      %z = memref.load %rows[%b, %q] : memref<?x?xf32>
      %w = arith.extf %y : bf16 to f32
      %u = arith.addf %x, %w : f32
      %v = arith.mulf %u, %z : f32
      attn_tile.yield %v : f32
    }
  }
  attn_tile.return
}

// -----

// What is the same for all elements is computed once for the work item; its
// read is guarded only where its index may be outside.

// CHECK-LABEL: attn_tile.kernel @uniform(
// CHECK-SAME:    %[[S:.*]]: vector<64x48xf32>, %[[SLOPES:.*]]: memref<8xf32>, %[[FACTORS:.*]]: memref<?xf32>, %[[N:.*]]: index)
// CHECK:         scf.forall (%[[B:.*]], %[[H:.*]], %[[I:.*]]) in (4, 8, %[[N]])
// CHECK-NOT:       arith.minui
// CHECK:           %[[SLOPE:.*]] = memref.load %[[SLOPES]][%[[H]]]
// CHECK:           %[[SIZE:.*]] = memref.dim %[[FACTORS]], %{{.*}} : memref<?xf32>
// CHECK:           %[[SOME:.*]] = arith.maxui %[[SIZE]], %[[ONE:.*]] : index
// CHECK:           %[[LAST:.*]] = arith.subi %[[SOME]], %[[ONE]] : index
// CHECK:           %[[INDEX:.*]] = arith.minui %[[B]], %[[LAST]] : index
// CHECK:           %[[FACTOR:.*]] = memref.load %[[FACTORS]][%[[INDEX]]]
// CHECK:           %[[INVERSE:.*]] = arith.divf %{{.*}}, %[[FACTOR]] : f32
// CHECK:           %[[BOTH:.*]] = arith.mulf %[[SLOPE]], %[[INVERSE]] : f32
// CHECK:           scf.for
// CHECK-NEXT:        attn_tile.map
// CHECK-NEXT:        ^bb0(%[[X:.*]]: f32,
// CHECK-NEXT:          %[[Y:.*]] = arith.mulf %[[X]], %[[BOTH]] : f32
// CHECK-NEXT:          attn_tile.yield %[[Y]] : f32
attn_tile.kernel @uniform(%s: vector<64x48xf32>, %slopes: memref<8xf32>, %factors: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c48 = arith.constant 48 : index
  scf.forall (%b0, %h0, %i0) in (4, 8, %n) {
    scf.for %j0 = %c0 to %n step %c48 {
      %r = attn_tile.map %s at(%b0, %h0, %i0, %j0) lengths(%n, %n) : vector<64x48xf32> {
      ^bb0(%x: f32, %b: index, %h: index, %q: index, %k: index):
        %slope = memref.load %slopes[%h] : memref<8xf32>
        %factor = memref.load %factors[%b] : memref<?xf32>
        %y = arith.mulf %x, %slope : f32
        %z = arith.divf %y, %factor : f32
        attn_tile.yield %z : f32
      }
    }
  }
  attn_tile.return
}

// -----

// Indices that the region bounds itself need no guard; the others do, also
// those of masks. A read that depends on an element stays.

// CHECK-LABEL: attn_tile.kernel @guards(
// CHECK-SAME:    %{{.*}}: vector<64x48xf32>, %[[TABLE:.*]]: memref<2047xf32>, %[[DOCS:.*]]: memref<?xi32>
// CHECK:         attn_tile.map
// CHECK:           %[[CLAMPED:.*]] = arith.addi
// CHECK-NEXT:      memref.load %[[TABLE]][%[[CLAMPED]]]
// CHECK:           %[[ANY:.*]] = arith.minui %{{.*}}, %{{.*}} : index
// CHECK-NEXT:      memref.load %[[TABLE]][%[[ANY]]]
// CHECK:         attn_tile.mask
// CHECK:           %[[KEY:.*]] = arith.minui %{{.*}}, %{{.*}} : index
// CHECK-NEXT:      memref.load %[[DOCS]][%[[KEY]]]
attn_tile.kernel @guards(%s: vector<64x48xf32>, %table: memref<2047xf32>, %docs: memref<?xi32>, %i0: index, %j0: index, %n: index, %doc: i32) {
  %c0 = arith.constant 0 : index
  %r = attn_tile.map %s at(%c0, %c0, %i0, %j0) lengths(%n, %n) : vector<64x48xf32> {
  ^bb0(%x: f32, %b: index, %h: index, %q: index, %k: index):
    %most = arith.constant 1023 : index
    %least = arith.constant -1023 : index
    %d = arith.subi %k, %q : index
    %low = arith.minsi %d, %most : index
    %high = arith.maxsi %low, %least : index
    %place = arith.addi %high, %most : index
    %y = memref.load %table[%place] : memref<2047xf32>
    %z = memref.load %table[%d] : memref<2047xf32>
    %v = arith.addf %y, %z : f32
    %w = arith.addf %x, %v : f32
    attn_tile.yield %w : f32
  }
  %m = attn_tile.mask %r at(%c0, %c0, %i0, %j0) lengths(%n, %n) : vector<64x48xf32> mask_mod {
  ^bb0(%b: index, %h: index, %q: index, %k: index):
    %y = memref.load %docs[%k] : memref<?xi32>
    %keep = arith.cmpi eq, %y, %doc : i32
    attn_tile.yield %keep : i1
  }
  attn_tile.return
}

// -----

// Booleans are no tiles: they are stored as bytes.

// CHECK-LABEL: attn_tile.kernel @booleans(
// CHECK-NOT:     attn_tile.load
// CHECK:         attn_tile.map
// CHECK:           arith.minui
// CHECK:           arith.minui
// CHECK:           memref.load
attn_tile.kernel @booleans(%s: vector<64x48xf32>, %flags: memref<?x?xi1>, %i0: index, %n: index) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %r = attn_tile.map %s at(%c0, %c0, %i0, %c0) lengths(%n, %n) : vector<64x48xf32> {
  ^bb0(%x: f32, %b: index, %h: index, %q: index, %k: index):
    %flag = memref.load %flags[%q, %k] : memref<?x?xi1>
    %y = arith.select %flag, %x, %zero : f32
    attn_tile.yield %y : f32
  }
  attn_tile.return
}

// -----

// A tile of a stream is at the place of the keys in theirs. Of tables, of others
// than floats, of a source that is read twice and without a stream of keys it is
// loaded by itself.

#rows = affine_map<(m, n, k) -> (m, k)>
#keys = affine_map<(m, n, k) -> (n, k)>
#result = affine_map<(m, n, k) -> (m, n)>

// CHECK-LABEL:  attn_tile.kernel @streams(
// CHECK-NOT:      attn_tile.load {{.*}}memref<8x?x?xbf16{{.*}}stream
// STREAM-LABEL: attn_tile.kernel @streams(
// STREAM-SAME:    %{{.*}}, %{{.*}}, %[[BIAS:.*]]: memref<8x?x?xbf16>, %[[OTHER:.*]]: memref<?x?xf32>, %[[CODES:.*]]: memref<?x?xi8>,
// STREAM-SAME:    %[[COLUMNS:.*]]: memref<?x?xf16, strided<[1, ?]>>, %[[B:.*]]: index, %[[H:.*]]: index, %[[I:.*]]: index, %[[N:.*]]: index)
// STREAM:         scf.for %[[T:.*]] =
// STREAM:           %[[J:.*]] = arith.muli %[[T]]
// STREAM:           attn_tile.load %[[BIAS]][%[[H]], %[[I]], %[[J]]] stream(%[[T]] of %[[N]]) : memref<8x?x?xbf16> -> vector<64x48xbf16>
// STREAM:           attn_tile.load %[[BIAS]][%{{.*}}, %[[I]], %[[J]]] unaligned : memref<8x?x?xbf16> -> vector<64x48xbf16>
// STREAM:           attn_tile.load %[[OTHER]][%[[I]], %[[J]]] stream(%[[T]] of %[[N]]) : memref<?x?xf32> -> vector<64x48xf32>
// STREAM:           attn_tile.load %[[CODES]][%[[I]], %[[J]]] unaligned
// STREAM:           attn_tile.load %[[COLUMNS]][%[[I]], %[[J]]] unaligned
attn_tile.kernel @streams(%q: vector<64x16xbf16>, %key: memref<?x16xbf16>, %bias: memref<8x?x?xbf16>, %other: memref<?x?xf32>,
                          %codes: memref<?x?xi8>, %columns: memref<?x?xf16, strided<[1, ?]>>,
                          %b0: index, %h0: index, %i0: index, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c48 = arith.constant 48 : index
  %zeros = arith.constant dense<0.0> : vector<64x48xf32>
  scf.for %t = %c0 to %n step %c1 {
    %j0 = arith.muli %t, %c48 : index
    %kt = attn_tile.load %key[%j0, %c0] stream(%t of %n) : memref<?x16xbf16> -> vector<48x16xbf16>
    %s = vector.contract {indexing_maps = [#rows, #keys, #result],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
        %q, %kt, %zeros : vector<64x16xbf16>, vector<48x16xbf16> into vector<64x48xf32>
    %r = attn_tile.map %s at(%b0, %h0, %i0, %j0) lengths(%n, %n) : vector<64x48xf32> {
    ^bb0(%x: f32, %b: index, %h: index, %q0: index, %k: index):
      %zero = arith.constant 0 : index
      %y0 = memref.load %bias[%h, %q0, %k] : memref<8x?x?xbf16>
      %y1 = memref.load %bias[%zero, %q0, %k] : memref<8x?x?xbf16>
      %y2 = memref.load %other[%q0, %k] : memref<?x?xf32>
      %y3 = memref.load %codes[%q0, %k] : memref<?x?xi8>
      %y4 = memref.load %columns[%q0, %k] : memref<?x?xf16, strided<[1, ?]>>
      %z0 = arith.extf %y0 : bf16 to f32
      %z1 = arith.extf %y1 : bf16 to f32
      %z3 = arith.sitofp %y3 : i8 to f32
      %z4 = arith.extf %y4 : f16 to f32
      %u0 = arith.addf %x, %z0 : f32
      %u1 = arith.addf %u0, %z1 : f32
      %u2 = arith.addf %u1, %y2 : f32
      %u3 = arith.addf %u2, %z3 : f32
      %u4 = arith.addf %u3, %z4 : f32
      attn_tile.yield %u4 : f32
    }
  }
  attn_tile.return
}

// -----

// STREAM-LABEL: attn_tile.kernel @no_stream(
// STREAM:         attn_tile.load %{{.*}} unaligned
attn_tile.kernel @no_stream(%s: vector<64x48xf32>, %bias: memref<?x?xbf16>, %i: index, %n: index) {
  %r = attn_tile.map %s at(%i, %i, %i, %i) lengths(%n, %n) : vector<64x48xf32> {
  ^bb0(%x: f32, %b: index, %h: index, %q: index, %k: index):
    %y = memref.load %bias[%q, %k] : memref<?x?xbf16>
    %z = arith.extf %y : bf16 to f32
    attn_tile.yield %z : f32
  }
  attn_tile.return
}
