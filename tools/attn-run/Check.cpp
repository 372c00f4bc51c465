//===- Check.cpp - Comparison with the reference --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The reference's outputs are first filled with a pattern that no computation
// yields, which tells the rows that it leaves out.
//
//===----------------------------------------------------------------------===//

#include "Check.h"
#include "Progress.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>

using namespace attnrt;

/// Fills the f64 outputs of the reference: a quiet NaN with a payload of its
/// own.
static constexpr uint64_t doubleSentinel = 0xfffefefefefefefeu;

/// Fills each byte of the integer outputs of the reference.
static constexpr unsigned char sentinelByte = 0xfe;

/// Bound on the work of the reference if the user sets none, in floating point
/// operations: about five seconds of scalar code.
static constexpr double flopsPerThread = 5e9;

ViewList::ViewList(const std::vector<Argument> &arguments) {
  views.reserve(arguments.size());
  for (const Argument &argument : arguments)
    views.push_back(argument.tensor.getView());
  for (const attn_tensor &view : views)
    pointers.push_back(&view);
}

static int64_t chooseRowStep(const attn_function &function,
                             const attn_tensor *const *args) {
  if (!function.flops)
    return 1;
  double flops = static_cast<double>(function.flops(args));
  double budget = flopsPerThread * attnrtGetNumThreads();
  auto step = static_cast<int64_t>(std::ceil(flops / budget));
  // An odd step meets every position within a tile.
  return step <= 1 ? 1 : step | 1;
}

static void fillWithSentinel(HostTensor &tensor) {
  if (tensor.getDType() != ATTN_F64) {
    tensor.fillBytes(sentinelByte);
    return;
  }
  auto *data = static_cast<uint64_t *>(tensor.getData());
  for (int64_t i = 0; i < tensor.getNumElements(); ++i)
    data[i] = doubleSentinel;
}

/// Whether the reference left an element unwritten.
static bool isSentinel(const HostTensor &reference, int64_t offset) {
  const char *data = static_cast<const char *>(reference.getData());
  int32_t size = attnDTypeSize(reference.getDType());
  if (reference.getDType() == ATTN_F64)
    return std::memcmp(data + offset * size, &doubleSentinel, size) == 0;
  for (int32_t i = 0; i < size; ++i)
    if (static_cast<unsigned char>(data[offset * size + i]) != sentinelByte)
      return false;
  return true;
}

/// The tolerance of an output unless the user gives one. See --help.
static double getDefaultTolerance(const attn_function &function,
                                  const attn_tensor_spec &output) {
  double tolerance = 0;
  bool half = false;
  for (int32_t arg = 0; arg < function.num_args; ++arg) {
    double own = 0;
    switch (function.args[arg].dtype) {
    case ATTN_F8E4M3FN:
    case ATTN_F8E5M2:
      own = 5e-2;
      half = true;
      break;
    case ATTN_BF16:
      own = 1e-2;
      half = true;
      break;
    case ATTN_F16:
      own = 2e-3;
      half = true;
      break;
    case ATTN_F32:
      own = 1e-5;
      break;
    case ATTN_F64:
      own = 1e-10;
      break;
    }
    tolerance = std::max(tolerance, own);
  }
  bool wide = output.dtype == ATTN_F32 || output.dtype == ATTN_F64;
  return half && wide ? tolerance / 4 : tolerance;
}

static double getTolerance(const attn_function &function,
                           const attn_tensor_spec &output,
                           const Options &options) {
  double tolerance = getDefaultTolerance(function, output);
  bool named = false;
  for (const auto &option : options.tolerances) {
    if (option.first == output.name) {
      tolerance = option.second;
      named = true;
    } else if (option.first.empty() && !named) {
      tolerance = option.second;
    }
  }
  return tolerance;
}

namespace {

/// Sums over the elements that the reference has.
struct Sums {
  double errorSquares = 0;
  double referenceSquares = 0;
  double maxAbsError = 0;
  int64_t numFinite = 0;
  int64_t numCompared = 0;
  int64_t numMismatches = 0;
  int64_t numNaN = 0;

  void add(const Sums &other) {
    errorSquares += other.errorSquares;
    referenceSquares += other.referenceSquares;
    maxAbsError = std::max(maxAbsError, other.maxAbsError);
    numFinite += other.numFinite;
    numCompared += other.numCompared;
    numMismatches += other.numMismatches;
    numNaN += other.numNaN;
  }
};

} // namespace

/// Adds up the errors that `visit` finds over the compared elements.
template <typename Visit>
static Sums sumOver(const HostTensor &output, const HostTensor &reference,
                    bool allRows, Visit visit) {
  // An integer may happen to equal the sentinel: if the reference computes all
  // rows, the sentinel is not looked for.
  bool skip = !allRows || reference.getDType() == ATTN_F64;
  Sums total;
  std::mutex mutex;
  parallelFor(output.getNumElements(), [&](int64_t begin, int64_t end) {
    Sums sums;
    for (int64_t index = begin; index < end; ++index) {
      int64_t referenceOffset = reference.getOffset(index);
      if (skip && isSentinel(reference, referenceOffset))
        continue;
      visit(output.load(output.getOffset(index)),
            reference.load(referenceOffset), sums);
    }
    std::lock_guard<std::mutex> lock(mutex);
    total.add(sums);
  });
  return total;
}

