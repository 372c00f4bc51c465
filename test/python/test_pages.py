# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pages whose commands run, in order, and whose excerpts of the output are true.

A block of code whose first line is a comment with a file's name is that file. A block of `sh` runs in a folder with
these files and a link to docs. A block of `text`, `mlir` or `ptx` without a file's name is an excerpt of the output of
the commands before it: its lines are in the output in this order, `...` stands for anything, and values may have other
names. Blocks of `sh mpi` and `text mpi` are left out where there is no MPI.
"""

import os
import pathlib
import re
import subprocess

import pytest
from conftest import BUILD, ROOT

PAGES = [
    "Tutorials/WriteAttentionInMLIR", "Architecture", "Runtime", "cost-model", "HowTo/HideDropout", "HowTo/ShardAttention"
]
# Pages about one program, docs/examples/extend, which the first one builds.
EXTENDING_PAGES = ["HowTo/AddAMask", "HowTo/AddASchedule", "HowTo/AddATarget"]
BLOCK = re.compile(r"^( *)```(sh|text|mlir|ptx|c)( mpi)?\n(.*?)^ *```$", re.M | re.S)
FILE = re.compile(r"// (\S+\.\w+)\n")


def has_mpi():
    """Whether the build has the wrapper of MPI. Libraries of MPI leak memory."""
    return (BUILD / "lib" / "libattn_mpi.so").exists() and not read_cmake_cache("ATTN_SANITIZE")


def blocks_of(text):
    """(language, content, file's name or None) of the blocks of a page."""
    for indent, language, needs, content in BLOCK.findall(text):
        if needs and not has_mpi():
            continue
        content = "".join(line.removeprefix(indent) for line in content.splitlines(keepends=True))
        name = FILE.match(content)
        yield language, content, name and name[1]


def normalize(line):
    """A line whose values have no names, and no more space than one blank."""
    return re.sub(r"%\w+", "%_", " ".join(line.split()))


def find_missing(excerpt, output):
    """The first line of an excerpt that is not in the output behind the lines before it, or None."""
    lines = iter(map(normalize, output.splitlines()))
    for line in excerpt.splitlines():
        parts = [re.escape(part.strip()) for part in normalize(line).split("...")]
        pattern = re.compile(r".*".join(parts))
        if any(parts) and not any(pattern.search(actual) for actual in lines):
            return line
    return None


def read_cmake_cache(name):
    """A variable of the build tree; empty if there is none."""
    variable = re.search(rf"^{name}:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.M)
    return variable[1] if variable else ""


def run(command, folder):
    launcher = read_cmake_cache("CMAKE_CXX_COMPILER_LAUNCHER")
    environment = {
        **os.environ,
        # Programs take objects from the cache of the compiler that built Attn, in whatever folder they are.
        "CMAKE_C_COMPILER_LAUNCHER": launcher,
        "CMAKE_CXX_COMPILER_LAUNCHER": launcher,
        "CCACHE_BASEDIR": str(folder),
        "CCACHE_NOHASHDIR": "1",
        # Open MPI in a container: root runs it, more ranks than processors, and no memory of other processes is read.
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
        "PATH": f"{BUILD / 'bin'}:{os.environ['PATH']}",
        "INCLUDE": str(ROOT / "include"),
        "LIB": str(BUILD / "lib"),
        "ATTN": str(BUILD),
        "MLIR_DIR": read_cmake_cache("MLIR_DIR"),
        "CC": read_cmake_cache("CMAKE_C_COMPILER"),
        "CXX": read_cmake_cache("CMAKE_CXX_COMPILER"),
    }
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.run(["sh", "-e", "-c", command], cwd=folder, env=environment, **streams)


def check(text, folder):
    """Runs the commands of a page. Gives the number of excerpts that were compared."""
    output, compared = "", 0
    for language, content, name in blocks_of(text):
        if name:
            (folder / name).write_text(content)
        elif language == "sh":
            result = run(content, folder)
            output = result.stdout
            assert result.returncode == 0, f"{content}\n{output}"
        elif language != "c":
            missing = find_missing(content, output)
            assert missing is None, f"not in the output, or not in this order: {missing}\n{output}"
            compared += 1
    return compared


@pytest.mark.parametrize("page", PAGES)
def test_page(page, tmp_path):
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    assert check((ROOT / "docs" / f"{page}.md").read_text(), tmp_path) > 0


def test_pages_about_extending(tmp_path):
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    text = "\n".join((ROOT / "docs" / f"{page}.md").read_text() for page in EXTENDING_PAGES)
    assert check(text, tmp_path) >= 5
    # The reference of the artifact has the predicate of the mask itself.
    numpy = pytest.importorskip("numpy")
    queries, keys, rng = 300, 333, numpy.random.default_rng(0)
    arrays = {n: rng.standard_normal((1, 4, s, 64)).astype("f2") for n, s in zip("qkv", (queries, keys, keys))}
    for name, array in arrays.items():
        numpy.save(tmp_path / f"{name}.npy", array)
    inputs = " ".join(f"--input={name}={name}.npy" for name in arrays)
    result = run(f"attn-run streaming.so {inputs} --output-f32 --output=out=out.npy", tmp_path)
    assert result.returncode == 0, result.stdout
    q, k, v = (array.astype("f8") for array in arrays.values())
    position, key = numpy.arange(queries)[:, None] + keys - queries, numpy.arange(keys)
    kept = (key <= position) & ((key < 4) | (key > position - 100))
    p = numpy.where(kept, numpy.exp(q @ k.swapaxes(2, 3) / 8), 0)
    expected = p / p.sum(-1, keepdims=True) @ v
    assert numpy.abs(numpy.load(tmp_path / "out.npy") - expected).max() < 5e-3


@pytest.mark.parametrize("page", EXTENDING_PAGES)
def test_excerpts_of_the_program(page):
    """The C++ and TableGen of a page are lines of a file of docs/examples/extend, in this order."""
    files = [path.read_text() for path in (ROOT / "docs" / "examples" / "extend").iterdir()]
    blocks = re.findall(r"^ *```(?:c\+\+|tablegen)\n(.*?)^ *```$", (ROOT / "docs" / f"{page}.md").read_text(), re.M | re.S)
    assert blocks
    for block in blocks:
        missing = [find_missing(block, file) for file in files]
        assert None in missing, f"no file of docs/examples/extend has these lines in this order:\n{block}"


def make_page(command, excerpt):
    return f"text\n\n```sh\n{command}\n```\n\n```text\n{excerpt}\n```\n"


def test_excerpts(tmp_path):
    """Lines that are not in the output are found."""
    command = "printf '%s\\n' 'a %12 = op %arg0' '  b   {' 'c'"
    assert check(make_page(command, "%x = op %y\nb {"), tmp_path) == 1
    assert check(make_page(command, "a ... %y\n...\nc"), tmp_path) == 1
    for wrong in ("b {\na", "d", "a ... c", "c\nc"):
        with pytest.raises(AssertionError, match="not in the output"):
            check(make_page(command, wrong), tmp_path)
    with pytest.raises(AssertionError, match="exit 3"):
        check(make_page("exit 3", ""), tmp_path)
    assert check("```mlir\n// in.mlir\nline\n```\n" + make_page("cat in.mlir", "line"), tmp_path) == 1


def test_all_pages_are_listed():
    listed = (ROOT / "docs" / "README.md").read_text()
    folders = ("examples", "experiments", "reference", "images")
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs")
        if name.parts[0] not in folders and str(name) != "README.md":
            assert f"]({name})" in listed, f"docs/README.md does not list {name}"


def test_layers():
    """Folders of lib include only folders above them in the table of Architecture.md."""
    table = (ROOT / "docs" / "Architecture.md").read_text().split("## Layers")[1].split("## ")[0]
    layers = [re.findall(r"`([^`]+)`", line.split("|")[1]) for line in table.splitlines() if line.startswith("| `")]
    rank = {name: number for number, names in enumerate(layers) for name in names}

    def get_rank(path):
        parts = path.parts
        if parts[0] != "Dialect":
            return rank.get(parts[0])
        folder = "/".join(parts[:3])
        return rank[folder] if folder in rank else rank["Dialect/*/" + parts[2]]

    wrong = []
    for top in (ROOT / "lib", ROOT / "include" / "attn"):
        for file in (*top.rglob("*.h"), *top.rglob("*.cpp")):
            own = get_rank(file.relative_to(top))
            for include in re.findall(r'#include "attn/([^"]+)"', file.read_text()):
                other = get_rank(pathlib.PurePath(include))
                if own is not None and other is not None and other > own:
                    wrong.append(f"{file.relative_to(ROOT)} includes {include}")
    assert len(rank) >= 11 and wrong == []
    runtime = [*(ROOT / "lib" / "Runtime").rglob("*.h"), *(ROOT / "lib" / "Runtime").rglob("*.cpp")]
    assert runtime and not [file for file in runtime if re.search(r'#include "(llvm|mlir)', file.read_text())]
