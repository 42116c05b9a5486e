"""Operators and containers: dispatch to special methods, of which those written in Python are interpreted.

Where no Python code takes part, the native operation is done as it is.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from types import FunctionType, WrapperDescriptorType
from typing import Any, TypeVar

from onegraph.capture.bytecode.frame import NULL
from onegraph.capture.bytecode.refusals import COUNTS_VALUES, NO_CONTAINER
from onegraph.capture.interp import rests
from onegraph.capture.interp.lookup import is_python, type_name
from onegraph.capture.interp.parts import Part
from onegraph.capture.interp.rests import Rest
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.pyobject.layout import HEAP_TYPE

_BINARY: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "+": (operator.add, "add"),
    "-": (operator.sub, "sub"),
    "*": (operator.mul, "mul"),
    "@": (operator.matmul, "matmul"),
    "/": (operator.truediv, "truediv"),
    "//": (operator.floordiv, "floordiv"),
    "%": (operator.mod, "mod"),
    "**": (operator.pow, "pow"),
    "<<": (operator.lshift, "lshift"),
    ">>": (operator.rshift, "rshift"),
    "&": (operator.and_, "and"),
    "|": (operator.or_, "or"),
    "^": (operator.xor, "xor"),
    "+=": (operator.iadd, "add"),
    "-=": (operator.isub, "sub"),
    "*=": (operator.imul, "mul"),
    "@=": (operator.imatmul, "matmul"),
    "/=": (operator.itruediv, "truediv"),
    "//=": (operator.ifloordiv, "floordiv"),
    "%=": (operator.imod, "mod"),
    "**=": (operator.ipow, "pow"),
    "<<=": (operator.ilshift, "lshift"),
    ">>=": (operator.irshift, "rshift"),
    "&=": (operator.iand, "and"),
    "|=": (operator.ior, "or"),
    "^=": (operator.ixor, "xor"),
}
_COMPARE: dict[str, tuple[Callable[[Any, Any], Any], str, str]] = {
    "<": (operator.lt, "__lt__", "__gt__"),
    "<=": (operator.le, "__le__", "__ge__"),
    "==": (operator.eq, "__eq__", "__eq__"),
    "!=": (operator.ne, "__ne__", "__ne__"),
    ">": (operator.gt, "__gt__", "__lt__"),
    ">=": (operator.ge, "__ge__", "__le__"),
}
_UNARY: dict[str, tuple[Callable[[Any], Any], str]] = {
    "-": (operator.neg, "__neg__"),
    "+": (operator.pos, "__pos__"),
    "~": (operator.invert, "__invert__"),
}
_CONVERT: dict[str, tuple[Callable[[Any], str], str]] = {
    "str": (str, "__str__"),
    "repr": (repr, "__repr__"),
    "ascii": (ascii, "__repr__"),
}
_SEQUENCES = frozenset({list, tuple, str, bytes, range})
_PLAIN = frozenset({int, float, complex, bool, str, bytes, list, tuple, dict, set, frozenset, range, slice, type(None)})

T = TypeVar("T")


class Protocols(Part):
    """The part of the machine that operates on objects."""

    def natively(self, function: Callable[..., T], *args: Any) -> T:
        """Run native code that may call methods of the program's objects."""
        return function(*args)

    # ---- operators ---------------------------------------------------------------------------------------------------

    def unary(self, op: str, obj: Any) -> Any:
        """`-obj`, `+obj`, `~obj`"""
        native, name = _UNARY[op]
        found = NULL if type(obj) in _PLAIN else self.type_lookup(type(obj), name)
        return self.call_special(found, obj, rest=rests.UNARY) if is_python(found) else native(obj)

    def binary(self, op: str, a: Any, b: Any) -> Any:
        """`a + b`, `a += b`, ..."""
        native, stem = _BINARY[op]
        left, right = type(a), type(b)
        if left in _PLAIN and right in _PLAIN:
            return self.natively(native, a, b)
        forward, reflected = f"__{stem}__", f"__r{stem}__"
        in_place = self.type_lookup(left, f"__i{stem}__") if op[-1] == "=" else NULL
        first = self.type_lookup(left, forward)
        second = self.type_lookup(right, reflected)
        if not (is_python(in_place) or is_python(first) or is_python(second)):
            return self.natively(native, a, b)
        if stem == "mul":
            in_place = in_place if is_python(in_place) or not self._is_of_sequence(in_place) else NULL
            first = NULL if self._repeats(left) else first
            second = NULL if self._repeats(right) else second
        tries = self._tries(op, a, b, (in_place, first, second, reflected))
        shown = "** or pow()" if op == "**" else op
        message = f"unsupported operand type(s) for {shown}: '{type_name(left)}' and '{type_name(right)}'"
        if stem == "mul":
            repeating = self._repeating(op, a, b)
            if repeating is not None and self.type_lookup(type(repeating[2]), "__index__") is NULL:
                message = f"can't multiply sequence by non-int of type '{type_name(type(repeating[2]))}'"
            elif repeating is not None:
                tries.append(repeating)
        for index, (method, receiver, argument) in enumerate(tries, 1):
            rest = rests.binary_rest(tries[index:], message)
            result = self.call_special(method, receiver, (argument,), rest)
            if result is not NotImplemented:
                return result
        raise TypeError(message)

    def _tries(self, op: str, a: Any, b: Any, methods: tuple[Any, Any, Any, str]) -> list[tuple[Any, Any, Any]]:
        """Methods with receiver and argument, in the order in which they are asked."""
        in_place, first, second, reflected = methods
        left, right = type(a), type(b)
        # A native sequence has no number slot, so its own `+` comes last.
        comes_last = op[0] == "+" and self._is_native_sequence(left)
        if comes_last and in_place is not NULL and not left.__flags__ & HEAP_TYPE:
            first, in_place = in_place, NULL
        tries = [(first, a, b)]
        if left is not right:
            overridden = issubclass(right, left) and self.type_lookup(left, reflected) is not second
            tries.insert(0 if overridden or comes_last else 1, (second, b, a))
        return [each for each in [(in_place, a, b), *tries] if each[0] is not NULL]

    def _is_native_sequence(self, cls: type) -> bool:
        return self.type_lookup(cls, "__radd__") is NULL and not is_python(self.type_lookup(cls, "__add__"))

    def _is_of_sequence(self, method: Any) -> bool:
        """Whether a method is that of a native sequence, which is no operator of numbers."""
        native = type(method) is WrapperDescriptorType
        return native and self.type_lookup(method.__objclass__, "__radd__") is NULL

    def _repeats(self, cls: type) -> bool:
        """Whether instances are repeated as native sequences are, behind all operators of numbers."""
        own = is_python(self.type_lookup(cls, "__rmul__"))
        return not own and self._is_of_sequence(self.type_lookup(cls, "__mul__"))

    def _repeating(self, op: str, a: Any, b: Any) -> tuple[Any, Any, Any] | None:
        """How a native sequence is repeated by `*` or `*=`: the method, the sequence, the number."""
        in_place = self.type_lookup(type(a), "__imul__") if op == "*=" else NULL
        if self._is_of_sequence(in_place):
            return in_place, a, b
        if self._repeats(type(a)):
            return self.type_lookup(type(a), "__mul__"), a, b
        if op == "*=" and type(a).__flags__ & HEAP_TYPE:
            return None  # a sequence on the right is asked by objects of native types only
        return (self.type_lookup(type(b), "__mul__"), b, a) if self._repeats(type(b)) else None

    def compare(self, op: str, a: Any, b: Any) -> Any:
        """`a < b`, ..."""
        native, name, reflected = _COMPARE[op]
        left, right = type(a), type(b)
        if left in _PLAIN and right in _PLAIN:
            return self.natively(native, a, b)
        first, second = self.type_lookup(left, name), self.type_lookup(right, reflected)
        if not (self._compares_in_python(left, first) or self._compares_in_python(right, second)):
            return self.natively(native, a, b)
        tries = [(first, a, b), (second, b, a)]
        if left is not right and issubclass(right, left):
            tries.reverse()
        tries = [each for each in tries if each[0] is not NULL]
        message = f"'{op}' not supported between instances of '{type_name(left)}' and '{type_name(right)}'"
        for index, (method, receiver, argument) in enumerate(tries, 1):
            rest = rests.compare_rest(op, method is object.__ne__, a, b, tries[index:], message)
            result = self._compare_with(method, receiver, argument, rest)
            if result is not NotImplemented:
                return result
        if op == "==":
            return a is b
        if op == "!=":
            return a is not b
        raise TypeError(message)

    def _compares_in_python(self, cls: type, found: Any) -> bool:
        return is_python(self.type_lookup(cls, "__eq__") if found is object.__ne__ else found)

    def _compare_with(self, method: Any, receiver: Any, argument: Any, rest: Rest) -> Any:
        if type(method) is WrapperDescriptorType and method is not object.__ne__:
            return self.call(method, (receiver, argument), {})
        if method is object.__ne__:  # the opposite of __eq__
            result = self.call_special(self.type_lookup(type(receiver), "__eq__"), receiver, (argument,), rest)
            return result if result is NotImplemented else not self.truth(result)
        if type(method) is FunctionType:
            return self.call(method, (receiver, argument), {}, rest)
        try:
            bound = self.bind_special(method, receiver)
        except Exception:  # CPython takes any error of the binding for a missing method
            return NotImplemented
        return self.call(bound, (argument,), {}, rest)

    def is_op(self, a: Any, b: Any) -> bool:
        """`a is b`"""
        return a is b

    def truth(self, obj: Any) -> bool:
        """`bool(obj)`"""
        if type(obj) in _PLAIN:
            return True if obj else False
        found = self.type_lookup(type(obj), "__bool__")
        if is_python(found):
            return rests.truth(self.call_special(found, obj, rest=rests.TRUTH))
        if found is NULL and is_python(self.type_lookup(type(obj), "__len__")):
            return self.length(obj, rests.TRUTH_OF_LENGTH) != 0
        return True if obj else False

    def length(self, obj: Any, rest: Rest = rests.LENGTH) -> int:
        """`len(obj)`"""
        found = NULL if type(obj) in _PLAIN else self.type_lookup(type(obj), "__len__")
        if not is_python(found):
            return len(obj)
        return rests.length(self.call_special(found, obj, rest=rest))

    def convert(self, obj: Any, kind: str) -> str:
        """`str(obj)`, `repr(obj)`, `ascii(obj)`"""
        native, name = _CONVERT[kind]
        if type(obj) in _PLAIN:
            return self.natively(native, obj)
        found = self.type_lookup(type(obj), name)
        if name == "__str__" and found is object.__str__:
            found = self.type_lookup(type(obj), "__repr__")  # whose text is still that of `__str__`
        if not is_python(found):
            return self.natively(native, obj)
        text = rests.text(self.call_special(found, obj, rest=rests.text_rest(name, kind)), name)
        return text if kind != "ascii" or text.isascii() else text.encode("ascii", "backslashreplace").decode("ascii")

    def format(self, obj: Any, spec: Any) -> str:
        """`format(obj, spec)`"""
        found = NULL if type(obj) in _PLAIN else self.type_lookup(type(obj), "__format__")
        if found is object.__format__ and spec == "":
            return self.convert(obj, "str")
        if not is_python(found):
            return self.natively(format, obj, spec)
        return rests.formatted(self.call_special(found, obj, (spec,), rests.FORMATTED))

    # ---- containers --------------------------------------------------------------------------------------------------

    def getitem(self, container: Any, key: Any) -> Any:
        """`container[key]`"""
        if type(container) in _PLAIN and type(key) in _PLAIN:
            return container[key] if type(key) is int else self.natively(operator.getitem, container, key)
        if type(container) in _SEQUENCES and self.says_index(type(key)):
            return container[self.index(key, rests.indexing_rest(container))]
        found = self.type_lookup(type(container), "__getitem__")
        if is_python(found):
            return self.call_special(found, container, (key,), rests.ITEM)
        if found is dict.__getitem__:
            return self.getitem_of_dict(container, key)
        if issubclass(type(container), type) and found is NULL:
            method = self.type_lookup(container, "__class_getitem__")
            if isinstance(method, classmethod):
                return self.call(self.getattr(container, "__class_getitem__"), (key,), {}, rests.ITEM)
        return self.natively(operator.getitem, container, key)

    def says_index(self, cls: type) -> bool:
        """Whether instances say by a method in Python which number they are. Those of integers are not asked."""
        return is_python(self.type_lookup(cls, "__index__")) and not issubclass(cls, int)

    def getitem_of_dict(self, container: dict[Any, Any], key: Any) -> Any:
        """`dict.__getitem__`, which asks `__missing__` of a subclass."""
        value = self.value_in_dict(container, key)
        if value is not NULL:
            return value
        missing = self.type_lookup(type(container), "__missing__")
        if missing is NULL:
            raise KeyError(key)
        if is_python(missing):
            return self.call_special(missing, container, (key,), rests.ITEM)
        return self.natively(operator.getitem, container, key)

    def value_in_dict(self, container: dict[Any, Any], key: Any) -> Any:
        """What a dict holds under a key, or NULL."""
        return self.natively(dict.get, container, key, NULL)

    def index(self, obj: Any, rest: Rest | None) -> int:
        """`operator.index(obj)` of an object with `__index__` in Python"""
        result = self.call_special(self.type_lookup(type(obj), "__index__"), obj, rest=rest)
        if not isinstance(result, int):
            raise TypeError(f"__index__ returned non-int (type {type_name(type(result))})")
        return result

    def setitem(self, container: Any, key: Any, value: Any) -> None:
        """`container[key] = value`"""
        found = NULL if type(container) in _PLAIN else self.type_lookup(type(container), "__setitem__")
        if is_python(found):
            self.call_special(found, container, (key, value), rests.WRITTEN_ITEM)
        else:
            self.natively(operator.setitem, container, key, value)

    def delitem(self, container: Any, key: Any) -> None:
        """`del container[key]`"""
        found = NULL if type(container) in _PLAIN else self.type_lookup(type(container), "__delitem__")
        if is_python(found):
            self.call_special(found, container, (key,), rests.WRITTEN_ITEM)
        else:
            self.natively(operator.delitem, container, key)

    def contains(self, item: Any, container: Any) -> bool:
        """`item in container`"""
        if type(container) in _PLAIN:
            return self.natively(operator.contains, container, item)
        found = self.type_lookup(type(container), "__contains__")
        if is_python(found):
            return self.truth(self.call_special(found, container, (item,), rests.CONTAINED))
        if found is NULL and is_python(self.type_lookup(type(container), "__iter__")):
            iterator, refusal = NULL, NO_CONTAINER.format(type_name(type(container)))
            try:
                iterator = self.iter(container, rests.finding_rest(item, refusal))
            except TypeError:  # also one of the program's
                pass
            if iterator is NULL:
                raise TypeError(refusal)
            while True:
                try:
                    candidate = self.next(iterator)
                except StopIteration:
                    return False
                if candidate is item or self.truth(self.compare("==", candidate, item)):
                    return True
        return self.natively(operator.contains, container, item)

    def iter(self, obj: Any, rest: Rest = rests.ITERATOR) -> Any:
        """`iter(obj)`"""
        found = NULL if type(obj) in _PLAIN else self.type_lookup(type(obj), "__iter__")
        if not is_python(found):
            return iter(obj)
        iterator = self.call_special(found, obj, rest=rest)
        if self.type_lookup(type(iterator), "__next__") is NULL:
            raise TypeError(f"iter() returned non-iterator of type '{type_name(type(iterator))}'")
        return iterator

    def next(self, iterator: Any, rest: Rest = rests.NEXT) -> Any:
        """`next(iterator)`; raises StopIteration at the end."""
        found = self.type_lookup(type(iterator), "__next__")
        return self.call_special(found, iterator, rest=rest) if is_python(found) else self.natively(next, iterator)

    def next_in_loop(self, iterator: Any) -> Any:
        """The next item of a `for` loop."""
        return self.next(iterator)

    def send(self, receiver: Any, value: Any) -> tuple[bool, Any]:
        """Resume what `yield from` waits for: (whether it has returned, what it yields or returns)."""
        try:
            if value is None:
                return False, self.next(receiver)
            return False, self.call(self.getattr(receiver, "send"), (value,), {})
        except StopIteration as stop:
            return True, stop.value

    def unpack(self, obj: Any, count: int) -> Sequence[Any]:
        """The items of `a, b = obj`"""
        if type(obj) is tuple or type(obj) is list:
            items = obj
        else:
            items = self._take(self._unpackable(obj), count + 1)
        if len(items) > count:
            counted = f", got {len(obj)}" if COUNTS_VALUES and type(obj) in (tuple, list, dict) else ""
            raise ValueError(f"too many values to unpack (expected {count}{counted})")
        if len(items) < count:
            raise ValueError(f"not enough values to unpack (expected {count}, got {len(items)})")
        return items

    def unpack_ex(self, obj: Any, before: int, after: int) -> Sequence[Any]:
        """The items of `a, *b, c = obj`"""
        iterator = self._unpackable(obj)
        items = self._take(iterator, before)
        if len(items) == before:
            items += self._take(self.iter(iterator), None)  # as a list is made of what is left
        if len(items) < before + after:
            raise ValueError(f"not enough values to unpack (expected at least {before + after}, got {len(items)})")
        end = len(items) - after
        return [*items[:before], items[before:end], *items[end:]]

    def _unpackable(self, obj: Any) -> Any:
        cls = type(obj)
        if self.type_lookup(cls, "__iter__") is NULL and self.type_lookup(cls, "__getitem__") is NULL:
            raise TypeError(f"cannot unpack non-iterable {type_name(cls)} object")
        return self.iter(obj)

    def _take(self, iterator: Any, count: int | None) -> list[Any]:
        items: list[Any] = []
        while count is None or len(items) < count:
            try:
                items.append(self.next(iterator, rests.unpacking_rest(items, iterator)))
            except StopIteration:
                break
        return items

    def set_add(self, container: set[Any], item: Any) -> None:
        """Add to the set of a display or a comprehension."""
        if type(item) is str or type(item) is int:
            container.add(item)
        else:
            self.natively(set.add, container, item)

    def map_add(self, container: dict[Any, Any], key: Any, value: Any) -> None:
        """Add to the dict of a display or a comprehension."""
        if type(key) is str or type(key) is int:
            container[key] = value
        else:
            self.natively(operator.setitem, container, key, value)
