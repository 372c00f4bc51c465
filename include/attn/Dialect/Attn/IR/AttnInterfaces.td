//===- AttnInterfaces.td - Interfaces of the attn dialect --*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The attribute interfaces through which masks, random number generators and
// schedules plug in, and what attention and its gradient have in common.
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
    which pairs attend. The contract is "emit the predicate". What tiles need of
    it is derived from the code that is emitted, which is exact where that is
    integer arithmetic and logic that `MaskAnalysis` understands.

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
        lengths; `std::nullopt` if it does neither or is not known to.
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
        all lengths; null if none is known. Composites need not look for it:
        `simplifyMask` asks about their parts.
      }],
      "::mlir::attn::MaskAttrInterface", "getIntersection",
      (ins "::mlir::attn::MaskAttrInterface":$other),
      /*methodBody=*/"", /*defaultImplementation=*/"return nullptr;">,
    InterfaceMethod<[{
        A mask, simpler than the two, that keeps the pairs that one of them
        keeps, for all lengths; null if none is known.
      }],
      "::mlir::attn::MaskAttrInterface", "getUnion",
      (ins "::mlir::attn::MaskAttrInterface":$other),
      /*methodBody=*/"", /*defaultImplementation=*/"return nullptr;">,
    InterfaceMethod<[{
        The numbers of the operands that the mask reads; none for a mask of
        positions alone. What a mask with operands keeps is known to its emitted
        predicate only: `isAttended` says for which pairs that may hold.
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
        Sizes of the operands that must equal those of others, beyond what types
        say. `verifyReads` compares them where both are static; callers of a
        compiled function are told of others.
      }],
      "::llvm::SmallVector<::mlir::attn::EqualSizes>", "getEqualSizes",
      (ins "const ::mlir::attn::MaskReads &":$reads), /*methodBody=*/"",
      /*defaultImplementation=*/"return {};">,
    InterfaceMethod<[{
        Emits, before the attention, what the predicate of a mask with operands
        reads: operands, and tables that are made of them. `emitPredicate` gets
        them back by `MaskPosition::getTables`.
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
        Runs the generator. Agrees with what `emitBlock` emits.
      }],
      "::mlir::attn::RngBlock<uint32_t>", "computeBlock",
      (ins "::mlir::attn::RngKey<uint32_t>":$key,
           "::mlir::attn::RngBlock<uint32_t>":$counter)>,
    InterfaceMethod<"Counts the instructions of what `emitBlock` emits.",
      "::mlir::attn::RngWork", "countBlock", (ins)>,
  ];
}

