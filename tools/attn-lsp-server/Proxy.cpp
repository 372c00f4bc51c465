//===- Proxy.cpp - Between an editor and MLIR's server --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// MLIR's server ends at messages that are no requests, notifications or
// answers, so these are not passed on.
//
//===----------------------------------------------------------------------===//

#include "Proxy.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cerrno>
#include <unistd.h>

using namespace llvm;
using namespace attn_lsp;

/// Nesting of a message, beyond that of any the protocol has. The parser of
/// JSON is recursive.
static constexpr unsigned kDeepestMessage = 128;

/// Writes all of `text` unless the other end is closed.
static void write(int file, StringRef text) {
  while (!text.empty()) {
    ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return;
    text = text.drop_front(written);
  }
}

static void writeMessage(int file, StringRef body) {
  write(file,
        formatv("Content-Length: {0}\r\n\r\n{1}", body.size(), body).str());
}

static std::string toString(const json::Value &value) {
  return formatv("{0}", value).str();
}

/// Whether arrays and objects are nested deeper than `kDeepestMessage`.
static bool isTooDeep(StringRef text) {
  unsigned depth = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char character = text[i];
    if (inString && character == '\\')
      ++i;
    else if (character == '"')
      inString = !inString;
    else if (!inString && (character == '[' || character == '{') &&
             ++depth > kDeepestMessage)
      return true;
    else if (!inString && (character == ']' || character == '}') && depth > 0)
      --depth;
  }
  return false;
}

static std::optional<Position> readPosition(const json::Object *position) {
  if (!position)
    return std::nullopt;
  std::optional<int64_t> line = position->getInteger("line");
  std::optional<int64_t> column = position->getInteger("character");
  if (!line || !column || *line < 0 || *column < 0)
    return std::nullopt;
  return Position{*line, *column};
}

//===----------------------------------------------------------------------===//
// From the editor
//===----------------------------------------------------------------------===//

void Proxy::readEditor(lsp::JSONTransportInput &input) {
  while (!input.isEndOfInput() && !input.hasError()) {
    std::string text;
    if (succeeded(input.readMessage(text)))
      handleEditorMessage(text);
  }
}

void Proxy::handleEditorMessage(StringRef text) {
  if (isTooDeep(text))
    return refuse(
        nullptr, lsp::ErrorCode::ParseError,
        formatv("the message is nested deeper than {0}", kDeepestMessage)
            .str());
  Expected<json::Value> parsed = json::parse(text);
  if (!parsed)
    return refuse(nullptr, lsp::ErrorCode::ParseError,
                  toString(parsed.takeError()));
  json::Object *message = parsed->getAsObject();
  bool isChanged = false;
  if (!message)
    return refuse(nullptr, lsp::ErrorCode::InvalidRequest,
                  "the message is not an object");
  json::Value *idValue = message->get("id");
  json::Value id = idValue ? *idValue : json::Value(nullptr);
  if (message->getString("jsonrpc") != StringRef("2.0"))
    return refuse(id, lsp::ErrorCode::InvalidRequest,
                  "the message has no \"jsonrpc\": \"2.0\"");
  std::optional<StringRef> method = message->getString("method");
  bool isAnswer = idValue && !message->get("method") &&
                  (message->get("result") || message->getObject("error"));
  if (!method && !isAnswer)
    return refuse(id, lsp::ErrorCode::InvalidRequest,
                  "the message has no \"method\"");
  if (method) {
    json::Object *params = message->getObject("params");
    if (idValue) {
      prepareExtension(*method, params, id);
    } else if (params) {
      trackDocument(*method, *params);
      isChanged = hideDocument(*method, *params);
    }
  }
  writeMessage(toServer, isChanged ? toString(*parsed) : text.str());
}

void Proxy::refuse(json::Value id, lsp::ErrorCode code, StringRef message) {
  lsp::Logger::error("message left out: {0}", message);
  sendToEditor(json::Object{
      {"jsonrpc", "2.0"},
      {"id", std::move(id)},
      {"error", json::Object{{"code", static_cast<int>(code)},
                             {"message", json::fixUTF8(message)}}}});
}

void Proxy::trackDocument(StringRef method, const json::Object &params) {
  const json::Object *document = params.getObject("textDocument");
  std::optional<StringRef> address =
      document ? document->getString("uri") : std::nullopt;
  if (!address)
    return;
  if (method == "textDocument/didOpen") {
    documents[*address] = document->getString("text").value_or("").str();
  } else if (method == "textDocument/didClose") {
    documents.erase(*address);
  } else if (method == "textDocument/didChange") {
    const json::Array *changes = params.getArray("contentChanges");
    auto text = documents.find(*address);
    if (!changes || text == documents.end())
      return;
    for (const json::Value &each : *changes) {
      const json::Object *change = each.getAsObject();
      std::optional<StringRef> newText =
          change ? change->getString("text") : std::nullopt;
      if (!newText)
        return;
      const json::Object *range = change->getObject("range");
      if (!range) {
        text->second = newText->str();
        continue;
      }
      std::optional<Position> start = readPosition(range->getObject("start"));
      std::optional<Position> end = readPosition(range->getObject("end"));
      if (!start || !end)
        return;
      size_t from = getOffset(text->second, *start);
      size_t to = std::max(from, getOffset(text->second, *end));
      text->second.replace(from, to - from, newText->str());
    }
  }
}

