"""The shadow world: what the traced program sees in place of everything that came from outside.

The interpreter runs the user's bytecode over real Python objects, but nothing real may change while tracing. So a
value that comes in is *admitted*: a tensor becomes a fake tensor and a graph input, an atom is guarded and used as it
is, a container or an object is used through its *shadow*, a copy of the same type. Shadows are memoised by identity,
so that `is` and aliasing hold, and are filled lazily, so that a guard exists only for what was used: a slot that was
not read yet holds UNFILLED.

    real object --admit--> shadow      world.origin[id(shadow)] = Source      world.records[id(shadow)] = Record

At the end every shadow is compared with its snapshot (`changes`), and the difference is replayed on the originals.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable, Iterator
from types import CellType, FunctionType, MappingProxyType, MemberDescriptorType
from typing import Any

import torch

from onegraph.base.events import Location
from onegraph.capture.breaks import MODULE_WRITE, NUMPY_ARRAY, GraphBreak
from onegraph.capture.breaks.hints import refused_object
from onegraph.capture.bytecode.frame import Frame
from onegraph.capture.guards.guard import Guard, GuardSet
from onegraph.capture.guards.source import CellOf, DictOf, Globals, Item, Source, TypeOf, member_at
from onegraph.capture.heap.hooks import Gradients, Hooks
from onegraph.capture.heap.iterator_reads import Draws
from onegraph.capture.heap.keys import Keys
from onegraph.capture.heap.namespaces import Namespaces
from onegraph.capture.heap.tensor_texts import refuse_marked
from onegraph.capture.heap.type_rules import Record, rule_of
from onegraph.capture.pyobject.contents import ATOMS, DELETED, UNFILLED
from onegraph.capture.pyobject.exact_types import compares_by_identity, isinstance, plain
from onegraph.capture.pyobject.layout import HEAP_TYPE, UnsetSlot, behind_proxy, filled_slots, instance_dict, slots_of
from onegraph.capture.pyobject.native_members import Member
from onegraph.capture.pyobject.special_methods import StatefulClasses
from onegraph.capture.pyobject.weakly_known import weakly
from onegraph.torchlib.arrays.array import Array

#: What a program may see of objects that is another in each process.
ADDRESSES = "an address that the program has asked for"


class World(Namespaces, Keys):
    """The admitted part of the world outside of one trace.

    `admission` turns a real object that is not an atom into its shadow (see `heap.admission`); `locate` gives the
    user's current line, which becomes the cause of the guards; `spend` counts what is done; `observe` is told of every
    admitted object.
    """

    def __init__(
        self,
        admission: Callable[[World, Any, Source, bool], Any],
        atom: Callable[[World, Any, Source, bool], Any],
        locate: Callable[[], Location | None],
        library: Callable[[str], bool],
        spend: Callable[[int], None],
        observe: Callable[[Any, Source], None] | None = None,
    ) -> None:
        super().__init__(library)
        self.guards = GuardSet()
        self.origin: dict[int, Source] = {}
        self.type_at: dict[Source, type] = {}
        #: What was found without a guard: an atom, or the class of what is none.
        self.unguarded: dict[Source, Any] = {}
        #: Where functions are found that need no guards of their own.
        self.found_at: dict[int, Source] = {}
        self.shadow_of: dict[int, Any] = {}
        #: What the residual code draws at random, in front of the graph, by the identity of its example.
        self.drawn: dict[int, Source] = {}
        self.real_of: dict[int, Any] = {}
        self.records: dict[int, Record] = {}
        self.opaque: dict[int, Any] = {}
        #: Objects used as they are although other calls may have others in their place.
        self.unpinned: set[int] = set()
        #: Immutable objects that are guarded by value and used as they are -> the sources at which they were found.
        self.by_value: dict[int, list[Source]] = {}
        #: Why nothing of this trace is to be kept for other processes, if that is so.
        self.unkept = ""
        #: Whether the program knows hashes, or the order of a set.
        self.told_order = False
        #: The numbers that `id` has given objects of the trace.
        self.identities: set[int] = set()
        #: The steps (a frame's serial number, and its step) at which native code has made objects.
        self.births: dict[int, tuple[int, int]] = {}
        #: The frames that generators of the trace run, by the identity of these.
        self.generators: dict[int, Frame] = {}
        #: What the program has drawn from iterators from outside.
        self.draws = Draws()
        #: Dicts that are parts of objects of the trace, and were handed out -> (the object, its attribute).
        self.parts: dict[int, tuple[Any, str]] = {}
        #: Functions and classes that the traced program made itself.
        self.made_functions: dict[int, Any] = {}
        self.made_classes: dict[int, Any] = {}
        #: What the program has set on tensors that the graph makes, by the identity of these.
        self.tensor_names: dict[int, dict[str, Any]] = {}
        self.gradients = Gradients()
        self.hooks = Hooks()
        #: Whether NumPy's arrays are captured as tensors.
        self.captures_arrays = True
        #: Whether native code would change objects that a class has as its special methods.
        self.is_stateful = StatefulClasses(self.made_classes)
        #: (id of shadow, slot descriptor) -> (shadow, what the slot would hold if nobody wrote to it).
        self.slots: dict[tuple[int, Any], tuple[Any, Any]] = {}
        #: The shadows (by identity) that the program may have written to, even if they are now as they were.
        self.touched: set[int] = set()
        self._admission = admission
        self._atom = atom
        self._locate = locate
        self.spend = spend
        self._observe = observe
        self._keep: list[Any] = []

    def forget(self) -> None:
        """Let go of the program's objects, which nobody else may hold."""
        for table in (self.shadow_of, self.drawn, self.real_of, self.records, self.opaque, self.namespaces, self.slots):
            table.clear()
        self.class_values.clear()
        self.guards = GuardSet()
        self.is_stateful = StatefulClasses(self.made_classes)
        self.unguarded.clear()
        for made in (self.made_functions, self.made_classes, self.generators, self.parts, self.origin, self.type_at):
            made.clear()
        self.tensor_names.clear()
        self.gradients.clear()
        self.hooks.clear()
        self.draws = Draws()
        self._keep.clear()
        self._observe = None
        self.natively = NotImplemented

    # ---- guards ------------------------------------------------------------------------------------------------------

    def guard(self, source: Source, kind: str, arg: Any) -> None:
        """Note that the trace depends on this fact."""
        self.spend(1)
        self.guards.add(Guard(source, kind, arg, self._locate()))

    # ---- admission ---------------------------------------------------------------------------------------------------

    def admit(self, real: Any, source: Source, guarded: bool = True) -> Any:
        """The value to use in place of `real`, found at `source`. Unguarded values are a library's own constants."""
        if type(real) in ATOMS:
            if not guarded:
                self.unguarded.setdefault(source, real)
            return self._atom(self, real, source, guarded)
        identity = id(real)
        if identity in self.shadow_of:
            shadow = self.shadow_of[identity]
            first = self.origin.get(id(shadow))
            if guarded and first is not None and first != source and not isinstance(source, TypeOf):
                return self._admit_again(shadow, source, first)
            return shadow
        if identity in self.real_of or identity in self.records:
            return real
        if not guarded:
            self.unguarded.setdefault(source, type(real))
        return self._admission(self, real, source, guarded)

    def _admit_again(self, shadow: Any, source: Source, first: Source) -> Any:
        """What is known from its first source is found at another one, where a value may have other numbers."""
        if id(shadow) in self.by_value:
            if source not in self.by_value[id(shadow)]:
                return self._admission(self, shadow, source, True)
        elif self.is_pinned(shadow) and not isinstance(shadow, FunctionType):
            self.guard(source, "is", shadow)
        else:
            self.guard(source, "same", first)
        return shadow

    def adopt(self, real: Any, shadow: Any, source: Source) -> None:
        """Remember that `shadow` stands for `real` (which may be the same object)."""
        self.shadow_of[id(real)] = shadow
        self.type_at.setdefault(source, type(real))
        self.origin.setdefault(id(shadow), source)
        self.real_of[id(shadow)] = real
        self._keep += (real, shadow)
        if self._observe is not None:
            self._observe(real, source)

    def adopt_value(self, real: Any, source: Source) -> None:
        """Remember that an immutable object guarded by value is used as it is: another call may bring an equal one."""
        self.adopt(real, real, source)
        self.by_value.setdefault(id(real), []).append(source)

    def keep(self, value: Any) -> Any:
        """Keep `value` alive as long as the world, so that its identity stays its own."""
        self._keep.append(value)
        return value

    def record(self, shadow: Any, real: Any, source: Source, guarded: bool, snapshot: Any) -> Record:
        entry = Record(shadow, real, source, guarded, snapshot, rule_of(type(shadow)))
        self.records[id(shadow)] = entry
        self._keep += (shadow, real)
        return entry

    def real(self, value: Any) -> Any:
        """The object that a value of the trace stands for; the value itself when it was made by the trace."""
        return self.real_of.get(id(value), value)

    def is_pinned(self, value: Any) -> bool:
        """Whether a value of the trace is the very object of every call: guards say so."""
        unpinned = id(value) in self.unpinned or id(value) in self.by_value
        return not unpinned and self.real_of.get(id(value)) is value

    def is_outside(self, value: Any) -> bool:
        return id(value) in self.origin

    def identity_matters(self, a: Any, b: Any) -> bool:
        """Whether two objects are one, which is guarded of those from outside. A value may be known in two ways."""
        left, right = self.origin.get(id(a)), self.origin.get(id(b))
        if left is None or right is None:
            return a is b
        one = self.real(a) is self.real(b)
        if one:
            for other in (right, *self.by_value.get(id(a), ())):
                if other != left:
                    self.guard(left, "same", other)
        elif not (self.is_pinned(a) or self.is_pinned(b)):
            self.guard(left, "different", (right,))
        return one

    def with_addresses(self, text: str) -> str:
        """A text that native code has made, with the addresses of the original objects in place of the shadows'."""
        if type(text) is not str or "0x" not in text:
            return text
        return re.sub("0x[0-9a-f]+", self._address, text)

    def _address(self, found: re.Match[str]) -> str:
        number = int(found[0], 16)
        real = self.real_of.get(number)
        if real is None or (id(real) == number and self.is_pinned(real)):
            return found[0]
        self.guard(self.origin[number], "is", real)
        self.unkept = ADDRESSES
        return hex(id(real))

    def told_apart(self, a: Any, b: Any) -> None:
        """The program compares two values natively: fill them, and guard which objects in them are one object."""
        self.filled(a)
        self.filled(b)
        todo, seen = [(a, b)], set()
        while todo:
            a, b = todo.pop()
            for value in (a, b):
                if not compares_by_identity(type(value)):
                    self.refuse_opaque(value)
            if a is b or type(a) is not type(b) or type(a) in ATOMS or (id(a), id(b)) in seen:
                continue
            seen.add((id(a), id(b)))
            match plain(a):
                case list():
                    todo += zip(list.__iter__(a), list.__iter__(b), strict=False)
                case tuple():
                    todo += zip(tuple.__iter__(a), tuple.__iter__(b), strict=False)
                case dict():
                    todo += [(value, dict.get(b, key)) for key, value in dict.items(a)]
                case set() | frozenset():
                    pass
                case _:
                    self.identity_matters(a, b)

    # ---- lazy containers ---------------------------------------------------------------------------------------------

    def lookup(self, container: dict[Any, Any], key: Any) -> Any:
        """`container[key]` of a dict (UNFILLED never escapes); raises KeyError. Guards presence or absence."""
        entry = self.records.get(id(container))
        self.settled(key)
        value = self.find(dict.get, container, key, DELETED)  # asks no `__missing__`
        if entry is None:
            if value is DELETED:
                refuse_marked(key)
                raise KeyError(key)
            return value
        if value is UNFILLED:
            return self.fill_key(entry, key)
        if value is DELETED:
            refuse_marked(key)
            self.guard_presence(entry, key)
            raise KeyError(key)
        return value

    def present(self, container: dict[Any, Any], key: Any) -> bool:
        """`key in container` of a dict, guarded without reading the value."""
        refuse_marked(key)
        found = self.find(dict.__contains__, container, self.settled(key))
        entry = self.records.get(id(container))
        if entry is not None:
            self.guard_presence(entry, key)
        return found

    def element(self, container: list[Any], index: int) -> Any:
        """`container[index]` of a list, whose length is guarded."""
        self.length_matters(container)
        value = list.__getitem__(container, index)
        if value is not UNFILLED:
            return value
        entry = self.records[id(container)]
        index = index if index >= 0 else index + list.__len__(container)
        value = self.admit(list.__getitem__(entry.real, index), Item(entry.source, index), entry.guarded)
        entry.snapshot[index] = value
        list.__setitem__(container, index, value)
        return value

    def contents(self, cell: CellType) -> Any:
        """The contents of a cell; raises ValueError when it is empty."""
        value = cell.cell_contents
        if value is not UNFILLED:
            return value
        entry = self.records[id(cell)]
        value = self.admit(entry.real.cell_contents, CellOf(entry.source), entry.guarded)
        entry.snapshot[0] = value
        cell.cell_contents = value
        return value

    def fill_key(self, entry: Record, key: Any) -> Any:
        """Read the value of a key of a dict."""
        original = entry.original_key(key)
        value = self.admit(dict.__getitem__(entry.real, original), Item(entry.source, weakly(original)), entry.guarded)
        entry.snapshot[key] = value
        dict.__setitem__(entry.shadow, key, value)
        return value

    def length_matters(self, container: Any) -> None:
        """Guard the length of a container whose length the program has asked for."""
        if type(container) is MappingProxyType:
            container = behind_proxy(container)
        entry = self.records.get(id(container))
        if entry is not None and entry.guarded and not entry.complete:
            entry.rule.guard_length(self, entry)

    def refuse_opaque(self, value: Any) -> None:
        """Break the graph where the hidden state of a native object from outside would be read or written."""
        if id(value) in self.opaque or id(value) in self.drawn and not isinstance(value, torch.Tensor):
            raise refused_object(value)

    def realize(self, value: Any) -> Any:
        """Fill every slot of a container or object, one level deep: native code is about to look at it."""
        self.realize_items(value)
        if isinstance(value, set | frozenset):
            self.note_order(value)
        attributes = self.attributes(value)
        if attributes is not None and id(attributes) in self.records:
            self.realize(attributes)
        if self.real_of.get(id(value), value) is not value:
            for name, member in slots_of(type(value)):
                self.fill_slot(value, member, name)
        return value

    def realize_items(self, value: Any) -> Any:
        """Fill the items of a container, which are all that its own methods look at."""
        self.refuse_opaque(value)
        if isinstance(value, Array):
            raise GraphBreak(NUMPY_ARRAY, why="native code looks at its elements")
        entry = self.records.get(id(value))
        if type(value) is MappingProxyType:
            self.realize_items(behind_proxy(value))
        elif entry is not None and not entry.complete:
            self.length_matters(value)
            entry.complete = True
            entry.rule.fill(self, entry)
        return value

    def realize_deep(self, value: Any, opaque: bool = False, seen: set[int] | None = None) -> Any:
        """Fill everything that native code can reach from `value` through containers and object attributes.

        With `opaque` it may meet native objects from outside, which it will only hand on.
        """
        seen = set() if seen is None else seen
        if type(value) in ATOMS or id(value) in seen or (opaque and id(value) in self.opaque):
            return value
        seen.add(id(value))
        self.realize(value)
        for child in self.children(value):
            self.realize_deep(child, opaque, seen)
        return value

    def filled(self, value: Any) -> Any:
        """A value that native code compares or prints, filled if that looks into it."""
        looked_into = type(value) not in ATOMS and rule_of(type(value)).is_looked_into
        return self.realize_deep(value) if looked_into else value

    def attributes(self, value: Any) -> dict[str, Any] | None:
        """The instance dictionary of a shadow object or an object made by the trace, without running user code."""
        if id(value) in self.real_of and self.real_of[id(value)] is value:
            return None
        if isinstance(value, type):
            return None
        return instance_dict(value)

    def children(self, value: Any) -> Iterator[Any]:
        yield from rule_of(type(value)).members(value)
        attributes = self.attributes(value)
        if attributes is not None and id(attributes) in self.records:
            yield from list(attributes.values())
        if id(value) in self.real_of:
            yield from (held for _, held in filled_slots(value))

    # ---- changes -----------------------------------------------------------------------------------------------------

    def attributes_record(self, shadow: Any, real: Any, source: Source, guarded: bool) -> Record:
        """Make the instance dictionary of a blank shadow the lazy image of the real one."""
        attributes = object.__getattribute__(shadow, "__dict__")
        actual = object.__getattribute__(real, "__dict__")
        if id(actual) in self.shadow_of:  # the program has got the dictionary before its object
            attributes = self.admit(actual, DictOf(source), guarded)
            object.__setattr__(shadow, "__dict__", attributes)
            return self.records[id(attributes)]
        for name in actual:
            attributes[name] = UNFILLED
        self.adopt(actual, attributes, DictOf(source))
        return self.record(attributes, actual, DictOf(source), guarded, {})

    def fill_slot(self, shadow: Any, member: MemberDescriptorType, name: str) -> None:
        """Fill a `__slots__` attribute of a shadow, unless it was read or written before, or is unset."""
        real = self.real_of[id(shadow)]
        native = not member.__objclass__.__flags__ & HEAP_TYPE  # of an exception, which has it from the start
        if native or (id(shadow), member) in self.slots:
            return
        source = member_at(self.origin[id(shadow)], type(real), Member(member))
        try:
            found = member.__get__(real, type(real))
        except AttributeError:
            self.guard(self.origin[id(shadow)], "check", UnsetSlot(member))
            return
        value = self.admit(found, source)
        member.__set__(shadow, value)
        self.slots[id(shadow), member] = (shadow, value)

    def touch(self, shadow: Any) -> None:
        """The program is about to write to a container, or hands it to native code that may."""
        entry = self.records.get(id(shadow))
        if entry is None:
            return
        if isinstance(entry.source, Globals) and self._library(entry.source.module):
            raise GraphBreak(MODULE_WRITE, what=f"the globals of {entry.source.module}")
        if entry.real is sys.modules:
            raise GraphBreak(MODULE_WRITE, what="sys.modules")
        self.touched.add(id(shadow))

    def slot_known(self, shadow: Any, member: Any, value: Any) -> None:
        """Remember what a slot of a shadow holds as long as the program does not write to it."""
        self.slots[id(shadow), member] = (shadow, value)

    def slot_written(self, shadow: Any, member: Any) -> None:
        """The program is about to write or delete a slot."""
        if self.is_outside(shadow):
            self.slots.setdefault((id(shadow), member), (shadow, UNFILLED))

    def has_written(self) -> bool:
        """Whether the program has changed anything from outside, which waits for the end of the trace."""
        written = any(space.written for space in self.namespaces.values())
        changes = itertools.chain(self.changed(), self.changed_slots())
        return written or bool(self.draws.made or self.gradients.items()) or next(changes, None) is not None

    def changed_slots(self) -> Iterator[tuple[Any, Any, Any]]:
        """(shadow, slot descriptor, new value or DELETED) of every slot that the program wrote."""
        for (_, member), (shadow, before) in self.slots.items():
            try:
                value = member.__get__(shadow, type(shadow))
            except AttributeError:
                value = DELETED
            if value is not before:
                yield shadow, member, value

    def changed(self) -> Iterator[Record]:
        """The records whose shadow differs from its snapshot, in the order of admission."""
        for entry in self.records.values():
            if entry.differs():
                yield entry
