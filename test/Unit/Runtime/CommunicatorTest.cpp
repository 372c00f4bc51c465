//===- CommunicatorTest.cpp - Tests of communicators ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Local ranks check the values that they receive, count traffic, and fail in
// all the ways that a rank can. Each group of ranks is threads of the test.
//
//===----------------------------------------------------------------------===//

#include "CommunicatorCalls.h"

#include <thread>

namespace {

/// Local ranks, each perhaps in a recording communicator.
class Ranks {
public:
  explicit Ranks(int32_t size, int64_t limitMs = longLimitMs) : comms(size) {
    EXPECT_EQ(attn_comm_create_local(size, limitMs, comms.data()), ATTN_OK)
        << attnGetLastError();
  }
  ~Ranks() {
    for (attn_comm *comm : comms)
      attn_comm_destroy(comm);
  }

  attn_comm *operator[](size_t rank) { return comms[rank]; }
  void record(int32_t rank, const attn_comm_faults *faults = nullptr) {
    EXPECT_EQ(attn_comm_create_recording(comms[rank], faults, &comms[rank]),
              ATTN_OK)
        << attnGetLastError();
  }
  void destroy(int32_t rank) {
    attn_comm_destroy(comms[rank]);
    comms[rank] = nullptr;
  }
  /// Leaves a rank to its own destroyer.
  void forget(int32_t rank) { comms[rank] = nullptr; }
  /// Runs `body` on a thread for each rank.
  std::vector<Outcome> run(const Body &body) {
    std::vector<Outcome> outcomes(comms.size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < comms.size(); ++rank) {
      if (!comms[rank])
        continue;
      threads.emplace_back([&, rank] {
        outcomes[rank].status = body(comms[rank]);
        if (outcomes[rank].status != ATTN_OK)
          outcomes[rank].text = attnGetLastError();
      });
    }
    for (std::thread &thread : threads)
      thread.join();
    return outcomes;
  }

private:
  std::vector<attn_comm *> comms;
};

void expectAllOk(const std::vector<Outcome> &outcomes) {
  for (const Outcome &outcome : outcomes)
    EXPECT_EQ(outcome.status, ATTN_OK) << outcome.text;
}

void expectAll(const std::vector<Outcome> &outcomes, int32_t status,
               const std::string &text) {
  for (const Outcome &outcome : outcomes) {
    EXPECT_EQ(outcome.status, status);
    EXPECT_EQ(outcome.text, text);
  }
}

//===----------------------------------------------------------------------===//
// Compiled functions
//===----------------------------------------------------------------------===//

/// Runs `body` on a thread for each rank, which has the rank's communicator.
std::vector<Outcome> runCurrent(Ranks &ranks,
                                const std::function<int32_t()> &body) {
  return ranks.run([&](attn_comm *comm) {
    attn_comm_set_current(comm);
    return body();
  });
}

TEST(CurrentCommunicatorTest, BelongsToTheThread) {
  Ranks ranks(2);
  attn_comm_set_current(ranks[1]);
  std::thread([] { EXPECT_EQ(attn_comm_get_current(), nullptr); }).join();
  EXPECT_EQ(attn_comm_get_current(), ranks[1]);
  int64_t rank = -1;
  EXPECT_EQ(attnrtCommRank(2, &rank), ATTN_OK);
  EXPECT_EQ(rank, 1);
  attn_comm_set_current(nullptr);
  EXPECT_EQ(attn_comm_get_current(), nullptr);
}

TEST(CurrentCommunicatorTest, IsMissing) {
  int64_t rank = -1;
  int32_t sent = 0, received[2] = {};
  auto expectMissing = [](int32_t status, const char *call) {
    EXPECT_EQ(status, ATTN_INVALID_ARGUMENT);
    EXPECT_EQ(attnGetLastError(),
              std::string(call) + ": the thread has no communicator; expected "
                                  "attn_comm_set_current before the call");
  };
  expectMissing(attnrtCommRank(2, &rank), "rank");
  expectMissing(attnrtCommSendRecv(&sent, 4, 0, received, 4, 0, nullptr),
                "send_recv");
  expectMissing(attnrtCommAllGather(&sent, received, 2, 4, nullptr),
                "all_gather");
  expectMissing(attnrtCommAllToAll(received, received, 2, 4, nullptr),
                "all_to_all");
  EXPECT_EQ(rank, -1);
  // There are no other ranks to tell.
  EXPECT_EQ(attnrtCommFinish(ATTN_INTERNAL), ATTN_INTERNAL);
}

TEST(CurrentCommunicatorTest, HasAnotherSize) {
  Ranks ranks(2);
  attn_comm_set_current(ranks[1]);
  int64_t rank = -1;
  int32_t sent = 0, received[3] = {};
  EXPECT_EQ(attnrtCommRank(3, &rank), ATTN_INVALID_ARGUMENT);
  EXPECT_STREQ(attnGetLastError(),
               "rank: the group of rank 1 has 2 ranks, expected 3");
  EXPECT_EQ(attnrtCommAllGather(&sent, received, 3, 4, nullptr),
            ATTN_INVALID_ARGUMENT);
  EXPECT_STREQ(attnGetLastError(),
               "all_gather: the group of rank 1 has 2 ranks, expected 3");
  EXPECT_EQ(attnrtCommAllToAll(received, received, 1, 4, nullptr),
            ATTN_INVALID_ARGUMENT);
  EXPECT_STREQ(attnGetLastError(),
               "all_to_all: the group of rank 1 has 2 ranks, expected 1");
  attn_comm_set_current(nullptr);
}

TEST(CurrentCommunicatorTest, Communicates) {
  constexpr int64_t size = 3;
  Ranks ranks(size);
  for (const Outcome &outcome : runCurrent(ranks, [] {
         int64_t rank = -1;
         if (int32_t status = attnrtCommRank(size, &rank))
           return status;
         int64_t sent[size] = {rank, 10 + rank, 20 + rank}, received[size] = {};
         // Along a line: the ends have one neighbour.
         int64_t to = rank + 1 < size ? rank + 1 : ATTN_COMM_NO_PEER;
         received[0] = -1;
         if (int32_t status = attnrtCommSendRecv(sent, 8, to, received, 8,
                                                 rank - 1, nullptr))
           return status;
         EXPECT_EQ(received[0], rank - 1);
         if (int32_t status =
                 attnrtCommAllGather(sent, received, size, 8, nullptr))
           return status;
         for (int64_t other = 0; other < size; ++other)
           EXPECT_EQ(received[other], other);
         if (int32_t status =
                 attnrtCommAllToAll(sent, received, size, 8, nullptr))
           return status;
         for (int64_t other = 0; other < size; ++other)
           EXPECT_EQ(received[other], 10 * rank + other);
         return attnrtCommFinish(ATTN_OK);
       })) {
    EXPECT_EQ(outcome.status, ATTN_OK) << outcome.text;
  }
}

TEST(CurrentCommunicatorTest, ChecksWidePeers) {
  for (int64_t peer : {int64_t(1) << 32, -(int64_t(1) << 33)}) {
    Ranks ranks(2);
    attn_comm_set_current(ranks[0]);
    int32_t sent = 0, received = 0;
    EXPECT_EQ(attnrtCommSendRecv(&sent, 4, peer, &received, 4, 1, nullptr),
              ATTN_INVALID_ARGUMENT);
    EXPECT_NE(std::string(attnGetLastError()).find("'to' is rank"),
              std::string::npos);
    attn_comm_set_current(nullptr);
  }
}

TEST(CurrentCommunicatorTest, EndsAllRanksWithTheStatus) {
  Ranks ranks(3);
  std::vector<Outcome> outcomes = runCurrent(ranks, [] {
    int64_t rank = -1;
    if (int32_t status = attnrtCommRank(3, &rank))
      return status;
    if (rank == 1)
      return attnrtCommFinish(
          attnrtSetError(ATTN_SHAPE_MISMATCH, "argument 'key'"));
    int32_t sent = 0, received[3] = {};
    return attnrtCommFinish(
        attnrtCommAllGather(&sent, received, 3, 4, nullptr));
  });
  for (const Outcome &outcome : outcomes)
    EXPECT_EQ(outcome.status, ATTN_SHAPE_MISMATCH);
  EXPECT_EQ(outcomes[0].text, "rank 1: argument 'key'");
  EXPECT_EQ(outcomes[1].text, "argument 'key'");
  EXPECT_EQ(outcomes[2].text, "rank 1: argument 'key'");
}

TEST(CurrentCommunicatorTest, DoesNotTellThatARankHasStopped) {
  Ranks ranks(2, shortLimitMs);
  attn_comm_faults faults = {};
  faults.fail_at = -1;
  faults.fail_status = ATTN_DRIVER_ERROR;
  ranks.record(1, &faults);
  std::vector<Outcome> outcomes = runCurrent(ranks, [] {
    int32_t sent = 0, received[2] = {};
    return attnrtCommFinish(
        attnrtCommAllGather(&sent, received, 2, 4, nullptr));
  });
  EXPECT_EQ(outcomes[0].status, ATTN_IO_ERROR) << outcomes[0].text;
  EXPECT_EQ(outcomes[1].status, ATTN_DRIVER_ERROR);
  EXPECT_EQ(outcomes[1].text, "rank 1: call 0 fails as it should");
}

} // namespace

