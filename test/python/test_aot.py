# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Directories of artifacts, which programs in C++ call without Python."""

import json
import os
import re
import subprocess

import attn
import pytest
from attn.artifact import ABI_VERSION, Artifact
from conftest import ROOT

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from attn.torch import flex_attention  # noqa: E402

HEADS, KEY_HEADS, DIM = 4, 2, 16


CUDA_RUNTIME = """
#include <stddef.h>
typedef enum { cudaSuccess = 0 } cudaError_t;
typedef enum { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 } cudaMemcpyKind;
const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaMalloc(void **pointer, size_t size);
cudaError_t cudaFree(void *pointer);
cudaError_t cudaMemcpy(void *to, const void *from, size_t size, cudaMemcpyKind kind);
"""


def attention(query, key, value):
    """As models call it: positions before heads."""
    query, key, value = (tensor.transpose(1, 2) for tensor in (query, key, value))
    return F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True).transpose(1, 2)


def make(batch, length, heads):
    return torch.randn(batch, length, heads, DIM)


def build(directory, folder):
    """The example program."""
    configure = ["cmake", "-S", directory, "-B", folder, "-DCMAKE_BUILD_TYPE=Debug"]
    subprocess.run(configure, check=True, capture_output=True)
    subprocess.run(["cmake", "--build", folder], check=True, capture_output=True)
    (program,) = folder.glob("*_example")
    return program


def run(program, folder, inputs, outputs, *arguments):
    """The outputs of the program, which gets neither the package nor its libraries."""
    for name, tensor in inputs.items():
        (folder / name).write_bytes(tensor.contiguous().numpy().tobytes())
    files = [f"{name}={folder / name}" for name in (*inputs, *outputs)]
    # Libraries with sanitizers need the preloaded library.
    environment = {name: os.environ[name] for name in ("PATH", "LD_PRELOAD", "ASAN_OPTIONS") if name in os.environ}
    subprocess.run([program, *arguments, *files], check=True, env=environment, capture_output=True)
    return [
        torch.frombuffer(bytearray((folder / name).read_bytes()), dtype=torch.float32).reshape(shape)
        for name, shape in outputs.items()
    ]


def test_function(tmp_path):
    """The example program of a function computes what torch computes, for sizes that vary."""
    shapes = [attn.Shape(("n", "q", HEADS, DIM))] + [attn.Shape(("n", "k", KEY_HEADS, DIM))] * 2
    directory = attn.aot(attention, shapes, targets=("host",), directory=tmp_path / "made")
    assert [path.name for path in tmp_path.iterdir()] == ["made"]

    manifest = json.loads((directory / "manifest.json").read_text())
    assert (manifest["name"], manifest["abi_version"]) == ("attention", ABI_VERSION)
    (artifact,) = manifest["artifacts"]
    assert artifact["target"] == "host" and (directory / artifact["header"]).exists()
    (function,) = artifact["functions"]
    assert function["name"] == "attention"
    query, key, value, out = function["arguments"]
    assert function["sizes"] == ["batch", "queries", "keys"]
    assert query == {"name": "query", "dtype": "f32", "shape": ["batch", "queries", HEADS, DIM], "output": False}
    assert key["shape"] == value["shape"] == ["batch", "keys", KEY_HEADS, DIM]
    assert (out["name"], out["output"], out["shape"]) == ("out", True, query["shape"])
    assert list(Artifact(str(directory / artifact["library"])).functions) == ["attention"]

    moved = tmp_path / "moved"
    directory.rename(moved)
    program = build(moved, tmp_path / "build")
    for batch, queries, keys in ((1, 1, 1), (3, 37, 53)):
        inputs = {"query": make(batch, queries, HEADS)}
        inputs |= {name: make(batch, keys, KEY_HEADS) for name in ("key", "value")}
        expected = attention(**inputs)
        sizes = [f"batch={batch}", f"queries={queries}", f"keys={keys}"]
        (found,) = run(program, tmp_path, inputs, {"out": expected.shape}, *sizes)
        torch.testing.assert_close(found, expected)

    # Errors of the program and of the artifact are texts.
    for arguments, text in (
        (["batch=2", f"query={tmp_path / 'query'}"], "bytes, expected"),
        (["none"], "the artifact has no function 'none'"),
        (["query=/nonexistent"], "cannot read '/nonexistent'"),
        (["q=/nonexistent"], "no size or argument 'q' (expected one of batch, queries, keys, query, key, value, out)"),
    ):
        result = subprocess.run([program, *arguments], capture_output=True, text=True)
        assert result.returncode == 1 and text in result.stderr


