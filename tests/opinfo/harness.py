"""Compiles the samples of torch's operator database and compares with eager.

What eager itself does not repeat is not compared: eager also runs on memory that was filled with zeros and with ones
before, and elements in which the two differ are nobody's promise. (Results are compared with neither: that is done in a
dispatch mode, in which torch's `linalg.pinv` of complex numbers is wrong.) Random operators start from the same seed.
A result in a 16-bit type may also be what eager computes in float32: kernels round once, at the end.
A sample whose result depends on data breaks the graph; it must equal eager through the public way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, GraphModule
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map_only, tree_unflatten

import onegraph
from onegraph.autograd.graphs import FunctionalGraph, functional_graph
from onegraph.autograd.runtime import bind
from onegraph.base.context import Context
from onegraph.base.errors import UNEXPECTED, CompileError
from onegraph.torchlib.fake import DATA_DEPENDENT_ERRORS, UNSUPPORTED_ERRORS, FakeMode

Layout = Callable[[torch.Tensor], torch.Tensor]
Backend = Callable[[FunctionalGraph], tuple[Callable[..., Any], tuple[str, ...]]]

# What PyTorch's C++ says when an operator that is made of others looks at values, or needs a size as a number; and what
# a graph says that was made for another size that the data tell: its call runs as it was written.
READS_DATA = ("data is not allocated yet", "Cannot call numel() on tensor with symbolic sizes", UNEXPECTED)

SEED = 42  # what the database itself seeds its random operators with

SHORT = (torch.bfloat16, torch.float16)


@dataclass(slots=True)
class Report:
    """What became of the samples of one operator."""

    name: str
    equal: int = 0
    fallbacks: set[str] = field(default_factory=set)
    broken: list[str] = field(default_factory=list)  # samples whose result depends on data: capture breaks there

    @property
    def is_lowered(self) -> bool:
        return bool(self.equal) and not self.fallbacks and not self.broken


def run_graph_eagerly(graph: FunctionalGraph) -> tuple[Callable[..., Any], tuple[str, ...]]:
    """The functional graph, operator by operator; every result must be what its fake says."""
    output = next(iter(reversed(graph.module.graph.nodes)))
    fakes = [node.meta["val"] for node in output.args[0]]

    def run(*inputs: Any) -> Any:
        results = graph.module.forward(*inputs)
        for fake, result in zip(fakes, results, strict=True):
            if isinstance(result, torch.Tensor):
                assert layout(result) == layout(fake), ("fake and real differ", layout(fake), layout(result))
        return results

    return run, ()


def layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What the compiler believes of a fake; strides of an empty tensor and of dimensions of size 1 mean nothing."""
    strides = [s for s, n in zip(tensor.stride(), tensor.shape, strict=True) if n > 1] if tensor.numel() else []
    return tuple(tensor.shape), strides, tensor.dtype, tensor.device.type


def dtype_for(op: Any) -> torch.dtype | None:
    """float32 if the operator takes it, else the first type that it does."""
    supported = op.supported_dtypes("cpu")
    order = (torch.float32, torch.int64, torch.bool, torch.complex64, torch.float64)
    return next((dtype for dtype in order if dtype in supported), None)


def samples(op: Any, dtype: torch.dtype, limit: int | None = None) -> Iterator[Any]:
    for count, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=False)):
        if limit is not None and count >= limit:
            return
        yield sample


def check_operator(
    op: Any,
    backend: Backend,
    limit: int | None = None,
    symbolic: bool = False,
    dtype: torch.dtype | None = None,
    layout: Layout | None = None,
) -> Report:
    """Compile every sample and compare; raises AssertionError where a result differs from eager's.

    With a `layout`, tensors are laid out by it, and only samples that it changes are looked at.
    """
    report = Report(op.formatted_name)
    torch.manual_seed(0)
    for number, sample in enumerate(samples(op, dtype or dtype_for(op), limit)):
        arguments = (sample.input, tuple(sample.args), dict(sample.kwargs))
        if layout is not None:
            plain, arguments = arguments, tree_map_only(torch.Tensor, layout, arguments)
            if strides(plain) == strides(arguments) or is_refused(op.op, arguments):
                continue
        try:
            try:
                fallbacks = check_call(op.op, arguments, backend, symbolic)
            except Exception as error:
                reason = why_broken(error)
                if not reason:
                    raise
                report.broken.append(reason)
                check_publicly(op.op, arguments)
                continue
        except Exception as error:
            error.add_note(f"{op.formatted_name}, sample {number}: {sample.summary()}")
            raise
        report.equal += 1
        report.fallbacks.update(fallbacks)
    return report


