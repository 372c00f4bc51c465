//===- TestAttn.td - A dialect that implements interfaces --*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attributes and operations of another dialect, one for each interface that the
// passes of the project ask. Passes that know more than the interface fail on
// them.
//
//===----------------------------------------------------------------------===//

#ifndef TEST_ATTN_TD
#define TEST_ATTN_TD

include "attn/Dialect/Attn/IR/AttnInterfaces.td"
include "attn/Dialect/AttnTile/IR/AttnTileInterfaces.td"
include "attn/Dialect/AttnTile/IR/StreamingOpInterface.td"
include "attn/Interfaces/CostOpInterface.td"
include "attn/Interfaces/DescribableOpInterface.td"
include "attn/Interfaces/DifferentiableOpInterface.td"
include "attn/Interfaces/FusibleOpInterface.td"
include "attn/Interfaces/StreamableOpInterface.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/Interfaces/DestinationStyleOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def TestAttn_Dialect : Dialect {
  let name = "test_attn";
  let cppNamespace = "::test_attn";
  let useDefaultAttributePrinterParser = 1;
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

class TestAttn_Attr<string name, string attrMnemonic, list<Trait> traits>
    : AttrDef<TestAttn_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def TestAttn_CheckerboardAttr : TestAttn_Attr<"Checkerboard", "checkerboard", [
    DeclareAttrInterfaceMethods<Attn_MaskAttrInterface, ["getConstantValue"]>]> {
  let summary = "attends where the blocks of query and key are both even or odd";
  let parameters = (ins "int64_t":$size);
  let assemblyFormat = "`<` $size `>`";
}

def TestAttn_RotationsAttr : TestAttn_Attr<"Rotations", "rotations", [
    DeclareAttrInterfaceMethods<Attn_RngAttrInterface>]> {
  let summary = "a weak random number generator of additions and rotations";
  let parameters = (ins "unsigned":$rounds);
  let assemblyFormat = "`<` $rounds `>`";
}

def TestAttn_OneRowTilesAttr : TestAttn_Attr<"OneRowTiles", "one_row_tiles", [
    DeclareAttrInterfaceMethods<Attn_ScheduleAttrInterface>]> {
  let summary = "kernels for the host, one query at a time";
  let parameters = (ins "int64_t":$key_tile);
  let assemblyFormat = "`<` $key_tile `>`";
}

def TestAttn_WholeRowsAttr : TestAttn_Attr<"WholeRows", "whole_rows", [
    DeclareAttrInterfaceMethods<AttnTile_ThreadLayoutAttrInterface>]> {
  let summary = "each thread holds whole rows";
  let parameters = (ins "int64_t":$threads);
  let assemblyFormat = "`<` $threads `>`";
}

def TestAttn_DotAttr : TestAttn_Attr<"Dot", "dot", [
    DeclareAttrInterfaceMethods<AttnTile_MmaAttrInterface>]> {
  let summary = "an MMA of 8x8x8 bf16 elements";
}

def TestAttn_LeftPaddedKVAttr : TestAttn_Attr<"LeftPaddedKV", "left_padded_kv", [
    DeclareAttrInterfaceMethods<Attn_KVAddressingAttrInterface>]> {
  let summary = "each sequence is at the end of its batch entry";
}

def TestAttn_RingBufferKVAttr : TestAttn_Attr<"RingBufferKV", "ring_buffer_kv", [
    DeclareAttrInterfaceMethods<Attn_KVAddressingAttrInterface,
                                ["emitStoredRow"]>]> {
  let summary = "a batch entry keeps the last keys that were appended to it";
  let description = [{
    `key_lengths` counts the keys that were ever appended, in pages of `page_size`
    rows where they do not fit anymore. Key `i` was stored in row `i` modulo the rows
    of a batch entry.
  }];
  let parameters = (ins "int64_t":$page_size);
  let assemblyFormat = "`<` $page_size `>`";
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

class TestAttn_Op<string mnemonic, list<Trait> traits>
    : Op<TestAttn_Dialect, mnemonic, traits>;

def TestAttn_SquareOp : TestAttn_Op<"square", [
    Pure, DestinationStyleOpInterface,
    DeclareOpInterfaceMethods<CostOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<FusibleOpInterface,
                              ["isElementwise", "emitElement"]>,
    DeclareOpInterfaceMethods<StreamableOpInterface>,
    AllTypesMatch<["source", "init", "result"]>]> {
  let summary = "the square of each element";
  let arguments = (ins AnyRankedTensor:$source, AnyRankedTensor:$init);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    `ins` `(` $source `)` `outs` `(` $init `)` attr-dict `:` type($result)
  }];
  let extraClassDeclaration = [{
    ::mlir::MutableOperandRange getDpsInitsMutable() { return getInitMutable(); }
  }];
}

def TestAttn_IotaOp : TestAttn_Op<"iota", [
    DestinationStyleOpInterface, Attn_MaskTableOpInterface]> {
  let summary = "a table for masks: the number of each element";
  let arguments = (ins AnyRankedTensor:$table,
                       OptionalAttr<Attn_ScheduleAttrInterface>:$schedule);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    `outs` `(` $table `:` type($table) `)` (`schedule` `(` $schedule^ `)`)?
    attr-dict `->` type($result)
  }];
  let extraClassDeclaration = [{
    ::mlir::MutableOperandRange getDpsInitsMutable() { return getTableMutable(); }
  }];
}

