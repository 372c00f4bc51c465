//===- MpiCommunicatorTest.cpp - Tests of ranks under MPI -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tests of local ranks, for processes that mpirun starts: each process runs
// all tests, as one rank of a new group in each. lit runs the program with 2
// and 4 ranks (test/Integration/host/mpi-communicator.test). With --initialize,
// the program initializes and finalizes MPI itself. Some tests have to be asked
// for, by --gtest_also_run_disabled_tests: one ends a process, and one sends
// more bytes than MPI can count in an int, for which two ranks need 5 GiB.
//
//===----------------------------------------------------------------------===//

#include "CommunicatorCalls.h"

#include <csignal>
#include <cstring>
#include <mpi.h>
#include <thread>
#include <unistd.h>

namespace {

/// Ranks begin a test together: time spent in other tests counts for no limit.
void meetAll() {
  int isInitialized = 0;
  MPI_Initialized(&isInitialized);
  if (isInitialized)
    MPI_Barrier(MPI_COMM_WORLD);
}

/// A rank of a new group, perhaps in a recording communicator.
class Rank {
public:
  explicit Rank(int64_t limitMs = longLimitMs) {
    meetAll();
    EXPECT_EQ(attn_comm_create_mpi(limitMs, &comm), ATTN_OK)
        << attnGetLastError();
    if (!comm)
      exit(1);
    // A failure would end the creation on ranks that are still in it.
    meetAll();
  }
  ~Rank() {
    // Nobody waits for a rank that is destroyed.
    meetAll();
    attn_comm_destroy(comm);
  }

  attn_comm *get() const { return comm; }
  int32_t number() const { return comm->rank; }
  int32_t size() const { return comm->size; }
  void record(const attn_comm_faults *faults = nullptr) {
    EXPECT_EQ(attn_comm_create_recording(comm, faults, &comm), ATTN_OK)
        << attnGetLastError();
  }
  void destroy() {
    attn_comm_destroy(comm);
    comm = nullptr;
  }
  Outcome run(const Body &body) {
    Outcome outcome;
    outcome.status = body(comm);
    if (outcome.status != ATTN_OK)
      outcome.text = attnGetLastError();
    return outcome;
  }
  void expectOk(const Body &body) {
    Outcome outcome = run(body);
    EXPECT_EQ(outcome.status, ATTN_OK) << outcome.text;
  }
  void expectFailure(const Body &body, int32_t status,
                     const std::string &text) {
    Outcome outcome = run(body);
    EXPECT_EQ(outcome.status, status);
    EXPECT_EQ(outcome.text, text);
  }

private:
  attn_comm *comm = nullptr;
};

attn_comm_faults makeFaults(int64_t failAt, int64_t stopAt, int32_t status) {
  attn_comm_faults faults = {};
  faults.fail_at = failAt;
  faults.stop_at = stopAt;
  faults.fail_status = status;
  return faults;
}

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

TEST(MpiCommunicator, RanksHaveTheNumbersOfMpi) {
  Rank rank;
  int number = -1, size = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &number);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  EXPECT_EQ(rank.number(), number);
  EXPECT_EQ(rank.size(), size);
}

TEST(MpiCommunicator, RanksReceiveWhatOthersSend) {
  Rank rank;
  rank.expectOk([](attn_comm *comm) { return callAll(comm, 5); });
}

TEST(MpiCommunicator, LongMessages) {
  Rank rank;
  rank.expectOk([](attn_comm *comm) {
    // Not a multiple of the size of a message.
    constexpr int64_t count = 70001;
    if (int32_t status = passAround(comm, 1, count))
      return status;
    if (int32_t status = gather(comm, count))
      return status;
    if (int32_t status = exchange(comm, count))
      return status;
    if (int32_t status = addUp<float>(comm, ATTN_F32, count))
      return status;
    return addUp<double>(comm, ATTN_F64, count);
  });
}

TEST(MpiCommunicator, EmptyAndInPlaceBuffers) {
  Rank rank;
  rank.expectOk([](attn_comm *comm) {
    if (int32_t status =
            attn_comm_all_gather(comm, nullptr, nullptr, 0, nullptr))
      return status;
    std::vector<int32_t> parts(comm->size, -1);
    parts[comm->rank] = comm->rank;
    int32_t status = attn_comm_all_gather(comm, &parts[comm->rank],
                                          parts.data(), 4, nullptr);
    for (int32_t r = 0; r < comm->size; ++r)
      EXPECT_EQ(parts[r], r);
    return status;
  });
}

