"""Backends by name: ours, those that a program registers, those of other packages, and those of torch's own compiler.

onegraph.compile(f, backend="native")              ours
onegraph.compile(f, backend="mine")                of `register_backend`, or an entry point of another package
onegraph.compile(f, backend="stock:inductor")      torch's own, where the program has imported torch._dynamo
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from onegraph.base.arguments import check_backend
from onegraph.base.context import Context
from onegraph.base.dataclass import dataclass
from onegraph.base.errors import BackendError, InvalidArgument
from onegraph.base.keeping import Keeping
from onegraph.base.late import late_module
from onegraph.capture.directives.hatches import beside
from onegraph.capture.reported import reported
from onegraph.torchlib.stock_sizes import has_symbolic_sizes, stock_compiler, stock_tracing

if TYPE_CHECKING:
    from onegraph.backends import GraphCompiler

Backend = Callable[[torch.fx.GraphModule, list[Any]], Callable[..., Any]]
B = TypeVar("B", bound=Backend)

#: Those of our own: the name of the function in `onegraph.backends`, which is imported when a graph is compiled.
OURS = {"eager": "eager", "aot_eager": "aot_eager", "aot_eager_decomp_partition": "aot_eager", "lowered": "lowered"}
OURS |= dict.fromkeys(("native", "inductor", "onegraph"), "native")
BACKENDS: dict[str, GraphCompiler] = {
    name: getattr(late_module("onegraph.backends"), function) for name, function in OURS.items()
}

_RELOADING = late_module("onegraph.reloading")
#: Those whose graphs can be kept on disk.
KEEPING: tuple[tuple[GraphCompiler, Keeping], ...] = (
    (BACKENDS["native"], Keeping(_RELOADING.identity, _RELOADING.reloaded)),
    (BACKENDS["eager"], Keeping(lambda config: "eager", _RELOADING.reloaded)),
)


def keeping_of(compiler: GraphCompiler) -> Keeping | None:
    """What keeps the graphs of a backend on disk; None if it says nothing of that."""
    return next((keeping for known, keeping in KEEPING if known is compiler), None)


GROUP = "torch_dynamo_backends"  #: the entry points that torch's compiler finds backends by
STOCK = "stock:"
NOT_IMPORTED = (
    "the backend '{}' is one of torch's own compiler, which onegraph does not import: write `import torch._dynamo` in "
    "the program"
)
_registered: dict[str, GraphCompiler] = {}


def register_backend(backend: B, name: str | None = None) -> B:
    """Make a backend known by name (its own name by default); usable as a decorator.

    Args:
        backend: called with an `fx.GraphModule` and the list of its real example inputs; returns a callable that takes
            the same flat inputs and returns a tuple or list of the graph's outputs.
        name: what `backend=` names it by. It goes before a backend of the same name.

    Raises:
        InvalidArgument: for what cannot be called, or has no name.
    """
    if not callable(backend):
        raise InvalidArgument(f"register_backend expects a callable (graph_module, example_inputs), got {backend!r}")
    key = name if name is not None else getattr(backend, "__name__", None)
    if not isinstance(key, str):
        raise InvalidArgument("register_backend needs a name: the backend has none of its own")
    _registered[key] = foreign(backend)
    return backend


@beside
def list_backends() -> list[str]:
    """The names that `backend=` accepts.

    Those of torch's own compiler, `stock:NAME`, are among them where the program has imported it.
    """
    stock = stock_registry()
    of_stock = [] if stock is None else [f"{STOCK}{name}" for name in stock.list_backends(())]
    return sorted({*BACKENDS, *_registered, *packages(), *of_stock} - {f"{STOCK}onegraph"})


def find_backend(backend: str | Backend) -> GraphCompiler:
    """What `backend=` says, as a graph compiler. A package that has it is imported when it first compiles.

    Raises:
        InvalidArgument: for what is no backend, and for a backend of torch's compiler where that is not imported.
    """
    if not isinstance(backend, str):
        check_backend(backend, BACKENDS)
        return foreign(backend)
    known = _registered.get(backend) or BACKENDS.get(backend)
    if known is not None:
        return known
    if backend.startswith(STOCK) and stock_registry() is None:
        raise InvalidArgument(NOT_IMPORTED.format(backend))
    check_backend(backend, list_backends())
    if backend.startswith(STOCK):
        load = functools.partial(stock_registry().lookup_backend, backend.removeprefix(STOCK))
        return Named(conventional(load), backend)
    return Named(conventional(packages()[backend].load), backend)


@dataclass(frozen=True, slots=True)
class Named:
    """A graph compiler that was made of what `backend=` says."""

    compile_graph: GraphCompiler
    said: str | Backend

    def __call__(self, module: torch.fx.GraphModule, examples: list[Any], cx: Context) -> Callable[..., Any]:
        return self.compile_graph(module, examples, cx)


def said(compile_graph: GraphCompiler) -> str | Backend:
    """What `backend=` says for a graph compiler that it has named."""
    known = next((name for name, each in BACKENDS.items() if each is compile_graph), None)
    return compile_graph.said if isinstance(compile_graph, Named) else known or "native"


def packages() -> dict[str, EntryPoint]:
    """The backends of installed packages. One that has the name of a backend of ours is not among them."""
    return {point.name: point for point in entry_points(group=GROUP) if point.name not in BACKENDS}


def stock_registry() -> Any:
    """Where torch's own compiler has its backends; None where the program has not imported it."""
    compiler = stock_compiler()
    return None if compiler is None else compiler.backends.registry


def foreign(backend: Backend) -> GraphCompiler:
    """A user's backend `(graph_module, example_inputs)` as a graph compiler.

    Where sizes are symbols, it may trace the graph again with torch's compiler, which is told so.
    """

    def compile_graph(module: torch.fx.GraphModule, examples: list[Any], cx: Context) -> Callable[..., Any]:
        if stock_compiler() is None or not has_symbolic_sizes(module):
            return backend(module, examples)
        with stock_tracing(module, examples, given=False):
            return backend(module, examples)

    return Named(reported(compile_graph), backend)


def conventional(load: Callable[[], Backend]) -> GraphCompiler:
    """A backend that was written for torch's compiler: it is given what that would give it, where it is loaded."""

    def compile_graph(module: torch.fx.GraphModule, examples: list[Any], cx: Context) -> Callable[..., Any]:
        backend = load()
        if not callable(backend):
            raise BackendError(f"the entry point of the backend is {backend!r}, which cannot be called")
        if stock_compiler() is None:
            return backend(module, examples)
        with stock_tracing(module, examples) as graph:
            compiled = backend(graph.module, graph.examples)
        return graph.around(compiled)

    return reported(compile_graph)
