# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""python -m attn.bench: tables, JSON, plots, checks, and errors of options."""

import json
import math
import re
import sys

import pytest

torch = pytest.importorskip("torch")

from attn import bench  # noqa: E402
from test_main import run_module  # noqa: E402

SMALL = ["--device", "cpu", "--heads", "2", "--queries", "40", "--head-dim", "16", "--repeats", "2", "--rounds", "2"]


def run(*arguments):
    return bench.main([*SMALL, *arguments])


def problem(mask="full", **options):
    sizes = {"batch": 2, "heads": 4, "kv_heads": 2, "queries": 20, "keys": 28, "head_dim": 16}
    return bench.Problem(**{**sizes, **options}, mask=bench.MaskSpec.parse(mask))


def test_table(capsys):
    assert run("--mask", "causal", "--kv-heads", "1", "--peers", "torch", "--backward") == 0
    out, err = capsys.readouterr()
    assert "batch 1, heads 2/1 of 16, 40 queries, 40 keys, f32, mask causal" in out
    for name in ("forward", "backward"):
        assert re.search(rf"^{name} +ms +spread +TFLOP/s +to best peer +largest error$", out, re.M)
    number = r"([\d.e+-]+)"
    rows = re.findall(rf"^  (attn|torch \w+) +{number} +± [\d.]+% +{number} +([\d.]+)x +\d\.\de-\d+$", out, re.M)
    names = [name for name, *_ in rows]
    assert names.count("attn") == 2 and names.count("torch math") == 2
    # The best peer is as fast as itself.
    assert "1.00" in [ratio for name, _, _, ratio in rows if name != "attn"]
    assert "torch cudnn       left out: this backend has no kernels for the CPU" in out
    assert "[1/2] preparing attn\n" in err and "[2/2] round 2 of 2\n" in err


def test_json(tmp_path, capsys):
    file = tmp_path / "rows.json"
    assert run("--queries", "1,24", "--keys", "32", "--peers", "torch", "--json", str(file), "--dropout", "0.25") == 0
    report = json.loads(file.read_text())
    assert report["failures"] == [] and [case["problem"]["queries"] for case in report["cases"]] == [1, 24]
    for case in report["cases"]:
        assert case["problem"]["keys"] == 32 and case["problem"]["dropout"] == 0.25
        for row in case["rows"]:
            assert 0 < row["ms_low"] <= row["ms"] <= row["ms_high"] and row["samples"] == 4
            assert 0 <= row["error"] < 1e-4 and not row["is_wrong"]
            flops = 4 * case["problem"]["queries"] * 32 * 16 * 2
            assert row["tflops"] == pytest.approx(flops / row["ms"] / 1e9)
        peers = [row["ms"] for row in case["rows"] if row["name"] != "attn"]
        assert case["rows"][0]["ratio"] == pytest.approx(min(peers) / case["rows"][0]["ms"])


@pytest.mark.parametrize("mask", ["full", "causal", "window:5", "window:5:3", "prefix:7", "chunked:8", "blocks:8",
                                  "documents:9"])
def test_masks(mask):
    """The masks of Attn, of torch and of the reference are the same."""
    for backward in (False, True):
        case = bench.measure(problem(mask), backward, ["torch"], 1, 1)
        assert bench.find_failures(case) == []
        rows = {row["name"]: row for row in case["rows"]}
        assert {"attn", "torch math"} <= set(rows) and not any(row["is_wrong"] for row in rows.values())


def test_gradients():
    case = bench.measure(problem("window:6:2"), True, ["torch"], 1, 1)
    assert bench.find_failures(case) == []
    assert {"attn", "torch math"} <= {row["name"] for row in case["rows"] if not row["is_wrong"]}


def test_pairs():
    assert bench.count_pairs(problem()) == 20 * 28
    assert bench.count_pairs(problem("causal")) == sum(range(9, 29))
    assert bench.count_pairs(problem("window:3", queries=28)) == 1 + 2 + 3 + 25 * 4
    assert bench.count_flops(problem(), False, 10) == 4 * 10 * 16 * 8
    assert bench.count_flops(problem(), True, 10) == 10 * 10 * 16 * 8