def is_refused(function: Callable[..., Any], arguments: Any) -> bool:
    """Whether eager raises: not every operator takes every layout."""
    flat, inputs = on_tensors(function, arguments)
    return isinstance(Eager(flat, inputs).result, Exception)


def transposed(tensor: torch.Tensor) -> torch.Tensor:
    """The same elements with the first and the last dimension exchanged in memory; indices stay as they are."""
    if tensor.layout is not torch.strided or tensor.dim() < 2 or not tensor.numel() or not tensor.is_floating_point():
        return tensor
    return tensor.transpose(0, -1).contiguous().transpose(0, -1)


def channels_last(tensor: torch.Tensor) -> torch.Tensor:
    """The same elements with the second dimension innermost in memory, for images and volumes."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    if tensor.layout is not torch.strided or tensor.dim() not in formats:
        return tensor
    return tensor.contiguous(memory_format=formats[tensor.dim()])


def strides(arguments: Any) -> list[tuple[int, ...]]:
    tensors = [leaf for leaf in tree_leaves(arguments) if isinstance(leaf, torch.Tensor)]
    return [tensor.stride() for tensor in tensors if tensor.layout is torch.strided]


def why_broken(error: Exception) -> str:
    """Why this call cannot be a part of a graph; empty if the error is none of that kind."""
    if isinstance(error, (*DATA_DEPENDENT_ERRORS, *UNSUPPORTED_ERRORS, CompileError)):
        return type(error).__name__
    return "reads data" if any(text in str(error) for text in READS_DATA) else ""


def check_call(
    function: Callable[..., Any], arguments: Any, backend: Backend, symbolic: bool = False
) -> tuple[str, ...]:
    """Compile one call and compare results and written arguments with eager; returns the operators that fell back."""
    flat, inputs = on_tensors(function, arguments)
    actual_inputs = copies(inputs)
    fake = FakeMode()
    fakes = [fake.fakeify(tensor, symbols(fake, tensor, n) if symbolic else {}) for n, tensor in enumerate(inputs)]
    graph = functional_graph(as_module(flat, len(inputs)), fakes, Context())
    run, fallbacks = backend(graph)
    actual: Any
    with torch.no_grad():
        eager = Eager(flat, inputs)
        torch.manual_seed(SEED)
        try:
            actual = bind(graph.spec, run)(*actual_inputs)
        except Exception as error:  # eager must have raised the same
            actual = error
    eager.compare(actual, actual_inputs)
    return fallbacks


def check_publicly(function: Callable[..., Any], arguments: Any) -> None:
    """Compare one call with eager through `onegraph.compile`: results, written arguments, and exceptions."""
    flat, inputs = on_tensors(function, arguments)
    actual_inputs = copies(inputs)
    actual: Any
    with torch.no_grad():
        eager = Eager(flat, inputs)
        torch.manual_seed(SEED)
        try:
            actual = onegraph.compile(flat, options={"raise_compiler_errors": True})(*actual_inputs)
        except Exception as error:  # eager must have raised the same
            actual = error
    onegraph.reset()
    eager.compare(actual, actual_inputs)


def on_tensors(
    function: Callable[..., Any], arguments: Any
) -> tuple[Callable[..., tuple[Any, ...]], list[torch.Tensor]]:
    """The call as a function of its tensors, with a flat result, and the tensors."""
    leaves, spec = tree_flatten(arguments)
    positions = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def flat(*tensors: torch.Tensor) -> tuple[Any, ...]:
        filled = list(leaves)
        for position, tensor in zip(positions, tensors, strict=True):
            filled[position] = tensor
        first, args, kwargs = tree_unflatten(filled, spec)
        return tuple(tree_flatten(function(first, *args, **kwargs))[0])

    return flat, [leaves[position] for position in positions]


class Filled(TorchDispatchMode):
    """New memory holds a number."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if "empty" in func._schema.name and result.layout is torch.strided and not result.is_quantized:
            result.fill_(self.number)
        return result


