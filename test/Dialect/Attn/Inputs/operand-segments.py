# ===- operand-segments.py - All splits of operands of attention -----------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# operand-segments.py COMMAND...: gives the command, attn-opt, every split of
# four values among the first operands of attention. One is right.
#
# ===----------------------------------------------------------------------===#

import itertools
import subprocess
import sys

SEGMENTS = 20
TENSOR = "tensor<1x1x8x8xf32>"
SEPARATOR = "\n// -----\n"


def module(sizes):
    sizes = list(sizes) + [0] * (SEGMENTS - len(sizes))
    operands, types = ", ".join(["%q"] * 4), ", ".join([TENSOR] * 4)
    segments = f"operandSegmentSizes = array<i32: {', '.join(map(str, sizes))}>"
    return (
        f"func.func @f(%q: {TENSOR}) -> {TENSOR} {{\n"
        f'  %0 = "attn.attention"({operands}) <{{{segments}}}> ({{\n'
        f"  }}, {{\n  }}, {{\n  }}, {{\n  }}) : ({types}) -> {TENSOR}\n"
        f"  return %0 : {TENSOR}\n}}\n"
    )


splits = [sizes for sizes in itertools.product(range(5), repeat=4) if sum(sizes) == 4]
source = SEPARATOR.join(module(sizes) for sizes in splits)
result = subprocess.run([*sys.argv[1:], "--split-input-file"], input=source, capture_output=True, text=True)
# A process that a signal ended has a negative code.
assert result.returncode == 1, (result.returncode, result.stderr[-2000:])
errors = [line for line in result.stderr.splitlines() if ": error: " in line]
assert len(errors) == len(splits) - 1, (len(errors), len(splits))
assert all("'operandSegmentSizes' must give" in line for line in errors), errors
print(f"{len(errors)} of {len(splits)} splits are errors")
