// RUN: attn-compile %s --target=sm_90a --emit=mlir --stop-after=kernel -o - | FileCheck %s --check-prefix=KERNELS
// RUN: attn-compile %s --target=host --emit=mlir --stop-after=kernel -o - | FileCheck %s --check-prefix=KERNELS

// One kernel appends and rotates, in place. Attention then reads the cache, the rotated queries and the new lengths.
// Nothing is copied, and nothing waits on the host.

// KERNELS-LABEL: func.func @step
// KERNELS-SAME: %[[K:[a-z0-9]+]]: memref<?x2x1x128xbf16, {{[^{]*}}{attn.alignment
// KERNELS-NOT: memref.copy
// KERNELS: attn_tile.launch @step_cache_append {{.*}}args(%[[K]],
// KERNELS-NOT: memref.copy
// KERNELS: attn_tile.launch @step_kernel

func.func @step(%k: tensor<?x2x1x128xbf16>, %v: tensor<?x2x1x128xbf16>, %n: tensor<?xi32>, %t: tensor<?x?xi32>,
                %cos: tensor<?x64xf32>, %sin: tensor<?x64xf32>, %q: tensor<?x8x1x128xbf16>,
                %kc: tensor<?x2x64x128xbf16>, %vc: tensor<?x2x64x128xbf16>, %r: tensor<?x8x1x128xbf16>,
                %next: tensor<?xi32>, %o: tensor<?x8x1x128xbf16>)
    -> (tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?xi32>, tensor<?x8x1x128xbf16>) {
  %x:4 = attn.cache_append ins(%k, %v : tensor<?x2x1x128xbf16>, tensor<?x2x1x128xbf16>)
      outs(%kc, %vc : tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>)
      key_lengths(%n : tensor<?xi32>) new_lengths(%next : tensor<?xi32>) page_table(%t : tensor<?x?xi32>)
      rotary(%cos, %sin : tensor<?x64xf32>, tensor<?x64xf32>)
      query(%q into %r : tensor<?x8x1x128xbf16>, tensor<?x8x1x128xbf16>)
      -> tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x8x1x128xbf16>, tensor<?xi32>
  %y = attn.attention ins(%x#2, %x#0, %x#1 : tensor<?x8x1x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>)
      outs(%o : tensor<?x8x1x128xbf16>)
      key_lengths(%x#3 : tensor<?xi32>) page_table(%t : tensor<?x?xi32>) mask(#attn.causal)
      -> tensor<?x8x1x128xbf16>
  return %x#0, %x#1, %x#3, %y
      : tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?xi32>, tensor<?x8x1x128xbf16>
}
