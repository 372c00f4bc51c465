// RUN: attn-compile %s --target=sm_90a --embed-ptx -o %t.o
// RUN: llvm-strings %t.o | FileCheck %s
// RUN: attn-compile %s --target=sm_90a --emit=mlir --stop-after=tile -o - | FileCheck %s --check-prefix=TILE
// RUN: not attn-compile %s --target=sm_80 -o %t.so 2>&1 | FileCheck %s --check-prefix=SM80

// SM80: element type on sm_80 must be bf16, f16 or f32 (was 'f8E4M3FN')

// An earlier kernel transposes the values, for MMAs that read contiguous positions.
// TILE-LABEL: attn_tile.kernel @attention_transpose_values(
// TILE-LABEL: attn_tile.kernel @attention_kernel(
// TILE:         vector.contract {{.*}} : vector<[[M:[0-9]+]]x128xf8E4M3FN>, vector<[[N:[0-9]+]]x128xf8E4M3FN> into
// TILE:         %[[V:.*]] = attn_tile.load %arg2{{.*}} : memref<?x4x128x?xf8E4M3FN> -> vector<128x[[N]]xf8E4M3FN>
// TILE:         vector.contract {{.*}}, %[[V]], {{.*}} : vector<[[M]]x[[N]]xf8E4M3FN>, vector<128x[[N]]xf8E4M3FN> into
// TILE-LABEL: func.func @attention(
// TILE:         memref.alloc({{.*}}) : memref<?x4x128x?xf8E4M3FN>
// TILE:         attn_tile.launch @attention_transpose_values
// TILE:         attn_tile.launch @attention_kernel
// TILE:         memref.dealloc

// Eight bytes are loaded at a time, and sixteen are stored.
// CHECK-LABEL: .entry attention_transpose_values(
// CHECK-COUNT-16: ld.global{{(.nc)?}}.{{v2.b32|b64}}
// CHECK-COUNT-8: st.global.v{{4.b32|2.b64}}

// Descriptors of the scores and of the output are of K-major operands: there are no flags of transposition.
// CHECK-LABEL: .entry attention_kernel(
// CHECK: wgmma.mma_async.sync.aligned.m64n{{[0-9]+}}k32.f32.e4m3.e4m3 {{.*}}, a, b, first, 1, 1;
// CHECK: cvt.rn.satfinite.e4m3x2.f32
// CHECK: wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {{.*}}, b, first, 1, 1;
func.func @attention(%q: tensor<?x8x?x128xf8E4M3FN>, %k: tensor<?x4x?x128xf8E4M3FN>, %v: tensor<?x4x?x128xf8E4M3FN>,
                     %init: tensor<?x8x?x128xbf16>) -> tensor<?x8x?x128xbf16> {
  %0 = attn.attention
      ins(%q, %k, %v : tensor<?x8x?x128xf8E4M3FN>, tensor<?x4x?x128xf8E4M3FN>, tensor<?x4x?x128xf8E4M3FN>)
      outs(%init : tensor<?x8x?x128xbf16>) mask(#attn.causal) -> tensor<?x8x?x128xbf16>
  return %0 : tensor<?x8x?x128xbf16>
}
