func.func @causal(%q: tensor<1x8x256x64xbf16>, %k: tensor<1x2x256x64xbf16>,
                  %v: tensor<1x2x256x64xbf16>, %out: tensor<1x8x256x64xbf16>)
    -> tensor<1x8x256x64xbf16> {
  %result = attn.attention
      ins(%q, %k, %v : tensor<1x8x256x64xbf16>, tensor<1x2x256x64xbf16>,
                       tensor<1x2x256x64xbf16>)
      outs(%out : tensor<1x8x256x64xbf16>)
      mask(#attn.causal) -> tensor<1x8x256x64xbf16>
  return %result : tensor<1x8x256x64xbf16>
}
