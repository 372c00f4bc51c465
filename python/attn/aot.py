# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ahead of time: artifacts in a directory, with all that a C++ program needs to call them.

    attn.aot(function, (query, key, value), targets=("host", "sm_90a"), directory="attention")

writes

- ``manifest.json``: functions, arguments, sizes and dtypes of each artifact, and the version of the ABI;
- ``lib``: an artifact for each target, and the runtime;
- ``include``: a C header for each target, and the runtime's header;
- ``data``: tensors that the function owns, such as parameters; they are arguments of the compiled function;
- ``CMakeLists.txt`` and ``main.cpp``: a program that calls the artifact, without Python.
"""

import dataclasses
import hashlib
import json
import os
import pathlib
import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from attn.artifact import ABI_VERSION, DTYPES, TORCH_NAMES, Artifact, Function
from attn.builder import Attention
from attn.compiler import Options, Source, compile_bytes, describe
from attn.errors import AttnError, WrongTypeError
from attn.library import runtime_header, runtime_path
from attn.version import __version__

_FORMAT = 1
_MANIFEST = "manifest.json"
# Sizes of the example program where nothing says which.
_DEFAULT_SIZE = 16


class Shape(NamedTuple):
    """An example input without contents. Sizes that vary at run time are names: equal names are equal sizes."""

    sizes: Tuple[Union[int, str], ...]
    dtype: str = "f32"


class Lowered(NamedTuple):
    """A module, and tensors in host memory that are arguments of its function."""

    mlir: str
    data: Dict[str, bytes]
    #: Sizes of the arguments in the example program, by name or number of the argument.
    sizes: Dict[str, Tuple[int, ...]]


def check_shape(number: int, shape: Shape) -> None:
    """Refuses an example input without meaning."""
    for size in shape.sizes:
        if isinstance(size, bool) or not isinstance(size, (int, str)) or (isinstance(size, int) and size < 0):
            raise AttnError(
                f"example_inputs[{number}] has the size {size!r}; sizes are numbers from 0, or names of sizes that vary"
            )
    if shape.dtype not in DTYPES:
        raise AttnError(f"example_inputs[{number}] has the dtype {shape.dtype!r} (expected one of {', '.join(DTYPES)})")


def _check_shapes(examples: Optional[Sequence[Any]]) -> List[Shape]:
    """Examples for modules in MLIR, which are shapes or tensors."""
    shapes = []
    for number, example in enumerate(examples or ()):
        if not isinstance(example, Shape):
            sizes, dtype = getattr(example, "shape", None), str(getattr(example, "dtype", ""))
            name = dict(zip(TORCH_NAMES, DTYPES)).get(dtype.rpartition(".")[2])
            if sizes is None or name is None:
                raise WrongTypeError(
                    f"example_inputs[{number}] is a {type(example).__name__}; pass a tensor or attn.Shape"
                )
            dynamic = getattr(example, "_dynamo_dynamic_indices", ())
            example = Shape(tuple(f"size{d}" if d in dynamic else size for d, size in enumerate(sizes)), name)
        check_shape(number, example)
        shapes.append(example)
    return shapes


def _with_sizes(description: Attention, shapes: List[Shape]) -> Attention:
    """Attention with the sizes of examples: the ones that vary stay open."""
    value_dim = description.query_dim if description.value_dim is None else description.value_dim
    heads, key_heads = description.query_heads, description.key_heads
    expected = {
        "query": (None, heads, None, description.query_dim),
        "key": (None, key_heads, None, description.query_dim),
        "value": (None, description.count_value_heads(), None, value_dim),
    }
    if len(shapes) < len(expected):
        raise AttnError(f"example_inputs has {len(shapes)} entries, expected at least 3: query, key and value")
    for (name, sizes), shape in zip(expected.items(), shapes):
        fits = len(shape.sizes) == len(sizes) and all(b is None or a == b for a, b in zip(shape.sizes, sizes))
        if not fits or shape.dtype != description.dtype:
            wanted = ", ".join("any" if size is None else str(size) for size in sizes)
            raise AttnError(
                f"the example of '{name}' has the sizes {list(shape.sizes)} and the dtype {shape.dtype}, expected "
                f"[{wanted}] and {description.dtype}"
            )
    query, key = shapes[0].sizes, shapes[1].sizes
    found = {"batch": query[0], "queries": query[2], "keys": key[2]}
    sizes = {name: size for name, size in found.items() if isinstance(size, int)}
    return dataclasses.replace(description, **sizes)


def _lower(source: Any, examples: Optional[Sequence[Any]], name: Optional[str]) -> Tuple[str, Lowered]:
    """The name of the files, and the module."""
    if isinstance(source, (str,)) or hasattr(source, "mlir"):
        shapes = _check_shapes(examples)
        if isinstance(source, Attention):
            text = (_with_sizes(source, shapes) if examples is not None else source).mlir()
            if name is not None:
                text = text.replace(f"func.func @{source.NAME}(", f"func.func @{name}(")
        else:
            text = source if isinstance(source, str) else source.mlir()
        sizes = {
            str(number): tuple(size if isinstance(size, int) else _DEFAULT_SIZE for size in shape.sizes)
            for number, shape in enumerate(shapes)
        }
        return name or Attention.NAME, Lowered(text, {}, sizes)
    if not callable(source) and type(source).__name__ != "ExportedProgram":
        raise WrongTypeError(
            f"source is a {type(source).__name__}; pass a function or module of torch, an exported program, "
            "attn.Attention, or MLIR text"
        )
    from attn.torch.lower import lower

    return lower(source, examples, name)


def _check_targets(targets: Sequence[str]) -> Tuple[str, ...]:
    known = describe()["targets"]
    wanted = (targets,) if isinstance(targets, str) else tuple(targets)
    if not wanted:
        raise AttnError(f"targets is empty; give at least one of {', '.join(known)}")
    for target in wanted:
        if target not in known:
            raise AttnError(f"unknown target '{target}' (expected one of {', '.join(known)})")
    if len(set(wanted)) != len(wanted):
        raise AttnError(f"targets has one of them twice: {', '.join(wanted)}")
    return wanted


def _check_directory(directory: pathlib.Path, overwrite: bool) -> None:
    if directory.is_symlink() or (directory.exists() and not directory.is_dir()):
        raise AttnError(f"'{directory}' exists and is no directory; give another one")
    if not directory.exists() or not any(directory.iterdir()):
        return
    if not overwrite:
        raise AttnError(f"the directory '{directory}' is not empty; give another one, or pass overwrite=True")
    if not (directory / _MANIFEST).is_file():
        raise AttnError(
            f"overwrite replaces only directories that attn.aot wrote, and '{directory}' has no {_MANIFEST}; remove it "
            "yourself"
        )


def _describe_function(function: Function, data: Dict[str, bytes]) -> Dict[str, Any]:
    """A function of the manifest: sizes that vary are names."""
    arguments = []
    for name, dtype, dims, is_output in function.args:
        shape = [dim if dim >= 0 else function.symbols[-1 - dim] for dim in dims]
        argument = {"name": name, "dtype": dtype, "shape": shape, "output": is_output}
        if name in data:
            argument["data"] = f"data/{name}.bin"
        arguments.append(argument)
    return {"name": function.name, "arguments": arguments, "sizes": function.symbols}


def _example_sizes(function: Function, lowered: Lowered) -> List[int]:
    """The sizes of the example program, by number of the symbol."""
    sizes = [_DEFAULT_SIZE] * len(function.symbols)
    for number, (name, _, dims, _) in enumerate(function.args):
        for dim, size in zip(dims, lowered.sizes.get(name, lowered.sizes.get(str(number), ()))):
            if dim < 0:
                sizes[-1 - dim] = size
    return sizes


def _write(
    folder: pathlib.Path, name: str, lowered: Lowered, targets: Sequence[str], options: Optional[Options]
) -> None:
    """Writes all files into an empty folder."""
    import shutil

    from attn.example import ExampleFunction, write_cmake, write_main

    for part in ("lib", "include/attn-runtime"):
        (folder / part).mkdir(parents=True)
    runtime, header = runtime_path(), runtime_header()
    shutil.copyfile(runtime, folder / "lib" / runtime.name)
    shutil.copyfile(header, folder / "include" / "attn-runtime" / header.name)
    artifacts = []
    functions: List[Function] = []
    header_text = ""
    for target in targets:
        library = folder / "lib" / f"lib{name}.{target}.so"
        content = compile_bytes(lowered.mlir, target=target, options=options)
        library.write_bytes(content)
        header = folder / "include" / target / f"{name}.h"
        header.parent.mkdir()
        header_text = compile_bytes(lowered.mlir, target=target, emit="header", options=options).decode()
        header.write_text(header_text)
        functions = list(Artifact(str(library)).functions.values())
        artifacts.append(
            {
                "target": target,
                "library": str(library.relative_to(folder)),
                "header": str(header.relative_to(folder)),
                "sha256": hashlib.sha256(content).hexdigest(),
                "functions": [_describe_function(function, lowered.data) for function in functions],
            }
        )
    for constant, content in lowered.data.items():
        (folder / "data").mkdir(exist_ok=True)
        (folder / "data" / f"{constant}.bin").write_bytes(content)
    manifest = {
        "format": _FORMAT,
        "name": name,
        "version": __version__,
        "abi_version": ABI_VERSION,
        "runtime": f"lib/{runtime.name}",
        "artifacts": artifacts,
    }
    (folder / _MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
    # Names in C, in the order of the functions.
    calls = re.findall(r"^static inline int32_t (\w+)\(", header_text, re.MULTILINE)
    examples = [
        ExampleFunction(call, function, _example_sizes(function, lowered), tuple(lowered.data))
        for call, function in zip(calls, functions)
    ]
    (folder / "main.cpp").write_text(write_main(name, examples))
    (folder / "CMakeLists.txt").write_text(write_cmake(name, targets, runtime.name))


def aot(
    source: Union[Source, Any],
    example_inputs: Optional[Sequence[Any]] = None,
    *,
    targets: Sequence[str] = ("host",),
    directory: Union[str, "os.PathLike[str]"],
    name: Optional[str] = None,
    options: Optional[Options] = None,
    overwrite: bool = False,
) -> pathlib.Path:
    """Compiles ahead of time, and returns the directory that it writes.

    ``source`` is a function or module of torch whose graph has attention, linear layers, quantizations, arithmetic,
    casts and views alone, a program of ``torch.export``, ``attn.Attention``, or MLIR text. ``example_inputs`` are
    tensors or ``attn.Shape``; sizes vary at run time where ``Shape`` has a name, or a tensor was marked by
    ``torch._dynamo.mark_dynamic``. ``name`` is the name of the function and of the files. ``options`` are options of
    ``attn-compile``: code for the host is for the processor of this machine, unless ``{"host_cpu": "x86-64-v3"}`` or so
    says which.

    The directory appears when it is complete. It must not exist or be empty; ``overwrite`` replaces one that this
    function wrote.
    """
    import tempfile

    if name is not None and not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise AttnError(f"name is {name!r}; it must be an identifier of C")
    path = pathlib.Path(os.path.abspath(directory))
    _check_directory(path, overwrite)
    wanted = _check_targets(targets)
    name, lowered = _lower(source, example_inputs, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent) as temporary:
        made = pathlib.Path(temporary) / path.name
        made.mkdir()
        _write(made, name, lowered, wanted, options)
        if path.exists() and any(path.iterdir()):
            _check_directory(path, overwrite)
            # Removed together with the temporary directory.
            path.rename(pathlib.Path(temporary) / "before")
        made.rename(path)
    return path
