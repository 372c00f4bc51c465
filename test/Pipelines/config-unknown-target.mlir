// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=sm_70}))' --verify-diagnostics

// expected-error @below {{unknown target 'sm_70' (expected host, sm_80 or sm_90a)}}
func.func @f() {
  return
}