TEST(Communicator, RanksReceiveWhatOthersSend) {
  for (int32_t size : {1, 2, 3, 4, 8}) {
    Ranks ranks(size);
    expectAllOk(ranks.run([](attn_comm *comm) { return callAll(comm, 3); }));
  }
}

TEST(Communicator, EmptyAndInPlaceBuffers) {
  Ranks ranks(3);
  expectAllOk(ranks.run([](attn_comm *comm) {
    int32_t status = attn_comm_all_gather(comm, nullptr, nullptr, 0, nullptr);
    if (status != ATTN_OK)
      return status;
    std::vector<int32_t> parts(3, -1);
    parts[comm->rank] = comm->rank;
    status = attn_comm_all_gather(comm, &parts[comm->rank], parts.data(), 4,
                                  nullptr);
    EXPECT_EQ(parts, (std::vector<int32_t>{0, 1, 2}));
    return status;
  }));
}

TEST(Communicator, OneDirectionAndNone) {
  Ranks ranks(3);
  expectAllOk(ranks.run([](attn_comm *comm) {
    int32_t value = 7, received = 0;
    int32_t to = comm->rank == 0 ? 2 : ATTN_COMM_NO_PEER;
    int32_t from = comm->rank == 2 ? 0 : ATTN_COMM_NO_PEER;
    int32_t status =
        attn_comm_send_recv(comm, &value, 4, to, &received, 4, from, nullptr);
    EXPECT_EQ(received, comm->rank == 2 ? 7 : 0);
    return status;
  }));
}

