//===- attn-opt.cpp - Optimizer driver ---------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// mlir-opt with the dialects and passes of the project.
//
//===----------------------------------------------------------------------===//

#include "attn/InitAllDialects.h"
#include "attn/InitAllPasses.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::attn::registerCompilerDialects(registry);
  mlir::registerAllPasses();
  mlir::attn::registerAllPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Attn optimizer driver\n", registry));
}
