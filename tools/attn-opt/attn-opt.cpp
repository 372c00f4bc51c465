//===- attn-opt.cpp - Optimizer driver ---------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// mlir-opt with the dialects and passes of the project. Input that MLIR's
// parser cannot handle becomes a diagnostic.
//
//===----------------------------------------------------------------------===//

#include "attn/InitAllDialects.h"
#include "attn/InitAllPasses.h"
#include "attn/Support/CheckSource.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Support/ToolUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Debug.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ToolOutputFile.h"

#include <optional>

using namespace mlir;
namespace cl = llvm::cl;

/// Whether the parser can read `chunk`; says nothing if it cannot.
static bool isReadable(llvm::MemoryBufferRef chunk, bool allowBytecode) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  ScopedDiagnosticHandler ignore(&context,
                                 [](Diagnostic &) { return success(); });
  return succeeded(attn::checkSource(chunk, &context, allowBytecode));
}

/// Reports why the parser cannot read `chunk`, or verifies that `chunk` expects
/// that report.
static LogicalResult reportUnreadable(std::unique_ptr<llvm::MemoryBuffer> chunk,
                                      const MlirOptMainConfig &config,
                                      bool allowBytecode) {
  llvm::MemoryBufferRef buffer = *chunk;
  llvm::SourceMgr sourceMgr;
  sourceMgr.AddNewSourceBuffer(std::move(chunk), SMLoc());
  MLIRContext context(MLIRContext::Threading::DISABLED);
  if (config.shouldVerifyDiagnostics()) {
    SourceMgrDiagnosticVerifierHandler verifier(
        sourceMgr, &context, config.verifyDiagnosticsLevel());
    (void)attn::checkSource(buffer, &context, allowBytecode);
    return verifier.verify();
  }
  SourceMgrDiagnosticHandler diagnostics(sourceMgr, &context);
  return attn::checkSource(buffer, &context, allowBytecode);
}

/// Runs mlir-opt on the chunks of `file` that its parser can read.
static LogicalResult run(raw_ostream &os,
                         std::unique_ptr<llvm::MemoryBuffer> file,
                         DialectRegistry &registry, bool allowBytecode) {
  const MlirOptMainConfig config = MlirOptMainConfig::createFromCLOptions();
  auto forEachChunk = [&](std::unique_ptr<llvm::MemoryBuffer> buffer,
                          NoSourceChunkBufferHandler process, raw_ostream &os) {
    return splitAndProcessBuffer(std::move(buffer), process, os,
                                 config.inputSplitMarker(),
                                 config.outputSplitMarker());
  };
  auto check = [&](std::unique_ptr<llvm::MemoryBuffer> chunk, raw_ostream &) {
    return success(isReadable(*chunk, allowBytecode));
  };
  if (succeeded(forEachChunk(llvm::MemoryBuffer::getMemBuffer(*file), check,
                             llvm::nulls())))
    return MlirOptMain(os, std::move(file), registry, config);

  MlirOptMainConfig unsplit = config;
  unsplit.splitInputFile("");
  auto process = [&](std::unique_ptr<llvm::MemoryBuffer> chunk,
                     raw_ostream &os) {
    if (isReadable(*chunk, allowBytecode))
      return MlirOptMain(os, std::move(chunk), registry, unsplit);
    return reportUnreadable(std::move(chunk), config, allowBytecode);
  };
  return forEachChunk(std::move(file), process, os);
}

#ifndef NDEBUG
/// Prints what passes of these names log.
static void enableLog(const cl::list<std::string> &passes) {
  if (passes.empty())
    return;
  SmallVector<const char *> types;
  for (const std::string &pass : passes)
    types.push_back(pass.c_str());
  llvm::DebugFlag = true;
  llvm::setCurrentDebugTypes(types.data(), types.size());
}
#endif

int main(int argc, char **argv) {
  DialectRegistry registry;
  attn::registerCompilerDialects(registry);
  mlir::registerAllPasses();
  attn::registerAllPasses();

  cl::opt<bool> allowBytecode(
      "allow-bytecode",
      cl::desc("Read bytecode, too. It must come from a source that is "
               "trusted: damaged bytecode ends the program"));
#ifndef NDEBUG
  // LLVM has this option only where it is built with assertions.
  std::optional<cl::list<std::string>> logged;
  if (!cl::getRegisteredOptions().count("debug-only"))
    logged.emplace("debug-only", cl::CommaSeparated,
                   cl::desc("Print what these passes log, by their names"));
#endif
  auto [inputFile, outputFile] = registerAndParseCLIOptions(
      argc, argv, "Attn optimizer driver\n", registry);
#ifndef NDEBUG
  if (logged)
    enableLog(*logged);
#endif
  const MlirOptMainConfig config = MlirOptMainConfig::createFromCLOptions();
  if (config.shouldShowDialects() || config.shouldListPasses())
    return asMainReturnCode(
        MlirOptMain(argc, argv, inputFile, outputFile, registry));

  llvm::InitLLVM init(argc, argv);
  if (inputFile == "-" &&
      llvm::sys::Process::FileDescriptorIsDisplayed(fileno(stdin)))
    llvm::errs() << "(processing input from stdin now, hit ctrl-c/ctrl-d to "
                    "interrupt)\n";
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> file = openInputFile(inputFile, &message);
  std::unique_ptr<llvm::ToolOutputFile> output;
  if (file)
    output = openOutputFile(outputFile, &message);
  if (!output) {
    llvm::errs() << message << '\n';
    return EXIT_FAILURE;
  }
  if (failed(run(output->os(), std::move(file), registry, allowBytecode)))
    return EXIT_FAILURE;
  output->keep();
  return EXIT_SUCCESS;
}
