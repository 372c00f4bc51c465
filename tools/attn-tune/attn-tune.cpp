//===- attn-tune.cpp - Measure schedules ----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiles the schedules that the cost model ranks best, measures them, and
// writes a database for choosing schedules.
//
//===----------------------------------------------------------------------===//

#include "Tuner.h"
#include "attn/Compiler/Compiler.h"
#include "attn/InitAllDialects.h"
#include "attn/Interfaces/Target.h"
#include "attn/Target/TargetInfo.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/Threading.h"

using namespace mlir;
namespace cl = llvm::cl;

static constexpr int exitFailure = 1, exitUsage = 2;

static constexpr const char *overview = R"(Measures schedules of an attention

The module has one function with one attention. The candidates that the cost
model takes for the best are compiled in parallel, measured one after the other,
each in a process of its own, and what they take is added to a database:

  attn-tune in.mlir --target=sm_90a --database=schedules.json
  attn-compile in.mlir -o out.so --target=sm_90a --database=schedules.json

Work that was interrupted goes on where it was: what is in the folder of the
candidates is not done again. To measure where there is no compiler:

  attn-tune in.mlir --target=sm_90a --folder=dir --compile-only
  ATTN_RUN=./attn-run sh dir/measure.sh                       (there)
  attn-tune in.mlir --target=sm_90a --folder=dir --collect-only --database=schedules.json
)";

namespace {
cl::OptionCategory category("attn-tune options");

struct Flags {
  /// Names the targets that are registered.
  std::string targetHelp = [] {
    attn::registerAllTargets();
    return "Target: " + attn::describeTargets() + " (default: host)";
  }();
  cl::opt<std::string> input{cl::Positional, cl::desc("<module>"), cl::Required,
                             cl::cat(category)};
  cl::opt<std::string> target{"target", cl::desc(targetHelp),
                              cl::value_desc("name"), cl::init("host"),
                              cl::cat(category)};
  cl::opt<std::string> database{"database",
                                cl::desc("File to add measured times to"),
                                cl::value_desc("file"), cl::cat(category)};
  cl::opt<std::string> folder{
      "folder",
      cl::desc(
          "Folder of the candidates (default: the module's name and .tune)"),
      cl::value_desc("folder"), cl::cat(category)};
  cl::opt<unsigned> candidates{
      "candidates", cl::desc("Most candidates to measure (default: 8)"),
      cl::value_desc("n"), cl::init(8), cl::cat(category)};
  cl::opt<unsigned> jobs{
      "jobs", cl::desc("Candidates to compile at a time (default: all cores)"),
      cl::value_desc("n"), cl::init(0), cl::cat(category)};
  cl::list<int64_t> lengths{
      "lengths", cl::CommaSeparated,
      cl::desc("Queries and keys, if their number is dynamic (default: "
               "1024,4096,16384)"),
      cl::value_desc("n,..."), cl::cat(category)};
  cl::opt<int64_t> batch{
      "batch",
      cl::desc("Batch, if it is dynamic (default: 16384 tokens in all)"),
      cl::value_desc("n"), cl::init(0), cl::cat(category)};
  cl::list<std::string> shapes{
      "shape", cl::desc("Shapes of other arguments, as for attn-run"),
      cl::value_desc("arg=shape"), cl::cat(category)};
  cl::opt<unsigned> repeats{
      "repeats", cl::desc("Timed runs of each candidate (default: 20)"),
      cl::value_desc("n"), cl::init(20), cl::cat(category)};
  cl::opt<unsigned> timeout{
      "timeout", cl::desc("Seconds that a measurement may take (default: 60)"),
      cl::value_desc("n"), cl::init(60), cl::cat(category)};
  cl::opt<bool> compileOnly{
      "compile-only", cl::desc("Compile candidates, to measure them elsewhere"),
      cl::cat(category)};
  cl::opt<bool> collectOnly{"collect-only",
                            cl::desc("Collect what was measured elsewhere"),
                            cl::cat(category)};
};
} // namespace

static int usageError(const Twine &message) {
  llvm::errs() << "attn-tune: error: " << message
               << "\nTry 'attn-tune --help'.\n";
  return exitUsage;
}

/// A program in the folder of this one.
static std::string findProgram(const char *argv0, StringRef name) {
  llvm::SmallString<128> path(llvm::sys::fs::getMainExecutable(
      argv0, reinterpret_cast<void *>(&findProgram)));
  llvm::sys::path::remove_filename(path);
  llvm::sys::path::append(path, name);
  return path.str().str();
}

