//===- CommunicatorCalls.h - Calls whose values are checked -----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Calls of all kinds that check the values that they receive, for communicators
// of all kinds.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_UNIT_RUNTIME_COMMUNICATORCALLS_H
#define ATTN_TEST_UNIT_RUNTIME_COMMUNICATORCALLS_H

#include "attn-runtime/attn_comm.h"
#include "gtest/gtest.h"

#include <chrono>
#include <functional>
#include <string>
#include <vector>

inline constexpr int64_t longLimitMs = 60000, shortLimitMs = 200;

/// What a rank ended with.
struct Outcome {
  int32_t status = ATTN_OK;
  std::string text;
};

using Body = std::function<int32_t(attn_comm *)>;

/// A value that tells rank, part and element apart.
inline int32_t mark(int32_t rank, int32_t part, int32_t element) {
  return rank * 1000000 + part * 1000 + element;
}

inline int32_t passAround(attn_comm *comm, int32_t step, int64_t count = 100) {
  std::vector<int32_t> send(count), receive(count);
  for (int64_t i = 0; i < count; ++i)
    send[i] = mark(comm->rank, step, int32_t(i));
  int32_t to = (comm->rank + step) % comm->size;
  int32_t from = (comm->rank + comm->size - step % comm->size) % comm->size;
  int32_t status =
      attn_comm_send_recv(comm, send.data(), count * 4, to, receive.data(),
                          count * 4, from, nullptr);
  for (int64_t i = 0; status == ATTN_OK && i < count; ++i)
    EXPECT_EQ(receive[i], mark(from, step, int32_t(i)));
  return status;
}

inline int32_t gather(attn_comm *comm, int64_t count = 100) {
  std::vector<int32_t> send(count), receive(count * comm->size);
  for (int64_t i = 0; i < count; ++i)
    send[i] = mark(comm->rank, 0, int32_t(i));
  int32_t status = attn_comm_all_gather(comm, send.data(), receive.data(),
                                        count * 4, nullptr);
  for (int64_t i = 0; status == ATTN_OK && i < count * comm->size; ++i)
    EXPECT_EQ(receive[i], mark(int32_t(i / count), 0, int32_t(i % count)));
  return status;
}

inline int32_t exchange(attn_comm *comm, int64_t count = 100) {
  std::vector<int32_t> send(count * comm->size), receive(count * comm->size);
  for (int64_t i = 0; i < count * comm->size; ++i)
    send[i] = mark(comm->rank, int32_t(i / count), int32_t(i % count));
  int32_t status = attn_comm_all_to_all(comm, send.data(), receive.data(),
                                        count * 4, nullptr);
  for (int64_t i = 0; status == ATTN_OK && i < count * comm->size; ++i)
    EXPECT_EQ(receive[i],
              mark(int32_t(i / count), comm->rank, int32_t(i % count)));
  return status;
}

template <typename T>
int32_t addUp(attn_comm *comm, int32_t dtype, int64_t count = 100) {
  std::vector<T> send(count * comm->size), receive(count);
  auto term = [&](int32_t rank, int64_t part, int64_t i) {
    return T(1) / T(1 + rank + 3 * part + 7 * i);
  };
  for (int64_t i = 0; i < count * comm->size; ++i)
    send[i] = term(comm->rank, i / count, i % count);
  int32_t status = attn_comm_reduce_scatter(comm, send.data(), receive.data(),
                                            count, dtype, nullptr);
  for (int64_t i = 0; status == ATTN_OK && i < count; ++i) {
    T sum = 0;
    for (int32_t rank = 0; rank < comm->size; ++rank)
      sum += term(rank, comm->rank, i);
    EXPECT_EQ(receive[i], sum);
  }
  return status;
}

/// All functions, some times.
inline int32_t callAll(attn_comm *comm, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    for (int32_t step = 0; step < comm->size; ++step)
      if (int32_t status = passAround(comm, step))
        return status;
    if (int32_t status = gather(comm))
      return status;
    if (int32_t status = exchange(comm))
      return status;
    if (int32_t status = addUp<float>(comm, ATTN_F32))
      return status;
    if (int32_t status = addUp<double>(comm, ATTN_F64))
      return status;
  }
  return ATTN_OK;
}

inline double runTimed(const std::function<void()> &body) {
  auto begin = std::chrono::steady_clock::now();
  body();
  std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  return time.count();
}

#endif // ATTN_TEST_UNIT_RUNTIME_COMMUNICATORCALLS_H
