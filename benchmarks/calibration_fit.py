# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fits the terms of a calibration file to measured times.

Minimizes the squares of the logarithms of estimated over measured time, with the terms as logarithms, by Gauss-Newton
steps. The derivatives are differences between estimates of the compiler itself, so that there is no second copy of the
model. Each group of benchmarks has the same weight in all, large errors have less (Huber). Terms that the times do not
determine stay near their old values.
"""

import json
import os
import statistics
import tempfile
import zlib

# The weight of a change of a term by a factor e, in units of the error of one group.
PRIOR = 0.02
HUBER = 0.08
STEP = 0.03
# A quarter of the cases, which must be at least 20 %, is never fitted.
HELD_OUT = 4
FITTED = "least squares"


def is_held_out(point):
    return zlib.crc32(f"{point.group} {point.label}".encode()) % HELD_OUT == 0


def read_file(path):
    with open(path) as file:
        return json.load(file)


def write_file(path, data):
    with open(path, "w") as file:
        file.write(json.dumps(data, indent=1) + "\n")


def describe_errors(points):
    """Count, median and worst of the relative errors."""
    errors = sorted(abs(point.error) for point in points)
    return dict(times=len(errors), median_error=round(statistics.median(errors), 4), worst_error=round(errors[-1], 4))


class Fit:
    """The points, the file, and the terms that are fitted."""

    def __init__(self, path, points, evaluate, names):
        """`evaluate(path, points)` sets the seconds of points by the calibration file of that path."""
        import numpy

        self.np, self.data, self.points, self.evaluate = numpy, read_file(path), points, evaluate
        terms = self.data["terms"]
        unknown = set(names) - terms.keys()
        if unknown:
            raise ValueError(f"{path} has no terms {', '.join(sorted(unknown))}")
        fitted = [name for name, term in terms.items() if term["fit"].startswith(FITTED) and term["value"] > 0]
        self.names = [name for name in fitted if not names or name in names]
        self.start = self.np.log([terms[name]["value"] for name in self.names])
        counts = {}
        for point in points:
            counts[point.group] = counts.get(point.group, 0) + 1
        self.weights = self.np.array([counts[point.group] ** -0.5 for point in points])

    def set_terms(self, values):
        for name, value in zip(self.names, self.np.exp(values)):
            self.data["terms"][name]["value"] = float(f"{value:.4g}")

    def get_errors(self, values):
        """Logarithms of estimated over measured time."""
        self.set_terms(values)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "calibration.json")
            write_file(path, self.data)
            self.evaluate(path, self.points)
        return self.np.log([point.seconds * 1e3 / point.ms for point in self.points])

    def get_loss(self, errors, values):
        size = self.np.abs(errors)
        huber = self.np.where(size < HUBER, errors**2, 2 * HUBER * size - HUBER**2)
        return float((self.weights**2 * huber).sum() + PRIOR**2 * ((values - self.start) ** 2).sum())

    def improve(self, values, errors):
        """One step, which is halved until it is an improvement."""
        np = self.np
        columns = []
        for i in range(len(values)):
            moved = values.copy()
            moved[i] += STEP
            columns.append((self.get_errors(moved) - errors) / STEP)
        weights = self.weights * np.minimum(1, np.sqrt(HUBER / np.maximum(np.abs(errors), 1e-9)))
        jacobian = np.vstack([np.array(columns).T * weights[:, None], PRIOR * np.eye(len(values))])
        target = np.concatenate([-weights * errors, PRIOR * (self.start - values)])
        step = np.clip(np.linalg.lstsq(jacobian, target, rcond=None)[0], -0.7, 0.7)
        loss = self.get_loss(errors, values)
        for factor in (1, 0.5, 0.25, 0.1):
            moved = values + factor * step
            found = self.get_errors(moved)
            if self.get_loss(found, moved) < loss:
                return moved, found
        return values, errors

    def run(self, steps):
        values = self.start
        errors = self.get_errors(values)
        for i in range(steps):
            print(f"step {i}: loss {self.get_loss(errors, values):.6f}", flush=True)
            moved, errors = self.improve(values, errors)
            if moved is values:
                break
            values = moved
        print(f"loss {self.get_loss(errors, values):.6f}", flush=True)
        self.set_terms(values)
        return self.data


def fit(path, points, evaluate, steps, names):
    """Writes the file with terms that are fitted to the points that are not held out, and the errors of both. Terms
    other than `names`, if there are some, stay as they are."""
    fitted = [point for point in points if not is_held_out(point)]
    held = [point for point in points if is_held_out(point)]
    data = Fit(path, fitted, evaluate, names).run(steps)
    write_file(path, data)
    evaluate(path, points)
    data["errors"] = {"fitted": describe_errors(fitted), "held_out": describe_errors(held)}
    write_file(path, data)
    for name, errors in data["errors"].items():
        print(f"{name}: {errors['times']} times, off by {errors['median_error']:.1%} in the median, "
              f"{errors['worst_error']:.1%} at most")
