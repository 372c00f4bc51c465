# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matmuls of graphs of torch, as ``linalg.matmul``, for ``attn.torch.lower``."""

from typing import Optional

import torch
from torch.fx import Node

from attn.errors import UnsupportedError
from attn.torch.importer import _PERMUTATIONS, _get_order
from attn.torch.kernels import FLOAT8
from attn.torch.linalg_builder import Value, element_of, merge_sizes, sizes_of, type_of
from attn.torch.lower_functions import FunctionLowering, bind

aten = torch.ops.aten

#: The arguments for a tensor, for a matrix, and for a bias.
_MATMULS = {
    aten.linear.default: ("input", "weight", "bias"),
    aten.mm.default: ("self", "mat2", None),
    aten.matmul.default: ("self", "other", None),
    aten.addmm.default: ("mat1", "mat2", "self"),
}


class MatmulLowering(FunctionLowering):
    """Writes operations for matmuls as well."""

    def write_matmul(self, node: Node) -> bool:
        """Writes what a node of this module computes. Returns whether it is one."""
        if any(operand not in self.values for operand in node.all_input_nodes):
            return False
        if node.target == aten._scaled_mm.default:
            self._scaled_matmul(node)
        elif node.target == aten.conv2d.default:
            self._convolve(node)
        elif node.target in _MATMULS and (
            node.target != aten.matmul.default or node.args[1].meta["val"].dim() == 2  # type: ignore[union-attr]
        ):
            self._matmul(node)
        else:
            return False
        return True

    def _add_bias(self, out: Value, bias: Optional[Node]) -> Value:
        if bias is None:
            return out
        return self.combine("arith.addf", [out, self.values[bias]], [2, bias.meta["val"].dim()], out.type)

    def _matmul(self, node: Node) -> None:
        """A tensor times a matrix, or the transpose of one of a linear layer, and a bias."""
        given = bind(node)
        first, second, third = _MATMULS[node.target]
        operands, bias = (given[first], given[second]), given.get(third)
        if any(given.get(name, 1) != 1 for name in ("alpha", "beta")):
            raise UnsupportedError(self.refusal(node, "factors alpha and beta"))
        shape, after = sizes_of(operands[0].meta["val"]), sizes_of(node.meta["val"])
        matrix = sizes_of(operands[1].meta["val"])
        if len(matrix) != 2 or "?" in matrix or len(shape) < 2:
            raise UnsupportedError(self.refusal(node, "another matrix than one of static sizes, or a vector"))
        last = len(shape) - 1
        if shape[:-1].count("?") > 1:
            raise UnsupportedError(f"{node.name} has more than one size that varies before the last; give it one size")
        leading = list(range(last))
        rows = self.regroup(
            self.values[operands[0]], [(leading, [0]), ([last], [1])], (merge_sizes(shape[:-1]), shape[-1])
        )
        right = self.values[operands[1]]
        out = self.matmul(rows, right, node.target == aten.linear.default, element_of(right.type))
        self.values[node] = self.regroup(self._add_bias(out, bias), [([0], leading), ([1], [last])], after)

    def _convolve(self, node: Node) -> None:
        """A convolution whose windows do not overlap, as models of images make patches: a matmul."""
        given = bind(node)
        image, weight = (given[name].meta["val"] for name in ("input", "weight"))
        kernel = list(weight.shape[2:])
        pairs = (given[name] for name in ("stride", "padding", "dilation"))
        stride, padding, dilation = ([*pair] * (2 // len(pair)) for pair in pairs)
        count = [size // part if isinstance(size, int) else 0 for size, part in zip(image.shape[2:], kernel)]
        if (
            stride != kernel or any(padding) or dilation != [1, 1] or given["groups"] != 1 or image.dim() != 4
            or not isinstance(image.shape[1], int) or "?" in sizes_of(weight)
            or [number * part for number, part in zip(count, kernel)] != list(image.shape[2:])
        ):  # fmt: skip
            raise UnsupportedError(
                self.refusal(node, "windows that overlap, are padded or do not divide the image, or groups")
            )
        batch, channels = sizes_of(image)[:2]
        (rows, height), (columns, width) = zip(count, kernel)
        parts = [batch, channels, str(rows), str(height), str(columns), str(width)]
        split = self.regroup(self.values[given["input"]], [([0], [0]), ([1], [1]), ([2], [2, 3]), ([3], [4, 5])], parts)
        windows = self.transpose(split, [0, 2, 4, 1, 3, 5])
        features = str(weight.shape[0])
        pixels = str(int(channels) * height * width)
        sizes = (merge_sizes([batch, str(rows * columns)]), pixels)
        matrix = self.regroup(windows, [([0, 1, 2], [0]), ([3, 4, 5], [1])], sizes)
        flat = self.regroup(self.values[given["weight"]], [([0], [0]), ([1, 2, 3], [1])], (features, pixels))
        out = self._add_bias(self.matmul(matrix, flat, True, element_of(flat.type)), given["bias"])
        spread = self.regroup(out, [([0], [0, 1, 2]), ([1], [3])], (batch, str(rows), str(columns), features))
        self.values[node] = self.transpose(spread, [0, 3, 1, 2])

    def _scaled_matmul(self, node: Node) -> None:
        """``torch._scaled_mm`` with one scale of each matrix, or of each row of the first and column of the second."""
        given = bind(node)
        a, b = given["self"], given["mat2"]
        out = node.meta["val"]
        rows, columns = out.shape
        if given.get("scale_result") is not None or out.dtype in FLOAT8:
            raise UnsupportedError(
                f"{node.name} has a result of {out.dtype}, which kernels do not round; pass out_dtype=torch.bfloat16"
                " and no scale_result"
            )
        # A transposed matrix is read where it is.
        is_matrix = b.target in _PERMUTATIONS and b.args[0] in self.values and b.args[0].meta["val"].dim() == 2
        transposed = is_matrix and list(_get_order(b, 2)) == [1, 0]
        left, right = self.values[a], self.values[b.args[0] if transposed else b]
        operands, reads = [self.matmul(left, right, transposed, "f32")], [["d0", "d1"]]
        body, last = [], "%x.0"
        for name, by in (("scale_a", [rows, 1]), ("scale_b", [1, columns])):
            scale = given[name].meta["val"]
            if scale.dtype != torch.float32 or (scale.numel() != 1 and list(scale.shape) != by):
                raise UnsupportedError(
                    f"{node.name} has {name} of {scale.dtype} and the shape {tuple(scale.shape)}, expected "
                    f"torch.float32 and one number, or {tuple(by)}"
                )
            dims = ["d0", "0"] if name == "scale_a" else ["0", "d1"]
            reads.append(dims if scale.dim() == 2 and scale.numel() != 1 else ["0"] * scale.dim())
            operands.append(self.values[given[name]])
            body.append(f"%x.s{len(body)} = arith.mulf {last}, %x.{len(operands) - 1} : f32")
            last = f"%x.s{len(body) - 1}"
        if given.get("bias") is not None:
            bias = self.values[given["bias"]]
            element = element_of(bias.type)
            operands.append(bias)
            reads.append(["d1"])
            added = "%x.3"
            if element != "f32":
                body.append(f"%x.bias = arith.extf %x.3 : {element} to f32")
                added = "%x.bias"
            body.append(f"%x.sum = arith.addf {last}, {added} : f32")
            last = "%x.sum"
        kind = type_of(out)
        element = element_of(kind)
        if element != "f32":
            body.append(f"%x.r = arith.truncf {last} : f32 to {element}")
            last = "%x.r"
        self.values[node] = self.loops(operands, reads, kind, body, last)
