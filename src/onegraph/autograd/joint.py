"""The joint graph: what a captured graph computes, and the gradients that PyTorch's own autograd computes behind it.

    graph(x, w, tangent0):            h = x * w
      h = x * w                       result 0: h.sin()
      sin = sin(h)             from
      cos = cos(h)                    autograd.grad(result 0, (x, w), tangent0)
      g = tangent0 * cos
      return sin, g * w, g * x

The program is run on fake tensors that record gradients, and so is the backward pass behind it. Tangents stand for the
gradients of those results that autograd follows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from onegraph.autograd.functionalize import Functionalizer
from onegraph.autograd.spec import CallSpec, Computed, Detached, Input, Literal, Output, Replayed, Strided
from onegraph.autograd.trace import (
    Returned,
    close,
    convention,
    counts_with,
    fake_mode_of,
    is_laid_over,
    layout_over,
    refuse_repeated_writes,
    refuse_shared_writes,
    refuse_writes_beyond,
    run,
)
from onegraph.base.errors import CompileError
from onegraph.torchlib.aten import writes_as_library
from onegraph.torchlib.fake import FakeTensor
from onegraph.torchlib.primals import counting_saves, edge_of, edges_behind, is_plain_view, node_name, primal, tangent
from onegraph.torchlib.recorder import Rule
from onegraph.torchlib.state import GlobalState, saving_plainly, without_autocast
from onegraph.torchlib.strides import is_dense


@dataclass(frozen=True, slots=True)
class Tangent:
    """The gradient that the caller gives for a result, as it is: it stands at this place among the tangents."""

    position: int


@dataclass(frozen=True, slots=True)
class Part:
    """A view of a gradient by its layout, with numbers among the gradients; `offset` is from where the other starts."""

    base: Computed | Tangent
    size: tuple[int | Computed, ...]
    stride: tuple[int | Computed, ...]
    offset: int | Computed


Gradient = Computed | Tangent | Part | None


@dataclass(frozen=True, slots=True)
class Watched:
    """A tensor that autograd counts writes to. `made_by` names the node of autograd that made it, if one did."""

    place: Input | Computed
    made_by: str = ""


@dataclass(frozen=True, slots=True)
class GradSpec:
    """How to call the two halves of a joint graph, in addition to the `CallSpec` of the first.

    `results` is the number of results of the forward graph that the caller asks for. `followed` are those that autograd
    follows: the backward graph takes the tangents, the gradients of these, in this order. `gradients` has the gradient
    of each input, None for an input that gets none. `origins` says for each followed result which output of the
    captured graph it is, or which written input. `watched` are inputs and results that eager's autograd would keep:
    to write to them before the backward pass is an error. `name` is that of eager's node for the first followed result.
    """

    results: int
    followed: tuple[int, ...]
    gradients: tuple[Gradient, ...]
    origins: tuple[Output, ...]
    watched: tuple[Watched, ...] = ()
    name: str = ""

    def __str__(self) -> str:
        lines = [f"{self.results} results, of which autograd follows {list(self.followed)}"]
        for position, (result, origin) in enumerate(zip(self.followed, self.origins, strict=True)):
            lines.append(f"tangent {position}: the gradient of result {result}, {_origin_text(origin)}")
        lines += [f"input {index}: {_gradient_text(value)}" for index, value in enumerate(self.gradients)]
        lines += [f"watched: {_place_text(item.place)}" for item in self.watched]
        return "\n".join(lines)


def _place_text(place: Input | Computed) -> str:
    return f"input {place.index}" if isinstance(place, Input) else f"result {place.index}"


def _origin_text(origin: Output) -> str:
    return f"written into input {origin.index}" if isinstance(origin, Input) else f"output {origin.index}"


def _gradient_text(gradient: Gradient) -> str:
    match gradient:
        case None:
            return "no gradient"
        case Tangent(position):
            return f"tangent {position}"
        case Computed(index):
            return f"gradient {index}"
        case Part(base, size, stride, offset):
            return f"{_gradient_text(base)} as {list(size)}, strides {list(stride)}, offset {offset}"


@dataclass(frozen=True, slots=True)
class Joint:
    """`module` takes inputs and tangents, and returns results and gradients."""

    module: GraphModule
    call: CallSpec
    grad: GradSpec


def trace_joint(
    module: GraphModule,
    inputs: Sequence[Any],
    rules: Mapping[Any, Rule],
    overlapping: Sequence[tuple[int, int]],
    missing: Collection[int] = (),
) -> Joint:
    """The joint graph of a captured one. Raises CompileError for what the calling convention has no words for.

    `missing` are those of the followed results, counted among them, that get no gradient.
    """
    state = GlobalState.snapshot()
    if state.functorch_depth:
        raise CompileError("joint graph", "a transform of torch.func is open")
    mode = fake_mode_of(inputs)
    recorder = Functionalizer(mode, rules)
    primals = [primal_of(value) for value in inputs]
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    environment: dict[Node, Any] = {}
    try:
        with saving_plainly(), torch.autograd.set_detect_anomaly(False):
            with counting_saves() as kept, recorder.fake, recorder:
                for node, value in zip(placeholders, primals, strict=True):
                    recorder.placeholder(value, str(node.target))
                outputs = run(module, primals, recorder, environment)
            state.restore()
            refuse_unlike_captured(environment)
            refuse_shared_writes(recorder, primals, overlapping)
            refuse_repeated_writes(recorder, primals)
            refuse_writes_beyond(recorder, primals)
            refuse_written_leaves(recorder, primals)
            refuse_unknown_counts(recorder)
            with recorder.fake:
                returned = Returned(recorder)
                call = convention(returned, module, primals, outputs)
                refuse_unlike_histories(call, outputs, primals)
                results = len(returned.nodes)
                followed = {index: tensor for index, tensor in returned.tensors.items() if tensor.requires_grad}
                refuse_results_of_results(followed.values(), [*outputs, *written_values(call, primals)])
                watched = watched_of(kept, primals, returned, recorder)
                starts = [tensor for n, tensor in enumerate(followed.values()) if n not in missing]
                tangents = tangents_of(recorder, starts)
                with recorder, without_autocast():
                    gradients = differentiate(starts, primals, tangents)
                inner = Returned(recorder)
                found = tuple(gradient_of(value, tangents, inner) for value in gradients)
    except RuntimeError as error:  # what eager raises in the forward or in the backward pass, it shall raise there
        raise CompileError("joint graph", str(error)) from error
    finally:
        state.restore()
    origins = tuple(origin_of(call, index) for index in followed)
    name = node_name(next(iter(followed.values())))
    spec = GradSpec(results, tuple(followed), found, origins, watched, name)
    return Joint(close(recorder, [*returned.nodes, *inner.nodes]), call, spec)


def watched_of(
    kept: Sequence[Tensor], primals: Sequence[Any], returned: Returned, recorder: Functionalizer
) -> tuple[Watched, ...]:
    """The inputs and results that are among the tensors which autograd kept, as far as writes to them are counted."""
    places = {Input(index): value for index, value in enumerate(primals) if isinstance(value, Tensor)}
    places |= {Computed(index): value for index, value in returned.tensors.items()}
    found = []
    for place, tensor in places.items():
        family = recorder.value_of(tensor).family
        if any(recorder.value_of(t).family is family and counts_with(t, tensor) for t in kept if recorder.knows(t)):
            found.append(Watched(place, node_name(tensor)))
    return tuple(found)


def written_values(call: CallSpec, primals: Sequence[Any]) -> list[Any]:
    """The inputs that the graph gives a value."""
    return [primals[mutation.input] for mutation in call.mutations if mutation.value is not None]


def primal_of(value: Any) -> Any:
    if not isinstance(value, FakeTensor):
        return value
    if value.is_inference() or value.is_conj() or value.is_neg():
        raise CompileError("joint graph", "an input is an inference tensor, or lazily conjugated or negated")
    return primal(value)


def tangents_of(recorder: Functionalizer, results: Sequence[Tensor]) -> list[Tensor]:
    """Inputs of the graph for the gradients of the results."""
    last = [node for node in recorder.graph.nodes if node.op == "placeholder"][-1]
    tangents = []
    for position, result in enumerate(results):
        value = tangent(result)
        with recorder.graph.inserting_after(last):
            last = recorder.placeholder(value, f"tangent{position}")
        tangents.append(value)
    return tangents


def differentiate(results: Sequence[Tensor], primals: Sequence[Any], tangents: Sequence[Tensor]) -> list[Tensor | None]:
    """For each input the gradient that autograd computes, None where there is none."""
    wanted = [value for value in primals if isinstance(value, Tensor) and value.requires_grad and value.is_leaf]
    if not results or not wanted:
        raise CompileError("joint graph", "no result depends on an input that requires grad")
    found = iter(torch.autograd.grad(results, wanted, tangents, allow_unused=True))
    return [next(found) if any(value is leaf for leaf in wanted) else None for value in primals]


def gradient_of(value: Tensor | None, tangents: Sequence[Tensor], returned: Returned) -> Gradient:
    """What the caller takes as a gradient. One that repeats memory, or has gaps, is a view, as eager's is."""
    if value is None:
        return None
    origin = returned.recorder.value_of(value).family.root.tensor
    if value is origin or is_dense(value.size(), value.stride()) or not is_laid_over(value, origin):
        return whole_gradient(value, tangents, returned)
    return Part(whole_gradient(origin, tangents, returned), *layout_over(value, origin, returned))


