# ===- tool_cache.py - Run tools that make files, once for the same inputs ---===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------===#
"""Compilers, assemblers and linkers, as the numerics of the host and of GPUs run them.

Their results are kept in the folder `tools` of ATTN_TEST_CACHE_DIR, if that is set: the same program with the same
arguments and input files is not run again. Failures are not kept.
"""

import functools
import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile


@functools.lru_cache(maxsize=None)
def _hash_file(path, _changed, _size):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _describe_file(path):
    path = os.path.realpath(path)
    status = os.stat(path)
    return _hash_file(path, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=None)
def _describe_processor():
    """The features of the processor: code for it does not run on all others."""
    with open("/proc/cpuinfo") as file:
        return next((line for line in file if line.startswith(("flags", "Features"))), "")


def _find_assemblers():
    """All assemblers for GPUs that attn-compile may choose from, with their sizes and times."""
    roots = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")] + glob.glob("/usr/local/cuda*")
    if "VIRTUAL_ENV" in os.environ:
        roots += glob.glob(os.path.join(os.environ["VIRTUAL_ENV"], "lib", "python*", "site-packages", "nvidia", "*"))
    paths = {os.path.realpath(os.path.join(root, "bin", "ptxas")) for root in roots if root}
    paths.add(os.path.realpath(shutil.which("ptxas") or ""))
    return [[path, os.stat(path).st_size, os.stat(path).st_mtime] for path in sorted(paths) if os.path.isfile(path)]


def _make_key(command, output):
    program = shutil.which(command[0])
    if program is None:
        raise FileNotFoundError(f"there is no program {command[0]} in PATH")
    parts = [_describe_processor(), _describe_file(program), _find_assemblers()]
    for argument in command[1:]:
        if argument == output:
            parts.append("the output")
        else:
            parts.append([_describe_file(argument)] if os.path.isfile(argument) else argument)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def run_tool(command, check=True, quiet=False):
    """Runs a command that reads the files among its arguments and makes the file behind `-o`.

    Returns the process with its text on stderr, which is also written to stderr unless `quiet`; raises
    subprocess.CalledProcessError if it fails, unless `check` is false.
    """
    output = command[command.index("-o") + 1]
    if command.count(output) != 1:
        raise ValueError(f"the output {output} must not be an input, too")
    folder = os.environ.get("ATTN_TEST_CACHE_DIR")
    entry = os.path.join(folder, "tools", _make_key(command, output)) if folder else None
    if entry and os.path.exists(entry):
        # The latest use tells which entries nobody needs.
        os.utime(entry)
        # A process may have loaded an older output.
        shutil.copy2(os.path.join(entry, "output"), f"{output}.new")
        os.replace(f"{output}.new", output)
        with open(os.path.join(entry, "stderr")) as file:
            result = subprocess.CompletedProcess(command, 0, "", file.read())
    else:
        result = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if entry and result.returncode == 0:
            _keep(entry, output, result.stderr)
    if not quiet:
        sys.stderr.write(result.stderr)
    if check:
        result.check_returncode()
    return result


def _keep(entry, output, text):
    """Makes an entry, complete or not at all."""
    folder = os.path.dirname(entry)
    os.makedirs(folder, exist_ok=True)
    unfinished = tempfile.mkdtemp(dir=folder)
    shutil.copy2(output, os.path.join(unfinished, "output"))
    with open(os.path.join(unfinished, "stderr"), "w") as file:
        file.write(text)
    try:
        os.rename(unfinished, entry)
    except OSError:
        # Another process was faster.
        shutil.rmtree(unfinished)
