//===- attn-compile.cpp - Compiler driver ---------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Command line of the compiler. Exit codes: 0 success, 1 the input could not be
// compiled or the output not be written, 2 the command line is wrong.
//
//===----------------------------------------------------------------------===//

#include "Progress.h"
#include "attn/Compiler/Compiler.h"
#include "attn/InitAllDialects.h"
#include "attn/Interfaces/Target.h"
#include "attn/Support/TemporaryFolder.h"
#include "attn/Target/TargetInfo.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Support/Timing.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"
#include <csignal>

using namespace mlir;
namespace cl = llvm::cl;

static constexpr int exitFailure = 1;
static constexpr int exitUsage = 2;

static constexpr char overview[] = R"(Attn: a compiler for attention

Compiles functions with attn operations to kernels and their C interface:

  attn-compile in.mlir -o out.so --target=sm_90a
  attn-compile in.mlir -o out.h
  attn-compile in.mlir -o - --emit=mlir --stop-after=kernel

The stages are input, raise, schedule, bufferize, tile, kernel, device and
host.
MLIR's options to look at passes work too: --mlir-print-ir-after-all,
--mlir-print-ir-tree-dir, --mlir-timing, --mlir-pass-statistics,
--mlir-print-debuginfo and others; --help-hidden lists them.

Exit codes: 0 success, 1 the input could not be compiled or the output not be
written, 2 the command line is wrong.
)";

static cl::OptionCategory category("Attn options");

