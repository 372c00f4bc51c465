# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Links between pages, and from code to pages, lead somewhere, pages name files and options that exist, and experiments
have one form."""

import fnmatch
import inspect
import pathlib
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


# Files that a page names and that are no files of the project: of other programs, of the reader, or written by a test.
OTHER_FILES = {
    "MLIRConfig.cmake", "attention.h", "in.mlir", "main.cpp", "manifest.json", "settings.json", "streaming.mlir",
}
FILE_NAME = re.compile(r"[\w*.-]+\.(?:c|cmake|cpp|h|json|jsonl|md|mlir|py|svg|td|test|toml)")
TOOL = re.compile(r"(?<![\w/-])(attn-(?:opt|compile|run|tune|reduce))((?: +(?:'[^']*'|\"[^\"]*\"|[^\s`|;&]+))*)")


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


def list_files():
    """Names of the project's files, and of the folders that hold them."""
    list_all = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    result = subprocess.run(list_all, cwd=ROOT, capture_output=True, text=True)
    if result.returncode != 0:
        pytest.skip("the project is no git repository")
    files = {name for name in result.stdout.splitlines() if (ROOT / name).exists()}
    return files, {str(folder) for name in files for folder in pathlib.PurePath(name).parents} - {"."}


def missing_paths(text, files, folders):
    """Paths and names of files, in backquotes or in commands of a page, that do not exist."""
    own = set(re.findall(r"^ *```\w+\n *(?://|#) (\S+\.\w+)$", text, re.MULTILINE)) | OTHER_FILES
    blocks = "\n".join(re.findall(r"^ *```\w*\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL))
    words = {(word, False) for word in blocks.split()}
    words |= {(word, True) for quoted in re.findall(r"`([^`\n]+)`", without_code(text)) for word in quoted.split()}
    missing = []
    for word, is_quoted in words:
        name = word.strip("\"'(),;:")
        top, slash, rest = name.partition("/")
        is_path = slash and rest and top in folders
        if not is_path and not (is_quoted and FILE_NAME.fullmatch(name)):
            continue
        # Words in capitals and in angle brackets stand for others.
        if name in own or re.search(r"(?<![^/_])[A-Z]+(?![^./_])|<", re.sub(r"README|CONTRIBUTING", "", name)):
            continue
        known = files | folders if is_path else {pathlib.PurePath(file).name for file in files}
        if not fnmatch.filter(known, name.partition("#")[0].rstrip("/.")):
            missing.append(name)
    return sorted(missing)


@pytest.fixture(scope="module")
def project_files():
    return list_files()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_paths_of_pages(page, project_files):
    assert missing_paths(page.read_text(), *project_files) == []


def test_missing_paths_are_found():
    files, folders = {"lib/a.cpp", "docs/in.mlir", "test/x-1.mlir"}, {"lib", "docs", "test"}
    text = "`lib/a.cpp` `lib/b.cpp` `a.cpp` `b.cpp` `lib/` `docs/X.md` `build/x` `test/x*.mlir`, `test/y*.mlir`\n"
    assert missing_paths(text, files, folders) == ["b.cpp", "lib/b.cpp", "test/y*.mlir"]
    text = "```sh\nattn-opt docs/in.mlir lib/none.cpp x.mlir\n```\n`y.mlir`\n```mlir\n// y.mlir\n```\n"
    assert missing_paths(text, files, folders) == ["lib/none.cpp"]


def unknown_options(text, options_of):
    """Options in commands of a page that their tools do not have."""
    unknown = []
    for tool, arguments in TOOL.findall(text.replace("\\\n", " ")):
        given = re.findall(r"(?<=\s)--?([a-zA-Z][\w-]*)", re.sub(r"'[^']*'|\"[^\"]*\"", "", arguments))
        unknown += [f"{tool} --{option}" for option in given if option not in options_of(tool)]
    return unknown


@pytest.mark.skipif(not (BUILD / "bin" / "attn-opt").exists(), reason="attn-opt is not built")
def test_options_of_pages():
    known = {}

    def options_of(tool):
        if tool not in known:
            # Of the others, --help leaves options of MLIR out.
            argument = "--help" if tool == "attn-run" else "--help-hidden"
            result = subprocess.run([BUILD / "bin" / tool, argument], capture_output=True, text=True)
            known[tool] = set(re.findall(r"(?<![\w-])--?([a-zA-Z][\w-]*)", result.stdout))
            assert result.returncode == 0 and known[tool]
        return known[tool]

    unknown = {name_of(page): unknown_options(page.read_text(), options_of) for page in PAGES}
    assert len(known) >= 4 and {name: options for name, options in unknown.items() if options} == {}


def test_unknown_options_are_found():
    text = "`attn-opt in.mlir --a=b --none` and\nattn-run x.so '--no' --list \\\n  --neither | grep --other\n"
    unknown = unknown_options(text, lambda tool: {"a", "list"})
    assert unknown == ["attn-opt --none", "attn-run --neither"]


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


def find_wide(name, text):
    """Numbers of lines of more than 120 columns; 160 in tables and tests, any number for the text of a diagnostic."""
    in_tests = name.startswith("test/")

    def is_wide(line):
        if in_tests and re.search("expected-(error|warning|remark|note)", line):
            return False
        return len(line) > (160 if in_tests or line.lstrip(" /*").startswith("|") else 120)

    return [number for number, line in enumerate(text.splitlines(), 1) if is_wide(line)]


def test_columns_of_code(project_files):
    suffixes = (".mlir", ".test", ".txt", ".py", ".cpp", ".h", ".c", ".td", ".cmake", ".in")
    wide = {}
    for name in sorted(project_files[0]):
        if name.endswith(suffixes) and (ROOT / name).is_file():
            numbers = find_wide(name, (ROOT / name).read_text(errors="replace"))
            if numbers:
                wide[name] = numbers
    assert wide == {}, "lines are too wide"


def test_wide_lines_are_found():
    for name, limit in (("lib/a.cpp", 120), ("python/a.py", 120), ("test/a.mlir", 160)):
        assert find_wide(name, f"a\n{limit * 'x'}\n{(limit + 1) * 'x'}") == [3]
    assert find_wide("include/a.td", "    | " + 150 * "x") == find_wide("test/a.mlir", "// expected-error " + 150 * "x") == []


def named_masks():
    """{name in the IR: parameters} of the masks that TableGen defines."""
    masks = {}
    for name in ("AttnAttrs.td", "AttnDataMasks.td"):
        text = (ROOT / "include" / "attn" / "Dialect" / "Attn" / "IR" / name).read_text()
        for definition in re.split(r"^(?=def |class )", text, flags=re.MULTILINE):
            head = re.match(r'def \w+\s+: Attn_(\w*Mask|)Attr<"\w+",\s*"(\w+)"', definition)
            if head and (head[1] or "Attn_MaskAttrInterface" in definition):
                parameters = re.search(r"let parameters = \(ins(.*?)\);", definition, re.DOTALL)
                masks[head[2]] = re.findall(r":\$(\w+)", parameters[1]) if parameters else []
    return masks


def test_table_of_masks():
    """The tutorial has all masks with their parameters."""
    text = (DOCS / "Tutorials" / "WriteAttentionInMLIR.md").read_text()
    rows = [line.split("|") for line in text.split("\n## Masks\n")[1].split("\n## ")[0].splitlines()]
    table = {}
    for cells in rows:
        for name in re.findall(r"#attn\.(\w+)", cells[1] if len(cells) > 3 else ""):
            table[name] = set(re.findall(r"`(\w+)`", cells[2])) - {"reads"}
    masks = named_masks()
    assert len(masks) >= 13 and table.keys() == masks.keys()
    # Composite masks have masks without names.
    composite = {"and", "or", "not"}
    assert {name: parameters for name, parameters in table.items() if name not in composite} == {
        name: set(parameters) for name, parameters in masks.items() if name not in composite}


def test_table_of_masks_in_python():
    """Python.md has all functions of attn.masks with their arguments."""
    masks = pytest.importorskip("attn.masks")
    expected = set()
    for name, function in inspect.getmembers(masks, inspect.isfunction):
        if not name.startswith("_"):
            arguments = inspect.signature(function).parameters.values()
            expected.add(f"{name}({', '.join(str(a.replace(annotation=a.empty)) for a in arguments)})")
    section = (DOCS / "Python.md").read_text().split("\n## Named masks\n")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+\([^`]*\))` \|", section, re.MULTILINE)) == expected


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
    assert result.returncode != 0 and "unknown parameter 'none'" in result.stderr
