//===- HostCode.cpp - Modules compiled in this process --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All stages of the compiler, LLVM's back end, and a linker in memory.
//
//===----------------------------------------------------------------------===//

#include "HostCode.h"
#include "attn/Autodiff/Passes.h"
#include "attn/Compiler/Compiler.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ExecutionEngine/Orc/ExecutionUtils.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace mlir::attn::fuzz;

/// The object code of `module`; null, after an error, if there is none.
static std::unique_ptr<llvm::MemoryBuffer> compileToObject(ModuleOp module,
                                                           unsigned optLevel) {
  // Gradients need the derivative of their `score_mod`.
  PassManager pm(module.getContext());
  pm.addPass(attn::createAttnDeriveScoreGradPass());
  if (failed(pm.run(module)))
    return nullptr;
  attn::CompilerOptions options;
  options.target = "host";
  options.host.optLevel = optLevel;
  if (failed(attn::runStages(module, options, attn::Stage::Host)))
    return nullptr;
  std::unique_ptr<llvm::TargetMachine> machine =
      attn::createHostTargetMachine(module.getLoc(), options.host);
  if (!machine)
    return nullptr;
  if (optLevel == 0)
    machine->setOptLevel(llvm::CodeGenOptLevel::None);
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> llvmModule =
      attn::translateForHost(module, context, *machine, options.host);
  if (!llvmModule)
    return nullptr;
  SmallVector<char, 0> object;
  llvm::raw_svector_ostream os(object);
  if (failed(attn::emitObject(module.getLoc(), *llvmModule, *machine, os)))
    return nullptr;
  return llvm::MemoryBuffer::getMemBufferCopy(
      StringRef(object.data(), object.size()), "object");
}

/// The linker. It is never destroyed: its sessions must not end before it.
static llvm::orc::LLJIT &getJIT() {
  static llvm::orc::LLJIT *jit =
      llvm::cantFail(llvm::orc::LLJITBuilder().create()).release();
  return *jit;
}

std::unique_ptr<HostCode> HostCode::compile(ModuleOp module,
                                            RandomChoices &random) {
  // Without optimization, code takes half the time to compile. Some defects of
  // the code show only where it is optimized.
  unsigned optLevel = random.onceIn(3) ? 3 : 0;
  std::unique_ptr<llvm::MemoryBuffer> object =
      compileToObject(module, optLevel);
  if (!object)
    return nullptr;
  static unsigned count = 0;
  llvm::orc::LLJIT &jit = getJIT();
  llvm::orc::JITDylib &library = llvm::cantFail(
      jit.getExecutionSession().createJITDylib("f" + std::to_string(count++)));
  library.addGenerator(llvm::cantFail(
      llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(
          jit.getDataLayout().getGlobalPrefix())));
  llvm::cantFail(jit.addObjectFile(library, std::move(object)));
  auto address = llvm::cantFail(jit.lookup(library, ATTN_ARTIFACT_SYMBOL));
  const auto *artifact = address.toPtr<const attn_artifact *>();
  return std::unique_ptr<HostCode>(
      new HostCode(jit, library, &artifact->functions[0]));
}

HostCode::~HostCode() {
  llvm::cantFail(jit.getExecutionSession().removeJITDylib(library));
}
