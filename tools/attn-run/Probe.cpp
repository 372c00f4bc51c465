//===- Probe.cpp - Measures the rates of a device -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rates of units are per cycle of a block that has an SM for itself, so that
// they do not depend on the clock rate. Sustained rates and bandwidths are
// measured by events.
//
//===----------------------------------------------------------------------===//

#include "Probe.h"
#include "ProbeKernels.h"
#include "Progress.h"
#include "attn-runtime/attn_runtime.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

using namespace attnrt;

namespace {

/// Device memory that is freed.
struct Buffer {
  ~Buffer() { attnrtFree(data); }
  void *data = nullptr;
};

/// Two events.
struct Interval {
  ~Interval() {
    attnrtEventDestroy(begin);
    attnrtEventDestroy(end);
  }
  void *begin = nullptr, *end = nullptr;
};

/// A figure and its value, in the order in which they are printed.
using Figures = std::vector<std::pair<std::string, int64_t>>;

class Prober {
public:
  explicit Prober(int32_t device) : device(device) {}

  int32_t run(Figures &figures);
  std::string getName() const { return name; }

private:
  int32_t measureUnits(Figures &figures);
  int32_t measureMemory(Figures &figures);
  int32_t measureLaunch(Figures &figures);
  /// Cycles and nanoseconds of the median block of one launch, and the
  /// milliseconds of all.
  int32_t launch(attnrt_kernel &kernel, int32_t repeats, double &cycles,
                 double &nanoseconds, double &milliseconds);
  /// Milliseconds that `call` takes on the device, the least of several runs.
  template <typename Call>
  int32_t time(Call call, int runs, double &milliseconds);
  attnrt_kernel makeKernel(const std::string &ptx, const char *symbol,
                           int32_t threads, bool isArchSpecific) const;

  int32_t device;
  std::string name;
  int32_t sms = 0, major = 0, minor = 0;
  double clockMHz = 0;
};

} // namespace

/// The name of the device for `#attn.device`: a known name, if the driver's
/// name contains one.
static std::string getShortName(std::string name) {
  for (char &c : name)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const char *known : {"a100", "h100", "h200", "b200"})
    if (name.find(known) != std::string::npos)
      return known;
  return name;
}

/// The nearest integer.
static int64_t toInteger(double value) { return std::llround(value); }

attnrt_kernel Prober::makeKernel(const std::string &ptx, const char *symbol,
                                 int32_t threads, bool isArchSpecific) const {
  attnrt_kernel kernel = {};
  kernel.image = ptx.c_str();
  kernel.image_size = ptx.size() + 1;
  kernel.name = symbol;
  kernel.block_size = threads;
  kernel.arch_major = isArchSpecific ? 9 : 8;
  kernel.arch_specific = isArchSpecific ? 1 : 0;
  return kernel;
}

template <typename Call>
int32_t Prober::time(Call call, int runs, double &milliseconds) {
  Interval interval;
  if (int32_t status = attnrtEventCreate(&interval.begin))
    return status;
  if (int32_t status = attnrtEventCreate(&interval.end))
    return status;
  milliseconds = INFINITY;
  for (int i = 0; i < runs; ++i) {
    if (int32_t status = attnrtEventRecord(interval.begin, /*stream=*/nullptr))
      return status;
    if (int32_t status = call())
      return status;
    if (int32_t status = attnrtEventRecord(interval.end, /*stream=*/nullptr))
      return status;
    double elapsed = 0;
    if (int32_t status =
            attnrtEventElapsedMs(interval.begin, interval.end, &elapsed))
      return status;
    milliseconds = std::min(milliseconds, elapsed);
  }
  return ATTN_OK;
}

