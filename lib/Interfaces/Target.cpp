//===- Target.cpp - Registry of targets -----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Keeps the registered targets of the process by name.
//
//===----------------------------------------------------------------------===//

#include "attn/Interfaces/Target.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/STLExtras.h"

#include <map>
#include <mutex>

using namespace mlir;
using namespace mlir::attn;

Target::~Target() = default;

namespace {
/// Targets are added while others may be looked up: contexts are made in
/// several threads.
class TargetRegistry {
public:
  static TargetRegistry &get() {
    static TargetRegistry registry;
    return registry;
  }

  void add(std::unique_ptr<Target> target, std::optional<TargetGPUs> gpus) {
    std::lock_guard<std::mutex> lock(mutex);
    std::string name = target->getName().str();
    auto [it, isNew] = targets.try_emplace(std::move(name), std::move(target));
    if (isNew && gpus)
      ofGPUs.push_back({*gpus, it->second.get()});
  }

  const Target *lookup(StringRef name) {
    std::lock_guard<std::mutex> lock(mutex);
    auto found = targets.find(name);
    return found == targets.end() ? nullptr : found->second.get();
  }

  const Target *find(ComputeCapability capability) {
    std::lock_guard<std::mutex> lock(mutex);
    auto rank = [](ComputeCapability of) {
      return std::pair(of.major, of.minor);
    };
    const std::pair<TargetGPUs, const Target *> *latest = nullptr;
    for (const auto &entry : ofGPUs) {
      auto first = rank(entry.first.first), wanted = rank(capability);
      bool runs = first == wanted || (entry.first.andLater && first < wanted);
      if (runs && (!latest || rank(latest->first.first) < first))
        latest = &entry;
    }
    return latest ? latest->second : nullptr;
  }

  SmallVector<const Target *> getAll() {
    std::lock_guard<std::mutex> lock(mutex);
    return llvm::map_to_vector(
        targets,
        [](const auto &entry) -> const Target * { return entry.second.get(); });
  }

private:
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Target>, std::less<>> targets;
  SmallVector<std::pair<TargetGPUs, const Target *>> ofGPUs;
};
} // namespace

void attn::registerTarget(std::unique_ptr<Target> target,
                          std::optional<TargetGPUs> gpus) {
  TargetRegistry::get().add(std::move(target), gpus);
}

const Target *attn::lookupTarget(StringRef name) {
  return TargetRegistry::get().lookup(name);
}

FailureOr<const Target *> attn::lookupTarget(Operation *op, StringRef name) {
  if (const Target *target = lookupTarget(name))
    return target;
  return op->emitError("unknown target '")
         << name << "' (expected " << describeTargets() << ")";
}

const Target *attn::findTarget(ComputeCapability capability) {
  return TargetRegistry::get().find(capability);
}

bool attn::isGPUTarget(StringRef name) {
  const Target *target = lookupTarget(name);
  return target && !target->isHost();
}

SmallVector<const Target *> attn::getTargets() {
  return TargetRegistry::get().getAll();
}

/// The names of `targets` as text.
static std::string describe(ArrayRef<const Target *> targets) {
  std::string text;
  for (auto [i, target] : llvm::enumerate(targets)) {
    if (i > 0)
      text += i + 1 == targets.size() ? " or " : ", ";
    text += target->getName();
  }
  return text;
}

/// The names of the targets for which `isMeant` holds.
static std::string
describeIf(function_ref<bool(const Target &target)> isMeant) {
  return describe(llvm::filter_to_vector(
      getTargets(), [&](const Target *target) { return isMeant(*target); }));
}

std::string attn::describeTargets() { return describe(getTargets()); }

std::string attn::describeTargets(KernelScheduleKind kind, Type type) {
  return describeIf([&](const Target &target) {
    return type ? target.getMma(type, /*isHighest=*/true) &&
                      target.getKernelScheduleKindFor(type) == kind
                : target.getKernelScheduleKind() == kind;
  });
}

std::string attn::describeGPUTargets() {
  return describeIf([](const Target &target) { return !target.isHost(); });
}
