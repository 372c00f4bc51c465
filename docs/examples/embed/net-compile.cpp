//===- net-compile.cpp - The compiler -------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   net-compile in.mlir NAME
//
// writes NAME.c, the functions of in.mlir, and NAME_kernels.o and
// NAME_kernels.h, their attention.
//
//===----------------------------------------------------------------------===//

#include "Net.h"
#include "attn/Compiler/Compiler.h"
#include "attn/InitAllDialects.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;

/// Has Attn compile `kernels` for the host, to an object file and a header.
static LogicalResult compileKernels(ModuleOp kernels, const std::string &name) {
  for (auto [output, extension] : {std::pair(attn::OutputKind::Object, ".o"),
                                   std::pair(attn::OutputKind::Header, ".h")}) {
    attn::CompilerOptions options;
    options.output = output;
    // Compiling changes the module.
    OwningOpRef<ModuleOp> copy = kernels.clone();
    if (failed(attn::compileToFile(*copy, options, name + extension)))
      return failure();
  }
  return success();
}

int main(int argc, char **argv) {
  if (argc != 3) {
    llvm::errs() << "usage: net-compile in.mlir NAME\n";
    return 2;
  }
  DialectRegistry registry;
  registry.insert<func::FuncDialect, net::NetDialect>();
  attn::registerCompilerDialects(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();

  auto module = parseSourceFile<ModuleOp>(argv[1], &context);
  if (!module)
    return 1;
  std::string name = argv[2];
  OwningOpRef<ModuleOp> kernels = net::splitAttention(*module);
  if (failed(compileKernels(*kernels, name + "_kernels")))
    return 1;

  std::string message;
  auto file = openOutputFile(name + ".c", &message);
  if (!file) {
    llvm::errs() << message << "\n";
    return 1;
  }
  if (failed(net::emitC(*module, name + "_kernels.h", file->os())))
    return 1;
  file->keep();
  return 0;
}
