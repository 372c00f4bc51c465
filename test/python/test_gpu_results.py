# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tables of GPU suites: test/Integration/gpu/report.py, and the results that suites record."""

import argparse
import importlib.util
import json
import sys

import pytest
from conftest import ROOT, import_gpu_suite

FOLDER = ROOT / "test" / "Integration" / "gpu"


def load(name):
    spec = importlib.util.spec_from_file_location(f"gpu_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


report = load("report")


def row(**changes):
    fields = dict(suite="attention.py", of="attention", target="sm_90a", passed=7, failed=0)
    return {**fields, "date": "2026-01-02", "device": "GPU", "commit": "0123456789", **changes}


@pytest.fixture
def project(tmp_path):
    """write(rows): a project whose results are these rows."""
    folder = tmp_path / "test" / "Integration" / "gpu"
    folder.mkdir(parents=True)
    (folder / "attention.py").touch()
    (tmp_path / "CONTRIBUTING.md").write_text("before\n<!-- gpu-suites -->\nold\n<!-- /gpu-suites -->\nafter\n")

    def write(rows):
        (folder / "results.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
        return tmp_path

    return write


def test_the_page_is_current(capsys):
    assert report.main(["--check"]) == 0, capsys.readouterr().err


def test_tables(project):
    rows = [
        row(passed=1),
        row(passed=2, failed=3, date="2026-01-03"),
        row(target="sm_80", commit=None, noted_in="abcdef0123"),
        row(of="dropout", part=True, only="dropout"),
        row(of="rings", part=True),
        {**row(of="clusters", tool="memcheck"), "failed": 2},
    ]
    root = project(rows)
    assert report.main(["--root", str(root), "--check"]) == 1
    assert report.main(["--root", str(root)]) == 0
    page = (root / "CONTRIBUTING.md").read_text()
    assert page.startswith("before\n") and page.endswith("after\n") and "old" not in page
    whole, parts, tools = page.split("| suite |")[1:]
    # The last run of a suite and target counts.
    assert "| `attention.py` | attention | sm_90a | 2 passed, **3 failed** | 2026-01-03 | `0123456` |" in whole
    assert "1 passed" not in page
    assert "| sm_80 | 7 passed | 2026-01-02 | `abcdef0` or before |" in whole
    assert parts.index("| rings |") < parts.index("| `attention.py --only dropout` | dropout |")
    assert "| clusters (memcheck) | sm_90a | 2 reports |" in tools
    assert report.main(["--root", str(root), "--check"]) == 0


def test_wide_rows_have_footnotes(project, capsys):
    subject = "masks that read tensors, since the kernel that writes their bits changed, and since lists are shared"
    rows = [row(of=subject, part=True), row(of=subject, part=True, target="sm_80"), row(of="a" * 80, tool="x")]
    rows.append(row(of="short, but with a comma", device="other GPU"))
    root = project(rows)
    assert report.main(["--root", str(root)]) == 0
    page = (root / "CONTRIBUTING.md").read_text()
    assert page.count("| masks that read tensors (a) | sm_") == 2 and page.count(f"\n- (a) {subject}\n") == 1
    assert "Whole suites, other GPU:" in page and "| short, but with a comma |" in page
    assert all(len(line) <= 160 for line in page.splitlines())
    # A subject without a place to cut it.
    assert report.main(["--root", str(project([row(of="a" * 160)]))]) == 1
    assert "a row of a table has " in capsys.readouterr().err


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"suite": "nothing.py"}, "'suite' must be a program of test/Integration/gpu or a path, found 'nothing.py'"),
        ({"passed": -1}, "'passed' must be a number of cases, found -1"),
        ({"failed": None}, "'failed' must be a number of cases, found None"),
        ({"of": ""}, "'of' must be a text that is not empty, found ''"),
        ({"date": "yesterday"}, "Invalid isoformat string: 'yesterday'"),
        ({"commit": None}, "needs 'commit', or 'noted_in' if that is not known"),
    ],
)
def test_rows_that_are_refused(project, capsys, changes, message):
    root = project([row(), row(**changes)])
    assert report.main(["--root", str(root)]) == 1
    assert f"results.jsonl:2: {message}" in capsys.readouterr().err


def test_a_page_without_marks_is_refused(project, capsys):
    root = project([row()])
    (root / "CONTRIBUTING.md").write_text("text\n")
    assert report.main(["--root", str(root)]) == 1
    assert "has 0 of them" in capsys.readouterr().err


def test_suites_record_their_results(project, tmp_path, monkeypatch):
    suite = load("device_suite")
    root = project([])
    results = root / "test" / "Integration" / "gpu" / "results.jsonl"
    monkeypatch.setattr(sys, "argv", ["test/Integration/gpu/attention.py"])
    options = argparse.Namespace(record=str(results), commit="89abcdef", target="sm_80", only="")
    suite.record(options, 5, 1, device="GPU")
    suite.record(argparse.Namespace(**{**vars(options), "only": "ring"}), 2, 0, device="GPU")
    assert report.main(["--root", str(root)]) == 0
    page = (root / "CONTRIBUTING.md").read_text()
    assert "| sm_80 | 5 passed, **1 failed** |" in page and "| `attention.py --only ring` |" in page
    with pytest.raises(SystemExit, match="--record needs --commit"):
        suite.record(argparse.Namespace(record=str(results), commit=""), 1, 0, device="GPU")
    # Without --record nothing is written, and no device is asked.
    suite.record(argparse.Namespace(record=None), 1, 0)
    assert len(results.read_text().splitlines()) == 2


@pytest.mark.parametrize("name", ["attention", "attention_grad", "packed_queries", "paged", "sequences", "sequences_grad"])
def test_subjects_fit_into_tables(name):
    pytest.importorskip("numpy")
    device_suite = load("device_suite")
    with import_gpu_suite(name) as suite:
        report.make_table([row(suite=f"{name}.py", of=device_suite.find_subject(suite), passed=1000, failed=10)])


def test_cases_have_artifacts():
    """Cases for sanitizers name variants, and other targets have no cases of schedules that are given."""
    pytest.importorskip("numpy")
    with import_gpu_suite("attention") as suite:
        assert {case.variant for case in suite.make_sanitizer_cases()} <= set(suite.ALL)
        options = argparse.Namespace(only="", every=1, target="sm_80")
        cases = suite.choose_cases(options, suite.make_cases(1, 1))
        assert cases and not any(case.variant.schedule for case in cases)
        options.target = "sm_90a"
        assert len(cases) < len(suite.choose_cases(options, suite.make_cases(1, 1)))
        variants = suite.choose_variants(options, suite.ALL)
        options.every = 3
        sample = suite.choose_variants(options, suite.ALL)
    assert len(variants) / 4 < len(sample) < len(variants) / 2 and set(sample) < set(variants)
