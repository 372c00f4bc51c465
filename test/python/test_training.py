# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""benchmarks/training.py, small and on the CPU."""

import json
import shutil

import pytest

torch = pytest.importorskip("torch")

import harness  # noqa: E402
import training  # noqa: E402

TINY = ["--device=cpu", "--layers=2", "--width=32", "--heads=2", "--vocabulary=50", "--steps=2"]


def test_rows(tmp_path, monkeypatch):
    compile = torch.compile
    monkeypatch.setattr(torch, "compile", lambda *args, **kw: compile(*args, **{"backend": "aot_eager", **kw}))
    monkeypatch.setattr(
        training.Block, "compile", lambda block, **kw: torch.nn.Module.compile(block, backend="aot_eager", **kw)
    )
    out = tmp_path / "rows.jsonl"
    commit = harness.run_git(harness.ROOT, "rev-parse", "HEAD") or 40 * "0"
    options = ["--shapes=2x16", "--backends=attn,math,flash", "--dropout=0.25", f"--out={out}", f"--commit={commit}"]
    training.main([*TINY, *options])
    ours, peer, refused = map(json.loads, out.read_text().splitlines())
    assert (ours["backend"], ours["batch"], ours["length"], ours["dropout"]) == ("attn", 2, 16, 0.25)
    assert "error" not in ours and all(ours[name] > 0 for name in ("step_ms", "attention_ms", "first_step_ms"))
    # The first loss is the loss of random predictions; dropout moves it a little.
    assert ours["losses"][0] == pytest.approx(peer["losses"][0], abs=0.05)
    # Torch's flash kernel for the CPU has no dropout.
    assert "error" in refused


@pytest.mark.skipif(not shutil.which("ptxas"), reason="needs the assembler")
def test_fill_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTN_CACHE_DIR", str(tmp_path))
    training.main([*TINY, "--fill-cache", "--dropout=0"])
    # For the host and the target: without gradients, and the forward and the backward part with them.
    assert len(list(tmp_path.glob("*.so"))) == 6
