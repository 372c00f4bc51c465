//===- StreamingOpInterface.cpp - Reductions over keys --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The interface of operations whose kernels stream tiles of keys and values.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/IR/StreamingOpInterface.h"

using namespace mlir;
using namespace mlir::attn_tile;

StreamedTile::~StreamedTile() = default;

CombinedElement::~CombinedElement() = default;

GradRows::~GradRows() = default;

#include "attn/Dialect/AttnTile/IR/StreamingOpInterface.cpp.inc"
