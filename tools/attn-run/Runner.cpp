//===- Runner.cpp - Runs a function ---------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The sequence of a run: load, make arguments, call, check, time, report.
//
//===----------------------------------------------------------------------===//

#include "Runner.h"
#include "Npy.h"
#include "Progress.h"
#include "Ranks.h"
#include "attn-runtime/attn_comm.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

using namespace attnrt;

static double nowMs() {
  auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(time).count();
}

Runner::~Runner() {
  for (void *buffer : buffers)
    attnrtFree(buffer);
}

int32_t Runner::upload() {
  if (isHost())
    return ATTN_OK;
  if (int32_t status = attnrtSetDevice(device))
    return status;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const HostTensor &tensor = arguments[i].tensor;
    void *buffer = nullptr;
    if (int32_t status = attnrtMalloc(&buffer, tensor.getNumBytes()))
      return status;
    buffers.push_back(buffer);
    if (int32_t status =
            attnrtCopyToDevice(buffer, tensor.getData(), tensor.getNumBytes()))
      return status;
    views[i].data = buffer;
    views[i].device = device;
  }
  return ATTN_OK;
}

int32_t Runner::run() {
  if (int32_t status = call())
    return status;
  return isHost() ? static_cast<int32_t>(ATTN_OK) : attnrtSynchronize();
}

int32_t Runner::download() {
  if (isHost())
    return ATTN_OK;
  for (size_t i = 0; i < arguments.size(); ++i) {
    HostTensor &tensor = arguments[i].tensor;
    if (!ATTN_IS_OUTPUT(*arguments[i].spec))
      continue;
    if (int32_t status = attnrtCopyFromDevice(tensor.getData(), buffers[i],
                                              tensor.getNumBytes()))
      return status;
  }
  return ATTN_OK;
}

int32_t attnrt::timeCalls(int repeats, const std::function<int32_t()> &run,
                          std::vector<double> &times) {
  // Some host runs take long; the median of few is better than no answer.
  constexpr double limitMs = 20000;
  double begin = nowMs();
  for (int i = 0; i < repeats; ++i) {
    double before = nowMs();
    if (int32_t status = run())
      return status;
    double after = nowMs();
    times.push_back(after - before);
    if (i >= 2 && after - begin > limitMs)
      break;
  }
  return ATTN_OK;
}

namespace {

/// Events, and memory to keep the device busy with.
struct TimingResources {
  std::vector<void *> events;
  void *buffer = nullptr;

  ~TimingResources() {
    for (void *event : events)
      attnrtEventDestroy(event);
    attnrtFree(buffer);
  }
};

} // namespace

int32_t Runner::timeOnDevice(int repeats, double hostMs,
                             std::vector<double> &times, double &submitMs) {
  TimingResources resources;
  for (int i = 0; i <= repeats; ++i) {
    void *event = nullptr;
    if (int32_t status = attnrtEventCreate(&event))
      return status;
    resources.events.push_back(event);
  }

  // All runs are submitted at once behind other work, so that what lies between
  // two events is the device's time and not the host's. Without memory to spare
  // for that the times are still right for all but very short runs.
  constexpr int64_t bufferBytes = int64_t(64) << 20;
  constexpr double memsetMs = 0.02;
  if (attnrtMalloc(&resources.buffer, bufferBytes) == ATTN_OK) {
    double delayMs = std::min((hostMs + 0.005) * repeats, 20.0);
    int count = 1 + static_cast<int>(delayMs / memsetMs);
    for (int i = 0; i < count; ++i)
      if (int32_t status = attnrtMemsetAsync(resources.buffer, 0, bufferBytes,
                                             /*stream=*/nullptr))
        return status;
  }

  double before = nowMs();
  if (int32_t status =
          attnrtEventRecord(resources.events[0], /*stream=*/nullptr))
    return status;
  for (int i = 0; i < repeats; ++i) {
    if (int32_t status = call())
      return status;
    if (int32_t status =
            attnrtEventRecord(resources.events[i + 1], /*stream=*/nullptr))
      return status;
  }
  submitMs = (nowMs() - before) / repeats;
  for (int i = 0; i < repeats; ++i) {
    double elapsed = 0;
    if (int32_t status = attnrtEventElapsedMs(
            resources.events[i], resources.events[i + 1], &elapsed))
      return status;
    times.push_back(elapsed);
  }
  return ATTN_OK;
}

