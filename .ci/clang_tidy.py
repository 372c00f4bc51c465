#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs clang-tidy on the sources that it has not yet found clean.

    clang_tidy.py --build-dir BUILD [FILE...]

Most of the time that clang-tidy takes is the parsing of MLIR's headers: 30 seconds, where a source takes one. Sources
that are compiled alike are therefore first checked in groups, as one translation unit that includes them. Each
follows only sources whose namespaces it uses, too, and that do not define the same names. A source in which something
is found, also that it clashes with another one all the same, is checked again in a smaller group, and at last by
itself: only that counts as a finding. Findings depend only on the source, the headers that it includes, the command
that compiles it, the checks and clang-tidy itself. A source that was clean with the present state of all these is
skipped; the cache remembers no more than that. Once a source has been built, ninja knows its headers; without that it
is always checked.

Without FILE, checks all that BUILD compiles of lib and tools. Exits with 1 if
anything is found.
"""

import argparse
import concurrent.futures
import functools
import hashlib
import itertools
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = ("lib", "tools")
# The most sources that are checked together. More would leave processors without work at the end.
GROUP_SIZE = 40
# Functions, with their parameters, and classes and constants of a source, which no other one may define; and aliases,
# which another one may define alike.
FUNCTION = re.compile(r"^(?:static [^;={}()]*?|int )(\w+)\(([^)]*)\)", re.MULTILINE)
OTHER = re.compile(r"^(?:(?:struct|class) (\w+)[^;{]*{|static const[^;={}()]*?(\w+)(?:\[\w*\])? ?[={])", re.MULTILINE)
ALIAS = re.compile(r"^using (\w+) = ([^;]*);", re.MULTILINE)
KEEP_SECONDS = 30 * 24 * 3600


def default_cache():
    """The folder that remembers clean results, next to other tools' caches."""
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "attn-clang-tidy"


def prepare(entry, build):
    """An entry of compile_commands.json with the command that clang-tidy works by.

    Precompiled headers are left out: clang-tidy would load all their declarations, which takes longer than parsing the
    headers that a source includes, and would not see that a source lacks an include. Generated headers count as headers
    of the system, which no check looks at: that halves the time.
    """
    words = shlex.split(entry["command"])
    kept, position = [], 0
    while position < len(words):
        if words[position:position + 2] in (["-Xclang", "-include-pch"], ["-Xclang", "-include"]):
            position += 4
            continue
        word = words[position]
        generated = word.startswith("-I") and pathlib.Path(word[2:]).is_relative_to(build)
        kept += ["-isystem", word[2:]] if generated else [word]
        position += 1
    return {**entry, "command": shlex.join(kept)}


def read_dependencies(build):
    """The files that ninja knows of each object: {object: [file, ...]}, paths as ninja writes them."""
    answer = subprocess.run(["ninja", "-C", build, "-t", "deps"], capture_output=True, text=True)
    dependencies, files = {}, None
    for line in answer.stdout.splitlines():
        if line.startswith("    "):
            if files is not None:
                files.append(line.strip())
        elif ": #deps " in line:
            files = None
            if line.endswith("(VALID)"):
                files = dependencies.setdefault(line.split(": #deps ")[0], [])
    return dependencies


def object_of(entry):
    """The object file that an entry of compile_commands.json makes, or None."""
    words = shlex.split(entry["command"])
    return words[words.index("-o") + 1] if "-o" in words[:-1] else None


