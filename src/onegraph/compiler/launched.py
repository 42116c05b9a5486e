"""What runs a plan: its kernels' code, its constants, and the recipes of what is made of parameters."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from typing import Any

import torch

from onegraph import _C
from onegraph.base.context import Context
from onegraph.compiler.library.recipe import Recipe, check_of, keeping
from onegraph.compiler.runtime.executor import Executor
from onegraph.compiler.target import Code, Loaded
from onegraph.ir.plan import ExecPlan


def launched(
    steps: ExecPlan,
    code: Code | Loaded,
    constants: Mapping[str, torch.Tensor],
    recipes: Mapping[str, Recipe],
    cx: Context,
    launch: Callable[..., Any],
    name: str,
    times: array[int] | None,
) -> _C.Plan | Executor:
    check = check_of(cx.config)
    kept = {name: keeping(recipe, check) for name, recipe in recipes.items()}
    run: _C.Plan | Executor = launch(steps, code.addresses, constants, cx.config.threads, code.keep, kept, name, times)
    return run


def graph_name(cx: Context, consumes: bool) -> str:
    """The name of a graph in the profile; backward graphs are those that consume their inputs."""
    return f"onegraph {'backward ' if consumes else ''}graph {cx.frame}"
