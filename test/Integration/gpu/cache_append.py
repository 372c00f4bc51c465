#!/usr/bin/env python3
# ===- cache_append.py - New keys and values for KV caches on the GPU ---------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Compares appends to KV caches with f64, and caches bit for bit where nothing is rotated.

    cache_append.py --compile build/bin/attn-compile --artifacts DIR [--target sm_80]
    cache_append.py --artifacts DIR --runtime libattn_runtime.so
    compute-sanitizer cache_append.py --artifacts DIR --sanitizer-subset

Caches and destinations hold any bits before, and elements that are not new must keep them. Table entries of other keys
are no pages. Entries without room, pages that do not exist and positions without angles are reported by the next call,
and nothing is written for them. A CUDA graph of an append sees new lengths at each replay.
"""

import ctypes
import sys
from functools import partial

import numpy as np
from attention import compile_artifacts
from device_suite import load, run_subset_suite
from kv_append import BITS, CASES, VARIANTS, make_bad

SIGNED = {
    np.dtype(np.uint8): np.int8, np.dtype(np.uint16): np.int16, np.dtype(np.uint32): np.int32,
    np.dtype(np.int32): np.int32,
}  # fmt: skip


def upload(torch, variant, arrays):
    """The arguments on the device, in the layout of the variant."""
    dtypes = {
        "bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "i32": torch.int32,
        "f8E4M3FN": torch.float8_e4m3fn, "f8E5M2": torch.float8_e5m2,
    }  # fmt: skip
    tensors = {}
    for name, array in arrays.items():
        tensor = torch.from_numpy(array.view(SIGNED[array.dtype]).copy()).cuda().view(dtypes[variant.type_of(name)])
        if tensor.dim() == 4 and variant.layout == "bshd":
            tensor = tensor.transpose(1, 2).contiguous().transpose(1, 2)
        tensors[name] = tensor
    return tensors


def download(torch, variant, tensors):
    arrays = {}
    for name, tensor in tensors.items():
        dtype = variant.type_of(name)
        signed = {2: torch.int16, 1: torch.int8}.get(tensor.element_size(), torch.int32)
        array = tensor.contiguous().view(signed).cpu().numpy()
        arrays[name] = array.view(BITS.get(dtype, np.int32))
    return arrays


def run_case(torch, function, variant, before):
    tensors = upload(torch, variant, before)
    function.bind(*tensors.values(), stream=torch.cuda.current_stream().cuda_stream)()
    torch.cuda.synchronize()
    return variant.check(before, download(torch, variant, tensors))


def run_graph(torch, function, variant, befores):
    """Replays one graph with the contents of several calls of the same sizes."""
    tensors = upload(torch, variant, befores[0])
    stream = torch.cuda.Stream()
    run = function.bind(*tensors.values(), stream=stream.cuda_stream)
    with torch.cuda.stream(stream):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        run()
    for before in befores:
        for name, tensor in upload(torch, variant, before).items():
            tensors[name].copy_(tensor)
        graph.replay()
        torch.cuda.synchronize()
        message = variant.check(before, download(torch, variant, tensors))
        if message:
            return message
    return None


def run_bad(torch, function, variant, runtime, before, invalid, word):
    tensors = upload(torch, variant, before)
    run = function.bind(*tensors.values(), stream=torch.cuda.current_stream().cuda_stream)
    run()
    torch.cuda.synchronize()
    message = variant.check(before, download(torch, variant, tensors), invalid)
    if message:
        return message
    try:
        run()
        return "the next call did not report it"
    except RuntimeError as error:
        if word not in str(error):
            return f"reported as '{error}'"
    run()
    torch.cuda.synchronize()
    if runtime.attnrtTakeFault(1) != 1 or runtime.attnrtTakeFault(1) != 0:
        return "not reported once when asked for"
    return None


def make_cases(torch, options, variants):
    runtime = ctypes.CDLL(options.runtime)
    rng = np.random.default_rng(0)
    for variant in variants:
        function = load(options, variant.name, "append")
        for name, case in CASES.items():
            if options.sanitizer_subset and name != "several":
                continue
            before = variant.make(*case[:3], rng, case[3])
            yield f"{variant} {name}", partial(run_case, torch, function, variant, before)
        befores = [variant.make(lengths, 1, 1, rng, 300 - max(lengths)) for lengths in ([0, 200, 64], [250, 3, 16])]
        yield f"{variant} graph", partial(run_graph, torch, function, variant, befores)
        for name, *case in make_bad(variant, rng):
            yield f"{variant} {name}", partial(run_bad, torch, function, variant, runtime, *case)


if __name__ == "__main__":
    sys.exit(run_subset_suite(__doc__, VARIANTS, compile_artifacts, make_cases))
