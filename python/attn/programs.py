# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The programs of a wheel, which are in the folder ``bin`` of the package, as scripts of the environment."""

import os
import sys
from typing import NoReturn

from attn.library import library_dir


def _run(name: str) -> NoReturn:
    """Replaces this process by a program with the same arguments."""
    program = library_dir().parent / "bin" / name
    try:
        os.execv(program, [str(program), *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{name}: error: cannot run {program} ({error.strerror}); install the package again")


def attn_compile() -> NoReturn:
    _run("attn-compile")


def attn_lsp_server() -> NoReturn:
    _run("attn-lsp-server")


def attn_opt() -> NoReturn:
    _run("attn-opt")


def attn_run() -> NoReturn:
    _run("attn-run")
