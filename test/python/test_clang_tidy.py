# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of .ci/clang_tidy.py: which sources are checked again, and which are not."""

import json

import clang_tidy
import pytest

# Notes the names of its source, or of a group's sources, and finds something where they have the word "bad".
TOOL = """#!/bin/sh
[ "$1" = --version ] && cat "$0.version" && exit
for source; do :; done
files=$(sed -n 's/^#include "\\([^"]*cpp\\)".*/\\1/p' "$source")
for file in ${files:=$source}; do echo "$file" >> "$0.log"; done
! grep -hn bad $files
"""


class Project:
    """A build tree with two sources, one of which includes a header."""

    def __init__(self, folder, monkeypatch):
        self.folder = folder
        self.build = folder / "build"
        self.tool = folder / "tool"
        self.log = folder / "tool.log"
        (folder / "lib").mkdir()
        self.build.mkdir()
        self.tool.write_text(TOOL)
        self.tool.chmod(0o755)
        (folder / "tool.version").write_text("22.1")
        self.dependencies = {}
        entries = []
        for name, files in {"one": ["one.cpp", "header.h"], "two": ["two.cpp"]}.items():
            for file in files:
                (folder / "lib" / file).write_text("good\n")
            self.dependencies[f"{name}.o"] = [str(folder / "lib" / file) for file in files]
            source = str(folder / "lib" / f"{name}.cpp")
            entries.append({"file": source, "command": f"c++ -c {source} -o {name}.o"})
        (self.build / "compile_commands.json").write_text(json.dumps(entries))
        monkeypatch.setattr(clang_tidy, "ROOT", folder)
        monkeypatch.setattr(clang_tidy, "read_dependencies", lambda build: self.dependencies)

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def run(self, *files):
        """Exit code, and the names of the sources that were checked."""
        self.log.write_text("")
        clang_tidy.digest_of.cache_clear()
        code = clang_tidy.main(["--build-dir", str(self.build), "--clang-tidy", str(self.tool),
                                "--cache", str(self.folder / "cache"), *map(str, files)])
        return code, sorted(line.rsplit("/", 1)[1] for line in self.log.read_text().splitlines())


@pytest.fixture
def project(tmp_path, monkeypatch):
    return Project(tmp_path, monkeypatch)


def test_clean_sources_are_checked_once(project, capsys):
    assert project.run() == (0, ["one.cpp", "two.cpp"])
    assert project.run() == (0, [])
    assert capsys.readouterr().out.splitlines()[-1] == "clang-tidy: 2 files, 2 known to be clean, 0 with findings"


def test_findings_are_reported_until_they_are_gone(project, capsys):
    project.write("lib/two.cpp", "bad\n")
    for _ in range(2):
        code, _ = project.run()
        assert code == 1
        assert "1:bad" in capsys.readouterr().out
    project.write("lib/two.cpp", "fixed\n")
    assert project.run() == (0, ["two.cpp"])


def test_changes_are_checked(project):
    project.run()
    project.write("lib/header.h", "changed\n")
    assert project.run() == (0, ["one.cpp"])
    project.write(".clang-tidy", "Checks: '*'\n")
    assert project.run() == (0, ["one.cpp", "two.cpp"])
    project.write("tool.version", "22.2")
    assert project.run() == (0, ["one.cpp", "two.cpp"])
    entries = json.loads((project.build / "compile_commands.json").read_text())
    entries[1]["command"] += " -DNEW"
    project.write("build/compile_commands.json", json.dumps(entries))
    assert project.run() == (0, ["two.cpp"])


def test_precompiled_headers_are_left_out(project):
    """clang-tidy parses the headers that a source includes, and a rebuilt precompiled header changes nothing."""
    pch = project.folder / "cmake_pch.hxx.pch"
    pch.write_text("first")
    entries = json.loads((project.build / "compile_commands.json").read_text())
    entries[0]["command"] += f" -Xclang -include-pch -Xclang {pch} -Xclang -include -Xclang cmake_pch.hxx -Xclang -ftime"
    project.write("build/compile_commands.json", json.dumps(entries))
    project.dependencies["one.o"].append(str(pch))
    project.write("tool", TOOL.replace("for source", 'grep command "$3/compile_commands.json" >> "$0.seen"; for source'))
    assert project.run() == (0, ["one.cpp", "two.cpp"])
    seen = (project.folder / "tool.seen").read_text()
    assert "pch" not in seen and "-Xclang -ftime" in seen
    pch.write_text("second")
    assert project.run() == (0, [])


def test_generated_headers_are_not_looked_at(project):
    """They are headers of the system to clang-tidy; headers of the project are not."""
    entries = json.loads((project.build / "compile_commands.json").read_text())
    entries[0]["command"] += f" -I{project.build}/include -I{project.folder}/include"
    project.write("build/compile_commands.json", json.dumps(entries))
    project.write("tool", TOOL.replace("for source", 'grep command "$3/compile_commands.json" >> "$0.seen"; for source'))
    project.run()
    seen = (project.folder / "tool.seen").read_text()
    assert f"-isystem {project.build}/include -I{project.folder}/include" in seen


def test_unknown_headers_are_never_clean(project):
    del project.dependencies["one.o"]
    for _ in range(2):
        assert "one.cpp" in project.run()[1]


def test_groups(project):
    """Sources that are compiled alike are checked in one go, with the configurations of their folder."""
    project.write(".clang-tidy", "first")
    project.write("lib/.clang-tidy", "second")
    look = 'cat "$(dirname "$source")/../.clang-tidy" "$(dirname "$source")/.clang-tidy" >> "$0.seen"; files='
    project.write("tool", TOOL.replace("files=", look, 1))
    assert project.run() == (0, ["one.cpp", "two.cpp"])
    assert (project.folder / "tool.seen").read_text() == "firstsecond"


