#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The common parts of the benchmarks: options, artifacts, peers, checks, timing and rows.

    harness.py benchmarks/results/*.jsonl      check that the commits of all rows are in the history

A benchmark compiles its artifacts where there is a compiler (--compile) and times them where there are a GPU and
PyTorch, which need not be one machine. Compiling writes the commit of the compiler next to the artifacts, and each row
of results carries it. A row is refused if its commit is unknown or not in the history, or if the tree had uncommitted
changes.

Peers are plug-ins: a peer is timed if its module can be imported and if it supports the problem.
"""

import argparse
import datetime
import functools
import importlib.util
import inspect
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Callable, Optional

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "benchmarks")]

# ---------------------------------------------------------------------------
# Options
# ---------------------------------------------------------------------------

# Options that only some benchmarks have.
OPTIONS = {
    "compile-options": dict(default="", help="further options for the compiler"),
    "target": dict(default="sm_90a", help="what to compile for"),
    "variants": dict(default="", help="folders of further artifacts to time next to the first, joined by commas;"
                     " not recorded"),
    "only": dict(default="", help="only cases whose name contains this"),
    "lengths": dict(default="", help="only these lengths, joined by commas"),
    "peers": dict(default="all", help="peers to time next to Attn, joined by commas, or none; all of them by default"),
    "repeats": dict(type=int, default=15, help="launches of which the median counts"),
    "rounds": dict(type=int, default=7, help="rounds of measurements, in turn"),
}


def make_parser(description, *names, **defaults):
    """The options of all benchmarks, and the named ones of OPTIONS; `defaults` are values of the latter."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--artifacts", required=True, help="folder of compiled artifacts")
    parser.add_argument("--compile", metavar="ATTN_COMPILE", help="compile the artifacts with this compiler and stop")
    parser.add_argument("--runtime", default="libattn_runtime.so", help="the runtime library")
    parser.add_argument("--out", help="file to append rows to")
    for name in names:
        option = dict(OPTIONS[name])
        option["default"] = defaults.pop(name.replace("-", "_"), option["default"])
        parser.add_argument(f"--{name}", **option)
    if defaults:
        raise TypeError(f"no options {sorted(defaults)}")
    return parser


def split_list(text):
    """The parts of a list that is joined by commas."""
    return [part for part in text.split(",") if part]


# ---------------------------------------------------------------------------
# Commits
# ---------------------------------------------------------------------------


def run_git(root, *arguments):
    """What git prints, or None if it fails or does not exist."""
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def find_commit(compiler):
    """The commit of the source tree that a compiler was built from, with "-dirty" if it has uncommitted changes."""
    cache = pathlib.Path(compiler).resolve().parents[1] / "CMakeCache.txt"
    text = cache.read_text() if cache.is_file() else ""
    home = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", text, re.M)
    commit = run_git(home[1], "rev-parse", "HEAD") if home else None
    if not commit:
        return "unknown"
    return commit + ("-dirty" if run_git(home[1], "status", "--porcelain", "--untracked-files=no") else "")


def find_package_commit():
    """The commit of the package that Python finds, if it uses the libraries of a build."""
    from attn.library import compiler_path

    return find_commit(compiler_path())


def read_history(root=ROOT):
    """All commits of the history, or None where it is not known: outside of a repository, and in a shallow clone."""
    if run_git(root, "rev-parse", "--is-shallow-repository") != "false":
        return None
    return run_git(root, "rev-list", "HEAD").split()


def find_problem(commit, history):
    """The error in the commit of a row, or None."""
    if not commit or commit == "unknown":
        return "the commit of the artifact is unknown"
    if commit.endswith("-dirty"):
        return f"the artifact was built from uncommitted changes of {commit.removesuffix('-dirty')[:12]}"
    if not re.fullmatch(r"[0-9a-f]{7,40}", commit):
        return f"'{commit}' is no commit"
    if history is not None and not any(known.startswith(commit) for known in history):
        return f"commit {commit[:12]} is not in the history"
    return None


def check_results(files, root=ROOT):
    """Messages about rows whose commit is refused: file, problem and number of rows."""
    history, counts = read_history(root), {}
    for file in files:
        for line in pathlib.Path(file).read_text().splitlines():
            problem = find_problem(json.loads(line).get("commit"), history)
            if problem:
                key = pathlib.Path(file).name, problem
                counts[key] = counts.get(key, 0) + 1
    return [f"{name}: {count} rows: {problem}" for (name, problem), count in counts.items()]


# ---------------------------------------------------------------------------
# Artifacts
# ---------------------------------------------------------------------------

COMMITS = "commits.json"


class Compiler:
    """Compiles modules to artifacts, and writes the commit of the compiler next to them."""

    def __init__(self, options):
        self.program, self.folder = options.compile, pathlib.Path(options.artifacts)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.flags = getattr(options, "compile_options", "").split()
        self.commit = find_commit(options.compile)
        self.file = self.folder / COMMITS
        self.commits = json.loads(self.file.read_text()) if self.file.is_file() else {}

    def has(self, name, text):
        """Whether the artifact is there already, of the same module and compiler."""
        source, library = self.folder / f"{name}.mlir", self.folder / f"{name}.so"
        is_known = self.commits.get(name) == self.commit and self.commit != "unknown" and "-dirty" not in self.commit
        return is_known and library.is_file() and source.is_file() and source.read_text() == text

    @staticmethod
    def run(command):
        """Runs the compiler. Returns the process with the compiler's messages as its `stderr`."""
        return subprocess.run(command, stderr=subprocess.PIPE, text=True)

    def compile(self, name, text, target, *flags):
        """Compiles one module. Returns the compiler's messages if it fails."""
        source, library = self.folder / f"{name}.mlir", self.folder / f"{name}.so"
        source.write_text(text)
        command = [self.program, str(source), "-o", str(library), f"--target={target}", *self.flags, *flags]
        done = self.run(command)
        if done.returncode:
            return done.stderr.strip() or f"exit code {done.returncode}"
        sys.stderr.write(done.stderr)
        self.commits[name] = self.commit
        self.file.write_text(json.dumps(self.commits, indent=1) + "\n")
        return None


def compile_modules(options, modules, *flags):
    """Compiles `modules`, text by the name of the artifact. Ends the program if one does not compile."""
    compiler, target = Compiler(options), getattr(options, "target", OPTIONS["target"]["default"])
    for number, (name, text) in enumerate(modules.items()):
        print(f"[{number + 1}/{len(modules)}] {name}", file=sys.stderr, flush=True)
        error = compiler.compile(name, text, target, *flags)
        if error:
            sys.exit(f"{error}\nerror: {name} does not compile")


class Artifacts:
    """Compiled artifacts of a folder, each loaded once."""

    def __init__(self, options, folder=None):
        self.folder = pathlib.Path(folder or options.artifacts)
        self.runtime, self.loaded = options.runtime, {}
        file = self.folder / COMMITS
        self.commits = json.loads(file.read_text()) if file.is_file() else {}

    def __contains__(self, name):
        return (self.folder / f"{name}.so").is_file()

    def load(self, name):
        if name not in self.loaded:
            from attn.artifact import Artifact

            self.loaded[name] = Artifact(str(self.folder.resolve() / f"{name}.so"), self.runtime)
        return self.loaded[name]

    def commit_of(self, name):
        return self.commits.get(name, "unknown")


def append_row(out, row, history):
    """Appends a row to the file `out`, if there is one. Ends the program if the commit of the row is refused."""
    if not out:
        return
    problem = find_problem(row["commit"], history)
    if problem:
        sys.exit(f"error: cannot record a row: {problem}")
    with open(out, "a") as file:
        file.write(json.dumps(row) + "\n")


def add_row_options(parser):
    """--out and --commit, for benchmarks without artifacts."""
    parser.add_argument("--out", metavar="FILE", help="append rows to this file")
    parser.add_argument("--commit", metavar="ID", default="",
                        help="commit of what is measured (default: that of the build, where it is known)")


class Rows:
    """Rows of results, which are appended to the file of --out."""

    def __init__(self, options, device, **common):
        self.out, self.device, self.common, self.history = options.out, device, common, read_history()

    def add(self, commit, **fields):
        """The row. Ends the program if rows are recorded and the commit is refused."""
        date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
        row = {**fields, **self.common, "date": date, "device": self.device, "commit": commit}
        append_row(self.out, row, self.history)
        return row


# ---------------------------------------------------------------------------
# Problems and peers
# ---------------------------------------------------------------------------


@dataclass
class Problem:
    """Attention of torch tensors [batch, heads, positions, head dim]."""

    q: object
    k: object
    v: object
    causal: bool = False
    # mask_mod of positions: whether query i attends to key j.
    mask_mod: Optional[Callable] = None
    # score_mod, and the tensor that it adds to the scores if that is all it does.
    score_mod: Optional[Callable] = None
    addend: object = None
    # The same in float64, for checks.
    exact_score_mod: Optional[Callable] = None
    # The probability to drop an attention probability.
    dropout: float = 0.0
    deterministic: bool = False

    @property
    def is_grouped(self):
        return self.q.shape[1] != self.k.shape[1]


class Peer:
    """An implementation of attention to compare with."""

    name = ""
    # The module that must be there in addition to torch.
    module = None

    def find_missing(self):
        """The reason why it cannot be used, or None."""
        if self.module:
            try:
                found = importlib.util.find_spec(self.module)
            except (ImportError, ValueError):
                found = None
            if not found:
                return f"there is no module {self.module}"
        return None

    def supports(self, problem):
        """Whether it can compute the problem; few peers take a score_mod, or masks that are not causal."""
        return problem.mask_mod is None and problem.score_mod is None and not problem.dropout

    def prepare(self, problem):
        """attend(q, k, v) for the problem."""
        raise NotImplementedError

    def forward(self, problem):
        """A call without arguments that computes attention."""
        import torch

        attend = self.prepare(problem)

        def run():
            with torch.no_grad():
                return attend(problem.q, problem.k, problem.v)

        return run

    def backward(self, problem, dout):
        """A call without arguments that computes the gradients of queries, keys and values."""
        import torch

        inputs = [x.detach().clone().requires_grad_(True) for x in (problem.q, problem.k, problem.v)]
        result = self.prepare(problem)(*inputs)
        return lambda: torch.autograd.grad(result, inputs, dout, retain_graph=True)


class Sdpa(Peer):
    """A backend of torch's scaled_dot_product_attention."""

    def __init__(self, name, backend, takes_bias):
        self.name, self.backend, self.takes_bias = name, backend, takes_bias

    def supports(self, problem):
        adds = problem.addend is not None and self.takes_bias
        return problem.mask_mod is None and (problem.score_mod is None or adds)

    def prepare(self, problem):
        import torch.nn.functional as F
        from torch.nn.attention import SDPBackend, sdpa_kernel

        def attend(q, k, v):
            with sdpa_kernel(getattr(SDPBackend, self.backend)):
                return F.scaled_dot_product_attention(q, k, v, attn_mask=problem.addend, is_causal=problem.causal,
                                                      dropout_p=problem.dropout, enable_gqa=problem.is_grouped)

        return attend


class Flex(Peer):
    """FlexAttention with one of its backends. Its block mask is made beforehand and is not timed."""

    def __init__(self, name, backend=None, module=None):
        self.name, self.backend, self.module = name, backend, module

    def supports(self, problem):
        return not problem.dropout

    def prepare(self, problem):
        import torch
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        torch._dynamo.reset()
        compiled = torch.compile(flex_attention, dynamic=False)
        queries, keys, mask_mod = problem.q.shape[2], problem.k.shape[2], problem.mask_mod
        if mask_mod is None and problem.causal:
            mask_mod = lambda i, j: i + (keys - queries) >= j  # noqa: E731
        block_mask = None
        if mask_mod is not None:
            block_mask = create_block_mask(lambda b, h, i, j: mask_mod(i, j), None, None, queries, keys,
                                           device=problem.q.device)
        options = {"BACKEND": self.backend} if self.backend else None
        return lambda q, k, v: compiled(q, k, v, score_mod=problem.score_mod, block_mask=block_mask,
                                        enable_gqa=problem.is_grouped, kernel_options=options)


class Flash(Peer):
    """flash_attn_func of a package of FlashAttention: positions come before heads."""

    def __init__(self, name, module):
        self.name, self.module = name, module

    def prepare(self, problem):
        function = importlib.import_module(self.module).flash_attn_func
        options = {"causal": problem.causal}
        if problem.deterministic and "deterministic" in inspect.signature(function).parameters:
            options["deterministic"] = True

        def attend(q, k, v):
            result = function(*(x.transpose(1, 2) for x in (q, k, v)), **options)
            # Some versions also return the log-sum-exp.
            return (result[0] if isinstance(result, tuple) else result).transpose(1, 2)

        return attend


PEERS = {
    peer.name: peer
    for peer in (
        Sdpa("cudnn", "CUDNN_ATTENTION", takes_bias=True),
        Sdpa("fa2", "FLASH_ATTENTION", takes_bias=False),
        Flex("flex"),
        # Its kernels are FlashAttention-4's.
        Flex("flex_flash", backend="FLASH", module="flash_attn.cute"),
        Flash("fa3", "flash_attn_interface"),
        Flash("fa4", "flash_attn.cute"),
    )
}


def select_peers(text, names=tuple(PEERS)):
    """The peers of --peers that can be used; says why others are left out."""
    wanted = list(names) if text == "all" else [] if text == "none" else split_list(text)
    unknown = [name for name in wanted if name not in names]
    if unknown:
        sys.exit(f"error: unknown peer '{unknown[0]}' (expected all, none or some of {', '.join(names)})")
    peers = []
    for name in wanted:
        missing = PEERS[name].find_missing()
        if missing:
            print(f"peer {name} is left out: {missing}", file=sys.stderr)
        else:
            peers.append(PEERS[name])
    return peers


def prepare_peers(peers, problem, dout=None):
    """Calls by the name of the peer, for peers that support the problem. One that fails is named and left out."""
    runs = {}
    for peer in peers:
        if not peer.supports(problem):
            continue
        try:
            run = peer.forward(problem) if dout is None else peer.backward(problem, dout)
            run()
        except Exception as error:  # Peers are not ours: whatever is wrong with one is reported, and others are timed.
            print(f"peer {peer.name} failed: {(str(error).splitlines() or [type(error).__name__])[0]}", file=sys.stderr)
            continue
        runs[peer.name] = run
    return runs


# ---------------------------------------------------------------------------
# Checks
# ---------------------------------------------------------------------------

# Relative errors of rows of outputs and of gradients in bf16, and errors of the log-sum-exp, that are allowed.
MAX_ERROR, MAX_GRAD_ERROR, MAX_LSE_ERROR = 6e-3, 1e-2, 2e-3


def mask_of(problem):
    """mask_mod of the problem, with causal masks aligned to the bottom right corner; None keeps all."""
    offset = problem.k.shape[2] - problem.q.shape[2]
    if problem.mask_mod is None and problem.causal:
        return lambda i, j: j <= i + offset
    return problem.mask_mod


def check_forward(problem, out, lse, count=64):
    """Relative error of some rows of the output, and largest error of their log-sum-exp, against float64."""
    import torch

    q, k, v = problem.q, problem.k, problem.v
    batch, heads, queries, dim = q.shape
    generator = torch.Generator().manual_seed(0)
    b, h, i = (torch.randint(limit, (count,), generator=generator) for limit in (batch, heads, queries))
    i[0], i[1] = 0, queries - 1
    b, h, i = b.to(q.device), h.to(q.device), i.to(q.device)
    group = heads // k.shape[1]
    qr, kr, vr = q[b, h, i].double(), k[b, h // group].double(), v[b, h // group].double()
    scores = torch.einsum("nd,nsd->ns", qr, kr) / math.sqrt(dim)
    j = torch.arange(k.shape[2], device=q.device)
    score_mod, mask_mod = problem.exact_score_mod or problem.score_mod, mask_of(problem)
    if score_mod:
        scores = score_mod(scores, b[:, None], h[:, None], i[:, None], j[None, :])
    if mask_mod:
        scores.masked_fill_(~mask_mod(i[:, None], j[None, :]), float("-inf"))
    expected = torch.einsum("ns,nsd->nd", scores.softmax(-1), vr)
    error = ((out[b, h, i].double() - expected).norm() / expected.norm()).item()
    lse_error = (lse[b, h, i].double() - scores.logsumexp(-1)).abs().max().item()
    if math.isnan(error) or out.isnan().any().item():
        error = math.inf
    return error, math.inf if math.isnan(lse_error) else lse_error


def check_backward(problem, dout, lse, out, grads, count=32):
    """Largest relative error of some rows of the gradients of queries, keys and values, against float64."""
    import torch

    q, k, v = problem.q, problem.k, problem.v
    batch, heads, queries, dim = q.shape
    keys, group = k.shape[2], heads // k.shape[1]
    scale, mask_mod = 1 / math.sqrt(dim), mask_of(problem)
    generator = torch.Generator().manual_seed(0)

    def pick(limit):
        return torch.randint(limit, (count,), generator=generator).tolist()

    def differentiate(b, h, rows, columns):
        """Attention probabilities of rows of queries and keys, gradients of their scores, and the operands."""
        qr, kr, vr = q[b, h, rows].double(), k[b, h // group, columns].double(), v[b, h // group, columns].double()
        do = dout[b, h, rows].double()
        scores = qr @ kr.T * scale
        if mask_mod:
            i = torch.arange(queries, device=q.device)[rows][:, None]
            j = torch.arange(keys, device=q.device)[columns][None, :]
            scores.masked_fill_(~mask_mod(i, j), float("-inf"))
        p = (scores - lse[b, h, rows].double()[:, None]).exp()
        delta = (do * out[b, h, rows].double()).sum(-1, keepdim=True)
        return p, p * (do @ vr.T - delta) * scale, qr, kr, do

    expected, actual = ([], [], []), ([], [], [])
    places = zip(pick(batch), pick(heads), [0, queries - 1] + pick(queries), [0, keys - 1] + pick(keys))
    for b, h, i, j in places:
        _, ds, _, kr, _ = differentiate(b, h, slice(i, i + 1), slice(None))
        dk = dv = 0
        for member in range(h // group * group, h // group * group + group):
            p, column, qr, _, do = differentiate(b, member, slice(None), slice(j, j + 1))
            dk, dv = dk + (column.T @ qr)[0], dv + (p.T @ do)[0]
        gradients = ((ds @ kr)[0], h, i), (dk, h // group, j), (dv, h // group, j)
        for number, (gradient, head, row) in enumerate(gradients):
            expected[number].append(gradient)
            actual[number].append(grads[number][b, head, row].double())
    errors = []
    for exact, found in zip(expected, actual):
        exact, found = torch.stack(exact), torch.stack(found)
        errors.append(((found - exact).norm() / exact.norm()).item())
    if any(map(math.isnan, errors)) or any(gradient.isnan().any().item() for gradient in grads):
        return math.inf
    return max(errors)


# ---------------------------------------------------------------------------
# Timing
# ---------------------------------------------------------------------------


# Where tensors are. Tests of the benchmarks put them on the host, with artifacts for it.
DEVICE = "cuda"


def describe_device(torch):
    """The name of the device, for rows."""
    return torch.cuda.get_device_name(0) if DEVICE == "cuda" else DEVICE


def get_stream(torch):
    """The stream that functions of artifacts run on."""
    return torch.cuda.current_stream().cuda_stream if DEVICE == "cuda" else None


def synchronize(torch):
    """Waits for the device."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def time_once(torch, fn, launches=1, sleep=1_000_000):
    """Milliseconds that the GPU spends in fn(). A sleep kernel of `sleep` cycles goes first, so that all launches are
    queued before the clock starts and the overhead of Python is not measured."""
    if DEVICE != "cuda":
        begin = time.perf_counter()
        for _ in range(launches):
            fn()
        return (time.perf_counter() - begin) * 1e3 / launches
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(sleep)
    begin.record()
    for _ in range(launches):
        fn()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / launches


def median(values):
    """The upper median."""
    return sorted(values)[len(values) // 2]


def median_ms(torch, fn, repeats, warmup=3, sleep=1_000_000):
    """Median milliseconds that the GPU spends in fn()."""
    for _ in range(warmup):
        fn()
    synchronize(torch)
    return median([time_once(torch, fn, sleep=sleep) for _ in range(repeats)])


def measure_copy(torch, repeats, size=2**30):
    """Terabytes per second of a copy of `size` bytes, which are read, and written."""
    source = torch.zeros(size // 4, device=DEVICE)
    copy = torch.empty_like(source)
    return 2 * size / median_ms(torch, functools.partial(copy.copy_, source), repeats) / 1e9


def time_in_turn(torch, runs, repeats, rounds=2, choose=min, **options):
    """Milliseconds of several calls by name. They are timed alternately, so that none of them has a cooler GPU;
    `choose` takes one of the medians of the rounds."""
    times = {name: [] for name in runs}
    for _ in range(rounds):
        for name, fn in runs.items():
            times[name].append(median_ms(torch, fn, repeats, **options))
    return {name: choose(values) for name, values in times.items()}


def compare_times(rows, commit, times, flops, errors, **fields):
    """Adds a row for each of the times in milliseconds, the first of which is Attn's. Gives these rows, and a line that
    compares rates in TFLOP/s."""
    made = []
    for op, ms in times.items():
        own = errors if not made else {}
        made.append(rows.add(commit, op=op, **fields, ms=ms, tflops=flops / ms / 1e9, **own))
    text = f"{made[0]['op']} {made[0]['tflops']:6.1f} TF {made[0]['ms']:8.4f} ms"
    for row in made[1:]:
        text += f"  {row['op']} {row['tflops']:6.1f} ({made[0]['tflops'] / row['tflops']:.3f}x)"
    return made, text + "".join(f"  {name} {error:.1e}" for name, error in errors.items())


def print_means(ratios):
    """The geometric mean and the worst of the ratios to each peer."""
    for peer, values in ratios.items():
        mean = math.exp(sum(map(math.log, values)) / len(values))
        print(f"{len(values)} cases: geometric mean {mean:.3f}x {peer}, worst {min(values):.3f}x")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE", help="files of rows")
    messages = check_results(parser.parse_args(arguments).files)
    for message in messages:
        print(message)
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())
