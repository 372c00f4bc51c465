//===- AttnTileAttrs.td - Attributes of attn_tile ---------*- tablegen -*--===//
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
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/EnumAttr.td"

class AttnTile_Attr<string name, string mnemonicName, list<Trait> traits = []>
    : AttrDef<AttnTile_Dialect, name, traits> {
  let mnemonic = mnemonicName;
}

def AttnTile_RowBlockLayoutAttr : AttnTile_Attr<"RowBlockLayout",
    "row_blocks", [DeclareAttrInterfaceMethods<AttnTile_ThreadLayoutAttrInterface>]> {
  let summary = "the accumulator layout of NVIDIA MMA instructions";
  let description = [{
    Each of `warps` warps owns 16 consecutive rows of every `16 * warps` rows.
    In them, lane `l` holds rows `l / 4` and `l / 4 + 8`. Of every eight columns
    it holds columns `2 * (l % 4)` and `2 * (l % 4) + 1`. This is the layout of
    the accumulators of `mma.sync.m16n8k16` (one warp) and of `wgmma.m64nNk16`
    (four warps), and of their A operand in registers. PTX ISA, "Matrix
    fragments for mma.m16n8k16" and "Register fragments for
    wgmma.mma_async.m64nNk16".

    ```mlir
    #attn_tile.row_blocks<warps = 8>
    ```
  }];
  let parameters = (ins "int64_t":$warps);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def AttnTile_PackedGQALayoutAttr : AttnTile_Attr<"PackedGQALayout",
    "packed_gqa", [DeclareAttrInterfaceMethods<MemRefLayoutAttrInterface,
                   ["verifyLayout", "getStridesAndOffset"]>]> {
  let summary = "query heads of a GQA group as rows of one head";
  let description = [{
    The layout of a memref whose dimension `rows - 1` is the GQA group `h` and whose
    dimension `rows` holds the queries of all `group_size` query heads of this group,
    which share a key and a value head: row `r` is query `r / group_size` of query
    head `h * group_size + r % group_size`. The query heads and queries have strides
    of their own, so that packing copies nothing. FlashAttention calls this
    `pack_gqa`.

    ```mlir
    memref<1x8x64x128xbf16, #attn_tile.packed_gqa<rank = 4, rows = 2, group_size = 4>>
    ```
  }];
  let parameters = (ins "int64_t":$rank, "int64_t":$rows, "int64_t":$group_size);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def AttnTile_MmaSyncAttr : AttnTile_Attr<"MmaSync", "mma_sync",
    [DeclareAttrInterfaceMethods<AttnTile_MmaAttrInterface>]> {
  let summary = "the MMA instructions of a warp, mma.sync.m16n8";
  let description = [{
    `multiplicand` is `bf16` or `f16`, with 16 of them in a step, or `tf32`,
    with 8. Elements of a tf32 MMA are f32. With `terms = 1` they are rounded
    to tf32. With `terms = 3` each is split into two tf32 values, `a` and `b`
    for short, and the instructions add `a * b' + b * a' + a * a'`: the term
    that is left out is below a rounding of f32.

    Operands come from registers. The order of the contracted elements of a tf32
    step is the order of the accumulator, which is therefore an operand, too: index
    `t` of the instruction is element `2 * t`, and index `t + 4` is element
    `2 * t + 1`. PTX ISA, "Matrix fragments for mma.m16n8k8" and "for
    mma.m16n8k16".

    ```mlir
    #attn_tile.mma_sync<multiplicand = bf16>
    #attn_tile.mma_sync<multiplicand = tf32, terms = 3>
    ```
  }];
  let parameters = (ins "::mlir::Type":$multiplicand,
                        DefaultValuedParameter<"int64_t", "1">:$terms);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def AttnTile_WgmmaAttr : AttnTile_Attr<"Wgmma", "wgmma",
    [DeclareAttrInterfaceMethods<AttnTile_MmaAttrInterface>]> {
  let summary = "the MMA instructions of a warpgroup, wgmma.m64";
  let description = [{
    `multiplicand` is `bf16` or `f16`, with 16 of them in a step, or `f8E4M3FN` or
    `f8E5M2`, with 32. It is the type of both sides, or of the left-hand side, where
    the right-hand side has the other type of 8 bits. The right-hand side is read from
    shared memory, the left-hand side from there or from registers. Multiplicands of
    8 bits are read along contiguous contracted elements alone.

    The order of the contracted elements of 8 bits in registers is the order of
    the accumulator, which is therefore an operand, too: of each 16 indices of the
    instruction, index `4 * t + i` is element `2 * t + i` and index `4 * t + 2 + i`
    is element `2 * t + 8 + i`, for `t` from 0 to 3 and `i` from 0 to 1
    (`getElementOfIndex`). PTX ISA, "Register fragments for wgmma.mma_async.m64k32".

    ```mlir
    #attn_tile.wgmma<multiplicand = bf16>
    #attn_tile.wgmma<multiplicand = f8E4M3FN>
    ```
  }];
  let parameters = (ins "::mlir::Type":$multiplicand);
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

//===----------------------------------------------------------------------===//
// Parts of schedules
//===----------------------------------------------------------------------===//

/// Parameters that several schedules have. A parameter that is added to a part
/// is one of all of them.
class AttnTile_SchedulePart<dag partParameters> {
  dag parameters = partParameters;
}

def AttnTile_TraversalPart : AttnTile_SchedulePart<(ins
    DefaultValuedParameter<"TraversalKind",
                           "TraversalKind::Persistent">:$traversal,
    DefaultValuedParameter<"int64_t", "1">:$interleave)>;

/// Of forward kernels with few work items.
def AttnTile_SplitKVPart : AttnTile_SchedulePart<(ins
    DefaultValuedParameter<"int64_t", "0">:$split_kv_work_items,
    DefaultValuedParameter<"bool", "false">:$pack_gqa,
    DefaultValuedParameter<"bool", "false">:$balance_splits)>;

//===----------------------------------------------------------------------===//
// Schedules
//===----------------------------------------------------------------------===//

def AttnTile_WarpSpecializedAttr : AttnTile_Attr<"WarpSpecialized",
    "warp_specialized", []> {
  let summary = "one producer warpgroup and several consumer warpgroups";
  let description = [{
    Strategy for GPUs with asynchronous MMAs and bulk copies (FlashAttention-3,
    Shah et al. 2024). One producer warpgroup stages key and value tiles of
    `key_tile` keys in pipes of `stages` stages. `consumers` warpgroups divide
    the `query_tile` rows among them, and keep the QK MMA of the next kv tile
    in flight during the softmax of this one.

    - `ping_pong`: the consumers alternate on the tensor cores.
    - `traversal`, `interleave`: the options of `attn-tile-set-traversal`.
    - `conditional_rescale`: a row keeps the maximum that its exponents are
      relative to until its new maximum exceeds it by a factor of 2^8. Steps in
      which no row changes it skip rescaling (FlashAttention-4).
    - `deferred_rescale`: delays rescaling to the next iteration, while its QK
      MMA is in flight (`attn-tile-software-pipeline-kv-loop`).
    - `query_stages`: stages of the query pipe; with two, a persistent CTA loads
      the queries of its next work item early.
    - `exp2_emulation`: how many sixteenths of the exponentials are polynomials
      (`attn-tile-emulate-exp2`).
    - `score_stages`: stages of the pipes of the tiles that a `score_mod` reads
      at the query and the key, such as a bias. Rows of these arrays must be
      multiples of 16 bytes. With 0 these tiles have no pipes.
    - `split_kv_work_items`: the number of work items to aim at where the grid
      is small, as in decoding. Up to this number, several work items split the
      keys of one query tile, and a small kernel combines the splits
      (FlashDecoding, Dao et al. 2023).
    - `balance_splits`: for KV caches with `key_lengths`. A small kernel lists the
      splits, so many for each batch entry that they have about the same number of
      keys. Without it, all batch entries have as many splits, whose number follows
      from the longest entry that the cache has room for. Splits of packed and padded
      sequences are always listed.
    - `pack_gqa`: the queries of all query heads that share a key and a value head are
      the rows of one tile. For up to 64 queries, or packed queries of a KV cache.
    - `l2_promotion`: bytes, the parameter of `attn_tile.make_tensor_map`.
    - `ctas_per_sm`: CTAs that share the registers of an SM, so that one CTA
      begins or ends while another one computes.
    - `cluster`: CTAs of a thread block cluster. They have neighbouring query
      tiles and iterate over the same kv tiles. Each CTA loads a part of a key
      tile to the stages of all of them, which reduces L2 reads.
    - `mask_bits`: an earlier kernel evaluates the mask of the partial tiles,
      once for all heads, to a mask bitmap. For masks that read tensors but do
      not depend on the head.
    - `head_dim_tile`: the columns of the values that a work item multiplies,
      for heads whose output does not fit the registers of the consumers. The
      work items of a query tile, one for each tile of columns, all compute its
      scores. With 0 a work item has all columns. As `dq` of
      `#attn_tile.gradient`: the columns of dQ that a kernel computes.
    - `consumer_columns`: consumers do not divide the queries, of which there are
      64. All of them compute the scores of the tile, and each of them
      `head_dim_tile` columns of the output, together all columns (FlashMLA). For
      values that are the first elements of their keys, as in multi-head latent
      attention, keys are staged alone. As `dq` of `#attn_tile.gradient`: the same
      for columns of dQ.
    - `idle_warps_convert`: for keys and values of 8 bits with queries of 16. The
      warps that the producer leaves idle convert staged tiles, while the
      consumers multiply earlier ones. Without it, the consumers convert them.
    - `skip_empty_rows`: for one consumer with few queries. Its warps without
      queries skip the softmax, and no MMA is in flight meanwhile.

    ```mlir
    #attn_tile.warp_specialized<query_tile = 128, key_tile = 176, stages = 2,
        consumers = 2, ping_pong = true, traversal = persistent>
    #attn_tile.warp_specialized<query_tile = 64, key_tile = 128, stages = 3,
        consumers = 1, traversal = grid, split_kv_work_items = 132, pack_gqa = true,
        l2_promotion = 128>
    #attn_tile.warp_specialized<query_tile = 128, key_tile = 176, stages = 2,
        consumers = 2, ping_pong = true, cluster = 2>
    #attn_tile.warp_specialized<query_tile = 128, key_tile = 32, stages = 2,
        consumers = 2, ping_pong = true, head_dim_tile = 256>
    #attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2,
        consumers = 2, ping_pong = true, head_dim_tile = 256, consumer_columns = true>
    #attn_tile.warp_specialized<query_tile = 64, key_tile = 96, stages = 2,
        consumers = 1, traversal = grid, split_kv_work_items = 264, pack_gqa = true,
        ctas_per_sm = 2, idle_warps_convert = true, skip_empty_rows = true>
    ```
  }];
  let parameters = !con(
      (ins "int64_t":$query_tile, "int64_t":$key_tile,
           "int64_t":$stages, "int64_t":$consumers,
           DefaultValuedParameter<"bool", "false">:$ping_pong),
      AttnTile_TraversalPart.parameters,
      (ins DefaultValuedParameter<"bool", "false">:$conditional_rescale,
           DefaultValuedParameter<"bool", "false">:$deferred_rescale,
           DefaultValuedParameter<"int64_t", "1">:$query_stages),
      AttnTile_SplitKVPart.parameters,
      (ins DefaultValuedParameter<"int64_t", "0">:$score_stages,
           DefaultValuedParameter<"int64_t", "256">:$l2_promotion,
           DefaultValuedParameter<"int64_t", "1">:$ctas_per_sm,
           DefaultValuedParameter<"int64_t", "0">:$exp2_emulation,
           DefaultValuedParameter<"int64_t", "1">:$cluster,
           DefaultValuedParameter<"bool", "false">:$mask_bits,
           DefaultValuedParameter<"int64_t", "0">:$head_dim_tile,
           DefaultValuedParameter<"bool", "false">:$idle_warps_convert,
           DefaultValuedParameter<"bool", "false">:$skip_empty_rows,
           DefaultValuedParameter<"bool", "false">:$consumer_columns));
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def AttnTile_ByAlignmentAttr : AttnTile_Attr<"ByAlignment", "by_alignment",
    []> {
  let summary = "one of two schedules, by the alignment of the arrays that a score_mod reads";
  let description = [{
    `aligned` applies where all arrays that a `score_mod` reads at the query and
    the key start at multiples of 16 bytes, and so do all of their rows.
    Otherwise `otherwise` applies. Only aligned arrays can fill pipes by bulk
    copies. `attn-dispatch-schedules` lowers it to a choice at run time.

    ```mlir
    #attn_tile.by_alignment<
        aligned = #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2,
            score_stages = 2>,
        otherwise = #attn_tile.warp_specialized<query_tile = 128, key_tile = 112, stages = 2, consumers = 2>>
    ```
  }];
  let parameters = (ins "::mlir::attn::ScheduleAttrInterface":$aligned,
                        "::mlir::attn::ScheduleAttrInterface":$otherwise);
  let assemblyFormat = "`<` struct(params) `>`";
}

def AttnTile_KeyStationaryAttr : AttnTile_Attr<"KeyStationary",
    "key_stationary", []> {
  let summary = "dK/dV by one producer and several consumer warpgroups";
  let description = [{
    Strategy of kernels whose work items are kv tiles, for the same GPUs as
    `#attn_tile.warp_specialized`. `consumers` warpgroups divide the `key_tile`
    keys among them and keep dK and dV in registers. The producer stages tiles
    of `query_tile` queries in pipes of `stages` stages.

    - `traversal`, `interleave`: the options of `attn-tile-set-traversal`.
    - `pipelined`: runs `attn-tile-pipeline-steps`.
    - `query_parts`: a query tile is staged and multiplied in this many parts,
      whose dS make one dQ MMA. `stages` is a multiple of `query_parts`, and
      larger with `pipelined`: parts of the next tile are then waited for before
      the last part of this one is released.
    - `dq_ring_depth`: in kv tiles. dQ accumulates in a ring buffer that stays
      in L2, with slots for two GQA groups more than have this many kv tiles.
      Auxiliary warps convert the dQ of a head when all kv tiles of the head
      have been added. A later kernel converts the last heads, whose additions
      may still be under way at the end. CTAs must then iterate over one head
      after the other.
      With 0 there is no ring buffer.
    - `ordered_dq`: dQ accumulates in the same order in each run. Auxiliary
      warps wait for the semaphore of each query tile. CTAs begin with different
      query tiles, so that each addition is due when its tile is ready.
    - `key_stages`: stages of the pipes of the tiles that a work item loads
      once, except tiles that `lhs_registers` reads to registers at once, which
      have one stage. With two stages, the tiles of the next work item are
      loaded early.
    - `prefetch_work_item`: consumers find their next work item when the
      iterations of this one end (`attn-tile-prefetch-work-items`).
    - `lhs_registers`: consumers read the tiles of a work item that are
      untransposed left-hand sides of MMAs to registers once: the values where
      the kernel accumulates dQ, whose MMA has the keys transposed, otherwise
      keys and values.
    - `head_dim_tile`: the columns of dK or dV that a kernel computes, for heads
      whose gradient does not fit the registers of the consumers. A kernel for
      each tile of columns then computes all scores. With 0 one kernel computes
      all columns.
    - `consumer_columns`: consumers do not divide the keys, of which there are 64.
      All of them compute the scores of the tile, and each of them `head_dim_tile`
      columns of dK or dV, together all columns. The tiles that one kernel for
      each tile of columns would load again are loaded once.

    ```mlir
    #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2,
        consumers = 2, traversal = paired, dq_ring_depth = 264>
    #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2,
        consumers = 2, traversal = paired, ordered_dq = true, key_stages = 2>
    #attn_tile.key_stationary<query_tile = 128, key_tile = 128, stages = 4,
        consumers = 2, pipelined = true, query_parts = 2, lhs_registers = true>
    #attn_tile.key_stationary<query_tile = 48, key_tile = 64, stages = 1,
        consumers = 1, head_dim_tile = 256>
    #attn_tile.key_stationary<query_tile = 48, key_tile = 64, stages = 1,
        consumers = 2, head_dim_tile = 256, consumer_columns = true>
    ```
  }];
  let parameters = !con(
      (ins "int64_t":$query_tile, "int64_t":$key_tile,
           "int64_t":$stages, "int64_t":$consumers),
      AttnTile_TraversalPart.parameters,
      (ins DefaultValuedParameter<"bool", "false">:$pipelined,
           DefaultValuedParameter<"int64_t", "1">:$query_parts,
           DefaultValuedParameter<"int64_t", "0">:$dq_ring_depth,
           DefaultValuedParameter<"bool", "false">:$lhs_registers,
           DefaultValuedParameter<"bool", "false">:$ordered_dq,
           DefaultValuedParameter<"int64_t", "1">:$key_stages,
           DefaultValuedParameter<"bool", "false">:$prefetch_work_item,
           DefaultValuedParameter<"int64_t", "0">:$head_dim_tile,
           DefaultValuedParameter<"bool", "false">:$consumer_columns));
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Upper limit of `dq_ring_depth` in kv tiles: more than any device needs.
    static constexpr int64_t maxDqRingDepth = 1 << 16;
  }];
}

def AttnTile_KeyMultistageAttr : AttnTile_Attr<"KeyMultistage",
    "key_multistage", []> {
  let summary = "dK/dV by one role that prefetches into pipes";
  let description = [{
    Strategy of kernels whose work items are kv tiles, for the same GPUs as
    `#attn_tile.multistage`. All `warps` warps copy and compute. They divide the
    `key_tile` keys among them, keep dK and dV in registers, and iterate over
    tiles of `query_tile` queries. Copies run `stages - 1` iterations ahead.
    `head_dim_tile` is as in `#attn_tile.key_stationary`.

    ```mlir
    #attn_tile.key_multistage<query_tile = 32, key_tile = 128, stages = 2, warps = 8>
    #attn_tile.key_multistage<query_tile = 16, key_tile = 32, stages = 2, warps = 2,
        head_dim_tile = 256>
    ```
  }];
  let parameters = (ins "int64_t":$query_tile, "int64_t":$key_tile,
                        "int64_t":$stages, "int64_t":$warps,
                        DefaultValuedParameter<"int64_t", "0">:$head_dim_tile);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def AttnTile_GradientAttr : AttnTile_Attr<"Gradient", "gradient", []> {
  let summary = "one schedule for each kernel of a gradient";
  let description = [{
    The gradient of attention takes several kernels, each with its own schedule:
    `preprocess` computes values for each query, `dkdv` the gradients of keys
    and values, `dq` the gradients of queries. With `dv`, the gradients of
    values have a kernel of their own. Without `dq`, the `dkdv` kernel
    accumulates dQ as well. The order of that accumulation changes from run to
    run unless the kernel has `ordered_dq`. Kernels for sm_80 cannot accumulate
    dQ.

    ```mlir
    #attn_tile.gradient<
        preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
        dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>>
    #attn_tile.gradient<
        preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
        dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>,
        dq = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>>
    #attn_tile.gradient<
        preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
        dkdv = #attn_tile.key_multistage<query_tile = 32, key_tile = 128, stages = 2, warps = 8>,
        dq = #attn_tile.multistage<query_tile = 128, key_tile = 32, stages = 2, warps = 8>>
    ```
  }];
  let parameters = (ins "::mlir::attn::ScheduleAttrInterface":$preprocess,
                        "::mlir::attn::ScheduleAttrInterface":$dkdv,
                        OptionalParameter<"::mlir::attn::ScheduleAttrInterface">:$dq,
                        OptionalParameter<"::mlir::attn::ScheduleAttrInterface">:$dv);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def AttnTile_MultistageAttr : AttnTile_Attr<"Multistage", "multistage",
    []> {
  let summary = "one role that prefetches into pipes";
  let description = [{
    Strategy for GPUs whose MMAs are synchronous. All `warps` warps copy and
    compute; copies run `stages - 1` iterations ahead (FlashAttention-2, Dao
    2023). `split_kv_work_items`, `pack_gqa`, `balance_splits` and
    `head_dim_tile` are as in
    `#attn_tile.warp_specialized`.

    ```mlir
    #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 4>
    ```
  }];
  let parameters = !con(
      (ins "int64_t":$query_tile, "int64_t":$key_tile,
           "int64_t":$stages, "int64_t":$warps),
      AttnTile_SplitKVPart.parameters,
      (ins DefaultValuedParameter<"int64_t", "0">:$head_dim_tile));
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def AttnTile_SequentialAttr : AttnTile_Attr<"Sequential", "sequential",
    []> {
  let summary = "one task per work item, nothing asynchronous";
  let description = [{
    Strategy of the host target: each work item is one task of one thread.
    `split_kv_work_items`, `pack_gqa` and `balance_splits` are as in
    `#attn_tile.warp_specialized`.

    ```mlir
    #attn_tile.sequential<query_tile = 16, key_tile = 64>
    ```
  }];
  let parameters = !con(
      (ins "int64_t":$query_tile, "int64_t":$key_tile),
      AttnTile_SplitKVPart.parameters);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def AttnTile_MatmulWarpSpecializedAttr : AttnTile_Attr<
    "MatmulWarpSpecialized", "matmul_warp_specialized", []> {
  let summary = "GEMM by one producer and several consumer warpgroups";
  let description = [{
    Strategy of matmuls for GPUs with asynchronous MMAs and bulk copies. A
    producer stages tiles of both inputs, with `depth_tile` elements of the
    contracted dimension, in pipes of `stages` stages. `consumers` warpgroups
    divide the `row_tile` rows of a tile of the result among them and keep one
    MMA in flight. CTAs are persistent. They visit `interleave` rows of tiles
    together, column by column, so that the inputs that CTAs read at the same
    time stay in L2.

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

def AttnTile_MatmulMultistageAttr : AttnTile_Attr<
    "MatmulMultistage", "matmul_multistage", []> {
  let summary = "GEMM by one role that prefetches into pipes";
  let description = [{
    Strategy of matmuls for the same GPUs as `#attn_tile.multistage`. All
    `warps` warps copy and compute. They divide the `row_tile` rows of a tile of
    the result among them. Copies bring tiles of both inputs, with `depth_tile`
    elements of the contracted dimension, `stages - 1` iterations ahead.

    ```mlir
    #attn_tile.matmul_multistage<row_tile = 128, column_tile = 128,
        depth_tile = 64, stages = 2, warps = 4>
    ```
  }];
  let parameters = (ins "int64_t":$row_tile, "int64_t":$column_tile,
                        "int64_t":$depth_tile, "int64_t":$stages,
                        "int64_t":$warps);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def AttnTile_MatmulSequentialAttr : AttnTile_Attr<
    "MatmulSequential", "matmul_sequential", []> {
  let summary = "GEMM with one task for each tile of the result";
  let description = [{
    Strategy of matmuls on the host target. Inputs are multiplied in tiles with
    `depth_tile` elements of the contracted dimension.

    ```mlir
    #attn_tile.matmul_sequential<row_tile = 16, column_tile = 64, depth_tile = 64>
    ```
  }];
  let parameters = (ins "int64_t":$row_tile, "int64_t":$column_tile,
                        "int64_t":$depth_tile);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def AttnTile_LinearMultistageAttr : AttnTile_Attr<
    "LinearMultistage", "linear_multistage", []> {
  let summary = "linear attention by one role that prefetches into pipes";
  let description = [{
    Strategy of `attn.linear_attention` for GPUs. A work item computes `value_tile`
    columns of the values of a head. It iterates over chunks of `chunk` tokens and
    keeps its columns of the state in registers. All `warps` warps copy and compute:
    they divide the tokens of a chunk among them, and the rows of the state. Copies
    run `stages - 1` chunks ahead. Operands of matmuls that are computed, such as the
    state, have `local_stages` stages in shared memory: with 1, all warps wait for
    each other before they store one. With `rows_ahead`, row values and scalars, such
    as log-decays, are loaded to registers one chunk ahead. With `refill`, a single stage
    is filled for the next chunk where it is released.

    `split_work_items` is the number of work items to aim at where heads are few. Up
    to this number, several work items split the chunks of a head. Two kernels before
    compute the states that these begin with. With 0 a work item has all chunks.

    ```mlir
    #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>
    #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4,
        local_stages = 1, rows_ahead = true, split_work_items = 264>
    ```
  }];
  let parameters = (ins "int64_t":$chunk, "int64_t":$value_tile,
                        "int64_t":$stages, "int64_t":$warps,
                        DefaultValuedParameter<"int64_t", "2">:$local_stages,
                        DefaultValuedParameter<"bool", "false">:$rows_ahead,
                        DefaultValuedParameter<"int64_t", "0">:$split_work_items,
                        DefaultValuedParameter<"bool", "false">:$refill);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def AttnTile_LinearWarpSpecializedAttr : AttnTile_Attr<
    "LinearWarpSpecialized", "linear_warp_specialized", []> {
  let summary = "linear attention by a producer and consumer warpgroups";
  let description = [{
    Strategy of `attn.linear_attention` and its gradient for GPUs with asynchronous
    MMAs and bulk copies; or a part of `#attn_tile.linear_pairs`. As with
    `#attn_tile.linear_multistage`, a work item computes `value_tile` columns of the
    values of a head, chunk after chunk, with its columns of the state in registers. A
    producer copies tiles to pipes of `stages` stages. A consumer warpgroup has 64 tokens
    of a chunk, and as many rows of every `chunk` rows of the state. `local_stages` and
    `split_work_items` are as there. `ctas_per_sm` CTAs, 1 or 2, share the registers of an
    SM.

    With `rows_ahead`, row values and scalars, such as log-decays, are loaded to
    registers one chunk ahead.

    ```mlir
    #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 3>
    #attn_tile.linear_warp_specialized<chunk = 128, value_tile = 64, stages = 2,
        local_stages = 1, rows_ahead = true, split_work_items = 132>
    #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 1,
        local_stages = 1, ctas_per_sm = 2>
    ```
  }];
  let parameters = (ins "int64_t":$chunk, "int64_t":$value_tile,
                        "int64_t":$stages,
                        DefaultValuedParameter<"int64_t", "2">:$local_stages,
                        DefaultValuedParameter<"bool", "false">:$rows_ahead,
                        DefaultValuedParameter<"int64_t", "0">:$split_work_items,
                        DefaultValuedParameter<"int64_t", "1">:$ctas_per_sm);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def AttnTile_LinearRecurrentAttr : AttnTile_Attr<
    "LinearRecurrent", "linear_recurrent", []> {
  let summary = "linear attention of few tokens, one after the other";
  let description = [{
    Strategy of `attn.linear_attention` for GPUs and few tokens, such as the one of a
    decode step. One kernel reads and writes the state once. A work item is one warp,
    which has `value_tile` columns of the values of a head: 8, 16 or 32. A thread keeps
    four of these columns in registers, and `value_tile / 128` of the rows of the state.
    It computes one token after the other in f32, without MMAs. Sums over rows are
    reductions of a warp. Packed sequences take the place of batch entries, and are not
    padded.

    ```mlir
    #attn_tile.linear_recurrent<value_tile = 16>
    ```
  }];
  let parameters = (ins "int64_t":$value_tile);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def AttnTile_ByWorkItemsAttr : AttnTile_Attr<"ByWorkItems", "by_work_items", []> {
  let summary = "one of two schedules of linear attention, by the number of work items";
  let description = [{
    `within` applies where the heads of all batch entries have more than `more_than` work
    items, and at most `at_most`; otherwise `otherwise` applies. A head has a work item for
    each tile of `value_tile` columns of its values, before chunks are split. Both
    schedules have the same `value_tile`.

    Two CTAs on an SM are faster than one where there is work for all of them: many work
    items, or so few that they are split. In between, one CTA is faster, with more stages
    or longer chunks.
    `attn-dispatch-schedules` lowers it to a choice at run time.

    ```mlir
    #attn_tile.by_work_items<
        more_than = 88, at_most = 132,
        within = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 3>,
        otherwise = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2,
            local_stages = 1, split_work_items = 264, ctas_per_sm = 2>>
    ```
  }];
  let parameters = (ins "int64_t":$more_than, "int64_t":$at_most,
                        "::mlir::attn::ScheduleAttrInterface":$within,
                        "::mlir::attn::ScheduleAttrInterface":$otherwise);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def AttnTile_LinearPairsAttr : AttnTile_Attr<"LinearPairs", "linear_pairs", []> {
  let summary = "one schedule for each kind of kernels of linear attention with pair matrices";
  let description = [{
    Linear attention with the delta rule or with a decay of each key element, and its
    gradient, take several kernels. The kernels of `pairs` have all chunks at once: they
    compute the scores of the tokens of a chunk, with the delta rule the inverse of the
    triangular matrix, and gradients of queries and keys. The
    kernels of `chunks` go through the chunks of a head one after the other. Where heads
    are few, `split_work_items` of `chunks` work items split the chunks of a head, and a
    kernel of `starts` computes the states before splits from the states and transitions
    of splits. The kernel of gradients of queries and keys has the schedule `gradients`
    instead of `pairs`, if it is given. Key head dims above 128 leave no room for transitions: where work items
    with the columns of `narrow` are no more than `narrow_work_items`, they have its tiles
    and stages instead. With a decay of each key element, the kernels of
    `pairs` are for chunks whose decays are factors of queries and keys, and kernels of
    `levels` for others: `value_tile` is the number of columns of queries and keys whose
    decays they have at a time. All chunks have 64 tokens.

    ```mlir
    #attn_tile.linear_pairs<
        pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
        chunks = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2>>
    #attn_tile.linear_pairs<
        pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
        chunks = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4,
            split_work_items = 216>,
        starts = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 2, warps = 4>,
        gradients = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 1,
            local_stages = 1, ctas_per_sm = 2>>
    #attn_tile.linear_pairs<
        pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 1, warps = 4>,
        chunks = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
        narrow = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 2, warps = 4>,
        narrow_work_items = 108>
    #attn_tile.linear_pairs<
        pairs = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>,
        levels = #attn_tile.linear_multistage<chunk = 64, value_tile = 16, stages = 1, warps = 4>,
        chunks = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2>>
    ```
  }];
  let parameters = (ins "::mlir::attn::ScheduleAttrInterface":$pairs,
                        OptionalParameter<"::mlir::attn::ScheduleAttrInterface">:$levels,
                        "::mlir::attn::ScheduleAttrInterface":$chunks,
                        OptionalParameter<"::mlir::attn::ScheduleAttrInterface">:$starts,
                        OptionalParameter<"::mlir::attn::ScheduleAttrInterface">:$gradients,
                        OptionalParameter<"::mlir::attn::ScheduleAttrInterface">:$narrow,
                        DefaultValuedParameter<"int64_t", "0">:$narrow_work_items);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def AttnTile_ScalarAttr : AttnTile_Attr<"Scalar", "scalar", []> {
  let summary = "a few warps for each work item, on scalars alone";
  let description = [{
    Strategy for small kernels that prepare the work of others on a GPU, or combine
    its parts. Their work items have no tiles. The threads of `warps` warps divide the
    indices of `attn_tile.reduce`, which needs one warp, and `attn_tile.thread_for`
    among them.

    ```mlir
    #attn_tile.scalar
    #attn_tile.scalar<warps = 4>
    ```
  }];
  let parameters = (ins DefaultValuedParameter<"int64_t", "1">:$warps);
  let assemblyFormat = "(`<` struct(params)^ `>`)?";
  let genVerifyDecl = 1;
}

def AttnTile_MoveRowsAttr : AttnTile_Attr<"MoveRows", "move_rows", []> {
  let summary = "one warp or task for each part of the rows of tensors";
  let description = [{
    Strategy of `attn.cache_append`, `attn.merge` and `attn.merge_grad`. Rows are cut
    into chunks of up to 16 bytes, or two of them where pairs of elements are rotated.
    A work item moves `chunks` chunks, and a thread `together` of them at a time. In
    `attn.merge_grad`, a work item moves `together` rows, and chunks are so small that
    each thread has one of a row.

    - `threads`: threads that divide a work item, a warp on GPUs and 1 on hosts.
    - `aligned`: accesses to neighbouring elements are aligned, and become one.
    - `loads_early`: elements are loaded before the page is known that they are
      stored to.

    ```mlir
    #attn_tile.move_rows<chunks = 64, threads = 32, together = 2, aligned = true,
        loads_early = true>
    ```
  }];
  let parameters = (ins "int64_t":$chunks, "int64_t":$threads,
                        DefaultValuedParameter<"int64_t", "1">:$together,
                        DefaultValuedParameter<"bool", "false">:$aligned,
                        DefaultValuedParameter<"bool", "false">:$loads_early);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

#endif // ATTN_DIALECT_ATTNTILE_IR_ATTNTILEATTRS_TD