@functools.lru_cache(maxsize=None)
def digest_of(path):
    """Digest of a file's bytes; raises OSError if there is none."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def find_configurations(source):
    """The configurations of clang-tidy that apply to a source, the nearest first."""
    folders = [folder for folder in source.parents if folder.is_relative_to(ROOT)]
    return [folder / ".clang-tidy" for folder in folders if (folder / ".clang-tidy").exists()]


def key_of(entry, dependencies, build, tool):
    """Names all that a result depends on, or None if that is not known.

    `entry` is of compile_commands.json, `tool` a text that changes with clang-tidy.
    Says the same of checkouts at different places.
    """
    includes = dependencies.get(object_of(entry))
    if not includes:
        return None

    def relocatable(text):
        return text.replace(str(build), "<build>").replace(str(ROOT), "<source>")

    parts = [tool, relocatable(entry["command"])]
    try:
        parts += [digest_of(path) for path in find_configurations(pathlib.Path(entry["file"]))]
        for name in includes:
            path = (build / name).resolve()
            if path.name.startswith("cmake_pch.hxx"):
                continue
            parts.append(f"{relocatable(str(path))} {digest_of(path)}")
    except OSError:
        return None
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def select(entries, files, build):
    """The entries to check, one for each source."""
    wanted = {pathlib.Path(file).resolve() for file in files}
    selected = {}
    for entry in entries:
        source = pathlib.Path(entry["file"]).resolve()
        if source in wanted if wanted else any(source.is_relative_to(ROOT / folder) for folder in FOLDERS):
            selected.setdefault(source, prepare(entry, build))
    for missing in sorted(wanted - set(selected)):
        sys.exit(f"clang_tidy.py: error: {missing} is not compiled in this build tree")
    return [selected[source] for source in sorted(selected)]


def find_namespaces(text):
    """The namespaces whose names a source uses without them. In a source that includes it and others, which use more
    namespaces, such names may be ambiguous."""
    return frozenset(re.findall(r"^using namespace ([\w:]+);", text, re.MULTILINE))


def find_definitions(text):
    """What a source defines for itself: functions with the types of their parameters, classes and constants."""
    found = {"".join(names) for names in OTHER.findall(text)}
    for function, parameters in FUNCTION.findall(text):
        types = [re.sub(r"\s*\w+( = .*)?$", "", one.strip()) for one in re.sub(r"\s+", " ", parameters).split(",")]
        found.add((function, *types))
    return found


def split_command(entry):
    """The words that commands of a group have in common, and options that a source may add without changing others:
    names with their values, folders of headers, and how code is addressed."""
    words = iter(shlex.split(entry["command"]))
    common, added = [], []
    for word in words:
        if word == "-isystem":
            added.append((word, next(words)))
        elif word.startswith(("-D", "-I")) or word in ("-fPIC", "-fPIE"):
            added.append((word,))
        elif word not in (entry["file"], object_of(entry)):
            common.append(word)
    return tuple(common), added


class Group:
    """Sources that one translation unit can include."""

    def __init__(self):
        self.members = []
        self.namespaces = set()
        self.definitions = set()
        self.values = {}

    def takes(self, member):
        """Whether a source clashes with none of the group."""
        return (len(self.members) < GROUP_SIZE and not self.definitions & member.definitions
                and all(self.values.get(name, value) == value for name, value in member.values.items()))

    def orders(self, namespaces):
        """Whether namespaces contain the namespaces of each source of the group, or are a part of them."""
        return all(namespaces <= other or other <= namespaces for other in self.namespaces)

    def add(self, member):
        self.members.append(member)
        self.namespaces.add(member.namespaces)
        self.definitions |= member.definitions
        self.values.update(member.values)


class Member:
    """An entry with its key, and what decides in which groups it can be."""

    def __init__(self, entry, key):
        source = pathlib.Path(entry["file"])
        text = source.read_text(errors="replace") if source.exists() else ""
        self.item = entry, key
        self.namespaces = find_namespaces(text)
        self.definitions = find_definitions(text)
        common, added = split_command(entry)
        self.alike = (*find_configurations(source), *common)
        # Of macros, whose names begin with -D, and aliases.
        self.values = dict(words[0].partition("=")[::2] for words in added if words[0].startswith("-D"))
        self.values.update(ALIAS.findall(text))


def make_groups(todo):
    """Lists of entries, with their keys, that are checked together, in an order in which namespaces only get more."""
    alike = {}
    for member in (Member(*item) for item in todo):
        alike.setdefault(member.alike, {}).setdefault(member.namespaces, []).append(member)
    groups = []
    for by_namespaces in alike.values():
        begun = []
        for namespaces, members in sorted(by_namespaces.items(), key=lambda item: -len(item[1])):
            fitting = [group for group in begun if group.orders(namespaces)]
            room = sum(GROUP_SIZE - len(group.members) for group in fitting)
            new = [Group() for _ in range(-(-(len(members) - room) // GROUP_SIZE))]
            for member in members:
                takers = [group for group in fitting + new if group.takes(member)]
                if not takers:
                    takers = [Group()]
                    new += takers
                min(takers, key=lambda group: len(group.members)).add(member)
            begun += new
        groups += begun
    return [[member.item for member in sorted(group.members, key=lambda member: len(member.namespaces))]
            for group in sorted(groups, key=lambda group: -len(group.members))]  # fmt: skip


def write_group(group, folder):
    """Writes a source that includes a group's sources, and the database that says how it is compiled. Both lie in a
    copy of the folders with the group's configurations."""
    entry, _ = group[0]
    source = folder / "group.cpp"
    configurations = find_configurations(pathlib.Path(entry["file"]))
    for configuration in configurations:
        copy = folder / configuration.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(configuration, copy)
    if configurations:
        source = folder / configurations[0].parent.relative_to(ROOT) / "group.cpp"
    source.parent.mkdir(parents=True, exist_ok=True)
    line = '#include "{}" // NOLINT(bugprone-suspicious-include)\n#undef DEBUG_TYPE\n'
    source.write_text("".join(line.format(entry["file"]) for entry, _ in group))
    words = [str(source) if word == entry["file"] else word for word in shlex.split(entry["command"])]
    _, own = split_command(entry)
    added = dict.fromkeys(option for other, _ in group[1:] for option in split_command(other)[1] if option not in own)
    words += [word for option in added for word in option]
    database = [{**entry, "file": str(source), "command": shlex.join(words)}]
    (folder / "compile_commands.json").write_text(json.dumps(database))
    return source


