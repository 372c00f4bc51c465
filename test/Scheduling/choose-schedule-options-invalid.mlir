// RUN: not attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{dq-workspace-bytes=-5}))' 2>&1 | FileCheck %s

// CHECK: error: dq-workspace-bytes must be a number of bytes, or -1 for no limit (was -5)
func.func @f() {
  return
}
