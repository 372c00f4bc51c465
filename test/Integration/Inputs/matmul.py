# ===- matmul.py - Matmuls in linalg, in many variants ---------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""What the numerics of matmuls on the host and on GPUs have in common."""

from dropout_reference import Dropout

# What follows the sum, and the operands that it reads: (name, shape of it in terms of the output, element type).
EPILOGUES = {
    "none": (),
    "bias": (("bias", "n", "f32"),),
    # The result is rounded before the bias is added, and once more after.
    "bias_rounded": (("bias", "n", "in"),),
    # A factor for each row, and a residual.
    "rows_residual": (("factor", "m", "f32"), ("residual", "mn", "in")),
    # The result is added to the contents of an f32 output.
    "accumulate": (("init", "mn", "f32"),),
}


class Matmul:
    """One variant: how operands are stored, and the epilogue."""

    def __init__(self, dtype, out=None, transpose_lhs=False, transpose_rhs=False, batch="", epilogue="none",
                 swapped=False, sizes=(None, None, None), rhs_dtype=None):
        self.dtype, self.rhs_dtype, self.out = dtype, rhs_dtype or dtype, out or dtype
        self.transpose_lhs, self.transpose_rhs = transpose_lhs, transpose_rhs
        # Which inputs have an entry for each member of the batch: letters of "lr".
        self.batch = batch
        self.epilogue = epilogue
        # The inputs of linalg in the other order.
        self.swapped = swapped
        # Static sizes of rows, columns and depth, or None.
        self.sizes = sizes

    def __str__(self):
        rhs = f"_{self.rhs_dtype}" if self.rhs_dtype != self.dtype else ""
        name = f"{self.dtype}{rhs}_{self.out}_{'t' if self.transpose_lhs else 'n'}{'t' if self.transpose_rhs else 'n'}"
        name += f"_b{self.batch}" if self.batch else ""
        name += f"_{self.epilogue}" if self.epilogue != "none" else ""
        name += "_swapped" if self.swapped else ""
        return name + "".join(f"_{s}" for s in self.sizes if s)

    def lhs_dims(self):
        return ("b" if "l" in self.batch else "") + ("km" if self.transpose_lhs else "mk")

    def rhs_dims(self):
        return ("b" if "r" in self.batch else "") + ("nk" if self.transpose_rhs else "kn")

    def out_dims(self):
        return ("b" if self.batch else "") + "mn"

    def extra_dims(self, dims):
        """Dimensions of an operand of the epilogue."""
        return ("b" if self.batch and dims == "mn" else "") + dims

    def extras(self):
        return [(name, self.extra_dims(dims), self.dtype if dtype == "in" else dtype)
                for name, dims, dtype in EPILOGUES[self.epilogue]]

    def arguments(self):
        """Name, dimensions and element type of each argument."""
        return [("lhs", self.lhs_dims(), self.dtype), ("rhs", self.rhs_dims(), self.rhs_dtype), *self.extras(),
                ("out", self.out_dims(), self.out)]

    def tensor(self, dims, dtype):
        static = dict(zip("mnk", self.sizes))
        return "tensor<" + "".join(f"{static.get(d) or '?'}x" for d in dims) + dtype + ">"

    def module(self):
        """The function @matmul, which writes its last argument."""
        loops = self.out_dims() + "k"

        def affine(dims, loops):
            return f"affine_map<({', '.join(loops)}) -> ({', '.join(dims)})>"

        # Products that are rounded before something follows have their own type.
        sum_type = {"none": self.out, "bias_rounded": self.dtype}.get(self.epilogue, "f32")
        sums, out = self.tensor(self.out_dims(), sum_type), self.tensor(self.out_dims(), self.out)
        inputs = [("%lhs", self.lhs_dims(), self.dtype), ("%rhs", self.rhs_dims(), self.rhs_dtype)]
        if self.swapped:
            inputs.reverse()
        types = ", ".join(self.tensor(*kind) for _, *kind in inputs)
        maps = ", ".join(affine(dims, loops) for dims in (inputs[0][1], inputs[1][1], self.out_dims()))
        kinds = ", ".join(['"parallel"'] * len(self.out_dims()) + ['"reduction"'])
        arguments = ", ".join(f"%{name}: {self.tensor(dims, dtype)}" for name, dims, dtype in self.arguments())
        sizes = "\n".join(f"  %c{i} = arith.constant {i} : index\n  %d{i} = tensor.dim %out, %c{i} : {out}"
                          for i in range(len(self.out_dims())))
        dynamic = ", ".join(f"%d{i}" for i, d in enumerate(self.out_dims())
                            if not dict(zip("mnk", self.sizes)).get(d))
        widen = self.dtype != sum_type
        body = f"""    ^bb0(%x: {inputs[0][2]}, %y: {inputs[1][2]}, %s: {sum_type}):
"""
        if widen:
            body += f"""      %xw = arith.extf %x : {inputs[0][2]} to {sum_type}
      %yw = arith.extf %y : {inputs[1][2]} to {sum_type}
"""
        x, y = ("%xw", "%yw") if widen else ("%x", "%y")
        body += f"""      %p = arith.mulf {x}, {y} : {sum_type}
      %t = arith.addf %s, %p : {sum_type}
      linalg.yield %t : {sum_type}"""
        text = f"""func.func @matmul({arguments}) -> {out} {{
{sizes}
  %zero = arith.constant 0.0 : {sum_type}
  %empty = tensor.empty({dynamic}) : {sums}
  %zeros = linalg.fill ins(%zero : {sum_type}) outs(%empty : {sums}) -> {sums}
  %sums = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}
      ins({inputs[0][0]}, {inputs[1][0]} : {types})
      outs({'%init' if self.epilogue == 'accumulate' else '%zeros'} : {sums}) {{
{body}
  }} -> {sums}
"""
        if self.epilogue in ("none", "accumulate") and sum_type == self.out:
            return text + f"""  %copied = linalg.copy ins(%sums : {out}) outs(%out : {out}) -> {out}
  return %copied : {out}
}}
"""
        extras = [e for e in self.extras() if e[0] != "init"]
        follow = {
            "accumulate": [],
            "bias": ["%1 = arith.addf %s, %bias_e : f32"],
            "bias_rounded": [f"%1 = arith.addf %s, %bias_e : {self.dtype}"],
            "rows_residual": ["%0 = arith.mulf %s, %factor_e : f32",
                              f"%r = arith.extf %residual_e : {self.dtype} to f32" if self.dtype != "f32" else "",
                              f"%1 = arith.addf %0, {'%r' if self.dtype != 'f32' else '%residual_e'} : f32"],
        }[self.epilogue]
        result = "%1" if follow else "%s"
        if sum_type != self.out:
            follow.append(f"%2 = arith.{'truncf' if sum_type == 'f32' else 'extf'} {result} : {sum_type} to {self.out}")
            result = "%2"
        maps = ", ".join(affine(dims, self.out_dims())
                         for dims in (self.out_dims(), *(dims for _, dims, _ in extras), self.out_dims()))
        kinds = ", ".join(['"parallel"'] * len(self.out_dims()))
        operands = "".join(f", %{name}" for name, _, _ in extras)
        types = "".join(f", {self.tensor(dims, dtype)}" for _, dims, dtype in extras)
        elements = "".join(f", %{name}_e: {dtype}" for name, _, dtype in extras)
        lines = "\n".join(f"      {line}" for line in follow if line)
        return text + f"""  %result = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}
      ins(%sums{operands} : {sums}{types}) outs(%out : {out}) {{
    ^bb0(%s: {sum_type}{elements}, %o: {self.out}):
{lines}
      linalg.yield {result} : {self.out}
  }} -> {out}
  return %result : {out}
}}
"""

    def reference(self, arrays, einsum, product_error=2.0**-22):
        """What the output should hold, from arrays in f64, and the largest error that is allowed for each element:
        of an accumulation in f32, relative to the accumulated magnitudes, and of each rounding."""
        unit = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-24}
        letters = f"{self.lhs_dims()},{self.rhs_dims()}->{self.out_dims()}"
        result = einsum(letters, arrays["lhs"], arrays["rhs"])
        error = einsum(letters, abs(arrays["lhs"]), abs(arrays["rhs"])) * product_error
        if self.epilogue == "bias":
            result = result + arrays["bias"]
        elif self.epilogue == "bias_rounded":
            error = error + abs(result) * unit[self.dtype]
            result = result + arrays["bias"]
        elif self.epilogue == "rows_residual":
            error = error * abs(arrays["factor"][:, None])
            result = result * arrays["factor"][:, None]
            error = error + (abs(result) + abs(arrays["residual"])) * 2.0**-23
            result = result + arrays["residual"]
        elif self.epilogue == "accumulate":
            error = error + abs(arrays["init"]) * 2.0**-23
            result = result + arrays["init"]
        return result, error + abs(result) * (unit[self.out] + 2.0**-23)

    def shape(self, dims, sizes):
        """Sizes of an operand for `sizes`, a dictionary of b, m, n and k."""
        return tuple(sizes[d] for d in dims)


