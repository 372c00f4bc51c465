// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=sm_90a dq-workspace-bytes=536870912}))' --split-input-file \
// RUN:   --remarks-filter=attn-choose-schedule --remark-format=emitRemark 2>%t.remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks
// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=sm_90a dq-workspace-bytes=536870911}))' --split-input-file \
// RUN:   | FileCheck %s --check-prefix=LESS
// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=sm_90a}))' --split-input-file \
// RUN:   | FileCheck %s --check-prefix=ANY

// dQ accumulators of all queries take 4 * 1 * 64 * 16384 * 128 bytes: they are in a ring buffer if that
// is more than they may.

// CHECK-LABEL: func @long
// CHECK-NOT:     dq_ring_depth
// LESS-LABEL:  func @long
// LESS:          schedule(#attn_tile.gradient<{{.*}} dq_ring_depth = 528>>)
// ANY-LABEL:   func @long
// ANY-NOT:       dq_ring_depth
// REMARK:        up to 6143 queries in a dQ ring buffer
func.func @long(%q: memref<1x64x16384x128xbf16>, %lse: memref<1x64x16384xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x64x16384x128xbf16>, memref<1x64x16384x128xbf16>, memref<1x64x16384x128xbf16>,
          memref<1x64x16384x128xbf16>, memref<1x64x16384xf32>, memref<1x64x16384x128xbf16>)
      outs(%q, %q, %q : memref<1x64x16384x128xbf16>, memref<1x64x16384x128xbf16>, memref<1x64x16384x128xbf16>)
      mask(#attn.causal)
  return
}

// -----

// How many bytes lengths that are not known take is not known either.

// CHECK-LABEL: func @dynamic
// CHECK:         schedule(#attn_tile.gradient<{{.*}} query_parts = 2, dq_ring_depth = 264, lhs_registers = true, key_stages = 2>>)
// ANY-LABEL:   func @dynamic
// ANY:           schedule(#attn.by_query_length<bound = 6144,
// REMARK:        in a dQ ring buffer, for all of them might take more than 536870912 bytes
func.func @dynamic(%q: memref<?x8x?x64xbf16>, %lse: memref<?x8x?xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>,
          memref<?x8x?x64xbf16>, memref<?x8x?xf32>, memref<?x8x?x64xbf16>)
      outs(%q, %q, %q : memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>)
  return
}

// -----

// Heads that share keys have no ring buffer, and get a dq kernel instead.

// CHECK-LABEL: func @grouped
// CHECK:         schedule(#attn_tile.gradient<{{.*}}, dq = #attn_tile.warp_specialized<
// ANY-LABEL:   func @grouped
// ANY-NOT:       dq = #attn_tile
// ANY:           key_stationary
// REMARK:        dQ accumulator might take more than 536870912 bytes
func.func @grouped(%q: memref<?x8x?x64xbf16>, %k: memref<?x2x?x64xbf16>, %lse: memref<?x8x?xf32>) {
  attn.attention_grad
      ins(%q, %k, %k, %q, %lse, %q : memref<?x8x?x64xbf16>, memref<?x2x?x64xbf16>, memref<?x2x?x64xbf16>,
          memref<?x8x?x64xbf16>, memref<?x8x?xf32>, memref<?x8x?x64xbf16>)
      outs(%q, %k, %k : memref<?x8x?x64xbf16>, memref<?x2x?x64xbf16>, memref<?x2x?x64xbf16>)
  return
}

// -----

// So does head dim 256, where the dQ accumulator is chosen by its time.

// CHECK-LABEL: func @wide
// CHECK:         dq = #attn_tile
// LESS-LABEL:  func @wide
// LESS:          dq = #attn_tile
// ANY-LABEL:   func @wide
// ANY-NOT:       dq = #attn_tile
// ANY:           dv = #attn_tile
// REMARK:        dQ accumulator might take more than 536870912 bytes
func.func @wide(%q: memref<2x64x8192x256xbf16>, %lse: memref<2x64x8192xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<2x64x8192x256xbf16>, memref<2x64x8192x256xbf16>, memref<2x64x8192x256xbf16>,
          memref<2x64x8192x256xbf16>, memref<2x64x8192xf32>, memref<2x64x8192x256xbf16>)
      outs(%q, %q, %q : memref<2x64x8192x256xbf16>, memref<2x64x8192x256xbf16>, memref<2x64x8192x256xbf16>)
  return
}

// -----

// A ring buffer has room for any device that exists, not for any number.

// CHECK-LABEL: func @device
// CHECK-NOT:     dq_ring_depth
// LESS-LABEL:  func @device
// LESS-NOT:      dq_ring_depth
// ANY-LABEL:   func @device
// ANY-NOT:       dq_ring_depth
module attributes {attn.device = #attn.device<"h200", sms = 16385>} {
  func.func @device(%q: memref<1x64x1024x128xbf16>, %lse: memref<1x64x1024xf32>) {
    attn.attention_grad
        ins(%q, %q, %q, %q, %lse, %q : memref<1x64x1024x128xbf16>, memref<1x64x1024x128xbf16>, memref<1x64x1024x128xbf16>,
            memref<1x64x1024x128xbf16>, memref<1x64x1024xf32>, memref<1x64x1024x128xbf16>)
        outs(%q, %q, %q : memref<1x64x1024x128xbf16>, memref<1x64x1024x128xbf16>, memref<1x64x1024x128xbf16>)
        mask(#attn.causal)
    return
  }
}

// -----

// Warps that convert dQ of a ring buffer write elements of 16 bits.
// CHECK-LABEL: func @wide_dq
// CHECK-NOT:     dq_ring_depth
// LESS-LABEL:  func @wide_dq
// LESS-NOT:      dq_ring_depth
// ANY-LABEL:   func @wide_dq
// ANY-NOT:       dq_ring_depth
func.func @wide_dq(%q: memref<1x64x2048x128xbf16>, %lse: memref<1x64x2048xf32>, %dq: memref<1x64x2048x128xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x64x2048x128xbf16>, memref<1x64x2048x128xbf16>, memref<1x64x2048x128xbf16>,
          memref<1x64x2048x128xbf16>, memref<1x64x2048xf32>, memref<1x64x2048x128xbf16>)
      outs(%dq, %q, %q : memref<1x64x2048x128xf32>, memref<1x64x2048x128xbf16>, memref<1x64x2048x128xbf16>)
      mask(#attn.causal)
  return
}
