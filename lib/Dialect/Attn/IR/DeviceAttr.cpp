//===- DeviceAttr.cpp - Descriptions of devices ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `#attn.device`, and the devices that are known by name.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/AttnAttrs.h"
#include "attn/Support/KnownNames.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mlir::attn;

namespace {
/// A figure, and its keyword in `#attn.device`.
struct DeviceFigure {
  StringLiteral keyword;
  int64_t DeviceFigures::*member;
  /// Whether the figure must be positive.
  bool isRequired;
};
} // namespace

/// All figures, in the order in which they are printed.
static constexpr DeviceFigure figureTable[] = {
    {"sms", &DeviceFigures::sms, true},
    {"clock_mhz", &DeviceFigures::clockMHz, true},
    {"mma_flops_per_cycle_32b", &DeviceFigures::mmaFlopsPerCycle32b, false},
    {"mma_flops_per_cycle_16b", &DeviceFigures::mmaFlopsPerCycle16b, false},
    {"mma_flops_per_cycle_8b", &DeviceFigures::mmaFlopsPerCycle8b, false},
    {"fma", &DeviceFigures::fma, true},
    {"special", &DeviceFigures::special, false},
    {"integer", &DeviceFigures::integer, false},
    {"wide_multiply", &DeviceFigures::wideMultiply, false},
    {"registers", &DeviceFigures::registers, false},
    {"shared_bytes", &DeviceFigures::sharedBytes, false},
    {"shared_bytes_per_cycle", &DeviceFigures::sharedBytesPerCycle, false},
    {"l2_bytes", &DeviceFigures::l2Bytes, false},
    {"l2_bytes_per_cycle", &DeviceFigures::l2BytesPerCycle, false},
    {"memory_bytes", &DeviceFigures::memoryBytes, true},
    {"memory_gbps", &DeviceFigures::memoryGBps, true},
    {"link_gbps", &DeviceFigures::linkGBps, false},
    {"link_ns", &DeviceFigures::linkNs, false},
    {"host_devices", &DeviceFigures::hostDevices, false},
    {"network_gbps", &DeviceFigures::networkGBps, false},
    {"network_ns", &DeviceFigures::networkNs, false},
    {"launch_ns", &DeviceFigures::launchNs, false},
    {"mma_percent", &DeviceFigures::mmaPercent, true},
    {"memory_percent", &DeviceFigures::memoryPercent, true},
    {"link_percent", &DeviceFigures::linkPercent, true},
};

SmallVector<StringRef> attn::getDeviceFigureNames() {
  return llvm::map_to_vector(
      figureTable,
      [](const DeviceFigure &figure) -> StringRef { return figure.keyword; });
}

bool DeviceFigures::operator==(const DeviceFigures &other) const {
  return llvm::all_of(figureTable, [&](const DeviceFigure &figure) {
    return this->*figure.member == other.*figure.member;
  });
}

llvm::hash_code attn::hash_value(const DeviceFigures &figures) {
  return llvm::hash_combine_range(
      llvm::map_range(figureTable, [&](const DeviceFigure &figure) {
        return figures.*figure.member;
      }));
}

//===----------------------------------------------------------------------===//
// Known devices
//===----------------------------------------------------------------------===//

static constexpr llvm::StringLiteral deviceNames[] = {"a100", "h100", "h200",
                                                      "b200", "host"};

ArrayRef<llvm::StringLiteral> attn::getKnownDeviceNames() {
  return deviceNames;
}

static constexpr int64_t kib = 1024, mib = 1024 * kib;
static constexpr int64_t gigabyte = 1'000'000'000;

/// How GPUs of servers with eight of them exchange messages. NVLink delivers
/// 400 of the 450 GB/s of a direction (docs/experiments/context-parallel.md);
/// that networks deliver the same share is an assumption. So are the times of
/// small messages, for which NCCL launches a kernel: 10 us by NVLink, 20 us by
/// a network. `networkGBps` is from data sheets of the servers.
static void setLinks(DeviceFigures &figures, int64_t linkGBps,
                     int64_t networkGBps) {
  figures.linkGBps = linkGBps;
  figures.linkNs = 10000;
  figures.hostDevices = 8;
  figures.networkGBps = networkGBps;
  figures.networkNs = 20000;
  figures.linkPercent = 89;
}

