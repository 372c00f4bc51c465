# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention, and appends to KV caches, as modules of one function."""

import dataclasses
import math
import re
import textwrap
from typing import List, Optional, Sequence, Tuple, Union

from attn.errors import AttnError
from attn.masks import Mask


# The largest f32: kernels multiply scores by scales in f32.
MAX_SCALE = 3.4028234663852886e38
# The type of boundaries and of lengths of sequences.
_LENGTHS = "tensor<?xi32>"
# The type of the positions of a shard.
_POSITIONS = "tensor<6xi32>"
# Element types of all tensors, and of queries, keys and values alone.
_DTYPES = ("bf16", "f16", "f32")
_FLOAT8 = ("f8E4M3FN", "f8E5M2")
# The type of page tables.
_PAGES = "tensor<?x?xi32>"


def _check_precision(precision: str) -> None:
    if precision not in ("", "highest", "high"):
        raise AttnError(f"precision is {precision!r}; it must be 'highest' or 'high'")


@dataclasses.dataclass(frozen=True)
class Attention:
    """Attention of a kind; ``mlir`` is its module.

    The module has one function, ``attention(query, key, value, reads..., captures...)``,
    with results ``out`` and, if ``with_lse``, ``lse``. ``mask`` is one of
    ``attn.masks`` or the text of its attribute, whose operands have the types
    ``reads``; masks of documents and such are made with these types:
    ``masks.documents("tensor<?x?xi32>")``. With ``dropout``, an
    attribute such as ``#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>>``,
    its last arguments are ``seed`` and ``offset``. The output and the log-sum-exp of a state
    (``state_dtype``), sinks, head map, identity, and boundaries
    (``packed``) or lengths (``padded``) of the queries' and the keys' sequences follow the
    reads, or boundaries of the queries and lengths of the keys (``packed_queries``). So do the
    lengths of the entries of a KV cache, with ``key_lengths``, and its page table, with
    ``page_size``; pages are ``[pages, key heads, page size, head dim]``. With ``positions``, calls are for shards of a
    larger attention, and a tensor of six numbers comes next: the global positions of the first query and key, the
    global numbers of the first batch entry and query head, and how many queries and keys the larger attention has.
    Batch and lengths may vary from call to call unless they are given. ``score_mod`` and ``mask_mod`` are bodies of
    regions in MLIR. They see the score ``%s`` and the position ``%b, %h, %i, %j``, read the captures
    ``%c0, %c1, ...``, and end with ``attn.yield``. So is ``epilogue``, which sees an element ``%x`` of the output
    before it is rounded, and the position ``%b, %h, %i, %d``.

    ``dtype`` is the element type of queries, keys and values. With "f8E4M3FN" and "f8E5M2" the output has
    ``out_dtype``. Keys and values may have one of these as ``key_dtype`` while queries are wider. With queries of 8
    bits, keys may have ``key_dtype`` and values ``value_dtype``, each one of these. With any ``dtype``, ``out_dtype``
    may be "f32" or have 8 bits; results beyond the largest number of 8 bits become that number.

        attn.compile(attn.Attention("bf16", 32, 8, 128, mask="#attn.causal"), target="sm_90a")
    """

    dtype: str
    query_heads: int
    key_heads: int
    query_dim: int
    value_dim: Optional[int] = None
    mask: Union[str, Mask] = ""
    scale: Optional[float] = None
    score_mod: str = ""
    mask_mod: str = ""
    #: Types of the tensors that regions read, such as "tensor<?x?xf32>".
    captures: Tuple[str, ...] = ()
    #: Types of the operands that a mask given as text reads.
    reads: Tuple[str, ...] = ()
    #: Types of a logit for each query head, of its key head, and of its weight of the
    #: identity, such as "tensor<8xf32>".
    sinks: str = ""
    head_map: str = ""
    identity: str = ""
    #: How sequences of different lengths are stored: "packed", in one batch entry, "padded", or "packed_queries", with
    #: keys in a KV cache.
    sequences: str = ""
    #: Whether queries and keys have the same sequences, which one argument gives.
    same_sequences: bool = False
    #: Whether a KV cache has lengths, and the size of its pages if it is paged.
    key_lengths: bool = False
    page_size: Optional[int] = None
    #: Whether calls are for shards of a larger attention, whose global positions masks, regions and dropout see.
    positions: bool = False
    #: The element type of the output of a state, the partial result for other keys that attention goes on from.
    state_dtype: str = ""
    with_lse: bool = False
    dropout: str = ""
    batch: Optional[int] = None
    queries: Optional[int] = None
    keys: Optional[int] = None
    #: How GPUs multiply f32 values: "highest", which is meant without it, or "high".
    precision: str = ""
    #: Element types of keys and values, and of the output, if they are not ``dtype``.
    key_dtype: str = ""
    #: The element type of values if it is not the type of keys.
    value_dtype: str = ""
    out_dtype: str = ""
    epilogue: str = ""
    #: Whether values are the first elements of keys, as in multi-head latent attention with a latent of ``query_dim``
    #: elements: the function does not read its ``value``.
    values_in_keys: bool = False
    #: The number of value heads if there are not ``key_heads``.
    value_heads: Optional[int] = None

    #: The function's name.
    NAME = "attention"

    def __post_init__(self) -> None:
        if self.dtype not in (*_DTYPES, *_FLOAT8):
            raise AttnError(f"dtype is {self.dtype!r}; it must be bf16, f16, f32, {' or '.join(_FLOAT8)}")
        if self.key_dtype not in ("", self.dtype, *_FLOAT8):
            either = _FLOAT8 if self.dtype in _FLOAT8 else ("dtype", *_FLOAT8)
            raise AttnError(
                f"key_dtype is {self.key_dtype!r} and dtype {self.dtype!r}; it must be {' or '.join(either)}"
            )
        key_dtype = self.key_dtype or self.dtype
        if self.value_dtype not in ("", key_dtype, *(_FLOAT8 if self.dtype in _FLOAT8 else ())):
            wanted = " or ".join(_FLOAT8) if self.dtype in _FLOAT8 else repr(key_dtype)
            raise AttnError(
                f"value_dtype is {self.value_dtype!r}, dtype {self.dtype!r} and the type of keys {key_dtype!r}; it "
                f"must be {wanted}"
            )
        outs = (*_DTYPES, *_FLOAT8) if self.dtype in _FLOAT8 else ("", self.dtype, "f32", *_FLOAT8)
        if self.out_dtype not in outs:
            wanted = " or ".join(filter(None, outs))
            raise AttnError(f"out_dtype is {self.out_dtype!r} and dtype {self.dtype!r}; it must be {wanted}")
        sizes = ("query_heads", "key_heads", "query_dim", "value_dim", "value_heads", "batch", "queries", "keys")
        for name in sizes:
            size = getattr(self, name)
            if size is None and name not in sizes[:3]:
                continue
            if not isinstance(size, int) or size < 0:
                raise AttnError(f"{name} is {size!r}; it must be a number from 1")
        if self.scale is not None and not abs(self.scale) <= MAX_SCALE:
            raise AttnError(f"scale is {self.scale}; it must be finite, and at most {MAX_SCALE:.3g}, as an f32")
        _check_precision(self.precision)
        if self.sequences not in ("", "packed", "padded", "packed_queries"):
            raise AttnError(f"sequences is {self.sequences!r}; it must be 'packed', 'padded' or 'packed_queries'")
        if self.same_sequences and self.sequences not in ("packed", "padded"):
            raise AttnError(f"sequences is {self.sequences!r}; same_sequences needs 'packed' or 'padded'")
        if self.page_size is not None and not self.key_lengths and self.sequences != "packed_queries":
            raise AttnError(f"page_size is {self.page_size}, which needs key_lengths or packed_queries")
        if self.values_in_keys and (self.value_dim or self.query_dim) > self.query_dim:
            raise AttnError(f"value_dim is {self.value_dim}; values in keys have at most query_dim = {self.query_dim}")
        if self.values_in_keys and self.count_value_heads() != self.key_heads:
            raise AttnError(f"value_heads is {self.value_heads}; values in keys have key_heads = {self.key_heads}")
        for name in ("captures", "reads"):
            if isinstance(getattr(self, name), str):
                raise AttnError(f"{name} is text; give a tuple of types, as in ({getattr(self, name)!r},)")

    def count_value_heads(self) -> int:
        """The number of value heads."""
        return self.key_heads if self.value_heads is None else self.value_heads

    def mlir(self) -> str:
        batch, queries, keys = ("?" if size is None else size for size in (self.batch, self.queries, self.keys))
        value_dim = self.query_dim if self.value_dim is None else self.value_dim
        query = f"tensor<{batch}x{self.query_heads}x{queries}x{self.query_dim}x{self.dtype}>"
        entries, rows = (batch, keys) if self.page_size is None else ("?", self.page_size)
        entries = "?" if self.sequences == "packed_queries" else entries
        key_dtype, out_dtype = self.key_dtype or self.dtype, self.out_dtype or self.dtype
        key = f"tensor<{entries}x{self.key_heads}x{rows}x{self.query_dim}x{key_dtype}>"
        value = f"tensor<{entries}x{self.count_value_heads()}x{rows}x{value_dim}x{self.value_dtype or key_dtype}>"
        out = f"tensor<{batch}x{self.query_heads}x{queries}x{value_dim}x{out_dtype}>"
        lse = f"tensor<{batch}x{self.query_heads}x{queries}xf32>"
        results = [out, lse] if self.with_lse else [out]
        mask, reads = self.mask.attribute() if isinstance(self.mask, Mask) else (self.mask, list(self.reads))
        heads = {"sinks": self.sinks, "head_map": self.head_map, "identity": self.identity}
        captures = "".join(f", %mask_{i}: {kind}" for i, kind in enumerate(reads))
        state_out = f"tensor<{batch}x{self.query_heads}x{queries}x{value_dim}x{self.state_dtype}>"
        captures += f", %state_out: {state_out}, %state_lse: {lse}" if self.state_dtype else ""
        captures += "".join(f", %{name}: {kind}" for name, kind in heads.items() if kind)
        sequences = ["%query_sequences", "%query_sequences" if self.same_sequences else "%key_sequences"]
        captures += "".join(f", {name}: {_LENGTHS}" for name in dict.fromkeys(sequences)) if self.sequences else ""
        captures += f", %key_lengths: {_LENGTHS}" if self.key_lengths else ""
        captures += f", %page_table: {_PAGES}" if self.page_size is not None else ""
        captures += f", %positions: {_POSITIONS}" if self.positions else ""
        captures += "".join(f", %c{i}: {kind}" for i, kind in enumerate(self.captures))
        state = ", %seed: tensor<i64>, %offset: tensor<i64>" if self.dropout else ""
        inits = ["%out_init", "%lse_init"][: len(results)]
        clauses = []
        if self.state_dtype:
            clauses.append(f"state(%state_out, %state_lse : {state_out}, {lse})")
        for name, kind in heads.items():
            if kind:
                clauses.append(f"{'heads' if name == 'head_map' else name}(%{name} : {kind})")
        if self.sequences:
            clauses.append(f"sequences {self.sequences}({', '.join(sequences)} : {_LENGTHS}, {_LENGTHS})")
        if self.key_lengths:
            clauses.append(f"key_lengths(%key_lengths : {_LENGTHS})")
        if self.page_size is not None:
            clauses.append(f"page_table(%page_table : {_PAGES})")
        if self.positions:
            clauses.append(f"positions(%positions : {_POSITIONS})")
        if self.scale is not None:
            clauses.append(f"scale({_float(self.scale)})")
        if mask:
            clauses.append(f"mask({mask})")
        if reads:
            clauses.append(f"reads({', '.join(f'%mask_{i}' for i in range(len(reads)))} : {', '.join(reads)})")
        if self.dropout:
            clauses.append(f"dropout({self.dropout}, %seed, %offset : tensor<i64>, tensor<i64>)")
        if self.precision:
            clauses.append(f"precision({self.precision})")
        if self.score_mod:
            clauses.append(_region("score_mod", "%s: f32, %b: index, %h: index, %i: index, %j: index", self.score_mod))
        if self.mask_mod:
            clauses.append(_region("mask_mod", "%b: index, %h: index, %i: index, %j: index", self.mask_mod))
        if self.epilogue:
            clauses.append(_region("epilogue", "%x: f32, %b: index, %h: index, %i: index, %d: index", self.epilogue))
        values, slice_lines = "%value", []
        if self.values_in_keys:
            values, slice_lines = "%latent", _slice_keys(key, value, entries, rows)
        # Dimensions of the results that are not known yet.
        dims = [dim for dim, size in ((0, self.batch), (2, self.queries)) if size is None]
        empty = f"tensor.empty({', '.join(f'%size{dim}' for dim in dims)})"
        lines = [
            f"func.func @{self.NAME}(%query: {query}, %key: {key}, %value: {value}{captures}{state})",
            f"    -> ({', '.join(results)}) {{",
            *(f"  %dim{dim} = arith.constant {dim} : index" for dim in dims),
            *(f"  %size{dim} = tensor.dim %query, %dim{dim} : {query}" for dim in dims),
            *(f"  {init} = {empty} : {kind}" for init, kind in zip(inits, results)),
            *slice_lines,
            f"  %r:{len(results)} = attn.attention",
            f"      ins(%query, %key, {values} : {query}, {key}, {value})",
            f"      outs({', '.join(inits)} : {', '.join(results)})",
            *(textwrap.indent(clause, "      ") for clause in clauses),
            f"      -> {', '.join(results)}",
            f"  return {', '.join(f'%r#{i}' for i in range(len(results)))} : {', '.join(results)}",
            "}",
            "",
        ]
        return "\n".join(lines)