namespace {
/// The command line.
struct Flags {
  /// Names the targets that are registered.
  std::string targetHelp = [] {
    attn::registerAllTargets();
    return "Target: " + attn::describeTargets() +
           " (or the compute capability of a GPU, such as 9.0) (default: host)";
  }();
  cl::opt<std::string> inputFile{cl::Positional, cl::desc("<input file>"),
                                 cl::init("-"), cl::cat(category)};
  cl::opt<std::string> outputFile{
      "o", cl::desc("Output file, \"-\" for the standard output (default)"),
      cl::value_desc("file"), cl::init("-"), cl::cat(category)};
  cl::opt<std::string> target{"target", cl::desc(targetHelp),
                              cl::value_desc("name"), cl::init("host"),
                              cl::cat(category)};
  cl::opt<std::string> emit{
      "emit",
      cl::desc("What to write: mlir, llvm, ptx, cubin, obj, so or header "
               "(default: from the extension of the output file: .mlir, "
               ".ll, .ptx, .cubin, .o, .so, .h)"),
      cl::value_desc("kind"), cl::cat(category)};
  cl::opt<std::string> stopAfter{
      "stop-after",
      cl::desc("Last stage to run before writing MLIR (default: host)"),
      cl::value_desc("stage"), cl::cat(category)};
  cl::opt<bool> allowBytecode{
      "allow-bytecode",
      cl::desc(
          "Read bytecode, too. It must come from a source that is trusted: "
          "damaged bytecode ends the compiler"),
      cl::cat(category)};
  cl::opt<bool> raise{"raise",
                      cl::desc("Look for attention in linalg (default: true)"),
                      cl::init(true), cl::cat(category)};
  cl::opt<bool> assumeKeptRows{
      "assume-kept-rows",
      cl::desc("In linalg, take every row of scores to keep a pair, so that "
               "large negative numbers mask"),
      cl::cat(category)};
  cl::opt<bool> assumeDropoutMasks{
      "assume-dropout-masks",
      cl::desc("In linalg, take tensors that attention probabilities are "
               "multiplied by to hold 0 and 1 alone: keep masks of dropout"),
      cl::cat(category)};
  cl::opt<int64_t> ranks{
      "ranks",
      cl::desc("Compile the functions of one rank of so many, 1 to 1024, over "
               "which attention is distributed (default: functions of the "
               "whole tensors)"),
      cl::value_desc("n"), cl::cat(category)};
  cl::opt<std::string> shardMethod{
      "shard-method",
      cl::desc(
          "How ranks get the keys and values of one another: ring, zigzag, "
          "striped, lightseq, allgather, ulysses or usp, as in "
          "attn-shard-attention"),
      cl::init("ring"), cl::value_desc("method"), cl::cat(category)};
  cl::opt<int64_t> ulyssesDegree{
      "ulysses-degree",
      cl::desc("Number of neighboring ranks that exchange heads for positions "
               "with the method usp (default: 0, to choose)"),
      cl::value_desc("n"), cl::cat(category)};
  cl::opt<bool> withReference{
      "with-reference",
      cl::desc("Add a reference of each function, computed in f64 on the host"),
      cl::cat(category)};
  cl::opt<bool> verifyEach{
      "verify-each",
      cl::desc("Verify the IR after each pass, and not after each stage alone"),
      cl::cat(category)};
  cl::opt<std::string> schedule{
      "schedule",
      cl::desc("Schedule of all attentions, such as "
               "'#attn_tile.sequential<query_tile = 16, key_tile = 64>'"),
      cl::value_desc("attribute"), cl::cat(category)};
  cl::opt<std::string> dropout{
      "dropout",
      cl::desc("Where the keep masks of dropout are made: best, in-kernel, "
               "sequential, streams or fused"),
      cl::init("in-kernel"), cl::value_desc("alternative"), cl::cat(category)};
  cl::opt<int64_t> maskBudget{
      "mask-budget",
      cl::desc("Bytes that a dropout keep mask may take (default: an eighth of "
               "the device's memory)"),
      cl::init(-1), cl::value_desc("bytes"), cl::cat(category)};
  cl::opt<int64_t> dqWorkspaceBytes{
      "dq-workspace-bytes",
      cl::desc("Bytes that the dQ accumulator may take "
               "(default: as many as it takes)"),
      cl::init(-1), cl::value_desc("bytes"), cl::cat(category)};
  cl::opt<bool> explicitBlockMasks{
      "explicit-block-masks",
      cl::desc("Let callers keep the block masks of masks that read tensors: a "
               "function f takes what f_block_mask makes"),
      cl::cat(category)};
  cl::opt<std::string> calibration{
      "calibration",
      cl::desc("Calibration file of the device, instead of the one of the "
               "library"),
      cl::value_desc("file"), cl::cat(category)};
  cl::opt<std::string> database{
      "database",
      cl::desc("Measured times to choose schedules by, written by attn-tune"),
      cl::value_desc("file"), cl::cat(category)};
  cl::opt<bool> embedPTX{
      "embed-ptx",
      cl::desc("Keep kernels as PTX; the driver compiles them when they "
               "are first used. Needs no ptxas (default: for targets whose "
               "PTX runs on later GPUs, such as sm_80)"),
      cl::cat(category)};
  cl::opt<int64_t> ptxVersion{
      "ptx-version",
      cl::desc("PTX version times 10 (default: the oldest one that has the "
               "instructions of a kernel)"),
      cl::value_desc("n"), cl::init(0), cl::cat(category)};
  cl::opt<std::string> cudaPath{
      "cuda-path",
      cl::desc("Folder of the CUDA toolkit (default: CUDA_ROOT, "
               "CUDA_HOME, CUDA_PATH, then ptxas in PATH, then the package "
               "nvidia-cuda-nvcc next to the package attn or in VIRTUAL_ENV, "
               "then what was found when Attn was built)"),
      cl::value_desc("folder"), cl::cat(category)};
  cl::opt<std::string> ptxasOptions{
      "ptxas-options", cl::desc("More options for ptxas, separated by spaces"),
      cl::value_desc("options"), cl::cat(category)};
  cl::opt<bool> failOnSpills{
      "fail-on-spills",
      cl::desc("Make register spills and matmuls that ptxas "
               "serialized errors instead of warnings"),
      cl::cat(category)};
  cl::opt<std::string> hostCPU{
      "host-cpu",
      cl::desc("Processor of the host part (default: native for "
               "--target=host, the architecture's baseline for GPUs)"),
      cl::value_desc("name"), cl::cat(category)};
  cl::opt<std::string> optLevel{
      "host-opt-level",
      cl::desc("Optimization level for the host part: 0 for none, 1 for the "
               "passes that kernels need (the default), 2 or 3 for LLVM's "
               "pipelines"),
      cl::value_desc("n"), cl::init("1"), cl::cat(category)};
  cl::opt<std::string> linker{
      "linker",
      cl::desc("Compiler driver or linker (ld, ld.*) to link with (default: "
               "ld.lld in ../bin of the runtime's folder, then cc, ld.lld and "
               "ld in PATH)"),
      cl::value_desc("program"), cl::cat(category)};
  cl::opt<std::string> runtimeDir{
      "runtime-dir",
      cl::desc(
          "Folder of libattn_runtime (default: ../lib next to this program)"),
      cl::value_desc("folder"), cl::cat(category)};
  cl::opt<bool> staticRuntime{"static-runtime",
                              cl::desc("Link the runtime into the output"),
                              cl::cat(category)};
  cl::opt<bool> verbose{
      "verbose",
      cl::desc("Print times of stages, registers of kernels and the "
               "reasons for schedules"),
      cl::cat(category)};
};
} // namespace

