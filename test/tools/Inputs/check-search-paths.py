# ===- check-search-paths.py - Folders that libraries are looked for in ----===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# check-search-paths.py BUILD: fails if a tool or shared library of a build tree
# has an empty or relative entry in its search path.
#
# ===----------------------------------------------------------------------===#

import pathlib
import re
import subprocess
import sys

build = pathlib.Path(sys.argv[1])
files = [path for pattern in ("bin/attn-*", "lib/libattn_*.so") for path in build.glob(pattern)]
assert files, f"no tools in {build}"
wrong = []
for file in files:
    output = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True).stdout
    for path in re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", output):
        if not all(entry.startswith(("/", "$ORIGIN")) for entry in path.split(":")):
            wrong.append(f"{file}: [{path}]")
print("\n".join(wrong) or f"{len(files)} files")
sys.exit(bool(wrong))
