// Unknown options of passes and pipelines are reported with those that there are, and the one that is meant if it is near.

// RUN: not attn-opt %s --attn-choose-schedule=targt=host 2>&1 | FileCheck %s --check-prefix=PASS
// PASS: unknown option 'targt' of 'attn-choose-schedule'; did you mean 'target'? (expected {{.*}}database,{{.*}} target{{.*}})

// RUN: not attn-opt %s --pass-pipeline='builtin.module(attn-differentiate{argument=0})' 2>&1 | FileCheck %s --check-prefix=LIST
// LIST: error: unknown option 'argument' of 'attn-differentiate'; did you mean 'arguments'? (expected {{.*}}arguments{{.*}})

// RUN: not attn-opt %s --attn-simplify-masks=target=host 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: unknown option 'target' of 'attn-simplify-masks' (there are none)

// RUN: not attn-opt %s --attn-schedule-pipeline=targets=host 2>&1 | FileCheck %s --check-prefix=PIPELINE
// PIPELINE: unknown option 'targets' of 'attn-schedule-pipeline'; did you mean 'target'? (expected {{.*}}database, {{.*}}target)

// A value that is wrong is reported as before.

// RUN: not attn-opt %s --attn-schedule-pipeline=mask-budget=many 2>&1 | FileCheck %s --check-prefix=VALUE
// VALUE: 'many' value invalid for
// VALUE-NOT: error:

module {}
