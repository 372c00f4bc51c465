// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=sm_80}))' --verify-diagnostics

func.func @float8(%a: tensor<?x?xf8E4M3FN>, %c: tensor<?x?xbf16>) -> tensor<?x?xbf16> {
  // expected-error @below {{'attn.matmul' op element type on sm_80 must be bf16, f16 or f32 (was 'f8E4M3FN')}}
  %r = attn.matmul ins(%a, %a : tensor<?x?xf8E4M3FN>, tensor<?x?xf8E4M3FN>) outs(%c : tensor<?x?xbf16>) transpose_rhs
      -> tensor<?x?xbf16>
  return %r : tensor<?x?xbf16>
}