def list_groups(project):
    """The names of the sources of each group that is checked, in order."""
    project.write("tool", TOOL.replace("! grep", 'echo $files >> "$0.seen"; ! grep'))
    assert project.run() == (0, ["one.cpp", "two.cpp"])
    groups = (project.folder / "tool.seen").read_text().splitlines()
    return sorted([name.rsplit("/", 1)[1].removesuffix(".cpp") for name in group.split()] for group in groups)


@pytest.mark.parametrize("namespaces, groups", [
    (["mlir", "mlir::attn"], [["one", "two"]]),
    (["mlir"], [["two", "one"]]),
    (["mlir::attn_tile", "mlir"], [["one"], ["two"]]),
])  # fmt: skip
def test_groups_only_add_namespaces(project, namespaces, groups):
    """Names that two namespaces have would be ambiguous in a source that uses one of them."""
    project.write("lib/one.cpp", "using namespace mlir;\nusing namespace mlir::attn;\n")
    project.write("lib/two.cpp", "".join(f"using namespace {name};\n" for name in namespaces))
    assert list_groups(project) == groups


@pytest.mark.parametrize("first, second, together", [
    ("static int f(int a) {}", "static int f(int other,\n int b = 1) {}", True),
    ("static int f(int a, int b) {}", "static void f(int other,\n int more = 1) {}", False),
    ("int main(int argc, char **argv) {", "int main(int argc, char **argv) {", False),
    ("struct Part {\n", "struct Other {\n", True),
    ("struct Part {\n", "struct Part : Base {\n", False),
    ("struct Part;\n", "struct Part {\n", True),
    ("static constexpr int maxDepth = 3;", "static constexpr int64_t maxDepth = 4;", False),
    ("static constexpr int maxDepth = 3;", "int compute(int maxDepth);", True),
    ("using Sizes = Vector<int>;", "using Sizes = Vector<int>;", True),
    ("using Sizes = Vector<int>;", "using Sizes = Vector<long>;", False),
])  # fmt: skip
def test_groups_define_names_once(project, first, second, together):
    project.write("lib/one.cpp", first)
    project.write("lib/two.cpp", second)
    assert len(list_groups(project)) == (1 if together else 2)


@pytest.mark.parametrize("first, second, together", [
    ("-DNAME=1", "-isystem folder -DOTHER -DNAME=1", True),
    ("-DNAME=1", "-DNAME=2", False),
    ("-fno-rtti", "-frtti", False),
])  # fmt: skip
def test_groups_have_the_options_of_all_sources(project, first, second, together):
    entries = json.loads((project.build / "compile_commands.json").read_text())
    for entry, options in zip(entries, (first, second)):
        entry["command"] += f" {options}"
    project.write("build/compile_commands.json", json.dumps(entries))
    show = 'sed -n \'s/.*"command": "\\([^"]*\\)".*/\\1/p\' "$3/compile_commands.json" >> "$0.commands"; for source'
    project.write("tool", TOOL.replace("for source", show, 1))
    assert project.run() == (0, ["one.cpp", "two.cpp"])
    (*_, command) = (project.folder / "tool.commands").read_text().splitlines()
    assert all(option in command for option in f"{first} {second}".split()) == together


def add_sources(project, *names):
    """Sources that are compiled like the others."""
    entries = json.loads((project.build / "compile_commands.json").read_text())
    for name in names:
        source = project.folder / "lib" / f"{name}.cpp"
        source.write_text("good\n")
        project.dependencies[f"{name}.o"] = [str(source)]
        entries.append({"file": str(source), "command": f"c++ -c {source} -o {name}.o"})
    project.write("build/compile_commands.json", json.dumps(entries))


def test_sources_that_cannot_be_checked_together(project, capsys):
    """A source that clashes with another one in the group is checked by itself, and the others are not once more."""
    add_sources(project, "three", "two_more")
    clash = """case $source in */group.cpp) for file in $files; do case $file in */two_more.cpp)
echo "$file:1:2: error: redefinition of 'f'"; exit 1;; esac; done;; esac
"""
    project.write("tool", TOOL.replace("! grep", clash + "! grep"))
    assert project.run() == (0, ["one.cpp", "three.cpp", "two.cpp", "two_more.cpp", "two_more.cpp"])
    assert "redefinition" not in capsys.readouterr().out
    assert project.run() == (0, [])


def test_findings_in_headers(project, capsys):
    """Where no source has the finding, its group is divided until the source is known that includes the header."""
    add_sources(project, "three", "four")
    project.write("lib/header.h", "bad\n")
    project.write("tool", TOOL.replace("! grep -hn bad $files", """
case $files in *one.cpp*) echo "$(dirname "$file")/header.h:1:1: error: bad"; exit 1;; esac"""))
    code, checked = project.run()
    assert code == 1 and len(checked) == 4 + 4 + 2
    out = capsys.readouterr().out
    assert out.count("header.h:1:1: error: bad") == 1 and out.index("one.cpp") < out.index("header.h:1:1")
    assert project.run() == (1, ["one.cpp"])


def test_one_file(project):
    assert project.run(project.folder / "lib" / "one.cpp") == (0, ["one.cpp"])
    with pytest.raises(SystemExit, match="not compiled"):
        project.run(project.folder / "lib" / "three.cpp")
