#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the code that two builds generate for the kernel corpus, the modules of test/Corpus.

    corpus.py OLD NEW                     compile the corpus with both builds and list each kernel that differs
    corpus.py --record BUILD FOLDER       compile with one build, and keep the result as an OLD or NEW of later runs

OLD and NEW are build folders, or folders that --record has written. Each build compiles the corpus of its own source
tree, the one that its CMakeCache.txt names, because two revisions may spell the IR and the options differently. Modules
are matched by file name.

A module says in comments how it is compiled. Each of these lines is one compilation:

    // attn-compile: --target=sm_90a --dropout=fused
    // attn-opt: --attn-differentiate=mode=combined       (optional: passes that run before, for all compilations)

PTX is compared for each kernel. LLVM IR is compared for each function of the host part, which computes the grid, the
shared memory and the arguments of each launch. Kernels and functions are matched by their order in the module. Names of
symbols, strings, comments and debug information do not count. For kernels that differ, the report has the machine
instructions, registers and bytes of spills of both builds, from ptxas; without ptxas it has PTX instructions.

A function that only one build has renumbers symbols, so that functions behind it are listed, too.

Exit codes: 0 nothing differs, 1 something differs, 2 the command line or a folder is wrong, 3 a module did not compile.
"""

import argparse
import concurrent.futures
import difflib
import itertools
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

SAME, DIFFERENT, USAGE, FAILED = range(4)
DIRECTIVE = re.compile(r"^//\s*(attn-compile|attn-opt):(.*)$", re.M)
# LLVM IR of the host part that holds the PTX of the kernels: one run gives both, without the assembler. The host part
# is not optimized: code that is equal before LLVM's optimizations is equal after them.
OUTPUT_OPTIONS = ("--emit=llvm", "--embed-ptx", "--host-opt-level=0")


class UsageError(Exception):
    """A folder or an option that is wrong."""


# ---------------------------------------------------------------------------
# Compilations
# ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Compilation:
    """One module with one set of options. `number` counts the compilations of a module."""

    module: pathlib.Path
    number: int
    options: tuple
    passes: tuple

    @property
    def key(self):
        return f"{self.module.stem}.{self.number}"

    @property
    def title(self):
        return f"{self.module.name} {shlex.join(self.options)}"


class CompileError(Exception):
    """A program that failed."""


def run_program(command, timeout):
    """Runs a program. Raises CompileError with the exit code and the output."""
    name = pathlib.Path(command[0]).name
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                              timeout=timeout)
    except subprocess.TimeoutExpired:
        raise CompileError(f"{name} took more than {timeout} s") from None
    except OSError as error:
        raise CompileError(f"{name} could not be started: {error.strerror}") from None
    if done.returncode == 0:
        return done
    how = f"failed with exit code {done.returncode}"
    if done.returncode < 0:
        how = f"crashed ({signal.Signals(-done.returncode).name})"
    lines = (done.stderr or done.stdout).strip().splitlines()
    raise CompileError("\n    ".join([f"{name} {how}", *lines[:4]]))


def read_corpus(folder, only):
    """The compilations of the modules in a folder, by key."""
    if not folder.is_dir():
        raise UsageError(f"there is no corpus in '{folder}'; "
                         "name a folder of modules with --old-corpus or --new-corpus")
    compilations = {}
    for module in sorted(folder.glob("*.mlir")):
        directives = DIRECTIVE.findall(module.read_text())
        passes = tuple(option for tool, text in directives if tool == "attn-opt" for option in shlex.split(text))
        lines = [shlex.split(text) for tool, text in directives if tool == "attn-compile"]
        if not lines:
            raise UsageError(f"'{module}' has no line '// attn-compile: OPTIONS'")
        for number, options in enumerate(lines):
            compilation = Compilation(module, number, tuple(options), passes)
            if re.search(only, compilation.title):
                compilations[compilation.key] = compilation
    return compilations


class Build:
    """A build folder, which compiles the corpus of its source tree."""

    def __init__(self, folder, corpus, only):
        cache = folder / "CMakeCache.txt"
        if not cache.is_file():
            raise UsageError(f"'{folder}' is neither a build, with a CMakeCache.txt, "
                             "nor a folder that --record has written")
        self.programs = folder / "bin"
        if not (self.programs / "attn-compile").is_file():
            raise UsageError(f"'{folder}' has no bin/attn-compile; build it first")
        if corpus is None:
            home = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", cache.read_text(), re.M)
            if not home:
                raise UsageError(f"'{cache}' does not name a source tree")
            corpus = pathlib.Path(home[1]) / "test" / "Corpus"
        self.compilations = read_corpus(corpus, only)

    def titles(self):
        return {key: compilation.title for key, compilation in self.compilations.items()}

    def make(self, key, work, timeout):
        """Compiles; returns the LLVM IR."""
        compilation = self.compilations[key]
        source, result = compilation.module, work / f"{key}.ll"
        if compilation.passes:
            source = work / f"{key}.mlir"
            run_program([self.programs / "attn-opt", compilation.module, *compilation.passes, "-o", source], timeout)
        compiler = self.programs / "attn-compile"
        run_program([compiler, source, *OUTPUT_OPTIONS, *compilation.options, "-o", result], timeout)
        return result.read_text()


class Recording:
    """A folder that --record has written: LLVM IR, and an index of the compilations."""

    INDEX = "corpus.json"

    def __init__(self, folder, only):
        self.folder = folder
        try:
            index = json.loads((folder / self.INDEX).read_text())
            self.recorded = {key: title for key, title in index.items() if re.search(only, title)}
        except (ValueError, AttributeError, TypeError):
            raise UsageError(f"'{folder / self.INDEX}' was not written by --record") from None

    def titles(self):
        return self.recorded

    def make(self, key, work, timeout):
        try:
            return (self.folder / f"{key}.ll").read_text()
        except OSError as error:
            raise CompileError(f"{key}.ll could not be read: {error.strerror}") from None


def open_side(folder, corpus, only):
    """A build or a recording."""
    if not folder.is_dir():
        raise UsageError(f"there is no folder '{folder}'")
    if (folder / Recording.INDEX).is_file():
        return Recording(folder, only)
    return Build(folder, corpus, only)


# ---------------------------------------------------------------------------
# Normal forms
# ---------------------------------------------------------------------------


@dataclass
class Part:
    """A kernel, or a function of the host part: the text to compare, and the PTX for the measures."""

    name: str
    # "kernel", "function", or "globals" for lines outside of functions.
    kind: str
    normal: str
    # Of kernels: PTX as it was generated.
    ptx: str = ""

    def count_instructions(self):
        if self.kind == "kernel":
            lines = (line.strip() for line in self.normal.splitlines())
            return sum(line.count(";") for line in lines if not line.startswith("."))
        return sum(1 for line in self.normal.splitlines() if re.match(r"  [^ \]]", line))


SYMBOL = r'(?:[\w.$-]+|"[^"]*")'
STRING_GLOBAL = re.compile(rf'^@({SYMBOL}) = .*?\[\d+ x i8\] c"((?:[^"])*)"(?:, align \d+)?$', re.M)
PTX_NAME = re.compile(r"^(?:\.visible |\.weak |\.extern )*(?:\.(?:shared|global|const|entry|func|alias)\b)[^=;{(]*?"
                      r"([A-Za-z_$][\w$]*)\s*(?:\[\d*\]\s*)?(?:=|;|\(|$)", re.M)


def decode(text):
    """The characters of a string of LLVM IR."""
    return re.sub(r"\\([0-9A-Fa-f]{2})", lambda match: chr(int(match[1], 16)), text)


def number_symbols(text, prefix, names, pattern):
    """Replaces names by numbers in the order of `names`."""
    numbers = {name: f"{prefix}{number}" for number, name in enumerate(dict.fromkeys(names))}
    return re.sub(pattern, lambda match: numbers.get(match[0], match[0]), text)


def normalize_ptx(ptx):
    """PTX without comments, debug information and names that come from the source."""
    ptx = re.sub(r"//.*$", "", ptx, flags=re.M)
    # Debug information: sections with their contents, and places in the source.
    ptx = re.sub(r"^\s*\.section\s+\.debug\w*\s*\{.*?^\s*\}", "", ptx, flags=re.M | re.S)
    lines = [line.rstrip() for line in ptx.splitlines() if not re.match(r"\s*\.(?:loc|file)\b", line)]
    ptx = "\n".join(line for line in lines if line.strip())
    names = PTX_NAME.findall(ptx)
    # Parameters are called after the kernel.
    ptx = re.sub(r"(?<![\w$%.])([A-Za-z_$][\w$]*)_param_(\d+)",
                 lambda match: f"{match[1]} _param_{match[2]}" if match[1] in names else match[0], ptx)
    ptx = number_symbols(ptx, "symbol", names, r"(?<![\w$%.])[A-Za-z_$][\w$]*")
    return re.sub(r"(symbol\d+) (_param_\d+)", r"\1\2", ptx)


def split_module(ir):
    """The parts of an LLVM module: its kernels, its functions, and its globals."""
    parts, texts = [], {}
    for name, content in STRING_GLOBAL.findall(ir):
        content = decode(content)
        if "\n.version" in content or content.startswith(".version"):
            ptx = content.rstrip("\0")
            entries = re.findall(r"\.entry\s+([\w$]+)", ptx)
            parts.append(Part(" ".join(entries), "kernel", normalize_ptx(ptx), ptx))
            # The host part also has the size of the code, which depends on names.
            ir = re.sub(rf"(ptr @{re.escape(name)}, i64) \d+", r"\1 0", ir)
            texts[name] = "@code"
        elif all(character.isprintable() or character in "\n\t\0" for character in content):
            # Names of functions, arguments and sizes, and messages.
            texts[name] = "@text"
    drop = re.compile(r"^(?:; .*|source_filename = .*|!llvm\.(?:ident|dbg\.cu).*)\n", re.M)
    ir = drop.sub("", STRING_GLOBAL.sub(lambda match: "" if match[1] in texts else match[0], ir))
    ir = re.sub(rf"@({SYMBOL})", lambda match: texts.get(match[1], match[0]), ir)
    ir = re.sub(r"\s+; preds = .*$|, !dbg !\d+", "", ir, flags=re.M)
    # Symbols that are defined here, and symbols of the runtime. Others, such as functions of libm, keep their names.
    defined = re.findall(rf"^(@{SYMBOL}) = |^define [^@\n]*(@{SYMBOL})|^declare [^@\n]*(@attn{SYMBOL})", ir, re.M)
    names = [next(filter(None, groups)) for groups in defined]
    functions = re.compile(rf"^define [^@\n]*@({SYMBOL})\(.*?^\}}\n", re.M | re.S)
    originals = [match[1] for match in functions.finditer(ir)]
    ir = number_symbols(ir, "@symbol", names, rf"@{SYMBOL}")
    bodies = [match[0] for match in functions.finditer(ir)]
    parts += [Part(name, "function", body) for name, body in zip(originals, bodies, strict=True)]
    rest = re.sub(r"\n{2,}", "\n", functions.sub("", ir))
    return [*parts, Part("globals and declarations", "globals", rest)]


def pair_parts(old, new):
    """Pairs of parts that differ; None stands for one that is missing."""
    for kind in ("kernel", "function", "globals"):
        sides = [[part for part in parts if part.kind == kind] for parts in (old, new)]
        normals = [[part.normal for part in side] for side in sides]
        matcher = difflib.SequenceMatcher(None, *normals, autojunk=False)
        for tag, old_begin, old_end, new_begin, new_end in matcher.get_opcodes():
            if tag != "equal":
                yield from itertools.zip_longest(sides[0][old_begin:old_end], sides[1][new_begin:new_end])


# ---------------------------------------------------------------------------
# Measures
# ---------------------------------------------------------------------------


def count_machine_instructions(cubin):
    """Instructions of 16 bytes in all sections of code of an ELF file."""
    offset, = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", cubin, offset + number * size) for number in range(count)]
    total = 0
    for name, _, _, _, _, length in sections:
        begin = sections[names][4] + name
        if cubin[begin:].startswith(b".text."):
            total += length // 16
    return total


def assemble(part, ptxas, work, timeout):
    """Machine instructions, registers and bytes of spills of a kernel."""
    handle, name = tempfile.mkstemp(suffix=".ptx", dir=work)
    os.close(handle)
    source = pathlib.Path(name)
    source.write_text(part.ptx)
    target = re.search(r"^\.target\s+(\w+)", part.ptx, re.M)[1]
    result = source.with_suffix(".cubin")
    report = run_program([ptxas, "-v", f"-arch={target}", source, "-o", result], timeout).stderr
    registers = max(map(int, re.findall(r"Used (\d+) registers", report)), default=0)
    spills = sum(map(int, re.findall(r"(\d+) bytes spill", report)))
    return {"instructions": count_machine_instructions(result.read_bytes()), "registers": registers, "spills": spills}


def measure(part, ptxas, work, timeout):
    """The report's figures of a part; None if it is missing."""
    if part is None:
        return None
    row = {"name": part.name, "instructions": part.count_instructions()}
    if part.kind == "kernel" and ptxas:
        row.update(assemble(part, ptxas, work, timeout))
    return row


