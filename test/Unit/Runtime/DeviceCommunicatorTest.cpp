//===- DeviceCommunicatorTest.cpp - Ranks that exchange device memory -----===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Local ranks and ranks of NCCL exchange memory of the fake driver. A fake
// library of NCCL connects threads of the test.
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"
#include "attn-runtime/attn_comm.h"
#include "gtest/gtest.h"

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int32_t numRanks = 4;
constexpr int64_t longLimitMs = 60000, shortLimitMs = 300;

void *legacyStream() {
  return reinterpret_cast<void *>(uintptr_t(ATTN_COMM_LEGACY_STREAM));
}

/// What a rank's thread ended with.
struct Outcome {
  int32_t status = ATTN_OK;
  std::string text;
};

/// Memory of the fake driver, which the host can read.
class Memory {
public:
  explicit Memory(int64_t count) {
    void *data = nullptr;
    EXPECT_EQ(attnrtMalloc(&data, count * 4), ATTN_OK) << attnGetLastError();
    elements = static_cast<int32_t *>(data);
  }
  ~Memory() { attnrtFree(elements); }
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;

  int32_t *get() { return elements; }
  int32_t &operator[](int64_t index) { return elements[index]; }

private:
  int32_t *elements;
};

/// A thread for each rank, with a stream of the fake driver.
class Ranks {
public:
  using Body = std::function<int32_t(attn_comm *, void *stream)>;
  using Create = std::function<int32_t(int32_t rank, attn_comm **)>;

  std::vector<Outcome> run(const Create &create, const Body &body) {
    std::vector<Outcome> outcomes(numRanks);
    std::vector<std::thread> threads;
    for (int32_t rank = 0; rank < numRanks; ++rank)
      threads.emplace_back([&, rank] {
        EXPECT_EQ(attnrtSetDevice(0), ATTN_OK) << attnGetLastError();
        Outcome &outcome = outcomes[rank];
        attn_comm *comm = nullptr;
        outcome.status = create(rank, &comm);
        void *fork = nullptr, *stream = nullptr;
        if (!outcome.status)
          outcome.status = attnrtForkStream(nullptr, &fork, &stream);
        if (!outcome.status)
          outcome.status = body(comm, stream);
        if (outcome.status)
          outcome.text = attnGetLastError();
        attnrtJoinStream(fork, nullptr);
        attn_comm_destroy(comm);
      });
    for (std::thread &thread : threads)
      thread.join();
    return outcomes;
  }
};

/// Ranks of one kind.
class DeviceCommunicator : public ::testing::TestWithParam<bool> {
protected:
  void SetUp() override {
    setenv("ATTN_NCCL_LIBRARY", FAKE_NCCL_PATH, /*overwrite=*/1);
    unsetenv("FAKE_NCCL_ERROR");
    getFakeDriver().reset();
    ASSERT_EQ(attnrtSetDevice(0), ATTN_OK) << attnGetLastError();
  }
  void TearDown() override {
    unsetenv("FAKE_NCCL_ERROR");
    getFakeDriver().reset();
  }

  bool isNccl() const { return GetParam(); }

  std::vector<Outcome> run(const Ranks::Body &body,
                           int64_t limitMs = longLimitMs) {
    Ranks ranks;
    if (!isNccl()) {
      attn_comm *comms[numRanks];
      EXPECT_EQ(attn_comm_create_local(numRanks, limitMs, comms), ATTN_OK);
      return ranks.run(
          [&](int32_t rank, attn_comm **comm) {
            *comm = comms[rank];
            return int32_t(ATTN_OK);
          },
          body);
    }
    attn_comm_nccl_id id;
    EXPECT_EQ(attn_comm_nccl_unique_id(&id), ATTN_OK) << attnGetLastError();
    return ranks.run(
        [&](int32_t rank, attn_comm **comm) {
          return attn_comm_create_nccl(&id, rank, numRanks, limitMs, comm);
        },
        body);
  }
  void expectAllOk(const std::vector<Outcome> &outcomes) {
    for (const Outcome &outcome : outcomes)
      EXPECT_EQ(outcome.status, ATTN_OK) << outcome.text;
  }
};

} // namespace

