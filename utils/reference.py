#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Keeps the committed reference, docs/reference, equal to the pages that TableGen generates.

    reference.py GENERATED COMMITTED           writes the pages of folder GENERATED to folder COMMITTED
    reference.py --check GENERATED COMMITTED   prints how they differ; exit code 1 if they do

Generated lists, declarations and table rows of one long line are wrapped at 120 columns. Pages that are no longer
generated are removed.
"""

import argparse
import difflib
import pathlib
import re
import sys
import textwrap

COLUMNS = 120
LIST = re.compile(r"(Interfaces|Traits|Effects): ")
DECLARATION = re.compile(r"[\w:<>]+ \w+\(.*\);$")


def wrap(text):
    """The page `text` with its long lines wrapped where Markdown allows it, and without spaces that end a line."""
    lines = []
    for line in text.rstrip().split("\n"):
        line = line.rstrip()
        if len(line) > COLUMNS and LIST.match(line):
            lines += textwrap.wrap(line, COLUMNS, break_long_words=False, break_on_hyphens=False)
        elif len(line) > COLUMNS and DECLARATION.match(line):
            lines += textwrap.wrap(line, COLUMNS, subsequent_indent="    ", break_long_words=False)
        elif len(line) > COLUMNS and line.startswith("<tr>"):
            lines += line.replace("</td><td>", "</td>\n<td>").split("\n")
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def read_pages(folder):
    return {path.name: path.read_text() for path in sorted(folder.glob("*.md"))}


def find_differences(generated, committed):
    """Lines of unified diffs from the committed pages to the generated ones."""
    lines = []
    for name in sorted({*generated, *committed}):
        old, new = committed.get(name, ""), generated.get(name, "")
        lines += difflib.unified_diff(old.splitlines(), new.splitlines(), f"committed/{name}", f"generated/{name}",
                                      lineterm="")
    return lines


def write_pages(pages, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.md"):
        if path.name not in pages:
            path.unlink()
    for name, text in pages.items():
        if not (folder / name).is_file() or (folder / name).read_text() != text:
            (folder / name).write_text(text)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    parser.add_argument("generated", type=pathlib.Path, help="folder of generated pages")
    parser.add_argument("committed", type=pathlib.Path, help="folder of committed pages")
    options = parser.parse_args(arguments)
    pages = {name: wrap(text) for name, text in read_pages(options.generated).items()}
    if not pages:
        parser.error(f"'{options.generated}' has no pages (*.md)")
    if not options.check:
        write_pages(pages, options.committed)
        return 0
    differences = find_differences(pages, read_pages(options.committed))
    if not differences:
        return 0
    print("\n".join(differences))
    print(f"error: '{options.committed}' is stale; `ninja attn-doc-update` writes it", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
