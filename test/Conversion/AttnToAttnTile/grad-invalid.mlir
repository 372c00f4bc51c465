// RUN: attn-opt %s --convert-attn-to-attn-tile --split-input-file --verify-diagnostics

func.func @tensors(%q: tensor<1x1x?x64xf32>, %lse: tensor<1x1x?xf32>)
    -> (tensor<1x1x?x64xf32>, tensor<1x1x?x64xf32>, tensor<1x1x?x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op must be bufferised}}
  %r:3 = attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : tensor<1x1x?x64xf32>, tensor<1x1x?x64xf32>, tensor<1x1x?x64xf32>,
          tensor<1x1x?x64xf32>, tensor<1x1x?xf32>, tensor<1x1x?x64xf32>)
      outs(%q, %q, %q : tensor<1x1x?x64xf32>, tensor<1x1x?x64xf32>, tensor<1x1x?x64xf32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>)
      -> tensor<1x1x?x64xf32>, tensor<1x1x?x64xf32>, tensor<1x1x?x64xf32>
  return %r#0, %r#1, %r#2 : tensor<1x1x?x64xf32>, tensor<1x1x?x64xf32>, tensor<1x1x?x64xf32>
}

// -----

func.func @tensors_without_queries(%q: tensor<1x1x0x64xf32>, %k: tensor<1x1x8x64xf32>, %lse: tensor<1x1x0xf32>)
    -> (tensor<1x1x0x64xf32>, tensor<1x1x8x64xf32>, tensor<1x1x8x64xf32>) {
  // expected-error @below {{'attn.attention_grad' op must be bufferised}}
  %r:3 = attn.attention_grad
      ins(%q, %k, %k, %q, %lse, %q : tensor<1x1x0x64xf32>, tensor<1x1x8x64xf32>, tensor<1x1x8x64xf32>,
          tensor<1x1x0x64xf32>, tensor<1x1x0xf32>, tensor<1x1x0x64xf32>)
      outs(%q, %k, %k : tensor<1x1x0x64xf32>, tensor<1x1x8x64xf32>, tensor<1x1x8x64xf32>)
      -> tensor<1x1x0x64xf32>, tensor<1x1x8x64xf32>, tensor<1x1x8x64xf32>
  return %r#0, %r#1, %r#2 : tensor<1x1x0x64xf32>, tensor<1x1x8x64xf32>, tensor<1x1x8x64xf32>
}

// -----

func.func @no_schedule(%q: memref<1x1x?x64xf32>, %lse: memref<1x1x?xf32>) {
  // expected-error @below {{'attn.attention_grad' op needs a schedule}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<1x1x?x64xf32>,
          memref<1x1x?x64xf32>, memref<1x1x?xf32>, memref<1x1x?x64xf32>)
      outs(%q, %q, %q : memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<1x1x?x64xf32>)
  return
}

// -----

func.func @deterministic(%q: memref<1x1x?x64xf32>, %lse: memref<1x1x?xf32>) {
  // expected-error @below {{'attn.attention_grad' op must be deterministic, but its schedule accumulates dQ in any order}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<1x1x?x64xf32>,
          memref<1x1x?x64xf32>, memref<1x1x?xf32>, memref<1x1x?x64xf32>)
      outs(%q, %q, %q : memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<1x1x?x64xf32>)
      schedule(#attn_tile.gradient<preprocess = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
                                   dkdv = #attn_tile.sequential<query_tile = 16, key_tile = 64>>)
      deterministic
  return
}

// -----

func.func @score_grad(%q: memref<1x1x?x64xf32>, %lse: memref<1x1x?xf32>) {
  // expected-error @below {{'attn.attention_grad' op needs the 'score_mod_grad' region that belongs to its 'score_mod' region}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<1x1x?x64xf32>,
          memref<1x1x?x64xf32>, memref<1x1x?xf32>, memref<1x1x?x64xf32>)
      outs(%q, %q, %q : memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<1x1x?x64xf32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        attn.yield %s : f32
      }
  return
}

// -----

func.func @captured_tensor(%q: memref<1x1x?x64xf32>, %lse: memref<1x1x?xf32>, %x: tensor<1xf32>) {
  // expected-error @below {{'attn.attention_grad' op captures 'tensor<1xf32>', which must be bufferised}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<1x1x?x64xf32>,
          memref<1x1x?x64xf32>, memref<1x1x?xf32>, memref<1x1x?x64xf32>)
      outs(%q, %q, %q : memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<1x1x?x64xf32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %e = tensor.extract %x[%b] : tensor<1xf32>
        %k = arith.cmpf oeq, %e, %e : f32
        attn.yield %k : i1
      }
  return
}

