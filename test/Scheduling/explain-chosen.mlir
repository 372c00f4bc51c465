// The report has the tiles that the remark of the choice names.

// RUN: attn-opt %s --attn-choose-schedule=target=sm_90a --attn-explain -o /dev/null \
// RUN:   --remarks-filter=attn-choose-schedule --remark-format=emitRemark 2>&1 | FileCheck %s
// RUN: attn-opt %s --attn-choose-schedule=target=sm_80 --attn-explain=target=sm_80 -o /dev/null \
// RUN:   --remarks-filter=attn-choose-schedule --remark-format=emitRemark 2>&1 | FileCheck %s

// CHECK: chose #attn_tile.{{multistage|warp_specialized}}<query_tile = [[#QUERY:]], key_tile = [[#KEY:]],
// CHECK: @chosen
// CHECK: of its schedule instead: query [[#QUERY]], key [[#KEY]]{{$}}
func.func @chosen(%q: tensor<1x8x512x128xbf16>) -> tensor<1x8x512x128xbf16> {
  %0 = attn.attention
      ins(%q, %q, %q : tensor<1x8x512x128xbf16>, tensor<1x8x512x128xbf16>, tensor<1x8x512x128xbf16>)
      outs(%q : tensor<1x8x512x128xbf16>) -> tensor<1x8x512x128xbf16>
  return %0 : tensor<1x8x512x128xbf16>
}
