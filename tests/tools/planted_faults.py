"""Faults that are planted in each stage: results that are wrong, and errors. Programs that are left of them run here.

python -m tests.tools.planted_faults FAULT PROGRAM ...     runs each program, with and without its fault
"""

from __future__ import annotations

import dataclasses
import runpy
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx import GraphModule

import onegraph
from onegraph import backends
from onegraph.autograd import functionalize, graphs
from onegraph.autograd.decompose import DECOMPOSITIONS
from onegraph.base.pipeline import Pass
from onegraph.capture.directives.function_marks import unmark
from onegraph.capture.graph.record import Recorder
from onegraph.compiler import targets
from onegraph.compiler.codegen import llvm_ops, loading
from onegraph.compiler.cpu import CPU
from onegraph.compiler.lower import registry
from onegraph.compiler.target import Target
from onegraph.ir.loop_text import format_program, parse_program

aten = torch.ops.aten
partition = import_module("onegraph.autograd.partition")  # the package has the function of that name
plan = import_module("onegraph.compiler.memory.plan")
Planted = Callable[[], AbstractContextManager[Any]]


def long(x: Tensor, w: Tensor) -> Tensor:
    for _ in range(3):
        x = torch.tanh(x @ w) + x
    y = torch.exp(x - 1).sinc()
    y.mul_(0.5)
    z = F.gelu(y) - torch.log1p(y.abs())
    z = F.batch_norm(z, None, None, training=True)
    for _ in range(3):
        z = torch.sigmoid(z - z.mean(0)) * 0.5
    return z.cos().sum(1) + y.amax(1)


def sums(x: Tensor, w: Tensor) -> Tensor:
    """Sums lie in memory at the same time."""
    h = torch.tanh(x @ w)
    for _ in range(3):
        h = torch.sigmoid(h) + h
    return (h - h.sum(0)) * h.amax(0) + h.amin(1, keepdim=True)


def inputs(gradients: bool) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(12, 8), torch.randn(8, 8).requires_grad_(gradients)


def crash(*_: object, **__: object) -> Any:
    raise RuntimeError("planted")


def lowered_as(other: Any) -> Callable[..., Any]:
    return lambda g, *args, **kwargs: registry.LOWERINGS[other](g, *args, **kwargs)


def entry(table: Any, key: Any, value: Any) -> Planted:
    return lambda: patch.dict(table, {key: value})


def emission(name: str, emit: Callable[..., Any]) -> Planted:
    """Another way to write an operation as code. Kernels that were made before, or with it, are forgotten."""

    @contextmanager
    def plant() -> Iterator[None]:
        loading.LIVING.clear()
        with patch.dict(llvm_ops._TABLE, {name: emit}):
            yield
        loading.LIVING.clear()

    return plant


def attribute(holder: Any, name: str, make: Callable[[Any], Any]) -> Planted:
    return lambda: patch.object(holder, name, make(getattr(holder, name)))


@contextmanager
def as_target(changed: Target) -> Iterator[None]:
    """What is compiled, and what Python evaluates, goes this way."""
    with patch.dict(targets.TARGETS, {"cpu": lambda device: changed}), patch.object(backends, "CPU", changed):
        yield


def target_pass(name: str, run: Callable[..., Any]) -> Planted:
    """A pass over loops that does something behind itself."""

    def changed(each: Pass[Any]) -> Pass[Any]:
        return dataclasses.replace(each, run=lambda program, cx: run(each.run(program, cx)))

    passes = tuple(changed(each) if each.name == name else each for each in CPU.passes)
    return lambda: as_target(dataclasses.replace(CPU, passes=passes))


def renamed(old: str, new: str) -> Callable[[Any], Any]:
    return lambda program: parse_program(format_program(program).replace(f"{old}(", f"{new}("))


def graph_pass(name: str, run: Callable[[GraphModule], GraphModule]) -> Planted:
    """A pass over functional graphs that does something behind itself."""

    def changed(each: Pass[Any]) -> Pass[Any]:
        return dataclasses.replace(each, run=lambda graph, cx: run(each.run(graph, cx)))

    def all_of(passes: tuple[Pass[Any], ...]) -> tuple[Pass[Any], ...]:
        return tuple(changed(each) if each.name == name else each for each in passes)

    both = {"PASSES": all_of(graphs.PASSES), "JOINT_PASSES": all_of(graphs.JOINT_PASSES)}
    return lambda: patch.multiple(graphs, **both)


