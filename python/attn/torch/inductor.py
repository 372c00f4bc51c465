# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators in code that Inductor generates.

Inductor calls operators by torch's dispatcher, which takes longer than the rest of a call if the operator is in Python.
Here its code calls a Python function that does the same work: an attribute of the operator, so that generated code
needs no import and can be kept in Inductor's cache.
"""

import logging
import sys
from typing import Any, Callable, Set

import torch

_logger = logging.getLogger(__name__)
#: Operators that Inductor lowers by the functions below.
_lowered: Set[torch._ops.OpOverload] = set()
_ATTRIBUTE = "run_in_graph"


def call_directly(operator: torch._ops.OpOverload, run: Callable) -> None:
    """Lets code of Inductor call ``run``, with the operator's arguments, in the place of the operator."""
    setattr(operator, _ATTRIBUTE, run)


def prepare_lowering(operator: torch._ops.OpOverload) -> None:
    """Tells Inductor of ``call_directly``, if it is loaded. Loading it takes seconds, so that the operator's fake
    function calls this: compilers of torch call that before they lower an operator."""
    if operator in _lowered or "torch._inductor.compile_fx" not in sys.modules:
        return
    _lowered.add(operator)
    try:
        _register_lowering(operator)
    except (AttributeError, ImportError, TypeError) as error:
        # Torch's own lowering is slower. These functions are private.
        _logger.info("Inductor calls %s by the dispatcher: %s", operator, error)


def _register_lowering(operator: torch._ops.OpOverload) -> None:
    from torch._inductor import ir, lowering
    from torch._inductor.virtualized import V
    from torch._library.utils import get_layout_constraint_tag

    # The constraint on strides that operators without a lowering have.
    constraint = lowering.tag_to_layout_constraint(get_layout_constraint_tag(operator, with_default=True))
    call_operator = lowering.fallback_handler(operator, add_to_fallback_set=False)

    def lower(*arguments: Any, **options: Any) -> Any:
        graph = V.graph
        first = len(graph.operations)
        results = call_operator(*arguments, **options)
        # Code in C++ calls operators by their names.
        if not graph.cpp_wrapper:
            for operation in graph.operations[first:]:
                if isinstance(operation, ir.FallbackKernel) and operation.op_overload is operator:
                    operation.python_kernel_name = f"{operation.python_kernel_name}.{_ATTRIBUTE}"
        return results

    lowering.add_needs_realized_inputs(operator)
    if constraint is not None:
        lowering.add_layout_constraint(operator, constraint)
    lowering.register_lowering(operator, type_promotion_kind=None)(lower)
