# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The wheel: it has all it needs inside."""

import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import zipfile

import pytest
from conftest import BUILD, ROOT

PROGRAMS = ("attn-compile", "attn-lsp-server", "attn-opt", "attn-run")

# Kernels for the host and for a GPU: the first call loads no library but those of the wheel and of the system.
SCRIPT = """
import pathlib, sys
import attn
from attn import compiler, library

def loaded():
    lines = [line.split() for line in pathlib.Path("/proc/self/maps").read_text().splitlines()]
    return {words[-1] for words in lines if ".so" in words[-1]}

before = loaded()
assert "site" in str(library.library_dir()), library.library_dir()
assert compiler.describe()["ptxas"] == sys.argv[1], compiler.describe()
assert compiler.compile_bytes(attn.Attention("bf16", 2, 1, 64), target="sm_80", emit="ptx")
attn.compile(attn.Attention("bf16", 2, 1, 64), target="sm_80")
attn.compile(attn.Attention("f32", 2, 1, 16))
print("\\n".join(loaded() - before))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    # Compressing takes longer than all the rest.
    command.append("--config-settings=--build-option=--compression=stored")
    environment = {**os.environ, "ATTN_BUILD_DIR": str(BUILD)}
    # The build writes into the folder of its sources.
    sources = folder / "python"
    subprocess.run(["cp", "-r", ROOT / "python", sources], check=True)
    subprocess.run(["ln", "-s", ROOT / "include", folder], check=True)
    # Someone has built a wheel there before.
    earlier = sources / "build" / f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}" / "attn" / "lib"
    earlier.mkdir(parents=True, exist_ok=True)
    (earlier / "libzstd.so.1").touch()
    subprocess.run([*command, "--wheel-dir", folder, sources], check=True, env=environment)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def site(wheel, tmp_path_factory):
    """The folder that the wheel is installed into."""
    folder = tmp_path_factory.mktemp("install") / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
    subprocess.run([*command, "--target", folder, wheel], check=True)
    return folder


@pytest.fixture
def environment(site, tmp_path):
    """Neither compilers nor linkers, no CUDA, and nothing that says where anything is."""
    return {"PATH": str(tmp_path), "PYTHONPATH": str(site), "ATTN_CACHE_DIR": str(tmp_path / "cache")}


def test_wheel_is_complete(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    libraries = {"attn/lib/libattn_c.so.1", "attn/lib/libattn_runtime.so.3", "attn/include/attn-runtime/attn_runtime.h"}
    modules = {"attn/py.typed", "attn/torch/flex.py", "attn/__main__.py", "attn/self_check.py", "attn/bench.py"}
    assert modules | libraries | {f"attn/bin/{name}" for name in (*PROGRAMS, "ld.lld")} <= names
    assert not [name for name in names if "test" in name]
    metadata = zipfile.ZipFile(wheel).read("attn-0.1.0.dist-info/METADATA").decode()
    assert re.search(r'^Requires-Dist: nvidia-cuda-nvcc.*extra == "cuda"$', metadata, re.MULTILINE)


# Libraries that each machine of a manylinux tag has, by PEP 600 and the tool auditwheel.
PLATFORM = re.compile(r"(ld-linux-\w+(-64)?|libc|libdl|libgcc_s|libm|libpthread|librt|libstdc\+\+|libz)\.so\.\d+")


def test_platform(wheel, site):
    """The tag of the wheel is the one that its symbols and libraries allow."""
    tag = re.fullmatch(r"attn-0\.1\.0-py3-none-manylinux_2_(\d+)_\w+\.whl", wheel.name)
    assert tag, wheel.name
    files = [file for folder in ("lib", "bin") for file in (site / "attn" / folder).iterdir()]
    report = subprocess.run(["readelf", "-d", "-V", *files], check=True, capture_output=True, text=True).stdout
    assert max(int(minor) for minor in re.findall(r"Name: GLIBC_2\.(\d+)", report)) == int(tag[1])
    bundled = {file.name for file in files}
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", report))
    assert [name for name in needed if name not in bundled and not PLATFORM.fullmatch(name)] == []
    # Each file finds the others wherever the wheel is.
    paths = re.findall(r"\(RUNPATH\).*\[(.*)\]", report)
    assert len(paths) == len(files) and set(paths) == {"$ORIGIN", "$ORIGIN/../lib"}


# The tool parses the symbols of all libraries, half a million, field by field, which takes half a minute.
AUDITWHEEL = """
import functools, struct
from auditwheel import elfutils, main
from elftools.elf.sections import Symbol, SymbolTableSection

def iter_symbols(section):
    names = section.stringtable.data()
    for name, info, _, place, _, _ in struct.iter_unpack("<IBBHQQ", section.data()):
        bind, kind = "STB_WEAK" if info >> 4 == 2 else "STB_OTHER", "STT_FUNC" if info & 15 == 2 else "STT_OTHER"
        entry = {"st_shndx": place or "SHN_UNDEF", "st_info": {"bind": bind, "type": kind}}
        yield Symbol(entry, names[name : names.index(0, name)].decode())

SymbolTableSection.iter_symbols = iter_symbols
elfutils.get_undefined_symbols = functools.cache(elfutils.get_undefined_symbols)
main.main()
"""


def test_auditwheel_agrees(wheel):
    """PyPA's own tool gives the wheel the same tag."""
    (tag,) = re.findall(r"manylinux_2_\d+_\w+", wheel.name)
    command = [sys.executable, "-c", AUDITWHEEL, "show", wheel]
    report = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert f'is consistent with the following platform tag: "{tag}"' in " ".join(report.split()), report


def test_kernels_need_no_compiler(site, environment, tmp_path):
    """ptxas comes from NVIDIA's package for Python, and the linker from the wheel."""
    ptxas = site / "nvidia" / "cu13" / "bin" / "ptxas"
    ptxas.parent.mkdir(parents=True)
    ptxas.write_text("#!/bin/sh\nexit 1\n")
    ptxas.chmod(0o755)
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, ptxas], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    loaded = result.stdout.splitlines()
    assert str(site / "attn" / "lib" / "libattn_c.so.1") in loaded
    inside = (f"{site}/", f"{tmp_path}/cache/", f"{pathlib.Path(os.__file__).parent}/")
    outside = [file for file in loaded if not file.startswith(inside) and not file.startswith("/memfd")]
    assert [file for file in outside if not PLATFORM.fullmatch(pathlib.Path(file).name)] == []


def test_programs(site, environment, tmp_path):
    def run(name, *arguments, code=0):
        result = subprocess.run(
            [sys.executable, site / "bin" / name, *arguments],
            env=environment, cwd=tmp_path, capture_output=True, text=True,
        )  # fmt: skip
        assert result.returncode == code, result.stderr
        return result.stdout + result.stderr

    for name in PROGRAMS:
        assert os.access(site / "bin" / name, os.X_OK)
        assert name in run(name, "--help")
    module = ROOT / "docs" / "examples" / "llama3_attention.mlir"
    assert "attn_tile.kernel" in run("attn-opt", module, "--attn-to-kernel-pipeline=target=sm_90a")
    run("attn-compile", module, "-o", "attention.so")
    shapes = [f"--shape={name}=1" for name in ("batch", "queries", "keys")]
    assert "attention" in run("attn-run", "attention.so", *shapes)
    assert "no-such-option" in run("attn-opt", "--no-such-option", code=1)