@dataclasses.dataclass(frozen=True)
class CacheAppend:
    """New keys and values for a KV cache; ``mlir`` is the module.

    The module has one function, ``cache_append(key, value, key_lengths, page_table, cos, sin, query, key_scale,
    value_scale, key_cache, value_cache, rotated_query, new_lengths)``, without the arguments that there are none of. It
    writes the last four: the first two in place, behind the keys that each entry has. With ``rotary_dim`` it rotates
    that many elements of keys, and of queries if there are ``query_heads``, by the tables ``cos`` and ``sin``. Batch,
    lengths, and numbers of new keys and queries may vary from call to call.

        attn.compile(attn.CacheAppend("bf16", 8, 128, page_size=64, rotary_dim=128, query_heads=32), target="sm_90a")
    """

    dtype: str
    key_heads: int
    key_dim: int
    value_dim: Optional[int] = None
    #: The size of the pages of the cache if it is paged.
    page_size: Optional[int] = None
    rotary_dim: int = 0
    #: The type of the tables.
    rotary_dtype: str = "f32"
    interleaved: bool = False
    query_heads: int = 0
    #: Whether all queries have the position of the first new key.
    same_position: bool = False
    #: The type of the cache if it is another one: f8E4M3FN or f8E5M2.
    cache_dtype: Optional[str] = None
    #: Whether a cache of 8 bits has scales, by which new keys and values are divided.
    scales: bool = False
    #: The number of value heads if there are not ``key_heads``.
    value_heads: Optional[int] = None

    #: The function's name.
    NAME = "cache_append"

    def __post_init__(self) -> None:
        for name in ("dtype", "rotary_dtype"):
            if getattr(self, name) not in ("bf16", "f16", "f32"):
                raise AttnError(f"{name} is {getattr(self, name)!r}; it must be bf16, f16 or f32")
        if self.cache_dtype not in (None, self.dtype, "f8E4M3FN", "f8E5M2"):
            raise AttnError(f"cache_dtype is {self.cache_dtype!r}; it must be {self.dtype}, f8E4M3FN or f8E5M2")
        if self.scales and self.cache_dtype in (None, self.dtype):
            raise AttnError(f"scales are for a cache of f8E4M3FN or f8E5M2, and this one has {self.dtype}")
        if self.rotary_dim % 2 or not 0 <= self.rotary_dim <= self.key_dim:
            raise AttnError(
                f"rotary_dim is {self.rotary_dim}; it must be an even number from 0 to the head dim {self.key_dim}"
            )
        if self.query_heads and not self.rotary_dim:
            raise AttnError(f"query_heads is {self.query_heads}, which needs rotary_dim")

    def mlir(self) -> str:
        def heads(count: int, rows: Union[int, str], dim: int, dtype: str = self.dtype) -> str:
            return f"tensor<?x{count}x{rows}x{dim}x{dtype}>"

        value_dim = self.key_dim if self.value_dim is None else self.value_dim
        rows = "?" if self.page_size is None else self.page_size
        value_heads = self.key_heads if self.value_heads is None else self.value_heads
        of_rows = ((self.key_heads, self.key_dim), (value_heads, value_dim))
        key, value = (heads(count, "?", dim) for count, dim in of_rows)
        cache_dtype = self.dtype if self.cache_dtype is None else self.cache_dtype
        key_cache, value_cache = (heads(count, rows, dim, cache_dtype) for count, dim in of_rows)
        key_scale, value_scale = (f"tensor<?x{count}xf32>" for count, _ in of_rows)
        query = heads(self.query_heads, "?", self.key_dim)
        table = f"tensor<?x{self.rotary_dim // 2}x{self.rotary_dtype}>"
        arguments = {"key": key, "value": value, "key_lengths": _LENGTHS}
        clauses = [f"key_lengths(%key_lengths : {_LENGTHS})", f"new_lengths(%length_init : {_LENGTHS})"]
        inits = [f"%batch = tensor.dim %key, %dim0 : {key}", f"%length_init = tensor.empty(%batch) : {_LENGTHS}"]
        results = [key_cache, value_cache, _LENGTHS]
        if self.page_size is not None:
            arguments["page_table"] = _PAGES
            clauses.append(f"page_table(%page_table : {_PAGES})")
        if self.rotary_dim:
            arguments["cos"] = arguments["sin"] = table
            clauses.append(f"rotary(%cos, %sin : {table}, {table}){' interleaved' * self.interleaved}")
        if self.query_heads:
            arguments["query"] = query
            inits.append(f"%queries = tensor.dim %query, %dim2 : {query}")
            inits.append(f"%query_init = tensor.empty(%batch, %queries) : {query}")
            clauses.append(f"query(%query into %query_init : {query}, {query}){' same_position' * self.same_position}")
            results.insert(2, query)
        if self.scales:
            arguments.update(key_scale=key_scale, value_scale=value_scale)
            clauses.append(f"scales(%key_scale, %value_scale : {key_scale}, {value_scale})")
        arguments.update(key_cache=key_cache, value_cache=value_cache)
        lines = [
            f"func.func @{self.NAME}({', '.join(f'%{name}: {kind}' for name, kind in arguments.items())})",
            f"    -> ({', '.join(results)}) {{",
            "  %dim0 = arith.constant 0 : index",
            "  %dim2 = arith.constant 2 : index",
            *textwrap.indent("\n".join(inits), "  ").split("\n"),
            f"  %r:{len(results)} = attn.cache_append ins(%key, %value : {key}, {value})",
            f"      outs(%key_cache, %value_cache : {key_cache}, {value_cache})",
            *(f"      {clause}" for clause in clauses),
            f"      -> {', '.join(results)}",
            f"  return {', '.join(f'%r#{i}' for i in range(len(results)))} : {', '.join(results)}",
            "}",
            "",
        ]
        return "\n".join(lines)