/// An operation on pairs without sequences, tables of masks and dropout.
class TestAttn_PairsOp<string mnemonic, list<Trait> traits>
    : TestAttn_Op<mnemonic, traits # [
          Attn_AttentionOpInterface,
          DeclareOpInterfaceMethods<DescribableOpInterface>]> {
  code pairsClassDeclaration = [{
    ::llvm::SmallVector<::mlir::attn::AttentionOperand> getShapedOperands();
    int64_t getFlopsPerPair();

    ::mlir::Value getQuerySequences() { return {}; }
    ::mlir::Value getKeySequences() { return {}; }
    ::std::optional<::mlir::attn::SequenceLayout> getSequenceLayout() {
      return ::std::nullopt;
    }
    ::mlir::OperandRange getMaskReads() {
      return (*this)->getOperands().take_front(0);
    }
    ::mlir::MutableOperandRange getMaskReadsMutable() {
      return {*this, /*start=*/0, /*length=*/0};
    }
    ::mlir::attn::DropoutAttr getDropoutAttr() { return {}; }
    ::mlir::Attribute removeDropoutAttr() { return {}; }
    ::mlir::Value getSeed() { return {}; }
    ::mlir::Value getOffset() { return {}; }
    ::mlir::MutableOperandRange getSeedMutable() {
      return {*this, /*start=*/0, /*length=*/0};
    }
    ::mlir::MutableOperandRange getOffsetMutable() {
      return {*this, /*start=*/0, /*length=*/0};
    }
    ::mlir::Value getDropoutMask() { return {}; }
    ::std::optional<::mlir::attn::MaskLayout> getMaskLayout() {
      return ::std::nullopt;
    }
    ::std::optional<::llvm::APFloat> getDropProbability() {
      return ::std::nullopt;
    }
    bool statesScoreGrad() { return false; }
    ::llvm::SmallVector<::mlir::attn::RegionDestination>
    getRegionDestinations() {
      return {};
    }
  }];
}

def TestAttn_LinearScoresOp : TestAttn_PairsOp<"linear_scores", [
    DeclareOpInterfaceMethods<AttnTile_StreamingOpInterface, [
        "whyNotSplitKV", "emitFinalizeSplit", "emitInitCombined", "emitCombine",
        "emitFinalizeCombined"]>]> {
  let summary = "attention without a softmax";
  let description = [{
    The values of the keys that the mask keeps, weighted by the scores:

    ```
    out = sum over attended j of scale * dot(query, key[j]) * value[j]
    ```
  }];
  let arguments = (ins AnyMemRef:$query, AnyMemRef:$key, AnyMemRef:$value,
                       AnyMemRef:$out, Optional<AnyMemRef>:$key_lengths,
                       OptionalAttr<F32Attr>:$scale,
                       OptionalAttr<Attn_MaskAttrInterface>:$mask,
                       OptionalAttr<Attn_KVAddressingAttrInterface>:$kv_addressing,
                       OptionalAttr<AnyAttr>:$schedule);
  let regions = (region AnyRegion:$score_mod, AnyRegion:$mask_mod);
  let assemblyFormat = [{
    `ins` `(` $query `,` $key `,` $value `:` type($query) `,` type($key) `,`
    type($value) `)` `outs` `(` $out `:` type($out) `)`
    (`key_lengths` `(` $key_lengths^ `:` type($key_lengths) `)`)?
    (`scale` `(` $scale^ `)`)? (`mask` `(` $mask^ `)`)?
    (`addressing` `(` $kv_addressing^ `)`)?
    (`schedule` `(` $schedule^ `)`)?
    (`score_mod` $score_mod^)? (`mask_mod` $mask_mod^)? attr-dict
  }];
  let extraClassDeclaration = pairsClassDeclaration # [{
    ::mlir::attn::KVAddressingAttrInterface getAddressing();
    ::mlir::MutableOperandRange getDpsInitsMutable() { return getOutMutable(); }
  }];
  let hasVerifier = 1;
}

def TestAttn_ReluScoresGradOp : TestAttn_PairsOp<"relu_scores_grad", [
    DeclareOpInterfaceMethods<AttnTile_StreamingGradOpInterface>]> {
  let summary = "the gradient of attention with a rectifier for the softmax";
  let description = [{
    The gradients of query, key and value, where

    ```
    out = sum over attended j of relu(scale * dot(query, key[j])) * value[j]
    ```

    and `dout` is the gradient of the output.
  }];
  let arguments = (ins AnyMemRef:$query, AnyMemRef:$key, AnyMemRef:$value,
                       AnyMemRef:$out, AnyMemRef:$dout, AnyMemRef:$dquery,
                       AnyMemRef:$dkey, AnyMemRef:$dvalue,
                       OptionalAttr<F32Attr>:$scale,
                       OptionalAttr<Attn_MaskAttrInterface>:$mask,
                       OptionalAttr<AnyAttr>:$schedule);
  let regions = (region AnyRegion:$score_mod, AnyRegion:$mask_mod);
  let assemblyFormat = [{
    `ins` `(` $query `,` $key `,` $value `,` $out `,` $dout `:` type($query) `,`
    type($key) `,` type($value) `,` type($out) `,` type($dout) `)`
    `outs` `(` $dquery `,` $dkey `,` $dvalue `:` type($dquery) `,` type($dkey)
    `,` type($dvalue) `)`
    (`scale` `(` $scale^ `)`)? (`mask` `(` $mask^ `)`)?
    (`schedule` `(` $schedule^ `)`)?
    (`score_mod` $score_mod^)? (`mask_mod` $mask_mod^)? attr-dict
  }];
  let extraClassDeclaration = pairsClassDeclaration # [{
    ::mlir::MutableOperandRange getDpsInitsMutable() {
      return {*this, /*start=*/5, /*length=*/3};
    }
  }];
}

#endif // TEST_ATTN_TD
