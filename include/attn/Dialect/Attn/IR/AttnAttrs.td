//===- AttnAttrs.td - Attributes of the attn dialect ------*- tablegen -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Named masks, choices between schedules, devices.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTNATTRS_TD
#define ATTN_DIALECT_ATTN_IR_ATTNATTRS_TD

include "attn/Dialect/Attn/IR/AttnDropout.td"
include "mlir/IR/EnumAttr.td"

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
      I32EnumAttrCase<"Padded", 1, "padded">,
      I32EnumAttrCase<"PackedQueries", 2, "packed_queries">]> {
  let cppNamespace = "::mlir::attn";
  let genSpecializedAttr = 0;
}

def Attn_SequenceLayoutAttr
    : EnumAttr<Attn_Dialect, Attn_SequenceLayout, "sequence_layout"> {
  let summary = "how sequences of different lengths are stored";
  let description = [{
    `packed`: one after another in one batch entry, with boundaries (`cu_seqlens`).
    `padded`: each at the beginning of its own batch entry, with lengths.
    `packed_queries`: queries as in `packed`, keys and values as in a KV cache, each
    sequence in its own batch entry or in its own pages, with lengths.

    ```mlir
    #attn<sequence_layout packed>
    ```
  }];
  let assemblyFormat = "$value";
}

class Attn_KVAddressingAttr<string name, string mnemonicName, list<string> methods>
    : Attn_Attr<name, mnemonicName, [
        DeclareAttrInterfaceMethods<Attn_KVAddressingAttrInterface, methods>]>;

def Attn_DenseKVAttr : Attn_KVAddressingAttr<"DenseKV", "dense_kv", []> {
  let summary = "all sequences have all stored keys";
  let description = [{
    KV addressing of attention without lengths.

    ```mlir
    #attn.dense_kv
    ```
  }];
}

def Attn_PackedKVAttr : Attn_KVAddressingAttr<"PackedKV", "packed_kv",
    ["isListed", "packsQueries", "hasEntries"]> {
  let summary = "sequences are one after another in one batch entry";
  let description = [{
    KV addressing of packed sequences (`cu_seqlens`).

    ```mlir
    #attn.packed_kv
    ```
  }];
}

def Attn_PaddedKVAttr : Attn_KVAddressingAttr<"PaddedKV", "padded_kv",
    ["isListed", "packsQueries"]> {
  let summary = "each sequence is at the beginning of its batch entry";
  let description = [{
    KV addressing of padded sequences (`seqlens`), and of a KV cache with the
    `key_lengths` of its entries. `queries` says that the queries have lengths, too,
    and `packed_queries` that they are packed.

    ```mlir
    #attn.padded_kv<queries = true>
    ```
  }];
  let parameters = (ins "bool":$queries,
                        DefaultValuedParameter<"bool", "false">:$packed_queries);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Attn_PagedKVAttr : Attn_KVAddressingAttr<"PagedKV", "paged_kv",
    ["isListed", "packsQueries", "getMaxKeys"]> {
  let summary = "the keys of a sequence are in pages that a table lists";
  let description = [{
    KV addressing of a paged KV cache (Kwon et al. 2023) with a `page_table`.
    `packed_queries` says that the queries of its sequences are packed.

    ```mlir
    #attn.paged_kv<page_size = 64>
    ```
  }];
  let parameters = (ins "int64_t":$page_size,
                        DefaultValuedParameter<"bool", "false">:$packed_queries);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Sizes of pages: powers of two in this range.
    static constexpr int64_t minPageSize = 16, maxPageSize = 256;
    static ::llvm::LogicalResult
    verifyPageSize(::llvm::function_ref<::mlir::InFlightDiagnostic()> emitError,
                   int64_t pageSize);
  }];
}

def Attn_MatmulPrecision : I32EnumAttr<"MatmulPrecision",
    "how GPUs multiply f32 values", [
      I32EnumAttrCase<"Highest", 0, "highest">,
      I32EnumAttrCase<"High", 1, "high">]> {
  let cppNamespace = "::mlir::attn";
  let genSpecializedAttr = 0;
}

def Attn_MatmulPrecisionAttr
    : EnumAttr<Attn_Dialect, Attn_MatmulPrecision, "matmul_precision"> {
  let summary = "how GPUs multiply f32 values";
  let description = [{
    Names and meanings follow `torch.set_float32_matmul_precision`. `highest`:
    each factor is split into two tf32 values (3xTF32 in CUTLASS), so that the
    result is as accurate as f32 arithmetic. `high`: factors are rounded to
    tf32, which has 11 significant bits. Hosts multiply f32 values in both
    cases.

    ```mlir
    #attn<matmul_precision high>
    ```
  }];
  let assemblyFormat = "$value";
}

