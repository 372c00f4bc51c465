"""Prints attention, or with --gradient its gradient, with a mask or a score_mod of `size` parts."""

import sys

gradient = "--gradient" in sys.argv
sys.argv = [argument for argument in sys.argv if argument != "--gradient"]
kind, size = sys.argv[1], int(sys.argv[2])
length = sys.argv[3] if len(sys.argv) > 3 else "?"
tensor = f"tensor<1x4x{length}x64xf16>"
change = ""
if kind == "alternating":
    mask = "#attn.sliding_window<left = 4, right = 4>"
    for i in range(size):
        mask = f"#attn.not<#attn.and<{mask}, #attn.sliding_window<left = {5 + i}, right = {5 + i}>>>"
    change = f"mask({mask})"
elif kind == "windows":
    # Of different sizes, so that none contains another: they end before the next one begins.
    parts = (
        f"#attn.and<#attn.sliding_window<left = {10 * i + 5}, right = 0>, "
        f"#attn.not<#attn.sliding_window<left = {10 * i + 1}, right = 0>>>"
        for i in range(size)
    )
    change = f"mask(#attn.or<{', '.join(parts)}>)"
elif kind == "nested_windows":
    parts = (f"#attn.sliding_window<left = {3 * i % size}, right = {7 * i % size}>" for i in range(size))
    change = f"mask(#attn.or<{', '.join(parts)}>)"
else:
    operations = {"tanh": ["tanh"], "math": ["tanh", "exp", "sin", "log1p", "erf"]}.get(kind)
    if operations:
        lines = [f"  %x{i + 1} = math.{operations[i % len(operations)]} %x{i} : f32" for i in range(size - 1)]
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
if gradient:
    lse = f"tensor<1x4x{length}xf32>"
    operands = f"{', '.join([tensor] * 4)}, {lse}, {tensor}"
    operation = f"attn.attention_grad ins(%q, %q, %q, %q, %lse, %q : {operands}) outs(%out, %dk, %dv"
    results, arguments = [tensor] * 3, f", %lse: {lse}, %dk: {tensor}, %dv: {tensor}"
else:
    operation = f"attn.attention ins(%q, %q, %q : {tensor}, {tensor}, {tensor}) outs(%out"
    results, arguments = [tensor], ""
types = ", ".join(results)
names = ", ".join(f"%0#{i}" for i in range(len(results)))
print(
    f"""func.func @large(%q: {tensor}, %out: {tensor}{arguments}) -> ({types}) {{
%0:{len(results)} = {operation} : {types}) {change} -> {types}
return {names} : {types}
}}"""
)
