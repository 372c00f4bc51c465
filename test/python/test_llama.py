# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""benchmarks/llama.py, small and on the CPU."""

import json
import shutil

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import harness  # noqa: E402
import llama  # noqa: E402

SIZES = dict(batch=2, length=16, layers=1, hidden=32, intermediate=48, heads=4, vocabulary=50)
SIZES.update(steps=1, repeats=1, rounds=1)
TINY = [f"--{name}={size}" for name, size in SIZES.items()] + ["--kv-heads=2", "--head-dim=8"]


@pytest.fixture(autouse=True)
def on_host(monkeypatch):
    monkeypatch.setattr(harness, "DEVICE", "cpu")
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("mask", ["causal", "sequences"])
def test_rows(tmp_path, capsys, mask):
    out = tmp_path / "rows.jsonl"
    commit = harness.run_git(harness.ROOT, "rev-parse", "HEAD") or 40 * "0"
    # There is no cuDNN on the host.
    options = ["--ops=attn,cudnn,math", f"--masks={mask}", f"--out={out}", f"--commit={commit}"]
    assert llama.main([*TINY, *options], backend="aot_eager") == 0
    ours, peer = map(json.loads, out.read_text().splitlines())
    assert (ours["op"], peer["op"]) == ("attn", "math") and "cudnn failed: " in capsys.readouterr().err
    assert all((row["suite"], row["mask"], row["B"], row["S"]) == ("llama", mask, 2, 16) for row in (ours, peer))
    assert all(row["ms"] > 0 and row["first_step_s"] > 0 and row["commit"] == commit for row in (ours, peer))
    # Random tokens are predicted at random at first, and the same ones come again.
    assert len(ours["losses"]) >= 5 and abs(ours["losses"][0] - 3.9) < 0.1 and ours["losses"][4] < ours["losses"][0]


@pytest.mark.parametrize("error", [0.0, 0.1])
def test_wrong_losses_end_the_program(monkeypatch, capsys, error):
    class Side:
        def __init__(self, op):
            self.losses = [torch.tensor(4.0 + error * (op == "math"))]

        def train(self, steps):
            pass

    monkeypatch.setattr(llama, "prepare", lambda torch, options, op, *_: (Side(op), 1.0))
    arguments = [*TINY, "--ops=attn,math", "--masks=causal", f"--commit={40 * '0'}"]
    assert llama.main(arguments) == (1 if error else 0)
    assert ("WRONG" in capsys.readouterr().out) == bool(error)


@pytest.mark.parametrize("option", ["--ops=fa9", "--masks=windows"])
def test_unknown_values_end_the_program(option):
    value = option.partition("=")[2]
    with pytest.raises(SystemExit, match=f"unknown value '{value}' of --(ops|masks)"):
        llama.main([option])


@pytest.mark.skipif(not shutil.which("ptxas"), reason="needs the assembler")
def test_fill_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTN_CACHE_DIR", str(tmp_path))
    llama.main([*TINY, "--fill-cache"])
    # For each mask, kernels for the target; kernels for the host may be in memory already.
    assert len(list(tmp_path.glob("*.so"))) >= 2
