"""Prints a function that applies a math function `count` times: chain.py OPERATION TYPE COUNT [gpu]."""

import sys

operation, type, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
is_gpu = "gpu" in sys.argv[4:]
func = "llvm" if is_gpu else "func"
lines = [f"  %x{i + 1} = math.{operation} %x{i} : {type}" for i in range(count)]
if is_gpu:
    print("gpu.module @kernels {")
print(f"{func}.func @f(%x0: {type}) -> {type} {{")
print("  %y = math.exp2 %x0 : " + type, *lines, sep="\n")
print(f"  %z = arith.addf %y, %x{count} : {type}\n  {func}.return %z : {type}\n}}")
if is_gpu:
    print("}")
