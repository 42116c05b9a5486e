"""Items, membership and iteration over the shadow world: what is read is filled, what is written is noted."""

from __future__ import annotations

import collections
import operator
import weakref
from collections.abc import Iterator
from types import MappingProxyType, MethodType
from typing import Any

import torch

from onegraph.capture.breaks import NUMPY_ARRAY, GraphBreak
from onegraph.capture.breaks.hints import refused_object
from onegraph.capture.bytecode.frame import NULL
from onegraph.capture.bytecode.refusals import NO_ATTRIBUTE
from onegraph.capture.graph.operators import Operators, membership
from onegraph.capture.heap.native_calls import refuse_called, refuse_tensor_like
from onegraph.capture.heap.tensor_texts import refuse_marked
from onegraph.capture.heap.type_rules import rule_of
from onegraph.capture.interp.lookup import is_python
from onegraph.capture.interp.rests import ITERATOR, NEXT, Rest, indexing_rest
from onegraph.capture.policy.numpy.arrays import array_attribute
from onegraph.capture.policy.python.iteration import StandIn, hidden
from onegraph.capture.pyobject.contents import ATOMS
from onegraph.capture.pyobject.exact_types import defined, isinstance, plain
from onegraph.capture.pyobject.layout import behind_proxy
from onegraph.torchlib.arrays.array import Array

#: The methods of iterators, as functions.
STAND_IN_METHODS: dict[str, Any] = {"__next__": next, "__iter__": iter, "__length_hint__": operator.length_hint}

#: Native methods that may look at more than items.
OF_ALL_OBJECTS = frozenset(dir(object))

#: What asks its keys for their numbers.
SEQUENCES = (list, tuple, str, bytes, range)


def shown_by(container: Any) -> Any:
    """The mapping behind a read-only proxy, any other value itself."""
    return behind_proxy(container) if type(container) is MappingProxyType else container


