// RUN: not attn-opt %s --attn-shard-attention="ranks=0" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not attn-opt %s --attn-shard-attention="ranks=1025" 2>&1 | FileCheck %s --check-prefix=MANY
// RUN: not attn-opt %s --attn-shard-attention="method=star" 2>&1 | FileCheck %s --check-prefix=METHOD

// NONE: error: 'ranks' must be from 1 to 1024 (was 0)
// MANY: error: 'ranks' must be from 1 to 1024 (was 1025)
// METHOD: star
module {}
