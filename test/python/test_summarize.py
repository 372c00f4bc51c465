# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of the closing line of .ci/run."""

import summarize

REPORT = """<testsuites><testsuite name="s">
<testcase classname="c" name="good"/>
<testcase classname="c" name="bad"><failure>text</failure></testcase>
<testcase classname="c" name="none"><skipped/></testcase>
</testsuite></testsuites>"""


def run(capsys, *arguments):
    code = summarize.main(list(arguments))
    return code, capsys.readouterr().out.splitlines()


def test_counts(tmp_path, capsys):
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    code, lines = run(capsys, "--passed=build", str(report))
    assert code == 1
    assert lines == ["failed: c bad", "    text", "2 passed, 1 failed, 1 skipped"]


def test_reasons(tmp_path, capsys):
    """Of pytest's report its errors, of lit's output the last lines are shown."""
    long = 300 * "x"
    report = tmp_path / "report.xml"
    report.write_text(f"""<testsuite>
<testcase name="python"><failure message="m">def f():
>   assert 1 == 2
E   assert 1 == 2
{long}</failure></testcase>
<testcase name="lit"><failure>{"".join(f"line {i}{chr(10)}" for i in range(9))}{long}
--
********</failure></testcase>
<testcase name="short"><error message="no text"/></testcase>
</testsuite>""")
    _, lines = run(capsys, str(report))
    assert lines[:2] == ["failed: python", "    E   assert 1 == 2"]
    assert lines[2:9] == ["failed: lit", *(f"    line {i}" for i in range(4, 9)), f"    {200 * 'x'}"]
    assert lines[9:11] == ["failed: short", "    no text"]


def test_all_pass(tmp_path, capsys):
    assert run(capsys, "--passed=a", "--passed=b") == (0, ["2 passed, 0 failed, 0 skipped"])


def test_failed_step(capsys):
    assert run(capsys, "--passed=a", "--failed=b") == (1, ["failed: b", "1 passed, 1 failed, 0 skipped"])


def test_missing_or_empty_report_fails(tmp_path, capsys):
    empty = tmp_path / "empty.xml"
    empty.write_text("<testsuites/>")
    code, lines = run(capsys, str(tmp_path / "missing.xml"), str(empty))
    assert code == 1
    assert lines[-1] == "0 passed, 2 failed, 0 skipped"


def test_nothing_ran(capsys):
    assert run(capsys)[0] == 1