def Attn_MaskLayout : I32EnumAttr<"MaskLayout",
    "how words of keep masks are stored", [
      I32EnumAttrCase<"Rows", 0, "rows">,
      I32EnumAttrCase<"Columns", 1, "columns">]> {
  let cppNamespace = "::mlir::attn";
  let genSpecializedAttr = 0;
}

def Attn_MaskLayoutAttr
    : EnumAttr<Attn_Dialect, Attn_MaskLayout, "mask_layout"> {
  let summary = "how words of keep masks are stored";
  let description = [{
    `rows`: words of the same queries are contiguous, as attention reads them.
    `columns`: words of the same keys are contiguous, as its gradient reads them.
    `attn.dropout_mask` defines both.

    ```mlir
    #attn<mask_layout rows>
    ```
  }];
  let assemblyFormat = "$value";
}

def Attn_OverlapKind : I32EnumAttr<"OverlapKind",
    "how regions run at the same time", [
      I32EnumAttrCase<"Sequential", 0, "sequential">,
      I32EnumAttrCase<"Streams", 1, "streams">,
      I32EnumAttrCase<"Fused", 2, "fused">]> {
  let cppNamespace = "::mlir::attn";
  let genSpecializedAttr = 0;
}

def Attn_OverlapKindAttr
    : EnumAttr<Attn_Dialect, Attn_OverlapKind, "overlap_kind"> {
  let summary = "how the regions of attn.overlap run at the same time";
  let description = [{
    | kind | the regions |
    |---|---|
    | `sequential` | run one after another |
    | `streams` | are launched on one CUDA stream each, so that the device may run their kernels concurrently |
    | `fused` | are one kernel: MMA warps run the matmul, auxiliary warps the other region |

    ```mlir
    #attn<overlap_kind streams>
    ```
  }];
  let assemblyFormat = "$value";
}

def Attn_CausalAttr : Attn_Attr<"Causal", "causal", [
    DeclareAttrInterfaceMethods<Attn_MaskAttrInterface,
        ["getConstantValue", "simplify", "getIntersection", "getUnion"]>]> {
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
        ["getConstantValue", "simplify", "getIntersection", "getUnion"]>]> {
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
    `attn-simplify-masks` replaces masks that keep no pair by it.

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
    offset of `#attn.causal`. For a length that is known only at run time, use a
    `mask_mod` region.

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
    Positions are cut into blocks of `size`, counted from position 0. Let `c` be
    the block of `i + offset`, with the offset of `#attn.causal`. Query `i` attends
    to key `j` if the block of `j` is between `c - before` and `c + after`. A side
    that is absent is unbounded. Negative positions are in blocks before block 0.

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
    : Attn_MaskAttr<name, mnemonicName, ["getReads", "verifyReads"]> {
  let parameters = (ins
      ArrayRefParameter<"::mlir::attn::MaskAttrInterface">:$masks);
  // A wrong mask is reported where it is, and nothing else of the list.
  let assemblyFormat = "`<` custom<Masks>($masks) `>`";
  let genVerifyDecl = 1;
}

def Attn_AndAttr : Attn_CompositeMaskAttr<"And", "and"> {
  let summary = "conjunction: pairs that all masks keep";
  let description = [{
    ```mlir
    #attn.and<#attn.causal, #attn.local_blocks<size = 512, before = 0, after = 0>>
    ```
  }];
}

def Attn_OrAttr : Attn_CompositeMaskAttr<"Or", "or"> {
  let summary = "disjunction: pairs that at least one mask keeps";
  let description = [{
    ```mlir
    #attn.or<#attn.causal, #attn.global_tokens<count = 16>>
    ```
  }];
}

def Attn_NotAttr : Attn_MaskAttr<"Not", "not",
    ["getIntersection", "getUnion", "getReads", "verifyReads"]> {
  let summary = "negation: pairs that a mask does not keep";
  let description = [{
    ```mlir
    #attn.not<#attn.sliding_window<left = 0, right = 0>>
    ```
  }];
  let parameters = (ins "::mlir::attn::MaskAttrInterface":$mask);
  let assemblyFormat = "`<` custom<Mask>($mask) `>`";
}

//===----------------------------------------------------------------------===//
// Schedules
//===----------------------------------------------------------------------===//

def Attn_ScheduleParam
    : AttrOrTypeParameter<"::mlir::attn::ScheduleAttrInterface", "a schedule">;

def Attn_ByQueryLengthAttr : Attn_Attr<"ByQueryLength", "by_query_length"> {
  let summary = "one of several schedules, by the number of queries";
  let description = [{
    `below` where there are fewer than `bound` queries, `from` where there are
    `bound` or more. Packed sequences count with their mean number of queries. Large
    query tiles are efficient on long sequences and waste work at the ends of short
    ones, so that no single schedule serves all lengths of a function whose sizes are
    dynamic. `from` may be a choice with a larger bound.
    `attn-dispatch-schedules` replaces it by branches at run time.

    ```mlir
    #attn.by_query_length<bound = 3072, below = #a, from = #b>
    ```
  }];
  let parameters = (ins "int64_t":$bound, Attn_ScheduleParam:$below,
      AttrOrTypeParameter<"::mlir::Attribute",
                          "a schedule, or a choice with a larger bound">:$from);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The schedule for `queries` queries.
    ::mlir::attn::ScheduleAttrInterface getFor(int64_t queries) const;
    /// Whether `holds` is true of one of the schedules.
    bool any(::llvm::function_ref<bool(::mlir::attn::ScheduleAttrInterface)>
                 holds) const;
  }];
}

