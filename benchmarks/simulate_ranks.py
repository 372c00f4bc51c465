#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Predicts how long ranks take for attention layers, with each method of sharding, by attn-simulate-ranks.

    simulate_ranks.py --opt BUILD/bin/attn-opt [--layers llama3-8b] [--lengths 64k,1m] [--ranks 8,64] [--mode both]
    simulate_ranks.py --opt BUILD/bin/attn-opt --json FILE
    simulate_ranks.py --opt BUILD/bin/attn-opt --measured docs/experiments/context-parallel.md
    simulate_ranks.py --opt BUILD/bin/attn-opt --document docs/experiments/simulated-ranks.md \\
        --plot docs/images/simulated-ranks.svg

Layers have causal masks and bf16. The mode is the forward pass (fwd), or forward and backward (both). `--json` writes
all rows, - to the standard output. `--measured` compares with the tables of a page. `--document` replaces the tables of
a page, and `--plot` draws how much of `ranks` times the speed of one rank each method has.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
from collections import defaultdict

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import report  # noqa: E402

# Query heads, key heads and head dim of attention layers; "mha" is the one that was measured.
LAYERS = {
    "llama3-8b": (32, 8, 128, "Llama-3-8B"),
    "llama3-70b": (64, 8, 128, "Llama-3-70B"),
    "mha": (32, 32, 128, "32 heads"),
}
METHODS = ("ring", "zigzag", "striped", "lightseq", "allgather", "ulysses", "usp")
MODES = {"fwd": "forward", "both": "forward and backward"}
UNITS = {"k": 1 << 10, "m": 1 << 20}
BEGIN, END = "<!-- simulated -->", "<!-- /simulated -->"


def parse_length(text):
    """A number of positions: 65536 or 64k, 4m."""
    match = re.fullmatch(r"(\d+)([km]?)", text.lower())
    if not match or not int(match[1]):
        raise argparse.ArgumentTypeError(f"expected a length such as 65536, 64k or 4m (was {text})")
    return int(match[1]) * UNITS.get(match[2], 1)


def describe_length(length):
    for unit, size in reversed(UNITS.items()):
        if length % size == 0:
            return f"{length // size}{unit}"
    return str(length)


def make_function(name, layer, length, mode):
    """The text of a function with the attention of a layer, and its gradient if `mode` is both."""
    heads, key_heads, dim = LAYERS[layer][:3]
    q, k = (f"tensor<1x{number}x{length}x{dim}xbf16>" for number in (heads, key_heads))
    lse = f"tensor<1x{heads}x{length}xf32>"
    arguments = f"%q: {q}, %k: {k}, %v: {k}, %o: {q}, %l: {lse}"
    lines = [
        f"%out, %lse = attn.attention ins(%q, %k, %v : {q}, {k}, {k}) outs(%o, %l : {q}, {lse}) mask(#attn.causal) "
        f"-> {q}, {lse}"
    ]
    results, types = "%out, %lse", f"{q}, {lse}"
    if mode == "both":
        arguments += f", %do: {q}, %dq: {q}, %dk: {k}, %dv: {k}"
        lines.append(
            f"%g:3 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %do : {q}, {k}, {k}, {q}, {lse}, {q}) "
            f"outs(%dq, %dk, %dv : {q}, {k}, {k}) mask(#attn.causal) -> {q}, {k}, {k}"
        )
        results, types = "%out, %g#0, %g#1, %g#2", f"{q}, {q}, {k}, {k}"
    body = "\n  ".join([*lines, f"return {results} : {types}"])
    return f"func.func @{name}({arguments}) -> ({types}) {{\n  {body}\n}}\n"