int32_t Prober::launch(attnrt_kernel &kernel, int32_t repeats, double &cycles,
                       double &nanoseconds, double &milliseconds) {
  Buffer results;
  std::vector<uint64_t> words(2 * size_t(sms));
  auto bytes = int64_t(words.size() * sizeof(uint64_t));
  if (int32_t status = attnrtMalloc(&results.data, bytes))
    return status;
  void *parameters[] = {static_cast<void *>(&results.data), &repeats};
  auto call = [&] {
    return attnrtLaunchKernel(&kernel, sms, 1, 1,
                              /*ctas_per_sm=*/0, parameters,
                              /*stream=*/nullptr);
  };
  if (int32_t status = time(call, /*runs=*/2, milliseconds))
    return status;
  if (int32_t status = attnrtCopyFromDevice(words.data(), results.data, bytes))
    return status;
  std::vector<std::pair<uint64_t, uint64_t>> blocks;
  for (size_t i = 0; i < words.size(); i += 2)
    blocks.emplace_back(words[i], words[i + 1]);
  std::sort(blocks.begin(), blocks.end());
  auto [medianCycles, medianNanoseconds] = blocks[blocks.size() / 2];
  cycles = double(medianCycles);
  nanoseconds = double(medianNanoseconds);
  return ATTN_OK;
}

int32_t Prober::measureUnits(Figures &figures) {
  double sustained = 0;
  Figures rates;
  for (const UnitKernel &unit : getUnitKernels(major, minor)) {
    attnrt_kernel kernel = makeKernel(unit.ptx, unit.figure.c_str(),
                                      unit.threads, unit.isArchSpecific);
    auto measure = [&]() -> int32_t {
      double cycles = 0, nanoseconds = 0, milliseconds = 0;
      constexpr int32_t fewRepeats = 500;
      if (int32_t status =
              launch(kernel, fewRepeats, cycles, nanoseconds, milliseconds))
        return status;
      if (cycles == 0 || nanoseconds == 0 || milliseconds == 0)
        return attnrtSetError(ATTN_UNSUPPORTED,
                              "cannot probe device %d: the kernel of '%s' took "
                              "no time",
                              device, unit.figure.c_str());
      double rate = unit.perRepeat * fewRepeats / cycles;
      rates.emplace_back(unit.figure, toInteger(rate));
      if (unit.figure == "fma")
        clockMHz = cycles / nanoseconds * 1e3;
      if (unit.figure != "mma_flops_per_cycle_16b")
        return ATTN_OK;
      // For a third of a second, long enough to get hot.
      constexpr double longMs = 300;
      auto repeats = int32_t(fewRepeats * longMs / milliseconds);
      if (int32_t status =
              launch(kernel, repeats, cycles, nanoseconds, milliseconds))
        return status;
      sustained = unit.perRepeat * repeats / (milliseconds * 1e3) / rate;
      return ATTN_OK;
    };
    int32_t status = measure();
    attnrtUnloadKernel(&kernel);
    if (status)
      return status;
  }
  figures.emplace_back("clock_mhz", toInteger(clockMHz));
  figures.insert(figures.end(), rates.begin(), rates.end());
  figures.emplace_back(
      "mma_percent",
      std::clamp<int64_t>(toInteger(100 * sustained / clockMHz), 1, 100));
  return ATTN_OK;
}

int32_t Prober::measureMemory(Figures &figures) {
  std::string ptx = getStreamKernel();
  attnrt_kernel kernel =
      makeKernel(ptx, "stream", streamThreads, /*isArchSpecific=*/false);
  constexpr int64_t mib = int64_t(1) << 20;
  constexpr int64_t readBytes = 16;
  Buffer source, dest;
  // Whole rounds of all threads, of four reads each.
  int64_t unit = 4 * readBytes * streamThreads * 2 * sms;
  auto align = [&](int64_t bytes) { return bytes / unit * unit; };
  int64_t large = align(1024 * mib), small = std::max(unit, align(16 * mib));
  if (int32_t status = attnrtMalloc(&source.data, large))
    return status;
  if (int32_t status = attnrtMalloc(&dest.data, large))
    return status;
  if (int32_t status = attnrtMemset(source.data, 1, large))
    return status;
  auto measure = [&](void *to, int64_t bytes, int32_t passes,
                     double &bytesPerSecond) {
    int64_t count = bytes / readBytes;
    void *parameters[] = {static_cast<void *>(&source.data),
                          static_cast<void *>(&to), &count, &passes};
    auto call = [&] {
      return attnrtLaunchKernel(&kernel, 2 * int64_t(sms), 1, 1,
                                /*ctas_per_sm=*/0, parameters,
                                /*stream=*/nullptr);
    };
    double milliseconds = 0;
    int32_t status = time(call, /*runs=*/5, milliseconds);
    bytesPerSecond =
        double(bytes) * (to ? 2 : 1) * passes / (milliseconds * 1e-3);
    return status;
  };
  double read = 0, copy = 0, l2 = 0;
  int32_t status = measure(nullptr, large, 1, read);
  if (!status)
    status = measure(dest.data, large, 1, copy);
  if (!status)
    status = measure(nullptr, small, 200, l2);
  attnrtUnloadKernel(&kernel);
  if (status)
    return status;
  figures.emplace_back("l2_bytes_per_cycle", toInteger(l2 / (clockMHz * 1e6)));
  // The measured bandwidth is a sustained one.
  figures.emplace_back("memory_gbps", toInteger(std::max(read, copy) * 1e-9));
  figures.emplace_back("memory_percent", 100);
  return ATTN_OK;
}