/// Makes a document empty for MLIR's server while it is nested too deeply for
/// MLIR's parser, and whole again afterwards. Returns whether it changes the
/// notification.
bool Proxy::hideDocument(StringRef method, json::Object &params) {
  json::Object *document = params.getObject("textDocument");
  std::optional<StringRef> address =
      document ? document->getString("uri") : std::nullopt;
  if (!address)
    return false;
  std::lock_guard<std::mutex> lock(hiddenMutex);
  auto text = documents.find(*address);
  if (text == documents.end()) {
    hidden.erase(*address);
    return false;
  }
  bool wasHidden = hidden.erase(*address);
  std::optional<mlir::attn::SourceExcess> excess =
      mlir::attn::findSourceExcess(text->second);
  if (excess)
    hidden[*address] = *excess;
  if (!excess && !wasHidden)
    return false;
  std::string shown = excess ? "" : text->second;
  if (method == "textDocument/didOpen")
    (*document)["text"] = std::move(shown);
  else if (method == "textDocument/didChange")
    params["contentChanges"] =
        json::Array{json::Object{{"text", std::move(shown)}}};
  else
    return false;
  return true;
}

void Proxy::prepareExtension(StringRef method, const json::Object *params,
                             const json::Value &id) {
  Extension extension;
  extension.method = method.str();
  bool isCompletion = method == "textDocument/completion";
  bool isHover = method == "textDocument/hover";
  if (isCompletion || isHover) {
    const json::Object *document =
        params ? params->getObject("textDocument") : nullptr;
    auto text = documents.find(
        document ? document->getString("uri").value_or("") : StringRef());
    std::optional<Position> position =
        params ? readPosition(params->getObject("position")) : std::nullopt;
    if (text == documents.end() || !position)
      return;
    if (isCompletion)
      extension.completions = getCompletions(text->second, *position);
    else
      extension.hover = getHover(text->second, *position);
    if (extension.completions.empty() && !extension.hover)
      return;
  } else if (method != "initialize") {
    return;
  }
  std::lock_guard<std::mutex> lock(extensionsMutex);
  extensions[toString(id)] = std::move(extension);
}

//===----------------------------------------------------------------------===//
// From MLIR's server
//===----------------------------------------------------------------------===//

void Proxy::readServer(lsp::JSONTransportInput &input) {
  while (!input.isEndOfInput() && !input.hasError()) {
    std::string text;
    if (succeeded(input.readMessage(text)))
      handleServerMessage(text);
  }
}

void Proxy::handleServerMessage(StringRef text) {
  Expected<json::Value> parsed = json::parse(text);
  if (!parsed) {
    lsp::Logger::error("message of MLIR's server left out: {0}",
                       toString(parsed.takeError()));
    return;
  }
  json::Object *message = parsed->getAsObject();
  json::Value *id = message ? message->get("id") : nullptr;
  if (id && !message->get("method")) {
    std::optional<Extension> extension;
    {
      std::lock_guard<std::mutex> lock(extensionsMutex);
      auto found = extensions.find(toString(*id));
      if (found != extensions.end()) {
        extension = std::move(found->second);
        extensions.erase(found);
      }
    }
    if (extension)
      extend(*message, *extension);
  }
  if (message && message->getString("method") ==
                     StringRef("textDocument/publishDiagnostics"))
    reportHidden(*message);
  sendToEditor(*parsed);
}

/// Puts the reason for hiding a document in place of the diagnostics that
/// MLIR's server has for an empty one.
void Proxy::reportHidden(json::Object &notification) {
  json::Object *params = notification.getObject("params");
  std::optional<StringRef> address =
      params ? params->getString("uri") : std::nullopt;
  std::lock_guard<std::mutex> lock(hiddenMutex);
  auto excess = address ? hidden.find(*address) : hidden.end();
  if (excess == hidden.end())
    return;
  // The first line and the first character of the protocol have number 0.
  auto position = [&](int64_t character) {
    return json::Object{{"line", static_cast<int64_t>(excess->second.line) - 1},
                        {"character", character}};
  };
  int64_t character = static_cast<int64_t>(excess->second.column) - 1;
  (*params)["diagnostics"] = json::Array{
      json::Object{{"range", json::Object{{"start", position(character)},
                                          {"end", position(character + 1)}}},
                   {"severity", 1},
                   {"source", "attn"},
                   {"message", excess->second.message}}};
}

void Proxy::extend(json::Object &answer, Extension &extension) {
  if (extension.method == "initialize") {
    if (json::Object *result = answer.getObject("result"))
      (*result)["serverInfo"] = json::Object{{"name", "attn-lsp-server"},
                                             {"version", ATTN_VERSION_STRING}};
    return;
  }
  // MLIR's server gives errors about documents without a file.
  answer.erase("error");
  if (extension.method == "textDocument/completion") {
    // The items are those that begin with the word before the cursor, so the
    // editor has to ask again when the word changes.
    answer["result"] = json::Object{
        {"isIncomplete", true}, {"items", std::move(extension.completions)}};
    return;
  }
  json::Object hover = std::move(*extension.hover);
  json::Object *result = answer.getObject("result");
  json::Object *contents = result ? result->getObject("contents") : nullptr;
  if (contents) {
    json::Object &own = *hover.getObject("contents");
    own["value"] = (*own.getString("value") + "\n---\n" +
                    contents->getString("value").value_or(""))
                       .str();
  }
  answer["result"] = std::move(hover);
}

void Proxy::sendToEditor(const json::Value &message) {
  std::string body =
      isPretty ? formatv("{0:2}\n", message).str() : toString(message);
  std::lock_guard<std::mutex> lock(outputMutex);
  writeMessage(toEditor, body);
}