@pytest.mark.parametrize("backward", [False, True])
def test_rows_that_are_compared(backward):
    """The last head is, and so is each number that is not finite."""
    sizes = problem(heads=6, kv_heads=6, batch=3)
    inputs = bench._Inputs(sizes)
    reference = bench.Reference(sizes, inputs, backward)
    exact = bench._Run(bench._CANDIDATES["torch"][3], sizes, inputs, backward).compute()
    assert reference.find_error(exact) < 1e-5
    for number in range(len(exact)):
        for place, value in (((-1, -1, -1), math.nan), ((-1, -1, -1), 7.0), ((slice(None), 1, 3), math.inf)):
            results = [result.clone() for result in exact]
            results[number][place] = value
            error = reference.find_error(results)
            assert error > 0.1 if math.isfinite(value) else error == math.inf
    assert [len(rows) for rows in reference.rows] == ([2, 2, 2] if backward else [4])


def test_gradients_that_are_zero(capsys):
    """With one key, gradients of queries and keys are rounding errors."""
    options = ["--queries", "1", "--keys", "1", "--heads", "4", "--kv-heads", "2", "--backward", "--peers", "torch"]
    for dtype in ("f32", "bf16"):
        assert run(*options, "--dtype", dtype) == 0
    assert run("--mask", "window:0", "--backward", "--peers", "torch") == 0
    assert "wrong" not in capsys.readouterr().out


def test_masks_of_torch():
    """Torch gets a dense mask only where it has no other one."""
    from torch.nn.attention.bias import CausalBias

    for mask, sizes in (("full", {}), ("causal", {"queries": 1}), ("window:40:40", {}), ("prefix:28", {})):
        assert bench._make_torch_mask(problem(mask, **sizes)) is None
    assert isinstance(bench._make_torch_mask(problem("causal")), CausalBias)
    for mask, sizes in (("window:5", {}), ("causal", {"queries": 30})):
        assert type(bench._make_torch_mask(problem(mask, **sizes))) is torch.Tensor


def test_windows():
    assert bench.MaskSpec.parse("window:5") == bench.MaskSpec("window", (5, 0))
    windows = {text: bench.MaskSpec.parse(text).window for text in ("full", "causal", "window:5:3", "prefix:2")}
    assert windows == {"full": (-1, -1), "causal": (-1, 0), "window:5:3": (5, 3), "prefix:2": None}


def test_quantiles():
    assert bench._quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert bench._quantile([1.0, 2.0], 0.25) == 1.25 and bench._quantile([7.0], 0.75) == 7.0


class Event:
    """An event of CUDA that a stream without any other work passes at the time ``now``."""

    now = 0.0
    # The time until which the device sleeps.
    busy = 0.0

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.time = max(Event.now, Event.busy)

    def query(self):
        return Event.now >= self.time

    def synchronize(self):
        Event.now = max(Event.now, self.time)

    def elapsed_time(self, other):
        return other.time - self.time


@pytest.mark.parametrize("queueing, slept", [(0.1, 1), (3.0, 4), (1000.0, 64)])
def test_clock_of_gpus(monkeypatch, queueing, slept):
    """The GPU sleeps for longer than a call is queued, unless calls wait themselves."""
    sleeps = []

    def sleep(cycles):
        sleeps.append(cycles // bench._SLEEP_CYCLES)
        Event.busy = Event.now + cycles / bench._SLEEP_CYCLES

    def call():
        Event.now += queueing
        Event.busy = max(Event.now, Event.busy) + 0.5

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "_sleep", sleep)
    clock = bench._Clock("cuda:0")
    elapsed = clock.time(call)
    assert sleeps[-1] == slept
    assert elapsed == pytest.approx(0.5) if queueing < 64 else elapsed > 900
    # The next call knows.
    sleeps.clear()
    clock.time(call)
    assert sleeps == [slept if queueing < 64 else 1]