def whole_gradient(value: Tensor, tangents: Sequence[Tensor], returned: Returned) -> Computed | Tangent:
    node = returned.recorder.node_of(value)
    for position, item in enumerate(tangents):
        if node is returned.recorder.node_of(item):
            return Tangent(position)
    return returned.add(value)


# --- what is refused -------------------------------------------------------------------------------------------------


def refuse_written_leaves(recorder: Functionalizer, primals: Sequence[Any]) -> None:
    """Refuse writes to inputs that gradients were recorded for before: their histories are made by eager's writes."""
    for value in primals:
        if isinstance(value, Tensor) and value.is_leaf and value.requires_grad:
            if recorder.value_of(value).family.version:
                raise CompileError("joint graph", "an input that requires grad is written to")


def refuse_unknown_counts(recorder: Functionalizer) -> None:
    """Refuse operators that write as often as only they know: autograd compares these counts."""
    if any(writes_as_library(node.target) for node in recorder.graph.nodes):
        raise CompileError("joint graph", "an operator of another library writes to a tensor")


def refuse_unlike_captured(environment: Mapping[Node, Any]) -> None:
    """Refuse values of which capture has seen that they have a history, or none, where this run has seen the other.

    Views that are made under `no_grad` have that of what their input views, which is not among the inputs.
    """
    for node, value in environment.items():
        example = node.meta.get("example_value")
        if isinstance(example, Tensor) and isinstance(value, Tensor) and example.requires_grad != value.requires_grad:
            raise CompileError("joint graph", "a view has the history of a tensor that is no input")


