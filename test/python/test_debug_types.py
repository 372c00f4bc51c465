# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sources log under the name of the pass that they define, so that `attn-opt --debug-only` finds it."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


def read_passes():
    """The arguments of all passes, by the name of the macro that defines their base class."""
    passes = {}
    for path in (ROOT / "include").rglob("Passes.td"):
        text = path.read_text()
        for name, argument in re.findall(r'def (\w+)\s*:\s*\w*Pass(?:Base)?<\s*"([^"]+)"', text):
            passes["GEN_PASS_DEF_" + name.upper()] = argument
    return passes


def find_violations(sources):
    """Lines that name each of `sources`, {path: text}, that logs under a name that is not its pass's."""
    passes = read_passes()
    lines = []
    for path, text in sorted(sources.items()):
        given = re.findall(r'#define DEBUG_TYPE "([^"]+)"', text)
        own = [passes[macro] for macro in re.findall(r"#define (GEN_PASS_DEF_\w+)", text) if macro in passes]
        if given and given[0] not in own:
            lines.append(f"{path}: logs as {given[0]}, expected {' or '.join(own) or 'no log'}")
        if bool(given) != ("LDBG(" in text):
            lines.append(f"{path}: has {'no log' if given else 'no DEBUG_TYPE'}")
    return lines


def test_passes_log_under_their_names():
    sources = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / "lib").rglob("*.cpp")}
    assert find_violations(sources) == []
    assert sum("LDBG(" in text for text in sources.values()) > 10


def test_reports_other_names():
    fuse = "#define GEN_PASS_DEF_ATTNFUSEPASS\n"
    log = 'LDBG() << "x";\n'
    assert find_violations({"a.cpp": fuse + '#define DEBUG_TYPE "attn-fuse"\n' + log}) == []
    assert find_violations({"a.cpp": fuse + '#define DEBUG_TYPE "fuse"\n' + log}) == [
        "a.cpp: logs as fuse, expected attn-fuse"
    ]
    assert find_violations({"a.cpp": fuse + log}) == ["a.cpp: has no DEBUG_TYPE"]
    assert find_violations({"a.cpp": fuse + '#define DEBUG_TYPE "attn-fuse"\n'}) == ["a.cpp: has no log"]
