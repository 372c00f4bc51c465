// RUN: attn-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{'func.func' op must compute attention to have 'attn.tile_density'}}
func.func @elsewhere() attributes {attn.tile_density = array<f64: 0.5, 0.1>} {
  return
}

// -----

func.func @one(%q: memref<1x4x128x64xf16>) {
  // expected-error @below {{'attn.attention' op 'attn.tile_density' must be two numbers from 0 to 1, as array<f64: 0.5, 0.1> (was array<f64: 5.000000e-01>)}}
  attn.attention ins(%q, %q, %q : memref<1x4x128x64xf16>, memref<1x4x128x64xf16>, memref<1x4x128x64xf16>)
      outs(%q : memref<1x4x128x64xf16>) attributes {attn.tile_density = array<f64: 0.5>}
  return
}

// -----

func.func @more(%q: memref<1x4x128x64xf16>) {
  // expected-error @below {{must be two numbers from 0 to 1, as array<f64: 0.5, 0.1> (was array<f64: 1.500000e+00, 1.000000e-01>)}}
  attn.attention ins(%q, %q, %q : memref<1x4x128x64xf16>, memref<1x4x128x64xf16>, memref<1x4x128x64xf16>)
      outs(%q : memref<1x4x128x64xf16>) attributes {attn.tile_density = array<f64: 1.5, 0.1>}
  return
}
