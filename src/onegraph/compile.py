"""The driver: `onegraph.compile`, which brings the capture of programs and the backends together.

function --capture--> graph --backend--> what runs it
"""

from __future__ import annotations

import copy
import functools
import itertools
import logging
from collections.abc import Callable, Mapping
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack, overload

import torch

from onegraph import _C
from onegraph.backend_registry import Backend, find_backend, keeping_of
from onegraph.base.arguments import (
    check_dynamic,
    check_options,
    check_suspending,
    check_switch,
    check_target,
    check_text,
    suspending,
)
from onegraph.base.config import Config
from onegraph.base.events import Events
from onegraph.base.late import late_module
from onegraph.base.settings import Layers
from onegraph.base.work import work
from onegraph.capture.callable_roots import root_function, write_signature
from onegraph.capture.directives import function_marks as marks
from onegraph.capture.directives.hatches import beside, module_with_call
from onegraph.capture.directives.skipped_code import is_skipped
from onegraph.capture.directives.stance import remember_compiled
from onegraph.capture.graph.recording import is_recording
from onegraph.capture.hook import REGIONS, Region
from onegraph.torchlib.announced import join
from onegraph.torchlib.private import call_impl

if TYPE_CHECKING:
    from onegraph.capture.directives import handlers as policy
    from onegraph.capture.resume.resume_function import forget_dead
else:
    forget_dead = late_module("onegraph.capture.resume.resume_function").forget_dead
    policy = late_module("onegraph.capture.directives.handlers")

#: The stream that every region emits to; tools subscribe to it.
EVENTS = Events()
LOGGER = logging.getLogger("onegraph")
SUSPENDING = "onegraph.compile got %s, which runs eagerly"
_made = itertools.count(1)
_FORGET_EVERY = 256  # regions; what is known of the code of dropped ones goes then
F = TypeVar("F", bound=Callable[..., Any])


class Keywords(TypedDict, total=False):
    """The arguments of `compile` besides its target."""

    fullgraph: bool
    dynamic: bool | None
    backend: str | Backend | None
    mode: str | None
    options: Mapping[str, Any] | None
    disable: bool
    name: str | None
    recompile_limit: int | None
    nopython: bool


@overload
def compile(target: F, **keywords: Unpack[Keywords]) -> F: ...
@overload
def compile(target: None = None, **keywords: Unpack[Keywords]) -> Callable[[F], F]: ...


@beside
def compile(
    target: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Backend | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    disable: bool = False,
    name: str | None = None,
    recompile_limit: int | None = None,
    nopython: bool = False,
) -> Any:
    """Compile a function, method or module. Also a decorator, with or without arguments.

    Args:
        target: what to compile; None returns a decorator with the other settings.
        fullgraph: raise `GraphBreakError` unless the whole call is one graph. What is compiled with `fullgraph=True`
            must break no graph also where other compiled code calls it; False says nothing there.
        dynamic: None makes sizes symbolic when they change, True from the start, False never.
        backend: one of `list_backends()`, or a callable `(graph_module, example_inputs) -> callable`; None is what
            `onegraph.config.backend` says. `stock:NAME` is a backend of torch's own compiler, if that is imported.
        mode: "default", "reduce-overhead", "max-autotune" or "max-autotune-no-cudagraphs". The second and third are
            `options={"cuda_graphs": True}`.
        options: values for fields of `onegraph.Config`, for this region only.
        disable: return the target as it is.
        name: what a compiled function says its `__name__` is.
        recompile_limit: the option of that name.
        nopython: the old name of `fullgraph`.

    Returns:
        A function with the same signature; for a module, a module of the same class that shares its state. What is
        compiled already is compiled anew from what it was made of. A generator function or an async function comes back
        as it is, and a warning says so.

    Raises:
        InvalidArgument: for an argument that is not accepted; the message says what is.
    """
    check_switch("fullgraph", fullgraph)
    check_switch("disable", disable)
    check_switch("nopython", nopython)
    fullgraph = fullgraph or nopython
    check_dynamic(dynamic)
    check_text("name", name)
    if recompile_limit is not None:
        options = {**(options or {}), "recompile_limit": recompile_limit}
    layers = Layers(Config.from_environment(), check_options(mode, options))
    if backend is None:
        backend = layers.now().backend
    compiler = find_backend(backend)
    settings: dict[str, Any] = {"fullgraph": fullgraph, "dynamic": dynamic, "backend": backend}
    settings |= {"mode": mode, "options": options, "name": name}
    if target is None:
        return functools.partial(compile, disable=disable, **settings)
    check_target(target)
    if disable:
        return target
    if fullgraph:
        check_suspending(target)
    if suspending(target):
        LOGGER.warning(SUSPENDING, suspending(target))
        return target
    target = written(target)
    join()
    region = Region(compiler, layers, EVENTS, fullgraph, dynamic, keeping_of(compiler))
    if next(_made) % _FORGET_EVERY == 0:
        forget_dead()
    is_module = isinstance(target, torch.nn.Module)
    compiled = compile_module(target, region, settings) if is_module else compile_callable(target, region, settings)
    remember_compiled(target, compiled)
    return compiled