def test_example_of_the_page(tmp_path, monkeypatch):
    """The example of docs/Python.md runs as it stands."""
    monkeypatch.chdir(tmp_path)
    section = (ROOT / "docs" / "Python.md").read_text().split("\n## Ahead of time\n")[1].split("\n## ")[0]
    (code,) = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    exec(compile(code, "Python.md", "exec"), {})
    (directory,) = tmp_path.iterdir()
    files = {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}
    artifacts = json.loads((directory / "manifest.json").read_text())["artifacts"]
    assert [artifact["target"] for artifact in artifacts] == ["host", "sm_80"]
    named = {artifact[kind] for artifact in artifacts for kind in ("library", "header")}
    shared = {"manifest.json", "main.cpp", "CMakeLists.txt", "lib/libattn_runtime.so.3"}
    assert files == named | shared | {"include/attn-runtime/attn_runtime.h"}
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    table = {name.split("/")[0] for cell in cells for name in re.findall(r"`([^`]+)`", cell)}
    assert {path.split("/")[0] for path in files} | {"data"} == table

    # The program for GPUs needs no more of CUDA's runtime library than this.
    (tmp_path / "cuda_runtime_api.h").write_text(CUDA_RUNTIME)
    includes = [f"-I{folder}" for folder in (directory / "include", directory / "include" / "sm_80", tmp_path)]
    flags = ["-std=c++17", "-fsyntax-only", "-Wall", "-Werror", "-DATTN_EXAMPLE_CUDA", '-DATTN_DATA_DIR=""']
    subprocess.run(["c++", *flags, *includes, directory / "main.cpp"], check=True)


def test_tensors_of_the_function(tmp_path):
    """Tensors that a function owns are arguments with data; sizes of tensors are static unless they are marked."""
    slopes = torch.tensor([0.5, 0.25])

    def biased(q, k, v):
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + slopes[h] * (j - i))

    q, k = torch.randn(1, 2, 8, DIM), torch.randn(1, 2, 24, DIM)
    torch._dynamo.mark_dynamic(k, 2)
    directory = attn.aot(biased, (q, k, k), directory=tmp_path / "biased")
    (function,) = json.loads((directory / "manifest.json").read_text())["artifacts"][0]["functions"]
    shapes = {argument["name"]: argument["shape"] for argument in function["arguments"]}
    assert shapes["q"] == [1, 2, 8, DIM] and shapes["k"] == shapes["v"] == [1, 2, "keys", DIM]
    (owned,) = [argument for argument in function["arguments"] if "data" in argument]
    assert (directory / owned["data"]).read_bytes() == slopes.numpy().tobytes()
    artifact = Artifact(str(directory / "lib" / "libbiased.host.so"))
    out = torch.empty_like(q)
    tensors = {"q": q, "k": k, "v": k, owned["name"]: slopes, "out": out}
    artifact["biased"](*[tensors[argument["name"]] for argument in function["arguments"]])
    torch.testing.assert_close(out, biased(q, k, k))


