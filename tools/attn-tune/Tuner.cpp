//===- Tuner.cpp - Candidates, and their times ----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Candidate number 3 is compiled into 3.so; 3.4096.json has attn-run's report
// on it at 4096 queries. Files are first written under another name, so that a
// file with its final name is complete.
//
//===----------------------------------------------------------------------===//

#include "Tuner.h"
#include "attn/Interfaces/Target.h"
#include "attn/PerfModel/Roofline.h"
#include "attn/Scheduling/ForwardSchedules.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/ThreadPool.h"
#include "llvm/Support/ToolOutputFile.h"

#include <mutex>

using namespace mlir;
using namespace mlir::attn;

/// Tokens of all batch entries if their number is not known.
static constexpr int64_t typicalTokens = 16384;

static LogicalResult fail(const Twine &message) {
  llvm::errs() << "attn-tune: error: " << message << '\n';
  return failure();
}

static void warn(const Twine &message) {
  llvm::errs() << "attn-tune: warning: " << message << '\n';
}

namespace {
/// A bar on a terminal, or a line for each step.
class ProgressBar {
public:
  ProgressBar(StringRef title, size_t total) : title(title), total(total) {}
  ~ProgressBar() {
    if (isTerminal && done > 0)
      llvm::errs() << '\n';
  }

  void advance(const Twine &what) {
    std::lock_guard<std::mutex> guard(mutex);
    ++done;
    if (!isTerminal) {
      llvm::errs() << '[' << done << '/' << total << "] " << title << ' '
                   << what << '\n';
      return;
    }
    constexpr size_t width = 30;
    size_t filled = width * done / total;
    llvm::errs() << "\r\x1b[K" << title << " [" << std::string(filled, '#')
                 << std::string(width - filled, ' ') << "] " << done << '/'
                 << total << ' ' << what;
  }

private:
  std::string title;
  size_t total, done = 0;
  bool isTerminal = llvm::sys::Process::StandardErrIsDisplayed();
  std::mutex mutex;
};
} // namespace

/// The first line of a file that reports an error.
static std::string readError(StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return "it says nothing";
  StringRef text = (*buffer)->getBuffer().trim();
  SmallVector<StringRef> lines;
  text.split(lines, '\n');
  for (StringRef line : lines)
    if (size_t at = line.find("error: "); at != StringRef::npos)
      return line.drop_front(at + strlen("error: ")).str();
  return lines.front().empty() ? "it says nothing" : lines.front().str();
}

/// Runs a program with its output and errors in files.
static LogicalResult execute(const std::vector<std::string> &arguments,
                             StringRef output, StringRef errors,
                             unsigned timeout, std::string &message) {
  SmallVector<StringRef> texts(arguments.begin(), arguments.end());
  std::optional<StringRef> redirects[] = {StringRef(), output, errors};
  int status = llvm::sys::ExecuteAndWait(texts.front(), texts,
                                         /*Env=*/std::nullopt, redirects,
                                         timeout, /*MemoryLimit=*/0, &message);
  if (status == 0)
    return success();
  if (message.empty())
    message = readError(errors);
  return failure();
}

static LogicalResult writeText(StringRef path, StringRef text) {
  std::string message;
  std::unique_ptr<llvm::ToolOutputFile> file = openOutputFile(path, &message);
  if (!file)
    return fail(message);
  file->os() << text;
  file->os().close();
  if (file->os().has_error()) {
    message = file->os().error().message();
    file->os().clear_error();
    return fail("cannot write '" + path + "': " + message);
  }
  file->keep();
  return success();
}

std::string Tuner::getFile(size_t candidate, const Twine &suffix) const {
  SmallString<128> path(options.folder);
  llvm::sys::path::append(path, Twine(candidate) + suffix);
  return path.str().str();
}

std::string Tuner::getResultFile(const Run &run) const {
  return getFile(run.candidate, "." + Twine(run.length) + ".json");
}

//===----------------------------------------------------------------------===//
// Plan
//===----------------------------------------------------------------------===//

/// Finds the arguments of the function that are queries, keys and values.
LogicalResult Tuner::setArguments(AttentionOp op) {
  auto function = op->getParentOfType<FunctionOpInterface>();
  llvm::SmallPtrSet<Value, 4> seen;
  for (Value operand : {op.getQuery(), op.getKey(), op.getValue()}) {
    auto type = cast<ShapedType>(operand.getType());
    if (!seen.insert(operand).second || type.hasStaticShape())
      continue;
    auto argument = dyn_cast<BlockArgument>(operand);
    StringAttr name;
    if (argument && argument.getOwner()->getParentOp() == function)
      name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                   argNameAttrName);
    if (!name)
      return fail("queries, keys and values of dynamic shape must be named "
                  "arguments of the function");
    arguments.push_back({name.str(), llvm::to_vector(type.getShape())});
  }
  return success();
}

