//===- FunctionArguments.h - Notes on arguments of functions ----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Passes that replace an operation by code note on arguments of the function
// what callers cannot tell from the code.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_FUNCTIONARGUMENTS_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_FUNCTIONARGUMENTS_H

#include "attn/Interfaces/DescribableOpInterface.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mlir::attn {

/// The argument of `func` that `value` is, apart from casts; null if it is none
/// or `func` is null.
BlockArgument getFunctionArgument(FunctionOpInterface func, Value value);

/// Names an argument of `func` `base`, with a number if that name is taken,
/// unless it has a name.
void nameArgument(RewriterBase &rewriter, FunctionOpInterface func,
                  BlockArgument argument, StringRef base);

/// Notes that dimension `dim` of an argument of `func` and `otherDim` of
/// another one must be equal.
void noteEqualSizes(RewriterBase &rewriter, FunctionOpInterface func,
                    BlockArgument argument, int64_t dim, BlockArgument other,
                    int64_t otherDim);

/// Notes the names and the equal sizes of operands of `op` that are arguments
/// of the function.
void noteArguments(RewriterBase &rewriter, DescribableOpInterface op);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_FUNCTIONARGUMENTS_H