TEST(MpiCommunicator, OneDirectionAndNone) {
  Rank rank;
  int32_t last = rank.size() - 1;
  rank.expectOk([&](attn_comm *comm) {
    int32_t value = 7, received = 0;
    int32_t to = comm->rank == 0 ? last : ATTN_COMM_NO_PEER;
    int32_t from = comm->rank == last ? 0 : ATTN_COMM_NO_PEER;
    int32_t status =
        attn_comm_send_recv(comm, &value, 4, to, &received, 4, from, nullptr);
    EXPECT_EQ(received, comm->rank == last ? 7 : 0);
    return status;
  });
}

TEST(MpiCommunicator, RandomDelaysNeitherHangNorChangeResults) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Rank rank;
    attn_comm_faults faults = makeFaults(-1, -1, ATTN_OK);
    faults.max_delay_us = 50;
    faults.seed = seed * rank.size() + rank.number();
    rank.record(&faults);
    rank.expectOk([](attn_comm *comm) { return callAll(comm, 1); });
  }
}

TEST(MpiCommunicator, TrafficIsCounted) {
  Rank rank;
  rank.record();
  rank.expectOk([](attn_comm *comm) { return callAll(comm, 2); });
  int64_t size = rank.size(), others = size - 1;
  auto expect = [&](attn_comm_kind kind, int64_t calls, int64_t bytes) {
    attn_comm_traffic traffic;
    EXPECT_EQ(attn_comm_get_traffic(rank.get(), kind, &traffic), ATTN_OK);
    EXPECT_EQ(traffic.calls, calls);
    EXPECT_EQ(traffic.bytes_sent, bytes);
    EXPECT_EQ(traffic.bytes_received, bytes);
  };
  expect(ATTN_COMM_SEND_RECV, 2 * size, 2 * others * 400);
  expect(ATTN_COMM_ALL_GATHER, 2, 2 * others * 400);
  expect(ATTN_COMM_ALL_TO_ALL, 2, 2 * others * 400);
  expect(ATTN_COMM_REDUCE_SCATTER, 4, 2 * others * (400 + 800));
}

TEST(MpiCommunicator, AFailureEndsTheCallOnAllRanks) {
  for (int64_t call = 0; call < 6; ++call) {
    Rank rank;
    attn_comm_faults faults = makeFaults(call, -1, ATTN_OUT_OF_MEMORY);
    if (rank.number() == 1)
      rank.record(&faults);
    double seconds = runTimed([&] {
      rank.expectFailure(
          [](attn_comm *comm) { return callAll(comm, 1); }, ATTN_OUT_OF_MEMORY,
          "rank 1: call " + std::to_string(call) + " fails as it should");
    });
    EXPECT_LT(seconds, 30);
    // The group stays failed.
    EXPECT_EQ(gather(rank.get()), ATTN_OUT_OF_MEMORY);
    EXPECT_EQ(passAround(rank.get(), 1), ATTN_OUT_OF_MEMORY);
  }
}

TEST(MpiCommunicator, ARankThatStopsEndsTheCallWithinTheTimeLimit) {
  // A message and a call of all ranks.
  for (int64_t call : {1, 4}) {
    Rank rank(shortLimitMs);
    attn_comm_faults faults = makeFaults(-1, call, ATTN_DRIVER_ERROR);
    if (rank.number() == 1)
      rank.record(&faults);
    Outcome outcome;
    double seconds = runTimed([&] {
      outcome = rank.run([](attn_comm *comm) { return callAll(comm, 1); });
    });
    EXPECT_LT(seconds, 20);
    if (rank.number() == 1) {
      EXPECT_EQ(outcome.status, ATTN_DRIVER_ERROR);
      continue;
    }
    EXPECT_EQ(outcome.status, ATTN_IO_ERROR);
    EXPECT_TRUE(contains(outcome.text, " waited 200 ms in ")) << outcome.text;
  }
}

TEST(MpiCommunicator, MissingRanksAreNamed) {
  Rank rank(shortLimitMs);
  bool isMissing = rank.number() == rank.size() - 1;
  Outcome outcome = rank.run([&](attn_comm *comm) {
    return isMissing ? int32_t(ATTN_OK) : gather(comm);
  });
  if (!isMissing) {
    EXPECT_EQ(outcome.status, ATTN_IO_ERROR);
    EXPECT_TRUE(contains(outcome.text,
                         "waited 200 ms in all_gather for ranks that made no "
                         "call: " +
                             std::to_string(rank.size() - 1)))
        << outcome.text;
  }
}

