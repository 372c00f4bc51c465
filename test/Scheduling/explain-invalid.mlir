// RUN: not attn-opt %s --attn-explain=target=sm_10 -o /dev/null 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: not attn-opt %s --attn-explain=format=csv -o /dev/null 2>&1 | FileCheck %s --check-prefix=FORMAT
// RUN: not attn-opt %s --attn-explain=dynamic-size=0 -o /dev/null 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: not attn-opt %s --attn-explain=dynamic-batch=-1 -o /dev/null 2>&1 | FileCheck %s --check-prefix=BATCH
// RUN: not attn-opt %s --attn-explain=output=%t.missing/ledger.txt -o /dev/null 2>&1 | FileCheck %s --check-prefix=OUTPUT
// RUN: not attn-opt %s --attn-explain="output=%t.txt roofline=%t.missing/roofline.svg" -o /dev/null 2>&1 | FileCheck %s --check-prefix=OUTPUT

// TARGET: error: unknown target 'sm_10' (expected host, sm_80 or sm_90a)
// FORMAT: error: unknown format 'csv' (expected table or json)
// SIZE: error: dynamic-size must be positive (was 0)
// BATCH: error: dynamic-batch must be positive (was -1)
// OUTPUT: error: cannot open output file '{{.*}}missing
module {}