void attnrt::summarizeTimes(std::vector<double> &times, BenchResult &result) {
  std::sort(times.begin(), times.end());
  size_t count = times.size();
  result.repeats = static_cast<int>(count);
  result.medianMs = (times[(count - 1) / 2] + times[count / 2]) / 2;
  result.minMs = times.front();
  result.maxMs = times.back();
}

int32_t Runner::bench(int warmup, int repeats, BenchResult &result) {
  Progress progress("timing");
  for (int i = 0; i < warmup; ++i)
    if (int32_t status = run())
      return status;

  std::vector<double> times;
  if (isHost()) {
    if (int32_t status = timeCalls(repeats, [&] { return call(); }, times))
      return status;
  } else {
    double before = nowMs();
    if (int32_t status = call())
      return status;
    double hostMs = nowMs() - before;
    if (int32_t status = attnrtSynchronize())
      return status;
    double submitMs = 0;
    if (int32_t status = timeOnDevice(repeats, hostMs, times, submitMs))
      return status;
    result.hostUs = submitMs * 1e3;
  }

  summarizeTimes(times, result);
  if (isHost())
    result.hostUs = result.medianMs * 1e3;
  if (function.flops)
    result.flops = function.flops(views.getPointers());
  return ATTN_OK;
}

static void printFunctions(const Artifact &artifact) {
  const struct attn_artifact &contents = artifact.get();
  printf("target %s, made by %s\n", contents.target,
         contents.producer ? contents.producer : "an unknown producer");
  for (int32_t i = 0; i < contents.num_functions; ++i) {
    const attn_function &function = contents.functions[i];
    printf("%s%s\n", function.name,
           function.reference ? "" : " (without a reference)");
    for (int32_t arg = 0; arg < function.num_args; ++arg)
      printf("  %s %s\n",
             ATTN_IS_OUTPUT(function.args[arg]) ? "output" : "input ",
             formatSpec(function, function.args[arg]).c_str());
  }
}

/// Writes an output to the file that the user wants it in.
static int32_t writeOutput(const Argument &argument, const Options &options) {
  int32_t dtype = argument.spec->dtype;
  if (!options.outputF32 || !isFloatDType(dtype) || attnDTypeSize(dtype) >= 4)
    return writeNpy(argument.outputPath, argument.tensor);
  HostTensor wide;
  if (int32_t status = HostTensor::create(ATTN_F32, argument.tensor.getShape(),
                                          Layout::BHSD, wide))
    return status;
  for (int64_t i = 0; i < wide.getNumElements(); ++i)
    wide.store(i, argument.tensor.load(argument.tensor.getOffset(i)));
  return writeNpy(argument.outputPath, wide);
}

/// Names the device for the report.
static int32_t describeDevice(int32_t device, std::string &text) {
  char name[256] = {};
  int32_t major = 0, minor = 0;
  if (int32_t status = attnrtDeviceName(device, name, sizeof(name)))
    return status;
  if (int32_t status = attnrtDeviceArch(device, &major, &minor))
    return status;
  text = std::string(name) + " (device " + std::to_string(device) + ", sm_" +
         std::to_string(major) + std::to_string(minor) + ")";
  return ATTN_OK;
}

int32_t attnrt::reportOutputs(const Options &options,
                              const std::vector<Argument> &arguments,
                              Report &report) {
  for (const Argument &argument : arguments) {
    if (!ATTN_IS_OUTPUT(*argument.spec))
      continue;
    report.outputs.push_back(summarize(argument));
    if (!argument.outputPath.empty())
      if (int32_t status = writeOutput(argument, options))
        return status;
  }
  return ATTN_OK;
}

