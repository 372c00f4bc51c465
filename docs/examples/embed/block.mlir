// Two rounds of attention to a sequence, each on what the one before added.
func.func @block(%x: tensor<1x2x40x16xf32>) -> tensor<1x2x40x16xf32> {
  %0 = net.rms_norm %x : tensor<1x2x40x16xf32>
  %1 = net.self_attention %0, %0, %x : tensor<1x2x40x16xf32>
  %2 = net.add %x, %1 : tensor<1x2x40x16xf32>
  %3 = net.rms_norm %2 : tensor<1x2x40x16xf32>
  %4 = net.self_attention %3, %3, %2 : tensor<1x2x40x16xf32>
  %5 = net.add %2, %4 : tensor<1x2x40x16xf32>
  return %5 : tensor<1x2x40x16xf32>
}
