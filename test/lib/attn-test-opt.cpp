//===- attn-test-opt.cpp - attn-opt for tests -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// mlir-opt with the dialects and passes of the project, and with those of
// tests.
//
//===----------------------------------------------------------------------===//

#include "TestAttn.h"
#include "attn/InitAllDialects.h"
#include "attn/InitAllPasses.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::attn::registerCompilerDialects(registry);
  registry.insert<test_attn::TestAttnDialect>();
  mlir::registerAllPasses();
  mlir::attn::registerAllPasses();
  test_attn::registerTestTarget();
  test_attn::registerTestPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Attn test driver\n", registry));
}
