# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of utils/reference.py, which writes docs/reference."""

import importlib.util
import re

import pytest
from conftest import ROOT

spec = importlib.util.spec_from_file_location("reference", ROOT / "utils" / "reference.py")
reference = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reference)

LONG = "Interfaces: " + ", ".join(f"`Interface{number}`" for number in range(20))


@pytest.fixture
def folders(tmp_path):
    generated, committed = tmp_path / "generated", tmp_path / "committed"
    generated.mkdir()
    (generated / "A.md").write_text(f"# A \n\n{LONG}\n\n```\n{LONG[12:]}\n```\n\n")
    return generated, committed


def test_pages_are_written_and_compared(folders, capsys):
    generated, committed = folders
    arguments = [str(generated), str(committed)]
    assert reference.main(["--check", *arguments]) == 1
    assert reference.main(arguments) == 0
    assert reference.main(["--check", *arguments]) == 0
    capsys.readouterr()
    (generated / "A.md").write_text("# B\n")
    assert reference.main(["--check", *arguments]) == 1
    out, err = capsys.readouterr()
    assert "-# A\n" in out and "+# B\n" in out and "is stale; `ninja attn-doc-update` writes it" in err


def test_obsolete_pages_go(folders):
    generated, committed = folders
    committed.mkdir()
    (committed / "Old.md").write_text("old\n")
    assert reference.main(["--check", str(generated), str(committed)]) == 1
    assert reference.main([str(generated), str(committed)]) == 0
    assert [path.name for path in committed.iterdir()] == ["A.md"]


def test_lists_are_wrapped(folders):
    generated, committed = folders
    reference.main([str(generated), str(committed)])
    text = (committed / "A.md").read_text()
    prose, code, _ = text.split("```")
    assert text.startswith("# A\n") and text.endswith("```\n")
    assert max(map(len, prose.splitlines())) <= 120 and re.sub(r"\s+", " ", prose).strip() == f"# A {LONG}"
    assert code == f"\n{LONG[12:]}\n"


def test_declarations_and_rows_are_wrapped():
    declaration = "::mlir::Value emit(" + ", ".join(f"::mlir::Value value{number}" for number in range(9)) + ");"
    row = f"<tr><td><code>x</code></td><td>{'type ' * 12}</td><td>{'word ' * 12}</td></tr>"
    assert len(declaration) > 120 < len(row)
    text = reference.wrap(f"{declaration}\n{row}\n")
    assert max(map(len, text.splitlines())) <= 120
    assert re.sub(r"\s+", " ", text) == re.sub(r"\s+", " ", f"{declaration} {row} ".replace("</td><td>", "</td> <td>"))


def test_empty_folder(tmp_path, capsys):
    with pytest.raises(SystemExit):
        reference.main(["--check", str(tmp_path), str(tmp_path)])
    assert "has no pages (*.md)" in capsys.readouterr().err


def test_every_definition_has_a_page():
    """Pages of docs/reference, and those that the build generates."""
    names = set()
    for path in (ROOT / "include").rglob("CMakeLists.txt"):
        names |= set(re.findall(r"attn_doc\(\S+\s+(\w+)", path.read_text()))
    assert len(names) >= 14 and names == {path.stem for path in (ROOT / "docs" / "reference").glob("*.md")}
