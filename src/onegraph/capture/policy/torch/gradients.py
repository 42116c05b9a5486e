"""`torch.autograd.grad` and `backward` in the graph: they differentiate what it has computed, so a call is a node.

What was computed outside has a history that the graph does not know. So the inputs of the graph that have
gradients must be leaves, or the only input of the graph for which gradients are asked, where a gradient ends anyway.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch

from onegraph.base.dataclass import dataclass
from onegraph.capture.breaks import BACKWARD_CALL, GRADIENT_CALL, REQUIRES_GRAD, TENSOR_HOOK, GraphBreak
from onegraph.capture.calls.registry import policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.guards.source import Attr
from onegraph.capture.policy.torch.custom_functions import without_gradients
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.torchlib.histories import is_recorded
from onegraph.torchlib.hooked import edges_reached, gradients_given, history_of
from onegraph.torchlib.private import DisableTorchFunction, is_functorch_wrapped_tensor, set_grad_enabled
from onegraph.torchlib.pytree import leaves_of
from onegraph.torchlib.strides import is_certainly_dense
from onegraph.torchlib.transforms import accumulate, keep

_GRAD = inspect.signature(torch.autograd.grad)
_BACKWARD = inspect.signature(torch.Tensor.backward)
_BACKWARDS = inspect.signature(torch.autograd.backward)
#: What looks at the gradients of a leaf.
HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")
_RECORDING = inspect.signature(lambda self, requires_grad=True: None)


@policy(torch.autograd.grad)
def gradient_call(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    given = _GRAD.bind(*args, **kwargs).arguments
    outputs, asked = tensors_of(given["outputs"]), tensors_of(given["inputs"])
    if not any(map(is_functorch_wrapped_tensor, outputs)):
        refused = partial(GraphBreak, GRADIENT_CALL, name="torch.autograd.grad", what="torch.autograd.grad")
        require_computed_here(outputs, refused)
        known = [tensor for tensor in asked if tracer.recorder.is_input(tensor)]
        for each in tracer.recorder.inputs:
            if each.recorded and not (len(known) == 1 and each.fake is known[0]):
                require_leaf(tracer, each, refused)
        if (passed := Passed.on_the_way(tracer, outputs, asked)).changes():
            if given.get("is_grads_batched") or passed.retaining or len(asked) != len(leaves_of(given["inputs"])):
                raise refused(why="through a tensor that has a hook or keeps its gradient")
            names = ("retain_graph", "create_graph", "allow_unused", "materialize_grads")
            options = {name: given[name] for name in names if name in given}
            return passed.differentiate(outputs, asked, gradients_of(outputs, given.get("grad_outputs")), options)
    found: Any = tracer.run_native(torch.autograd.grad, args, kwargs)
    return found


@dataclass(frozen=True, slots=True)
class Passed:
    """What gradients come by in a backward pass: the tensors with hooks, the first ones first, and those that keep
    theirs."""

    tracer: Tracing
    points: list[tuple[torch.Tensor, list[Any]]]
    retaining: list[torch.Tensor]

    @staticmethod
    def on_the_way(tracer: Tracing, outputs: list[torch.Tensor], inputs: list[torch.Tensor]) -> Passed:
        """From the outputs to the inputs."""
        hooks = tracer.world.hooks
        if not hooks.state():
            return Passed(tracer, [], [])
        hooks.require_unmoved()
        reached = edges_reached(outputs)
        behind = {id(tensor): edges_reached([tensor]) for tensor, _ in hooks.points()}
        behind |= {id(tensor): edges_reached([tensor]) for tensor in hooks.retaining}
        goals = set(map(history_of, inputs))

        def is_passed(tensor: torch.Tensor) -> bool:
            return history_of(tensor) in reached and not goals.isdisjoint(behind[id(tensor)])

        points = [point for point in hooks.points() if is_passed(point[0])]
        edges = {history_of(tensor) for tensor, _ in points}
        points.sort(key=lambda point: len(edges & behind[id(point[0])]), reverse=True)
        return Passed(tracer, points, list(filter(is_passed, hooks.retaining)))

    def changes(self) -> bool:
        return bool(self.points or self.retaining)

    def differentiate(
        self,
        outputs: list[torch.Tensor],
        inputs: list[torch.Tensor],
        gradients: list[torch.Tensor | None],
        options: dict[str, Any],
        retaining: Sequence[torch.Tensor] = (),
    ) -> tuple[torch.Tensor | None, ...]:
        """`torch.autograd.grad`, where hooks are called with the gradients of their tensors: these are computed one
        after another, each with what hooks have made of those before it. Behind the gradients of the inputs are those
        that tensors keep, which come from the hooks."""
        tracer, again = self.tracer, options.get("create_graph", False)
        given: list[torch.Tensor] = []
        values: list[torch.Tensor] = []
        keeps = {"retain_graph": True, "create_graph": again, "allow_unused": True}
        for tensor, functions in self.points:
            (first,) = tracer.run_native(gradients_given, (outputs, [tensor], gradients, given, values), keeps)
            if first is None:
                continue
            gradient = first
            with nullcontext() if again else without_gradients():
                for function in functions:
                    found = tracer.call(function, (gradient,), {})
                    if not (found is None or isinstance(found, torch.Tensor)):
                        raise GraphBreak(TENSOR_HOOK, name="Tensor.register_hook", why="that gives no tensor")
                    gradient = gradient if found is None else found
            if gradient is not first:
                given.append(tensor)
                values.append(gradient)
        wanted = [*inputs, *retaining]
        found = tracer.run_native(gradients_given, (outputs, wanted, gradients, given, values), options)
        made = dict(zip(map(id, given), values, strict=True))
        kept = zip(retaining, found[len(inputs) :], strict=True)
        return *found[: len(inputs)], *(made.get(id(tensor), gradient) for tensor, gradient in kept)


def gradients_of(outputs: list[torch.Tensor], given: Any) -> list[torch.Tensor | None]:
    """The gradients that a call gives, one for each output."""
    if given is None:
        return [None] * len(outputs)
    return list(given) if isinstance(given, list | tuple) else [given]


@policy(torch.Tensor.backward)
def backward_of(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    given = _BACKWARD.bind(*args, **kwargs).arguments
    gradient = given.pop("gradient", None)
    function = tracer.getattr(torch.autograd, "backward")  # which the program may have replaced
    tracer.call(function, (given.pop("self"), gradient), given)


@policy(torch.autograd.backward)
def backward(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """The gradients of all leaves, or of those that are asked for, each of which is accumulated as eager does."""
    given = _BACKWARDS.bind(*args, **kwargs).arguments
    outputs = tensors_of(given["tensors"])
    refused = partial(GraphBreak, BACKWARD_CALL, name="backward", what="backward")
    if tracer.preparations:
        raise refused(why="while which a DistributedDataParallel reduces the gradients")
    for option in ("create_graph", "grad_variables"):
        value = given.get(option)
        if value is not None and value is not False:
            raise refused(why=f"with {option}")
    require_computed_here(outputs, refused)
    inputs = [each for each in tracer.recorder.inputs if each.recorded and is_recorded(each.fake)]
    for each in inputs:
        require_leaf(tracer, each, refused)
    leaves = [*(each.fake for each in inputs), *tracer.recorder.made_leaves()]
    if not leaves or any(map(is_functorch_wrapped_tensor, outputs)):
        raise refused(why="of what was computed from no leaf")
    if given.get("inputs") is not None:
        wanted = tensors_of(given["inputs"])
        leaves = [leaf for leaf in leaves if any(leaf is each for each in wanted)]
        if len(leaves) != len(wanted) or not leaves:
            raise refused(why="with inputs that are no leaves")
    options = {"retain_graph": bool(given.get("retain_graph")), "allow_unused": True}
    passed = Passed.on_the_way(tracer, outputs, leaves)
    if passed.changes():
        gradients = gradients_of(outputs, given.get("grad_tensors"))
        found = passed.differentiate(outputs, leaves, gradients, options, passed.retaining)
    else:
        found = tracer.run_native(torch.autograd.grad, (outputs, leaves, given.get("grad_tensors")), options)
    for tensor, gradient in zip(passed.retaining, found[len(leaves) :], strict=True):
        if gradient is not None:
            tracer.call(keep, (tensor, gradient), {})
    for leaf, gradient in zip(leaves, found, strict=False):
        if gradient is not None:
            with DisableTorchFunction():
                is_dense = is_certainly_dense(leaf)
            tracer.call(accumulate, (leaf, gradient, is_dense), {})
            for function in tracer.world.hooks.behind(leaf):
                with without_gradients():
                    tracer.call(function, (leaf,), {})


@policy(torch.Tensor.requires_grad_)
def record_gradients(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Of a tensor that the graph has made it is an operation of the graph; an input has been given it outside."""
    given = _RECORDING.bind(*args, **kwargs)
    given.apply_defaults()
    tensor, records = given.args
    records = tracer.truth(records) if isinstance(records, torch.SymBool) else records
    with DisableTorchFunction():
        same = tensor.requires_grad is records
    if same and (records or not has_history(tensor)):
        return tensor
    recorder = tracer.recorder
    if id(tensor) not in recorder.nodes or recorder.is_input(tensor) and not may_change(tracer, tensor):
        raise GraphBreak(REQUIRES_GRAD, name="Tensor.requires_grad_", what="Tensor.requires_grad_")
    found: Any = tracer.run_native(torch.Tensor.requires_grad_, (tensor, records), {})
    return found


