// The mask reads a tensor of rank 1 or more, and the region one of rank 0.
func.func @f(%q: tensor<1x1x15x8xf32>, %k: tensor<1x1x?x8xf32>,
    %out: tensor<1x1x15x8xf32>, %parents: tensor<1x15xi32>,
    %t: tensor<i64>) -> tensor<1x1x15x8xf32> {
  %z = attn.attention ins(%q, %k, %k : tensor<1x1x15x8xf32>, tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>)
    outs(%out : tensor<1x1x15x8xf32>) mask(#attn.tree<parents = 0>) reads(%parents : tensor<1x15xi32>) mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %bound = tensor.extract %t[] : tensor<i64>
    %query = arith.index_cast %i : index to i64
    %kept = arith.cmpi slt, %query, %bound : i64
    attn.yield %kept : i1
  } -> tensor<1x1x15x8xf32>
  return %z : tensor<1x1x15x8xf32>
}
