// RUN: attn-test-opt %s -test-attn-check-masks -test-attn-check-rng -verify-diagnostics -o /dev/null
// RUN: attn-test-opt %s -attn-to-kernel-pipeline=target=host | FileCheck %s
// RUN: attn-test-opt %s -attn-to-kernel-pipeline=target=host -convert-attn-tile-to-vector | FileCheck %s --check-prefix=HOST
// RUN: not attn-test-opt %s -attn-apply-schedules -attn-choose-schedule=target=sm_80 -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=TARGET

// Attributes of test/lib implement the interfaces of masks, random number generators and schedules.

// TARGET: error: 'attn.attention' op cannot have schedule '#test_attn.one_row_tiles<16>' on target sm_80

// CHECK-LABEL: func.func @mask(
// CHECK-LABEL: func.func @dropout(

// CHECK-LABEL: attn_tile.kernel @mask_kernel(
// CHECK:         attn_tile.load {{.*}} -> vector<1x16xf32>
// CHECK:         attn_tile.kv_tile_iterator {{.*}} by(#test_attn.checkerboard<4>)
// CHECK:         attn_tile.mask {{.*}} by(#test_attn.checkerboard<4>) : vector<1x16xf32>

// The predicate of the mask, in the code of the host.
// HOST-LABEL:  func.func private @mask_kernel(
// HOST:          arith.divui
// HOST:          arith.remui

func.func @mask(%q: tensor<1x2x12x16xf32>, %init: tensor<1x2x12x16xf32>) -> tensor<1x2x12x16xf32> {
  // expected-remark @below {{mask '#test_attn.checkerboard<4>' keeps 80 pairs, in code and in constants}}
  %out = attn.attention ins(%q, %q, %q : tensor<1x2x12x16xf32>, tensor<1x2x12x16xf32>, tensor<1x2x12x16xf32>)
      outs(%init : tensor<1x2x12x16xf32>) mask(#test_attn.checkerboard<4>) schedule(#test_attn.one_row_tiles<16>)
      -> tensor<1x2x12x16xf32>
  return %out : tensor<1x2x12x16xf32>
}

// CHECK-LABEL: attn_tile.kernel @dropout_kernel(
// CHECK:         attn_tile.generate_keep_mask {{.*}} rng = #test_attn.rotations<4>>)

func.func @dropout(%q: tensor<1x2x12x16xf32>, %init: tensor<1x2x12x16xf32>, %seed: tensor<i64>, %offset: tensor<i64>)
    -> tensor<1x2x12x16xf32> {
  // expected-remark @below {{'#test_attn.rotations<4>' gives 64 blocks, in code and in constants}}
  %out = attn.attention ins(%q, %q, %q : tensor<1x2x12x16xf32>, tensor<1x2x12x16xf32>, tensor<1x2x12x16xf32>)
      outs(%init : tensor<1x2x12x16xf32>)
      dropout(<p = 0.1, rng = #test_attn.rotations<4>>, %seed, %offset : tensor<i64>, tensor<i64>)
      -> tensor<1x2x12x16xf32>
  return %out : tensor<1x2x12x16xf32>
}
