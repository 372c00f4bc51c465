//===- InitAllPasses.cpp - Registration of passes -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Makes the passes of the project known to textual pipelines.
//
//===----------------------------------------------------------------------===//

#include "attn/InitAllPasses.h"
#include "attn/Autodiff/Passes.h"
#include "attn/Compiler/Passes.h"
#include "attn/Compiler/Pipelines.h"
#include "attn/Conversion/AttnTileToVector/AttnTileToVector.h"
#include "attn/Conversion/Passes.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "attn/Distributed/Passes.h"
#include "attn/Fusion/Passes.h"
#include "attn/Scheduling/Passes.h"
#include "attn/Target/Passes.h"
#include "attn/Target/TargetInfo.h"

using namespace mlir;

void attn::registerAllPasses() {
  registerAttnAutodiffPasses();
  registerAttnCompilerPasses();
  registerAttnConversionPasses();
  registerAttnDistributedPasses();
  registerAttnFusionPasses();
  registerAttnSchedulingPasses();
  registerAttnTargetPasses();
  registerAttnTransformsPasses();
  attn_tile::registerAttnTileTransformsPasses();
  registerAllTargets();
  registerPipelines();
  registerHostLoweringPipeline();
}
