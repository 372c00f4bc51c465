# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Block masks: the tiles that a mask with tensors keeps, computed once."""

import re
import weakref
from typing import Any, Dict, List, Sequence, Tuple

import torch
from torch import Tensor

from attn.errors import AttnError
from attn.torch.kernels import Kind, Plan

_get_current_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)


def may_have_block_mask(kind: Kind) -> bool:
    """Whether kernels may need a block mask: the mask reads captured tensors, or is a function of positions, which may
    have no closed form."""
    return kind.reads > 0 or kind.mask_mod != ""


def mask_sizes(query: Tensor, key: Tensor) -> Tuple[int, ...]:
    """The sizes that a block mask depends on."""
    return (query.shape[0], query.shape[1], query.shape[2], key.shape[2])


def _version(tensor: Tensor) -> int:
    """A number that grows with each change that torch makes."""
    return -1 if tensor.is_inference() else tensor._version


class PrecomputedBlockMask:
    """The tiles of queries and keys that a mask keeps, for ``flex_attention``'s ``precomputed_block_mask``.

    ``create_block_mask`` makes it. It serves calls with the same functions and sizes as long as the tensors that the
    mask reads are the same, with the same contents: changes by functions of torch are noticed, and ``update`` computes
    the block mask again, in its memory.
    """

    def __init__(self, plan: Plan, sizes: Tuple[int, ...], captures: Sequence[Tensor]):
        kind = plan.kind
        self._plan = plan
        self._sizes = sizes
        self._captures = tuple(captures)
        # The tensors that the named mask reads come first.
        numbers = {kind.first_capture + int(number) for number in re.findall(r"%c(\d+)\b", kind.mask_mod)}
        self._numbers = [*range(kind.reads), *sorted(numbers)]
        self._read = self._look_at(captures)
        #: The block mask as kernels read it, a tensor of ``torch.int32``: the result of ``attn.create_block_mask``.
        self.tensor = plan.create_block_mask(captures)

    def _look_at(self, captures: Sequence[Tensor]) -> List[Tuple[int, int]]:
        """The address of each tensor that the mask reads, and its version."""
        read = []
        for number in self._numbers:
            tensor = captures[number]
            read.append((tensor.data_ptr(), _version(tensor)))
        return read

    def is_current(self) -> bool:
        """Whether no tensor that the mask reads has been changed since."""
        return self._read == self._look_at(self._captures)

    def update(self) -> None:
        """Computes the block mask again, after tensors that the mask reads have changed."""
        self._read = self._look_at(self._captures)
        self._plan.create_block_mask(self._captures, self.tensor)

    def check(self, plan: Plan, sizes: Tuple[int, ...], captures: Sequence[Tensor]) -> None:
        """Refuses calls that this block mask does not fit, and says why."""
        kind, own = plan.kind, self._plan.kind
        if (kind.mask, kind.mask_mod, kind.reads) != (own.mask, own.mask_mod, own.reads):
            raise AttnError(
                "precomputed_block_mask was made for another mask or score_mod; call create_block_mask with those of "
                "this call"
            )
        if sizes != self._sizes:
            raise AttnError(
                "precomputed_block_mask was made for {} batch entries, {} heads, {} queries and {} keys, and the call "
                "has {}, {}, {} and "
                "{}; call create_block_mask for these".format(*self._sizes, *sizes)
            )
        if plan.mask_layout is not None and self.tensor.device != plan.mask_layout.device:
            raise AttnError(
                f"precomputed_block_mask is on {self.tensor.device} and query on {plan.mask_layout.device}; make one "
                "there"
            )
        if plan.mask_tiles != self._plan.mask_tiles or plan.mask_layout != self._plan.mask_layout:
            raise AttnError(
                f"precomputed_block_mask was made for kernels with tiles of {' by '.join(self._plan.mask_tiles)} "
                "pairs, and those of "
                f"this call have {' by '.join(plan.mask_tiles)}; call create_block_mask with the arguments of this "
                "call, "
                "gradients included"
            )
        read = self._look_at(captures)
        if read == self._read:
            return
        if [address for address, _ in read] == [address for address, _ in self._read]:
            raise AttnError(
                "a tensor that the mask reads has changed since precomputed_block_mask was made; call its update()"
            )
        raise AttnError(
            "precomputed_block_mask was made for other tensors than those that the mask reads now; call "
            "create_block_mask again"
        )


# Block masks of a BlockMask, by the plan of the call and the stream that runs it.
_of_block_masks: "weakref.WeakKeyDictionary[Any, Dict[Tuple, PrecomputedBlockMask]]" = weakref.WeakKeyDictionary()


def find_tensor(owner: Any, plan: Plan, query: Tensor, key: Tensor, captures: Sequence[Tensor]) -> Tensor:
    """The block mask for a mask that belongs to ``owner``, a ``BlockMask``: like it, it is valid until the tensors that
    it depends on change."""
    assert plan.mask_layout is not None
    device = plan.mask_layout.device.index
    stream = None
    if device is not None:
        if torch.cuda.is_current_stream_capturing():
            # The block mask is computed when the graph runs, not now.
            return plan.create_block_mask(captures)
        stream = _get_current_stream(device)
    made = _of_block_masks.setdefault(owner, {})
    found = made.get((id(plan), stream))
    if found is None or found._read != found._look_at(captures):
        found = made[id(plan), stream] = PrecomputedBlockMask(plan, mask_sizes(query, key), captures)
    return found.tensor
