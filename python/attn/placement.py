# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``place_sequences``: which ranks compute the attention of which sequences of a batch.

The attention of a sequence grows with the square of its length, and all else with its length. So ranks that have as
many tokens each compute different amounts of attention. Zeppelin (Chen et al. 2025, arXiv:2509.21841) gives attention a
layout of its own: short sequences are on one rank, which needs no other, and long ones on groups of ranks.
"""

import dataclasses
import heapq
import numbers
import operator
from typing import Dict, Iterable, List, Optional, Sequence, Tuple

import numpy as np

from attn.errors import AttnError


@dataclasses.dataclass(frozen=True)
class RankGroup:
    """The ranks from ``first_rank`` on, ``size`` of them, and the sequences that they compute together.

    The sequences are rows one after another, in this order; ``boundaries`` says where each of them begins, and the last
    one ends. Each rank has the next ``num_rows`` rows. Rows of the last ranks may belong to no sequence.
    """

    first_rank: int
    size: int
    sequences: Tuple[int, ...]
    boundaries: Tuple[int, ...]

    @property
    def num_rows(self) -> int:
        return -(-self.boundaries[-1] // self.size)

    def __contains__(self, rank: int) -> bool:
        return self.first_rank <= rank < self.first_rank + self.size


@dataclasses.dataclass(frozen=True)
class Placement:
    """Where the sequences of a batch are.

    ``lengths`` are the numbers of tokens of the sequences, and ``pairs`` the numbers of pairs of a query and a key that
    they attend. ``groups`` has each sequence once, larger groups of ranks first. A rank has the rows of its groups in
    this order.
    """

    lengths: Tuple[int, ...]
    pairs: Tuple[int, ...]
    ranks: int
    groups: Tuple[RankGroup, ...]

    def groups_of(self, rank: int) -> List[RankGroup]:
        """The groups with ``rank``, in the order of its rows."""
        return [group for group in self.groups if rank in group]

    def num_rows(self, rank: int) -> int:
        """The number of rows of ``rank``."""
        return sum(group.num_rows for group in self.groups_of(rank))

    def tokens(self, rank: int) -> np.ndarray:
        """The token of each row of ``rank``, counted through all sequences of the batch; -1 for none."""
        starts = np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])
        parts = [np.empty(0, np.int64)]
        for group in self.groups_of(rank):
            first = (rank - group.first_rank) * group.num_rows
            rows = np.arange(first, first + group.num_rows)
            places = np.searchsorted(group.boundaries, rows, side="right") - 1
            is_token = rows < group.boundaries[-1]
            places = np.where(is_token, places, 0)
            begins = starts[list(group.sequences)][places] - np.asarray(group.boundaries)[places]
            parts.append(np.where(is_token, rows + begins, -1))
        return np.concatenate(parts)

    def pairs_of(self, rank: int) -> float:
        """The number of pairs that ``rank`` attends: ranks of a group share the pairs of its sequences equally."""
        return sum(sum(self.pairs[number] for number in group.sequences) / group.size
                   for group in self.groups_of(rank))  # fmt: skip

    @property
    def imbalance(self) -> float:
        """The pairs of the rank that attends the most, over the mean of all ranks."""
        total = sum(self.pairs)
        return max(self.pairs_of(rank) for rank in range(self.ranks)) * self.ranks / total if total else 1.0


def count_pairs(length: int, causal: bool = True, window: Optional[int] = None) -> int:
    """How many pairs of a query and a key a sequence attends. ``window`` is how many keys before a query it attends,
    and after it, unless ``causal``."""
    before = length - 1 if window is None else min(window, length - 1)
    # A query with j keys before it attends min(j, before) of them, and itself.
    on_one_side = before * (before + 1) // 2 + (length - 1 - before) * before if length else 0
    return length + (1 if causal else 2) * on_one_side


def _chain(ranks: int) -> List[int]:
    """Sizes of groups, each a divisor of the next, from 1 to ``ranks``."""
    sizes, rest, factor = [1], ranks, 2
    while rest > 1:
        while rest % factor:
            factor += 1
        rest //= factor
        sizes.append(sizes[-1] * factor)
    return sizes


class _Planner:
    """Assigns sequences to groups of given sizes."""

    def __init__(self, lengths: Sequence[int], pairs: Sequence[int], ranks: int, sizes: Sequence[int],
                 max_tokens: Optional[float]):  # fmt: skip
        self.lengths, self.pairs, self.ranks, self.sizes, self.max_tokens = lengths, pairs, ranks, sizes, max_tokens
        self.order = sorted(range(len(lengths)), key=lambda number: -pairs[number])
        mean = sum(pairs) / ranks
        # The index in `sizes` of the size of each sequence's group: none may be more than a rank's share.
        self.levels = [self._first_level(length, count, mean) for length, count in zip(lengths, pairs)]
        # Results of `assign`: the first rank of each sequence's group, and what ranks attend.
        self.first_ranks: List[int] = []
        self.loads: List[float] = []

    def _first_level(self, length: int, pairs: int, mean: float) -> int:
        for level, size in enumerate(self.sizes):
            fits = self.max_tokens is None or length <= self.max_tokens * size
            if fits and pairs <= mean * size:
                return level
        return len(self.sizes) - 1

    def assign(self) -> Optional[int]:
        """Gives each sequence the group of its size that has the least to attend and room for it, the largest groups
        and sequences first. Returns a sequence that no group has room for, if there is one."""
        self.first_ranks = [-1] * len(self.lengths)
        loads, tokens = [0.0] * self.ranks, [0] * self.ranks
        by_level: Dict[int, List[int]] = {}
        for number in self.order:
            by_level.setdefault(self.levels[number], []).append(number)
        for level in sorted(by_level, reverse=True):
            size = self.sizes[level]
            # Larger groups came first, so the ranks of a group have the same until now.
            # With the tokens of all ranks of a group, also of sequences on larger groups.
            groups = [(loads[first], tokens[first] * size, first) for first in range(0, self.ranks, size)]
            heapq.heapify(groups)
            for number in by_level[level]:
                length, full = self.lengths[number], []
                while groups and self.max_tokens is not None and -(-(groups[0][1] + length) // size) > self.max_tokens:
                    full.append(heapq.heappop(groups))
                if not groups:
                    return number
                load, used, first = groups[0]
                heapq.heapreplace(groups, (load + self.pairs[number] / size, used + length, first))
                self.first_ranks[number] = first
                for group in full:
                    heapq.heappush(groups, group)
            for load, used, first in groups:
                loads[first : first + size] = [load] * size
                tokens[first : first + size] = [-(-used // size)] * size
        self.loads = loads
        return None

    def find_largest(self) -> Optional[int]:
        """The sequence with the most pairs of a rank, on the rank with the most, that a larger group can have."""
        busiest = max(range(self.ranks), key=self.loads.__getitem__)
        found, most = None, 0.0
        for number, first in enumerate(self.first_ranks):
            size = self.sizes[self.levels[number]]
            share = self.pairs[number] / size
            if first <= busiest < first + size and share > most and size < self.sizes[-1]:
                found, most = number, share
        return found

    def find_long(self) -> List[int]:
        """Some sequences with the most tokens of a rank that a larger group can have."""
        wider = [number for number in self.order if self.sizes[self.levels[number]] < self.sizes[-1]]
        tokens = lambda number: self.lengths[number] / self.sizes[self.levels[number]]  # noqa: E731
        return heapq.nlargest(1 + len(self.order) // 64, wider, key=tokens)


def _search(planner: _Planner, max_imbalance: float) -> List[Tuple[int, int]]:
    """The first rank and the size of each sequence's group. Groups become larger until ranks are balanced."""
    mean, least = sum(planner.pairs) / planner.ranks, float("inf")
    best: List[Tuple[int, int]] = []
    while True:
        without_room = planner.assign()
        if without_room is None:
            most = max(planner.loads)
            if most < least:
                least = most
                best = [(first, planner.sizes[level]) for first, level in zip(planner.first_ranks, planner.levels)]
            if most <= max_imbalance * mean:
                return best
            largest = planner.find_largest()
            wider = [] if largest is None else [largest]
        else:
            wider = planner.find_long()
        if not wider:
            return best
        for number in wider:
            planner.levels[number] += 1


