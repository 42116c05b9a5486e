"""Residual code: what runs in place of a captured frame, written as Python text.

    def f(self, x):
        s0 = self.__dict__                 # loads of the graph's inputs by their sources, shared prefixes once
        s1 = s0['scale']
        o0, o1 = graph(x, s1)              # the compiled graph
        t0 = [o0, x]                       # values that outlive the trace, rebuilt with their aliasing
        s0['calls'] = 3                    # writes of the traced program, replayed
        return t0

The text is compiled to a code object with the frame's own signature and free variables, whose constants hold the
graph and the other objects known by identity. It is readable, and steppable in a debugger.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import Any, assert_never

import torch

from onegraph import _C
from onegraph.capture.breaks import CANNOT_REBUILD, CHANGED_TEXT, ESCAPING_IDENTITY, SELF_CONTAINING, GraphBreak
from onegraph.capture.bytecode.frame import NULL
from onegraph.capture.graph.record import Recorder
from onegraph.capture.graph.wrapper_tensors import unwrapped
from onegraph.capture.guards.source import (
    Arg,
    Attr,
    CellOf,
    Const,
    DictOf,
    Drawn,
    FreeCell,
    Globals,
    Item,
    Source,
    Through,
    TypeOf,
    root_of,
)
from onegraph.capture.heap.subclass_tensors import as_tensor_of
from onegraph.capture.heap.tensor_texts import Printed, is_marked, refuse_pieces
from onegraph.capture.heap.type_rules import rule_of
from onegraph.capture.heap.world import World
from onegraph.capture.interp.defects import Defect
from onegraph.capture.interp.tracebacks import pass_through, stand_ins
from onegraph.capture.pyobject.contents import DELETED, UNFILLED, holds
from onegraph.capture.pyobject.exact_types import isinstance, mro_of
from onegraph.capture.pyobject.native_members import TRACEBACK_OF
from onegraph.capture.pyobject.value_text import written_atom
from onegraph.capture.pyobject.weakly_known import Known, passes_away, referred, weakly
from onegraph.capture.residual.code import argument_names
from onegraph.capture.residual.iterators import write_draws
from onegraph.torchlib.parameters import as_leaf, as_parameter
from onegraph.torchlib.private import DisableTorchFunction
from onegraph.torchlib.wrappers import is_ragged, is_wrapper


class Rebuild:
    """Writes the expressions that make the values of a finished trace again."""

    def __init__(
        self,
        world: World,
        recorder: Recorder,
        code: CodeType,
        symbol_text: Callable[[Rebuild, Any], str],
    ) -> None:
        self.world = world
        self.recorder = recorder
        self.code = code
        self.loads: list[str] = []
        self.lines: list[str] = []
        #: What is done behind the writes.
        self.late: list[str] = []
        self.consts: list[Any] = []
        self.outputs: list[torch.fx.Node] = []
        self.nonlocals: list[str] = []
        self._symbol_text = symbol_text
        self._const_names: dict[int, str] = {}
        self._source_names: dict[Source, str] = {}
        self._value_names: dict[int, str] = {}
        self._in_progress: set[int] = set()
        self._settled: set[int] = set()
        self._names = 0
        self._arguments = argument_names(code)

    # ---- names -------------------------------------------------------------------------------------------------------

    def const(self, value: Any) -> str:
        """The local name of a constant object."""
        if id(value) not in self._const_names:
            self._const_names[id(value)] = f"k{len(self.consts)}_"
            self.consts.append(value)
        return self._const_names[id(value)]

    def fresh(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}_"

    def assign(self, expression: str, prefix: str = "t") -> str:
        name = self.fresh(prefix)
        self.lines.append(f"{name} = {expression}")
        return name

    # ---- sources -----------------------------------------------------------------------------------------------------

    def source(self, source: Source) -> str:
        """The name of a variable that holds the value at `source`; loads happen before the graph and all writes."""
        if source not in self._source_names:
            self._source_names[source] = self._load(source)
        return self._source_names[source]

    def _load(self, source: Source) -> str:
        match source:
            case Arg(index, _):
                return self._arguments[index]
            case CellOf(FreeCell(_, name)):
                return self._loaded(name)
            case FreeCell(_, name):
                return self._loaded(f"(lambda: {name}).__closure__[0]")
            case Globals(_, _, namespace):
                return self.const(namespace)
            case Const(_, _, value):
                return self.known(value)
            case Attr(base, name):
                return self._loaded(f"{self.source(base)}.{name}")
            case Item(base, key):
                return self._loaded(self._item(base, key))
            case DictOf(base):
                return self._loaded(self.instance_dict(self.source(base), self.world.type_at.get(base, object)))
            case CellOf(base):
                return self._loaded(f"{self.source(base)}.cell_contents")
            case TypeOf(base):
                return self._loaded(f"{self.const(type)}({self.source(base)})")
            case Through(base, function):
                return self._loaded(f"{self.const(function)}({self.source(base)})")
            case Drawn():
                raise AssertionError("the draw has not been written")
            case _:
                assert_never(source)

    def name_source(self, source: Source, expression: str) -> None:
        """What the source stands for is computed here, among the loads."""
        self._source_names[source] = self._loaded(expression)

    def known(self, value: Any) -> str:
        """An object that the guards know by identity. The code does not keep one that passes away."""
        if not passes_away(value):
            return self.const(value)
        origin = self.world.origin.get(id(value)) or self.world.found_at.get(id(value))
        if origin is not None and not self._leads_back(origin, value):
            return self.source(origin)
        for guard in self.world.guards if isinstance(value, type) else ():
            if guard.kind == "type" and value in mro_of(guard.arg) and not isinstance(root_of(guard.source), Const):
                of = self.source(TypeOf(guard.source))
                return self._loaded(f"{self.const(mro_of)}({of})[{mro_of(guard.arg).index(value)}]")
        return self.const(value)

    def _leads_back(self, origin: Source, value: Any) -> bool:
        """Whether a place is found by way of the value itself: a class, in a cell of its own method."""
        passed: list[Any] = []
        root: Source | None = root_of(origin)
        while isinstance(root, Const) and root.value is not value and not any(root.value is each for each in passed):
            passed.append(root.value)
            place = self.world.origin.get(id(root.value)) or self.world.found_at.get(id(root.value))
            root = None if place is None else root_of(place)
        return isinstance(root, Const)

    def _item(self, base: Source, key: Any) -> str:
        """An item, read without the methods of a subclass."""
        cls: Any = self.world.type_at.get(base, dict)
        kind = next((kind for kind in (dict, list, tuple) if issubclass(cls, kind)), cls)
        if cls.__getitem__ is kind.__getitem__:
            return f"{self.source(base)}[{self.key(key)}]"
        return f"{self.const(kind.__getitem__)}({self.source(base)}, {self.key(key)})"

    def instance_dict(self, name: str, cls: Any) -> str:
        """The instance dictionary of the object in a variable, read without the methods of its class."""
        if cls.__getattribute__ is object.__getattribute__ or issubclass(cls, type):
            return f"{name}.__dict__"
        return f"{self.const(object.__getattribute__)}({name}, '__dict__')"

    def _loaded(self, expression: str) -> str:
        name = self.fresh("s")
        self.loads.append(f"{name} = {expression}")
        return name

    def key(self, key: Any) -> str:
        """A key of a dict from outside, which the guards know."""
        text = literal(key)
        if text is not None:
            return text
        known = weakly(referred(key))
        return self._loaded(f"{self.const(self.world.keep(known))}()") if type(known) is Known else self.const(known)

    # ---- values ------------------------------------------------------------------------------------------------------

    def value(self, value: Any) -> str:
        """An expression for a value of the trace: literal, constant, source, graph output or rebuilt object."""
        self.world.spend(1)
        if is_marked(value):
            return self._marked(value)
        text = literal(value)
        if text is not None:
            if type(value) is str and self.recorder.texts:
                refuse_pieces(value)
            if type(value) is int and value in self.world.identities:
                raise GraphBreak(ESCAPING_IDENTITY)
            return text
        identity = id(value)
        if identity in self._value_names:
            return self._value_names[identity]
        if identity in self._in_progress:
            raise GraphBreak(SELF_CONTAINING, what=type(value).__name__)
        self._in_progress.add(identity)
        try:
            name = self._make(value)
        except GraphBreak as cannot:
            cannot.born = cannot.born or self.world.births.get(identity)
            raise
        self._in_progress.discard(identity)
        self._value_names[identity] = name
        self.world.keep(value)
        return name

    def _make(self, value: Any) -> str:
        cls = type(value)  # which a proxy of a dead object has still
        if id(value) in self.world.drawn:
            return self.source(self.world.drawn[id(value)])
        if value is UNFILLED:
            raise Defect from AssertionError("what nobody has read has come into the program")
        if issubclass(cls, torch.Tensor):
            return self._tensor(value)
        if issubclass(cls, torch.SymInt) and is_ragged(value):
            raise GraphBreak(CANNOT_REBUILD, what="size of sequences of several lengths")
        if issubclass(cls, torch.SymInt | torch.SymFloat | torch.SymBool):
            return self.assign(self._symbol_text(self, value))
        origin = self.world.origin.get(id(value))
        if origin is not None:
            by_identity = self.world.is_pinned(value) and not (isinstance(value, FunctionType) or passes_away(value))
            name = self.const(value) if by_identity else self.source(origin)
            if isinstance(value, BaseException) and (past := stand_ins(TRACEBACK_OF(value))):
                self.lines.append(f"{self.const(pass_through)}({self.const(past)}, {name})")
            return name
        if part := self.world.parts.get(id(value)):
            owner, name = part
            made = self.value(owner)
            return self.assign(self.instance_dict(made, type(owner)) if name == "__dict__" else f"{made}.{name}")
        return rule_of(cls).rebuild(self, value)

    def _marked(self, text: str) -> str:
        """A string that prints tensors."""
        pieces = []
        for part in self.recorder.texts.parts(text):
            match part:
                case str():
                    pieces.append(repr(part))
                case Printed(tensor, kind, spec) if part.is_current:
                    printed = f"{self.value(tensor)}, {spec!r}" if kind == "format" else self.value(tensor)
                    pieces.append(f"{self.const(getattr(builtins, kind))}({printed})")
                case _:
                    raise GraphBreak(CHANGED_TEXT)
        return self.assign(f"''.join(({', '.join(pieces)},))")

    def _tensor(self, value: torch.Tensor) -> str:
        origin = self.world.origin.get(id(value))
        if origin is not None:
            return self.source(origin)
        if (elements := self.recorder.handles.plain_of(value)) is not None:
            return self._of_subclass(value, elements)
        if is_wrapper(value):
            return self._wrapper(value)
        node = self.recorder.nodes.get(id(value))
        if node is None:
            raise GraphBreak(CANNOT_REBUILD, what="tensor that was not made by a recorded operator")
        self.recorder.copied.refuse(value)
        self.outputs.append(node)
        name = f"o{len(self.outputs) - 1}_"
        self.remember(value, name)
        with DisableTorchFunction():
            is_made_leaf = value.requires_grad and value._base is None and value.grad_fn is None
        if builtins.isinstance(value, torch.nn.Parameter):
            self.lines.append(f"{name} = {self.const(as_parameter)}({name}, {value.requires_grad})")
        elif is_made_leaf:
            self.lines.append(f"{self.const(as_leaf)}({name})")
        gradient = self.world.gradients.read(value, "grad")
        if gradient is not NULL:
            self.lines.append(f"{self.const(setattr)}({name}, 'grad', {self.value(gradient)})")
        for attribute, held in self.world.tensor_names.get(id(value), {}).items():
            self.lines.append(f"{self.const(setattr)}({name}, {attribute!r}, {self.value(held)})")
        return name

    def _of_subclass(self, handle: torch.Tensor, elements: torch.Tensor) -> str:
        """A tensor of a subclass that the program has made, with its attributes."""
        cls = type(handle)
        name = self.assign(f"{self.const(as_tensor_of)}({self.value(elements)}, {self.known(cls)})")
        self.remember(handle, name)
        for attribute, held in vars(handle).items():
            self.lines.append(f"{self.instance_dict(name, cls)}[{attribute!r}] = {self.value(held)}")
        return name

    def _wrapper(self, wrapper: torch.Tensor) -> str:
        """A tensor that holds others, which the graph gives."""
        wrapping, parts = unwrapped(self.recorder, wrapper)
        symbols = any(isinstance(size, torch.SymInt) for size in wrapping.measures)
        if symbols or holds(wrapping.context, lambda each: isinstance(each, torch.Tensor)):
            raise GraphBreak(CANNOT_REBUILD, what=f"{wrapping.cls.__qualname__} of a size that changes")
        name = self.assign(f"{self.const(_C.disabled(wrapping))}({self.values(parts)})")
        self.remember(wrapper, name)
        return name

    def number(self, node: torch.fx.Node) -> str:
        """A number that the graph computes, as one of its outputs."""
        if node not in self.outputs:
            self.outputs.append(node)
        return f"o{self.outputs.index(node)}_"

    def remember(self, value: Any, name: str) -> None:
        """From here on this variable is the value: lets a value be referred to while it is being filled."""
        self._value_names[id(value)] = name

    def values(self, items: Sequence[Any]) -> str:
        return ", ".join(self.value(item) for item in items)

    # ---- writes ------------------------------------------------------------------------------------------------------

    def writes(self) -> list[str]:
        """The statements that replay the program's writes; their values are computed before any of them runs."""
        statements = write_draws(self)
        for entry in list(self.world.changed()):
            if id(entry.shadow) not in self._settled:
                statements += entry.rule.write(self, entry)
        for shadow, descriptor, value in self.world.changed_slots():
            target = self.source(self.world.origin[id(shadow)])
            if value is DELETED:  # a slot that was unset at first may have been written to before
                statements.append(f"{self.const(descriptor)}.__set__({target}, None)")
                statements.append(f"{self.const(descriptor)}.__delete__({target})")
            else:
                statements.append(f"{self.const(descriptor)}.__set__({target}, {self.value(value)})")
        for tensor, gradient in self.world.gradients.items():
            if id(tensor) not in self.world.origin:
                continue  # one that the graph makes is given it where it is made
            target = self.source(self.world.origin[id(tensor)])
            statements.append(f"{self.const(setattr)}({target}, 'grad', {self.value(gradient)})")
        for space in self.world.namespaces.values():
            for name, value in space.written.items():
                if space.owner is None:
                    statements.append(f"{self.const(space.real)}[{name!r}] = {self.value(value)}")
                elif space.differs(name):
                    owner = self.const(space.owner)
                    statements.append(f"{self.const(setattr)}({owner}, {name!r}, {self.value(value)})")
        return statements

    def settle(self, shadow: Any) -> None:
        """Replay the writes to a container from outside now, before the next value is made."""
        entry = self.world.records.get(id(shadow))
        if entry is not None and id(shadow) not in self._settled and entry.differs():
            self._settled.add(id(shadow))
            self.lines += entry.rule.write(self, entry)


def literal(value: Any) -> str | None:
    """The Python text of an atom, or None where there is no exact one."""
    kind = type(value)  # a weak proxy of a dead object cannot be asked for its class
    exact = kind in (type(None), bool, int, str, bytes) or kind is float and math.isfinite(value)
    return written_atom(value) if exact else None
