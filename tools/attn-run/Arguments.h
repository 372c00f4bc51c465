//===- Arguments.h - The arguments of a run ---------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds out the shapes of a call's arguments and makes the tensors.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_ATTN_RUN_ARGUMENTS_H
#define ATTN_TOOLS_ATTN_RUN_ARGUMENTS_H

#include "Options.h"

namespace attnrt {

/// One argument in host memory.
struct Argument {
  const attn_tensor_spec *spec = nullptr;
  HostTensor tensor;
  /// Where its values come from, for the report.
  std::string source;
  /// The file to write it to, if any.
  std::string outputPath;
};

/// Makes all arguments: inputs with their values, outputs poisoned.
int32_t makeArguments(const attn_function &function, const Options &options,
                      std::vector<Argument> &arguments);

/// "name: bf16[B, 32, S, 128]", as --list prints it.
std::string formatSpec(const attn_function &function,
                       const attn_tensor_spec &spec);

} // namespace attnrt

#endif // ATTN_TOOLS_ATTN_RUN_ARGUMENTS_H