LogicalResult Tuner::plan(ModuleOp module) {
  SmallVector<AttentionOp> found;
  module.walk([&](AttentionOp op) { found.push_back(op); });
  if (found.size() != 1)
    return fail("expected one attention in '" + options.input + "' (found " +
                Twine(found.size()) + ")");
  AttentionOp op = found.front();
  if (op.readsKeyLengths())
    return fail("sequences of different lengths cannot be tuned: their lengths "
                "are data");
  FailureOr<const Target *> target = lookupTarget(module, options.target);
  if (failed(target))
    return failure();
  DeviceAttr device = getDevice(module, options.target);
  FailureOr<DeviceModel> model = getDeviceModel(module, **target);
  if (failed(model))
    return failure();
  key = getTuningKey(op, options.target, device.getName());
  for (const ScheduleCandidate &each :
       getBestSchedules(op, **target, *model, options.candidates)) {
    std::string text;
    llvm::raw_string_ostream(text) << each.schedule;
    schedules.push_back(std::move(text));
  }
  if (schedules.empty())
    return fail("no schedule fits the capacities of " + options.target);
  int64_t length = getDimSize(op.getQuery(), 2);
  lengths = ShapedType::isDynamic(length) ? options.lengths
                                          : std::vector<int64_t>{length};
  if (failed(setArguments(op)))
    return failure();

  // A folder is for one plan.
  if (std::error_code error = llvm::sys::fs::create_directories(options.folder))
    return fail("cannot create '" + options.folder + "': " + error.message());
  std::string text = key.device + "\n" + key.target + "\n" + key.op + "\n" +
                     llvm::join(schedules, "\n") + "\n";
  SmallString<128> path(options.folder);
  llvm::sys::path::append(path, "plan.txt");
  if (auto old = llvm::MemoryBuffer::getFile(path)) {
    if ((*old)->getBuffer() != text)
      return fail("the folder '" + options.folder +
                  "' holds candidates of something else; remove it, or give "
                  "another one with --folder");
  } else if (failed(writeText(path, text))) {
    return failure();
  }
  return writeScript();
}

std::vector<Tuner::Run> Tuner::getRuns() const {
  std::vector<Run> runs;
  // One length after the other, so that candidates are compared on a device
  // that is as warm for one as for the others.
  for (int64_t length : lengths)
    for (size_t i = 0; i < schedules.size(); ++i)
      runs.push_back({i, length});
  return runs;
}

/// The arguments of attn-run, after its name and the artifact's.
std::vector<std::string> Tuner::getArguments(const Run &run) const {
  int64_t batch = options.batch
                      ? options.batch
                      : std::max<int64_t>(1, typicalTokens / run.length);
  std::vector<std::string> texts = {
      "--json", "--bench=" + std::to_string(options.repeats)};
  for (const Argument &argument : arguments) {
    std::string shape;
    for (auto [dim, size] : llvm::enumerate(argument.shape)) {
      int64_t known = dim == 0 ? batch : run.length;
      if (!ShapedType::isDynamic(size))
        known = size;
      shape += (dim ? "x" : "") + std::to_string(known);
    }
    texts.push_back("--shape=" + argument.name + "=" + shape);
  }
  for (const std::string &shape : options.shapes)
    texts.push_back("--shape=" + shape);
  return texts;
}

/// Measures where there is attn-run, but no compiler.
LogicalResult Tuner::writeScript() const {
  std::string text =
      "#!/bin/sh\n"
      "# Measures what has not been measured yet. Needs attn-run in PATH, or "
      "its path in ATTN_RUN.\n"
      "cd \"$(dirname \"$0\")\" || exit 1\n"
      "measure() {\n"
      "  [ -f \"$1.so\" ] && [ ! -f \"$1.$2.json\" ] || return\n"
      "  if timeout " +
      std::to_string(options.timeout) +
      " \"${ATTN_RUN:-attn-run}\" \"$@\" > \"$1.$2.partial\" 2> "
      "\"$1.$2.log\"; then\n"
      "    mv \"$1.$2.partial\" \"$1.$2.json\"\n"
      "  else\n"
      "    echo \"candidate $1 at $2 queries failed: see $1.$2.log\" >&2\n"
      "  fi\n"
      "}\n";
  // The function's first two arguments name files; the others are attn-run's.
  size_t at = text.find("\"$@\"");
  text.replace(at, 4, "\"./$1.so\" $3");
  for (const Run &run : getRuns())
    text += "measure " + std::to_string(run.candidate) + " " +
            std::to_string(run.length) + " '" +
            llvm::join(getArguments(run), " ") + "'\n";
  SmallString<128> path(options.folder);
  llvm::sys::path::append(path, "measure.sh");
  return writeText(path, text);
}

//===----------------------------------------------------------------------===//
// Work
//===----------------------------------------------------------------------===//

/// Gives a file that is complete its name.
static LogicalResult keepFile(const std::string &partial,
                              const std::string &file, std::string &message) {
  std::error_code error = llvm::sys::fs::rename(partial, file);
  if (error)
    message = "cannot rename '" + partial + "': " + error.message();
  return success(!error);
}

