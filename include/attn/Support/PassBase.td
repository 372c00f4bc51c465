//===- PassBase.td - Base of the passes --------------------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The base class of all passes of the project.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_SUPPORT_PASSBASE_TD
#define ATTN_SUPPORT_PASSBASE_TD

include "mlir/Pass/PassBase.td"

/// A pass whose messages about unknown options list the known ones.
class Attn_Pass<string passArg, string operation = "">
    : PassBase<passArg, "::mlir::attn::PassWithKnownOptions<"
                        "::mlir::OperationPass<" # operation # ">>">;

#endif // ATTN_SUPPORT_PASSBASE_TD
