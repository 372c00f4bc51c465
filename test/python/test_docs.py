# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Links between pages, and from code to pages, lead somewhere; experiments have one form."""

import re
import subprocess

import pytest
from conftest import BUILD, ROOT

DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")])
EXPERIMENTS = sorted(page for page in (DOCS / "experiments").glob("*.md") if page.name != "README.md")
SECTIONS = ["Question", "Prediction", "Method", "Result", "Conclusion"]
# Lines have at most 120 columns, 160 in tables and in the reference, whose text mlir-tblgen writes.
WRITTEN_BY_TABLEGEN = set((DOCS / "reference").glob("*.md"))
CODE = [path for folder in ("lib", "include", "python", "benchmarks", "test", "tools", "cmake", ".ci")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.is_file() and path.suffix in (".cpp", ".h", ".td", ".py", ".c", ".mlir", ".test", ".txt", ".cmake", "")]


def name_of(path):
    return str(path.relative_to(ROOT))


def without_code(text):
    """`text` without its code blocks."""
    return re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors_of(text):
    """The anchors of a page's headings, as GitHub makes them."""
    anchors = []
    for heading in re.findall(r"^#+ (.*)$", without_code(text), re.MULTILINE):
        anchor = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", anchor).replace(" ", "-")
        count = sum(re.fullmatch(re.escape(anchor) + r"(-\d+)?", other) is not None for other in anchors)
        anchors.append(f"{anchor}-{count}" if count else anchor)
    return anchors


def broken_links(page, text):
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", without_code(text))):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        other = (page.parent / file).resolve() if file else page
        if not other.exists():
            broken.append(f"{target}: no such file")
        elif anchor and anchor not in anchors_of(text if other == page else other.read_text()):
            broken.append(f"{target}: no such heading")
    return broken


def broken_references(text):
    """Pages that a source file names and that do not exist, or whose headings it names."""
    broken = [f"{name}: no such file" for name in re.findall(r"\bdocs/[\w./-]+\.md\b", text)
              if not (ROOT / name).exists()]
    broken += [f"{name}: names a heading" for name in re.findall(r"\b(docs/Schedules\.md),\s*(?:///?\s*)?\"", text)]
    return broken


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_of_pages(page):
    assert broken_links(page, page.read_text()) == []


def test_broken_links_are_found():
    page = DOCS / "Schedules.md"
    text = ("# One `two`\n[a](#one-two) [b](#three) [c](none.md) [d](rng.md#generators) [e](rng.md#none)\n"
            "```\n[f](x.md)\n```\n")
    assert broken_links(page, text) == [
        "#three: no such heading", "none.md: no such file", "rng.md#none: no such heading"]


def test_references_of_code():
    broken = {}
    for path in CODE:
        if path != ROOT / "test" / "python" / "test_docs.py":
            if found := broken_references(path.read_text(errors="replace")):
                broken[name_of(path)] = found
    assert broken == {}


def test_broken_references_are_found():
    assert broken_references("see docs/none.md and docs/rng.md") == ["docs/none.md: no such file"]
    assert broken_references('docs/Schedules.md,\n/// "Decoding"') == ["docs/Schedules.md: names a heading"]


@pytest.mark.parametrize("page", EXPERIMENTS, ids=name_of)
def test_sections_of_experiments(page):
    parts = re.split(r"^## (.*)\n", page.read_text(), flags=re.MULTILINE)
    assert parts[1::2] == SECTIONS
    assert all(part.strip() for part in parts[2::2]), "a section is empty"


def test_index_of_experiments():
    rows = re.findall(r"^\| \[([\w-]+)\]\(([\w-]+)\.md\) \| (.*) \|$", (DOCS / "experiments" / "README.md").read_text(),
                      re.MULTILINE)
    titles = {page.stem: page.read_text().splitlines()[0].removeprefix("# ") for page in EXPERIMENTS}
    assert sorted(rows) == sorted((name, name, title) for name, title in titles.items())


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_columns(page):
    most = 160 if page in WRITTEN_BY_TABLEGEN else 120
    wide = [number for number, line in enumerate(page.read_text().splitlines(), 1)
            if len(line) > (160 if line.lstrip().startswith("|") else most) and not line.startswith("![")]
    assert wide == [], "lines are too wide"


def attributes_of(text):
    """The attributes in a page's MLIR blocks; each begins a line."""
    blocks = re.findall(r"^```mlir\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    code = re.sub(r"//.*", "", "".join(blocks))
    return [attribute.strip() for attribute in re.split(r"^(?=#)", code, flags=re.MULTILINE) if attribute.strip()]


@pytest.mark.skipif(not (BUILD / "bin" / "attn-opt").exists(), reason="attn-opt is not built")
def test_schedules_of_the_page():
    """Schedules.md shows attributes that the compiler reads, and names passes that it has."""
    text = (DOCS / "Schedules.md").read_text()
    attributes = attributes_of(text)
    assert len(attributes) >= 7
    module = "".join(f"module attributes {{test.schedule = {attribute}}} {{}}\n" for attribute in attributes)
    opt = [BUILD / "bin" / "attn-opt"]
    result = subprocess.run([*opt, "--allow-unregistered-dialect", "-"], input=module, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    help_text = subprocess.run([*opt, "--help"], capture_output=True, text=True, check=True).stdout
    passes = set(re.findall(r"(?<![\w-])attn-tile-[a-z0-9-]+[a-z0-9]", text))
    assert len(passes) >= 15
    assert {name for name in passes if f"--{name} " not in help_text} == set()


@pytest.mark.skipif(not (BUILD / "bin" / "attn-opt").exists(), reason="attn-opt is not built")
def test_unknown_schedules_are_found():
    attributes = attributes_of("```mlir\n#attn_tile.multistage<query_tile = 64, // rows\n  none = 1>\n#a.b<1>\n```\n")
    assert attributes == ["#attn_tile.multistage<query_tile = 64, \n  none = 1>", "#a.b<1>"]
    module = f"module attributes {{test.schedule = {attributes[0]}}} {{}}"
    result = subprocess.run([BUILD / "bin" / "attn-opt", "-"], input=module, capture_output=True, text=True)
    assert result.returncode != 0 and "parameter name: none" in result.stderr
