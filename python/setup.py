# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds the wheel: the Python package with the shared libraries inside.

    pip wheel --no-deps ./python

The libraries come from a build tree: the one that the environment variable ATTN_BUILD_DIR names, or one that is made
for the wheel, where MLIR and LLVM are linked statically; CMAKE_ARGS has more options for it. If the libraries of the
tree need libMLIR and libLLVM, these are bundled too; such wheels are for tests, since libLLVM needs more libraries
itself.
"""

import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIBRARIES = ("libattn_c.so.1", "libattn_runtime.so.2", "libattn_runtime.so")
BUNDLED = ("libMLIR", "libLLVM")
# The packages that .ci/install-deps installs.
TOOLCHAIN = (
    "-DCMAKE_C_COMPILER=clang-22",
    "-DCMAKE_CXX_COMPILER=clang++-22",
    "-DLLVM_USE_LINKER=lld",
    "-DMLIR_DIR=/usr/lib/llvm-22/lib/cmake/mlir",
)


def find_build_tree() -> pathlib.Path:
    """A build tree that holds the libraries."""
    given = os.environ.get("ATTN_BUILD_DIR")
    if given:
        return pathlib.Path(given)
    tree = ROOT / "build" / "wheel"
    subprocess.run(
        ["cmake", "-G", "Ninja", "-S", ROOT, "-B", tree, "-DCMAKE_BUILD_TYPE=Release"]
        + ["-DATTN_LINK_MLIR_DYLIB=OFF", "-DATTN_INCLUDE_TESTS=OFF", "-DATTN_ENABLE_ASSERTIONS=OFF"]
        + [*TOOLCHAIN, *shlex.split(os.environ.get("CMAKE_ARGS", ""))],
        check=True,
    )
    subprocess.run(["cmake", "--build", tree, "--target", "attn_c", "attn_runtime"], check=True)
    return tree


def bundled_libraries(library: pathlib.Path) -> "list[pathlib.Path]":
    """Libraries that ``library`` needs, and that a machine without LLVM does not have."""
    report = subprocess.run(["ldd", library], check=True, capture_output=True, text=True).stdout
    lines = [line.split() for line in report.splitlines()]
    return [pathlib.Path(words[2]) for words in lines if words[0].startswith(BUNDLED)]


class BuildWithLibraries(build_py):
    def run(self) -> None:
        super().run()
        target = pathlib.Path(self.build_lib) / "attn" / "lib"
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as prefix:
            subprocess.run(
                ["cmake", "--install", find_build_tree(), "--prefix", prefix]
                + ["--component", "AttnPython", "--strip"],
                check=True,
            )
            folder = pathlib.Path(prefix) / "lib"
            for name in LIBRARIES:
                shutil.copyfile(folder / name, target / name)
            for library in bundled_libraries(folder / LIBRARIES[0]):
                shutil.copyfile(library, target / library.name)


class PlatformDistribution(Distribution):
    """Has libraries of this platform, though no extension modules."""

    def has_ext_modules(self) -> bool:
        return True


class PlatformWheel(bdist_wheel):
    """Fits any Python: ctypes opens the libraries."""

    def get_tag(self) -> "tuple[str, str, str]":
        return ("py3", "none", super().get_tag()[2])


setup(distclass=PlatformDistribution, cmdclass={"build_py": BuildWithLibraries, "bdist_wheel": PlatformWheel})
