//===- HostCode.h - Modules compiled in this process ------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The compiler's object code, linked into this process.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_FUZZ_HOSTCODE_H
#define ATTN_TEST_FUZZ_HOSTCODE_H

#include "RandomChoices.h"
#include "attn-runtime/attn_runtime.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"

#include <memory>

namespace mlir::attn::fuzz {

class HostCode {
public:
  /// Compiles the one function of `module` for the host. Returns null, after an
  /// error, if the compiler refuses it.
  static std::unique_ptr<HostCode> compile(ModuleOp module,
                                           RandomChoices &random);
  ~HostCode();

  const attn_function &getFunction() const { return *function; }

private:
  HostCode(llvm::orc::LLJIT &jit, llvm::orc::JITDylib &library,
           const attn_function *function)
      : jit(jit), library(library), function(function) {}

  llvm::orc::LLJIT &jit;
  llvm::orc::JITDylib &library;
  const attn_function *function;
};

} // namespace mlir::attn::fuzz

#endif // ATTN_TEST_FUZZ_HOSTCODE_H
