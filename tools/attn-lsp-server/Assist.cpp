//===- Assist.cpp - Completion and hover ----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds out from the characters around a position which kind of name is there.
//
//===----------------------------------------------------------------------===//

#include "Assist.h"
#include "Definitions.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"

using namespace llvm;
using namespace attn_lsp;

/// Characters before a position in which the attribute around it begins.
static constexpr size_t kMostCharactersOfAttribute = 1 << 14;

namespace {
/// Kinds of completion items of the protocol.
enum class ItemKind {
  Function = 3,
  Property = 10,
  EnumMember = 20,
  Struct = 22
};
} // namespace

static bool isWord(char character) {
  return isAlnum(character) || character == '_';
}

/// The word that ends before `end`.
static StringRef getWordBefore(StringRef text, size_t end) {
  size_t start = end;
  while (start > 0 && isWord(text[start - 1]))
    --start;
  return text.slice(start, end);
}

/// The character at `index`, and 0 outside of the text.
static char getChar(StringRef text, size_t index) {
  return index < text.size() ? text[index] : 0;
}

/// The start of the line of `offset`.
static size_t getLineStart(StringRef text, size_t offset) {
  size_t newline = text.take_front(offset).rfind('\n');
  return newline == StringRef::npos ? 0 : newline + 1;
}

/// Whether an offset is in a comment or a string. Neither spans lines.
static bool isInCommentOrString(StringRef text, size_t offset) {
  bool inString = false;
  for (size_t i = getLineStart(text, offset); i < offset; ++i) {
    if (inString && text[i] == '\\')
      ++i;
    else if (text[i] == '"')
      inString = !inString;
    else if (!inString && text[i] == '/' && getChar(text, i + 1) == '/')
      return true;
  }
  return inString;
}

size_t attn_lsp::getOffset(StringRef text, Position position) {
  size_t start = 0;
  for (int64_t line = 0; line < position.line; ++line) {
    size_t newline = text.find('\n', start);
    if (newline == StringRef::npos)
      return text.size();
    start = newline + 1;
  }
  StringRef line = text.substr(start).take_until(
      [](char character) { return character == '\n' || character == '\r'; });
  size_t index = 0;
  for (int64_t column = 0; column < position.column && index < line.size();) {
    unsigned bytes =
        std::min<size_t>(getNumBytesForUTF8(line[index]), line.size() - index);
    // Characters outside of the basic plane are two units.
    column += bytes == 4 ? 2 : 1;
    index += bytes;
  }
  return start + index;
}

//===----------------------------------------------------------------------===//
// Where a name is
//===----------------------------------------------------------------------===//

namespace {
/// The names that can be at a place.
enum class NameKind {
  None,
  /// `attn.name`, `#attn.name`, `!attn_tile.name`
  Operation,
  Attribute,
  Type,
  /// `#attn<name`
  AttributeInBrackets,
};

struct NamePlace {
  NameKind kind = NameKind::None;
  StringRef dialect;

  bool matches(const Definition &definition) const {
    if (definition.dialect != dialect)
      return false;
    switch (kind) {
    case NameKind::None:
      return false;
    case NameKind::Operation:
      return definition.kind == DefinitionKind::Operation;
    case NameKind::Attribute:
      return definition.kind == DefinitionKind::Attribute;
    case NameKind::Type:
      return definition.kind == DefinitionKind::Type;
    case NameKind::AttributeInBrackets:
      return definition.isAttribute();
    }
    return false;
  }
};
} // namespace

/// Which names can begin at `start`.
static NamePlace findNamePlace(StringRef text, size_t start) {
  char separator = getChar(text, start - 1);
  if (start == 0 || (separator != '.' && separator != '<'))
    return {};
  StringRef dialect = getWordBefore(text, start - 1);
  if (!isKnownDialect(dialect))
    return {};
  size_t dialectStart = dialect.begin() - text.begin();
  char sigil = dialectStart == 0 ? 0 : text[dialectStart - 1];
  if (sigil == '#')
    return {separator == '.' ? NameKind::Attribute
                             : NameKind::AttributeInBrackets,
            dialect};
  if (separator != '.')
    return {};
  if (sigil == '!')
    return {NameKind::Type, dialect};
  // Discardable attributes have names like operations, but not at the start of
  // a statement.
  StringRef line = text.slice(getLineStart(text, dialectStart), dialectStart);
  StringRef before = line.trim();
  bool isFirst = before.empty();
  bool isAfterResults = before.ends_with("=") && before.starts_with("%");
  // Dictionaries of attributes have no space behind their brace.
  bool isInBlock = line.ends_with("{ ") || line.ends_with("} ");
  bool isGeneric = line.ends_with("\"");
  if (isFirst || isAfterResults || isInBlock || isGeneric)
    return {NameKind::Operation, dialect};
  return {};
}

