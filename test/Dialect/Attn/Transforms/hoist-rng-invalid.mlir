// RUN: not attn-opt %s --attn-hoist-rng=alternative=fast 2>&1 | FileCheck %s --check-prefix=ALTERNATIVE
// RUN: not attn-opt %s --attn-hoist-rng=target=sm_70 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: not attn-opt %s --attn-hoist-rng=max-matmuls=0 2>&1 | FileCheck %s --check-prefix=MATMULS
// RUN: not attn-opt %s --attn-hoist-rng=memory-budget=-5 2>&1 | FileCheck %s --check-prefix=BUDGET

// ALTERNATIVE: error: unknown alternative 'fast' (expected best, in-kernel, sequential, streams or fused)
// TARGET: error: unknown target 'sm_70' (expected host, sm_80 or sm_90a)
// MATMULS: error: max-matmuls must be positive (was 0)
// BUDGET: error: memory-budget must be a number of bytes, or -1 for an eighth of the device's memory (was -5)
func.func @f() {
  return
}
