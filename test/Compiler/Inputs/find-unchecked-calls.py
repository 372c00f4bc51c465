# ===- find-unchecked-calls.py - Statuses that compiled code drops ---------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# find-unchecked-calls.py FILE: reports calls of the runtime library in LLVM IR
# whose status nothing uses. Functions that leave because something has failed return that status, and ignore the status
# of the cleanup after it.
#
# ===----------------------------------------------------------------------===#

import re
import sys

CLEANUP = ("attnrtJoinStream", "attnrtFreeAsync")
CALL = re.compile(r"^\s+(?:(%[\w.]+) = )?(?:\w+ )*call .*?@(attnrt\w+)\(")

numbers = {"calls": 0, "unchecked": 0}
with open(sys.argv[1]) as file:
    functions = re.findall(r"^define .*?^}", file.read(), re.MULTILINE | re.DOTALL)
for function in functions:
    for line in function.splitlines():
        match = CALL.match(line)
        if not match:
            continue
        result, callee = match.groups()
        numbers["calls"] += 1
        is_used = result and len(re.findall(re.escape(result) + r"(?![\w.])", function)) > 1
        if not is_used and callee not in CLEANUP:
            numbers["unchecked"] += 1
            print("unchecked:", line.strip())
print(f"{numbers['calls']} calls, {numbers['unchecked']} unchecked")
