//===- Arguments.cpp - The arguments of a run -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Dynamic sizes come from input files and from --shape; a size that one
// argument fixes holds for all arguments that share it.
//
//===----------------------------------------------------------------------===//

#include "Arguments.h"
#include "Npy.h"
#include "Progress.h"
#include "Random.h"

#include <cerrno>
#include <climits>
#include <cstdio>

using namespace attnrt;

static std::string getSymbolName(const attn_function &function,
                                 int64_t symbol) {
  if (function.symbols && symbol < function.num_symbols &&
      function.symbols[symbol])
    return function.symbols[symbol];
  return "d" + std::to_string(symbol);
}

std::string attnrt::formatSpec(const attn_function &function,
                               const attn_tensor_spec &spec) {
  std::string text = std::string(spec.name) + ": " + attnDTypeName(spec.dtype);
  text += '[';
  for (int32_t dim = 0; dim < spec.rank; ++dim) {
    if (dim > 0)
      text += ", ";
    int64_t size = spec.dims[dim];
    text += size >= 0 ? std::to_string(size)
                      : getSymbolName(function, ATTN_DIM_SYMBOL(size));
  }
  return text + ']';
}

namespace {

class ArgumentMaker {
public:
  ArgumentMaker(const attn_function &function, const Options &options,
                std::vector<Argument> &arguments)
      : function(function), options(options), arguments(arguments),
        files(function.num_args), symbolSizes(function.num_symbols, -1),
        symbolSources(function.num_symbols) {}

  int32_t make();

private:
  int32_t checkNames() const;
  int32_t readInputs();
  int32_t readInput(int32_t arg, const std::string &path);
  int32_t assignOutputs();
  int32_t applyShapes();
  int32_t bindShape(int32_t arg, const std::vector<int64_t> &shape,
                    const std::string &source);
  int32_t bindSymbol(int64_t symbol, int64_t size, const std::string &source);
  int32_t checkAllKnown() const;
  int32_t checkMemory() const;
  std::vector<int64_t> getShape(int32_t arg) const;
  int32_t makeTensors();
  int32_t createTensor(int32_t arg);
  int32_t fillInput(int32_t arg);
  int32_t convertInput(int32_t arg);

  int32_t findArgument(const std::string &name) const {
    for (int32_t arg = 0; arg < function.num_args; ++arg)
      if (name == function.args[arg].name)
        return arg;
    return -1;
  }

  std::string listArguments() const {
    std::string text;
    for (int32_t arg = 0; arg < function.num_args; ++arg)
      text += (arg ? ", '" : "'") + std::string(function.args[arg].name) + "'";
    return text.empty() ? "no arguments" : text;
  }

  int32_t setUnknownArgument(const char *option,
                             const std::string &name) const {
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "--%s: function '%s' has no argument '%s'; it has %s",
                          option, function.name, name.c_str(),
                          listArguments().c_str());
  }

  const attn_function &function;
  const Options &options;
  std::vector<Argument> &arguments;
  /// The contents of input files, of the file's dtype.
  std::vector<HostTensor> files;
  std::vector<int64_t> symbolSizes;
  std::vector<std::string> symbolSources;
};

} // namespace

static long long asLong(int64_t value) { return value; }

int32_t ArgumentMaker::bindSymbol(int64_t symbol, int64_t size,
                                  const std::string &source) {
  if (symbolSizes[symbol] < 0) {
    symbolSizes[symbol] = size;
    symbolSources[symbol] = source;
    return ATTN_OK;
  }
  if (symbolSizes[symbol] != size)
    return attnrtSetError(
        ATTN_SHAPE_MISMATCH, "size '%s' is %lld by %s, but %lld by %s",
        getSymbolName(function, symbol).c_str(), asLong(size), source.c_str(),
        asLong(symbolSizes[symbol]), symbolSources[symbol].c_str());
  return ATTN_OK;
}

