#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Adds up JUnit reports and steps into one closing line.

    summarize.py [--passed=STEP] [--failed=STEP] REPORT.xml...

Names what failed, with the lines that say why, prints 'N passed, N failed, N skipped' and exits with 1 if
anything failed or nothing ran. A report that is missing or holds no test is a
failure: its tests did not run.
"""

import argparse
import sys
import xml.etree.ElementTree as ElementTree


# How much of the output of a failed test is shown.
SHOWN_LINES = 6
SHOWN_COLUMNS = 200


def explain(failure):
    """The lines that say why a test failed: errors of pytest, otherwise the last lines."""
    lines = [line.rstrip() for line in (failure.text or failure.get("message") or "").splitlines()]
    errors = [line for line in lines if line.startswith("E ")]
    shown = errors[:SHOWN_LINES] or [line for line in lines if line.strip("-* ")][-SHOWN_LINES:]
    return [f"    {line[:SHOWN_COLUMNS]}" for line in shown]


def read_report(path):
    """Outcomes of a report's tests: (name, 'passed' | 'failed' | 'skipped'), a failure's name with its reason."""
    outcomes = []
    for case in ElementTree.parse(path).iter("testcase"):
        name = f"{case.get('classname', '')} {case.get('name', '')}".strip()
        tags = {child.tag for child in case}
        failure = next((child for child in case if child.tag in ("failure", "error")), None)
        if failure is not None:
            outcomes.append(("\n".join([name, *explain(failure)]), "failed"))
        elif "skipped" in tags:
            outcomes.append((name, "skipped"))
        else:
            outcomes.append((name, "passed"))
    return outcomes


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passed", metavar="STEP", action="append", default=[], help="a step that counts as one test")
    parser.add_argument("--failed", metavar="STEP", action="append", default=[], help="a step that failed")
    parser.add_argument("reports", nargs="*", help="JUnit reports")
    options = parser.parse_args(arguments)

    outcomes = [(step, "passed") for step in options.passed]
    outcomes += [(step, "failed") for step in options.failed]
    for path in options.reports:
        try:
            report = read_report(path)
        except (OSError, ElementTree.ParseError) as error:
            report = [(f"{path}: {error}", "failed")]
        outcomes += report or [(f"{path}: no tests", "failed")]

    for name, outcome in outcomes:
        if outcome == "failed":
            print(f"failed: {name}")
    count = {kind: sum(outcome == kind for _, outcome in outcomes) for kind in ("passed", "failed", "skipped")}
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**count))
    return 1 if count["failed"] or not count["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
