"""Compares two object graphs: equal types and values, the same aliasing, and nothing of the tracer on the right."""

from __future__ import annotations

import collections
import functools
import math
import types
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.parameter import is_lazy
from torch.utils.hooks import RemovableHandle

from onegraph.capture.pyobject.contents import Unfilled
from onegraph.torchlib.fake import FakeTensor

ATOMS = (type(None), bool, int, str, bytes, type(Ellipsis), type(NotImplemented))
TRACED = (FakeTensor, Unfilled, torch.SymInt, torch.SymFloat, torch.SymBool)
SKIPPED_CLASS_NAMES = frozenset(
    """__dict__ __weakref__ __doc__ __module__ __abstractmethods__ _abc_impl _autograd_function_id
    _backward_cls __slotnames__""".split()
)
Path = str
Pair = tuple[Any, Any, Path]


def told(value: Any) -> Any:
    """In place of a weak proxy, its type and what it refers to."""
    if type(value) not in weakref.ProxyTypes:
        return value
    try:
        return type(value).__name__, value.__repr__.__self__
    except ReferenceError:
        return type(value).__name__, None


class Different(Exception):
    """The graphs differ; says where and how."""


class Bisimulation:
    """One comparison of two object graphs."""

    def __init__(self, scale: float = 1) -> None:
        #: Numbers may differ by so many times what operators are allowed.
        self._scale = scale
        self._right_of: dict[int, int] = {}
        self._left_of: dict[int, int] = {}
        self._storages: dict[int, int] = {}
        self._keep: list[Any] = []

    def difference(self, left: Any, right: Any) -> str | None:
        """How the graphs differ, or None."""
        todo: list[Pair] = [(left, right, "")]
        try:
            with torch._C.DisableTorchFunction():
                while todo:
                    a, b, path = todo.pop()
                    todo += self._compare(a, b, path)
        except Different as different:
            return str(different)
        return None

    def _compare(self, a: Any, b: Any, path: Path) -> list[Pair]:
        if type(a) in weakref.ProxyTypes or type(b) in weakref.ProxyTypes:  # a dead one answers nothing
            a, b = told(a), told(b)
        if isinstance(b, TRACED):
            raise Different(f"{path}: a {type(b).__name__} has leaked")
        if isinstance(a, ATOMS) and type(a) in ATOMS:
            require(type(a) is type(b) and a == b, a, b, path)
            return []
        if type(a) in (float, complex):
            require(type(a) is type(b) and close(a, b, self._scale), a, b, path)
            return []
        if a is b:
            return []
        if not same_alias(self._right_of, a, b) or not same_alias(self._left_of, b, a):
            if immutable(a) and immutable(b):
                return []
            raise Different(f"{path}: aliasing differs: {short(a)} and {short(b)}")
        if id(a) in self._right_of:
            return []
        self._right_of[id(a)], self._left_of[id(b)] = id(b), id(a)
        self._keep += (a, b)
        return list(self._parts(a, b, path))

    def _parts(self, a: Any, b: Any, path: Path) -> Iterator[Pair]:
        require(same_type(type(a), type(b)), a, b, path)
        yield type(a), type(b), f"type({path})"
        match a:
            case torch.Tensor():
                yield from self._tensor(a, b, path)
            case type():
                yield from self._class(a, b, path)
                return
            case types.FunctionType():
                require(a.__qualname__ == b.__qualname__ and a.__code__.co_code == b.__code__.co_code, a, b, path)
                for name in ("__closure__", "__defaults__", "__kwdefaults__", "__dict__", "__annotations__"):
                    yield getattr(a, name), getattr(b, name), f"{path}.{name}"
                return
            case types.CellType():
                yield contents(a), contents(b), f"{path}.cell_contents"
                return
            case types.MethodType():
                yield (a.__func__, a.__self__), (b.__func__, b.__self__), path
                return
            case types.ModuleType() | types.GeneratorType() | types.CoroutineType():
                require(a.__name__ == b.__name__, a, b, path)
                return
            case types.BuiltinFunctionType() | types.MethodWrapperType():
                require(a.__name__ == b.__name__, a, b, path)
                yield a.__self__, b.__self__, f"{path}.__self__"
                return
            case functools.partial():
                yield (a.func, a.args, a.keywords), (b.func, b.args, b.keywords), path
                return
            case weakref.ref():
                yield a(), b(), f"{path}()"
                return
            case weakref.WeakKeyDictionary():  # the cache of single dispatch, which forgets by itself
                return
            case property():
                yield (a.fget, a.fset, a.fdel), (b.fget, b.fset, b.fdel), path
                return
            case staticmethod() | classmethod():
                yield a.__func__, b.__func__, path
                return
            case BaseException():
                yield a.args, b.args, f"{path}.args"
                yield (a.__cause__, a.__context__), (b.__cause__, b.__context__), f"{path}.__cause__"
            case _:
                yield from self._container(a, b, path)
        yield from self._attributes(a, b, path)

    def _container(self, a: Any, b: Any, path: Path) -> Iterator[Pair]:
        match a:
            case dict() | types.MappingProxyType():
                items, others = held(a), held(b)
                require(len(items) == len(others), items, others, f"keys of {path}")
                numbered = isinstance(a, collections.OrderedDict) and all(type(key) is int for key, _ in items)
                for (left, x), (right, y) in zip(items, others, strict=True):
                    if not numbered:  # the keys of hooks are numbers that the process counts
                        yield left, right, f"keys of {path}"
                    yield x, y, f"{path}[{short(left)}]"
                if isinstance(a, collections.defaultdict):
                    yield a.default_factory, b.default_factory, f"{path}.default_factory"
            case list() | tuple() | collections.deque():
                items, others = held(a), held(b)
                require(len(items) == len(others), items, others, path)
                for index, (x, y) in enumerate(zip(items, others, strict=True)):
                    yield x, y, f"{path}[{index}]"
                if isinstance(a, collections.deque):
                    require(a.maxlen == b.maxlen, a, b, path)
            case set() | frozenset():
                items, others = held(a), held(b)
                plain = all(type(item) in ATOMS for item in items)
                require(len(items) == len(others) and (not plain or set(items) == set(others)), items, others, path)
            case _ if hasattr(type(a), "__next__") and type(a).__module__ in ("builtins", "itertools"):
                yield reduced(a), reduced(b), f"{path} (iterator)"
            case int() | float() | str() | bytes() | complex():
                require(type(a).__mro__[-2].__repr__(a) == type(b).__mro__[-2].__repr__(b), a, b, path)
            case slice() | range() | torch.dtype() | torch.device() | bytearray():
                require(a == b, a, b, path)

    def _attributes(self, a: Any, b: Any, path: Path) -> Iterator[Pair]:
        state = getattr(a, "__dict__", None)
        if isinstance(a, RemovableHandle):
            return
        if type(state) is dict:
            yield state, b.__dict__, f"{path}.__dict__"
        for kind, twin in zip(type(a).__mro__, type(b).__mro__, strict=True):
            for name, member in list(vars(kind).items()):
                if type(member) is types.MemberDescriptorType and kind.__flags__ & (1 << 9):
                    yield slot(member, a), slot(vars(twin)[name], b), f"{path}.{name}"

    def _class(self, a: type, b: type, path: Path) -> Iterator[Pair]:
        require(same_type(a, b), a, b, path)
        left, right = public(a), public(b)
        require(list(left) == list(right), list(left), list(right), f"{path}.__dict__")
        for name, value in left.items():
            if type(value) is not types.MemberDescriptorType and type(value) is not types.GetSetDescriptorType:
                yield value, right[name], f"{path}.{name}"

    def _tensor(self, a: torch.Tensor, b: torch.Tensor, path: Path) -> Iterator[Pair]:
        if is_lazy(a):
            return
        facts = [
            (
                t.dtype, tuple(t.shape), t.layout, t.requires_grad, history(t), t.is_inference(),
                t.is_conj(), t.is_neg(), t.device,
            )
            for t in (a, b)
        ]  # fmt: skip
        require(facts[0] == facts[1], facts[0], facts[1], path)
        strided = a.layout is torch.strided
        if not strided:
            a, b = a.to_dense(), b.to_dense()
        require(a.stride() == b.stride(), a.stride(), b.stride(), f"{path}.stride()")
        if a.numel() and strided:
            require(a.storage_offset() == b.storage_offset(), a.storage_offset(), b.storage_offset(), f"{path} offset")
            storages = a.untyped_storage().data_ptr(), b.untyped_storage().data_ptr()
            require(self._storages.setdefault(storages[0], storages[1]) == storages[1], a, b, f"{path}: storage")
            require(self._storages.setdefault(-storages[1], -storages[0]) == -storages[0], a, b, f"{path}: storage")
        equal = torch.allclose(a.detach(), b.detach(), rtol=1e-5 * self._scale, atol=1e-6 * self._scale, equal_nan=True)
        require(equal, a.detach(), b.detach(), path)
        if history(a) == (True, True):
            yield a.grad, b.grad, f"{path}.grad"


