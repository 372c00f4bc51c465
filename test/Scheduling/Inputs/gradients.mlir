func.func @gradient(%t: tensor<?x8x?x128xbf16>, %r: tensor<?x8x?xf32>)
    -> (tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>) {
  %0:3 = attn.attention_grad
      ins(%t, %t, %t, %t, %r, %t : tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>,
          tensor<?x8x?x128xbf16>, tensor<?x8x?xf32>, tensor<?x8x?x128xbf16>)
      outs(%t, %t, %t : tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>)
      mask(#attn.causal) -> tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>
  return %0#0, %0#1, %0#2 : tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>
}
