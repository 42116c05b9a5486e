"""An exported program: a graph with its parameters, the trees of arguments and result, what calls are held to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from onegraph.base.dataclass import dataclass
from onegraph.base.errors import ConstraintViolationError, InvalidArgument
from onegraph.export.conditions import evaluate, holds, sizes_in
from onegraph.export.storage import read, write
from onegraph.torchlib.private import tree_flatten, tree_unflatten


@dataclass(frozen=True, slots=True)
class TensorInput:
    """A tensor among the arguments. `sizes` has None where they may change; `same_as` names the argument that it is."""

    name: str
    dtype: torch.dtype
    device: torch.device
    sizes: tuple[int | None, ...]
    same_as: str | None = None

    def check(self, value: Any) -> None:
        """Raises:
        InvalidArgument: for what is no such tensor.
        ConstraintViolationError: for other sizes.
        """
        if not isinstance(value, torch.Tensor):
            raise InvalidArgument(f"{self.name} is to be a tensor, got {value!r}")
        if value.dtype != self.dtype or value.device != self.device:
            raise InvalidArgument(
                f"{self.name} is to be {self.dtype} on {self.device}, got {value.dtype} on {value.device}"
            )
        if value.dim() != len(self.sizes):
            raise ConstraintViolationError(f"{self.name} is to have {len(self.sizes)} dimensions, got {value.dim()}")
        for dim, size in enumerate(self.sizes):
            if size is not None and value.shape[dim] != size:
                raise ConstraintViolationError(f"{self.name}.size({dim}) is to be {size}, got {value.shape[dim]}")


@dataclass(frozen=True, slots=True)
class ConstantInput:
    """An argument that is a number, a text or the like: the program was exported for this value."""

    name: str
    value: Any

    def check(self, value: Any) -> None:
        """Raises:
        InvalidArgument: for another value.
        """
        if type(value) is not type(self.value) or repr(value) != repr(self.value):  # 0.0 is not -0.0, and NaN is NaN
            raise InvalidArgument(f"{self.name} is to be {self.value!r}, got {value!r}")


@dataclass(frozen=True, slots=True)
class SizeOutput:
    """A result that is computed from the sizes of inputs."""

    text: str


Input = TensorInput | ConstantInput


class ExportedModule(torch.nn.Module):
    """The program as a module with the signature of what was exported. Its parameters are those of the program."""

    def __init__(self, program: ExportedProgram) -> None:
        super().__init__()
        self.graph_module = program.graph_module
        object.__setattr__(self, "program", program)

    @property
    def graph(self) -> torch.fx.Graph:
        return self.graph_module.graph

    @property
    def code(self) -> str:
        return self.graph_module.code

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.program(*args, **kwargs)  # type: ignore[operator]


@dataclass(frozen=True, slots=True, eq=False)
class ExportedProgram:
    """What `onegraph.export` makes. Calling it checks the arguments, and runs the graph operator by operator.

    Attributes:
        graph_module: takes the tensors among the arguments, in their order; returns a tuple of tensors. Parameters and
            buffers are attributes of it, by their names in the module that was exported, and shared with that.
        inputs: what is known of each argument.
        conditions: what the sizes of arguments are held to, such as `x.size(0) == y.size(0)`.
        guards: all that the trace has assumed of the world, as text.
        keywords: the named arguments, in the order that the tree has them in.
        in_spec, out_spec: the trees of `(args, kwargs)` and of the result (`torch.utils._pytree`).
        results: for each leaf of the result the number of an output of the graph, a `SizeOutput`, or a constant in a
            tuple.
    """

    graph_module: torch.fx.GraphModule
    inputs: tuple[Input, ...]
    conditions: tuple[str, ...]
    guards: tuple[str, ...]
    keywords: tuple[str, ...]
    in_spec: Any
    out_spec: Any
    results: tuple[int | SizeOutput | tuple[Any], ...]

    @property
    def graph(self) -> torch.fx.Graph:
        return self.graph_module.graph

    @property
    def state_dict(self) -> dict[str, torch.Tensor]:
        """Parameters and buffers, by their names."""
        return dict(self.graph_module.state_dict())

    def module(self) -> ExportedModule:
        """The program as a module."""
        return ExportedModule(self)

    def __iter__(self) -> Iterator[Any]:
        """The graph and the guards, as torch's old `export` gives them: `graph, guards = export(f)(x)`."""
        return iter((self.module(), self.guards))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the program.

        Raises:
            InvalidArgument: for arguments of another structure or type.
            ConstraintViolationError: for tensors of other sizes.
        """
        ordered = {name: kwargs[name] for name in self.keywords if name in kwargs}
        leaves, spec = tree_flatten((args, {**ordered, **kwargs}))
        if spec != self.in_spec:
            raise InvalidArgument(f"the program takes arguments of the structure {self.in_spec}, got {spec}")
        shapes = self.check(leaves)
        tensors = [leaf for leaf, given in zip(leaves, self.inputs, strict=True) if isinstance(given, TensorInput)]
        outputs = self.graph_module(*tensors)
        return tree_unflatten([self._result(each, outputs, shapes) for each in self.results], self.out_spec)

    def check(self, leaves: Sequence[Any]) -> dict[str, tuple[int, ...]]:
        """Hold the leaves of the arguments to what the program was exported for; the sizes of the tensors."""
        for leaf, given in zip(leaves, self.inputs, strict=True):
            given.check(leaf)
        named = {given.name: leaf for leaf, given in zip(leaves, self.inputs, strict=True)}
        for given in self.inputs:
            if isinstance(given, TensorInput) and given.same_as and named[given.name] is not named[given.same_as]:
                raise InvalidArgument(f"{given.name} and {given.same_as} are to be the same tensor")
        shapes = {name: tuple(leaf.shape) for name, leaf in named.items() if isinstance(leaf, torch.Tensor)}
        for condition in self.conditions:
            if not holds(condition, shapes):
                where = ", ".join(f"{name}.size({dim}) is {shapes[name][dim]}" for name, dim in sizes_in(condition))
                raise ConstraintViolationError(f"the program needs that {condition}, and {where}")
        return shapes

    @staticmethod
    def _result(result: Any, outputs: Sequence[Any], shapes: dict[str, tuple[int, ...]]) -> Any:
        match result:
            case int():
                return outputs[result]
            case SizeOutput(text):
                return evaluate(text, shapes)
        return result[0]

    def save(self, path: str | Path) -> None:
        """Write the program to a file: a zip archive of `program.json` (graph, trees, inputs, conditions) and
        `weights.pt` (parameters, buffers and constants, as `torch.save` writes them).

        Raises:
            InvalidArgument: for an operator that is not torch's, an argument or a tree that JSON does not hold.
        """
        write(self, Path(path))

    @staticmethod
    def load(path: str | Path) -> ExportedProgram:
        """Read a program that `save` has written. Operators are looked up in torch. Load what comes from
        somebody you trust: a call of the program calls whatever functions of torch the file names.

        Raises:
            InvalidArgument: for a file that is no program, or names an operator that this torch does not have.
        """
        return ExportedProgram(
            **read(Path(path), {"tensor": TensorInput, "constant": ConstantInput, "size": SizeOutput})
        )
