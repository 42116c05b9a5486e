"""`onegraph.export`: a program as one graph, with its parameters, for sizes that are described.

batch = onegraph.Dim("batch", min=1, max=64)
program = onegraph.export(model, (x,), dynamic_shapes={"x": {0: batch}})
program(x)
program.save("model.zip")
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any, overload

import torch

from onegraph import _C
from onegraph.base.arguments import check_suspending, check_target
from onegraph.base.config import Config
from onegraph.base.context import Context
from onegraph.base.dim import Dim, DimHint
from onegraph.base.errors import CompileError, GraphBreakError, InvalidArgument
from onegraph.base.events import Location
from onegraph.base.settings import config
from onegraph.base.stack import with_room
from onegraph.base.work import work
from onegraph.capture.calls.registry import policy
from onegraph.capture.capture_frame import capture
from onegraph.capture.captured import GRAPH, Capture, Failing, FrameStart
from onegraph.capture.directives.hatches import beside
from onegraph.capture.residual.code import compile_residual
from onegraph.capture.symbolic.shape_policy import History, ShapePolicy
from onegraph.capture.symbolic.size_marks import mark_dynamic, maybe_mark_dynamic
from onegraph.capture.translate import run_as_written
from onegraph.compile import EVENTS, written
from onegraph.export.dims import Leaf, check_program, declared, leaves_with_dims, unique
from onegraph.export.program import ConstantInput, ExportedProgram, Input, SizeOutput, TensorInput
from onegraph.export.storage import module_over
from onegraph.torchlib.private import tree_flatten, tree_flatten_with_path, tree_unflatten
from onegraph.torchlib.state import saving_plainly

__all__ = ["ExportedProgram", "export"]

ATOMS = (type(None), bool, int, float, complex, str)
UNFLATTEN = "_unflatten"
EXPORTING = object()  # among the globals of the function that is traced for an export


def is_exporting() -> bool:
    """Whether the program is being exported. That is never so while it is compiled, or runs."""
    return False


@policy(is_exporting, torch.compiler.is_exporting)
def is_exporting_inside_of_a_trace(tracer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return tracer.frames[0].globals.get("_exporting") is EXPORTING


@overload
def export(function: Callable[..., Any], *, dynamic_shapes: Any = None) -> Callable[..., ExportedProgram]: ...
@overload
def export(
    function: Callable[..., Any],
    args: tuple[Any, ...] | None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
) -> ExportedProgram: ...
@beside
def export(
    function: Callable[..., Any],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *more: Any,
    dynamic_shapes: Any = None,
    **named: Any,
) -> Any:
    """Capture a function or a module as one graph, for arguments like these.

    The old spelling of torch is accepted: `export(f)(x, y)`, of which `graph, guards = ...` takes the parts.

    Args:
        function: a function, method or module.
        args, kwargs: a tuple and a dict of example arguments. Tensors in tuples, lists, dicts and other trees that
            `torch.utils._pytree` knows are inputs; numbers, texts and the like are constants of the program.
        dynamic_shapes: which sizes are not those of the examples: by parameter (a dict, or a tuple), in the structure
            of the argument, for a tensor a dict by dimension or a tuple. A size is an `onegraph.Dim` (or one of
            `torch.export`), `Dim.AUTO`, `Dim.DYNAMIC`, `Dim.STATIC`, a number or None.

    Returns:
        An `ExportedProgram`.

    Raises:
        GraphBreakError: at the line that keeps the program from being one graph.
        ConstraintViolationError: where the program needs of a size what `dynamic_shapes` does not say.
        CompileError: where the program does more than computing a result, or its result is none that a program gives.
        InvalidArgument: for an argument that is not accepted.
    """
    check_target(function)
    check_suspending(function)
    target = written(function)
    if args is None and kwargs is None and not more and not named:
        return functools.partial(export_call, target, dynamic_shapes)
    if not isinstance(args, tuple) or more or named or not isinstance(kwargs, Mapping | None):
        raise InvalidArgument("export expects a tuple of arguments and a dict of named ones, or none: export(f)(x, y)")
    return exported(target, args, dict(kwargs or {}), dynamic_shapes)


@beside
def export_call(target: Callable[..., Any], dynamic_shapes: Any, /, *args: Any, **kwargs: Any) -> ExportedProgram:
    """`export(target)(*args, **kwargs)`"""
    return exported(target, args, kwargs, dynamic_shapes)


def exported(
    target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any
) -> ExportedProgram:
    called = target.forward if isinstance(target, torch.nn.Module) else target
    paths, in_spec = tree_flatten_with_path((args, kwargs))
    leaves = leaves_with_dims(called, paths, dynamic_shapes)
    conditions = declared(leaves)
    for leaf in leaves:
        if not isinstance(leaf.value, (torch.Tensor, *ATOMS)):
            kind = type(leaf.value).__qualname__
            raise InvalidArgument(f"the argument {leaf.name} is of type {kind}: a program takes tensors and constants")
    examples = marked(leaves)
    function = flat(target, leaves, args, kwargs)
    cx = Context(config.over(Config.from_environment()), EVENTS)
    start = FrameStart(function, function.__code__, tuple(examples.values()))
    policy = ShapePolicy(History(), False, shared=False)
    with work():
        captured = captured_whole(start, cx, policy)
        found = captured.assumptions.conditions().each
        needed = [each.text for each in found if not any(step[0] == "stride" for step in each.steps)]
        needed = [text for text in dict.fromkeys(needed) if text not in conditions]
        check_program(needed, leaves)
        try:
            graph, results, out_spec = assembled(captured, function, target, leaves, examples)
        finally:
            if captured.graph is not None:
                captured.graph.release()
    guards = tuple(captured.assumptions.texts())
    inputs = tuple(inputs_of(leaves))
    return ExportedProgram(graph, inputs, (*conditions, *needed), guards, tuple(kwargs), in_spec, out_spec, results)


def marked(leaves: Sequence[Leaf]) -> dict[str, torch.Tensor]:
    """The tensors among the arguments, as tensors of their own that are marked with what was said of their sizes."""
    made: dict[int, torch.Tensor] = {}
    found: dict[str, torch.Tensor] = {}
    for leaf in leaves:
        if not isinstance(leaf.value, torch.Tensor):
            continue
        if id(leaf.value) not in made:
            alias = made[id(leaf.value)] = leaf.value.detach().requires_grad_(leaf.value.requires_grad)
            found[leaf.name] = alias
        for dim, said in leaf.dims.items():
            root = said if isinstance(said, Dim) else None
            if isinstance(said, DimHint) and said.kind == "AUTO":
                maybe_mark_dynamic(made[id(leaf.value)], dim)
            else:
                low, high = (root.min, root.max) if root is not None else (None, None)
                mark_dynamic(made[id(leaf.value)], dim, min=low, max=high)
    return found


def flat(target: Callable[..., Any], leaves: Sequence[Leaf], args: Any, kwargs: Any) -> FunctionType:
    """A function of the tensors among the arguments, each once, that calls the target."""
    first: dict[int, str] = {}
    names: dict[str, Any] = {}
    texts: list[str] = []
    for leaf in leaves:
        if isinstance(leaf.value, torch.Tensor):
            texts.append(first.setdefault(id(leaf.value), leaf.name))
        else:
            texts.append(unique(leaf.name, {*names, *first.values()}))
            names[texts[-1]] = leaf.value
    name = getattr(target, "__name__", type(target).__name__)
    short = "self" if isinstance(target, torch.nn.Module) else name if name.isidentifier() else "function"
    called = unique(short, {*names, *first.values()})
    rest = iter(texts)
    positional = [f"{tree_text(value, rest, names)}, " for value in args]
    keywords = [f"{key!r}: {tree_text(value, rest, names)}, " for key, value in kwargs.items()]
    given = f"{''.join(positional)}**{{{''.join(keywords)}}}"
    source = f"def exported({', '.join(first.values())}):\n    return {called}({given})"
    names |= {"__name__": f"export of {name}", "_exporting": EXPORTING, called: target, UNFLATTEN: tree_unflatten}
    exec(compile(source, f"<export of {name}>", "exec"), names)
    made: FunctionType = names["exported"]
    return made


def tree_text(value: Any, leaves: Iterator[str], names: dict[str, Any]) -> str:
    """An expression that makes an argument of its leaves."""
    if type(value) in (tuple, list):
        inside = "".join(f"{tree_text(item, leaves, names)}, " for item in value)
        return f"({inside})" if type(value) is tuple else f"[{inside}]"
    if type(value) is dict and all(type(key) in ATOMS for key in value):
        return f"{{{''.join(f'{key!r}: {tree_text(item, leaves, names)}, ' for key, item in value.items())}}}"
    inner, spec = tree_flatten(value)
    if len(inner) == 1 and inner[0] is value:
        return next(leaves)
    names[f"{UNFLATTEN}{len(names)}"] = spec
    return f"{UNFLATTEN}([{', '.join(next(leaves) for _ in inner)}], {UNFLATTEN}{len(names) - 1})"


def captured_whole(start: FrameStart, cx: Context, policy: ShapePolicy) -> Capture:
    """The capture of a call, which is one graph and has no effects."""
    cx = cx.for_frame(Location(start.code.co_filename, 1, start.code.co_name))
    flushing = _C.flush_denormals(False)
    try:
        with saving_plainly():
            outcome = with_room(capture, start, cx, True, policy)
    except GraphBreakError as error:
        error.__traceback__ = None
        raise
    finally:
        _C.flush_denormals(flushing)
    if isinstance(outcome, Failing):
        run_as_written(start)
        raise GraphBreakError(outcome.broken)
    if not isinstance(outcome, Capture):
        raise CompileError("export", outcome.reason)
    if outcome.effects:
        raise CompileError("export", f"the program does more than computing a result: {'; '.join(outcome.effects)}")
    return outcome


def assembled(
    captured: Capture,
    function: FunctionType,
    target: Any,
    leaves: Sequence[Leaf],
    examples: Mapping[str, torch.Tensor],
) -> tuple[torch.fx.GraphModule, tuple[int | SizeOutput | tuple[Any], ...], Any]:
    """The graph over all tensors among the arguments; what each leaf of the result is; the tree of the result."""
    graph = torch.fx.Graph()
    new: dict[torch.fx.Node, Any] = {}
    first: dict[int, torch.fx.Node] = {}
    for leaf in leaves:
        if isinstance(leaf.value, torch.Tensor):
            node = graph.placeholder(leaf.name)
            first.setdefault(id(leaf.value), node)
    by_name = {leaf.name: leaf for leaf in leaves}
    inputs = {id(example): first[id(by_name[name].value)] for name, example in examples.items()}
    held: dict[str, torch.Tensor] = {}
    values: list[torch.fx.Node] = []
    if captured.graph is not None:
        given = iter(captured.graph.examples)
        for node in captured.graph.module.graph.nodes:
            if node.op == "placeholder":
                example = next(given)
                new[node] = inputs.get(id(example)) or state_node(graph, target, held, example)
            elif node.op == "output":
                values = [new[each] for each in node.args[0]]
            else:
                new[node] = graph.node_copy(node, new.__getitem__)
                new[node].meta = {}
                if node.op == "get_attr":
                    held[node.target] = getattr(captured.graph.module, node.target)
    result, fakes, made = run_residual(captured, function, examples, len(values))
    known = {id(fake): inputs[id(example)] for fake, example in zip(fakes, examples.values(), strict=True)}
    known |= {id(output): node for output, node in zip(made, values, strict=True)}
    found, out_spec = tree_flatten(result)
    outputs: list[torch.fx.Node] = []
    results: list[int | SizeOutput | tuple[Any]] = []
    for leaf in found:
        if isinstance(leaf, torch.Tensor):
            outputs.append(known.get(id(leaf)) or state_node(graph, target, held, leaf))
            results.append(len(outputs) - 1)
        elif isinstance(leaf, torch.SymInt):
            symbols = captured.assumptions.symbols
            assert symbols is not None
            results.append(SizeOutput(symbols.size_expression(leaf)))
        elif isinstance(leaf, ATOMS):
            results.append((leaf,))
        else:
            raise CompileError("export", f"the result has an object of type {type(leaf).__qualname__}")
    graph.output(tuple(outputs))
    return module_over(held, graph), tuple(results), out_spec


def state_node(graph: torch.fx.Graph, target: Any, held: dict[str, torch.Tensor], value: torch.Tensor) -> torch.fx.Node:
    """The node that reads a tensor which is no argument: a parameter or buffer by its name, or a constant."""
    name = next((name for name, other in held.items() if other is value), None) or state_name(target, held, value)
    if name not in held:
        held[name] = value
    with graph.inserting_before(next((n for n in graph.nodes if n.op not in ("placeholder", "get_attr")), None)):
        return graph.get_attr(name)


def state_name(target: Any, held: Mapping[str, torch.Tensor], value: torch.Tensor) -> str:
    if isinstance(target, torch.nn.Module):
        for name, other in (*target.named_parameters(), *target.named_buffers()):
            if other is value:
                return name
    return unique("constant", {*held})


def run_residual(
    captured: Capture, function: FunctionType, examples: Mapping[str, torch.Tensor], count: int
) -> tuple[Any, list[Any], list[torch.Tensor]]:
    """The result of the program in terms of stand-ins: the fakes of the inputs, and a tensor for each output."""
    made = [torch.empty(0) for _ in range(count)]
    fakes = list(examples.values())
    if captured.graph is not None:
        fakes = [captured.graph.fakes.fakeify(example) for example in fakes]
    consts = [(lambda *inputs: tuple(made)) if value is GRAPH else value for value in captured.consts]
    code = compile_residual(captured.code, captured.body, captured.nonlocals, consts)[0]
    return FunctionType(code, function.__globals__)(*fakes), fakes, made


def inputs_of(leaves: Sequence[Leaf]) -> list[Input]:
    first: dict[int, str] = {}
    found: list[Input] = []
    for leaf in leaves:
        if not isinstance(leaf.value, torch.Tensor):
            found.append(ConstantInput(leaf.name, leaf.value))
            continue
        sizes = tuple(None if dim in leaf.dims else size for dim, size in enumerate(leaf.value.shape))
        other = first.setdefault(id(leaf.value), leaf.name)
        same = None if other == leaf.name else other
        found.append(TensorInput(leaf.name, leaf.value.dtype, leaf.value.device, sizes, same))
    return found
