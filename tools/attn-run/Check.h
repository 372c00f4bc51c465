//===- Check.h - Comparison with the reference ------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs the f64 reference of a function and compares the outputs of the run with
// it.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_ATTN_RUN_CHECK_H
#define ATTN_TOOLS_ATTN_RUN_CHECK_H

#include "Report.h"

namespace attnrt {

/// Compares the outputs among `arguments`, which hold the results of a run.
int32_t checkOutputs(const attn_function &function, const Options &options,
                     const std::vector<Argument> &arguments,
                     CheckResult &result);

/// The figures of one output.
OutputSummary summarize(const Argument &argument);

/// Views of all arguments, as functions take them.
class ViewList {
public:
  explicit ViewList(const std::vector<Argument> &arguments);

  attn_tensor &operator[](size_t index) { return views[index]; }
  const attn_tensor *const *getPointers() const { return pointers.data(); }

private:
  std::vector<attn_tensor> views;
  std::vector<const attn_tensor *> pointers;
};

} // namespace attnrt

#endif // ATTN_TOOLS_ATTN_RUN_CHECK_H
