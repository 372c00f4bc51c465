//===- Options.cpp - Options by name --------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads options from text, for command lines and for other languages.
//
//===----------------------------------------------------------------------===//

#include "attn/Compiler/Compiler.h"
#include "attn/Target/PTXVersion.h"
#include "attn/Target/TargetInfo.h"
#include "llvm/ADT/StringSwitch.h"

#include <limits>

using namespace mlir;
using namespace mlir::attn;

bool CompilerOptions::isGPU() const { return isGPUTarget(target); }

/// What is wrong with `value`, unless it is valid.
static std::optional<std::string> expect(bool isValid, StringRef name,
                                         StringRef value, StringRef expected) {
  if (isValid)
    return std::nullopt;
  return ("unknown value '" + value + "' of the option '" + name +
          "' (expected " + expected + ")")
      .str();
}

/// The option of that name that is true or false; null if there is none.
static bool *getFlag(CompilerOptions &options, StringRef name) {
  return llvm::StringSwitch<bool *>(name)
      .Case("raise", &options.raise)
      .Case("assume-kept-rows", &options.assumeKeptRows)
      .Case("assume-dropout-masks", &options.assumeDropoutMasks)
      .Case("with-reference", &options.withReference)
      .Case("fail-on-spills", &options.failOnSpills)
      .Case("static-runtime", &options.link.staticRuntime)
      .Case("explicit-block-masks", &options.explicitBlockMasks)
      .Case("verify-each", &options.verifyEach)
      .Default(nullptr);
}

namespace {
/// An option whose text must not be empty, and the text that errors expect.
struct TextOption {
  std::string *text = nullptr;
  StringRef expected;
};
} // namespace

static TextOption getText(CompilerOptions &options, StringRef name) {
  return llvm::StringSwitch<TextOption>(name)
      .Case("schedule", {&options.schedule, "an attribute"})
      .Case("calibration", {&options.calibration, "a file"})
      .Case("database", {&options.database, "a file"})
      .Case("dropout",
            {&options.dropout, "best, in-kernel, sequential, streams or fused"})
      .Case("cuda-path", {&options.toolkit, "a folder"})
      .Case("host-cpu", {&options.host.cpu, "the name of a processor"})
      .Case("linker", {&options.link.linker, "a program"})
      .Case("runtime-dir", {&options.link.runtimeDir, "a folder"})
      .Default({});
}

/// Whether `value` is a number from 0 to `most`, which `number` is set to.
template <typename NumberT>
static bool setNumber(NumberT &number, StringRef value,
                      NumberT most = std::numeric_limits<NumberT>::max()) {
  return !value.getAsInteger(10, number) && number >= 0 && number <= most;
}

/// The target of a name, or for GPUs of a compute capability such as "9.0".
static const Target *findNamedTarget(StringRef value) {
  auto [major, minor] = value.split('.');
  ComputeCapability capability;
  if (major.getAsInteger(10, capability.major) ||
      minor.getAsInteger(10, capability.minor))
    return lookupTarget(value);
  return findTarget(capability);
}

std::optional<std::string> attn::setOption(CompilerOptions &options,
                                           StringRef name, StringRef value) {
  // Options may be read before there is a context.
  registerAllTargets();
  bool *flag = getFlag(options, name);
  if (flag || name == "embed-ptx") {
    bool isTrue = value == "true";
    if (flag)
      *flag = isTrue;
    else
      options.embedPTX = isTrue;
    return expect(isTrue || value == "false", name, value, "true or false");
  }
  if (TextOption option = getText(options, name); option.text) {
    *option.text = value.str();
    return expect(!value.empty(), name, value, option.expected);
  }
  if (name == "target") {
    const Target *target = findNamedTarget(value);
    options.target = target ? target->getName().str() : value.str();
    return expect(target, name, value,
                  describeTargets() +
                      ", or the compute capability of a GPU that runs one");
  }
  if (name == "emit") {
    std::optional<OutputKind> kind = parseOutputKind(value);
    options.output = kind.value_or(options.output);
    return expect(kind.has_value(), name, value,
                  "mlir, llvm, ptx, cubin, obj, so or header");
  }
  if (name == "stop-after") {
    options.stopAfter = parseStage(value);
    return expect(
        options.stopAfter.has_value(), name, value,
        "input, raise, schedule, bufferize, tile, kernel, device or host");
  }
  if (name == "host-opt-level")
    return expect(setNumber(options.host.optLevel, value, 3u), name, value,
                  "0 to 3");
  if (name == "ranks")
    return expect(setNumber(options.ranks, value, int64_t(1024)) &&
                      options.ranks >= 1,
                  name, value, "a number from 1 to 1024");
  if (name == "shard-method") {
    auto method = llvm::StringSwitch<std::optional<ShardMethod>>(value)
                      .Case("ring", ShardMethod::Ring)
                      .Case("zigzag", ShardMethod::Zigzag)
                      .Case("striped", ShardMethod::Striped)
                      .Case("lightseq", ShardMethod::LightSeq)
                      .Case("allgather", ShardMethod::AllGather)
                      .Case("ulysses", ShardMethod::Ulysses)
                      .Case("usp", ShardMethod::Usp)
                      .Default(std::nullopt);
    options.shardMethod = method.value_or(options.shardMethod);
    return expect(method.has_value(), name, value,
                  "ring, zigzag, striped, lightseq, allgather, ulysses or usp");
  }
  if (name == "ulysses-degree")
    return expect(setNumber(options.ulyssesDegree, value, int64_t(1024)), name,
                  value, "a number from 0 to 1024");
  constexpr StringLiteral anyNumber = "a number from 0";
  if (name == "ptx-version")
    return expect(setNumber(options.ptxVersion, value), name, value, anyNumber);
  if (name == "mask-budget")
    return expect(setNumber(options.maskBudget, value), name, value, anyNumber);
  if (name == "dq-workspace-bytes")
    return expect(setNumber(options.dqWorkspaceBytes, value), name, value,
                  anyNumber);
  if (name == "ptxas-options") {
    options.assemblerOptions = value.str();
    return std::nullopt;
  }
  return ("unknown option '" + name + "'").str();
}

std::optional<std::string> attn::completeOptions(CompilerOptions &options) {
  registerAllTargets();
  bool isDeviceCode =
      options.output == OutputKind::PTX || options.output == OutputKind::Cubin;
  if (isDeviceCode && !options.isGPU())
    return "the target " + options.target +
           " has no PTX or cubin; use the target " + describeGPUTargets();
  if (options.stopAfter && options.output != OutputKind::MLIR)
    return "the option 'stop-after' needs MLIR as output";
  if (const TargetInfo *target = lookupTargetInfo(options.target)) {
    if (options.ptxVersion != 0)
      if (std::optional<std::string> message =
              checkPTXVersion(options.target, options.ptxVersion))
        return message;
    if (!options.embedPTX)
      options.embedPTX =
          target->isForwardCompatible() && options.output != OutputKind::Cubin;
  }
  if (options.host.cpu.empty())
    options.host.cpu = options.isGPU() ? "generic" : "native";
  return std::nullopt;
}