def test_rounds(monkeypatch):
    """Candidates take turns; no round but the first begins after the deadline."""
    order = []

    class Run:
        def __init__(self, name):
            self.name, self.context = name, bench.contextlib.nullcontext

        def call(self):
            order.append(self.name)

    runs = [Run("a"), Run("b")]
    times = bench._time_in_turn(runs, "cpu", 2, 2, lambda text: None)
    assert order == ["a"] * 3 + ["b"] * 3 + ["a"] * 3 + ["b"] * 3
    assert {name: len(values) for name, values in times.items()} == {"a": 4, "b": 4}
    times = bench._time_in_turn(runs, "cpu", 2, 5, lambda text: None, deadline=0.0)
    assert len(times["a"]) == 2


def test_no_memory(monkeypatch, capsys):
    def fail(*arguments):
        raise RuntimeError("out of memory\nmore")

    monkeypatch.setattr(bench, "Reference", fail)
    assert run("--peers", "none") == 1
    assert "forward pass: expected a result, found: out of memory\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    "change, found", [(lambda out: out + 0.01, "found 0."), (lambda out: out * math.nan, "found no finite number")]
)
def test_wrong_results(monkeypatch, capsys, change, found):
    import attn.torch

    correct = attn.torch.sdpa
    monkeypatch.setattr(attn.torch, "sdpa", lambda *arguments, **options: change(correct(*arguments, **options)))
    assert run("--peers", "none") == 1
    out, err = capsys.readouterr()
    assert "wrong: expected at most 2e-04" in out
    assert f"forward pass: attn: largest error: expected at most 0.0002, {found}" in err


def test_candidates_that_fail(monkeypatch, capsys):
    def fail(message):
        def make(problem):
            raise RuntimeError(message)

        return make

    monkeypatch.setattr(bench, "ATTN", bench.Candidate("attn", fail("no kernel\nmore")))
    monkeypatch.setitem(bench._CANDIDATES, "flex", [bench.Candidate("flex", fail("no compiler"))])
    assert run("--peers", "flex,flash-attn") == 1
    out, err = capsys.readouterr()
    assert "attn              left out: no kernel\n" in out and "left out: no compiler\n" in out
    assert "left out: there is no module flash_attn" in out
    assert "forward pass: attn: expected a result, found: no kernel" in err


def test_peers_have_the_right_options(monkeypatch):
    """FlashAttention's packages get positions before heads, and windows."""
    calls = []

    def flash_attn_func(q, k, v, **options):
        calls.append((tuple(q.shape), tuple(k.shape), options))
        return q, None

    module = type(sys)("flash_attn")
    module.flash_attn_func = flash_attn_func
    monkeypatch.setitem(sys.modules, "flash_attn", module)
    q, k = torch.zeros(2, 4, 20, 16), torch.zeros(2, 2, 28, 16)
    for mask, dropout, options in (
        ("full", 0.0, {}),
        ("causal", 0.5, {"causal": True, "dropout_p": 0.5}),
        ("window:5", 0.0, {"window_size": (5, 0)}),
    ):
        attend = bench._make_flash("flash_attn", True)(problem(mask, device="cuda:0", dropout=dropout))
        assert attend(q, k, k, dropout).shape == q.shape
        assert calls.pop() == ((2, 20, 4, 16), (2, 28, 2, 16), options)
    for mask, options, text in (
        ("prefix:3", {}, "has no mask prefix:3"), ("full", {"dropout": 0.5}, "has no dropout"),
        ("full", {"device": "cpu"}, "need a GPU"),
    ):
        with pytest.raises(bench._Refusal, match=text):
            bench._make_flash("flash_attn", False)(problem(mask, **{"device": "cuda:0", **options}))


