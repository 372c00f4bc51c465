# ===- lit.cfg.py - Configuration of the test suite ------------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Suffixes, tools and features. Features that tests may require:
#   assertions  compiled with ATTN_ENABLE_ASSERTIONS, so that passes log
#   host-cc     a C compiler, substituted for %host_cc
#   numpy       NumPy for the interpreter that is substituted for %python
#   torch       PyTorch for that interpreter
#   ptxas       a PTX assembler, substituted for `ptxas`
#   assemblers  the oldest and the newest PTX assembler, in %assemblers
#   fuzzers     the fuzzers, which ATTN_BUILD_FUZZERS builds
#   valgrind    valgrind, in %valgrind
#   mpi         the wrapper of MPI, and a launcher of processes in %mpirun
#   sanitizers  compiled with ATTN_SANITIZE
#   long-tests  asked for by the parameter long_tests=1, as .ci/run does, or long_tests=all
#   cuda-sm80   a usable CUDA device of compute capability 8.0 or newer
#   cuda-sm90   a usable CUDA device of compute capability 9.0
#
# With ATTN_OPT_CHECK_IR_ROUNDTRIP set in the environment, every run of attn-opt
# also checks that its input survives printing and parsing.
#
# ===----------------------------------------------------------------------===#

import glob
import importlib.util
import os
import shutil
import subprocess
import sys

import lit.formats
from lit.llvm import llvm_config
from lit.llvm.subst import ToolSubst

config.name = "Attn"
config.test_format = lit.formats.ShTest(not llvm_config.use_lit_shell)
config.suffixes = [".mlir", ".test", ".py"]
config.excludes = ["Inputs", "CMakeLists.txt", "Unit", "Fuzz", "lib", "python", "lit.cfg.py"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.attn_obj_root, "test")

config.substitutions.append(("%PATH%", config.environment["PATH"]))
config.substitutions.append(("%shlibext", config.llvm_shlib_ext))
config.substitutions.append(("%mlir_lib_dir", config.mlir_lib_dir))
config.substitutions.append(("%attn_libs_dir", config.attn_libs_dir))
config.substitutions.append(("%attn_include_dir", os.path.join(config.attn_src_root, "include")))
config.substitutions.append(("%examples", os.path.join(config.attn_src_root, "docs", "examples")))
config.substitutions.append(("%attn_src_root", config.attn_src_root))
config.substitutions.append(("%attn_obj_root", config.attn_obj_root))
config.substitutions.append(
    (
        "%configure_consumer",
        f"'{config.cmake}' -G '{config.cmake_generator}' -DCMAKE_C_COMPILER='{config.cc}'"
        f" -DCMAKE_CXX_COMPILER='{config.cxx}' -DMLIR_DIR='{config.mlir_dir}'",
    )
)
config.substitutions.append(
    ("%consumer_environment", f"CC='{config.cc}' CXX='{config.cxx}' MLIR_DIR='{config.mlir_dir}'")
)
config.substitutions.append(("%cmake", f"'{config.cmake}'"))
# Projects that tests configure take objects from the cache of the compiler that built Attn, if it has one.
if config.compiler_launcher:
    config.environment["CMAKE_C_COMPILER_LAUNCHER"] = config.compiler_launcher
    config.environment["CMAKE_CXX_COMPILER_LAUNCHER"] = config.compiler_launcher
# Two tests run at a time: threads of BLAS would only wait for each other.
config.environment["OPENBLAS_NUM_THREADS"] = "1"

llvm_config.with_system_environment(
    ["HOME", "TMP", "TEMP", "CUDA_HOME", "LD_LIBRARY_PATH", "ATTN_TEST_CACHE_DIR", "CCACHE_DIR"]
)
llvm_config.with_environment("PATH", config.attn_tools_dir, append_path=True)
llvm_config.with_environment("PATH", config.llvm_tools_dir, append_path=True)
llvm_config.use_default_substitutions()

# What programs need in a build tree with ATTN_SANITIZE.
environment = os.path.join(config.attn_obj_root, "sanitizer-environment")
if os.path.exists(environment):
    config.available_features.add("sanitizers")
    with open(environment) as lines:
        config.environment.update(line.rstrip("\n").split("=", 1) for line in lines)

