//===- AttnInterfaces.td - Interfaces of the attn dialect -*- tablegen -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The attribute interfaces through which masks, random number generators and
// schedules plug in, and the op interface that attention and its gradient share.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTNINTERFACES_TD
#define ATTN_DIALECT_ATTN_IR_ATTNINTERFACES_TD

include "mlir/IR/OpBase.td"
include "mlir/Interfaces/DestinationStyleOpInterface.td"

def Attn_MaskAttrInterface : AttrInterface<"MaskAttrInterface"> {
  let cppNamespace = "::mlir::attn";
  let description = [{
    A named mask: a predicate on (batch, head, query, key) positions that says
    which pairs attend. The contract is "emit the predicate". `MaskAnalysis` derives
    the tiles to visit from the emitted code. The result is exact where the code is
    integer arithmetic and logic that the analysis understands.

    Positions are of type `index`, counted from zero within the sequence.
    Implementations must be correct for all sequence lengths of at least one,
    also when query and key lengths differ. Emitted code must be pure.
  }];
  let methods = [
    InterfaceMethod<[{
        Emits the predicate for one (query, key) pair, as an `i1` that is true
        if the pair attends. Every value in `at` is an `index`.
      }],
      "::mlir::Value", "emitPredicate",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc,
           "const ::mlir::attn::MaskPosition &":$at)>,
    InterfaceMethod<[{
        Evaluates the predicate at constant positions. Agrees with
        `emitPredicate`; used by folders, by the FLOP count and by tests.
      }],
      "bool", "isAttended",
      (ins "int64_t":$query, "int64_t":$key, "int64_t":$queryLength,
           "int64_t":$keyLength)>,
    InterfaceMethod<[{
        Whether the mask keeps every pair, or no pair, for the given static
        lengths; `std::nullopt` if neither holds or neither is known.
      }],
      "std::optional<bool>", "getConstantValue",
      (ins "int64_t":$queryLength, "int64_t":$keyLength),
      /*methodBody=*/"", /*defaultImplementation=*/"return std::nullopt;">,
    InterfaceMethod<[{
        The simplest mask known to keep the same pairs for the given lengths,
        each of which may be dynamic. Simplifying it again changes nothing.
      }],
      "::mlir::attn::MaskAttrInterface", "simplify",
      (ins "int64_t":$queryLength, "int64_t":$keyLength),
      /*methodBody=*/"", /*defaultImplementation=*/"return $_attr;">,
    InterfaceMethod<[{
        A mask, simpler than the two, that keeps the pairs that both keep, for
        all lengths; null if none is known. Composite masks need not implement
        it: `simplifyMask` calls it for their parts.
      }],
      "::mlir::attn::MaskAttrInterface", "getIntersection",
      (ins "::mlir::attn::MaskAttrInterface":$other),
      /*methodBody=*/"", /*defaultImplementation=*/"return nullptr;">,
    InterfaceMethod<[{
        A mask, simpler than the two, that keeps the pairs that at least one of
        them keeps, for all lengths; null if none is known.
      }],
      "::mlir::attn::MaskAttrInterface", "getUnion",
      (ins "::mlir::attn::MaskAttrInterface":$other),
      /*methodBody=*/"", /*defaultImplementation=*/"return nullptr;">,
    InterfaceMethod<[{
        The numbers of the operands that the mask reads; none for a mask of
        positions alone. Only the emitted predicate of a mask with operands
        knows the pairs that attend: `isAttended` says which pairs may attend.
      }],
      "::llvm::SmallVector<int64_t>", "getReads", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return {};">,
    InterfaceMethod<[{
        Checks the operands that the mask reads; `reads` holds at least as many
        as `getReads` refers to.
      }],
      "::llvm::LogicalResult", "verifyReads",
      (ins "::llvm::function_ref<::mlir::InFlightDiagnostic()>":$emitError,
           "const ::mlir::attn::MaskReads &":$reads), /*methodBody=*/"",
      /*defaultImplementation=*/"return ::mlir::success();">,
    InterfaceMethod<[{
        Pairs of operand sizes that must be equal, beyond what types say.
        `verifyReads` compares them where both are static; the other pairs
        become requirements on the arguments of a compiled function.
      }],
      "::llvm::SmallVector<::mlir::attn::EqualSizes>", "getEqualSizes",
      (ins "const ::mlir::attn::MaskReads &":$reads), /*methodBody=*/"",
      /*defaultImplementation=*/"return {};">,
    InterfaceMethod<[{
        Emits, before the attention, the values that the predicate of a mask
        with operands reads: operands, and tables computed from them.
        `emitPredicate` gets them from `MaskPosition::getTables`.
      }],
      "::llvm::SmallVector<::mlir::Value>", "emitTables",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc,
           "const ::mlir::attn::MaskReads &":$reads), /*methodBody=*/"",
      /*defaultImplementation=*/"return {};">,
  ];
}

