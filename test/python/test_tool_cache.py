# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tools of the integration tests run once for the same inputs, and again if anything changed."""

import os
import subprocess

import pytest

from tool_cache import run_tool  # noqa: E402

TOOL = """#!/bin/sh
# tool INPUT [FLAG] -o OUTPUT: counts its runs, and fails if it reads "bad".
echo run >>"$RUNS"
echo "reads $1" >&2
grep -q bad "$1" && exit 3
cat "$1" >"$3"
"""


@pytest.fixture
def tool(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTN_TEST_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("RUNS", str(tmp_path / "runs"))
    path = tmp_path / "tool"
    path.write_text(TOOL)
    path.chmod(0o755)
    (tmp_path / "input").write_text("good")
    return path


def count(folder):
    return len((folder / "runs").read_text().splitlines())


def run(tool, output="output", **options):
    return run_tool([str(tool), str(tool.parent / "input"), "-o", str(tool.parent / output)], **options)


def test_the_same_inputs_run_once(tool, tmp_path, capfd):
    run(tool)
    assert run(tool, "other").stderr == capfd.readouterr().err.splitlines(keepends=True)[0]
    assert (tmp_path / "other").read_text() == "good" and count(tmp_path) == 1
    run(tool, quiet=True)
    assert capfd.readouterr().err == ""


def test_outputs_are_replaced_and_not_overwritten(tool, tmp_path):
    """Writing into a library that a process has loaded ends the process."""
    run(tool)
    with open(tmp_path / "output") as loaded:
        run(tool)
        assert count(tmp_path) == 1
        assert (tmp_path / "output").stat().st_ino != os.fstat(loaded.fileno()).st_ino
    assert not (tmp_path / "output.new").exists()


@pytest.mark.parametrize("changed", ["input", "tool"])
def test_changed_files_run_again(tool, tmp_path, changed):
    run(tool)
    with open(tmp_path / changed, "a") as file:
        file.write("# more\n")
    run(tool)
    assert count(tmp_path) == 2
    assert (tmp_path / "output").read_text() == (tmp_path / "input").read_text()


def test_failures_are_not_kept(tool, tmp_path):
    (tmp_path / "input").write_text("bad")
    for _ in range(2):
        with pytest.raises(subprocess.CalledProcessError, match="status 3"):
            run(tool)
    assert run(tool, check=False).returncode == 3 and count(tmp_path) == 3


def test_without_a_folder_all_run(tool, tmp_path, monkeypatch):
    monkeypatch.delenv("ATTN_TEST_CACHE_DIR")
    run(tool)
    run(tool)
    assert count(tmp_path) == 2


def test_outputs_are_not_inputs(tool):
    path = str(tool.parent / "input")
    with pytest.raises(ValueError, match="must not be an input"):
        run_tool([str(tool), path, "-o", path])
