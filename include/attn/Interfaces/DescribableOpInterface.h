//===- DescribableOpInterface.h - Operands for callers ---------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Names, equal sizes and alignment of operands that are arguments of compiled
// functions.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_INTERFACES_DESCRIBABLEOPINTERFACE_H
#define ATTN_INTERFACES_DESCRIBABLEOPINTERFACE_H

#include "mlir/IR/OpDefinition.h"

#include <string>

namespace mlir::attn {

/// An operand, or null, and the name of an argument that is it.
struct DescribedOperand {
  Value value;
  std::string name;
};

/// A dimension of an operand.
using SizeOfOperand = std::pair<Value, int64_t>;

/// Dimensions of operands that must have equal sizes, and the name of the size.
struct EqualOperandSizes {
  StringRef name;
  SmallVector<SizeOfOperand> sizes;
};

} // namespace mlir::attn

#include "attn/Interfaces/DescribableOpInterface.h.inc"

#endif // ATTN_INTERFACES_DESCRIBABLEOPINTERFACE_H
