//===- NcclCommunicator.cpp - Ranks that communicate by NCCL --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// NCCL is a library that is opened when it is first needed. Its communicators
// do not block: calls that wait for other ranks report progress, so that a rank
// can give up. A thread watches the calls that streams hold, and aborts the
// communicator if one of them takes too long or NCCL reports an error.
//
//===----------------------------------------------------------------------===//

#include "CallAgreement.h"
#include "CudaDriver.h"
#include "attn-runtime/attn_comm.h"

#include <chrono>
#include <cinttypes>
#include <climits>
#include <condition_variable>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <memory>
#include <mutex>
#include <new>
#include <pthread.h>
#include <thread>
#include <vector>

using namespace attnrt;
using Clock = std::chrono::steady_clock;

namespace {

using NcclResult = int;
using NcclComm = struct ncclComm *;

/// The values of the library's enumerations that are used.
enum : int {
  NcclSuccess = 0,
  NcclInProgress = 7,

  NcclUint8 = 1,
  NcclFloat32 = 7,
  NcclFloat64 = 8,

  NcclSum = 0,
};

/// ncclConfig_t of version 2.14, which later versions accept.
struct NcclConfig {
  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
};
static_assert(sizeof(NcclConfig) == 24, "layout of ncclConfig_t");

/// X(member, symbol, parameters)
#define ATTNRT_NCCL_FUNCTIONS(X)                                               \
  X(getUniqueId, "ncclGetUniqueId", (attn_comm_nccl_id *))                     \
  X(commInit, "ncclCommInitRankConfig",                                        \
    (NcclComm *, int, attn_comm_nccl_id, int, NcclConfig *))                   \
  X(commGetAsyncError, "ncclCommGetAsyncError", (NcclComm, NcclResult *))      \
  X(commFinalize, "ncclCommFinalize", (NcclComm))                              \
  X(commDestroy, "ncclCommDestroy", (NcclComm))                                \
  X(commAbort, "ncclCommAbort", (NcclComm))                                    \
  X(groupStart, "ncclGroupStart", (void))                                      \
  X(groupEnd, "ncclGroupEnd", (void))                                          \
  X(send, "ncclSend", (const void *, size_t, int, int, NcclComm, CUstream))    \
  X(receive, "ncclRecv", (void *, size_t, int, int, NcclComm, CUstream))       \
  X(allGather, "ncclAllGather",                                                \
    (const void *, void *, size_t, int, NcclComm, CUstream))                   \
  X(reduceScatter, "ncclReduceScatter",                                        \
    (const void *, void *, size_t, int, int, NcclComm, CUstream))

/// The library, or why it could not be opened.
struct NcclLibrary {
// Names and lists of parameters cannot be put into parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define ATTNRT_MEMBER(member, symbol, parameters)                              \
  NcclResult(*member) parameters = nullptr;
  ATTNRT_NCCL_FUNCTIONS(ATTNRT_MEMBER)
#undef ATTNRT_MEMBER
  // NOLINTEND(bugprone-macro-parentheses)
  const char *(*getErrorString)(NcclResult) = nullptr;
  const char *(*getLastError)(NcclComm) = nullptr;
  int32_t status = ATTN_OK;
  char error[512] = {};

  NcclLibrary() {
    load();
    if (status != ATTN_OK)
      snprintf(error, sizeof(error), "%s", attnGetLastError());
  }

private:
  void load();
};

} // namespace

