# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""attn.torch under Inductor: torch.compile, cpp_wrapper, AOTInductor, and exported programs in another process.

They run in bf16 on a GPU if there is one, and else in f32 on the host.
"""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

import torch._inductor.config as inductor  # noqa: E402
import torch._inductor.ir as inductor_ir  # noqa: E402
from attn import masks  # noqa: E402
from attn.torch import inductor as lowerings  # noqa: E402
from attn.torch import flex_attention, sdpa, trace  # noqa: E402

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor compiles C++ for the host")
ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def code_cache(tmp_path_factory):
    """What g++ made of generated sources, by their hashes; kept in ATTN_TEST_CACHE_DIR for the same PyTorch and g++."""
    kept = os.environ.get("ATTN_TEST_CACHE_DIR")
    compiler = subprocess.run(["g++", "-dumpfullversion"], check=True, capture_output=True, text=True).stdout.strip()
    version = f"inductor-{torch.__version__}-g++-{compiler}"
    return pathlib.Path(kept, version) if kept else tmp_path_factory.mktemp(version)


@pytest.fixture(autouse=True)
def inductor_cache(code_cache, monkeypatch):
    """Generates all sources, and precompiles no headers, which takes longer than one kernel."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(code_cache))
    torch._dynamo.reset()
    with inductor.patch(cpp_cache_precompile_headers=False, fx_graph_cache=False):
        yield
    torch._dynamo.reset()


DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPE = torch.bfloat16 if DEVICE == "cuda" else torch.float32
TOLERANCE = {"rtol": 2e-2, "atol": 6e-2} if DEVICE == "cuda" else {"rtol": 1e-4, "atol": 1e-4}
SLOPES = torch.tensor([0.5, 0.25], device=DEVICE)
FUNCTIONS = (lambda s, b, h, q, k: s + SLOPES[h] * (k - q), lambda b, h, q, k: q + 3 >= k)
TRACED = trace(*FUNCTIONS)


def make_model(*functions):
    torch.manual_seed(0)
    return Model(functions or (TRACED,)).to(DEVICE, DTYPE)


class Model(torch.nn.Module):
    """Attention without captures, with a bool mask, and with traced functions, each between elementwise operations."""

    def __init__(self, functions=(TRACED,)):
        super().__init__()
        self.project = torch.nn.Linear(32, 96)
        self.functions = functions

    def forward(self, x, mask):
        q, k, v = (self.project(x) * 1.5).view(*x.shape[:2], 3, 2, 16).permute(2, 0, 3, 1, 4)
        q = sdpa(q, k, v, attn_mask=masks.causal()) * 2
        q = sdpa(q, k, v, attn_mask=mask, soft_cap=20.0) + 1
        return (flex_attention(q, k, v, *self.functions) + q).transpose(1, 2).flatten(2)


def make_arguments(length):
    generator = torch.Generator().manual_seed(length)
    x = torch.randn(2, length, 32, generator=generator)
    return x.to(DEVICE, DTYPE), (torch.rand(length, length, generator=generator) > 0.2).to(DEVICE)


def run_step(call, model, length):
    """The output, and the gradient of the projection."""
    model.zero_grad()
    out = call(*make_arguments(length))
    out.square().sum().backward()
    return out.detach(), model.project.weight.grad.clone()


def check_steps(compiled, model, *lengths):
    for length in lengths:
        for actual, expected in zip(run_step(compiled, model, length), run_step(model, model, length)):
            # Gradients are sums, whose elements may be small where their terms, rounded in 16 bits, are not.
            assert (actual - expected).norm() <= (2e-2 if DEVICE == "cuda" else 1e-4) * expected.norm()


def test_arguments_survive_comments_of_kernels(monkeypatch):
    """Inductor prints calls of operators behind one mark of a comment, which ends with the line."""
    printed = []
    get_metadata = inductor_ir.get_kernel_metadata

    def record(node, wrapper):
        texts = get_metadata(node, wrapper)
        printed.extend(line for text in texts for line in text.split("\n"))
        return texts

    monkeypatch.setattr(inductor_ir, "get_kernel_metadata", record)
    model = make_model()
    compiled = torch.compile(model, fullgraph=True, dynamic=True)
    check_steps(compiled, model, 20, 37)
    assert sum("attn.attention" in line for line in printed) >= 6
    assert [line for line in printed if not line.startswith("#")] == []


def test_functions_are_traced_in_graphs():
    model = make_model(*FUNCTIONS)
    check_steps(torch.compile(model, fullgraph=True, dynamic=True), model, 20, 37)


def test_max_autotune():
    model = make_model()
    with torch.no_grad():
        actual = torch.compile(model, mode="max-autotune", fullgraph=True)(*make_arguments(20))
        torch.testing.assert_close(actual, model(*make_arguments(20)), **TOLERANCE)


def test_cpp_wrapper():
    model = make_model()
    with inductor.patch(cpp_wrapper=True):
        check_steps(torch.compile(model, fullgraph=True), model, 20)


