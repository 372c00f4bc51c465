# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Placement of sequences on ranks: balance, rows of ranks, and errors."""

import itertools
import random

import numpy as np
import pytest
from attn.errors import AttnError
from attn.placement import count_pairs, place_sequences

# Documents of a web corpus by length: the first and the last one of a range, and how many there are.
SHORT_DOCUMENTS = (
    (1, 10, 30254), (11, 50, 391188), (51, 100, 699596), (101, 200, 1377757), (201, 500, 3794735),
    (501, 1024, 3316785), (1025, 2048, 2106566), (2049, 4096, 988525), (4097, 8192, 410002), (8193, 16384, 173574),
    (16385, 32768, 115007), (32769, 65536, 18428),
)  # fmt: skip
LONGEST = 65536


def draw_lengths(num_tokens, generator):
    """A batch of ProLong-64k (Gao et al. 2024, arXiv:2410.02660): 63 % of the tokens are in documents of 65,536 tokens,
    cut from books and repositories; the rest are shorter documents."""
    lengths = [LONGEST] * int(0.63 * num_tokens / LONGEST)
    rest = num_tokens - sum(lengths)
    weights = [count for _, _, count in SHORT_DOCUMENTS]
    while rest:
        first, last, _ = generator.choices(SHORT_DOCUMENTS, weights)[0]
        lengths.append(min(generator.randint(first, last), rest))
        rest -= lengths[-1]
    generator.shuffle(lengths)
    return lengths


def verify(placement, lengths):
    """Every token is on one rank, ranks of a group have equally many rows, and pairs add up."""
    tokens = [placement.tokens(rank) for rank in range(placement.ranks)]
    joined = np.concatenate(tokens)
    assert sorted(joined[joined >= 0]) == list(range(sum(lengths)))
    assert sorted(number for group in placement.groups for number in group.sequences) == list(range(len(lengths)))
    for rank, of_rank in enumerate(tokens):
        assert len(of_rank) == placement.num_rows(rank)
    starts = np.cumsum([0, *lengths])
    for group in placement.groups:
        # The rows of the group are its sequences one after another, and fewer rows than ranks behind.
        begins = [sum(other.num_rows for other in itertools.takewhile(lambda other: other is not group,
                                                                      placement.groups_of(rank)))
                  for rank in range(group.first_rank, group.first_rank + group.size)]  # fmt: skip
        rows = [tokens[group.first_rank + i][begin : begin + group.num_rows] for i, begin in enumerate(begins)]
        expected = [range(starts[number], starts[number + 1]) for number in group.sequences]
        expected = list(itertools.chain(*expected))
        rows = list(np.concatenate(rows))
        assert rows[: len(expected)] == expected and set(rows[len(expected) :]) <= {-1}
        assert len(rows) - len(expected) < group.size
        assert group.boundaries == tuple(np.cumsum([0, *(lengths[number] for number in group.sequences)]))
    assert sum(placement.pairs_of(rank) for rank in range(placement.ranks)) == pytest.approx(sum(placement.pairs))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [None, 0, 3, 100])
def test_pairs(causal, window):
    for length in range(12):
        i, j = np.indices((length, length))
        reach = length if window is None else window
        attended = (j >= i - reach) & (j <= i) if causal else abs(i - j) <= reach
        assert count_pairs(length, causal, window) == attended.sum()


@pytest.mark.parametrize("tokens_of_rank", [32768, 65536, 131072])
@pytest.mark.parametrize("ranks", [2, 4, 8, 32])
def test_balance(ranks, tokens_of_rank):
    """Batches like ProLong-64k: the rank with the most work has at most 1.05 times the mean, and few sequences leave
    their rank."""
    generator = random.Random(ranks * tokens_of_rank)
    lengths = draw_lengths(ranks * tokens_of_rank, generator)
    placement = place_sequences(lengths, ranks)
    verify(placement, lengths)
    work = [placement.pairs_of(rank) for rank in range(ranks)]
    assert max(work) / (sum(work) / ranks) == pytest.approx(placement.imbalance)
    assert placement.imbalance <= 1.05
    of_several = [number for group in placement.groups if group.size > 1 for number in group.sequences]
    assert len(of_several) <= max(3, 0.1 * len(lengths))
    assert all(lengths[number] >= 4096 for number in of_several)


