// RUN: not attn-opt %s -attn-tile-set-traversal=interleave=-1 2>&1 | FileCheck %s --check-prefix=TRAVERSAL
// RUN: not attn-opt %s -attn-tile-create-pipes=stages=0 2>&1 | FileCheck %s --check-prefix=PIPES
// RUN: not attn-opt %s -attn-tile-split-roles=consumers=4 2>&1 | FileCheck %s --check-prefix=ROLES
// RUN: not attn-opt %s -attn-tile-stage-stores=stages=0 2>&1 | FileCheck %s --check-prefix=STORES

// TRAVERSAL: error: 'interleave' must not be negative (was -1)
// PIPES: error: pipes need at least one stage (asked for 0 and 1)
// ROLES: error: there can be 1 to 3 consumers (asked for 4)
// STORES: error: stores need at least one stage and consumer (asked for 0 and 2)

attn_tile.kernel @empty() {
  attn_tile.return
}
