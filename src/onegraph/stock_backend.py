"""onegraph as a backend of torch's own compiler: `torch.compile(model, backend="onegraph")`, with no import of ours.

Torch captures the program; its graphs are differentiated and compiled here. A graph is a Python function, so it is
compiled like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from onegraph.compile import compile_fx


def backend(
    graph: torch.fx.GraphModule,
    examples: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """What runs a graph.

    Args:
        graph: as torch has captured it.
        examples: its inputs. Sizes that are symbols there are symbols here, from the first call on.
        mode, options: as for `onegraph.compile`.

    Raises:
        InvalidArgument: for a mode or an option that does not exist.
    """
    dynamic = True if any(isinstance(example, torch.SymInt) for example in examples) else None
    return compile_fx(graph, dynamic=dynamic, backend="native", mode=mode, options=options)