#: Feature maps of linear attention: the feature ``%r`` of an element ``%e``, both f32. "softmax" is one of rows.
_FEATURES = {
    "elu": """
      %zero = arith.constant 0.0 : f32
      %one = arith.constant 1.0 : f32
      %negative = arith.minimumf %e, %zero : f32
      %exp = math.exp %negative : f32
      %sum = arith.addf %e, %one : f32
      %is_positive = arith.cmpf ogt, %e, %zero : f32
      %r = arith.select %is_positive, %sum, %exp : f32""",
    "relu": """
      %zero = arith.constant 0.0 : f32
      %r = arith.maximumf %e, %zero : f32""",
    "exp": """
      %r = math.exp %e : f32""",
    "softmax": None,
}
#: The feature map whose projection is drawn from a seed.
RANDOM_FEATURE = "random"
#: The names of the feature maps.
FEATURES = (*_FEATURES, RANDOM_FEATURE)
#: The most random features.
MAX_RANDOM_FEATURES = 1 << 16


def _generic(result: str, maps: Sequence[str], loops: Sequence[str], ins: str, init: str, kinds: str, body: str) -> str:
    """``linalg.generic`` with the arguments ``kinds`` of its body, whose last operation yields."""
    maps = ", ".join(f"affine_map<{one}>" for one in maps)
    loops = ", ".join(f'"{one}"' for one in loops)
    shape = init.partition(" : ")[2]
    lines = [
        f"{result} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{loops}]}}",
        f"    ins({ins}) outs({init}) {{",
        f"^bb0({kinds}):",
        textwrap.indent(textwrap.dedent(body).strip(), "  "),
        f"}} -> {shape}",
    ]
    return "\n".join(lines)


