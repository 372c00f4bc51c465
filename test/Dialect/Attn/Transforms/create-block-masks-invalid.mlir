// RUN: attn-opt %s --attn-create-block-masks="outline" --verify-diagnostics

// expected-error @+1 {{cannot make block masks: there is a symbol 'f_block_mask' already}}
func.func @f(%q: tensor<1x2x64x16xf32>, %ids: tensor<64xi32>) -> tensor<1x2x64x16xf32> {
  %0 = attn.attention ins(%q, %q, %q : tensor<1x2x64x16xf32>, tensor<1x2x64x16xf32>, tensor<1x2x64x16xf32>)
      outs(%q : tensor<1x2x64x16xf32>) schedule(#attn_tile.sequential<query_tile = 16, key_tile = 32>)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %ids[%i] : tensor<64xi32>
        %y = tensor.extract %ids[%j] : tensor<64xi32>
        %same = arith.cmpi eq, %x, %y : i32
        attn.yield %same : i1
      } -> tensor<1x2x64x16xf32>
  return %0 : tensor<1x2x64x16xf32>
}
func.func private @f_block_mask()