/// NVIDIA A100 Tensor Core GPU Architecture (whitepaper, 2020), SXM with 80 GB;
/// throughput of units: CUDA C++ Programming Guide, arithmetic instructions.
/// The tensor core has no 8-bit floats.
static DeviceFigures getA100() {
  DeviceFigures figures;
  figures.sms = 108;
  figures.clockMHz = 1410;
  figures.mmaFlopsPerCycle32b = 1024;
  figures.mmaFlopsPerCycle16b = 2048;
  figures.fma = 64;
  figures.special = 16;
  figures.integer = 64;
  figures.wideMultiply = 32;
  figures.registers = 65536;
  figures.sharedBytes = 163 * kib;
  figures.sharedBytesPerCycle = 128;
  figures.l2Bytes = 40 * mib;
  figures.l2BytesPerCycle = 5120;
  figures.memoryBytes = 80 * gigabyte;
  figures.memoryGBps = 2039;
  // NVIDIA DGX A100: an InfiniBand port of 200 Gbit/s for each GPU.
  setLinks(figures, /*linkGBps=*/600, /*networkGBps=*/50);
  figures.launchNs = 3000;
  figures.mmaPercent = 80;
  figures.memoryPercent = 83;
  return figures;
}

/// NVIDIA H100 Tensor Core GPU Architecture (whitepaper, 2022), SXM: 989.4
/// TFLOP/s of dense bf16 MMAs are 4096 FLOP per cycle of 132 SMs at 1830 MHz.
/// Bandwidth of L2 is not published; the figure is the one of its predecessor.
static DeviceFigures getH100() {
  DeviceFigures figures;
  figures.sms = 132;
  figures.clockMHz = 1830;
  figures.mmaFlopsPerCycle32b = 2048;
  figures.mmaFlopsPerCycle16b = 4096;
  figures.mmaFlopsPerCycle8b = 8192;
  figures.fma = 128;
  figures.special = 16;
  figures.integer = 64;
  figures.wideMultiply = 32;
  figures.registers = 65536;
  figures.sharedBytes = 227 * kib;
  figures.sharedBytesPerCycle = 128;
  figures.l2Bytes = 50 * mib;
  figures.l2BytesPerCycle = 5120;
  figures.memoryBytes = 80 * gigabyte;
  figures.memoryGBps = 3350;
  // NVIDIA DGX H100 and H200: a port of 400 Gbit/s for each GPU.
  setLinks(figures, /*linkGBps=*/900, /*networkGBps=*/100);
  figures.launchNs = 3000;
  // At the power limit, large GEMMs sustain about 700 TFLOP/s.
  figures.mmaPercent = 71;
  figures.memoryPercent = 83;
  return figures;
}

/// NVIDIA H200 Tensor Core GPU (datasheet, 2024): an H100 with other memory.
static DeviceFigures getH200() {
  DeviceFigures figures = getH100();
  figures.memoryBytes = 141 * gigabyte;
  figures.memoryGBps = 4800;
  return figures;
}

/// NVIDIA HGX B200 (datasheet, 2025): 2250 TFLOP/s of dense bf16 MMAs on 148
/// SMs. Bandwidth of L2 is not published.
static DeviceFigures getB200() {
  DeviceFigures figures = getH100();
  figures.sms = 148;
  figures.clockMHz = 1856;
  figures.mmaFlopsPerCycle32b = 4096;
  figures.mmaFlopsPerCycle16b = 8192;
  figures.mmaFlopsPerCycle8b = 16384;
  figures.l2Bytes = 126 * mib;
  figures.l2BytesPerCycle = 0;
  figures.memoryBytes = 180 * gigabyte;
  figures.memoryGBps = 8000;
  // NVIDIA DGX B200: a port of 400 Gbit/s for each GPU.
  setLinks(figures, /*linkGBps=*/1800, /*networkGBps=*/100);
  return figures;
}