def find_named(group, findings):
    """The members of a group whose source has a finding."""
    named = set(re.findall(r"^(/.*?):\d+:\d+: (?:warning|error): ", findings, re.MULTILINE))
    return [member for member in group if member[0]["file"] in named]


class Checker:
    """Runs clang-tidy. `folder` is for files that it needs."""

    def __init__(self, program, entries, folder):
        self.program, self.folder = program, folder
        self.numbers = itertools.count()
        (folder / "compile_commands.json").write_text(json.dumps(entries))

    def run(self, source, folder):
        """The findings in a source that the database in a folder describes; empty if there are none."""
        command = [self.program, "--quiet", "-p", str(folder), str(source)]
        answer = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if answer.returncode == 0 and not answer.stdout.strip():
            return ""
        return answer.stdout.strip() or answer.stderr.strip() or f"exit code {answer.returncode}"

    def check(self, group):
        """Yields each member of a group with the findings in its source."""
        if len(group) == 1:
            yield group[0], self.run(group[0][0]["file"], self.folder)
            return
        folder = self.folder / str(next(self.numbers))
        findings = self.run(write_group(group, folder), folder)
        if not findings:
            yield from ((member, "") for member in group)
            return
        suspects = find_named(group, findings)
        if suspects and len(suspects) < len(group):
            # Errors do not keep checks from looking at other sources, whose warnings the compiler takes as errors, too.
            yield from ((member, "") for member in group if member not in suspects)
            yield from self.check(suspects)
            return
        # A header has findings, or each source.
        for half in (group[:len(group) // 2], group[len(group) // 2:]):
            yield from self.check(half)


def prune(cache):
    """Removes entries that have not been used for long."""
    for path in cache.iterdir():
        if time.time() - path.stat().st_mtime > KEEP_SECONDS:
            path.unlink(missing_ok=True)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-dir", metavar="DIR", type=pathlib.Path, default=ROOT / "build",
                        help="build tree with compile_commands.json (default: build)")
    parser.add_argument("--clang-tidy", metavar="PROGRAM", default="clang-tidy-22")
    parser.add_argument("--cache", metavar="DIR", type=pathlib.Path, default=default_cache(),
                        help="where clean results are remembered (default: %(default)s)")
    parser.add_argument("--jobs", metavar="N", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("files", metavar="FILE", nargs="*", help="sources to check (default: all of lib and tools)")
    options = parser.parse_args(arguments)
    build = options.build_dir.resolve()
    try:
        entries = select(json.loads((build / "compile_commands.json").read_text()), options.files, build)
        tool = subprocess.run([options.clang_tidy, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        sys.exit(f"clang_tidy.py: error: {error}")
    if not entries:
        sys.exit(f"clang_tidy.py: error: {build} compiles nothing of {' and '.join(FOLDERS)}")

    options.cache.mkdir(parents=True, exist_ok=True)
    prune(options.cache)
    dependencies = read_dependencies(build)
    todo = []
    for entry in entries:
        key = key_of(entry, dependencies, build, tool)
        if key and (options.cache / key).exists():
            (options.cache / key).touch()
        else:
            todo.append((entry, key))

    done = failed = 0
    with tempfile.TemporaryDirectory(prefix="attn-clang-tidy-") as folder:
        checker = Checker(options.clang_tidy, entries, pathlib.Path(folder))
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            results = [pool.submit(lambda group: list(checker.check(group)), group) for group in make_groups(todo)]
            for result in concurrent.futures.as_completed(results):
                for (entry, key), findings in result.result():
                    done += 1
                    print(f"[{done}/{len(todo)}] {os.path.relpath(entry['file'], ROOT)}", flush=True)
                    if findings:
                        failed += 1
                        print(findings, flush=True)
                    elif key:
                        (options.cache / key).touch()
    print(f"clang-tidy: {len(entries)} files, {len(entries) - len(todo)} known to be clean, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
