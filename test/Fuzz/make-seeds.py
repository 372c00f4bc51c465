#!/usr/bin/env python3
# ===- make-seeds.py - Seed corpus of the parser fuzzer --------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Writes each module of the tests, cut at `// -----` and freed of comments, to
# a file of its own.
#
# ===----------------------------------------------------------------------===#

import hashlib
import pathlib
import re
import sys


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: make-seeds.py <tests> <seeds>")
    tests, seeds = map(pathlib.Path, sys.argv[1:])
    seeds.mkdir(parents=True, exist_ok=True)
    for test in sorted(tests.rglob("*.mlir")):
        for module in re.split(r"^// -----.*$", test.read_text(), flags=re.M):
            text = re.sub(r"^\s*//.*\n", "", module, flags=re.M).strip() + "\n"
            name = hashlib.sha256(text.encode()).hexdigest()[:16]
            (seeds / f"{name}.mlir").write_text(text)


if __name__ == "__main__":
    main()
