//===- CheckSource.cpp - Input that no parser survives --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds out how deeply text is nested without recursion.
//
//===----------------------------------------------------------------------===//

#include "attn/Support/CheckSource.h"
#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Location.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

#include <optional>

using namespace mlir;

/// Brackets within brackets that are parsed. Parsers and passes follow the
/// nesting by recursion, with up to 4 KiB of stack for each of its levels.
static constexpr size_t maxNesting = 1000;

/// Operators of one affine expression that are parsed, for the same reason.
static constexpr size_t maxOperators = 1000;

namespace {
/// Follows the brackets of a module in textual form. An attribute or type that
/// an alias stands for is nested as if it were written in the alias's place.
class NestingScanner {
public:
  explicit NestingScanner(StringRef text) : text(text) {}

  /// A place where the text exceeds a limit of nesting, and the limit.
  struct Excess {
    size_t offset;
    StringRef what;
    size_t limit;
  };
  std::optional<Excess> scan();

private:
  /// A bracket that is open, and the operators since the last comma in it.
  struct Bracket {
    char kind;
    size_t operators = 0;
  };

  void openBracket(char kind) {
    open.push_back({kind});
    reach(open.size());
  }
  void close(char kind);
  void skipString();
  void visitName(bool isAlias);
  void visitCharacter(char current);
  void countOperator();
  void endLine();

  char peek(size_t distance) const {
    return position + distance < text.size() ? text[position + distance] : '\0';
  }
  /// Notes a depth, also for the alias that is being defined, if one is.
  void reach(size_t depth) {
    deepest = std::max(deepest, depth);
    if (isDefining)
      definition = std::max(definition, depth);
  }

  StringRef text;
  size_t position = 0;
  SmallVector<Bracket> open;
  /// The most operators of an expression, and the deepest nesting so far.
  size_t mostOperators = 0, deepest = 0;
  /// How deeply aliases are nested, by their names.
  llvm::StringMap<size_t> aliases;
  /// The alias that is being defined, and where its value begins.
  bool isDefining = false;
  StringRef defined;
  size_t definition = 0, valueBegin = 0;
};
} // namespace

void NestingScanner::close(char kind) {
  // A '>' may be an operator, and a '<' may have been one: other brackets end
  // the ones opened since.
  for (size_t i = open.size(); i-- > 0;) {
    if (open[i].kind == kind)
      return open.truncate(i);
    if (kind == '<')
      return;
  }
}

void NestingScanner::skipString() {
  for (++position; position < text.size(); ++position) {
    if (text[position] == '\\')
      ++position;
    else if (text[position] == '"' || text[position] == '\n')
      break;
  }
  ++position;
}

void NestingScanner::countOperator() {
  // Lines of a region are not one expression.
  if (open.empty() || open.back().kind == '{' || open.back().kind == '[')
    return;
  mostOperators = std::max(mostOperators, ++open.back().operators);
}

/// Visits a keyword or, with the character before it, an alias.
void NestingScanner::visitName(bool isAlias) {
  size_t begin = position;
  if (isAlias)
    ++position;
  while (llvm::isAlnum(peek(0)) || peek(0) == '_' || peek(0) == '$' ||
         peek(0) == '.')
    ++position;
  StringRef name = text.slice(begin, position);
  if (!isAlias) {
    if (name == "mod" || name == "floordiv" || name == "ceildiv")
      countOperator();
    return;
  }
  StringRef rest = text.drop_front(position).ltrim(" \t");
  if (open.empty() && rest.starts_with("=") && !rest.starts_with("==")) {
    isDefining = true;
    defined = name;
    definition = 0;
    valueBegin = text.size() - rest.size() + 1;
    return;
  }
  if (auto it = aliases.find(name); it != aliases.end())
    reach(open.size() + it->second);
}

/// Ends the definition of an alias with the line that ends its value.
void NestingScanner::endLine() {
  if (!isDefining || !open.empty() ||
      text.slice(valueBegin, position).trim().empty())
    return;
  aliases[defined] = definition;
  isDefining = false;
}

/// Visits a character that is part of no name, string or comment.
void NestingScanner::visitCharacter(char current) {
  switch (current) {
  case '(':
  case '[':
  case '{':
    openBracket(current);
    break;
  case '<':
    if (peek(1) != '=')
      openBracket(current);
    break;
  case ')':
    close('(');
    break;
  case ']':
    close('[');
    break;
  case '}':
    close('{');
    break;
  case '>':
    if (peek(1) != '=' || open.empty() || open.back().kind == '<')
      close('<');
    break;
  case '-':
    if (peek(1) == '>')
      ++position;
    else
      countOperator();
    break;
  case '+':
  case '*':
    countOperator();
    break;
  case ',':
    if (!open.empty())
      open.back().operators = 0;
    break;
  case '\n':
    endLine();
    break;
  default:
    break;
  }
  ++position;
}

std::optional<NestingScanner::Excess> NestingScanner::scan() {
  while (position < text.size()) {
    size_t begin = position;
    char current = text[position];
    if (current == '"') {
      skipString();
      continue;
    }
    if (current == '/' && peek(1) == '/') {
      position = std::min(text.find('\n', position), text.size());
      continue;
    }
    if (llvm::isAlpha(current)) {
      visitName(/*isAlias=*/false);
      continue;
    }
    if (current == '#' || current == '!')
      visitName(/*isAlias=*/true);
    else
      visitCharacter(current);
    if (deepest > maxNesting)
      return Excess{begin, "brackets", maxNesting};
    if (mostOperators > maxOperators)
      return Excess{begin, "operators of an expression", maxOperators};
  }
  return std::nullopt;
}

std::optional<attn::SourceExcess> attn::findSourceExcess(StringRef text) {
  std::optional<NestingScanner::Excess> excess = NestingScanner(text).scan();
  if (!excess)
    return std::nullopt;
  StringRef before = text.take_front(excess->offset);
  return SourceExcess{before.count('\n') + 1,
                      before.size() - (before.rfind('\n') + 1) + 1,
                      (excess->what + Twine(" are nested more than ") +
                       Twine(excess->limit) + " deep")
                          .str()};
}

LogicalResult attn::checkSource(llvm::MemoryBufferRef buffer,
                                MLIRContext *context, bool allowBytecode) {
  auto getLoc = [&](size_t line, size_t column) {
    return FileLineColLoc::get(context, buffer.getBufferIdentifier(), line,
                               column);
  };
  if (isBytecode(buffer)) {
    if (allowBytecode)
      return success();
    return emitError(getLoc(1, 1))
           << "input is bytecode, which is read only where that is allowed: "
              "damaged bytecode ends the process that reads it";
  }
  if (std::optional<SourceExcess> excess = findSourceExcess(buffer.getBuffer()))
    return emitError(getLoc(excess->line, excess->column)) << excess->message;
  return success();
}