# ---------------------------------------------------------------------------
# Comparison
# ---------------------------------------------------------------------------


@dataclass
class Report:
    """The result of a comparison."""

    compilations: int = 0
    kernels: int = 0
    functions: int = 0
    differences: list = field(default_factory=list)
    failures: list = field(default_factory=list)

    @property
    def exit_code(self):
        return FAILED if self.failures else DIFFERENT if self.differences else SAME


class Progress:
    """Tells how far a long run is: on a terminal in one line, elsewhere every ten seconds."""

    def __init__(self, total):
        self.total, self.done, self.last = total, 0, time.monotonic()
        self.in_place = sys.stderr.isatty()

    def step(self, title):
        self.done += 1
        text = f"[{self.done}/{self.total}] {title}"
        if self.in_place:
            print(f"\r\033[K{text[:100]}", end="\n" if self.done == self.total else "", file=sys.stderr, flush=True)
        elif time.monotonic() - self.last > 10 or self.done == self.total:
            self.last = time.monotonic()
            print(text, file=sys.stderr, flush=True)


def run_all(keys, titles, work, jobs):
    """Calls work(key) for all keys, some at a time; gives pairs of a key and its result in the order of the keys."""
    progress = Progress(len(keys))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = {key: pool.submit(work, key) for key in keys}
        try:
            names = {future: key for key, future in futures.items()}
            for future in concurrent.futures.as_completed(names):
                progress.step(titles[names[future]])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        return [(key, future.result()) for key, future in futures.items()]


