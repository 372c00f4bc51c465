//===- MpiCommunicator.cpp - Ranks as processes under MPI -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// MPI is used by a wrapper (MPI/MpiWrapper.h) that is opened when it is first
// needed. All messages are between two ranks and do not block, so that a rank
// can give up. They are of four kinds, with tags of their own:
//
// - header: the call that a rank makes. A rank sends one to each rank that it
//   sends data to, or to all ranks in a call of all ranks;
// - ready: an answer to the header of send_recv, whose size is right;
// - data, in pieces, since MPI counts bytes in 32 bits;
// - control: a rank fails or is destroyed. Ranks look for them while they wait.
//
// Data travels when its receiver is known to expect it: a call that does not
// match ends on both sides.
//
//===----------------------------------------------------------------------===//

#include "CallAgreement.h"
#include "MPI/MpiWrapper.h"
#include "attn-runtime/attn_comm.h"

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

using namespace attnrt;
using Clock = std::chrono::steady_clock;

//===----------------------------------------------------------------------===//
// The wrapper
//===----------------------------------------------------------------------===//

/// The wrapper next to this library, where an installation has it.
static std::string findWrapper() {
  Dl_info info = {};
  std::string path = "libattn_mpi.so";
  static const char anchor = 0;
  if (!dladdr(&anchor, &info) || !info.dli_fname)
    return path;
  std::string folder = info.dli_fname;
  size_t slash = folder.rfind('/');
  if (slash == std::string::npos)
    return path;
  std::string beside = folder.substr(0, slash + 1) + path;
  // dlopen looks for a name without a slash where the system has libraries.
  FILE *file = fopen(beside.c_str(), "rb");
  if (!file)
    return path;
  fclose(file);
  return beside;
}

static int32_t openWrapper(const attn_mpi_wrapper **wrapper) {
  const char *chosen = getenv("ATTN_MPI_LIBRARY");
  std::string path = chosen && *chosen ? chosen : findWrapper();
  // A library that MPI has called must stay.
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library)
    return attnrtSetError(
        ATTN_UNSUPPORTED,
        "cannot open the wrapper of MPI: %s; build Attn where CMake finds MPI, "
        "or name a wrapper by ATTN_MPI_LIBRARY",
        dlerror());
  const auto *found = static_cast<const attn_mpi_wrapper *>(
      dlsym(library, ATTN_MPI_WRAPPER_SYMBOL));
  if (!found)
    return attnrtSetError(ATTN_UNSUPPORTED,
                          "'%s' is no wrapper of MPI: it has no '%s'",
                          path.c_str(), ATTN_MPI_WRAPPER_SYMBOL);
  if (found->version != ATTN_MPI_WRAPPER_VERSION)
    return attnrtSetError(ATTN_VERSION_MISMATCH,
                          "the wrapper of MPI '%s' has version %u, expected %u",
                          path.c_str(), found->version,
                          ATTN_MPI_WRAPPER_VERSION);
  *wrapper = found;
  return ATTN_OK;
}

static int32_t getWrapper(const attn_mpi_wrapper **wrapper) {
  static std::mutex mutex;
  static const attn_mpi_wrapper *opened = nullptr;
  std::lock_guard<std::mutex> lock(mutex);
  if (!opened)
    if (int32_t status = openWrapper(&opened))
      return status;
  *wrapper = opened;
  return ATTN_OK;
}

/// The bytes of the largest message.
static int32_t getMessageBytes(int64_t *bytes) {
  constexpr int64_t defaultBytes = int64_t(64) << 20;
  static const char *const text = getenv("ATTN_MPI_MESSAGE_BYTES");
  *bytes = defaultBytes;
  if (!text)
    return ATTN_OK;
  char *end = nullptr;
  *bytes = strtoll(text, &end, 10);
  if (*text && !*end && *bytes >= 1 && *bytes <= INT_MAX)
    return ATTN_OK;
  return attnrtSetError(ATTN_INVALID_ARGUMENT,
                        "ATTN_MPI_MESSAGE_BYTES must be from 1 to %d (was "
                        "'%s')",
                        INT_MAX, text);
}

//===----------------------------------------------------------------------===//
// One rank
//===----------------------------------------------------------------------===//