// -----

func.func @order(%q: memref<1x1x?x64xf32>, %lse: memref<1x1x?xf32>, %x: memref<?xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<1x1x?xf32>,
          memref<1x1x?x64xf32>)
      outs(%q, %q, %q, %x : memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<?xf32>)
      schedule(#attn_tile.gradient<preprocess = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
                                   dkdv = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
                                   dq = #attn_tile.sequential<query_tile = 16, key_tile = 64>>) deterministic
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        attn.yield %s : f32
      } score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index, %dx: memref<?xf32>):
        // expected-error @below {{has no order of additions, but the operation must be deterministic: its indices must tell batch entry, head and key apart}}
        attn.accumulate %ds into %dx[%h] : memref<?xf32>
        attn.yield %ds : f32
      }
  return
}

// -----

func.func @index_of_score(%q: memref<1x1x?x64xf32>, %lse: memref<1x1x?xf32>, %x: memref<?xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<1x1x?xf32>,
          memref<1x1x?x64xf32>)
      outs(%q, %q, %q, %x : memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<?xf32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>) 
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        attn.yield %s : f32
      } score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index, %dx: memref<?xf32>):
        %w = arith.fptosi %s : f32 to i32
        %n = arith.index_cast %w : i32 to index
        // expected-error @below {{'attn.accumulate' op at indices that depend on the score has no kernel}}
        attn.accumulate %ds into %dx[%n] : memref<?xf32>
        attn.yield %ds : f32
      }
  return
}

// -----

func.func @loop(%q: memref<1x1x?x64xf32>, %lse: memref<1x1x?xf32>, %x: memref<?xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<1x1x?x64xf32>,
          memref<1x1x?x64xf32>, memref<1x1x?xf32>, memref<1x1x?x64xf32>)
      outs(%q, %q, %q, %x : memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<?xf32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        attn.yield %s : f32
      } score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index, %dx: memref<?xf32>):
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c4 = arith.constant 4 : index
        scf.for %n = %c0 to %c4 step %c1 {
          // expected-error @below {{'attn.accumulate' op in 'scf.for' has no kernel}}
          attn.accumulate %ds into %dx[%n] : memref<?xf32>
        }
        attn.yield %ds : f32
      }
  return
}

// -----

func.func @mask_that_reads(%q: memref<1x1x?x64xf32>, %lse: memref<1x1x?xf32>, %x: memref<1x?xi32>) {
  // expected-error @below {{'attn.attention_grad' op has a mask that reads operands, which attn-expand-masks must expand}}
  attn.attention_grad ins(%q, %q, %q, %q, %lse, %q : memref<1x1x?x64xf32>, memref<1x1x?x64xf32>,
          memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<1x1x?xf32>, memref<1x1x?x64xf32>)
      outs(%q, %q, %q : memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<1x1x?x64xf32>)
      mask(#attn.tree<parents = 0>) reads(%x : memref<1x?xi32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>)
  return
}

// -----

func.func @shard(%q: memref<1x1x?x64xf32>, %lse: memref<1x1x?xf32>, %p: memref<6xi32>) {
  // expected-error @below {{'attn.attention_grad' op has the positions of a shard, which attn-expand-positions must expand}}
  attn.attention_grad ins(%q, %q, %q, %q, %lse, %q : memref<1x1x?x64xf32>, memref<1x1x?x64xf32>,
          memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<1x1x?xf32>, memref<1x1x?x64xf32>)
      outs(%q, %q, %q : memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<1x1x?x64xf32>)
      positions(%p : memref<6xi32>) schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>)
  return
}

// -----

