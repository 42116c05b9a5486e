"""Keeps torch's own Python operators from importing the stock compiler, and distributed tensors.

Torch wraps its reference operators (`torch._refs`, used as meta kernels and decompositions) in a function that, when
first called, imports the stock compiler in order to exclude them from it. The wrapper looks for an already excluded
version on the function it wraps; `prepare` puts the function itself there.

When torch's C++ code asks a fake for its device, it first imports `torch.distributed.tensor` (and sympy with it) to see
whether the fake is one of those, which takes as long as a small compilation. It does not where a rule for this question
and this class is registered; the rule says what the class itself would.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from types import CellType, FunctionType
from typing import Any

import torch

from onegraph.base.locks import Lock
from onegraph.torchlib.private import (
    FakeTensor,
    decomposition_table,
    meta_table,
    operator_registry,
    without_compiler,
)

_LOCK = Lock()
_PREFIXES = ("torch._refs", "torch._prims", "torch._decomp", "torch._meta_registrations")
_EXCLUDED = "__dynamo_disable"  # the attribute where torch's wrapper looks
_WRAPPER_CODE = without_compiler(lambda: None).__code__  # one code object for every wrapper


def prepare() -> None:
    """Make every wrapped operator callable without the stock compiler. Costs a few milliseconds, once."""
    with _LOCK:  # of threads that compile first, at the same time
        _prepare()


@cache
def _prepare() -> None:
    device = torch.ops.prim.device.default
    rules = operator_registry.find(device.__qualname__).torch_dispatch_rules
    if rules.find(FakeTensor) is None:  # an interrupt may have ended an earlier attempt
        rules.register(FakeTensor, _device)
    seen: set[int] = set()
    pending = [value for value in _operators() if isinstance(value, FunctionType)]
    while pending:
        function = pending.pop()
        if id(function) in seen:
            continue
        seen.add(id(function))
        held = {
            name: cell.cell_contents
            for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
            if not _is_empty(cell)
        }
        if function.__code__ is _WRAPPER_CODE and not hasattr(held["fn"], _EXCLUDED):
            setattr(held["fn"], _EXCLUDED, held["fn"])
        pending += [value for value in held.values() if isinstance(value, FunctionType)]


def _device(cls: type, func: Any, types: Any, args: tuple[FakeTensor], kwargs: Any) -> torch.device:
    fake = args[0]
    return torch.device("meta") if fake.fake_mode.in_kernel_invocation else fake.fake_device


def _is_empty(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 (raises where the cell is empty)
    except ValueError:
        return True
    return False


def _operators() -> Iterator[Any]:
    for name, module in list(sys.modules.items()):
        if name.startswith(_PREFIXES):
            yield from vars(module).values()
    yield from decomposition_table.values()
    yield from meta_table.values()