def Attn_ScheduleAttrInterface : AttrInterface<"ScheduleAttrInterface"> {
  let cppNamespace = "::mlir::attn";
  let description = [{
    How one attention is turned into one kernel: tile shapes, and the kernel
    passes that realise the strategy. A new strategy is a new attribute.
  }];
  let methods = [
    InterfaceMethod<"Rows of queries that one work item handles.",
      "int64_t", "getQueryTile", (ins)>,
    InterfaceMethod<"Keys in one step of the loop over keys.",
      "int64_t", "getKeyTile", (ins)>,
    InterfaceMethod<[{
        Of a schedule of matrix products, whose tiles of queries and keys are
        rows and columns of the result: contracted elements in one step. 0 of
        all others.
      }],
      "int64_t", "getDepthTile", (ins), /*methodBody=*/"",
        /*defaultImplementation=*/"return 0;">,
    InterfaceMethod<[{
        Rows of queries whose products read a tile of keys or values from shared
        memory together; 0 if tiles are not staged there.
      }],
      "int64_t", "getRowsPerRead", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return 0;">,
    InterfaceMethod<[{
        Parts that a tile of queries is walked over in where a work item is a
        tile of keys.
      }],
      "int64_t", "getQueryParts", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return 1;">,
    InterfaceMethod<[{
        Whether kernels have warps without work of their own, which can run
        `attn_tile.beside`.
      }],
      "bool", "leavesWarps", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return false;">,
    InterfaceMethod<[{
        Whether the reference that exponents are taken relative to may lag
        behind the maximum of its row, so that rescaling the accumulator by one
        can be skipped in most steps (FlashAttention-4). Costs a little in each
        step; pays where the accumulator is large.
      }],
      "bool", "isRescaleLazy", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return false;">,
    InterfaceMethod<[{
        The schedule of kernels that prepare the work of a kernel with this one:
        work items of scalar computations.
      }],
      "::mlir::attn::ScheduleAttrInterface", "getPreparation", (ins)>,
    InterfaceMethod<[{
        The schedules of the kernels of a gradient. A schedule that is made for
        one kernel serves all of them.
      }],
      "::mlir::attn::GradSchedules", "getGradSchedules", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/[{
        return {$_attr, $_attr, nullptr, $_attr};
      }]>,
    InterfaceMethod<[{
        Estimates the time that the kernels of attention, or of its gradient,
        take for what `tiles` counts, in the order in which they run; empty if
        there is no model of it.
      }],
      "::llvm::SmallVector<::mlir::attn::KernelTime>", "estimateKernels",
      (ins "const ::mlir::attn::VisitedTiles &":$tiles,
           "const ::mlir::attn::DeviceFigures &":$device),
      /*methodBody=*/"", /*defaultImplementation=*/"return {};">,
    InterfaceMethod<[{
        Whether the kernels of `op`, an attention, its gradient or a matrix
        product, can have this schedule on `target`; reports on `op` why not.
      }],
      "::llvm::LogicalResult", "verifyUse",
      (ins "::mlir::Operation *":$op, "::llvm::StringRef":$target)>,
    InterfaceMethod<[{
        Appends the passes that turn the plain tiled program of
        `convert-attn-to-attn-tile` into this strategy's final `attn_tile`
        program. The pass manager is anchored on `builtin.module`.
      }],
      "void", "buildKernelPipeline", (ins "::mlir::OpPassManager &":$pm)>,
    InterfaceMethod<[{
        How many work items there should be: as long as there are no more, the
        key tiles of one tile of queries are shared among several. 0 if they
        never are.
      }],
      "int64_t", "getSplitItems", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return 0;">,
    InterfaceMethod<[{
        How many work items, of neighbouring tiles of queries, walk over keys
        together and share what they load of them: the work items of a cluster
        of groups.
      }],
      "int64_t", "getClusterSize", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return 1;">,
    InterfaceMethod<[{
        Whether the query heads that share a key head fill the rows of one tile
        of queries, of which there is one for each head (see `whyNotPackHeads`).
      }],
      "bool", "packsHeads", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return false;">,
    InterfaceMethod<[{
        Whether a kernel before evaluates what masks cut that read tensors but
        not the head, a bit for each pair of a tile.
      }],
      "bool", "readsPairBits", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return false;">,
  ];
}

