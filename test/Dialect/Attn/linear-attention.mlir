// RUN: attn-opt %s --verify-roundtrip | FileCheck %s
// RUN: attn-opt %s --mlir-print-op-generic | attn-opt | FileCheck %s

// CHECK-LABEL: func @full
// CHECK: attn.linear_attention ins(%{{[0-9a-z]+}}, %{{[0-9a-z]+}}, %{{[0-9a-z]+}} : tensor<?x4x?x32xf32>, tensor<?x2x?x32xf32>, tensor<?x1x?x48xf32>)
// CHECK-SAME: outs(%{{[0-9a-z]+}} : tensor<?x4x?x48xf32>) -> tensor<?x4x?x48xf32>
func.func @full(%q: tensor<?x4x?x32xf32>, %k: tensor<?x2x?x32xf32>, %v: tensor<?x1x?x48xf32>,
                %o: tensor<?x4x?x48xf32>) -> tensor<?x4x?x48xf32> {
  %r = attn.linear_attention ins(%q, %k, %v : tensor<?x4x?x32xf32>, tensor<?x2x?x32xf32>, tensor<?x1x?x48xf32>)
      outs(%o : tensor<?x4x?x48xf32>) -> tensor<?x4x?x48xf32>
  return %r : tensor<?x4x?x48xf32>
}

// CHECK-LABEL: func @gated_delta_rule
// CHECK: %{{[0-9a-z]+}}:2 = attn.linear_attention
// CHECK-SAME: outs(%{{[0-9a-z]+}}, %{{[0-9a-z]+}} : tensor<2x4x?x16xbf16>, tensor<2x4x16x16xf32>)
// CHECK-SAME: log_decay(%{{[0-9a-z]+}} : tensor<2x4x?xf32>) beta(%{{[0-9a-z]+}} : tensor<2x4x?xf32>)
// CHECK-SAME: initial_state(%{{[0-9a-z]+}} : tensor<2x4x16x16xf32>) causal scale(1.000000e+00) chunk(32)
// CHECK-SAME: -> tensor<2x4x?x16xbf16>, tensor<2x4x16x16xf32>
func.func @gated_delta_rule(%q: tensor<2x4x?x16xbf16>, %g: tensor<2x4x?xf32>, %s: tensor<2x4x16x16xf32>)
    -> (tensor<2x4x?x16xbf16>, tensor<2x4x16x16xf32>) {
  %r:2 = attn.linear_attention
      ins(%q, %q, %q : tensor<2x4x?x16xbf16>, tensor<2x4x?x16xbf16>, tensor<2x4x?x16xbf16>)
      outs(%q, %s : tensor<2x4x?x16xbf16>, tensor<2x4x16x16xf32>)
      log_decay(%g : tensor<2x4x?xf32>) beta(%g : tensor<2x4x?xf32>) initial_state(%s : tensor<2x4x16x16xf32>)
      causal scale(1.0) chunk(32) -> tensor<2x4x?x16xbf16>, tensor<2x4x16x16xf32>
  return %r#0, %r#1 : tensor<2x4x?x16xbf16>, tensor<2x4x16x16xf32>
}

