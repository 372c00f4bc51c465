# ===- linear_attention_forms.py - Features, normalizers and masks ----------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Linear attention with feature maps, normalizers and masks on the host, and its gradients, against NumPy in f64: the
# recurrence of shard-linear-attention.py, over all tokens on one process. Inputs are ordinary and extreme: zeros,
# subnormal and large numbers, log-decays from 0 to minus infinity, no keys at all, and no or one token.
#
# ===----------------------------------------------------------------------===#
# REQUIRES: host-cc, numpy
# RUN: %python %s --work %t --runtime %attn_libs_dir/libattn_runtime%shlibext

import argparse
import ctypes
import importlib.util
import os
import sys
from functools import partial

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
SPEC = importlib.util.spec_from_file_location("shard_linear", os.path.join(HERE, "shard-linear-attention.py"))
linear = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(linear)
FORWARD, COMBINED, FormCase, shard = linear.FORWARD, linear.COMBINED, linear.FormCase, linear.shard

LENGTHS, SEQUENCES = [0, 1, 17, 31, 32, 67, 100, -3], [0, 20, 20, 21, 64, 67]
TOKENS = 67
#: Log-decays of all tokens.
DECAYS = [0.0, -1e-30, -1.0, -126.0, -1e4, -np.inf]


def multiply(factor, given):
    """Multiplies queries, keys and values."""
    for name in ("q", "k", "v"):
        given[name] = (given[name] * np.float32(factor)).astype(np.float32)


def set_decays(value, given):
    """Makes all log-decays that are numbers the same."""
    given["g"] = np.where(np.isnan(given["g"]), given["g"], np.float32(value))


#: Changes of inputs by name.
CHANGES = {
    "": lambda given: None,
    "zeros": partial(multiply, 0),
    "subnormal": partial(multiply, 1e-40),
    "large": partial(multiply, 1e3),
    **{f"decays {value}": partial(set_decays, value) for value in DECAYS},
}


class Inputs(linear.FormInputs):
    """Inputs that a change makes extreme."""

    def __init__(self, case, kind, seed, change):
        self.change = change
        super().__init__(case, kind, seed)

    def prepare(self):
        super().prepare()
        self.change(self.given)


def make(name, *arguments, **options):
    return FormCase(name, *arguments, **{"tokens": TOKENS, **options})


CASES = [
    *(make(f"{feature}_{'normalizer' if normalizer else 'alone'}", feature, normalizer=normalizer)
      for feature in ("exp", "elu", "relu", "softmax", "projected") for normalizer in (False, True)),
    *(make(f"normalizer_{decay or 'plain'}", "elu", normalizer=True, decay=decay, initial=True, final=True)
      for decay in (None, "head", "token", "element")),
    make("full", "softmax", normalizer=True, causal=False, initial=True, final=True, key_heads=1),
    make("bf16", "elu", normalizer=True, dtype="bf16", kinds=(FORWARD,)),
    make("f16", "softmax", normalizer=True, dtype="f16", decay="token", kinds=(FORWARD,)),
    *(make(f"lengths_{decay or 'plain'}", "elu", normalizer=True, lengths=LENGTHS, decay=decay, final=True)
      for decay in (None, "head", "token", "element")),
    make("lengths_full", "exp", lengths=LENGTHS, causal=False, normalizer=True, final=True),
    make("lengths_none", "elu", lengths=[0, -1], decay="token", normalizer=True, initial=True, final=True),
    make("lengths_delta", lengths=LENGTHS, decay="token", beta=True, final=True),
    *(make(f"sequences_{decay or 'plain'}", "elu", normalizer=True, sequences=SEQUENCES, decay=decay)
      for decay in (None, "head", "token", "element")),
    make("sequences_delta", sequences=SEQUENCES, decay="token", beta=True),
    *(make(f"blocks_{block}", "elu", normalizer=True, block=block, decay="token") for block in (1, 16, 33, 100)),
    make("blocks_full", "softmax", normalizer=True, block=16, causal=False, lengths=LENGTHS),
    make("blocks_delta", block=16, beta=True, decay="head"),
    *(make(f"{name}_{tokens}", "elu", normalizer=True, tokens=tokens, dynamic=tokens == 0, **options)
      for tokens in (0, 1)
      for name, options in (("token", {"decay": "head", "initial": True, "final": True}),
                            ("token_full", {"causal": False, "initial": True, "final": True}),
                            ("token_lengths", {"lengths": [0, 1, 5], "decay": "element"}),
                            ("token_sequences", {"sequences": [0, 0, tokens]}),
                            ("token_blocks", {"block": 4, "decay": "head"}))),
]  # fmt: skip

