//===- StreamEvents.h - Order among streams ---------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Events by which the streams of several ranks wait for each other.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_RUNTIME_STREAMEVENTS_H
#define ATTN_LIB_RUNTIME_STREAMEVENTS_H

#include "CudaDriver.h"

namespace attnrt {

/// A place in a stream. The event is created when it is first recorded, in the
/// current context. Functions return an attn_status.
class StreamEvent {
public:
  StreamEvent() = default;
  StreamEvent(const StreamEvent &) = delete;
  StreamEvent &operator=(const StreamEvent &) = delete;
  ~StreamEvent();

  /// Moves the event behind all work that `stream` holds.
  int32_t record(void *stream);
  /// Later work of `stream` waits for the event.
  int32_t makeWait(void *stream) const;

private:
  const CudaDriver *driver = nullptr;
  CUevent event = nullptr;
};

/// Copies memory of devices in the order of `stream`.
int32_t copyOnStream(void *destination, const void *source, int64_t bytes,
                     void *stream);

} // namespace attnrt

#endif // ATTN_LIB_RUNTIME_STREAMEVENTS_H
