# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The wheel: it has all it needs inside."""

import os
import subprocess
import sys
import zipfile

import pytest
from conftest import BUILD, ROOT

SCRIPT = """
import ctypes, pathlib
import attn
from attn import compiler, library
assert "site" in str(library.library_dir()), library.library_dir()
assert compiler.compile_bytes(attn.Attention("bf16", 2, 1, 64), target="sm_80", emit="ptx")
attn.compile(attn.Attention("f32", 2, 1, 16))
files = {line.split()[-1] for line in pathlib.Path("/proc/self/maps").read_text().splitlines()}
print("\\n".join(file for file in files if any(name in file for name in ("libLLVM", "libMLIR", "libattn"))))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    environment = {**os.environ, "ATTN_BUILD_DIR": str(BUILD)}
    # The build writes into the folder of its sources.
    sources = folder / "python"
    subprocess.run(["cp", "-r", ROOT / "python", sources], check=True)
    subprocess.run([*command, "--wheel-dir", folder, sources], check=True, env=environment)
    (path,) = folder.glob("*.whl")
    return path


def test_wheel_is_complete(wheel, tmp_path):
    names = zipfile.ZipFile(wheel).namelist()
    assert wheel.name.startswith("attn-0.1.0-py3-none-linux_")
    libraries = {"attn/lib/libattn_c.so.1", "attn/lib/libattn_runtime.so.2"}
    modules = {"attn/py.typed", "attn/torch/flex.py", "attn/__main__.py", "attn/self_check.py", "attn/bench.py"}
    assert modules | libraries <= set(names)
    assert not [name for name in names if "test" in name]

    site = tmp_path / "site"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", site, wheel], check=True
    )
    ours = ("ATTN_LIBRARY_DIR", "LD_LIBRARY_PATH")
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    environment.update(PYTHONPATH=str(site), ATTN_CACHE_DIR=str(tmp_path / "cache"))
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    libraries = result.stdout.split()
    assert libraries and all(library.startswith(str(site)) for library in libraries)
