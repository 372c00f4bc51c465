//===- LocalCommunicator.cpp - Ranks as threads of a process --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A group of ranks that copy from each other's buffers. A call of all ranks
// has three steps: ranks post their buffers and wait for each other, each
// copies its parts, and ranks wait until all have copied, since buffers are in
// use until then. Only the first wait has a time limit: the second one
// is for copies that are running. Messages between two ranks have the same
// steps in a mailbox of the two.
//
// All state is guarded by the mutex of the group, except for buffers. They are
// read between two sections of the mutex, before which their owner has posted
// them and after which it goes on. For memory of devices, threads meet in the
// same way, and then have their streams copy and wait for each other.
//
//===----------------------------------------------------------------------===//

#include "CallAgreement.h"
#include "StreamEvents.h"
#include "attn-runtime/attn_comm.h"

#include <chrono>
#include <cinttypes>
#include <condition_variable>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>

using namespace attnrt;
using Clock = std::chrono::steady_clock;

namespace {

/// A call of all ranks, as one of them posts it.
struct Post : RankCall {
  Post() = default;
  Post(const RankCall &call, const void *send, void *stream)
      : RankCall(call), send(static_cast<const char *>(send)), stream(stream) {}

  const char *send = nullptr;
  /// The stream that orders it, null for memory of the host.
  void *stream = nullptr;
};

/// Places in the stream of a rank: behind the message that it sends, and behind
/// its copies.
struct StreamOfRank {
  StreamEvent posted, copied;
};

/// The message from one rank to another.
struct Mailbox {
  enum State { Empty, Posted, Copying, Copied };
  State state = Empty;
  const void *send = nullptr;
  int64_t bytes = 0;
  void *stream = nullptr;
  StreamEvent posted, copied;
};

struct LocalRank;

/// The state that the ranks share.
class Group {
public:
  static Group *create(int32_t size, int64_t timeLimitMs);

  /// Posts a call of all ranks, runs `copy` once all have posted it, and waits
  /// for the copies of the others.
  template <typename Copy>
  int32_t runForAll(int32_t rank, const Post &post, Copy copy);
  int32_t sendReceive(int32_t rank, const void *send, int64_t sendBytes,
                      int32_t to, void *receive, int64_t receiveBytes,
                      int32_t from, void *stream);
  /// Fails the group, if it has not failed yet, with a text that names `rank`.
  int32_t fail(int32_t rank, int32_t status, const char *text);
  /// The same, by the last error of the driver, in the call `name`.
  int32_t failBy(int32_t rank, const char *name);
  /// Removes a rank; the last one deletes the group.
  void leave(int32_t rank);

  const char *getSend(int32_t rank) const { return posts[rank].send; }
  StreamOfRank &getStream(int32_t rank) { return streams[rank]; }
  int32_t getSize() const { return size; }
  LocalRank *getRanks() { return ranks.get(); }

private:
  Group(int32_t size, int64_t timeLimitMs)
      : size(size), timeLimit(timeLimitMs) {}
  // Ranks are complete only below.
  ~Group();

  Mailbox &getMailbox(int32_t from, int32_t to) {
    return mailboxes[int64_t(from) * size + to];
  }
  /// The functions below expect that the mutex is held.
  void setFailure(int32_t code, const char *format, ...) ATTNRT_PRINTF(3, 4);
  int32_t getFailure() const { return attnrtSetError(status, "%s", text); }
  bool checkPosts();
  void failForMissing(int32_t rank, const char *name);
  bool verifyMember(int32_t rank, int32_t peer);
  int32_t receiveFrom(std::unique_lock<std::mutex> &lock, int32_t rank,
                      int32_t from, void *receive, int64_t bytes, void *stream,
                      Clock::time_point deadline);
  int32_t finishSend(std::unique_lock<std::mutex> &lock, int32_t rank,
                     int32_t to, Clock::time_point deadline);