int32_t Prober::measureLaunch(Figures &figures) {
  constexpr int launches = 200;
  std::vector<UnitKernel> units = getUnitKernels(/*major=*/8, /*minor=*/0);
  const UnitKernel &unit = units.back();
  attnrt_kernel kernel = makeKernel(unit.ptx, unit.figure.c_str(), unit.threads,
                                    /*isArchSpecific=*/false);
  Buffer results;
  int32_t status = attnrtMalloc(&results.data, 16);
  int32_t repeats = 1;
  void *parameters[] = {static_cast<void *>(&results.data), &repeats};
  auto call = [&] {
    for (int i = 0; i < launches; ++i)
      if (int32_t failed = attnrtLaunchKernel(&kernel, 1, 1, 1,
                                              /*ctas_per_sm=*/0, parameters,
                                              /*stream=*/nullptr))
        return failed;
    return int32_t(ATTN_OK);
  };
  double milliseconds = 0;
  if (!status)
    status = time(call, /*runs=*/3, milliseconds);
  attnrtUnloadKernel(&kernel);
  figures.emplace_back("launch_ns", toInteger(milliseconds * 1e6 / launches));
  return status;
}

int32_t Prober::run(Figures &figures) {
  char text[256] = {};
  if (int32_t status = attnrtDeviceName(device, text, sizeof(text)))
    return status;
  name = text;
  if (int32_t status = attnrtDeviceArch(device, &major, &minor))
    return status;
  if (major < 8)
    return attnrtSetError(ATTN_UNSUPPORTED,
                          "cannot probe device %d, %s: it has compute "
                          "capability %d.%d, and kernels need 8.0 or later",
                          device, text, major, minor);
  if (int32_t status = attnrtSetDevice(device))
    return status;
  if (int32_t status = attnrtGetSmCount(&sms))
    return status;
  figures.emplace_back("sms", sms);
  if (int32_t status = measureUnits(figures))
    return status;
  if (int32_t status = measureMemory(figures))
    return status;
  const std::pair<const char *, attnrt_capacity> capacities[] = {
      {"registers", ATTNRT_CAPACITY_REGISTERS},
      {"shared_bytes", ATTNRT_CAPACITY_SHARED},
      {"l2_bytes", ATTNRT_CAPACITY_L2},
      {"memory_bytes", ATTNRT_CAPACITY_MEMORY}};
  for (auto [figure, capacity] : capacities) {
    int64_t value = 0;
    if (int32_t status = attnrtDeviceCapacity(device, capacity, &value))
      return status;
    figures.emplace_back(figure, value);
  }
  return measureLaunch(figures);
}

ExitCode attnrt::probeDevice(const Options &options) {
  Figures figures;
  Prober prober(options.device);
  int32_t status;
  {
    Progress progress("measuring the device");
    status = prober.run(figures);
  }
  if (status) {
    fprintf(stderr, "attn-run: error: %s [%s]\n", attnGetLastError(),
            attnStatusName(status));
    return getExitCode(status);
  }
  std::string name = getShortName(prober.getName());
  if (options.json) {
    printf("{\"device\": \"%s\"", name.c_str());
    for (const auto &[figure, value] : figures)
      printf(", \"%s\": %lld", figure.c_str(), static_cast<long long>(value));
    printf("}\n");
    return ExitOk;
  }
  printf("#attn.device<\"%s\"", name.c_str());
  for (const auto &[figure, value] : figures)
    printf(",\n    %s = %lld", figure.c_str(), static_cast<long long>(value));
  printf(">\n");
  return ExitOk;
}