#: Element (i, j) of the projection of random features, ``%normal``: docs/rng.md.
_PHILOX_ROUNDS = 10
_PHILOX_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_PHILOX_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_NORMAL = """
  %c0 = arith.constant 0 : i32
  %i = linalg.index 0 : index
  %j = linalg.index 1 : index
  %four = arith.constant 4 : index
  %block = arith.divui %j, %four : index
  %place = arith.remui %j, %four : index
  %x0_0 = arith.index_cast %block : index to i32
  %x1_0 = arith.index_cast %i : index to i32
  %x2_0 = arith.addi %c0, %c0 : i32
  %x3_0 = arith.addi %c0, %c0 : i32
  %k0_0 = arith.trunci %seed_word : i64 to i32
  %half = arith.constant 32 : i64
  %high = arith.shrui %seed_word, %half : i64
  %k1_0 = arith.trunci %high : i64 to i32
{rounds}
  %two = arith.constant 2 : index
  %is_first = arith.cmpi ult, %place, %two : index
  %u = arith.select %is_first, %x0_{last}, %x2_{last} : i32
  %v = arith.select %is_first, %x1_{last}, %x3_{last} : i32
  %eight = arith.constant 8 : i32
  %u_bits = arith.shrui %u, %eight : i32
  %v_bits = arith.shrui %v, %eight : i32
  %u_number = arith.uitofp %u_bits : i32 to f32
  %v_number = arith.uitofp %v_bits : i32 to f32
  %unit = arith.constant 5.9604644775390625e-8 : f32
  %one = arith.constant 1.0 : f32
  %above = arith.addf %u_number, %one : f32
  %fraction = arith.mulf %above, %unit : f32
  %log = math.log %fraction : f32
  %minus_two = arith.constant -2.0 : f32
  %square = arith.mulf %log, %minus_two : f32
  %radius = math.sqrt %square : f32
  %turn = arith.constant {turn} : f32
  %angle = arith.mulf %v_number, %turn : f32
  %cos = math.cos %angle : f32
  %sin = math.sin %angle : f32
  %odd = arith.remui %j, %two : index
  %zero = arith.constant 0 : index
  %is_even = arith.cmpi eq, %odd, %zero : index
  %side = arith.select %is_even, %cos, %sin : f32
  %normal = arith.mulf %radius, %side : f32
"""