int32_t ArgumentMaker::bindShape(int32_t arg, const std::vector<int64_t> &shape,
                                 const std::string &source) {
  const attn_tensor_spec &spec = function.args[arg];
  if (static_cast<int32_t>(shape.size()) != spec.rank)
    return attnrtSetError(
        ATTN_SHAPE_MISMATCH, "%s: shape %s has rank %zu, expected %d for %s",
        source.c_str(), formatShape(shape).c_str(), shape.size(), spec.rank,
        formatSpec(function, spec).c_str());
  for (int32_t dim = 0; dim < spec.rank; ++dim) {
    if (spec.dims[dim] < 0) {
      if (int32_t status =
              bindSymbol(ATTN_DIM_SYMBOL(spec.dims[dim]), shape[dim], source))
        return status;
      continue;
    }
    if (spec.dims[dim] != shape[dim])
      return attnrtSetError(
          ATTN_SHAPE_MISMATCH, "%s: dimension %d is %lld, expected %lld for %s",
          source.c_str(), dim, asLong(shape[dim]), asLong(spec.dims[dim]),
          formatSpec(function, spec).c_str());
  }
  return ATTN_OK;
}

int32_t ArgumentMaker::readInput(int32_t arg, const std::string &path) {
  const attn_tensor_spec &spec = function.args[arg];
  if (files[arg].getData() || !arguments[arg].source.empty())
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "--input: argument '%s' is given twice", spec.name);
  if (int32_t status = readNpy(path, files[arg]))
    return status;
  int32_t dtype = files[arg].getDType();
  if (dtype != spec.dtype && !(isFloatDType(dtype) && isFloatDType(spec.dtype)))
    return attnrtSetError(ATTN_DTYPE_MISMATCH,
                          "%s: dtype is %s, expected %s for %s", path.c_str(),
                          attnDTypeName(dtype), attnDTypeName(spec.dtype),
                          formatSpec(function, spec).c_str());
  arguments[arg].source = path;
  return bindShape(arg, files[arg].getShape(), path);
}

int32_t ArgumentMaker::readInputs() {
  // Named files first: nameless ones go to the remaining inputs.
  std::vector<const std::string *> unnamed;
  for (const std::string &text : options.inputs) {
    size_t equals = text.find('=');
    int32_t arg =
        equals == std::string::npos ? -1 : findArgument(text.substr(0, equals));
    if (arg < 0) {
      unnamed.push_back(&text);
      continue;
    }
    if (ATTN_IS_OUTPUT(function.args[arg]))
      return attnrtSetError(ATTN_INVALID_ARGUMENT,
                            "--input: argument '%s' is an output",
                            function.args[arg].name);
    if (int32_t status = readInput(arg, text.substr(equals + 1)))
      return status;
  }
  int32_t arg = 0;
  for (const std::string *path : unnamed) {
    while (arg < function.num_args && (ATTN_IS_OUTPUT(function.args[arg]) ||
                                       !arguments[arg].source.empty()))
      ++arg;
    if (arg == function.num_args)
      return attnrtSetError(ATTN_INVALID_ARGUMENT,
                            "--input: no input of function '%s' is left for "
                            "'%s'; its arguments are %s",
                            function.name, path->c_str(),
                            listArguments().c_str());
    if (int32_t status = readInput(arg, *path))
      return status;
  }
  return ATTN_OK;
}

int32_t ArgumentMaker::assignOutputs() {
  int32_t next = 0;
  for (const NamedValue &output : options.outputs) {
    int32_t arg = findArgument(output.first);
    if (output.first.empty()) {
      while (next < function.num_args &&
             (!ATTN_IS_OUTPUT(function.args[next]) ||
              !arguments[next].outputPath.empty()))
        ++next;
      if (next == function.num_args)
        return attnrtSetError(ATTN_INVALID_ARGUMENT,
                              "--output: no output of function '%s' is left "
                              "for '%s'; its arguments are %s",
                              function.name, output.second.c_str(),
                              listArguments().c_str());
      arg = next;
    }
    if (arg < 0)
      return setUnknownArgument("output", output.first);
    if (!ATTN_IS_OUTPUT(function.args[arg]))
      return attnrtSetError(ATTN_INVALID_ARGUMENT,
                            "--output: argument '%s' is an input",
                            function.args[arg].name);
    if (!arguments[arg].outputPath.empty())
      return attnrtSetError(ATTN_INVALID_ARGUMENT,
                            "--output: argument '%s' is given twice",
                            function.args[arg].name);
    arguments[arg].outputPath = output.second;
  }
  return ATTN_OK;
}

