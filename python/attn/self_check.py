# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The self test of ``python -m attn``: small attentions, compared with attention in float64.

With torch, functions of ``attn.torch`` are tested on the host and on each GPU that torch sees. Without torch, compiled
functions are called on the host by themselves.
"""

import ctypes
import functools
import importlib
import math
import random
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import attn
from attn import bench
from attn.artifact import DTYPES, Function, TensorView
from attn.compiler import compile
from attn.errors import AttnError

# Relative errors of results, and of gradients.
_MAX_ERRORS = {"f32": (1e-5, 1e-4), "bf16": (1e-2, 2e-2)}


def import_torch() -> Optional[Any]:
    try:
        import torch
    except ImportError:
        return None
    return torch


class Outcome(NamedTuple):
    """The expected and the found value of a test."""

    expected: str
    found: str
    is_right: bool


class Check(NamedTuple):
    """A test of one device."""

    name: str
    device: str
    run: Callable[[], Outcome]


def _judge(error: float, limit: float) -> Outcome:
    """An error against float64; NaN is no small error."""
    return Outcome(f"a relative error of at most {limit:g}", f"{error:.2g}", error <= limit)


def _judge_dropout(is_same: bool, is_other: bool, rate: float, expected: float) -> Outcome:
    found = f"{'equal' if is_same else 'different'}, {'different' if is_other else 'equal'}, {rate:.1%} dropped"
    expected_text = f"equal results for one seed, different for another, {expected:.0%} dropped"
    return Outcome(expected_text, found, is_same and is_other and abs(rate - expected) < 0.04)


#: Numbers of heads, which the comparison with torch has, too.
HEADS, KV_HEADS = 8, 2
_BATCH, _QUERIES, _KEYS = 2, 40, 56
_DROPOUT = 0.25


class TorchChecks:
    """Tests of ``attn.torch`` on a device."""

    def __init__(self, device: str):
        import torch

        self._torch, self._device = torch, device
        self._dtype = "f32" if device == "cpu" else "bf16"
        #: The head dim; the comparison with torch has it, too, so that it compiles nothing.
        self.head_dim = 64 if device == "cpu" else 128

    def list(self) -> List[Check]:
        tests = {
            "dense": self._check_dense,
            "causal": self._check_causal,
            "grouped heads": self._check_grouped,
            "mask_mod": self._check_mask_mod,
            "dropout": self._check_dropout,
            "gradient": self._check_gradient,
        }
        return [Check(name, self._device, run) for name, run in tests.items()]

    def _make(self, kv_heads: int = HEADS) -> List[Any]:
        torch = self._torch
        generator = torch.Generator().manual_seed(0)
        sizes = ((HEADS, _QUERIES), (kv_heads, _KEYS), (kv_heads, _KEYS))
        dtype = getattr(torch, bench.DTYPES[self._dtype])
        shapes = [(_BATCH, heads, positions, self.head_dim) for heads, positions in sizes]
        return [torch.randn(shape, generator=generator).to(self._device, dtype) for shape in shapes]

    def _keep(self, function: Callable) -> Any:
        """The pairs of a mask_mod, as a tensor."""
        sizes = (_BATCH, HEADS, _QUERIES, _KEYS)
        position = [
            self._torch.arange(size, device=self._device).view([-1 if dim == number else 1 for dim in range(4)])
            for number, size in enumerate(sizes)
        ]
        return function(*position)

    def _compute(self, q: Any, k: Any, v: Any, keep: Optional[Any] = None) -> Any:
        """Attention by operations of torch."""
        group = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        if keep is not None:
            scores = scores.masked_fill(~keep, -math.inf)
        return scores.softmax(-1) @ v

    @staticmethod
    def _measure(found: Any, exact: Any) -> float:
        return ((found.double() - exact).norm() / exact.norm()).item()

    def _check(self, call: Callable, kv_heads: int = HEADS, keep: Optional[Callable] = None) -> Outcome:
        tensors = self._make(kv_heads)
        exact = self._compute(*(tensor.double() for tensor in tensors), keep if keep is None else self._keep(keep))
        found = call(*tensors)
        if found.shape != exact.shape:
            return Outcome(f"the shape {tuple(exact.shape)}", f"{tuple(found.shape)}", False)
        return _judge(self._measure(found, exact), _MAX_ERRORS[self._dtype][0])

    def _check_dense(self) -> Outcome:
        return self._check(lambda q, k, v: attn.torch.sdpa(q, k, v))

    def _check_causal(self) -> Outcome:
        return self._check(
            lambda q, k, v: attn.torch.sdpa(q, k, v, is_causal=True), keep=lambda b, h, i, j: (j <= i) & (b >= 0)
        )

    @staticmethod
    def _attend_grouped(q: Any, k: Any, v: Any) -> Any:
        return attn.torch.sdpa(q, k, v, attn.masks.causal(), enable_gqa=True)

    @staticmethod
    def _keep_grouped(b: Any, h: Any, i: Any, j: Any) -> Any:
        return j <= i + (_KEYS - _QUERIES)

    def _check_grouped(self) -> Outcome:
        return self._check(self._attend_grouped, KV_HEADS, self._keep_grouped)

    def _check_mask_mod(self) -> Outcome:
        def mask_mod(b: Any, h: Any, i: Any, j: Any) -> Any:
            return (i - j < 12 + h) & (j - i < 9) | (j < 3)

        return self._check(lambda q, k, v: attn.torch.flex_attention(q, k, v, block_mask=mask_mod), keep=mask_mod)

    def _check_dropout(self) -> Outcome:
        torch = self._torch
        # With equal scores, and rows of the identity as values, outputs tell which probabilities are dropped.
        q, k, v = (torch.zeros_like(tensor) for tensor in self._make())
        v[:] = torch.eye(_KEYS, self.head_dim).to(v)
        results = []
        with torch.random.fork_rng([] if self._device == "cpu" else [self._device]):
            for seed in (1, 1, 2):
                torch.manual_seed(seed)
                results.append(attn.torch.sdpa(q, k, v, dropout_p=_DROPOUT))
        rate = (results[0][..., :_KEYS] == 0).double().mean().item()
        first, second, other = results
        return _judge_dropout(torch.equal(first, second), not torch.equal(first, other), rate, _DROPOUT)

    def _check_gradient(self) -> Outcome:
        torch = self._torch
        tensors = [tensor.requires_grad_() for tensor in self._make(KV_HEADS)]
        wide = [tensor.detach().double().requires_grad_() for tensor in tensors]
        exact = self._compute(*wide, self._keep(self._keep_grouped))
        dout = torch.randn(exact.shape, generator=torch.Generator().manual_seed(1)).to(tensors[0])
        expected = torch.autograd.grad(exact, wide, dout.double())
        found = torch.autograd.grad(self._attend_grouped(*tensors), tensors, dout)
        errors = [self._measure(*pair) for pair in zip(found, expected)]
        return _judge(math.nan if any(map(math.isnan, errors)) else max(errors), _MAX_ERRORS[self._dtype][1])


class _Array(NamedTuple):
    """Numbers in the memory of the host, for compiled functions without torch."""

    values: Any
    shape: Tuple[int, ...]
    dtype: str

    @classmethod
    def make(cls, shape: Sequence[int], numbers: Optional[Sequence[float]] = None, dtype: str = "f32") -> "_Array":
        kind = {"f32": ctypes.c_float, "i64": ctypes.c_int64}[dtype]
        size = math.prod(shape)
        return cls((kind * size)(*(numbers or [0] * size)), tuple(shape), dtype)

    def view(self) -> TensorView:
        strides = [math.prod(self.shape[dim + 1 :]) for dim in range(len(self.shape))]
        view = TensorView.make(self.shape, strides, DTYPES.index(self.dtype), -1)
        view.data = ctypes.addressof(self.values)
        return view


def _call(function: Function, *arrays: _Array) -> None:
    views = [ctypes.pointer(array.view()) for array in arrays]
    pointers = (ctypes.POINTER(TensorView) * len(views))(*views)
    if function.call(ctypes.addressof(pointers), len(views), None) != 0:
        raise AttnError(function.last_error().decode(errors="replace"))


class _PlainChecks:
    """Tests of compiled functions on the host, without torch. Python's numbers are float64."""

    _SIZES = {"batch": 1, "heads": 4, "queries": 12, "keys": 17, "dim": 24}

    def list(self) -> List[Check]:
        region = (
            "%width = arith.constant 5 : index\n%last = arith.addi %i, %width : index\n"
            "%keep = arith.cmpi sle, %j, %last : index\nattn.yield %keep : i1"
        )
        causal = functools.partial(self._check, keep=lambda i, j: j <= i, mask="#attn.causal<alignment = top_left>")
        tests: Dict[str, Callable[[], Outcome]] = {
            "dense": self._check,
            "causal": causal,
            "grouped heads": functools.partial(causal, kv_heads=2),
            "mask_mod": lambda: self._check(keep=lambda i, j: j <= i + 5, region=region),
            "dropout": self._check_dropout,
            "gradient": self._check_gradient,
        }
        return [Check(name, "cpu", run) for name, run in tests.items()]

    def _describe(self, kv_heads: int, **options: Any) -> Any:
        return attn.Attention("f32", self._SIZES["heads"], kv_heads, self._SIZES["dim"], **options)

    def _make(self, kv_heads: int = 4) -> List[_Array]:
        numbers = random.Random(0)
        sizes = self._SIZES
        shapes = [(1, sizes["heads"], sizes["queries"], sizes["dim"])]
        shapes += [(1, kv_heads, sizes["keys"], sizes["dim"])] * 2
        return [_Array.make(shape, [numbers.gauss(0, 1) for _ in range(math.prod(shape))]) for shape in shapes]

    @staticmethod
    def _rows(array: _Array, head: int) -> List[List[float]]:
        """The rows of a head."""
        rows, dim = array.shape[2:]
        first = head * rows * dim
        return [array.values[first + row * dim : first + (row + 1) * dim] for row in range(rows)]

    def _probabilities(self, q: List[List[float]], k: List[List[float]], keep: Callable) -> List[List[float]]:
        result = []
        for i, row in enumerate(q):
            scores = [_dot(row, key) / math.sqrt(len(row)) if keep(i, j) else -math.inf for j, key in enumerate(k)]
            highest = max(scores)
            powers = [math.exp(score - highest) for score in scores]
            result.append([power / sum(powers) for power in powers])
        return result

    @staticmethod
    def _measure(found: Sequence[float], exact: Sequence[float]) -> float:
        difference = math.sqrt(sum((one - other) ** 2 for one, other in zip(found, exact)))
        return difference / math.sqrt(sum(value**2 for value in exact))

    def _check(
        self, keep: Callable = lambda i, j: True, kv_heads: int = 4, mask: str = "", region: str = ""
    ) -> Outcome:
        q, k, v = self._make(kv_heads)
        exact: List[float] = []
        for head in range(self._SIZES["heads"]):
            kv_head = head * kv_heads // self._SIZES["heads"]
            values = _transpose(self._rows(v, kv_head))
            for row in self._probabilities(self._rows(q, head), self._rows(k, kv_head), keep):
                exact += [_dot(row, column) for column in values]
        out = _Array.make(q.shape)
        _call(compile(self._describe(kv_heads, mask=mask, mask_mod=region))["attention"], q, k, v, out)
        return _judge(self._measure(list(out.values), exact), _MAX_ERRORS["f32"][0])

    def _check_dropout(self) -> Outcome:
        attribute = f"#attn.dropout<p = {_DROPOUT}, rng = #attn.arx<rounds = 6>, bits = 8>"
        function = compile(self._describe(4, dropout=attribute))["attention"]
        q, k, v = (_Array.make(array.shape) for array in self._make())
        keys, dim = v.shape[2:]
        for head in range(v.shape[1]):
            for key in range(keys):
                v.values[(head * keys + key) * dim + key] = 1.0
        results = []
        for seed in (1, 1, 2):
            out = _Array.make(q.shape)
            _call(function, q, k, v, _Array.make((), [seed], "i64"), _Array.make((), [0], "i64"), out)
            results.append(list(out.values))
        first, second, other = results
        columns = [value for place, value in enumerate(first) if place % dim < keys]
        rate = sum(value == 0 for value in columns) / len(columns)
        return _judge_dropout(first == second, first != other, rate, _DROPOUT)

    def _check_gradient(self) -> Outcome:
        passes = (
            "attn-differentiate{function=attention arguments=0,1,2},"
            "symbol-privatize{exclude=attention_fwd,attention_bwd},symbol-dce"
        )
        artifact = compile(self._describe(4, mask="#attn.causal<alignment = top_left>"), passes=passes)
        q, k, v = self._make()
        numbers = random.Random(1)
        dout = _Array.make(q.shape, [numbers.gauss(0, 1) for _ in range(math.prod(q.shape))])
        out, lse = _Array.make(q.shape), _Array.make(q.shape[:3])
        gradients = [_Array.make(array.shape) for array in (q, k, v)]
        _call(artifact["attention_fwd"], q, k, v, out, lse)
        _call(artifact["attention_bwd"], q, k, v, out, lse, dout, *gradients)
        exact: List[List[float]] = [[], [], []]
        for head in range(q.shape[1]):
            of_head = self._differentiate(*(self._rows(array, head) for array in (q, k, v, dout)))
            for rows, result in zip(of_head, exact):
                result += [value for row in rows for value in row]
        errors = [self._measure(list(found.values), result) for found, result in zip(gradients, exact)]
        return _judge(math.nan if any(map(math.isnan, errors)) else max(errors), _MAX_ERRORS["f32"][1])

    def _differentiate(self, q: Any, k: Any, v: Any, do: Any) -> Tuple[Any, Any, Any]:
        """Gradients of a head with a causal mask."""
        p = self._probabilities(q, k, lambda i, j: j <= i)
        ds = []
        for row, gradient in zip(p, do):
            dp = [_dot(gradient, value) for value in v]
            delta = _dot(row, dp)
            ds.append([weight * (each - delta) / math.sqrt(len(q[0])) for weight, each in zip(row, dp)])
        return _multiply(ds, k), _multiply(_transpose(ds), q), _multiply(_transpose(p), do)


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other))


