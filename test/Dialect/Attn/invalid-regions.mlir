// RUN: attn-opt %s -split-input-file -verify-diagnostics

// Values of regions that are used outside of them, before they are defined. The
// region that uses or defines them is given up while the other one is there.

func.func @by_operation_before(%q: tensor<1x1x8x16xf32>, %k: tensor<1x1x8x16xf32>,
                               %o: tensor<1x1x8x16xf32>, %c: index) -> tensor<1x1x8x16xf32> {
  %sum = arith.addi %i, %c : index
  %0 = attn.attention ins(%q, %k, %k : tensor<1x1x8x16xf32>, tensor<1x1x8x16xf32>, tensor<1x1x8x16xf32>)
      outs(%o : tensor<1x1x8x16xf32>)
      // expected-error @below {{defines a value that is used outside of it}}
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %kept = arith.cmpi sle, %j, %i : index
        attn.yield %kept : i1
      } -> tensor<1x1x8x16xf32>
  return %0 : tensor<1x1x8x16xf32>
}

// -----

func.func @by_other_region(%q: tensor<1x1x8x16xf32>, %k: tensor<1x1x8x16xf32>,
                           %o: tensor<1x1x8x16xf32>, %t: tensor<8xf32>) -> tensor<1x1x8x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x1x8x16xf32>, tensor<1x1x8x16xf32>, tensor<1x1x8x16xf32>)
      outs(%o : tensor<1x1x8x16xf32>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %n: index):
        %x = tensor.extract %t[%j] : tensor<8xf32>
        %y = arith.addf %s, %x : f32
        attn.yield %y : f32
      // expected-error @below {{defines a value that is used outside of it}}
      } mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %kept = arith.cmpi sle, %j, %i : index
        attn.yield %kept : i1
      } -> tensor<1x1x8x16xf32>
  return %0 : tensor<1x1x8x16xf32>
}

// -----

func.func @by_region_that_is_given_up(%q: tensor<1x1x8x16xf32>, %k: tensor<1x1x8x16xf32>,
                                      %o: tensor<1x1x8x16xf32>, %c: index) -> tensor<1x1x8x16xf32> {
  %sum = arith.addi %i, %c : index
  %0 = attn.attention ins(%q, %k, %k : tensor<1x1x8x16xf32>, tensor<1x1x8x16xf32>, tensor<1x1x8x16xf32>)
      outs(%o : tensor<1x1x8x16xf32>)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        // expected-error @below {{expected ','}}
        %kept = arith.cmpi sle, %j : index
        attn.yield %kept : i1
      } -> tensor<1x1x8x16xf32>
  return %0 : tensor<1x1x8x16xf32>
}
