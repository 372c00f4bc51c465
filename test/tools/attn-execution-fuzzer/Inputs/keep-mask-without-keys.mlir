func.func @f(%q0: tensor<2x2x5x8xbf16>,
    %k1: tensor<2x1x0x8xbf16>,
    %v2: tensor<2x1x0x8xbf16>,
    %out3: tensor<2x2x5x8xbf16>, %bounds4: tensor<1x?xi32>, %bounds5: tensor<1x?xi32>, %words6: tensor<2x2x?x?xi32>)
    -> (tensor<2x2x5x8xbf16>) {
  %z:1 = attn.attention ins(%q0, %k1, %v2 : tensor<2x2x5x8xbf16>, tensor<2x1x0x8xbf16>, tensor<2x1x0x8xbf16>)
      outs(%out3 : tensor<2x2x5x8xbf16>) mask(#attn.packed_documents<queries = 0, keys = 1>) reads(%bounds4,
      %bounds5 : tensor<1x?xi32>, tensor<1x?xi32>) dropout_mask columns(%words6 : tensor<2x2x?x?xi32>) p(0.0)
      schedule(#attn_tile.sequential<query_tile = 32, key_tile = 16>) -> tensor<2x2x5x8xbf16>
  return %z#0 : tensor<2x2x5x8xbf16>
}
