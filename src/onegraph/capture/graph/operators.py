"""Operators and displays over the shadow world: before native code looks into a shadow, the shadow is filled.

How far it looks decides how much is filled, and guarded: `[*a]` one level, `a == b` everything.
"""

from __future__ import annotations

import operator
from types import MappingProxyType
from typing import Any

import torch

from onegraph.capture.breaks import (
    DATA_DEPENDENT_MEMBERSHIP,
    DATA_DEPENDENT_TRUTH,
    FOREIGN_LIBRARY,
    NUMPY_ARRAY,
    TEXT_OF_CONTAINER,
    GraphBreak,
)
from onegraph.capture.graph.record import Recorder
from onegraph.capture.heap.attributes import Attributes
from onegraph.capture.heap.native_calls import ITEMS, refuse_asked
from onegraph.capture.heap.tensor_texts import Shown, is_marked, measures, refuse_marked
from onegraph.capture.heap.type_rules import rule_of
from onegraph.capture.pyobject.contents import ATOMS
from onegraph.capture.pyobject.exact_types import compares_by_identity, isinstance, plain
from onegraph.capture.pyobject.layout import VIEWS, behind_proxy
from onegraph.capture.pyobject.native_members import ARGUMENTS_OF
from onegraph.capture.symbolic.arithmetic import INTEGERS, NUMBERS, SYMBOLIC, Arithmetic
from onegraph.torchlib.arrays.array import Array
from onegraph.torchlib.shapes import SIGNS

#: What symbolic numbers compute with tensors, and those of which nothing is known with each other.
SYMBOLIC_OPERATORS = frozenset({"+", "-", "*", "/", "//", "%", "**"})
#: Those that compute with numbers that are not known while tracing, if one is a floating-point number.
FLOATING_OPERATORS = frozenset({"+", "-", "*", "/", "**"})
OPERANDS = NUMBERS | torch.Tensor | Array
FUNCTIONS = {sign: function for function, sign in SIGNS.items()}
UNARY = {"+": operator.pos, "-": operator.neg, "~": operator.invert}
#: The exponents up to which no power of a symbolic integer is too large.
SMALL_EXPONENT = 16


def may_raise(op: str, a: Any, b: Any) -> bool:
    """Whether an operator on symbolic integers is an error for these, or gives another type for others."""
    numbers = not isinstance(a, torch.Tensor) and not isinstance(b, torch.Tensor)
    if not (numbers and (isinstance(a, SYMBOLIC) or isinstance(b, SYMBOLIC))):
        return False
    if op == "**":
        return not (type(b) is int and 0 <= b <= SMALL_EXPONENT)
    return op in ("/", "//", "%") and bool(b == 0)  # which is guarded


