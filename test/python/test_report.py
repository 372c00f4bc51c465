# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of benchmarks/report.py on rows made up for the purpose."""

import json
import re

import pytest

import report

README = "# Title\n\n<!-- performance -->\nold\n<!-- /performance -->\n\nrest\n"


def row(op, ms, **changes):
    fields = dict(op=op, mode="fwd", B=1, H=16, Hkv=16, S=1024, D=128, causal=False, p=0.0, mask="full")
    fields.update(ms=ms, tflops=100.0 / ms, date="2026-01-02", device="GPU", commit="0123456789abcdef")
    fields.update(changes)
    return fields


@pytest.fixture
def project(tmp_path):
    (tmp_path / "benchmarks" / "results").mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text(README)
    return tmp_path


def write(project, rows, name="a.jsonl"):
    text = "".join(json.dumps(r) + "\n" for r in rows)
    (project / "benchmarks" / "results" / name).write_text(text)


def test_pages(project):
    write(
        project,
        [
            {"op": "cublas", "m": 1, "ms": 1.0, "tflops": 1.0},
            row("attn", 1.0),
            row("cudnn", 2.0),
            row("fa2", 4.0),
            row("attn", 2.0, S=2048),
            row("cudnn", 1.0, S=2048),
            row("attn", 1.0, Hkv=4),
            row("cudnn", 1.5, Hkv=4),
        ],
    )
    assert report.main(["--root", str(project), "--no-plots"]) == 0
    page = (project / "docs" / "performance.md").read_text()
    assert "| full | 16 of 128 | 1024 | 1 | 100 | 50 (2.00x) | 25 (4.00x) |" in page
    assert "| full | 16 of 128 | 2048 | 1 | 50 | 100 (0.50x) |  |" in page
    assert "- cuDNN: geometric mean 1.000x, worst 0.500x (full, length 2048, heads 16 of 128, batch 1)" in page
    assert "- the fastest peer of each case: geometric mean 1.000x, worst 0.500x" in page
    assert "## Forward, grouped heads, GPU" in page and "| full | 16/4 of 128 | 1024 | 1 | 100 | 67 (1.50x) |" in page
    assert "Measured 2026-01-02, commit 0123456789ab." in page
    readme = (project / "README.md").read_text()
    assert readme.startswith("# Title\n\n<!-- performance -->\n") and readme.endswith("<!-- /performance -->\n\nrest\n")
    assert "| Forward, GPU | 2 | cuDNN | 1.00 | 0.50 | 2.00 |" in page
    # The fastest peer of each case, and where Attn is behind.
    assert "| GPU | the fastest peer, in how many cases | Attn is ahead in | mean | least | where |" in readme
    assert "| Forward | cuDNN (2) | 1 of 2 | 1.00 | 0.50 | full, length 2048, heads 16 of 128, batch 1 |" in readme
    assert "| Forward, grouped heads | cuDNN (1) | 1 of 1 | 1.50 | 1.50 |" in readme and "old" not in readme


def test_packed_sequences_have_a_group_of_their_own(project):
    write(
        project,
        [
            row("attn", 2.0, mask="packed_4x256_full"),
            row("attn_batch", 1.0, mask="packed_4x256_full"),
            row("attn", 1.0, mask="window"),
            row("flex", 2.0, mask="window"),
        ],
    )
    assert report.main(["--root", str(project), "--no-plots"]) == 0
    page = (project / "docs" / "performance.md").read_text()
    assert (
        "| Forward of packed sequences against batches of equal length, GPU | 1 | the batch | 0.50 | 0.50 | 0.50 |"
        in page
    )
    assert "| Forward with masks, GPU | 1 | FlexAttention (Triton) | 2.00 | 2.00 | 2.00 |" in page
    # Kernels of Attn are no peers.
    readme = (project / "README.md").read_text()
    assert (
        "packed sequences" not in readme
        and "| Forward with masks | FlexAttention (Triton) (1) | 1 of 1 | 2.00 |" in readme
    )


