//===- Passes.td - Passes on the attn_tile dialect --------*- tablegen -*--===//
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

include "attn/Support/PassBase.td"

def AttnTileSplitRegionsPass
    : Attn_Pass<"attn-tile-split-regions", "::mlir::attn_tile::KernelOp"> {
  let summary = "hoist uniform computation and loads out of scalar regions";
  let description = [{
    Splits the regions of `attn_tile.map` and `attn_tile.mask`:

    - A read of `source[..., query, key]`, or of `source[..., query]`, becomes
      an `attn_tile.load` of a tile, or of a vector with one element per row.
      The region of a map gets its elements as a further argument. With
      `stream-tiles`, a tile of 16-bit or 32-bit floats with contiguous rows
      becomes an aligned tile of a stream. It has the position of the kv tile
      from which the map's tile is computed.
    - The indices of all other reads are clamped to the size of their source,
      unless their range is known to be within it. So no read is out of bounds,
      even at positions beyond the lengths.
    - Computation that depends on the batch and the head alone moves out of the
      region, and out of the loops around it.
    - Divisions by such values become multiplications by the reciprocal. Chains
      of multiplications by such values become one multiplication.

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
           "Load tiles and row vectors; not in transposed maps">,
    Option<"streamTiles", "stream-tiles", "bool", /*default=*/"false",
           "Make loads of tiles a stream at the positions of the key stream">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::attn_tile::AttnTileDialect",
                           "::mlir::memref::MemRefDialect"];
  let statistics = [
    Statistic<"numTiles", "num-tiles", "Reads that became loads of tiles or rows">,
    Statistic<"numGuards", "num-guards", "Indices that were clamped">,
    Statistic<"numHoisted", "num-hoisted", "Operations that left their region">,
  ];
}

def AttnTilePackAllocationsPass
    : Attn_Pass<"attn-tile-pack-allocations", "::mlir::func::FuncOp"> {
  let summary = "reuse the memory of dead buffers";
  let description = [{
    Packs buffers of static size that a block allocates and frees into one
    allocation, where their lifetimes allow. A lifetime is from the first to the
    last operation of the block that uses the buffer or a view of it. Offsets
    are found greedily, the largest buffer first (Pisarchyk and Lee 2020,
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

    Kernels of one stream run in order. A kernel that is launched `early` must
    wait before it does anything else, as `attn-tile-overlap-launches` makes it.
    Functions with other streams, and buffers that leave their block, stay as
    they are. Buffers of dynamic size share an allocation with buffers of the
    same type and sizes, in as few allocations as possible.
  }];
  let statistics = [
    Statistic<"numPacked", "num-packed", "Number of buffers packed">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::memref::MemRefDialect"];
}

def AttnTilePeelMasksPass
    : Attn_Pass<"attn-tile-peel-masks", "::mlir::attn_tile::KernelOp"> {
  let summary = "split loops over kv tiles so that full tiles carry no mask code";
  let description = [{
    A loop `for t = 0 to count` whose bound is the `count` of an
    `attn_tile.kv_tile_iterator` becomes two consecutive loops, over
    `[0, masked)` and `[masked, count)`. In the second loop, the masks that the
    iterator accounts for and `attn_tile.apply_mask_bits` are erased. Then the
    iterator and its `attn_tile.kv_tile_at` operations are expanded to index
    arithmetic, by an analysis of the mask. A loop whose bounds fold to the same
    value is removed.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
  let statistics = [
    Statistic<"numLoops", "num-loops", "Number of loops over kv tiles written">,
  ];
}

def AttnTileExpandKVTileIteratorsPass
    : Attn_Pass<"attn-tile-expand-kv-tile-iterators", "::mlir::attn_tile::KernelOp"> {
  let summary = "expand kv tile iterators to index arithmetic";
  let description = [{
    Replaces each `attn_tile.kv_tile_iterator` and its `attn_tile.kv_tile_at`
    operations by index arithmetic, by an analysis of the mask. Loops stay as
    they are. For kernels whose masks are not peeled.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def AttnTileSoftwarePipelineKVLoopPass
    : Attn_Pass<"attn-tile-software-pipeline-kv-loop", "::mlir::attn_tile::KernelOp"> {
  let summary = "delay the PV matmul of an iteration into the next iteration";
  let description = [{
    Software pipelining of a chain of loops over kv tiles. The PV matmul of
    iteration `t - 1` moves to iteration `t`, right after the QK matmul of
    iteration `t`, so that both can be in flight during the softmax. The chain
    gets a prologue (iteration 0 without its PV matmul) and an epilogue (the
    last PV matmul).

    Where dropout keep masks are read, attention probabilities are dropped right
    before the delayed PV matmul, while the QK matmul is in flight. With
    `deferred-rescale`, the accumulator is rescaled there, too: the loop carries
    the factors of the rows. A chain stays as it is if the PV matmul reads a
    tile that the rest of its iteration also reads, since tiles are loaded once.
  }];
  let options = [
    Option<"deferredRescale", "deferred-rescale", "bool", /*default=*/"false",
           "Rescale the accumulator in the next iteration, too">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect"];
}

def AttnTileHoistLoadsPass
    : Attn_Pass<"attn-tile-hoist-loads", "::mlir::attn_tile::KernelOp"> {
  let summary = "load or compute tiles one iteration ahead";
  let description = [{
    A loop that loads a tile to registers, not as part of a stream, loads the
    tile of the next iteration as soon as the tile of this iteration has been
    used. The tile loaded by the last iteration is not used; elements outside of
    a source are not read.

    A tile that is the accumulator input of a matmul, and that an
    `attn_tile.map` computes from positions alone, is computed at the end of the
    previous iteration: in the registers that its scores free, while its
    exponentials are computed.

    With `keep-mask`, only dropout keep masks are loaded one iteration ahead, in
    role loops that start MMAs. The load is behind the start of the last MMA of
    an iteration. The loop is put into a conditional, so that a loop without
    iterations loads no keep mask. The last iteration loads its own keep mask
    once more, so that nothing out of bounds is read.

    With `rows`, only row values and scalars (`memref.load`) are loaded one
    iteration ahead, where an iteration begins, in loops that multiply tiles. They
    take few registers, and an iteration would wait for them. The last iteration
    loads its own once more. A conditional before the loop loads nothing if it has no
    iterations.

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
    Option<"keepMask", "keep-mask", "bool", /*default=*/"false",
           "Load dropout keep masks ahead, and nothing else">,
    Option<"rows", "rows", "bool", /*default=*/"false",
           "Load row values and scalars ahead, and nothing else">,
  ];
  let statistics = [
    Statistic<"numKeepMasks", "num-keep-masks",
              "Loads of keep masks one iteration ahead">,
    Statistic<"numLoads", "num-loads",
              "Loads of tiles, or of row values and scalars, one iteration ahead">,
    Statistic<"numAddends", "num-addends",
              "Accumulator inputs of matmuls computed one iteration ahead">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def AttnTileSetTraversalPass
    : Attn_Pass<"attn-tile-set-traversal", "::mlir::ModuleOp"> {
  let summary = "replace the loop over all work items by the work items of each CTA";
  let description = [{
    Replaces the `scf.forall` over the work items of each kernel, and gives its
    launches a grid:

    - `kind = grid`: one CTA per work item.
    - `kind = persistent`: as many CTAs as fit on the device iterate over all
      work items, every other wave backwards. The streams of loads go on from
      one work item to the next.
    - `kind = paired`: persistent CTAs iterate over pairs of query tiles of one
      head, the longest with the shortest and so on. Under a causal mask all
      pairs take the same time. Pairs of one head are neighbours, so CTAs that
      run at the same time read the same keys and values.

    If the number of pairs is no multiple of the number of CTAs, the query tiles
    of the last partial wave are distributed one by one: a long one or a few
    short ones to each CTA, so that all CTAs are busy for the same time. If
    heads have an odd number of query tiles, their middle tiles go first to CTAs
    that get less of the last wave.

    Long work items come first: the last dimension of the loop, the query tile,
    counts down. `interleave = n` visits `n` combinations of the other
    dimensions (batch and head) together, tile by tile. With 1, heads follow one
    another, so concurrent CTAs read the same keys and values. With 0, all heads
    advance together, so the last work items are the shortest.

    The grid is computed from the operands of the launch, by the operations that
    compute the loop bounds in the kernel. A bound that is an
    `attn_tile.assume_upper_bound` counts as its upper bound, and CTAs without a
    work item do nothing. Work items with such a bound are already ordered: with
    `kind = paired`, work items `2 * i` and `2 * i + 1` are a pair, and their
    number must be even.

    With `in-order`, work items begin in their order, so that at any time CTAs
    process few consecutive heads. All waves are forwards, and the last partial
    wave is not split. The middle tiles of two heads are a pair between the
    pairs of these heads. Launches of kernels that wait for semaphores become
    `together`. With `kind = paired` and `last-work-items = n`, the last `n`
    work items may begin in any order; their number must be known when the
    kernel begins. The work items of the heads of the last two waves are then
    distributed one by one, if they are at most `n` and the last wave gives a
    pair to at most seven eighths of the CTAs. The longest come first, in
    alternating directions over the CTAs.

    The loads that describe a work item are issued one work item ahead.

    With `cluster = n`, the last dimension of the loop has size `n` and counts
    the work items of a cluster. Each CTA of a cluster has one of them, and
    clusters are distributed over the other dimensions as CTAs would be.

    The auxiliary warps of `attn_tile.auxiliary_warps` iterate over its work
    items likewise, one after another. If the traversal is persistent or paired,
    the grid is sized for the longer of both loops. With `kind = grid` it has
    one CTA per work item of the main loop, which must be known to have some.
    With `joined`, each CTA has a part of the auxiliary work items, which its
    warps take one by one. `attn_tile.throughput_hint` limits the idle warps to
    as few as finish with the main loop.
  }];
  let options = [
    Option<"kind", "kind", "::mlir::attn_tile::TraversalKind",
           /*default=*/"::mlir::attn_tile::TraversalKind::Grid",
           "Order in which work items are visited",
           [{::llvm::cl::values(
               clEnumValN(::mlir::attn_tile::TraversalKind::Grid, "grid",
                          "one CTA per work item"),
               clEnumValN(::mlir::attn_tile::TraversalKind::Persistent,
                          "persistent", "a CTA iterates over several work items"),
               clEnumValN(::mlir::attn_tile::TraversalKind::Paired, "paired",
                          "a CTA iterates over pairs of work items"))}]>,
    Option<"ctasPerSm", "ctas-per-sm", "int64_t", /*default=*/"1",
           "CTAs per SM, if they are persistent">,
    Option<"interleave", "interleave", "int64_t", /*default=*/"1",
           "Combinations of batch and head that advance together (0: all)">,
    Option<"cluster", "cluster", "int64_t", /*default=*/"1",
           "CTAs of a cluster">,
    Option<"inOrder", "in-order", "bool", /*default=*/"false",
           "Begin work items in order, so that CTAs process few consecutive heads">,
    Option<"lastWorkItems", "last-work-items", "int64_t", /*default=*/"0",
           "Work items at the end of an in-order traversal that may begin in any order">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect",
                           "::mlir::memref::MemRefDialect"];
}

def AttnTileCreatePipesPass
    : Attn_Pass<"attn-tile-create-pipes", "::mlir::attn_tile::KernelOp"> {
  let summary = "stage the operands of matmuls through pipes";
  let description = [{
    Each tile load of a stream that only feeds `vector.contract` becomes a stage
    of a pipe: `acquire`, `copy` and `commit` where the load was, `wait` before
    the first matmul, and `release`. The matmuls become `mma_start` and
    `mma_wait`. Loads of the same tile shape from the same source, for the same
    side of matmuls, use the same pipe.

    - The right-hand side of a matmul must be staged. The left-hand side may
      stay in registers unless it is transposed. A computed operand that must be
      staged is stored by `attn_tile.local_store`, at the position of a tile
      that the same iteration loads.
    - Rows of streams at the same positions as the tiles are staged as well, and
      read by `attn_tile.read`.
    - With `score-stages`, tiles of streams that only `attn_tile.map` reads are
      staged and read before the wait for the matmul whose result the map
      changes.
    - With `lhs-registers`, tiles that a work item loads once, and that are
      untransposed whole left-hand sides of all their matmuls, are read to
      registers once before the loop. MMAs with a left-hand side in registers
      read half as much shared memory.
    - With `read-operands`, `arith.extf` may have a tile that matmuls read as its
      operand, too. Threads then read it from the same stage. Matmuls of computed
      operands are started as well. With one `local-stage`, matmuls of an inner
      loop store their operands at the position of the tiles around it.
    - `attn_tile.invert_triangular` gets a pipe of one stage.
    - Operands of `attn_tile.local_store` have `local-stages` stages.
    - Tiles that are added to tiles in fragment order go through a pipe of one
      stage. If they are too large for that, they are added from registers, and
      operands of `attn_tile.local_store` have one stage.
    - A matmul that starts from a zero accumulator gets no accumulator.
    - A right-hand side of 8 bits that `arith.extf` widens is converted by
      `attn_tile.local_convert`, or with `idle-warps-convert` by
      `attn_tile.convert`, which fills a pipe.

    Each MMA starts where the matmul was. It is waited for before the first use
    of its result, in the order of the starts. A stage is released after the
    wait for the last MMA that reads it. A stage that threads read is released
    after the first operation that cannot begin before all of it is in
    registers. Such an operation passes a value computed from it to an MMA, to
    shared memory or to other threads (a reduction, whose result the release
    names). Without one, the stage is released before the next loop or at the
    end of the block:

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

    In a kernel with clusters, all CTAs of a cluster may load a stream of tiles
    at the same positions in the same iterations. The stream then gets a pipe of
    the cluster (`!attn_tile.pipe<..., cluster = 2>`), if each CTA can copy a
    part of the rows.

    An `attn_tile.semaphore_add ... of additions` gets `after` with the pipe of
    the additions, at the position of a tile that is loaded once per work item.

    A traversal must have replaced the loop over work items, since positions in
    pipes count over all work items of a CTA.
  }];
  let options = [
    Option<"stages", "stages", "int64_t", /*default=*/"2",
           "Stages of the pipes that are filled in loops">,
    Option<"queryStages", "query-stages", "int64_t", /*default=*/"1",
           "Stages of the pipes that are filled once for each work item, except "
           "pipes whose tiles are read to registers at once">,
    Option<"readOnceStages", "read-once-stages", "int64_t", /*default=*/"0",
           "Stages of the pipes that are filled in loops and whose tiles only "
           "one matmul reads (0: as `stages`)">,
    Option<"maxFragmentBytes", "max-fragment-bytes", "int64_t", /*default=*/"32768",
           "Upper limit in bytes of the tiles of one iteration that are added through pipes">,
    Option<"localStages", "local-stages", "int64_t", /*default=*/"2",
           "Stages of the pipes of operands that are computed: 2, or 1, with which all "
           "warps wait for each other before a tile is stored">,
    Option<"scoreStages", "score-stages", "int64_t", /*default=*/"0",
           "Stages of the pipes of tiles that maps read (0: no pipes)">,
    Option<"lhsRegisters", "lhs-registers", "bool", /*default=*/"false",
           "Whether left-hand sides that are loaded once per work item are read "
           "to registers">,
    Option<"readOperands", "read-operands", "bool", /*default=*/"false",
           "Whether threads may read tiles of matmuls from the same stages">,
    Option<"shareRows", "share-rows", "bool", /*default=*/"false",
           "Whether rows at different positions of a stream use the same pipe, "
           "as tiles do">,
    Option<"idleWarpsConvert", "idle-warps-convert", "bool", /*default=*/"false",
           "Whether the conversion of tiles of 8 bits fills pipes, by the warps that the "
           "producer will leave idle">,
  ];
  let statistics = [
    Statistic<"numPipes", "num-pipes", "Number of pipes created">,
    Statistic<"numMmas", "num-mmas", "Number of MMAs that read stages">,
  ];
  let dependentDialects = ["::mlir::attn_tile::AttnTileDialect"];
}

def AttnTilePrefetchPass
    : Attn_Pass<"attn-tile-prefetch", "::mlir::attn_tile::KernelOp"> {
  let summary = "fill pipes some iterations ahead in a kernel without roles";
  let description = [{
    An iteration of a chain of loops that fills position `t` of a pipe with `s`
    stages fills position `t + s - 1` instead, if there is one. The first
    `s - 1` positions are filled before the chain:

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

    Where the loops of a chain fill their stages in different ways, an iteration
    that fills a stage for a later loop does so as that loop does.

    With `refill`, the stage of a pipe that has no other one is filled for the next
    iteration where the iteration releases it, if it does so once and not in a region of
    its own: copies overlap what comes behind.

    Positions must advance by one per iteration. A chain stays as it is if its
    pipes have a single stage that is not refilled, or if filling a stage depends on more
    than the index of the iteration.
  }];
  let options = [
    Option<"refill", "refill", "bool", "false",
           "Fill single stages for the next iteration where they are released">,
  ];
  let statistics = [
    Statistic<"numChains", "num-chains", "Number of chains of loops changed">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::attn_tile::AttnTileDialect",
                           "::mlir::scf::SCFDialect"];
}

def AttnTileSetLayoutPass
    : Attn_Pass<"attn-tile-set-layout", "::mlir::attn_tile::KernelOp"> {
  let summary = "spread register tiles over the warps of a CTA";
  let description = [{
    Sets `layout` of a kernel without roles to row blocks over `warps` warps.
  }];
  let options = [
    Option<"warps", "warps", "int64_t", /*default=*/"4",
           "Warps of the CTA">,
  ];
}

def AttnTileSplitRolesPass
    : Attn_Pass<"attn-tile-split-roles", "::mlir::attn_tile::KernelOp"> {
  let summary = "split a kernel into a producer and a consumer role";
  let description = [{
    The producer, one warpgroup, gets the operations that acquire, fill and
    commit pipes, with the control flow and index arithmetic that they need. Its
    loops carry only values that it uses. The consumer role keeps everything
    else. Pipes, and scalars computed from the kernel arguments before any side
    effect, stay outside of both roles.

    Ordered additions move to the idle warps of the producer's warpgroup, as
    `attn_tile.ordered_reduce_add` in `attn_tile.auxiliary_warps` with the same
    control flow; consumers `attn_tile.commit_fragments` their staged tiles. An
    `attn_tile.semaphore_add` after additions moves to one idle warp; consumers
    execute `attn_tile.semaphore_release`.

    `attn_tile.convert` moves to the idle warps, with the `wait` and the `release`
    of the stages that it reads.

    Registers per thread depend on the number of consumers and on the producer:

    | consumer warpgroups | producer | consumers | large producer | consumers |
    |---|---|---|---|---|
    | 1 | 56 | 240 | 56 | 240 |
    | 2 | 24 | 240 | 40 | 232 |
    | 3 | 24 | 160 | 32 | 160 |

    A producer is large in kernels with clusters, where an iteration fills more
    than four stages, and where nested loops look tiles up in memory.
    `attn_tile.auxiliary_warps` may ask for more producer registers, and
    conversions ask for 72; consumers get the rest. Consumers get fewer where
    several CTAs share an SM. `layout` of the kernel becomes row blocks over the
    consumer warps, with `consumer-columns` over the warps of one consumer.
  }];
  let options = [
    Option<"consumers", "consumers", "int64_t", /*default=*/"2",
           "Consumer warpgroups">,
    Option<"ctasPerSm", "ctas-per-sm", "int64_t", /*default=*/"1",
           "CTAs that share the registers of an SM">,
    Option<"consumerColumns", "consumer-columns", "bool", /*default=*/"false",
           "Each consumer holds all rows of tiles, and computes different columns">,
  ];
  let dependentDialects = ["::mlir::attn_tile::AttnTileDialect"];
}

def AttnTilePipelineStepsPass
    : Attn_Pass<"attn-tile-pipeline-steps", "::mlir::attn_tile::KernelOp"> {
  let summary = "begin the next iteration of a dK/dV loop early";
  let description = [{
    Software pipelining of loops whose iterations begin with two MMAs that need
    no other result of the iteration: S (QK) and dP. The S and dP MMAs of the
    next iteration start between the MMAs of this one, and the next exponentials
    are computed while they are in flight:

    | in flight, oldest first | meanwhile |
    |---|---|
    | dV MMA of `t` | dS of `t`, `attn_tile.local_store` |
    | dQ MMA of `t`, S MMA of `t + 1`, dK MMA of `t` | `attn_tile.stage_fragments` of dQ |
    | dK MMA of `t`, dP MMA of `t + 1` | exponentials of `t + 1` |

    An MMA with a left-hand side in registers stalls its warp until earlier MMAs
    are done, so it starts last in each row of the table. If the dP MMA is such
    an MMA, the rows that only dS reads are waited for directly behind the next
    exponentials. ptxas moves no exponential across a wait for a stage, so the
    exponentials stay before the wait for the dK MMA.

    The S MMA of `t + 1` may have the values of a row as its first accumulators.
    They are read before dS of `t` is stored, as reads of shared memory take long
    once the S MMA is in flight. If the dP MMA has none, dQ is stored before the
    dK MMA starts; if it has, the additions of dQ start directly behind its
    stores (docs/experiments/backward-sm90.md).

    The loop carries the dP MMA in flight, which the next iteration waits for
    first. An iteration with several query tiles is pipelined from tile to tile.
    A dQ tile that is added from registers leaves no registers for the next
    scores, whose MMA then starts after the addition. The loop gets a prologue
    and an epilogue, and runs only if it has iterations.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def AttnTilePipelineMmaPass
    : Attn_Pass<"attn-tile-pipeline-mma", "::mlir::attn_tile::KernelOp"> {
  let summary = "keep an accumulating MMA in flight";
  let description = [{
    For a loop whose iterations accumulate one MMA on a carried value: the MMA
    of the next iteration starts while the MMA of this one is in flight. The
    loop carries the pending MMA and the stages that it reads. These stages are
    released when the next MMA has been started and this one is done.

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

    A loop that may have no iteration stays as it is.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def AttnTileStageStoresPass
    : Attn_Pass<"attn-tile-stage-stores", "::mlir::attn_tile::KernelOp"> {
  let summary = "store tiles through shared memory";
  let description = [{
    Stores of 16-bit tiles become `attn_tile.store_through`, with `stages`
    blocks of 64 x 64 elements for each of the `consumers` warpgroups. The tiles
    must have 64 rows for each warpgroup and a multiple of 64 columns. Other
    stores stay as they are.

    Asynchronous copies write 16 bytes at once, also where only the first of them
    are within the columns of the destination. If its last dimension is dynamic,
    and strides can leave memory between its rows, a branch chooses between both
    stores; a static size that is no multiple of 8 keeps the store.
  }];
  let options = [
    Option<"stages", "stages", "int64_t", /*default=*/"2",
           "Blocks in shared memory for each warpgroup">,
    Option<"consumers", "consumers", "int64_t", /*default=*/"2",
           "Warpgroups that hold a tile together">,
  ];
  let statistics = [
    Statistic<"numStores", "num-stores", "Stores that go through shared memory">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::attn_tile::AttnTileDialect",
                           "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect"];
}

def AttnTileOverlapWorkItemsPass
    : Attn_Pass<"attn-tile-overlap-work-items", "::mlir::attn_tile::KernelOp"> {
  let summary = "start the first MMA of a work item at once";
  let description = [{
    Divisions turn the number of a work item into indices, and more arithmetic
    into loop bounds, which takes as long as an MMA. The first MMA of a work
    item needs only its positions in pipes. In the consumers' loops over work
    items, the waits for its stages and its start therefore move to the
    beginning.

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
    Statistic<"numLoops", "num-loops", "Loops over work items changed">,
  ];
}

def AttnTilePrefetchWorkItemsPass
    : Attn_Pass<"attn-tile-prefetch-work-items", "::mlir::attn_tile::KernelOp"> {
  let summary = "find the next work item when the iterations of this one end";
  let description = [{
    Divisions turn the number of a work item into indices, and more arithmetic
    into loop bounds. Where the first MMA of a work item depends on them, for
    instance on whether the work item has iterations, the tensor cores wait for
    this arithmetic. Therefore the consumers' loops over work items carry the
    indices and bounds of the next work item. They are computed behind the
    iterations of this one, concurrently with the stores of its results. There
    may be no next work item, nor a first one: divisors that may be zero then
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

def AttnTileSinkOperandReadsPass
    : Attn_Pass<"attn-tile-sink-operand-reads", "::mlir::attn_tile::KernelOp"> {
  let summary = "read operands that stay in registers behind the first MMA";
  let description = [{
    A work item waits for a tile that it keeps in registers (`lhs_registers`),
    and reads it, before the branch that holds its iterations. It releases the
    stage behind the branch. But the first MMA of the work item need not wait
    for the read, nor the tile of the next work item for the end of this one. So
    the wait, an `attn_tile.clear` of the stage and the read move to the first
    MMA that uses the tile. The stage is released when that MMA has been
    started. On the path without iterations, the stage is waited for and
    released unread.

    All users of the tile must be in the first region of one branch with two
    regions. The first user must be an MMA, and nothing else may read the stage.

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

def AttnTileConditionalRescalePass
    : Attn_Pass<"attn-tile-conditional-rescale", "::mlir::attn_tile::KernelOp"> {
  let summary = "allow rescaling by one to be skipped";
  let description = [{
    The online softmax multiplies the output accumulator by a factor for each
    row, which is one in most iterations. Where the result of an MMA is
    multiplied by a vector that is broadcast along columns, the multiplication
    becomes `attn_tile.rescale`, which may be skipped.
  }];
  let statistics = [
    Statistic<"numRescales", "num-rescales", "Multiplications that may be skipped">,
  ];
  let dependentDialects = ["::mlir::attn_tile::AttnTileDialect"];
}

def AttnTileSkipEmptyRowsPass
    : Attn_Pass<"attn-tile-skip-empty-rows", "::mlir::attn_tile::KernelOp"> {
  let summary = "skip work on rows beyond the last query";
  let description = [{
    With few queries, the output has only some of the 64 rows of an MMA. The
    operations on registers that a consumer of one warpgroup computes from the
    results of MMAs move to conditionals, which warps without rows skip:

    ```mlir
    %s = attn_tile.mma_wait %pending : !attn_tile.pending<vector<64x96xf32>>
    %p = math.exp2 %s : vector<64x96xf32>
    ```

    becomes

    ```mlir
    %s = attn_tile.mma_wait %pending : !attn_tile.pending<vector<64x96xf32>>
    %b = attn_tile.has_rows below(%n)
    %p = scf.if %b -> vector<64x96xf32> {
      %e = math.exp2 %s : vector<64x96xf32>
      scf.yield %e : vector<64x96xf32>
    } else {
      scf.yield %s : vector<64x96xf32>
    }
    ```

    The store of the output tells the number of rows, which must be known where a
    conditional begins. If it is static, the warps without rows run the
    `attn_tile.convert` of the values, which is the next that an MMA waits for.

    The kernel must have one consumer.
  }];
  let statistics = [
    Statistic<"numGuards", "num-guards", "Conditionals that warps without rows skip">,
    Statistic<"numMoved", "num-moved", "Conversions that warps without rows run">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::attn_tile::AttnTileDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::scf::SCFDialect"];
}

def AttnTileEmulateExp2Pass
    : Attn_Pass<"attn-tile-emulate-exp2", "::mlir::attn_tile::KernelOp"> {
  let summary = "compute some of the exponentials of scores by polynomials";
  let description = [{
    The special function units of a GPU have at most a quarter of the FMA rate.
    Where a kernel waits for exponentials of tiles, some of them are computed
    with FMAs, concurrently with the others (FlashAttention-4, Zadouri et al.
    2026): `math.exp2` of a tile becomes `attn_tile.emulate_exp2`.
  }];
  let options = [
    Option<"sixteenths", "sixteenths", "int64_t", "4",
           "How many of 16 exponentials are polynomials: 1 to 16">,
  ];
  let statistics = [
    Statistic<"numEmulated", "num-emulated", "Exponentials of tiles with emulation">,
  ];
  let dependentDialects = ["::mlir::attn_tile::AttnTileDialect"];
}

def AttnTilePingPongPass
    : Attn_Pass<"attn-tile-ping-pong", "::mlir::attn_tile::KernelOp"> {
  let summary = "let consumer warpgroups alternate in starting MMAs";
  let description = [{
    Brackets the MMAs that a consumer starts in each iteration with
    `pingpong_wait` and `pingpong_arrive`, so that the MMAs of one warpgroup run
    during the softmax of the other (FlashAttention-3, Shah et al. 2024, section
    3.1). A bracket encloses a run of MMA starts without a wait for an MMA
    between them. A kernel whose consumer role has a single warpgroup stays as
    it is.
  }];
  let dependentDialects = ["::mlir::attn_tile::AttnTileDialect"];
}

def AttnTileGatherAllocationsPass
    : Attn_Pass<"attn-tile-gather-allocations", "::mlir::func::FuncOp"> {
  let summary = "allocate before the first launch";
  let description = [{
    Moves allocations before the first launch of their block, or before the
    first launch since a buffer was freed. The operations that compute their
    sizes move along, unless they read memory. Then no allocation separates
    launches on the stream, so that a kernel can be launched `early` right
    behind another one. A function that runs out of memory fails before its
    first launch.

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

def AttnTileDeduplicateKernelsPass
    : Attn_Pass<"attn-tile-deduplicate-kernels", "::mlir::ModuleOp"> {
  let summary = "keep one of several equal kernels";
  let description = [{
    Layers of a model often have the same attention. Their kernels differ in
    their names and locations alone: the first one stays, and all are launched
    in its place. So the passes of a schedule, LLVM and the assembler run once.
    Kernels that something other than an `attn_tile.launch` uses stay as well.

    ```mlir
    attn_tile.kernel @first(%a: memref<?xf32>) {
      attn_tile.return
    }
    attn_tile.kernel @second(%a: memref<?xf32>) {
      attn_tile.return
    }
    func.func @layers(%a: memref<?xf32>) {
      attn_tile.launch @first args(%a : memref<?xf32>)
      attn_tile.launch @second args(%a : memref<?xf32>)
      return
    }
    ```

    becomes

    ```mlir
    attn_tile.kernel @first(%a: memref<?xf32>) {
      attn_tile.return
    }
    func.func @layers(%a: memref<?xf32>) {
      attn_tile.launch @first args(%a : memref<?xf32>)
      attn_tile.launch @first args(%a : memref<?xf32>)
      return
    }
    ```
  }];
  let statistics = [
    Statistic<"numDuplicates", "num-duplicates", "Number of kernels that were removed">,
  ];
}

def AttnTileJoinAllocationsPass
    : Attn_Pass<"attn-tile-join-allocations", "::mlir::func::FuncOp"> {
  let summary = "allocate buffers together that live equally long";
  let description = [{
    Buffers of one block become parts of one allocation if nothing with an
    effect is between their allocations, nor between the operations that free
    them. Each allocation and each deallocation is a call of the driver, which
    takes microseconds of the host. Parts begin at multiples of 256 bytes.

    ```mlir
    %a = memref.alloc(%n) : memref<?xf32>
    %b = memref.alloc(%n) : memref<?x128xbf16>
    attn_tile.launch @kernel args(%a, %b : memref<?xf32>, memref<?x128xbf16>)
    memref.dealloc %a : memref<?xf32>
    memref.dealloc %b : memref<?x128xbf16>
    ```

    becomes

    ```mlir
    %all = memref.alloc(%bytes) {alignment = 256 : i64} : memref<?xi8>
    %a = memref.view %all[%c0][%n] : memref<?xi8> to memref<?xf32>
    %b = memref.view %all[%offset][%n] : memref<?xi8> to memref<?x128xbf16>
    attn_tile.launch @kernel args(%a, %b : memref<?xf32>, memref<?x128xbf16>)
    memref.dealloc %all : memref<?xi8>
    ```
  }];
  let statistics = [
    Statistic<"numJoined", "num-joined", "Number of buffers that became parts">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::memref::MemRefDialect"];
}

def AttnTileOverlapLaunchesPass
    : Attn_Pass<"attn-tile-overlap-launches", "::mlir::ModuleOp"> {
  let summary = "launch kernels behind or before small ones early";
  let description = [{
    A kernel on scalars alone takes about as long to start as to run. Where one
    is launched right behind a kernel on tiles, its launch becomes `early`
    (programmatic dependent launch), and it waits for the kernel on tiles before
    it does anything else. The kernel on tiles lets it begin as soon as all of
    its CTAs have begun. The launch of any kernel right behind a kernel on scalars,
    such as one that lists its work items, becomes early in the same way.

    ```mlir
    attn_tile.kernel @parts(...) { ... }
    attn_tile.kernel @combine(...) { ... }
    attn_tile.launch @parts args(...)
    attn_tile.launch @combine args(...)
    ```

    becomes

    ```mlir
    attn_tile.kernel @parts(...) {
      attn_tile.allow_launches
      ...
    }
    attn_tile.kernel @combine(...) {
      attn_tile.await_launches
      ...
    }
    attn_tile.launch @parts args(...)
    attn_tile.launch @combine early args(...)
    ```

    Expects kernels to which `attn-apply-schedules` has been applied.
  }];
  let statistics = [
    Statistic<"numEarly", "num-early", "Number of launches made early">,
  ];
  let dependentDialects = ["::mlir::attn_tile::AttnTileDialect"];
}

def AttnTileUseTensorMapsPass
    : Attn_Pass<"attn-tile-use-tensor-maps", "::mlir::ModuleOp"> {
  let summary = "make copies to stages use tensor maps";
  let description = [{
    Copies from a memref that is an argument of the kernel, and
    `attn_tile.store_through` to one, use a tensor map instead. The tensor map
    becomes a further argument and is created before each launch. Its box has
    the rows of the buffer and 128 bytes of columns; wider buffers take several
    boxes. A memref that is copied to buffers of different heights gets several
    maps. Memrefs without other uses are no longer passed to the kernel.
  }];
  let options = [
    Option<"l2Promotion", "l2-promotion", "int64_t", /*default=*/"256",
           "Bytes that are fetched to L2 at once: 0, 64, "
           "128 or 256">,
  ];
  let statistics = [
    Statistic<"numMaps", "num-maps", "Number of tensor maps made">,
  ];
  let dependentDialects = ["::mlir::attn_tile::AttnTileDialect"];
}

#endif // ATTN_DIALECT_ATTNTILE_TRANSFORMS_PASSES_TD
