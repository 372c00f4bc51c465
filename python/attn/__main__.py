# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Says what is installed, tests it, and compares it with torch.

    python -m attn [--no-bench] [--json]

The self test computes small attentions on the host, and on each GPU that torch sees, and compares them with attention
in float64. Without torch it calls compiled functions on the host by themselves.
"""

import argparse
import ctypes
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import attn
from attn import bench, cache, library
from attn.compiler import describe, find_gpu_target
from attn.errors import AttnError
from attn.self_check import HEADS, KV_HEADS, TorchChecks, find_checks, format_result, import_torch, run_check

# The comparison begins no measurement after this time, so that it ends within a minute.
_SECONDS_OF_COMPARISON = 40.0
# Environment variables that the package and its libraries read.
_VARIABLES = (
    "ATTN_CACHE_DIR", "ATTN_CACHE_SIZE", "ATTN_CHECK_READS", "ATTN_CUDA_DRIVER", "ATTN_LIBRARY_DIR",
    "ATTN_NUM_THREADS", "ATTN_PROGRESS",
)  # fmt: skip


# Facts. A missing value is None, and `missing` has the reason.


def _describe_cpu() -> str:
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    name = re.search(r"^(?:model name|CPU part)\s*:\s*(.*)$", text, re.M)
    return name[1] if name else platform.processor() or platform.machine()


def _find_gpus(runtime: ctypes.CDLL) -> List[Dict[str, Any]]:
    """The GPUs that the runtime sees."""
    count = ctypes.c_int32()
    if runtime.attnrtDeviceCount(ctypes.byref(count)) != 0:
        return []
    gpus = []
    for number in range(count.value):
        name, major, minor = ctypes.create_string_buffer(256), ctypes.c_int32(), ctypes.c_int32()
        memory = ctypes.c_int64()
        runtime.attnrtDeviceName(number, name, 256)
        runtime.attnrtDeviceArch(number, ctypes.byref(major), ctypes.byref(minor))
        runtime.attnrtDeviceCapacity(number, 0, ctypes.byref(memory))
        gpus.append({
            "device": f"cuda:{number}",
            "name": name.value.decode(errors="replace"),
            "capability": f"{major.value}.{minor.value}",
            "memory_gib": round(memory.value / 2**30, 1),
            "target": find_gpu_target(major.value, minor.value),
        })  # fmt: skip
    return gpus


def _find_devices(missing: Dict[str, str]) -> List[Dict[str, Any]]:
    devices: List[Dict[str, Any]] = [{"device": "cpu", "name": _describe_cpu(), "target": "host"}]
    try:
        runtime = library.load_runtime()
    except AttnError:
        return devices
    devices[0]["threads"] = runtime.attnrtGetNumThreads()
    gpus = _find_gpus(runtime)
    if not gpus:
        runtime.attnGetLastError.restype = ctypes.c_char_p
        reason = (runtime.attnGetLastError() or b"").decode(errors="replace")
        missing["GPU"] = reason or "the driver reports none"
    return devices + gpus


def _find_driver_version(missing: Dict[str, str]) -> Optional[str]:
    try:
        driver = ctypes.CDLL(os.environ.get("ATTN_CUDA_DRIVER") or "libcuda.so.1")
        version = ctypes.c_int()
        if driver.cuDriverGetVersion(ctypes.byref(version)) == 0:
            return f"{version.value // 1000}.{version.value % 1000 // 10}"
        missing["CUDA driver"] = "it does not tell its version"
    except (OSError, AttributeError) as error:
        missing["CUDA driver"] = str(error)
    return None


def _find_ptxas_version(path: Optional[str], missing: Dict[str, str]) -> Optional[str]:
    if path is None:
        places = "CUDA_HOME, PATH, the package nvidia-cuda-nvcc and /usr/local/cuda"
        missing.setdefault("ptxas", f"the compiler finds none in {places}")
        return None
    try:
        text = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10).stdout
    except (OSError, subprocess.SubprocessError) as error:
        missing["ptxas"] = f"{path} does not run: {error}"
        return None
    version = re.search(r"V(\d[\d.]*)", text)
    return version[1] if version else "unknown"


def _describe_compiler(missing: Dict[str, str]) -> Dict[str, Any]:
    """What the compiler says of itself; nothing if there is none."""
    try:
        return describe()
    except AttnError as error:
        missing["compiler"] = str(error)
        missing.update(dict.fromkeys(("MLIR and LLVM", "targets", "ptxas"), "there is no compiler"))
        return {}


def _find_versions(compiler: Dict[str, Any], missing: Dict[str, str]) -> Dict[str, Optional[str]]:
    torch = import_torch()
    torch_version = None
    if torch is None:
        missing["torch"] = "there is no module 'torch'"
    else:
        torch_version = f"{torch.__version__}, CUDA {torch.version.cuda}" if torch.version.cuda else torch.__version__
    return {
        "Attn": attn.__version__,
        "compiler": compiler.get("version"),
        "MLIR and LLVM": compiler.get("llvm"),
        "Python": platform.python_version(),
        "torch": torch_version,
        "CUDA driver": _find_driver_version(missing),
        "ptxas": _find_ptxas_version(compiler.get("ptxas"), missing),
    }


def _find_paths(ptxas: Optional[str], missing: Dict[str, str]) -> Dict[str, Optional[str]]:
    paths: Dict[str, Optional[str]] = {"package": str(pathlib.Path(attn.__file__).parent)}
    for name, file in (("compiler library", library._COMPILER), ("runtime library", library._RUNTIME)):
        paths[name] = None
        try:
            path = library.library_dir() / file
        except AttnError as error:
            missing[name] = str(error)
            continue
        if path.exists():
            paths[name] = str(path)
        else:
            missing[name] = f"expected {path}, found no such file"
    return {**paths, "ptxas": ptxas}


def _inspect_cache() -> Dict[str, Any]:
    """The folder of the cache, whether it is used, and the entries in it."""
    facts: Dict[str, Any] = {
        "folder": None, "is_used": False, "reason": None, "entries": 0, "bytes": 0, "limit_bytes": None
    }  # fmt: skip
    try:
        facts["limit_bytes"] = cache.size_limit()
    except AttnError as error:
        return {**facts, "reason": str(error)}
    try:
        folder = cache.cache_dir()
    except RuntimeError as error:
        return {**facts, "reason": f"there is no folder ({error}); set ATTN_CACHE_DIR"}
    facts["folder"] = str(folder)
    try:
        with cache._open_folder():
            sizes = [file.stat().st_size for file in folder.glob("*.so")]
        facts.update(entries=len(sizes), bytes=sum(sizes))
        if not os.access(folder, os.W_OK | os.X_OK):
            return {**facts, "is_used": True, "reason": "it cannot be written: entries are used, and none are added"}
    except FileNotFoundError:
        return {**facts, "is_used": True, "reason": "the first compilation makes it"}
    except cache._Untrusted as error:
        return {**facts, "reason": str(error)}
    except OSError as error:
        return {**facts, "reason": f"it cannot be read ({error})"}
    return {**facts, "is_used": True}


def collect_facts() -> Dict[str, Any]:
    """Devices, versions, the places of files, and settings."""
    missing: Dict[str, str] = {}
    compiler = _describe_compiler(missing)
    return {
        "devices": _find_devices(missing),
        "targets": compiler.get("targets", []),
        "versions": _find_versions(compiler, missing),
        "paths": _find_paths(compiler.get("ptxas"), missing),
        "cache": _inspect_cache(),
        "environment": {name: value for name, value in sorted(os.environ.items()) if name.startswith("ATTN_")},
        "missing": missing,
    }


def format_facts(facts: Dict[str, Any]) -> str:
    lines = []
    missing = dict(facts["missing"])

    def add(title: str, rows: Sequence[Tuple[str, Optional[str]]]) -> None:
        lines.append(title)
        for name, value in rows:
            text = value if value is not None else f"none: {missing.get(name, 'unknown')}"
            lines.append(f"  {name:18}{text}")

    rows = []
    for device in facts["devices"]:
        text = device["name"]
        if "threads" in device:
            text += f", {device['threads']} threads"
        if "capability" in device:
            text += f", {device['memory_gib']} GiB, compute capability {device['capability']}"
        rows.append((device["device"], text + f", target {device['target'] or 'none: expected 8.0 or later'}"))
    if "GPU" in missing:
        rows.append(("GPU", None))
    add("devices", rows)
    add("compiler", [("targets", ", ".join(facts["targets"]) or None)])
    add("versions", list(facts["versions"].items()))
    add("paths", list(facts["paths"].items()))
    kept = facts["cache"]
    limit = f"{kept['limit_bytes'] / 2**20:.1f} MiB" if kept["limit_bytes"] is not None else "no limit"
    state = "is used" if kept["is_used"] else "is not used"
    add("cache", [
        ("folder", f"{kept['folder']}" if kept["folder"] else "none"),
        ("state", state + (f": {kept['reason']}" if kept["reason"] else "")),
        ("size", f"{kept['entries']} entries, {kept['bytes'] / 2**20:.1f} MiB of {limit}"),
    ])  # fmt: skip
    variables = facts["environment"].items()
    add("environment", [
        (name, value + ("" if name in _VARIABLES else "  (not read by the package and its libraries)"))
        for name, value in variables
    ] or [("ATTN_*", "none is set")])  # fmt: skip
    return "\n".join(lines)


# The comparison


def _compare(devices: Sequence[str], progress: Callable[[str], None]) -> List[Dict[str, Any]]:
    """Times attention with kernels that the self test has compiled, together with torch's."""
    device = next((device for device in devices if device != "cpu"), "cpu")
    head_dim = TorchChecks(device).head_dim
    batch, length, dtype = (1, 512, "f32") if device == "cpu" else (4, 4096, "bf16")
    mask = bench.MaskSpec("causal")
    problem = bench.Problem(batch, HEADS, KV_HEADS, length, length, head_dim, dtype, mask, 0.0, device)
    deadline = time.monotonic() + _SECONDS_OF_COMPARISON
    cases = []
    for backward in (False, True):
        if time.monotonic() < deadline:
            # Half of the time that is left is for the other pass.
            until = time.monotonic() + (deadline - time.monotonic()) / (1 if backward else 2)
            repeats = 3 if device == "cpu" else 10
            cases.append(bench.measure(problem, backward, ("torch",), repeats, 3, progress, until))
    return cases


