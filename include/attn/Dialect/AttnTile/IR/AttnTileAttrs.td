//===- AttnTileAttrs.td - Attributes of attn_tile ----------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Layouts of register tiles, roles, and schedules.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNTILE_IR_ATTNTILEATTRS_TD
#define ATTN_DIALECT_ATTNTILE_IR_ATTNTILEATTRS_TD

include "attn/Dialect/Attn/IR/AttnInterfaces.td"
include "attn/Dialect/AttnTile/IR/AttnTileDialect.td"
include "attn/Dialect/AttnTile/IR/AttnTileInterfaces.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

class AttnTile_Attr<string name, string mnemonicName, list<Trait> traits = []>
    : AttrDef<AttnTile_Dialect, name, traits> {
  let mnemonic = mnemonicName;
}

def AttnTile_RowBlockLayoutAttr : AttnTile_Attr<"RowBlockLayout",
    "row_blocks", [DeclareAttrInterfaceMethods<AttnTile_ThreadLayoutAttrInterface>]> {
  let summary = "the accumulator layout of NVIDIA matrix instructions";
  let description = [{
    Each of `warps` warps owns 16 consecutive rows of every `16 * warps` rows;
    in it, lane `l` holds rows `l / 4` and `l / 4 + 8` and, of every eight
    columns, columns `2 * (l % 4)` and `2 * (l % 4) + 1`. This is the layout of
    the accumulators of `mma.sync.m16n8k16` (one warp) and of
    `wgmma.m64nNk16` (four warps), and of their A operand in registers.
    PTX ISA, "Matrix fragments for mma.m16n8k16" and "Register fragments for
    wgmma.mma_async.m64nNk16".

    ```mlir
    #attn_tile.row_blocks<warps = 8>
    ```
  }];
  let parameters = (ins "int64_t":$warps);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def AttnTile_RoleKind : I32EnumAttr<"RoleKind", "what a role does", [
      I32EnumAttrCase<"Producer", 0, "producer">,
      I32EnumAttrCase<"Consumer", 1, "consumer">]> {
  let cppNamespace = "::mlir::attn_tile";
  let genSpecializedAttr = 0;
}
def AttnTile_RoleKindAttr
    : EnumAttr<AttnTile_Dialect, AttnTile_RoleKind, "role_kind">;

def AttnTile_TraversalKind : I32EnumAttr<"TraversalKind",
    "order in which work items are visited", [
      I32EnumAttrCase<"Grid", 0, "grid">,
      I32EnumAttrCase<"Persistent", 1, "persistent">,
      I32EnumAttrCase<"Paired", 2, "paired">]> {
  let cppNamespace = "::mlir::attn_tile";
  let genSpecializedAttr = 0;
}
def AttnTile_TraversalKindAttr
    : EnumAttr<AttnTile_Dialect, AttnTile_TraversalKind, "traversal">;

def AttnTile_WarpSpecializedAttr : AttnTile_Attr<"WarpSpecialized",
    "warp_specialized", []> {
  let summary = "one producer warpgroup and several consumer warpgroups";
  let description = [{
    Strategy for GPUs with asynchronous matrix products and bulk copies: one
    producer warpgroup stages key and value tiles in pipes of `stages` stages;
    `consumers` warpgroups share the `query_tile` rows, and keep the product
    of the next key tile in flight during the softmax of this one (FlashAttention-3,
    Shah et al. 2024). `ping_pong` lets two consumers take turns on the tensor
    cores. `traversal` and `interleave` are the options of
    `attn-tile-set-traversal`; `lazy_rescale` skips rescaling by one;
    `delay_rescale` leaves rescaling to the next step, beside its first product
    (`attn-tile-rotate-loops`); `query_stages` lets a persistent group load the
    next item's queries early; `polynomial_exp2` sixteenths of the exponentials
    are polynomials (`attn-tile-mix-exponentials`).
    With `score_stages`, tiles that a change of scores reads at the query and the
    key, such as a bias, go through pipes of that many stages, too, which asks for
    rows of whole 16 bytes in memory.

    Where the grid is small, as in decoding, `split_items` says how many work
    items there should be: as long as there are no more, several share the keys
    of one tile of queries, and a small kernel merges what they compute
    (FlashDecoding, Dao et al. 2023). With `pack_heads`, for a single query, the
    query heads that share a key head fill the rows of one tile. `l2_promotion`
    is that of `attn_tile.make_tensor_map`. `groups` groups share the registers
    of a multiprocessor, so that one begins or ends while another one computes.

    With `cluster`, as many groups of a cluster have neighbouring tiles of queries.
    They walk over the same tiles of keys, of which each group loads a part to the
    stages of all of them, so that fewer bytes leave the second level cache.

    With `pair_bits`, a kernel before evaluates what is masked in the tiles that
    are listed as masked, where a mask reads tensors but not the head: once for
    all heads, a bit for each pair.

    ```mlir
    #attn_tile.warp_specialized<query_tile = 128, key_tile = 176, stages = 2,
        consumers = 2, ping_pong = true, traversal = persistent>
    #attn_tile.warp_specialized<query_tile = 64, key_tile = 128, stages = 3,
        consumers = 1, traversal = grid, split_items = 132, pack_heads = true,
        l2_promotion = 128>
    #attn_tile.warp_specialized<query_tile = 128, key_tile = 176, stages = 2,
        consumers = 2, ping_pong = true, cluster = 2>
    ```
  }];
  let parameters = (ins "int64_t":$query_tile, "int64_t":$key_tile,
                        "int64_t":$stages, "int64_t":$consumers,
                        DefaultValuedParameter<"bool", "false">:$ping_pong,
                        DefaultValuedParameter<"TraversalKind",
                            "TraversalKind::Persistent">:$traversal,
                        DefaultValuedParameter<"int64_t", "1">:$interleave,
                        DefaultValuedParameter<"bool", "false">:$lazy_rescale,
                        DefaultValuedParameter<"bool", "false">:$delay_rescale,
                        DefaultValuedParameter<"int64_t", "1">:$query_stages,
                        DefaultValuedParameter<"int64_t", "0">:$split_items,
                        DefaultValuedParameter<"bool", "false">:$pack_heads,
                        DefaultValuedParameter<"int64_t", "0">:$score_stages,
                        DefaultValuedParameter<"int64_t", "256">:$l2_promotion,
                        DefaultValuedParameter<"int64_t", "1">:$groups,
                        DefaultValuedParameter<"int64_t", "0">:$polynomial_exp2,
                        DefaultValuedParameter<"int64_t", "1">:$cluster,
                        DefaultValuedParameter<"bool", "false">:$pair_bits);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def AttnTile_ByAlignmentAttr : AttnTile_Attr<"ByAlignment", "by_alignment",
    []> {
  let summary = "one of two schedules, by where tiles begin that scores read";
  let description = [{
    `aligned` where the bytes of all arrays that a change of scores reads at the
    query and the key begin at multiples of 16, and so do their rows; `otherwise`
    where they do not. Bulk copies can fill pipes with such arrays alone.
    `attn-dispatch-schedules` turns it into a choice at run time.

    ```mlir
    #attn_tile.by_alignment<
        aligned = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2, score_stages = 2>,
        otherwise = #attn_tile.warp_specialized<query_tile = 128, key_tile = 112, stages = 2, consumers = 2>>
    ```
  }];
  let parameters = (ins "::mlir::attn::ScheduleAttrInterface":$aligned,
                        "::mlir::attn::ScheduleAttrInterface":$otherwise);
  let assemblyFormat = "`<` struct(params) `>`";
}

def AttnTile_KeyStationaryAttr : AttnTile_Attr<"KeyStationary",
    "key_stationary", []> {
  let summary = "gradients of keys by one producer and several consumers";
  let description = [{
    Strategy of kernels whose work items are tiles of keys, for the same GPUs as
    `#attn_tile.warp_specialized`: `consumers` warpgroups share the `key_tile`
    keys, whose gradients they keep in registers; the producer stages tiles of
    `query_tile` queries in pipes of `stages` stages. `traversal` and
    `interleave` are the options of `attn-tile-set-traversal`; `pipelined` runs
    `attn-tile-pipeline-steps`. A tile of queries is staged and multiplied in
    `query_parts` parts, whose contributions to the gradients of queries are
    made by one product. `stages` is a multiple of that number, and larger where
    steps are pipelined: parts of the next tile are waited for before the last
    part of this one is released.

    With `ring_items`, these contributions are added up in a ring of few heads,
    which stays in the cache: two key heads more than have so many tiles of keys.
    Warps that the producer leaves idle round the sums of a head when all its
    tiles have been added. That takes groups that walk over one head after the
    other.

    With `in_turn`, these contributions are added up in the same order each time:
    warps that the producer leaves idle wait for the turn of each, and groups
    begin with different tiles of queries, so that turns come when they are due.

    The tiles of an item are staged in pipes of `key_stages` stages, but for those
    that `lhs_registers` reads to registers at once, which have one: with two, the
    tiles of the next item are loaded early.

    With `items_ahead`, consumers find their next item where the steps of one
    end (`attn-tile-find-items-ahead`).

    With `lhs_registers`, consumers read tiles of an item that are left-hand
    sides of products, as they are, to registers once. Those are the values where
    the gradients of queries are added up, whose product has the keys transposed,
    and keys and values where they are not.

    ```mlir
    #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2,
        consumers = 2, traversal = paired, ring_items = 264>
    #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2,
        consumers = 2, traversal = paired, in_turn = true, key_stages = 2>
    #attn_tile.key_stationary<query_tile = 128, key_tile = 128, stages = 4,
        consumers = 2, pipelined = true, query_parts = 2, lhs_registers = true>
    ```
  }];
  let parameters = (ins "int64_t":$query_tile, "int64_t":$key_tile,
                        "int64_t":$stages, "int64_t":$consumers,
                        DefaultValuedParameter<"TraversalKind",
                            "TraversalKind::Persistent">:$traversal,
                        DefaultValuedParameter<"int64_t", "1">:$interleave,
                        DefaultValuedParameter<"bool", "false">:$pipelined,
                        DefaultValuedParameter<"int64_t", "1">:$query_parts,
                        DefaultValuedParameter<"int64_t", "0">:$ring_items,
                        DefaultValuedParameter<"bool", "false">:$lhs_registers,
                        DefaultValuedParameter<"bool", "false">:$in_turn,
                        DefaultValuedParameter<"int64_t", "1">:$key_stages,
                        DefaultValuedParameter<"bool", "false">:$items_ahead);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Tiles of keys that `ring_items` may be: more than any device works on.
    static constexpr int64_t maxRingItems = 1 << 16;
  }];
}