def compile_fx(graph: torch.fx.GraphModule, **settings: Any) -> Callable[..., Any]:
    """A graph of another capture as a function that is compiled with these settings."""
    made = torch.fx.GraphModule(graph, graph.graph)  # torch's own may write its code at the first call
    compiled: Callable[..., Any] = compile(made.forward, **settings)

    def run(*inputs: Any) -> Any:  # torch looks behind what is compiled here, and calls what it was made of
        return compiled(*inputs)

    return run


def written(target: Any) -> Any:
    """What a compiled function, method or module was made of: it is compiled once, as is said last."""
    while True:
        method = target if type(target) is MethodType else None
        found: Any = target if method is None else method.__func__
        if isinstance(found, CompiledModule) and "onegraph_original" in vars(type(found)):
            target = type(found).onegraph_original
        elif type(found) is _C.Region and "onegraph_region" in vars(found):
            target = found.__wrapped__ if method is None else MethodType(found.__wrapped__, method.__self__)
        else:
            return target


def told(compiled: Any) -> dict[str, Any]:
    """What `compile` was told of a compiled function, method or module, besides the target."""
    found: Any = compiled.__func__ if type(compiled) is MethodType else compiled
    return {**(found.onegraph_settings if isinstance(found, CompiledModule) else found.onegraph_maker.keywords)}


def compile_callable(target: Callable[..., Any], region: Region, settings: dict[str, Any]) -> Any:
    """The target behind the frame hook, with its name, signature and documentation."""
    function = target.__func__ if isinstance(target, MethodType) else target
    compiled: Any
    if isinstance(function, FunctionType) and is_skipped(function.__code__) is None:
        compiled = _C.Region(target, region.context)
    else:
        name = getattr(target, "__name__", type(target).__name__)
        compiled = _C.Region(root_function(target, name), region.context)
    functools.update_wrapper(compiled, target, updated=())
    if settings["name"] is not None:
        compiled.__name__ = settings["name"]
    compiled.onegraph_region = region
    compiled.onegraph_maker = functools.partial(compile, **settings)
    return compiled


class CompiledModule:
    """Mixed in over the class of a compiled module: calls go through the frame hook, everything else is the module's.

    The compiled module shares the original's `__dict__`: attributes, parameters, `state_dict` keys, `train()` and
    `eval()` are one and the same. It pickles and copies as the original with its settings.
    """

    onegraph_original: torch.nn.Module
    onegraph_settings: dict[str, Any]
    #: What a call of a compiled module means inside of another compiled region: it is a part of that region.
    __onegraph_inline__ = call_impl

    def __reduce__(self) -> Any:
        return rebuild_module, (type(self).onegraph_original, type(self).onegraph_settings)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    def __copy__(self) -> Any:
        return rebuild_module(copy.copy(type(self).onegraph_original), type(self).onegraph_settings)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return rebuild_module(copy.deepcopy(type(self).onegraph_original, memo), type(self).onegraph_settings)


def rebuild_module(original: torch.nn.Module, settings: dict[str, Any]) -> Any:
    return compile(original, **settings)


def compile_module(original: torch.nn.Module, region: Region, settings: dict[str, Any]) -> torch.nn.Module:
    cls = type(original)
    call: Any = _C.Region(root_function(original, cls.__name__), region.context)
    write_signature(call, original)
    call.__qualname__ = cls.__qualname__  # in the profile
    call.onegraph_region = region
    facts = {"onegraph_original": original, "onegraph_settings": settings, "onegraph_region": region}
    if isinstance(cls.forward, FunctionType):
        facts["forward"] = compiled_forward(original, cls.forward, region)
    return module_with_call(original, call, CompiledModule, facts)


def compiled_forward(original: torch.nn.Module, forward: FunctionType, region: Region) -> Callable[..., Any]:
    """The method `forward` of a compiled module.

    It is a function of the same place and globals as the module's own: tools of torch look for one, and at its source.
    """
    compiled: Any = _C.Region(forward, region.context)
    functools.update_wrapper(compiled, forward, updated=())
    compiled.onegraph_region = region

    def call_forward(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        return compiled(original, *args, **kwargs)

    of = forward.__code__
    code = call_forward.__code__.replace(
        co_filename=of.co_filename, co_firstlineno=of.co_firstlineno, co_name=of.co_name
    )
    made = FunctionType(code, forward.__globals__, of.co_name, None, call_forward.__closure__)
    return functools.update_wrapper(made, forward)


def is_compiling() -> bool:
    """Whether the code that asks is being traced. False when it runs."""
    return is_recording()


marks.mark(is_compiling, policy.say_compiling)


@beside
def reset() -> None:
    """Forget everything that was compiled, in all regions."""
    with work():
        for region in list(REGIONS):
            region.reset()
        forget_dead()
        _C.release_memory()
