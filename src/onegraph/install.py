"""`onegraph.install()`: programs and libraries that call `torch.compile` get onegraph's.

    onegraph.install()
    model = torch.compile(model)         # compiled here

    with onegraph.install():
        trainer.train()

`torch.compile`, what `torch.compiler` and `torch._dynamo` have that onegraph has too, and what is written to
`torch._dynamo.config`, `torch._inductor.config`, `torch._functorch.config` and `torch.compiler.config`. torch's own
compiler is not imported for it: where a program does, its names are replaced then. What was compiled before keeps what
compiled it.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import field
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import torch

from onegraph.backend_registry import Backend
from onegraph.base.dataclass import dataclass
from onegraph.base.errors import InvalidArgument
from onegraph.base.settings import LOGGER, config
from onegraph.compile import compile

#: The package, whose names are loaded when they are first used.
PUBLIC = sys.modules["onegraph"]
#: The same name for what means the same; the rest of torch's names work on what torch itself has compiled.
SHARED = frozenset(PUBLIC.__all__) - {
    "CompileError", "Config", "compile", "config", "is_compiling", "is_dynamo_compiling", "is_exporting",
}  # fmt: skip
COMPILERS = ("torch.compiler", "torch._dynamo")
CONFIGS = ("torch._dynamo.config", "torch._inductor.config", "torch._functorch.config", "torch.compiler.config")
DISABLE = ("torch._dynamo", "disable")
SET_SEVERAL = "_set_raw_values"


def torch_compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Backend | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    disable: bool = False,
    name: str | None = None,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
    dynamic_shapes: Any = None,
) -> Any:
    """`torch.compile` while onegraph is installed: `onegraph.compile` in torch's signature.

    Args:
        isolate_recompiles: do not use versions of other compiled functions: the option share_versions, turned around.
        shapes_spec, dynamic_shapes: refused; `onegraph.mark_dynamic` says it of a tensor.

    Raises:
        InvalidArgument: as `onegraph.compile` does.
    """
    if shapes_spec is not None or dynamic_shapes is not None:
        raise InvalidArgument("sizes are described by marks: onegraph.mark_dynamic(tensor, dim, min=..., max=...)")
    if isolate_recompiles:
        options = {**(options or {}), "share_versions": False}
    return compile(
        model,
        fullgraph=fullgraph,
        dynamic=dynamic,
        backend=backend,
        mode=mode,
        options=options,
        disable=disable,
        name=name,
        recompile_limit=recompile_limit,
    )


def disable_for(own: Callable[..., Any]) -> Callable[..., Any]:
    """`torch._dynamo.disable` while onegraph is installed; `own` is torch's.

    torch keeps what it makes of functions of its own, which it asks for with `wrapping=False`, beyond `uninstall`.
    """

    def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None, wrapping: bool = True) -> Any:
        if not wrapping:
            return own(fn, recursive, reason=reason, wrapping=False)
        return PUBLIC.disable(fn, recursive, reason=reason)

    return disable


@dataclass(slots=True)
class Installation:
    """What has been replaced: where, by which name, and what was there."""

    before: list[tuple[Any, str, Any]] = field(default_factory=list)
    watch: Watch | None = None

    def replace(self, owner: Any, name: str, value: Any) -> None:
        self.before.append((owner, name, vars(owner)[name]))
        setattr(owner, name, value)

    def module_is_there(self, name: str) -> None:
        """Replace what a module has, which has been imported."""
        module = sys.modules[name]
        if name in CONFIGS:
            self.listen(module)
            return
        for shared in sorted(SHARED & set(getattr(module, "__all__", ()))):
            ours = getattr(PUBLIC, shared)
            self.replace(module, shared, disable_for(module.disable) if (name, shared) == DISABLE else ours)

    def listen(self, module: ModuleType) -> None:
        """What is set in a module of settings is set here as well. (Each is of a class of its own.)"""
        kind = type(module)
        if kind.__setattr__ is object.__setattr__ or "__setattr__" in vars(kind):
            return
        own = kind.__setattr__

        @functools.wraps(own)
        def write(self: Any, name: str, value: Any) -> None:
            own(self, name, value)
            told(name, value)

        kind.__setattr__ = write  # type: ignore[method-assign]
        self.before.append((kind, "__setattr__", None))
        if hasattr(kind, SET_SEVERAL):  # what `patch` of torch 2.15 does
            setattr(kind, SET_SEVERAL, told_of_several(getattr(kind, SET_SEVERAL)))
            self.before.append((kind, SET_SEVERAL, None))

    def undo(self) -> None:
        for owner, name, value in reversed(self.before):
            if value is None:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
        self.before.clear()
        if self.watch in sys.meta_path:
            sys.meta_path.remove(self.watch)


def told_of_several(own: Callable[..., Callable[[], None]]) -> Callable[..., Callable[[], None]]:
    """A method that sets several settings of a module, and gives a function that puts them back."""

    @functools.wraps(own)
    def write(self: Any, changes: dict[str, Any], **how: Any) -> Callable[[], None]:
        def tell() -> None:
            for name in changes:
                told(name, getattr(self, name))

        put_back = own(self, changes, **how)
        tell()

        def undo() -> None:
            put_back()
            tell()

        return undo

    return write


def told(name: str, value: Any) -> None:
    """A setting of torch was set."""
    try:
        setattr(config, name, value)
    except InvalidArgument as error:  # torch has taken it; here it does nothing
        LOGGER.warning("%s", error)


class Watch(MetaPathFinder):
    """Tells of modules that are imported, when they are."""

    def __init__(self, names: frozenset[str], tell: Callable[[str], None]) -> None:
        self.names, self.tell = names, tell

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name not in self.names:
            return None
        self.names -= {name}  # the others on the path are asked now
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = Telling(spec.loader, functools.partial(self.tell, name))
        return spec


class Telling(Loader):
    """A loader that tells when it has loaded."""

    def __init__(self, loader: Loader, tell: Callable[[], None]) -> None:
        self.loader, self.tell = loader, tell

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        self.tell()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)


INSTALLED: list[Installation] = []


class install:  # noqa: N801 - a context manager in the spelling of a function
    """Put onegraph in the place of `torch.compile`. A function, and a context manager that undoes it at its end.

    A second call changes nothing, and its `with` block undoes nothing.
    """

    def __init__(self) -> None:
        self.own = not INSTALLED
        if not self.own:
            return
        made = Installation()
        INSTALLED.append(made)
        made.replace(torch, "compile", torch_compile)
        modules = (*COMPILERS, *CONFIGS)
        for name in modules:
            if name in sys.modules:
                made.module_is_there(name)
        made.watch = Watch(frozenset(modules) - sys.modules.keys(), made.module_is_there)
        sys.meta_path.insert(0, made.watch)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        if self.own:
            uninstall()


def uninstall() -> None:
    """Put torch's own names back. What was compiled meanwhile stays compiled."""
    while INSTALLED:
        INSTALLED.pop().undo()
