//===- Attn.td - Entry of the attn dialect's TableGen ------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Umbrella of the dialect, its attributes and its operations.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTN_TD
#define ATTN_DIALECT_ATTN_IR_ATTN_TD

include "attn/Dialect/Attn/IR/AttnDialect.td"
include "attn/Dialect/Attn/IR/AttnAttrs.td"
include "attn/Dialect/Attn/IR/AttnDataMasks.td"
include "attn/Dialect/Attn/IR/AttnOps.td"
include "attn/Dialect/Attn/IR/AttnHeadOps.td"
include "attn/Dialect/Attn/IR/AttnCacheOps.td"
include "attn/Dialect/Attn/IR/AttnCommOps.td"
include "attn/Dialect/Attn/IR/AttnLinearOps.td"
include "attn/Dialect/Attn/IR/AttnMergeOps.td"
include "attn/Dialect/Attn/IR/AttnQuantizeOp.td"

#endif // ATTN_DIALECT_ATTN_IR_ATTN_TD