class Operators(Attributes):
    """The part of the tracer that operates on values as a whole."""

    recorder: Recorder
    numbers: Arithmetic

    def write_generic(self, obj: Any, name: str, *value: Any) -> None:
        super().write_generic(self.numbers.concrete(obj, "attribute"), name, *value)

    def binary(self, op: str, a: Any, b: Any) -> Any:
        a, b = scalars_beside_tensors(a, b)
        if op.rstrip("=") in FUNCTIONS and self.numbers.is_symbolic(a, b):
            return self.numbers.computed(FUNCTIONS[op.rstrip("=")], a, b)
        if op.rstrip("=") in FLOATING_OPERATORS and takes_unknown(a, b):
            return self.numbers.computed(FUNCTIONS[op.rstrip("=")], a, b)
        if op.rstrip("=") not in SYMBOLIC_OPERATORS or not (isinstance(a, OPERANDS) and isinstance(b, OPERANDS)):
            a, b = self.numbers.concrete(a, f"operator {op}"), self.numbers.concrete(b, f"operator {op}")
        elif may_raise(op.rstrip("="), a, b):
            a, b = self.numbers.concrete(a, f"operator {op}"), self.numbers.concrete(b, f"operator {op}")
        if type(a) is str and op in ("%", "%="):
            measured = measures(a, b)
            text = super().binary(op, a, self.shown(b))
            if measured:
                refuse_marked(text)
            return self.world.with_addresses(text)
        if is_reflected(a, b):
            return FUNCTIONS[op.rstrip("=")](a, b)
        if op[-1] == "=":
            self.world.touch(a)
        refuse_items_beside_tensors(a, b)
        if isinstance(a, type) and type(a).__module__ == "_ctypes":
            raise GraphBreak(FOREIGN_LIBRARY, name=f"ctypes.{a.__name__} {op}")  # a class of the frame that makes it
        return super().binary(op, self._filled(a), self._filled(b))

    def unary(self, op: str, obj: Any) -> Any:
        if op in UNARY and self.numbers.is_symbolic(obj):
            return self.numbers.computed(UNARY[op], obj)
        if op == "~":
            obj = self.numbers.concrete(obj, "operator ~")
        return super().unary(op, self._filled(obj))

    def compare(self, op: str, a: Any, b: Any) -> Any:
        if type(a) is MappingProxyType:  # which hands on the question
            return self.compare(op, behind_proxy(a), b)
        if type(b) is MappingProxyType and isinstance(a, dict):
            return self.compare(op, a, behind_proxy(b))
        if self.numbers.is_symbolic(a, b) and not (isinstance(a, INTEGERS) and isinstance(b, INTEGERS)):
            return self.numbers.asked(FUNCTIONS[op], a, b)
        if op in ("==", "!=") and any(
            self.numbers.is_symbolic(x) and type(y) in (type(None), str) for x, y in ((a, b), (b, a))
        ):
            return op == "!="
        refuse_marked(a, b)
        a, b = scalars_beside_tensors(a, b)
        refuse_items_beside_tensors(a, b)
        for value in (a, b):
            if not compares_by_identity(type(value)) or op not in ("==", "!="):
                self.world.refuse_opaque(value)
        self.world.told_apart(a, b)
        left, right = self.numbers.truth_value(a), self.numbers.truth_value(b)
        try:
            answer = FUNCTIONS[op](left, right) if is_reflected(left, right) else super().compare(op, left, right)
            if isinstance(answer, torch.SymBool) and not self.numbers.decides(answer):
                return self.numbers.answered(answer)  # which native code takes where it takes no symbolic one
            return answer
        except GraphBreak as broken:
            raise membership(broken) from None

    def convert(self, obj: Any, kind: str) -> str:
        obj = self.numbers.concrete(obj, "text")
        if isinstance(obj, torch.Tensor):
            return self.recorder.texts.mark(obj, kind)
        if kind != "str":  # which shows the characters of a mark
            refuse_marked(obj)
        if kind == "str" and is_message(obj):
            return str(obj)
        return self.world.with_addresses(super().convert(self._printable(obj), kind))

    def format(self, obj: Any, spec: Any) -> str:
        obj = self.numbers.concrete(obj, "text")
        if isinstance(obj, torch.Tensor):
            if spec and obj.dim():
                raise TypeError(f"unsupported format string passed to {self.type_of(obj).__name__}.__format__")
            format(zero_of(obj.dtype), spec)  # which refuses an unfit one
            return self.recorder.texts.mark(obj, "format", spec)
        if spec:
            refuse_marked(obj)
        elif is_message(obj):
            return str(obj)
        return self.world.with_addresses(super().format(self._printable(obj), spec))

    def list_extend(self, container: list[Any], items: Any) -> None:
        super().list_extend(container, self._items_of(items))

    def list_to_tuple(self, items: list[Any]) -> tuple[Any, ...]:
        return super().list_to_tuple(self._filled(items))

    def set_update(self, container: set[Any], items: Any) -> None:
        super().set_update(container, self._items_of(items))
        if set.__len__(container) > 1:
            refuse_marked(*container)
        for item in container:
            self.world.hashed(item)

    def star_arguments(self, function: Any, args: Any) -> tuple[Any, ...]:
        return super().star_arguments(function, self._items_of(args))

    def star_keywords(self, named: Any) -> dict[str, Any]:
        return super().star_keywords(self._filled(named))

    def unpack_ex(self, obj: Any, before: int, after: int) -> Any:
        return super().unpack_ex(self._items_of(obj), before, after)

    def dict_update(self, container: dict[Any, Any], other: Any) -> None:
        super().dict_update(container, self._filled(other))

    def dict_merge(self, container: dict[Any, Any], other: Any, function: Any) -> None:
        super().dict_merge(container, self._filled(other), function)

    def _items_of(self, obj: Any) -> Any:
        if isinstance(obj, torch.Tensor) and obj.dim():
            return obj.unbind(0)
        if isinstance(obj, Array):
            return list(self.iter(obj))
        return self._filled(obj)

    def _filled(self, value: Any) -> Any:
        if type(value) in ATOMS or isinstance(value, torch.Tensor | Array):
            return value
        return self.world.realize_items(value)

    def shown(self, value: Any) -> Any:
        """An argument of a native function that prints it, or a tuple or dict of them."""
        texts = self.recorder.texts
        match plain(value):
            case torch.Tensor():
                return Shown(value, texts)
            case tuple() if type(value) is tuple:
                return tuple(Shown(v, texts) if isinstance(v, torch.Tensor) else self._printable(v) for v in value)
            case dict() if type(value) is dict:
                items = self.world.realize(value).items()
                return {k: Shown(v, texts) if isinstance(v, torch.Tensor) else self._printable(v) for k, v in items}
            case _:
                return self._printable(value)

    def _printable(self, value: Any) -> Any:
        """A value that is about to be printed; native code cannot print the tensors in a container yet."""
        if isinstance(value, Array):
            raise GraphBreak(NUMPY_ARRAY, why="it is printed")
        cls: Any = type(value)
        if cls.__repr__ is not object.__repr__ or cls.__str__ is not object.__str__:
            self.world.refuse_opaque(value)
        if hides_text(self.world.filled(value), set()):
            raise GraphBreak(TEXT_OF_CONTAINER)
        return self.numbers.concrete_deep(value, "text")

    def set_add(self, container: set[Any], item: Any) -> None:
        self.world.added(item, container)
        super().set_add(container, self.numbers.concrete_deep(item, "hash"))

    def map_add(self, container: dict[Any, Any], key: Any, value: Any) -> None:
        self.world.added(key, container)
        super().map_add(container, self.numbers.concrete_deep(key, "hash"), value)