namespace {

enum MessageTag { HeaderTag, ReadyTag, DataTag, ControlTag, NumTags };

/// Groups of a communicator before the tags of the first one return. MPI has at
/// least 32768 tags.
constexpr int32_t numGroupsWithTags = 32768 / NumTags;

enum CallKind : int32_t {
  JoinCall,
  SendRecvCall,
  AllGatherCall,
  AllToAllCall,
  ReduceScatterCall
};
constexpr const char *callNames[] = {"the creation of the group", "send_recv",
                                     "all_gather", "all_to_all",
                                     "reduce_scatter"};

struct Header {
  int64_t bytes;
  int32_t kind;
  int32_t dtype;
};

struct Control {
  /// Headers and answers that the rank has sent to the receiver.
  int64_t numSent;
  /// ATTN_OK if the rank is destroyed.
  int32_t status;
  int32_t reserved;
  char text[512];
};

/// Memory of a message that MPI still sends.
struct OutgoingMessage {
  attn_mpi_request request;
  int32_t bytes;
  union {
    Header header;
    Control control;
  };
};

/// A message of the present call.
struct PendingMessage {
  attn_mpi_request request = 0;
  bool isReceive = false, isDone = false;
};

/// A call of send_recv, and how far it is.
struct MessageCall {
  const void *send;
  int64_t sendBytes;
  int32_t to;
  void *receive;
  int64_t receiveBytes;
  int32_t from;
  Header header = {}, ready = {};
  size_t readyMessage = 0, headerMessage = 0;
  bool isSent = false, isReceived = false;
};

/// What a rank has exchanged with another one.
struct Peer {
  /// Headers and answers.
  int64_t numSent = 0, numReceived = 0;
  /// How many it had sent when it was destroyed; negative: it was not.
  int64_t numSentAtEnd = -1;

  bool isGone() const {
    return numSentAtEnd >= 0 && numReceived >= numSentAtEnd;
  }
};

/// One rank of a group.
class MpiRank : public attn_comm {
public:
  MpiRank(const attn_mpi_wrapper &mpi, int64_t timeLimitMs,
          int64_t messageBytes)
      : mpi(mpi), timeLimit(timeLimitMs), messageBytes(messageBytes) {}
  MpiRank(const MpiRank &) = delete;
  MpiRank &operator=(const MpiRank &) = delete;
  ~MpiRank();

  /// Joins the group of all ranks of a communicator of MPI.
  int32_t join(const int32_t *handle);
  int32_t sendReceive(const void *send, int64_t sendBytes, int32_t to,
                      void *receive, int64_t receiveBytes, int32_t from);
  /// Sends part `r` of `send`, or the whole with a `stride` of 0, to each rank
  /// `r`, and receives as many bytes of it.
  int32_t exchange(CallKind kind, const void *send, int64_t stride,
                   void *receive, int64_t bytes);
  int32_t reduceScatter(const void *send, void *receive, int64_t bytes,
                        int32_t dtype);
  /// Fails, if the rank has not failed yet, with a text that names it.
  int32_t fail(int32_t code, const char *message) {
    setFailure(code, "rank %d: %s", rank, message);
    return getFailure();
  }

private:
  int32_t getTag(MessageTag tag) const {
    return group % numGroupsWithTags * NumTags + tag;
  }
  /// Fails, and tells all other ranks.
  void setFailure(int32_t code, const char *format, ...) ATTNRT_PRINTF(3, 4);
  /// Fails if `code` of MPI is an error.
  bool verify(int32_t code);
  int32_t getFailure() const { return attnrtSetError(status, "%s", text); }

  void sendMessage(int32_t to, MessageTag tag, const void *data, int32_t bytes);
  void sendHeader(int32_t to, const Header &header) {
    ++peers[to].numSent;
    sendMessage(to, HeaderTag, &header, sizeof(header));
  }
  /// Posts a message of the present call; returns its number.
  size_t postReceive(void *data, int32_t bytes, int32_t from, MessageTag tag);
  void postSend(const void *data, int32_t bytes, int32_t to);
  void postData(const void *send, int64_t sendBytes, int32_t to);
  void postDataReceive(void *receive, int64_t bytes, int32_t from);

