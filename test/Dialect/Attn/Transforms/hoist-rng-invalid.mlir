// RUN: not attn-opt %s --attn-hoist-rng=alternative=fast 2>&1 | FileCheck %s --check-prefix=ALTERNATIVE
// RUN: not attn-opt %s --attn-hoist-rng=target=sm_70 2>&1 | FileCheck %s --check-prefix=TARGET

// ALTERNATIVE: error: unknown alternative 'fast' (expected best, in-kernel, sequential, streams or fused)
// TARGET: error: unknown target 'sm_70' (expected host, sm_80 or sm_90a)
func.func @f() {
  return
}