/// Checks before the work that results can be added to the file.
static LogicalResult checkDatabase(ModuleOp module, StringRef path) {
  if (llvm::sys::fs::exists(path)) {
    if (!llvm::sys::fs::is_regular_file(path))
      return module.emitError("the database '")
             << path << "' is not a regular file";
    attn::ScheduleDatabase database;
    if (failed(database.read(module, path)))
      return failure();
  }
  StringRef folder = llvm::sys::path::parent_path(path);
  if (std::error_code error = llvm::sys::fs::access(
          folder.empty() ? "." : folder, llvm::sys::fs::AccessMode::Write))
    return module.emitError("cannot write the database '")
           << path << "': " << error.message();
  return success();
}

/// Adds the results to the file, which need not exist.
static LogicalResult updateDatabase(Tuner &tuner, ModuleOp module,
                                    StringRef path) {
  attn::ScheduleDatabase database;
  if (llvm::sys::fs::exists(path) && failed(database.read(module, path)))
    return failure();
  if (failed(tuner.collect(database)))
    return failure();
  return Tuner::save(database, path);
}

/// What is wrong with the flags; empty if nothing is.
static std::string findUsageError(const Flags &flags) {
  if (flags.compileOnly && flags.collectOnly)
    return "--compile-only and --collect-only exclude one another";
  if (flags.database.empty() && !flags.compileOnly)
    return "expected a file with --database, or --compile-only";
  if (!attn::lookupTarget(flags.target))
    return ("unknown target '" + Twine(flags.target) + "' (expected " +
            attn::describeTargets() + ")")
        .str();
  for (int64_t length : flags.lengths)
    if (length < 1)
      return ("lengths must be positive (was " + Twine(length) + ")").str();
  if (flags.candidates == 0 || flags.repeats == 0 || flags.timeout == 0)
    return "candidates, repeats and timeout must be positive";
  if (flags.batch.getNumOccurrences() > 0 && flags.batch < 1)
    return ("batch must be positive (was " + Twine(flags.batch) + ")").str();
  return "";
}

static TunerOptions getTunerOptions(const Flags &flags, const char *argv0) {
  TunerOptions options;
  options.input = flags.input;
  options.target = flags.target;
  options.folder =
      flags.folder.empty() ? flags.input + ".tune" : flags.folder.getValue();
  options.candidates = flags.candidates;
  options.jobs = flags.jobs;
  options.lengths.assign(flags.lengths.begin(), flags.lengths.end());
  if (options.lengths.empty())
    options.lengths = {1024, 4096, 16384};
  options.batch = flags.batch;
  options.repeats = flags.repeats;
  options.timeout = flags.timeout;
  options.shapes.assign(flags.shapes.begin(), flags.shapes.end());
  options.compiler = findProgram(argv0, "attn-compile");
  options.runner = findProgram(argv0, "attn-run");
  return options;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::SetVersionPrinter([](raw_ostream &os) {
    os << "attn-tune " << ATTN_VERSION_STRING << " (LLVM "
       << LLVM_VERSION_STRING << ")\n";
  });
  Flags flags;
  cl::HideUnrelatedOptions(category);
  if (!cl::ParseCommandLineOptions(argc, argv, overview, &llvm::errs()))
    return exitUsage;
  attn::registerAllTargets();
  if (std::string error = findUsageError(flags); !error.empty())
    return usageError(error);

  TunerOptions options = getTunerOptions(flags, argv[0]);
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> buffer =
      openInputFile(options.input, &message);
  if (!buffer) {
    llvm::errs() << "attn-tune: error: " << message << '\n';
    return exitFailure;
  }
  DialectRegistry registry;
  attn::registerCompilerDialects(registry);
  MLIRContext context(registry);
  llvm::SourceMgr sourceMgr;
  sourceMgr.AddNewSourceBuffer(std::move(buffer), SMLoc());
  SourceMgrDiagnosticHandler diagnostics(sourceMgr, &context);
  context.printOpOnDiagnostic(false);
  OwningOpRef<ModuleOp> module = attn::parseModule(sourceMgr, context);
  attn::CompilerOptions compiler;
  compiler.target = flags.target;
  if (!module ||
      failed(attn::runStages(*module, compiler, attn::Stage::Schedule)))
    return exitFailure;

  if (!flags.compileOnly && failed(checkDatabase(*module, flags.database)))
    return exitFailure;

  Tuner tuner(options);
  if (failed(tuner.plan(*module)))
    return exitFailure;
  if (!flags.collectOnly && failed(tuner.compile()))
    return exitFailure;
  if (flags.compileOnly)
    return 0;
  if (!flags.collectOnly && failed(tuner.measure()))
    return exitFailure;
  return succeeded(updateDatabase(tuner, *module, flags.database))
             ? 0
             : exitFailure;
}
