// RUN: attn-opt %s --attn-choose-schedule=target=sm_90a | FileCheck %s

// Tiles of long sequences that FlashAttention-3 publishes for Hopper
// (hopper/tile_size.h), with elements of 16 bits and P in registers: they
// are found among all that fit, by the model of time.

// CHECK-LABEL: @channels64_causal
// CHECK: query_tile = 192, key_tile = 128,
func.func @channels64_causal(%q: tensor<1x16x16384x64xbf16>, %k: tensor<1x16x16384x64xbf16>, %v: tensor<1x16x16384x64xbf16>, %out: tensor<1x16x16384x64xbf16>)
    -> tensor<1x16x16384x64xbf16> {
  %0 = attn.attention
      ins(%q, %k, %v : tensor<1x16x16384x64xbf16>, tensor<1x16x16384x64xbf16>, tensor<1x16x16384x64xbf16>)
      outs(%out : tensor<1x16x16384x64xbf16>) mask(#attn.causal) -> tensor<1x16x16384x64xbf16>
  return %0 : tensor<1x16x16384x64xbf16>
}

// CHECK-LABEL: @channels128
// CHECK: query_tile = 128, key_tile = 176,
func.func @channels128(%q: tensor<1x16x16384x128xbf16>, %k: tensor<1x16x16384x128xbf16>, %v: tensor<1x16x16384x128xbf16>, %out: tensor<1x16x16384x128xbf16>)
    -> tensor<1x16x16384x128xbf16> {
  %0 = attn.attention
      ins(%q, %k, %v : tensor<1x16x16384x128xbf16>, tensor<1x16x16384x128xbf16>, tensor<1x16x16384x128xbf16>)
      outs(%out : tensor<1x16x16384x128xbf16>) -> tensor<1x16x16384x128xbf16>
  return %0 : tensor<1x16x16384x128xbf16>
}

// CHECK-LABEL: @channels192
// CHECK: query_tile = 128, key_tile = 112,
func.func @channels192(%q: tensor<1x16x16384x192xbf16>, %k: tensor<1x16x16384x192xbf16>, %v: tensor<1x16x16384x192xbf16>, %out: tensor<1x16x16384x192xbf16>)
    -> tensor<1x16x16384x192xbf16> {
  %0 = attn.attention
      ins(%q, %k, %v : tensor<1x16x16384x192xbf16>, tensor<1x16x16384x192xbf16>, tensor<1x16x16384x192xbf16>)
      outs(%out : tensor<1x16x16384x192xbf16>) -> tensor<1x16x16384x192xbf16>
  return %0 : tensor<1x16x16384x192xbf16>
}

// CHECK-LABEL: @channels256
// CHECK: query_tile = 128, key_tile = 80,
func.func @channels256(%q: tensor<1x16x16384x256xbf16>, %k: tensor<1x16x16384x256xbf16>, %v: tensor<1x16x16384x256xbf16>, %out: tensor<1x16x16384x256xbf16>)
    -> tensor<1x16x16384x256xbf16> {
  %0 = attn.attention
      ins(%q, %k, %v : tensor<1x16x16384x256xbf16>, tensor<1x16x16384x256xbf16>, tensor<1x16x16384x256xbf16>)
      outs(%out : tensor<1x16x16384x256xbf16>) -> tensor<1x16x16384x256xbf16>
  return %0 : tensor<1x16x16384x256xbf16>
}