def _check_sizes(sizes: Iterable[int], ranks: int) -> List[int]:
    checked = list(sizes)
    for before, size in zip([1, *checked], checked):
        if size < 1 or size % before or ranks % size:
            raise AttnError(
                f"group_sizes is {checked}; each must be a multiple of the one before and a divisor of {ranks}, the "
                "number of ranks"
            )
    if not checked or checked[0] != 1:
        raise AttnError(f"group_sizes is {checked}; the first must be 1")
    return checked


def place_sequences(
    lengths: Sequence[int],
    ranks: int,
    *,
    causal: bool = True,
    window: Optional[int] = None,
    max_tokens: Optional[float] = None,
    group_sizes: Optional[Iterable[int]] = None,
    max_imbalance: float = 1.05,
) -> Placement:
    """Assigns the sequences of a batch, with ``lengths`` tokens, to ``ranks`` ranks, so that these attend as equal
    numbers of pairs as possible.

    A sequence is on one rank where that serves, and else on the smallest group of ranks: groups become larger until the
    rank that attends the most attends at most ``max_imbalance`` times the mean, or none can. ``causal`` and ``window``
    say what a query attends to, as in ``count_pairs``. A rank has at most ``max_tokens`` rows, if that is given.
    ``group_sizes`` are the possible sizes of groups: each a multiple of the one before, and a divisor of ``ranks``; by
    default the products of the prime factors of ``ranks``.

    The result depends on the arguments alone: all ranks compute the same.
    """
    try:
        counts = [operator.index(length) for length in lengths]
    except TypeError as error:
        raise AttnError(f"lengths must be numbers of tokens ({error})") from None
    if ranks < 1:
        raise AttnError(f"ranks is {ranks}; it must be at least 1")
    for number, length in enumerate(counts):
        if length < 0:
            raise AttnError(f"the length of sequence {number} is {length}; it must be at least 0")
    for name, value, least in (("window", window, 0), ("max_tokens", max_tokens, 1)):
        if value is not None and not (isinstance(value, numbers.Real) and value >= least):
            raise AttnError(f"{name} is {value}; it must be a number from {least}")
    if not max_imbalance >= 1:
        raise AttnError(f"max_imbalance is {max_imbalance}; it must be at least 1")
    sizes = _chain(ranks) if group_sizes is None else _check_sizes(group_sizes, ranks)
    pairs = [count_pairs(length, causal, window) for length in counts]
    places: List[Tuple[int, int]] = []
    if counts and (max_tokens is None or sum(counts) <= max_tokens * ranks):
        places = _search(_Planner(counts, pairs, ranks, sizes, max_tokens), max_imbalance)
    if counts and not places:
        raise AttnError(
            f"{sum(counts)} tokens do not fit on {ranks} ranks with max_tokens={max_tokens} rows each, in groups of at "
            f"most {sizes[-1]} ranks"
        )
    by_group: Dict[Tuple[int, int], List[int]] = {}
    for number, (first, size) in enumerate(places):
        by_group.setdefault((-size, first), []).append(number)
    groups = []
    for (size, first), members in sorted(by_group.items()):
        boundaries = np.cumsum([0, *(counts[number] for number in members)]).tolist()
        groups.append(RankGroup(first, -size, tuple(members), tuple(boundaries)))
    return Placement(tuple(counts), tuple(pairs), ranks, tuple(groups))
