"""Recording: every tensor operation of the traced program becomes one node of an FX graph.

A graph node is what PyTorch's own `__torch_function__` protocol intercepts: whoever calls a torch function, Python or
native code, the one active `Recorder` sees it, runs it on fake tensors and notes the call. What the protocol does not
see (autocast, RNG state, transforms ...) is handled by `onegraph.capture.policy`.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from onegraph.base.dataclass import dataclass
from onegraph.base.events import Location
from onegraph.capture.breaks import CUSTOM_FUNCTION as CUSTOM_FUNCTION_BREAK
from onegraph.capture.breaks import (
    GENERATOR_ARGUMENT,
    OPERATOR_WARNING,
    SHARED_HISTORY,
    UNSEEN,
    UNTRACEABLE_OPERATOR,
    GraphBreak,
)
from onegraph.capture.breaks.operator_reasons import (
    contains_tensor,
    depends_on_place,
    first_line,
    operator_break,
    refused_after,
    refused_at_once,
    refused_result,
)
from onegraph.capture.graph.copied_items import CopiedItems
from onegraph.capture.graph.recording import Recording
from onegraph.capture.graph.spelling import ELEMENT_TYPES, GRAPH_CONSTANTS, as_plain, spelled
from onegraph.capture.guards.source import Source
from onegraph.capture.heap.subclass_tensors import Handles, asks_classes
from onegraph.capture.heap.tensor_texts import Texts, refuse_marked
from onegraph.capture.pyobject.contents import holds
from onegraph.capture.pyobject.exact_types import isinstance, plain
from onegraph.torchlib import warned
from onegraph.torchlib.composites import call_composite
from onegraph.torchlib.fake import DATA_DEPENDENT_ERRORS, UNSUPPORTED_ERRORS, FakeMode, FakeTensor
from onegraph.torchlib.given import bounded, indexed, with_index
from onegraph.torchlib.graph import CHECKPOINT, Checkpoint
from onegraph.torchlib.histories import is_recorded, refuse_view_of_leaf, storage_of, version_of
from onegraph.torchlib.private import (
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    custom_function_call,
    is_functorch_wrapped_tensor,
)
from onegraph.torchlib.selection import selection
from onegraph.torchlib.shapes import Computed
from onegraph.torchlib.wrappers import is_ragged


@dataclass(slots=True, eq=False)
class GraphInput:
    """One placeholder: where its value is found at each call, or what number it holds, and the value of this call.

    `fake` stands for the value. The rest is of tensors: `version` is that at the last look, `recorded` whether
    gradients are recorded for it from the start, `written` how many of the writes to it autograd has seen, or None.
    """

    name: str
    source: Source | Computed
    example: Any
    fake: Any
    version: int | None = None
    recorded: bool = False
    written: int | None = None
    #: Whether gradients are recorded for it since a write, and whether they were before one that is recorded.
    is_given_history: bool = False
    had_history: bool = False
    #: Whether gradients are recorded for it, and it has views that were made in `no_grad`.
    is_viewed_plainly: bool = False


class Recorder(Recording):
    """Records torch calls into `graph`.

    `lift` turns a real tensor that a library owns (a module-level constant) into a fake one with its placeholder;
    `symbol_node` gives the argument that stands for a symbolic number.
    """

    def __init__(
        self,
        fake: FakeMode,
        locate: Callable[[], Location | None],
        lift: Callable[[torch.Tensor], FakeTensor],
        symbol_node: Callable[[Recorder, Any], Any],
    ) -> None:
        super().__init__()
        self.fake = fake
        self.graph = torch.fx.Graph()
        self.inputs: list[GraphInput] = []
        self.nodes: dict[int, torch.fx.Node] = {}
        self.texts = Texts()
        #: Whether the graph may compute with numbers in tensors; the symbolic one in a tensor of one element, or None.
        self.takes_numbers: Callable[[], bool] = lambda: False
        self.number_in: Callable[[torch.Tensor], Any] = lambda tensor: None
        #: Told of an operator that has made sizes which only the data say, and its arguments and result.
        self.sizes_made: Callable[[Recorder, Any, Any, Any], None]
        self.once_warned: Callable[[], object] = lambda: None  # told of one that warns once in a process
        self.current_device: Callable[[], int]
        self.copied = CopiedItems()
        #: The tensors of subclasses, and the modes of the program, outermost first.
        self.handles = Handles(fake)
        self.modes: list[Any] = []
        #: The storages of the parts of results that are wrappers with gradients.
        self.unwrapped: set[int] = set()
        #: What the program makes of a call that its classes or modes take over: the function, types, arguments.
        self.override: Callable[[Any, Any, Any, Any], Any]
        self.running = 0  # how many functions of torch, one within another
        self.writes = 0  # how often operators have written to tensors, whatever their memory
        self.checkpoint: Checkpoint | None = None  # the one that runs now
        self._locate = locate
        self._lift = lift
        self._symbol_node = symbol_node
        self._numbers: dict[Any, torch.fx.Node] = {}
        self._keep: list[Any] = []
        self._last_input: torch.fx.Node | None = None
        #: Whether the program was told how tensors lie in memory.
        self.told_layouts = False
        self.placed: set[int] = set()  # the storages in which the program has asked where its tensors are
        self._inputs_on: dict[int, list[GraphInput]] = {}  # by the address of their storage
        self._made: dict[int, int] = {}  # the versions that results were made with, by the id of the tensor

    # ---- inputs ------------------------------------------------------------------------------------------------------

    def add_input(self, value: Any, name: str, source: Source | Computed, example: Any) -> torch.fx.Node:
        """A placeholder for a fake tensor or a symbolic integer, behind the earlier ones."""
        if self._last_input is None:
            first = next(iter(self.graph.nodes), None)
            context = self.graph.inserting_before(first) if first is not None else self.graph.inserting_after(None)
        else:
            context = self.graph.inserting_after(self._last_input)
        with context:
            node = self.graph.placeholder(name)
        node.target = node.name  # the parameter's name, which that of another input must not hide
        node.meta["example_value"] = value
        self._last_input = node
        given = GraphInput(node.name, source, example, value)
        self.inputs.append(given)
        self.bind(value, node)
        if isinstance(value, torch.Tensor):
            given.version, given.recorded = version_of(value), is_recorded(value)
            self._inputs_on.setdefault(storage_of(value), []).append(given)
            self._refuse_shared_history()
        return node

    def forget(self) -> None:
        """Let go of the inputs, and of the fakes of the graph's values."""
        self.inputs.clear()
        self.nodes.clear()
        self._keep.clear()
        self._inputs_on.clear()
        self._made.clear()

    def is_input(self, value: Any) -> bool:
        return id(value) in self.nodes and self.nodes[id(value)].op == "placeholder"

    def placed_inputs(self) -> list[GraphInput]:
        """The inputs in storages in which the program has asked where its tensors are."""
        placed = [given for storage in self.placed for given in self._inputs_on.get(storage, ())]
        return [given for given in self.inputs if given in placed]

    def inputs_in(self, tensor: torch.Tensor) -> list[GraphInput]:
        """The inputs that share the storage of a tensor, or have a part of it."""
        return self._inputs_on.get(storage_of(tensor), [])

    def made_leaves(self) -> list[torch.Tensor]:
        """The tensors that the graph has made for which gradients are recorded from there on."""
        with DisableTorchFunction():
            found = {id(value): value for value in self._keep if isinstance(value, torch.Tensor)}
            leaves = [value for value in found.values() if value.requires_grad and value.is_leaf]
        return [value for value in leaves if not self.is_input(value)]

    def has_recorded_input(self) -> bool:
        """Whether gradients are recorded for any of the inputs."""
        return any(given.recorded for given in self.inputs)

    def bind(self, value: Any, node: torch.fx.Node) -> None:
        self.nodes[id(value)] = node
        self._keep.append(value)

    # ---- calls -------------------------------------------------------------------------------------------------------

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a torch function on fakes, and record it when it makes or changes a tensor."""
        if self.modes or types and asks_classes(types):
            with self:
                return self.override(func, types, args, kwargs)
        if self.handles and (handles := self.handles.among((args, kwargs))):
            given = self.handles.without(args), self.handles.without(kwargs)
            return self.handles.given_back(self.__torch_function__(func, (), *given), handles)
        refused = refused_at_once(func, args, kwargs, self.is_input)
        if refused is not None:
            raise refused
        args, kwargs = with_index(func, self.as_traced(args), self.as_traced(kwargs or {}), self.current_device)
        if not self.fake.sizes.is_static:
            args, kwargs = indexed(args, kwargs)
        chosen = selection(func, args)
        if chosen is not None:
            return self.copied.made(chosen, lambda func, *args: self.__torch_function__(func, types, args), *args)
        if func is torch.Tensor.__setitem__:
            args = (*args[:2], bounded(args[2], {args[0].dtype}, is_scalar=True))
        if depends_on_place(func):
            self.placed.update(storage_of(arg) for arg in args[:1] if has_storage(arg))
            self.copied.refuse(args[0])
        if func is CUSTOM_FUNCTION:
            return self._custom_function(*args, **kwargs)
        try:
            result = self._run(func, args, kwargs)
        except (*DATA_DEPENDENT_ERRORS, *UNSUPPORTED_ERRORS) as error:
            number = self.number_in(args[0]) if func is torch.Tensor.item and has_storage(args[0]) else None
            if number is not None:
                return number
            numbers = self._numbers_in(kwargs)
            if numbers:
                return self.__torch_function__(func, types, args, {**kwargs, **numbers})
            raise refused_after(func, args, error) from None
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, AssertionError) as error:
            if type(error) is TypeError and not contains_tensor((args, kwargs)):
                raise
            raise refused_after(func, args, error) from error
        if self.fake.effects.writes:
            try:
                self.note_writes()
            except RuntimeError as error:
                raise refused_after(func, args, error) from error
        refused = refused_result(func, result)
        if refused is not None:
            raise refused
        if contains_tensor(result) or result is None:
            self.record(func, args, kwargs, result)
            if self.fake.sizes.data.newborn:
                self.sizes_made(self, func, args, result)
        elif getattr(func, "__name__", "") in LAYOUT_QUESTIONS:
            self.told_layouts = True
        return result

    def _numbers_in(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """The numbers in the tensors among the keyword arguments (`value=lr`), as an operator takes them."""
        if not self.takes_numbers():
            return {}
        numbers = {name: self.number_in(v) for name, v in kwargs.items() if isinstance(v, torch.Tensor) and not v.dim()}
        return {name: number for name, number in numbers.items() if number is not None}

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator on fakes. One that warns at each call breaks the graph, to warn as it is called for real."""
        self.running += 1
        try:
            with warned.raised():
                return call_composite(self.fake, func, *args, **kwargs)
        except Warning as warning:
            if self.fake.effects.writes or warned.are_errors():
                raise operator_break(OPERATOR_WARNING, func, first_line(warning)) from None
            return self._run_warned(func, args, kwargs)
        finally:
            self.running -= 1

    def _run_warned(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator that has a warning: one that torch gives once in a process is given now, for the program."""
        given: Warning | None = None
        while True:
            try:
                with warned.ruled("error"):
                    result = call_composite(self.fake, func, *args, **kwargs)
                break
            except Warning as warning:
                if given is not None:
                    raise operator_break(OPERATOR_WARNING, func, first_line(warning)) from None
                given = warning
        self.once_warned()
        if given is not None and (at := self._locate()) is not None:
            warnings.warn_explicit(given, None, at.filename, at.line)
        return result

    def note_writes(self) -> None:
        """Find the inputs that the last operators have written to; such a write is known if their version shows it.

        Raises:
            RuntimeError: what autograd raises for the real input, of which the fake does not know what it is a view of.
        """
        effects, self.writes = self.fake.effects, self.writes + bool(self.fake.effects.writes)
        self.copied.refuse_writes(effects.writes)
        for storage, adding in effects.writes.items():
            inputs = self._inputs_on.get(storage, ())
            changed = [given for given in inputs if version_of(given.fake) != given.version]
            for given in changed or inputs:
                before, given.version = given.version or 0, version_of(given.fake)
                given.written = (given.written or 0) + (given.version or 0) - before
                if given.recorded and torch.is_grad_enabled():
                    given.had_history = True
                    refuse_view_of_leaf(given.example)
                if is_recorded(given.fake) and not given.recorded:
                    given.is_given_history = True
                    self._refuse_shared_history()
            effects.unknown = effects.unknown or bool(inputs) and (adding or not changed)
        effects.writes.clear()

    def _refuse_shared_history(self) -> None:
        """Break the graph where an input has been given a history, and another one may have got it too."""
        for given in self.inputs:
            if given.is_given_history and any(
                other is not given
                and isinstance(other.example, torch.Tensor)
                and storage_of(other.example) == storage_of(given.example)
                for other in self.inputs
            ):
                raise GraphBreak(SHARED_HISTORY, name=given.name)

    def writes_since_made(self, result: torch.Tensor) -> int:
        """How often a result, or what it is a view of, was written to after an operator has made it."""
        with DisableTorchFunction():
            whole = result._base if result._base is not None else result
        return (version_of(whole) or 0) - self._made[id(whole)] if id(whole) in self._made else 0

    def note_unseen_writes(self, tensors: Sequence[torch.Tensor]) -> None:
        """Note that something of which the fakes know nothing writes to these."""
        for tensor in tensors:
            self.fake.effects.writes[storage_of(tensor)] = True
            self.fake.forget_value(tensor)
        self.note_writes()

    def _custom_function(self, cls: Any, *args: Any, **kwargs: Any) -> Any:
        """A custom autograd function under vmap is its forward where no gradients are recorded."""
        if torch.is_grad_enabled() or not cls.generate_vmap_rule:
            raise GraphBreak(CUSTOM_FUNCTION_BREAK, name=f"{cls.__name__}.apply", why="under a transform of torch.func")
        with self:
            return cls.forward(*args, **kwargs)

    def record(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Append the call to the graph and bind the tensors of its result."""
        if isinstance(result, torch.Tensor) and id(result) in self.nodes and returns_itself(func):
            self.told_layouts = True
            return
        if func is torch.Tensor.new and isinstance(args[-1], torch.Size) and len(args) == 2:
            args, kwargs = args[:1], {**kwargs, "size": args[-1]}  # graphs have tuples, which are taken for contents
        kind, target, node_args = spelled(func, args)
        node = self.graph.create_node(kind, target, self.as_argument(node_args), self.as_argument(kwargs))
        node.meta["location"] = self._locate()
        if self.checkpoint is not None:
            node.meta[CHECKPOINT] = self.checkpoint
        self.bind_result(node, result)

    def bind_result(self, node: torch.fx.Node, result: Any) -> None:
        node.meta["example_value"] = result
        match result:
            case torch.Tensor():
                self.nodes.setdefault(id(result), node)
                self._keep.append(result)
                self._made.setdefault(id(result), version_of(result) or 0)
                if not torch.is_grad_enabled() and has_storage(result):
                    for given in self._inputs_on.get(storage_of(result), ()):
                        given.is_viewed_plainly = given.is_viewed_plainly or is_recorded(given.fake)
            case tuple() | list():
                for index, item in enumerate(result):
                    if contains_tensor(item):
                        self.bind_result(self.graph.call_function(operator.getitem, (node, index)), item)

    def part(self, wrapper: torch.Tensor, name: str) -> Any:
        """What a wrapper holds under a name: it has no history of the wrapper's."""
        with DisableTorchFunction():
            held = getattr(wrapper, name)
        if id(held) not in self.nodes:
            self.bind_result(self.graph.call_function(getattr, (self.nodes[id(wrapper)], name)), held)
        return held

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No mode and no class of the program sees what is called in here: it is none of its calls."""
        modes, self.modes = self.modes, []
        try:
            with DisableTorchFunctionSubclass():
                yield
        finally:
            self.modes = modes

    def rebind(self, node: torch.fx.Node, results: Sequence[Any]) -> None:
        """The node gives these results anew, some of which others have given."""
        for result in results:
            self.nodes.pop(id(result), None)
        self.bind_result(node, tuple(results))

    def forget_nodes(self, nodes: Collection[torch.fx.Node]) -> None:
        """Take nodes out of the graph that no others take anything from."""
        self.nodes = {key: node for key, node in self.nodes.items() if node not in nodes}
        for node in sorted(nodes, reverse=True):
            self.graph.erase_node(node)

    def as_argument(self, value: Any) -> Any:
        """A value as an FX argument: tensors and symbolic integers by their nodes."""
        match plain(value):
            case torch.Tensor():
                if id(value) not in self.nodes:
                    raise GraphBreak(UNSEEN, name="native code")
                return self.nodes[id(value)]
            case torch.SymInt() | torch.SymFloat() | torch.SymBool() if not is_ragged(value):
                return self._symbol_node(self, value)
            case torch.Size():
                return tuple(self.as_argument(item) for item in value)
            case tuple() if hasattr(value, "_fields"):
                return type(value)(*(self.as_argument(item) for item in value))
            case tuple():
                return tuple(self.as_argument(item) for item in value)
            case list():
                return [self.as_argument(item) for item in value]
            case dict():
                return {key: self.as_argument(item) for key, item in value.items()}
            case slice():
                return slice(self.as_argument(value.start), self.as_argument(value.stop), self.as_argument(value.step))
            case str() | int() | float() | complex():
                refuse_marked(value)
                return as_plain(value)
            case _ if type(value).__module__ == "numpy" and hasattr(value, "item") and type(value.item()) is not bool:
                return value.item()
            case _ if value is None or value is Ellipsis or isinstance(value, GRAPH_CONSTANTS):
                return value
            case type() if type(value) is type and value in ELEMENT_TYPES:
                return ELEMENT_TYPES[value]
            case torch.Generator():
                raise GraphBreak(GENERATOR_ARGUMENT)
            case _:
                raise GraphBreak(UNTRACEABLE_OPERATOR, name="an operator", error=f"its argument is a {type(value)}")

    def number(self, key: Any, function: Any, args: tuple[Any, ...]) -> torch.fx.Node:
        """The node that computes a number from sizes; one for each `key`."""
        if key not in self._numbers:
            self._numbers[key] = self.graph.call_function(function, args)
        return self._numbers[key]

    @contextmanager
    def numbers_anew(self) -> Iterator[None]:
        """Make nodes of numbers in here that nothing else uses: they stand elsewhere than those that are known."""
        known, self._numbers = self._numbers, {}
        try:
            yield
        finally:
            self._numbers = known

    def is_number(self, node: torch.fx.Node) -> bool:
        """Whether the node computes a symbolic number."""
        value = node.meta.get("example_value")
        return isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool) or node in self._numbers.values()

    def as_traced(self, value: Any) -> Any:
        """The same value with the fakes that stand for real tensors, which libraries own or native code has given."""
        match plain(value):
            case FakeTensor():
                return value
            case torch.Tensor():
                return value if id(value) in self.nodes else self._lift(value)
            case tuple() if type(value) is tuple:
                return tuple(self.as_traced(item) for item in value)
            case list() if contains_real(value):
                return [self.as_traced(item) for item in value]
            case dict() if contains_real(value):
                return {key: self.as_traced(item) for key, item in value.items()}
            case _:
                return value


def has_storage(value: Any) -> bool:
    """Whether the value is a tensor of its own: those of `vmap` are others in disguise."""
    return isinstance(value, torch.Tensor) and not is_functorch_wrapped_tensor(value)


def contains_real(value: Any) -> bool:
    """Whether the value is a real tensor, or holds one in tuples, lists and dicts."""
    return holds(value, lambda each: isinstance(each, torch.Tensor) and not isinstance(each, FakeTensor))


#: What `autograd.Function.apply` calls inside of a functorch transform.
CUSTOM_FUNCTION = custom_function_call

LAYOUT_QUESTIONS = frozenset({"stride", "is_contiguous", "storage_offset", "dim_order"})
RETURNS_ITSELF = frozenset(
    {"contiguous", "to", "type", "cpu", "float", "double", "half", "bfloat16", "detach_", "__get__"}
)


def returns_itself(func: Any) -> bool:
    """Whether getting an argument back from the function means that it did nothing."""
    return getattr(func, "__name__", "") in RETURNS_ITSELF
