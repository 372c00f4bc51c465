// RUN: attn-compile %s --target=sm_90a --emit=ptx -o - | FileCheck %s

// Eight queries with this window attend to one key tile, so that the loop over
// further ones has no step. Assemblers before CUDA 13.5 compile such a loop to
// accumulators that nothing writes.

// CHECK-COUNT-2: wgmma.mma_async.sync.aligned.m64n64k16
// CHECK-COUNT-4: wgmma.mma_async.sync.aligned.m64n64k16
// CHECK-NOT: wgmma.mma_async
!q = tensor<?x3x8x32xf16>
!k = tensor<?x1x?x32xf16>
!v = tensor<?x1x?x64xf16>
!o = tensor<?x3x8x64xf16>
func.func @one_key_tile(%query: !q, %key: !k, %value: !v, %out: !o) -> !o {
  %0 = attn.attention ins(%query, %key, %value : !q, !k, !v) outs(%out : !o)
      mask(#attn.sliding_window<right = 15, alignment = top_left>) score_mod {
  ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
    %zero = arith.constant 0.0 : f32
    %quotient = arith.divf %zero, %s : f32
    attn.yield %quotient : f32
  } -> !o
  return %0 : !o
}
