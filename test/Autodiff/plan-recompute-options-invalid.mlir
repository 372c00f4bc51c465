// RUN: not attn-opt %s --attn-plan-recompute=budget=-5 2>&1 | FileCheck %s --check-prefix=BUDGET
// RUN: not attn-opt %s --attn-plan-recompute=peak-budget=-2 2>&1 | FileCheck %s --check-prefix=PEAK
// RUN: attn-opt %s --attn-plan-recompute='budget=-1 peak-budget=-1' | FileCheck %s

// BUDGET: error: budget must be a number of bytes, or -1 for no limit (was -5)
// PEAK: error: peak-budget must be a number of bytes, or -1 for no limit (was -2)
// CHECK: func.func @f
func.func @f() {
  return
}
