// Quantization to 8 bits: with scales of heads, of blocks of rotated rows, and with a given one.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80
// attn-compile: --target=host
// attn-run: --shape=size1=150 --shape=size2=3

!x = tensor<?x8x?x128xbf16>
!q = tensor<?x8x?x128xf8E4M3FN>
!heads = tensor<?x8xf32>
!blocks = tensor<?x8x?xf32>
!w = tensor<?x512xf32>
!w8 = tensor<?x512xf8E5M2>

func.func @heads(%x: !x, %out: !q, %scale: !heads) -> (!q, !heads) {
  %0:2 = attn.quantize ins(%x : !x) outs(%out : !q) scale(%scale : !heads) saturate -> !q, !heads
  return %0#0, %0#1 : !q, !heads
}

func.func @blocks(%x: !x, %signs: tensor<128xf32>, %out: !q, %scale: !blocks, %amax: !blocks)
    -> (!q, !blocks, !blocks) {
  %0:3 = attn.quantize ins(%x : !x) rotate(%signs : tensor<128xf32>) outs(%out : !q) scale(%scale : !blocks)
      amax(%amax : !blocks) block_size(64) saturate -> !q, !blocks, !blocks
  return %0#0, %0#1, %0#2 : !q, !blocks, !blocks
}

func.func @delayed(%x: !w, %scale: tensor<f32>, %out: !w8, %amax: tensor<f32>) -> (!w8, tensor<f32>) {
  %0:2 = attn.quantize ins(%x : !w) given_scale(%scale : tensor<f32>) outs(%out : !w8) amax(%amax : tensor<f32>)
      -> !w8, tensor<f32>
  return %0#0, %0#1 : !w8, tensor<f32>
}
