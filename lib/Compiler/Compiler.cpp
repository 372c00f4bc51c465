//===- Compiler.cpp - Attn as a library -----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs the stages of a compilation and writes its output.
//
//===----------------------------------------------------------------------===//

#include "attn/Compiler/Compiler.h"
#include "HostDevice.h"
#include "attn/Compiler/Pipelines.h"
#include "attn/Conversion/AttnTileToVector/AttnTileToVector.h"
#include "attn/Conversion/Passes.h"
#include "attn/Dialect/Attn/IR/AttnCommOps.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Interfaces/Target.h"
#include "attn/Support/CheckSource.h"
#include "attn/Support/TemporaryFolder.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include <climits>
#include <unistd.h>

using namespace mlir;
using namespace mlir::attn;

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

static constexpr std::pair<StringLiteral, Stage> stages[] = {
    {"input", Stage::Input},       {"raise", Stage::Raise},
    {"schedule", Stage::Schedule}, {"bufferize", Stage::Bufferize},
    {"tile", Stage::Tile},         {"kernel", Stage::Kernel},
    {"device", Stage::Device},     {"host", Stage::Host}};

std::optional<Stage> attn::parseStage(StringRef name) {
  for (auto [stageName, stage] : stages)
    if (name == stageName)
      return stage;
  return std::nullopt;
}

std::optional<OutputKind> attn::parseOutputKind(StringRef name) {
  return llvm::StringSwitch<std::optional<OutputKind>>(name)
      .Case("mlir", OutputKind::MLIR)
      .Case("llvm", OutputKind::LLVMIR)
      .Case("ptx", OutputKind::PTX)
      .Case("cubin", OutputKind::Cubin)
      .Case("obj", OutputKind::Object)
      .Case("so", OutputKind::SharedLibrary)
      .Case("header", OutputKind::Header)
      .Default(std::nullopt);
}

