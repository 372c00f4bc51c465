// RUN: not attn-opt %s -attn-tile-set-traversal=interleave=-1 2>&1 | FileCheck %s --check-prefix=TRAVERSAL
// RUN: not attn-opt %s -attn-tile-create-pipes=stages=0 2>&1 | FileCheck %s --check-prefix=PIPES
// RUN: not attn-opt %s -attn-tile-create-pipes=query-stages=257 2>&1 | FileCheck %s --check-prefix=QUERY-PIPES
// RUN: not attn-opt %s -attn-tile-create-pipes=read-once-stages=-1 2>&1 | FileCheck %s --check-prefix=READ-PIPES
// RUN: not attn-opt %s -attn-tile-create-pipes=local-stages=3 2>&1 | FileCheck %s --check-prefix=LOCAL-PIPES
// RUN: not attn-opt %s -attn-tile-create-pipes=score-stages=4294967297 2>&1 | FileCheck %s --check-prefix=SCORE-PIPES
// RUN: not attn-opt %s -attn-tile-hoist-loads='keep-mask=true rows=true' 2>&1 | FileCheck %s --check-prefix=AHEAD
// RUN: not attn-opt %s -attn-tile-split-roles=consumers=4 2>&1 | FileCheck %s --check-prefix=ROLES
// RUN: not attn-opt %s -attn-tile-stage-stores=stages=0 2>&1 | FileCheck %s --check-prefix=STORES
// RUN: not attn-opt %s -attn-tile-stage-stores=stages=129 2>&1 | FileCheck %s --check-prefix=MANY-STORES
// RUN: not attn-opt %s -attn-tile-use-tensor-maps=l2-promotion=1 2>&1 | FileCheck %s --check-prefix=MAPS
// RUN: not attn-opt %s -attn-tile-set-traversal=ctas-per-sm=0 2>&1 | FileCheck %s --check-prefix=CTAS
// RUN: not attn-opt %s -attn-tile-set-traversal=last-work-items=-1 2>&1 | FileCheck %s --check-prefix=LAST
// RUN: not attn-opt %s -attn-tile-split-roles=ctas-per-sm=3 2>&1 | FileCheck %s --check-prefix=SHARED
// RUN: not attn-opt %s -attn-tile-emulate-exp2=sixteenths=17 2>&1 | FileCheck %s --check-prefix=MIX

// TRAVERSAL: error: 'interleave' must not be negative (was -1)
// PIPES: error: pipes can have 1 to 256 stages (asked for 0)
// QUERY-PIPES: error: pipes can have 1 to 256 stages (asked for 257)
// LOCAL-PIPES: error: computed operands can have 1 to 2 stages (asked for 3)
// READ-PIPES: error: pipes can have 1 to 256 stages (asked for -1)
// SCORE-PIPES: error: pipes can have 1 to 256 stages (asked for 4294967297)
// AHEAD: error: either keep masks or rows are loaded ahead, not both
// ROLES: error: there can be 1 to 3 consumers (asked for 4)
// STORES: error: stores need at least one stage and consumer (asked for 0 and 2)
// MANY-STORES: error: stores can have 256 stages at most (asked for 129 for each of 2 consumers)
// CTAS: error: 'ctas-per-sm' must be positive (was 0)
// LAST: error: 'last-work-items' must not be negative (was -1)
// SHARED: error: 1 or 2 CTAs can share an SM (asked for 3)
// MIX: error: 'sixteenths' must be from 1 to 16 (was 17)
// MAPS: error: 'l2-promotion' must be 0, 64, 128 or 256 (was 1)

attn_tile.kernel @empty() {
  attn_tile.return
}
