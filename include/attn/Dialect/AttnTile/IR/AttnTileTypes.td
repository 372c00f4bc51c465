//===- AttnTileTypes.td - Types of attn_tile ---------------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pipes, staged tiles and values in flight.
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
  let summary = "a tile staged in workgroup memory";
  let description = [{
    A 2-D tile in memory that the group shares. Its physical layout (padding,
    swizzle, split into column blocks) belongs to the target, which is why this
    is not a memref: no strided layout describes it, and no generic memref
    operation may touch it.

    With `cluster`, all groups of a cluster of that many have the same tile, of
    which each copies a part of the rows to all of them.

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
    `stages` buffers, 256 at most, used in turn. Position `n` of the stream of
    tiles uses stage `n mod stages`; producers `acquire` a position when it is empty and
    `commit` it, consumers `wait` until it is full and `release` it.

    With `cluster`, the groups of a cluster use a pipe at the same positions. A
    stage is empty when the consumers of all of them have released it.

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
    /// More stages than shared memory has room for.
    static constexpr int64_t maxStages = 256;

    /// The type of one stage.
    BufferType getBufferType();
  }];
}

def AttnTile_PendingType : AttnTile_Type<"Pending", "pending"> {
  let summary = "the result of a matrix product in flight";
  let description = [{
    Becomes a value by `attn_tile.mma_wait`; nothing else may use it.

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
    Describes an array of rank `rank` in global memory and the box of it that
    one bulk copy moves. Made on the host from sizes and strides known at run
    time and passed to the kernel.

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

def AttnTile_DecisionsType : AttnTile_Type<"Decisions", "decisions"> {
  let summary = "which weights of a tile dropout keeps";
  let description = [{
    A decision for each element of a tile of weights, packed as the threads that
    hold the tile want them. Rows are queries and columns are keys, or with
    `transposed` the other way round. Both sizes are multiples of 16.

    Threads that hold the same rows have a part of their words each, and exchange
    them. With `whole` each has all words of its rows: more registers, which
    nobody waits for.

    ```mlir
    !attn_tile.decisions<64x176>
    !attn_tile.decisions<64x48, transposed>
    !attn_tile.decisions<64x128, whole>
    ```
  }];
  let parameters = (ins "int64_t":$rows, "int64_t":$columns,
                        "bool":$transposed, "bool":$whole);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def AttnTile_PairBitsType : AttnTile_Type<"PairBits", "pair_bits"> {
  let summary = "a bit for each pair of a tile";
  let description = [{
    A bit for each element of a tile, in words of the threads that hold the
    elements. Both sizes are multiples of 16. Of each 16 rows, lane `l` of a warp
    holds rows `l / 4` and `l / 4 + 8` and of each eight columns two, as in
    `#attn_tile.row_blocks`. Its elements are numbered row by row; bit `n % 32`
    of its word `n / 32` is that of element `n`.

    In memory, word `w` of lane `l` of the rows from `16 * r` on is number
    `(r * words + w) * 32 + l` of those of the tile, where lanes have `words`
    words for 16 rows.

    ```mlir
    !attn_tile.pair_bits<128x128>
    ```
  }];
  let parameters = (ins "int64_t":$rows, "int64_t":$columns);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Rows whose elements the lanes of a warp hold, lanes, and bits of a word.
    static constexpr int64_t blockRows = 16, lanes = 32, wordBits = 32;

    /// Elements of a row that a lane holds.
    int64_t getLaneColumns() const { return getColumns() / 4; }
    /// Words that a lane has for 16 rows.
    int64_t getLaneWords() const {
      return (2 * getLaneColumns() + wordBits - 1) / wordBits;
    }
    /// Words of the tile in memory.
    int64_t getNumWords() const {
      return getRows() / blockRows * getLaneWords() * lanes;
    }
  }];
}

def AttnTile_TileWalkType : AttnTile_Type<"TileWalk", "tile_walk"> {
  let summary = "the tiles that the steps of a loop visit";
  let description = [{
    What a loop over tiles visits, in order. `attn_tile.tile_at` gives the tile of
    a step; how that is found is decided when the walk is expanded.

    ```mlir
    !attn_tile.tile_walk
    ```
  }];
}

def AttnTile_StreamType : AttnTile_Type<"Stream", "stream"> {
  let summary = "work of the device beside that of the caller's stream";
  let description = [{
    Kernels that are launched on it run one after another, and at the same time
    as those of other streams. `attn_tile.fork_stream` gives one.

    ```mlir
    !attn_tile.stream
    ```
  }];
}

#endif // ATTN_DIALECT_ATTNTILE_IR_ATTNTILETYPES_TD
