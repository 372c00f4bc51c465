// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-tile-pack-allocations))' | FileCheck %s
// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-tile-pack-allocations))' \
// RUN:   --remarks-filter='attn-tile.*' --remark-format=emitRemark 2>&1 >/dev/null \
// RUN:   | FileCheck %s --check-prefix=REMARK

attn_tile.kernel @kernel(%m: memref<?xf32>) {
  attn_tile.return
}
attn_tile.kernel @two(%m: memref<?xf32>, %n: memref<?xf32>) {
  attn_tile.return
}

// The first and the third buffer are never needed at the same time, the second
// one is needed with both.

// REMARK: Function=chain | Remark="3 buffers take 4352 bytes instead of 6400"

// CHECK-LABEL: func.func @chain(
// CHECK:         %[[ALL:.*]] = memref.alloc() {alignment = 256 : i64} : memref<4352xi8>
// CHECK:         %[[O0:.*]] = arith.constant 0 : index
// CHECK-NEXT:    %[[A:.*]] = memref.view %[[ALL]][%[[O0]]][] : memref<4352xi8> to memref<512xf32>
// CHECK:         %[[O1:.*]] = arith.constant 4096 : index
// CHECK-NEXT:    %[[B:.*]] = memref.view %[[ALL]][%[[O1]]][] : memref<4352xi8> to memref<64xf32>
// CHECK:         %[[O2:.*]] = arith.constant 0 : index
// CHECK-NEXT:    %[[C:.*]] = memref.view %[[ALL]][%[[O2]]][] : memref<4352xi8> to memref<1024x1xf32>
// CHECK:         memref.dealloc %[[ALL]]
// CHECK-NOT:     memref.dealloc
// CHECK:         return
func.func @chain() {
  %a = memref.alloc() : memref<512xf32>
  %b = memref.alloc() : memref<64xf32>
  %c = memref.alloc() : memref<1024x1xf32>
  %ad = memref.cast %a : memref<512xf32> to memref<?xf32>
  %bd = memref.cast %b : memref<64xf32> to memref<?xf32>
  attn_tile.launch @two args(%ad, %bd : memref<?xf32>, memref<?xf32>)
  %cc = memref.collapse_shape %c [[0, 1]] : memref<1024x1xf32> into memref<1024xf32>
  %cd = memref.cast %cc : memref<1024xf32> to memref<?xf32>
  attn_tile.launch @two args(%bd, %cd : memref<?xf32>, memref<?xf32>)
  memref.dealloc %b : memref<64xf32>
  memref.dealloc %a : memref<512xf32>
  memref.dealloc %c : memref<1024x1xf32>
  return
}

// Buffers of dynamic sizes share allocations with those of the same sizes, as few
// as there can be.

// REMARK: Function=dynamic | Remark="4 buffers of equal size take 2 allocations"

// CHECK-LABEL: func.func @dynamic(
// CHECK-SAME:    %[[N:.*]]: index, %[[M:.*]]: index)
// CHECK-NEXT:    %[[A:.*]] = memref.alloc(%[[N]])
// CHECK-NEXT:    %[[B:.*]] = memref.alloc(%[[N]])
// CHECK-NEXT:    %[[E:.*]] = memref.alloc(%[[M]])
// CHECK-NEXT:    attn_tile.launch @two args(%[[A]], %[[B]]
// CHECK-NEXT:    attn_tile.launch @two args(%[[B]], %[[A]]
// CHECK-NEXT:    attn_tile.launch @two args(%[[A]], %[[B]]
// CHECK-NEXT:    attn_tile.launch @kernel args(%[[E]]
// CHECK-NEXT:    memref.dealloc %[[A]]
// CHECK-NEXT:    memref.dealloc %[[B]]
// CHECK-NEXT:    memref.dealloc %[[E]]
func.func @dynamic(%n: index, %m: index) {
  %a = memref.alloc(%n) : memref<?xf32>
  %b = memref.alloc(%n) : memref<?xf32>
  %c = memref.alloc(%n) : memref<?xf32>
  %d = memref.alloc(%n) : memref<?xf32>
  %e = memref.alloc(%m) : memref<?xf32>
  attn_tile.launch @two args(%a, %b : memref<?xf32>, memref<?xf32>)
  attn_tile.launch @two args(%b, %c : memref<?xf32>, memref<?xf32>)
  attn_tile.launch @two args(%c, %d : memref<?xf32>, memref<?xf32>)
  attn_tile.launch @kernel args(%e : memref<?xf32>)
  memref.dealloc %a : memref<?xf32>
  memref.dealloc %b : memref<?xf32>
  memref.dealloc %c : memref<?xf32>
  memref.dealloc %d : memref<?xf32>
  memref.dealloc %e : memref<?xf32>
  return
}

