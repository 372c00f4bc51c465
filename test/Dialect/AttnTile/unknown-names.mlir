// RUN: attn-opt %s --split-input-file --verify-diagnostics
// RUN: not attn-opt %s --split-input-file 2>&1 | FileCheck %s

// expected-error @below {{unknown type `bufer` in dialect `attn_tile`; did you mean 'buffer'? (expected buffer, keep_mask, kv_tile_iterator, mask_bits, pending, pipe, stream, tensor_map)}}
func.func private @type(!attn_tile.bufer<16x8xf32>)
// CHECK: :[[#@LINE-1]]:36: error: unknown type `bufer`

// -----

// expected-error @below {{unknown attribute `multistages` in dialect `attn_tile`; did you mean 'multistage'? (expected}}
func.func private @attribute() attributes {a = #attn_tile.multistages<query_tile = 128>}

// -----

// expected-error @below {{unknown parameter 'key_tiles' of '#attn_tile.sequential'; did you mean 'key_tile'? (expected query_tile, key_tile, split_kv_work_items, pack_gqa, balance_splits)}}
func.func private @parameter() attributes {a = #attn_tile.sequential<query_tile = 16, key_tiles = 64>}

// -----

// The schedule is at fault, not the attribute around it.

func.func private @nested() attributes {
  // expected-error @+2 {{failed to parse Attn_ByQueryLengthAttr parameter 'below'}}
  // expected-error @below {{unknown parameter 'stage' of '#attn_tile.multistage'; did you mean 'stages'? (expected query_tile,}}
  a = #attn.by_query_length<bound = 64, below = #attn_tile.multistage<query_tile = 64, stage = 2>,
                            from = #attn_tile.scalar>}

// -----

attn_tile.kernel @operation() {
  // expected-error @below {{custom op 'attn_tile.fetch_workitem' is unknown; did you mean 'fetch_work_item'? (expected acquire,}}
  %0 = attn_tile.fetch_workitem : index
  attn_tile.return
}
