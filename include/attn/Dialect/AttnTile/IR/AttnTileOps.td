//===- AttnTileOps.td - Operations of attn_tile -----------*- tablegen -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The operations of a kernel on tiles.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNTILE_IR_ATTNTILEOPS_TD
#define ATTN_DIALECT_ATTNTILE_IR_ATTNTILEOPS_TD

include "attn/Dialect/Attn/IR/AttnDropout.td"
include "attn/Dialect/AttnTile/IR/AttnTileAttrs.td"
include "attn/Dialect/AttnTile/IR/AttnTileTypes.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/CallInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/ViewLikeInterface.td"

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// The precision of attn: its definition brings enums that attn_tile must not
/// define again.
def AttnTile_MatmulPrecisionAttr
    : Attr<CPred<"::llvm::isa<::mlir::attn::MatmulPrecisionAttr>($_self)">,
           "#attn.matmul_precision"> {
  let storageType = "::mlir::attn::MatmulPrecisionAttr";
  let returnType = "::mlir::attn::MatmulPrecision";
  let convertFromStorage = "$_self.getValue()";
}

def AttnTile_KernelOp : AttnTile_Op<"kernel", [
    AffineScope, AutomaticAllocationScope, FunctionOpInterface,
    IsolatedFromAbove, OpAsmOpInterface]> {
  let summary = "a kernel as a program on tiles";
  let description = [{
    A function that one CTA runs. Its arguments are memrefs, tensor maps and
    scalars; it has no results. As first written, its body holds one
    `scf.forall` over the work items. A traversal pass replaces that loop by a
    loop over the work items of one CTA.

    Passes lead a kernel through phases, which its operations say: `plain`, then
    `staged` with pipes, `specialized` with a layout or roles, and `final` with
    arguments that are tensor maps. Each pass on kernels reports a kernel in a
    phase that it does not expect.

    `layout` maps the elements of register tiles to the threads of the CTA, or
    to the threads of the consumer role once the kernel has roles. It is absent
    on the host. `cluster` is the number of CTAs of a thread block cluster (1 by
    default): CTAs with neighbouring positions in the grid, which run at the
    same time and can access each other's shared memory. `precision` says how
    MMAs multiply f32 values, `highest` if it is absent.

    ```mlir
    attn_tile.kernel @fwd(%q: memref<?x32x?x128xbf16>) {
      attn_tile.return
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs,
                       OptionalAttr<AttnTile_ThreadLayoutAttrInterface>:$layout,
                       OptionalAttr<Attn_ScheduleAttrInterface>:$schedule,
                       OptionalAttr<ConfinedAttr<I64Attr, [IntPositive]>>:$cluster,
                       OptionalAttr<AttnTile_MatmulPrecisionAttr>:$precision);
  let regions = (region AnyRegion:$body);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name,
                                 "::mlir::FunctionType":$type)>];
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// FunctionOpInterface.
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() {
      return getFunctionType().getInputs();
    }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() {
      return getFunctionType().getResults();
    }
    ::mlir::Region *getCallableRegion() { return &getBody(); }

    /// CTAs of a cluster.
    int64_t getClusterSize() {
      return static_cast<int64_t>(getCluster().value_or(1));
    }
  }];
}

def AttnTile_ReturnOp : AttnTile_Op<"return", [
    Pure, HasParent<"KernelOp">, Terminator, ReturnLike]> {
  let summary = "terminates a kernel";
  let description = [{
    Ends the body of a kernel. Kernels return nothing.

    ```mlir
    attn_tile.return
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def AttnTile_LaunchOp : AttnTile_Op<"launch", [
    AttrSizedOperandSegments, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "launches a kernel";
  let description = [{
    Host side: runs the kernel with the operands `args`, whose types are those
    of the kernel's arguments.

    `grid` gives the three sizes of the grid in CTAs. A CTA reads its position
    with `attn_tile.program_id`. Without a grid the kernel iterates over all
    work items by itself.

    - `ctas_per_sm(n)` makes the first grid size an upper bound: no more CTAs
      are launched than fit the device with `n` CTAs per SM.
    - `on(%s)` launches on the stream `%s`, otherwise the launch uses the stream
      of the function's caller.
    - `early` is a programmatic dependent launch: the kernel may begin while
      earlier work on the stream still runs. The kernel must execute
      `attn_tile.await_launches` before it depends on that work.
    - `together` is a cooperative launch: no CTA begins before all CTAs can run
      at the same time, so CTAs may wait for one another. It excludes `early`.

    ```mlir
    attn_tile.launch @fwd grid(%n, %c1, %c1) args(%q, %k) : memref<?xf32>, memref<?xf32>
    attn_tile.launch @combine early args(%q, %k) : memref<?xf32>, memref<?xf32>
    attn_tile.launch @persistent together grid(%n, %c1, %c1) ctas_per_sm(1) args(%q) : memref<?xf32>
    ```
  }];
  let arguments = (ins SymbolRefAttr:$kernel, Variadic<Index>:$grid,
                       Variadic<AnyType>:$kernel_operands,
                       OptionalAttr<ConfinedAttr<I64Attr, [IntPositive]>>:$ctas_per_sm,
                       Optional<AttnTile_StreamType>:$stream, UnitAttr:$early,
                       UnitAttr:$together);
  let builders = [
    OpBuilder<(ins "::mlir::SymbolRefAttr":$kernel, "::mlir::ValueRange":$grid,
                   "::mlir::ValueRange":$kernel_operands,
                   "::mlir::IntegerAttr":$ctas_per_sm), [{
      build($_builder, $_state, kernel, grid, kernel_operands,
            ctas_per_sm, /*stream=*/::mlir::Value(),
            /*early=*/::mlir::UnitAttr(), /*together=*/::mlir::UnitAttr());
    }]>,
  ];
  let assemblyFormat = [{
    $kernel (`early` $early^)? (`together` $together^)? (`on` `(` $stream^ `)`)?
    (`grid` `(` $grid^ `)`)?
    (`ctas_per_sm` `(` $ctas_per_sm^ `)`)?
    `args` `(` ($kernel_operands^ `:` type($kernel_operands))? `)` attr-dict
  }];
  let hasVerifier = 1;
}

def AttnTile_AllowLaunchesOp : AttnTile_Op<"allow_launches"> {
  let summary = "lets the next kernel on the stream begin";
  let description = [{
    Once every CTA of the kernel has executed this operation or has ended, the
    next kernel on the stream may begin if its launch is `early`
    (`griddepcontrol.launch_dependents`). That kernel sees later stores of this
    one only after `attn_tile.await_launches`.

    ```mlir
    attn_tile.allow_launches
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def AttnTile_AwaitLaunchesOp : AttnTile_Op<"await_launches"> {
  let summary = "waits for the preceding work on the stream";
  let description = [{
    Waits until all work before this launch on its stream is done and its stores
    are visible (`griddepcontrol.wait`). Does nothing if the launch is not
    `early`.

    ```mlir
    attn_tile.await_launches
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def AttnTile_ForkStreamOp : AttnTile_Op<"fork_stream"> {
  let summary = "starts a side stream";
  let description = [{
    Host side: returns a stream whose kernels start after all work that the
    caller's stream holds at this point, and run concurrently with later work on
    the caller's stream. The stream is in use until `attn_tile.join_stream`.

    ```mlir
    %side = attn_tile.fork_stream
    attn_tile.launch @gemm args(%c) : memref<?xf32>
    attn_tile.launch @mask on(%side) args(%m) : memref<?xi32>
    attn_tile.join_stream %side
    ```
  }];
  let results = (outs AttnTile_StreamType:$stream);
  let assemblyFormat = "attr-dict";
}

def AttnTile_JoinStreamOp : AttnTile_Op<"join_stream"> {
  let summary = "makes the caller's stream wait for a side stream";
  let description = [{
    Host side: later work on the caller's stream starts after all work that
    `stream` holds. The stream must not be used afterwards.

    ```mlir
    attn_tile.join_stream %side
    ```
  }];
  let arguments = (ins AttnTile_StreamType:$stream);
  let assemblyFormat = "$stream attr-dict";
}

def AttnTile_ProgramIdOp : AttnTile_Op<"program_id", [
    Pure, DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "position of this CTA in the grid";
  let description = [{
    The index of the CTA in dimension `dim` (0 to 2) of the grid. In
    `attn_tile.auxiliary_warps` only dimension 0 exists.

    ```mlir
    %x = attn_tile.program_id 0
    ```
  }];
  let arguments = (ins ConfinedAttr<I32Attr, [IntNonNegative, IntMaxValue<2>]>:$dim);
  let results = (outs Index:$result);
  let assemblyFormat = "$dim attr-dict";
}

def AttnTile_NumProgramsOp : AttnTile_Op<"num_programs", [
    Pure, DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "size of the grid";
  let description = [{
    The number of CTAs in dimension `dim` (0 to 2) of the grid. In
    `attn_tile.auxiliary_warps` only dimension 0 exists.

    ```mlir
    %n = attn_tile.num_programs 0
    ```
  }];
  let arguments = (ins ConfinedAttr<I32Attr, [IntNonNegative, IntMaxValue<2>]>:$dim);
  let results = (outs Index:$result);
  let assemblyFormat = "$dim attr-dict";
}

def AttnTile_ConsumerIdOp : AttnTile_Op<"consumer_id", [
    Pure, DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "index of this warpgroup among the consumers";
  let description = [{
    In the consumer role: 0 for its first warpgroup. For kernels whose consumers
    hold the same rows and compute different columns of a result.

    ```mlir
    %w = attn_tile.consumer_id
    ```
  }];
  let results = (outs Index:$result);
  let assemblyFormat = "attr-dict";
}

def AttnTile_ConsumerColumnsOp : AttnTile_Op<"consumer_columns", [Pure]> {
  let summary = "the columns of a tile that this consumer multiplies";
  let description = [{
    Consumer `w` takes as many columns of `tile` as `result` has, from `w` times
    that number on. `attn-tile-create-pipes` replaces it by the `consumer_columns`
    of the MMAs of which the result is the right-hand side.

    ```mlir
    %q1 = attn_tile.consumer_columns %q : vector<48x512xbf16> -> vector<48x256xbf16>
    ```
  }];
  let arguments = (ins VectorOfRankAndType<[2], [AnyFloat]>:$tile);
  let results = (outs VectorOfRankAndType<[2], [AnyFloat]>:$result);
  let assemblyFormat = "$tile attr-dict `:` type($tile) `->` type($result)";
  let hasVerifier = 1;
}

class AttnTile_ClusterOp<string mnemonic> : AttnTile_Op<mnemonic, [
    Pure, DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let results = (outs Index:$result);
  let assemblyFormat = "attr-dict";
}

def AttnTile_ClusterIdOp : AttnTile_ClusterOp<"cluster_id"> {
  let summary = "index of this CTA's cluster in the grid";
  let description = [{
    Clusters are counted along the first dimension of the grid.

    ```mlir
    %c = attn_tile.cluster_id
    ```
  }];
}

def AttnTile_NumClustersOp : AttnTile_ClusterOp<"num_clusters"> {
  let summary = "number of clusters in the grid";
  let description = [{
    Clusters are counted along the first dimension of the grid.

    ```mlir
    %n = attn_tile.num_clusters
    ```
  }];
}

def AttnTile_ClusterRankOp : AttnTile_ClusterOp<"cluster_rank"> {
  let summary = "rank of this CTA in its cluster";
  let description = [{
    An index from 0 to the number of CTAs of a cluster minus 1. A value that
    does not depend on it is the same in all CTAs of a cluster.

    ```mlir
    %r = attn_tile.cluster_rank
    ```
  }];
}

def AttnTile_AssumeUpperBoundOp : AttnTile_Op<"assume_upper_bound", [
    Pure, AllTypesMatch<["value", "bound", "result"]>]> {
  let summary = "a run-time value with a bound that the host knows";
  let description = [{
    The smaller of `value`, which the kernel computes at run time, and `bound`,
    which the host can compute from the launch operands. Where the number of
    work items is such a value, the grid is sized for `bound`.

    ```mlir
    %n = attn_tile.assume_upper_bound %found, %rows
    ```
  }];
  let arguments = (ins Index:$value, Index:$bound);
  let results = (outs Index:$result);
  let assemblyFormat = "$value `,` $bound attr-dict";
}

def AttnTile_ErrorFlagOp : AttnTile_Op<"error_flag", [
    MemoryEffects<[MemRead]>]> {
  let summary = "memory in which kernels report invalid input";
  let description = [{
    Host side: an array of 32-bit words that the runtime reads without waiting
    for kernels. A kernel that finds invalid input writes an `attnrt_fault` code
    to the first word; otherwise it leaves the word as it is. Further words, if
    any, hold numbers that belong to a code.

    ```mlir
    %fault = attn_tile.error_flag : memref<1xi32>
    ```
  }];
  let results = (outs MemRefRankOf<[I32], [1]>:$word);
  let assemblyFormat = "attr-dict `:` type($word)";
}

//===----------------------------------------------------------------------===//
// Scalars that the threads of a CTA compute together
//===----------------------------------------------------------------------===//

/// The upstream definition would define its enumerations a second time.
def AttnTile_CombiningKindAttr : Attr<
    CPred<"::llvm::isa<::mlir::vector::CombiningKindAttr>($_self)">,
    "#vector.kind attribute">;

def AttnTile_ReduceOp : AttnTile_Op<"reduce", [
    RecursiveMemoryEffects, SingleBlock,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "reduces scalars over a range";
  let description = [{
    The region computes one scalar per result from an index. Each result is the
    sum (`add`), minimum (`minsi`) or maximum (`maxsi`) of its scalars over the
    indices `[0, count)`. Scalars and results are `index` values of 32 bits, or
    f32, of which the sum (`add`) or the maximum without NaN (`maxnumf`) is taken.
    Over an empty range `add` gives 0, `minsi` the largest and `maxsi` the smallest
    32-bit integer, and `maxnumf` NaN.

    The threads of the CTA divide the indices among them, and all threads get
    the results. The region may read memory but has no other effect. On a GPU
    the CTA must have one warp, or the operation must be in
    `attn_tile.auxiliary_warps`.

    ```mlir
    %n, %least = attn_tile.reduce to(%count)
        by [#vector.kind<add>, #vector.kind<minsi>] : index, index {
    ^bb0(%i: index):
      %x = memref.load %lengths[%i] : memref<?xi32>
      %y = arith.index_cast %x : i32 to index
      attn_tile.yield %y, %i : index, index
    }
    ```
  }];
  let arguments = (ins Index:$count,
                       TypedArrayAttrBase<AttnTile_CombiningKindAttr,
                                          "kinds of reductions">:$kinds);
  let results = (outs Variadic<AnyTypeOf<[Index, F32]>>:$results);
  let regions = (region SizedRegion<1>:$body);
  let builders = [
    OpBuilder<(ins "::mlir::Value":$count,
                   "::llvm::ArrayRef<::mlir::vector::CombiningKind>":$kinds)>,
    OpBuilder<(ins "::mlir::TypeRange":$types, "::mlir::Value":$count,
                   "::llvm::ArrayRef<::mlir::vector::CombiningKind>":$kinds)>];
  let assemblyFormat = [{
    `to` `(` $count `)` `by` $kinds attr-dict `:` type($results)
    custom<ClosedRegion>($body)
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::vector::CombiningKind getKind(unsigned result) {
      return ::mlir::cast<::mlir::vector::CombiningKindAttr>(
          getKinds()[result]).getValue();
    }
    /// Emits the neutral element of a reduction of kind `kind` to `type`.
    static ::mlir::Value emitNeutral(::mlir::OpBuilder &builder,
                                     ::mlir::Location loc,
                                     ::mlir::vector::CombiningKind kind,
                                     ::mlir::Type type);
  }];
}

def AttnTile_ThreadForOp : AttnTile_Op<"thread_for", [
    RecursiveMemoryEffects, SingleBlock,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "runs a region for each index of a range";
  let description = [{
    Runs the region for each index in `[0, count)`. The threads of the CTA, or
    of the role or auxiliary warp that runs the operation, divide the indices
    among them. The region must not read memory that it writes for another index.
    Where there are as many indices as threads, `gpu.subgroup_reduce` in the region adds
    up f32 values of the threads of a warp.

    `together` is an unroll factor: a thread takes that many indices at a time
    while enough are left for every thread. They are as far apart as there are
    threads, and computation that they have in common is done once.

    ```mlir
    attn_tile.thread_for to(%count) together(4) {
    ^bb0(%i: index):
      memref.store %x, %list[%i] : memref<?xi32>
      attn_tile.yield
    }
    ```
  }];
  let arguments = (ins
      Index:$count,
      DefaultValuedAttr<ConfinedAttr<I64Attr, [IntPositive]>, "1">:$together);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `to` `(` $count `)` (`together` `(` $together^ `)`)? attr-dict-with-keyword
    custom<ClosedRegion>($body)
  }];
  let hasRegionVerifier = 1;
}

def AttnTile_WarpCompactOp : AttnTile_Op<"warp_compact", [
    RecursiveMemoryEffects, SingleBlock,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "runs a region for the selected indices of a range";
  let description = [{
    The first region yields an `i1` for each index in `[0, count)`. The second
    region runs for each selected index, with the index and its rank among the
    selected indices, from 0. The result is the number of selected indices. The
    threads of the CTA divide the indices among them. Neither region may read
    memory that the second region writes. On a GPU the CTA must have one warp.

    ```mlir
    %n = attn_tile.warp_compact to(%count) where {
    ^bb0(%i: index):
      %x = memref.load %flags[%i] : memref<?xi1>
      attn_tile.yield %x : i1
    } do {
    ^bb0(%i: index, %rank: index):
      memref.store %i, %list[%rank] : memref<?xindex>
      attn_tile.yield
    }
    ```
  }];
  let arguments = (ins Index:$count);
  let results = (outs Index:$chosen);
  let regions = (region SizedRegion<1>:$condition, SizedRegion<1>:$body);
  let assemblyFormat = [{
    `to` `(` $count `)` attr-dict `where` custom<ClosedRegion>($condition)
    `do` custom<ClosedRegion>($body)
  }];
  let hasRegionVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Tiles and memory
//===----------------------------------------------------------------------===//

def AttnTile_LoadOp : AttnTile_Op<"load", [
    AttrSizedOperandSegments, DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "loads a tile from memory";
  let description = [{
    Reads the tile that starts at `indices`, one per dimension of the source, in
    elements. The dimensions of the tile are the last dimensions of the source,
    with the same element type. Elements outside of the source are zero;
    `in_bounds` states that the tile has none.

    - `within(%first of %extent)`: row `r` of the tile is row `first + r` of a
      sequence of `extent` rows. Rows outside of the sequence are zero, even if
      the source holds other values there.
    - `pages(%table, %keys, %count, %fault)`: the source is a pool of `count`
      pages, `[pages, heads, page, head dim]`. The first index is a row of the
      page table, the last but one a key of a sequence of `keys` keys. Row `r`
      of the tile is row `(key + r) % page` of page `table[row, (key + r) / page]`
      for a key below `keys`; other rows hold any elements or zero, and their
      table entries are not read. A wrong page has rows of zero, and
      `ATTNRT_FAULT_PAGES` is written to `fault`.
    - `stored(#addressing from %first of %rows)`: the last but one index is a key
      of a sequence whose first row is `first`, and row `r` of the tile is the row
      that `KVAddressingAttrInterface::emitStoredRow` gives for key `key + r` and
      `rows` rows. The index is a multiple of the rows of the tile.
    - `unaligned`: rows of the source may start at any element. Otherwise they
      start at multiples of 16 bytes.
    - `any_order`: the elements of a row may be permuted, for users such as a
      row sum of an elementwise multiplication. The permutation is the same for
      all `any_order` tiles of one type that are loaded at the same constant
      last index from sources with the same static last dimension.
    - `stream(%position of %length)`: this is tile number `position`, from 0, of
      the `length` tiles that the work item reads from this source in order.
      `attn-tile-create-pipes` builds pipes from streams.

    ```mlir
    %k = attn_tile.load %key[%b, %h, %j, %c0] stream(%t of %n)
        : memref<?x8x?x128xbf16> -> vector<64x128xbf16>
    ```
  }];
  let arguments = (ins AnyMemRef:$source, Variadic<Index>:$indices,
                       Optional<MemRefRankOf<[I32], [2]>>:$page_table,
                       Optional<Index>:$num_keys, Optional<Index>:$num_pages,
                       Optional<MemRefRankOf<[I32], [1]>>:$fault,
                       OptionalAttr<Attn_KVAddressingAttrInterface>:$addressing,
                       Optional<Index>:$first_stored, Optional<Index>:$num_stored,
                       Optional<Index>:$first, Optional<Index>:$extent,
                       Optional<Index>:$position, Optional<Index>:$length,
                       UnitAttr:$in_bounds, UnitAttr:$unaligned,
                       UnitAttr:$any_order);
  let results = (outs AnyVectorOfNonZeroRank:$result);
  let builders = [OpBuilder<(ins
      "::mlir::Type":$type, "::mlir::Value":$source,
      "::mlir::ValueRange":$indices, "::mlir::Value":$position,
      "::mlir::Value":$length, CArg<"bool", "false">:$inBounds), [{
    build($_builder, $_state, type, source, indices, /*page_table=*/nullptr,
          /*num_keys=*/nullptr, /*num_pages=*/nullptr, /*fault=*/nullptr,
          /*addressing=*/nullptr, /*first_stored=*/nullptr,
          /*num_stored=*/nullptr, /*first=*/nullptr, /*extent=*/nullptr,
          position, length, inBounds,
          /*unaligned=*/false, /*any_order=*/false);
  }]>];
  let assemblyFormat = [{
    $source `[` $indices `]`
    (`pages` `(` $page_table^ `,` $num_keys `,` $num_pages `,` $fault `:`
        type($page_table) `,` type($fault) `)`)?
    (`stored` `(` $addressing^ `from` $first_stored `of` $num_stored `)`)?
    (`within` `(` $first^ `of` $extent `)`)?
    (`stream` `(` $position^ `of` $length `)`)?
    (`in_bounds` $in_bounds^)? (`unaligned` $unaligned^)?
    (`any_order` $any_order^)? attr-dict
    `:` type($source) `->` type($result)
  }];
  let hasVerifier = 1;
}

def AttnTile_StoreOp : AttnTile_Op<"store", [
    AttrSizedOperandSegments, DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "stores a tile to memory";
  let description = [{
    Writes a tile at `indices`, one per dimension of the destination, in
    elements. The dimensions of the tile are the last dimensions of the
    destination, in reverse order with `transposed`. Elements outside of the
    destination are dropped.

    With `within(%first of %extent)`, row `r` of the tile (column `r` with
    `transposed`) is row `first + r` of a sequence of `extent` rows. Rows
    outside of the sequence are dropped.

    ```mlir
    attn_tile.store %o, %out[%b, %h, %i, %c0]
        : vector<64x128xbf16>, memref<?x32x?x128xbf16>
    ```
  }];
  let arguments = (ins AnyVectorOfNonZeroRank:$value, AnyMemRef:$dest,
                       Variadic<Index>:$indices,
                       Optional<Index>:$first, Optional<Index>:$extent,
                       UnitAttr:$transposed);
  let builders = [OpBuilder<(ins
      "::mlir::Value":$value, "::mlir::Value":$dest,
      "::mlir::ValueRange":$indices, CArg<"bool", "false">:$transposed), [{
    build($_builder, $_state, value, dest, indices, /*first=*/nullptr,
          /*extent=*/nullptr, transposed);
  }]>];
  let assemblyFormat = [{
    $value `,` $dest `[` $indices `]` (`within` `(` $first^ `of` $extent `)`)?
    (`transposed` $transposed^)? attr-dict `:` type($value) `,` type($dest)
  }];
  let hasVerifier = 1;
}

def AttnTile_StoreThroughOp : AttnTile_Op<"store_through", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "stores a tile by asynchronous copies from shared memory";
  let description = [{
    Writes a 16-bit tile at `indices`, as `attn_tile.store` does, by
    asynchronous copies from the stages of a pipe. The destination is a memref
    or a tensor map. The tile is cut into blocks of the size of a stage. Each
    warpgroup uses the same number of stages, which must have no other use.
    Before a stage is written, the copies that read it are waited for.

    ```mlir
    attn_tile.store_through %pipe, %c to %out[%i, %j]
        : !attn_tile.pipe<64x64xbf16, stages = 4>, vector<128x256xbf16>
        to memref<?x?xbf16>
    ```
  }];
  let arguments = (ins AttnTile_PipeType:$pipe,
                       VectorOfRankAndType<[2], [BF16, F16]>:$tile,
                       AnyTypeOf<[AnyMemRef, AttnTile_TensorMapType]>:$dest,
                       Variadic<Index>:$indices);
  let assemblyFormat = [{
    $pipe `,` $tile `to` $dest `[` $indices `]` attr-dict
    `:` type($pipe) `,` type($tile) `to` type($dest)
  }];
  let hasVerifier = 1;
}

def AttnTile_StageFragmentsOp : AttnTile_Op<"stage_fragments", [
    MemoryEffects<[MemRead, MemWrite]>,
    TypesMatchWith<"buffer is one stage of the pipe", "pipe", "buffer",
                   "::llvm::cast<PipeType>($_self).getBufferType()">]> {
  let summary = "writes a tile to shared memory in fragment order";
  let description = [{
    Writes an f32 tile in fragment order (see `attn_tile.bulk_reduce_add`) to
    the single stage of the pipe, which has the shape of the tile and no other
    use. Before that, it waits until the reductions that read the previous tile
    have read the stage. `position` numbers the tiles from 0;
    `attn_tile.ordered_reduce_add` needs it.

    ```mlir
    %b = attn_tile.stage_fragments %t in %pipe : vector<128x64xf32>,
        !attn_tile.pipe<128x64xf32, stages = 1>
    %c = attn_tile.stage_fragments %t in %pipe[%n] : vector<128x64xf32>,
        !attn_tile.pipe<128x64xf32, stages = 1>
    ```
  }];
  let arguments = (ins VectorOfRankAndType<[2], [F32]>:$tile,
                       AttnTile_PipeType:$pipe, Optional<Index>:$position);
  let results = (outs AttnTile_BufferType:$buffer);
  let assemblyFormat = [{
    $tile `in` $pipe (`[` $position^ `]`)? attr-dict `:` type($tile) `,` type($pipe)
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$tile, "::mlir::Value":$pipe,
                                 CArg<"::mlir::Value", "{}">:$position)>];
  let hasVerifier = 1;
}

def AttnTile_CommitFragmentsOp : AttnTile_Op<"commit_fragments", [
    MemoryEffects<[MemRead, MemWrite]>,
    TypesMatchWith<"buffer is one stage of the pipe", "pipe", "buffer",
                   "::llvm::cast<PipeType>($_self).getBufferType()">]> {
  let summary = "publishes a staged tile in fragment order";
  let description = [{
    Makes the tile that an `attn_tile.stage_fragments` of the same block wrote
    available to the `attn_tile.ordered_reduce_add` of the same position.

    ```mlir
    attn_tile.commit_fragments %b in %pipe[%n] : !attn_tile.pipe<128x64xf32, stages = 1>
    ```
  }];
  let arguments = (ins AttnTile_BufferType:$buffer, AttnTile_PipeType:$pipe,
                       Index:$position);
  let assemblyFormat = [{
    $buffer `in` $pipe `[` $position `]` attr-dict `:` type($pipe)
  }];
  let hasVerifier = 1;
}

def AttnTile_BulkReduceAddOp : AttnTile_Op<"bulk_reduce_add", [
    AttrSizedOperandSegments, DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "adds a tile to a tile in fragment order";
  let description = [{
    Adds the elements of an f32 tile atomically to a tile in fragment order in
    global memory. A tile in registers is added by atomic additions of its
    threads. A tile in shared memory (from `attn_tile.stage_fragments`) is added
    by an asynchronous bulk reduction. Without `ordered`, the order of the
    additions of different CTAs is undefined.

    With `ordered(%n of %semaphores[...])` the additions to one tile happen one
    after another: this is addition `n`, from 0. The semaphore belongs to this
    destination tile alone and starts at zero. Since CTAs then wait for one
    another (see `attn_tile.semaphore_wait`), there must be a total order of all
    additions that the additions of each CTA and of each tile follow. A CTA may
    wait only for additions that other CTAs have begun, or will begin without
    waiting for it.

    A tile in *fragment order* lies in global memory in the order in which the
    threads of a CTA hold its elements in registers. So each access is of
    consecutive bytes. The order depends on the target. Only CTAs whose tiles
    have the same shape and thread layout can access it. The tile takes the
    place of as many whole rows of a contiguous f32 array, from `indices` on.

    ```mlir
    attn_tile.bulk_reduce_add %t to %sums[%b, %h, %i, %c0]
        : vector<128x64xf32> to memref<?x32x?x128xf32>
    attn_tile.bulk_reduce_add %buffer to %sums[%b, %h, %i, %c0]
        : !attn_tile.buffer<128x64xf32> to memref<?x32x?x128xf32>
    attn_tile.bulk_reduce_add %t to %sums[%b, %h, %i, %c0] ordered(%n of %semaphores[%b, %h, %i])
        : vector<128x64xf32> to memref<?x32x?x128xf32>, memref<?x32x?xi32>
    ```
  }];
  let arguments = (ins
      AnyTypeOf<[VectorOfRankAndType<[2], [F32]>, AttnTile_BufferType]>:$value,
      AnyMemRef:$dest, Variadic<Index>:$indices, Optional<Index>:$ordinal,
      Optional<MemRefOf<[I32]>>:$semaphores, Variadic<Index>:$semaphore_indices);
  let assemblyFormat = [{
    $value `to` $dest `[` $indices `]`
    (`ordered` `(` $ordinal^ `of` $semaphores `[` $semaphore_indices `]` `)`)? attr-dict
    `:` type($value) `to` type($dest) (`,` type($semaphores)^)?
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$value, "::mlir::Value":$dest,
                                 "::mlir::ValueRange":$indices)>];
  let extraClassDeclaration = [{
    /// The type of the tile, in registers or in shared memory.
    ::mlir::VectorType getTileType();
  }];
  let hasVerifier = 1;
}

def AttnTile_OrderedReduceAddOp : AttnTile_Op<"ordered_reduce_add", [
    AttrSizedOperandSegments, DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "adds a staged tile to a tile in fragment order, in semaphore order";
  let description = [{
    The part of an ordered `attn_tile.bulk_reduce_add` that auxiliary warps run,
    so that the consumer warps of the CTA wait for no other CTA. Two auxiliary
    warps alternate between positions. For its position, a warp:

    - waits until the semaphore has reached `ordinal`, and until
      `attn_tile.commit_fragments` has published the tile,
    - starts the asynchronous bulk reduction of the stage to `dest`,
    - releases the stage once the reduction has read it,
    - adds one to the semaphore once the reduction is complete.

    ```mlir
    attn_tile.ordered_reduce_add %pipe[%p] to %sums[%b, %h, %i, %c0] ordered(%n of %semaphores[%b, %h, %i])
        : !attn_tile.pipe<128x64xf32, stages = 1> to memref<?x32x?x128xf32>, memref<?x32x?xi32>
    ```
  }];
  let arguments = (ins
      AttnTile_PipeType:$pipe, Index:$position, AnyMemRef:$dest,
      Variadic<Index>:$indices, Index:$ordinal, MemRefOf<[I32]>:$semaphores,
      Variadic<Index>:$semaphore_indices);
  let assemblyFormat = [{
    $pipe `[` $position `]` `to` $dest `[` $indices `]`
    `ordered` `(` $ordinal `of` $semaphores `[` $semaphore_indices `]` `)` attr-dict
    `:` type($pipe) `to` type($dest) `,` type($semaphores)
  }];
  let hasVerifier = 1;
}

def AttnTile_StoreFragmentsOp : AttnTile_Op<"store_fragments", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "stores a tile in fragment order";
  let description = [{
    Stores an f32 tile in fragment order (see `attn_tile.bulk_reduce_add`) as
    whole rows of `dest` from `indices` on. If all elements are equal, CTAs with
    tiles of any shape may add to it.

    ```mlir
    attn_tile.store_fragments %zeros to %sums[%b, %h, %i, %c0]
        : vector<128x128xf32> to memref<?x32x?x128xf32>
    ```
  }];
  let arguments = (ins VectorOfRankAndType<[2], [F32]>:$value,
                       AnyMemRef:$dest, Variadic<Index>:$indices);
  let assemblyFormat = [{
    $value `to` $dest `[` $indices `]` attr-dict `:` type($value) `to` type($dest)
  }];
  let hasVerifier = 1;
}

def AttnTile_LoadFragmentsOp : AttnTile_Op<"load_fragments", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "loads a tile in fragment order";
  let description = [{
    Loads an f32 tile in fragment order (see `attn_tile.bulk_reduce_add`) from
    whole rows of `source` from `indices` on. The result has the thread layout
    with which the tile was stored or added to.

    ```mlir
    %t = attn_tile.load_fragments %sums[%b, %h, %i, %c0]
        : memref<?x32x?x128xf32> to vector<128x64xf32>
    ```
  }];
  let arguments = (ins AnyMemRef:$source, Variadic<Index>:$indices);
  let results = (outs VectorOfRankAndType<[2], [F32]>:$result);
  let assemblyFormat = [{
    $source `[` $indices `]` attr-dict `:` type($source) `to` type($result)
  }];
  let hasVerifier = 1;
}

def AttnTile_ConvertDqOp : AttnTile_Op<"convert_dq", [
    AttrSizedOperandSegments, DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "scales, converts and clears a tile of the dQ accumulator";
  let description = [{
    Reads a tile in fragment order (see `attn_tile.bulk_reduce_add`) from the
    f32 array `source` and multiplies it by `factor`. Rounds it to the element
    type of `dest` (bf16 or f16) and stores it there. The tile in `source`
    becomes zero. The rows of the tile are the rows of `dest` from
    `dest_indices` on, or its columns with `transposed`. Elements outside of
    `dest` are dropped. The operation handles number `part` of `parts` equal
    parts of the tile; different warps may take them. On a GPU it must be in
    `attn_tile.auxiliary_warps`.

    ```mlir
    attn_tile.convert_dq %sums[%s, %c0, %i, %c0] to %dq[%b, %h, %i, %c0] part(%p of 4) times 0.125 transposed
        : vector<128x64xf32> in memref<?x1x?x128xf32> to memref<?x32x?x128xbf16>
    ```
  }];
  let arguments = (ins AnyMemRef:$source, Variadic<Index>:$indices,
                       MemRefOf<[BF16, F16]>:$dest,
                       Variadic<Index>:$dest_indices, Index:$part,
                       ConfinedAttr<I64Attr, [IntPositive]>:$parts,
                       F64Attr:$factor, TypeAttrOf<VectorOfRankAndType<[2], [F32]>>:$tile,
                       UnitAttr:$transposed);
  let assemblyFormat = [{
    $source `[` $indices `]` `to` $dest `[` $dest_indices `]`
    `part` `(` $part `of` $parts `)` `times` $factor (`transposed` $transposed^)? attr-dict
    `:` $tile `in` type($source) `to` type($dest)
  }];
  let extraClassDeclaration = [{
    ::mlir::VectorType getTileType() {
      return ::mlir::cast<::mlir::VectorType>(getTile());
    }
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Semaphores
//===----------------------------------------------------------------------===//

def AttnTile_SemaphoreAddOp : AttnTile_Op<"semaphore_add", [
    AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "adds one to a semaphore";
  let description = [{
    Adds one to the i32 semaphore at `indices` in global memory, with release
    semantics: an `attn_tile.semaphore_wait` that sees the new value also sees
    all earlier stores and additions of the CTA. The value in memory is a
    multiple of a unit of the target; zero is zero.

    With `of additions`, only the effects of `attn_tile.bulk_reduce_add` are
    released. Where these additions go through a pipe (see
    `attn_tile.stage_fragments`), `attn-tile-create-pipes` adds `after` with the
    pipe and the number of the work item, from 0. `attn-tile-split-roles` then
    moves the operation to an auxiliary warp, which bears the latency of
    ordering the additions before the semaphore. The consumers signal with
    `attn_tile.semaphore_release` and go on.

    ```mlir
    attn_tile.semaphore_add %semaphores[%i] : memref<?xi32>
    attn_tile.semaphore_add %semaphores[%i] of additions : memref<?xi32>
    attn_tile.semaphore_add %semaphores[%i] of additions after(%pipe[%n])
        : memref<?xi32>, !attn_tile.pipe<128x64xf32, stages = 1>
    ```
  }];
  let arguments = (ins MemRefOf<[I32]>:$semaphores, Variadic<Index>:$indices,
                       Optional<AttnTile_PipeType>:$pipe,
                       Optional<Index>:$position, UnitAttr:$additions);
  let assemblyFormat = [{
    $semaphores `[` $indices `]` (`of` `additions` $additions^)?
    (`after` `(` $pipe^ `[` $position `]` `)`)?
    attr-dict `:` type($semaphores) (`,` type($pipe)^)?
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$semaphores,
                                 "::mlir::ValueRange":$indices,
                                 CArg<"bool", "false">:$additions)>];
  let hasVerifier = 1;
}

def AttnTile_SemaphoreReleaseOp : AttnTile_Op<"semaphore_release", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "signals that the reductions through a pipe are complete";
  let description = [{
    Each consumer warp waits for the completion of its bulk reductions through
    the pipe (see `attn_tile.stage_fragments`). It then signals the
    `attn_tile.semaphore_add` with that pipe. An auxiliary warp executes the
    latter once per execution of this operation.

    ```mlir
    attn_tile.semaphore_release %pipe : !attn_tile.pipe<128x64xf32, stages = 1>
    ```
  }];
  let arguments = (ins AttnTile_PipeType:$pipe);
  let assemblyFormat = "$pipe attr-dict `:` type($pipe)";
  let hasVerifier = 1;
}

def AttnTile_SemaphoreWaitOp : AttnTile_Op<"semaphore_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until a semaphore reaches a number";
  let description = [{
    Waits until `attn_tile.semaphore_add` has been executed `number` times for
    the i32 semaphore at `indices`. The number 0 needs no wait. In a kernel with
    roles the producer waits before it fills further stages, and consumers wait
    for those stages.

    CTAs that wait for one another need a `together` launch, which
    `attn-tile-set-traversal` makes. They also need an order without deadlock:
    at any time some CTA waits only for work that other CTAs have begun.

    ```mlir
    attn_tile.semaphore_wait %semaphores[%i] to(%n) : memref<?xi32>
    ```
  }];
  let arguments = (ins MemRefOf<[I32]>:$semaphores, Variadic<Index>:$indices,
                       Index:$number);
  let assemblyFormat = [{
    $semaphores `[` $indices `]` `to` `(` $number `)` attr-dict `:` type($semaphores)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

def AttnTile_KVTileIteratorOp : AttnTile_Op<"kv_tile_iterator", [
    AttrSizedOperandSegments, Pure, SingleBlock,
    DeclareOpInterfaceMethods<OpAsmOpInterface,
        ["getAsmResultNames", "getAsmBlockArgumentNames"]>]> {
  let summary = "iterates over the kv tiles that a query tile needs";
  let description = [{
    Describes the loop over the kv tiles (`key_tile` keys each) for the
    `query_tile` queries from `first_query` on. `attn_tile.kv_tile_at` gives the
    kv tile of an iteration. A kv tile that the iterator skips holds only
    masked elements; no kv tile occurs twice. Iterations `[0, masked)` visit
    partial tiles, which may hold masked elements. Iterations `[masked, count)`
    visit full tiles, which hold none. `1 <= masked <= count`: there is always
    one iteration, and the first one always counts as partial.

    The key length, the mask attribute (`by`) and the `mask_mod` region mask
    elements, as in `attn_tile.mask`.

    - `listed(%list[%b, %h, %row])`: an earlier kernel has classified the tiles.
      A row of the i32 list begins with the number of partial tiles and the
      number of all tiles that are not empty. The indices of the partial tiles
      follow. The indices of the full tiles are at the end of the row, in
      reverse order.
    - `if(%needed)`: if false, no result of the tiles is used, and only the one
      mandatory iteration remains.
    - `split(%i of %n)`: the iterator covers split `i` of `n`, the iterations
      `[count * i / n, count * (i + 1) / n)` of the unsplit iterator. An empty
      split still has one iteration, which visits a tile of another split;
      `attn_tile.is_split_empty` tells so.

    ```mlir
    %tiles, %masked, %count = attn_tile.kv_tile_iterator at(%b, %h) queries(%i, 128)
        keys(176) lengths(%sq, %skv) by(#attn.causal)
    %split, %masked1, %count1 = attn_tile.kv_tile_iterator at(%b, %h) queries(%i, 128)
        keys(176) lengths(%sq, %skv) by(#attn.causal) split(%p of %n)
    ```
  }];
  let arguments = (ins Index:$batch, Index:$head, Index:$first_query,
                       I64Attr:$query_tile, I64Attr:$key_tile,
                       Index:$query_length, Index:$key_length,
                       OptionalAttr<Attn_MaskAttrInterface>:$mask,
                       Optional<MemRefRankOf<[I32], [4]>>:$list,
                       Variadic<Index>:$row, Optional<I1>:$needed,
                       Optional<Index>:$split, Optional<Index>:$splits);
  let builders = [OpBuilder<(ins
      "::mlir::Value":$batch, "::mlir::Value":$head,
      "::mlir::Value":$first_query, "int64_t":$query_tile, "int64_t":$key_tile,
      "::mlir::Value":$query_length, "::mlir::Value":$key_length,
      "::mlir::attn::MaskAttrInterface":$mask,
      CArg<"::mlir::Value", "{}">:$list,
      CArg<"::mlir::ValueRange", "{}">:$row), [{
    build($_builder, $_state, batch, head, first_query, query_tile, key_tile,
          query_length, key_length, mask, list, row, /*needed=*/nullptr,
          /*split=*/nullptr, /*splits=*/nullptr);
  }]>];
  let results = (outs AttnTile_KVTileIteratorType:$tiles, Index:$masked, Index:$count);
  let regions = (region MaxSizedRegion<1>:$mask_mod);
  let assemblyFormat = [{
    `at` `(` $batch `,` $head `)` `queries` `(` $first_query `,` $query_tile `)`
    `keys` `(` $key_tile `)` `lengths` `(` $query_length `,` $key_length `)`
    (`by` `(` $mask^ `)`)?
    (`listed` `(` $list^ `[` $row `]` `:` type($list) `)`)?
    (`if` `(` $needed^ `)`)?
    (`split` `(` $split^ `of` $splits `)`)?
    attr-dict (`mask_mod` custom<ClosedRegion>($mask_mod)^)?
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def AttnTile_KVTileAtOp : AttnTile_Op<"kv_tile_at", [
    Pure, DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "the kv tile of an iteration";
  let description = [{
    The index of the kv tile that iteration `step` of an iterator visits.
    `step` must be less than the `count` of the iterator.

    ```mlir
    %tile = attn_tile.kv_tile_at %tiles[%t]
    ```
  }];
  let arguments = (ins AttnTile_KVTileIteratorType:$tiles, Index:$step);
  let results = (outs Index:$tile);
  let assemblyFormat = "$tiles `[` $step `]` attr-dict";
}

def AttnTile_IsSplitEmptyOp : AttnTile_Op<"is_split_empty", [Pure]> {
  let summary = "whether a split has no kv tiles";
  let description = [{
    Whether `tiles`, an iterator over a split, has no iteration of its own. The
    results of its one iteration must then be discarded. False for an unsplit
    iterator.

    ```mlir
    %none = attn_tile.is_split_empty %tiles
    ```
  }];
  let arguments = (ins AttnTile_KVTileIteratorType:$tiles);
  let results = (outs I1:$empty);
  let assemblyFormat = "$tiles attr-dict";
}

def AttnTile_PackGQAOp : AttnTile_Op<"pack_gqa", [
    Pure, DeclareOpInterfaceMethods<ViewLikeOpInterface>]> {
  let summary = "views the query heads of a GQA group as rows of one head";
  let description = [{
    The result views `source`, which has query heads in dimension `rows - 1` and
    queries in dimension `rows` of the result's layout, with one row for each query
    and query head of a GQA group (see `#attn_tile.packed_gqa`). A source with one
    dimension less has no queries: its elements are the same for all queries of a
    head.

    ```mlir
    %q = attn_tile.pack_gqa %query : memref<?x32x16x128xbf16>
        to memref<?x8x64x128xbf16, #attn_tile.packed_gqa<rank = 4, rows = 2, group_size = 4>>
    %s = attn_tile.pack_gqa %sinks : memref<32xf32>
        to memref<8x64xf32, #attn_tile.packed_gqa<rank = 2, rows = 1, group_size = 4>>
    ```
  }];
  let arguments = (ins AnyMemRef:$source);
  let results = (outs AnyMemRef:$packed);
  let builders = [OpBuilder<(ins "::mlir::Value":$source, "int64_t":$rows,
                                 "int64_t":$groupSize, "int64_t":$numQueries)>];
  let assemblyFormat = "$source attr-dict `:` type($source) `to` type($packed)";
  let extraClassDeclaration = [{
    /// Whether the source has a dimension of queries.
    bool hasQueries() {
      return getSource().getType().getRank() == getPacked().getType().getRank();
    }
    /// The shape of the view of a source of `shape`.
    static ::llvm::SmallVector<int64_t>
    getPackedShape(::llvm::ArrayRef<int64_t> shape, int64_t rows,
                   int64_t groupSize, int64_t numQueries);
  }];
  let hasVerifier = 1;
}

def AttnTile_MapOp : AttnTile_Op<"map", [
    Pure, SingleBlock, AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "applies a scalar region to each element of a tile";
  let description = [{
    The region gets an element and its position `(batch, head, query, key)` and
    yields the new element. Element `(i, j)` of the tile is at
    `(batch, head, first_query + i, first_key + j)`. With `transposed`, rows are
    keys and columns are queries: element `(i, j)` is at
    `(batch, head, first_query + j, first_key + i)`. With several sources, all
    of the type of the result, the region gets one element of each. Elements
    whose query or key is beyond `query_length` or `key_length` have an
    undefined result.

    `others` are tiles of the same shape or vectors with one element per row.
    The region gets the element at the same place, or the element of the row, as
    further arguments.

    ```mlir
    %r = attn_tile.map %s at(%b, %h, %i, %j) lengths(%sq, %skv)
        : vector<64x64xf32> {
    ^bb0(%x: f32, %bb: index, %hh: index, %q: index, %k: index):
      %y = math.tanh %x : f32
      attn_tile.yield %y : f32
    }
    %t = attn_tile.map %s at(%b, %h, %i, %j) lengths(%sq, %skv)
        with(%bias, %factor : vector<64x64xf32>, vector<64xf32>)
        : vector<64x64xf32> {
    ^bb0(%x: f32, %bb: index, %hh: index, %q: index, %k: index, %y: f32, %z: f32):
      %w = math.fma %x, %z, %y : f32
      attn_tile.yield %w : f32
    }
    ```
  }];
  let arguments = (ins Variadic<AnyVectorOfNonZeroRank>:$sources,
                       Index:$batch, Index:$head,
                       Index:$first_query, Index:$first_key,
                       Index:$query_length, Index:$key_length,
                       Variadic<AnyVectorOfNonZeroRank>:$others,
                       UnitAttr:$transposed);
  let results = (outs AnyVectorOfNonZeroRank:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sources `at` `(` $batch `,` $head `,` $first_query `,` $first_key `)`
    `lengths` `(` $query_length `,` $key_length `)`
    (`with` `(` $others^ `:` type($others) `)`)? (`transposed` $transposed^)?
    attr-dict `:` custom<MapTypes>(ref($sources), type($sources), type($result))
    custom<ClosedRegion>($body)
  }];
  let builders = [OpBuilder<(ins "::mlir::ValueRange":$sources,
      "::mlir::Value":$batch, "::mlir::Value":$head,
      "::mlir::Value":$firstQuery, "::mlir::Value":$firstKey,
      "::mlir::Value":$queryLength, "::mlir::Value":$keyLength,
      CArg<"bool", "false">:$transposed)>];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def AttnTile_MaskOp : AttnTile_Op<"mask", [
    Pure, AllTypesMatch<["source", "result"]>, SingleBlock,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "sets masked scores to minus infinity";
  let description = [{
    Element `(i, j)` of the tile is at position
    `(batch, head, first_query + i, first_key + j)`. With `transposed`, it is at
    `(batch, head, first_query + j, first_key + i)`. An element is kept if its
    key is less than `key_length`, the mask attribute (if any) keeps it, and the
    `mask_mod` region (if any) yields true for its position. Otherwise it
    becomes minus infinity. Elements beyond `query_length` are undefined.

    ```mlir
    %r = attn_tile.mask %s at(%b, %h, %i, %j) lengths(%sq, %skv)
        by(#attn.causal) : vector<64x64xf32>
    ```
  }];
  let arguments = (ins AnyVectorOfNonZeroRank:$source, Index:$batch, Index:$head,
                       Index:$first_query, Index:$first_key,
                       Index:$query_length, Index:$key_length,
                       OptionalAttr<Attn_MaskAttrInterface>:$mask,
                       UnitAttr:$transposed);
  let results = (outs AnyVectorOfNonZeroRank:$result);
  let regions = (region MaxSizedRegion<1>:$mask_mod);
  let assemblyFormat = [{
    $source `at` `(` $batch `,` $head `,` $first_query `,` $first_key `)`
    `lengths` `(` $query_length `,` $key_length `)` (`by` `(` $mask^ `)`)?
    (`transposed` $transposed^)? attr-dict `:` type($source)
    (`mask_mod` custom<ClosedRegion>($mask_mod)^)?
  }];
  let hasRegionVerifier = 1;
}

def AttnTile_LoadMaskBitsOp : AttnTile_Op<"load_mask_bits", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "loads the mask bitmap of a tile";
  let description = [{
    Loads the mask bitmap of a tile, one bit per element, that an earlier kernel
    has written: the bitmap of iteration `step` of the row `row` of tiles of a
    batch entry and head. The last dimension of the i32 source has the number of
    words of the result type.

    ```mlir
    %m = attn_tile.load_mask_bits %bits[%b, %h, %row, %step]
        : memref<?x1x?x?x512xi32> -> !attn_tile.mask_bits<128x128>
    ```
  }];
  let arguments = (ins MemRefRankOf<[I32], [5]>:$source, Index:$batch,
                       Index:$head, Index:$row, Index:$step);
  let results = (outs AttnTile_MaskBitsType:$result);
  let assemblyFormat = [{
    $source `[` $batch `,` $head `,` $row `,` $step `]` attr-dict
    `:` type($source) `->` type($result)
  }];
  let hasVerifier = 1;
}

def AttnTile_ApplyMaskBitsOp : AttnTile_Op<"apply_mask_bits", [
    Pure, AllTypesMatch<["source", "result"]>]> {
  let summary = "masks scores by a mask bitmap";
  let description = [{
    Keeps the elements of an f32 tile whose bit in `bits` is set. Other elements
    become minus infinity.

    ```mlir
    %r = attn_tile.apply_mask_bits %s by %m
        : vector<128x128xf32>, !attn_tile.mask_bits<128x128>
    ```
  }];
  let arguments = (ins VectorOfRankAndType<[2], [F32]>:$source,
                       AttnTile_MaskBitsType:$bits);
  let results = (outs VectorOfRankAndType<[2], [F32]>:$result);
  let assemblyFormat = [{
    $source `by` $bits attr-dict `:` type($source) `,` type($bits)
  }];
  let hasVerifier = 1;
}

def AttnTile_ScatterAddOp : AttnTile_Op<"scatter_add", [
    SingleBlock, DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "adds the elements of a tile to elements of an array";
  let description = [{
    Adds each nonzero element of an f32 tile to an element of the f32 array
    `dest`. The region maps the position `(batch, head, query, key)` of the
    tile's element, as in `attn_tile.map`, to the indices in `dest`. Elements
    whose query or key is beyond its length count as zero. If indices are out of
    bounds, it is undefined whether and where the element is added. Additions
    are atomic. Their order is undefined, unless all of them come from one row
    of the tiles of one CTA.

    If the indices do not depend on the query, or not on the key, the elements
    are summed along that dimension first.

    ```mlir
    attn_tile.scatter_add %ds into %dbias at(%b, %h, %i, %j) lengths(%sq, %skv)
        : vector<64x64xf32> into memref<32x?xf32> {
    ^bb0(%bb: index, %hh: index, %q: index, %k: index):
      attn_tile.yield %hh, %k : index, index
    }
    ```
  }];
  let arguments = (ins VectorOfRankAndType<[2], [F32]>:$tile,
                       MemRefOf<[F32]>:$dest,
                       Index:$batch, Index:$head,
                       Index:$first_query, Index:$first_key,
                       Index:$query_length, Index:$key_length,
                       UnitAttr:$transposed);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $tile `into` $dest `at` `(` $batch `,` $head `,` $first_query `,` $first_key `)`
    `lengths` `(` $query_length `,` $key_length `)` (`transposed` $transposed^)?
    attr-dict `:` type($tile) `into` type($dest) custom<ClosedRegion>($body)
  }];
  let hasRegionVerifier = 1;
}

def AttnTile_GenerateKeepMaskOp : AttnTile_Op<"generate_keep_mask", [Pure]> {
  let summary = "generates the dropout keep mask of a tile";
  let description = [{
    Generates the dropout keep mask of the tile of attention probabilities that
    starts at query `first_query` and key `first_key`, both multiples of 16.
    `stream` are the four i32 words of the random stream of a batch entry and
    head (docs/rng.md).

    ```mlir
    %d = attn_tile.generate_keep_mask at(%i, %j) stream(%y0, %y1, %y2, %y3)
        by(#attn.dropout<p = 0.125, rng = #attn.philox>)
        : !attn_tile.keep_mask<64x176>
    ```
  }];
  let arguments = (ins Index:$first_query, Index:$first_key,
                       Variadic<I32>:$stream, Attn_DropoutAttr:$dropout);
  let results = (outs AttnTile_KeepMaskType:$result);
  let assemblyFormat = [{
    `at` `(` $first_query `,` $first_key `)` `stream` `(` $stream `)`
    `by` `(` $dropout `)` attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
}

/// The upstream definition would define its enumerations a second time.
def AttnTile_MaskLayoutAttr
    : Attr<CPred<"::llvm::isa<::mlir::attn::MaskLayoutAttr>($_self)">,
           "#attn<mask_layout> attribute"> {
  let storageType = "::mlir::attn::MaskLayoutAttr";
  let returnType = "::mlir::attn::MaskLayout";
  let convertFromStorage = "$_self.getValue()";
  let constBuilderCall = "::mlir::attn::MaskLayoutAttr::get($_builder.getContext(), $0)";
}

def AttnTile_LoadKeepMaskOp : AttnTile_Op<"load_keep_mask", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "loads the dropout keep mask of a tile";
  let description = [{
    Loads the dropout keep mask of the tile of attention probabilities that
    starts at query `first_query` and key `first_key`, both multiples of 16. The
    source is an i32 keep mask in a layout of `attn.dropout_mask`, indexed by
    batch entry and head. For a `whole` result, `first_key` is a multiple of the
    tile's columns and the rows of the source start at multiples of 16 bytes.
    Bits of positions beyond the source are undefined.

    ```mlir
    %d = attn_tile.load_keep_mask %mask[%b, %h] rows at(%i, %j)
        : memref<?x32x?x?xi32> -> !attn_tile.keep_mask<64x176>
    ```
  }];
  let arguments = (ins MemRefRankOf<[I32], [4]>:$source, Index:$batch, Index:$head,
                       AttnTile_MaskLayoutAttr:$layout,
                       Index:$first_query, Index:$first_key);
  let results = (outs AttnTile_KeepMaskType:$result);
  let assemblyFormat = [{
    $source `[` $batch `,` $head `]` $layout
    `at` `(` $first_query `,` $first_key `)` attr-dict
    `:` type($source) `->` type($result)
  }];
}

def AttnTile_DropoutOp : AttnTile_Op<"dropout", [
    Pure, AllTypesMatch<["source", "result"]>]> {
  let summary = "sets dropped attention probabilities to zero";
  let description = [{
    Keeps the elements of a tile that `keep_mask` keeps. Other elements become
    zero.

    `below_two` states that all elements are less than 2. Dropped elements then
    only need to become less than 2^-31, which f32 accumulation does not
    distinguish from zero: on GPUs one exponent bit of a bf16 is cleared instead
    of all bits.

    ```mlir
    %r = attn_tile.dropout %p by %d below_two
        : vector<64x176xbf16>, !attn_tile.keep_mask<64x176>
    ```
  }];
  let arguments = (ins VectorOfRankAndType<[2], [BF16, F16, F32]>:$source,
                       AttnTile_KeepMaskType:$keep_mask,
                       UnitAttr:$below_two);
  let results = (outs VectorOfRankAndType<[2], [BF16, F16, F32]>:$result);
  let assemblyFormat = [{
    $source `by` $keep_mask (`below_two` $below_two^)? attr-dict `:` type($source) `,` type($keep_mask)
  }];
  let hasVerifier = 1;
}

def AttnTile_YieldOp : AttnTile_Op<"yield", [
    Pure, ReturnLike, Terminator, 
    ParentOneOf<["WarpCompactOp", "ThreadForOp", "KVTileIteratorOp", "MapOp", "MaskOp",
                 "ReduceOp", "ScatterAddOp"]>]> {
  let summary = "terminates a scalar region";
  let description = [{
    Yields the results of a scalar region.

    ```mlir
    attn_tile.yield %y : f32
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^)? attr-dict (`:` type($values)^)?";
  let extraClassDeclaration = [{
    /// The value, where the region has one result.
    ::mlir::Value getValue() { return getOperand(0); }
  }];
}

def AttnTile_RescaleOp : AttnTile_Op<"rescale", [Pure,
    AllTypesMatch<["source", "result"]>]> {
  let summary = "multiplies each row by a factor that is often one";
  let description = [{
    `result[i, j] = source[i, j] * factor[i]`, in f32. The multiplication may be
    skipped where all factors are one; on a GPU a warp branches around it then.

    ```mlir
    %acc1 = attn_tile.rescale %acc by %alpha : vector<64x128xf32>, vector<64xf32>
    ```
  }];
  let arguments = (ins VectorOfRankAndType<[2], [F32]>:$source,
                       VectorOfRankAndType<[1], [F32]>:$factor);
  let results = (outs VectorOfRankAndType<[2], [F32]>:$result);
  let assemblyFormat =
      "$source `by` $factor attr-dict `:` type($source) `,` type($factor)";
  let hasVerifier = 1;
}

def AttnTile_InvertTriangularOp : AttnTile_Op<"invert_triangular", [
    MemoryEffects<[MemRead, MemWrite]>, AllTypesMatch<["tile", "result"]>]> {
  let summary = "inverts the identity plus a lower triangular tile";
  let description = [{
    `result = (1 + tile)^-1`, in f32, where `tile` is square and zero on and above its
    diagonal, as in the WY form of the delta rule. Its size is a power of two from 64
    on, and 16 for each warp.

    Each warp inverts a block of 16 x 16 on the diagonal by forward substitution, one
    column a lane. Twice as large blocks follow, until there is one: below the
    diagonal they are minus the inverse of the second half times the block times the
    inverse of the first, so that no more cancels than in substitution. MMAs with
    three tf32 terms multiply (`#attn_tile.mma_sync`); additions of their largest terms
    are in f32. All threads of the CTA run this together. They exchange the tile
    through the only stage of `pipe`, which has no other use;
    `attn-tile-create-pipes` adds it.

    ```mlir
    %t = attn_tile.invert_triangular %a : vector<64x64xf32>
    %u = attn_tile.invert_triangular %a in %p : vector<64x64xf32>,
        !attn_tile.pipe<64x64xf32, stages = 1>
    ```
  }];
  let arguments = (ins VectorOfRankAndType<[2], [F32]>:$tile,
                       Optional<AttnTile_PipeType>:$pipe);
  let results = (outs VectorOfRankAndType<[2], [F32]>:$result);
  let assemblyFormat = [{
    $tile (`in` $pipe^)? attr-dict `:` type($tile) (`,` type($pipe)^)?
  }];
  let hasVerifier = 1;
}

def AttnTile_SubtractRowsOp : AttnTile_Op<"subtract_rows", [Pure,
    AllTypesMatch<["source", "result"]>]> {
  let summary = "subtracts a number that is nearly always zero from each row";
  let description = [{
    `result[i, j] = source[i, j] - subtrahend[i]`, in f32. The subtraction may
    be skipped where all subtrahends are zero; on a GPU a warp branches around
    it then.

    The online softmax uses it for rows with a very large maximum. There the
    maximum times the scale, rounded to f32, has an error that exceeds the
    tolerance of the attention probabilities (docs/Numerics.md).

    ```mlir
    %s1 = attn_tile.subtract_rows %shift from %s : vector<64xf32>, vector<64x128xf32>
    ```
  }];
  let arguments = (ins VectorOfRankAndType<[1], [F32]>:$subtrahend,
                       VectorOfRankAndType<[2], [F32]>:$source);
  let results = (outs VectorOfRankAndType<[2], [F32]>:$result);
  let assemblyFormat = [{
    $subtrahend `from` $source attr-dict `:` type($subtrahend) `,` type($source)
  }];
  let hasVerifier = 1;
}

def AttnTile_EmulateExp2Op : AttnTile_Op<"emulate_exp2", [Pure,
    AllTypesMatch<["source", "result"]>]> {
  let summary = "computes powers of two, some of them by polynomials";
  let description = [{
    `result[i, j] = 2^source[i, j]`, in f32; the source must be below 128. A GPU
    computes `sixteenths` of every 16 elements with FMAs and the others with its
    special function units. The polynomial has degree three on [-1/2, 1/2] and a
    relative error of at most 1.1e-4, less than rounding to 16 bits adds; powers
    below 2^-126 are 0 (FlashAttention-4, Zadouri et al. 2026). Only kernels for
    GPUs may contain it.

    ```mlir
    %p = attn_tile.emulate_exp2 %s polynomials 4 : vector<64x128xf32>
    ```
  }];
  let arguments = (ins VectorOfRankAndType<[2], [F32]>:$source,
                       ConfinedAttr<I64Attr, [IntMinValue<1>, IntMaxValue<16>]>:$sixteenths);
  let results = (outs VectorOfRankAndType<[2], [F32]>:$result);
  let assemblyFormat =
      "$source `polynomials` $sixteenths attr-dict `:` type($source)";
}

def AttnTile_PartialSumOp : AttnTile_Op<"partial_sum", [Pure,
    AllTypesMatch<["acc", "result"]>]> {
  let summary = "adds column blocks of a tile";
  let description = [{
    `result[i, c] = acc[i, c] + sum over k of source[i, k * P + c]`, in f32, for
    a result with `P` columns. A row sum over many tiles is kept as `P` partial
    values until the end of the loop, so that threads exchange values only once.

    ```mlir
    %l1 = attn_tile.partial_sum %p into %l : vector<64x64xf32> into vector<64x8xf32>
    ```
  }];
  let arguments = (ins VectorOfRankAndType<[2], [F32]>:$source,
                       VectorOfRankAndType<[2], [F32]>:$acc);
  let results = (outs VectorOfRankAndType<[2], [F32]>:$result);
  let assemblyFormat =
      "$source `into` $acc attr-dict `:` type($source) `into` type($acc)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Pipes
//===----------------------------------------------------------------------===//

def AttnTile_CreatePipeOp : AttnTile_Op<"create_pipe", [
    MemoryEffects<[MemAlloc]>]> {
  let summary = "creates a pipe";
  let description = [{
    Reserves shared memory for the stages and the full and empty barriers of a
    pipe while the kernel runs. `attn-tile-allocate-pipes` sets the byte offsets
    in shared memory: `offset` of the first stage, `barriers` of the first
    stage's barriers.

    ```mlir
    %p = attn_tile.create_pipe : !attn_tile.pipe<64x128xbf16, stages = 2>
    %p = attn_tile.create_pipe at(1024) barriers(0)
        : !attn_tile.pipe<64x128xbf16, stages = 2>
    ```
  }];
  let arguments = (ins
      OptionalAttr<ConfinedAttr<I64Attr, [IntNonNegative]>>:$offset,
      OptionalAttr<ConfinedAttr<I64Attr, [IntNonNegative]>>:$barriers);
  let results = (outs AttnTile_PipeType:$pipe);
  let assemblyFormat = [{
    (`at` `(` $offset^ `)`)? (`barriers` `(` $barriers^ `)`)? attr-dict
    `:` type($pipe)
  }];
}

class AttnTile_PipeAccessOp<string mnemonic> : AttnTile_Op<mnemonic, [
    MemoryEffects<[MemRead, MemWrite]>,
    TypesMatchWith<"buffer is one stage of the pipe", "pipe", "buffer",
                   "::llvm::cast<PipeType>($_self).getBufferType()">]> {
  let arguments = (ins AttnTile_PipeType:$pipe, Index:$position);
  let results = (outs AttnTile_BufferType:$buffer);
  let assemblyFormat = "$pipe `[` $position `]` attr-dict `:` type($pipe)";
}

def AttnTile_AcquireOp : AttnTile_PipeAccessOp<"acquire"> {
  let summary = "waits until a stage is empty and takes it for writing";
  let description = [{
    Takes stage `position mod stages`. Positions are acquired in order from 0,
    each one once. Exactly one `commit` in the same block gives the buffer up.

    ```mlir
    %b = attn_tile.acquire %p[%t] : !attn_tile.pipe<64x128xbf16, stages = 2>
    ```
  }];
}

def AttnTile_WaitOp : AttnTile_PipeAccessOp<"wait"> {
  let summary = "waits until a stage is full and takes it for reading";
  let description = [{
    Takes stage `position mod stages`. Positions are waited for in order from 0,
    each one once. Exactly one `release` in the same block gives the buffer up,
    unless a loop carries the buffer to the iteration that releases it.

    ```mlir
    %b = attn_tile.wait %p[%t] : !attn_tile.pipe<64x128xbf16, stages = 2>
    ```
  }];
}

def AttnTile_CopyOp : AttnTile_Op<"copy", [
    AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "starts a copy of a tile from global memory to a stage";
  let description = [{
    Starts an asynchronous copy of the tile at `indices`, one per dimension of
    the source, in elements. The copy is complete when a `wait` sees the
    `commit` of the buffer. The source is a memref or a tensor map; elements
    outside of it are zero. `pages` and `stored` are as in `attn_tile.load`,
    `pages` with the page size.

    ```mlir
    attn_tile.copy %k[%b, %h, %j, %c0] to %buffer
        : memref<?x8x?x128xbf16> to !attn_tile.buffer<64x128xbf16>
    ```
  }];
  let arguments = (ins AnyTypeOf<[AnyMemRef, AttnTile_TensorMapType]>:$source,
                       Variadic<Index>:$indices, AttnTile_BufferType:$buffer,
                       Optional<MemRefRankOf<[I32], [2]>>:$page_table,
                       Optional<Index>:$num_keys, Optional<Index>:$num_pages,
                       Optional<MemRefRankOf<[I32], [1]>>:$fault,
                       DefaultValuedAttr<ConfinedAttr<I64Attr, [IntNonNegative]>,
                                         "0">:$page_size,
                       OptionalAttr<Attn_KVAddressingAttrInterface>:$addressing,
                       Optional<Index>:$first_stored, Optional<Index>:$num_stored);
  let builders = [OpBuilder<(ins
      "::mlir::Value":$source, "::mlir::ValueRange":$indices,
      "::mlir::Value":$buffer), [{
    build($_builder, $_state, source, indices, buffer, /*page_table=*/nullptr,
          /*num_keys=*/nullptr, /*num_pages=*/nullptr, /*fault=*/nullptr,
          /*page_size=*/0, /*addressing=*/nullptr, /*first_stored=*/nullptr,
          /*num_stored=*/nullptr);
  }]>];
  let extraClassDeclaration = [{
    /// Rows that are contiguous in the source: of the tile, or of a page, which
    /// `stored` may have, too.
    int64_t getContiguousRows();
  }];
  let assemblyFormat = [{
    $source `[` $indices `]`
    (`pages` $page_size `(` $page_table^ `,` $num_keys `,` $num_pages `,` $fault
        `:` type($page_table) `,` type($fault) `)`)?
    (`stored` `(` $addressing^ `from` $first_stored `of` $num_stored `)`)?
    `to` $buffer attr-dict `:` type($source) `to` type($buffer)
  }];
  let hasVerifier = 1;
}

def AttnTile_CommitOp : AttnTile_Op<"commit", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "marks a stage full once the copies to it are complete";
  let description = [{
    Gives up a buffer that `attn_tile.acquire` took. The stage becomes full when
    all copies to it have arrived.

    ```mlir
    attn_tile.commit %b : !attn_tile.buffer<64x128xbf16>
    ```
  }];
  let arguments = (ins AttnTile_BufferType:$buffer);
  let assemblyFormat = "$buffer attr-dict `:` type($buffer)";
}

def AttnTile_ClearOp : AttnTile_Op<"clear", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "clears the rows of a stage outside of a sequence";
  let description = [{
    Row `r` of the buffer is row `first + r` of a sequence of `extent` rows.
    Rows outside of the sequence become zero. All threads that read the buffer
    run this between its `wait` and the first MMA that reads it.

    ```mlir
    attn_tile.clear %b within(%j of %skv) : !attn_tile.buffer<64x128xbf16>
    ```
  }];
  let arguments = (ins AttnTile_BufferType:$buffer, Index:$first, Index:$extent);
  let assemblyFormat = [{
    $buffer `within` `(` $first `of` $extent `)` attr-dict `:` type($buffer)
  }];
}

def AttnTile_ReadOp : AttnTile_Op<"read", [
    MemoryEffects<[MemRead]>]> {
  let summary = "reads a tile from a full stage to registers";
  let description = [{
    Each thread reads the elements of the tile that the kernel's `layout`
    assigns to it. Of a tile with one row, it reads the columns that it holds of
    every row.

    ```mlir
    %row = attn_tile.read %b
        : !attn_tile.buffer<1x64xf32> -> vector<1x64xf32>
    %tile = attn_tile.read %c
        : !attn_tile.buffer<128x64xbf16> -> vector<128x64xbf16>
    ```
  }];
  let arguments = (ins AttnTile_BufferType:$buffer);
  let results = (outs VectorOfRankAndType<[2], [AnyFloat]>:$tile);
  let assemblyFormat = "$buffer attr-dict `:` type($buffer) `->` type($tile)";
  let hasVerifier = 1;
}

def AttnTile_ReleaseOp : AttnTile_Op<"release", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "marks a stage empty";
  let description = [{
    Gives up a buffer that `attn_tile.wait` took. MMAs that read the buffer must
    have been waited for, and values that threads read from it must have arrived
    in their registers. If no MMA and no `local_store` before the release
    ensures the latter, `after` does: row values that are computed from
    everything that was read. Nothing else orders arithmetic before a release.

    ```mlir
    attn_tile.release %b : !attn_tile.buffer<64x128xbf16>
    attn_tile.release %c after(%max : vector<64xf32>)
        : !attn_tile.buffer<64x128xbf16>
    ```
  }];
  let arguments = (ins AttnTile_BufferType:$buffer,
                       Optional<VectorOfRankAndType<[1], [F32]>>:$after);
  let builders = [OpBuilder<(ins "::mlir::Value":$buffer), [{
    build($_builder, $_state, buffer, /*after=*/::mlir::Value());
  }]>];
  let assemblyFormat = [{
    $buffer (`after` `(` $after^ `:` type($after) `)`)? attr-dict
    `:` type($buffer)
  }];
}

def AttnTile_LocalStoreOp : AttnTile_Op<"local_store", [
    MemoryEffects<[MemRead, MemWrite]>,
    TypesMatchWith<"buffer is one stage of the pipe", "pipe", "buffer",
                   "::llvm::cast<PipeType>($_self).getBufferType()">]> {
  let summary = "stores a register tile to shared memory";
  let description = [{
    Each warpgroup of the role writes its part of a tile to the stage of `position`
    and waits until all warpgroups have done so. MMAs may then read the whole tile.
    Positions are stored in order, each one once, and the stages of the pipe have no
    other use. MMAs that read a tile must have been waited for before the tile of the
    next position is stored. Tiles of f32 are operands of `#attn_tile.mma_sync` alone.

    A tile with fewer columns than the stage is stored at column `first_column`.
    Such tiles are stored in column order; the one with the last column waits
    for all warpgroups.

    ```mlir
    %b = attn_tile.local_store %ds in %pipe[%t] : vector<128x64xbf16>,
        !attn_tile.pipe<128x64xbf16, stages = 2>
    %c = attn_tile.local_store %ds in %wide[%t] from(64) : vector<128x64xbf16>,
        !attn_tile.pipe<128x128xbf16, stages = 2>
    ```
  }];
  let arguments = (ins VectorOfRankAndType<[2], [BF16, F16, F32]>:$tile,
                       AttnTile_PipeType:$pipe, Index:$position,
                       DefaultValuedAttr<ConfinedAttr<I64Attr, [IntNonNegative]>,
                                         "0">:$first_column);
  let results = (outs AttnTile_BufferType:$buffer);
  let assemblyFormat = [{
    $tile `in` $pipe `[` $position `]` (`from` `(` $first_column^ `)`)? attr-dict
    `:` type($tile) `,` type($pipe)
  }];
  let hasVerifier = 1;
}

def AttnTile_LocalConvertOp : AttnTile_Op<"local_convert", [
    MemoryEffects<[MemRead, MemWrite]>, AttrSizedOperandSegments,
    TypesMatchWith<"result is one stage of the pipe", "pipe", "result",
                   "::llvm::cast<PipeType>($_self).getBufferType()">]> {
  let summary = "converts a stage of 8-bit elements to 16 bits";
  let description = [{
    The warpgroups of the role read the tile in `buffer`, each its part, write
    it with the element type of the pipe to the stage of `position`, and wait
    until all warpgroups have done so. MMAs may then read the whole result, and
    the buffer may be released. Conversions are exact. Positions are converted
    in order, each one once, and the stages of the pipe have no other use. MMAs
    that read a result must have been waited for before the next position is
    converted. With `within`, row `r` is row `first + r` of a sequence of
    `extent` rows, and rows outside of the sequence become zero.

    ```mlir
    %c = attn_tile.local_convert %b in %pipe[%t]
        : !attn_tile.buffer<64x128xf8E4M3FN>,
          !attn_tile.pipe<64x128xbf16, stages = 1>
    %d = attn_tile.local_convert %b in %pipe[%t] within(%j of %skv)
        : !attn_tile.buffer<64x128xf8E4M3FN>,
          !attn_tile.pipe<64x128xbf16, stages = 1>
    ```
  }];
  let arguments = (ins AttnTile_BufferType:$buffer, AttnTile_PipeType:$pipe,
                       Index:$position, Optional<Index>:$first,
                       Optional<Index>:$extent);
  let results = (outs AttnTile_BufferType:$result);
  let assemblyFormat = [{
    $buffer `in` $pipe `[` $position `]`
    (`within` `(` $first^ `of` $extent `)`)? attr-dict
    `:` type($buffer) `,` type($pipe)
  }];
  let hasVerifier = 1;
}

def AttnTile_ConvertOp : AttnTile_Op<"convert", [
    MemoryEffects<[MemRead, MemWrite]>, AttrSizedOperandSegments]> {
  let summary = "fills a stage of a pipe with a tile of 8-bit elements";
  let description = [{
    Waits until the stage of `position` is empty, writes the tile in `buffer` to
    it with the element type of the pipe, and makes it full. Consumers wait for
    the stage, and release it, as one that copies fill. The threads that run the
    operation each convert their part, and may then release `buffer`.
    Conversions are exact. With `within`, row `r` is row `first + r` of a
    sequence of `extent` rows, and rows outside of the sequence become zero.

    `attn-tile-split-roles` moves it to the warps that the producer leaves idle,
    which fill no other pipes. With `first_warp`, it stays with the consumer, whose
    warps from that one on run it.

    ```mlir
    attn_tile.convert %b to %pipe[%t]
        : !attn_tile.buffer<64x128xf8E4M3FN>, !attn_tile.pipe<64x128xbf16, stages = 1>
    attn_tile.convert %b to %pipe[%t] within(%j of %skv) from warp 1
        : !attn_tile.buffer<64x128xf8E4M3FN>, !attn_tile.pipe<64x128xbf16, stages = 1>
    ```
  }];
  let arguments = (ins AttnTile_BufferType:$buffer, AttnTile_PipeType:$pipe,
                       Index:$position, Optional<Index>:$first,
                       Optional<Index>:$extent,
                       OptionalAttr<ConfinedAttr<I64Attr, [IntPositive]>>:$first_warp);
  let assemblyFormat = [{
    $buffer `to` $pipe `[` $position `]`
    (`within` `(` $first^ `of` $extent `)`)? (`from` `warp` $first_warp^)? attr-dict
    `:` type($buffer) `,` type($pipe)
  }];
  let hasVerifier = 1;
}

/// Bytes; the values that the CUDA driver supports.
def AttnTile_L2PromotionAttr
    : ConfinedAttr<I64Attr, [AttrConstraint<
        CPred<"::mlir::attn_tile::isL2Promotion(::llvm::cast<::mlir::IntegerAttr>($_self).getInt())">,
        "whose value is 0, 64, 128 or 256">]>;

def AttnTile_MakeTensorMapOp : AttnTile_Op<"make_tensor_map", [
    MemoryEffects<[MemRead]>]> {
  let summary = "creates a tensor map of a memref";
  let description = [{
    Host side: describes a memref, with its sizes and strides at run time, for
    bulk copies (TMA). Reads through the map fetch blocks of `l2_promotion`
    bytes (0, 64, 128 or 256) to L2. Large blocks suit tiles whose neighbours
    other CTAs read soon. Small blocks suit tiles that are read once, column
    block by column block.

    ```mlir
    %m = attn_tile.make_tensor_map %k
        : memref<?x8x?x128xbf16> -> !attn_tile.tensor_map<4, 176x64xbf16>
    ```
  }];
  let arguments = (ins AnyMemRef:$source,
                       DefaultValuedAttr<AttnTile_L2PromotionAttr, "256">:$l2_promotion);
  let results = (outs AttnTile_TensorMapType:$map);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($map)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// MMAs
//===----------------------------------------------------------------------===//

def AttnTile_MmaStartOp : AttnTile_Op<"mma_start", [
    MemoryEffects<[MemRead]>]> {
  let summary = "starts an asynchronous MMA";
  let description = [{
    Starts `acc + lhs * rhs`, or `lhs * rhs` without `acc`, with f32
    accumulation. `lhs` is `MxK` in registers or in a stage, or `KxM` in a stage
    with `transpose_lhs`. `rhs` is `KxN` in a stage, or `NxK` with
    `transpose_rhs`. Both have the same element type; the result is a pending
    `MxN` tile of f32.

    Stages must not be released before the MMA has been waited for. `acc` may be
    an MMA `in_flight`, on whose result the new one accumulates. With
    `first_row`, the result has only the rows of a staged `lhs` from that row
    on. With `first_column`, it has only the columns of a `KxN` `rhs` from that
    column on; with `consumer_columns`, the columns of the consumer, as in
    `attn_tile.consumer_columns`.
    `mma` is the instruction; if it is absent, the target chooses one
    by the element type and the `precision` of the kernel.

    ```mlir
    %s = attn_tile.mma_start %q, %k transpose_rhs
        : !attn_tile.buffer<64x128xbf16>, !attn_tile.buffer<176x128xbf16>
        -> !attn_tile.pending<vector<64x176xf32>>
    %o = attn_tile.mma_start %p, %v acc %o0
        : vector<64x176xbf16>, !attn_tile.buffer<176x128xbf16>
        -> !attn_tile.pending<vector<64x128xf32>>
    %d = attn_tile.mma_start %k, %g transpose_lhs first_row(128)
        : !attn_tile.buffer<128x256xbf16>, !attn_tile.buffer<128x48xbf16>
        -> !attn_tile.pending<vector<128x48xf32>>
    %k1 = attn_tile.mma_start %g1, %q1 first_column(256)
        : vector<64x48xbf16>, !attn_tile.buffer<48x512xbf16>
        -> !attn_tile.pending<vector<64x256xf32>>
    %k2 = attn_tile.mma_start %g1, %q1 consumer_columns
        : vector<64x48xbf16>, !attn_tile.buffer<48x512xbf16>
        -> !attn_tile.pending<vector<64x256xf32>>
    ```
  }];
  let arguments = (ins
      AnyTypeOf<[AttnTile_BufferType, AnyVectorOfNonZeroRank]>:$lhs,
      AttnTile_BufferType:$rhs,
      Optional<AnyTypeOf<[VectorOfRankAndType<[2], [F32]>,
                          AttnTile_PendingType]>>:$acc,
      UnitAttr:$transpose_lhs, UnitAttr:$transpose_rhs,
      OptionalAttr<ConfinedAttr<I64Attr, [IntNonNegative]>>:$first_row,
      OptionalAttr<ConfinedAttr<I64Attr, [IntNonNegative]>>:$first_column,
      UnitAttr:$consumer_columns,
      OptionalAttr<AttnTile_MmaAttrInterface>:$mma);
  let results = (outs AttnTile_PendingType:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs (`transpose_lhs` $transpose_lhs^)? (`transpose_rhs` $transpose_rhs^)?
    (`first_row` `(` $first_row^ `)`)? (`first_column` `(` $first_column^ `)`)?
    (`consumer_columns` $consumer_columns^)?
    (`mma` `(` $mma^ `)`)? (`acc` $acc^)? attr-dict
    `:` type($lhs) `,` type($rhs) custom<AccType>(ref($acc), type($acc), type($result))
  }];
  let hasVerifier = 1;
}

def AttnTile_MmaWaitOp : AttnTile_Op<"mma_wait", [
    MemoryEffects<[MemRead, MemWrite]>,
    TypesMatchWith<"result is the pending value", "pending", "result",
                   "::llvm::cast<PendingType>($_self).getValueType()">]> {
  let summary = "waits for an MMA";
  let description = [{
    Returns the result of a pending MMA in registers. MMAs complete in the order
    in which they were started, so this waits for all earlier ones, too.

    ```mlir
    %v = attn_tile.mma_wait %s : !attn_tile.pending<vector<64x176xf32>>
    ```
  }];
  let arguments = (ins AttnTile_PendingType:$pending);
  let results = (outs AnyVectorOfNonZeroRank:$result);
  let assemblyFormat = "$pending attr-dict `:` type($pending)";
}

def AttnTile_MmaWaitBeforeOp : AttnTile_Op<"mma_wait_before", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits for the MMAs before one";
  let description = [{
    Waits for all MMAs that were started before the given one, which stays in
    flight. The stages that the completed MMAs read may then be released.

    ```mlir
    attn_tile.mma_wait_before %s : !attn_tile.pending<vector<64x176xf32>>
    ```
  }];
  let arguments = (ins AttnTile_PendingType:$pending);
  let assemblyFormat = "$pending attr-dict `:` type($pending)";
}

//===----------------------------------------------------------------------===//
// Roles
//===----------------------------------------------------------------------===//

def AttnTile_RoleOp : AttnTile_Op<"role", [
    HasParent<"KernelOp">, NoTerminator, SingleBlock, RecursiveMemoryEffects]> {
  let summary = "the program of some warpgroups";
  let description = [{
    The roles of a kernel run at the same time, each on its own warpgroups,
    which are assigned in the order of the roles. Roles exchange data through
    pipes. Every warpgroup of a role runs the whole body; register tiles are
    spread over all warpgroups of the role. `registers` is the number of 32-bit
    registers per thread, a multiple of 8 from 24 to 256.

    ```mlir
    attn_tile.role consumer warpgroups(2) registers(240) {
    }
    ```
  }];
  let arguments = (ins AttnTile_RoleKindAttr:$kind,
                       ConfinedAttr<I64Attr, [IntPositive]>:$warpgroups,
                       ConfinedAttr<I64Attr, [IntPositive]>:$registers);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $kind `warpgroups` `(` $warpgroups `)` `registers` `(` $registers `)`
    attr-dict-with-keyword custom<ClosedRegion>($body)
  }];
  let hasVerifier = 1;
}

def AttnTile_AuxiliaryWarpsOp : AttnTile_Op<"auxiliary_warps", [
    HasParent<"KernelOp">, NoTerminator, SingleBlock, RecursiveMemoryEffects]> {
  let summary = "a scalar program on warps that are otherwise idle";
  let description = [{
    Work that runs concurrently with the rest of the kernel, on the warps that
    the producer leaves idle: all warps of its warpgroup but the first. Neither
    side reads memory that the other one writes, unless it has waited for a
    semaphore. The threads of the producer warpgroup have at least `registers`
    registers. `warps` is the number of idle warps that run the body. At most
    one such operation of a kernel has no `warps`; it gets all idle warps that
    the others leave.

    Each of these warps acts as a CTA of one warp: `attn_tile.program_id 0` and
    `attn_tile.num_programs 0` count the warps of all CTAs, and the threads of a
    warp divide the indices of `attn_tile.thread_for`. As in kernels of
    `#attn_tile.scalar`, there are no tiles. As first written, the body holds
    one `scf.forall` over its own work items.

    The warps may also wait for stages, `attn_tile.convert` them, all together,
    and release them.

    With `joined`, the consumer warps run the body, too, once they have finished
    their own. All warps then get their work from `attn_tile.fetch_work_item`,
    and `attn_tile.program_id` and `attn_tile.num_programs` count the CTAs of
    the kernel.

    ```mlir
    attn_tile.kernel @mma_and_list(%list: memref<?xi32>, %x: i32, %n: index) {
      attn_tile.auxiliary_warps {
        attn_tile.thread_for to(%n) {
        ^bb0(%i: index):
          memref.store %x, %list[%i] : memref<?xi32>
          attn_tile.yield
        }
      }
      attn_tile.return
    }
    ```
  }];
  let arguments = (ins
      DefaultValuedAttr<ConfinedAttr<I64Attr, [IntPositive]>, "64">:$registers,
      UnitAttr:$joined,
      OptionalAttr<ConfinedAttr<I64Attr, [IntPositive]>>:$warps);
  let builders = [OpBuilder<(ins "int64_t":$registers,
                                 CArg<"bool", "false">:$joined), [{
    build($_builder, $_state, static_cast<uint64_t>(registers), joined,
          /*warps=*/::mlir::IntegerAttr());
  }]>];
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    (`warps` `(` $warps^ `)`)? (`registers` `(` $registers^ `)`)? (`joined` $joined^)? attr-dict-with-keyword
    custom<ClosedRegion>($body)
  }];
  let hasRegionVerifier = 1;
}

