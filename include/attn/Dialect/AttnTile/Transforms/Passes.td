//===- Passes.td - Passes on the attn_tile dialect -----------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernel passes.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNTILE_TRANSFORMS_PASSES_TD
#define ATTN_DIALECT_ATTNTILE_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def AttnTileSplitRegionsPass
    : Pass<"attn-tile-split-regions", "::mlir::attn_tile::KernelOp"> {
  let summary = "take out of scalar regions what all elements of a tile share";
  let description = [{
    Splits the regions of `attn_tile.map` and `attn_tile.mask`:

    - A read of `source[..., query, key]`, or of `source[..., query]`, becomes an
      `attn_tile.load` of a tile, or of a vector of rows, and an argument of the
      region of a map.
      With `stream-tiles`, a tile of 16-bit or 32-bit floats whose rows are
      contiguous is a tile of a stream, at the place that the keys have in theirs
      from which the tile of the map is computed, and aligned.
    - The indices of all other reads are bounded by the size of what they read,
      unless their range is known to be within it: a read is never outside,
      whatever the region computes. Positions may go beyond the lengths.
    - What depends on the batch and the head alone moves out of the region, and
      out of the loops around it.
    - Divisions by such values become products, and chains of products one.

    ```mlir
    %r = attn_tile.map %s at(%b, %h, %i, %j) lengths(%sq, %skv)
        : vector<64x64xf32> {
    ^bb0(%x: f32, %bb: index, %hh: index, %q: index, %k: index):
      %y = memref.load %bias[%hh, %q, %k] : memref<8x?x?xf32>
      %z = arith.addf %x, %y : f32
      attn_tile.yield %z : f32
    }
    ```

    becomes

    ```mlir
    %t = attn_tile.load %bias[%h, %i, %j] unaligned
        : memref<8x?x?xf32> -> vector<64x64xf32>
    %r = attn_tile.map %s at(%b, %h, %i, %j) lengths(%sq, %skv)
        with(%t : vector<64x64xf32>) : vector<64x64xf32> {
    ^bb0(%x: f32, %bb: index, %hh: index, %q: index, %k: index, %y: f32):
      %z = arith.addf %x, %y : f32
      attn_tile.yield %z : f32
    }
    ```
  }];
  let options = [
    Option<"loadTiles", "load-tiles", "bool", /*default=*/"true",
           "Load tiles and rows; not in transposed maps">,
    Option<"streamTiles", "stream-tiles", "bool", /*default=*/"false",
           "Make loads of tiles a stream beside that of the keys">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::attn_tile::AttnTileDialect",
                           "::mlir::memref::MemRefDialect"];
  let statistics = [
    Statistic<"numTiles", "num-tiles", "Reads that became loads of tiles or rows">,
    Statistic<"numGuards", "num-guards", "Indices that were bounded">,
    Statistic<"numHoisted", "num-hoisted", "Operations that left their region">,
  ];
}

