"""What the code of a functional graph depends on, as text: two graphs with equal texts become the same plan."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any

import torch
from torch.fx import GraphModule, Node

from onegraph.base.config import Config
from onegraph.compiler.kept_parts import contents
from onegraph.compiler.library.recipe import Recipe
from onegraph.compiler.lower.registry import LOWERINGS
from onegraph.compiler.target import Target
from onegraph.torchlib.aten import OpOverload
from onegraph.torchlib.data_sizes import BORN

LARGEST = 1 << 20  # bytes of a constant, whose contents are read for the key
_LITERALS = (torch.dtype, torch.device, torch.layout, torch.memory_format, str, int, float, complex, bool, type(None))


class Undescribed(Exception):
    """Something in the graph has no text: a size that changes, a function of somebody else, a large constant."""


def graph_text(
    module: GraphModule, target: Target, given: Mapping[int, int] | None, consumes: bool, config: Config
) -> str:
    """The text for a graph after its library calls are chosen.

    Raises:
        Undescribed: for a graph whose plan cannot be found again by a text.
    """
    lines = [
        f"{torch.__version__} {target.device} {target.machine}",
        f"{[f'{step.name} {_function_text(step.run)}' for step in target.passes]}",
        f"{config.eager_rounding} {config.target_cpu!r} {torch.are_deterministic_algorithms_enabled()}",
        f"{sorted((given or {}).items())} {consumes} {config.skipped_passes} {config.skipped_lowerings} "
        f"{config.fallback_random}",
    ]
    storages: dict[int, int] = {}
    numbers = {node: number for number, node in enumerate(module.graph.nodes)}
    for node in module.graph.nodes:
        if BORN in node.meta:
            raise Undescribed("sizes that only the data say")
        called = _called(node, module)
        args = _text([node.args, node.kwargs], numbers)
        lines.append(f"{called}({args}) -> {_value_text(node.meta.get('val'), storages)}")
    return "\n".join([*lines, *sorted({_lowering_text(node.target) for node in module.graph.nodes})])


def _called(node: Node, module: GraphModule) -> str:
    match node.op:
        case "placeholder" | "output":
            return str(node.op)
        case "get_attr":
            return f"constant {_digest(attribute(module, str(node.target)))}"
    if isinstance(node.target, OpOverload) or node.target is operator.getitem:
        return str(node.target)
    if isinstance(node.target, Recipe):
        return f"{_function_text(node.target.function)} {_plain(node.target.settings)} {node.target.itemsizes}"
    raise Undescribed(f"a call of {node.target}")


def attribute(module: GraphModule, path: str) -> torch.Tensor:
    """The constant of a graph that a node names."""
    value: Any = module
    for name in path.split("."):
        value = getattr(value, name)
    assert isinstance(value, torch.Tensor)
    return value


def _digest(tensor: torch.Tensor) -> str:
    """What a constant is and holds: lowerings may read it."""
    if tensor.layout is not torch.strided or tensor.device.type != "cpu" or tensor.nbytes > LARGEST:
        raise Undescribed("a constant that is large, or lies elsewhere")
    if tensor.is_conj() or tensor.is_neg() or tensor.is_quantized:
        raise Undescribed("a constant that is more than its elements")
    return f"{tensor.dtype} {tuple(tensor.shape)} {tensor.stride()} {blake2b(contents(tensor)).hexdigest()}"


def _text(value: Any, numbers: Mapping[Node, int]) -> str:
    """An argument: nodes by their numbers."""
    if isinstance(value, Node):
        return f"%{numbers[value]}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_text(item, numbers) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name}: {_text(item, numbers)}' for name, item in value.items())}}}"
    return _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):  # to print one is to ask for its value
        raise Undescribed("a number that changes")
    if isinstance(value, tuple):
        return f"({', '.join(map(_plain, value))})"
    if type(value) in _LITERALS:
        return repr(value)
    text = repr(value)
    if " at 0x" in text:
        raise Undescribed(f"an argument of type {type(value).__name__}")
    return f"{type(value).__qualname__} {text}"


def _value_text(value: Any, storages: dict[int, int]) -> str:
    """What a node gives: tensors with how they lie in memory, which of them share it included."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value_text(item, storages) for item in value)}]"
    if not isinstance(value, torch.Tensor):
        return _plain(value)
    numbers: Sequence[Any] = (*value.shape, *(value.stride() if value.layout is torch.strided else ()))
    offset = value.storage_offset() if value.layout is torch.strided else 0
    if not all(type(number) is int for number in (*numbers, offset)):
        raise Undescribed("sizes that change")
    if value.layout is not torch.strided:
        return f"{value.dtype} {value.layout} {value.device} {numbers}"
    storage = storages.setdefault(value.untyped_storage()._cdata, len(storages))
    negated = f"{value.is_conj()} {value.is_neg()}"
    return f"{value.dtype} {value.device} {tuple(value.shape)} {value.stride()} {offset} in {storage} {negated}"


def _lowering_text(called: Any) -> str:
    """Which lowering a call has: another one is another graph."""
    lowering = LOWERINGS.get(called) if isinstance(called, OpOverload) else None
    return "" if lowering is None else f"{called} by {_function_text(lowering)}"


def _function_text(function: Callable[..., Any]) -> str:
    """A function with what it does, as far as its code says so."""
    digest = blake2b(digest_size=16)
    for part in _codes(function):
        digest.update(part)
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', '')}.{name} {digest.hexdigest()}"


def _codes(function: Callable[..., Any]) -> Iterator[bytes]:
    function = function.func if isinstance(function, partial) else function
    code = getattr(function, "__code__", None)
    if code is None:
        return
    yield code.co_code
    yield repr([const for const in code.co_consts if not hasattr(const, "co_code")]).encode()