_IN_ANOTHER_PROCESS = """
import sys
import torch
import attn.torch
x, mask, expected, tolerance = torch.load(sys.argv[1])
with torch.no_grad():
    # PyTorch 2.11 crashes if a package for CUDA, of any model, is loaded before anything of the process runs.
    for load, path in ((lambda path: torch.export.load(path).module(), sys.argv[3]),
                       (torch._inductor.aoti_load_package, sys.argv[2])):
        torch.testing.assert_close(load(path)(x, mask), expected, **tolerance)
print("both agree")
"""


def test_packages_run_in_another_process(tmp_path):
    model = make_model()
    arguments = make_arguments(20)
    data, package, exported = (str(tmp_path / name) for name in ("data.pt", "model.pt2", "exported.pt2"))
    # With gradients on, whose numbers are an empty list.
    program = torch.export.export(model, arguments)
    torch.export.save(program, exported)
    torch.save((*arguments, model(*arguments).detach(), TOLERANCE), data)
    torch._inductor.aoti_compile_and_package(program, package_path=package)
    command = [sys.executable, "-c", _IN_ANOTHER_PROCESS, data, package, exported]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "both agree" in result.stdout


class Calls:
    """A function of an operator that counts its calls."""

    def __init__(self, monkeypatch, operator):
        self.count = 0
        self._run = operator.run_in_graph
        monkeypatch.setattr(operator, "run_in_graph", self)

    def __call__(self, *arguments, **options):
        self.count += 1
        return self._run(*arguments, **options)


def test_generated_code_calls_functions_of_operators(monkeypatch):
    """The dispatcher takes longer than the rest of a call."""
    forward = Calls(monkeypatch, torch.ops.attn.attention.default)
    backward = Calls(monkeypatch, torch.ops.attn.attention_backward.default)
    model = make_model()
    check_steps(torch.compile(model, fullgraph=True, dynamic=True), model, 20, 37, 20)
    assert (forward.count, backward.count) == (9, 9)


def test_operators_are_called_where_inductor_has_changed(monkeypatch, caplog):
    """Functions of Inductor that register lowerings are private."""
    from torch._inductor import lowering

    operators = [torch.ops.attn.attention.default, torch.ops.attn.attention_backward.default]
    for operator in operators:
        for table in (lowering.lowerings, lowering._maybe_layout_constraints):
            monkeypatch.delitem(table, operator, raising=False)
    monkeypatch.setattr(lowerings, "_lowered", set())
    monkeypatch.delattr(lowering, "tag_to_layout_constraint")
    forward = Calls(monkeypatch, operators[0])
    model = make_model()
    with caplog.at_level("INFO", logger=lowerings.__name__):
        check_steps(torch.compile(model, fullgraph=True), model, 20)
    assert "Inductor calls attn.attention.default by the dispatcher" in caplog.text
    assert forward.count == 0


def attend_in_graph(*tensors):
    return torch.ops.attn.attention.default.run_in_graph(list(tensors), None, "", scale=None, dropout_p=0.0)[0]


def test_functions_of_operators_call_these_where_calls_are_observed():
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Observer(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), options=None):
            seen.append(function)
            return function(*arguments, **(options or {}))

    q, k, v = (torch.randn(1, 2, 24, 16, device=DEVICE, dtype=DTYPE) for _ in range(3))
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(attend_in_graph(q, k, v), expected, **TOLERANCE)
        with Observer():
            torch.testing.assert_close(attend_in_graph(q, k, v), expected, **TOLERANCE)
    assert torch.ops.attn.attention.default in seen
    leaf = q.clone().requires_grad_()
    out = torch.ops.attn.attention.default.run_in_graph([leaf, k, v], None, "gradients: inputs")[0]
    (actual,) = torch.autograd.grad(out.square().sum(), leaf)
    reference = torch.nn.functional.scaled_dot_product_attention(leaf, k, v)
    torch.testing.assert_close(actual, torch.autograd.grad(reference.square().sum(), leaf)[0], **TOLERANCE)


def test_sdpa_is_one_node_of_graphs():
    """Dynamo guards all that it looks into, at each call."""
    graphs = []

    def record(module, inputs):
        graphs.append(module)
        return module

    def attend(q, k, v, ids):
        return sdpa(q, k, v, masks.documents(ids) & masks.causal(), scale=0.3)

    q, k, v = (torch.randn(1, 2, 24, 16, device=DEVICE, dtype=DTYPE) for _ in range(3))
    ids = torch.arange(24, dtype=torch.int32, device=DEVICE)[None] // 10
    out = torch.compile(attend, backend=record, fullgraph=True)(q, k, v, ids)
    torch.testing.assert_close(out, attend(q, k, v, ids))
    (graph,) = graphs
    targets = [node.target for node in graph.graph.nodes if node.op == "call_function"]
    assert targets == [sys.modules[sdpa.__module__]._attend]


def test_errors_of_sdpa_in_graphs_tell_the_argument():
    q, k = (torch.randn(1, heads, 8, 16, device=DEVICE, dtype=DTYPE) for heads in (4, 2))
    with pytest.raises(Exception, match="key has 2 heads, and another tensor 4; pass enable_gqa=True"):
        torch.compile(sdpa, fullgraph=True)(q, k, k)
