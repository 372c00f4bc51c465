#!/usr/bin/env python3
# ===- assemblers.py - Kernels assemble with old and new assemblers ----------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Compiles modules to PTX for each GPU target and gives each kernel to several versions of ptxas.

    assemblers.py --compile attn-compile --artifacts DIR --toolkits DIR... [--modules FILE...] [--suites N]

Each kernel has to assemble everywhere, and its PTX version has to be the oldest one that the target and the
instructions allow: with the version before, the newest assembler has to refuse it.
"""

import argparse
import os
import re
import sys

from device_suite import is_for_sm_90a, write_source
from tool_cache import run_tool

# The first PTX version with which LLVM selects the same instructions as with later ones, and all versions.
FIRST_VERSION = {"sm_80": "7.1", "sm_90a": "8.0"}
VERSIONS = "7.1 7.2 7.3 7.4 7.5 7.6 7.7 7.8 8.0 8.1 8.2 8.3 8.4 8.5 8.6 8.7 8.8 9.0 9.1".split()


def suite_modules(options):
    """Each `options.suites`-th variant of the suites of attention and its gradients, with targets and flags."""
    import attention
    import attention_grad
    import sequences
    import sequences_grad

    variants = [("forward", v) for v in attention.ALL + sequences.VARIANTS]
    variants += [("grad", v) for v in attention_grad.VARIANTS + sequences_grad.VARIANTS]
    for kind, variant in variants[:: options.suites]:
        targets = ["sm_90a"] if is_for_sm_90a(variant) else list(FIRST_VERSION)
        source = write_source(options, f"{kind}_{variant.name}", variant.mlir()) + ".mlir"
        yield source, targets, getattr(variant, "options", [])


def unescape(text):
    return re.sub(rb"\\([0-9A-F]{2})", lambda match: bytes([int(match[1], 16)]), text).decode()


def compile_kernels(options, module, target, flags):
    """The PTX of each kernel of a module."""
    output = os.path.join(options.artifacts, "kernels.mlir")
    command = [options.compile, module, f"--target={target}", "--embed-ptx", "--stop-after=device", "-o", output]
    run_tool(command + flags)
    with open(output, "rb") as file:
        kernels = [unescape(text) for text in re.findall(rb'assembly = "([^"]*)"', file.read())]
    assert kernels, f"{module} has no kernels for {target}"
    return kernels


def assemble(options, toolkit, target, ptx):
    """What ptxas says if it refuses a kernel, else an empty string."""
    source, output = (os.path.join(options.artifacts, name) for name in ("kernel.ptx", "kernel.cubin"))
    with open(source, "w") as file:
        file.write(ptx)
    command = [os.path.join(toolkit, "bin", "ptxas"), "-arch", target, "-o", output, source]
    result = run_tool(command, check=False, quiet=True)
    return result.stderr.strip() or "failed" if result.returncode != 0 else ""


def check_kernel(options, target, ptx):
    """Yields the errors of a kernel."""
    for toolkit in options.toolkits:
        if message := assemble(options, toolkit, target, ptx):
            yield f"{toolkit}: {message}"
    version = re.search(r"^\.version (\S+)$", ptx, re.M)[1]
    if version != FIRST_VERSION[target]:
        before = VERSIONS[VERSIONS.index(version) - 1]
        older = ptx.replace(f".version {version}", f".version {before}", 1)
        if not assemble(options, options.toolkits[-1], target, older):
            yield f"has PTX version {version}, and {before} has all of its instructions, too"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compile", required=True, metavar="ATTN_COMPILE", help="the compiler")
    parser.add_argument("--artifacts", required=True, help="directory of what is compiled")
    parser.add_argument("--toolkits", required=True, nargs="+", help="folders with bin/ptxas")
    parser.add_argument("--modules", nargs="*", default=[], help="modules to compile")
    parser.add_argument("--suites", type=int, metavar="N", help="also each N-th variant of the suites of this folder")
    options = parser.parse_args()
    os.makedirs(options.artifacts, exist_ok=True)
    modules = [(module, list(FIRST_VERSION), []) for module in options.modules]
    if options.suites:
        modules += suite_modules(options)
    passed = failed = 0
    versions = set()
    for module, targets, flags in modules:
        for target in targets:
            for number, ptx in enumerate(compile_kernels(options, module, target, flags)):
                versions.add((target, re.search(r"^\.version (\S+)$", ptx, re.M)[1]))
                problems = list(check_kernel(options, target, ptx))
                passed, failed = passed + (not problems), failed + bool(problems)
                for problem in problems:
                    print(f"FAILED {os.path.basename(module)} for {target}, kernel {number}: {problem}", flush=True)
    for target, version in sorted(versions):
        print(f"{target} has PTX version {version}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
