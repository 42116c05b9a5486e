"""NumPy's functions in terms of torch give what NumPy gives: values, types, shapes, arrays or scalars."""

from __future__ import annotations

import operator
import warnings
from typing import Any

import numpy as np
import pytest
import torch

from onegraph.torchlib.arrays.array import Array
from onegraph.torchlib.arrays.elements import Unsupported, as_array, as_scalar, as_tensor
from onegraph.torchlib.arrays.functions import FUNCTIONS, call
from tests.torchlib.array_samples import Draw, calls_of

TOLERANCE = {"float16": 2e-3, "float32": 2e-5, "complex64": 2e-5}


def wrapped(value: Any) -> Any:
    """The arrays in a value in terms of tensors."""
    if isinstance(value, np.ndarray):
        return Array(torch.from_numpy(value.copy()))
    return type(value)(map(wrapped, value)) if isinstance(value, list | tuple) else value


def unwrapped(value: Any) -> Any:
    if isinstance(value, Array):
        return as_scalar(value.read()) if value.is_scalar else as_array(value.read())
    return type(value)(map(unwrapped, value)) if isinstance(value, list | tuple) else value


def is_same(wanted: Any, found: Any) -> bool:
    if isinstance(wanted, list | tuple):
        return type(wanted) is type(found) and len(wanted) == len(found) and all(map(is_same, wanted, found))
    if type(wanted) is not type(found):
        return False
    if not isinstance(wanted, np.ndarray | np.generic):
        return bool(wanted == found)
    if wanted.dtype != found.dtype or wanted.shape != found.shape:
        return False
    tolerance = TOLERANCE.get(wanted.dtype.name, 1e-10)
    return np.allclose(wanted, found, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize(
    "function", FUNCTIONS, ids=lambda function: getattr(function, "__qualname__", "").split(".")[-1]
)
def test_function(function: Any) -> None:
    """Of each call NumPy's result, or NumPy is left to do it; some of them are done here."""
    done = 0
    for args, kwargs in calls_of(function, Draw(seed=0)):
        try:
            found = unwrapped(call(FUNCTIONS[function], wrapped(args), wrapped(kwargs)))
        except Unsupported:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = function(*args, **kwargs)
        if function in (np.empty, np.empty_like):  # of which the contents are anything
            wanted, found = np.zeros_like(wanted), np.zeros_like(found)
        assert is_same(wanted, found), (args, kwargs, wanted, found)
        done += 1
    assert done


BASIC = (
    0, -1, np.s_[1:], np.s_[::-1], np.s_[::-2], np.s_[3:0:-1], np.s_[..., 0], np.s_[:, None], np.s_[1, 2],
    np.s_[:, ::-1], np.s_[::-1, ::-1], np.s_[5:1], np.s_[-3:-1, 1], np.int64(1), np.s_[..., None, :2],
)  # fmt: skip
ADVANCED = (
    np.array([0, 2, -1]), [1, 0], np.s_[:, [0, 1]], np.array([[True] * 5] * 4),
    np.s_[np.array([1, 2]), np.array([0, 3])], np.array([True, False, True, False]),
    np.s_[np.array([1, 2]), 1], np.s_[2, [0, 1, 3]], np.s_[np.array(2), 1], np.s_[np.array(3)],
    np.s_[1, np.array([[0], [1]])],
)  # fmt: skip


@pytest.mark.parametrize("index", (*BASIC, *ADVANCED), ids=str)
@pytest.mark.parametrize("before", (np.s_[:], np.s_[::-1], np.s_[:, ::-1]), ids=str)
def test_items(before: Any, index: Any) -> None:
    array = np.arange(20.0).reshape(4, 5)
    made = Array(torch.from_numpy(array.copy()))[before]
    array = array[before]
    assert is_same(array[index], unwrapped(made[wrapped(index)]))


@pytest.mark.parametrize("index", (*BASIC, *ADVANCED), ids=str)
@pytest.mark.parametrize("value", (7, 0.5, np.float32(3), True), ids=repr)
def test_writes(index: Any, value: Any) -> None:
    for before in (np.s_[:], np.s_[:, ::-1]):
        array = np.arange(20).reshape(4, 5)
        base = torch.from_numpy(array.copy())
        try:
            Array(base)[before][wrapped(index)] = value
        except Unsupported:
            assert before != np.s_[:]
            continue
        array[before][index] = value
        assert np.array_equal(array, base.numpy())


def test_a_view_that_runs_backwards_is_of_the_same_memory() -> None:
    base = torch.arange(6.0)
    view = Array(base)[::-1]
    base[0] = 9
    view[1:3] = Array(torch.tensor([7.0, 8.0]))
    assert view.read().tolist() == [5, 7, 8, 2, 1, 9] and base.tolist() == [9, 1, 2, 8, 7, 5]


def test_a_scalar_is_no_view() -> None:
    base = torch.arange(3.0)
    item, array = Array(base)[0], Array(base)[0, ...]
    base[0] = 9
    assert item.is_scalar and float(item) == 0 and not array.is_scalar and float(array) == 9


@pytest.mark.parametrize("name", "iadd isub imul ifloordiv imod ipow iand ior ixor ilshift irshift".split())
def test_operators_in_place(name: str) -> None:
    array, operate = np.arange(1, 5), getattr(operator, name)
    made = Array(torch.from_numpy(array.copy()))
    assert operate(made, 2) is made
    assert np.array_equal(operate(array, 2), made.read().numpy())


NAN = float("nan")


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "bool", "float32", "complex64"])
@pytest.mark.parametrize("value", [5, -1, 300, 2**40, 0.5, NAN, 1e300, 1j, [1, 2], [300, 0], [NAN, 1], True], ids=str)
def test_what_a_type_does_not_hold(value: Any, dtype: str) -> None:
    """NumPy refuses some numbers, and warns of others: it is left to it."""
    array = np.zeros(2, dtype)
    calls = {
        "setitem": lambda a: a.__setitem__(slice(None), value),
        "masked": lambda a: a.__setitem__(
            wrapped(np.array([True, True])) if isinstance(a, Array) else [True, True], value
        ),
    }
    for name, call_it in calls.items():
        if name == "masked" and isinstance(value, list):
            continue
        made, own = Array(torch.from_numpy(array.copy())), array.copy()
        try:
            call_it(made)
        except (Unsupported, RuntimeError):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call_it(own)
        assert is_same(own, as_array(made.read())), (name, own, made.read())
    for function, args in ((np.array, (value, dtype)), (np.full, (2, value, dtype)), (np.full_like, (array, value))):
        try:
            found = unwrapped(call(FUNCTIONS[function], wrapped(args), {}))
        except Unsupported:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert is_same(function(*args), found), (function, found)