namespace {
/// A place between the angle brackets of an attribute.
struct ParameterPlace {
  const Definition *attribute = nullptr;
  /// From behind the opening bracket to the place.
  StringRef before;
};
} // namespace

/// The opening bracket around `offset`, searched from `first` on.
static std::optional<size_t> findOpeningBracket(StringRef text, size_t first,
                                                size_t offset) {
  unsigned depth = 0;
  for (size_t i = offset; i-- > first;) {
    char character = text[i];
    if (character == '"') {
      // Strings have no brackets.
      size_t begin = text.take_front(i).rfind('"');
      if (begin == StringRef::npos || begin < first)
        return std::nullopt;
      i = begin;
      continue;
    }
    if (character == '>' && getChar(text, i - 1) == '-')
      continue;
    if (StringRef(">)]}").contains(character))
      ++depth;
    if (!StringRef("<([{").contains(character))
      continue;
    if (depth == 0)
      return i;
    --depth;
  }
  return std::nullopt;
}

/// The attribute whose brackets are around `offset`, without ones in between.
static ParameterPlace findParameterPlace(StringRef text, size_t offset) {
  std::optional<size_t> bracket = findOpeningBracket(
      text, offset - std::min(offset, kMostCharactersOfAttribute), offset);
  if (!bracket || text[*bracket] != '<')
    return {};
  size_t begin = *bracket + 1;
  StringRef mnemonic = getWordBefore(text, *bracket);
  size_t start = mnemonic.begin() - text.begin();
  NamePlace place = findNamePlace(text, start);
  if (place.kind == NameKind::None && isKnownDialect(mnemonic) && start > 0 &&
      text[start - 1] == '#') {
    // `#attn<mnemonic keyword`
    place = {NameKind::AttributeInBrackets, mnemonic};
    StringRef inside = text.slice(begin, offset).ltrim();
    mnemonic = inside.take_while(isWord);
    begin = mnemonic.end() - text.begin();
  }
  if (place.kind != NameKind::Attribute &&
      place.kind != NameKind::AttributeInBrackets)
    return {};
  for (const Definition &definition : getDefinitions())
    if (place.matches(definition) && definition.mnemonic == mnemonic)
      return {&definition, text.slice(begin, offset)};
  return {};
}

//===----------------------------------------------------------------------===//
// Completion
//===----------------------------------------------------------------------===//

static json::Object makeItem(StringRef label, ItemKind kind, StringRef detail,
                             std::string newText, json::Object range) {
  return json::Object{
      {"label", label},
      {"kind", static_cast<int>(kind)},
      {"detail", detail},
      {"textEdit", json::Object{{"range", std::move(range)},
                                {"newText", std::move(newText)}}}};
}

/// The names of parameters that `text` gives at its own level.
static SmallVector<StringRef> getGivenParameters(StringRef text) {
  SmallVector<StringRef> given;
  unsigned depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (StringRef("<([{").contains(text[i]))
      ++depth;
    else if (StringRef(">)]}").contains(text[i]))
      depth -= depth > 0;
    else if (text[i] == '=' && depth == 0)
      given.push_back(getWordBefore(text, text.take_front(i).rtrim().size()));
  }
  return given;
}

