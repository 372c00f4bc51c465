//===- Definitions.cpp - What the dialects define -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tables that attn-tblgen writes, and their texts as Markdown.
//
//===----------------------------------------------------------------------===//

#include "Definitions.h"
#include "attn/Dialect/Attn/IR/DeviceFigures.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace attn_lsp;

static std::vector<Definition> makeDefinitions() {
  std::vector<Definition> definitions = {
#include "AttnDefinitions.inc"
#include "AttnTileDefinitions.inc"
  };
  // C++ code parses `#attn.device`, and its figures are a table there.
  for (Definition &definition : definitions)
    if (definition.isAttribute() && definition.dialect == "attn" &&
        definition.mnemonic == "device")
      for (StringRef figure : mlir::attn::getDeviceFigureNames())
        definition.parameters.push_back({figure, "a figure", {}});
  return definitions;
}

ArrayRef<Definition> attn_lsp::getDefinitions() {
  static const std::vector<Definition> definitions = makeDefinitions();
  return definitions;
}

bool attn_lsp::isKnownDialect(StringRef name) {
  return any_of(getDefinitions(), [&](const Definition &definition) {
    return definition.dialect == name;
  });
}

std::string Definition::getName() const {
  switch (kind) {
  case DefinitionKind::Operation:
    return (dialect + "." + mnemonic).str();
  case DefinitionKind::Attribute:
    return ("#" + dialect + "." + mnemonic).str();
  case DefinitionKind::KeywordAttribute:
    return ("#" + dialect + "<" + mnemonic + ">").str();
  case DefinitionKind::Type:
    return ("!" + dialect + "." + mnemonic).str();
  }
  llvm_unreachable("unknown kind of definition");
}

std::string Definition::getText() const {
  std::string text;
  raw_string_ostream os(text);
  os << '`' << getName() << "`: " << summary << '\n';
  if (!syntax.empty())
    os << "\n```\noperation ::= `" << getName() << "` " << syntax << "\n```\n";
  for (const Parameter &parameter : parameters) {
    os << "\n- ";
    if (!parameter.name.empty())
      os << '`' << parameter.name << "`: ";
    os << parameter.summary;
    if (parameter.values.empty())
      continue;
    os << "; one of ";
    interleaveComma(parameter.values, os,
                    [&](StringRef value) { os << '`' << value << '`'; });
  }
  if (!parameters.empty())
    os << '\n';
  if (!example.empty())
    os << "\n```mlir\n" << example << "\n```\n";
  return text;
}
