# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The code of the tutorials runs as it stands."""

import re

import pytest
from conftest import ROOT

pytest.importorskip("torch")

TUTORIALS = sorted((ROOT / "docs" / "Tutorials").glob("*.md"))


def blocks_of(page, *languages):
    pattern = rf"^```({'|'.join(map(re.escape, languages))})\n(.*?)^```$"
    return list(re.finditer(pattern, page.read_text(), re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("page", [page for page in TUTORIALS if blocks_of(page, "python")], ids=lambda page: page.stem)
def test_python(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = page.read_text()
    scope = {"__name__": "tutorial"}
    for block in blocks_of(page, "python"):
        # Errors name the line of the page.
        padding = "\n" * text.count("\n", 0, block.start(2))
        exec(compile(padding + block.group(2), str(page), "exec"), scope)


def test_embedding_shows_lines_of_its_example():
    """Its commands are run by test/Examples/embed.test."""
    example = [path.read_text() for path in (ROOT / "docs" / "examples" / "embed").iterdir()]
    lines = {line for text in example for line in text.splitlines()}
    blocks = blocks_of(ROOT / "docs" / "Tutorials" / "EmbedAttn.md", "c++", "cmake", "mlir")
    assert len(blocks) >= 5
    for block in blocks:
        assert [line for line in block.group(2).splitlines() if line not in lines] == []