# Heads of masks, a number that is known.
MASK_HEADS = 4


class MatmulConcurrentWithMask(Matmul):
    """A matmul, with or without a bias, whose kernel also generates dropout keep masks."""

    def __init__(self, dropout, layout="rows", first_head=0, schedule="", **options):
        super().__init__(**options)
        self.dropout, self.layout, self.first_head, self.schedule = dropout, layout, first_head, schedule

    def __str__(self):
        name = f"{super().__str__()}_beside_{self.dropout.generator}{self.dropout.threshold}_{self.layout}{self.first_head}"
        return name + ("_scheduled" if self.schedule else "")

    def module(self):
        """The function @matmul, which writes its last two arguments, and @mask, which writes its last one."""
        words, state = f"tensor<?x{MASK_HEADS}x?x?xi32>", "%seed: tensor<i64>, %offset: tensor<i64>"
        types = {name: self.tensor(dims, dtype) for name, dims, dtype in self.arguments()}
        arguments = ", ".join(f"%{name}: {types[name]}" for name in types)
        forms = "".join(f" transpose_{side}" for side in ("lhs", "rhs") if getattr(self, "transpose_" + side))
        schedule = f" schedule({self.schedule})" if self.schedule else ""
        epilogue = "" if self.epilogue == "none" else f""" epilogue {{
    ^bb0(%s: f32, %b: index, %i: index, %j: index):
      %x = tensor.extract %bias[%j] : {types["bias"]}
      %t = arith.addf %s, %x : f32
      attn.yield %t : f32
    }}"""
        first_head = f" from_head({self.first_head})" if self.first_head else ""
        mask = f"""attn.dropout_mask {self.layout} by({self.dropout}, %seed, %offset : tensor<i64>, tensor<i64>)
        outs(%mask : {words}){first_head} -> {words}"""
        return f"""func.func @matmul({arguments}, {state}, %mask: {words}) -> ({types["out"]}, {words}) {{
  %0:2 = attn.overlap by fused {{
    %r = attn.matmul ins(%lhs, %rhs : {types["lhs"]}, {types["rhs"]}) outs(%out : {types["out"]})
        {forms}{schedule}{epilogue} -> {types["out"]}
    attn.overlap_yield %r : {types["out"]}
  }} and {{
    %r = {mask}
    attn.overlap_yield %r : {words}
  }} -> ({types["out"]}, {words})
  return %0#0, %0#1 : {types["out"]}, {words}
}}
func.func @mask({state}, %mask: {words}) -> {words} {{
  %r = {mask}
  return %r : {words}
}}
"""


