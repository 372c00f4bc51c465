# ===- data_masks.py - Named masks that read operands -----------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Masks, the tensors that they read, the pairs that they keep, and invalid inputs.
#
# ===----------------------------------------------------------------------===#

import numpy as np


class DataMask:
    """`text` is the mask, `make` gives its operands for a shape, `keep` which
    pairs it keeps of operands, and `spoil` makes operands invalid, in several
    ways."""

    def __init__(self, text, static, make, keep, spoil=lambda s, r, operands: []):
        self.text, self.static = text, static
        self.make, self.keep, self.spoil = make, keep, spoil

    def types(self, heads, container):
        """The type of each operand; `static` are its leading dimensions."""
        return [
            f"{container}<{'x'.join([str(heads) if d == 'h' else d for d in dims])}x?xi32>"
            for dims in self.static
        ]


def _ids(batch, length, rng):
    return np.cumsum(rng.random((batch, length)) < 0.03, 1).astype(np.int32)


def _boundaries(batch, count, length, rng):
    """Sorted, some the same; positions at either end are in no document."""
    return np.sort(rng.integers(0, length + 1, (batch, count + 1)), 1).astype(np.int32)


def _documents(boundaries, length):
    number = (boundaries[:, None, :] <= np.arange(length)[None, :, None]).sum(2) - 1
    return np.where((number >= 0) & (number < boundaries.shape[1] - 1), number, -1)


def _packed_keep(b, h, i, j, sq, skv, operands):
    queries, keys = _documents(operands[0], sq), _documents(operands[1], skv)
    x, y = queries[b % len(queries), i], keys[b % len(keys), j]
    return (x == y) & (x >= 0)


def _spoil_boundaries(shape, rng, operands):
    negative, late, unsorted = (operands[0].copy() for _ in range(3))
    negative[0, 0] = -1
    late[-1, -1] = shape.sq + 1
    unsorted[0, :2] = shape.sq, 0
    return [[x, operands[1]] for x in (negative, late, unsorted)]


def _parents(batch, length, rng):
    nodes = np.arange(length)
    return np.maximum(nodes - rng.integers(1, 6, (batch, length)), -1).astype(np.int32)


def _tree_keep(b, h, i, j, sq, skv, operands):
    parents = operands[0]
    above = np.zeros((len(parents), sq, sq), bool)
    for entry, row in enumerate(parents):
        for node in range(sq):
            if row[node] >= 0:
                above[entry, node] = above[entry, row[node]]
            above[entry, node, node] = True
    node = j - (skv - sq)
    return (node < 0) | above[b % len(parents), i, np.maximum(node, 0)]


def _spoil_parents(shape, rng, operands):
    late, negative = operands[0].copy(), operands[0].copy()
    late[0, -1] = shape.sq - 1
    negative[-1, 0] = -2
    longer = np.concatenate([operands[0], operands[0][:, :1]], 1)
    return [[late], [negative], [longer]]


def make_block_lists(kept, rng, spare=3):
    """Offsets and indices of `kept`, whether each block is, with columns of a
    row in any order and some room behind them."""
    b, h, rows, _ = kept.shape
    offsets = np.zeros((b, h, rows + 1), np.int32)
    offsets[..., 1:] = kept.sum(3).cumsum(2)
    indices = np.full((b, h, int(offsets[..., -1].max()) + spare), -1, np.int32)
    for x, y, r in np.ndindex(b, h, rows):
        columns = rng.permutation(np.flatnonzero(kept[x, y, r]))
        indices[x, y, offsets[x, y, r] : offsets[x, y, r + 1]] = columns
    return offsets, indices