  const int32_t size;
  const std::chrono::milliseconds timeLimit;
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_ptr<Post[]> posts;
  std::unique_ptr<StreamOfRank[]> streams;
  std::unique_ptr<bool[]> hasPosted, hasLeft;
  std::unique_ptr<Mailbox[]> mailboxes;
  std::unique_ptr<LocalRank[]> ranks;
  /// Ranks that have posted the present call, and that have copied; the number
  /// of calls that are complete, and whose posts are.
  int32_t numPosted = 0, numCopied = 0, numLeft = 0;
  int64_t numPostedCalls = 0, numCalls = 0;
  /// The first error.
  int32_t status = ATTN_OK;
  char text[512] = "";
};

/// One rank of a group.
struct LocalRank : attn_comm {
  Group *group;
};

} // namespace

Group::~Group() = default;

//===----------------------------------------------------------------------===//
// Failures
//===----------------------------------------------------------------------===//

void Group::setFailure(int32_t code, const char *format, ...) {
  if (status != ATTN_OK)
    return;
  status = code;
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof(text), format, values);
  va_end(values);
  changed.notify_all();
}

int32_t Group::failBy(int32_t rank, const char *name) {
  char message[512];
  snprintf(message, sizeof(message), "%s: %s", name, attnGetLastError());
  return fail(rank, ATTN_DRIVER_ERROR, message);
}

int32_t Group::fail(int32_t rank, int32_t code, const char *message) {
  std::lock_guard<std::mutex> lock(mutex);
  setFailure(code, "rank %d: %s", rank, message);
  return getFailure();
}

/// Reports which ranks have not posted the present call.
void Group::failForMissing(int32_t rank, const char *name) {
  char missing[256];
  size_t length = 0;
  missing[0] = 0;
  for (int32_t r = 0; r < size && length < sizeof(missing) - 16; ++r)
    if (!hasPosted[r])
      length += snprintf(missing + length, sizeof(missing) - length, "%s%d",
                         length ? ", " : "", r);
  setFailure(ATTN_IO_ERROR,
             "rank %d waited %" PRId64 " ms in %s for ranks that made no "
             "call: %s",
             rank, int64_t(timeLimit.count()), name, missing);
}

/// Checks that no rank has left, and that all have posted the same call.
bool Group::checkPosts() {
  for (int32_t r = 1; r < size; ++r) {
    char message[256];
    if (int32_t code =
            compareCalls(r, posts[r], posts[0], message, sizeof(message)))
      setFailure(code, "%s", message);
    else if (!posts[r].stream != !posts[0].stream)
      setFailure(ATTN_WRONG_DEVICE,
                 "%s: rank %d has memory of %s, and rank 0 has not",
                 posts[r].name, r, posts[r].stream ? "a device" : "the host");
  }
  return status == ATTN_OK;
}

/// Checks that `peer`, for which `rank` waits, has not left.
bool Group::verifyMember(int32_t rank, int32_t peer) {
  if (hasLeft[peer])
    setFailure(ATTN_IO_ERROR, "rank %d waits for rank %d, which was destroyed",
               rank, peer);
  return !hasLeft[peer];
}

//===----------------------------------------------------------------------===//
// Calls of all ranks
//===----------------------------------------------------------------------===//

