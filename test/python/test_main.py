# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""python -m attn: facts, the self test, its failures, and machines without torch or libraries."""

import json
import os
import re
import subprocess
import sys

import attn
import attn.__main__ as program
import pytest
from attn import library, self_check
from conftest import ROOT

# Runs a module as the main one without torch.
BLOCKER = """
import runpy, sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ImportError(f"no {name}", name=name)
sys.meta_path.insert(0, Blocker())
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""

NAMES = ["dense", "causal", "grouped heads", "mask_mod", "dropout", "gradient"]


def has_torch():
    try:
        import torch  # noqa: F401
    except ImportError:
        return False
    return True


needs_torch = pytest.mark.skipif(not has_torch(), reason="torch is not installed")


def run_module(*arguments, module="attn", blocked=False, **environment):
    start = ["-c", BLOCKER, module] if blocked else ["-m", module]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), **environment}
    return subprocess.run([sys.executable, *start, *arguments], capture_output=True, text=True, env=environment)


@needs_torch
def test_text(capsys):
    assert program.main(["--no-bench"]) == 0
    out, err = capsys.readouterr()
    assert "error" not in err
    for pattern in (
        r"^  cpu +.*, target host$",
        r"^  targets +host, sm_80, sm_90a$",
        rf"^  Attn +{attn.__version__}$",
        r"^  MLIR and LLVM +22\.\d+\.\d+$",
        r"^  torch +\d",
        r"^  CUDA driver +(\d+\.\d+|none: .*)$",
        r"^  ptxas +(\d+\.\d+.*|none: .*)$",
        r"^  compiler library +.*libattn_c\.so\.1$",
        r"^  runtime library +.*libattn_runtime\.so\.3$",
        rf"^  folder +{os.environ['ATTN_CACHE_DIR']}$",
        r"^  state +is used",
        r"^  size +\d+ entries, [\d.]+ MiB of 4096.0 MiB$",
        r"^  ATTN_CACHE_DIR +/",
        r"^  comparison with torch: --no-bench$",
    ):
        assert re.search(pattern, out, re.M), f"{pattern}\n{out}"
    passed = re.findall(r"^  ok +(.*?) +cpu +expected .*, found .*$", out, re.M)
    assert passed == NAMES
    assert re.search(r"^(\d+) of \1 tests passed$", out, re.M)


@needs_torch
def test_json(capsys, monkeypatch):
    monkeypatch.setenv("ATTN_NO_SUCH", "1")
    assert program.main(["--no-bench", "--json"]) == 0
    out, _ = capsys.readouterr()
    report = json.loads(out)
    assert report["versions"]["Attn"] == attn.__version__ and report["targets"] == ["host", "sm_80", "sm_90a"]
    assert report["devices"][0]["device"] == "cpu" and report["devices"][0]["threads"] >= 1
    assert [result["name"] for result in report["self_test"] if result["device"] == "cpu"] == NAMES
    assert all(result["passed"] for result in report["self_test"])
    kept = report["cache"]
    assert kept["is_used"] and kept["folder"] == os.environ["ATTN_CACHE_DIR"]
    assert report["environment"]["ATTN_NO_SUCH"] == "1"
    assert report["failures"] == [] and report["comparison"] == []
    assert all(value is not None or name in report["missing"] for name, value in report["versions"].items())
    assert "ATTN_NO_SUCH      1  (not read by the package and its libraries)" in program.format_facts(report)


@needs_torch
def test_comparison(capsys, monkeypatch):
    measure = program.bench.measure
    problems = []

    def measure_small(problem, *arguments):
        problems.append(problem)
        small = program.bench.Problem(queries=32, keys=32, head_dim=64, kv_heads=2, mask=problem.mask)
        return measure(small, *arguments)

    monkeypatch.setattr(program.bench, "measure", measure_small)
    assert program.main([]) == 0
    out, _ = capsys.readouterr()
    assert out.count("to best peer") == 2 and re.search(r"^  torch math +[\d.]+", out, re.M)
    assert len(problems) == 2 and problems[0].kv_heads < problems[0].heads
    assert "comparison with torch: --no-bench" not in out
    # No time is left for the second pass.
    monkeypatch.setattr(program, "_SECONDS_OF_COMPARISON", 0.0)
    monkeypatch.setattr(program, "find_checks", lambda devices, skipped: [])
    assert program.main(["--json"]) == 0
    assert json.loads(capsys.readouterr().out)["comparison"] == []


@needs_torch
def test_a_wrong_result_fails(capsys, monkeypatch):
    import attn.torch

    correct = attn.torch.sdpa

    def wrong(q, k, v, *arguments, is_causal=False, **options):
        out = correct(q, k, v, *arguments, is_causal=is_causal, **options)
        return out * 1.5 if is_causal else out

    monkeypatch.setattr(attn.torch, "sdpa", wrong)
    assert program.main(["--no-bench"]) == 1
    out, err = capsys.readouterr()
    message = r"expected a relative error of at most 1e-05, found 0\.5"
    assert re.search(rf"^  FAILED  causal +cpu +{message}$", out, re.M)
    assert re.search(rf"^error: self test 'causal' on cpu: {message}$", err, re.M)
    assert "self test 'dense' on cpu" not in err


@needs_torch
def test_dropout_and_errors_fail(capsys, monkeypatch):
    import attn.torch

    correct = attn.torch.sdpa

    def forgetful(*arguments, dropout_p=0.0, **options):
        return correct(*arguments, **options)

    def refuse(*arguments, **options):
        raise attn.AttnError("no kernel")

    monkeypatch.setattr(attn.torch, "sdpa", forgetful)
    monkeypatch.setattr(attn.torch, "flex_attention", refuse)
    assert program.main(["--no-bench", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    failed = {result["name"]: result for result in report["self_test"] if not result["passed"]}
    assert set(failed) == {"dropout", "mask_mod"} and len(report["failures"]) == len(
        [result for result in report["self_test"] if not result["passed"]]
    )
    assert failed["dropout"]["found"] == "equal, equal, 0.0% dropped"
    assert failed["mask_mod"]["expected"] == "a result" and failed["mask_mod"]["found"] == "AttnError: no kernel"


def test_nan_fails():
    assert not self_check._judge(float("nan"), 1.0).is_right and self_check._judge(0.5, 1.0).is_right


def test_without_torch():
    result = run_module("--json", blocked=True)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["versions"]["torch"] is None and report["missing"]["torch"] == "there is no module 'torch'"
    assert [each["name"] for each in report["self_test"]] == NAMES
    assert all(each["passed"] and each["device"] == "cpu" for each in report["self_test"])
    assert report["comparison"] == []
    assert {"tests of attn.torch", "comparison with torch"} <= set(report["skipped"])


def test_plain_checks_find_wrong_results(monkeypatch):
    """Without torch, tests compare with another mask, and with other gradients."""
    checks = self_check._PlainChecks()
    assert not checks._check(keep=lambda i, j: j <= i + 1, mask="#attn.causal<alignment = top_left>").is_right
    monkeypatch.setattr(self_check, "_DROPOUT", 0.5)
    attribute = self_check._judge_dropout(True, True, 0.25, self_check._DROPOUT)
    assert not attribute.is_right and "50%" in attribute.expected and "25.0%" in attribute.found
    differentiate = checks._differentiate
    monkeypatch.setattr(checks, "_differentiate", lambda q, k, v, do: differentiate(q, k, v, do)[::-1])
    assert not checks._check_gradient().is_right


def test_without_libraries(tmp_path):
    folders = {"ATTN_LIBRARY_DIR": str(tmp_path), "ATTN_CACHE_DIR": str(tmp_path / "cache")}
    result = run_module("--no-bench", blocked=True, **folders)
    assert result.returncode == 1
    assert f"runtime library   none: expected {tmp_path / 'libattn_runtime.so.3'}, found no such file" in result.stdout
    message = r"^error: self test 'dense' on cpu: expected a result, found AttnError: .*there is no libattn_c"
    assert re.search(message, result.stderr, re.M)
    assert "the first compilation makes it" in result.stdout
    result = run_module("--no-bench", "--json", blocked=True, ATTN_LIBRARY_DIR=str(tmp_path / "none"))
    assert result.returncode == 1 and "must name a folder" in json.loads(result.stdout)["missing"]["compiler library"]


def test_caches_that_are_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTN_CACHE_DIR", str(tmp_path))
    (tmp_path / "entry.so").write_bytes(bytes(100))
    facts = program._inspect_cache()
    assert facts["is_used"] and (facts["entries"], facts["bytes"], facts["reason"]) == (1, 100, None)
    assert facts["limit_bytes"] == 4 * 2**30
    monkeypatch.setenv("ATTN_CACHE_SIZE", "much")
    facts = program._inspect_cache()
    assert not facts["is_used"] and "ATTN_CACHE_SIZE is 'much', expected" in facts["reason"]
    monkeypatch.setenv("ATTN_CACHE_SIZE", "3M")
    tmp_path.chmod(0o777)
    facts = program._inspect_cache()
    assert facts["limit_bytes"] == 3 * 2**20
    assert not facts["is_used"] and "can be written by others" in facts["reason"]
    monkeypatch.setenv("ATTN_CACHE_DIR", str(tmp_path / "entry.so"))
    facts = program._inspect_cache()
    assert not facts["is_used"] and "cannot be read" in facts["reason"]


def test_ptxas(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_ROOT", str(tmp_path))
    (tmp_path / "bin").mkdir()
    ptxas = tmp_path / "bin" / "ptxas"
    ptxas.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.48'\n")
    ptxas.chmod(0o755)
    assert program.describe()["ptxas"] == str(ptxas)
    missing = {}
    assert program._find_ptxas_version(str(ptxas), missing) == "13.0.48" and missing == {}
    ptxas.chmod(0o644)
    assert program._find_ptxas_version(str(ptxas), missing) is None and "does not run" in missing["ptxas"]


@needs_torch
def test_gpus_that_cannot_be_tested(monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    gpus = [{"device": f"cuda:{number}", "target": None, "capability": "7.5"} for number in range(2)]
    skipped = {}
    checks = list(self_check.find_checks([{"device": "cpu"}, *gpus], skipped))
    assert [check.name for check in checks] == NAMES
    assert skipped["self test on cuda:0"] == "expected compute capability 8.0 or later, found 7.5"
    assert skipped["self test on cuda:1"].endswith("sees 1 GPUs")


def test_fake_driver():
    """GPUs of the runtime are listed, and without torch not tested."""
    fake = library.library_dir() / "libattn_fake_cuda.so"
    if not fake.exists():
        pytest.skip("there is no fake driver")
    result = run_module("--no-bench", "--json", blocked=True, ATTN_CUDA_DRIVER=str(fake))
    report = json.loads(result.stdout)
    assert result.returncode == 0, result.stderr
    gpus = report["devices"][1:]
    assert gpus and {f"self test on {gpu['device']}" for gpu in gpus} <= set(report["skipped"])
    assert all(gpu["memory_gib"] > 0 and re.fullmatch(r"\d+\.\d", gpu["capability"]) for gpu in gpus)
    assert "GPU" not in report["missing"]


def test_options():
    result = run_module("--help", blocked=True)
    assert result.returncode == 0 and "--no-bench" in result.stdout and "examples:" in result.stdout
    result = run_module("--fast", blocked=True)
    assert result.returncode == 2 and "unrecognized arguments: --fast" in result.stderr
