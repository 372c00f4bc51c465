// Constant tensors lie in the memory of the host: kernels for a GPU cannot read
// them, and nothing is compiled. Numbers, and tensors of one number, are part of
// the code of kernels.

// RUN: split-file %s %t
// RUN: not attn-compile %t/slopes.mlir --target=sm_90a -o %t/out.so 2>&1 | FileCheck %s --check-prefix=SLOPES
// RUN: not attn-compile %t/sinks.mlir --target=sm_80 --emit=ptx -o - 2>&1 | FileCheck %s --check-prefix=SINKS
// RUN: attn-compile %t/numbers.mlir --target=sm_90a --emit=mlir --stop-after=kernel -o - | FileCheck %s --check-prefix=NUMBERS
// RUN: attn-compile %t/slopes.mlir --emit=mlir --stop-after=kernel -o - | FileCheck %s --check-prefix=HOST

// SLOPES: slopes.mlir:2:{{[0-9]+}}: error: 'memref.get_global' op is a constant in the memory of the host, which kernels of the device cannot read;
// SLOPES-SAME:     pass it to 'alibi' as an argument
// SLOPES: note: used by 'attn_tile.launch' here
// SINKS: sinks.mlir:2:{{[0-9]+}}: error: 'memref.get_global' op is a constant
// NUMBERS-NOT: memref.get_global
// NUMBERS: attn_tile.launch @scaled
// HOST: memref.get_global

//--- slopes.mlir
func.func @alibi(%q: tensor<1x4x128x64xbf16>, %k: tensor<1x4x128x64xbf16>, %v: tensor<1x4x128x64xbf16>) -> tensor<1x4x128x64xbf16> {
  %slopes = arith.constant dense<[0.5, 0.25, 0.125, 0.0625]> : tensor<4xf32>
  %init = tensor.empty() : tensor<1x4x128x64xbf16>
  %o = attn.attention ins(%q, %k, %v : tensor<1x4x128x64xbf16>, tensor<1x4x128x64xbf16>, tensor<1x4x128x64xbf16>)
      outs(%init : tensor<1x4x128x64xbf16>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %slope = tensor.extract %slopes[%h] : tensor<4xf32>
        %d = arith.subi %j, %i : index
        %di = arith.index_cast %d : index to i32
        %df = arith.sitofp %di : i32 to f32
        %bias = arith.mulf %slope, %df : f32
        %r = arith.addf %s, %bias : f32
        attn.yield %r : f32
      } -> tensor<1x4x128x64xbf16>
  return %o : tensor<1x4x128x64xbf16>
}

//--- sinks.mlir
func.func @sinks(%q: tensor<1x4x128x64xbf16>, %k: tensor<1x4x128x64xbf16>, %v: tensor<1x4x128x64xbf16>) -> tensor<1x4x128x64xbf16> {
  %sinks = arith.constant dense<[1.0, 0.0, -1.0, 2.0]> : tensor<4xf32>
  %init = tensor.empty() : tensor<1x4x128x64xbf16>
  %o = attn.attention ins(%q, %k, %v : tensor<1x4x128x64xbf16>, tensor<1x4x128x64xbf16>, tensor<1x4x128x64xbf16>)
      outs(%init : tensor<1x4x128x64xbf16>) sinks(%sinks : tensor<4xf32>) -> tensor<1x4x128x64xbf16>
  return %o : tensor<1x4x128x64xbf16>
}

//--- numbers.mlir
func.func @scaled(%q: tensor<1x4x128x64xbf16>, %k: tensor<1x4x128x64xbf16>, %v: tensor<1x4x128x64xbf16>) -> tensor<1x4x128x64xbf16> {
  %twos = arith.constant dense<2.0> : tensor<1x4x128x64xbf16>
  %half = arith.constant 0.5 : f32
  %init = tensor.empty() : tensor<1x4x128x64xbf16>
  %o = attn.attention ins(%q, %k, %v : tensor<1x4x128x64xbf16>, tensor<1x4x128x64xbf16>, tensor<1x4x128x64xbf16>)
      outs(%init : tensor<1x4x128x64xbf16>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %r = arith.mulf %s, %half : f32
        attn.yield %r : f32
      } -> tensor<1x4x128x64xbf16>
  %r = arith.mulf %o, %twos : tensor<1x4x128x64xbf16>
  return %r : tensor<1x4x128x64xbf16>
}