TEST(Communicator, RandomDelaysNeitherHangNorChangeResults) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Ranks ranks(4);
    for (int32_t rank = 0; rank < 4; ++rank) {
      attn_comm_faults faults = {};
      faults.max_delay_us = 50;
      faults.seed = seed * 4 + rank;
      faults.fail_at = faults.stop_at = -1;
      ranks.record(rank, &faults);
    }
    expectAllOk(ranks.run([](attn_comm *comm) { return callAll(comm, 1); }));
  }
}

TEST(Communicator, TrafficIsCounted) {
  Ranks ranks(4);
  for (int32_t rank = 0; rank < 4; ++rank)
    ranks.record(rank);
  expectAllOk(ranks.run([](attn_comm *comm) { return callAll(comm, 2); }));
  for (int32_t rank = 0; rank < 4; ++rank) {
    attn_comm_traffic traffic;
    auto expect = [&](attn_comm_kind kind, int64_t calls, int64_t bytes) {
      EXPECT_EQ(attn_comm_get_traffic(ranks[rank], kind, &traffic), ATTN_OK);
      EXPECT_EQ(traffic.calls, calls);
      EXPECT_EQ(traffic.bytes_sent, bytes);
      EXPECT_EQ(traffic.bytes_received, bytes);
    };
    // Step 0 sends to the rank itself.
    expect(ATTN_COMM_SEND_RECV, 8, 2 * 3 * 400);
    expect(ATTN_COMM_ALL_GATHER, 2, 2 * 3 * 400);
    expect(ATTN_COMM_ALL_TO_ALL, 2, 2 * 3 * 400);
    expect(ATTN_COMM_REDUCE_SCATTER, 4, 2 * 3 * (400 + 800));
  }
}