def AttnTile_KeyMultistageAttr : AttnTile_Attr<"KeyMultistage",
    "key_multistage", []> {
  let summary = "gradients of keys by one role that prefetches into pipes";
  let description = [{
    Strategy of kernels whose work items are tiles of keys, for the same GPUs as
    `#attn_tile.multistage`: all `warps` warps copy and compute. They share the
    `key_tile` keys, whose gradients they keep in registers, and walk over tiles
    of `query_tile` queries, which copies bring `stages - 1` steps ahead.

    ```mlir
    #attn_tile.key_multistage<query_tile = 32, key_tile = 128, stages = 2, warps = 8>
    ```
  }];
  let parameters = (ins "int64_t":$query_tile, "int64_t":$key_tile,
                        "int64_t":$stages, "int64_t":$warps);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def AttnTile_GradientAttr : AttnTile_Attr<"Gradient", "gradient", []> {
  let summary = "one schedule for each kernel of a gradient";
  let description = [{
    The gradient of attention takes several kernels, each with a schedule of its
    own: `rows` for what is computed once for each query, `keys` for the
    gradients of keys and values, `queries` for those of queries. With `values`,
    the gradients of values have a kernel of their own. Without `queries`, the
    kernel of the keys adds up the gradients of the queries as well, in an order
    that changes from run to run unless it has `in_turn`; kernels for sm_80
    cannot.

    ```mlir
    #attn_tile.gradient<
        rows = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
        keys = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>>
    #attn_tile.gradient<
        rows = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
        keys = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>,
        queries = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>>
    #attn_tile.gradient<
        rows = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
        keys = #attn_tile.key_multistage<query_tile = 32, key_tile = 128, stages = 2, warps = 8>,
        queries = #attn_tile.multistage<query_tile = 128, key_tile = 32, stages = 2, warps = 8>>
    ```
  }];
  let parameters = (ins "::mlir::attn::ScheduleAttrInterface":$rows,
                        "::mlir::attn::ScheduleAttrInterface":$keys,
                        OptionalParameter<"::mlir::attn::ScheduleAttrInterface">:$queries,
                        OptionalParameter<"::mlir::attn::ScheduleAttrInterface">:$values);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def AttnTile_MultistageAttr : AttnTile_Attr<"Multistage", "multistage",
    []> {
  let summary = "one role that prefetches into pipes";
  let description = [{
    Strategy for GPUs whose matrix products are synchronous: all `warps` warps
    copy and compute; copies run `stages - 1` steps ahead (FlashAttention-2,
    Dao 2023). `split_items` and `pack_heads` are as of
    `#attn_tile.warp_specialized`.

    ```mlir
    #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 4>
    ```
  }];
  let parameters = (ins "int64_t":$query_tile, "int64_t":$key_tile,
                        "int64_t":$stages, "int64_t":$warps,
                        DefaultValuedParameter<"int64_t", "0">:$split_items,
                        DefaultValuedParameter<"bool", "false">:$pack_heads);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def AttnTile_SequentialAttr : AttnTile_Attr<"Sequential", "sequential",
    []> {
  let summary = "one task per work item, nothing asynchronous";
  let description = [{
    Strategy of the host target: each work item is one task of one thread.
    `split_items` and `pack_heads` are as of `#attn_tile.warp_specialized`.

    ```mlir
    #attn_tile.sequential<query_tile = 16, key_tile = 64>
    ```
  }];
  let parameters = (ins "int64_t":$query_tile, "int64_t":$key_tile,
                        DefaultValuedParameter<"int64_t", "0">:$split_items,
                        DefaultValuedParameter<"bool", "false">:$pack_heads);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def AttnTile_MatmulWarpSpecializedAttr : AttnTile_Attr<
    "MatmulWarpSpecialized", "matmul_warp_specialized", []> {
  let summary = "matrix product by one producer and several consumers";
  let description = [{
    Strategy of matrix products for GPUs with asynchronous products and bulk
    copies: a producer stages tiles of both inputs, `depth_tile` deep, in pipes
    of `stages` stages; `consumers` warpgroups share the `row_tile` rows of a
    tile of the result and keep one product in flight. Groups are persistent;
    `interleave` rows of tiles are walked together, column by column, so that
    what groups read at the same time stays in the L2 cache.

    ```mlir
    #attn_tile.matmul_warp_specialized<row_tile = 128, column_tile = 256,
        depth_tile = 64, stages = 4, consumers = 2, interleave = 16>
    ```
  }];
  let parameters = (ins "int64_t":$row_tile, "int64_t":$column_tile,
                        "int64_t":$depth_tile, "int64_t":$stages,
                        "int64_t":$consumers,
                        DefaultValuedParameter<"int64_t", "1">:$interleave);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def AttnTile_MatmulSequentialAttr : AttnTile_Attr<
    "MatmulSequential", "matmul_sequential", []> {
  let summary = "matrix product, one task for each tile of the result";
  let description = [{
    Strategy of matrix products on the host target.

    ```mlir
    #attn_tile.matmul_sequential<row_tile = 16, column_tile = 64, depth_tile = 64>
    ```
  }];
  let parameters = (ins "int64_t":$row_tile, "int64_t":$column_tile,
                        "int64_t":$depth_tile);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def AttnTile_ScalarAttr : AttnTile_Attr<"Scalar", "scalar", []> {
  let summary = "one warp for each work item, on scalars alone";
  let description = [{
    Strategy for small kernels that prepare the work of others on a GPU. Their
    work items have no tiles; the threads of a warp share the numbers of
    `attn_tile.reduce` and `attn_tile.each`.

    ```mlir
    #attn_tile.scalar
    ```
  }];
}

#endif // ATTN_DIALECT_ATTNTILE_IR_ATTNTILEATTRS_TD
