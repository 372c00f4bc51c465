//===- InitAllDialects.cpp - Registration of dialects ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Adds the dialects of the project, and their external models, to a registry.
//
//===----------------------------------------------------------------------===//

#include "attn/InitAllDialects.h"
#include "attn/Autodiff/Differentiation.h"
#include "attn/Conversion/AttnToAttnTile/StreamingOpInterfaceImpl.h"
#include "attn/Dialect/Attn/IR/AttnDialect.h"
#include "attn/Dialect/Attn/Transforms/BufferizableOpInterfaceImpl.h"
#include "attn/Dialect/AttnTile/IR/AttnTileDialect.h"
#include "attn/Dialect/AttnTile/Transforms/ScheduleInterfaceImpl.h"
#include "attn/Fusion/FusibleOpInterfaceImpl.h"
#include "attn/PerfModel/CostOpInterfaceImpl.h"
#include "attn/PerfModel/StreamableOpInterfaceImpl.h"
#include "attn/Target/TargetInfo.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"

using namespace mlir;

void attn::registerAllDialects(DialectRegistry &registry) {
  registry.insert<AttnDialect, attn_tile::AttnTileDialect>();
  registerBufferizableOpInterfaceExternalModels(registry);
  registerCostOpInterfaceExternalModels(registry);
  registerDifferentiableOpInterfaceExternalModels(registry);
  registerFusibleOpInterfaceExternalModels(registry);
  registerStreamableOpInterfaceExternalModels(registry);
  registerStreamingOpInterfaceExternalModels(registry);
  registerStreamingGradOpInterfaceExternalModels(registry);
  attn_tile::registerScheduleInterfaceExternalModels(registry);
  registerAllTargets();
}

void attn::registerCompilerDialects(DialectRegistry &registry) {
  ::mlir::registerAllDialects(registry);
  ::mlir::registerAllExtensions(registry);
  registerAllToLLVMIRTranslations(registry);
  attn::registerAllDialects(registry);
}