static OutputCheck compare(const Argument &argument,
                           const HostTensor &reference, bool allRows,
                           double tolerance) {
  const HostTensor &output = argument.tensor;
  Sums sums = sumOver(output, reference, allRows,
                      [](double out, double ref, Sums &sums) {
                        ++sums.numCompared;
                        sums.numNaN += std::isnan(out);
                        if (!std::isfinite(ref))
                          return;
                        ++sums.numFinite;
                        sums.referenceSquares += ref * ref;
                        double error = std::fabs(out - ref);
                        // A NaN or infinity must show in the error.
                        if (!std::isfinite(error))
                          error = std::numeric_limits<double>::infinity();
                        sums.errorSquares += error * error;
                        sums.maxAbsError = std::max(sums.maxAbsError, error);
                      });
  double rms =
      sums.numFinite ? std::sqrt(sums.referenceSquares / sums.numFinite) : 0;
  sums.numMismatches = sumOver(output, reference, allRows,
                               [&](double out, double ref, Sums &sums) {
                                 bool same;
                                 if (std::isnan(ref))
                                   same = std::isnan(out);
                                 else if (std::isinf(ref))
                                   same = out == ref;
                                 else
                                   same =
                                       std::fabs(out - ref) <=
                                       4 * tolerance * (std::fabs(ref) + rms);
                                 sums.numMismatches += !same;
                               })
                           .numMismatches;

  OutputCheck check;
  check.name = argument.spec->name;
  check.tolerance = tolerance;
  check.maxAbsError = sums.maxAbsError;
  check.numMismatches = sums.numMismatches;
  check.numNaN = sums.numNaN;
  check.numCompared = sums.numCompared;
  double errorNorm = std::sqrt(sums.errorSquares);
  double referenceNorm = std::sqrt(sums.referenceSquares);
  if (errorNorm > 0)
    check.relativeError = errorNorm / referenceNorm;
  // A reference that computes nothing proves nothing.
  bool vacuous = sums.numCompared == 0 && output.getNumElements() > 0;
  check.passed =
      !vacuous && sums.numMismatches == 0 && check.relativeError <= tolerance;
  return check;
}

int32_t attnrt::checkOutputs(const attn_function &function,
                             const Options &options,
                             const std::vector<Argument> &arguments,
                             CheckResult &result) {
  if (!function.reference)
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "--check: function '%s' has no reference; the "
                          "compiler makes one with --with-reference, unless "
                          "it remarks on an operation that has none",
                          function.name);
  ViewList views(arguments);
  result.rowStep = options.rowStep
                       ? options.rowStep
                       : chooseRowStep(function, views.getPointers());

  std::vector<HostTensor> references(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument &argument = arguments[i];
    if (!ATTN_IS_OUTPUT(*argument.spec))
      continue;
    int32_t dtype =
        isFloatDType(argument.spec->dtype) ? ATTN_F64 : argument.spec->dtype;
    if (int32_t status = HostTensor::create(dtype, argument.tensor.getShape(),
                                            Layout::BHSD, references[i]))
      return status;
    fillWithSentinel(references[i]);
    views[i] = references[i].getView();
  }

  {
    Progress progress("computing the reference");
    if (int32_t status = function.reference(views.getPointers(),
                                            function.num_args, result.rowStep))
      return status;
  }

  Progress progress("comparing");
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument &argument = arguments[i];
    if (!ATTN_IS_OUTPUT(*argument.spec))
      continue;
    double tolerance = isFloatDType(argument.spec->dtype)
                           ? getTolerance(function, *argument.spec, options)
                           : 0;
    result.outputs.push_back(
        compare(argument, references[i], result.rowStep == 1, tolerance));
  }
  return ATTN_OK;
}

OutputSummary attnrt::summarize(const Argument &argument) {
  OutputSummary summary;
  summary.name = argument.spec->name;
  const HostTensor &tensor = argument.tensor;
  std::mutex mutex;
  double squares = 0;
  int64_t numFinite = 0;
  parallelFor(tensor.getNumElements(), [&](int64_t begin, int64_t end) {
    double partSquares = 0, partMax = 0;
    int64_t partFinite = 0, partNaN = 0, partInf = 0;
    for (int64_t offset = begin; offset < end; ++offset) {
      double value = tensor.load(offset);
      partNaN += std::isnan(value);
      partInf += std::isinf(value);
      if (!std::isfinite(value))
        continue;
      ++partFinite;
      partSquares += value * value;
      partMax = std::max(partMax, std::fabs(value));
    }
    std::lock_guard<std::mutex> lock(mutex);
    squares += partSquares;
    numFinite += partFinite;
    summary.maxAbs = std::max(summary.maxAbs, partMax);
    summary.numNaN += partNaN;
    summary.numInf += partInf;
  });
  summary.rms = numFinite ? std::sqrt(squares / numFinite) : 0;
  return summary;
}
