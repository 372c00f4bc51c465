//===- AttnMergeOps.h - Partial results of attention ------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The merge of partial results of attention, and its gradient.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTNMERGEOPS_H
#define ATTN_DIALECT_ATTN_IR_ATTNMERGEOPS_H

#include "attn/Dialect/Attn/IR/AttnOps.h"

#define GET_OP_CLASSES
#include "attn/Dialect/Attn/IR/AttnMergeOps.h.inc"

#endif // ATTN_DIALECT_ATTN_IR_ATTNMERGEOPS_H