class Blocks:
    """Lists of blocks; each row of blocks keeps a random part of them."""

    def __init__(self, rows, columns, shared, density=0.2):
        self.rows, self.columns, self.shared, self.density = rows, columns, shared, density

    def make(self, s, rng):
        lead = (1, 1) if self.shared else (s.b, s.hq)
        size = (*lead, -(-s.sq // self.rows), -(-s.skv // self.columns))
        kept = rng.random(size) < rng.choice([0, self.density, 2 * self.density], (*size[:3], 1))
        return make_block_lists(kept, rng)

    def keep(self, b, h, i, j, sq, skv, operands):
        offsets, indices = operands
        x, y, rows = offsets.shape[0], offsets.shape[1], offsets.shape[2] - 1
        # Keys may have room for more of them, whose blocks are listed, too.
        columns = max(-(-skv // self.columns), int(indices.max(initial=-1)) + 1)
        kept = np.zeros((x, y, rows, columns), bool)
        for p, q, r in np.ndindex(x, y, rows):
            kept[p, q, r, indices[p, q, offsets[p, q, r] : offsets[p, q, r + 1]]] = True
        return kept[b % x, h % y, i // self.rows, j // self.columns]

    def spoil(self, s, rng, operands):
        offsets, indices = operands
        columns = -(-s.skv // self.columns)
        whole = np.zeros_like(offsets)
        whole[..., 1:] = 2
        twice = np.zeros_like(indices)
        results = [(whole, twice)]
        for entry in (columns, -1):
            single = np.zeros_like(offsets)
            single[..., -1] = 1
            bad = np.zeros_like(indices)
            bad[-1, -1, 0] = entry
            results.append((single, bad))
        beyond, negative = np.zeros_like(offsets), np.zeros_like(offsets)
        beyond[-1, -1, -1] = indices.shape[2] + 1
        negative[0, 0, 0] = -1
        longer = np.concatenate([offsets, offsets[..., -1:]], 2)
        return results + [(beyond, indices), (negative, indices), (longer, indices)]


_blocks16 = Blocks(16, 16, shared=False)
_blocks48 = Blocks(48, 32, shared=True)
_blocks64 = Blocks(64, 128, shared=True)

DATA_MASKS = {
    "documents": DataMask(
        "#attn.documents<queries = 0, keys = 1>",
        [["?"], ["1"]],
        lambda s, r: (_ids(s.b, s.sq, r), _ids(1, s.skv, r)),
        lambda b, h, i, j, sq, skv, o: o[0][b, i] == o[1][0, j],
    ),
    "packed_documents": DataMask(
        "#attn.packed_documents<queries = 0, keys = 1>",
        [["?"], ["?"]],
        lambda s, r: (_boundaries(s.b, 5, s.sq, r), _boundaries(s.b, 5, s.skv, r)),
        _packed_keep,
        _spoil_boundaries,
    ),
    "causal_packed_documents": DataMask(
        "#attn.and<#attn.packed_documents<queries = 0, keys = 1>, #attn.causal>",
        [["1"], ["1"]],
        lambda s, r: (_boundaries(1, 3, s.sq, r), _boundaries(1, 3, s.skv, r)),
        lambda b, h, i, j, sq, skv, o: _packed_keep(b, h, i, j, sq, skv, o) & (j <= i + skv - sq),
    ),
    "tree": DataMask(
        "#attn.tree<parents = 0>",
        [["?"]],
        lambda s, r: (_parents(s.b, s.sq, r),),
        _tree_keep,
        _spoil_parents,
    ),
    "shared_tree": DataMask(
        "#attn.tree<parents = 0>",
        [["1"]],
        lambda s, r: (_parents(1, s.sq, r),),
        _tree_keep,
    ),
    "blocks16": DataMask(
        "#attn.block_sparse<rows = 16, columns = 16, offsets = 0, indices = 1>",
        [["?", "h"], ["?", "h"]],
        _blocks16.make,
        _blocks16.keep,
        _blocks16.spoil,
    ),
    "causal_blocks": DataMask(
        "#attn.and<#attn.causal, #attn.block_sparse<rows = 48, columns = 32, offsets = 0, indices = 1>>",
        [["1", "1"], ["1", "1"]],
        _blocks48.make,
        lambda b, h, i, j, sq, skv, o: _blocks48.keep(b, h, i, j, sq, skv, o) & (j <= i + skv - sq),
        _blocks48.spoil,
    ),
    "blocks_or_first": DataMask(
        "#attn.or<#attn.global_tokens<count = 5>, "
        "#attn.not<#attn.block_sparse<rows = 64, columns = 128, offsets = 1, indices = 0>>>",
        [["1", "1"], ["1", "1"]],
        lambda s, r: _blocks64.make(s, r)[::-1],
        lambda b, h, i, j, sq, skv, o: (i < 5) | (j < 5) | ~_blocks64.keep(b, h, i, j, sq, skv, o[::-1]),
    ),
}