def zero_of(dtype: torch.dtype) -> Any:
    """A number of the type that `Tensor.item` gives."""
    if dtype is torch.bool:
        return False
    return 0j if dtype.is_complex else 0.0 if dtype.is_floating_point else 0


def refuse_items_beside_tensors(a: Any, b: Any) -> None:
    """Break the graph where an operator of tensors would ask a list for its items out of our sight."""
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        for value in (a, b):
            if isinstance(value, list | tuple):
                refuse_asked(type(value), ITEMS)


def scalars_beside_tensors(a: Any, b: Any) -> tuple[Any, Any]:
    """Operands of which one may be a tensor and the other one of NumPy's scalars, which is a number to torch."""
    if isinstance(a, torch.Tensor) and is_number(b):
        return a, number_beside(a, b.tensor)
    if isinstance(b, torch.Tensor) and is_number(a):
        return number_beside(b, a.tensor), b
    return a, b


def is_number(value: Any) -> bool:
    """Whether a value is a scalar of NumPy's that torch takes for a number of Python's."""
    return isinstance(value, Array) and value.is_scalar and value.tensor.dtype is not torch.bool


def number_beside(tensor: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
    """A number of the type that a plain one takes on beside the tensor."""
    plain_number = 1j if number.dtype.is_complex else 1.0 if number.dtype.is_floating_point else 1
    return number.to(torch.result_type(tensor, plain_number))


def takes_unknown(a: Any, b: Any) -> bool:
    """Whether these are numbers, and one is a floating-point number that is not known while tracing."""
    unknown = any(isinstance(value, torch.SymFloat) and not value.node.is_known for value in (a, b))
    return unknown and isinstance(a, NUMBERS) and isinstance(b, NUMBERS)


def is_reflected(a: Any, b: Any) -> bool:
    """Whether a plain number meets a symbolic one: native code of its own would ask for the digits of the other."""
    return type(a) in (int, float) and isinstance(b, torch.SymInt | torch.SymFloat)


def is_message(value: Any) -> bool:
    """Whether a value is an exception whose text is a text that is not known yet."""
    native = isinstance(value, BaseException) and type(value).__str__ is BaseException.__str__
    args: tuple[Any, ...] = ARGUMENTS_OF(value) if native else ()
    return len(args) == 1 and is_marked(args[0])


def hides_text(value: Any, seen: set[int]) -> bool:
    """Whether a container, at any depth, holds tensors or texts that are not known yet: it cannot be printed."""
    if isinstance(value, VIEWS):
        return hides_text(behind_proxy(value), seen)
    rule = rule_of(type(value))
    if not rule.is_looked_into or id(value) in seen:
        return isinstance(value, torch.Tensor | Array)
    seen.add(id(value))
    return any(is_marked(item) or hides_text(item, seen) for item in rule.members(value))


def membership(broken: GraphBreak) -> GraphBreak:
    """The break of a container that has asked whether tensors are equal, in the place of any question for truth."""
    asked = broken.reason is DATA_DEPENDENT_TRUTH and not broken.frames
    return GraphBreak(DATA_DEPENDENT_MEMBERSHIP) if asked else broken
