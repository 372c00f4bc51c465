// RUN: not attn-opt %s -attn-tile-peel-masks --split-input-file 2>&1 \
// RUN:   | FileCheck %s -DPASS=attn-tile-peel-masks --check-prefix=PLAIN
// RUN: not attn-opt %s -attn-tile-split-regions --split-input-file 2>&1 \
// RUN:   | FileCheck %s -DPASS=attn-tile-split-regions --check-prefix=PLAIN
// RUN: not attn-opt %s -attn-tile-software-pipeline-kv-loop --split-input-file 2>&1 \
// RUN:   | FileCheck %s -DPASS=attn-tile-software-pipeline-kv-loop --check-prefix=PLAIN
// RUN: not attn-opt %s -attn-tile-create-pipes --split-input-file 2>&1 \
// RUN:   | FileCheck %s -DPASS=attn-tile-create-pipes --check-prefix=PLAIN
// RUN: not attn-opt %s -convert-attn-tile-to-vector --split-input-file 2>&1 \
// RUN:   | FileCheck %s -DPASS=convert-attn-tile-to-vector --check-prefix=PLAIN
// RUN: not attn-opt %s -attn-tile-set-traversal --split-input-file 2>&1 \
// RUN:   | FileCheck %s -DPASS=attn-tile-set-traversal --check-prefix=PLAIN-STAGED
// RUN: not attn-opt %s -attn-tile-prefetch --split-input-file 2>&1 \
// RUN:   | FileCheck %s -DPASS=attn-tile-prefetch --check-prefix=PLAIN-STAGED
// RUN: not attn-opt %s -attn-tile-stage-stores --split-input-file 2>&1 \
// RUN:   | FileCheck %s -DPASS=attn-tile-stage-stores --check-prefix=PLAIN-STAGED
// RUN: not attn-opt %s -attn-tile-split-roles --split-input-file 2>&1 \
// RUN:   | FileCheck %s -DPASS=attn-tile-split-roles --check-prefix=PLAIN-STAGED
// RUN: not attn-opt %s -attn-tile-set-layout --split-input-file 2>&1 \
// RUN:   | FileCheck %s -DPASS=attn-tile-set-layout --check-prefix=PLAIN-STAGED
// RUN: not attn-opt %s -attn-tile-hoist-loads --split-input-file 2>&1 \
// RUN:   | FileCheck %s -DPASS=attn-tile-hoist-loads --check-prefix=PLAIN-SPECIALIZED
// RUN: not attn-opt %s -attn-tile-conditional-rescale --split-input-file 2>&1 \
// RUN:   | FileCheck %s -DPASS=attn-tile-conditional-rescale --check-prefix=PLAIN-SPECIALIZED
// RUN: not attn-opt %s -attn-tile-emulate-exp2 --split-input-file 2>&1 \
// RUN:   | FileCheck %s -DPASS=attn-tile-emulate-exp2 --check-prefix=PLAIN-SPECIALIZED
// RUN: not attn-opt %s -attn-tile-use-tensor-maps --split-input-file 2>&1 \
// RUN:   | FileCheck %s -DPASS=attn-tile-use-tensor-maps --check-prefix=STAGED-SPECIALIZED
// RUN: not attn-opt %s -attn-tile-overlap-work-items --split-input-file 2>&1 \
// RUN:   | FileCheck %s -DPASS=attn-tile-overlap-work-items --check-prefix=SPECIALIZED
// RUN: not attn-opt %s -attn-tile-ping-pong --split-input-file 2>&1 \
// RUN:   | FileCheck %s -DPASS=attn-tile-ping-pong --check-prefix=SPECIALIZED
// RUN: not attn-opt %s -attn-tile-pipeline-mma --split-input-file 2>&1 \
// RUN:   | FileCheck %s -DPASS=attn-tile-pipeline-mma --check-prefix=SPECIALIZED
// RUN: not attn-opt %s -attn-tile-pipeline-steps --split-input-file 2>&1 \
// RUN:   | FileCheck %s -DPASS=attn-tile-pipeline-steps --check-prefix=SPECIALIZED
// RUN: not attn-opt %s -attn-tile-prefetch-work-items --split-input-file 2>&1 \
// RUN:   | FileCheck %s -DPASS=attn-tile-prefetch-work-items --check-prefix=SPECIALIZED
// RUN: not attn-opt %s -attn-tile-sink-operand-reads --split-input-file 2>&1 \
// RUN:   | FileCheck %s -DPASS=attn-tile-sink-operand-reads --check-prefix=SPECIALIZED
// RUN: not attn-opt %s -convert-attn-tile-to-nvvm=target=sm_90a --split-input-file 2>&1 \
// RUN:   | FileCheck %s -DPASS=convert-attn-tile-to-nvvm --check-prefix=NVVM

