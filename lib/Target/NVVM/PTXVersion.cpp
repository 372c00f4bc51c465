//===- PTXVersion.cpp - Versions of PTX -----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Asks LLVM for the versions of PTX that it has.
//
//===----------------------------------------------------------------------===//

#include "attn/Target/PTXVersion.h"
#include "attn/Target/TargetInfo.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Triple.h"

using namespace mlir;
using namespace mlir::attn;

/// Whether LLVM has a version.
static bool isKnownPTXVersion(int64_t version) {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTargetMC();
  llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string error, name = "ptx" + std::to_string(version);
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return false;
  std::unique_ptr<llvm::MCSubtargetInfo> info(
      target->createMCSubtargetInfo(triple, "", ""));
  return llvm::any_of(info->getAllProcessorFeatures(),
                      [&](const llvm::SubtargetFeatureKV &feature) {
                        return name == feature.Key;
                      });
}

std::optional<std::string> attn::checkPTXVersion(StringRef target,
                                                 int64_t version) {
  std::unique_ptr<TargetInfo> info = createTargetInfo(target);
  if (!info ||
      (version >= info->getMinPTXVersion() && isKnownPTXVersion(version)))
    return std::nullopt;
  return ("unknown value '" + Twine(version) +
          "' of the option 'ptx-version' (expected a version that LLVM " +
          LLVM_VERSION_STRING + " has, from " +
          Twine(info->getMinPTXVersion()) + " on for " + target + ")")
      .str();
}