def test_compiler(project):
    write(project, [row("attn", 1.0), row("cudnn", 2.0)])
    common = {"machine": "2 cores", "date": "2026-01-02", "commit": "0123456"}
    rows = [
        {"what": "start", "limit_s": 0.1, "wall_s": 9.0, "cpu_s": 9.0, "peak_mb": 9.0, **common},
        {"what": "start", "limit_s": 0.1, "wall_s": 0.05, "cpu_s": 0.03, "peak_mb": 99.6, **common},
        {"what": "call", "limit_s": 1e-5, "wall_s": 6.7e-7, **common},
        {"what": "call", "wall_s": 5e-7, **common, "machine": "GPU"},
    ]
    write(project, rows, "compiler.jsonl")
    assert report.main(["--root", str(project), "--no-plots"]) == 0
    page = (project / "docs" / "performance.md").read_text()
    tables = page.split("## The compiler")[1].split("| what |")
    assert len(tables) == 3 and tables[0].endswith("\n2 cores:\n\n") and tables[1].endswith("\nGPU:\n\n")
    assert "| start | 0.050 s | 0.100 s | 0.030 s | 100 MB | 2026-01-02 |" in tables[1]
    assert "| call | 0.67 us | 10.00 us |  |  | 2026-01-02 |" in tables[1] and "9.000" not in page
    assert "| call | 0.50 us |  |  |  | 2026-01-02 |" in tables[2]
    write(project, [{"what": "start"}], "compiler.jsonl")
    assert report.main(["--root", str(project), "--no-plots"]) == 1


def test_matmuls(project):
    write(project, [row("attn", 1.0), row("cudnn", 2.0)])
    common = {"M": 8, "N": 16, "K": 32, "form": "nt", "device": "GPU", "date": "2026-01-02", "commit": "0123456"}
    rows = [
        {"op": "attn", "epilogue": "none", "ms": 9.0, "tflops": 1.0, **common},
        {"op": "cublas", "epilogue": "none", "ms": 2.0, "tflops": 50.0, **common},
        {"op": "attn", "epilogue": "none", "ms": 1.0, "tflops": 100.0, **common},
        # Of another run, which is not compared with.
        {"op": "attn", "epilogue": "bias", "ms": 1.0, "tflops": 100.0, **common, "commit": "89abcde"},
    ]
    write(project, rows, "gemm.jsonl")
    assert report.main(["--root", str(project), "--no-plots"]) == 0
    page = (project / "docs" / "performance.md").read_text()
    assert "| 8 x 16 x 32 | nt | 100 (2.00x) |  | 50 | GPU | 2026-01-02 |" in page
    # In the summary, too, of the page and of the README.
    assert "| GEMM, GPU | 1 | cuBLAS | 2.00 | 2.00 | 2.00 |" in page
    assert "| GEMM | cuBLAS (1) | 1 of 1 | 2.00 | 2.00 | 8 x 16 x 32, nt |" in (project / "README.md").read_text()
    # Products of another run do not count there.
    rows[2]["date"] = "2026-01-03"
    write(project, rows, "gemm.jsonl")
    assert report.main(["--root", str(project), "--no-plots"]) == 0
    assert "| GEMM" not in (project / "README.md").read_text()
    write(project, [{"op": "attn", "ms": 0}], "gemm.jsonl")
    assert report.main(["--root", str(project), "--no-plots"]) == 1


