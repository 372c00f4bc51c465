//===- AttnAttrs.td - Attributes of the attn dialect -------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Named masks, dropout, choices of schedules, devices.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTNATTRS_TD
#define ATTN_DIALECT_ATTN_IR_ATTNATTRS_TD

include "attn/Dialect/Attn/IR/AttnDialect.td"
include "attn/Dialect/Attn/IR/AttnInterfaces.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

class Attn_Attr<string name, string mnemonicName, list<Trait> traits = []>
    : AttrDef<Attn_Dialect, name, traits> {
  let mnemonic = mnemonicName;
}

def Attn_MaskAlignment : I32EnumAttr<"MaskAlignment",
    "which corner of the score matrix a diagonal starts from", [
      I32EnumAttrCase<"BottomRight", 0, "bottom_right">,
      I32EnumAttrCase<"TopLeft", 1, "top_left">]> {
  let cppNamespace = "::mlir::attn";
  let genSpecializedAttr = 0;
}

def Attn_MaskAlignmentParam
    : EnumParameter<Attn_MaskAlignment> {
  let defaultValue = "::mlir::attn::MaskAlignment::BottomRight";
}

def Attn_SequenceLayout : I32EnumAttr<"SequenceLayout",
    "how sequences of different lengths are stored", [
      I32EnumAttrCase<"Packed", 0, "packed">,
      I32EnumAttrCase<"Padded", 1, "padded">]> {
  let cppNamespace = "::mlir::attn";
  let genSpecializedAttr = 0;
}

def Attn_SequenceLayoutAttr
    : EnumAttr<Attn_Dialect, Attn_SequenceLayout, "sequence_layout"> {
  let summary = "how sequences of different lengths are stored";
  let description = [{
    `packed`: one after another in one batch entry; their boundaries are given.
    `padded`: each in a batch entry of its own, of which it is the beginning;
    their lengths are given.

    ```mlir
    #attn<sequence_layout packed>
    ```
  }];
  let assemblyFormat = "$value";
}

def Attn_CausalAttr : Attn_Attr<"Causal", "causal", [
    DeclareAttrInterfaceMethods<Attn_MaskAttrInterface,
        ["emitQueryRange", "getConstantValue", "simplify", "getIntersection",
         "getUnion"]>]> {
  let summary = "each query attends to keys up to its own position";
  let description = [{
    Query `i` attends to key `j` if `j <= i + offset`. The offset is
    `keyLength - queryLength` when aligned to the bottom right corner (the
    default: the last query attends to all keys) and 0 when aligned to the top
    left corner.

    ```mlir
    #attn.causal
    #attn.causal<alignment = top_left>
    ```
  }];
  let parameters = (ins Attn_MaskAlignmentParam:$alignment);
  let assemblyFormat = "(`<` struct($alignment)^ `>`)?";
}

