func.func @same(%x: tensor<1x2x40x16xf32>) -> tensor<1x2x40x16xf32> {
  return %x : tensor<1x2x40x16xf32>
}
