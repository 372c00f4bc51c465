"""Prints attention with a mask or a score_mod of `size` parts."""

import sys

kind, size = sys.argv[1], int(sys.argv[2])
length = sys.argv[3] if len(sys.argv) > 3 else "?"
tensor = f"tensor<1x4x{length}x64xf16>"
change = ""
if kind == "alternating":
    mask = "#attn.sliding_window<left = 4, right = 4>"
    for i in range(size):
        mask = f"#attn.not<#attn.and<{mask}, #attn.sliding_window<left = {5 + i}, right = {5 + i}>>>"
    change = f"mask({mask})"
else:
    lines = [f"  %x{i + 1} = arith.{'addf' if i % 2 else 'mulf'} %x{i}, %c : f32" for i in range(size - 1)]
    change = "\n".join(
        [
            "score_mod {",
            "^bb0(%x0: f32, %b: index, %h: index, %i: index, %j: index):",
            "  %c = arith.constant 1.5 : f32",
            *lines,
            f"  attn.yield %x{size - 1} : f32",
            "}",
        ]
    )
print(
    f"""func.func @large(%q: {tensor}, %out: {tensor}) -> {tensor} {{
%0 = attn.attention ins(%q, %q, %q : {tensor}, {tensor}, {tensor}) outs(%out : {tensor}) {change} -> {tensor}
return %0 : {tensor}
}}"""
)
