//===- Random.cpp - Reproducible inputs -----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The generator that Random.h defines.
//
//===----------------------------------------------------------------------===//

#include "Random.h"

#include <cmath>

using namespace attnrt;

static constexpr uint64_t golden = 0x9e3779b97f4a7c15u;

static uint64_t splitmix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  x ^= x >> 31;
  return x;
}

RandomStream::RandomStream(uint64_t seed, uint64_t argument)
    : key(splitmix(splitmix(seed + golden) + (argument + 1) * golden)) {}

uint64_t RandomStream::word(int64_t index, int part) const {
  return splitmix(key + (3 * static_cast<uint64_t>(index) + part + 1) * golden);
}

double RandomStream::normal(int64_t index) const {
  int32_t sum = 0;
  for (int part = 0; part < 3; ++part) {
    uint64_t bits = word(index, part);
    for (int shift = 0; shift < 64; shift += 16)
      sum += static_cast<int32_t>((bits >> shift) & 0xffffu);
  }
  return (sum - 393210) / 65536.0;
}

double RandomStream::uniform(int64_t index) const {
  return static_cast<double>(word(index, 0) >> 11) * 0x1p-53;
}

Fill attnrt::getDefaultFill(int32_t dtype) {
  if (isFloatDType(dtype))
    return {Fill::Kind::Normal, 1, 1};
  if (dtype == ATTN_I1)
    return {Fill::Kind::Uniform, 0, 2};
  return {Fill::Kind::Constant, 0, 0};
}

/// Parses a whole string as a number.
static bool parseNumber(const std::string &text, double &value) {
  char *end;
  value = std::strtod(text.c_str(), &end);
  return !text.empty() && *end == 0;
}

/// The same for numbers that others are computed from.
static bool parseFiniteNumber(const std::string &text, double &value) {
  return parseNumber(text, value) && std::isfinite(value);
}

int32_t attnrt::parseFill(const std::string &text, Fill &fill) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end; (end = text.find(':', begin)) != std::string::npos;
       begin = end + 1)
    parts.push_back(text.substr(begin, end - begin));
  parts.push_back(text.substr(begin));

  size_t count = parts.size();
  const std::string &kind = parts[0];
  fill = {Fill::Kind::Constant, 0, 0};
  if (kind == "zeros" && count == 1)
    return ATTN_OK;
  if (kind == "ones" && count == 1) {
    fill.a = 1;
    return ATTN_OK;
  }
  if (kind == "const" && count == 2 && parseNumber(parts[1], fill.a))
    return ATTN_OK;
  if (kind == "iota" && count == 1) {
    fill.kind = Fill::Kind::Iota;
    return ATTN_OK;
  }
  fill = {Fill::Kind::Normal, 1, 1};
  if (kind == "normal" &&
      (count == 1 || (count == 2 && parseFiniteNumber(parts[1], fill.a))))
    return ATTN_OK;
  fill.kind = Fill::Kind::Uniform;
  if (kind == "uniform" && count == 3 && parseFiniteNumber(parts[1], fill.a) &&
      parseFiniteNumber(parts[2], fill.b) && std::isfinite(fill.b - fill.a))
    return ATTN_OK;
  return attnrtSetError(
      ATTN_INVALID_ARGUMENT,
      "'%s' is not a way to fill a tensor (expected normal[:SCALE], "
      "uniform:LOW:HIGH, zeros, ones, const:VALUE or iota; scales and bounds "
      "are finite)",
      text.c_str());
}

void attnrt::fillTensor(HostTensor &tensor, const Fill &fill,
                        const RandomStream &stream) {
  bool isFloat = isFloatDType(tensor.getDType());
  // i1 stores any value other than 0 as 1: 0 <= x < 2 must become 0 or 1.
  auto valueAt = [&](int64_t index) -> double {
    switch (fill.kind) {
    case Fill::Kind::Normal:
      return stream.normal(index) * fill.a;
    case Fill::Kind::Uniform: {
      double value = fill.a + (fill.b - fill.a) * stream.uniform(index);
      return isFloat ? value : std::floor(value);
    }
    case Fill::Kind::Constant:
      return fill.a;
    case Fill::Kind::Iota:
      return static_cast<double>(index);
    }
    return 0;
  };
  parallelFor(tensor.getNumElements(), [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index)
      tensor.store(tensor.getOffset(index), valueAt(index));
  });
}
