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
#include "attn/Support/TemporaryFolder.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/Threading.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/CRC.h"
#include "llvm/Support/EndianStream.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/SubtargetFeature.h"
#include "llvm/Transforms/Utils/SplitModule.h"
#include <unistd.h>

#include <dlfcn.h>

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

/// Instructions of a basic block, and loops within loops, beyond which LLVM
/// optimizes little or nothing: schedulers and analyses of loops take time that
/// grows with their square or cube.
static constexpr size_t maxInstructions = 12'000;
static constexpr unsigned maxLoopDepth = 64;

static bool hasLongBlock(const llvm::Function &function) {
  return llvm::any_of(function, [](const llvm::BasicBlock &block) {
    return block.size() > maxInstructions;
  });
}

static bool hasDeepLoop(llvm::Function &function) {
  if (function.isDeclaration())
    return false;
  llvm::DominatorTree dominators(function);
  llvm::LoopInfo loops(dominators);
  return llvm::any_of(function, [&](const llvm::BasicBlock &block) {
    return loops.getLoopDepth(&block) > maxLoopDepth;
  });
}

namespace {
/// How much code is optimized.
struct OptimizationLevel {
  /// 0 to 3, as in `HostObjectOptions`.
  unsigned passes;
  /// Whether that is less than was asked for. Code generation does not optimize
  /// then.
  bool isLimited;
};
} // namespace

/// The level of optimization that takes time in proportion to the code; a
/// remark says why it is not the one of `options`.
static OptimizationLevel chooseLevel(Location loc, llvm::Module &module,
                                     const attn::HostObjectOptions &options) {
  unsigned wanted = std::min(options.optLevel, 3u);
  auto limit = [&](unsigned limited, const Twine &why) {
    if (wanted > limited)
      remark::missed(
          loc, remark::RemarkOpts::name("host-opt-level").category("attn-host"))
          << ("host code is compiled with level " + Twine(limited) + ": " + why)
                 .str();
    return OptimizationLevel{std::min(wanted, limited), wanted > limited};
  };
  if (llvm::any_of(module, hasDeepLoop))
    return limit(0,
                 "loops are nested more than " + Twine(maxLoopDepth) + " deep");
  if (llvm::any_of(module, hasLongBlock))
    return limit(1, "a block has more than " + Twine(maxInstructions) +
                        " instructions");
  return {wanted, false};
}

/// The passes of level 1. Kernels are vectors already, and MLIR has simplified
/// them; other loops, such as loops of linalg, need both vectorizers. LLVM's
/// own pipelines take twice as long (docs/experiments/host-compile-time.md).
static constexpr StringLiteral levelOnePasses =
    "function("
    "sroa,early-cse<memssa>,simplifycfg,instcombine<no-verify-fixpoint>,"
    "loop-mssa(licm,loop-rotate,licm,simple-loop-unswitch),"
    "simplifycfg,instcombine<no-verify-fixpoint>,"
    "loop(loop-idiom,indvars,loop-deletion),gvn,"
    "loop-vectorize,instcombine<no-verify-fixpoint>,simplifycfg,"
    "slp-vectorizer,vector-combine,instcombine<no-verify-fixpoint>,"
    "loop-mssa(licm),instsimplify,simplifycfg,early-cse<memssa>)";

/// Adds the passes of a level, 0 to 3.
static void addPasses(llvm::PassBuilder &builder, unsigned optLevel,
                      llvm::ModulePassManager &passes) {
  switch (optLevel) {
  case 0:
    passes = builder.buildO0DefaultPipeline(llvm::OptimizationLevel::O0);
    return;
  case 1:
    llvm::cantFail(builder.parsePassPipeline(passes, levelOnePasses));
    return;
  default:
    passes = builder.buildPerModuleDefaultPipeline(
        optLevel == 2 ? llvm::OptimizationLevel::O2
                      : llvm::OptimizationLevel::O3);
  }
}

/// Runs the passes of a level on a module, and sets what `machine` optimizes.
static void optimize(llvm::Module &module, llvm::TargetMachine &machine,
                     OptimizationLevel level) {
  if (level.isLimited)
    machine.setOptLevel(llvm::CodeGenOptLevel::None);
  llvm::LoopAnalysisManager loopAnalyses;
  llvm::FunctionAnalysisManager functionAnalyses;
  llvm::CGSCCAnalysisManager sccAnalyses;
  llvm::ModuleAnalysisManager moduleAnalyses;
  // Kernels are unrolled already, by tiles and vectors: their loops are long.
  // Unrolling them once more takes a third of the time of all passes.
  llvm::PipelineTuningOptions tuning;
  tuning.LoopUnrolling = false;
  llvm::PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(moduleAnalyses);
  builder.registerCGSCCAnalyses(sccAnalyses);
  builder.registerFunctionAnalyses(functionAnalyses);
  builder.registerLoopAnalyses(loopAnalyses);
  builder.crossRegisterProxies(loopAnalyses, functionAnalyses, sccAnalyses,
                               moduleAnalyses);
  llvm::ModulePassManager passes;
  addPasses(builder, level.passes, passes);
  passes.run(module, moduleAnalyses);
}