// A pass on kernels reports those before the first phase that it expects, and those after
// the last.

// PLAIN-NOT: error
// PLAIN: error: pass '[[PASS]]' expects a kernel in phase 'plain' (was 'staged')
// PLAIN-NOT: error
// PLAIN: error: pass '[[PASS]]' expects a kernel in phase 'plain' (was 'specialized')
// PLAIN-NOT: error
// PLAIN: error: pass '[[PASS]]' expects a kernel in phase 'plain' (was 'final')
// PLAIN-NOT: error

// PLAIN-STAGED-NOT: error
// PLAIN-STAGED: error: pass '[[PASS]]' expects a kernel in phase 'plain' to 'staged' (was 'specialized')
// PLAIN-STAGED-NOT: error
// PLAIN-STAGED: error: pass '[[PASS]]' expects a kernel in phase 'plain' to 'staged' (was 'final')
// PLAIN-STAGED-NOT: error

// PLAIN-SPECIALIZED-NOT: error
// PLAIN-SPECIALIZED: error: pass '[[PASS]]' expects a kernel in phase 'plain' to 'specialized' (was 'final')
// PLAIN-SPECIALIZED-NOT: error

// STAGED-SPECIALIZED-NOT: error
// STAGED-SPECIALIZED: error: pass '[[PASS]]' expects a kernel in phase 'staged' to 'specialized' (was 'plain')
// STAGED-SPECIALIZED-NOT: error
// STAGED-SPECIALIZED: error: pass '[[PASS]]' expects a kernel in phase 'staged' to 'specialized' (was 'final')
// STAGED-SPECIALIZED-NOT: error

// SPECIALIZED-NOT: error
// SPECIALIZED: error: pass '[[PASS]]' expects a kernel in phase 'specialized' (was 'plain')
// SPECIALIZED-NOT: error
// SPECIALIZED: error: pass '[[PASS]]' expects a kernel in phase 'specialized' (was 'staged')
// SPECIALIZED-NOT: error
// SPECIALIZED: error: pass '[[PASS]]' expects a kernel in phase 'specialized' (was 'final')
// SPECIALIZED-NOT: error

// NVVM-NOT: error
// NVVM: error: pass '[[PASS]]' expects a kernel in phase 'specialized' to 'final' (was 'plain')
// NVVM-NOT: error
// NVVM: error: pass '[[PASS]]' expects a kernel in phase 'specialized' to 'final' (was 'staged')
// NVVM-NOT: error: pass

attn_tile.kernel @plain() {
  attn_tile.return
}
func.func @launch() {
  attn_tile.launch @plain args()
  return
}

// -----

attn_tile.kernel @staged() {
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 2>
  attn_tile.return
}
func.func @launch() {
  attn_tile.launch @staged args()
  return
}

// -----

attn_tile.kernel @specialized() attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  attn_tile.return
}
func.func @launch() {
  attn_tile.launch @specialized args()
  return
}

// -----

attn_tile.kernel @final(%map: !attn_tile.tensor_map<4, 64x64xbf16>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  attn_tile.return
}
func.func @launch(%map: !attn_tile.tensor_map<4, 64x64xbf16>) {
  attn_tile.launch @final args(%map : !attn_tile.tensor_map<4, 64x64xbf16>)
  return
}
