"""Objects that say with code of their own what their class is are asked by the program, and not by the tracer."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph

asked: list[str] = []


class Asked:
    def __init__(self) -> None:
        object.__setattr__(self, "value", 3)

    def __getattribute__(self, name: str) -> Any:
        asked.append(name)
        return object.__getattribute__(self, name)

    def scale(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.value


class Posing:
    value = 4

    @property
    def __class__(self) -> type:
        asked.append("class")
        return int


class Hook:
    def __get__(self, owner: Any, cls: Any = None) -> Callable[[str], Any]:
        def getter(name: str) -> Any:
            asked.append(name)
            raise AttributeError(name)

        return getter


class Hooked:
    __getattribute__ = Hook()
    __getattr__ = Hook()


class Table(dict[str, int]):
    def __getattribute__(self, name: str) -> Any:
        asked.append(name)
        return super().__getattribute__(name)


def used(x: torch.Tensor, obj: Any) -> Any:
    obj.more = obj.scale(x).sum().item()
    held = {obj: [obj, 1]}
    for each in (obj,):
        held[each].append(bool(each))
    return obj.more, len(held[obj]), obj in held, obj == 3, f"{obj.value}"


def classified(x: torch.Tensor, obj: Any) -> Any:
    kinds = isinstance(obj, Asked), isinstance(obj, int), isinstance(obj, dict | str), isinstance(obj, (str, Posing))
    return kinds, type(obj).__name__, [obj][0] is obj


def shown(x: torch.Tensor, obj: Any) -> Any:
    return getattr(obj, "__class__", None), getattr(obj, "missing", None), hasattr(obj, "value")


def matched(x: torch.Tensor, obj: Any) -> Any:
    match obj:
        case int():
            return "a number"
        case {"a": value}:
            return value
        case Asked(value=value):
            return value


def across_a_break(x: torch.Tensor, obj: Any) -> Any:
    y = x + 1
    onegraph.graph_break()
    return y.sum().item(), [obj][0] is obj, len((obj, obj))


@pytest.mark.parametrize(
    "make", [Asked, Posing, Hooked, lambda: Table(a=1)], ids=["asked", "posing", "hooked", "table"]
)
@pytest.mark.parametrize("program", [used, classified, shown, matched, across_a_break])
def test_the_program_alone_asks(program: Callable[..., Any], make: Callable[[], Any]) -> None:
    outcomes = []
    for run in (program, onegraph.compile(program, backend="eager")):
        obj = make()
        asked.clear()
        results = []
        for _ in range(2):
            try:
                results.append(run(torch.ones(2), obj))
            except Exception as error:
                results.append(str(error))
        outcomes.append((results, list(asked)))
    assert outcomes[0] == outcomes[1]


def test_a_module_with_hooks_of_its_own() -> None:
    def program(x: torch.Tensor) -> Any:
        log: list[Any] = []

        class Hooking(types.ModuleType):
            def __getattribute__(self, name: str) -> Any:
                log.append(("get", name))
                return types.ModuleType.__getattribute__(self, name)

            def __setattr__(self, name: str, value: Any) -> None:
                log.append(("set", name, value))
                types.ModuleType.__setattr__(self, name, value)

            def __delattr__(self, name: str) -> None:
                log.append(("delete", name))
                types.ModuleType.__delattr__(self, name)

        module = Hooking("module")
        module.number = 12
        number = module.number
        del module.number
        return (x + number).sum().item(), log

    assert onegraph.compile(program, backend="eager")(torch.ones(2)) == program(torch.ones(2))


class Shared:
    number = 1


def shared() -> None:
    pass


@pytest.mark.parametrize(
    "write",
    [
        lambda module: types.ModuleType.__setattr__(module, "number", 2),
        lambda module: module.__setattr__("number", 2),
        lambda module: types.ModuleType.__delattr__(module, "number"),
        lambda module: module.__delattr__("number"),
        lambda module: module.__init__("another"),
        lambda module: object.__setattr__(shared, "number", module.number + 1),
        lambda module: type.__setattr__(Shared, "number", Shared.number + 1),
    ],
    ids=["set", "set-bound", "delete", "delete-bound", "init", "function", "class"],
)
def test_native_methods_that_write_write_once_in_each_call(write: Callable[[Any], Any]) -> None:
    def program(x: torch.Tensor, module: Any) -> torch.Tensor:
        y = x + 1
        write(module)
        return y

    compiled = onegraph.compile(program, backend="eager", options={"raise_compiler_errors": True})
    outcomes = []
    for run in (program, compiled):
        Shared.number = 1
        for _ in range(2):
            module = types.ModuleType("module")
            module.number = shared.number = 1  # type: ignore[attr-defined]
            run(torch.ones(2), module)
            outcomes.append((vars(module).get("number"), module.__name__, shared.number, Shared.number))  # type: ignore[attr-defined]
    assert outcomes[:2] == outcomes[2:]