class Written(torch.nn.Module):
    """Attention that is written out, with a bias of the module."""

    def __init__(self):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.randn(HEADS, 8, 24))

    def forward(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * DIM**-0.5 + self.bias
        return torch.softmax(scores, -1) @ v


def test_exported_program(tmp_path):
    model = Written()
    q, k, v = torch.randn(2, HEADS, 8, DIM), torch.randn(2, HEADS, 24, DIM), torch.randn(2, HEADS, 24, DIM)
    directory = attn.aot(torch.export.export(model, (q, k, v)), directory=tmp_path / "made", name="written")
    (function,) = json.loads((directory / "manifest.json").read_text())["artifacts"][0]["functions"]
    assert [argument["name"] for argument in function["arguments"] if "data" not in argument] == ["q", "k", "v", "out"]
    out = torch.empty(2, HEADS, 8, DIM)
    tensors = {"q": q, "k": k, "v": v, "bias": model.bias.detach(), "out": out}
    artifact = Artifact(str(directory / "lib" / "libwritten.host.so"))
    artifact["written"](*[tensors[argument["name"]] for argument in function["arguments"]])
    torch.testing.assert_close(out, model(q, k, v).detach())


class Block(torch.nn.Module):
    """Projections, heads and a residual around attention."""

    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(HEADS * DIM, HEADS * DIM)
        self.out = torch.nn.Linear(HEADS * DIM, HEADS * DIM, bias=False)

    def forward(self, x, scale):
        heads = [part.unflatten(-1, (HEADS, DIM)).transpose(1, 2) for part in (self.project(x), x * scale, x - scale)]
        out = F.scaled_dot_product_attention(*heads, is_causal=True)
        return x + self.out(out.transpose(1, 2).flatten(2))


def test_module(tmp_path):
    model, x, scale = Block(), torch.randn(1, 24, HEADS * DIM), torch.randn(HEADS * DIM)
    torch._dynamo.mark_dynamic(x, 1)
    directory = attn.aot(model, (x, scale), directory=tmp_path / "made")
    artifact = Artifact(str(directory / "lib" / "libblock.host.so"))
    for length in (24, 40):
        x = torch.randn(1, length, HEADS * DIM)
        out = torch.empty_like(x)
        owned = {name.replace(".", "_"): tensor.detach() for name, tensor in model.named_parameters()}
        tensors = {"x": x, "scale": scale, "out": out, **owned}
        artifact["block"](*[tensors[name] for name, *_ in artifact["block"].args])
        torch.testing.assert_close(out, model(x, scale).detach())


def test_description(tmp_path, monkeypatch):
    """Attention without torch, with and without sizes; a directory is replaced as a whole or not at all."""
    description = attn.Attention("bf16", 2, 1, 64)
    made = attn.aot(description, targets=["sm_80"], directory=tmp_path / "made", name="mine")
    (artifact,) = json.loads((made / "manifest.json").read_text())["artifacts"]
    assert artifact["functions"][0]["sizes"] == ["batch", "queries", "keys"]
    assert "mine(" in (made / "include" / "sm_80" / "mine.h").read_text()
    with pytest.raises(attn.AttnError, match="is not empty; give another one, or pass overwrite=True"):
        attn.aot(description, directory=made)

    before = (made / "manifest.json").read_text()
    with pytest.raises(attn.CompileError):
        attn.aot("func.func @f( {", directory=made, overwrite=True)
    assert (made / "manifest.json").read_text() == before and [*tmp_path.iterdir()] == [made]

    query, key = attn.Shape((2, 2, 64, 64), "bf16"), attn.Shape((2, 1, "k", 64), "bf16")
    attn.aot(description, (query, key, key), targets=["sm_80"], directory=made, overwrite=True)
    (artifact,) = json.loads((made / "manifest.json").read_text())["artifacts"]
    assert artifact["functions"][0]["sizes"] == ["keys"] and [*tmp_path.iterdir()] == [made]
    assert not (made / "include" / "sm_80" / "mine.h").exists()


def softplus(x):
    return F.softplus(x)


def join(x):
    return x.flatten(0, 1) + 0.5 * x.flatten(0, 1)


VARYING = attn.Shape(("n", "m", 8))


QUERY = attn.Shape((1, HEADS, 8, DIM))
KEY = attn.Shape((1, KEY_HEADS, 8, DIM))


@pytest.mark.parametrize(
    "source,examples,options,text",
    [
        (softplus, [attn.Shape((2, 2))], {}, r"aten\.softplus.* which Attn does not compile"),
        (join, [VARYING], {}, "a view splits or joins a size that varies; give it a number"),
        (F.linear, [VARYING, attn.Shape((8, 8))], {}, "has more than one size that varies before the last"),
        (lambda x: x.transpose(0, 1), [attn.Shape((2, 2))], {}, "the graph has no attention"),
        (softplus, None, {}, "example_inputs is None; pass a tensor or attn.Shape"),
        (softplus, [attn.Shape((2.0, 2))], {}, "has the size 2.0; sizes are numbers from 0"),
        (softplus, [3], {}, r"example_inputs\[0\] is a int; pass a tensor or attn.Shape"),
        (3, None, {}, "source is a int; pass a function or module of torch"),
        (attn.Attention("f32", 2, 1, 16), [QUERY] * 3, {}, r"the example of 'query' has the sizes \[1, 4, 8, 16\]"),
        (attn.Attention("f32", 2, 1, 16), [QUERY], {}, "example_inputs has 1 entries, expected at least 3"),
        (attn.Attention("f32", 2, 1, 16), [attn.Shape((-1,))], {}, "has the size -1; sizes are numbers from 0"),
        (attn.Attention("f32", 2, 1, 16), [attn.Shape((1,), "f8")], {}, "has the dtype 'f8' .expected one of bf16"),
        (attention, [QUERY, KEY, KEY], {"targets": ("host", "sm_70")}, "unknown target 'sm_70' .expected one of host"),
        (attention, [QUERY, KEY, KEY], {"targets": ()}, "targets is empty; give at least one of host, sm_80"),
        (attention, [QUERY, KEY, KEY], {"targets": ("host", "host")}, "targets has one of them twice"),
        (attention, [QUERY, KEY, KEY], {"name": "a b"}, "name is 'a b'; it must be an identifier of C"),
        ("func.func @f( {", None, {}, "module.mlir:1:14: expected"),
    ],
)
def test_errors(tmp_path, source, examples, options, text):
    with pytest.raises(attn.AttnError, match=text):
        attn.aot(source, examples, directory=tmp_path / "made", **options)
    assert [*tmp_path.iterdir()] == []


def test_directories_of_others_stay(tmp_path):
    (tmp_path / "file").write_text("text")
    for directory, text in ((tmp_path, "overwrite replaces only"), (tmp_path / "file", "is no directory")):
        with pytest.raises(attn.AttnError, match=text):
            attn.aot(attn.Attention("f32", 2, 1, 16), directory=directory, overwrite=True)
    assert (tmp_path / "file").read_text() == "text"