def AttnTile_FetchWorkItemOp : AttnTile_Op<"fetch_work_item", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "takes the next work item number of the CTA";
  let description = [{
    An atomic ticket: gives each warp that executes it a number of its own, from
    0 in each CTA. Only in `attn_tile.auxiliary_warps` with `joined`.

    ```mlir
    %k = attn_tile.fetch_work_item
    ```
  }];
  let results = (outs Index:$number);
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

def AttnTile_ThroughputHintOp : AttnTile_Op<"throughput_hint", [HasParent<"AuxiliaryWarpsOp">]> {
  let summary = "relative speed of an auxiliary warp";
  let description = [{
    Only in `attn_tile.auxiliary_warps` with `joined`: states that an idle warp
    completes `part / whole` of an auxiliary work item while the rest of the
    kernel completes one of its work items. From this, `attn-tile-set-traversal`
    activates as few idle warps as finish together with the rest of the kernel.
    Their arithmetic takes power from the MMAs, to which the device responds
    with a lower clock rate. The loss is smallest if the arithmetic is spread
    over the whole time.

    ```mlir
    attn_tile.throughput_hint %part of %whole
    ```
  }];
  let arguments = (ins Index:$part, Index:$whole);
  let assemblyFormat = "$part `of` $whole attr-dict";
}