def describe_missing(key, titles, sides):
    """A message for a compilation that only one of the sides has."""
    side, other = ("old", "new") if key in sides[0].titles() else ("new", "old")
    return {"side": other, "title": titles[key], "message": f"is in the {side} corpus alone"}


def compare(sides, options, work):
    """Compiles with both sides, and compares."""
    titles = {**sides[1].titles(), **sides[0].titles()}
    if not titles:
        raise UsageError(f"no compilation matches '{options.only}'" if options.only else "the corpus is empty")
    report = Report(compilations=len(titles))
    folders = [work / "old", work / "new"]
    for folder in folders:
        folder.mkdir()

    def compare_one(key):
        """Failures, differences, and the parts of the new side."""
        if any(key not in side.titles() for side in sides):
            return [describe_missing(key, titles, sides)], [], []
        texts, failures = [], []
        for name, side, folder in zip(("old", "new"), sides, folders):
            try:
                texts.append(side.make(key, folder, options.timeout))
            except CompileError as error:
                failures.append({"side": name, "title": side.titles()[key], "message": str(error)})
        if failures:
            return failures, [], []
        new = split_module(texts[1])
        old = new if texts[0] == texts[1] else split_module(texts[0])
        pairs = list(pair_parts(old, new)) if old is not new else []
        differences = []
        for pair in pairs:
            kind = next(filter(None, pair)).kind
            row = {"title": titles[key], "kind": kind, "diff": difference_of(pair, options.diff)}
            try:
                row["old"], row["new"] = (measure(part, options.ptxas, work, options.timeout) for part in pair)
            except CompileError as error:
                failures.append({"side": "assembler", "title": titles[key], "message": str(error)})
            differences.append(row)
        return failures, differences, new

    for _, (failures, differences, parts) in run_all(sorted(titles), titles, compare_one, options.jobs):
        report.failures += failures
        report.differences += differences
        report.kernels += sum(part.kind == "kernel" for part in parts)
        report.functions += sum(part.kind == "function" for part in parts)
    return report


