# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Methods of ``context_parallel``, and which positions ranks have with them."""

from typing import Any, List, Optional, Tuple

from attn.errors import AttnError

METHODS = ("ring", "zigzag", "striped", "lightseq", "allgather", "ulysses", "usp", "distattention")
#: In which all ranks have all queries.
SEGMENTS = "distattention"
#: In which each rank of ``n`` has every ``n``-th position.
STRIPED = "striped"
#: In which groups of ranks exchange heads for positions, and form a ring.
GROUPS = "usp"
_DEGREE = "ulysses-degree="


def check_method(method: str, ulysses_degree: Optional[int]) -> None:
    if method not in METHODS:
        raise AttnError(f"method is {method!r}; it must be one of {', '.join(METHODS)}")
    if method != GROUPS and ulysses_degree is not None:
        raise AttnError(f"ulysses_degree is {ulysses_degree!r}, and method is {method!r}; only usp takes it")


def resolve_mesh(group: Any, method: str, ulysses_degree: Optional[int]) -> Tuple[Any, Optional[int]]:
    """The group and the degree that users mean: with usp, a mesh of two dimensions has both, as rings of groups."""
    if method != GROUPS or getattr(group, "ndim", 1) != 2 or not hasattr(group, "_flatten"):
        return group, ulysses_degree
    if not group.mesh_dim_names:
        raise AttnError("group is a DeviceMesh without names of dimensions; give it mesh_dim_names")
    degree = group.size(1)
    if ulysses_degree not in (None, degree):
        raise AttnError(f"ulysses_degree is {ulysses_degree!r}, and the last dimension of the DeviceMesh is {degree}")
    return group._flatten(), degree


def describe_method(method: str, ranks: int, ulysses_degree: Optional[int]) -> str:
    """The method and its degree, as options of attn-shard-attention."""
    if method != GROUPS:
        return method
    if ulysses_degree is None:
        raise AttnError(
            "method is 'usp', which needs ulysses_degree, the neighboring ranks that exchange heads for positions; "
            "choose_ulysses_degree names one"
        )
    is_number = isinstance(ulysses_degree, int) and not isinstance(ulysses_degree, bool)
    if not is_number or ulysses_degree < 1 or ranks % ulysses_degree:
        raise AttnError(f"ulysses_degree is {ulysses_degree!r}; it must divide {ranks}, the number of ranks")
    return f"{method} {_DEGREE}{ulysses_degree}"


def find_degree(described: str, ranks: int) -> int:
    """How many ranks divide the heads with a method that ``describe_method`` has described."""
    if described.startswith(GROUPS):
        return int(described.partition(_DEGREE)[2])
    return ranks if described == "ulysses" else 1


def chunks_of_rank(described: str, ranks: int) -> int:
    """How many equal chunks of the sequence a rank has."""
    has_groups = described.startswith(GROUPS) and find_degree(described, ranks) < ranks
    return 2 if described == "zigzag" or has_groups else 1


def order_chunks(described: str, ranks: int) -> List[int]:
    """The chunks of all ranks, one rank after another. A group has a run of chunks from either end."""
    if chunks_of_rank(described, ranks) == 1:
        return list(range(ranks))
    degree = find_degree(described, ranks)
    groups = ranks // degree
    first = [run for group in range(groups) for run in (group, 2 * groups - 1 - group)]
    return [run * degree + chunk for run in first for chunk in range(degree)]
