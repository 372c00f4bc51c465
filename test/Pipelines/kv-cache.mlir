// RUN: attn-compile %s --target=sm_90a --emit=llvm --embed-ptx -o - | FileCheck %s --check-prefix=SM90A
// RUN: attn-compile %s --target=sm_80 --emit=llvm --embed-ptx -o - | FileCheck %s --check-prefix=SM80
// RUN: attn-compile %s --target=sm_90a --emit=mlir --stop-after=kernel -o - | FileCheck %s --check-prefix=KERNEL

// A tile of 64 keys is copied from four pages of 16 keys. The producer reads all table entries of a tile before it
// copies; a key from the number of keys on has page -1, whose box is zero. Entries that are no pages are reported.

// KERNEL-LABEL: attn_tile.kernel @paged
// KERNEL:         attn_tile.role producer
// KERNEL:           attn_tile.copy {{.*}} pages 16(
// KERNEL-SAME:        !attn_tile.tensor_map<4, 16x64xbf16>
// KERNEL:         attn_tile.role consumer
// KERNEL:           attn_tile.clear

// SM90A-COUNT-4: ld.global.nc.b32
// SM90A:         st.global.b32
// SM90A-COUNT-8: cp.async.bulk.tensor.4d.shared::cluster.global

// SM80: ld.global.nc.b32
// SM80: st.global.b32
// SM80: cp.async.cg.shared.global

func.func @paged(%q: tensor<?x8x1x128xbf16>, %k: tensor<?x2x16x128xbf16>, %v: tensor<?x2x16x128xbf16>,
                 %o: tensor<?x8x1x128xbf16>, %n: tensor<?xi32>, %t: tensor<?x?xi32>) -> tensor<?x8x1x128xbf16> {
  %r = attn.attention ins(%q, %k, %v : tensor<?x8x1x128xbf16>, tensor<?x2x16x128xbf16>, tensor<?x2x16x128xbf16>)
      outs(%o : tensor<?x8x1x128xbf16>)
      key_lengths(%n : tensor<?xi32>) page_table(%t : tensor<?x?xi32>) mask(#attn.causal)
      -> tensor<?x8x1x128xbf16>
  return %r : tensor<?x8x1x128xbf16>
}
