"""Prints an attention whose score_mod region needs VALUES values at the same time: long_region.py VALUES ADDITIONS.

The region has 2 VALUES + ADDITIONS + 1 operations.
"""

import sys

values, additions = map(int, sys.argv[1:])
t = "tensor<1x2x256x64xf32>"
print(f"func.func @f(%q: {t}, %o: {t}) -> {t} {{")
print(f"  %0 = attn.attention ins(%q, %q, %q : {t}, {t}, {t}) outs(%o : {t}) score_mod {{")
print("  ^bb0(%x0: f32, %b: index, %h: index, %i: index, %j: index):")
for i in range(1, values):
    print(f"    %x{i} = math.tanh %x{i - 1} : f32")
print("    %y0 = arith.constant 0.0 : f32")
for i in range(values + additions):
    print(f"    %y{i + 1} = arith.addf %y{i}, %x{min(i, values - 1)} : f32")
print(f"    attn.yield %y{values + additions} : f32\n  }} -> {t}\n  return %0 : {t}\n}}")