def test_refusals() -> None:
    """What NumPy refuses, or does in a way that has no place here, is left to it."""
    array, read_only = Array(torch.arange(3)), Array(torch.arange(3), is_writeable=False)
    refused = (
        lambda: array.__iadd__(0.5),
        lambda: read_only.__setitem__(0, 1),
        lambda: read_only.__iadd__(1),
        lambda: array.__pow__(Array(torch.arange(3))),
        lambda: array[::-1].view(),
        lambda: hash(array),
        lambda: call(FUNCTIONS[np.add], (array, 2**70), {}),
        lambda: call(FUNCTIONS[np.reshape], (array, (2, 2)), {}),
        lambda: call(FUNCTIONS[np.sin], (object(),), {}),
    )
    for refusal in refused:
        with pytest.raises(Unsupported):
            refusal()


def test_arrays_without_a_tensor() -> None:
    frozen = np.ones(3)
    frozen.flags.writeable = False
    others = (
        frozen, np.ones(3)[::-1], np.ones(3, np.uint16), np.ones(3, ">f4"), np.zeros(3, [("x", "f4")]),
        np.ma.masked_array([1.0]), np.array(["a"]), np.array([None]), np.array(["2000-01-01"], "M8[D]"),
        np.zeros(3, np.longdouble), np.zeros(25, np.uint8)[1:].view(np.float64),
    )  # fmt: skip
    assert all(as_tensor(array) is None for array in others)
    shared = np.zeros((3, 4))[:, ::2]
    as_tensor(shared)[0] = 1
    assert shared[0].tolist() == [1, 1]
