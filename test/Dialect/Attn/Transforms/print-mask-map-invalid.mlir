// RUN: not attn-opt %s --attn-print-mask-map=format=png -o /dev/null 2>&1 | FileCheck %s --check-prefix=FORMAT
// RUN: attn-opt %s --attn-print-mask-map --split-input-file --verify-diagnostics -o /dev/null

// FORMAT: error: unknown format 'png' (expected svg or json)

func.func @sequences(%q: memref<1x2x128x64xf32>, %cu: memref<3xi32>) {
  // expected-error @below {{has sequences, whose lengths are known at run time alone: no map can be drawn}}
  attn.attention ins(%q, %q, %q : memref<1x2x128x64xf32>, memref<1x2x128x64xf32>, memref<1x2x128x64xf32>)
    outs(%q : memref<1x2x128x64xf32>) sequences packed(%cu, %cu : memref<3xi32>, memref<3xi32>)
  return
}

// -----

func.func @dynamic(%q: memref<1x2x?x64xf32>) {
  // expected-error @below {{must have static lengths of at least one for its map to be drawn}}
  attn.attention ins(%q, %q, %q : memref<1x2x?x64xf32>, memref<1x2x?x64xf32>, memref<1x2x?x64xf32>)
    outs(%q : memref<1x2x?x64xf32>)
  return
}

// -----

func.func @no_tiles(%q: memref<1x2x128x64xf32>) {
  // expected-error @below {{needs a schedule, or positive 'query-tile' and 'key-tile', for its map to be drawn}}
  attn.attention ins(%q, %q, %q : memref<1x2x128x64xf32>, memref<1x2x128x64xf32>, memref<1x2x128x64xf32>)
    outs(%q : memref<1x2x128x64xf32>)
  return
}

// -----

func.func @captured(%q: memref<1x2x128x64xf32>, %n: index) {
  // expected-error @below {{has a mask whose tiles depend on values that are known at run time alone: no map can be drawn}}
  attn.attention ins(%q, %q, %q : memref<1x2x128x64xf32>, memref<1x2x128x64xf32>, memref<1x2x128x64xf32>)
    outs(%q : memref<1x2x128x64xf32>)
    schedule(#attn_tile.sequential<query_tile = 64, key_tile = 64>) mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %keep = arith.cmpi slt, %j, %n : index
      attn.yield %keep : i1
    }
  return
}

// -----

func.func @shard(%q: tensor<1x1x64x16xf32>, %p: tensor<6xi32>) -> tensor<1x1x64x16xf32> {
  // expected-error @below {{is a shard, whose positions are known at run time alone: no map can be drawn}}
  %0 = attn.attention ins(%q, %q, %q : tensor<1x1x64x16xf32>, tensor<1x1x64x16xf32>, tensor<1x1x64x16xf32>)
      outs(%q : tensor<1x1x64x16xf32>) positions(%p : tensor<6xi32>) mask(#attn.causal) -> tensor<1x1x64x16xf32>
  return %0 : tensor<1x1x64x16xf32>
}
