# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The program in C++ that ``attn.aot`` writes next to artifacts."""

import json
from typing import List, NamedTuple, Sequence, Tuple

from attn.artifact import Function

_ELEMENT_BYTES = {
    "bf16": 2, "f16": 2, "f32": 4, "f64": 8, "i32": 4, "i64": 8, "i8": 1, "i1": 1, "f8E4M3FN": 1, "f8E5M2": 1
}  # fmt: skip


class ExampleFunction(NamedTuple):
    """A function to call: its name in C, and the values of the sizes that vary."""

    call: str
    function: Function
    sizes: List[int]
    #: Names of arguments that the directory ``data`` has.
    data: Tuple[str, ...]


_CMAKE = """\
# Builds a program that calls an artifact. It needs neither Python nor the compiler:
#
#   cmake -S . -B build && cmake --build build && build/@NAME@_example
cmake_minimum_required(VERSION 3.18)
project(@NAME@_example LANGUAGES CXX)

set(ATTN_TARGET "@FIRST@" CACHE STRING "The artifact to call: @TARGETS@")
set_property(CACHE ATTN_TARGET PROPERTY STRINGS @TARGETS@)
set(top ${CMAKE_CURRENT_SOURCE_DIR})

add_library(attn_runtime SHARED IMPORTED)
set_target_properties(attn_runtime PROPERTIES
  IMPORTED_LOCATION ${top}/lib/@RUNTIME@
  IMPORTED_SONAME @RUNTIME@)
add_library(artifact SHARED IMPORTED)
set_target_properties(artifact PROPERTIES
  IMPORTED_LOCATION ${top}/lib/lib@NAME@.${ATTN_TARGET}.so
  IMPORTED_NO_SONAME TRUE)

add_executable(@NAME@_example main.cpp)
target_compile_features(@NAME@_example PRIVATE cxx_std_17)
target_compile_definitions(@NAME@_example PRIVATE ATTN_DATA_DIR="${top}/data/")
target_include_directories(@NAME@_example PRIVATE ${top}/include ${top}/include/${ATTN_TARGET})
target_link_libraries(@NAME@_example PRIVATE artifact attn_runtime)
if(NOT ATTN_TARGET STREQUAL "host")
  find_package(CUDAToolkit REQUIRED)
  target_compile_definitions(@NAME@_example PRIVATE ATTN_EXAMPLE_CUDA)
  target_link_libraries(@NAME@_example PRIVATE CUDA::cudart)
endif()
"""

_MAIN = r"""// Calls an artifact that attn.aot wrote, without Python:
//
//   @NAME@_example [FUNCTION] [NAME=VALUE]...
//
// SIZE=NUMBER sets a size that varies, ARGUMENT=FILE names the file that an input is read from or an output is written
// to: elements in row-major order. Inputs without a file are zero.

#include "@NAME@.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#ifdef ATTN_EXAMPLE_CUDA
#include <cuda_runtime_api.h>
#endif

namespace {

using Options = std::map<std::string, std::string>;

#ifdef ATTN_EXAMPLE_CUDA
void check(cudaError_t status) {
  if (status != cudaSuccess)
    throw std::runtime_error(cudaGetErrorString(status));
}
#endif

/// A dense tensor in the memory of the device, or of the host.
class Tensor {
public:
  Tensor(const char *name, int32_t dtype, size_t elementBytes,
         std::vector<int64_t> sizes)
      : name(name), shape(std::move(sizes)), strides(shape.size()) {
    int64_t count = 1;
    for (size_t dim = shape.size(); dim > 0; --dim) {
      strides[dim - 1] = count;
      count *= shape[dim - 1];
    }
    contents.resize(count * elementBytes);
    view = attn_tensor{};
    view.shape = shape.data();
    view.strides = strides.data();
    view.rank = static_cast<int32_t>(shape.size());
    view.dtype = dtype;
#ifdef ATTN_EXAMPLE_CUDA
    view.device = 0;
    check(cudaMalloc(&view.data, contents.size() + 1));
#else
    view.device = ATTN_DEVICE_HOST;
    // Addresses are multiples of what any argument needs.
    view.data = std::aligned_alloc(256, contents.size() / 256 * 256 + 256);
    if (!view.data)
      throw std::bad_alloc();
#endif
  }
  Tensor(const Tensor &) = delete;
  ~Tensor() {
#ifdef ATTN_EXAMPLE_CUDA
    cudaFree(view.data);
#else
    std::free(view.data);
#endif
  }

  /// Reads an input.
  void load(const Options &options, std::string file) {
    if (auto option = options.find(name); option != options.end())
      file = option->second;
    if (!file.empty()) {
      std::ifstream stream(file, std::ios::binary | std::ios::ate);
      if (!stream)
        throw std::runtime_error("cannot read '" + file + "'");
      if (static_cast<size_t>(stream.tellg()) != contents.size())
        throw std::runtime_error("argument '" + name + "': '" + file + "' has " +
                                 std::to_string(stream.tellg()) + " bytes, expected " +
                                 std::to_string(contents.size()));
      stream.seekg(0);
      stream.read(contents.data(), contents.size());
    }
#ifdef ATTN_EXAMPLE_CUDA
    check(cudaMemcpy(view.data, contents.data(), contents.size(), cudaMemcpyHostToDevice));
#else
    std::memcpy(view.data, contents.data(), contents.size());
#endif
  }

  /// Writes an output.
  void store(const Options &options) {
#ifdef ATTN_EXAMPLE_CUDA
    check(cudaMemcpy(contents.data(), view.data, contents.size(), cudaMemcpyDeviceToHost));
#else
    std::memcpy(contents.data(), view.data, contents.size());
#endif
    std::printf("%s: %zu bytes\n", name.c_str(), contents.size());
    auto option = options.find(name);
    if (option == options.end())
      return;
    std::ofstream stream(option->second, std::ios::binary);
    stream.write(contents.data(), contents.size());
    if (!stream.flush())
      throw std::runtime_error("cannot write '" + option->second + "'");
  }

  attn_tensor view;

private:
  std::string name;
  std::vector<int64_t> shape, strides;
  std::vector<char> contents;
};

/// Refuses names that a function does not have.
void checkNames(const Options &options, const std::vector<std::string> &names) {
  for (const auto &option : options) {
    if (std::find(names.begin(), names.end(), option.first) != names.end())
      continue;
    std::string known;
    for (const std::string &name : names)
      known += (known.empty() ? "" : ", ") + name;
    throw std::runtime_error("no size or argument '" + option.first + "' (expected one of " + known + ")");
  }
}

/// A size that varies.
int64_t readSize(const Options &options, const char *name, int64_t standard) {
  auto option = options.find(name);
  return option == options.end() ? standard : std::stoll(option->second);
}

@FUNCTIONS@} // namespace

int main(int argc, char **argv) {
  std::string function = "@DEFAULT@";
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    size_t sign = argument.find('=');
    if (sign == std::string::npos)
      function = argument;
    else
      options[argument.substr(0, sign)] = argument.substr(sign + 1);
  }
  try {
@CALLS@    std::fprintf(stderr, "error: the artifact has no function '%s'\n", function.c_str());
  } catch (const std::exception &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
  }
  return 1;
}
"""


