"""From a captured graph to a functional aten graph: run it on fake tensors under the functionalizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from onegraph.autograd.functionalize import REACHES, Functionalizer, Value
from onegraph.autograd.results import owner_of
from onegraph.autograd.spec import (
    Base,
    CallSpec,
    Computed,
    Detached,
    Input,
    Literal,
    Mutation,
    Output,
    Replayed,
    Step,
    Strided,
    base_of,
)
from onegraph.base.errors import CompileError
from onegraph.torchlib.aten import writes_as_library
from onegraph.torchlib.composites import call_composite
from onegraph.torchlib.data_sizes import BORN, is_expected
from onegraph.torchlib.fake import FakeMode, FakeTensor
from onegraph.torchlib.graph import CHECKPOINT, LazyGraphModule
from onegraph.torchlib.overlaps import is_written_twice
from onegraph.torchlib.primals import is_one_of_several, is_plain_view, set_version
from onegraph.torchlib.private import increment_version
from onegraph.torchlib.recorder import Rule
from onegraph.torchlib.state import GlobalState
from onegraph.torchlib.strides import is_certainly_dense

#: What aten nodes keep of the nodes of the captured graph: the line of the program, and whether a checkpoint is around.
STAMPED = ("location", CHECKPOINT)


def trace(
    module: GraphModule,
    inputs: Sequence[Any],
    rules: Mapping[Any, Rule],
    overlapping: Sequence[tuple[int, int]],
    is_inner: bool = False,
) -> tuple[GraphModule, CallSpec]:
    """The functional aten graph of `module` on `inputs` (fake tensors and symbolic integers), and how to call it.

    Of one that `is_inner`, another graph around it has made the checks of what was asked before.
    """
    state = GlobalState.snapshot()
    # Some of what autograd records elsewhere may be written to here.
    counted = torch.is_grad_enabled() and any(isinstance(v, Tensor) and v.requires_grad for v in inputs)
    recorder = Functionalizer(fake_mode_of(module, inputs), rules)
    recorder.checked = recorder.fake.sizes.checks if is_inner else ()
    recorder.fake.sizes.data.reopen()
    try:
        with torch.no_grad(), recorder.fake, recorder:
            names = [node.target for node in module.graph.nodes if node.op == "placeholder"]
            for name, value in zip(names, inputs, strict=True):
                recorder.placeholder(value, str(name))
            results = run(module, inputs, recorder, {})
    finally:
        state.restore()
    refuse_shared_writes(recorder, inputs, overlapping)
    refuse_repeated_writes(recorder, inputs)
    refuse_writes_beyond(recorder, inputs)
    if counted:
        refuse_unknown_counts(recorder)
    functional, spec = finish(recorder, module, inputs, results)
    refuse_lost_views(spec, results)
    return functional, spec


def refuse_shared_writes(
    recorder: Functionalizer, inputs: Sequence[Any], overlapping: Sequence[tuple[int, int]]
) -> None:
    """Refuse writes to an input that overlaps another one: in the functional graph, they would change no other."""
    for pair in overlapping:
        if any(recorder.value_of(inputs[index]).family.version for index in pair):
            raise CompileError("functionalize", "an input is written to that shares elements with another one")


def refuse_repeated_writes(recorder: Functionalizer, inputs: Sequence[Any]) -> None:
    """Refuse writes to an input of which several elements are at one place: in the graph, one would change no other."""
    for value in inputs:
        if isinstance(value, Tensor) and is_written_twice(value) and recorder.value_of(value).family.version:
            raise CompileError("functionalize", "an input is written to that shares elements with itself")


def refuse_writes_beyond(recorder: Functionalizer, inputs: Sequence[Any]) -> None:
    """Refuse writes where a view by strides may reach beyond the elements of its input, into those of others."""
    roots = [recorder.value_of(value) for value in inputs if isinstance(value, Tensor)]
    for root in recorder.reaching:
        if root.family.version or any(other.family.version for other in roots) or root not in roots:
            raise CompileError("functionalize", REACHES)


def refuse_unknown_counts(recorder: Functionalizer) -> None:
    """Refuse operators that write as often as only they know: autograd compares these counts."""
    if any(writes_as_library(node.target) for node in recorder.graph.nodes):
        raise CompileError("functionalize", "an operator of another library writes to a tensor")


def refuse_lost_views(spec: CallSpec, results: Sequence[Any]) -> None:
    """Refuse views under `no_grad` of an input with gradients that is written to.

    Autograd refuses to say anything of such a view, if it was made before a write; the caller makes it after all of
    them.
    """
    written = {Input(mutation.input) for mutation in spec.mutations}
    for item, output in zip(results, spec.outputs, strict=True):
        base = base_of(output)
        if base is not output and base in written and item.requires_grad:
            raise CompileError("functionalize", "a view of an input with gradients is made, and the input written to")


def fake_mode_of(module: GraphModule, inputs: Sequence[Any]) -> FakeMode:
    """The mode that made the fakes, which knows the sizes; a new one for a graph without any."""
    made = (node.meta.get("example_value") for node in module.graph.nodes)
    for value in (*inputs, *made):
        if isinstance(value, FakeTensor):
            assert isinstance(value.fake_mode, FakeMode)
            return value.fake_mode
    return FakeMode()


def run(
    module: GraphModule, inputs: Sequence[Any], recorder: Functionalizer, environment: dict[Node, Any]
) -> Sequence[Any]:
    """Interpret the captured graph: returns its flat outputs, and leaves in `environment` what each node gave."""
    remaining = iter(inputs)

    def value(argument: Any) -> Any:
        return torch.fx.map_arg(argument, environment.__getitem__)

    for node in module.graph.nodes:
        recorder.stamp = {name: node.meta[name] for name in STAMPED if name in node.meta}
        recorder.fake.sizes.data.reborn = [*node.meta.get(BORN, ())]
        match node.op:
            case "placeholder":
                environment[node] = next(remaining)
            case "get_attr":
                environment[node] = attribute(module, node.target)
            case "call_function" if node.target is is_expected:
                continue  # see `close`
            case "call_function" if isinstance(node.meta.get("example_value"), torch.SymFloat):
                environment[node] = node.meta["example_value"]  # computed with numbers that are taken out of tensors
            case "call_function":
                function = CHECKED.get(node.target, node.target)
                environment[node] = call_composite(recorder.fake, function, *value(node.args), **value(node.kwargs))
            case "call_method" if is_taken(node):
                environment[node] = recorder.taken(node.meta["example_value"], environment[node.args[0]])
            case "call_method":
                receiver, *args = value(node.args)
                environment[node] = call_composite(
                    recorder.fake, getattr(receiver, node.target), *args, **value(node.kwargs)
                )
            case "call_module":
                submodule = module.get_submodule(node.target)
                environment[node] = call_composite(recorder.fake, submodule, *value(node.args), **value(node.kwargs))
            case "output":
                recorder.stamp = {}
                (results,) = value(node.args)
                return results if isinstance(results, (tuple, list)) else (results,)
    raise CompileError("functionalize", "the captured graph has no output")


def one_hot(x: Tensor, num_classes: int) -> Tensor:
    """By positions, which kernels check. On fakes, torch itself compares, and finds no class where there is none."""
    return x.new_zeros((*x.shape, num_classes)).scatter(-1, x.unsqueeze(-1), 1)


#: Functions of torch that forget on fakes what they check of data.
CHECKED: Mapping[Any, Callable[..., Any]] = {torch.nn.functional.one_hot: one_hot}


def is_taken(node: Node) -> bool:
    """Whether a node takes an integer or a floating-point number out of a tensor."""
    return node.target == "item" and isinstance(node.meta.get("example_value"), torch.SymInt | torch.SymFloat)


def attribute(module: GraphModule, path: str) -> Any:
    value: Any = module
    for name in path.split("."):
        value = getattr(value, name)
    return value


# --- the calling convention ------------------------------------------------------------------------------------------


def finish(
    recorder: Functionalizer, module: GraphModule, inputs: Sequence[Any], results: Sequence[Any]
) -> tuple[GraphModule, CallSpec]:
    """Close the graph: its results are the outputs that are new, and the new values of written inputs."""
    returned = Returned(recorder)
    spec = convention(returned, module, inputs, results)
    return close(recorder, returned.nodes), spec


def convention(returned: Returned, module: GraphModule, inputs: Sequence[Any], results: Sequence[Any]) -> CallSpec:
    """How to call the graph that returns what is added to `returned`."""
    recorder = returned.recorder
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    mutations = []
    for index, (node, tensor) in enumerate(zip(placeholders, inputs, strict=True)):
        changed = isinstance(tensor, Tensor) and recorder.value_of(tensor).family.version > 0
        writes = node.meta.get("writes", int(changed))
        if changed or writes:
            mutations.append(Mutation(index, returned.add(tensor) if changed else None, writes))
    outputs = tuple(output_of(item, results, inputs, recorder, returned) for item in results)
    counts = next(iter(reversed(module.graph.nodes))).meta.get("writes", [0] * len(outputs))
    return CallSpec(len(inputs), outputs, tuple(mutations), counted(outputs, counts))


def close(recorder: Functionalizer, results: Sequence[Node | None]) -> GraphModule:
    """The graph that was recorded, as a module that returns these results.

    It checks what was asked of sizes that only the data say, while the program was captured and since.
    """
    for condition in recorder.fake.sizes.checks:
        if condition not in recorder.checked:
            recorder.expect(condition)
    recorder.fake.sizes.data.close()
    recorder.graph.output(tuple(results))
    holder = torch.nn.Module()
    for name, tensor in recorder.constants.items():
        holder.register_buffer(name, tensor, persistent=False)
    return LazyGraphModule(holder, recorder.graph)


def counted(outputs: Sequence[Output], counts: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """The outputs whose writes are counted, and how many: what shares a counter has them once."""
    written: dict[Any, tuple[int, int]] = {}
    for position, (output, count) in enumerate(zip(outputs, counts, strict=True)):
        counter = counter_of(output, position)
        if count and counter is not None:
            written.setdefault(counter, (position, count))
    return tuple(written.values())


def counter_of(output: Output, position: int) -> Any:
    """What tells the counter of writes of an output from others; None if it is that of an input."""
    match output:
        case Strided(base) | Replayed(base) | Detached(base, True):
            return counter_of(base, position)
        case Computed():
            return output
        case Detached():
            return position
        case _:
            return None


class Returned:
    """The results of the functional graph: one for each tensor, and no two of them share memory.

    It `replays` views that are one of several where autograd shall know them as such.
    """

    def __init__(self, recorder: Functionalizer, replays: bool = False) -> None:
        self.recorder, self.replays = recorder, replays
        self.nodes: list[Node] = []
        self.tensors: dict[int, Tensor] = {}  # those among the results, by position
        self._known: dict[int, Computed] = {}  # by the id of a tensor, which the recorder keeps alive
        self._numbers: dict[Node, Computed] = {}
        self._owners: set[Any] = set()

    def add(self, tensor: Tensor) -> Computed:
        """Return a tensor."""
        if id(tensor) not in self._known:
            node = self.recorder.node_of(tensor)
            owner = owner_of(node)
            if owner[0].op != "call_function" or owner in self._owners:
                node = self.recorder.emit(torch.ops.aten.clone.default, (node,), {}, tensor)
                owner = (node, None)
            self._owners.add(owner)
            self.tensors[len(self.nodes)] = tensor
            self._known[id(tensor)] = self._append(node)
        return self._known[id(tensor)]

    def _append(self, node: Node) -> Computed:
        self.nodes.append(node)
        return Computed(len(self.nodes) - 1)

    def number(self, value: Any) -> int | Computed:
        """A symbolic number as the result that computes it; a plain one as it is."""
        known: int | Node = self.recorder.as_argument(value)
        if not isinstance(known, Node):
            return known
        if known not in self._numbers:
            self._numbers[known] = self._append(known)
        return self._numbers[known]


def output_of(
    item: Any, results: Sequence[Any], inputs: Sequence[Any], recorder: Functionalizer, returned: Returned
) -> Output:
    """How the caller gets one output."""
    if isinstance(item, torch.SymInt | torch.SymFloat | torch.SymBool):
        known = returned.number(item)
        return known if isinstance(known, Computed) else Literal(known)
    if not isinstance(item, Tensor):
        return Literal(item)
    value = recorder.value_of(item)
    for index, tensor in enumerate(inputs):
        if item is tensor:
            return Input(index)
        if isinstance(tensor, Tensor) and recorder.value_of(tensor).family is value.family:
            viewed = item._base is None or item._base is tensor or item._base is tensor._base
            together = counts_with(item, tensor)
            base = Input(index) if viewed else Detached(Input(index), together)
            view = view_of(value, recorder.value_of(tensor), base, returned)
            return view if item._is_view() else Detached(view, together)
    root = value.family.root
    relatives = [
        other
        for other in results
        if isinstance(other, Tensor) and other is not item and recorder.value_of(other).family is value.family
    ]
    several = returned.replays and is_one_of_several(item)
    is_part = value.family.version and item.numel() != root.tensor.numel()  # which was written to, and not as a whole
    if value is root or not (relatives or is_part or several) and is_certainly_dense(item):
        return returned.add(item)
    view = view_of(value, root, returned.add(root.tensor), returned)
    return view if item._is_view() else Detached(view, counts_with(item, root.tensor))


def counts_with(item: Tensor, tensor: Tensor) -> bool:
    """Whether a write to one tensor counts for the other one: it is tried out, and taken back."""
    if item.is_inference():
        return True
    versions = tensor._version, item._version
    increment_version((item,))
    together = tensor._version != versions[0]
    set_version(tensor, versions[0])
    set_version(item, versions[1])
    return together


def view_of(value: Value, root: Value, base: Base, returned: Returned) -> Strided | Replayed:
    """The view `value` of `root`."""
    several = returned.replays and is_one_of_several(value.tensor)
    if is_laid_over(value.tensor, root.tensor) and not several:
        return Strided(base, *layout_over(value.tensor, root.tensor, returned))
    steps = []
    while value is not root and value.view is not None and value.parent is not None:
        view = value.view
        if several and not is_plain_view(value.tensor):
            raise CompileError("functionalize", "an output is a view of a view that no operator makes alone")
        steps.append(Step(view.op, known(view.args, returned), view.index))
        value = value.parent
    if value is not root:
        raise CompileError("functionalize", "an output is a view that is not made of the tensor that it shows")
    return Replayed(base, tuple(reversed(steps)))


def known(argument: Any, returned: Returned) -> Any:
    """An argument with its symbolic numbers as the results that compute them."""
    if isinstance(argument, list | tuple):
        return tuple(known(item, returned) for item in argument)
    return returned.number(argument) if isinstance(argument, torch.SymInt) else argument


def is_laid_over(tensor: Tensor, origin: Tensor) -> bool:
    """Whether a view shows elements of its origin as they are."""
    return (tensor.dtype, tensor.is_conj(), tensor.is_neg()) == (origin.dtype, origin.is_conj(), origin.is_neg())


Numbers = tuple[int | Computed, ...]


def layout_over(tensor: Tensor, origin: Tensor, returned: Returned) -> tuple[Numbers, Numbers, int | Computed]:
    """Sizes, strides and offset of a view of its origin."""
    size = tuple(returned.number(n) for n in tensor.size())
    stride = tuple(returned.number(n) for n in tensor.stride())
    return size, stride, returned.number(tensor.storage_offset() - origin.storage_offset())
