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
    pattern = rf"^( *)```({'|'.join(map(re.escape, languages))})\n(.*?)^\1```$"
    return list(re.finditer(pattern, page.read_text(), re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("page", [page for page in TUTORIALS if blocks_of(page, "python")], ids=lambda page: page.stem)
def test_python(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = page.read_text()
    scope = {"__name__": "tutorial"}
    for block in blocks_of(page, "python"):
        # Errors name the line of the page.
        padding = "\n" * text.count("\n", 0, block.start(3))
        exec(compile(padding + block.group(3), str(page), "exec"), scope)


@pytest.mark.parametrize(
    "page, example, count",
    [("Tutorials/EmbedAttn", "embed", 5), ("HowTo/AddAMask", "extend", 3), ("HowTo/AddASchedule", "extend", 2)],
)
def test_pages_show_lines_of_their_example(page, example, count):
    """The commands are run by test/Examples/embed.test and by test_pages.py."""
    texts = [path.read_text() for path in (ROOT / "docs" / "examples" / example).iterdir()]
    lines = {line for text in texts for line in text.splitlines()}
    blocks = blocks_of(ROOT / "docs" / f"{page}.md", "c++", "cmake", "mlir", "tablegen")
    shown = [block for block in blocks if not block.group(3).lstrip().startswith("// ")]
    assert len(shown) >= count
    for block in shown:
        indent = len(block.group(1))
        assert [line for line in block.group(3).splitlines() if line[indent:] not in lines] == []
