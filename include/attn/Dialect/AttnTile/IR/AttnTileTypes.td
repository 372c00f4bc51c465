//===- AttnTileTypes.td - Types of attn_tile --------------*- tablegen -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pipes, staged tiles, MMAs in flight, masks, iterators and streams.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNTILE_IR_ATTNTILETYPES_TD
#define ATTN_DIALECT_ATTNTILE_IR_ATTNTILETYPES_TD

include "attn/Dialect/AttnTile/IR/AttnTileDialect.td"
include "mlir/IR/AttrTypeBase.td"

class AttnTile_Type<string name, string mnemonicName>
    : TypeDef<AttnTile_Dialect, name> {
  let mnemonic = mnemonicName;
}

def AttnTile_BufferType : AttnTile_Type<"Buffer", "buffer"> {
  let summary = "a tile staged in shared memory";
  let description = [{
    A 2-D tile in the shared memory of a CTA. Its physical layout (padding,
    swizzle, split into column blocks) belongs to the target. Therefore it is
    not a memref: no strided layout describes it, and no generic memref
    operation may touch it.

    With `cluster = n`, all `n` CTAs of a thread block cluster hold the same
    tile. Each CTA copies a part of its rows to all of them.

    ```mlir
    !attn_tile.buffer<176x128xbf16>
    !attn_tile.buffer<176x128xbf16, cluster = 2>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape,
                        "::mlir::Type":$elementType,
                        DefaultValuedParameter<"int64_t", "1">:$cluster);
  let builders = [TypeBuilder<(ins "::llvm::ArrayRef<int64_t>":$shape,
                                   "::mlir::Type":$elementType), [{
    return $_get($_ctxt, shape, elementType, /*cluster=*/1);
  }]>];
  let assemblyFormat = [{
    `<` custom<TileShape>($shape, $elementType) (`,` `cluster` `=` $cluster^)? `>`
  }];
  let genVerifyDecl = 1;
}

def AttnTile_PipeType : AttnTile_Type<"Pipe", "pipe"> {
  let summary = "a ring of staged tiles with full and empty barriers";
  let description = [{
    A ring buffer of `stages` buffers, at most 256. Position `n` of the stream
    of tiles uses stage `n mod stages`. Producers `acquire` a position when it
    is empty and `commit` it; consumers `wait` until it is full and `release`
    it.

    With `cluster = n`, the `n` CTAs of a thread block cluster use the pipe at
    the same positions. A stage is empty when the consumers of all of them have
    released it.

    ```mlir
    !attn_tile.pipe<176x128xbf16, stages = 2>
    !attn_tile.pipe<176x128xbf16, stages = 2, cluster = 2>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape,
                        "::mlir::Type":$elementType, "int64_t":$stages,
                        DefaultValuedParameter<"int64_t", "1">:$cluster);
  let builders = [TypeBuilder<(ins "::llvm::ArrayRef<int64_t>":$shape,
                                   "::mlir::Type":$elementType,
                                   "int64_t":$stages), [{
    return $_get($_ctxt, shape, elementType, stages, /*cluster=*/1);
  }]>];
  let assemblyFormat = [{
    `<` custom<TileShape>($shape, $elementType) `,` `stages` `=` $stages
    (`,` `cluster` `=` $cluster^)? `>`
  }];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Upper limit of the stages: more than shared memory can hold.
    static constexpr int64_t maxStages = 256;

    /// The type of one stage.
    BufferType getBufferType();
  }];
}

def AttnTile_PendingType : AttnTile_Type<"Pending", "pending"> {
  let summary = "the result of an MMA in flight";
  let description = [{
    Becomes a register tile by `attn_tile.mma_wait`. Before that, only an MMA
    that accumulates on it, `attn_tile.mma_wait_before`, and a loop that carries
    it may use it.

    ```mlir
    !attn_tile.pending<vector<128x176xf32>>
    ```
  }];
  let parameters = (ins "::mlir::VectorType":$valueType);
  let assemblyFormat = "`<` $valueType `>`";
  let genVerifyDecl = 1;
}