def simulate(opt, device, target, layers, lengths, ranks, modes, run=subprocess.run):
    """The rows of all combinations: one for each method, and one of the method "one" for a single rank."""
    cases = [(layer, length, mode) for layer in layers for length in lengths for mode in modes]
    text = "".join(make_function(f"case{i}", *case) for i, case in enumerate(cases))
    module = f'module attributes {{attn.device = #attn.device<"{device}">}} {{\n{text}}}\n'
    numbers = ",".join(map(str, ranks))
    option = f"--attn-simulate-ranks=target={target} format=json output=- ranks={numbers}"
    command = [opt, "-", option, "-o", "/dev/null"]
    answer = run(command, input=module, stdout=subprocess.PIPE, text=True, check=True)
    rows = []
    for (layer, length, mode), function in zip(cases, json.loads(answer.stdout)["functions"]):
        case = {"device": device, "layer": layer, "S": length, "mode": mode}
        rows.append({**case, "ranks": 1, "method": "one", "seconds": function["seconds"]})
        for group in function["groups"]:
            rows += [{**case, "ranks": group["ranks"], **method} for method in group["methods"]]
    return rows


def group_rows(rows):
    """{(layer, mode): {(length, ranks): {method: row}}}"""
    groups = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        groups[row["layer"], row["mode"]][row["S"], row["ranks"]][row["method"]] = row
    return groups


def get_seconds(rows, length, ranks, method):
    """The time of a method; None if it cannot serve."""
    return rows[length, ranks].get(method, {}).get("seconds")


def describe_seconds(seconds):
    """Milliseconds with three digits."""
    if seconds is None:
        return "-"
    milliseconds = seconds * 1e3
    digits = max(0, 2 - len(str(int(milliseconds))) + (milliseconds >= 1))
    return f"{milliseconds:.{digits}f}"


def make_rows(rows):
    """The cells of the table of one layer; the time of the fastest method is bold."""
    cells = []
    for length, ranks in sorted(key for key in rows if key[1] > 1):
        times = {method: get_seconds(rows, length, ranks, method) for method in METHODS}
        best = min((time for time in times.values() if time is not None), default=None)
        line = [describe_length(length), str(ranks)]
        for time in times.values():
            text = describe_seconds(time)
            line.append(f"**{text}**" if time is not None and time == best else text)
        one = get_seconds(rows, length, 1, "one")
        line.append(f"{one / best:.1f}" if best else "-")
        cells.append(line)
    return cells


def make_tables(rows):
    """The lines of a table for each layer and mode."""
    lines = []
    header = ["tokens", "ranks", *(f"{method}, ms" for method in METHODS), "times as fast as one"]
    for (layer, mode), of in group_rows(rows).items():
        lines += [f"{LAYERS[layer][3]}, {MODES[mode]}:", "", *report.make_table(header, make_rows(of)), ""]
    return lines[:-1]


