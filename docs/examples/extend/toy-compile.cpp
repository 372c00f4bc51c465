//===- toy-compile.cpp - Attn's compiler with toy and sm_89 ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   toy-compile in.mlir OUTPUT [OPTION=VALUE]...
//
// compiles in.mlir as attn-compile does with --OPTION=VALUE.
//
//===----------------------------------------------------------------------===//

#include "Toy.h"
#include "ToyTarget.h"
#include "attn/Compiler/Compiler.h"
#include "attn/InitAllDialects.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;

int main(int argc, char **argv) {
  if (argc < 3) {
    llvm::errs() << "usage: toy-compile in.mlir OUTPUT [OPTION=VALUE]...\n";
    return 2;
  }
  toy::registerToyTarget();
  attn::CompilerOptions options;
  for (StringRef argument : ArrayRef(argv + 3, argc - 3)) {
    auto [name, value] = argument.split('=');
    if (auto error = attn::setOption(options, name, value)) {
      llvm::errs() << "toy-compile: error: " << *error << "\n";
      return 2;
    }
  }
  if (auto error = attn::completeOptions(options)) {
    llvm::errs() << "toy-compile: error: " << *error << "\n";
    return 2;
  }

  DialectRegistry registry;
  attn::registerCompilerDialects(registry);
  registry.insert<toy::ToyDialect>();
  MLIRContext context(registry);
  // The dialect may be named in an option alone.
  context.loadDialect<toy::ToyDialect>();

  auto module = parseSourceFile<ModuleOp>(argv[1], &context);
  return !module || failed(attn::compileToFile(*module, options, argv[2]));
}
