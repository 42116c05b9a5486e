"""Views that are results, and that other results are computed from: their history goes through the view.

    y = x * w                         y ──► v ──► v.sum()
    v = y[0]                          result 0: y
    return v, v.sum(), v[1]           view 0: select of result 0, view 1 (an output only): element 1 of view 0

The caller may ask for the gradient of such a view, or hook it. So it is made before what stands behind it: a node whose
cut is the view gives its gradient, and eager's own view takes it on. Other outputs that are views of it are made of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from onegraph.autograd.spec import CallSpec, Computed, Input, Output, Replayed, Strided, base_of
from onegraph.autograd.trace import Returned, view_of
from onegraph.base.errors import CompileError
from onegraph.torchlib.primals import edge_of, edges_behind


def inner_views(
    call: CallSpec, outputs: Sequence[Any], primals: Sequence[Any], results: Sequence[Tensor]
) -> dict[int, Tensor]:
    """These views, by the position of the output; those first that come first. Outputs that are None are none."""
    written = [primals[mutation.input] for mutation in call.mutations if mutation.value is not None]
    followed = [item for item in [*outputs, *written] if isinstance(item, Tensor) and not item.is_leaf]
    around = edges_behind(followed)
    found: dict[int, Tensor] = {}
    for position, (item, output) in enumerate(zip(outputs, call.outputs, strict=True)):
        if not isinstance(output, Strided | Replayed) or item is None or item.is_leaf or edge_of(item) not in around:
            continue
        base = base_of(output)
        if isinstance(base, Input) and any(primals[base.index] is value for value in written):
            raise CompileError("joint graph", "a result is computed from a view of the value that an input gets")
        if all(item is not other for other in found.values()):
            found[position] = item
    return dict(sorted(found.items(), key=lambda entry: depth(entry[1], found)))


def depth(view: Tensor, views: dict[int, Tensor]) -> int:
    return len({edge_of(other) for other in views.values()} & edges_behind([view]))


def viewed_through(call: CallSpec, outputs: Sequence[Any], views: dict[int, Tensor], returned: Returned) -> CallSpec:
    """The same with these views behind the results of the graph, and outputs that are views of them made of them."""
    tensors = list(views.values())
    values = [returned.recorder.value_of(tensor) for tensor in tensors]
    made: dict[int, Output] = {}
    for position, (item, output) in enumerate(zip(outputs, call.outputs, strict=True)):
        if not views or not isinstance(output, Strided | Replayed) or item.is_leaf:
            continue
        value, behind = returned.recorder.value_of(item), edges_behind([item])
        through = [n for n, v in enumerate(values) if v.family is value.family and edge_of(v.tensor) in behind]
        if through:
            made[position] = view_of(value, values[through[-1]], Computed(through[-1]), returned)
    first = len(returned.nodes)  # all numbers are among them now
    made = {position: shifted(output, first) for position, output in made.items()}
    whole = {id(tensor): Computed(first + n) for n, tensor in enumerate(tensors)}
    outputs_then = [
        whole.get(id(item)) or made.get(position, output)
        for position, (item, output) in enumerate(zip(outputs, call.outputs, strict=True))
    ]
    return replace(
        call,
        outputs=tuple(outputs_then),
        views=tuple((position, made.get(position, call.outputs[position])) for position in views),
    )


def shifted(output: Output, count: int) -> Output:
    """A view of a result that stands so many places further behind."""
    match output:
        case Strided(base) | Replayed(base):
            return replace(output, base=shifted(base, count))  # type: ignore[arg-type]  # of the same kind
        case Computed(index):
            return Computed(index + count)
    return output