#: How the contents of containers are read without asking a class of the program.
CONTENTS: dict[type, Any] = {
    collections.OrderedDict: collections.OrderedDict.items,
    dict: dict.items,
    types.MappingProxyType: types.MappingProxyType.items,
    list: list.__iter__,
    tuple: tuple.__iter__,
    collections.deque: collections.deque.__iter__,
    set: set.__iter__,
    frozenset: frozenset.__iter__,
}


def held(container: Any) -> list[Any]:
    """The items of a list, tuple or set, the pairs of a dict."""
    return list(next(read for kind, read in CONTENTS.items() if isinstance(container, kind))(container))


def history(tensor: torch.Tensor) -> Any:
    """Whether the tensor is a leaf and has a history; or what autograd says of it, where a view has lost it."""
    try:
        return tensor.is_leaf, tensor.grad_fn is None
    except RuntimeError as error:
        return str(error)


def require(holds: bool, a: Any, b: Any, path: Path) -> None:
    if not holds:
        raise Different(f"{path}: {short(a)} became {short(b)}")


def same_alias(known: dict[int, int], a: Any, b: Any) -> bool:
    return known.get(id(a), id(b)) == id(b)


IMMUTABLE = (
    tuple, frozenset, str, bytes, int, float, types.MethodType, types.BuiltinFunctionType, torch.device, torch.dtype,
)  # fmt: skip


