# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Further arguments of fla-core: results against the same call with operands in the form that kernels take."""

import pytest

torch = pytest.importorskip("torch")

import attn.torch as at  # noqa: E402
from attn.errors import AttnError, UnsupportedError  # noqa: E402

HEADS, TOKENS, KEY_DIM, VALUE_DIM = 2, 20, 16, 24


def make(decay=4, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    rows = (1, TOKENS, HEADS)
    return dict(
        q=normal(*rows, KEY_DIM), k=normal(*rows, KEY_DIM) / 4, v=normal(*rows, VALUE_DIM),
        g=normal(*rows, KEY_DIM)[..., 0] if decay == 3 else normal(*rows, KEY_DIM), beta=normal(*rows),
    )  # fmt: skip


def run(given, **options):
    return at.gated_delta_rule(**given, **options, output_final_state=True)


def check(results, wanted):
    for result, exact in zip(results, wanted):
        torch.testing.assert_close(result, exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("factor", [1, 2])
def test_sigmoid_of_beta(factor):
    given = {**make(), "g": None}
    named = dict(use_beta_sigmoid_in_kernel=True, allow_neg_eigval=factor == 2)
    beta = factor / (1 + (-given["beta"]).exp())
    check(run(given, **named), run({**given, "beta": beta}))


@pytest.mark.parametrize("decay", [3, 4])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("lower_bound", [None, -5.0])
def test_gates(decay, has_bias, lower_bound):
    given = make(decay)
    given["beta"] = given["beta"].sigmoid()
    shape = (HEADS,) if decay == 3 else (HEADS, KEY_DIM)
    slopes, bias = torch.tensor([-0.5, 0.25]), torch.linspace(-1, 1, torch.Size(shape).numel())
    named = dict(use_gate_in_kernel=True, A_log=slopes, lower_bound=lower_bound, safe_gate=lower_bound is not None)
    raw = given["g"].double()
    if has_bias:
        named["dt_bias"] = bias
        raw = raw + bias.double().reshape(shape)
    factors = slopes.double().exp()
    factors = factors if decay == 3 else factors[:, None]
    gate = -factors * (1 + raw.exp()).log() if lower_bound is None else lower_bound / (1 + (-factors * raw).exp())
    check(run(given, **named), run({**given, "g": gate.float()}))


def test_gates_without_slopes():
    given = make()
    given["beta"] = given["beta"].sigmoid()
    gate = -2 / (1 + (-given["g"]).exp())
    check(run(given, use_gate_in_kernel=True, lower_bound=-2.0), run({**given, "g": gate}))


def test_gradients_of_gates():
    given = make(3)
    leaves = {name: given[name].requires_grad_() for name in ("g", "beta")}
    leaves["slopes"] = torch.tensor([-0.5, 0.25], requires_grad=True)
    named = dict(use_gate_in_kernel=True, A_log=leaves["slopes"], use_beta_sigmoid_in_kernel=True)
    made = torch.autograd.grad(run(given, **named)[0].sum(), list(leaves.values()))
    gate = -leaves["slopes"].exp() * (1 + given["g"].exp()).log()
    wanted = run({**given, "g": gate, "beta": 1 / (1 + (-given["beta"]).exp())})[0].sum()
    check(made, torch.autograd.grad(wanted, list(leaves.values())))


@pytest.mark.parametrize("name", ["state_v_first", "transpose_state_layout"])
def test_layout_of_states(name):
    given = make(3)
    given["g"], given["beta"] = -given["g"].abs(), given["beta"].sigmoid()
    bounds = torch.tensor([0, 5, TOKENS])
    state = torch.randn(2, HEADS, KEY_DIM, VALUE_DIM, generator=torch.Generator().manual_seed(1))
    out, last = run(given, initial_state=state, cu_seqlens=bounds)
    named = {name: True, "cu_seqlens_cpu": bounds}
    result = run(given, initial_state=state.transpose(-1, -2), cu_seqlens=bounds, **named)
    assert torch.equal(result[0], out) and torch.equal(result[1], last.transpose(-1, -2))


def test_names_of_log_decays():
    given = make()
    given["g"], given["beta"] = -given["g"].abs(), given["beta"].sigmoid()
    decay = given["g"]
    check(run({**given, "g": None}, gk=decay), run(given))


@pytest.mark.parametrize(
    "name, value",
    [
        ("chunk_indices", torch.zeros(1, 2)), ("safe_gate", True), ("disable_recompute", True), ("max_num_seqs", 3),
        ("reverse", False), ("gv", None), ("output_attentions", False), ("use_graph", False), ("cp_context", None),
        ("reverse", 0),
    ],
)  # fmt: skip
def test_arguments_without_effect(name, value):
    given = {**make(), "g": None}
    for one, other in zip(run(given, **{name: value}), run(given)):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    "named, message",
    [
        (dict(reverse=True), r"reverse is not supported: call .flip\(1\) on q, k, v, g, beta and the output"),
        (dict(gv=torch.zeros(1)), "gv is not supported: the elements of values have no decays of their own"),
        (dict(output_attentions=True), "output_attentions is not supported: scores are not kept"),
        (dict(return_intermediate_states=True), "return_intermediate_states is not supported: only the last state"),
        (dict(cp_context=object()), "cp_context is not supported: call attn.torch.context_parallel"),
        (dict(use_graph=True), "use_graph is not supported: graphs of CUDA capture calls as they are"),
        (dict(layer_idx=0, num_layers=2), "layer_idx is not supported: pass the log-decays of heads as g_gamma"),
        (
            dict(state_v_first=True, inplace_final_state=True),
            "state_v_first is not supported with inplace_final_state, which writes states as they are",
        ),
    ],
)
def test_refused_arguments(named, message):
    for function in (at.linear_attention, at.gated_delta_rule):
        with pytest.raises(UnsupportedError, match=message):
            function(**make(), **named)


@pytest.mark.parametrize(
    "named, message",
    [
        (dict(allow_neg_eigval=True), "allow_neg_eigval needs use_beta_sigmoid_in_kernel=True"),
        (dict(A_log=torch.zeros(2)), "A_log needs use_gate_in_kernel=True"),
        (dict(use_gate_in_kernel=True), "use_gate_in_kernel needs A_log or lower_bound"),
        (dict(use_gate_in_kernel=True, A_log=torch.zeros(3)), r"A_log has the shape \(3,\), expected \(2,\)"),
        (
            dict(use_gate_in_kernel=True, A_log=torch.zeros(2), dt_bias=torch.zeros(2)),
            r"dt_bias has the shape \(2,\), expected \(32,\)",
        ),
        (
            dict(use_gate_in_kernel=True, A_log=torch.zeros(2), safe_gate=True),
            "safe_gate with use_gate_in_kernel needs lower_bound",
        ),
        (dict(g=None, use_gate_in_kernel=True, lower_bound=-1.0), "use_gate_in_kernel needs g with .*; g is None"),
        (dict(use_gate_in_kernel=True, A_log=[1.0, 2.0]), "A_log is a list; pass a tensor of torch"),
        (
            dict(use_gate_in_kernel=True, A_log=torch.zeros(2), dt_bias=[0.0] * 32),
            "dt_bias is a list; pass a tensor of torch",
        ),
        (
            dict(state_v_first=True, initial_state=torch.zeros(3)),
            r"initial_state has the shape \(3,\), expected \(states, heads, value head dim, key head dim\)",
        ),
        (dict(state_v_first=True, initial_state=[0.0]), "initial_state is a list; pass a tensor of torch"),
        (dict(cu_seqlens_cpu=torch.tensor([0, 20])), "cu_seqlens_cpu needs cu_seqlens, whose copy it is"),
    ],
)
def test_wrong_combinations(named, message):
    with pytest.raises(AttnError, match=message):
        at.gated_delta_rule(**{**make(), **named})


def test_beta_is_needed():
    given = {name: x for name, x in make().items() if name not in ("g", "beta")}
    with pytest.raises(AttnError, match="use_beta_sigmoid_in_kernel needs beta"):
        at.linear_attention(**given, use_beta_sigmoid_in_kernel=True)


def test_unknown_names():
    for function in (at.linear_attention, at.gated_delta_rule):
        with pytest.raises(TypeError, match=rf"{function.__name__}\(\) got an unexpected keyword argument 'sacle'"):
            function(**make(), sacle=1.0)


def test_in_a_graph():
    given = make(3)

    @torch.compile(fullgraph=True)
    def function(q, k, v, g, beta, slopes):
        return at.gated_delta_rule(
            q, k, v, g, beta, A_log=slopes, use_gate_in_kernel=True, use_beta_sigmoid_in_kernel=True,
            state_v_first=True, output_final_state=True,
        )  # fmt: skip

    slopes = torch.tensor([-0.5, 0.25])
    named = dict(A_log=slopes, use_gate_in_kernel=True, use_beta_sigmoid_in_kernel=True, state_v_first=True)
    check(function(**given, slopes=slopes), run(given, **named))
