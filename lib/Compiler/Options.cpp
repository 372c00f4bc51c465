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

using namespace mlir;
using namespace mlir::attn;

bool CompilerOptions::isGPU() const { return isGPUTarget(target); }

std::optional<std::string> attn::setOption(CompilerOptions &options,
                                           StringRef name, StringRef value) {
  // Options may be read before there is a context.
  registerAllTargets();
  auto expect = [&](bool isValid,
                    StringRef expected) -> std::optional<std::string> {
    if (isValid)
      return std::nullopt;
    return ("unknown value '" + value + "' of the option '" + name +
            "' (expected " + expected + ")")
        .str();
  };
  auto setFlag = [&](auto &flag) {
    flag = value == "true";
    return expect(value == "true" || value == "false", "true or false");
  };
  auto setText = [&](std::string &text, StringRef expected) {
    text = value.str();
    return expect(!value.empty(), expected);
  };

  if (name == "target") {
    options.target = value.str();
    return expect(lookupTarget(value) != nullptr, describeTargets());
  }
  if (name == "emit") {
    std::optional<OutputKind> kind = parseOutputKind(value);
    options.output = kind.value_or(options.output);
    return expect(kind.has_value(),
                  "mlir, llvm, ptx, cubin, obj, so or header");
  }
  if (name == "stop-after") {
    options.stopAfter = parseStage(value);
    return expect(
        options.stopAfter.has_value(),
        "input, raise, schedule, bufferize, tile, kernel, device or host");
  }
  if (name == "ptx-version")
    return expect(!value.getAsInteger(10, options.ptxVersion) &&
                      options.ptxVersion >= 0,
                  "a number from 0");
  if (name == "host-opt-level")
    return expect(!value.getAsInteger(10, options.host.optLevel) &&
                      options.host.optLevel <= 3,
                  "0 to 3");
  if (name == "raise")
    return setFlag(options.raise);
  if (name == "assume-kept-rows")
    return setFlag(options.assumeKeptRows);
  if (name == "assume-dropout-masks")
    return setFlag(options.assumeDropoutMasks);
  if (name == "with-reference")
    return setFlag(options.withReference);
  if (name == "embed-ptx")
    return setFlag(options.embedPTX);
  if (name == "fail-on-spills")
    return setFlag(options.failOnSpills);
  if (name == "static-runtime")
    return setFlag(options.link.staticRuntime);
  if (name == "schedule")
    return setText(options.schedule, "an attribute");
  if (name == "calibration")
    return setText(options.calibration, "a file");
  if (name == "database")
    return setText(options.database, "a file");
  if (name == "dropout")
    return setText(options.dropout,
                   "best, in-kernel, sequential, streams or fused");
  if (name == "mask-budget")
    return expect(!value.getAsInteger(10, options.maskBudget) &&
                      options.maskBudget >= 0,
                  "a number from 0");
  if (name == "dq-workspace-bytes")
    return expect(!value.getAsInteger(10, options.dqWorkspaceBytes) &&
                      options.dqWorkspaceBytes >= 0,
                  "a number from 0");
  if (name == "explicit-block-masks")
    return setFlag(options.explicitBlockMasks);
  if (name == "cuda-path")
    return setText(options.toolkit, "a folder");
  if (name == "ptxas-options") {
    options.assemblerOptions = value.str();
    return std::nullopt;
  }
  if (name == "host-cpu")
    return setText(options.host.cpu, "the name of a processor");
  if (name == "linker")
    return setText(options.link.linker, "a program");
  if (name == "runtime-dir")
    return setText(options.link.runtimeDir, "a folder");
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