  /// Waits until `isDone` is true of the messages of the call, and calls
  /// `describe` for the text if it takes too long. If it `hasData`, the time
  /// limit begins anew whenever a message is complete.
  template <typename IsDone, typename Describe>
  int32_t waitUntil(bool hasData, IsDone isDone, Describe describe);
  /// Tests messages; returns whether one is complete that was not.
  bool testMessages();
  bool isAllDone() const;
  bool hasOpenReceive() const;
  void readControl();
  void flushOutgoing();
  /// Ends all messages of the call.
  void endMessages();
  /// Waits for all data of the call `name`.
  int32_t finishData(const char *name);
  /// Checks that all ranks make the same call.
  int32_t meet(CallKind kind, int64_t bytes, int32_t dtype);
  bool countHeaders();
  int32_t checkHeaders();
  void failForMissing(CallKind kind);
  void verifyMember(int32_t peer);
  void acceptMessage(MessageCall &call);
  bool advance(MessageCall &call);
  void failForLateMessage(const MessageCall &call);
  int32_t waitForDuplicate(Clock::time_point start);

  const attn_mpi_wrapper &mpi;
  const std::chrono::milliseconds timeLimit;
  const int64_t messageBytes;
  attn_mpi_comm *comm = nullptr;
  int32_t group = 0;
  std::vector<Peer> peers;
  std::vector<PendingMessage> messages;
  std::deque<OutgoingMessage> outgoing;
  /// The calls of all ranks, and whether they have arrived.
  std::vector<Header> headers;
  std::vector<bool> hasHeader;
  int32_t status = ATTN_OK;
  char text[512] = "";
};

} // namespace

/// Lets other processes run: ranks may be more than processors.
static void pause(Clock::time_point start) {
  constexpr std::chrono::microseconds spinTime(200), longestSleep(1000);
  constexpr int sleepsPerWait = 64;
  Clock::duration waited = Clock::now() - start;
  if (waited < spinTime)
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(
        std::min<Clock::duration>(waited / sleepsPerWait, longestSleep));
}

//===----------------------------------------------------------------------===//
// Failures
//===----------------------------------------------------------------------===//

void MpiRank::setFailure(int32_t code, const char *format, ...) {
  if (status != ATTN_OK)
    return;
  status = code;
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof(text), format, values);
  va_end(values);
  mpi.limit_exit(timeLimit.count());
  Control control = {};
  control.status = code;
  static_assert(sizeof(control.text) == sizeof(text), "texts are copied");
  memcpy(control.text, text, sizeof(text));
  for (int32_t r = 0; r < static_cast<int32_t>(peers.size()); ++r)
    if (r != rank && peers[r].numSentAtEnd < 0)
      sendMessage(r, ControlTag, &control, sizeof(control));
}

bool MpiRank::verify(int32_t code) {
  if (code == 0)
    return true;
  char description[256];
  mpi.describe_error(code, description, sizeof(description));
  setFailure(ATTN_DRIVER_ERROR, "rank %d: MPI: %s", rank, description);
  return false;
}

void MpiRank::readControl() {
  while (status == ATTN_OK) {
    Control control;
    int32_t from = -1;
    if (!verify(mpi.poll(comm, &control, sizeof(control), getTag(ControlTag),
                         &from)) ||
        from < 0)
      return;
    if (control.status == ATTN_OK) {
      peers[from].numSentAtEnd = control.numSent;
      continue;
    }
    // The rank has told the others.
    status = control.status;
    memcpy(text, control.text, sizeof(text));
    text[sizeof(text) - 1] = 0;
    mpi.limit_exit(timeLimit.count());
  }
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

void MpiRank::sendMessage(int32_t to, MessageTag tag, const void *data,
                          int32_t bytes) {
  outgoing.emplace_back();
  OutgoingMessage &message = outgoing.back();
  message.bytes = bytes;
  memcpy(&message.control, data, static_cast<size_t>(bytes));
  if (!verify(mpi.send(comm, &message.control, bytes, to, getTag(tag),
                       &message.request)))
    outgoing.pop_back();
}

void MpiRank::flushOutgoing() {
  while (!outgoing.empty()) {
    int32_t done = 0;
    if (mpi.test(&outgoing.front().request, &done) || !done)
      return;
    outgoing.pop_front();
  }
}

size_t MpiRank::postReceive(void *data, int32_t bytes, int32_t from,
                            MessageTag tag) {
  PendingMessage message;
  message.isReceive = true;
  message.isDone = !verify(
      mpi.receive(comm, data, bytes, from, getTag(tag), &message.request));
  messages.push_back(message);
  return messages.size() - 1;
}

void MpiRank::postSend(const void *data, int32_t bytes, int32_t to) {
  PendingMessage message;
  message.isDone = !verify(
      mpi.send(comm, data, bytes, to, getTag(DataTag), &message.request));
  messages.push_back(message);
}

/// Calls `body(offset, bytes)` for pieces of at most `pieceBytes` bytes.
template <typename Body>
static void forEachPiece(int64_t bytes, int64_t pieceBytes, Body body) {
  for (int64_t offset = 0; offset < bytes; offset += pieceBytes)
    body(offset, std::min(pieceBytes, bytes - offset));
}

void MpiRank::postData(const void *send, int64_t bytes, int32_t to) {
  forEachPiece(bytes, messageBytes, [&](int64_t offset, int64_t size) {
    postSend(static_cast<const char *>(send) + offset,
             static_cast<int32_t>(size), to);
  });
}

void MpiRank::postDataReceive(void *receive, int64_t bytes, int32_t from) {
  forEachPiece(bytes, messageBytes, [&](int64_t offset, int64_t size) {
    postReceive(static_cast<char *>(receive) + offset,
                static_cast<int32_t>(size), from, DataTag);
  });
}

bool MpiRank::testMessages() {
  bool isProgress = false;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].isDone)
      continue;
    int32_t done = 0;
    if (!verify(mpi.test(&messages[i].request, &done)) || !done)
      continue;
    messages[i].isDone = true;
    isProgress = true;
  }
  return isProgress;
}

