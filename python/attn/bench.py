# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times attention of given shapes, together with other implementations.

    python -m attn.bench --batch 2 --heads 32 --kv-heads 8 --queries 4096 --head-dim 128 --mask causal --backward

Candidates are Attn, each backend of torch's ``scaled_dot_product_attention`` that accepts the problem, FlexAttention,
and the packages of FlashAttention that can be imported. They are timed in turn, in rounds, so that none of them has a
cooler device than the others. The results of all of them are compared with attention in float64.
"""

import argparse
import contextlib
import importlib
import json
import math
import os
import sys
import time
import warnings
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Callable, ContextManager, Dict, List, NamedTuple, Optional, Sequence, Tuple

from attn import masks
from attn.errors import AttnError, AttnWarning
from attn.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DTYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}
PEERS = ("torch", "flex", "flash-attn")
# Errors of a result that are a defect: differences divided by the largest exact value.
MAX_ERRORS = {"bf16": 3e-2, "f16": 5e-3, "f32": 2e-4}
# Elements of float64 that a reference holds at a time.
_MAX_ELEMENTS = 1 << 23
# The GPU sleeps while calls are queued, so that the time of Python is not measured.
_SLEEP_CYCLES = 1_000_000

Progress = Callable[[str], None]


# Problems


class _Kind(NamedTuple):
    """A kind of mask: how many numbers it has, the mask of Attn, its pairs, and FlashAttention's window if it is one.
    Pairs are positions of rows, which are those of the keys, and of keys."""

    numbers: int
    make: Callable[..., Optional[masks.Mask]]
    keep: Optional[Callable[..., Any]]
    window: Optional[Callable[..., Tuple[int, int]]]


def _same_block(row: Any, key: Any, size: int) -> Any:
    return row // size == key // size


_KINDS = {
    "full": _Kind(0, lambda: None, None, lambda: (-1, -1)),
    "causal": _Kind(0, masks.causal, lambda row, key: key <= row, lambda: (-1, 0)),
    "window": _Kind(
        2,
        lambda left, right: masks.sliding_window(left=left, right=right),
        lambda row, key, left, right: (key >= row - left) & (key <= row + right),
        lambda left, right: (left, right),
    ),
    "prefix": _Kind(1, masks.prefix_lm, lambda row, key, size: (key < size) | (key <= row), None),
    "chunked": _Kind(1, masks.chunked, lambda row, key, size: (key <= row) & _same_block(row, key, size), None),
    "blocks": _Kind(1, lambda size: masks.local_blocks(size, before=0, after=0), _same_block, None),
    # The mask reads a tensor, which depends on the problem.
    "documents": _Kind(1, lambda size: None, _same_block, None),
}
_EXPECTED_MASK = "full, causal, window:N, window:LEFT:RIGHT, prefix:N, chunked:N, blocks:N or documents:N"


class MaskSpec(NamedTuple):
    """A mask as the command line names it."""

    kind: str
    numbers: Tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "MaskSpec":
        """Raises ValueError if there is no such mask."""
        name, *parts = text.split(":")
        kind = _KINDS.get(name)
        numbers = tuple([int(part) for part in parts if part.isdecimal()])
        if name == "window" and len(numbers) == 1:
            # A window of one number is causal.
            numbers = (*numbers, 0)
            parts.append("0")
        has_size = name not in ("chunked", "blocks", "documents") or 0 not in numbers
        if kind is None or len(parts) != kind.numbers or len(numbers) != kind.numbers or not has_size:
            raise ValueError(text)
        return cls(name, numbers)

    def __str__(self) -> str:
        return ":".join([self.kind, *map(str, self.numbers)])

    def keep(self, row: Any, key: Any) -> Any:
        """Whether pairs attend, by the position of the query among the keys."""
        function = _KINDS[self.kind].keep
        assert function is not None
        return function(row, key, *self.numbers)

    @property
    def window(self) -> Optional[Tuple[int, int]]:
        """The window of FlashAttention's packages, if the mask is one."""
        window = _KINDS[self.kind].window
        return None if window is None else window(*self.numbers)


@dataclass(frozen=True)
class Problem:
    """The attention to time."""

    batch: int = 1
    heads: int = 8
    kv_heads: int = 8
    queries: int = 1024
    keys: int = 1024
    head_dim: int = 64
    dtype: str = "f32"
    mask: MaskSpec = MaskSpec("full")
    dropout: float = 0.0
    device: str = "cpu"

    @property
    def offset(self) -> int:
        """The position of the first query among the keys: the last query is at the last key."""
        return self.keys - self.queries

    def describe(self) -> str:
        text = f"batch {self.batch}, heads {self.heads}/{self.kv_heads} of {self.head_dim}, {self.queries} queries, "
        text += f"{self.keys} keys, {self.dtype}, mask {self.mask}"
        return text + (f", dropout {self.dropout:g}" if self.dropout else "")

    def to_json(self) -> Dict[str, Any]:
        return {**asdict(self), "mask": str(self.mask)}