// All are needed by the last launch, through views and tensor maps.

// CHECK-LABEL: func.func @together(
// CHECK-COUNT-2: memref.alloc() : memref<{{.*}}xf32>
// CHECK-NOT:     memref.view
// CHECK:         return
attn_tile.kernel @map(%m: !attn_tile.tensor_map<2, 64x64xbf16>, %n: memref<?xf32>) {
  attn_tile.return
}
func.func @together(%m: memref<64x64xbf16>) {
  %a = memref.alloc() : memref<64xf32>
  %b = memref.alloc() : memref<64x64xf32>
  %x = memref.alloc() : memref<64x64xbf16>
  %ad = memref.cast %a : memref<64xf32> to memref<?xf32>
  attn_tile.launch @kernel args(%ad : memref<?xf32>)
  %map = attn_tile.make_tensor_map %x : memref<64x64xbf16> -> <2, 64x64xbf16>
  %bc = memref.collapse_shape %b [[0, 1]] : memref<64x64xf32> into memref<4096xf32>
  %bd = memref.cast %bc : memref<4096xf32> to memref<?xf32>
  attn_tile.launch @kernel args(%bd : memref<?xf32>)
  attn_tile.launch @map args(%map, %ad : !attn_tile.tensor_map<2, 64x64xbf16>, memref<?xf32>)
  attn_tile.launch @kernel args(%bd : memref<?xf32>)
  memref.dealloc %a : memref<64xf32>
  memref.dealloc %b : memref<64x64xf32>
  memref.dealloc %x : memref<64x64xbf16>
  return
}

// Uses in regions count for the operation around them; operations with regions
// whose arguments are scalars are uses, and need theirs at the same time.

// REMARK: Function=regions | Remark="3 buffers take 768 bytes instead of 1024"

// CHECK-LABEL: func.func @regions(
// CHECK:         memref.alloc() {alignment = 256 : i64} : memref<768xi8>
// CHECK-DAG:     memref.view %{{.*}} : memref<768xi8> to memref<64xf32>
// CHECK-DAG:     memref.view %{{.*}} : memref<768xi8> to memref<64xf64>
// CHECK-DAG:     memref.view %{{.*}} : memref<768xi8> to memref<128xbf16>
func.func @regions(%flag: i1, %n: index, %out: memref<128xbf16>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %a = memref.alloc() : memref<64xf32>
  %b = memref.alloc() : memref<64xf64>
  %c = memref.alloc() : memref<128xbf16>
  scf.if %flag {
    scf.for %i = %c0 to %n step %c1 {
      memref.store %zero, %a[%i] : memref<64xf32>
    }
  }
  linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%a : memref<64xf32>) outs(%b : memref<64xf64>) {
    ^bb0(%x: f32, %y: f64):
      %w = arith.extf %x : f32 to f64
      linalg.yield %w : f64
  }
  linalg.copy ins(%c : memref<128xbf16>) outs(%out : memref<128xbf16>)
  memref.dealloc %a : memref<64xf32>
  memref.dealloc %b : memref<64xf64>
  memref.dealloc %c : memref<128xbf16>
  return
}

// What is not followed stays: what is yielded or carried by a loop, what nobody
// frees here, and what nobody uses; and what nothing else is like.

// CHECK-LABEL: func.func @stays(
// CHECK-NOT:     memref.view
// CHECK:         return
func.func @stays(%flag: i1, %n: index, %other: memref<64xf32>) -> memref<64xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %a = memref.alloc() : memref<64xf32>
  %b = memref.alloc() : memref<64xf32>
  %c = memref.alloc(%n) : memref<?xf32>
  %d = memref.alloc() : memref<64xf32>
  %e = memref.alloc() : memref<64xf32>
  %f = memref.alloc() : memref<64xi1>
  %one = memref.alloc() : memref<64xf32>
  %y = scf.if %flag -> memref<64xf32> {
    scf.yield %a : memref<64xf32>
  } else {
    scf.yield %other : memref<64xf32>
  }
  %l = scf.for %i = %c0 to %n step %c1 iter_args(%x = %b) -> memref<64xf32> {
    scf.yield %x : memref<64xf32>
  }
  memref.store %zero, %c[%c0] : memref<?xf32>
  memref.store %flag, %f[%c0] : memref<64xi1>
  memref.store %zero, %one[%c0] : memref<64xf32>
  memref.store %zero, %d[%c0] : memref<64xf32>
  memref.dealloc %a : memref<64xf32>
  memref.dealloc %b : memref<64xf32>
  memref.dealloc %c : memref<?xf32>
  memref.dealloc %e : memref<64xf32>
  memref.dealloc %f : memref<64xi1>
  memref.dealloc %one : memref<64xf32>
  return %d : memref<64xf32>
}

