//===- Assist.h - Completion and hover --------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What an editor is offered at a place of a text, by the text alone: it may
// have errors, and need not parse up to that place.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_ATTN_LSP_SERVER_ASSIST_H
#define ATTN_TOOLS_ATTN_LSP_SERVER_ASSIST_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/JSON.h"
#include <optional>

namespace attn_lsp {

/// A position of the protocol: both count from 0, columns in UTF-16 units.
struct Position {
  int64_t line = 0;
  int64_t column = 0;
};

/// The offset of a position in `text`; the end of the line or of the text if
/// the position is behind it.
size_t getOffset(llvm::StringRef text, Position position);

/// Items of the protocol for what can be written at a position. Empty if it is
/// no name of the project's dialects.
llvm::json::Array getCompletions(llvm::StringRef text, Position position);

/// A result of a hover request: the definition of the name at a position.
std::optional<llvm::json::Object> getHover(llvm::StringRef text,
                                           Position position);

} // namespace attn_lsp

#endif // ATTN_TOOLS_ATTN_LSP_SERVER_ASSIST_H