TEST(Communicator, AFailureEndsTheCallOnAllRanks) {
  for (int64_t call = 0; call < 8; ++call) {
    Ranks ranks(4);
    attn_comm_faults faults = {};
    faults.fail_at = call;
    faults.fail_status = ATTN_OUT_OF_MEMORY;
    faults.stop_at = -1;
    ranks.record(2, &faults);
    double seconds = runTimed([&] {
      expectAll(ranks.run([](attn_comm *comm) { return callAll(comm, 1); }),
                ATTN_OUT_OF_MEMORY,
                "rank 2: call " + std::to_string(call) + " fails as it should");
    });
    EXPECT_LT(seconds, 30);
    // The group stays failed.
    EXPECT_EQ(gather(ranks[0]), ATTN_OUT_OF_MEMORY);
    EXPECT_EQ(passAround(ranks[1], 1), ATTN_OUT_OF_MEMORY);
  }
}

TEST(Communicator, ARankThatDiesEndsTheCallWithinTheTimeLimit) {
  for (int64_t call : {1, 4, 5, 6}) {
    Ranks ranks(3, shortLimitMs);
    attn_comm_faults faults = {};
    faults.fail_at = -1;
    faults.stop_at = call;
    faults.fail_status = ATTN_DRIVER_ERROR;
    ranks.record(1, &faults);
    std::vector<Outcome> outcomes;
    double seconds = runTimed([&] {
      outcomes = ranks.run([](attn_comm *comm) { return callAll(comm, 1); });
    });
    EXPECT_LT(seconds, 20);
    EXPECT_EQ(outcomes[1].status, ATTN_DRIVER_ERROR);
    EXPECT_EQ(outcomes[1].text,
              "rank 1: call " + std::to_string(call) + " fails as it should");
    for (int32_t rank : {0, 2}) {
      EXPECT_EQ(outcomes[rank].status, ATTN_IO_ERROR);
      EXPECT_NE(outcomes[rank].text.find(" waited 200 ms in "),
                std::string::npos)
          << outcomes[rank].text;
    }
    EXPECT_EQ(outcomes[0].text, outcomes[2].text);
  }
}

TEST(Communicator, MissingRanksAreNamed) {
  Ranks ranks(4, shortLimitMs);
  std::vector<Outcome> outcomes = ranks.run([](attn_comm *comm) {
    return comm->rank % 2 ? int32_t(ATTN_OK) : gather(comm);
  });
  EXPECT_EQ(outcomes[0].status, ATTN_IO_ERROR);
  EXPECT_NE(outcomes[0].text.find(
                "ms in all_gather for ranks that made no call: 1, 3"),
            std::string::npos)
      << outcomes[0].text;
  EXPECT_EQ(outcomes[2].text, outcomes[0].text);
}

TEST(Communicator, DestroyedRanksAreNamed) {
  Ranks ranks(3);
  ranks.destroy(1);
  Outcome outcome = ranks.run([](attn_comm *comm) { return gather(comm); })[0];
  EXPECT_EQ(outcome.status, ATTN_IO_ERROR);
  EXPECT_NE(outcome.text.find("waits for rank 1, which was destroyed"),
            std::string::npos)
      << outcome.text;
}

TEST(Communicator, ARankCanBeDestroyedWhileOthersWait) {
  for (bool isMessage : {false, true}) {
    Ranks ranks(3);
    std::thread destroyer([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      attn_comm_destroy(ranks[2]);
    });
    std::vector<Outcome> outcomes = ranks.run([&](attn_comm *comm) {
      if (comm->rank == 2)
        return int32_t(ATTN_OK);
      return isMessage ? passAround(comm, 1) : gather(comm);
    });
    destroyer.join();
    ranks.forget(2);
    EXPECT_EQ(outcomes[0].status, ATTN_IO_ERROR);
    EXPECT_EQ(outcomes[1].status, ATTN_IO_ERROR);
  }
}

