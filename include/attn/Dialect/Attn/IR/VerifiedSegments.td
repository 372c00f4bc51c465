//===- VerifiedSegments.td - Sizes of operand segments -----*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A trait for operations with `operandSegmentSizes`. Upstream's verifiers check
// the sum of the sizes and that optional operands have at most one value, but
// accept any number of values for an operand that must be one value.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_VERIFIEDSEGMENTS_TD
#define ATTN_DIALECT_ATTN_IR_VERIFIEDSEGMENTS_TD

include "mlir/IR/OpBase.td"

/// The operands in `ins` as initializers of `OperandSegment`.
class Attn_OperandSegments<dag ins> {
  list<string> initializers = !foldl([]<string>, !range(!size(ins)), result, i,
    !listconcat(result, !cond(
      !initialized(!getdagarg<Optional>(ins, i)):
        ["{\"" # !getdagname(ins, i) # "\", 0, 1}"],
      !initialized(!getdagarg<Variadic>(ins, i)):
        ["{\"" # !getdagname(ins, i) # "\", 0, -1}"],
      !initialized(!getdagarg<TypeConstraint>(ins, i)):
        ["{\"" # !getdagname(ins, i) # "\", 1, 1}"],
      true: []<string>)));
}

/// Checks the segment sizes of the operands in `ins`, before anything reads an
/// operand.
class Attn_VerifiedSegments<dag ins>
    : NativeOpTrait<"VerifiedSegments", [], [{
  static ::llvm::ArrayRef<::mlir::attn::OperandSegment> getOperandSegments() {
    static constexpr ::mlir::attn::OperandSegment segments[] = }]
      # "{" # !interleave(Attn_OperandSegments<ins>.initializers, ", ") # [{};
    return segments;
  }
}]>, StructuralOpTrait {
  let cppNamespace = "::mlir::attn";
}

/// `traits`, and the above if `AttrSizedOperandSegments` is one of them.
class Attn_WithVerifiedSegments<list<Trait> traits, dag ins> {
  list<Trait> result = !listconcat(traits,
    !if(!empty(!filter(t, traits, !eq(t, AttrSizedOperandSegments))),
        []<Trait>, [Attn_VerifiedSegments<ins>]));
}

#endif // ATTN_DIALECT_ATTN_IR_VERIFIEDSEGMENTS_TD
