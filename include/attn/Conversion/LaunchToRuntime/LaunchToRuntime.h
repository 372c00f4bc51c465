//===- LaunchToRuntime.h - Launches become runtime calls --------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Declares the conversion pass.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_CONVERSION_LAUNCHTORUNTIME_LAUNCHTORUNTIME_H
#define ATTN_CONVERSION_LAUNCHTORUNTIME_LAUNCHTORUNTIME_H

#include "attn/Support/PassOptions.h"

namespace mlir::attn {

#define GEN_PASS_DECL_CONVERTLAUNCHTORUNTIMEPASS
#include "attn/Conversion/Passes.h.inc"

} // namespace mlir::attn

#endif // ATTN_CONVERSION_LAUNCHTORUNTIME_LAUNCHTORUNTIME_H