/// Parses "1x32x4096x128", or "scalar".
static bool parseShape(const std::string &text, std::vector<int64_t> &shape) {
  shape.clear();
  if (text == "scalar")
    return true;
  const char *position = text.c_str();
  while (true) {
    if (*position < '0' || *position > '9')
      return false;
    errno = 0;
    char *end;
    long long size = strtoll(position, &end, 10);
    if (errno || size > INT32_MAX)
      return false;
    shape.push_back(size);
    if (!*end)
      return true;
    if (*end != 'x')
      return false;
    position = end + 1;
  }
}

int32_t ArgumentMaker::applyShapes() {
  for (const NamedValue &named : options.shapes) {
    std::string source = "--shape=" + named.first + "=" + named.second;
    std::vector<int64_t> shape;
    if (!parseShape(named.second, shape))
      return attnrtSetError(ATTN_INVALID_ARGUMENT,
                            "%s: expected sizes from 0 to 2147483647, as in "
                            "1x32x4096x128",
                            source.c_str());
    int32_t arg = findArgument(named.first);
    if (arg >= 0) {
      if (int32_t status = bindShape(arg, shape, source))
        return status;
      continue;
    }
    int32_t symbol = 0;
    while (symbol < function.num_symbols &&
           named.first != getSymbolName(function, symbol))
      ++symbol;
    if (symbol == function.num_symbols)
      return attnrtSetError(ATTN_INVALID_ARGUMENT,
                            "%s: function '%s' has neither an argument nor a "
                            "dynamic size of that name; its arguments are %s",
                            source.c_str(), function.name,
                            listArguments().c_str());
    if (shape.size() != 1)
      return attnrtSetError(ATTN_INVALID_ARGUMENT,
                            "%s: '%s' is one size, got %zu", source.c_str(),
                            named.first.c_str(), shape.size());
    if (int32_t status = bindSymbol(symbol, shape[0], source))
      return status;
  }
  return ATTN_OK;
}

int32_t ArgumentMaker::checkAllKnown() const {
  std::string text;
  std::vector<bool> named(function.num_symbols, false);
  for (int32_t arg = 0; arg < function.num_args; ++arg) {
    const attn_tensor_spec &spec = function.args[arg];
    for (int32_t dim = 0; dim < spec.rank; ++dim) {
      if (spec.dims[dim] >= 0)
        continue;
      int64_t symbol = ATTN_DIM_SYMBOL(spec.dims[dim]);
      if (symbolSizes[symbol] >= 0 || named[symbol])
        continue;
      named[symbol] = true;
      text += (text.empty() ? "'" : ", '") + getSymbolName(function, symbol) +
              "' (dimension " + std::to_string(dim) + " of '" + spec.name +
              "')";
    }
  }
  if (text.empty())
    return ATTN_OK;
  return attnrtSetError(ATTN_INVALID_ARGUMENT,
                        "function '%s': these sizes are not known: %s; give "
                        "them with --shape or --input",
                        function.name, text.c_str());
}

std::vector<int64_t> ArgumentMaker::getShape(int32_t arg) const {
  const attn_tensor_spec &spec = function.args[arg];
  std::vector<int64_t> shape(spec.dims, spec.dims + spec.rank);
  for (int64_t &size : shape)
    if (size < 0)
      size = symbolSizes[ATTN_DIM_SYMBOL(size)];
  return shape;
}

int32_t ArgumentMaker::checkMemory() const {
  // Systems hand out memory that they do not have and end the process that uses
  // it: a wrong shape shall be an error instead.
  double total = 0;
  for (int32_t arg = 0; arg < function.num_args; ++arg) {
    double bytes = attnDTypeSize(function.args[arg].dtype);
    for (int64_t size : getShape(arg))
      bytes *= static_cast<double>(size);
    total += bytes;
  }
  auto limit = static_cast<double>(getMemoryLimit());
  if (total <= limit)
    return ATTN_OK;
  return attnrtSetError(ATTN_OUT_OF_MEMORY,
                        "function '%s': the arguments need %.3g GB of host "
                        "memory, more than the %.3g GB there are",
                        function.name, total * 1e-9, limit * 1e-9);
}