def test_attention_with_dropout(project):
    write(project, [row("attn", 1.0), row("cudnn", 2.0)])
    common = {
        "suite": "attention",
        "mode": "bwd",
        "mask": "full",
        "D": 64,
        "H": 4,
        "B": 2,
        "S": 128,
        "device": "GPU",
        "date": "2026-01-02",
    }
    times = {
        ("attn_nodrop", "none"): 1.0,
        ("attn", "philox7"): 1.25,
        ("attn", "arx6"): 1.2,
        ("attn_hoisted", "arx6"): 1.1,
        ("cudnn", "torch"): 1.8,
    }
    rows = [{**common, "op": op, "rng": rng, "ms": ms} for (op, rng), ms in times.items()]
    write(project, rows, "dropout.jsonl")
    assert report.main(["--root", str(project), "--no-plots"]) == 0
    page = (project / "docs" / "performance.md").read_text()
    expected = "| bwd | full | 4 of 64 | 128 | 2 | 1.000 | 1.250 (+25.0%) | 1.200 (+20.0%) | 1.100 (+10.0%) |  |"
    expected += " 1.800 (1.50x) |  | 2026-01-02 |"
    assert expected in page.split("\nGPU:\n")[1]
    assert "| Backward with dropout, GPU | 1 | cuDNN | 1.50 | 1.50 | 1.50 |" in page
    expected_row = (
        "| Backward with dropout | cuDNN (1) | 1 of 1 | 1.50 | 1.50 | full, length 128, heads 4 of 64, batch 2 |"
    )
    assert expected_row in (project / "README.md").read_text()
    # Of another run, with and without times without dropout.
    later = {**common, "date": "2026-01-03"}
    rows += [{**later, "op": "attn_hoisted", "rng": "arx6", "ms": 1.5}]
    write(project, rows, "dropout.jsonl")
    assert report.main(["--root", str(project), "--no-plots"]) == 0
    page = (project / "docs" / "performance.md").read_text()
    assert expected.replace("1.100 (+10.0%)", "1.500") in page
    rows += [{**later, "op": "attn_nodrop", "rng": "none", "ms": 1.25}]
    write(project, rows, "dropout.jsonl")
    assert report.main(["--root", str(project), "--no-plots"]) == 0
    page = (project / "docs" / "performance.md").read_text()
    assert expected.replace("1.100 (+10.0%)", "1.500 (+20.0%)") in page
    del rows[0]["S"]
    write(project, rows, "dropout.jsonl")
    assert report.main(["--root", str(project), "--no-plots"]) == 1


def test_layers_with_dropout(project):
    write(project, [row("attn", 1.0), row("cudnn", 2.0)])
    common = {"suite": "layers", "model": "llama", "N": 64, "device": "GPU", "date": "2026-01-02"}
    times = {
        ("attn_nodrop", "none"): 1.0,
        ("attn", "philox7"): 1.6,
        ("attn_hoisted", "arx6"): 1.25,
        ("cudnn", "torch"): 2.5,
        ("fa2", "torch"): 5.0,
    }
    rows = [{**common, "mode": "fwd", "op": op, "rng": rng, "ms": ms} for (op, rng), ms in times.items()]
    rows += [
        {**common, "mode": "train", "op": op, "rng": rng, "ms": ms}
        for op, rng, ms in (("attn", "arx6", 2.0), ("cudnn", "torch", 3.0))
    ]
    write(project, rows, "dropout.jsonl")
    assert report.main(["--root", str(project), "--no-plots"]) == 0
    page = (project / "docs" / "performance.md").read_text()
    assert "| Projection and attention with dropout, GPU | 1 | cuBLAS + cuDNN | 2.00 | 2.00 | 2.00 |" in page
    assert "| Projection and attention with dropout, GPU | 1 | cuBLAS + FlashAttention-2 | 4.00 | 4.00 | 4.00 |" in page
    assert (
        "| Projection and attention with dropout, and their gradients, GPU | 1 | cuBLAS + cuDNN | 1.50 | 1.50 | 1.50 |"
        in page
    )
    # Columns without a time in any row are left out.
    assert "| layer | mode | tokens | in kernel, philox7 | in kernel, arx6 | concurrent, arx6 | date |" in page
    assert "| llama | fwd | 64 | 1.600 (1.28x) |  | 1.250 (1.00x) | 2026-01-02 |" in page
    assert "| llama | fwd | 64 | 1.250 | 1.000 (0.80x) | 2.500 (2.00x) | 5.000 (4.00x) | 2026-01-02 |" in page
    assert "| llama | train | 64 | 2.000 |  | 3.000 (1.50x) |  | 2026-01-02 |" in page
    readme = (project / "README.md").read_text()
    assert (
        "| Projection and attention with dropout | cuBLAS + cuDNN (1) | 1 of 1 | 2.00 | 2.00 | llama, 64 tokens |"
        in readme
    )


