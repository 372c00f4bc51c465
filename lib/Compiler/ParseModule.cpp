//===- ParseModule.cpp - Reading inputs ----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parses modules and keeps the names that arguments have in their text.
//
//===----------------------------------------------------------------------===//

#include "attn/Compiler/Compiler.h"
#include "attn/Dialect/Attn/IR/AttnInterfaces.h"
#include "attn/Support/CheckSource.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/AsmParser/AsmParserState.h"
#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;

/// Gives the arguments of functions the names they have in the source.
static void nameArguments(ModuleOp module, const AsmParserState &state) {
  module.walk([&](FunctionOpInterface function) {
    if (function.isExternal())
      return;
    const AsmParserState::BlockDefinition *block =
        state.getBlockDef(&function.getFunctionBody().front());
    if (!block)
      return;
    for (auto [index, argument] : llvm::enumerate(block->arguments)) {
      StringRef name(argument.loc.Start.getPointer(),
                     argument.loc.End.getPointer() -
                         argument.loc.Start.getPointer());
      name.consume_front("%");
      if (name.empty() || llvm::isDigit(name.front()) ||
          function.getArgAttr(index, attn::argNameAttrName))
        continue;
      function.setArgAttr(index, attn::argNameAttrName,
                          StringAttr::get(module.getContext(), name));
    }
  });
}

OwningOpRef<ModuleOp> attn::parseModule(llvm::SourceMgr &sourceMgr,
                                        MLIRContext &context,
                                        bool allowBytecode) {
  ParserConfig config(&context);
  const llvm::MemoryBuffer *buffer =
      sourceMgr.getMemoryBuffer(sourceMgr.getMainFileID());
  if (failed(checkSource(*buffer, &context, allowBytecode)))
    return nullptr;
  if (isBytecode(*buffer))
    return parseSourceFile<ModuleOp>(sourceMgr, config);
  Block block;
  AsmParserState state;
  if (failed(parseAsmSourceFile(sourceMgr, &block, config, &state)))
    return nullptr;
  auto loc = FileLineColLoc::get(&context, buffer->getBufferIdentifier(), 1, 1);
  OwningOpRef<ModuleOp> module =
      mlir::detail::constructContainerOpForParserIfNecessary<ModuleOp>(
          &block, &context, loc);
  if (module)
    nameArguments(*module, state);
  return module;
}