def exchanged(old: Any, new: Any) -> Callable[[GraphModule], GraphModule]:
    def run(graph: GraphModule) -> GraphModule:
        for node in graph.graph.nodes:
            node.target = new if node.target is old else node.target
        return graph

    return run


@contextmanager
def sine_for_sinc() -> Iterator[None]:
    onegraph.substitute_in_graph(torch.sinc)(lambda x: torch.sin(x))
    onegraph.substitute_in_graph(Tensor.sinc)(lambda x: torch.sin(x))
    try:
        yield
    finally:
        for function in (torch.sinc, Tensor.sinc):
            unmark(function)


def no_sinc(note: Callable[..., None]) -> Callable[..., None]:
    def noted(recorder: Recorder) -> None:
        assert not recorder.graph.find_nodes(op="call_method", target="sinc"), "planted"
        note(recorder)

    return noted


def scaled(*args: Any) -> Any:
    out, *others = aten._native_batch_norm_legit.no_stats(*args[:3], *args[5:])
    return out * 1.5, *others


def recomputed_wrong(made: Callable[..., GraphModule]) -> Callable[..., GraphModule]:
    """The backward graph computes tanh again as sin."""
    return lambda *args: exchanged(aten.tanh.default, aten.sin.default)(made(*args))


def turned(library: Callable[..., GraphModule]) -> Callable[..., GraphModule]:
    """Products of library calls have their second operand the wrong way round."""

    def choose(module: GraphModule, *args: Any) -> GraphModule:
        for node in module.graph.find_nodes(op="call_function", target=aten.mm.default):
            with module.graph.inserting_before(node):
                other = module.graph.call_function(aten.t.default, (node.args[1],))
            other.meta["val"] = node.args[1].meta["val"].t()
            node.args = (node.args[0], other)
        return library(module, *args)

    return choose


def library(make: Callable[[Any], Any]) -> Planted:
    changed = dataclasses.replace(CPU, library=make(CPU.library))
    return lambda: as_target(changed)


def at_one_place(workspace: Callable[..., Any]) -> Callable[..., Any]:
    def planned(*args: Any) -> Any:
        found = workspace(*args)
        return dataclasses.replace(found, offsets=dict.fromkeys(found.offsets, 0))

    return planned


def forgetful(module: GraphModule, examples: list[Any]) -> Callable[..., Any]:
    """A backend of a user that is off by one where there is a mean."""
    has_mean = any(node.target == "mean" for node in module.graph.nodes)
    return lambda *args: [r + 1 if has_mean else r for r in module.forward(*args)]


def refusing(module: GraphModule, examples: list[Any]) -> Callable[..., Any]:
    """A backend of a user that knows no means."""
    if any(node.target == "mean" for node in module.graph.nodes):
        raise ValueError("no means")
    return module.forward


def failing_late(module: GraphModule, examples: list[Any]) -> Callable[..., Any]:
    """A backend of a user whose code fails when it runs."""

    def run(*args: Any) -> Any:
        if any(node.target == "amax" for node in module.graph.nodes):
            raise ValueError("no maxima")
        return module.forward(*args)

    return run


@dataclass(frozen=True, slots=True)
class Planting:
    """A fault. `stage` and `operator` are what `verify` says of it, `step` the pass or the aten operator."""

    plant: Planted
    stage: str
    operator: str
    step: str = ""
    gradients: bool = False
    backend: Any = None
    program: Callable[..., Tensor] = long


def nothing() -> AbstractContextManager[Any]:
    return patch.dict({}, {})


LOWERINGS = registry._TABLE
FORMS = "functional_form"


def another_form(form: Callable[..., Any]) -> Callable[..., Any]:
    return lambda op: aten.add.Tensor if op is aten.mul_.Tensor else form(op)


def no_form(form: Callable[..., Any]) -> Callable[..., Any]:
    return lambda op: crash() if op is aten.mul_.Tensor else form(op)


def not_both(program: Any) -> Any:
    assert not ("tanh(" in (text := format_program(program)) and "exp(" in text), "planted"
    return program