/// Translates a module, and prepares it for a machine.
static std::unique_ptr<llvm::Module> translate(ModuleOp module,
                                               llvm::LLVMContext &context,
                                               llvm::TargetMachine &machine) {
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
  return llvmModule;
}

std::unique_ptr<llvm::Module>
attn::translateForHost(ModuleOp module, llvm::LLVMContext &context,
                       llvm::TargetMachine &machine,
                       const HostObjectOptions &options) {
  std::unique_ptr<llvm::Module> llvmModule =
      translate(module, context, machine);
  if (!llvmModule)
    return nullptr;
  optimize(*llvmModule, machine,
           chooseLevel(module.getLoc(), *llvmModule, options));
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

/// Functions in a part of a module, about.
static constexpr size_t functionsPerPart = 8;

/// Splits a module into the bitcode of its parts. Local symbols become hidden
/// ones, with names that no library has.
static SmallVector<SmallString<0>> split(llvm::Module &module, unsigned parts) {
  for (llvm::GlobalValue &value : module.global_values())
    if (value.hasLocalLinkage())
      value.setName("attn.local." + value.getName());
  SmallVector<SmallString<0>> bitcode;
  llvm::SplitModule(module, parts, [&](std::unique_ptr<llvm::Module> part) {
    llvm::raw_svector_ostream os(bitcode.emplace_back());
    llvm::WriteBitcodeToFile(*part, os);
  });
  return bitcode;
}

/// Compiles the bitcode of a part to object code, in a context of its own.
static LogicalResult compilePart(Location loc, StringRef bitcode,
                                 const attn::HostObjectOptions &options,
                                 OptimizationLevel level,
                                 SmallVectorImpl<char> &object) {
  std::unique_ptr<llvm::TargetMachine> machine =
      attn::createHostTargetMachine(loc, options);
  if (!machine)
    return failure();
  llvm::LLVMContext context;
  llvm::Expected<std::unique_ptr<llvm::Module>> part =
      llvm::parseBitcodeFile({bitcode, "attn"}, context);
  if (!part)
    return emitError(loc) << "could not read a part of the module: "
                          << llvm::toString(part.takeError());
  optimize(**part, *machine, level);
  llvm::raw_svector_ostream os(object);
  return attn::emitObject(loc, **part, *machine, os);
}

FailureOr<SmallVector<SmallString<0>>>
attn::emitObjects(ModuleOp module, const HostObjectOptions &options,
                  unsigned maxObjects,
                  llvm::function_ref<void(StringRef)> onProgress) {
  Location loc = module.getLoc();
  onProgress("llvm");
  std::unique_ptr<llvm::TargetMachine> machine =
      createHostTargetMachine(loc, options);
  if (!machine)
    return failure();
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> llvmModule =
      translate(module, context, *machine);
  if (!llvmModule)
    return failure();
  OptimizationLevel level = chooseLevel(loc, *llvmModule, options);

  size_t functions = llvm::count_if(*llvmModule, [](const auto &function) {
    return !function.isDeclaration() && !function.hasLocalLinkage();
  });
  unsigned parts = std::min<size_t>(functions / functionsPerPart, maxObjects);
  if (parts <= 1) {
    optimize(*llvmModule, *machine, level);
    onProgress("object");
    SmallVector<SmallString<0>> objects(1);
    llvm::raw_svector_ostream os(objects.front());
    if (failed(emitObject(loc, *llvmModule, *machine, os)))
      return failure();
    return objects;
  }
  SmallVector<SmallString<0>> bitcode = split(*llvmModule, parts);
  llvmModule.reset();
  onProgress("object");
  SmallVector<SmallString<0>> objects(bitcode.size());
  if (failed(failableParallelForEachN(
          module.getContext(), 0, bitcode.size(), [&](size_t part) {
            return compilePart(loc, bitcode[part], options, level,
                               objects[part]);
          })))
    return failure();
  return objects;
}

/// Writes `contents`, and the CRC-32 of it.
static void writeWithChecksum(StringRef contents, raw_ostream &os) {
  llvm::support::endian::Writer writer(os, llvm::endianness::little);
  os << contents << "ATTN-CRC";
  writer.write<uint32_t>(llvm::crc32(llvm::arrayRefFromStringRef(contents)));
  writer.write<uint32_t>(0);
}

/// Lets all users that may read a file execute it.
static std::error_code makeExecutable(StringRef path) {
  llvm::ErrorOr<llvm::sys::fs::perms> permissions =
      llvm::sys::fs::getPermissions(path);
  if (!permissions)
    return permissions.getError();
  auto readers = *permissions & llvm::sys::fs::all_read;
  return llvm::sys::fs::setPermissions(
      path, *permissions | static_cast<llvm::sys::fs::perms>(readers >> 2));
}

/// Copies a library, and appends a CRC-32 of its contents, which loaders check.
/// ELF files end where their headers say, whatever follows. The readers are
/// `lib/Runtime/Support/LibraryFile.cpp` and `python/attn/artifact.py`.
static LogicalResult copyWithChecksum(Location loc, StringRef linked,
                                      StringRef library) {
  auto fail = [&](StringRef verb, StringRef path, std::error_code error) {
    return emitError(loc) << "could not " << verb << " '" << path
                          << "': " << error.message();
  };
  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> contents =
      llvm::MemoryBuffer::getFile(linked, /*IsText=*/false,
                                  /*RequiresNullTerminator=*/false);
  if (!contents)
    return fail("read", linked, contents.getError());
  std::error_code error;
  llvm::raw_fd_ostream os(library, error);
  if (!error) {
    writeWithChecksum((*contents)->getBuffer(), os);
    os.close();
    error = os.error();
    os.clear_error();
  }
  if (!error)
    error = makeExecutable(library);
  if (error)
    return fail("write", library, error);
  return success();
}

/// `path`, so that a linker does not take it for an option or a list of these.
static std::string getLinkerPath(StringRef path) {
  return (path.starts_with("-") || path.starts_with("@") ? "./" + path : path)
      .str();
}

/// Checks that the dynamic linker can look into the folder of the runtime.
static LogicalResult verifySearchPath(Location loc, StringRef folder) {
  for (StringRef part : {":", "$ORIGIN", "${ORIGIN}", "$LIB", "${LIB}",
                         "$PLATFORM", "${PLATFORM}"})
    if (folder.contains(part))
      return emitError(loc)
             << "the folder of the runtime must not contain '" << part
             << "', which the dynamic linker replaces or splits paths at (was '"
             << folder << "')";
  return success();
}

/// Whether a program is a linker, and not a compiler driver that calls one.
static bool isBareLinker(StringRef program) {
  StringRef name = llvm::sys::path::filename(program);
  return name == "ld" || name.starts_with("ld.");
}

/// The program to link with: the one of the options, or the first that exists
/// of the linker next to the runtime, as in wheels, a compiler driver, and
/// linkers.
static FailureOr<std::string> findLinker(Location loc,
                                         const attn::LinkOptions &options) {
  if (!options.linker.empty()) {
    if (llvm::ErrorOr<std::string> linker =
            llvm::sys::findProgramByName(options.linker))
      return *linker;
    return emitError(loc) << "needs a linker: '" << options.linker
                          << "' was not found in the path";
  }
  if (!options.staticRuntime) {
    llvm::SmallString<128> bundled(options.runtimeDir);
    llvm::sys::path::append(bundled, "..", "bin", "ld.lld");
    if (llvm::sys::fs::can_execute(bundled))
      return bundled.str().str();
  }
  for (StringRef name : {"cc", "ld.lld", "ld"})
    if (!options.staticRuntime || !isBareLinker(name))
      if (llvm::ErrorOr<std::string> linker =
              llvm::sys::findProgramByName(name))
        return *linker;
  return emitError(loc) << "needs a linker: "
                        << (options.staticRuntime
                                ? "'cc' was not found in the path"
                                : "none of 'cc', 'ld.lld' and 'ld' was found "
                                  "in the path");
}

/// The libraries of C that this process has loaded: object code may call
/// functions of them. A compiler driver adds the same ones.
static SmallVector<std::string> getSystemLibraries() {
  SmallVector<std::string> libraries;
  // A function of libm, of libgcc_s and of libc that nobody interposes.
  for (const char *function :
       {"fesetround", "_Unwind_Resume", "gnu_get_libc_version"}) {
    Dl_info info;
    void *address = dlsym(RTLD_DEFAULT, function);
    if (!address || !dladdr(address, &info) || !info.dli_fname)
      continue;
    std::string file = info.dli_fname;
    if (StringRef(file).contains(".so") && llvm::sys::fs::exists(file) &&
        !llvm::is_contained(libraries, file))
      libraries.push_back(file);
  }
  return libraries;
}

/// The library of the runtime, if `linker` can link it.
static FailureOr<std::string> findRuntime(Location loc, StringRef linker,
                                          const attn::LinkOptions &options) {
  if (isBareLinker(linker) && options.staticRuntime)
    return emitError(loc) << "linking the runtime into an artifact needs a "
                             "compiler driver as linker, such as 'cc' (was '"
                          << linker << "')";
  llvm::SmallString<128> runtime(options.runtimeDir);
  llvm::sys::path::append(runtime, options.staticRuntime
                                       ? "libattn_runtime.a"
                                       : "libattn_runtime.so");
  if (!llvm::sys::fs::exists(runtime))
    return emitError(loc) << "runtime library '" << runtime
                          << "' does not exist";
  if (!options.staticRuntime &&
      failed(verifySearchPath(loc, options.runtimeDir)))
    return failure();
  return runtime.str().str();
}

/// The options of `linker` behind its files.
static SmallVector<std::string>
getLinkerOptions(StringRef linker, const attn::LinkOptions &options) {
  std::string searchPath = "$ORIGIN:" + options.runtimeDir;
  if (isBareLinker(linker)) {
    SmallVector<std::string> words = {
        "-rpath", searchPath, "--eh-frame-hdr", "--hash-style=gnu",
        "-z",     "defs",     "--as-needed"};
    llvm::append_range(words, getSystemLibraries());
    return words;
  }
  if (options.staticRuntime)
    return {"-lstdc++", "-lpthread", "-ldl", "-lm"};
  // Options that begin with -Wl are split at commas.
  return {"-Xlinker", "-rpath", "-Xlinker", searchPath, "-lm"};
}

/// Runs a linker, which writes its messages to the file `log`.
static LogicalResult runLinker(Location loc, ArrayRef<std::string> command,
                               StringRef log) {
  SmallVector<StringRef> arguments(command.begin(), command.end());
  std::optional<StringRef> redirects[] = {StringRef(), log, log};
  // The linker's own temporary files are removed with ours.
  std::string temporaries = "TMPDIR=" + attn::getTemporaryFolder().path;
  SmallVector<StringRef> environment{temporaries};
  for (char **variable = environ; *variable; ++variable)
    if (!StringRef(*variable).starts_with("TMPDIR="))
      environment.push_back(*variable);
  std::string message;
  int status = llvm::sys::ExecuteAndWait(command.front(), arguments,
                                         ArrayRef<StringRef>(environment),
                                         redirects, /*SecondsToWait=*/0,
                                         /*MemoryLimit=*/0, &message);
  if (status == 0)
    return success();
  if (message.empty())
    if (auto buffer = llvm::MemoryBuffer::getFile(log))
      message = (*buffer)->getBuffer().trim().str();
  if (message.empty())
    message = "exit code " + std::to_string(status);
  return emitError(loc) << "'" << command.front() << "' failed: " << message;
}

LogicalResult attn::linkSharedLibrary(Location loc,
                                      ArrayRef<std::string> objects,
                                      StringRef library,
                                      const LinkOptions &options) {
  FailureOr<std::string> linker = findLinker(loc, options);
  if (failed(linker))
    return failure();
  FailureOr<std::string> runtime = findRuntime(loc, *linker, options);
  if (failed(runtime))
    return failure();
  // A linker may outlive this process, if a signal ends it. It then finds no
  // folder to write to any more.
  TemporaryPath linked = createTemporaryFile("so");
  TemporaryPath logFile = createTemporaryFile("log");
  if (!linked || !logFile)
    return emitError(loc) << (linked ? logFile : linked).error;
  llvm::scope_exit removeFiles([&] {
    (void)llvm::sys::fs::remove(linked.path);
    (void)llvm::sys::fs::remove(logFile.path);
  });
  SmallVector<std::string> command = {*linker, "-shared", "-o",
                                      getLinkerPath(linked.path)};
  for (StringRef object : objects)
    command.push_back(getLinkerPath(object));
  command.push_back(getLinkerPath(*runtime));
  llvm::append_range(command, getLinkerOptions(*linker, options));
  if (failed(runLinker(loc, command, logFile.path)))
    return failure();
  return copyWithChecksum(loc, linked.path, library);
}
