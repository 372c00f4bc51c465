// RUN: attn-opt %s -attn-tile-allocate-pipes=target=sm_80 -convert-attn-tile-to-nvvm=target=sm_80 -canonicalize -cse \
// RUN:   -split-input-file | FileCheck %s

// A long mask is tested in a loop over the 128 elements of a thread, which collects their bits in four words. Element
// `i` is at row `8 * (i / 64)` and column `8 * (i % 64 / 2) + i % 2`.

// CHECK-LABEL: llvm.func @long_mask
// CHECK-DAG:     %[[C0:.*]] = arith.constant 0 : i32
// CHECK-DAG:     %[[C1:.*]] = arith.constant 1 : i32
// CHECK-DAG:     %[[C64:.*]] = arith.constant 64 : i32
// CHECK-DAG:     %[[C128:.*]] = arith.constant 128 : i32
// CHECK:         %[[WORDS:.*]]:4 = scf.for %[[I:.*]] = %[[C0]] to %[[C128]] step %[[C1]] iter_args({{.*}}) -> (i32, i32, i32, i32)
// CHECK-DAG:       arith.divui %[[I]], %[[C64]]
// CHECK-DAG:       arith.remui %[[I]], %[[C64]]
// CHECK:           scf.yield
// CHECK:         arith.trunci %[[WORDS]]#0 : i32 to i1
// CHECK:         arith.shrui %[[WORDS]]#3
// CHECK-COUNT-128: arith.select
// CHECK-NOT:     arith.cmpi
attn_tile.kernel @long_mask(%s: memref<64x256xf32>, %n: index, %row: index, %column: index, %out: memref<64x256xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %x = attn_tile.load %s[%c0, %c0] : memref<64x256xf32> -> vector<64x256xf32>
  %m = attn_tile.mask %x at(%c0, %c0, %row, %column) lengths(%n, %n)
      by(#attn.or<#attn.and<#attn.sliding_window<left = 5, right = 0>, #attn.not<#attn.sliding_window<left = 1, right = 0>>>,
       #attn.and<#attn.sliding_window<left = 15, right = 0>, #attn.not<#attn.sliding_window<left = 11, right = 0>>>,
       #attn.and<#attn.sliding_window<left = 25, right = 0>, #attn.not<#attn.sliding_window<left = 21, right = 0>>>,
       #attn.and<#attn.sliding_window<left = 35, right = 0>, #attn.not<#attn.sliding_window<left = 31, right = 0>>>,
       #attn.and<#attn.sliding_window<left = 45, right = 0>, #attn.not<#attn.sliding_window<left = 41, right = 0>>>,
       #attn.and<#attn.sliding_window<left = 55, right = 0>, #attn.not<#attn.sliding_window<left = 51, right = 0>>>,
       #attn.and<#attn.sliding_window<left = 65, right = 0>, #attn.not<#attn.sliding_window<left = 61, right = 0>>>,
       #attn.and<#attn.sliding_window<left = 75, right = 0>, #attn.not<#attn.sliding_window<left = 71, right = 0>>>>)
      : vector<64x256xf32>
  attn_tile.store %m, %out[%c0, %c0] : vector<64x256xf32>, memref<64x256xf32>
  attn_tile.return
}

// -----

// A long map keeps the elements in memory of the thread, which is allocated once.

// CHECK-LABEL: llvm.func @long_map
// CHECK:         %[[RESULTS:.*]] = llvm.alloca %{{.*}} x f32 : (i32) -> !llvm.ptr
// CHECK:         %[[SOURCES:.*]] = llvm.alloca %{{.*}} x f32 : (i32) -> !llvm.ptr
// CHECK:         scf.for
// CHECK-NOT:       llvm.alloca
// CHECK-COUNT-128: llvm.store %{{.*}}, %{{.*}} : f32, !llvm.ptr
// CHECK:           scf.for
// CHECK:             llvm.getelementptr %[[SOURCES]]
// CHECK:             llvm.load
// CHECK-COUNT-70:    math.absf
// CHECK-NOT:         math.absf
// CHECK:             llvm.getelementptr %[[RESULTS]]
// CHECK:             llvm.store
// CHECK-COUNT-128: llvm.load %{{.*}} : !llvm.ptr -> f32
attn_tile.kernel @long_map(%s: memref<64x256xf32>, %n: index, %row: index, %column: index, %out: memref<64x256xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %x = attn_tile.load %s[%c0, %c0] : memref<64x256xf32> -> vector<64x256xf32>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%t = %x) -> vector<64x256xf32> {
    %m = attn_tile.map %t at(%c0, %c0, %row, %column) lengths(%n, %n) : vector<64x256xf32> {
    ^bb0(%x0: f32, %b: index, %h: index, %q: index, %k: index):
      %x1 = math.absf %x0 : f32
      %x2 = math.absf %x1 : f32
      %x3 = math.absf %x2 : f32
      %x4 = math.absf %x3 : f32
      %x5 = math.absf %x4 : f32
      %x6 = math.absf %x5 : f32
      %x7 = math.absf %x6 : f32
      %x8 = math.absf %x7 : f32
      %x9 = math.absf %x8 : f32
      %x10 = math.absf %x9 : f32
      %x11 = math.absf %x10 : f32
      %x12 = math.absf %x11 : f32
      %x13 = math.absf %x12 : f32
      %x14 = math.absf %x13 : f32
      %x15 = math.absf %x14 : f32
      %x16 = math.absf %x15 : f32
      %x17 = math.absf %x16 : f32
      %x18 = math.absf %x17 : f32
      %x19 = math.absf %x18 : f32
      %x20 = math.absf %x19 : f32
      %x21 = math.absf %x20 : f32
      %x22 = math.absf %x21 : f32
      %x23 = math.absf %x22 : f32
      %x24 = math.absf %x23 : f32
      %x25 = math.absf %x24 : f32
      %x26 = math.absf %x25 : f32
      %x27 = math.absf %x26 : f32
      %x28 = math.absf %x27 : f32
      %x29 = math.absf %x28 : f32
      %x30 = math.absf %x29 : f32
      %x31 = math.absf %x30 : f32
      %x32 = math.absf %x31 : f32
      %x33 = math.absf %x32 : f32
      %x34 = math.absf %x33 : f32
      %x35 = math.absf %x34 : f32
      %x36 = math.absf %x35 : f32
      %x37 = math.absf %x36 : f32
      %x38 = math.absf %x37 : f32
      %x39 = math.absf %x38 : f32
      %x40 = math.absf %x39 : f32
      %x41 = math.absf %x40 : f32
      %x42 = math.absf %x41 : f32
      %x43 = math.absf %x42 : f32
      %x44 = math.absf %x43 : f32
      %x45 = math.absf %x44 : f32
      %x46 = math.absf %x45 : f32
      %x47 = math.absf %x46 : f32
      %x48 = math.absf %x47 : f32
      %x49 = math.absf %x48 : f32
      %x50 = math.absf %x49 : f32
      %x51 = math.absf %x50 : f32
      %x52 = math.absf %x51 : f32
      %x53 = math.absf %x52 : f32
      %x54 = math.absf %x53 : f32
      %x55 = math.absf %x54 : f32
      %x56 = math.absf %x55 : f32
      %x57 = math.absf %x56 : f32
      %x58 = math.absf %x57 : f32
      %x59 = math.absf %x58 : f32
      %x60 = math.absf %x59 : f32
      %x61 = math.absf %x60 : f32
      %x62 = math.absf %x61 : f32
      %x63 = math.absf %x62 : f32
      %x64 = math.absf %x63 : f32
      %x65 = math.absf %x64 : f32
      %x66 = math.absf %x65 : f32
      %x67 = math.absf %x66 : f32
      %x68 = math.absf %x67 : f32
      %x69 = math.absf %x68 : f32
      %x70 = math.absf %x69 : f32
      attn_tile.yield %x70 : f32
    }
    scf.yield %m : vector<64x256xf32>
  }
  attn_tile.store %r, %out[%c0, %c0] : vector<64x256xf32>, memref<64x256xf32>
  attn_tile.return
}