# The command line

_EPILOG = """
exit code: 0; 1 if a test fails; 2 if an option is wrong

examples:
  python -m attn                        versions and places, a self test, and a comparison with torch
  python -m attn --no-bench --json      the first two, for a report of a defect or for a script
  python -m attn.bench --help           times your own shapes
"""


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m attn",
        description="Says what is installed, runs a self test, and compares with torch for at most one minute.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--no-bench", action="store_true", help="leave out the comparison with torch")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    return parser


def main(arguments: Optional[Sequence[str]] = None) -> int:
    options = make_parser().parse_args(arguments)

    def show(text: str) -> None:
        if not options.json:
            print(text, flush=True)

    def progress(text: str) -> None:
        print(f"attn: {text}", file=sys.stderr, flush=True)

    facts = collect_facts()
    show(format_facts(facts))
    show("\nself test")
    skipped: Dict[str, str] = {}
    results = []
    for check in find_checks(facts["devices"], skipped):
        results.append(run_check(check))
        show(format_result(results[-1]))
    failures = [
        f"self test '{result['name']}' on {result['device']}: expected {result['expected']}, found {result['found']}"
        for result in results
        if not result["passed"]
    ]
    cases: List[Dict[str, Any]] = []
    if options.no_bench:
        skipped["comparison with torch"] = "--no-bench"
    elif import_torch() is None:
        skipped["comparison with torch"] = "there is no module 'torch'"
    else:
        show("\ncomparison with torch")
        try:
            cases = _compare(list(dict.fromkeys(result["device"] for result in results)), progress)
        except Exception as error:  # A defect of the comparison hides nothing that was found before.
            failures.append(f"comparison with torch: expected a result, found {type(error).__name__}: {error}")
        for case in cases:
            if case is cases[0]:
                show(case["description"])
            show(bench.format_case(case))
            failures += [f"comparison with torch: {failure}" for failure in bench.find_failures(case)]
    if skipped:
        show("\nskipped")
    for name, reason in skipped.items():
        show(f"  {name}: {reason}")
    if options.json:
        report = {**facts, "self_test": results, "comparison": cases, "skipped": skipped, "failures": failures}
        print(json.dumps(report, indent=1))
    else:
        number = sum(result["passed"] for result in results)
        show(f"\n{number} of {len(results)} tests passed")
    for failure in failures:
        print(f"error: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
