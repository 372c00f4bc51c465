// RUN: attn-compile %s --target=sm_90a --emit=ptx -o - | FileCheck %s
// RUN: attn-compile %s --target=sm_80 --emit=ptx -o - | FileCheck %s

// Each thread moves 16 bytes at a time, also of the tables. Single words are lengths, pages, and codes of faults.

// CHECK: .entry append_cache_append(
// CHECK-NOT: {{(ld|st).global.*b16}}
// CHECK: ld.global.v4.b32
// CHECK-NOT: {{(ld|st).global.*b16}}
// CHECK: fma.rn.f32
// CHECK: cvt.rn.bf16x2.f32
// CHECK: st.global.v4.b32
// CHECK-NOT: {{(ld|st).global.*b16}}
func.func @append(%k: tensor<?x2x?x128xbf16>, %v: tensor<?x2x?x128xbf16>, %n: tensor<?xi32>, %t: tensor<?x?xi32>,
                  %cos: tensor<?x64xf32>, %sin: tensor<?x64xf32>, %q: tensor<?x8x?x128xbf16>,
                  %kc: tensor<?x2x64x128xbf16>, %vc: tensor<?x2x64x128xbf16>, %r: tensor<?x8x?x128xbf16>)
    -> (tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x8x?x128xbf16>) {
  %x:3 = attn.cache_append ins(%k, %v : tensor<?x2x?x128xbf16>, tensor<?x2x?x128xbf16>)
      outs(%kc, %vc : tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>)
      key_lengths(%n : tensor<?xi32>) page_table(%t : tensor<?x?xi32>)
      rotary(%cos, %sin : tensor<?x64xf32>, tensor<?x64xf32>)
      query(%q into %r : tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>)
      -> tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x8x?x128xbf16>
  return %x#0, %x#1, %x#2 : tensor<?x2x64x128xbf16>, tensor<?x2x64x128xbf16>, tensor<?x8x?x128xbf16>
}