void NcclLibrary::load() {
  const char *chosen = getenv("ATTN_NCCL_LIBRARY");
  const char *path = chosen && *chosen ? chosen : "libnccl.so.2";
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    status = attnrtSetError(
        ATTN_UNSUPPORTED,
        "cannot open NCCL: %s; install it, or name it by ATTN_NCCL_LIBRARY",
        dlerror());
    return;
  }
  struct LibraryFunction {
    /// The member that points to the function.
    void *member;
    const char *symbol;
    bool isRequired;
  };
  const LibraryFunction functions[] = {
#define ATTNRT_REQUIRED(member, symbol, parameters)                            \
  {static_cast<void *>(&(member)), symbol, true},
      ATTNRT_NCCL_FUNCTIONS(ATTNRT_REQUIRED)
#undef ATTNRT_REQUIRED
          {static_cast<void *>(&getErrorString), "ncclGetErrorString", true},
      {static_cast<void *>(&getLastError), "ncclGetLastError", false},
  };
  for (const LibraryFunction &function : functions) {
    void *address = dlsym(library, function.symbol);
    if (!address && function.isRequired) {
      status = attnrtSetError(ATTN_UNSUPPORTED,
                              "the NCCL library '%s' has no function '%s'; "
                              "version 2.14 or later is needed",
                              path, function.symbol);
      return;
    }
    memcpy(function.member, static_cast<const void *>(&address),
           sizeof(address));
  }
}

static int32_t getNccl(const NcclLibrary **library) {
  static const NcclLibrary loaded;
  if (loaded.status != ATTN_OK)
    return attnrtSetError(loaded.status, "%s", loaded.error);
  *library = &loaded;
  return ATTN_OK;
}

//===----------------------------------------------------------------------===//
// One rank
//===----------------------------------------------------------------------===//

namespace {
/// A call that a stream may still hold.
struct PendingCall {
  const char *name;
  CUevent event;
  Clock::time_point submitted;
};

/// One rank of a group. All state is guarded by the mutex.
class NcclRank : public attn_comm {
public:
  NcclRank(const NcclLibrary &nccl, const CudaDriver &driver, CUcontext context,
           int64_t timeLimitMs)
      : nccl(nccl), driver(driver), context(context), timeLimit(timeLimitMs) {}
  NcclRank(const NcclRank &) = delete;
  NcclRank &operator=(const NcclRank &) = delete;
  ~NcclRank();

  /// Joins the group.
  int32_t join(const attn_comm_nccl_id &id);
  /// Runs `submit`, which makes calls of the library, in the order of `stream`.
  template <typename Submit>
  int32_t call(const char *name, void *stream, Submit submit);
  /// Fails, if the rank has not failed yet, with a text that names it.
  int32_t fail(int32_t code, const char *message) {
    std::lock_guard<std::mutex> lock(mutex);
    setFailure(code, "%s", message);
    return getFailure();
  }
  /// Sends and receives, if there are messages. Must be in a group of calls.
  NcclResult send(const void *data, int64_t bytes, int32_t to, void *stream) {
    return nccl.send(data, static_cast<size_t>(bytes), NcclUint8, to, comm,
                     static_cast<CUstream>(stream));
  }
  NcclResult receive(void *data, int64_t bytes, int32_t from, void *stream) {
    return nccl.receive(data, static_cast<size_t>(bytes), NcclUint8, from, comm,
                        static_cast<CUstream>(stream));
  }

  const NcclLibrary &nccl;
  NcclComm comm = nullptr;

private:
  /// The functions below expect that the mutex is held.
  void setFailure(int32_t code, const char *format, ...) ATTNRT_PRINTF(3, 4);
  int32_t getFailure() const { return attnrtSetError(status, "%s", text); }
  /// Waits until `result` of the call `name` says that it has succeeded.
  int32_t finish(const char *name, NcclResult result);
  /// Remembers the call `name` in `stream`, so that it is watched.
  int32_t track(const char *name, void *stream);
  void verifyProgress();

  static void *watch(void *self);
  void watch();

  const CudaDriver &driver;
  CUcontext context;
  const std::chrono::milliseconds timeLimit;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<PendingCall> pending;
  std::vector<CUevent> freeEvents;
  /// When a pending call was last seen to be complete.
  Clock::time_point lastProgress;
  pthread_t watcher = {};
  bool isWatched = false, hasEnded = false;
  int32_t status = ATTN_OK;
  char text[512] = "";
};
} // namespace

