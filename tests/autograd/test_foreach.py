"""Operators over lists of tensors are those over each tensor, in all forms that torch has."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import onegraph
from onegraph.torchlib.foreach import single_form
from tests.autograd.test_optimizers import Seen

aten = torch.ops.aten
FORMS = [
    getattr(getattr(aten, schema.name.removeprefix("aten::")), schema.overload_name or "default")
    for schema in torch._C._jit_get_all_schemas()
    if schema.name.startswith("aten::_foreach_") and not any(argument.is_out for argument in schema.arguments)
]
#: The functional forms of operators that only write are not for programs to call.
FORMS = [op for op in FORMS if op._schema.name not in ("aten::_foreach_copy", "aten::_foreach_zero")]
SHAPES = ((3, 3), (3, 3), (3, 3))


def tensors(seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.rand(shape, generator=generator) * 0.8 + 0.1 for shape in SHAPES]


def arguments(op: Any) -> list[Any]:
    found: list[Any] = []
    for number, argument in enumerate(op._schema.arguments):
        kind = str(argument.type)
        if kind == "List[Tensor]":
            found.append(tensors(number))
        elif kind == "List[number]":
            found.append([0.5, 1.5, 2.0])
        elif kind == "number":
            found.append(2.0)
        elif kind == "Tensor":
            found.append(torch.tensor([0.5, 1.5, 2.0]) if argument.name == "scalars" else torch.tensor(1.5))
        else:
            break
    return found


@pytest.mark.parametrize("op", FORMS, ids=str)
def test_each_form(op: Any) -> None:
    count = sum(not argument.kwarg_only for argument in op._schema.arguments)

    def run(*given: Any) -> Any:
        return op(*given), given[0]

    given = arguments(op)[:count]
    theirs = run(*arguments(op)[:count])
    ours = onegraph.compile(run, backend="aot_eager")(*given)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
    assert single_form(op) is not None or op is aten._foreach_powsum.Scalar


def test_kernels_are_made_of_them() -> None:
    def run(xs: list[torch.Tensor], ys: list[torch.Tensor]) -> Any:
        torch._foreach_lerp_(xs, ys, 0.3)
        torch._foreach_addcdiv_(xs, ys, torch._foreach_sqrt(ys), [0.5, 1.5, 2.0])
        return xs

    with Seen() as seen:
        ours = onegraph.compile(run, fullgraph=True)(tensors(0), tensors(1))
    torch.testing.assert_close(ours, run(tensors(0), tensors(1)), rtol=1e-6, atol=1e-6)
    assert not seen.fallbacks


def test_lists_of_two_lengths_are_refused_as_in_eager() -> None:
    def run(xs: list[torch.Tensor], ys: list[torch.Tensor]) -> Any:
        return torch._foreach_add(xs, ys)

    with pytest.raises(RuntimeError) as theirs:
        run(tensors(0), tensors(1)[:2])
    with pytest.raises(RuntimeError) as ours:
        onegraph.compile(run)(tensors(0), tensors(1)[:2])
    assert str(ours.value) == str(theirs.value)