/// Makes room for our options: LLVM's code generator registers some of the same
/// names, for passes that no user of this program knows.
static void removeClashingOptions() {
  auto &registered = cl::getRegisteredOptions();
  for (StringRef name : {"stop-after"})
    if (cl::Option *option = registered.lookup(name))
      option->removeArgument();
}

static int usageError(const Twine &message) {
  llvm::errs() << "attn-compile: error: " << message
               << "\nTry 'attn-compile --help'.\n";
  return exitUsage;
}

/// The folder of the runtime library, relative to this program.
static std::string findRuntimeDir(const char *argv0) {
  std::string program = llvm::sys::fs::getMainExecutable(
      argv0, reinterpret_cast<void *>(&findRuntimeDir));
  llvm::SmallString<128> folder(program);
  llvm::sys::path::remove_filename(folder);
  llvm::sys::path::append(folder, "..", "lib");
  llvm::sys::path::remove_dots(folder, /*remove_dot_dot=*/true);
  return folder.str().str();
}

/// Reads the options. Returns an error text if they make no sense.
static std::optional<std::string> readOptions(const char *argv0,
                                              const Flags &flags,
                                              attn::CompilerOptions &options) {
  if (flags.outputFile.empty())
    return "unknown value '' of the option 'o' (expected a file)";
  if (flags.emit.getNumOccurrences() == 0) {
    std::optional<attn::OutputKind> kind = attn::OutputKind::MLIR;
    if (flags.outputFile != "-")
      kind = attn::getOutputKindForFile(flags.outputFile);
    if (!kind)
      return ("cannot tell what to write from the name '" +
              Twine(flags.outputFile) +
              "' (expected .mlir, .ll, .ptx, .cubin, .o, .so or .h, or "
              "the option --emit)")
          .str();
    options.output = *kind;
  }
  for (const cl::opt<std::string> *flag :
       {&flags.target, &flags.emit, &flags.stopAfter, &flags.optLevel,
        &flags.schedule, &flags.calibration, &flags.database, &flags.dropout,
        &flags.cudaPath, &flags.ptxasOptions, &flags.hostCPU, &flags.linker,
        &flags.runtimeDir, &flags.shardMethod})
    if (flag->getNumOccurrences() > 0)
      if (std::optional<std::string> error =
              attn::setOption(options, flag->ArgStr, *flag))
        return error;

  for (const cl::opt<int64_t> *flag :
       {&flags.maskBudget, &flags.dqWorkspaceBytes, &flags.ptxVersion,
        &flags.ranks, &flags.ulyssesDegree})
    if (flag->getNumOccurrences() > 0)
      if (std::optional<std::string> error = attn::setOption(
              options, flag->ArgStr, std::to_string(flag->getValue())))
        return error;

  options.raise = flags.raise;
  options.assumeKeptRows = flags.assumeKeptRows;
  options.assumeDropoutMasks = flags.assumeDropoutMasks;
  options.withReference = flags.withReference;
  options.verifyEach = flags.verifyEach;
  options.explicitBlockMasks = flags.explicitBlockMasks;
  if (flags.embedPTX.getNumOccurrences() > 0)
    options.embedPTX = flags.embedPTX;
  options.failOnSpills = flags.failOnSpills;
  options.report = flags.verbose;
  options.removeOnSignals = true;
  if (flags.runtimeDir.getNumOccurrences() == 0)
    options.link.runtimeDir = findRuntimeDir(argv0);
  options.link.staticRuntime = flags.staticRuntime;
  return attn::completeOptions(options);
}