def test_training(project):
    write(project, [row("attn", 1.0), row("cudnn", 2.0)])
    common = {"suite": "training", "batch": 8, "length": 64, "layers": 2, "width": 32, "heads": 4, "dropout": 0.125}
    common.update(dtype="bf16", device="GPU", date="2026-01-02", commit="0123456", attention_forward_ms=1.0)
    rows = [
        {**common, "backend": "attn", "step_ms": 99.0, "attention_ms": 9.0},
        {**common, "backend": "attn", "step_ms": 10.0, "attention_ms": 2.0},
        {**common, "backend": "flash", "step_ms": 12.5, "attention_ms": 3.0},
        {**common, "backend": "attn-packed", "step_ms": 9.0, "attention_ms": 1.8},
        {**common, "backend": "cudnn", "error": "no kernel"},
        {**common, "backend": "attn", "dtype": "f16", "dropout": 0.0, "attention_ms": 2.0},
        {**common, "backend": "unfused", "dtype": "f16", "dropout": 0.0, "attention_ms": 8.0},
    ]
    write(project, rows, "training.jsonl")
    assert report.main(["--root", str(project), "--no-plots"]) == 0
    page = (project / "docs" / "performance.md").read_text()
    assert "| GPU | 8 | 64 | bf16 | 0.125 | Attn | 10.0 | 2.00 | 1.00 | 2026-01-02 | 0123456 |" in page
    assert "| GPU | 8 | 64 | bf16 | 0.125 | Attn, projection as it is | 9.0 (0.90x) | 1.80 (0.90x) |" in page
    assert (
        "| GPU | 8 | 64 | bf16 | 0.125 | torch, flash | 12.5 (1.25x) | 3.00 (1.50x) | 1.00 (1.00x) | 2026-01-02 |"
        in page
    )
    # The attention alone, of another kind.
    assert "| GPU | 8 | 64 | f16 | 0 | torch, unfused |  | 8.00 (4.00x) | 1.00 (1.00x) | 2026-01-02 |" in page
    assert "cudnn | " not in page.split("## Training")[1] and "99.0" not in page
    assert "| Training step with dropout, GPU | 1 | torch, flash | 1.25 | 1.25 | 1.25 |" in page
    assert "| Training step with dropout, projection as it is, GPU | 1 | torch, flash | 1.39 | 1.39 | 1.39 |" in page
    assert "| Attention of a training step with dropout, GPU | 1 | torch, flash | 1.50 | 1.50 | 1.50 |" in page
    readme = (project / "README.md").read_text()
    row_of_step = "| Training step with dropout | torch, flash (1) | 1 of 1 | 1.25 | 1.25 | 8 sequences of 64, bf16, dropout 0.125 |"
    assert row_of_step in readme and "projection as it is" not in readme
    write(project, [{**common, "backend": "attn", "step_ms": 0, "attention_ms": 9.0}], "training.jsonl")
    assert report.main(["--root", str(project), "--no-plots"]) == 1


def test_backends_of_one_implementation_are_listed_together(project):
    rows = [row("attn", 1.0, mask="window", S=s) for s in (1, 2, 3)]
    rows += [row("flex", 2.0, mask="window", S=1), row("flex_flash", 2.0, mask="window", S=2)]
    write(project, [*rows, row("flex", 2.0, mask="window", S=3)])
    assert report.main(["--root", str(project), "--no-plots"]) == 0
    assert "| Forward with masks | FlexAttention (Triton 2, FLASH 1) | 3 of 3 |" in (project / "README.md").read_text()


def test_lines_are_not_too_wide(project, capsys):
    write(project, [row(op, 1.0, Hkv=4) for op in report.NAMES])
    assert report.main(["--root", str(project), "--no-plots"]) == 1
    assert "report.py: error: a row of a table has " in capsys.readouterr().err
    write(project, [row(op, 1.0, Hkv=4) for op in report.NAMES if op not in report.OWN])
    assert report.main(["--root", str(project), "--no-plots"]) == 0
    for name in ("README.md", "docs/performance.md"):
        for line in (project / name).read_text().splitlines():
            assert len(line) <= (report.TABLE_COLUMNS if line.startswith("|") else report.TEXT_COLUMNS)


