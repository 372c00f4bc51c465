//===- AttnInterfaces.td - Interfaces of the attn dialect --*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The attribute interfaces through which masks and schedules plug in.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTNINTERFACES_TD
#define ATTN_DIALECT_ATTN_IR_ATTNINTERFACES_TD

include "mlir/IR/OpBase.td"

def Attn_MaskAttrInterface : AttrInterface<"MaskAttrInterface"> {
  let cppNamespace = "::mlir::attn";
  let description = [{
    A named mask: a predicate on (batch, head, query, key) positions that says
    which pairs attend. The contract is "emit the predicate" and "bound it":

    - `emitPredicate` writes the predicate itself, for one pair;
    - `emitKeyRange` bounds it for a tile of queries, so that passes can skip
      key tiles with no attended pair and drop mask code from key tiles in
      which all pairs are attended.

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
        Emits bounds of the keys that the queries of `queries` attend:
        a key outside `[begin, end)` is attended by none of them, a key in
        `[fullBegin, fullEnd)` by all of them, and
        `0 <= begin <= fullBegin`, `fullEnd <= end <= keyLength` hold whenever
        the ranges are not empty. Bounds may be loose: the widest answer,
        `[0, keyLength)` with an empty full range, is always correct. A null
        `begin` stands for 0 and a null `end` for the key length; a null
        `fullBegin` or `fullEnd` means that the full range reaches as far as
        `begin` or `end` does on that side.
        Queries at or beyond the query length need not be considered.
      }],
      "::mlir::attn::KeyRange", "emitKeyRange",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc,
           "const ::mlir::attn::QueryRange &":$queries)>,
    InterfaceMethod<[{
        Emits bounds of the queries that attend the keys of `keys`, the same
        way round: a query outside `[begin, end)` attends none of them, one in
        `[fullBegin, fullEnd)` all of them. Bounds may be loose; those emitted
        without an implementation are the widest ones, with an empty full
        range. Keys at or beyond the key length need not be considered.
      }],
      "::mlir::attn::QueryBounds", "emitQueryRange",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc,
           "const ::mlir::attn::KeySpan &":$keys), /*methodBody=*/"",
      /*defaultImplementation=*/[{
        return ::mlir::attn::emitLoosestQueryRange(builder, loc);
      }]>,
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
        Whether the keys that any one query attends are an interval, and
        `begin` and `end` of `emitKeyRange` are exact for a tile of one query.
        Scores of such a mask are compared with two bounds for each row, and
        the predicate is not evaluated.
      }],
      "bool", "isInterval", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return false;">,
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
        Whether the reference that exponents are taken relative to may lag
        behind the maximum of its row, so that rescaling the accumulator by one
        can be skipped in most steps (FlashAttention-4). Costs a little in each
        step; pays where the accumulator is large.
      }],
      "bool", "isRescaleLazy", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return false;">,
    InterfaceMethod<[{
        Appends the passes that turn the plain tiled program of
        `convert-attn-to-attn-tile` into this strategy's final `attn_tile`
        program. The pass manager is anchored on `builtin.module`.
      }],
      "void", "buildKernelPipeline", (ins "::mlir::OpPassManager &":$pm)>,
  ];
}

#endif // ATTN_DIALECT_ATTN_IR_ATTNINTERFACES_TD