/// Sets up LLVM, whose signal handlers leave signals alone that the parent of
/// this process wants to be ignored, as `nohup` and shells do.
static void initialize(std::optional<llvm::InitLLVM> &init, int &argc,
                       char **&argv) {
  llvm::SmallVector<std::pair<int, struct sigaction>> ignored;
  for (int signal : {SIGHUP, SIGINT, SIGTERM}) {
    struct sigaction action;
    if (sigaction(signal, nullptr, &action) == 0 &&
        action.sa_handler == SIG_IGN)
      ignored.emplace_back(signal, action);
  }
  init.emplace(argc, argv);
  for (const auto &[signal, action] : ignored)
    sigaction(signal, &action, nullptr);
  attn::removeTemporaryFolderOnSignals();
}

int main(int argc, char **argv) {
  std::optional<llvm::InitLLVM> init;
  initialize(init, argc, argv);
  cl::SetVersionPrinter([](raw_ostream &os) {
    os << "attn-compile " << ATTN_VERSION_STRING << " (LLVM "
       << LLVM_VERSION_STRING << ")\n";
  });
  removeClashingOptions();
  Flags flags;
  registerAsmPrinterCLOptions();
  registerMLIRContextCLOptions();
  registerPassManagerCLOptions();
  registerDefaultTimingManagerCLOptions();
  cl::HideUnrelatedOptions(category);
  if (!cl::ParseCommandLineOptions(argc, argv, overview, &llvm::errs()))
    return exitUsage;

  attn::CompilerOptions options;
  if (std::optional<std::string> error = readOptions(argv[0], flags, options))
    return usageError(*error);

  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> buffer =
      openInputFile(flags.inputFile, &message);
  if (!buffer) {
    llvm::errs() << "attn-compile: error: " << message << '\n';
    return exitFailure;
  }

  DialectRegistry registry;
  attn::registerCompilerDialects(registry);
  MLIRContext context(registry);
  if (flags.verbose &&
      failed(remark::enableOptimizationRemarks(
          context, nullptr, std::make_unique<remark::RemarkEmittingPolicyAll>(),
          remark::RemarkCategories{{}, ".*", ".*", ".*", ".*"},
          /*printAsEmitRemarks=*/true)))
    return exitFailure;

  llvm::SourceMgr sourceMgr;
  sourceMgr.AddNewSourceBuffer(std::move(buffer), SMLoc());
  SourceMgrDiagnosticHandler diagnostics(sourceMgr, &context);
  context.printOpOnDiagnostic(false);

  DefaultTimingManager timing;
  applyDefaultTimingManagerCLOptions(timing);
  TimingScope timingScope = timing.getRootScope();
  Progress progress(flags.verbose);
  options.onProgress = [&](StringRef stage) { progress.start(stage); };
  options.configure = [&](PassManager &pm) -> LogicalResult {
    if (failed(applyPassManagerCLOptions(pm)))
      return failure();
    pm.enableTiming(timingScope);
    return success();
  };

  progress.start("parse");
  OwningOpRef<ModuleOp> module =
      attn::parseModule(sourceMgr, context, flags.allowBytecode);
  if (!module)
    return exitFailure;
  LogicalResult result =
      attn::compileToFile(*module, options, flags.outputFile);
  progress.finish();
  return succeeded(result) ? 0 : exitFailure;
}
