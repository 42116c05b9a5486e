"""The names of modules, classes and functions, used as dicts: of one mind with the names themselves."""

from __future__ import annotations

import builtins
import contextlib
import sys
import types

import torch

from tests.capture.twins import Cases

case = Cases()

settings = types.ModuleType("settings_of_a_program")
settings.scale = 2
settings.history = []
limit = 3


class Box:
    kind = 4
    items = []


def helper(x):
    return x * limit


helper.calls = 0


def change():
    global limit
    limit += 1
    settings.scale += 1
    settings.extra = 1
    Box.kind += 1
    Box.extra = 1
    helper.calls += 1


def given():
    return (torch.ones(3),)


@case(given, change)
def reads_of_a_module(x):
    names = vars(settings)
    return x * names["scale"], names.get("missing"), "extra" in names, sorted(n for n in names if n[0] != "_")


@case(given, change)
def writes_to_a_module(x):
    names = settings.__dict__
    names["history"].append(1)
    names["scale"] += 1
    names["made"] = x
    y = x * settings.scale
    del names["made"]
    return y, len(settings.history), hasattr(settings, "made")


@case(given, change)
def reads_of_a_class(x):
    return (
        x * vars(Box)["kind"],
        "extra" in Box.__dict__,
        Box.__dict__.get("missing"),
        [n for n in vars(Box) if n[0] != "_"],
    )


@case(given, change)
def writes_through_a_class(x):
    vars(Box)["items"].append(2)
    return x * len(Box.items)


@case(given)
def class_names_are_read_only(x):
    names = vars(Box)
    try:
        names["kind"] = 1
    except TypeError as error:
        return x + 1, str(error), type(names)


@case(given)
def class_names_cross_a_break(x):
    names = Box.__dict__
    y = x + 1
    print("between")
    return y * names["kind"], type(names), names == Box.__dict__


@case(given, change)
def function_attributes(x):
    before = helper.calls
    names = helper.__dict__
    names["calls"] += 1
    names["made"] = 1
    return x * helper.calls, before, helper.made, sorted(vars(helper))


@case(given)
def deleted_function_attribute(x):
    helper.__dict__["made"] = 1
    there = hasattr(helper, "made")
    del helper.__dict__["made"]
    return x + 1, there, hasattr(helper, "made")


@case(given, change)
def globals_of_a_function(x):
    global limit
    limit += 1
    names = helper.__globals__
    names["limit"] += 1
    limit += 1
    return helper(x), names["limit"], names is helper.__globals__


@case(given, change)
def globals_behind_a_break(x):
    y = x + 1
    names = globals()
    names["limit"] += 1
    names["fresh"] = y
    return helper(y), fresh  # noqa: F821


@case(given)
def function_of_the_globals(x):
    return types.FunctionType(helper.__code__, helper.__globals__)(x)


@case(given)
def deleted_global(x):
    global limit
    kept = limit
    del limit
    try:
        limit
    except NameError as error:
        found = str(error)
    limit = kept
    return x + 1, found, list(sys.modules[__name__].__dict__)[-1]


@case(given)
def deleted_global_that_is_a_builtin(x):
    global len
    try:
        del len
    except NameError as error:
        return x + 1, str(error)


@case(given)
def deleted_builtin(x):
    names = builtins.__dict__
    kept = names["abs"]
    del names["abs"]
    try:
        gone = not hasattr(builtins, "abs")
        y = x + 1
        with contextlib.suppress(NameError):
            y = abs(y)
    finally:
        names["abs"] = kept
    return y, gone, abs(-1)


@case(lambda: (*given(), {"a": 1, "b": [2], "c": 3}))
def reordered_dict(x, names):
    names["a"] = names.pop("a")
    names["b"].append(x)
    names["d"] = 4
    return x + 1, list(names)


class Annotated:
    width: int = 1


class Heir(Annotated):
    pass


@case(given, lambda: setattr(Annotated, "__annotations__", {"height": int}))
def annotations_of_classes(x):
    Annotated.__annotations__["depth"] = int
    return x + 1, list(Annotated.__annotations__), list(Heir.__annotations__)


@case(given)
def annotations_that_a_class_gets(x):
    class Local:
        pass

    before = "__annotations__" in vars(Box)
    return x + 1, before, Box.__annotations__, "__annotations__" in vars(Box), Local.__annotations__