TEST_P(DeviceCommunicator, PassesAround) {
  expectAllOk(run([](attn_comm *comm, void *stream) {
    Memory send(10), receive(10);
    int32_t next = (comm->rank + 1) % numRanks;
    int32_t previous = (comm->rank + numRanks - 1) % numRanks;
    for (int32_t step = 0; step < 5; ++step) {
      for (int32_t i = 0; i < 10; ++i)
        send[i] = comm->rank * 1000 + step * 100 + i;
      if (int32_t status =
              attn_comm_send_recv(comm, send.get(), 40, next, receive.get(), 40,
                                  previous, step % 2 ? stream : legacyStream()))
        return status;
      for (int32_t i = 0; i < 10; ++i)
        EXPECT_EQ(receive[i], previous * 1000 + step * 100 + i);
    }
    return int32_t(ATTN_OK);
  }));
}

TEST_P(DeviceCommunicator, SendsOneWayAndToItself) {
  expectAllOk(run([](attn_comm *comm, void *stream) {
    Memory send(1), receive(1);
    send[0] = comm->rank;
    receive[0] = -1;
    bool sends = comm->rank == 1, receives = comm->rank == 3;
    if (int32_t status = attn_comm_send_recv(
            comm, send.get(), 4, sends ? 3 : ATTN_COMM_NO_PEER, receive.get(),
            4, receives ? 1 : ATTN_COMM_NO_PEER, stream))
      return status;
    EXPECT_EQ(receive[0], receives ? 1 : -1);
    int32_t status = attn_comm_send_recv(comm, send.get(), 4, comm->rank,
                                         receive.get(), 4, comm->rank, stream);
    EXPECT_EQ(receive[0], comm->rank);
    return status;
  }));
}

TEST_P(DeviceCommunicator, Collectives) {
  expectAllOk(run([](attn_comm *comm, void *stream) {
    Memory send(numRanks * 3), receive(numRanks * 3);
    for (int32_t i = 0; i < numRanks * 3; ++i)
      send[i] = comm->rank * 100 + i;
    for (int32_t round = 0; round < 3; ++round) {
      if (int32_t status =
              attn_comm_all_gather(comm, send.get(), receive.get(), 12, stream))
        return status;
      for (int32_t i = 0; i < numRanks * 3; ++i)
        EXPECT_EQ(receive[i], i / 3 * 100 + i % 3);
      if (int32_t status =
              attn_comm_all_to_all(comm, send.get(), receive.get(), 12, stream))
        return status;
      for (int32_t i = 0; i < numRanks * 3; ++i)
        EXPECT_EQ(receive[i], i / 3 * 100 + comm->rank * 3 + i % 3);
    }
    return int32_t(ATTN_OK);
  }));
}

