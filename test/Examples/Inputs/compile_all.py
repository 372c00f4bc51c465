# ===- compile_all.py - Compile each module for each target ----------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""compile_all.py FOLDER OUTPUT ATTN_COMPILE: compiles each .mlir file of FOLDER for each target, to objects in OUTPUT.

Modules of subfolders are for compilers of their own.
"""

import pathlib
import subprocess
import sys

TARGETS = ("host", "sm_80", "sm_90a")


def main():
    folder, output, compiler = sys.argv[1:]
    modules = sorted(pathlib.Path(folder).glob("*.mlir"))
    assert modules, f"no modules in {folder}"
    failed = 0
    for module in modules:
        for target in TARGETS:
            made = pathlib.Path(output) / f"{module.stem}-{target}.o"
            # PTX needs no assembler.
            command = [compiler, str(module), f"--target={target}", "--embed-ptx", "-o", str(made)]
            result = subprocess.run(command, stderr=subprocess.PIPE, text=True)
            if result.returncode != 0 or not made.exists():
                failed += 1
                print(f"{module.name} for {target}:\n{result.stderr}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
