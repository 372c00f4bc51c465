//===- AttnTileOps.td - Operations of attn_tile ------------*- tablegen -*-===//
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

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

def AttnTile_KernelOp : AttnTile_Op<"kernel", [
    AffineScope, AutomaticAllocationScope, FunctionOpInterface,
    IsolatedFromAbove, OpAsmOpInterface]> {
  let summary = "a kernel as a program on tiles";
  let description = [{
    A function that one group of threads runs. As first written, its body holds
    one `scf.forall` over the work items; a traversal pass replaces that by a
    walk over the items of this group.

    `layout` says how register tiles are spread over the threads of the group
    (of each consumer role, once there are roles); it is absent on the host.
    With `cluster`, that many groups with neighbouring places in the grid run at
    the same time and can reach each other's workgroup memory.

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
                       OptionalAttr<ConfinedAttr<I64Attr, [IntPositive]>>:$cluster);
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

    /// Groups of a cluster.
    int64_t getClusterSize() {
      return static_cast<int64_t>(getCluster().value_or(1));
    }
  }];
}

def AttnTile_ReturnOp : AttnTile_Op<"return", [
    Pure, HasParent<"KernelOp">, Terminator, ReturnLike]> {
  let summary = "end of a kernel";
  let description = [{
    Ends the body of a kernel; kernels return nothing.

    ```mlir
    attn_tile.return
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def AttnTile_LaunchOp : AttnTile_Op<"launch", [
    AttrSizedOperandSegments, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs a kernel";
  let description = [{
    Runs a kernel with the given arguments. Without a grid the kernel walks its
    work items by itself. With a grid, `grid` groups are launched, each of which
    reads its place with `attn_tile.program_id`. With `groups_per_multiprocessor`
    the first grid dimension is an upper bound: no more groups are launched than
    fit on the device that many to a multiprocessor. With `on` it runs on that
    stream, else on the one that the function's caller gives. With `early` it
    may begin while what is before it on the stream still runs: the kernel must
    do all that depends on that after `attn_tile.await_launches`. With `together`
    no group begins before all of them can run at the same time, so that they may
    wait for one another.

    ```mlir
    attn_tile.launch @fwd grid(%n, %c1, %c1) args(%q, %k) : memref<?xf32>, memref<?xf32>
    attn_tile.launch @merge early args(%q, %k) : memref<?xf32>, memref<?xf32>
    attn_tile.launch @walk together grid(%n, %c1, %c1) groups_per_multiprocessor(1) args(%q) : memref<?xf32>
    ```
  }];
  let arguments = (ins SymbolRefAttr:$kernel, Variadic<Index>:$grid,
                       Variadic<AnyType>:$kernel_operands,
                       OptionalAttr<ConfinedAttr<I64Attr, [IntPositive]>>:$groups_per_multiprocessor,
                       Optional<AttnTile_StreamType>:$stream, UnitAttr:$early,
                       UnitAttr:$together);
  let builders = [
    OpBuilder<(ins "::mlir::SymbolRefAttr":$kernel, "::mlir::ValueRange":$grid,
                   "::mlir::ValueRange":$kernel_operands,
                   "::mlir::IntegerAttr":$groups_per_multiprocessor), [{
      build($_builder, $_state, kernel, grid, kernel_operands,
            groups_per_multiprocessor, /*stream=*/::mlir::Value(),
            /*early=*/::mlir::UnitAttr(), /*together=*/::mlir::UnitAttr());
    }]>,
  ];
  let assemblyFormat = [{
    $kernel (`early` $early^)? (`together` $together^)? (`on` `(` $stream^ `)`)?
    (`grid` `(` $grid^ `)`)?
    (`groups_per_multiprocessor` `(` $groups_per_multiprocessor^ `)`)?
    `args` `(` ($kernel_operands^ `:` type($kernel_operands))? `)` attr-dict
  }];
  let hasVerifier = 1;
}

def AttnTile_AllowLaunchesOp : AttnTile_Op<"allow_launches"> {
  let summary = "lets the next kernel begin";
  let description = [{
    Once each group of the kernel has come here, or has ended, a kernel that is
    launched `early` after it may begin. What this kernel does later is seen
    there only after `attn_tile.await_launches`.

    ```mlir
    attn_tile.allow_launches
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def AttnTile_AwaitLaunchesOp : AttnTile_Op<"await_launches"> {
  let summary = "waits for the kernels before this one";
  let description = [{
    Waits until all that is before the launch of this kernel on its stream is
    done, and its stores can be seen. Does nothing if the launch is not `early`.

    ```mlir
    attn_tile.await_launches
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def AttnTile_ForkStreamOp : AttnTile_Op<"fork_stream"> {
  let summary = "lets kernels run beside those that follow";
  let description = [{
    Gives a stream whose kernels start after what the caller's stream holds so
    far. It is in use until `attn_tile.join_stream`.

    ```mlir
    %side = attn_tile.fork_stream
    attn_tile.launch @product args(%c) : memref<?xf32>
    attn_tile.launch @mask on(%side) args(%m) : memref<?xi32>
    attn_tile.join_stream %side
    ```
  }];
  let results = (outs AttnTile_StreamType:$stream);
  let assemblyFormat = "attr-dict";
}

def AttnTile_JoinStreamOp : AttnTile_Op<"join_stream"> {
  let summary = "waits for what runs beside";
  let description = [{
    What follows on the caller's stream starts after what `stream` holds. The
    stream must not be used afterwards.

    ```mlir
    attn_tile.join_stream %side
    ```
  }];
  let arguments = (ins AttnTile_StreamType:$stream);
  let assemblyFormat = "$stream attr-dict";
}

def AttnTile_ProgramIdOp : AttnTile_Op<"program_id", [
    Pure, DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "this group's place in the grid";
  let description = [{
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
    ```mlir
    %n = attn_tile.num_programs 0
    ```
  }];
  let arguments = (ins ConfinedAttr<I32Attr, [IntNonNegative, IntMaxValue<2>]>:$dim);
  let results = (outs Index:$result);
  let assemblyFormat = "$dim attr-dict";
}

class AttnTile_ClusterOp<string mnemonic> : AttnTile_Op<mnemonic, [
    Pure, DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let results = (outs Index:$result);
  let assemblyFormat = "attr-dict";
}

def AttnTile_ClusterIdOp : AttnTile_ClusterOp<"cluster_id"> {
  let summary = "the place of this group's cluster among the clusters";
  let description = [{
    Clusters are counted along the first dimension of the grid.

    ```mlir
    %c = attn_tile.cluster_id
    ```
  }];
}

def AttnTile_NumClustersOp : AttnTile_ClusterOp<"num_clusters"> {
  let summary = "number of clusters of the grid";
  let description = [{
    ```mlir
    %n = attn_tile.num_clusters
    ```
  }];
}

def AttnTile_ClusterRankOp : AttnTile_ClusterOp<"cluster_rank"> {
  let summary = "this group's place in its cluster";
  let description = [{
    What does not depend on it is the same in all groups of a cluster.

    ```mlir
    %r = attn_tile.cluster_rank
    ```
  }];
}

def AttnTile_AtMostOp : AttnTile_Op<"at_most", [
    Pure, AllTypesMatch<["value", "bound", "result"]>]> {
  let summary = "a value with a bound that is known earlier";
  let description = [{
    The smaller of `value`, which the kernel finds out, and `bound`, which
    follows from its arguments. Where work items are counted by such a value,
    launches are made for the bound.

    ```mlir
    %n = attn_tile.at_most %found, %rows
    ```
  }];
  let arguments = (ins Index:$value, Index:$bound);
  let results = (outs Index:$result);
  let assemblyFormat = "$value `,` $bound attr-dict";
}

def AttnTile_FaultWordOp : AttnTile_Op<"fault_word", [
    MemoryEffects<[MemRead]>]> {
  let summary = "where kernels report bad input";
  let description = [{
    Host side: one word of memory that kernels write when what they read is not
    as it must be, and that the runtime looks at without waiting for them. A
    kernel writes a code of `attnrt_fault` there, or leaves it as it is. Behind the
    word there may be others, for numbers that belong to a code.

    ```mlir
    %fault = attn_tile.fault_word : memref<1xi32>
    ```
  }];
  let results = (outs MemRefRankOf<[I32], [1]>:$word);
  let assemblyFormat = "attr-dict `:` type($word)";
}

//===----------------------------------------------------------------------===//
// Scalars that the threads of a group share
//===----------------------------------------------------------------------===//

/// Not by its own definition, whose enumerations would be defined once more.
def AttnTile_CombiningKindAttr : Attr<
    CPred<"::llvm::isa<::mlir::vector::CombiningKindAttr>($_self)">,
    "#vector.kind attribute">;

def AttnTile_ReduceOp : AttnTile_Op<"reduce", [
    RecursiveMemoryEffects, SingleBlock,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "sums and bounds of scalars over a range";
  let description = [{
    The region computes scalars from a number; the results are their sums
    (`add`), smallest (`minsi`) or largest (`maxsi`) values over `[0, count)`:
    of an empty range 0, the largest and the smallest number of 32 bits. Scalars
    and results are numbers of 32 bits, or f32, which are summed up alone. The
    threads of the group share the numbers, and all of them get the results. The
    region may read memory, but has no other effect.

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
    /// Emits what a reduction of kind `kind` to a `type` starts with.
    static ::mlir::Value emitNeutral(::mlir::OpBuilder &builder,
                                     ::mlir::Location loc,
                                     ::mlir::vector::CombiningKind kind,
                                     ::mlir::Type type);
  }];
}

def AttnTile_EachOp : AttnTile_Op<"each", [
    RecursiveMemoryEffects, SingleBlock,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "runs a region for each number of a range";
  let description = [{
    Runs the region for each number in `[0, count)`. The threads of the group
    share the numbers; the region must not read what it writes. A thread takes
    `together` numbers at a time while there are as many for each thread: they
    are as far apart as there are threads, and what they have in common is
    computed once.

    ```mlir
    attn_tile.each to(%count) together(4) {
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

def AttnTile_CompactOp : AttnTile_Op<"compact", [
    RecursiveMemoryEffects, SingleBlock,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "runs a region for those numbers of a range that are chosen";
  let description = [{
    The first region says which numbers of `[0, count)` are chosen. The second one
    runs for each of these, with the number and its rank among them, from 0. The
    result is how many there are. The threads of the group share the numbers;
    no region may read what the second one writes.

    ```mlir
    %n = attn_tile.compact to(%count) where {
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
  let summary = "loads a tile";
  let description = [{
    Reads the tile that starts at `indices`; the tile's dimensions are the last
    ones of the source. Elements outside of the source are zero; `in_bounds`
    says that there are none.

    With `within`, row `r` of the tile is number `first + r` of a sequence of
    `extent` rows; rows that are not of the sequence are zero, whatever the
    source holds there.

    `unaligned` says that rows of the source may start at any element; else
    they start at multiples of 16 bytes.

    `any_order` says that the order of the elements of a row does not matter, as
    for the sum of a row of products. It is the same for all such tiles of one
    type from sources with the same static last dimension, at the same constant
    last index.

    `position` and `length` place the load in a stream of loads: this is tile
    number `position` (from 0) of the `length` that the work item reads from
    this source, in order. Pipes are built from streams.

    ```mlir
    %k = attn_tile.load %key[%b, %h, %j, %c0] stream(%t of %n)
        : memref<?x8x?x128xbf16> -> vector<64x128xbf16>
    ```
  }];
  let arguments = (ins AnyMemRef:$source, Variadic<Index>:$indices,
                       Optional<Index>:$first, Optional<Index>:$extent,
                       Optional<Index>:$position, Optional<Index>:$length,
                       UnitAttr:$in_bounds, UnitAttr:$unaligned,
                       UnitAttr:$any_order);
  let results = (outs AnyVectorOfNonZeroRank:$result);
  let builders = [OpBuilder<(ins
      "::mlir::Type":$type, "::mlir::Value":$source,
      "::mlir::ValueRange":$indices, "::mlir::Value":$position,
      "::mlir::Value":$length, CArg<"bool", "false">:$inBounds), [{
    build($_builder, $_state, type, source, indices, /*first=*/nullptr,
          /*extent=*/nullptr, position, length, inBounds, /*unaligned=*/false,
          /*any_order=*/false);
  }]>];
  let assemblyFormat = [{
    $source `[` $indices `]` (`within` `(` $first^ `of` $extent `)`)?
    (`stream` `(` $position^ `of` $length `)`)?
    (`in_bounds` $in_bounds^)? (`unaligned` $unaligned^)?
    (`any_order` $any_order^)? attr-dict
    `:` type($source) `->` type($result)
  }];
  let hasVerifier = 1;
}

def AttnTile_StoreOp : AttnTile_Op<"store", [
    AttrSizedOperandSegments, DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "stores a tile";
  let description = [{
    Writes a tile at `indices`; the tile's dimensions are the last ones of the
    destination, in reverse order with `transposed`. Elements outside of the
    destination are dropped.

    With `within`, row `r` of the tile (column `r` with `transposed`) is number
    `first + r` of a sequence of `extent` rows; rows that are not of the sequence
    are dropped.

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
  let summary = "stores a tile through workgroup memory";
  let description = [{
    Writes a tile at `indices`, as `attn_tile.store` does, by copies that go on
    while the group does other things. The tile is cut into blocks of the size of
    a stage of the pipe, which each warpgroup has the same number of and uses for
    nothing else. A stage is written once the copies that read it have done so.

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

def AttnTile_PackOp : AttnTile_Op<"pack", [
    MemoryEffects<[MemRead, MemWrite]>,
    TypesMatchWith<"buffer is one stage of the pipe", "pipe", "buffer",
                   "::llvm::cast<PipeType>($_self).getBufferType()">]> {
  let summary = "puts a register tile into workgroup memory, packed";
  let description = [{
    Writes the tile to the only stage of the pipe, which is as large as the tile
    and used for nothing else, in the order of a packed tile (see
    `attn_tile.add_packed`). Waits until the additions that read the stage have
    done so. Those of `attn_tile.add_in_turn` need the position, which counts the
    tiles from 0 on.

    ```mlir
    %b = attn_tile.pack %t in %pipe : vector<128x64xf32>,
        !attn_tile.pipe<128x64xf32, stages = 1>
    %c = attn_tile.pack %t in %pipe[%n] : vector<128x64xf32>,
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

def AttnTile_PublishOp : AttnTile_Op<"publish", [
    MemoryEffects<[MemRead, MemWrite]>,
    TypesMatchWith<"buffer is one stage of the pipe", "pipe", "buffer",
                   "::llvm::cast<PipeType>($_self).getBufferType()">]> {
  let summary = "leaves a packed tile to those who add it";
  let description = [{
    What `attn_tile.pack` has put into the stage, in the same block, may be read
    from now on by the `attn_tile.add_in_turn` of its position.

    ```mlir
    attn_tile.publish %b in %pipe[%n] : !attn_tile.pipe<128x64xf32, stages = 1>
    ```
  }];
  let arguments = (ins AttnTile_BufferType:$buffer, AttnTile_PipeType:$pipe,
                       Index:$position);
  let assemblyFormat = [{
    $buffer `in` $pipe `[` $position `]` attr-dict `:` type($pipe)
  }];
  let hasVerifier = 1;
}

def AttnTile_AddPackedOp : AttnTile_Op<"add_packed", [
    AttrSizedOperandSegments, DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "adds a tile to a packed tile";
  let description = [{
    Adds the elements of a tile to those of a packed tile, each addition being
    atomic. The order of additions of different groups is not defined, unless
    they have turns. Those of a tile that `attn_tile.pack` has put into workgroup
    memory go on while the group does other things.

    With `turn`, all additions to a packed tile are made one after the other:
    number 0 first. The counter at `turn_indices` is of this tile alone, and zero
    at first. Groups wait for one another then (see `attn_tile.await_count`): there must be an order of all
    additions which those of each group, and those to each tile, follow, and a
    group waits for none but those that others have begun, or will without
    waiting for it.

    A packed tile is a tile in global memory whose elements follow one another in
    an order that belongs to the target: that in which the threads of a group
    hold them, so that each access is of consecutive bytes. It is understood only
    by groups whose tiles have the same shape and are spread in the same way. The
    tile takes the place of as many whole rows, from `indices` on, of an array
    of contiguous f32 values.

    ```mlir
    attn_tile.add_packed %t to %sums[%b, %h, %i, %c0]
        : vector<128x64xf32> to memref<?x32x?x128xf32>
    attn_tile.add_packed %buffer to %sums[%b, %h, %i, %c0]
        : !attn_tile.buffer<128x64xf32> to memref<?x32x?x128xf32>
    attn_tile.add_packed %t to %sums[%b, %h, %i, %c0] turn(%n of %turns[%b, %h, %i])
        : vector<128x64xf32> to memref<?x32x?x128xf32>, memref<?x32x?xi32>
    ```
  }];
  let arguments = (ins
      AnyTypeOf<[VectorOfRankAndType<[2], [F32]>, AttnTile_BufferType]>:$value,
      AnyMemRef:$dest, Variadic<Index>:$indices, Optional<Index>:$turn,
      Optional<MemRefOf<[I32]>>:$turns, Variadic<Index>:$turn_indices);
  let assemblyFormat = [{
    $value `to` $dest `[` $indices `]`
    (`turn` `(` $turn^ `of` $turns `[` $turn_indices `]` `)`)? attr-dict
    `:` type($value) `to` type($dest) (`,` type($turns)^)?
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$value, "::mlir::Value":$dest,
                                 "::mlir::ValueRange":$indices)>];
  let extraClassDeclaration = [{
    /// The type of the tile, also if it is in workgroup memory.
    ::mlir::VectorType getTileType();
  }];
  let hasVerifier = 1;
}

def AttnTile_AddInTurnOp : AttnTile_Op<"add_in_turn", [
    AttrSizedOperandSegments, DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "adds published tiles to packed tiles, in turns";
  let description = [{
    What idle warps do for `attn_tile.add_packed` with a turn: one of two, in turn,
    waits until it is the turn of the tile that is published at the position and
    until that is there, starts the addition, gives the stage back once it has been
    read, and counts once the addition is complete. So the others of the group wait
    for no group.

    ```mlir
    attn_tile.add_in_turn %pipe[%p] to %sums[%b, %h, %i, %c0] turn(%n of %turns[%b, %h, %i])
        : !attn_tile.pipe<128x64xf32, stages = 1> to memref<?x32x?x128xf32>, memref<?x32x?xi32>
    ```
  }];
  let arguments = (ins
      AttnTile_PipeType:$pipe, Index:$position, AnyMemRef:$dest,
      Variadic<Index>:$indices, Index:$turn, MemRefOf<[I32]>:$turns,
      Variadic<Index>:$turn_indices);
  let assemblyFormat = [{
    $pipe `[` $position `]` `to` $dest `[` $indices `]`
    `turn` `(` $turn `of` $turns `[` $turn_indices `]` `)` attr-dict
    `:` type($pipe) `to` type($dest) `,` type($turns)
  }];
  let hasVerifier = 1;
}

def AttnTile_StorePackedOp : AttnTile_Op<"store_packed", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "stores a packed tile";
  let description = [{
    Stores a tile as a packed tile, as `attn_tile.add_packed` describes it. If all
    elements are equal, groups with tiles of any shape may add to it.

    ```mlir
    attn_tile.store_packed %zeros to %sums[%b, %h, %i, %c0]
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

def AttnTile_LoadPackedOp : AttnTile_Op<"load_packed", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "loads a packed tile";
  let description = [{
    Loads the elements of a packed tile, as `attn_tile.add_packed` added to them.

    ```mlir
    %t = attn_tile.load_packed %sums[%b, %h, %i, %c0]
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

def AttnTile_RoundPackedOp : AttnTile_Op<"round_packed", [
    AttrSizedOperandSegments, DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "takes the elements of a packed tile";
  let description = [{
    Stores the elements of a packed tile (see `attn_tile.add_packed`), times
    `factor` and rounded, and leaves zeros in their place. The tile's rows go to
    those of the destination from `dest_indices` on, or to its columns if
    `transposed`; what lies outside of the destination is left out. Of `parts`
    parts of the tile, which different groups may take, it is number `part`.

    ```mlir
    attn_tile.round_packed %sums[%s, %c0, %i, %c0] to %dq[%b, %h, %i, %c0] part(%p of 4) times 0.125 transposed
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
// Counters
//===----------------------------------------------------------------------===//

def AttnTile_CountOp : AttnTile_Op<"count", [
    AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "counts what the group has done";
  let description = [{
    Counts one more at `indices`, once all that the group has stored and added
    before, in any way, is seen by who waits for that by `attn_tile.await_count`.
    The unit of what is stored is up to the target; zero is zero.

    With `of additions`, that is said of `attn_tile.add_packed` alone. Where
    these go through a pipe (see `attn_tile.pack`), `attn-tile-create-pipes` adds
    `after`, with the pipe and the number of the work item, from 0 on; and
    `attn-tile-split-roles` leaves the count to an idle warp: it waits for what
    the device takes to order additions before a count, while consumers, who say
    by `attn_tile.complete` that they have added, go on.

    ```mlir
    attn_tile.count %counters[%i] : memref<?xi32>
    attn_tile.count %counters[%i] of additions : memref<?xi32>
    attn_tile.count %counters[%i] of additions after(%pipe[%n])
        : memref<?xi32>, !attn_tile.pipe<128x64xf32, stages = 1>
    ```
  }];
  let arguments = (ins MemRefOf<[I32]>:$counters, Variadic<Index>:$indices,
                       Optional<AttnTile_PipeType>:$pipe,
                       Optional<Index>:$position, UnitAttr:$additions);
  let assemblyFormat = [{
    $counters `[` $indices `]` (`of` `additions` $additions^)?
    (`after` `(` $pipe^ `[` $position `]` `)`)?
    attr-dict `:` type($counters) (`,` type($pipe)^)?
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$counters,
                                 "::mlir::ValueRange":$indices,
                                 CArg<"bool", "false">:$additions)>];
  let hasVerifier = 1;
}

def AttnTile_CompleteOp : AttnTile_Op<"complete", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "says that the additions through a pipe are complete";
  let description = [{
    Each warp of the consumers waits for its additions through the pipe (see
    `attn_tile.pack`), and says so to the one `attn_tile.count` after them, which
    an idle warp runs as often as they run this.

    ```mlir
    attn_tile.complete %pipe : !attn_tile.pipe<128x64xf32, stages = 1>
    ```
  }];
  let arguments = (ins AttnTile_PipeType:$pipe);
  let assemblyFormat = "$pipe attr-dict `:` type($pipe)";
  let hasVerifier = 1;
}

def AttnTile_AwaitCountOp : AttnTile_Op<"await_count", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until groups have counted to a number";
  let description = [{
    Waits until `attn_tile.count` has counted to `number` at `indices`. Zero is
    not waited for. A producer waits before it fills what comes after, and
    consumers by waiting for that.

    Groups that wait for one another need a launch that is `together`, which
    `attn-tile-set-traversal` makes, and an order: there must always be one that
    waits for nothing but what others have begun.

    ```mlir
    attn_tile.await_count %counters[%i] to(%n) : memref<?xi32>
    ```
  }];
  let arguments = (ins MemRefOf<[I32]>:$counters, Variadic<Index>:$indices,
                       Index:$number);
  let assemblyFormat = [{
    $counters `[` $indices `]` `to` `(` $number `)` attr-dict `:` type($counters)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

def AttnTile_KeyTilesOp : AttnTile_Op<"key_tiles", [
    AttrSizedOperandSegments, Pure, SingleBlock,
    DeclareOpInterfaceMethods<OpAsmOpInterface,
        ["getAsmResultNames", "getAsmBlockArgumentNames"]>]> {
  let summary = "which key tiles a tile of queries needs";
  let description = [{
    The steps of the loop over key tiles. `attn_tile.tile_at` gives the tile that
    a step visits. Tiles that are not visited hold no attended pair; no tile is
    visited twice. Steps `[0, masked)` visit tiles in which some pairs may be
    masked, steps `[masked, count)` tiles in which no pair is.
    `1 <= masked <= count`: there is always one step, and the first one is always
    treated as masked.

    Pairs are masked by the key length, by the mask attribute (if any) and by the
    region (if any), as by `attn_tile.mask`.

    With `listed`, tiles have been classified by a kernel that ran before. The
    row of the list at the given place begins with the number of tiles in which
    some pairs are masked and the number of all that hold a pair; the numbers of
    the former follow, and those of the others end the row, the first one last.

    If `needed` is given and false, nobody uses what comes of the tiles, and only
    the step that there always is is left.

    With `part(%i of %n)`, the steps are those of one share of this walk: of its
    `count` steps, `[count * i / n, count * (i + 1) / n)`. A share without steps
    has one all the same, which visits a tile of another share;
    `attn_tile.walk_is_empty` tells so.

    ```mlir
    %tiles, %masked, %count = attn_tile.key_tiles at(%b, %h) queries(%i, 128)
        keys(176) lengths(%sq, %skv) by(#attn.causal)
    %share, %masked1, %count1 = attn_tile.key_tiles at(%b, %h) queries(%i, 128)
        keys(176) lengths(%sq, %skv) by(#attn.causal) part(%p of %n)
    ```
  }];
  let arguments = (ins Index:$batch, Index:$head, Index:$first_query,
                       I64Attr:$query_tile, I64Attr:$key_tile,
                       Index:$query_length, Index:$key_length,
                       OptionalAttr<Attn_MaskAttrInterface>:$mask,
                       Optional<MemRefRankOf<[I32], [4]>>:$list,
                       Variadic<Index>:$row, Optional<I1>:$needed,
                       Optional<Index>:$part, Optional<Index>:$parts);
  let builders = [OpBuilder<(ins
      "::mlir::Value":$batch, "::mlir::Value":$head,
      "::mlir::Value":$first_query, "int64_t":$query_tile, "int64_t":$key_tile,
      "::mlir::Value":$query_length, "::mlir::Value":$key_length,
      "::mlir::attn::MaskAttrInterface":$mask,
      CArg<"::mlir::Value", "{}">:$list,
      CArg<"::mlir::ValueRange", "{}">:$row), [{
    build($_builder, $_state, batch, head, first_query, query_tile, key_tile,
          query_length, key_length, mask, list, row, /*needed=*/nullptr,
          /*part=*/nullptr, /*parts=*/nullptr);
  }]>];
  let results = (outs AttnTile_TileWalkType:$tiles, Index:$masked, Index:$count);
  let regions = (region MaxSizedRegion<1>:$keep);
  let assemblyFormat = [{
    `at` `(` $batch `,` $head `)` `queries` `(` $first_query `,` $query_tile `)`
    `keys` `(` $key_tile `)` `lengths` `(` $query_length `,` $key_length `)`
    (`by` `(` $mask^ `)`)?
    (`listed` `(` $list^ `[` $row `]` `:` type($list) `)`)?
    (`if` `(` $needed^ `)`)?
    (`part` `(` $part^ `of` $parts `)`)?
    attr-dict (`keep` custom<ClosedRegion>($keep)^)?
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def AttnTile_TileAtOp : AttnTile_Op<"tile_at", [
    Pure, DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "the tile that a step visits";
  let description = [{
    The number of the tile that step `step` of a walk visits. The step must be
    one of the walk.

    ```mlir
    %tile = attn_tile.tile_at %tiles[%t]
    ```
  }];
  let arguments = (ins AttnTile_TileWalkType:$tiles, Index:$step);
  let results = (outs Index:$tile);
  let assemblyFormat = "$tiles `[` $step `]` attr-dict";
}

def AttnTile_WalkIsEmptyOp : AttnTile_Op<"walk_is_empty", [Pure]> {
  let summary = "whether a share of a walk has no steps";
  let description = [{
    Whether `tiles`, a share of a walk, has no step of its own, so that what its
    one step computes must be left out. False of whole walks.

    ```mlir
    %none = attn_tile.walk_is_empty %tiles
    ```
  }];
  let arguments = (ins AttnTile_TileWalkType:$tiles);
  let results = (outs I1:$empty);
  let assemblyFormat = "$tiles attr-dict";
}

def AttnTile_MapOp : AttnTile_Op<"map", [
    Pure, SingleBlock, AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "applies a scalar region to each element of a tile";
  let description = [{
    The region gets an element and its position `(batch, head, query, key)`,
    where element `(i, j)` of the tile is at `(batch, head, first_query + i,
    first_key + j)`, and yields the new element. With several sources, all of
    one type, it gets an element of each. With `transposed`, rows are keys and
    columns queries: element `(i, j)` is at `(batch, head, first_query + j,
    first_key + i)`. Elements whose query or key is beyond its length are not
    mapped; the result has any value there.

    `others` are tiles of the same shape, of which the region gets the element
    at the same place, and vectors of rows, of which it gets the element of the
    row, as further arguments.

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
    Element `(i, j)` of the tile is at `(batch, head, first_query + i,
    first_key + j)`; with `transposed`, at `(batch, head, first_query + j,
    first_key + i)`. It is kept if its key is within the key length, the mask
    attribute (if any) keeps it and the region (if any) yields true for it, and
    is minus infinity otherwise. Elements beyond the query length have any value.

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
  let regions = (region MaxSizedRegion<1>:$keep);
  let assemblyFormat = [{
    $source `at` `(` $batch `,` $head `,` $first_query `,` $first_key `)`
    `lengths` `(` $query_length `,` $key_length `)` (`by` `(` $mask^ `)`)?
    (`transposed` $transposed^)? attr-dict `:` type($source)
    (`keep` custom<ClosedRegion>($keep)^)?
  }];
  let hasRegionVerifier = 1;
}

def AttnTile_LoadPairBitsOp : AttnTile_Op<"load_pair_bits", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "reads a bit for each pair of a tile";
  let description = [{
    Reads the bits of a tile that a kernel before has written: those of step
    `step` of a row of tiles, of a batch entry and head.

    ```mlir
    %m = attn_tile.load_pair_bits %bits[%b, %h, %row, %step]
        : memref<?x1x?x?x512xi32> -> !attn_tile.pair_bits<128x128>
    ```
  }];
  let arguments = (ins MemRefRankOf<[I32], [5]>:$source, Index:$batch,
                       Index:$head, Index:$row, Index:$step);
  let results = (outs AttnTile_PairBitsType:$result);
  let assemblyFormat = [{
    $source `[` $batch `,` $head `,` $row `,` $step `]` attr-dict
    `:` type($source) `->` type($result)
  }];
  let hasVerifier = 1;
}

def AttnTile_KeepPairsOp : AttnTile_Op<"keep_pairs", [
    Pure, AllTypesMatch<["source", "result"]>]> {
  let summary = "sets scores without a bit to minus infinity";
  let description = [{
    Keeps the elements of a tile whose bit is set; others become minus infinity.

    ```mlir
    %r = attn_tile.keep_pairs %s by %m
        : vector<128x128xf32>, !attn_tile.pair_bits<128x128>
    ```
  }];
  let arguments = (ins VectorOfRankAndType<[2], [F32]>:$source,
                       AttnTile_PairBitsType:$bits);
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
    Adds each element of the tile that is not zero to the element of `dest` at
    the indices that the region yields for its position `(batch, head, query,
    key)`, which is that of an element of `attn_tile.map`. Elements whose query
    or key is beyond its length are zero. Of elements whose indices are out of
    bounds it is not defined which element they are added to, or whether they
    are. Additions are atomic, and their order is not defined unless one row of
    the tiles of a group makes them.

    Elements whose indices do not depend on the query, or on the key, are summed
    up before they are added.

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

def AttnTile_MakeDecisionsOp : AttnTile_Op<"make_decisions", [Pure]> {
  let summary = "decides which weights dropout keeps";
  let description = [{
    Makes the decisions of the tile whose first element is the weight of query
    `first_query` and key `first_key`, with the random numbers of `stream`, those
    of a batch entry and head. Both positions are multiples of 16.

    ```mlir
    %d = attn_tile.make_decisions at(%i, %j) stream(%y0, %y1, %y2, %y3)
        by(#attn.dropout<p = 0.125, rng = #attn.philox>)
        : !attn_tile.decisions<64x176>
    ```
  }];
  let arguments = (ins Index:$first_query, Index:$first_key,
                       Variadic<I32>:$stream, Attn_DropoutAttr:$dropout);
  let results = (outs AttnTile_DecisionsType:$result);
  let assemblyFormat = [{
    `at` `(` $first_query `,` $first_key `)` `stream` `(` $stream `)`
    `by` `(` $dropout `)` attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
}

/// Not by its own definition, whose enumerations would be defined once more.
def AttnTile_MaskLayoutAttr
    : Attr<CPred<"::llvm::isa<::mlir::attn::MaskLayoutAttr>($_self)">,
           "#attn<mask_layout> attribute"> {
  let storageType = "::mlir::attn::MaskLayoutAttr";
  let returnType = "::mlir::attn::MaskLayout";
  let convertFromStorage = "$_self.getValue()";
  let constBuilderCall = "::mlir::attn::MaskLayoutAttr::get($_builder.getContext(), $0)";
}

def AttnTile_LoadDecisionsOp : AttnTile_Op<"load_decisions", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "reads which weights dropout keeps";
  let description = [{
    Reads the decisions of the tile whose first element is the weight of query
    `first_query` and key `first_key`, of a batch entry and head, from a mask
    with the layout of `attn.dropout_mask`. Both positions are multiples of 16;
    of whole words, keys begin at a multiple of the tile's, and rows of the mask
    at multiples of 16 bytes. Those of positions beyond the mask are any.

    ```mlir
    %d = attn_tile.load_decisions %mask[%b, %h] rows at(%i, %j)
        : memref<?x32x?x?xi32> -> !attn_tile.decisions<64x176>
    ```
  }];
  let arguments = (ins MemRefRankOf<[I32], [4]>:$source, Index:$batch, Index:$head,
                       AttnTile_MaskLayoutAttr:$layout,
                       Index:$first_query, Index:$first_key);
  let results = (outs AttnTile_DecisionsType:$result);
  let assemblyFormat = [{
    $source `[` $batch `,` $head `]` $layout
    `at` `(` $first_query `,` $first_key `)` attr-dict
    `:` type($source) `->` type($result)
  }];
}

def AttnTile_DropoutOp : AttnTile_Op<"dropout", [
    Pure, AllTypesMatch<["source", "result"]>]> {
  let summary = "sets dropped weights to zero";
  let description = [{
    Keeps the elements of a tile that `decisions` keeps; others become zero.

    With `weights` elements are weights of a softmax relative to the largest one
    of their row, less than 2. It is enough then if dropped ones become less than
    2^-31, which products in f32 do not tell from zero: on GPUs one bit of the
    exponent of a bf16 is cleared instead of all bits.

    ```mlir
    %r = attn_tile.dropout %p by %d weights
        : vector<64x176xbf16>, !attn_tile.decisions<64x176>
    ```
  }];
  let arguments = (ins VectorOfRankAndType<[2], [BF16, F16, F32]>:$source,
                       AttnTile_DecisionsType:$decisions,
                       UnitAttr:$weights);
  let results = (outs VectorOfRankAndType<[2], [BF16, F16, F32]>:$result);
  let assemblyFormat = [{
    $source `by` $decisions (`weights` $weights^)? attr-dict `:` type($source) `,` type($decisions)
  }];
  let hasVerifier = 1;
}

def AttnTile_YieldOp : AttnTile_Op<"yield", [
    Pure, ReturnLike, Terminator, 
    ParentOneOf<["CompactOp", "EachOp", "KeyTilesOp", "MapOp", "MaskOp",
                 "ReduceOp", "ScatterAddOp"]>]> {
  let summary = "results of a scalar region";
  let description = [{
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
    `result[i, j] = source[i, j] * factor[i]`. The product may be left out where
    all factors are one: a warp of a GPU skips it then.

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

def AttnTile_MixedExp2Op : AttnTile_Op<"mixed_exp2", [Pure,
    AllTypesMatch<["source", "result"]>]> {
  let summary = "powers of two, some of them by polynomials";
  let description = [{
    `result[i, j] = 2^source[i, j]`, where a GPU computes `sixteenths` of 16
    elements with multiplications and additions, the others with its special
    function unit. A polynomial is of degree three on [-1/2, 1/2] and has a
    relative error of at most 1.1e-4, which is less than rounding to 16 bits
    adds; powers below 2^-126 are 0 (FlashAttention-4, Zadouri et al. 2026). The
    source must be below 128. Only kernels for GPUs have it.

    ```mlir
    %p = attn_tile.mixed_exp2 %s polynomials 4 : vector<64x128xf32>
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
  let summary = "adds groups of columns";
  let description = [{
    `result[i, c] = acc[i, c] + sum over k of source[i, k * P + c]` for a result
    with `P` columns. A row sum that runs over many tiles is kept as `P` partial
    sums until its end, so that no exchange between threads is needed on the way.

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
  let summary = "makes a pipe";
  let description = [{
    Reserves workgroup memory for the stages and barriers of a pipe, for as
    long as the kernel runs. `attn-tile-allocate-pipes` says where: the first
    stage at byte `offset`, the first stage's barriers at byte `barriers`.

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
    Positions are acquired in order from 0, each one once. The buffer is given
    up by exactly one `commit` in the same block.

    ```mlir
    %b = attn_tile.acquire %p[%t] : !attn_tile.pipe<64x128xbf16, stages = 2>
    ```
  }];
}

def AttnTile_WaitOp : AttnTile_PipeAccessOp<"wait"> {
  let summary = "waits until a stage is full and takes it for reading";
  let description = [{
    Positions are waited for in order from 0, each one once. The buffer is given
    up by exactly one `release` in the same block, unless a loop carries it to
    the step that gives it up.

    ```mlir
    %b = attn_tile.wait %p[%t] : !attn_tile.pipe<64x128xbf16, stages = 2>
    ```
  }];
}

def AttnTile_CopyOp : AttnTile_Op<"copy", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "starts a copy of a tile from global memory to a stage";
  let description = [{
    Asynchronous: the copy is complete when the `commit` of its buffer is seen
    by a `wait`. The source is a memref or a tensor map; elements outside of it
    are zero.

    ```mlir
    attn_tile.copy %k[%b, %h, %j, %c0] to %buffer
        : memref<?x8x?x128xbf16> to !attn_tile.buffer<64x128xbf16>
    ```
  }];
  let arguments = (ins AnyTypeOf<[AnyMemRef, AttnTile_TensorMapType]>:$source,
                       Variadic<Index>:$indices, AttnTile_BufferType:$buffer);
  let assemblyFormat = [{
    $source `[` $indices `]` `to` $buffer attr-dict
    `:` type($source) `to` type($buffer)
  }];
  let hasVerifier = 1;
}

def AttnTile_CommitOp : AttnTile_Op<"commit", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "marks a stage full once the copies to it are complete";
  let description = [{
    ```mlir
    attn_tile.commit %b : !attn_tile.buffer<64x128xbf16>
    ```
  }];
  let arguments = (ins AttnTile_BufferType:$buffer);
  let assemblyFormat = "$buffer attr-dict `:` type($buffer)";
}

def AttnTile_ClearOp : AttnTile_Op<"clear", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "clears the rows of a stage that are not of a sequence";
  let description = [{
    Row `r` of the buffer is number `first + r` of a sequence of `extent` rows;
    the others become zero. All threads that read the buffer run this between its
    `wait` and the first product that reads it.

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
  let summary = "reads a tile from a full stage";
  let description = [{
    Each thread reads what it holds of the tile; of a single row, the columns that
    it holds of every row.

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
    Products that read the buffer must have been waited for; what threads read
    themselves must be in their registers. Values of rows that are computed of all
    that was read, `after` which the stage is released, see to that, where no
    product or shared tile before does: nothing else orders arithmetic and a
    release.

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

def AttnTile_ShareOp : AttnTile_Op<"share", [
    MemoryEffects<[MemRead, MemWrite]>,
    TypesMatchWith<"buffer is one stage of the pipe", "pipe", "buffer",
                   "::llvm::cast<PipeType>($_self).getBufferType()">]> {
  let summary = "puts a register tile into workgroup memory";
  let description = [{
    Every warpgroup of the role writes its part of the tile to the stage of
    `position`, and goes on when all have: products may then read the whole tile.
    Positions are shared in order, each one once, and the stages of the pipe are
    used for nothing else. Products that read a tile must have been waited for
    before the tile of the next position is shared.

    Tiles of fewer columns than a stage are shared from `first_column` on, one
    after the other; the one with the last column waits for all warpgroups.

    ```mlir
    %b = attn_tile.share %ds in %pipe[%t] : vector<128x64xbf16>,
        !attn_tile.pipe<128x64xbf16, stages = 2>
    %c = attn_tile.share %ds in %wide[%t] from(64) : vector<128x64xbf16>,
        !attn_tile.pipe<128x128xbf16, stages = 2>
    ```
  }];
  let arguments = (ins VectorOfRankAndType<[2], [BF16, F16]>:$tile,
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

/// Bytes; those that the CUDA driver knows.
def AttnTile_L2PromotionAttr
    : ConfinedAttr<I64Attr, [AttrConstraint<
        CPred<"::mlir::attn_tile::isL2Promotion(::llvm::cast<::mlir::IntegerAttr>($_self).getInt())">,
        "whose value is 0, 64, 128 or 256">]>;

def AttnTile_MakeTensorMapOp : AttnTile_Op<"make_tensor_map", [
    MemoryEffects<[MemRead]>]> {
  let summary = "describes a memref for bulk copies";
  let description = [{
    Host side; uses sizes and strides of the memref at run time. What is read
    through the map is fetched to the second level cache in blocks of
    `l2_promotion` bytes: larger ones suit tiles whose neighbours other groups
    read soon, smaller ones tiles that are read once, column block by column
    block.

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
// Matrix products
//===----------------------------------------------------------------------===//

def AttnTile_MmaStartOp : AttnTile_Op<"mma_start", [
    MemoryEffects<[MemRead]>]> {
  let summary = "starts a matrix product";
  let description = [{
    Starts `acc + lhs * rhs` (or `lhs * rhs` without `acc`), with f32
    accumulation. `lhs` is `MxK`, in registers or staged, or staged as `KxM` with
    `transpose_lhs`; `rhs` is staged as `KxN`, or as `NxK` with `transpose_rhs`.
    Staged operands must stay until the product has been waited for. `acc` may
    be a product `in_flight`, which the new one then goes on with. With
    `first_row` the result is that of some rows of a staged `lhs`, from that one
    on.

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
    ```
  }];
  let arguments = (ins
      AnyTypeOf<[AttnTile_BufferType, AnyVectorOfNonZeroRank]>:$lhs,
      AttnTile_BufferType:$rhs,
      Optional<AnyTypeOf<[VectorOfRankAndType<[2], [F32]>,
                          AttnTile_PendingType]>>:$acc,
      UnitAttr:$transpose_lhs, UnitAttr:$transpose_rhs,
      OptionalAttr<ConfinedAttr<I64Attr, [IntNonNegative]>>:$first_row);
  let results = (outs AttnTile_PendingType:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs (`transpose_lhs` $transpose_lhs^)? (`transpose_rhs` $transpose_rhs^)?
    (`first_row` `(` $first_row^ `)`)? (`acc` $acc^)? attr-dict
    `:` type($lhs) `,` type($rhs) custom<AccType>(ref($acc), type($acc), type($result))
  }];
  let hasVerifier = 1;
}

def AttnTile_MmaWaitOp : AttnTile_Op<"mma_wait", [
    MemoryEffects<[MemRead, MemWrite]>,
    TypesMatchWith<"result is the pending value", "pending", "result",
                   "::llvm::cast<PendingType>($_self).getValueType()">]> {
  let summary = "waits for a matrix product";
  let description = [{
    Products complete in the order in which they were started; waiting for one
    waits for all that were started before it.

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
  let summary = "waits for the products before one";
  let description = [{
    Waits for all products that were started before the given one, which stays
    in flight. What these read may be released then.

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
  let summary = "what some of the warpgroups do";
  let description = [{
    The roles of a kernel run at the same time, each on warpgroups of its own
    that are handed out in the order of the roles. They exchange data through
    pipes. Every warpgroup of a role runs the whole body; register tiles are
    spread over all of them. `registers` is what each thread may use.

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

def AttnTile_BesideOp : AttnTile_Op<"beside", [
    HasParent<"KernelOp">, NoTerminator, SingleBlock, RecursiveMemoryEffects]> {
  let summary = "a program of scalars that idle warps run";
  let description = [{
    Work that runs at the same time as the rest of the kernel. Neither of them
    reads what the other one writes, unless it has waited for a count of that. It
    runs on the warps that a producer leaves idle: all but the first one of its
    warpgroup, whose threads have at least `registers` registers. It has `warps` of
    them, or all that those leave which say how many they have. Each of these
    warps is a group of its own there, which `attn_tile.program_id 0` and
    `attn_tile.num_programs 0` count, and whose threads share the numbers of
    `attn_tile.each`. As in kernels of `#attn_tile.scalar`, there are no tiles. As
    first written, it holds one `scf.forall` over its own work items.

    If it is `joined`, the warps of consumers run it, too, once they have nothing
    else to do. All of these warps take their work by `attn_tile.take_number`;
    `attn_tile.program_id` and `attn_tile.num_programs` then count the groups of
    the kernel.

    ```mlir
    attn_tile.kernel @product_and_list(%list: memref<?xi32>, %x: i32, %n: index) {
      attn_tile.beside {
        attn_tile.each to(%n) {
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

def AttnTile_TakeNumberOp : AttnTile_Op<"take_number", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "the next number that no warp of the group has taken";
  let description = [{
    Gives each warp that runs it a number of its own, from 0 on in each group of
    the kernel. Only in `attn_tile.beside` that is `joined`.

    ```mlir
    %k = attn_tile.take_number
    ```
  }];
  let results = (outs Index:$number);
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

def AttnTile_PaceOp : AttnTile_Op<"pace", [HasParent<"BesideOp">]> {
  let summary = "how fast a warp is beside the rest of the kernel";
  let description = [{
    States, in `attn_tile.beside` that is `joined`, that while the rest of the
    kernel makes one of its work items, an idle warp makes `part` of an item of
    `whole`. By that, `attn-tile-set-traversal` lets as few idle warps take part as
    are done by the end of the rest: what they compute takes power from products,
    which the device makes up for by lower clocks, and does so the least if it is
    spread over all of the time.

    ```mlir
    attn_tile.pace %part of %whole
    ```
  }];
  let arguments = (ins Index:$part, Index:$whole);
  let assemblyFormat = "$part `of` $whole attr-dict";
}

def AttnTile_TakesPartOp : AttnTile_Op<"takes_part", [Pure]> {
  let summary = "whether this warp is one of some idle ones";
  let description = [{
    Whether the warp is one of the first `count` idle warps, or of those that have
    joined them. Only in `attn_tile.beside` that is `joined`.

    ```mlir
    %b = attn_tile.takes_part %count
    ```
  }];
  let arguments = (ins Index:$count);
  let results = (outs I1:$result);
  let assemblyFormat = "$count attr-dict";
  let hasVerifier = 1;
}

def AttnTile_AwaitTurnOp : AttnTile_Op<"await_turn", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until it is this warpgroup's turn";
  let description = [{
    The warpgroups of a role take turns, the first one first. Used to let one
    warpgroup start its matrix products while the other is in its softmax.

    ```mlir
    attn_tile.await_turn
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def AttnTile_PassTurnOp : AttnTile_Op<"pass_turn", [
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "gives the turn to the next warpgroup";
  let description = [{
    ```mlir
    attn_tile.pass_turn
    ```
  }];
  let assemblyFormat = "attr-dict";
}

#endif // ATTN_DIALECT_ATTNTILE_IR_ATTNTILEOPS_TD
