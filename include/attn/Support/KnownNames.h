//===- KnownNames.h - Messages about unknown names --------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Messages about unknown names list the known ones, and suggest the one that is
// meant if it is near.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_SUPPORT_KNOWNNAMES_H
#define ATTN_SUPPORT_KNOWNNAMES_H

#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace mlir {
class DialectAsmParser;
} // namespace mlir

namespace mlir::attn {

/// The known name that is nearest to `name`, or an empty one if each differs
/// from `name` in more than a third of its characters.
StringRef findNearestName(StringRef name, ArrayRef<StringRef> known);

/// The end of a message about the unknown name `name`:
/// "; did you mean 'causal'? (expected causal, none)". `others` describes names
/// that are not in the list.
std::string suggestNames(StringRef name, ArrayRef<StringRef> known,
                         StringRef others = "");

/// The names by which attributes or types are written.
template <typename... Defs>
SmallVector<StringRef> getMnemonics() {
  return {Defs::getMnemonic()...};
}

/// Parses an attribute of `dialect` with `parse`, the function that TableGen
/// generates. Reports unknown attributes, and unknown parameters of those for
/// which `getParameters` knows the parameters.
Attribute parseAttributeOrSuggest(
    const Dialect &dialect, DialectAsmParser &parser, Type type,
    ArrayRef<StringRef> mnemonics,
    function_ref<OptionalParseResult(AsmParser &, StringRef *, Type,
                                     Attribute &)>
        parse,
    function_ref<SmallVector<StringRef>(StringRef)> getParameters);

/// Parses a type of `dialect` with `parse`, the function that TableGen
/// generates. Reports unknown types.
Type parseTypeOrSuggest(
    const Dialect &dialect, DialectAsmParser &parser,
    ArrayRef<StringRef> mnemonics,
    function_ref<OptionalParseResult(AsmParser &, StringRef *, Type &)> parse);

/// Reports the operation that is parsed as unknown in its dialect. A dialect
/// returns it as the hook for operations that it does not have.
ParseResult suggestOperation(OpAsmParser &parser, OperationState &state);

} // namespace mlir::attn

#endif // ATTN_SUPPORT_KNOWNNAMES_H
