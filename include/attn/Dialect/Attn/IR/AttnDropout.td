//===- AttnDropout.td - Attributes of dropout -------------*- tablegen -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Random number generators and dropout.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTNDROPOUT_TD
#define ATTN_DIALECT_ATTN_IR_ATTNDROPOUT_TD

include "attn/Dialect/Attn/IR/AttnDialect.td"
include "attn/Dialect/Attn/IR/AttnInterfaces.td"

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
    32-bit multiplications with 64-bit results (Salmon et al. 2011). 7 rounds are
    the fewest that pass all known statistical tests; cuRAND and PyTorch use 10.

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
    words of its key are zero. 12 rounds are the fewest that pass all known
    statistical tests.

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
    key schedule are added. A round takes 14 instructions on a GPU. On Hopper
    these instructions, unlike the multiplications of Philox, run concurrently
    with MMAs and do not slow them down. After 5 rounds each bit of key and
    counter influences all bits of the result.
    docs/experiments/dropout-rng-statistics.md says how it was tested.

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
  let summary = "which attention probabilities are dropped";
  let description = [{
    An attention probability is dropped with probability
    `round(p * 2^bits) / 2^bits`, the effective p. Kept ones are divided by one minus
    the effective p. `bits` is 4, 8 or 16; the effective p must be less than 1 and
    differ by at most 5 % from p.

    The keep mask is a function of seed, offset, batch, head, query and key position
    alone, computed with the generator `rng`; docs/rng.md defines it. Dropouts that
    differ in `bits` alone, with the same effective p, have the same keep mask.

    ```mlir
    #attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>, bits = 8>
    ```
  }];
  let parameters = (ins Attn_ProbabilityParam:$p, Attn_RngParam:$rng,
                        DefaultValuedParameter<"int64_t", "8">:$bits);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// A pair is dropped if its random number of `bits` bits is less than this.
    int64_t getThreshold() const;
    /// The effective p, and one minus that.
    double getDropProbability() const;
    double getKeepProbability() const;

    /// The number of keys of a keep mask word, and the distance of its two
    /// queries. Bit `16 e + 4 c + 2 h + s` belongs to query `i + 8 s` and key
    /// `j + 8 h + 2 c + e`, where `i mod 16 < 8`, `j mod 16 = 0`, `c < 4`, and
    /// `e`, `h` and `s` are 0 or 1.
    static constexpr int64_t keysOfWord = 16;
    static constexpr int64_t queryDistance = 8;

    /// Emits the stream of one head, from which its keep mask is generated: a
    /// key, and half of a counter. Seed and offset are `i64`, batch and head
    /// `index`; results are `i32`.
    ::mlir::attn::RngBlock<::mlir::Value>
    emitStream(::mlir::OpBuilder &builder, ::mlir::Location loc,
               ::mlir::Value seed, ::mlir::Value offset, ::mlir::Value batch,
               ::mlir::Value head) const;
    /// Emits a keep mask word, whose bits are 1 where pairs are kept, for
    /// `queryWord = i / 16 * 8 + i mod 8` and `keyWord = j / 16`. All values
    /// are `i32`, or vectors of them of one type.
    ::mlir::Value
    emitKeepWord(::mlir::OpBuilder &builder, ::mlir::Location loc,
                 ::mlir::attn::RngBlock<::mlir::Value> stream,
                 ::mlir::Value queryWord, ::mlir::Value keyWord) const;

    /// Emits whether a pair is kept, an `i1`, or a vector of them for vectors.
    ::mlir::Value emitIsKept(::mlir::OpBuilder &builder, ::mlir::Location loc,
                             ::mlir::attn::RngBlock<::mlir::Value> stream,
                             ::mlir::Value query, ::mlir::Value key) const;

    /// The same, on numbers.
    ::mlir::attn::RngBlock<uint32_t> computeStream(uint64_t seed, uint64_t offset,
                                                   uint32_t batch,
                                                   uint32_t head) const;
    uint32_t computeKeepWord(::mlir::attn::RngBlock<uint32_t> stream,
                             uint32_t queryWord, uint32_t keyWord) const;
    bool isKept(::mlir::attn::RngBlock<uint32_t> stream, int64_t query,
                int64_t key) const;

    /// Counts the instructions that generate a keep mask word.
    ::mlir::attn::RngWork countKeepWord() const;
  }];
}

#endif // ATTN_DIALECT_ATTN_IR_ATTNDROPOUT_TD
