//===- attn-reduce.cpp - Test case reducer --------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// mlir-reduce with the dialects and passes of the project. Input that MLIR's
// parser cannot handle becomes a diagnostic.
//
//===----------------------------------------------------------------------===//

#include "attn/InitAllDialects.h"
#include "attn/InitAllPasses.h"
#include "attn/Support/CheckSource.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Reducer/Passes.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/ParseUtilities.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;
namespace cl = llvm::cl;

static cl::OptionCategory category("attn-reduce options");

namespace {
/// The command line, but for the passes.
struct Flags {
  cl::opt<std::string> inputFile{cl::Positional, cl::desc("<input file>"),
                                 cl::init("-"), cl::cat(category)};
  cl::opt<std::string> outputFile{
      "o", cl::desc("Output file for the reduced test case"),
      cl::value_desc("file"), cl::init("-"), cl::cat(category)};
  cl::opt<bool> noImplicitModule{
      "no-implicit-module",
      cl::desc("Add no module around the operation of the input"),
      cl::cat(category)};
  cl::opt<bool> allowBytecode{
      "allow-bytecode",
      cl::desc("Read bytecode, too. It must come from a source that is "
               "trusted: damaged bytecode ends the program"),
      cl::cat(category)};
};
} // namespace

/// Parses and verifies the input. Returns null after an error.
static OwningOpRef<Operation *> parseInput(const Flags &flags,
                                           MLIRContext &context) {
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> file =
      openInputFile(flags.inputFile, &message);
  if (!file) {
    llvm::errs() << message << '\n';
    return nullptr;
  }
  auto sourceMgr = std::make_shared<llvm::SourceMgr>();
  llvm::MemoryBufferRef buffer = *file;
  sourceMgr->AddNewSourceBuffer(std::move(file), SMLoc());
  SourceMgrDiagnosticHandler diagnostics(*sourceMgr, &context);
  if (failed(attn::checkSource(buffer, &context, flags.allowBytecode)))
    return nullptr;
  return parseSourceFileForTool(sourceMgr, &context, !flags.noImplicitModule);
}

int main(int argc, char **argv) {
  DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  attn::registerAllDialects(registry);
  mlir::registerAllPasses();
  attn::registerAllPasses();
  registerReducerPasses();

  llvm::InitLLVM init(argc, argv);
  Flags flags;
  cl::HideUnrelatedOptions(category);
  PassPipelineCLParser passes("", "Reduction passes to run");
  cl::ParseCommandLineOptions(argc, argv, "Attn test case reducer\n");

  std::string message;
  std::unique_ptr<llvm::ToolOutputFile> output =
      openOutputFile(flags.outputFile, &message);
  if (!output) {
    llvm::errs() << message << '\n';
    return EXIT_FAILURE;
  }
  MLIRContext context(registry);
  OwningOpRef<Operation *> op = parseInput(flags, context);
  if (!op)
    return EXIT_FAILURE;
  PassManager pm(&context, op->getName().getStringRef());
  auto report = [&](const Twine &message) {
    emitError(UnknownLoc::get(&context), message);
    return failure();
  };
  if (failed(passes.addToPipeline(pm, report)) || failed(pm.run(*op)))
    return EXIT_FAILURE;
  op->print(output->os());
  output->keep();
  return EXIT_SUCCESS;
}