def Attn_RngAttrInterface : AttrInterface<"RngAttrInterface"> {
  let cppNamespace = "::mlir::attn";
  let description = [{
    A counter-based random number generator (Salmon et al. 2011): a function
    from a key of two words and a counter of four words to four random words. A
    word has 32 bits. The function must be a bijection of the counters for each
    key.
  }];
  let methods = [
    InterfaceMethod<[{
        Emits the generator. All values are `i32`, or vectors of them of one
        type. Emitted code must be pure.
      }],
      "::mlir::attn::RngBlock<::mlir::Value>", "emitBlock",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc,
           "::mlir::attn::RngKey<::mlir::Value>":$key,
           "::mlir::attn::RngBlock<::mlir::Value>":$counter)>,
    InterfaceMethod<[{
        Runs the generator. Agrees with the code that `emitBlock` emits.
      }],
      "::mlir::attn::RngBlock<uint32_t>", "computeBlock",
      (ins "::mlir::attn::RngKey<uint32_t>":$key,
           "::mlir::attn::RngBlock<uint32_t>":$counter)>,
    InterfaceMethod<"Counts the instructions that `emitBlock` emits.",
      "::mlir::attn::RngWork", "countBlock", (ins)>,
  ];
}

def Attn_ScheduleAttrInterface : AttrInterface<"ScheduleAttrInterface"> {
  let cppNamespace = "::mlir::attn";
  let description = [{
    How one attention is compiled to one kernel: tile shapes, and the kernel passes
    that implement the strategy. A new strategy is a new attribute.
  }];
  let methods = [
    InterfaceMethod<"Rows of queries that one work item processes.",
      "int64_t", "getQueryTile", (ins)>,
    InterfaceMethod<"Keys in one step of the loop over keys.",
      "int64_t", "getKeyTile", (ins)>,
    InterfaceMethod<[{
        Of a matmul schedule, whose query and kv tiles are rows and columns of
        the result: the size of a step along the contracted dimension. 0 for all
        other schedules.
      }],
      "int64_t", "getDepthTile", (ins), /*methodBody=*/"",
        /*defaultImplementation=*/"return 0;">,
    InterfaceMethod<[{
        Rows of queries whose MMAs read a tile of keys or values from shared
        memory together; 0 if tiles are not staged in shared memory.
      }],
      "int64_t", "getRowsPerRead", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return 0;">,
    InterfaceMethod<[{
        The consumers of a work item that hold the same rows of all tiles, and
        of which each computes `getHeadDimTile` columns of the result. 1 if
        consumers divide the rows.
      }],
      "int64_t", "getColumnConsumers", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return 1;">,
    InterfaceMethod<[{
        Where a work item is a kv tile: the number of parts in which each
        query tile is processed.
      }],
      "int64_t", "getQueryParts", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return 1;">,
    InterfaceMethod<[{
        Whether kernels have idle warps, which can run
        `attn_tile.auxiliary_warps`.
      }],
      "bool", "leavesWarps", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return false;">,
    InterfaceMethod<[{
        Whether the maximum that exponents are taken relative to may lag behind
        the maximum of its row, so that most steps skip rescaling the
        accumulator (conditional rescaling of FlashAttention-4). Costs a little
        in each step; pays where the accumulator is large.
      }],
      "bool", "isRescaleConditional", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return false;">,
    InterfaceMethod<[{
        Whether kernels multiply 16-bit elements by the instructions of a warp on
        all GPUs, with or without asynchronous ones.
      }],
      "bool", "multipliesByWarps", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return false;">,
    InterfaceMethod<[{
        Whether kernels that multiply elements of `element` read values with
        contiguous positions, which an earlier kernel transposes.
      }],
      "bool", "readsTransposedValues", (ins "::mlir::Type":$element),
      /*methodBody=*/"", /*defaultImplementation=*/"return false;">,
    InterfaceMethod<[{
        The schedule of the small kernels that run before or after a kernel with
        this schedule: they prepare its work or combine its results. Their work
        items are scalar computations.
      }],
      "::mlir::attn::ScheduleAttrInterface", "getPreparation", (ins)>,
    InterfaceMethod<[{
        The schedules of the kernels of a gradient. By default, this schedule
        serves all of them.
      }],
      "::mlir::attn::GradSchedules", "getGradSchedules", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/[{
        return {$_attr, $_attr, nullptr, $_attr};
      }]>,
    InterfaceMethod<[{
        Estimates the time of each kernel of attention, or of its gradient, for
        the visited `tiles`, in the order in which the kernels run; empty if
        there is no model.
      }],
      "::llvm::SmallVector<::mlir::attn::KernelTime>", "estimateKernels",
      (ins "const ::mlir::attn::VisitedTiles &":$tiles,
           "const ::mlir::attn::DeviceFigures &":$device),
      /*methodBody=*/"", /*defaultImplementation=*/"return {};">,
    InterfaceMethod<[{
        Estimates the time of each kernel of `op`, which is no attention, for
        the sizes that `assumptions` give, in the order in which the kernels run;
        empty if there is no model.
      }],
      "::llvm::SmallVector<::mlir::attn::KernelTime>", "estimateOpKernels",
      (ins "::mlir::Operation *":$op,
           "const ::mlir::attn::CostAssumptions &":$assumptions,
           "const ::mlir::attn::DeviceFigures &":$device),
      /*methodBody=*/"", /*defaultImplementation=*/"return {};">,
    InterfaceMethod<[{
        Whether the kernels of `op` (an attention, its gradient or a matmul) can
        have this schedule on `target`; reports on `op` why not.
      }],
      "::llvm::LogicalResult", "verifyUse",
      (ins "::mlir::Operation *":$op,
           "const ::mlir::attn::Target &":$target)>,
    InterfaceMethod<[{
        Appends the passes that turn the plain tiled program of
        `convert-attn-to-attn-tile` into this strategy's final `attn_tile`
        program. The pass manager is anchored on `builtin.module`.
      }],
      "void", "buildKernelPipeline", (ins "::mlir::OpPassManager &":$pm)>,
    InterfaceMethod<[{
        Split-KV: the number of work items to aim for. As long as there are no
        more, the kv tiles of each query tile are split among several work
        items. 0 for no split-KV.
      }],
      "int64_t", "getSplitKvWorkItems", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return 0;">,
    InterfaceMethod<[{
        Cluster size: the number of work items, with neighbouring query tiles,
        that iterate over keys together and share loaded key and value tiles.
      }],
      "int64_t", "getClusterSize", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return 1;">,
    InterfaceMethod<[{
        The columns of the result that a work item computes: of the output, or of
        the gradient that the kernel computes. Several work items then compute
        the same scores, one for each tile of columns (`countHeadDimTiles`). 0
        for work items of all columns.
      }],
      "int64_t", "getHeadDimTile", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return 0;">,
    InterfaceMethod<[{
        Whether the query heads that share a key and a value head are packed into
        the rows of one query tile (`pack_gqa`; see `whyNotPackGqa`).
      }],
      "bool", "packsGqa", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return false;">,
    InterfaceMethod<[{
        Split-KV where the device reads the number of keys: whether the number of
        splits of each batch entry follows from its number of keys, so that splits
        have about the same size (`balance_splits`). If not, all have as many.
      }],
      "bool", "balancesSplits", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return false;">,
    InterfaceMethod<[{
        How a kernel without tiles, such as the kernel of `attn.cache_append`,
        divides rows among threads.
      }],
      "::mlir::attn::RowDivision", "getRowDivision", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return {};">,
    InterfaceMethod<[{
        Whether a kernel before evaluates masks that read tensors but do not
        depend on the head, and writes a bitmap of each partial tile.
      }],
      "bool", "readsMaskBits", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return false;">,
  ];
}

