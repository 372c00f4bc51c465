//===- HostObject.h - Object code for the host ------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From a module of the LLVM dialect to object files and shared libraries.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TARGET_HOSTOBJECT_H
#define ATTN_TARGET_HOSTOBJECT_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/Module.h"

#include <memory>
#include <string>

namespace llvm {
class raw_pwrite_stream;
class TargetMachine;
} // namespace llvm

namespace mlir::attn {

/// The processor and the optimization level to compile for.
struct HostObjectOptions {
  /// "native", or a name that LLVM knows, such as "x86-64-v3". Empty for
  /// "native", unless the target asks for another.
  std::string cpu;
  /// 0: no optimization. 1: the passes that kernels need. 2 and 3: LLVM's
  /// pipelines, which take longer.
  unsigned optLevel = 1;
};

/// The vector registers of a processor.
struct HostVectors {
  int64_t bits;
  int64_t registers;
};

/// How to link artifacts.
struct LinkOptions {
  /// The compiler driver or linker (`ld`, `ld.*`) to link with, looked up in
  /// the path. Empty for `ld.lld` in the folder `bin` next to the runtime's, or
  /// else the first of `cc`, `ld.lld` and `ld` in the path.
  std::string linker;
  /// The folder of the runtime library.
  std::string runtimeDir;
  /// Whether to link the runtime into the artifact.
  bool staticRuntime = false;
};

/// The target machine of the host. Emits an error and returns null if LLVM does
/// not support it.
std::unique_ptr<llvm::TargetMachine>
createHostTargetMachine(Location loc, const HostObjectOptions &options);

/// The vector registers of the host; the smallest ones if it is not known.
HostVectors getHostVectors(const HostObjectOptions &options);

/// Translates a module of the LLVM dialect and optimizes the result. Returns
/// null, after an error, on failure.
std::unique_ptr<llvm::Module>
translateForHost(ModuleOp module, llvm::LLVMContext &context,
                 llvm::TargetMachine &machine,
                 const HostObjectOptions &options);

/// Writes the object code of `llvmModule`.
LogicalResult emitObject(Location loc, llvm::Module &llvmModule,
                         llvm::TargetMachine &machine,
                         llvm::raw_pwrite_stream &stream);

/// Compiles a module of the LLVM dialect to object code: one object for few
/// functions, and up to `maxObjects` for many, which threads of the module's
/// context compile at the same time. The number of objects and their contents
/// depend on the module and the arguments alone. Several objects refer to each
/// other by hidden symbols: they are for one library. `onProgress` is called
/// with the names of the steps, "llvm" and "object", when they begin.
FailureOr<SmallVector<SmallString<0>>>
emitObjects(ModuleOp module, const HostObjectOptions &options,
            unsigned maxObjects,
            llvm::function_ref<void(StringRef)> onProgress);

/// Links object files into the shared library `library`.
LogicalResult linkSharedLibrary(Location loc, ArrayRef<std::string> objects,
                                StringRef library, const LinkOptions &options);

} // namespace mlir::attn

#endif // ATTN_TARGET_HOSTOBJECT_H