TEST(MpiCommunicator, DestroyedRanksAreNamed) {
  for (bool isMessage : {false, true}) {
    Rank rank;
    // The calls before are complete.
    rank.expectOk([](attn_comm *comm) { return callAll(comm, 1); });
    if (rank.number() == 1) {
      rank.destroy();
      continue;
    }
    Outcome outcome = rank.run([&](attn_comm *comm) {
      if (!isMessage)
        return gather(comm);
      int32_t value = 0;
      return attn_comm_send_recv(comm, &value, 4, 1, nullptr, 0,
                                 ATTN_COMM_NO_PEER, nullptr);
    });
    EXPECT_EQ(outcome.status, ATTN_IO_ERROR);
    EXPECT_TRUE(contains(outcome.text, "waits for rank 1, which was destroyed"))
        << outcome.text;
  }
}

TEST(MpiCommunicator, RanksMustAgree) {
  {
    Rank rank;
    rank.expectFailure(
        [](attn_comm *comm) { return gather(comm, comm->rank == 1 ? 8 : 16); },
        ATTN_SHAPE_MISMATCH,
        "all_gather: rank 1 has parts of 32 bytes, expected 64 as rank 0 has");
  }
  {
    Rank rank;
    rank.expectFailure(
        [](attn_comm *comm) {
          return comm->rank == 1 ? exchange(comm) : gather(comm);
        },
        ATTN_INVALID_ARGUMENT,
        "rank 1 calls all_to_all, expected all_gather as rank 0 does");
  }
  {
    Rank rank;
    rank.expectFailure(
        [](attn_comm *comm) {
          return comm->rank == 1 ? addUp<double>(comm, ATTN_F64)
                                 : addUp<float>(comm, ATTN_F32);
        },
        ATTN_DTYPE_MISMATCH,
        "reduce_scatter: rank 1 has elements of f64, expected f32 as rank 0 "
        "has");
  }
  {
    // The last rank would wait for a message of another one.
    Rank rank;
    int32_t value = 0, none = ATTN_COMM_NO_PEER;
    rank.expectFailure(
        [&](attn_comm *comm) {
          if (comm->rank == 0)
            return attn_comm_send_recv(comm, &value, 4, 1, nullptr, 0, none,
                                       nullptr);
          if (comm->rank == 1)
            return attn_comm_send_recv(comm, nullptr, 0, none, &value, 2, 0,
                                       nullptr);
          return attn_comm_send_recv(comm, nullptr, 0, none, &value, 2, 1,
                                     nullptr);
        },
        ATTN_SHAPE_MISMATCH,
        "send_recv: rank 0 sends 4 bytes to rank 1, which expects 2");
  }
}

TEST(MpiCommunicator, AMessageMeetsACallOfAllRanks) {
  Rank rank;
  Outcome outcome = rank.run([](attn_comm *comm) {
    return comm->rank == 1 ? passAround(comm, 1) : gather(comm);
  });
  EXPECT_EQ(outcome.status, ATTN_INVALID_ARGUMENT);
  EXPECT_TRUE(
      contains(outcome.text, "calls all_gather, expected send_recv as rank 1 "
                             "does") ||
      contains(outcome.text, "rank 1 calls send_recv, expected all_gather as "
                             "rank 0 does"))
      << outcome.text;
}

TEST(MpiCommunicator, BadArgumentsEndTheCallOnAllRanks) {
  static int32_t value;
  auto expect = [](int32_t status, const std::string &text, const Body &body) {
    Rank rank;
    rank.expectFailure(
        [&](attn_comm *comm) {
          return comm->rank == 1 ? body(comm) : gather(comm);
        },
        status, "rank 1: " + text);
  };
  expect(ATTN_INVALID_ARGUMENT, "all_gather: 'send' is null, but has 4 bytes",
         [](attn_comm *comm) {
           return attn_comm_all_gather(comm, nullptr, &value, 4, nullptr);
         });
  expect(ATTN_UNSUPPORTED,
         "all_gather: the group does not exchange memory of devices",
         [](attn_comm *comm) {
           return attn_comm_all_gather(comm, &value, &value, 4, &value);
         });
  expect(ATTN_WRONG_DEVICE, "the kernel failed", [](attn_comm *comm) {
    return attn_comm_abort(comm, ATTN_WRONG_DEVICE, "the kernel failed");
  });
}

