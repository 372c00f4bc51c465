# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Figures of matplotlib that show attention as the compiler sees it."""

import json
import pathlib
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Tuple

from attn.compiler import Source, run_passes
from attn.errors import AttnError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_EMPTY, _PARTIAL, _FULL = "#f2f2f2", "#f0a030", "#3070b0"
_MATMULS, _SOFTMAX, _MASK, _OTHER = "#3070b0", "#60a060", "#f0a030", "#b0b0b0"
# Steps in the picture of a timeline.
_STEPS = 4


def draw(
    source: Source,
    kind: str = "roofline",
    *,
    target: str = "sm_90a",
    passes: str = "",
    size: int = 4096,
    batch: int = 1,
) -> "Figure":
    """Draws a module as the compiler sees it. ``kind`` is

    ``"roofline"``: each operation at its intensity and estimated speed, below what
    memory and matmuls of the device allow;

    ``"tiles"``: which tiles of scores the kernel of each attention visits, and which of these have code for masks.
    Lengths must be static, as of ``attn.Attention(..., queries=4096, keys=4096)``;

    ``"timeline"``: the work of the kernels' SMs according to the cost model, in a few steps and altogether.

    Nothing is measured, and no GPU needed. ``passes`` run first. Dynamic sizes count as ``size``; a dynamic first
    dimension of a tensor counts as ``batch``.
    """
    drawers: Dict[str, Callable] = {"roofline": _draw_roofline, "tiles": _draw_tiles, "timeline": _draw_timeline}
    if kind not in drawers:
        raise AttnError(f"unknown kind '{kind}'; draw one of {', '.join(drawers)}")
    for name, value in (("size", size), ("batch", batch)):
        if not isinstance(value, int):
            raise AttnError(f"{name} is a {type(value).__name__}; pass a number")
    import tempfile

    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise AttnError("drawing needs matplotlib; install it") from None
    chosen = f"{passes + ',' if passes else ''}func.func(attn-choose-schedule{{target={target}}})"
    with tempfile.TemporaryDirectory() as folder:
        if kind == "tiles":
            run_passes(source, f"{chosen},func.func(attn-print-mask-map{{format=json directory={folder}}})")
        else:
            assumptions = f"dynamic-size={size} dynamic-batch={batch}"
            explain = f"attn-explain{{target={target} format=json output={folder}/ledger.json {assumptions}}}"
            run_passes(source, f"{chosen},{explain}")
        results = [json.loads(path.read_text()) for path in sorted(pathlib.Path(folder).glob("*.json"))]
    figure = Figure(layout="constrained")
    drawers[kind](figure, results)
    return figure


def _operations(ledger: Dict[str, Any]) -> List[Tuple[str, Dict[str, Any]]]:
    return [
        (f"@{function['name']}: {operation['name']}", operation)
        for function in ledger["functions"]
        for operation in function["operations"]
    ]


def _draw_roofline(figure: "Figure", results: List[Dict[str, Any]]) -> None:
    (ledger,) = results
    ridge, bandwidth = ledger["ridge"], ledger["bandwidth"]
    points = [(name, op) for name, op in _operations(ledger) if op["intensity"] and op["seconds"]]
    if not points:
        raise AttnError("no operation of the module has a roofline: it needs one that computes and moves data")
    axes = figure.add_subplot()
    low = min([ridge, *(op["intensity"] for _, op in points)]) / 4
    high = max([ridge, *(op["intensity"] for _, op in points)]) * 4
    peak = ridge * bandwidth
    axes.plot([low, ridge, high], [low * bandwidth / 1e12, peak / 1e12, peak / 1e12], color="black")
    axes.axvline(ridge, color="black", linestyle=":", linewidth=1)
    for name, op in points:
        speed = op["flops"] / op["seconds"] / 1e12
        axes.plot([op["intensity"]], [speed], "o", label=f"{name}, {op['seconds'] * 1e6:.1f} us, {op['bound']}")
    axes.set(xscale="log", yscale="log", xlabel="FLOP per byte of memory", ylabel="TFLOP/s", title=ledger["device"])
    axes.legend(loc="lower right", fontsize="small")


def _draw_tiles(figure: "Figure", results: List[Dict[str, Any]]) -> None:
    if not results:
        raise AttnError("the module has no attention")
    for number, result in enumerate(results):
        _draw_map(figure.add_subplot(1, len(results), number + 1), result)