void NcclRank::setFailure(int32_t code, const char *format, ...) {
  if (status != ATTN_OK)
    return;
  char message[448];
  va_list values;
  va_start(values, format);
  vsnprintf(message, sizeof(message), format, values);
  va_end(values);
  status = code;
  snprintf(text, sizeof(text), "rank %d: %s", rank, message);
  // Ends what streams hold, too.
  if (comm)
    nccl.commAbort(comm);
  comm = nullptr;
}

int32_t NcclRank::finish(const char *name, NcclResult result) {
  Clock::time_point start = Clock::now(), deadline = start + timeLimit;
  while (result == NcclInProgress) {
    Clock::time_point now = Clock::now();
    if (now > deadline) {
      setFailure(ATTN_IO_ERROR, "waited %" PRId64 " ms in %s for other ranks",
                 int64_t(timeLimit.count()), name);
      return getFailure();
    }
    // The usual call takes microseconds.
    if (now - start < std::chrono::milliseconds(1))
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    if (NcclResult failed = nccl.commGetAsyncError(comm, &result))
      result = failed;
  }
  if (result == NcclSuccess)
    return ATTN_OK;
  const char *detail = nccl.getLastError ? nccl.getLastError(comm) : nullptr;
  bool hasDetail = detail && *detail;
  setFailure(ATTN_DRIVER_ERROR, "%s: %s%s%s", name, nccl.getErrorString(result),
             hasDetail ? ": " : "", hasDetail ? detail : "");
  return getFailure();
}

int32_t NcclRank::track(const char *name, void *stream) {
  // Work of a graph runs later, and perhaps more than once.
  int capturing = StreamCaptureStatusNone;
  auto *handle = static_cast<CUstream>(stream);
  if (driver.streamIsCapturing &&
      (driver.streamIsCapturing(handle, &capturing) ||
       capturing != StreamCaptureStatusNone))
    return ATTN_OK;
  CUevent event = nullptr;
  CUresult failed = CudaSuccess;
  if (freeEvents.empty()) {
    failed = driver.eventCreate(&event, EventDisableTiming);
  } else {
    event = freeEvents.back();
    freeEvents.pop_back();
  }
  if (!failed)
    failed = driver.eventRecord(event, handle);
  if (failed) {
    setCudaError(driver, failed, "cannot record an event");
    setFailure(ATTN_DRIVER_ERROR, "%s: %s", name, attnGetLastError());
    return getFailure();
  }
  Clock::time_point now = Clock::now();
  if (pending.empty()) {
    lastProgress = now;
    changed.notify_all();
  }
  pending.push_back({name, event, now});
  return ATTN_OK;
}

template <typename Submit>
int32_t NcclRank::call(const char *name, void *stream, Submit submit) {
  std::lock_guard<std::mutex> lock(mutex);
  if (status != ATTN_OK)
    return getFailure();
  NcclResult result = nccl.groupStart();
  if (result == NcclSuccess) {
    result = submit();
    NcclResult ended = nccl.groupEnd();
    if (result == NcclSuccess || result == NcclInProgress)
      result = ended;
  }
  if (int32_t failed = finish(name, result))
    return failed;
  return track(name, stream);
}

//===----------------------------------------------------------------------===//
// The thread that watches calls
//===----------------------------------------------------------------------===//

void *NcclRank::watch(void *self) {
  static_cast<NcclRank *>(self)->watch();
  return nullptr;
}

