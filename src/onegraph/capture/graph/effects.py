"""What a finished graph does besides computing its outputs, for where a call of it fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from onegraph.base.context import Context
from onegraph.capture.graph.fallback import Fallback
from onegraph.capture.graph.record import GraphInput, Recorder
from onegraph.capture.symbolic.generator_states import SavedStates
from onegraph.torchlib import private
from onegraph.torchlib.collectives import NAMESPACES
from onegraph.torchlib.custom_function import CustomFunction
from onegraph.torchlib.data_sizes import is_expected
from onegraph.torchlib.hooked import gradients_given
from onegraph.torchlib.parameters import parameter
from onegraph.torchlib.private import VMAP, set_grad_enabled
from onegraph.torchlib.regions import Region
from onegraph.torchlib.settings import CHOOSING, setting_of
from onegraph.torchlib.state import enter_inference, exit_inference
from onegraph.torchlib.transforms import OPENING_LEVELS

#: Functions in a graph that open a state which the graph closes again.
OPENING = frozenset({private.enter_autocast, enter_inference, VMAP.increment_native, *OPENING_LEVELS, *CHOOSING})
#: Functions of our own in a graph whose effects are known.
KNOWN = frozenset({*CHOOSING, enter_inference, exit_inference})
#: Methods that change a tensor without writing to it.
MARKING = frozenset({"requires_grad_", "retain_grad", "register_hook", "backward"})

#: Functions of ours that do nothing but compute.
QUIET = frozenset({is_expected, gradients_given, parameter})


def fallback_of(
    recorder: Recorder,
    used: Sequence[GraphInput],
    outputs: int,
    grad_enabled: bool,
    unexpected: Callable[[], object],
    generators: SavedStates,
    cx: Context,
) -> Fallback:
    """The fallback of a finished graph with the inputs `used` and this number of outputs; what is told where sizes that
    only the data say are not what the graph is made for; the states of the generators that the frame draws from."""
    effects, nodes = recorder.fake.effects, recorder.graph.nodes
    repeatable = not effects.unknown and not any(is_marking(node) for node in nodes)
    written = tuple(index for index, given in enumerate(used) if given.written is not None)
    opening = any(node.target in OPENING for node in nodes)
    settings = dict.fromkeys(setting_of(node.target, node.args) for node in nodes if node.target in CHOOSING)
    modes = [grad_enabled, *(node.args[0] for node in nodes if node.target is set_grad_enabled)]
    last = bool(modes[-1])
    return Fallback(
        cx=cx,
        grad_enabled=grad_enabled,
        grad_after=last,
        repeatable=repeatable,
        written=written,
        random=effects.random,
        opening=opening,
        settings=tuple(settings),
        outputs=outputs,
        collectives=tuple(place_of(node) for node in nodes if is_collective(node)),
        unexpected=unexpected,
        generators=generators,
    )


def is_collective(node: torch.fx.Node) -> bool:
    """Whether the node communicates. (What waits for it belongs to it.)"""
    namespace, _, name = str(node.target).partition(".")
    return namespace in NAMESPACES and not name.startswith("wait_tensor")


def place_of(node: torch.fx.Node) -> tuple[str, int, str, str]:
    """The line of the program that a node is of: file, line, function and text."""
    at = node.meta.get("location")
    return ("", 0, "", "") if at is None else (at.filename, at.line, at.function, at.source_line())


def is_marking(node: torch.fx.Node) -> bool:
    """Whether the node may do what no schema tells of: it calls a function of the program, or sets an attribute."""
    if node.op == "call_method":
        return node.target in MARKING
    own = node.op == "call_function" and callable(node.target) and not is_of_torch(node.target)
    own = own and node.target not in QUIET and node.target not in KNOWN
    own = own and not isinstance(node.target, Region | CustomFunction)
    return own or node.target is setattr


def is_of_torch(target: Any) -> bool:
    module = getattr(target, "__module__", None) or ""
    return module.partition(".")[0] in ("torch", "builtins", "_operator", "math", "")