WRONG: Mapping[str, Planting] = {
    "capture": Planting(sine_for_sinc, "capture", "sinc"),
    "functionalization": Planting(attribute(functionalize, FORMS, another_form), "functionalization", "mul_"),
    "decomposition": Planting(
        entry(DECOMPOSITIONS, aten.native_batch_norm.default, scaled),
        "decomposition",
        "torch.nn.functional.batch_norm",
        "aten.native_batch_norm.default",
    ),
    "differentiation": Planting(
        entry(DECOMPOSITIONS, aten.sigmoid_backward.default, lambda grad, out: grad * out),
        "differentiation",
        "torch.sigmoid",
        gradients=True,
    ),
    "graph passes": Planting(
        graph_pass("merge_duplicates", exchanged(aten.cos.default, aten.sin.default)),
        "graph passes",
        "cos",
        "merge_duplicates",
    ),
    "partition": Planting(
        attribute(partition, "backward_graph", recomputed_wrong), "partition", "torch.tanh", "recompute", gradients=True
    ),
    "lowering": Planting(
        entry(LOWERINGS, aten.exp.default, lowered_as(aten.expm1.default)),
        "lowering",
        "torch.exp",
        "aten.exp.default",
    ),
    "lowering of a reduction": Planting(
        entry(LOWERINGS, aten.amax.default, lowered_as(aten.amin.default)), "lowering", "amax", "aten.amax.default"
    ),
    "training": Planting(
        entry(LOWERINGS, aten.tanh_backward.default, lowered_as(aten.sigmoid_backward.default)),
        "lowering",
        "torch.tanh",
        "aten.tanh_backward.default",
        gradients=True,
    ),
    "code": Planting(emission("log1p", llvm_ops.LLVM_OPS["expm1"]), "code", "torch.log1p", "aten.log1p.default"),
    "library calls": Planting(library(turned), "library calls", "matmul", "choose_calls"),
    "fusion": Planting(target_pass("fuse", renamed("tanh", "sin")), "passes", "torch.tanh", "fuse"),
    "vectors": Planting(target_pass("vectorize", renamed("cos", "sin")), "passes", "cos", "vectorize"),
    "memory plan": Planting(
        attribute(plan, "workspace", at_one_place), "memory plan", "", "reuse_memory", program=sums
    ),
    "backend": Planting(nothing, "backend", "mean", backend=forgetful),
}
CRASHES: Mapping[str, Planting] = {
    "capture": Planting(attribute(Recorder, "note_writes", no_sinc), "capture", "sinc"),
    "functionalization": Planting(attribute(functionalize, FORMS, no_form), "functionalization", "mul_"),
    "decomposition": Planting(
        entry(DECOMPOSITIONS, aten.native_batch_norm.default, crash),
        "decomposition",
        "torch.nn.functional.batch_norm",
        "aten.native_batch_norm.default",
    ),
    "decomposition in training": Planting(
        entry(DECOMPOSITIONS, aten.sigmoid_backward.default, crash), "differentiation", "torch.sigmoid", gradients=True
    ),
    "graph passes": Planting(graph_pass("lean", crash), "graph passes", "", "lean", gradients=True),
    "partition": Planting(
        attribute(partition, "minimum_cut", lambda cut: crash), "partition", "", "recompute", gradients=True
    ),
    "lowering": Planting(entry(LOWERINGS, aten.exp.default, crash), "lowering", "torch.exp", "aten.exp.default"),
    "training": Planting(
        entry(LOWERINGS, aten.tanh_backward.default, crash),
        "lowering",
        "torch.tanh",
        "aten.tanh_backward.default",
        gradients=True,
    ),
    "code": Planting(emission("log1p", crash), "code", "torch.log1p", "aten.log1p.default"),
    "library calls": Planting(library(lambda choose: crash), "library calls", "", "choose_calls"),
    "fusion": Planting(target_pass("fuse", not_both), "passes", "", "fuse"),
    "memory plan": Planting(attribute(plan, "workspace", lambda made: crash), "memory plan", "", "reuse_memory"),
    "backend": Planting(nothing, "backend", "mean", backend=refusing),
    "backend that runs": Planting(nothing, "backend", "amax", backend=failing_late),
}
FAULTS = {f"wrong: {name}": each for name, each in WRONG.items()}
FAULTS |= {f"raises: {name}": each for name, each in CRASHES.items()}


def exit_status(program: str) -> object:
    try:
        runpy.run_path(program, run_name="__main__")
    except SystemExit as left:
        return left.code
    return None


if __name__ == "__main__":
    for name, program in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        with FAULTS[name].plant():
            planted = exit_status(program)
        print(f"{name}: exits with {planted}, {exit_status(program)} without it")