class Eager:
    """What eager makes of a call: results and written arguments, or an exception."""

    def __init__(self, function: Callable[..., Any], inputs: list[torch.Tensor]) -> None:
        self.function = function
        self.inputs = inputs
        self.result = self._run(copies(inputs))
        self.filled = [self._run(copies(inputs), Filled(number)) for number in (0, 1)]

    def _run(self, inputs: list[torch.Tensor], mode: Filled | None = None) -> tuple[Any, ...] | Exception:
        torch.manual_seed(SEED)
        try:
            with torch.no_grad(), mode or nullcontext():
                return (*self.function(*inputs), *inputs)
        except Exception as error:  # the compiled call must raise the same
            return error

    def compare(self, results: Any, written: list[torch.Tensor]) -> None:
        """Raise AssertionError where a compiled call did something else."""
        expected = self.result
        if isinstance(results, Exception) and not isinstance(expected, Exception):
            raise results
        if isinstance(expected, Exception):
            assert (type(results), str(results)) == (type(expected), str(expected)), (results, expected)
            return
        actual = (*results, *written)
        assert len(actual) == len(expected)
        for position, (ours, theirs, *runs) in enumerate(zip(actual, expected, *self.filled, strict=True)):
            if isinstance(theirs, torch.Tensor):
                self._compare_tensors(position, ours, theirs, *runs)
            else:
                assert type(ours) is type(theirs)
                assert ours == theirs or (ours != ours and theirs != theirs), (ours, theirs)

    def _compare_tensors(
        self, position: int, ours: torch.Tensor, theirs: torch.Tensor, one: torch.Tensor, other: torch.Tensor
    ) -> None:
        assert layout_of_result(ours) == layout_of_result(theirs), (layout_of_result(ours), layout_of_result(theirs))
        if ours.layout is not torch.strided:
            ours, theirs, one, other = (tensor.to_dense() for tensor in (ours, theirs, one, other))
        known = (one == other) | ((one != one) & (other != other))
        ours, theirs = ours[known], theirs[known]
        if ours.dtype in SHORT and not is_close(ours, theirs):
            theirs = self._in_float32()[position].to(theirs.dtype)[known]
        assert_close(ours, theirs)

    def _in_float32(self) -> tuple[Any, ...]:
        widened = [x.float() if x.dtype in SHORT else x for x in copies(self.inputs)]
        result = self._run(widened)
        assert isinstance(result, tuple), result
        return result


def layout_of_result(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What of a result must be as in eager, besides its elements."""
    strides = tensor.stride() if tensor.layout is torch.strided and tensor.numel() else ()
    return type(tensor), tensor.layout, tensor.device, tensor.dtype, tensor.shape, strides


def is_close(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    try:
        assert_close(ours, theirs)
    except AssertionError:
        return False
    return True


def assert_close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    tolerance = 2e-2 if theirs.dtype in SHORT else 1e-5
    torch.testing.assert_close(ours, theirs, equal_nan=True, rtol=tolerance, atol=tolerance)


def symbols(fake: FakeMode, tensor: torch.Tensor, number: int) -> dict[int, torch.SymInt]:
    """A symbol for every size of an input that may have one."""
    return {dim: fake.sizes.new(n, f"s{number}_{dim}") for dim, n in enumerate(tensor.shape) if n > 1}


def copies(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """The same tensors, strides and offsets in memory of their own."""
    made = []
    for tensor in tensors:
        if tensor.layout is not torch.strided:
            made.append(tensor.clone())
            continue
        storage = tensor.untyped_storage().clone()
        copy = torch.empty(0, dtype=tensor.dtype).set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())
        copy = copy.conj() if tensor.is_conj() else copy
        made.append(torch._neg_view(copy) if tensor.is_neg() else copy)
    return made


def as_module(function: Callable[..., Any], inputs: int) -> GraphModule:
    """A captured graph of one node that calls the function."""
    graph = Graph()
    placeholders = [graph.placeholder(f"x{i}") for i in range(inputs)]
    graph.output(graph.call_function(function, tuple(placeholders)))
    return GraphModule({}, graph)


def operators() -> list[Any]:
    """Every operator that runs on the CPU."""
    named = sorted(op_db, key=lambda op: op.formatted_name)
    return [op for op in named if dtype_for(op) is not None and not op.name.startswith("jiterator")]
