// RUN: not attn-opt %s --attn-hoist-rng=alternative=fast 2>&1 | FileCheck %s --check-prefix=ALTERNATIVE
// RUN: not attn-opt %s --attn-hoist-rng=target=sm_70 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: not attn-opt %s --attn-hoist-rng=max-matmuls=0 2>&1 | FileCheck %s --check-prefix=MATMULS

// ALTERNATIVE: error: unknown alternative 'fast' (expected best, in-kernel, sequential, streams or fused)
// TARGET: error: unknown target 'sm_70' (expected host, sm_80 or sm_90a)
// MATMULS: error: max-matmuls must be positive (was 0)
func.func @f() {
  return
}