def AttnTile_IsActiveWarpOp : AttnTile_Op<"is_active_warp", [Pure]> {
  let summary = "whether this warp takes auxiliary work items";
  let description = [{
    True in the first `count` idle warps and in consumer warps that have joined.
    Only in `attn_tile.auxiliary_warps` with `joined`.

    ```mlir
    %b = attn_tile.is_active_warp %count
    ```
  }];
  let arguments = (ins Index:$count);
  let results = (outs I1:$result);
  let assemblyFormat = "$count attr-dict";
  let hasVerifier = 1;
}

def AttnTile_HasRowsOp : AttnTile_Op<"has_rows", [Pure]> {
  let summary = "whether this warp has rows below a number";
  let description = [{
    True in the warps of a role of one warpgroup that have rows below `n` of tiles
    of 64 rows: warp `w` has the rows from `16 w` on. In a role.

    ```mlir
    %b = attn_tile.has_rows below(%n)
    ```
  }];
  let arguments = (ins Index:$n);
  let results = (outs I1:$result);
  let assemblyFormat = "`below` `(` $n `)` attr-dict";
}

def AttnTile_PingpongWaitOp : AttnTile_Op<"pingpong_wait", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until this warpgroup may start MMAs";
  let description = [{
    The warpgroups of a role alternate, the first one first: one warpgroup
    starts its MMAs while the others compute their softmax. Each wait needs an
    `attn_tile.pingpong_arrive` of the preceding warpgroup; the first warpgroup
    starts without one.

    ```mlir
    attn_tile.pingpong_wait
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def AttnTile_PingpongArriveOp : AttnTile_Op<"pingpong_arrive", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "lets the next warpgroup start MMAs";
  let description = [{
    Wakes the `attn_tile.pingpong_wait` of the next warpgroup of the role; the
    first warpgroup follows the last.

    ```mlir
    attn_tile.pingpong_arrive
    ```
  }];
  let assemblyFormat = "attr-dict";
}

#endif // ATTN_DIALECT_ATTNTILE_IR_ATTNTILEOPS_TD
