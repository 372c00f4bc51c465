//===- LibraryFile.h - Files of shared libraries ----------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks of shared libraries before they are loaded: a file that is cut off
// ends the process when its pages are touched, and one that was altered does
// anything.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_RUNTIME_SUPPORT_LIBRARYFILE_H
#define ATTN_LIB_RUNTIME_SUPPORT_LIBRARYFILE_H

#include <cstddef>
#include <cstdint>

namespace attnrt {

/// Checks that `data`, the contents of the file `name`, has all bytes that its
/// headers give it, and the checksum that attn-compile writes behind these, if
/// there is anything behind them.
int32_t checkLibraryContents(const unsigned char *data, size_t size,
                             const char *name);

} // namespace attnrt

#endif // ATTN_LIB_RUNTIME_SUPPORT_LIBRARYFILE_H
