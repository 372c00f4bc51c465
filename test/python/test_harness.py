# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of benchmarks/harness.py, and of the commits of recorded rows."""

import json
import math
import subprocess
import sys
import types

import harness
import pytest
from conftest import ROOT


def git(folder, *arguments):
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def tree(tmp_path):
    """A repository with one commit, and a build of it whose compiler copies modules."""
    (tmp_path / "tree").mkdir()
    git(tmp_path / "tree", "init", "-q")
    (tmp_path / "tree" / "file").write_text("one\n")
    git(tmp_path / "tree", "add", "file")
    git(tmp_path / "tree", "commit", "-q", "-m", "one")
    (tmp_path / "build" / "bin").mkdir(parents=True)
    (tmp_path / "build" / "CMakeCache.txt").write_text(f"CMAKE_HOME_DIRECTORY:INTERNAL={tmp_path / 'tree'}\n")
    compiler = tmp_path / "build" / "bin" / "attn-compile"
    compiler.write_text('#!/bin/sh\n[ "$1" != "${1%bad.mlir}" ] && exit 1\necho "$@" > "$3"\n')
    compiler.chmod(0o755)
    return tmp_path


def parse(tree, *arguments, names=("target", "compile-options")):
    folder = ["--artifacts", str(tree / "artifacts")]
    return harness.make_parser("text", *names).parse_args([*folder, *arguments])


def test_benchmarks_have_names_of_their_own():
    # Tests put both folders into sys.path: a module of one must not hide a module of the other.
    folders = ROOT / "benchmarks", ROOT / "test" / "Integration" / "Inputs"
    benchmarks, inputs = ({file.name for file in folder.glob("*.py")} for folder in folders)
    assert benchmarks and inputs and not benchmarks & inputs


def test_options():
    parser = harness.make_parser("text", "peers", "repeats", repeats=5)
    options = parser.parse_args(["--artifacts", "a"])
    assert (options.peers, options.repeats, options.compile) == ("all", 5, None)
    assert not hasattr(options, "target")
    with pytest.raises(TypeError, match="rounds"):
        harness.make_parser("text", "repeats", rounds=3)


def test_artifacts_have_the_commit_of_the_compiler(tree):
    options = parse(tree, "--compile", str(tree / "build" / "bin" / "attn-compile"), "--compile-options=-a -b")
    harness.compile_modules(options, {"one": "module {}"}, "--fail-on-spills")
    first = git(tree / "tree", "rev-parse", "HEAD")
    (tree / "tree" / "file").write_text("two\n")
    harness.compile_modules(options, {"two": "module {}"})
    artifacts = harness.Artifacts(options)
    assert "one" in artifacts and "three" not in artifacts
    assert artifacts.commit_of("one") == first and artifacts.commit_of("two") == first + "-dirty"
    assert artifacts.commit_of("three") == "unknown"
    command = (tree / "artifacts" / "one.so").read_text().split()
    assert command[3:] == ["--target=sm_90a", "-a", "-b", "--fail-on-spills"]
    with pytest.raises(SystemExit, match="exit code 1\nerror: bad does not compile"):
        harness.compile_modules(options, {"bad": "module {}"})
    assert harness.Artifacts(options).commit_of("bad") == "unknown"


def test_artifacts_are_compiled_once(tree):
    options = parse(tree, "--compile", str(tree / "build" / "bin" / "attn-compile"))
    compiler = harness.Compiler(options)
    assert not compiler.has("one", "module {}") and compiler.compile("one", "module {}", "host") is None
    assert harness.Compiler(options).has("one", "module {}") and not compiler.has("one", "module {} ")
    (tree / "tree" / "file").write_text("two\n")
    assert not harness.Compiler(options).has("one", "module {}")
    assert harness.Compiler(options).compile("bad", "module {}", "host") == "exit code 1"


@pytest.mark.parametrize("commit, problem", [
    ("", "the commit of the artifact is unknown"),
    ("unknown", "the commit of the artifact is unknown"),
    ("0123456789abcdef-dirty", "the artifact was built from uncommitted changes of 0123456789ab"),
    ("latest", "'latest' is no commit"),
    ("abcdef0123456", "commit abcdef012345 is not in the history"),
    ("0123456", None),
])
def test_commits_are_checked(commit, problem):
    assert harness.find_problem(commit, ["0123456789abcdef"]) == problem