tool_dirs = [config.attn_tools_dir, config.llvm_tools_dir]
attn_opt = "attn-opt"
if os.environ.get("ATTN_OPT_CHECK_IR_ROUNDTRIP"):
    attn_opt = os.path.join(config.attn_tools_dir, "attn-opt") + " --verify-roundtrip"
tools = [
    ToolSubst("attn-opt", attn_opt, unresolved="fatal"),
    ToolSubst("attn-test-opt", unresolved="fatal"),
    ToolSubst("mlir-runner", unresolved="fatal"),
    ToolSubst("split-file", unresolved="fatal"),
]
for tool in ["attn-compile", "attn-run", "attn-tune", "attn-reduce", "attn-lsp-server", "attn-execution-fuzzer",
             "attn-fuzz-cases"]:  # fmt: skip
    tools.append(ToolSubst(tool, unresolved="ignore"))

if importlib.util.find_spec("numpy"):
    config.available_features.add("numpy")
if importlib.util.find_spec("torch"):
    config.available_features.add("torch")
long_tests = lit_config.params.get("long_tests", "0")
if long_tests not in ("0", "1", "all"):
    lit_config.fatal(f"the parameter long_tests is {long_tests!r}, expected 0, 1 or all")
if long_tests != "0":
    config.available_features.add("long-tests")
# Which variants of the suites of GPUs are assembled.
config.substitutions.append(("%every", "--every=1" if long_tests == "all" else "--every=18"))
if os.path.exists(os.path.join(config.attn_tools_dir, "attn-execution-fuzzer")):
    config.available_features.add("fuzzers")
if valgrind := shutil.which("valgrind"):
    config.available_features.add("valgrind")
    config.substitutions.append(("%valgrind", valgrind))
# Libraries of MPI leak memory.
if config.mpirun and "sanitizers" not in config.available_features:
    config.available_features.add("mpi")
    config.substitutions.append(("%mpirun", config.mpirun))
    # Open MPI in a container: root runs it, more ranks than processors, and no memory of other processes is read.
    config.environment.update(
        OMPI_ALLOW_RUN_AS_ROOT="1",
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        OMPI_MCA_rmaps_base_oversubscribe="1",
        OMPI_MCA_hwloc_base_binding_policy="none",
        OMPI_MCA_mpi_yield_when_idle="1",
        OMPI_MCA_btl_vader_single_copy_mechanism="none",
    )
if config.assertions.upper() in ("ON", "TRUE", "YES", "1"):
    config.available_features.add("assertions")
if config.host_cc:
    config.available_features.add("host-cc")
    config.substitutions.append(("%host_cc", config.host_cc))
if config.ptxas:
    config.available_features.add("ptxas")
    tools.append(ToolSubst("ptxas", config.ptxas))
# What .ci/install-deps puts there; the newest assembler is the last one.
folder = os.path.join(config.attn_obj_root, "venv", "assemblers")
assemblers = [
    os.path.dirname(os.path.dirname(ptxas))
    for age in ("oldest", "newest")
    for ptxas in glob.glob(os.path.join(folder, age, "nvidia", "cu*", "bin", "ptxas"))
]
if len(assemblers) == 2:
    config.available_features.add("assemblers")
    config.substitutions.append(("%assemblers", " ".join(assemblers)))
llvm_config.add_tool_substitutions(tools, tool_dirs)


def find_compute_capability():
    """The compute capability (major, minor) of the first CUDA device, if any.

    Asks the driver from a process of its own: a process that has initialised
    CUDA cannot fork workers that use it.
    """
    query = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
assert cuda.cuDeviceGetAttribute(ctypes.byref(major), 75, device) == 0
assert cuda.cuDeviceGetAttribute(ctypes.byref(minor), 76, device) == 0
print(major.value, minor.value)
"""
    try:
        answer = subprocess.run(
            [sys.executable, "-c", query], capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if answer.returncode != 0:
        return None
    return tuple(int(part) for part in answer.stdout.split())


capability = find_compute_capability()
if capability is not None:
    if capability >= (8, 0):
        config.available_features.add("cuda-sm80")
    if capability == (9, 0):
        config.available_features.add("cuda-sm90")