def test_llama(project):
    write(project, [row("attn", 1.0), row("cudnn", 2.0)])
    common = {"suite": "llama", "mask": "causal", "B": 1, "S": 64, "layers": 2, "hidden": 32, "intermediate": 48, "H": 4}
    common.update(Hkv=2, D=8, vocabulary=50, first_step_s=2.0, device="GPU", date="2026-01-02", commit="0123456")
    rows = [
        {**common, "op": "attn", "ms": 99.0},
        {**common, "op": "attn", "ms": 10.0},
        {**common, "op": "cudnn", "ms": 11.0},
        {**common, "op": "efficient", "ms": 15.0},
        # Other heads are another case.
        {**common, "op": "attn", "ms": 20.0, "D": 16},
        # Attn was not measured with this mask.
        {**common, "op": "cudnn", "ms": 77.0, "mask": "sequences"},
    ]
    write(project, rows, "llama.jsonl")
    assert report.main(["--root", str(project), "--no-plots"]) == 0
    page = (project / "docs" / "performance.md").read_text()
    assert "2 layers, hidden size 32" in page and "99.0" not in page and "77.0" not in page
    assert "| GPU | causal | 1 | 64 | 4, 2, 8 | Attn | 10.00 | 2.0 s | 2026-01-02 | 0123456 |" in page
    assert "| GPU | causal | 1 | 64 | 4, 2, 16 | Attn | 20.00 | 2.0 s | 2026-01-02 | 0123456 |" in page
    assert "| GPU | causal | 1 | 64 | 4, 2, 8 | torch, cuDNN | 11.00 (1.10x) | 2.0 s | 2026-01-02 | 0123456 |" in page
    assert "| Training step of a Llama, GPU | 1 | torch, efficient | 1.50 | 1.50 | 1.50 |" in page
    readme = (project / "README.md").read_text()
    case = "causal, length 64, batch 1, head dimension 8"
    assert f"| Training step of a Llama | torch, cuDNN (1) | 1 of 1 | 1.10 | 1.10 | {case} |" in readme
    write(project, [{**common, "op": "attn", "ms": 0}], "llama.jsonl")
    assert report.main(["--root", str(project), "--no-plots"]) == 1


def test_serving(project):
    write(project, [row("attn", 1.0), row("cudnn", 2.0)])
    common = {"suite": "serving", "device": "GPU", "date": "2026-01-02", "commit": "0123456", "H": 4, "Hkv": 2, "S": 64}
    common.update(B=2, D=8, page=16)
    paged = {**common, "mode": "paged", "case": "b2_s64_page16"}
    append = {**common, "mode": "append", "case": "b2_s64"}
    rows = [
        {**paged, "op": "attn", "ms": 99.0, "tbytes_per_s": 0.5},
        {**paged, "op": "attn", "ms": 0.1, "tbytes_per_s": 4.0},
        {**paged, "op": "fa3", "ms": 0.11, "tbytes_per_s": 3.6},
        # A peer of another run is not compared.
        {**paged, "op": "flashinfer", "ms": 0.77, "tbytes_per_s": 3.2, "date": "2026-01-01"},
        {**common, "mode": "prefill", "case": "chunk", "op": "attn", "ms": 1.0, "tflops": 700.0},
        {**append, "op": "append", "ms": 0.005, "us": 5.0},
        {**append, "op": "append_attention", "ms": 0.2, "us": 200.0},
        {**append, "op": "fa3_append_attention", "ms": 0.3, "us": 300.0},
        # Attn was not measured.
        {**common, "mode": "ragged", "case": "b3", "op": "fa3", "ms": 0.66, "tbytes_per_s": 3.6},
    ]
    write(project, rows, "serving.jsonl")
    assert report.main(["--root", str(project), "--no-plots"]) == 0
    page = (project / "docs" / "performance.md").read_text()
    assert "99000" not in page and "660.0" not in page and "770.0" not in page
    assert "| b2_s64_page16 | 100.0 | 4.00 TB/s | 110.0 (1.10x) |  | 2026-01-02 |" in page
    assert "| chunk | 1000.0 | 700 TFLOP/s | 2026-01-02 |" in page
    assert "| b2_s64 | 200.0 |  | 300.0 (1.50x) | 5.0 | 2026-01-02 |" in page
    assert "| Appending a token and decoding, GPU | 1 | FlashAttention-3 | 1.50 | 1.50 | 1.50 |" in page
    readme = (project / "README.md").read_text()
    assert (
        "| Decoding with lengths and pages | FlashAttention-3 (1) | 1 of 1 | 1.10 | 1.10 | b2_s64_page16 |" in readme
    )


@pytest.mark.parametrize("change, message", [({"ms": 0}, "'ms' must be positive"),
                                             ({"mode": "fwd"}, r"'mode' must be one of decode, .* \(was 'fwd'\)")])  # fmt: skip
