//===- FuzzSupport.cpp - What the fuzzers share ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Contexts for many inputs, and which inputs are kept from MLIR's parser.
//
//===----------------------------------------------------------------------===//

#include "FuzzSupport.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/Regex.h"

using namespace mlir;
using namespace mlir::attn::fuzz;

/// Whether `text` holds operations whose custom parsers take iterator types for
/// strings, with iterator types that are not. mlir-opt crashes on
/// `linalg.generic {iterator_types = [affine_map<(i) -> (i)>], ...}`, and on
/// vector.contract alike: the parser casts without asking.
static bool hasUncheckedIteratorTypes(StringRef text) {
  static const llvm::Regex customForm(
      "(^|[^\"])(linalg\\.generic|vector\\.contract)");
  static const llvm::Regex strings("^iterator_types[[:space:]]*=[[:space:]]*"
                                   "\\[(\"[a-z]*\"(,[[:space:]]*)?)*\\]");
  if (!customForm.match(text))
    return false;
  StringRef key = "iterator_types";
  for (size_t at = text.find(key); at != StringRef::npos;
       at = text.find(key, at + 1))
    if (!strings.match(text.drop_front(at)))
      return true;
  return false;
}

/// Whether `text` holds an array of `index`, whose width the parser asks for:
/// mlir-opt crashes on `func.func @f() attributes {a = array<index: 1>}`.
static bool hasArrayOfIndices(StringRef text) {
  static const llvm::Regex array("array[[:space:]]*<[[:space:]]*index");
  return array.match(text);
}

bool attn::fuzz::mayHitParserDefect(StringRef text) {
  // Bytecode: its reader is not what is tested here.
  return text.starts_with("ML\xefR") || hasUncheckedIteratorTypes(text) ||
         hasArrayOfIndices(text);
}

MLIRContext &ModuleParser::beginModule() {
  if (numModules++ % modulesPerContext == 0) {
    context = std::make_unique<MLIRContext>(registry,
                                            MLIRContext::Threading::DISABLED);
    context->getDiagEngine().registerHandler(
        [](Diagnostic &) { return success(); });
  }
  return *context;
}

OwningOpRef<ModuleOp> ModuleParser::parse(StringRef text) {
  return parseSourceString<ModuleOp>(text, ParserConfig(context.get()));
}
