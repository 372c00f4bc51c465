//===- Compiler.h - Attn as a library ---------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiles a module to one of several outputs. Contexts are made with the
// dialects of `registerCompilerDialects`; errors go to their diagnostic
// handlers.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_COMPILER_COMPILER_H
#define ATTN_COMPILER_COMPILER_H

#include "attn/Target/HostObject.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

#include <functional>
#include <optional>
#include <string>

namespace llvm {
class SourceMgr;
} // namespace llvm

namespace mlir::attn {

/// What a compilation writes.
enum class OutputKind {
  MLIR,
  LLVMIR,
  PTX,
  Cubin,
  Object,
  SharedLibrary,
  Header
};

/// The stages of a compilation, in order.
enum class Stage {
  /// The module as it was parsed.
  Input,
  /// Attention in linalg is `attn.attention`.
  Raise,
  /// Every attention has a schedule.
  Schedule,
  /// Functions take memrefs.
  Bufferize,
  /// Attention is a plain tiled program.
  Tile,
  /// Kernels have what their schedule asks for.
  Kernel,
  /// Kernels are compiled.
  Device,
  /// All is in the LLVM dialect, with C entry points.
  Host
};

/// How a module is compiled.
struct CompilerOptions {
  /// "host", "sm_80" or "sm_90a".
  std::string target = "host";
  OutputKind output = OutputKind::SharedLibrary;
  /// The last stage to run; by default, what the output needs.
  std::optional<Stage> stopAfter;
  /// Whether to look for attention in linalg.
  bool raise = true;
  /// What is taken for granted there, as of attn-raise-linalg: that every row
  /// keeps a pair, and that weights are multiplied by 0 and 1 alone.
  bool assumeKeptRows = false;
  bool assumeDropoutMasks = false;
  /// Whether to add the f64 reference of each function.
  bool withReference = false;
  /// A schedule for all attentions, as text; empty to choose.
  std::string schedule;
  /// A file of measured times to choose by, written by attn-tune; may be empty.
  std::string database;
  /// Where the decisions of dropout are made, as of attn-hoist-rng, and the
  /// bytes that a mask of them may take: if negative, an eighth of the memory.
  std::string dropout = "in-kernel";
  int64_t maskBudget = -1;
  /// Bytes that the sums of the gradients of queries may take; if negative, as
  /// many as it takes.
  int64_t sumBudget = -1;
  /// Whether functions take the plans of masks that read tensors, which
  /// functions of their own make, as of attn-plan-masks.
  bool explicitPlans = false;

  /// Whether to keep kernels as PTX, to be compiled when they are loaded.
  std::optional<bool> embedPTX;
  /// The PTX version times 10; 0 for what the target needs.
  int64_t ptxVersion = 0;
  /// Folder of the CUDA toolkit; found by itself if empty.
  std::string toolkit;
  /// More options for the assembler, separated by spaces.
  std::string assemblerOptions;
  bool failOnSpills = false;
  /// Whether to remark on the registers of kernels.
  bool report = false;

  HostObjectOptions host;
  LinkOptions link;

  /// Called for the pass manager of each stage, to add instrumentation.
  std::function<LogicalResult(PassManager &)> configure;
  /// Called with the name of each piece of work when it starts.
  std::function<void(StringRef)> onProgress;

  /// Whether unfinished files are removed when a signal ends the process, by
  /// handlers that are installed for it: for programs, not for libraries.
  bool removeOnSignals = false;

  bool isGPU() const { return target != "host"; }
};

/// Names of the stages: "input", "raise", ..., "host".
std::optional<Stage> parseStage(StringRef name);

/// Names of the outputs: "mlir", "llvm", "ptx", "cubin", "obj", "so", "header".
std::optional<OutputKind> parseOutputKind(StringRef name);

/// The output that the extension of a file name stands for.
std::optional<OutputKind> getOutputKindForFile(StringRef file);

/// Whether `name` is a target.
bool isKnownTarget(StringRef name);

/// Sets an option that is named, and whose value is written, as on the command
/// line of attn-compile. Returns an error text if there is no such option or
/// value.
std::optional<std::string> setOption(CompilerOptions &options, StringRef name,
                                     StringRef value);

/// Gives options that were left open the value that follows from the others.
/// Returns an error text if options contradict one another.
std::optional<std::string> completeOptions(CompilerOptions &options);

/// Parses the main file of `sourceMgr`, which is text or bytecode. Arguments of
/// functions keep their names in the attribute `attn.name`. Returns null, after
/// an error, if it is malformed.
OwningOpRef<ModuleOp> parseModule(llvm::SourceMgr &sourceMgr,
                                  MLIRContext &context);

/// Runs the stages up to and including `last` on `module`.
LogicalResult runStages(ModuleOp module, const CompilerOptions &options,
                        Stage last);

/// Compiles `module` and writes the output to the file `path`, or to the
/// standard output if that is "-". The file is written in full or not at all.
LogicalResult compileToFile(ModuleOp module, const CompilerOptions &options,
                            StringRef path);

/// Compiles `module` and appends the output to `buffer`.
LogicalResult compileToBuffer(ModuleOp module, const CompilerOptions &options,
                              SmallVectorImpl<char> &buffer);

/// Writes a C header for the functions of a module that has been through the
/// stage `Bufferize`.
void writeHeader(ModuleOp module, StringRef target, bool withReference,
                 raw_ostream &os);

} // namespace mlir::attn

#endif // ATTN_COMPILER_COMPILER_H