def read_measured(text):
    """{method: (forward, both)} of the table of several GPUs of a page, in seconds, and the number of GPUs."""
    numbers = {"two": 2, "four": 4, "eight": 8}
    table = re.search(r"^\| (\w+) GPUs \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    if not table or table[1] not in numbers:
        raise report.ReportError("no table of several GPUs")
    times = {}
    for line in table[2].splitlines():
        name, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        times["one" if name.startswith("one") else name] = tuple(float(cell) * 1e-3 for cell in cells[:2])
    return times, numbers[table[1]]


def compare(opt, device, target, path, run=subprocess.run):
    """The lines of a table of predicted and measured times, and the errors."""
    measured, ranks = read_measured(pathlib.Path(path).read_text())
    rows = simulate(opt, device, target, ["mha"], [65536], [ranks], list(MODES), run)
    groups, cells, errors = group_rows(rows), [], []
    for method, times in measured.items():
        for mode, time in zip(MODES, times):
            predicted = get_seconds(groups["mha", mode], 65536, 1 if method == "one" else ranks, method)
            error = predicted / time - 1
            errors.append(abs(error))
            cells.append([method, MODES[mode], f"{time * 1e3:.1f}", f"{predicted * 1e3:.1f}", f"{100 * error:+.1f} %"])
    header = [f"{ranks} GPUs", "mode", "measured, ms", "predicted, ms", "error"]
    return report.make_table(header, cells), errors


def draw(rows):
    """The efficiency of each method by the number of ranks: a panel for each layer and length."""
    groups = group_rows(rows)
    layers = list(groups)
    lengths = sorted({row["S"] for row in rows})
    figure, axes = report.make_panels(len(layers), len(lengths), 2.6)
    for i, (layer, mode) in enumerate(layers):
        for j, length in enumerate(lengths):
            of, axis = groups[layer, mode], axes[i][j]
            one = get_seconds(of, length, 1, "one")
            for number, method in enumerate(METHODS):
                points = {
                    ranks: one / time / ranks
                    for ranks in sorted(ranks for size, ranks in of if size == length and ranks > 1)
                    if (time := get_seconds(of, length, ranks, method)) is not None
                }
                if points:
                    axis.plot(*zip(*points.items()), marker="o", markersize=3, label=method, color=f"C{number}")
            axis.set_title(f"{LAYERS[layer][3]}, {describe_length(length)} tokens", fontsize=9)
            if j == 0:
                axis.set_ylabel("part of ideal speed")
            if i == len(layers) - 1:
                axis.set_xlabel("ranks")
    report.finish_panels(figure, axes)
    return figure


def write_document(path, lines):
    """Replaces the lines between the markers of a page."""
    text = path.read_text()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise report.ReportError(f"{path} has no place for tables, between {BEGIN} and {END}")
    before, rest = text.split(BEGIN)
    path.write_text("\n".join([before + BEGIN, "", *lines, "", END + rest.split(END)[1]]))


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--opt", required=True, help="attn-opt of a build")
    parser.add_argument("--device", default="h200", help="a known device")
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--layers", default="llama3-8b,llama3-70b", help=f"of {', '.join(LAYERS)}")
    parser.add_argument("--lengths", default="64k,256k,1m,4m", help="tokens of a sequence")
    parser.add_argument("--ranks", default="8,16,32,64,128,256,512", help="numbers of ranks, up to 1024")
    parser.add_argument("--mode", choices=MODES, default="both")
    parser.add_argument("--json", help="file of all rows, - for the standard output")
    parser.add_argument("--measured", type=pathlib.Path, help="page with measured times")
    parser.add_argument("--document", type=pathlib.Path, help="page whose tables are replaced")
    parser.add_argument("--plot", type=pathlib.Path, help="picture of all rows")
    options = parser.parse_args(arguments)
    options.layers = options.layers.split(",")
    for layer in options.layers:
        if layer not in LAYERS:
            parser.error(f"unknown layer {layer} (expected {', '.join(LAYERS)})")
    try:
        options.lengths = [parse_length(text) for text in options.lengths.split(",")]
        options.ranks = [int(text) for text in options.ranks.split(",")]
    except (argparse.ArgumentTypeError, ValueError) as error:
        parser.error(str(error))
    return options


def main(arguments=None):
    options = parse_arguments(arguments)
    if options.measured:
        lines, errors = compare(options.opt, options.device, options.target, options.measured)
        print("\n".join(lines))
        print(f"\nmedian error {100 * statistics.median(errors):.1f} %, worst {100 * max(errors):.1f} %")
        return 0
    rows = simulate(
        options.opt, options.device, options.target, options.layers, options.lengths, options.ranks, [options.mode]
    )
    if options.json:
        text = json.dumps(rows, indent=1) + "\n"
        sys.stdout.write(text) if options.json == "-" else pathlib.Path(options.json).write_text(text)
    if options.document:
        write_document(options.document, make_tables(rows))
    if options.plot:
        report.save(draw(rows), options.plot)
    if not (options.json or options.document or options.plot):
        print("\n".join(make_tables(rows)))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except report.ReportError as error:
        sys.exit(f"error: {error}")
