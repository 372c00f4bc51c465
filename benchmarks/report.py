#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the performance pages from the recorded measurements.

    python3 benchmarks/report.py [--root DIR]

Reads benchmarks/results/*.jsonl and writes docs/performance.md, the plots in
docs/images, and the part of README.md between the performance markers. One
line of a results file is one measurement of one kernel: op (attn or a peer's
name), mode, B, H, Hkv, S, D, causal, p, mask, ms, tflops, date, device, commit
and, where a commit was measured in several processes on a day, run. The last row
of a case, in the order of file names and lines, counts. A peer is compared with
the row of Attn of the same process. peers.jsonl has the runs with all peers at
once. compiler.jsonl is about the compiler itself, see compiler.py.
"""

import argparse
import json
import math
import pathlib
import re
import sys
import textwrap
from collections import Counter, defaultdict
from dataclasses import dataclass

OURS = "attn"
NAMES = {
    "attn": "Attn",
    "cudnn": "cuDNN",
    "fa2": "FlashAttention-2",
    "fa3": "FlashAttention-3",
    "fa4": "FlashAttention-4",
    "flex": "FlexAttention (Triton)",
    "flex_flash": "FlexAttention (FLASH)",
    "attn_batch": "the batch",
    "attn_groups": "equal groups",
    "attn_unchecked": "the map unchecked",
}
MODES = {"fwd": "Forward", "bwd": "Backward", "bwd_deterministic": "Backward, deterministic", "decode": "Decoding"}
# Peers that are kernels of Attn, too: they show what a feature costs.
OWN = {"attn_batch", "attn_groups", "attn_unchecked"}
# Rows of the summary that say more about another one.
DETAILS = {"Training step with dropout, projection as it is", "Attention of a training step with dropout"}
BEGIN, END = "<!-- performance -->", "<!-- /performance -->"
# The most columns of a line of text, and of a row of a table.
TEXT_COLUMNS, TABLE_COLUMNS = 120, 160


@dataclass(frozen=True, order=True)
class Case:
    """What was computed, and on which device."""

    device: str
    mode: str
    D: int
    mask: str
    p: float
    H: int
    Hkv: int
    S: int
    B: int
    dtype: str

    @staticmethod
    def of(row):
        mask = row.get("mask") or ("causal" if row.get("causal") else "full")
        return Case(
            row.get("device", "unknown device"),
            row["mode"],
            row["D"],
            mask,
            row.get("p", 0.0),
            row["H"],
            row.get("Hkv", row["H"]),
            row["S"],
            row["B"],
            row.get("dtype", "bf16"),
        )

    @property
    def group(self):
        """The table that the case belongs to."""
        title = MODES.get(self.mode, self.mode)
        if self.p > 0:
            return f"{title} with dropout"
        if self.mask.startswith("mod:"):
            return f"{title} with score_mod"
        if self.mask.startswith("packed_"):
            return f"{title} of packed sequences against batches of equal length"
        if self.mask.startswith("head_map_"):
            return f"{title} with a map of heads against equal groups"
        if self.mask not in ("full", "causal"):
            return f"{title} with masks"
        return f"{title}, grouped heads" if self.H != self.Hkv else title


class ReportError(Exception):
    """A results file cannot be read, or a page not be written."""


def fill(text):
    """The lines of a paragraph, or of an item of a list."""
    indent = "  " if text.startswith("- ") else ""
    return textwrap.wrap(
        text, TEXT_COLUMNS, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def make_table(header, rows):
    """The lines of a table, whose cells are texts."""
    lines = ["| " + " | ".join(cells) + " |" for cells in (header, *rows)]
    for line in lines:
        if len(line) > TABLE_COLUMNS:
            raise ReportError(f"a row of a table has {len(line)} columns, expected at most {TABLE_COLUMNS}: {line}")
    return [lines[0], "|---" * len(header) + "|", *lines[1:]]


def group_by(items, get_key):
    """{key: items with that key}, in the order of the items."""
    groups = defaultdict(list)
    for item in items:
        groups[get_key(item)].append(item)
    return groups


def get_run(row):
    """The fields that rows of one run have in common."""
    return row.get("date"), row.get("commit"), row.get("run")


def read_rows(directory):
    """Rows of all cases: {case: {op: row}}; a peer's row has Attn's row of the same run as "beside"."""
    cases = defaultdict(dict)
    runs = {}
    for path in sorted(pathlib.Path(directory).glob("*.jsonl")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                if "mode" not in row or "schedule" in row or "suite" in row:
                    continue  # No attention: a ceiling, such as a matmul, or the compiler. Or one of many schedules.
                if not row["ms"] > 0:
                    raise ValueError("'ms' must be positive")
                case = Case.of(row)
                cases[case][row["op"]] = row
                if row["op"] == OURS:
                    runs[case, get_run(row)] = row
            except (ValueError, KeyError, TypeError) as error:
                raise ReportError(f"{path}:{number}: {error}") from error
    for case, rows in cases.items():
        for op, row in rows.items():
            if op != OURS and (case, get_run(row)) in runs:
                row["beside"] = runs[case, get_run(row)]
    return cases


def read_compiler_rows(path):
    """The last row of each measurement of the compiler itself: {(what, machine): row}."""
    rows = {}
    if not path.exists():
        return rows
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            row = json.loads(line)
            if not row["wall_s"] > 0:
                raise ValueError("'wall_s' must be positive")
            rows[row["what"], row["machine"]] = row
        except (ValueError, KeyError, TypeError) as error:
            raise ReportError(f"{path}:{number}: {error}") from error
    return rows


def read_gemm_rows(path):
    """The last rows of each matmul: {(device, M, N, K, form, op, epilogue): row}."""
    rows = {}
    if not path.exists():
        return rows
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            row = json.loads(line)
            if not row["ms"] > 0:
                raise ValueError("'ms' must be positive")
            rows[(row["device"], *(row[key] for key in ("M", "N", "K", "form", "op", "epilogue")))] = row
        except (ValueError, KeyError, TypeError) as error:
            raise ReportError(f"{path}:{number}: {error}") from error
    return rows


def gemm_table(rows):
    """Matmuls and cuBLAS in the same run."""
    lines = [
        "## GEMM",
        "",
        *fill(
            "bf16, [M, K] by [N, K] (nt, a linear layer) or by [K, N] (nn), sides timed in turn, several launches at a "
            "time; in brackets the rate relative to cuBLAS, whose GEMMs have no bias. By `benchmarks/gemm.py`."
        ),
        "",
    ]
    table = []
    for (device, m, n, k, form, op, _), peer in rows.items():
        if op != "cublas":
            continue
        cells = [f"{m} x {n} x {k}", form]
        for epilogue in ("none", "bias"):
            row = rows.get((device, m, n, k, form, OURS, epilogue))
            same_run = row and get_run(row) == get_run(peer)
            cells.append(f"{rate(row)} ({peer['ms'] / row['ms']:.2f}x)" if same_run else "")
        table.append([*cells, rate(peer), device, peer.get("date", "")])
    header = ["M x N x K", "form", "Attn", "Attn with bias", "cuBLAS", "device", "date"]
    return [*lines, *make_table(header, table), ""]


DROPOUT_OPS = {
    "attn": "in the kernel",
    "attn_sequential": "by a kernel before",
    "attn_hoisted": "concurrent with the matmul",
    "attn_nodrop": "no dropout",
    "cudnn": "cuBLAS + cuDNN",
    "fa2": "cuBLAS + FlashAttention-2",
}


def read_dropout_suite(directory, suite):
    """The rows of a suite of benchmarks/dropout.py."""
    for path in (directory / "dropout.jsonl", directory / "peers.jsonl"):
        for number, line in enumerate(path.read_text().splitlines() if path.exists() else [], 1):
            try:
                row = json.loads(line)
                if not row["ms"] > 0:
                    raise ValueError("'ms' must be positive")
                if row.get("suite") == suite:
                    yield row
            except (ValueError, KeyError, TypeError) as error:
                raise ReportError(f"{path}:{number}: {error}") from error


def read_dropout_rows(directory):
    """Times of layers with dropout, in the last run of each: {(device, model, mode, N): {(op, rng): row}}."""
    cases = defaultdict(dict)
    for row in read_dropout_suite(directory, "layers"):
        try:
            cases[row["device"], row["model"], row["mode"], row["N"]][row["op"], row["rng"]] = row
        except KeyError as error:
            raise ReportError(f"{directory}: a row of layers with dropout has no {error}") from error
    return cases


def read_dropout_attention_rows(directory):
    """Times of attention alone: {(device, mode, mask, D, heads, batch, S): {(op, rng): row}}.

    Times without dropout are there under their runs, too."""
    cases = defaultdict(dict)
    for row in read_dropout_suite(directory, "attention"):
        try:
            case = tuple(row[key] for key in ("device", "mode", "mask", "D", "H", "B", "S"))
            cases[case][row["op"], row["rng"]] = row
            if row["op"] == "attn_nodrop":
                cases[case][get_run(row)] = row
        except KeyError as error:
            raise ReportError(f"{directory}: a row of attention with dropout has no {error}") from error
    return cases


def dropout_attention_table(cases):
    """Attention with dropout and its peers, and the time that dropout adds."""
    columns = {
        ("attn_nodrop", "none"): "no dropout",
        ("attn", "philox7"): "philox7",
        ("attn", "arx6"): "arx6",
        ("attn_hoisted", "arx6"): "keep masks read",
        ("cudnn_nodrop", "torch"): "cuDNN, no dropout",
        ("cudnn", "torch"): "cuDNN",
        ("fa2", "torch"): "FlashAttention-2",
    }
    lines = fill(
        "Attention alone, and its gradient, p = 0.125: milliseconds; in brackets, of Attn how much longer than without "
        "dropout in the same run, and of its peers with dropout how many times as long as the faster of its two "
        "generators."
    )
    tables = defaultdict(list)
    for (device, mode, mask, dim, heads, batch, length), rows in cases.items():
        if not {("attn_nodrop", "none"), ("attn", "philox7"), ("attn", "arx6")} <= rows.keys():
            continue
        # The columns come from several runs; the first column comes from the run of the following ones.
        beside = rows.get(get_run(rows["attn", "arx6"]))
        if beside is not None:
            rows["attn_nodrop", "none"] = beside
        best = min(rows["attn", rng]["ms"] for rng in ("philox7", "arx6"))
        cells = [mode, mask, f"{heads} of {dim}", str(length), str(batch)]
        for op, rng in columns:
            if (op, rng) not in rows:
                cells.append("")
                continue
            ms = rows[op, rng]["ms"]
            none = rows.get(get_run(rows[op, rng]))
            longer = f" (+{ms / none['ms'] - 1:.1%})" if none else ""
            slower = f" ({ms / best:.2f}x)"
            note = {"attn": longer, "attn_hoisted": longer, "cudnn": slower, "fa2": slower}.get(op, "")
            cells.append(f"{ms:.3f}{note}")
        tables[device].append([*cells, rows["attn", "arx6"].get("date", "")])
    header = ["mode", "mask", "heads", "length", "batch", *columns.values(), "date"]
    for device, table in tables.items():
        lines += ["", f"{device}:", "", *make_table(header, table)]
    return [*lines, ""]


def draw_dropout(cases):
    """Times of layers relative to the fastest of Attn, over length, as a figure."""
    lines = defaultdict(lambda: defaultdict(list))
    for (_, model, mode, length), rows in sorted(cases.items(), key=lambda case: case[0][3]):
        ours = [row["ms"] for (op, _), row in rows.items() if op in ("attn", "attn_sequential", "attn_hoisted")]
        if mode == "fwd" and ours:
            for (op, rng), row in rows.items():
                if op in DROPOUT_OPS:
                    name = DROPOUT_OPS[op] + (f", {rng}" if rng not in ("none", "torch") else "")
                    lines[model][name].append((length, row["ms"] / min(ours)))
    figure, axes = make_panels(1, len(lines), 3.5)
    for axis, (model, series) in zip(axes[0], sorted(lines.items())):
        for name, points in series.items():
            axis.plot(*zip(*points), marker="o", markersize=3, linewidth=1, color=pick_color(name), label=name)
        axis.set_title(model, fontsize=9)
        axis.set_xlabel("tokens")
    axes[0][0].set_ylabel("time / fastest of Attn with dropout")
    finish_panels(figure, axes)
    return figure


def dropout_table(cases):
    """Layers with dropout: times of Attn by where keep masks are made, and times of its peers."""
    places = {"attn": "in kernel", "attn_sequential": "before", "attn_hoisted": "concurrent"}
    ours = {(op, rng): f"{place}, {rng}" for op, place in places.items() for rng in ("philox7", "arx6")}
    others = {
        ("attn_nodrop", "none"): "Attn, no dropout",
        ("cudnn", "torch"): DROPOUT_OPS["cudnn"],
        ("fa2", "torch"): DROPOUT_OPS["fa2"],
    }
    lines = [
        "## Dropout",
        "",
        *fill(
            "Projection to queries, keys and values and causal attention (fwd), and its gradient (train), bf16, batch "
            "1, p = 0.125; milliseconds, in brackets how many times faster the best of Attn's columns with dropout is. "
            "By `benchmarks/dropout.py`."
        ),
        "",
        "![layers with dropout](images/performance-dropout.svg)",
        "",
        *fill(
            "Attn's columns say where keep masks are made, and by which generator. In kernel: "
            f"{DROPOUT_OPS['attn']} of attention; before: {DROPOUT_OPS['attn_sequential']} it; concurrent: "
            f"{DROPOUT_OPS['attn_hoisted']}."
        ),
    ]
    for device, rows_of in group_by(cases.items(), lambda item: item[0][0]).items():
        best_of = {
            case: min((row["ms"] for op, row in rows.items() if op in ours), default=0) for case, rows in rows_of
        }
        for columns in ours, others:
            present = [column for column in columns if any(column in rows for _, rows in rows_of)]
            table = []
            for case, rows in rows_of:
                best = best_of[case]
                if not best:
                    continue
                cells = [case[1], case[2], str(case[3])]
                if columns is others:
                    cells.append(f"{best:.3f}")
                for column in present:
                    row = rows.get(column)
                    cells.append(f"{row['ms']:.3f} ({row['ms'] / best:.2f}x)" if row else "")
                table.append([*cells, next(iter(rows.values())).get("date", "")])
            header = ["layer", "mode", "tokens", *([] if columns is ours else ["best of Attn"])]
            header += [columns[column] for column in present] + ["date"]
            lines += ["", f"{device}{', other kernels' if columns is others else ', Attn'}:", ""]
            lines += make_table(header, table)
    return [*lines, ""]


def read_training_rows(path):
    """The last row of each measurement of training: {(device, batch, length, dtype, dropout): {backend: row}}."""
    cases = defaultdict(dict)
    for number, line in enumerate(path.read_text().splitlines() if path.exists() else [], 1):
        try:
            row = json.loads(line)
            if "error" not in row:
                if not (row.get("step_ms", 1) > 0 and row["attention_ms"] > 0):
                    raise ValueError("times must be positive")
                case = tuple(row[key] for key in ("device", "batch", "length", "dtype", "dropout"))
                cases[case][row["backend"]] = row
        except (ValueError, KeyError, TypeError) as error:
            raise ReportError(f"{path}:{number}: {error}") from error
    return {case: rows for case, rows in cases.items() if OURS in rows}


def training_table(cases):
    """Steps of training, and the attention in them."""
    row = next(iter(cases.values()))[OURS]
    lines = [
        "## Training",
        "",
        *fill(
            f"A step (forward, backward, AdamW) of a model with {row['layers']} layers, width {row['width']}, "
            f"{row['heads']} heads, and dropout of its attention, all under `torch.compile`; and the attention of one "
            "layer alone, forward and backward. Milliseconds, medians on the host's clock, in brackets how many times "
            "faster Attn is; by `benchmarks/training.py`. Unfused attention is one operation of torch after another."
        ),
        "",
    ]
    table = []
    for (device, batch, length, dtype, dropout), rows in cases.items():
        ours = rows[OURS]
        for backend, row in rows.items():
            cells = []
            for name in ("step_ms", "attention_ms", "attention_forward_ms"):
                if name not in row or name not in ours:
                    cells.append("")
                    continue
                ratio = "" if backend == OURS else f" ({row[name] / ours[name]:.2f}x)"
                cells.append(f"{row[name]:.{1 if name == 'step_ms' else 2}f}{ratio}")
            by = {OURS: "Attn", "attn-packed": "Attn, projection as it is"}.get(backend, f"torch, {backend}")
            case = [device, str(batch), str(length), dtype, f"{dropout:g}"]
            table.append([*case, by, *cells, row["date"], row["commit"]])
    header = ["device", "sequences", "length", "dtype", "dropout"]
    header += ["attention by", "step", "attention", "its forward", "date", "commit"]
    return [*lines, *make_table(header, table), ""]


def read_llama_rows(path):
    """The last row of each side of a Llama's training step.

    {(device, mask, batch, length, query heads, key heads, head dim): {op: row}}
    """
    cases = defaultdict(dict)
    for number, line in enumerate(path.read_text().splitlines() if path.exists() else [], 1):
        try:
            row = json.loads(line)
            if not row["ms"] > 0:
                raise ValueError("'ms' must be positive")
            cases[tuple(row[key] for key in ("device", "mask", "B", "S", "H", "Hkv", "D"))][row["op"]] = row
        except (ValueError, KeyError, TypeError) as error:
            raise ReportError(f"{path}:{number}: {error}") from error
    return {case: rows for case, rows in cases.items() if OURS in rows}


def llama_table(cases):
    """Training steps of a Llama of Transformers."""
    row = next(iter(cases.values()))[OURS]
    lines = [
        "## Training a Llama of Transformers",
        "",
        f"A step (forward, backward, AdamW) of `LlamaForCausalLM` with {row['layers']} layers, hidden size "
        f"{row['hidden']}, intermediate size {row['intermediate']},",
        f"{row['vocabulary']} tokens in its vocabulary, in bf16, compiled by `torch.compile` as one graph.",
        "Milliseconds, in brackets how many times faster Attn is; by `benchmarks/llama.py`, whose `--help` explains "
        "the masks.",
        "Heads: of the query, of the key, and their dimension.",
        "",
        "| device | mask | sequences | length | heads | attention by | step | first step | date | commit |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (device, mask, batch, length, *heads), rows in cases.items():
        for op, row in rows.items():
            by = NAMES[op] if op == OURS else f"torch, {NAMES.get(op, op)}"
            ratio = "" if op == OURS else f" ({row['ms'] / rows[OURS]['ms']:.2f}x)"
            cells = [device, mask, str(batch), str(length), ", ".join(map(str, heads)), by, f"{row['ms']:.2f}{ratio}"]
            cells += [f"{row['first_step_s']:.1f} s", row["date"], row["commit"][:12]]
            lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


SERVING_SUITES = {
    "decode": "Decoding from a KV cache",
    "paged": "Decoding with lengths and pages",
    "ragged": "Decoding with ragged lengths",
    "prefill": "Prefill from a KV cache",
    "append": "Appending a token and decoding",
    "prefix": "Decoding with a shared prefix",
}
SERVING_PEERS = {**{op: NAMES[op] for op in ("cudnn", "fa3")}, "flashinfer": "FlashInfer"}
# Parts of a call of Attn, which are not compared with it.
SERVING_PARTS = ("append", "attention")
# Of the rows of a suite: Attn's, and the peers under other names.
SERVING_OPS = {"append": {"append_attention": OURS, "fa3_append_attention": "fa3"}}


def read_serving_rows(path):
    """The last rows of calls with KV caches: {(device, suite, case): {op: row}}."""
    cases = defaultdict(dict)
    for number, line in enumerate(path.read_text().splitlines() if path.exists() else [], 1):
        try:
            row = json.loads(line)
            if not row["ms"] > 0:
                raise ValueError("'ms' must be positive")
            op = SERVING_OPS.get(row["mode"], {}).get(row["op"], row["op"])
            if row["mode"] not in SERVING_SUITES:
                raise ValueError(f"'mode' must be one of {', '.join(SERVING_SUITES)} (was '{row['mode']}')")
            cases[row["device"], row["mode"], row["case"]][op] = row
        except (ValueError, KeyError, TypeError) as error:
            raise ReportError(f"{path}:{number}: {error}") from error
    return {case: rows for case, rows in cases.items() if OURS in rows}


def serving_table(cases):
    """Calls as an inference engine makes them, and peers in the same run."""
    lines = [
        "## Serving",
        "",
        *fill(
            "Calls with KV caches, bf16, by `benchmarks/serving.py`, whose `--help` explains the cases: "
            "b64_s4096_page16 has 64 sequences of 4096 keys in pages of 16, and page0 no pages. Microseconds, and the "
            "keys and values that are attended to over the time, or for prefill the operations; in brackets how many "
            "times faster Attn is."
        ),
    ]

    def measure(row):
        rate = f"{row['tbytes_per_s']:.2f} TB/s" if "tbytes_per_s" in row else ""
        return f"{row['tflops']:.0f} TFLOP/s" if "tflops" in row else rate

    for (device, suite), group in group_by(cases.items(), lambda item: item[0][:2]).items():
        ops = order_ops({op for _, rows in group for op in rows} - {OURS})
        table = []
        for (*_, case), rows in group:
            ours = rows[OURS]
            cells = [case, f"{ours['ms'] * 1e3:.1f}", measure(ours)]
            for op in ops:
                peer = rows.get(op)
                same_run = peer and get_run(peer) == get_run(ours)
                ratio = "" if op in SERVING_PARTS or not same_run else f" ({peer['ms'] / ours['ms']:.2f}x)"
                cells.append(f"{peer['ms'] * 1e3:.1f}{ratio}" if same_run else "")
            table.append([*cells, ours.get("date", "")])
        header = ["case", "Attn", "rate", *(SERVING_PEERS.get(op, op) for op in ops), "date"]
        lines += ["", f"{SERVING_SUITES[suite]}, {device}:", "", *make_table(header, table)]
    return [*lines, ""]


# Kinds of linear attention, by the decays and rules of `benchmarks/linear_attention.py`.
LINEAR_KINDS = {
    "plain": "no decay",
    "head": "a decay of each head",
    "token": "a decay of each token",
    "element": "a decay of each key element",
    "delta": "delta rule",
    "gated": "delta rule, a decay of each token",
    "kimi": "delta rule, a decay of each key element",
}
LINEAR_MODES = {"fwd": "Forward", "bwd": "Gradients", "decode": "Decode steps", "packed": "Packed sequences"}
LINEAR_PEERS = {"fla": "fla-core"}


def read_linear_rows(path):
    """The last rows of linear attention: {(device, mode, heads, kind, head dim, batch, length): {op: row}}."""
    cases = defaultdict(dict)
    for number, line in enumerate(path.read_text().splitlines() if path.exists() else [], 1):
        try:
            row = json.loads(line)
            for name in ("ms", "gbytes"):
                if not row[name] > 0:
                    raise ValueError(f"'{name}' must be positive")
            for name, known in (("mode", LINEAR_MODES), ("decay", LINEAR_KINDS)):
                if row[name] not in known:
                    raise ValueError(f"'{name}' must be one of {', '.join(known)} (was '{row[name]}')")
            case = tuple(row[name] for name in ("device", "mode", "H", "decay", "D", "B", "S"))
            cases[case][row["op"]] = row
        except (ValueError, KeyError, TypeError) as error:
            raise ReportError(f"{path}:{number}: {error}") from error
    return {case: rows for case, rows in cases.items() if OURS in rows}


def name_linear(mode, kind, heads):
    """What rows of linear attention measure."""
    name = {"plain": "Linear attention", "delta": "Delta rule", "gated": "Delta rule", "kimi": "Delta rule"}.get(kind)
    name = name or "Linear attention with decays"
    return f"{name}{' of one head' if heads == 1 else ''}, {LINEAR_MODES[mode].lower()}"


def linear_table(cases):
    """Linear attention, and fla-core in the same run."""
    lines = [
        "## Linear attention",
        "",
        *fill(
            "Causal, bf16, by `benchmarks/linear_attention.py`, batch x length tokens. Milliseconds, and the bytes "
            "of queries, keys, values and outputs, and of their gradients, over the time; in brackets how many times "
            "faster Attn is than fla-core. Decode steps have one token a batch entry, and their bytes are the states, "
            "read and written once; in brackets relative to the rate of a copy of the same states. Packed sequences, "
            "number x length, have a state each, which counts."
        ),
    ]
    for (device, mode, heads), group in group_by(cases.items(), lambda item: item[0][:3]).items():
        table = []
        order = list(LINEAR_KINDS)
        for (*_, kind, dim, batch, length), rows in sorted(
            group, key=lambda item: (order.index(item[0][3]), item[0][4:])
        ):
            ours, peer = rows[OURS], rows.get("fla")
            same_run = peer and get_run(peer) == get_run(ours)
            digits = 4 if mode in ("decode", "packed") else 3
            theirs = f"{peer['ms']:.{digits}f} ({peer['ms'] / ours['ms']:.2f}x)" if same_run else ""
            rate = f"{ours['gbytes']:.0f} GB/s"
            if "copy_gbytes" in ours:
                rate += f" ({ours['gbytes'] / ours['copy_gbytes']:.0%})"
            table.append(
                [LINEAR_KINDS[kind], str(dim), f"{batch} x {length}", f"{ours['ms']:.{digits}f}", rate, theirs,
                 ours.get("date", "")]
            )  # fmt: skip
        header = ["kind", "head dim", "tokens", "Attn", "rate", "fla-core", "date"]
        title = f"{LINEAR_MODES[mode]}, {heads} head{'s' * (heads != 1)}, {device}:"
        stamped = stamp([rows for _, rows in group])
        lines += ["", *fill(f"{title} {stamped}"), "", *make_table(header, table)]
    return [*lines, ""]


def compiler_table(rows):
    """The cost of the compiler and of calls."""

    def seconds(value):
        if value is None:
            return ""
        return f"{value * 1e6:.2f} us" if value < 1e-3 else f"{value:.3f} s"

    lines = [
        "## The compiler",
        "",
        *fill(
            "Elapsed time (the shortest of several runs), time of processors, and the largest resident memory, of "
            "programs as users start them; by `benchmarks/compiler.py`, `benchmarks/first_calls.py` and "
            "`benchmarks/python_overhead.py`."
        ),
    ]
    for machine, group in group_by(rows.values(), lambda row: row["machine"]).items():
        table = []
        for row in group:
            memory = f"{row['peak_mb']:.0f} MB" if "peak_mb" in row else ""
            times = [seconds(row["wall_s"]), seconds(row.get("limit_s")), seconds(row.get("cpu_s"))]
            table.append([row["what"], *times, memory, row.get("date", "")])
        header = ["what", "elapsed", "to stay below", "processors", "memory", "date"]
        lines += ["", f"{machine}:", "", *make_table(header, table)]
    return [*lines, ""]


def get_ratio(rows, op):
    """Speed relative to a peer, in the run that timed the peer if Attn was timed in it, too."""
    row = rows[op]
    return row["ms"] / row.get("beside", rows[OURS])["ms"]


def compare(cases):
    """Speeds relative to each peer: {peer: [(ratio, case)]}, the fastest peer of each case as ''."""
    ratios = defaultdict(list)
    for case, rows in cases.items():
        if OURS not in rows or len(rows) < 2:
            continue
        of_case = {op: get_ratio(rows, op) for op in rows if op != OURS}
        for op, ratio in of_case.items():
            ratios[op].append((ratio, case))
        ratios[""].append((min(of_case.values()), case))
    return ratios


def geometric_mean(values):
    return math.exp(sum(math.log(value) for value in values) / len(values))


def describe_heads(case):
    """Query heads, key heads if there are fewer, and the head dim."""
    heads = str(case.H) if case.H == case.Hkv else f"{case.H}/{case.Hkv}"
    return f"{heads} of {case.D}"


def describe(case):
    text = f"{case.mask}, length {case.S}, heads {describe_heads(case)}, batch {case.B}"
    return f"{text}, dropout {case.p:g}" if case.p else text


def order_ops(ops):
    known = list(NAMES)
    return sorted(ops, key=lambda op: (known.index(op) if op in known else len(known), op))


def group_cases(cases):
    """{(device, group): {case: rows}} of the cases that Attn was measured on."""
    groups = defaultdict(dict)
    for case in sorted(cases):
        if OURS in cases[case]:
            groups[case.device, case.group][case] = cases[case]
    return groups


def rate(row):
    """The text of a cell: TFLOP/s, or TB/s where memory is the measure."""
    if "tflops" in row:
        return f"{row['tflops']:.0f}"
    if "tbytes_per_s" in row:
        return f"{row['tbytes_per_s']:.2f} TB/s"
    return f"{row['ms']:.3f} ms"


def compare_others(tables):
    """Speeds relative to peers in the same run, in other cases than attention alone.

    {(kernel, device): {case: {peer: ratio}}}
    """
    gemm_rows, dropout_rows, dropout_attention_rows, training_rows, llama_rows, serving_rows, linear_rows = tables
    ratios = defaultdict(lambda: defaultdict(dict))

    def add(what, device, case, peer, row, ours, key="ms"):
        ours = [other[key] for other in ours if other and key in other and get_run(other) == get_run(row)]
        if ours and key in row:
            ratios[what, device][case][peer] = row[key] / min(ours)

    for (device, mode, mask, dim, heads, batch, length), rows in dropout_attention_rows.items():
        case = f"{mask}, length {length}, heads {heads} of {dim}, batch {batch}"
        ours = [rows.get((OURS, rng)) for rng in ("philox7", "arx6")]
        for op in ("cudnn", "fa2"):
            if (op, "torch") in rows:
                add(f"{MODES.get(mode, mode)} with dropout", device, case, NAMES[op], rows[op, "torch"], ours)
    for (device, model, mode, length), rows in dropout_rows.items():
        ours = [row for (op, rng), row in rows.items() if op in DROPOUT_OPS and rng not in ("none", "torch")]
        what = "Projection and attention with dropout" + (", and their gradients" if mode == "train" else "")
        for op in ("cudnn", "fa2"):
            if (op, "torch") in rows:
                add(what, device, f"{model}, {length} tokens", DROPOUT_OPS[op], rows[op, "torch"], ours)
    for (device, *sizes, op, _), row in gemm_rows.items():
        if op == "cublas":
            case = f"{' x '.join(map(str, sizes[:3]))}, {sizes[3]}"
            add("GEMM", device, case, "cuBLAS", row, [gemm_rows.get((device, *sizes, OURS, "none"))])
    for (device, batch, length, dtype, dropout), rows in training_rows.items():
        case = f"{batch} sequences of {length}, {dtype}, dropout {dropout:g}"
        for backend, row in rows.items():
            peer = f"torch, {NAMES.get(backend, backend)}"
            if backend in ("cudnn", "flash") and "step_ms" in row:
                add("Training step with dropout", device, case, peer, row, [rows[OURS]], "step_ms")
                add(
                    "Training step with dropout, projection as it is",
                    device,
                    case,
                    peer,
                    row,
                    [rows.get("attn-packed")],
                    "step_ms",
                )
                add("Attention of a training step with dropout", device, case, peer, row, [rows[OURS]], "attention_ms")
    for (device, mask, batch, length, *heads), rows in llama_rows.items():
        for op in order_ops(rows.keys() - {OURS}):
            case = f"{mask}, length {length}, batch {batch}, head dimension {heads[-1]}"
            add("Training step of a Llama", device, case, f"torch, {NAMES.get(op, op)}", rows[op], [rows[OURS]])
    for (device, suite, case), rows in serving_rows.items():
        for op in order_ops(rows.keys() & SERVING_PEERS.keys()):
            add(SERVING_SUITES[suite], device, case, SERVING_PEERS[op], rows[op], [rows[OURS]])
    for (device, mode, heads, kind, dim, batch, length), rows in linear_rows.items():
        case = f"{LINEAR_KINDS[kind]}, {batch} x {length}, head dimension {dim}"
        for op in order_ops(rows.keys() & LINEAR_PEERS.keys()):
            add(name_linear(mode, kind, heads), device, case, LINEAR_PEERS[op], rows[op], [rows[OURS]])
    return ratios


def summary_table(groups, others):
    rows = []

    def add(what, device, peer, values):
        numbers = [geometric_mean(values), min(values), max(values)]
        rows.append([f"{what}, {device}", str(len(values)), peer, *(f"{number:.2f}" for number in numbers)])

    for (device, group), cases in groups.items():
        ratios = compare(cases)
        for op in order_ops(op for op in ratios if op):
            add(group, device, NAMES.get(op, op), [ratio for ratio, _ in ratios[op]])
    for (what, device), cases in others.items():
        for peer in dict.fromkeys(peer for ratios in cases.values() for peer in ratios):
            add(what, device, peer, [ratios[peer] for ratios in cases.values() if peer in ratios])
    return make_table(["what", "cases", "peer", "geometric mean", "worst", "best"], rows)


def rank_kind(kind):
    """The place of a kind of kernel in the table: dense attention, then its variants, then layers and training."""
    mode = max((mode for mode in MODES.values() if kind.startswith(mode)), key=len, default="")
    variant = kind.removeprefix(mode)
    order = ["", ", grouped heads", " with masks", " with score_mod", " with dropout"]
    return order.index(variant) if variant in order else len(order), list(MODES.values()).index(mode) if mode else 0


def list_peers(counts):
    """Peers and their counts, the most frequent first; backends of one implementation are listed behind its name."""
    texts = []
    for name, group in group_by(counts.most_common(), lambda item: item[0].split(" (")[0]).items():
        if len(group) == 1:
            texts += [f"{peer} ({count})" for peer, count in group]
        else:
            backends = (f"{peer.removeprefix(name).strip(' ()')} {count}".strip() for peer, count in group)
            texts.append(f"{name} ({', '.join(backends)})")
    return ", ".join(texts)


def best_peer_tables(groups, others):
    """A table for each device, the one with the most kinds of kernels first, with a row for each kind: Attn and the
    fastest peer of each case."""
    tables = defaultdict(dict)
    for (device, group), cases in groups.items():
        rows = {
            describe(case): {NAMES.get(op, op): get_ratio(rows, op) for op in order_ops(rows.keys() - OWN - {OURS})}
            for case, rows in cases.items()
        }
        tables[device][group] = {case: ratios for case, ratios in rows.items() if ratios}
    for (what, device), cases in others.items():
        tables[device][what] = cases
    lines = []
    for device, kinds in sorted(tables.items(), key=lambda item: -len(item[1])):
        kinds = {kind: cases for kind, cases in kinds.items() if cases and kind not in DETAILS}
        if not kinds:
            continue
        rows = []
        for kind, cases in sorted(kinds.items(), key=lambda item: rank_kind(item[0])):
            best = {case: min(ratios.items(), key=lambda item: item[1]) for case, ratios in cases.items()}
            peers = list_peers(Counter(peer for peer, _ in best.values()))
            ratios = [ratio for _, ratio in best.values()]
            worst = min(best, key=lambda case: best[case][1])
            ahead = f"{sum(ratio > 1 for ratio in ratios)} of {len(ratios)}"
            rows.append([kind, peers, ahead, f"{geometric_mean(ratios):.2f}", f"{min(ratios):.2f}", worst])
        header = [device, "the fastest peer, in how many cases", "Attn is ahead in", "mean", "least", "where"]
        lines += [*([""] if lines else []), *make_table(header, rows)]
    return lines


def stamp(rows):
    """Dates and commits of Attn's rows."""
    dates = sorted({row[OURS]["date"] for row in rows if row[OURS].get("date")})
    commits = sorted({row[OURS]["commit"][:12] for row in rows if row[OURS].get("commit")})
    span = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}" if dates else "an unknown date"
    return f"Measured {span}, commit {', '.join(commits) or 'unknown'}."


def page(groups, others, images, tables, compiler_rows):
    gemm_rows, dropout_rows, dropout_attention_rows, training_rows, llama_rows, serving_rows, linear_rows = tables
    lines = [
        "# Performance",
        "",
        "Generated by `benchmarks/report.py` from `benchmarks/results`; do not edit.",
        "",
        *fill(
            "A number is the rate in TFLOP/s by the operations that the mask leaves (a causal mask: half); in brackets "
            "how many times faster Attn is than the peer. Times are medians between events on the device, without "
            "launch overhead, of all kernels in one process, run in turn: see `benchmarks/forward.py --help`. Heads "
            "`64/8 of 128` are 64 query heads and 8 key heads of head dim 128."
        ),
        "",
        *fill(
            "Tensors are bf16 with random elements of a normal distribution. Queries and keys have the same length, "
            "but in decoding, which has few queries. Decoding is bound by memory, so its numbers are TB/s of keys and "
            "values. Masks and `score_mod` regions have the names of `benchmarks/masks.py` and `benchmarks/cases.py`. "
            "An empty cell is a peer that does not compute the case or was not measured with it."
        ),
        "",
        "## Summary",
        "",
        "Speed of Attn relative to each peer: 1 is equal, more is faster.",
        "",
        *summary_table(groups, others),
        "",
    ]
    for (device, group), cases in groups.items():
        peers = order_ops({op for rows in cases.values() for op in rows} - {OURS})
        lines += [f"## {group}, {device}", "", stamp(cases.values()), ""]
        if (device, group) in images:
            lines += [f"![{group}](images/{images[device, group]})", ""]
        table = []
        for case, rows in cases.items():
            mask = f"{case.mask}, p = {case.p:g}" if case.p else case.mask
            cells = [mask, describe_heads(case), str(case.S), str(case.B), rate(rows[OURS])]
            for op in peers:
                ratio = get_ratio(rows, op) if op in rows else 0
                cells.append(f"{rate(rows[op])} ({ratio:.2f}x)" if ratio else "")
            table.append(cells)
        header = ["mask", "heads", "length", "batch", "Attn", *(NAMES.get(op, op) for op in peers)]
        lines += make_table(header, table)
        lines.append("")
        ratios = compare(cases)
        for op in order_ops(op for op in ratios if op):
            worst, case = min(ratios[op], key=lambda item: item[0])
            mean = geometric_mean([ratio for ratio, _ in ratios[op]])
            lines += fill(f"- {NAMES.get(op, op)}: geometric mean {mean:.3f}x, worst {worst:.3f}x ({describe(case)})")
        if len(ratios) > 2:
            mean = geometric_mean([ratio for ratio, _ in ratios[""]])
            worst, case = min(ratios[""], key=lambda item: item[0])
            lines += fill(
                f"- the fastest peer of each case: geometric mean {mean:.3f}x, worst {worst:.3f}x ({describe(case)})"
            )
        lines.append("")
    if serving_rows:
        lines += serving_table(serving_rows)
    if linear_rows:
        lines += linear_table(linear_rows)
    if gemm_rows:
        lines += gemm_table(gemm_rows)
    if dropout_rows:
        lines += dropout_table(dropout_rows)
    if dropout_attention_rows:
        lines += dropout_attention_table(dropout_attention_rows)
    if training_rows:
        lines += training_table(training_rows)
    if llama_rows:
        lines += llama_table(llama_rows)
    if compiler_rows:
        lines += compiler_table(compiler_rows)
    while lines[-1] == "":
        lines.pop()
    return "\n".join(lines) + "\n"


def make_panels(rows, columns, height):
    """A figure of panels with lengths from left to right, which share the axis of rates or times."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "attn"
    import matplotlib.pyplot as plt

    size = (4 * columns, height * rows + 0.5)
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, sharey=True, layout="constrained")
    for axis in axes.flat:
        axis.set_xscale("log", base=2)
        axis.grid(alpha=0.3)
    return figure, axes


def pick_color(name):
    """The color of a series: the same in all panels, which need not have the same series."""
    layers = [title for title in DROPOUT_OPS.values() if title.startswith("cuBLAS")] + [DROPOUT_OPS["attn_nodrop"]]
    layers += [
        f"{DROPOUT_OPS[op]}, {rng}" for op in ("attn", "attn_sequential", "attn_hoisted") for rng in ("philox7", "arx6")
    ]
    for names in list(NAMES.values()), layers:
        if name in names:
            return f"C{names.index(name)}"
    return "black"


def finish_panels(figure, axes):
    """Sets the axis that panels share, once all series are there, and puts one legend below all panels."""
    series = {line.get_label(): line for axis in axes.flat for line in axis.get_lines()}
    axes[0][0].set_ylim(0, 1.05 * max(max(line.get_ydata()) for axis in axes.flat for line in axis.get_lines()))
    columns = min(len(series), 2 * axes.shape[1])
    figure.legend(series.values(), series.keys(), loc="outside lower center", ncols=columns, fontsize=7)


def draw(cases):
    """Rate over length, one panel per mask and head dimension, as a figure; None where there is one length alone."""
    panels = defaultdict(lambda: defaultdict(dict))
    for case, rows in cases.items():
        for op, row in rows.items():
            if "tflops" in row:
                panels[case.mask, case.D][op][case.S] = row["tflops"]
    panels = {panel: ops for panel, ops in panels.items() if len(ops[OURS]) > 1}
    if not panels:
        return None
    masks = sorted({mask for mask, _ in panels}, key=lambda mask: (mask != "full", mask))
    dims = sorted({dim for _, dim in panels})
    figure, axes = make_panels(len(masks), len(dims), 3)
    for i, mask in enumerate(masks):
        for j, dim in enumerate(dims):
            axis, ops = axes[i][j], panels.get((mask, dim), {})
            for op in order_ops(ops):
                name = NAMES.get(op, op)
                style = {"linewidth": 2 if op == OURS else 1, "color": pick_color(name)}
                axis.plot(*zip(*sorted(ops[op].items())), marker="o", markersize=3, label=name, **style)
            axis.set_title(f"{mask}, head dim {dim}", fontsize=9)
            if j == 0:
                axis.set_ylabel("TFLOP/s")
            if i == len(masks) - 1:
                axis.set_xlabel("sequence length")
    finish_panels(figure, axes)
    return figure


def save(figure, path):
    import matplotlib.pyplot as plt

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def plot(groups, directory):
    """Writes the plots of all groups that have one. Returns {(device, group): file name}."""
    images = {}
    for (device, group), cases in groups.items():
        figure = draw(cases)
        if figure:
            slug = re.sub(r"[^a-z0-9]+", "-", f"performance {group} {device}".lower()).strip("-")
            save(figure, directory / f"{slug}.svg")
            images[device, group] = f"{slug}.svg"
    return images


def update_readme(path, groups, others):
    text = path.read_text()
    begin, end = text.find(BEGIN), text.find(END)
    if begin < 0 or end < begin:
        raise ReportError(f"{path}: needs the markers {BEGIN} and {END}")
    body = [
        BEGIN,
        "",
        *fill(
            "Speed relative to the fastest peer of each case, both measured in one process: 1 is equal, more is "
            "faster. The mean is geometric; the last column is the case in which Attn does worst. "
            "[docs/performance.md](docs/performance.md) has every case, every peer, and how they were measured."
        ),
        "",
        *best_peer_tables(groups, others),
        "",
    ]
    path.write_text(text[:begin] + "\n".join(body) + text[end:])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent, help="the project"
    )
    parser.add_argument("--no-plots", action="store_true", help="write no images (needs no matplotlib)")
    options = parser.parse_args(arguments)
    try:
        results = options.root / "benchmarks" / "results"
        groups = group_cases(read_rows(results))
        gemm_rows = read_gemm_rows(results / "gemm.jsonl")
        compiler_rows = read_compiler_rows(results / "compiler.jsonl")
        dropout_rows = read_dropout_rows(results)
        dropout_attention_rows = read_dropout_attention_rows(results)
        training_rows = read_training_rows(results / "training.jsonl")
        llama_rows = read_llama_rows(results / "llama.jsonl")
        if not groups:
            raise ReportError(f"{results}: no measurements of Attn")
        docs = options.root / "docs"
        images = {} if options.no_plots else plot(groups, docs / "images")
        if dropout_rows and not options.no_plots:
            save(draw_dropout(dropout_rows), docs / "images" / "performance-dropout.svg")
        serving_rows = read_serving_rows(results / "serving.jsonl")
        linear_rows = read_linear_rows(results / "linear.jsonl")
        tables = gemm_rows, dropout_rows, dropout_attention_rows, training_rows, llama_rows, serving_rows, linear_rows
        others = compare_others(tables)
        (docs / "performance.md").write_text(page(groups, others, images, tables, compiler_rows))
        update_readme(options.root / "README.md", groups, others)
    except ReportError as error:
        print(f"report.py: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