VARIANTS = [
    Matmul("bf16"),
    Matmul("bf16", transpose_rhs=True),
    Matmul("bf16", transpose_lhs=True),
    Matmul("bf16", transpose_lhs=True, transpose_rhs=True),
    Matmul("f16", out="f32", transpose_rhs=True),
    Matmul("bf16", transpose_rhs=True, epilogue="bias"),
    Matmul("bf16", transpose_rhs=True, epilogue="bias_rounded"),
    Matmul("f16", epilogue="rows_residual"),
    Matmul("bf16", out="f32", epilogue="accumulate"),
    Matmul("bf16", epilogue="accumulate"),
    Matmul("bf16", batch="lr"),
    Matmul("bf16", batch="l", transpose_rhs=True, epilogue="bias"),
    Matmul("f16", batch="r", transpose_rhs=True, epilogue="rows_residual"),
    Matmul("bf16", swapped=True),
    Matmul("bf16", sizes=(None, 96, 80), transpose_rhs=True, epilogue="bias"),
    Matmul("bf16", sizes=(None, 64, 64)),
    Matmul("f32"),
    Matmul("f32", transpose_rhs=True, epilogue="bias"),
    Matmul("f32", transpose_lhs=True, out="bf16", epilogue="rows_residual"),
    Matmul("f32", batch="lr", transpose_lhs=True, transpose_rhs=True, epilogue="accumulate"),
]