def _philox() -> str:
    """The rounds of Philox4x32."""
    lines = []
    for number in range(_PHILOX_ROUNDS):
        for i, (multiplier, step) in enumerate(zip(_PHILOX_MULTIPLIERS, _PHILOX_KEY_STEPS)):
            factors = f"%x{2 * i}_{number}, %m{i}_{number}"
            lines += [
                f"  %m{i}_{number} = arith.constant {multiplier - (1 << 32)} : i32",
                f"  %low{i}_{number}, %high{i}_{number} = arith.mului_extended {factors} : i32",
                f"  %step{i}_{number} = arith.constant {step - (1 << 32)} : i32",
                f"  %k{i}_{number + 1} = arith.addi %k{i}_{number}, %step{i}_{number} : i32",
            ]
        for i in range(2):
            lines += [
                f"  %mix{i}_{number} = arith.xori %high{1 - i}_{number}, %x{2 * i + 1}_{number} : i32",
                f"  %x{2 * i}_{number + 1} = arith.xori %mix{i}_{number}, %k{i}_{number} : i32",
                f"  %x{2 * i + 1}_{number + 1} = arith.addi %low{1 - i}_{number}, %c0 : i32",
            ]
    return "\n".join(lines)


def _random_feature(dim: int, dtype: str, features: int) -> str:
    """The body of the region of positive random features, of the value ``%seed`` outside of it."""
    rows, projection = f"tensor<?x?x?x{dim}x{dtype}>", f"tensor<{features}x{dim}x{dtype}>"
    norms, wide, out = (f"tensor<?x?x?x{kind}>" for kind in ("f32", f"{features}xf32", f"{features}x{dtype}"))
    is_wide = dtype == "f32"

    def widen(name: str) -> str:
        return "" if is_wide else f"\n  %{name} = arith.extf %{name}_given : {dtype} to f32"

    def given(name: str) -> str:
        return f"%{name}: f32" if is_wide else f"%{name}_given: {dtype}"

    def narrow(name: str) -> str:
        cast = "" if is_wide else f"\n  %rounded = arith.truncf %{name} : f32 to {dtype}"
        return f"{cast}\n  linalg.yield %{name if is_wide else 'rounded'} : {dtype}"

    lines = [f"%feature_dim{i} = arith.constant {i} : index" for i in range(3)]
    lines += [f"%feature_size{i} = tensor.dim %x, %feature_dim{i} : {rows}" for i in range(3)]
    sizes = ", ".join(f"%feature_size{i}" for i in range(3))
    lines.append(f"%projection_init = tensor.empty() : {projection}")
    normal = _NORMAL.format(rounds=_philox(), last=_PHILOX_ROUNDS, turn=_float(2 * math.pi / (1 << 24)))
    lines.append(_generic(
        "%projection", ("(i, j) -> ()", "(i, j) -> (i, j)"), ["parallel"] * 2, "%seed : tensor<i64>",
        f"%projection_init : {projection}", f"%seed_word: i64, %old: {dtype}", normal.rstrip() + narrow("normal"),
    ))  # fmt: skip
    lines += [
        "%feature_zero = arith.constant 0.0 : f32",
        f"%norm_init = tensor.empty({sizes}) : {norms}",
        f"%norm_zeros = linalg.fill ins(%feature_zero : f32) outs(%norm_init : {norms}) -> {norms}",
        _generic(
            "%norms", ("(b, h, s, d) -> (b, h, s, d)", "(b, h, s, d) -> (b, h, s)"), ["parallel"] * 3 + ["reduction"],
            f"%x : {rows}", f"%norm_zeros : {norms}", f"{given('e')}, %sum: f32",
            widen("e") + "\n  %square = arith.mulf %e, %e : f32\n  %next = arith.addf %sum, %square : f32"
            "\n  linalg.yield %next : f32",
        ),
        f"%dot_init = tensor.empty({sizes}) : {wide}",
        f"%dot_zeros = linalg.fill ins(%feature_zero : f32) outs(%dot_init : {wide}) -> {wide}",
        _generic(
            "%dots", ("(b, h, s, m, d) -> (b, h, s, d)", "(b, h, s, m, d) -> (m, d)",
                      "(b, h, s, m, d) -> (b, h, s, m)"), ["parallel"] * 4 + ["reduction"],
            f"%x, %projection : {rows}, {projection}", f"%dot_zeros : {wide}", f"{given('e')}, {given('w')}, %sum: f32",
            widen("e") + widen("w") + "\n  %product = arith.mulf %e, %w : f32"
            "\n  %next = arith.addf %sum, %product : f32\n  linalg.yield %next : f32",
        ),
        f"%feature_init = tensor.empty({sizes}) : {out}",
        _generic(
            "%y", ("(b, h, s, m) -> (b, h, s, m)", "(b, h, s, m) -> (b, h, s)", "(b, h, s, m) -> (b, h, s, m)"),
            ["parallel"] * 4, f"%dots, %norms : {wide}, {norms}", f"%feature_init : {out}",
            f"%dot: f32, %norm: f32, %old: {dtype}",
            f"""
  %of_dot = arith.constant {_float(dim**-0.25)} : f32
  %of_norm = arith.constant {_float(-0.5 * dim**-0.5)} : f32
  %of_all = arith.constant {_float(features**-0.5)} : f32
  %scaled = arith.mulf %dot, %of_dot : f32
  %shift = arith.mulf %norm, %of_norm : f32
  %exponent = arith.addf %scaled, %shift : f32
  %exp = math.exp %exponent : f32
  %r = arith.mulf %exp, %of_all : f32""" + narrow("r"),
        ),
        f"attn.linear_yield %y : {out}",
    ]  # fmt: skip
    return "\n".join(lines)


