# ===- dropout_statistics.py - How keep masks of dropout are spread ----------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Keep masks of each generator, as docs/rng.md defines them: rates of all, and of each row, column, head and batch
# entry, and correlations of neighbours along each axis, of offsets and of seeds. All are compared with figures of
# independent keep masks, in standard deviations. Other tests show that compiled code makes the same keep masks.
#
# ===----------------------------------------------------------------------===#
# REQUIRES: numpy
# RUN: %python %s | FileCheck %s

# CHECK: {{^[0-9]+}} figures, 0 beyond 4.5 standard deviations

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
from dropout_reference import Dropout  # noqa: E402

SHAPE = (2, 3, 160, 192)
AXES = ("batch", "head", "query", "key")
# Within a word of keep masks, from one to the next, and further.
DISTANCES = ((1,), (1, 2), (1, 7, 8, 16, 64), (1, 2, 8, 16, 64))
LIMIT = 4.5

DROPOUTS = [
    Dropout(0.125, "philox", 7, bits=4),
    Dropout(0.3, "philox", 10),
    Dropout(0.125, "threefry", 12, bits=4),
    Dropout(0.3, "threefry", 20),
    Dropout(0.125, "arx", 5, bits=4),
    Dropout(0.3, "arx", 5),
    Dropout(0.5, "arx", 6, bits=4),
    Dropout(0.03, "arx", 6, bits=16),
]


def figures(dropout):
    """Yields names and deviations from the expected values, in units of their standard deviation."""
    positions = np.ogrid[tuple(slice(n) for n in SHAPE)]
    expected = dropout.keep_probability
    variance = expected * (1 - expected)

    def decide(seed, offset):
        return dropout.keep(seed, offset, *positions) - expected

    def correlation(first, second):
        return (first * second).sum() / (variance * np.sqrt(first.size))

    keep_mask = decide(42, 8)
    yield "rate", keep_mask.sum() / np.sqrt(variance * keep_mask.size)
    for axis, name in enumerate(AXES):
        others = tuple(a for a in range(4) if a != axis)
        squares = keep_mask.sum(others) ** 2 / (variance * keep_mask.size / SHAPE[axis])
        yield f"rates by {name}", (squares.sum() - squares.size) / np.sqrt(2 * squares.size)
        for distance in DISTANCES[axis]:
            if distance < SHAPE[axis]:
                before = np.take(keep_mask, range(SHAPE[axis] - distance), axis)
                after = np.take(keep_mask, range(distance, SHAPE[axis]), axis)
                yield f"{name} and {name} + {distance}", correlation(before, after)
    for seed, offset in ((42, 9), (42, 12), (43, 8), (42 + 2**32, 8), (42, 8 + 2**32), (8, 42)):
        yield f"seed {seed}, offset {offset}", correlation(keep_mask, decide(seed, offset))


def main():
    count = failures = 0
    for dropout in DROPOUTS:
        for name, deviation in figures(dropout):
            count += 1
            if abs(deviation) > LIMIT:
                failures += 1
                print(f"{dropout}: {name}: {deviation:.1f}")
    print(f"{count} figures, {failures} beyond {LIMIT} standard deviations")


if __name__ == "__main__":
    main()