template <typename Copy>
int32_t Group::runForAll(int32_t rank, const Post &post, Copy copy) {
  Clock::time_point deadline = Clock::now() + timeLimit;
  if (post.stream && streams[rank].posted.record(post.stream))
    return failBy(rank, post.name);
  std::unique_lock<std::mutex> lock(mutex);
  if (status != ATTN_OK)
    return getFailure();
  for (int32_t r = 0; r < size; ++r)
    if (!verifyMember(rank, r))
      return getFailure();
  int64_t call = numCalls;
  posts[rank] = post;
  hasPosted[rank] = true;
  if (++numPosted == size && checkPosts()) {
    ++numPostedCalls;
    changed.notify_all();
  }
  auto isReady = [&] { return numPostedCalls > call || status != ATTN_OK; };
  if (!changed.wait_until(lock, deadline, isReady))
    failForMissing(rank, post.name);
  if (numPostedCalls <= call)
    return getFailure();

  lock.unlock();
  int32_t copied = copy();
  if (copied)
    failBy(rank, post.name);
  lock.lock();
  if (++numCopied == size) {
    numPosted = numCopied = 0;
    for (int32_t r = 0; r < size; ++r)
      hasPosted[r] = false;
    ++numCalls;
    changed.notify_all();
  }
  changed.wait(lock, [&] { return numCalls > call; });
  if (copied)
    return getFailure();
  lock.unlock();
  // Memory that others copy stays as it is until they have.
  for (int32_t r = 0; post.stream && r < size; ++r)
    if (r != rank && streams[r].copied.makeWait(post.stream))
      return failBy(rank, post.name);
  return ATTN_OK;
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

/// Copies the message in `mailbox`, which other threads leave alone.
static int32_t copyMessage(Mailbox &mailbox, void *receive, int64_t bytes,
                           void *stream) {
  if (!stream) {
    if (bytes)
      memmove(receive, mailbox.send, size_t(bytes));
    return ATTN_OK;
  }
  int32_t status = mailbox.posted.makeWait(stream);
  if (!status)
    status = copyOnStream(receive, mailbox.send, bytes, stream);
  return status ? status : mailbox.copied.record(stream);
}

int32_t Group::receiveFrom(std::unique_lock<std::mutex> &lock, int32_t rank,
                           int32_t from, void *receive, int64_t bytes,
                           void *stream, Clock::time_point deadline) {
  Mailbox &mailbox = getMailbox(from, rank);
  auto isReady = [&] {
    return mailbox.state == Mailbox::Posted || status != ATTN_OK ||
           hasLeft[from];
  };
  if (!changed.wait_until(lock, deadline, isReady))
    setFailure(ATTN_IO_ERROR,
               "rank %d waited %" PRId64 " ms in send_recv for a message of "
               "rank %d",
               rank, int64_t(timeLimit.count()), from);
  if (status != ATTN_OK)
    return getFailure();
  if (mailbox.state != Mailbox::Posted) {
    verifyMember(rank, from);
    return getFailure();
  }
  if (mailbox.bytes != bytes) {
    char message[256];
    describeWrongMessage(from, mailbox.bytes, rank, bytes, message,
                         sizeof(message));
    setFailure(ATTN_SHAPE_MISMATCH, "%s", message);
    return getFailure();
  }
  if (!mailbox.stream != !stream) {
    setFailure(
        ATTN_WRONG_DEVICE,
        "send_recv: rank %d sends memory of %s to rank %d, which expects "
        "memory of %s",
        from, mailbox.stream ? "a device" : "the host", rank,
        stream ? "a device" : "the host");
    return getFailure();
  }
  mailbox.state = Mailbox::Copying;
  lock.unlock();
  int32_t copied = copyMessage(mailbox, receive, bytes, stream);
  if (copied)
    failBy(rank, "send_recv");
  lock.lock();
  mailbox.state = Mailbox::Copied;
  changed.notify_all();
  return copied ? getFailure() : int32_t(ATTN_OK);
}

/// Waits until the message of `rank` has been copied. A message that is being
/// copied is complete even if the group has failed.
int32_t Group::finishSend(std::unique_lock<std::mutex> &lock, int32_t rank,
                          int32_t to, Clock::time_point deadline) {
  Mailbox &mailbox = getMailbox(rank, to);
  auto isDone = [&] {
    return mailbox.state != Mailbox::Posted || status != ATTN_OK || hasLeft[to];
  };
  if (!changed.wait_until(lock, deadline, isDone))
    setFailure(ATTN_IO_ERROR,
               "rank %d waited %" PRId64 " ms in send_recv for rank %d to "
               "receive its message",
               rank, int64_t(timeLimit.count()), to);
  if (mailbox.state == Mailbox::Posted)
    verifyMember(rank, to);
  changed.wait(lock, [&] { return mailbox.state != Mailbox::Copying; });
  bool isCopied = mailbox.state == Mailbox::Copied;
  mailbox.state = Mailbox::Empty;
  return isCopied ? int32_t(ATTN_OK) : getFailure();
}

int32_t Group::sendReceive(int32_t rank, const void *send, int64_t sendBytes,
                           int32_t to, void *receive, int64_t receiveBytes,
                           int32_t from, void *stream) {
  Clock::time_point deadline = Clock::now() + timeLimit;
  bool sends = to != ATTN_COMM_NO_PEER;
  // The mailbox is empty: nobody else uses its event.
  if (sends && stream && getMailbox(rank, to).posted.record(stream))
    return failBy(rank, "send_recv");
  std::unique_lock<std::mutex> lock(mutex);
  if (status != ATTN_OK)
    return getFailure();
  if (sends) {
    Mailbox &mailbox = getMailbox(rank, to);
    mailbox.send = send;
    mailbox.stream = stream;
    mailbox.bytes = sendBytes;
    mailbox.state = Mailbox::Posted;
    changed.notify_all();
  }
  int32_t received = ATTN_OK, sent = ATTN_OK;
  if (from != ATTN_COMM_NO_PEER)
    received =
        receiveFrom(lock, rank, from, receive, receiveBytes, stream, deadline);
  if (sends)
    sent = finishSend(lock, rank, to, deadline);
  if (received != ATTN_OK || sent != ATTN_OK)
    return received == ATTN_OK ? sent : received;
  lock.unlock();
  // The message stays as it is until it has been copied.
  if (sends && stream && getMailbox(rank, to).copied.makeWait(stream))
    return failBy(rank, "send_recv");
  return ATTN_OK;
}

//===----------------------------------------------------------------------===//
// The functions of a communicator
//===----------------------------------------------------------------------===//

static LocalRank *getRank(attn_comm *comm) {
  return static_cast<LocalRank *>(comm);
}

static int32_t sendReceive(attn_comm *comm, const void *send, int64_t sendBytes,
                           int32_t to, void *receive, int64_t receiveBytes,
                           int32_t from, void *stream) {
  return getRank(comm)->group->sendReceive(comm->rank, send, sendBytes, to,
                                           receive, receiveBytes, from, stream);
}

/// Copies part `index` of the buffer of each rank to `rank`.
static int32_t copyParts(Group *group, int32_t rank, int64_t index,
                         void *receive, int64_t bytes, void *stream) {
  int32_t status = ATTN_OK;
  for (int32_t r = 0; r < group->getSize() && status == ATTN_OK; ++r) {
    char *destination = static_cast<char *>(receive) + r * bytes;
    const char *source = group->getSend(r) + index * bytes;
    if (stream && r != rank)
      status = group->getStream(r).posted.makeWait(stream);
    if (status != ATTN_OK || destination == source || bytes == 0)
      continue;
    if (stream)
      status = copyOnStream(destination, source, bytes, stream);
    else
      memcpy(destination, source, size_t(bytes));
  }
  if (stream && status == ATTN_OK)
    status = group->getStream(rank).copied.record(stream);
  return status;
}

static int32_t allGather(attn_comm *comm, const void *send, void *receive,
                         int64_t bytes, void *stream) {
  Group *group = getRank(comm)->group;
  Post post({"all_gather", bytes, 0}, send, stream);
  return group->runForAll(comm->rank, post, [&] {
    return copyParts(group, comm->rank, /*index=*/0, receive, bytes, stream);
  });
}

static int32_t allToAll(attn_comm *comm, const void *send, void *receive,
                        int64_t bytes, void *stream) {
  Group *group = getRank(comm)->group;
  Post post({"all_to_all", bytes, 0}, send, stream);
  return group->runForAll(comm->rank, post, [&] {
    return copyParts(group, comm->rank, comm->rank, receive, bytes, stream);
  });
}

/// Adds up part `index` of the buffer of each rank, in the order of the ranks.
template <typename T>
static void addParts(Group *group, int64_t index, void *receive,
                     int64_t count) {
  T *sum = static_cast<T *>(receive);
  for (int32_t r = 0; r < group->getSize(); ++r) {
    const T *part =
        reinterpret_cast<const T *>(group->getSend(r)) + index * count;
    for (int64_t i = 0; i < count; ++i)
      sum[i] = r == 0 ? part[i] : sum[i] + part[i];
  }
}

static int32_t reduceScatter(attn_comm *comm, const void *send, void *receive,
                             int64_t count, int32_t dtype, void *stream) {
  Group *group = getRank(comm)->group;
  if (stream)
    return group->fail(comm->rank, ATTN_UNSUPPORTED,
                       "reduce_scatter: local ranks add up memory of the host "
                       "alone");
  Post post({"reduce_scatter", count * attnDTypeSize(dtype), dtype}, send,
            /*stream=*/nullptr);
  return group->runForAll(comm->rank, post, [&] {
    if (dtype == ATTN_F64)
      addParts<double>(group, comm->rank, receive, count);
    else
      addParts<float>(group, comm->rank, receive, count);
    return int32_t(ATTN_OK);
  });
}

static int32_t abortGroup(attn_comm *comm, int32_t status, const char *text) {
  return getRank(comm)->group->fail(comm->rank, status, text);
}

static void destroyRank(attn_comm *comm) {
  getRank(comm)->group->leave(comm->rank);
}

static const attn_comm_functions localFunctions = {ATTN_COMM_ABI_VERSION,
                                                   ATTN_COMM_HOST |
                                                       ATTN_COMM_DEVICE,
                                                   sendReceive,
                                                   allGather,
                                                   allToAll,
                                                   reduceScatter,
                                                   abortGroup,
                                                   destroyRank};

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

void Group::leave(int32_t rank) {
  bool isLast;
  {
    std::lock_guard<std::mutex> lock(mutex);
    hasLeft[rank] = true;
    isLast = ++numLeft == size;
    // Ranks that have posted a call of all ranks wait for this one.
    if (numPosted != 0 && !hasPosted[rank])
      setFailure(ATTN_IO_ERROR,
                 "rank %d was destroyed while others wait for it", rank);
    changed.notify_all();
  }
  if (isLast)
    delete this;
}

Group *Group::create(int32_t size, int64_t timeLimitMs) {
  std::unique_ptr<Group, void (*)(Group *)> group(
      new (std::nothrow) Group(size, timeLimitMs),
      [](Group *group) { delete group; });
  if (!group)
    return nullptr;
  group->posts.reset(new (std::nothrow) Post[size]);
  group->streams.reset(new (std::nothrow) StreamOfRank[size]);
  group->hasPosted.reset(new (std::nothrow) bool[size]());
  group->hasLeft.reset(new (std::nothrow) bool[size]());
  group->mailboxes.reset(new (std::nothrow) Mailbox[int64_t(size) * size]);
  group->ranks.reset(new (std::nothrow) LocalRank[size]);
  if (!group->posts || !group->streams || !group->hasPosted ||
      !group->hasLeft || !group->mailboxes || !group->ranks)
    return nullptr;
  for (int32_t r = 0; r < size; ++r) {
    group->ranks[r].functions = &localFunctions;
    group->ranks[r].rank = r;
    group->ranks[r].size = size;
    group->ranks[r].group = group.get();
  }
  return group.release();
}

int32_t attn_comm_create_local(int32_t size, int64_t time_limit_ms,
                               attn_comm **comms) {
  if (size < 1 || size > ATTN_COMM_MAX_LOCAL_RANKS)
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "a local group must have 1 to %d ranks (was %d)",
                          ATTN_COMM_MAX_LOCAL_RANKS, size);
  if (int32_t status = checkTimeLimit(time_limit_ms))
    return status;
  if (!comms)
    return attnrtSetError(ATTN_INVALID_ARGUMENT, "'comms' is null");
  Group *group = Group::create(size, time_limit_ms);
  if (!group)
    return attnrtSetError(ATTN_OUT_OF_MEMORY,
                          "no memory for a local group of %d ranks", size);
  for (int32_t r = 0; r < size; ++r)
    comms[r] = &group->getRanks()[r];
  return ATTN_OK;
}