def _fill(template: str, **texts: str) -> str:
    for name, text in texts.items():
        template = template.replace(f"@{name}@", text)
    return template


def _literal(text: str) -> str:
    """A literal of C++."""
    return json.dumps(text)


def _write_function(number: int, example: ExampleFunction) -> str:
    function = example.function
    lines = [f"/// Calls the function {_literal(function.name)}.", f"void run{number}(const Options &options) {{"]
    names = ", ".join(_literal(name) for name in (*function.symbols, *(name for name, *_ in function.args)))
    lines.append(f"  checkNames(options, {{{names}}});")
    if function.symbols:
        lines.append("  const int64_t sizes[] = {")
        for name, size in zip(function.symbols, example.sizes):
            lines.append(f"      readSize(options, {_literal(name)}, {size}),")
        lines.append("  };")
    for index, (name, dtype, dims, _) in enumerate(function.args):
        sizes = ", ".join(str(dim) if dim >= 0 else f"sizes[{-1 - dim}]" for dim in dims)
        constant = f"ATTN_{dtype.upper()}, {_ELEMENT_BYTES[dtype]}"
        lines.append(f"  Tensor arg{index}({_literal(name)}, {constant}, {{{sizes}}});")
    for index, (name, _, _, is_output) in enumerate(function.args):
        if not is_output:
            file = f"ATTN_DATA_DIR {_literal(name + '.bin')}" if name in example.data else '""'
            lines.append(f"  arg{index}.load(options, {file});")
    views = ", ".join(f"&arg{index}.view" for index in range(len(function.args)))
    lines.append(f"  if (::{example.call}({views}{', ' if views else ''}/*stream=*/nullptr) != ATTN_OK)")
    lines.append("    throw std::runtime_error(attnGetLastError());")
    for index, (_, _, _, is_output) in enumerate(function.args):
        if is_output:
            lines.append(f"  arg{index}.store(options);")
    return "\n".join([*lines, "}", "", ""])


def write_main(name: str, examples: Sequence[ExampleFunction]) -> str:
    """The program. Its first function is the one that it calls by default."""
    calls = "".join(
        f"    if (function == {_literal(example.function.name)}) {{\n"
        f"      run{number}(options);\n      return 0;\n    }}\n"
        for number, example in enumerate(examples)
    )
    functions = "".join(_write_function(number, example) for number, example in enumerate(examples))
    default = examples[0].function.name if examples else ""
    return _fill(_MAIN, NAME=name, FUNCTIONS=functions, CALLS=calls, DEFAULT=default)


def write_cmake(name: str, targets: Sequence[str], runtime: str) -> str:
    return _fill(_CMAKE, NAME=name, FIRST=targets[0], TARGETS=" ".join(targets), RUNTIME=runtime)