TEST(Communicator, RanksMustAgree) {
  {
    Ranks ranks(3);
    expectAll(ranks.run([](attn_comm *comm) {
      return gather(comm, comm->rank == 1 ? 8 : 16);
    }),
              ATTN_SHAPE_MISMATCH,
              "all_gather: rank 1 has parts of 32 bytes, expected 64 as rank 0 "
              "has");
  }
  {
    Ranks ranks(2);
    expectAll(ranks.run([](attn_comm *comm) {
      return comm->rank == 1 ? exchange(comm) : gather(comm);
    }),
              ATTN_INVALID_ARGUMENT,
              "rank 1 calls all_to_all, expected all_gather as rank 0 does");
  }
  {
    Ranks ranks(2);
    expectAll(ranks.run([](attn_comm *comm) {
      return comm->rank == 1 ? addUp<double>(comm, ATTN_F64)
                             : addUp<float>(comm, ATTN_F32);
    }),
              ATTN_DTYPE_MISMATCH,
              "reduce_scatter: rank 1 has elements of f64, expected f32 as "
              "rank 0 has");
  }
  {
    Ranks ranks(2);
    std::vector<Outcome> outcomes = ranks.run([](attn_comm *comm) {
      int32_t value = 0;
      int32_t peer = 1 - comm->rank, other = ATTN_COMM_NO_PEER;
      return comm->rank == 0 ? attn_comm_send_recv(comm, &value, 4, peer,
                                                   nullptr, 0, other, nullptr)
                             : attn_comm_send_recv(comm, nullptr, 0, other,
                                                   &value, 2, peer, nullptr);
    });
    expectAll(outcomes, ATTN_SHAPE_MISMATCH,
              "send_recv: rank 0 sends 4 bytes to rank 1, which expects 2");
  }
}

/// Runs `body` on rank 1 while rank 0 gathers; both fail with the same text.
static void expectBadArgument(int32_t status, const std::string &text,
                              const Body &body) {
  Ranks ranks(2);
  expectAll(ranks.run([&](attn_comm *comm) {
    return comm->rank == 1 ? body(comm) : gather(comm);
  }),
            status, "rank 1: " + text);
}

TEST(Communicator, BadArgumentsEndTheCallOnAllRanks) {
  static int32_t value;
  expectBadArgument(
      ATTN_INVALID_ARGUMENT, "all_gather: 'send' is null, but has 4 bytes",
      [](attn_comm *comm) {
        return attn_comm_all_gather(comm, nullptr, &value, 4, nullptr);
      });
  expectBadArgument(
      ATTN_INVALID_ARGUMENT, "all_to_all: 'receive' is null, but has 4 bytes",
      [](attn_comm *comm) {
        return attn_comm_all_to_all(comm, &value, nullptr, 4, nullptr);
      });
  expectBadArgument(ATTN_INVALID_ARGUMENT,
                    "all_gather: the size of 'send' is -4 bytes; it must be "
                    "from 0 to 140737488355328",
                    [](attn_comm *comm) {
                      return attn_comm_all_gather(comm, &value, &value, -4,
                                                  nullptr);
                    });
  expectBadArgument(
      ATTN_INVALID_ARGUMENT,
      "send_recv: 'to' is rank 2; it must be from 0 to 1, or ATTN_COMM_NO_PEER",
      [](attn_comm *comm) {
        return attn_comm_send_recv(comm, &value, 4, 2, &value, 4, 0, nullptr);
      });
  expectBadArgument(ATTN_UNSUPPORTED,
                    "reduce_scatter: cannot add up elements of bf16; expected "
                    "f32 or f64",
                    [](attn_comm *comm) {
                      return attn_comm_reduce_scatter(comm, &value, &value, 1,
                                                      ATTN_BF16, nullptr);
                    });
  expectBadArgument(ATTN_UNSUPPORTED,
                    "reduce_scatter: local ranks add up memory of the host "
                    "alone",
                    [](attn_comm *comm) {
                      return attn_comm_reduce_scatter(comm, &value, &value, 1,
                                                      ATTN_F32, &value);
                    });
  expectBadArgument(
      ATTN_WRONG_DEVICE, "the kernel failed", [](attn_comm *comm) {
        return attn_comm_abort(comm, ATTN_WRONG_DEVICE, "the kernel failed");
      });
}

