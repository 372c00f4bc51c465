# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions of scores and masks in the graphs of ``torch.compile``.

Dynamo records ``score_mod`` and ``mask_mod`` as graphs of scalars, with the tensors and numbers that they capture as
inputs, and guards all else that they refer to. It calls a higher-order operator with these graphs. The operator traces
them as it traces Python functions, and calls ``torch.ops.attn.attention``, so that it is in no later graph.

There is no public way to teach Dynamo a higher-order operator. Where its private one differs, ``is_available`` is
False, and functions break graphs.
"""

import inspect
from typing import Any, Callable, Dict, List, Tuple

import torch
from torch import Tensor
from torch._ops import HigherOrderOperator
from torch.overrides import TorchFunctionMode

#: How many arguments functions of scores and masks have.
SCORE_ARGUMENTS, MASK_ARGUMENTS = 5, 4

_TracedAttention = Callable[..., Tuple[Tensor, Tensor]]


class _Operator(HigherOrderOperator):
    """``run(score_mod, score_captures, mask_mod, mask_captures, ...)``. A function is a graph, with the tensors and
    numbers that it takes behind its scalars, or None."""

    def __init__(self, name: str, run: Callable):
        super().__init__(name)
        self._run = run

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._run(*args, **kwargs)


class _ReadByScalars(TorchFunctionMode):
    """Reads of tensors at positions that are tensors without dimensions, which torch converts to numbers otherwise."""

    def __torch_function__(self, func: Any, types: Any, args: Tuple = (), kwargs: Any = None) -> Any:
        if func is Tensor.__getitem__:
            tensor, index = args
            indices = list(index) if isinstance(index, tuple) else [index]
            # Where slices, None and ellipses are, so that the error is the tracer's.
            if any(_is_scalar(each) for each in indices) and len(indices) <= tensor.dim():
                if all(_is_scalar(each) or isinstance(each, (int, torch.SymInt)) for each in indices):
                    # The value is never looked at.
                    return tensor.new_empty(tensor.shape[len(indices) :])
        return func(*args, **(kwargs or {}))


def _is_scalar(index: Any) -> bool:
    return isinstance(index, Tensor) and index.dim() == 0 and index.dtype != torch.bool


def bind(graph: torch.fx.GraphModule, captures: Tuple, name: str) -> Callable:
    """A graph that takes captured tensors and numbers behind its scalars, as a function of its scalars."""

    def function(*scalars: Any) -> Any:
        result = graph(*scalars, *captures)
        # Graphs return tuples; of several results, the tracer refuses the tuple.
        return result[0] if isinstance(result, (tuple, list)) and len(result) == 1 else result

    function.__name__ = name
    return function


def _register(operator: _Operator, make_class: Callable) -> bool:
    """Has Dynamo handle an operator by a class that ``make_class`` derives from its own."""
    try:
        from torch._dynamo.variables import higher_order_ops

        higher_order_ops._hop_name_to_variable_class[operator.__name__] = make_class(higher_order_ops)
    except (ImportError, AttributeError, TypeError):
        return False
    return True


def _make_attention_class(private: Any) -> type:
    from torch._dynamo.variables.base import VariableTracker
    from torch._dynamo.variables.builder import wrap_fx_proxy

    speculate, make_attr, discard_changes = (
        getattr(private, name) for name in ("speculate_subgraph", "make_attr", "discard_graph_changes")
    )
    missing = {"description", "source_target", "set_subgraph_inputs"} - inspect.signature(speculate).parameters.keys()
    if missing:
        raise TypeError(f"speculate_subgraph has no {', '.join(missing)}")

    class AttentionVariable(private.TorchHigherOrderOperatorVariable):
        """Records both functions as graphs."""

        _HOP_NAME = "attn.torch.flex_attention"

        def _call_function(self, tx: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
            score_mod, _, mask_mod, _, *others = args
            query = others[0]
            parts: List[Any] = []
            for role, function, count in (
                ("score_mod", score_mod, SCORE_ARGUMENTS),
                ("mask_mod", mask_mod, MASK_ARGUMENTS),
            ):
                parts += self._record(tx, role, function, query, count)
            proxies = [other.as_proxy() for other in others]
            proxy = tx.output.create_proxy("call_function", self.value, (*parts, *proxies), {})
            return wrap_fx_proxy(tx=tx, proxy=proxy, example_value=None)

        def _record(self, tx: Any, role: str, function: Any, query: Any, count: int) -> Tuple[Any, Tuple]:
            if function.is_python_constant() and function.as_python_constant() is None:
                return None, ()

            def make_scalar(dtype: torch.dtype, **options: Any) -> Any:
                options = {"dtype": dtype, **options}
                built = {name: VariableTracker.build(tx, value) for name, value in options.items()}
                return query.call_method(tx, "new_empty", [VariableTracker.build(tx, [])], built)

            with discard_changes(tx):
                scalars = [make_scalar(torch.int64) for _ in range(MASK_ARGUMENTS)]
                if count == SCORE_ARGUMENTS:
                    scalars = [make_scalar(torch.float32, requires_grad=query.requires_grad), *scalars]
            with _ReadByScalars():
                _, graph, captures = speculate(
                    tx,
                    function,
                    scalars,
                    {},
                    description=f"{self._HOP_NAME}: {role}",
                    source_target=self.value,
                    set_subgraph_inputs="flatten_manual",
                )
            module = torch.fx.GraphModule(tx.output.nn_modules, graph)
            return make_attr(tx, tx.output.install_subgraph(role, module)), tuple(captures)

    return AttentionVariable


def _make_inspection_class(private: Any) -> type:
    from torch._dynamo.variables.base import VariableTracker

    class InspectionVariable(private.TorchHigherOrderOperatorVariable):
        """Looks at an object while a function is compiled, and leaves nothing in the graph."""

        _HOP_NAME = "attn.torch.flex_attention"

        def _call_function(self, tx: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
            (inspected,) = args
            # Objects that the graph makes have no value yet.
            value = getattr(inspected, "value", None)
            if value is not None and getattr(inspected, "source", None) is not None:
                self.value(value)
            return VariableTracker.build(tx, None)

    return InspectionVariable


class GraphOperators:
    """The operator that ``attend`` becomes in graphs, and one that calls ``look_at`` with an object while a graph is
    recorded. ``is_available`` tells whether Dynamo takes them."""

    def __init__(self, attend: _TracedAttention, look_at: Callable[[Any], None]):
        self.attend = _Operator("attn_flex_attention", attend)
        self.inspect = _Operator("attn_inspect", look_at)
        self.is_available = _register(self.attend, _make_attention_class) and _register(
            self.inspect, _make_inspection_class
        )