/// Forgets calls that are complete, and fails if the first of the others takes
/// too long or the library reports an error.
void NcclRank::verifyProgress() {
  while (!pending.empty()) {
    CUresult result = driver.eventQuery(pending.front().event);
    if (result == CudaErrorNotReady)
      break;
    if (result == CudaErrorDeinitialized) {
      // The process ends.
      hasEnded = true;
      return;
    }
    if (result) {
      setCudaError(driver, result, "a call of the stream failed");
      setFailure(ATTN_DRIVER_ERROR, "%s: %s", pending.front().name,
                 attnGetLastError());
      return;
    }
    lastProgress = Clock::now();
    freeEvents.push_back(pending.front().event);
    pending.pop_front();
  }
  NcclResult result = NcclSuccess;
  if (comm && nccl.commGetAsyncError(comm, &result) == NcclSuccess &&
      result != NcclSuccess && result != NcclInProgress)
    setFailure(ATTN_DRIVER_ERROR, "%s",
               nccl.getErrorString ? nccl.getErrorString(result) : "NCCL");
  if (pending.empty() || status != ATTN_OK)
    return;
  const PendingCall &first = pending.front();
  Clock::time_point since =
      first.submitted > lastProgress ? first.submitted : lastProgress;
  if (Clock::now() - since > timeLimit)
    setFailure(ATTN_IO_ERROR,
               "other ranks did not finish %s within %" PRId64 " ms",
               first.name, int64_t(timeLimit.count()));
}

void NcclRank::watch() {
  driver.ctxSetCurrent(context);
  // Queries of events are no part of a graph that some thread captures.
  int mode = StreamCaptureModeRelaxed;
  if (driver.exchangeCaptureMode)
    driver.exchangeCaptureMode(&mode);
  std::unique_lock<std::mutex> lock(mutex);
  while (!hasEnded && status == ATTN_OK) {
    if (pending.empty())
      changed.wait(lock, [&] { return hasEnded || !pending.empty(); });
    else
      changed.wait_for(lock, std::chrono::milliseconds(20));
    if (!hasEnded && status == ATTN_OK)
      verifyProgress();
  }
}

//===----------------------------------------------------------------------===//
// Joining and leaving
//===----------------------------------------------------------------------===//

int32_t NcclRank::join(const attn_comm_nccl_id &id) {
  std::lock_guard<std::mutex> lock(mutex);
  NcclConfig config;
  NcclResult result = nccl.commInit(&comm, size, id, rank, &config);
  if (int32_t failed = finish("joining the group", result))
    return failed;
  if (pthread_create(&watcher, nullptr, watch, this) != 0) {
    setFailure(ATTN_INTERNAL, "cannot start a thread that watches calls");
    return getFailure();
  }
  isWatched = true;
  return ATTN_OK;
}

NcclRank::~NcclRank() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    hasEnded = true;
    changed.notify_all();
  }
  if (isWatched)
    pthread_join(watcher, nullptr);
  // Waits for the calls that streams hold.
  if (comm && finish("leaving the group", nccl.commFinalize(comm)) == ATTN_OK)
    nccl.commDestroy(comm);
  for (const PendingCall &call : pending)
    freeEvents.push_back(call.event);
  for (CUevent event : freeEvents)
    driver.eventDestroy(event);
}

//===----------------------------------------------------------------------===//
// The functions of a communicator
//===----------------------------------------------------------------------===//

static NcclRank *getRank(attn_comm *comm) {
  return static_cast<NcclRank *>(comm);
}

/// The result of the first of two calls that fails.
static NcclResult combine(NcclResult first, NcclResult second) {
  return first == NcclSuccess || first == NcclInProgress ? second : first;
}

static int32_t sendReceive(attn_comm *comm, const void *send, int64_t sendBytes,
                           int32_t to, void *receive, int64_t receiveBytes,
                           int32_t from, void *stream) {
  NcclRank *self = getRank(comm);
  bool sends = to != ATTN_COMM_NO_PEER && sendBytes > 0;
  bool receives = from != ATTN_COMM_NO_PEER && receiveBytes > 0;
  if (!sends && !receives)
    return ATTN_OK;
  return self->call("send_recv", stream, [&] {
    NcclResult result = NcclSuccess;
    if (sends)
      result = self->send(send, sendBytes, to, stream);
    if (receives)
      result =
          combine(result, self->receive(receive, receiveBytes, from, stream));
    return result;
  });
}