@pytest.mark.parametrize("option, value, expected", [
    ("--batch", "0", "expected a number from 1, found '0'"),
    ("--heads", "x", "expected a number from 1, found 'x'"),
    ("--kv-heads", "3", "expected a divisor of --heads 2, found 3"),
    ("--queries", "8,", "expected numbers from 1, joined by commas, found '8,'"),
    ("--keys", "8,9", "expected one number or 1, as --queries has, found 2 numbers"),
    ("--head-dim", "-1", "expected a number from 1, found '-1'"),
    ("--dtype", "f64", "expected one of bf16, f16, f32, found 'f64'"),
    ("--mask", "window", "expected full, causal, window:N, .* or documents:N, found 'window'"),
    ("--mask", "chunked:0", "found 'chunked:0'"),
    ("--dropout", "1", "expected a number from 0 to below 1, found '1'"),
    ("--device", "tpu", "expected one of cpu.*, found 'tpu'"),
    ("--peers", "torch,xla", "expected all, none or some of torch, flex, flash-attn, found 'xla'"),
    ("--repeats", "0", "expected a number from 1, found '0'"),
    ("--rounds", "0", "expected a number from 1, found '0'"),
    ("--json", "/no/such/file.json", "expected a file in a folder that exists, found '/no/such/file.json'"),
    ("--plot", "plot.txt", "expected a name that ends in .svg or .pdf or .png, found 'plot.txt'"),
])  # fmt: skip
def test_bad_options(capsys, option, value, expected):
    with pytest.raises(SystemExit) as exit:
        run(f"{option}={value}")
    assert exit.value.code == 2
    assert re.search(rf"error: argument {option}: .*{expected}", capsys.readouterr().err)


def test_documents_need_keys(capsys):
    with pytest.raises(SystemExit) as exit:
        run("--mask=documents:8", "--keys=20")
    assert exit.value.code == 2
    message = "argument --queries: expected at most --keys 20 with a mask of documents, found 40"
    assert message in capsys.readouterr().err


def test_plot_of_lengths(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    file, rows = tmp_path / "plot.svg", tmp_path / "rows.json"
    options = ["--queries", "16,32", "--peers", "torch", "--backward", "--plot", str(file), "--json", str(rows)]
    assert run(*options) == 0
    assert "</svg>" in file.read_text()
    report = json.loads(rows.read_text())
    figure = bench.draw_report(report)
    figure.canvas.draw()
    assert [axes.get_title() for axes in figure.axes] == ["forward", "backward"]
    for axes in figure.axes:
        labels = [text.get_text() for text in axes.get_legend().get_texts()]
        assert labels[0] == "attn" and "torch math" in labels and len(axes.get_lines()) == len(labels)
        for line in axes.get_lines():
            x, y = line.get_data()
            assert list(x) == [16, 32]
            for values, (low, high) in ((x, axes.get_xlim()), (y, axes.get_ylim())):
                assert all(low < value < high for value in values)
        inside, outside = axes.get_window_extent(), figure.bbox
        assert outside.x0 <= inside.x0 < inside.x1 <= outside.x1 and outside.y0 <= inside.y0 < inside.y1 <= outside.y1


def test_plot_of_one_length(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    rows = tmp_path / "rows.json"
    assert run("--peers", "torch", "--json", str(rows)) == 0
    report = json.loads(rows.read_text())
    (axes,) = bench.draw_report(report).axes
    heights = [row["tflops"] for row in report["cases"][0]["rows"]]
    assert [bar.get_height() for bar in axes.patches] == pytest.approx(heights)
    assert axes.get_ylim()[0] == 0 and max(heights) < axes.get_ylim()[1]
    assert [label.get_text() for label in axes.get_xticklabels()][0] == "attn"


def test_plot_without_matplotlib(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(SystemExit) as exit:
        run("--plot", "plot.svg")
    assert exit.value.code == 2
    assert "argument --plot: expected matplotlib to be installed, found no module" in capsys.readouterr().err


def test_without_torch():
    result = run_module(module="attn.bench", blocked=True)
    assert result.returncode == 1 and "expected the module 'torch', found none; install it" in result.stderr
    result = run_module("--heads", "0", module="attn.bench", blocked=True)
    assert result.returncode == 2 and "argument --heads" in result.stderr


def test_help():
    result = run_module("--help", module="attn.bench", blocked=True)
    assert result.returncode == 0
    options = "batch heads kv-heads queries keys head-dim dtype mask dropout backward device peers repeats json plot"
    for option in options.split():
        assert f"--{option}" in result.stdout
    examples = re.findall(r"^  python -m attn\.bench(.*)$", result.stdout.split("examples:")[1], re.M)
    assert len(examples) >= 4
    for example in examples:
        bench.make_parser().parse_args(example.split())
