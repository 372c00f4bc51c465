// The passes of the warp specialised schedule, one after the other.
//
// RUN: attn-opt %S/Inputs/peeled-causal.mlir -pass-pipeline='builtin.module( \
// RUN:   attn_tile.kernel(attn-tile-software-pipeline-kv-loop), \
// RUN:   attn-tile-set-traversal{kind=persistent interleave=8}, \
// RUN:   attn_tile.kernel(canonicalize,cse,attn-tile-create-pipes,attn-tile-split-roles,canonicalize,cse,attn-tile-ping-pong), \
// RUN:   attn-tile-use-tensor-maps)' --verify-roundtrip | FileCheck %s

// CHECK:      attn_tile.kernel @causal(
// CHECK-SAME:   !attn_tile.tensor_map<4, 128x64xbf16>
// CHECK-SAME:   !attn_tile.tensor_map<4, 176x64xbf16>
// CHECK-SAME:   !attn_tile.tensor_map<4, 176x64xbf16>
// CHECK-SAME:   layout = #attn_tile.row_blocks<warps = 8>
// CHECK-DAG:    %[[Q:.*]] = attn_tile.create_pipe : <128x128xbf16, stages = 1>
// CHECK-DAG:    %[[K:.*]] = attn_tile.create_pipe : <176x128xbf16, stages = 2>
// CHECK-DAG:    %[[V:.*]] = attn_tile.create_pipe : <176x128xbf16, stages = 2>

// The producer fills the stages in the order in which they are read.
// CHECK:        attn_tile.role producer warpgroups(1) registers(24) {
// CHECK-NEXT:     scf.for
// CHECK-NOT:        vector
// CHECK:            attn_tile.acquire %[[Q]]
// CHECK:            attn_tile.acquire %[[K:.*]][
// CHECK:            scf.for
// CHECK:              attn_tile.acquire %[[K]][
// CHECK:              attn_tile.acquire %[[V:.*]][
// CHECK:            scf.for
// CHECK:              attn_tile.acquire %[[K]][
// CHECK:              attn_tile.acquire %[[V]][
// CHECK:            attn_tile.acquire %[[V]][

// CHECK:        attn_tile.role consumer warpgroups(2) registers(240) {
// CHECK-NOT:        attn_tile.copy
// The first MMA.
// CHECK:            attn_tile.wait %[[Q]]
// CHECK-NEXT:       attn_tile.wait %[[K]]
// CHECK-NEXT:       attn_tile.pingpong_wait
// CHECK-NEXT:       attn_tile.mma_start
// CHECK-NEXT:       attn_tile.pingpong_arrive
// CHECK-NEXT:       attn_tile.mma_wait
// Masked steps.
// CHECK:            scf.for
// CHECK:              attn_tile.wait %[[K]]
// CHECK-NEXT:         attn_tile.pingpong_wait
// CHECK-NEXT:         attn_tile.mma_start
// CHECK:              attn_tile.wait %[[V]]
// CHECK-NEXT:         attn_tile.mma_start
// CHECK-NEXT:         attn_tile.pingpong_arrive
// CHECK-NEXT:         attn_tile.mma_wait
// CHECK-NEXT:         attn_tile.release
// CHECK-NEXT:         attn_tile.mask
// CHECK:              math.exp2
// CHECK:              attn_tile.mma_wait
// CHECK-NEXT:         attn_tile.release
// CHECK-NEXT:         arith.truncf
// CHECK-NEXT:         arith.mulf
// CHECK-NEXT:         scf.yield
// Full steps.
// CHECK:            scf.for
// CHECK-NOT:          attn_tile.mask
// CHECK:              scf.yield
// The last MMA.
// CHECK:            attn_tile.release
// CHECK:            attn_tile.wait %[[V]]
// CHECK-NEXT:       attn_tile.pingpong_wait
// CHECK-NEXT:       attn_tile.mma_start
// CHECK-NEXT:       attn_tile.pingpong_arrive
// CHECK:            attn_tile.mma_wait
// CHECK:            attn_tile.store
// CHECK:      attn_tile.return

// CHECK:      attn_tile.launch @causal grid(%{{.*}}, %{{.*}}, %{{.*}}) ctas_per_sm(1)
