# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``PlacedSequences``: sequences of different lengths on several ranks, each on as few as can be."""

import contextlib
import hashlib
from typing import Any, Dict, List, Sequence, Tuple, Union

import numpy as np
import torch
from torch import Tensor

from attn.communicator import LEGACY_STREAM, NO_PEER
from attn.errors import AttnError, UnsupportedError
from attn.placement import Placement, place_sequences
from attn.torch.context_parallel import check_heads, context_parallel
from attn.torch.flash_attn import flash_attn_varlen_func
from attn.torch.ops import _library
from attn.torch.process_groups import agree, find_ranks, make_ranks

# Row `sent[i]` of `rows` goes to the rank whose turn it is: `counts[0, r]` rows to rank `r` after the rows of the ranks
# before it. Row `received[i]` of the result, of `num_rows`, comes from the ranks in the same way, `counts[1, r]` rows
# from rank `r`. All other rows are 0.
_library.define(
    "exchange_rows(Tensor rows, Tensor sent, Tensor received, Tensor counts, SymInt num_rows, str ranks) -> Tensor"
)


def _exchange_rows(rows, sent, received, counts, num_rows, ranks):
    group = find_ranks(ranks)
    facts = {"rows of the shape": str(tuple(rows.shape[1:])), "rows of the dtype": str(rows.dtype),
             "rows on a device of the type": rows.device.type}  # fmt: skip
    agree(group, facts)
    to, source = counts.tolist()
    packed = rows.index_select(0, sent).contiguous()
    arrived = packed.new_empty(received.shape[0], *rows.shape[1:])
    comm, stream = group.find_communicator(rows.device), None
    if rows.is_cuda:
        stream = torch.cuda.current_stream(rows.device).cuda_stream or LEGACY_STREAM
    num_bytes = packed[:1].numel() * packed.element_size() if packed.shape[0] else 0
    num_bytes = num_bytes or arrived[:1].numel() * arrived.element_size()
    with torch.cuda.device(rows.device) if rows.is_cuda else contextlib.nullcontext():
        for distance in range(group.size):
            peer, other = (group.rank + distance) % group.size, (group.rank - distance) % group.size
            begin, end = sum(to[:peer]), sum(source[:other])
            if distance == 0:
                arrived[end : end + source[other]] = packed[begin : begin + to[peer]]
            elif to[peer] or source[other]:
                comm.send_recv(
                    packed.data_ptr() + begin * num_bytes, to[peer] * num_bytes, peer if to[peer] else NO_PEER,
                    arrived.data_ptr() + end * num_bytes, source[other] * num_bytes,
                    other if source[other] else NO_PEER, stream,
                )  # fmt: skip
    return rows.new_zeros(num_rows, *rows.shape[1:]).index_copy_(0, received, arrived)


for _device in ("CPU", "CUDA"):
    _library.impl("exchange_rows", _exchange_rows, _device)


@torch.library.register_fake("attn::exchange_rows", lib=_library)
def _(rows, sent, received, counts, num_rows, ranks):
    return rows.new_empty(num_rows, *rows.shape[1:])


def _setup_context(ctx: Any, inputs: Tuple, output: Tensor) -> None:
    rows, sent, received, counts, _, ctx.ranks = inputs
    ctx.num_rows = rows.shape[0]
    ctx.save_for_backward(sent, received, counts)


def _backward(ctx: Any, dresult: Tensor) -> Tuple:
    sent, received, counts = ctx.saved_tensors
    drows = torch.ops.attn.exchange_rows(dresult, received, sent, counts.flip(0), ctx.num_rows, ctx.ranks)
    return drows, None, None, None, None, None


torch.library.register_autograd("attn::exchange_rows", _backward, setup_context=_setup_context, lib=_library)


def _order_by_rank(tokens: np.ndarray, rows: np.ndarray, owners: np.ndarray, size: int) -> Tuple[np.ndarray, List[int]]:
    """``rows`` ordered by owner and then by token, and how many each owner has."""
    return rows[np.lexsort((tokens, owners))], np.bincount(owners, minlength=size).tolist()