def Attn_SlidingWindowAttr : Attn_Attr<"SlidingWindow", "sliding_window", [
    DeclareAttrInterfaceMethods<Attn_MaskAttrInterface,
        ["emitQueryRange", "getConstantValue", "simplify", "getIntersection",
         "getUnion"]>]> {
  let summary = "each query attends to a window of keys around its position";
  let description = [{
    Query `i` attends to key `j` if
    `i + offset - left <= j <= i + offset + right`, with the offset of
    `#attn.causal`. A side that is absent is unbounded. `right = 0` makes the
    window causal.

    ```mlir
    #attn.sliding_window<left = 1024, right = 0>
    #attn.sliding_window<left = 256, alignment = top_left>
    ```
  }];
  let parameters = (ins OptionalParameter<"std::optional<int64_t>">:$left,
                        OptionalParameter<"std::optional<int64_t>">:$right,
                        Attn_MaskAlignmentParam:$alignment);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

class Attn_MaskAttr<string name, string mnemonicName,
                    list<string> methods = []>
    : Attn_Attr<name, mnemonicName, [DeclareAttrInterfaceMethods<
          Attn_MaskAttrInterface, !listconcat(["getConstantValue"], methods)>]>;

def Attn_NoneAttr : Attn_MaskAttr<"None", "none"> {
  let summary = "no query attends to any key";
  let description = [{
    What `attn-simplify-masks` makes of masks that keep no pair.

    ```mlir
    #attn.none
    ```
  }];
}

def Attn_PrefixLMAttr : Attn_MaskAttr<"PrefixLM", "prefix_lm",
    ["simplify", "getIntersection", "getUnion"]> {
  let summary = "causal, but for a prefix that all queries attend";
  let description = [{
    Query `i` attends to key `j` if `j < length` or `j <= i + offset`, with the
    offset of `#attn.causal`. A length that is known at run time is stated with a
    region.

    ```mlir
    #attn.prefix_lm<length = 4096>
    ```
  }];
  let parameters = (ins "int64_t":$length, Attn_MaskAlignmentParam:$alignment);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Attn_DilatedWindowAttr : Attn_MaskAttr<"DilatedWindow", "dilated_window",
    ["simplify", "getIntersection"]> {
  let summary = "every n-th key of a window around each query";
  let description = [{
    Query `i` attends to key `j` if
    `i + offset - left <= j <= i + offset + right` and `i + offset - j` is a
    multiple of `dilation`, with the offset of `#attn.causal` (Longformer,
    Beltagy et al. 2020).

    ```mlir
    #attn.dilated_window<left = 1024, right = 0, dilation = 4>
    ```
  }];
  let parameters = (ins "int64_t":$left, "int64_t":$right, "int64_t":$dilation,
                        Attn_MaskAlignmentParam:$alignment);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Attn_LocalBlocksAttr : Attn_MaskAttr<"LocalBlocks", "local_blocks",
    ["simplify", "getIntersection", "getUnion"]> {
  let summary = "each query attends to its own block and some around it";
  let description = [{
    Positions are cut into blocks of `size`, counted from position 0. Query `i`
    attends to key `j` if the block of `j` is at most `before` blocks before, and
    at most `after` blocks behind, that of `i + offset`, with the offset of
    `#attn.causal`. A side that is absent is unbounded. The block of a negative
    position is before block 0.

    | mask | as local blocks |
    |---|---|
    | block-diagonal | `before = 0, after = 0` |
    | block-causal | `after = 0` |
    | chunked causal | `#attn.and` of block-diagonal and causal |

    ```mlir
    #attn.local_blocks<size = 512, before = 1, after = 0>
    ```
  }];
  let parameters = (ins "int64_t":$size,
                        OptionalParameter<"std::optional<int64_t>">:$before,
                        OptionalParameter<"std::optional<int64_t>">:$after,
                        Attn_MaskAlignmentParam:$alignment);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Attn_GlobalTokensAttr : Attn_MaskAttr<"GlobalTokens", "global_tokens",
    ["getIntersection", "getUnion"]> {
  let summary = "the first tokens attend to all, and all to them";
  let description = [{
    Query `i` attends to key `j` if `i < count` or `j < count`. To be combined
    with a window by `#attn.or` (Longformer, Beltagy et al. 2020).

    ```mlir
    #attn.or<#attn.global_tokens<count = 64>, #attn.sliding_window<left = 256, right = 256>>
    ```
  }];
  let parameters = (ins "int64_t":$count);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

class Attn_CompositeMaskAttr<string name, string mnemonicName>
    : Attn_MaskAttr<name, mnemonicName> {
  let parameters = (ins
      ArrayRefParameter<"::mlir::attn::MaskAttrInterface">:$masks);
  let assemblyFormat = "`<` $masks `>`";
  let genVerifyDecl = 1;
}

def Attn_AndAttr : Attn_CompositeMaskAttr<"And", "and"> {
  let summary = "pairs that all of some masks keep";
  let description = [{
    ```mlir
    #attn.and<#attn.causal, #attn.local_blocks<size = 512, before = 0, after = 0>>
    ```
  }];
}

def Attn_OrAttr : Attn_CompositeMaskAttr<"Or", "or"> {
  let summary = "pairs that one of some masks keeps";
  let description = [{
    ```mlir
    #attn.or<#attn.causal, #attn.global_tokens<count = 16>>
    ```
  }];
}

def Attn_NotAttr : Attn_MaskAttr<"Not", "not",
    ["getIntersection", "getUnion"]> {
  let summary = "pairs that a mask does not keep";
  let description = [{
    ```mlir
    #attn.not<#attn.sliding_window<left = 0, right = 0>>
    ```
  }];
  let parameters = (ins "::mlir::attn::MaskAttrInterface":$mask);
  let assemblyFormat = "`<` $mask `>`";
}

//===----------------------------------------------------------------------===//
// Dropout
//===----------------------------------------------------------------------===//

class Attn_RngAttr<string name, string mnemonicName, string defaultRounds>
    : Attn_Attr<name, mnemonicName,
                [DeclareAttrInterfaceMethods<Attn_RngAttrInterface>]> {
  let parameters = (ins
      DefaultValuedParameter<"int64_t", defaultRounds>:$rounds);
  let assemblyFormat = "(`<` struct($rounds)^ `>`)?";
  let genVerifyDecl = 1;
}

def Attn_PhiloxAttr : Attn_RngAttr<"Philox", "philox", "10"> {
  let summary = "Philox4x32";
  let description = [{
    Multiplications of 32 bits with results of 64 bits (Salmon et al. 2011). 7
    rounds are the least that pass all statistical tests known; 10 are what
    cuRAND and PyTorch use.

    ```mlir
    #attn.philox
    #attn.philox<rounds = 7>
    ```
  }];
}

def Attn_ThreefryAttr : Attn_RngAttr<"Threefry", "threefry", "20"> {
  let summary = "Threefry4x32";
  let description = [{
    Additions, rotations and exclusive ors (Salmon et al. 2011); the last two
    words of its key are zero. 12 rounds are the least that pass all
    statistical tests known.

    ```mlir
    #attn.threefry
    #attn.threefry<rounds = 12>
    ```
  }];
}

def Attn_ArxAttr : Attn_RngAttr<"Arx", "arx", "6"> {
  let summary = "a generator of cheap instructions";
  let description = [{
    Additions, rotations and exclusive ors: rounds of the permutation of Chaskey
    (Mouha et al. 2014), each with the key, to which the constants of Philox's
    key schedule are added, 14 instructions on a GPU. On Hopper such
    instructions, unlike the multiplications of Philox, run beside matrix
    products at no cost to them. After 5 rounds each bit of key and counter
    influences all bits of the result. docs/rng.md says how it was tested.

    ```mlir
    #attn.arx
    #attn.arx<rounds = 8>
    ```
  }];
}

/// Printed like the number of a float attribute, without its type.
def Attn_ProbabilityParam : APFloatParameter<"a probability"> {
  let parser = [{[&]() -> ::mlir::FailureOr<::llvm::APFloat> {
    double value;
    if (::mlir::failed($_parser.parseFloat(value)))
      return ::mlir::failure();
    return ::llvm::APFloat(value);
  }()}];
  let printer = "$_printer.printFloat($_self)";
}

def Attn_RngParam
    : AttrOrTypeParameter<"::mlir::attn::RngAttrInterface", "a generator">;

def Attn_DropoutAttr : Attn_Attr<"Dropout", "dropout"> {
  let summary = "which weights of attention are dropped";
  let description = [{
    A weight is dropped with probability `round(p * 2^bits) / 2^bits`, the
    effective p, and kept weights are divided by one minus that. `bits` is 4, 8
    or 16; the effective p must be less than 1 and differ by at most 5 % from p.

    Whether a weight is dropped is a function of seed, offset, batch, head, query
    and key position alone, made with the generator `rng`; docs/rng.md defines
    it. Dropouts that differ in `bits` alone, with the same effective p, drop the
    same weights.

    ```mlir
    #attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>, bits = 8>
    ```
  }];
  let parameters = (ins Attn_ProbabilityParam:$p, Attn_RngParam:$rng,
                        DefaultValuedParameter<"int64_t", "8">:$bits);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// A weight is dropped if a random number of `bits` bits is less than this.
    int64_t getThreshold() const;
    /// The effective p, and one minus that.
    double getDropProbability() const;
    double getKeepProbability() const;

    /// The keys and the distance of the two queries of a decision word: bit
    /// `s * 16 + t` of it is that of query `i + 8 * s` and key `j + t`, where
    /// `i mod 16 < 8` and `j mod 16 = 0`.
    static constexpr int64_t keysOfWord = 16;
    static constexpr int64_t queryDistance = 8;

    /// Emits what decisions of one head depend on: a key, and half of a
    /// counter. Seed and offset are `i64`, batch and head `index`; results are
    /// `i32`.
    ::mlir::attn::RngBlock<::mlir::Value>
    emitStream(::mlir::OpBuilder &builder, ::mlir::Location loc,
               ::mlir::Value seed, ::mlir::Value offset, ::mlir::Value batch,
               ::mlir::Value head) const;
    /// Emits a decision word, whose bits are set where weights are kept, for
    /// `queryWord = i / 16 * 8 + i mod 8` and `keyWord = j / 16`. All values
    /// are `i32`, or vectors of them of one type.
    ::mlir::Value
    emitKeepWord(::mlir::OpBuilder &builder, ::mlir::Location loc,
                 ::mlir::attn::RngBlock<::mlir::Value> stream,
                 ::mlir::Value queryWord, ::mlir::Value keyWord) const;

    /// The same, computed.
    ::mlir::attn::RngBlock<uint32_t> computeStream(uint64_t seed, uint64_t offset,
                                                   uint32_t batch,
                                                   uint32_t head) const;
    uint32_t computeKeepWord(::mlir::attn::RngBlock<uint32_t> stream,
                             uint32_t queryWord, uint32_t keyWord) const;
    /// Whether the weight of a pair is kept.
    bool isKept(::mlir::attn::RngBlock<uint32_t> stream, int64_t query,
                int64_t key) const;
  }];
}

//===----------------------------------------------------------------------===//
// Schedules
//===----------------------------------------------------------------------===//

def Attn_ScheduleParam
    : AttrOrTypeParameter<"::mlir::attn::ScheduleAttrInterface", "a schedule">;

def Attn_ByQueryLengthAttr : Attn_Attr<"ByQueryLength", "by_query_length"> {
  let summary = "one of two schedules, by the number of queries";
  let description = [{
    `below` where there are fewer than `bound` queries, `from` where there are
    `bound` or more. Large tiles of queries are efficient on long sequences and
    waste work at the ends of short ones, so that no single schedule serves all
    lengths of a function whose sizes are dynamic. `attn-dispatch-schedules` turns
    it into a choice at run time.

    ```mlir
    #attn.by_query_length<bound = 3072, below = #a, from = #b>
    ```
  }];
  let parameters = (ins "int64_t":$bound, Attn_ScheduleParam:$below,
                        Attn_ScheduleParam:$from);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Attn_AnyScheduleAttr
    : AnyAttrOf<[Attn_ScheduleAttrInterface, Attn_ByQueryLengthAttr],
                "a schedule, or a choice of schedules">;

def Attn_DeviceAttr : Attn_Attr<"Device", "device"> {
  let summary = "capacities and rates of a device";
  let description = [{
    What the cost model knows of a device. `"a100"`, `"h100"`, `"h200"`, `"b200"`
    and `"host"` are known by name, from public figures; other figures that are
    given replace theirs. A device of another name has the figures that are given.

    | figure | unit |
    |---|---|
    | `multiprocessors` | |
    | `clock_mhz` | MHz, under load |
    | `products32`, `products16`, `products8` | FLOP per clock and multiprocessor, of matrix products of elements of that many bits with f32 sums |
    | `fma`, `special`, `integer`, `wide_multiply` | operations per clock and multiprocessor: f32 multiplication and addition; exp2, log2, tanh and the like; 32-bit addition and logic; multiplications of 32 bits with 64-bit results |
    | `registers` | of 32 bits, per multiprocessor |
    | `shared_bytes`, `shared_bytes_per_clock` | bytes for one group of threads; per clock and multiprocessor |
    | `l2_bytes`, `l2_bytes_per_clock` | bytes; per clock of the whole device |
    | `memory_bytes`, `memory_gbps` | bytes; 10^9 bytes per second |
    | `link_gbps` | 10^9 bytes per second to other devices, both directions together |
    | `launch_ns` | what a kernel takes beside its work |
    | `product_percent`, `memory_percent` | of the rates of products and memory, what large kernels sustain |

    A rate of 0 bounds nothing: the device lacks the unit, or the rate is not
    known. On a module as `attn.device`, it is the device that programs are
    compiled for; without, it is that of the target: `"h200"` for `sm_90a`,
    `"a100"` for `sm_80`.

    ```mlir
    module attributes {attn.device = #attn.device<"h200", clock_mhz = 1500>} {}
    ```
  }];
  let parameters = (ins StringRefParameter<"">:$name,
                        "::mlir::attn::DeviceFigures":$figures);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The device that is known by `name`, or null.
    static DeviceAttr getKnown(::mlir::MLIRContext *context,
                               ::llvm::StringRef name);
  }];
}

#endif // ATTN_DIALECT_ATTN_IR_ATTNATTRS_TD