json::Array attn_lsp::getCompletions(StringRef text, Position position) {
  json::Array items;
  size_t offset = getOffset(text, position);
  if (isInCommentOrString(text, offset))
    return items;
  StringRef prefix = getWordBefore(text, offset);
  size_t start = offset - prefix.size();
  auto add = [&](StringRef label, ItemKind kind, StringRef detail,
                 std::string newText) -> json::Object * {
    if (!label.starts_with(prefix))
      return nullptr;
    // Words are of ASCII characters, so that bytes are units.
    int64_t column = position.column - prefix.size();
    json::Object range{
        {"start", json::Object{{"line", position.line}, {"character", column}}},
        {"end", json::Object{{"line", position.line},
                             {"character", position.column}}}};
    items.push_back(
        makeItem(label, kind, detail, std::move(newText), std::move(range)));
    return items.back().getAsObject();
  };

  NamePlace place = findNamePlace(text, start);
  for (const Definition &definition : getDefinitions()) {
    if (!place.matches(definition))
      continue;
    ItemKind kind = definition.kind == DefinitionKind::Operation
                        ? ItemKind::Function
                        : ItemKind::Struct;
    if (json::Object *item = add(definition.mnemonic, kind, definition.summary,
                                 definition.mnemonic.str()))
      (*item)["documentation"] =
          json::Object{{"kind", "markdown"}, {"value", definition.getText()}};
  }
  if (place.kind != NameKind::None)
    return items;

  auto [attribute, before] = findParameterPlace(text, start);
  if (!attribute)
    return items;
  StringRef previous = before.rtrim();
  bool isValue = previous.consume_back("=");
  bool isFirst = previous.empty();
  if (!isValue && !isFirst && !previous.ends_with(","))
    return items;
  StringRef name = getWordBefore(previous, previous.rtrim().size());
  SmallVector<StringRef> given = getGivenParameters(before);
  for (const Parameter &parameter : attribute->parameters) {
    bool isKeyword = parameter.name.empty();
    if (isKeyword || (isValue && parameter.name == name)) {
      for (StringRef value : parameter.values)
        add(value, ItemKind::EnumMember, parameter.summary, value.str());
    } else if (!isValue && !is_contained(given, parameter.name)) {
      add(parameter.name, ItemKind::Property, parameter.summary,
          (parameter.name + " = ").str());
    }
  }
  return items;
}

//===----------------------------------------------------------------------===//
// Hover
//===----------------------------------------------------------------------===//

std::optional<json::Object> attn_lsp::getHover(StringRef text,
                                               Position position) {
  size_t offset = getOffset(text, position);
  StringRef head = getWordBefore(text, offset);
  StringRef tail = text.substr(offset).take_while(isWord);
  size_t start = offset - head.size();
  size_t end = offset + tail.size();
  StringRef word = text.slice(start, end);

  // On the dialect's name, the name behind it counts.
  if (isKnownDialect(word) && getChar(text, end) == '.') {
    start = end + 1;
    word = text.substr(start).take_while(isWord);
    end = start + word.size();
  }
  if (word.empty())
    return std::nullopt;

  NamePlace place = findNamePlace(text, start);
  bool isGeneric =
      place.kind == NameKind::Operation && getChar(text, end) == '"';
  if (!isGeneric && isInCommentOrString(text, start))
    return std::nullopt;

  std::string found;
  size_t foundStart = start;
  for (const Definition &definition : getDefinitions()) {
    if (!place.matches(definition) || definition.mnemonic != word)
      continue;
    found = definition.getText();
    bool hasSigil = place.kind != NameKind::Operation;
    foundStart = start - definition.dialect.size() - 1 - hasSigil;
  }
  if (found.empty()) {
    auto [attribute, before] = findParameterPlace(text, start);
    if (attribute)
      for (const Parameter &parameter : attribute->parameters)
        if (parameter.name == word && !before.rtrim().ends_with("="))
          found = ("`" + word + "`, a parameter of `" + attribute->getName() +
                   "`: " + parameter.summary + "\n")
                      .str();
  }
  if (found.empty())
    return std::nullopt;

  // The units before `offset` on the line are known; those in between are of
  // ASCII characters.
  auto getColumn = [&](size_t at) {
    return position.column + static_cast<int64_t>(at) -
           static_cast<int64_t>(offset);
  };
  auto getPosition = [&](size_t at) {
    return json::Object{{"line", position.line}, {"character", getColumn(at)}};
  };
  return json::Object{
      {"contents", json::Object{{"kind", "markdown"}, {"value", found}}},
      {"range", json::Object{{"start", getPosition(foundStart)},
                             {"end", getPosition(end)}}}};
}
