# ===- dropout_reference.py - Dropout masks by NumPy ------------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# The keep masks of docs/rng.md, written from that page: each keep bit from a random number of its own that is compared
# with the threshold, and words of keep masks, whose numbers are compared together. Random words are uint64 arrays of
# values below 2^32.
#
# ===----------------------------------------------------------------------===#

import numpy as np

MASK = np.uint64(0xFFFFFFFF)


def u64(x):
    return np.asarray(x).astype(np.uint64)


def rotate(x, n):
    return ((x << np.uint64(n)) | (x >> np.uint64(32 - n))) & MASK


def philox(key, counter, rounds):
    x = [u64(c) for c in counter]
    k = [u64(w) for w in key]
    for _ in range(rounds):
        first, second = x[0] * u64(0xD2511F53), x[2] * u64(0xCD9E8D57)
        x = [(second >> u64(32)) ^ x[1] ^ k[0], second & MASK,
             (first >> u64(32)) ^ x[3] ^ k[1], first & MASK]
        k = [(k[0] + u64(0x9E3779B9)) & MASK, (k[1] + u64(0xBB67AE85)) & MASK]
    return x


def threefry(key, counter, rounds):
    k = [u64(key[0]), u64(key[1]), u64(0), u64(0)]
    k.append(k[0] ^ k[1] ^ u64(0x1BD11BDA))
    rotations = [(10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20)]
    x = [(u64(c) + k[n]) & MASK for n, c in enumerate(counter)]
    for r in range(rounds):
        for (a, b), n in zip([(0, 1), (2, 3)] if r % 2 == 0 else [(0, 3), (2, 1)], rotations[r % 8]):
            x[a] = (x[a] + x[b]) & MASK
            x[b] = rotate(x[b], n) ^ x[a]
        if r % 4 == 3:
            d = r // 4 + 1
            x = [(w + k[(d + n) % 5] + u64(d if n == 3 else 0)) & MASK for n, w in enumerate(x)]
    return x


def arx(key, counter, rounds):
    x0, x1, x2, x3 = (u64(c) for c in counter)
    for n in range(rounds):
        x0 = (x0 + x1 + u64(key[0]) + u64(n * 0x9E3779B9 % 2**32)) & MASK
        x1 = rotate(x1, 5) ^ x0
        x0 = rotate(x0, 16)
        x2 = (x2 + x3 + u64(key[1]) + u64(n * 0xBB67AE85 % 2**32)) & MASK
        x3 = rotate(x3, 8) ^ x2
        x0 = (x0 + x3) & MASK
        x3 = rotate(x3, 13) ^ x0
        x2 = (x2 + x1) & MASK
        x1 = rotate(x1, 7) ^ x2
        x2 = rotate(x2, 16)
    return [x0, x1, x2, x3]


def pack(keep, layout="rows"):
    """Words of keep masks, of an array of booleans [.., query, key]."""
    sq, skv = keep.shape[-2:]
    padding = [(0, 0)] * (keep.ndim - 2) + [(0, -sq % 64), (0, -skv % 64)]
    keep = np.pad(keep, padding)
    sq, skv = keep.shape[-2:]
    # Query 16 a + 8 s + r and key 16 w + 8 h + 2 c + e are bit 16 e + 4 c + 2 h + s of word (8 a + r, w).
    bits = keep.reshape(*keep.shape[:-2], sq // 16, 2, 8, skv // 16, 2, 4, 2)
    bits = np.moveaxis(bits, (-6, -3, -2, -1), (-1, -2, -3, -4))
    bits = bits.reshape(*keep.shape[:-2], sq // 2, skv // 16, 32)
    words = (bits * (np.uint64(1) << np.arange(32, dtype=np.uint64))).sum(-1).astype(np.uint32)
    if layout == "columns":
        words = words.swapaxes(-1, -2)
    return np.ascontiguousarray(words).view(np.int32)


def packed_mask(dropout, layout, batch, heads, queries, keys):
    """Operations that make the keep mask from %seed and %offset, `tensor<i64>`, for
    sizes that are names of values, and the clause by which attention reads them."""
    sizes = "%query_words, %key_words" if layout == "rows" else "%key_words, %query_words"
    words = f"tensor<?x{heads}x?x?xi32>"
    made = f"""
  %c4 = arith.constant 4 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %query_blocks = arith.ceildivui {queries}, %c64 : index
  %key_blocks = arith.ceildivui {keys}, %c64 : index
  %query_words = arith.muli %query_blocks, %c32 : index
  %key_words = arith.muli %key_blocks, %c4 : index
  %no_bits = tensor.empty({batch}, {sizes}) : {words}
  %bits = attn.dropout_mask {layout} by({dropout}, %seed, %offset : tensor<i64>, tensor<i64>)
      outs(%no_bits : {words}) -> {words}"""
    return made, f" dropout_mask {layout}(%bits : {words}) p({1 - dropout.keep_probability})"


class Dropout:
    """`generator` is the name of one of the functions above."""

    def __init__(self, p, generator, rounds, bits=8):
        self.p, self.generator, self.rounds, self.bits = p, generator, rounds, bits
        self.threshold = int(np.floor(p * 2**bits + 0.5))
        self.keep_probability = 1 - self.threshold / 2**bits

    def __str__(self):
        return (f"#attn.dropout<p = {self.p}, rng = #attn.{self.generator}"
                f"<rounds = {self.rounds}>, bits = {self.bits}>")

    def generate(self, key, counter):
        generator = {"philox": philox, "threefry": threefry, "arx": arx}[self.generator]
        return generator(key, counter, self.rounds)

    def words(self, seed, offset, b, h, u, w):
        """Words of keep masks, as i32; positions are arrays that broadcast. Compares the numbers of a word together."""
        b, h, u, w = (u64(x) for x in (b, h, u, w))
        seed, offset = seed % 2**64, offset % 2**64
        y = self.generate((seed % 2**32, seed >> 32), (offset % 2**32, offset >> 32, b, h))
        random = []
        for m in range(0, self.bits, 4):
            random += self.generate((y[0], y[1]), (w * u64(4) + u64(m // 4), u, y[2], y[3]))
        # A number is at least the threshold unless it is less; it is if its highest bit that differs from that is 0.
        equal, less = ~u64(0) & MASK, u64(0)
        for m in range(self.bits):
            threshold = MASK if self.threshold >> (self.bits - 1 - m) & 1 else u64(0)
            less = less | (equal & threshold & ~random[m])
            equal = equal & ~(random[m] ^ threshold) & MASK
        return (~less & MASK).astype(np.uint32).view(np.int32)

    def keep(self, seed, offset, b, h, i, j):
        """Whether probabilities are kept; positions are arrays that broadcast."""
        b, h, i, j = (u64(x) for x in (b, h, i, j))
        seed, offset = seed % 2**64, offset % 2**64
        y = self.generate((seed % 2**32, seed >> 32), (offset % 2**32, offset >> 32, b, h))
        u = i // u64(16) * u64(8) + i % u64(8)
        w = j // u64(16)
        bit = j % u64(2) * u64(16) + j // u64(2) % u64(4) * u64(4) + j // u64(8) % u64(2) * u64(2) + i // u64(8) % u64(2)
        number = u64(0)
        for m in range(self.bits):
            if m % 4 == 0:
                words = self.generate((y[0], y[1]), (w * u64(4) + u64(m // 4), u, y[2], y[3]))
            number = number * u64(2) + ((words[m % 4] >> bit) & u64(1))
        return number >= u64(self.threshold)