def Attn_KVAddressingAttrInterface : AttrInterface<"KVAddressingAttrInterface"> {
  let cppNamespace = "::mlir::attn";
  let description = [{
    KV addressing: where the keys and values of a sequence are stored. Kernel writers
    ask it for the rows of a sequence and do not distinguish its kinds. `attention`
    gives its operands, and `AttentionOpInterface::getAddressing` the addressing of
    an attention.
  }];
  let methods = [
    InterfaceMethod<[{
        Checks the operands that give the addressing of `attention`, which has
        `AttentionOpInterface`.
      }],
      "::llvm::LogicalResult", "verifyOperands",
      (ins "::mlir::Operation *":$attention)>,
    InterfaceMethod<[{
        Whether the lengths of the queries are also read on the device, so that
        kernels iterate over a list of work items.
      }],
      "bool", "isListed", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return false;">,
    InterfaceMethod<[{
        Whether the queries of all sequences are one after another in one batch
        entry.
      }],
      "bool", "packsQueries", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return false;">,
    InterfaceMethod<[{
        Whether the keys of each sequence have a batch entry, or pages, of their
        own.
      }],
      "bool", "hasEntries", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return true;">,
    InterfaceMethod<[{
        The number of keys that are contiguous from each multiple of it on; 0 if
        all keys of a sequence are.
      }],
      "int64_t", "getPageSize", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return 0;">,
    InterfaceMethod<[{
        Emits the row of a batch entry with `stored` rows that key `key` has in a
        sequence whose first row is `first`. All values have the same integer
        type. Without a page table and with a page size, kernels ask for the row of
        each multiple of the page size.
      }],
      "::mlir::Value", "emitStoredRow",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc,
           "::mlir::Value":$first, "::mlir::Value":$key,
           "::mlir::Value":$stored), /*methodBody=*/"",
      /*defaultImplementation=*/[{
        return ::mlir::attn::emitContiguousRow(builder, loc, first, key);
      }]>,
    InterfaceMethod<[{
        The largest number of keys that a sequence can have, or dynamic.
        `pageTable` is null if there is none.
      }],
      "int64_t", "getMaxKeys",
      (ins "::mlir::Value":$key, "::mlir::Value":$pageTable), /*methodBody=*/"",
      /*defaultImplementation=*/"return ::mlir::attn::getDimSize(key, 2);">,
    InterfaceMethod<[{
        Emits the largest number of keys that a sequence can have. `key` and
        `pageTable` are the operands, which may be arguments of a kernel instead
        of operands of the attention; `pageTable` is null if there is none.
      }],
      "::mlir::Value", "emitMaxKeys",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc,
           "::mlir::Value":$key, "::mlir::Value":$pageTable)>,
    InterfaceMethod<[{
        Emits the rows of the keys of sequence `sequence`, an `index` in bounds, of
        a tensor with `stored` rows for each batch entry. `lengths` holds its
        boundaries or lengths, and is null where all sequences have `stored` rows.
      }],
      "::mlir::attn::SequenceRows", "emitRows",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc,
           "::mlir::Value":$lengths, "::mlir::Value":$stored,
           "::mlir::Value":$sequence)>,
  ];
}

