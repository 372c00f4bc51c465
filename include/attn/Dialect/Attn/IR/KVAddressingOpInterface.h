//===- KVAddressingOpInterface.h - Own KV addressings -----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The interface of attention whose KV addressing does not follow from the
// operands of AttentionOpInterface.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_KVADDRESSINGOPINTERFACE_H
#define ATTN_DIALECT_ATTN_IR_KVADDRESSINGOPINTERFACE_H

#include "attn/Dialect/Attn/IR/AttnInterfaces.h"

#include "attn/Dialect/Attn/IR/KVAddressingOpInterface.h.inc"

#endif // ATTN_DIALECT_ATTN_IR_KVADDRESSINGOPINTERFACE_H
