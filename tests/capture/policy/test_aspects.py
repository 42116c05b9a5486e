"""What programs ask of tensors and of native objects from outside: each answer holds for the object that is asked."""

from __future__ import annotations

import argparse
import array
import builtins
import collections
import contextvars
import copy
import ctypes
import datetime
import decimal
import fractions
import io
import ipaddress
import itertools
import pathlib
import pickle
import queue
import random
import re
import struct
import sys
import threading
import time
import types
import uuid
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph


def plain() -> torch.Tensor:
    return torch.arange(6.0).reshape(2, 3)


def leaf() -> torch.Tensor:
    return plain().requires_grad_()


def computed() -> torch.Tensor:
    return leaf() * 1


def with_gradient() -> torch.Tensor:
    x = leaf()
    x.grad = torch.ones(2, 3)
    return x


def with_attribute() -> torch.Tensor:
    x = plain()
    x.note = 3  # type: ignore[attr-defined]
    return x


def of_inference() -> torch.Tensor:
    with torch.inference_mode():
        return plain()


def parameter() -> torch.Tensor:
    return torch.nn.Parameter(plain())


def buffer() -> torch.Tensor:
    return torch.nn.Buffer(plain())


def rows() -> torch.Tensor:
    return torch.zeros(4, 3)[1:3]


def written() -> torch.Tensor:
    return plain().add_(1)


def retaining() -> torch.Tensor:
    x = computed()
    x.retain_grad()
    return x


def hooked() -> torch.Tensor:
    x = leaf()
    x.register_hook(lambda gradient: gradient)
    return x


def conjugated() -> torch.Tensor:
    return torch.ones(2, 3, dtype=torch.complex64).conj()


def negated() -> torch.Tensor:
    return conjugated().imag


TENSORS = (
    plain, leaf, computed, with_gradient, with_attribute, of_inference, parameter, buffer, rows, lambda: plain().t(),
    lambda: torch.zeros(1, 3).expand(2, 3), written, retaining, hooked, conjugated, negated,
    lambda: torch.zeros(2, 3, device="meta"), lambda: plain().to(torch.complex64),
)  # fmt: skip

ASKED_OF_TENSORS = """
x.is_leaf
x.requires_grad
x.grad
x._grad is None
getattr(x, 'note', None)
hasattr(x, 'fake_mode')
hasattr(x, 'item_memo')
x.is_inference()
type(x).__name__
isinstance(x, torch.nn.Parameter)
isinstance(x, torch.nn.Buffer)
x.storage_offset()
x.stride()
x.is_conj()
x.is_neg()
x._version
x.retains_grad
x.grad_fn is None
x._is_view()
x.__dict__
x.grad_dtype if hasattr(x, 'grad_dtype') else None
x.is_meta
x.layout
x.untyped_storage().nbytes()
x._typed_storage()._size() if not x.is_meta else None
x.storage_type() if not x.is_meta else None
x._backward_hooks is None
x.output_nr
dir(x)
x.__dir__()[:3]
x.__repr__()
x.__str__()
x.__format__('')
repr(x)
object.__repr__(x)[:20]
object.__sizeof__(x)
sys.getsizeof(x)
x.__sizeof__()
x.__hash__() == id(x)
hash(x) == id(x)
x.__getstate__() if hasattr(x, '__getstate__') else None
x.__reduce_ex__(4)[0].__name__ if not x.is_conj() else None
len(pickle.dumps(x)) if not (x.grad_fn or x.is_meta) else None
copy.copy(x).shape
x.detach()._version
x.contiguous() is x
x.real.dtype
x.resolve_conj() is x
x.is_inference() and x[0]._is_view()
""".strip().splitlines()


