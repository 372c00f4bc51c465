// REQUIRES: assertions
// RUN: attn-opt %s --attn-tile-gather-allocations --debug-only=attn-tile-gather-allocations -o /dev/null 2>&1 \
// RUN:   | FileCheck %s
// RUN: attn-opt %s --attn-tile-gather-allocations --debug-only=attn-fuse,attn-expand-masks -o /dev/null 2>&1 | count 0
// RUN: attn-opt %s --attn-tile-gather-allocations -o /dev/null 2>&1 | count 0

// A pass logs under its name.

// CHECK: [attn-tile-gather-allocations {{.*}}] moved before the launches: %{{.*}} = memref.alloc() : memref<4xf32>
// CHECK: [attn-tile-gather-allocations {{.*}}] depends on a launch: %{{.*}} = memref.alloc(%{{.*}}) : memref<?xf32>

func.func @buffers(%n: memref<1xindex>) {
  %c0 = arith.constant 0 : index
  attn_tile.launch @kernel args(%n : memref<1xindex>)
  %a = memref.alloc() : memref<4xf32>
  %size = memref.load %n[%c0] : memref<1xindex>
  %b = memref.alloc(%size) : memref<?xf32>
  memref.dealloc %a : memref<4xf32>
  memref.dealloc %b : memref<?xf32>
  return
}
attn_tile.kernel @kernel(%n: memref<1xindex>) {
  attn_tile.return
}
