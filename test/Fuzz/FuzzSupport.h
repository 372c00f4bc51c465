//===- FuzzSupport.h - What the fuzzers share -------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Contexts for many inputs, and which inputs are kept from MLIR's parser.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_FUZZ_FUZZSUPPORT_H
#define ATTN_TEST_FUZZ_FUZZSUPPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <memory>

namespace mlir::attn::fuzz {

/// Whether `text` may make MLIR read out of bounds, through no fault of this
/// project. Defects of MLIR 22.1 are named at the definition.
bool mayHitDefectOfMLIR(StringRef text);

/// Whether canonicalization of `module` may do so.
bool mayHitDefectOfMLIR(ModuleOp module);

/// Tells libFuzzer that an input did what `feature` says: inputs that do what
/// none before them did are kept, and changed further.
void noteFeature(StringRef feature);

/// Notes the names of the operations below `op`, each after `prefix`.
void noteOperations(Operation *op, StringRef prefix);

/// Parses and verifies modules in a context that is replaced now and then: what
/// is uniqued in one is never freed, and a process sees millions of modules.
/// Diagnostics are features of the input, and are not printed.
class ModuleParser {
public:
  ModuleParser(DialectRegistry registry, unsigned modulesPerContext)
      : registry(std::move(registry)), modulesPerContext(modulesPerContext) {}

  /// Starts with a new module. From time to time, this invalidates the modules
  /// that were parsed before.
  MLIRContext &beginModule();

  /// Parses `text`, or bytecode if that is allowed, in the context of the last
  /// call of beginModule. Returns null, after an error, if it is malformed.
  OwningOpRef<ModuleOp> parse(StringRef text, bool allowBytecode = false);

private:
  DialectRegistry registry;
  std::unique_ptr<MLIRContext> context;
  unsigned modulesPerContext;
  unsigned numModules = 0;
};

} // namespace mlir::attn::fuzz

#endif // ATTN_TEST_FUZZ_FUZZSUPPORT_H