std::optional<OutputKind> attn::getOutputKindForFile(StringRef file) {
  return llvm::StringSwitch<std::optional<OutputKind>>(
             llvm::sys::path::extension(file))
      .Case(".mlir", OutputKind::MLIR)
      .Case(".ll", OutputKind::LLVMIR)
      .Case(".ptx", OutputKind::PTX)
      .Case(".cubin", OutputKind::Cubin)
      .Case(".o", OutputKind::Object)
      .Case(".so", OutputKind::SharedLibrary)
      .Case(".h", OutputKind::Header)
      .Default(std::nullopt);
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

/// Gives every attention the schedule of the options.
static LogicalResult overrideSchedules(ModuleOp module, StringRef text) {
  if (failed(checkSource(llvm::MemoryBufferRef(text, "schedule"),
                         module.getContext())))
    return failure();
  Attribute schedule = parseAttribute(text, module.getContext());
  if (!isa_and_nonnull<ScheduleAttrInterface, ByQueryLengthAttr>(schedule))
    return module.emitError("'") << text << "' is not a schedule";
  module.walk([&](AttentionOp op) { op.setScheduleAttr(schedule); });
  return success();
}

static void buildStage(OpPassManager &pm, const CompilerOptions &options,
                       Stage stage) {
  TargetPipelineOptions target;
  target.target = options.target;
  target.database = options.database;
  target.calibration = options.calibration;
  target.dropout = options.dropout;
  target.maskBudget = options.maskBudget;
  target.dqWorkspaceBytes = options.dqWorkspaceBytes;
  target.explicitBlockMasks = options.explicitBlockMasks;
  switch (stage) {
  case Stage::Input:
    return;
  case Stage::Raise: {
    if (options.raise) {
      RaisingPipelineOptions raising;
      raising.assumeKeptRows = options.assumeKeptRows;
      raising.assumeDropoutMasks = options.assumeDropoutMasks;
      raising.target = options.target;
      buildRaisingPipeline(pm, raising);
    }
    if (options.ranks > 0) {
      AttnShardAttentionPassOptions shard;
      shard.method = options.shardMethod;
      shard.ranks = options.ranks;
      shard.ulyssesDegree = options.ulyssesDegree;
      shard.target = options.target;
      pm.addPass(createAttnShardAttentionPass(shard));
    }
    return;
  }
  case Stage::Schedule:
    return buildSchedulePipeline(pm, target);
  case Stage::Bufferize: {
    BufferizationPipelineOptions bufferization;
    bufferization.target = options.target;
    buildBufferizationPipeline(pm, bufferization);
    if (options.withReference)
      pm.addPass(createAttnMakeReferencePass());
    return;
  }
  case Stage::Tile:
    return buildTilingPipeline(pm, target);
  case Stage::Kernel:
    return buildKernelPipeline(pm, target);
  case Stage::Device: {
    if (!options.isGPU()) {
      HostVectors vectors = getHostVectors(options.host);
      HostLoweringOptions lowering;
      lowering.vectorBits = vectors.bits;
      lowering.numRegisters = vectors.registers;
      return buildHostKernelPipeline(pm, lowering);
    }
    NVVMPipelineOptions nvvm;
    bool toPTX =
        options.output == OutputKind::PTX || options.embedPTX.value_or(false);
    nvvm.target = options.target;
    nvvm.format = toPTX ? "ptx" : "cubin";
    nvvm.ptxVersion = options.ptxVersion;
    nvvm.toolkit = options.toolkit;
    nvvm.assemblerOptions = options.assemblerOptions;
    nvvm.failOnSpills = options.failOnSpills;
    nvvm.report = options.report;
    return buildNVVMPipeline(pm, nvvm);
  }
  case Stage::Host:
    return buildHostPipeline(pm, target);
  }
}

/// Calls `onProgress`, if there is one, as a step begins.
static void reportStep(const CompilerOptions &options, StringRef step) {
  if (options.onProgress)
    options.onProgress(step);
}

/// Checks that no function is one of a rank before the functions are
/// distributed, and that one is afterwards.
static LogicalResult verifyRanks(ModuleOp module, bool isDistributed) {
  WalkResult walk = module.walk([&](CommRankOp op) -> WalkResult {
    if (isDistributed)
      return WalkResult::interrupt();
    return op.emitOpError("is in a function of one of ")
           << op.getRanks()
           << " ranks, expected functions of the whole tensors to distribute "
              "over ranks";
  });
  if (isDistributed && !walk.wasInterrupted())
    return module.emitError(
        "no function has attention to distribute over ranks");
  return success(isDistributed || !walk.wasInterrupted());
}

/// Runs the passes of a stage.
static LogicalResult runPasses(ModuleOp module, const CompilerOptions &options,
                               Stage stage) {
  PassManager pm(module.getContext(), ModuleOp::getOperationName());
  if (options.configure && failed(options.configure(pm)))
    return failure();
  pm.enableVerifier(options.verifyEach);
  buildStage(pm, options, stage);
  if (pm.empty())
    return success();
  // Verifying what each pass leaves takes a tenth of compile time.
  return success(succeeded(pm.run(module)) &&
                 (options.verifyEach || succeeded(mlir::verify(module))));
}

LogicalResult attn::runStages(ModuleOp module, const CompilerOptions &options,
                              Stage last) {
  if (failed(lookupTarget(module, options.target)))
    return failure();
  for (auto [name, stage] : stages) {
    if (stage > last)
      break;
    reportStep(options, name);
    // Later stages use the cost model.
    if (stage == Stage::Schedule && !options.isGPU())
      describeHost(module, options.host);
    if (stage == Stage::Schedule && !options.schedule.empty() &&
        failed(overrideSchedules(module, options.schedule)))
      return failure();
    bool isDistributing = options.ranks > 0 && stage == Stage::Raise;
    if (isDistributing && failed(verifyRanks(module, /*isDistributed=*/false)))
      return failure();
    if (failed(runPasses(module, options, stage)) ||
        (isDistributing && failed(verifyRanks(module, /*isDistributed=*/true))))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Output
//===----------------------------------------------------------------------===//

static Stage getLastStage(const CompilerOptions &options) {
  if (options.stopAfter)
    return *options.stopAfter;
  switch (options.output) {
  case OutputKind::PTX:
  case OutputKind::Cubin:
    return Stage::Device;
  case OutputKind::Header:
    return Stage::Bufferize;
  case OutputKind::MLIR:
  case OutputKind::LLVMIR:
  case OutputKind::Object:
  case OutputKind::SharedLibrary:
    return Stage::Host;
  }
  llvm_unreachable("unknown output");
}

/// Writes the code of the one kernel binary of `module`.
static LogicalResult writeDeviceCode(ModuleOp module, raw_ostream &os) {
  auto binaries = module.getOps<gpu::BinaryOp>();
  auto count = std::distance(binaries.begin(), binaries.end());
  if (count != 1)
    return module.emitError("PTX and cubin files hold one kernel, and the "
                            "module has ")
           << count << "; write an object file or a shared library instead";
  auto object = cast<gpu::ObjectAttr>((*binaries.begin()).getObjects()[0]);
  os << object.getObject().getValue();
  return success();
}

/// Compiles `module` to at most `maxObjects` objects.
static FailureOr<SmallVector<SmallString<0>>>
compileObjects(ModuleOp module, const CompilerOptions &options,
               unsigned maxObjects) {
  return emitObjects(module, options.host, maxObjects,
                     [&](StringRef step) { reportStep(options, step); });
}

/// Writes the LLVM IR of `module`.
static LogicalResult
writeLLVMIR(ModuleOp module, const CompilerOptions &options, raw_ostream &os) {
  reportStep(options, "llvm");
  std::unique_ptr<llvm::TargetMachine> machine =
      createHostTargetMachine(module.getLoc(), options.host);
  if (!machine)
    return failure();
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> llvmModule =
      translateForHost(module, context, *machine, options.host);
  if (!llvmModule)
    return failure();
  llvmModule->print(os, nullptr);
  return success();
}

/// Writes one object file, for any linker.
static LogicalResult
writeObject(ModuleOp module, const CompilerOptions &options, raw_ostream &os) {
  FailureOr<SmallVector<SmallString<0>>> objects =
      compileObjects(module, options, /*maxObjects=*/1);
  if (failed(objects))
    return failure();
  os << objects->front();
  return success();
}

/// Writes everything but shared libraries.
static LogicalResult
writeOutput(ModuleOp module, const CompilerOptions &options, raw_ostream &os) {
  switch (options.output) {
  case OutputKind::MLIR:
    module.print(os);
    os << '\n';
    return success();
  case OutputKind::PTX:
  case OutputKind::Cubin:
    return writeDeviceCode(module, os);
  case OutputKind::Header:
    writeHeader(module, options.target, options.withReference, os);
    return success();
  case OutputKind::LLVMIR:
    return writeLLVMIR(module, options, os);
  case OutputKind::Object:
    return writeObject(module, options, os);
  case OutputKind::SharedLibrary:
    break;
  }
  llvm_unreachable("linkers write shared libraries");
}

LogicalResult attn::compileToBuffer(ModuleOp module,
                                    const CompilerOptions &options,
                                    SmallVectorImpl<char> &buffer) {
  if (options.output != OutputKind::SharedLibrary) {
    llvm::raw_svector_ostream stream(buffer);
    return failed(runStages(module, options, getLastStage(options)))
               ? failure()
               : writeOutput(module, options, stream);
  }
  // Linkers write files.
  Location loc = module.getLoc();
  TemporaryPath file = createTemporaryFile("so");
  if (!file)
    return emitError(loc) << file.error;
  llvm::scope_exit remove([&] { (void)llvm::sys::fs::remove(file.path); });
  if (failed(compileToFile(module, options, file.path)))
    return failure();
  auto contents = llvm::MemoryBuffer::getFile(file.path);
  if (!contents)
    return emitError(loc) << "could not read '" << file.path
                          << "': " << contents.getError().message();
  llvm::append_range(buffer, (*contents)->getBuffer());
  return success();
}

/// Writes `contents` to `path`, or to the standard output if that is "-".
static LogicalResult writeContents(Location loc, StringRef contents,
                                   StringRef path) {
  std::error_code error;
  llvm::raw_fd_ostream os(path, error);
  if (!error) {
    os << contents;
    os.flush();
    error = os.error();
    os.clear_error();
  }
  if (error)
    return emitError(loc) << "could not write '" << path
                          << "': " << error.message();
  return success();
}

/// Writes the output to `path`, or to the standard output if that is "-".
static LogicalResult writeFile(ModuleOp module, const CompilerOptions &options,
                               StringRef path) {
  SmallString<0> buffer;
  llvm::raw_svector_ostream stream(buffer);
  if (failed(writeOutput(module, options, stream)))
    return failure();
  return writeContents(module.getLoc(), buffer, path);
}

/// Sets `target` to the file that `path` leads to through symbolic links. The
/// file need not exist.
static std::error_code followLinks(StringRef path, SmallString<128> &target) {
  // As many as Linux follows.
  constexpr unsigned maxLinks = 40;
  target = path;
  for (unsigned i = 0; llvm::sys::fs::is_symlink_file(target); ++i) {
    char link[PATH_MAX];
    ssize_t length = readlink(target.c_str(), link, sizeof(link));
    if (length < 0)
      return std::error_code(errno, std::generic_category());
    if (i == maxLinks || length == sizeof(link))
      return std::make_error_code(std::errc::too_many_symbolic_link_levels);
    StringRef next(link, length);
    if (llvm::sys::path::is_absolute(next))
      target.clear();
    else
      llvm::sys::path::remove_filename(target);
    llvm::sys::path::append(target, next);
  }
  return std::error_code();
}

/// Creates an empty file next to `target`, and sets `output` to its path.
static std::error_code createOutput(StringRef target,
                                    const CompilerOptions &options,
                                    std::string &output) {
  SmallString<128> file;
  int descriptor;
  if (std::error_code error = llvm::sys::fs::createUniqueFile(
          target + ".%%%%%%", descriptor, file, llvm::sys::fs::OF_None,
          llvm::sys::fs::all_read | llvm::sys::fs::owner_write))
    return error;
  llvm::raw_fd_ostream(descriptor, /*shouldClose=*/true).flush();
  output = file.str().str();
  if (options.removeOnSignals)
    llvm::sys::RemoveFileOnSignal(output);
  return std::error_code();
}

/// Writes the shared library of a compiled module.
static LogicalResult writeSharedLibrary(ModuleOp module,
                                        const CompilerOptions &options,
                                        StringRef path) {
  Location loc = module.getLoc();
  constexpr unsigned maxObjects = 64;
  FailureOr<SmallVector<SmallString<0>>> objects =
      compileObjects(module, options, maxObjects);
  if (failed(objects))
    return failure();
  SmallVector<std::string> files;
  llvm::scope_exit removeFiles([&] {
    for (const std::string &file : files)
      (void)llvm::sys::fs::remove(file);
  });
  for (StringRef object : *objects) {
    TemporaryPath file = createTemporaryFile("o");
    if (!file)
      return emitError(loc) << file.error;
    files.push_back(file.path);
    if (failed(writeContents(loc, object, file.path)))
      return failure();
  }
  reportStep(options, "link");
  return linkSharedLibrary(loc, files, path.str(), options.link);
}

LogicalResult attn::compileToFile(ModuleOp module,
                                  const CompilerOptions &options,
                                  StringRef path) {
  Location loc = module.getLoc();
  auto failToWrite = [&](std::error_code error) {
    return emitError(loc) << "could not write '" << path
                          << "': " << error.message();
  };
  // Devices and pipes are written in place: nothing can be renamed to them.
  bool isInPlace = path == "-" || (llvm::sys::fs::exists(path) &&
                                   !llvm::sys::fs::is_regular_file(path));
  bool isLibrary = options.output == OutputKind::SharedLibrary;
  if (isInPlace && isLibrary)
    return emitError(loc, "a shared library must be written to a regular file");
  // Make sure that the result can be written before taking time to compute it.
  // Links stay: the file behind them is replaced.
  SmallString<128> target(path);
  std::string output = path.str();
  llvm::scope_exit removeOutput([&] {
    if (isInPlace || output == path)
      return;
    (void)llvm::sys::fs::remove(output);
    if (options.removeOnSignals)
      llvm::sys::DontRemoveFileOnSignal(output);
  });
  if (!isInPlace) {
    if (std::error_code error = followLinks(path, target))
      return failToWrite(error);
    if (std::error_code error = createOutput(target, options, output))
      return failToWrite(error);
  }

  if (failed(runStages(module, options, getLastStage(options))) ||
      failed(isLibrary ? writeSharedLibrary(module, options, output)
                       : writeFile(module, options, output)))
    return failure();
  if (isInPlace)
    return success();
  if (std::error_code error = llvm::sys::fs::rename(output, target))
    return failToWrite(error);
  return success();
}
