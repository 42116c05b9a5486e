"""Fakes for the inputs and the tangents of a joint graph, and what autograd says of tensors that it has recorded."""

from __future__ import annotations

import inspect
import itertools
import weakref
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from onegraph.torchlib import private
from onegraph.torchlib.meta_tensors import laid_over
from onegraph.torchlib.private import FakeTensor

#: Views that are made under `no_grad`, or by custom functions, are not made by an operator alone.
_DEFAULT = private.CreationMeta.DEFAULT
_SEVERAL = private.CreationMeta.MULTI_OUTPUT_NODE
_CUSTOM = private.CreationMeta.IN_CUSTOM_FUNCTION
#: The module whose custom functions make sharded tensors of local ones, and local ones of them.
_SHARDED = "torch.distributed.tensor._api"


def primal(fake: FakeTensor, recorded: bool) -> FakeTensor:
    """A new fake over the same memory, without history: a leaf if gradients are `recorded` for it."""
    with private.DisableTorchDispatch():
        elem = laid_over(fake.untyped_storage(), fake.dtype, fake.storage_offset(), fake.size(), fake.stride())
    fresh = FakeTensor(fake.fake_mode, elem, fake.device)
    fresh.requires_grad_(recorded)
    return fresh


def passed_on(leaf: FakeTensor) -> FakeTensor:
    """A fake over the memory of a leaf, computed from it: autograd lets programs write to it, not to the leaf."""
    with torch.enable_grad():
        computed = leaf.clone()
    assert isinstance(computed, FakeTensor)
    same_memory = primal(leaf, recorded=False)
    with private.DisableTorchDispatch():
        computed.data = same_memory
    return computed


def tangent(result: Any) -> Tensor:
    """A new fake that lies as the tensor does, in memory of its own."""
    with torch.no_grad(), result.fake_mode:
        return torch.empty_strided(result.size(), result.stride(), dtype=result.dtype, device=result.device)


def is_one_of_several(tensor: Tensor) -> bool:
    """Whether a tensor is a view that an operator has given beside others, or one of such a view."""
    return tensor._is_view() and private.get_creation_meta(tensor) == _SEVERAL


def is_plain_view(tensor: Tensor) -> bool:
    """Whether operators alone make such a tensor with gradients being recorded."""
    return not tensor._is_view() or private.get_creation_meta(tensor) in (_DEFAULT, _SEVERAL)


def is_local_part(tensor: Tensor) -> bool:
    """Whether a view has come out of a sharded tensor. Eager refuses writes to it, and what depends on that is an
    error."""
    if private.get_creation_meta(tensor) != _CUSTOM:
        return False
    node: Any = tensor.grad_fn
    while node is not None and not hasattr(node, "_forward_cls"):  # views of it
        node = node.next_functions[0][0]
    return node is not None and node._forward_cls.__module__ == _SHARDED


def set_version(tensor: Tensor, version: int) -> None:
    """Let autograd have counted so many writes to the tensor."""
    if not tensor.is_inference():
        private.set_version_counter((tensor,), (version,))


class below_autograd:  # noqa: N801 - it is used as a function
    """Operators run as autograd runs them: they see that gradients are recorded, and nothing records them, or counts
    what they write to while they run."""

    __slots__ = ("guard", "was_enabled")

    def __enter__(self) -> None:
        self.was_enabled = torch.is_grad_enabled()
        self.guard = private.AutoDispatchBelowADInplaceOrView()
        private.set_grad_enabled(True)
        self.guard.__enter__()

    def __exit__(self, *_: object) -> None:
        self.guard.__exit__(None, None, None)
        private.set_grad_enabled(self.was_enabled)


class Saves(dict[int, tuple[Tensor, Any]]):
    """What backward passes have looked at, with the node that did."""


@contextmanager
def counting_saves() -> Iterator[dict[int, tuple[Tensor, Any]]]:
    """Collects, by number, what backward passes look at of what autograd keeps, and the nodes that do.

    They raise if it was written to. The nodes hold `unpack`: it does not hold them, in a circle that nobody would see.
    """
    used = Saves()
    living = weakref.ref(used)
    numbers = itertools.count()

    def pack(tensor: Tensor) -> tuple[int, Tensor, int]:
        return next(numbers), tensor, tensor._version

    def unpack(packed: tuple[int, Tensor, int]) -> Tensor:
        number, tensor, version = packed
        if (saves := living()) is not None:
            saves[number] = tensor, private.current_node()
        if tensor._version != version:
            raise RuntimeError(written_since(tensor, version, tensor.shape))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        yield used


def seen_by_hooks(tensor: Tensor) -> Callable[[], Tensor]:
    """Gives a tensor that a node keeps without autograd, which counts its writes neither, and never frees it.

    What collects that which backward passes look at sees it all the same, by a number in a tuple.
    """
    hooks = private.top_saved_tensors_hooks(False)
    if hooks is None:
        return lambda: tensor
    pack, unpack = hooks
    number, *packed = pack(tensor)
    return partial(unpack, ((number,), *packed))


#: What eager's autograd says of a second pass over what the first one has freed.
FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
    "retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors "
    "after calling backward."
)


def written_since(tensor: Tensor, version: int, shape: Sequence[int], made_by: str = "") -> str:
    """What eager's autograd says of a tensor of this shape that it kept at this version."""
    maker = f", which is output {tensor.output_nr} of {made_by}," if made_by else ""
    return (
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[{tensor.type()} {list(shape)}]{maker} is at version {tensor._version}; expected version {version} "
        "instead. Hint: enable anomaly detection to find the operation that failed to compute its gradient, with "
        "torch.autograd.set_detect_anomaly(True)."
    )