# Of 8 bits, in the layout that GPUs multiply. Tensor cores accumulate them with fewer bits than f32.
FLOAT8_VARIANTS = [
    Matmul("f8E4M3FN", out="bf16", transpose_rhs=True),
    Matmul("f8E4M3FN", out="f32", transpose_rhs=True, epilogue="bias"),
    Matmul("f8E4M3FN", out="f32", transpose_rhs=True, epilogue="accumulate"),
    Matmul("f8E4M3FN", out="f16", transpose_rhs=True, batch="lr"),
    Matmul("f8E4M3FN", out="bf16", transpose_rhs=True, sizes=(None, 96, 80)),
    Matmul("f8E5M2", out="bf16", transpose_rhs=True),
    Matmul("f8E4M3FN", out="f32", transpose_rhs=True, epilogue="bias", rhs_dtype="f8E5M2"),
    Matmul("f8E5M2", out="bf16", transpose_rhs=True, batch="lr", rhs_dtype="f8E4M3FN"),
    Matmul("f8E5M2", out="f32", transpose_rhs=True, swapped=True, rhs_dtype="f8E4M3FN"),
]

# b, m, n and k, of which all but m are multiples of what GPUs copy at once.
SHAPES = [
    dict(b=2, m=256, n=512, k=128),
    dict(b=3, m=130, n=264, k=72),
    dict(b=1, m=1, n=8, k=8),
    dict(b=2, m=200, n=1000, k=264),
    dict(b=2, m=64, n=40, k=512),
]

# Column tiles of 256, 128 and 64; two are the compiler's choices.
MASK_VARIANTS = [
    MatmulConcurrentWithMask(Dropout(0.125, "arx", 6), dtype="bf16", transpose_rhs=True),
    MatmulConcurrentWithMask(Dropout(0.1, "philox", 7), dtype="bf16", transpose_rhs=True, epilogue="bias"),
    MatmulConcurrentWithMask(Dropout(0.5, "philox", 10), "columns", 3, dtype="f16", out="f32"),
    MatmulConcurrentWithMask(Dropout(0.1, "arx", 6), "columns", dtype="bf16", batch="lr", sizes=(None, 64, None)),
    MatmulConcurrentWithMask(Dropout(0.25, "threefry", 12), "rows", 1, dtype="bf16", transpose_rhs=True,
                     schedule="#attn_tile.matmul_warp_specialized<row_tile = 192, column_tile = 128, depth_tile = 64, "
                     "stages = 3, consumers = 3, interleave = 4>"),
    MatmulConcurrentWithMask(Dropout(0.125, "arx", 5), dtype="bf16",
                     schedule="#attn_tile.matmul_warp_specialized<row_tile = 64, column_tile = 256, depth_tile = 64, "
                     "stages = 4, consumers = 1>"),
]

# Sizes of keep masks: batch, heads, words of queries and of keys. The first one is little work compared with most
# matmuls, the last one more than any of `SHAPES`.
MASK_SHAPES = [(1, MASK_HEADS, 32, 4), (2, MASK_HEADS, 96, 12), (1, MASK_HEADS, 512, 128)]