LogicalResult Tuner::compile() {
  SmallVector<size_t> missing;
  for (size_t i = 0; i < schedules.size(); ++i)
    if (!llvm::sys::fs::exists(getFile(i, ".so")))
      missing.push_back(i);
  ProgressBar bar("compile", missing.size());
  llvm::DefaultThreadPool pool(llvm::hardware_concurrency(options.jobs));
  for (size_t i : missing)
    pool.async([&, i] {
      std::string partial = getFile(i, ".partial.so"), message;
      // Candidates must not spill, and their MMAs must not be serialized.
      LogicalResult result = execute(
          {options.compiler, options.input, "-o", partial,
           "--target=" + options.target, "--schedule=" + schedules[i],
           "--fail-on-spills"},
          getFile(i, ".out"), getFile(i, ".log"), /*timeout=*/0, message);
      if (succeeded(result))
        result = keepFile(partial, getFile(i, ".so"), message);
      bar.advance(schedules[i] +
                  (succeeded(result) ? "" : ": failed: " + message));
    });
  pool.wait();
  if (llvm::none_of(llvm::seq<size_t>(0, schedules.size()), [&](size_t i) {
        return llvm::sys::fs::exists(getFile(i, ".so"));
      }))
    return fail("no candidate could be compiled; the first one: " +
                readError(getFile(0, ".log")));
  return success();
}

LogicalResult Tuner::measure() {
  SmallVector<Run> missing;
  for (const Run &run : getRuns())
    if (llvm::sys::fs::exists(getFile(run.candidate, ".so")) &&
        !readResult(run))
      missing.push_back(run);
  ProgressBar bar("measure", missing.size());
  std::string firstError;
  size_t failures = 0;
  for (const Run &run : missing) {
    std::string stem = "." + std::to_string(run.length), message;
    std::string partial = getFile(run.candidate, stem + ".partial");
    std::vector<std::string> command = {options.runner,
                                        getFile(run.candidate, ".so")};
    llvm::append_range(command, getArguments(run));
    LogicalResult result =
        execute(command, partial, getFile(run.candidate, stem + ".log"),
                options.timeout, message);
    if (succeeded(result))
      result = keepFile(partial, getResultFile(run), message);
    if (failed(result) && failures++ == 0)
      firstError = message;
    std::optional<double> time = readResult(run);
    bar.advance(std::to_string(run.length) + " queries, " +
                schedules[run.candidate] + ": " +
                (time ? llvm::formatv("{0:f1} us", *time).str()
                      : "failed: " + message));
  }
  if (missing.empty() || failures < missing.size())
    return success();
  // Earlier measurements are worth keeping all the same.
  if (llvm::any_of(getRuns(), [&](const Run &run) {
        return readResult(run).has_value();
      })) {
    warn("none of the " + Twine(missing.size()) +
         " measurements that were missing succeeded; the first one: " +
         firstError);
    return success();
  }
  return fail("no candidate could be measured; the first one: " + firstError);
}

/// Microseconds of a run, if it was measured.
std::optional<double> Tuner::readResult(const Run &run) const {
  auto buffer = llvm::MemoryBuffer::getFile(getResultFile(run));
  if (!buffer)
    return std::nullopt;
  llvm::Expected<llvm::json::Value> value =
      parseMeasurements((*buffer)->getBuffer());
  if (!value) {
    llvm::consumeError(value.takeError());
    return std::nullopt;
  }
  const llvm::json::Object *file = value->getAsObject();
  const llvm::json::Object *bench = file ? file->getObject("bench") : nullptr;
  std::optional<double> time =
      bench ? bench->getNumber("median_ms") : std::nullopt;
  if (!time || *time <= 0)
    return std::nullopt;
  return *time * 1e3;
}

LogicalResult Tuner::collect(ScheduleDatabase &database) {
  std::map<int64_t, ScheduleDatabase::Times> results;
  for (const Run &run : getRuns())
    if (std::optional<double> time = readResult(run))
      results[run.length][schedules[run.candidate]] = *time;
  if (results.empty())
    return fail("nothing in the folder '" + options.folder +
                "' has been measured");
  for (auto &[length, times] : results) {
    const auto &best = *llvm::min_element(times, llvm::less_second());
    llvm::outs() << length
                 << " queries: " << llvm::formatv("{0:f1} us, ", best.second)
                 << best.first << '\n';
    database.set(key, length, std::move(times));
  }
  return success();
}

LogicalResult Tuner::save(const ScheduleDatabase &database, StringRef path) {
  std::string text, message, partial = (path + ".partial").str();
  llvm::raw_string_ostream stream(text);
  database.print(stream);
  if (failed(writeText(partial, text)))
    return failure();
  if (succeeded(keepFile(partial, path.str(), message)))
    return success();
  (void)llvm::sys::fs::remove(partial);
  return fail(message);
}
