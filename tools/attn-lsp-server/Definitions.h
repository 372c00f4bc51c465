//===- Definitions.h - What the dialects define -----------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Operations, attributes and types of the project's dialects, with their texts
// from TableGen.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_ATTN_LSP_SERVER_DEFINITIONS_H
#define ATTN_TOOLS_ATTN_LSP_SERVER_DEFINITIONS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <string>
#include <vector>

namespace attn_lsp {

enum class DefinitionKind {
  Operation,
  Attribute,
  /// An attribute that is written as `#dialect<mnemonic keyword>` alone.
  KeywordAttribute,
  Type,
};

/// A parameter of an attribute that is written as `name = value`, or without a
/// name the keyword of a `KeywordAttribute`.
struct Parameter {
  llvm::StringRef name;
  llvm::StringRef summary;
  /// The keywords that may be its value; empty if it takes other values.
  std::vector<llvm::StringRef> values;
};

struct Definition {
  DefinitionKind kind;
  llvm::StringRef dialect;
  llvm::StringRef mnemonic;
  llvm::StringRef summary;
  /// The assembly format of an operation; empty if C++ code parses it.
  llvm::StringRef syntax;
  /// MLIR code; empty if the description has none.
  llvm::StringRef example;
  std::vector<Parameter> parameters;

  bool isAttribute() const {
    return kind == DefinitionKind::Attribute ||
           kind == DefinitionKind::KeywordAttribute;
  }

  /// The name as in code: `attn.attention`, `#attn.causal`.
  std::string getName() const;

  /// Markdown: summary, assembly format, parameters and example.
  std::string getText() const;
};

/// All definitions.
llvm::ArrayRef<Definition> getDefinitions();

/// Whether there are definitions of a dialect.
bool isKnownDialect(llvm::StringRef name);

} // namespace attn_lsp

#endif // ATTN_TOOLS_ATTN_LSP_SERVER_DEFINITIONS_H
