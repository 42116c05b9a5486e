"""Hooks of modules. Those around a call are called by their order: the numbers under which a module has them are others
in each module, and mean nothing.

Backward hooks are said in terms of hooks of tensors: the hooks are given what torch's own class gives them.

    x ──► x' = x.view_as(x) ──► forward(x') ──► y ──► y' = y.view_as(y)

A hook of y' takes note of the gradient of the output; one of x', where all gradients of the input arrive that come from
the module, calls the hooks with both. Several inputs are views of one tensor, which has the hook.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

#: A hook, and whether it is given keyword arguments, too.
Hook = tuple[Callable[..., Any], bool]


def forward_hooks(state: Mapping[str, Any]) -> tuple[tuple[Hook, ...], tuple[Hook, ...]]:
    """The hooks in front of calls of a module, and those behind, by what the module holds."""
    return in_order(state, "_forward_pre_hooks"), in_order(state, "_forward_hooks")


def in_order(state: Mapping[str, Any], table: str) -> tuple[Hook, ...]:
    with_keywords = state[f"{table}_with_kwargs"]
    return tuple([(hook, number in with_keywords) for number, hook in state[table].items()])


def is_known(module: torch.nn.Module) -> bool:
    """Asked of a module whose hooks are known: whether the program has not looked at them since."""
    return False


def hooked_call(module: torch.nn.Module, hooks: Any, args: Any, kwargs: Any) -> Any:
    """`Module._call_impl` of a module with these hooks, and no others."""
    before, behind = hooks
    forward = module.forward
    for hook, takes_keywords in before:
        if takes_keywords:
            given = hook(module, args, kwargs)
            if given is not None:
                if not isinstance(given, tuple) or len(given) != 2:
                    raise RuntimeError(
                        f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {given}."
                    )
                args, kwargs = given
        else:
            given = hook(module, args)
            if given is not None:
                args = given if isinstance(given, tuple) else (given,)
    result = forward(*args, **kwargs)
    for hook, takes_keywords in behind if is_known(module) else in_order(vars(module), "_forward_hooks"):
        given = hook(module, args, kwargs, result) if takes_keywords else hook(module, args, result)
        if given is not None:
            result = given
    return result


def refuse_several(what: str) -> None:
    """Called where gradients of several tensors cannot come together, for which the hooks of a module wait."""


def backward_hook(module: torch.nn.Module, hooks: Sequence[Any], pre_hooks: Sequence[Any]) -> Any:
    """What `BackwardHook(module, hooks, pre_hooks)` makes, for the module's input and output.

    `call` is what it knows of one call: `inputs` and `outputs` count what goes in and comes out; `places` are those of
    inputs with gradients, which have these `sizes`; `place` is that of the output. `zeros` tells of inputs without
    gradients, for which torch's own node of autograd gives zeros.
    """
    call = SimpleNamespace(
        module=module, hooks=hooks, pre_hooks=pre_hooks, inputs=-1, places=[], sizes=[], zeros=[], outputs=-1, place=-1
    )
    call.grad_outputs = None
    return SimpleNamespace(setup_input_hook=partial(watch_inputs, call), setup_output_hook=partial(watch_output, call))


def watch_inputs(call: Any, args: tuple[Any, ...]) -> Any:
    call.inputs = len(args)
    places = places_of(args)
    if not places:
        return args
    given = [args[place] for place in places]
    if len(places) == 1:
        views = [given[0].view_as(given[0])]
        views[0].register_hook(partial(on_inputs, call))
    else:
        if not all(map(torch.Tensor.is_contiguous, given)) or len({tensor.dtype for tensor in given}) > 1:
            refuse_several("inputs are several tensors of other types, or not contiguous")
        joined = torch.cat([tensor.reshape(-1) for tensor in given])
        joined.register_hook(partial(on_inputs, call))
        views, start = [], 0
        for tensor in given:
            views.append(joined.narrow(0, start, tensor.numel()).view(tensor.shape))
            start += tensor.numel()
    items = list(args)
    for place, view in zip(places, views, strict=True):
        items[place] = view
        call.places.append(place)
        call.sizes.append(view.shape)
    tensors = [(n, arg) for n, arg in enumerate(args) if isinstance(arg, torch.Tensor) and n not in places]
    call.zeros.extend((n, arg.shape, arg.dtype, arg.device) for n, arg in tensors)
    return tuple(items)


def on_inputs(call: Any, gradient: Tensor) -> Any:
    """The gradients of the inputs are there: the module's hooks are called with them, and with those of the output."""
    if call.grad_outputs is None:  # the gradient has not come through the output
        return None
    items: list[Any] = [None] * call.inputs
    for place, size, dtype, device in call.zeros:
        items[place] = torch.zeros(size, dtype=dtype, device=device)
    start = 0
    for place, size in zip(call.places, call.sizes, strict=True):
        items[place] = gradient if len(call.sizes) == 1 else gradient.narrow(0, start, size.numel()).view(size)
        start += size.numel()
    found: Any = tuple(items)
    for hook in call.hooks:
        given = hook(call.module, found, call.grad_outputs)
        if given is None:
            continue
        if len(given) != len(found):
            raise RuntimeError(
                f"Backward hook returned an invalid number of grad_input, got {len(given)}, but expected {len(found)}"
            )
        found = given
    call.grad_outputs = None
    parts = [one_of(found, place) for place in call.places]
    return parts[0] if len(parts) == 1 else torch.cat([part.reshape(-1) for part in parts])


def watch_output(call: Any, result: Any) -> Any:
    results = result if isinstance(result, tuple) else (result,)
    call.outputs = len(results)
    places = places_of(results)
    if not places:
        return result
    if len(places) > 1:
        refuse_several("output is more than one tensor with gradients")
    items, call.place = list(results), places[0]
    items[call.place] = items[call.place].view_as(items[call.place])
    items[call.place].register_hook(partial(on_output, call))
    if not isinstance(result, tuple):
        return items[0]
    return tuple(items) if type(result) is tuple else type(result)(*items)


def on_output(call: Any, gradient: Tensor) -> Any:
    """The gradient of the output is there."""
    items: list[Any] = [None] * call.outputs
    items[call.place] = gradient
    found: Any = tuple(items)
    for hook in call.pre_hooks:
        given = hook(call.module, found)
        if given is None:
            continue
        if len(given) != len(found):
            raise RuntimeError(
                "Backward pre hook returned an invalid number of grad_output, "
                f"got {len(given)}, but expected {len(found)}"
            )
        found = given
    call.grad_outputs = found
    if not call.places:
        warnings.warn(NO_INPUTS, stacklevel=5)
        for hook in call.hooks:
            given = hook(call.module, (None,) * call.inputs, found)
            if given is not None and not (isinstance(given, tuple) and all(item is None for item in given)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires "
                    "gradient should always return None or None for all gradients."
                )
        call.grad_outputs = None
    return one_of(found, call.place)


NO_INPUTS = (
    "Full backward hook is firing when gradients are computed with respect to module outputs since no inputs require "
    "gradients. See https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module."
    "register_full_backward_hook for more details."
)


def places_of(values: Sequence[Any]) -> list[int]:
    """Where there are tensors of which gradients are recorded."""
    places = [n for n, value in enumerate(values) if isinstance(value, torch.Tensor) and value.requires_grad]
    return places if torch.is_grad_enabled() else []


def one_of(found: Sequence[Any], place: int) -> Tensor:
    gradient: Tensor | None = found[place]
    if gradient is None:
        raise RuntimeError("a backward hook of a module takes a gradient away, which compiled code does not do")
    return gradient