TEST(Communicator, MpiNeedsAWrapper) {
  attn_comm *comm = nullptr;
  auto create = [&](const char *library) {
    setenv("ATTN_MPI_LIBRARY", library, /*overwrite=*/1);
    int32_t status = attn_comm_create_mpi(shortLimitMs, &comm);
    unsetenv("ATTN_MPI_LIBRARY");
    return status;
  };
  EXPECT_EQ(create("/nonexistent/libattn_mpi.so"), ATTN_UNSUPPORTED);
  std::string text = attnGetLastError();
  EXPECT_NE(text.find("cannot open the wrapper of MPI: "
                      "/nonexistent/libattn_mpi.so"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("; build Attn where CMake finds MPI, or name a wrapper "
                      "by ATTN_MPI_LIBRARY"),
            std::string::npos)
      << text;
  EXPECT_EQ(create("libm.so.6"), ATTN_UNSUPPORTED);
  EXPECT_STREQ(attnGetLastError(),
               "'libm.so.6' is no wrapper of MPI: it has no "
               "'attn_mpi_wrapper_functions'");
  EXPECT_EQ(attn_comm_create_mpi(0, &comm), ATTN_INVALID_ARGUMENT);
  EXPECT_STREQ(attnGetLastError(),
               "the time limit must be 1 to 86400000 ms (was 0)");
  EXPECT_EQ(attn_comm_create_mpi_handle(0, 1, nullptr), ATTN_INVALID_ARGUMENT);
  EXPECT_STREQ(attnGetLastError(), "'comm' is null");
}

TEST(Communicator, BadGroups) {
  attn_comm *comm = nullptr;
  EXPECT_EQ(attn_comm_create_local(0, 1, &comm), ATTN_INVALID_ARGUMENT);
  EXPECT_STREQ(attnGetLastError(),
               "a local group must have 1 to 1024 ranks (was 0)");
  EXPECT_EQ(attn_comm_create_local(1, 0, &comm), ATTN_INVALID_ARGUMENT);
  EXPECT_STREQ(attnGetLastError(),
               "the time limit must be 1 to 86400000 ms (was 0)");
  EXPECT_EQ(attn_comm_create_local(1, 1, nullptr), ATTN_INVALID_ARGUMENT);
  EXPECT_EQ(attn_comm_all_gather(nullptr, nullptr, nullptr, 0, nullptr),
            ATTN_INVALID_ARGUMENT);
  EXPECT_STREQ(attnGetLastError(), "all_gather: the communicator is null");
  attn_comm_destroy(nullptr);

  ASSERT_EQ(attn_comm_create_local(1, 1, &comm), ATTN_OK);
  attn_comm_traffic traffic;
  EXPECT_EQ(attn_comm_get_traffic(comm, ATTN_COMM_ALL_GATHER, &traffic),
            ATTN_INVALID_ARGUMENT);
  EXPECT_STREQ(attnGetLastError(),
               "the communicator does not record its traffic");
  attn_comm_faults faults = {};
  EXPECT_EQ(attn_comm_create_recording(comm, &faults, &comm),
            ATTN_INVALID_ARGUMENT);
  EXPECT_STREQ(attnGetLastError(),
               "'fail_status' of a call that fails must not be ATTN_OK");
  EXPECT_EQ(attn_comm_create_recording(comm, nullptr, &comm), ATTN_OK);
  EXPECT_EQ(attn_comm_get_traffic(comm, 4, &traffic), ATTN_INVALID_ARGUMENT);
  EXPECT_STREQ(attnGetLastError(), "'kind' must be from 0 to 3 (was 4)");
  attn_comm_destroy(comm);

  attn_comm_functions functions = {};
  functions.abi_version = 99;
  attn_comm other = {&functions, 0, 1};
  EXPECT_EQ(attn_comm_abort(&other, ATTN_INTERNAL, ""), ATTN_VERSION_MISMATCH);
  EXPECT_STREQ(attnGetLastError(),
               "abort: the communicator has ABI version 99, expected 2");
}
