//===- KnownNames.cpp - Messages about unknown names ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Upstream's messages about unknown names do not list the known ones. Generated
// parsers of attributes cannot be changed, so their diagnostics are.
//
//===----------------------------------------------------------------------===//

#include "attn/Support/KnownNames.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Threading.h"

using namespace mlir;
using namespace mlir::attn;

StringRef attn::findNearestName(StringRef name, ArrayRef<StringRef> known) {
  // As in clang's suggestions.
  unsigned bestDistance = (name.size() + 2) / 3 + 1;
  StringRef best;
  for (StringRef candidate : known) {
    unsigned distance =
        name.edit_distance(candidate, /*AllowReplacements=*/true, bestDistance);
    if (distance < bestDistance) {
      bestDistance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string attn::suggestNames(StringRef name, ArrayRef<StringRef> known,
                               StringRef others) {
  std::string text;
  StringRef nearest = findNearestName(name, known);
  if (!nearest.empty())
    text = "; did you mean '" + nearest.str() + "'?";
  if (known.empty())
    return text + " (there are none)";
  text += " (expected " + llvm::join(known, ", ");
  if (!others.empty())
    text += ", " + others.str();
  return text + ")";
}

namespace {
/// Holds back the diagnostic of a generated parser about a parameter that the
/// attribute does not have, or that is given twice.
class ParameterDiagnostic {
public:
  explicit ParameterDiagnostic(MLIRContext *context)
      : handler(context,
                [this](Diagnostic &diagnostic) { return hold(diagnostic); }) {}

  /// The parameter; empty if there was no such diagnostic.
  StringRef getName() const { return name; }

private:
  LogicalResult hold(Diagnostic &diagnostic) {
    // Other threads may use the same context.
    if (llvm::get_threadid() != thread)
      return failure();
    std::string message = diagnostic.str();
    StringRef rest = message;
    if (!rest.consume_front("duplicate or unknown struct parameter name: "))
      return failure();
    name = rest.str();
    return success();
  }

  uint64_t thread = llvm::get_threadid();
  std::string name;
  ScopedDiagnosticHandler handler;
};
} // namespace

/// The location of `name`, which `parser` has just read after `start`, together
/// with an equals sign.
static SMLoc findParameter(AsmParser &parser, SMLoc start, StringRef name) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef text(start.getPointer(), loc.getPointer() - start.getPointer());
  text = text.rtrim();
  if (!text.consume_back("="))
    return loc;
  text = text.rtrim();
  if (!text.consume_back(name))
    return loc;
  return SMLoc::getFromPointer(text.end());
}

static void reportUnknown(const Dialect &dialect, AsmParser &parser, SMLoc loc,
                          StringRef kind, StringRef name,
                          ArrayRef<StringRef> mnemonics) {
  SmallVector<StringRef> sorted(mnemonics);
  llvm::sort(sorted);
  parser.emitError(loc) << "unknown " << kind << " `" << name
                        << "` in dialect `" << dialect.getNamespace() << "`"
                        << suggestNames(name, sorted);
}

static void reportParameter(const Dialect &dialect, AsmParser &parser,
                            SMLoc loc, StringRef mnemonic, StringRef parameter,
                            ArrayRef<StringRef> known) {
  std::string attribute = ("#" + dialect.getNamespace() + "." + mnemonic).str();
  if (llvm::is_contained(known, parameter)) {
    parser.emitError(loc) << "parameter '" << parameter << "' of '" << attribute
                          << "' is given twice";
    return;
  }
  parser.emitError(loc) << "unknown parameter '" << parameter << "' of '"
                        << attribute << "'" << suggestNames(parameter, known);
}

Attribute attn::parseAttributeOrSuggest(
    const Dialect &dialect, DialectAsmParser &parser, Type type,
    ArrayRef<StringRef> mnemonics,
    function_ref<OptionalParseResult(AsmParser &, StringRef *, Type,
                                     Attribute &)>
        parse,
    function_ref<SmallVector<StringRef>(StringRef)> getParameters) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef mnemonic =
      StringRef(loc.getPointer()).take_while([](char character) {
        return llvm::isAlnum(character) || character == '_';
      });
  StringRef unknown;
  Attribute attribute;
  std::string parameter;
  {
    ParameterDiagnostic diagnostic(parser.getContext());
    OptionalParseResult result = parse(parser, &unknown, type, attribute);
    parameter = diagnostic.getName().str();
    if (result.has_value() && parameter.empty())
      return attribute;
  }
  if (parameter.empty())
    reportUnknown(dialect, parser, loc, "attribute", unknown, mnemonics);
  else
    reportParameter(dialect, parser, findParameter(parser, loc, parameter),
                    mnemonic, parameter, getParameters(mnemonic));
  return {};
}

Type attn::parseTypeOrSuggest(
    const Dialect &dialect, DialectAsmParser &parser,
    ArrayRef<StringRef> mnemonics,
    function_ref<OptionalParseResult(AsmParser &, StringRef *, Type &)> parse) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef unknown;
  Type type;
  if (parse(parser, &unknown, type).has_value())
    return type;
  reportUnknown(dialect, parser, loc, "type", unknown, mnemonics);
  return {};
}

ParseResult attn::suggestOperation(OpAsmParser &parser, OperationState &state) {
  auto [dialect, name] = state.name.getStringRef().split('.');
  SmallVector<StringRef> known;
  for (RegisteredOperationName each :
       parser.getContext()->getRegisteredOperations())
    if (each.getDialectNamespace() == dialect)
      known.push_back(each.stripDialect());
  llvm::sort(known);
  // The parser says in front of the message which operation it is.
  return parser.emitError(parser.getNameLoc())
         << "is unknown" << suggestNames(name, known);
}
