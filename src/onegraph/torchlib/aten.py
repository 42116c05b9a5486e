"""Facts about aten operators, read from their schemas: what they write, what they view, their functional form."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

import torch

from onegraph.torchlib import private
from onegraph.torchlib.private import OpOverload as OpOverload
from onegraph.torchlib.private import OpOverloadPacket as OpOverloadPacket
from onegraph.torchlib.strides import is_certainly_dense


def leaves(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Any]:
    """Every argument of an operator call, lists opened one level deep (aten's schemas nest no further)."""
    for value in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(value, (list, tuple)):
            yield from value
        else:
            yield value


def map_leaves(f: Callable[[Any], Any], value: Any) -> Any:
    """`value` with `f` applied to everything that is not a list, tuple or dict."""
    if isinstance(value, list):
        return [map_leaves(f, item) for item in value]
    if isinstance(value, tuple):
        return tuple([map_leaves(f, item) for item in value])
    if isinstance(value, dict):
        return {key: map_leaves(f, item) for key, item in value.items()}
    return f(value)


@cache
def is_mutable(op: Any) -> bool:
    """Does this operator write to one of its arguments?"""
    return isinstance(op, OpOverload) and op._schema.is_mutable


@cache
def is_composite(op: Any) -> bool:
    """Is this operator defined by others at every level, so that it never needs to be recorded?"""
    return isinstance(op, OpOverload) and private.has_kernel_for(op.name(), "CompositeImplicitAutograd")


@cache
def may_view(op: Any) -> bool:
    """May a result share storage with an argument it does not write?"""
    if not isinstance(op, OpOverload):
        return False
    if op is torch.ops.aten._unsafe_view.default:
        return True
    returns = op._schema.returns
    return any(item.alias_info is not None and not item.alias_info.is_write for item in returns)


@cache
def has_device_argument(op: OpOverload) -> bool:
    """Is `device` one of its keyword arguments?"""
    return any(argument.name == "device" and argument.kwarg_only for argument in op._schema.arguments)


@cache
def is_random(op: Any) -> bool:
    """Does this operator draw from a random number generator?"""
    return isinstance(op, OpOverload) and torch.Tag.nondeterministic_seeded in op.tags


PURE_NAMESPACES = frozenset({"aten", "prims", "prim", "onegraph"})


@cache
def has_effect(target: Any) -> bool:
    """Must a call be kept, and kept apart from an equal one, though nobody reads its result?"""
    if not isinstance(target, OpOverload):
        return False
    pure = _ORIGINAL.get(target, target).namespace in PURE_NAMESPACES and bool(target._schema.returns)
    return not pure or is_random(target) or is_mutable(target)


@cache
def written_arguments(op: OpOverload) -> tuple[int, ...]:
    """Positions, in the schema, of the arguments that the operator writes to."""
    return tuple(
        position
        for position, argument in enumerate(op._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    )


@cache
def functional_form(op: OpOverload) -> OpOverload:
    """The operator that returns what `op` writes: `add` for `add_` and `add.out`, `normal_functional` for `normal_`.

    It takes what `op` takes, but for `out`. It returns what `op` returns besides the written arguments, then their new
    values. Where torch has none, one is made that calls `op` on copies.
    """
    namespace, name = op._schema.name.split("::")
    packets = getattr(torch.ops, namespace)
    arguments = [argument for argument in op._schema.arguments if not argument.is_out]
    stem = name[:-1] if name.endswith("_") and not name.endswith("__") else name
    for candidate in (stem, f"{name}_functional", f"{stem}_functional", f"_{stem}_functional"):
        packet = getattr(packets, candidate, None)
        for overload in packet.overloads() if packet is not None else ():
            twin: OpOverload = getattr(packet, overload)
            if not twin._schema.is_mutable and _same_arguments(twin._schema.arguments, arguments):
                return twin
    return on_copies(op)


def _same_arguments(ours: Sequence[Any], theirs: Sequence[Any]) -> bool:
    return [(a.name, str(a.real_type)) for a in ours] == [(a.name, str(a.real_type)) for a in theirs]


LIBRARY = torch.library.Library("onegraph", "FRAGMENT")
_DEFINED: set[str] = set()
#: What each operator that works on copies calls on them.
_ORIGINAL: dict[OpOverload, OpOverload] = {}


def define(schema: str, tags: tuple[torch.Tag, ...] = (), **kernels: Callable[..., Any]) -> bool:
    """Define an operator of ours with kernels by dispatch key; False: an interrupted import has done it already."""
    name = schema.partition("(")[0]
    if name in _DEFINED:
        return False
    LIBRARY.define(schema, tags=tags)
    for key, kernel in kernels.items():
        LIBRARY.impl(name, kernel, key)
    _DEFINED.add(name)
    return True


@cache
def on_copies(op: OpOverload, gaps: bool = False) -> OpOverload:
    """Define an operator that copies what `op` writes, calls `op`, and returns its results and the copies.

    With `gaps`, `op` works on copies that are not contiguous: random numbers go into such tensors in another order.
    """
    schema = op._schema
    name = "_".join([*schema.name.split("::"), schema.overload_name or "default", *(["gaps"] if gaps else [])])
    copy = copy_with_gaps if gaps else torch.clone
    written = written_arguments(op)
    text = re.sub(r"\(\w+!\)", "", str(schema))
    parameters = text[text.index("(") : text.rindex(" -> ")]
    plain = [item for item in schema.returns if item.alias_info is None]
    results = [re.sub(r"List\[(\w+)\]", r"\1[]", str(item.type)) for item in plain]
    # A list, or an argument that may be None, gives as many tensors as the call has there.
    results += ["Tensor" if str(schema.arguments[i].type) == "Tensor" else "Tensor[]" for i in written]

    def run(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        copies = {id(tensor): copy(tensor) for tensor in written_tensors(op, args, kwargs)}
        args, kwargs = map_leaves(lambda leaf: copies.get(id(leaf), leaf), (args, kwargs))
        returned = results_of(op, function(*args, **kwargs))
        values = [r for r, info in zip(returned, schema.returns, strict=True) if info.alias_info is None]
        for position, type in zip(written, results[len(plain) :], strict=True):
            tensors = written_tensors_of(op, position, args, kwargs)
            tensors = [copy_without_gaps(tensor) for tensor in tensors] if gaps else tensors
            values.append(tensors if type == "Tensor[]" else tensors[0])
        return tuple(values) if len(results) > 1 else values[0]

    tags = (torch.Tag.nondeterministic_seeded,) if is_random(op) else ()
    LIBRARY.define(f"{name}{parameters} -> ({', '.join(results)})", tags=tags)
    LIBRARY.impl(name, partial(run, op), "CompositeExplicitAutograd")
    if not schema.returns:  # whatever is written, copies of the arguments are: no fake implementation is needed
        LIBRARY.impl(name, partial(run, does_nothing), "Meta")
    made: OpOverload = getattr(torch.ops.onegraph, name).default
    _ORIGINAL[made] = op
    return made


def operator_named(name: str) -> OpOverload:
    """The operator of a name such as aten.add.Tensor. One of `on_copies` is defined if it was not wanted yet.

    Raises:
        ValueError, AttributeError: no operator is called so.
    """
    namespace, packet, overload = name.split(".")
    if namespace == "onegraph" and not hasattr(torch.ops.onegraph, packet):
        define_on_copies(packet)
    found: OpOverload = getattr(getattr(getattr(torch.ops, namespace), packet), overload)
    return found


def define_on_copies(name: str) -> None:
    """`on_copies` of the operator of torch that the name is made of, if there is one."""
    namespace, _, rest = name.partition("_")
    gaps = rest.endswith("_gaps")
    words = rest.removesuffix("_gaps").split("_")
    for count in range(1, len(words)):
        packet = getattr(torch.ops.aten, "_".join(words[:count]), None) if namespace == "aten" else None
        overload = getattr(packet, "_".join(words[count:]), None)
        if isinstance(overload, OpOverload) and is_mutable(overload):
            on_copies(overload, gaps)


def does_nothing(*args: Any, **kwargs: Any) -> None:
    """What stands for an operator without results where tensors have no contents."""


def writes_as_library(target: Any) -> bool:
    """Does a call make copies for an operator that writes, and that torch has not defined?

    How often such an operator counts as a write is known to itself only.
    """
    original = _ORIGINAL.get(target)
    return original is not None and original.namespace not in PURE_NAMESPACES


def copy_with_gaps(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with its dimensions in the same order in memory, and an element of nothing behind each element."""
    like = tensor if is_certainly_dense(tensor) else torch.empty_like(tensor)  # which, of fakes, imports sympy
    strides = [2 * stride for stride in like.stride()]
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def copy_without_gaps(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of such a copy, as the tensor lay in memory that this one is of."""
    strides = [stride // 2 for stride in tensor.stride()]
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def written_tensors(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    """The tensors that this call writes to, in the order of the schema."""
    found = [written_tensors_of(op, position, args, kwargs) for position in written_arguments(op)]
    return [tensor for tensors in found for tensor in tensors]


def written_tensors_of(
    op: OpOverload, position: int, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[torch.Tensor]:
    """The tensors in one argument of the call."""
    given = args[position] if position < len(args) else kwargs.get(op._schema.arguments[position].name)
    return [leaf for leaf in leaves((given,), {}) if isinstance(leaf, torch.Tensor)]


def results_of(op: OpOverload, result: Any) -> list[Any]:
    """The results of a call, one for each in the schema."""
    match len(op._schema.returns):
        case 0:
            return []
        case 1:
            return [result]
    return list(result)


def gives_lists(op: OpOverload) -> bool:
    """Are there lists among several results?"""
    returns = op._schema.returns
    return len(returns) > 1 and any(isinstance(item.type, torch.ListType) for item in returns)


def opened(values: Sequence[Any]) -> list[Any]:
    """The values, with the items of lists in the place of the lists."""
    return list(leaves(values, {}))
