// REQUIRES: ptxas
// RUN: attn-compile %s --target=sm_90a --emit=mlir --stop-after=tile -o - | FileCheck %s --check-prefix=TILE
// RUN: attn-compile %s --target=sm_90a --emit=ptx -o - | FileCheck %s --check-prefix=SM90A
// RUN: attn-compile %s --target=sm_80 --emit=ptx -o - | FileCheck %s --check-prefix=SM80
// RUN: attn-compile %s --target=sm_90a --fail-on-spills -o %t.90a.o
// RUN: attn-compile %s --target=sm_80 --fail-on-spills -o %t.80.o

// The schedule is the one of a whole causal attention. Positions are read for a tile of queries, not for each pair: by
// the producer and the consumers, for bounds of the tiles to visit and for the masks of tiles.

// TILE:     attn_tile.kernel @shard_kernel
// TILE-SAME:    #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2,
// TILE-NOT: attn_tile.kernel

// SM90A-COUNT-4: ld.global.b32 {{.*}}, [%rd{{[0-9]+}}+20];
// SM90A-NOT:     ld.global.b32 {{.*}}, [%rd{{[0-9]+}}+20];

// SM80:     ld.global.b32 {{.*}}, [%rd{{[0-9]+}}+20];
// SM80-NOT: ld.global.b32 {{.*}}, [%rd{{[0-9]+}}+20];
func.func @shard(%q: tensor<?x8x?x128xbf16>, %k: tensor<?x2x?x128xbf16>, %v: tensor<?x2x?x128xbf16>,
                 %o: tensor<?x8x?x128xbf16>, %p: tensor<6xi32>) -> tensor<?x8x?x128xbf16> {
  %r = attn.attention ins(%q, %k, %v : tensor<?x8x?x128xbf16>, tensor<?x2x?x128xbf16>, tensor<?x2x?x128xbf16>)
      outs(%o : tensor<?x8x?x128xbf16>) positions(%p : tensor<6xi32>) mask(#attn.causal) -> tensor<?x8x?x128xbf16>
  return %r : tensor<?x8x?x128xbf16>
}