@policy(set_grad_enabled)
def enable(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The function wants to know whether it is true."""
    given = (tracer.truth(value) if isinstance(value, torch.SymBool) else value for value in args)
    return tracer.run_native(set_grad_enabled, tuple(given), kwargs)


def may_change(tracer: Tracing, tensor: torch.Tensor) -> bool:
    """Whether a graph can leave out gradients of an input: it is a leaf that has them when the graph begins.

    What it is at the end is said behind the graph, too.
    """
    given = next(given for given in tracer.recorder.inputs if given.fake is tensor)
    if not given.recorded or tracer.open_levels or not tracer.getattr(tensor, "is_leaf"):
        return False
    tracer.world.hooks.note_change(tensor)
    return True


@policy(torch.Tensor.detach_, torch.detach_)
def detach(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Of a tensor that the graph has made it is an operation of the graph. Autograd refuses it for views."""
    (tensor,) = (*args, *kwargs.values())
    recorder = tracer.recorder
    if id(tensor) not in recorder.nodes or recorder.is_input(tensor):  # which may be a view
        raise GraphBreak(REQUIRES_GRAD, name="Tensor.detach_", what="Tensor.detach_")
    if not is_recorded(tensor):
        return tracer.run_native(torch.Tensor.detach_, (tensor,), {})
    with DisableTorchFunction():
        tensor.detach_()
    recorder.graph.call_method("detach_", (recorder.nodes[id(tensor)],)).meta["example_value"] = tensor
    return tensor


def tensors_of(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in leaves_of(value) if isinstance(leaf, torch.Tensor)]


def has_history(tensor: torch.Tensor) -> bool:
    with DisableTorchFunction():
        return tensor.grad_fn is not None


def require_computed_here(outputs: list[torch.Tensor], refused: Callable[..., GraphBreak]) -> None:
    """Raise the graph break of what has no history in the graph."""
    if not all(map(has_history, outputs)):
        raise refused(why="of what was computed outside")


def require_leaf(tracer: Tracing, each: Any, refused: Callable[..., GraphBreak]) -> None:
    """Guard that an input is a leaf that no hook looks at; raise the graph break if it is not."""
    real, origin = each.example, tracer.world.origin[id(each.fake)]
    with DisableTorchFunction():
        facts = {name: getattr(real, name) for name in ("is_leaf", *HOOKS)}
    if not facts.pop("is_leaf") or any(facts.values()):
        raise refused(why=f"through the input {each.name}, which was computed outside or has hooks")
    tracer.world.admit(True, Attr(origin, "is_leaf"))
    for name, hooks in facts.items():
        if hooks is None:
            tracer.world.admit(None, Attr(origin, name))
        else:
            tracer.world.guard(Attr(origin, name), "length", 0)
