# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Folders of include/attn and lib are layers: a file includes files of its own layer and of layers above it in the
table of docs/Architecture.md alone, and no header includes itself through others.
"""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^\s*#include "(attn/[^"]+|[^"/]+)"', re.MULTILINE)


def read_layers():
    """The folders of the table of docs/Architecture.md, from the top. Folders of one row may include one another."""
    text = (ROOT / "docs/Architecture.md").read_text()
    table = text[text.index("## Layers"):].split("\n\n| folder", 1)[1].split("\n\n", 1)[0]
    rows = [line.split("|")[1] for line in table.splitlines()[2:]]
    return [re.findall(r"`([^`]+)`", row) for row in rows]


LAYERS = read_layers()


def find_layer(path):
    """The number of the layer of `path`, which is relative to include/attn or lib."""
    found = [
        (len(folder), number) for number, row in enumerate(LAYERS) for folder in row if path.startswith(folder + "/")
    ]
    return max(found)[1] if found else None


def read_includes(root, folder):
    """For each source below `folder`, which is include/attn or lib in `root`: its path there, and what it includes, as
    paths below include/attn or lib."""
    for path in sorted((root / folder).rglob("*")):
        if path.suffix not in (".h", ".cpp") or path.parent == root / folder:
            continue
        own = path.relative_to(root / folder).as_posix()
        included = []
        for name in INCLUDE.findall(path.read_text()):
            if name.startswith("attn/"):
                included.append(name[len("attn/"):])
            elif (path.parent / name).is_file():
                included.append((pathlib.PurePosixPath(own).parent / name).as_posix())
        yield own, included


def find_violations(root):
    """Lines that name each include of a file of a layer below, and each file that has no layer."""
    lines = []
    for folder in ("include/attn", "lib"):
        for own, included in read_includes(root, folder):
            layer = find_layer(own)
            if layer is None:
                lines.append(f"{folder}/{own} is in no layer")
                continue
            for name in included:
                below = find_layer(name)
                if below is not None and below > layer:
                    lines.append(f"{folder}/{own} includes {name}, which is in a layer below")
    return lines


def find_cycle(graph):
    """A list of files each of which includes the next one and the last the first; empty if there is none."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return path[path.index(node):]
        if node in done:
            return []
        path.append(node)
        for other in graph.get(node, ()):
            if cycle := visit(other):
                return cycle
        done.add(path.pop())
        return []

    for node in graph:
        if cycle := visit(node):
            return cycle
    return []


NAME = r'"(?:host|sm_\d+a?)"'
COMPARISON = re.compile(rf'[=!]=\s*{NAME}|{NAME}\s*[=!]=|Case\(\s*"sm_')


def find_comparisons(root):
    """Lines of code outside of lib/Target that compare the name of a target. `tools/attn-run` includes no header of the
    compiler: it knows targets of artifacts by name alone."""
    lines = []
    for folder in ("include/attn", "lib", "tools"):
        for path in sorted((root / folder).rglob("*")):
            own = path.relative_to(root).as_posix()
            if path.suffix not in (".h", ".cpp") or own.startswith(("lib/Target/", "tools/attn-run/")):
                continue
            lines += [f"{own}:{number}" for number, line in enumerate(path.read_text().splitlines(), 1)
                      if COMPARISON.search(line)]
    return lines


def test_no_code_compares_names_of_targets():
    assert not find_comparisons(ROOT)


def test_comparisons_are_found(tmp_path):
    path = tmp_path / "lib/Scheduling/A.cpp"
    path.parent.mkdir(parents=True)
    path.write_text('if (target == "sm_90a")\n  return;\nname = "sm_90a";\n')
    assert find_comparisons(tmp_path) == ["lib/Scheduling/A.cpp:1"]


def test_layers():
    assert not find_violations(ROOT)


def test_all_layers_exist():
    for folder in (folder for row in LAYERS for folder in row):
        assert (ROOT / "lib" / folder).is_dir() or (ROOT / "include/attn" / folder).is_dir(), folder


def test_headers_include_no_cycle():
    graph = {own: included for own, included in read_includes(ROOT, "include/attn")}
    assert len(graph) > 40
    assert not find_cycle(graph)


def test_attn_dialect_knows_no_tile_dialect():
    for folder in ("include/attn", "lib"):
        for own, included in read_includes(ROOT, folder):
            if own.startswith("Dialect/Attn/"):
                assert not [name for name in included if name.startswith("Dialect/AttnTile/")], own


@pytest.mark.parametrize("own, included, expected", [
    ("Interfaces/A.h", "attn/Analysis/B.h", "include/attn/Interfaces/A.h includes Analysis/B.h, "
     "which is in a layer below"),
    ("Elsewhere/A.h", "attn/Analysis/B.h", "include/attn/Elsewhere/A.h is in no layer"),
])
def test_violations_are_found(tmp_path, own, included, expected):
    path = tmp_path / "include/attn" / own
    path.parent.mkdir(parents=True)
    path.write_text(f'#include "{included}"\n')
    assert find_violations(tmp_path) == [expected]


def test_cycles_are_found():
    assert find_cycle({"a": ["b"], "b": ["c"], "c": ["b"]}) == ["b", "c"]
    assert find_cycle({"a": ["b", "c"], "b": ["c"]}) == []