def difference_of(pair, limit):
    """The first lines of the difference of two normal forms."""
    if not limit:
        return []
    old, new = ("" if part is None else part.normal for part in pair)
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), "old", "new", lineterm="", n=2)
    return list(itertools.islice(lines, limit))


def describe_row(row):
    """One line for a part that differs."""
    old, new = row.get("old"), row.get("new")
    what = "host" if row["kind"] != "kernel" else "kernel"
    present = new or old or {"name": "?"}
    line = f"  {what} {present['name']}"
    if old and new and old["name"] != new["name"]:
        line = f"  {what} {old['name']} -> {new['name']}"
    if not old or not new:
        return f"{line}: only in the {'new' if new else 'old'} build"
    for measured in ("instructions", "registers", "spills"):
        if measured in old and measured in new:
            line += f"  {measured} {old[measured]} -> {new[measured]}"
    return line


def print_report(report, out):
    title = None
    for row in report.differences:
        if row["title"] != title:
            title = row["title"]
            print(title, file=out)
        print(describe_row(row), file=out)
        for line in row["diff"]:
            print(f"    {line}", file=out)
    for failure in report.failures:
        print(f"error: {failure['title']}: {failure['side']}: {failure['message']}", file=sys.stderr)
    print(f"{report.compilations} compilations, {report.kernels} kernels, {report.functions} host functions: "
          f"{sum(row['kind'] == 'kernel' for row in report.differences)} kernels and "
          f"{sum(row['kind'] != 'kernel' for row in report.differences)} host parts differ, "
          f"{len(report.failures)} failures", file=out)