def test_room():
    """No rank gets more rows than it has room for."""
    lengths = draw_lengths(8 * 65536, random.Random(3))
    most = sum(lengths) // 8 + 512
    placement = place_sequences(lengths, 8, max_tokens=most)
    verify(placement, lengths)
    assert max(placement.num_rows(rank) for rank in range(8)) <= most
    assert placement.imbalance <= 1.05
    with pytest.raises(AttnError) as error:
        place_sequences([100, 101], 2, max_tokens=100)
    assert str(error.value) == (
        "201 tokens do not fit on 2 ranks with max_tokens=100 rows each, in groups of at most 2 ranks"
    )


def test_room_of_small_batches():
    """Rows of a group are counted together."""
    placement = place_sequences([8, 93], 6, max_tokens=1.05 * 101 / 6)
    verify(placement, [8, 93])
    generator = random.Random(9)
    for _ in range(200):
        ranks = generator.choice([2, 4, 6])
        lengths = [generator.choice([1, 7, 30, 200]) for _ in range(generator.randint(4, 30))]
        most = 1.05 * sum(lengths) / ranks + 1
        placement = place_sequences(lengths, ranks, max_tokens=most)
        verify(placement, lengths)
        assert max(placement.num_rows(rank) for rank in range(ranks)) <= most


def test_small_batches():
    """Sequences without tokens, fewer sequences than ranks, and none."""
    for lengths, ranks in (([0, 5, 0], 4), ([7], 6), ([3, 3], 2), ([1] * 9, 3), ([0, 0], 2), ([], 3)):
        placement = place_sequences(lengths, ranks)
        verify(placement, lengths)
    assert {group.size for group in place_sequences([3, 3], 2).groups} == {1}
    assert [group.size for group in place_sequences([7], 6).groups] == [6]
    assert place_sequences([], 3).imbalance == 1


def test_random_batches():
    generator = random.Random(5)
    for _ in range(100):
        ranks = generator.choice([1, 2, 3, 4, 6, 12])
        lengths = [generator.choice([0, 1, 2, 17, 100, 1000]) for _ in range(generator.randint(0, 12))]
        options = {"causal": generator.random() < 0.5, "window": generator.choice([None, 0, 50])}
        placement = place_sequences(lengths, ranks, **options)
        verify(placement, lengths)
        assert placement == place_sequences(lengths, ranks, **options)


def test_group_sizes():
    """Long sequences stay on groups of the given sizes, even where larger ones would balance more."""
    placement = place_sequences([1000, 10, 10], 8, group_sizes=[1, 4])
    assert [(group.size, group.sequences) for group in placement.groups if 0 in group.sequences] == [(4, (0,))]
    assert {group.size for group in placement.groups} <= {1, 4}
    assert placement.imbalance > 1.9


@pytest.mark.parametrize(
    "lengths, options, text",
    [
        ([1, -2], {}, "the length of sequence 1 is -2; it must be at least 0"),
        ([1.5], {}, "lengths must be numbers of tokens ('float' object cannot be interpreted as an integer)"),
        ([1], {"window": (5, 5)}, "window is (5, 5); it must be a number from 0"),
        ([1], {"ranks": 0}, "ranks is 0; it must be at least 1"),
        ([1], {"window": -1}, "window is -1; it must be a number from 0"),
        ([1], {"max_tokens": 0}, "max_tokens is 0; it must be a number from 1"),
        ([1], {"max_imbalance": 0.5}, "max_imbalance is 0.5; it must be at least 1"),
        ([1], {"max_imbalance": float("nan")}, "max_imbalance is nan; it must be at least 1"),
        ([1], {"group_sizes": [2, 4]}, "group_sizes is [2, 4]; the first must be 1"),
        ([1], {"group_sizes": []}, "group_sizes is []; the first must be 1"),
        (
            [1], {"group_sizes": [1, 3]},
            "group_sizes is [1, 3]; each must be a multiple of the one before and a divisor of 4, the number of ranks",
        ),
        (
            [1], {"group_sizes": [1, 4, 2]},
            "group_sizes is [1, 4, 2]; each must be a multiple of the one before and a divisor of 4, the number of "
            "ranks",
        ),
    ],
)  # fmt: skip
def test_errors(lengths, options, text):
    with pytest.raises(AttnError) as error:
        place_sequences(lengths, **{"ranks": 4, **options})
    assert str(error.value) == text