void attnrt::startReport(const Artifact &artifact,
                         const attn_function &function,
                         const std::vector<Argument> &arguments,
                         Report &report) {
  report.function = function.name;
  report.target = artifact.getTarget();
  if (artifact.get().producer)
    report.producer = artifact.get().producer;
  report.arguments = &arguments;
}

int32_t attnrt::checkDeviceOption(const Artifact &artifact,
                                  const attn_function &function,
                                  const Options &options) {
  if (!artifact.isHost() || options.device == 0)
    return ATTN_OK;
  return attnrtSetError(ATTN_INVALID_ARGUMENT,
                        "--device=%d: the function '%s' runs on the host, "
                        "expected no device",
                        options.device, function.name);
}

static int32_t runFunction(const Artifact &artifact,
                           const attn_function &function,
                           const Options &options, Report &report,
                           std::vector<Argument> &arguments) {
  startReport(artifact, function, arguments, report);
  if (int32_t status = checkDeviceOption(artifact, function, options))
    return status;
  int32_t device = artifact.isHost() ? ATTN_DEVICE_HOST : options.device;
  if (!artifact.isHost())
    if (int32_t status = describeDevice(device, report.device))
      return status;
  if (int32_t status = makeArguments(function, options, arguments))
    return status;

  Runner runner(function, arguments, device);
  if (int32_t status = runner.upload())
    return status;
  {
    Progress progress("running");
    if (int32_t status = runner.run())
      return status;
  }
  if (int32_t status = runner.download())
    return status;
  if (int32_t status = reportOutputs(options, arguments, report))
    return status;
  if (options.check) {
    report.check.emplace();
    if (int32_t status =
            checkOutputs(function, options, arguments, *report.check))
      return status;
  }
  if (options.bench) {
    report.bench.emplace();
    if (int32_t status =
            runner.bench(options.warmup, options.repeats, *report.bench))
      return status;
  }
  return ATTN_OK;
}

ExitCode attnrt::printFailure(int32_t status) {
  fprintf(stderr, "attn-run: error: %s [%s]\n", attnGetLastError(),
          attnStatusName(status));
  return getExitCode(status);
}

ExitCode attnrt::printReport(const Options &options, const Report &report) {
  std::string text = options.json ? report.toJson() : report.toText();
  fputs(text.c_str(), stdout);
  return report.check && !report.check->passed() ? ExitCheckFailed : ExitOk;
}

namespace {

/// Makes the thread the only rank of a group.
class OnlyRank {
public:
  OnlyRank() = default;
  OnlyRank(const OnlyRank &) = delete;
  OnlyRank &operator=(const OnlyRank &) = delete;
  ~OnlyRank() {
    attn_comm_set_current(nullptr);
    attn_comm_destroy(comm);
  }

  int32_t create() {
    // No call waits.
    constexpr int64_t timeLimitMs = 1000;
    if (int32_t status = attn_comm_create_local(/*size=*/1, timeLimitMs, &comm))
      return status;
    attn_comm_set_current(comm);
    return ATTN_OK;
  }

private:
  attn_comm *comm = nullptr;
};

} // namespace

ExitCode attnrt::runAll(const Options &options) {
  if (options.ranks > 0)
    return runRanks(options);
  Artifact artifact;
  if (int32_t status = Artifact::load(options, artifact))
    return printFailure(status);
  if (options.list) {
    printFunctions(artifact);
    return ExitOk;
  }
  const attn_function *function;
  if (int32_t status = artifact.getFunction(options.function, &function))
    return printFailure(status);

  OnlyRank rank;
  if (artifact.isHost())
    if (int32_t status = rank.create())
      return printFailure(status);
  Report report;
  std::vector<Argument> arguments;
  if (int32_t status =
          runFunction(artifact, *function, options, report, arguments))
    return printFailure(status);
  return printReport(options, report);
}