def AttnTilePackAllocationsPass
    : Pass<"attn-tile-pack-allocations", "::mlir::func::FuncOp"> {
  let summary = "use memory of dead buffers again";
  let description = [{
    Makes buffers of static size that a block allocates and frees parts of one
    allocation, where some are not needed at the same time: from the first
    operation of the block that uses a buffer, or a view of it, to the last one.
    Offsets are found greedily, the largest buffer first (Pisarchyk and Lee 2020,
    "Efficient memory management for deep neural net inference").

    ```mlir
    %a = memref.alloc() : memref<64xf32>
    %b = memref.alloc() : memref<128xbf16>
    attn_tile.launch @first args(%a : memref<64xf32>)
    attn_tile.launch @second args(%b : memref<128xbf16>)
    memref.dealloc %a : memref<64xf32>
    memref.dealloc %b : memref<128xbf16>
    ```
    becomes
    ```mlir
    %c0 = arith.constant 0 : index
    %all = memref.alloc() {alignment = 256 : i64} : memref<256xi8>
    %a = memref.view %all[%c0][] : memref<256xi8> to memref<64xf32>
    %b = memref.view %all[%c0][] : memref<256xi8> to memref<128xbf16>
    attn_tile.launch @first args(%a : memref<64xf32>)
    attn_tile.launch @second args(%b : memref<128xbf16>)
    memref.dealloc %all : memref<256xi8>
    ```
    Kernels of one stream run in order, and those that are launched `early` must
    wait before they do anything, as those of `attn-tile-overlap-launches` do.
    Functions with other streams are left as they are, and
    so are buffers that leave their block. Buffers of dynamic sizes share an
    allocation with those of the same type and sizes, as few as there can be.
  }];
  let statistics = [
    Statistic<"numPacked", "num-packed", "Number of buffers packed">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::memref::MemRefDialect"];
}

def AttnTilePeelMasksPass
    : Pass<"attn-tile-peel-masks", "::mlir::attn_tile::KernelOp"> {
  let summary = "split loops over key tiles so that full tiles carry no mask code";
  let description = [{
    A loop `for t = 0 to count` whose bound is the `count` of an
    `attn_tile.key_tiles` becomes two consecutive loops over `[0, masked)` and
    `[masked, count)`; the masks that `key_tiles` knows, and `attn_tile.keep_pairs`,
    are erased from the second one. The `key_tiles` operation and the `tile_at` of its walk are then expanded
    to index arithmetic, by an analysis of the predicate. A loop whose bounds fold
    to the same value is removed.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
  let statistics = [
    Statistic<"numLoops", "num-loops", "Number of loops over key tiles written">,
  ];
}

def AttnTileExpandKeyTilesPass
    : Pass<"attn-tile-expand-key-tiles", "::mlir::attn_tile::KernelOp"> {
  let summary = "expand key tile ranges to index arithmetic";
  let description = [{
    Replaces each `attn_tile.key_tiles`, and the `tile_at` of its walk, by index
    arithmetic, by an analysis of the predicate, and leaves loops as they are. For kernels whose masks are
    not peeled.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def AttnTileRotateLoopsPass
    : Pass<"attn-tile-rotate-loops", "::mlir::attn_tile::KernelOp"> {
  let summary = "delay the last product of a step into the next step";
  let description = [{
    Software pipelining of a chain of loops over key tiles: the second matrix
    product of step `t - 1` is moved to step `t`, right after the first product
    of step `t`, so that both can be in flight during the softmax. The chain
    gets a prologue (step 0 without its second product) and an epilogue (the
    last second product). Where decisions of dropout are read, weights are cleared
    right before the second product, too, while the first is in flight. With
    `delay-rescale`, so is the multiplication of the accumulator by a factor for
    each row: the loop carries the factors. A chain whose second product reads a
    tile that the rest of its step reads, too, is left alone, since tiles are
    loaded once.
  }];
  let options = [
    Option<"delayRescale", "delay-rescale", "bool", /*default=*/"false",
           "Rescale the accumulator in the next step, too">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect"];
}

def AttnTileLoadAheadPass
    : Pass<"attn-tile-load-ahead", "::mlir::attn_tile::KernelOp"> {
  let summary = "load or compute tiles one step ahead";
  let description = [{
    A loop that loads a tile by itself, not as part of a stream, loads that of
    the next step as soon as the tile of this step has been used. What the loads
    of the last step give is not used; elements outside of a source are not
    read.

    A tile that a product is added to, and that an `attn_tile.map` computes from
    positions alone, is computed at the end of the step before: in the registers
    that the scores of that step leave, while its exponentials are computed.

    With `decisions`, decisions of dropout alone are loaded a step ahead, behind
    the start of the last product of a step, in loops of roles that start
    products. Such a loop is put into a conditional, so that one without steps
    loads none, and its last step loads its own decisions once more: nothing is
    read that belongs to no step.

    ```mlir
    scf.for %t = %c0 to %n step %c1 iter_args(...) {
      %j = arith.muli %t, %c64 : index
      %bias = attn_tile.load %source[%i, %j] : memref<?x?xf32> -> vector<64x64xf32>
      use(%bias)
    }
    ```

    becomes

    ```mlir
    %first = attn_tile.load %source[%i, %c0] : memref<?x?xf32> -> vector<64x64xf32>
    scf.for %t = %c0 to %n step %c1 iter_args(..., %bias = %first) {
      use(%bias)
      %t1 = arith.addi %t, %c1 : index
      %j1 = arith.muli %t1, %c64 : index
      %next = attn_tile.load %source[%i, %j1] : memref<?x?xf32> -> vector<64x64xf32>
      scf.yield ..., %next
    }
    ```
  }];
  let options = [
    Option<"decisions", "decisions", "bool", /*default=*/"false",
           "Load decisions of dropout ahead, and nothing else">,
  ];
  let statistics = [
    Statistic<"numDecisions", "num-decisions",
              "Loads of decisions that are a step ahead">,
    Statistic<"numLoads", "num-loads", "Loads that are a step ahead">,
    Statistic<"numAddends", "num-addends",
              "Tiles that products are added to that are a step ahead">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def AttnTileSetTraversalPass
    : Pass<"attn-tile-set-traversal", "::mlir::ModuleOp"> {
  let summary = "replace the work item loop by a walk of each group";
  let description = [{
    Replaces the `scf.forall` over work items of each kernel, and gives its
    launches a grid. With `kind = grid`, each group runs one item; with
    `kind = persistent`, as many groups as fit on the device walk over all
    items, every other round backwards, and the streams of loads go on from one
    item to the next. With `kind = paired` they walk over pairs of query tiles
    of one head, the first long with the first short one and so on: under a
    causal mask all pairs are the same amount of work, and pairs of one head are
    neighbours, so that groups share keys and values at any length. Where the
    number of pairs is no multiple of the number of groups, the tiles of the
    pairs that are left are dealt out one by one at the end, chosen so that one
    long or a few short ones keep all groups busy for the same time. Tiles in the
    middle of an odd number go to groups that get less of these first.

    Items with more work come first: the last dimension of the loop, the query
    tile, counts down. `interleave` combinations of the other dimensions (batch
    and head) are walked together, tile by tile: 1 walks one head after the
    other, so that groups which run at the same time share keys and values; 0
    walks all together, so that the last items to run are the shortest.

    The sizes of the grid are computed from the operands of the launch, by the
    operations with which the kernel computes the bounds of its loop. A bound
    that the kernel finds out itself, `attn_tile.at_most`, counts with what it
    is at most; groups that then have no item do nothing. Such items are in an
    order already: with `kind = paired`, items `2 * i` and `2 * i + 1` are a
    pair, and there must be an even number of them.

    With `in-order`, items begin in their order: at any time groups work on few
    heads that follow one another. Rounds of items are all walked forwards, pairs
    end with no such tiles, and those in the middle of two heads are a pair
    between those of the heads. Launches of kernels that wait for counts are
    made `together`. With `last-items = n` as well and `kind = paired`, the last
    `n` items may begin in any order, if their number is known when the kernel
    begins: where up to seven eighths of the groups have a pair of the last round,
    the items of the heads that the last two rounds are of are dealt out one by
    one if they are no more than `n`, the longest first, forwards and backwards in
    turn.

    What a step of a walk loads to describe its item is loaded in the step
    before.

    With `cluster = n`, the last dimension of the loop has the size `n` and counts
    the items of a cluster: each group of a cluster has one of them, and clusters
    walk over the other dimensions as groups would do.

    The groups of `attn_tile.beside` walk over its items likewise, one after
    the other. If the groups of the kernel walk over several items, there are as
    many as the longer one of both loops asks for; with `kind = grid` as many as
    the kernel has items, which must be known to be some. If it is `joined`, each
    group has a share of the items, which its warps take one by one. As few idle
    warps take part as are done in time, where `attn_tile.pace` says how long they
    take.
  }];
  let options = [
    Option<"kind", "kind", "::mlir::attn_tile::TraversalKind",
           /*default=*/"::mlir::attn_tile::TraversalKind::Grid",
           "Order in which items are visited",
           [{::llvm::cl::values(
               clEnumValN(::mlir::attn_tile::TraversalKind::Grid, "grid",
                          "one group for each item"),
               clEnumValN(::mlir::attn_tile::TraversalKind::Persistent,
                          "persistent", "a group walks over several items"),
               clEnumValN(::mlir::attn_tile::TraversalKind::Paired, "paired",
                          "a group walks over pairs of items"))}]>,
    Option<"groups", "groups", "int64_t", /*default=*/"1",
           "Groups on a multiprocessor, if they are persistent">,
    Option<"interleave", "interleave", "int64_t", /*default=*/"1",
           "Combinations of batch and head that are walked together (0: all)">,
    Option<"cluster", "cluster", "int64_t", /*default=*/"1",
           "Groups of a cluster">,
    Option<"inOrder", "in-order", "bool", /*default=*/"false",
           "Whether items of a head end before those of much later heads begin">,
    Option<"lastItems", "last-items", "int64_t", /*default=*/"0",
           "Items in order at the end that may begin in any order">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect",
                           "::mlir::memref::MemRefDialect"];
}

def AttnTileCreatePipesPass
    : Pass<"attn-tile-create-pipes", "::mlir::attn_tile::KernelOp"> {
  let summary = "stage the operands of matrix products through pipes";
  let description = [{
    Each tile load of a stream that only feeds `vector.contract` becomes a stage
    of a pipe: `acquire`, `copy` and `commit` where the load was, `wait` before
    the first product, the products as `mma_start` and `mma_wait`, and
    `release`. Loads of the same tile shape from the same source, for the same
    side of products, share a pipe. The right-hand side of a product must be
    staged; the left-hand side may stay in registers unless it is transposed. An
    operand that is computed, but must be staged, is put into workgroup memory by
    `attn_tile.share`, at the position of a tile that is loaded beside it. Rows of
    streams beside the tiles are staged as well, and read by `attn_tile.read`. With
    `score-stages`, so are tiles of streams that `attn_tile.map` alone reads, before
    the wait for the product that it changes.
    With `lhs-registers`, so are left-hand sides of streams of one tile that all their
    products read as they are, neither transposed nor in parts: once, before the steps,
    for products of registers read half as much of workgroup memory in each.
    Tiles that are added to packed ones go through a pipe of one stage, unless they
    are too large for that: then operands that are shared have one stage instead of
    two, too. A product that starts from a zero accumulator gets none.

    Each product starts where it was and is waited for before the first use of
    its result, in the order of the starts; a stage is released after the last
    product that reads it has been waited for. One that threads read is released after
    the first operation that cannot begin before all of it is in registers, which is one
    that hands what is computed of it to a product, to workgroup memory or to other
    threads (a reduction, whose result the release names), or else before the next loop
    or at the end of the block:

    ```mlir
    %k = attn_tile.load %key[%j, %c0] stream(%t of %n)
        : memref<?x64xbf16> -> vector<64x64xbf16>
    %s = vector.contract {...} %q, %k, %zero
    %m = vector.multi_reduction <maxnumf>, %s, %m0 [1]
    ```

    becomes

    ```mlir
    %b0 = attn_tile.acquire %pipe[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
    attn_tile.copy %key[%j, %c0] to %b0
        : memref<?x64xbf16> to !attn_tile.buffer<64x64xbf16>
    attn_tile.commit %b0 : !attn_tile.buffer<64x64xbf16>
    %b1 = attn_tile.wait %pipe[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
    %p = attn_tile.mma_start %q, %b1 transpose_rhs
        : vector<64x64xbf16>, !attn_tile.buffer<64x64xbf16>
        -> !attn_tile.pending<vector<64x64xf32>>
    %s = attn_tile.mma_wait %p : !attn_tile.pending<vector<64x64xf32>>
    attn_tile.release %b1 : !attn_tile.buffer<64x64xbf16>
    %m = vector.multi_reduction <maxnumf>, %s, %m0 [1]
    ```

    In a kernel of clusters, a stream of tiles that all groups of a cluster load at
    the same positions, in the same steps, gets a pipe of the cluster
    (`!attn_tile.pipe<..., cluster = 2>`), if each of them can copy a part of the
    rows.

    A count of additions (`attn_tile.count ... of additions`) comes `after` those
    that go through a pipe, at the position of what is loaded once for each item.

    The loop over work items must have been replaced by a walk before, since
    positions in pipes count over all items of a group.
  }];
  let options = [
    Option<"stages", "stages", "int64_t", /*default=*/"2",
           "Stages of the pipes that are filled in loops">,
    Option<"queryStages", "query-stages", "int64_t", /*default=*/"1",
           "Stages of the pipes that are filled once for each work item, but for "
           "those whose tiles are read to registers at once">,
    Option<"readOnceStages", "read-once-stages", "int64_t", /*default=*/"0",
           "Stages of the pipes that are filled in loops and whose tiles one "
           "product reads each (0 for those of the others)">,
    Option<"maxPackedBytes", "max-packed-bytes", "int64_t", /*default=*/"32768",
           "Bytes of tiles of one step that are added through pipes, at most">,
    Option<"scoreStages", "score-stages", "int64_t", /*default=*/"0",
           "Stages of the pipes of tiles that maps read (0: they have none)">,
    Option<"lhsRegisters", "lhs-registers", "bool", /*default=*/"false",
           "Whether left-hand sides that stay for a whole work item are read to "
           "registers">,
    Option<"shareRows", "share-rows", "bool", /*default=*/"false",
           "Whether rows at different positions of a stream share a pipe, as "
           "tiles do">,
  ];
  let statistics = [
    Statistic<"numPipes", "num-pipes", "Number of pipes created">,
    Statistic<"numProducts", "num-products", "Number of products on stages">,
  ];
  let dependentDialects = ["::mlir::attn_tile::AttnTileDialect"];
}

def AttnTilePrefetchPass
    : Pass<"attn-tile-prefetch", "::mlir::attn_tile::KernelOp"> {
  let summary = "fill pipes some steps ahead in a kernel without roles";
  let description = [{
    A step of a chain of loops that fills position `t` of a pipe with `s` stages
    fills position `t + s - 1` instead, if there is one, and the first `s - 1`
    positions are filled before the chain:

    ```mlir
    scf.for %t = %c0 to %n step %c1 {
      %b = attn_tile.acquire %pipe[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
      ...
    }
    ```

    becomes

    ```mlir
    %any = arith.cmpi slt, %c0, %n : index
    scf.if %any {
      %b = attn_tile.acquire %pipe[%c0] : !attn_tile.pipe<64x64xbf16, stages = 2>
      ...
    }
    scf.for %t = %c0 to %n step %c1 {
      %next = arith.addi %t, %c1 : index
      %more = arith.cmpi slt, %next, %n : index
      scf.if %more {
        %b = attn_tile.acquire %pipe[%next] : !attn_tile.pipe<64x64xbf16, stages = 2>
        ...
      }
      ...
    }
    ```

    Where the loops of a chain fill their stages in different ways, a step that
    fills one for a later loop does so as that loop does.

    Positions must advance by one from step to step. A chain is left alone if
    its pipes have a single stage, or if what fills a stage depends on more than
    the number of the step.
  }];
  let statistics = [
    Statistic<"numChains", "num-chains", "Number of chains of loops changed">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::attn_tile::AttnTileDialect",
                           "::mlir::scf::SCFDialect"];
}

def AttnTileSetLayoutPass
    : Pass<"attn-tile-set-layout", "::mlir::attn_tile::KernelOp"> {
  let summary = "spread register tiles over the warps of a group";
  let description = [{
    Sets `layout` of a kernel without roles to row blocks over `warps` warps.
  }];
  let options = [
    Option<"warps", "warps", "int64_t", /*default=*/"4",
           "Warps of the group">,
  ];
}

def AttnTileSplitRolesPass
    : Pass<"attn-tile-split-roles", "::mlir::attn_tile::KernelOp"> {
  let summary = "split a kernel into a producer and a consumer role";
  let description = [{
    The producer, one warpgroup, gets what acquires, fills and commits pipes,
    with the control flow and the index arithmetic which that needs; loops carry
    only what the producer uses. The consumer role keeps everything else.
    Pipes, and scalars computed from the arguments of the kernel before anything
    else happens, stay outside of both.

    Idle warps of the producer's warpgroup get, in `attn_tile.beside` with the same
    control flow, additions that have turns (`attn_tile.add_in_turn`; consumers
    `attn_tile.publish` what they have packed), and one of them counts after
    additions (consumers `attn_tile.complete` them).

    Registers are shared out as the consumers need them (24 and 240 for each
    thread of producer and consumers; 56 and 240 with one consumer, 24 and 160
    with three; 40 and 232, or 32 and 160 with three, in kernels of clusters, and where
    a step fills more than four stages or tiles are looked up in memory in nested
    loops; as many for the producer as `attn_tile.beside` asks for, and what they
    leave for consumers, where its idle warps run that; consumers have fewer where several groups share a
    multiprocessor), and `layout` of the kernel is set to row
    blocks over the warps of the consumers.
  }];
  let options = [
    Option<"consumers", "consumers", "int64_t", /*default=*/"2",
           "Consumer warpgroups">,
    Option<"groups", "groups", "int64_t", /*default=*/"1",
           "Groups that share the registers of a multiprocessor">,
  ];
  let dependentDialects = ["::mlir::attn_tile::AttnTileDialect"];
}

def AttnTilePipelineStepsPass
    : Pass<"attn-tile-pipeline-steps", "::mlir::attn_tile::KernelOp"> {
  let summary = "begin the next step of a gradient early";
  let description = [{
    Software pipelining of loops whose steps begin with two products that need
    nothing of the step: scores and gradients of weights. Those of the next step
    are started between the products of this one, and the exponentials of its
    scores are computed while they are in flight:

    | in flight, oldest first | meanwhile |
    |---|---|
    | product of the weights of `t` | gradients of the scores of `t`, `attn_tile.share` |
    | sums of `t`, scores of `t + 1`, own product of `t` | `attn_tile.pack` of the sums |
    | own product of `t`, gradients of weights of `t + 1` | exponentials of `t + 1` |

    A product whose left-hand side is in registers holds up its warp until those
    before it are done, so it comes last of those that are started together. Where
    that of the gradients of weights is, rows that gradients of scores alone read are
    waited for directly behind the next exponentials: assemblers move none of these
    across a wait for a stage, so they stay before the wait for the own product. The
    loop carries the gradients of weights in flight; they are waited for before
    anything else. A step of several tiles of queries is pipelined from tile to
    tile. Sums that are added from registers leave none for the next scores, which
    start after them. The loop gets a prologue and an epilogue and runs only if there
    is a step.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def AttnTileChainProductsPass
    : Pass<"attn-tile-chain-products", "::mlir::attn_tile::KernelOp"> {
  let summary = "keep a sum of products in flight";
  let description = [{
    Of a loop whose steps add one product to what the loop carries, the product
    of the next step is started while this one is in flight: the loop carries
    it, with the stages that it reads. These are released when the next
    product has been started and this one is done.

    ```mlir
    %r:3 = scf.for %t = %c1 to %n step %c1 iter_args(%p = %p0, %a0 = ..., %b0 = ...) {
      %a = attn_tile.wait %as[%t] ; %b = attn_tile.wait %bs[%t]
      %q = attn_tile.mma_start %a, %b acc %p : ... in_flight
      attn_tile.mma_wait_before %q
      attn_tile.release %b0 ; attn_tile.release %a0
      scf.yield %q, %a, %b
    }
    %sum = attn_tile.mma_wait %r#0
    ```

    A loop that may have no step is left alone.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def AttnTileStageStoresPass
    : Pass<"attn-tile-stage-stores", "::mlir::attn_tile::KernelOp"> {
  let summary = "store tiles through workgroup memory";
  let description = [{
    Stores of tiles of 16-bit values, 64 rows for each of the `consumers`
    warpgroups and whole blocks of 64 columns wide, become
    `attn_tile.store_through` with `stages` blocks for each warpgroup. Other
    stores stay as they are.
  }];
  let options = [
    Option<"stages", "stages", "int64_t", /*default=*/"2",
           "Blocks of each warpgroup">,
    Option<"consumers", "consumers", "int64_t", /*default=*/"2",
           "Warpgroups that share a tile">,
  ];
  let statistics = [
    Statistic<"numStores", "num-stores", "Stores that go through workgroup memory">,
  ];
  let dependentDialects = ["::mlir::attn_tile::AttnTileDialect"];
}

def AttnTileStartItemsPass
    : Pass<"attn-tile-start-items", "::mlir::attn_tile::KernelOp"> {
  let summary = "start the first product of a work item at once";
  let description = [{
    The number of a work item becomes indices by divisions, and bounds of loops
    by more arithmetic, which takes as long as a product. The first product of an
    item needs none of it, only its positions in pipes: in the loops of consumers over
    work items, the waits for its stages and its start are moved to the beginning.

    ```mlir
    scf.for %item = %c0 to %n step %c1 iter_args(%i = %c0, %t = %c0) -> (index, index) {
      %h = arith.remui %item, %heads : index
      %q = attn_tile.wait %qs[%i] : !attn_tile.pipe<128x128xbf16, stages = 2>
      %k = attn_tile.wait %ks[%t] : !attn_tile.pipe<128x128xbf16, stages = 2>
      %s = attn_tile.mma_start %q, %k transpose_rhs : ...
    ```

    becomes

    ```mlir
    scf.for %item = %c0 to %n step %c1 iter_args(%i = %c0, %t = %c0) -> (index, index) {
      %q = attn_tile.wait %qs[%i] : !attn_tile.pipe<128x128xbf16, stages = 2>
      %k = attn_tile.wait %ks[%t] : !attn_tile.pipe<128x128xbf16, stages = 2>
      %s = attn_tile.mma_start %q, %k transpose_rhs : ...
      %h = arith.remui %item, %heads : index
    ```
  }];
  let statistics = [
    Statistic<"numItems", "num-items", "Loops over work items changed">,
  ];
}

def AttnTileFindItemsAheadPass
    : Pass<"attn-tile-find-items-ahead", "::mlir::attn_tile::KernelOp"> {
  let summary = "find the next work item where the steps of this one end";
  let description = [{
    The number of a work item becomes indices by divisions, and bounds of loops
    by more arithmetic. Where the first product of an item depends on them, as it
    does on whether the item has steps, tensor cores wait for that. So the loops
    of consumers over work items carry what is found of the next item: it is
    computed behind the steps of this one, beside the stores of its results.
    There may be no next item, nor a first one: divisors that may be zero then
    are one instead.

    ```mlir
    scf.for %item = %c0 to %n step %c1 {
      %h = arith.divui %item, %tiles : index
      %r = scf.if ... { ... } else { ... }
      attn_tile.store %r, %out[%h, ...] : ...
    }
    ```

    becomes

    ```mlir
    %d = arith.maxui %tiles, %c1 : index
    %h0 = arith.divui %c0, %d : index
    scf.for %item = %c0 to %n step %c1 iter_args(%h = %h0) -> (index) {
      %r = scf.if ... { ... } else { ... }
      %next = arith.addi %item, %c1 : index
      %h1 = arith.divui %next, %tiles : index
      attn_tile.store %r, %out[%h, ...] : ...
      scf.yield %h1 : index
    }
    ```
  }];
  let statistics = [
    Statistic<"numLoops", "num-loops", "Loops over work items changed">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def AttnTileReadLatePass
    : Pass<"attn-tile-read-late", "::mlir::attn_tile::KernelOp"> {
  let summary = "read what stays in registers behind the first product";
  let description = [{
    A tile that a work item keeps in registers (`lhs_registers`) is waited for
    and read before the branch in which the item has steps, and its stage
    released behind it. The first product of the item need not wait for the read,
    nor the next item's tile for the end of this one: the wait, what clears rows
    of the stage, and the read move to the first product that takes the tile, and
    the stage is released when that has been started. Where there are no steps,
    the stage is waited for and released unread.

    All who take the tile must be in the first region of one branch that has a
    second one, a product first, and nobody else may read the stage.

    ```mlir
    %stage = attn_tile.wait %vs[%item] : !attn_tile.pipe<128x64xbf16, stages = 1>
    %v = attn_tile.read %stage : !attn_tile.buffer<128x64xbf16> -> vector<128x64xbf16>
    %r = scf.if %any -> ... {
      %s = attn_tile.mma_start %k, %q transpose_rhs : ...
      %dp = attn_tile.mma_start %v, %do transpose_rhs : ...
      ...
    } else { ... }
    attn_tile.release %stage : !attn_tile.buffer<128x64xbf16>
    ```

    becomes

    ```mlir
    %r = scf.if %any -> ... {
      %s = attn_tile.mma_start %k, %q transpose_rhs : ...
      %stage = attn_tile.wait %vs[%item] : !attn_tile.pipe<128x64xbf16, stages = 1>
      %v = attn_tile.read %stage : !attn_tile.buffer<128x64xbf16> -> vector<128x64xbf16>
      %dp = attn_tile.mma_start %v, %do transpose_rhs : ...
      attn_tile.release %stage : !attn_tile.buffer<128x64xbf16>
      ...
    } else {
      %unread = attn_tile.wait %vs[%item] : !attn_tile.pipe<128x64xbf16, stages = 1>
      attn_tile.release %unread : !attn_tile.buffer<128x64xbf16>
      ...
    }
    ```
  }];
  let statistics = [
    Statistic<"numReads", "num-reads", "Tiles read later">,
  ];
}

def AttnTileSkipRescalePass
    : Pass<"attn-tile-skip-rescale", "::mlir::attn_tile::KernelOp"> {
  let summary = "allow factors of one to be skipped when products are rescaled";
  let description = [{
    The online softmax multiplies the accumulator of the output by a factor for
    each row, which is one in most steps. Where the result of a product is
    multiplied by a vector broadcast along columns, the multiplication becomes
    `attn_tile.rescale`, which may be skipped.
  }];
  let statistics = [
    Statistic<"numRescales", "num-rescales", "Multiplications that may be skipped">,
  ];
  let dependentDialects = ["::mlir::attn_tile::AttnTileDialect"];
}

def AttnTileMixExponentialsPass
    : Pass<"attn-tile-mix-exponentials", "::mlir::attn_tile::KernelOp"> {
  let summary = "compute some of the exponentials of scores by polynomials";
  let description = [{
    A special function takes a quarter of the rate, or less, at which a GPU
    multiplies and adds. Where exponentials of tiles are what a kernel waits for,
    some of them are computed with multiplications and additions beside the
    others (FlashAttention-4, Zadouri et al. 2026): `math.exp2` of a tile becomes
    `attn_tile.mixed_exp2`.
  }];
  let options = [
    Option<"sixteenths", "sixteenths", "int64_t", "4",
           "Of 16 exponentials, how many are polynomials: 1 to 16">,
  ];
  let statistics = [
    Statistic<"numMixed", "num-mixed", "Operations on tiles that were mixed">,
  ];
  let dependentDialects = ["::mlir::attn_tile::AttnTileDialect"];
}

def AttnTilePingPongPass
    : Pass<"attn-tile-ping-pong", "::mlir::attn_tile::KernelOp"> {
  let summary = "let consumer warpgroups take turns in starting products";
  let description = [{
    Brackets the products that a consumer starts in each step with `await_turn`
    and `pass_turn`, so that one warpgroup's products run during the other's
    softmax (FlashAttention-3, Shah et al. 2024, section 3.1). Each run of
    products that are started with no wait for a product between them is one
    turn. A kernel whose consumer role has a single warpgroup is left alone.
  }];
  let dependentDialects = ["::mlir::attn_tile::AttnTileDialect"];
}

def AttnTileGatherAllocationsPass
    : Pass<"attn-tile-gather-allocations", "::mlir::func::FuncOp"> {
  let summary = "allocate before the first launch";
  let description = [{
    Moves allocations before the first launch of their block, or the first one
    since a buffer was freed, with what their sizes are computed from, unless that
    reads memory. Nothing stands between
    launches then that the stream has to do besides, a kernel can be launched
    `early` right behind another one, and a function that runs out of memory does
    so before it has begun.

    ```mlir
    attn_tile.launch @first args(%m : memref<?xf32>)
    %a = memref.alloc(%n) : memref<?xf32>
    attn_tile.launch @second args(%a : memref<?xf32>)
    ```
    becomes
    ```mlir
    %a = memref.alloc(%n) : memref<?xf32>
    attn_tile.launch @first args(%m : memref<?xf32>)
    attn_tile.launch @second args(%a : memref<?xf32>)
    ```
  }];
  let statistics = [
    Statistic<"numMoved", "num-moved", "Number of allocations moved">,
  ];
}

def AttnTileOverlapLaunchesPass
    : Pass<"attn-tile-overlap-launches", "::mlir::ModuleOp"> {
  let summary = "start small kernels while those before them run";
  let description = [{
    A kernel on scalars alone takes about as long to start as to run. Where one
    is launched right behind a kernel of tiles, it is launched `early`, waits for
    that one before it does anything, and the other one lets it begin as soon as
    all of its groups have begun.

    ```mlir
    attn_tile.kernel @parts(...) { ... }
    attn_tile.kernel @merge(...) { ... }
    attn_tile.launch @parts args(...)
    attn_tile.launch @merge args(...)
    ```
    becomes
    ```mlir
    attn_tile.kernel @parts(...) {
      attn_tile.allow_launches
      ...
    }
    attn_tile.kernel @merge(...) {
      attn_tile.await_launches
      ...
    }
    attn_tile.launch @parts args(...)
    attn_tile.launch @merge early args(...)
    ```
    Kernels are those that `attn-apply-schedules` leaves.
  }];
  let statistics = [
    Statistic<"numEarly", "num-early", "Number of launches made early">,
  ];
  let dependentDialects = ["::mlir::attn_tile::AttnTileDialect"];
}

def AttnTileUseTensorMapsPass
    : Pass<"attn-tile-use-tensor-maps", "::mlir::ModuleOp"> {
  let summary = "make copies to stages use tensor maps";
  let description = [{
    Copies from a memref that is an argument of the kernel, and stores through
    workgroup memory to one, are made with a tensor map instead, which becomes a further argument and is made beside each
    launch. Its box has the rows of the buffer and 128 bytes of columns; wider
    buffers take several boxes. A memref that is copied to buffers of different
    heights gets several maps. Memrefs that are used for nothing else are no
    longer passed to the kernel.
  }];
  let options = [
    Option<"l2Promotion", "l2-promotion", "int64_t", /*default=*/"256",
           "Bytes that are fetched to the second level cache at once: 0, 64, "
           "128 or 256">,
  ];
  let statistics = [
    Statistic<"numMaps", "num-maps", "Number of tensor maps made">,
  ];
  let dependentDialects = ["::mlir::attn_tile::AttnTileDialect"];
}

#endif // ATTN_DIALECT_ATTNTILE_TRANSFORMS_PASSES_TD