def node_name(tensor: Tensor) -> str:
    """The name of the node of autograd that made a tensor, empty for a leaf."""
    return tensor.grad_fn.name() if tensor.grad_fn is not None else ""


Edge = tuple[Any, int]


def edge_of(tensor: Tensor) -> Edge:
    """Where in autograd's graph the gradient of a tensor arrives: a node, and at which of its places."""
    edge = torch.autograd.graph.get_gradient_edge(tensor)
    return edge.node, edge.output_nr


def edges_behind(tensors: Iterable[Tensor], ends: Collection[Edge] = ()) -> set[Edge]:
    """The edges that gradients of the tensors go along, behind the nodes that made them and no further than `ends`."""
    edges: set[Edge] = set()
    pending: list[Any] = [tensor.grad_fn for tensor in tensors]
    known = set(pending)
    while pending:
        for edge in pending.pop().next_functions:
            edges.add(edge)
            if edge[0] is not None and edge[0] not in known and edge not in ends:
                known.add(edge[0])
                pending.append(edge[0])
    return edges


def passes_over(tensors: Sequence[Tensor], ends: Collection[Edge] = ()) -> dict[Any, set[int]]:
    """For each node behind the tensors, no further than `ends`, from which of them gradients get there."""
    passes: dict[Any, set[int]] = {}
    for position, tensor in enumerate(tensors):
        passes.setdefault(tensor.grad_fn, set()).add(position)
    pending = list(passes)
    while pending:
        node = pending.pop()
        for edge in node.next_functions:
            behind = edge[0]
            if behind is not None and edge not in ends and not passes[node] <= passes.setdefault(behind, set()):
                passes[behind] |= passes[node]
                pending.append(behind)
    return passes


def writes_behind(tensors: Sequence[Tensor]) -> list[Any]:
    """The nodes behind the tensors that stand for writes to views, in their order. A pass over one frees it."""
    nodes = {tensor.grad_fn for tensor in tensors} | {node for node, _ in edges_behind(tensors)}
    writes = [node for node in nodes if node is not None and node.name() == "torch::autograd::CopySlices"]
    return sorted(writes, key=lambda node: node._sequence_nr())


@contextmanager
def noting(nodes: Sequence[Any]) -> Iterator[set[int]]:
    """Collects, by their positions, the nodes that backward passes run."""
    seen: set[int] = set()
    hooks = [node.register_prehook(lambda _, n=n: seen.add(n)) for n, node in enumerate(nodes)]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def version_probe(tensor: Tensor) -> Tensor:
    """A tensor without memory that counts the writes to another one."""
    probe = tensor.detach()
    probe.data = torch.empty(0, dtype=tensor.dtype)
    return probe


def own_hooks(tensor: Tensor) -> Any:
    """The hooks of the value that a write has given to a tensor, those that will be registered among them."""
    if tensor.grad_fn is not None:  # that of a view is made now; without one, torch crashes in `register_hook`
        tensor.register_hook(lambda _: None).remove()  # behind it there is a place for them
    return tensor._backward_hooks


#: What torch asks a function for in each call, by names that Python's cache of attributes does not know: found at once.
_ASKED = "forward", "setup_context", "boxed_grads_call", "clear_saved_tensors_on_access"


def recorder(
    function: type[torch.autograd.Function],
    name: str,
    noted: Callable[[Any, Tensor], object] = lambda *_: None,
    backward: Any = None,
) -> Callable[..., Any]:
    """Records a node of this name, whose hooks of a result are called where it has a gradient, as eager's are.

    It is `function.apply` without its preparations for transforms of functions, of which there are none. `noted` is
    told of each result that gets hooks, with its node. `backward` is what the engine calls, which is not
    `function.backward` then.
    """
    made: Any = type(function.__name__, (function,), {n: inspect.getattr_static(function, n, False) for n in _ASKED})
    made._backward_cls.__name__ = name

    def register_hooks(node: Any, tensor: Tensor) -> None:
        tensor._backward_hooks = Hooks()
        private.register_hook_dict(node, tensor)
        noted(node, tensor)

    made._backward_cls._register_hook_dict = register_hooks
    if backward is not None:
        made._backward_cls.apply = backward
    record: Callable[..., Any] = super(torch.autograd.Function, made).apply
    return record


@contextmanager
def given_instead(pairs: Sequence[tuple[Tensor, Tensor]]) -> Iterator[None]:
    """The gradients of these tensors are given, whatever arrives there."""
    hooks = [tensor.register_hook(lambda _, tangent=tangent: tangent) for tensor, tangent in pairs]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


class Hooks(OrderedDict[int, Any]):
    """Hooks of a tensor. The node of several results asks them also where the tensor has no gradient."""

    def __setitem__(self, key: int, hook: Any) -> None:
        super().__setitem__(key, lambda gradient: None if gradient is None else hook(gradient))


def has_elements(tensor: Tensor) -> bool:
    """Whether a tensor is a plain one whose elements lie in its memory: not zeros without memory, not one of a batch of
    `vmap`, no subclass."""
    if type(tensor) is not Tensor or tensor.layout is not torch.strided:
        return False
    if tensor.is_conj() or tensor.is_neg() or tensor._is_zerotensor() or tensor.device.type == "meta":
        return False
    if private.is_functorch_wrapped_tensor(tensor) or private.is_batch_of_gradients(tensor):
        return False
    return not private.is_functional_tensor(tensor)


def is_graph_kept() -> bool:
    """In a backward pass: whether another one may follow over the same graph."""
    return bool(private.is_graph_kept())