bool MpiRank::isAllDone() const {
  for (const PendingMessage &message : messages)
    if (!message.isDone)
      return false;
  return true;
}

bool MpiRank::hasOpenReceive() const {
  for (const PendingMessage &message : messages)
    if (message.isReceive && !message.isDone)
      return true;
  return false;
}

void MpiRank::endMessages() {
  // Receives end at once, unless their data is on its way.
  constexpr std::chrono::milliseconds longestWait(1000);
  for (PendingMessage &message : messages)
    if (!message.isDone && message.isReceive)
      mpi.cancel(&message.request);
  Clock::time_point start = Clock::now(),
                    deadline = start + std::min(longestWait, timeLimit);
  while (hasOpenReceive() && Clock::now() < deadline) {
    for (PendingMessage &message : messages) {
      int32_t done = 0;
      if (!message.isDone && (mpi.test(&message.request, &done) || done))
        message.isDone = true;
    }
    pause(start);
  }
  for (PendingMessage &message : messages)
    if (!message.isDone)
      mpi.forget(&message.request);
  messages.clear();
}

template <typename IsDone, typename Describe>
int32_t MpiRank::waitUntil(bool hasData, IsDone isDone, Describe describe) {
  Clock::time_point start = Clock::now(), deadline = start + timeLimit;
  while (true) {
    readControl();
    bool isProgress = testMessages();
    if (status == ATTN_OK && isDone())
      return status == ATTN_OK ? int32_t(ATTN_OK) : getFailure();
    Clock::time_point now = Clock::now();
    if (isProgress && hasData)
      deadline = now + timeLimit;
    else if (status == ATTN_OK && now > deadline)
      describe();
    if (status != ATTN_OK) {
      endMessages();
      flushOutgoing();
      return getFailure();
    }
    flushOutgoing();
    if (!isProgress)
      pause(start);
  }
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

/// Receives the message whose header has arrived, or fails if it is another
/// one.
void MpiRank::acceptMessage(MessageCall &call) {
  call.isReceived = true;
  int32_t from = call.from;
  ++peers[from].numReceived;
  char message[256];
  if (call.header.kind != SendRecvCall) {
    setFailure(ATTN_INVALID_ARGUMENT,
               "rank %d calls %s, expected send_recv as rank %d does", from,
               callNames[call.header.kind], rank);
  } else if (call.header.bytes != call.receiveBytes) {
    describeWrongMessage(from, call.header.bytes, rank, call.receiveBytes,
                         message, sizeof(message));
    setFailure(ATTN_SHAPE_MISMATCH, "%s", message);
  } else {
    postDataReceive(call.receive, call.receiveBytes, from);
    ++peers[from].numSent;
    sendMessage(from, ReadyTag, &call.header, sizeof(call.header));
  }
}

/// Uses the messages that have arrived; returns whether the call is complete.
bool MpiRank::advance(MessageCall &call) {
  if (!call.isSent && messages[call.readyMessage].isDone) {
    call.isSent = true;
    ++peers[call.to].numReceived;
    postData(call.send, call.sendBytes, call.to);
  }
  if (!call.isReceived && messages[call.headerMessage].isDone)
    acceptMessage(call);
  if (!call.isReceived)
    verifyMember(call.from);
  if (!call.isSent)
    verifyMember(call.to);
  return call.isSent && call.isReceived && isAllDone();
}

void MpiRank::failForLateMessage(const MessageCall &call) {
  auto limit = int64_t(timeLimit.count());
  bool waitsForReceiver = call.isReceived && call.to != ATTN_COMM_NO_PEER;
  if (waitsForReceiver)
    setFailure(ATTN_IO_ERROR,
               "rank %d waited %" PRId64 " ms in send_recv for rank %d to "
               "receive its message",
               rank, limit, call.to);
  else
    setFailure(ATTN_IO_ERROR,
               "rank %d waited %" PRId64 " ms in send_recv for a message of "
               "rank %d",
               rank, limit, call.from);
}

int32_t MpiRank::sendReceive(const void *send, int64_t sendBytes, int32_t to,
                             void *receive, int64_t receiveBytes,
                             int32_t from) {
  if (status != ATTN_OK)
    return getFailure();
  MessageCall call = {send, sendBytes, to, receive, receiveBytes, from};
  call.isSent = to == ATTN_COMM_NO_PEER;
  call.isReceived = from == ATTN_COMM_NO_PEER;
  messages.clear();
  if (!call.isSent) {
    call.readyMessage =
        postReceive(&call.ready, sizeof(call.ready), to, ReadyTag);
    sendHeader(to, {sendBytes, SendRecvCall, 0});
  }
  if (!call.isReceived)
    call.headerMessage =
        postReceive(&call.header, sizeof(call.header), from, HeaderTag);
  return waitUntil(
      /*hasData=*/true, [&] { return advance(call); },
      [&] { failForLateMessage(call); });
}

/// Fails if `peer`, for which the rank waits, has been destroyed.
void MpiRank::verifyMember(int32_t peer) {
  if (peers[peer].isGone())
    setFailure(ATTN_IO_ERROR, "rank %d waits for rank %d, which was destroyed",
               rank, peer);
}

void MpiRank::failForMissing(CallKind kind) {
  char missing[256] = "";
  size_t length = 0;
  for (int32_t r = 0; r < size && length < sizeof(missing) - 16; ++r)
    if (r != rank && !hasHeader[r])
      length += snprintf(missing + length, sizeof(missing) - length, "%s%d",
                         length ? ", " : "", r);
  setFailure(ATTN_IO_ERROR,
             "rank %d waited %" PRId64 " ms in %s for ranks that made no "
             "call: %s",
             rank, int64_t(timeLimit.count()), callNames[kind], missing);
}

/// Counts the headers that have arrived; returns whether all have.
bool MpiRank::countHeaders() {
  // The messages are in the order of the other ranks.
  for (int32_t r = 0, number = 0; r < size; ++r) {
    if (r == rank)
      continue;
    bool isDone = messages[number++].isDone;
    if (isDone && !hasHeader[r])
      ++peers[r].numReceived;
    hasHeader[r] = isDone;
    if (!isDone)
      verifyMember(r);
  }
  return isAllDone();
}

/// Checks that all ranks make the call of rank 0.
int32_t MpiRank::checkHeaders() {
  auto getCall = [&](int32_t r) {
    return RankCall{callNames[headers[r].kind], headers[r].bytes,
                    headers[r].dtype};
  };
  for (int32_t r = 1; r < size; ++r) {
    char message[256];
    if (int32_t code =
            compareCalls(r, getCall(r), getCall(0), message, sizeof(message))) {
      setFailure(code, "%s", message);
      return getFailure();
    }
  }
  return ATTN_OK;
}

int32_t MpiRank::meet(CallKind kind, int64_t bytes, int32_t dtype) {
  if (status != ATTN_OK)
    return getFailure();
  messages.clear();
  headers.assign(size, Header{bytes, kind, dtype});
  hasHeader.assign(size, false);
  for (int32_t r = 0; r < size; ++r)
    if (r != rank)
      postReceive(&headers[r], sizeof(Header), r, HeaderTag);
  for (int32_t r = 0; r < size; ++r)
    if (r != rank)
      sendHeader(r, {bytes, kind, dtype});
  if (int32_t failed = waitUntil(
          /*hasData=*/false, [&] { return countHeaders(); },
          [&] { failForMissing(kind); }))
    return failed;
  messages.clear();
  return checkHeaders();
}

int32_t MpiRank::finishData(const char *name) {
  return waitUntil(/*hasData=*/true, [&] { return isAllDone(); },
                   [&] {
                     setFailure(ATTN_IO_ERROR,
                                "rank %d waited %" PRId64
                                " ms in %s for data of other ranks",
                                rank, int64_t(timeLimit.count()), name);
                   });
}

int32_t MpiRank::exchange(CallKind kind, const void *send, int64_t stride,
                          void *receive, int64_t bytes) {
  if (int32_t failed = meet(kind, bytes, 0))
    return failed;
  const auto *parts = static_cast<const char *>(send);
  auto *received = static_cast<char *>(receive);
  for (int32_t r = 0; r < size; ++r)
    if (r != rank)
      postDataReceive(received + r * bytes, bytes, r);
  // Each rank begins with another one.
  for (int32_t step = 1; step < size; ++step) {
    int32_t to = (rank + step) % size;
    postData(parts + to * stride, bytes, to);
  }
  const char *own = parts + rank * stride;
  if (bytes && own != received + rank * bytes)
    memcpy(received + rank * bytes, own, static_cast<size_t>(bytes));
  return finishData(callNames[kind]);
}

/// Adds up a piece of `bytes` bytes of each part, in the order of the parts.
template <typename T>
static void addPieces(const std::vector<const char *> &parts, char *receive,
                      int64_t bytes) {
  auto *sum = reinterpret_cast<T *>(receive);
  int64_t count = bytes / static_cast<int64_t>(sizeof(T));
  for (size_t r = 0; r < parts.size(); ++r) {
    const T *part = reinterpret_cast<const T *>(parts[r]);
    for (int64_t i = 0; i < count; ++i)
      sum[i] = r == 0 ? part[i] : sum[i] + part[i];
  }
}

int32_t MpiRank::reduceScatter(const void *send, void *receive, int64_t bytes,
                               int32_t dtype) {
  if (int32_t failed = meet(ReduceScatterCall, bytes, dtype))
    return failed;
  // Pieces of all ranks take as much memory as a message.
  constexpr int64_t alignment = 64;
  int64_t pieceBytes =
      std::max(messageBytes / size / alignment, int64_t(1)) * alignment;
  std::vector<char> buffer(size * std::min(pieceBytes, bytes));
  for (int64_t offset = 0; offset < bytes; offset += pieceBytes) {
    int64_t count = std::min(pieceBytes, bytes - offset);
    const auto *parts = static_cast<const char *>(send) + offset;
    std::vector<const char *> pieces(size);
    messages.clear();
    for (int32_t r = 0; r < size; ++r) {
      pieces[r] = r == rank ? parts + r * bytes : &buffer[r * count];
      if (r != rank)
        postDataReceive(&buffer[r * count], count, r);
    }
    for (int32_t step = 1; step < size; ++step) {
      int32_t to = (rank + step) % size;
      postData(parts + to * bytes, count, to);
    }
    if (int32_t failed = finishData("reduce_scatter"))
      return failed;
    char *sum = static_cast<char *>(receive) + offset;
    if (dtype == ATTN_F64)
      addPieces<double>(pieces, sum, count);
    else
      addPieces<float>(pieces, sum, count);
  }
  return ATTN_OK;
}

//===----------------------------------------------------------------------===//
// Joining and leaving
//===----------------------------------------------------------------------===//

int32_t MpiRank::waitForDuplicate(Clock::time_point start) {
  int32_t isReady = 0;
  while (true) {
    if (!verify(mpi.is_ready(comm, &isReady)))
      return getFailure();
    if (isReady)
      return ATTN_OK;
    if (Clock::now() - start > timeLimit) {
      mpi.limit_exit(timeLimit.count());
      return attnrtSetError(ATTN_IO_ERROR,
                            "waited %" PRId64 " ms for other ranks to join the "
                            "group",
                            int64_t(timeLimit.count()));
    }
    pause(start);
  }
}

int32_t MpiRank::join(const int32_t *handle) {
  int32_t problem = ATTN_MPI_OK;
  if (!verify(mpi.open(handle, &comm, &problem)))
    return getFailure();
  switch (problem) {
  case ATTN_MPI_FINALIZED:
    return attnrtSetError(ATTN_INVALID_ARGUMENT, "MPI has been finalized");
  case ATTN_MPI_WRONG_THREAD:
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "MPI was initialized for calls of the main thread "
                          "alone; expected MPI_THREAD_SERIALIZED or more");
  case ATTN_MPI_NO_COMMUNICATOR:
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "%d is no Fortran handle of an intracommunicator of "
                          "MPI",
                          handle ? *handle : 0);
  default:
    break;
  }
  if (int32_t failed = waitForDuplicate(Clock::now()))
    return failed;
  if (!verify(mpi.join(comm, &rank, &size, &group)))
    return getFailure();
  peers.resize(size);
  return meet(JoinCall, 0, 0);
}