// -----

// A function of libdevice counts as 64 operations: two of them are emitted in a loop over 64 elements, and one is not.

// CHECK-LABEL: llvm.func @two_functions
// CHECK:         scf.for
// CHECK-COUNT-2:   math.erf
// CHECK-NOT:       math.erf
// CHECK-LABEL: llvm.func @one_function
// CHECK-NOT:     scf.for
// CHECK-COUNT-64: math.erf
attn_tile.kernel @two_functions(%s: memref<64x128xf32>, %n: index, %row: index, %column: index, %out: memref<64x128xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %x = attn_tile.load %s[%c0, %c0] : memref<64x128xf32> -> vector<64x128xf32>
  %m = attn_tile.map %x at(%c0, %c0, %row, %column) lengths(%n, %n) : vector<64x128xf32> {
  ^bb0(%x0: f32, %b: index, %h: index, %q: index, %k: index):
    %x1 = math.erf %x0 : f32
    %x2 = math.erf %x1 : f32
    attn_tile.yield %x2 : f32
  }
  attn_tile.store %m, %out[%c0, %c0] : vector<64x128xf32>, memref<64x128xf32>
  attn_tile.return
}
attn_tile.kernel @one_function(%s: memref<64x128xf32>, %n: index, %row: index, %column: index, %out: memref<64x128xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %x = attn_tile.load %s[%c0, %c0] : memref<64x128xf32> -> vector<64x128xf32>
  %m = attn_tile.map %x at(%c0, %c0, %row, %column) lengths(%n, %n) : vector<64x128xf32> {
  ^bb0(%x0: f32, %b: index, %h: index, %q: index, %k: index):
    %x1 = math.erf %x0 : f32
    attn_tile.yield %x1 : f32
  }
  attn_tile.store %m, %out[%c0, %c0] : vector<64x128xf32>, memref<64x128xf32>
  attn_tile.return
}
