"""nn.Module: its own machinery is known, so that guards come from what the user's code reads, not from internals."""

from __future__ import annotations

import builtins
from typing import Any

import torch
from torch.utils.hooks import BackwardHook

from onegraph.capture.breaks import MODULE_BACKWARD_HOOK, GraphBreak
from onegraph.capture.calls.registry import policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.guards.source import NOWHERE, DictOf, Item, Source, Through
from onegraph.capture.interp.rests import Rest
from onegraph.capture.pyobject.contents import UNFILLED
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.torchlib import private
from onegraph.torchlib.module_hooks import backward_hook, forward_hooks, hooked_call, is_known, refuse_several
from onegraph.torchlib.private import has_global_hooks

TABLES = ("_parameters", "_buffers", "_modules")
#: Tables of hooks that take numbers for meaningless, and the others.
AROUND = ("_forward_hooks", "_forward_pre_hooks")
BACKWARD = ("_backward_hooks", "_backward_pre_hooks")
HOOKS = (*BACKWARD, *AROUND)
Module = torch.nn.Module


def has_hooks(module: Module) -> bool:
    state = module.__dict__
    return any(state.get(name) for name in HOOKS)


def got_hooks(attributes: dict[str, Any]) -> bool:
    """Whether the traced program itself has given the module a hook."""
    return any(isinstance(attributes.get(name), dict) and attributes[name] for name in HOOKS)


@policy(private.wrapped_call_impl, private.call_impl, passing=True)
def call(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any], rest: Rest | None) -> Any:
    """A module without hooks is its `forward`; one with hooks runs torch's own code, interpreted."""
    module = args[0]
    real = tracer.world.real(module)
    if real.__dict__.get("_backward_hooks") and real.__dict__.get("_is_full_backward_hook") is False:
        raise GraphBreak(MODULE_BACKWARD_HOOK, why="of `register_backward_hook`")
    attributes = tracer.world.attributes(module)
    if has_global_hooks() or got_hooks(attributes):
        return tracer.interpret(private.call_impl, args, kwargs)
    if has_hooks(real):
        source = tracer.world.origin.get(id(module))
        if source is None or not has_plain_hooks(tracer, real, attributes):
            return tracer.interpret(private.call_impl, args, kwargs)
        guard_hooks(tracer, real, source, BACKWARD)
        hooks = tracer.world.admit(forward_hooks(real.__dict__), Through(DictOf(source), forward_hooks))
        return tracer.interpret(hooked_call, (module, hooks, args[1:], kwargs), {})
    if real is not module:
        guard_hooks(tracer, real, tracer.world.origin[id(module)], HOOKS)
    return tracer.call(tracer.getattr(module, "forward"), args[1:], kwargs, rest)


@policy(BackwardHook)
def backward_hooks(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return tracer.interpret(backward_hook, args, kwargs)


@policy(refuse_several)
def refuse_several_tensors(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    raise GraphBreak(MODULE_BACKWARD_HOOK, why=f"whose {args[0]}")


def has_plain_hooks(tracer: Tracing, real: Module, attributes: dict[str, Any]) -> bool:
    """Whether a module has hooks around its calls only, of which none is called for errors, and at which the program
    has not looked."""
    state = real.__dict__
    others = any(state.get(name) for name in (*BACKWARD, "_forward_hooks_always_called"))
    known = (f"{name}_with_kwargs" in state and is_not_seen(tracer, state, attributes, name) for name in AROUND)
    return not others and all(known)


def is_not_seen(tracer: Tracing, state: dict[str, Any], attributes: dict[str, Any], name: str) -> bool:
    """Whether the program has not looked at a table of hooks, by the module or by a handle."""
    return attributes.get(name) is UNFILLED and id(state[name]) not in tracer.world.shadow_of


@policy(is_known)
def hooks_are_known(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    attributes = tracer.world.attributes(args[0])
    return is_not_seen(tracer, tracer.world.real(args[0]).__dict__, attributes, "_forward_hooks")


def guard_hooks(tracer: Tracing, module: Module, source: Source, names: tuple[str, ...]) -> None:
    """Guard that the module at this place has no such hooks, and that there are none for all modules."""
    tracer.world.guard(NOWHERE, "check", tracer.no_global_hooks)
    for name in names:
        if name in module.__dict__:
            tracer.world.guard(Item(DictOf(source), name), "length", 0)


@policy(Module.__getattr__)
def get(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Parameters, buffers and submodules, looked up directly. Torch itself keeps a name in one table only."""
    module, name = args
    attributes = tracer.world.attributes(module)
    tables = [tracer.world.lookup(attributes, table) for table in TABLES if dict.__contains__(attributes, table)]
    for table in tables:
        if dict.__contains__(table, name):
            return tracer.world.lookup(table, name)
    for table in tables:
        tracer.world.present(table, name)
    raise AttributeError(f"'{type(module).__name__}' object has no attribute '{name}'")


@policy(Module.__setattr__)
def set_(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Plain attributes and registered buffers directly; new parameters and modules by torch's own code."""
    module, name, value = args
    attributes = tracer.world.attributes(module)
    held = [
        table
        for table in TABLES
        if dict.__contains__(attributes, table) and name in attributes_of(tracer, attributes, table)
    ]
    plain = held == ["_buffers"] and (value is None or isinstance(value, torch.Tensor))
    if plain and not has_global_hooks():
        tracer.world.guard(NOWHERE, "check", tracer.no_global_hooks)
        tracer.setitem(tracer.world.lookup(attributes, "_buffers"), name, value)
    elif held or isinstance(value, Module) or builtins.isinstance(value, torch.nn.Parameter):
        tracer.interpret(Module.__setattr__, args, kwargs)
    else:
        tracer.write_generic(module, name, value)


def attributes_of(tracer: Tracing, attributes: dict[str, Any], table: str) -> dict[str, Any]:
    entries: dict[str, Any] = tracer.world.lookup(attributes, table)
    return entries


@policy(private.get_module_name)
def name(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    return type(args[0]).__name__