class Containers(Operators):
    """The part of the tracer that reads and writes containers."""

    def read_attribute(self, obj: Any, name: str) -> Any:
        if isinstance(obj, Array):
            return array_attribute(obj, name)
        if not isinstance(obj, StandIn):
            return super().read_attribute(self._behind_weak_proxy(obj), name)
        if name in STAND_IN_METHODS:
            return MethodType(STAND_IN_METHODS[name], obj)
        found = getattr(obj.kind, name, NULL)
        if name == "__dict__" or found is NULL:
            raise AttributeError(f"'{obj.kind.__name__}' object has no attribute '{name}'")
        if type(found) in ATOMS or name == "__class__":
            return obj.kind if name == "__class__" else found
        raise refused_object(self.world.real(obj)) if self.world.is_outside(obj) else hidden(obj)

    def _behind_weak_proxy(self, obj: Any) -> Any:
        """The object that a weak proxy of the trace stands for; any other value itself."""
        made = type(obj) in weakref.ProxyTypes and id(obj) not in self.world.opaque
        return obj.__repr__.__self__ if made else obj

    def write_attribute(self, obj: Any, name: str, *value: Any) -> None:
        if isinstance(obj, Array):
            raise GraphBreak(NUMPY_ARRAY, why=f"its attribute {name} is written to")
        if isinstance(obj, StandIn):
            raise AttributeError(NO_ATTRIBUTE.format(obj.kind.__name__, name))
        super().write_attribute(self._behind_weak_proxy(obj), name, *value)

    def getitem(self, container: Any, key: Any) -> Any:
        refuse_marked(container)
        container = shown_by(container)
        if isinstance(container, dict):
            key = self.numbers.concrete_deep(key, "hash")
        match plain(container):
            case dict() if type(container).__getitem__ is dict.__getitem__:
                return self.getitem_of_dict(container, key)
            case list() if type(container) is list and type(key) is int:
                return self.world.element(container, key)
        if isinstance(container, torch.Tensor):
            index = self._as_index(key, indexing_rest(container))
            refuse_tensor_like(index)
            return container[index]
        self._fill_for("__getitem__", container)
        if isinstance(container, SEQUENCES):
            for part in (key.start, key.stop, key.step) if type(key) is slice else (key,):
                self.world.refuse_opaque(part)
        return super().getitem(container, key)

    def value_in_dict(self, container: Any, key: Any) -> Any:
        try:
            return self.world.lookup(container, key)
        except KeyError:
            if defined(type(container), "__missing__") is collections.defaultdict.__missing__:
                refuse_called(container.default_factory, self.world.refuse_opaque)
            return NULL

    def _as_index(self, key: Any, rest: Rest | None = None) -> Any:
        """The index of a tensor, with numbers in the place of objects that say which number they are."""
        match key:
            case tuple() if type(key) is tuple:
                return tuple(map(self._as_index, key))
            case slice():
                return slice(*map(self._as_index, (key.start, key.stop, key.step)))
        if isinstance(key, Array) and not key.is_scalar:  # its elements, as those of a tensor
            return key.read()
        if type(key) in ATOMS or isinstance(key, torch.Tensor | torch.SymInt):
            return key
        return self.index(key, rest) if self.says_index(type(key)) else key

    def setitem(self, container: Any, key: Any, value: Any) -> None:
        self.world.refuse_opaque(container)
        self.world.touch(container)
        if isinstance(container, dict):
            key = self.numbers.concrete_deep(key, "hash")
            self.world.added(key, container)
        if isinstance(container, torch.Tensor):
            key = self._as_index(key)
            refuse_tensor_like((key, value))
        elif type(container) is not dict:
            self._fill_for("__setitem__", container)
            if type(key) is slice and not isinstance(value, torch.Tensor):
                self.world.realize_items(value)
        super().setitem(container, key, value)

    def delitem(self, container: Any, key: Any) -> None:
        self.world.refuse_opaque(container)
        self.world.touch(container)
        self._fill_for("__delitem__", container)
        super().delitem(container, self.numbers.concrete_deep(key, "hash") if isinstance(container, dict) else key)

    def contains(self, item: Any, container: Any) -> bool:
        refuse_marked(item, container)
        container = shown_by(container)
        if isinstance(container, dict | set | frozenset):
            item = self.numbers.concrete_deep(item, "hash")
        if isinstance(container, dict) and type(container).__contains__ is dict.__contains__:
            return self.world.present(container, item)
        if isinstance(container, torch.Tensor) or self._fill_for("__contains__", container):
            if isinstance(container, set | frozenset):
                self.world.settled(item)
            rule = rule_of(type(container))
            for member in rule.members(container) if rule.compares_members else ():
                self.world.told_apart(item, member)
        try:
            return super().contains(item, container)
        except GraphBreak as broken:
            raise membership(broken) from None

    def _fill_for(self, special: str, container: Any) -> bool:
        """Fill a container for a native special method; one of the program's asks for what it needs."""
        self.world.refuse_opaque(container)
        native = not is_python(self.type_lookup(type(container), special))
        if native:
            self.world.realize_items(container)
        return native

    def realize_for(self, method: Any, receiver: Any) -> None:
        """Fill what a native method looks at: those of all objects look at attributes, too."""
        if method.__name__ in OF_ALL_OBJECTS:
            self.world.realize(receiver)
        else:
            self.world.realize_items(receiver)
        if isinstance(receiver, set | frozenset) and method.__name__ in ("pop", "__iter__"):
            self.world.note_order(receiver)

    def iter(self, obj: Any, rest: Rest = ITERATOR) -> Any:
        refuse_marked(obj)
        if isinstance(obj, torch.Tensor):
            return iter(obj.unbind(0)) if obj.dim() else iter(obj)
        if isinstance(obj, StandIn):
            return obj
        self.world.refuse_opaque(obj)
        self._fill_for("__iter__", obj)
        if isinstance(obj, set | frozenset):
            self.world.note_order(obj)
        return super().iter(obj, rest)

    def type_of(self, obj: Any) -> type:
        return obj.kind if isinstance(obj, StandIn | Array) else super().type_of(obj)

    def next(self, iterator: Any, rest: Rest = NEXT) -> Any:
        if isinstance(iterator, StandIn):
            return self.natively(next, iterator)
        self.world.refuse_opaque(iterator)
        return super().next(iterator, rest)

    def iterate(self, obj: Any) -> Iterator[Any]:
        """Python iteration over any value of the trace, for policies."""
        return self.drawn(self.iter(obj))

    def drawn(self, iterator: Any) -> Iterator[Any]:
        """The items of an iterator."""
        while True:
            try:
                item = self.next(iterator)
            except StopIteration:
                return
            self.world.spend(1)
            yield item

    def unpack(self, obj: Any, count: int) -> Any:
        if isinstance(obj, torch.Tensor):
            obj = obj.unbind(0)
        elif isinstance(obj, Array):
            obj = list(self.iter(obj))
        return super().unpack(self.world.realize_items(obj), count)
