//===- PTXVersion.cpp - Versions of PTX -----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Asks LLVM for the versions of PTX that it has, and looks up which version the
// instructions of a kernel need.
//
//===----------------------------------------------------------------------===//

#include "attn/Target/PTXVersion.h"
#include "attn/Target/TargetInfo.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
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
  const TargetInfo *info = lookupTargetInfo(target);
  if (!info ||
      (version >= info->getMinPTXVersion() && isKnownPTXVersion(version)))
    return std::nullopt;
  return ("unknown value '" + Twine(version) +
          "' of the option 'ptx-version' (expected a version that LLVM " +
          LLVM_VERSION_STRING + " has, from " +
          Twine(info->getMinPTXVersion()) + " on for " + target + ")")
      .str();
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

/// PTX version of chips that have no TargetInfo.
static constexpr int64_t defaultPTXVersion = 80;

/// From this version of PTX on, LLVM selects the same instructions for sm_80 as
/// with later ones. Older versions cannot widen bf16, and need a shift.
static constexpr int64_t oldestSelectedPTXVersion = 71;

namespace {
/// Instructions with this opcode and all of these qualifiers need `version`.
struct InstructionVersion {
  int64_t version;
  StringLiteral opcode;
  /// Parts of the name behind the opcode, which may hold several qualifiers.
  /// Empty ones are not compared.
  StringLiteral qualifiers[2];
};
} // namespace

/// From the notes of the PTX ISA on each instruction, for instructions that PTX
/// 7.0, the first version with sm_80, does not have. An instruction may match
/// many lines.
static constexpr InstructionVersion instructionVersions[] = {
    {71, "mbarrier", {".test_wait", ".parity"}},
    {75, "cp", {".async", ".L2::cache_hint"}},
    {78, "barrier", {".cluster", ""}},
    {78, "griddepcontrol", {"", ""}},
    {78, "mapa", {"", ""}},
    {78, "mbarrier", {".try_wait", ""}},
    {78, "movmatrix", {"", ""}},
    {78, "stmatrix", {"", ""}},
    {80, "cp", {".async.bulk", ""}},
    {80, "cp", {".reduce.async.bulk", ""}},
    {80, "elect", {"", ""}},
    {80, "fence", {".mbarrier_init", ""}},
    {80, "fence", {".proxy.async", ""}},
    {80, "mbarrier", {".expect_tx", ""}},
    {80, "mbarrier", {".shared::cluster", ""}},
    {80, "prefetch", {".tensormap", ""}},
    {80, "setmaxnreg", {"", ""}},
    {80, "wgmma", {"", ""}},
    {81, "atom", {".v2", ""}},
    {81, "atom", {".v4", ""}},
    {81, "atom", {".v8", ""}},
    {81, "multimem", {"", ""}},
    {81, "red", {".async", ""}},
    {81, "red", {".v2", ""}},
    {81, "red", {".v4", ""}},
    {81, "red", {".v8", ""}},
    {81, "st", {".async", ""}},
    {83, "fence", {".proxy.tensormap", ""}},
    {83, "tensormap", {"", ""}},
    {86, "clusterlaunchcontrol", {"", ""}},
    {86, "cp", {".async.bulk", ".shared::cta.global"}},
    {86, "fence", {".sync_restrict", ""}},
    {86, "mbarrier", {"_wait", ".relaxed"}},
};

/// The first version of PTX that has the instruction `name`, times 10; 0 if it
/// is older than the table.
static int64_t getInstructionVersion(StringRef name) {
  // State spaces of clusters are younger than most instructions.
  int64_t version =
      name.contains("::cta") || name.contains("::cluster") ? 78 : 0;
  StringRef opcode = name.take_until([](char c) { return c == '.'; });
  StringRef qualifiers = name.drop_front(opcode.size());
  for (const InstructionVersion &entry : instructionVersions)
    if (opcode == entry.opcode &&
        llvm::all_of(entry.qualifiers, [&](StringRef qualifier) {
          return qualifiers.contains(qualifier);
        }))
      version = std::max(version, entry.version);
  return version;
}

/// Calls `visit` with the name of each instruction in a piece of assembly.
static void forEachInstruction(StringRef assembly,
                               function_ref<void(StringRef)> visit) {
  SmallVector<StringRef> statements;
  llvm::SplitString(assembly, statements, ";\n{}");
  for (StringRef statement : statements) {
    statement = statement.trim();
    // A predicate, as in `@!$1 bra`.
    if (statement.consume_front("@"))
      statement = statement.drop_until(llvm::isSpace).ltrim();
    StringRef name = statement.take_until(llvm::isSpace);
    // Neither labels nor directives.
    if (!name.empty() && llvm::isAlpha(name.front()) && !name.ends_with(":"))
      visit(name);
  }
}

NewestInstruction attn::findNewestInstruction(gpu::GPUModuleOp module) {
  NewestInstruction newest;
  module.walk([&](LLVM::InlineAsmOp op) {
    forEachInstruction(op.getAsmString(), [&](StringRef name) {
      int64_t version = getInstructionVersion(name);
      if (version > newest.version)
        newest = {version, name.str(), op};
    });
  });
  return newest;
}

int64_t attn::getRequiredPTXVersion(gpu::GPUModuleOp module, StringRef target) {
  const TargetInfo *info = lookupTargetInfo(target);
  int64_t oldest = info ? info->getMinPTXVersion() : defaultPTXVersion;
  return std::max({oldest, oldestSelectedPTXVersion,
                   findNewestInstruction(module).version});
}