// CHECK-LABEL: func @on_memrefs
// CHECK: attn.linear_attention
// CHECK-SAME: log_decay(%{{[0-9a-z]+}} : memref<2xf32>) causal schedule(#attn_tile.scalar)
// CHECK-NOT: ->
func.func @on_memrefs(%q: memref<1x2x9x8xf16>, %o: memref<1x2x9x8xf16>, %g: memref<2xf32>) {
  attn.linear_attention ins(%q, %q, %q : memref<1x2x9x8xf16>, memref<1x2x9x8xf16>, memref<1x2x9x8xf16>)
      outs(%o : memref<1x2x9x8xf16>) log_decay(%g : memref<2xf32>) causal schedule(#attn_tile.scalar)
  return
}

// CHECK-LABEL: func @gradient
// CHECK: %{{[0-9a-z]+}}:6 = attn.linear_attention_grad
// CHECK-SAME: outs(%{{[0-9a-z]+}}, %{{[0-9a-z]+}}, %{{[0-9a-z]+}} : tensor<1x2x9x8xbf16>, tensor<1x2x9x8xbf16>, tensor<1x2x9x8xf32>)
// CHECK-SAME: log_decay(%{{[0-9a-z]+}} : tensor<2xf32>) beta(%{{[0-9a-z]+}} : tensor<1x2x9xf32>)
// CHECK-SAME: initial_state(%{{[0-9a-z]+}} : tensor<1x2x8x8xf32>) dfinal_state(%{{[0-9a-z]+}} : tensor<1x2x8x8xf32>)
// CHECK-SAME: dlog_decay(%{{[0-9a-z]+}} : tensor<1x2xf32>) dbeta(%{{[0-9a-z]+}} : tensor<1x2x9xf32>)
// CHECK-SAME: dinitial_state(%{{[0-9a-z]+}} : tensor<1x2x8x8xf32>) causal
func.func @gradient(%q: tensor<1x2x9x8xbf16>, %dv: tensor<1x2x9x8xf32>, %g: tensor<2xf32>, %dg: tensor<1x2xf32>,
                    %b: tensor<1x2x9xf32>, %s: tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf32> {
  %r:6 = attn.linear_attention_grad
      ins(%q, %q, %q, %q : tensor<1x2x9x8xbf16>, tensor<1x2x9x8xbf16>, tensor<1x2x9x8xbf16>, tensor<1x2x9x8xbf16>)
      outs(%q, %q, %dv : tensor<1x2x9x8xbf16>, tensor<1x2x9x8xbf16>, tensor<1x2x9x8xf32>)
      log_decay(%g : tensor<2xf32>) beta(%b : tensor<1x2x9xf32>) initial_state(%s : tensor<1x2x8x8xf32>)
      dfinal_state(%s : tensor<1x2x8x8xf32>) dlog_decay(%dg : tensor<1x2xf32>) dbeta(%b : tensor<1x2x9xf32>)
      dinitial_state(%s : tensor<1x2x8x8xf32>) causal
      -> tensor<1x2x9x8xbf16>, tensor<1x2x9x8xbf16>, tensor<1x2x9x8xf32>, tensor<1x2xf32>, tensor<1x2x9xf32>,
         tensor<1x2x8x8xf32>
  return %r#5 : tensor<1x2x8x8xf32>
}

// CHECK-LABEL: func @precision
// CHECK: attn.linear_attention ins({{.*}}) outs({{.*}}) causal chunk(32) precision(high)
// CHECK: attn.linear_attention_grad ins({{.*}}) outs({{.*}}) causal precision(highest)
func.func @precision(%q: memref<1x2x9x8xf32>) {
  attn.linear_attention ins(%q, %q, %q : memref<1x2x9x8xf32>, memref<1x2x9x8xf32>, memref<1x2x9x8xf32>)
      outs(%q : memref<1x2x9x8xf32>) causal chunk(32) precision(high)
  attn.linear_attention_grad
      ins(%q, %q, %q, %q : memref<1x2x9x8xf32>, memref<1x2x9x8xf32>, memref<1x2x9x8xf32>, memref<1x2x9x8xf32>)
      outs(%q, %q, %q : memref<1x2x9x8xf32>, memref<1x2x9x8xf32>, memref<1x2x9x8xf32>) causal precision(highest)
  return
}

// Sequences with states, also of memrefs.
// CHECK-LABEL: func @sequences
// CHECK: attn.linear_attention ins({{.*}}) outs({{.*}}) initial_state(%{{.*}} : tensor<2x2x8x8xf32>) sequences(%{{.*}} : tensor<3xi32>) causal
// CHECK: attn.linear_attention_grad ins({{.*}}) outs({{.*}}) dfinal_state(%{{.*}} : tensor<2x2x8x8xf32>) sequences(%{{.*}} : tensor<3xi32>) causal
// CHECK: attn.linear_attention ins({{.*}}) outs({{.*}}) initial_state({{.*}}) sequences(%{{.*}} : memref<3xi32>) whole_chunks causal
// CHECK: attn.linear_attention_grad ins({{.*}}) outs({{.*}}) sequences(%{{.*}} : memref<3xi32>) whole_chunks causal
func.func @sequences(%q: tensor<1x2x9x8xf32>, %s: tensor<2x2x8x8xf32>, %c: tensor<3xi32>, %mq: memref<1x2x128x8xf32>,
                     %ms: memref<2x2x8x8xf32>, %mc: memref<3xi32>) -> (tensor<2x2x8x8xf32>, tensor<1x2x9x8xf32>) {
  %r:2 = attn.linear_attention ins(%q, %q, %q : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%q, %s : tensor<1x2x9x8xf32>, tensor<2x2x8x8xf32>) initial_state(%s : tensor<2x2x8x8xf32>)
      sequences(%c : tensor<3xi32>) causal -> tensor<1x2x9x8xf32>, tensor<2x2x8x8xf32>
  %d:3 = attn.linear_attention_grad
      ins(%q, %q, %q, %q : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%q, %q, %q : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      dfinal_state(%s : tensor<2x2x8x8xf32>) sequences(%c : tensor<3xi32>) causal
      -> tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>
  attn.linear_attention ins(%mq, %mq, %mq : memref<1x2x128x8xf32>, memref<1x2x128x8xf32>, memref<1x2x128x8xf32>)
      outs(%mq : memref<1x2x128x8xf32>) initial_state(%ms : memref<2x2x8x8xf32>) sequences(%mc : memref<3xi32>)
      whole_chunks causal
  attn.linear_attention_grad
      ins(%mq, %mq, %mq, %mq : memref<1x2x128x8xf32>, memref<1x2x128x8xf32>, memref<1x2x128x8xf32>, memref<1x2x128x8xf32>)
      outs(%mq, %mq, %mq : memref<1x2x128x8xf32>, memref<1x2x128x8xf32>, memref<1x2x128x8xf32>)
      sequences(%mc : memref<3xi32>) whole_chunks causal
  return %r#1, %d#0 : tensor<2x2x8x8xf32>, tensor<1x2x9x8xf32>
}

// Without users, linear attention of tensors is dead.
// RUN: attn-opt %s --canonicalize | FileCheck %s --check-prefix=DEAD
// DEAD-LABEL: func @dead
// DEAD-NEXT: return
func.func @dead(%q: tensor<1x2x9x8xf32>) {
  %r = attn.linear_attention ins(%q, %q, %q : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%q : tensor<1x2x9x8xf32>) -> tensor<1x2x9x8xf32>
  return
}

// Destinations are overwritten: nothing is copied into their buffers.
// RUN: attn-opt %s --one-shot-bufferize="bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map" \
// RUN:   | FileCheck %s --check-prefix=BUFFERS
// BUFFERS-LABEL: func @in_place
// BUFFERS-SAME: (%[[Q:.*]]: memref<1x2x9x8xf32>, %[[O:.*]]: memref<1x2x9x8xf32>, %[[S:.*]]: memref<1x2x8x8xf32>, %[[F:.*]]: memref<1x2x8x8xf32>)
// BUFFERS-NOT: copy
// BUFFERS: attn.linear_attention ins(%[[Q]], %[[Q]], %[[Q]]
// BUFFERS-SAME: outs(%[[O]], %[[F]]
// BUFFERS-SAME: initial_state(%[[S]]
// BUFFERS-NOT: copy
// BUFFERS: return %[[O]], %[[F]]
func.func @in_place(%q: tensor<1x2x9x8xf32>, %o: tensor<1x2x9x8xf32>, %s: tensor<1x2x8x8xf32>,
                    %f: tensor<1x2x8x8xf32>) -> (tensor<1x2x9x8xf32>, tensor<1x2x8x8xf32>) {
  %r:2 = attn.linear_attention ins(%q, %q, %q : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>)
      outs(%o, %f : tensor<1x2x9x8xf32>, tensor<1x2x8x8xf32>) initial_state(%s : tensor<1x2x8x8xf32>)
      -> tensor<1x2x9x8xf32>, tensor<1x2x8x8xf32>
  return %r#0, %r#1 : tensor<1x2x9x8xf32>, tensor<1x2x8x8xf32>
}
