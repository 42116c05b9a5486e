"""Backends whose failures are told apart from those of onegraph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onegraph.base.context import Context
from onegraph.base.errors import BackendError, OnegraphError

CompileGraph = Callable[[torch.fx.GraphModule, list[Any], Context], Any]


def reported(compile_graph: CompileGraph) -> CompileGraph:
    """The same, but whatever it raises is a BackendError: its failure, and not one of onegraph that can be mended."""

    def compile_or_report(module: torch.fx.GraphModule, examples: list[Any], cx: Context) -> Any:
        try:
            return compile_graph(module, examples, cx)
        except OnegraphError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise BackendError(f"the backend failed on the graph of {cx.frame}: {reason}") from error

    return compile_or_report