static int32_t allGather(attn_comm *comm, const void *send, void *receive,
                         int64_t bytes, void *stream) {
  NcclRank *self = getRank(comm);
  return self->call("all_gather", stream, [&] {
    return self->nccl.allGather(send, receive, static_cast<size_t>(bytes),
                                NcclUint8, self->comm,
                                static_cast<CUstream>(stream));
  });
}

static int32_t allToAll(attn_comm *comm, const void *send, void *receive,
                        int64_t bytes, void *stream) {
  NcclRank *self = getRank(comm);
  if (bytes == 0)
    return ATTN_OK;
  return self->call("all_to_all", stream, [&] {
    NcclResult result = NcclSuccess;
    for (int32_t r = 0; r < self->size; ++r) {
      const char *part = static_cast<const char *>(send) + r * bytes;
      result = combine(result, self->send(part, bytes, r, stream));
      result = combine(result,
                       self->receive(static_cast<char *>(receive) + r * bytes,
                                     bytes, r, stream));
    }
    return result;
  });
}

static int32_t reduceScatter(attn_comm *comm, const void *send, void *receive,
                             int64_t count, int32_t dtype, void *stream) {
  NcclRank *self = getRank(comm);
  return self->call("reduce_scatter", stream, [&] {
    return self->nccl.reduceScatter(
        send, receive, static_cast<size_t>(count),
        dtype == ATTN_F64 ? NcclFloat64 : NcclFloat32, NcclSum, self->comm,
        static_cast<CUstream>(stream));
  });
}

static int32_t abortRank(attn_comm *comm, int32_t status, const char *text) {
  return getRank(comm)->fail(status, text);
}

static void destroyRank(attn_comm *comm) { delete getRank(comm); }

static const attn_comm_functions ncclFunctions = {
    ATTN_COMM_ABI_VERSION, ATTN_COMM_DEVICE, sendReceive, allGather, allToAll,
    reduceScatter,         abortRank,        destroyRank};

int32_t attn_comm_nccl_unique_id(attn_comm_nccl_id *id) {
  if (!id)
    return attnrtSetError(ATTN_INVALID_ARGUMENT, "'id' is null");
  const NcclLibrary *nccl;
  if (int32_t status = getNccl(&nccl))
    return status;
  if (NcclResult result = nccl->getUniqueId(id))
    return attnrtSetError(ATTN_DRIVER_ERROR, "cannot name a group of NCCL: %s",
                          nccl->getErrorString(result));
  return ATTN_OK;
}

int32_t attn_comm_create_nccl(const attn_comm_nccl_id *id, int32_t rank,
                              int32_t size, int64_t time_limit_ms,
                              attn_comm **comm) {
  if (!id || !comm)
    return attnrtSetError(ATTN_INVALID_ARGUMENT, "'%s' is null",
                          id ? "comm" : "id");
  if (size < 1 || rank < 0 || rank >= size)
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "'rank' must be from 0 to below 'size' (was %d of "
                          "%d)",
                          rank, size);
  if (int32_t status = checkTimeLimit(time_limit_ms))
    return status;
  const NcclLibrary *nccl;
  const CudaDriver *driver;
  const ContextInfo *context;
  if (int32_t status = getNccl(&nccl))
    return status;
  if (int32_t status = getDriverAndContext(&driver, &context))
    return status;
  std::unique_ptr<NcclRank> created(new (std::nothrow) NcclRank(
      *nccl, *driver, context->context, time_limit_ms));
  if (!created)
    return attnrtSetError(ATTN_OUT_OF_MEMORY,
                          "no memory for a communicator of NCCL");
  created->functions = &ncclFunctions;
  created->rank = rank;
  created->size = size;
  if (int32_t status = created->join(*id))
    return status;
  *comm = created.release();
  return ATTN_OK;
}
