//===- Net.cpp - The dialect ----------------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Net.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"

#include "NetDialect.cpp.inc"

#define GET_OP_CLASSES
#include "NetOps.cpp.inc"

void net::NetDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "NetOps.cpp.inc"
      >();
}
