// RUN: attn-opt %s --split-input-file --attn-explain -o /dev/null 2>&1 | FileCheck %s
// RUN: attn-opt %s --split-input-file --attn-explain="format=json output=-" -o /dev/null | FileCheck %s --check-prefix=JSON

// Of a mask that depends on data, the tiles that are visited are assumed: 32 x
// 32 tiles of 16 heads, of which an eighth is visited and every fourth of these
// cut. The kernels that find them run before.

// CHECK-LABEL: @documents
// CHECK: 2048 steps; per step
// JSON-LABEL: "name": "documents"
// JSON:         "name": "lists",
// JSON:         "steps": 0,
// JSON:         "name": "attention",
// JSON:         "steps": 15.5{{[0-9]*}},
// JSON-NEXT:    "masked_steps": 3.8{{[0-9]*}},
func.func @documents(%q: tensor<1x16x4096x128xbf16>, %o: tensor<1x16x4096x128xbf16>, %doc: tensor<4096xi32>) -> tensor<1x16x4096x128xbf16> {
  %0 = attn.attention ins(%q, %q, %q : tensor<1x16x4096x128xbf16>, tensor<1x16x4096x128xbf16>, tensor<1x16x4096x128xbf16>)
      outs(%o : tensor<1x16x4096x128xbf16>)
      schedule(#attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2, traversal = paired>)
      attributes {attn.tile_density = array<f64: 0.125, 0.03125>}
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %doc[%i] : tensor<4096xi32>
        %y = tensor.extract %doc[%j] : tensor<4096xi32>
        %r = arith.cmpi eq, %x, %y : i32
        attn.yield %r : i1
      } -> tensor<1x16x4096x128xbf16>
  return %0 : tensor<1x16x4096x128xbf16>
}