def _feature(name: str, dim: int, dtype: str) -> str:
    """The body of the region of a feature map of single elements or rows."""
    rows = f"tensor<?x?x?x{dim}x{dtype}>"
    lines = [f"%feature_dim{i} = arith.constant {i} : index" for i in range(3)]
    lines += [f"%feature_size{i} = tensor.dim %x, %feature_dim{i} : {rows}" for i in range(3)]
    lines.append(f"%feature_init = tensor.empty(%feature_size0, %feature_size1, %feature_size2) : {rows}")
    if name == "softmax":
        lines.append(f"%y = linalg.softmax dimension(3) ins(%x : {rows}) outs(%feature_init : {rows}) -> {rows}")
    else:
        identity = "affine_map<(i, j, k, l) -> (i, j, k, l)>"
        wide = dtype == "f32"
        lines.append(
            f"%y = linalg.generic {{indexing_maps = [{identity}, {identity}], "
            'iterator_types = ["parallel", "parallel", "parallel", "parallel"]} '
            f"ins(%x : {rows}) outs(%feature_init : {rows}) {{"
        )
        lines.append(f"^bb0(%{'e' if wide else 'given'}: {dtype}, %old: {dtype}):")
        lines += [] if wide else [f"  %e = arith.extf %given : {dtype} to f32"]
        lines += textwrap.indent(textwrap.dedent(_FEATURES[name] or "").strip(), "  ").split("\n")
        lines += [] if wide else [f"  %rounded = arith.truncf %r : f32 to {dtype}"]
        lines += [f"  linalg.yield %{'r' if wide else 'rounded'} : {dtype}", f"}} -> {rows}"]
    lines.append(f"attn.linear_yield %y : {rows}")
    return "\n".join(lines)


#: The dimensions of log-decays of linear attention, by their kind.
_DECAYS = {"": None, "head": "{heads}", "token": "?x{heads}x?", "element": "?x{heads}x?x{key_dim}"}