/// A few cores of a processor with 16 vector registers of 256 bits, which
/// begins two vector FMAs and two loads in a cycle: x86-64 processors from
/// Haswell (2013) and Zen 2 (2019) on, whose caches are not smaller (Fog, The
/// microarchitecture of Intel, AMD and VIA CPUs).
static DeviceFigures getHost() {
  DeviceFigures figures;
  figures.sms = 4;
  figures.clockMHz = 3000;
  figures.mmaFlopsPerCycle32b = 32;
  figures.mmaFlopsPerCycle16b = 32;
  figures.fma = 16;
  figures.registers = 16 * 8;
  figures.sharedBytes = 32 * kib;
  figures.sharedBytesPerCycle = 64;
  figures.l2Bytes = 4 * 256 * kib;
  figures.l2BytesPerCycle = 4 * 32;
  figures.memoryBytes = 16 * gigabyte;
  figures.memoryGBps = 20;
  return figures;
}

std::optional<DeviceFigures> attn::getKnownDevice(StringRef name) {
  DeviceFigures (*get)() = llvm::StringSwitch<DeviceFigures (*)()>(name)
                               .Case("a100", getA100)
                               .Case("h100", getH100)
                               .Case("h200", getH200)
                               .Case("b200", getB200)
                               .Case("host", getHost)
                               .Default(nullptr);
  if (!get)
    return std::nullopt;
  return get();
}

//===----------------------------------------------------------------------===//
// DeviceAttr
//===----------------------------------------------------------------------===//

DeviceAttr DeviceAttr::getKnown(MLIRContext *context, StringRef name) {
  std::optional<DeviceFigures> figures = getKnownDevice(name);
  return figures ? get(context, name, *figures) : DeviceAttr();
}

LogicalResult DeviceAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 StringRef name, DeviceFigures figures) {
  if (name.empty())
    return emitError() << "device must have a name";
  for (const DeviceFigure &figure : figureTable) {
    int64_t value = figures.*figure.member;
    if (value < 0 || (figure.isRequired && value == 0))
      return emitError() << "'" << figure.keyword << "' of device \"" << name
                         << "\" must be "
                         << (figure.isRequired ? "positive" : "non-negative")
                         << " (was " << value << ")";
  }
  for (const DeviceFigure &figure : figureTable)
    if ((figure.member == &DeviceFigures::mmaPercent ||
         figure.member == &DeviceFigures::memoryPercent ||
         figure.member == &DeviceFigures::linkPercent) &&
        figures.*figure.member > 100)
      return emitError() << "'" << figure.keyword << "' of device \"" << name
                         << "\" must be at most 100 (was "
                         << figures.*figure.member << ")";
  return success();
}

Attribute DeviceAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  std::string name;
  if (parser.parseLess() || parser.parseString(&name))
    return {};
  std::optional<DeviceFigures> known = getKnownDevice(name);
  DeviceFigures figures = known.value_or(DeviceFigures());
  llvm::SmallDenseSet<StringRef> seen;
  while (succeeded(parser.parseOptionalComma())) {
    StringRef keyword;
    SMLoc keywordLoc = parser.getCurrentLocation();
    if (parser.parseKeyword(&keyword))
      return {};
    const auto *figure =
        llvm::find_if(figureTable, [&](const DeviceFigure &figure) {
          return figure.keyword == keyword;
        });
    if (figure == std::end(figureTable)) {
      parser.emitError(keywordLoc)
          << "unknown figure '" << keyword << "'"
          << suggestNames(keyword, getDeviceFigureNames());
      return {};
    }
    if (!seen.insert(figure->keyword).second) {
      parser.emitError(keywordLoc)
          << "figure '" << keyword << "' is given twice";
      return {};
    }
    if (parser.parseEqual() || parser.parseInteger(figures.*figure->member))
      return {};
  }
  if (parser.parseGreater())
    return {};
  if (!known && seen.empty()) {
    auto names = llvm::to_vector_of<StringRef>(getKnownDeviceNames());
    parser.emitError(loc) << "unknown device \"" << name << "\""
                          << suggestNames(name, names,
                                          "or another name with figures");
    return {};
  }
  return getChecked([&] { return parser.emitError(loc); }, parser.getContext(),
                    StringRef(name), figures);
}

void DeviceAttr::print(AsmPrinter &printer) const {
  DeviceFigures known = getKnownDevice(getName()).value_or(DeviceFigures());
  printer << "<\"" << getName() << '"';
  for (const DeviceFigure &figure : figureTable)
    if (getFigures().*figure.member != known.*figure.member)
      printer << ", " << figure.keyword << " = " << getFigures().*figure.member;
  printer << '>';
}