MpiRank::~MpiRank() {
  if (status == ATTN_OK)
    for (int32_t r = 0; r < static_cast<int32_t>(peers.size()); ++r)
      if (r != rank && peers[r].numSentAtEnd < 0) {
        Control control = {};
        control.numSent = peers[r].numSent;
        sendMessage(r, ControlTag, &control, sizeof(control));
      }
  flushOutgoing();
  // MPI may read messages that it has not sent at any later time.
  if (!outgoing.empty())
    new (std::nothrow) std::deque<OutgoingMessage>(std::move(outgoing));
}

//===----------------------------------------------------------------------===//
// The functions of a communicator
//===----------------------------------------------------------------------===//

static MpiRank *getRank(attn_comm *comm) {
  return static_cast<MpiRank *>(comm);
}

static int32_t sendReceive(attn_comm *comm, const void *send, int64_t sendBytes,
                           int32_t to, void *receive, int64_t receiveBytes,
                           int32_t from, void * /*stream*/) {
  return getRank(comm)->sendReceive(send, sendBytes, to, receive, receiveBytes,
                                    from);
}

static int32_t allGather(attn_comm *comm, const void *send, void *receive,
                         int64_t bytes, void * /*stream*/) {
  return getRank(comm)->exchange(AllGatherCall, send, /*stride=*/0, receive,
                                 bytes);
}

