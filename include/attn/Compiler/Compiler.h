//===- Compiler.h - Attn as a library --------------------------*- C++ -*--===//
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

#include "attn/Distributed/Passes.h"
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

/// The output of a compilation.
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
  /// The passes of each kernel's schedule have run.
  Kernel,
  /// Kernels are compiled.
  Device,
  /// Everything is in the LLVM dialect, with C entry points.
  Host
};

/// How a module is compiled.
struct CompilerOptions {
  /// Name of a registered target, such as "host" or "sm_90a".
  std::string target = "host";
  OutputKind output = OutputKind::SharedLibrary;
  /// The last stage to run; by default, the one that the output needs.
  std::optional<Stage> stopAfter;
  /// Whether to look for attention in linalg.
  bool raise = true;
  /// Assumptions of attn-raise-linalg: every row keeps a pair, and tensors that
  /// probabilities are multiplied by hold 0 and 1 alone.
  bool assumeKeptRows = false;
  bool assumeDropoutMasks = false;
  /// The ranks that attn-shard-attention distributes attention over, 0 for
  /// functions of the whole tensors, its method, and the degree of 'usp', 0 to
  /// choose.
  int64_t ranks = 0;
  ShardMethod shardMethod = ShardMethod::Ring;
  int64_t ulyssesDegree = 0;
  /// Whether to add the f64 reference of each function.
  bool withReference = false;
  /// A schedule for all attentions, as text; empty to choose.
  std::string schedule;
  /// A file of measured times to choose by, written by attn-tune; may be empty.
  std::string database;
  /// A calibration file that replaces the one of the library; none if empty.
  std::string calibration;
  /// Where dropout keep masks are generated, as in attn-hoist-rng, and the
  /// bytes that a keep mask may take: if negative, an eighth of the device's
  /// memory.
  std::string dropout = "in-kernel";
  int64_t maskBudget = -1;
  /// Bytes that the dQ accumulator may take; unlimited if negative.
  int64_t dqWorkspaceBytes = -1;
  /// Whether functions take the block masks of masks that read tensors as
  /// arguments, and separate functions create them, as in
  /// attn-create-block-masks.
  bool explicitBlockMasks = false;

  /// Whether to keep kernels as PTX, to be compiled when they are loaded.
  std::optional<bool> embedPTX;
  /// The PTX version times 10; 0 for the oldest one that has all instructions
  /// of a kernel.
  int64_t ptxVersion = 0;
  /// Folder of the CUDA toolkit; searched for if empty.
  std::string toolkit;
  /// More options for the assembler, separated by spaces.
  std::string assemblerOptions;
  bool failOnSpills = false;
  /// Whether to remark on the registers of kernels.
  bool report = false;

  HostObjectOptions host;
  LinkOptions link;

  /// Whether to verify the IR after each pass, and not after each stage alone.
  bool verifyEach = false;
  /// Called for the pass manager of each stage, to add instrumentation.
  std::function<LogicalResult(PassManager &)> configure;
  /// Called with the name of each unit of work when it starts.
  std::function<void(StringRef)> onProgress;

  /// Whether to install signal handlers that remove unfinished files: for
  /// programs, not for libraries.
  bool removeOnSignals = false;

  /// Whether kernels run on a GPU.
  bool isGPU() const;
};

/// Names of the stages: "input", "raise", ..., "host".
std::optional<Stage> parseStage(StringRef name);

/// Names of the outputs: "mlir", "llvm", "ptx", "cubin", "obj", "so", "header".
std::optional<OutputKind> parseOutputKind(StringRef name);

/// The output that the extension of a file name stands for.
std::optional<OutputKind> getOutputKindForFile(StringRef file);

/// Sets an option; `name` and `value` are as on the command line of
/// attn-compile. Returns an error text if there is no such option or value.
std::optional<std::string> setOption(CompilerOptions &options, StringRef name,
                                     StringRef value);

/// Sets options without a value by the values of the others. Returns an error
/// text if options contradict one another.
std::optional<std::string> completeOptions(CompilerOptions &options);

/// Parses the main file of `sourceMgr`: text, or bytecode if that is allowed,
/// since damaged bytecode can crash MLIR's reader. Arguments of functions keep
/// their names in the attribute `attn.name`. Returns null, after an error, if
/// the file is malformed.
OwningOpRef<ModuleOp> parseModule(llvm::SourceMgr &sourceMgr,
                                  MLIRContext &context,
                                  bool allowBytecode = false);

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
