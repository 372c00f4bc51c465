"""Prints a module that is nested `levels` deep: of masks, regions or modules."""

import sys

kind, levels = sys.argv[1], int(sys.argv[2])
if kind == "masks":
    print("func.func private @f() attributes {m = " + "#attn.not<" * levels + "#attn.causal" + ">" * levels + "}")
elif kind == "regions":
    print("func.func @f(%c: i1) {\n" + "scf.if %c {\n" * levels + "}\n" * levels + "return }")
else:
    print("module {\n" * levels + "}\n" * levels)
