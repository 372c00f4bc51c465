//===- Proxy.h - Between an editor and MLIR's server ------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Passes messages between an editor and MLIR's language server, and adds to the
// answers what that server does not know.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_ATTN_LSP_SERVER_PROXY_H
#define ATTN_TOOLS_ATTN_LSP_SERVER_PROXY_H

#include "Assist.h"
#include "attn/Support/CheckSource.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/LSP/Transport.h"
#include <mutex>
#include <string>

namespace attn_lsp {

class Proxy {
public:
  /// Messages to MLIR's server are written to the file descriptor `toServer`,
  /// messages to the editor to `toEditor`.
  Proxy(int toServer, int toEditor, bool isPretty)
      : toServer(toServer), toEditor(toEditor), isPretty(isPretty) {}

  /// Reads messages of the editor up to the end of its input.
  void readEditor(llvm::lsp::JSONTransportInput &input);

  /// Reads messages of MLIR's server up to the end of its output.
  void readServer(llvm::lsp::JSONTransportInput &input);

private:
  /// What an answer of MLIR's server is to be extended by.
  struct Extension {
    std::string method;
    llvm::json::Array completions;
    std::optional<llvm::json::Object> hover;
  };

  void handleEditorMessage(llvm::StringRef text);
  void handleServerMessage(llvm::StringRef text);
  void trackDocument(llvm::StringRef method, const llvm::json::Object &params);
  bool hideDocument(llvm::StringRef method, llvm::json::Object &params);
  void reportHidden(llvm::json::Object &notification);
  void prepareExtension(llvm::StringRef method,
                        const llvm::json::Object *params,
                        const llvm::json::Value &id);
  void extend(llvm::json::Object &answer, Extension &extension);
  void refuse(llvm::json::Value id, llvm::lsp::ErrorCode code,
              llvm::StringRef message);
  void sendToEditor(const llvm::json::Value &message);

  int toServer, toEditor;
  bool isPretty;
  /// Guards the output to the editor.
  std::mutex outputMutex;
  /// Texts of open documents by their address, of the editor's thread.
  llvm::StringMap<std::string> documents;
  /// Guards `hidden`.
  std::mutex hiddenMutex;
  /// Documents that MLIR's parser would not survive, by their address: MLIR's
  /// server takes them for empty.
  llvm::StringMap<mlir::attn::SourceExcess> hidden;
  /// Guards `extensions`.
  std::mutex extensionsMutex;
  /// By the identifiers of requests.
  llvm::StringMap<Extension> extensions;
};

} // namespace attn_lsp

#endif // ATTN_TOOLS_ATTN_LSP_SERVER_PROXY_H
