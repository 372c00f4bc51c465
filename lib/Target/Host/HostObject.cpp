//===- HostObject.cpp - Object code for the host --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From a module of the LLVM dialect to object files and shared libraries.
//
//===----------------------------------------------------------------------===//

#include "attn/Target/HostObject.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/SubtargetFeature.h"

using namespace mlir;

/// Returns null, and sets `message`, if LLVM does not support the host.
static std::unique_ptr<llvm::TargetMachine>
createMachine(const attn::HostObjectOptions &options, std::string &message) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  llvm::Triple triple(llvm::sys::getDefaultTargetTriple());
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, message);
  if (!target)
    return nullptr;
  std::string cpu = options.cpu;
  llvm::SubtargetFeatures features;
  if (cpu.empty() || cpu == "native") {
    cpu = llvm::sys::getHostCPUName().str();
    for (const auto &feature : llvm::sys::getHostCPUFeatures())
      features.AddFeature(feature.first(), feature.second);
  }
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget(
      target->createMCSubtargetInfo(triple, "", ""));
  if (!subtarget || !subtarget->isCPUStringValid(cpu)) {
    message = "unknown host processor '" + cpu + "'";
    return nullptr;
  }
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      triple, cpu, features.getString(), llvm::TargetOptions(),
      llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Aggressive));
  if (!machine)
    message = "LLVM cannot compile for this host";
  return machine;
}

std::unique_ptr<llvm::TargetMachine>
attn::createHostTargetMachine(Location loc, const HostObjectOptions &options) {
  std::string message;
  std::unique_ptr<llvm::TargetMachine> machine =
      createMachine(options, message);
  if (!machine)
    emitError(loc) << message;
  return machine;
}

attn::HostVectors attn::getHostVectors(const HostObjectOptions &options) {
  std::string message;
  std::unique_ptr<llvm::TargetMachine> machine =
      createMachine(options, message);
  if (!machine)
    return {128, 16};
  if (machine->getTargetTriple().isAArch64())
    return {128, 32};
  if (!machine->getTargetTriple().isX86())
    return {128, 16};
  const llvm::MCSubtargetInfo *subtarget = machine->getMCSubtargetInfo();
  if (subtarget->checkFeatures("+avx512f"))
    return {512, 32};
  if (subtarget->checkFeatures("+avx2"))
    return {256, 16};
  return {128, 16};
}

std::unique_ptr<llvm::Module>
attn::translateForHost(ModuleOp module, llvm::LLVMContext &context,
                       llvm::TargetMachine &machine,
                       const HostObjectOptions &options) {
  std::unique_ptr<llvm::Module> llvmModule =
      translateModuleToLLVMIR(module, context, "attn");
  if (!llvmModule) {
    module.emitError("could not be translated to LLVM IR");
    return nullptr;
  }
  llvmModule->setTargetTriple(machine.getTargetTriple());
  llvmModule->setDataLayout(machine.createDataLayout());
  llvmModule->setPICLevel(llvm::PICLevel::BigPIC);
  // Without these the vectorizers assume the smallest processor.
  for (llvm::Function &function : *llvmModule) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", machine.getTargetCPU());
    function.addFnAttr("target-features", machine.getTargetFeatureString());
    function.addFnAttr("frame-pointer", "none");
  }

  llvm::LoopAnalysisManager loopAnalyses;
  llvm::FunctionAnalysisManager functionAnalyses;
  llvm::CGSCCAnalysisManager sccAnalyses;
  llvm::ModuleAnalysisManager moduleAnalyses;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(moduleAnalyses);
  builder.registerCGSCCAnalyses(sccAnalyses);
  builder.registerFunctionAnalyses(functionAnalyses);
  builder.registerLoopAnalyses(loopAnalyses);
  builder.crossRegisterProxies(loopAnalyses, functionAnalyses, sccAnalyses,
                               moduleAnalyses);
  const llvm::OptimizationLevel levels[] = {
      llvm::OptimizationLevel::O0, llvm::OptimizationLevel::O1,
      llvm::OptimizationLevel::O2, llvm::OptimizationLevel::O3};
  llvm::OptimizationLevel level = levels[std::min(options.optLevel, 3u)];
  llvm::ModulePassManager passes =
      options.optLevel == 0 ? builder.buildO0DefaultPipeline(level)
                            : builder.buildPerModuleDefaultPipeline(level);
  passes.run(*llvmModule, moduleAnalyses);
  return llvmModule;
}

LogicalResult attn::emitObject(Location loc, llvm::Module &llvmModule,
                               llvm::TargetMachine &machine,
                               llvm::raw_pwrite_stream &stream) {
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr,
                                  llvm::CodeGenFileType::ObjectFile))
    return emitError(loc, "LLVM cannot write object files for this host");
  passes.run(llvmModule);
  return success();
}

LogicalResult attn::linkSharedLibrary(Location loc, StringRef object,
                                      StringRef library,
                                      const LinkOptions &options) {
  llvm::ErrorOr<std::string> linker =
      llvm::sys::findProgramByName(options.linker);
  if (!linker)
    return emitError(loc) << "needs a linker: '" << options.linker
                          << "' was not found in the path";
  llvm::SmallString<128> runtime(options.runtimeDir);
  llvm::sys::path::append(runtime, options.staticRuntime
                                       ? "libattn_runtime.a"
                                       : "libattn_runtime.so");
  if (!llvm::sys::fs::exists(runtime))
    return emitError(loc) << "runtime library '" << runtime
                          << "' does not exist";

  std::string searchPath =
      ("-Wl,-rpath,$ORIGIN:" + Twine(options.runtimeDir)).str();
  SmallVector<StringRef> arguments{*linker, "-shared", "-o", library, object};
  if (options.staticRuntime)
    arguments.append({runtime, "-lstdc++", "-lpthread", "-ldl", "-lm"});
  else
    arguments.append({runtime, searchPath, "-lm"});

  llvm::SmallString<128> log;
  if (std::error_code error =
          llvm::sys::fs::createTemporaryFile("attn", "log", log))
    return emitError(loc) << "could not create a temporary file: "
                          << error.message();
  std::optional<StringRef> redirects[] = {StringRef(), StringRef(log),
                                          StringRef(log)};
  std::string message;
  int status = llvm::sys::ExecuteAndWait(*linker, arguments, std::nullopt,
                                         redirects, /*SecondsToWait=*/0,
                                         /*MemoryLimit=*/0, &message);
  if (status != 0 && message.empty())
    if (auto buffer = llvm::MemoryBuffer::getFile(log))
      message = (*buffer)->getBuffer().trim().str();
  if (message.empty())
    message = "exit code " + std::to_string(status);
  (void)llvm::sys::fs::remove(log);
  if (status != 0)
    return emitError(loc) << "'" << *linker << "' failed: " << message;
  return success();
}