func.func @identity_and_gradient_of_lse(%x: memref<2x4x8x16xf32>, %lse: memref<2x4x8xf32>, %u: memref<4xf32>) {
  // expected-error @below {{'attn.attention_grad' op with 'identity' and 'dlse' has no tiled program yet}}
  attn.attention_grad
      ins(%x, %x, %x, %x, %lse, %x, %lse : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>, memref<2x4x8x16xf32>,
          memref<2x4x8x16xf32>, memref<2x4x8xf32>, memref<2x4x8x16xf32>, memref<2x4x8xf32>)
      outs(%x, %x, %x : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>, memref<2x4x8x16xf32>)
      identity(%u : memref<4xf32>)
      schedule(#attn_tile.gradient<preprocess = #attn_tile.sequential<query_tile = 8, key_tile = 8>,
               dkdv = #attn_tile.sequential<query_tile = 8, key_tile = 8>,
               dq = #attn_tile.sequential<query_tile = 8, key_tile = 8>>)
  return
}

// -----

// All packed sequences are in one batch entry.
func.func @packed_captures(%q: memref<1x1x?x64xf32>, %lse: memref<1x1x?xf32>, %cu: memref<?xi32>, %x: memref<?xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<1x1x?x64xf32>,
          memref<1x1x?x64xf32>, memref<1x1x?xf32>, memref<1x1x?x64xf32>)
      outs(%q, %q, %q, %x : memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<1x1x?x64xf32>, memref<?xf32>)
      sequences packed(%cu, %cu : memref<?xi32>, memref<?xi32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>)
      deterministic
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        attn.yield %s : f32
      } score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index, %sum: memref<?xf32>):
        // expected-error @below {{has no order of additions, but the operation must be deterministic: its indices must tell batch entry, head and key apart}}
        attn.accumulate %ds into %sum[%j] : memref<?xf32>
        attn.yield %ds : f32
      }
  return
}

// -----

func.func @order_of_shared_heads(%q: memref<?x4x?x128xbf16>, %k: memref<?x2x?x128xbf16>, %lse: memref<?x4x?xf32>) {
  // expected-error @below {{cannot accumulate dQ in order: that takes a head of keys for each head of queries, no mask or '#attn.causal' alone}}
  attn.attention_grad
      ins(%q, %k, %k, %q, %lse, %q : memref<?x4x?x128xbf16>, memref<?x2x?x128xbf16>, memref<?x2x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?xf32>,
          memref<?x4x?x128xbf16>)
      outs(%q, %k, %k : memref<?x4x?x128xbf16>, memref<?x2x?x128xbf16>, memref<?x2x?x128xbf16>)
      schedule(#attn_tile.gradient<
          preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
          dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, ordered_dq = true>>)
      deterministic
  return
}

// -----

func.func @order_under_window(%q: memref<?x4x?x128xbf16>, %lse: memref<?x4x?xf32>) {
  // expected-error @below {{cannot accumulate dQ in order: that takes a head of keys for each head of queries, no mask or '#attn.causal' alone}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?xf32>,
          memref<?x4x?x128xbf16>)
      outs(%q, %q, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>)
      mask(#attn.sliding_window<left = 256, right = 0>)
      schedule(#attn_tile.gradient<
          preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
          dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, ordered_dq = true>>)
      deterministic
  return
}

// -----

func.func @order_of_sequences(%q: memref<?x4x?x128xbf16>, %lse: memref<?x4x?xf32>, %n: memref<?xi32>) {
  // expected-error-re @below {{cannot accumulate dQ in order: {{.*}} no mask or '#attn.causal' alone, no sequences and no gradients of captured tensors}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?xf32>,
          memref<?x4x?x128xbf16>)
      outs(%q, %q, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>)
      sequences padded(%n, %n : memref<?xi32>, memref<?xi32>)
      schedule(#attn_tile.gradient<
          preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
          dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, ordered_dq = true>>)
      deterministic
  return
}

// -----

func.func @order_of_captures(%q: memref<?x4x?x128xbf16>, %lse: memref<?x4x?xf32>, %bias: memref<?xf32>, %dbias: memref<?xf32>) {
  // expected-error-re @below {{cannot accumulate dQ in order: {{.*}} no mask or '#attn.causal' alone, no sequences and no gradients of captured tensors}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?xf32>,
          memref<?x4x?x128xbf16>)
      outs(%q, %q, %q, %dbias : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?xf32>)
      schedule(#attn_tile.gradient<
          preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
          dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, ordered_dq = true>>)
      deterministic
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = memref.load %bias[%j] : memref<?xf32>
        %r = arith.addf %s, %x : f32
        attn.yield %r : f32
      }
      score_mod_grad {
      ^bb0(%s: f32, %g: f32, %b: index, %h: index, %i: index, %j: index, %d: memref<?xf32>):
        attn.accumulate %g into %d[%j] : memref<?xf32>
        attn.yield %g : f32
      }
  return
}

// -----

