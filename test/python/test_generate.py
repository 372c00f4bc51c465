# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/examples/generate.py: tokens are those of Transformers, also of requests that lose their pages."""

import importlib.util
import pathlib
import re

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

PATH = pathlib.Path(__file__).resolve().parents[2] / "docs" / "examples" / "generate.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("generate_example", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(example, monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", [str(PATH), "--longest", "96", *arguments])
    return example.main()


def test_tokens_are_those_of_transformers(example, monkeypatch, capsys):
    assert run(example, monkeypatch, "--check", "--requests", "5", "--chunk", "10", "--pages", "6") == 0
    text = capsys.readouterr().out
    assert "5 requests equal, 0 differ" in text
    assert int(re.search(r"(\d+) restarts", text)[1]) > 0, "pages must run out"


def test_tokens_of_16_bits(example, monkeypatch, capsys):
    """They have logits near the largest ones; others have not."""
    assert run(example, monkeypatch, "--check", "--dtype", "bfloat16", "--requests", "5", "--chunk", "10") == 0
    assert "5 requests equal, 0 differ" in capsys.readouterr().out
    monkeypatch.setattr(example, "NEAR_LOGITS", -1.0)
    assert run(example, monkeypatch, "--check", "--dtype", "bfloat16", "--requests", "2") == 1
    assert "2 differ" in capsys.readouterr().out


def test_refusals(example, monkeypatch):
    with pytest.raises(ValueError, match="needs more than the 1 pages of the cache"):
        run(example, monkeypatch, "--pages", "2")
