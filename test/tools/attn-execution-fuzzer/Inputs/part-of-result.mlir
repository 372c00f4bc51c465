// A part of the result, of dynamic size, is written over an argument that has no room for the whole.
func.func @f(%q: tensor<1x2x?x8xf32>, %k: tensor<1x2x?x8xf32>,
    %out: tensor<1x3x?x8xf32>) -> tensor<1x3x?x8xf32> {
  %c2 = arith.constant 2 : index
  %queries = tensor.dim %q, %c2 : tensor<1x2x?x8xf32>
  %rows = tensor.dim %out, %c2 : tensor<1x3x?x8xf32>
  %n = arith.minui %queries, %rows : index
  %half = arith.divui %n, %c2 : index
  %e = tensor.empty(%queries) : tensor<1x2x?x8xf32>
  %z = attn.attention ins(%q, %k, %k : tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>)
    outs(%e : tensor<1x2x?x8xf32>) -> tensor<1x2x?x8xf32>
  %part = tensor.extract_slice %z[0, 0, 0, 0] [1, 2, %half, 8] [1, 1, 1, 1]
    : tensor<1x2x?x8xf32> to tensor<1x2x?x8xf32>
  %all = tensor.insert_slice %part into %out[0, 0, 0, 0] [1, 2, %half, 8] [1, 1, 1, 1]
    : tensor<1x2x?x8xf32> into tensor<1x3x?x8xf32>
  return %all : tensor<1x3x?x8xf32>
}