def test_rows_are_refused(tree, monkeypatch):
    monkeypatch.setattr(harness, "read_history", lambda: [git(tree / "tree", "rev-parse", "HEAD")])
    out = tree / "rows.jsonl"
    head = git(tree / "tree", "rev-parse", "HEAD")
    rows = harness.Rows(parse(tree, "--out", str(out)), "GPU", suite="a")
    row = rows.add(head, op="attn", ms=1.0)
    assert {"op": "attn", "ms": 1.0, "suite": "a", "device": "GPU", "commit": head}.items() <= row.items()
    assert json.loads(out.read_text()) == row
    for commit in ("unknown", head + "-dirty", "f" * 40):
        with pytest.raises(SystemExit, match="cannot record a row"):
            rows.add(commit, op="attn", ms=1.0)
    assert len(out.read_text().splitlines()) == 1
    assert harness.Rows(parse(tree), "GPU").add("unknown", op="attn")["commit"] == "unknown"


def test_recorded_rows_have_commits_of_the_history():
    if harness.read_history() is None:
        pytest.skip("the history is not known")
    assert harness.check_results(sorted((ROOT / "benchmarks" / "results").glob("*.jsonl"))) == []


def test_the_program_names_refused_rows(tmp_path, capsys):
    if harness.read_history() is None:
        pytest.skip("the history is not known")
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    good.write_text(json.dumps({"commit": harness.read_history()[0][:9]}) + "\n")
    bad.write_text(2 * (json.dumps({"commit": "f" * 40}) + "\n"))
    assert harness.main([str(good)]) == 0
    assert harness.main([str(good), str(bad)]) == 1
    assert capsys.readouterr().out == "bad.jsonl: 2 rows: commit ffffffffffff is not in the history\n"


# ---------------------------------------------------------------------------
# Peers and checks, on the host
# ---------------------------------------------------------------------------