@dataclasses.dataclass(frozen=True)
class LinearAttention:
    """Linear attention; ``mlir`` is the module.

    The module has one function, ``linear_attention(query, key, value, log_decay, beta, initial_state, key_lengths,
    sequences, seed)``, without the arguments that there are none of, with results ``out`` and, if ``with_final_state``,
    ``final_state``. If ``in_place``, the final state is written to ``initial_state`` and has no argument. With
    ``decay`` there is a log-decay for each "head", "token" (and head) or "element" (of a key, and token, and head).
    Batch and length may vary from call to call. ``feature`` is one of ``FEATURES``, "elu" with one added;
    "random" has ``random_features`` of them, and draws its projection from ``seed``.
    ``normalizer_eps`` adds a normalizer, and its column to states; it and masks are those of
    ``attn.linear_attention``.

        attn.compile(attn.LinearAttention("bf16", 16, 16, 16, 128, decay="token", beta=True), target="host")
    """

    dtype: str
    heads: int
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: Optional[int] = None
    decay: str = ""
    #: Whether the delta rule updates the state.
    beta: bool = False
    initial_state: bool = False
    with_final_state: bool = False
    #: Whether the final state replaces the initial one in memory.
    in_place: bool = False
    causal: bool = True
    scale: Optional[float] = None
    #: How many tokens kernels compute at a time.
    chunk: Optional[int] = None
    #: How GPUs multiply f32: "highest" or "high"; "" is the highest.
    precision: str = ""
    feature: str = ""
    #: How many features "random" has; its projection is drawn from the operand ``seed``.
    random_features: Optional[int] = None
    normalizer_eps: Optional[float] = None
    #: The tokens of a local block.
    local_block: Optional[int] = None
    #: Whether batch entries have numbers of keys, and the batch entry sequences.
    key_lengths: bool = False
    sequences: bool = False

    #: The function's name.
    NAME = "linear_attention"

    def __post_init__(self) -> None:
        if self.dtype not in ("bf16", "f16", "f32"):
            raise AttnError(f"dtype is {self.dtype!r}; it must be bf16, f16 or f32")
        _check_precision(self.precision)
        if self.decay not in _DECAYS:
            raise AttnError(f"decay is {self.decay!r}; it must be one of {', '.join(map(repr, _DECAYS))}")
        if self.feature not in ("", *FEATURES):
            raise AttnError(f"feature is {self.feature!r}; it must be one of {', '.join(map(repr, ('', *FEATURES)))}")
        features, is_random = self.random_features, self.feature == RANDOM_FEATURE
        if (features is not None) != is_random:
            raise AttnError(f"random_features is {features} and feature {self.feature!r}; both or none must be random")
        if is_random and not 1 <= features <= MAX_RANDOM_FEATURES:
            raise AttnError(f"random_features is {features}; it must be from 1 to {MAX_RANDOM_FEATURES}")
        eps = self.normalizer_eps
        if eps is not None and not 0 <= eps <= MAX_SCALE:
            raise AttnError(f"normalizer_eps is {eps}; it must be from 0 to {MAX_SCALE:.3g}, as an f32")
        if self.local_block is not None and not 1 <= self.local_block < 1 << 31:
            raise AttnError(f"local_block is {self.local_block}; it must be from 1 to {(1 << 31) - 1}")
        if self.in_place and not (self.initial_state and self.with_final_state):
            raise AttnError("in_place needs initial_state and with_final_state, which it makes one")
        for name in ("key_heads", "value_heads"):
            heads = getattr(self, name)
            if heads < 1 or self.heads % heads:
                raise AttnError(f"{name} is {heads}; it must divide the number of heads, {self.heads}")
        if self.scale is not None and not abs(self.scale) <= MAX_SCALE:
            raise AttnError(f"scale is {self.scale}; it must be finite, and at most {MAX_SCALE:.3g}, as an f32")

    def mlir(self) -> str:
        value_dim = self.key_dim if self.value_dim is None else self.value_dim
        query, key = (f"tensor<?x{heads}x?x{self.key_dim}x{self.dtype}>" for heads in (self.heads, self.key_heads))
        value, out = (f"tensor<?x{heads}x?x{value_dim}x{self.dtype}>" for heads in (self.value_heads, self.heads))
        columns = value_dim + (self.normalizer_eps is not None)
        feature_dim = self.random_features or self.key_dim
        state = f"tensor<?x{self.heads}x{feature_dim}x{columns}xf32>"
        decay = _DECAYS[self.decay]
        optional = {
            "log_decay": decay and f"tensor<{decay}xf32>".format(heads=self.heads, key_dim=feature_dim),
            "beta": f"tensor<?x{self.heads}x?xf32>" if self.beta else None,
            "initial_state": state if self.initial_state else None,
            "key_lengths": _LENGTHS if self.key_lengths else None,
            "sequences": _LENGTHS if self.sequences else None,
        }
        given = {name: kind for name, kind in optional.items() if kind}
        arguments = {"query": query, "key": key, "value": value, **given}
        if self.feature == RANDOM_FEATURE:
            arguments["seed"] = "tensor<i64>"
        clauses = [f"{name}(%{name} : {kind})" for name, kind in given.items()]
        clauses += ["causal"] * self.causal
        if self.scale is not None:
            clauses.append(f"scale({_float(self.scale)})")
        if self.local_block is not None:
            clauses.append(f"local_blocks({self.local_block})")
        if self.normalizer_eps is not None:
            clauses.append(f"normalizer(eps = {_float(self.normalizer_eps)})")
        if self.chunk is not None:
            clauses.append(f"chunk({self.chunk})")
        if self.precision:
            clauses.append(f"precision({self.precision})")
        if self.feature:
            body = (
                _random_feature(self.key_dim, self.dtype, self.random_features)
                if self.feature == RANDOM_FEATURE
                else _feature(self.feature, self.key_dim, self.dtype)
            )
            rows = f"tensor<?x?x?x{self.key_dim}x{self.dtype}>"
            clauses.append(textwrap.indent(_region("feature", f"%x: {rows}", body), "      ").lstrip())
        results, inits = [out], ["%out_init"]
        lines = [
            "  %dim0 = arith.constant 0 : index",
            "  %dim2 = arith.constant 2 : index",
            f"  %batch = tensor.dim %query, %dim0 : {query}",
            f"  %tokens = tensor.dim %query, %dim2 : {query}",
            f"  %out_init = tensor.empty(%batch, %tokens) : {out}",
        ]
        if self.with_final_state:
            results.append(state)
            inits.append("%initial_state" if self.in_place else "%state_init")
            if not self.in_place:
                number = "%batch"
                if self.sequences:
                    # A state for each sequence, which has a boundary at both ends.
                    number = "%number"
                    lines += [
                        "  %dim1 = arith.constant 1 : index",
                        f"  %boundaries = tensor.dim %sequences, %dim0 : {_LENGTHS}",
                        "  %number = arith.subi %boundaries, %dim1 : index",
                    ]
                lines.append(f"  %state_init = tensor.empty({number}) : {state}")
        lines = [
            f"func.func @{self.NAME}({', '.join(f'%{name}: {kind}' for name, kind in arguments.items())})",
            f"    -> ({', '.join(results)}) {{",
            *lines,
            f"  %r:{len(results)} = attn.linear_attention ins(%query, %key, %value : {query}, {key}, {value})",
            f"      outs({', '.join(inits)} : {', '.join(results)})",
            *(f"      {clause}" for clause in clauses),
            f"      -> {', '.join(results)}",
            f"  return {', '.join(f'%r#{i}' for i in range(len(results)))} : {', '.join(results)}",
            "}",
            "",
        ]
        return "\n".join(lines)


@dataclasses.dataclass(frozen=True)
class Merge:
    """Attention to several sets of keys as attention to all of them; ``mlir`` is the module.

    The module has one function, ``merge(out0, lse0, out1, lse1, ...)`` with the partial results, and the results
    ``out`` and ``lse``. Batch and number of queries may vary from call to call.

        attn.compile(attn.Merge("bf16", 32, 128), target="sm_90a")
    """

    dtype: str
    heads: int
    value_dim: int
    #: The number of partial results.
    parts: int = 2

    #: The function's name.
    NAME = "merge"

    def __post_init__(self) -> None:
        if self.dtype not in ("bf16", "f16", "f32"):
            raise AttnError(f"dtype is {self.dtype!r}; it must be bf16, f16 or f32")
        if self.parts < 2:
            raise AttnError(f"parts is {self.parts}; there must be at least 2 partial results")

    def mlir(self) -> str:
        out, lse = f"tensor<?x{self.heads}x?x{self.value_dim}x{self.dtype}>", f"tensor<?x{self.heads}x?xf32>"
        numbers = range(self.parts)
        arguments = ", ".join(f"%out{i}: {out}, %lse{i}: {lse}" for i in numbers)
        outs, lses = (", ".join(f"%{name}{i}" for i in numbers) for name in ("out", "lse"))
        return f"""func.func @{self.NAME}({arguments}) -> ({out}, {lse}) {{
  %dim0 = arith.constant 0 : index
  %dim2 = arith.constant 2 : index
  %batch = tensor.dim %out0, %dim0 : {out}
  %queries = tensor.dim %out0, %dim2 : {out}
  %out_init = tensor.empty(%batch, %queries) : {out}
  %lse_init = tensor.empty(%batch, %queries) : {lse}
  %r:2 = attn.merge ins({outs} : {", ".join([out] * self.parts)})
      lses({lses} : {", ".join([lse] * self.parts)})
      outs(%out_init, %lse_init : {out}, {lse}) -> {out}, {lse}
  return %r#0, %r#1 : {out}, {lse}
}}
"""