def shown(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{tuple(value.shape)} {value.stride()} {[] if value.is_meta else value.tolist()}"
    return repr(value)


def answer(function: Callable[..., Any], *args: Any) -> str:
    try:
        return shown(function(*args)[0])
    except (AttributeError, RuntimeError, TypeError) as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.filterwarnings("ignore:backward hook")
@pytest.mark.parametrize("question", ASKED_OF_TENSORS)
def test_what_is_asked_of_a_tensor(question: str) -> None:
    scope: dict[str, Any] = {"torch": torch, "sys": sys, "pickle": pickle, "copy": copy}
    exec(f"def f(x): return ({question}), x.shape", scope)
    compiled = onegraph.compile(scope["f"], backend="eager")
    for make in (*TENSORS, *TENSORS[::-1]):
        x = make()
        assert answer(compiled, x) == answer(scope["f"], x), make


class OwnQueue(queue.SimpleQueue):  # type: ignore[type-arg]
    pass


class OwnText(io.StringIO):
    pass


class OwnArray(array.array):  # type: ignore[type-arg]
    pass


class OwnStruct(struct.Struct):
    pass


class OwnStructure(ctypes.Structure):
    _fields_ = [("a", ctypes.c_int)]


class OwnDate(datetime.datetime):
    pass


class OwnDecimal(decimal.Decimal):
    pass


class OwnBytes(bytearray):
    pass


class OwnCount(itertools.count):  # type: ignore[type-arg]
    pass


def filled_queue(n: int) -> Any:
    made = OwnQueue()
    for item in range(n):
        made.put(item)
    return made


def local(n: int) -> Any:
    made = threading.local()
    made.a = n
    return made


def event(n: int) -> Any:
    made = threading.Event()
    if n > 1:
        made.set()
    return made


#: What is made from a number, and what is asked of it.
NATIVE: dict[str, tuple[Callable[[int], Any], str]] = {
    "queue": (filled_queue, "o.qsize()"),
    "text": (lambda n: OwnText("abc" * n), "o.getvalue(), o.read()"),
    "array": (lambda n: OwnArray("i", range(n)), "len(o), list(o)"),
    "struct": (lambda n: OwnStruct("i" * n), "o.size"),
    "structure": (OwnStructure, "o.a"),
    "date": (lambda n: OwnDate(2020, 1, n), "o.day, o.isoformat()"),
    "decimal": (OwnDecimal, "o + 1, str(o)"),
    "bytes": (OwnBytes, "len(o)"),
    "count": (OwnCount, "next(o)"),
    "local": (local, "o.a"),
    "variable": (lambda n: contextvars.ContextVar(f"a{n}", default=n), "o.get()"),
    "event": (event, "o.is_set()"),
    "record": (lambda n: time.gmtime(n * 86400), "o.tm_mday, o[2], str(o)"),
    "delta": (datetime.timedelta, "o.days"),
    "zone": (lambda n: datetime.timezone(datetime.timedelta(hours=n)), "str(o)"),
    "fraction": (lambda n: fractions.Fraction(n, 7), "o + 1"),
    "identifier": (lambda n: uuid.UUID(int=n), "o.int"),
    "address": (ipaddress.ip_address, "str(o)"),
    "path": (lambda n: pathlib.Path("a" * n), "o.name, str(o)"),
    "pattern": (lambda n: re.compile("a" * n), "o.pattern"),
    "view": (lambda n: memoryview(bytes(n)), "len(o)"),
    "slice": (slice, "o.stop"),
    "proxy": (lambda n: types.MappingProxyType(dict.fromkeys(range(n))), "len(o), list(o)"),
    "storage": (lambda n: torch.zeros(n).untyped_storage(), "o.nbytes()"),
    "typed storage": (lambda n: torch.zeros(n)._typed_storage(), "o._size(), o._element_size()"),
    "generator": (lambda n: torch.Generator().manual_seed(n), "o.initial_seed()"),
    "limits": (lambda n: torch.finfo([torch.float16, torch.float32, torch.float64][n - 1]), "o.max"),
    "counter": (lambda n: collections.Counter("a" * n), "o['a'], o.total()"),
    "namespace": (lambda n: argparse.Namespace(a=n), "o.a"),
    "context": (lambda n: decimal.Context(prec=n), "o.prec, o.divide(1, 3)"),
    "random": (random.Random, "o.random()"),
    "number": (ctypes.c_int, "o.value"),
    "wrapper": (lambda n: list(range(n)).__len__, "o(), o.__call__(), o.__call__.__call__()"),
    "maximum": (lambda n: torch.max(plain() + n, 0), "o.values.tolist(), o[1]"),
}


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@pytest.mark.parametrize("kind", NATIVE)
def test_what_is_asked_of_a_native_object(kind: str) -> None:
    make, question = NATIVE[kind]
    scope: dict[str, Any] = {"torch": torch}
    exec(f"def f(x, o): return ({question}), x + 1", scope)
    compiled = onegraph.compile(scope["f"], backend="eager")
    for n in (1, 2, 3, 1, 2):
        assert answer(compiled, torch.zeros(1), make(n)) == answer(scope["f"], torch.zeros(1), make(n))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_views_in_no_grad_take_part_in_gradients_as_what_their_input_views(backend: str) -> None:
    def views(x: torch.Tensor) -> Any:
        with torch.no_grad():
            flat, twice = x.flatten(), x * 2
            known = flat.requires_grad, flat.is_leaf, x[0].requires_grad, twice.requires_grad
        later = flat * 3
        return later, known, later.requires_grad, x * 2

    inputs = (
        lambda: torch.ones(2)[None].requires_grad_(),  # a leaf that is a view of a tensor without gradients
        lambda: torch.ones(1, 2).requires_grad_(),
        lambda: torch.ones(2)[None].requires_grad_()[:, :],
        lambda: (torch.ones(2).requires_grad_() * 1)[None],
        lambda: torch.nn.Parameter(torch.ones(1, 2)),
        lambda: torch.ones(1, 2),
    )
    for makes in (inputs, inputs[::-1]):
        compiled = onegraph.compile(views, backend=backend)
        for make in makes:
            expected, found = views(make()), compiled(make())
            assert found[1:3] == expected[1:3]
            for ours, theirs in zip((found[0], found[3]), (expected[0], expected[3]), strict=True):
                assert torch.equal(ours, theirs) and ours.requires_grad == theirs.requires_grad


def test_the_name_of_a_function_may_change() -> None:
    def named() -> None:
        pass

    holder = [named]
    compiled = onegraph.compile(
        lambda x: (x + 1, holder[0].__name__, holder[0].__doc__), backend="eager", fullgraph=True
    )
    for name in ("first", "second"):
        named.__name__, named.__doc__ = name, name.upper()
        assert compiled(torch.zeros(1))[1:] == (name, name.upper())


def test_what_programs_read_from_libraries_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: torch.Tensor) -> Any:
        return x + 1, sys.argv[-1], len(warnings.filters), "of_this_test" in sys.modules, getattr(builtins, "mine", 0)

    compiled, x = onegraph.compile(f, backend="eager", fullgraph=True), torch.zeros(2)

    def same() -> None:
        assert compiled(x)[1:] == f(x)[1:]

    same()
    monkeypatch.setattr(sys, "argv", ["another"])
    same()
    monkeypatch.setattr(warnings, "filters", [])
    same()
    monkeypatch.setitem(sys.modules, "of_this_test", sys)
    same()
    monkeypatch.setattr(builtins, "mine", 3, raising=False)
    same()
    monkeypatch.undo()
    same()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "lowered", "native"])
@torch.no_grad()
def test_a_module_with_hooks_in_the_place_of_one_without(backend: str) -> None:
    model, other = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()), torch.nn.Linear(2, 2)
    settings = {"verify": False, "smallest_recorded_graph": 0}  # a checker would write the code of graphs
    compiled, x = onegraph.compile(model, backend=backend, fullgraph=True, options=settings), torch.ones(2)
    assert torch.equal(compiled(x), model(x))
    other.register_forward_hook(lambda module, inputs, output: output + 1)
    model[0] = other
    assert torch.equal(compiled(x), model(x))
    model[0] = torch.nn.Linear(2, 2)
    handle = torch.nn.modules.module.register_module_forward_hook(lambda module, inputs, output: output * 2)
    try:
        assert torch.equal(compiled(x), model(x))
    finally:
        handle.remove()
    assert torch.equal(compiled(x), model(x))