def _transpose(rows: Sequence[Sequence[float]]) -> List[Tuple[float, ...]]:
    return list(zip(*rows))


def _multiply(one: Sequence[Sequence[float]], other: Sequence[Sequence[float]]) -> List[List[float]]:
    columns = _transpose(other)
    return [[_dot(row, column) for column in columns] for row in one]


def _raise(error: Exception) -> Outcome:
    raise error


def find_checks(devices: Sequence[Dict[str, Any]], skipped: Dict[str, str]) -> Iterator[Check]:
    """The tests of all devices; names in ``skipped`` what is left out, and why."""
    gpus = [device for device in devices if device["device"] != "cpu"]
    torch = import_torch()
    if torch is not None:
        try:
            importlib.import_module("attn.torch")
        except Exception as error:
            # A version of torch that attn.torch does not work with.
            yield Check("import attn.torch", "cpu", functools.partial(_raise, error))
            return
    if torch is None:
        skipped["tests of attn.torch"] = "there is no module 'torch'; compiled functions are tested by themselves"
        for gpu in gpus:
            skipped[f"self test on {gpu['device']}"] = "there is no module 'torch'"
        yield from _PlainChecks().list()
        return
    yield from TorchChecks("cpu").list()
    visible = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not gpus:
        skipped["self test on a GPU"] = "there is none"
    for number, gpu in enumerate(gpus):
        if number >= visible:
            skipped[f"self test on {gpu['device']}"] = f"torch {torch.__version__} sees {visible} GPUs"
        elif gpu["target"] is None:
            reason = f"expected compute capability 8.0 or later, found {gpu['capability']}"
            skipped[f"self test on {gpu['device']}"] = reason
        else:
            yield from TorchChecks(gpu["device"]).list()


def run_check(check: Check) -> Dict[str, Any]:
    begin = time.monotonic()
    try:
        outcome = check.run()
    except Exception as error:  # Reported like a wrong result, so that the other tests run.
        outcome = Outcome("a result", f"{type(error).__name__}: {error}", False)
    return {
        "name": check.name,
        "device": check.device,
        "passed": outcome.is_right,
        "expected": outcome.expected,
        "found": outcome.found,
        "seconds": round(time.monotonic() - begin, 3),
    }


def format_result(result: Dict[str, Any]) -> str:
    state = "ok" if result["passed"] else "FAILED"
    return f"  {state:8}{result['name']:15}{result['device']:8}expected {result['expected']}, found {result['found']}"
