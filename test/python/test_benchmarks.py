# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Smoke tests of the benchmarks that use harness.py.

Their options, the modules that they compile, and, with small sizes and artifacts for the host, how they check, time and
record.
"""

import functools
import importlib
import json
import re
import runpy
import subprocess
import sys

import harness
import pytest
from conftest import BUILD, ROOT
from tool_cache import run_tool

# Options in addition to --artifacts and --compile, and names of some artifacts.
BENCHMARKS = {
    "backward.py": ([], {"h32_32_d64_64_bf16_full", "h64_8_d128_128_bf16_causal"}),
    "blocks.py": ([], {"fwd_blocks128_shared", "bwd_blocks128_heads"}),
    "decode.py": (["--schedule=a=#attn_tile.multistage<query_tile = 16, key_tile = 64, stages = 2, warps = 1>"],
                  {"decode_b1_h32_8_s65536_d128", "decode_b64_h32_8_s4096_d128.a"}),
    "dropout.py": (["--suites=parts,concurrent,grid,attention,layers"],
                   {"parts-h32_32_d128_c4096-arx6-full", "concurrent-philox7", "llama3-8b-train-arx6-fused"}),
    "forward.py": (["--groups=dense,gqa,mods"], {"h16_16_d128_128_bf16_full_alibi", "h64_8_d128_128_bf16_causal"}),
    "gemm.py": (["--schedule=wide=#attn_tile.matmul_sequential<row_tile = 16, column_tile = 32, depth_tile = 64>"],
                {"nt", "nn_bias", "nn_wide"}),
    "head_maps.py": ([], {"map_full", "unchecked_causal", "groups_causal"}),
    "linear_attention.py": ([], {"plain_fwd_h16_d128", "gated_bwd_h1_d64", "kimi_decode_h16_d128",
                                 "delta_packed_h16_d64"}),
    "linear_schedules.py": (["--suite=few", "--only=plain_decode_d64"],
                            {"plain_decode_d64.chosen", "plain_decode_d64.r_32"}),
    "merge.py": ([], {"fwd_bf16_d128_p2", "bwd_f32_d128_p8"}),
    "recompute.py": ([], {"blocks_1000", "blocks_20"}),
    "schedules.py": (["--suite=sm_80"], {"h16_16_d128_128_bf16_causal.chosen", "h8_8_d256_256_bf16_full.128_32_2_8"}),
    "sequences.py": ([], {"batch_h16_16_d128_full", "packed_h64_8_d128_causal"}),
    "host.py": (["--suite=packed"], {"h8_2_d64_64_f32_full-native-1.4x32packed"}),
    "masks.py": ([], {"causal", "block_causal_document"}),
}
# The same programs with other options.
VARIANTS = [("backward.py", ["--deterministic", "--groups=gqa"], {"h64_8_d128_128_bf16_causal"}),
            ("sequences.py", ["--mode=bwd"], {"grad_packed_h32_32_d64_full", "packed_h32_32_d64_full"}),
            ("masks.py", ["--backward"], {"causal_grad", "block_causal_document_grad"})]
PARAMETERS = [pytest.param(name, *rest, id=name[:-3]) for name, rest in BENCHMARKS.items()]
PARAMETERS += [pytest.param(*variant, id=variant[0][:-3] + "".join(variant[1])) for variant in VARIANTS]


def run(name, *arguments):
    command = [sys.executable, ROOT / "benchmarks" / name, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture
def compiler(tmp_path):
    """A compiler that parses and verifies modules, and no more, in a build of the tested source tree."""
    if not (BUILD / "bin" / "attn-opt").is_file():
        pytest.skip("needs a build")
    folder = tmp_path / "build" / "bin"
    folder.mkdir(parents=True)
    (folder.parent / "CMakeCache.txt").write_text(f"CMAKE_HOME_DIRECTORY:INTERNAL={ROOT}\n")
    program = folder / "attn-compile"
    program.write_text(f'#!/bin/sh\nexec {BUILD.resolve()}/bin/attn-opt "$1" -o "$3"\n')
    program.chmod(0o755)
    (folder / "attn-opt").symlink_to(BUILD.resolve() / "bin" / "attn-opt")
    return program


@pytest.mark.parametrize("name, options, artifacts", PARAMETERS)
def test_help(name, options, artifacts):
    done = run(name, "--help")
    assert done.returncode == 0 and "--artifacts" in done.stdout and "--commit" not in done.stdout
    done = run(name)
    assert done.returncode == 2 and "the following arguments are required: --artifacts" in done.stderr


@pytest.mark.parametrize("name, options, artifacts", PARAMETERS)
def test_modules_are_valid(name, options, artifacts, compiler, tmp_path):
    folder = tmp_path / "artifacts"
    done = run(name, "--artifacts", folder, "--compile", compiler, *options)
    assert done.returncode == 0, done.stderr
    commits = json.loads((folder / "commits.json").read_text())
    assert artifacts <= set(commits) and all(commits.values())
    assert {file.stem for file in folder.glob("*.so")} == set(commits)


@pytest.mark.parametrize("name, options, artifacts", PARAMETERS)
def test_compilers_that_fail_end_the_program(name, options, artifacts, compiler, tmp_path):
    compiler.write_text("#!/bin/sh\necho no >&2\nexit 1\n")
    done = run(name, "--artifacts", tmp_path / "artifacts", "--compile", compiler, *options)
    assert done.returncode != 0 and not (tmp_path / "artifacts" / "commits.json").exists()


@pytest.mark.parametrize(
    "name", ["compiler.py", "first_calls.py", "python_overhead.py", "serving.py", "training.py", "llama.py"]
)
def test_help_of_benchmarks_without_artifacts(name, monkeypatch, capsys):
    if name in ("python_overhead.py", "training.py"):
        pytest.importorskip("torch")
    # In this process, which loads PyTorch anyway.
    program = str(ROOT / "benchmarks" / name)
    monkeypatch.setattr(sys, "argv", [program, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(program, run_name="__main__")
    text = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 0 and "commit of what is measured (default: that of the build" in text


# ---------------------------------------------------------------------------
# On the host
# ---------------------------------------------------------------------------


@pytest.fixture
def measure(tmp_path, monkeypatch):
    """measure(program, options, attributes of the program, ...): exit code and rows, of a run on the host."""
    pytest.importorskip("torch")
    if not (BUILD / "bin" / "attn-compile").is_file():
        pytest.skip("needs a build")
    monkeypatch.setattr(harness, "DEVICE", "cpu")
    # The tested tree may have uncommitted changes.
    monkeypatch.setattr(harness, "find_commit", lambda compiler: harness.run_git(ROOT, "rev-parse", "HEAD"))
    monkeypatch.setattr(harness, "find_problem", lambda commit, history: None)
    monkeypatch.setitem(harness.OPTIONS, "target", dict(default="host"))
    compile_one = harness.Compiler.compile

    def compile_fast(self, name, text, target, *flags):
        return compile_one(self, name, text, target, "--host-opt-level=0", *flags)

    monkeypatch.setattr(harness.Compiler, "compile", compile_fast)
    monkeypatch.setattr(harness.Compiler, "run", functools.partial(run_tool, check=False, quiet=True))

    def run_program(name, *options, **attributes):
        program = importlib.import_module(name)
        for attribute, value in attributes.items():
            monkeypatch.setattr(program, attribute, value)
        out, folder = tmp_path / f"{name}.jsonl", tmp_path / "artifacts"
        common = [name, "--artifacts", str(folder), *options]
        codes = []
        for more in (["--compile", str(BUILD / "bin" / "attn-compile")],
                     ["--runtime", str(BUILD / "lib" / "libattn_runtime.so"), "--out", str(out)]):
            monkeypatch.setattr(sys, "argv", [*common, *more])
            codes.append(program.main())
        assert codes[0] == 0
        rows = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
        assert all(row["ms"] > 0 and row["device"] == "cpu" and len(row["commit"]) == 40 for row in rows)
        return codes[1], rows

    return run_program


@pytest.mark.parametrize("options", [[], ["--backward"]])
def test_masks(measure, options, capsys):
    sizes = dict(HEADS=4, KV_HEADS=2, LENGTH=192, DIM=32)
    code, rows = measure("masks", "--only=causal,causal_document", "--peers=none", "--repeats=1", *options, **sizes)
    assert code == 0 and [row["mask"] for row in rows] == ["causal", "causal_document"]
    assert rows[0]["area"] == 193 / 384 and rows[1]["area"] < 0.2 and all(row["error"] < 1e-2 for row in rows)
    assert "WRONG" not in capsys.readouterr().out


def tiny_cases():
    """Cases of a group that the host computes in little time: group of benchmarks/forward.py."""
    from cases import Case

    yield Case(4, 2, 32, 32, mask="#attn.causal"), 2, 96
    yield Case(2, 2, 32, 32), 1, 64


@pytest.mark.parametrize("options, mode", [([], "bwd"), (["--deterministic"], "bwd_deterministic")])
def test_backward(measure, monkeypatch, options, mode, capsys):
    monkeypatch.setitem(importlib.import_module("forward").GROUPS, "dense", tiny_cases)
    common = ["--groups=dense", "--target=host", "--peers=none", "--repeats=1", *options]
    code, rows = measure("backward", *common)
    found = [(row["S"], row["mask"], row["mode"]) for row in rows]
    assert code == 0 and found == [(96, "causal", mode), (64, "full", mode)]
    assert all(row["error"] < 1e-2 and row["target"] == "host" for row in rows)
    code, rows = measure("backward", *common, "--lengths=64")
    assert code == 0 and [row["S"] for row in rows][2:] == [64]


def test_unknown_groups(measure):
    with pytest.raises(SystemExit, match="unknown group 'none'"):
        measure("backward", "--groups", "none")


def test_forward(measure, monkeypatch, capsys):
    forward = importlib.import_module("forward")
    monkeypatch.setitem(forward.GROUPS, "dense", tiny_cases)
    common = ["--peers=none", "--repeats=1"]
    code, rows = measure("forward", "--groups=dense", *common)
    assert code == 0 and [(row["S"], row["mask"], row["Hkv"]) for row in rows] == [(96, "causal", 2), (64, "full", 2)]
    assert all(row["error"] < 6e-3 and row["lse_error"] < 2e-3 and row["mode"] == "fwd" for row in rows)


@pytest.mark.parametrize("score", ["alibi", "full_bias", "softcap", "graph"])
def test_forward_with_score_changes(measure, monkeypatch, score, capsys):
    from cases import Case

    cases = [(Case(2, 2, 32, 32, score=score), 1, 64)]
    monkeypatch.setitem(importlib.import_module("forward").GROUPS, "mods", lambda: cases)
    code, (row,) = measure("forward", "--groups=mods", "--peers=none", "--repeats=1")
    assert code == 0 and row["mask"] == f"mod:{score}" and row["error"] < 6e-3


def test_variants_are_not_recorded(measure, monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(importlib.import_module("forward").GROUPS, "dense", lambda: list(tiny_cases())[:1])
    common = ["--groups=dense", "--peers=none", "--repeats=1", "--variants", str(tmp_path / "other")]
    measure("forward", *common)
    (tmp_path / "artifacts").rename(tmp_path / "other")
    code, rows = measure("forward", *common)
    assert code == 0 and [row["op"] for row in rows] == ["attn", "attn"]
    assert " other " in capsys.readouterr().out


def test_wrong_results_end_the_program(measure, monkeypatch, capsys):
    monkeypatch.setitem(importlib.import_module("forward").GROUPS, "dense", lambda: list(tiny_cases())[:1])
    monkeypatch.setattr(harness, "check_forward", lambda problem, out, lse: (0.5, 0.0))
    code, _ = measure("forward", "--groups=dense", "--peers=none", "--repeats=1")
    assert code == 1 and "WRONG" in capsys.readouterr().out


def test_decode(measure, capsys):
    schedule = "--schedule=wide=#attn_tile.sequential<query_tile = 2, key_tile = 32, pack_gqa = true>"
    common = ["--target=host", "--peers=none", "--repeats=1", schedule]
    code, rows = measure("decode", *common, CASES=((2, 4, 2, 200, 32),), ROUNDS=1)
    assert code == 0 and [(row["op"], row["schedule"], row["S"]) for row in rows] == [("attn", "", 200)]
    assert rows[0]["error"] < 6e-3 and rows[0]["tbytes_per_s"] > 0
    assert "wide" in capsys.readouterr().out
    _, rows = measure("decode", *common, "--record")
    assert [row["op"] for row in rows] == ["attn", "attn", "wide"]
    for name in ("wide", "=a", "attn=#attn_tile.scalar"):
        with pytest.raises(SystemExit, match="--schedule takes NAME=SCHEDULE"):
            measure("decode", *common, f"--schedule={name}")
    few = ["--target=host", "--peers=none", "--repeats=1"]
    code, rows = measure("decode", *few, CASES=((2, 4, 2, 200, 32, 3), (2, 4, 2, 200, 32, 1, True)), ROUNDS=1)
    assert code == 0 and [row["mask"] for row in rows][-2:] == ["3 queries", "sinks"]
    assert all(row["error"] < 6e-3 and row["lse_error"] < 1e-3 for row in rows)


def test_serving(monkeypatch, tmp_path, capsys):
    pytest.importorskip("torch")
    serving = importlib.import_module("serving")
    for name, value in (("DEVICE", "cpu"), ("find_problem", lambda commit, history: None),
                        ("find_package_commit", lambda: harness.run_git(ROOT, "rev-parse", "HEAD"))):
        monkeypatch.setattr(harness, name, value)
    heads, dim = (4, 2), 32
    cases = [
        serving.Case("decode", "tiny", (1, 1), (40, 40), None, heads, dim),
        serving.Case("decode", "window", (3, 3), (40, 40), 0, heads, dim, window=8, softcap=2.0),
        serving.Case("decode", "sinks", (1, 1), (40, 40), None, heads, dim, sinks=True),
        serving.Case("ragged", "pages", (1, 1, 1), (33, 1, 70), 16, heads, dim),
        serving.Case("prefill", "mixed", (5, 1, 1), (40, 33, 1), 16, heads, dim),
    ]
    for name, value in (("HEADS", 4), ("KEY_HEADS", 2), ("DIM", dim), ("ROUNDS", 1), ("make_cases", lambda: cases)):
        monkeypatch.setattr(serving, name, value)
    append, prefix = serving.run_append, serving.run_prefix
    monkeypatch.setattr(serving, "run_append", lambda *arguments: append(*arguments, batch=2, keys=70))
    monkeypatch.setattr(serving, "run_prefix", lambda *arguments: prefix(*arguments, batch=3, prefix=128, own=64))
    out = tmp_path / "rows.jsonl"
    assert serving.main(["--peers=none", "--repeats=1", f"--out={out}"]) == 0, capsys.readouterr().out
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    found = [(row["mode"], row["case"], row["op"]) for row in rows]
    assert found[: len(cases)] == [(case.suite, case.name, "attn") for case in cases]
    assert {op for mode, _, op in found[len(cases) :]} == {"append", "attention", "append_attention", "attn", "unshared"}
    assert all(row["error"] < harness.MAX_ERROR for row in rows if "error" in row)
    with pytest.raises(SystemExit, match="unknown suite 'x'"):
        serving.main(["--suites=x"])
    with pytest.raises(SystemExit, match="unknown peer 'y'"):
        serving.main(["--peers=y"])


def test_blocks(measure, capsys):
    cases = ("fwd", 16, 4), ("bwd", 32, 1)
    sizes = dict(HEADS=4, KV_HEADS=2, DIM=32, LENGTH=128, CASES=cases, DENSITIES=(0.5,))
    code, rows = measure("blocks", "--repeats=1", **sizes)
    found = [(row["mode"], row["mask"]) for row in rows]
    assert code == 0 and found == [("fwd", "blocks16_heads_50%"), ("bwd", "blocks32_shared_50%")]


def test_head_maps(measure, monkeypatch, capsys):
    # The program without the check is one for GPUs.
    forms = {"map": "attn", "groups": "attn_groups"}
    code, rows = measure("head_maps", "--rounds=1", HEADS=4, KV_HEADS=2, DIM=32, LENGTHS=(64,), FORMS=forms)
    assert code == 0 and [(row["op"], row["mask"]) for row in rows] == [
        ("attn", "head_map_full"), ("attn_groups", "head_map_full"),
        ("attn", "head_map_causal"), ("attn_groups", "head_map_causal")]


def test_linear_attention(measure, capsys):
    cases = (2, 1, 70), (1, 2, 20)
    common = ["--rounds=1", "--repeats=1", "--peers=none"]
    small = dict(DECODE_CASES=(), PACKED_CASES=(), DIMS=(16,))
    code, rows = measure("linear_attention", *common, CASES=cases[:1], **small)
    assert code == 0 and [(row["H"], row["S"], row["decay"], row["mode"]) for row in rows] == [
        (2, 70, decay, mode)
        for decay in ("plain", "head", "token", "element", "delta", "gated", "kimi") for mode in ("fwd", "bwd")]
    code, more = measure("linear_attention", *common, "--only=head_fwd", CASES=cases, **small)
    assert code == 0 and [(row["H"], row["S"], row["decay"]) for row in more[len(rows):]] == [
        (2, 70, "head"), (1, 20, "head")]
    code, last = measure("linear_attention", *common, "--lengths=20", "--only=head_fwd", CASES=cases, **small)
    assert code == 0 and [(row["S"], row["decay"]) for row in last[len(more):]] == [(20, "head")]


def test_linear_attention_decode(measure, capsys):
    sizes = dict(CASES=(), DECODE_CASES=((2, 1), (2, 3)), PACKED_CASES=(), DIMS=(16,), LAYER_BYTES=2**13)
    code, rows = measure("linear_attention", "--rounds=1", "--repeats=1", "--peers=none", **sizes)
    assert code == 0 and [(row["H"], row["B"], row["decay"], row["mode"]) for row in rows] == [
        (2, batch, decay, "decode") for batch in (1, 3)
        for decay in ("plain", "head", "token", "element", "delta", "gated", "kimi")]
    assert all(row["copy_gbytes"] > 0 and row["error"] < 1e-2 for row in rows)


def test_linear_attention_packed(measure, capsys):
    cases = (2, 3, 20), (2, 1, 70), (2, 4, 1)
    sizes = dict(CASES=(), DECODE_CASES=(), PACKED_CASES=cases, DIMS=(16,), LAYER_BYTES=2**13)
    code, rows = measure("linear_attention", "--rounds=1", "--repeats=1", "--peers=none", **sizes)
    assert code == 0 and [(row["H"], row["B"], row["S"], row["decay"], row["mode"]) for row in rows] == [
        (*case, decay, "packed") for case in cases
        for decay in ("plain", "head", "token", "element", "delta", "gated", "kimi")]
    assert all(row["error"] < 1e-2 for row in rows)


def test_merge(measure, capsys):
    sizes = dict(BATCH=2, LENGTH=99, COPIED_BYTES=2**16, LAYOUTS=(("bf16", 2, 24), ("f32", 2, 16)), PARTS=(2, 3))
    code, rows = measure("merge", "--repeats=1", **sizes)
    assert code == 0 and [(row["mode"], row["dtype"], row["parts"]) for row in rows] == [
        (mode, dtype, parts) for mode in ("fwd", "bwd") for dtype in ("bf16", "f32") for parts in (2, 3)]


@pytest.mark.parametrize("mode", ["fwd", "bwd"])
def test_sequences(measure, mode, capsys):
    sizes = dict(SHAPES=((4, 2, 32),), LENGTHS={"4x32": [32] * 4, "mixed": [5, 100, 23]})
    code, rows = measure("sequences", "--repeats=1", f"--mode={mode}", **sizes)
    assert code == 0 and [(row["op"], row["mask"], row["mode"]) for row in rows] == [
        (op, f"packed_{name}_{mask}", mode) for mask in ("full", "causal")
        for op, name in (("attn_batch", "4x32"), ("attn", "4x32"), ("attn", "mixed"))]
    assert "DIFFERENT" not in capsys.readouterr().out


def test_gemm(measure, capsys):
    common = ["--target=host", "--rounds=1", "--launches=1", "--shapes=24x40x32"]
    code, rows = measure("gemm", *common)
    assert code == 0 and [(row["op"], row["form"], row["epilogue"], row["M"]) for row in rows] == [
        (op, form, epilogue, 24) for form in ("nt", "nn")
        for op, epilogue in (("cublas", "none"), ("attn", "none"), ("attn", "bias"))]
    code, rows = measure("gemm", *common, "--only=nn_bias")
    assert code == 0 and [row["op"] for row in rows[6:]] == ["cublas", "attn"]
    with pytest.raises(SystemExit, match="there is no artifact 'tt'"):
        measure("gemm", *common, "--only=tt")


def tiny_schedules():
    """Cases of a suite of benchmarks/schedules.py."""
    from cases import Case

    for mask, more in (("causal", {}), ("full", dict(score="softcap")), ("full", dict(dropout=DROPOUT))):
        attribute = "#attn.causal" if mask == "causal" else ""
        for schedule in ("", "#attn_tile.sequential<query_tile = 16, key_tile = 32>"):
            yield mask, Case(2, 2, 32, 32, mask=attribute, schedule=schedule, **more)


DROPOUT = "#attn.dropout<p = 0.125, rng = #attn.arx<rounds = 6>>"


def test_schedules(measure, monkeypatch, capsys):
    suites = {"dense": tiny_schedules, "changes": tiny_schedules, "none": lambda: []}
    common = ["--rounds=1", "--repeats=1"]
    code, rows = measure("schedules", *common, "--suite=changes", SUITES=suites, LENGTHS=(256,), get_area=lambda *_: 1)
    assert code == 0 and [(row["change"], row["chosen"]) for row in rows] == [
        (change, chosen) for change in ("none", "softcap", "dropout") for chosen in (True, False)]
    assert re.search("3 cases, . within 3 % of the best, worst .*; 0 wrong", capsys.readouterr().out)
    with pytest.raises(SystemExit, match="there are no artifacts of suite none"):
        measure("schedules", *common, "--suite=none")


def test_host(measure, monkeypatch, capsys):
    import torch

    host = importlib.import_module("host")
    threads = torch.get_num_threads()
    monkeypatch.setenv("ATTN_NUM_THREADS", "1")
    monkeypatch.setattr(host, "get_cpu_name", lambda: "cpu")
    kinds = [host.make(32, "causal", ((40, 40),), ((16, 32),), dtype="f32"),
             host.make(32, "full", ((40, 40),), ((16, 32),), dtype="bf16", is_grad=True)]
    code, rows = measure("host", "--suite=few", "--rounds=1", SUITES={"few": kinds, "dense": []})
    torch.set_num_threads(threads)
    assert code == 0 and [(row["mode"], row["dtype"], row["chosen"]) for row in rows] == [
        (mode, dtype, chosen) for mode, dtype in (("fwd", "f32"), ("bwd", "bf16")) for chosen in (True, False)]
    assert re.search("2 cases, . within 3 % of the best, worst .*; 0 wrong", capsys.readouterr().out)


EXAMPLE = """func.func @blocks_fwd(%x: tensor<16x32xbf16>, %gain: tensor<32xbf16>)
    -> (tensor<16x32xbf16>, tensor<16x32xf32>) {
  %e = tensor.empty() : tensor<16x32xf32>
  %0 = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %gain : tensor<16x32xbf16>, tensor<32xbf16>) outs(%e : tensor<16x32xf32>) {
  ^bb0(%a: bf16, %g: bf16, %o: f32):
    %1 = arith.extf %a : bf16 to f32
    %2 = arith.extf %g : bf16 to f32
    %3 = arith.mulf %1, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<16x32xf32>
  %r = tensor.empty() : tensor<16x32xbf16>
  %4 = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<16x32xf32>) outs(%r : tensor<16x32xbf16>) {
  ^bb0(%a: f32, %o: bf16):
    %5 = arith.truncf %a : f32 to bf16
    linalg.yield %5 : bf16
  } -> tensor<16x32xbf16>
  return %4, %0 : tensor<16x32xbf16>, tensor<16x32xf32>
}
func.func @blocks_bwd(%x: tensor<16x32xbf16>, %gain: tensor<32xbf16>, %y: tensor<16x32xbf16>,
    %saved: tensor<16x32xf32>, %dy: tensor<16x32xbf16>) -> tensor<16x32xbf16> {
  %r = tensor.empty() : tensor<16x32xbf16>
  %0 = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%dy, %gain : tensor<16x32xbf16>, tensor<32xbf16>) outs(%r : tensor<16x32xbf16>) {
  ^bb0(%a: bf16, %g: bf16, %o: bf16):
    %1 = arith.mulf %a, %g : bf16
    linalg.yield %1 : bf16
  } -> tensor<16x32xbf16>
  return %0 : tensor<16x32xbf16>
}
"""


def test_recompute(measure, monkeypatch, capsys):
    # Functions with the signatures of the blocks' functions, and a pool that counts nothing.
    def reference(torch, inputs, dout):
        return [dout.double() * inputs[1].double()]

    class Pool:
        def __init__(self, runtime, stream):
            pass

        def high(self):
            return 2_000_000

    stubs = dict(Pool=Pool, reference=reference, make_modules=lambda compiler: {"blocks_20": EXAMPLE})
    code, rows = measure("recompute", "--target=host", "--repeats=1", BUDGETS=(20, 10), **stubs)
    assert code == 0 and [(row["budget_mb"], row["peak_mb"]) for row in rows] == [(20, 2.0 + 16 * 32 * 4e-6)]
    assert rows[0]["error"] < 1e-2


def test_dropout(measure, capsys):
    dropout = importlib.import_module("dropout")
    layer = dropout.Layer(32, 4, 2, 16)
    plain = dropout.Layer(64, 4, 4, 16)
    sizes = dict(
        GRID=((layer, "arx6"),),
        GRID_LENGTHS=(64,),
        ATTENTION=((plain, 2, 64),),
        TRAIN_LENGTHS=(64,),
        MODELS={"llama3-8b": layer},
        CONCURRENT=dict(M=64, N=48, K=32),
        CONCURRENT_HEADS=4,
        CONCURRENT_LENGTHS=(64,),
        CONCURRENT_RNGS=("arx6",),
    )
    common = ["--rounds=1", "--peers=none"]
    code, rows = measure("dropout", "--suites=parts,concurrent,attention", *common, **sizes)
    assert code == 0
    code, rows = measure("dropout", "--suites=layers", "--only=train-arx6", *common)
    assert code == 0 and "WRONG" not in capsys.readouterr().out
    found = {}
    for row in rows:
        found.setdefault(row["suite"], set()).add(row["op"])
    assert found == {
        "parts": {"gemm", "mask_rows", "mask_columns", *(f"{mode}_{form}" for mode in ("fwd", "bwd")
                                                         for form in ("none", "kernel", "rows"))} | {"bwd_columns"},
        "concurrent": {"gemm", "mask", "sequential", "streams", "fused"},
        "attention": {"attn_nodrop", "attn", "attn_hoisted"},
        "layers": {"attn", "attn_sequential", "attn_hoisted"},
    }
    assert {row["mode"] for row in rows if row["suite"] == "layers"} == {"train"}


def test_compiler(tmp_path, monkeypatch, capsys):
    program = importlib.import_module("compiler")
    monkeypatch.setattr(program, "commands", lambda programs, folder: [("nothing", 1, ["true"])])
    head = harness.run_git(ROOT, "rev-parse", "HEAD") or 40 * "0"
    common = ["--build-dir", str(tmp_path / "build"), "--repeats=1", "--out", str(tmp_path / "rows")]
    assert program.main([*common, "--commit", head]) == 0
    row = json.loads((tmp_path / "rows").read_text())
    assert (row["what"], row["limit_s"], row["commit"]) == ("nothing", 1, head) and row["wall_s"] > 0
    with pytest.raises(SystemExit, match="cannot record a row: the commit of the artifact is unknown"):
        program.main(common)


def test_python_overhead(tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch")
    program = importlib.import_module("python_overhead")
    monkeypatch.setattr(program, "make_calls", lambda device: {"`sdpa`": lambda: None})
    head = harness.run_git(ROOT, "rev-parse", "HEAD") or 40 * "0"
    program.main(["--device=cpu", "--out", str(tmp_path / "rows"), "--commit", head])
    row = json.loads((tmp_path / "rows").read_text())
    assert row["what"] == "call from Python on one position, `sdpa`" and row["limit_s"] and row["commit"] == head

    # Here, torch's compiler leaves functions as they are.
    monkeypatch.setattr(sys.modules["torch"], "compile", lambda function, **options: function)
    monkeypatch.setattr(program, "COMPILED", {"`sdpa`": lambda q, k, v: q * k})
    program.main(["--device=cpu", "--inductor", "--rounds=1", "--out", str(tmp_path / "more"), "--commit", head])
    rows = list(map(json.loads, (tmp_path / "more").read_text().splitlines()))
    assert [row["what"].partition("position, ")[2] for row in rows] == [
        "`sdpa`", "`sdpa`, under Inductor", "`sdpa`, forward and backward under Inductor"
    ]  # fmt: skip
    assert [row["limit_s"] is None for row in rows] == [False, True, True]