def test_bad_serving_rows(project, capsys, change, message):
    write(project, [row("attn", 1.0)])
    good = {"suite": "serving", "mode": "paged", "case": "a", "op": "attn", "ms": 1.0, "device": "GPU"}
    write(project, [{**good, **change}], "serving.jsonl")
    assert report.main(["--root", str(project), "--no-plots"]) == 1
    assert re.search(message, capsys.readouterr().err)


def test_linear(project):
    write(project, [row("attn", 1.0), row("cudnn", 2.0)])
    common = {"suite": "linear", "device": "GPU", "date": "2026-01-02", "commit": "0123456", "S": 64, "D": 8}
    token = {**common, "mode": "fwd", "decay": "token", "B": 2, "H": 4}
    alone = {**common, "mode": "bwd", "decay": "gated", "B": 1, "H": 1}
    step = {**common, "mode": "decode", "decay": "plain", "B": 64, "H": 4, "S": 1}
    packed = {**common, "mode": "packed", "decay": "delta", "B": 32, "H": 4, "S": 1024}
    rows = [
        {**token, "op": "attn", "ms": 99.0, "gbytes": 1.0},
        {**token, "op": "attn", "ms": 0.1, "gbytes": 2000.0},
        {**token, "op": "fla", "ms": 0.25, "gbytes": 800.0},
        # A peer of another run is not compared.
        {**alone, "op": "attn", "ms": 0.5, "gbytes": 100.0},
        {**alone, "op": "fla", "ms": 0.777, "gbytes": 80.0, "date": "2026-01-01"},
        {**step, "op": "attn", "ms": 0.0351, "gbytes": 3800.0, "copy_gbytes": 4000.0},
        {**step, "op": "fla", "ms": 0.0702, "gbytes": 1900.0, "copy_gbytes": 4000.0},
        {**packed, "op": "attn", "ms": 0.25, "gbytes": 2500.0},
        {**packed, "op": "fla", "ms": 0.5, "gbytes": 1250.0},
        # Attn was not measured.
        {**common, "mode": "fwd", "decay": "plain", "B": 1, "H": 4, "op": "fla", "ms": 0.888, "gbytes": 80.0},
    ]
    write(project, rows, "linear.jsonl")
    assert report.main(["--root", str(project), "--no-plots"]) == 0
    page = (project / "docs" / "performance.md").read_text()
    assert "99.0" not in page and "0.777" not in page and "0.888" not in page
    assert "Forward, 4 heads, GPU: Measured 2026-01-02, commit 0123456." in page
    assert "| a decay of each token | 8 | 2 x 64 | 0.100 | 2000 GB/s | 0.250 (2.50x) | 2026-01-02 |" in page
    assert "Gradients, 1 head, GPU:" in page
    assert "| delta rule, a decay of each token | 8 | 1 x 64 | 0.500 | 100 GB/s |  | 2026-01-02 |" in page
    assert "| no decay | 8 | 64 x 1 | 0.0351 | 3800 GB/s (95%) | 0.0702 (2.00x) | 2026-01-02 |" in page
    assert "Packed sequences, 4 heads, GPU:" in page
    assert "| delta rule | 8 | 32 x 1024 | 0.2500 | 2500 GB/s | 0.5000 (2.00x) | 2026-01-02 |" in page
    assert "| Delta rule, packed sequences, GPU | 1 | fla-core | 2.00 | 2.00 | 2.00 |" in page
    assert "| Linear attention, decode steps, GPU | 1 | fla-core | 2.00 | 2.00 | 2.00 |" in page
    assert "| Linear attention with decays, forward, GPU | 1 | fla-core | 2.50 | 2.50 | 2.50 |" in page


@pytest.mark.parametrize("change, message", [({"gbytes": 0}, "'gbytes' must be positive"),
                                             ({"mode": "train"}, r"'mode' must be one of fwd, .* \(was 'train'\)"),
                                             ({"decay": "none"}, r"'decay' must be one of plain, .* \(was 'none'\)")])  # fmt: skip
def test_bad_linear_rows(project, capsys, change, message):
    write(project, [row("attn", 1.0)])
    good = {"suite": "linear", "mode": "fwd", "decay": "plain", "op": "attn", "ms": 1.0, "gbytes": 1.0, "device": "GPU",
            "B": 1, "H": 1, "S": 64, "D": 8}  # fmt: skip
    write(project, [{**good, **change}], "linear.jsonl")
    assert report.main(["--root", str(project), "--no-plots"]) == 1
    assert re.search(message, capsys.readouterr().err)