func.func @dq_ring_of_listed_mask(%q: memref<?x4x?x128xbf16>, %lse: memref<?x4x?xf32>, %ids: memref<?xi32>) {
  // expected-error-re @below {{accumulates dQ in a ring buffer ('dq_ring_depth'), {{.*}} one head after the other, not in the order of the lists of its mask}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?xf32>,
          memref<?x4x?x128xbf16>)
      outs(%q, %q, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>)
      mask(#attn.causal) schedule(#attn_tile.gradient<
          preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
          dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, traversal = paired, dq_ring_depth = 4>>)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %0 = memref.load %ids[%i] : memref<?xi32>
        %1 = memref.load %ids[%j] : memref<?xi32>
        %2 = arith.cmpi eq, %0, %1 : i32
        attn.yield %2 : i1
      }
  return
}

// -----

func.func @order_without_pairs(%q: memref<?x4x?x128xbf16>, %lse: memref<?x4x?xf32>) {
  // expected-error @below {{'attn.attention_grad' op accumulates dQ in order, which takes 'traversal = paired' under a mask}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?xf32>,
          memref<?x4x?x128xbf16>)
      outs(%q, %q, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>)
      mask(#attn.causal) schedule(#attn_tile.gradient<
          preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
          dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, traversal = persistent, ordered_dq = true>>)
      deterministic
  return
}

// -----

func.func @order_of_pairs(%q: memref<?x4x?x128xbf16>, %lse: memref<?x4x?xf32>) {
  // expected-error @below {{'attn.attention_grad' op accumulates dQ in order, which takes 'traversal = persistent' without a mask}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?xf32>,
          memref<?x4x?x128xbf16>)
      outs(%q, %q, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>)
      schedule(#attn_tile.gradient<
          preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
          dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, traversal = paired, ordered_dq = true>>)
      deterministic
  return
}

// -----

func.func @order_of_small_tiles(%q: memref<?x4x?x128xbf16>, %lse: memref<?x4x?xf32>) {
  // expected-error @below {{'attn.attention_grad' op accumulates dQ in order, which under a mask takes a 'query_tile' that divides 'key_tile' (128, was 48)}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?xf32>,
          memref<?x4x?x128xbf16>)
      outs(%q, %q, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>)
      mask(#attn.causal) schedule(#attn_tile.gradient<
          preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
          dkdv = #attn_tile.key_stationary<query_tile = 48, key_tile = 128, stages = 2, consumers = 2, traversal = paired, ordered_dq = true>>)
      deterministic
  return
}

// -----

func.func @columns_of_consumers(%q: memref<?x4x?x128xbf16>, %lse: memref<?x4x?xf32>) {
  // expected-error @below {{'attn.attention_grad' op has 'dv' = '#attn_tile.key_stationary<query_tile = 64, key_tile = 64, stages = 2, consumers = 2, head_dim_tile = 128, consumer_columns = true>', whose consumers compute 256 columns together (expected 128)}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?xf32>,
          memref<?x4x?x128xbf16>)
      outs(%q, %q, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>)
      schedule(#attn_tile.gradient<
          preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
          dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>,
          dq = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>,
          dv = #attn_tile.key_stationary<query_tile = 64, key_tile = 64, stages = 2, consumers = 2, head_dim_tile = 128, consumer_columns = true>>)
  return
}

// -----

func.func @captures_of_consumers(%q: memref<1x4x128x128xbf16>, %lse: memref<1x4x128xf32>, %bias: memref<4xf32>, %sum: memref<4xf32>) {
  // expected-error @below {{whose consumers would all add to gradients of captured tensors}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x4x128x128xbf16>, memref<1x4x128x128xbf16>, memref<1x4x128x128xbf16>, memref<1x4x128x128xbf16>,
          memref<1x4x128xf32>, memref<1x4x128x128xbf16>)
      outs(%q, %q, %q, %sum : memref<1x4x128x128xbf16>, memref<1x4x128x128xbf16>, memref<1x4x128x128xbf16>, memref<4xf32>)
      schedule(#attn_tile.gradient<
          preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
          dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 64, stages = 2, consumers = 2, head_dim_tile = 64, consumer_columns = true>,
          dq = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>,
          dv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = memref.load %bias[%h] : memref<4xf32>
        %r = arith.addf %s, %x : f32
        attn.yield %r : f32
      } score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index, %g: memref<4xf32>):
        attn.accumulate %ds into %g[%h] : memref<4xf32>
        attn.yield %ds : f32
      }
  return
}
