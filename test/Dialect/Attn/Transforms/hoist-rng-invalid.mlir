// RUN: not attn-opt %s --attn-hoist-rng=alternative=fast 2>&1 | FileCheck %s --check-prefix=ALTERNATIVE
// RUN: not attn-opt %s --attn-hoist-rng=target=sm_70 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: not attn-opt %s --attn-hoist-rng=most-products=0 2>&1 | FileCheck %s --check-prefix=PRODUCTS

// ALTERNATIVE: error: unknown alternative 'fast' (expected best, in-kernel, sequential, streams or fused)
// TARGET: error: unknown target 'sm_70' (expected host, sm_80 or sm_90a)
// PRODUCTS: error: most-products must be positive (was 0)
func.func @f() {
  return
}
