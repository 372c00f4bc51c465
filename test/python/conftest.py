# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The folder of the build under test: ATTN_BUILD_DIR, or build."""

import contextlib
import importlib
import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# How much longer compiling may take in builds with sanitizers, which are preloaded.
SLOWDOWN = 5 if "libclang_rt" in os.environ.get("LD_PRELOAD", "") else 1
BUILD = pathlib.Path(os.environ.get("ATTN_BUILD_DIR", ROOT / "build"))
os.environ.setdefault("ATTN_LIBRARY_DIR", str(BUILD / "lib"))
sys.path[:0] = [str(ROOT / folder) for folder in ("python", "benchmarks", ".ci", "test/Integration/Inputs")]
from tool_cache import run_tool  # noqa: E402

# Files with few tests that take long.
LONG = ("test_inductor", "test_compiler", "test_pages", "test_limits", "test_wheel", "test_llama")


@contextlib.contextmanager
def import_gpu_suite(name):
    """A module of test/Integration/gpu, as long as the context lasts.

    Benchmarks have modules of the same names. Those that other tests imported are put aside.
    """
    folder = ROOT / "test" / "Integration" / "gpu"
    names = {file.stem for file in folder.glob("*.py")}
    aside = {module: sys.modules.pop(module) for module in names if module in sys.modules}
    path = list(sys.path)
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module(name)
    finally:
        sys.path[:] = path
        for module in names:
            sys.modules.pop(module, None)
        sys.modules.update(aside)


def pytest_collection_modifyitems(items):
    """Long files begin first, so that at the end no processor waits for one of them."""
    items.sort(key=lambda item: item.path.stem not in LONG)


@pytest.fixture(scope="session", autouse=True)
def cache_dir(tmp_path_factory):
    """A cache for the tests alone, or the folder `kernels` of ATTN_TEST_CACHE_DIR."""
    kept = os.environ.get("ATTN_TEST_CACHE_DIR")
    folder = pathlib.Path(kept, "kernels") if kept else tmp_path_factory.mktemp("cache")
    os.environ["ATTN_CACHE_DIR"] = str(folder)
    return folder


@pytest.fixture(scope="session")
def compile_artifact(tmp_path_factory):
    """compile_artifact(name, module, options...): the loaded artifact."""
    pytest.importorskip("torch")
    from attn.artifact import Artifact

    directory = tmp_path_factory.mktemp("artifacts")

    def compile_one(name, module, *options):
        source, library = directory / f"{name}.mlir", directory / f"{name}.so"
        source.write_text(module)
        run_tool([str(BUILD / "bin" / "attn-compile"), str(source), "-o", str(library), *options])
        return Artifact(str(library), str(BUILD / "lib" / "libattn_runtime.so"))

    return compile_one
