//===- ToyTarget.h - A target of its own ----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TOY_TARGET_H
#define TOY_TARGET_H

namespace toy {
/// Adds the target `sm_89` to the registry of targets.
void registerToyTarget();
} // namespace toy

#endif // TOY_TARGET_H