def attention(torch, q, k, v, causal=False):
    """Attention [batch, heads, positions, head dim], and its log-sum-exp."""
    group = q.shape[1] // k.shape[1]
    scores = q @ k.repeat_interleave(group, 1).transpose(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        keep = torch.ones(scores.shape[-2:], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
        scores = scores.masked_fill(~keep, -torch.inf)
    return scores.softmax(-1) @ v.repeat_interleave(group, 1), scores.logsumexp(-1)


@pytest.fixture
def problem():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    q = torch.randn(2, 4, 33, 16)
    k, v = (torch.randn(2, 2, 40, 16) for _ in range(2))
    return harness.Problem(q, k, v, causal=True)


@pytest.fixture
def flash_modules(monkeypatch):
    """Packages of FlashAttention, which compute on the host."""
    torch = pytest.importorskip("torch")
    calls = []

    def module(name, returns_lse):
        def flash_attn_func(q, k, v, softmax_scale=None, causal=False, deterministic=False):
            calls.append((name, deterministic))
            out, lse = attention(torch, *(x.transpose(1, 2) for x in (q, k, v)), causal=causal)
            out = out.transpose(1, 2)
            return (out, lse) if returns_lse else out

        made = types.ModuleType(name)
        made.flash_attn_func, made.__spec__, made.__path__ = flash_attn_func, types.SimpleNamespace(name=name), []
        monkeypatch.setitem(sys.modules, name, made)

    module("flash_attn", False)
    module("flash_attn.cute", True)
    module("flash_attn_interface", False)
    return calls


def test_peers_are_used_when_importable(monkeypatch, capsys):
    for name in ("flash_attn", "flash_attn.cute", "flash_attn_interface"):
        monkeypatch.setitem(sys.modules, name, None)
    assert [peer.name for peer in harness.select_peers("all")] == ["cudnn", "fa2", "flex"]
    err = capsys.readouterr().err
    assert "peer fa3 is left out: there is no module flash_attn_interface" in err
    assert "peer flex_flash is left out: there is no module flash_attn.cute" in err
    assert harness.select_peers("none") == []
    with pytest.raises(SystemExit, match="unknown peer 'fa5'"):
        harness.select_peers("fa2,fa5")
    with pytest.raises(SystemExit, match=r"unknown peer 'flex' \(expected all, none or some of cudnn, fa2\)"):
        harness.select_peers("flex", ("cudnn", "fa2"))


@pytest.mark.parametrize("name", ["fa3", "fa4"])
def test_flash_attention_gets_its_layout(problem, flash_modules, name):
    import torch

    peer, = harness.select_peers(name)
    out, _ = attention(torch, problem.q, problem.k, problem.v, causal=True)
    assert torch.allclose(peer.forward(problem)(), out, atol=1e-6)
    inputs = [x.clone().requires_grad_(True) for x in (problem.q, problem.k, problem.v)]
    dout = torch.randn_like(out)
    expected = torch.autograd.grad(attention(torch, *inputs, causal=True)[0], inputs, dout)
    problem.deterministic = True
    for gradient, other in zip(peer.backward(problem, dout)(), expected):
        assert torch.allclose(gradient, other, atol=1e-5)
    assert {deterministic for _, deterministic in flash_modules} == {False, True}


def test_peers_compute_what_they_support(problem, flash_modules, capsys):
    import torch

    peers = harness.select_peers("all")
    problem.q = problem.q.expand(2, 4, 33, 16)
    runs = harness.prepare_peers(harness.select_peers("fa3,fa4"), problem)
    assert list(runs) == ["fa3", "fa4"]
    problem.dropout = 0.1
    assert [peer.name for peer in peers if peer.supports(problem)] == ["cudnn", "fa2"]
    problem.dropout, problem.score_mod = 0.0, lambda s, b, h, i, j: s
    assert [peer.name for peer in peers if peer.supports(problem)] == ["flex", "flex_flash"]
    problem.addend = torch.zeros(1)
    assert [peer.name for peer in peers if peer.supports(problem)] == ["cudnn", "flex", "flex_flash"]
    problem.mask_mod = lambda i, j: i >= j
    assert [peer.name for peer in peers if peer.supports(problem)] == ["flex", "flex_flash"]


def test_peers_that_fail_are_named(problem, capsys):
    class Broken(harness.Peer):
        name = "broken"

        def prepare(self, problem):
            raise RuntimeError("no kernel\nmore")

    assert harness.prepare_peers([Broken()], problem) == {}
    assert capsys.readouterr().err == "peer broken failed: no kernel\n"


def test_flex_masks_causally(problem, monkeypatch):
    import torch
    from torch.nn.attention import flex_attention

    # As it is, without the compiler of torch, which takes long.
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    monkeypatch.setattr(flex_attention, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True, raising=False)
    problem.k, problem.v = problem.k[:, :, :33], problem.v[:, :, :33]
    out, _ = attention(torch, problem.q, problem.k, problem.v, causal=True)
    assert torch.allclose(harness.PEERS["flex"].forward(problem)(), out, atol=1e-5)


def test_outputs_are_checked(problem):
    import torch

    out, lse = attention(torch, problem.q, problem.k, problem.v, causal=True)
    error, lse_error = harness.check_forward(problem, out, lse)
    assert error < 1e-5 and lse_error < 1e-5
    assert harness.check_forward(problem, attention(torch, problem.q, problem.k, problem.v)[0], lse)[0] > 0.1
    assert harness.check_forward(problem, out, lse + 0.01)[1] > 5e-3
    out[0, 0, 5] = math.nan
    assert harness.check_forward(problem, out, lse)[0] == math.inf


def test_changed_scores_are_checked(problem):
    import torch

    problem.score_mod = lambda s, b, h, i, j: s + 0.1 * (j - i)
    problem.mask_mod, problem.causal = lambda i, j: j <= 30, False
    group = problem.q.shape[1] // problem.k.shape[1]
    k, v = (x[:, :, :31].repeat_interleave(group, 1) for x in (problem.k, problem.v))
    i, j = torch.arange(33)[:, None], torch.arange(31)[None, :]
    scores = problem.q @ k.transpose(-1, -2) / 4 + 0.1 * (j - i)
    errors = harness.check_forward(problem, scores.softmax(-1) @ v, scores.logsumexp(-1))
    assert max(errors) < 1e-5


def test_gradients_are_checked(problem):
    import torch

    inputs = [x.clone().requires_grad_(True) for x in (problem.q, problem.k, problem.v)]
    out, lse = attention(torch, *inputs, causal=True)
    dout = torch.randn_like(out)
    grads = list(torch.autograd.grad(out, inputs, dout))
    out, lse = out.detach(), lse.detach()
    assert harness.check_backward(problem, dout, lse, out, grads) < 1e-5
    for number in range(3):
        wrong = list(grads)
        wrong[number] = 1.1 * grads[number]
        assert 0.05 < harness.check_backward(problem, dout, lse, out, wrong) < 0.2
    grads[0][0, 0, 0, 0] = math.nan
    assert harness.check_backward(problem, dout, lse, out, grads) == math.inf


def test_the_median_is_the_upper_one():
    assert harness.median([3.0, 1.0, 2.0]) == 2.0 and harness.median([1.0, 2.0]) == 2.0


def test_times_become_rows(tree, capsys):
    rows = harness.Rows(parse(tree), "GPU")
    times, errors = {"attn": 2.0, "fa3": 4.0}, {"error": 1e-3}
    made, text = harness.compare_times(rows, "unknown", times, 2e9, errors, mode="fwd", S=8)
    assert [(row["op"], row["tflops"], row["S"], row.get("error")) for row in made] == [
        ("attn", 1.0, 8, 1e-3), ("fa3", 0.5, 8, None)]
    assert text == "attn    1.0 TF   2.0000 ms  fa3    0.5 (2.000x)  error 1.0e-03"
    harness.print_means({"fa3": [2.0, 0.5]})
    assert capsys.readouterr().out == "2 cases: geometric mean 1.000x fa3, worst 0.500x\n"