def Attn_AttentionOpInterface : OpInterface<"AttentionOpInterface", [
    DestinationStyleOpInterface]> {
  let cppNamespace = "::mlir::attn";
  let description = [{
    Attention or its gradient: a computation on (query, key) pairs whose scores are
    `scale * dot(query, key)`, modified by the `score_mod` region, for the pairs that
    the mask and the `mask_mod` region keep.

    Passes that choose schedules, describe functions or move operands treat all
    operations with this interface alike.
  }];
  let methods = [
    InterfaceMethod<"Queries, `[B, Hq, Sq, Dqk]`.",
      "::mlir::Value", "getQuery">,
    InterfaceMethod<"Keys, `[B, Hk, Skv, Dqk]`.",
      "::mlir::Value", "getKey">,
    InterfaceMethod<"Values, `[B, Hv, Skv, Dv]`.",
      "::mlir::Value", "getValue">,
    InterfaceMethod<"Boundaries or lengths of the queries' sequences, or null.",
      "::mlir::Value", "getQuerySequences">,
    InterfaceMethod<"Boundaries or lengths of the keys' sequences, or null.",
      "::mlir::Value", "getKeySequences">,
    InterfaceMethod<"How sequences of different lengths are stored, if any.",
      "::std::optional<::mlir::attn::SequenceLayout>", "getSequenceLayout">,
    InterfaceMethod<[{
        The number of keys of each batch entry, or null. Unlike `key_sequences`, it
        comes without lengths of the queries.
      }],
      "::mlir::Value", "getKeyLengths", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return {};">,
    InterfaceMethod<"The pages of each batch entry, `[B, max_pages]`, or null.",
      "::mlir::Value", "getPageTable", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return {};">,
    InterfaceMethod<[{
        The global positions of a shard, `[6]`, or null; `ShardPosition` lists the
        entries.
      }],
      "::mlir::Value", "getPositions", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return {};">,
    InterfaceMethod<"The positions of a shard as a range of at most one operand.",
      "::mlir::MutableOperandRange", "getPositionsMutable", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/[{
        return ::mlir::MutableOperandRange($_op.getOperation(), 0, 0);
      }]>,
    InterfaceMethod<[{
        Whether the positions of the shard are for generated random numbers alone.
      }],
      "bool", "getDropoutOnly", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return false;">,
    InterfaceMethod<[{
        Sets whether the positions of the shard are for generated random numbers
        alone.
      }],
      "void", "setDropoutOnly", (ins "bool":$dropoutOnly), /*methodBody=*/"",
      /*defaultImplementation=*/[{
        assert(!dropoutOnly && "operation has no positions");
      }]>,
    InterfaceMethod<[{
        The key and value head of each query head, or null where groups of
        consecutive query heads of equal size share a key head, and such groups
        share a value head.
      }],
      "::mlir::Value", "getHeadMap", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return {};">,
    InterfaceMethod<"Factor of the scores, if one is given.",
      "::std::optional<::llvm::APFloat>", "getScale">,
    InterfaceMethod<"Sets or, if absent, removes the factor of the scores.",
      "void", "setScale", (ins "::std::optional<::llvm::APFloat>":$scale)>,
    InterfaceMethod<"Named mask, or null.",
      "::mlir::attn::MaskAttrInterface", "getMaskAttr">,
    InterfaceMethod<"Sets the named mask.",
      "void", "setMaskAttr", (ins "::mlir::attn::MaskAttrInterface":$mask)>,
    InterfaceMethod<"Removes the named mask.",
      "::mlir::Attribute", "removeMaskAttr">,
    InterfaceMethod<"Operands that the named mask reads.",
      "::mlir::OperandRange", "getMaskReads">,
    InterfaceMethod<"The operands that the named mask reads, to be changed.",
      "::mlir::MutableOperandRange", "getMaskReadsMutable">,
    InterfaceMethod<"Dropout of attention probabilities, or null.",
      "::mlir::attn::DropoutAttr", "getDropoutAttr">,
    InterfaceMethod<"Removes the dropout; its operands stay.",
      "::mlir::Attribute", "removeDropoutAttr">,
    InterfaceMethod<"Seed of the random numbers of the dropout, or null.",
      "::mlir::Value", "getSeed">,
    InterfaceMethod<"Offset of the random numbers of the dropout, or null.",
      "::mlir::Value", "getOffset">,
    InterfaceMethod<"The seed as a range of at most one operand.",
      "::mlir::MutableOperandRange", "getSeedMutable">,
    InterfaceMethod<"The offset as a range of at most one operand.",
      "::mlir::MutableOperandRange", "getOffsetMutable">,
    InterfaceMethod<"Packed dropout keep mask, or null.",
      "::mlir::Value", "getDropoutMask">,
    InterfaceMethod<"The layout of the packed keep mask, if there is one.",
      "::std::optional<::mlir::attn::MaskLayout>", "getMaskLayout">,
    InterfaceMethod<"The probability with which the packed keep mask drops a pair.",
      "::std::optional<::llvm::APFloat>", "getDropProbability">,
    InterfaceMethod<"How kernels of the operation are built, or null.",
      "::mlir::Attribute", "getScheduleAttr">,
    InterfaceMethod<"Sets how kernels of the operation are built.",
      "void", "setScheduleAttr",
      (ins "::mlir::Attribute":$schedule)>,
    InterfaceMethod<[{
        How kernels find the rows of keys and values; by default, as the operands
        of the interface say.
      }],
      "::mlir::attn::KVAddressingAttrInterface", "getAddressing", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/[{
        return ::mlir::attn::getOperandAddressing(
            ::mlir::cast<::mlir::attn::AttentionOpInterface>(
                $_op.getOperation()));
      }]>,
    InterfaceMethod<"The `score_mod` region; empty if absent.",
      "::mlir::Region &", "getScoreMod">,
    InterfaceMethod<"The `mask_mod` region; empty if absent.",
      "::mlir::Region &", "getMaskMod">,
    InterfaceMethod<[{
        Whether the operation has a `score_mod_grad` region, so that the
        `score_mod` region must not be changed alone.
      }],
      "bool", "statesScoreGrad">,
    InterfaceMethod<[{
        The query, key and value and all operands whose sizes depend on their
        sizes, in the order of the operands.
      }],
      "::llvm::SmallVector<::mlir::attn::AttentionOperand>",
      "getShapedOperands">,
    InterfaceMethod<[{
        Operands with one entry for each query head.
      }],
      "::llvm::SmallVector<::mlir::attn::HeadOperand>", "getHeadOperands",
      (ins), /*methodBody=*/"", /*defaultImplementation=*/"return {};">,
    InterfaceMethod<[{
        Destinations that regions refer to by a block argument of the same
        type, each with its block argument.
      }],
      "::llvm::SmallVector<::mlir::attn::RegionDestination>",
      "getRegionDestinations">,
    InterfaceMethod<[{
        Floating point operations of the matmuls for one attended
        (query, key) pair of one query head; a multiplication and an addition
        are two.
      }],
      "int64_t", "getFlopsPerPair">,
  ];
  let extraSharedClassDeclaration = [{
    /// The scale given, or 1 / sqrt(Dqk).
    float getScaleOrDefault() {
      if (std::optional<::llvm::APFloat> scale = $_op.getScale())
        return scale->convertToFloat();
      return getDefaultScale();
    }
    float getDefaultScale() {
      return 1.0f / std::sqrt(static_cast<float>(getQKHeadDim()));
    }

    /// The schedule, or null if there is none or a choice among several.
    ::mlir::attn::ScheduleAttrInterface getChosenSchedule() {
      return ::llvm::dyn_cast_if_present<::mlir::attn::ScheduleAttrInterface>(
          $_op.getScheduleAttr());
    }

    /// Static sizes: number of query, key and value heads, and head dimensions.
    int64_t getNumQueryHeads() {
      return ::mlir::attn::getDimSize($_op.getQuery(), 1);
    }
    int64_t getNumKeyHeads() {
      return ::mlir::attn::getDimSize($_op.getKey(), 1);
    }
    int64_t getNumValueHeads() {
      return ::mlir::attn::getDimSize($_op.getValue(), 1);
    }
    int64_t getQKHeadDim() {
      return ::mlir::attn::getDimSize($_op.getQuery(), 3);
    }
    int64_t getVHeadDim() {
      return ::mlir::attn::getDimSize($_op.getValue(), 3);
    }
    /// GQA groups, if there is no map: the fewest groups of consecutive query
    /// heads, of equal size, with one key and one value head for each group.
    int64_t getNumGroups() {
      return std::lcm(getNumKeyHeads(), getNumValueHeads());
    }
    /// Query heads of a GQA group.
    int64_t getGroupSize() { return getNumQueryHeads() / getNumGroups(); }

    /// Emits the key and the value head of query head `head`, if there is no
    /// map.
    ::mlir::attn::KeyValueHeads emitKeyValueHeads(::mlir::OpBuilder &builder,
                                                  ::mlir::Location loc,
                                                  ::mlir::Value head) {
      return ::mlir::attn::emitSharedHeads(builder, loc, head,
                                           getNumQueryHeads(), getNumKeyHeads(),
                                           getNumValueHeads());
    }
    /// The same of GQA group `group`.
    ::mlir::attn::KeyValueHeads
    emitKeyValueHeadsOfGroup(::mlir::OpBuilder &builder, ::mlir::Location loc,
                             ::mlir::Value group) {
      return ::mlir::attn::emitSharedHeads(builder, loc, group, getNumGroups(),
                                           getNumKeyHeads(),
                                           getNumValueHeads());
    }

    /// The lengths that masks see, each dynamic if it is not known, or zero.
    std::pair<int64_t, int64_t> getStaticLengths() {
      auto getLength = [&](::mlir::Value operand, bool isRead) {
        int64_t length = ::mlir::attn::getDimSize(operand, 2);
        return isRead || length == 0 ? ::mlir::ShapedType::kDynamic : length;
      };
      return {getLength($_op.getQuery(), hasSequences() || isShard()),
              getLength($_op.getKey(), readsKeyLengths() || isShard())};
    }

    /// Whether masks and regions see the global coordinates of a shard.
    bool isShard() { return $_op.getPositions() && !$_op.getDropoutOnly(); }

    /// Whether attention probabilities are dropped.
    bool hasDropout() {
      return $_op.getDropoutAttr() || $_op.getDropoutMask();
    }
    /// One minus the effective p: kept attention probabilities are divided by it.
    double getKeepProbability() {
      if (::mlir::attn::DropoutAttr dropout = $_op.getDropoutAttr())
        return dropout.getKeepProbability();
      if (std::optional<::llvm::APFloat> p = $_op.getDropProbability())
        return 1 - static_cast<double>(p->convertToFloat());
      return 1;
    }

    /// Whether the lengths of sequences are given.
    bool hasSequences() { return $_op.getSequenceLayout().has_value(); }

    /// Whether only queries are packed, and keys are in a KV cache.
    bool hasPackedQueries() {
      return $_op.getSequenceLayout() ==
             ::mlir::attn::SequenceLayout::PackedQueries;
    }

    /// Whether the device reads the number of keys: of sequences, or of a cache.
    bool readsKeyLengths() { return hasSequences() || $_op.getKeyLengths(); }

    /// Whether the operands are memrefs.
    bool isBufferized() {
      return ::llvm::isa<::mlir::MemRefType>($_op.getQuery().getType());
    }
  }];
}

def Attn_MaskTableOpInterface : OpInterface<"MaskTableOpInterface"> {
  let cppNamespace = "::mlir::attn";
  let description = [{
    An operation that computes a table of `i32` that masks read. It becomes a kernel
    of its own, with a schedule for preparation kernels
    (`ScheduleAttrInterface::getPreparation`).
  }];
  let methods = [
    InterfaceMethod<"How the kernel is built, or null.",
      "::mlir::attn::ScheduleAttrInterface", "getScheduleAttr">,
    InterfaceMethod<"Sets how the kernel is built.",
      "void", "setScheduleAttr",
      (ins "::mlir::attn::ScheduleAttrInterface":$schedule)>,
    InterfaceMethod<"The table: the destination.",
      "::mlir::Value", "getTable">,
  ];
}

#endif // ATTN_DIALECT_ATTN_IR_ATTNINTERFACES_TD
