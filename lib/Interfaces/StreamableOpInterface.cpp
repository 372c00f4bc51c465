//===- StreamableOpInterface.cpp - Axes cut into pieces -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The generated methods of the interface, and diagnostics.
//
//===----------------------------------------------------------------------===//

#include "attn/Interfaces/StreamableOpInterface.h"

#include "attn/Interfaces/StreamableOpInterface.cpp.inc"

using namespace mlir;
using namespace mlir::attn;

std::string attn::describeMissingLemma(StringRef lemma) {
  return ("(missing lemma '" + lemma + "')").str();
}