def refuse_unlike_histories(call: CallSpec, outputs: Sequence[Any], primals: Sequence[Any]) -> None:
    """Refuse outputs that the calling convention would give another history than eager gives them."""
    for item, output in zip(outputs, call.outputs, strict=True):
        if not isinstance(item, Tensor) or isinstance(output, Input):
            continue
        if item.requires_grad and item.is_leaf:
            raise CompileError("joint graph", "an output is a leaf that the graph made")
        if follows(output, call, outputs, primals) != item.requires_grad:
            raise CompileError("joint graph", "an output shares memory with a tensor, but not its history")
        if not is_plain_view(item):
            raise CompileError("joint graph", "an output is a view that autograd lets nobody write to")


def refuse_results_of_results(results: Iterable[Tensor], shown: Iterable[Any]) -> None:
    """Refuse results that others are computed from: the gradient of the one has a part that comes through the other.

    The results of one node of autograd are all computed from its inputs. Who asks for the gradient of such a result, or
    hooks it, would be given what comes from elsewhere alone.
    """
    inner = edges_behind(results)
    if any(isinstance(item, Tensor) and edge_of(item) in inner for item in shown):
        raise CompileError("joint graph", "a result is computed from another one")


def follows(output: Output, call: CallSpec, outputs: Sequence[Any], primals: Sequence[Any]) -> bool:
    """Whether the output will require grad."""
    match output:
        case Input(index):
            return bool(primals[index].requires_grad)
        case Strided(base) | Replayed(base):
            if isinstance(base, Computed):
                owner = [item for item, other in zip(outputs, call.outputs, strict=True) if other == base]
                return bool(owner) and bool(owner[0].requires_grad)
            return follows(base, call, outputs, primals)
        case Detached() | Literal():
            return False
        case Computed(index):
            return any(
                item.requires_grad
                for item, other in zip(outputs, call.outputs, strict=True)
                if other == output and isinstance(item, Tensor)
            )


def origin_of(call: CallSpec, result: int) -> Output:
    """Where the captured graph's own run shows a result: in an output (by its position), or in a written input."""
    for position, output in enumerate(call.outputs):
        if output == Computed(result):
            return Computed(position)
    for mutation in call.mutations:
        if mutation.value == Computed(result):
            return Input(mutation.input)
    raise CompileError("joint graph", "outputs are views of a tensor that the graph does not return")