def record(build, folder, options):
    """Writes the results of a build to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()) and not (folder / Recording.INDEX).is_file():
        raise UsageError(f"'{folder}' is not empty, and was not written by --record")
    side = open_side(build, options.new_corpus or options.old_corpus, options.only)
    titles = side.titles()
    if not titles:
        raise UsageError(f"no compilation matches '{options.only}'" if options.only else "the corpus is empty")
    for stale in folder.glob("*.ll"):
        stale.unlink()

    def make(key):
        try:
            text = side.make(key, folder, options.timeout)
        except CompileError as error:
            return {"side": "build", "title": titles[key], "message": str(error)}
        (folder / f"{key}.ll").write_text(text)
        return None

    results = run_all(sorted(titles), titles, make, options.jobs)
    for passed in folder.glob("*.mlir"):
        passed.unlink()
    failures = [failure for _, failure in results if failure]
    for failure in failures:
        print(f"error: {failure['title']}: {failure['message']}", file=sys.stderr)
    (folder / Recording.INDEX).write_text(json.dumps(titles, indent=1) + "\n")
    print(f"recorded {len(titles) - len(failures)} of {len(titles)} compilations in {folder}")
    return FAILED if failures else SAME


def find_ptxas():
    """ptxas of CUDA_HOME, or of PATH."""
    home = os.environ.get("CUDA_HOME")
    beside = pathlib.Path(home) / "bin" / "ptxas" if home else None
    return str(beside) if beside and beside.is_file() else shutil.which("ptxas")


def positive(text):
    value = int(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"expected a positive number (was {text})")
    return value


def parse_regex(text):
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"'{text}' is no regular expression: {error}") from None
    return text


def make_parser():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sides", metavar="OLD NEW", nargs="*", type=pathlib.Path,
                        help="two builds, or folders that --record has written")
    parser.add_argument("--record", nargs=2, metavar=("BUILD", "FOLDER"), type=pathlib.Path,
                        help="compile the corpus with BUILD, and write the generated code to FOLDER")
    parser.add_argument("--old-corpus", metavar="FOLDER", type=pathlib.Path,
                        help="modules for OLD (default: test/Corpus of its source tree)")
    parser.add_argument("--new-corpus", metavar="FOLDER", type=pathlib.Path,
                        help="modules for NEW, or for --record (default: test/Corpus of its source tree)")
    parser.add_argument("--only", metavar="REGEX", default="", type=parse_regex,
                        help="only compilations whose file name or options match")
    parser.add_argument("--jobs", metavar="N", type=positive, default=len(os.sched_getaffinity(0)),
                        help="programs that run at a time (default: the number of cores)")
    parser.add_argument("--timeout", metavar="SECONDS", type=positive, default=300,
                        help="time for one run of a program (default: 300)")
    parser.add_argument("--diff", metavar="LINES", type=int, default=0,
                        help="also print this many lines of each difference (default: 0)")
    parser.add_argument("--json", metavar="FILE", type=pathlib.Path, help="also write the report to FILE as JSON")
    parser.add_argument("--ptxas", metavar="PROGRAM", default=find_ptxas(),
                        help="the assembler (default: that of CUDA_HOME, or the one in PATH)")
    parser.add_argument("--no-ptxas", dest="ptxas", action="store_const", const=None,
                        help="count PTX instructions instead of assembling kernels that differ")
    return parser


def main(arguments=None):
    parser = make_parser()
    options = parser.parse_args(arguments)
    if options.record and options.sides:
        parser.error("--record takes a build and a folder, and nothing else")
    if not options.record and len(options.sides) != 2:
        parser.error(f"expected two builds (got {len(options.sides)})")
    try:
        if options.record:
            return record(*options.record, options)
        corpora = (options.old_corpus, options.new_corpus)
        sides = [open_side(folder, corpus, options.only) for folder, corpus in zip(options.sides, corpora)]
        with tempfile.TemporaryDirectory(prefix="attn-corpus-") as work:
            report = compare(sides, options, pathlib.Path(work))
    except UsageError as error:
        print(f"corpus.py: error: {error}", file=sys.stderr)
        return USAGE
    print_report(report, sys.stdout)
    if options.json:
        options.json.write_text(json.dumps({**vars(report), "exit_code": report.exit_code}, indent=1) + "\n")
    return report.exit_code


if __name__ == "__main__":
    sys.exit(main())
