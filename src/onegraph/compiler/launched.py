"""What runs a plan: its kernels' code, its constants, and the recipes of what is made of parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from onegraph import _C
from onegraph.base.context import Context
from onegraph.compiler.library.recipe import Recipe, check_of, keeping
from onegraph.compiler.runtime.executor import Executor
from onegraph.ir.plan import ExecPlan


def launched(
    steps: ExecPlan,
    addresses: tuple[int, ...],
    keep: object,
    constants: Mapping[str, torch.Tensor],
    recipes: Mapping[str, Recipe],
    cx: Context,
    launch: Callable[..., Any],
) -> _C.Plan | Executor:
    check = check_of(cx.config)
    kept = {name: keeping(recipe, check) for name, recipe in recipes.items()}
    run: _C.Plan | Executor = launch(steps, addresses, constants, cx.config.threads, keep, kept)
    return run
