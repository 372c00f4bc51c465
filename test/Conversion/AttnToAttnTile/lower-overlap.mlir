// RUN: attn-opt %s --attn-lower-overlap=target=sm_90a | FileCheck %s --check-prefixes=CHECK,GPU
// RUN: attn-opt %s --attn-lower-overlap=target=host | FileCheck %s --check-prefixes=CHECK,HOST
// RUN: attn-opt %s --attn-lower-overlap=target=sm_90a --remarks-filter=attn-lower-overlap --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK

attn_tile.kernel @product(%c: memref<?xf32>) {
  attn_tile.return
}
attn_tile.kernel @mask(%m: memref<?xi32>, %s: memref<4xi32>) {
  attn_tile.return
}

// Allocations come before all launches, and memory is freed after them.
// CHECK-LABEL: func.func @streams(
// GPU:           %[[S:.*]] = memref.alloc() : memref<4xi32>
// GPU-NEXT:      %[[SIDE:.*]] = attn_tile.fork_stream
// GPU-NEXT:      attn_tile.launch @product args(
// GPU-NEXT:      attn_tile.launch @mask on(%[[SIDE]]) args(%{{.*}}, %[[S]] :
// GPU-NEXT:      attn_tile.join_stream %[[SIDE]]
// GPU-NEXT:      memref.dealloc %[[S]]
// GPU-NEXT:      attn_tile.launch @product args(%arg0
// HOST-NEXT:     attn_tile.launch @product args(
// HOST-NEXT:     %[[S:.*]] = memref.alloc() : memref<4xi32>
// HOST-NEXT:     attn_tile.launch @mask args(%{{.*}}, %[[S]] :
// HOST-NEXT:     memref.dealloc %[[S]]
// HOST-NEXT:     attn_tile.launch @product args(%arg0
func.func @streams(%c: memref<?xf32>, %m: memref<?xi32>) {
  %0 = attn.overlap by streams {
    attn_tile.launch @product args(%c : memref<?xf32>)
    attn.overlap_yield %c : memref<?xf32>
  } and {
    %s = memref.alloc() : memref<4xi32>
    attn_tile.launch @mask args(%m, %s : memref<?xi32>, memref<4xi32>)
    memref.dealloc %s : memref<4xi32>
    attn.overlap_yield
  } -> (memref<?xf32>)
  attn_tile.launch @product args(%0 : memref<?xf32>)
  return
}

// CHECK-LABEL: func.func @sequential(
// CHECK-NEXT:    attn_tile.launch @product args(
// CHECK-NEXT:    attn_tile.launch @product args(
// CHECK-NEXT:    return
func.func @sequential(%c: memref<?xf32>, %d: memref<?xf32>) {
  attn.overlap {
    attn_tile.launch @product args(%c : memref<?xf32>)
    attn.overlap_yield
  } and {
    attn_tile.launch @product args(%d : memref<?xf32>)
    attn.overlap_yield
  }
  return
}

// No kernel was made of both: next best.
// CHECK-LABEL: func.func @fused(
// GPU:           attn_tile.fork_stream
// HOST-NOT:      attn_tile.fork_stream
// REMARK:      has no fused kernel for these regions; uses streams
func.func @fused(%c: memref<?xf32>, %d: memref<?xf32>) {
  attn.overlap by fused {
    attn_tile.launch @product args(%c : memref<?xf32>)
    attn.overlap_yield
  } and {
    attn_tile.launch @product args(%d : memref<?xf32>)
    attn.overlap_yield
  }
  return
}

func.func private @other()

// CHECK-LABEL: func.func @unordered(
// CHECK-NEXT:    attn_tile.launch @product
// CHECK-NEXT:    call @other
// CHECK-NEXT:    return
// REMARK:      runs one region after another, since 'func.call' cannot be ordered among streams
func.func @unordered(%c: memref<?xf32>) {
  attn.overlap by streams {
    attn_tile.launch @product args(%c : memref<?xf32>)
    attn.overlap_yield
  } and {
    func.call @other() : () -> ()
    attn.overlap_yield
  }
  return
}