def Attn_AnyScheduleAttr
    : AnyAttrOf<[Attn_ScheduleAttrInterface, Attn_ByQueryLengthAttr],
                "a schedule, or a choice of schedules">;

def Attn_DeviceAttr : Attn_Attr<"Device", "device"> {
  let summary = "capacities and rates of a device";
  let description = [{
    The figures of a device that the cost model uses. `"a100"`, `"h100"`, `"h200"`,
    `"b200"` and `"host"` have built-in figures, from public sources; explicit figures
    override them. A device of another name has the explicit figures only.

    | figure | unit |
    |---|---|
    | `sms` | |
    | `clock_mhz` | MHz, under load |
    | `mma_flops_per_cycle_32b` | FLOP per cycle and SM: MMAs on 32-bit elements, f32 accumulation |
    | `mma_flops_per_cycle_16b` | FLOP per cycle and SM: MMAs on 16-bit elements, f32 accumulation |
    | `mma_flops_per_cycle_8b` | FLOP per cycle and SM: MMAs on 8-bit elements, f32 accumulation |
    | `fma` | operations per cycle and SM: f32 multiplication and addition |
    | `special` | operations per cycle and SM: exp2, log2, tanh and the like |
    | `integer` | operations per cycle and SM: 32-bit addition and logic |
    | `wide_multiply` | operations per cycle and SM: 32-bit multiplications with 64-bit results |
    | `registers` | of 32 bits, per SM |
    | `shared_bytes`, `shared_bytes_per_cycle` | bytes for one CTA; bytes per cycle and SM |
    | `l2_bytes`, `l2_bytes_per_cycle` | bytes; bytes per cycle of the whole device |
    | `memory_bytes`, `memory_gbps` | bytes; 10^9 bytes per second |
    | `link_gbps` | 10^9 bytes per second to other devices of the host, both directions together |
    | `link_ns` | ns: a message without contents to another device of the host |
    | `host_devices` | devices of a host; 0 if one host has all of them |
    | `network_gbps` | 10^9 bytes per second of a device to devices of other hosts, both directions together |
    | `network_ns` | ns: a message without contents to a device of another host |
    | `launch_ns` | ns: launch overhead of a kernel |
    | `mma_percent`, `memory_percent` | percent of the MMA and memory rates that large kernels sustain |
    | `link_percent` | percent of the rates of links and networks that large messages sustain |

    A rate of 0 bounds nothing: the device lacks the unit, or the rate is not
    known. The attribute `attn.device` of a module is the device that programs are
    compiled for. Without it, the target decides: `"h200"` for `sm_90a`, `"a100"` for
    `sm_80`.

    ```mlir
    module attributes {attn.device = #attn.device<"h200", clock_mhz = 1500>} {}
    ```
  }];
  let parameters = (ins StringRefParameter<"">:$name,
                        "::mlir::attn::DeviceFigures":$figures);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The device with built-in figures of that name, or null.
    static DeviceAttr getKnown(::mlir::MLIRContext *context,
                               ::llvm::StringRef name);
  }];
}

#endif // ATTN_DIALECT_ATTN_IR_ATTNATTRS_TD