class _Exchange:
    """The rows that a rank exchanges when it goes from even shards of the tokens to its sequences."""

    def __init__(self, placement: Placement, rank: int, device: torch.device):
        size, total = placement.ranks, sum(placement.lengths)
        of_shard = -(-total // size)
        self.num_tokens = max(min(of_shard, total - rank * of_shard), 0)
        self.num_rows = placement.num_rows(rank)
        tokens = placement.tokens(rank)
        rows = np.flatnonzero(tokens >= 0)
        mine = tokens[rows]
        received, sources = _order_by_rank(mine, rows, mine // max(of_shard, 1), size)
        # The ranks that compute this rank's tokens.
        owners = np.empty(self.num_tokens, np.int64)
        for other in range(size):
            theirs = placement.tokens(other) - rank * of_shard
            owners[theirs[(theirs >= 0) & (theirs < self.num_tokens) & (placement.tokens(other) >= 0)]] = other
        shard = np.arange(self.num_tokens)
        sent, destinations = _order_by_rank(shard, shard, owners, size)
        self.sent, self.received = (torch.from_numpy(rows).to(device) for rows in (sent, received))
        # On the host, where they are read.
        self.counts = torch.tensor([destinations, sources], device="cpu")


#: Methods of packed sequences whose ranks have rows in order.
METHODS = ("ulysses", "ring", "allgather")
_OPTIONS = ("softmax_scale", "causal", "window_size", "softcap", "alibi_slopes", "deterministic")


class PlacedSequences:
    """The sequences of a batch, placed on the ranks of a group for attention.

    Between attentions, rank ``r`` of ``n`` has an even shard of the tokens of all sequences, which are one after
    another: ``ceil(tokens / n)`` from token ``r * ceil(tokens / n)`` on, as long as there are any. ``to_attention``
    gives it the tokens of its sequences, ``attention`` computes with them, and ``from_attention`` gives back the shard.
    Short sequences are on one rank, whose attention sends nothing; long ones are on groups of ranks.

    ``group`` is as in ``context_parallel``, and tensors are on ``device``. All ranks of the group make the object
    together, for each batch, and pass the same arguments, which go to ``attn.placement.place_sequences``.
    ``placement`` is its result.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        group: Any = None,
        *,
        device: Union[str, torch.device] = "cpu",
        timeout: float = 600.0,
        **options: Any,
    ):
        self._ranks = make_ranks(group, timeout)
        self.placement = place_sequences(lengths, self._ranks.size, **options)
        digest = hashlib.sha256(repr(self.placement).encode()).hexdigest()
        # There are as many placements as batches.
        agree(self._ranks, {"a placement with the digest": digest}, again=True)
        self.rank = self._ranks.rank
        device = torch.device(device)
        if device.type == "cuda" and device.index is None:
            device = torch.device("cuda", torch.cuda.current_device())
        self.device = device
        # Other calls may need gradients.
        with torch.inference_mode(False):
            self._exchange = _Exchange(self.placement, self.rank, device)
            # The groups of this rank, with their boundaries.
            self._groups = [
                (group, torch.tensor(group.boundaries, dtype=torch.int32, device=device))
                for group in self.placement.groups_of(self.rank)
                if group.num_rows
            ]
        # Of all groups that have several ranks.
        self._sizes = sorted({group.size for group in self.placement.groups if group.size > 1 and group.num_rows})

    @property
    def num_tokens(self) -> int:
        """The number of tokens of this rank's even shard."""
        return self._exchange.num_tokens

    @property
    def num_rows(self) -> int:
        """The number of rows of this rank in attention."""
        return self._exchange.num_rows

    def _check(self, name: str, tensor: Tensor, expected: int) -> None:
        if tensor.dim() < 1 or tensor.shape[0] != expected:
            raise AttnError(f"{name} has the shape {tuple(tensor.shape)}; dimension 0 must be {expected}")
        if tensor.device != self.device:
            raise AttnError(f"{name} is on {tensor.device}; the sequences were placed for {self.device}")

    def to_attention(self, shard: Tensor) -> Tensor:
        """The rows of this rank's sequences, ``[num_rows, ...]``, from shards ``[num_tokens, ...]`` of all ranks. Rows
        of no sequence are 0. Its gradient is ``from_attention``."""
        self._check("shard", shard, self.num_tokens)
        plan = self._exchange
        return torch.ops.attn.exchange_rows(
            shard, plan.sent, plan.received, plan.counts, plan.num_rows, self._ranks.name
        )

    def from_attention(self, rows: Tensor) -> Tensor:
        """The inverse of ``to_attention``."""
        self._check("rows", rows, self.num_rows)
        plan = self._exchange
        return torch.ops.attn.exchange_rows(
            rows, plan.received, plan.sent, plan.counts.flip(0), plan.num_tokens, self._ranks.name
        )

    def attention(self, q: Tensor, k: Tensor, v: Tensor, *, method: str = "ulysses", **options: Any) -> Tensor:
        """``flash_attn_varlen_func`` of this rank's rows, ``[num_rows, heads, head dim]``, with its options
        ``softmax_scale``, ``causal``, ``window_size``, ``softcap``, ``alibi_slopes`` of heads and ``deterministic``.
        Rows of no sequence are 0 in the result.

        ``method`` is how ranks of a group divide their sequences, as in ``context_parallel``: "ulysses", "ring" or
        "allgather". Functions of the last two are compiled for each number of rows, functions of "ulysses" once. With
        groups of several ranks, it runs in eager mode alone.
        """
        self._check_attention(q, k, v, method, options)
        outs: List[Tensor] = []
        begin = 0
        for group, boundaries in self._groups:
            rows = [tensor[begin : begin + group.num_rows] for tensor in (q, k, v)]
            begin += group.num_rows
            function: Any = flash_attn_varlen_func
            if group.size > 1:
                ranks = self._ranks.find_neighbors(group.first_rank, group.size)
                function = context_parallel(function, ranks, method)
            try:
                outs.append(function(*rows, boundaries, boundaries, **options))
            except AttnError as error:
                if group.size > 1:
                    # Ranks of other groups get to know.
                    self._ranks.fail(str(error))
                raise
        if outs:
            return torch.cat(outs)
        # Depends on all three, so that the backward pass makes as many exchanges as on other ranks.
        return q.new_zeros(0, q.shape[1], v.shape[2]) + (q.sum() + k.sum() + v.sum())

    def _check_attention(self, q: Tensor, k: Tensor, v: Tensor, method: str, options: Dict[str, Any]) -> None:
        """Refuses on all ranks what a group cannot do."""
        if method not in METHODS:
            raise UnsupportedError(f"method is {method!r}; groups of ranks take one of {', '.join(METHODS)}")
        for name in options:
            if name not in _OPTIONS:
                raise UnsupportedError(f"attention of placed sequences does not take {name}; leave it out")
        for name, tensor in (("q", q), ("k", k), ("v", v)):
            self._check(name, tensor, self.num_rows)
            if tensor.dim() != 3:
                raise AttnError(f"{name} has {tensor.dim()} dimensions, expected 3: rows, heads and head dim")
        slopes = options.get("alibi_slopes")
        if slopes is not None and slopes.dim() != 1:
            raise UnsupportedError(f"alibi_slopes has the shape {tuple(slopes.shape)}, expected ({q.shape[1]},)")
        if self._sizes and torch.compiler.is_compiling():
            raise UnsupportedError("attention of sequences on groups of ranks runs in eager mode alone")
        for size in self._sizes:
            check_heads(method, size, q.shape[1], k.shape[1], v.shape[1])