static int32_t allToAll(attn_comm *comm, const void *send, void *receive,
                        int64_t bytes, void * /*stream*/) {
  return getRank(comm)->exchange(AllToAllCall, send, /*stride=*/bytes, receive,
                                 bytes);
}

static int32_t reduceScatter(attn_comm *comm, const void *send, void *receive,
                             int64_t count, int32_t dtype, void * /*stream*/) {
  return getRank(comm)->reduceScatter(send, receive,
                                      count * attnDTypeSize(dtype), dtype);
}

static int32_t abortRank(attn_comm *comm, int32_t status, const char *text) {
  return getRank(comm)->fail(status, text);
}

static void destroyRank(attn_comm *comm) { delete getRank(comm); }

static const attn_comm_functions mpiFunctions = {
    ATTN_COMM_ABI_VERSION, ATTN_COMM_HOST, sendReceive, allGather, allToAll,
    reduceScatter,         abortRank,      destroyRank};

static int32_t create(const int32_t *handle, int64_t timeLimitMs,
                      attn_comm **comm) {
  if (int32_t status = checkTimeLimit(timeLimitMs))
    return status;
  if (!comm)
    return attnrtSetError(ATTN_INVALID_ARGUMENT, "'comm' is null");
  int64_t messageBytes = 0;
  if (int32_t status = getMessageBytes(&messageBytes))
    return status;
  const attn_mpi_wrapper *mpi = nullptr;
  if (int32_t status = getWrapper(&mpi))
    return status;
  std::unique_ptr<MpiRank> created(
      new (std::nothrow) MpiRank(*mpi, timeLimitMs, messageBytes));
  if (!created)
    return attnrtSetError(ATTN_OUT_OF_MEMORY,
                          "no memory for a communicator of MPI");
  created->functions = &mpiFunctions;
  created->rank = 0;
  created->size = 0;
  if (int32_t status = created->join(handle))
    return status;
  *comm = created.release();
  return ATTN_OK;
}

int32_t attn_comm_create_mpi(int64_t time_limit_ms, attn_comm **comm) {
  return create(/*handle=*/nullptr, time_limit_ms, comm);
}

int32_t attn_comm_create_mpi_handle(int32_t handle, int64_t time_limit_ms,
                                    attn_comm **comm) {
  return create(&handle, time_limit_ms, comm);
}