def _draw_map(axes: "Axes", result: Dict[str, Any]) -> None:
    from matplotlib.patches import Rectangle

    rows, columns = result["rows"], result["columns"]
    axes.add_patch(Rectangle((0, 0), columns, rows, color=_EMPTY))
    counts = {}
    for kind, color in (("partial", _PARTIAL), ("full", _FULL)):
        counts[kind] = sum(end - begin for _, begin, end in result[kind])
        for row, begin, end in result[kind]:
            axes.add_patch(Rectangle((begin, row), end - begin, 1, facecolor=color, edgecolor="white", linewidth=0.3))
    partial = "partial or decided by data" if result["reads_data"] else "partial"
    empty = rows * columns - counts["partial"] - counts["full"]
    for color, text in (
        (_FULL, f"full: {counts['full']}"),
        (_PARTIAL, f"{partial}: {counts['partial']}"),
        (_EMPTY, f"empty: {empty}"),
    ):
        axes.plot([], [], "s", color=color, label=text)
    axes.set(xlim=(0, columns), ylim=(rows, 0), aspect="equal", title=result["title"])
    axes.set(xlabel=f"tiles of {result['key_tile']} keys", ylabel=f"tiles of {result['query_tile']} queries")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3, fontsize="small")


def _draw_timeline(figure: "Figure", results: List[Dict[str, Any]]) -> None:
    (ledger,) = results
    kernels = []
    for name, op in _operations(ledger):
        models = op.get("kernels", [])
        kernels += [(name if len(models) == 1 else f"{name}, {model['name']}", model) for model in models]
    if not kernels:
        raise AttnError(
            "no attention of the module has a model of its time; kernels of attention with a schedule have one"
        )
    # Kernels that only move memory have no steps.
    rows = [
        (kernel, is_steps) for kernel in kernels for is_steps in (True, False) if kernel[1]["steps"] or not is_steps
    ]
    heights = [3 if is_steps else 1 for _, is_steps in rows]
    # A row needs room for its title and legend, too.
    figure.set_figheight(max(figure.get_figheight(), 0.5 * sum(heights) + 1.1 * len(rows)))
    grid = figure.add_gridspec(len(rows), 1, height_ratios=heights)
    for row, ((name, kernel), is_steps) in enumerate(rows):
        axes = figure.add_subplot(grid[row])
        if is_steps:
            _draw_steps(axes, name, kernel)
        else:
            _draw_kernel(axes, "" if kernel["steps"] else f"{name}: ", kernel)


def _draw_steps(axes: "Axes", name: str, kernel: Dict[str, Any]) -> None:
    """Some steps without a mask: consumers alternate at the tensor cores (ping-pong), each with its own MMAs; a core of
    the host does one thing after the other."""
    step = kernel["step"]
    turns = max(kernel["consumers"], 1)
    share = kernel["mma"] / turns
    softmax = kernel["chain"] - share
    lanes = [f"consumer {number}" for number in range(kernel["consumers"])] or ["core"]
    units = ["tensor cores"] if kernel["consumers"] else []
    for number in range(_STEPS):
        for turn in range(turns):
            begin = number * step + turn * step / turns
            for lane in range(len(units)):
                axes.barh(lane, share, left=begin, color=_MATMULS, edgecolor="white")
            axes.barh(len(units) + turn, share, left=begin, color=_MATMULS, edgecolor="white")
            axes.barh(len(units) + turn, softmax, left=begin + share, color=_SOFTMAX, edgecolor="white")
        axes.axvline(number * step, color="black", linestyle=":", linewidth=1)
    axes.set_yticks(range(len(units) + len(lanes)), units + lanes)
    axes.invert_yaxis()
    axes.set(xlabel="cycles", title=f"{name}: steps of {step:.0f} cycles")
    for color, text in ((_MATMULS, "matmuls"), (_SOFTMAX, "softmax")):
        axes.plot([], [], "s", color=color, label=text)
    axes.legend(loc="upper right", fontsize="small")


def _draw_kernel(axes: "Axes", label: str, kernel: Dict[str, Any]) -> None:
    """The whole kernel on the SM with the most work."""
    parts = [
        ("launch", kernel["launch"], _OTHER),
        (f"{kernel['steps']:.0f} steps", kernel["steps"] * kernel["step"], _MATMULS),
        (f"masks of {kernel['masked_steps']:.0f} steps", kernel["masked_steps"] * kernel["mask"], _MASK),
        (f"{kernel['work_items']:.0f} work items", kernel["work_items"] * kernel["work_item"], _SOFTMAX),
        ("memory", 0 if kernel["steps"] else kernel["memory"], _OTHER),
    ]
    scale = 1e6 / kernel["cycles_per_second"]
    left = 0.0
    for text, cycles, color in parts:
        if cycles:
            axes.barh(0, cycles * scale, left=left, color=color, label=f"{text}: {cycles * scale:.1f} us")
            left += cycles * scale
    axes.set_yticks([])
    axes.set(xlabel="us", title=f"{label}{left:.1f} us, estimated")
    axes.legend(fontsize="small", ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.5))