#: Cases by the changes of their inputs, and if gradients are compared, too: relu has none at 0.
EXTREMES = [
    (make("extreme_elu", "elu", normalizer=True, decay="token", final=True), ("zeros", "subnormal", "large"), True),
    (make("extreme_relu", "relu", normalizer=True), ("zeros", "subnormal"), False),
    (make("extreme_softmax", "softmax", normalizer=True, causal=False), ("zeros", "subnormal", "large"), True),
    (make("extreme_exp", "exp", normalizer=True, lengths=LENGTHS), ("zeros", "subnormal"), True),
    *((make(f"extreme_{decay}", "elu", normalizer=True, decay=decay, initial=True, final=True), DECAY_NAMES, True)
      for decay in ("head", "token", "element") for DECAY_NAMES in [[f"decays {value}" for value in DECAYS]]),
    (make("extreme_sequences", sequences=SEQUENCES, decay="token"), [f"decays {value}" for value in DECAYS], True),
    (make("extreme_lengths", lengths=LENGTHS, decay="element"), [f"decays {value}" for value in DECAYS], True),
]  # fmt: skip


class Tester:
    def __init__(self, options):
        self.work, self.runtime = options.work, ctypes.CDLL(os.path.abspath(options.runtime))
        self.functions, self.path = {}, os.path.abspath(options.runtime)

    def find(self, case, kind):
        """The compiled function."""
        name = f"{case.name}_{kind}"
        if name not in self.functions:
            path = os.path.join(self.work, name)
            # A pass for ranks, without it.
            passes = [one for one in linear.Case.passes(case, kind, 1) if "shard" not in one]
            shard.Tester.compile_file(path, case.mlir(kind), passes)
            self.functions[name] = shard.Artifact(path + ".so", self.path)[linear.NAMES[kind]]
        return self.functions[name]

    def check(self, case, kind, change):
        inputs, wrong = Inputs(case, kind, 1, CHANGES[change]), []
        arguments, results = inputs.arguments(0, 1)
        status, text = shard.call(self.find(case, kind), arguments)
        if status:
            return [text]
        for name, result in results.items():
            found = result if case.element(name) == "f32" else case.storage.load(result)
            expected = inputs.expected[name]
            if not expected.size:
                continue
            error = np.abs(found - expected).max() / max(1, np.abs(expected).max())
            if not error <= case.tolerance:
                wrong.append(f"{name}: error {error:.2g}")
        return wrong


def make_checks(tester):
    for case in CASES:
        for kind in case.kinds:
            yield f"{case.name} {kind}", partial(tester.check, case, kind, "")
    for case, changes, has_gradients in EXTREMES:
        for kind in (FORWARD, COMBINED)[: 1 + has_gradients]:
            for change in changes:
                yield f"{case.name} {kind} {change}", partial(tester.check, case, kind, change)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True, help="folder for what is compiled")
    parser.add_argument("--runtime", required=True, help="the runtime library")
    parser.add_argument("--only", default="", help="run checks whose name contains this")
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)
    failures = count = 0
    for name, check in make_checks(Tester(options)):
        if options.only not in name:
            continue
        wrong, count = check(), count + 1
        failures += bool(wrong)
        for message in wrong:
            print(f"{name}: {message}", flush=True)
    print(f"{count} checks, {failures} failures")
    return failures != 0 or count == 0


if __name__ == "__main__":
    sys.exit(main())
