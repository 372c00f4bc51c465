//===- ProbeKernels.h - Kernels that keep one unit busy --------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PTX of the kernels that measure a device. The driver assembles it, so that
// they run on devices that this program does not know.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_ATTN_RUN_PROBEKERNELS_H
#define ATTN_TOOLS_ATTN_RUN_PROBEKERNELS_H

#include <cstdint>
#include <string>
#include <vector>

namespace attnrt {

/// A kernel of one unit: each block repeats its instructions and writes how
/// many cycles and nanoseconds that took.
struct UnitKernel {
  /// The figure of `#attn.device` that it measures, and its kernel's name.
  std::string figure;
  std::string ptx;
  int32_t threads;
  /// What one block counts in one repetition: operations, or bytes.
  double perRepeat;
  bool isArchSpecific = false;
};

/// The kernels for a device of compute capability `major`.`minor`; parameters
/// are the address of the results, two 64-bit words for each block, and the
/// number of repetitions.
std::vector<UnitKernel> getUnitKernels(int32_t major, int32_t minor);

/// A kernel that reads memory, `passes` times, and copies it if a destination
/// is given. Parameters: source, destination or null, number of blocks of 16
/// bytes, which is a multiple of four times the number of threads, and passes.
std::string getStreamKernel();

/// Threads of a block of the latter.
inline constexpr int32_t streamThreads = 1024;

} // namespace attnrt

#endif // ATTN_TOOLS_ATTN_RUN_PROBEKERNELS_H