def immutable(value: Any) -> bool:
    """Whether nobody can tell two equal ones apart, but by `is`."""
    return isinstance(value, IMMUTABLE)


def same_type(a: type, b: type) -> bool:
    return a is b or (
        a.__qualname__ == b.__qualname__ and a.__module__ == b.__module__ and len(a.__mro__) == len(b.__mro__)
    )


def close(a: complex, b: complex, scale: float) -> bool:
    if a != a or b != b:
        return a != a and b != b
    if isinstance(a, float) and isinstance(b, float):
        is_close = math.isclose(a, b, rel_tol=1e-5 * scale, abs_tol=1e-7 * scale)
        return is_close and math.copysign(1, a) == math.copysign(1, b)
    return abs(a - b) < 1e-5 * scale


def public(cls: type) -> dict[str, Any]:
    return {name: value for name, value in vars(cls).items() if name not in SKIPPED_CLASS_NAMES}


def contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return "<empty>"


def slot(member: Any, value: Any) -> Any:
    try:
        return member.__get__(value, type(value))
    except AttributeError:
        return "<unset>"


def reduced(iterator: Any) -> Any:
    try:
        return iterator.__reduce__()[1:]
    except TypeError:
        return None


def short(value: Any) -> str:
    return repr(value)[:200]
