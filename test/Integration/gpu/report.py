#!/usr/bin/env python3
# ===- report.py - Write the table of GPU suites ---------------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Writes the tables of CONTRIBUTING.md that say which GPU suites ran when, at which commit and with what result.

    python3 test/Integration/gpu/report.py [--check]

Reads results.jsonl in this folder. A line is one run of a suite: suite (a program of this folder, or a path from the
top of the project), of (the subject), target, passed and failed (numbers of cases), date, device, commit (of the
compiler that built the artifacts; null where nobody wrote it down, and noted_in is the commit that states the run).
Runs of a part of a suite have part, and only if a filter of names made it; runs under compute-sanitizer have tool, and
failed counts the reports of the tool.
`SUITE.py --record test/Integration/gpu/results.jsonl --commit ID` appends a line. The last line of a suite and target
counts; of parts and tools, the last one of each subject. There is a table for each device. A subject that makes its
row too wide is a footnote. With --check nothing is written, and the exit status is 1 if the tables are stale.
"""

import argparse
import datetime
import json
import pathlib
import re
import sys
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
# The most columns of a row of a table, of its subject, and of a line of text.
TABLE_COLUMNS, SUBJECT_COLUMNS, TEXT_COLUMNS = 160, 50, 120
MARKS = re.compile(r"(?<=<!-- gpu-suites -->\n).*?(?=<!-- /gpu-suites -->)", re.S)


class ReportError(Exception):
    """A line of the results or the page is not as it must be."""


def check_row(row, root):
    """Raises ValueError for a row that the tables cannot state."""
    for name in ("suite", "of", "target", "date", "device"):
        if not isinstance(row.get(name), str) or not row[name]:
            raise ValueError(f"'{name}' must be a text that is not empty, found {row.get(name)!r}")
    for name in ("failed",) if "tool" in row else ("passed", "failed"):
        if not isinstance(row.get(name), int) or row[name] < 0:
            raise ValueError(f"'{name}' must be a number of cases, found {row.get(name)!r}")
    datetime.date.fromisoformat(row["date"])
    path = root / row["suite"] if "/" in row["suite"] else root / "test" / "Integration" / "gpu" / row["suite"]
    if not path.is_file():
        raise ValueError(f"'suite' must be a program of test/Integration/gpu or a path, found '{row['suite']}'")
    if not row.get("commit") and not row.get("noted_in"):
        raise ValueError("needs 'commit', or 'noted_in' if that is not known")


def read_rows(path, root):
    """The last row of each suite, subject and target, with its part or tool."""
    rows = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            check_row(row, root)
        except (ValueError, TypeError, AttributeError) as error:
            raise ReportError(f"{path}:{number}: {error}") from error
        names = ("suite", "target", "only", "tool", "part")
        key = (*map(row.get, names), row["of"] if "part" in row or "tool" in row else None)
        rows.pop(key, None)
        rows[key] = row
    return list(rows.values())


def describe_commit(row):
    return f"`{row['commit'][:7]}`" if row.get("commit") else f"`{row['noted_in'][:7]}` or before"


def describe_result(row):
    if "tool" in row:
        return f"{row['failed']} reports" if row["failed"] else "no reports"
    return f"{row['passed']} passed" + (f", **{row['failed']} failed**" if row["failed"] else "")


def cut_subject(text):
    """The beginning of a subject: it ends before a comma or a bracket, or is the whole subject."""
    cuts = [cut.start() for cut in re.finditer(r", | \(", text) if cut.start() <= SUBJECT_COLUMNS]
    return text[: cuts[-1]] if cuts else text


def make_row(cells):
    return "| " + " | ".join(cells) + " |"


def make_table(rows):
    """A table of the runs on one device, with its footnotes."""
    lines = ["| suite | of | target | result | date | commit |", "|---|---|---|---|---|---|"]
    notes = []
    for row in rows:
        subject = row["of"] + (f" ({row['tool']})" if "tool" in row else "")
        only = f" --only {row['only']}" if "only" in row else ""
        cells = [f"`{row['suite']}{only}`", subject, row["target"], describe_result(row)]
        cells += [row["date"], describe_commit(row)]
        if len(make_row(cells)) > TABLE_COLUMNS:
            if subject not in notes:
                notes.append(subject)
            cells[1] = f"{cut_subject(subject)} ({chr(ord('a') + notes.index(subject))})"
        line = make_row(cells)
        if len(line) > TABLE_COLUMNS:
            raise ReportError(f"a row of a table has {len(line)} columns, expected at most {TABLE_COLUMNS}: {line}")
        lines.append(line)
    if notes:
        lines.append("")
    for number, note in enumerate(notes):
        item = f"- ({chr(ord('a') + number)}) {note}"
        lines += textwrap.wrap(item, TEXT_COLUMNS, subsequent_indent="  ", break_on_hyphens=False)
    return lines


def make_text(rows):
    """The tables between the marks of the page."""
    whole = [row for row in rows if "part" not in row and "tool" not in row]
    parts = [row for row in rows if "part" in row and "tool" not in row]
    tools = [row for row in rows if "tool" in row]
    groups = {"Whole suites": whole, "Parts of suites that ran by themselves, the latest first": parts[::-1]}
    groups["Under compute-sanitizer"] = tools
    lines = []
    for title, group in groups.items():
        for device in dict.fromkeys(row["device"] for row in group):
            table = make_table([row for row in group if row["device"] == device])
            lines += ["", f"{title}, {device}:", "", *table]
    return "\n".join([*lines, "", ""])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the tables are stale")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="the project")
    options = parser.parse_args(arguments)
    page = options.root / "CONTRIBUTING.md"
    try:
        rows = read_rows(options.root / "test" / "Integration" / "gpu" / "results.jsonl", options.root)
        old = page.read_text()
        new, count = MARKS.subn(lambda _: make_text(rows), old)
        if count != 1:
            marks = "<!-- gpu-suites --> and <!-- /gpu-suites -->"
            raise ReportError(f"{page}: needs the marks {marks} once, has {count} of them")
    except (ReportError, OSError) as error:
        print(f"report.py: error: {error}", file=sys.stderr)
        return 1
    if options.check and new != old:
        print(f"report.py: error: the tables of {page} are stale: run test/Integration/gpu/report.py", file=sys.stderr)
        return 1
    if not options.check:
        page.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