def test_is_idempotent(project):
    write(project, [row("attn", 1.0), row("cudnn", 2.0)])
    report.main(["--root", str(project), "--no-plots"])
    once = (project / "README.md").read_text()
    report.main(["--root", str(project), "--no-plots"])
    assert (project / "README.md").read_text() == once


def test_last_row_counts(project):
    write(project, [row("attn", 9.0), row("cudnn", 3.0)], "2026-01-01.jsonl")
    write(project, [row("attn", 1.0)], "2026-01-02.jsonl")
    cases = report.read_rows(project / "benchmarks" / "results")
    (ratio, _), = report.compare(cases)["cudnn"]
    assert ratio == 3.0


def test_peers_are_compared_within_their_run(project):
    write(project, [row("attn", 1.0, commit="a"), row("fa2", 3.0, commit="a")], "2026-01-01.jsonl")
    write(project, [row("attn", 2.0, commit="b"), row("cudnn", 3.0, commit="b")], "2026-01-02.jsonl")
    ratios = report.compare(report.read_rows(project / "benchmarks" / "results"))
    assert ratios["fa2"][0][0] == 3.0
    assert ratios["cudnn"][0][0] == 1.5


def test_runs_of_one_commit_are_told_apart(project):
    write(
        project,
        [
            row("attn", 1.0, run="a"),
            row("fa3", 3.0, run="a"),
            row("attn", 2.0, run="b"),
            row("fa4", 3.0, run="b"),
        ],
        "peers.jsonl",
    )
    ratios = report.compare(report.read_rows(project / "benchmarks" / "results"))
    assert ratios["fa3"][0][0] == 3.0 and ratios["fa4"][0][0] == 1.5


def test_dropout_of_the_runs_with_all_peers(project):
    write(project, [row("attn", 1.0), row("cudnn", 2.0)])
    common = {"suite": "layers", "model": "llama", "N": 64, "device": "GPU", "date": "2026-01-02", "mode": "fwd"}
    ours, peer = {**common, "op": "attn", "rng": "arx6"}, {**common, "op": "cudnn", "rng": "torch"}
    write(project, [{**ours, "ms": 1.0}, {**peer, "ms": 3.0}], "dropout.jsonl")
    write(project, [{**ours, "ms": 2.0, "run": "e"}, {**peer, "ms": 3.0, "run": "e"}], "peers.jsonl")
    assert report.main(["--root", str(project), "--no-plots"]) == 0
    assert (
        "| Projection and attention with dropout | cuBLAS + cuDNN (1) | 1 of 1 | 1.50 |"
        in (project / "README.md").read_text()
    )


def test_devices_are_not_compared(project):
    write(project, [row("attn", 1.0, device="X"), row("cudnn", 1.0, device="Y")])
    assert not report.compare(report.read_rows(project / "benchmarks" / "results"))


def test_causal_is_a_mask(project):
    write(project, [row("attn", 1.0, causal=True, mask="causal"), row("fa3", 1.0, causal=True, mask=None)])
    assert len(report.read_rows(project / "benchmarks" / "results")) == 1


def test_plots(project):
    pytest.importorskip("matplotlib")
    write(project, [row(op, 1.0 + s / 1024, S=s) for op in ("attn", "cudnn") for s in (1024, 2048, 4096)])
    assert report.main(["--root", str(project)]) == 0
    image = project / "docs" / "images" / "performance-forward-gpu.svg"
    assert image.read_text().lstrip().startswith("<?xml")
    assert f"](images/{image.name})" in (project / "docs" / "performance.md").read_text()


@pytest.mark.parametrize(
    "text, message",
    [
        ("{", "a.jsonl:1: "),
        (json.dumps({"op": "attn", "mode": "fwd", "ms": 1.0}), "a.jsonl:1: 'D'"),
        (json.dumps(row("attn", 1.0) | {"ms": 0.0}), "a.jsonl:1: 'ms' must be positive"),
        ("", "no measurements of Attn"),
    ],
)
def test_errors(project, capsys, text, message):
    (project / "benchmarks" / "results" / "a.jsonl").write_text(text)
    assert report.main(["--root", str(project), "--no-plots"]) == 1
    assert message in capsys.readouterr().err