TEST(MpiCommunicator, CompiledFunctionsNeedTheirNumberOfRanks) {
  Rank rank;
  attn_comm_set_current(rank.get());
  int64_t number = -1;
  EXPECT_EQ(attnrtCommRank(rank.size(), &number), ATTN_OK);
  EXPECT_EQ(number, rank.number());
  EXPECT_EQ(attnrtCommRank(rank.size() + 1, &number), ATTN_INVALID_ARGUMENT);
  EXPECT_EQ(attnGetLastError(),
            "rank: the group of rank " + std::to_string(rank.number()) +
                " has " + std::to_string(rank.size()) + " ranks, expected " +
                std::to_string(rank.size() + 1));
  attn_comm_set_current(nullptr);
}

TEST(MpiCommunicator, PartsOfTheWorld) {
  Rank world;
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, world.number() % 2, -world.number(), &half);
  attn_comm *comm = nullptr;
  ASSERT_EQ(attn_comm_create_mpi_handle(MPI_Comm_c2f(half), longLimitMs, &comm),
            ATTN_OK)
      << attnGetLastError();
  // Groups may outlive it.
  MPI_Comm_free(&half);
  EXPECT_EQ(comm->size, world.size() / 2);
  EXPECT_EQ(comm->rank, comm->size - 1 - world.number() / 2);
  EXPECT_EQ(callAll(comm, 1), ATTN_OK) << attnGetLastError();
  attn_comm_destroy(comm);
  EXPECT_EQ(attn_comm_create_mpi_handle(MPI_Comm_c2f(MPI_COMM_NULL),
                                        longLimitMs, &comm),
            ATTN_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(attnGetLastError(),
                       "is no Fortran handle of an intracommunicator of MPI"))
      << attnGetLastError();
  // The world is complete.
  EXPECT_EQ(callAll(world.get(), 1), ATTN_OK) << attnGetLastError();
}

TEST(MpiCommunicator, RanksThatDoNotJoinAreNamed) {
  // The others join a group that has failed on rank 0.
  attn_comm *comm = nullptr;
  int rank = 0;
  meetAll();
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank != 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(3 * shortLimitMs));
  int32_t status = attn_comm_create_mpi(shortLimitMs, &comm);
  // The failure may reach the next call only.
  if (status == ATTN_OK)
    status = gather(comm);
  EXPECT_EQ(status, ATTN_IO_ERROR);
  EXPECT_TRUE(contains(attnGetLastError(),
                       "rank 0 waited 200 ms in the creation of the group for "
                       "ranks that made no call: 1"))
      << attnGetLastError();
  meetAll();
  attn_comm_destroy(comm);
}

TEST(MpiCommunicator, DISABLED_MoreThanTwoGigabytes) {
  Rank rank;
  rank.expectOk([](attn_comm *comm) {
    constexpr int64_t size = (int64_t(1) << 31) + 4097;
    std::vector<char> data(comm->rank < 2 ? size : 0);
    if (comm->rank == 0) {
      data[0] = 1;
      data[size - 1] = 3;
      return attn_comm_send_recv(comm, data.data(), size, 1, nullptr, 0,
                                 ATTN_COMM_NO_PEER, nullptr);
    }
    if (comm->rank > 1)
      return int32_t(ATTN_OK);
    int32_t status = attn_comm_send_recv(comm, nullptr, 0, ATTN_COMM_NO_PEER,
                                         data.data(), size, 0, nullptr);
    EXPECT_EQ(data[0] + data[size - 1], 4);
    return status;
  });
}

TEST(MpiCommunicator, DISABLED_AProcessThatEndsFailsTheGroup) {
  Rank rank(shortLimitMs);
  rank.expectOk([](attn_comm *comm) { return callAll(comm, 1); });
  // mpirun ends the other processes when it finds out.
  signal(SIGTERM, SIG_IGN);
  if (rank.number() == 1)
    raise(SIGKILL);
  Outcome outcome;
  double seconds = runTimed([&] {
    outcome = rank.run([](attn_comm *comm) { return callAll(comm, 1); });
  });
  EXPECT_LT(seconds, 10);
  EXPECT_EQ(outcome.status, ATTN_IO_ERROR);
  EXPECT_TRUE(contains(outcome.text, " waited 200 ms in ")) << outcome.text;
  fprintf(stderr, "rank %d: %s\n", rank.number(), outcome.text.c_str());
  // No rank can meet all others any more.
  _exit(testing::Test::HasFailure());
}

} // namespace

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  bool initializes = argc > 1 && strcmp(argv[1], "--initialize") == 0;
  // Calls of the main thread alone.
  if (initializes)
    MPI_Init(&argc, &argv);
  int failed = RUN_ALL_TESTS();
  if (initializes)
    MPI_Finalize();
  return failed;
}