int32_t ArgumentMaker::createTensor(int32_t arg) {
  return HostTensor::create(function.args[arg].dtype, getShape(arg),
                            options.layout, arguments[arg].tensor);
}

int32_t ArgumentMaker::convertInput(int32_t arg) {
  HostTensor &tensor = arguments[arg].tensor;
  const HostTensor &file = files[arg];
  if (file.getDType() == ATTN_I64) {
    // Not every i64 is a double.
    const auto *from = static_cast<const int64_t *>(file.getData());
    auto *to = static_cast<int64_t *>(tensor.getData());
    for (int64_t i = 0; i < tensor.getNumElements(); ++i)
      to[tensor.getOffset(i)] = from[i];
    return ATTN_OK;
  }
  parallelFor(tensor.getNumElements(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      tensor.store(tensor.getOffset(i), file.load(i));
  });
  files[arg] = HostTensor();
  return ATTN_OK;
}

int32_t ArgumentMaker::fillInput(int32_t arg) {
  const attn_tensor_spec &spec = function.args[arg];
  Fill fill = getDefaultFill(spec.dtype);
  std::string source = isFloatDType(spec.dtype) ? "normal"
                       : spec.dtype == ATTN_I1  ? "uniform:0:2"
                                                : "zeros";
  for (const NamedValue &named : options.fills)
    if (named.first == spec.name) {
      if (int32_t status = parseFill(named.second, fill))
        return status;
      source = named.second;
    }
  if (fill.kind == Fill::Kind::Normal || fill.kind == Fill::Kind::Uniform)
    source += ", seed " + std::to_string(options.seed);
  fillTensor(arguments[arg].tensor, fill, RandomStream(options.seed, arg));
  arguments[arg].source = source;
  return ATTN_OK;
}

/// Checks that the arguments that options name exist.
int32_t ArgumentMaker::checkNames() const {
  for (const NamedValue &named : options.fills) {
    int32_t arg = findArgument(named.first);
    if (arg < 0)
      return setUnknownArgument("fill", named.first);
    if (ATTN_IS_OUTPUT(function.args[arg]))
      return attnrtSetError(ATTN_INVALID_ARGUMENT,
                            "--fill: argument '%s' is an output",
                            named.first.c_str());
  }
  for (const auto &named : options.tolerances) {
    int32_t arg = named.first.empty() ? 0 : findArgument(named.first);
    if (!named.first.empty() &&
        (arg < 0 || !ATTN_IS_OUTPUT(function.args[arg])))
      return attnrtSetError(ATTN_INVALID_ARGUMENT,
                            "--tolerance: function '%s' has no output '%s'; "
                            "its arguments are %s",
                            function.name, named.first.c_str(),
                            listArguments().c_str());
  }
  return ATTN_OK;
}

int32_t ArgumentMaker::makeTensors() {
  Progress progress("making the inputs");
  for (int32_t arg = 0; arg < function.num_args; ++arg) {
    if (int32_t status = createTensor(arg))
      return status;
    if (ATTN_IS_OUTPUT(function.args[arg])) {
      arguments[arg].tensor.poison();
      continue;
    }
    bool fromFile = !arguments[arg].source.empty();
    if (int32_t status = fromFile ? convertInput(arg) : fillInput(arg))
      return status;
  }
  return ATTN_OK;
}

int32_t ArgumentMaker::make() {
  arguments.clear();
  arguments.resize(function.num_args);
  for (int32_t arg = 0; arg < function.num_args; ++arg)
    arguments[arg].spec = &function.args[arg];
  if (int32_t status = checkNames())
    return status;
  if (int32_t status = readInputs())
    return status;
  if (int32_t status = assignOutputs())
    return status;
  if (int32_t status = applyShapes())
    return status;
  if (int32_t status = checkAllKnown())
    return status;
  if (int32_t status = checkMemory())
    return status;
  return makeTensors();
}

int32_t attnrt::makeArguments(const attn_function &function,
                              const Options &options,
                              std::vector<Argument> &arguments) {
  return ArgumentMaker(function, options, arguments).make();
}