TEST_P(DeviceCommunicator, ARankMakesNoCall) {
  auto start = std::chrono::steady_clock::now();
  std::vector<Outcome> outcomes = run(
      [&](attn_comm *comm, void *stream) {
        Memory send(1), receive(1);
        // The rank stays until the other ones have given up.
        if (comm->rank == 2) {
          std::this_thread::sleep_for(
              std::chrono::milliseconds(3 * shortLimitMs));
          return int32_t(ATTN_IO_ERROR);
        }
        return attn_comm_send_recv(
            comm, send.get(), 4, (comm->rank + 1) % numRanks, receive.get(), 4,
            (comm->rank + numRanks - 1) % numRanks, stream);
      },
      shortLimitMs);
  for (int32_t rank : {1, 3}) {
    EXPECT_EQ(outcomes[rank].status, ATTN_IO_ERROR);
    EXPECT_NE(outcomes[rank].text.find("waited 300 ms in send_recv"),
              std::string::npos)
        << outcomes[rank].text;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

TEST_P(DeviceCommunicator, FailsForGood) {
  std::vector<Outcome> outcomes = run([](attn_comm *comm, void *stream) {
    Memory memory(numRanks);
    attn_comm_abort(comm, ATTN_WRONG_DEVICE, "no kernel");
    return attn_comm_all_gather(comm, memory.get(), memory.get(), 4, stream);
  });
  for (const Outcome &outcome : outcomes) {
    EXPECT_EQ(outcome.status, ATTN_WRONG_DEVICE);
    EXPECT_NE(outcome.text.find(": no kernel"), std::string::npos)
        << outcome.text;
  }
}

TEST_P(DeviceCommunicator, DriverErrorsAreErrors) {
  getFakeDriver().fail("cuEventRecord", 700);
  std::vector<Outcome> outcomes(numRanks);
  attn_comm_nccl_id id;
  ASSERT_EQ(attn_comm_nccl_unique_id(&id), ATTN_OK);
  attn_comm *comms[numRanks] = {};
  ASSERT_EQ(isNccl() ? attn_comm_create_nccl(&id, 0, 1, longLimitMs, comms)
                     : attn_comm_create_local(1, longLimitMs, comms),
            ATTN_OK);
  Memory memory(1), other(1);
  EXPECT_EQ(attn_comm_all_gather(comms[0], memory.get(), other.get(), 4,
                                 legacyStream()),
            ATTN_DRIVER_ERROR);
  EXPECT_NE(std::string(attnGetLastError()).find("cannot record an event"),
            std::string::npos)
      << attnGetLastError();
  getFakeDriver().fail("cuEventRecord", 0);
  attn_comm_destroy(comms[0]);
}

INSTANTIATE_TEST_SUITE_P(Kinds, DeviceCommunicator, ::testing::Bool(),
                         [](const ::testing::TestParamInfo<bool> &info) {
                           return info.param ? "Nccl" : "Local";
                         });

TEST(NcclCommunicator, ReportsErrorsOfTheLibrary) {
  setenv("ATTN_NCCL_LIBRARY", FAKE_NCCL_PATH, /*overwrite=*/1);
  ASSERT_EQ(attnrtSetDevice(0), ATTN_OK);
  attn_comm_nccl_id id;
  ASSERT_EQ(attn_comm_nccl_unique_id(&id), ATTN_OK) << attnGetLastError();
  attn_comm *comm = nullptr;
  ASSERT_EQ(attn_comm_create_nccl(&id, 0, 1, longLimitMs, &comm), ATTN_OK);
  Memory send(1), receive(1);
  setenv("FAKE_NCCL_ERROR", "1", /*overwrite=*/1);
  EXPECT_EQ(
      attn_comm_all_gather(comm, send.get(), receive.get(), 4, legacyStream()),
      ATTN_DRIVER_ERROR);
  EXPECT_STREQ(attnGetLastError(),
               "rank 0: all_gather: unhandled cuda error (fake)");
  unsetenv("FAKE_NCCL_ERROR");
  attn_comm_destroy(comm);
}

TEST(NcclCommunicator, TakesMemoryOfDevicesAlone) {
  setenv("ATTN_NCCL_LIBRARY", FAKE_NCCL_PATH, /*overwrite=*/1);
  attn_comm_nccl_id id;
  ASSERT_EQ(attn_comm_nccl_unique_id(&id), ATTN_OK) << attnGetLastError();
  attn_comm *comm = nullptr;
  ASSERT_EQ(attn_comm_create_nccl(&id, 0, 1, longLimitMs, &comm), ATTN_OK);
  int32_t value = 0;
  EXPECT_ERROR(attn_comm_all_gather(comm, &value, &value, 4, nullptr),
               ATTN_UNSUPPORTED,
               "rank 0: all_gather: the group does not exchange memory of the "
               "host");
  attn_comm_destroy(comm);
}

TEST(NcclCommunicator, BadGroups) {
  attn_comm_nccl_id id = {};
  attn_comm *comm = nullptr;
  EXPECT_ERROR(attn_comm_nccl_unique_id(nullptr), ATTN_INVALID_ARGUMENT,
               "'id' is null");
  EXPECT_ERROR(attn_comm_create_nccl(nullptr, 0, 1, 1, &comm),
               ATTN_INVALID_ARGUMENT, "'id' is null");
  EXPECT_ERROR(attn_comm_create_nccl(&id, 0, 1, 1, nullptr),
               ATTN_INVALID_ARGUMENT, "'comm' is null");
  EXPECT_ERROR(attn_comm_create_nccl(&id, 2, 2, 1, &comm),
               ATTN_INVALID_ARGUMENT,
               "'rank' must be from 0 to below 'size' (was 2 of 2)");
  EXPECT_ERROR(attn_comm_create_nccl(&id, 0, 2, 0, &comm),
               ATTN_INVALID_ARGUMENT,
               "the time limit must be 1 to 86400000 ms (was 0)");
}

TEST(NcclCommunicator, WaitsForOtherRanksToJoin) {
  setenv("ATTN_NCCL_LIBRARY", FAKE_NCCL_PATH, /*overwrite=*/1);
  ASSERT_EQ(attnrtSetDevice(0), ATTN_OK);
  attn_comm_nccl_id id;
  ASSERT_EQ(attn_comm_nccl_unique_id(&id), ATTN_OK);
  attn_comm *comm = nullptr;
  EXPECT_ERROR(attn_comm_create_nccl(&id, 0, 2, shortLimitMs, &comm),
               ATTN_IO_ERROR,
               "rank 0: waited 300 ms in joining the group for other ranks");
  EXPECT_EQ(comm, nullptr);
}
