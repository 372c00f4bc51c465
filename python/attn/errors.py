# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exceptions and warnings of the package."""

import warnings
from typing import Any, Set


class AttnError(RuntimeError):
    """Base of all errors; the text says what to change."""


class CompileError(AttnError):
    """The compiler refused a module; the text is its diagnostics."""


class UnsupportedError(AttnError, NotImplementedError):
    """Arguments that make sense, but not here yet."""


class WrongTypeError(AttnError, TypeError):
    """An argument of another type than the one that is wanted."""


class WrongValueError(AttnError, ValueError):
    """An argument of the right type whose value cannot be used."""


class TraceError(AttnError, TypeError):
    """A Python function that cannot become a region of attention."""


class AttnWarning(UserWarning):
    """Something works, but more slowly than it could."""


_warned: Set[str] = set()


def warn_once(kind: str, text: str) -> None:
    """Warns if nothing of this kind has been warned of in this process."""
    if kind not in _warned:
        _warned.add(kind)
        warnings.warn(text, AttnWarning, stacklevel=3)


def get_logger() -> Any:
    """The logger ``attn``, for what users need not see. Most processes never import ``logging``."""
    import logging

    return logging.getLogger("attn")