def Attn_AttentionOpInterface : OpInterface<"AttentionOpInterface", [
    DestinationStyleOpInterface]> {
  let cppNamespace = "::mlir::attn";
  let description = [{
    What attention and its gradient have in common: a walk over (query, key)
    pairs whose scores are `scale * dot(query, key)`, changed by the score
    region, for the pairs that the mask and the keep region leave.

    Passes that choose schedules, describe functions or move operands treat all
    operations with this interface alike.
  }];
  let methods = [
    InterfaceMethod<"Queries, `[B, Hq, Sq, Dqk]`.",
      "::mlir::Value", "getQuery">,
    InterfaceMethod<"Keys, `[B, Hkv, Skv, Dqk]`.",
      "::mlir::Value", "getKey">,
    InterfaceMethod<"Values, `[B, Hkv, Skv, Dv]`.",
      "::mlir::Value", "getValue">,
    InterfaceMethod<"Boundaries or lengths of the queries' sequences, or null.",
      "::mlir::Value", "getQuerySequences">,
    InterfaceMethod<"Boundaries or lengths of the keys' sequences, or null.",
      "::mlir::Value", "getKeySequences">,
    InterfaceMethod<"How sequences of different lengths are stored, if any.",
      "::std::optional<::mlir::attn::SequenceLayout>", "getSequenceLayout">,
    InterfaceMethod<[{
        The key head of each query head, or null where consecutive query heads
        form groups of one size.
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
    InterfaceMethod<"Which weights are dropped, or null.",
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
    InterfaceMethod<"Packed decisions of dropout, or null.",
      "::mlir::Value", "getDropoutMask">,
    InterfaceMethod<"The layout of the packed decisions, if there are any.",
      "::std::optional<::mlir::attn::MaskLayout>", "getMaskLayout">,
    InterfaceMethod<"The probability with which packed decisions drop a weight.",
      "::std::optional<::llvm::APFloat>", "getDropProbability">,
    InterfaceMethod<"How kernels of the operation are built, or null.",
      "::mlir::Attribute", "getScheduleAttr">,
    InterfaceMethod<"Sets how kernels of the operation are built.",
      "void", "setScheduleAttr",
      (ins "::mlir::Attribute":$schedule)>,
    InterfaceMethod<"Region that changes scores, or an empty one.",
      "::mlir::Region &", "getScoreRegion">,
    InterfaceMethod<"Region that keeps pairs, or an empty one.",
      "::mlir::Region &", "getKeepRegion">,
    InterfaceMethod<[{
        Whether the operation states the derivative of the score region beside
        it, so that the score region must not be changed alone.
      }],
      "bool", "statesScoreGrad">,
    InterfaceMethod<[{
        The query, key and value and all operands whose sizes are tied to
        theirs, in the order of the operands.
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
        type, with these arguments.
      }],
      "::llvm::SmallVector<::mlir::attn::RegionDestination>",
      "getRegionDestinations">,
    InterfaceMethod<[{
        Floating point operations of the matrix products for one attended
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
      return 1.0f / std::sqrt(static_cast<float>(getQueryHeadDim()));
    }

    /// The schedule, or null if there is none or a choice among several.
    ::mlir::attn::ScheduleAttrInterface getChosenSchedule() {
      return ::llvm::dyn_cast_if_present<::mlir::attn::ScheduleAttrInterface>(
          $_op.getScheduleAttr());
    }

    /// Static sizes: number of query and key/value heads, and head dimensions.
    int64_t getNumQueryHeads() {
      return ::mlir::attn::getDimSize($_op.getQuery(), 1);
    }
    int64_t getNumKeyHeads() {
      return ::mlir::attn::getDimSize($_op.getKey(), 1);
    }
    int64_t getQueryHeadDim() {
      return ::mlir::attn::getDimSize($_op.getQuery(), 3);
    }
    int64_t getValueHeadDim() {
      return ::mlir::attn::getDimSize($_op.getValue(), 3);
    }
    /// Query heads that share one key and value head, if there is no map.
    int64_t getGroupSize() { return getNumQueryHeads() / getNumKeyHeads(); }

    /// The lengths that masks see, each dynamic if it is not known, or zero.
    std::pair<int64_t, int64_t> getStaticLengths() {
      auto getLength = [&](::mlir::Value operand) {
        int64_t length = ::mlir::attn::getDimSize(operand, 2);
        return hasSequences() || length == 0 ? ::mlir::ShapedType::kDynamic
                                             : length;
      };
      return {getLength($_op.getQuery()), getLength($_op.getKey())};
    }

    /// Whether weights are dropped.
    bool hasDropout() {
      return $_op.getDropoutAttr() || $_op.getDropoutMask();
    }
    /// The probability to keep a weight: what kept ones are divided by.
    double getKeepProbability() {
      if (::mlir::attn::DropoutAttr dropout = $_op.getDropoutAttr())
        return dropout.getKeepProbability();
      if (std::optional<::llvm::APFloat> p = $_op.getDropProbability())
        return 1 - static_cast<double>(p->convertToFloat());
      return 1;
    }

    /// Whether the lengths of sequences are given.
    bool hasSequences() { return $_op.getSequenceLayout().has_value(); }

    /// Whether the operands are memrefs.
    bool isBufferized() {
      return ::llvm::isa<::mlir::MemRefType>($_op.getQuery().getType());
    }
  }];
}

def Attn_MaskTableOpInterface : OpInterface<"MaskTableOpInterface"> {
  let cppNamespace = "::mlir::attn";
  let description = [{
    An operation that makes a table of `i32` that masks read. It becomes a kernel
    of its own, with a schedule of kernels that prepare the work of others.
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
