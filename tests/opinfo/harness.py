"""Compiles the samples of torch's operator database and compares with eager."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, GraphModule
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_unflatten

from onegraph.autograd import FunctionalGraph, functional_graph
from onegraph.autograd.runtime import bind
from onegraph.base.context import Context
from onegraph.base.errors import CompileError
from onegraph.torchlib.fake import DATA_DEPENDENT_ERRORS, UNSUPPORTED_ERRORS, FakeMode

Backend = Callable[[FunctionalGraph], tuple[Callable[..., Any], tuple[str, ...]]]

# Their results are memory that nobody has written to: only sizes and types can be compared.
UNINITIALIZED = frozenset({"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"})


# What PyTorch's C++ says when an operator that is made of others looks at values, or needs a size as a number.
READS_DATA = ("data is not allocated yet", "Cannot call numel() on tensor with symbolic sizes")

SEED = 42  # what the database itself seeds its random operators with


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
) -> Report:
    """Compile every sample and compare; raises AssertionError where a result differs from eager's."""
    report = Report(op.formatted_name)
    torch.manual_seed(0)
    for number, sample in enumerate(samples(op, dtype or dtype_for(op), limit)):
        arguments = (sample.input, tuple(sample.args), dict(sample.kwargs))
        try:
            fallbacks = check_call(op.op, arguments, backend, op.name in UNINITIALIZED, symbolic)
        except (*DATA_DEPENDENT_ERRORS, *UNSUPPORTED_ERRORS, CompileError) as error:
            report.broken.append(type(error).__name__)
            continue
        except Exception as error:
            if any(text in str(error) for text in READS_DATA):
                report.broken.append("reads data")
                continue
            error.add_note(f"{op.formatted_name}, sample {number}: {sample.summary()}")
            raise
        report.equal += 1
        report.fallbacks.update(fallbacks)
    return report


def check_call(
    function: Callable[..., Any], arguments: Any, backend: Backend, uninitialized: bool, symbolic: bool = False
) -> tuple[str, ...]:
    """Compile one call and compare results and written arguments with eager; returns the operators that fell back."""
    leaves, spec = tree_flatten(arguments)
    positions = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    shape: list[Any] = []

    def flat(*tensors: torch.Tensor) -> tuple[Any, ...]:
        filled = list(leaves)
        for position, tensor in zip(positions, tensors, strict=True):
            filled[position] = tensor
        first, args, kwargs = tree_unflatten(filled, spec)
        results, result_spec = tree_flatten(function(first, *args, **kwargs))
        shape[:] = [result_spec]
        return tuple(results)

    inputs = [leaves[position] for position in positions]
    expected_inputs, actual_inputs = copies(inputs), copies(inputs)
    fake = FakeMode()
    fakes = [fake.fakeify(tensor, symbols(fake, tensor, n) if symbolic else {}) for n, tensor in enumerate(inputs)]
    graph = functional_graph(as_module(flat, len(inputs)), fakes, Context())
    run, fallbacks = backend(graph)
    with torch.no_grad():
        torch.manual_seed(SEED)
        expected = flat(*expected_inputs)
        torch.manual_seed(SEED)
        actual = bind(graph.spec, run, flat)(*actual_inputs)
    compare(expected, actual, uninitialized)
    compare(expected_inputs, actual_inputs, False)
    return fallbacks


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


def compare(expected: Any, actual: Any, uninitialized: bool) -> None:
    assert len(expected) == len(actual)
    for ours, theirs in zip(actual, expected, strict=True):
        if not isinstance(theirs, torch.Tensor):
            assert ours == theirs or (ours != ours and theirs != theirs), (ours, theirs)
            continue
        assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
        assert ours.dtype == theirs.dtype, (ours.dtype, theirs.dtype)
        assert ours.stride() == theirs.stride() or theirs.numel() == 0, ("strides", ours.stride(), theirs.stride())
        if not uninitialized:
            tolerance = 2e-2 if theirs.dtype in (torch.bfloat16, torch.float16) else 1e-5
            torch.testing.assert_close(ours, theirs, equal_nan=True, rtol=tolerance, atol=tolerance, check_stride=False)


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
