//===- Probe.h - Measures the rates of a device -----------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The ceilings of the device at hand, as `#attn.device`.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_ATTN_RUN_PROBE_H
#define ATTN_TOOLS_ATTN_RUN_PROBE_H

#include "Options.h"

namespace attnrt {

/// Measures the device of `options` and prints its attribute, or an object of
/// JSON.
ExitCode probeDevice(const Options &options);

} // namespace attnrt

#endif // ATTN_TOOLS_ATTN_RUN_PROBE_H
