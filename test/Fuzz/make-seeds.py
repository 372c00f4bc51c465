#!/usr/bin/env python3
# ===- make-seeds.py - Seed corpora of fuzzers -----------------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Writes each module of the tests, cut at `// -----` and freed of comments, to
# a file of its own; with a number, that many modules of different tests, first
# of all some that have each operation and attribute that Attn names.
#
# ===----------------------------------------------------------------------===#

import hashlib
import pathlib
import re
import sys


def read_modules(test):
    for module in re.split(r"^// -----.*$", test.read_text(), flags=re.M):
        yield re.sub(r"^\s*//.*\n", "", module, flags=re.M).strip() + "\n"


def read_names(text):
    return set(re.findall(r'(?<![#!\w.])attn(?:_tile)?\.[a-z_.]*[a-z]', text))


def choose_modules(modules, count):
    """`count` of `modules`, in which Attn names as much as possible."""
    known, first, others = set(), [], []
    for name in sorted(modules):
        names = read_names(modules[name])
        (others if names <= known else first).append(name)
        known |= names
    return (first + others)[:count]


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit("usage: make-seeds.py <tests> <seeds> [<number>]")
    tests, seeds = map(pathlib.Path, sys.argv[1:3])
    # A module's name says nothing about its test, so that the first names are of modules from everywhere.
    modules = {}
    for test in tests.rglob("*.mlir"):
        for text in read_modules(test):
            modules[hashlib.sha256(text.encode()).hexdigest()[:16] + ".mlir"] = text
    names = choose_modules(modules, int(sys.argv[3]) if len(sys.argv) > 3 else None)
    seeds.mkdir(parents=True, exist_ok=True)
    for old in seeds.iterdir():
        if old.name not in names:
            old.unlink()
    for name in names:
        (seeds / name).write_text(modules[name])


if __name__ == "__main__":
    main()