@dataclasses.dataclass(frozen=True)
class Quantize:
    """The quantization of a tensor to 8 bits; ``mlir`` is the module.

    The module has one function, ``quantize(x)``, with the results ``out``, ``scale`` and ``amax``. With ``given_scale``
    it is ``quantize(x, scale)`` with the results ``out`` and ``amax``. With ``rotated``, the last argument is
    ``signs``. All sizes but the last one may vary from call to call.

        attn.compile(attn.Quantize("bf16", 4, 128, granularity="head"), target="sm_90a")
    """

    dtype: str
    #: The number of dimensions: 4 are batch, heads, positions and head dim.
    rank: int
    #: The size of the last dimension.
    size: int
    #: "f8E4M3FN" or "f8E5M2".
    out_dtype: str = "f8E4M3FN"
    #: One scale for the "tensor", for each batch entry and "head", or for each "block" of ``block_size`` positions.
    granularity: str = "tensor"
    block_size: int = 64
    given_scale: bool = False
    rotated: bool = False
    #: Whether numbers beyond the largest one become that one.
    saturate: bool = True

    #: The function's name.
    NAME = "quantize"

    def __post_init__(self) -> None:
        choices = {"dtype": _DTYPES, "out_dtype": _FLOAT8, "rank": (2, 3, 4), "block_size": (64, 128)}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                wanted = f"{', '.join(map(str, allowed[:-1]))} or {allowed[-1]}"
                raise AttnError(f"{name} is {getattr(self, name)!r}; it must be {wanted}")
        if self.granularity not in ("tensor", "head", "block"):
            raise AttnError(f"granularity is {self.granularity!r}; it must be 'tensor', 'head' or 'block'")
        if self.granularity != "tensor" and self.rank != 4:
            raise AttnError(f"granularity is {self.granularity!r} and rank {self.rank}; it must be 'tensor'")
        is_power = self.size & (self.size - 1) == 0
        if self.rotated and not (is_power and 16 <= self.size <= 1024):
            raise AttnError(f"size is {self.size}; a rotation needs a power of two from 16 to 1024")

    def mlir(self) -> str:
        sizes = "?x" * (self.rank - 1) + str(self.size)
        x, out = f"tensor<{sizes}x{self.dtype}>", f"tensor<{sizes}x{self.out_dtype}>"
        scale = {"tensor": "tensor<f32>", "head": "tensor<?x?xf32>", "block": "tensor<?x?x?xf32>"}[self.granularity]
        signs = f"tensor<{self.size}xf32>"
        arguments, clauses = [f"%x: {x}"], [f"ins(%x : {x})"]
        if self.given_scale:
            arguments.append(f"%scale: {scale}")
            clauses.append(f"given_scale(%scale : {scale})")
        if self.rotated:
            arguments.append(f"%signs: {signs}")
            clauses.append(f"rotate(%signs : {signs})")
        clauses.append(f"outs(%out_init : {out})")
        kept = [] if self.given_scale else ["scale"]
        lines = []
        for dim in range(self.rank - 1):
            lines += [f"  %dim{dim} = arith.constant {dim} : index", f"  %size{dim} = tensor.dim %x, %dim{dim} : {x}"]
        if self.granularity == "block":
            lines += [
                f"  %block = arith.constant {self.block_size} : index",
                "  %blocks = arith.ceildivui %size2, %block : index",
            ]
        of_scale = {"tensor": "", "head": "%size0, %size1", "block": "%size0, %size1, %blocks"}[self.granularity]
        of_out = ", ".join(f"%size{dim}" for dim in range(self.rank - 1))
        lines.append(f"  %out_init = tensor.empty({of_out}) : {out}")
        for name in (*kept, "amax"):
            lines.append(f"  %{name}_init = tensor.empty({of_scale}) : {scale}")
            clauses.append(f"{name}(%{name}_init : {scale})")
        if self.granularity == "block":
            clauses.append(f"block_size({self.block_size})")
        if self.saturate:
            clauses.append("saturate")
        results = [out, *[scale] * (len(kept) + 1)]
        types = ", ".join(results)
        lines.append(f"  %r:{len(results)} = attn.quantize {' '.join(clauses)} -> {types}")
        lines.append(f"  return {', '.join(f'%r#{number}' for number in range(len(results)))} : {types}")
        body = "\n".join(lines)
        return f"func.func @{self.NAME}({', '.join(arguments)}) -> ({types}) {{\n{body}\n}}\n"


def _slice_keys(key: str, value: str, entries: Union[int, str], rows: Union[int, str]) -> List[str]:
    """What makes the values ``%latent`` of the first elements of ``%key``, of which sizes may be "?"."""
    heads, dim = (value.split("<")[1].split("x")[number] for number in (1, 3))
    lines, sizes = [], []
    for number, size in ((0, entries), (2, rows)):
        sizes.append(f"%keys{number}" if size == "?" else str(size))
        if size == "?":
            lines.append(f"  %key_dim{number} = arith.constant {number} : index")
            lines.append(f"  %keys{number} = tensor.dim %key, %key_dim{number} : {key}")
    lines.append(
        f"  %latent = tensor.extract_slice %key[0, 0, 0, 0] [{sizes[0]}, {heads}, {sizes[1]}, {dim}] [1, 1, 1, 1] "
        f": {key} to {value}"
    )
    return lines


def _float(value: float) -> str:
    """A literal of MLIR: it has a point."""
    text = f"{value:.9e}"
    return text if re.fullmatch(r"-?\d\.\d+e[+-]\d+", text) else repr(float(value))


def _region(name: str, arguments: str, body: str) -> str:
    return f"{name} {{\n^bb0({arguments}):\n{textwrap.indent(textwrap.dedent(body).strip(), '  ')}\n}}"