// Each block has its own buffers.

// REMARK: Function=blocks | Remark="2 buffers take 256 bytes instead of 512"

// CHECK-LABEL: func.func @blocks(
// CHECK:         memref.alloc() : memref<64xf32>
// CHECK:         scf.for
// CHECK-NEXT:      %[[ALL:.*]] = memref.alloc() {alignment = 256 : i64} : memref<256xi8>
// CHECK:           memref.dealloc %[[ALL]]
// CHECK-NEXT:    }
func.func @blocks(%n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %a = memref.alloc() : memref<64xf32>
  memref.store %zero, %a[%c0] : memref<64xf32>
  scf.for %i = %c0 to %n step %c1 {
    %b = memref.alloc() : memref<64xf32>
    %c = memref.alloc() : memref<64xf32>
    memref.store %zero, %b[%i] : memref<64xf32>
    memref.store %zero, %c[%i] : memref<64xf32>
    memref.dealloc %b : memref<64xf32>
    memref.dealloc %c : memref<64xf32>
  }
  memref.dealloc %a : memref<64xf32>
  return
}

// Regions that overlap run at the same time.

// CHECK-LABEL: func.func @overlap(
// CHECK-NOT:     memref.view
// CHECK:         return
func.func @overlap() {
  %a = memref.alloc() : memref<64xf32>
  %b = memref.alloc() : memref<64xf32>
  %ad = memref.cast %a : memref<64xf32> to memref<?xf32>
  %bd = memref.cast %b : memref<64xf32> to memref<?xf32>
  attn.overlap by streams {
    attn_tile.launch @kernel args(%ad : memref<?xf32>)
    attn.overlap_yield
  } and {
    attn_tile.launch @kernel args(%bd : memref<?xf32>)
    attn.overlap_yield
  }
  memref.dealloc %a : memref<64xf32>
  memref.dealloc %b : memref<64xf32>
  return
}

// Nor is what is passed on as a number, or must be aligned more, or is padded.

// CHECK-LABEL: func.func @others(
// CHECK-NOT:     memref.view
// CHECK:         return
func.func private @take(index)
func.func @others(%n: index) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %z24 = arith.constant 0 : i24
  %a = memref.alloc() : memref<64xf32>
  %b = memref.alloc() {alignment = 4096 : i64} : memref<64xf32>
  %c = memref.alloc() : memref<64xi24>
  %d = memref.alloc() : memref<64xf32>
  %p = memref.extract_aligned_pointer_as_index %a : memref<64xf32> -> index
  func.call @take(%p) : (index) -> ()
  memref.store %zero, %b[%c0] : memref<64xf32>
  memref.store %z24, %c[%c0] : memref<64xi24>
  memref.store %zero, %d[%c0] : memref<64xf32>
  memref.dealloc %a : memref<64xf32>
  memref.dealloc %b : memref<64xf32>
  memref.dealloc %c : memref<64xi24>
  memref.dealloc %d : memref<64xf32>
  return
}

// On another stream kernels run in an order of their own.

// CHECK-LABEL: func.func @streams(
// CHECK-NOT:     memref.view
// CHECK:         return
func.func @streams() {
  %a = memref.alloc() : memref<64xf32>
  %b = memref.alloc() : memref<64xf32>
  %ad = memref.cast %a : memref<64xf32> to memref<?xf32>
  %bd = memref.cast %b : memref<64xf32> to memref<?xf32>
  %side = attn_tile.fork_stream
  attn_tile.launch @kernel on(%side) args(%ad : memref<?xf32>)
  attn_tile.launch @kernel args(%bd : memref<?xf32>)
  attn_tile.join_stream %side
  memref.dealloc %a : memref<64xf32>
  memref.dealloc %b : memref<64xf32>
  return
}