def AttnTile_TensorMapType : AttnTile_Type<"TensorMap", "tensor_map"> {
  let summary = "a descriptor of a strided array for bulk copies";
  let description = [{
    Describes an array of rank `rank` in global memory and the box of elements
    that one bulk copy moves. The host makes it from sizes and strides known at
    run time and passes it to the kernel.

    ```mlir
    !attn_tile.tensor_map<4, 176x64xbf16>
    ```
  }];
  let parameters = (ins "int64_t":$rank,
                        ArrayRefParameter<"int64_t">:$box,
                        "::mlir::Type":$elementType);
  let assemblyFormat = "`<` $rank `,` custom<TileShape>($box, $elementType) `>`";
  let genVerifyDecl = 1;
}

def AttnTile_KeepMaskType : AttnTile_Type<"KeepMask", "keep_mask"> {
  let summary = "a dropout keep mask of a tile";
  let description = [{
    One bit for each element of a tile of attention probabilities, in 32-bit
    words in the registers of the threads that hold the tile (docs/rng.md). Rows
    are queries and columns are keys, with `transposed` the other way round.
    Both sizes are multiples of 16.

    Threads that hold the same rows each have some of the words of these rows,
    and exchange them by shuffles. With `whole` each thread has all words of its
    rows, which takes more registers but no exchange.

    ```mlir
    !attn_tile.keep_mask<64x176>
    !attn_tile.keep_mask<64x48, transposed>
    !attn_tile.keep_mask<64x128, whole>
    ```
  }];
  let parameters = (ins "int64_t":$rows, "int64_t":$columns,
                        "bool":$transposed, "bool":$whole);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def AttnTile_MaskBitsType : AttnTile_Type<"MaskBits", "mask_bits"> {
  let summary = "a mask bitmap of a tile";
  let description = [{
    One bit for each element of a tile, set if the element is kept, in 32-bit
    words of the threads that hold the elements. Both sizes are multiples of 16.
    Of each 16 rows, lane `l` of a warp holds rows `l / 4` and `l / 4 + 8` and
    two of every eight columns, as in `#attn_tile.row_blocks`. Its elements are
    numbered row by row; element `n` is bit `n % 32` of its word `n / 32`.

    In memory, word `w` of lane `l` for the 16 rows from `16 * r` on is word
    `(r * words + w) * 32 + l` of the tile. Here `words` is the number of words
    of a lane for 16 rows.

    ```mlir
    !attn_tile.mask_bits<128x128>
    ```
  }];
  let parameters = (ins "int64_t":$rows, "int64_t":$columns);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Rows of a block that a warp holds, lanes of a warp, bits of a word.
    static constexpr int64_t blockRows = 16, lanes = 32, wordBits = 32;

    /// Elements per row that a lane holds.
    int64_t getLaneColumns() const { return getColumns() / 4; }
    /// Words of a lane for 16 rows.
    int64_t getLaneWords() const {
      return (2 * getLaneColumns() + wordBits - 1) / wordBits;
    }
    /// Words of the tile in memory.
    int64_t getNumWords() const {
      return getRows() / blockRows * getLaneWords() * lanes;
    }
  }];
}

def AttnTile_KVTileIteratorType : AttnTile_Type<"KVTileIterator", "kv_tile_iterator"> {
  let summary = "an ordered sequence of tiles that a loop iterates over";
  let description = [{
    The tiles that a loop visits, in order. `attn_tile.kv_tile_at` gives the
    tile of an iteration. `attn-tile-peel-masks` or
    `attn-tile-expand-kv-tile-iterators` replaces it by index arithmetic.

    ```mlir
    !attn_tile.kv_tile_iterator
    ```
  }];
}

def AttnTile_StreamType : AttnTile_Type<"Stream", "stream"> {
  let summary = "a side stream of the device";
  let description = [{
    Kernels that are launched on a stream run one after another, and
    concurrently with the kernels of other streams. `attn_tile.fork_stream`
    creates a side stream.

    ```mlir
    !attn_tile.stream
    ```
  }];
}

#endif // ATTN_DIALECT_ATTNTILE_IR_ATTNTILETYPES_TD