class _Inputs:
    """The tensors of a problem."""

    def __init__(self, problem: Problem):
        import torch

        generator = torch.Generator(problem.device).manual_seed(0)
        dtype = getattr(torch, DTYPES[problem.dtype])

        def make(heads: int, positions: int) -> Any:
            shape = (problem.batch, heads, positions, problem.head_dim)
            return torch.randn(shape, generator=generator, device=problem.device).to(dtype)

        self.q = make(problem.heads, problem.queries)
        self.k, self.v = (make(problem.kv_heads, problem.keys) for _ in range(2))
        self.dout = make(problem.heads, problem.queries)


def count_pairs(problem: Problem) -> int:
    """The pairs of a query and a key that attend, in one head."""
    import torch

    if problem.mask.kind == "full":
        return problem.queries * problem.keys
    count = 0
    key = torch.arange(problem.keys, device=problem.device)
    rows = max(1, _MAX_ELEMENTS // problem.keys)
    for first in range(0, problem.queries, rows):
        row = torch.arange(first, min(first + rows, problem.queries), device=problem.device)[:, None] + problem.offset
        count += int(problem.mask.keep(row, key).sum())
    return count


def count_flops(problem: Problem, backward: bool, pairs: int) -> int:
    """Floating point operations of the matmuls: two in the forward pass, five in the backward pass."""
    return 2 * (5 if backward else 2) * pairs * problem.head_dim * problem.batch * problem.heads


# Candidates

# attend(q, k, v, dropout)
Attend = Callable[[Any, Any, Any, float], Any]


class _Refusal(Exception):
    """A candidate does not take the problem; the text says why."""


class Candidate(NamedTuple):
    """An implementation. ``make`` prepares it for a problem; ``context`` is entered around its calls."""

    name: str
    make: Callable[[Problem], Attend]
    context: Callable[[], ContextManager] = contextlib.nullcontext


def _make_document_ids(problem: Problem) -> Any:
    import torch

    return (torch.arange(problem.keys, device=problem.device) // problem.mask.numbers[0]).to(torch.int32)


def _make_attn(problem: Problem) -> Attend:
    import attn.torch

    if problem.mask.kind == "documents":
        ids = _make_document_ids(problem)[None]
        mask: Optional[masks.Mask] = masks.documents(ids[:, problem.offset :].contiguous(), ids)
    else:
        mask = _KINDS[problem.mask.kind].make(*problem.mask.numbers)
    grouped = problem.heads != problem.kv_heads
    return lambda q, k, v, dropout: attn.torch.sdpa(q, k, v, mask, dropout, enable_gqa=grouped)


def _make_gpu_sdpa(problem: Problem) -> Attend:
    if problem.device == "cpu":
        raise _Refusal("this backend has no kernels for the CPU")
    return _make_sdpa(problem)


def _make_torch_mask(problem: Problem) -> Any:
    """The mask as the backends of torch are fastest with it; None if all pairs attend."""
    import torch
    from torch.nn.attention.bias import causal_lower_right

    if problem.mask.kind == "full":
        return None
    if problem.mask.kind == "causal" and problem.offset > 0 and problem.queries > 1:
        return causal_lower_right(problem.queries, problem.keys)
    row = torch.arange(problem.queries, device=problem.device)[:, None] + problem.offset
    mask = problem.mask.keep(row, torch.arange(problem.keys, device=problem.device))
    return None if mask.all() else mask


def _make_sdpa(problem: Problem) -> Attend:
    import torch.nn.functional as F

    is_causal = problem.mask.kind == "causal" and problem.offset == 0
    attn_mask = None if is_causal else _make_torch_mask(problem)
    grouped = problem.heads != problem.kv_heads
    return lambda q, k, v, dropout: F.scaled_dot_product_attention(
        q, k, v, attn_mask=attn_mask, dropout_p=dropout, is_causal=is_causal, enable_gqa=grouped
    )


def _use_backend(name: str) -> Callable[[], ContextManager]:
    def enter() -> ContextManager:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        return sdpa_kernel(getattr(SDPBackend, name))

    return enter


def _make_flex(problem: Problem) -> Attend:
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    if problem.dropout:
        raise _Refusal("FlexAttention has no dropout")
    torch._dynamo.reset()
    compiled = torch.compile(flex_attention, dynamic=False)
    offset, mask = problem.offset, problem.mask
    block_mask = None
    if mask.kind == "documents":
        ids = _make_document_ids(problem)

        def mask_mod(b: Any, h: Any, i: Any, j: Any) -> Any:
            return ids[i + offset] == ids[j]

    else:

        def mask_mod(b: Any, h: Any, i: Any, j: Any) -> Any:
            return mask.keep(i + offset, j)

    if mask.kind != "full":
        # Made beforehand, so that it is not timed.
        block_mask = create_block_mask(mask_mod, None, None, problem.queries, problem.keys, device=problem.device)
    grouped = problem.heads != problem.kv_heads
    return lambda q, k, v, dropout: compiled(q, k, v, block_mask=block_mask, enable_gqa=grouped)


def _make_flash(module: str, has_dropout: bool) -> Callable[[Problem], Attend]:
    def make(problem: Problem) -> Attend:
        function = importlib.import_module(module).flash_attn_func
        window = problem.mask.window
        if problem.device == "cpu":
            raise _Refusal("FlashAttention's packages need a GPU")
        if window is None:
            raise _Refusal(f"FlashAttention has no mask {problem.mask}")
        if problem.dropout and not has_dropout:
            raise _Refusal(f"{module} has no dropout")
        options: Dict[str, Any] = {"causal": True} if problem.mask.kind == "causal" else {"window_size": window}
        if problem.mask.kind == "full":
            options = {}

        def attend(q: Any, k: Any, v: Any, dropout: float) -> Any:
            more = {"dropout_p": dropout} if dropout else {}
            # Positions come before heads.
            result = function(*(x.transpose(1, 2) for x in (q, k, v)), **options, **more)
            return (result[0] if isinstance(result, tuple) else result).transpose(1, 2)

        return attend

    return make


ATTN = Candidate("attn", _make_attn)
_CANDIDATES = {
    "torch": [
        Candidate("torch flash", _make_sdpa, _use_backend("FLASH_ATTENTION")),
        Candidate("torch efficient", _make_gpu_sdpa, _use_backend("EFFICIENT_ATTENTION")),
        Candidate("torch cudnn", _make_gpu_sdpa, _use_backend("CUDNN_ATTENTION")),
        Candidate("torch math", _make_sdpa, _use_backend("MATH")),
    ],
    "flex": [Candidate("flex", _make_flex)],
    "flash-attn": [
        Candidate("flash-attn 2", _make_flash("flash_attn", has_dropout=True)),
        Candidate("flash-attn 3", _make_flash("flash_attn_interface", has_dropout=False)),
        Candidate("flash-attn 4", _make_flash("flash_attn.cute", has_dropout=False)),
    ],
}


class _Run:
    """A candidate with its tensors, ready to be called. ``call`` is the pass to time."""

    def __init__(self, candidate: Candidate, problem: Problem, inputs: _Inputs, backward: bool):
        self.name, self.context = candidate.name, candidate.context
        self._attend, self._inputs, self._backward = candidate.make(problem), inputs, backward
        self.call = self._prepare(problem.dropout)

    def _prepare(self, dropout: float) -> Callable[[], Any]:
        import torch

        tensors = (self._inputs.q, self._inputs.k, self._inputs.v)
        if not self._backward:

            def forward() -> Any:
                with torch.no_grad():
                    return self._attend(*tensors, dropout)

            return forward
        leaves = [tensor.detach().clone().requires_grad_(True) for tensor in tensors]
        with self.context():
            out = self._attend(*leaves, dropout)
        return lambda: torch.autograd.grad(out, leaves, self._inputs.dout, retain_graph=True)

    def compute(self) -> List[Any]:
        """The results without dropout, for checks: the output, or the gradients of queries, keys and values."""
        call = self._prepare(0.0)
        with self.context():
            result = call()
        return list(result) if self._backward else [result]


def _explain_refusal(error: Exception, caught: Sequence[warnings.WarningMessage]) -> str:
    """The reason of a failure in one line. Torch gives the reasons of its backends as warnings."""
    text = (str(error).strip().splitlines() or [type(error).__name__])[0]
    if "No available kernel" in text or "No viable backend" in text:
        lines = [str(warning.message).partition(" (Triggered internally")[0] for warning in caught]
        reasons = [line for line in lines if "not used because" not in line and "has been runtime disabled" not in line]
        text = reasons[0] if reasons else "this backend does not take the problem"
    return text


def _prepare_runs(
    candidates: Sequence[Candidate], problem: Problem, inputs: _Inputs, backward: bool, progress: Progress
) -> Tuple[List[_Run], Dict[str, str]]:
    """Candidates that compute the problem, and the reasons why others do not."""
    runs, left_out = [], {}
    for candidate in candidates:
        progress(f"preparing {candidate.name}")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                run = _Run(candidate, problem, inputs, backward)
                with run.context():
                    run.call()
                _synchronize(problem.device)
            except ImportError as error:
                left_out[candidate.name] = f"there is no module {error.name or error}"
                continue
            except Exception as error:  # Peers raise anything: the reason is reported, and others are timed.
                left_out[candidate.name] = _explain_refusal(error, caught)
                continue
        runs.append(run)
        for warning in caught:
            if issubclass(warning.category, AttnWarning):
                progress(f"warning: {warning.message}")
    return runs, left_out


# Checks


class Reference:
    """Some rows of exact results: attention in float64, without dropout."""

    def __init__(self, problem: Problem, inputs: _Inputs, backward: bool, heads: int = 4, rows: int = 8):
        import torch

        self._problem, self._inputs = problem, inputs
        generator = torch.Generator().manual_seed(1)

        def sample(limit: int, count: int) -> List[int]:
            """The first and the last number below the limit, and some of those between them."""
            return sorted({0, limit - 1, *torch.randint(limit, (count,), generator=generator).tolist()})

        queries, keys = sample(problem.queries, rows), sample(problem.keys, rows)
        #: For each result: exact rows, and where they are: batch entry, head, positions.
        self.rows: List[List[Tuple[Any, int, int, List[int]]]] = [[], [], []] if backward else [[]]
        if not backward:
            for number in sample(problem.batch * problem.heads, heads - 2):
                batch, head = divmod(number, problem.heads)
                p, v, *_ = self._evaluate(batch, head, torch.tensor(queries, device=problem.device))
                self.rows[0].append((p @ v, batch, head, queries))
            return
        for number in sample(problem.batch * problem.kv_heads, heads // 2 - 2):
            self._differentiate(*divmod(number, problem.kv_heads), queries, keys)

    def _evaluate(self, batch: int, head: int, rows: Any) -> Tuple[Any, ...]:
        """Probabilities of rows, values, keys, queries, and the scale."""
        import torch

        problem, inputs = self._problem, self._inputs
        kv_head = head // (problem.heads // problem.kv_heads)
        q, k, v = inputs.q[batch, head, rows].double(), inputs.k[batch, kv_head].double(), inputs.v[batch, kv_head]
        scale = 1 / math.sqrt(problem.head_dim)
        scores = q @ k.T * scale
        if problem.mask.kind != "full":
            key = torch.arange(problem.keys, device=rows.device)
            scores.masked_fill_(~problem.mask.keep(rows[:, None] + problem.offset, key), -math.inf)
        # Rows without keys are 0.
        return scores.softmax(-1).nan_to_num(0.0), v.double(), k, q, scale

    def _differentiate(self, batch: int, kv_head: int, queries: List[int], keys: List[int]) -> None:
        import torch

        problem = self._problem
        group = problem.heads // problem.kv_heads
        dk: Any = 0.0
        dv: Any = 0.0
        chunk = max(1, _MAX_ELEMENTS // problem.keys)
        for head in range(kv_head * group, (kv_head + 1) * group):
            dq = []
            for first in range(0, problem.queries, chunk):
                rows = torch.arange(first, min(first + chunk, problem.queries), device=problem.device)
                p, v, k, q, scale = self._evaluate(batch, head, rows)
                do = self._inputs.dout[batch, head, rows].double()
                dp = do @ v.T
                ds = p * (dp - (p * dp).sum(-1, keepdim=True)) * scale
                dk, dv = dk + ds[:, keys].T @ q, dv + p[:, keys].T @ do
                dq.append(ds[[row - first for row in queries if first <= row < first + chunk]] @ k)
            self.rows[0].append((torch.cat(dq), batch, head, queries))
        self.rows[1].append((dk, batch, kv_head, keys))
        self.rows[2].append((dv, batch, kv_head, keys))

    def find_error(self, results: Sequence[Any]) -> float:
        """The largest difference, divided by the largest exact value of the same result. Exact gradients of queries and
        keys may all be 0: a result of smaller values than the others counts like one of a tenth of the largest."""
        import torch

        if not all(result.isfinite().all() for result in results):
            return math.inf
        differences, scales = [], []
        for result, rows in zip(results, self.rows):
            exact = torch.cat([values for values, *_ in rows])
            found = torch.cat([result[batch, head, places].double() for _, batch, head, places in rows])
            differences.append((found - exact).abs().max().item())
            scales.append(exact.abs().max().item())
        least = max(max(scales) / 10, 1e-300)
        return max(difference / max(scale, least) for difference, scale in zip(differences, scales))


# Timing


def _synchronize(device: str) -> None:
    import torch

    if device != "cpu":
        torch.cuda.synchronize(device)


class _Clock:
    """Times calls on a device."""

    # Factors of the sleep to try until it is longer than the time in which a call is queued.
    _FACTORS = (1, 4, 16, 64)

    def __init__(self, device: str):
        self._is_gpu = device != "cpu"
        self._factors: Sequence[int] = self._FACTORS

    def time(self, call: Callable[[], Any]) -> float:
        """Milliseconds of a call. On a GPU they do not include the time in which Python queues it, unless the call
        waits for the GPU itself."""
        if not self._is_gpu:
            begin = time.perf_counter()
            call()
            return (time.perf_counter() - begin) * 1e3
        for number, factor in enumerate(self._factors):
            elapsed, is_queued = self._time_on_gpu(call, factor * _SLEEP_CYCLES)
            if is_queued:
                self._factors = self._factors[number:]
                return elapsed
        self._factors = self._FACTORS[:1]
        return elapsed

    @staticmethod
    def _time_on_gpu(call: Callable[[], Any], cycles: int) -> Tuple[float, bool]:
        """The time, and whether the GPU still slept when the call was queued."""
        import torch

        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(cycles)
        begin.record()
        call()
        is_queued = not begin.query()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end), is_queued


def _time_in_turn(
    runs: Sequence[_Run],
    device: str,
    repeats: int,
    rounds: int,
    progress: Progress,
    deadline: float = math.inf,
) -> Dict[str, List[float]]:
    """Milliseconds of all calls by the name of the candidate. Each turn begins with a call that does not count. No
    round but the first begins after the deadline."""
    clocks = {run.name: _Clock(device) for run in runs}
    times: Dict[str, List[float]] = {run.name: [] for run in runs}
    for number in range(rounds):
        if number and time.monotonic() > deadline:
            break
        progress(f"round {number + 1} of {rounds}")
        for run in runs:
            with run.context():
                run.call()
                _synchronize(device)
                times[run.name] += [clocks[run.name].time(run.call) for _ in range(repeats)]
    return times


def _quantile(values: Sequence[float], part: float) -> float:
    ordered = sorted(values)
    place = part * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


# Reports


def select_candidates(peers: Sequence[str]) -> List[Candidate]:
    return [ATTN, *(candidate for peer in peers for candidate in _CANDIDATES[peer])]


def measure(
    problem: Problem,
    backward: bool = False,
    peers: Sequence[str] = PEERS,
    repeats: int = 10,
    rounds: int = 5,
    progress: Progress = lambda text: None,
    deadline: float = math.inf,
) -> Dict[str, Any]:
    """Times one pass of a problem: the forward pass, or the backward pass alone.

    Returns the problem, a row for each candidate that computes it, and the reasons why others were left out.
    """
    import torch

    is_gpu = problem.device != "cpu"
    with torch.cuda.device(problem.device) if is_gpu else contextlib.nullcontext():
        inputs = _Inputs(problem)
        runs, left_out = _prepare_runs(select_candidates(peers), problem, inputs, backward, progress)
        progress("computing the reference in float64")
        reference = Reference(problem, inputs, backward)
        errors = {}
        for run in list(runs):
            try:
                errors[run.name] = reference.find_error(run.compute())
            except Exception as error:  # As above.
                left_out[run.name] = _explain_refusal(error, ())
                runs.remove(run)
        times = _time_in_turn(runs, problem.device, repeats, rounds, progress, deadline)
        flops = count_flops(problem, backward, count_pairs(problem))
    medians = {name: _quantile(values, 0.5) for name, values in times.items()}
    limit = MAX_ERRORS[problem.dtype]
    # A peer with wrong results is no peer.
    best = min((ms for name, ms in medians.items() if name != ATTN.name and errors[name] <= limit), default=None)
    rows = [
        {
            "name": name,
            "ms": ms,
            "ms_low": _quantile(times[name], 0.25),
            "ms_high": _quantile(times[name], 0.75),
            "samples": len(times[name]),
            "tflops": flops / ms / 1e9,
            "ratio": None if best is None else best / ms,
            "error": errors[name] if math.isfinite(errors[name]) else None,
            "is_wrong": not errors[name] <= limit,
        }
        for name, ms in medians.items()
    ]
    return {
        "pass": "backward" if backward else "forward",
        "problem": problem.to_json(),
        "description": problem.describe(),
        "max_error": limit,
        "rows": rows,
        "left_out": [{"name": name, "reason": reason} for name, reason in left_out.items()],
    }


def format_case(case: Dict[str, Any]) -> str:
    """A result of ``measure`` as a table."""
    lines = [f"{case['pass']:20}{'ms':>10}{'spread':>10}{'TFLOP/s':>10}{'to best peer':>14}{'largest error':>15}"]
    for row in case["rows"]:
        spread = (row["ms_high"] - row["ms_low"]) / 2 / row["ms"]
        ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}x"
        error = "not finite" if row["error"] is None else f"{row['error']:.1e}"
        line = f"  {row['name']:18}{row['ms']:10.4g}{f'± {spread:.1%}':>10}{row['tflops']:10.4g}{ratio:>14}{error:>15}"
        lines.append(line + (f"  wrong: expected at most {case['max_error']:.0e}" if row["is_wrong"] else ""))
    lines += [f"  {entry['name']:18}left out: {entry['reason']}" for entry in case["left_out"]]
    return "\n".join(lines)


def find_failures(case: Dict[str, Any]) -> List[str]:
    """Messages if Attn did not compute the problem, or gave a wrong result."""
    where = f"{case['pass']} pass"
    failures = [f"{where}: attn: expected a result, found: {entry['reason']}"
                for entry in case["left_out"] if entry["name"] == ATTN.name]
    for row in case["rows"]:
        if row["name"] == ATTN.name and row["is_wrong"]:
            found = "no finite number" if row["error"] is None else f"{row['error']:.2g}"
            failures.append(f"{where}: attn: largest error: expected at most {case['max_error']:g}, found {found}")
    return failures


def import_figure() -> Any:
    """The class of figures. Raises AttnError without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise AttnError("expected matplotlib to be installed, found no module 'matplotlib'") from None
    return Figure


def draw_report(report: Dict[str, Any]) -> "Figure":
    """TFLOP/s of all candidates: lines over the lengths, or bars if there is only one."""
    cases = report["cases"]
    passes = list(dict.fromkeys(case["pass"] for case in cases))
    names = list(dict.fromkeys(row["name"] for case in cases for row in case["rows"]))
    figure = import_figure()(figsize=(1 + 5 * max(1, len(passes)), 4), layout="constrained")
    figure.suptitle(report["title"], fontsize="medium")
    for axes, name in zip(figure.subplots(1, max(1, len(passes)), squeeze=False)[0], passes):
        own = [case for case in cases if case["pass"] == name]
        rows = [{row["name"]: row["tflops"] for row in case["rows"]} for case in own]
        highest = max((value for row in rows for value in row.values()), default=1.0)
        if len(own) == 1:
            values = [rows[0].get(candidate, 0.0) for candidate in names]
            axes.bar(range(len(names)), values, color=[f"C{number % 10}" for number in range(len(names))])
            axes.set_xticks(range(len(names)), names, rotation=45, ha="right")
        else:
            lengths = [case["problem"]["queries"] for case in own]
            for number, candidate in enumerate(names):
                points = [(x, row[candidate]) for x, row in zip(lengths, rows) if candidate in row]
                style = "o-" if candidate == ATTN.name else "s--"
                axes.plot(*zip(*sorted(points)), style, color=f"C{number % 10}", label=candidate) if points else None
            axes.set_xscale("log", base=2)
            ticks = sorted(set(lengths))
            axes.set_xticks(ticks, [str(length) for length in ticks])
            axes.set_xlabel("queries")
            axes.legend(fontsize="small")
        axes.set_ylim(0, 1.1 * highest)
        axes.set(ylabel="TFLOP/s", title=name)
    return figure


# The command line


class _OptionError(Exception):
    """An error of an option, with its name, the expected value and the found one."""

    def __init__(self, option: str, expected: str, found: Any):
        super().__init__(f"argument --{option}: expected {expected}, found {found}")


def _number(first: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < first:
            raise argparse.ArgumentTypeError(f"expected a number from {first}, found '{text}'")
        return int(text)

    return parse


def _numbers(text: str) -> List[int]:
    parts = text.split(",")
    if not all(part.isdecimal() and int(part) for part in parts):
        raise argparse.ArgumentTypeError(f"expected numbers from 1, joined by commas, found '{text}'")
    return [int(part) for part in parts]


def _choice(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise argparse.ArgumentTypeError(f"expected one of {', '.join(choices)}, found '{text}'")
        return text

    return parse


def _mask(text: str) -> MaskSpec:
    try:
        return MaskSpec.parse(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected {_EXPECTED_MASK}, found '{text}'") from None


def _probability(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 <= value < 1.0:
        raise argparse.ArgumentTypeError(f"expected a number from 0 to below 1, found '{text}'")
    return value


def _peers(text: str) -> List[str]:
    if text in ("all", "none"):
        return list(PEERS) if text == "all" else []
    names = list(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in PEERS:
            raise argparse.ArgumentTypeError(f"expected all, none or some of {', '.join(PEERS)}, found '{name}'")
    return names


def _output(*suffixes: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        folder = os.path.dirname(os.path.abspath(text))
        if not text.endswith(suffixes):
            raise argparse.ArgumentTypeError(f"expected a name that ends in {' or '.join(suffixes)}, found '{text}'")
        if not os.path.isdir(folder) or os.path.isdir(text):
            raise argparse.ArgumentTypeError(f"expected a file in a folder that exists, found '{text}'")
        return text

    return parse


_EXAMPLES = """
candidates:
  attn            attn.torch.sdpa
  torch ...       scaled_dot_product_attention with each of its backends that accepts the problem
  flex            FlexAttention, compiled; its block mask is made before and not timed
  flash-attn N    the packages of FlashAttention-2, -3 and -4 that are installed

columns:
  ms              median of all calls. On a GPU it is measured by CUDA events behind a kernel that sleeps, and does not
                  include the time of Python; on the CPU it does
  spread          half of the range in which the middle half of the calls lies
  TFLOP/s         operations of the matmuls of the pairs that attend; a backward pass has 2.5 times those of a forward
                  pass
  to best peer    time of the fastest peer divided by this time: more than 1 is faster
  largest error   difference to attention in float64 on sampled rows, divided by the largest exact value; without
                  dropout, since implementations drop different probabilities

exit code: 0; 1 if Attn cannot compute the problem or its error is too large; 2 if an option is wrong

examples:
  python -m attn.bench
  python -m attn.bench --batch 2 --heads 32 --kv-heads 8 --queries 4096 --head-dim 128 --mask causal --backward
  python -m attn.bench --queries 1024,2048,4096,8192 --mask window:512 --plot window.svg --json window.json
  python -m attn.bench --batch 32 --heads 32 --kv-heads 8 --queries 1 --keys 8192 --mask causal --peers torch
  python -m attn.bench --device cpu --dtype f32 --queries 256 --dropout 0.1 --peers none
"""


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m attn.bench",
        description="Times attention of given shapes, together with other implementations, and checks the results.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    number = {"type": _number(1), "metavar": "N"}
    parser.add_argument("--batch", default=1, **number, help="batch size (default: 1)")
    parser.add_argument("--heads", default=16, **number, help="query heads (default: 16)")
    parser.add_argument("--kv-heads", **number, help="key heads, which divide --heads (default: --heads)")
    parser.add_argument("--queries", default=[1024], type=_numbers, metavar="N[,N...]",
                        help="queries, or several numbers of them (default: 1024)")
    parser.add_argument("--keys", type=_numbers, metavar="N[,N...]",
                        help="keys: one number, or one for each of --queries (default: --queries)")
    parser.add_argument("--head-dim", default=64, **number, help="head dim (default: 64)")
    parser.add_argument("--dtype", type=_choice(*DTYPES), metavar="{bf16,f16,f32}",
                        help="dtype of the tensors (default: bf16 on a GPU, f32 on the CPU)")
    parser.add_argument("--mask", default=MaskSpec("full"), type=_mask, metavar="MASK",
                        help="full, causal, window:N (the query's position and N keys before it), window:LEFT:RIGHT, "
                        "prefix:N, chunked:N, blocks:N, or documents:N (of N positions, read from a tensor). The last "
                        "query is at the last key (default: full)")
    parser.add_argument("--dropout", default=0.0, type=_probability, metavar="P",
                        help="probability to drop an attention probability (default: 0)")
    parser.add_argument("--backward", action="store_true", help="time the backward pass, too")
    parser.add_argument("--device", metavar="{cpu,cuda,cuda:N}",
                        help="device (default: cuda if there is one, else cpu)")
    parser.add_argument("--peers", default=list(PEERS), type=_peers, metavar="NAMES",
                        help=f"all, none, or some of {','.join(PEERS)} (default: all)")
    parser.add_argument("--repeats", default=10, **number, help="timed calls in a round (default: 10)")
    parser.add_argument("--rounds", default=5, **number, help="rounds, in which candidates take turns (default: 5)")
    parser.add_argument("--json", type=_output(""), metavar="FILE", help="write the results to this file")
    parser.add_argument("--plot", type=_output(".svg", ".pdf", ".png"), metavar="FILE.svg",
                        help="draw the results: lines over several --queries, or bars (needs matplotlib)")
    return parser


def _find_device(device: Optional[str]) -> str:
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device is None:
        return "cuda:0" if count else "cpu"
    names = {"cpu": "cpu", **{f"cuda:{number}": f"cuda:{number}" for number in range(count)}}
    if count:
        names["cuda"] = f"cuda:{torch.cuda.current_device()}"
    if device not in names:
        why = "" if count else " (torch sees no GPU)"
        raise _OptionError("device", f"one of {', '.join(names)}{why}", f"'{device}'")
    return names[device]


def make_problems(options: argparse.Namespace) -> List[Problem]:
    """A problem for each number of queries. Raises _OptionError if options do not fit together."""
    device = _find_device(options.device)
    dtype = options.dtype or ("f32" if device == "cpu" else "bf16")
    kv_heads = options.kv_heads or options.heads
    if options.heads % kv_heads:
        raise _OptionError("kv-heads", f"a divisor of --heads {options.heads}", kv_heads)
    keys = options.keys or options.queries
    if len(keys) == 1:
        keys = keys * len(options.queries)
    if len(keys) != len(options.queries):
        raise _OptionError("keys", f"one number or {len(options.queries)}, as --queries has", f"{len(keys)} numbers")
    problems = []
    for number, length in zip(options.queries, keys):
        if options.mask.kind == "documents" and number > length:
            raise _OptionError("queries", f"at most --keys {length} with a mask of documents", number)
        problems.append(Problem(options.batch, options.heads, kv_heads, number, length, options.head_dim, dtype,
                                options.mask, options.dropout, device))  # fmt: skip
    return problems


def describe_device(device: str) -> str:
    """The name of a device."""
    import torch

    if device == "cpu":
        return f"CPU (threads of torch: {torch.get_num_threads()})"
    return torch.cuda.get_device_name(device)


class _Progress:
    """Progress on stderr: on a terminal in one line."""

    def __init__(self, total: int):
        self._total, self._number, self._is_terminal = total, 0, sys.stderr.isatty()

    def begin(self) -> None:
        """Begins the next one of all passes."""
        self._number += 1

    def __call__(self, text: str) -> None:
        start, end = ("\r\033[K", "") if self._is_terminal else ("", "\n")
        print(f"{start}[{self._number}/{self._total}] {text}", end=end, file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Makes room for other output."""
        if self._is_terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = make_parser()
    options = parser.parse_args(arguments)
    try:
        import torch
    except ImportError:
        parser.exit(1, "error: attn.bench needs torch: expected the module 'torch', found none; install it\n")
    try:
        problems = make_problems(options)
        if options.plot:
            import_figure()
    except _OptionError as error:
        parser.error(str(error))
    except AttnError as error:
        parser.error(f"argument --plot: {error}")
    device = describe_device(problems[0].device)
    print(f"Attn {__version__}, torch {torch.__version__}, {device}")
    passes = (False, True) if options.backward else (False,)
    cases, failures = [], []
    progress = _Progress(len(problems) * len(passes))
    for problem in problems:
        print(f"\n{problem.describe()}", flush=True)
        for backward in passes:
            progress.begin()
            try:
                case = measure(problem, backward, options.peers, options.repeats, options.rounds, progress)
            except RuntimeError as error:
                # There is no memory for the tensors or for the reference.
                reason = _explain_refusal(error, ())
                name = "backward" if backward else "forward"
                failures.append(f"{problem.describe()}: {name} pass: expected a result, found: {reason}")
                continue
            finally:
                progress.clear()
            cases.append(case)
            failures += [f"{problem.describe()}: {failure}" for failure in find_failures(case)]
            print(format_case(case), flush=True)
    first = problems[0]
    title = f"{device}, {first.dtype}, batch {first.batch}, heads {first.heads}/{first.kv_heads} of {first.head_dim}, "
    title += f"mask {first.mask}" + (f", dropout {first.dropout:g}" if first.dropout else "")
    report = {
        "attn": __version__,
        "torch": torch.__version__,
        "device": device,
        "title": title,
        "cases": cases,
        "failures": failures,
    }
    for option, path, write in (("json", options.json, _write_json), ("plot", options.plot, _write_plot)):
        if path:
            try:
                write(report, path)
            except OSError as error:
                parser.error(f"argument --{option}: expected a file that can be written, found '{path}' ({error})")
    for failure in failures:
        print(f"error: {failure}", file=sys.stderr)
    return 1 if failures else 0


def _write_json(report: Dict[str, Any], path: str) -> None:
    with open(path, "w") as file:
        json.dump(report, file, indent=1)
        file.write("\n")


def _write_plot(report: Dict[str, Any], path: str) -> None:
    draw_report(report).savefig(path)


if __name__ == "__main__":
    sys.exit(main())
